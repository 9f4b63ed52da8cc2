//! An event's bookings: who has which place, and booking by hand.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, FilterLink, Layout, Page, Tone};
use super::super::wants::{Field, read_wants, wants_fields};
use super::Staff;
use super::act::ActForm;
use super::frame::{EventFrame, Tab, back_query, isolated, path, places};
use crate::clock::Entropy;
use crate::db::pages_places::BookingLine;
use crate::domain::attribute::Typed;
use crate::domain::booking::{BookingSource, BookingState};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::event::Event;
use crate::domain::ids::{BookingId, EventId, ReleaseId};
use crate::domain::place::PlaceCounts;
use crate::domain::role::Act;
use crate::domain::when::{self, When};
use crate::waitlist::bookings::{Book, BookOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/bookings", get(list))
        .route("/events/{event}/bookings/new", get(begin).post(book))
}

const ROWS: usize = 50;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListQuery {
    state: String,
    q: String,
    before: String,
}

#[derive(Template)]
#[template(path = "staff/bookings.html")]
struct BookingsPage {
    layout: Layout,
    frame: EventFrame,
    filters: Vec<FilterLink>,
    state: BookingState,
    total: i64,
    q: String,
    rows: Vec<BookingLine>,
    releases: Vec<(BookingId, ReleaseId)>,
    next: Option<String>,
    view: String,
    may_book: bool,
    may_release: bool,
}

impl BookingsPage {
    fn sentence(&self) -> String {
        match (self.state, self.total) {
            (BookingState::Confirmed, 0) => "Nobody has a place yet.".to_owned(),
            (BookingState::Confirmed, n) => format!("{} booked.", places(n)),
            (BookingState::Cancelled, 0) => "No booking was cancelled.".to_owned(),
            (BookingState::Cancelled, 1) => "1 booking was cancelled.".to_owned(),
            (BookingState::Cancelled, n) => format!("{n} bookings were cancelled."),
        }
    }

    fn booked(&self, row: &BookingLine) -> When {
        self.frame.when(row.booked_at)
    }

    fn cancelled(&self, row: &BookingLine) -> Option<When> {
        row.cancelled_at.map(|at| self.frame.when(at))
    }

    /// The page of what became of its place.
    fn came_back(&self, row: &BookingLine) -> Option<String> {
        let release = self.releases.iter().find(|(booking, _)| *booking == row.id)?.1;
        Some(self.frame.path(format!("/releases/{release}")))
    }

    fn through(row: &BookingLine) -> &'static str {
        match row.source {
            BookingSource::Offer => "an offer",
            BookingSource::Customer => "the customer",
            BookingSource::Staff => "staff",
        }
    }

    fn release(&self, row: &BookingLine) -> String {
        self.frame.path(format!("/release/{}?{}", row.id, back_query(&self.view)))
    }
}

/// What a page ended with, in an address: "1700000000000000.{id}".
fn before(text: &str) -> Option<(DateTime<Utc>, BookingId)> {
    let (micros, id) = text.split_once('.')?;
    Some((when::from_micros(micros)?, id.parse().ok()?))
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<ListQuery>,
) -> Result<Page<BookingsPage>, Error> {
    let event = staff.event(&state, event).await?;
    let shown = BookingState::parse(&query.state).unwrap_or(BookingState::Confirmed);
    let counts = state.db.bookings_by_state(event.id).await?;
    let count =
        |wanted: BookingState| counts.iter().find(|(state, _)| *state == wanted).map_or(0, |(_, n)| *n);
    let q: String = query.q.trim().chars().take(200).collect();
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.booking_lines(event.id, shown, &q, before(&query.before), limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let cancelled: Vec<BookingId> =
        rows.iter().filter(|row| row.cancelled_at.is_some()).map(|row| row.id).collect();
    let releases = state.db.releases_of_bookings(event.id, &cancelled).await?;
    let frame = EventFrame::new(event, Tab::Bookings, staff.now);
    let view = {
        let mut query = form_urlencoded::Serializer::new(String::new());
        query.append_pair("state", shown.as_str());
        if !q.is_empty() {
            query.append_pair("q", &q);
        }
        frame.path(format!("/bookings?{}", query.finish()))
    };
    let next = rows
        .last()
        .filter(|_| more)
        .map(|row| format!("{view}&before={}.{}", row.booked_at.timestamp_micros(), row.id));
    let filters = BookingState::ALL
        .iter()
        .map(|state| FilterLink {
            href: frame.path(format!("/bookings?state={state}")),
            label: state.to_string(),
            count: Some(count(*state)),
            current: *state == shown,
        })
        .collect();
    Ok(Page(BookingsPage {
        layout: staff.event_layout(&frame.event, "Bookings").await?,
        total: count(shown),
        state: shown,
        filters,
        frame,
        q,
        releases,
        rows,
        next,
        view,
        may_book: staff.may(Act::Book),
        may_release: staff.may(Act::ReleasePlaces),
    }))
}

/// What the form that books by hand holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BookForm {
    name: String,
    email: String,
    party: String,
    override_reservation: String,
    reason: String,
    note: String,
    once: String,
    #[serde(flatten)]
    wants: Typed,
}

#[derive(Template)]
#[template(path = "staff/booking_new.html")]
struct BookPage {
    layout: Layout,
    frame: EventFrame,
    counts: PlaceCounts,
    form: BookForm,
    errors: Errors,
    may_override: bool,
    held_for_list: bool,
    wants: Vec<Field>,
}

impl BookPage {
    fn reasons() -> Vec<(&'static str, String)> {
        super::words::reasons()
    }
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: BookForm,
    errors: Errors,
    held_for_list: bool,
    status: StatusCode,
) -> Result<Response, Error> {
    let counts = state.db.place_counts(event.id).await?;
    let frame = EventFrame::new(event, Tab::Bookings, staff.now);
    let layout = staff.event_layout(&frame.event, "Book by hand").await?;
    let may_override = staff.may(Act::OverrideReservation);
    let wants = wants_fields(&frame.event.attributes, &form.wants);
    let page = BookPage { layout, frame, counts, form, errors, may_override, held_for_list, wants };
    Ok((status, Page(page)).into_response())
}

async fn begin(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::Book)?;
    let event = staff.event(&state, event).await?;
    let form = BookForm { party: "1".to_owned(), once: Entropy.id().to_string(), ..BookForm::default() };
    page(&state, &staff, event, form, Errors::default(), false, StatusCode::OK).await
}

async fn book(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<BookForm>,
) -> Result<Response, Error> {
    staff.require(Act::Book)?;
    let event = staff.event(&state, event).await?;
    let override_reservation = form.override_reservation == "yes";
    if override_reservation {
        staff.require(Act::OverrideReservation)?;
    }
    let mut errors = Errors::default();
    let name = errors.check("name", PersonName::parse(&form.name));
    let email = errors.check("email", EmailAddress::parse(&form.email));
    let party: Option<i32> =
        errors.check("party", form.party.trim().parse().map_err(|_| "Enter a whole number."));
    let once: Option<uuid::Uuid> = errors.check("", form.once.parse().map_err(|_| "Open the form again."));
    let given = ActForm { reason: form.reason.clone(), note: form.note.clone(), ..ActForm::default() };
    let reason = given.reason(&mut errors);
    let unprocessable = StatusCode::UNPROCESSABLE_ENTITY;
    let wants = read_wants(&event.attributes, &form.wants, &mut errors);
    let (Some(name), Some(email), Some(party), Some(wants), Some(once), Some(reason)) =
        (name, email, party, wants, once, reason)
    else {
        return page(&state, &staff, event, form, errors, false, unprocessable).await;
    };
    let waitlist = state.waitlist();
    let person = waitlist.known_person(event.id, &name, &email).await?;
    let book = Book { person, party, wants, actor: staff.actor(), reason, override_reservation, once };
    match waitlist.book(event.id, &book).await? {
        BookOutcome::Booked { reference, party } => {
            let said = format!(
                "Booked: {} for {}. The reference is {reference}.",
                places(party),
                isolated(name.as_str())
            );
            staff.flash(Tone::Done, said).await?;
            Ok(Redirect::to(&path(event.id, "/bookings")).into_response())
        }
        BookOutcome::HasOffer(offer) => {
            staff
                .flash(Tone::Warn, "They have an offer that could not be accepted for them: look at it.")
                .await?;
            Ok(Redirect::to(&path(event.id, format!("/offers/{offer}"))).into_response())
        }
        BookOutcome::OfferDiffers { party, .. } => {
            let offered = super::frame::places(party);
            errors.add(
                "party",
                format!(
                    "They have an offer of {offered}: book as many, which accepts it, or decline it for them."
                ),
            );
            page(&state, &staff, event, form, errors, true, StatusCode::CONFLICT).await
        }
        BookOutcome::HeldForWaitlist => {
            errors
                .add("", "These places are held for the waitlist: whoever is next in line is offered them.");
            page(&state, &staff, event, form, errors, true, StatusCode::CONFLICT).await
        }
        BookOutcome::TooFew(open) => {
            errors.add("party", super::words::too_few(open, party));
            page(&state, &staff, event, form, errors, false, StatusCode::CONFLICT).await
        }
        BookOutcome::BookedElsewhere => {
            errors.add("", "A booking service has this event’s places: book what is free for everybody there. Nothing was booked.");
            page(&state, &staff, event, form, errors, false, StatusCode::CONFLICT).await
        }
        BookOutcome::BeingConfirmed(offer) => {
            staff
                .flash(Tone::Note, "Their offer is accepted and being confirmed by the booking service.")
                .await?;
            Ok(Redirect::to(&path(event.id, format!("/offers/{offer}"))).into_response())
        }
        BookOutcome::NotOnSale => {
            errors.add("", "The event is not public, cancelled or over: nothing can be booked.");
            page(&state, &staff, event, form, errors, false, StatusCode::CONFLICT).await
        }
        BookOutcome::Enough(enough) => {
            errors.add("party", super::words::they_have_enough(enough));
            page(&state, &staff, event, form, errors, false, StatusCode::CONFLICT).await
        }
        BookOutcome::BadParty(largest) => {
            errors.add("party", format!("Enter a number between 1 and {largest}."));
            page(&state, &staff, event, form, errors, false, unprocessable).await
        }
    }
}
