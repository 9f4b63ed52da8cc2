//! How many places one person may have, and what becomes of who asks for more or for less.

use chrono::Duration;
use fairlist::db::Db;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::ids::PersonId;
use fairlist::domain::policy::{Enough, Fit, Policy};
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::attributes::WantsOutcome;
use fairlist::waitlist::bookings::{Book, BookOutcome, booked_directly};
use fairlist::waitlist::join::{CodeOutcome, ConfirmOutcome, Join, JoinAs, JoinOutcome};
use fairlist::waitlist::staff_offers::{AfterRevoke, ReactivateOutcome};

use crate::harness::database::secret;
use crate::harness::world::{World, email, name, reason, two_hours};

const TWO_OF_THREE: Enough = Enough { has: 2, most: 3 };

fn three_each() -> Policy {
    Policy { person_limit: Some(3), ..two_hours() }
}

async fn joins(world: &World, who: &str, party: i32, as_whom: JoinAs) -> JoinOutcome {
    let join = Join {
        name: name(who),
        email: email(&format!("{}@example.org", who.to_lowercase())),
        party,
        wants: Wants::default(),
        as_whom,
    };
    world.waitlist.join(world.event, &[join]).await.expect("an answer").remove(0)
}

async fn books(world: &World, person: PersonId, party: i32) -> BookOutcome {
    let book = Book {
        person,
        party,
        wants: Wants::default(),
        actor: Actor::Person(person),
        reason: booked_directly(),
        override_reservation: false,
        once: fairlist::clock::Entropy.id(),
    };
    world.waitlist.book(world.event, &book).await.expect("an answer")
}

async fn asks(world: &World, entry: &Entry, party: i32) -> WantsOutcome {
    world.later(Duration::minutes(1));
    let actor = Actor::Person(entry.person);
    let wants = Wants::default();
    world
        .waitlist
        .change_wants(world.event, entry.id, party, &wants, actor, &reason())
        .await
        .expect("an answer")
}

async fn number(db: &Db, entry: &Entry) -> Option<i64> {
    db.my_entry(entry.id).await.expect("an entry").position
}

#[tokio::test]
async fn whoever_has_places_is_given_as_many_more_as_one_person_may_have() {
    let world = World::with(three_each(), 2).await;
    let ann = world.person("Ann").await;
    assert!(matches!(books(&world, ann, 2).await, BookOutcome::Booked { .. }));

    // Who they are is known, so they are told at once.
    let signed_in = JoinAs::SignedIn(ann);
    assert_eq!(joins(&world, "Ann", 2, signed_in).await, JoinOutcome::Enough(TWO_OF_THREE));
    let vouched = JoinAs::Vouched(world.actor());
    assert_eq!(joins(&world, "Ann", 2, vouched).await, JoinOutcome::Enough(TWO_OF_THREE));
    assert_eq!(books(&world, ann, 2).await, BookOutcome::Enough(TWO_OF_THREE));
    // The limit is that of one entry, too.
    assert_eq!(joins(&world, "Ben", 4, vouched).await, JoinOutcome::PartyTooLarge(3));

    let JoinOutcome::Joined(more) = joins(&world, "Ann", 1, signed_in).await else {
        panic!("one more is allowed")
    };
    assert_eq!(asks(&world, &more, 2).await, WantsOutcome::Enough(TWO_OF_THREE));
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(more.id).await;
    assert!(matches!(world.accept(offer.id, ann).await, AcceptOutcome::Accepted { party: 1, .. }));
    assert_eq!(joins(&world, "Ann", 1, signed_in).await, JoinOutcome::Enough(Enough { has: 3, most: 3 }));
    world.cancel_booking_of(ann).await;
    assert_eq!(
        books(&world, ann, 1).await,
        BookOutcome::Booked { reference: latest(&world, ann).await, party: 1 }
    );
}

async fn latest(world: &World, person: PersonId) -> String {
    world.facts(person, "accepted").await["reference"].as_str().expect("a reference").to_owned()
}

#[tokio::test]
async fn a_visitor_hears_of_the_limit_only_after_the_code() {
    let world = World::with(three_each(), 2).await;
    let ann = world.person("Ann").await;
    assert!(matches!(books(&world, ann, 2).await, BookOutcome::Booked { .. }));

    // Whoever knows the address learns nothing of what Ann has.
    let JoinOutcome::Joined(entry) = joins(&world, "Ann", 2, JoinAs::Visitor).await else {
        panic!("a visitor is answered like everybody")
    };
    let code = world.waitlist.send_code(ann, Some(world.event)).await.expect("a code");
    let outcome = world.waitlist.enter_code(code, &secret().code_digits(code)).await.expect("an answer");
    let enough = ConfirmOutcome::Enough(entry.id, TWO_OF_THREE);
    assert_eq!(outcome, CodeOutcome::Right { person: ann, entry: enough });
    assert_eq!(world.state(entry.id).await, EntryState::Unconfirmed);

    world.cancel_booking_of(ann).await;
    let confirmed = world.waitlist.confirm(world.event, ann).await.expect("an answer");
    assert_eq!(confirmed, ConfirmOutcome::Confirmed(entry.id));
    assert_eq!(world.state(entry.id).await, EntryState::Waiting);
}

#[tokio::test]
async fn an_offer_is_not_given_again_to_who_booked_enough_since() {
    let world = World::with(three_each(), 2).await;
    let waiting = world.waiting("Ann", 2).await;
    world.settle().await;
    let offer = world.live_offer(waiting.id).await;
    let off = AfterRevoke::OffTheList;
    world.waitlist.revoke(world.event, offer.id, off, world.actor(), &reason()).await.expect("revoked");
    assert!(matches!(books(&world, waiting.person, 2).await, BookOutcome::Booked { .. }));
    world.add_places(2).await;
    let deadline = world.now() + Duration::hours(1);
    let again = world.waitlist.reactivate(world.event, offer.id, deadline, world.actor(), &reason()).await;
    assert_eq!(again.expect("an answer"), ReactivateOutcome::Enough(TWO_OF_THREE));
}

/// Who waits when the limit is lowered keeps what they asked for: a rule touches what comes after it.
#[tokio::test]
async fn who_waits_already_stays_when_the_limit_is_lowered() {
    let world = World::with(two_hours(), 0).await;
    let waiting = world.waiting("Ann", 4).await;
    world.rule(|policy| policy.person_limit = Some(2)).await;
    assert_eq!(asks(&world, &waiting, 5).await, WantsOutcome::BadParty(4));
    assert_eq!(asks(&world, &waiting, 3).await, WantsOutcome::Changed { to_end: false });
    world.add_places(3).await;
    world.settle().await;
    assert_eq!(world.live_offer(waiting.id).await.party, 3);
}

#[tokio::test]
async fn asking_for_less_keeps_the_place_in_line_and_asking_for_more_is_a_new_request() {
    let world = World::with(Policy { fit: Fit::Fill, ..two_hours() }, 0).await;
    let db = world.waitlist.db();
    let (ann, ben) = (world.waiting("Ann", 4).await, world.waiting("Ben", 1).await);
    world.add_places(2).await;
    world.settle().await;
    assert_eq!(world.live_offer(ben.id).await.party, 1, "Ann was passed over: she asked for four");

    assert_eq!(asks(&world, &ben, 2).await, WantsOutcome::Offered);
    assert_eq!(asks(&world, &ann, 4).await, WantsOutcome::Already);
    assert_eq!(asks(&world, &ann, 0).await, WantsOutcome::BadParty(100));
    let cy = world.waiting("Cy", 2).await;
    assert_eq!(asks(&world, &ann, 3).await, WantsOutcome::Changed { to_end: false });
    assert_eq!((number(db, &ann).await, number(db, &cy).await), (Some(1), Some(2)));
    assert_eq!(asks(&world, &ann, 4).await, WantsOutcome::Changed { to_end: true });
    assert_eq!((number(db, &ann).await, number(db, &cy).await), (Some(2), Some(1)));
    assert_eq!(asks(&world, &cy, 1).await, WantsOutcome::Changed { to_end: false });
    world.settle().await;
    assert_eq!(world.live_offer(cy.id).await.party, 1, "asked at once for what would do now");

    // What was said of Ann when Ben was asked is still so, whatever she asks for now.
    let ann = world.entry(ann.id).await;
    let trail = db.trail_of(&ann).await.expect("a trail");
    assert_eq!(trail.iter().map(|stand| stand.party).collect::<Vec<_>>(), [4, 3, 4]);
    assert_eq!(asks(&world, &ann, 1).await, WantsOutcome::Changed { to_end: false });
    let ann = world.entry(ann.id).await;
    let trail = db.trail_of(&ann).await.expect("a trail");
    let since = db.since_joined(&ann, &trail, 10).await.expect("looks");
    assert_eq!(since.skips, 1, "she asked for four when Ben was offered a place: {since:?}");
}
