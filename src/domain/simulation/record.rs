//! The audit's records as a replay needs them: what happened without the rule's doing.

use std::collections::HashMap;

use super::{Happening, What};
use crate::domain::audit::{Act, StoredRecord};
use crate::domain::entry::{Entry, EntryState, OrderKey, PausedBy};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{EntryId, PlaceId};
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;

/// What a record says happened, unless it was the rule's doing, or that of staff on an offer.
#[must_use]
pub fn what(record: &StoredRecord) -> Option<What> {
    let act = Act::parse(&record.act)?;
    match record.subject.as_str() {
        "entry" => entry(EntryId(record.subject_id), act, record),
        "wants" if act == Act::PartyChanged => Some(What::Party {
            entry: EntryId(record.subject_id),
            before: record.from_state.as_deref()?.parse().ok()?,
            party: record.to_state.as_deref()?.parse().ok()?,
        }),
        "place" => place(PlaceId(record.subject_id), act, record),
        "event" => event(record.to_state.as_deref()?),
        _ => None,
    }
}

/// Entries with the number of places for which they asked when they joined.
#[must_use]
pub fn as_they_joined(mut entries: Vec<Entry>, happenings: &[Happening]) -> Vec<Entry> {
    let mut first: HashMap<EntryId, i32> = HashMap::new();
    for happening in happenings {
        if let What::Party { entry, before, .. } = happening.what {
            first.entry(entry).or_insert(before);
        }
    }
    for entry in &mut entries {
        entry.party = first.get(&entry.id).copied().unwrap_or(entry.party);
    }
    entries
}

/// How the list stood before its first record, if it has one.
#[must_use]
pub fn list_before(records: &[StoredRecord]) -> Option<ListState> {
    let from = |record: &StoredRecord| record.from_state.as_deref().and_then(ListState::parse);
    records.iter().filter(|record| record.subject == "event").find_map(from)
}

/// How the event stood before its first record, if it has one.
#[must_use]
pub fn event_before(records: &[StoredRecord]) -> Option<EventState> {
    let from = |record: &StoredRecord| record.from_state.as_deref().and_then(EventState::parse);
    records.iter().filter(|record| record.subject == "event").find_map(from)
}

fn entry(entry: EntryId, act: Act, record: &StoredRecord) -> Option<What> {
    let to = record.to_state.as_deref().and_then(EntryState::parse);
    let reason = Reason::parse(&record.reason);
    Some(match act {
        Act::Joined => What::Joined { entry, confirmed: to == Some(EntryState::Waiting) },
        Act::Confirmed => What::Confirmed(entry),
        Act::Lapsed | Act::Left | Act::Removed => What::Gone { entry, to: to? },
        // By whatever act staff took somebody off.
        _ if to == Some(EntryState::Removed) => What::Gone { entry, to: EntryState::Removed },
        Act::Paused if reason == Some(Reason::UntilPassed) => What::UntilPassed(entry),
        Act::Paused if reason == Some(Reason::Silent) => return None,
        Act::Paused => {
            let by = if matches!(record.actor.as_str(), "staff" | "key") {
                PausedBy::Staff
            } else {
                PausedBy::Person
            };
            What::Paused { entry, by }
        }
        Act::Resumed => What::Resumed { entry, by_hand: record.actor != "system" },
        Act::ContactChanged => What::Contact { entry, problem: reason == Some(Reason::ContactProblem) },
        Act::Placed => What::OfferAnyway(entry),
        Act::BandChanged => What::Group { entry, band: OrderKey::parse(record.order_key.as_deref()?)?.band },
        // Who accepts an offer does so under the version of the rule that made it.
        Act::Accepted if record.policy_version.is_none() => What::HasBooked(entry),
        _ => return None,
    })
}

fn place(place: PlaceId, act: Act, record: &StoredRecord) -> Option<What> {
    let from = record.from_state.as_deref().and_then(PlaceState::parse);
    Some(match act {
        Act::Added => What::Opened(place),
        Act::Released if from == Some(PlaceState::Booked) => What::Opened(place),
        Act::Booked if record.reason != Reason::Accepted.as_str() => What::BookedPast(place),
        Act::Retired => {
            let gone = record.to_state.as_deref() == Some(PlaceState::Retired.as_str());
            What::Retired { place, cancelled: gone && from == Some(PlaceState::Booked) }
        }
        _ => return None,
    })
}

fn event(to: &str) -> Option<What> {
    ListState::parse(to).map(What::List).or_else(|| EventState::parse(to).map(What::Event))
}
