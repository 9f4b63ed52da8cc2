//! The audit as staff read it and take it along, and the queue as a table: whole, checkable, and inert in a spreadsheet.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::db::audit_chains::ChainCheck;
use fairlist::db::staff::DisableStaffOutcome;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::anchor::Anchor;
use fairlist::domain::audit::file::{self, Fault, Sound};
use fairlist::domain::ids::StaffId;
use fairlist::domain::import::{Context, Mapping, Plan, Table};
use fairlist::domain::role::Role;
use fairlist::domain::sheet;
use sqlx::Executor as _;

use crate::harness::desk::{Desk, says};
use crate::harness::site::Site;
use crate::harness::visitor::Answer;
use crate::harness::world::two_hours;

/// The cells of a table that was downloaded, as a program reads them that knows what makes them inert.
fn cells(answer: &Answer) -> Vec<Vec<String>> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    assert_eq!(answer.header("content-type"), "text/csv; charset=utf-8");
    let text = answer.body.strip_prefix('\u{FEFF}').expect("the mark by which spreadsheets know UTF-8");
    let mut reader = csv::ReaderBuilder::new().has_headers(false).from_reader(text.as_bytes());
    reader
        .records()
        .map(|record| record.expect("a line").iter().map(|cell| sheet::exact(cell).into_owned()).collect())
        .collect()
}

/// What anybody finds who verifies a downloaded audit.
fn verified(answer: &Answer, anchor: Option<&Anchor>) -> Result<Sound, Fault> {
    assert_eq!(answer.status, StatusCode::OK, "{}", answer.body);
    file::verify(answer.body.as_bytes(), anchor).expect("an audit").map_err(|unsound| unsound.fault)
}

fn anchor(answer: &Answer) -> Anchor {
    assert_eq!(answer.header("content-type"), "application/json", "{}", answer.body);
    Anchor::from_json(&answer.body).expect("an anchor")
}

#[tokio::test]
async fn the_audit_is_filtered_and_read_page_by_page() {
    let desk = Desk::with(two_hours(), 60).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut viewer = desk.at_work("Viola", Role::Viewer).await;
    let revoke = desk.path(&format!("/offers/{}/revoke", desk.world.live_offer(entries[0].id).await.id));
    agnes.get(&revoke).await;
    let note = [("after", "off_the_list"), ("reason", "other"), ("note", "Moved <b>away</b>")];
    agnes.submit(&revoke, &note).await;
    desk.world.settle().await;
    let (length, head) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");

    let page = viewer.get(&desk.path("/audit")).await;
    says(&page, &format!("{length} records, each sealed by the hash of the one before."));
    says(&page, &hex::encode(head));
    let count = async |query: &str| {
        let mut viewer = viewer.clone();
        let page = viewer.get(&desk.path(&format!("/audit?{query}"))).await;
        assert_eq!(page.status, StatusCode::OK, "{query}");
        page.texts("tbody tr").len()
    };
    assert_eq!(count("subject=offer").await, 3, "two were made, one was taken back");
    assert_eq!(count("act=offered&subject=offer").await, 2);
    assert_eq!(count("act=offered&subject=offer&actor=staff").await, 0);
    assert_eq!(count("act=offered&subject=offer&actor=system").await, 2);
    assert_eq!(count("act=added&actor=staff&subject=place").await, 60);
    for nonsense in ["subject=x", "actor=x", "subject='", "actor=%25"] {
        assert_eq!(count(nonsense).await, 0, "{nonsense}");
    }
    let taken_back = viewer.get(&desk.path("/audit?act=revoked&subject=offer")).await;
    says(&taken_back, "Agnes");
    says(&taken_back, "another reason “Moved <b>away</b>”");
    assert!(!taken_back.body.contains("<b>away"), "a note is text");

    // Every record once, the newest first, whatever the page.
    for _ in 0..60 {
        desk.world.rule(|policy| policy.batch_size += 1).await;
    }
    let (length, _) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");
    let mut next = Some(desk.path("/audit"));
    let mut seen: Vec<i64> = Vec::new();
    while let Some(path) = next {
        let page = viewer.get(&path).await;
        seen.extend(page.texts("tbody td.num").iter().map(|seq| seq.parse::<i64>().expect("a number")));
        next = page.attribute("a[rel=next]", "href");
    }
    assert_eq!(seen, (1..=length).rev().collect::<Vec<_>>());
    desk.world.settle().await;
}

#[tokio::test]
async fn the_audit_taken_along_can_be_checked_by_anybody_and_runs_nothing() {
    let desk = Desk::with(two_hours(), 2).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina", "Paul"]).await;
    desk.world.settle().await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    sqlx::query("UPDATE staff SET name = '=Agnes' WHERE name = 'Agnes'")
        .execute(desk.world.database.sql())
        .await
        .expect("renamed");
    let offer = desk.world.live_offer(entries[0].id).await;
    let revoke = desk.path(&format!("/offers/{}/revoke", offer.id));
    agnes.get(&revoke).await;
    let formula = "=cmd|' /C calc'!A0, \"quoted\"\n<script>alert(1)</script>";
    agnes.submit(&revoke, &[("after", "off_the_list"), ("reason", "other"), ("note", formula)]).await;
    desk.world.later(Duration::hours(2));
    desk.world.settle().await;

    // A viewer may: it is for whoever wants to check.
    let mut viewer = desk.at_work("Viola", Role::Viewer).await;
    let page = viewer.get(&desk.path("/audit")).await;
    let link = page.attribute("a[download]", "href").expect("a link to the table");
    let answer = viewer.get(&link).await;
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"spring-audit.csv\"");
    assert!(answer.body.contains("\"'=cmd|' /C calc'!A0, \"\"quoted\"\"\n<script>"), "{}", answer.body);
    let sound = verified(&answer, None).expect("sound");
    let (length, last) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");
    assert_eq!((sound.records, sound.head.to_vec(), sound.notes), (length, last, 1));
    let rows = cells(&answer);
    let noted: Vec<_> = rows[1..].iter().filter(|row| !row[16].is_empty()).collect();
    assert_eq!((noted[0][15].as_str(), noted[0][16].as_str()), ("=Agnes", formula));

    let mut stranger = desk.at_work_for("Other House", "Stranger", Role::Owner).await;
    for table in ["/audit.csv", "/queue.csv"] {
        assert_eq!(stranger.get(&desk.path(table)).await.status, StatusCode::NOT_FOUND, "{table}");
    }
    assert_eq!(viewer.get(&desk.path("/queue.csv")).await.status, StatusCode::FORBIDDEN);
    assert!(!viewer.get(&desk.path("/queue")).await.body.contains("queue.csv"));
}

/// Names of every kind open right in a spreadsheet, run nothing, and come back as they were.
/// (pretix/pretix's escaped tables; frePPLe/frepple#385; helipad/helipad#55)
#[tokio::test]
async fn the_queue_taken_along_runs_nothing_and_can_be_imported_again() {
    let desk = Desk::with(two_hours(), 0).await;
    let names =
        ["Žofia Ünlü", "李", "=1+1", "+49 30", "-5", "@SUM(A1)", "'quoted'", "O’Hara, \"Bill\"; 1", "محمد"];
    let mut entries = Vec::new();
    for (n, name) in names.iter().enumerate() {
        let entry = desk.world.waiting(&format!("Person{n}"), 1 + i32::try_from(n).expect("few") % 3).await;
        sqlx::query("UPDATE persons SET name = $2 WHERE id = $1")
            .bind(entry.person.0)
            .bind(name)
            .execute(desk.world.database.sql())
            .await
            .expect("renamed");
        desk.world.later(Duration::seconds(1));
        entries.push(entry);
    }
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let page = agnes.get(&desk.path("/queue")).await;
    let link = page.attribute("a[download]", "href").expect("a link to the table");
    let answer = agnes.get(&link).await;
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"spring-queue.csv\"");
    for inert in ["'=1+1", "'+49 30", "'-5", "'@SUM(A1)", "'quoted'", "\"O’Hara, \"\"Bill\"\"; 1\""] {
        assert!(answer.body.contains(&format!(",{inert},")), "{inert} in {}", answer.body);
    }
    let rows = cells(&answer);
    assert_eq!(rows[0][..6], ["Position", "Name", "Email", "Places", "Status", "Joined"]);
    for (n, name) in names.iter().enumerate() {
        let row = &rows[n + 1];
        let told = (row[0].as_str(), row[1].as_str(), row[2].as_str(), row[4].as_str());
        assert_eq!(
            told,
            ((n + 1).to_string().as_str(), *name, format!("person{n}@example.org").as_str(), "waiting")
        );
        assert_eq!(row[3], entries[n].party.to_string());
        assert_eq!(row[8], entries[n].id.to_string());
    }
    assert_eq!(cells(&agnes.get(&desk.path("/queue.csv?state=accepted")).await).len(), 1, "the head alone");

    // The same people in the same order, by another organization's import of this very file.
    let table = Table::open(answer.body.as_bytes()).expect("a table");
    let mapping = Mapping::guess(&table);
    let context = Context { zone: chrono_tz::Asia::Kathmandu, largest_party: 100, now: desk.world.now() };
    let plan = Plan::make(&table, &mapping, &context).expect("a plan");
    let planned: Vec<_> = plan.people.iter().map(|person| (person.name.as_str(), person.party)).collect();
    let had: Vec<_> = names.iter().copied().zip(entries.iter().map(|entry| entry.party)).collect();
    assert_eq!(planned, had);
    assert!(plan.refused.is_empty());
}

/// A table longer than what is read at a time is whole.
#[tokio::test]
async fn a_long_queue_is_taken_along_whole() {
    let desk = Desk::with(two_hours(), 0).await;
    let first = desk.world.waiting("First", 1).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let joins: Vec<_> = (0..2_300)
        .map(|n| fairlist::waitlist::join::Join {
            wants: Wants::default(),
            name: crate::harness::world::name(&format!("Person {n}")),
            email: crate::harness::world::email(&format!("person{n}@example.org")),
            party: 1,
            as_whom: fairlist::waitlist::join::JoinAs::Vouched(desk.world.actor()),
        })
        .collect();
    desk.world.waitlist.join(desk.world.event, &joins).await.expect("joined");
    let rows = cells(&mary.get(&desk.path("/queue.csv")).await);
    assert_eq!(rows.len(), 2_302);
    assert_eq!(rows[1][8], first.id.to_string());
    let positions: Vec<_> =
        rows[1..].iter().map(|row| row[0].parse::<usize>().expect("a position")).collect();
    assert_eq!(positions, (1..=2_301).collect::<Vec<_>>(), "everybody once, in order");
    let records = cells(&mary.get(&desk.path("/audit.csv")).await);
    let db = desk.world.database.db();
    let (length, _) = db.audit_head(desk.world.event).await.expect("the head");
    assert_eq!(i64::try_from(records.len()).expect("few"), length + 1);

    // Nor is the chain verified in one go; a page that has no more time says how far it came.
    let page = mary.get(&desk.path("/audit/verify")).await;
    says(&page, &format!("All {} records are sound", fairlist::domain::standing::grouped(length)));
    let hurried = db.check_chain(desk.world.event.into(), std::time::Duration::ZERO).await.expect("checked");
    assert_eq!(hurried, ChainCheck::Unfinished(0));
    desk.world.settle().await;
}

#[tokio::test]
async fn everybody_on_the_staff_may_verify_and_only_owners_take_anchors_along() {
    let desk = Desk::with(two_hours(), 2).await;
    desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let (length, head) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");
    for role in [Role::Viewer, Role::Agent, Role::Manager] {
        let mut visitor = desk.at_work(&format!("Staff{role}"), role).await;
        let list = visitor.get(&desk.path("/audit")).await;
        let page = visitor.get(&list.attribute("main a[href$=verify]", "href").expect("a link")).await;
        says(&page, &format!("All {length} records are sound"));
        says(&page, &hex::encode(&head));
        says(&page, "Owners can take one along.");
        for page in [list, page] {
            assert!(
                !page.body.contains("anchor.json\"") && !page.body.contains("audit/anchor\""),
                "{}",
                page.body
            );
            assert!(!page.body.contains("/staff/audit\""));
        }
        for path in [desk.path("/audit/anchor.json"), "/staff/audit/anchor.json".to_owned()] {
            assert_eq!(visitor.get(&path).await.status, StatusCode::FORBIDDEN, "{role} {path}");
        }
        for path in [desk.path("/audit/anchor"), "/staff/audit/anchor".to_owned()] {
            assert_eq!(visitor.post(&path, &[]).await.status, StatusCode::FORBIDDEN, "{role} {path}");
        }
    }

    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let page = owner.get(&desk.path("/audit/verify")).await;
    let link = page.attribute("a[href$='anchor.json']", "href").expect("a link to an anchor");
    let answer = owner.get(&link).await;
    assert_eq!(answer.header("content-disposition"), "attachment; filename=\"spring-anchor.json\"");
    let kept = anchor(&answer);
    assert_eq!((kept.seq, kept.hash.to_vec()), (length, head));
    // The chain grows, and still fits; what was cut off since does not.
    let early = owner.get(&desk.path("/audit.csv")).await;
    desk.world.later(Duration::minutes(1));
    desk.world.waiting("Paul", 1).await;
    desk.world.settle().await;
    let file = owner.get(&desk.path("/audit.csv")).await;
    assert!(verified(&file, Some(&kept)).expect("sound").records > length);
    let later = anchor(&owner.get(&link).await);
    assert!(matches!(verified(&early, Some(&later)), Err(Fault::CutOff { last, .. }) if last == length));
    let mut stranger = desk.at_work_for("Other House", "Stranger", Role::Owner).await;
    for below in ["/audit/verify", "/audit/anchor.json"] {
        assert_eq!(stranger.get(&desk.path(below)).await.status, StatusCode::NOT_FOUND, "{below}");
    }
}

/// Whoever writes to the database past the program is found out by the page.
#[tokio::test]
async fn what_was_done_to_the_chain_past_the_program_is_named() {
    let mut desk = Desk::with(two_hours(), 2).await;
    desk.world.database.broken_on_purpose();
    let entries = desk.world.all_waiting(&["Otto", "Nina", "Paul"]).await;
    desk.world.settle().await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let revoke = desk.path(&format!("/offers/{}/revoke", desk.world.live_offer(entries[0].id).await.id));
    agnes.get(&revoke).await;
    agnes.submit(&revoke, &[("after", "off_the_list"), ("reason", "other"), ("note", "Moved")]).await;
    desk.world.settle().await;
    let (last, _) = desk.world.database.db().audit_head(desk.world.event).await.expect("the head");
    let noted: i64 = sqlx::query_scalar("SELECT seq FROM audit_notes LIMIT 1")
        .fetch_one(desk.world.database.sql())
        .await
        .expect("a note");
    let refused =
        desk.world.database.sql().execute("DELETE FROM audit WHERE seq = 3").await.expect_err("refused");
    assert!(refused.to_string().contains("the audit is append-only"), "{refused}");
    desk.world
        .database
        .sql()
        .execute("ALTER TABLE audit DISABLE TRIGGER audit_rows")
        .await
        .expect("as owner");
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    says(&owner.get(&desk.path("/audit/verify")).await, &format!("All {last} records are sound"));

    for (sql, sentence, undo) in [
        (
            "UPDATE audit_notes SET note = 'Never said'",
            format!("The note of record {noted} is not the one that was written."),
            "UPDATE audit_notes SET note = 'Moved'",
        ),
        (
            "UPDATE audit SET to_state = 'booked' WHERE seq = 4",
            "Record 4 does not fit the one before it".to_owned(),
            "UPDATE audit SET to_state = 'open' WHERE seq = 4",
        ),
        (
            "UPDATE events SET audit_head = sha256('another')",
            format!("The head is not the hash of record {last}, the last"),
            "UPDATE events SET audit_head = (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1)",
        ),
        (
            "UPDATE events SET audit_seq = audit_seq - 1,
                audit_head = (SELECT hash FROM audit ORDER BY seq DESC OFFSET 1 LIMIT 1)",
            format!("The audit goes on to record {last}, and its head is record {}", last - 1),
            "UPDATE events SET audit_seq = audit_seq + 1,
                audit_head = (SELECT hash FROM audit ORDER BY seq DESC LIMIT 1)",
        ),
        (
            "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)",
            format!("The audit ends with record {}, and its head is record {last}", last - 1),
            "SELECT 1",
        ),
        ("DELETE FROM audit WHERE seq = 3", "Record 3 is missing.".to_owned(), "SELECT 1"),
    ] {
        desk.world.database.sql().execute(sql).await.expect("done past the program");
        let page = owner.get(&desk.path("/audit/verify")).await;
        assert!(page.text("[role=alert]").contains(&sentence), "{sentence} in {}", page.text("main"));
        assert!(!page.body.contains("audit/anchor\""), "no anchor of what is not sound");
        desk.world.database.sql().execute(undo).await.expect("undone");
    }
}

/// Who may sign in is on record, too: in the organization's own chain, since it is of no event.
#[tokio::test]
async fn whoever_is_added_to_the_staff_or_loses_access_is_on_the_organizations_record() {
    let site = Site::new().await;
    let ada = site.staff("ada@example.org", Role::Owner).await;
    let (bob, _) = site.add_staff("bob@example.org", Role::Agent).await;
    site.add_staff("bob@example.org", Role::Agent).await;
    let db = site.database.db();
    assert_eq!(db.disable_staff(bob).await.expect("disabled"), DisableStaffOutcome::Disabled);
    assert_eq!(db.disable_staff(bob).await.expect("asked"), DisableStaffOutcome::Nobody, "only once");
    assert_eq!(site.staff("bob@example.org", Role::Viewer).await, bob, "the same person is back");
    let on_record: Vec<String> = sqlx::query_scalar(
        "SELECT concat_ws(' ', seq, actor, act, subject, subject_id, coalesce(from_state, '-'), coalesce(to_state, '-'))
         FROM organization_audit ORDER BY seq",
    )
    .fetch_all(site.database.sql())
    .await
    .expect("records");
    let changed = |seq: i64, who: StaffId, from: &str, to: &str| {
        format!("{seq} operator access_changed staff {who} {from} {to}")
    };
    assert_eq!(
        on_record,
        [
            changed(1, ada, "-", "owner"),
            changed(2, bob, "-", "agent"),
            changed(3, bob, "agent", "agent"),
            changed(4, bob, "agent", "-"),
            changed(5, bob, "-", "viewer"),
        ]
    );
    let length: i64 = sqlx::query_scalar("SELECT audit_seq FROM organizations")
        .fetch_one(site.database.sql())
        .await
        .expect("the head");
    assert_eq!(length, 5);

    // Owners read it, and anybody can verify what they took along.
    let mut owner = site.signed_in("ada@example.org").await;
    says(&owner.get("/staff/audit").await, "All 5 records are sound");
    let file = owner.get("/staff/audit.csv").await;
    assert_eq!(file.header("content-disposition"), "attachment; filename=\"organization-audit.csv\"");
    let kept = anchor(&owner.get("/staff/audit/anchor.json").await);
    let sound = verified(&file, Some(&kept)).expect("sound");
    assert_eq!((sound.records, sound.event), (5, None));
    let mut bob = site.signed_in("bob@example.org").await;
    for path in ["/staff/audit", "/staff/audit.csv", "/staff/audit/anchor.json"] {
        assert_eq!(bob.get(path).await.status, StatusCode::FORBIDDEN, "{path}");
    }
}
