//! Calls: everybody who could take an open place is told at once, and the first to accept has it. They keep nothing.

use std::collections::HashMap;

use chrono::{DateTime, Utc};

use super::pass::{CHUNK, PassReport};
use super::{Waitlist, decide};
use crate::db::attributes::{OpenKind, count};
use crate::db::entries::{EntryMove, Reach};
use crate::db::messages::Draft;
use crate::db::offers::NewOffer;
use crate::db::{DbError, LockedEvent};
use crate::domain::allocation::{PassOutcome, Skip, SkipReason};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::{Entry, EntryState};
use crate::domain::event::LargeCall;
use crate::domain::ids::{EntryId, EventId, OfferId, PersonId};
use crate::domain::kinds::Kinds;
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::OfferKind;
use crate::domain::policy::{Mode, Ordering, Policy};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::secret::{Secret, token_hash};

/// What came of a final call by staff.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FinalCallOutcome {
    /// From now on whoever could take an open place is called.
    Made,
    /// It was made before.
    Already,
    /// The rule has no final call, or its time has not come.
    NotYet,
}

impl Waitlist {
    /// Staff make the final call where they pick who is offered a place: nothing goes out by itself there.
    ///
    /// # Errors
    /// What the database says.
    pub async fn make_final_call(
        &self,
        event: EventId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<FinalCallOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            let policy = event.policy().await?;
            if policy.ordering != Ordering::Manual || !policy.calls(event.now()) {
                return Ok(FinalCallOutcome::NotYet);
            }
            if event.event().final_called_at.is_some() {
                return Ok(FinalCallOutcome::Already);
            }
            begin(event, &policy, actor, reason).await?;
            event.want_pass();
            Ok(FinalCallOutcome::Made)
        })
        .await
    }
}

async fn begin(
    event: &mut LockedEvent,
    policy: &Policy,
    actor: Actor,
    reason: &StaffReason,
) -> Result<(), DbError> {
    event.set_final_call().await?;
    let mut record =
        Record::new(event.now(), actor, Act::FinalCall, Subject::Event(event.id()), reason.reason)
            .noted(reason);
    record.policy_version = Some(policy.version);
    event.record(record);
    Ok(())
}

/// A pass while the rule calls instead of holding: the next chunk of those not called yet, in order, then those whose
/// places were gone and who can try again. Batch size and fit do not matter to calls, for they keep nothing.
pub(super) async fn pass(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
    ended: usize,
) -> Result<PassReport, DbError> {
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let kinds = event.open_kinds().await?;
    let is_final = policy.mode == Mode::Hold;
    let (Some(youngest), Some(oldest)) =
        (kinds.iter().map(|kind| kind.youngest).max(), kinds.iter().map(|kind| kind.oldest).min())
    else {
        stop(event).await?;
        let outcome = PassOutcome::NoPlaces;
        event.add_pass(outcome, 0, ended, 0).await?;
        return Ok(PassReport { outcome, offered: 0, ended });
    };
    let open = open_for(&kinds, &Kinds::ALL);
    let everybody = Reach { last_band: i16::MAX, most: limit, depth: limit, larger_too: false, limit };
    let entries = event.who_could_take(&kinds, everybody).await?;
    let again = event.calls_to_tell_again(&kinds, limit).await?;
    let offered = entries.len();
    let outcome = match (is_final, offered + again.len()) {
        (true, 1..) => PassOutcome::FinalCall,
        (false, 1..) => PassOutcome::Offered,
        (_, 0) => PassOutcome::NobodyEligible,
    };
    if is_final && offered > 0 && event.event().final_called_at.is_none() {
        let by_rule = StaffReason { reason: Reason::FinalCall, note: None };
        begin(event, policy, Actor::System, &by_rule).await?;
    }
    let open_before = usize::try_from(open).unwrap_or(0);
    let number = event.add_pass(outcome, offered, ended, open_before).await?;
    let last = entries.last().map(|entry| entry.key);
    make(event, secret, policy, number, &kinds, entries).await?;
    event.tell_again(&again, youngest).await?;
    let wants = event.entries(&again.iter().map(|offer| offer.entry).collect::<Vec<_>>()).await?;
    let wants: HashMap<EntryId, Kinds> = wants.into_iter().map(|entry| (entry.id, entry.kinds)).collect();
    for offer in &again {
        let told = Call {
            offer: offer.id,
            entry: offer.entry,
            person: offer.person,
            party: offer.party,
            expires_at: offer.expires_at,
            open: open_for(&kinds, wants.get(&offer.entry).unwrap_or(&Kinds::ALL)),
        };
        tell(event, &told, is_final, offer.tellings + 1);
    }
    let fit = if event.event().has_wants {
        SkipReason::DoesNotMatch { left: open }
    } else {
        SkipReason::DoesNotFit { more_than: open }
    };
    let skips: Vec<Skip> = last
        .map(|before| {
            [fit, SkipReason::DeclinedThese { since: oldest }].map(|reason| Skip { before, reason }).to_vec()
        })
        .unwrap_or_default();
    let left = kinds.iter().map(|kind| (kind.kind, i32::try_from(kind.open).unwrap_or(i32::MAX))).collect();
    event.add_skips(number, &skips, &left).await?;
    let more = offered == CHUNK || again.len() == CHUNK;
    keep_count(event, &kinds, offered + again.len(), more).await?;
    if more || ended >= CHUNK {
        event.want_pass();
    }
    Ok(PassReport { outcome, offered, ended })
}

/// How far a call is that takes more than one pass. Whom it is for is counted once, when it begins.
async fn keep_count(
    event: &mut LockedEvent,
    kinds: &[OpenKind],
    told: usize,
    more: bool,
) -> Result<(), DbError> {
    let told = i32::try_from(told).unwrap_or(i32::MAX);
    let under_way = event.event().large_call.filter(LargeCall::is_under_way);
    let call = match under_way {
        Some(call) => call.gone_on(told, !more, event.now()),
        None if more => {
            let left = event.how_many_could_take(kinds).await? + event.how_many_to_tell_again(kinds).await?;
            LargeCall::begun(told, i32::try_from(left).unwrap_or(i32::MAX), event.now())
        }
        None => return Ok(()),
    };
    event.set_large_call(call).await
}

/// There is nothing to call for: what is under way stops.
pub(super) async fn stop(event: &mut LockedEvent) -> Result<(), DbError> {
    match event.event().large_call.filter(LargeCall::is_under_way) {
        Some(call) => event.set_large_call(call.stopped(event.now())).await,
        None => Ok(()),
    }
}

async fn make(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
    number: i64,
    kinds: &[OpenKind],
    entries: Vec<Entry>,
) -> Result<(), DbError> {
    let start = event.event().starts_at;
    let is_final = policy.mode == Mode::Hold;
    let deadline = match (is_final, policy.window) {
        (true, _) | (false, None) => start,
        (false, Some(window)) => Some(Policy::deadline(window, event.now(), start)),
    };
    let Some(expires_at) = deadline else { return Ok(()) };
    let reason = if is_final { Reason::FinalCall } else { Reason::EverybodyCalled };
    let told_for = kinds.iter().map(|kind| kind.youngest).max();
    let (mut new, mut moves) = (Vec::with_capacity(entries.len()), Vec::with_capacity(entries.len()));
    for entry in entries {
        let id = OfferId(event.entropy().id());
        let call = NewOffer {
            id,
            entry: entry.id,
            kind: OfferKind::Call,
            party: entry.party,
            key: entry.key,
            expires_at,
            told_for,
            token_hash: token_hash(&secret.offer_token(id, 0)),
        };
        new.push(call);
        let told = Call {
            offer: id,
            entry: entry.id,
            person: entry.person,
            party: entry.party,
            expires_at,
            open: open_for(kinds, &entry.kinds),
        };
        tell(event, &told, is_final, 0);
        moves.push(EntryMove {
            after: Entry { state: EntryState::Offered, ..entry.clone() },
            before: entry,
            actor: Actor::System,
            act: Act::Offered,
            reason,
            note: None,
            policy_version: Some(policy.version),
        });
    }
    event.make_offers(&new, Some(number), policy.version, Actor::System, reason, None).await?;
    event.move_entries(&moves).await
}

/// What a call says: it is a race, for how many places, until when.
fn tell(event: &mut LockedEvent, call: &Call, is_final: bool, count: i32) {
    event.tell(Draft {
        person: call.person,
        occasion: Occasion::Call,
        subject: call.offer.0,
        count,
        facts: Facts {
            entry: Some(call.entry.0),
            offer: Some(call.offer.0),
            party: Some(call.party),
            expires_at: Some(call.expires_at),
            open: Some(call.open),
            is_final: Some(is_final),
            reactivations: Some(0),
            ..Facts::default()
        },
    });
}

/// A call and its person, as a message needs them.
struct Call {
    offer: OfferId,
    entry: EntryId,
    person: PersonId,
    party: i32,
    expires_at: DateTime<Utc>,
    /// So many places that would do are open.
    open: i32,
}

fn open_for(open: &[OpenKind], kinds: &Kinds) -> i32 {
    i32::try_from(count(open, kinds)).unwrap_or(i32::MAX)
}
