//! The use cases, a function per act. Each decides under the event's lock by pure code from `domain`, writes sets
//! through `LockedEvent`, and answers with an outcome: an expected refusal is not an error.

use crate::db::{Db, DbError, LockedEvent, locked_event};
use crate::domain::ids::EventId;
use crate::domain::secret::Secret;

pub mod answer;
pub mod bookings;
pub mod contacts;
mod ending;
pub mod events;
pub mod import;
pub mod join;
pub mod leave;
pub mod lists;
pub mod on_behalf;
pub mod pass;
pub mod places;
pub mod staff_offers;

/// The waitlist: the database and the secret from which tokens and codes are derived. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Waitlist {
    db: Db,
    secret: Secret,
}

impl Waitlist {
    /// A waitlist on this database.
    #[must_use]
    pub fn new(db: Db, secret: Secret) -> Self {
        Self { db, secret }
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
        Self { db: self.db.for_workers(), secret: self.secret.clone() }
    }

    /// Decides under the event's lock, trying again when the lock was not granted or the commit's fate is unknown:
    /// every use case reads the state before it writes, so that a second run tells what the first did.
    async fn decide<T>(
        &self,
        event: EventId,
        work: impl AsyncFn(&mut LockedEvent) -> Result<T, DbError>,
    ) -> Result<T, DbError> {
        let work = &work;
        locked_event::retry(self.db.entropy(), || {
            self.db.with_event(event, async |locked| work(locked).await)
        })
        .await
    }
}
