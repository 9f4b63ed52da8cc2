//! Events: their settings, what their places are told apart by, their lists.

use serde_json::{Value, json};

use super::{Shop, because, id};
use crate::harness::program::Reply;
use crate::harness::world::two_hours;

/// Says what places are told apart by, having read the newest version.
async fn attributes(shop: &Shop, items: Value) -> Reply {
    let event = shop.program.get("/v1/events/spring").await.good();
    let version = format!("\"{}\"", event["version"]);
    shop.program.with("if-match", &version).put("/v1/events/spring/attributes", items).await
}

#[tokio::test]
async fn an_attribute_in_use_never_measures_something_else() {
    let shop = Shop::with(two_hours(), 0).await;
    let price = json!({"key": "", "label": "Price", "measure": "number", "choices": []});
    let event = attributes(&shop, json!([price])).await.good();
    assert_eq!(event["attributes"][0]["key"], "price");
    let places = json!({"count": 1, "attributes": {"price": 45}});
    shop.program.post("/v1/resources/spring/places", places).await.good();
    let choice =
        |key: &str| json!({"key": key, "label": "Price", "measure": "choice", "choices": ["Low", "High"]});
    // Left out, and another of its name in its place.
    attributes(&shop, json!([choice("")])).await.refused(409, "taken");
    attributes(&shop, json!([choice("price")])).await.refused(400, "invalid");
    let kept = json!({"key": "price", "label": "Price", "measure": "number", "choices": []});
    attributes(&shop, json!([kept, kept])).await.refused(400, "invalid");
    let event = attributes(&shop, json!([kept, choice("")])).await.good();
    assert_eq!(event["attributes"][1]["key"], "price-2");
}

/// A cursor is a place in the order: what is published meanwhile neither repeats a row nor leaves one out.
#[tokio::test]
async fn events_are_told_page_by_page_while_others_are_published() {
    let shop = Shop::with(two_hours(), 0).await;
    let publish = async |name: &str, starts: Option<&str>| {
        let event = json!({"name": name, "zone": "Europe/Berlin", "starts_at": starts});
        let made = shop.program.post("/v1/events", event).await.good();
        shop.program.post(&format!("/v1/events/{}:publish", id(&made)), because()).await.good();
    };
    publish("Summer", Some("2027-07-01T18:00:00Z")).await;
    publish("Course", None).await;
    publish("Drop-in", None).await;
    for list in ["/v1/events", "/v1/resources"] {
        let mut names = Vec::new();
        let mut after = String::new();
        for page in 0.. {
            assert!(page < 20, "the pages of {list} do not end: {names:?}");
            let page = shop.program.get(&format!("{list}?limit=1{after}")).await.good();
            names.extend(page["items"].as_array().expect("rows").iter().map(|row| row["name"].clone()));
            let Some(next) = page["next"].as_str() else { break };
            after = format!("&after={next}");
            if names.len() == 2 {
                publish(&format!("Earlier {}", &list[4..]), Some("2027-04-01T18:00:00Z")).await;
            }
        }
        let last: Vec<&str> = names.iter().rev().take(3).filter_map(serde_json::Value::as_str).collect();
        assert_eq!(last, ["Drop-in", "Course", "Summer"], "{names:?}");
        assert!(
            names.iter().all(|name| names.iter().filter(|other| *other == name).count() == 1),
            "{names:?}"
        );
        shop.program.get(&format!("{list}?after=50")).await.refused(400, "invalid");
    }
}

/// A wish of another kind than the attribute is refused, and not forgotten: whoever has it would be offered anything.
#[tokio::test]
async fn a_wish_that_an_attribute_does_not_have_is_refused() {
    let shop = Shop::with(two_hours(), 0).await;
    let measured = |label: &str, measure: &str, choices: Value| json!({"key": "", "label": label, "measure": measure, "choices": choices});
    let all = json!([
        measured("Section", "choice", json!(["stalls", "balcony"])),
        measured("Row", "number", json!([])),
        measured("Day", "date", json!([])),
    ]);
    attributes(&shop, all).await.good();
    let wish = |wants: Value| json!({"name": "Zed", "email": "zed@example.org", "wants": wants});
    let join = "/v1/resources/spring/waitlist:join";
    for (key, want) in [
        ("section", json!({"at_least": 3})),
        ("section", json!({"any_of": ["stalls"], "from": "2027-05-01"})),
        ("row", json!({"any_of": ["x"]})),
        ("row", json!({"to": "2027-05-01"})),
        ("day", json!({"at_most": 4})),
    ] {
        let refused = shop.program.post(join, wish(json!({key: want}))).await;
        refused.refused(400, "invalid");
        assert_eq!(refused.json["field"], format!("wants.{key}"), "{}", refused.json);
    }
    let entry = shop.program.post(join, wish(json!({"section": {"any_of": ["stalls"]}}))).await.good();
    let path = format!("/v1/waitlist/{}", id(&entry));
    let change = json!({"wants": {"section": {"at_least": 3}}, "reason": "customer_asked"});
    shop.program.patch(&path, change).await.refused(400, "invalid");
    assert_eq!(shop.program.get(&path).await.good()["wants"], json!({"section": {"any_of": ["stalls"]}}));
}
