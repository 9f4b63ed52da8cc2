//! What programs of an organization do to entries: see the line, take somebody off it, put them elsewhere, offer them a
//! place.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::entries::{entry_now, entry_of, left, over, paused};
use super::json::{Answer, Because, Json, Listed, Paging, because};
use super::problem::{Code, Failed, Refusal};
use super::views::EntryView;
use crate::db::pages_queue::{QueueFilter, QueueRow, QueueView, Turn};
use crate::domain::entry::{EntryState, OrderKey};
use crate::domain::ids::{EntryId, EventId, OfferId};
use crate::domain::key::Scope;
use crate::waitlist::bands::BandOutcome;
use crate::waitlist::placing::PlacingOutcome;
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list))
        .with(routes!(remove))
        .with(routes!(bring_back))
        .with(routes!(place))
        .with(routes!(band))
}

/// The event of an entry on which a program acts for the staff: customers have no part in it.
async fn event_of(state: &WebState, caller: &Caller, id: EntryId) -> Result<EventId, Failed> {
    caller.require(Scope::EntriesWrite)?;
    Ok(entry_of(state, caller, id, Scope::EntriesWrite).await?.event.id)
}

/// An entry, as a row of a list.
#[derive(Debug, Serialize, ToSchema)]
struct EntryRow {
    /// Its id.
    id: EntryId,
    /// Whose.
    name: String,
    /// Where they are written to.
    email: Option<String>,
    /// Where it is in its life.
    state: EntryState,
    /// How many places.
    party: i32,
    /// Since when it is in its state.
    since: DateTime<Utc>,
    /// When it joined.
    joined_at: DateTime<Utc>,
    /// Its place in the order: band, round and rank. The lowest is next.
    order_key: String,
    /// 1 + the eligible ahead, while it is in the line.
    position: Option<i64>,
    /// What hinders an offer, in a word.
    hindrance: Option<&'static str>,
    /// The live offer.
    offer: Option<OfferId>,
    /// Its deadline.
    offer_expires_at: Option<DateTime<Utc>>,
}

impl From<QueueRow> for EntryRow {
    fn from(row: QueueRow) -> Self {
        Self {
            id: row.entry,
            name: row.name,
            email: row.email,
            state: row.state,
            party: row.party,
            since: row.since,
            joined_at: row.joined_at,
            order_key: row.key.to_string(),
            position: row.position,
            hindrance: row.hindrance.map(crate::web::staff::words::hindrance_word),
            offer: row.offer.map(|(offer, _)| offer),
            offer_expires_at: row.offer.map(|(_, until)| until),
        }
    }
}

/// Which entries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct LineQuery {
    /// Those in this state; the waiting ones without it.
    state: Option<EntryState>,
    /// Instead of a state: those in the line that are not served.
    hindered: Option<Hindered>,
    /// Whose name or address holds this, in whatever state where none is named.
    search: String,
}

/// What keeps somebody in the line from being served.
#[derive(Clone, Copy, Debug, Deserialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub(super) enum Hindered {
    /// Paused.
    Paused,
    /// Set aside when an offer was revoked.
    SetAside,
    /// None of their contacts works.
    ContactProblem,
}

/// The entries of an event
///
/// In the order in which they are served.
#[utoipa::path(get, path = "/v1/resources/{event}/entries", tag = "Entries",
    params(("event" = String, Path), LineQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of entries.", body = Listed<EntryRow>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<LineQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<EntryRow>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let turn = paging.parse(OrderKey::parse)?.map_or(Turn::First, Turn::After);
    let view = match (query.hindered, query.state) {
        (Some(_), Some(_)) => {
            return Err(
                Refusal::field("hindered", "Ask for a state or for what hinders, not for both.").into()
            );
        }
        (Some(Hindered::Paused), None) => QueueView::Paused,
        (Some(Hindered::SetAside), None) => QueueView::SetAside,
        (Some(Hindered::ContactProblem), None) => QueueView::ContactProblem,
        (None, Some(state)) => QueueView::State(state),
        (None, None) if query.search.trim().is_empty() => QueueView::State(EntryState::Waiting),
        (None, None) => QueueView::Any,
    };
    let filter = QueueFilter { view, search: query.search, backwards: false, turn, positions: true };
    let rows = state.db.queue(event.id, caller.organization(), &filter, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| row.key.to_string(), Into::into)))
}

/// Take somebody off the list
///
/// While offered the offer is taken back, too.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:remove", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = Because,
    security(("key" = ["entries:write"])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn remove(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<Because>,
) -> Result<Answer<EntryView>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = request.parse()?;
    let outcome = state.waitlist().remove(event, id, caller.actor(), &reason).await?;
    left(&state, &caller, id, outcome).await
}

/// Bring somebody back into the line
///
/// Who was set aside when an offer was revoked is served again, and so is who has no contact that works.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:bring-back", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = Because,
    security(("key" = ["entries:write"])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn bring_back(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<Because>,
) -> Result<Answer<EntryView>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = request.parse()?;
    let outcome = state.waitlist().bring_back(event, id, caller.actor(), &reason).await?;
    paused(&state, &caller, id, outcome).await
}

/// Where in the line.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct PlaceRequest {
    /// At this number of the line, from 1 on.
    #[schema(minimum = 1)]
    position: i64,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Put somebody at a number of the line
///
/// Whoever is there and everybody behind are one further back. It shows in the audit.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:place", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = PlaceRequest,
    security(("key" = ["entries:write"])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn place(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<PlaceRequest>,
) -> Result<Answer<EntryView>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let position = request.position;
    let refusal = match state.waitlist().place_at(event, id, position, caller.actor(), &reason).await? {
        PlacingOutcome::Placed | PlacingOutcome::Already => {
            return Ok(Answer::ok(entry_now(&state, &caller, id).await?));
        }
        PlacingOutcome::TooFar => Refusal::field("position", "The line is shorter than that."),
        PlacingOutcome::OtherGroup => {
            Refusal::new(Code::NotTheRule, "Who has that number is in another group: change the group.")
        }
        PlacingOutcome::NoRoom => {
            Refusal::new(Code::WrongState, "So many have been put there that no room is left.")
        }
        PlacingOutcome::Lottery => {
            Refusal::new(Code::NotTheRule, "A draw decides the order, and it is public.")
        }
        PlacingOutcome::Reordering => reordering(),
        PlacingOutcome::NotWaiting(now) => over(now),
    };
    Err(refusal.into())
}

/// The list is being put into another order.
pub(super) fn reordering() -> Refusal {
    Refusal::new(
        Code::WrongState,
        "The list is still being put into the order of another rule: again in a moment.",
    )
    .again_in(5)
}

/// Which group.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BandRequest {
    /// The group's number in the rule; 0 is everybody else.
    band: i16,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Put somebody into a group that goes first
///
/// Inside a group the order is that of arrival.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:band", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = BandRequest,
    security(("key" = ["entries:write"])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn band(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<BandRequest>,
) -> Result<Answer<EntryView>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let refusal =
        match state.waitlist().move_to_band(event, id, request.band, caller.actor(), &reason).await? {
            BandOutcome::Moved(_) | BandOutcome::Already => {
                return Ok(Answer::ok(entry_now(&state, &caller, id).await?));
            }
            BandOutcome::NoBands => Refusal::new(Code::NotTheRule, "The rule has no groups."),
            BandOutcome::UnknownBand => Refusal::field("band", "The rule has no group of this number."),
            BandOutcome::Reordering => reordering(),
            BandOutcome::Over(now) => over(now),
        };
    Err(refusal.into())
}
