//! Places, bookings and audit records as their staff pages list them: by key, a page at a time.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::booking::{BookingSource, BookingState};
use crate::domain::ids::{BookingId, EventId, OfferId, PlaceId};
use crate::domain::place::PlaceState;

/// A place and what has it.
#[derive(Clone, Debug)]
pub struct PlaceLine {
    /// Which.
    pub id: PlaceId,
    /// Its number.
    pub number: i32,
    /// What it is called.
    pub label: Option<String>,
    /// What is said of it, in words.
    pub words: Option<String>,
    /// What has it.
    pub state: PlaceState,
    /// Leaves the event when it becomes free.
    pub retire_when_free: bool,
    /// Who has it.
    pub name: Option<String>,
    /// The hold that has it, and until when.
    pub hold: Option<(OfferId, DateTime<Utc>)>,
    /// The booking that has it, and its reference.
    pub booking: Option<(BookingId, String)>,
    /// Since when.
    pub since: DateTime<Utc>,
}

impl PlaceLine {
    /// The label, or "Place n".
    #[must_use]
    pub fn title(&self) -> String {
        self.label.clone().unwrap_or_else(|| format!("Place {}", self.number))
    }
}

struct LineRow {
    id: Uuid,
    number: i32,
    label: Option<String>,
    words: Option<String>,
    state: String,
    retire_when_free: bool,
    changed_at: DateTime<Utc>,
    offer_id: Option<Uuid>,
    booking_id: Option<Uuid>,
    expires_at: Option<DateTime<Utc>>,
    reference: Option<String>,
    name: Option<String>,
}

impl TryFrom<LineRow> for PlaceLine {
    type Error = DbError;

    fn try_from(row: LineRow) -> Result<Self, DbError> {
        Ok(Self {
            id: PlaceId(row.id),
            number: row.number,
            label: row.label,
            words: row.words,
            state: word(PlaceState::parse, "place state", &row.state)?,
            retire_when_free: row.retire_when_free,
            name: row.name,
            hold: row.offer_id.map(OfferId).zip(row.expires_at),
            booking: row.booking_id.map(BookingId).zip(row.reference),
            since: row.changed_at,
        })
    }
}

/// One SELECT list for every read of places with what has them.
macro_rules! select_lines {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            LineRow,
            r#"SELECT p.id, p.number, p.label, k.words AS "words?", p.state, p.retire_when_free, p.changed_at, p.offer_id, p.booking_id,
                      o.expires_at AS "expires_at?", b.reference AS "reference?", w.name AS "name?"
               FROM places p
               LEFT JOIN kinds k ON k.event_id = p.event_id AND k.id = p.kind
               LEFT JOIN bookings b ON b.event_id = p.event_id AND b.id = p.booking_id
               LEFT JOIN offers o ON o.event_id = p.event_id AND o.id = p.offer_id
               LEFT JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
               LEFT JOIN persons w ON w.id = coalesce(b.person_id, n.person_id) "# + $tail,
            $($argument),*
        )
    };
}

/// A booking as its list shows it.
#[derive(Clone, Debug)]
pub struct BookingLine {
    /// Which.
    pub id: BookingId,
    /// Whose.
    pub name: String,
    /// The place's label.
    pub label: Option<String>,
    /// The place's number.
    pub number: i32,
    /// What the customer quotes.
    pub reference: String,
    /// Where it is in its life.
    pub state: BookingState,
    /// How it came to be.
    pub source: BookingSource,
    /// When it was made.
    pub booked_at: DateTime<Utc>,
    /// When it was cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
}

impl BookingLine {
    /// The place's label, or "Place n".
    #[must_use]
    pub fn place(&self) -> String {
        self.label.clone().unwrap_or_else(|| format!("Place {}", self.number))
    }
}

impl Db {
    /// How many places are in each state, retired ones included.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places_by_state(&self, event: EventId) -> Result<Vec<(PlaceState, i64)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT state, sum(n)::bigint AS "n!" FROM place_counts WHERE event_id = $1 GROUP BY state"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(|row| Ok((word(PlaceState::parse, "place state", &row.state)?, row.n))).collect()
    }

    /// Places after the one with number `after`, in order; only those in `state`, if one is given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn place_lines(
        &self,
        event: EventId,
        state: Option<PlaceState>,
        after: i32,
        limit: i64,
    ) -> Result<Vec<PlaceLine>, DbError> {
        select_lines!(
            "WHERE p.event_id = $1 AND p.number > $2 AND ($3::text IS NULL OR p.state = $3)
             ORDER BY p.number LIMIT $4",
            event.0,
            after,
            state.map(PlaceState::as_str),
            limit
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(PlaceLine::try_from)
        .collect()
    }

    /// Places that are not booked for good: held ones by their deadlines, the nearest first, then open ones, then those
    /// that leave when free; at most `limit` of each.
    ///
    /// # Errors
    /// What the database says.
    pub async fn unbooked_places(&self, event: EventId, limit: i64) -> Result<Vec<PlaceLine>, DbError> {
        select_lines!(
            "WHERE p.event_id = $1 AND p.id IN (
                 (SELECT h.id FROM offers l JOIN places h ON h.event_id = l.event_id AND h.offer_id = l.id
                  WHERE l.event_id = $1 AND l.state IN ('pending', 'accepting') ORDER BY l.expires_at, h.number LIMIT $2)
                 UNION ALL (SELECT id FROM places WHERE event_id = $1 AND state = 'open' ORDER BY number LIMIT $2)
                 UNION ALL (SELECT id FROM places WHERE event_id = $1 AND retire_when_free AND state = 'booked'
                            ORDER BY number LIMIT $2))
             ORDER BY CASE p.state WHEN 'held' THEN 0 WHEN 'open' THEN 1 ELSE 2 END, o.expires_at, p.number",
            event.0,
            limit
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(PlaceLine::try_from)
        .collect()
    }

    /// One place and what has it.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn place_line(&self, event: EventId, place: PlaceId) -> Result<PlaceLine, DbError> {
        select_lines!("WHERE p.event_id = $1 AND p.id = $2", event.0, place.0)
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// How many bookings are in each state.
    ///
    /// # Errors
    /// What the database says.
    pub async fn bookings_by_state(&self, event: EventId) -> Result<Vec<(BookingState, i64)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT state, count(*) AS "n!" FROM bookings WHERE event_id = $1 GROUP BY state"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| Ok((word(BookingState::parse, "booking state", &row.state)?, row.n)))
            .collect()
    }

    /// Bookings in `state`, the newest first, older than `before`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_lines(
        &self,
        event: EventId,
        state: BookingState,
        search: &str,
        before: Option<(DateTime<Utc>, BookingId)>,
        limit: i64,
    ) -> Result<Vec<BookingLine>, DbError> {
        let (at, id) = before.map_or((None, Uuid::max()), |(at, id)| (Some(at), id.0));
        let search = search.trim();
        let rows = sqlx::query!(
            r#"SELECT b.id, w.name, p.label, p.number, b.reference, b.state, b.source, b.booked_at, b.cancelled_at
               FROM bookings b JOIN persons w ON w.id = b.person_id
               JOIN places p ON p.event_id = b.event_id AND p.id = b.place_id
               WHERE b.event_id = $1 AND b.state = $2
                 AND ($3::timestamptz IS NULL OR (b.booked_at, b.id) < ($3, $4))
                 AND ($5 = '' OR w.name ILIKE $6 OR p.label ILIKE $6 OR b.reference = upper($5))
               ORDER BY b.booked_at DESC, b.id DESC LIMIT $7"#,
            event.0,
            state.as_str(),
            at,
            id,
            search,
            format!("%{}%", super::pages_queue::like(search)),
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(BookingLine {
                    id: BookingId(row.id),
                    name: row.name,
                    label: row.label,
                    number: row.number,
                    reference: row.reference,
                    state: word(BookingState::parse, "booking state", &row.state)?,
                    source: word(BookingSource::parse, "booking source", &row.source)?,
                    booked_at: row.booked_at,
                    cancelled_at: row.cancelled_at,
                })
            })
            .collect()
    }
}
