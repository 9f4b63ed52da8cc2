//! Webhooks as staff know them: endpoints, their secrets' generations, and what became of each delivery.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::word;
use super::idempotency::{done_before, remember};
use super::webhook_outbox::stop_webhook;
use super::{Db, DbError, audit};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::{OrganizationId, WebhookId};
use crate::domain::reason::Reason;
use crate::domain::transition::Kind;
use crate::domain::webhook::{DeliveryState, OVERLAP, Stopped};

/// Deliveries that are sent again in one act.
const REPLAYED_AT_ONCE: i64 = 10_000;

/// Where transitions are sent.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Webhook {
    /// Its id.
    pub id: WebhookId,
    /// Where they go.
    pub url: String,
    /// Only these kinds; of every kind where none is named.
    pub kinds: Vec<Kind>,
    /// Which of its secrets is in force.
    pub generation: i32,
    /// Until when the one before signs as well.
    pub old_until: Option<DateTime<Utc>>,
    /// When it was added.
    pub created_at: DateTime<Utc>,
    /// Up to which number of the feed deliveries were queued.
    pub position: i64,
    /// Why nothing is sent any more, and since when.
    pub stopped: Option<(Stopped, DateTime<Utc>)>,
    /// Failures in a row.
    pub failures: i32,
    /// Since when it takes nothing.
    pub failing_since: Option<DateTime<Utc>>,
    /// Until when it is left alone.
    pub paused_until: Option<DateTime<Utc>>,
    /// Deliveries that wait or are on their way.
    pub waiting: i64,
    /// Deliveries that were given up.
    pub dead: i64,
    /// When one was taken last.
    pub delivered_at: Option<DateTime<Utc>>,
}

/// A delivery in the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeliveryLine {
    /// Its number in the feed; below zero, a test.
    pub position: i64,
    /// What it tells of; nothing for a test.
    pub kind: Option<Kind>,
    /// Where it is in its life.
    pub state: DeliveryState,
    /// Since when it is tried.
    pub queued_at: DateTime<Utc>,
    /// When it is tried next.
    pub next_attempt_at: Option<DateTime<Utc>>,
    /// Attempts made.
    pub attempts: i64,
    /// When the last one was made.
    pub last_at: Option<DateTime<Utc>>,
    /// What the endpoint answered last.
    pub status: Option<i32>,
    /// What went wrong last.
    pub detail: Option<String>,
}

/// What came of asking for another secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotated {
    /// This generation is in force; the one before signs, too, for a day.
    To(i32),
    /// Somebody else has done so since the page was read.
    Elsewhere,
}

struct Row {
    id: Uuid,
    url: String,
    kinds: Vec<String>,
    generation: i32,
    old_until: Option<DateTime<Utc>>,
    created_at: DateTime<Utc>,
    position: i64,
    stopped: Option<String>,
    stopped_at: Option<DateTime<Utc>>,
    failures: i32,
    failing_since: Option<DateTime<Utc>>,
    paused_until: Option<DateTime<Utc>>,
    waiting: i64,
    dead: i64,
    delivered_at: Option<DateTime<Utc>>,
}

impl TryFrom<Row> for Webhook {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let stopped = row.stopped.map(|why| word(Stopped::parse, "reason to stop", &why)).transpose()?;
        Ok(Self {
            id: WebhookId(row.id),
            url: row.url,
            kinds: row.kinds.iter().filter_map(|kind| Kind::parse(kind)).collect(),
            generation: row.generation,
            old_until: row.old_until,
            created_at: row.created_at,
            position: row.position,
            stopped: stopped.zip(row.stopped_at),
            failures: row.failures,
            failing_since: row.failing_since,
            paused_until: row.paused_until,
            waiting: row.waiting,
            dead: row.dead,
            delivered_at: row.delivered_at,
        })
    }
}

impl Db {
    /// Adds an endpoint, from now on. The id is the form's, or the act's: sent twice, it is there once, and the second time says false.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        url: &str,
        kinds: &[Kind],
        by: Actor,
    ) -> Result<bool, DbError> {
        let now = self.now().await?;
        let kinds: Vec<String> = kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
        let mut tx = self.pool().begin().await?;
        let added = sqlx::query!(
            "INSERT INTO webhooks (organization_id, id, url, kinds, created_at, position)
             SELECT $1, $2, $3, $4, $5, coalesce((SELECT last_position FROM feeds WHERE organization_id = $1), 0)
             ON CONFLICT DO NOTHING",
            organization.0,
            webhook.0,
            url,
            &kinds,
            now
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if added == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        record(&mut tx, organization, webhook, by, Act::Added, now).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// The organization's endpoints, or the one of this id, in the order in which they were added.
    ///
    /// # Errors
    /// What the database says.
    pub async fn webhooks(
        &self,
        organization: OrganizationId,
        only: Option<WebhookId>,
    ) -> Result<Vec<Webhook>, DbError> {
        sqlx::query_as!(
            Row,
            r#"SELECT id, url, kinds, generation, old_until, created_at, position, stopped, stopped_at, failures,
                      failing_since, paused_until,
                      (SELECT count(*) FROM webhook_deliveries d WHERE d.organization_id = w.organization_id
                         AND d.webhook_id = w.id AND d.state IN ('queued', 'sending')) AS "waiting!",
                      (SELECT count(*) FROM webhook_deliveries d WHERE d.organization_id = w.organization_id
                         AND d.webhook_id = w.id AND d.state = 'dead') AS "dead!",
                      (SELECT ended_at FROM webhook_deliveries d WHERE d.organization_id = w.organization_id
                         AND d.webhook_id = w.id AND d.state = 'delivered' ORDER BY position DESC LIMIT 1) AS delivered_at
               FROM webhooks w WHERE organization_id = $1 AND ($2::uuid IS NULL OR id = $2) ORDER BY created_at, id"#,
            organization.0,
            only.map(|webhook| webhook.0)
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(Webhook::try_from)
        .collect()
    }

    /// One endpoint of the organization.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when it has none with this id.
    pub async fn webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
    ) -> Result<Webhook, DbError> {
        self.webhooks(organization, Some(webhook)).await?.pop().ok_or(DbError::NotFound)
    }

    /// Puts the next secret in force, if `generation` still is; both sign for a day.
    ///
    /// # Errors
    /// What the database says.
    pub async fn rotate_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        generation: i32,
        by: Actor,
    ) -> Result<Rotated, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(generation) = done_before(&mut tx).await? {
            return Ok(Rotated::To(generation));
        }
        let rotated = sqlx::query!(
            "UPDATE webhooks SET generation = generation + 1, old_until = $4
             WHERE organization_id = $1 AND id = $2 AND generation = $3",
            organization.0,
            webhook.0,
            generation,
            now + OVERLAP
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if rotated == 0 {
            tx.rollback().await?;
            return Ok(Rotated::Elsewhere);
        }
        record(&mut tx, organization, webhook, by, Act::SecretRotated, now).await?;
        remember(&mut tx, &(generation + 1)).await?;
        tx.commit().await?;
        Ok(Rotated::To(generation + 1))
    }

    /// Stops sending to an endpoint; false when that is so already. What is queued waits.
    ///
    /// # Errors
    /// What the database says.
    pub async fn stop_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        by: Actor,
    ) -> Result<bool, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(did) = done_before(&mut tx).await? {
            return Ok(did);
        }
        let running = lock(&mut tx, organization, webhook).await?;
        if running {
            stop_webhook(&mut tx, organization, webhook, Stopped::Staff, by, now).await?;
        }
        remember(&mut tx, &running).await?;
        tx.commit().await?;
        Ok(running)
    }

    /// Sends to a stopped endpoint again, from where it stopped: nothing is left out. False when it is not stopped.
    ///
    /// # Errors
    /// What the database says.
    pub async fn start_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        by: Actor,
    ) -> Result<bool, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(did) = done_before(&mut tx).await? {
            return Ok(did);
        }
        let running = lock(&mut tx, organization, webhook).await?;
        if !running {
            sqlx::query!(
                "UPDATE webhooks SET stopped = NULL, stopped_at = NULL, failures = 0, failing_since = NULL, paused_until = NULL
                 WHERE organization_id = $1 AND id = $2",
                organization.0,
                webhook.0
            )
            .execute(&mut *tx)
            .await?;
            // What waited meanwhile has its three days from now on.
            sqlx::query!(
                "UPDATE webhook_deliveries SET queued_at = $3, next_attempt_at = $3, attempts = 0
                 WHERE organization_id = $1 AND webhook_id = $2 AND state = 'queued'",
                organization.0,
                webhook.0,
                now
            )
            .execute(&mut *tx)
            .await?;
            record(&mut tx, organization, webhook, by, Act::Started, now).await?;
        }
        remember(&mut tx, &!running).await?;
        tx.commit().await?;
        self.hints().webhook.notify_one();
        Ok(!running)
    }

    /// Queues a test; says under which number it is in the log, below zero.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such endpoint.
    pub async fn test_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        by: Actor,
    ) -> Result<i64, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(position) = done_before(&mut tx).await? {
            return Ok(position);
        }
        let number = sqlx::query_scalar!(
            "UPDATE webhooks SET tests = tests + 1 WHERE organization_id = $1 AND id = $2 RETURNING tests",
            organization.0,
            webhook.0
        )
        .fetch_one(&mut *tx)
        .await?;
        sqlx::query!(
            "INSERT INTO webhook_deliveries (organization_id, webhook_id, position, state, queued_at, next_attempt_at)
             VALUES ($1, $2, $3, 'queued', $4, $4)",
            organization.0,
            webhook.0,
            -number,
            now
        )
        .execute(&mut *tx)
        .await?;
        record(&mut tx, organization, webhook, by, Act::Tested, now).await?;
        remember(&mut tx, &-number).await?;
        tx.commit().await?;
        self.hints().webhook.notify_one();
        Ok(-number)
    }

    /// Queues deliveries again: those of the feed's numbers `first` to `last` that the endpoint wants, whether they were
    /// taken, given up, or are from before it was added, or those alone that were given up; at most ten thousand. Says how
    /// many.
    ///
    /// # Errors
    /// What the database says.
    pub async fn replay_webhook(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        (first, last): (i64, i64),
        only_dead: bool,
        by: Actor,
    ) -> Result<u64, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(queued) = done_before(&mut tx).await? {
            return Ok(queued);
        }
        let queued = if only_dead {
            // What was given up is few, whatever the feed has become.
            sqlx::query!(
                "UPDATE webhook_deliveries SET state = 'queued', queued_at = $5, next_attempt_at = $5, attempts = 0, ended_at = NULL
                 WHERE (organization_id, webhook_id, position) IN (
                     SELECT organization_id, webhook_id, position FROM webhook_deliveries
                     WHERE organization_id = $1 AND webhook_id = $2 AND state = 'dead' AND position BETWEEN $3 AND $4
                     ORDER BY position LIMIT $6)",
                organization.0,
                webhook.0,
                first,
                last,
                now,
                REPLAYED_AT_ONCE
            )
            .execute(&mut *tx)
            .await?
            .rows_affected()
        } else {
            sqlx::query!(
            "INSERT INTO webhook_deliveries AS d (organization_id, webhook_id, position, state, queued_at, next_attempt_at)
             SELECT w.organization_id, w.id, t.position, 'queued', $5, $5
             FROM webhooks w JOIN transitions t ON t.organization_id = w.organization_id
             WHERE w.organization_id = $1 AND w.id = $2 AND t.position BETWEEN $3 AND least($4, w.position)
               AND (cardinality(w.kinds) = 0 OR t.kind = ANY(w.kinds))
             ORDER BY t.position LIMIT $6
             ON CONFLICT (organization_id, webhook_id, position) DO UPDATE
             SET state = 'queued', queued_at = excluded.queued_at, next_attempt_at = excluded.next_attempt_at, attempts = 0,
                 ended_at = NULL
             WHERE d.state IN ('delivered', 'dead')",
            organization.0,
            webhook.0,
            first,
            last,
            now,
            REPLAYED_AT_ONCE
        )
        .execute(&mut *tx)
        .await?
        .rows_affected()
        };
        if queued > 0 {
            record(&mut tx, organization, webhook, by, Act::Replayed, now).await?;
        }
        remember(&mut tx, &queued).await?;
        tx.commit().await?;
        self.hints().webhook.notify_one();
        Ok(queued)
    }

    /// The log of an endpoint, newest first: those in this state, before this position.
    ///
    /// # Errors
    /// What the database says.
    pub async fn webhook_deliveries(
        &self,
        organization: OrganizationId,
        webhook: WebhookId,
        state: Option<DeliveryState>,
        before: Option<i64>,
        limit: i64,
    ) -> Result<Vec<DeliveryLine>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT d.position, d.state, d.queued_at, d.next_attempt_at, t.kind AS "kind?", a.started_at AS "last_at?",
                      a.status, a.detail, coalesce(a.attempt, 0)::bigint AS "attempts!"
               FROM webhook_deliveries d
               LEFT JOIN transitions t ON t.organization_id = d.organization_id AND t.position = d.position
               LEFT JOIN LATERAL (SELECT attempt, started_at, status, detail FROM webhook_attempts
                   WHERE organization_id = d.organization_id AND webhook_id = d.webhook_id AND position = d.position
                   ORDER BY attempt DESC LIMIT 1) a ON true
               WHERE d.organization_id = $1 AND d.webhook_id = $2 AND ($3::text IS NULL OR d.state = $3)
                 AND ($4::bigint IS NULL OR d.position < $4)
               ORDER BY d.position DESC LIMIT $5"#,
            organization.0,
            webhook.0,
            state.map(DeliveryState::as_str),
            before,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(DeliveryLine {
                    position: row.position,
                    kind: row.kind.as_deref().and_then(Kind::parse),
                    state: word(DeliveryState::parse, "delivery", &row.state)?,
                    queued_at: row.queued_at,
                    next_attempt_at: row.next_attempt_at,
                    attempts: row.attempts,
                    last_at: row.last_at,
                    status: row.status,
                    detail: row.detail,
                })
            })
            .collect()
    }
}

/// Locks an endpoint and says whether it runs.
async fn lock(
    connection: &mut PgConnection,
    organization: OrganizationId,
    webhook: WebhookId,
) -> Result<bool, DbError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT stopped IS NULL AS "running!" FROM webhooks WHERE organization_id = $1 AND id = $2 FOR NO KEY UPDATE"#,
        organization.0,
        webhook.0
    )
    .fetch_one(connection)
    .await?)
}

async fn record(
    connection: &mut PgConnection,
    organization: OrganizationId,
    webhook: WebhookId,
    by: Actor,
    act: Act,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let mut record = Record::new(now, by, act, Subject::Webhook(webhook), Reason::SetUp);
    match act {
        Act::Added => record = record.states(None, Some("running")),
        Act::Started => record = record.states(Some("stopped"), Some("running")),
        _ => {}
    }
    audit::append_to_organization(connection, organization, &record).await
}
