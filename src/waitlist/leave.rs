//! Leaving the list in every state, being taken off by staff, pausing and resuming.

use serde::{Deserialize, Serialize};

use super::ending::{Ending, end_offers};
use super::{Waitlist, decide_once};
use crate::db::entries::EntryMove;
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::{Entry, EntryState, PausedBy};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::message::Occasion;
use crate::domain::offer::{OfferAct, OfferState};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::when;

/// What came of leaving, or of taking somebody off.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum LeaveOutcome {
    /// Off the list; with `offer_declined`, a live offer went to the next.
    Left {
        /// Whether there was one.
        offer_declined: bool,
    },
    /// The entry is over already: this is its state.
    Already(EntryState),
    /// An accepted offer is being confirmed by the booking service: wait for the outcome.
    BeingConfirmed,
}

/// What came of pausing or resuming.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PauseOutcome {
    /// As asked.
    Done,
    /// It was so before.
    Already,
    /// Staff paused it: its person cannot change that.
    PausedByStaff,
    /// A pause ends in the future, and before the year 10000.
    BadUntil,
    /// Only an entry in the line can be paused: this is its state.
    NotWaiting(EntryState),
}

impl Waitlist {
    /// A person leaves; while offered this declines the offer with the reason `left`.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn leave(&self, event: EventId, entry: EntryId, actor: Actor) -> Result<LeaveOutcome, DbError> {
        decide_once!(self, event, async |event| {
            take_off(event, entry, EntryState::Withdrawn, Act::Left, Reason::Left, None, actor).await
        })
        .await
    }

    /// Staff take an entry off the list.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn remove(
        &self,
        event: EventId,
        entry: EntryId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<LeaveOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let note = reason.note.clone();
            take_off(event, entry, EntryState::Removed, Act::Removed, reason.reason, note, actor).await
        })
        .await
    }

    /// Passes the entry over from now on, keeping its rank; until `until`, or until resumed.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn pause(
        &self,
        event: EventId,
        entry: EntryId,
        by: PausedBy,
        until: Option<chrono::DateTime<chrono::Utc>>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<PauseOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let before = event.entry(entry).await?;
            if before.state != EntryState::Waiting {
                event.nothing_to_write();
                return Ok(PauseOutcome::NotWaiting(before.state));
            }
            if until.is_some_and(|until| until <= event.now() || !when::is_writable(until)) {
                event.nothing_to_write();
                return Ok(PauseOutcome::BadUntil);
            }
            // A person does not make staff's pause their own, and could then end it.
            if matches!(actor, Actor::Person(_)) && before.paused == Some(PausedBy::Staff) {
                event.nothing_to_write();
                return Ok(PauseOutcome::PausedByStaff);
            }
            let after = Entry { paused: Some(by), paused_until: until, ..before.clone() };
            change(event, before, after, actor, Act::Paused, reason).await
        })
        .await
    }

    /// Serves a paused entry again.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn resume(
        &self,
        event: EventId,
        entry: EntryId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<PauseOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let before = event.entry(entry).await?;
            if before.state != EntryState::Waiting {
                event.nothing_to_write();
                return Ok(PauseOutcome::NotWaiting(before.state));
            }
            // What staff paused, staff resume, also in the moment after the person's page was read.
            if matches!(actor, Actor::Person(_)) && before.paused == Some(PausedBy::Staff) {
                event.nothing_to_write();
                return Ok(PauseOutcome::PausedByStaff);
            }
            let after = Entry { paused: None, paused_until: None, silent_offers: 0, ..before.clone() };
            let outcome = change(event, before, after, actor, Act::Resumed, reason).await?;
            if outcome == PauseOutcome::Done {
                event.want_pass();
            }
            Ok(outcome)
        })
        .await
    }

    /// Staff say what becomes of an entry that was set aside when its offer was revoked, or offer in spite of a
    /// contact problem.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn bring_back(
        &self,
        event: EventId,
        entry: EntryId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<PauseOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let before = event.entry(entry).await?;
            if before.state != EntryState::Waiting {
                event.nothing_to_write();
                return Ok(PauseOutcome::NotWaiting(before.state));
            }
            let after = Entry { set_aside: false, offer_anyway: before.contact_problem, ..before.clone() };
            let outcome = change(event, before, after, actor, Act::Placed, reason).await?;
            if outcome == PauseOutcome::Done {
                event.want_pass();
            }
            Ok(outcome)
        })
        .await
    }
}

async fn change(
    event: &mut LockedEvent,
    before: Entry,
    after: Entry,
    actor: Actor,
    act: Act,
    reason: &StaffReason,
) -> Result<PauseOutcome, DbError> {
    if before == after {
        event.nothing_to_write();
        return Ok(PauseOutcome::Already);
    }
    let (reason, note) = (reason.reason, reason.note.clone());
    event
        .move_entries(&[EntryMove { before, after, actor, act, reason, note, policy_version: None }])
        .await?;
    Ok(PauseOutcome::Done)
}

async fn take_off(
    event: &mut LockedEvent,
    entry: EntryId,
    to: EntryState,
    act: Act,
    reason: Reason,
    note: Option<String>,
    actor: Actor,
) -> Result<LeaveOutcome, DbError> {
    let before = event.entry(entry).await?;
    if !before.state.is_live() {
        event.nothing_to_write();
        return Ok(LeaveOutcome::Already(before.state));
    }
    let mut after = Entry { state: to, lapses_at: None, paused: None, paused_until: None, ..before.clone() };
    let Some(offer) = event.live_offers_of(&[entry]).await?.pop() else {
        event
            .move_entries(&[EntryMove { before, after, actor, act, reason, note, policy_version: None }])
            .await?;
        event.want_pass();
        return Ok(LeaveOutcome::Left { offer_declined: false });
    };
    if offer.state == OfferState::Accepting {
        event.nothing_to_write();
        return Ok(LeaveOutcome::BeingConfirmed);
    }
    // An offer whose deadline passed unswept ends as what it is: expired. Leaving works all the same.
    let (ends_as, tell) = match (to, offer.after(OfferAct::Decline, event.now())) {
        (_, Err(_)) => (OfferState::Expired, None),
        (EntryState::Removed, Ok(_)) => (OfferState::Revoked, Some(Occasion::Revoked)),
        (_, Ok(_)) => (OfferState::Declined, Some(Occasion::Declined)),
    };
    after.silent_offers = 0;
    if ends_as == OfferState::Declined {
        after.declined_at = Some(event.now());
    }
    let reason = if ends_as == OfferState::Expired { Reason::WindowEnded } else { reason };
    end_offers(
        event,
        vec![Ending {
            offer,
            to: ends_as,
            entry: before,
            after,
            to_end: false,
            actor,
            act,
            reason,
            note,
            tell,
        }],
    )
    .await?;
    Ok(LeaveOutcome::Left { offer_declined: ends_as != OfferState::Expired })
}
