//! The worker that carries on imports of uploaded files.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::{Db, DbError};
use crate::waitlist::import::{Importer, Tick};

/// How often imports are looked for without a hint.
const POLL: Duration = Duration::from_secs(5);

impl Worker for Importer {
    const NAME: &'static str = "imports";

    async fn tick(&mut self) -> Result<Next, DbError> {
        Ok(match Importer::tick(self).await? {
            Tick::Stepped(_) => Next::Again,
            Tick::Idle => Next::Rest,
        })
    }

    async fn hint(&self) {
        self.hinted().await;
    }

    async fn end(&mut self) {
        if let Err(error) = self.let_go().await {
            tracing::debug!(%error, "an import is left to its lease");
        }
    }
}

/// Starts the worker.
pub fn start(into: &mut JoinSet<()>, db: &Db, stopping: &CancellationToken) {
    into.spawn(run(Importer::new(db), POLL, Arc::clone(db.metrics()), stopping.clone()));
}
