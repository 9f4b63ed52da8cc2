//! Bringing in a list from a file: upload it, look at what would come of it, start, watch, read the report.
//!
//! Nothing is written to the list before somebody has seen the preview and pressed the button there. A worker does
//! the rest, so that closing the page does no harm.

use std::collections::BTreeMap;

use axum::Router;
use axum::extract::{DefaultBodyLimit, FromRequest, Request as RawRequest, State};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Page, Tone};
use super::super::upload::{READ_LIMIT, VerifiedUpload};
use super::super::{BODY_LIMIT, WebState};
use super::Staff;
use super::frame::{EventFrame, Tab};
use crate::db::import::Import;
use crate::domain::event::{Event, EventState};
use crate::domain::ids::{EventId, ImportId};
use crate::domain::import::{Asked, Look};
use crate::domain::role::Act;
use crate::domain::when;
use crate::waitlist::import::StartOutcome;
use crate::waitlist::uploads;

mod look;
mod pages;

use pages::{PreviewPage, ProgressPage, UploadPage, count};

/// Below an event.
pub(super) fn router() -> Router<WebState> {
    let upload = get(show_upload).post(upload).layer(DefaultBodyLimit::max(READ_LIMIT));
    Router::new()
        .route("/events/{event}/import", upload)
        .route("/events/{event}/import/{import}", get(show).layer(DefaultBodyLimit::max(BODY_LIMIT)))
        .route("/events/{event}/import/{import}/start", post(start))
        .route("/events/{event}/import/{import}/report.csv", get(report))
}

/// Everything here is for managers, on events of their own.
async fn allowed(state: &WebState, staff: &Staff, event: EventId) -> Result<Event, Error> {
    staff.require(Act::Import)?;
    staff.event(state, event).await
}

async fn show_upload(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    let event = allowed(&state, &staff, event).await?;
    upload_page(&state, &staff, event, Errors::default(), StatusCode::OK).await
}

async fn upload_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    errors: Errors,
    status: StatusCode,
) -> Result<Response, Error> {
    let page = UploadPage {
        layout: staff.event_layout(&event, "Import").await?,
        before: state.db.imports(event.id).await?,
        frame: EventFrame::new(event, Tab::Queue, staff.now),
        errors,
    };
    Ok((status, Page(page)).into_response())
}

async fn upload(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    request: RawRequest,
) -> Result<Response, Error> {
    // Who may not import is told so before a large file was read.
    let event = allowed(&state, &staff, event).await?;
    let mut errors = Errors::default();
    let (name, bytes) = match VerifiedUpload::from_request(request, &state).await? {
        VerifiedUpload::File { name, bytes } => (name, bytes),
        VerifiedUpload::Nothing => {
            errors.add("file", "Choose a file.");
            return upload_page(&state, &staff, event, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
        }
        VerifiedUpload::TooLarge => {
            errors.add("file", "The file is larger than 64 MiB. Split it and import the parts in order.");
            return upload_page(&state, &staff, event, errors, StatusCode::PAYLOAD_TOO_LARGE).await;
        }
    };
    let id = match uploads::keep(&state.db, event.id, &name, bytes, staff.actor()).await? {
        Ok(id) => id,
        Err(why) => {
            errors.add("file", why);
            return upload_page(&state, &staff, event, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
        }
    };
    Ok(Redirect::to(&path(event.id, id)).into_response())
}

/// The preview, the progress or the report, by how far the import is.
async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, id)): Path<(EventId, ImportId)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Error> {
    let event = allowed(&state, &staff, event).await?;
    let import = state.db.import(event.id, id).await?;
    if import.started_at.is_some() {
        return progress_page(&state, &staff, event, import).await;
    }
    let look = uploads::look(&state.db, &event, id, Asked::from_form(&query), staff.now).await?;
    let errors = Errors::default();
    preview_page(&state, &staff, event, import, look, errors, StatusCode::OK).await
}

async fn preview_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    import: Import,
    look: Look,
    errors: Errors,
    status: StatusCode,
) -> Result<Response, Error> {
    let mut layout = staff.event_layout(&event, "Import").await?;
    layout.title = format!("Preview of {} – {}", import.file_name, event.name);
    let listed = state.db.entry_counts(event.id).await?.live();
    let page = PreviewPage {
        layout,
        frame: EventFrame::new(event, Tab::Queue, staff.now),
        import,
        look,
        listed,
        errors,
    };
    Ok((status, Page(page)).into_response())
}

async fn progress_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    import: Import,
) -> Result<Response, Error> {
    let mut layout = staff.event_layout(&event, "Import").await?;
    let mut plan = None;
    if import.finished_at.is_none() {
        layout = layout.live(2);
    } else {
        plan = uploads::kept_plan(&state.db, &import, staff.now).await?;
    }
    Ok(Page(ProgressPage { layout, frame: EventFrame::new(event, Tab::Queue, staff.now), import, plan })
        .into_response())
}

async fn start(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, id)): Path<(EventId, ImportId)>,
    VerifiedForm(form): VerifiedForm<BTreeMap<String, String>>,
) -> Result<Response, Error> {
    let event = allowed(&state, &staff, event).await?;
    let import = state.db.import(event.id, id).await?;
    if import.started_at.is_some() {
        // A second click.
        return Ok(Redirect::to(&path(event.id, id)).into_response());
    }
    let mut errors = Errors::default();
    let (asked, tell) = (Asked::from_form(&form), form.get("tell").is_some_and(|tell| tell == "yes"));
    let (look, outcome) =
        uploads::start(&state.db, &event, &import, asked, tell, staff.actor(), staff.now).await?;
    let Some(outcome) = outcome else {
        let status = StatusCode::UNPROCESSABLE_ENTITY;
        return preview_page(&state, &staff, event, import, look, errors, status).await;
    };
    let to = match outcome {
        StartOutcome::Started(id) => id,
        StartOutcome::Resumed(before) => {
            let text = format!(
                "The same file was interrupted after {} of {}. It is carried on from there.",
                before.rows_done,
                count(before.rows_total, "person")
            );
            staff.flash(Tone::Note, text).await?;
            before.id
        }
        StartOutcome::AlreadyDone(before) => {
            let at = when::absolute(before.finished_at.unwrap_or(before.uploaded_at), event.zone);
            staff
                .flash(Tone::Note, format!("The same file was imported on {at}. Nothing was done now."))
                .await?;
            before.id
        }
        StartOutcome::AnotherRuns => {
            errors.add(
                "",
                "Another file is being imported into this list. Wait until it is done, then press again.",
            );
            return preview_page(&state, &staff, event, import, look, errors, StatusCode::CONFLICT).await;
        }
        StartOutcome::EventEnded(ended) => {
            let word = if ended == EventState::Cancelled { "was cancelled" } else { "is over" };
            errors.add("", format!("The event {word}: nobody can be put on its list."));
            return preview_page(&state, &staff, event, import, look, errors, StatusCode::CONFLICT).await;
        }
    };
    Ok(Redirect::to(&path(event.id, to)).into_response())
}

/// The report row by row, as a table that no spreadsheet runs.
async fn report(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, id)): Path<(EventId, ImportId)>,
    Query(query): Query<BTreeMap<String, String>>,
) -> Result<Response, Error> {
    let event = allowed(&state, &staff, event).await?;
    let import = state.db.import(event.id, id).await?;
    let plan = if import.started_at.is_some() {
        uploads::kept_plan(&state.db, &import, staff.now).await?
    } else {
        uploads::look(&state.db, &event, id, Asked::from_form(&query), staff.now).await?.plan.ok()
    };
    let csv = uploads::report_csv(&plan.ok_or(Error::NotFound)?).map_err(Error::internal)?;
    Ok((
        [
            (CONTENT_TYPE, "text/csv; charset=utf-8"),
            (CONTENT_DISPOSITION, "attachment; filename=\"import-report.csv\""),
        ],
        csv,
    )
        .into_response())
}

fn path(event: EventId, import: ImportId) -> String {
    format!("/staff/events/{event}/import/{import}")
}
