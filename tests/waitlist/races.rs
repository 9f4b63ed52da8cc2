//! Races, each with its control: the same without the event's lock must go wrong, or the test proves nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::Duration;
use fairlist::db::DbError;
use fairlist::domain::attribute::{Said, Wants};
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::ids::{EventId, OfferId, PersonId};
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::{After, Policy};
use fairlist::domain::reason::Reason;
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::{Accept, AcceptOutcome, Decline, DeclineOutcome};
use fairlist::waitlist::bookings::{Book, BookOutcome, CancelOutcome};
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::places::AddPlacesOutcome;
use fairlist::waitlist::staff_offers::{AfterRevoke, Holder, ReleaseOutcome};
use fairlist::waitlist::together::Together;
use tokio::task::JoinSet;

use crate::harness::database::TestDatabase;
use crate::harness::race::{Gate, Lock, answered, at_once, collided};
use crate::harness::report::report;
use crate::harness::world::{World, email, name, reason, two_hours};

type Ends<T> = Vec<Result<T, DbError>>;

async fn count(world: &World, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(world.database.sql()).await.expect("a count")
}

/// A world whose lock may be off: what that leaves behind is nobody's fault.
async fn world(lock: Lock, policy: Policy, places: usize) -> World {
    let mut world = World::with(policy, places).await;
    if lock == Lock::Off {
        world.database.broken_on_purpose();
    }
    world
}

/// Ann is offered so many places.
async fn ann_is_offered(world: &World, party: i32) -> (OfferId, PersonId) {
    let ann = world.waiting("Ann", party).await;
    world.add_places(usize::try_from(party).expect("a party")).await;
    world.settle().await;
    (world.live_offer(ann.id).await.id, ann.person)
}

async fn accepting(
    waitlist: Waitlist,
    event: EventId,
    offer: OfferId,
    person: PersonId,
) -> Result<AcceptOutcome, DbError> {
    let accept = Accept { offer, person, actor: Actor::Person(person) };
    Ok(waitlist.accept(event, &[accept]).await?.remove(0))
}

/// Answering the request for a pass would make those who run or ask for one queue for its row, lock or no lock.
async fn without_request(world: &World) {
    sqlx::query("UPDATE pass_requests SET requested_at = NULL")
        .execute(world.database.sql())
        .await
        .expect("no request");
}

// ── passes ─────────────────────────────────────────────────────────────────────────────────────────────────

/// One open place, a hundred waiting, and sixteen passes.
async fn passes_at_once(lock: Lock) -> (World, Ends<usize>) {
    let world = world(lock, two_hours(), 0).await;
    for n in 0..100 {
        world.waiting(&format!("Person{n:03}"), 1).await;
    }
    world.add_places(1).await;
    without_request(&world).await;
    let ends = at_once(&world, lock, 16, |_| {
        let (waitlist, event) = (world.waitlist.clone(), world.event);
        async move { waitlist.run_pass(event).await.map(|report| report.offered) }
    })
    .await;
    (world, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_passes_on_one_place_make_one_offer_to_the_first() {
    let (world, ends) = passes_at_once(Lock::On).await;
    assert_eq!(answered(ends).into_iter().sum::<usize>(), 1);
    assert_eq!(count(&world, "SELECT count(*) FROM offers").await, 1);
    assert_eq!(count(&world, "SELECT arrival FROM entries WHERE state = 'offered'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_passes_collide() {
    collided(&passes_at_once(Lock::Off).await.1);
}

// ── accepting ──────────────────────────────────────────────────────────────────────────────────────────────

/// One booking of two places, the same reference for every tap, and exactly one of them made it.
async fn assert_one_booking_that_all_see(world: &World, person: PersonId, outcomes: &[AcceptOutcome]) {
    let references: std::collections::BTreeSet<&String> = outcomes
        .iter()
        .map(|outcome| match outcome {
            AcceptOutcome::Accepted { reference, party: 2 }
            | AcceptOutcome::AlreadyAccepted { reference, party: 2 } => reference,
            other => panic!("a tap was answered with {other:?}"),
        })
        .collect();
    assert_eq!(references.len(), 1, "the same reference for every tap");
    let made = outcomes.iter().filter(|outcome| matches!(outcome, AcceptOutcome::Accepted { .. })).count();
    assert_eq!(made, 1);
    assert_eq!(world.bookings(person).await.len(), 2);
}

async fn taps_at_once(lock: Lock) -> (World, PersonId, Ends<AcceptOutcome>) {
    let world = world(lock, two_hours(), 0).await;
    let (offer, person) = ann_is_offered(&world, 2).await;
    let ends =
        at_once(&world, lock, 16, |_| accepting(world.waitlist.clone(), world.event, offer, person)).await;
    (world, person, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_taps_on_accept_make_one_booking_and_everyone_sees_it() {
    let (world, person, ends) = taps_at_once(Lock::On).await;
    assert_one_booking_that_all_see(&world, person, &answered(ends)).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_taps_collide() {
    collided(&taps_at_once(Lock::Off).await.2);
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_taps_decided_together_and_elsewhere_make_one_booking_and_everyone_sees_it() {
    let world = World::with(two_hours(), 0).await;
    let (offer, person) = ann_is_offered(&world, 2).await;
    let accept = Accept { offer, person, actor: Actor::Person(person) };
    let together = Together::new(world.waitlist.clone());
    let mut taps = JoinSet::new();
    for n in 0..50 {
        let (together, waitlist, event) = (together.clone(), world.waitlist.clone(), world.event);
        taps.spawn(async move {
            // Half of them through another process, so to speak.
            if n % 2 == 0 {
                together.accept(event, accept).await.expect("an answer")
            } else {
                waitlist.accept(event, &[accept]).await.expect("an answer").remove(0)
            }
        });
    }
    assert_one_booking_that_all_see(&world, person, &taps.join_all().await).await;
}

#[derive(Debug)]
enum Answered {
    Yes(AcceptOutcome),
    No(DeclineOutcome),
}

/// Yes and no to the same offer.
async fn yes_and_no_at_once(lock: Lock) -> (World, Ends<Answered>) {
    let world = world(lock, two_hours(), 0).await;
    let (offer, person) = ann_is_offered(&world, 1).await;
    let ends = at_once(&world, lock, 2, |n| {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, Actor::Person(person));
        async move {
            if n == 0 {
                return accepting(waitlist, event, offer, person).await.map(Answered::Yes);
            }
            let decline = Decline { offer, person, actor };
            Ok(Answered::No(waitlist.decline(event, &[decline]).await?.remove(0)))
        }
    })
    .await;
    (world, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn of_accept_and_decline_at_once_the_first_wins_and_the_other_hears_the_truth() {
    for _ in 0..10 {
        let (world, ends) = yes_and_no_at_once(Lock::On).await;
        let states: Vec<String> = sqlx::query_scalar("SELECT state FROM entries")
            .fetch_all(world.database.sql())
            .await
            .expect("the entry");
        match answered(ends).as_slice() {
            [Answered::Yes(AcceptOutcome::Accepted { .. }), Answered::No(DeclineOutcome::Accepted)] => {
                assert_eq!(states, [EntryState::Accepted.to_string()]);
            }
            [Answered::Yes(AcceptOutcome::Declined), Answered::No(DeclineOutcome::Declined { .. })] => {
                assert_eq!(states, [EntryState::Declined.to_string()]);
            }
            other => panic!("both cannot be: {other:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_yes_and_no_collide() {
    collided(&yes_and_no_at_once(Lock::Off).await.1);
}

// ── deadlines ──────────────────────────────────────────────────────────────────────────────────────────────

#[tokio::test]
async fn the_deadline_itself_is_late_and_a_microsecond_before_it_is_not() {
    for (before, in_time) in [(1, true), (0, false), (-1, false)] {
        let world = World::with(two_hours(), 0).await;
        let ann = world.waiting("Ann", 1).await;
        world.add_places(1).await;
        world.settle().await;
        let offer = world.live_offer(ann.id).await;
        world.later(offer.expires_at - world.now() - Duration::microseconds(before));
        let outcome = world.accept(offer.id, ann.person).await;
        assert_eq!(
            matches!(outcome, AcceptOutcome::Accepted { .. }),
            in_time,
            "{before} µs before: {outcome:?}"
        );
        assert_eq!(outcome == AcceptOutcome::Expired, !in_time);
    }
}

/// Somebody accepts, and the deadline passes, by the database's clock, before it is their turn.
async fn a_click_across_the_deadline(lock: Lock) -> (World, PersonId, AcceptOutcome) {
    let mut world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    if lock == Lock::Off {
        world.database.broken_on_purpose();
    }
    let (offer, person) = ann_is_offered(&world, 1).await;
    let mut gate = Gate::close(&world).await;
    gate.run("LOCK TABLE offers IN SHARE MODE").await;
    let click = tokio::spawn(lock.run(accepting(world.waitlist.clone(), world.event, offer, person)));
    gate.until_waiting(1).await;
    gate.run("UPDATE offers SET expires_at = clock_timestamp()").await;
    gate.open().await;
    let outcome = click.await.expect("joined").expect("an answer");
    (world, person, outcome)
}

/// A click that waits for the lock beyond the deadline is late: the clock is read after the lock, not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_waits_for_the_lock_across_the_deadline_is_late() {
    let (world, person, outcome) = a_click_across_the_deadline(Lock::On).await;
    assert_eq!(outcome, AcceptOutcome::Expired);
    assert!(world.bookings(person).await.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_a_late_click_books() {
    let (_, _, outcome) = a_click_across_the_deadline(Lock::Off).await;
    assert!(matches!(outcome, AcceptOutcome::Accepted { .. }), "{outcome:?}");
}

/// In the last microsecond somebody accepts; before it is their turn, the deadline passes and a pass ends the offer.
async fn accept_against_the_sweep(lock: Lock) -> (World, [Result<(), DbError>; 2]) {
    let world = world(lock, Policy { after_expiry: After::Leave, ..two_hours() }, 0).await;
    let (offer, person) = ann_is_offered(&world, 1).await;
    let deadline = world.now() + Duration::hours(2);
    world.database.clock().set(deadline - Duration::microseconds(1));
    let gate = Gate::close(&world).await;
    let (waitlist, event) = (world.waitlist.clone(), world.event);
    let click = tokio::spawn(lock.run(accepting(waitlist.clone(), event, offer, person)));
    gate.until_waiting(1).await;
    world.database.clock().set(deadline);
    let sweep = tokio::spawn(lock.run(async move { waitlist.run_pass(event).await }));
    gate.until_waiting(2).await;
    gate.open().await;
    let ends = [click.await.expect("joined").map(drop), sweep.await.expect("joined").map(drop)];
    (world, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn an_offer_that_is_accepted_and_swept_at_once_ends_in_one_way() {
    let (world, ends) = accept_against_the_sweep(Lock::On).await;
    assert!(ends.iter().all(Result::is_ok), "{ends:?}");
    let expired = count(&world, "SELECT count(*) FROM offers WHERE state = 'expired'").await;
    let booked = count(&world, "SELECT count(*) FROM bookings").await;
    assert_eq!(expired + booked, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_accept_and_sweep_collide() {
    collided(&accept_against_the_sweep(Lock::Off).await.1);
}

/// HiEventsDev/Hi.Events#1072: the expiry job and the count of places disagreed. A thousand offers whose deadline
/// passes while they are accepted and swept: each ends in exactly one way.
#[tokio::test(flavor = "multi_thread")]
async fn accepting_against_the_sweep_a_thousand_times_ends_in_exactly_one_way_each() {
    let world = World::with(Policy { after_expiry: After::Leave, ..two_hours() }, 0).await;
    let joins: Vec<Join> = (0..1_000)
        .map(|n| Join {
            wants: Wants::default(),
            name: name(&format!("Person {n}")),
            email: email(&format!("person{n}@example.org")),
            party: 1,
            as_whom: JoinAs::Vouched(world.actor()),
        })
        .collect();
    let joined = world.waitlist.join(world.event, &joins).await.expect("an answer");
    assert!(joined.iter().all(|outcome| matches!(outcome, JoinOutcome::Joined(_))));
    world.add_places(1_000).await;
    world.settle().await;
    let offers = world
        .waitlist
        .db()
        .with_event(world.event, async |event| event.pending_offers(1_000).await)
        .await
        .expect("offers");
    assert_eq!(offers.len(), 1_000);
    let deadline = offers[0].expires_at;
    let clock = world.database.clock().clone();
    clock.set(deadline - Duration::microseconds(1));
    let together = Together::new(world.waitlist.clone());
    let answers = Arc::new(AtomicUsize::new(0));
    let mut racers = JoinSet::new();
    for offer in offers {
        let (together, event, clock) = (together.clone(), world.event, clock.clone());
        let answers = Arc::clone(&answers);
        racers.spawn(async move {
            let accept = Accept { offer: offer.id, person: offer.person, actor: Actor::Person(offer.person) };
            let outcome = together.accept(event, accept).await.expect("an answer");
            // When some have their place, the deadline passes.
            if answers.fetch_add(1, Ordering::Relaxed) == 250 {
                clock.set(deadline);
            }
            matches!(outcome, AcceptOutcome::Accepted { .. })
        });
    }
    let sweeping = {
        let (waitlist, event) = (world.waitlist.clone(), world.event);
        tokio::spawn(async move {
            for _ in 0..20 {
                waitlist.run_pass(event).await.expect("a pass");
            }
        })
    };
    let accepted = racers.join_all().await.into_iter().filter(|accepted| *accepted).count();
    sweeping.await.expect("joined");
    world.settle().await;
    let booked = count(&world, "SELECT count(*) FROM bookings").await;
    assert_eq!(usize::try_from(booked).expect("a count"), accepted);
    assert_eq!(
        count(&world, "SELECT count(*) FROM offers WHERE state NOT IN ('accepted', 'expired')").await,
        0
    );
    assert_eq!(
        count(&world, "SELECT count(*) FROM places WHERE state = 'booked'").await
            + count(&world, "SELECT count(*) FROM places WHERE state = 'open'").await,
        1_000
    );
    report(&format!(
        "a thousand offers at their deadline: {accepted} accepted, {} expired",
        1_000 - accepted
    ));
}

// ── releases ───────────────────────────────────────────────────────────────────────────────────────────────

async fn cancelled_at_once(lock: Lock) -> (World, Ends<CancelOutcome>) {
    let world = world(lock, two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let booking = world.bookings(world.person("Zoe").await).await[0];
    let ends = at_once(&world, lock, 16, |_| {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
        async move { waitlist.cancel_booking(event, booking, actor, &reason()).await }
    })
    .await;
    (world, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_booking_cancelled_sixteen_times_is_released_once() {
    let (world, ends) = cancelled_at_once(Lock::On).await;
    let outcomes = answered(ends);
    let done = outcomes.iter().filter(|outcome| matches!(outcome, CancelOutcome::Cancelled { .. })).count();
    let told = outcomes
        .iter()
        .filter(
            |outcome| matches!(outcome, CancelOutcome::Already { by: Some(by), .. } if *by == world.staff),
        )
        .count();
    assert_eq!((done, told), (1, 15), "{outcomes:?}");
    assert_eq!(count(&world, "SELECT count(*) FROM releases WHERE source = 'booking'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_cancellations_collide() {
    collided(&cancelled_at_once(Lock::Off).await.1);
}

/// The same form sent sixteen times, for two places.
async fn added_at_once(lock: Lock) -> (World, Vec<AddPlacesOutcome>) {
    let world = world(lock, two_hours(), 0).await;
    let ends = at_once(&world, lock, 16, |_| {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
        async move {
            waitlist.add_places(event, &[None, None], &Said::default(), "form-1", actor, Reason::SetUp).await
        }
    })
    .await;
    (world, answered(ends))
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_release_sixteen_times_is_applied_once() {
    let (world, outcomes) = added_at_once(Lock::On).await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == AddPlacesOutcome::Added(2)).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == AddPlacesOutcome::Already).count(), 15);
    assert_eq!(count(&world, "SELECT count(*) FROM places").await, 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_a_release_is_applied_again() {
    let (world, outcomes) = added_at_once(Lock::Off).await;
    assert!(count(&world, "SELECT count(*) FROM places").await > 2, "the lock did nothing: {outcomes:?}");
}

/// The second of two staff who release the same place must not take it from whoever was offered it since.
#[tokio::test]
async fn two_staff_release_the_same_place_and_the_second_is_told_who_did_it() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let ann = world.waiting("Ann", 1).await;
    let seen = Holder::Booking(world.bookings(world.person("Zoe").await).await[0]);
    let (event, actor, because) = (world.event, world.actor(), reason());
    let place = world.database.db().all_places(event).await.expect("places")[0].id;
    let release = || world.waitlist.release_place(event, place, seen, AfterRevoke::SetAside, actor, &because);
    let first = release().await;
    assert_eq!(first.expect("released"), ReleaseOutcome::BookingCancelled);
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    let second = release().await;
    assert_eq!(second.expect("told"), ReleaseOutcome::Already { by: Some(world.staff), at: world.now() });
    assert_eq!(
        world.offer(ann.id).await.expect("offer").state,
        OfferState::Pending,
        "Ann keeps what she was offered"
    );
    assert_eq!(world.offer(ann.id).await.expect("offer").id, offer.id);
}

// ── the last place ─────────────────────────────────────────────────────────────────────────────────────────

/// Staff book the only place by hand while passes offer it, eight each; what the bookings came to.
async fn booked_and_offered_at_once(lock: Lock) -> (World, Ends<Option<BookOutcome>>) {
    let world = world(lock, two_hours(), 0).await;
    world.waiting("Ann", 1).await;
    let max = world.person("Max").await;
    world.add_places(1).await;
    without_request(&world).await;
    let ends = at_once(&world, lock, 16, |n| {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
        async move {
            if n % 2 == 0 {
                return waitlist.run_pass(event).await.map(|_| None);
            }
            let once = fairlist::clock::Entropy.id();
            let book = Book {
                wants: Wants::default(),
                person: max,
                party: 1,
                actor,
                reason: reason(),
                override_reservation: true,
                once,
            };
            waitlist.book(event, &book).await.map(Some)
        }
    })
    .await;
    (world, ends)
}

#[tokio::test(flavor = "multi_thread")]
async fn staff_book_the_last_place_while_passes_offer_it_and_one_wins() {
    for _ in 0..5 {
        let (world, ends) = booked_and_offered_at_once(Lock::On).await;
        let held = count(&world, "SELECT count(*) FROM places WHERE state = 'held'").await;
        let mut booked = 0;
        for outcome in answered(ends).into_iter().flatten() {
            match outcome {
                BookOutcome::Booked { .. } => booked += 1,
                BookOutcome::TooFew(0) => {}
                other => panic!("{other:?}"),
            }
        }
        assert_eq!(held + booked, 1);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_booking_and_offering_collide() {
    collided(&booked_and_offered_at_once(Lock::Off).await.1);
}

// ── joining ────────────────────────────────────────────────────────────────────────────────────────────────

fn somebody(n: usize) -> Join {
    Join {
        wants: Wants::default(),
        name: name("Somebody"),
        email: email(&format!("somebody{n}@example.org")),
        party: 1,
        as_whom: JoinAs::Visitor,
    }
}

/// Ranks are unique and without gaps.
async fn assert_ranked(world: &World, n: i64) {
    let distinct = count(world, "SELECT count(DISTINCT rank) FROM entries").await;
    let last = count(world, "SELECT max(arrival) FROM entries").await;
    assert_eq!((distinct, last), (n, n));
}

/// Sixteen people, on a list that takes eight.
async fn joins_at_once(lock: Lock) -> (World, Vec<JoinOutcome>) {
    let world = world(lock, Policy { list_cap: Some(8), ..two_hours() }, 0).await;
    let ends = at_once(&world, lock, 16, |n| {
        let (waitlist, event) = (world.waitlist.clone(), world.event);
        async move { Ok(waitlist.join(event, &[somebody(n)]).await?.remove(0)) }
    })
    .await;
    (world, answered(ends))
}

#[tokio::test(flavor = "multi_thread")]
async fn of_sixteen_who_join_at_once_a_list_takes_as_many_as_it_may() {
    let (world, outcomes) = joins_at_once(Lock::On).await;
    let joined = outcomes.iter().filter(|outcome| matches!(outcome, JoinOutcome::Joined(_))).count();
    assert_eq!(joined, 8, "{outcomes:?}");
    assert_ranked(&world, 8).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_a_list_takes_more_than_it_may() {
    let (world, outcomes) = joins_at_once(Lock::Off).await;
    assert!(count(&world, "SELECT count(*) FROM entries").await > 8, "the lock did nothing: {outcomes:?}");
}

/// A thousand join at once, decided together: nobody is turned away by an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_join_at_once_with_ranks_unique_and_gapless() {
    let world = World::with(two_hours(), 0).await;
    let together = Together::new(world.waitlist.clone());
    let mut joins = JoinSet::new();
    for n in 0..1_000 {
        let (together, event) = (together.clone(), world.event);
        joins.spawn(async move {
            matches!(together.join(event, somebody(n)).await.expect("an answer"), JoinOutcome::Joined(_))
        });
    }
    assert!(joins.join_all().await.into_iter().all(|joined| joined));
    assert_ranked(&world, 1_000).await;
}
