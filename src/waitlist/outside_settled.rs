//! What a booking service says, written down under the event's lock: once, whoever asked.

use std::collections::{HashMap, HashSet};

use chrono::{DateTime, Duration, Utc};

use super::answer::{self, Accept};
use super::bookings::{CancelOutcome, free};
use super::ending::{Ending, end_offers};
use super::lists::revoke;
use super::outside::{Came, Whose, accept_again};
use super::telling::tell_of_more_time;
use crate::booking::{GivenBack, Verdict};
use crate::db::booking_attempts::NewAttempt;
use crate::db::offers::OfferMove;
use crate::db::places::{Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::Return;
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{AttemptId, PlaceId};
use crate::domain::message::Occasion;
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::outside::{Attempt, AttemptAct, AttemptOutcome, KEY_LIFE, kept_until};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::telling::LATE;

/// What came of asking.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Settled {
    /// The places are theirs.
    Accepted {
        /// What they quote.
        reference: String,
        /// How many places.
        party: i32,
    },
    /// A place is gone: their rank is theirs again.
    Conflicted,
    /// Nothing was booked: the offer is as it was, with the time that was lost.
    NotBooked,
    /// Bookings were given back.
    Cancelled(Vec<CancelOutcome>),
    /// Nobody knows yet, or somebody settled it before.
    Unknown,
}

/// Writes the outcome of an attempt, if it has none yet. What a caller brings whose lease is over is left: somebody else
/// is finding out, and two who settle the same would tell the service different things.
pub(super) async fn settle(
    event: &mut LockedEvent,
    id: AttemptId,
    came: &Came,
    whose: Whose<'_>,
) -> Result<Settled, DbError> {
    let attempt = event.attempt(id).await?;
    if attempt.outcome != AttemptOutcome::Unresolved {
        return settled_before(event, &attempt, came).await;
    }
    if matches!(whose, Whose::Caller(lease) if attempt.lease != Some(lease)) {
        event.nothing_to_write();
        return Ok(Settled::Unknown);
    }
    let is_staff = matches!(whose, Whose::Staff(..));
    if let Whose::Staff(actor, reason) = whose {
        let record =
            Record::new(event.now(), actor, Act::Resolved, Subject::Offer(attempt.offer), reason.reason)
                .noted(reason);
        event.record(record);
    }
    match came {
        Came::Of(Verdict::Booked { reference }) => booked(event, &attempt, reference).await,
        Came::Of(Verdict::Gone(gone)) => conflicted(event, &attempt, gone).await,
        Came::Of(Verdict::NotDone(_)) => {
            event.settle_attempt(&attempt, AttemptOutcome::Failed).await?;
            if is_staff {
                // What staff looked up may still come true: the service is told that the key is void.
                make_void(event, &attempt).await?;
            }
            not_booked(event, &attempt).await?;
            Ok(Settled::NotBooked)
        }
        Came::Back(GivenBack::Done) => {
            event.settle_attempt(&attempt, AttemptOutcome::Succeeded).await?;
            // Whether or not anything is left to free, the outcome is written.
            event.want_pass();
            let reason = StaffReason { reason: attempt.reason, note: attempt.note.clone() };
            Ok(Settled::Cancelled(free(event, &attempt.bookings, attempt.actor, &reason).await?))
        }
        // Staff say that the service keeps it: the booking stands.
        Came::Back(GivenBack::NotYet(_)) if is_staff => {
            event.settle_attempt(&attempt, AttemptOutcome::Failed).await?;
            Ok(Settled::Unknown)
        }
        Came::Of(Verdict::Unknown(_)) | Came::Back(GivenBack::NotYet(_)) => {
            event.nothing_to_write();
            Ok(Settled::Unknown)
        }
    }
}

/// Somebody was first. A booking of which nobody here knows is given back.
async fn settled_before(event: &mut LockedEvent, attempt: &Attempt, came: &Came) -> Result<Settled, DbError> {
    match (attempt.outcome, came) {
        (AttemptOutcome::Failed, Came::Of(Verdict::Booked { .. })) => {
            make_void(event, attempt).await?;
            Ok(Settled::Unknown)
        }
        (AttemptOutcome::Succeeded, Came::Of(Verdict::Booked { reference })) => {
            event.nothing_to_write();
            let offer = event.offer(attempt.offer).await?;
            Ok(Settled::Accepted { reference: reference.clone(), party: offer.party })
        }
        _ => {
            event.nothing_to_write();
            Ok(Settled::Unknown)
        }
    }
}

/// Whatever the service has under this key is to be given back, now or when a late call arrives.
async fn make_void(event: &mut LockedEvent, attempt: &Attempt) -> Result<(), DbError> {
    let under_way = event.unresolved_attempts(&[attempt.offer], AttemptAct::Release).await?;
    if under_way.iter().any(|other| other.key == attempt.key && other.bookings.is_empty()) {
        event.nothing_to_write();
        return Ok(());
    }
    // Nobody is at it yet: the reconciler takes it up at once.
    let new = NewAttempt {
        offer: attempt.offer,
        act: AttemptAct::Release,
        key: Some(attempt.key.clone()),
        actor: Actor::System,
        reason: Reason::ServiceFailed,
        note: None,
        bookings: vec![],
    };

    event.begin_attempts(&[new], Duration::zero(), KEY_LIFE).await?;
    Ok(())
}

async fn booked(event: &mut LockedEvent, attempt: &Attempt, reference: &str) -> Result<Settled, DbError> {
    event.settle_attempt(attempt, AttemptOutcome::Succeeded).await?;
    let offer = event.offer(attempt.offer).await?;
    let party = offer.party;
    answer::taken_outside(event, &accept_again(&offer, attempt.actor), &offer, reference).await?;
    Ok(Settled::Accepted { reference: reference.to_owned(), party })
}

async fn conflicted(
    event: &mut LockedEvent,
    attempt: &Attempt,
    gone: &[PlaceId],
) -> Result<Settled, DbError> {
    event.settle_attempt(attempt, AttemptOutcome::Failed).await?;
    let offer = event.offer(attempt.offer).await?;
    let entry = event.entry(offer.entry).await?;
    let held = event.places_of_offers(&[offer.id]).await?;
    // A service that does not say which cannot book any of them together: none is offered again.
    let named: HashSet<PlaceId> = gone.iter().copied().collect();
    let says_which = held.iter().any(|place| named.contains(&place.id));
    let retired: Vec<PlaceMove> = held
        .into_iter()
        .filter(|place| !place.retire_when_free && (!says_which || named.contains(&place.id)))
        .map(|place| PlaceMove::retire(place, Actor::System, Reason::PlaceGone))
        .collect();
    event.move_places(&retired).await?;
    let after = entry.moved_back(Return::TO_ITS_RANK);
    end_offers(
        event,
        vec![Ending {
            offer,
            to: OfferState::Conflicted,
            entry,
            after,
            to_end: false,
            actor: Actor::System,
            act: Act::Conflicted,
            reason: Reason::PlaceGone,
            note: None,
            tell: Some(Occasion::Conflicted),
        }],
    )
    .await?;
    Ok(Settled::Conflicted)
}

/// The offer is pending again, and the time that was lost is made up for; or ends, if its event or list did meanwhile.
async fn not_booked(event: &mut LockedEvent, attempt: &Attempt) -> Result<(), DbError> {
    let offer = event.offer(attempt.offer).await?;
    let now = event.now();
    let ends = match (event.event().state, event.event().list) {
        (EventState::Cancelled, _) => Some((Reason::EventCancelled, None)),
        (EventState::Over, _) => Some((Reason::EventOver, None)),
        (_, ListState::Closed) => Some((Reason::ListClosed, Some(Occasion::ListClosed))),
        (EventState::Draft | EventState::Published, _) => {
            let over = event.event().starts_at.is_some_and(|start| start <= offer.made_at);
            over.then_some((Reason::StartMoved, Some(Occasion::Revoked)))
        }
    };
    if let Some((reason, tell)) = ends {
        revoke(event, vec![offer], Actor::System, reason, tell).await?;
        return Ok(());
    }
    let lost = made_up(&offer, attempt.made_at, now, event.event().starts_at);
    // While it is left alone, whoever tries again is turned away.
    let from = event.booking_rests_until().await?.map_or(now, |rest| rest.max(now));
    let window = event.policy().await?.window;
    let deadline = kept_until(lost, from, limit(event, &offer, window));
    if offer.kind == OfferKind::Call {
        let entry = Some(offer.entry);
        let held: Vec<Place> = event.places_of_offers(&[offer.id]).await?;
        let moves: Vec<PlaceMove> = held
            .into_iter()
            .map(|place| PlaceMove::free(place, entry, Actor::System, Reason::ServiceFailed))
            .collect();
        event.move_places(&moves).await?;
    }
    // Whoever waited for the answer sees what comes of it.
    if deadline > now && lost - offer.expires_at >= LATE {
        let told = Offer { state: OfferState::Pending, ..offer.clone() };
        tell_of_more_time(event, &told, deadline, Reason::ServiceFailed);
    }
    event
        .move_offers(&[OfferMove {
            expires_at: deadline,
            ..OfferMove::end(
                &offer,
                OfferState::Pending,
                Actor::System,
                Act::NotBooked,
                Reason::ServiceFailed,
            )
        }])
        .await?;
    event.want_pass();
    Ok(())
}

/// Whoever accepted in time, and was turned away because the service is left alone, keeps their offer until it is asked
/// again, and a moment to accept once more. They see it; somebody for whom others accepted is told.
pub(super) async fn keep_for(
    event: &mut LockedEvent,
    turned_away: impl Iterator<Item = (&Accept, &Offer)>,
) -> Result<(), DbError> {
    let mut turned_away: Vec<(&Accept, &Offer)> = turned_away.collect();
    if turned_away.is_empty() {
        return Ok(());
    }
    turned_away.sort_unstable_by_key(|(_, offer)| offer.id.0);
    turned_away.dedup_by_key(|(_, offer)| offer.id);
    let Some(rest) = event.booking_rests_until().await? else { return Ok(()) };
    let window = event.policy().await?.window;
    let mut moves = Vec::with_capacity(turned_away.len());
    for (accept, offer) in turned_away {
        let expires_at = kept_until(offer.expires_at, rest, limit(event, offer, window));
        if expires_at == offer.expires_at {
            continue;
        }
        let themselves = matches!(accept.actor, Actor::Person(_));
        if !themselves && expires_at - offer.expires_at >= LATE {
            tell_of_more_time(event, offer, expires_at, Reason::ServiceFailed);
        }
        moves.push(OfferMove {
            expires_at,
            ..OfferMove::end(
                offer,
                OfferState::Pending,
                Actor::System,
                Act::DeadlineMoved,
                Reason::ServiceFailed,
            )
        });
    }
    event.move_offers(&moves).await
}

/// Nothing is kept for whoever is turned away past one more window, or past the start.
fn limit(event: &LockedEvent, offer: &Offer, window: Option<Duration>) -> Option<DateTime<Utc>> {
    let most = window.and_then(|window| offer.made_at.checked_add_signed(window * 2));
    most.into_iter().chain(event.event().starts_at).min()
}

/// The deadline once the time since the click is made up for: at most to the start.
fn made_up(
    offer: &Offer,
    clicked: DateTime<Utc>,
    now: DateTime<Utc>,
    start: Option<DateTime<Utc>>,
) -> DateTime<Utc> {
    let lost = (now - clicked).max(Duration::zero());
    let moved = offer.expires_at.checked_add_signed(lost).unwrap_or(offer.expires_at);
    start.map_or(moved, |start| moved.min(start))
}

/// The bookings among these that a service has, by the offer through which they were made.
pub(super) async fn outside(
    event: &mut LockedEvent,
    bookings: &[crate::domain::booking::Booking],
) -> Result<HashMap<crate::domain::ids::OfferId, String>, DbError> {
    if !event.event().outside {
        return Ok(HashMap::new());
    }
    let offers: Vec<_> = bookings.iter().filter_map(|booking| booking.offer).collect();
    if offers.is_empty() { Ok(HashMap::new()) } else { event.keys_of(&offers).await }
}
