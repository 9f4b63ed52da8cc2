//! A pass: end what is due, count, choose by pure code, offer; all under one lock and as sets.

use std::collections::BTreeMap;

use chrono::Duration;

use super::calls;
use super::draws::{self, Lottery};
use super::ending::{Ending, end_offers, labels};
use super::{Waitlist, decide, telling};
use crate::db::attributes::OpenKind;
use crate::db::entries::{EntryMove, Reach};
use crate::db::messages::Draft;
use crate::db::offers::NewOffer;
use crate::db::places::{Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::allocation::{self, Allocation, Candidate, OpenPlace, PassOutcome};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::{Entry, EntryState, PausedBy};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{EntryId, EventId, OfferId, PlaceId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::policy::{Fit, Ordering, Policy, Telling};
use crate::domain::reason::Reason;
use crate::domain::secret::{Secret, token_hash};

/// The most that one pass offers, ends or closes, so that a lock is held for less than a second; what is left is
/// asked for again.
pub const CHUNK: usize = 1_000;

/// As many entries are put back into the line under one lock when the order changes.
pub(super) const REORDERED: i64 = 5_000;

/// An event is over a day after its start: what still waits is closed then.
pub const OVER_AFTER: Duration = Duration::days(1);

/// What a pass did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PassReport {
    /// How it ended.
    pub outcome: PassOutcome,
    /// How many offers it made.
    pub offered: usize,
    /// How many offers it ended because they were due.
    pub ended: usize,
}

impl Waitlist {
    /// Runs one pass of one event.
    ///
    /// # Errors
    /// What the database says.
    #[tracing::instrument(name = "pass", skip_all, fields(event = %event))]
    pub async fn run_pass(&self, event: EventId) -> Result<PassReport, DbError> {
        decide!(self, event, async |event| pass(event, &self.secret).await).await
    }
}

async fn pass(event: &mut LockedEvent, secret: &Secret) -> Result<PassReport, DbError> {
    event.answer_pass_request().await?;
    super::lists::apply_schedule(event).await?;
    close_when_over(event).await?;
    let outages = event.outages().await?;
    telling::after_outages(event, outages).await?;
    let ended = end_due(event).await?;
    let policy = event.policy().await?;
    event.rule_is_due(&policy).await?;
    if event.event().reordering && event.take_back_order(REORDERED).await? {
        event.want_pass();
        return without_offers(event, PassOutcome::Reordering, ended, 0).await;
    }

    if let Some(outcome) = hindrance(event, &policy) {
        if outcome != PassOutcome::Importing {
            calls::stop(event).await?;
        }
        return without_offers(event, outcome, ended, 0).await;
    }
    // A call keeps nothing from anybody: it is written down all the same, and goes out when it can.
    if policy.calls(event.now()) {
        return calls::pass(event, secret, &policy, ended).await;
    }
    calls::stop(event).await?;
    let chunk = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let places = if event.event().has_wants {
        // Of each kind, so that many whom nobody wants do not hide one that somebody waits for.
        event.open_places_of_each_kind(chunk).await?
    } else {
        event.open_places(chunk).await?
    };
    let is_lottery = policy.ordering == Ordering::Lottery;
    if is_lottery && draws::prepare(event, secret, &policy).await? == Lottery::Waits {
        return without_offers(event, PassOutcome::WaitingForDraw, ended, places.len()).await;
    }
    if policy.telling == Telling::Extend && outages.down_since.is_some() && !places.is_empty() {
        return without_offers(event, PassOutcome::CannotTell, ended, places.len()).await;
    }
    let room = if policy.batch_size == 0 {
        CHUNK
    } else {
        let pending = event.pending_holds().await?;
        usize::try_from(i64::from(policy.batch_size) - pending).unwrap_or(0).min(CHUNK)
    };
    let open_before = places.len();
    let (mut entries, mut allocation) = choose(event, &policy, &places, room).await?;
    if is_lottery && allocation.outcome == PassOutcome::NobodyEligible {
        match draws::by_need(event, secret, &policy).await? {
            Some(Lottery::Ranked) => (entries, allocation) = choose(event, &policy, &places, room).await?,
            Some(Lottery::Waits) => {
                return without_offers(event, PassOutcome::WaitingForDraw, ended, places.len()).await;
            }
            None => {}
        }
    }
    let number = event.add_pass(allocation.outcome, allocation.chosen.len(), ended, places.len()).await?;
    let offered = allocation.chosen.len();
    offer(event, secret, &policy, number, places, entries, &allocation).await?;
    event.add_skips(number, &allocation.skips, &allocation.left).await?;
    let given: usize = allocation.chosen.iter().map(|chosen| chosen.places.len()).sum();
    // The order drawn may be used up while places are open: the next look draws again.
    let draw_again = is_lottery && offered > 0 && given < open_before;
    if offered == CHUNK || ended >= CHUNK || draw_again {
        event.want_pass();
    }
    Ok(PassReport { outcome: allocation.outcome, offered, ended })
}

async fn without_offers(
    event: &mut LockedEvent,
    outcome: PassOutcome,
    ended: usize,
    open: usize,
) -> Result<PassReport, DbError> {
    event.add_pass(outcome, 0, ended, open).await?;
    Ok(PassReport { outcome, offered: 0, ended })
}

/// Why nothing is offered, whoever waits.
fn hindrance(event: &LockedEvent, policy: &Policy) -> Option<PassOutcome> {
    let row = event.event();
    if row.state != EventState::Published {
        Some(PassOutcome::NotPublished)
    } else if row.started(event.now()) {
        Some(PassOutcome::AfterStart)
    } else if row.list == ListState::Closed {
        Some(PassOutcome::Closed)
    } else if row.importing_until.is_some_and(|until| event.now() < until) {
        Some(PassOutcome::Importing)
    } else if policy.window.is_none() {
        Some(PassOutcome::Passive)
    } else if policy.ordering == Ordering::Manual
        && (row.final_called_at.is_none() || !policy.calls(event.now()))
    {
        Some(PassOutcome::Manual)
    } else {
        None
    }
}

async fn choose(
    event: &mut LockedEvent,
    policy: &Policy,
    places: &[Place],
    room: usize,
) -> Result<(Vec<Entry>, Allocation), DbError> {
    let open: Vec<OpenPlace> = places
        .iter()
        .map(|place| OpenPlace { id: place.id, opened_at: place.opened_at, kind: place.kind })
        .collect();
    let Some(youngest) = places.iter().map(|place| place.opened_at).max() else {
        return Ok((vec![], allocation::allocate(&open, &[], policy.fit, room)));
    };
    let count = i64::try_from(open.len()).unwrap_or(i64::MAX);
    // Even with no room the head is read, so that the outcome says whether anybody waits.
    let most = i64::try_from(room.max(1)).unwrap_or(i64::MAX);
    let by_kind = event.event().has_wants;
    let kinds = open_kinds(&open);
    let last_band = policy.last_band();
    let (mut depth, mut read) = (1_i64, 0);
    loop {
        let entries = if policy.fit == Fit::Strict && !by_kind {
            let limit = count.saturating_mul(depth).min(most.saturating_mul(depth)) + 1;
            event.head_of_line(limit, youngest, last_band).await?
        } else {
            let most = most.saturating_mul(depth);
            let larger_too = policy.fit == Fit::Strict;
            event
                .who_could_take(&kinds, Reach { last_band, most, depth, larger_too, limit: i64::MAX })
                .await?
        };
        let candidates: Vec<Candidate> = entries.iter().map(Candidate::from).collect();
        let allocation = allocation::allocate(&open, &candidates, policy.fit, room);
        let reach = usize::try_from(depth).unwrap_or(usize::MAX);
        let longer = allocation.is_cut_short(&open, &candidates, policy.fit, room, reach, by_kind);
        if !longer || entries.len() == read {
            return Ok((entries, if by_kind { allocation.by_kind() } else { allocation }));
        }
        // Many who declined these places can hide the one behind them: look eight times as far.
        (read, depth) = (entries.len(), depth.saturating_mul(8));
    }
}

/// Open places, by kind.
pub(super) fn open_kinds(places: &[OpenPlace]) -> Vec<OpenKind> {
    let mut kinds: BTreeMap<i32, OpenKind> = BTreeMap::new();
    for place in places {
        let kind = kinds.entry(place.kind).or_insert(OpenKind {
            kind: place.kind,
            open: 0,
            oldest: place.opened_at,
            youngest: place.opened_at,
        });
        kind.open += 1;
        kind.oldest = kind.oldest.min(place.opened_at);
        kind.youngest = kind.youngest.max(place.opened_at);
    }
    kinds.into_values().collect()
}

async fn offer(
    event: &mut LockedEvent,
    secret: &Secret,
    policy: &Policy,
    number: i64,
    places: Vec<Place>,
    entries: Vec<Entry>,
    allocation: &Allocation,
) -> Result<(), DbError> {
    let Some(window) = policy.window else { return Ok(()) };
    let reason = policy.reason_of_turn();
    let expires_at = Policy::deadline(window, event.now(), event.event().starts_at);
    let mut places: std::collections::HashMap<PlaceId, Place> =
        places.into_iter().map(|place| (place.id, place)).collect();
    let mut entries: std::collections::HashMap<EntryId, Entry> =
        entries.into_iter().map(|entry| (entry.id, entry)).collect();
    let (mut new, mut holds, mut moves) = (Vec::new(), Vec::new(), Vec::new());
    for chosen in &allocation.chosen {
        let Some(entry) = entries.remove(&chosen.candidate.entry) else { continue };
        let id = OfferId(event.entropy().id());
        let given: Vec<Place> = chosen.places.iter().filter_map(|place| places.remove(place)).collect();
        tell_of_offer(event, id, &entry, 0, expires_at, &given);
        holds.extend(
            given.into_iter().map(|place| PlaceMove::hold(place, id, entry.id, Actor::System, reason)),
        );
        new.push(NewOffer {
            id,
            entry: entry.id,
            kind: OfferKind::Hold,
            told_for: None,
            party: entry.party,
            key: entry.key,
            expires_at,
            token_hash: token_hash(&secret.offer_token(id, 0)),
        });
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
    event.move_places(&holds).await?;
    event.move_entries(&moves).await
}

/// The message of an offer made, or made again.
pub(super) fn tell_of_offer(
    event: &mut LockedEvent,
    offer: OfferId,
    entry: &Entry,
    reactivations: i32,
    expires_at: chrono::DateTime<chrono::Utc>,
    places: &[Place],
) {
    event.tell(Draft {
        person: entry.person,
        occasion: Occasion::Offer,
        subject: offer.0,
        count: reactivations,
        facts: Facts {
            entry: Some(entry.id.0),
            offer: Some(offer.0),
            party: Some(entry.party),
            labels: labels(places),
            expires_at: Some(expires_at),
            reactivations: Some(reactivations),
            ..Facts::default()
        },
    });
}

/// Ends what is due: deadlines, unconfirmed entries, pauses, dates until which people wanted to wait.
async fn end_due(event: &mut LockedEvent) -> Result<usize, DbError> {
    let limit = i64::try_from(CHUNK).unwrap_or(i64::MAX);
    let now = event.now();
    let due = event.offers_due(now, limit).await?;
    if due.len() == CHUNK {
        event.want_pass();
    }
    let mut due = telling::made_up(event, due).await?;
    due.retain(|offer| !offer.is_claimable(now));
    expire(event, &due).await?;
    let entries = event.due_entries(limit).await?;
    let mut moves = Vec::with_capacity(entries.len());
    for before in entries {
        let mut after = before.clone();
        let (act, reason) = if before.lapses_at.is_some_and(|at| at <= now) {
            after.state = EntryState::Lapsed;
            after.lapses_at = None;
            (Act::Lapsed, Reason::NotConfirmed)
        } else if before.paused_until.is_some_and(|at| at <= now) {
            after.paused = None;
            after.paused_until = None;
            (Act::Resumed, Reason::Resumed)
        } else {
            after.until_passed = true;
            (Act::Paused, Reason::UntilPassed)
        };
        moves.push(EntryMove {
            before,
            after,
            actor: Actor::System,
            act,
            reason,
            note: None,
            policy_version: None,
        });
    }
    event.move_entries(&moves).await?;
    if moves.len() >= CHUNK {
        event.want_pass();
    }
    Ok(due.len())
}

/// Offers whose deadline passed: each follows the version of the rule under which it was made.
async fn expire(event: &mut LockedEvent, due: &[Offer]) -> Result<(), DbError> {
    if due.is_empty() {
        return Ok(());
    }
    let mut versions: Vec<i32> = due.iter().map(|offer| offer.policy_version).collect();
    versions.sort_unstable();
    versions.dedup();
    let policies = event.policy_versions(&versions).await?;
    let entries = event.entries(&due.iter().map(|offer| offer.entry).collect::<Vec<_>>()).await?;
    let mut entries: std::collections::HashMap<EntryId, Entry> =
        entries.into_iter().map(|entry| (entry.id, entry)).collect();
    let mut endings = Vec::with_capacity(due.len());
    for offer in due {
        let policy =
            policies.iter().find(|policy| policy.version == offer.policy_version).ok_or(DbError::NotFound)?;
        let entry = entries.remove(&offer.entry).ok_or(DbError::NotFound)?;
        if offer.kind == OfferKind::Call {
            endings.push(call_ended(offer, entry, event.now()));
            continue;
        }
        let (after, back) = entry.after_silence(policy);
        let silent = after.paused == Some(PausedBy::Silent);
        endings.push(Ending {
            offer: offer.clone(),
            to: OfferState::Expired,
            entry,
            after,
            to_end: back.to_end,
            actor: Actor::System,
            act: Act::Expired,
            reason: Reason::WindowEnded,
            note: None,
            tell: Some(if silent { Occasion::PausedBySilence } else { Occasion::Lapsed }),
        });
    }
    end_offers(event, endings).await?;
    Ok(())
}

fn call_ended(offer: &Offer, entry: Entry, now: chrono::DateTime<chrono::Utc>) -> Ending {
    Ending {
        offer: offer.clone(),
        to: OfferState::Expired,
        after: entry.after_call(now),
        entry,
        to_end: false,
        actor: Actor::System,
        act: Act::Expired,
        reason: Reason::CallEnded,
        note: None,
        tell: None,
    }
}

/// A day after its start a published event is over. What still waits for an event that has ended is closed, a chunk
/// at a time; so is what a cancellation did not get to, because the program was stopped between two chunks.
async fn close_when_over(event: &mut LockedEvent) -> Result<(), DbError> {
    let past = event.event().starts_at.is_some_and(|start| start + OVER_AFTER <= event.now());
    let (state, reason) = match event.event().state {
        EventState::Cancelled => (EventState::Cancelled, Reason::EventCancelled),
        EventState::Over => (EventState::Over, Reason::EventOver),
        EventState::Published if past => (EventState::Over, Reason::EventOver),
        EventState::Published | EventState::Draft => return Ok(()),
    };
    let (revoked, closed) = super::events::end(event, state, Actor::System, reason, None).await?;
    if revoked == CHUNK || closed == CHUNK {
        event.want_pass();
    }
    Ok(())
}
