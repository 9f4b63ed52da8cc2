//! Complaints: what people say is not right about their request, and what staff answered.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::pages_staff::zone;
use super::{Db, DbError, LockedEvent};
use crate::domain::complaint::{About, Complaint, Words};
use crate::domain::ids::{EntryId, EventId, OrganizationId, PersonId};

/// A complaint, with whose it is.
#[derive(Clone, Debug)]
pub struct ComplaintLine {
    /// What was said.
    pub complaint: Complaint,
    /// On which list.
    pub event: EventId,
    /// What the event is called.
    pub event_name: String,
    /// Its zone.
    pub zone: chrono_tz::Tz,
    /// Whose request it is.
    pub person: PersonId,
    /// What they are called.
    pub person_name: String,
}

/// Which complaints.
#[derive(Clone, Copy, Debug, Default)]
pub struct ComplaintFilter {
    /// Of one event.
    pub event: Option<EventId>,
    /// Answered ones, or those that wait for an answer.
    pub answered: Option<bool>,
    /// Those below this one in the order by instant, entry and number: where the page before ended.
    pub before: Option<(DateTime<Utc>, EntryId, i32)>,
}

struct Row {
    entry_id: Uuid,
    number: i32,
    about: String,
    words: String,
    made_at: DateTime<Utc>,
    answer: Option<String>,
    answered_at: Option<DateTime<Utc>>,
}

impl TryFrom<Row> for Complaint {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            entry: EntryId(row.entry_id),
            number: row.number,
            about: word(About::parse, "complaint", &row.about)?,
            words: row.words,
            made_at: row.made_at,
            answer: row.answer.zip(row.answered_at),
        })
    }
}

struct LineRow {
    event_id: Uuid,
    entry_id: Uuid,
    number: i32,
    about: String,
    words: String,
    made_at: DateTime<Utc>,
    answer: Option<String>,
    answered_at: Option<DateTime<Utc>>,
    event_name: String,
    zone: String,
    person_id: Uuid,
    person_name: String,
}

impl TryFrom<LineRow> for ComplaintLine {
    type Error = DbError;

    fn try_from(row: LineRow) -> Result<Self, DbError> {
        Ok(Self {
            complaint: Row {
                entry_id: row.entry_id,
                number: row.number,
                about: row.about,
                words: row.words,
                made_at: row.made_at,
                answer: row.answer,
                answered_at: row.answered_at,
            }
            .try_into()?,
            event: EventId(row.event_id),
            event_name: row.event_name,
            zone: zone(&row.zone)?,
            person: PersonId(row.person_id),
            person_name: row.person_name,
        })
    }
}

/// One SELECT list for every read of complaints with whose they are.
macro_rules! select_lines {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            LineRow,
            "SELECT c.event_id, c.entry_id, c.number, c.about, c.words, c.made_at, c.answer, c.answered_at,
                    e.name AS event_name, e.zone, n.person_id, p.name AS person_name
             FROM complaints c
             JOIN events e ON e.id = c.event_id
             JOIN entries n ON n.event_id = c.event_id AND n.id = c.entry_id
             JOIN persons p ON p.id = n.person_id " + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// What was said of an entry, the last first; at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn complaints_of(
        &self,
        event: EventId,
        entry: EntryId,
        limit: i64,
    ) -> Result<Vec<Complaint>, DbError> {
        sqlx::query_as!(
            Row,
            "SELECT entry_id, number, about, words, made_at, answer, answered_at FROM complaints
             WHERE event_id = $1 AND entry_id = $2 ORDER BY number DESC LIMIT $3",
            event.0,
            entry.0,
            limit
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(Complaint::try_from)
        .collect()
    }

    /// An organization's complaints, the newest first; at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn complaints(
        &self,
        organization: OrganizationId,
        filter: ComplaintFilter,
        limit: i64,
    ) -> Result<Vec<ComplaintLine>, DbError> {
        let rows = select_lines!(
            "WHERE e.organization_id = $1 AND ($2::uuid IS NULL OR c.event_id = $2)
               AND ($3::bool IS NULL OR (c.answered_at IS NOT NULL) = $3)
               AND ($4::timestamptz IS NULL OR (c.made_at, c.entry_id, c.number) < ($4, $5, $6))
             ORDER BY c.made_at DESC, c.entry_id DESC, c.number DESC LIMIT $7",
            organization.0,
            filter.event.map(|event| event.0),
            filter.answered,
            filter.before.map(|(at, _, _)| at),
            filter.before.map(|(_, entry, _)| entry.0),
            filter.before.map(|(_, _, number)| number),
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(ComplaintLine::try_from).collect()
    }

    /// Complaints that wait for an answer, those that wait longest first; at most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn complaints_waiting(
        &self,
        organization: OrganizationId,
        limit: i64,
    ) -> Result<Vec<ComplaintLine>, DbError> {
        let rows = select_lines!(
            "WHERE e.organization_id = $1 AND c.answered_at IS NULL
             ORDER BY c.made_at, c.entry_id LIMIT $2",
            organization.0,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(ComplaintLine::try_from).collect()
    }
}

impl LockedEvent {
    /// The last thing said of an entry.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_complaint(&mut self, entry: EntryId) -> Result<Option<Complaint>, DbError> {
        let event = self.id();
        sqlx::query_as!(
            Row,
            "SELECT entry_id, number, about, words, made_at, answer, answered_at FROM complaints
             WHERE event_id = $1 AND entry_id = $2 ORDER BY number DESC LIMIT 1",
            event.0,
            entry.0
        )
        .fetch_optional(self.connection())
        .await?
        .map(Complaint::try_from)
        .transpose()
    }

    /// Writes a complaint down.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_complaint(
        &mut self,
        entry: EntryId,
        number: i32,
        about: About,
        words: &Words,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        sqlx::query!(
            "INSERT INTO complaints (event_id, entry_id, number, about, words, made_at) VALUES ($1, $2, $3, $4, $5, $6)",
            event.0,
            entry.0,
            number,
            about.as_str(),
            words.as_str(),
            now
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Writes down what was answered.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when it was answered before, or what the database says.
    pub async fn answer_complaint(
        &mut self,
        entry: EntryId,
        number: i32,
        answer: &Words,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let changed = sqlx::query!(
            "UPDATE complaints SET answer = $4, answered_at = $5
             WHERE event_id = $1 AND entry_id = $2 AND number = $3 AND answered_at IS NULL",
            event.0,
            entry.0,
            number,
            answer.as_str(),
            now
        )
        .execute(self.connection())
        .await?;
        super::must_change(changed.rows_affected(), 1, "complaint")
    }
}
