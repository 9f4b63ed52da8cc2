//! The proxy itself: a fault test that injects nothing proves nothing.

use fairlist::clock::Clock;
use fairlist::db::{Db, PoolSizes};
use sqlx::{Connection as _, PgConnection};

use crate::harness::database::TestDatabase;
use crate::harness::proxy::{Point, TcpProxy, Way};

#[tokio::test]
async fn statements_are_named_and_counted() {
    let database = TestDatabase::new().await;
    let (proxy, options) = TcpProxy::before(&database).await;
    let mut connection = PgConnection::connect_with(&options).await.unwrap();
    proxy.forget();
    let mut tx = connection.begin().await.unwrap();
    sqlx::query("SELECT $1::int").bind(1).execute(&mut *tx).await.unwrap();
    tx.commit().await.unwrap();
    assert_eq!(proxy.statements(), ["BEGIN", "prepare SELECT $1::int", "SELECT $1::int", "COMMIT"]);
    assert!(proxy.bytes(Way::Up) > 0 && proxy.connections() == 1);
}

#[tokio::test]
async fn a_statement_is_held_before_the_server_sees_it_or_after_it_has_answered() {
    let database = TestDatabase::new().await;
    let (proxy, options) = TcpProxy::before(&database).await;
    let mut connection = PgConnection::connect_with(&options).await.unwrap();
    let own: i32 = sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut connection).await.unwrap();
    for (point, made) in [(Point::Before, false), (Point::After, true)] {
        proxy.hold_at(1, point);
        let sent = tokio::spawn(async move {
            let result = sqlx::raw_sql("CREATE TABLE made (id int)").execute(&mut connection).await;
            (connection, result)
        });
        let held = proxy.held().await;
        assert_eq!((held.statement.as_str(), held.backend), ("CREATE TABLE made (id int)", own));
        let exists: bool = sqlx::query_scalar("SELECT to_regclass('made') IS NOT NULL")
            .fetch_one(database.sql())
            .await
            .unwrap();
        assert_eq!(exists, made);
        proxy.release();
        let result;
        (connection, result) = sent.await.unwrap();
        result.unwrap();
        sqlx::raw_sql("DROP TABLE made").execute(database.sql()).await.unwrap();
    }
}

#[tokio::test]
async fn a_cut_is_an_error_and_the_pool_connects_again() {
    let database = TestDatabase::new().await;
    let (proxy, options) = TcpProxy::before(&database).await;
    let db = Db::new(&options, PoolSizes { pages: 1, workers: 1, sessions: 1 }, Clock::database());
    db.now().await.unwrap();
    proxy.cut_after(Way::Up, 10);
    // The pool looks whether its connection lives before it hands it out, so only the connection is lost.
    db.now().await.unwrap();
    assert_eq!(proxy.connections(), 2);
    proxy.refuse(true);
    proxy.cut();
    assert!(db.now().await.is_err());
    proxy.refuse(false);
    db.now().await.unwrap();
}
