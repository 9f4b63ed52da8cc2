//! Offers: a temporary right to claim, and the one place that says how they may change.

use chrono::{DateTime, Utc};

use super::entry::OrderKey;
use super::ids::{EntryId, EventId, OfferId, PersonId, StaffId};
use super::reason::Reason;
use super::words;

words! {
    /// What an offer is.
    OfferKind {
        /// Keeps its places until the deadline.
        Hold = "hold",
        /// Keeps none: first to accept wins.
        Call = "call",
    }
}

words! {
    /// Where an offer is in its life.
    OfferState {
        /// Can be accepted until the deadline.
        Pending = "pending",
        /// Accepted, and an external booking service has not answered yet.
        Accepting = "accepting",
        /// Became a booking.
        Accepted = "accepted",
        /// The customer said no, or left.
        Declined = "declined",
        /// The deadline passed.
        Expired = "expired",
        /// Taken back.
        Revoked = "revoked",
        /// The external booking service says the place is gone.
        Conflicted = "conflicted",
    }
}

/// One offer, as its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Offer {
    /// The event.
    pub event: EventId,
    /// Its id.
    pub id: OfferId,
    /// The entry it is for.
    pub entry: EntryId,
    /// The person of that entry.
    pub person: PersonId,
    /// Hold or call.
    pub kind: OfferKind,
    /// Where it is in its life.
    pub state: OfferState,
    /// How many places.
    pub party: i32,
    /// The pass that made it; none for one made by staff.
    pub pass: Option<i64>,
    /// Who of the staff made it.
    pub made_by: Option<StaffId>,
    /// By which rule, or why staff made it.
    pub made_reason: Option<Reason>,
    /// The version of the rule it was made under.
    pub policy_version: i32,
    /// The entry's order key when it was offered.
    pub key: OrderKey,
    /// When it was made or last reactivated.
    pub made_at: DateTime<Utc>,
    /// It lives while `now < expires_at`.
    pub expires_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it ended.
    pub end_reason: Option<String>,
    /// How often it was reactivated.
    pub reactivations: i32,
    /// How often its holder was told again that a place is open; only of calls.
    pub tellings: i32,
    /// Nobody can be told at this moment, and the rule it was made under is to wait: its clock stands still.
    pub stands: bool,
}

impl Offer {
    /// The last call before the start: a race until then.
    #[must_use]
    pub fn is_final_call(&self) -> bool {
        self.kind == OfferKind::Call && self.made_reason == Some(Reason::FinalCall)
    }

    /// Pending and before its deadline (half-open: the deadline itself is late), or while its clock stands still.
    #[must_use]
    pub fn is_claimable(&self, now: DateTime<Utc>) -> bool {
        self.state == OfferState::Pending && (now < self.expires_at || self.stands)
    }
}

/// What can happen to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferAct {
    /// The customer takes it.
    Accept,
    /// The customer passes it on.
    Decline,
    /// The deadline passed.
    Expire,
    /// Taken back by staff, by closing the list or by cancelling the event.
    Revoke,
    /// Given again by staff.
    Reactivate,
}

/// Why an act does not apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// The deadline passed, swept or not.
    Late,
    /// The deadline has not passed yet.
    NotDue,
    /// The offer is already in this final state.
    Already(OfferState),
    /// Being confirmed by the booking service.
    BeingConfirmed,
    /// Only holds come back.
    NotAHold,
}

impl Offer {
    /// The state after `act` at `now`: the whole state machine of built-in bookings.
    ///
    /// # Errors
    /// Why the act does not apply; the offer is then as it was.
    pub fn after(&self, act: OfferAct, now: DateTime<Utc>) -> Result<OfferState, Refusal> {
        use OfferState::{Accepted, Accepting, Conflicted, Declined, Expired, Pending, Revoked};
        match (self.state, act) {
            (Pending, OfferAct::Accept) if self.is_claimable(now) => Ok(Accepted),
            (Pending, OfferAct::Decline) if self.is_claimable(now) => Ok(Declined),
            (Pending | Expired, OfferAct::Accept | OfferAct::Decline) => Err(Refusal::Late),
            (Pending, OfferAct::Expire) if self.is_claimable(now) => Err(Refusal::NotDue),
            (Pending, OfferAct::Expire) => Ok(Expired),
            (Pending, OfferAct::Revoke) => Ok(Revoked),
            (Accepting, _) => Err(Refusal::BeingConfirmed),
            (Expired | Revoked, OfferAct::Reactivate) if self.kind == OfferKind::Call => {
                Err(Refusal::NotAHold)
            }
            (Expired | Revoked, OfferAct::Reactivate) => Ok(Pending),
            (state @ (Pending | Accepted | Declined | Expired | Revoked | Conflicted), _) => {
                Err(Refusal::Already(state))
            }
        }
    }
}

#[cfg(test)]
mod properties;
