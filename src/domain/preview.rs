//! Who is next, before anything happens: the allocation asked about places that are open, or that might be.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::allocation::{Candidate, Chosen, OpenPlace, allocate};
use super::ids::PlaceId;
use super::kinds::Kinds;
use super::policy::{Fit, PARTY_MAX};

/// Who gets the next offer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NextOffer {
    /// Places are open that this one can have now.
    Ready(Chosen),
    /// This one is offered as soon as so many more places are open.
    WhenFree {
        /// Who.
        who: Candidate,
        /// How many places have to come back.
        missing: usize,
    },
}

impl NextOffer {
    /// Who it is.
    #[must_use]
    pub fn who(&self) -> &Candidate {
        match self {
            Self::Ready(chosen) => &chosen.candidate,
            Self::WhenFree { who, .. } => who,
        }
    }
}

/// The first choice that a pass would make among `line` (eligible, in order): with the places that are open, or
/// else with as few more as would make it choose somebody. `None` when nobody could be offered anything.
#[must_use]
pub fn next_offer(open: &[OpenPlace], line: &[Candidate], fit: Fit, now: DateTime<Utc>) -> Option<NextOffer> {
    // A pass does not look at whoever declined after the last of the open places had opened.
    let youngest = open.iter().map(|place| place.opened_at).max();
    let asked: Vec<Candidate> = line
        .iter()
        .filter(|candidate| candidate.declined_at.is_none_or(|at| youngest.is_some_and(|opened| at < opened)))
        .copied()
        .collect();
    if let Some(chosen) = allocate(open, &asked, fit, 1).chosen.pop() {
        return Some(NextOffer::Ready(chosen));
    }
    // Nobody has declined a place that opens after now.
    let fresh = OpenPlace { id: PlaceId(Uuid::nil()), opened_at: now + Duration::seconds(1), kind: 0 };
    // Of whichever kind is wanted.
    let line: Vec<Candidate> =
        line.iter().map(|candidate| Candidate { kinds: Kinds::ALL, ..*candidate }).collect();
    let mut places = open.to_vec();
    for missing in 1..=usize::try_from(PARTY_MAX).unwrap_or(0) {
        places.push(fresh);
        if let Some(chosen) = allocate(&places, &line, fit, 1).chosen.pop() {
            return Some(NextOffer::WhenFree { who: chosen.candidate, missing });
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::entry::OrderKey;
    use crate::domain::ids::{EntryId, PersonId};

    fn at(minute: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + Duration::minutes(minute)
    }

    fn open(n: u128, minute: i64) -> OpenPlace {
        OpenPlace { id: PlaceId(Uuid::from_u128(n)), opened_at: at(minute), kind: 0 }
    }

    fn waits(n: i64, party: i32) -> Candidate {
        let id = Uuid::from_u128(n.unsigned_abs().into());
        Candidate {
            entry: EntryId(id),
            person: PersonId(id),
            key: OrderKey { band: 0, round: 0, rank: n },
            party,
            declined_at: None,
            kinds: Kinds::ALL,
        }
    }

    #[test]
    fn with_a_place_open_the_head_is_next_and_gets_it() {
        let next = next_offer(&[open(7, 0)], &[waits(1, 1), waits(2, 1)], Fit::Strict, at(9));
        let Some(NextOffer::Ready(chosen)) = next else { panic!("{next:?}") };
        assert_eq!((chosen.candidate.key.rank, chosen.places), (1, vec![PlaceId(Uuid::from_u128(7))]));
    }

    #[test]
    fn with_none_open_the_page_says_how_many_have_to_come_back() {
        let line = [waits(1, 2), waits(2, 1)];
        for (fit, open, who, missing) in
            [(Fit::Strict, vec![], 1, 2), (Fit::Strict, vec![open(7, 0)], 1, 1), (Fit::Fill, vec![], 2, 1)]
        {
            let next = next_offer(&open, &line, fit, at(9)).expect("somebody");
            assert_eq!(next, NextOffer::WhenFree { who: line[who - 1], missing }, "{fit} {open:?}");
        }
        assert_eq!(next_offer(&[], &[], Fit::Fill, at(9)), None);
    }

    #[test]
    fn whoever_declined_what_is_open_waits_for_another() {
        let declined = Candidate { declined_at: Some(at(5)), ..waits(1, 1) };
        let next = next_offer(&[open(7, 0)], &[declined], Fit::Strict, at(9));
        assert_eq!(next, Some(NextOffer::WhenFree { who: declined, missing: 1 }));
        let next = next_offer(&[open(7, 0)], &[declined, waits(2, 1)], Fit::Strict, at(9)).expect("somebody");
        assert_eq!(next.who().key.rank, 2);
    }
}
