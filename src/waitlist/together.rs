//! Requests for the same event that arrive together are decided together, under one lock and in one commit.
//!
//! Nothing is awaited to fill a batch: whoever comes first starts one at once, and whoever comes while it is being
//! decided is in the next. So a single request is as fast as before, and a rush costs a fraction.

use std::collections::HashMap;
use std::future::Future;
use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::oneshot;
use tokio::time::Instant;

use super::Waitlist;
use super::answer::{Accept, AcceptOutcome, Begun, Decline, DeclineOutcome};
use super::join::{Join, JoinOutcome};
use crate::db::DbError;
use crate::db::idempotency::{Claim, claim};
use crate::domain::ids::EventId;
use crate::domain::offer::OfferState;

/// The most commands decided in one transaction: with a hundred, accepts cost a thirtieth of one alone.
const BATCH: usize = 100;

type Waiting<C, O> = Vec<(C, oneshot::Sender<Result<O, DbError>>)>;

/// The queues of one kind of command, by event.
#[derive(Debug)]
struct Queues<C, O>(Mutex<HashMap<EventId, Waiting<C, O>>>);

impl<C, O> Default for Queues<C, O> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<C, O> Queues<C, O>
where
    C: Clone + Send + Sync + 'static,
    O: Send + 'static,
{
    /// Queues the command; `true` for whoever has to start deciding.
    fn push(&self, event: EventId, command: C, answer: oneshot::Sender<Result<O, DbError>>) -> bool {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let first = !queues.contains_key(&event);
        queues.entry(event).or_default().push((command, answer));
        first
    }

    /// The next batch, or `None` when the queue is empty and closed.
    fn next(&self, event: EventId) -> Option<Waiting<C, O>> {
        let mut queues = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let queue = queues.get_mut(&event)?;
        if queue.is_empty() {
            queues.remove(&event);
            return None;
        }
        let rest = queue.split_off(queue.len().min(BATCH));
        Some(std::mem::replace(queue, rest))
    }

    async fn ask<F>(
        self: Arc<Self>,
        event: EventId,
        command: C,
        decide: impl Fn(Vec<C>) -> F + Send + Sync + 'static,
    ) -> Result<O, DbError>
    where
        F: Future<Output = Result<Vec<O>, DbError>> + Send,
    {
        let (answer, answered) = oneshot::channel();
        if self.push(event, command, answer) {
            let queues = Arc::clone(&self);
            // A task of its own: the first one's visitor may go away, the others' commands are decided all the same.
            tokio::spawn(async move {
                let guard = Emptied { queues: &queues, event };
                while let Some(batch) = queues.next(event) {
                    settle(batch, &decide).await;
                }
                std::mem::forget(guard);
            });
        }
        // The sender is dropped unanswered only if deciding panicked.
        answered.await.unwrap_or_else(|_| Err(DbError::CommitUnknown(sqlx::Error::WorkerCrashed)))
    }
}

/// Removes the queue if deciding panics, so that the next command starts afresh instead of waiting for nobody.
struct Emptied<'a, C, O> {
    queues: &'a Queues<C, O>,
    event: EventId,
}

impl<C, O> Drop for Emptied<'_, C, O> {
    fn drop(&mut self) {
        self.queues.0.lock().unwrap_or_else(PoisonError::into_inner).remove(&self.event);
    }
}

async fn settle<C: Clone, O, F>(batch: Waiting<C, O>, decide: &impl Fn(Vec<C>) -> F)
where
    F: Future<Output = Result<Vec<O>, DbError>>,
{
    let (commands, answers): (Vec<C>, Vec<_>) = batch.into_iter().unzip();
    match decide(commands.clone()).await {
        Ok(outcomes) => {
            for (answer, outcome) in answers.into_iter().zip(outcomes) {
                // Whoever went away does not hear it; it is done all the same.
                drop(answer.send(Ok(outcome)));
            }
        }
        Err(error) if answers.len() == 1 || error.concerns_all() => {
            for answer in answers {
                drop(answer.send(Err(error.again())));
            }
        }
        // One command may have spoilt it for the others: each is decided by itself.
        Err(_) => {
            for (command, answer) in commands.into_iter().zip(answers) {
                let outcome = decide(vec![command]).await;
                drop(answer.send(outcome.and_then(|mut outcomes| outcomes.pop().ok_or(DbError::NotFound))));
            }
        }
    }
}

/// Hot acts, decided together. Cheap to clone; clones share their queues.
#[derive(Clone, Debug)]
pub struct Together {
    waitlist: Waitlist,
    accepts: Arc<Queues<Accept, Begun>>,
    declines: Arc<Queues<Decline, DeclineOutcome>>,
    joins: Arc<Queues<(Join, Option<Claim>), JoinOutcome>>,
}

impl Together {
    /// Queues in front of this waitlist.
    #[must_use]
    pub fn new(waitlist: Waitlist) -> Self {
        Self { waitlist, accepts: Arc::default(), declines: Arc::default(), joins: Arc::default() }
    }

    /// Accepts an offer.
    ///
    /// # Errors
    /// As [`Waitlist::accept`].
    pub async fn accept(&self, event: EventId, command: Accept) -> Result<AcceptOutcome, DbError> {
        let at = Instant::now();
        let answer = self.accepted(event, command).await;
        let outcome = answer.as_ref().map_or("failed", AcceptOutcome::as_str);
        self.waitlist.db().metrics().accepted(outcome, at.elapsed());
        answer
    }

    async fn accepted(&self, event: EventId, command: Accept) -> Result<AcceptOutcome, DbError> {
        let mut begun = self.begin_accept(event, command).await?;
        if begun == Begun::Decided(AcceptOutcome::BeingConfirmed) {
            // A second tap: what the first one comes to is the answer to both, if it comes soon.
            match self.waitlist.outcome_soon(command.offer).await? {
                OfferState::Accepting => return Ok(AcceptOutcome::BeingConfirmed),
                OfferState::Pending => return Ok(AcceptOutcome::ServiceUnavailable),
                _ => begun = self.begin_accept(event, command).await?,
            }
        }
        // Whoever waits for a booking service waits for their own answer only.
        self.waitlist.finish_accept(begun).await
    }

    async fn begin_accept(&self, event: EventId, command: Accept) -> Result<Begun, DbError> {
        let waitlist = self.waitlist.clone();
        Arc::clone(&self.accepts)
            .ask(event, command, move |commands| {
                let waitlist = waitlist.clone();
                async move { waitlist.begin_accept(event, &commands).await }
            })
            .await
    }

    /// Declines an offer.
    ///
    /// # Errors
    /// As [`Waitlist::decline`].
    pub async fn decline(&self, event: EventId, command: Decline) -> Result<DeclineOutcome, DbError> {
        let waitlist = self.waitlist.clone();
        Arc::clone(&self.declines)
            .ask(event, command, move |commands| {
                let waitlist = waitlist.clone();
                async move { waitlist.decline(event, &commands).await }
            })
            .await
    }

    /// Puts somebody on the list.
    ///
    /// # Errors
    /// As [`Waitlist::join`].
    pub async fn join(&self, event: EventId, command: Join) -> Result<JoinOutcome, DbError> {
        let waitlist = self.waitlist.clone();
        let answer = Arc::clone(&self.joins)
            .ask(event, (command, claim()), move |commands| {
                let waitlist = waitlist.clone();
                async move { waitlist.join_once(event, &commands).await }
            })
            .await;
        self.waitlist.db().metrics().joined(answer.as_ref().map_or("failed", JoinOutcome::as_str));
        answer
    }
}
