//! Bookings: made without an offer, looked at, cancelled. By customers for themselves, and by programs for people.

use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, Who};
use super::entries::{Whose, enough, one, party, reason_of, somebody, too_large};
use super::json::{Answer, Because, Json, Listed, Paging, because};
use super::problem::{Code, Failed, Refusal};
use super::views::{BookingView, WantsView, wants};
use crate::db::pages_places::BookingLine;
use crate::domain::booking::{BookingSource, BookingState};
use crate::domain::ids::BookingId;
use crate::domain::key::Scope;
use crate::domain::reason::Reason;
use crate::domain::when;
use crate::waitlist::bookings::{Book, BookOutcome, CancelOutcome, booked_directly};
use crate::web::WebState;
use crate::web::extract::{Path, Query};
use crate::web::staff::frame::places;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, book)).with(routes!(mine)).with(routes!(show, cancel))
}

/// A booking, as a row of an event's list.
#[derive(Debug, Serialize, ToSchema)]
struct BookingRow {
    /// Its id.
    id: BookingId,
    /// Whose.
    name: String,
    /// What the place is called.
    place: String,
    /// What the person quotes.
    reference: String,
    /// Where it is in its life.
    state: BookingState,
    /// How it came to be.
    source: BookingSource,
    /// When it was made.
    booked_at: DateTime<Utc>,
    /// When it was cancelled.
    cancelled_at: Option<DateTime<Utc>>,
}

impl From<BookingLine> for BookingRow {
    fn from(line: BookingLine) -> Self {
        Self {
            place: line.place(),
            id: line.id,
            name: line.name,
            reference: line.reference,
            state: line.state,
            source: line.source,
            booked_at: line.booked_at,
            cancelled_at: line.cancelled_at,
        }
    }
}

/// Which bookings.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct BookingsQuery {
    /// Those in this state; the confirmed ones without it.
    state: Option<BookingState>,
    /// The reference, or a part of the person's name or of what the place is called.
    search: String,
}

/// A cursor of this instant and id.
pub(super) fn cursor(at: DateTime<Utc>, id: impl std::fmt::Display) -> String {
    format!("{}.{id}", at.timestamp_micros())
}

/// The other way round.
pub(super) fn parse_cursor<I: std::str::FromStr>(text: &str) -> Option<(DateTime<Utc>, I)> {
    let (micros, id) = text.split_once('.')?;
    Some((when::from_micros(micros)?, id.parse().ok()?))
}

/// The bookings of an event
///
/// The newest first.
#[utoipa::path(get, path = "/v1/resources/{event}/bookings", tag = "Bookings",
    params(("event" = String, Path), BookingsQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of bookings.", body = Listed<BookingRow>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<BookingsQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<BookingRow>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let before = paging.parse(parse_cursor)?;
    let which = query.state.unwrap_or(BookingState::Confirmed);
    let rows = state.db.booking_lines(event.id, which, &query.search, before, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| cursor(row.booked_at, row.id), Into::into)))
}

/// A wish to book.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BookRequest {
    /// How many places, all or none.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    party: i32,
    /// What is wanted of a place, by the keys of the event's attributes; anything without it.
    #[serde(default)]
    #[schema(schema_with = super::views::wants_described)]
    wants: WantsView,
    /// Needed by programs: the address of the person.
    #[schema(example = "ada@example.org")]
    email: Option<String>,
    /// Needed by programs, also for an address that is known: what the person wants to be called. It is kept only for an
    /// address that is new.
    #[schema(example = "Ada Lovelace")]
    name: Option<String>,
    /// For programs with the scope `reservations:override`: take places that are held for the waitlist, for a reason.
    #[serde(default)]
    override_reservation: bool,
    /// Needed by programs: why, a code of `GET /v1/reasons` with `for_staff`.
    #[serde(default)]
    reason: String,
    /// For programs: in one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Book
///
/// Places that are free for everybody. Whoever has a live offer is sent to it (a customer), or has it accepted (by a
/// program, if it is of as many places as are to be booked): 409 `already_offered`, with `offer`, otherwise. Send an
/// `Idempotency-Key`: without one a repetition books again.
#[utoipa::path(post, path = "/v1/resources/{event}/bookings", tag = "Bookings", params(("event" = String, Path)),
    request_body = BookRequest,
    security(("key" = ["bookings:write"]), ("customer" = [])),
    responses((status = 201, description = "Booked.", body = BookingView)))]
async fn book(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<BookRequest>,
) -> Result<Answer<BookingView>, Failed> {
    let event = caller.event(&state, &event).await?;
    let wants = wants(&event.attributes, &request.wants)?;
    party(request.party)?;
    let (person, reason) = match &caller.who {
        Who::Person(person, _) => (*person, booked_directly()),
        Who::Key(_) => {
            caller.require(Scope::BookingsWrite)?;
            let (name, email) = somebody(request.name.as_deref(), request.email.as_deref())?;
            let reason = because(&request.reason, &request.note)?;
            (state.waitlist().known_person(event.id, &name, &email).await?, reason)
        }
    };
    if request.override_reservation {
        caller.require(Scope::ReservationsOverride)?;
    }
    let once = crate::db::idempotency::name_of_act().unwrap_or_else(|| state.db.entropy().id());
    let command = Book {
        person,
        party: request.party,
        wants,
        actor: caller.actor(),
        reason,
        override_reservation: request.override_reservation,
        once,
    };
    let refusal = match state.waitlist().book(event.id, &command).await? {
        BookOutcome::Booked { reference, .. } => {
            let id = state.db.booking_with(event.id, person, &reference).await?;
            return Ok(Answer::created(state.db.my_booking(id).await?.into()));
        }
        BookOutcome::HasOffer(offer) => Refusal::new(
            Code::AlreadyOffered,
            "Places are held for this person already: accept that offer. Nothing else was booked.",
        )
        .with("offer", offer),
        BookOutcome::OfferDiffers { offer, party } => Refusal::new(
            Code::AlreadyOffered,
            format!(
                "This person has a live offer of {}: book as many, which accepts it, or have it declined. Nothing was done.",
                places(party)
            ),
        )
        .with("offer", offer)
        .with("party", party),
        BookOutcome::HeldForWaitlist => Refusal::new(
            Code::HeldForWaitlist,
            "What is free goes to the people on the waitlist first. Nothing was booked.",
        ),
        BookOutcome::TooFew(open) => {
            let detail = "Fewer places are open than were asked for. Nothing was booked.";
            // How many are open is said only where they are free for everybody.
            let refusal = Refusal::new(Code::NoCapacity, detail);
            if matches!(caller.who, Who::Key(_)) { refusal.with("open", open) } else { refusal }
        }
        BookOutcome::NotOnSale => {
            Refusal::new(Code::NotOnSale, "The event is not public, cancelled, over, or has started.")
        }
        BookOutcome::BookedElsewhere => Refusal::new(
            Code::NotTheRule,
            "Places of this event are booked by another service: only offers are answered here.",
        ),
        BookOutcome::BeingConfirmed(offer) => super::entries::being_confirmed().with("offer", offer),
        BookOutcome::BadParty(most) => too_large(most),
        BookOutcome::Enough(has) => enough(has),
    };
    Err(refusal.into())
}

/// The bookings of one person
///
/// Those that stand first, and those cancelled in the last 90 days; 200 at most. A program names the person by `email`.
#[utoipa::path(get, path = "/v1/bookings", tag = "Bookings", params(Whose),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "Their bookings.", body = Vec<BookingView>)))]
async fn mine(
    State(state): State<WebState>,
    caller: Caller,
    Query(whose): Query<Whose>,
) -> Result<Answer<Vec<BookingView>>, Failed> {
    let persons = whose.persons(&state, &caller).await?;
    let bookings = state.db.my_bookings(&persons, caller.now).await?;
    Ok(Answer::ok(bookings.into_iter().map(Into::into).collect()))
}

async fn booking_of(
    state: &WebState,
    caller: &Caller,
    id: BookingId,
    scope: Scope,
) -> Result<crate::db::pages_customer::mine::MyBooking, Failed> {
    let booking = state.db.my_booking(id).await?;
    caller.require_of(booking.event.organizer.id, booking.person, scope)?;
    Ok(booking)
}

/// A booking
///
/// A booking is of one place; those of a party are shown together, by any of their ids.
#[utoipa::path(get, path = "/v1/bookings/{booking}", tag = "Bookings", params(("booking" = BookingId, Path)),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "The booking.", body = BookingView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<BookingId>,
) -> Result<Answer<BookingView>, Failed> {
    Ok(Answer::ok(booking_of(&state, &caller, id, Scope::EntriesRead).await?.into()))
}

/// Cancel a booking
///
/// All places of the party come back and go to the next in line. Cancelling twice does no harm. A program says why. Where a
/// booking service has the places, it is asked to release them first: 202 until it has, send the same again after
/// `Retry-After`.
#[utoipa::path(delete, path = "/v1/bookings/{booking}", tag = "Bookings", params(("booking" = BookingId, Path), Because),
    security(("key" = ["bookings:write"]), ("customer" = [])),
    responses((status = 200, description = "As it is now.", body = BookingView),
              (status = 202, description = "The booking service has not answered yet: ask again.", body = BookingView)))]
async fn cancel(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<BookingId>,
    Query(request): Query<Because>,
) -> Result<Answer<BookingView>, Failed> {
    let booking = booking_of(&state, &caller, id, Scope::BookingsWrite).await?;
    let reason = reason_of(&caller, &request.reason, &request.note, Reason::Cancelled)?;
    let event = booking.event.id;
    let outcomes = state.waitlist().cancel_party(event, &booking.confirmed, caller.actor(), &reason).await?;
    if outcomes.contains(&CancelOutcome::BeingCancelled) {
        let now = state.db.my_booking(id).await?.into();
        return Ok(Answer(StatusCode::ACCEPTED, now));
    }
    if outcomes.contains(&CancelOutcome::NotYours) {
        return Err(Refusal::new(Code::NotYours, "This belongs to somebody else. Nothing was done.").into());
    }
    Ok(Answer::ok(state.db.my_booking(id).await?.into()))
}
