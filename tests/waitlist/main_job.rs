//! The main job: a place is released, the right person is offered it, and accepts, declines or stays silent.

use chrono::Duration;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::{After, Fit, Policy};
use fairlist::waitlist::answer::{AcceptOutcome, DeclineOutcome};

use crate::harness::world::{World, two_hours};

#[tokio::test]
async fn a_released_place_goes_to_the_first_who_accepts_it() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem"]).await;
    world.settle().await;
    assert_eq!(world.state(waiting[0].id).await, EntryState::Waiting, "sold out: nobody is offered anything");

    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    let offer = world.live_offer(waiting[0].id).await;
    assert_eq!(offer.expires_at, world.now() + Duration::hours(2));
    for other in &waiting[1..] {
        assert_eq!(world.state(other.id).await, EntryState::Waiting);
        assert_eq!(world.told(other.person, "offer").await, 0, "only who is offered something is told so");
    }
    assert_eq!(world.told(waiting[0].person, "offer").await, 1);

    let outcome = world.accept(offer.id, waiting[0].person).await;
    assert!(matches!(outcome, AcceptOutcome::Accepted { party: 1, .. }), "{outcome:?}");
    assert_eq!(world.bookings(waiting[0].person).await.len(), 1);
    assert_eq!(world.state(waiting[0].id).await, EntryState::Accepted);
    world.settle().await;
    assert_eq!(world.state(waiting[1].id).await, EntryState::Waiting, "the place is gone");
}

#[tokio::test]
async fn declining_and_silence_move_the_next_forward() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem"]).await;
    world.add_places(1).await;
    world.settle().await;

    let offer = world.live_offer(waiting[0].id).await;
    let outcome = world.decline(offer.id, waiting[0].person).await;
    assert_eq!(outcome, DeclineOutcome::Declined { entry: EntryState::Declined });
    world.settle().await;

    let offer = world.live_offer(waiting[1].id).await;
    world.later(Duration::hours(2));
    assert_eq!(
        world.accept(offer.id, waiting[1].person).await,
        AcceptOutcome::Expired,
        "the deadline itself is late"
    );
    world.settle().await;
    assert_eq!(world.offer(waiting[1].id).await.expect("offer").state, OfferState::Expired);
    assert_eq!(world.state(waiting[1].id).await, EntryState::Waiting, "to the end of the line");
    assert_eq!(world.told(waiting[1].person, "lapsed").await, 1);
    assert_eq!(world.live_offer(waiting[2].id).await.state, OfferState::Pending);
}

#[tokio::test]
async fn a_passive_list_offers_nothing_by_itself() {
    let world = World::with(Policy::first(), 0).await;
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    assert_eq!(world.pass().await.outcome, PassOutcome::Passive);
    assert_eq!(world.state(ann.id).await, EntryState::Waiting);
}

#[tokio::test]
async fn whoever_keeps_the_rank_waits_behind_everyone_not_yet_offered() {
    let world = World::with(Policy { after_expiry: After::Keep, ..two_hours() }, 0).await;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.add_places(1).await;
    world.settle().await;
    world.later(Duration::hours(3));
    world.settle().await;
    assert_eq!(world.live_offer(waiting[1].id).await.state, OfferState::Pending);
    world.later(Duration::hours(3));
    world.settle().await;
    assert_eq!(
        world.live_offer(waiting[0].id).await.state,
        OfferState::Pending,
        "the second round begins with Ann"
    );
}

#[tokio::test]
async fn a_head_that_wants_more_waits_or_is_passed_over_with_a_record() {
    let world = World::with(two_hours(), 0).await;
    let ann = world.waiting("Ann", 2).await;
    let ben = world.waiting("Ben", 1).await;
    world.add_places(1).await;
    assert_eq!(world.pass().await.outcome, PassOutcome::HeadWaits);

    world.rule(|policy| policy.fit = Fit::Fill).await;
    world.settle().await;
    assert_eq!(world.state(ann.id).await, EntryState::Waiting);
    assert_eq!(world.live_offer(ben.id).await.party, 1);
    let skips: i64 =
        sqlx::query_scalar("SELECT count(*) FROM skips WHERE reason = 'does_not_fit' AND party_above = 1")
            .fetch_one(world.database.sql())
            .await
            .expect("skips");
    assert_eq!(skips, 1);
}

/// Only whoever something changed for is written to. (Wunderbyte-GmbH/moodle-mod_booking#693: on every release, all who
/// waited were told that they wait)
#[tokio::test]
async fn a_release_writes_to_nobody_for_whom_nothing_changed() {
    let world = World::with(two_hours(), 1).await;
    world.booked("Zoe", 1).await;
    let waiting = world.all_waiting(&["Ann", "Ben", "Cem", "Dua"]).await;
    world.settle().await;
    let written = async || -> Vec<(String, String)> {
        sqlx::query_as(
            "SELECT p.name, m.occasion FROM messages m JOIN persons p ON p.id = m.person_id ORDER BY m.made_at, p.name",
        )
        .fetch_all(world.database.sql())
        .await
        .expect("messages")
    };
    let before = written().await;
    world.later(Duration::minutes(1));
    world.cancel_booking_of(world.person("Zoe").await).await;
    world.settle().await;
    let told = |who: &str, what: &str| (who.to_owned(), what.to_owned());
    assert_eq!(written().await[before.len()..], [told("Ann", "offer"), told("Zoe", "booking_cancelled")]);

    world.later(Duration::minutes(1));
    world.decline(world.live_offer(waiting[0].id).await.id, waiting[0].person).await;
    world.settle().await;
    let after = written().await;
    assert_eq!(after[before.len() + 2..], [told("Ann", "declined"), told("Ben", "offer")]);
    // Looks at the line that change nothing write to nobody, however many.
    for _ in 0..5 {
        world.later(Duration::minutes(1));
        world.pass().await;
    }
    assert_eq!(written().await, after);
}
