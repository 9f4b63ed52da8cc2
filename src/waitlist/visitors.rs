//! Visitors who are not signed in: they are known by their address, and nothing is done in their name before a code
//! proves it.

use super::{Waitlist, decide};
use crate::db::DbError;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::ids::{EventId, PersonId};

impl Waitlist {
    /// The person with this address at the event's organization, made if there is none. Nobody is told, and nothing is
    /// promised.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such event, or what the database says.
    pub async fn meet(
        &self,
        event: EventId,
        name: &PersonName,
        email: &EmailAddress,
    ) -> Result<PersonId, DbError> {
        decide!(self, event, async |event| {
            let persons = event.persons_with(&[(name.clone(), email.clone())]).await?;
            persons.first().map(|person| person.id).ok_or(DbError::NotFound)
        })
        .await
    }
}
