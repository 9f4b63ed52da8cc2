//! When telling fails: deadlines make up for the time in which nobody could be told, and for a late first letter.
//!
//! While no channel works, the clocks of holds under such a rule stand still (the view `standing_offers`) and nothing is
//! written; what was lost is made up for once a channel works again, or at once where somebody answers meanwhile.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::pass::CHUNK;
use crate::db::locked_event::retry;
use crate::db::messages::Draft;
use crate::db::offers::OfferMove;
use crate::db::telling::{Holds, Outages};
use crate::db::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::ids::{EventId, OfferId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::reason::Reason;
use crate::domain::telling::{LATE, Loss, MadeUp};

/// Right before the first letter of a hold is written: if it is late, the deadline moves first, so that the letter, the
/// page and the API say the same. Whoever dies after this and before the letter went out finds it done.
///
/// # Errors
/// What the database says.
pub async fn before_letter(db: &Db, event: EventId, offer: OfferId) -> Result<(), DbError> {
    retry(db.entropy(), || {
        db.with_event(event, async |event| {
            let losses = event.losses(Holds::These(&[offer])).await?;
            make_up(event, losses).await?;
            event.nothing_to_write();
            Ok(())
        })
    })
    .await
}

/// After an outage: every hold that lost time to it, a chunk at a time.
pub(super) async fn after_outages(event: &mut LockedEvent, outages: Outages) -> Result<(), DbError> {
    let (Some(last), None) = (outages.last_until, outages.down_since) else { return Ok(()) };
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let losses = event.losses(Holds::Behind(LATE, last, limit)).await?;
    if losses.len() == CHUNK {
        event.want_pass();
    }
    make_up(event, losses).await?;
    Ok(())
}

/// These offers as they are once those that are due have what they lost made up for: some are then not due any more.
pub(super) async fn made_up(event: &mut LockedEvent, mut offers: Vec<Offer>) -> Result<Vec<Offer>, DbError> {
    let now = event.now();
    let is_due = |offer: &Offer| {
        offer.state == OfferState::Pending && offer.kind == OfferKind::Hold && now >= offer.expires_at
    };
    let due: Vec<OfferId> = offers.iter().filter(|offer| is_due(offer)).map(|offer| offer.id).collect();
    if due.is_empty() {
        return Ok(offers);
    }
    let losses = event.losses(Holds::These(&due)).await?;
    let deadlines = make_up(event, losses).await?;
    for offer in &mut offers {
        offer.expires_at = deadlines.get(&offer.id).copied().unwrap_or(offer.expires_at);
    }
    Ok(offers)
}

/// Moves deadlines by what was lost; says where they are now.
async fn make_up(
    event: &mut LockedEvent,
    losses: Vec<(OfferId, Loss)>,
) -> Result<HashMap<OfferId, DateTime<Utc>>, DbError> {
    let (now, start) = (event.now(), event.event().starts_at);
    let to_move: HashMap<OfferId, (Loss, MadeUp)> = losses
        .into_iter()
        .filter_map(|(offer, loss)| Some((offer, (loss, loss.made_up(now, start)?))))
        .collect();
    if to_move.is_empty() {
        return Ok(HashMap::new());
    }
    let ids: Vec<OfferId> = to_move.keys().copied().collect();
    let mut moves = Vec::with_capacity(ids.len());
    for offer in event.offers(&ids).await? {
        let Some((loss, MadeUp { expires_at, .. })) = to_move.get(&offer.id).copied() else { continue };
        if expires_at == offer.expires_at {
            continue;
        }
        // A first letter that is still to go out says it itself.
        if !loss.untold && expires_at > now && expires_at - offer.expires_at >= LATE {
            tell_of_more_time(event, &offer, expires_at, Reason::TellingFailed);
        }
        moves.push(OfferMove {
            expires_at,
            ..OfferMove::end(
                &offer,
                OfferState::Pending,
                Actor::System,
                Act::DeadlineMoved,
                Reason::TellingFailed,
            )
        });
    }
    event.move_offers(&moves).await?;
    let made_up: Vec<(OfferId, MadeUp)> =
        to_move.into_iter().map(|(offer, (_, made_up))| (offer, made_up)).collect();
    event.note_made_up(&made_up).await?;
    Ok(made_up.into_iter().map(|(offer, made_up)| (offer, made_up.expires_at)).collect())
}

/// The message of a deadline that moved away.
pub(super) fn tell_of_more_time(
    event: &mut LockedEvent,
    offer: &Offer,
    deadline: DateTime<Utc>,
    reason: Reason,
) {
    event.tell(Draft {
        person: offer.person,
        occasion: Occasion::Extended,
        subject: offer.id.0,
        count: i32::try_from(event.now().timestamp() & 0x7fff_ffff).unwrap_or(0),
        facts: Facts {
            entry: Some(offer.entry.0),
            offer: Some(offer.id.0),
            party: Some(offer.party),
            expires_at: Some(deadline),
            reason: Some(reason.as_str().to_owned()),
            reactivations: Some(offer.reactivations),
            ..Facts::default()
        },
    });
}
