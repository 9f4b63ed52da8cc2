//! Codes that this visit asked for: kept in its session from the form to the page where the code is entered, with what
//! is to be done once it was right. An address nobody knows is kept just the same, so that no page tells the two apart.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::super::WebState;
use super::super::error::Error;
use super::super::limits::Limit;
use super::Customer;
use crate::db::persons::{CODE_LIFETIME, CODE_TRIES};
use crate::domain::attribute::Wants;
use crate::domain::contact::EmailAddress;
use crate::domain::ids::{CodeId, EventId, OfferId, PersonId};

const ASKED: &str = "asked";

/// A code that was asked for.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Asked {
    /// Its id, or one like it where none was sent.
    pub id: CodeId,
    /// To whom it was sent, if to anybody.
    pub person: Option<PersonId>,
    /// The event it is about.
    pub event: Option<EventId>,
    /// Where it was sent.
    pub email: String,
    /// When.
    pub at: DateTime<Utc>,
    /// Guesses from this visit.
    pub tries: i32,
    /// What for.
    pub purpose: Purpose,
}

/// What is to be done once the code was right.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) enum Purpose {
    /// The entry is confirmed with it.
    Join {
        /// The event's name in addresses.
        slug: String,
        /// The form, for who corrects it.
        form: Typed,
    },
    /// Places are booked.
    Book {
        /// The event's name in addresses.
        slug: String,
        /// The form.
        form: Typed,
        /// How many places.
        party: i32,
        /// Of what kinds.
        #[serde(default)]
        wants: Wants,
        /// Names the act, so that it is done once.
        once: uuid::Uuid,
    },
    /// To the page that was asked for.
    SignIn {
        /// Which.
        next: String,
    },
    /// To the offer.
    Offer {
        /// Which.
        offer: OfferId,
    },
}

/// A form as it was typed.
#[derive(Clone, Debug, Default, Serialize, Deserialize)]
pub(super) struct Typed {
    pub name: String,
    pub email: String,
    pub party: String,
    /// What is wanted of a place, by the names of its fields.
    #[serde(default)]
    pub wants: crate::domain::attribute::Typed,
}

impl Asked {
    /// The address with its middle hidden.
    pub fn masked(&self) -> String {
        EmailAddress::parse(&self.email).map_or_else(|_| "your address".to_owned(), |email| email.masked())
    }

    /// What limits count.
    pub fn contact(&self) -> String {
        EmailAddress::parse(&self.email)
            .map_or_else(|_| self.email.clone(), |email| email.canonical().to_owned())
    }

    /// Whether this visit has used it up. Told by what this visit did alone: a newer code that somebody asked for
    /// elsewhere would tell that the address is known.
    pub fn is_spent(&self, now: DateTime<Utc>) -> bool {
        self.tries >= CODE_TRIES || now >= self.at + CODE_LIFETIME
    }

    /// Counts a wrong guess: the tries left.
    pub fn guessed(&mut self) -> i32 {
        self.tries = (self.tries + 1).min(CODE_TRIES);
        CODE_TRIES - self.tries
    }
}

/// What a code is asked for.
pub(super) struct Question<'a> {
    /// To whom it is sent; nobody where the address is unknown.
    pub person: Option<PersonId>,
    /// The event it is about.
    pub event: Option<EventId>,
    /// The address.
    pub email: &'a EmailAddress,
    /// What for.
    pub purpose: Purpose,
}

impl Customer {
    /// Sends a code, or does as if, and remembers what for. Its page is `/code/{id}`.
    pub(super) async fn ask(&self, state: &WebState, question: Question<'_>) -> Result<CodeId, Error> {
        state.count(Limit::Code, question.email.canonical()).await?;
        let id = match question.person {
            Some(person) => state.waitlist().send_code(person, question.event).await?,
            None => CodeId(state.db.entropy().id()),
        };
        let mut all = self.all_asked().await?;
        // Only the newest code of an address works.
        all.retain(|asked| asked.contact() != question.email.canonical());
        all.push(Asked {
            id,
            person: question.person,
            event: question.event,
            email: question.email.value().to_owned(),
            at: self.now,
            tries: 0,
            purpose: question.purpose,
        });
        // Nobody has more forms open; a session stays small.
        let from = all.len().saturating_sub(5);
        self.session.insert(ASKED, &all[from..]).await?;
        Ok(id)
    }

    async fn all_asked(&self) -> Result<Vec<Asked>, Error> {
        Ok(self.session.get(ASKED).await?.unwrap_or_default())
    }

    /// What this visit asked that code for.
    pub(super) async fn asked(&self, id: CodeId) -> Result<Option<Asked>, Error> {
        Ok(self.all_asked().await?.into_iter().find(|asked| asked.id == id))
    }

    /// Keeps a changed one.
    pub(super) async fn keep(&self, changed: &Asked) -> Result<(), Error> {
        let mut all = self.all_asked().await?;
        if let Some(asked) = all.iter_mut().find(|asked| asked.id == changed.id) {
            *asked = changed.clone();
        }
        self.session.insert(ASKED, &all).await?;
        Ok(())
    }

    /// The code is done with.
    pub(super) async fn forget(&self, id: CodeId) -> Result<(), Error> {
        let mut all = self.all_asked().await?;
        all.retain(|asked| asked.id != id);
        self.session.insert(ASKED, &all).await?;
        Ok(())
    }
}
