//! Every refusal that callers have to tell apart, by the code that it has.

use chrono::Duration;
use fairlist::domain::ids::CodeId;
use fairlist::domain::policy::Policy;
use serde_json::{Value, json};

use super::{Shop, because, id, with_reason};
use crate::harness::program::Program;
use crate::harness::world::two_hours;

const JOIN: &str = "/v1/resources/spring/waitlist:join";
const BOOK: &str = "/v1/resources/spring/bookings";
const OFFER: &str = "/v1/resources/spring/offers";
const LIST: &str = "/v1/events/spring/list";

fn ada() -> Value {
    with_reason(&json!({"name": "Ada", "email": "ada@example.com"}))
}

#[tokio::test]
async fn free_places_are_booked_and_those_held_for_the_list_only_with_a_scope_of_their_own() {
    let shop = Shop::with(two_hours(), 1).await;
    let ada_herself = shop.customer("Ada", "ada@example.com").await;
    ada_herself.post(JOIN, json!({})).await.refused(409, "capacity_available");
    // Ann waits for the place, until a pass offers it to her.
    shop.world.waiting("Ann", 1).await;
    ada_herself.post(BOOK, json!({})).await.refused(409, "held_for_waitlist");
    shop.program.post(BOOK, ada()).await.refused(409, "held_for_waitlist");
    let over = with_reason(&json!({"name": "Ada", "email": "ada@example.com", "override_reservation": true}));
    let agent = shop.with_scopes(&[fairlist::domain::key::Scope::BookingsWrite]).await;
    agent.post(BOOK, over.clone()).await.refused(403, "scope_missing");
    let booked = shop.program.post(BOOK, over).await.good();
    assert!(booked["reference"].is_string());
    ada_herself.post(BOOK, json!({})).await.refused(409, "no_capacity");
}

#[tokio::test]
async fn a_list_is_full_frozen_or_closed() {
    let shop = Shop::with(Policy { list_cap: Some(1), ..two_hours() }, 0).await;
    let ann = shop.world.waiting("Ann", 1).await;
    shop.program
        .post(JOIN, json!({"name": "Ada", "email": "ada@example.com"}))
        .await
        .refused(409, "list_full");
    for list in ["frozen", "closed"] {
        let now = shop.program.put(LIST, with_reason(&json!({"state": list}))).await.good();
        assert_eq!(now["list"], list);
        let refused = shop.program.post(JOIN, json!({"name": "Ada", "email": "ada@example.com"})).await;
        refused.refused(409, "list_not_open");
        assert_eq!(refused.json["list"], list);
    }
    shop.program.post(OFFER, with_reason(&json!({"entry": ann.id}))).await.refused(409, "list_not_open");
    let open = shop.program.put(LIST, with_reason(&json!({"state": "open"}))).await.good();
    assert_eq!(open["list"], "open");
    shop.program.post("/v1/events/spring:cancel", because()).await.good();
    shop.program.put(LIST, with_reason(&json!({"state": "open"}))).await.refused(409, "wrong_state");
    shop.program.post(BOOK, ada()).await.refused(409, "not_on_sale");
}

#[tokio::test]
async fn more_than_one_person_or_one_batch_may_have_is_refused() {
    let rule = Policy { batch_size: 1, party_limit: Some(2), person_limit: Some(2), ..two_hours() };
    let shop = Shop::with(rule, 0).await;
    let large = shop
        .program
        .post(BOOK, with_reason(&json!({"name": "Ada", "email": "ada@example.com", "party": 3})))
        .await;
    large.refused(409, "too_many_places");
    assert_eq!(large.json["limit"], 2);
    let [ann, ben] = shop.world.all_waiting(&["Ann", "Ben"]).await.try_into().expect("two");
    shop.world.add_places(3).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(ann.id).await.id;
    shop.program.post(OFFER, with_reason(&json!({"entry": ben.id}))).await.refused(409, "batch_full");
    let again = shop.program.post(OFFER, with_reason(&json!({"entry": ann.id}))).await;
    again.refused(409, "already_offered");
    assert_eq!(again.json["offer"], json!(offer));
    let accepted = shop.program.once("a").post(&format!("/v1/offers/{offer}:accept"), because()).await.good();
    assert_eq!(accepted["state"], "accepted");
    let more = json!({"name": "Ann", "email": "ann@example.org", "party": 2});
    let enough = shop.program.post(JOIN, more).await;
    enough.refused(409, "too_many_places");
    assert_eq!((&enough.json["limit"], &enough.json["has"]), (&json!(2), &json!(1)));
}

#[tokio::test]
async fn an_answer_after_the_deadline_is_too_late_and_a_declined_offer_stays_declined() {
    let shop = Shop::with(two_hours(), 2).await;
    let [ann, ben] = shop.world.all_waiting(&["Ann", "Ben"]).await.try_into().expect("two");
    shop.world.settle().await;
    let anns = format!("/v1/offers/{}", shop.world.live_offer(ann.id).await.id);
    let bens = format!("/v1/offers/{}", shop.world.live_offer(ben.id).await.id);
    let declined = shop.program.post(&format!("{bens}:decline"), because()).await.good();
    assert_eq!(declined["state"], "declined");
    assert_eq!(shop.program.post(&format!("{bens}:decline"), because()).await.good()["state"], "declined");
    shop.program.once("b").post(&format!("{bens}:accept"), because()).await.refused(409, "not_pending");
    let far = with_reason(&json!({"expires_at": "+012000-01-01T00:00:00Z"}));
    shop.program.post(&format!("{anns}:extend"), far).await.refused(400, "invalid");
    let later = with_reason(&json!({"expires_at": "2027-03-01T12:00:00Z"}));
    let extended = shop.program.post(&format!("{anns}:extend"), later).await.good();
    assert_eq!(extended["expires_at"], "2027-03-01T12:00:00Z");
    shop.world.later(Duration::hours(3));
    shop.program.once("a").post(&format!("{anns}:accept"), because()).await.refused(410, "offer_expired");
    shop.program.post(&format!("{anns}:decline"), because()).await.refused(410, "offer_expired");
}

#[tokio::test]
async fn a_code_is_wrong_until_it_is_spent() {
    let shop = Shop::with(two_hours(), 0).await;
    let program = Program::new(&shop.router);
    let request = json!({"event": "spring", "email": "ada@example.com", "name": "Ada"});
    let sent = program.post("/v1/codes", request).await.good();
    let code = sent["code"].as_str().expect("a code").to_owned();
    let path = format!("/v1/codes/{code}:enter");
    let right = shop.secret.code_digits(code.parse::<CodeId>().expect("an id"));
    let wrong = if right == "123456" { "654321" } else { "123456" };
    program.post(&path, json!({"digits": "12345"})).await.refused(400, "invalid");
    for left in (1..=4).rev() {
        let refused = program.post(&path, json!({"digits": wrong})).await;
        refused.refused(422, "code_wrong");
        assert_eq!(refused.json["tries_left"], left);
    }
    program.post(&path, json!({"digits": wrong})).await.refused(410, "code_spent");
    program.post(&path, json!({"digits": right})).await.refused(410, "code_spent");
}

#[tokio::test]
async fn what_could_never_be_met_or_written_is_refused_as_on_the_pages() {
    let shop = Shop::with(two_hours(), 3).await;
    let event = shop.program.get("/v1/events/spring").await.good();
    let version = format!("\"{}\"", event["version"]);
    let read = shop.program.with("if-match", &version);
    let items = json!([{"key": "", "label": "Price", "measure": "number", "choices": []},
        {"key": "", "label": "Day", "measure": "date", "choices": []}]);
    read.put("/v1/events/spring/attributes", items).await.good();
    for wants in [
        json!({"price": {"at_least": 45, "at_most": 12.5}}),
        json!({"day": {"from": "2027-05-02", "to": "2027-05-01"}}),
    ] {
        let body = json!({"name": "Ada", "email": "ada@example.com", "wants": wants});
        shop.program.post(JOIN, body).await.refused(400, "invalid");
    }
    let far = json!({"name": "Autumn", "zone": "UTC", "starts_at": "+012000-01-01T00:00:00Z"});
    shop.program.post("/v1/events", far).await.refused(400, "invalid");
    let padded = json!({"name": " Autumn ", "zone": "UTC", "description": " Bring a coat. "});
    let made = shop.program.post("/v1/events", padded).await.good();
    assert_eq!((&made["name"], &made["description"]), (&json!("Autumn"), &json!("Bring a coat.")));
    let entry = shop.world.waiting("Ann", 1).await.id;
    let far = with_reason(&json!({"until": "+012000-01-01T00:00:00Z"}));
    shop.program.post(&format!("/v1/waitlist/{entry}:pause"), far).await.refused(400, "invalid");
    let lower = "/v1/resources/spring/places:lower";
    let many = shop.program.post(lower, with_reason(&json!({"count": 4}))).await;
    many.refused(400, "invalid");
    assert_eq!(many.json["most"], 3);
    assert_eq!(shop.program.post(lower, with_reason(&json!({"count": 1}))).await.good()["now"], 1);
}

#[tokio::test]
async fn what_is_said_of_a_place_changes_while_it_is_open() {
    let shop = Shop::with(two_hours(), 1).await;
    let event = shop.program.get("/v1/events/spring").await.good();
    let version = format!("\"{}\"", event["version"]);
    let items = json!([{"key": "", "label": "Price", "measure": "number", "choices": []}]);
    shop.program.with("if-match", &version).put("/v1/events/spring/attributes", items).await.good();
    let path = format!("/v1/resources/spring/places/{}", id(&shop.first_place().await));
    let at = |price: Value| with_reason(&json!({"attributes": {"price": price}}));
    let place = shop.program.patch(&path, at(json!(12.5))).await.good();
    assert_eq!(place["words"], "Price: 12.50");
    shop.program.patch(&path, at(json!("cheap"))).await.refused(400, "invalid");
    shop.program.post(BOOK, ada()).await.good();
    shop.program.patch(&path, at(json!(45))).await.refused(409, "wrong_state");
}

#[tokio::test]
async fn who_writes_too_often_is_told_when_to_come_back_and_asks_again_under_the_same_key() {
    let shop = Shop::limited(2).await;
    let join = |email: &str| json!({"name": "Ada", "email": email});
    for (email, left) in [("ada@example.com", 1), ("bob@example.com", 0)] {
        let reply = shop.program.once(email).post(JOIN, join(email)).await;
        assert!(reply.header("ratelimit").starts_with(&format!("\"writes\";r={left};t=")));
        reply.good();
    }
    let third = shop.program.once("c").post(JOIN, join("cy@example.com")).await;
    third.refused(429, "too_many_requests");
    assert_ne!(third.header("retry-after"), "");
    assert!(third.header("ratelimit").starts_with("\"writes\";r=0;t="));
    shop.world.later(Duration::minutes(1));
    let again = shop.program.once("c").post(JOIN, join("cy@example.com")).await;
    assert_eq!(again.header("idempotency-replayed"), "");
    again.good();
}

#[tokio::test]
async fn a_booking_for_somebody_with_an_offer_of_another_size_books_nothing() {
    let shop = Shop::with(two_hours(), 3).await;
    let ann = shop.world.waiting("Ann", 1).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(ann.id).await;
    let wish = |party: i32| with_reason(&json!({"name": "Ann", "email": "ann@example.org", "party": party}));
    let refused = shop.program.post(BOOK, wish(3)).await;
    refused.refused(409, "already_offered");
    assert_eq!((&refused.json["offer"], &refused.json["party"]), (&json!(offer.id), &json!(1)));
    let booked = shop.program.post(BOOK, wish(1)).await.good();
    assert_eq!(booked["confirmed"].as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_is_misspelled_is_said_by_its_name() {
    let shop = Shop::with(two_hours(), 0).await;
    let slip = shop.program.get("/v1/resources/spring/entries?status=offered").await;
    slip.refused(400, "invalid");
    assert_eq!(slip.json["field"], "status");
    let value = shop.program.get("/v1/resources/spring/entries?state=nonsense").await;
    value.refused(400, "bad_request");
    assert!(value.json["detail"].as_str().is_some_and(|detail| detail.contains("state")), "{}", value.json);
    let event = json!({"name": "Autumn", "zone": "Europe/Berlin", "starts_at": "2027-06-01 19:00"});
    let refused = shop.program.post("/v1/events", event).await;
    refused.refused(400, "unreadable_body");
    assert_eq!(refused.json["field"], "starts_at");
    let both = json!({"count": 5, "labels": ["Z1"]});
    shop.program.post("/v1/resources/spring/places", both).await.refused(400, "invalid");
    let nameless = shop.program.post("/v1/events/spring:cancel", json!({})).await;
    nameless.refused(400, "invalid");
    assert!(nameless.json["detail"].as_str().is_some_and(|detail| detail.contains("/v1/reasons")));
}
