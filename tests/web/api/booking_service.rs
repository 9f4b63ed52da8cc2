//! Where places are booked, told by programs: the service, what it never answered, and how that is settled.

use chrono::Duration;
use fairlist::domain::ids::AttemptId;
use fairlist::domain::key::Scope;
use fairlist::waitlist::answer::AcceptOutcome;
use serde_json::json;

use super::{Shop, because, with_reason};
use crate::booking_service::booked_by;
use crate::harness::booking_service::{BookingService, KEY, Manner};
use crate::harness::world::two_hours;

const PATH: &str = "/v1/events/spring/booking-service";

/// Ann's offer was accepted, and nobody knows whether the service booked her place; long enough for staff to be asked.
pub async fn unanswered() -> (Shop, AttemptId) {
    let shop = Shop::with(two_hours(), 1).await;
    let service = BookingService::start().await;
    booked_by(&service, &shop.world).await;
    let entry = shop.world.waiting("Ann", 1).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(entry.id).await;
    service.set(Manner::Fail);
    assert_eq!(shop.world.accept(offer.id, entry.person).await, AcceptOutcome::BeingConfirmed);
    shop.world.later(Duration::minutes(15));
    let attempts = shop.world.database.db().attempts_of(shop.world.event, 1).await.expect("attempts");
    (shop, attempts[0].id)
}

#[tokio::test]
async fn an_event_goes_to_a_service_and_stays_while_it_has_something_there() {
    let shop = Shop::with(two_hours(), 1).await;
    let here = shop.program.get(PATH).await.good();
    assert_eq!((&here["base_url"], &here["state"]), (&json!(null), &json!(null)));
    let at = |url: &str, key: &str| json!({"base_url": url, "key": key});
    // Where customers' addresses go is not for everybody who edits events; and what is not said moves nothing.
    let editor = shop.with_scopes(&[Scope::EventsWrite, Scope::EventsRead]).await;
    editor.put(PATH, at("https://elsewhere.example/", "k")).await.refused(403, "scope_missing");
    for nothing in [json!({}), json!({"key": "another"})] {
        shop.program.put(PATH, nothing).await.refused(400, "unreadable_body");
    }
    shop.program.put(PATH, at("http://box.example", "hush")).await.refused(400, "invalid");
    shop.program.put(PATH, at("https://box.example", "")).await.refused(400, "invalid");
    let service = BookingService::start().await;
    let there = shop.program.put(PATH, at(&service.url(), KEY)).await;
    assert!(!String::from_utf8_lossy(&there.bytes).contains(KEY), "a key is never shown");
    let there = there.good();
    assert_eq!((&there["base_url"], &there["state"]), (&json!(service.url()), &json!("called")));

    let entry = shop.world.waiting("Ann", 1).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(entry.id).await.id;
    shop.program.once("a").post(&format!("/v1/offers/{offer}:accept"), because()).await.good();
    let moved = shop.program.put(PATH, json!({"base_url": null})).await;
    moved.refused(409, "wrong_state");
    assert_eq!(moved.json["booked"], 1);
    // Without a key the one that it has stays.
    let same = shop.program.put(PATH, json!({"base_url": service.url()})).await.good();
    assert_eq!((&same["booked"], &same["unresolved"]), (&json!(1), &json!(0)));
    shop.with_scopes(&[Scope::EventsRead]).await.put(PATH, at("x", "")).await.refused(403, "scope_missing");
}

#[tokio::test]
async fn what_the_service_never_answered_is_listed_and_resolved_once() {
    let (shop, id) = unanswered().await;
    let state = shop.program.get(PATH).await.good();
    assert_eq!(
        (&state["state"], &state["failures"], &state["unresolved"]),
        (&json!("failing"), &json!(1), &json!(1))
    );
    assert!(state["last_error"].is_string() && state["last_error_at"].is_string());
    let open = shop.program.get(&format!("{PATH}/attempts?outcome=unresolved")).await.good();
    let [attempt] = open["items"].as_array().expect("a list").as_slice() else { panic!("{open}") };
    assert_eq!((&attempt["id"], &attempt["act"]), (&json!(id), &json!("reserve")));
    assert_eq!((&attempt["needs_staff"], &attempt["uncertain"]), (&json!(true), &json!(true)));
    let moved = shop.program.put(PATH, json!({"base_url": null})).await;
    moved.refused(409, "wrong_state");
    assert_eq!(moved.json["unresolved"], 1);

    let one = format!("{PATH}/attempts/{id}");
    let resolve = format!("{one}:resolve");
    let booked = with_reason(&json!({"came": "booked"}));
    let refused = shop.program.post(&resolve, booked).await;
    refused.refused(400, "invalid");
    assert_eq!(refused.json["field"], "reference");
    shop.program.post(&resolve, json!({"came": "not_booked", "reason": ""})).await.refused(400, "invalid");
    let reader = shop.with_scopes(&[Scope::EntriesRead]).await;
    let not_booked = with_reason(&json!({"came": "not_booked"}));
    reader.post(&resolve, not_booked.clone()).await.refused(403, "scope_missing");

    let booked = with_reason(&json!({"came": "booked", "reference": "BOX-9"}));
    let done = shop.program.once("r").post(&resolve, booked.clone()).await.good();
    assert_eq!((&done["outcome"], &done["needs_staff"]), (&json!("succeeded"), &json!(false)));
    assert_eq!(shop.program.once("r").post(&resolve, booked).await.good(), done, "the same answer");
    // The booking is the person's, who accepted; that it was looked up is the program's.
    let audit = shop.program.get("/v1/events/spring/audit?limit=200").await.good();
    let resolved =
        audit["items"].as_array().expect("records").iter().find(|record| record["act"] == "resolved");
    assert_eq!(resolved.expect("a record")["actor"], "key");
    let offer =
        shop.program.get(&format!("/v1/offers/{}", done["offer"].as_str().expect("an id"))).await.good();
    assert_eq!((&offer["state"], &offer["reference"]), (&json!("accepted"), &json!("BOX-9")));
    let late = shop.program.post(&resolve, not_booked).await;
    late.refused(409, "wrong_state");
    assert_eq!(late.json["outcome"], "succeeded");
    assert_eq!(reader.get(&one).await.good()["outcome"], "succeeded");
    let open = shop.program.get(&format!("{PATH}/attempts?outcome=unresolved")).await.good();
    assert_eq!(open["items"], json!([]));
}

#[tokio::test]
async fn attempts_come_in_pages_the_newest_first() {
    let (shop, first) = unanswered().await;
    let resolve = format!("{PATH}/attempts/{first}:resolve");
    shop.program.post(&resolve, with_reason(&json!({"came": "not_booked"}))).await.good();
    // The service is told that the key is void: another attempt, which is the newest.
    let page = shop.program.get(&format!("{PATH}/attempts?limit=1")).await.good();
    assert_eq!(
        (&page["items"][0]["act"], &page["items"][0]["outcome"]),
        (&json!("release"), &json!("unresolved"))
    );
    let next = page["next"].as_str().expect("there is another");
    let page = shop.program.get(&format!("{PATH}/attempts?limit=1&after={next}")).await.good();
    assert_eq!((&page["items"][0]["id"], &page["next"]), (&json!(first), &json!(null)));
    assert_eq!(page["items"][0]["outcome"], "failed");
}
