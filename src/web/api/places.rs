//! Places: added, described, retired, released.

use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Because, Json, Listed, Paging, because};
use super::offers::not_pending;
use super::problem::{Code, Failed, Refusal};
use super::views::{SaidView, said};
use crate::db::pages_places::PlaceLine;
use crate::domain::ids::{BookingId, OfferId, PlaceId};
use crate::domain::key::Scope;
use crate::domain::label;
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;
use crate::waitlist::attributes::DescribeOutcome;
use crate::waitlist::places::{AddPlacesOutcome, PLACES_MAX, RetireOutcome};
use crate::waitlist::staff_offers::{AfterRevoke, Holder, ReleaseOutcome};
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, add_places))
        .with(routes!(show, describe))
        .with(routes!(retire))
        .with(routes!(lower))
        .with(routes!(release))
}

/// A place: one unit of an event.
#[derive(Clone, Debug, Serialize, ToSchema)]
struct PlaceView {
    /// Its id.
    id: PlaceId,
    /// Its number in the event.
    number: i32,
    /// What it is called, if it is.
    label: Option<String>,
    /// What is said of it, in words.
    words: Option<String>,
    /// What has it.
    state: PlaceState,
    /// It leaves the event when it becomes free.
    retire_when_free: bool,
    /// Since when it is in its state.
    since: DateTime<Utc>,
    /// The offer that keeps it, and until when.
    offer: Option<OfferId>,
    /// See `offer`.
    held_until: Option<DateTime<Utc>>,
    /// The booking that has it.
    booking: Option<BookingId>,
    /// What that booking’s person quotes.
    reference: Option<String>,
}

impl From<PlaceLine> for PlaceView {
    fn from(line: PlaceLine) -> Self {
        Self {
            id: line.id,
            number: line.number,
            label: line.label,
            words: line.words,
            state: line.state,
            retire_when_free: line.retire_when_free,
            since: line.since,
            offer: line.hold.map(|(offer, _)| offer),
            held_until: line.hold.map(|(_, until)| until),
            booking: line.booking.as_ref().map(|(booking, _)| *booking),
            reference: line.booking.map(|(_, reference)| reference),
        }
    }
}

/// Which places.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct PlacesQuery {
    /// Only those in this state.
    state: Option<PlaceState>,
}

/// The places of an event
///
/// In order of their numbers.
#[utoipa::path(get, path = "/v1/resources/{event}/places", tag = "Places", params(("event" = String, Path), PlacesQuery, Paging),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "A page of places.", body = Listed<PlaceView>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<PlacesQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<PlaceView>>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let after = paging.parse(|text| text.parse::<i32>().ok())?.unwrap_or(0);
    let limit = paging.limit();
    let rows = state.db.place_lines(event.id, query.state, after, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, limit, |row| row.number.to_string(), Into::into)))
}

/// Places to be added.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct AddRequest {
    /// How many, where they have no names; or else `labels`. One of the two is needed.
    #[schema(minimum = 1, maximum = 10000)]
    count: Option<usize>,
    /// What each is called.
    #[serde(default)]
    labels: Vec<String>,
    /// What is said of all of them, by the keys of the event's attributes.
    #[serde(default)]
    #[schema(schema_with = super::views::said_described)]
    attributes: SaidView,
}

/// What came of it.
#[derive(Debug, Serialize, ToSchema)]
struct Added {
    /// How many more are open.
    added: usize,
}

/// Add places
///
/// Open at once, and offered as the rule says. They add to the capacity: what was booked here and is given back is not added,
/// its booking is cancelled. Without an `Idempotency-Key` a repetition adds again.
#[utoipa::path(post, path = "/v1/resources/{event}/places", tag = "Places", params(("event" = String, Path)),
    request_body = AddRequest,
    security(("key" = ["places:write"])),
    responses((status = 201, description = "Added.", body = Added)))]
async fn add_places(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<AddRequest>,
) -> Result<Answer<Added>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    let event = caller.event(&state, &event).await?;
    let said = said(&event.attributes, &request.attributes)?;
    if !request.labels.is_empty() && request.count.is_some_and(|count| count != request.labels.len()) {
        return Err(Refusal::field("count", "Say how many, or what each is called: not both.").into());
    }
    let labels: Vec<Option<String>> = if request.labels.is_empty() {
        vec![None; request.count.unwrap_or(0).min(PLACES_MAX + 1)]
    } else {
        request.labels.iter().map(|label| place_label(label).map(Some)).collect::<Result<_, _>>()?
    };
    let once = once(&state);
    let (waitlist, reason) = (state.waitlist(), Reason::CapacityChanged);
    match waitlist.add_places(event.id, &labels, &said, &once, caller.actor(), reason).await? {
        AddPlacesOutcome::Added(added) => Ok(Answer::created(Added { added })),
        AddPlacesOutcome::Already => Ok(Answer::created(Added { added: labels.len() })),
        AddPlacesOutcome::BadNumber => Err(Refusal::field("count", "Add 1 to 10,000 places at once.").into()),
        AddPlacesOutcome::LabelTaken => {
            Err(Refusal::new(Code::Taken, "One of these names is in use: nothing was added.").into())
        }
        AddPlacesOutcome::TooManyKinds => Err(too_many_kinds().into()),
    }
}

/// Names the act: the caller's own key does, so that it is never done twice; without one each request is an act.
pub(super) fn once(state: &WebState) -> String {
    crate::db::idempotency::name_of_act().unwrap_or_else(|| state.db.entropy().id()).to_string()
}

pub(super) fn too_many_kinds() -> Refusal {
    Refusal::new(Code::TooMany, "The event tells as many kinds of places apart as it can.")
}

pub(super) fn place_label(text: &str) -> Result<String, Failed> {
    let mut labels = label::parse_lines(text).map_err(|error| Refusal::field("label", error))?;
    match (labels.pop(), labels.is_empty()) {
        (Some(label), true) => Ok(label),
        _ => Err(Refusal::field("label", "A name has one line of 1 to 60 characters.").into()),
    }
}

/// A place
#[utoipa::path(get, path = "/v1/resources/{event}/places/{place}", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "The place.", body = PlaceView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, place)): Path<(String, PlaceId)>,
) -> Result<Answer<PlaceView>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(Answer::ok(state.db.place_line(event.id, place).await?.into()))
}

/// What is said of a place from now on.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DescribeRequest {
    /// All of it, by the keys of the event's attributes.
    #[schema(schema_with = super::views::said_described)]
    attributes: SaidView,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Say something else of an open place
#[utoipa::path(patch, path = "/v1/resources/{event}/places/{place}", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = DescribeRequest,
    security(("key" = ["places:write"])),
    responses((status = 200, description = "As it is now.", body = PlaceView)))]
async fn describe(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, place)): Path<(String, PlaceId)>,
    Json(request): Json<DescribeRequest>,
) -> Result<Answer<PlaceView>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    let event = caller.event(&state, &event).await?;
    let said = said(&event.attributes, &request.attributes)?;
    let reason = because(&request.reason, &request.note)?;
    match state.waitlist().describe_place(event.id, place, &said, caller.actor(), &reason).await? {
        DescribeOutcome::Described | DescribeOutcome::Already => {
            Ok(Answer::ok(state.db.place_line(event.id, place).await?.into()))
        }
        DescribeOutcome::NotOpen(now) => Err(Refusal::new(
            Code::WrongState,
            "What is said of a place that is held or booked stays as it was promised.",
        )
        .with("state", now)
        .into()),
        DescribeOutcome::TooManyKinds => Err(too_many_kinds().into()),
    }
}

/// What came of retiring.
#[derive(Debug, Serialize, ToSchema)]
struct Retired {
    /// So many left at once.
    now: usize,
    /// So many leave when whoever has them is gone. Nobody is evicted.
    when_free: usize,
}

fn retired(outcome: RetireOutcome) -> Result<Answer<Retired>, Failed> {
    match outcome {
        RetireOutcome::Retired { now, when_free } => Ok(Answer::ok(Retired { now, when_free })),
        RetireOutcome::Already => Ok(Answer::ok(Retired { now: 0, when_free: 0 })),
        RetireOutcome::BadNumber(most) => {
            let detail = format!("At most {most} places can be retired at once. Nothing was done.");
            Err(Refusal::field("count", detail).with("most", most).into())
        }
    }
}

/// Retire a place
///
/// An open one leaves at once, a held or booked one when it becomes free.
#[utoipa::path(post, path = "/v1/resources/{event}/places/{place}:retire", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = Because,
    security(("key" = ["places:write"])),
    responses((status = 200, description = "What came of it.", body = Retired)))]
async fn retire(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, place)): Path<(String, PlaceId)>,
    Json(request): Json<Because>,
) -> Result<Answer<Retired>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    let event = caller.event(&state, &event).await?;
    let reason = request.parse()?;
    state.db.place_line(event.id, place).await?;
    retired(state.waitlist().retire_places(event.id, &[place], caller.actor(), &reason).await?)
}

/// How many places leave.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct LowerRequest {
    /// So many of those that the event has; at most 10,000.
    #[schema(minimum = 1)]
    count: usize,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Lower the capacity
///
/// Open places go first, then held, then booked ones when they become free. Nobody is evicted. Send an
/// `Idempotency-Key`: without one a repetition lowers it again.
#[utoipa::path(post, path = "/v1/resources/{event}/places:lower", tag = "Places", params(("event" = String, Path)),
    request_body = LowerRequest,
    security(("key" = ["places:write"])),
    responses((status = 200, description = "What came of it.", body = Retired)))]
async fn lower(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<LowerRequest>,
) -> Result<Answer<Retired>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    let event = caller.event(&state, &event).await?;
    let reason = because(&request.reason, &request.note)?;
    retired(state.waitlist().retire_count(event.id, request.count, caller.actor(), &reason).await?)
}

/// A place is to come back from what has it: its `offer` or its `booking`, one of the two.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReleaseRequest {
    /// The offer that keeps the place: it is revoked.
    #[serde(default)]
    offer: Option<OfferId>,
    /// The booking that has the place: it is cancelled.
    #[serde(default)]
    booking: Option<BookingId>,
    /// What becomes of the entry whose hold is revoked. Without it `set_aside`: it is passed over until staff decide.
    #[serde(default)]
    after: Option<AfterRevoke>,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Release a place
///
/// Cancels the booking, or revokes the hold, that has it and that is named: so a repetition never takes the place from
/// the next in line, who is offered it. Of a party's booking this place alone comes back. Where a booking service has the
/// places, it is asked to release a booked one first: 202 until it has, send the same again after `Retry-After`.
#[utoipa::path(post, path = "/v1/resources/{event}/places/{place}:release", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = ReleaseRequest,
    security(("key" = ["places:write"])),
    responses((status = 200, description = "As it is now.", body = PlaceView),
              (status = 202, description = "The booking service has not answered yet: ask again.", body = PlaceView)))]
async fn release(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, place)): Path<(String, PlaceId)>,
    Json(request): Json<ReleaseRequest>,
) -> Result<Answer<PlaceView>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    let event = caller.event(&state, &event).await?;
    let reason = because(&request.reason, &request.note)?;
    let seen = match (request.offer, request.booking) {
        (Some(offer), None) => Holder::Hold(offer),
        (None, Some(booking)) => Holder::Booking(booking),
        (None, None) | (Some(_), Some(_)) => {
            let detail = "Name what has the place: its offer or its booking, one of the two.";
            return Err(Refusal::field("offer", detail).into());
        }
    };
    let after = request.after.unwrap_or(AfterRevoke::SetAside);
    let outcome =
        state.waitlist().release_place(event.id, place, seen, after, caller.actor(), &reason).await?;
    let now = PlaceView::from(state.db.place_line(event.id, place).await?);
    let refusal = match outcome {
        ReleaseOutcome::BookingCancelled | ReleaseOutcome::HoldRevoked | ReleaseOutcome::Already { .. } => {
            return Ok(Answer::ok(now));
        }
        ReleaseOutcome::BeingCancelled => return Ok(Answer(StatusCode::ACCEPTED, now)),
        ReleaseOutcome::NotPending(offer) => not_pending(offer),
        ReleaseOutcome::Elsewhere => {
            Refusal::new(Code::WrongState, "What was named does not have this place. Nothing was done.")
                .with("state", now.state)
        }
    };
    Err(refusal.with("offer", now.offer).with("booking", now.booking).into())
}
