//! The tables: what is there, and the laws they keep.

use crate::harness::database::TestDatabase;

#[tokio::test]
async fn a_test_has_a_database_of_its_own_with_the_migrations() {
    let database = TestDatabase::new().await;
    let events: i64 =
        sqlx::query_scalar("SELECT count(*) FROM events").fetch_one(database.sql()).await.unwrap();
    assert_eq!(events, 0);
    assert!(database.db().now().await.is_ok());
}
