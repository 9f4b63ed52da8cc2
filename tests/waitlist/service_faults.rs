//! What must survive while the service runs: notifications lost, Postgres killed, connections exhausted.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use fairlist::clock::Clock;
use fairlist::db::{Db, DbError, PoolSizes};
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::{Accept, AcceptOutcome};
use fairlist::workers;
use nix::sys::signal::{Signal, kill};
use tokio::sync::Barrier;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::harness::database::TestDatabase;
use crate::harness::patience::until;
use crate::harness::proxy::TcpProxy;
use crate::harness::report::report;
use crate::harness::world::{World, add_event, two_hours};

/// NOTIFY is a hint, polling the truth: within two intervals of it.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_notification_told_of_is_found_by_polling() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let entry = world.waiting("Ann", 1).await;
    world.settle().await;

    // The workers are another process: they hear only what the database tells them.
    let (proxy, through) = TcpProxy::before(&world.database).await;
    proxy.deafen(true);
    let db = Db::new(&through, PoolSizes { pages: 2, workers: 4, sessions: 1 }, Clock::database());
    let elsewhere = Waitlist::new(db, world.waitlist.secret().clone());
    let stopping = CancellationToken::new();
    let mut at_work = JoinSet::new();
    workers::passes::start(&mut at_work, &elsewhere, &stopping);
    until("they listen", Duration::from_secs(30), async || {
        sqlx::query_scalar(
            "SELECT EXISTS (SELECT FROM pg_stat_activity
                            WHERE datname = current_database() AND query ILIKE 'LISTEN%' AND state = 'idle')",
        )
        .fetch_one(world.database.sql())
        .await
        .unwrap()
    })
    .await;

    // Twice: the first may be found by the scan with which everybody begins.
    for entry in [entry, world.waiting("Ben", 1).await] {
        world.add_places(1).await;
        let took = until("an offer", Duration::from_secs(10), async || {
            world.offer(entry.id).await.is_some_and(|offer| offer.state == OfferState::Pending)
        })
        .await;
        report(&format!("offered {took:?} after a release that nobody heard of"));
    }
    let live: i64 = sqlx::query_scalar("SELECT count(*) FROM offers WHERE state = 'pending'")
        .fetch_one(world.database.sql())
        .await
        .unwrap();
    assert_eq!(live, 2, "one each");
    assert!(proxy.swallowed_notifications() > 0, "the fault was injected");

    stopping.cancel();
    while at_work.join_next().await.is_some() {}
}

/// Silence moves the next person forward by itself: the real workers, the database's own clock, nobody asks.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_deadline_that_passes_is_seen_by_the_running_program() {
    let world = World::on(TestDatabase::new().await, two_hours(), 1).await;
    let [first, second] = [world.waiting("Ann", 1).await, world.waiting("Ben", 1).await];
    world.settle().await;
    let offer = world.live_offer(first.id).await;
    sqlx::query(
        "UPDATE offers SET made_at = clock_timestamp() - interval '2 hours',
                           expires_at = clock_timestamp() + interval '1 second' WHERE id = $1",
    )
    .bind(offer.id.0)
    .execute(world.database.sql())
    .await
    .unwrap();
    let stopping = CancellationToken::new();
    let mut at_work = JoinSet::new();
    workers::passes::start(&mut at_work, &world.waitlist, &stopping);
    until("the next offer", Duration::from_secs(30), async || world.offer(second.id).await.is_some()).await;
    let late: f64 = sqlx::query_scalar(
        "SELECT extract(epoch FROM next.made_at - ended.expires_at)::float8 FROM offers next, offers ended
         WHERE next.entry_id = $1 AND ended.id = $2",
    )
    .bind(second.id.0)
    .bind(offer.id.0)
    .fetch_one(world.database.sql())
    .await
    .unwrap();
    report(&format!("the next was offered the place {late:.3} s after the deadline"));
    assert!(late >= 0.0, "never before it");
    stopping.cancel();
    while at_work.join_next().await.is_some() {}
}

/// When the server was started.
async fn started(database: &TestDatabase) -> Result<DateTime<Utc>, sqlx::Error> {
    sqlx::query_scalar("SELECT pg_postmaster_start_time()").fetch_one(database.sql()).await
}

/// What a customer was told is booked is booked, whatever dies; what failed can be tried again.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn postgres_killed_while_offers_are_accepted() {
    const GUESTS: usize = 24;
    let world = World::on(TestDatabase::on_own_server().await, two_hours(), 0).await;
    let mut guests = Vec::new();
    for n in 0..GUESTS {
        guests.push(world.waiting(&format!("Guest{n}"), 1).await);
    }
    world.add_places(GUESTS).await;
    world.settle().await;
    let mut offers = Vec::new();
    for guest in &guests {
        offers.push(world.live_offer(guest.id).await.id);
    }

    // A third is accepted; then Postgres is killed among the rest.
    let barrier = std::sync::Arc::new(Barrier::new(GUESTS / 3 + 1));
    let mut accepting = JoinSet::new();
    for (n, (guest, offer)) in guests.iter().zip(&offers).enumerate() {
        let (waitlist, event, barrier) =
            (world.waitlist.clone(), world.event, std::sync::Arc::clone(&barrier));
        let accept = Accept { offer: *offer, person: guest.person, actor: Actor::Person(guest.person) };
        accepting.spawn(async move {
            let outcome = waitlist.accept(event, &[accept]).await.map(|mut outcomes| outcomes.remove(0));
            if n < GUESTS / 3 {
                barrier.wait().await;
            }
            (n, outcome)
        });
    }
    barrier.wait().await;
    let before = started(&world.database).await.unwrap();
    kill(world.database.postmaster(), Signal::SIGKILL).unwrap();
    let outcomes = accepting.join_all().await;

    let since = Instant::now();
    // A backend may still answer when its postmaster is gone: what is back is another server.
    until("Postgres is back", Duration::from_mins(2), async || {
        started(&world.database).await.is_ok_and(|start| start != before)
    })
    .await;
    let (mut told, mut failed) = (0, 0);
    for (n, outcome) in outcomes {
        let state = world.state(guests[n].id).await;
        match outcome {
            Ok(AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. }) => {
                told += 1;
                assert_eq!(state, EntryState::Accepted, "what was told is so");
            }
            Ok(other) => panic!("{other:?}"),
            Err(DbError::Unavailable(_) | DbError::Busy(_)) => {
                failed += 1;
                assert_eq!(state, EntryState::Offered, "what failed did not happen");
            }
            Err(DbError::CommitUnknown(_)) => failed += 1,
            Err(other) => panic!("not a 503: {other:?}"),
        }
        let again = world.accept(offers[n], guests[n].person).await;
        let right = matches!(again, AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. });
        assert!(right, "{again:?}");
        assert_eq!(world.bookings(guests[n].person).await.len(), 1);
    }
    report(&format!(
        "Postgres killed with {told} told and {failed} failed; back, and all accepted, after {:?}",
        since.elapsed()
    ));
    assert!(told >= GUESTS / 3);
}

/// Every connection for pages is busy: sign-in and health have their own, the rest is told so in time.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn exhausted_pages_do_not_starve_sign_in() {
    let world = World::on(TestDatabase::new().await, two_hours(), 1).await;
    let entry = world.waiting("Ann", 1).await;
    world.settle().await;
    let offer = world.live_offer(entry.id).await;
    let sizes = PoolSizes { pages: 2, workers: 1, sessions: 1 };
    let db = Db::new(&world.database.options(), sizes, Clock::database());
    let waitlist = Waitlist::new(db.clone(), world.waitlist.secret().clone());

    // Two requests that are stuck, on events of their own.
    let stuck = std::sync::Arc::new(Barrier::new(3));
    let mut requests = JoinSet::new();
    let release = CancellationToken::new();
    for slug in ["one", "two"] {
        let event = add_event(&world.waitlist, world.organization, world.staff, slug, two_hours()).await;
        let (db, stuck, release) = (db.clone(), std::sync::Arc::clone(&stuck), release.clone());
        requests.spawn(async move {
            db.with_event(event, async |_| {
                stuck.wait().await;
                release.cancelled().await;
                Ok::<(), DbError>(())
            })
            .await
        });
    }
    stuck.wait().await;

    let since = Instant::now();
    let accept = [Accept { offer: offer.id, person: entry.person, actor: Actor::Person(entry.person) }];
    let (refused, ready, sign_in) =
        tokio::join!(waitlist.accept(world.event, &accept), db.ready(), db.session_now());
    assert!(matches!(refused, Err(DbError::Unavailable(_))), "{refused:?}");
    assert!(since.elapsed() < Duration::from_secs(5), "told in time: {:?}", since.elapsed());
    assert!(ready.is_ok() && sign_in.is_ok());

    release.cancel();
    for done in requests.join_all().await {
        done.unwrap();
    }
    let accepted = waitlist.accept(world.event, &accept).await.unwrap().remove(0);
    assert!(matches!(accepted, AcceptOutcome::Accepted { .. }), "{accepted:?}");
}
