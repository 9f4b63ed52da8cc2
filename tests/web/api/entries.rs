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

#[tokio::test]
async fn a_complaint_is_made_by_its_person_and_answered_by_their_program() {
    let shop = Shop::with(two_hours(), 0).await;
    let ada = shop.customer("Ada", "ada@example.com").await;
    let entry = ada.post("/v1/resources/spring/waitlist:join", json!({})).await.good();
    let path = format!("/v1/waitlist/{}", id(&entry));
    let said = json!({"about": "position_wrong", "words": "I was number 3 yesterday."});
    ada.post(&format!("{path}:complain"), json!({"about": "weather", "words": "x"}))
        .await
        .refused(400, "unreadable_body");
    ada.post(&format!("{path}:complain"), json!({"about": "told_late", "words": " "}))
        .await
        .refused(400, "invalid");
    assert_eq!(ada.post(&format!("{path}:complain"), said.clone()).await.good()["number"], 1);
    ada.post(&format!("{path}:complain"), said.clone()).await.refused(409, "wrong_state");
    let bob = shop.customer("Bob", "bob@example.com").await;
    bob.post(&format!("{path}:complain"), said.clone()).await.refused(403, "not_yours");
    bob.get(&format!("{path}/complaints")).await.refused(403, "not_yours");

    let open = shop.program.get("/v1/complaints?answered=false").await.good();
    assert_eq!(open["items"][0]["words"], "I was number 3 yesterday.");
    assert_eq!(open["items"][0]["name"], "Ada");
    let answer = format!("{path}:answer-complaint");
    ada.post(&answer, json!({"number": 1, "words": "Fine."})).await.refused(403, "scope_missing");
    shop.program.post(&answer, json!({"number": 2, "words": "Why?"})).await.refused(409, "wrong_state");
    shop.program.post(&answer, json!({"number": 1, "words": "You still are."})).await.good();
    shop.program.post(&answer, json!({"number": 1, "words": "Really."})).await.refused(409, "wrong_state");
    let mine = ada.get(&format!("{path}/complaints")).await.good();
    assert_eq!(mine[0]["answer"], "You still are.");
    // Page by page, without a gap.
    shop.program.post(&format!("{path}:complain"), said).await.good();
    let first = shop.program.get("/v1/complaints?event=spring&limit=1").await.good();
    let next = first["next"].as_str().expect("more");
    let second = shop.program.get(&format!("/v1/complaints?event=spring&limit=1&after={next}")).await.good();
    assert_eq!((&first["items"][0]["number"], &second["items"][0]["number"]), (&json!(2), &json!(1)));
    assert_eq!(second["next"], json!(null));
    shop.program.get("/v1/complaints?after=x").await.refused(400, "invalid");
}
