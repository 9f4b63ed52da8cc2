//! The worker that settles what booking services never answered.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::DbError;
use crate::waitlist::Waitlist;
use crate::waitlist::reconcile::{Outcome, Reconciler};

/// How often attempts are looked for without a hint.
const POLL: Duration = Duration::from_secs(2);

impl Worker for Reconciler {
    const NAME: &'static str = "reconciler";

    async fn tick(&mut self) -> Result<Next, DbError> {
        Ok(match Reconciler::tick(self).await? {
            Outcome::Asked { .. } => Next::Again,
            Outcome::Idle => Next::Rest,
        })
    }

    async fn hint(&self) {
        self.hinted().await;
    }
}

/// Starts it.
pub fn start(into: &mut JoinSet<()>, waitlist: &Waitlist, stopping: &CancellationToken) {
    let metrics = Arc::clone(waitlist.db().metrics());
    into.spawn(run(Reconciler::new(waitlist), POLL, metrics, stopping.clone()));
}
