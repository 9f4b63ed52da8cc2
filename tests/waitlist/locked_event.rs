//! The event lock itself: one at a time, tried again when Postgres asks for it, and the clock read after the wait.

use std::sync::atomic::{AtomicU32, Ordering};

use chrono::{DateTime, Utc};
use fairlist::clock::Entropy;
use fairlist::db::DbError;
use fairlist::db::locked_event::retry;
use fairlist::domain::event::ListState;
use fairlist::waitlist::lists::ListOutcome;
use sqlx::{AssertSqlSafe, Executor as _, PgConnection};
use tokio::sync::Notify;

use crate::harness::database::TestDatabase;
use crate::harness::world::{World, reason, two_hours};

/// A connection of the test's own that holds the event's row until its transaction ends.
async fn hold(world: &World) -> PgConnection {
    let mut holder = sqlx::ConnectOptions::connect(&world.database.options()).await.expect("connect");
    holder.execute("BEGIN").await.expect("a transaction");
    sqlx::query("SELECT FROM events WHERE id = $1 FOR NO KEY UPDATE")
        .bind(world.event.0)
        .execute(&mut holder)
        .await
        .expect("the lock");
    holder
}

/// Returns when a backend of this database waits for a lock.
async fn somebody_waits(world: &World) {
    let waits = "SELECT EXISTS (SELECT FROM pg_stat_activity
                                WHERE datname = current_database() AND wait_event_type = 'Lock')";
    while !sqlx::query_scalar::<_, bool>(waits).fetch_one(world.database.sql()).await.expect("activity") {
        tokio::task::yield_now().await;
    }
}

async fn clock(connection: &mut PgConnection) -> DateTime<Utc> {
    sqlx::query_scalar("SELECT clock_timestamp()").fetch_one(connection).await.expect("the clock")
}

#[tokio::test]
async fn a_second_lock_in_the_same_task_is_a_mistake_and_ends_the_first() {
    let world = World::with(two_hours(), 0).await;
    let (db, event) = (world.database.db().clone(), world.event);
    let nested = tokio::task::LocalSet::new();
    let task = nested.spawn_local(async move {
        db.with_event(event, async |_| db.with_event(event, async |_| Ok::<(), DbError>(())).await).await
    });
    nested.await;
    let panicked = task.await.expect_err("two locks").into_panic();
    let said = panicked.downcast_ref::<&str>().expect("a sentence");
    assert!(said.contains("one event lock at a time"), "{said}");

    // The panic rolled the first one back: nobody waits for it.
    let again = world.database.db().with_event(event, async |event| Ok::<_, DbError>(event.id())).await;
    assert_eq!(again.expect("the lock is free"), event);
}

/// What decides is when the lock was granted, not when somebody began to wait for it.
#[tokio::test]
async fn the_clock_is_read_after_the_wait_for_the_lock() {
    let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
    let mut holder = hold(&world).await;
    let (db, event) = (world.database.db().clone(), world.event);
    let waiting = tokio::spawn(async move {
        db.with_event(event, async |event| Ok::<_, DbError>(event.now())).await.expect("the lock")
    });
    somebody_waits(&world).await;
    let released = clock(&mut holder).await;
    holder.execute("COMMIT").await.expect("the lock is let go");
    let decided = waiting.await.expect("the task ends");
    assert!(decided > released, "decided at {decided}, and the lock was let go at {released}");
}

#[tokio::test]
async fn a_lock_that_is_not_granted_in_time_is_waited_for_again() {
    let world = World::with(two_hours(), 0).await;
    let mut holder = hold(&world).await;
    let (tries, again) = (AtomicU32::new(0), Notify::new());
    let (db, event) = (world.database.db(), world.event);
    let work = retry(Entropy, || {
        if tries.fetch_add(1, Ordering::Relaxed) == 1 {
            again.notify_one();
        }
        db.with_event(event, async |event| Ok::<_, DbError>(event.id()))
    });
    // The lock timeout of two seconds ends the first try.
    let letting_go = async {
        again.notified().await;
        holder.execute("COMMIT").await.expect("the lock is let go");
    };
    let (result, ()) = tokio::join!(work, letting_go);
    assert_eq!(result.expect("granted at last"), event);
    assert!(tries.load(Ordering::Relaxed) > 1);
}

/// The next `failures` changes of an event fail with `code`. A sequence counts them: it is not rolled back.
async fn fail(world: &World, code: &str, failures: u32) {
    let sql = format!(
        "CREATE SEQUENCE tries;
         CREATE FUNCTION fail() RETURNS trigger LANGUAGE plpgsql AS $$
         BEGIN
             IF nextval('tries') <= {failures} THEN RAISE EXCEPTION 'on purpose' USING ERRCODE = '{code}'; END IF;
             RETURN NEW;
         END $$;
         CREATE TRIGGER fail BEFORE UPDATE OF list_state ON events FOR EACH ROW EXECUTE FUNCTION fail()"
    );
    world.database.sql().execute(AssertSqlSafe(sql)).await.expect("a trigger that fails");
}

async fn tries(world: &World) -> i64 {
    sqlx::query_scalar("SELECT last_value FROM tries").fetch_one(world.database.sql()).await.expect("counted")
}

async fn freeze(world: &World) -> Result<ListOutcome, DbError> {
    world.waitlist.set_list(world.event, ListState::Frozen, world.actor(), &reason()).await
}

async fn frozen_records(world: &World) -> i64 {
    sqlx::query_scalar("SELECT count(*) FROM audit WHERE act = 'frozen'")
        .fetch_one(world.database.sql())
        .await
        .expect("the audit")
}

/// `serialization_failure`, `deadlock_detected`, `lock_not_available`: the whole transaction runs again, and what it did
/// is there once.
#[tokio::test]
async fn a_transaction_that_postgres_asks_to_be_run_again_is() {
    for code in ["40001", "40P01", "55P03"] {
        let world = World::with(two_hours(), 0).await;
        fail(&world, code, 3).await;
        let outcome = freeze(&world).await.expect(code);
        assert_eq!(outcome, ListOutcome::Done { revoked: 0 });
        assert_eq!((tries(&world).await, frozen_records(&world).await), (4, 1), "{code}");
    }
}

#[tokio::test]
async fn after_three_more_tries_the_event_is_said_to_be_busy() {
    let world = World::with(two_hours(), 0).await;
    fail(&world, "40001", 100).await;
    let error = freeze(&world).await.expect_err("it fails every time");
    assert!(matches!(error, DbError::Busy(_)), "{error:?}");
    assert_eq!((tries(&world).await, frozen_records(&world).await), (4, 0));
}

#[tokio::test]
async fn any_other_error_is_not_tried_again() {
    let world = World::with(two_hours(), 0).await;
    fail(&world, "22000", 100).await;
    let error = freeze(&world).await.expect_err("it fails");
    assert!(matches!(error, DbError::Other(_)), "{error:?}");
    assert_eq!((tries(&world).await, frozen_records(&world).await), (1, 0));
}
