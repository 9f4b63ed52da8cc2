//! Who gets what, and why others do not: one pure function.
//!
//! It is given bounded lists in order and never looks at the whole queue; what it passed over it describes as
//! sets ("everybody before this key who wants more than two"), so that the record of a pass over a long list
//! is as small as that of a short one.

use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};

use super::entry::{Entry, OrderKey};
use super::ids::{EntryId, PersonId, PlaceId};
use super::kinds::Kinds;
use super::policy::Fit;
use super::words;

words! {
    /// How a pass ended.
    PassOutcome {
        /// Offers were made.
        Offered = "offered",
        /// No place is open.
        NoPlaces = "no_places",
        /// Places are open, and nobody waiting could take one.
        NobodyEligible = "nobody_eligible",
        /// The head of the list wants more places than are open, and the rule is to wait.
        HeadWaits = "head_waits",
        /// As many offers are pending as the rule allows.
        BatchFull = "batch_full",
        /// The rule offers nothing by itself.
        Passive = "passive",
        /// The list is closed.
        Closed = "closed",
        /// The event is not public, cancelled or over.
        NotPublished = "not_published",
        /// The event has started.
        AfterStart = "after_start",
        /// A file is being imported.
        Importing = "importing",
        /// The order was changed, and the list is still being put into the new one.
        Reordering = "reordering",
        /// Staff pick who is offered a place.
        Manual = "manual",
        /// Nobody is ranked before the draw.
        WaitingForDraw = "waiting_for_draw",
        /// Everybody who could take an open place was called.
        FinalCall = "final_call",
        /// No channel works, and the rule is to wait.
        CannotTell = "cannot_tell",
    }
}

/// An open place, in the order in which places are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPlace {
    /// Its id.
    pub id: PlaceId,
    /// Since when it is open.
    pub opened_at: DateTime<Utc>,
    /// Which kind of place it is; 0 where nothing is said of it.
    pub kind: i32,
}

/// An eligible entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Its id.
    pub entry: EntryId,
    /// Whose it is.
    pub person: PersonId,
    /// Its place in the order.
    pub key: OrderKey,
    /// How many places it wants, all or none.
    pub party: i32,
    /// When it last declined.
    pub declined_at: Option<DateTime<Utc>>,
    /// Which kinds of places it wants.
    pub kinds: Kinds,
}

impl From<&Entry> for Candidate {
    fn from(entry: &Entry) -> Self {
        Self {
            entry: entry.id,
            person: entry.person,
            key: entry.key,
            party: entry.party,
            declined_at: entry.declined_at,
            kinds: entry.kinds,
        }
    }
}

impl Candidate {
    /// Nobody is offered a kind of place that they do not want; and whoever declined, none that was open when they did.
    fn may_have(&self, place: &OpenPlace) -> bool {
        self.kinds.has(place.kind) && self.declined_at.is_none_or(|declined| place.opened_at > declined)
    }
}

/// Who gets which places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chosen {
    /// Who.
    pub candidate: Candidate,
    /// Which: as many as the party.
    pub places: Vec<PlaceId>,
}

/// A set of eligible entries that were passed over: those with a key below `before` that meet the measure and
/// were not chosen. It may turn out to be empty: the allocation does not see the entries it cannot serve.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Skip {
    /// The key of the last one chosen.
    pub before: OrderKey,
    /// Why.
    pub reason: SkipReason,
}

/// Why an eligible entry was passed over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// It wants more than so many places (the rule fills).
    DoesNotFit {
        /// What was left at the fewest.
        more_than: i32,
    },
    /// It declined at or after this instant, when these places were already open.
    DeclinedThese {
        /// When the first of them opened.
        since: DateTime<Utc>,
    },
    /// Of the kinds of places that it wants, fewer were left than it needs.
    DoesNotMatch {
        /// What was left of them at the fewest; for the passed over as a set, what was left of all kinds.
        left: i32,
    },
}

/// What a pass decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Who gets what, in order.
    pub chosen: Vec<Chosen>,
    /// Who was passed over in favour of somebody behind.
    pub skips: Vec<Skip>,
    /// The kinds of places that are kept for somebody who waits for more of them.
    pub kept: Kinds,
    /// How many places of each kind were left before the last choice.
    pub left: BTreeMap<i32, i32>,
    /// How the pass ended.
    pub outcome: PassOutcome,
}

/// Goes down `candidates` (in order) giving each the first of `places` that it may have.
///
/// `room` is how many more holds may be pending. With [`Fit::Strict`] a candidate that wants more than are open keeps
/// what it wants from everybody behind, and the pass ends when nothing else is left; with [`Fit::Fill`] the next that
/// fits is taken. Nobody is given a part of a party. Who declined the open places, or wants other kinds of places, is
/// passed over under either rule.
#[must_use]
pub fn allocate(places: &[OpenPlace], candidates: &[Candidate], fit: Fit, room: usize) -> Allocation {
    if places.is_empty() {
        return Allocation::nothing(PassOutcome::NoPlaces);
    }
    if room == 0 && !candidates.is_empty() {
        return Allocation::nothing(PassOutcome::BatchFull);
    }
    let mut open: Vec<OpenPlace> = places.to_vec();
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut left_before_last = open.clone();
    let mut kept = Kinds::NONE;
    let mut ending = PassOutcome::NobodyEligible;

    for candidate in candidates {
        if open.is_empty() || chosen.len() == room {
            break;
        }
        let party = usize::try_from(candidate.party).unwrap_or(usize::MAX);
        let allowed = open.iter().filter(|place| candidate.may_have(place)).count();
        if allowed >= party {
            left_before_last.clone_from(&open);
            let mut places = Vec::with_capacity(party);
            open.retain(|place| {
                let take = places.len() < party && candidate.may_have(place);
                if take {
                    places.push(place.id);
                }
                !take
            });
            chosen.push(Chosen { candidate: *candidate, places });
        } else if fit == Fit::Strict {
            let wanted = open.iter().filter(|place| candidate.kinds.has(place.kind)).count();
            if (1..party).contains(&wanted) {
                ending = PassOutcome::HeadWaits;
                kept.add_all(&candidate.kinds);
                open.retain(|place| !candidate.kinds.has(place.kind));
            }
        }
    }

    let mut left = BTreeMap::new();
    for place in &left_before_last {
        *left.entry(place.kind).or_insert(0) += 1;
    }
    let skips = skips(&chosen, places, left_before_last.len(), fit);
    let outcome = if chosen.is_empty() { ending } else { PassOutcome::Offered };
    Allocation { chosen, skips, kept, left, outcome }
}

/// One set per reason. What was left only shrinks, so whoever did not fit wanted more than was left before the
/// last choice; whoever was passed over for having declined did so after the first of the places had opened.
fn skips(chosen: &[Chosen], places: &[OpenPlace], left_before_last: usize, fit: Fit) -> Vec<Skip> {
    let Some(before) = chosen.last().map(|last| last.candidate.key) else { return vec![] };
    let more_than = i32::try_from(left_before_last).unwrap_or(i32::MAX);
    let fit = (fit == Fit::Fill).then_some(SkipReason::DoesNotFit { more_than });
    let declined = places.iter().map(|place| place.opened_at).min();
    fit.into_iter()
        .chain(declined.map(|since| SkipReason::DeclinedThese { since }))
        .map(|reason| Skip { before, reason })
        .collect()
}

impl Allocation {
    fn nothing(outcome: PassOutcome) -> Self {
        Self { chosen: vec![], skips: vec![], kept: Kinds::NONE, left: BTreeMap::new(), outcome }
    }

    /// The same where people want kinds of places: whoever did not fit is described by what was left of each kind, for
    /// the allocation does not see those of whose kinds nothing is open.
    #[must_use]
    pub fn by_kind(mut self) -> Self {
        self.skips.retain(|skip| !matches!(skip.reason, SkipReason::DoesNotFit { .. }));
        if let Some(last) = self.chosen.last() {
            let reason = SkipReason::DoesNotMatch { left: self.left.values().sum() };
            self.skips.push(Skip { before: last.candidate.key, reason });
        }
        self
    }

    /// Whether the answer might be another if more of the line were read. The reading stops, per size of party and what
    /// is wanted under [`Fit::Fill`] and where people want kinds of places, after as many as could ever be chosen if all
    /// may have the places, times `depth`; but many who declined these places can hide the one behind them.
    #[must_use]
    pub fn is_cut_short(
        &self,
        open_of: &[OpenPlace],
        read: &[Candidate],
        fit: Fit,
        room: usize,
        depth: usize,
        by_kind: bool,
    ) -> bool {
        let places = open_of.len();
        // How many were chosen up to a key, and how many places were left then.
        let at = |key: OrderKey| {
            let chosen = &self.chosen[..self.chosen.partition_point(|chosen| chosen.candidate.key <= key)];
            (chosen.len(), places - chosen.iter().map(|chosen| chosen.places.len()).sum::<usize>())
        };
        // A list that was cut matters only if whoever came next in it could still have been chosen.
        let goes_on = |last: OrderKey, size: usize| {
            let (chosen, left) = at(last);
            chosen < room && left >= size
        };
        let wants = |candidate: &Candidate| usize::try_from(candidate.party).unwrap_or(usize::MAX);
        let most = room.saturating_mul(depth);
        match (fit, by_kind) {
            (Fit::Strict, false) => {
                let cut = read.len() > places.saturating_mul(depth).min(most);
                let somebody_waits = |candidate: &Candidate| at(candidate.key).1 < wants(candidate);
                let is_chosen = |candidate: &Candidate| {
                    self.chosen.binary_search_by_key(&candidate.key, |chosen| chosen.candidate.key).is_ok()
                };
                cut && read.last().is_some_and(|last| goes_on(last.key, 1))
                    && !read.iter().any(|candidate| !is_chosen(candidate) && somebody_waits(candidate))
            }
            (Fit::Strict, true) | (Fit::Fill, _) => {
                let mut groups: HashMap<(Kinds, usize), (usize, OrderKey)> = HashMap::new();
                let matters = |candidate: &&Candidate| fit == Fit::Strict || wants(candidate) <= places;
                for candidate in read.iter().filter(matters) {
                    let group = (candidate.kinds, wants(candidate));
                    let (count, last) = groups.entry(group).or_insert((0, candidate.key));
                    (*count, *last) = (*count + 1, candidate.key);
                }
                groups.into_iter().any(|((kinds, size), (count, last))| {
                    let open = open_of.iter().filter(|place| kinds.has(place.kind)).count();
                    let cut = count >= most.min(open.saturating_mul(depth) / size.max(1) + 1);
                    // Under strict even one place left may be kept for somebody who waits for more.
                    cut && goes_on(last, if fit == Fit::Strict { 1 } else { size })
                })
            }
        }
    }
}

#[cfg(test)]
mod properties;
