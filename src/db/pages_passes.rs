//! Which lists are to be looked at, and what the last look at each came to.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::events::word;
use super::pages_staff::zone;
use super::{Db, DbError};
use crate::domain::allocation::PassOutcome;
use crate::domain::ids::{EventId, OrganizationId};

/// An event's pass request, and its last pass.
#[derive(Clone, Debug)]
pub struct PassLine {
    /// The event.
    pub event: EventId,
    /// What it is called.
    pub name: String,
    /// Its zone.
    pub zone: Tz,
    /// Since when a pass is asked for that has not run.
    pub asked_since: Option<DateTime<Utc>>,
    /// Until when a worker has said that it runs it.
    pub leased_until: Option<DateTime<Utc>>,
    /// What the last pass came to, how many offers it made, and when it last came to that.
    pub last: Option<(PassOutcome, i32, DateTime<Utc>)>,
}

impl Db {
    /// The organization's pass requests, those that wait longest first; then the events that were looked at since
    /// `since`, the last first. At most `limit`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pass_lines(
        &self,
        organization: OrganizationId,
        since: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<PassLine>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT e.id, e.name, e.zone, r.requested_at, r.leased_until, p.outcome AS "outcome?", p.offered AS "offered?",
                      p.last_at AS "last_at?"
               FROM pass_requests r JOIN events e ON e.id = r.event_id
               LEFT JOIN LATERAL (SELECT outcome, offered, last_at FROM passes WHERE event_id = e.id
                                  ORDER BY number DESC LIMIT 1) p ON true
               WHERE e.organization_id = $1 AND (r.requested_at IS NOT NULL OR e.last_pass_at >= $2)
               ORDER BY r.requested_at NULLS LAST, e.last_pass_at DESC NULLS LAST, e.id LIMIT $3"#,
            organization.0,
            since,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                let outcome = row
                    .outcome
                    .as_deref()
                    .map(|text| word(PassOutcome::parse, "pass outcome", text))
                    .transpose()?;
                let last = outcome.zip(row.offered).zip(row.last_at);
                Ok(PassLine {
                    event: EventId(row.id),
                    name: row.name,
                    zone: zone(&row.zone)?,
                    asked_since: row.requested_at,
                    leased_until: row.leased_until,
                    last: last.map(|((outcome, offered), at)| (outcome, offered, at)),
                })
            })
            .collect()
    }
}
