//! Places, and capacity that comes back: added, described, retired, released; told of by other systems.

use axum::extract::State;
use axum::http::StatusCode;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Because, Json, Listed, Paging, because};
use super::offers::not_pending;
use super::problem::{Code, Failed, Refusal};
use super::views::{SaidView, said};
use crate::db::pages_places::PlaceLine;
use crate::domain::attribute::Said;
use crate::domain::event::Event;
use crate::domain::ids::{BookingId, EventId, OfferId, PlaceId};
use crate::domain::key::Scope;
use crate::domain::label;
use crate::domain::place::PlaceState;
use crate::domain::reason::{Reason, StaffReason};
use crate::waitlist::attributes::DescribeOutcome;
use crate::waitlist::capacity::{CapacityOutcome, CapacityReleased, Returned};
use crate::waitlist::places::{AddPlacesOutcome, PLACES_MAX, RetireOutcome};
use crate::waitlist::staff_offers::{AfterRevoke, Holder, ReleaseOutcome};
use crate::web::WebState;
use crate::web::error::Error;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, add_places))
        .with(routes!(show, describe))
        .with(routes!(retire))
        .with(routes!(lower))
        .with(routes!(release))
        .with(routes!(capacity_released))
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
/// In order of their numbers. Scope `events:read`.
#[utoipa::path(get, path = "/v1/resources/{event}/places", tag = "Places", params(("event" = String, Path), PlacesQuery, Paging),
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
    /// How many; left out where `labels` are given.
    #[schema(minimum = 1, maximum = 10000)]
    count: Option<usize>,
    /// What each is called.
    #[serde(default)]
    labels: Vec<String>,
    /// What is said of all of them, by the keys of the event's attributes.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, Object>)]
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
/// Open at once, and offered as the rule says. Without an `Idempotency-Key` a repetition adds again. Scope `places:write`.
#[utoipa::path(post, path = "/v1/resources/{event}/places", tag = "Places", params(("event" = String, Path)),
    request_body = AddRequest,
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

fn too_many_kinds() -> Refusal {
    Refusal::new(Code::TooMany, "The event tells as many kinds of places apart as it can.")
}

fn place_label(text: &str) -> Result<String, Failed> {
    let mut labels = label::parse_lines(text).map_err(|error| Refusal::field("label", error))?;
    match (labels.pop(), labels.is_empty()) {
        (Some(label), true) => Ok(label),
        _ => Err(Refusal::field("label", "A name has one line of 1 to 60 characters.").into()),
    }
}

/// A place
///
/// Scope `events:read`.
#[utoipa::path(get, path = "/v1/resources/{event}/places/{place}", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)),
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
    #[schema(value_type = std::collections::BTreeMap<String, Object>)]
    attributes: SaidView,
    /// Why.
    reason: String,
    /// In one's own words.
    #[serde(default)]
    note: String,
}

/// Say something else of an open place
///
/// Scope `places:write`.
#[utoipa::path(patch, path = "/v1/resources/{event}/places/{place}", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = DescribeRequest,
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
/// An open one leaves at once, a held or booked one when it becomes free. Scope `places:write`.
#[utoipa::path(post, path = "/v1/resources/{event}/places/{place}:retire", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = Because,
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
    /// Why.
    reason: String,
    /// In one's own words.
    #[serde(default)]
    note: String,
}

/// Lower the capacity
///
/// Open places go first, then held, then booked ones when they become free. Nobody is evicted. Send an
/// `Idempotency-Key`: without one a repetition lowers it again. Scope `places:write`.
#[utoipa::path(post, path = "/v1/resources/{event}/places:lower", tag = "Places", params(("event" = String, Path)),
    request_body = LowerRequest,
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
    /// What becomes of the entry whose hold is revoked; `set_aside` without it.
    #[serde(default)]
    after: Option<AfterRevoke>,
    /// Why.
    reason: String,
    /// In one's own words.
    #[serde(default)]
    note: String,
}

/// Release a place
///
/// Cancels the booking, or revokes the hold, that has it and that is named: so a repetition never takes the place from
/// the next in line, who is offered it. Scope `places:write`.
#[utoipa::path(post, path = "/v1/resources/{event}/places/{place}:release", tag = "Places",
    params(("event" = String, Path), ("place" = PlaceId, Path)), request_body = ReleaseRequest,
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

/// Capacity that came back in another system.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CapacityItem {
    /// Which system tells it.
    #[schema(max_length = 100)]
    source: String,
    /// Its id of what happened there. Applied once for each event, source and id, however often it is told.
    #[schema(max_length = 200)]
    id: String,
    /// The event, by its id or its name in addresses.
    event: String,
    /// So many places of which nothing is said: they are added.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10000)]
    quantity: Option<usize>,
    /// These places: they are added.
    #[serde(default)]
    places: Vec<NamedPlace>,
    /// This booking is cancelled, and its place comes back.
    #[serde(default)]
    booking: Option<BookingId>,
    /// Why; `other` without it.
    #[serde(default)]
    reason: String,
    /// In one's own words.
    #[serde(default)]
    note: String,
}

/// A place by its name.
#[derive(Debug, Deserialize, Serialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NamedPlace {
    /// What it is called.
    label: String,
    /// What is said of it, by the keys of the event's attributes.
    #[serde(default)]
    #[schema(value_type = std::collections::BTreeMap<String, Object>)]
    attributes: SaidView,
}

/// What another system tells.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CapacityRequest {
    /// One thing or several; at most 100, and of at most 10,000 places in all.
    #[schema(min_items = 1, max_items = 100)]
    releases: Vec<CapacityItem>,
}

/// What came of one of them.
#[derive(Debug, Serialize, ToSchema)]
struct CapacityResult {
    /// As it was told.
    source: String,
    /// As it was told.
    id: String,
    /// `applied` now, `repeated` (it was before), or the code of a refusal.
    outcome: &'static str,
    /// Of a refusal: what is the case.
    detail: Option<String>,
    /// The places that came back.
    places: Vec<PlaceId>,
}

/// What came of them, in the same order.
#[derive(Debug, Serialize, ToSchema)]
struct CapacityAnswer {
    /// One for each.
    results: Vec<CapacityResult>,
}

/// Tell of capacity that came back
///
/// Each release has a source and an id, and is applied once; told again, or late, it does no harm. One of a booking that
/// was made here names it; a quantity adds places of which nothing is said, and `places` adds named ones. Each is decided
/// by itself: 200: all were applied, now or before; 207: some were refused, tell the others no more. Instead of showing the
/// key, a system may sign what it sends, as Standard Webhooks says: the address then ends in `?key=` and the key's id, and
/// the secret is the one that was shown with the key. Scope `places:write`.
#[utoipa::path(post, path = "/v1/internal/capacity-released", tag = "Places", request_body = CapacityRequest,
    params(("key" = Option<uuid::Uuid>, Query, description = "The id of the key, where the request is signed instead of showing it.")),
    security(("bearer" = []), ("signature" = [])),
    responses((status = 200, description = "All were applied, now or before.", body = CapacityAnswer),
              (status = 207, description = "Some were refused.", body = CapacityAnswer)))]
async fn capacity_released(
    State(state): State<WebState>,
    caller: Caller,
    Json(request): Json<CapacityRequest>,
) -> Result<Answer<CapacityAnswer>, Failed> {
    caller.require(Scope::PlacesWrite)?;
    if !(1..=100).contains(&request.releases.len()) {
        return Err(Refusal::field("releases", "Tell of 1 to 100 releases at once.").into());
    }
    let places = |item: &CapacityItem| item.quantity.unwrap_or(0).saturating_add(item.places.len());
    if request.releases.iter().map(places).fold(0, usize::saturating_add) > PLACES_MAX {
        return Err(Refusal::field("releases", "Tell of at most 10,000 places at once.").into());
    }
    let mut results = Vec::with_capacity(request.releases.len());
    for item in request.releases {
        let (source, id) = (item.source.clone(), item.id.clone());
        let result = match apply(&state, &caller, item).await {
            Ok((outcome, places)) => CapacityResult { source, id, outcome, detail: None, places },
            // One of several that cannot be applied does not keep the others from it.
            Err(Failed::Refused(refusal)) => CapacityResult {
                source,
                id,
                outcome: refusal.code().as_str(),
                detail: Some(refusal.detail().to_owned()),
                places: Vec::new(),
            },
            Err(Failed::Error(Error::NotFound)) => CapacityResult {
                source,
                id,
                outcome: Code::NotFound.as_str(),
                detail: Some("There is no such event, or not for you.".to_owned()),
                places: Vec::new(),
            },
            Err(error) => return Err(error),
        };
        results.push(result);
    }
    let all = results.iter().all(|result| matches!(result.outcome, "applied" | "repeated"));
    let status = if all { StatusCode::OK } else { StatusCode::MULTI_STATUS };
    Ok(Answer(status, CapacityAnswer { results }))
}

async fn apply(
    state: &WebState,
    caller: &Caller,
    item: CapacityItem,
) -> Result<(&'static str, Vec<PlaceId>), Failed> {
    let event = caller.event(state, &item.event).await?;
    let told = read(&event, item)?;
    match state.waitlist().capacity_released(event.id, &told, caller.actor()).await? {
        CapacityOutcome::Applied { places, before } => {
            Ok((if before { "repeated" } else { "applied" }, places))
        }
        CapacityOutcome::OtherBody => Err(Refusal::new(
            Code::KeyReused,
            "This source and id told of something else before. Nothing was done.",
        )
        .into()),
        CapacityOutcome::PlaceIsHere(label) => Err(Refusal::new(
            Code::Taken,
            format!(
                "The event has a place “{label}” already, and it has not come back: name its booking instead."
            ),
        )
        .into()),
        CapacityOutcome::NoSuchBooking => {
            Err(Refusal::new(Code::NotFound, elsewhere(state, caller, event.id, &told).await?).into())
        }
        CapacityOutcome::NamedTwice(label) => {
            Err(Refusal::field("places", format!("“{label}” is named twice. Nothing was done.")).into())
        }
        CapacityOutcome::TooManyKinds => Err(too_many_kinds().into()),
    }
}

/// A booking that another event has is named.
async fn elsewhere(
    state: &WebState,
    caller: &Caller,
    event: EventId,
    told: &CapacityReleased,
) -> Result<String, Failed> {
    let Returned::Booking(booking) = told.returned else { return Ok(String::new()) };
    let other = match state.db.find_booking(booking).await {
        Ok(known) if known.event != event => Some(state.db.event(known.event).await?),
        Ok(_) | Err(crate::db::DbError::NotFound) => None,
        Err(error) => return Err(error.into()),
    };
    Ok(match other.filter(|other| other.organization == caller.organization()) {
        Some(other) => format!("The booking {booking} is of the event “{}”, not of this one.", other.slug),
        None => format!("This event has no booking {booking}."),
    })
}

fn read(event: &Event, item: CapacityItem) -> Result<CapacityReleased, Failed> {
    let plain = |text: &str, most: usize| {
        !text.trim().is_empty() && text.chars().count() <= most && !text.chars().any(char::is_control)
    };
    if !plain(&item.source, 100) {
        return Err(
            Refusal::field("source", "Say which system tells this, in at most 100 characters.").into()
        );
    }
    if !plain(&item.id, 200) {
        return Err(Refusal::field("id", "Give its id there, in at most 200 characters.").into());
    }
    let told = serde_json::to_vec(&(event.id, item.quantity, &item.places, item.booking))
        .map_err(|error| Failed::from(Error::internal(error)))?;
    let returned = match (item.quantity, item.places.as_slice(), item.booking) {
        (Some(quantity), [], None) if (1..=PLACES_MAX).contains(&quantity) => Returned::Quantity(quantity),
        (None, [_, ..], None) if item.places.len() <= PLACES_MAX => {
            let named = |place: &NamedPlace| -> Result<(Option<String>, Said), Failed> {
                Ok((Some(place_label(&place.label)?), said(&event.attributes, &place.attributes)?))
            };
            Returned::Named(item.places.iter().map(named).collect::<Result<_, _>>()?)
        }
        (None, [], Some(booking)) => Returned::Booking(booking),
        _ => {
            let detail =
                "Say what came back: a quantity of 1 to 10,000, or places, or a booking, one of the three.";
            return Err(Refusal::field("quantity", detail).into());
        }
    };
    let reason = if item.reason.is_empty() {
        StaffReason { reason: Reason::Other, note: Some(format!("told by {}", item.source)) }
    } else {
        because(&item.reason, &item.note)?
    };
    Ok(CapacityReleased {
        source: item.source,
        id: item.id,
        digest: Sha256::digest(&told).into(),
        returned,
        reason,
    })
}
