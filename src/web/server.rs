//! Serving over connections: how long one may take to ask, and the end.

use std::io;
use std::net::SocketAddr;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use axum::Router;
use axum::extract::Request;
use axum_server::{Handle, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tracing::error;

use super::body;

/// Tells of an error unless it was told of one a moment ago: where descriptors run out, each is one of many.
fn at_most_once_a_second(
    tell: impl Fn(&io::Error) + Send + Sync + 'static,
) -> impl Fn(Option<&SocketAddr>, &io::Error) + Send + Sync + 'static {
    let last = Mutex::new(None::<Instant>);
    move |_, error| {
        let mut last = last.lock().unwrap_or_else(PoisonError::into_inner);
        if last.is_none_or(|last| last.elapsed() >= Duration::from_secs(1)) {
            *last = Some(Instant::now());
            tell(error);
        }
    }
}

/// How long is waited for whoever is connected. Whoever is slower than this holds a place that others need.
#[derive(Clone, Copy, Debug)]
pub struct Timeouts {
    /// From connecting to the end of the first request's headers.
    pub first: Duration,
    /// From one answer to the end of the next request's headers: longer than proxies keep a connection that
    /// rests (nginx 60 seconds, Traefik 90, Caddy 120), as a post on one that was just closed is lost.
    pub next: Duration,
    /// From the end of the headers to the end of a body, besides what [`body::SLOWEST`] allows it.
    pub body: Duration,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self { first: Duration::from_secs(30), next: Duration::from_mins(3), body: Duration::from_mins(2) }
    }
}

/// Serves `router` on `listener` until `stop`, then lets running requests finish.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    timeouts: Timeouts,
    stop: CancellationToken,
) -> io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let mut server = Server::from_listener(listener)
        .handle(handle.clone())
        .first_request_timeout(timeouts.first)
        .accept_error_handler(at_most_once_a_second(|error| error!(%error, "a connection cannot be taken")))
        .http1_only();
    server.http_builder().http1().header_read_timeout(timeouts.next);
    let router = router.layer(tower::util::MapRequestLayer::new(move |request: Request| {
        request.map(|arriving| body::within(timeouts.body, arriving))
    }));
    let serving = server.serve(router.into_make_service_with_connect_info::<SocketAddr>());
    let stopping = async {
        stop.cancelled().await;
        handle.graceful_shutdown(None);
        std::future::pending().await
    };
    tokio::select! {
        ended = serving => ended,
        never = stopping => never,
    }
}
