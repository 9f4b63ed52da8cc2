//! Bookings: the built-in ledger of confirmed places.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::booking::{Booking, BookingSource, BookingState};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, PersonId, PlaceId};
use crate::domain::policy::{Enough, Policy};
use crate::domain::reason::{Reason, StaffReason};

struct BookingRow {
    event_id: Uuid,
    id: Uuid,
    place_id: Uuid,
    person_id: Uuid,
    offer_id: Option<Uuid>,
    reference: String,
    state: String,
    source: String,
    booked_at: DateTime<Utc>,
    cancelled_at: Option<DateTime<Utc>>,
    cancel_reason: Option<String>,
}

impl TryFrom<BookingRow> for Booking {
    type Error = DbError;

    fn try_from(row: BookingRow) -> Result<Self, DbError> {
        Ok(Self {
            event: EventId(row.event_id),
            id: BookingId(row.id),
            place: PlaceId(row.place_id),
            person: PersonId(row.person_id),
            offer: row.offer_id.map(OfferId),
            reference: row.reference,
            state: word(BookingState::parse, "booking state", &row.state)?,
            source: word(BookingSource::parse, "booking source", &row.source)?,
            booked_at: row.booked_at,
            cancelled_at: row.cancelled_at,
            cancel_reason: row.cancel_reason,
        })
    }
}

macro_rules! select_bookings {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            BookingRow,
            "SELECT event_id, id, place_id, person_id, offer_id, reference, state, source, booked_at, cancelled_at, \
             cancel_reason FROM bookings " + $tail,
            $($argument),*
        )
    };
}

fn bookings(rows: Vec<BookingRow>) -> Result<Vec<Booking>, DbError> {
    rows.into_iter().map(Booking::try_from).collect()
}

/// A booking to be made; its place is moved by the caller in the same transaction.
#[derive(Clone, Debug)]
pub struct NewBooking {
    /// Its id.
    pub id: BookingId,
    /// Which place.
    pub place: PlaceId,
    /// For whom.
    pub person: PersonId,
    /// Through which offer.
    pub offer: Option<OfferId>,
    /// The entry that led to it.
    pub entry: Option<EntryId>,
    /// Shared by the places of one party.
    pub reference: String,
    /// Through what.
    pub source: BookingSource,
    /// Who did it.
    pub actor: Actor,
    /// Why.
    pub reason: Reason,
}

impl LockedEvent {
    /// Makes bookings, as one set, each with its record.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `bookings_one_per_place` when a place is already booked.
    pub async fn make_bookings(&mut self, new: &[NewBooking]) -> Result<(), DbError> {
        if new.is_empty() {
            return Ok(());
        }
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = new.iter().map(|booking| booking.id.0).collect();
        let place_ids: Vec<Uuid> = new.iter().map(|booking| booking.place.0).collect();
        let persons: Vec<Uuid> = new.iter().map(|booking| booking.person.0).collect();
        let offer_ids: Vec<Option<Uuid>> = new.iter().map(|booking| booking.offer.map(|id| id.0)).collect();
        let references: Vec<String> = new.iter().map(|booking| booking.reference.clone()).collect();
        let sources: Vec<String> = new.iter().map(|booking| booking.source.as_str().to_owned()).collect();
        let makers: Vec<Option<Uuid>> =
            new.iter().map(|booking| booking.actor.staff().map(|id| id.0)).collect();
        sqlx::query!(
            r#"INSERT INTO bookings (event_id, state, booked_at, id, place_id, person_id, offer_id, reference, source, made_by)
               SELECT $1, 'confirmed', $2, * FROM unnest($3::uuid[], $4::uuid[], $5::uuid[], $6::uuid[], $7::text[],
                                                         $8::text[], $9::uuid[])"#,
            event.0,
            now,
            &ids,
            &place_ids,
            &persons,
            &offer_ids as &[Option<Uuid>],
            &references,
            &sources,
            &makers as &[Option<Uuid>],
        )
        .execute(self.connection())
        .await?;
        for booking in new {
            let mut record =
                Record::new(now, booking.actor, Act::Booked, Subject::Booking(booking.id), booking.reason)
                    .states(None, Some(BookingState::Confirmed.as_str()));
            record.entry = booking.entry;
            self.record(record);
        }
        Ok(())
    }

    /// How many places of the event this person has booked.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places_of(&mut self, person: PersonId) -> Result<i32, DbError> {
        let event = self.id();
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "count!" FROM bookings
               WHERE person_id = $2 AND event_id = $1 AND state = 'confirmed'"#,
            event.0,
            person.0
        )
        .fetch_one(self.connection())
        .await?;
        Ok(i32::try_from(count).unwrap_or(i32::MAX))
    }

    /// Whether `party` more places would be more than the rule lets this person have. Asked of the database only where
    /// there is a limit.
    ///
    /// # Errors
    /// What the database says.
    pub async fn enough(
        &mut self,
        policy: &Policy,
        person: PersonId,
        party: i32,
    ) -> Result<Option<Enough>, DbError> {
        if policy.person_limit.is_none() {
            return Ok(None);
        }
        Ok(policy.enough(self.places_of(person).await?, party))
    }

    /// Cancels confirmed bookings; their places are freed by the caller in the same transaction.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when one is not confirmed any more: impossible under the lock.
    pub async fn cancel_bookings(
        &mut self,
        cancelled: &[Booking],
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = cancelled.iter().map(|booking| booking.id.0).collect();
        let changed = sqlx::query!(
            "UPDATE bookings SET state = 'cancelled', cancelled_at = $3, cancel_reason = $4
             WHERE event_id = $1 AND id = ANY($2) AND state = 'confirmed'",
            event.0,
            &ids,
            now,
            reason.reason.as_str()
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, cancelled.len(), "booking")?;
        for booking in cancelled {
            self.record(
                Record::new(now, actor, Act::Cancelled, Subject::Booking(booking.id), reason.reason)
                    .states(Some(BookingState::Confirmed.as_str()), Some(BookingState::Cancelled.as_str()))
                    .noted(reason),
            );
        }
        Ok(())
    }

    /// One booking.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn booking(&mut self, id: BookingId) -> Result<Booking, DbError> {
        let event = self.id();
        select_bookings!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.connection())
            .await?
            .try_into()
    }

    /// The bookings made through these offers.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bookings_of_offers(&mut self, offers: &[OfferId]) -> Result<Vec<Booking>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = offers.iter().map(|id| id.0).collect();
        bookings(
            select_bookings!("WHERE event_id = $1 AND offer_id = ANY($2) ORDER BY id", event.0, &ids)
                .fetch_all(self.connection())
                .await?,
        )
    }
}

impl Db {
    /// One booking, wherever it is.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn find_booking(&self, id: BookingId) -> Result<Booking, DbError> {
        select_bookings!("WHERE id = $1", id.0).fetch_one(self.pool()).await?.try_into()
    }

    /// The bookings made through an offer.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bookings_through(&self, event: EventId, offer: OfferId) -> Result<Vec<Booking>, DbError> {
        bookings(
            select_bookings!("WHERE event_id = $1 AND offer_id = $2 ORDER BY id", event.0, offer.0)
                .fetch_all(self.pool())
                .await?,
        )
    }

    /// The bookings of a person at an event, confirmed ones first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bookings_of(&self, event: EventId, person: PersonId) -> Result<Vec<Booking>, DbError> {
        bookings(
            select_bookings!(
                "WHERE event_id = $1 AND person_id = $2 ORDER BY state DESC, booked_at DESC LIMIT 200",
                event.0,
                person.0
            )
            .fetch_all(self.pool())
            .await?,
        )
    }
}
