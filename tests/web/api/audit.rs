//! The audit by the API: rows that can be checked, the file that `fairlist verify` takes, heads, and what verifying finds.

use std::sync::Arc;

use fairlist::domain::audit::anchor::Anchor;
use fairlist::domain::audit::chain::Chain;
use fairlist::domain::audit::{FullRecord, Note, StoredRecord, file};
use fairlist::domain::key::Scope;
use fairlist::domain::role::Role;
use fairlist::messages;
use serde_json::{Value, json};

use super::Shop;
use crate::harness::database::secret;
use crate::harness::desk::Desk;
use crate::harness::program::Program;
use crate::harness::world::two_hours;

const AUDIT: &str = "/v1/events/spring/audit";

/// A record, as whoever checks a chain reads it from JSON.
fn read(row: &Value) -> FullRecord {
    let text = |field: &str| row[field].as_str().map(str::to_owned);
    let needed = |field: &str| text(field).unwrap_or_else(|| panic!("{field} in {row}"));
    let id = |field: &str| text(field).map(|id| id.parse().expect("an id"));
    let bytes = |text: String| hex::decode(text).expect("hexadecimal digits");
    FullRecord {
        record: StoredRecord {
            seq: row["seq"].as_i64().expect("a number"),
            at: needed("at").parse().expect("an instant"),
            actor: needed("actor"),
            actor_id: id("actor_id"),
            act: needed("act"),
            subject: needed("subject"),
            subject_id: needed("subject_id").parse().expect("an id"),
            from_state: text("from"),
            to_state: text("to"),
            reason: needed("reason"),
            entry_id: id("entry"),
            order_key: text("order_key"),
            policy_version: row["policy_version"]
                .as_i64()
                .map(|version| i32::try_from(version).expect("small")),
            note_digest: text("note_digest").map(bytes),
        },
        hash: bytes(needed("hash")),
        by: text("by"),
        note: text("note").map(|text| Note { salt: bytes(needed("note_salt")), text }),
    }
}

/// Every row of a chain, page by page.
async fn rows(program: &Program, path: &str) -> Vec<Value> {
    let (mut rows, mut after) = (Vec::new(), String::new());
    for _ in 0..50 {
        let page = program.get(&format!("{path}?limit=7{after}")).await.good();
        rows.extend(page["items"].as_array().expect("a list").iter().cloned());
        match page["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => return rows,
        }
    }
    panic!("the pages of {path} do not end");
}

async fn with_a_past() -> Shop {
    let shop = Shop::with(two_hours(), 1).await;
    shop.world.all_waiting(&["Ann", "Ben"]).await;
    shop.world.settle().await;
    let offer = shop.program.get("/v1/resources/spring/offers").await.good()["items"][0]["id"].clone();
    let revoke = json!({"reason": "other", "note": "=Fell ill, \"so\" they say"});
    shop.program.post(&format!("/v1/offers/{}:revoke", offer.as_str().expect("an id")), revoke).await.good();
    shop
}

#[tokio::test]
async fn rows_have_all_that_is_hashed_and_the_table_is_the_pages() {
    let shop = with_a_past().await;
    let reader = shop.with_scopes(&[Scope::AuditRead]).await;
    let rows = rows(&reader, AUDIT).await;
    let mut chain = Chain::START;
    for row in &rows {
        chain.follow_full(&read(row)).expect("a sound row");
    }
    let noted = rows.iter().find(|row| row["note"].is_string()).expect("a note");
    assert_eq!((&noted["note"], &noted["by"]), (&json!("=Fell ill, \"so\" they say"), &json!("Ticket shop")));
    assert!(noted["note_digest"].is_string());
    let anchored = reader.get(&format!("{AUDIT}/anchor")).await;
    let anchor = Anchor::from_json(&String::from_utf8_lossy(&anchored.bytes)).expect("an anchor as it is");
    assert_eq!((anchor.seq, anchor.hash), (chain.seq, chain.head));

    let table = reader.get(&format!("{AUDIT}.csv")).await;
    assert_eq!(table.header("content-type"), "text/csv; charset=utf-8");
    let sound = file::verify(table.bytes.as_slice(), Some(&anchor)).expect("readable").expect("sound");
    assert_eq!(usize::try_from(sound.records).expect("few"), rows.len());
    // The page's filters.
    let mine = reader.get(&format!("{AUDIT}?actor=key&subject=offer&act=revoked")).await.good();
    assert_eq!(mine["items"], json!([noted]));
    assert_eq!(reader.get(&format!("{AUDIT}?actor=operator")).await.good()["items"], json!([]));
    reader.get(&format!("{AUDIT}?act=nonsense")).await.refused(400, "bad_request");

    let mail = messages::Settings::new("http://localhost".parse().expect("a URL"), secret(), None);
    let Shop { world, router, .. } = shop;
    let desk = Desk { world, router, mail: Arc::new(mail) };
    let mut vera = desk.at_work("Vera", Role::Viewer).await;
    let page = vera.get(&desk.path("/audit.csv")).await;
    assert_eq!(page.body.as_bytes(), table.bytes, "byte for byte");
}

#[tokio::test]
async fn verifying_finds_what_was_altered_and_names_it() {
    let mut shop = with_a_past().await;
    shop.world.database.broken_on_purpose();
    let path = format!("{AUDIT}/verification");
    let reader = shop.with_scopes(&[Scope::AuditRead]).await;
    let sound = reader.get(&path).await.good();
    let head = reader.get(&format!("{AUDIT}/anchor")).await.good();
    assert_eq!(
        (&sound["sound"], &sound["complete"], &sound["at"]),
        (&json!(true), &json!(true), &json!(null))
    );
    assert_eq!((&sound["records"], &sound["head"]), (&head["seq"], &head["hash"]));
    for sql in [
        "ALTER TABLE audit DISABLE TRIGGER USER",
        "UPDATE audit SET reason = 'customer_asked' WHERE seq = 3",
        "ALTER TABLE audit ENABLE TRIGGER USER",
    ] {
        sqlx::query(sql).execute(shop.world.database.sql()).await.expect(sql);
    }
    let altered = reader.get(&path).await.good();
    assert_eq!(
        (&altered["sound"], &altered["at"], &altered["records"]),
        (&json!(false), &json!(3), &json!(2))
    );
    assert!(altered["fault"].as_str().expect("a sentence").contains('3'), "{altered}");
}

#[tokio::test]
async fn an_organizations_own_audit_has_a_scope_of_its_own() {
    let shop = Shop::with(two_hours(), 0).await;
    shop.program.post("/v1/webhooks", json!({"url": "https://shop.example/hooks"})).await.good();
    let reader = shop.with_scopes(&[Scope::OrganizationAuditRead]).await;
    let rows = rows(&reader, "/v1/audit").await;
    let mut chain = Chain::START;
    for row in &rows {
        chain.follow_full(&read(row)).expect("a sound row");
    }
    assert!(rows.iter().any(|row| row["subject"] == "webhook" && row["actor"] == "key"));
    let anchored = reader.get("/v1/audit/anchor").await;
    let anchor = Anchor::from_json(&String::from_utf8_lossy(&anchored.bytes)).expect("an anchor");
    let table = reader.get("/v1/audit.csv").await;
    let sound = file::verify(table.bytes.as_slice(), Some(&anchor)).expect("readable").expect("sound");
    assert_eq!(usize::try_from(sound.records).expect("few"), rows.len());
    assert_eq!(reader.get("/v1/audit/verification").await.good()["sound"], true);
    let other = shop.with_scopes(&[Scope::AuditRead]).await;
    for path in ["/v1/audit", "/v1/audit.csv", "/v1/audit/anchor", "/v1/audit/verification"] {
        other.get(path).await.refused(403, "scope_missing");
    }
    let stranger = shop.stranger().await;
    for path in ["", ".csv", "/anchor", "/verification"] {
        reader.get(&format!("{AUDIT}{path}")).await.refused(403, "scope_missing");
        stranger.get(&format!("{AUDIT}{path}")).await.refused(404, "not_found");
    }
    // What was done outside events is each organization's own.
    let theirs = stranger.get("/v1/audit?limit=200").await.good();
    assert!(theirs["items"].as_array().expect("a list").iter().all(|row| !rows.contains(row)));
}
