//! Keys, kept by an owner's program: never good for more or longer than its own, shown once, taken back with it.

use fairlist::domain::key::Scope;
use serde_json::{Value, json};

use super::{Shop, id};
use crate::harness::program::Program;
use crate::harness::world::two_hours;

const KEYS: &str = "/v1/keys";

fn till(scopes: &[Scope]) -> Value {
    json!({"name": "Till", "scopes": scopes, "days": 30})
}

#[tokio::test]
async fn a_key_is_answered_the_same_under_its_name_and_kept_nowhere() {
    let shop = Shop::with(two_hours(), 0).await;
    let maker =
        shop.with_scopes(&[Scope::KeysRead, Scope::KeysWrite, Scope::EventsRead, Scope::PlacesWrite]).await;
    let program = maker.once("key");
    let wanted = till(&[Scope::PlacesWrite, Scope::EventsRead]);
    let first = program.post(KEYS, wanted.clone()).await;
    let second = program.post(KEYS, wanted).await;
    assert_eq!((second.status, &second.bytes), (first.status, &first.bytes), "byte for byte");
    let made = first.good();
    assert_eq!(made["scopes"], json!(["events:read", "places:write"]));
    assert_eq!(made["expires_at"], "2027-03-31T09:00:00Z");
    for secret in ["token", "signing_secret"] {
        assert!(!shop.is_kept(made[secret].as_str().expect("a secret")).await, "{secret}");
    }
    let signed_to = made["signed_to"].as_str().expect("an address");
    assert!(signed_to.ends_with(&format!("/v1/internal/capacity-released?key={}", id(&made))), "{signed_to}");

    let token = made["token"].as_str().expect("a token");
    let its = Program::new(&shop.router).with_token(token);
    its.get("/v1/events").await.good();
    its.get("/v1/messages").await.refused(403, "scope_missing");
    let seen = maker.get(&format!("{KEYS}/{}", id(&made))).await;
    assert!(!String::from_utf8_lossy(&seen.bytes).contains(token), "shown once");
    let seen = seen.good();
    assert_eq!((&seen["name"], &seen["made_by"]), (&json!("Till"), &json!("Ticket shop")));
    assert!(token.starts_with(seen["hint"].as_str().expect("a hint")));
    let all = maker.get(KEYS).await.good();
    let there = all.as_array().expect("a list").iter().filter(|key| key["id"] == made["id"]).count();
    assert_eq!(there, 1, "there once");
    let record = shop.program.get("/v1/audit?limit=200").await.good();
    let record =
        record["items"].as_array().expect("a list").iter().find(|row| row["subject_id"] == made["id"]);
    assert_eq!(record.expect("on record")["actor"], "key");
}

#[tokio::test]
async fn no_key_is_good_for_more_or_for_longer_than_the_one_that_asks() {
    let shop = Shop::with(two_hours(), 0).await;
    let maker = shop.with_scopes(&[Scope::KeysWrite, Scope::EventsRead]).await;
    let wider = maker.post(KEYS, till(&[Scope::EventsRead, Scope::EventsWrite])).await;
    wider.refused(403, "scope_missing");
    assert_eq!(wider.json["scope"], "events:write");
    // The harness's keys are good for a year.
    for days in [0, 366, 731, 4_000_000_000_u32] {
        let longer = maker.post(KEYS, json!({"name": "Till", "scopes": ["events:read"], "days": days})).await;
        longer.refused(400, "invalid");
        assert_eq!(
            (&longer.json["field"], &longer.json["expires_at_most"]),
            (&json!("days"), &json!("2028-02-29T09:00:00Z"))
        );
    }
    maker.post(KEYS, json!({"name": "Till", "scopes": ["events:read"], "days": 365})).await.good();
    maker
        .post(KEYS, json!({"name": " ", "scopes": ["events:read"], "days": 1}))
        .await
        .refused(400, "invalid");
    maker.post(KEYS, json!({"name": "Till", "scopes": [], "days": 1})).await.refused(400, "invalid");
    maker
        .post(KEYS, json!({"name": "Till", "scopes": ["all"], "days": 1}))
        .await
        .refused(400, "unreadable_body");
    maker.get(KEYS).await.refused(403, "scope_missing");
    let reader = shop.with_scopes(&[Scope::KeysRead]).await;
    reader.post(KEYS, till(&[Scope::KeysRead])).await.refused(403, "scope_missing");
    let customer = shop.customer("Ada", "ada@example.org").await;
    customer.post(KEYS, till(&[Scope::EventsRead])).await.refused(403, "scope_missing");
}

#[tokio::test]
async fn a_key_is_taken_back_with_all_that_were_made_by_it_and_by_nobody_else() {
    let shop = Shop::with(two_hours(), 0).await;
    let scopes = [Scope::KeysRead, Scope::KeysWrite, Scope::EventsRead];
    let made = async |by: &Program| {
        let made = by.post(KEYS, till(&scopes)).await.good();
        let token = made["token"].as_str().expect("a token").to_owned();
        (id(&made).to_owned(), Program::new(&shop.router).with_token(&token))
    };
    let (child, childs) = made(&shop.program).await;
    let (grandchild, grandchilds) = made(&childs).await;
    let (sibling, siblings) = made(&shop.program).await;
    let stranger = shop.stranger().await;
    let revoke = |key: &str| format!("{KEYS}/{key}:revoke");
    stranger.post(&revoke(&child), Value::Null).await.refused(404, "not_found");
    stranger.get(&format!("{KEYS}/{child}")).await.refused(404, "not_found");
    grandchilds.get("/v1/events").await.good();

    siblings.post(&revoke(&child), Value::Null).await.refused(403, "not_yours");
    childs.get("/v1/events").await.good();
    let back = shop.program.post(&revoke(&child), Value::Null).await.good();
    assert!(back["revoked_at"].is_string());
    childs.get("/v1/events").await.refused(401, "unauthorized");
    grandchilds.get("/v1/events").await.refused(401, "unauthorized");
    siblings.get("/v1/events").await.good();
    let gone = shop.program.get(&format!("{KEYS}/{grandchild}")).await.good();
    assert_eq!(gone["revoked_at"], back["revoked_at"]);
    assert_eq!(shop.program.post(&revoke(&child), Value::Null).await.good(), back, "it was before");
    // A key can take itself back.
    siblings.post(&revoke(&sibling), Value::Null).await.good();
    siblings.get("/v1/events").await.refused(401, "unauthorized");
    let audit = shop.program.get("/v1/audit?limit=200").await.good();
    let ended =
        audit["items"].as_array().expect("a list").iter().filter(|row| row["to"] == "revoked").count();
    assert_eq!(ended, 3, "each is on record");
}
