//! Where an event's places are booked: the ledger here, or a service.

use super::{Waitlist, decide};
use crate::db::DbError;
use crate::db::booking_attempts::OutsideCounts;
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::EventId;
use crate::domain::outside::ServiceUrl;
use crate::domain::reason::Reason;

/// Where an event's places are to be booked.
#[derive(Clone)]
pub enum BookAt {
    /// The ledger in this database.
    Here,
    /// A service.
    Service {
        /// Where it answers.
        url: ServiceUrl,
        /// What it is shown; without one, the key that it has already, as long as the address stays.
        key: Option<String>,
    },
}

/// What came of saying so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BookAtOutcome {
    /// As asked.
    Saved,
    /// A service needs a key.
    KeyMissing,
    /// The service is being asked about so many, and what it says has to come home first.
    Unresolved(i64),
    /// The service has so many confirmed bookings: only it can give them back.
    HasBookings(i64),
}

impl Waitlist {
    /// Says where an event's places are booked from now on. Only the key can be changed while the service is being asked
    /// about something, and as long as it has bookings the event stays with it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_booking(
        &self,
        event: EventId,
        to: &BookAt,
        actor: Actor,
    ) -> Result<BookAtOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            let now_at = event.service_url().await?;
            let OutsideCounts { unresolved, booked } = event.outside_counts().await?;
            let moves = match to {
                BookAt::Here => now_at.is_some(),
                BookAt::Service { url, .. } => now_at.as_ref().is_some_and(|known| known != url),
            };
            if moves && unresolved > 0 {
                return Ok(BookAtOutcome::Unresolved(unresolved));
            }
            match to {
                // Who gives places back where they were never booked promises them twice.
                _ if moves && booked > 0 => return Ok(BookAtOutcome::HasBookings(booked)),
                BookAt::Here => event.remove_booking_service().await?,
                // A key is for the address with which it was given: nobody else is shown it.
                BookAt::Service { key: None, .. } if now_at.is_none() || moves => {
                    return Ok(BookAtOutcome::KeyMissing);
                }
                BookAt::Service { url, key } => {
                    let mut nonce = [0; 12];
                    nonce.copy_from_slice(&event.entropy().bytes()[..12]);
                    let seal = |key: &String| self.secret.seal_booking_key(event.id(), nonce, key);
                    let sealed = key.as_ref().and_then(seal);
                    event.set_booking_service(url, sealed.as_deref(), actor.staff()).await?;
                }
            }
            let subject = Subject::Event(event.id());
            event.record(Record::new(event.now(), actor, Act::Changed, subject, Reason::SetUp));
            event.want_pass();
            Ok(BookAtOutcome::Saved)
        })
        .await
    }
}
