//! What operators watch: counted here as it happens, served as Prometheus reads it. Labels are words of this program and
//! names of public events, never people, addresses or tokens.
//!
//! What only the database knows (how much waits, for how long) is asked when somebody looks: `db::watch`.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::histogram::Histogram;
use prometheus_client::registry::Registry;
use tokio::time::Instant;

/// Names of labels with words of this program.
type Labels<const N: usize> = [(&'static str, &'static str); N];
type Counters<const N: usize> = Family<Labels<N>, Counter>;
type Histograms<const N: usize> = Family<Labels<N>, Histogram>;

/// From a millisecond to an hour.
const SECONDS: [f64; 16] =
    [0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 10.0, 30.0, 120.0, 600.0, 3_600.0];

fn seconds() -> Histogram {
    Histogram::new(SECONDS)
}

/// What this process did since it started.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    release_to_offer: Histogram,
    offer_delivery: Histograms<1>,
    deliveries: Counters<2>,
    passes: Counters<1>,
    pass: Histogram,
    accepts: Counters<1>,
    accept: Histogram,
    joins: Counters<1>,
    offers: Counters<1>,
    releases_told: Counters<1>,
    booking_calls: Counters<2>,
    booking_call: Histograms<1>,
    webhook_calls: Counters<1>,
    complaints: Counters<1>,
    refusals: Counters<1>,
    requests: Counters<2>,
    pool_wait: Histograms<1>,
    lock_wait: Histogram,
    audit_failures: Counters<1>,
    beats: Mutex<Vec<Arc<Beat>>>,
}

/// The sign of life of one worker.
#[derive(Debug)]
pub struct Beat {
    worker: &'static str,
    patience: Duration,
    last: Mutex<Instant>,
}

impl Beat {
    /// The worker lives.
    pub fn beat(&self) {
        *self.last.lock().unwrap_or_else(PoisonError::into_inner) = Instant::now();
    }

    fn silent_for(&self) -> Duration {
        self.last.lock().unwrap_or_else(PoisonError::into_inner).elapsed()
    }
}

impl Default for Metrics {
    #[expect(clippy::too_many_lines, reason = "one entry a figure")]
    fn default() -> Self {
        let mut registry = Registry::with_prefix("fairlist");
        macro_rules! watched {
            ($name:literal, $metric:expr, $help:literal) => {{
                let metric = $metric;
                registry.register($name, $help, metric.clone());
                metric
            }};
        }
        macro_rules! by_label {
            () => {
                Family::new_with_constructor(seconds as fn() -> Histogram)
            };
        }
        let metrics = Self {
            release_to_offer: watched!(
                "release_to_offer_seconds",
                seconds(),
                "From the request of a pass, made with the release, to the offers of that pass"
            ),
            offer_delivery: watched!(
                "offer_delivery_seconds",
                by_label!(),
                "From an offer or a call to its letter's acceptance by the channel"
            ),
            deliveries: watched!(
                "deliveries",
                Counters::default(),
                "Attempts to tell people, by what came of them"
            ),
            passes: watched!("passes", Counters::default(), "Looks at lists, by how they ended"),
            pass: watched!(
                "pass_duration_seconds",
                seconds(),
                "How long a pass took, its wait for the event's lock included"
            ),
            accepts: watched!(
                "accepts",
                Counters::default(),
                "Accepts by customers and programs, repeated ones too, by what came of them"
            ),
            accept: watched!(
                "accept_duration_seconds",
                seconds(),
                "How long deciding an accept took, queueing included"
            ),
            joins: watched!(
                "joins",
                Counters::default(),
                "Joins by customers and programs, by what came of them; `already` is a repeated one"
            ),
            offers: watched!(
                "offers",
                Counters::default(),
                "What became of offers: `offered`, `accepted`, `declined`, `expired`, `revoked` and the other acts of the audit"
            ),
            releases_told: watched!(
                "releases_told",
                Counters::default(),
                "Releases that other systems told of: `applied`, `repeated`, or the code of the refusal"
            ),
            booking_calls: watched!(
                "booking_calls",
                Counters::default(),
                "Questions to booking services, each with its lookups and repetitions, by what came of them"
            ),
            booking_call: watched!(
                "booking_call_duration_seconds",
                by_label!(),
                "How long such a question took"
            ),
            webhook_calls: watched!(
                "webhook_calls",
                Counters::default(),
                "Attempts to deliver to webhooks, by what came of them"
            ),
            complaints: watched!(
                "complaints",
                Counters::default(),
                "What people said is not right about their request, by what it is about"
            ),
            refusals: watched!(
                "limit_refusals",
                Counters::default(),
                "Requests refused as too many; `join` is one device or address that puts more people on lists than the limit"
            ),
            requests: watched!(
                "requests",
                Counters::default(),
                "Answers, by method and class of their status"
            ),
            pool_wait: watched!(
                "pool_wait_seconds",
                by_label!(),
                "How long whoever was about to lock an event waited for a connection"
            ),
            lock_wait: watched!("lock_wait_seconds", seconds(), "How long an event's lock was waited for"),
            audit_failures: watched!(
                "audit_failures",
                Counters::default(),
                "Records that could not be written, and verifications that found an altered or a missing one"
            ),
            beats: Mutex::default(),
            registry,
        };
        metrics.begin_at_zero();
        metrics
    }
}

impl Metrics {
    /// What is there from the start shows its first rise.
    fn begin_at_zero(&self) {
        for outcome in ["offered", "failed"] {
            drop(self.passes.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["accepted", "failed"] {
            drop(self.accepts.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["joined", "already", "failed"] {
            drop(self.joins.get_or_create(&[("outcome", outcome)]));
        }
        for about in ["position_wrong", "passed_over", "told_late", "otherwise_wrong"] {
            drop(self.complaints.get_or_create(&[("about", about)]));
        }
        for how in ["written", "verified"] {
            drop(self.audit_failures.get_or_create(&[("how", how)]));
        }
        for class in ["ok", "failed"] {
            drop(self.requests.get_or_create(&[("method", "read"), ("class", class)]));
        }
        for outcome in ["accepted", "permanent"] {
            drop(self.deliveries.get_or_create(&[("channel", "smtp"), ("outcome", outcome)]));
        }
        for act in ["offered", "accepted", "declined", "expired", "revoked"] {
            drop(self.offers.get_or_create(&[("act", act)]));
        }
        for outcome in ["applied", "repeated"] {
            drop(self.releases_told.get_or_create(&[("outcome", outcome)]));
        }
        for outcome in ["done", "unknown"] {
            drop(self.booking_calls.get_or_create(&[("act", "reserve"), ("outcome", outcome)]));
        }
        drop(self.booking_call.get_or_create(&[("act", "reserve")]));
        for outcome in ["delivered", "failed"] {
            drop(self.webhook_calls.get_or_create(&[("outcome", outcome)]));
        }
        for limit in ["join", "writes"] {
            drop(self.refusals.get_or_create(&[("limit", limit)]));
        }
        drop(self.offer_delivery.get_or_create(&[("channel", "smtp")]));
        drop(self.pool_wait.get_or_create(&[("pool", "workers")]));
    }

    /// The counters and histograms, for whoever writes them out.
    #[must_use]
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// A pass made offers so long after it was asked for.
    pub fn offered(&self, after: Duration) {
        self.release_to_offer.observe(after.as_secs_f64());
    }

    /// A pass ended.
    pub fn passed(&self, outcome: &'static str, took: Duration) {
        self.passes.get_or_create(&[("outcome", outcome)]).inc();
        self.pass.observe(took.as_secs_f64());
    }

    /// An attempt to tell somebody ended.
    pub fn delivered(&self, channel: &'static str, outcome: &'static str) {
        self.deliveries.get_or_create(&[("channel", channel), ("outcome", outcome)]).inc();
    }

    /// The letter of an offer was accepted by the channel so long after it was written.
    pub fn told_of_offer(&self, channel: &'static str, after: Duration) {
        self.offer_delivery.get_or_create(&[("channel", channel)]).observe(after.as_secs_f64());
    }

    /// An accept was decided, or could not be.
    pub fn accepted(&self, outcome: &'static str, took: Duration) {
        self.accepts.get_or_create(&[("outcome", outcome)]).inc();
        self.accept.observe(took.as_secs_f64());
    }

    /// Somebody wanted to join.
    pub fn joined(&self, outcome: &'static str) {
        self.joins.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// An offer was made, answered or ended.
    pub fn offer(&self, act: &'static str) {
        self.offers.get_or_create(&[("act", act)]).inc();
    }

    /// Another system told of a release.
    pub fn release_told(&self, outcome: &'static str) {
        self.releases_told.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// A booking service was asked.
    pub fn booking_called(&self, act: &'static str, outcome: &'static str, took: Duration) {
        self.booking_calls.get_or_create(&[("act", act), ("outcome", outcome)]).inc();
        self.booking_call.get_or_create(&[("act", act)]).observe(took.as_secs_f64());
    }

    /// A webhook was called.
    pub fn webhook_called(&self, outcome: &'static str) {
        self.webhook_calls.get_or_create(&[("outcome", outcome)]).inc();
    }

    /// Somebody said that something is not right.
    pub fn complained(&self, about: &'static str) {
        self.complaints.get_or_create(&[("about", about)]).inc();
    }

    /// Something was refused as too often.
    pub fn refused(&self, limit: &'static str) {
        self.refusals.get_or_create(&[("limit", limit)]).inc();
    }

    /// A request was answered.
    pub fn answered(&self, method: &str, status: u16) {
        let method = match method {
            "GET" | "HEAD" => "read",
            "POST" | "PUT" | "PATCH" | "DELETE" => "write",
            _ => "other",
        };
        let class = match status {
            0..300 => "ok",
            300..400 => "redirect",
            400..500 => "refused",
            _ => "failed",
        };
        self.requests.get_or_create(&[("method", method), ("class", class)]).inc();
    }

    /// A connection was got after so long.
    pub fn connected(&self, pool: &'static str, after: Duration) {
        self.pool_wait.get_or_create(&[("pool", pool)]).observe(after.as_secs_f64());
    }

    /// An event's lock was granted, or refused, after so long.
    pub fn locked(&self, after: Duration) {
        self.lock_wait.observe(after.as_secs_f64());
    }

    /// The audit could not be written, or was found altered.
    pub fn audit_failed(&self, how: &'static str) {
        self.audit_failures.get_or_create(&[("how", how)]).inc();
    }

    /// Counts a worker among those that must give signs of life, at least as often as `patience`.
    #[must_use]
    pub fn worker(&self, worker: &'static str, patience: Duration) -> Arc<Beat> {
        let beat = Arc::new(Beat { worker, patience, last: Mutex::new(Instant::now()) });
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).push(Arc::clone(&beat));
        beat
    }

    /// A worker that ends in order is missed by nobody.
    pub fn ended(&self, beat: &Arc<Beat>) {
        self.beats.lock().unwrap_or_else(PoisonError::into_inner).retain(|other| !Arc::ptr_eq(beat, other));
    }

    /// For each kind of worker, how long the one that has been silent longest has been.
    #[must_use]
    pub fn silences(&self) -> Vec<(&'static str, Duration)> {
        let mut silences: Vec<(&'static str, Duration)> = Vec::new();
        for beat in self.beats.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            let silence = beat.silent_for();
            match silences.iter_mut().find(|(worker, _)| *worker == beat.worker) {
                Some((_, longest)) => *longest = silence.max(*longest),
                None => silences.push((beat.worker, silence)),
            }
        }
        silences
    }

    /// The workers that have been silent for longer than they may be.
    #[must_use]
    pub fn missing(&self) -> Vec<(&'static str, Duration)> {
        let beats = self.beats.lock().unwrap_or_else(PoisonError::into_inner);
        let silent = |beat: &&Arc<Beat>| beat.silent_for() > beat.patience;
        beats.iter().filter(silent).map(|beat| (beat.worker, beat.silent_for())).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_worker_without_a_sign_of_life_is_missed_until_it_ends() {
        let metrics = Metrics::default();
        let (patient, impatient) =
            (metrics.worker("passes", Duration::MAX), metrics.worker("passes", Duration::ZERO));
        std::thread::yield_now();
        assert_eq!(metrics.missing().iter().map(|(worker, _)| *worker).collect::<Vec<_>>(), ["passes"]);
        patient.beat();
        let silences = metrics.silences();
        assert_eq!(silences.len(), 1, "one kind of worker");
        assert!(silences[0].1 >= patient.silent_for(), "and the one that is silent longest counts");
        metrics.ended(&impatient);
        assert_eq!(metrics.missing(), []);
    }
}
