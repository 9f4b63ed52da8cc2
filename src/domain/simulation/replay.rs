//! The replay itself: happenings and deadlines in the order of their instants, and after each instant a pass.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, BinaryHeap, HashMap, HashSet};

use chrono::{DateTime, Utc};

use super::answers::{Answer, Answers, Base, Said};
use super::{Figures, Happening, Made, Past, What};
use crate::domain::allocation::OpenPlace;
use crate::domain::entry::{Entry, EntryState, OrderKey, Return};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{EntryId, PersonId, PlaceId};
use crate::domain::kinds::Kinds;
use crate::domain::offer::OfferKind;
use crate::domain::place::PlaceState;
use crate::domain::policy::{Draws, Ordering, Policy};

mod pass;

/// What came of a replay.
pub(super) struct Replayed {
    pub(super) figures: Figures,
    pub(super) made: Vec<Made>,
    pub(super) drawn: usize,
    pub(super) draws: usize,
}

/// A replay ends without a result when it has cost so much, in places of the line looked at: then it takes seconds.
/// Ten thousand people and a thousand releases cost a hundredth of it where offers keep places.
const EFFORT: usize = 1_000_000_000;

/// A message, or a ticket of a draw, costs as much as so many places of the line.
const COSTLY: usize = 4_000;

/// Replays a past under a rule, until an instant; nothing when it would take too long.
pub(super) fn replay(past: &Past, policy: &Policy, base: &Base, until: DateTime<Utc>) -> Option<Replayed> {
    let mut stage = Stage::set(past, policy, base);
    let mut happenings = past.happenings.iter().peekable();
    loop {
        let next = happenings.peek().map(|happening| happening.at);
        let due = stage.due.peek().map(|Reverse((at, ..))| *at);
        // A deadline ends what it ends before anything else happens at that instant: itself it is late.
        let timed = due.is_some_and(|due| next.is_none_or(|next| due <= next));
        let Some(now) = (if timed { due } else { next }).filter(|now| *now <= until) else { break };
        stage.now = now;
        if timed {
            while let Some(Reverse((_, what, offer))) = stage.due.peek().copied().filter(|due| due.0.0 == now)
            {
                stage.due.pop();
                stage.is_due(what, offer);
            }
        } else {
            while let Some(happening) = happenings.next_if(|happening| happening.at == now) {
                stage.happens(happening);
            }
        }
        while stage.pass() {}
        if stage.effort + COSTLY * stage.figures.messages > EFFORT {
            return None;
        }
    }
    let mut figures = stage.figures;
    figures.people = stage.offered.len();
    figures.pending = stage.offers.iter().filter(|offer| offer.is_live).count();
    figures.waits.sort_unstable();
    Some(Replayed { figures, made: stage.made, drawn: stage.answers.drawn, draws: stage.draws_seeded })
}

/// What is due at an instant, in the order in which it is done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Due {
    /// The person answers.
    Answer,
    /// The deadline.
    Deadline,
    /// The rule itself set this instant.
    Rule,
}

struct Place {
    number: i32,
    as_open: OpenPlace,
    state: PlaceState,
    retire_when_free: bool,
    /// Since when nobody has booked it.
    free_since: DateTime<Utc>,
}

struct Offer {
    entry: usize,
    kind: OfferKind,
    places: Vec<usize>,
    expires_at: DateTime<Utc>,
    answer: Answer,
    /// Of a call: it told of places that had opened until then.
    told_for: DateTime<Utc>,
    /// Of a call: its person said yes, and nothing was there any more.
    was_late: bool,
    is_live: bool,
}

/// The eligible in order, all of them and by the size of their party.
#[derive(Default)]
struct Line {
    all: BTreeSet<(OrderKey, usize)>,
    by_party: BTreeMap<i32, BTreeSet<(OrderKey, usize)>>,
}

struct Stage<'a> {
    past: &'a Past,
    policy: &'a Policy,
    now: DateTime<Utc>,
    state: EventState,
    list: ListState,
    entries: Vec<Entry>,
    by_id: HashMap<EntryId, usize>,
    /// The entry on the list of each person who has one.
    live: HashMap<PersonId, usize>,
    /// The entry under which somebody got places through an offer.
    served: HashMap<PersonId, usize>,
    line: Line,
    next_rank: i64,
    places: Vec<Place>,
    places_by_id: HashMap<PlaceId, usize>,
    /// Somebody wants some kinds of places rather than others.
    by_kind: bool,
    /// Open places by number.
    open: BTreeSet<(i32, usize)>,
    offers: Vec<Offer>,
    /// The live offer of an entry.
    live_offers: HashMap<usize, usize>,
    pending_holds: usize,
    calls: BTreeSet<(DateTime<Utc>, usize)>,
    due: BinaryHeap<Reverse<(DateTime<Utc>, Due, usize)>>,
    answers: Answers<'a>,
    last_draw: (usize, Option<DateTime<Utc>>),
    draws_seeded: usize,
    made: Vec<Made>,
    offered: HashSet<PersonId>,
    figures: Figures,
    effort: usize,
}

impl<'a> Stage<'a> {
    fn set(past: &'a Past, policy: &'a Policy, base: &'a Base) -> Self {
        let nobody = |row: &Entry| Entry {
            state: EntryState::Unconfirmed,
            key: OrderKey { band: 0, round: 0, rank: 0 },
            line_rank: None,
            lapses_at: None,
            paused: None,
            paused_until: None,
            contact_problem: false,
            offer_anyway: false,
            set_aside: false,
            until_passed: false,
            silent_offers: 0,
            declined_at: None,
            ..row.clone()
        };
        let places: Vec<Place> = past
            .places
            .iter()
            .map(|(number, place)| Place {
                number: *number,
                as_open: *place,
                state: PlaceState::Retired,
                retire_when_free: false,
                free_since: DateTime::UNIX_EPOCH,
            })
            .collect();
        let staff_draw = policy.draws == Draws::ByStaff && policy.ordering == Ordering::Lottery;
        let by_staff = past.draws.iter().filter(|_| staff_draw).map(|draw| draw.at);
        let instants = [policy.cutoff, policy.draws.at()].into_iter().flatten().chain(by_staff);
        Self {
            past,
            policy,
            now: DateTime::UNIX_EPOCH,
            state: past.state,
            list: past.list,
            entries: past.entries.iter().map(nobody).collect(),
            by_id: past.entries.iter().enumerate().map(|(index, entry)| (entry.id, index)).collect(),
            live: HashMap::new(),
            served: HashMap::new(),
            line: Line::default(),
            next_rank: 1,
            places_by_id: places.iter().enumerate().map(|(index, place)| (place.as_open.id, index)).collect(),
            places,
            by_kind: past.entries.iter().any(|entry| entry.kinds != Kinds::ALL),
            open: BTreeSet::new(),
            offers: Vec::new(),
            live_offers: HashMap::new(),
            pending_holds: 0,
            calls: BTreeSet::new(),
            due: instants.map(|at| Reverse((at, Due::Rule, 0))).collect(),
            answers: Answers::of(past, base),
            last_draw: (0, None),
            draws_seeded: 0,
            made: Vec::new(),
            offered: HashSet::new(),
            figures: Figures::default(),
            effort: 0,
        }
    }

    fn happens(&mut self, happening: &Happening) {
        match happening.what {
            What::Joined { entry, confirmed } => self.joins(entry, confirmed),
            What::Confirmed(entry) => self.change(entry, |entry, now| {
                entry.confirmed_at = Some(now);
                entry.contact_problem = false;
                if entry.state == EntryState::Unconfirmed {
                    entry.state = EntryState::Waiting;
                }
            }),
            What::Gone { entry, to } => self.goes(entry, to),
            What::HasBooked(entry) => self.goes(entry, EntryState::Accepted),
            What::Paused { entry, by } => self.change(entry, |entry, _| entry.paused = Some(by)),
            What::Resumed { entry, by_hand } => self.change(entry, |entry, _| {
                entry.paused = None;
                if by_hand {
                    entry.silent_offers = 0;
                }
            }),
            What::UntilPassed(entry) => self.change(entry, |entry, _| entry.until_passed = true),
            What::Contact { entry, problem } => {
                self.change(entry, |entry, _| entry.contact_problem = problem);
            }
            What::OfferAnyway(entry) => {
                self.change(entry, |entry, _| entry.offer_anyway = entry.contact_problem);
            }
            What::Group { entry, band } if self.policy.ordering == Ordering::Priority => {
                self.change(entry, |entry, _| entry.key.band = band);
            }
            What::Group { .. } => {}
            What::Party { entry, party, .. } => self.asks_for(entry, party),
            What::Opened(place) => self.opens(place),
            What::BookedPast(place) => self.is_booked_past(place),
            What::Retired { place, cancelled } => self.retires(place, cancelled),
            What::List(list) => {
                self.list = list;
                if list == ListState::Closed {
                    self.take_back(true);
                }
            }
            What::Event(state) => {
                self.state = state;
                if state != EventState::Published {
                    self.take_back(false);
                }
            }
        }
    }

    // ── entries ──────────────────────────────────────────────────────────────────────────────────────────

    /// Replaces an entry, and its place in the line.
    fn put(&mut self, index: usize, after: Entry) {
        let in_line = |entry: &Entry| entry.state == EntryState::Waiting && entry.hindrance().is_none();
        let before = &self.entries[index];
        if in_line(before) {
            self.line.all.remove(&(before.key, index));
            self.line.by_party.entry(before.party).or_default().remove(&(before.key, index));
        }
        if in_line(&after) {
            self.line.all.insert((after.key, index));
            self.line.by_party.entry(after.party).or_default().insert((after.key, index));
        }
        if before.state.is_live() && !after.state.is_live() {
            self.live.remove(&after.person);
        }
        self.entries[index] = after;
    }

    /// The entry on the list of whoever made this one: under another rule that may be an earlier one.
    fn live_entry(&self, entry: EntryId) -> Option<usize> {
        let index = *self.by_id.get(&entry)?;
        self.live.get(&self.entries[index].person).copied()
    }

    fn change(&mut self, entry: EntryId, how: impl FnOnce(&mut Entry, DateTime<Utc>)) {
        if let Some(index) = self.live_entry(entry) {
            let mut after = self.entries[index].clone();
            how(&mut after, self.now);
            self.put(index, after);
        }
    }

    /// Whoever asks for more goes to the end of the line.
    fn asks_for(&mut self, entry: EntryId, party: i32) {
        let Some(index) = self.live_entry(entry) else { return };
        let mut after = self.entries[index].clone();
        if party > after.party {
            let rank = self.rank_at_end();
            after.send_to_end(rank);
        }
        after.party = party;
        self.put(index, after);
    }

    fn rank_at_end(&mut self) -> i64 {
        self.next_rank += 1;
        OrderKey::rank_of(self.next_rank - 1)
    }

    /// Whoever is on the list stays where they are, and whoever got places under this rule, and really did not, has no
    /// reason to join again.
    fn joins(&mut self, entry: EntryId, confirmed: bool) {
        let Some(index) = self.by_id.get(&entry).copied() else { return };
        let person = self.entries[index].person;
        let served = self.served.get(&person).map(|other| self.past.entries[*other].state);
        if self.live.contains_key(&person) || served.is_some_and(|really| really != EntryState::Accepted) {
            return;
        }
        let rank = self.rank_at_end();
        let mut after = self.entries[index].clone();
        after.key.rank = rank;
        after.state = if confirmed { EntryState::Waiting } else { EntryState::Unconfirmed };
        self.live.insert(person, index);
        self.put(index, after);
    }

    fn goes(&mut self, entry: EntryId, to: EntryState) {
        let Some(index) = self.live_entry(entry) else { return };
        let after = Entry { state: to, ..self.entries[index].clone() };
        if let Some(offer) = self.live_offers.get(&index).copied() {
            self.figures.messages += usize::from(to != EntryState::Accepted);
            self.figures.declined += usize::from(to == EntryState::Withdrawn);
            self.end(offer, after, false);
        } else {
            self.put(index, after);
        }
    }

    // ── places ───────────────────────────────────────────────────────────────────────────────────────────

    fn set_place(&mut self, index: usize, state: PlaceState) {
        let place = &mut self.places[index];
        if place.state == PlaceState::Open {
            self.open.remove(&(place.number, index));
        }
        place.state = state;
        if state == PlaceState::Open {
            place.as_open.opened_at = self.now;
            self.open.insert((place.number, index));
        }
    }

    /// Nothing has the place any more.
    fn free(&mut self, index: usize) {
        let place = &mut self.places[index];
        let leaves = std::mem::take(&mut place.retire_when_free);
        self.set_place(index, if leaves { PlaceState::Retired } else { PlaceState::Open });
    }

    /// It was added, or whoever has it cancels.
    fn opens(&mut self, place: PlaceId) {
        let Some(index) = self.places_by_id.get(&place).copied() else { return };
        if matches!(self.places[index].state, PlaceState::Booked | PlaceState::Retired) {
            self.places[index].free_since = self.now;
            self.free(index);
        }
    }

    /// That place, or another, if one is open.
    fn is_booked_past(&mut self, place: PlaceId) {
        let Some(index) = self.places_by_id.get(&place).copied() else { return };
        let is_open = self.places[index].state == PlaceState::Open;
        let other = self.open.first().map(|(_, index)| *index);
        if let Some(index) = if is_open { Some(index) } else { other } {
            self.set_place(index, PlaceState::Booked);
        }
    }

    fn retires(&mut self, place: PlaceId, cancelled: bool) {
        let Some(index) = self.places_by_id.get(&place).copied() else { return };
        match self.places[index].state {
            PlaceState::Open => self.set_place(index, PlaceState::Retired),
            PlaceState::Booked if cancelled => {
                self.places[index].retire_when_free = true;
                self.free(index);
            }
            PlaceState::Booked | PlaceState::Held => self.places[index].retire_when_free = true,
            PlaceState::Retired => {}
        }
    }

    // ── offers ───────────────────────────────────────────────────────────────────────────────────────────

    fn is_due(&mut self, what: Due, index: usize) {
        let Some(offer) = self.offers.get(index).filter(|offer| offer.is_live && what != Due::Rule) else {
            return;
        };
        let entry = &self.entries[offer.entry];
        match (what, offer.answer.said) {
            (Due::Answer, Said::Yes) => self.is_accepted(index),
            (Due::Answer, Said::No) => {
                let (after, back) = entry.after_decline(self.policy, self.now);
                self.figures.declined += 1;
                self.figures.messages += 1;
                self.end(index, after, back.to_end);
            }
            (Due::Answer, Said::Nothing) | (Due::Rule, _) => {}
            (Due::Deadline, _) => {
                self.figures.unanswered += 1;
                if offer.kind == OfferKind::Call {
                    let after = entry.after_call(self.now);
                    self.end(index, after, false);
                } else {
                    let (after, back) = entry.after_silence(self.policy);
                    self.figures.messages += 1;
                    self.end(index, after, back.to_end);
                }
            }
        }
    }

    fn is_accepted(&mut self, index: usize) {
        let offer = &mut self.offers[index];
        let entry = offer.entry;
        let mut places = std::mem::take(&mut offer.places);
        if offer.kind == OfferKind::Call {
            let party = usize::try_from(self.entries[entry].party).unwrap_or(usize::MAX);
            let kinds = &self.entries[entry].kinds;
            let would_do = |place: &usize| kinds.has(self.places[*place].as_open.kind);
            places = self.open.iter().map(|(_, place)| *place).filter(would_do).take(party).collect();
            if places.len() < party {
                offer.was_late = true;
                return;
            }
        }
        for place in places {
            self.set_place(place, PlaceState::Booked);
            let since = self.places[place].free_since;
            self.figures.fill(self.now, Some(since));
        }
        self.figures.accepted += 1;
        self.figures.messages += 1;
        self.served.insert(self.entries[entry].person, entry);
        let after = Entry { state: EntryState::Accepted, silent_offers: 0, ..self.entries[entry].clone() };
        self.end(index, after, false);
    }

    /// Makes an offer, whose answer is known from then on.
    fn make(
        &mut self,
        entry: usize,
        kind: OfferKind,
        places: Vec<usize>,
        expires_at: DateTime<Utc>,
        told_for: DateTime<Utc>,
    ) {
        let index = self.offers.len();
        let (id, person) = (self.entries[entry].id, self.entries[entry].person);
        let answer = self.answers.next(person, kind);
        if answer.said != Said::Nothing && self.now + answer.after < expires_at {
            self.due.push(Reverse((self.now + answer.after, Due::Answer, index)));
        }
        self.due.push(Reverse((expires_at, Due::Deadline, index)));
        if kind == OfferKind::Call {
            self.calls.insert((told_for, index));
        }
        self.live_offers.insert(entry, index);
        self.offered.insert(person);
        self.figures.offers += 1;
        self.figures.messages += 1;
        let kept = places.iter().map(|place| self.places[*place].as_open.id).collect();
        self.made.push(Made { at: self.now, entry: id, kind, places: kept });
        self.offers.push(Offer {
            entry,
            kind,
            places,
            expires_at,
            answer,
            told_for,
            was_late: false,
            is_live: true,
        });
        let after = Entry { state: EntryState::Offered, ..self.entries[entry].clone() };
        self.put(entry, after);
    }

    /// Ends an offer: what it holds is free, and its entry is as it shall be.
    fn end(&mut self, index: usize, mut after: Entry, to_end: bool) {
        let offer = &mut self.offers[index];
        offer.is_live = false;
        let (entry, kind, told_for) = (offer.entry, offer.kind, offer.told_for);
        for place in std::mem::take(&mut offer.places) {
            self.free(place);
        }
        match kind {
            OfferKind::Hold => self.pending_holds -= 1,
            OfferKind::Call => {
                self.calls.remove(&(told_for, index));
            }
        }
        self.live_offers.remove(&entry);
        if to_end {
            let rank = self.rank_at_end();
            after.send_to_end(rank);
        }
        self.put(entry, after);
    }

    /// The list is closed, or the event is off: offers are taken back, and their people keep their rank.
    fn take_back(&mut self, tell: bool) {
        let mut live: Vec<usize> = self.live_offers.values().copied().collect();
        live.sort_unstable_by_key(|offer| (self.offers[*offer].expires_at, *offer));
        for offer in live {
            self.figures.messages += usize::from(tell);
            let after = self.entries[self.offers[offer].entry].moved_back(Return::TO_ITS_RANK);
            self.end(offer, after, false);
        }
    }
}
