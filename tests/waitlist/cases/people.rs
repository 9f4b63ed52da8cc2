//! People: served out of turn, and what becomes of an offer and of whoever had it.

use chrono::Duration;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::event::ListState;
use fairlist::domain::offer::{OfferKind, OfferState};
use fairlist::domain::policy::{After, Fit, Ordering, Policy};
use fairlist::domain::reason::StaffReason;
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::bookings::BookOutcome;
use fairlist::waitlist::contacts;
use fairlist::waitlist::lists::ListOutcome;
use fairlist::waitlist::placing::PlacingOutcome;
use fairlist::waitlist::staff_offers::{AfterRevoke, OfferOutcome, ReactivateOutcome, RevokeOutcome};

use super::{book_directly, counts};
use crate::harness::world::{World, reason, two_hours};

// ── order ──────────────────────────────────────────────────────────────────────────────────────────────────

/// letsrevel `process_waitlist_for_event`: whoever let an offer lapse kept the head of the queue for ever.
#[tokio::test]
async fn the_second_window_goes_to_the_second_in_line() {
    for rule in [After::Back, After::Keep, After::Leave] {
        let world = World::with(Policy { after_expiry: rule, ..two_hours() }, 0).await;
        let waiting = world.all_waiting(&["Ann", "Ben"]).await;
        world.add_places(1).await;
        world.settle().await;
        world.later(Duration::hours(2));
        world.settle().await;
        assert_eq!(world.live_offer(waiting[1].id).await.state, OfferState::Pending, "{rule}");
    }
}

/// jemproject/JEM-Project#2287: a later entry that fits jumped over an earlier one that needs two, unsaid.
#[tokio::test]
async fn nobody_jumps_under_strict_and_under_fill_it_is_on_record() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 2).await;
    let ben = world.waiting("Ben", 1).await;
    world.add_places(1).await;
    world.settle().await;
    assert!(world.offer(ben.id).await.is_none());
    world.rule(|policy| policy.fit = Fit::Fill).await;
    world.settle().await;
    assert!(world.offer(ben.id).await.is_some());
    let (db, ann) = (world.waitlist.db(), world.entry(ann.id).await);
    let trail = db.trail_of(&ann).await.expect("her records");
    let since = db.since_joined(&ann, &trail, 10).await.expect("looks");
    assert_eq!(since.skips, 1, "Ann's page says that she was passed over");
}

/// pretix/pretix#974 and #1404, alfio-event/alf.io#425 and #1450: a party got a part of what it needs, each of its places
/// an entry of its own.
#[tokio::test]
async fn a_party_is_offered_all_or_nothing_and_keeps_its_rank_meanwhile() {
    let world = World::with(two_hours(), 0).await;
    let family = world.waiting("Ann", 3).await;
    world.add_places(2).await;
    world.settle().await;
    assert!(world.offer(family.id).await.is_none(), "two of three are not offered");
    assert_eq!(world.entry(family.id).await.key, family.key);
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(family.id).await;
    assert_eq!(offer.party, 3);
    assert!(matches!(world.accept(offer.id, family.person).await, AcceptOutcome::Accepted { party: 3, .. }));
    assert_eq!(world.bookings(family.person).await.len(), 3);
}

/// microsoftarchive/cqrs-journey#55: who declined an offer of two for a party of four had to be kept waiting for all four.
/// No part is ever offered, and saying no to the whole costs neither the party nor, where the rule keeps it, the rank.
#[tokio::test]
async fn whoever_passes_on_for_a_party_of_four_waits_for_four_at_the_same_rank() {
    let world = World::with(Policy { after_decline: After::Keep, ..two_hours() }, 4).await;
    let family = world.waiting("Ann", 4).await;
    world.settle().await;
    let offer = world.live_offer(family.id).await;
    world.decline(offer.id, family.person).await;
    world.settle().await;
    let entry = world.entry(family.id).await;
    assert_eq!((entry.state, entry.party, entry.key.rank), (EntryState::Waiting, 4, family.key.rank));
    world.later(Duration::minutes(1));
    world.add_places(2).await;
    world.settle().await;
    assert_eq!(world.state(family.id).await, EntryState::Waiting, "two are no offer for four");
    world.add_places(2).await;
    world.settle().await;
    assert_eq!(world.live_offer(family.id).await.party, 4);
}

/// Wunderbyte-GmbH/moodle-mod_booking#1648 and #1490: a confirmation by staff changed the time by which the order was
/// made. Notes, letters sent again and addresses that fail and work again are no part of it.
#[tokio::test]
async fn pausing_resuming_notes_letters_and_addresses_leave_the_rank_alone() {
    use fairlist::domain::entry::PausedBy;
    use fairlist::domain::reason::Reason;
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    let (event, actor) = (world.event, world.actor());
    let note = StaffReason { reason: Reason::Other, note: Some("called".to_owned()) };
    world.waitlist.pause(event, waiting[0].id, PausedBy::Staff, None, actor, &note).await.expect("paused");
    world.waitlist.resume(event, waiting[0].id, actor, &note).await.expect("resumed");
    assert_eq!(world.entry(waiting[0].id).await.key, waiting[0].key);
    for (failing, failure) in [(Some(world.now()), Some("550 no such mailbox")), (None, None)] {
        sqlx::query("UPDATE contacts SET failing_since = $1, failure = $2 WHERE person_id = $3")
            .bind(failing)
            .bind(failure)
            .bind(waiting[0].person.0)
            .execute(world.database.sql())
            .await
            .expect("the contact");
        contacts::catch_up(world.database.db()).await.expect("caught up");
        assert_eq!(world.entry(waiting[0].id).await.contact_problem, failing.is_some());
    }
    sqlx::query("UPDATE messages SET state = 'dead', next_attempt_at = NULL")
        .execute(world.database.sql())
        .await
        .expect("messages");
    let again = world.database.db().replay_dead_letters(world.organization, world.staff).await;
    assert!(again.expect("sent again") > 0);
    assert_eq!(world.entry(waiting[0].id).await.key, waiting[0].key);
    world.add_places(1).await;
    world.settle().await;
    assert!(world.offer(waiting[0].id).await.is_some(), "Ann is still the first");
}

/// webkom/lego#4030: the last few of those who had been let in by mistake could not be put back in front.
#[tokio::test]
async fn staff_put_somebody_at_a_number_and_the_others_are_one_further_back() {
    let world = World::with(two_hours(), 0).await;
    let line = world.all_waiting(&["Ann", "Ben", "Cem", "Dan", "Eve"]).await;
    let place = async |entry: usize, number| {
        let (event, entry, actor) = (world.event, line[entry].id, world.actor());
        world.waitlist.place_at(event, entry, number, actor, &reason()).await.expect("an answer")
    };
    let numbers = async || {
        let mut numbers = Vec::new();
        for entry in &line {
            let key = world.entry(entry.id).await.key;
            numbers.push(world.waitlist.db().position(world.event, key).await.expect("a position"));
        }
        numbers
    };
    assert_eq!(place(4, 2).await, PlacingOutcome::Placed);
    assert_eq!(numbers().await, [1, 3, 4, 5, 2], "Eve is second, and those behind are one further back");
    assert_eq!(place(4, 2).await, PlacingOutcome::Already);
    assert_eq!(place(3, 1).await, PlacingOutcome::Placed);
    assert_eq!(place(3, 5).await, PlacingOutcome::Placed, "and to the very end");
    assert_eq!(numbers().await, [1, 3, 4, 5, 2]);
    assert_eq!(place(0, 6).await, PlacingOutcome::TooFar);
    // However often the same number is given, there is room, and nobody else changes places.
    for _ in 0..20 {
        assert_eq!(place(0, 3).await, PlacingOutcome::Placed);
        assert_eq!(place(1, 3).await, PlacingOutcome::Placed);
    }
    assert_eq!(numbers().await, [2, 3, 4, 5, 1]);
    let moves: Vec<(String, i64)> = sqlx::query_as(
        "SELECT actor || ' ' || reason, count(*) FROM audit WHERE act = 'moved' AND subject = 'entry' GROUP BY 1 ORDER BY 1",
    )
    .fetch_all(world.database.sql())
    .await
    .expect("records");
    assert_eq!(moves[0], ("staff customer_asked".to_owned(), 43), "{moves:?}");
    assert_eq!(moves[1].0, "system room_made", "in time others are moved apart: {moves:?}");
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.state(line[4].id).await, EntryState::Offered, "Eve is served first");
    assert_eq!(place(4, 1).await, PlacingOutcome::NotWaiting(EntryState::Offered));
    world.rule(|policy| policy.ordering = Ordering::Lottery).await;
    assert_eq!(place(3, 1).await, PlacingOutcome::Lottery, "an order that was drawn is not touched");
}

/// SandeepVashishtha/Eventra#11892 and #13345: one head that could not be served stopped the run, and places stayed empty.
#[tokio::test]
async fn a_head_that_cannot_be_served_is_passed_over_in_the_same_pass() {
    use fairlist::domain::entry::PausedBy;
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem"]).await;
    world
        .waitlist
        .pause(world.event, waiting[0].id, PausedBy::Staff, None, world.actor(), &reason())
        .await
        .expect("paused");
    // Who is booked past the list has what they waited for: their entry is over with it.
    world.add_places(1).await;
    world.booked("Ben", 1).await;
    world.add_places(1).await;
    assert_eq!(world.pass().await.offered, 1);
    assert!(world.offer(waiting[2].id).await.is_some());
    assert!(world.entry(waiting[0].id).await.hindrance().is_some(), "and it is said why");
    assert_eq!(world.state(waiting[1].id).await, EntryState::Accepted);
}

/// echo-webkom/echo-web-backend#277, Hi.Events: a newcomer booked the freed place before the waiters.
#[tokio::test]
async fn between_release_and_allocation_no_newcomer_books() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let ann = world.waiting("Ann", 1).await;
    let newcomer = world.person("Max").await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    assert_eq!(counts(&world).await.open, 1, "free, and no pass has run yet");
    assert_eq!(book_directly(&world, newcomer, 1).await, BookOutcome::HeldForWaitlist);
    // The same while the list is frozen: it is served before any newcomer.
    world.waitlist.set_list(world.event, ListState::Frozen, world.actor(), &reason()).await.expect("frozen");
    assert_eq!(book_directly(&world, newcomer, 1).await, BookOutcome::HeldForWaitlist);
    world.settle().await;
    assert!(world.offer(ann.id).await.is_some());
    assert_eq!(book_directly(&world, newcomer, 1).await, BookOutcome::TooFew(0));
}

/// letsrevel notifications.signals.waitlist: a broadcast to every waiter went out beside the batch.
#[tokio::test]
async fn a_batch_of_two_among_ten_writes_two_messages() {
    let world = World::with(Policy { batch_size: 2, ..two_hours() }, 0).await;
    world.all_waiting(&["Ann", "Ben", "Cem", "Dan", "Eve", "Fay", "Gil", "Hal", "Ida", "Jon"]).await;
    let of_any_kind = async || -> i64 {
        let count = sqlx::query_scalar("SELECT count(*) FROM messages");
        count.fetch_one(world.database.sql()).await.expect("messages")
    };
    let before = of_any_kind().await;
    world.add_places(5).await;
    world.settle().await;
    assert_eq!(of_any_kind().await - before, 2);
    assert_eq!(world.pass().await.outcome, PassOutcome::BatchFull, "more triggers do not make more offers");
}

// ── life of an offer ───────────────────────────────────────────────────────────────────────────────────────

/// pretix/pretix#1163 and #1405: after the buyer cancelled, the voucher became valid again and kept the place from the next.
#[tokio::test]
async fn a_cancelled_booking_goes_to_the_next_and_the_old_offer_stays_closed() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(waiting[0].id).await;
    world.accept(offer.id, waiting[0].person).await;
    world.cancel_booking_of(waiting[0].person).await;
    world.settle().await;
    assert_eq!(world.offer(waiting[0].id).await.expect("offer").state, OfferState::Accepted);
    assert!(world.offer(waiting[1].id).await.is_some());
    let releases: i64 = sqlx::query_scalar("SELECT count(*) FROM releases WHERE source = 'booking'")
        .fetch_one(world.database.sql())
        .await
        .expect("releases");
    assert_eq!(releases, 1);
}

/// pretix/pretix#1031: offers went out a quarter of an hour after the start.
#[tokio::test]
async fn nothing_is_offered_after_the_start_and_no_deadline_lies_beyond_it() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    let start = world.waitlist.db().event(world.event).await.expect("event").starts_at.expect("start");
    world.later(start - world.now() - Duration::minutes(30));
    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    assert_eq!(world.live_offer(waiting[0].id).await.expires_at, start, "clamped to the start");
    world.later(Duration::minutes(31));
    world.settle().await;
    assert_eq!(world.pass().await.outcome, PassOutcome::AfterStart);
    assert!(world.offer(waiting[1].id).await.is_none());
}

/// pretix/pretix#681, Wunderbyte-GmbH/moodle-mod_booking#937: a place that came back when the event had begun was offered.
#[tokio::test]
async fn a_place_that_comes_back_a_second_after_the_start_is_offered_to_nobody() {
    for final_call in [false, true] {
        let world = World::with(two_hours(), 1).await;
        world.booked("Zoe", 1).await;
        let ann = world.waiting("Ann", 1).await;
        let start = world.waitlist.db().event(world.event).await.expect("event").starts_at.expect("start");
        if final_call {
            world.rule(|policy| policy.cutoff = Some(start - Duration::days(1))).await;
        }
        world.later(start - world.now() + Duration::seconds(1));
        world.cancel_booking_of(world.person("Zoe").await).await;
        assert_eq!(counts(&world).await.open, 1);
        world.settle().await;
        assert_eq!(world.pass().await.outcome, PassOutcome::AfterStart, "which the event's page shows");
        assert!(world.offer(ann.id).await.is_none());
        assert_eq!(world.told(ann.person, "offer").await + world.told(ann.person, "call").await, 0);
    }
}

/// letsrevel: the final call to everybody was made once; who joined later, and a place freed later, led to nothing.
#[tokio::test]
async fn after_the_final_call_late_joiners_and_late_places_are_called_for_until_the_start() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    let start = world.waitlist.db().event(world.event).await.expect("event").starts_at.expect("start");
    world.rule(|policy| policy.cutoff = Some(start - Duration::days(1))).await;
    world.later(start - world.now() - Duration::days(1));
    world.settle().await;
    assert!(world.offer(waiting[0].id).await.is_none(), "no place is open: nobody is called for nothing");
    let calls = async |entry: &Entry| world.told(entry.person, "call").await;

    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    assert_eq!((calls(&waiting[0]).await, calls(&waiting[1]).await), (1, 1));
    let late = world.waiting("Cem", 1).await;
    world.settle().await;
    let call = world.live_offer(late.id).await;
    assert_eq!(
        (call.kind, call.expires_at, calls(&late).await),
        (OfferKind::Call, start, 1),
        "called at once"
    );
    assert!(matches!(world.accept(call.id, call.person).await, AcceptOutcome::Accepted { .. }));
    // Nothing is open: somebody joins, and is not called for what is gone.
    let later = world.waiting("Dan", 1).await;
    world.settle().await;
    assert!(world.offer(later.id).await.is_none());

    // The place comes back: everybody who waits hears of it, those who were called before and who was not.
    world.later(Duration::hours(1));
    world.cancel_booking_of(late.person).await;
    world.settle().await;
    assert_eq!((calls(&waiting[0]).await, calls(&waiting[1]).await, calls(&later).await), (2, 2, 1));
    let call = world.live_offer(waiting[1].id).await;
    assert!(matches!(world.accept(call.id, call.person).await, AcceptOutcome::Accepted { .. }));
    // And then it begins: calls end, and nothing is made any more.
    world.later(start - world.now());
    world.settle().await;
    assert_eq!(world.offer(waiting[0].id).await.expect("a call").state, OfferState::Expired);
}

/// letsrevel: closing the list skipped people for good; after reopening they were never offered again.
#[tokio::test]
async fn who_lost_an_offer_by_closing_is_next_again_after_reopening() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    world.settle().await;
    let outcome = world
        .waitlist
        .set_list(world.event, ListState::Closed, world.actor(), &reason())
        .await
        .expect("closed");
    assert_eq!(outcome, ListOutcome::Done { revoked: 1 });
    assert_eq!(world.entry(waiting[0].id).await.key, waiting[0].key);
    assert_eq!(world.told(waiting[0].person, "list_closed").await, 1);
    assert_eq!(world.pass().await.outcome, PassOutcome::Closed);
    world.waitlist.set_list(world.event, ListState::Open, world.actor(), &reason()).await.expect("open");
    world.settle().await;
    assert_eq!(world.live_offer(waiting[0].id).await.state, OfferState::Pending, "Ann, at her old rank");
}

/// letsrevel: the sweep ran hourly, so a lapsed place stood idle for up to an hour. Due means requested at once.
#[tokio::test]
async fn a_lapsed_offer_is_due_at_its_deadline() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    world.settle().await;
    let deadline = world.live_offer(waiting[0].id).await.expires_at;
    assert_eq!(world.waitlist.db().next_due().await.expect("due"), Some(deadline));
    world.later(deadline - world.now() - Duration::microseconds(1));
    assert_eq!(world.waitlist.db().request_due_passes(false).await.expect("due"), 0);
    world.later(Duration::microseconds(1));
    assert_eq!(world.waitlist.db().request_due_passes(false).await.expect("due"), 1);
}

/// cncf/open-community-groups: a promoted person held a place with no deadline. pretix: no notice of a lapse.
#[tokio::test]
async fn whoever_never_answers_lapses_at_the_windows_end_and_is_told() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    world.later(Duration::hours(2));
    world.settle().await;
    assert_eq!(
        world.offer(ann.id).await.expect("offer").state,
        OfferState::Pending,
        "alone in line: offered again"
    );
    assert_eq!(world.told(ann.person, "lapsed").await, 1);
    // After two unanswered offers the entry is paused, and the person told how to go on.
    world.later(Duration::hours(2));
    world.settle().await;
    assert_eq!(world.told(ann.person, "paused_by_silence").await, 1);
    assert!(world.entry(ann.id).await.paused.is_some());
    assert_eq!(counts(&world).await.open, 1);
}

/// pretix: deleting an unused voucher deleted the waiting entry with it.
#[tokio::test]
async fn who_loses_an_offer_to_staff_stays_on_the_list() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(waiting[0].id).await.id;
    let (event, actor) = (world.event, world.actor());
    let outcome =
        world.waitlist.revoke(event, offer, AfterRevoke::SetAside, actor, &reason()).await.expect("revoked");
    assert_eq!(outcome, RevokeOutcome::Revoked);
    world.settle().await;
    assert_eq!(world.state(waiting[0].id).await, EntryState::Waiting);
    assert!(world.offer(waiting[1].id).await.is_some(), "and the next is offered the place");
    let again =
        world.waitlist.revoke(event, offer, AfterRevoke::SetAside, actor, &reason()).await.expect("told");
    assert!(matches!(again, RevokeOutcome::AlreadyRevoked { by: Some(by), .. } if by == world.staff));

    let deadline = world.now() + Duration::hours(1);
    let outcome =
        world.waitlist.reactivate(event, offer, deadline, actor, &reason()).await.expect("an answer");
    assert_eq!(outcome, ReactivateOutcome::TooFew(0), "no place is open for it");
    world.add_places(1).await;
    let outcome =
        world.waitlist.reactivate(event, offer, deadline, actor, &reason()).await.expect("an answer");
    assert_eq!(outcome, ReactivateOutcome::Reactivated { expires_at: deadline });
    assert_eq!(world.told(waiting[0].person, "offer").await, 2, "told again");
    assert!(matches!(world.accept(offer, waiting[0].person).await, AcceptOutcome::Accepted { .. }));
}

/// An offer given again counts among those pending at once, like every other.
#[tokio::test]
async fn giving_an_offer_again_keeps_to_the_batch() {
    let world = World::with(Policy { batch_size: 1, ..two_hours() }, 1).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.settle().await;
    let offer = world.live_offer(waiting[0].id).await.id;
    let (event, actor) = (world.event, world.actor());
    world.waitlist.revoke(event, offer, AfterRevoke::SetAside, actor, &reason()).await.expect("revoked");
    world.add_places(1).await;
    world.settle().await;
    assert!(world.offer(waiting[1].id).await.is_some(), "the next has the one offer");
    let deadline = world.now() + Duration::hours(1);
    let outcome =
        world.waitlist.reactivate(event, offer, deadline, actor, &reason()).await.expect("an answer");
    assert_eq!(outcome, ReactivateOutcome::BatchFull);
}

/// sapmentors/SITreg#47: promoted without being asked.
#[tokio::test]
async fn nobody_is_booked_before_they_accept() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    assert!(world.bookings(ann.person).await.is_empty());
    assert_eq!(world.state(ann.id).await, EntryState::Offered);
}

/// freeCodeCamp/chapter#900: an event to which people are invited moved them up by itself when somebody cancelled.
#[tokio::test]
async fn where_staff_pick_a_cancellation_moves_nobody() {
    let world = World::with(Policy { ordering: Ordering::Manual, ..two_hours() }, 1).await;
    world.booked("Zoe", 1).await;
    let ann = world.waiting("Ann", 1).await;
    let newcomer = world.person("Max").await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    world.later(Duration::hours(3));
    world.settle().await;
    assert!(world.offer(ann.id).await.is_none());
    assert_eq!(world.told(ann.person, "offer").await, 0);
    assert_eq!(
        book_directly(&world, newcomer, 1).await,
        BookOutcome::HeldForWaitlist,
        "nor does a stranger get it"
    );
    let by_hand = world.waitlist.offer_to(world.event, ann.id, None, world.actor(), &reason()).await;
    assert!(matches!(by_hand, Ok(OfferOutcome::Offered { .. })), "{by_hand:?}");
}
