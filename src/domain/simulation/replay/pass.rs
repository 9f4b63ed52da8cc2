//! A pass of the replay, as real passes read the line, draw, choose and call.

use std::cmp::Reverse;
use std::collections::{BTreeSet, HashMap};

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};

use super::{COSTLY, Due, Stage};
use crate::domain::allocation::{Allocation, Candidate, OpenPlace, PassOutcome, allocate};
use crate::domain::draw::{Wheel, pool_digest};
use crate::domain::entry::{Entry, OrderKey};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::EntryId;
use crate::domain::kinds::Kinds;
use crate::domain::offer::OfferKind;
use crate::domain::place::PlaceState;
use crate::domain::policy::{Draws, Fit, Mode, Ordering, Policy, band_of_draw};

/// As many places are looked at in one go, as in a real pass.
const CHUNK: usize = 1_000;

impl Stage<'_> {
    /// One look at the line; whether anything was offered.
    pub(super) fn pass(&mut self) -> bool {
        let started = self.past.starts_at.is_some_and(|start| self.now >= start);
        if self.state != EventState::Published || self.list == ListState::Closed || started {
            return false;
        }
        let Some(window) = self.policy.window else { return false };
        let chunk = if self.by_kind { usize::MAX } else { CHUNK };
        let places: Vec<OpenPlace> =
            self.open.iter().take(chunk).map(|(_, index)| self.places[*index].as_open).collect();
        self.effort += if places.is_empty() { 0 } else { self.line.all.len() };
        let deadline = Policy::deadline(window, self.now, self.past.starts_at);
        if self.policy.calls(self.now) {
            let is_final = self.policy.mode == Mode::Hold;
            let deadline = if is_final { self.past.starts_at } else { Some(deadline) };
            return deadline.is_some_and(|deadline| self.call(&places, deadline));
        }
        let is_lottery = self.policy.ordering == Ordering::Lottery;
        if is_lottery {
            self.draw_if_due();
        }
        let room = match usize::try_from(self.policy.batch_size) {
            Ok(1..) => usize::try_from(self.policy.batch_size)
                .unwrap_or(0)
                .saturating_sub(self.pending_holds)
                .min(CHUNK),
            _ => CHUNK,
        };
        let mut allocation = self.choose(&places, room);
        if is_lottery && allocation.outcome == PassOutcome::NobodyEligible {
            if !self.draws_by_need() {
                return false;
            }
            allocation = self.choose(&places, room);
        }
        for chosen in &allocation.chosen {
            let Some(entry) = self.by_id.get(&chosen.candidate.entry).copied() else { continue };
            let held: Vec<usize> =
                chosen.places.iter().filter_map(|place| self.places_by_id.get(place).copied()).collect();
            for place in &held {
                self.set_place(*place, PlaceState::Held);
            }
            self.pending_holds += 1;
            self.make(entry, OfferKind::Hold, held, deadline, self.now);
        }
        !allocation.chosen.is_empty()
    }

    /// As much of the line as decides, as a real pass reads it.
    fn choose(&self, places: &[OpenPlace], room: usize) -> Allocation {
        let Some(youngest) = places.iter().map(|place| place.opened_at).max() else {
            return allocate(places, &[], self.policy.fit, room);
        };
        if self.by_kind {
            return allocate(places, &self.who_wants(places), self.policy.fit, room);
        }
        let (mut depth, mut read) = (1, 0);
        loop {
            let candidates =
                self.front(places.len().saturating_mul(depth), room.max(1).saturating_mul(depth), youngest);
            let allocation = allocate(places, &candidates, self.policy.fit, room);
            let longer = allocation.is_cut_short(places, &candidates, self.policy.fit, room, depth, false);
            if !longer || candidates.len() == read {
                return allocation;
            }
            (read, depth) = (candidates.len(), depth.saturating_mul(8));
        }
    }

    /// Everybody eligible who wants one of these places; whoever declined, one that came since.
    fn who_wants(&self, places: &[OpenPlace]) -> Vec<Candidate> {
        let open: Kinds = places.iter().map(|place| place.kind).collect();
        let mut opened: HashMap<_, DateTime<Utc>> = HashMap::new();
        for place in places {
            let last = opened.entry(place.kind).or_insert(place.opened_at);
            *last = place.opened_at.max(*last);
        }
        let youngest =
            |kinds: &Kinds| opened.iter().filter(|(kind, _)| kinds.has(**kind)).map(|(_, at)| *at).max();
        let may = |entry: &&Entry| {
            entry.key.band <= self.policy.last_band()
                && entry.kinds.meets(&open)
                && entry.declined_at.is_none_or(|at| youngest(&entry.kinds).is_some_and(|opened| at < opened))
        };
        let entries = self.line.all.iter().map(|(_, index)| &self.entries[*index]);
        entries.filter(may).map(Candidate::from).collect()
    }

    fn front(&self, open: usize, room: usize, youngest: DateTime<Utc>) -> Vec<Candidate> {
        let may = |entry: &Entry| {
            entry.key.band <= self.policy.last_band() && entry.declined_at.is_none_or(|at| at < youngest)
        };
        let first = |line: &BTreeSet<(OrderKey, usize)>, count: usize| -> Vec<Candidate> {
            let entries = line.iter().map(|(_, index)| &self.entries[*index]);
            entries.filter(|entry| may(entry)).take(count).map(Candidate::from).collect()
        };
        match self.policy.fit {
            Fit::Strict => first(&self.line.all, open.min(room) + 1),
            Fit::Fill => {
                let most = i32::try_from(open).unwrap_or(i32::MAX);
                let mut candidates: Vec<Candidate> = self
                    .line
                    .by_party
                    .range(..=most)
                    .flat_map(|(size, line)| {
                        let fit = open / usize::try_from(*size).unwrap_or(1).max(1) + 1;
                        first(line, room.min(fit))
                    })
                    .collect();
                candidates.sort_unstable_by_key(|candidate| candidate.key);
                candidates
            }
        }
    }

    /// Calls whoever could take an open place, and tells those again whose places were gone.
    fn call(&mut self, places: &[OpenPlace], deadline: DateTime<Utc>) -> bool {
        let Some(youngest) = places.iter().map(|place| place.opened_at).max() else { return false };
        let wanted = |entry: &Entry| -> Vec<DateTime<Utc>> {
            let wanted = places.iter().filter(|place| entry.kinds.has(place.kind));
            wanted.map(|place| place.opened_at).collect()
        };
        let enough = |entry: &Entry, wanted: &[DateTime<Utc>]| {
            usize::try_from(entry.party).is_ok_and(|party| party <= wanted.len())
        };
        let callable: Vec<usize> = self
            .line
            .all
            .iter()
            .map(|(_, index)| *index)
            .filter(|index| {
                let entry = &self.entries[*index];
                let wanted = wanted(entry);
                let last = wanted.iter().max();
                enough(entry, &wanted)
                    && entry.declined_at.is_none_or(|at| last.is_some_and(|last| at < *last))
            })
            .collect();
        let again: Vec<(DateTime<Utc>, usize)> = self
            .calls
            .range(..(youngest, 0))
            .filter(|(told_for, index)| {
                let entry = &self.entries[self.offers[*index].entry];
                let wanted = wanted(entry);
                enough(entry, &wanted) && wanted.iter().all(|opened| told_for < opened)
            })
            .copied()
            .collect();
        for entry in &callable {
            self.make(*entry, OfferKind::Call, vec![], deadline, youngest);
        }
        for (told_for, index) in again {
            self.calls.remove(&(told_for, index));
            self.calls.insert((youngest, index));
            self.figures.messages += 1;
            let offer = &mut self.offers[index];
            offer.told_for = youngest;
            // Whoever came too late tries again, as soon after as before.
            let tries = self.now + offer.answer.after;
            if std::mem::take(&mut offer.was_late) && tries < offer.expires_at {
                self.due.push(Reverse((tries, Due::Answer, index)));
            }
        }
        !callable.is_empty()
    }

    // ── draws ────────────────────────────────────────────────────────────────────────────────────────────

    fn draw_if_due(&mut self) {
        let drawn_at = self.last_draw.1;
        let is_due = |at: DateTime<Utc>| at <= self.now && drawn_at.is_none_or(|drawn| drawn < at);
        let due = match self.policy.draws {
            Draws::At(at) => is_due(at),
            Draws::ByStaff => self.past.draws.iter().any(|draw| draw.at == self.now && is_due(draw.at)),
            Draws::AtNeed => false,
        };
        if due {
            self.draw(false);
        }
    }

    /// Nobody who was drawn can take what is open: ranks those who were not, unless the rule has them wait.
    fn draws_by_need(&mut self) -> bool {
        let by_staff = self.policy.draws == Draws::ByStaff && !self.past.draws.is_empty();
        let waits = by_staff || self.policy.draws.at().is_some_and(|at| at > self.now);
        !waits && self.draw(true)
    }

    /// Ranks everybody eligible, or those not drawn yet, if there are any: with the secret that the real draw of this number revealed, or else a fixed one.
    fn draw(&mut self, undrawn: bool) -> bool {
        let drawn = |key: &OrderKey| key.band < 0;
        let pool = self.line.all.iter().filter(|(key, _)| !undrawn || !drawn(key));
        let mut pool: Vec<usize> = pool.map(|(_, index)| *index).collect();
        if pool.is_empty() {
            return false;
        }
        self.effort += COSTLY * pool.len();
        pool.sort_unstable_by_key(|index| self.entries[*index].arrival);
        let number = self.last_draw.0 + 1;
        self.last_draw = (number, Some(self.now));
        let real = self.past.draws.get(number - 1);
        self.draws_seeded += usize::from(real.is_none());
        let number = i32::try_from(number).unwrap_or(i32::MAX);
        let seeded = || {
            let seed = Sha256::new()
                .chain_update(b"fairlist simulation of a draw")
                .chain_update(number.to_be_bytes());
            seed.finalize().into()
        };
        let ids: Vec<EntryId> = pool.iter().map(|index| self.entries[*index].id).collect();
        let wheel = Wheel {
            number,
            secret: real.map_or_else(seeded, |draw| draw.secret),
            beacon: real.and_then(|draw| draw.beacon),
            pool_digest: pool_digest(&ids),
        };
        for id in wheel.rank(&ids) {
            let Some(index) = self.by_id.get(&id).copied() else { continue };
            let rank = self.rank_at_end();
            let mut after = self.entries[index].clone();
            after.line_rank = after.line_rank.or(Some(after.key.rank));
            after.key = OrderKey { band: band_of_draw(number), round: 0, rank };
            self.put(index, after);
        }
        true
    }
}
