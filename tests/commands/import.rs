//! `fairlist import`: what it says, and what a killed one leaves to the next.

use std::fmt::Write as _;
use std::path::PathBuf;

use fairlist::domain::policy::Policy;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use tempfile::TempDir;

use crate::harness::database::TestDatabase;
use crate::harness::world::World;
use crate::program::{Said, fairlist, run};

const PRETIX_EXPORT: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/pretix-waitinglist.csv");

/// An event without places, on the database's clock as the command sees it.
async fn a_house() -> World {
    let world = World::on(TestDatabase::new().await, Policy::first(), 0).await;
    world.settle().await;
    world
}

async fn import(world: &World, arguments: &[&str]) -> Said {
    let url = world.database.url();
    run(fairlist(&[&["--database-url", &url, "import"], arguments].concat())).await
}

async fn number(world: &World, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(world.database.sql()).await.expect(sql)
}

/// A file of so many people in a directory of its own.
fn a_file(people: usize) -> (TempDir, PathBuf) {
    let mut text = "name,email\n".to_owned();
    for n in 1..=people {
        writeln!(text, "Person {n},person{n}@example.org").expect("a string");
    }
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("people.csv");
    std::fs::write(&path, text).expect("a file");
    (directory, path)
}

#[tokio::test]
async fn a_dry_run_says_what_would_be_done_and_a_second_import_that_it_was_done() {
    let world = a_house().await;

    let planned = import(&world, &[PRETIX_EXPORT, "--event", "spring", "--dry-run"]).await.succeeded();
    for part in [
        "1200 rows of a waiting list exported by pretix, for Spring Concert.",
        "1178 people would be taken: 1158 waiting, 20 expired.",
        "Not taken: 22 rows (20 × already has a place elsewhere, 2 × the same person again).",
        "line 150, Anna Test <anna@gmail.com>: The same person as on line 130",
        "line 68, O'Brien, \"Pat\" Junior <pat.obrien@example.com>: The line break in the name became a space.",
        "Columns not used: Product, Product ID,",
        "Nothing was written.",
    ] {
        assert!(planned.contains(part), "{part:?} is missing in {planned}");
    }
    assert_eq!(number(&world, "SELECT count(*) FROM entries").await, 0);

    let did = import(&world, &[PRETIX_EXPORT, "--event", "spring"]).await.succeeded();
    assert!(did.contains("1178 people are taken: 1158 waiting, 20 expired."), "{did}");
    assert_eq!(number(&world, "SELECT count(*) FROM entries").await, 1_178);

    let again = import(&world, &[PRETIX_EXPORT, "--event", "spring"]).await.succeeded();
    assert!(again.contains("Nothing was done now."), "{again}");
    let dry = import(&world, &[PRETIX_EXPORT, "--event", "spring", "--dry-run"]).await.succeeded();
    assert!(dry.contains("0 people would be taken"), "{dry}");
    assert_eq!(number(&world, "SELECT count(*) FROM entries").await, 1_178);
    world.settle().await;
}

#[tokio::test]
async fn refusals_say_what_to_do() {
    let world = a_house().await;
    let directory = TempDir::new().expect("a directory");
    let path = directory.path().join("other.csv");
    std::fs::write(&path, "Wer;E-Mail\nAnn;ann@example.org\n").expect("a file");
    let path = path.to_str().expect("a path");

    let unknown = import(&world, &[PRETIX_EXPORT, "--event", "autumn"]).await;
    unknown.failed(1, &["there is no event “autumn”"]);
    let gone = import(&world, &["/no/such.csv", "--event", "spring"]).await;
    gone.failed(1, &["/no/such.csv"]);
    let unnamed = import(&world, &[path, "--event", "spring"]).await;
    unnamed.failed(1, &["Say which column holds the name.", "“Wer”, “E-Mail”", "--map email='E-Mail'"]);
    let wrong =
        import(&world, &[path, "--event", "spring", "--map", "name=Wer", "--map", "email=Post"]).await;
    wrong.failed(1, &["There is no column called “Post”"]);
    let field = import(&world, &[path, "--event", "spring", "--map", "colour=Wer"]).await;
    field.failed(2, &["name, email, phone"]);
    std::fs::write(path, b"name,email\nM\xFCller,m@example.org\n").expect("a file");
    let latin = import(&world, &[path, "--event", "spring"]).await;
    latin.failed(1, &["Line 2 is not valid UTF-8."]);
    assert_eq!(number(&world, "SELECT count(*) FROM entries").await, 0);
}

#[tokio::test]
async fn a_killed_import_is_carried_on_by_the_same_command() {
    let world = a_house().await;
    let (_directory, path) = a_file(20_000);
    let path = path.to_str().expect("a path");
    let url = world.database.url();
    let arguments = [
        "--database-url",
        &url,
        "import",
        path,
        "--event",
        "spring",
        "--map",
        "name=name",
        "--map",
        "email=email",
    ];

    for signal in [Signal::SIGKILL, Signal::SIGTERM] {
        let before = number(&world, "SELECT coalesce(sum(rows_done), 0)::bigint FROM imports").await;
        let mut child = fairlist(&arguments).stderr(std::process::Stdio::piped()).spawn().expect("it starts");
        while number(&world, "SELECT coalesce(sum(rows_done), 0)::bigint FROM imports").await <= before {
            assert!(child.try_wait().expect("asked").is_none(), "it ended by itself");
        }
        kill(Pid::from_raw(child.id().expect("alive").cast_signed()), signal).expect("killed");
        let ended = child.wait_with_output().await.expect("ended");
        assert!(!ended.status.success(), "{ended:?}");
        if signal == Signal::SIGTERM {
            let said = String::from_utf8_lossy(&ended.stderr).into_owned();
            assert!(said.contains("the same command carries on from there"), "{said}");
        }
        let done = number(&world, "SELECT sum(rows_done)::bigint FROM imports").await;
        assert_eq!(number(&world, "SELECT count(*) FROM entries").await, done, "whole steps or nothing");
        assert!(done < 20_000, "it was interrupted");
    }

    let end = run(fairlist(&arguments)).await;
    assert!(end.err.contains("carried on from there"), "{end:?}");
    assert!(end.succeeded().contains("20000 people are taken"));
    for (what, expected) in [
        ("SELECT count(*) FROM imports", 1),
        ("SELECT count(*) FROM entries", 20_000),
        ("SELECT max(arrival) FROM entries", 20_000),
        ("SELECT count(*) FROM audit WHERE act = 'imported'", 1),
        ("SELECT count(*) FROM events WHERE importing_until IS NOT NULL", 0),
    ] {
        assert_eq!(number(&world, what).await, expected, "{what}");
    }
    let wrong_order = "SELECT count(*) FROM entries e JOIN persons p ON p.id = e.person_id
                       WHERE p.name <> 'Person ' || e.arrival";
    assert_eq!(number(&world, wrong_order).await, 0);
    world.settle().await;
    // The tests' server does not look at its tables by itself, and what comes now reads all of this.
    sqlx::query("ANALYZE").execute(world.database.sql()).await.expect("analyzed");
}
