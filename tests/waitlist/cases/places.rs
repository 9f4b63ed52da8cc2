//! Places: given to two, freed without anybody hearing of it, counted wrong.

use chrono::Duration;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::event::ListState;
use fairlist::domain::policy::Policy;
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::bookings::BookOutcome;
use fairlist::waitlist::events::EventOutcome;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::leave::LeaveOutcome;
use fairlist::waitlist::places::RetireOutcome;
use fairlist::waitlist::staff_offers::{AfterRevoke, OfferOutcome};

use super::{book_directly, counts};
use crate::harness::world::{World, email, name, reason, two_hours};

// ── double offers, overbooking ─────────────────────────────────────────────────────────────────────────────

/// pretix 2026.8.0 `send_voucher`: parallel offers by staff on one free place gave up to four vouchers.
#[tokio::test(flavor = "multi_thread")]
async fn one_free_place_and_many_offers_by_staff_at_once_give_one_offer() {
    let world = World::with(Policy::first(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem", "Dan"]).await;
    world.add_places(1).await;
    let mut calls = tokio::task::JoinSet::new();
    for entry in &waiting {
        let (waitlist, event, actor, entry) = (world.waitlist.clone(), world.event, world.actor(), entry.id);
        let deadline = Some(world.now() + Duration::hours(2));
        calls.spawn(async move {
            waitlist.offer_to(event, entry, deadline, actor, &reason()).await.expect("an answer")
        });
    }
    let outcomes = calls.join_all().await;
    let made = outcomes.iter().filter(|outcome| matches!(outcome, OfferOutcome::Offered { .. })).count();
    let refused = outcomes.iter().filter(|outcome| **outcome == OfferOutcome::TooFew(0)).count();
    assert_eq!((made, refused), (1, 3), "{outcomes:?}");
    let mails: i64 = sqlx::query_scalar("SELECT count(*) FROM messages WHERE occasion = 'offer'")
        .fetch_one(world.database.sql())
        .await
        .expect("messages");
    assert_eq!(mails, 1);
}

/// Hi.Events `CancelWaitlistEntryService`: leaving overwrote a purchase that was finished meanwhile.
#[tokio::test]
async fn leaving_after_accepting_is_refused_and_the_booking_stands() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    world.accept(world.live_offer(ann.id).await.id, ann.person).await;
    let outcome =
        world.waitlist.leave(world.event, ann.id, Actor::Person(ann.person)).await.expect("an answer");
    assert_eq!(outcome, LeaveOutcome::Already(EntryState::Accepted));
    assert_eq!(world.bookings(ann.person).await.len(), 1);
}

/// SandeepVashishtha/Eventra#5698: promotion by hand and by itself, both at once, exceeded the capacity.
#[tokio::test(flavor = "multi_thread")]
async fn an_offer_by_hand_and_a_pass_at_once_make_one_offer() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    let by_hand = {
        let (waitlist, event, actor, entry) =
            (world.waitlist.clone(), world.event, world.actor(), waiting[1].id);
        tokio::spawn(async move {
            waitlist.offer_to(event, entry, None, actor, &reason()).await.expect("an answer")
        })
    };
    world.settle().await;
    by_hand.await.expect("joined");
    world.settle().await;
    assert_eq!(counts(&world).await.held, 1);
    let live: i64 = sqlx::query_scalar("SELECT count(*) FROM offers WHERE state = 'pending'")
        .fetch_one(world.database.sql())
        .await
        .expect("offers");
    assert_eq!(live, 1);
}

/// `derhansen/sf_event_mgt#1198`: places went negative through bookings by staff, then all waiters were moved up.
#[tokio::test]
async fn below_what_is_booked_nothing_is_free_and_nobody_is_offered() {
    let world = World::with(two_hours(), 7).await;
    for who in ["Ann", "Ben", "Cem", "Dan", "Eve", "Fay", "Gil"] {
        world.booked(who, 1).await;
    }
    world.waiting("Hal", 1).await;
    let outcome =
        world.waitlist.retire_count(world.event, 2, world.actor(), &reason()).await.expect("an answer");
    assert_eq!(outcome, RetireOutcome::Retired { now: 0, when_free: 2 });
    let counts_now = counts(&world).await;
    assert_eq!((counts_now.capacity(), counts_now.open, counts_now.retire_when_free), (5, 0, 2));
    assert_eq!(world.pass().await.outcome, PassOutcome::NoPlaces);

    // The first two that become free leave the event; only the third is offered.
    for who in ["Gil", "Fay"] {
        world.cancel_booking_of(world.person(who).await).await;
        world.settle().await;
    }
    assert_eq!(counts(&world).await.held, 0);
    world.cancel_booking_of(world.person("Eve").await).await;
    world.settle().await;
    assert_eq!(counts(&world).await.held, 1);
}

/// jemproject/JEM-Project#1926: one cancellation moved all waiters up.
#[tokio::test]
async fn one_released_place_makes_one_offer_among_ten() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    world.all_waiting(&["Ann", "Ben", "Cem", "Dan", "Eve", "Fay", "Gil", "Hal", "Ida", "Jon"]).await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    let offers: i64 = sqlx::query_scalar("SELECT count(*) FROM offers")
        .fetch_one(world.database.sql())
        .await
        .expect("offers");
    assert_eq!(offers, 1);
}

// ── triggers ───────────────────────────────────────────────────────────────────────────────────────────────

/// ifinavet/yggdrasil#190, Wunderbyte-GmbH/moodle-mod_booking#1073, SandeepVashishtha/Eventra#13392: raising the capacity moved people up without a mail, or not at all.
#[tokio::test]
async fn two_more_places_and_three_waiting_make_two_offers_and_two_mails() {
    let world = World::with(two_hours(), 5).await;
    for who in ["Vic", "Wes", "Xia", "Yan", "Zoe"] {
        world.booked(who, 1).await;
    }
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem"]).await;
    world.add_places(2).await;
    world.settle().await;
    let mut mails = Vec::new();
    for entry in &waiting {
        mails.push(world.told(entry.person, "offer").await);
    }
    assert_eq!(mails, [1, 1, 0]);
}

/// codebar/planner#184, Wunderbyte-GmbH/moodle-mod_booking#46: some ways of giving a place back did not lead to an
/// offer. Every way does.
#[tokio::test]
async fn every_way_a_place_comes_back_leads_to_an_offer() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem", "Dan", "Eve", "Fay"]).await;
    let (event, actor) = (world.event, world.actor());
    world.add_places(1).await;
    world.settle().await;

    world.decline(world.live_offer(waiting[0].id).await.id, waiting[0].person).await;
    world.settle().await;
    let second = world.live_offer(waiting[1].id).await;
    world.waitlist.revoke(event, second.id, AfterRevoke::ToTheEnd, actor, &reason()).await.expect("revoked");
    world.settle().await;
    assert!(world.offer(waiting[2].id).await.is_some(), "after revoking");
    world.waitlist.leave(event, waiting[2].id, Actor::Person(waiting[2].person)).await.expect("left");
    world.settle().await;
    assert!(world.offer(waiting[3].id).await.is_some(), "after leaving with an offer");
    world.waitlist.remove(event, waiting[3].id, actor, &reason()).await.expect("removed");
    world.settle().await;
    assert!(world.offer(waiting[4].id).await.is_some(), "after staff took somebody off");
    world.later(Duration::hours(2));
    world.settle().await;
    assert!(world.offer(waiting[5].id).await.is_some(), "after a deadline");
    world.accept(world.live_offer(waiting[5].id).await.id, waiting[5].person).await;
    world.cancel_booking_of(waiting[5].person).await;
    world.settle().await;
    assert!(world.live_offer(waiting[1].id).await.made_at == world.now(), "after a booking was cancelled");

    let cancelled = world.waitlist.cancel_event(event, actor, &reason()).await.expect("cancelled");
    assert!(matches!(cancelled, EventOutcome::Done { revoked: 1, .. }), "{cancelled:?}");
    assert_eq!(world.accept(second.id, waiting[1].person).await, AcceptOutcome::Revoked);
    assert_eq!(world.state(waiting[1].id).await, EntryState::Closed);
    world.waitlist.restore_event(event, actor, &reason()).await.expect("restored");
    world.settle().await;
    assert_eq!(world.state(waiting[1].id).await, EntryState::Offered, "after un-cancelling");
}

/// pretix/pretix#1899: the list did not run and nobody could see why. Every pass says how it ended.
#[tokio::test]
async fn a_list_that_does_not_run_says_why() {
    let world = World::with(Policy::first(), 1).await;
    world.waiting("Ann", 1).await;
    world.settle().await;
    let last = world.waitlist.db().last_pass(world.event).await.expect("passes").expect("a pass");
    assert_eq!(last.outcome, PassOutcome::Passive);
    world.waitlist.set_list(world.event, ListState::Closed, world.actor(), &reason()).await.expect("closed");
    world.settle().await;
    let last = world.waitlist.db().last_pass(world.event).await.expect("passes").expect("a pass");
    assert_eq!(last.outcome, PassOutcome::Closed);
}

// ── counting ───────────────────────────────────────────────────────────────────────────────────────────────

/// Wunderbyte-GmbH/moodle-mod_booking#809: with one place free and nobody waiting, the next was put on the list.
#[tokio::test]
async fn with_a_free_place_and_nobody_waiting_one_books_and_does_not_join() {
    let world = World::with(two_hours(), 12).await;
    world.booked("Zoe", 11).await;
    let join = Join {
        wants: Wants::default(),
        name: name("Ann"),
        email: email("ann@example.org"),
        party: 1,
        as_whom: JoinAs::Visitor,
    };
    let outcome = world.waitlist.join(world.event, &[join]).await.expect("an answer").remove(0);
    assert_eq!(outcome, JoinOutcome::PlacesFree);
    let ann = world.person("Ann").await;
    assert!(matches!(book_directly(&world, ann, 1).await, BookOutcome::Booked { .. }));
}

/// SparkDevNetwork/Rock#2643: capacity 0 registered people.
#[tokio::test]
async fn with_no_places_at_all_everybody_waits() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.person("Ann").await;
    assert_eq!(book_directly(&world, ann, 1).await, BookOutcome::TooFew(0));
    let entry = world.waiting("Ben", 1).await;
    assert_eq!(world.pass().await.outcome, PassOutcome::NoPlaces);
    assert_eq!(world.state(entry.id).await, EntryState::Waiting);
}

/// pretix/pretix#972, ifinavet/yggdrasil#263: the figures did not add up, and went below zero.
#[tokio::test]
async fn capacity_is_booked_and_held_and_open_at_every_step() {
    let world = World::with(two_hours(), 3).await;
    let mut steps = vec![counts(&world).await];
    world.booked("Zoe", 1).await;
    steps.push(counts(&world).await);
    let ann = world.waiting("Ann", 2).await;
    world.settle().await;
    steps.push(counts(&world).await);
    world.accept(world.live_offer(ann.id).await.id, ann.person).await;
    steps.push(counts(&world).await);
    for step in steps {
        assert_eq!(step.capacity(), 3);
        assert!(step.open >= 0 && step.held >= 0 && step.booked >= 0, "{step:?}");
    }
}

/// civicrm/civicrm-core#23164, pretix/pretix#837: whoever waits could not leave by themselves. Leaving works in every
/// live state, and joining again is at the end.
#[tokio::test]
async fn leaving_works_while_unconfirmed_waiting_and_offered() {
    let world = World::with(two_hours(), 0).await;
    let join = Join {
        wants: Wants::default(),
        name: name("Ann"),
        email: email("ann@example.org"),
        party: 1,
        as_whom: JoinAs::Visitor,
    };
    let JoinOutcome::Joined(unconfirmed) =
        world.waitlist.join(world.event, std::slice::from_ref(&join)).await.expect("joined").remove(0)
    else {
        panic!("Ann joins");
    };
    let waiting = world.waiting("Ben", 1).await;
    let offered = {
        let cem = world.waiting("Cem", 1).await;
        let deadline = Some(world.now() + Duration::hours(1));
        world.add_places(1).await;
        world
            .waitlist
            .offer_to(world.event, cem.id, deadline, world.actor(), &reason())
            .await
            .expect("offered");
        cem
    };
    for (entry, had_offer) in [(&unconfirmed, false), (&waiting, false), (&offered, true)] {
        let outcome = world
            .waitlist
            .leave(world.event, entry.id, Actor::Person(entry.person))
            .await
            .expect("an answer");
        assert_eq!(outcome, LeaveOutcome::Left { offer_declined: had_offer });
        assert_eq!(world.state(entry.id).await, EntryState::Withdrawn);
    }
    // The place is open and nobody waits: Ann may book now, but not join. Full again, she joins at the end.
    world.booked("Zoe", 1).await;
    let JoinOutcome::Joined(again) =
        world.waitlist.join(world.event, &[join]).await.expect("joined").remove(0)
    else {
        panic!("Ann joins again");
    };
    assert!(again.key > waiting.key && again.arrival > waiting.arrival);
}
