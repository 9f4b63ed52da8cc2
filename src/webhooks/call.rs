//! One call to an endpoint: to an address that is allowed, within a time, without following anything.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, Utc};
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use reqwest::header::{CONTENT_TYPE, RETRY_AFTER, USER_AGENT};
use reqwest::{Client, Response, StatusCode};

use super::{Names, Settings};
use crate::domain::address::is_public;
use crate::domain::webhook::{Verdict, endpoint, retry_after};
use crate::tls;

/// Of an answer, so much is read: enough to see what it is.
const ANSWER: usize = 4 * 1024;

/// Of an answer that is no success, so many characters are kept.
const KEPT: usize = 200;

/// Makes calls.
#[derive(Clone, Debug)]
pub struct Caller {
    client: Client,
    private: bool,
    timeout: Duration,
}

/// The client cannot be made.
#[derive(Debug, thiserror::Error)]
#[error("webhooks cannot be sent: {0}")]
pub struct CallerError(String);

/// What is sent.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The same for every attempt.
    pub id: String,
    /// When it is sent, in seconds since 1970.
    pub timestamp: i64,
    /// Signatures of it all.
    pub signatures: String,
    /// JSON.
    pub body: Vec<u8>,
}

impl Caller {
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(settings: &Settings) -> Result<Self, CallerError> {
        let failed = |problem: &dyn std::fmt::Display| CallerError(problem.to_string());
        let tls = settings.trust.client().map_err(|problem| failed(&problem))?;
        let client = Client::builder()
            .tls_backend_preconfigured(tls)
            .dns_resolver(Resolver { names: Arc::clone(&settings.names), private: settings.private })
            .redirect(reqwest::redirect::Policy::none())
            // A proxy would connect to whatever it likes.
            .no_proxy()
            .connect_timeout(settings.timeout.min(Duration::from_secs(5)))
            .pool_max_idle_per_host(2)
            .pool_idle_timeout(Duration::from_secs(30))
            .build()
            .map_err(|problem| failed(&problem))?;
        Ok(Self { client, private: settings.private, timeout: settings.timeout })
    }

    /// Sends `parcel` to `url` and says what came of it. The time is for all of it, so that an endpoint that answers drop
    /// by drop holds nothing up.
    pub async fn call(&self, url: &str, parcel: Parcel, now: DateTime<Utc>) -> Verdict {
        let failed = |detail: String| Verdict::Failed { status: None, detail, retry_after: None };
        // A literal address is not resolved, and what is allowed may have changed since it was entered.
        let url = match endpoint(url, self.private) {
            Ok(url) => url,
            Err(problem) => return failed(problem.to_string()),
        };
        let request = self
            .client
            .post(url)
            .header(CONTENT_TYPE, "application/json")
            .header(USER_AGENT, concat!("Fairlist/", env!("CARGO_PKG_VERSION")))
            .header("webhook-id", parcel.id)
            .header("webhook-timestamp", parcel.timestamp)
            .header("webhook-signature", parcel.signatures)
            .body(parcel.body);
        let called = async {
            let response = request.send().await?;
            verdict(response, now).await
        };
        match tokio::time::timeout(self.timeout, called).await {
            Ok(Ok(verdict)) => verdict,
            Ok(Err(problem)) => failed(in_words(&problem)),
            Err(_) => failed(format!("No answer within {} seconds.", self.timeout.as_secs())),
        }
    }
}

async fn verdict(response: Response, now: DateTime<Utc>) -> Result<Verdict, reqwest::Error> {
    let status = response.status();
    if status == StatusCode::GONE {
        return Ok(Verdict::Gone);
    }
    let asked = response
        .headers()
        .get(RETRY_AFTER)
        .and_then(|value| value.to_str().ok())
        .and_then(|value| retry_after(value, now));
    let is_redirect = status.is_redirection();
    let text = beginning(response).await?;
    if status.is_success() {
        return Ok(Verdict::Delivered(status.as_u16()));
    }
    let detail = if is_redirect { "It redirects, which is not followed.".to_owned() } else { text };
    Ok(Verdict::Failed { status: Some(status.as_u16()), detail, retry_after: asked })
}

/// The beginning of an answer, in one line; the rest is not read.
async fn beginning(mut response: Response) -> Result<String, reqwest::Error> {
    let mut read = Vec::new();
    while read.len() < ANSWER
        && let Some(chunk) = response.chunk().await?
    {
        read.extend_from_slice(&chunk);
    }
    let text = String::from_utf8_lossy(&read);
    let printable = text.chars().map(|c| if c.is_control() || c == '\u{FFFD}' { ' ' } else { c });
    let line: String = printable.take(KEPT).collect();
    Ok(line.split_whitespace().collect::<Vec<_>>().join(" "))
}

/// What went wrong, without the address: with the endpoint's certificate, or the error's innermost cause.
fn in_words(error: &reqwest::Error) -> String {
    if error.is_connect()
        && let Some(why) = tls::trouble(error)
    {
        return format!("Nothing was sent: {why}.");
    }
    let mut innermost: &dyn std::error::Error = error;
    while let Some(cause) = innermost.source() {
        innermost = cause;
    }
    innermost.to_string()
}

/// Resolves names to addresses that may be connected to: the connection is made to what was looked at, so a name that
/// leads elsewhere the next moment leads nowhere.
struct Resolver {
    names: Arc<dyn Names>,
    private: bool,
}

impl Resolve for Resolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (names, private) = (Arc::clone(&self.names), self.private);
        Box::pin(async move {
            let found = allowed(names.addresses(name.as_str()).await?, private)?;
            // The port is the URL's.
            Ok(Box::new(found.into_iter().map(|address| SocketAddr::new(address, 0))) as Addrs)
        })
    }
}

/// Those of the addresses of a name that may be connected to.
fn allowed(found: Vec<IpAddr>, private: bool) -> Result<Vec<IpAddr>, Forbidden> {
    let first = found.first().copied();
    let allowed: Vec<IpAddr> = found.into_iter().filter(|address| private || is_public(*address)).collect();
    match first.filter(|_| allowed.is_empty()) {
        Some(address) => Err(Forbidden(address)),
        None => Ok(allowed),
    }
}

/// A name leads only to where nothing is sent.
#[derive(Debug, thiserror::Error)]
#[error("its name leads to {0}, which is not an address of the public internet")]
struct Forbidden(IpAddr);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_a_names_addresses_only_public_ones_are_connected_to() {
        let found: Vec<IpAddr> = ["10.0.0.1", "93.184.216.34", "::1"].map(|a| a.parse().unwrap()).into();
        assert_eq!(allowed(found.clone(), false).unwrap(), [found[1]]);
        assert_eq!(allowed(found.clone(), true).unwrap(), found);
        let refused = allowed(vec![found[0]], false).unwrap_err();
        assert!(refused.to_string().contains("10.0.0.1"), "{refused}");
    }
}
