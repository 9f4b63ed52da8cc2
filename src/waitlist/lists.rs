//! An event's list: opened, frozen, closed, scheduled.

use super::ending::{Ending, end_offers};
use super::pass::CHUNK;
use super::{Waitlist, decide};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::{EntryState, Return};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::EventId;
use crate::domain::message::Occasion;
use crate::domain::offer::{Offer, OfferState};
use crate::domain::reason::{Reason, StaffReason};

/// What came of changing a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ListOutcome {
    /// As asked; `revoked` offers were taken back because the list was closed.
    Done {
        /// How many.
        revoked: usize,
    },
    /// It was so before.
    Already,
    /// The event was cancelled or is over.
    NotPublished,
}

impl Waitlist {
    /// Opens, freezes or closes an event's list. Closing revokes its pending offers with the reason `list_closed`
    /// and leaves their people eligible at their old rank, for when it is opened again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_list(
        &self,
        event: EventId,
        to: ListState,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<ListOutcome, DbError> {
        let mut revoked = 0;
        loop {
            let (outcome, more) = decide!(self, event, async |event| {
                if matches!(event.event().state, EventState::Cancelled | EventState::Over) {
                    event.nothing_to_write();
                    return Ok((ListOutcome::NotPublished, false));
                }
                let unchanged = event.event().list == to;
                if !unchanged {
                    change(event, to, actor, reason.reason, reason.note.clone()).await?;
                }
                let mut now_revoked = 0;
                if to == ListState::Closed {
                    now_revoked =
                        revoke_pending(event, actor, Reason::ListClosed, Some(Occasion::ListClosed)).await?;
                }
                if unchanged && now_revoked == 0 {
                    event.nothing_to_write();
                    return Ok((ListOutcome::Already, false));
                }
                Ok((ListOutcome::Done { revoked: now_revoked }, now_revoked == CHUNK))
            })
            .await?;
            match outcome {
                ListOutcome::Done { revoked: now } => revoked += now,
                ListOutcome::Already if revoked > 0 => return Ok(ListOutcome::Done { revoked }),
                ListOutcome::Already | ListOutcome::NotPublished => return Ok(outcome),
            }
            if !more {
                return Ok(ListOutcome::Done { revoked });
            }
        }
    }
}

async fn change(
    event: &mut LockedEvent,
    to: ListState,
    actor: Actor,
    reason: Reason,
    note: Option<String>,
) -> Result<(), DbError> {
    let from = event.event().list;
    event.set_list_state(to).await?;
    let act = match to {
        ListState::Open => Act::Opened,
        ListState::Frozen => Act::Frozen,
        ListState::Closed => Act::Closed,
    };
    let mut record = Record::new(event.now(), actor, act, Subject::Event(event.id()), reason)
        .states(Some(from.as_str()), Some(to.as_str()));
    record.note = note;
    event.record(record);
    event.want_pass();
    Ok(())
}

/// Takes back up to a chunk of pending offers; their entries go back to their rank.
pub(super) async fn revoke_pending(
    event: &mut LockedEvent,
    actor: Actor,
    reason: Reason,
    tell: Option<Occasion>,
) -> Result<usize, DbError> {
    let offers = event.pending_offers(i64::try_from(CHUNK).unwrap_or(i64::MAX)).await?;
    revoke(event, offers, actor, reason, tell).await
}

/// Takes back these pending offers; their entries go back to their rank.
pub(super) async fn revoke(
    event: &mut LockedEvent,
    offers: Vec<Offer>,
    actor: Actor,
    reason: Reason,
    tell: Option<Occasion>,
) -> Result<usize, DbError> {
    let entries = event.entries(&offers.iter().map(|offer| offer.entry).collect::<Vec<_>>()).await?;
    let mut endings = Vec::with_capacity(offers.len());
    for offer in offers {
        let entry = entries.iter().find(|entry| entry.id == offer.entry).ok_or(DbError::NotFound)?.clone();
        debug_assert_eq!(entry.state, EntryState::Offered);
        endings.push(Ending {
            after: entry.moved_back(Return::TO_ITS_RANK),
            offer,
            to: OfferState::Revoked,
            entry,
            to_end: false,
            actor,
            act: Act::Revoked,
            reason,
            note: None,
            tell,
        });
    }
    let revoked = endings.len();
    end_offers(event, endings).await?;
    Ok(revoked)
}

/// Opens and freezes the list when its schedule says so; called by every pass.
pub(super) async fn apply_schedule(event: &mut LockedEvent) -> Result<(), DbError> {
    let now = event.now();
    let (opens, freezes) = (event.event().list_opens_at, event.event().list_freezes_at);
    if opens.is_some_and(|at| at <= now) {
        if event.event().list != ListState::Open {
            change(event, ListState::Open, Actor::System, Reason::Scheduled, None).await?;
        }
        event.set_list_schedule(None, freezes).await?;
    }
    if freezes.is_some_and(|at| at <= now) {
        if event.event().list == ListState::Open {
            change(event, ListState::Frozen, Actor::System, Reason::Scheduled, None).await?;
        }
        event.set_list_schedule(None, None).await?;
    }
    Ok(())
}
