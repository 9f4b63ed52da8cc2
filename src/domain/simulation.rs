//! "What would this rule have done?": an event's past, replayed under a rule.
//!
//! What happened without the rule's doing is taken from the record: who joined, left or paused, which places came back
//! or were booked past the list. The rest is decided by the functions by which passes decide. Whoever was really
//! offered places answers as they did; what the record cannot tell, how anybody else would have answered and how soon,
//! is drawn from the answers it has, with a fixed seed. Acts of staff on offers and on somebody's number in the line
//! are left out: the rule has its own.

use std::collections::{BTreeMap, HashMap, HashSet};

use chrono::{DateTime, Duration, Utc};

use super::allocation::OpenPlace;
use super::draw::Bytes32;
use super::entry::{Entry, EntryState, PausedBy};
use super::event::{EventState, ListState};
use super::ids::{EntryId, PlaceId};
use super::offer::{OfferKind, OfferState};
use super::policy::Policy;

mod answers;
pub mod record;
mod replay;

pub use answers::{Base, Ended};

/// What is known of an event's past.
#[derive(Clone, Debug)]
pub struct Past {
    /// Everybody who ever joined. Read of them are who, how many places, the arrival, and what became of them.
    pub entries: Vec<Entry>,
    /// Every place that ever was, with its number: in their order places are given.
    pub places: Vec<(i32, OpenPlace)>,
    /// What happened without the rule's doing, in order.
    pub happenings: Vec<Happening>,
    /// The offers really made, in order.
    pub offers: Vec<PastOffer>,
    /// The places that were booked through an offer, and when, in order.
    pub bookings: Vec<(DateTime<Utc>, PlaceId)>,
    /// How many messages told people of their offers.
    pub messages: usize,
    /// The draws really held, in order.
    pub draws: Vec<PastDraw>,
    /// The event's state before all of this.
    pub state: EventState,
    /// Its list's.
    pub list: ListState,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
    /// Until when it is known what happened.
    pub until: DateTime<Utc>,
}

/// Something that happened without the rule's doing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Happening {
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub what: What,
}

/// What happened.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum What {
    /// Somebody joined: at once in the line, or to be confirmed first.
    Joined {
        /// As which entry.
        entry: EntryId,
        /// At once in the line.
        confirmed: bool,
    },
    /// The contact was confirmed.
    Confirmed(EntryId),
    /// Left, was taken off, or lapsed.
    Gone {
        /// Who.
        entry: EntryId,
        /// What it is from then on.
        to: EntryState,
    },
    /// Booked past the list, and is on it no more.
    HasBooked(EntryId),
    /// Is passed over from then on.
    Paused {
        /// Who.
        entry: EntryId,
        /// By whom.
        by: PausedBy,
    },
    /// Is served again.
    Resumed {
        /// Who.
        entry: EntryId,
        /// Somebody said so, and the silence before counts no more; else the pause was over.
        by_hand: bool,
    },
    /// The date until which they wanted to wait passed.
    UntilPassed(EntryId),
    /// None of the contacts works, or one works again.
    Contact {
        /// Who.
        entry: EntryId,
        /// None works.
        problem: bool,
    },
    /// Staff offer in spite of a contact problem.
    OfferAnyway(EntryId),
    /// Staff put them into a group.
    Group {
        /// Who.
        entry: EntryId,
        /// The group's number.
        band: i16,
    },
    /// They ask for another number of places.
    Party {
        /// Who.
        entry: EntryId,
        /// How many they asked for before.
        before: i32,
        /// How many they ask for from then on.
        party: i32,
    },
    /// A place came back, or was added.
    Opened(PlaceId),
    /// A place was booked past the list.
    BookedPast(PlaceId),
    /// A place was taken out of the event.
    Retired {
        /// Which.
        place: PlaceId,
        /// By its booking's end; else nobody is evicted, and it leaves when it is free.
        cancelled: bool,
    },
    /// The list was opened, frozen or closed.
    List(ListState),
    /// The event was published, cancelled, restored, or is over.
    Event(EventState),
}

/// An offer that was really made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastOffer {
    /// To whom.
    pub entry: EntryId,
    /// A hold or a call.
    pub kind: OfferKind,
    /// Where it is in its life.
    pub state: OfferState,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// When it ended, if it did.
    pub ended_at: Option<DateTime<Utc>>,
    /// Declined by leaving the list.
    pub left: bool,
    /// By a pass; else by staff.
    pub by_rule: bool,
}

/// A draw that was really held.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastDraw {
    /// When its pool was frozen.
    pub at: DateTime<Utc>,
    /// The secret it revealed.
    pub secret: Bytes32,
    /// What the beacon said.
    pub beacon: Option<Bytes32>,
}

/// Why a past is not replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WhyNot {
    /// No place came back that the list could have had.
    NothingCameBack,
    /// No offer ended with an answer or without: whether people accept is not known.
    NobodyAnswered,
    /// The rule would call so many people so often that following it takes too long.
    TooMuch,
}

/// An offer of a replay.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Made {
    /// When.
    pub at: DateTime<Utc>,
    /// To whom.
    pub entry: EntryId,
    /// A hold or a call.
    pub kind: OfferKind,
    /// What a hold kept.
    pub places: Vec<PlaceId>,
}

/// What came of the places of an event: of a replay, or really.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Offers made.
    pub offers: usize,
    /// How many people they were made to.
    pub people: usize,
    /// Offers that were accepted.
    pub accepted: usize,
    /// Offers that were declined.
    pub declined: usize,
    /// Offers whose deadline passed.
    pub unanswered: usize,
    /// Offers that waited for an answer in the end.
    pub pending: usize,
    /// Messages that told people of their offers.
    pub messages: usize,
    /// When places were filled through the list, in order: one item a place.
    pub filled: Vec<DateTime<Utc>>,
    /// How long each of them had been open or held, the shortest first.
    pub waits: Vec<Duration>,
}

impl Figures {
    /// Half of the places were filled within this time.
    #[must_use]
    pub fn median_wait(&self) -> Option<Duration> {
        self.waits.get(self.waits.len().saturating_sub(1) / 2).copied()
    }

    fn fill(&mut self, at: DateTime<Utc>, open_since: Option<DateTime<Utc>>) {
        self.filled.push(at);
        self.waits.extend(open_since.map(|since| at - since));
    }
}

/// A past beside what a rule would have made of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Simulation {
    /// What really happened.
    pub really: Figures,
    /// What the rule would have done.
    pub replayed: Figures,
    /// The offers it would have made, in order.
    pub made: Vec<Made>,
    /// When places came back that the list could have had, in order: one item a place.
    pub came_back: Vec<DateTime<Utc>>,
    /// The answers from which others were drawn.
    pub base: Base,
    /// How many answers were drawn.
    pub drawn: usize,
    /// How many draws were held with the fixed seed, for want of a real one.
    pub draws: usize,
    /// Offers that staff made by hand, and that are left out of the replay.
    pub by_hand: usize,
    /// Offers that were taken back: how they would have ended is drawn.
    pub taken_back: usize,
    /// Until when it goes.
    pub until: DateTime<Utc>,
}

/// Replays a past under a rule. The same past and rule give the same figures.
///
/// # Errors
/// What is missing, when the record is too thin; or that it would take too long.
pub fn simulate(past: &Past, policy: &Policy) -> Result<Simulation, WhyNot> {
    let came_back = came_back(past);
    if came_back.is_empty() {
        return Err(WhyNot::NothingCameBack);
    }
    let base = Base::of(&past.offers);
    if base.is_empty() {
        return Err(WhyNot::NobodyAnswered);
    }
    let until = past.starts_at.map_or(past.until, |start| start.min(past.until));
    let replayed = replay::replay(past, policy, &base, until).ok_or(WhyNot::TooMuch)?;
    Ok(Simulation {
        really: really(past),
        replayed: replayed.figures,
        made: replayed.made,
        came_back,
        base,
        drawn: replayed.drawn,
        draws: replayed.draws,
        by_hand: past.offers.iter().filter(|offer| !offer.by_rule).count(),
        taken_back: past.offers.iter().filter(|offer| offer.state == OfferState::Revoked).count(),
        until,
    })
}

/// When places opened that nobody booked past the list before they opened again.
fn came_back(past: &Past) -> Vec<DateTime<Utc>> {
    let mut open: BTreeMap<PlaceId, DateTime<Utc>> = BTreeMap::new();
    let mut came_back = Vec::new();
    for happening in &past.happenings {
        match happening.what {
            What::Opened(place) => came_back.extend(open.insert(place, happening.at)),
            What::BookedPast(place) => {
                open.remove(&place);
            }
            _ => {}
        }
    }
    came_back.extend(open.into_values());
    came_back.sort_unstable();
    came_back
}

/// What the record says came of the places.
fn really(past: &Past) -> Figures {
    let persons: HashMap<EntryId, _> = past.entries.iter().map(|entry| (entry.id, entry.person)).collect();
    let offered: HashSet<_> = past.offers.iter().filter_map(|offer| persons.get(&offer.entry)).collect();
    let count = |state| past.offers.iter().filter(|offer| offer.state == state).count();
    let mut figures = Figures {
        offers: past.offers.len(),
        people: offered.len(),
        accepted: count(OfferState::Accepted),
        declined: count(OfferState::Declined),
        unanswered: count(OfferState::Expired),
        pending: count(OfferState::Pending) + count(OfferState::Accepting),
        messages: past.messages,
        ..Figures::default()
    };
    let mut open: HashMap<PlaceId, DateTime<Utc>> = HashMap::new();
    let mut happenings = past.happenings.iter().peekable();
    for (at, place) in &past.bookings {
        while let Some(happening) = happenings.next_if(|happening| happening.at <= *at) {
            if let What::Opened(place) = happening.what {
                open.insert(place, happening.at);
            }
        }
        figures.fill(*at, open.remove(place));
    }
    figures.waits.sort_unstable();
    figures
}

#[cfg(test)]
mod tests;
