//! The worker that sends what is due: each delivery is a task of its own, so that a slow endpoint holds up only itself.

use std::sync::Arc;

use serde_json::json;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::Settings;
use super::call::{Caller, CallerError, Parcel};
use crate::db::webhook_outbox::Claim;
use crate::db::{Db, DbError};
use crate::domain::webhook::{Verdict, signatures};
use crate::failpoint;

/// Deliveries under way at a time, from one process. The slots of each endpoint are counted by the database.
const AT_ONCE: usize = 128;

/// What a tick did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    /// So many deliveries were begun or queued; there may be more.
    Worked(u64),
    /// Nothing is due, or nothing more can be begun.
    Idle,
}

/// Sends what the feeds have for webhooks.
pub struct Sender {
    db: Db,
    work: Arc<Work>,
    under_way: JoinSet<()>,
    stopping: CancellationToken,
}

/// What every delivery needs.
struct Work {
    db: Db,
    settings: Settings,
    caller: Caller,
    stopping: CancellationToken,
}

impl Sender {
    /// A worker on `db`; `stopping` tells it to come to an end.
    ///
    /// # Errors
    /// When TLS cannot be set up.
    pub fn new(db: &Db, settings: Settings, stopping: CancellationToken) -> Result<Self, CallerError> {
        let db = db.for_workers();
        let caller = Caller::new(&settings)?;
        let work = Arc::new(Work { db: db.clone(), settings, caller, stopping: stopping.clone() });
        Ok(Self { db, work, under_way: JoinSet::new(), stopping })
    }

    /// Queues what is new and begins what is due.
    ///
    /// # Errors
    /// What the database says.
    pub async fn tick(&mut self) -> Result<Outcome, DbError> {
        while let Some(ended) = self.under_way.try_join_next() {
            if let Err(problem) = ended {
                tracing::error!(%problem, "a delivery to a webhook ended badly; it is tried again after its lease");
            }
        }
        let now = self.db.now().await?;
        self.db.take_over_deliveries(now).await?;
        let mut worked = self.db.queue_deliveries(now).await?;
        let free = AT_ONCE - self.under_way.len().min(AT_ONCE);
        if free > 0 && !self.stopping.is_cancelled() {
            let claims = self.db.claim_deliveries(i64::try_from(free).unwrap_or(0), now).await?;
            worked += u64::try_from(claims.len()).unwrap_or(0);
            for claim in claims {
                let work = Arc::clone(&self.work);
                self.under_way.spawn(async move { work.deliver(&claim).await });
            }
        }
        Ok(if worked > 0 { Outcome::Worked(worked) } else { Outcome::Idle })
    }

    /// Waits until everything that was begun has ended.
    pub async fn finish(&mut self) {
        while self.under_way.join_next().await.is_some() {}
    }

    /// Waits until somebody in this process says that there is something to send.
    pub async fn hinted(&self) {
        self.db.hints().webhook.notified().await;
    }
}

impl Work {
    #[tracing::instrument(name = "webhook", skip_all, fields(webhook = %claim.webhook))]
    async fn deliver(&self, claim: &Claim) {
        failpoint::reach("webhook.claimed");
        let verdict = self.verdict(claim).await;
        if let Ok(verdict) = &verdict {
            self.db.metrics().webhook_called(verdict.as_str());
        }
        failpoint::reach("webhook.sent");
        let noted = match (verdict, self.db.now().await) {
            (Ok(verdict), Ok(now)) => self.db.note_delivery(claim, &verdict, now).await,
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        match noted {
            Ok(true) => {}
            Ok(false) => {
                tracing::warn!(webhook = %claim.webhook, position = claim.position, "the lease had ended before the outcome was known; nothing was written");
            }
            Err(error) => {
                tracing::warn!(webhook = %claim.webhook, position = claim.position, %error, "an outcome could not be noted");
            }
        }
        // A slot is free.
        self.db.hints().webhook.notify_one();
    }

    async fn verdict(&self, claim: &Claim) -> Result<Verdict, DbError> {
        let now = self.db.now().await?;
        let (id, body) = self.contents(claim).await?;
        let mut keys =
            vec![self.settings.secret.webhook_key(claim.organization, claim.webhook, claim.generation)];
        if claim.old_until.is_some_and(|until| now < until) {
            keys.push(self.settings.secret.webhook_key(
                claim.organization,
                claim.webhook,
                claim.generation - 1,
            ));
        }
        let timestamp = now.timestamp();
        let signatures = signatures(&keys, &id, timestamp, &body);
        let parcel = Parcel { id, timestamp, signatures, body };
        Ok(tokio::select! {
            verdict = self.caller.call(&claim.url, parcel, now) => verdict,
            () = self.stopping.cancelled() => Verdict::Released,
        })
    }

    /// The id and the body: the same as in the feed.
    async fn contents(&self, claim: &Claim) -> Result<(String, Vec<u8>), DbError> {
        if claim.position < 0 {
            let id = format!("test_{}_{}", claim.webhook.0.simple(), -claim.position);
            let body = json!({ "type": "webhook.test", "timestamp": claim.queued_at, "data": { "webhook_id": claim.webhook } });
            return Ok((id, body.to_string().into_bytes()));
        }
        let transition = self.db.transition(claim.organization, claim.position).await?;
        let body = serde_json::to_vec(&transition)
            .map_err(|problem| DbError::Unreadable("transition", problem.to_string()))?;
        Ok((transition.id(), body))
    }
}
