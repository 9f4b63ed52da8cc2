//! What a list's records say of an entry: which looks at the line went past it, and how it stood then.

use chrono::Duration;
use fairlist::domain::allocation::SkipReason;
use fairlist::domain::entry::{Entry, EntryState, Hindrance, PausedBy};
use fairlist::domain::ids::EntryId;
use fairlist::domain::policy::{Band, Draws, Fit, Ordering, Policy, band_of_draw};
use fairlist::domain::reason::Reason;
use fairlist::domain::trail::{Fate, fate};
use fairlist::waitlist::bands::BandOutcome;

use crate::harness::world::{World, reason, two_hours};

/// What each look that made offers meant for an entry, the newest first, and to how many ahead of it.
async fn fates(world: &World, entry: EntryId) -> Vec<(Fate, i64)> {
    let db = world.waitlist.db();
    let entry: Entry = world.entry(entry).await;
    let trail = db.trail_of(&entry).await.expect("records");
    let since = db.since_joined(&entry, &trail, 100).await.expect("looks");
    since.looks.iter().map(|look| (fate(&trail, look.at, look.skip), look.ahead)).collect()
}

/// A place comes back a minute later, and the line is looked at.
async fn a_place(world: &World, count: usize) {
    world.later(Duration::minutes(1));
    world.add_places(count).await;
    world.settle().await;
    world.later(Duration::minutes(1));
}

#[tokio::test]
async fn a_life_in_the_line_is_read_from_its_records() {
    let world = World::with(Policy { fit: Fit::Fill, ..two_hours() }, 0).await;
    world.waiting("Otto", 1).await;
    let family = world.waiting("Family", 2).await;
    for who in ["Nina", "Walter", "Zoe"] {
        world.waiting(who, 1).await;
    }
    a_place(&world, 1).await;
    a_place(&world, 1).await;
    let (staff, why) = (world.actor(), reason());
    let paused = world.waitlist.pause(world.event, family.id, PausedBy::Staff, None, staff, &why).await;
    paused.expect("paused");
    a_place(&world, 1).await;
    world.waitlist.resume(world.event, family.id, world.actor(), &reason()).await.expect("resumed");
    a_place(&world, 2).await;
    let passed_over = Fate::PassedOver(SkipReason::DoesNotFit { more_than: 1 });
    assert_eq!(
        fates(&world, family.id).await,
        [
            (Fate::Offered, 0),
            (Fate::Hindered(Hindrance::Paused(PausedBy::Staff)), 0),
            (passed_over, 0),
            (Fate::Behind, 1),
        ]
    );
    // What happened before somebody came, and after they were served, is not theirs.
    let offer = world.live_offer(family.id).await;
    world.accept(offer.id, offer.person).await;
    a_place(&world, 1).await;
    assert_eq!(fates(&world, family.id).await.len(), 4);
    let late = world.waiting("Late", 1).await;
    assert_eq!(fates(&world, late.id).await, []);
    assert_eq!(world.state(late.id).await, EntryState::Waiting);
    world.settle().await;
}

/// Another rank later does not change who was ahead then.
#[tokio::test]
async fn who_was_ahead_is_judged_by_the_rank_of_that_time() {
    let world = World::with(Policy { silence_limit: 9, ..two_hours() }, 1).await;
    let entries = world.all_waiting(&["Otto", "Nina", "Walter"]).await;
    for _ in 0..3 {
        world.settle().await;
        world.later(Duration::hours(2));
    }
    // Otto was offered it, went to the end of the line, and Nina and Walter were ahead of him there.
    assert_eq!(
        fates(&world, entries[0].id).await,
        [(Fate::Behind, 1), (Fate::Behind, 1), (Fate::Offered, 0)]
    );
    assert_eq!(
        fates(&world, entries[2].id).await,
        [(Fate::Offered, 0), (Fate::Behind, 1), (Fate::Behind, 1)]
    );
    world.settle().await;
}

/// Groups that go first, and a draw that ranks a pool with one record for all.
#[tokio::test]
async fn groups_and_draws_are_orders_too() {
    let world = World::with(two_hours(), 0).await;
    let members =
        Band { number: -10, name: "Members".to_owned(), reason: "They pay for the house.".to_owned() };
    world.rule(|policy| (policy.ordering, policy.bands) = (Ordering::Priority, vec![members])).await;
    let entries = world.all_waiting(&["Otto", "Nina"]).await;
    world.later(Duration::minutes(1));
    let (staff, why) = (world.actor(), reason());
    let moved = world.waitlist.move_to_band(world.event, entries[1].id, -10, staff, &why).await;
    assert!(matches!(moved, Ok(BandOutcome::Moved(Some(_)))), "{moved:?}");
    a_place(&world, 1).await;
    let db = world.waitlist.db();
    let otto = world.entry(entries[0].id).await;
    let trail = db.trail_of(&otto).await.expect("records");
    let since = db.since_joined(&otto, &trail, 10).await.expect("looks");
    assert_eq!((since.looks[0].reason, since.looks[0].ahead), (Some(Reason::FirstInBand), 1));

    let world = World::with(two_hours(), 0).await;
    world.rule(|policy| policy.ordering = Ordering::Lottery).await;
    let entries = world.all_waiting(&["Otto", "Nina", "Walter"]).await;
    a_place(&world, 1).await;
    a_place(&world, 1).await;
    let mut waiting = 0;
    for entry in entries {
        if world.state(entry.id).await == EntryState::Waiting {
            waiting += 1;
            assert_eq!(fates(&world, entry.id).await, [(Fate::Behind, 1), (Fate::Behind, 1)]);
        }
    }
    assert_eq!(waiting, 1);
}

/// A second draw ranks again those of the first who still wait, another order takes both back, and another version of
/// the same order takes nothing back: at every look the rank of that time counts.
#[tokio::test]
async fn each_draw_and_change_of_order_counts_from_its_own_instant() {
    let world =
        World::with(Policy { ordering: Ordering::Lottery, draws: Draws::ByStaff, ..two_hours() }, 0).await;
    let entries = world.all_waiting(&["Ada", "Ben", "Cem", "Dua", "Eve", "Fay", "Gil", "Hal"]).await;
    let draw = async || {
        world.later(Duration::minutes(1));
        world.waitlist.hold_draw(world.event, world.actor(), &reason()).await.expect("a draw");
        let number = i32::try_from(world.waitlist.db().draws(world.event).await.expect("draws").len());
        let draw = world.waitlist.db().public_draw(world.event, number.expect("few")).await;
        draw.expect("the draw").ranking
    };
    let first = draw().await;
    a_place(&world, 2).await;
    world.rule(|policy| policy.window = Some(Duration::hours(20))).await;
    a_place(&world, 1).await;
    let second = draw().await;
    a_place(&world, 1).await;
    world.rule(|policy| (policy.ordering, policy.draws) = (Ordering::Arrival, Draws::AtNeed)).await;
    let third: Vec<EntryId> =
        entries.iter().map(|entry| entry.id).filter(|id| second[1..].contains(id)).collect();
    a_place(&world, 1).await;
    let offered = [&first[..2], &first[2..3], &second[..1], &third[..1]];
    for last in &third[1..] {
        let told = fates(&world, *last).await;
        let expected: Vec<(Fate, i64)> = offered
            .iter()
            .rev()
            .map(|offers| (Fate::Behind, i64::try_from(offers.len()).expect("few")))
            .collect();
        assert_eq!(told, expected, "nobody who was offered a place was behind");
        // Where it stood is where the draws and the line have it.
        let trail = world.waitlist.db().trail_of(&world.entry(*last).await).await.expect("records");
        let before = |order: &[EntryId]| order.iter().position(|id| id == last).expect("ranked");
        let stands: Vec<(i16, i64)> =
            trail.iter().map(|stand| (stand.key.band, stand.key.rank >> 20)).collect();
        let entry = entries.iter().find(|entry| entry.id == *last).expect("known");
        let line = entry.key.rank >> 20;
        let drawn = |number, start: i64, order| {
            (band_of_draw(number), start + i64::try_from(before(order)).expect("few"))
        };
        assert_eq!(
            stands,
            [(0, line), drawn(1, 9, &first), drawn(2, 17, &second), (0, line)],
            "joined, drawn, drawn again, in the line again"
        );
    }
    for (number, offer) in offered.concat().into_iter().enumerate() {
        assert_eq!(world.state(offer).await, EntryState::Offered, "{number}");
    }
}
