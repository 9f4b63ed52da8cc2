//! Booking without an offer, by customers and staff, and cancelling: a cancelled booking frees its place once.

use chrono::Duration;
use sha2::{Digest, Sha256};

use super::answer::AcceptOutcome;
use super::ending::labels;
use super::join::bookable;
use super::outside_settled::{self, Settled};
use super::{Waitlist, decide};
use crate::db::attributes::count;
use crate::db::booking_attempts::{Leased, NewAttempt};
use crate::db::bookings::NewBooking;
use crate::db::entries::EntryMove;
use crate::db::messages::Draft;
use crate::db::places::{NewRelease, Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::attribute::Wants;
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::booking::{Booking, BookingSource, BookingState, reference};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::entry::{Entry, EntryState};
use crate::domain::event::EventState;
use crate::domain::ids::{BookingId, EventId, OfferId, PersonId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::OfferState;
use crate::domain::outside::{AttemptAct, KEY_LIFE};
use crate::domain::place::PlaceState;
use crate::domain::policy::Enough;
use crate::domain::reason::{Reason, StaffReason};

/// Somebody books without an offer.
#[derive(Clone, Debug)]
pub struct Book {
    /// For whom.
    pub person: PersonId,
    /// How many places.
    pub party: i32,
    /// Of what kinds.
    pub wants: Wants,
    /// Who acts: the person, or staff for them.
    pub actor: Actor,
    /// Why: staff's reason, or that the customer booked directly.
    pub reason: StaffReason,
    /// A manager takes places that are reserved for the waitlist.
    pub override_reservation: bool,
    /// Names the act, so that a form sent twice, or a commit whose fate was unknown, books once.
    pub once: uuid::Uuid,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum BookOutcome {
    /// The places are theirs.
    Booked {
        /// What they quote.
        reference: String,
        /// How many places.
        party: i32,
    },
    /// They have a live offer: it was accepted instead, or is to be.
    HasOffer(OfferId),
    /// The same, of another number of places than are to be booked: nothing was done.
    OfferDiffers {
        /// Which.
        offer: OfferId,
        /// Of how many places.
        party: i32,
    },
    /// Places are open, but held for the waitlist.
    HeldForWaitlist,
    /// So many places of the kinds wanted are open: fewer than wanted.
    TooFew(i64),
    /// The event is not public, cancelled, over, or has started.
    NotOnSale,
    /// Not between 1 and the largest party.
    BadParty(i32),
    /// With what they have booked it would be more than one person may have.
    Enough(Enough),
    /// A booking service has the event's places: what is free for everybody is booked there.
    BookedElsewhere,
    /// Their offer was accepted, and the booking service has not answered yet.
    BeingConfirmed(OfferId),
}

/// What came of cancelling a booking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CancelOutcome {
    /// Its place is free; with `retired`, it left the event instead.
    Cancelled {
        /// Whether the place was to leave when free.
        retired: bool,
    },
    /// Somebody cancelled it before: when, and who of the staff, if it was staff.
    Already {
        /// When.
        at: chrono::DateTime<chrono::Utc>,
        /// Who.
        by: Option<crate::domain::ids::StaffId>,
    },
    /// The booking is somebody else's.
    NotYours,
    /// The booking service is asked to take it back, and has not answered yet: its place is free once it has.
    BeingCancelled,
}

impl Waitlist {
    /// The person with this address in the event's organization, made if there is none.
    ///
    /// # Errors
    /// What the database says.
    pub async fn known_person(
        &self,
        event: EventId,
        name: &PersonName,
        email: &EmailAddress,
    ) -> Result<PersonId, DbError> {
        let who = [(name.clone(), email.clone())];
        let persons = decide!(self, event, async |event| event.persons_with(&who).await).await?;
        persons.first().map(|person| person.id).ok_or(DbError::NotFound)
    }

    /// Books places that are free for everybody. Whoever has a live offer takes it by booking (staff), or is sent to
    /// it (customers); a live entry is taken along.
    ///
    /// # Errors
    /// What the database says.
    pub async fn book(&self, event: EventId, command: &Book) -> Result<BookOutcome, DbError> {
        let outcome = decide!(self, event, async |event| book(event, command).await).await?;
        match outcome {
            // Staff who book for somebody with a live offer accept it on their behalf.
            BookOutcome::HasOffer(offer) if command.actor.is_staff() => {
                let named = Some(act(command));
                match self.accept_as(event, offer, named, command.actor, &command.reason).await? {
                    AcceptOutcome::Accepted { reference, party }
                    | AcceptOutcome::AlreadyAccepted { reference, party } => {
                        Ok(BookOutcome::Booked { reference, party })
                    }
                    AcceptOutcome::BeingConfirmed => Ok(BookOutcome::BeingConfirmed(offer)),
                    _ => Ok(BookOutcome::HasOffer(offer)),
                }
            }
            outcome => Ok(outcome),
        }
    }

    /// Cancels a booking: its place becomes free once, and a pass is asked for. Its offer and entry stay accepted.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such booking, or what the database says.
    pub async fn cancel_booking(
        &self,
        event: EventId,
        booking: BookingId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<CancelOutcome, DbError> {
        self.cancel_party(event, &[booking], actor, reason).await?.pop().ok_or(DbError::NotFound)
    }

    /// Cancels the bookings of a party together: all of them, or none when one cannot be read. The person is told
    /// once of what they no longer have.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event lacks one of them, or what the database says.
    pub async fn cancel_party(
        &self,
        event: EventId,
        bookings: &[BookingId],
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<Vec<CancelOutcome>, DbError> {
        let lease = self.services.lease();
        let (mut outcomes, asking) =
            decide!(self, event, async |event| cancel(event, bookings, actor, reason, lease).await).await?;
        for (leased, of) in asking {
            match self.ask(leased, None).await {
                Ok(Settled::Cancelled(now)) => {
                    for (at, outcome) in std::iter::zip(of, now) {
                        outcomes[at] = outcome;
                    }
                }
                Ok(_) => {}
                Err(error) => tracing::warn!(%event, %error, "a cancellation is left to the reconciler"),
            }
        }
        Ok(outcomes)
    }
}

async fn book(event: &mut LockedEvent, command: &Book) -> Result<BookOutcome, DbError> {
    if let Some(facts) = event.told(Occasion::Accepted, act(command)).await? {
        event.nothing_to_write();
        return Ok(BookOutcome::Booked {
            reference: facts.reference.unwrap_or_default(),
            party: facts.party.unwrap_or(command.party),
        });
    }
    let policy = event.policy().await?;
    let row = event.event();
    if row.state != EventState::Published || (row.started(event.now()) && !command.actor.is_staff()) {
        event.nothing_to_write();
        return Ok(BookOutcome::NotOnSale);
    }
    if command.party < 1 || command.party > policy.largest_party() {
        event.nothing_to_write();
        return Ok(BookOutcome::BadParty(policy.largest_party()));
    }
    let live = event.live_entries_of(&[command.person]).await?.pop();
    if let Some(entry) = live.as_ref().filter(|entry| entry.state == EntryState::Offered)
        && let Some(offer) = event.live_offers_of(&[entry.id]).await?.pop()
    {
        if offer.state == OfferState::Accepting {
            event.nothing_to_write();
            return Ok(BookOutcome::BeingConfirmed(offer.id));
        }
        if offer.is_claimable(event.now()) {
            event.nothing_to_write();
            // Staff accept it for them: not, where that is not what they mean to book.
            if command.actor.is_staff() && offer.party != command.party {
                return Ok(BookOutcome::OfferDiffers { offer: offer.id, party: offer.party });
            }
            return Ok(BookOutcome::HasOffer(offer.id));
        }
    }
    if event.event().outside {
        event.nothing_to_write();
        return Ok(BookOutcome::BookedElsewhere);
    }
    if let Some(enough) = event.enough(&policy, command.person, command.party).await? {
        event.nothing_to_write();
        return Ok(BookOutcome::Enough(enough));
    }
    let met = event.kinds_met(&command.wants).await?;
    let open = event.open_kinds().await?;
    if count(&open, &met) < i64::from(command.party) {
        event.nothing_to_write();
        return Ok(BookOutcome::TooFew(count(&open, &met)));
    }
    let mut free = bookable(event).await?;
    if count(&free, &met) < i64::from(command.party) {
        if !command.override_reservation {
            event.nothing_to_write();
            return Ok(BookOutcome::HeldForWaitlist);
        }
        let record = Record::new(
            event.now(),
            command.actor,
            Act::Overridden,
            Subject::Event(event.id()),
            command.reason.reason,
        )
        .noted(&command.reason);
        event.record(record);
        free = open;
    }
    let kinds: Vec<i32> = free.iter().map(|kind| kind.kind).filter(|kind| met.has(*kind)).collect();
    let places = event.open_places_among(&kinds, command.party.into()).await?;
    let reference = reference(event.entropy().bytes());
    take(event, command, places, live.filter(|entry| entry.state != EntryState::Offered), &reference).await?;
    Ok(BookOutcome::Booked { reference, party: command.party })
}

/// The act's name in the outbox. A form may come again with somebody else in it: that is another act, and what one
/// visitor names theirs never answers another.
fn act(command: &Book) -> uuid::Uuid {
    let digest = Sha256::new()
        .chain_update(b"fairlist booking")
        .chain_update(command.once)
        .chain_update(command.person.0)
        .finalize();
    let mut name = [0; 16];
    name.copy_from_slice(&digest[..16]);
    uuid::Uuid::from_bytes(name)
}

async fn take(
    event: &mut LockedEvent,
    command: &Book,
    places: Vec<Place>,
    live: Option<Entry>,
    reference: &str,
) -> Result<(), DbError> {
    let entry = live.as_ref().map(|entry| entry.id);
    event.tell(Draft {
        person: command.person,
        occasion: Occasion::Accepted,
        subject: act(command),
        count: 0,
        facts: Facts {
            party: Some(command.party),
            labels: labels(&places),
            reference: Some(reference.to_owned()),
            entry: entry.map(|id| id.0),
            ..Facts::default()
        },
    });
    let source = if command.actor.is_staff() { BookingSource::Staff } else { BookingSource::Customer };
    let (mut bookings, mut moves) = (Vec::new(), Vec::new());
    for place in places {
        let id = BookingId(event.entropy().id());
        bookings.push(NewBooking {
            id,
            place: place.id,
            person: command.person,
            offer: None,
            entry,
            reference: reference.to_owned(),
            source,
            actor: command.actor,
            reason: command.reason.reason,
        });
        moves.push(PlaceMove::book(place, id, entry, command.actor, command.reason.reason));
    }
    event.make_bookings(&bookings).await?;
    event.move_places(&moves).await?;
    if let Some(before) = live {
        // An unconfirmed entry whose person has a booking is vouched for by whoever booked.
        let vouched = before.vouched || before.confirmed_at.is_none();
        event
            .move_entries(&[EntryMove {
                after: Entry { state: EntryState::Accepted, lapses_at: None, vouched, ..before.clone() },
                before,
                actor: command.actor,
                act: Act::Accepted,
                reason: command.reason.reason,
                note: None,
                policy_version: None,
            }])
            .await?;
    }
    event.want_pass();
    Ok(())
}

/// Cancels what is booked here, and asks for the rest to be taken back: which of `ids` waits for which answer.
async fn cancel(
    event: &mut LockedEvent,
    ids: &[BookingId],
    actor: Actor,
    reason: &StaffReason,
    lease: Duration,
) -> Result<(Vec<CancelOutcome>, Vec<(Leased, Vec<usize>)>), DbError> {
    let mut asked: Vec<Booking> = Vec::new();
    if event.event().outside {
        for id in ids {
            asked.push(event.booking(*id).await?);
        }
    }
    let keys = outside_settled::outside(event, &asked).await?;
    if keys.is_empty() {
        return Ok((free(event, ids, actor, reason).await?, vec![]));
    }
    let offers: Vec<OfferId> = keys.keys().copied().collect();
    let under_way: Vec<BookingId> = event
        .unresolved_attempts(&offers, AttemptAct::Release)
        .await?
        .into_iter()
        .flat_map(|attempt| attempt.bookings)
        .collect();
    let mut outcomes = Vec::with_capacity(ids.len());
    let mut by_offer: Vec<(OfferId, Vec<usize>)> = Vec::new();
    for (at, booking) in asked.iter().enumerate() {
        let key = booking.offer.filter(|offer| keys.contains_key(offer));
        let yours = !matches!(actor, Actor::Person(person) if booking.person != person);
        let Some(offer) = key.filter(|_| yours && booking.state == BookingState::Confirmed) else {
            outcomes.extend(free(event, &[booking.id], actor, reason).await?);
            continue;
        };
        outcomes.push(CancelOutcome::BeingCancelled);
        if under_way.contains(&booking.id) {
            continue;
        }
        event.record(
            Record::new(event.now(), actor, Act::Returning, Subject::Booking(booking.id), reason.reason)
                .noted(reason),
        );
        match by_offer.iter_mut().find(|(known, _)| *known == offer) {
            Some((_, which)) => which.push(at),
            None => by_offer.push((offer, vec![at])),
        }
    }
    let new: Vec<NewAttempt> = by_offer
        .iter()
        .map(|(offer, which)| NewAttempt {
            offer: *offer,
            act: AttemptAct::Release,
            key: keys.get(offer).cloned(),
            actor,
            reason: reason.reason,
            note: reason.note.clone(),
            bookings: which.iter().map(|at| asked[*at].id).collect(),
        })
        .collect();
    let leased = event.begin_attempts(&new, lease, KEY_LIFE).await?;
    let which = by_offer.into_iter().map(|(_, which)| which);
    Ok((outcomes, std::iter::zip(leased, which).collect()))
}

/// Frees the places of bookings that are no more.
pub(super) async fn free(
    event: &mut LockedEvent,
    ids: &[BookingId],
    actor: Actor,
    reason: &StaffReason,
) -> Result<Vec<CancelOutcome>, DbError> {
    let mut outcomes = Vec::with_capacity(ids.len());
    let (mut cancelled, mut places) = (Vec::new(), Vec::new());
    for id in ids {
        let booking = event.booking(*id).await?;
        outcomes.push(if matches!(actor, Actor::Person(person) if booking.person != person) {
            CancelOutcome::NotYours
        } else if booking.state == BookingState::Cancelled {
            let by = event.who_cancelled(*id).await?;
            CancelOutcome::Already { at: booking.cancelled_at.unwrap_or(event.now()), by }
        } else {
            let place = event.places(&[booking.place]).await?.pop().ok_or(DbError::NotFound)?;
            let retired = place.when_free() == PlaceState::Retired;
            cancelled.push(booking);
            places.push(place);
            CancelOutcome::Cancelled { retired }
        });
    }
    let Some(first) = cancelled.first() else {
        event.nothing_to_write();
        return Ok(outcomes);
    };
    event.tell(Draft {
        person: first.person,
        occasion: Occasion::BookingCancelled,
        subject: first.id.0,
        count: 0,
        facts: Facts {
            party: i32::try_from(cancelled.len()).ok(),
            labels: labels(&places),
            reference: Some(first.reference.clone()),
            reason: Some(reason.reason.as_str().to_owned()),
            ..Facts::default()
        },
    });
    event.cancel_bookings(&cancelled, actor, reason).await?;
    let releases: Vec<NewRelease> = std::iter::zip(&cancelled, &places)
        .filter(|(_, place)| place.when_free() != PlaceState::Retired)
        .map(|(booking, place)| NewRelease {
            source: "booking",
            source_id: booking.id.to_string(),
            reason: reason.reason,
            places: vec![place.id],
        })
        .collect();
    event.add_releases(&releases, actor).await?;
    let moves: Vec<PlaceMove> =
        places.into_iter().map(|place| PlaceMove::free(place, None, actor, reason.reason)).collect();
    event.move_places(&moves).await?;
    event.want_pass();
    Ok(outcomes)
}

/// The reason under which a customer books directly.
#[must_use]
pub fn booked_directly() -> StaffReason {
    StaffReason { reason: Reason::BookedDirectly, note: None }
}

/// The reason under which a customer cancels.
#[must_use]
pub fn cancelled_by_customer() -> StaffReason {
    StaffReason { reason: Reason::Cancelled, note: None }
}
