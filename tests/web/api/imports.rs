//! A list from elsewhere, brought in by a program: kept, looked at, started once, watched.

use fairlist::domain::key::Scope;
use fairlist::waitlist::import::{Importer, Tick};
use serde_json::{Value, json};

use super::{Shop, id};
use crate::harness::world::two_hours;

const IMPORTS: &str = "/v1/events/spring/imports";
const PRETIX_EXPORT: &[u8] = include_bytes!("../../data/pretix-waitinglist.csv");

async fn carried_on(shop: &Shop) {
    let mut importer = Importer::new(shop.world.database.db());
    while let Tick::Stepped(_) = importer.tick().await.expect("a tick") {}
}

async fn number(shop: &Shop, sql: &'static str) -> i64 {
    sqlx::query_scalar(sql).fetch_one(shop.world.database.sql()).await.expect(sql)
}

#[tokio::test]
async fn a_real_export_is_looked_at_started_and_reported() {
    let shop = Shop::with(two_hours(), 0).await;
    let program = shop.program.once("file");
    let path = format!("{IMPORTS}?file_name=C:\\lists\\my.csv");
    let kept = program.upload(&path, PRETIX_EXPORT).await.good();
    assert_eq!((&kept["file_name"], &kept["state"]), (&json!("my.csv"), &json!("uploaded")));
    assert_eq!(program.upload(&path, PRETIX_EXPORT).await.good(), kept, "the same file, kept once");
    let import = format!("{IMPORTS}/{}", id(&kept));

    let seen = shop.program.get(&format!("{import}/preview")).await.good();
    assert_eq!(
        (&seen["waiting"], &seen["expired"], &seen["refused"]),
        (&json!(1_158), &json!(20), &json!(22))
    );
    assert_eq!(
        (&seen["recognised"], &seen["problem"], &seen["rows"]),
        (&json!(true), &json!(null), &json!(1_200))
    );
    assert_eq!(seen["first"][0]["name"], "王桂珍");
    assert_eq!(seen["remarks"], 21);
    // Read otherwise, it is another list; in columns that it does not have, none.
    let otherwise = shop.program.get(&format!("{import}/preview?name=1&email=1")).await.good();
    assert_eq!(otherwise["read_as"], json!({"name": 1, "email": 1}));
    let wrong = shop.program.get(&format!("{import}/preview?name=1&email=99")).await.good();
    assert!(wrong["problem"].is_string() && wrong["waiting"] == 0);
    let wrong =
        shop.program.post(&format!("{import}:start"), json!({"columns": {"name": 1, "email": 99}})).await;
    wrong.refused(400, "invalid");
    assert_eq!(number(&shop, "SELECT count(*) FROM entries").await, 0, "nothing is written by looking");

    let started = shop.program.post(&format!("{import}:start"), json!({})).await.good();
    assert_eq!(
        (&started["state"], &started["people"], &started["tell"]),
        (&json!("running"), &json!(1_178), &json!(false))
    );
    shop.program.get(&format!("{import}/preview")).await.refused(409, "wrong_state");
    carried_on(&shop).await;
    let done = shop.program.get(&import).await.good();
    assert_eq!(
        (&done["state"], &done["seen_to"], &done["taken"]),
        (&json!("done"), &json!(1_178), &json!(1_178))
    );
    assert_eq!(shop.program.get(IMPORTS).await.good(), json!([done]));
    assert_eq!(number(&shop, "SELECT count(*) FROM messages").await, 0, "nobody was told");
    let by_key = "SELECT count(*) FROM audit WHERE actor = 'key' AND reason = 'imported'";
    assert_eq!(number(&shop, by_key).await, 1_179);
    let report = shop.program.get(&format!("{import}/report.csv")).await;
    assert_eq!(report.header("content-type"), "text/csv; charset=utf-8");
    assert_eq!(String::from_utf8_lossy(&report.bytes).lines().count(), 1 + 22 + 21);

    // The same file again is that import.
    let again = shop.program.upload(IMPORTS, PRETIX_EXPORT).await.good();
    let seen = shop.program.get(&format!("{IMPORTS}/{}/preview", id(&again))).await.good();
    assert_eq!((&seen["waiting"], &seen["refused"]), (&json!(0), &json!(1_200)));
    assert_eq!(shop.program.post(&format!("{IMPORTS}/{}:start", id(&again)), json!({})).await.good(), done);
}

#[tokio::test]
async fn files_that_cannot_be_one_and_callers_who_may_not_are_refused() {
    let shop = Shop::with(two_hours(), 0).await;
    for file in ["", "no line\u{0}"] {
        let refused = shop.program.upload(IMPORTS, file).await;
        assert!(refused.status.is_client_error(), "{file:?}: {}", refused.json);
    }
    // Larger than other bodies may be; and for whoever may not import as large as those.
    let line = "Ann,ann@example.org\n".repeat(20_000);
    let large = format!("name,email\n{line}");
    shop.program.once("large").upload(IMPORTS, large.clone()).await.good();
    shop.program.upload(IMPORTS, large.clone()).await.good();
    let writer = shop.with_scopes(&[Scope::EntriesWrite, Scope::EventsWrite]).await;
    writer.upload(IMPORTS, large.clone()).await.refused(403, "scope_missing");
    writer.once("large").upload(IMPORTS, large).await.refused(413, "too_large");
    writer.get(IMPORTS).await.refused(403, "scope_missing");
    assert_eq!(shop.program.get(IMPORTS).await.good(), json!([]), "none was started");

    let kept = shop.program.upload(IMPORTS, "name,email\nAnn,ann@example.org\n").await.good();
    let import = format!("{IMPORTS}/{}", id(&kept));
    let stranger = shop.stranger().await;
    for path in
        [import.clone(), format!("{import}/preview"), format!("{import}/report.csv"), IMPORTS.to_owned()]
    {
        stranger.get(&path).await.refused(404, "not_found");
    }
    stranger.post(&format!("{import}:start"), json!({})).await.refused(404, "not_found");
    stranger.upload(IMPORTS, "name,email\n").await.refused(404, "not_found");
    shop.program.post("/v1/events/spring:cancel", super::because()).await.good();
    shop.program.post(&format!("{import}:start"), Value::Null).await.refused(400, "unreadable_body");
    shop.program.post(&format!("{import}:start"), json!({"tell": true})).await.refused(409, "not_on_sale");
}

/// Files are large, and are kept for a week: there is an end to them.
#[tokio::test]
async fn as_many_files_wait_to_be_looked_at_as_may_and_no_more() {
    let shop = Shop::with(two_hours(), 0).await;
    let db = shop.world.database.db();
    for _ in 0..20 {
        let kept = db.keep_upload(shop.world.event, "some.csv", b"name,email\n", shop.world.actor()).await;
        assert!(kept.expect("asked").is_some());
    }
    let file = b"name,email\nAnn,ann@example.org\n";
    let more = db.keep_upload(shop.world.event, "more.csv", file, shop.world.actor()).await;
    assert_eq!(more.expect("asked"), None);
}
