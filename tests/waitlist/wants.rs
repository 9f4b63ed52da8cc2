//! What people want of a place: they are offered, and called for, only what would do, and nobody else's place is kept
//! from others meanwhile.

use fairlist::db::check::CheckSettings;
use fairlist::domain::allocation::{PassOutcome, SkipReason};
use fairlist::domain::attribute::{Attribute, Measure, Said, Typed, Wants};
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::ids::PersonId;
use fairlist::domain::offer::OfferKind;
use fairlist::domain::policy::{Fit, Mode, Policy};
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::attributes::{AttributesOutcome, DescribeOutcome, WantsOutcome};
use fairlist::waitlist::bookings::{Book, BookOutcome, booked_directly};
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::places::AddPlacesOutcome;

use crate::harness::world::{World, email, name, reason, two_hours};

fn attributes() -> Vec<Attribute> {
    let area = Attribute::new("Area", Measure::Choice, "Stalls\nBalcony\nBox", &[]).expect("a choice");
    let price = Attribute::new("Price", Measure::Number, "", &[]).expect("a number");
    vec![area, price]
}

fn typed(fields: &[(&str, &str)]) -> Typed {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn said(area: &str, price: &str) -> Said {
    Said::parse(&attributes(), &typed(&[("said.area", area), ("said.price", price)])).expect("values")
}

fn wants(fields: &[(&str, &str)]) -> Wants {
    Wants::parse(&attributes(), &typed(fields)).expect("wants")
}

fn area(area: &str) -> Wants {
    wants(&[(&format!("want.area.{area}"), "on")])
}

/// An event that says of its places where they are and what they cost; it has none yet.
async fn world(policy: Policy) -> World {
    let world = World::with(policy, 0).await;
    let version = world.database.db().event(world.event).await.expect("the event").form_version;
    let outcome = world.waitlist.set_attributes(world.event, &attributes(), version, world.actor()).await;
    assert_eq!(outcome.expect("an answer"), AttributesOutcome::Changed);
    world
}

async fn joins(world: &World, who: &str, party: i32, wants: Wants) -> Entry {
    let join = Join {
        wants,
        name: name(who),
        email: email(&format!("{}@example.org", who.to_lowercase())),
        party,
        as_whom: JoinAs::Vouched(world.actor()),
    };
    match world.waitlist.join(world.event, &[join]).await.expect("joining").pop() {
        Some(JoinOutcome::Joined(entry)) => entry,
        other => panic!("{who} joins, but: {other:?}"),
    }
}

/// Places come, and the line is looked at.
async fn come(world: &World, count: usize, area: &str, price: &str) {
    let once = fairlist::clock::Entropy.id().to_string();
    let reason = fairlist::domain::reason::Reason::CapacityChanged;
    let labels = vec![None; count];
    let added = world
        .waitlist
        .add_places(world.event, &labels, &said(area, price), &once, world.actor(), reason)
        .await;
    assert_eq!(added.expect("an answer"), AddPlacesOutcome::Added(count));
    world.settle().await;
}

/// What is said of the places that an offer holds.
async fn held(world: &World, entry: &Entry) -> Vec<String> {
    let offer = world.live_offer(entry.id).await;
    let places = world.database.db().places_held_by(world.event, offer.id).await.expect("places");
    places.into_iter().filter_map(|place| place.words).collect()
}

async fn all_is_well(world: &World) {
    let findings = world.waitlist.db().check(&CheckSettings::default()).await.expect("the check runs");
    assert!(findings.is_empty(), "{findings:?}");
}

async fn skips(world: &World, entry: &Entry) -> Vec<SkipReason> {
    let entry = world.entry(entry.id).await;
    let trail = world.database.db().trail_of(&entry).await.expect("a trail");
    let since = world.database.db().since_joined(&entry, &trail, 50).await.expect("looks");
    since.looks.into_iter().filter_map(|look| look.skip).collect()
}

#[tokio::test]
async fn each_is_offered_the_first_place_that_would_do_and_who_is_passed_over_reads_why() {
    for fit in [Fit::Strict, Fit::Fill] {
        let world = world(Policy { fit, ..two_hours() }).await;
        let ada = joins(&world, "Ada", 1, area("Stalls")).await;
        let ben = joins(&world, "Ben", 1, wants(&[("want.price.max", "40")])).await;
        let cy = joins(&world, "Cy", 1, Wants::default()).await;
        come(&world, 1, "Balcony", "45").await;
        assert_eq!(held(&world, &cy).await, ["Area: Balcony, Price: 45"], "{fit}");
        for entry in [&ada, &ben] {
            assert_eq!(world.state(entry.id).await, EntryState::Waiting);
            assert_eq!(skips(&world, entry).await, [SkipReason::DoesNotMatch { left: 0 }], "{fit}");
        }
        come(&world, 2, "Stalls", "39.50").await;
        assert_eq!(held(&world, &ada).await, ["Area: Stalls, Price: 39.50"]);
        assert_eq!(held(&world, &ben).await, ["Area: Stalls, Price: 39.50"]);
        all_is_well(&world).await;
    }
}

#[tokio::test]
async fn a_head_that_waits_for_more_keeps_only_what_it_wants_from_others() {
    let world = world(Policy { fit: Fit::Strict, ..two_hours() }).await;
    let pair = joins(&world, "Ada", 2, area("Balcony")).await;
    let behind = joins(&world, "Ben", 1, area("Balcony")).await;
    let other = joins(&world, "Cy", 1, Wants::default()).await;
    come(&world, 1, "Balcony", "").await;
    assert!(world.offer(behind.id).await.is_none() && world.offer(other.id).await.is_none());
    let last = world.database.db().last_pass(world.event).await.expect("passes").expect("a pass");
    assert_eq!(last.outcome, PassOutcome::HeadWaits);
    come(&world, 1, "Stalls", "").await;
    assert_eq!(held(&world, &other).await, ["Area: Stalls"]);
    assert!(world.offer(behind.id).await.is_none(), "the balcony is kept for the pair");
    all_is_well(&world).await;
    come(&world, 2, "Balcony", "").await;
    assert_eq!(held(&world, &pair).await.len(), 2);
    assert_eq!(held(&world, &behind).await, ["Area: Balcony"]);
    all_is_well(&world).await;
}

#[tokio::test]
async fn a_thousand_places_that_nobody_wants_do_not_hide_one_that_somebody_waits_for() {
    let world = world(two_hours()).await;
    let ada = joins(&world, "Ada", 1, area("Box")).await;
    come(&world, 1_001, "Stalls", "").await;
    come(&world, 1, "Box", "").await;
    assert_eq!(held(&world, &ada).await, ["Area: Box"]);
}

#[tokio::test]
async fn everybody_who_wants_what_came_free_is_called_in_order_and_takes_only_that() {
    let world = world(Policy { mode: Mode::NotifyAll, ..two_hours() }).await;
    let ada = joins(&world, "Ada", 1, area("Balcony")).await;
    let ben = joins(&world, "Ben", 1, area("Stalls")).await;
    let cy = joins(&world, "Cy", 1, Wants::default()).await;
    let two = joins(&world, "Dot", 2, area("Balcony")).await;
    come(&world, 1, "Balcony", "").await;
    let calls: Vec<(PersonId, String)> = sqlx::query_as(
        "SELECT e.person_id, o.kind FROM offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
         WHERE o.event_id = $1 ORDER BY o.band, o.round, o.rank",
    )
    .bind(world.event.0)
    .fetch_all(world.database.sql())
    .await
    .map(|rows: Vec<(uuid::Uuid, String)>| rows.into_iter().map(|(id, kind)| (PersonId(id), kind)).collect())
    .expect("calls");
    let call = OfferKind::Call.to_string();
    assert_eq!(calls, [(ada.person, call.clone()), (cy.person, call)]);
    assert_eq!(skips(&world, &ben).await, [SkipReason::DoesNotMatch { left: 0 }]);
    assert!(world.offer(two.id).await.is_none(), "one place is too few for two");

    // A place of another kind comes: it is no help to whoever was called for the balcony.
    let [first, second] = [world.live_offer(cy.id).await, world.live_offer(ada.id).await];
    assert!(matches!(world.accept(first.id, first.person).await, AcceptOutcome::Accepted { party: 1, .. }));
    come(&world, 1, "Stalls", "").await;
    assert_eq!(world.accept(second.id, second.person).await, AcceptOutcome::TakenByFaster { open: 0 });
    assert_eq!(world.live_offer(ben.id).await.kind, OfferKind::Call);
    all_is_well(&world).await;
}

#[tokio::test]
async fn wants_and_places_can_be_said_anew_and_the_line_is_asked_at_once() {
    let world = world(two_hours()).await;
    let ada = joins(&world, "Ada", 1, area("Box")).await;
    come(&world, 1, "Stalls", "").await;
    let place = world.database.db().open_places(world.event, 1).await.expect("places")[0].id;

    let actor = Actor::Person(ada.person);
    let changed =
        world.waitlist.change_wants(world.event, ada.id, 1, &area("Balcony"), actor, &reason()).await;
    assert_eq!(changed.expect("an answer"), WantsOutcome::Changed { to_end: false });
    let again = world.waitlist.change_wants(world.event, ada.id, 1, &area("Balcony"), actor, &reason()).await;
    assert_eq!(again.expect("an answer"), WantsOutcome::Already);
    assert_eq!(world.entry(ada.id).await.key, ada.key, "the rank is kept");
    world.settle().await;
    assert_eq!(world.state(ada.id).await, EntryState::Waiting);

    let describe = async |said: Said| {
        world
            .waitlist
            .describe_place(world.event, place, &said, world.actor(), &reason())
            .await
            .expect("an answer")
    };
    assert_eq!(describe(said("Stalls", "")).await, DescribeOutcome::Already);
    assert_eq!(describe(said("Balcony", "12.5")).await, DescribeOutcome::Described);
    world.settle().await;
    assert_eq!(held(&world, &ada).await, ["Area: Balcony, Price: 12.50"]);
    // What was promised stays as it was.
    assert!(matches!(describe(said("Stalls", "")).await, DescribeOutcome::NotOpen(_)));
    let while_offered =
        world.waitlist.change_wants(world.event, ada.id, 1, &area("Box"), actor, &reason()).await;
    assert_eq!(while_offered.expect("an answer"), WantsOutcome::Offered);
    all_is_well(&world).await;
}

#[tokio::test]
async fn what_nobody_in_line_wants_is_free_for_everybody() {
    let world = world(two_hours()).await;
    joins(&world, "Ada", 2, area("Balcony")).await;
    come(&world, 1, "Balcony", "").await;
    come(&world, 1, "Stalls", "").await;
    let ben = world.person("Ben").await;
    let book = async |wants: Wants| {
        let book = Book {
            person: ben,
            party: 1,
            wants,
            actor: Actor::Person(ben),
            reason: booked_directly(),
            override_reservation: false,
            once: fairlist::clock::Entropy.id(),
        };
        world.waitlist.book(world.event, &book).await.expect("an answer")
    };
    assert_eq!(book(area("Balcony")).await, BookOutcome::HeldForWaitlist);
    assert_eq!(book(area("Box")).await, BookOutcome::TooFew(0));
    // Whoever could simply book does not join; who wants the balcony waits.
    let visitor = |wants| Join {
        wants,
        name: name("Cy"),
        email: email("cy@example.org"),
        party: 1,
        as_whom: JoinAs::Visitor,
    };
    let join = world.waitlist.join(world.event, &[visitor(Wants::default())]).await.expect("an answer");
    assert_eq!(join, [JoinOutcome::PlacesFree]);
    let join = world.waitlist.join(world.event, &[visitor(area("Balcony"))]).await.expect("an answer");
    assert!(matches!(join[..], [JoinOutcome::Joined(_)]), "{join:?}");
    let sheet = world.database.db().event_sheet("spring", world.now()).await.expect("the page");
    assert_eq!(sheet.door(world.now()).bookable(), 1, "the page says the same");
    assert!(matches!(book(Wants::default()).await, BookOutcome::Booked { party: 1, .. }));
    assert_eq!(book(Wants::default()).await, BookOutcome::HeldForWaitlist);
    all_is_well(&world).await;
}

#[tokio::test]
async fn what_is_used_cannot_be_taken_away() {
    let world = world(two_hours()).await;
    come(&world, 1, "Balcony", "").await;
    let ada = joins(&world, "Ada", 1, wants(&[("want.area.Box", "on"), ("want.price.max", "9")])).await;
    let save = async |attributes: &[Attribute]| {
        let version = world.database.db().event(world.event).await.expect("the event").form_version;
        world
            .waitlist
            .set_attributes(world.event, attributes, version, world.actor())
            .await
            .expect("an answer")
    };
    let all = attributes();
    let fewer = |choices: &str| vec![all[0].renamed("Area", choices).expect("choices"), all[1].clone()];
    for attributes in [&all[..1], &all[1..], &fewer("Stalls\nBox"), &fewer("Stalls\nBalcony")] {
        assert!(matches!(save(attributes).await, AttributesOutcome::InUse(_)), "{attributes:?}");
    }
    assert_eq!(save(&fewer("Box\nBalcony")).await, AttributesOutcome::Changed);
    // Another name reaches what was said before.
    let renamed = vec![all[0].renamed("Where", "Box\nBalcony").expect("choices"), all[1].clone()];
    assert_eq!(save(&renamed).await, AttributesOutcome::Changed);
    let (_, words) = world.database.db().wants(world.event, ada.wants).await.expect("wants");
    assert_eq!(words, "Where: Box; Price: at most 9");
    let stale = world.waitlist.set_attributes(world.event, &all, 0, world.actor()).await;
    assert_eq!(stale.expect("an answer"), AttributesOutcome::Stale);
    // Who waits again once the event is restored has not stopped wanting it.
    let reason = reason();
    world.waitlist.cancel_event(world.event, world.actor(), &reason).await.expect("cancelled");
    assert_eq!(world.state(ada.id).await, EntryState::Closed);
    let without_box = vec![all[0].renamed("Where", "Stalls\nBalcony").expect("choices"), all[1].clone()];
    assert!(matches!(save(&without_box).await, AttributesOutcome::InUse(_)));
    world.waitlist.restore_event(world.event, world.actor(), &reason).await.expect("restored");
    assert_eq!(world.state(ada.id).await, EntryState::Waiting);
}
