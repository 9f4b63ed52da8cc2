//! The allocation against a model that only says who is next, and what must hold of every answer.

use std::collections::HashSet;

use chrono::{DateTime, Duration, Utc};
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

/// Instants a minute apart, so that declining and opening often coincide.
fn minute(n: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::minutes(n)
}

fn id(n: usize) -> Uuid {
    Uuid::from_u128(n as u128)
}

fn places() -> impl Strategy<Value = Vec<OpenPlace>> {
    prop::collection::vec(0_i64..6, 0..8).prop_map(|opened| {
        let place = |(n, at)| OpenPlace { id: PlaceId(id(n)), opened_at: minute(at) };
        opened.into_iter().enumerate().map(place).collect()
    })
}

/// A line in order: keys that rise, parties that mostly fit, and some who declined.
fn line() -> impl Strategy<Value = Vec<Candidate>> {
    let entry = (0_i16..2, 0_i32..2, 1_i32..5, prop::option::weighted(0.4, 0_i64..6));
    prop::collection::vec(entry, 0..14).prop_map(|entries| {
        let mut line: Vec<Candidate> = entries
            .into_iter()
            .enumerate()
            .map(|(n, (band, round, party, declined))| Candidate {
                entry: EntryId(id(n)),
                person: PersonId(id(n)),
                key: OrderKey { band, round, rank: i64::try_from(n).expect("small") },
                party,
                declined_at: declined.map(minute),
            })
            .collect();
        line.sort_by_key(|candidate| candidate.key);
        line
    })
}

fn fit() -> impl Strategy<Value = Fit> {
    prop::sample::select(Fit::ALL)
}

fn wants(candidate: &Candidate) -> usize {
    usize::try_from(candidate.party).expect("a party")
}

/// Those of `free` that were not open when the candidate declined.
fn not_declined<'a>(candidate: &Candidate, free: &'a [OpenPlace]) -> Vec<&'a OpenPlace> {
    free.iter().filter(|place| candidate.declined_at.is_none_or(|at| place.opened_at > at)).collect()
}

/// Who is next in `line` when these places are free; under `strict` nobody is behind somebody who waits for more.
fn next(free: &[OpenPlace], line: &[Candidate], fit: Fit) -> Option<usize> {
    let next = line.iter().position(|candidate| not_declined(candidate, free).len() >= wants(candidate))?;
    let waits_for_more = line[..next].iter().any(|ahead| wants(ahead) > free.len());
    (fit == Fit::Fill || !waits_for_more).then_some(next)
}

/// Serves one after the other, down the line.
fn model(places: &[OpenPlace], line: &[Candidate], fit: Fit, room: usize) -> Vec<(EntryId, Vec<PlaceId>)> {
    let (mut free, mut line, mut served) = (places.to_vec(), line, Vec::new());
    while served.len() < room
        && let Some(n) = next(&free, line, fit)
    {
        let given: Vec<PlaceId> =
            not_declined(&line[n], &free).iter().take(wants(&line[n])).map(|place| place.id).collect();
        free.retain(|place| !given.contains(&place.id));
        served.push((line[n].entry, given));
        line = &line[n + 1..];
    }
    served
}

fn covered(candidate: &Candidate, skips: &[Skip]) -> bool {
    skips.iter().any(|skip| {
        candidate.key < skip.before
            && match skip.reason {
                SkipReason::DoesNotFit { more_than } => candidate.party > more_than,
                SkipReason::DeclinedThese { since } => candidate.declined_at.is_some_and(|at| at >= since),
            }
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(2_000))]

    #[test]
    fn the_next_in_line_is_served_as_long_as_somebody_is(
        places in places(), line in line(), fit in fit(), room in 0_usize..5,
    ) {
        let decided = allocate(&places, &line, fit, room);
        let served: Vec<_> =
            decided.chosen.iter().map(|chosen| (chosen.candidate.entry, chosen.places.clone())).collect();
        prop_assert_eq!(served, model(&places, &line, fit, room));
    }

    /// Never more places than are open, never one twice, never a part of a party, never beyond the room.
    #[test]
    fn what_is_given_is_there_and_whole(places in places(), line in line(), fit in fit(), room in 0_usize..5) {
        let decided = allocate(&places, &line, fit, room);
        let open: HashSet<PlaceId> = places.iter().map(|place| place.id).collect();
        let given: Vec<PlaceId> = decided.chosen.iter().flat_map(|chosen| chosen.places.clone()).collect();
        prop_assert!(given.iter().all(|place| open.contains(place)));
        prop_assert_eq!(given.iter().collect::<HashSet<_>>().len(), given.len());
        prop_assert!(decided.chosen.iter().all(|chosen| chosen.places.len() == wants(&chosen.candidate)));
        prop_assert!(decided.chosen.len() <= room);
    }

    /// Whoever is ahead of somebody chosen was chosen too, or is in a recorded set; under `strict` only those who
    /// had declined are ever passed over.
    #[test]
    fn nobody_is_passed_over_in_silence(places in places(), line in line(), fit in fit(), room in 1_usize..5) {
        let decided = allocate(&places, &line, fit, room);
        prop_assert!(decided.chosen.windows(2).all(|two| two[0].candidate.key < two[1].candidate.key));
        let chosen: HashSet<EntryId> = decided.chosen.iter().map(|chosen| chosen.candidate.entry).collect();
        if let Some(last) = decided.chosen.last() {
            for ahead in line.iter().filter(|candidate| candidate.key < last.candidate.key) {
                prop_assert!(
                    chosen.contains(&ahead.entry) || covered(ahead, &decided.skips),
                    "{:?} is neither chosen nor in {:?}", ahead, decided.skips
                );
                if fit == Fit::Strict {
                    prop_assert!(chosen.contains(&ahead.entry) || ahead.declined_at.is_some());
                }
            }
        }
    }

    /// A set never covers somebody who could have had the places that were left for those behind.
    #[test]
    fn a_recorded_skip_is_true(places in places(), line in line(), fit in fit()) {
        let decided = allocate(&places, &line, fit, usize::MAX);
        let chosen: HashSet<EntryId> = decided.chosen.iter().map(|chosen| chosen.candidate.entry).collect();
        let left: Vec<OpenPlace> = {
            let given: HashSet<PlaceId> =
                decided.chosen.iter().flat_map(|chosen| chosen.places.clone()).collect();
            places.iter().filter(|place| !given.contains(&place.id)).copied().collect()
        };
        for candidate in line.iter().filter(|candidate| !chosen.contains(&candidate.entry)) {
            if covered(candidate, &decided.skips) {
                prop_assert!(not_declined(candidate, &left).len() < wants(candidate));
            }
        }
        let does_not_fit = |skip: &Skip| matches!(skip.reason, SkipReason::DoesNotFit { .. });
        prop_assert!(fit == Fit::Fill || !decided.skips.iter().any(does_not_fit));
    }

    #[test]
    fn whoever_declined_is_not_given_what_was_open_then(places in places(), line in line(), fit in fit()) {
        for chosen in allocate(&places, &line, fit, usize::MAX).chosen {
            let given = places.iter().filter(|place| chosen.places.contains(&place.id));
            for place in given {
                prop_assert!(chosen.candidate.declined_at.is_none_or(|at| place.opened_at > at));
            }
        }
    }

    #[test]
    fn the_outcome_says_why_nothing_was_offered(
        places in places(), line in line(), fit in fit(), room in 0_usize..3,
    ) {
        let decided = allocate(&places, &line, fit, room);
        let nothing = decided.chosen.is_empty();
        prop_assert_eq!(decided.outcome == PassOutcome::Offered, !nothing);
        match decided.outcome {
            PassOutcome::Offered => {}
            PassOutcome::NoPlaces => prop_assert!(places.is_empty()),
            PassOutcome::BatchFull => prop_assert!(room == 0 && !line.is_empty()),
            PassOutcome::HeadWaits => {
                prop_assert!(fit == Fit::Strict && line.iter().any(|entry| wants(entry) > places.len()));
            }
            PassOutcome::NobodyEligible => {
                prop_assert!(line.iter().all(|entry| not_declined(entry, &places).len() < wants(entry)));
            }
            other => prop_assert!(false, "{other} is not for the allocation to say"),
        }
    }

    /// Reading the line bit by bit, deeper only when the allocation says so, finds whoever the whole line has.
    #[test]
    fn a_line_read_in_part_is_as_good_as_the_whole(places in places(), line in line(), fit in fit(), room in 1_usize..5) {
        let whole = allocate(&places, &line, fit, room);
        let (mut depth, mut before) = (1, 0);
        let in_part = loop {
            let read = head_of(&places, &line, fit, room, depth);
            let decided = allocate(&places, &read, fit, room);
            if read.len() == before || !decided.is_cut_short(places.len(), &read, fit, room, depth) {
                break decided;
            }
            (depth, before) = (depth * 8, read.len());
        };
        prop_assert_eq!(in_part.chosen, whole.chosen);
        prop_assert_eq!(in_part.outcome, whole.outcome);
    }
}

/// As much of the line as the database hands over: see `LockedEvent::candidates`.
fn head_of(places: &[OpenPlace], line: &[Candidate], fit: Fit, room: usize, depth: usize) -> Vec<Candidate> {
    match fit {
        Fit::Strict => line.iter().take(places.len().min(room) * depth + 1).copied().collect(),
        Fit::Fill => {
            let mut of_size = [0_usize; 8];
            let fits = |candidate: &&Candidate| {
                let size = wants(candidate);
                of_size[size] += 1;
                of_size[size] <= (room * depth).min(places.len() * depth / size + 1)
            };
            line.iter().filter(fits).copied().collect()
        }
    }
}
