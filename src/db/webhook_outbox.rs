//! Deliveries to webhooks: queued from the feed, claimed under a lease, noted under the same lease.
//!
//! What is sent is the feed, so only a position is queued. An endpoint has its own few slots, and a single one while it
//! fails: a slow or broken one takes nothing from another.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Db, DbError, audit};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::{OrganizationId, WebhookId};
use crate::domain::reason::Reason;
use crate::domain::webhook::{DeliveryState, GIVE_UP, LEASE, Stopped, Verdict, rest_after, wait_after};

/// Deliveries that one endpoint is sent at a time.
const SLOTS: i32 = 4;

/// Of one endpoint, so many are queued ahead; the feed keeps the rest.
const QUEUED_AHEAD: i64 = 1_000;

/// The right to make one delivery, until the lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Whose feed it is from.
    pub organization: OrganizationId,
    /// To which endpoint.
    pub webhook: WebhookId,
    /// Its number in the feed; below zero, a test.
    pub position: i64,
    /// Where it goes.
    pub url: String,
    /// Which of its secrets is in force.
    pub generation: i32,
    /// Until when the one before signs as well.
    pub old_until: Option<DateTime<Utc>>,
    /// When it was queued.
    pub queued_at: DateTime<Utc>,
    /// Attempts charged, this one included.
    pub attempts: i32,
    /// The number of its row among the attempts.
    pub attempt: i32,
    /// What proves that it is ours.
    pub lease: Uuid,
}

impl Db {
    /// Queues what the feeds have for endpoints that are not that far yet; says for how many there was something.
    ///
    /// # Errors
    /// What the database says.
    pub async fn queue_deliveries(&self, now: DateTime<Utc>) -> Result<u64, DbError> {
        Ok(sqlx::query!(
            r#"WITH behind AS (
                   SELECT w.organization_id, w.id, w.kinds, w.position AS after
                   FROM webhooks w JOIN feeds f ON f.organization_id = w.organization_id
                   WHERE w.stopped IS NULL AND w.position < f.last_position
                     AND (SELECT count(*) FROM (SELECT FROM webhook_deliveries d
                          WHERE d.organization_id = w.organization_id AND d.webhook_id = w.id AND d.state = 'queued'
                          LIMIT $2) ahead) < $2
                   ORDER BY w.position LIMIT 50 FOR NO KEY UPDATE OF w SKIP LOCKED),
               batch AS (
                   SELECT b.organization_id, b.id, t.position, cardinality(b.kinds) = 0 OR t.kind = ANY(b.kinds) AS wanted
                   FROM behind b CROSS JOIN LATERAL (
                       SELECT position, kind FROM transitions
                       WHERE transitions.organization_id = b.organization_id AND transitions.position > b.after
                       ORDER BY transitions.position LIMIT $2) t),
               queued AS (
                   INSERT INTO webhook_deliveries (organization_id, webhook_id, position, state, queued_at, next_attempt_at)
                   SELECT organization_id, id, position, 'queued', $1, $1 FROM batch WHERE wanted
                   ON CONFLICT DO NOTHING)
               UPDATE webhooks w SET position = m.last
               FROM (SELECT organization_id, id, max(position) AS last FROM batch GROUP BY organization_id, id) m
               WHERE w.organization_id = m.organization_id AND w.id = m.id"#,
            now,
            QUEUED_AHEAD
        )
        .execute(self.pool())
        .await?
        .rows_affected())
    }

    /// Takes back what workers that died or hang still hold, and says how many deliveries that were.
    ///
    /// # Errors
    /// What the database says.
    pub async fn take_over_deliveries(&self, now: DateTime<Utc>) -> Result<u64, DbError> {
        Ok(sqlx::query!(
            r#"WITH lost AS (
                   SELECT organization_id, webhook_id, position, lease FROM webhook_deliveries
                   WHERE state = 'sending' AND leased_until <= $1 ORDER BY leased_until LIMIT 200 FOR UPDATE SKIP LOCKED),
               attempt AS (
                   UPDATE webhook_attempts a SET finished_at = $1,
                          detail = 'The program stopped before it could note the outcome; it may have arrived.'
                   FROM lost WHERE a.organization_id = lost.organization_id AND a.webhook_id = lost.webhook_id
                        AND a.position = lost.position AND a.lease = lost.lease AND a.finished_at IS NULL)
               UPDATE webhook_deliveries d SET state = 'queued', lease = NULL, leased_until = NULL, next_attempt_at = $1
               FROM lost WHERE d.organization_id = lost.organization_id AND d.webhook_id = lost.webhook_id
                    AND d.position = lost.position AND d.lease = lost.lease"#,
            now
        )
        .execute(self.pool())
        .await?
        .rows_affected())
    }

    /// Claims up to `limit` due deliveries under one lease, of each endpoint as many as it has slots free.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_deliveries(&self, limit: i64, now: DateTime<Utc>) -> Result<Vec<Claim>, DbError> {
        let lease = self.entropy().id();
        let rows = sqlx::query!(
            r#"WITH ready AS (
                   SELECT w.organization_id, w.id, w.url, w.generation, w.old_until,
                          greatest(0, CASE WHEN w.failures > 0 THEN 1 ELSE $4 END - (
                              SELECT count(*) FROM webhook_deliveries s WHERE s.organization_id = w.organization_id
                                AND s.webhook_id = w.id AND s.state = 'sending')) AS slots
                   FROM webhooks w WHERE w.stopped IS NULL AND (w.paused_until IS NULL OR w.paused_until <= $1)),
               due AS (
                   SELECT r.organization_id, r.id, d.position
                   FROM ready r CROSS JOIN LATERAL (
                       SELECT position FROM webhook_deliveries q
                       WHERE q.organization_id = r.organization_id AND q.webhook_id = r.id AND q.state = 'queued'
                         AND q.next_attempt_at <= $1
                       ORDER BY q.next_attempt_at, q.position LIMIT r.slots FOR UPDATE SKIP LOCKED) d
                   LIMIT $2),
               claimed AS (
                   UPDATE webhook_deliveries d SET state = 'sending', lease = $3, leased_until = $5, next_attempt_at = NULL,
                          attempts = d.attempts + 1
                   FROM due WHERE d.organization_id = due.organization_id AND d.webhook_id = due.id
                        AND d.position = due.position
                   RETURNING d.organization_id, d.webhook_id, d.position, d.queued_at, d.attempts),
               attempt AS (
                   INSERT INTO webhook_attempts (organization_id, webhook_id, position, attempt, lease, started_at)
                   SELECT organization_id, webhook_id, position,
                          (SELECT coalesce(max(a.attempt), 0) + 1 FROM webhook_attempts a
                           WHERE a.organization_id = c.organization_id AND a.webhook_id = c.webhook_id
                             AND a.position = c.position), $3, $1
                   FROM claimed c
                   RETURNING organization_id, webhook_id, position, attempt)
               SELECT c.organization_id, c.webhook_id, c.position, c.queued_at, c.attempts, a.attempt, r.url, r.generation,
                      r.old_until
               FROM claimed c
               JOIN attempt a ON a.organization_id = c.organization_id AND a.webhook_id = c.webhook_id AND a.position = c.position
               JOIN ready r ON r.organization_id = c.organization_id AND r.id = c.webhook_id
               ORDER BY c.organization_id, c.webhook_id, c.position"#,
            now,
            limit,
            lease,
            SLOTS,
            now + LEASE
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Claim {
                organization: OrganizationId(row.organization_id),
                webhook: WebhookId(row.webhook_id),
                position: row.position,
                url: row.url,
                generation: row.generation,
                old_until: row.old_until,
                queued_at: row.queued_at,
                attempts: row.attempts,
                attempt: row.attempt,
                lease,
            })
            .collect())
    }

    /// Writes what became of a delivery, while its lease is still ours; false when it is not. An endpoint that does not
    /// want it any more, or took nothing for three days, is stopped.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_delivery(
        &self,
        claim: &Claim,
        verdict: &Verdict,
        now: DateTime<Utc>,
    ) -> Result<bool, DbError> {
        let jitter = self.entropy().bytes()[0];
        let (organization, webhook) = (claim.organization.0, claim.webhook.0);
        let mut tx = self.pool().begin().await?;
        let before = sqlx::query!(
            "SELECT failures, failing_since, stopped FROM webhooks WHERE organization_id = $1 AND id = $2 FOR NO KEY UPDATE",
            organization,
            webhook
        )
        .fetch_one(&mut *tx)
        .await?;
        let failures = before.failures.saturating_add(1);
        let (state, next, status, detail) = match verdict {
            Verdict::Delivered(status) => (DeliveryState::Delivered, None, Some(*status), None),
            Verdict::Gone => {
                // It waits with what comes after it, should the endpoint be started again.
                (DeliveryState::Queued, Some(now), Some(410), Some("Gone: the endpoint wants no more."))
            }
            Verdict::Released => {
                (DeliveryState::Queued, Some(now), None, Some("Not tried: the program was stopping."))
            }
            Verdict::Failed { status, detail, retry_after } => {
                if now - claim.queued_at >= GIVE_UP {
                    (DeliveryState::Dead, None, *status, Some(detail.as_str()))
                } else {
                    let wait = wait_after(claim.attempts, jitter).max(rest_after(1, *retry_after, jitter));
                    (DeliveryState::Queued, Some(now + wait), *status, Some(detail.as_str()))
                }
            }
        };
        let uncharged = i32::from(*verdict == Verdict::Released);
        let written = sqlx::query!(
            "UPDATE webhook_deliveries SET state = $5, next_attempt_at = $6, lease = NULL, leased_until = NULL,
                    ended_at = CASE WHEN $5 IN ('delivered', 'dead') THEN $7::timestamptz END, attempts = attempts - $8
             WHERE organization_id = $1 AND webhook_id = $2 AND position = $3 AND state = 'sending' AND lease = $4",
            organization,
            webhook,
            claim.position,
            claim.lease,
            state.as_str(),
            next,
            now,
            uncharged
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if written == 0 {
            tx.rollback().await?;
            return Ok(false);
        }
        sqlx::query!(
            "UPDATE webhook_attempts SET finished_at = $5, status = $6, detail = $7
             WHERE organization_id = $1 AND webhook_id = $2 AND position = $3 AND attempt = $4",
            organization,
            webhook,
            claim.position,
            claim.attempt,
            now,
            status.map(i32::from),
            detail
        )
        .execute(&mut *tx)
        .await?;
        let stop = match verdict {
            Verdict::Gone => Some(Stopped::Gone),
            Verdict::Failed { .. } if before.failing_since.is_some_and(|since| now - since >= GIVE_UP) => {
                Some(Stopped::Failing)
            }
            _ => None,
        };
        match verdict {
            Verdict::Delivered(_) if before.failures > 0 => works(&mut tx, claim).await?,
            Verdict::Failed { retry_after, .. } => {
                let until = now + rest_after(failures, *retry_after, jitter);
                fails(&mut tx, claim, failures, until, now).await?;
            }
            Verdict::Delivered(_) | Verdict::Gone | Verdict::Released => {}
        }
        if let Some(why) = stop.filter(|_| before.stopped.is_none()) {
            stop_webhook(&mut tx, claim.organization, claim.webhook, why, Actor::System, now).await?;
        }
        tx.commit().await?;
        Ok(true)
    }

    /// Deletes deliveries that were taken a month ago; at most 10,000.
    ///
    /// # Errors
    /// What the database says.
    pub async fn sweep_deliveries(&self) -> Result<u64, DbError> {
        let old = self.now().await? - chrono::Duration::days(30);
        Ok(sqlx::query!(
            "DELETE FROM webhook_deliveries WHERE (organization_id, webhook_id, position) IN
                (SELECT organization_id, webhook_id, position FROM webhook_deliveries
                 WHERE state = 'delivered' AND ended_at < $1 LIMIT 10000)",
            old
        )
        .execute(self.pool())
        .await?
        .rows_affected())
    }
}

async fn works(connection: &mut PgConnection, claim: &Claim) -> Result<(), DbError> {
    sqlx::query!(
        "UPDATE webhooks SET failures = 0, failing_since = NULL, paused_until = NULL WHERE organization_id = $1 AND id = $2",
        claim.organization.0,
        claim.webhook.0
    )
    .execute(connection)
    .await?;
    Ok(())
}

async fn fails(
    connection: &mut PgConnection,
    claim: &Claim,
    failures: i32,
    until: DateTime<Utc>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "UPDATE webhooks SET failures = $3, failing_since = coalesce(failing_since, $5),
                paused_until = greatest(paused_until, $4)
         WHERE organization_id = $1 AND id = $2",
        claim.organization.0,
        claim.webhook.0,
        failures,
        until,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}

/// Stops an endpoint, which is not stopped yet, and records it. What is queued for it waits.
pub(super) async fn stop_webhook(
    connection: &mut PgConnection,
    organization: OrganizationId,
    webhook: WebhookId,
    why: Stopped,
    actor: Actor,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    sqlx::query!(
        "UPDATE webhooks SET stopped = $3, stopped_at = $4 WHERE organization_id = $1 AND id = $2",
        organization.0,
        webhook.0,
        why.as_str(),
        now
    )
    .execute(&mut *connection)
    .await?;
    let record = Record::new(now, actor, Act::Stopped, Subject::Webhook(webhook), why.reason())
        .states(Some("running"), Some("stopped"));
    audit::append_to_organization(connection, organization, &record).await
}

impl Stopped {
    /// As the audit has it.
    fn reason(self) -> Reason {
        match self {
            Self::Staff => Reason::SetUp,
            Self::Gone => Reason::EndpointGone,
            Self::Failing => Reason::EndpointFailing,
        }
    }
}
