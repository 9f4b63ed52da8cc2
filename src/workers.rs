//! The loops around the workers' ticks. A hint wakes them early, polling with jitter is the truth, a panic or an
//! error costs one tick, and stopping happens only between two.

use std::future::{Future, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

pub mod feed;
pub mod housekeeping;
pub mod imports;
pub mod passes;
pub mod reconciler;
pub mod webhooks;

use crate::clock::Entropy;
use crate::db::{Db, DbError};
use crate::domain::delivery::Channel;
use crate::messages::{self, Mailer};
use crate::metrics::Metrics;

/// What to do after a tick.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// There may be more to do.
    Again,
    /// Until a hint comes or the poll interval is over.
    Rest,
    /// The same, but for no longer than this.
    RestAtMost(Duration),
}

/// A worker: everything it does is done in ticks.
pub trait Worker: Send {
    /// What it is called in the log.
    const NAME: &'static str;

    /// Does what is due, at most for a few seconds.
    fn tick(&mut self) -> impl Future<Output = Result<Next, DbError>> + Send;

    /// Waits for a hint that there is work.
    fn hint(&self) -> impl Future<Output = ()> + Send;

    /// A tick and the rest after it take no longer: whoever is silent for longer is missed.
    const PATIENCE: Duration = Duration::from_mins(5);

    /// Lets go of what it holds; called once, at the end.
    fn end(&mut self) -> impl Future<Output = ()> + Send {
        std::future::ready(())
    }
}

/// The longest rest after errors in a row.
const LONGEST_REST: Duration = Duration::from_secs(30);

/// Runs `worker` until `stopping`, resting for `poll` (give or take a quarter) when there is nothing to do. `metrics` say
/// whether it lives.
pub async fn run<W: Worker>(
    mut worker: W,
    poll: Duration,
    metrics: Arc<Metrics>,
    stopping: CancellationToken,
) {
    let mut errors = 0_u32;
    let beat = metrics.worker(W::NAME, W::PATIENCE);
    while !stopping.is_cancelled() {
        let ticked = contained(worker.tick()).await;
        beat.beat();
        let rest = match ticked {
            Some(Ok(next)) => {
                errors = 0;
                match next {
                    Next::Again => continue,
                    Next::Rest => jittered(poll),
                    Next::RestAtMost(most) => jittered(poll).min(most),
                }
            }
            failed => {
                errors = errors.saturating_add(1);
                if let Some(Err(error)) = failed {
                    tracing::warn!(worker = W::NAME, %error, errors, "a tick failed");
                } else {
                    tracing::error!(worker = W::NAME, errors, "a tick panicked");
                }
                jittered(poll.saturating_mul(1 << errors.min(8))).min(LONGEST_REST)
            }
        };
        tokio::select! {
            () = stopping.cancelled() => {}
            () = tokio::time::sleep(rest) => {}
            // After an error a hint would only repeat it.
            () = worker.hint(), if errors == 0 => {}
        }
    }
    worker.end().await;
    metrics.ended(&beat);
}

/// The tick's result, or `None` when it panicked: the worker lives on.
async fn contained<T>(tick: impl Future<Output = T>) -> Option<T> {
    let mut tick = pin!(tick);
    poll_fn(|context| match catch_unwind(AssertUnwindSafe(|| tick.as_mut().poll(context))) {
        Ok(Poll::Ready(result)) => Poll::Ready(Some(result)),
        Ok(Poll::Pending) => Poll::Pending,
        Err(_) => Poll::Ready(None),
    })
    .await
}

/// 75 % to 125 %, so that processes do not poll in step.
fn jittered(rest: Duration) -> Duration {
    rest.mul_f64(0.75 + f64::from(Entropy.bytes()[0]) / 510.0)
}

// ── the workers ────────────────────────────────────────────────────────────────────────────────────────────

/// How often the outbox is looked into without a hint.
const MESSAGES_POLL: Duration = Duration::from_secs(2);

/// Connections to the mail server at a time, from one process: few enough for every server.
const MAILERS: usize = 4;

impl Worker for Mailer {
    const NAME: &'static str = "messages";

    async fn tick(&mut self) -> Result<Next, DbError> {
        Ok(match Mailer::tick(self).await? {
            messages::Outcome::Worked(_) => Next::Again,
            messages::Outcome::Idle | messages::Outcome::Paused(_) => Next::Rest,
        })
    }

    async fn hint(&self) {
        self.hinted().await;
    }

    async fn end(&mut self) {
        self.hang_up().await;
    }
}

/// Starts what empties the outbox: several where a mail server may be slow, one for the mailbox page.
pub fn start_mailers(
    into: &mut JoinSet<()>,
    db: &Db,
    settings: &Arc<messages::Settings>,
    stopping: &CancellationToken,
) {
    let count = if settings.channel() == Channel::Smtp { MAILERS } else { 1 };
    for _ in 0..count {
        let mailer = Mailer::new(db, Arc::clone(settings), stopping.clone());
        into.spawn(run(mailer, MESSAGES_POLL, Arc::clone(db.metrics()), stopping.clone()));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use tokio::sync::Notify;

    struct Scripted {
        ticks: VecDeque<fn() -> Result<Next, DbError>>,
        hint: Arc<Notify>,
        stopping: CancellationToken,
        ended: Arc<Notify>,
    }

    impl Worker for Scripted {
        const NAME: &'static str = "scripted";

        async fn tick(&mut self) -> Result<Next, DbError> {
            if let Some(tick) = self.ticks.pop_front() {
                return tick();
            }
            self.stopping.cancel();
            Ok(Next::Rest)
        }

        async fn hint(&self) {
            self.hint.notified().await;
        }

        async fn end(&mut self) {
            self.ended.notify_one();
        }
    }

    #[tokio::test]
    async fn a_worker_survives_errors_and_panics_and_ends_when_told() {
        let (stopping, ended) = (CancellationToken::new(), Arc::new(Notify::new()));
        let worker = Scripted {
            ticks: VecDeque::from([
                (|| Err(DbError::NotFound)) as fn() -> _,
                || panic!("on purpose"),
                || Ok(Next::Again),
                || Ok(Next::RestAtMost(Duration::ZERO)),
            ]),
            hint: Arc::new(Notify::new()),
            stopping: stopping.clone(),
            ended: Arc::clone(&ended),
        };
        run(worker, Duration::from_millis(1), Arc::default(), stopping).await;
        ended.notified().await;
    }

    #[tokio::test]
    async fn a_hint_ends_a_rest_of_any_length() {
        let (stopping, ended) = (CancellationToken::new(), Arc::new(Notify::new()));
        let hint = Arc::new(Notify::new());
        let worker = Scripted {
            ticks: VecDeque::from([(|| Ok(Next::Rest)) as fn() -> _]),
            hint: Arc::clone(&hint),
            stopping: stopping.clone(),
            ended,
        };
        hint.notify_one();
        run(worker, Duration::from_hours(1), Arc::default(), stopping).await;
    }
}
