//! Deadlines and bounds, for every setting.

use proptest::prelude::*;

use super::*;

fn instant() -> impl Strategy<Value = DateTime<Utc>> {
    (0_i64..4_000_000_000).prop_map(|seconds| DateTime::UNIX_EPOCH + Duration::seconds(seconds))
}

proptest! {
    #[test]
    fn a_deadline_is_the_window_or_the_start_whichever_comes_first(
        now in instant(), seconds in 300_i64..=604_800, start in prop::option::of(instant()),
    ) {
        let window = Duration::seconds(seconds);
        let deadline = Policy::deadline(window, now, start);
        prop_assert!(deadline <= now + window);
        prop_assert!(start.is_none_or(|start| deadline <= start));
        prop_assert!(deadline == now + window || Some(deadline) == start);
    }

    #[test]
    fn exactly_the_settings_within_their_bounds_are_taken(
        seconds in prop::option::of(prop::sample::select(vec![0_i64, 299, 300, 3_600, 604_800, 604_801])),
        batch_size in prop::sample::select(vec![-1, 0, 1, 10_000, 10_001]),
        silence_limit in prop::sample::select(vec![-1, 0, 1, 2, 100, 101]),
        list_cap in prop::option::of(prop::sample::select(vec![-1, 0, 1, i32::MAX])),
        party_limit in prop::option::of(prop::sample::select(vec![-1, 0, 1, 100, 101])),
    ) {
        let window = seconds.map(Duration::seconds);
        let policy = Policy { window, batch_size, silence_limit, list_cap, party_limit, ..Policy::first() };
        let within = seconds.is_none_or(|seconds| (300..=604_800).contains(&seconds))
            && (0..=10_000).contains(&batch_size)
            && (1..=100).contains(&silence_limit)
            && list_cap.is_none_or(|cap| cap >= 0)
            && party_limit.is_none_or(|limit| (1..=100).contains(&limit));
        prop_assert_eq!(policy.check(None).is_ok(), within);
        if within {
            prop_assert!((1..=PARTY_MAX).contains(&policy.largest_party()));
        }
    }
}

#[test]
fn the_first_rule_is_sound_and_passive() {
    assert_eq!(Policy::first().check(None), Ok(()));
    assert_eq!(Policy::first().window, None);
}
