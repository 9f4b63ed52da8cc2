//! People and their contacts. They belong to an organization, not to an event.

use uuid::Uuid;

use super::{Db, DbError, LockedEvent};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::ids::{CodeId, ContactId, EventId, OrganizationId, PersonId};

/// Who somebody is, with the address they are written to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Person {
    /// Their id.
    pub id: PersonId,
    /// Whose customer they are.
    pub organization: OrganizationId,
    /// What they want to be called.
    pub name: String,
    /// Their email contact.
    pub contact: ContactId,
    /// The address as they wrote it.
    pub email: String,
    /// Whether a code sent there was entered.
    pub confirmed: bool,
    /// Whether what is sent there comes back.
    pub failing: bool,
}

/// A code that was sent, and what it is for.
#[derive(Clone, Debug)]
pub struct Code {
    /// Its id, from which its digits are derived.
    pub id: CodeId,
    /// The person whose contact it confirms.
    pub person: PersonId,
    /// Where it was sent.
    pub email: String,
    /// The event whose list is joined, where that is why.
    pub event: Option<EventId>,
    /// How often somebody guessed.
    pub tries: i32,
    /// From when on it is worth nothing.
    pub expires_at: chrono::DateTime<chrono::Utc>,
    /// Whether it was used.
    pub used: bool,
}

impl LockedEvent {
    /// The persons with these addresses in the event's organization, in the same order, made where there are none.
    /// Identity is the canonical address; a name on file is kept, for whoever types an address has not shown that
    /// it is theirs.
    ///
    /// # Errors
    /// What the database says.
    pub async fn persons_with(&mut self, who: &[(PersonName, EmailAddress)]) -> Result<Vec<Person>, DbError> {
        let (organization, now) = (self.organization(), self.now());
        let canonical: Vec<String> = who.iter().map(|(_, email)| email.canonical().to_owned()).collect();
        let values: Vec<String> = who.iter().map(|(_, email)| email.value().to_owned()).collect();
        let names: Vec<String> = who.iter().map(|(name, _)| name.as_str().to_owned()).collect();
        let persons: Vec<Uuid> = who.iter().map(|_| self.entropy().id()).collect();
        let contacts: Vec<Uuid> = who.iter().map(|_| self.entropy().id()).collect();
        // Two events of one organization may meet the same new address at once: the contact's key makes the second
        // wait for the first to commit, and the row is then found below.
        sqlx::query!(
            r#"WITH wanted AS (
                   SELECT DISTINCT ON (canonical) * FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::text[], $7::text[])
                       AS w(person, contact, name, value, canonical)
                   WHERE NOT EXISTS (SELECT FROM contacts c WHERE c.organization_id = $1 AND c.kind = 'email'
                                       AND c.canonical = w.canonical)),
               added AS (
                   INSERT INTO persons (id, organization_id, name, created_at)
                   SELECT person, $1, name, $2 FROM wanted RETURNING id)
               INSERT INTO contacts (id, organization_id, person_id, kind, value, canonical, created_at)
               SELECT contact, $1, added.id, 'email', value, canonical, $2 FROM added JOIN wanted ON wanted.person = added.id
               ORDER BY canonical
               ON CONFLICT (organization_id, canonical) WHERE kind = 'email' DO NOTHING"#,
            organization.0,
            now,
            &persons,
            &contacts,
            &names,
            &values,
            &canonical,
        )
        .execute(self.connection())
        .await?;
        let rows = sqlx::query!(
            r#"SELECT p.id, p.name, c.id AS contact_id, c.value, c.canonical, c.confirmed_at, c.failing_since
               FROM contacts c JOIN persons p ON p.id = c.person_id
               WHERE c.organization_id = $1 AND c.kind = 'email' AND c.canonical = ANY($2)"#,
            organization.0,
            &canonical
        )
        .fetch_all(self.connection())
        .await?;
        canonical
            .iter()
            .map(|canonical| {
                let row = rows.iter().find(|row| row.canonical == *canonical).ok_or(DbError::NotFound)?;
                Ok(Person {
                    id: PersonId(row.id),
                    organization,
                    name: row.name.clone(),
                    contact: ContactId(row.contact_id),
                    email: row.value.clone(),
                    confirmed: row.confirmed_at.is_some(),
                    failing: row.failing_since.is_some(),
                })
            })
            .collect()
    }
}

impl Db {
    /// Somebody, with the address they are written to.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is nobody with this id.
    pub async fn person(&self, id: PersonId) -> Result<Person, DbError> {
        let row = sqlx::query!(
            r#"SELECT p.id, p.organization_id, p.name, c.id AS contact_id, c.value, c.confirmed_at, c.failing_since
               FROM persons p JOIN contacts c ON c.person_id = p.id AND c.kind = 'email'
               WHERE p.id = $1 ORDER BY c.created_at LIMIT 1"#,
            id.0
        )
        .fetch_one(self.pool())
        .await?;
        Ok(Person {
            id: PersonId(row.id),
            organization: OrganizationId(row.organization_id),
            name: row.name,
            contact: ContactId(row.contact_id),
            email: row.value,
            confirmed: row.confirmed_at.is_some(),
            failing: row.failing_since.is_some(),
        })
    }

    /// The person with this address in an organization.
    ///
    /// # Errors
    /// What the database says.
    pub async fn person_by_email(
        &self,
        organization: OrganizationId,
        email: &EmailAddress,
    ) -> Result<Option<PersonId>, DbError> {
        Ok(sqlx::query_scalar!(
            "SELECT person_id FROM contacts WHERE organization_id = $1 AND kind = 'email' AND canonical = $2",
            organization.0,
            email.canonical()
        )
        .fetch_optional(self.pool())
        .await?
        .map(PersonId))
    }

    /// Everybody with this address, across organizations: who may be signing in.
    ///
    /// # Errors
    /// What the database says.
    pub async fn persons_with_email(&self, email: &EmailAddress) -> Result<Vec<Person>, DbError> {
        let ids = sqlx::query_scalar!(
            "SELECT person_id FROM contacts WHERE kind = 'email' AND canonical = $1 ORDER BY created_at LIMIT 50",
            email.canonical()
        )
        .fetch_all(self.pool())
        .await?;
        let mut persons = Vec::with_capacity(ids.len());
        for id in ids {
            // One per organization that knows the address: a handful.
            persons.push(self.person(PersonId(id)).await?);
        }
        Ok(persons)
    }

    /// Makes a code for a contact and the message that carries it, in one transaction; older codes of the contact
    /// stop working. `subject` of the message is the code.
    ///
    /// # Errors
    /// What the database says.
    pub async fn make_code(&self, person: &Person, event: Option<EventId>) -> Result<CodeId, DbError> {
        let now = self.now().await?;
        let (id, message) = (self.entropy().id(), self.entropy().id());
        let mut tx = self.pool().begin().await?;
        sqlx::query!(
            "UPDATE codes SET expires_at = $2 WHERE contact_id = $1 AND used_at IS NULL AND expires_at > $2",
            person.contact.0,
            now
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "INSERT INTO codes (id, organization_id, contact_id, event_id, created_at, expires_at)
             VALUES ($1, $2, $3, $4, $5, $6)",
            id,
            person.organization.0,
            person.contact.0,
            event.map(|event| event.0),
            now,
            now + CODE_LIFETIME
        )
        .execute(&mut *tx)
        .await?;
        sqlx::query!(
            "INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, state, made_at,
                                   next_attempt_at)
             VALUES ($1, $2, $3, $4, 'code', $5, 'queued', $6, $6)",
            event.map_or(Uuid::nil(), |event| event.0),
            message,
            person.organization.0,
            person.id.0,
            id,
            now
        )
        .execute(&mut *tx)
        .await?;
        tx.commit().await?;
        self.hints().message.notify_one();
        Ok(CodeId(id))
    }

    /// A code that was sent.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none with this id.
    pub async fn code(&self, id: CodeId) -> Result<Code, DbError> {
        let row = sqlx::query!(
            r#"SELECT k.id, c.person_id, c.value, k.event_id, k.tries, k.expires_at, k.used_at
               FROM codes k JOIN contacts c ON c.id = k.contact_id WHERE k.id = $1"#,
            id.0
        )
        .fetch_one(self.pool())
        .await?;
        Ok(Code {
            id: CodeId(row.id),
            person: PersonId(row.person_id),
            email: row.value,
            event: row.event_id.map(EventId),
            tries: row.tries,
            expires_at: row.expires_at,
            used: row.used_at.is_some(),
        })
    }

    /// Counts a guess before it is compared, so that guessing in parallel gains nothing: `false` when there were
    /// five already, or the code is used or too old.
    ///
    /// # Errors
    /// What the database says.
    pub async fn try_code(&self, id: CodeId) -> Result<bool, DbError> {
        let now = self.now().await?;
        Ok(sqlx::query!(
            "UPDATE codes SET tries = tries + 1 WHERE id = $1 AND tries < $3 AND used_at IS NULL AND expires_at > $2",
            id.0,
            now,
            CODE_TRIES
        )
        .execute(self.pool())
        .await?
        .rows_affected()
            == 1)
    }

    /// The right digits were entered: the code is used up and its contact confirmed. `false` when somebody used it
    /// meanwhile.
    ///
    /// # Errors
    /// What the database says.
    pub async fn use_code(&self, id: CodeId) -> Result<bool, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        let contact = sqlx::query_scalar!(
            "UPDATE codes SET used_at = $2 WHERE id = $1 AND used_at IS NULL RETURNING contact_id",
            id.0,
            now
        )
        .fetch_optional(&mut *tx)
        .await?;
        if let Some(contact) = contact {
            sqlx::query!(
                "UPDATE contacts SET confirmed_at = coalesce(confirmed_at, $2), failing_since = NULL, failure = NULL
                 WHERE id = $1",
                contact,
                now
            )
            .execute(&mut *tx)
            .await?;
        }
        tx.commit().await?;
        Ok(contact.is_some())
    }
}

/// How long a code can be entered.
pub const CODE_LIFETIME: chrono::Duration = chrono::Duration::minutes(10);

/// How often somebody may guess.
pub const CODE_TRIES: i32 = 5;
