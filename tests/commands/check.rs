//! `fairlist check` on a database of its own: what it prints, and how it ends.

use std::process::Command;

use sqlx::Executor as _;

use crate::harness::database::TestDatabase;
use crate::harness::sample::{self, NOW, PLACE_1};

/// Runs the command; its output and whether it succeeded.
fn check(database: &TestDatabase) -> (String, bool) {
    // The secret from which the sample's tokens are derived.
    let secret = "\u{7}".repeat(32);
    let output = Command::new(env!("CARGO_BIN_EXE_fairlist"))
        .args(["check", "--database-url", &database.url()])
        .env("FAIRLIST_SECRET", secret)
        .output()
        .expect("the program starts");
    let said = [output.stdout, output.stderr].map(|bytes| String::from_utf8(bytes).expect("text")).concat();
    (said, output.status.success())
}

#[tokio::test]
async fn a_sound_database_passes_and_a_broken_one_fails_by_name() {
    let mut database = TestDatabase::at(NOW).await;
    sample::write(&database).await;
    let (said, success) = check(&database);
    assert!(success && said.contains("Everything that must hold does (I1–I24)."), "{said}");

    database.broken_on_purpose();
    database
        .sql()
        .execute(
            "ALTER TABLE places DROP CONSTRAINT places_held_check;
             UPDATE places SET offer_id = u('fb') WHERE number = 1",
        )
        .await
        .expect("broken");
    let (said, success) = check(&database);
    assert!(!success, "{said}");
    let named = said.contains("I2 does not hold") && said.contains(&PLACE_1.to_string());
    assert!(named && !said.contains("Everything"), "{said}");
}

#[tokio::test]
async fn another_schema_is_not_misread() {
    let mut database = TestDatabase::at(NOW).await;
    database.broken_on_purpose();
    database.sql().execute("UPDATE _sqlx_migrations SET version = version + 900000").await.expect("another");
    let (said, success) = check(&database);
    assert!(!success && said.contains("fairlist migrate"), "{said}");
}
