//! What must survive: requests dropped, backends ended, connections cut.

use fairlist::clock::Clock;
use fairlist::db::{Db, DbError, PoolSizes};
use fairlist::domain::ids::EventId;
use sqlx::PgPool;
use sqlx::postgres::PgPoolOptions;
use uuid::Uuid;

use crate::harness::database::TestDatabase;
use crate::harness::proxy::{Point, TcpProxy};

/// Backends of this test's database that hold a transaction open.
async fn in_transaction(database: &TestDatabase) -> Vec<i32> {
    sqlx::query_scalar(
        "SELECT pid FROM pg_stat_activity
         WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE 'idle in transaction%'",
    )
    .fetch_all(database.sql())
    .await
    .unwrap()
}

/// sqlx 0.9.0 gives a connection back to its pool as if nothing were under way when the future that waits for
/// BEGIN is dropped; whoever gets it next works inside a transaction that never commits. axum drops futures when
/// visitors go away.
#[tokio::test]
async fn a_request_dropped_during_begin_does_not_poison_the_pool() {
    let database = TestDatabase::new().await;
    let (proxy, options) = TcpProxy::before(&database).await;
    let db = Db::new(&options, PoolSizes { pages: 1, workers: 1, sessions: 1 }, Clock::database());
    db.now().await.unwrap();

    proxy.hold_when("BEGIN", Point::After);
    let nobody = EventId(Uuid::nil());
    tokio::select! {
        result = db.with_event(nobody, async |_| Ok::<(), DbError>(())) => panic!("not held: {result:?}"),
        held = proxy.held() => assert_eq!(held.statement, "BEGIN"),
    }
    proxy.release();

    let refused = db.with_event(nobody, async |_| Ok::<(), DbError>(())).await;
    assert!(matches!(refused, Err(DbError::NotFound)), "{refused:?}");
    db.now().await.unwrap();
    assert_eq!(in_transaction(&database).await, [0; 0]);
}

/// The control: without the pool's ROLLBACK the fault is there. When this fails, sqlx was mended.
#[tokio::test]
async fn control_a_plain_pool_is_poisoned_by_a_request_dropped_during_begin() {
    let database = TestDatabase::new().await;
    let (proxy, options) = TcpProxy::before(&database).await;
    let pool: PgPool = PgPoolOptions::new().max_connections(1).connect_with(options).await.unwrap();

    proxy.hold_when("BEGIN", Point::After);
    tokio::select! {
        result = pool.begin() => panic!("not held: {result:?}"),
        _ = proxy.held() => {}
    }
    proxy.release();

    sqlx::query("SELECT 1").execute(&pool).await.unwrap();
    assert_eq!(in_transaction(&database).await.len(), 1);
}
