//! A stranger's shop uses the API: people join, are offered, accept.

use axum::http::Method;
use fairlist::domain::entry::{Hindrance, PausedBy};
use fairlist::domain::key::Scope;
use fairlist::domain::trail::How;
use serde_json::json;

use super::Shop;
use crate::harness::program::Program;
use crate::harness::world::two_hours;

#[tokio::test]
async fn a_customer_joins_is_offered_and_accepts() {
    let shop = Shop::with(two_hours(), 1).await;
    shop.world.booked("Holder", 1).await;
    let event = Program::new(&shop.router).get("/v1/resources/spring").await.good();
    assert_eq!((event["places_free"].as_i64(), event["seats_held"].as_i64()), (Some(0), Some(0)));
    let ada = shop.customer("Ada", "ada@example.com").await;
    let status = ada.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(status["reason"], "event_is_full");
    assert_eq!(status["next_step"], "join_waitlist");
    let entry = ada.post("/v1/resources/spring/waitlist:join", json!({})).await.good();
    assert_eq!((entry["state"].as_str(), entry["position"].as_i64()), (Some("waiting"), Some(1)));
    // Joining again is the same entry.
    let again = ada.post("/v1/resources/spring/waitlist:join", json!({"party": 1})).await.good();
    assert_eq!(again["id"], entry["id"]);
    shop.world.add_places(1).await;
    shop.world.pass().await;
    let status = ada.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(
        (status["allowed"].as_bool(), status["next_step"].as_str()),
        (Some(true), Some("answer_offer"))
    );
    assert_eq!(status["own_deadline"], "2027-03-01T11:00:00Z");
    assert_eq!(status["held_by_others"], 0);
    let offer = status["entry"]["offer"]["id"].as_str().expect("an offer");
    let event = Program::new(&shop.router).get("/v1/resources/spring").await.good();
    assert_eq!(event["seats_held"], 1);
    // Somebody else on the list sees whose turn it is, and may not touch the offer.
    let bob = shop.customer("Bob", "bob@example.com").await;
    let status = bob.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(status["reason"], "reserved_for_waitlist");
    assert_eq!(
        (status["held_by_others"].as_i64(), status["next_deadline"].as_str()),
        (Some(1), Some("2027-03-01T11:00:00Z"))
    );
    let accept = format!("/v1/offers/{offer}:accept");
    bob.once("b").post(&accept, json!({})).await.refused(403, "not_yours");
    // Without a key of one's own a repetition could not be told from a second wish.
    ada.post(&accept, json!({})).await.refused(400, "idempotency_key_missing");
    let accepted = ada.once("a").post(&accept, json!({})).await.good();
    assert_eq!(accepted["state"], "accepted");
    assert!(accepted["reference"].as_str().is_some_and(|reference| !reference.is_empty()));
    ada.post(&format!("/v1/offers/{offer}:decline"), json!({})).await.refused(409, "not_pending");
    let status = ada.get("/v1/resources/spring/my-status").await.good();
    assert_eq!(status["bookings"][0]["reference"], accepted["reference"]);
    ada.delete("/v1/tokens/current").await;
    ada.get("/v1/resources/spring/my-status").await.refused(401, "unauthorized");
}

#[tokio::test]
async fn a_shop_acts_for_people_as_far_as_its_key_goes() {
    let shop = Shop::with(two_hours(), 0).await;
    let reader = shop.with_scopes(&[Scope::EntriesRead]).await;
    let ada = json!({"name": "Ada", "email": "ada@example.com", "party": 2});
    let join = "/v1/resources/spring/waitlist:join";
    reader.post(join, ada.clone()).await.refused(403, "scope_missing");
    let entry = shop.program.post(join, ada).await.good();
    let id = entry["id"].as_str().expect("an id");
    let path = format!("/v1/waitlist/{id}");
    assert_eq!(reader.get(&path).await.good()["person"]["name"], "Ada");
    let status = reader.get("/v1/resources/spring/my-status?email=ada@example.com").await.good();
    assert_eq!(status["entry"]["id"], id);
    shop.program.post(&format!("{path}:pause"), json!({})).await.refused(400, "invalid");
    let paused =
        shop.program.post(&format!("{path}:pause"), json!({"reason": "customer_asked"})).await.good();
    assert_eq!(paused["paused"], "staff");
    // A program acts for the staff: also where the entry's story is told.
    let db = shop.world.database.db();
    let entry = db.entry_in(shop.world.event, id.parse().expect("an id")).await.expect("the entry");
    let story = db.trail_of(&entry).await.expect("its story");
    let how = story.last().map(|stand| stand.how);
    assert_eq!(how, Some(How::Hindered(Hindrance::Paused(PausedBy::Staff))));
    let changed = shop.program.patch(&path, json!({"party": 1, "reason": "customer_asked"})).await.good();
    assert_eq!(changed["party"], 1);
    // Who takes somebody else off the list says why.
    shop.program.delete(&path).await.refused(400, "invalid");
    let left = shop.program.delete(&format!("{path}?reason=customer_asked")).await.good();
    assert_eq!(left["state"], "removed");
    let record = shop.last_record().await;
    assert_eq!(
        (record["act"].as_str(), record["reason"].as_str()),
        (Some("removed"), Some("customer_asked"))
    );
    // A customer of theirs does not become one of another house.
    let stranger = Program::new(&shop.router).with_token("fl_key_nonsense");
    stranger.get(&path).await.refused(401, "unauthorized");
}

#[tokio::test]
async fn every_operation_is_described_served_and_guarded() {
    let shop = Shop::with(two_hours(), 0).await;
    let stranger = Program::new(&shop.router);
    let described = stranger.get("/v1/openapi.json").await.good();
    assert_eq!(described["openapi"], "3.1.0");
    let docs = stranger.get("/v1/docs").await;
    let page = String::from_utf8(docs.bytes).expect("text");
    let id = "00000000-0000-0000-0000-000000000000";
    let mut operations = 0;
    let mut ids = std::collections::HashSet::new();
    for (path, item) in described["paths"].as_object().expect("paths") {
        assert!(page.contains(path), "{path} is not on the page");
        for (method, operation) in item.as_object().expect("operations") {
            operations += 1;
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let about = format!("{method} {path}");
            assert!(ids.insert(operation["operationId"].clone()), "{about}: its id is another's, too");
            assert!(
                operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
                "{about}: no summary"
            );
            let mut address = path.clone();
            while let (Some(from), Some(to)) = (address.find('{'), address.find('}')) {
                address.replace_range(from..=to, id);
            }
            if operation["security"] == json!([{}]) {
                continue;
            }
            let reply = stranger.once("k").send(method, &address, Some(json!({}))).await;
            assert_eq!((reply.status.as_u16(), reply.code()), (401, "unauthorized"), "{about}");
        }
    }
    assert_eq!(operations, 101);
    stranger.get("/v1/nothing").await.refused(404, "not_found");
    stranger.post("/v1/resources", json!({})).await.refused(405, "method_not_allowed");
}

/// What the description says a key must be good for is what a key that is not is refused for.
#[tokio::test]
async fn the_description_says_who_may_do_what() {
    let shop = Shop::with(two_hours(), 0).await;
    let described = shop.program.get("/v1/openapi.json").await.good();
    let page = String::from_utf8(shop.program.get("/v1/docs").await.bytes).expect("text");
    let (follower, sender) =
        (shop.with_scopes(&[Scope::TransitionsRead]).await, shop.with_scopes(&[Scope::MessagesWrite]).await);
    let mut refused = 0;
    for (path, item) in described["paths"].as_object().expect("paths") {
        for (method, operation) in item.as_object().expect("operations") {
            let about = format!("{method} {path}");
            let ways = operation["security"].as_array().unwrap_or_else(|| panic!("{about}: who may?"));
            let named = ways.iter().find_map(|way| way["key"][0].as_str());
            if ways.iter().any(|way| *way == json!({})) || named.is_none() {
                continue;
            }
            let scope = Scope::parse(named.expect("a scope")).unwrap_or_else(|| panic!("{about}: {named:?}"));
            let said = operation["description"].as_str().expect("a description");
            assert!(said.contains(scope.as_str()), "{about}: {said}");
            let asks = if scope == Scope::TransitionsRead { &sender } else { &follower };
            let mut address = path.replace("{event}", "spring");
            while let (Some(from), Some(to)) = (address.find('{'), address.find('}')) {
                address.replace_range(from..=to, "00000000-0000-0000-0000-000000000000");
            }
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).expect("a method");
            let reply = asks.once("k").send(method, &address, Some(json!({}))).await;
            if reply.code() == "scope_missing" {
                refused += 1;
                assert_eq!(reply.json["scope"], scope.as_str(), "{about}");
            } else {
                // What is not there, or cannot be read, is refused before.
                assert!(matches!(reply.status.as_u16(), 400 | 404), "{about}: {}", reply.json);
            }
        }
    }
    assert!(refused >= 25, "{refused}");
    for code in fairlist::web::api::problem::Code::ALL {
        assert!(page.contains(code.as_str()), "{}", code.as_str());
    }
}

/// The requests of the page that explains them do what it says, one after the other.
#[tokio::test]
async fn what_the_page_shows_works_as_it_stands_there() {
    let shop = Shop::with(two_hours(), 0).await;
    let taken = "UPDATE events SET slug = 'winter'";
    sqlx::query(taken).execute(shop.world.database.sql()).await.expect("the page's event is another");
    let docs = Program::new(&shop.router).get("/v1/docs").await;
    let page = String::from_utf8(docs.bytes).expect("text");
    let page = page.replace("&#34;", "\"").replace("&amp;", "&");
    let mut known: Vec<(&str, String)> = Vec::new();
    let mut event = shop.world.event;
    let mut done = Vec::new();
    for shown in page.split("<pre class=\"sample\">").skip(1) {
        let shown = shown.split("</pre>").next().expect("its end");
        let shown = known.iter().fold(shown.to_owned(), |shown, (name, is)| shown.replace(name, is));
        let mut lines = shown.lines();
        let asked = lines.next().expect("a request");
        let Some((method, path)) =
            asked.split_once(' ').filter(|(method, _)| ["GET", "POST", "PATCH"].contains(method))
        else {
            continue;
        };
        let method = Method::from_bytes(method.as_bytes()).expect("a method");
        let mut program = shop.program.once(&format!("request {}", done.len()));
        let mut body = None;
        for line in lines {
            match line.strip_prefix("If-Match: ") {
                Some(version) => program = program.with("if-match", version),
                None => body = Some(serde_json::from_str(line).expect("JSON")),
            }
        }
        let reply = program.send(method, path, body).await;
        let version = reply.header("etag").to_owned();
        let answer = reply.good();
        done.push(asked.to_owned());
        if path == "/v1/events" {
            assert_eq!(answer["state"], "draft");
            event = answer["id"].as_str().and_then(|id| id.parse().ok()).expect("an event");
        } else if path.ends_with("/policy") && asked.starts_with("GET") {
            assert_eq!(answer["window_seconds"], json!(null));
            known.push(("{etag}", version));
        } else if path.ends_with("/policy") {
            assert_eq!(answer["window_seconds"], 7200);
        } else if path.ends_with(":publish") {
            assert_eq!(answer["state"], "published");
        } else if path.ends_with("/bookings") {
            let booking = answer["id"].as_str().expect("a booking");
            known.push(("{booking_id}", booking.to_owned()));
        } else if path.contains("capacity") {
            assert_eq!(answer["results"][0]["outcome"], "applied");
            shop.world.later(chrono::Duration::minutes(1));
            shop.world.waitlist.run_pass(event).await.expect("a pass");
            shop.world.database.fed().await;
        } else if path.contains("transitions") {
            let offer = answer["items"][0]["data"]["offer_id"].as_str().expect("an offer");
            known.push(("{offer_id}", offer.to_owned()));
        } else if path.ends_with(":accept") {
            assert!(answer["reference"].is_string());
        } else if path.starts_with("/v1/offers") {
            assert_eq!(answer["email"], "ada@example.org");
        } else if path.contains("my-status") {
            assert_eq!(answer["bookings"].as_array().map(Vec::len), Some(1));
        }
    }
    assert_eq!(done.len(), 13, "{done:?}");
    let places = shop.program.get("/v1/resources/spring/places").await.good();
    assert_eq!(places["items"].as_array().map(Vec::len), Some(2), "one added, one came back: {places}");
}

#[tokio::test]
async fn what_cannot_be_read_is_refused_in_words() {
    let shop = Shop::with(two_hours(), 0).await;
    let join = "/v1/resources/spring/waitlist:join";
    for (body, code) in [
        (json!({"partty": 2}), "unreadable_body"),
        (json!({"party": "two"}), "unreadable_body"),
        (json!({"party": 2, "name": "A\u{0}da", "email": "ada@example.com"}), "unreadable_body"),
        (json!([]), "unreadable_body"),
        (json!({"party": 0, "name": "Ada", "email": "ada@example.com"}), "invalid"),
        (json!({"name": "Ada", "email": "nonsense"}), "invalid"),
        (json!({"name": "", "email": "ada@example.com"}), "invalid"),
        (json!({"name": "Ada", "email": "ada@example.com", "wants": {"row": {}}}), "invalid"),
    ] {
        shop.program.post(join, body).await.refused(400, code);
    }
    shop.program.with("content-type", "text/plain").get("/v1/waitlist?email=x").await.refused(400, "invalid");
}
