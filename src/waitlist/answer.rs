//! Answering an offer: accept and decline. Both take slices, so that answers which arrive together on one event
//! are decided together under one lock.

use std::collections::HashMap;

use chrono::Duration;
use uuid::Uuid;

use super::ending::{Ending, end_offers, labels};
use super::outside_settled::keep_for;
use super::telling::made_up;
use super::{Waitlist, decide};
use crate::db::booking_attempts::{Leased, NewAttempt};
use crate::db::bookings::NewBooking;
use crate::db::entries::EntryMove;
use crate::db::messages::Draft;
use crate::db::offers::OfferMove;
use crate::db::places::{Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::booking::{Booking, BookingSource, reference};
use crate::domain::entry::{Entry, EntryState};
use crate::domain::event::EventState;
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, PersonId};
use crate::domain::kinds::Kinds;
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::{Offer, OfferAct, OfferKind, OfferState, Refusal};
use crate::domain::outside::{AttemptAct, Gate, KEY_LIFE};
use crate::domain::reason::Reason;

/// Somebody takes an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Accept {
    /// Which.
    pub offer: OfferId,
    /// Who: signed in as this person, or staff on their behalf.
    pub person: PersonId,
    /// Who acts.
    pub actor: Actor,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AcceptOutcome {
    /// The places are theirs.
    Accepted {
        /// What they quote.
        reference: String,
        /// How many places.
        party: i32,
    },
    /// They had accepted before: a second tap is harmless.
    AlreadyAccepted {
        /// What they quote.
        reference: String,
        /// How many places.
        party: i32,
    },
    /// The deadline passed.
    Expired,
    /// They had declined, or left.
    Declined,
    /// It was taken back.
    Revoked,
    /// The booking service has not answered yet.
    BeingConfirmed,
    /// The booking service says that the place is gone.
    Conflicted,
    /// The booking service cannot be reached, and nothing was booked: the offer is as it was, with time to try again.
    ServiceUnavailable,
    /// It is a call, and others were faster: so many places are open now, fewer than it needs. It stays pending.
    TakenByFaster {
        /// How many.
        open: i64,
    },
    /// The offer is somebody else's.
    NotYours,
    /// There is no such offer on this event.
    Unknown,
}

impl AcceptOutcome {
    /// A word for whoever counts them.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted { .. } => "accepted",
            Self::AlreadyAccepted { .. } => "already_accepted",
            Self::Expired => "expired",
            Self::Declined => "declined",
            Self::Revoked => "revoked",
            Self::BeingConfirmed => "being_confirmed",
            Self::Conflicted => "conflicted",
            Self::ServiceUnavailable => "service_unavailable",
            Self::TakenByFaster { .. } => "taken_by_faster",
            Self::NotYours => "not_yours",
            Self::Unknown => "unknown",
        }
    }
}

/// An accept that was decided, or that waits for a booking service.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Begun {
    /// This is the answer.
    Decided(AcceptOutcome),
    /// The intent is written down: the service is to be asked, and may be.
    Asking(Leased, Gate),
}

/// Somebody passes an offer on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decline {
    /// Which.
    pub offer: OfferId,
    /// Who.
    pub person: PersonId,
    /// Who acts.
    pub actor: Actor,
}

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DeclineOutcome {
    /// The places go to the next.
    Declined {
        /// What becomes of the entry.
        entry: EntryState,
    },
    /// They had declined before.
    AlreadyDeclined,
    /// They had accepted before: the booking stands.
    Accepted,
    /// The deadline passed.
    Expired,
    /// It was taken back.
    Revoked,
    /// The booking service has not answered yet, or said no.
    BeingConfirmed,
    /// The offer is somebody else's.
    NotYours,
    /// There is no such offer on this event.
    Unknown,
}

impl Waitlist {
    /// Decides offers of one event that were accepted, in this order, and answers each.
    ///
    /// # Errors
    /// What the database says; then nothing was decided, or it is not known ([`DbError::CommitUnknown`]).
    pub async fn accept(&self, event: EventId, commands: &[Accept]) -> Result<Vec<AcceptOutcome>, DbError> {
        let begun = self.begin_accept(event, commands).await?;
        self.finish_accepts(begun).await
    }

    /// The part of accepting under the event's lock: all of it, unless a service books the event's places.
    ///
    /// # Errors
    /// What the database says; then nothing was decided, or it is not known ([`DbError::CommitUnknown`]).
    pub async fn begin_accept(&self, event: EventId, commands: &[Accept]) -> Result<Vec<Begun>, DbError> {
        let lease = self.services.lease();
        decide!(self, event, async |event| accept(event, commands, None, lease).await).await
    }

    /// Decides offers of one event that were declined, in this order, and answers each.
    ///
    /// # Errors
    /// What the database says.
    pub async fn decline(
        &self,
        event: EventId,
        commands: &[Decline],
    ) -> Result<Vec<DeclineOutcome>, DbError> {
        decide!(self, event, async |event| decline(event, commands).await).await
    }
}

/// What is known of the offers that a slice of commands names.
struct Known {
    offers: HashMap<OfferId, Offer>,
    entries: HashMap<EntryId, Entry>,
}

async fn read(event: &mut LockedEvent, ids: &[OfferId]) -> Result<Known, DbError> {
    let offers = event.offers(ids).await?;
    let offers = made_up(event, offers).await?;
    let entries = event.entries(&offers.iter().map(|offer| offer.entry).collect::<Vec<_>>()).await?;
    Ok(Known {
        offers: offers.into_iter().map(|offer| (offer.id, offer)).collect(),
        entries: entries.into_iter().map(|entry| (entry.id, entry)).collect(),
    })
}

/// What the outbox says of an accept is said of its offer, or of what the act is `named` by whoever books for somebody who
/// has one: so they find it again.
pub(super) async fn accept(
    event: &mut LockedEvent,
    commands: &[Accept],
    named: Option<Uuid>,
    lease: Duration,
) -> Result<Vec<Begun>, DbError> {
    let ids: Vec<OfferId> = commands.iter().map(|command| command.offer).collect();
    let known = read(event, &ids).await?;
    // Of many offers some may still be pending a moment after their event was cancelled.
    let ended = matches!(event.event().state, EventState::Cancelled | EventState::Over);
    let outside = event.event().outside;
    let mut gate = None;
    let mut references = references(event, &known).await?;
    let mut open = open_for_calls(event, &known).await?;
    let mut taken: HashMap<OfferId, Vec<Place>> = HashMap::new();
    let mut accepted: Vec<(Accept, &Offer)> = Vec::new();
    let mut outcomes = Vec::with_capacity(commands.len());
    for command in commands {
        let Some(offer) = known.offers.get(&command.offer) else {
            outcomes.push(AcceptOutcome::Unknown);
            continue;
        };
        let again = accepted.iter().any(|(_, earlier)| earlier.id == offer.id);
        outcomes.push(if offer.person != command.person {
            AcceptOutcome::NotYours
        } else if again && outside {
            AcceptOutcome::BeingConfirmed
        } else if again {
            AcceptOutcome::AlreadyAccepted {
                reference: references.get(&offer.id).cloned().unwrap_or_default(),
                party: offer.party,
            }
        } else {
            let party = usize::try_from(offer.party).unwrap_or(usize::MAX);
            match offer.after(OfferAct::Accept, event.now()) {
                Ok(_) if ended => AcceptOutcome::Revoked,
                Ok(_) if offer.kind == OfferKind::Call && wanted(&open, &known, offer) < party => {
                    let open = i64::try_from(wanted(&open, &known, offer)).unwrap_or(i64::MAX);
                    AcceptOutcome::TakenByFaster { open }
                }
                Ok(_) if outside && !lets_through(event, &mut gate, lease).await? => {
                    AcceptOutcome::ServiceUnavailable
                }
                Ok(_) => {
                    if offer.kind == OfferKind::Call {
                        let is_wanted = wants(&known, offer);
                        let mut left = party;
                        let (given, rest) = open.into_iter().partition(|place| {
                            let give = left > 0 && is_wanted.has(place.kind);
                            left -= usize::from(give);
                            give
                        });
                        open = rest;
                        taken.insert(offer.id, given);
                    }
                    let reference = reference(event.entropy().bytes());
                    references.insert(offer.id, reference.clone());
                    accepted.push((*command, offer));
                    AcceptOutcome::Accepted { reference, party: offer.party }
                }
                Err(refusal) => refused(refusal, offer, &references),
            }
        });
    }
    let turned_away = std::iter::zip(commands, &outcomes)
        .filter(|(_, outcome)| **outcome == AcceptOutcome::ServiceUnavailable)
        .filter_map(|(command, _)| Some((command, known.offers.get(&command.offer)?)));
    keep_for(event, turned_away).await?;
    // A deadline that passed unswept is a reason for a pass at once.
    if outcomes.contains(&AcceptOutcome::Expired) {
        event.want_pass();
    }
    let mut asking = HashMap::new();
    if outside {
        asking = begin_outside(event, &accepted, taken, lease).await?;
    } else {
        take(event, &known, &accepted, named, &references, taken).await?;
    }
    // Where only so many offers may be pending, an answer makes room for the next; and whoever was called for what a
    // call took is told of what else is open.
    let a_call = accepted.iter().any(|(_, offer)| offer.kind == OfferKind::Call);
    if a_call || !accepted.is_empty() && event.policy().await?.batch_size > 0 {
        event.want_pass();
    }
    event.nothing_to_write();
    let begun = |(command, outcome): (&Accept, AcceptOutcome)| match outcome {
        AcceptOutcome::Accepted { .. } => asking
            .remove(&command.offer)
            .map_or(Begun::Decided(outcome), |leased| Begun::Asking(leased, gate.unwrap_or(Gate::Open))),
        outcome => Begun::Decided(outcome),
    };
    Ok(std::iter::zip(commands, outcomes).map(begun).collect())
}

/// Whether the event's service may be called for one more of a slice, and remembers what the gate said. The probe goes
/// alone.
async fn lets_through(
    event: &mut LockedEvent,
    gate: &mut Option<Gate>,
    probe_for: Duration,
) -> Result<bool, DbError> {
    match *gate {
        Some(Gate::Open) => Ok(true),
        Some(Gate::Probe | Gate::Shut) => Ok(false),
        None => Ok(*gate.insert(event.booking_gate(probe_for).await?) != Gate::Shut),
    }
}

/// Writes down what the event's booking service is to be asked: the offers are being confirmed from now on, and what a
/// call took is held for it.
async fn begin_outside(
    event: &mut LockedEvent,
    accepted: &[(Accept, &Offer)],
    taken: HashMap<OfferId, Vec<Place>>,
    lease: Duration,
) -> Result<HashMap<OfferId, Leased>, DbError> {
    let (mut offers, mut places, mut attempts) = (vec![], vec![], vec![]);
    for (command, offer) in accepted {
        let (actor, reason) = (command.actor, Reason::Accepted);
        offers.push(OfferMove::end(offer, OfferState::Accepting, actor, Act::Confirming, reason));
        attempts.push(NewAttempt {
            offer: offer.id,
            act: AttemptAct::Reserve,
            key: None,
            actor,
            reason,
            note: None,
            bookings: vec![],
        });
    }
    for (offer, given) in taken {
        let Some((command, known)) = accepted.iter().find(|(_, accepted)| accepted.id == offer) else {
            continue;
        };
        places.extend(
            given
                .into_iter()
                .map(|place| PlaceMove::hold(place, offer, known.entry, command.actor, Reason::Accepted)),
        );
    }
    event.move_offers(&offers).await?;
    event.move_places(&places).await?;
    let leased = event.begin_attempts(&attempts, lease, KEY_LIFE).await?;
    Ok(std::iter::zip(attempts, leased).map(|(attempt, leased)| (attempt.offer, leased)).collect())
}

/// The booking service has the places of an offer: they are booked here under its reference.
pub(super) async fn taken_outside(
    event: &mut LockedEvent,
    command: &Accept,
    offer: &Offer,
    reference: &str,
) -> Result<(), DbError> {
    let known = read(event, &[offer.id]).await?;
    let references = HashMap::from([(offer.id, reference.to_owned())]);
    take(event, &known, &[(*command, offer)], None, &references, HashMap::new()).await?;
    event.want_pass();
    Ok(())
}

/// The references of bookings already made through these offers.
async fn references(event: &mut LockedEvent, known: &Known) -> Result<HashMap<OfferId, String>, DbError> {
    let done: Vec<OfferId> = known
        .offers
        .values()
        .filter(|offer| offer.state == OfferState::Accepted)
        .map(|offer| offer.id)
        .collect();
    if done.is_empty() {
        return Ok(HashMap::new());
    }
    let bookings: Vec<Booking> = event.bookings_of_offers(&done).await?;
    Ok(bookings.into_iter().filter_map(|booking| Some((booking.offer?, booking.reference))).collect())
}

fn refused(refusal: Refusal, offer: &Offer, references: &HashMap<OfferId, String>) -> AcceptOutcome {
    match refusal {
        Refusal::Already(OfferState::Accepted) => AcceptOutcome::AlreadyAccepted {
            reference: references.get(&offer.id).cloned().unwrap_or_default(),
            party: offer.party,
        },
        Refusal::Already(OfferState::Declined) => AcceptOutcome::Declined,
        Refusal::Already(OfferState::Revoked) => AcceptOutcome::Revoked,
        Refusal::Already(OfferState::Conflicted) => AcceptOutcome::Conflicted,
        Refusal::BeingConfirmed | Refusal::Already(OfferState::Accepting) => AcceptOutcome::BeingConfirmed,
        Refusal::Late | Refusal::NotDue | Refusal::NotAHold | Refusal::Already(_) => AcceptOutcome::Expired,
    }
}

/// The kinds of places that the person of an offer wants.
fn wants(known: &Known, offer: &Offer) -> Kinds {
    known.entries.get(&offer.entry).map_or(Kinds::ALL, |entry| entry.kinds)
}

fn wanted(open: &[Place], known: &Known, offer: &Offer) -> usize {
    let kinds = wants(known, offer);
    open.iter().filter(|place| kinds.has(place.kind)).count()
}

/// The open places for which the calls of a slice race: none is kept for any of them.
async fn open_for_calls(event: &mut LockedEvent, known: &Known) -> Result<Vec<Place>, DbError> {
    let calls = known.offers.values().filter(|offer| offer.kind == OfferKind::Call);
    let wanted: i64 = calls.map(|call| i64::from(call.party)).sum();
    if wanted == 0 {
        Ok(vec![])
    } else if event.event().has_wants {
        event.open_places_of_each_kind(wanted).await
    } else {
        event.open_places(wanted).await
    }
}

/// Books the places of accepted offers, held or, for calls, `held` for them in this transaction alone, and takes their entries along.
async fn take(
    event: &mut LockedEvent,
    known: &Known,
    accepted: &[(Accept, &Offer)],
    named: Option<Uuid>,
    references: &HashMap<OfferId, String>,
    mut held: HashMap<OfferId, Vec<Place>>,
) -> Result<(), DbError> {
    if accepted.is_empty() {
        return Ok(());
    }
    let ids: Vec<OfferId> = accepted.iter().map(|(_, offer)| offer.id).collect();
    for place in event.places_of_offers(&ids).await? {
        if let Some(offer) = place.offer {
            held.entry(offer).or_default().push(place);
        }
    }
    let (mut offers, mut entries, mut bookings, mut places) = (vec![], vec![], vec![], vec![]);
    for (command, offer) in accepted {
        let entry = known.entries.get(&offer.entry).ok_or(DbError::NotFound)?;
        let reference = references.get(&offer.id).cloned().unwrap_or_default();
        let given = held.remove(&offer.id).unwrap_or_default();
        event.tell(Draft {
            person: entry.person,
            occasion: Occasion::Accepted,
            subject: named.unwrap_or(offer.id.0),
            count: offer.reactivations,
            facts: Facts {
                entry: Some(entry.id.0),
                offer: Some(offer.id.0),
                party: Some(offer.party),
                labels: labels(&given),
                reference: Some(reference.clone()),
                ..Facts::default()
            },
        });
        for place in given {
            let id = BookingId(event.entropy().id());
            bookings.push(NewBooking {
                id,
                place: place.id,
                person: entry.person,
                offer: Some(offer.id),
                entry: Some(entry.id),
                reference: reference.clone(),
                source: BookingSource::Offer,
                actor: command.actor,
                reason: Reason::Accepted,
            });
            places.push(PlaceMove::book(place, id, Some(entry.id), command.actor, Reason::Accepted));
        }
        offers.push(OfferMove::end(
            offer,
            OfferState::Accepted,
            command.actor,
            Act::Accepted,
            Reason::Accepted,
        ));
        entries.push(EntryMove {
            after: Entry { state: EntryState::Accepted, silent_offers: 0, ..entry.clone() },
            before: entry.clone(),
            actor: command.actor,
            act: Act::Accepted,
            reason: Reason::Accepted,
            note: None,
            policy_version: Some(offer.policy_version),
        });
    }
    event.make_bookings(&bookings).await?;
    event.move_offers(&offers).await?;
    event.move_entries(&entries).await?;
    event.move_places(&places).await
}

pub(super) async fn decline(
    event: &mut LockedEvent,
    commands: &[Decline],
) -> Result<Vec<DeclineOutcome>, DbError> {
    let ids: Vec<OfferId> = commands.iter().map(|command| command.offer).collect();
    let known = read(event, &ids).await?;
    let mut versions: Vec<i32> = known.offers.values().map(|offer| offer.policy_version).collect();
    versions.sort_unstable();
    versions.dedup();
    let policies = event.policy_versions(&versions).await?;
    let now = event.now();
    let mut endings: Vec<Ending> = Vec::new();
    let mut outcomes = Vec::with_capacity(commands.len());
    for command in commands {
        let Some(offer) = known.offers.get(&command.offer) else {
            outcomes.push(DeclineOutcome::Unknown);
            continue;
        };
        let again = endings.iter().any(|earlier| earlier.offer.id == offer.id);
        outcomes.push(if offer.person != command.person {
            DeclineOutcome::NotYours
        } else if again {
            DeclineOutcome::AlreadyDeclined
        } else {
            match offer.after(OfferAct::Decline, now) {
                Ok(to) => {
                    let policy = policies
                        .iter()
                        .find(|policy| policy.version == offer.policy_version)
                        .ok_or(DbError::NotFound)?;
                    let entry = known.entries.get(&offer.entry).ok_or(DbError::NotFound)?;
                    let (after, back) = entry.after_decline(policy, now);
                    let state = after.state;
                    endings.push(Ending {
                        offer: offer.clone(),
                        to,
                        entry: entry.clone(),
                        after,
                        to_end: back.to_end,
                        actor: command.actor,
                        act: Act::Declined,
                        reason: Reason::Declined,
                        note: None,
                        tell: Some(Occasion::Declined),
                    });
                    DeclineOutcome::Declined { entry: state }
                }
                Err(Refusal::Already(OfferState::Declined)) => DeclineOutcome::AlreadyDeclined,
                Err(Refusal::Already(OfferState::Accepted)) => DeclineOutcome::Accepted,
                Err(Refusal::Already(OfferState::Revoked)) => DeclineOutcome::Revoked,
                Err(
                    Refusal::BeingConfirmed
                    | Refusal::Already(OfferState::Accepting | OfferState::Conflicted),
                ) => DeclineOutcome::BeingConfirmed,
                Err(Refusal::Late | Refusal::NotDue | Refusal::NotAHold | Refusal::Already(_)) => {
                    DeclineOutcome::Expired
                }
            }
        });
    }
    if outcomes.contains(&DeclineOutcome::Expired) {
        event.want_pass();
    }
    end_offers(event, endings).await?;
    event.nothing_to_write();
    Ok(outcomes)
}
