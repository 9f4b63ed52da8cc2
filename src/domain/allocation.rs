//! Who gets what, and why others do not: one pure function.
//!
//! It is given bounded lists in order and never looks at the whole queue; what it passed over it describes as
//! sets ("everybody before this key who wants more than two"), so that the record of a pass over a long list
//! is as small as that of a short one.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::entry::{Entry, OrderKey};
use super::ids::{EntryId, PersonId, PlaceId};
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
    }
}

/// An open place, in the order in which places are given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenPlace {
    /// Its id.
    pub id: PlaceId,
    /// Since when it is open.
    pub opened_at: DateTime<Utc>,
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
}

impl From<&Entry> for Candidate {
    fn from(entry: &Entry) -> Self {
        Self {
            entry: entry.id,
            person: entry.person,
            key: entry.key,
            party: entry.party,
            declined_at: entry.declined_at,
        }
    }
}

impl Candidate {
    /// Whoever declined is not offered a place that was open when they did.
    fn may_have(&self, place: &OpenPlace) -> bool {
        self.declined_at.is_none_or(|declined| place.opened_at > declined)
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
}

/// What a pass decides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Allocation {
    /// Who gets what, in order.
    pub chosen: Vec<Chosen>,
    /// Who was passed over in favour of somebody behind.
    pub skips: Vec<Skip>,
    /// How the pass ended.
    pub outcome: PassOutcome,
}

/// Goes down `candidates` (in order) giving each the first of `places` that it may have.
///
/// `room` is how many more holds may be pending. With [`Fit::Strict`] the first candidate that wants more than
/// are open ends the pass; with [`Fit::Fill`] the next that fits is taken. Nobody is given a part of a party.
/// A candidate that declined the open places is passed over under either rule, for it said no to them.
#[must_use]
pub fn allocate(places: &[OpenPlace], candidates: &[Candidate], fit: Fit, room: usize) -> Allocation {
    if places.is_empty() {
        return Allocation { chosen: vec![], skips: vec![], outcome: PassOutcome::NoPlaces };
    }
    if room == 0 && !candidates.is_empty() {
        return Allocation { chosen: vec![], skips: vec![], outcome: PassOutcome::BatchFull };
    }
    let mut open: Vec<OpenPlace> = places.to_vec();
    let mut chosen: Vec<Chosen> = Vec::new();
    let mut left_before_last = open.len();
    let mut ending = PassOutcome::NobodyEligible;

    for candidate in candidates {
        if open.is_empty() || chosen.len() == room {
            break;
        }
        let party = usize::try_from(candidate.party).unwrap_or(usize::MAX);
        let allowed = open.iter().filter(|place| candidate.may_have(place)).count();
        if allowed >= party {
            left_before_last = open.len();
            let mut places = Vec::with_capacity(party);
            open.retain(|place| {
                let take = places.len() < party && candidate.may_have(place);
                if take {
                    places.push(place.id);
                }
                !take
            });
            chosen.push(Chosen { candidate: *candidate, places });
        } else if fit == Fit::Strict && open.len() < party {
            ending = PassOutcome::HeadWaits;
            break;
        }
    }

    let skips = skips(&chosen, places, left_before_last, fit);
    let outcome = if chosen.is_empty() { ending } else { PassOutcome::Offered };
    Allocation { chosen, skips, outcome }
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
    /// Whether the answer might be another if more of the line were read. The reading stops, per size of party
    /// under [`Fit::Fill`], after as many as could ever be chosen if all may have the places, times `depth`; but
    /// many who declined these places can hide the one behind them.
    #[must_use]
    pub fn is_cut_short(
        &self,
        places: usize,
        read: &[Candidate],
        fit: Fit,
        room: usize,
        depth: usize,
    ) -> bool {
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
        match fit {
            Fit::Strict => {
                let cut = read.len() > places.saturating_mul(depth).min(most);
                let somebody_waits = |candidate: &Candidate| at(candidate.key).1 < wants(candidate);
                let is_chosen = |candidate: &Candidate| {
                    self.chosen.binary_search_by_key(&candidate.key, |chosen| chosen.candidate.key).is_ok()
                };
                cut && read.last().is_some_and(|last| goes_on(last.key, 1))
                    && !read.iter().any(|candidate| !is_chosen(candidate) && somebody_waits(candidate))
            }
            Fit::Fill => {
                let mut sizes: BTreeMap<usize, (usize, OrderKey)> = BTreeMap::new();
                for candidate in read.iter().filter(|candidate| wants(candidate) <= places) {
                    let (count, last) = sizes.entry(wants(candidate)).or_insert((0, candidate.key));
                    (*count, *last) = (*count + 1, candidate.key);
                }
                sizes.into_iter().any(|(size, (count, last))| {
                    let cut = count >= most.min(places.saturating_mul(depth) / size.max(1) + 1);
                    cut && goes_on(last, size)
                })
            }
        }
    }
}

#[cfg(test)]
mod properties;
