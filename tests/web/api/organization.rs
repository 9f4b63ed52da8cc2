//! An organization's program runs an event from nothing to its audit; a booking service tells of capacity.

use fairlist::domain::audit::Actor;
use fairlist::domain::ids::KeyId;
use fairlist::domain::key::Scope;
use fairlist::domain::policy::Policy;
use fairlist::domain::webhook::signatures;
use futures_util::future::join_all;
use serde_json::{Value, json};

use super::{Shop, because};
use crate::harness::program::{Program, add_key};
use crate::harness::world::two_hours;

const TELL: &str = "/v1/internal/capacity-released";

#[tokio::test]
async fn a_program_runs_an_event_from_nothing() {
    let shop = Shop::with(Policy::first(), 0).await;
    let program = &shop.program;
    program.post("/v1/events", json!({"name": "Clinic"})).await.refused(400, "invalid");
    let new = json!({"name": "Clinic day", "zone": "Europe/Berlin", "starts_at": "2027-04-01T08:00:00Z"});
    let event = program.once("new").post("/v1/events", new.clone()).await.good();
    assert_eq!((event["slug"].as_str(), event["state"].as_str()), (Some("clinic-day"), Some("draft")));
    program.post("/v1/events", new).await.refused(409, "taken");
    let path = "/v1/events/clinic-day";
    // Who has not read it does not overwrite it.
    program.patch(path, json!({"venue": "Room 2"})).await.refused(428, "version_missing");
    let read = |version: i64| program.with("if-match", &format!("\"{version}\""));
    let changed = read(1).patch(path, json!({"venue": "Room 2"})).await.good();
    assert_eq!((changed["venue"].as_str(), changed["version"].as_i64()), (Some("Room 2"), Some(2)));
    read(1).patch(path, json!({"venue": "Room 3"})).await.refused(412, "changed");
    let rule = json!({"window_seconds": 3600, "batch_size": 1, "reason": "event_changed"});
    let rule = read(2).patch(&format!("{path}/policy"), rule).await.good();
    assert_eq!((rule["version"].as_i64(), rule["window_seconds"].as_i64()), (Some(2), Some(3600)));
    read(3)
        .patch(&format!("{path}/policy"), json!({"window_seconds": 1, "reason": "event_changed"}))
        .await
        .refused(400, "invalid");
    let versions = program.get(&format!("{path}/policy/versions")).await.good();
    assert_eq!(versions.as_array().map(Vec::len), Some(2));
    let areas = json!([{"key": "", "label": "Area", "measure": "choice", "choices": ["Stalls", "Balcony"]}]);
    let event = read(3).put(&format!("{path}/attributes"), areas).await.good();
    assert_eq!(event["attributes"][0]["key"], "area");
    program.post(&format!("{path}:publish"), because()).await.good();
    let resource = "/v1/resources/clinic-day";
    let places = json!({"labels": ["A1", "A2"], "attributes": {"area": "Balcony"}});
    let added = program.once("places").post(&format!("{resource}/places"), places.clone()).await;
    let again = program.once("places").post(&format!("{resource}/places"), places.clone()).await;
    assert_eq!((added.good()["added"].as_i64(), again.good()["added"].as_i64()), (Some(2), Some(2)));
    program.post(&format!("{resource}/places"), places).await.refused(409, "taken");
    let booked = json!({"name": "Ada", "email": "ada@example.com", "party": 2, "reason": "customer_asked"});
    let booking = program.once("b").post(&format!("{resource}/bookings"), booked.clone()).await.good();
    assert_eq!(program.once("b").post(&format!("{resource}/bookings"), booked).await.good(), booking);
    let bob = json!({"name": "Bob", "email": "bob@example.com", "wants": {"area": {"any_of": ["Balcony"]}}});
    let entry = program.post(&format!("{resource}/waitlist:join"), bob).await.good();
    let lines = program.get(&format!("{resource}/entries")).await.good();
    assert_eq!(lines["items"][0]["id"], entry["id"]);
    let page = program.get(&format!("{resource}/places?limit=1&state=booked")).await.good();
    assert_eq!(page["items"][0]["label"], "A1");
    let next = page["next"].as_str().expect("there is another");
    let page = program.get(&format!("{resource}/places?limit=1&state=booked&after={next}")).await.good();
    assert_eq!((page["items"][0]["label"].as_str(), page["next"].is_null()), (Some("A2"), true));
    let place = page["items"][0]["id"].as_str().expect("an id");
    let release = json!({"booking": page["items"][0]["booking"], "reason": "customer_asked"});
    let released = program.post(&format!("{resource}/places/{place}:release"), release).await.good();
    assert_eq!(released["state"], "open");
    let id = event["id"].as_str().expect("an id").parse().expect("an id");
    shop.world.later(chrono::Duration::minutes(1));
    shop.world.waitlist.run_pass(id).await.expect("a pass");
    let offers = program.get(&format!("{resource}/offers")).await.good();
    let offer = offers["items"][0]["id"].as_str().expect("an offer").to_owned();
    let revoke = format!("/v1/offers/{offer}:revoke");
    program.post(&revoke, json!({"reason": "none such"})).await.refused(400, "invalid");
    let revoked = program.post(&revoke, json!({"reason": "staff_mistake"})).await.good();
    assert_eq!(
        (revoked["state"].as_str(), revoked["end_reason"].as_str()),
        (Some("revoked"), Some("staff_mistake"))
    );
    let deadline = json!({"reason": "staff_mistake", "expires_at": "2027-03-02T10:00:00Z"});
    let again = program.post(&format!("/v1/offers/{offer}:reactivate"), deadline).await.good();
    assert_eq!(
        (again["state"].as_str(), again["expires_at"].as_str()),
        (Some("pending"), Some("2027-03-02T10:00:00Z"))
    );
    // A look and what ends an entry in the same instant could not be told apart.
    shop.world.later(chrono::Duration::minutes(1));
    let accept = format!("/v1/offers/{offer}:accept");
    let accepted = program.once("yes").post(&accept, because()).await.good();
    assert_eq!(accepted["state"], "accepted");
    let explained = program
        .get(&format!("/v1/waitlist/{}/explanation", entry["id"].as_str().expect("an id")))
        .await
        .good();
    assert_eq!(explained["looks"][0]["meant"], "offered");
    let back = program.get(&format!("{resource}/releases")).await.good();
    let release = back["items"]
        .as_array()
        .expect("releases")
        .iter()
        .find(|release| release["reason"] == "customer_asked");
    let release = release.and_then(|release| release["id"].as_str()).expect("the release of A2");
    let story = program.get(&format!("{resource}/releases/{release}")).await.good();
    assert_eq!(
        (story["looked"].as_str(), story["offered"][0]["entry"].clone()),
        (Some("offered"), entry["id"].clone())
    );
    assert!(program.get(&format!("{resource}/explanation")).await.good()["last_look"].is_string());
    let messages = program.get("/v1/messages?limit=1").await.good();
    assert!(messages["next"].is_string());
    // The audit names the key, and its chain is whole.
    let audit = program.get(&format!("{path}/audit?limit=200")).await.good();
    let by_key =
        audit["items"].as_array().expect("records").iter().filter(|record| record["actor"] == "key").count();
    assert!(by_key > 8, "{by_key}");
    let anchor = program.get(&format!("{path}/audit/anchor")).await.good();
    assert_eq!(anchor["hash"], audit["items"].as_array().expect("records").last().expect("one")["hash"]);
    program.post(&format!("{path}:cancel"), because()).await.good();
    program.get(resource).await.good();
    let stranger = Program::new(&shop.router);
    assert_eq!(stranger.get(resource).await.good()["state"], "cancelled");
}

/// Whatever a proxy made of it.
#[tokio::test]
async fn the_entity_tag_of_a_reading_is_good_for_the_change() {
    let shop = Shop::with(two_hours(), 0).await;
    let (program, path) = (&shop.program, "/v1/events/spring/policy");
    let tag = program.get(path).await.header("etag").to_owned();
    assert!(tag.contains('-'), "{tag}");
    let unchanged = program.with("if-none-match", &tag).get(path).await;
    assert_eq!((unchanged.status.as_u16(), unchanged.bytes.len()), (304, 0));
    let rule = json!({"window_seconds": 3600, "reason": "event_changed"});
    let change = async || program.with("if-match", &format!("W/{tag}")).patch(path, rule.clone()).await;
    assert_eq!(change().await.good()["window_seconds"], 3600);
    change().await.refused(412, "changed");
    assert_ne!(program.get(path).await.header("etag"), tag);
}

#[tokio::test]
async fn a_lottery_is_drawn_once_however_often_it_is_asked_for() {
    let shop = Shop::with(two_hours(), 0).await;
    let program = &shop.program;
    shop.world.all_waiting(&["ada", "bob"]).await;
    program.post("/v1/events/spring/draws", because()).await.refused(409, "not_the_rule");
    let event = program.get("/v1/events/spring").await.good();
    let version = format!("\"{}\"", event["version"]);
    let rule = json!({"ordering": "lottery", "draws": "staff", "reason": "event_changed"});
    program.with("if-match", &version).patch("/v1/events/spring/policy", rule).await.good();
    let draw = program.once("draw").post("/v1/events/spring/draws", because()).await;
    let again = program.once("draw").post("/v1/events/spring/draws", because()).await;
    assert_eq!((draw.bytes.clone(), again.bytes), (draw.bytes.clone(), draw.bytes.clone()));
    assert_eq!(draw.good()["pool_size"], 2);
    assert_eq!(program.get("/v1/events/spring/draws").await.good().as_array().map(Vec::len), Some(1));
}

#[tokio::test]
async fn what_a_booking_service_tells_is_applied_once_whatever_the_order() {
    let shop = Shop::with(two_hours(), 1).await;
    shop.world.booked("Ada", 1).await;
    let item = |id: &str, more: Value| {
        let mut item = json!({"source": "box office", "id": id, "event": "spring"});
        item.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
        json!({"releases": [item]})
    };
    let outcome = |answer: &Value| answer["results"][0]["outcome"].as_str().unwrap_or_default().to_owned();
    // Sixteen times at once.
    let two = item("1", json!({"quantity": 2}));
    let told: Vec<_> = (0..16).map(|_| shop.program.post(TELL, two.clone())).collect();
    let answers: Vec<Value> = join_all(told).await.into_iter().map(|reply| reply.good()).collect();
    assert_eq!(answers.iter().filter(|answer| outcome(answer) == "applied").count(), 1);
    assert_eq!(answers.iter().filter(|answer| outcome(answer) == "repeated").count(), 15);
    assert_eq!(answers[0]["results"][0]["places"], answers[15]["results"][0]["places"]);
    // The same id with something else.
    let other = shop.program.post(TELL, item("1", json!({"quantity": 3}))).await;
    assert_eq!((other.status.as_u16(), outcome(&other.json)), (207, "key_reused".to_owned()));
    // A named place, twice under two ids: it came back once. Of somebody who has it, it has not.
    let named = json!({"places": [{"label": "B12"}]});
    assert_eq!(outcome(&shop.program.post(TELL, item("2", named.clone())).await.good()), "applied");
    assert_eq!(outcome(&shop.program.post(TELL, item("3", named)).await.good()), "repeated");
    // A booking by its id: its place comes back once.
    let bookings = shop.program.get("/v1/bookings?email=ada@example.org").await.good();
    let booking = bookings[0]["id"].as_str().expect("a booking").to_owned();
    let gone = item("4", json!({"booking": booking, "reason": "customer_asked"}));
    assert_eq!(outcome(&shop.program.post(TELL, gone.clone()).await.good()), "applied");
    assert_eq!(outcome(&shop.program.post(TELL, gone).await.good()), "repeated");
    let late = item("5", json!({"booking": booking, "reason": "customer_asked"}));
    let outcome_of_late = outcome(&shop.program.post(TELL, late).await.good());
    assert_eq!(outcome_of_late, "repeated", "told again by another: harmless");
    let event = shop.program.get("/v1/events/spring").await.good();
    assert_eq!((event["open"].as_i64(), event["booked"].as_i64()), (Some(4), Some(0)));
    // What another event has is refused by name.
    let new = json!({"name": "Autumn", "zone": "Europe/Berlin"});
    shop.program.post("/v1/events", new).await.good();
    let elsewhere =
        json!({"releases": [{"source": "box office", "id": "6", "event": "autumn", "booking": booking}]});
    let refused = shop.program.post(TELL, elsewhere).await;
    assert_eq!(outcome(&refused.json), "not_found");
    assert!(refused.json["results"][0]["detail"].as_str().is_some_and(|detail| detail.contains("spring")));
    for (bad, field) in [
        (item("7", json!({})), "quantity"),
        (item("7", json!({"quantity": 0})), "quantity"),
        (item("7", json!({"quantity": 1, "booking": booking})), "quantity"),
        (item("", json!({"quantity": 1})), "id"),
    ] {
        let reply = shop.program.post(TELL, bad).await;
        assert_eq!((reply.status.as_u16(), outcome(&reply.json)), (207, "invalid".to_owned()), "{field}");
    }
    shop.with_scopes(&[Scope::EntriesWrite]).await.post(TELL, two).await.refused(403, "scope_missing");
}

#[tokio::test]
async fn who_signs_what_it_tells_need_not_show_its_key() {
    let shop = Shop::with(two_hours(), 0).await;
    let db = shop.world.database.db();
    let organization = db.event(shop.world.event).await.expect("the event").organization;
    let Actor::Staff(by) = shop.world.actor() else { panic!("the world's actor is staff") };
    let (key, _) = add_key(db, organization, by, &[Scope::PlacesWrite]).await;
    let (other, _) = add_key(db, organization, by, &[Scope::PlacesWrite]).await;
    let (deaf, _) = add_key(db, organization, by, &[Scope::EventsRead]).await;
    let body = json!({"releases": [{"source": "till", "id": "1", "event": "spring", "quantity": 1}]});
    let now = db.now().await.expect("the time").timestamp();
    let told = async |by: KeyId, named: Option<KeyId>, at: i64, signed: &Value| {
        let keys = [shop.secret.telling_key(by)];
        let signature = signatures(&keys, "msg_1", at, signed.to_string().as_bytes());
        let path = named.map_or_else(|| TELL.to_owned(), |named| format!("{TELL}?key={named}"));
        Program::new(&shop.router)
            .with("webhook-id", "msg_1")
            .with("webhook-timestamp", &at.to_string())
            .with("webhook-signature", &signature)
            .post(&path, body.clone())
            .await
    };
    assert_eq!(told(key, Some(key), now, &body).await.good()["results"][0]["outcome"], "applied");
    assert_eq!(told(key, Some(key), now - 290, &body).await.good()["results"][0]["outcome"], "repeated");
    for (by, named, at, signed) in [
        (other, Some(key), now, &body),
        (key, Some(other), now, &body),
        (key, None, now, &body),
        (key, Some(KeyId(uuid::Uuid::nil())), now, &body),
        (key, Some(key), now - 310, &body),
        (key, Some(key), now + 310, &body),
        (key, Some(key), now, &json!({})),
    ] {
        told(by, named, at, signed).await.refused(401, "unauthorized");
    }
    told(deaf, Some(deaf), now, &body).await.refused(403, "scope_missing");
    // It is good for nothing else, and for nobody once the key is taken back.
    let elsewhere = Program::new(&shop.router).with("webhook-signature", "v1,eA==");
    elsewhere.get("/v1/events").await.refused(401, "unauthorized");
    assert_eq!(db.revoke_key(organization, key, shop.world.actor()).await.expect("taken back"), 1);
    told(key, Some(key), now, &body).await.refused(401, "unauthorized");
}
