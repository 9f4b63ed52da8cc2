//! The worker that sends webhooks.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::DbError;
use crate::metrics::Metrics;
use crate::webhooks::{Outcome, Sender};

/// How often what is due is looked for without a hint.
const POLL: Duration = Duration::from_secs(2);

impl Worker for Sender {
    const NAME: &'static str = "webhooks";

    async fn tick(&mut self) -> Result<Next, DbError> {
        Ok(match Sender::tick(self).await? {
            Outcome::Worked(_) => Next::Again,
            Outcome::Idle => Next::Rest,
        })
    }

    async fn hint(&self) {
        self.hinted().await;
    }

    async fn end(&mut self) {
        self.finish().await;
    }
}

/// Starts it.
pub fn start(into: &mut JoinSet<()>, sender: Sender, metrics: &Arc<Metrics>, stopping: &CancellationToken) {
    into.spawn(run(sender, POLL, Arc::clone(metrics), stopping.clone()));
}
