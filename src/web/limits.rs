//! What may be done how often. Counted in the database, so that every process counts together; the subject is
//! hashed, so that no address is stored.

use std::fmt::Display;

use chrono::Duration;
use sha2::{Digest, Sha256};

use super::WebState;
use super::error::Error;
use crate::db::limits::{Hit, Window};

/// How often is often enough, where it is settable.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Joins an hour and address. A school shares one; a demonstration is generous.
    pub joins: i32,
    /// Writes to the API a minute and caller.
    pub writes: i32,
}

impl Default for Limits {
    fn default() -> Self {
        Self { joins: 5, writes: 100 }
    }
}

/// What is limited.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Limit {
    /// Signing in, by account.
    SignInAccount,
    /// Signing in, by address.
    SignInAddress,
    /// Looking up a one-time link or an offer's token, by address: guessing is hopeless, and slow.
    Token,
    /// Joining a list, by address.
    Join,
    /// Asking for a code, by contact.
    Code,
    /// Asking for codes, by address.
    CodeAddress,
    /// Trying a code, by contact; each code has its own five tries besides.
    CodeTry,
    /// Accepting, by offer.
    Accept,
    /// Taking a draw along, by address: the pool of a long list is a large file.
    DrawFile,
    /// Writing to the API, by caller.
    Writes,
}

impl Limit {
    /// A word for whoever counts refusals.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::SignInAccount => "sign_in_account",
            Self::SignInAddress => "sign_in_address",
            Self::Token => "token",
            Self::Join => "join",
            Self::Code => "code",
            Self::CodeAddress => "code_address",
            Self::CodeTry => "code_try",
            Self::Accept => "accept",
            Self::DrawFile => "draw_file",
            Self::Writes => "writes",
        }
    }

    fn window_and_most(self, limits: Limits) -> (Duration, i32) {
        match self {
            Self::SignInAccount => (Duration::minutes(1), 5),
            Self::SignInAddress | Self::DrawFile => (Duration::minutes(1), 20),
            Self::Token => (Duration::minutes(1), 60),
            Self::Join => (Duration::hours(1), limits.joins),
            Self::Code => (Duration::minutes(10), 5),
            Self::CodeAddress => (Duration::hours(1), limits.joins.saturating_mul(6)),
            Self::CodeTry => (Duration::minutes(10), 15),
            Self::Accept => (Duration::minutes(1), 10),
            Self::Writes => (Duration::minutes(1), limits.writes),
        }
    }
}

impl WebState {
    /// Counts one more of `limit` for `subject`.
    ///
    /// # Errors
    /// [`Error::TooMany`] with the seconds until it may be tried again.
    pub async fn count(&self, limit: Limit, subject: impl Display) -> Result<(), Error> {
        let (window, most) = limit.window_and_most(self.settings.limits);
        match self.db.hit(subject_hash(limit, subject), window, most).await? {
            Hit::Allowed => Ok(()),
            Hit::Refused { seconds } => {
                tracing::info!(?limit, "refused: too often");
                self.db.metrics().refused(limit.as_str());
                Err(Error::TooMany { retry_after: seconds })
            }
        }
    }

    /// Counts one more of `limit` for `subject`, and says how many it were in this window.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn window(&self, limit: Limit, subject: impl Display) -> Result<Window, Error> {
        let (window, _) = limit.window_and_most(self.settings.limits);
        Ok(self.db.count_hit(subject_hash(limit, subject), window).await?)
    }
}

fn subject_hash(limit: Limit, subject: impl Display) -> [u8; 32] {
    Sha256::digest(format!("{limit:?} {subject}")).into()
}
