//! Webhooks, kept by an owner's program: added, watched, stopped and started, their secrets changed.

use chrono::Duration;
use fairlist::domain::ids::WebhookId;
use fairlist::domain::key::Scope;
use fairlist::domain::webhook::shown;
use serde_json::{Value, json};

use super::{Shop, id};
use crate::harness::database::secret;
use crate::harness::world::two_hours;

const HOOKS: &str = "/v1/webhooks";

fn hook() -> Value {
    json!({"url": "https://shop.example/hooks", "types": ["offer.pending", "offer.accepted"]})
}

/// The secret of an endpoint, by the one who can derive it.
fn signs(shop: &Shop, webhook: &str, generation: i32) -> String {
    let webhook = WebhookId(webhook.parse().expect("an id"));
    shown(&secret().webhook_key(shop.world.organization, webhook, generation))
}

#[tokio::test]
async fn a_secret_is_answered_the_same_under_its_key_and_kept_nowhere() {
    let shop = Shop::with(two_hours(), 0).await;
    let program = shop.program.once("hook");
    let first = program.post(HOOKS, hook()).await;
    let second = program.post(HOOKS, hook()).await;
    assert_eq!((second.status, &second.bytes), (first.status, &first.bytes), "byte for byte");
    let added = first.good();
    let webhook = id(&added).to_owned();
    let shown = added["secret"].as_str().expect("a secret");
    assert_eq!(shown, signs(&shop, &webhook, 1));
    assert!(!shop.is_kept(shown).await);
    let other = json!({"url": "https://shop.example/others"});
    program.post(HOOKS, other).await.refused(422, "key_reused");

    let rotate = format!("{HOOKS}/{webhook}:rotate");
    let program = shop.program.once("rotate");
    let first = program.post(&rotate, json!({"generation": 1})).await;
    let second = program.post(&rotate, json!({"generation": 1})).await;
    assert_eq!((second.status, &second.bytes), (first.status, &first.bytes), "byte for byte");
    let rotated = first.good();
    assert_eq!((&rotated["generation"], &rotated["secret"]), (&json!(2), &json!(signs(&shop, &webhook, 2))));
    assert!(!shop.is_kept(rotated["secret"].as_str().expect("a secret")).await);
    // Who read it before somebody else changed it changes nothing.
    shop.program.post(&rotate, json!({"generation": 1})).await.refused(412, "changed");
    // Neither is shown by looking.
    let seen = shop.program.get(&format!("{HOOKS}/{webhook}")).await;
    assert!(!String::from_utf8_lossy(&seen.bytes).contains("whsec_"));
    let seen = seen.good();
    assert_eq!((&seen["generation"], &seen["types"]), (&json!(2), &hook()["types"]));
    assert!(seen["old_secret_until"].is_string());
    assert_eq!(shop.program.get(HOOKS).await.good(), json!([seen]), "there once");
}

#[tokio::test]
async fn an_endpoint_is_stopped_started_and_tested_and_the_log_says_what_came_of_it() {
    let shop = Shop::with(two_hours(), 0).await;
    let added = shop.program.post(HOOKS, json!({"url": "https://shop.example/hooks"})).await.good();
    let path = format!("{HOOKS}/{}", id(&added));
    let to = async |act: &str, body: Value| shop.program.post(&format!("{path}:{act}"), body).await;
    assert_eq!(to("test", Value::Null).await.good()["position"], -1);
    let stopped = to("stop", Value::Null).await.good();
    assert_eq!((&stopped["stopped"], &stopped["waiting"]), (&json!("staff"), &json!(1)));
    assert_eq!(to("stop", Value::Null).await.good(), stopped, "it is stopped already");
    let started = to("start", Value::Null).await.good();
    assert_eq!((&started["stopped"], &started["stopped_at"]), (&json!(null), &json!(null)));

    let log = shop.program.get(&format!("{path}/deliveries?state=queued")).await.good();
    assert_eq!((&log["items"][0]["position"], &log["items"][0]["type"]), (&json!(-1), &json!(null)));
    assert_eq!(shop.program.get(&format!("{path}/deliveries?state=dead")).await.good()["items"], json!([]));

    // Two of three were given up.
    shop.world.all_waiting(&["Ann", "Ben", "Cora"]).await;
    let db = shop.world.database.db();
    db.relay(shop.world.organization).await.expect("copied");
    let sql = "INSERT INTO webhook_deliveries (organization_id, webhook_id, position, state, queued_at, ended_at)
         SELECT organization_id, $1::uuid, position, CASE WHEN position = 1 THEN 'delivered' ELSE 'dead' END, $2, $2
         FROM transitions WHERE position <= 3";
    let webhook: uuid::Uuid = id(&added).parse().expect("an id");
    let given_up = sqlx::query(sql).bind(webhook).bind(shop.world.now());
    given_up.execute(shop.world.database.sql()).await.expect("given up");
    let sql = "UPDATE webhooks SET position = (SELECT max(position) FROM transitions)";
    sqlx::query(sql).execute(shop.world.database.sql()).await.expect("moved");
    shop.world.later(Duration::minutes(1));
    let page = shop.program.get(&format!("{path}/deliveries?limit=1&state=dead")).await.good();
    assert_eq!((&page["items"][0]["position"], page["next"].as_str()), (&json!(3), Some("3")));
    let page = shop.program.get(&format!("{path}/deliveries?limit=1&state=dead&after=3")).await.good();
    assert_eq!((&page["items"][0]["position"], &page["next"]), (&json!(2), &json!(null)));

    to("replay", json!({"first": 3, "last": 2})).await.refused(400, "invalid");
    to("replay", json!({"first": 0, "last": 2})).await.refused(400, "invalid");
    let failed = to("replay", json!({"first": 1, "last": 3, "only_dead": true})).await.good();
    assert_eq!(failed["queued"], 2);
    assert_eq!(
        to("replay", json!({"first": 1, "last": 3})).await.good()["queued"],
        1,
        "the others wait already"
    );
}

#[tokio::test]
async fn endpoints_are_public_an_owners_and_of_ones_own_organization() {
    let shop = Shop::with(two_hours(), 0).await;
    for url in ["https://10.0.0.7/hooks", "http://shop.example/", "shop"] {
        let refused = shop.program.post(HOOKS, json!({"url": url})).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.json["field"], "url");
    }
    shop.program
        .post(HOOKS, json!({"url": "https://shop.example", "types": ["x"]}))
        .await
        .refused(400, "unreadable_body");
    let reader = shop.with_scopes(&[Scope::WebhooksRead]).await;
    reader.post(HOOKS, hook()).await.refused(403, "scope_missing");
    shop.with_scopes(&[Scope::TransitionsRead]).await.get(HOOKS).await.refused(403, "scope_missing");
    let added = shop.program.post(HOOKS, hook()).await.good();
    let path = format!("{HOOKS}/{}", id(&added));
    reader.get(&path).await.good();
    reader.post(&format!("{path}:stop"), Value::Null).await.refused(403, "scope_missing");

    // Another organization's endpoint is not there.
    let stranger = shop.stranger().await;
    stranger.get(&path).await.refused(404, "not_found");
    stranger.get(&format!("{path}/deliveries")).await.refused(404, "not_found");
    for (act, body) in [
        ("stop", json!({})),
        ("start", json!({})),
        ("test", json!({})),
        ("rotate", json!({"generation": 1})),
        ("replay", json!({"first": 1, "last": 1})),
    ] {
        stranger.post(&format!("{path}:{act}"), body).await.refused(404, "not_found");
    }
    assert_eq!(stranger.get(HOOKS).await.good(), json!([]));
    assert_eq!(shop.program.get(&path).await.good()["stopped"], json!(null));
}
