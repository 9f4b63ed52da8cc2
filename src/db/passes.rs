//! Pass requests, passes, and what the sweeper asks for.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::DbError;
use crate::domain::ids::EventId;

/// The channel on which other processes learn that a pass is wanted.
pub const PASS_CHANNEL: &str = "fairlist_pass";

/// Sets the event's pass request, and notifies only when it was not set: many requests, one pass, one hint.
pub(super) async fn request(
    connection: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let newly_set = sqlx::query_scalar!(
        r#"INSERT INTO pass_requests AS r (event_id, requested_at) VALUES ($1, $2)
           ON CONFLICT (event_id) DO UPDATE SET requested_at = excluded.requested_at WHERE r.requested_at IS NULL
           RETURNING event_id"#,
        event.0,
        now
    )
    .fetch_optional(&mut *connection)
    .await?;
    if newly_set.is_some() {
        sqlx::query!("SELECT pg_notify($1, $2)", PASS_CHANNEL, event.to_string())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}
