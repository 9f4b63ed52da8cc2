//! Events: their settings, what their places are told apart by, their lists.

use serde_json::{Value, json};

use super::Shop;
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
