//! What belongs to the persons as whom a device is signed in.

use chrono::{DateTime, Utc};
use sqlx::types::Json;
use uuid::Uuid;

use super::super::events::word;
use super::super::{Db, DbError};
use super::{EventName, event_name};
use crate::domain::entry::{EntryState, PausedBy};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, OrganizationId, PersonId};
use crate::domain::policy::{Band, PositionShown};

/// An entry of one's own, with its live offer.
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
#[derive(Clone, Debug)]
pub struct MyEntry {
    /// The event.
    pub event: EventName,
    /// Its id.
    pub id: EntryId,
    /// Whose it is.
    pub person: PersonId,
    /// What they are called.
    pub name: String,
    /// Where it is in its life.
    pub state: EntryState,
    /// How many places it wants.
    pub party: i32,
    /// Who paused it.
    pub paused: Option<PausedBy>,
    /// None of the person's contacts works.
    pub contact_problem: bool,
    /// That keeps it from being served: staff did not say to offer all the same.
    pub unreachable: bool,
    /// Its offer was taken back, and it is passed over until staff decide.
    pub set_aside: bool,
    /// Under which number the event keeps what it wants of a place.
    pub wants: i32,
    /// 1 + the eligible entries ahead; for a waiting entry.
    pub position: Option<i64>,
    /// Whether it is told, and how.
    pub position_shown: PositionShown,
    /// How many take part in the next draw, where that decides the order and this entry is in it.
    pub pool: Option<i64>,
    /// The group by which it goes before others, where people are told.
    pub group: Option<String>,
    /// The live offer and its deadline.
    pub offer: Option<(OfferId, DateTime<Utc>)>,
    /// Whether that offer is a call, which keeps nothing.
    pub is_call: bool,
    /// Whether its clock stands still, because nobody can be told.
    pub stands: bool,
    /// Whether it was accepted, and the booking service has not said yet.
    pub accepting: bool,
    /// Since when it is in this state.
    pub since: DateTime<Utc>,
}

#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
struct EntryRow {
    event_id: Uuid,
    slug: String,
    event_name: String,
    venue: String,
    zone: String,
    starts_at: Option<DateTime<Utc>>,
    event_state: String,
    organization_id: Uuid,
    organization_name: String,
    contact: String,
    id: Uuid,
    person_id: Uuid,
    name: String,
    state: String,
    party: i32,
    paused: Option<String>,
    contact_problem: bool,
    unreachable: bool,
    set_aside: bool,
    wants: i32,
    position: Option<i64>,
    position_shown: String,
    pool: Option<i64>,
    band: i16,
    bands: Json<Vec<Band>>,
    offer_id: Option<Uuid>,
    expires_at: Option<DateTime<Utc>>,
    is_call: bool,
    stands: bool,
    accepting: bool,
    state_since: DateTime<Utc>,
}

impl TryFrom<EntryRow> for MyEntry {
    type Error = DbError;

    fn try_from(row: EntryRow) -> Result<Self, DbError> {
        Ok(Self {
            id: EntryId(row.id),
            person: PersonId(row.person_id),
            name: row.name.clone(),
            state: word(EntryState::parse, "entry state", &row.state)?,
            party: row.party,
            paused: row.paused.as_deref().map(|by| word(PausedBy::parse, "pause", by)).transpose()?,
            contact_problem: row.contact_problem,
            unreachable: row.unreachable,
            set_aside: row.set_aside,
            wants: row.wants,
            position: row.position,
            pool: row.pool,
            group: row.bands.0.into_iter().find(|band| band.number == row.band).map(|band| band.name),
            position_shown: word(PositionShown::parse, "position shown", &row.position_shown)?,
            offer: row.offer_id.map(OfferId).zip(row.expires_at),
            is_call: row.is_call,
            stands: row.stands,
            accepting: row.accepting,
            since: row.state_since,
            event: event_name!(row)?,
        })
    }
}

/// The position is summed up as `Db::position` does it, for all rows at once.
macro_rules! select_mine {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            EntryRow,
            r#"SELECT v.id AS event_id, v.slug, v.name AS event_name, v.venue, v.zone, v.starts_at, v.state AS event_state,
                   g.id AS organization_id, g.name AS organization_name, g.contact,
                   e.id, e.person_id, p.name, e.state, e.party, e.paused, e.contact_problem, e.contact_problem AND NOT e.offer_anyway AS "unreachable!",
                   e.set_aside, e.wants, r.position_shown, e.state_since,
                   CASE WHEN e.state = 'waiting' THEN
                       (1 + coalesce((SELECT sum(n) FROM entry_counts c WHERE c.event_id = e.event_id
                                AND c.state = 'waiting' AND c.eligible
                                AND (c.band, c.round, c.bucket) < (e.band, e.round, e.rank >> 30)), 0)
                          + (SELECT count(*) FROM entries a WHERE a.event_id = e.event_id AND a.eligible
                                AND a.band = e.band AND a.round = e.round
                                AND a.rank >= (e.rank >> 30) << 30 AND a.rank < e.rank))::bigint END AS position,
                   CASE WHEN r.ordering = 'lottery' AND e.state = 'waiting' AND e.band >= 0 THEN
                       (SELECT coalesce(sum(n), 0) FROM entry_counts c WHERE c.event_id = e.event_id
                           AND c.state = 'waiting' AND c.eligible AND c.band >= 0)::bigint END AS pool,
                   e.band, CASE WHEN r.ordering = 'priority' AND r.bands_shown THEN r.bands ELSE '[]' END
                       AS "bands!: Json<Vec<Band>>",
                   f.id AS "offer_id?", f.expires_at AS "expires_at?",
                   coalesce(f.kind = 'call', false) AS "is_call!",
                   EXISTS (SELECT FROM standing_offers s WHERE s.event_id = f.event_id AND s.id = f.id) AS "stands!",
                   coalesce(f.state = 'accepting', false) AS "accepting!"
               FROM entries e
               JOIN events v ON v.id = e.event_id
               JOIN organizations g ON g.id = v.organization_id
               JOIN persons p ON p.id = e.person_id
               JOIN policies r ON r.event_id = v.id AND r.version = v.policy_version
               LEFT JOIN offers f ON f.event_id = e.event_id AND f.entry_id = e.id AND f.state IN ('pending', 'accepting') "#
                + $tail,
            $($argument),*
        )
    };
}

fn mine(rows: Vec<EntryRow>) -> Result<Vec<MyEntry>, DbError> {
    rows.into_iter().map(MyEntry::try_from).collect()
}

/// The places of one party, booked together.
#[derive(Clone, Debug)]
pub struct MyBooking {
    /// The event.
    pub event: EventName,
    /// One of the bookings, by which the party is found.
    pub id: BookingId,
    /// Whose it is.
    pub person: PersonId,
    /// What they are called.
    pub name: String,
    /// What they quote.
    pub reference: String,
    /// Through which offer.
    pub offer: Option<OfferId>,
    /// The bookings that stand.
    pub confirmed: Vec<BookingId>,
    /// How many were cancelled.
    pub cancelled: i64,
    /// The labels of the places that stand, where they have any.
    pub labels: Vec<String>,
    /// When they were made.
    pub booked_at: DateTime<Utc>,
    /// When one was last cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
}

struct BookingRow {
    event_id: Uuid,
    slug: String,
    event_name: String,
    venue: String,
    zone: String,
    starts_at: Option<DateTime<Utc>>,
    event_state: String,
    organization_id: Uuid,
    organization_name: String,
    contact: String,
    id: Uuid,
    person_id: Uuid,
    name: String,
    reference: String,
    offer_id: Option<Uuid>,
    confirmed: Vec<Uuid>,
    cancelled: i64,
    labels: Vec<String>,
    booked_at: DateTime<Utc>,
    cancelled_at: Option<DateTime<Utc>>,
}

impl TryFrom<BookingRow> for MyBooking {
    type Error = DbError;

    fn try_from(row: BookingRow) -> Result<Self, DbError> {
        Ok(Self {
            id: BookingId(row.id),
            person: PersonId(row.person_id),
            name: row.name.clone(),
            reference: row.reference.clone(),
            offer: row.offer_id.map(OfferId),
            confirmed: row.confirmed.iter().copied().map(BookingId).collect(),
            cancelled: row.cancelled,
            labels: row.labels.clone(),
            booked_at: row.booked_at,
            cancelled_at: row.cancelled_at,
            event: event_name!(row)?,
        })
    }
}

macro_rules! select_bookings {
    ($where:literal, $tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            BookingRow,
            r#"SELECT v.id AS event_id, v.slug, v.name AS event_name, v.venue, v.zone, v.starts_at, v.state AS event_state,
                   g.id AS organization_id, g.name AS organization_name, g.contact, b.id AS "id!", b.person_id AS "person_id!",
                   p.name, b.reference AS "reference!", b.offer_id AS "offer_id?", b.confirmed AS "confirmed!",
                   b.cancelled AS "cancelled!", b.labels AS "labels!", b.booked_at AS "booked_at!", b.cancelled_at AS "cancelled_at?"
               FROM (SELECT b.event_id, b.person_id, b.reference, (array_agg(b.id ORDER BY b.id))[1] AS id,
                         (array_agg(b.offer_id ORDER BY b.id))[1] AS offer_id,
                         coalesce(array_agg(b.id ORDER BY l.number) FILTER (WHERE b.state = 'confirmed'), '{}') AS confirmed,
                         count(*) FILTER (WHERE b.state = 'cancelled') AS cancelled,
                         coalesce(array_agg(place_name(l) ORDER BY l.number)
                             FILTER (WHERE b.state = 'confirmed' AND place_name(l) IS NOT NULL), '{}') AS labels,
                         min(b.booked_at) AS booked_at, max(b.cancelled_at) AS cancelled_at
                     FROM bookings b JOIN places l ON l.event_id = b.event_id AND l.id = b.place_id "#
                + $where + r#" GROUP BY b.event_id, b.person_id, b.reference) b
               JOIN events v ON v.id = b.event_id
               JOIN organizations g ON g.id = v.organization_id
               JOIN persons p ON p.id = b.person_id "# + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// The entries of these persons: live ones first, over ones of the last 90 days; the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn my_entries(
        &self,
        persons: &[PersonId],
        now: DateTime<Utc>,
    ) -> Result<Vec<MyEntry>, DbError> {
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        mine(
            select_mine!(
                "WHERE e.person_id = ANY($1) AND (e.state IN ('unconfirmed', 'waiting', 'offered') OR e.state_since > $2)
                 ORDER BY e.state NOT IN ('unconfirmed', 'waiting', 'offered'), e.state_since DESC, e.id LIMIT 200",
                &persons,
                now - chrono::Duration::days(90)
            )
            .fetch_all(self.pool())
            .await?,
        )
    }

    /// The last entry of each of these persons on one event's list.
    ///
    /// # Errors
    /// What the database says.
    pub async fn my_entries_at(&self, event: EventId, persons: &[PersonId]) -> Result<Vec<MyEntry>, DbError> {
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        mine(
            select_mine!(
                "WHERE e.event_id = $1 AND e.person_id = ANY($2) AND e.arrival = (
                     SELECT max(arrival) FROM entries l WHERE l.event_id = $1 AND l.person_id = e.person_id)
                 ORDER BY e.arrival DESC",
                event.0,
                &persons
            )
            .fetch_all(self.pool())
            .await?,
        )
    }

    /// One entry with its live offer and its position.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none with this id.
    pub async fn my_entry(&self, id: EntryId) -> Result<MyEntry, DbError> {
        select_mine!("WHERE e.id = $1", id.0).fetch_one(self.pool()).await?.try_into()
    }

    /// The bookings of these persons, those that stand first, the newest first; cancelled ones of the last 90 days.
    ///
    /// # Errors
    /// What the database says.
    pub async fn my_bookings(
        &self,
        persons: &[PersonId],
        now: DateTime<Utc>,
    ) -> Result<Vec<MyBooking>, DbError> {
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        select_bookings!(
            "WHERE b.person_id = ANY($1) AND (b.state = 'confirmed' OR b.cancelled_at > $2)",
            "ORDER BY b.confirmed = '{}', v.starts_at NULLS LAST, b.booked_at DESC LIMIT 200",
            &persons,
            now - chrono::Duration::days(90)
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(MyBooking::try_from)
        .collect()
    }

    /// The bookings of these persons at one event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn my_bookings_at(
        &self,
        event: EventId,
        persons: &[PersonId],
    ) -> Result<Vec<MyBooking>, DbError> {
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        select_bookings!(
            "WHERE b.event_id = $1 AND b.person_id = ANY($2)",
            "ORDER BY b.confirmed = '{}', b.booked_at DESC LIMIT 50",
            event.0,
            &persons
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(MyBooking::try_from)
        .collect()
    }

    /// The party to which a booking belongs.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none with this id.
    pub async fn my_booking(&self, id: BookingId) -> Result<MyBooking, DbError> {
        select_bookings!(
            "WHERE (b.event_id, b.person_id, b.reference) =
                 (SELECT own.event_id, own.person_id, own.reference FROM bookings own WHERE own.id = $1)",
            "",
            id.0
        )
        .fetch_one(self.pool())
        .await?
        .try_into()
    }

    /// The booking of a person at an event with this reference.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn booking_with(
        &self,
        event: EventId,
        person: PersonId,
        reference: &str,
    ) -> Result<BookingId, DbError> {
        Ok(BookingId(
            sqlx::query_scalar!(
                "SELECT id FROM bookings WHERE event_id = $1 AND reference = $2 AND person_id = $3 ORDER BY id LIMIT 1",
                event.0,
                reference,
                person.0
            )
            .fetch_one(self.pool())
            .await?,
        ))
    }
}

/// A person as whom a device is signed in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Me {
    /// Who.
    pub person: PersonId,
    /// What they are called.
    pub name: String,
    /// Their address.
    pub email: String,
}

impl Db {
    /// Who of these persons is a customer of this organization: the one signed in last.
    ///
    /// # Errors
    /// What the database says.
    pub async fn me_at(
        &self,
        organization: OrganizationId,
        persons: &[PersonId],
    ) -> Result<Option<Me>, DbError> {
        if persons.is_empty() {
            return Ok(None);
        }
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        let row = sqlx::query!(
            "SELECT p.id, p.name, c.value FROM persons p JOIN contacts c ON c.person_id = p.id AND c.kind = 'email'
             WHERE p.organization_id = $1 AND p.id = ANY($2) ORDER BY array_position($2, p.id) DESC, c.created_at LIMIT 1",
            organization.0,
            &persons
        )
        .fetch_optional(self.pool())
        .await?;
        Ok(row.map(|row| Me { person: PersonId(row.id), name: row.name, email: row.value }))
    }
}
