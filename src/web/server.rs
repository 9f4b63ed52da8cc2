//! Serving over connections: how long one may take to ask, and the end.

use std::net::SocketAddr;
use std::time::Duration;

use axum::Router;
use axum::extract::Request;
use axum_server::{Handle, Server};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;

use super::body;

/// How long is waited for whoever is connected. Whoever is slower than this holds a place that others need.
#[derive(Clone, Copy, Debug)]
pub struct Patience {
    /// From connecting to the end of the first request's headers.
    pub first: Duration,
    /// From one answer to the end of the next request's headers: longer than proxies keep a connection that rests.
    pub next: Duration,
    /// From the end of the headers to the end of the body.
    pub body: Duration,
}

impl Default for Patience {
    fn default() -> Self {
        Self { first: Duration::from_secs(30), next: Duration::from_secs(75), body: Duration::from_mins(2) }
    }
}

/// Serves `router` on `listener` until `stop`, then lets running requests finish.
///
/// # Errors
/// When the listener fails.
pub async fn serve(
    listener: TcpListener,
    router: Router,
    patience: Patience,
    stop: CancellationToken,
) -> std::io::Result<()> {
    let handle = Handle::<SocketAddr>::new();
    let mut server = Server::from_listener(listener)
        .handle(handle.clone())
        .first_request_timeout(patience.first)
        .http1_only();
    server.http_builder().http1().header_read_timeout(patience.next);
    let router = router.layer(tower::util::MapRequestLayer::new(move |request: Request| {
        request.map(|arriving| body::within(patience.body, arriving))
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
