//! The adapter over HTTP: own timeouts round the whole call, retries with backoff and jitter, no redirect followed,
//! nothing read beyond what an answer can be, and no word believed that does not keep to the contract.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use reqwest::header::{CONTENT_TYPE, HeaderValue, RETRY_AFTER};
use reqwest::redirect::Policy;
use reqwest::{Client, Method, Response, StatusCode};
use tokio::time::{Instant, timeout};
use url::Url;
use uuid::Uuid;

use super::contract::{self, Ask, Release};
use super::{Asked, Failed, Patience, Service, Told};
use crate::clock::Entropy;
use crate::tls::{self, Trust};

/// The largest answer that is read.
const LARGEST_ANSWER: usize = 64 * 1024;

/// The way to booking services: one client for all. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct Services(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    patience: Patience,
    trust: Trust,
    client: OnceLock<Result<Client, String>>,
}

/// One question.
struct Question<'a> {
    method: Method,
    url: Url,
    body: Option<Vec<u8>>,
    key: &'a str,
    given_back: &'a [Uuid],
}

/// One try: its answer, and when the service wants to be asked again.
struct Try {
    answer: Result<Told, Failed>,
    /// Asking again may help.
    again: bool,
    after: Option<Duration>,
}

impl Try {
    fn failed(answer: Failed, again: bool) -> Self {
        Self { answer: Err(answer), again, after: None }
    }

    fn lost(why: impl Into<String>) -> Self {
        Self::failed(Failed::Lost(why.into()), true)
    }
}

impl Services {
    /// With this patience, towards those whose certificates are believed.
    #[must_use]
    pub fn new(patience: Patience, trust: Trust) -> Self {
        Self(Arc::new(Inner { patience, trust, client: OnceLock::new() }))
    }

    /// For how long nobody else should take up what is being asked: longer than any question with its confirmation.
    #[must_use]
    pub fn lease(&self) -> chrono::Duration {
        let most = self.0.patience.whole.saturating_mul(3) + Duration::from_secs(5);
        chrono::Duration::from_std(most).unwrap_or(chrono::Duration::seconds(60))
    }

    pub(super) async fn reserve(&self, service: &Service, ask: &Ask) -> Asked {
        let body = serde_json::to_vec(ask).unwrap_or_default();
        self.insist(service, &ask.key, Method::PUT, None, Some(body), &[]).await
    }

    pub(super) async fn confirm(&self, service: &Service, key: &str) -> Asked {
        self.insist(service, key, Method::POST, Some("confirm"), Some(b"{}".to_vec()), &[]).await
    }

    pub(super) async fn release(&self, service: &Service, key: &str, places: &[Uuid]) -> Asked {
        let body = serde_json::to_vec(&Release { places }).unwrap_or_default();
        self.insist(service, key, Method::POST, Some("release"), Some(body), places).await
    }

    pub(super) async fn look_up(&self, service: &Service, key: &str) -> Asked {
        self.insist(service, key, Method::GET, None, None, &[]).await
    }

    /// Asks until there is an answer, or patience is over. Every question may be put twice: its key makes it one.
    async fn insist(
        &self,
        service: &Service,
        key: &str,
        method: Method,
        act: Option<&str>,
        body: Option<Vec<u8>>,
        given_back: &[Uuid],
    ) -> Asked {
        let patience = self.0.patience;
        let url = service.url.reservation(key, act);
        let question = Question { method, url, body, key, given_back };
        let end = Instant::now() + patience.whole;
        let mut lost = false;
        for n in 1.. {
            let left = end.saturating_duration_since(Instant::now());
            let within = patience.call.min(left);
            let tried = match timeout(within, self.ask(service, &question)).await {
                Ok(tried) => tried,
                Err(_) => Try::lost("no answer in time"),
            };
            lost |= matches!(tried.answer, Err(Failed::Lost(_)));
            let backoff = patience.backoff.saturating_mul(1 << (n - 1).min(10));
            let wait = tried.after.unwrap_or_else(|| backoff.mul_f64(jitter()));
            if !tried.again || n >= patience.tries || wait >= end.saturating_duration_since(Instant::now()) {
                return Asked { answer: tried.answer, lost };
            }
            tokio::time::sleep(wait).await;
        }
        Asked { answer: Err(Failed::Lost("no answer".to_owned())), lost: true }
    }

    #[tracing::instrument(name = "booking call", skip_all, fields(method = %question.method))]
    async fn ask(&self, service: &Service, question: &Question<'_>) -> Try {
        let client = match self.0.client.get_or_init(|| client(self.0.patience, &self.0.trust)) {
            Ok(client) => client,
            Err(why) => return Try::failed(Failed::NotDone(why.clone()), false),
        };
        let Ok(mut bearer) = HeaderValue::try_from(format!("Bearer {}", service.key.0)) else {
            return Try::failed(Failed::NotDone("the key cannot be sent".to_owned()), false);
        };
        bearer.set_sensitive(true);
        let mut request = client
            .request(question.method.clone(), question.url.clone())
            .header(reqwest::header::AUTHORIZATION, bearer)
            .header(reqwest::header::ACCEPT, "application/json");
        if let Some(body) = &question.body {
            request = request.header(CONTENT_TYPE, "application/json").body(body.clone());
        }
        match request.send().await {
            Ok(response) => answer(response, question).await,
            // The connection was never made: nothing can have been done.
            Err(error) if error.is_connect() => match tls::trouble(&error) {
                Some(why) => {
                    let why = format!("the service cannot be spoken to safely: {why}");
                    Try::failed(Failed::NotDone(why), false)
                }
                None => Try::failed(Failed::NotDone("the service cannot be reached".to_owned()), true),
            },
            Err(error) if error.is_builder() => {
                Try::failed(Failed::NotDone("the address cannot be called".to_owned()), false)
            }
            Err(_) => Try::lost("the connection broke before an answer"),
        }
    }
}

async fn answer(response: Response, question: &Question<'_>) -> Try {
    let status = response.status();
    match status {
        StatusCode::TOO_MANY_REQUESTS => {
            let after =
                response.headers().get(RETRY_AFTER).and_then(|value| value.to_str().ok()?.parse().ok());
            return Try {
                answer: Err(Failed::NotDone("the service is asked too often (429)".to_owned())),
                again: true,
                after: after.map(Duration::from_secs),
            };
        }
        StatusCode::BAD_REQUEST
        | StatusCode::UNAUTHORIZED
        | StatusCode::FORBIDDEN
        | StatusCode::UNPROCESSABLE_ENTITY => {
            let why = format!("the service refuses the call ({})", status.as_u16());
            return Try::failed(Failed::NotDone(why), false);
        }
        status if status.is_redirection() => {
            return Try::failed(
                Failed::Lost(format!("the service redirects ({}), which is not followed", status.as_u16())),
                false,
            );
        }
        status if status.is_server_error() => {
            return Try::lost(format!("the service failed ({})", status.as_u16()));
        }
        _ => {}
    }
    let json =
        response.headers().get(CONTENT_TYPE).and_then(|value| value.to_str().ok()).is_some_and(|kind| {
            kind.starts_with("application/json") || kind.starts_with("application/problem+json")
        });
    if !json {
        return Try::failed(Failed::Lost(format!("the answer ({}) is not JSON", status.as_u16())), false);
    }
    match body(response).await {
        Ok(body) => match contract::read(status.as_u16(), &body, question.key, question.given_back) {
            Some(told) => Try { answer: Ok(told), again: false, after: None },
            None => Try::failed(
                Failed::Lost(format!("the answer ({}) does not keep to the contract", status.as_u16())),
                false,
            ),
        },
        Err(why) => Try::lost(why),
    }
}

async fn body(mut response: Response) -> Result<Vec<u8>, &'static str> {
    let mut body = Vec::new();
    while let Some(chunk) =
        response.chunk().await.map_err(|_| "the connection broke in the middle of an answer")?
    {
        if body.len() + chunk.len() > LARGEST_ANSWER {
            return Err("the answer is too large");
        }
        body.extend_from_slice(&chunk);
    }
    Ok(body)
}

/// 50 % to 150 %.
fn jitter() -> f64 {
    0.5 + f64::from(Entropy.bytes()[0]) / 255.0
}

fn client(patience: Patience, trust: &Trust) -> Result<Client, String> {
    let tls = trust.client().map_err(|error| error.to_string())?;
    Client::builder()
        .tls_backend_preconfigured(tls)
        .redirect(Policy::none())
        .connect_timeout(patience.connect)
        .user_agent(concat!("fairlist/", env!("CARGO_PKG_VERSION")))
        .build()
        .map_err(|error| error.to_string())
}
