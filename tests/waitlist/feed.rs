//! The feed: what consumers read of it, however often they, or what writes it, are killed.

use std::collections::{HashMap, HashSet};

use chrono::Duration;
use fairlist::clock::{Clock, Entropy};
use fairlist::db::feed::{Part, Wanted};
use fairlist::db::{Db, PoolSizes};
use fairlist::domain::ids::{EventId, OrganizationId};
use fairlist::domain::transition::{Kind, Transition};
use fairlist::workers::feed::Relay;
use fairlist::workers::{Next, Worker as _};
use tokio::task::JoinSet;

use crate::harness::database::TestDatabase;
use crate::harness::proxy::{Point, TcpProxy};
use crate::harness::report::report;
use crate::harness::world::{World, add_event, add_staff, two_hours};

/// Runs the worker until it has nothing to do.
async fn relayed(db: &Db) {
    let mut relay = Relay::new(db);
    while relay.tick().await.expect("a tick") != Next::Rest {}
}

async fn part(world: &World, wanted: &Wanted, limit: i64) -> Part {
    world.database.db().transitions(world.organization, wanted, limit).await.expect("the feed")
}

async fn all(world: &World) -> Vec<Transition> {
    part(world, &Wanted::default(), i64::MAX).await.transitions
}

fn kinds(transitions: &[Transition]) -> Vec<&'static str> {
    transitions.iter().map(|transition| transition.kind.as_str()).collect()
}

/// A place comes back, somebody takes it, and gives it back.
async fn a_story(world: &World) {
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    world.accept(offer.id, ann.person).await;
    world.later(Duration::minutes(1));
    world.cancel_booking_of(ann.person).await;
}

#[tokio::test]
async fn a_consumer_is_told_of_a_place_from_its_release_to_its_booking_and_back() {
    let world = World::with(two_hours(), 0).await;
    a_story(&world).await;
    relayed(world.database.db()).await;
    let story = all(&world).await;
    let after_set_up: Vec<&str> =
        kinds(&story).into_iter().filter(|kind| *kind != Kind::EventChanged.as_str()).collect();
    assert_eq!(
        after_set_up,
        [
            "entry.waiting",
            "place.released",
            "offer.pending",
            "entry.offered",
            "booking.confirmed",
            "offer.accepted",
            "entry.accepted",
            "booking.cancelled",
            "place.released"
        ]
    );
    let positions: Vec<i64> = story.iter().map(|transition| transition.data.position).collect();
    assert_eq!(positions, (1..=i64::try_from(story.len()).unwrap()).collect::<Vec<_>>());

    let of = |kind| story.iter().find(|transition| transition.kind == kind).expect("it is there");
    let (offer, booking) = (of(Kind::OfferPending), of(Kind::BookingConfirmed));
    assert_eq!(offer.data.expires_at, Some("2027-03-01T11:00:00Z".parse().unwrap()));
    assert_eq!((offer.data.party, offer.data.policy_version), (Some(1), Some(1)));
    assert_eq!(offer.data.reason, "first_in_order");
    assert!(offer.data.order_key.is_some() && offer.data.entry_id.is_some());
    assert_eq!(booking.data.offer_id, offer.data.offer_id);
    assert!(booking.data.reference.is_some() && booking.data.place_id.is_some());
}

#[tokio::test]
async fn nothing_that_goes_out_says_who_somebody_is() {
    let world = World::with(two_hours(), 0).await;
    a_story(&world).await;
    relayed(world.database.db()).await;
    let person: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM persons").fetch_one(world.database.sql()).await.unwrap();
    let said = serde_json::to_string(&all(&world).await).unwrap().to_lowercase();
    for secret in ["ann", "example.org", &person.to_string(), &world.staff.to_string(), "house"] {
        assert!(!said.contains(secret), "{secret} goes out: {said}");
    }
}

#[tokio::test]
async fn what_a_consumer_does_not_ask_for_is_left_out_and_not_read_twice() {
    let world = World::with(two_hours(), 0).await;
    a_story(&world).await;
    relayed(world.database.db()).await;
    let last = all(&world).await.last().unwrap().data.position;
    let wanted = Wanted { kinds: vec![Kind::PlaceReleased, Kind::BookingConfirmed], ..Wanted::default() };
    let first = part(&world, &wanted, 2).await;
    assert_eq!(kinds(&first.transitions), ["place.released", "booking.confirmed"]);
    assert_eq!(first.next, first.transitions[1].data.position, "a full part ends with its last");
    let second = part(&world, &Wanted { after: first.next, ..wanted.clone() }, 2).await;
    assert_eq!((kinds(&second.transitions), second.next), (vec!["place.released"], last));
    let nothing = part(&world, &Wanted { after: last, ..wanted.clone() }, 2).await;
    assert_eq!(
        (nothing.transitions, nothing.next),
        (vec![], last),
        "one that is up to date stays where it is"
    );

    let elsewhere = Wanted { event: Some(EventId(uuid::Uuid::nil())), ..Wanted::default() };
    assert_eq!(part(&world, &elsewhere, 10).await.next, last, "what is of another event is passed by");
    let (others, _) =
        add_staff(&world.waitlist, "Town Theatre", "o@town.example", fairlist::domain::role::Role::Owner)
            .await;
    let theirs = world.database.db().transitions(others, &Wanted::default(), 10).await.unwrap();
    assert_eq!(theirs, Part::default(), "another organization has a feed of its own");
}

/// Two processes copy, several events are written to at once, and a consumer is killed again and again: it keeps only
/// what it had noted together with its position.
#[tokio::test(flavor = "multi_thread")]
async fn a_consumer_killed_and_resumed_under_concurrent_writers_loses_and_doubles_nothing() {
    const EVENTS: usize = 5;
    const JOINS: usize = 25;
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let mut events = vec![world.event];
    for n in 1..EVENTS {
        let slug = format!("event-{n}");
        events.push(add_event(&world.waitlist, world.organization, world.staff, &slug, two_hours()).await);
    }
    let world = std::sync::Arc::new(world);
    let mut writers = JoinSet::new();
    for event in events.clone() {
        let world = std::sync::Arc::clone(&world);
        writers.spawn(async move {
            for n in 0..JOINS {
                let join = fairlist::waitlist::join::Join {
                    wants: fairlist::domain::attribute::Wants::default(),
                    name: crate::harness::world::name("Guest"),
                    email: crate::harness::world::email(&format!("g{n}@example.org")),
                    party: 1,
                    as_whom: fairlist::waitlist::join::JoinAs::Vouched(world.actor()),
                };
                world.waitlist.join(event, &[join]).await.expect("joined");
            }
        });
    }
    let done = tokio_util::sync::CancellationToken::new();
    let mut relays = JoinSet::new();
    for _ in 0..2 {
        let (mut relay, done) = (Relay::new(world.database.db()), done.clone());
        relays.spawn(async move {
            // What was recorded before it was told to end is copied.
            loop {
                let ending = done.is_cancelled();
                let next = relay.tick().await.expect("a tick");
                if ending && next == Next::Rest {
                    return;
                }
            }
        });
    }
    let mut writing = true;
    // What the consumer has on its disk: its position, and what it has seen up to there.
    let (mut kept, mut seen): (i64, Vec<Transition>) = (0, Vec::new());
    let (mut kills, mut parts) = (0, 0);
    loop {
        let found = part(&world, &Wanted { after: kept, ..Wanted::default() }, 7).await;
        parts += 1;
        // Killed between reading and noting: it begins again where it was.
        if Entropy.bytes()[0] < 64 {
            kills += 1;
            continue;
        }
        let empty = found.transitions.is_empty();
        seen.extend(found.transitions);
        kept = found.next;
        if writing && writers.is_empty() {
            done.cancel();
            while relays.join_next().await.is_some() {}
            writing = false;
        } else if writing {
            while let Some(ended) = writers.try_join_next() {
                ended.expect("a writer");
            }
        } else if empty {
            break;
        }
    }
    report(&format!("{} transitions in {parts} parts, killed {kills} times", seen.len()));
    let positions: Vec<i64> = seen.iter().map(|transition| transition.data.position).collect();
    assert_eq!(positions, (1..=i64::try_from(seen.len()).unwrap()).collect::<Vec<_>>());
    let records: HashSet<(EventId, i64)> = seen.iter().map(|t| (t.data.event_id, t.data.seq)).collect();
    assert_eq!(records.len(), seen.len(), "no record twice");
    let joined = seen.iter().filter(|transition| transition.kind == Kind::EntryWaiting).count();
    assert_eq!(joined, EVENTS * JOINS, "nobody is left out");
    let mut last: HashMap<EventId, i64> = HashMap::new();
    for transition in &seen {
        let before = last.insert(transition.data.event_id, transition.data.seq);
        assert!(before.is_none_or(|before| before < transition.data.seq), "each event in its own order");
    }
    let interleaved = seen.windows(2).filter(|pair| pair[0].data.event_id != pair[1].data.event_id).count();
    assert!(interleaved >= EVENTS, "the events were written to at the same time: {interleaved}");
}

#[tokio::test]
async fn copying_broken_off_at_any_statement_leaves_no_gap_and_nothing_twice() {
    let database = TestDatabase::new().await;
    let (proxy, through) = TcpProxy::before(&database).await;
    let world = World::on(database, two_hours(), 0).await;
    let program = || {
        let sizes = PoolSizes { pages: 1, workers: 1, sessions: 1 };
        Db::new(&through, sizes, Clock::database())
    };
    world.waiting("Guest", 1).await;
    relayed(world.database.db()).await;
    world.waiting("Guest2", 1).await;
    let statements = {
        let db = program();
        proxy.forget();
        db.relay(world.organization).await.expect("copied");
        let statements = proxy.statements();
        db.close().await;
        statements
    };
    report(&format!("copying is {} statements; cut before and after each", statements.len()));
    let (mut guests, mut failed) = (2, 0);
    for (n, text) in (1..).zip(&statements) {
        for point in [Point::Before, Point::After] {
            guests += 1;
            world.waiting(&format!("Guest{guests}"), 1).await;
            let db = program();
            proxy.hold_at(n, point);
            let cut = async {
                assert_eq!(&proxy.held().await.statement, text);
                proxy.cut();
            };
            let (outcome, ()) = tokio::join!(db.relay(world.organization), cut);
            failed += usize::from(outcome.is_err());
            db.close().await;
            relayed(world.database.db()).await;
            let found = all(&world).await;
            let joined = found.iter().filter(|transition| transition.kind == Kind::EntryWaiting).count();
            assert_eq!(joined, guests, "{point:?} {text}");
            let last = found.last().map(|transition| transition.data.position);
            assert_eq!(last, i64::try_from(found.len()).ok(), "{point:?} {text}: no gap");
        }
    }
    assert!(failed > statements.len(), "it was broken off: {failed} times");
}

#[tokio::test]
async fn a_feed_that_somebody_else_writes_is_left_to_them() {
    let world = World::with(two_hours(), 0).await;
    world.waiting("Ann", 1).await;
    relayed(world.database.db()).await;
    world.waiting("Ben", 1).await;
    let mut other = world.database.sql().begin().await.unwrap();
    sqlx::query("SELECT FROM feeds FOR UPDATE").execute(&mut *other).await.unwrap();
    let before = all(&world).await.len();
    let left = world.database.db().relay(world.organization).await.unwrap();
    assert_eq!((left.records, all(&world).await.len()), (0, before));
    other.rollback().await.unwrap();
    relayed(world.database.db()).await;
    assert_eq!(all(&world).await.len(), before + 1);
    assert_eq!(world.database.db().relay(OrganizationId(world.organization.0)).await.unwrap().records, 0);
}
