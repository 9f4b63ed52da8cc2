//! What visitors meet when connections run out, and when the database goes away in the middle of a click.

use std::time::{Duration, Instant};

use axum::http::StatusCode;
use fairlist::clock::Clock;
use fairlist::db::{Db, DbError, PoolSizes};
use fairlist::domain::ids::OfferId;
use fairlist::domain::password::NewPassword;
use fairlist::web::{self, Settings, WebState};
use nix::sys::signal::{Signal, kill};
use tokio::sync::mpsc;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use crate::customer::Booth;
use crate::harness::database::{TestDatabase, secret};
use crate::harness::patience::until;
use crate::harness::race::Gate;
use crate::harness::site::{PASSWORD, sign_in};
use crate::harness::visitor::Answer;
use crate::harness::world::{World, add_event, two_hours};

/// A box office whose pages use `db`; Ann has an offer.
async fn offered(world: World, db: &Db) -> (Booth, OfferId) {
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(ann.id).await.id;
    let state =
        WebState::new(db.clone(), secret(), Settings::new("http://localhost".parse().expect("a URL")));
    (Booth { router: web::router(state).expect("a router"), secret: secret(), world }, offer)
}

/// The page that asks for patience, and says truly that nothing was done.
#[track_caller]
fn asks_for_patience(answer: &Answer) {
    assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{}", answer.body);
    assert_eq!(answer.header("retry-after"), "3");
    answer.says("Nothing was done and nothing is lost; try again in a few seconds.");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn while_every_connection_for_pages_is_busy_sign_in_and_health_answer_and_clicks_are_told_to_wait() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let sizes = PoolSizes { pages: 2, workers: 1, sessions: 2 };
    let db = Db::new(&world.database.options(), sizes, Clock::database());
    let hash = NewPassword::parse(PASSWORD, &[]).expect("good").hash([1; 16]).expect("hashed");
    db.set_password(world.staff, &hash).await.expect("set");
    let (booth, offer) = offered(world, &db).await;
    let address = format!("/offers/{offer}");
    let mut ann = booth.signed_in("ann@example.org").await;
    ann.get(&address).await;

    // Two requests that are stuck, on events of their own.
    let (stuck, mut are_stuck) = mpsc::channel(2);
    let release = CancellationToken::new();
    let mut requests = JoinSet::new();
    for slug in ["one", "two"] {
        let (db, stuck, release) = (db.clone(), stuck.clone(), release.clone());
        let (world, waitlist) = (&booth.world, &booth.world.waitlist);
        let event = add_event(waitlist, world.organization, world.staff, slug, two_hours()).await;
        requests.spawn(async move {
            db.with_event(event, async |_| {
                stuck.send(()).await.expect("the test waits");
                release.cancelled().await;
                Ok::<(), DbError>(())
            })
            .await
        });
    }
    for _ in 0..2 {
        are_stuck.recv().await.expect("stuck");
    }

    let since = Instant::now();
    let refused = ann.post(&format!("{address}/accept"), &[]).await;
    asks_for_patience(&refused);
    assert!(since.elapsed() < Duration::from_secs(5), "told in time: {:?}", since.elapsed());
    asks_for_patience(&ann.get(&address).await);
    let mut staff = booth.visitor();
    for path in ["/healthz", "/readyz", "/staff/sign-in"] {
        assert_eq!(staff.get(path).await.status, StatusCode::OK, "{path}");
    }
    let signed_in = sign_in(&mut staff, "owner@house.example", PASSWORD).await;
    assert_eq!(signed_in.location().as_deref(), Some("/staff"), "{}", signed_in.body);

    release.cancel();
    for done in requests.join_all().await {
        done.expect("let go");
    }
    ann.get(&address).await;
    ann.submit(&format!("{address}/accept"), &[]).await.says("1 place at Spring Concert is yours");
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 1);
}

/// The server of the program's own goes down at once, as with the machine's power, and comes back by itself.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_restarts_in_the_middle_of_a_click_costs_a_second_click() {
    let world = World::on(TestDatabase::on_own_server().await, two_hours(), 0).await;
    let db = world.database.db().clone();
    let (booth, offer) = offered(world, &db).await;
    let address = format!("/offers/{offer}");
    let mut ann = booth.signed_in("ann@example.org").await;
    ann.get(&address).await;

    let gate = Gate::close(&booth.world).await;
    let clicking = {
        let (mut ann, accept) = (ann.clone(), format!("{address}/accept"));
        tokio::spawn(async move { ann.post(&accept, &[]).await })
    };
    gate.until_waiting(1).await;
    kill(booth.world.database.postmaster(), Signal::SIGQUIT).expect("told to end");
    asks_for_patience(&clicking.await.expect("answered"));

    until("it is ready again", Duration::from_mins(2), async || {
        booth.visitor().get("/readyz").await.status == StatusCode::OK
    })
    .await;
    ann.get(&address).await;
    ann.submit(&format!("{address}/accept"), &[]).await.says("1 place at Spring Concert is yours");
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 1);
}
