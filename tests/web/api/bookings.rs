//! Bookings: made for people, cancelled, and refused.

use serde_json::json;

use super::{Shop, id, with_reason};
use crate::harness::world::two_hours;

const BOOK: &str = "/v1/resources/spring/bookings";

#[tokio::test]
async fn a_booking_is_cancelled_with_a_reason_in_the_query() {
    let shop = Shop::with(two_hours(), 1).await;
    let ada = with_reason(&json!({"name": "Ada", "email": "ada@example.com"}));
    let booking = shop.program.once("b").post(BOOK, ada).await.good();
    let path = format!("/v1/bookings/{}", id(&booking));
    shop.program.delete(&path).await.refused(400, "invalid");
    let cancelled = shop.program.delete(&format!("{path}?reason=other&note=Rang%20us")).await.good();
    assert!(cancelled["cancelled_at"].is_string(), "{cancelled}");
    assert_eq!(shop.first_place().await["state"], "open");
    // A customer needs no reason.
    let bob = shop.customer("Bob", "bob@example.com").await;
    let booking = bob.post(BOOK, json!({})).await.good();
    bob.delete(&path).await.refused(403, "not_yours");
    bob.delete(&format!("/v1/bookings/{}", id(&booking))).await.good();
}
