//! The workers that run passes: one runs what is requested, one asks for what is due, one hears other processes.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::{Next, Worker, run};
use crate::db::passes::PassListener;
use crate::db::{Db, DbError};
use crate::domain::ids::EventId;
use crate::waitlist::Waitlist;

/// How often requests are looked for without a hint.
const PASS_POLL: Duration = Duration::from_secs(2);

/// How often due instants are looked for, however far away the next one is.
const DUE_POLL: Duration = Duration::from_secs(2);

/// How often every served list is asked for a pass, so that whatever was missed is found.
const NUDGE: Duration = Duration::from_mins(1);

/// How long a lease on a request lasts: a worker that died is replaced after this.
const LEASE: chrono::Duration = chrono::Duration::seconds(30);

/// Requests leased at a time: few, so that several processes share a burst.
const LEASED: i64 = 4;

/// Passes that run at once in one process; inside an event they queue for its lock.
const RUNNERS: usize = 2;

/// Runs requested passes.
pub struct Passes {
    waitlist: Waitlist,
    stopping: CancellationToken,
}

impl Passes {
    /// On this waitlist, through the workers' connections.
    #[must_use]
    pub fn new(waitlist: &Waitlist, stopping: CancellationToken) -> Self {
        Self { waitlist: waitlist.for_workers(), stopping }
    }
}

impl Worker for Passes {
    const NAME: &'static str = "passes";

    async fn tick(&mut self) -> Result<Next, DbError> {
        let db = self.waitlist.db();
        let mut leased = db.lease_pass_requests(LEASED, LEASE).await?;
        let found = !leased.is_empty();
        leased.reverse();
        while let Some((event, asked_for)) = leased.pop() {
            if self.stopping.is_cancelled() {
                leased.push((event, asked_for));
                break;
            }
            let begun = Instant::now();
            match self.waitlist.run_pass(event).await {
                Ok(report) => {
                    db.metrics().passed(report.outcome.as_str(), begun.elapsed());
                    if report.offered > 0 {
                        let after = db.now().await? - asked_for;
                        db.metrics().offered(after.to_std().unwrap_or_default());
                    }
                    if report.offered > 0 || report.ended > 0 {
                        tracing::info!(%event, outcome = %report.outcome, offered = report.offered, ended = report.ended, "pass");
                    }
                }
                // The event was deleted by hand; nothing to do for it.
                Err(DbError::NotFound) => {}
                Err(error) => {
                    // The request stays set, and its lease runs out: another try comes by itself.
                    tracing::warn!(%event, %error, "a pass failed");
                    db.metrics().passed("failed", begun.elapsed());
                    db.release_pass_leases(&events(&leased)).await?;
                    return Err(error);
                }
            }
        }
        if !leased.is_empty() {
            db.release_pass_leases(&events(&leased)).await?;
        }
        Ok(if found { Next::Again } else { Next::Rest })
    }

    async fn hint(&self) {
        self.waitlist.db().hints().pass.notified().await;
    }
}

fn events(leased: &[(EventId, DateTime<Utc>)]) -> Vec<EventId> {
    leased.iter().map(|(event, _)| *event).collect()
}

/// Asks for passes where something is due, and wakes at the next instant that matters.
pub struct Sweeper {
    db: Db,
    last_nudge: Option<Instant>,
}

impl Sweeper {
    /// On this database, through the workers' connections.
    #[must_use]
    pub fn new(db: &Db) -> Self {
        Self { db: db.for_workers(), last_nudge: None }
    }
}

impl Worker for Sweeper {
    const NAME: &'static str = "sweeper";

    async fn tick(&mut self) -> Result<Next, DbError> {
        let nudge = self.last_nudge.is_none_or(|last| last.elapsed() >= NUDGE);
        let requested = self.db.request_due_passes(nudge).await?;
        if nudge {
            self.last_nudge = Some(Instant::now());
        }
        if requested > 0 {
            self.db.hints().pass.notify_one();
        }
        Ok(match self.db.next_due().await? {
            Some(due) => {
                let wait = (due - self.db.now().await?).to_std().unwrap_or(Duration::ZERO);
                // What is due and was just requested is still there until its pass has run.
                Next::RestAtMost(wait.max(Duration::from_millis(200)))
            }
            None => Next::Rest,
        })
    }

    async fn hint(&self) {
        self.db.hints().due.notified().await;
    }
}

/// Turns other processes' notifications into hints.
struct Ears {
    db: Db,
    listener: Option<PassListener>,
}

impl Worker for Ears {
    const NAME: &'static str = "listener";
    /// It waits inside its tick until somebody says something, and nothing depends on it.
    const PATIENCE: Duration = Duration::MAX;

    async fn tick(&mut self) -> Result<Next, DbError> {
        // Listen first, then have the requests scanned: nothing falls between.
        if self.listener.is_none() {
            self.listener = Some(self.db.listen_for_passes().await?);
        } else if let Some(listener) = &mut self.listener
            && let Err(error) = listener.hinted().await
        {
            self.listener = None;
            return Err(error);
        }
        self.db.hints().pass.notify_one();
        Ok(Next::Again)
    }

    async fn hint(&self) {
        std::future::pending::<()>().await;
    }
}

/// Starts the workers that run passes.
pub fn start(into: &mut JoinSet<()>, waitlist: &Waitlist, stopping: &CancellationToken) {
    let metrics = waitlist.db().metrics();
    for _ in 0..RUNNERS {
        let runner = Passes::new(waitlist, stopping.clone());
        into.spawn(run(runner, PASS_POLL, Arc::clone(metrics), stopping.clone()));
    }
    into.spawn(run(Sweeper::new(waitlist.db()), DUE_POLL, Arc::clone(metrics), stopping.clone()));
    let ears = Ears { db: waitlist.db().clone(), listener: None };
    let (heard, metrics) = (stopping.clone(), Arc::clone(metrics));
    // It waits inside its tick, where nothing is half done: it may be dropped there.
    into.spawn(async move {
        tokio::select! {
            () = run(ears, PASS_POLL, metrics, heard.clone()) => {}
            () = heard.cancelled() => {}
        }
    });
}
