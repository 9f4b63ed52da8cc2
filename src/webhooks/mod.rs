//! Webhooks: transitions sent to endpoints that an organization named, signed as Standard Webhooks says.
//!
//! Delivery is at least once and, while something is tried again, out of order: the position in the feed says what comes
//! first, and `webhook-id` is the same every time.

mod call;
mod sender;

pub use call::{Caller, CallerError};
pub use sender::{Outcome, Sender};

use std::io;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use crate::domain::secret::Secret;
use crate::tls::Trust;

/// Where names lead.
#[async_trait]
pub trait Names: Send + Sync {
    /// The addresses of a name, asked once for each connection.
    ///
    /// # Errors
    /// When it has none, or nobody can be asked.
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>>;
}

/// As this machine resolves them.
struct SystemNames;

#[async_trait]
impl Names for SystemNames {
    async fn addresses(&self, name: &str) -> io::Result<Vec<IpAddr>> {
        Ok(tokio::net::lookup_host((name, 0)).await?.map(|address| address.ip()).collect())
    }
}

/// How webhooks are sent.
#[derive(Clone)]
pub struct Settings {
    /// From which signing secrets are derived.
    pub secret: Secret,
    /// Whether they may go to addresses of private networks, and without encryption.
    pub private: bool,
    /// How long one call may take, from the name's address to the answer's end.
    pub timeout: Duration,
    /// Where names lead.
    pub names: Arc<dyn Names>,
    /// Whose certificates are believed.
    pub trust: Trust,
}

impl Settings {
    /// To the public internet only, within 15 seconds.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self {
            secret,
            private: false,
            timeout: Duration::from_secs(15),
            names: Arc::new(SystemNames),
            trust: Trust::default(),
        }
    }

    /// Also into private networks, if `private`.
    #[must_use]
    pub fn private(mut self, private: bool) -> Self {
        self.private = private;
        self
    }

    /// Believing these authorities.
    #[must_use]
    pub fn trusting(mut self, trust: Trust) -> Self {
        self.trust = trust;
        self
    }
}
