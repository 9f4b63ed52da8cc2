//! Whether somebody can be reached, and the entries whose chance depends on it.
//!
//! A person has a contact problem when there are email addresses and none of them works. Telephone numbers do not
//! count for or against: nothing is sent to them by itself.

use uuid::Uuid;

use super::{Db, DbError, LockedEvent};
use crate::domain::ids::{EntryId, EventId, OrganizationId, PersonId};

/// Who writes to somebody, and whether only what is essential.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct News {
    /// Who writes.
    pub organization: OrganizationId,
    /// What they are called.
    pub organization_name: String,
    /// Whom to ask there.
    pub organization_contact: String,
    /// Whether what is not essential is stopped.
    pub stopped: bool,
}

impl LockedEvent {
    /// Whether none of the person's addresses works.
    ///
    /// # Errors
    /// What the database says.
    pub async fn has_contact_problem(&mut self, person: PersonId) -> Result<bool, DbError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT coalesce(bool_and(failing_since IS NOT NULL), false) AS "problem!"
               FROM contacts WHERE person_id = $1 AND kind = 'email'"#,
            person.0
        )
        .fetch_one(self.connection())
        .await?)
    }
}

impl Db {
    /// Live entries that say otherwise than their person's contacts do. Whatever interrupted the change of one of
    /// them, it is found here again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entries_with_stale_contacts(&self, limit: i64) -> Result<Vec<(EventId, EntryId)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT e.event_id AS "event_id!", e.id AS "id!"
               FROM (SELECT DISTINCT person_id FROM contacts WHERE failing_since IS NOT NULL AND kind = 'email') failing
               JOIN entries e ON e.person_id = failing.person_id
               WHERE e.state IN ('unconfirmed', 'waiting', 'offered') AND NOT e.contact_problem
                 AND NOT EXISTS (SELECT FROM contacts c WHERE c.person_id = e.person_id AND c.kind = 'email'
                                   AND c.failing_since IS NULL)
               UNION ALL
               SELECT e.event_id, e.id FROM entries e
               WHERE e.contact_problem AND e.state IN ('unconfirmed', 'waiting', 'offered')
                 AND EXISTS (SELECT FROM contacts c WHERE c.person_id = e.person_id AND c.kind = 'email'
                               AND c.failing_since IS NULL)
               LIMIT $1"#,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (EventId(row.event_id), EntryId(row.id))).collect())
    }

    /// The person wants no mail but what is essential. Nothing else changes: their entries keep their ranks.
    /// `false` when that was so already, or there is no such person.
    ///
    /// # Errors
    /// What the database says.
    pub async fn stop_news(&self, person: PersonId) -> Result<bool, DbError> {
        let now = self.now().await?;
        Ok(self.set_news_stopped(person.0, Some(now)).await? == 1)
    }

    /// The person wants all mail again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn resume_news(&self, person: PersonId) -> Result<bool, DbError> {
        Ok(self.set_news_stopped(person.0, None).await? == 1)
    }

    async fn set_news_stopped(
        &self,
        person: Uuid,
        since: Option<chrono::DateTime<chrono::Utc>>,
    ) -> Result<u64, DbError> {
        Ok(sqlx::query!(
            "UPDATE persons SET news_stopped_at = $2::timestamptz
             WHERE id = $1 AND (news_stopped_at IS NULL) <> ($2::timestamptz IS NULL)",
            person,
            since
        )
        .execute(self.pool())
        .await?
        .rows_affected())
    }

    /// Who writes to this person, and whether only what is essential.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is nobody with this id.
    pub async fn news(&self, person: PersonId) -> Result<News, DbError> {
        let row = sqlx::query!(
            r#"SELECT g.id, g.name, g.contact, p.news_stopped_at IS NOT NULL AS "stopped!"
               FROM persons p JOIN organizations g ON g.id = p.organization_id WHERE p.id = $1"#,
            person.0
        )
        .fetch_one(self.pool())
        .await?;
        Ok(News {
            organization: OrganizationId(row.id),
            organization_name: row.name,
            organization_contact: row.contact,
            stopped: row.stopped,
        })
    }
}
