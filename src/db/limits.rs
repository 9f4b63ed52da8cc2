//! Counters of what is limited, in fixed windows. Shared by every process of an installation.

use chrono::{Duration, DurationRound};

use super::{Db, DbError};

/// Whether one more is allowed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hit {
    /// Yes; it was counted.
    Allowed,
    /// No, until the window ends.
    Refused {
        /// How many seconds that is; at least one.
        seconds: i64,
    },
}

/// What was counted in a window, this one included.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Window {
    /// How many.
    pub hits: i32,
    /// Until the window ends, in seconds; at least one.
    pub seconds: i64,
}

impl Db {
    /// Counts one more for `subject` (a hash: no address is stored) in the current window of length `window`.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn hit(&self, subject: [u8; 32], window: Duration, most: i32) -> Result<Hit, DbError> {
        let Window { hits, seconds } = self.count_hit(subject, window).await?;
        Ok(if hits <= most { Hit::Allowed } else { Hit::Refused { seconds } })
    }

    /// The same, with what was counted.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn count_hit(&self, subject: [u8; 32], window: Duration) -> Result<Window, DbError> {
        let now = self.session_now().await?;
        let start = now.duration_trunc(window).unwrap_or(now);
        let hits = sqlx::query_scalar!(
            "INSERT INTO rate_limits AS r (subject, window_start, hits) VALUES ($1, $2, 1)
             ON CONFLICT (subject, window_start) DO UPDATE SET hits = least(r.hits + 1, 1000000) RETURNING hits",
            &subject[..],
            start,
        )
        .fetch_one(self.sessions())
        .await?;
        let seconds = ((start + window - now).num_milliseconds() + 999).div_euclid(1_000).max(1);
        Ok(Window { hits, seconds })
    }
}
