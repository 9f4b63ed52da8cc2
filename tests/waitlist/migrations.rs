//! Every migration is applied to a database that holds something: rows as the version before it kept them.
//!
//! `tests/data/samples/0001.sql` holds rows of every table of version 1, and so on: made once, when the version is
//! the newest, by `INSTA_UPDATE=always tests/run the_newest_sample`, and never changed after it was released.

use std::path::PathBuf;
use std::process::Command;

use fairlist::db::postgres;
use sqlx::{AssertSqlSafe, Connection as _, Executor as _, PgConnection};

use crate::harness::database::{MIGRATIONS, TestDatabase};
use crate::harness::sample;

fn sample_of(version: i64) -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/data/samples/{version:04}.sql"))
}

#[tokio::test]
async fn every_migration_keeps_what_is_there() {
    let database = TestDatabase::empty(sample::NOW).await;
    for migration in MIGRATIONS.iter() {
        let mut connection = PgConnection::connect_with(&database.options()).await.unwrap();
        let applied = connection.execute(migration.sql.clone()).await;
        applied
            .unwrap_or_else(|error| panic!("migration {} on the rows before it: {error}", migration.version));
        let path = sample_of(migration.version);
        let rows =
            std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        // As a backup is restored: counted already, and in any order.
        connection.execute("SET session_replication_role = replica").await.unwrap();
        let loaded = connection.execute(AssertSqlSafe(rows)).await;
        loaded.unwrap_or_else(|error| panic!("the sample of {}: {error}", migration.version));
        connection.close().await.unwrap();
    }
    assert_eq!(empty_tables(&database).await, [""; 0], "every table has a row in some sample");
    // That what was there is as sound as before is looked at when the database is dropped.
}

/// The sample of the newest version is what the small sound database of these tests looks like; writes it when
/// snapshots are being written.
#[tokio::test]
async fn the_newest_sample_is_there() {
    let newest = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap();
    let path = sample_of(newest);
    if std::env::var("INSTA_UPDATE").is_ok_and(|update| update == "always") {
        let database = TestDatabase::at(sample::NOW).await;
        sample::write(&database).await;
        database.sql().execute(REST).await.unwrap();
        assert_eq!(empty_tables(&database).await, [""; 0]);
        let nowhere = postgres::Settings { data: PathBuf::new(), binaries: None };
        let dumped = Command::new(postgres::client(&nowhere, "pg_dump").unwrap())
            .args(["--data-only", "--column-inserts", "--no-comments", "--exclude-table=_sqlx_migrations"])
            .arg(format!("--dbname={}", database.url()))
            .output()
            .unwrap();
        assert!(dumped.status.success(), "{dumped:?}");
        let text = String::from_utf8(dumped.stdout).unwrap();
        let rows: Vec<&str> = text
            .lines()
            .filter(|line| {
                let noise = ["--", "SET ", "SELECT pg_catalog.set_config", "\\"];
                !line.is_empty() && !noise.iter().any(|start| line.starts_with(start))
            })
            .collect();
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, rows.join("\n") + "\n").unwrap();
    }
    assert!(path.exists(), "{} is missing: see the module's documentation", path.display());
}

async fn empty_tables(database: &TestDatabase) -> Vec<String> {
    let tables: Vec<String> = sqlx::query_scalar(
        "SELECT tablename::text FROM pg_tables WHERE schemaname = 'public' AND tablename <> '_sqlx_migrations' ORDER BY 1",
    )
    .fetch_all(database.sql())
    .await
    .unwrap();
    let mut empty = Vec::new();
    for table in tables {
        let question = AssertSqlSafe(format!("SELECT EXISTS (SELECT FROM public.{table})"));
        let filled: bool = sqlx::query_scalar(question).fetch_one(database.sql()).await.unwrap();
        if !filled {
            empty.push(table);
        }
    }
    empty
}

/// A row for each table of which the small sound database has none.
const REST: &str = r#"
INSERT INTO api_keys (id, organization_id, name, scopes, token_hash, hint, made_by, made_at, expires_at, last_used_at)
VALUES (u('4e'), u('0a'), 'Ticket shop', '{events:read,entries:write}', sha256('key'), 'fl_key_abcdef', u('5a'),
        '2027-03-01 08:00Z', '2028-03-01 08:00Z', '2027-03-01 09:00Z');
INSERT INTO idempotency_keys (key_hash, body_hash, made_at, status, headers, body)
VALUES (sha256('once'), sha256('{}'), '2027-03-01 09:00Z', 200, '[["content-type", "application/json"]]', '{}');
INSERT INTO complaints (event_id, entry_id, number, about, words, made_at, answer, answered_at)
SELECT event_id, id, 1, 'passed_over', 'Why not me?', '2027-03-01 09:30Z', 'They came first.', '2027-03-01 09:40Z'
FROM entries WHERE event_id = u('e0') ORDER BY id LIMIT 1;
INSERT INTO customer_tokens (token_hash, person_id, made_at, expires_at)
VALUES (sha256('token'), u('aa'), '2027-03-01 09:00Z', '2027-03-31 09:00Z');
INSERT INTO capacity_events (event_id, source, id, digest, places, at)
VALUES (u('e0'), 'box office', '17', sha256('one place'), '{}', '2027-03-01 09:00Z');
INSERT INTO staff_links (token_hash, staff_id, created_at, expires_at, used_at)
VALUES (sha256('link'), u('5a'), '2027-03-01 08:00Z', '2027-03-08 08:00Z', '2027-03-01 08:30Z');
INSERT INTO rate_limits (subject, window_start, hits) VALUES (sha256('sign-in'), '2027-03-01 09:00Z', 1);
INSERT INTO contacts (id, organization_id, person_id, kind, value, canonical, confirmed_at, failing_since, failure, created_at)
VALUES (u('c1'), u('0a'), u('aa'), 'email', 'Ada+news@example.org', 'ada@example.org', '2027-03-01 09:11Z', NULL, NULL,
        '2027-03-01 09:10Z'),
       (u('c2'), u('0a'), u('ad'), 'email', 'dee@example.org', 'dee@example.org', '2027-03-01 09:40Z', NULL, NULL,
        '2027-03-01 09:40Z');
INSERT INTO codes (id, organization_id, contact_id, event_id, created_at, expires_at, tries, used_at)
VALUES (u('cd'), u('0a'), u('c1'), u('e0'), '2027-03-01 09:10Z', '2027-03-01 09:20Z', 1, '2027-03-01 09:11Z');
INSERT INTO booking_services (event_id, base_url, sealed_key, set_by, set_at)
VALUES (u('e0'), 'https://booking.example.org/', 'sealed', u('5a'), '2027-03-01 08:10Z');
INSERT INTO booking_circuits (organization_id, base_url, failures, open_until, last_error, last_error_at, last_success_at)
VALUES (u('0a'), 'https://booking.example.org/', 5, '2027-03-01 09:31Z', 'no answer in time', '2027-03-01 09:30Z',
        '2027-03-01 09:20Z');
INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, settled_at, actor, actor_id, reason,
                              tries, key_until)
VALUES (u('e0'), u('ba'), u('fa'), 'reserve', 1, 'fa-1', 'succeeded', '2027-03-01 09:20Z', '2027-03-01 09:20Z', 'person',
        u('aa'), 'accepted', 1, '2027-03-01 09:35Z');
INSERT INTO draw_chains (event_id, number, commitment, announced_at)
VALUES (u('e0'), 1, sha256('chain'), '2027-03-01 08:00Z');
INSERT INTO draws (event_id, number, policy_version, cause, reason, made_by, frozen_at, pool, pool_size, pool_digest,
                   chain, link, beacon, beacon_round)
VALUES (u('e0'), 1, 1, 'need', 'draw_needed', NULL, '2027-03-01 08:30Z', uuid_send(u('ea')), 1, sha256(uuid_send(u('ea'))),
        1, 1, 'drand', 33000000);
INSERT INTO kinds (event_id, id, attributes, words) VALUES (u('e0'), 1, '{"area": {"choice": "Balcony"}}', 'Area: Balcony');
INSERT INTO wants (event_id, id, wants, words, kinds)
VALUES (u('e0'), 1, '{"area": {"any_of": ["Balcony"]}}', 'Area: Balcony', '{1}');
INSERT INTO webhooks (organization_id, id, url, kinds, created_at, position)
VALUES (u('0a'), u('40'), 'https://shop.example/hooks', '{offer.pending}', '2027-03-01 09:00Z', 1);
INSERT INTO webhook_deliveries (organization_id, webhook_id, position, state, queued_at, attempts, ended_at)
VALUES (u('0a'), u('40'), 1, 'delivered', '2027-03-01 09:36Z', 1, '2027-03-01 09:36Z');
INSERT INTO webhook_attempts (organization_id, webhook_id, position, attempt, lease, started_at, finished_at, status)
VALUES (u('0a'), u('40'), 1, 1, u('cc'), '2027-03-01 09:36Z', '2027-03-01 09:36Z', 204);
INSERT INTO channels (channel, failures, since, paused_until, reason)
VALUES ('smtp', 2, '2027-03-01 09:50Z', '2027-03-01 10:05Z', 'connection refused');
INSERT INTO outages (channel, since, until) VALUES ('smtp', '2027-03-01 08:10Z', '2027-03-01 08:40Z');
INSERT INTO imports (event_id, id, file_name, uploaded_at, actor, actor_id, reading, digest, rows_total, rows_done, taken, already,
                     started_at, finished_at)
VALUES (u('e0'), u('1a'), 'list.csv', '2027-03-01 09:39Z', 'staff', u('5a'),
        '{"columns": [["name", 0], ["email", 1]], "zone": "Europe/Berlin", "largest_party": 100}', sha256('list.csv'), 2, 2, 1,
        '[[3, "accepted"]]', '2027-03-01 09:40Z', '2027-03-01 09:40Z');
"#;
