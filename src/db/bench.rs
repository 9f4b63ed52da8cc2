//! The raw limit beside ours: the same work on the same tables as statements written by hand, and the data that
//! both work on. Only `fairlist bench` uses it, on a database of its own.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use sqlx::postgres::{PgConnectOptions, PgPoolOptions};
use sqlx::{AssertSqlSafe, Connection, Executor, PgConnection, PgPool};
use uuid::Uuid;

use super::DbError;
use crate::domain::ids::{EventId, OfferId, OrganizationId, PersonId};

/// What a raw pass runs, in order, between BEGIN and COMMIT.
pub const RAW_PASS: &[&str] = &[
    "SELECT id FROM events WHERE id = $1 FOR NO KEY UPDATE",
    "SELECT clock_timestamp()",
    "WITH place AS (SELECT id, row_number() OVER (ORDER BY number) AS n FROM places
                    WHERE event_id = $1 AND state = 'open' ORDER BY number LIMIT 1000),
          entry AS (SELECT id, person_id, band, round, rank, row_number() OVER (ORDER BY band, round, rank) AS n
                    FROM entries WHERE event_id = $1 AND eligible ORDER BY band, round, rank LIMIT 1000),
          pair AS MATERIALIZED (SELECT gen_random_uuid() AS offer_id, place.id AS place_id, entry.id AS entry_id,
                    entry.person_id, entry.band, entry.round, entry.rank, place.n FROM place JOIN entry USING (n)),
          made AS (INSERT INTO offers (event_id, id, entry_id, kind, state, party, pass_number, made_reason, policy_version,
                                       band, round, rank, made_at, expires_at, token_hash)
                   SELECT $1, offer_id, entry_id, 'hold', 'pending', 1, 1, 'first_in_order', 1, band, round, rank, $2,
                          $2 + interval '2 hours', sha256(offer_id::text::bytea) FROM pair),
          held AS (UPDATE places p SET state = 'held', offer_id = pair.offer_id, changed_at = $2 FROM pair
                   WHERE p.event_id = $1 AND p.id = pair.place_id),
          moved AS (UPDATE entries e SET state = 'offered', state_since = $2 FROM pair
                    WHERE e.event_id = $1 AND e.id = pair.entry_id),
          told AS (INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, facts, state,
                                         made_at, next_attempt_at)
                   SELECT $1, gen_random_uuid(), (SELECT organization_id FROM events WHERE id = $1), person_id, 'offer',
                          offer_id, jsonb_build_object('offer', offer_id, 'entry', entry_id), 'queued', $2, $2 FROM pair)
     INSERT INTO audit (event_id, seq, at, actor, act, subject, subject_id, from_state, to_state, reason, entry_id, order_key,
                        policy_version, hash)
     SELECT $1, (SELECT audit_seq FROM events WHERE id = $1) + 3 * (n - 1) + k, $2, 'system', 'offered', subject,
            CASE k WHEN 1 THEN offer_id WHEN 2 THEN entry_id ELSE place_id END, from_state, to_state, 'first_in_order',
            entry_id, band || '/' || round || '/' || rank, 1, sha256((offer_id::text || k)::bytea)
     FROM pair, (VALUES (1, 'offer', NULL, 'pending'), (2, 'entry', 'waiting', 'offered'), (3, 'place', 'open', 'held'))
                AS three(k, subject, from_state, to_state)",
    "UPDATE events SET audit_seq = audit_seq + 3000, last_pass_at = $2 WHERE id = $1",
];

/// What a raw accept runs, in order, between BEGIN and COMMIT.
pub const RAW_ACCEPT: &[&str] = &[
    "SELECT id FROM events WHERE id = $1 FOR NO KEY UPDATE",
    "SELECT clock_timestamp()",
    "UPDATE offers SET state = 'accepted', ended_at = $3, end_reason = 'accepted', decided_at = $3
     WHERE event_id = $1 AND id = $2 AND state = 'pending' AND expires_at > $3",
    "UPDATE entries SET state = 'accepted', state_since = $3
     WHERE event_id = $1 AND id = (SELECT entry_id FROM offers WHERE event_id = $1 AND id = $2) AND state = 'offered'",
    "INSERT INTO bookings (event_id, id, place_id, person_id, offer_id, reference, state, source, booked_at)
     SELECT $1, $4, p.id, e.person_id, $2, 'RAW', 'confirmed', 'offer', $3
     FROM places p JOIN offers o ON o.event_id = p.event_id AND o.id = p.offer_id
          JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
     WHERE p.event_id = $1 AND p.offer_id = $2",
    "UPDATE places SET state = 'booked', offer_id = NULL, booking_id = $4, changed_at = $3 WHERE event_id = $1 AND offer_id = $2",
    "INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, state, made_at, next_attempt_at)
     SELECT $1, $4, v.organization_id, e.person_id, 'accepted', $2, 'queued', $3, $3
     FROM events v, offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
     WHERE v.id = $1 AND o.event_id = $1 AND o.id = $2",
    "WITH head AS (UPDATE events SET audit_seq = audit_seq + 1 WHERE id = $1 RETURNING audit_seq)
     INSERT INTO audit (event_id, seq, at, actor, act, subject, subject_id, from_state, to_state, reason, hash)
     SELECT $1, audit_seq, $3, 'person', 'accepted', 'offer', $2, 'pending', 'accepted', 'accepted', sha256($2::text::bytea)
     FROM head",
];

/// What a raw draw runs, in order, between BEGIN and COMMIT: the same pool, digest, order and first ranks.
pub const RAW_DRAW: &[&str] = &[
    "SELECT id FROM events WHERE id = $1 FOR NO KEY UPDATE",
    "SELECT clock_timestamp()",
    "INSERT INTO draw_chains (event_id, number, commitment, announced_at)
     SELECT $1, 1, sha256('chain'), $2 ON CONFLICT DO NOTHING",
    "WITH pool AS MATERIALIZED (SELECT id, arrival FROM entries WHERE event_id = $1 AND eligible),
          packed AS MATERIALIZED (SELECT string_agg(uuid_send(id), '' ORDER BY arrival) AS ids, count(*)::integer AS n FROM pool),
          frozen AS MATERIALIZED (SELECT ids, n, sha256(ids) AS digest FROM packed),
          ranked AS MATERIALIZED (SELECT string_agg(uuid_send(id), '' ORDER BY sha256(digest || uuid_send(id))) AS ids
                                  FROM pool, frozen)
     INSERT INTO draws (event_id, number, policy_version, cause, reason, frozen_at, pool, pool_size, pool_digest, chain, link,
                        secret, ranking, drawn_at, first_rank, applied)
     SELECT $1, 1, 1, 'staff', 'set_up', $2, frozen.ids, n, digest, 1, 1, sha256('secret'), ranked.ids, $2, 1, 5000
     FROM frozen, ranked",
    "UPDATE entries e SET band = -10000, rank = (300000 + k) << 20, line_rank = e.rank
     FROM (SELECT k, encode(substring(ranking FROM (k - 1) * 16 + 1 FOR 16), 'hex')::uuid AS id
           FROM draws, generate_series(1, 5000) k WHERE event_id = $1 AND number = 1 AND drawn_at <= $2) r
     WHERE e.event_id = $1 AND e.id = r.id",
];

/// What a raw thousand of calls runs, in order, between BEGIN and COMMIT.
pub const RAW_CALLS: &[&str] = &[
    "SELECT id FROM events WHERE id = $1 FOR NO KEY UPDATE",
    "SELECT clock_timestamp()",
    "WITH pair AS MATERIALIZED (SELECT gen_random_uuid() AS offer_id, id AS entry_id, person_id, band, round, rank,
                                       row_number() OVER (ORDER BY band, round, rank) AS n
                                FROM entries WHERE event_id = $1 AND eligible
                                  AND party <= (SELECT count(*) FROM places WHERE event_id = $1 AND state = 'open')
                                ORDER BY band, round, rank LIMIT 1000),
          made AS (INSERT INTO offers (event_id, id, entry_id, kind, state, party, pass_number, made_reason, policy_version,
                                       band, round, rank, made_at, expires_at, token_hash, told_for)
                   SELECT $1, offer_id, entry_id, 'call', 'pending', 1, 1, 'everybody_called', 1, band, round, rank, $2,
                          $2 + interval '2 hours', sha256(offer_id::text::bytea), $2 FROM pair),
          moved AS (UPDATE entries e SET state = 'offered', state_since = $2 FROM pair
                    WHERE e.event_id = $1 AND e.id = pair.entry_id),
          told AS (INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, facts, state,
                                         made_at, next_attempt_at)
                   SELECT $1, gen_random_uuid(), (SELECT organization_id FROM events WHERE id = $1), person_id, 'call',
                          offer_id, jsonb_build_object('offer', offer_id, 'entry', entry_id), 'queued', $2, $2 FROM pair)
     INSERT INTO audit (event_id, seq, at, actor, act, subject, subject_id, from_state, to_state, reason, entry_id, order_key,
                        policy_version, hash)
     SELECT $1, (SELECT audit_seq FROM events WHERE id = $1) + 2 * (n - 1) + k, $2, 'system', 'offered', subject,
            CASE k WHEN 1 THEN offer_id ELSE entry_id END, from_state, to_state, 'everybody_called', entry_id,
            band || '/' || round || '/' || rank, 1, sha256((offer_id::text || k)::bytea)
     FROM pair, (VALUES (1, 'offer', NULL, 'pending'), (2, 'entry', 'waiting', 'offered')) AS two(k, subject, from_state, to_state)",
    "UPDATE events SET audit_seq = audit_seq + 2000, last_pass_at = $2 WHERE id = $1",
];

/// A database that only this benchmark uses.
#[derive(Debug)]
pub struct BenchDatabase {
    server: PgConnectOptions,
    name: String,
    pool: PgPool,
}

/// An offer that is to be accepted.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    /// Which.
    pub offer: OfferId,
    /// Whose.
    pub person: PersonId,
}

impl BenchDatabase {
    /// Creates it beside the one that `server` names, with the migrations applied.
    ///
    /// # Errors
    /// When the server cannot be reached or does not let us.
    pub async fn create(server: &PgConnectOptions) -> Result<Self, DbError> {
        let name = format!("fairlist_bench_{}", std::process::id());
        let mut admin = PgConnection::connect_with(server).await?;
        admin.execute(AssertSqlSafe(format!("CREATE DATABASE {name}"))).await?;
        admin.close().await?;
        let pool = PgPoolOptions::new().max_connections(20).connect_lazy_with(server.clone().database(&name));
        super::migrate::migrate(&server.clone().database(&name))
            .await
            .map_err(|error| DbError::Other(sqlx::Error::Protocol(error.to_string())))?;
        Ok(Self { server: server.clone(), name, pool })
    }

    /// How to reach it.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.server.clone().database(&self.name)
    }

    /// Removes it.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn drop(self) -> Result<(), DbError> {
        self.pool.close().await;
        let mut admin = PgConnection::connect_with(&self.server).await?;
        admin.execute(AssertSqlSafe(format!("DROP DATABASE IF EXISTS {}", self.name))).await?;
        Ok(())
    }

    /// Fills an event's list with `waiting` people who want one place each; none is open.
    ///
    /// # Errors
    /// What the database says.
    pub async fn fill(
        &self,
        event: EventId,
        organization: OrganizationId,
        waiting: i64,
        places: i64,
    ) -> Result<(), DbError> {
        let now: DateTime<Utc> = sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(&self.pool).await?;
        for statement in [
            "INSERT INTO persons (id, organization_id, name, created_at)
             SELECT gen_random_uuid(), $2, 'Person ' || n, $3 FROM generate_series(1, $4::bigint) n WHERE $1::uuid IS NOT NULL",
            "INSERT INTO entries (event_id, id, person_id, state, arrival, rank, party, source, joined_at, vouched, state_since)
             SELECT $1, gen_random_uuid(), id, 'waiting', n, n << 20, 1, 'import', $3, true, $3
             FROM (SELECT id, row_number() OVER () AS n FROM persons WHERE organization_id = $2 LIMIT $4) people",
            "UPDATE events SET next_arrival = $4 + 1, next_rank = $4 + 1
             WHERE id = $1 AND organization_id = $2 AND created_at <= $3::timestamptz",
        ] {
            sqlx::query(statement)
                .bind(event.0)
                .bind(organization.0)
                .bind(now)
                .bind(waiting)
                .execute(&self.pool)
                .await?;
        }
        sqlx::query(
            "INSERT INTO places (event_id, id, number, state, opened_at, changed_at)
             SELECT $1, gen_random_uuid(), n, 'open', $2, $2 FROM generate_series(1, $3::bigint) n",
        )
        .bind(event.0)
        .bind(now)
        .bind(places)
        .execute(&self.pool)
        .await?;
        self.settle().await
    }

    /// What autovacuum would do in a quiet minute, so that no run pays for the one before.
    ///
    /// # Errors
    /// What the database says.
    pub async fn settle(&self) -> Result<(), DbError> {
        self.pool
            .execute(
                "VACUUM (ANALYZE) entries, places, offers, messages, bookings, entry_counts, place_counts",
            )
            .await?;
        // Our own role may not ask for a checkpoint everywhere; without it one may fall into a run, on either side.
        if let Err(error) = self.pool.execute("CHECKPOINT").await {
            tracing::debug!(%error, "no checkpoint between the runs");
        }
        Ok(())
    }

    /// Undoes what passes and accepts did, but for the audit.
    ///
    /// # Errors
    /// What the database says.
    pub async fn undo(&self, event: EventId) -> Result<(), DbError> {
        for statement in [
            "UPDATE places SET state = 'open', offer_id = NULL, booking_id = NULL WHERE event_id = $1 AND state <> 'open'",
            "DELETE FROM bookings WHERE event_id = $1",
            "DELETE FROM deliveries WHERE event_id = $1",
            "DELETE FROM messages WHERE event_id = $1",
            "DELETE FROM offers WHERE event_id = $1",
            "DELETE FROM skips WHERE event_id = $1",
            "UPDATE entries SET state = 'waiting' WHERE event_id = $1 AND state <> 'waiting'",
            "UPDATE events SET audit_seq = greatest(audit_seq, (SELECT coalesce(max(seq), 0) FROM audit WHERE event_id = $1))
             WHERE id = $1",
        ] {
            sqlx::query(statement).bind(event.0).execute(&self.pool).await?;
        }
        self.settle().await
    }

    /// Every pending offer of the event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pending(&self, event: EventId) -> Result<Vec<Pending>, DbError> {
        let rows: Vec<(Uuid, Uuid)> = sqlx::query_as(
            "SELECT o.id, e.person_id FROM offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
             WHERE o.event_id = $1 AND o.state = 'pending' ORDER BY o.rank",
        )
        .bind(event.0)
        .fetch_all(&self.pool)
        .await?;
        Ok(rows
            .into_iter()
            .map(|(offer, person)| Pending { offer: OfferId(offer), person: PersonId(person) })
            .collect())
    }

    /// One raw pass; how long it took.
    ///
    /// # Errors
    /// What the database says.
    pub async fn raw_pass(&self, event: EventId) -> Result<Duration, DbError> {
        let began = Instant::now();
        self.run_raw(RAW_PASS, event).await?;
        Ok(began.elapsed())
    }

    /// Three of four want more places than are open.
    ///
    /// # Errors
    /// What the database says.
    pub async fn large_parties(&self, event: EventId) -> Result<(), DbError> {
        for statement in [
            "DELETE FROM places WHERE event_id = $1 AND number > 8",
            "UPDATE entries SET party = 9 WHERE event_id = $1 AND arrival % 4 > 0",
        ] {
            sqlx::query(statement).bind(event.0).execute(&self.pool).await?;
        }
        self.settle().await
    }

    /// Undoes draws, but for the audit.
    ///
    /// # Errors
    /// What the database says.
    pub async fn undo_draws(&self, event: EventId) -> Result<(), DbError> {
        for statement in [
            "DELETE FROM draws WHERE event_id = $1",
            "UPDATE entries SET band = 0, rank = line_rank, line_rank = NULL WHERE event_id = $1 AND band < 0",
        ] {
            sqlx::query(statement).bind(event.0).execute(&self.pool).await?;
        }
        self.settle().await
    }

    /// One raw draw; how long it took.
    ///
    /// # Errors
    /// What the database says.
    pub async fn raw_draw(&self, event: EventId) -> Result<Duration, DbError> {
        let began = Instant::now();
        self.run_raw(RAW_DRAW, event).await?;
        Ok(began.elapsed())
    }

    /// A thousand raw calls, or as many as are left.
    ///
    /// # Errors
    /// What the database says.
    pub async fn raw_calls(&self, event: EventId) -> Result<u64, DbError> {
        // Two audit records a call.
        Ok(self.run_raw(RAW_CALLS, event).await? / 2)
    }

    /// Runs these statements in one transaction; how many rows the third of them wrote.
    async fn run_raw(&self, statements: &[&'static str], event: EventId) -> Result<u64, DbError> {
        let mut connection = self.pool.acquire().await?;
        let mut tx = connection.begin().await?;
        sqlx::query(statements[0]).bind(event.0).execute(&mut *tx).await?;
        let now: DateTime<Utc> = sqlx::query_scalar(statements[1]).fetch_one(&mut *tx).await?;
        let mut written = 0;
        for (n, statement) in statements[2..].iter().enumerate() {
            let done = sqlx::query(*statement).bind(event.0).bind(now).execute(&mut *tx).await?;
            if n == 0 {
                written = done.rows_affected();
            }
        }
        tx.commit().await?;
        Ok(written)
    }

    /// One raw accept on a connection of its own.
    ///
    /// # Errors
    /// What the database says.
    pub async fn raw_accept(
        connection: &mut PgConnection,
        event: EventId,
        offer: OfferId,
        ids: [Uuid; 2],
    ) -> Result<(), DbError> {
        let mut tx = connection.begin().await?;
        sqlx::query(RAW_ACCEPT[0]).bind(event.0).execute(&mut *tx).await?;
        let now: DateTime<Utc> = sqlx::query_scalar(RAW_ACCEPT[1]).fetch_one(&mut *tx).await?;
        let changed = sqlx::query(RAW_ACCEPT[2])
            .bind(event.0)
            .bind(offer.0)
            .bind(now)
            .execute(&mut *tx)
            .await?
            .rows_affected();
        super::must_change(changed, 1, "offer")?;
        sqlx::query(RAW_ACCEPT[3]).bind(event.0).bind(offer.0).bind(now).execute(&mut *tx).await?;
        for (statement, id) in RAW_ACCEPT[4..7].iter().zip([ids[0], ids[0], ids[1]]) {
            sqlx::query(*statement).bind(event.0).bind(offer.0).bind(now).bind(id).execute(&mut *tx).await?;
        }
        sqlx::query(RAW_ACCEPT[7]).bind(event.0).bind(offer.0).bind(now).execute(&mut *tx).await?;
        tx.commit().await?;
        Ok(())
    }

    /// A connection for a raw client.
    ///
    /// # Errors
    /// When the server cannot be reached.
    pub async fn connect(&self) -> Result<PgConnection, DbError> {
        Ok(PgConnection::connect_with(&self.options()).await?)
    }
}
