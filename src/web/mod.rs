//! The pages: the router, and what every request passes through.
//!
//! Outermost first: security headers, error pages, the request's id and its log line, a task of its own, our own
//! hosts only, no posts from elsewhere, at most 64 KiB; then, by route, the session of staff or of customers.

use std::sync::Arc;

use axum::Router;
use axum::extract::{DefaultBodyLimit, MatchedPath, Request, State};
use axum::http::{HeaderMap, HeaderName, HeaderValue, StatusCode};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::Duration;
use tracing::{Instrument, info_span};
use tracing_opentelemetry::OpenTelemetrySpanExt as _;
use url::Url;

use crate::booking::Services;
use crate::db::Db;
use crate::domain::secret::Secret;
use crate::messages;
use crate::waitlist::Waitlist;
use crate::waitlist::together::Together;

pub mod api;
pub mod assets;
pub mod body;
pub mod client;
pub mod csrf;
pub mod customer;
pub mod error;
pub mod extract;
pub mod headers;
pub mod limits;
pub mod metrics;
pub mod next;
pub mod page;
pub mod server;
pub mod session;
pub mod staff;
pub mod upload;
pub mod wants;

pub use error::Error;
pub use limits::{Limit, Limits};
pub use page::Page;
pub use server::{Timeouts, serve};

/// The most bytes a form may have.
pub const BODY_LIMIT: usize = 64 * 1024;

/// What every handler may use. Cheap to clone.
#[derive(Clone, Debug)]
pub struct WebState {
    /// The database.
    pub db: Db,
    /// The hot ones, for which requests that arrive together are decided together.
    pub together: Together,
    waitlist: Waitlist,
    /// What tokens and codes are derived from.
    pub secret: Secret,
    /// What was configured.
    pub settings: Arc<Settings>,
    /// Hashes passwords, few at a time.
    pub hasher: staff::hasher::Hasher,
    /// How messages are written and sent: what staff are shown of them depends on it.
    pub mail: Arc<messages::Settings>,
}

impl WebState {
    /// With a hasher of its own.
    #[must_use]
    pub fn new(db: Db, secret: Secret, settings: Settings) -> Self {
        let waitlist = Waitlist::new(db.clone(), secret.clone());
        let mail = messages::Settings::new(settings.base_url.clone(), secret.clone(), None);
        Self {
            db,
            together: Together::new(waitlist.clone()),
            waitlist,
            secret,
            settings: Arc::new(settings),
            hasher: staff::hasher::Hasher::default(),
            mail: Arc::new(mail),
        }
    }

    /// Where mail is sent by a server: without it, the mailbox page is the channel.
    #[must_use]
    pub fn with_mail(self, mail: Arc<messages::Settings>) -> Self {
        Self { mail, ..self }
    }

    /// How booking services are called.
    #[must_use]
    pub fn with_services(self, services: Services) -> Self {
        let waitlist = self.waitlist.with_services(services);
        Self { together: Together::new(waitlist.clone()), waitlist, ..self }
    }

    /// The use cases.
    #[must_use]
    pub fn waitlist(&self) -> Waitlist {
        self.waitlist.clone()
    }
}

/// What was configured about the web.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The address by which people reach us; links come from it, never from a request.
    pub base_url: Url,
    /// Further hosts (with a port, if not the scheme's own) by which we may be called.
    pub hosts: Vec<String>,
    /// How many proxies stand before us, each of which appends to `X-Forwarded-For`.
    pub trusted_proxies: usize,
    /// How long a staff session lives without use.
    pub staff_idle: Duration,
    /// Whether webhooks may go to addresses of private networks, and without encryption.
    pub private_webhooks: bool,
    /// Whether what a request took is told to OpenTelemetry.
    pub traced: bool,
    /// What may be done how often.
    pub limits: Limits,
}

impl Settings {
    /// The defaults, at that address.
    #[must_use]
    pub fn new(base_url: Url) -> Self {
        Self {
            base_url,
            hosts: Vec::new(),
            trusted_proxies: 0,
            staff_idle: Duration::minutes(30),
            private_webhooks: false,
            traced: false,
            limits: Limits::default(),
        }
    }

    /// Whether people reach us over https, whatever a proxy speaks with us.
    #[must_use]
    pub fn https(&self) -> bool {
        self.base_url.scheme() == "https"
    }

    /// Scheme, host and port, as a browser writes them.
    #[must_use]
    pub fn origin(&self) -> String {
        self.base_url.origin().ascii_serialization()
    }

    /// Whether `host`, as a request names it, is ours. On a machine of one's own every loopback name is.
    #[must_use]
    pub fn serves(&self, host: &str) -> bool {
        let origin = self.origin();
        let own = origin.split_once("://").map_or("", |(_, own)| own);
        let name = |host: &str| host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        let local = |host: &str| matches!(name(host).as_str(), "localhost" | "127.0.0.1" | "[::1]");
        host.eq_ignore_ascii_case(own)
            || self.hosts.iter().any(|allowed| host.eq_ignore_ascii_case(allowed))
            || (local(own) && local(host))
    }

    /// An address for a mail or a page's canonical link.
    #[must_use]
    pub fn link(&self, path: &str) -> String {
        format!("{}{path}", self.base_url.as_str().trim_end_matches('/'))
    }
}

/// The header that carries a request's id, in the answer too.
pub(crate) const REQUEST_ID: HeaderName = HeaderName::from_static("x-request-id");

pub(crate) fn request_id(headers: &HeaderMap) -> Option<String> {
    headers.get(REQUEST_ID).and_then(|id| id.to_str().ok()).map(str::to_owned)
}

/// Every page of the program, and the API.
///
/// # Errors
/// When the base URL has no origin that a browser could name.
pub fn router(state: WebState) -> Result<Router, tower_http::csrf::ConfigError> {
    let routes = Router::new()
        .nest("/staff", staff::router().layer(session::staff_layer(&state.db, &state.settings)))
        .merge(customer::router().layer(session::customer_layer(&state.db, &state.settings)))
        .merge(api::router(&state));
    let pages = assemble(state, routes)?;
    Ok(Router::new().fallback_service(tower::util::MapRequest::new(pages, api::split_act)))
}

/// Routes without a state: what can be served.
pub type Routes = Router;

/// A handler that answers a constant, and nothing around it: what benchmarks are held against.
pub fn constant() -> Routes {
    Router::new().route("/", get(async || "ok"))
}

/// Puts what every request passes through around `routes`. Tests put odd handlers inside.
///
/// # Errors
/// When the base URL has no origin that a browser could name.
pub fn assemble(state: WebState, routes: Router<WebState>) -> Result<Router, tower_http::csrf::ConfigError> {
    let csrf = csrf::layer(&state.settings)?;
    Ok(routes
        .route("/healthz", get(async || "ok\n"))
        .route("/readyz", get(ready))
        .route("/static/{file}", get(assets::file))
        .route("/theme/{file}", get(assets::theme))
        .fallback(async || Error::NotFound)
        .method_not_allowed_fallback(async || StatusCode::METHOD_NOT_ALLOWED)
        .layer(DefaultBodyLimit::max(BODY_LIMIT))
        .layer(csrf)
        .layer(middleware::from_fn_with_state(state.clone(), csrf::own_host))
        .layer(middleware::from_fn(own_task))
        .layer(middleware::from_fn_with_state(state.clone(), log))
        .layer(middleware::from_fn_with_state(state.clone(), error::pages))
        .layer(middleware::from_fn_with_state(state.clone(), headers::set))
        .layer(middleware::from_fn_with_state(state.clone(), identify))
        .with_state(state))
}

/// `GET /readyz`: whether the database answers and every worker of this process gives signs of life.
async fn ready(State(state): State<WebState>) -> Result<Response, Error> {
    state.db.ready().await?;
    let missing = state.db.metrics().missing();
    if missing.is_empty() {
        return Ok("ready\n".into_response());
    }
    let said: Vec<String> = missing
        .iter()
        .map(|(worker, silence)| format!("{worker}: no sign of life for {} s\n", silence.as_secs()))
        .collect();
    let said = said.concat();
    Ok((StatusCode::SERVICE_UNAVAILABLE, said).into_response())
}

/// An id of our own: one that came along could be anything.
async fn identify(State(state): State<WebState>, mut request: Request, next: Next) -> Response {
    let id = state.db.entropy().id().simple().to_string();
    if let Ok(id) = HeaderValue::from_str(&id) {
        request.headers_mut().insert(REQUEST_ID, id);
    }
    next.run(request).await
}

/// Runs the request in a task of its own and waits for it. axum drops a handler when its client goes away; in the
/// middle of a transaction that would poison a connection. A panic ends here, as an error page.
async fn own_task(request: Request, next: Next) -> Response {
    match tokio::spawn(next.run(request).in_current_span()).await {
        Ok(response) => response,
        Err(error) => Error::internal(error).into_response(),
    }
}

/// One line a request. The route's pattern is logged, never the address: it may hold a token.
async fn log(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let route = request.extensions().get::<MatchedPath>().map_or("none", MatchedPath::as_str).to_owned();
    let method = request.method().clone();
    let id = request_id(request.headers()).unwrap_or_default();
    // The names that OpenTelemetry asks for would be noise in the log.
    let span = if state.settings.traced {
        let name = format!("{method} {route}");
        info_span!("request", otel.name = name, otel.kind = "server", method = %method, route, id)
    } else {
        info_span!("request", method = %method, route, id)
    };
    let traced = span.clone();
    async move {
        let start = tokio::time::Instant::now();
        let response = next.run(request).await;
        let (status, took) = (response.status().as_u16(), start.elapsed());
        state.db.metrics().answered(method.as_str(), status);
        traced.set_attribute("http.response.status_code", i64::from(status));
        if status >= 500 {
            traced.set_status(opentelemetry::trace::Status::error(""));
        }
        if route_is_quiet(&route) {
            tracing::trace!(status, ?took, "answered");
        } else {
            tracing::info!(status, ?took, "answered");
        }
        response
    }
    .instrument(span)
    .await
}

fn route_is_quiet(route: &str) -> bool {
    route.starts_with("/static/") || route.starts_with("/theme/") || matches!(route, "/healthz" | "/readyz")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_our_own_hosts_are_served() {
        let settings = Settings::new("https://tickets.example".parse().expect("a URL"));
        assert!(settings.serves("tickets.example") && settings.serves("Tickets.Example"));
        assert!(
            !settings.serves("tickets.example:8443")
                && !settings.serves("evil.example")
                && !settings.serves("localhost")
        );
        let local = Settings::new("http://127.0.0.1:8080".parse().expect("a URL"));
        assert!(
            local.serves("localhost:8080")
                && local.serves("[::1]:8080")
                && !local.serves("evil.example:8080")
        );
        assert_eq!(local.link("/o/x"), "http://127.0.0.1:8080/o/x");
    }
}
