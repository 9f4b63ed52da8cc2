//! Where time and randomness come from, so that tests can script both.
//!
//! Decisions use the database's clock, read by the statement after the event's lock was granted; this module
//! only says whether to ask the database or a script. Everything else in the program takes `now` as an argument.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use chrono::{DateTime, SubsecRound, Utc};
use uuid::Uuid;

/// The source of "now". Cheap to clone; clones of a scripted clock move together.
#[derive(Clone, Debug, Default)]
pub struct Clock(Option<Arc<AtomicI64>>);

impl Clock {
    /// Ask the database: every process of an installation then agrees, whatever its own clock says.
    #[must_use]
    pub fn database() -> Self {
        Self(None)
    }

    /// A clock that stands still at `start` until it is moved.
    #[must_use]
    pub fn scripted(start: DateTime<Utc>) -> Self {
        Self(Some(Arc::new(AtomicI64::new(start.timestamp_micros()))))
    }

    /// The scripted instant, or `None` when the database is to be asked.
    #[must_use]
    pub fn script(&self) -> Option<DateTime<Utc>> {
        let micros = self.0.as_ref()?.load(Ordering::SeqCst);
        DateTime::from_timestamp_micros(micros)
    }

    /// Moves a scripted clock; the database's cannot be moved.
    pub fn set(&self, instant: DateTime<Utc>) {
        if let Some(script) = &self.0 {
            script.store(instant.timestamp_micros(), Ordering::SeqCst);
        }
    }

    /// The scripted instant, or this machine's own clock to the microsecond. Only for what decides nothing
    /// about places: log lines, sleeping until a deadline, the age of a lock file.
    #[must_use]
    pub fn local(&self) -> DateTime<Utc> {
        #[expect(clippy::disallowed_methods, reason = "the one place that reads the system's clock")]
        self.script().unwrap_or_else(|| Utc::now().trunc_subsecs(6))
    }
}

/// Randomness from the operating system.
#[derive(Clone, Copy, Debug, Default)]
pub struct Entropy;

impl Entropy {
    /// A new time-ordered id.
    #[must_use]
    pub fn id(self) -> Uuid {
        #[expect(clippy::disallowed_methods, reason = "the one place that makes ids")]
        Uuid::now_v7()
    }

    /// 32 bytes that nobody can guess.
    #[must_use]
    pub fn bytes(self) -> [u8; 32] {
        #[expect(clippy::disallowed_methods, reason = "the one place that draws random bytes")]
        rand::random()
    }
}
