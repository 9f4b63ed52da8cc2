//! The allocation against a model that only says who is next, and what must hold of every answer.

use std::collections::{HashMap, HashSet};

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
    prop::collection::vec((0_i64..6, 0_i32..3), 0..8).prop_map(|opened| {
        let place = |(n, (at, kind))| OpenPlace { id: PlaceId(id(n)), opened_at: minute(at), kind };
        opened.into_iter().enumerate().map(place).collect()
    })
}

/// A line in order: keys that rise, parties that mostly fit, and some who declined.
fn line() -> impl Strategy<Value = Vec<Candidate>> {
    let entry = (0_i16..2, 0_i32..2, 1_i32..5, prop::option::weighted(0.4, 0_i64..6), wanted());
    prop::collection::vec(entry, 0..14).prop_map(|entries| {
        let mut line: Vec<Candidate> = entries
            .into_iter()
            .enumerate()
            .map(|(n, (band, round, party, declined, kinds))| Candidate {
                entry: EntryId(id(n)),
                person: PersonId(id(n)),
                key: OrderKey { band, round, rank: i64::try_from(n).expect("small") },
                party,
                declined_at: declined.map(minute),
                kinds,
            })
            .collect();
        line.sort_by_key(|candidate| candidate.key);
        line
    })
}

/// Any kind, or some of the few that there are.
fn wanted() -> impl Strategy<Value = Kinds> {
    prop_oneof![
        Just(Kinds::ALL),
        prop::collection::vec(0_i32..3, 1..3).prop_map(|kinds| kinds.into_iter().collect())
    ]
}

fn fit() -> impl Strategy<Value = Fit> {
    prop::sample::select(Fit::ALL)
}

fn wants(candidate: &Candidate) -> usize {
    usize::try_from(candidate.party).expect("a party")
}

/// Those of `free` that the candidate wants and that were not open when it declined.
fn not_declined<'a>(candidate: &Candidate, free: &'a [OpenPlace]) -> Vec<&'a OpenPlace> {
    let would_do = |place: &&OpenPlace| {
        candidate.kinds.has(place.kind) && candidate.declined_at.is_none_or(|at| place.opened_at > at)
    };
    free.iter().filter(would_do).collect()
}

/// Whether under `strict` this one waits for more of what it wants, and so keeps it from everybody behind.
fn waits_for_more(candidate: &Candidate, free: &[OpenPlace]) -> bool {
    let wanted = free.iter().filter(|place| candidate.kinds.has(place.kind)).count();
    wanted > 0 && wanted < wants(candidate)
}

/// Goes down the line one by one: each is served, or waits and keeps what it wants, or is passed over.
fn model(places: &[OpenPlace], line: &[Candidate], fit: Fit, room: usize) -> Vec<(EntryId, Vec<PlaceId>)> {
    let (mut free, mut served) = (places.to_vec(), Vec::new());
    for candidate in line {
        if served.len() == room {
            break;
        }
        let mine: Vec<PlaceId> = not_declined(candidate, &free).iter().map(|place| place.id).collect();
        if mine.len() >= wants(candidate) {
            let given = mine[..wants(candidate)].to_vec();
            free.retain(|place| !given.contains(&place.id));
            served.push((candidate.entry, given));
        } else if fit == Fit::Strict && waits_for_more(candidate, &free) {
            free.retain(|place| !candidate.kinds.has(place.kind));
        }
    }
    served
}

fn covered(candidate: &Candidate, decided: &Allocation) -> bool {
    decided.skips.iter().any(|skip| {
        candidate.key < skip.before
            && match skip.reason {
                SkipReason::DoesNotFit { more_than } => candidate.party > more_than,
                SkipReason::DeclinedThese { since } => candidate.declined_at.is_some_and(|at| at >= since),
                SkipReason::DoesNotMatch { .. } => {
                    let left = decided.left.iter().filter(|(kind, _)| candidate.kinds.has(**kind));
                    left.map(|(_, count)| count).sum::<i32>() < candidate.party
                }
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
    /// had declined, or want some kinds only, are ever passed over.
    #[test]
    fn nobody_is_passed_over_in_silence(places in places(), line in line(), fit in fit(), room in 1_usize..5) {
        let decided = allocate(&places, &line, fit, room).by_kind();
        prop_assert!(decided.chosen.windows(2).all(|two| two[0].candidate.key < two[1].candidate.key));
        let chosen: HashSet<EntryId> = decided.chosen.iter().map(|chosen| chosen.candidate.entry).collect();
        if let Some(last) = decided.chosen.last() {
            for ahead in line.iter().filter(|candidate| candidate.key < last.candidate.key) {
                prop_assert!(
                    chosen.contains(&ahead.entry) || covered(ahead, &decided),
                    "{:?} is neither chosen nor in {:?}", ahead, decided.skips
                );
                if fit == Fit::Strict && places.iter().all(|place| ahead.kinds.has(place.kind)) {
                    prop_assert!(chosen.contains(&ahead.entry) || ahead.declined_at.is_some());
                }
            }
        }
    }

    /// A set never covers somebody who could have had the places that were left for those behind.
    #[test]
    fn a_recorded_skip_is_true(places in places(), line in line(), fit in fit(), by_kind in any::<bool>()) {
        let decided = allocate(&places, &line, fit, usize::MAX);
        let decided = if by_kind { decided.by_kind() } else { decided };
        let chosen: HashSet<EntryId> = decided.chosen.iter().map(|chosen| chosen.candidate.entry).collect();
        let left: Vec<OpenPlace> = {
            let given: HashSet<PlaceId> =
                decided.chosen.iter().flat_map(|chosen| chosen.places.clone()).collect();
            // What is kept for who waits for more is not left for anybody behind.
            let is_left = |place: &&OpenPlace| !given.contains(&place.id) && !decided.kept.has(place.kind);
            places.iter().filter(is_left).copied().collect()
        };
        for candidate in line.iter().filter(|candidate| !chosen.contains(&candidate.entry)) {
            if covered(candidate, &decided) {
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
                prop_assert!(fit == Fit::Strict && line.iter().any(|entry| waits_for_more(entry, &places)));
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
        let by_kind = line.iter().any(|candidate| candidate.kinds != Kinds::ALL);
        let whole = allocate(&places, &line, fit, room);
        let (mut depth, mut before) = (1, 0);
        let in_part = loop {
            let read = head_of(&places, &line, (fit, by_kind), room, depth);
            let decided = allocate(&places, &read, fit, room);
            if read.len() == before || !decided.is_cut_short(&places, &read, fit, room, depth, by_kind) {
                break decided;
            }
            (depth, before) = (depth * 8, read.len());
        };
        prop_assert_eq!(in_part.chosen, whole.chosen);
        prop_assert_eq!(in_part.outcome, whole.outcome);
    }
}

/// As much of the line as the database hands over: see `LockedEvent::head_of_line` and `who_could_take`.
fn head_of(
    places: &[OpenPlace],
    line: &[Candidate],
    (fit, by_kind): (Fit, bool),
    room: usize,
    depth: usize,
) -> Vec<Candidate> {
    if fit == Fit::Strict && !by_kind {
        return line.iter().take(places.len().min(room) * depth + 1).copied().collect();
    }
    let mut of_group: HashMap<(Kinds, usize), usize> = HashMap::new();
    let fits = |candidate: &&Candidate| {
        let size = wants(candidate);
        let open = places.iter().filter(|place| candidate.kinds.has(place.kind)).count();
        let count = of_group.entry((candidate.kinds, size)).or_default();
        *count += 1;
        let is_read = open > 0 && (fit == Fit::Strict || size <= open);
        is_read && *count <= (room * depth).min(open * depth / size + 1)
    };
    line.iter().filter(fits).copied().collect()
}
