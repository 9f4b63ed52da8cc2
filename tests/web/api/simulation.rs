//! A rule is tried out on an event's own past before it is put in force.

use fairlist::domain::key::Scope;
use serde_json::json;

use super::Shop;
use crate::harness::world::two_hours;
use crate::staff_simulation::past;

const TRY: &str = "/v1/events/spring/policy:simulate";

#[tokio::test]
async fn what_a_rule_would_have_done_is_told_and_nothing_is_saved() {
    let shop = Shop::with(two_hours(), 0).await;
    let early = shop.program.post(TRY, json!({})).await;
    early.refused(409, "wrong_state");
    assert!(early.json["detail"].as_str().expect("why").starts_with("No place has come back yet"));
    past(&shop.world).await;
    let rows = "SELECT (SELECT count(*) FROM audit) + (SELECT count(*) FROM policies) + (SELECT count(*) FROM offers)";
    let rows = async || -> i64 {
        sqlx::query_scalar(rows).fetch_one(shop.world.database.sql()).await.expect("rows")
    };
    let before = rows().await;
    let reader = shop.with_scopes(&[Scope::EventsRead]).await;

    // The rule in force gives what really happened.
    let same = reader.post(TRY, json!({})).await.good();
    assert_eq!(same["really"], same["replayed"]);
    assert_eq!(same["came_back"].as_array().map(Vec::len), Some(2));
    let really = &same["really"];
    assert_eq!(
        (&really["offers"], &really["people"], &really["accepted"]),
        (&json!(4), &json!(3), &json!(2))
    );
    assert_eq!((&really["declined"], &really["unanswered"]), (&json!(1), &json!(1)));
    assert_eq!(
        (&really["median_wait_seconds"], &really["longest_wait_seconds"]),
        (&json!(300), &json!(12_600))
    );
    let words = same["words"].as_array().expect("words");
    assert!(
        words.iter().any(|word| word.as_str().is_some_and(|word| word.ends_with("nothing is drawn."))),
        "{same}"
    );

    // Another one does something else.
    let passive = reader.post(TRY, json!({"window_seconds": null})).await.good();
    assert_eq!((&passive["replayed"]["offers"], &passive["really"]), (&json!(0), really));
    reader.post(TRY, json!({"window_seconds": 1})).await.refused(400, "invalid");
    shop.with_scopes(&[Scope::AuditRead]).await.post(TRY, json!({})).await.refused(403, "scope_missing");
    shop.stranger().await.post(TRY, json!({})).await.refused(404, "not_found");
    assert_eq!(rows().await, before, "nothing was saved");
}
