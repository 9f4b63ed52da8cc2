//! An event's places: what has each, adding many, retiring some.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, FilterLink, Layout, Page, Tone};
use super::super::wants::{Field, read_said, said_fields};
use super::Staff;
use super::act::{ActForm, ActPage, ActQuery, done};
use super::frame::{EventFrame, Tab, back_query, isolated, path, places};
use crate::clock::Entropy;
use crate::db::pages_places::PlaceLine;
use crate::domain::attribute::Typed;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, PlaceId};
use crate::domain::label;
use crate::domain::place::{PlaceCounts, PlaceState};
use crate::domain::reason::Reason;
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::places::{AddPlacesOutcome, PLACES_MAX, RetireOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/places", get(list).post(add))
        .route("/events/{event}/places/lower", get(begin_lower).post(lower))
        .route("/events/{event}/places/{place}/retire", get(begin_retire).post(retire))
}

const ROWS: usize = 100;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListQuery {
    state: String,
    after: String,
}

/// What the form that adds places holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct AddForm {
    count: String,
    labels: String,
    once: String,
    #[serde(flatten)]
    said: Typed,
}

#[derive(Template)]
#[template(path = "staff/places.html")]
struct PlacesPage {
    layout: Layout,
    frame: EventFrame,
    filters: Vec<FilterLink>,
    counts: PlaceCounts,
    rows: Vec<PlaceLine>,
    next: Option<String>,
    view: String,
    form: AddForm,
    said: Vec<Field>,
    errors: Errors,
    may_edit: bool,
    may_release: bool,
}

impl PlacesPage {
    fn sentence(&self) -> String {
        let counts = self.counts;
        if counts.capacity() == 0 && counts.retire_when_free == 0 {
            return "The event has no places yet.".to_owned();
        }
        let over = match counts.retire_when_free {
            0 => String::new(),
            n => format!(" Over by {n}: so many leave the event when they become free."),
        };
        format!(
            "{}: {} booked, {} held, {} open.{over}",
            places(counts.capacity()),
            counts.booked,
            counts.held,
            counts.open
        )
    }

    fn since(&self, row: &PlaceLine) -> When {
        self.frame.when(row.since)
    }

    fn until(&self, row: &PlaceLine) -> Option<When> {
        row.hold.map(|(_, until)| self.frame.when(until))
    }

    fn release(&self, row: &PlaceLine) -> Option<String> {
        let back = back_query(&self.view);
        match (&row.booking, row.hold) {
            (Some((booking, _)), _) => Some(self.frame.path(format!("/release/{booking}?{back}"))),
            (None, Some((offer, _))) => Some(self.frame.path(format!("/offers/{offer}/revoke?{back}"))),
            (None, None) => None,
        }
    }

    fn retire(&self, row: &PlaceLine) -> Option<String> {
        (row.state != PlaceState::Retired && !row.retire_when_free)
            .then(|| self.frame.path(format!("/places/{}/retire?{}", row.id, back_query(&self.view))))
    }
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    query: &ListQuery,
    form: AddForm,
    errors: Errors,
) -> Result<Response, Error> {
    let shown = PlaceState::parse(&query.state);
    let by_state = state.db.places_by_state(event.id).await?;
    let counts = state.db.place_counts(event.id).await?;
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.place_lines(event.id, shown, query.after.parse().unwrap_or(0), limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let view = match shown {
        Some(shown) => frame.path(format!("/places?state={shown}")),
        None => frame.path("/places"),
    };
    let next = rows.last().filter(|_| more).map(|row| {
        let joint = if shown.is_some() { '&' } else { '?' };
        format!("{view}{joint}after={}", row.number)
    });
    let mut filters = vec![FilterLink {
        href: frame.path("/places"),
        label: "all".to_owned(),
        count: Some(by_state.iter().map(|(_, n)| n).sum()),
        current: shown.is_none(),
    }];
    filters.extend(PlaceState::ALL.iter().map(|state| FilterLink {
        href: frame.path(format!("/places?state={state}")),
        label: state.to_string(),
        count: Some(by_state.iter().find(|(found, _)| found == state).map_or(0, |(_, n)| *n)),
        current: shown == Some(*state),
    }));
    let layout = staff.event_layout(&frame.event, "Places").await?;
    let said = said_fields(&frame.event.attributes, &form.said);
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = PlacesPage {
        layout,
        frame,
        filters,
        counts,
        rows,
        next,
        view,
        said,
        form,
        errors,
        may_edit: staff.may(Act::EditPlaces),
        may_release: staff.may(Act::ReleasePlaces),
    };
    Ok((status, Page(page)).into_response())
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    let event = staff.event(&state, event).await?;
    let form = AddForm { once: Entropy.id().to_string(), ..AddForm::default() };
    page(&state, &staff, event, &query, form, Errors::default()).await
}

async fn add(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<AddForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let labels = errors.check("labels", label::parse_lines(&form.labels));
    let count: Option<usize> = if form.count.trim().is_empty() {
        None
    } else {
        errors.check("count", form.count.trim().parse().map_err(|_| "Enter a whole number."))
    };
    let once: Option<uuid::Uuid> = errors.check("", form.once.parse().map_err(|_| "Open the form again."));
    let wanted = match (labels, count) {
        (Some(labels), None) if labels.is_empty() => {
            errors.add("count", "Say how many, or name them one a line.");
            vec![]
        }
        (Some(labels), Some(count)) if !labels.is_empty() && labels.len() != count => {
            errors.add(
                "labels",
                format!("You want {} and named {}.", places(i64::try_from(count).unwrap_or(0)), labels.len()),
            );
            vec![]
        }
        (Some(labels), Some(count)) if labels.is_empty() && count <= PLACES_MAX => vec![None; count],
        (Some(labels), _) => labels.into_iter().map(Some).collect(),
        (None, _) => vec![],
    };
    let said = read_said(&event.attributes, &form.said, &mut errors);
    if let (Some(once), Some(said), true) = (once, said, errors.is_empty()) {
        let outcome = state
            .waitlist()
            .add_places(event.id, &wanted, &said, &once.to_string(), staff.actor(), Reason::CapacityChanged)
            .await?;
        let said = match outcome {
            AddPlacesOutcome::Added(count) => Some((
                Tone::Done,
                format!(
                    "Added: {}. If somebody waits, they are offered to the line now.",
                    places(i64::try_from(count).unwrap_or(i64::MAX))
                ),
            )),
            AddPlacesOutcome::Already => {
                Some((Tone::Note, "This form was sent before: nothing was added twice.".to_owned()))
            }
            AddPlacesOutcome::BadNumber => {
                errors.add("count", format!("Add between 1 and {PLACES_MAX} places at a time."));
                None
            }
            AddPlacesOutcome::TooManyKinds => {
                errors.add(
                    "",
                    "This event has as many kinds of places as it can have: say the same as of others.",
                );
                None
            }
            AddPlacesOutcome::LabelTaken => {
                errors.add("labels", "One of these names is in use, or twice in this list.");
                None
            }
        };
        if let Some((tone, said)) = said {
            staff.flash(tone, said).await?;
            return Ok(Redirect::to(&path(event.id, "/places")).into_response());
        }
    }
    page(&state, &staff, event, &ListQuery::default(), form, errors).await
}

/// What retiring does, whichever places.
fn effects() -> Vec<String> {
    vec![
        "Open places leave the event at once.".to_owned(),
        "Nobody loses a place: one that is held or booked leaves when it becomes free, and is not offered again.".to_owned(),
        "Until then the event is over its capacity by so many, and its page says so.".to_owned(),
    ]
}

fn retired(outcome: RetireOutcome) -> (Tone, String) {
    match outcome {
        RetireOutcome::Retired { now, when_free: 0 } => {
            (Tone::Done, format!("Retired: {}.", places(i64::try_from(now).unwrap_or(i64::MAX))))
        }
        RetireOutcome::Retired { now, when_free } => (
            Tone::Done,
            format!(
                "Retired now: {now}. Leaving when free: {when_free}; by so many the event is over its capacity."
            ),
        ),
        RetireOutcome::Already | RetireOutcome::BadNumber(_) => {
            (Tone::Note, "Nothing was changed: they had left, or were to leave, before.".to_owned())
        }
    }
}

async fn retire_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    place: PlaceId,
    form: ActForm,
    errors: Errors,
) -> Result<Response, Error> {
    let place = state.db.find_place(event.id, place).await?;
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let page = ActPage {
        layout: staff.event_layout(&frame.event, "Retire a place").await?,
        heading: format!("Retire {}", isolated(&place.name())),
        effects: effects(),
        action: frame.path(format!("/places/{}/retire", place.id)),
        page: frame.path("/places"),
        button: "Retire the place",
        danger: true,
        choice: None,
        deadline: None,
        number: None,
        form,
        errors,
        frame,
    };
    Ok(page.answer())
}

async fn begin_retire(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, place)): Path<(EventId, PlaceId)>,
    Query(query): Query<ActQuery>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    retire_page(&state, &staff, event, place, ActForm::begun(query), Errors::default()).await
}

async fn retire(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, place)): Path<(EventId, PlaceId)>,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let Some(reason) = form.reason(&mut errors) else {
        return retire_page(&state, &staff, event, place, form, errors).await;
    };
    let place = state.db.find_place(event.id, place).await?;
    let outcome = state.waitlist().retire_places(event.id, &[place.id], staff.actor(), &reason).await?;
    let (tone, said) = retired(outcome);
    done(&staff, tone, said, &form.back, &path(event.id, "/places")).await
}

/// Lowering the capacity: how many, and why.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct LowerForm {
    count: String,
    reason: String,
    note: String,
}

#[derive(Template)]
#[template(path = "staff/places_lower.html")]
struct LowerPage {
    layout: Layout,
    frame: EventFrame,
    counts: PlaceCounts,
    form: LowerForm,
    errors: Errors,
}

impl LowerPage {
    fn effects() -> Vec<String> {
        effects()
    }

    fn reasons() -> Vec<(&'static str, String)> {
        super::words::reasons()
    }
}

async fn lower_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: LowerForm,
    errors: Errors,
) -> Result<Response, Error> {
    let counts = state.db.place_counts(event.id).await?;
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let layout = staff.event_layout(&frame.event, "Lower the capacity").await?;
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    Ok((status, Page(LowerPage { layout, frame, counts, form, errors })).into_response())
}

async fn begin_lower(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    lower_page(&state, &staff, event, LowerForm::default(), Errors::default()).await
}

async fn lower(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<LowerForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let count: Option<usize> =
        errors.check("count", form.count.trim().parse().map_err(|_| "Enter a whole number."));
    let given = ActForm { reason: form.reason.clone(), note: form.note.clone(), ..ActForm::default() };
    let reason = given.reason(&mut errors);
    let (Some(count), Some(reason), true) = (count, reason, errors.is_empty()) else {
        return lower_page(&state, &staff, event, form, errors).await;
    };
    let outcome = state.waitlist().retire_count(event.id, count, staff.actor(), &reason).await?;
    if let RetireOutcome::BadNumber(most) = outcome {
        errors.add("count", format!("Enter a number between 1 and {most}: so many places the event has."));
        return lower_page(&state, &staff, event, form, errors).await;
    }
    let (tone, said) = retired(outcome);
    done(&staff, tone, said, "", &path(event.id, "/places")).await
}
