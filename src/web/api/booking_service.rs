//! Where an event's places are booked: the service and how it does, what it was asked, and what it never answered.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::bookings::{cursor, parse_cursor};
use super::caller::Caller;
use super::json::{Answer, Json, Listed, Paging, because};
use super::problem::{Code, Failed, Refusal};
use crate::db::booking_services::Circuit;
use crate::domain::event::Event;
use crate::domain::ids::{AttemptId, BookingId, OfferId};
use crate::domain::key::Scope;
use crate::domain::outside::{Attempt, AttemptAct, AttemptOutcome, ServiceState, ServiceUrl, service_key};
use crate::domain::reason::Reason;
use crate::waitlist::booking_settings::{BookAt, BookAtOutcome};
use crate::waitlist::outside::{LookedUp, Resolution, ResolveOutcome};
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(show, set)).with(routes!(attempts)).with(routes!(attempt)).with(routes!(resolve))
}

/// Where an event's places are booked.
#[derive(Debug, Serialize, ToSchema)]
struct BookedAtView {
    /// The address of the booking service; null where places are booked here.
    base_url: Option<String>,
    /// Since when it is that one, with the key that it has now.
    set_at: Option<DateTime<Utc>>,
    /// How it is called: as usual, as usual though the last call failed, or not at all for a while.
    state: Option<ServiceState>,
    /// Calls in a row that failed.
    failures: i32,
    /// No call is tried before this.
    left_alone_until: Option<DateTime<Utc>>,
    /// What went wrong last.
    last_error: Option<String>,
    /// When that was.
    last_error_at: Option<DateTime<Utc>>,
    /// When it answered last.
    last_success_at: Option<DateTime<Utc>>,
    /// Attempts that nobody knows the outcome of.
    unresolved: i64,
    /// Confirmed bookings that it has.
    booked: i64,
}

async fn booked_at(state: &WebState, event: &Event) -> Result<Answer<BookedAtView>, Failed> {
    let service = state.db.booking_service(event.id).await?;
    let circuit = match &service {
        Some(service) => state.db.circuit(service.organization, &service.url).await?,
        None => Circuit::default(),
    };
    let (counts, now) = (state.db.outside_counts(event.id).await?, state.db.now().await?);
    let (last_error, last_error_at) = circuit.last_error.clone().unzip();
    Ok(Answer::ok(BookedAtView {
        state: service.as_ref().map(|_| circuit.state(now)),
        set_at: service.as_ref().map(|service| service.set_at),
        base_url: service.map(|service| service.url.as_str().to_owned()),
        failures: circuit.failures,
        left_alone_until: circuit.open_until.filter(|until| *until > now),
        last_error,
        last_error_at,
        last_success_at: circuit.last_success_at,
        unresolved: counts.unresolved,
        booked: counts.booked,
    }))
}

/// Where an event's places are booked
///
/// Here, or by a booking service; and how the service does. Its key is never shown.
#[utoipa::path(get, path = "/v1/events/{event}/booking-service", tag = "Booking service", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "As it is now.", body = BookedAtView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<BookedAtView>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    booked_at(&state, &event).await
}

/// Where an event's places are to be booked.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BookAtRequest {
    /// The address of a booking service, https; null: here. It has to be said, so that a change of the key alone moves
    /// nothing.
    #[serde(deserialize_with = "Option::deserialize")]
    #[schema(required)]
    base_url: Option<String>,
    /// What it is shown; without one, the key that it has already, as long as the address stays.
    #[serde(default)]
    #[schema(max_length = 500)]
    key: String,
}

/// Say where an event's places are booked
///
/// The event stays with a service that is being asked about something, or has bookings; its key can be changed all the
/// same. The service is told the name and the address of whoever accepts an offer.
#[utoipa::path(put, path = "/v1/events/{event}/booking-service", tag = "Booking service", params(("event" = String, Path)),
    request_body = BookAtRequest,
    security(("key" = ["booking_services:write"])),
    responses((status = 200, description = "As it is now.", body = BookedAtView)))]
async fn set(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<BookAtRequest>,
) -> Result<Answer<BookedAtView>, Failed> {
    caller.require(Scope::BookingServicesWrite)?;
    let event = caller.event(&state, &event).await?;
    let key = service_key(&request.key).map_err(|error| Refusal::field("key", error))?;
    let at = match &request.base_url {
        None => BookAt::Here,
        Some(url) => {
            let url = ServiceUrl::parse(url).map_err(|error| Refusal::field("base_url", error))?;
            BookAt::Service { url, key }
        }
    };
    match state.waitlist().set_booking(event.id, &at, caller.actor()).await? {
        BookAtOutcome::Saved => booked_at(&state, &event).await,
        BookAtOutcome::KeyMissing => {
            Err(Refusal::field("key", "A service needs the key that it gave.").into())
        }
        BookAtOutcome::Unresolved(n) => Err(Refusal::new(
            Code::WrongState,
            "The present service has not answered every call: resolve them first. Nothing was changed.",
        )
        .with("unresolved", n)
        .into()),
        BookAtOutcome::HasBookings(n) => Err(Refusal::new(
            Code::WrongState,
            "The present service has bookings that only it can give back. Nothing was changed.",
        )
        .with("booked", n)
        .into()),
    }
}

/// What a booking service was asked.
#[derive(Debug, Serialize, ToSchema)]
struct AttemptView {
    /// Its id.
    id: AttemptId,
    /// The offer whose places are meant.
    offer: OfferId,
    /// To book, or to take back.
    act: AttemptAct,
    /// Under which key: the name of the reservation at the service, the same in every try.
    key: String,
    /// What came of it.
    outcome: AttemptOutcome,
    /// When it was asked for.
    made_at: DateTime<Utc>,
    /// When its outcome was known.
    settled_at: Option<DateTime<Utc>>,
    /// Why it was asked for.
    reason: Reason,
    /// The bookings to be given back; with none, whatever the key names.
    bookings: Vec<BookingId>,
    /// Calls made so far.
    tries: i32,
    /// Whether a call was made whose fate nobody knows.
    uncertain: bool,
    /// What went wrong last.
    last_error: Option<String>,
    /// When it is tried again.
    next_try_at: Option<DateTime<Utc>>,
    /// Whether it is for staff to look up at the service and to resolve: its key is not sent any more.
    needs_staff: bool,
}

impl AttemptView {
    fn of(attempt: Attempt, now: DateTime<Utc>) -> Self {
        Self {
            needs_staff: attempt.needs_staff(now),
            id: attempt.id,
            offer: attempt.offer,
            act: attempt.act,
            key: attempt.key,
            outcome: attempt.outcome,
            made_at: attempt.made_at,
            settled_at: attempt.settled_at,
            reason: attempt.reason,
            bookings: attempt.bookings,
            tries: attempt.tries,
            uncertain: attempt.uncertain,
            last_error: attempt.last_error,
            next_try_at: attempt.next_try_at,
        }
    }
}

/// Which attempts.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct AttemptsQuery {
    /// Only with this outcome: `unresolved` are those that nobody knows the outcome of.
    outcome: Option<AttemptOutcome>,
}

/// What the booking service was asked
///
/// The newest first.
#[utoipa::path(get, path = "/v1/events/{event}/booking-service/attempts", tag = "Booking service",
    params(("event" = String, Path), AttemptsQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of attempts.", body = Listed<AttemptView>)))]
async fn attempts(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<AttemptsQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<AttemptView>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let (before, now) = (paging.parse(parse_cursor)?, state.db.now().await?);
    let rows = state.db.attempts_page(event.id, query.outcome, before, paging.one_more()).await?;
    let view = |attempt| AttemptView::of(attempt, now);
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| cursor(row.made_at, row.id), view)))
}

/// An attempt
#[utoipa::path(get, path = "/v1/events/{event}/booking-service/attempts/{attempt}", tag = "Booking service",
    params(("event" = String, Path), ("attempt" = AttemptId, Path)),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "The attempt.", body = AttemptView)))]
async fn attempt(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, AttemptId)>,
) -> Result<Answer<AttemptView>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let (attempt, now) = (state.db.attempt(event.id, id).await?, state.db.now().await?);
    Ok(Answer::ok(AttemptView::of(attempt, now)))
}

/// What staff saw at the service.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ResolveRequest {
    /// Whether it has the booking.
    came: LookedUp,
    /// Under which reference: needed where places were to be booked, and are.
    #[serde(default)]
    #[schema(max_length = 64)]
    reference: String,
    /// Why.
    reason: String,
    /// In one's own words.
    #[serde(default)]
    note: String,
}

/// Resolve an attempt
///
/// One that nobody knows the outcome of, once it was looked up at the service. Where places were to be booked and are not,
/// the offer is pending again with the time that it lost, and the service is told that the key is void. Where they were to
/// be given back and are not booked any more, they are free.
#[utoipa::path(post, path = "/v1/events/{event}/booking-service/attempts/{attempt}:resolve", tag = "Booking service",
    params(("event" = String, Path), ("attempt" = AttemptId, Path)), request_body = ResolveRequest,
    security(("key" = ["offers:write"])),
    responses((status = 200, description = "It is settled.", body = AttemptView)))]
async fn resolve(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, AttemptId)>,
    Json(request): Json<ResolveRequest>,
) -> Result<Answer<AttemptView>, Failed> {
    caller.require(Scope::OffersWrite)?;
    let event = caller.event(&state, &event).await?;
    let known = state.db.attempt(event.id, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let resolution = Resolution::of(known.act, request.came, &request.reference)
        .map_err(|error| Refusal::field("reference", error))?;
    match state.waitlist().resolve_attempt(event.id, id, &resolution, caller.actor(), &reason).await? {
        ResolveOutcome::Resolved => {
            let (attempt, now) = (state.db.attempt(event.id, id).await?, state.db.now().await?);
            Ok(Answer::ok(AttemptView::of(attempt, now)))
        }
        ResolveOutcome::Already(outcome) => {
            let said = "It was resolved before. Nothing was done twice.";
            Err(Refusal::new(Code::WrongState, said).with("outcome", outcome).into())
        }
        ResolveOutcome::CallUnderWay => {
            let said = "The service is being asked at this very moment. Nothing was changed.";
            Err(Refusal::new(Code::BeingConfirmed, said).again_in(30).into())
        }
    }
}
