//! Draws: chains of secrets announced, pools frozen, rankings revealed, and their ranks given to entries.
//!
//! A ranking is one value on the draw's row, however long it is, and its ranks are given from the top on: the next
//! places go down it while the rest is still being written.

use chrono::{DateTime, SecondsFormat, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::draw::file::{BeaconFile, DrawFile, FORMAT};
use crate::domain::draw::{Bytes32, draw_record};
use crate::domain::entry::OrderKey;
use crate::domain::ids::{EntryId, EventId};
use crate::domain::policy::{Band, Beacon, band_of_draw};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::words;

words! {
    /// Why a draw is held.
    Cause {
        /// A place was open and nobody was ranked.
        Need = "need",
        /// The instant set by the rule was there.
        Scheduled = "scheduled",
        /// Staff said so.
        Staff = "staff",
    }
}

/// A draw without its pool and ranking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Draw {
    /// Its number within the event, from 1 on.
    pub number: i32,
    /// The version of the rule that asked for it.
    pub policy_version: i32,
    /// Why it is held.
    pub cause: Cause,
    /// When the pool was frozen.
    pub frozen_at: DateTime<Utc>,
    /// How many are in the pool.
    pub pool_size: i32,
    /// SHA-256 of the pool.
    pub pool_digest: Bytes32,
    /// Which chain its secret is of, and which link.
    pub chain: i32,
    /// See `chain`.
    pub link: i32,
    /// The round of the beacon that takes part.
    pub round: Option<i64>,
    /// The secret, once it is revealed.
    pub secret: Option<Bytes32>,
    /// When it was drawn.
    pub drawn_at: Option<DateTime<Utc>>,
    /// How many of the ranking have their rank.
    pub applied: i32,
    first_rank: Option<i64>,
}

struct DrawRow {
    number: i32,
    policy_version: i32,
    cause: String,
    frozen_at: DateTime<Utc>,
    pool_size: i32,
    pool_digest: Vec<u8>,
    chain: i32,
    link: i32,
    beacon_round: Option<i64>,
    secret: Option<Vec<u8>>,
    drawn_at: Option<DateTime<Utc>>,
    applied: i32,
    first_rank: Option<i64>,
}

pub(super) fn bytes(of: &'static str, bytes: &[u8]) -> Result<Bytes32, DbError> {
    bytes.try_into().map_err(|_| DbError::Unreadable(of, hex::encode(bytes)))
}

impl TryFrom<DrawRow> for Draw {
    type Error = DbError;

    fn try_from(row: DrawRow) -> Result<Self, DbError> {
        Ok(Self {
            number: row.number,
            policy_version: row.policy_version,
            cause: word(Cause::parse, "cause of a draw", &row.cause)?,
            frozen_at: row.frozen_at,
            pool_size: row.pool_size,
            pool_digest: bytes("the digest of a pool", &row.pool_digest)?,
            chain: row.chain,
            link: row.link,
            round: row.beacon_round,
            secret: row.secret.map(|secret| bytes("the secret of a draw", &secret)).transpose()?,
            drawn_at: row.drawn_at,
            applied: row.applied,
            first_rank: row.first_rank,
        })
    }
}

macro_rules! select_draws {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            DrawRow,
            "SELECT number, policy_version, cause, frozen_at, pool_size, pool_digest, chain, link, beacon_round, secret, \
             drawn_at, applied, first_rank FROM draws " + $tail,
            $($argument),*
        )
    };
}

/// A pool about to be frozen.
pub struct NewDraw<'a> {
    /// See [`Draw::number`].
    pub number: i32,
    /// See [`Draw::cause`].
    pub cause: Cause,
    /// Who waits, in order of arrival.
    pub pool: &'a [EntryId],
    /// See [`Draw::pool_digest`].
    pub pool_digest: Bytes32,
    /// See [`Draw::chain`].
    pub chain: i32,
    /// See [`Draw::link`].
    pub link: i32,
    /// The beacon that takes part, and its announced round.
    pub beacon: Option<(Beacon, i64)>,
}

fn packed(ids: &[EntryId]) -> Vec<u8> {
    ids.iter().flat_map(|entry| *entry.0.as_bytes()).collect()
}

pub(super) fn unpacked(bytes: &[u8]) -> Vec<EntryId> {
    let (ids, _) = bytes.as_chunks::<16>();
    ids.iter().map(|id| EntryId(Uuid::from_bytes(*id))).collect()
}

impl LockedEvent {
    /// The newest draw.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_draw(&mut self) -> Result<Option<Draw>, DbError> {
        let event = self.id();
        select_draws!("WHERE event_id = $1 ORDER BY number DESC LIMIT 1", event.0)
            .fetch_optional(self.connection())
            .await?
            .map(Draw::try_from)
            .transpose()
    }

    /// Everybody eligible, in order of arrival: all, or those who have no rank from a draw.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pool(&mut self, undrawn: bool) -> Result<Vec<EntryId>, DbError> {
        let event = self.id();
        let first_band = if undrawn { 0 } else { i16::MIN };
        let mut rows = sqlx::query!(
            "SELECT arrival, id FROM entries WHERE event_id = $1 AND eligible AND band >= $2",
            event.0,
            first_band
        )
        .fetch_all(self.connection())
        .await?;
        rows.sort_unstable_by_key(|row| row.arrival);
        Ok(rows.into_iter().map(|row| EntryId(row.id)).collect())
    }

    /// Whether somebody eligible has a rank from a draw: the order drawn is not used up.
    ///
    /// # Errors
    /// What the database says.
    pub async fn somebody_is_drawn(&mut self) -> Result<bool, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM entries WHERE event_id = $1 AND eligible AND band < 0) AS "is!""#,
            event.0
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// Whether somebody eligible has no rank from a draw.
    ///
    /// # Errors
    /// What the database says.
    pub async fn somebody_is_undrawn(&mut self) -> Result<bool, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM entries WHERE event_id = $1 AND eligible AND band >= 0) AS "is!""#,
            event.0
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// The newest chain: its number and its commitment.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_chain(&mut self) -> Result<Option<(i32, Bytes32)>, DbError> {
        let event = self.id();
        let row = sqlx::query!(
            "SELECT number, commitment FROM draw_chains WHERE event_id = $1 ORDER BY number DESC LIMIT 1",
            event.0
        )
        .fetch_optional(self.connection())
        .await?;
        row.map(|row| Ok((row.number, bytes("the commitment of a chain", &row.commitment)?))).transpose()
    }

    /// Publishes the commitment of a chain.
    ///
    /// # Errors
    /// What the database says.
    pub async fn announce_chain(&mut self, number: i32, commitment: Bytes32) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        sqlx::query!(
            "INSERT INTO draw_chains (event_id, number, commitment, announced_at) VALUES ($1, $2, $3, $4)",
            event.0,
            number,
            commitment.as_slice(),
            now
        )
        .execute(self.connection())
        .await?;
        let state = format!("chain {number}: {}", hex::encode(commitment));
        self.record(
            Record::new(now, Actor::System, Act::ChainAnnounced, Subject::Event(event), Reason::SetUp)
                .to(state),
        );
        Ok(())
    }

    /// Freezes a pool and publishes it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn freeze_pool(
        &mut self,
        draw: &NewDraw<'_>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<(), DbError> {
        let (event, now, version) = (self.id(), self.now(), self.event().policy_version);
        let size = i32::try_from(draw.pool.len()).unwrap_or(i32::MAX);
        sqlx::query!(
            "INSERT INTO draws (event_id, number, policy_version, cause, reason, made_by, frozen_at, pool, pool_size,
                                pool_digest, chain, link, beacon, beacon_round)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14)",
            event.0,
            draw.number,
            version,
            draw.cause.as_str(),
            reason.reason.as_str(),
            actor.staff().map(|id| id.0),
            now,
            packed(draw.pool),
            size,
            draw.pool_digest.as_slice(),
            draw.chain,
            draw.link,
            draw.beacon.map(|(beacon, _)| beacon.as_str()),
            draw.beacon.map(|(_, round)| round)
        )
        .execute(self.connection())
        .await?;
        let state = draw_record(draw.number, &format!("{size} entries, {}", hex::encode(draw.pool_digest)));
        let mut record = Record::new(now, actor, Act::PoolFrozen, Subject::Event(event), reason.reason)
            .to(state)
            .noted(reason);
        record.policy_version = Some(version);
        self.record(record);
        Ok(())
    }

    /// The frozen pool of a draw, in order of arrival.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pool_of(&mut self, draw: i32) -> Result<Vec<EntryId>, DbError> {
        let event = self.id();
        let pool =
            sqlx::query_scalar!("SELECT pool FROM draws WHERE event_id = $1 AND number = $2", event.0, draw)
                .fetch_one(self.connection())
                .await?;
        Ok(unpacked(&pool))
    }

    /// Reveals a draw's secret and the order that follows from it.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when it was drawn already: impossible under the lock.
    pub async fn settle_draw(
        &mut self,
        number: i32,
        secret: Bytes32,
        proof: Option<&[u8]>,
        ranking: &[EntryId],
        actor: Actor,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let changed = sqlx::query!(
            "WITH line AS (UPDATE events SET next_rank = next_rank + $7 WHERE id = $1 RETURNING next_rank - $7 AS first)
             UPDATE draws SET secret = $3, beacon_proof = $4, ranking = $5, drawn_at = $6, first_rank = line.first
             FROM line WHERE event_id = $1 AND number = $2 AND drawn_at IS NULL",
            event.0,
            number,
            secret.as_slice(),
            proof,
            packed(ranking),
            now,
            i64::try_from(ranking.len()).unwrap_or(i64::MAX)
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, 1, "draw")?;
        let state = draw_record(number, &hex::encode(secret));
        self.record(Record::new(now, actor, Act::Drawn, Subject::Event(event), Reason::DrawNeeded).to(state));
        Ok(())
    }

    /// Gives the next `count` of a draw's ranking their ranks; how many of it have none yet.
    ///
    /// # Errors
    /// What the database says.
    pub async fn apply_ranking(&mut self, draw: i32, count: i32) -> Result<i32, DbError> {
        let event = self.id();
        let part = sqlx::query!(
            r#"SELECT substring(ranking FROM applied * 16 + 1 FOR $3 * 16) AS "ids!", applied, pool_size,
                      first_rank AS "first!"
               FROM draws WHERE event_id = $1 AND number = $2 AND drawn_at IS NOT NULL"#,
            event.0,
            draw,
            count
        )
        .fetch_one(self.connection())
        .await?;
        let ids: Vec<Uuid> = unpacked(&part.ids).into_iter().map(|entry| entry.0).collect();
        let first = part.first + i64::from(part.applied);
        let ranks: Vec<i64> = (first..).take(ids.len()).map(OrderKey::rank_of).collect();
        // Who left in the meantime keeps the rank they had; who is closed with the event may be reopened.
        sqlx::query!(
            "UPDATE entries e SET band = $2, round = 0, rank = r.rank, line_rank = coalesce(e.line_rank, e.rank)
             FROM unnest($3::uuid[], $4::bigint[]) AS r(id, rank)
             WHERE e.event_id = $1 AND e.id = r.id AND e.state IN ('waiting', 'offered', 'closed')",
            event.0,
            band_of_draw(draw),
            &ids,
            &ranks
        )
        .execute(self.connection())
        .await?;
        let applied = part.applied + i32::try_from(ids.len()).unwrap_or(i32::MAX);
        sqlx::query!(
            "UPDATE draws SET applied = $3 WHERE event_id = $1 AND number = $2",
            event.0,
            draw,
            applied
        )
        .execute(self.connection())
        .await?;
        Ok(part.pool_size - applied)
    }

    /// The first of these bands that somebody live is in, and how many are.
    ///
    /// # Errors
    /// What the database says.
    pub async fn first_band_in_use(&mut self, bands: &[Band]) -> Result<Option<(Band, i64)>, DbError> {
        let event = self.id();
        // A rule has at most nine.
        for band in bands {
            let entries = sqlx::query_scalar!(
                r#"SELECT coalesce(sum(n), 0)::bigint AS "n!" FROM entry_counts
                   WHERE event_id = $1 AND band = $2 AND state IN ('unconfirmed', 'waiting', 'offered')"#,
                event.0,
                band.number
            )
            .fetch_one(self.connection())
            .await?;
            if entries > 0 {
                return Ok(Some((band.clone(), entries)));
            }
        }
        Ok(None)
    }

    /// Gives up to `count` entries that are ahead of the line, drawn or in a band, their place in it back, for the rule
    /// that put them there is over; whether there are more.
    ///
    /// # Errors
    /// What the database says.
    pub async fn take_back_order(&mut self, count: i64) -> Result<bool, DbError> {
        let event = self.id();
        let changed = sqlx::query!(
            "UPDATE entries e SET band = 0, rank = coalesce(e.line_rank, e.rank), line_rank = NULL
             WHERE e.event_id = $1 AND e.id IN (
                 SELECT id FROM entries WHERE event_id = $1 AND band < 0
                   AND state IN ('unconfirmed', 'waiting', 'offered', 'closed') LIMIT $2)",
            event.0,
            count
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        let more = i64::try_from(changed).unwrap_or(i64::MAX) >= count;
        sqlx::query!("UPDATE events SET reordering = $2 WHERE id = $1", event.0, more)
            .execute(self.connection())
            .await?;
        self.event_mut().reordering = more;
        Ok(more)
    }
}

/// A draw as the public sees it: with its pool, its ranking and its proofs.
#[derive(Clone, Debug)]
pub struct PublicDraw {
    /// The draw.
    pub draw: Draw,
    /// The commitment of its chain.
    pub commitment: Bytes32,
    /// The signature of the beacon's round.
    pub proof: Option<Vec<u8>>,
    /// Who waited, in order of arrival.
    pub pool: Vec<EntryId>,
    /// The order drawn; empty before.
    pub ranking: Vec<EntryId>,
}

impl PublicDraw {
    /// It as a file that can be checked without us; `slug` names the event.
    #[must_use]
    pub fn file(&self, slug: &str) -> DrawFile {
        let instant = |at: DateTime<Utc>| at.to_rfc3339_opts(SecondsFormat::Micros, true);
        let draw = &self.draw;
        DrawFile {
            format: FORMAT.to_owned(),
            event: slug.to_owned(),
            draw: draw.number,
            cause: draw.cause.to_string(),
            pool: self.pool.clone(),
            pool_digest: hex::encode(draw.pool_digest),
            frozen_at: instant(draw.frozen_at),
            commitment: hex::encode(self.commitment),
            link: draw.link,
            beacon: draw.round.map(|round| BeaconFile {
                kind: "drand".to_owned(),
                round,
                signature: self.proof.as_deref().map(hex::encode),
            }),
            secret: draw.secret.map(hex::encode),
            ranking: self.ranking.clone(),
            drawn_at: draw.drawn_at.map(instant),
        }
    }
}

impl Db {
    /// The draws of an event, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn draws(&self, event: EventId) -> Result<Vec<Draw>, DbError> {
        select_draws!("WHERE event_id = $1 ORDER BY number DESC LIMIT 1000", event.0)
            .fetch_all(self.pool())
            .await?
            .into_iter()
            .map(Draw::try_from)
            .collect()
    }

    /// The commitments of an event's chains and when each was published, in order.
    ///
    /// # Errors
    /// What the database says.
    pub async fn chains(&self, event: EventId) -> Result<Vec<(i32, Bytes32, DateTime<Utc>)>, DbError> {
        let rows = sqlx::query!(
            "SELECT number, commitment, announced_at FROM draw_chains WHERE event_id = $1 ORDER BY number",
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok((row.number, bytes("the commitment of a chain", &row.commitment)?, row.announced_at))
            })
            .collect()
    }

    /// One draw whole.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such draw.
    pub async fn public_draw(&self, event: EventId, number: i32) -> Result<PublicDraw, DbError> {
        let draw = select_draws!("WHERE event_id = $1 AND number = $2", event.0, number)
            .fetch_one(self.pool())
            .await?
            .try_into()?;
        let row = sqlx::query!(
            "SELECT d.pool, d.ranking, d.beacon_proof, c.commitment
             FROM draws d JOIN draw_chains c ON c.event_id = d.event_id AND c.number = d.chain
             WHERE d.event_id = $1 AND d.number = $2",
            event.0,
            number
        )
        .fetch_one(self.pool())
        .await?;
        Ok(PublicDraw {
            draw,
            commitment: bytes("the commitment of a chain", &row.commitment)?,
            proof: row.beacon_proof,
            pool: unpacked(&row.pool),
            ranking: row.ranking.as_deref().map(unpacked).unwrap_or_default(),
        })
    }
}
