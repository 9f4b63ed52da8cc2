//! Races, each with its control: the same without the event's lock must go wrong, or the test proves nothing.

use std::sync::Arc;

use chrono::Duration;
use fairlist::db::DbError;
use fairlist::db::locked_event::without_lock;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::Policy;
use fairlist::domain::reason::Reason;
use fairlist::waitlist::answer::{Accept, AcceptOutcome, Decline, DeclineOutcome};
use fairlist::waitlist::bookings::{Book, BookOutcome, CancelOutcome};
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::places::AddPlacesOutcome;
use fairlist::waitlist::staff_offers::{AfterRevoke, Holder, ReleaseOutcome};
use fairlist::waitlist::together::Together;
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use crate::harness::world::{World, email, name, reason, two_hours};

async fn count(world: &World, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(world.database.sql()).await.expect("a count")
}

/// One open place, a hundred waiting, and so many passes at once, with or without the lock.
async fn passes_at_once(lock: bool) -> (World, Vec<Result<usize, DbError>>) {
    let world = World::with(two_hours(), 0).await;
    for n in 0..100 {
        world.waiting(&format!("Person{n:03}"), 1).await;
    }
    world.add_places(1).await;
    // Answering a request would make the passes queue for its row, lock or no lock.
    sqlx::query("UPDATE pass_requests SET requested_at = NULL")
        .execute(world.database.sql())
        .await
        .expect("no request");
    let barrier = Arc::new(Barrier::new(16));
    let mut passes = JoinSet::new();
    for _ in 0..16 {
        let (waitlist, event, barrier) = (world.waitlist.clone(), world.event, Arc::clone(&barrier));
        passes.spawn(async move {
            barrier.wait().await;
            let pass = async { waitlist.run_pass(event).await.map(|report| report.offered) };
            if lock { pass.await } else { without_lock(pass).await }
        });
    }
    (world, passes.join_all().await)
}

#[tokio::test(flavor = "multi_thread")]
async fn sixteen_passes_on_one_place_make_one_offer_to_the_first() {
    let (world, outcomes) = passes_at_once(true).await;
    let offered: usize = outcomes.into_iter().map(|outcome| outcome.expect("a pass")).sum();
    assert_eq!(offered, 1);
    assert_eq!(count(&world, "SELECT count(*) FROM offers").await, 1);
    assert_eq!(count(&world, "SELECT arrival FROM entries WHERE state = 'offered'").await, 1);
}

#[tokio::test(flavor = "multi_thread")]
async fn control_without_the_lock_passes_collide() {
    let (mut world, outcomes) = passes_at_once(false).await;
    world.database.broken_on_purpose();
    let failed = outcomes.iter().filter(|outcome| outcome.is_err()).count();
    let offers = count(&world, "SELECT count(*) FROM offers").await;
    assert!(failed > 0 || offers > 1, "{failed} failed and {offers} offers: the lock did nothing");
}

#[tokio::test(flavor = "multi_thread")]
async fn fifty_taps_on_accept_make_one_booking_and_everyone_sees_it() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 2).await;
    world.add_places(2).await;
    world.settle().await;
    let accept = Accept {
        offer: world.live_offer(ann.id).await.id,
        person: ann.person,
        actor: Actor::Person(ann.person),
    };
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
    let outcomes = taps.join_all().await;
    let references: std::collections::BTreeSet<String> = outcomes
        .iter()
        .map(|outcome| match outcome {
            AcceptOutcome::Accepted { reference, party: 2 }
            | AcceptOutcome::AlreadyAccepted { reference, party: 2 } => reference.clone(),
            other => panic!("a tap was answered with {other:?}"),
        })
        .collect();
    assert_eq!(references.len(), 1, "the same reference for every tap");
    assert_eq!(
        outcomes.iter().filter(|outcome| matches!(outcome, AcceptOutcome::Accepted { .. })).count(),
        1
    );
    assert_eq!(world.bookings(ann.person).await.len(), 2);
}

#[tokio::test(flavor = "multi_thread")]
async fn of_accept_and_decline_at_once_the_first_wins_and_the_other_hears_the_truth() {
    for _ in 0..10 {
        let world = World::with(two_hours(), 0).await;
        let ann = world.waiting("Ann", 1).await;
        world.add_places(1).await;
        world.settle().await;
        let (offer, person) = (world.live_offer(ann.id).await.id, ann.person);
        let barrier = Arc::new(Barrier::new(2));
        let accepting = {
            let (waitlist, event, barrier) = (world.waitlist.clone(), world.event, Arc::clone(&barrier));
            tokio::spawn(async move {
                barrier.wait().await;
                let accept = Accept { offer, person, actor: Actor::Person(person) };
                waitlist.accept(event, &[accept]).await.expect("an answer").remove(0)
            })
        };
        barrier.wait().await;
        let decline = Decline { offer, person, actor: Actor::Person(person) };
        let declined = world.waitlist.decline(world.event, &[decline]).await.expect("an answer").remove(0);
        let accepted = accepting.await.expect("joined");
        match (&accepted, declined) {
            (AcceptOutcome::Accepted { .. }, DeclineOutcome::Accepted) => {
                assert_eq!(world.state(ann.id).await, EntryState::Accepted);
            }
            (AcceptOutcome::Declined, DeclineOutcome::Declined { .. }) => {
                assert_eq!(world.state(ann.id).await, EntryState::Declined);
            }
            other => panic!("both cannot be: {other:?}"),
        }
    }
}

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

/// A click that waits for the lock beyond the deadline is late: the clock is read after the lock, not before.
#[tokio::test(flavor = "multi_thread")]
async fn a_click_that_waits_for_the_lock_across_the_deadline_is_late() {
    let database = crate::harness::database::TestDatabase::new().await;
    let world = World::on(database, two_hours(), 0).await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    let mut holder = world.database.sql().begin().await.expect("a transaction");
    sqlx::query("SELECT id FROM events FOR NO KEY UPDATE").execute(&mut *holder).await.expect("the lock");
    sqlx::query("UPDATE offers SET expires_at = clock_timestamp() + interval '1 second'")
        .execute(&mut *holder)
        .await
        .expect("a near deadline");
    let click = {
        let (waitlist, event) = (world.waitlist.clone(), world.event);
        let accept = Accept { offer: offer.id, person: ann.person, actor: Actor::Person(ann.person) };
        tokio::spawn(async move { waitlist.accept(event, &[accept]).await.expect("an answer").remove(0) })
    };
    // Until the click waits for our lock, and then until its deadline has passed.
    sqlx::query(
        "DO $$ BEGIN
             WHILE NOT EXISTS (SELECT FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock')
             LOOP PERFORM pg_stat_clear_snapshot(); END LOOP;
             PERFORM pg_sleep(1.05);
         END $$",
    )
    .execute(&mut *holder)
    .await
    .expect("waiting");
    holder.commit().await.expect("released");
    assert_eq!(click.await.expect("joined"), AcceptOutcome::Expired);
    assert!(world.bookings(ann.person).await.is_empty());
}

/// A thousand offers whose deadline passes while they are accepted and swept: each ends in exactly one way.
#[tokio::test(flavor = "multi_thread")]
async fn accepting_against_the_sweep_a_thousand_times_ends_in_exactly_one_way_each() {
    let world =
        World::with(Policy { after_expiry: fairlist::domain::policy::After::Leave, ..two_hours() }, 0).await;
    let joins: Vec<Join> = (0..1_000)
        .map(|n| Join {
            name: name(&format!("Person {n}")),
            email: email(&format!("person{n}@example.org")),
            party: 1,
            as_whom: JoinAs::Vouched(world.actor()),
        })
        .collect();
    let entries: Vec<_> = world
        .waitlist
        .join(world.event, &joins)
        .await
        .expect("joined")
        .into_iter()
        .map(|outcome| match outcome {
            JoinOutcome::Joined(entry) => entry,
            other => panic!("{other:?}"),
        })
        .collect();
    world.add_places(1_000).await;
    world.settle().await;
    let mut offers = Vec::new();
    for offer in world
        .waitlist
        .db()
        .with_event(world.event, async |event| event.pending_offers(1_000).await)
        .await
        .expect("offers")
    {
        offers.push(offer);
    }
    assert_eq!(offers.len(), 1_000);
    let deadline = offers[0].expires_at;
    let clock = world.database.clock().clone();
    clock.set(deadline - Duration::microseconds(1));
    let together = Together::new(world.waitlist.clone());
    let mut racers = JoinSet::new();
    for (n, offer) in offers.into_iter().enumerate() {
        let (together, event, clock) = (together.clone(), world.event, clock.clone());
        racers.spawn(async move {
            // Half way through, the deadline passes.
            if n == 500 {
                clock.set(deadline);
            }
            let accept = Accept { offer: offer.id, person: offer.person, actor: Actor::Person(offer.person) };
            let outcome = together.accept(event, accept).await.expect("an answer");
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
    assert_eq!(entries.len(), 1_000);
    println!("accepted {accepted}, expired {}", 1_000 - accepted);
}

#[tokio::test(flavor = "multi_thread")]
async fn the_same_release_sixteen_times_is_applied_once() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let zoe = world.person("Zoe").await;
    let booking = world.bookings(zoe).await[0];
    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
        calls.spawn(async move {
            waitlist.cancel_booking(event, booking, actor, &reason()).await.expect("an answer")
        });
    }
    let outcomes = calls.join_all().await;
    let done = outcomes.iter().filter(|outcome| matches!(outcome, CancelOutcome::Cancelled { .. })).count();
    let told = outcomes
        .iter()
        .filter(
            |outcome| matches!(outcome, CancelOutcome::Already { by: Some(by), .. } if *by == world.staff),
        )
        .count();
    assert_eq!((done, told), (1, 15), "{outcomes:?}");
    assert_eq!(count(&world, "SELECT count(*) FROM releases WHERE source = 'booking'").await, 1);

    let mut calls = JoinSet::new();
    for _ in 0..16 {
        let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
        calls.spawn(async move {
            waitlist
                .add_places(event, &[None, None], "form-1", actor, Reason::SetUp)
                .await
                .expect("an answer")
        });
    }
    let outcomes = calls.join_all().await;
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == AddPlacesOutcome::Added(2)).count(), 1);
    assert_eq!(outcomes.iter().filter(|outcome| **outcome == AddPlacesOutcome::Already).count(), 15);
}

/// The second of two staff who release the same place must not take it from whoever was offered it since.
#[tokio::test]
async fn two_staff_release_the_same_place_and_the_second_is_told_who_did_it() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let ann = world.waiting("Ann", 1).await;
    let seen = Holder::Booking(world.bookings(world.person("Zoe").await).await[0]);
    let (event, actor) = (world.event, world.actor());
    let first = world.waitlist.release_place(event, seen, AfterRevoke::SetAside, actor, &reason()).await;
    assert_eq!(first.expect("released"), ReleaseOutcome::BookingCancelled);
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    let second = world.waitlist.release_place(event, seen, AfterRevoke::SetAside, actor, &reason()).await;
    assert_eq!(second.expect("told"), ReleaseOutcome::Already { by: Some(world.staff), at: world.now() });
    assert_eq!(
        world.offer(ann.id).await.expect("offer").state,
        OfferState::Pending,
        "Ann keeps what she was offered"
    );
    assert_eq!(world.offer(ann.id).await.expect("offer").id, offer.id);
}

#[tokio::test(flavor = "multi_thread")]
async fn staff_book_the_last_place_while_a_pass_offers_it_and_one_wins() {
    for _ in 0..5 {
        let world = World::with(two_hours(), 0).await;
        world.waiting("Ann", 1).await;
        let max = world.person("Max").await;
        world.add_places(1).await;
        let booking = {
            let (waitlist, event, actor) = (world.waitlist.clone(), world.event, world.actor());
            let once = fairlist::clock::Entropy.id();
            let book =
                Book { person: max, party: 1, actor, reason: reason(), override_reservation: true, once };
            tokio::spawn(async move { waitlist.book(event, &book).await.expect("an answer") })
        };
        world.pass().await;
        let booked = booking.await.expect("joined");
        let held = count(&world, "SELECT count(*) FROM places WHERE state = 'held'").await;
        match booked {
            BookOutcome::Booked { .. } => assert_eq!(held, 0),
            BookOutcome::TooFew(0) => assert_eq!(held, 1),
            other => panic!("{other:?}"),
        }
    }
}

/// A thousand join at once: ranks unique and without gaps, nobody turned away by an error.
#[tokio::test(flavor = "multi_thread")]
async fn a_thousand_join_at_once_with_ranks_unique_and_gapless() {
    let world = World::with(two_hours(), 0).await;
    let together = Together::new(world.waitlist.clone());
    let mut joins = JoinSet::new();
    for n in 0..1_000 {
        let (together, event) = (together.clone(), world.event);
        joins.spawn(async move {
            let join = Join {
                name: name("Somebody"),
                email: email(&format!("somebody{n}@example.org")),
                party: 1,
                as_whom: JoinAs::Visitor,
            };
            matches!(together.join(event, join).await.expect("an answer"), JoinOutcome::Joined(_))
        });
    }
    assert!(joins.join_all().await.into_iter().all(|joined| joined));
    let distinct = count(&world, "SELECT count(DISTINCT rank) FROM entries").await;
    let last = count(&world, "SELECT max(arrival) FROM entries").await;
    assert_eq!((distinct, last), (1_000, 1_000));
}
