//! Rows of `sessions`. Ids are kept as hashes; a row is inserted once, changed only while it lives, and never
//! comes back: a slow request that saves after a sign-out changes nothing.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::{Db, DbError};
use crate::domain::ids::StaffId;

/// Which of the two cookies a session belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SessionKind {
    /// Staff.
    Staff,
    /// A customer's device.
    Customer,
}

impl SessionKind {
    /// The word in the table.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Staff => "staff",
            Self::Customer => "customer",
        }
    }
}

/// A session as it is first written.
#[derive(Debug)]
pub struct NewSession {
    /// SHA-256 of the id.
    pub id_hash: [u8; 32],
    /// Which cookie.
    pub kind: SessionKind,
    /// What it holds; never a secret.
    pub data: serde_json::Value,
    /// The member of the staff who is signed in.
    pub subject: Option<Uuid>,
    /// How long it lives without use.
    pub idle: Duration,
    /// How long it lives at most.
    pub absolute: Duration,
}

impl Db {
    /// The instant by which sessions live, read through their own pool, so that a flood of pages cannot starve
    /// sign-in.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn session_now(&self) -> Result<DateTime<Utc>, DbError> {
        if let Some(now) = self.clock().script() {
            return Ok(now);
        }
        Ok(sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(self.sessions()).await?)
    }

    /// Writes a new session; false when the id is taken, and nothing was written.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn insert_session(&self, session: &NewSession) -> Result<bool, DbError> {
        let now = self.session_now().await?;
        let absolute_until = now + session.absolute;
        let idle_until = (now + session.idle).min(absolute_until);
        let done = sqlx::query!(
            "INSERT INTO sessions (id_hash, kind, data, subject_id, created_at, idle_until, absolute_until)
             VALUES ($1, $2, $3, $4, $5, $6, $7) ON CONFLICT (id_hash) DO NOTHING",
            &session.id_hash[..],
            session.kind.as_str(),
            session.data,
            session.subject,
            now,
            idle_until,
            absolute_until,
        )
        .execute(self.sessions())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// What a living session holds.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn session_data(
        &self,
        id_hash: [u8; 32],
        kind: SessionKind,
    ) -> Result<Option<serde_json::Value>, DbError> {
        let data = sqlx::query_scalar!(
            "SELECT s.data FROM sessions s, (SELECT coalesce($3, clock_timestamp()) AS now) clock
             WHERE s.id_hash = $1 AND s.kind = $2 AND s.revoked_at IS NULL
               AND s.idle_until > clock.now AND s.absolute_until > clock.now",
            &id_hash[..],
            kind.as_str(),
            self.clock().script(),
        )
        .fetch_optional(self.sessions())
        .await?;
        Ok(data)
    }

    /// Changes what a living session holds; false when it is over, and nothing was written.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn update_session(
        &self,
        id_hash: [u8; 32],
        kind: SessionKind,
        data: &serde_json::Value,
    ) -> Result<bool, DbError> {
        let now = self.session_now().await?;
        let done = sqlx::query!(
            "UPDATE sessions SET data = $3
             WHERE id_hash = $1 AND kind = $2 AND revoked_at IS NULL AND idle_until > $4 AND absolute_until > $4",
            &id_hash[..],
            kind.as_str(),
            data,
            now,
        )
        .execute(self.sessions())
        .await?;
        Ok(done.rows_affected() == 1)
    }

    /// Notes that a living session was used. Written at most once a minute, for a session is used far more often.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn touch_session(
        &self,
        id_hash: [u8; 32],
        idle: Duration,
        now: DateTime<Utc>,
    ) -> Result<(), DbError> {
        sqlx::query!(
            "UPDATE sessions SET idle_until = least($2, absolute_until)
             WHERE id_hash = $1 AND revoked_at IS NULL AND idle_until > $3 AND absolute_until > $3 AND idle_until < $4",
            &id_hash[..],
            now + idle,
            now,
            now + idle - Duration::minutes(1).min(idle / 2),
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Ends a session for good.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn revoke_session(&self, id_hash: [u8; 32]) -> Result<(), DbError> {
        let now = self.session_now().await?;
        sqlx::query!(
            "UPDATE sessions SET revoked_at = $2, data = '{}' WHERE id_hash = $1 AND revoked_at IS NULL",
            &id_hash[..],
            now,
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Ends every session of a member of the staff: signing out everywhere, a new password, a removal.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn revoke_staff_sessions(&self, staff: StaffId) -> Result<u64, DbError> {
        let now = self.session_now().await?;
        let done = sqlx::query!(
            "UPDATE sessions SET revoked_at = $2, data = '{}' WHERE subject_id = $1 AND kind = 'staff' AND revoked_at IS NULL",
            staff.0,
            now,
        )
        .execute(self.sessions())
        .await?;
        Ok(done.rows_affected())
    }

    /// Deletes sessions that have been over for a day and counters of windows long past; at most 10,000 of each.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn sweep_sessions(&self) -> Result<u64, DbError> {
        let old = self.session_now().await? - Duration::days(1);
        let sessions = sqlx::query!(
            "DELETE FROM sessions WHERE id_hash IN
                (SELECT id_hash FROM sessions WHERE idle_until < $1 OR revoked_at < $1 LIMIT 10000)",
            old
        )
        .execute(self.sessions())
        .await?;
        let limits = sqlx::query!(
            "DELETE FROM rate_limits WHERE (subject, window_start) IN
                (SELECT subject, window_start FROM rate_limits WHERE window_start < $1 LIMIT 10000)",
            old
        )
        .execute(self.sessions())
        .await?;
        Ok(sessions.rows_affected() + limits.rows_affected())
    }
}
