//! Messages as staff read them: lists by state, one with its deliveries, counts.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::delivery::{Channel, DeliveryOutcome, MessageState};
use crate::domain::ids::{EventId, MessageId, OrganizationId, PersonId};
use crate::domain::message::{Facts, Occasion};

/// Which messages of an organization to list.
#[derive(Clone, Debug, Default)]
pub struct MessageFilter {
    /// Of one event only.
    pub event: Option<EventId>,
    /// To one person only.
    pub person: Option<PersonId>,
    /// In these states; none named means all.
    pub states: Vec<MessageState>,
    /// Older than this one: what the page before ended with.
    pub before: Option<(DateTime<Utc>, MessageId)>,
}

/// A line of the list.
#[derive(Clone, Debug)]
pub struct MessageLine {
    /// The event; the nil id for none.
    pub event: EventId,
    /// Its name, if there is one.
    pub event_name: Option<String>,
    /// The zone its instants are shown in.
    pub zone: chrono_tz::Tz,
    /// Which.
    pub id: MessageId,
    /// To whom; nobody where it is to one of the staff.
    pub person: Option<PersonId>,
    /// What they are called.
    pub person_name: String,
    /// Why; `None` when this program does not know the word.
    pub occasion: Option<Occasion>,
    /// Where it is in its life.
    pub state: MessageState,
    /// When it was written.
    pub made_at: DateTime<Utc>,
    /// When it was told.
    pub told_at: Option<DateTime<Utc>>,
    /// When it is tried next.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Attempts charged so far.
    pub attempts: i32,
    /// Why it was given up or not sent.
    pub note: Option<String>,
}

/// One message with what is needed to show it.
#[derive(Clone, Debug)]
pub struct MessageDetail {
    /// As in the list.
    pub line: MessageLine,
    /// What it is about.
    pub subject: Uuid,
    /// What it says, unparsed.
    pub facts: serde_json::Value,
    /// Its deliveries, newest first; at most [`DELIVERIES_SHOWN`].
    pub deliveries: Vec<Delivery>,
    /// How many deliveries there were.
    pub delivery_count: i64,
}

impl MessageDetail {
    /// What it says.
    ///
    /// # Errors
    /// [`DbError::Unreadable`] when this program does not understand it.
    pub fn facts(&self) -> Result<Facts, DbError> {
        serde_json::from_value(self.facts.clone())
            .map_err(|error| DbError::Unreadable("facts", error.to_string()))
    }
}

/// One attempt.
#[derive(Clone, Debug)]
pub struct Delivery {
    /// Its number.
    pub attempt: i32,
    /// The way it took.
    pub channel: Channel,
    /// The address it went to.
    pub address: Option<String>,
    /// What it ended with; nothing while it runs.
    pub outcome: Option<DeliveryOutcome>,
    /// What the other side said.
    pub detail: Option<String>,
    /// When it began.
    pub started_at: DateTime<Utc>,
    /// When it ended.
    pub finished_at: Option<DateTime<Utc>>,
}

/// How many messages are in a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCount {
    /// The state.
    pub state: MessageState,
    /// How many, at most [`COUNTED`].
    pub n: i64,
}

/// Deliveries shown of one message.
pub const DELIVERIES_SHOWN: i64 = 50;

/// Counting stops here: "9,999+" answers the question as well, and costs the same however long the list.
pub const COUNTED: i64 = 10_000;

struct LineRow {
    event_id: Uuid,
    event_name: Option<String>,
    zone: Option<String>,
    id: Uuid,
    person_id: Option<Uuid>,
    person_name: String,
    occasion: String,
    state: String,
    made_at: DateTime<Utc>,
    told_at: Option<DateTime<Utc>>,
    next_attempt_at: Option<DateTime<Utc>>,
    attempts: i32,
    note: Option<String>,
}

impl TryFrom<LineRow> for MessageLine {
    type Error = DbError;

    fn try_from(row: LineRow) -> Result<Self, DbError> {
        let zone = row.zone.as_deref().unwrap_or("UTC");
        Ok(Self {
            event: EventId(row.event_id),
            event_name: row.event_name,
            zone: zone.parse().map_err(|_| DbError::Unreadable("time zone", zone.to_owned()))?,
            id: MessageId(row.id),
            person: row.person_id.map(PersonId),
            person_name: row.person_name,
            occasion: Occasion::parse(&row.occasion),
            state: word(MessageState::parse, "message state", &row.state)?,
            made_at: row.made_at,
            told_at: row.told_at,
            next_attempt_at: row.next_attempt_at,
            attempts: row.attempts,
            note: row.note,
        })
    }
}

/// One SELECT list for every read of lines.
macro_rules! select_lines {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            LineRow,
            r#"SELECT m.event_id AS "event_id!", e.name AS "event_name?", e.zone AS "zone?", m.id AS "id!",
                      m.person_id, coalesce(p.name, s.name) AS "person_name!", m.occasion AS "occasion!", m.state AS "state!",
                      m.made_at AS "made_at!", m.told_at, m.next_attempt_at, m.attempts AS "attempts!", m.note "#
                + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// Messages of an organization, newest first. Each state is read in its own order from the index, so that a
    /// page costs the same however long the list is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn messages(
        &self,
        organization: OrganizationId,
        filter: &MessageFilter,
        limit: i64,
    ) -> Result<Vec<MessageLine>, DbError> {
        let states = if filter.states.is_empty() { MessageState::ALL } else { &filter.states };
        let states: Vec<String> = states.iter().map(|state| state.as_str().to_owned()).collect();
        let (made_at, id) =
            filter.before.map_or((DateTime::<Utc>::MAX_UTC, Uuid::max()), |(at, id)| (at, id.0));
        // The latest instant that Postgres can hold is earlier than chrono's.
        let made_at = made_at.min(DateTime::from_timestamp(253_402_300_799, 0).unwrap_or(made_at));
        let rows = if let Some(person) = filter.person {
            select_lines!(
                "FROM messages m LEFT JOIN persons p ON p.id = m.person_id LEFT JOIN staff s ON s.id = m.staff_id LEFT JOIN events e ON e.id = m.event_id
                 WHERE m.organization_id = $1 AND m.person_id = $2 AND m.state = ANY($3)
                   AND ($4::uuid IS NULL OR m.event_id = $4) AND (m.made_at, m.id) < ($5, $6)
                 ORDER BY m.made_at DESC, m.id DESC LIMIT $7",
                organization.0,
                person.0,
                &states,
                filter.event.map(|id| id.0),
                made_at,
                id,
                limit
            )
            .fetch_all(self.pool())
            .await?
        } else if let Some(event) = filter.event {
            select_lines!(
                "FROM unnest($3::text[]) AS t(state)
                 CROSS JOIN LATERAL (
                     SELECT * FROM messages m WHERE m.event_id = $2 AND m.state = t.state
                       AND (m.made_at, m.id) < ($4, $5) ORDER BY m.made_at DESC, m.id DESC LIMIT $6) m
                 LEFT JOIN persons p ON p.id = m.person_id LEFT JOIN staff s ON s.id = m.staff_id LEFT JOIN events e ON e.id = m.event_id
                 WHERE m.organization_id = $1 ORDER BY m.made_at DESC, m.id DESC LIMIT $6",
                organization.0,
                event.0,
                &states,
                made_at,
                id,
                limit
            )
            .fetch_all(self.pool())
            .await?
        } else {
            select_lines!(
                "FROM unnest($2::text[]) AS t(state)
                 CROSS JOIN LATERAL (
                     SELECT * FROM messages m WHERE m.organization_id = $1 AND m.state = t.state
                       AND (m.made_at, m.id) < ($3, $4) ORDER BY m.made_at DESC, m.id DESC LIMIT $5) m
                 LEFT JOIN persons p ON p.id = m.person_id LEFT JOIN staff s ON s.id = m.staff_id LEFT JOIN events e ON e.id = m.event_id
                 ORDER BY m.made_at DESC, m.id DESC LIMIT $5",
                organization.0,
                &states,
                made_at,
                id,
                limit
            )
            .fetch_all(self.pool())
            .await?
        };
        rows.into_iter().map(MessageLine::try_from).collect()
    }

    /// How many messages of the organization, or of one of its events, are in each state, in the order of
    /// [`MessageState::ALL`].
    ///
    /// # Errors
    /// What the database says.
    pub async fn message_counts(
        &self,
        organization: OrganizationId,
        event: Option<EventId>,
    ) -> Result<Vec<MessageCount>, DbError> {
        let mut counts = Vec::with_capacity(MessageState::ALL.len());
        let states: Vec<String> = MessageState::ALL.iter().map(|state| state.as_str().to_owned()).collect();
        let rows: Vec<(String, i64)> = if let Some(event) = event {
            sqlx::query!(
                r#"SELECT s.state AS "state!", (SELECT count(*) FROM (
                       SELECT FROM messages m WHERE m.event_id = $2 AND m.state = s.state AND m.organization_id = $1
                       LIMIT $4) AS few) AS "n!"
                   FROM unnest($3::text[]) AS s(state)"#,
                organization.0,
                event.0,
                &states,
                COUNTED
            )
            .fetch_all(self.pool())
            .await?
            .into_iter()
            .map(|row| (row.state, row.n))
            .collect()
        } else {
            sqlx::query!(
                r#"SELECT s.state AS "state!", (SELECT count(*) FROM (
                       SELECT FROM messages m WHERE m.organization_id = $1 AND m.state = s.state LIMIT $3) AS few) AS "n!"
                   FROM unnest($2::text[]) AS s(state)"#,
                organization.0,
                &states,
                COUNTED
            )
            .fetch_all(self.pool())
            .await?
            .into_iter()
            .map(|row| (row.state, row.n))
            .collect()
        };
        for state in MessageState::ALL {
            let n = rows.iter().find(|(word, _)| word == state.as_str()).map_or(0, |(_, n)| *n);
            counts.push(MessageCount { state: *state, n });
        }
        Ok(counts)
    }

    /// One message of the organization with its deliveries.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when the organization has none with this id.
    pub async fn message(
        &self,
        organization: OrganizationId,
        id: MessageId,
    ) -> Result<MessageDetail, DbError> {
        let line: MessageLine = select_lines!(
            "FROM messages m LEFT JOIN persons p ON p.id = m.person_id LEFT JOIN staff s ON s.id = m.staff_id LEFT JOIN events e ON e.id = m.event_id
             WHERE m.id = $2 AND m.organization_id = $1",
            organization.0,
            id.0
        )
        .fetch_one(self.pool())
        .await?
        .try_into()?;
        let rest = sqlx::query!(
            r#"SELECT subject_id, facts, (SELECT count(*) FROM deliveries d
                   WHERE d.event_id = m.event_id AND d.message_id = m.id) AS "delivery_count!"
               FROM messages m WHERE event_id = $1 AND id = $2"#,
            line.event.0,
            id.0
        )
        .fetch_one(self.pool())
        .await?;
        let deliveries = sqlx::query!(
            r#"SELECT d.attempt, d.channel, coalesce(c.value, s.email) AS "address?", d.outcome, d.detail, d.started_at,
                      d.finished_at
               FROM deliveries d LEFT JOIN contacts c ON c.id = d.contact_id
               LEFT JOIN messages m ON m.event_id = d.event_id AND m.id = d.message_id
               LEFT JOIN staff s ON s.id = m.staff_id
               WHERE d.event_id = $1 AND d.message_id = $2 ORDER BY d.attempt DESC LIMIT $3"#,
            line.event.0,
            id.0,
            DELIVERIES_SHOWN
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(|row| {
            Ok(Delivery {
                attempt: row.attempt,
                channel: word(Channel::parse, "channel", &row.channel)?,
                address: row.address,
                outcome: row
                    .outcome
                    .map(|outcome| word(DeliveryOutcome::parse, "outcome", &outcome))
                    .transpose()?,
                detail: row.detail,
                started_at: row.started_at,
                finished_at: row.finished_at,
            })
        })
        .collect::<Result<Vec<_>, DbError>>()?;
        Ok(MessageDetail {
            line,
            subject: rest.subject_id,
            facts: rest.facts,
            deliveries,
            delivery_count: rest.delivery_count,
        })
    }
}
