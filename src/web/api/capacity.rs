//! Capacity that came back elsewhere, told of by other systems.

use axum::extract::State;
use axum::http::StatusCode;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Json, because};
use super::places::{place_label, too_many_kinds};
use super::problem::{Code, Failed, Refusal};
use super::views::{SaidView, said};
use crate::domain::attribute::Said;
use crate::domain::event::Event;
use crate::domain::ids::{BookingId, EventId, PlaceId};
use crate::domain::key::Scope;
use crate::domain::reason::{Reason, StaffReason};
use crate::waitlist::capacity::{CapacityOutcome, CapacityReleased, Returned};
use crate::waitlist::places::PLACES_MAX;
use crate::web::WebState;
use crate::web::error::Error;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(capacity_released))
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
    /// So many places of which nothing is said: they are added, and the capacity grows.
    #[serde(default)]
    #[schema(minimum = 1, maximum = 10000)]
    quantity: Option<usize>,
    /// These places: they are added, and the capacity grows.
    #[serde(default)]
    places: Vec<NamedPlace>,
    /// This booking is cancelled, and its one place comes back: of a party, name each.
    #[serde(default)]
    booking: Option<BookingId>,
    /// Why; `other` without it.
    #[serde(default)]
    reason: String,
    /// In one's own words; needed with the reason `other`.
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
    #[schema(schema_with = super::views::said_described)]
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
/// Each release has a source and an id, and is applied once; told again, or late, it does no harm. What was booked through
/// Fairlist is told by the id of its booking, or the capacity grows; a quantity adds places of which nothing is said, and
/// `places` adds named ones. A booking's place is free at once, and no booking service is asked: it came back there. Each is
/// decided by itself: 200: all were applied, now or before; 207: some were refused, tell the others no more. Instead of showing the
/// key, a system may sign what it sends, as Standard Webhooks says: the address then ends in `?key=` and the key's id, and
/// the secret is the one that was shown with the key.
#[utoipa::path(post, path = "/v1/internal/capacity-released", tag = "Places", request_body = CapacityRequest,
    params(("key" = Option<uuid::Uuid>, Query, description = "The id of the key, where the request is signed instead of showing it.")),
    security(("key" = ["places:write"]), ("signature" = [])),
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
        state.db.metrics().release_told(result.outcome);
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
