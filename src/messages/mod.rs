//! Telling people: the worker that empties the outbox, the two channels, and what each mail says.
//!
//! [`Mailer::tick`] claims messages, [`letter`] decides whether they are still true and writes them, [`smtp`] hands
//! them over or the mailbox page keeps them, and the outcome is noted under the lease. Mail is at-least-once: a
//! duplicate carries the same Message-ID.

pub mod letter;
pub mod links;
mod render;
pub mod smtp;
mod worker;

use std::time::Duration;

use lettre::message::Mailbox;
use url::Url;

pub use letter::{Key, Letter, Show};
pub use links::Links;
pub use worker::{Mailer, Outcome};

use crate::domain::secret::Secret;

/// What sending needs to know; the same for every process that shares a database.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Where the program is reached from outside: every link begins with it.
    pub base_url: Url,
    /// What tokens and codes are derived from.
    pub secret: Secret,
    /// The mail server; without one, the mailbox page keeps what would be sent.
    pub smtp: Option<Relay>,
    /// For one send as a whole, from connecting to the server's yes.
    pub send_timeout: Duration,
    /// How long a send may go on after the program was asked to stop.
    pub stop_timeout: Duration,
}

impl Settings {
    /// For one send as a whole. Shorter than the lease, so that a slow server never costs it.
    pub const SEND_TIMEOUT: Duration = Duration::from_secs(30);

    /// Leaves time to note the outcome within the 20 seconds that stopping may take.
    pub const STOP_TIMEOUT: Duration = Duration::from_secs(12);

    /// Settings with the usual timeouts.
    #[must_use]
    pub fn new(base_url: Url, secret: Secret, smtp: Option<Relay>) -> Self {
        Self { base_url, secret, smtp, send_timeout: Self::SEND_TIMEOUT, stop_timeout: Self::STOP_TIMEOUT }
    }

    /// The addresses of pages.
    #[must_use]
    pub fn links(&self) -> Links<'_> {
        Links::new(&self.base_url)
    }
}

/// The mail server, and whom mail comes from.
#[derive(Clone, Debug)]
pub struct Relay {
    /// Where mail is handed over.
    pub server: smtp::Server,
    /// The sender. Its name stands where an organization has none.
    pub from: Mailbox,
}

impl Relay {
    /// The sender's address under an organization's name.
    fn sender_for(&self, name: &str) -> Mailbox {
        let name = letter::one_line(name);
        let name = if name.is_empty() { self.from.name.clone() } else { Some(name) };
        Mailbox::new(name, self.from.email.clone())
    }
}
