//! The worker that copies what events have recorded into the feeds of their organizations.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::{Db, DbError};

/// How often events with something new are looked for without a hint: other processes give none.
const POLL: Duration = Duration::from_secs(1);

/// The rest while an event is written to without a pause, so that what it records goes out in larger pieces.
const BREATH: Duration = Duration::from_millis(20);

/// The worker. Several processes may each have one; an organization's feed is written by one at a time.
pub struct Relay(Db);

impl Relay {
    /// On this database, through the workers' connections.
    #[must_use]
    pub fn new(db: &Db) -> Self {
        Self(db.for_workers())
    }
}

impl Worker for Relay {
    const NAME: &'static str = "feed";

    async fn tick(&mut self) -> Result<Next, DbError> {
        let mut next = Next::Rest;
        for organization in self.0.unfed_organizations().await? {
            let relayed = self.0.relay(organization).await?;
            if relayed.more {
                next = Next::Again;
            } else if relayed.busy && next == Next::Rest {
                next = Next::RestAtMost(BREATH);
            }
        }
        Ok(next)
    }

    async fn hint(&self) {
        self.0.hints().record.notified().await;
    }
}

/// Starts it.
pub fn start(into: &mut JoinSet<()>, db: &Db, stopping: &CancellationToken) {
    into.spawn(run(Relay::new(db), POLL, Arc::clone(db.metrics()), stopping.clone()));
}
