//! The event lock: a transaction whose first statement locked one event row.
//!
//! Lock law: the event row first, `FOR NO KEY UPDATE`, then children; one event lock at a time; never a network
//! call under it. Nothing outside this file can make a [`LockedEvent`], and every write of an event's data is a
//! method of one, so the law cannot be broken by forgetting it:
//!
//! ```compile_fail,E0616
//! async fn wrong(db: fairlist::db::Db) {
//!     let _ = db.pages.begin().await; // the pools are private
//! }
//! ```
//!
//! ```
//! async fn right(db: fairlist::db::Db, id: fairlist::domain::ids::EventId) -> Result<(), fairlist::db::DbError> {
//!     db.with_event(id, async |event| {
//!         let _ = event.now();
//!         Ok(())
//!     })
//!     .await
//! }
//! ```
//!
//! Nor can one be made without the lock, or its transaction be used beside its methods:
//!
//! ```compile_fail,E0451
//! fn wrong(event: fairlist::db::LockedEvent, now: chrono::DateTime<chrono::Utc>) {
//!     let _ = fairlist::db::LockedEvent { now, ..event }; // its fields are private
//! }
//! ```
//!
//! ```compile_fail,E0624
//! async fn wrong(event: &mut fairlist::db::LockedEvent) {
//!     let _ = event.connection(); // private to `db`
//! }
//! ```
//!
//! ```
//! async fn right(event: &mut fairlist::db::LockedEvent) {
//!     let _ = event.id();
//! }
//! ```
//!
//! (On stable the error codes are not looked at; `tests/run` has rustdoc look.)

use std::cell::Cell;
use std::future::Future;

use chrono::{DateTime, Duration, Utc};
use sqlx::{PgConnection, Postgres, Transaction};
use tokio::time::Instant;

use super::{Db, DbError};
use crate::clock::Entropy;
use crate::db::messages::Draft;
use crate::domain::audit::{Act, Record, Subject};
use crate::domain::event::Event;
use crate::domain::ids::{EventId, OrganizationId};
use crate::failpoint;

tokio::task_local! {
    /// Set while this task holds an event's lock: a second one would hang where Postgres cannot see it.
    static HOLDS_EVENT: Cell<bool>;
}

#[cfg(feature = "testing")]
tokio::task_local! {
    static LOCK_IS_OFF: ();
}

/// Runs `work` with the event's lock switched off: the control of a race's test, which must show a wrong outcome or a
/// constraint's error. Builds without the feature `testing` have no such thing.
#[cfg(feature = "testing")]
pub async fn without_lock<T>(work: impl Future<Output = T>) -> T {
    LOCK_IS_OFF.scope((), work).await
}

#[cfg(feature = "testing")]
pub(super) fn lock_is_off() -> bool {
    LOCK_IS_OFF.try_with(|()| ()).is_ok()
}

/// A transaction whose first statement locked one event row. Nothing outside this file can make one.
pub struct LockedEvent {
    tx: Transaction<'static, Postgres>,
    event: Event,
    now: DateTime<Utc>,
    entropy: Entropy,
    records: Vec<Record>,
    drafts: Vec<Draft>,
    pass_wanted: bool,
    only_if_recorded: bool,
}

impl Db {
    /// Locks the event row, runs `work`, writes what it recorded, and commits if it succeeds; an error or a panic
    /// rolls back.
    ///
    /// # Errors
    /// `work`'s own, [`DbError::NotFound`] when there is no such event, or what the database says.
    ///
    /// # Panics
    /// When this task holds an event's lock already: a bug that would otherwise hang where Postgres cannot see it.
    pub async fn with_event<T, E: From<DbError>>(
        &self,
        id: EventId,
        work: impl AsyncFnOnce(&mut LockedEvent) -> Result<T, E>,
    ) -> Result<T, E> {
        let nested = HOLDS_EVENT.try_with(Cell::get).unwrap_or(false);
        assert!(!nested, "a task holds one event lock at a time");
        HOLDS_EVENT.scope(Cell::new(true), self.with_event_inner(id, work)).await
    }

    #[tracing::instrument(name = "event lock", skip_all, fields(event = %id))]
    async fn with_event_inner<T, E: From<DbError>>(
        &self,
        id: EventId,
        work: impl AsyncFnOnce(&mut LockedEvent) -> Result<T, E>,
    ) -> Result<T, E> {
        let pool = if self.for_workers { "workers" } else { "pages" };
        let asked = Instant::now();
        let begun = self.pool().begin().await;
        self.metrics().connected(pool, asked.elapsed());
        let mut tx = begun.map_err(DbError::from)?;
        let begun = Instant::now();
        let event = super::events::lock(&mut tx, id).await;
        self.metrics().locked(begun.elapsed());
        let event = event?;
        // The clock is read by the statement after the lock: a click that waited for it is judged by when it was
        // granted, and so is a deadline that passed meanwhile.
        let now = match self.clock().script() {
            Some(now) => now,
            None => sqlx::query_scalar!(r#"SELECT clock_timestamp() AS "now!""#)
                .fetch_one(&mut *tx)
                .await
                .map_err(DbError::from)?,
        };
        let mut locked = LockedEvent {
            tx,
            event,
            now,
            entropy: self.entropy(),
            records: Vec::new(),
            drafts: Vec::new(),
            pass_wanted: false,
            only_if_recorded: false,
        };
        let result = work(&mut locked).await?;
        let LockedEvent { mut tx, records, drafts, pass_wanted, only_if_recorded, event, now, entropy } =
            locked;
        if only_if_recorded && records.is_empty() && drafts.is_empty() && !pass_wanted {
            return Ok(result);
        }
        if let Err(error) = super::audit::append(&mut tx, event.id, &records, entropy).await {
            self.metrics().audit_failed("written");
            return Err(error.into());
        }
        super::messages::write(&mut tx, event.id, event.organization, &drafts, now, entropy).await?;
        if pass_wanted {
            super::passes::request(&mut tx, event.id, now).await?;
        }
        failpoint::reach("commit.before");
        tx.commit().await.map_err(commit_error)?;
        failpoint::reach("commit.after");
        if pass_wanted {
            self.hints().pass.notify_one();
        }
        if !drafts.is_empty() {
            self.hints().message.notify_one();
        }
        for record in &records {
            match record.subject {
                Subject::Offer(_) => self.metrics().offer(record.act.as_str()),
                _ if record.act == Act::Complained => self.metrics().complained(record.reason.as_str()),
                _ => {}
            }
        }
        if !records.is_empty() {
            self.hints().record.notify_one();
        }
        self.hints().due.notify_one();
        Ok(result)
    }
}

/// An answer from the server says that it did not commit; without one, nobody knows.
fn commit_error(error: sqlx::Error) -> DbError {
    match error {
        sqlx::Error::Database(_) => DbError::from(error),
        other => DbError::CommitUnknown(other),
    }
}

impl LockedEvent {
    /// The event as it was when it was locked; kept up to date by its setters.
    #[must_use]
    pub fn event(&self) -> &Event {
        &self.event
    }

    pub(super) fn event_mut(&mut self) -> &mut Event {
        &mut self.event
    }

    /// The event's id.
    #[must_use]
    pub fn id(&self) -> EventId {
        self.event.id
    }

    /// Who runs it.
    #[must_use]
    pub fn organization(&self) -> OrganizationId {
        self.event.organization
    }

    /// The instant by which everything in this transaction is decided.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// Where ids come from.
    #[must_use]
    pub fn entropy(&self) -> Entropy {
        self.entropy
    }

    /// Adds to what this transaction appends to the audit.
    pub fn record(&mut self, record: Record) {
        self.records.push(record);
    }

    /// Adds to what this transaction tells people.
    pub fn tell(&mut self, draft: Draft) {
        self.drafts.push(draft);
    }

    /// Asks for a pass: whatever may free a place or make somebody eligible does.
    pub fn want_pass(&mut self) {
        self.pass_wanted = true;
    }

    /// Nothing was changed so far: unless something is recorded, told or asked for after this, the transaction ends
    /// without writing.
    pub fn nothing_to_write(&mut self) {
        self.only_if_recorded = true;
    }

    pub(super) fn connection(&mut self) -> &mut PgConnection {
        &mut self.tx
    }
}

/// Runs a whole transaction again when Postgres asks for it or a lock was not granted: three times, after
/// 20–200 ms.
///
/// # Errors
/// What the last try ended with.
pub async fn retry<T, E, F>(entropy: Entropy, run: impl Fn() -> F) -> Result<T, E>
where
    F: Future<Output = Result<T, E>>,
    E: Transient,
{
    for _ in 0..3 {
        match run().await {
            Err(error) if error.is_transient() => {
                let jitter = 20 + i64::from(entropy.bytes()[0]) * 180 / 255;
                tokio::time::sleep(Duration::milliseconds(jitter).to_std().unwrap_or_default()).await;
            }
            result => return result,
        }
    }
    run().await
}

/// Errors that may tell whether trying again can help.
pub trait Transient {
    /// Whether the whole transaction may be run again.
    fn is_transient(&self) -> bool;
}

impl Transient for DbError {
    fn is_transient(&self) -> bool {
        Self::is_transient(self)
    }
}
