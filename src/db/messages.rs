//! The outbox: messages are written with the change they tell of.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::staff::StaffMember;
use super::{DbError, LockedEvent};
use crate::clock::Entropy;
use crate::domain::audit::anchor::Anchor;
use crate::domain::ids::{EventId, OrganizationId, PersonId};
use crate::domain::message::{Facts, Occasion};

/// A message to be written. (occasion, subject, count) is told once per event, however often it is asked for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draft {
    /// Who is told.
    pub person: PersonId,
    /// Of what.
    pub occasion: Occasion,
    /// What it is about: the offer, the entry, the booking, the code.
    pub subject: Uuid,
    /// The how-manieth time for this subject (an offer given again).
    pub count: i32,
    /// What it says.
    pub facts: Facts,
}

/// Writes `drafts` as one set.
pub(super) async fn write(
    connection: &mut PgConnection,
    event: EventId,
    organization: OrganizationId,
    drafts: &[Draft],
    now: DateTime<Utc>,
    entropy: Entropy,
) -> Result<(), DbError> {
    if drafts.is_empty() {
        return Ok(());
    }
    let ids: Vec<Uuid> = drafts.iter().map(|_| entropy.id()).collect();
    let persons: Vec<Uuid> = drafts.iter().map(|draft| draft.person.0).collect();
    let occasions: Vec<String> = drafts.iter().map(|draft| draft.occasion.as_str().to_owned()).collect();
    let subjects: Vec<Uuid> = drafts.iter().map(|draft| draft.subject).collect();
    let counts: Vec<i32> = drafts.iter().map(|draft| draft.count).collect();
    let facts = drafts
        .iter()
        .map(|draft| serde_json::to_value(&draft.facts))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| DbError::Unreadable("facts", error.to_string()))?;
    sqlx::query!(
        r#"INSERT INTO messages (event_id, organization_id, made_at, next_attempt_at, state,
                                 id, person_id, occasion, subject_id, count, facts)
           SELECT $1, $2, $3, $3, 'queued', * FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::uuid[], $8::integer[],
                                                          $9::jsonb[])
           ON CONFLICT (event_id, occasion, subject_id, count) DO NOTHING"#,
        event.0,
        organization.0,
        now,
        &ids,
        &persons,
        &occasions,
        &subjects,
        &counts,
        &facts,
    )
    .execute(&mut *connection)
    .await?;
    Ok(())
}

/// Writes an anchor to one of the staff, once for each head; false when that was written before. `event` is the nil id
/// for the organization's chain.
pub(super) async fn write_anchor(
    connection: &mut PgConnection,
    event: EventId,
    reader: &StaffMember,
    anchor: &Anchor,
    now: DateTime<Utc>,
    entropy: Entropy,
) -> Result<bool, DbError> {
    let facts = serde_json::to_value(Facts { anchor: anchor.to_json(), ..Facts::default() })
        .map_err(|error| DbError::Unreadable("facts", error.to_string()))?;
    let written = sqlx::query!(
        "INSERT INTO messages (event_id, id, organization_id, staff_id, occasion, subject_id, count, facts, state, made_at,
                               next_attempt_at)
         VALUES ($1, $2, $3, $4, $5, $4, $6, $7, 'queued', $8, $8)
         ON CONFLICT (event_id, occasion, subject_id, count) DO NOTHING",
        event.0,
        entropy.id(),
        reader.organization.0,
        reader.id.0,
        Occasion::Anchor.as_str(),
        i32::try_from(anchor.seq).unwrap_or(i32::MAX),
        facts,
        now
    )
    .execute(connection)
    .await?
    .rows_affected();
    Ok(written == 1)
}

impl LockedEvent {
    /// What was said of this subject on this occasion, if anything was.
    ///
    /// # Errors
    /// What the database says.
    pub async fn told(&mut self, occasion: Occasion, subject: Uuid) -> Result<Option<Facts>, DbError> {
        let event = self.id();
        sqlx::query_scalar!(
            "SELECT facts FROM messages WHERE event_id = $1 AND occasion = $2 AND subject_id = $3 LIMIT 1",
            event.0,
            occasion.as_str(),
            subject
        )
        .fetch_optional(self.connection())
        .await?
        .map(|facts| {
            serde_json::from_value(facts).map_err(|error| DbError::Unreadable("facts", error.to_string()))
        })
        .transpose()
    }
}
