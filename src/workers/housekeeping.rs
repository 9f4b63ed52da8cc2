//! Throws away what is of no use to anybody: sessions long over, counters of windows long past,
//! answers kept for programs that asked again, deliveries taken long ago.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::{Db, DbError};

/// Nothing depends on it, so it need not be often.
const POLL: Duration = Duration::from_mins(10);

/// The worker. Several processes may each have one; what one deleted the others do not find.
struct Housekeeping(Db);

impl Worker for Housekeeping {
    const NAME: &'static str = "housekeeping";
    const PATIENCE: Duration = Duration::from_mins(30);

    async fn tick(&mut self) -> Result<Next, DbError> {
        let swept =
            self.0.sweep_sessions().await? + self.0.sweep_api().await? + self.0.sweep_deliveries().await?;
        Ok(if swept > 0 { Next::Again } else { Next::Rest })
    }

    async fn hint(&self) {
        std::future::pending::<()>().await;
    }
}

/// Starts it.
pub fn start(into: &mut JoinSet<()>, db: &Db, stopping: &CancellationToken) {
    into.spawn(run(Housekeeping(db.clone()), POLL, Arc::clone(db.metrics()), stopping.clone()));
}
