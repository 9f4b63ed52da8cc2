//! `GET /metrics`, as Prometheus reads it; on an address of its own, which only operators reach.

use std::sync::Arc;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use axum::Router;
use axum::extract::State;
use axum::http::header::CONTENT_TYPE;
use axum::response::IntoResponse;
use axum::routing::get;
use chrono::{DateTime, Utc};
use prometheus_client::encoding::text::{encode_eof, encode_registry};
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::registry::Registry;
use tokio::sync::Mutex;
use tokio::time::Instant;

use crate::db::Db;
use crate::db::watch::Watched;

/// What was read is told again for so long, however many ask.
const FRESH: Duration = Duration::from_secs(5);

/// Whoever asks waits no longer for the database than this.
const PATIENCE: Duration = Duration::from_secs(2);

type Number = Gauge<f64, AtomicU64>;

#[derive(Clone, Debug)]
struct Watch {
    db: Db,
    last: Arc<Mutex<Option<(Instant, Watched)>>>,
}

/// The one page of operators.
pub fn router(db: Db) -> Router {
    let watch = Watch { db, last: Arc::default() };
    Router::new().route("/metrics", get(metrics)).with_state(watch)
}

impl Watch {
    /// How things stand, if the database says so in time. Nobody asks while another does, and an answer that comes too
    /// late is there for the next.
    async fn look(&self) -> Option<Watched> {
        let watch = self.clone();
        let look = tokio::spawn(async move {
            let mut last = watch.last.lock().await;
            if let Some((at, watched)) = last.as_ref()
                && at.elapsed() < FRESH
            {
                return Some(watched.clone());
            }
            match watch.db.watched().await {
                Ok(watched) => {
                    *last = Some((Instant::now(), watched.clone()));
                    Some(watched)
                }
                Err(error) => {
                    tracing::warn!(%error, "the database does not say how things stand");
                    None
                }
            }
        });
        tokio::time::timeout(PATIENCE, look).await.ok()?.ok()?
    }
}

async fn metrics(State(watch): State<Watch>) -> impl IntoResponse {
    let watched = watch.look().await;
    let mut text = String::new();
    let now = gauges(&watch.db, watched.as_ref());
    // Writing to a string does not fail.
    let written = encode_registry(&mut text, watch.db.metrics().registry())
        .and_then(|()| encode_registry(&mut text, &now))
        .and_then(|()| encode_eof(&mut text));
    if let Err(error) = written {
        tracing::error!(%error, "metrics cannot be written");
    }
    ([(CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text)
}

/// What is so at this moment; what the database did not say is left out, and that it did not is said.
fn gauges(db: &Db, watched: Option<&Watched>) -> Registry {
    let mut registry = Registry::with_prefix("fairlist");
    let mut number = |name: &str, help: &str, value: f64| {
        let gauge = Number::default();
        gauge.set(value);
        registry.register(name, help, gauge);
    };
    number(
        "database_answers",
        "Whether the database said how things stand: without it, what only it knows is left out",
        f64::from(u8::from(watched.is_some())),
    );
    if let Some(watched) = watched {
        let age = |since: Option<DateTime<Utc>>| {
            since.map_or(0.0, |since| (watched.at - since).as_seconds_f64().max(0.0))
        };
        number("offers_overdue", "Offers pending beyond their deadline", float(watched.overdue_offers));
        number("offers_overdue_seconds", "How long the first of them is overdue", age(watched.overdue_since));
        number("passes_requested", "Passes asked for and not run", float(watched.passes_requested));
        number(
            "pass_request_age_seconds",
            "How long the first of them waits",
            age(watched.pass_requested_since),
        );
        number("outbox_due", "Messages that are to go out now", float(watched.messages_due));
        number("outbox_age_seconds", "How long the first of them waits", age(watched.message_due_since));
        number(
            "outbox_dead",
            "Messages that will not be tried again by themselves",
            float(watched.messages_dead),
        );
        number("mail_down_seconds", "How long no mail goes out; 0: it does", age(watched.mail_down_since));
        number(
            "booking_services_resting",
            "Booking services that are not called for the moment, after failures",
            float(watched.services_resting),
        );
        number(
            "booking_calls_unknown",
            "Calls to booking services of which nobody knows what came",
            float(watched.booking_unknown),
        );
        number(
            "booking_unknown_seconds",
            "How long that is so for the first of them",
            age(watched.booking_unknown_since),
        );
        number(
            "booking_calls_for_staff",
            "Those of them that staff are asked to resolve",
            float(watched.booking_for_staff),
        );
        number("webhooks_due", "Deliveries to webhooks that are to be made now", float(watched.webhooks_due));
        number("webhooks_age_seconds", "How long the first of them waits", age(watched.webhook_due_since));
        number("webhooks_dead", "Deliveries to webhooks that were given up", float(watched.webhooks_dead));
        number(
            "webhooks_stopped",
            "Webhooks to which nothing is sent any more, because they failed or said so",
            float(watched.webhooks_stopped),
        );
        number("complaints_open", "Complaints that wait for an answer", float(watched.complaints_open));
        number(
            "complaints_open_seconds",
            "How long the first of them waits",
            age(watched.complaint_open_since),
        );
        number(
            "lock_waiters",
            "Connections that wait for a lock of the database",
            float(watched.lock_waiters),
        );
        number(
            "waiting_elsewhere",
            "People in the line on the lists that are too many to be named",
            float(watched.others),
        );
        by_event(&mut registry, watched);
    }
    let connections = Family::<[(&str, &str); 2], Number>::default();
    for (pool, busy, idle) in db.connections() {
        connections.get_or_create(&[("pool", pool), ("state", "busy")]).set(f64::from(busy));
        connections.get_or_create(&[("pool", pool), ("state", "idle")]).set(f64::from(idle));
    }
    registry.register("pool_connections", "Connections to the database", connections);
    let workers = Family::<[(&str, &str); 1], Number>::default();
    for (worker, silence) in db.metrics().silences() {
        workers.get_or_create(&[("worker", worker)]).set(silence.as_secs_f64());
    }
    registry.register(
        "worker_silence_seconds",
        "Since when a worker of this kind gave no sign of life",
        workers,
    );
    registry
}

/// What is told event by event, where most of it is.
fn by_event(registry: &mut Registry, watched: &Watched) {
    let complaints = Family::<[(&str, String); 1], Number>::default();
    for (slug, made) in &watched.complaints {
        complaints.get_or_create(&[("event", slug.clone())]).set(float(*made));
    }
    registry.register(
        "complaints_lately",
        "Complaints of the last seven days, where most were made",
        complaints,
    );
    let lists = Family::<[(&str, String); 1], Number>::default();
    for (slug, waiting) in &watched.lists {
        lists.get_or_create(&[("event", slug.clone())]).set(float(*waiting));
    }
    registry.register("waiting", "People in the line, on the longest lists", lists);
}

/// Counts are far below the numbers that do not fit.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
fn float(count: i64) -> f64 {
    count as f64
}
