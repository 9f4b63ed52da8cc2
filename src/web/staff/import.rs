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
use crate::domain::import::{Plan, Reading, Table};
use crate::domain::role::Act;
use crate::domain::when;
use crate::waitlist::import::{self, Request, StartOutcome};

mod look;
mod pages;

use look::{Asked, Look};
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
    let (bytes, opened) = apart(move || {
        let opened = Table::open(&bytes).map(drop);
        (bytes, opened)
    })
    .await?;
    if let Err(why) = opened {
        errors.add("file", why);
        return upload_page(&state, &staff, event, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
    }
    let id = state.db.for_workers().keep_upload(event.id, &name, &bytes, Some(staff.member.id)).await?;
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
    let look = look_at(&state, &event, &import, Asked::from_form(&query), staff.now).await?;
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
    } else if let Some(reading) = import.reading.clone() {
        plan = kept_plan(state, &import, reading, staff.now).await?;
    }
    Ok(Page(ProgressPage { layout, frame: EventFrame::new(event, Tab::Queue, staff.now), import, plan })
        .into_response())
}

/// What a file became whose import is done, while the file is kept.
async fn kept_plan(
    state: &WebState,
    import: &Import,
    reading: Reading,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<Option<Plan>, Error> {
    let Some(bytes) = state.db.for_workers().import_content(import.event, import.id).await? else {
        return Ok(None);
    };
    let already = import.already.clone();
    let plan = apart(move || {
        let mut plan = reading.plan(&bytes, now).ok()?;
        plan.leave_out(&already);
        Some(plan)
    });
    plan.await
}

/// Reads the kept file as asked for, and leaves out whoever is on the list already.
async fn look_at(
    state: &WebState,
    event: &Event,
    import: &Import,
    asked: Asked,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<Look, Error> {
    let content = state.db.for_workers().import_content(event.id, import.id).await?.ok_or(Error::NotFound)?;
    let empty = import::reading(&state.db, event, Vec::new()).await?;
    let mut look = apart(move || Look::at(content, &asked, &empty, now)).await?;
    if let Ok(plan) = &mut look.plan {
        let listed = state.db.for_workers().listed_among(event, &plan.people).await?;
        plan.leave_out(&listed);
    }
    Ok(look)
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
    let content = state.db.for_workers().import_content(event.id, id).await?.ok_or(Error::NotFound)?;
    let empty = import::reading(&state.db, &event, Vec::new()).await?;
    let (asked, now) = (Asked::from_form(&form), staff.now);
    let look = apart(move || Look::at(content, &asked, &empty, now)).await?;
    let mut errors = Errors::default();
    let outcome = match &look.plan {
        Ok(plan) => {
            let request = Request {
                file_name: &import.file_name,
                bytes: &look.bytes,
                reading: &look.reading,
                plan,
                upload: Some(id),
                tell: form.get("tell").is_some_and(|tell| tell == "yes"),
                by: Some(staff.member.id),
            };
            import::start(&state.db.for_workers(), event.id, &request).await?
        }
        Err(_) => {
            return preview_page(
                &state,
                &staff,
                event,
                import,
                look,
                errors,
                StatusCode::UNPROCESSABLE_ENTITY,
            )
            .await;
        }
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
    let plan = match import.reading.clone() {
        Some(reading) => kept_plan(&state, &import, reading, staff.now).await?,
        None => look_at(&state, &event, &import, Asked::from_form(&query), staff.now).await?.plan.ok(),
    };
    let csv = pages::report_csv(&plan.ok_or(Error::NotFound)?).map_err(Error::internal)?;
    Ok((
        [
            (CONTENT_TYPE, "text/csv; charset=utf-8"),
            (CONTENT_DISPOSITION, "attachment; filename=\"import-report.csv\""),
        ],
        csv,
    )
        .into_response())
}

/// Runs what takes a second away from the threads that answer requests.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
    tokio::task::spawn_blocking(work).await.map_err(Error::internal)
}

fn path(event: EventId, import: ImportId) -> String {
    format!("/staff/events/{event}/import/{import}")
}
