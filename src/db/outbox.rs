//! Sending: messages are claimed under a lease, and whatever is written about them later must still hold it.
//!
//! Workers share the rows by SKIP LOCKED in one short statement; a claim is charged as an attempt at once, so that
//! a message that kills its worker runs into the limit. Mail is at-least-once: a worker that dies between the
//! server's yes and our note leaves a message that is sent again, under the same Message-ID.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::audit::append_to_organization;
use super::{Db, DbError};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::delivery::{
    ATTEMPT_LIMIT, Channel, DeliveryOutcome, LEASE, MessageState, Verdict, channel_rest, wait_after,
};
use crate::domain::ids::{ContactId, EventId, MessageId, OrganizationId, StaffId};
use crate::domain::reason::Reason;

/// The right to send one message, until the lease ends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// The event it is about; the nil id for none.
    pub event: EventId,
    /// The message.
    pub message: MessageId,
    /// The word of its occasion, unparsed: an unknown one must not hurt the others.
    pub occasion: String,
    /// What it is about.
    pub subject: Uuid,
    /// What it says, unparsed.
    pub facts: serde_json::Value,
    /// Attempts charged, this one included.
    pub attempts: i32,
    /// The number of its row among the deliveries.
    pub attempt: i32,
    /// What proves that it is ours.
    pub lease: Uuid,
    /// When it was written.
    pub made_at: DateTime<Utc>,
}

/// What became of a claim.
#[derive(Clone, Debug)]
pub struct Finished {
    /// Which.
    pub claim: Claim,
    /// Where it went, as far as known.
    pub contact: Option<ContactId>,
    /// What came of it.
    pub verdict: Verdict,
}

/// What writing the outcomes did.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Noted {
    /// Messages whose lease was no longer ours: nothing about them was written.
    pub late: Vec<MessageId>,
    /// An address stopped or began to work, and with it perhaps the chances of entries.
    pub contacts_changed: bool,
}

/// How the mail server is doing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelTrouble {
    /// Failures in a row.
    pub failures: i32,
    /// Since the first of them.
    pub since: DateTime<Utc>,
    /// Nothing is tried before.
    pub paused_until: DateTime<Utc>,
    /// What the server said, or did not say.
    pub reason: String,
    /// It is sure that nobody can be told; a single silence may have been a single connection's.
    pub down: bool,
}

/// What came of asking for a dead letter to be sent again.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replayed {
    /// It is queued again.
    Queued,
    /// It is not, or no longer, a dead letter.
    NotDead,
}

impl Db {
    /// Takes back what workers that died or hang still hold, and says how many messages that were.
    ///
    /// # Errors
    /// What the database says.
    pub async fn take_over_expired_leases(&self, now: DateTime<Utc>) -> Result<usize, DbError> {
        let taken = sqlx::query!(
            r#"WITH lost AS (
                   SELECT event_id, id, lease, attempts >= $2 AS spent FROM messages
                   WHERE state = 'sending' AND leased_until <= $1
                   ORDER BY leased_until LIMIT 200 FOR UPDATE SKIP LOCKED),
               attempt AS (
                   UPDATE deliveries d SET outcome = 'unknown', finished_at = $1,
                          detail = 'The program stopped before it could note the outcome; it may have arrived.'
                   FROM lost WHERE d.event_id = lost.event_id AND d.message_id = lost.id AND d.lease = lost.lease
                        AND d.outcome IS NULL)
               UPDATE messages m SET lease = NULL, leased_until = NULL,
                      state = CASE WHEN lost.spent THEN 'dead' ELSE 'queued' END,
                      next_attempt_at = CASE WHEN lost.spent THEN NULL ELSE $1::timestamptz END,
                      note = CASE WHEN lost.spent THEN 'The program stopped each time it tried to send this.' END
               FROM lost WHERE m.event_id = lost.event_id AND m.id = lost.id
               RETURNING m.id"#,
            now,
            ATTEMPT_LIMIT
        )
        .fetch_all(self.pool())
        .await?;
        Ok(taken.len())
    }

    /// Claims up to `limit` due messages under one lease: codes first, then offers, then the rest by age.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_messages(
        &self,
        channel: Channel,
        limit: i64,
        now: DateTime<Utc>,
    ) -> Result<Vec<Claim>, DbError> {
        let lease = self.entropy().id();
        let rows = sqlx::query!(
            r#"WITH due AS (
                   SELECT event_id, id FROM messages WHERE state = 'queued' AND next_attempt_at <= $1
                   ORDER BY urgency, next_attempt_at LIMIT $2 FOR UPDATE SKIP LOCKED),
               claimed AS (
                   UPDATE messages m SET state = 'sending', lease = $3, leased_until = $4, next_attempt_at = NULL,
                          attempts = m.attempts + 1
                   FROM due WHERE m.event_id = due.event_id AND m.id = due.id
                   RETURNING m.event_id, m.id, m.occasion, m.subject_id, m.facts, m.attempts, m.urgency, m.made_at),
               attempt AS (
                   INSERT INTO deliveries (event_id, message_id, attempt, channel, lease, started_at)
                   SELECT event_id, id, (SELECT coalesce(max(d.attempt), 0) + 1 FROM deliveries d
                                         WHERE d.event_id = claimed.event_id AND d.message_id = claimed.id), $5, $3, $1
                   FROM claimed
                   RETURNING event_id, message_id, attempt)
               SELECT c.event_id, c.id, c.occasion, c.subject_id, c.facts, c.attempts, c.made_at, a.attempt
               FROM claimed c JOIN attempt a ON a.event_id = c.event_id AND a.message_id = c.id
               ORDER BY c.urgency, c.made_at, c.id"#,
            now,
            limit,
            lease,
            now + LEASE,
            channel.as_str(),
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| Claim {
                event: EventId(row.event_id),
                message: MessageId(row.id),
                occasion: row.occasion,
                subject: row.subject_id,
                facts: row.facts,
                attempts: row.attempts,
                attempt: row.attempt,
                lease,
                made_at: row.made_at,
            })
            .collect())
    }

    /// Says that the worker still lives. False: the lease is no longer ours, so stop.
    ///
    /// # Errors
    /// What the database says.
    pub async fn extend_lease(&self, claim: &Claim, now: DateTime<Utc>) -> Result<bool, DbError> {
        let changed = sqlx::query!(
            "UPDATE messages SET leased_until = $4
             WHERE event_id = $1 AND id = $2 AND state = 'sending' AND lease = $3",
            claim.event.0,
            claim.message.0,
            claim.lease,
            now + LEASE
        )
        .execute(self.pool())
        .await?
        .rows_affected();
        Ok(changed == 1)
    }

    /// Writes what became of claims, as one set, each only while its lease is still ours.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_outcomes(&self, finished: &[Finished], now: DateTime<Utc>) -> Result<Noted, DbError> {
        if finished.is_empty() {
            return Ok(Noted::default());
        }
        let columns = Columns::of(finished, now, self.entropy().bytes()[0]);
        let row = sqlx::query!(
            r#"WITH done AS (
                   SELECT * FROM unnest($2::uuid[], $3::uuid[], $4::integer[], $5::uuid[], $6::text[], $7::timestamptz[],
                                        $8::text[], $9::text[], $10::text[], $11::uuid[], $12::boolean[], $13::boolean[])
                       AS f(event_id, id, attempt, lease, state, next_attempt_at, note, outcome, detail, contact_id,
                            charged, contact_refused)),
               written AS (
                   UPDATE messages m SET state = done.state, next_attempt_at = done.next_attempt_at, note = done.note,
                          told_at = CASE WHEN done.state = 'told' THEN $1::timestamptz END,
                          attempts = m.attempts - CASE WHEN done.charged THEN 0 ELSE 1 END,
                          lease = NULL, leased_until = NULL
                   FROM done WHERE m.event_id = done.event_id AND m.id = done.id AND m.state = 'sending'
                        AND m.lease = done.lease
                   RETURNING done.*),
               attempt AS (
                   UPDATE deliveries d SET outcome = w.outcome, detail = w.detail, finished_at = $1,
                          contact_id = w.contact_id
                   FROM written w WHERE d.event_id = w.event_id AND d.message_id = w.id AND d.attempt = w.attempt
                        AND d.lease = w.lease),
               failing AS (
                   UPDATE contacts c SET failing_since = $1, failure = coalesce(w.detail, 'refused')
                   FROM written w WHERE c.id = w.contact_id AND w.contact_refused AND c.failing_since IS NULL
                   RETURNING c.id),
               working AS (
                   UPDATE contacts c SET failing_since = NULL, failure = NULL
                   FROM written w WHERE c.id = w.contact_id AND w.outcome = 'accepted' AND c.failing_since IS NOT NULL
                   RETURNING c.id)
               SELECT coalesce((SELECT array_agg(id) FROM written), '{}') AS "written!",
                      EXISTS (SELECT FROM failing) OR EXISTS (SELECT FROM working) AS "contacts_changed!""#,
            now,
            &columns.event,
            &columns.message,
            &columns.attempt,
            &columns.lease,
            &columns.state,
            &columns.next_attempt_at as &[Option<DateTime<Utc>>],
            &columns.note as &[Option<String>],
            &columns.outcome,
            &columns.detail as &[Option<String>],
            &columns.contact as &[Option<Uuid>],
            &columns.charged,
            &columns.contact_refused,
        )
        .fetch_one(self.pool())
        .await?;
        let late = finished
            .iter()
            .map(|done| done.claim.message)
            .filter(|id| !row.written.contains(&id.0))
            .collect();
        Ok(Noted { late, contacts_changed: row.contacts_changed })
    }

    /// Queues a dead letter of the organization again, with all its attempts before it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn replay_message(
        &self,
        organization: OrganizationId,
        message: MessageId,
        actor: Actor,
    ) -> Result<Replayed, DbError> {
        let replayed = self.replay(organization, Some(message), actor, Subject::Message(message)).await?;
        Ok(if replayed == 1 { Replayed::Queued } else { Replayed::NotDead })
    }

    /// Queues the dead letters of the organization again, at most a thousand at a time; says how many.
    ///
    /// # Errors
    /// What the database says.
    pub async fn replay_dead_letters(
        &self,
        organization: OrganizationId,
        by: StaffId,
    ) -> Result<u64, DbError> {
        self.replay(organization, None, Actor::Staff(by), Subject::Staff(by)).await
    }

    async fn replay(
        &self,
        organization: OrganizationId,
        message: Option<MessageId>,
        actor: Actor,
        subject: Subject,
    ) -> Result<u64, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        if let Some(changed) = super::idempotency::done_before(&mut tx).await? {
            return Ok(changed);
        }
        let changed = sqlx::query!(
            r#"WITH dead AS (
                   SELECT event_id, id FROM messages
                   WHERE organization_id = $1 AND state = 'dead' AND ($2::uuid IS NULL OR id = $2)
                   ORDER BY made_at LIMIT 1000 FOR UPDATE SKIP LOCKED)
               UPDATE messages m SET state = 'queued', next_attempt_at = $3, attempts = 0, note = NULL
               FROM dead WHERE m.event_id = dead.event_id AND m.id = dead.id AND m.state = 'dead'"#,
            organization.0,
            message.map(|id| id.0),
            now,
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if changed > 0 {
            super::idempotency::remember(&mut tx, &changed).await?;
            let mut record = Record::new(now, actor, Act::Replayed, subject, Reason::TellingFailed);
            if message.is_none() {
                record = record.to(format!("{changed} messages"));
            }
            append_to_organization(&mut tx, organization, &record).await?;
        }
        tx.commit().await?;
        tracing::info!(by = actor.kind(), count = changed, "dead letters are sent again");
        if changed > 0 {
            self.hints().message.notify_one();
        }
        Ok(changed)
    }

    /// What is wrong with the mail server, if anything is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn channel_trouble(&self) -> Result<Option<ChannelTrouble>, DbError> {
        Ok(sqlx::query_as!(
            ChannelTrouble,
            r#"SELECT failures, since, paused_until, reason, down AS "down!" FROM channels WHERE channel = 'smtp'"#
        )
        .fetch_optional(self.pool())
        .await?)
    }

    /// Notes that the mail server does not work, and rests it. Workers that fail together count as one failure.
    ///
    /// # Errors
    /// What the database says.
    pub async fn channel_failed(
        &self,
        before: Option<&ChannelTrouble>,
        detail: &str,
        certain: bool,
        now: DateTime<Utc>,
    ) -> Result<(), DbError> {
        let failures = before.map_or(0, |trouble| trouble.failures).saturating_add(1);
        let rest = channel_rest(failures, self.entropy().bytes()[0]);
        let until = if certain || failures > 1 { now + rest } else { now };
        sqlx::query!(
            "INSERT INTO channels AS c (channel, failures, since, paused_until, reason) VALUES ('smtp', $1, $2, $3, $4)
             ON CONFLICT (channel) DO UPDATE
             SET failures = excluded.failures, paused_until = excluded.paused_until, reason = excluded.reason
             WHERE c.failures = $1 - 1",
            failures,
            now,
            until,
            detail
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }

    /// Notes that the mail server works: if nobody could be told until now, that is history, and every list is looked at.
    ///
    /// # Errors
    /// What the database says.
    pub async fn channel_works(&self, now: DateTime<Utc>) -> Result<(), DbError> {
        let asked = sqlx::query!(
            r#"WITH over AS (DELETE FROM channels WHERE channel = 'smtp' RETURNING channel, since, down),
                    outage AS (INSERT INTO outages (channel, since, until)
                               SELECT channel, since, $1 FROM over WHERE down AND since < $1 RETURNING since)
               INSERT INTO pass_requests AS r (event_id, requested_at)
               SELECT e.id, $1 FROM events e
               WHERE e.state = 'published' AND e.list_state <> 'closed' AND EXISTS (SELECT FROM over WHERE down)
               ORDER BY e.id
               ON CONFLICT (event_id) DO UPDATE SET requested_at = excluded.requested_at, leased_until = NULL
               WHERE r.requested_at IS NULL"#,
            now
        )
        .execute(self.pool())
        .await?
        .rows_affected();
        if asked > 0 {
            self.hints().pass.notify_one();
        }
        Ok(())
    }
}

/// Outcomes by column, ready for `unnest`.
#[derive(Default)]
struct Columns {
    event: Vec<Uuid>,
    message: Vec<Uuid>,
    attempt: Vec<i32>,
    lease: Vec<Uuid>,
    state: Vec<String>,
    next_attempt_at: Vec<Option<DateTime<Utc>>>,
    note: Vec<Option<String>>,
    outcome: Vec<String>,
    detail: Vec<Option<String>>,
    contact: Vec<Option<Uuid>>,
    charged: Vec<bool>,
    contact_refused: Vec<bool>,
}

impl Columns {
    fn of(finished: &[Finished], now: DateTime<Utc>, jitter: u8) -> Self {
        let mut columns = Self::default();
        for done in finished {
            columns.push(done, now, jitter);
        }
        columns
    }

    fn push(&mut self, done: &Finished, now: DateTime<Utc>, jitter: u8) {
        use {DeliveryOutcome as Outcome, MessageState as State};
        let later = |attempts| {
            if attempts >= ATTEMPT_LIMIT {
                (State::Dead, None)
            } else {
                (State::Queued, Some(now + wait_after(attempts, jitter)))
            }
        };
        let attempts = done.claim.attempts;
        let ((state, next_attempt_at), outcome, detail, charged) = match &done.verdict {
            Verdict::Accepted => ((State::Told, None), Outcome::Accepted, None, true),
            Verdict::Transient(detail) => (later(attempts), Outcome::Transient, Some(detail.as_str()), true),
            Verdict::Unknown(detail) => (later(attempts), Outcome::Unknown, Some(detail.as_str()), true),
            Verdict::Permanent { detail, .. } => {
                ((State::Dead, None), Outcome::Permanent, Some(detail.as_str()), true)
            }
            Verdict::Suppressed(why) => ((State::Suppressed, None), Outcome::Released, Some(*why), false),
            Verdict::Released(why) => ((State::Queued, Some(now)), Outcome::Released, Some(*why), false),
            // Not at once: the same connection would fail in the same way.
            Verdict::ChannelDown { detail, .. } => {
                let again = now + channel_rest(1, jitter);
                ((State::Queued, Some(again)), Outcome::Released, Some(detail.as_str()), false)
            }
        };
        let note = match state {
            State::Dead | State::Suppressed => detail,
            State::Queued | State::Sending | State::Told => None,
        };
        self.event.push(done.claim.event.0);
        self.message.push(done.claim.message.0);
        self.attempt.push(done.claim.attempt);
        self.lease.push(done.claim.lease);
        self.state.push(state.as_str().to_owned());
        self.next_attempt_at.push(next_attempt_at);
        self.note.push(note.map(str::to_owned));
        self.outcome.push(outcome.as_str().to_owned());
        self.detail.push(detail.map(str::to_owned));
        self.contact.push(done.contact.map(|id| id.0));
        self.charged.push(charged);
        self.contact_refused.push(matches!(done.verdict, Verdict::Permanent { contact_refused: true, .. }));
    }
}
