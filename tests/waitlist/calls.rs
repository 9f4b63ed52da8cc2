//! Calls: the final call before the start, and calls to everybody. They keep nothing; the first to accept has the place.

use chrono::Duration;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::{OfferKind, OfferState};
use fairlist::domain::policy::{Mode, Ordering, Policy, PolicyError};
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::bookings::BookOutcome;
use fairlist::waitlist::calls::FinalCallOutcome;
use fairlist::waitlist::events::RuleOutcome;

use crate::harness::world::{World, reason, two_hours};

const THREE: [&str; 3] = ["Ada", "Ben", "Cy"];

fn to_everybody() -> Policy {
    Policy { mode: Mode::NotifyAll, ..two_hours() }
}

/// An event whose final call begins three days before its start, with a clock just past it.
async fn past_the_cutoff(policy: Policy) -> World {
    let world = World::with(policy, 0).await;
    let start = world.database.db().event(world.event).await.expect("the event").starts_at.expect("a start");
    world.rule(|policy| policy.cutoff = Some(start - Duration::days(3))).await;
    world.later(start - world.now() - Duration::days(3));
    world
}

#[tokio::test]
async fn everybody_who_could_take_a_place_is_called_and_the_first_to_accept_has_it() {
    let world = World::with(to_everybody(), 0).await;
    let line = world.all_waiting(&THREE).await;
    let large = world.waiting("Dot", 3).await;
    world.add_places(1).await;
    world.settle().await;
    for entry in &line {
        let call = world.live_offer(entry.id).await;
        assert_eq!((call.kind, call.state), (OfferKind::Call, OfferState::Pending));
        assert_eq!(world.told(entry.person, "call").await, 1);
    }
    assert!(world.offer(large.id).await.is_none(), "a party that does not fit is not called");
    let held: i64 = sqlx::query_scalar("SELECT count(*) FROM places WHERE event_id = $1 AND state = 'held'")
        .bind(world.event.0)
        .fetch_one(world.database.sql())
        .await
        .expect("places");
    assert_eq!(held, 0, "calls keep nothing");

    let [first, second] = [world.live_offer(line[2].id).await, world.live_offer(line[0].id).await];
    assert!(matches!(world.accept(first.id, first.person).await, AcceptOutcome::Accepted { party: 1, .. }));
    assert_eq!(world.accept(second.id, second.person).await, AcceptOutcome::TakenByFaster { open: 0 });
    assert_eq!(
        world.state(line[0].id).await,
        EntryState::Offered,
        "who was slower stays on the list, still called"
    );
    assert_eq!(world.live_offer(line[0].id).await.state, OfferState::Pending);
}

#[tokio::test]
async fn two_who_accept_in_one_moment_are_decided_in_the_order_of_their_taps() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&THREE).await;
    world.settle().await;
    let mut taps = Vec::new();
    for entry in [&line[1], &line[0], &line[2]] {
        let call = world.live_offer(entry.id).await;
        taps.push(fairlist::waitlist::answer::Accept {
            offer: call.id,
            person: call.person,
            actor: fairlist::domain::audit::Actor::Person(call.person),
        });
    }
    let outcomes = world.waitlist.accept(world.event, &taps).await.expect("decided");
    assert!(matches!(outcomes[0], AcceptOutcome::Accepted { .. }), "{outcomes:?}");
    assert_eq!(
        outcomes[1..],
        [AcceptOutcome::TakenByFaster { open: 0 }, AcceptOutcome::TakenByFaster { open: 0 }]
    );
}

#[tokio::test]
async fn who_found_nothing_is_told_again_when_another_place_comes_back() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&THREE).await;
    world.settle().await;
    let winner = world.live_offer(line[0].id).await;
    world.accept(winner.id, winner.person).await;
    world.settle().await;
    assert_eq!(world.told(line[1].person, "call").await, 1, "nothing is open: nobody is told");
    world.later(Duration::minutes(5));
    world.cancel_booking_of(winner.person).await;
    world.settle().await;
    assert_eq!(world.told(line[1].person, "call").await, 2);
    world.settle().await;
    world.pass().await;
    assert_eq!(world.told(line[1].person, "call").await, 2, "once for each time");
    let call = world.live_offer(line[1].id).await;
    assert!(matches!(world.accept(call.id, call.person).await, AcceptOutcome::Accepted { .. }));
}

#[tokio::test]
async fn a_call_without_an_answer_costs_nothing_but_is_not_repeated_for_the_same_place() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&THREE).await;
    world.settle().await;
    let before = world.entry(line[0].id).await.key;
    world.later(Duration::hours(3));
    world.settle().await;
    let entry = world.entry(line[0].id).await;
    assert_eq!((entry.state, entry.silent_offers, entry.key), (EntryState::Waiting, 0, before));
    assert_eq!(world.told(entry.person, "call").await, 1);
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.told(entry.person, "call").await, 2, "another place is another call");
}

#[tokio::test]
async fn calls_reserve_nothing_against_the_public() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&THREE).await;
    world.settle().await;
    let person = world.person("Eve").await;
    let outcome = world.book_as_customer(person).await;
    assert!(matches!(outcome, BookOutcome::Booked { .. }), "{outcome:?}");
    let call = world.live_offer(line[0].id).await;
    assert_eq!(world.accept(call.id, call.person).await, AcceptOutcome::TakenByFaster { open: 0 });
}

#[tokio::test]
async fn past_the_cutoff_everybody_is_called_until_the_start_and_holds_keep_their_places() {
    let world = World::with(two_hours(), 1).await;
    let line = world.all_waiting(&THREE).await;
    let start = world.database.db().event(world.event).await.expect("the event").starts_at.expect("a start");
    world.rule(|policy| policy.cutoff = Some(start - Duration::days(3))).await;
    world.later(start - world.now() - Duration::days(3) - Duration::hours(1));
    world.settle().await;
    let hold = world.live_offer(line[0].id).await;
    world.later(Duration::hours(1));
    world.add_places(1).await;
    world.settle().await;
    let after = world.live_offer(line[0].id).await;
    assert_eq!(
        (after.kind, after.expires_at),
        (OfferKind::Hold, hold.expires_at),
        "the hold keeps its deadline"
    );
    for entry in &line[1..] {
        let call = world.live_offer(entry.id).await;
        assert_eq!((call.kind, call.expires_at), (OfferKind::Call, start));
    }
    let last = world.database.db().last_pass(world.event).await.expect("a pass").expect("one");
    assert_eq!((last.outcome, last.offered), (PassOutcome::FinalCall, 2));
    assert!(matches!(world.accept(hold.id, hold.person).await, AcceptOutcome::Accepted { .. }));

    let late = world.waiting("Eve", 1).await;
    world.settle().await;
    assert_eq!(world.live_offer(late.id).await.kind, OfferKind::Call, "who joins later is called at once");
}

#[tokio::test]
async fn the_sweeper_wakes_for_the_cutoff_and_once_called_it_is_fixed() {
    let world = World::with(two_hours(), 0).await;
    world.all_waiting(&THREE).await;
    let start = world.database.db().event(world.event).await.expect("the event").starts_at.expect("a start");
    let cutoff = start - Duration::days(3);
    let change = async |policy: Policy| {
        let version = world.database.db().event(world.event).await.expect("the event").form_version;
        world
            .waitlist
            .change_policy(world.event, &policy, version, world.actor(), &reason())
            .await
            .expect("saved or refused")
    };
    let with = |cutoff| Policy { cutoff: Some(cutoff), ..two_hours() };
    assert_eq!(change(with(start)).await, RuleOutcome::Refused(PolicyError::CutoffAfterStart));
    assert_eq!(change(with(world.now())).await, RuleOutcome::Refused(PolicyError::CutoffPast));
    let passive = Policy { window: None, ..with(cutoff) };
    assert_eq!(change(passive).await, RuleOutcome::Refused(PolicyError::CutoffWithoutWindow));
    assert!(matches!(change(with(cutoff)).await, RuleOutcome::Saved(_)));

    let due = world.database.db().next_due().await.expect("the next instant");
    assert!(due.is_some_and(|due| due <= cutoff), "{due:?}");
    world.later(cutoff - world.now());
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(
        change(with(cutoff + Duration::days(1))).await,
        RuleOutcome::Refused(PolicyError::CutoffCalled)
    );
}

#[tokio::test]
async fn where_staff_pick_they_make_the_final_call_themselves() {
    let world = past_the_cutoff(Policy { ordering: Ordering::Manual, ..two_hours() }).await;
    let line = world.all_waiting(&THREE).await;
    world.add_places(1).await;
    world.settle().await;
    assert!(world.offer(line[0].id).await.is_none(), "nothing goes out by itself");
    let made =
        world.waitlist.make_final_call(world.event, world.actor(), &reason()).await.expect("an answer");
    assert_eq!(made, FinalCallOutcome::Made);
    let again =
        world.waitlist.make_final_call(world.event, world.actor(), &reason()).await.expect("an answer");
    assert_eq!(again, FinalCallOutcome::Already);
    world.settle().await;
    for entry in &line {
        assert_eq!(world.live_offer(entry.id).await.kind, OfferKind::Call);
    }
}

#[tokio::test]
async fn closing_the_list_takes_calls_back_and_leaving_ends_ones_own() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&THREE).await;
    world.settle().await;
    world
        .waitlist
        .leave(world.event, line[0].id, fairlist::domain::audit::Actor::Person(line[0].person))
        .await
        .expect("left");
    assert_eq!(world.state(line[0].id).await, EntryState::Withdrawn);
    world
        .waitlist
        .set_list(world.event, fairlist::domain::event::ListState::Closed, world.actor(), &reason())
        .await
        .expect("closed");
    let call = world.offer(line[1].id).await.expect("the call");
    assert_eq!(call.state, OfferState::Revoked);
    assert_eq!(world.state(line[1].id).await, EntryState::Waiting);
}

#[tokio::test]
async fn more_than_one_chunk_is_called_in_order_and_nobody_twice() {
    let world = World::with(to_everybody(), 0).await;
    let names: Vec<String> = (0..1_050).map(|n| format!("P{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    world.all_waiting(&names).await;
    world.add_places(2).await;
    let first = world.pass().await;
    assert_eq!(first.offered, 1_000);
    world.settle().await;
    let (calls, people): (i64, i64) = sqlx::query_as(
        "SELECT count(*), count(DISTINCT entry_id) FROM offers WHERE event_id = $1 AND kind = 'call'",
    )
    .bind(world.event.0)
    .fetch_one(world.database.sql())
    .await
    .expect("calls");
    assert_eq!((calls, people), (1_050, 1_050));
}

async fn how_far(world: &World) -> Option<(i32, i32, bool)> {
    let call = world.database.db().event(world.event).await.expect("the event").large_call?;
    Some((call.told, call.total, call.is_under_way()))
}

#[tokio::test]
async fn a_large_call_says_how_far_it_is_and_stops_when_nothing_is_open_any_more() {
    let world = World::with(to_everybody(), 0).await;
    let names: Vec<String> = (0..2_050).map(|n| format!("P{n}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let line = world.all_waiting(&names).await;
    let large = world.waiting("Dot", 3).await;
    world.add_places(1).await;
    world.pass().await;
    assert_eq!(how_far(&world).await, Some((1_000, 2_050, true)), "a party that does not fit is not counted");
    // The only place goes to the first before the others are called.
    let call = world.live_offer(line[0].id).await;
    assert!(matches!(world.accept(call.id, call.person).await, AcceptOutcome::Accepted { .. }));
    world.settle().await;
    assert_eq!(how_far(&world).await, Some((1_000, 2_050, false)));
    // Another place comes back: those told are told again, beside those who were not called yet. Somebody joins
    // meanwhile, and is told as well.
    world.later(Duration::minutes(5));
    world.cancel_booking_of(call.person).await;
    world.pass().await;
    assert_eq!(how_far(&world).await, Some((1_999, 2_049, true)));
    world.waiting("Eve", 1).await;
    world.settle().await;
    assert_eq!(how_far(&world).await, Some((2_050, 2_050, false)));
    assert!(world.offer(large.id).await.is_none());
    // What fits in one pass is no large call.
    world.waiting("Fay", 1).await;
    world.settle().await;
    assert_eq!(how_far(&world).await, Some((2_050, 2_050, false)));
}

#[tokio::test]
async fn who_was_called_for_what_another_took_is_told_at_once_of_what_else_is_open() {
    let world = World::with(to_everybody(), 1).await;
    let line = world.all_waiting(&["Ada", "Ben"]).await;
    world.settle().await;
    world.later(Duration::minutes(5));
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.told(line[1].person, "call").await, 1, "the place of which the call told is open still");
    let call = world.live_offer(line[0].id).await;
    assert!(matches!(world.accept(call.id, call.person).await, AcceptOutcome::Accepted { .. }));
    world.settle().await;
    assert_eq!(world.told(line[1].person, "call").await, 2, "that one is gone, and another is open");
}
