//! Takes up what a booking service was asked and nobody knows the outcome of: looks the key up, sends it again while it
//! lives, and asks staff after that.

use chrono::Duration;
use tokio::task::JoinSet;
use tracing::Instrument as _;

use super::Waitlist;
use super::outside_settled::Settled;
use crate::db::DbError;

/// Attempts taken up at a time.
const AT_ONCE: i64 = 8;

/// What a tick came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many were asked for, and so many of them have an outcome now.
    Asked {
        /// How many.
        asked: usize,
        /// How many of them are settled.
        settled: usize,
    },
    /// Nothing is due.
    Idle,
}

/// See the module. Several may run, in one process and in many.
#[derive(Clone, Debug)]
pub struct Reconciler {
    waitlist: Waitlist,
}

impl Reconciler {
    /// On this waitlist, through the workers' connections.
    #[must_use]
    pub fn new(waitlist: &Waitlist) -> Self {
        Self { waitlist: waitlist.for_workers() }
    }

    /// Takes up a few of what is due.
    ///
    /// # Errors
    /// What the database says.
    pub async fn tick(&self) -> Result<Outcome, DbError> {
        let lease: Duration = self.waitlist.services.lease();
        let leased = self.waitlist.db.lease_attempts(AT_ONCE, lease).await?;
        if leased.is_empty() {
            return Ok(Outcome::Idle);
        }
        let asked = leased.len();
        let mut settled = 0;
        // In tasks of their own: one that panics takes no other along.
        let mut asking = JoinSet::new();
        for leased in leased {
            let waitlist = self.waitlist.clone();
            asking.spawn(async move { waitlist.ask(leased, None).await }.in_current_span());
        }
        while let Some(ended) = asking.join_next().await {
            match ended {
                Ok(Ok(Settled::Unknown)) => {}
                Ok(Ok(_)) => settled += 1,
                // Its lease runs out, and it is taken up again.
                Ok(Err(error)) => tracing::warn!(%error, "a booking attempt is left to its lease"),
                Err(panic) => tracing::error!(%panic, "a booking attempt panicked and is left to its lease"),
            }
        }
        Ok(Outcome::Asked { asked, settled })
    }

    /// Waits for a hint that something is due.
    pub async fn hinted(&self) {
        self.waitlist.db.hints().booking.notified().await;
    }
}
