//! Entries: paused, resumed and moved, by their people and for them.

use serde_json::json;

use super::{Shop, because, id, with_reason};
use crate::harness::world::two_hours;

#[tokio::test]
async fn what_staff_paused_its_person_does_not_change_and_is_told_so() {
    let shop = Shop::with(two_hours(), 0).await;
    let ada = shop.customer("Ada", "ada@example.com").await;
    let entry = ada.post("/v1/resources/spring/waitlist:join", json!({})).await.good();
    let path = format!("/v1/waitlist/{}", id(&entry));
    let (pause, resume) = (format!("{path}:pause"), format!("{path}:resume"));
    // Her own pause is hers to change and to end.
    let until = json!({"until": "2027-03-02T09:00:00Z"});
    assert_eq!(ada.post(&pause, until).await.good()["paused"], "person");
    ada.post(&pause, json!({"until": "2027-03-03T09:00:00Z"})).await.good();
    assert_eq!(ada.get(&path).await.good()["paused_until"], "2027-03-03T09:00:00Z");
    ada.post(&pause, json!({"until": "2027-03-01T09:00:00Z"})).await.refused(400, "invalid");
    assert!(ada.post(&resume, json!({})).await.good()["paused"].is_null());
    shop.program.post(&pause, because()).await.good();
    let refused = ada.post(&resume, json!({})).await;
    refused.refused(409, "wrong_state");
    assert_eq!(refused.json["paused"], "staff");
    ada.post(&pause, json!({"until": "2027-03-03T09:00:00Z"})).await.refused(409, "wrong_state");
    let past = with_reason(&json!({"until": "2027-03-01T09:00:00Z"}));
    shop.program.post(&pause, past).await.refused(400, "invalid");
    assert!(shop.program.post(&resume, because()).await.good()["paused"].is_null());
}
