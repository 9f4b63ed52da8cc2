//! Where another service has an event's places: what is offered here, what is not, and what staff are asked.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::key::Scope;
use fairlist::domain::outside::ServiceUrl;
use fairlist::domain::role::Role;
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};
use fairlist::waitlist::reconcile::Reconciler;
use serde_json::json;

use crate::api::Shop;
use crate::harness::booking_service::{BookingService, KEY, Manner};
use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::Visitor;
use crate::harness::world::{World, two_hours};

/// The event is booked by this service from now on.
pub async fn booked_by(service: &BookingService, world: &World) {
    let url = ServiceUrl::parse(&service.url()).expect("local");
    let at = BookAt::Service { url, key: Some(KEY.to_owned()) };
    let saved = world.waitlist.set_booking(world.event, &at, world.actor()).await.expect("set");
    assert_eq!(saved, BookAtOutcome::Saved);
}

#[tokio::test]
async fn what_is_not_booked_here_is_not_offered_here() {
    let shop = Shop::with(two_hours(), 2).await;
    let service = BookingService::start().await;
    let mut visitor = Visitor::new(&shop.router);
    assert!(visitor.get("/e/spring").await.attribute("form[action='/e/spring/book']", "method").is_some());
    booked_by(&service, &shop.world).await;

    let page = visitor.get("/e/spring").await;
    says(&page, "2 places are free. They are booked at the organizer’s box office, not here.");
    assert_eq!(page.attribute("form[action='/e/spring/book']", "method"), None);
    assert!(page.attribute("form[action='/e/spring/join']", "method").is_some(), "a larger party waits");
    says(&page, "For 3 or more places together");
    says(&visitor.get("/").await, "2 places free. Booked at the organizer’s box office.");
    let form = [("name", "Zoe"), ("email", "zoe@example.org"), ("party", "1")];
    let refused = visitor.post("/e/spring/book", &form).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    says(&refused, "What is free for everybody is booked at the organizer’s box office, not here.");
    let refused = visitor.post("/e/spring/join", &form).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    says(&refused, "They are booked at the organizer’s box office, not here. You were not put on the list.");

    let event = shop.program.get("/v1/resources/spring").await.good();
    assert_eq!((&event["places_free"], &event["booked_elsewhere"]), (&json!(0), &json!(true)));
    let zoe = shop.customer("Zoe", "zoe@example.org").await;
    let status = zoe.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(
        (&status["allowed"], &status["reason"], &status["next_step"], &status["places_free"]),
        (&json!(false), &json!("booked_elsewhere"), &json!("book_elsewhere"), &json!(0))
    );
    let booking = zoe.once("1").post("/v1/resources/spring/bookings", json!({"party": 1})).await;
    booking.refused(409, "not_the_rule");

    // The list goes on as ever: who waits is served, and who is offered accepts.
    let joined = zoe.once("2").post("/v1/resources/spring/waitlist:join", json!({"party": 3})).await.good();
    shop.world.add_places(1).await;
    shop.world.settle().await;
    let entry = zoe.get(&format!("/v1/waitlist/{}", joined["id"].as_str().expect("an id"))).await.good();
    let offer = entry["offer"]["id"].as_str().expect("an offer").to_owned();
    let accepted = zoe.once("3").post(&format!("/v1/offers/{offer}:accept"), json!({})).await.good();
    assert_eq!((&accepted["state"], &accepted["reference"]), (&json!("accepted"), &json!("BOX-1")));
    service.assert_equal(&shop.world).await;
}

/// 202 until it is known: it says why, and is not kept as the key's answer.
#[tokio::test]
async fn an_accept_without_an_outcome_is_202_and_then_200() {
    let shop = Shop::with(two_hours(), 1).await;
    let service = BookingService::start().await;
    booked_by(&service, &shop.world).await;
    let entry = shop.world.waiting("Ann", 1).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(entry.id).await;
    let program = shop.with_scopes(&[Scope::OffersWrite]).await.once("ann");
    let path = format!("/v1/offers/{}:accept", offer.id);
    service.set(Manner::DoAndFail);
    let asked = program.post(&path, json!({"reason": "customer_asked"})).await;
    assert_eq!(asked.status, StatusCode::ACCEPTED, "{}", asked.json);
    assert_eq!(asked.json["state"], "accepting");
    assert_eq!(asked.header("retry-after"), "7", "an offer takes ten answers a minute");
    for act in ["extend", "revoke"] {
        let body = json!({"reason": "customer_asked", "expires_at": "2027-03-01T14:00:00Z"});
        let body = if act == "extend" { body } else { json!({"reason": "customer_asked"}) };
        let meanwhile = shop.program.post(&format!("/v1/offers/{}:{act}", offer.id), body).await;
        meanwhile.refused(409, "being_confirmed");
    }
    let why = asked.json["being_confirmed"].as_str().expect("why");
    assert!(why.contains("has not answered yet"), "{why}");
    service.set(Manner::Willing);
    shop.world.later(Duration::seconds(30));
    Reconciler::new(&shop.world.waitlist).tick().await.expect("a tick");
    let again = program.post(&path, json!({"reason": "customer_asked"})).await;
    assert_eq!(again.status, StatusCode::OK, "{}", again.json);
    assert_eq!((&again.json["state"], &again.json["being_confirmed"]), (&json!("accepted"), &json!(null)));
    assert_eq!(again.json["bookings"].as_array().map(Vec::len), Some(1));
    service.assert_equal(&shop.world).await;
}

/// Nothing was done, so nothing is kept under the key: the same request is taken up again, and says when it may be.
#[tokio::test]
async fn an_accept_that_the_service_did_not_take_is_503_and_then_200() {
    let shop = Shop::with(two_hours(), 2).await;
    let service = BookingService::start().await;
    booked_by(&service, &shop.world).await;
    let [ann, ben] = shop.world.all_waiting(&["Ann", "Ben"]).await.try_into().expect("two");
    shop.world.settle().await;
    let accept = async |entry, key: &str| {
        let offer = shop.world.live_offer(entry).await;
        let path = format!("/v1/offers/{}:accept", offer.id);
        shop.program.once(key).post(&path, json!({"reason": "customer_asked"})).await
    };
    service.set(Manner::Unauthorized);
    let refused = accept(ann.id, "ann").await;
    refused.refused(503, "booking_unavailable");
    assert!(refused.header("retry-after").parse::<i64>().is_ok_and(|seconds| seconds > 0));
    service.set(Manner::Willing);
    let again = accept(ann.id, "ann").await;
    assert_eq!(
        (again.status, again.json["state"].clone()),
        (StatusCode::OK, json!("accepted")),
        "{}",
        again.json
    );
    // What is gone there is said so, by a code of its own.
    let place = "SELECT id FROM places WHERE state = 'held'";
    service.sell(sqlx::query_scalar(place).fetch_one(shop.world.database.sql()).await.expect("a place"));
    accept(ben.id, "ben").await.refused(409, "conflicted");
    service.assert_equal(&shop.world).await;
}

#[tokio::test]
async fn the_contract_is_served_by_the_program() {
    let shop = Shop::with(two_hours(), 0).await;
    let stranger = crate::harness::program::Program::new(&shop.router);
    let contract = stranger.get("/v1/booking-service.yaml").await;
    assert_eq!((contract.status, contract.header("content-type")), (StatusCode::OK, "application/yaml"));
    assert_eq!(contract.bytes, include_bytes!("../booking-service.yaml"));
    let docs = stranger.get("/v1/docs").await;
    assert!(String::from_utf8_lossy(&docs.bytes).contains("href=\"/v1/booking-service.yaml\""));
}

#[tokio::test]
async fn staff_are_told_where_places_are_booked() {
    let desk = Desk::with(two_hours(), 1).await;
    let service = BookingService::start().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    says(&mary.get(&desk.path("/bookings")).await, "Book by hand");
    booked_by(&service, &desk.world).await;
    let page = mary.get(&desk.path("/bookings")).await;
    does_not_say(&page, "Book by hand");
    says(&page, "what is free for everybody is booked at the booking service");
    let page = mary.get(&desk.path("/bookings/new")).await;
    says(&page, "A booking service has this event’s places: book what is free for everybody there.");
    assert!(page.texts("form.form").is_empty(), "a form that could do nothing");
    let page = mary.get(&desk.path("/booking-service")).await;
    assert!(page.attribute("a[href='/v1/booking-service.yaml']", "href").is_some());
}

/// What only people can find out is on the page of what needs them, with the way to settle it.
#[tokio::test]
async fn the_overview_lists_what_the_service_never_answered() {
    let desk = Desk::with(two_hours(), 1).await;
    let service = BookingService::start().await;
    booked_by(&service, &desk.world).await;
    let world = &desk.world;
    let entry = world.waiting("Ann", 1).await;
    world.settle().await;
    let offer = world.live_offer(entry.id).await;
    service.set(Manner::Fail);
    assert_eq!(world.accept(offer.id, entry.person).await, AcceptOutcome::BeingConfirmed);
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    says(&agnes.get("/staff").await, "Nothing needs you.");
    // Long enough for the key's life, and nobody was asked meanwhile.
    world.later(Duration::minutes(15));
    let page = agnes.get("/staff").await;
    says(&page, "1 booking service is in trouble.");
    says(&page, "The booking service never answered 1 call: look it up there");
    let resolve = page.attribute(".needs a.button", "href").expect("a way to settle it");
    assert_eq!(page.texts(".needs a.button"), ["Resolve"]);
    let form = agnes.get(&resolve).await;
    says(&form, "Book 1 place for Ann: what came of it?");
    says(&agnes.get(&desk.path("/booking-service")).await, "needs you");

    sqlx::query("UPDATE booking_circuits SET failures = 5, open_until = $1")
        .bind(world.now() + Duration::minutes(5))
        .execute(world.database.sql())
        .await
        .unwrap();
    let page = agnes.get("/staff").await;
    says(&page, "1 booking service is in trouble.");
    says(&page, "The booking service failed 5 times in a row, last: the service failed (500).");
    says(&agnes.get(&desk.path("")).await, "until then nobody can accept an offer");

    let fields = [("came", "not_booked"), ("reason", "customer_asked")];
    let done = agnes.post(&resolve, &fields).await;
    assert_eq!(done.location(), Some(desk.path("/booking-service")));
    says(&agnes.get(&desk.path("/booking-service")).await, "Resolved, and written into the audit.");
    world.later(Duration::minutes(5));
    world.settle().await;
    says(&agnes.get("/staff").await, "Nothing needs you.");
}
