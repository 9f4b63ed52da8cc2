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

/// Runs a program of Postgres.
fn postgres(program: &str, arguments: &[&str]) {
    let output = Command::new(program).args(arguments).output().expect(program);
    assert!(output.status.success(), "{program}: {}", String::from_utf8_lossy(&output.stderr));
}

#[tokio::test]
async fn a_database_that_was_dumped_and_restored_is_sound() {
    let (database, restored) = (TestDatabase::at(NOW).await, TestDatabase::empty(NOW).await);
    sample::write(&database).await;
    let backups = tempfile::tempdir().expect("a directory");
    let file = backups.path().join("fairlist.dump");
    let file = file.to_str().expect("a path");
    postgres("pg_dump", &["--format=custom", "--no-owner", "--file", file, &database.url()]);
    postgres("pg_restore", &["--exit-on-error", "--no-owner", "--dbname", &restored.url(), file]);
    let (said, success) = check(&restored);
    assert!(success && said.contains("Everything that must hold does"), "{said}");
    let count = "SELECT (SELECT count(*) FROM audit) + (SELECT count(*) FROM offers)";
    let counts = [&database, &restored].map(|of| sqlx::query_scalar::<_, i64>(count).fetch_one(of.sql()));
    let [before, after] = counts;
    let (before, after) = (before.await.expect("counted"), after.await.expect("counted"));
    assert!(before > 0 && before == after, "{before} records and offers became {after}");
}
