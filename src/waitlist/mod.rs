//! The use cases, a function per act. Each decides under the event's lock by pure code from `domain`, writes sets
//! through `LockedEvent`, and answers with an outcome: an expected refusal is not an error.

use crate::booking::Services;
use crate::db::Db;
use crate::domain::secret::Secret;

pub mod answer;
pub mod attributes;
pub mod bands;
pub mod booking_settings;
pub mod bookings;
pub mod calls;
pub mod capacity;
pub mod complaints;
pub mod contacts;
pub mod demonstration;
pub mod draws;
mod ending;
pub mod events;
pub mod import;
pub mod join;
pub mod keys;
pub mod leave;
pub mod lists;
pub mod on_behalf;
pub mod outside;
mod outside_settled;
pub mod pass;
pub mod places;
pub mod placing;
pub mod reconcile;
pub mod replay;
pub mod staff_offers;
pub mod telling;
pub mod together;
pub mod uploads;
pub mod visitors;

/// The waitlist: the database, the secret from which tokens and codes are derived, and the way to booking services. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waitlist {
    db: Db,
    secret: Secret,
    services: Services,
}

impl Waitlist {
    /// A waitlist on this database.
    #[must_use]
    pub fn new(db: Db, secret: Secret) -> Self {
        Self { db, secret, services: Services::default() }
    }

    /// The same with another patience towards booking services.
    #[must_use]
    pub fn with_services(self, services: Services) -> Self {
        Self { services, ..self }
    }

    /// The database, for what pages read.
    #[must_use]
    pub fn db(&self) -> &Db {
        &self.db
    }

    /// The secret, for rendering what is sent.
    #[must_use]
    pub fn secret(&self) -> &Secret {
        &self.secret
    }

    /// The same through the workers' connections.
    #[must_use]
    pub fn for_workers(&self) -> Self {
        Self { db: self.db.for_workers(), ..self.clone() }
    }
}

/// Decides under the event's lock, trying again when the lock was not granted or the commit's fate is unknown: every
/// use case reads the state before it writes, so that a second run tells what the first did. A macro, because a
/// function that takes the work as an `AsyncFn` with borrowed captures would have a future that is not `Send`.
macro_rules! decide {
    ($waitlist:expr, $event:expr, $work:expr $(,)?) => {
        $crate::db::locked_event::retry::<_, $crate::db::DbError, _>($waitlist.db.entropy(), || {
            $waitlist.db.with_event($event, $work)
        })
    };
}
use decide;

/// The same for an act that would do more each time: what it came to is remembered with it, and a repetition under the
/// same key of the caller's is told that instead.
macro_rules! decide_once {
    ($waitlist:expr, $id:expr, async |$event:ident| $body:expr $(,)?) => {
        $crate::db::locked_event::retry::<_, $crate::db::DbError, _>($waitlist.db.entropy(), || {
            $waitlist.db.with_event($id, async |$event| {
                if let Some(outcome) = $event.done_before().await? {
                    $event.nothing_to_write();
                    return Ok(outcome);
                }
                let outcome: Result<_, $crate::db::DbError> = async { $body }.await;
                let outcome = outcome?;
                $event.remember(&outcome).await?;
                Ok(outcome)
            })
        })
    };
}
use decide_once;
