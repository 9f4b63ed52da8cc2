//! A list from elsewhere joins a list: what is written, what is not, and what an interruption leaves.

use chrono::{DateTime, TimeDelta, Utc};
use fairlist::db::Db;
use fairlist::db::import::Import;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::event::EventState;
use fairlist::domain::ids::{EntryId, EventId, ImportId};
use fairlist::domain::import::{Field, Mapping, Plan, PlannedState, Reading, Table};
use fairlist::domain::policy::Policy;
use fairlist::waitlist::import::{self, Importer, Progress, Request, StartOutcome, Tick};
use uuid::Uuid;

use crate::harness::database::TestDatabase;
use crate::harness::world::{World, reason, two_hours};

const PRETIX_EXPORT: &[u8] = include_bytes!("../data/pretix-waitinglist.csv");
const NOW: &str = "2026-11-20T12:00:00Z";

/// A record for each person, and one for the whole.
const RECORDS: &str = "SELECT count(*) FROM audit WHERE reason = 'imported'";

/// A published event in Berlin with an open, passive list and no places.
async fn a_house() -> World {
    let world = World::on(TestDatabase::at(NOW).await, Policy::first(), 0).await;
    world.settle().await;
    world
}

/// A file as somebody is about to import it.
struct File {
    bytes: Vec<u8>,
    reading: Reading,
    plan: Plan,
}

fn file(bytes: &[u8]) -> File {
    let columns: Vec<(Field, usize)> =
        Mapping::guess(&Table::open(bytes).expect("a table")).columns().collect();
    let reading = Reading { columns, zone: chrono_tz::Europe::Berlin, largest_party: 10 };
    let plan = reading.plan(bytes, NOW.parse().expect("an instant")).expect("a plan");
    File { bytes: bytes.to_vec(), reading, plan }
}

impl File {
    fn request(&self) -> Request<'_> {
        Request {
            file_name: "list.csv",
            bytes: &self.bytes,
            reading: &self.reading,
            plan: &self.plan,
            upload: None,
            tell: false,
            by: Actor::Operator,
        }
    }

    async fn start(&self, db: &Db, event: EventId) -> ImportId {
        match import::start(db, event, &self.request()).await.expect("started") {
            StartOutcome::Started(id) => id,
            other => panic!("{other:?}"),
        }
    }

    async fn import(&self, db: &Db, event: EventId) -> Import {
        let id = self.start(db, event).await;
        let end = import::run(&db.for_workers(), event, id, &self.plan, |_| {}).await.expect("run");
        assert!(end.finished);
        db.import(event, id).await.expect("the import")
    }
}

async fn number(database: &TestDatabase, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(database.sql()).await.expect(sql)
}

/// Whoever is brought in together keeps the order they had. (thewca/worldcubeassociation.org#10749)
#[tokio::test]
async fn the_real_export_becomes_a_list_in_order_and_nobody_is_written_to() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let file = file(PRETIX_EXPORT);

    let done = file.import(database.db(), event).await;

    assert_eq!((done.rows_total, done.rows_done, done.taken), (1_178, 1_178, 1_178));
    assert_eq!(done.already, 0);
    let states: Vec<(String, i64)> =
        sqlx::query_as("SELECT state, count(*) FROM entries GROUP BY state ORDER BY state")
            .fetch_all(database.sql())
            .await
            .expect("states");
    assert_eq!(states, [("expired".to_owned(), 20), ("waiting".to_owned(), 1_158)]);
    for (what, expected) in [
        ("SELECT count(*) FROM entries WHERE eligible", 1_158),
        ("SELECT count(*) FROM entries WHERE vouched AND confirmed_at IS NULL AND source = 'import'", 1_178),
        ("SELECT count(*) FROM entries WHERE priority > 0", 81),
        ("SELECT count(*) FROM persons", 1_178),
        ("SELECT count(*) FROM contacts WHERE kind = 'email' AND confirmed_at IS NULL", 1_178),
        ("SELECT count(*) FROM contacts WHERE kind = 'phone'", 399),
        ("SELECT count(*) FROM persons WHERE name = 'John Smith'", 2),
        ("SELECT count(DISTINCT language) FROM persons", 10),
        ("SELECT count(*) FROM messages", 0),
        ("SELECT count(*) FROM bookings", 0),
        // No gaps: arrivals are 1 … n, ranks follow them, and the audit has a record for each and one for all.
        ("SELECT max(arrival) - min(arrival) + 1 FROM entries", 1_178),
        ("SELECT count(*) FROM entries WHERE rank = arrival << 20", 1_178),
        ("SELECT next_arrival FROM events", 1_179),
        ("SELECT next_rank FROM events", 1_179),
        (RECORDS, 1_179),
        (
            "SELECT count(*) FROM audit WHERE act = 'joined' AND subject = 'entry' AND reason = 'imported'",
            1_178,
        ),
        ("SELECT count(*) FROM audit WHERE act = 'imported' AND subject = 'event' AND actor = 'operator'", 1),
        ("SELECT count(*) FROM pass_requests WHERE requested_at IS NOT NULL", 1),
        ("SELECT count(*) FROM events WHERE importing_until IS NULL", 1),
        // The order is that of time, ties by place in the file; nobody waits behind somebody who joined later.
        (
            "SELECT count(*) FROM (SELECT joined_at < lag(joined_at) OVER (ORDER BY arrival) AS w FROM entries) x WHERE w",
            0,
        ),
    ] {
        assert_eq!(number(database, what).await, expected, "{what}");
    }
    let first: Vec<(String, DateTime<Utc>)> = sqlx::query_as(
        "SELECT p.name, e.joined_at FROM entries e JOIN persons p ON p.id = e.person_id ORDER BY e.arrival LIMIT 3",
    )
    .fetch_all(database.sql())
    .await
    .expect("the first");
    let names: Vec<_> = first.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["王桂珍", "Cô Thảo Vũ", "Linda Baldwin-Allen"]);
    assert_eq!(first[0].1.to_rfc3339(), "2026-11-02T09:00:00+00:00");
    let pat: String = sqlx::query_scalar(
        "SELECT name FROM persons JOIN contacts ON person_id = persons.id WHERE value = 'pat.obrien@example.com'",
    )
    .fetch_one(database.sql())
    .await
    .expect("Pat");
    assert_eq!(pat, "O'Brien, \"Pat\" Junior");
}

#[tokio::test]
async fn an_import_tells_the_planner_how_long_the_lists_have_become() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    for table in ["persons", "contacts", "entries"] {
        // Nobody else may have measured them.
        sqlx::query(sqlx::AssertSqlSafe(format!("ALTER TABLE {table} SET (autovacuum_enabled = false)")))
            .execute(database.sql())
            .await
            .expect(table);
    }

    file(PRETIX_EXPORT).import(database.db(), event).await;

    let known: Vec<(String, f32)> = sqlx::query_as(
        "SELECT relname::text, reltuples FROM pg_class
         WHERE oid IN ('persons'::regclass, 'contacts'::regclass, 'entries'::regclass) ORDER BY relname",
    )
    .fetch_all(database.sql())
    .await
    .expect("the catalogue");
    assert_eq!(known.len(), 3);
    for (table, rows) in known {
        // Measured whenever about as many were done as in all before: at least half are known, whatever the steps.
        assert!(rows >= 1_178.0 / 2.0, "the planner takes {table} to have {rows} rows");
    }
}

#[tokio::test]
async fn the_same_file_twice_does_nothing_the_second_time() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let file = file(PRETIX_EXPORT);
    let first = file.import(database.db(), event).await;

    let second = import::start(database.db(), event, &file.request()).await.expect("asked");

    let StartOutcome::AlreadyDone(done) = second else { panic!("{second:?}") };
    assert_eq!(done.id, first.id);
    assert_eq!(number(database, "SELECT count(*) FROM entries").await, 1_178);
    assert_eq!(number(database, RECORDS).await, 1_179);
    assert_eq!(number(database, "SELECT count(*) FROM events WHERE importing_until IS NULL").await, 1);
}

#[tokio::test]
async fn the_same_people_in_another_file_are_named_and_nothing_is_written_twice() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    file(PRETIX_EXPORT).import(database.db(), event).await;
    let mut again = PRETIX_EXPORT.to_vec();
    again.extend(b"\n");
    let again = file(&again);

    let listed = database
        .db()
        .listed_among(&database.db().event(event).await.expect("the event"), &again.plan.people)
        .await
        .expect("a preview");
    let done = again.import(database.db(), event).await;

    assert_eq!((done.taken, done.already), (0, 1_178));
    let before = database.db().listed_before(event, done.id).await.expect("who was listed");
    assert_eq!(before[0], (2, EntryState::Waiting));
    assert_eq!(listed.len(), 1_178, "the preview said so before");
    for (what, expected) in [
        ("SELECT count(*) FROM entries", 1_178),
        ("SELECT count(*) FROM persons", 1_178),
        ("SELECT count(*) FROM contacts", 1_577),
        ("SELECT next_arrival FROM events", 1_179),
    ] {
        assert_eq!(number(database, what).await, expected, "{what}");
    }
}

#[tokio::test]
async fn whoever_left_is_not_brought_back_in_whatever_state() {
    let world = World::on(TestDatabase::at(NOW).await, two_hours(), 0).await;
    let (database, event) = (&world.database, world.event);
    file(b"name,email\nAnn,ann@example.org\nBob,bob@example.org\nCem,cem@example.org\nDan,dan@example.org\n")
        .import(database.db(), event)
        .await;
    let entries: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM entries ORDER BY arrival")
        .fetch_all(database.sql())
        .await
        .expect("entries");
    let [ann, bob, cem] = [0, 1, 2].map(|at: usize| EntryId(entries[at]));
    world.waitlist.leave(event, ann, world.actor()).await.expect("Ann leaves");
    world.waitlist.remove(event, bob, world.actor(), &reason()).await.expect("Bob is removed");
    world.add_places(1).await;
    world.settle().await;
    let (offer, cem) = (world.live_offer(cem).await, world.entry(cem).await);
    world.accept(offer.id, cem.person).await;

    let later = file(
        b"name,email\nEve,eve@example.org\nAnn,ANN+new@example.org\nBob,bob@example.org\nCem,cem@example.org\n\
          Dan,dan@example.org\n",
    );
    let done = later.import(database.db(), event).await;

    assert_eq!(done.taken, 1, "Eve");
    let before = database.db().listed_before(event, done.id).await.expect("who was listed");
    assert_eq!(
        before,
        [
            (3, EntryState::Withdrawn),
            (4, EntryState::Removed),
            (5, EntryState::Accepted),
            (6, EntryState::Waiting)
        ]
    );
    assert_eq!(number(database, "SELECT count(*) FROM entries WHERE state = 'waiting'").await, 2);
    assert_eq!(number(database, "SELECT max(arrival) FROM entries").await, 5);
    let mut plan = later.plan.clone();
    plan.leave_out(&before);
    assert_eq!(plan.people.len() + plan.refused.len(), plan.rows, "every row is accounted for");
    assert_eq!(
        plan.refused[0].what.to_string(),
        "Has an entry on this list already (withdrawn); it stays as it is."
    );
}

#[tokio::test]
async fn an_interrupted_import_goes_on_where_it_was_and_passes_wait_meanwhile() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let file = file(PRETIX_EXPORT);
    let db = database.db();
    let id = file.start(db, event).await;
    let first = import::step(db, event, id, &file.plan, 400).await.expect("a step");
    assert_eq!((first.done, first.total, first.taken, first.finished), (400, 1_178, 400, false));
    let waits = db.event(event).await.expect("the event").importing_until.expect("passes wait");
    assert_eq!(waits - database.clock().local(), TimeDelta::seconds(60));
    assert_eq!(
        number(database, "SELECT count(*) FROM pass_requests WHERE requested_at IS NOT NULL").await,
        0,
        "not yet"
    );

    // Killed here. The same command again:
    let StartOutcome::Resumed(resumed) = import::start(db, event, &file.request()).await.expect("asked")
    else {
        panic!("not resumed")
    };
    assert_eq!((resumed.id, resumed.rows_done), (id, 400));
    let mut steps = Vec::new();
    let end = import::run(db, event, id, &file.plan, |progress: &Progress| steps.push(progress.done))
        .await
        .expect("run");

    assert_eq!((end.done, end.taken, end.finished), (1_178, 1_178, true));
    assert!(steps[0] > 400, "it did not begin again: {steps:?}");
    for (what, expected) in [
        ("SELECT count(*) FROM entries", 1_178),
        ("SELECT count(DISTINCT arrival) FROM entries WHERE arrival BETWEEN 1 AND 1178", 1_178),
        (RECORDS, 1_179),
        ("SELECT count(*) FROM pass_requests WHERE requested_at IS NOT NULL", 1),
        ("SELECT count(*) FROM events WHERE importing_until IS NULL", 1),
    ] {
        assert_eq!(number(database, what).await, expected, "{what}");
    }
    // And a step of a process that did not notice the end:
    let late = import::step(db, event, id, &file.plan, 400).await.expect("a step");
    assert!(late.finished && late.step == 0);
    assert_eq!(number(database, RECORDS).await, 1_179);
}

#[tokio::test]
async fn a_pass_waits_for_the_import_and_then_offers_to_its_first() {
    let world = World::on(TestDatabase::at(NOW).await, two_hours(), 1).await;
    let (db, event, file) = (world.database.db(), world.event, file(PRETIX_EXPORT));
    let id = file.start(db, event).await;
    import::step(db, event, id, &file.plan, 400).await.expect("a step");

    assert_eq!(world.pass().await.outcome, PassOutcome::Importing);
    import::run(db, event, id, &file.plan, |_| {}).await.expect("run");
    world.settle().await;

    let offered: Vec<String> = sqlx::query_scalar(
        "SELECT p.name FROM entries e JOIN persons p ON p.id = e.person_id WHERE e.state = 'offered'",
    )
    .fetch_all(world.database.sql())
    .await
    .expect("who is offered");
    assert_eq!(offered, ["王桂珍"]);
}

#[tokio::test]
async fn two_processes_that_run_the_same_import_share_the_work() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let file = file(PRETIX_EXPORT);
    let db = database.db();
    let id = file.start(db, event).await;
    let run =
        || async { while !import::step(db, event, id, &file.plan, 50).await.expect("a step").finished {} };

    tokio::join!(run(), run(), run());

    assert_eq!(number(database, "SELECT count(*) FROM entries").await, 1_178);
    assert_eq!(number(database, "SELECT max(arrival) FROM entries").await, 1_178);
    assert_eq!(number(database, "SELECT count(*) FROM audit WHERE act = 'imported'").await, 1);
    let in_order = "SELECT count(*) FROM (SELECT joined_at < lag(joined_at) OVER (ORDER BY arrival) AS wrong
                    FROM entries) AS pairs WHERE wrong";
    assert_eq!(number(database, in_order).await, 0);
}

#[tokio::test]
async fn one_import_at_a_time_and_none_into_an_event_that_ended() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let db = database.db();
    let (one, two) = (file(PRETIX_EXPORT), file(b"name,email\nAnn,ann@example.org\n"));
    one.start(db, event).await;

    let refused = import::start(db, event, &two.request()).await.expect("asked");
    assert_eq!(refused, StartOutcome::AnotherRuns);

    // The first shows no sign of life for longer than its lease.
    database.clock().set(database.clock().local() + TimeDelta::seconds(61));
    two.import(db, event).await;

    sqlx::query("UPDATE events SET state = 'cancelled'").execute(database.sql()).await.expect("cancelled");
    let three = file(b"name,email\nBob,bob@example.org\n");
    let refused = import::start(db, event, &three.request()).await.expect("asked");
    assert_eq!(refused, StartOutcome::EventEnded(EventState::Cancelled));
    assert_eq!(number(database, "SELECT count(*) FROM entries").await, 1);
}

#[tokio::test]
async fn a_person_known_from_another_event_is_the_same_person() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let (person, now) = (Uuid::from_u128(7), database.clock().local());
    sqlx::query(
        "INSERT INTO persons (id, organization_id, name, created_at) VALUES ($1, $2, 'Ann Known', $3)",
    )
    .bind(person)
    .bind(world.organization.0)
    .bind(now)
    .execute(database.sql())
    .await
    .expect("a person");
    sqlx::query(
        "INSERT INTO contacts (id, organization_id, person_id, kind, value, canonical, created_at, failing_since, failure)
         VALUES ($1, $2, $1, 'email', 'Ann@Example.org', 'ann@example.org', $3, $3, 'mailbox gone')",
    )
    .bind(person)
    .bind(world.organization.0)
    .bind(now)
    .execute(database.sql())
    .await
    .expect("a contact that fails");

    file(b"name,email,phone\nAnn New,ann+again@example.org,+49 151 2215279\n")
        .import(database.db(), event)
        .await;

    for (what, expected) in [
        ("SELECT count(*) FROM persons WHERE name = 'Ann Known'", 1),
        ("SELECT count(*) FROM persons", 1),
        ("SELECT count(*) FROM contacts WHERE kind = 'phone'", 1),
        // Nobody can be reached there: waiting, but passed over with that reason.
        ("SELECT count(*) FROM entries WHERE state = 'waiting' AND contact_problem AND NOT eligible", 1),
    ] {
        assert_eq!(number(database, what).await, expected, "{what}");
    }
}

#[tokio::test]
async fn those_who_wait_are_told_when_asked_for_and_once() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let file = file(b"name,email,status\nAnn,ann@example.org,waiting\nBob,bob@example.org,expired\n");
    let request = Request { tell: true, ..file.request() };

    let StartOutcome::Started(id) = import::start(database.db(), event, &request).await.expect("asked")
    else {
        panic!("not started")
    };
    import::run(database.db(), event, id, &file.plan, |_| {}).await.expect("run");

    assert_eq!(number(database, "SELECT count(*) FROM messages WHERE occasion = 'joined'").await, 1);
    assert_eq!(number(database, "SELECT count(*) FROM messages").await, 1, "an expired entry is history");
}

#[tokio::test]
async fn an_uploaded_file_is_carried_on_by_a_worker_and_forgotten_after_a_week() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    let db = database.db();
    let file = file(PRETIX_EXPORT);
    let upload =
        db.keep_upload(event, "list.csv", PRETIX_EXPORT, Actor::Operator).await.expect("kept").expect("room");
    let mut worker = Importer::new(db);
    assert_eq!(worker.tick().await.expect("a tick"), Tick::Idle, "not before it is started");
    let request = Request { upload: Some(upload), ..file.request() };
    let started = import::start(db, event, &request).await.expect("asked");
    assert_eq!(started, StartOutcome::Started(upload));

    // The process that began dies after a step; its lease holds the others off for a moment, and passes for longer.
    import::step(db, event, upload, &file.plan, 300).await.expect("a step");
    assert_eq!(worker.tick().await.expect("a tick"), Tick::Idle);
    database.clock().set(database.clock().local() + TimeDelta::seconds(21));
    let waits = db.event(event).await.expect("the event").importing_until.expect("passes wait");
    assert!(waits > database.clock().local());
    let Tick::Stepped(first) = worker.tick().await.expect("a tick") else { panic!("not taken over") };
    assert!(first.done > 300 && !first.finished, "{first:?}");

    // Told to stop, it lets go; another goes on at once.
    worker.let_go().await.expect("let go");
    let mut other = Importer::new(db);
    let mut last = other.tick().await.expect("a tick");
    while let Tick::Stepped(Progress { finished: false, .. }) = last {
        last = other.tick().await.expect("a tick");
    }
    assert!(matches!(last, Tick::Stepped(Progress { done: 1_178, taken: 1_178, .. })), "{last:?}");
    assert_eq!(number(database, "SELECT count(*) FROM entries").await, 1_178);

    // The same file, uploaded again, leads to the import that was.
    let again =
        db.keep_upload(event, "list.csv", PRETIX_EXPORT, Actor::Operator).await.expect("kept").expect("room");
    let request = Request { upload: Some(again), ..file.request() };
    assert!(matches!(
        import::start(db, event, &request).await.expect("asked"),
        StartOutcome::AlreadyDone(done) if done.id == upload
    ));
    assert!(db.import(event, again).await.is_err(), "the second copy is gone");

    let never = db
        .keep_upload(event, "never.csv", b"name,email\n", Actor::Operator)
        .await
        .expect("kept")
        .expect("room");
    database.clock().set(database.clock().local() + TimeDelta::days(8));
    assert_eq!(worker.tick().await.expect("a tick"), Tick::Idle);
    assert_eq!(db.import_content(event, upload).await.expect("the import stays"), None);
    assert!(db.import(event, never).await.is_err(), "what was never started is gone");
}

#[tokio::test]
async fn people_of_a_file_go_behind_those_who_are_listed_already() {
    let world = a_house().await;
    let (database, event) = (&world.database, world.event);
    file(b"name,email\nFirst,first@example.org\n").import(database.db(), event).await;
    let file = file(b"name,email,date\nOld,old@example.org,2020-01-01\n");
    assert_eq!(file.plan.count(PlannedState::Waiting), 1);

    file.import(database.db(), event).await;

    let names: Vec<String> = sqlx::query_scalar(
        "SELECT p.name FROM entries e JOIN persons p ON p.id = e.person_id ORDER BY e.band, e.round, e.rank",
    )
    .fetch_all(database.sql())
    .await
    .expect("the line");
    assert_eq!(names, ["First", "Old"]);
}
