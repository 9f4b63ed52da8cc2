//! What a person is told of an event: whether they may have a place, why not, and what to do next. The causes are those of
//! the table that the pages go by, too.

use fairlist::domain::entry::PausedBy;
use fairlist::domain::event::ListState;
use fairlist::domain::policy::Policy;
use serde_json::{Value, json};

use super::{Shop, because};
use crate::harness::program::Program;
use crate::harness::world::{reason, two_hours};

/// `allowed`, `reason`, `next_step`.
async fn stands(who: &Program) -> (bool, String, String) {
    let status = who.get("/v1/resources/spring/my-status").await.good();
    let word = |value: &Value| value.as_str().unwrap_or("none").to_owned();
    (status["allowed"].as_bool().expect("said"), word(&status["reason"]), word(&status["next_step"]))
}

fn told(allowed: bool, reason: &str, next: &str) -> (bool, String, String) {
    (allowed, reason.to_owned(), next.to_owned())
}

#[tokio::test]
async fn each_cause_is_told_with_what_to_do_to_whoever_is_on_the_list_and_to_whoever_is_not() {
    let shop = Shop::with(two_hours(), 0).await;
    let world = &shop.world;
    let ada = shop.customer("Ada", "ada@example.com").await;
    assert_eq!(stands(&ada).await, told(false, "no_places", "join_waitlist"));
    world.add_places(1).await;
    assert_eq!(stands(&ada).await, told(true, "none", "book"));
    world.booked("Holder", 1).await;
    let bob = shop.customer("Bob", "bob@example.com").await;
    bob.post("/v1/resources/spring/waitlist:join", json!({})).await.good();
    // Every place is taken.
    assert_eq!(stands(&ada).await, told(false, "event_is_full", "join_waitlist"));
    assert_eq!(stands(&bob).await, told(false, "event_is_full", "wait"));
    // Cora is offered the one that comes back: it is held by an offer.
    let cora = shop.customer("Cora", "cora@example.com").await;
    cora.post("/v1/resources/spring/waitlist:join", json!({})).await.good();
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(stands(&bob).await, told(true, "has_offer", "answer_offer"));
    assert_eq!(stands(&cora).await, told(false, "waiting_for_turn", "wait"));
    assert_eq!(stands(&ada).await, told(false, "reserved_for_waitlist", "join_waitlist"));
    let status = cora.get("/v1/resources/spring/my-status").await.good();
    assert_eq!((&status["position"], &status["held_by_others"]), (&json!(1), &json!(1)));
    assert_eq!(status["next_deadline"], "2027-03-01T11:00:00Z");
    let status = bob.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(
        (&status["own_deadline"], &status["held_by_others"]),
        (&json!("2027-03-01T11:00:00Z"), &json!(0))
    );
    // A list that is closed offers nothing: there is no next step.
    world.waitlist.set_list(world.event, ListState::Closed, world.actor(), &reason()).await.expect("closed");
    world.settle().await;
    assert_eq!(
        stands(&ada).await,
        told(true, "none", "book"),
        "what nobody is offered is free for everybody"
    );
    assert_eq!(stands(&cora).await, told(true, "none", "book"));
    world.booked("Late", 1).await;
    assert_eq!(stands(&ada).await, told(false, "event_is_full", "none"));
    assert_eq!(stands(&cora).await, told(false, "event_is_full", "none"));
    world.waitlist.cancel_event(world.event, world.actor(), &reason()).await.expect("cancelled");
    assert_eq!(stands(&ada).await, told(false, "not_on_sale", "none"));
}

#[tokio::test]
async fn whoever_is_passed_over_hears_why_and_who_can_change_it() {
    let shop = Shop::with(two_hours(), 1).await;
    let world = &shop.world;
    let ada = shop.customer("Ada", "ada@example.com").await;
    let ann = world.waiting("Ann", 1).await;
    let entry = shop
        .program
        .post("/v1/resources/spring/waitlist:join", json!({"name": "Ada", "email": "ada@example.com"}))
        .await
        .good();
    world.settle().await;
    assert_eq!(stands(&ada).await, told(false, "waiting_for_turn", "wait"));
    let path = format!("/v1/waitlist/{}", entry["id"].as_str().expect("an id"));
    ada.post(&format!("{path}:pause"), json!({})).await.good();
    assert_eq!(stands(&ada).await, told(false, "paused", "resume"));
    ada.post(&format!("{path}:resume"), json!({})).await.good();
    shop.program.post(&format!("{path}:pause"), because()).await.good();
    assert_eq!(ada.get(&path).await.good()["paused"], PausedBy::Staff.as_str());
    assert_eq!(stands(&ada).await, told(false, "paused", "ask_organizer"));
    shop.program.post(&format!("{path}:resume"), because()).await.good();
    // Her offer is taken back, and staff have not said what becomes of her.
    let offer = world.live_offer(ann.id).await;
    world.decline(offer.id, ann.person).await;
    world.settle().await;
    let hers = world.live_offer(entry["id"].as_str().expect("an id").parse().expect("an id")).await;
    world.waiting("Ben", 1).await;
    shop.program.post(&format!("/v1/offers/{}:revoke", hers.id), because()).await.good();
    world.settle().await;
    assert_eq!(stands(&ada).await, told(false, "set_aside", "ask_organizer"));
}

#[tokio::test]
async fn whoever_has_as_many_as_the_rule_allows_is_not_told_to_ask_for_more() {
    let shop = Shop::with(Policy { person_limit: Some(1), ..two_hours() }, 1).await;
    let ada = shop.customer("Ada", "ada@example.com").await;
    ada.once("1").post("/v1/resources/spring/bookings", json!({})).await.good();
    assert_eq!(stands(&ada).await, told(false, "has_booking", "none"));
    shop.world.waiting("Ann", 1).await;
    shop.world.add_places(1).await;
    shop.world.settle().await;
    assert_eq!(stands(&ada).await, told(false, "has_booking", "none"));
    ada.post("/v1/resources/spring/waitlist:join", json!({})).await.refused(409, "too_many_places");
}
