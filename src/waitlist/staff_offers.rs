//! What staff do to offers: make one by hand, revoke, reactivate, extend, and release a place by its name.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::bookings::CancelOutcome;
use super::ending::{Ending, end_offers};
use super::pass::tell_of_offer;
use super::telling::{made_up, tell_of_more_time};
use super::{Waitlist, decide_once};
use crate::db::entries::EntryMove;
use crate::db::offers::{NewOffer, OfferMove};
use crate::db::places::{Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::{Entry, EntryState, Return};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, PlaceId, StaffId};
use crate::domain::kinds::Kinds;
use crate::domain::message::Occasion;
use crate::domain::offer::{OfferAct, OfferKind, OfferState, Refusal};
use crate::domain::policy::Enough;
use crate::domain::reason::StaffReason;
use crate::domain::secret::token_hash;
use crate::domain::{when, words};

words! {
    /// What becomes of an entry whose offer staff revoke.
    AfterRevoke {
        /// Passed over until staff act.
        SetAside = "set_aside",
        /// At its rank, and may be next again.
        AtItsRank = "at_its_rank",
        /// To the end of the line.
        ToTheEnd = "to_the_end",
        /// Off the list.
        OffTheList = "off_the_list",
    }
}

/// What came of revoking.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RevokeOutcome {
    /// Taken back.
    Revoked,
    /// Somebody did so before: who of the staff, and when.
    AlreadyRevoked {
        /// Who; none when a rule did.
        by: Option<StaffId>,
        /// When.
        at: DateTime<Utc>,
    },
    /// Not pending any more: this is its state.
    NotPending(OfferState),
}

/// What came of reactivating.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReactivateOutcome {
    /// Pending again, until this instant.
    Reactivated {
        /// The new deadline.
        expires_at: DateTime<Utc>,
    },
    /// Neither expired nor revoked: this is its state.
    NotOver(OfferState),
    /// Only holds come back.
    NotAHold,
    /// So many places are open: fewer than it needs.
    TooFew(i64),
    /// As many offers are pending as the rule allows.
    BatchFull,
    /// The event has started, or is not public.
    NotOnSale,
    /// The list is closed.
    ListClosed,
    /// The person has another live entry, or this one already has a live offer.
    HasAnother,
    /// With what they have booked since it would be more than one person may have.
    Enough(Enough),
    /// The deadline given is in the past or after the start.
    BadDeadline,
}

/// What came of an offer by staff.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum OfferOutcome {
    /// Made, until this instant.
    Offered {
        /// Which.
        offer: OfferId,
        /// The deadline.
        expires_at: DateTime<Utc>,
    },
    /// The entry already has a live offer.
    AlreadyOffered(OfferId),
    /// The entry is not in the line: this is its state.
    NotWaiting(EntryState),
    /// So many places are open: fewer than it needs.
    TooFew(i64),
    /// As many offers are pending as the rule allows.
    BatchFull,
    /// The event has started, or is not public.
    NotOnSale,
    /// The list is closed.
    ListClosed,
    /// The deadline given is in the past or after the start, or none is given for a passive list.
    BadDeadline,
}

/// What came of moving a deadline.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum ExtendOutcome {
    /// Moved to this instant.
    Extended {
        /// The new deadline.
        expires_at: DateTime<Utc>,
    },
    /// Not pending any more: this is its state.
    NotPending(OfferState),
    /// Not later than the deadline in force, or after the start.
    BadDeadline,
}

impl Waitlist {
    /// Takes an offer back.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such offer, or what the database says.
    pub async fn revoke(
        &self,
        event: EventId,
        offer: OfferId,
        after: AfterRevoke,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<RevokeOutcome, DbError> {
        decide_once!(self, event, async |event| revoke(event, offer, after, actor, reason).await).await
    }

    /// Gives an expired or revoked hold again, with a new deadline and any open places.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such offer, or what the database says.
    pub async fn reactivate(
        &self,
        event: EventId,
        offer: OfferId,
        deadline: DateTime<Utc>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<ReactivateOutcome, DbError> {
        decide_once!(self, event, async |event| reactivate(self, event, offer, deadline, actor, reason).await)
            .await
    }

    /// Staff offer open places to a waiting entry, whoever is ahead. Without a deadline the rule's window applies.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn offer_to(
        &self,
        event: EventId,
        entry: EntryId,
        deadline: Option<DateTime<Utc>>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<OfferOutcome, DbError> {
        decide_once!(self, event, async |event| offer_to(self, event, entry, deadline, actor, reason).await)
            .await
    }

    /// Moves the deadline of a pending offer further away, at most to the start.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such offer, or what the database says.
    pub async fn extend(
        &self,
        event: EventId,
        offer: OfferId,
        deadline: DateTime<Utc>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<ExtendOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let before = vec![event.offer(offer).await?];
            let before = made_up(event, before).await?.pop().ok_or(DbError::NotFound)?;
            if !before.is_claimable(event.now()) {
                event.nothing_to_write();
                return Ok(ExtendOutcome::NotPending(before.state));
            }
            if !deadline_is_good(event, before.expires_at, deadline) {
                event.nothing_to_write();
                return Ok(ExtendOutcome::BadDeadline);
            }
            let mut change =
                OfferMove::end(&before, OfferState::Pending, actor, Act::DeadlineMoved, reason.reason);
            change.expires_at = deadline;
            change.note.clone_from(&reason.note);
            event.move_offers(&[change]).await?;
            tell_of_more_time(event, &before, deadline, reason.reason);
            Ok(ExtendOutcome::Extended { expires_at: deadline })
        })
        .await
    }
}

async fn revoke(
    event: &mut LockedEvent,
    id: OfferId,
    what: AfterRevoke,
    actor: Actor,
    reason: &StaffReason,
) -> Result<RevokeOutcome, DbError> {
    let offer = event.offer(id).await?;
    match offer.after(OfferAct::Revoke, event.now()) {
        Ok(to) => {
            let entry = event.entry(offer.entry).await?;
            let (mut after, to_end) = match what {
                AfterRevoke::SetAside | AfterRevoke::AtItsRank => {
                    (entry.moved_back(Return::TO_ITS_RANK), false)
                }
                AfterRevoke::ToTheEnd => (entry.moved_back(Return::TO_ITS_RANK), true),
                AfterRevoke::OffTheList => (Entry { state: EntryState::Removed, ..entry.clone() }, false),
            };
            after.set_aside = what == AfterRevoke::SetAside;
            end_offers(
                event,
                vec![Ending {
                    offer,
                    to,
                    entry,
                    after,
                    to_end,
                    actor,
                    act: Act::Revoked,
                    reason: reason.reason,
                    note: reason.note.clone(),
                    tell: Some(Occasion::Revoked),
                }],
            )
            .await?;
            Ok(RevokeOutcome::Revoked)
        }
        Err(refusal) => {
            let by = event.who_ended(id).await?;
            event.nothing_to_write();
            Ok(match refusal {
                Refusal::Already(OfferState::Revoked) => {
                    RevokeOutcome::AlreadyRevoked { by, at: offer.ended_at.unwrap_or(event.now()) }
                }
                _ => RevokeOutcome::NotPending(offer.state),
            })
        }
    }
}

/// Open places for a party, of the kinds it wants, or how many of those are open.
async fn open_for(
    event: &mut LockedEvent,
    party: i32,
    kinds: &Kinds,
) -> Result<Result<Vec<Place>, i64>, DbError> {
    let open = event.open_kinds().await?;
    let kinds: Vec<i32> = open.iter().map(|kind| kind.kind).filter(|kind| kinds.has(*kind)).collect();
    let places = event.open_places_among(&kinds, party.into()).await?;
    let found = i64::try_from(places.len()).unwrap_or(i64::MAX);
    Ok(if found < i64::from(party) { Err(found) } else { Ok(places) })
}

/// Later than `after`, and not after the start.
fn deadline_is_good(event: &LockedEvent, after: DateTime<Utc>, deadline: DateTime<Utc>) -> bool {
    deadline > after
        && event.event().starts_at.is_none_or(|start| deadline <= start)
        && when::is_writable(deadline)
}

fn on_sale(event: &LockedEvent) -> bool {
    event.event().state == EventState::Published && !event.event().started(event.now())
}

async fn reactivate(
    waitlist: &Waitlist,
    event: &mut LockedEvent,
    id: OfferId,
    deadline: DateTime<Utc>,
    actor: Actor,
    reason: &StaffReason,
) -> Result<ReactivateOutcome, DbError> {
    let offer = event.offer(id).await?;
    event.nothing_to_write();
    match offer.after(OfferAct::Reactivate, event.now()) {
        Ok(_) => {}
        Err(Refusal::NotAHold) => return Ok(ReactivateOutcome::NotAHold),
        Err(_) => return Ok(ReactivateOutcome::NotOver(offer.state)),
    }
    if !on_sale(event) {
        return Ok(ReactivateOutcome::NotOnSale);
    }
    if event.event().list == ListState::Closed {
        return Ok(ReactivateOutcome::ListClosed);
    }
    if !deadline_is_good(event, event.now(), deadline) {
        return Ok(ReactivateOutcome::BadDeadline);
    }
    let mut entry = event.entry(offer.entry).await?;
    let live = event.live_entries_of(&[entry.person]).await?;
    if live.iter().any(|other| other.id != entry.id)
        || matches!(entry.state, EntryState::Offered | EntryState::Accepted | EntryState::Closed)
    {
        return Ok(ReactivateOutcome::HasAnother);
    }
    let places = match open_for(event, offer.party, &entry.kinds).await? {
        Ok(places) => places,
        Err(open) => return Ok(ReactivateOutcome::TooFew(open)),
    };
    let policy = event.policy().await?;
    if let Some(enough) = event.enough(&policy, entry.person, offer.party).await? {
        return Ok(ReactivateOutcome::Enough(enough));
    }
    if policy.batch_size > 0 && event.pending_holds().await? >= i64::from(policy.batch_size) {
        return Ok(ReactivateOutcome::BatchFull);
    }
    // The order may have changed while it was over.
    entry.fall_into_line(policy.ordering);
    let reactivations = offer.reactivations + 1;
    tell_of_offer(
        event,
        offer.id,
        &Entry { party: offer.party, ..entry.clone() },
        reactivations,
        deadline,
        &places,
    );
    let change = OfferMove {
        expires_at: deadline,
        token_hash: Some(token_hash(&waitlist.secret.offer_token(offer.id, reactivations))),
        note: reason.note.clone(),
        ..OfferMove::end(&offer, OfferState::Pending, actor, Act::Reactivated, reason.reason)
    };
    event.move_offers(&[change]).await?;
    hold(event, &offer.id, entry, places, actor, Act::Reactivated, reason).await?;
    Ok(ReactivateOutcome::Reactivated { expires_at: deadline })
}

/// Gives the places to the offer and marks its entry offered.
async fn hold(
    event: &mut LockedEvent,
    offer: &OfferId,
    before: Entry,
    places: Vec<Place>,
    actor: Actor,
    act: Act,
    reason: &StaffReason,
) -> Result<(), DbError> {
    let holds: Vec<PlaceMove> = places
        .into_iter()
        .map(|place| PlaceMove::hold(place, *offer, before.id, actor, reason.reason))
        .collect();
    event.move_places(&holds).await?;
    let after = Entry {
        state: EntryState::Offered,
        set_aside: false,
        paused: None,
        paused_until: None,
        lapses_at: None,
        vouched: before.vouched || before.confirmed_at.is_none(),
        ..before.clone()
    };
    event
        .move_entries(&[EntryMove {
            before,
            after,
            actor,
            act,
            reason: reason.reason,
            note: None,
            policy_version: Some(event.event().policy_version),
        }])
        .await
}

async fn offer_to(
    waitlist: &Waitlist,
    event: &mut LockedEvent,
    id: EntryId,
    deadline: Option<DateTime<Utc>>,
    actor: Actor,
    reason: &StaffReason,
) -> Result<OfferOutcome, DbError> {
    event.nothing_to_write();
    if !on_sale(event) {
        return Ok(OfferOutcome::NotOnSale);
    }
    if event.event().list == ListState::Closed {
        return Ok(OfferOutcome::ListClosed);
    }
    let entry = event.entry(id).await?;
    match entry.state {
        EntryState::Waiting => {}
        EntryState::Offered => {
            let live = event.live_offers_of(&[id]).await?.pop().ok_or(DbError::NotFound)?;
            return Ok(OfferOutcome::AlreadyOffered(live.id));
        }
        state => return Ok(OfferOutcome::NotWaiting(state)),
    }
    let policy = event.policy().await?;
    let (now, start) = (event.now(), event.event().starts_at);
    let deadline = deadline
        .or_else(|| policy.window.map(|window| crate::domain::policy::Policy::deadline(window, now, start)));
    let Some(expires_at) = deadline.filter(|deadline| deadline_is_good(event, now, *deadline)) else {
        return Ok(OfferOutcome::BadDeadline);
    };
    if policy.batch_size > 0 && event.pending_holds().await? >= i64::from(policy.batch_size) {
        return Ok(OfferOutcome::BatchFull);
    }
    let places = match open_for(event, entry.party, &entry.kinds).await? {
        Ok(places) => places,
        Err(open) => return Ok(OfferOutcome::TooFew(open)),
    };
    let offer = OfferId(event.entropy().id());
    tell_of_offer(event, offer, &entry, 0, expires_at, &places);
    let new = NewOffer {
        id: offer,
        entry: entry.id,
        kind: OfferKind::Hold,
        told_for: None,
        party: entry.party,
        key: entry.key,
        expires_at,
        token_hash: token_hash(&waitlist.secret.offer_token(offer, 0)),
    };
    event.make_offers(&[new], None, policy.version, actor, reason.reason, reason.note.as_deref()).await?;
    hold(event, &offer, entry, places, actor, Act::Offered, reason).await?;
    event.want_pass();
    Ok(OfferOutcome::Offered { offer, expires_at })
}

/// What had a place when staff looked at it. A release names it, so that the second of two who release the same
/// place does not take it from whoever was offered it since.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Holder {
    /// This hold.
    Hold(OfferId),
    /// This booking.
    Booking(BookingId),
}

/// What came of releasing a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReleaseOutcome {
    /// Its booking was cancelled.
    BookingCancelled,
    /// The booking service is asked to take the booking back: the place is free once it has.
    BeingCancelled,
    /// Its hold was revoked.
    HoldRevoked,
    /// Somebody did so before: who of the staff, and when.
    Already {
        /// Who; none when it was not staff.
        by: Option<StaffId>,
        /// When.
        at: DateTime<Utc>,
    },
    /// The hold became something else meanwhile.
    NotPending(OfferState),
    /// What was named has another place, not this one.
    Elsewhere,
}

impl Waitlist {
    /// Releases a place: cancels the booking, or revokes the hold, that had it when staff looked. Once that is over,
    /// the place is taken from nobody who has it since.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such place, booking or hold, or what the database says.
    pub async fn release_place(
        &self,
        event: EventId,
        place: PlaceId,
        seen: Holder,
        after: AfterRevoke,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<ReleaseOutcome, DbError> {
        // A hold and a booking keep their places as long as they live: what is read here without the lock can only end.
        let there = self.db.find_place(event, place).await?;
        let elsewhere = match seen {
            Holder::Hold(offer) => {
                there.offer != Some(offer) && !self.db.places_held_by(event, offer).await?.is_empty()
            }
            Holder::Booking(booking) => self.db.find_booking(booking).await?.place != place,
        };
        if elsewhere {
            return Ok(ReleaseOutcome::Elsewhere);
        }
        Ok(match seen {
            Holder::Hold(offer) => match self.revoke(event, offer, after, actor, reason).await? {
                RevokeOutcome::Revoked => ReleaseOutcome::HoldRevoked,
                RevokeOutcome::AlreadyRevoked { by, at } => ReleaseOutcome::Already { by, at },
                RevokeOutcome::NotPending(state) => ReleaseOutcome::NotPending(state),
            },
            Holder::Booking(booking) => match self.cancel_booking(event, booking, actor, reason).await? {
                CancelOutcome::Cancelled { .. } => ReleaseOutcome::BookingCancelled,
                CancelOutcome::Already { by, at } => ReleaseOutcome::Already { by, at },
                CancelOutcome::BeingCancelled => ReleaseOutcome::BeingCancelled,
                CancelOutcome::NotYours => ReleaseOutcome::NotPending(OfferState::Accepted),
            },
        })
    }
}
