//! The only SQL. [`Db`] keeps its pools to itself: writing an event's data goes through
//! [`Db::with_event`], which locks the event row first; everything else is a read or a row outside events.

use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{Executor, PgPool};
use tokio::sync::Notify;

use crate::clock::{Clock, Entropy};
use crate::metrics::Metrics;

pub mod attributes;
pub mod audit;
pub mod audit_chains;
pub mod background;
pub mod bench;
pub mod booking_attempts;
pub mod booking_services;
pub mod bookings;
pub mod capacity;
pub mod check;
pub mod complaints;
pub mod contacts;
pub mod counts;
pub mod demonstration;
pub mod draws;
pub mod entries;
pub mod events;
pub mod feed;
pub mod idempotency;
pub mod import;
pub mod keys;
pub mod limits;
pub mod locked_event;
pub mod mailbox;
pub mod messages;
pub mod migrate;
pub mod offers;
pub mod outbox;
pub mod pages_customer;
pub mod pages_history;
pub mod pages_passes;
pub mod pages_places;
pub mod pages_queue;
pub mod pages_releases;
pub mod pages_simulation;
pub mod pages_since;
pub mod pages_staff;
pub mod passes;
pub mod persons;
pub mod places;
pub mod placing;
pub mod policies;
pub mod postgres;
pub mod sessions;
pub mod staff;
pub mod telling;
pub mod watch;
pub mod webhook_outbox;
pub mod webhooks;

pub use locked_event::LockedEvent;

/// What can go wrong between us and the database.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// No connection became free in time, or the database cannot be reached.
    #[error("the database is not available")]
    Unavailable(#[source] sqlx::Error),
    /// A lock was not granted in time, or Postgres asks for the transaction to be tried again.
    #[error("the event is busy")]
    Busy(#[source] sqlx::Error),
    /// The connection broke while COMMIT was under way: it may have happened or not.
    #[error("it is not known whether the change was made")]
    CommitUnknown(#[source] sqlx::Error),
    /// A constraint, by name, said no.
    #[error("constraint {0}")]
    Constraint(String),
    /// The row asked for is not there.
    #[error("not found")]
    NotFound,
    /// A row holds a word that this program does not know.
    #[error("unreadable {0}: {1}")]
    Unreadable(&'static str, String),
    /// A row was not in the state it was read in under the lock: a bug, never to be ignored.
    #[error("an {0} was not in the state in which it was read")]
    LostRace(&'static str),
    /// Anything else.
    #[error(transparent)]
    Other(sqlx::Error),
}

/// Every change of state must change exactly the rows it was decided upon.
pub(crate) fn must_change(changed: u64, expected: usize, what: &'static str) -> Result<(), DbError> {
    if usize::try_from(changed) == Ok(expected) { Ok(()) } else { Err(DbError::LostRace(what)) }
}

impl From<sqlx::Error> for DbError {
    fn from(error: sqlx::Error) -> Self {
        match &error {
            sqlx::Error::PoolTimedOut
            | sqlx::Error::PoolClosed
            | sqlx::Error::Io(_)
            | sqlx::Error::WorkerCrashed => Self::Unavailable(error),
            sqlx::Error::RowNotFound => Self::NotFound,
            sqlx::Error::Database(database) => match database.code().as_deref() {
                // serialization_failure, deadlock_detected, lock_not_available
                Some("40001" | "40P01" | "55P03") => Self::Busy(error),
                // query_canceled by its timeout (also when it waited behind others for a lock), admin_shutdown,
                // crash_shutdown, cannot_connect_now, too_many_connections, idle_in_transaction
                Some("57014" | "57P01" | "57P02" | "57P03" | "53300" | "25P03") => Self::Unavailable(error),
                Some(code) if code.starts_with("23") => database
                    .constraint()
                    .map(|name| Self::Constraint(name.to_owned()))
                    .unwrap_or(Self::Other(error)),
                _ => Self::Other(error),
            },
            _ => Self::Other(error),
        }
    }
}

impl DbError {
    /// Whether the whole transaction may simply be run again. An unknown commit may be, because every use case
    /// reads the state under the lock before it writes.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        matches!(self, Self::Busy(_) | Self::CommitUnknown(_))
    }

    /// Whether trying parts of the same work again would only meet the same: the database, not the data, said no.
    #[must_use]
    pub fn concerns_all(&self) -> bool {
        matches!(self, Self::Unavailable(_) | Self::Busy(_) | Self::CommitUnknown(_) | Self::NotFound)
    }

    /// The same error for somebody else who asked with this one.
    #[must_use]
    pub fn again(&self) -> Self {
        let cause = || sqlx::Error::Protocol(self.to_string());
        match self {
            Self::Unavailable(_) => Self::Unavailable(cause()),
            Self::Busy(_) => Self::Busy(cause()),
            Self::CommitUnknown(_) => Self::CommitUnknown(cause()),
            Self::Constraint(name) => Self::Constraint(name.clone()),
            Self::NotFound => Self::NotFound,
            Self::Unreadable(what, text) => Self::Unreadable(what, text.clone()),
            Self::LostRace(what) => Self::LostRace(what),
            Self::Other(_) => Self::Other(cause()),
        }
    }
}

/// How many connections each kind of work may have.
#[derive(Clone, Copy, Debug)]
pub struct PoolSizes {
    /// Pages and the API.
    pub pages: u32,
    /// Passes, messages, the sweeper, imports.
    pub workers: u32,
    /// Sessions, limits and health: small, so that a flood of pages cannot starve sign-in.
    pub sessions: u32,
}

impl Default for PoolSizes {
    fn default() -> Self {
        Self { pages: 16, workers: 6, sessions: 4 }
    }
}

/// Nudges to the workers of this process: a hint that saves them a poll, never the truth.
#[derive(Debug, Default)]
pub struct Hints {
    /// A pass was requested.
    pub pass: Notify,
    /// A message was written.
    pub message: Notify,
    /// An import was started.
    pub import: Notify,
    /// Something was recorded that may go out.
    pub record: Notify,
    /// Something was added to a feed: everybody who waits for that is woken.
    pub fed: Notify,
    /// A booking service is to be asked.
    pub booking: Notify,
    /// What a booking service was asked has an outcome: everybody who waits for one is woken.
    pub settled: Notify,
    /// Something may be sent to a webhook.
    pub webhook: Notify,
    /// An instant that matters may have come nearer.
    pub due: Notify,
}

/// The database. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Db {
    pages: PgPool,
    workers: PgPool,
    sessions: PgPool,
    listener: PgPool,
    clock: Clock,
    entropy: Entropy,
    hints: Arc<Hints>,
    metrics: Arc<Metrics>,
    for_workers: bool,
}

/// A name by which our backends can be told from others in `pg_stat_activity`.
pub const APPLICATION_NAME: &str = "fairlist";

fn pool(options: &PgConnectOptions, max: u32, statement_timeout: &'static str, wait: Duration) -> PgPool {
    let options = options.clone().application_name(APPLICATION_NAME).options([
        ("statement_timeout", statement_timeout),
        ("lock_timeout", "2s"),
        ("idle_in_transaction_session_timeout", "10s"),
        ("timezone", "UTC"),
    ]);
    PgPoolOptions::new()
        .max_connections(max)
        .acquire_timeout(wait)
        .idle_timeout(Duration::from_mins(5))
        // A future dropped while BEGIN is under way hands back a connection inside a transaction that sqlx does
        // not know of; without this, the next borrower's work would silently be part of it. A ROLLBACK alone would have
        // Postgres write a warning to its log each time that there is nothing to roll back, which is always.
        .after_release(|connection, _| {
            Box::pin(async move { connection.execute("START TRANSACTION; ROLLBACK").await.map(|_| true) })
        })
        .connect_lazy_with(options)
}

impl Db {
    /// Pools towards `options`; connects when first needed.
    #[must_use]
    pub fn new(options: &PgConnectOptions, sizes: PoolSizes, clock: Clock) -> Self {
        Self {
            pages: pool(options, sizes.pages, "5s", Duration::from_millis(2_500)),
            workers: pool(options, sizes.workers, "30s", Duration::from_secs(10)),
            sessions: pool(options, sizes.sessions, "5s", Duration::from_millis(2_500)),
            listener: pool(options, 1, "5s", Duration::from_secs(10)),
            clock,
            entropy: Entropy,
            hints: Arc::new(Hints::default()),
            metrics: Arc::new(Metrics::default()),
            for_workers: false,
        }
    }

    /// The same database through the workers' pool.
    #[must_use]
    pub fn for_workers(&self) -> Self {
        Self { for_workers: true, ..self.clone() }
    }

    /// The pool of this handle: the pages', or the workers'.
    pub(crate) fn pool(&self) -> &PgPool {
        if self.for_workers { &self.workers } else { &self.pages }
    }

    /// The pool that a flood of pages cannot exhaust.
    pub(crate) fn sessions(&self) -> &PgPool {
        &self.sessions
    }

    /// The one connection that waits for notifications.
    pub(crate) fn listener(&self) -> &PgPool {
        &self.listener
    }

    /// Nudges to the workers of this process.
    #[must_use]
    pub fn hints(&self) -> &Hints {
        &self.hints
    }

    /// What operators watch of this process.
    #[must_use]
    pub fn metrics(&self) -> &Arc<Metrics> {
        &self.metrics
    }

    /// Where ids and tokens come from.
    #[must_use]
    pub fn entropy(&self) -> Entropy {
        self.entropy
    }

    /// The clock of this installation.
    #[must_use]
    pub fn clock(&self) -> &Clock {
        &self.clock
    }

    /// The instant by which pages are written and work is claimed: the script's, or the database's.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn now(&self) -> Result<DateTime<Utc>, DbError> {
        if let Some(now) = self.clock.script() {
            return Ok(now);
        }
        Ok(sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#).fetch_one(self.pool()).await?)
    }

    /// Closes every connection; what runs is finished first.
    pub async fn close(&self) {
        self.pages.close().await;
        self.workers.close().await;
        self.sessions.close().await;
        self.listener.close().await;
    }
}
