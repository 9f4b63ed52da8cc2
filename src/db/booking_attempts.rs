//! What booking services are asked: written down before the call, shared among workers by leases, settled under the
//! event's lock.

use std::collections::HashMap;

use chrono::{DateTime, Duration, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::booking_services::{BookingService, url};
use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::Actor;
use crate::domain::ids::{AttemptId, BookingId, EventId, OfferId, OrganizationId, PersonId, PlaceId};
use crate::domain::outside::{Attempt, AttemptAct, AttemptOutcome};
use crate::domain::reason::Reason;

struct AttemptRow {
    event_id: Uuid,
    id: Uuid,
    offer_id: Uuid,
    act: String,
    key: String,
    outcome: String,
    made_at: DateTime<Utc>,
    settled_at: Option<DateTime<Utc>>,
    actor: String,
    actor_id: Option<Uuid>,
    reason: String,
    note: Option<String>,
    bookings: Vec<Uuid>,
    tries: i32,
    uncertain: bool,
    last_error: Option<String>,
    next_try_at: Option<DateTime<Utc>>,
    leased_until: Option<DateTime<Utc>>,
    lease: Option<Uuid>,
    key_until: DateTime<Utc>,
    staff_asked_at: Option<DateTime<Utc>>,
}

impl TryFrom<AttemptRow> for Attempt {
    type Error = DbError;

    fn try_from(row: AttemptRow) -> Result<Self, DbError> {
        Ok(Self {
            event: EventId(row.event_id),
            id: AttemptId(row.id),
            offer: OfferId(row.offer_id),
            act: word(AttemptAct::parse, "booking attempt", &row.act)?,
            key: row.key,
            outcome: word(AttemptOutcome::parse, "outcome of a booking attempt", &row.outcome)?,
            made_at: row.made_at,
            settled_at: row.settled_at,
            actor: Actor::parse(&row.actor, row.actor_id)
                .ok_or_else(|| DbError::Unreadable("actor", row.actor.clone()))?,
            reason: word(Reason::parse, "reason", &row.reason)?,
            note: row.note,
            bookings: row.bookings.into_iter().map(BookingId).collect(),
            tries: row.tries,
            uncertain: row.uncertain,
            last_error: row.last_error,
            next_try_at: row.next_try_at,
            leased_until: row.leased_until,
            lease: row.lease,
            key_until: row.key_until,
            staff_asked_at: row.staff_asked_at,
        })
    }
}

macro_rules! select_attempts {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            AttemptRow,
            "SELECT event_id, id, offer_id, act, key, outcome, made_at, settled_at, actor, actor_id, reason, note, bookings, \
             tries, uncertain, last_error, next_try_at, leased_until, lease, key_until, staff_asked_at FROM booking_attempts "
                + $tail,
            $($argument),*
        )
    };
}

fn attempts(rows: Vec<AttemptRow>) -> Result<Vec<Attempt>, DbError> {
    rows.into_iter().map(Attempt::try_from).collect()
}

/// Something to ask a service, as it is to be written down.
#[derive(Clone, Debug)]
pub struct NewAttempt {
    /// Of which offer.
    pub offer: OfferId,
    /// What.
    pub act: AttemptAct,
    /// The key of the reservation that is given back; a reservation gets one of its own.
    pub key: Option<String>,
    /// Who asks for it.
    pub actor: Actor,
    /// Why.
    pub reason: Reason,
    /// In their own words.
    pub note: Option<String>,
    /// The bookings given back.
    pub bookings: Vec<BookingId>,
}

/// The right to ask, until the lease ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Leased {
    /// Of which event.
    pub event: EventId,
    /// What is asked.
    pub attempt: AttemptId,
    /// What proves that it is ours.
    pub lease: Uuid,
}

/// What is needed to ask.
#[derive(Clone, Debug)]
pub struct AttemptSheet {
    /// What is asked.
    pub attempt: Attempt,
    /// Of whom.
    pub service: BookingService,
    /// The event's name in addresses, and for people.
    pub event: (String, String),
    /// Whether it still takes place.
    pub takes_place: bool,
    /// For whom: their id, name and address.
    pub person: (PersonId, String, Option<String>),
    /// Which places: id, number and label.
    pub places: Vec<(PlaceId, i32, Option<String>)>,
}

/// What is still to be settled with an event's service, and what was settled there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OutsideCounts {
    /// Attempts without an outcome.
    pub unresolved: i64,
    /// Confirmed bookings that the service has.
    pub booked: i64,
}

impl LockedEvent {
    /// Writes down what a service is to be asked, leased to the caller for this long.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `booking_attempts_one_per_offer` when an offer is being reserved already.
    pub async fn begin_attempts(
        &mut self,
        new: &[NewAttempt],
        lease_for: Duration,
        key_life: Duration,
    ) -> Result<Vec<Leased>, DbError> {
        let (event, now) = (self.id(), self.now());
        let mut leased = Vec::with_capacity(new.len());
        for attempt in new {
            let mine = Leased { event, attempt: AttemptId(self.entropy().id()), lease: self.entropy().id() };
            let bookings: Vec<Uuid> = attempt.bookings.iter().map(|id| id.0).collect();
            sqlx::query!(
                r#"INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, actor, actor_id,
                                                 reason, note, bookings, next_try_at, leased_until, lease, key_until)
                   SELECT $1, $2, $3, $4, n.number, coalesce($5, $3::uuid::text || '-' || n.number::text), 'unresolved', $6, $7, $8,
                          $9, $10, $11, $6, $12, $13, $14
                   FROM (SELECT coalesce(max(number), 0) + 1 AS number FROM booking_attempts
                         WHERE event_id = $1 AND offer_id = $3 AND act = $4) n"#,
                event.0,
                mine.attempt.0,
                attempt.offer.0,
                attempt.act.as_str(),
                attempt.key,
                now,
                attempt.actor.kind(),
                attempt.actor.id(),
                attempt.reason.as_str(),
                attempt.note,
                &bookings,
                now + lease_for,
                mine.lease,
                now + key_life,
            )
            .execute(self.connection())
            .await?;
            leased.push(mine);
        }
        Ok(leased)
    }

    /// One attempt.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn attempt(&mut self, id: AttemptId) -> Result<Attempt, DbError> {
        let event = self.id();
        select_attempts!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.connection())
            .await?
            .try_into()
    }

    /// The attempts of these offers without an outcome to have this done, the oldest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn unresolved_attempts(
        &mut self,
        offers: &[OfferId],
        act: AttemptAct,
    ) -> Result<Vec<Attempt>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = offers.iter().map(|id| id.0).collect();
        attempts(
            select_attempts!(
                "WHERE event_id = $1 AND offer_id = ANY($2) AND act = $3 AND outcome = 'unresolved' ORDER BY number",
                event.0,
                &ids,
                act.as_str()
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// The keys under which a service has the places of these offers.
    ///
    /// # Errors
    /// What the database says.
    pub async fn keys_of(&mut self, offers: &[OfferId]) -> Result<HashMap<OfferId, String>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = offers.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            "SELECT offer_id, key FROM booking_attempts
             WHERE event_id = $1 AND offer_id = ANY($2) AND act = 'reserve' AND outcome = 'succeeded'",
            event.0,
            &ids
        )
        .fetch_all(self.connection())
        .await?;
        Ok(rows.into_iter().map(|row| (OfferId(row.offer_id), row.key)).collect())
    }

    /// The outcome is known.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when it was known before: impossible under the lock.
    pub async fn settle_attempt(&mut self, attempt: &Attempt, to: AttemptOutcome) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let changed = sqlx::query!(
            "UPDATE booking_attempts SET outcome = $3, settled_at = $4, next_try_at = NULL, lease = NULL, leased_until = NULL,
                    tries = tries + 1
             WHERE event_id = $1 AND id = $2 AND outcome = 'unresolved'",
            event.0,
            attempt.id.0,
            to.as_str(),
            now
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, 1, "booking attempt")
    }

    /// What is still to be settled with the event's service, and what it has.
    ///
    /// # Errors
    /// What the database says.
    pub async fn outside_counts(&mut self) -> Result<OutsideCounts, DbError> {
        let event = self.id();
        outside_counts(self.connection(), event).await
    }
}

async fn outside_counts(connection: &mut PgConnection, event: EventId) -> Result<OutsideCounts, DbError> {
    let row = sqlx::query!(
        r#"SELECT (SELECT count(*) FROM booking_attempts WHERE event_id = $1 AND outcome = 'unresolved') AS "unresolved!",
                  (SELECT count(*) FROM bookings b JOIN booking_attempts a
                       ON a.event_id = b.event_id AND a.offer_id = b.offer_id AND a.act = 'reserve'
                          AND a.outcome = 'succeeded'
                   WHERE b.event_id = $1 AND b.state = 'confirmed') AS "booked!""#,
        event.0
    )
    .fetch_one(connection)
    .await?;
    Ok(OutsideCounts { unresolved: row.unresolved, booked: row.booked })
}

impl Db {
    /// Leases attempts that are due and that nobody is at; not while their service is left alone.
    ///
    /// # Errors
    /// What the database says.
    pub async fn lease_attempts(&self, limit: i64, lease_for: Duration) -> Result<Vec<Leased>, DbError> {
        let (now, lease) = (self.now().await?, self.entropy().id());
        let rows = sqlx::query!(
            r#"UPDATE booking_attempts a SET lease = $3, leased_until = $4
               FROM (SELECT d.event_id, d.id FROM booking_attempts d
                     WHERE d.outcome = 'unresolved' AND d.next_try_at <= $1
                       AND (d.leased_until IS NULL OR d.leased_until <= $1)
                       AND NOT EXISTS (
                           SELECT FROM booking_services s JOIN events e ON e.id = s.event_id JOIN booking_circuits c
                               ON c.organization_id = e.organization_id AND c.base_url = s.base_url
                           WHERE s.event_id = d.event_id AND c.open_until > $1)
                     ORDER BY d.next_try_at LIMIT $2 FOR UPDATE SKIP LOCKED) due
               WHERE a.event_id = due.event_id AND a.id = due.id RETURNING a.event_id, a.id"#,
            now,
            limit,
            lease,
            now + lease_for
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Leased { event: EventId(row.event_id), attempt: AttemptId(row.id), lease })
            .collect())
    }

    /// Gives the right to ask back unused: the service is left alone, and when that is over somebody asks.
    ///
    /// # Errors
    /// What the database says.
    pub async fn give_back_attempt(&self, leased: Leased) -> Result<(), DbError> {
        sqlx::query!(
            "UPDATE booking_attempts SET lease = NULL, leased_until = NULL
             WHERE event_id = $1 AND id = $2 AND lease = $3 AND outcome = 'unresolved'",
            leased.event.0,
            leased.attempt.0,
            leased.lease
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Nobody knows yet: when it is tried again, and whether staff are asked from now on. Says whether the lease was
    /// still ours.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_unresolved(
        &self,
        leased: Leased,
        why: &str,
        next_try_at: DateTime<Utc>,
        ask_staff: bool,
    ) -> Result<bool, DbError> {
        let now = self.now().await?;
        let changed = sqlx::query!(
            "UPDATE booking_attempts SET tries = tries + 1, uncertain = true, last_error = $4, next_try_at = $5, lease = NULL,
                    leased_until = NULL, staff_asked_at = coalesce(staff_asked_at, CASE WHEN $6 THEN $7::timestamptz END)
             WHERE event_id = $1 AND id = $2 AND lease = $3 AND outcome = 'unresolved'",
            leased.event.0,
            leased.attempt.0,
            leased.lease,
            why,
            next_try_at,
            ask_staff,
            now
        )
        .execute(self.pool())
        .await?
        .rows_affected();
        Ok(changed == 1)
    }

    /// What is needed to ask.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such attempt, or its event has no service any more.
    pub async fn attempt_sheet(&self, event: EventId, id: AttemptId) -> Result<AttemptSheet, DbError> {
        let attempt: Attempt = select_attempts!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .try_into()?;
        let row = sqlx::query!(
            r#"SELECT e.organization_id, e.slug, e.name, e.state IN ('draft', 'published') AS "takes_place!",
                      s.base_url, s.sealed_key, s.set_at, p.id AS person_id, p.name AS person_name,
                      (SELECT c.value FROM contacts c WHERE c.person_id = p.id AND c.kind = 'email'
                       ORDER BY c.failing_since IS NULL DESC, c.created_at LIMIT 1) AS email
               FROM events e JOIN booking_services s ON s.event_id = e.id
               JOIN offers o ON o.event_id = e.id AND o.id = $2
               JOIN entries n ON n.event_id = e.id AND n.id = o.entry_id
               JOIN persons p ON p.id = n.person_id
               WHERE e.id = $1"#,
            event.0,
            attempt.offer.0
        )
        .fetch_one(self.pool())
        .await?;
        let bookings: Vec<Uuid> = attempt.bookings.iter().map(|id| id.0).collect();
        let places = sqlx::query!(
            "SELECT id, number, label FROM places
             WHERE event_id = $1 AND (CASE WHEN $4 THEN offer_id = $2 ELSE booking_id = ANY($3) END) ORDER BY number",
            event.0,
            attempt.offer.0,
            &bookings,
            attempt.act == AttemptAct::Reserve
        )
        .fetch_all(self.pool())
        .await?;
        Ok(AttemptSheet {
            attempt,
            service: BookingService {
                organization: OrganizationId(row.organization_id),
                url: url(&row.base_url)?,
                sealed_key: row.sealed_key,
                set_at: row.set_at,
            },
            event: (row.slug, row.name),
            takes_place: row.takes_place,
            person: (PersonId(row.person_id), row.person_name, row.email),
            places: places.into_iter().map(|row| (PlaceId(row.id), row.number, row.label)).collect(),
        })
    }

    /// One attempt.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn attempt(&self, event: EventId, id: AttemptId) -> Result<Attempt, DbError> {
        select_attempts!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// Whose these offers are, and for how many places.
    ///
    /// # Errors
    /// What the database says.
    pub async fn names_of_offers(
        &self,
        event: EventId,
        offers: &[OfferId],
    ) -> Result<HashMap<OfferId, (String, i32)>, DbError> {
        let ids: Vec<Uuid> = offers.iter().map(|id| id.0).collect();
        let rows = sqlx::query!(
            "SELECT o.id, p.name, o.party FROM offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
             JOIN persons p ON p.id = e.person_id WHERE o.event_id = $1 AND o.id = ANY($2)",
            event.0,
            &ids
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (OfferId(row.id), (row.name, row.party))).collect())
    }

    /// What an event's service was asked: first what has no outcome, then the latest.
    ///
    /// # Errors
    /// What the database says.
    pub async fn attempts_of(&self, event: EventId, limit: i64) -> Result<Vec<Attempt>, DbError> {
        attempts(
            select_attempts!(
                "WHERE event_id = $1 ORDER BY outcome = 'unresolved' DESC, made_at DESC, id LIMIT $2",
                event.0,
                limit
            )
            .fetch_all(self.pool())
            .await?,
        )
    }

    /// A page of what an event's service was asked, the newest first: those with this outcome, or all, before that one.
    ///
    /// # Errors
    /// What the database says.
    pub async fn attempts_page(
        &self,
        event: EventId,
        outcome: Option<AttemptOutcome>,
        before: Option<(DateTime<Utc>, AttemptId)>,
        limit: i64,
    ) -> Result<Vec<Attempt>, DbError> {
        attempts(
            select_attempts!(
                "WHERE event_id = $1 AND ($2::text IS NULL OR outcome = $2) \
                 AND ($3::timestamptz IS NULL OR (made_at, id) < ($3, $4::uuid)) \
                 ORDER BY made_at DESC, id DESC LIMIT $5",
                event.0,
                outcome.map(AttemptOutcome::as_str),
                before.map(|(at, _)| at),
                before.map(|(_, id)| id.0),
                limit
            )
            .fetch_all(self.pool())
            .await?,
        )
    }

    /// What is still to be settled with an event's service, and what it has.
    ///
    /// # Errors
    /// What the database says.
    pub async fn outside_counts(&self, event: EventId) -> Result<OutsideCounts, DbError> {
        outside_counts(&mut *self.pool().acquire().await?, event).await
    }
}
