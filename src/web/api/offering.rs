//! What programs of an organization do to offers: see them, make one by hand, take it back, give it again, extend it.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::bookings::{cursor, parse_cursor};
use super::caller::Caller;
use super::entries::{enough, entry_of, over};
use super::json::{Answer, Json, Listed, Paging, because};
use super::offers::{not_pending, offer_now, offer_of};
use super::problem::{Code, Failed, Refusal};
use super::views::OfferDetail;
use crate::db::pages_history::OfferLine;
use crate::domain::ids::{EntryId, EventId, OfferId};
use crate::domain::key::Scope;
use crate::domain::offer::{OfferKind, OfferState};
use crate::waitlist::staff_offers::{
    AfterRevoke, ExtendOutcome, OfferOutcome, ReactivateOutcome, RevokeOutcome,
};
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, make)).with(routes!(revoke)).with(routes!(reactivate)).with(routes!(extend))
}

/// The event of an offer on which a program acts for the staff: customers have no part in it.
async fn event_of(state: &WebState, caller: &Caller, id: OfferId) -> Result<EventId, Failed> {
    caller.require(Scope::OffersWrite)?;
    Ok(offer_of(state, caller, id, Scope::OffersWrite).await?.offer.event)
}

/// An offer, as a row of an event's list.
#[derive(Debug, Serialize, ToSchema)]
struct OfferRow {
    /// Its id.
    id: OfferId,
    /// To which entry.
    entry: EntryId,
    /// Whose.
    name: String,
    /// A hold keeps its places; a call keeps none.
    kind: OfferKind,
    /// Where it is in its life.
    state: OfferState,
    /// How many places.
    party: i32,
    /// When it was made.
    made_at: DateTime<Utc>,
    /// Until when it can, or could, be accepted.
    expires_at: DateTime<Utc>,
}

impl From<OfferLine> for OfferRow {
    fn from(line: OfferLine) -> Self {
        Self {
            id: line.offer,
            entry: line.entry,
            name: line.name,
            kind: if line.is_call { OfferKind::Call } else { OfferKind::Hold },
            state: line.state,
            party: line.party,
            made_at: line.made_at,
            expires_at: line.expires_at,
        }
    }
}

/// Which offers.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct OffersQuery {
    /// Those in this state; the pending ones without it.
    state: Option<OfferState>,
}

/// The offers of an event
///
/// Pending ones by their deadline, the nearest first.
#[utoipa::path(get, path = "/v1/resources/{event}/offers", tag = "Offers",
    params(("event" = String, Path), OffersQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of offers.", body = Listed<OfferRow>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<OffersQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<OfferRow>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let after = paging.parse(parse_cursor)?;
    let which = query.state.unwrap_or(OfferState::Pending);
    let rows = state.db.offer_lines(event.id, which, after, paging.one_more()).await?;
    let last = |row: &OfferLine| cursor(row.expires_at, row.offer);
    Ok(Answer::ok(Listed::of(rows, paging.limit(), last, Into::into)))
}

/// An offer by hand.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct MakeRequest {
    /// To this entry, whoever is ahead.
    entry: EntryId,
    /// Until then; the rule's window without it. Needed where the rule has none.
    expires_at: Option<DateTime<Utc>>,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Offer a place by hand
///
/// Open places, to a waiting entry, whoever is ahead.
#[utoipa::path(post, path = "/v1/resources/{event}/offers", tag = "Offers", params(("event" = String, Path)),
    request_body = MakeRequest,
    security(("key" = ["offers:write"])),
    responses((status = 201, description = "Offered.", body = OfferDetail)))]
async fn make(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<MakeRequest>,
) -> Result<Answer<OfferDetail>, Failed> {
    caller.require(Scope::OffersWrite)?;
    let event = caller.event(&state, &event).await?;
    let entry = entry_of(&state, &caller, request.entry, Scope::OffersWrite).await?;
    if entry.event.id != event.id {
        return Err(crate::web::error::Error::NotFound.into());
    }
    let reason = because(&request.reason, &request.note)?;
    let waitlist = state.waitlist();
    let refusal = match waitlist
        .offer_to(event.id, request.entry, request.expires_at, caller.actor(), &reason)
        .await?
    {
        OfferOutcome::Offered { offer, .. } => {
            return Ok(Answer::created(offer_now(&state, offer).await?));
        }
        OfferOutcome::AlreadyOffered(offer) => {
            Refusal::new(Code::AlreadyOffered, "The entry has a live offer.").with("offer", offer)
        }
        OfferOutcome::NotWaiting(now) => over(now),
        OfferOutcome::TooFew(open) => too_few(open),
        OfferOutcome::BatchFull => batch_full(),
        OfferOutcome::NotOnSale => not_on_sale(),
        OfferOutcome::ListClosed => list_closed(),
        OfferOutcome::BadDeadline => bad_deadline(),
    };
    Err(refusal.into())
}

fn too_few(open: i64) -> Refusal {
    let detail = "Fewer places are open than the entry needs. Revoke an offer, or release a place.";
    Refusal::new(Code::NoCapacity, detail).with("open", open)
}

fn batch_full() -> Refusal {
    Refusal::new(Code::BatchFull, "As many offers are pending as the rule allows.")
}

fn not_on_sale() -> Refusal {
    Refusal::new(Code::NotOnSale, "The event is not public, cancelled, over, or has started.")
}

fn list_closed() -> Refusal {
    Refusal::new(Code::ListNotOpen, "The list is closed.").with("list", "closed")
}

fn bad_deadline() -> Refusal {
    Refusal::field(
        "expires_at",
        "A deadline is in the future, not after the start, and later than the one in force; a list without a window needs one.",
    )
}

/// An offer is to be taken back.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RevokeRequest {
    /// What becomes of the entry. Without it `set_aside`: the person keeps their rank and is not served until staff decide.
    #[serde(default)]
    after: Option<AfterRevoke>,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Take an offer back
///
/// Its places go to the next in line. What becomes of the person `after` says: without it they are set aside, and get no offer
/// until staff bring them back (`POST /v1/waitlist/{entry}:bring-back`).
#[utoipa::path(post, path = "/v1/offers/{offer}:revoke", tag = "Offers", params(("offer" = OfferId, Path)),
    request_body = RevokeRequest,
    security(("key" = ["offers:write"])),
    responses((status = 200, description = "Taken back, now or before.", body = OfferDetail)))]
async fn revoke(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
    Json(request): Json<RevokeRequest>,
) -> Result<Answer<OfferDetail>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let after = request.after.unwrap_or(AfterRevoke::SetAside);
    match state.waitlist().revoke(event, id, after, caller.actor(), &reason).await? {
        RevokeOutcome::Revoked | RevokeOutcome::AlreadyRevoked { .. } => {
            Ok(Answer::ok(offer_now(&state, id).await?))
        }
        RevokeOutcome::NotPending(now) => Err(not_pending(now).into()),
    }
}

/// A new deadline.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct DeadlineRequest {
    /// Until then.
    expires_at: DateTime<Utc>,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Give an offer again
///
/// An expired or revoked hold, with a new deadline and any open places that would do.
#[utoipa::path(post, path = "/v1/offers/{offer}:reactivate", tag = "Offers", params(("offer" = OfferId, Path)),
    request_body = DeadlineRequest,
    security(("key" = ["offers:write"])),
    responses((status = 200, description = "Pending again.", body = OfferDetail)))]
async fn reactivate(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
    Json(request): Json<DeadlineRequest>,
) -> Result<Answer<OfferDetail>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let waitlist = state.waitlist();
    let refusal = match waitlist.reactivate(event, id, request.expires_at, caller.actor(), &reason).await? {
        ReactivateOutcome::Reactivated { .. } => return Ok(Answer::ok(offer_now(&state, id).await?)),
        ReactivateOutcome::NotOver(now) => {
            Refusal::new(Code::WrongState, "Only an expired or revoked offer can be given again.")
                .with("state", now)
        }
        ReactivateOutcome::NotAHold => {
            Refusal::new(Code::WrongState, "A call kept nothing: it cannot be given again.")
        }
        ReactivateOutcome::TooFew(open) => too_few(open),
        ReactivateOutcome::BatchFull => batch_full(),
        ReactivateOutcome::NotOnSale => not_on_sale(),
        ReactivateOutcome::ListClosed => list_closed(),
        ReactivateOutcome::HasAnother => {
            Refusal::new(Code::AlreadyOffered, "The person has another live entry, or this one a live offer.")
        }
        ReactivateOutcome::Enough(has) => enough(has),
        ReactivateOutcome::BadDeadline => bad_deadline(),
    };
    Err(refusal.into())
}

/// Move a deadline further away
///
/// At most to the start; its person is told.
#[utoipa::path(post, path = "/v1/offers/{offer}:extend", tag = "Offers", params(("offer" = OfferId, Path)),
    request_body = DeadlineRequest,
    security(("key" = ["offers:write"])),
    responses((status = 200, description = "As it is now.", body = OfferDetail)))]
async fn extend(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
    Json(request): Json<DeadlineRequest>,
) -> Result<Answer<OfferDetail>, Failed> {
    let event = event_of(&state, &caller, id).await?;
    let reason = because(&request.reason, &request.note)?;
    let until = request.expires_at;
    match state.waitlist().extend(event, id, until, caller.actor(), &reason).await? {
        ExtendOutcome::Extended { .. } => Ok(Answer::ok(offer_now(&state, id).await?)),
        ExtendOutcome::NotPending(now) => Err(not_pending(now).into()),
        ExtendOutcome::BadDeadline => Err(bad_deadline().into()),
    }
}
