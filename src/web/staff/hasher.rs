//! Password hashing, few at a time: each takes 19 MiB and a core for tens of milliseconds, and a hundred
//! sign-ins at once must not take two gigabytes.

use std::sync::{Arc, LazyLock};

use tokio::sync::Semaphore;

use super::super::error::Error;
use crate::clock::Entropy;
use crate::domain::password::{self, NewPassword};

/// How many are hashed at once; the others wait their turn.
const AT_ONCE: usize = 3;

/// Hashes passwords on threads of their own. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Hasher(Arc<Semaphore>);

impl Default for Hasher {
    fn default() -> Self {
        Self(Arc::new(Semaphore::new(AT_ONCE)))
    }
}

/// What an unknown user's password is compared with, so that the answer takes as long.
static NOBODY: LazyLock<String> = LazyLock::new(|| {
    let bytes = Entropy.bytes();
    let mut salt = [0; 16];
    salt.copy_from_slice(&bytes[..16]);
    NewPassword::parse(&hex::encode(bytes), &[])
        .ok()
        .and_then(|password| password.hash(salt))
        .unwrap_or_default()
});

impl Hasher {
    async fn run<T: Send + 'static>(&self, work: impl FnOnce() -> T + Send + 'static) -> Result<T, Error> {
        let turn = Arc::clone(&self.0).acquire_owned().await.map_err(Error::internal)?;
        tokio::task::spawn_blocking(move || {
            let done = work();
            drop(turn);
            done
        })
        .await
        .map_err(Error::internal)
    }

    /// The hash of a new password.
    ///
    /// # Errors
    /// When it could not be computed.
    pub async fn hash(&self, password: NewPassword) -> Result<String, Error> {
        let mut salt = [0; 16];
        salt.copy_from_slice(&Entropy.bytes()[..16]);
        self.run(move || password.hash(salt))
            .await?
            .ok_or_else(|| Error::internal("a password could not be hashed"))
    }

    /// Whether `typed` is the password behind `hash`; without a hash no password is, and finding out takes as long.
    ///
    /// # Errors
    /// When it could not be computed.
    pub async fn verify(&self, typed: String, hash: Option<String>) -> Result<bool, Error> {
        self.run(move || {
            let known = hash.is_some();
            let matches = password::verify(&typed, hash.as_ref().unwrap_or(&NOBODY));
            known && matches
        })
        .await
    }
}
