//! Putting an entry at another number of the line, with a reason: whoever is there and everybody behind are one further
//! back.

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide_once};
use crate::db::entries::EntryMove;
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::{Entry, EntryState, OrderKey};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::placing::{Room, room};
use crate::domain::policy::Ordering;
use crate::domain::reason::{Reason, StaffReason};

/// As many of those behind are looked at, where there is no room between two.
const CLOSE: i64 = 1_000;

/// What came of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlacingOutcome {
    /// It has this number.
    Placed,
    /// It had it before.
    Already,
    /// The line is shorter than that.
    TooFar,
    /// Who has that number is in another group.
    OtherGroup,
    /// So many have been put there that no room is left.
    NoRoom,
    /// A draw decides the order, and it is public.
    Lottery,
    /// The list is still being put into the order of another rule: again in a moment.
    Reordering,
    /// Only an entry in the line can be moved: this is its state.
    NotWaiting(EntryState),
}

impl Waitlist {
    /// Puts an entry at this number of the line; whatever hinders it still does.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn place_at(
        &self,
        event: EventId,
        entry: EntryId,
        position: i64,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<PlacingOutcome, DbError> {
        decide_once!(self, event, async |event| {
            event.nothing_to_write();
            let policy = event.policy().await?;
            if policy.ordering == Ordering::Lottery {
                return Ok(PlacingOutcome::Lottery);
            }
            if event.event().reordering {
                return Ok(PlacingOutcome::Reordering);
            }
            let before = event.entry(entry).await?;
            if before.state != EntryState::Waiting {
                return Ok(PlacingOutcome::NotWaiting(before.state));
            }
            let (ahead, behind) = event.neighbours(position.max(1), entry).await?;
            if position > 1 && ahead.is_none() {
                return Ok(PlacingOutcome::TooFar);
            }
            let is_ahead = ahead.as_ref().is_none_or(|ahead| ahead.key < before.key);
            if is_ahead && behind.as_ref().is_none_or(|behind| before.key < behind.key) {
                return Ok(PlacingOutcome::Already);
            }
            let neighbour = behind.as_ref().or(ahead.as_ref());
            if neighbour.is_some_and(|other| other.key.band != before.key.band) {
                return Ok(PlacingOutcome::OtherGroup);
            }
            let mut moves = Vec::new();
            let key = match (behind, ahead) {
                (Some(behind), _) => {
                    let Some(rank) = make_room(event, behind.key, entry, &mut moves).await? else {
                        return Ok(PlacingOutcome::NoRoom);
                    };
                    OrderKey { rank, ..behind.key }
                }
                // Behind everybody who can be offered a place.
                (None, Some(ahead)) => OrderKey { rank: event.ranks_at_end(1).await?[0], ..ahead.key },
                (None, None) => return Ok(PlacingOutcome::Already),
            };
            moves.push(EntryMove {
                after: Entry { key, ..before.clone() },
                before,
                actor,
                act: Act::Moved,
                reason: reason.reason,
                note: reason.note.clone(),
                policy_version: Some(policy.version),
            });
            event.move_entries(&moves).await?;
            event.want_pass();
            Ok(PlacingOutcome::Placed)
        })
        .await
    }
}

/// A rank right before a key; those behind it who have to be given other ranks for that are added to `moves`.
async fn make_room(
    event: &mut LockedEvent,
    key: OrderKey,
    but: EntryId,
    moves: &mut Vec<EntryMove>,
) -> Result<Option<i64>, DbError> {
    let (ahead, near) = event.ranks_around(key, but, CLOSE).await?;
    let mut behind: Vec<i64> = near.iter().map(|(_, rank)| *rank).collect();
    if i64::try_from(near.len()).unwrap_or(i64::MAX) < CLOSE && room(ahead, &behind).is_none() {
        // They are the end of the line: it may be longer.
        behind.extend(event.ranks_at_end(near.len() + 1).await?.last());
    }
    let Some(Room { rank, moved }) = room(ahead, &behind) else { return Ok(None) };
    let ids: Vec<EntryId> = near.iter().take(moved.len()).map(|(id, _)| *id).collect();
    let mut entries = event.entries(&ids).await?;
    entries.sort_unstable_by_key(|entry| entry.key);
    moves.extend(entries.into_iter().zip(moved).map(|(before, rank)| EntryMove {
        after: Entry { key: OrderKey { rank, ..before.key }, ..before.clone() },
        before,
        actor: Actor::System,
        act: Act::Moved,
        reason: Reason::RoomMade,
        note: None,
        policy_version: None,
    }));
    Ok(Some(rank))
}
