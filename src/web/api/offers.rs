//! Offers: looking at them, accepting and declining.

use axum::extract::State;
use axum::http::StatusCode;
use serde::Deserialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, Who};
use super::json::{Answer, Because, Json, because};
use super::problem::{Code, Failed, Refusal};
use super::views::OfferDetail;
use crate::db::pages_customer::receipts::OfferSheet;
use crate::domain::ids::OfferId;
use crate::domain::key::Scope;
use crate::domain::offer::OfferState;
use crate::waitlist::answer::{Accept, AcceptOutcome, Decline, DeclineOutcome};
use crate::web::extract::Path;
use crate::web::{Limit, WebState};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(show)).with(routes!(accept)).with(routes!(decline))
}

/// An offer that is this caller's to see.
pub(super) async fn offer_of(
    state: &WebState,
    caller: &Caller,
    id: OfferId,
    scope: Scope,
) -> Result<OfferSheet, Failed> {
    let sheet = state.db.offer_sheet(id).await?;
    caller.require_of(sheet.event.organizer.id, sheet.offer.person, scope)?;
    Ok(sheet)
}

/// The offer as it is now.
pub(super) async fn offer_now(state: &WebState, id: OfferId) -> Result<OfferDetail, Failed> {
    Ok(state.db.offer_sheet(id).await?.into())
}

/// An offer
#[utoipa::path(get, path = "/v1/offers/{offer}", tag = "Offers", params(("offer" = OfferId, Path)),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "The offer.", body = OfferDetail)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
) -> Result<Answer<OfferDetail>, Failed> {
    Ok(Answer::ok(offer_of(&state, &caller, id, Scope::EntriesRead).await?.into()))
}

/// An answer, with why a program gives it.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct AnswerRequest {
    /// Needed by programs, which answer for the person: why, a code of `GET /v1/reasons` with `for_staff`, such as
    /// `customer_asked`. Customers need none.
    #[schema(example = "customer_asked")]
    reason: String,
    /// For programs: in one's own words; needed with the reason `other`.
    note: String,
}

/// Accept an offer
///
/// The places are booked, and the answer names the `reference` and the ids of the `bookings`. The `Idempotency-Key` is
/// required: the same one is sent with every repetition, and there is one booking. 200: decided. 202: the booking service
/// has not answered yet, as `being_confirmed` says, and the places are kept: send the same again after `Retry-After`, or wait
/// for `offer.accepted`, `offer.conflicted` or `offer.pending` with the act `not_booked`. An offer takes ten answers a minute,
/// so repeat at most every seven seconds.
/// 409 `in_flight`: the first request with this key is still being answered, repeat. 409 `not_pending`: final, `state` says
/// what became of it. 409 `conflicted`: final, the booking service says that a place is gone. 409 `taken_by_faster`: of a call,
/// which stays pending. 410: too late. 503 `booking_unavailable`: nothing was booked, and the offer is pending as before; repeat
/// after `Retry-After`.
#[utoipa::path(post, path = "/v1/offers/{offer}:accept", tag = "Offers", params(("offer" = OfferId, Path)),
    request_body = AnswerRequest,
    security(("key" = ["offers:write"]), ("customer" = [])),
    responses((status = 200, description = "The places are theirs, now or before.", body = OfferDetail),
              (status = 202, description = "The booking service has not answered yet: send the same again.", body = OfferDetail)))]
async fn accept(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
    Json(request): Json<AnswerRequest>,
) -> Result<Answer<OfferDetail>, Failed> {
    let sheet = offer_of(&state, &caller, id, Scope::OffersWrite).await?;
    state.count(Limit::Accept, id).await?;
    let (event, person) = (sheet.offer.event, sheet.offer.person);
    let outcome = match &caller.who {
        Who::Person(..) => {
            state.together.accept(event, Accept { offer: id, person, actor: caller.actor() }).await?
        }
        Who::Key(_) => {
            let reason = because(&request.reason, &request.note)?;
            state.waitlist().accept_for(event, id, caller.actor(), &reason).await?
        }
    };
    let refusal = match outcome {
        AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. } => {
            return Ok(Answer::ok(offer_now(&state, id).await?));
        }
        AcceptOutcome::BeingConfirmed => {
            return Ok(Answer(StatusCode::ACCEPTED, offer_now(&state, id).await?));
        }
        AcceptOutcome::ServiceUnavailable => {
            Refusal::new(
                Code::BookingUnavailable,
                "The booking service did not take it, so nothing was booked. The offer is pending as before; its deadline \
                 moves, so that there is time to try again, if it may.",
            )
            .again_in(called_again(&state, &sheet).await?)
        }
        AcceptOutcome::Expired => expired(),
        AcceptOutcome::Declined => not_pending(OfferState::Declined),
        AcceptOutcome::Revoked => not_pending(OfferState::Revoked),
        AcceptOutcome::Conflicted => conflicted(),
        AcceptOutcome::TakenByFaster { open } => Refusal::new(
            Code::TakenByFaster,
            "Nothing was kept for this call, and somebody was faster. It stays pending: places may come back.",
        )
        .with("open", open)
        .again_in(60),
        AcceptOutcome::NotYours => {
            Refusal::new(Code::NotYours, "This offer was made to somebody else. Nothing was done.")
        }
        AcceptOutcome::Unknown => return Err(crate::web::error::Error::NotFound.into()),
    };
    Err(refusal.into())
}

/// In how many seconds the event's booking service may be called again.
async fn called_again(state: &WebState, sheet: &OfferSheet) -> Result<i64, Failed> {
    let troubles = state.db.booking_troubles(sheet.event.organizer.id, Some(sheet.offer.event)).await?;
    let rests_until = troubles.first().and_then(|trouble| trouble.open_until);
    let now = state.db.session_now().await?;
    Ok(rests_until.map_or(10, |until| (until - now).num_seconds() + 1))
}

fn conflicted() -> Refusal {
    Refusal::new(
        Code::Conflicted,
        "The booking service says that a place of this offer is gone. Nothing was booked; the person is back in the line \
         at the old rank.",
    )
    .with("state", OfferState::Conflicted)
}

fn expired() -> Refusal {
    Refusal::new(Code::OfferExpired, "The deadline has passed. Nothing was booked.").with("state", "expired")
}

/// The offer is in this state, and so cannot be answered.
pub(super) fn not_pending(state: OfferState) -> Refusal {
    let detail = match state {
        OfferState::Accepting => return super::entries::being_confirmed().with("state", state),
        OfferState::Conflicted => return conflicted(),
        OfferState::Pending => "The offer is pending.",
        OfferState::Accepted => "The offer was accepted: its places are booked.",
        OfferState::Declined => "The offer was declined.",
        OfferState::Expired => "The offer has expired.",
        OfferState::Revoked => "The offer was taken back.",
    };
    Refusal::new(Code::NotPending, detail).with("state", state)
}

/// Decline an offer
///
/// The places go to the next in line. Declining twice does no harm. 409 `being_confirmed`: it was accepted, and the booking
/// service has not answered yet; repeat after `Retry-After`, if it is still to be declined.
#[utoipa::path(post, path = "/v1/offers/{offer}:decline", tag = "Offers", params(("offer" = OfferId, Path)),
    request_body = Because,
    security(("key" = ["offers:write"]), ("customer" = [])),
    responses((status = 200, description = "Declined, now or before.", body = OfferDetail)))]
async fn decline(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<OfferId>,
    Json(request): Json<Because>,
) -> Result<Answer<OfferDetail>, Failed> {
    let sheet = offer_of(&state, &caller, id, Scope::OffersWrite).await?;
    state.count(Limit::Accept, id).await?;
    let (event, person) = (sheet.offer.event, sheet.offer.person);
    let outcome = match &caller.who {
        Who::Person(..) => {
            state.together.decline(event, Decline { offer: id, person, actor: caller.actor() }).await?
        }
        Who::Key(_) => {
            let reason = request.parse()?;
            state.waitlist().decline_for(event, id, caller.actor(), &reason).await?
        }
    };
    let refusal = match outcome {
        DeclineOutcome::Declined { .. } | DeclineOutcome::AlreadyDeclined => {
            return Ok(Answer::ok(offer_now(&state, id).await?));
        }
        DeclineOutcome::Accepted => not_pending(OfferState::Accepted),
        DeclineOutcome::Expired => expired(),
        DeclineOutcome::Revoked => not_pending(OfferState::Revoked),
        DeclineOutcome::BeingConfirmed => super::entries::being_confirmed(),
        DeclineOutcome::NotYours => {
            Refusal::new(Code::NotYours, "This offer was made to somebody else. Nothing was done.")
        }
        DeclineOutcome::Unknown => return Err(crate::web::error::Error::NotFound.into()),
    };
    Err(refusal.into())
}
