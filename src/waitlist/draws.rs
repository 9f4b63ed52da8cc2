//! Lotteries: pools frozen, draws held when the rule, the clock or staff say so, and ranks given from the top on.

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide_once};
use crate::db::draws::{Cause, Draw, NewDraw};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::Actor;
use crate::domain::draw::{
    ANNOUNCE_NEXT, BeaconError, Bytes32, LINKS, Wheel, beacon_value, commitment, link, pool_digest,
    quicknet_round,
};
use crate::domain::ids::EventId;
use crate::domain::policy::{Draws, Ordering, Policy};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::secret::Secret;

/// As many ranks are given under one lock.
const RANKS: i32 = 5_000;

/// The beacon's round is at least this far ahead when a pool is frozen, in seconds.
const BEACON_AHEAD: i64 = 60;

/// What came of a draw by staff.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DrawOutcome {
    /// So many were ranked.
    Drawn {
        /// The draw's number.
        number: i32,
        /// How many.
        entries: usize,
    },
    /// The pool is frozen, and the draw waits for this round of the beacon.
    Frozen {
        /// The draw's number.
        number: i32,
        /// How many are in the pool.
        entries: usize,
        /// The round announced.
        round: i64,
    },
    /// The rule is no lottery.
    NoLottery,
    /// The list is still being put into the order of another rule: again in a moment.
    Reordering,
    /// Nobody eligible waits.
    NobodyWaits,
}

/// What came of a beacon's value.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BeaconOutcome {
    /// Drawn with it.
    Drawn {
        /// How many were ranked.
        entries: usize,
    },
    /// No draw waits for a value.
    NoneWaits,
    /// Not what was announced.
    Refused(BeaconError),
}

impl Waitlist {
    /// Staff hold a draw, whether the last order is used up or not: everybody eligible is in the pool, drawn before or not.
    ///
    /// # Errors
    /// What the database says.
    pub async fn hold_draw(
        &self,
        event: EventId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<DrawOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let policy = event.policy().await?;
            event.nothing_to_write();
            if policy.ordering != Ordering::Lottery {
                return Ok(DrawOutcome::NoLottery);
            }
            if event.event().reordering {
                return Ok(DrawOutcome::Reordering);
            }
            let number = event.last_draw().await?.map_or(1, |draw| draw.number + 1);
            let held = hold(event, &self.secret, &policy, number, Cause::Staff, actor, reason).await?;
            event.want_pass();
            Ok(match held {
                Held::NobodyWaits => DrawOutcome::NobodyWaits,
                Held::Drawn(entries) => DrawOutcome::Drawn { number, entries },
                Held::Frozen { entries, round } => DrawOutcome::Frozen { number, entries, round },
            })
        })
        .await
    }

    /// The value of the round for which the newest draw waits: verified, and drawn with.
    ///
    /// # Errors
    /// What the database says.
    pub async fn supply_beacon(
        &self,
        event: EventId,
        signature: &str,
        actor: Actor,
    ) -> Result<BeaconOutcome, DbError> {
        decide_once!(self, event, async |event| {
            event.nothing_to_write();
            let waiting = event.last_draw().await?.filter(|draw| draw.drawn_at.is_none());
            let Some((draw, round)) = waiting.and_then(|draw| draw.round.map(|round| (draw, round))) else {
                return Ok(BeaconOutcome::NoneWaits);
            };
            let value = match beacon_value(round, signature) {
                Ok(value) => value,
                Err(problem) => return Ok(BeaconOutcome::Refused(problem)),
            };
            let proof = hex::decode(signature.trim()).unwrap_or_default();
            let entries = reveal(event, &self.secret, &draw, Some((value, proof.as_slice())), actor).await?;
            event.want_pass();
            Ok(BeaconOutcome::Drawn { entries })
        })
        .await
    }
}

/// Whether places can be offered down a drawn order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Lottery {
    /// Yes, to whoever is ranked.
    Ranked,
    /// Not before the draw.
    Waits,
}

/// Does what a lottery needs before places are offered: a draw that is due, and ranks not given yet.
pub(super) async fn prepare(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
) -> Result<Lottery, DbError> {
    let last = event.last_draw().await?;
    let number = last.as_ref().map_or(1, |draw| draw.number + 1);
    let now = event.now();
    if let Draws::At(at) = policy.draws {
        let held = last.as_ref().is_some_and(|draw| draw.frozen_at >= at);
        if at <= now && !held {
            let reason = StaffReason { reason: Reason::Scheduled, note: None };
            let held = hold(event, secret, policy, number, Cause::Scheduled, Actor::System, &reason).await?;
            return Ok(held.lottery());
        }
    }
    if let Some(draw) = &last {
        if draw.drawn_at.is_none() {
            return Ok(Lottery::Waits);
        }
        if draw.applied < draw.pool_size && event.apply_ranking(draw.number, RANKS).await? > 0 {
            event.want_pass();
            return Ok(if event.somebody_is_drawn().await? { Lottery::Ranked } else { Lottery::Waits });
        }
    }
    Ok(Lottery::Ranked)
}

/// Nobody who was drawn can take what is open: ranks those who were not, if there are any, unless the rule has them wait.
/// Whoever was drawn before keeps that rank, ahead of them, for the places that they can take.
pub(super) async fn by_need(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
) -> Result<Option<Lottery>, DbError> {
    if !event.somebody_is_undrawn().await? {
        return Ok(None);
    }
    match policy.draws {
        Draws::ByStaff => Ok(Some(Lottery::Waits)),
        Draws::At(at) if at > event.now() => Ok(Some(Lottery::Waits)),
        Draws::AtNeed | Draws::At(_) => {
            let number = event.last_draw().await?.map_or(1, |draw| draw.number + 1);
            let reason = StaffReason { reason: Reason::DrawNeeded, note: None };
            let held = hold(event, secret, policy, number, Cause::Need, Actor::System, &reason).await?;
            Ok(Some(held.lottery()))
        }
    }
}

enum Held {
    NobodyWaits,
    Drawn(usize),
    Frozen { entries: usize, round: i64 },
}

impl Held {
    fn lottery(&self) -> Lottery {
        match self {
            // Without anybody eligible a pass says so itself.
            Self::NobodyWaits | Self::Drawn(_) => Lottery::Ranked,
            Self::Frozen { .. } => Lottery::Waits,
        }
    }
}

/// Freezes the pool, and draws at once where no beacon takes part.
async fn hold(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
    number: i32,
    cause: Cause,
    actor: Actor,
    reason: &StaffReason,
) -> Result<Held, DbError> {
    let pool = event.pool(cause == Cause::Need).await?;
    if pool.is_empty() {
        return Ok(Held::NobodyWaits);
    }
    let (chain, link) = next_link(event, secret).await?;
    let digest = pool_digest(&pool);
    let round = quicknet_round(event.now().timestamp() + BEACON_AHEAD);
    let beacon = policy.beacon.map(|beacon| (beacon, round));
    let new = NewDraw { number, cause, pool: &pool, pool_digest: digest, chain, link, beacon };
    event.freeze_pool(&new, actor, reason).await?;
    if beacon.is_some() {
        return Ok(Held::Frozen { entries: pool.len(), round });
    }
    draw(event, secret, (number, chain, link), None, &pool, digest, actor).await?;
    Ok(Held::Drawn(pool.len()))
}

/// Draws what was frozen before.
async fn reveal(
    event: &mut LockedEvent,
    secret: &Secret,
    frozen: &Draw,
    beacon: Option<(Bytes32, &[u8])>,
    actor: Actor,
) -> Result<usize, DbError> {
    let pool = event.pool_of(frozen.number).await?;
    let of = (frozen.number, frozen.chain, frozen.link);
    draw(event, secret, of, beacon, &pool, frozen.pool_digest, actor).await?;
    Ok(pool.len())
}

async fn draw(
    event: &mut LockedEvent,
    secret: &Secret,
    (number, chain, of): (i32, i32, i32),
    beacon: Option<(Bytes32, &[u8])>,
    pool: &[crate::domain::ids::EntryId],
    pool_digest: Bytes32,
    actor: Actor,
) -> Result<(), DbError> {
    let revealed = link(secret.draw_chain(event.id(), chain), of);
    let wheel = Wheel { number, secret: revealed, beacon: beacon.map(|(value, _)| value), pool_digest };
    let ranking = wheel.rank(pool);
    event.settle_draw(number, revealed, beacon.map(|(_, proof)| proof), &ranking, actor).await?;
    if event.apply_ranking(number, RANKS).await? > 0 {
        event.want_pass();
    }
    Ok(())
}

/// Publishes an event's first chain, if it has none: with the rule that makes it a lottery.
pub(super) async fn announce(event: &mut LockedEvent, secret: &Secret) -> Result<(), DbError> {
    if event.last_chain().await?.is_none() {
        event.announce_chain(1, commitment(secret.draw_chain(event.id(), 1))).await?;
    }
    Ok(())
}

/// The link of the next draw. A chain near its end announces the next; so does one whose secret this installation no
/// longer has, and that is to be seen.
async fn next_link(event: &mut LockedEvent, secret: &Secret) -> Result<(i32, i32), DbError> {
    announce(event, secret).await?;
    let (mut chain, mut link) = match event.last_draw().await? {
        Some(draw) => (draw.chain, draw.link + 1),
        None => (1, 1),
    };
    let (newest, published) = event.last_chain().await?.ok_or(DbError::NotFound)?;
    if newest == chain && published != commitment(secret.draw_chain(event.id(), chain)) {
        (chain, link) = (chain + 1, 1);
        event.announce_chain(chain, commitment(secret.draw_chain(event.id(), chain))).await?;
    } else if link > LINKS {
        (chain, link) = (chain + 1, 1);
    }
    if link >= ANNOUNCE_NEXT && newest <= chain {
        event.announce_chain(chain + 1, commitment(secret.draw_chain(event.id(), chain + 1))).await?;
    }
    Ok((chain, link))
}
