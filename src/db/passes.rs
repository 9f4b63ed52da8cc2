//! Pass requests, passes and skips, and the instants at which something is due.

use std::collections::BTreeMap;

use chrono::{DateTime, Duration, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::allocation::{PassOutcome, Skip, SkipReason};
use crate::domain::ids::EventId;

/// The channel on which other processes learn that a pass is wanted.
pub const PASS_CHANNEL: &str = "fairlist_pass";

/// Sets the event's pass request, and notifies only when it was not set: many requests, one pass, one hint.
pub(super) async fn request(
    connection: &mut PgConnection,
    event: EventId,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let newly_set = sqlx::query_scalar!(
        r#"INSERT INTO pass_requests AS r (event_id, requested_at) VALUES ($1, $2)
           ON CONFLICT (event_id) DO UPDATE SET requested_at = excluded.requested_at, leased_until = NULL
           WHERE r.requested_at IS NULL
           RETURNING event_id"#,
        event.0,
        now
    )
    .fetch_optional(&mut *connection)
    .await?;
    if newly_set.is_some() {
        sqlx::query!("SELECT pg_notify($1, $2)", PASS_CHANNEL, event.to_string())
            .execute(&mut *connection)
            .await?;
    }
    Ok(())
}

/// What one pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassRecord {
    /// Its number within the event.
    pub number: i64,
    /// When it first ended so.
    pub at: DateTime<Utc>,
    /// When it last ended so.
    pub last_at: DateTime<Utc>,
    /// How it ended.
    pub outcome: PassOutcome,
    /// How many offers it made.
    pub offered: i32,
    /// How many offers it ended because they were due.
    pub ended: i32,
    /// How many places were open when it began to choose.
    pub open_before: i32,
    /// The version of the rule it applied.
    pub policy_version: i32,
}

/// A pass as its row has it.
pub(super) struct PassRow {
    pub(super) number: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) last_at: DateTime<Utc>,
    pub(super) outcome: String,
    pub(super) offered: i32,
    pub(super) ended: i32,
    pub(super) open_before: i32,
    pub(super) policy_version: i32,
}

impl TryFrom<PassRow> for PassRecord {
    type Error = DbError;

    fn try_from(row: PassRow) -> Result<Self, DbError> {
        Ok(Self {
            number: row.number,
            at: row.at,
            last_at: row.last_at,
            outcome: word(PassOutcome::parse, "pass outcome", &row.outcome)?,
            offered: row.offered,
            ended: row.ended,
            open_before: row.open_before,
            policy_version: row.policy_version,
        })
    }
}

impl LockedEvent {
    /// Clears the event's pass request: this pass answers it. Whoever asks from now on waits for our lock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn answer_pass_request(&mut self) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            "UPDATE pass_requests SET requested_at = NULL, leased_until = NULL WHERE event_id = $1 AND requested_at IS NOT NULL",
            event.0
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Takes the number of the pass that is about to offer.
    ///
    /// # Errors
    /// What the database says.
    pub async fn next_pass_number(&mut self) -> Result<i64, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"UPDATE events SET next_pass = next_pass + 1 WHERE id = $1 RETURNING next_pass - 1 AS "number!""#,
            event.0
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// Writes down how a pass ended, before its offers. A pass that changed nothing and ended like the one before
    /// only moves that one's `last_at`, so that the nudge of every minute does not fill the table.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_pass(
        &mut self,
        outcome: PassOutcome,
        offered: usize,
        ended: usize,
        open_before: usize,
    ) -> Result<i64, DbError> {
        let (event, now, version) = (self.id(), self.now(), self.event().policy_version);
        sqlx::query!("UPDATE events SET last_pass_at = $2 WHERE id = $1", event.0, now)
            .execute(self.connection())
            .await?;
        if offered == 0 && ended == 0 {
            let repeated = sqlx::query_scalar!(
                "UPDATE passes SET last_at = $2 WHERE event_id = $1
                   AND number = (SELECT max(number) FROM passes WHERE event_id = $1)
                   AND outcome = $3 AND offered = 0 AND ended = 0 AND policy_version = $4
                   -- What came back since then was looked at now, and not before.
                   AND NOT EXISTS (SELECT FROM releases r WHERE r.event_id = $1 AND r.at >= passes.last_at)
                 RETURNING number",
                event.0,
                now,
                outcome.as_str(),
                version
            )
            .fetch_optional(self.connection())
            .await?;
            if let Some(number) = repeated {
                return Ok(number);
            }
        }
        let number = self.next_pass_number().await?;
        sqlx::query!(
            "INSERT INTO passes (event_id, number, at, last_at, outcome, offered, ended, open_before, policy_version)
             VALUES ($1, $2, $3, $3, $4, $5, $6, $7, $8)",
            event.0,
            number,
            now,
            outcome.as_str(),
            i32::try_from(offered).unwrap_or(i32::MAX),
            i32::try_from(ended).unwrap_or(i32::MAX),
            i32::try_from(open_before).unwrap_or(i32::MAX),
            version
        )
        .execute(self.connection())
        .await?;
        Ok(number)
    }

    /// Records who was passed over by a pass, a row per reason, where there is anybody; `left` is how many places of each
    /// kind were left. To be called after the chosen entries were moved, so that they are not among the eligible.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_skips(
        &mut self,
        pass: i64,
        skips: &[Skip],
        left: &BTreeMap<i32, i32>,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        for skip in skips {
            // At most two reasons a pass.
            match skip.reason {
                SkipReason::DoesNotFit { more_than } => {
                    sqlx::query!(
                        "INSERT INTO skips (event_id, pass_number, reason, party_above, band, round, rank, at)
                         SELECT $1, $2, 'does_not_fit', $3::integer, $4, $5, $6, $7
                         WHERE EXISTS (SELECT FROM generate_series($3::integer + 1, 100) AS size, LATERAL (
                             SELECT FROM entries WHERE event_id = $1 AND eligible AND wants = 0 AND party = size
                               AND (band, round, rank) < ($4, $5, $6) LIMIT 1) AS passed_over)",
                        event.0,
                        pass,
                        more_than,
                        skip.before.band,
                        skip.before.round,
                        skip.before.rank,
                        now
                    )
                    .execute(self.connection())
                    .await?;
                }
                SkipReason::DoesNotMatch { .. } => {
                    let (kinds, counts): (Vec<i32>, Vec<i32>) = left.iter().unzip();
                    sqlx::query!(
                        "INSERT INTO skips (event_id, pass_number, reason, kinds, counts, band, round, rank, at)
                         SELECT $1, $2, 'does_not_match', $3::integer[], $4::integer[], $5, $6, $7, $8
                         WHERE EXISTS (
                             SELECT FROM wanted_in_line($1) p LEFT JOIN wants w ON w.event_id = $1 AND w.id = p.wants, LATERAL (
                                 SELECT FROM entries WHERE event_id = $1 AND eligible AND wants = p.wants AND party = p.party
                                   AND (band, round, rank) < ($5, $6, $7) LIMIT 1) AS passed_over
                             WHERE p.party > coalesce((SELECT sum(n) FROM unnest($3::integer[], $4::integer[]) AS u(kind, n)
                                                       WHERE p.wants = 0 OR u.kind = ANY(w.kinds)), 0))",
                        event.0,
                        pass,
                        &kinds,
                        &counts,
                        skip.before.band,
                        skip.before.round,
                        skip.before.rank,
                        now
                    )
                    .execute(self.connection())
                    .await?;
                }
                SkipReason::DeclinedThese { since } => {
                    sqlx::query!(
                        "INSERT INTO skips (event_id, pass_number, reason, declined_since, band, round, rank, at)
                         SELECT $1, $2, 'declined_these', $3::timestamptz, $4, $5, $6, $7
                         WHERE EXISTS (SELECT FROM entries WHERE event_id = $1 AND eligible AND declined_at >= $3
                                         AND (band, round, rank) < ($4, $5, $6))",
                        event.0,
                        pass,
                        since,
                        skip.before.band,
                        skip.before.round,
                        skip.before.rank,
                        now
                    )
                    .execute(self.connection())
                    .await?;
                }
            }
        }
        Ok(())
    }

    /// Whether the list has an eligible entry that could take one of the open places, or, under `strict`, a head
    /// that waits for more: then the open places are reserved for it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn somebody_could_take(&mut self, open: i64, strict: bool) -> Result<bool, DbError> {
        let event = self.id();
        somebody_could_take(self.connection(), event, open, strict).await
    }
}

async fn somebody_could_take(
    connection: &mut PgConnection,
    event: EventId,
    open: i64,
    strict: bool,
) -> Result<bool, DbError> {
    Ok(sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM entries e WHERE e.event_id = $1 AND e.eligible AND ($3 OR e.party <= $2)
               AND (e.declined_at IS NULL OR e.declined_at < (
                    SELECT max(opened_at) FROM places WHERE event_id = $1 AND state = 'open'))) AS "could!""#,
        event.0,
        i32::try_from(open).unwrap_or(i32::MAX),
        strict
    )
    .fetch_one(connection)
    .await?)
}

impl Db {
    /// The same question without the lock, for pages.
    ///
    /// # Errors
    /// What the database says.
    pub async fn somebody_could_take(
        &self,
        event: EventId,
        open: i64,
        strict: bool,
    ) -> Result<bool, DbError> {
        let mut connection = self.pool().acquire().await?;
        somebody_could_take(&mut connection, event, open, strict).await
    }

    /// Leases up to `limit` requested passes for `lease`, oldest first. Workers share requests, never people:
    /// inside an event nobody is skipped by a lock. Each comes with the instant since which it is asked for.
    ///
    /// # Errors
    /// What the database says.
    pub async fn lease_pass_requests(
        &self,
        limit: i64,
        lease: Duration,
    ) -> Result<Vec<(EventId, DateTime<Utc>)>, DbError> {
        let now = self.now().await?;
        let rows = sqlx::query!(
            "UPDATE pass_requests SET leased_until = $2 WHERE event_id IN (
                 SELECT event_id FROM pass_requests
                 WHERE requested_at IS NOT NULL AND (leased_until IS NULL OR leased_until <= $1)
                 ORDER BY requested_at LIMIT $3 FOR UPDATE SKIP LOCKED)
             RETURNING event_id, requested_at",
            now,
            now + lease,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (EventId(row.event_id), row.requested_at.unwrap_or(now))).collect())
    }

    /// Gives leases back, so that somebody else may run these passes at once.
    ///
    /// # Errors
    /// What the database says.
    pub async fn release_pass_leases(&self, events: &[EventId]) -> Result<(), DbError> {
        let ids: Vec<Uuid> = events.iter().map(|event| event.0).collect();
        sqlx::query!("UPDATE pass_requests SET leased_until = NULL WHERE event_id = ANY($1)", &ids)
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Requests a pass for every event with something due, and for every served list if `nudge`: returns how many
    /// were newly requested.
    ///
    /// # Errors
    /// What the database says.
    pub async fn request_due_passes(&self, nudge: bool) -> Result<u64, DbError> {
        let now = self.now().await?;
        Ok(sqlx::query!(
            r#"INSERT INTO pass_requests AS r (event_id, requested_at)
               SELECT DISTINCT event_id, $1::timestamptz FROM (
                   (SELECT o.event_id FROM offers o WHERE o.state = 'pending' AND o.expires_at <= $1
                      AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id
                                        AND (s.starts_at IS NULL OR s.starts_at > $1)) LIMIT 10000)
                   UNION ALL (SELECT event_id FROM entries WHERE lapses_at <= $1 LIMIT 10000)
                   UNION ALL (SELECT event_id FROM entries WHERE paused_until <= $1 LIMIT 10000)
                   UNION ALL (SELECT event_id FROM entries WHERE until <= $1 AND NOT until_passed AND state = 'waiting' LIMIT 10000)
                   UNION ALL (SELECT id FROM events WHERE list_opens_at <= $1)
                   UNION ALL (SELECT id FROM events WHERE list_freezes_at <= $1)
                   UNION ALL (SELECT id FROM events WHERE state = 'published' AND starts_at <= $1 - interval '1 day')
                   UNION ALL (SELECT id FROM events WHERE rule_due_at <= $1)
                   UNION ALL (SELECT e.id FROM events e JOIN policies p ON p.event_id = e.id AND p.version = e.policy_version
                              WHERE $2 AND e.state = 'published' AND e.list_state <> 'closed'
                                AND p.window_seconds IS NOT NULL AND (e.starts_at IS NULL OR e.starts_at > $1))) due
               ON CONFLICT (event_id) DO UPDATE SET requested_at = excluded.requested_at, leased_until = NULL
               WHERE r.requested_at IS NULL"#,
            now,
            nudge
        )
        .execute(self.pool())
        .await?
        .rows_affected())
    }

    /// The next instant at which something is due, if anything is. While clocks stand still, only polling finds the start
    /// of their events.
    ///
    /// # Errors
    /// What the database says.
    pub async fn next_due(&self) -> Result<Option<DateTime<Utc>>, DbError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT least(
                   (SELECT o.expires_at FROM offers o WHERE o.state = 'pending'
                      AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id)
                    ORDER BY o.expires_at LIMIT 1),
                   (SELECT min(lapses_at) FROM entries WHERE lapses_at IS NOT NULL),
                   (SELECT min(paused_until) FROM entries WHERE paused_until IS NOT NULL),
                   (SELECT min(until) FROM entries WHERE until IS NOT NULL AND NOT until_passed AND state = 'waiting'),
                   (SELECT min(list_opens_at) FROM events WHERE list_opens_at IS NOT NULL),
                   (SELECT min(list_freezes_at) FROM events WHERE list_freezes_at IS NOT NULL),
                   (SELECT min(rule_due_at) FROM events WHERE rule_due_at IS NOT NULL),
                   (SELECT min(starts_at) + interval '1 day' FROM events
                    WHERE state = 'published' AND starts_at IS NOT NULL)) AS "due""#
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// The last pass of an event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_pass(&self, event: EventId) -> Result<Option<PassRecord>, DbError> {
        let row = sqlx::query_as!(
            PassRow,
            "SELECT number, at, last_at, outcome, offered, ended, open_before, policy_version FROM passes
             WHERE event_id = $1 ORDER BY number DESC LIMIT 1",
            event.0
        )
        .fetch_optional(self.pool())
        .await?;
        row.map(PassRecord::try_from).transpose()
    }
}

/// Hints from other processes that a pass was requested.
pub struct PassListener(sqlx::postgres::PgListener);

impl Db {
    /// Listens for pass requests. Whoever listens scans once after this, for what was said before.
    ///
    /// # Errors
    /// When the database cannot be reached.
    pub async fn listen_for_passes(&self) -> Result<PassListener, DbError> {
        let mut listener = sqlx::postgres::PgListener::connect_with(self.listener()).await?;
        listener.listen(PASS_CHANNEL).await?;
        Ok(PassListener(listener))
    }
}

impl PassListener {
    /// Waits for a hint; a lost connection counts as one, for nobody knows what was missed.
    ///
    /// # Errors
    /// When the database cannot be reached again.
    pub async fn hinted(&mut self) -> Result<(), DbError> {
        self.0.try_recv().await?;
        Ok(())
    }
}
