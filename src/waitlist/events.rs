//! An event's life: published, changed, cancelled, un-cancelled, over; and its rule.

use serde::{Deserialize, Serialize};

use super::draws;
use super::lists::revoke_pending;
use super::pass::{CHUNK, REORDERED};
use super::{Waitlist, decide, decide_once};
use crate::db::entries::EntryMove;
use crate::db::events::NewEvent;
use crate::db::messages::Draft;
use crate::db::offers::OfferMove;
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::{Entry, EntryState};
use crate::domain::event::{EventSettings, EventState};
use crate::domain::ids::EventId;
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::OfferState;
use crate::domain::policy::{Band, Ordering, Policy, PolicyError};
use crate::domain::reason::{Reason, StaffReason};

/// What came of creating an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CreateOutcome {
    /// A draft.
    Created(EventId),
    /// Another event has this address.
    SlugTaken,
    /// It would have started before it is announced.
    StartsInPast,
}

/// What came of changing an event's state.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum EventOutcome {
    /// As asked.
    Done {
        /// Offers that were taken back.
        revoked: usize,
        /// Entries that were closed, or reopened.
        entries: usize,
    },
    /// It was so before.
    Already,
    /// From this state that cannot be done.
    NotFrom(EventState),
    /// A draft whose start is past cannot be published.
    StartsInPast,
}

/// What came of saving a form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SaveOutcome {
    /// Saved.
    Saved {
        /// How many deadlines were moved because the start came nearer.
        deadlines_moved: usize,
        /// The start is past: nothing is offered any more.
        started: bool,
    },
    /// Somebody saved the same form meanwhile: nothing was changed.
    Conflict,
    /// The event was cancelled or is over.
    NotFrom(EventState),
    /// A draft cannot be given a start that is past.
    StartsInPast,
}

/// What came of changing the rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum RuleOutcome {
    /// In force, as this version.
    Saved(i32),
    /// Somebody saved the event meanwhile: nothing was changed.
    Conflict,
    /// A setting is out of its bounds, or does not go with the others.
    Refused(PolicyError),
    /// A group that is to go away still has people in it.
    BandInUse {
        /// Which.
        band: Band,
        /// How many.
        entries: i64,
    },
}

impl Waitlist {
    /// Makes a draft event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn create_event(
        &self,
        new: &NewEvent,
        policy: &Policy,
        made_by: Actor,
    ) -> Result<CreateOutcome, DbError> {
        if let Some(start) = new.settings.starts_at
            && start <= self.db.now().await?
        {
            return Ok(CreateOutcome::StartsInPast);
        }
        match self.db.add_event(new, policy, made_by).await {
            Ok(id) => Ok(CreateOutcome::Created(id)),
            Err(DbError::Constraint(name)) if name == "events_slug_key" => Ok(CreateOutcome::SlugTaken),
            Err(error) => Err(error),
        }
    }

    /// Makes a draft public.
    ///
    /// # Errors
    /// What the database says.
    pub async fn publish(
        &self,
        event: EventId,
        actor: Actor,
        reason: Reason,
        note: Option<&str>,
    ) -> Result<EventOutcome, DbError> {
        decide_once!(self, event, async |event| match event.event().state {
            EventState::Draft if event.event().started(event.now()) => {
                event.nothing_to_write();
                Ok(EventOutcome::StartsInPast)
            }
            EventState::Draft => {
                let note = note.map(str::to_owned);
                set_state(event, EventState::Published, Act::Published, actor, reason, note).await?;
                Ok(EventOutcome::Done { revoked: 0, entries: 0 })
            }
            EventState::Published => {
                event.nothing_to_write();
                Ok(EventOutcome::Already)
            }
            from => {
                event.nothing_to_write();
                Ok(EventOutcome::NotFrom(from))
            }
        })
        .await
    }

    /// Saves an event's settings. An earlier start moves later deadlines to it and tells their people; one that is
    /// past ends what is offered, and a draft cannot have it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn save_settings(
        &self,
        event: EventId,
        settings: &EventSettings,
        form_version: i32,
        actor: Actor,
    ) -> Result<SaveOutcome, DbError> {
        decide!(self, event, async |event| {
            if matches!(event.event().state, EventState::Cancelled | EventState::Over) {
                event.nothing_to_write();
                return Ok(SaveOutcome::NotFrom(event.event().state));
            }
            if event.event().form_version != form_version {
                event.nothing_to_write();
                return Ok(SaveOutcome::Conflict);
            }
            let started = settings.starts_at.is_some_and(|start| start <= event.now());
            if started && event.event().state == EventState::Draft {
                event.nothing_to_write();
                return Ok(SaveOutcome::StartsInPast);
            }
            event.set_settings(settings).await?;
            let record = Record::new(
                event.now(),
                actor,
                Act::Changed,
                Subject::Event(event.id()),
                Reason::EventChanged,
            );
            event.record(record);
            let deadlines_moved = clamp_deadlines(event, actor).await?;
            event.want_pass();
            Ok(SaveOutcome::Saved { deadlines_moved, started })
        })
        .await
    }

    /// Puts a new version of the rule in force; offers already made keep theirs.
    ///
    /// # Errors
    /// What the database says.
    pub async fn change_policy(
        &self,
        event: EventId,
        policy: &Policy,
        form_version: i32,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<RuleOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            if event.event().form_version != form_version {
                return Ok(RuleOutcome::Conflict);
            }
            let before = event.policy().await?;
            if let Err(error) = policy.check(event.event().starts_at) {
                return Ok(RuleOutcome::Refused(error));
            }
            if event.event().final_called_at.is_some() && policy.cutoff != before.cutoff {
                return Ok(RuleOutcome::Refused(PolicyError::CutoffCalled));
            }
            let moved = policy.cutoff != before.cutoff;
            if moved && policy.cutoff.is_some_and(|cutoff| cutoff <= event.now()) {
                return Ok(RuleOutcome::Refused(PolicyError::CutoffPast));
            }
            if policy.ordering == Ordering::Lottery {
                draws::announce(event, &self.secret).await?;
            }
            if before.ordering == policy.ordering {
                let gone: Vec<Band> =
                    before.bands.into_iter().filter(|band| policy.band(band.number).is_none()).collect();
                if let Some((band, entries)) = event.first_band_in_use(&gone).await? {
                    return Ok(RuleOutcome::BandInUse { band, entries });
                }
            } else {
                event.take_back_order(REORDERED).await?;
            }
            let version = event.change_policy(policy.clone(), actor, reason).await?;
            event.touch_form().await?;
            event.want_pass();
            Ok(RuleOutcome::Saved(version))
        })
        .await
    }

    /// Cancels an event: its pending offers are revoked, everybody live is closed, and all are told.
    ///
    /// # Errors
    /// What the database says.
    pub async fn cancel_event(
        &self,
        event: EventId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<EventOutcome, DbError> {
        let (mut revoked, mut entries, mut all) = (0, 0, None);
        loop {
            let step = decide!(self, event, async |event| {
                match event.event().state {
                    EventState::Draft | EventState::Published | EventState::Cancelled => {}
                    EventState::Over => {
                        event.nothing_to_write();
                        return Ok(Err(EventState::Over));
                    }
                }
                if event.event().state != EventState::Cancelled && event.did_before().await? {
                    event.nothing_to_write();
                    return Ok(Ok((None, 0, 0)));
                }
                // Passes help to close a long list: how many there were is counted before.
                let before = if event.event().state == EventState::Cancelled {
                    None
                } else {
                    Some((event.pending_holds().await?, event.live_count().await?))
                };
                let note = reason.note.clone();
                let (offers, closed) =
                    end(event, EventState::Cancelled, actor, Reason::EventCancelled, note).await?;
                event.nothing_to_write();
                Ok(Ok((before, offers, closed)))
            })
            .await?;
            match step {
                Err(from) => return Ok(EventOutcome::NotFrom(from)),
                Ok((before, offers, closed)) => {
                    all = all.or(before);
                    revoked += offers;
                    entries += closed;
                    if offers < CHUNK && closed < CHUNK {
                        break;
                    }
                }
            }
        }
        Ok(match all {
            Some((pending, live)) => EventOutcome::Done {
                revoked: usize::try_from(pending).unwrap_or(revoked),
                entries: usize::try_from(live).unwrap_or(entries),
            },
            None if entries > 0 => EventOutcome::Done { revoked, entries },
            None => EventOutcome::Already,
        })
    }

    /// A cancelled event takes place after all: what cancelling closed is reopened at its old rank. What never was
    /// public is a draft again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn restore_event(
        &self,
        event: EventId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<EventOutcome, DbError> {
        let mut entries = 0;
        loop {
            let step = decide!(self, event, async |event| {
                let from = event.event().state;
                if from == EventState::Cancelled && event.did_before().await? {
                    event.nothing_to_write();
                    return Ok(Ok((false, 0)));
                }
                if from == EventState::Cancelled {
                    let to =
                        if event.was_published().await? { EventState::Published } else { EventState::Draft };
                    let note = reason.note.clone();
                    set_state(event, to, Act::Reopened, actor, reason.reason, note).await?;
                } else if from != EventState::Published {
                    event.nothing_to_write();
                    return Ok(Err(from));
                }
                let reopened = reopen(event, actor).await?;
                event.nothing_to_write();
                Ok(Ok((from == EventState::Cancelled, reopened)))
            })
            .await?;
            match step {
                Err(from) => return Ok(EventOutcome::NotFrom(from)),
                Ok((false, 0)) if entries == 0 => return Ok(EventOutcome::Already),
                Ok((_, reopened)) => {
                    entries += reopened;
                    if reopened < CHUNK {
                        return Ok(EventOutcome::Done { revoked: 0, entries });
                    }
                }
            }
        }
    }
}

async fn set_state(
    event: &mut LockedEvent,
    to: EventState,
    act: Act,
    actor: Actor,
    reason: Reason,
    note: Option<String>,
) -> Result<(), DbError> {
    let from = event.event().state;
    event.set_event_state(to).await?;
    let mut record = Record::new(event.now(), actor, act, Subject::Event(event.id()), reason)
        .states(Some(from.as_str()), Some(to.as_str()));
    record.note = note;
    event.record(record);
    event.want_pass();
    Ok(())
}

/// Ends an event as `to`, a chunk of offers and entries at a time: returns how many of each.
pub(super) async fn end(
    event: &mut LockedEvent,
    to: EventState,
    actor: Actor,
    reason: Reason,
    note: Option<String>,
) -> Result<(usize, usize), DbError> {
    if event.event().state != to {
        set_state(event, to, Act::Closed, actor, reason, note).await?;
    }
    let revoked = revoke_pending(event, actor, reason, None).await?;
    if revoked == CHUNK {
        return Ok((revoked, 0));
    }
    let live = event.live_entries(i64::try_from(CHUNK).unwrap_or(i64::MAX)).await?;
    let mut moves = Vec::with_capacity(live.len());
    // An offer that the booking service is confirming is closed after its outcome.
    for before in live.into_iter().filter(|entry| entry.state != EntryState::Offered) {
        if to == EventState::Cancelled && before.state == EntryState::Waiting {
            event.tell(Draft {
                person: before.person,
                occasion: Occasion::EventCancelled,
                subject: before.id.0,
                // An event may be cancelled, restored and cancelled again: each time is told once.
                count: event.event().form_version,
                facts: Facts { entry: Some(before.id.0), party: Some(before.party), ..Facts::default() },
            });
        }
        moves.push(EntryMove {
            after: Entry { state: EntryState::Closed, lapses_at: None, ..before.clone() },
            before,
            actor,
            act: Act::Closed,
            reason,
            note: None,
            policy_version: None,
        });
    }
    event.move_entries(&moves).await?;
    Ok((revoked, moves.len()))
}

/// Reopens up to a chunk of what cancelling closed. Somebody who joined again meanwhile keeps the newer entry only
/// if it is live; their closed one stays closed.
async fn reopen(event: &mut LockedEvent, actor: Actor) -> Result<usize, DbError> {
    let closed = event.closed_entries(i64::try_from(CHUNK).unwrap_or(i64::MAX)).await?;
    let now = event.now();
    let moves: Vec<EntryMove> = closed
        .into_iter()
        .map(|(before, was)| EntryMove {
            after: Entry {
                state: was,
                lapses_at: (was == EntryState::Unconfirmed).then(|| now + super::join::CONFIRM_WITHIN),
                ..before.clone()
            },
            before,
            actor,
            act: Act::Reopened,
            reason: Reason::EventRestored,
            note: None,
            policy_version: None,
        })
        .collect();
    event.move_entries(&moves).await?;
    if !moves.is_empty() {
        event.touch_form().await?;
        event.want_pass();
    }
    Ok(moves.len())
}

/// A deadline never lies after the start: those that now do move to it, and their people are told.
async fn clamp_deadlines(event: &mut LockedEvent, actor: Actor) -> Result<usize, DbError> {
    let Some(start) = event.event().starts_at else { return Ok(0) };
    let pending = event.pending_offers(i64::from(i32::MAX)).await?;
    // A start in the past would give a deadline before the offer was made: such offers end at once instead.
    let late: Vec<_> = pending.into_iter().filter(|offer| offer.expires_at > start).collect();
    let (over, moved): (Vec<_>, Vec<_>) = late.into_iter().partition(|offer| start <= offer.made_at);
    for offer in &moved {
        event.tell(Draft {
            person: offer.person,
            occasion: Occasion::StartMoved,
            subject: offer.id.0,
            count: event.event().form_version,
            facts: Facts {
                entry: Some(offer.entry.0),
                offer: Some(offer.id.0),
                party: Some(offer.party),
                expires_at: Some(start),
                reactivations: Some(offer.reactivations),
                ..Facts::default()
            },
        });
    }
    let changes: Vec<OfferMove> = moved
        .iter()
        .map(|offer| OfferMove {
            expires_at: start,
            ..OfferMove::end(offer, OfferState::Pending, actor, Act::DeadlineMoved, Reason::StartMoved)
        })
        .collect();
    event.move_offers(&changes).await?;
    if !over.is_empty() {
        super::lists::revoke(event, over, actor, Reason::StartMoved, Some(Occasion::Revoked)).await?;
    }
    Ok(changes.len())
}
