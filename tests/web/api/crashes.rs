//! The work was done, and its answer was lost: the same request under the same key is told what it came to, whatever
//! happened meanwhile, and does nothing more.

use axum::http::Method;
use chrono::Duration;
use fairlist::domain::policy::{Band, Beacon, Ordering, Policy};
use serde_json::{Value, json};

use super::booking_service::unanswered;
use super::{Shop, because, id, with_reason};
use crate::harness::database::TestDatabase;
use crate::harness::program::Reply;
use crate::harness::world::{World, two_hours};
use crate::staff_simulation::past;

/// Round 123 of quicknet, which was published at 15:15:33 on this day.
const ROUND: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
const BEFORE_ROUND: &str = "2023-08-23T15:14:33Z";

/// A list from elsewhere.
const LIST: &str = "name,email\nDee,dee@example.org\n";

/// An act, ready to be done, and what others do after it before it is repeated. `{id}` in their address is that of its
/// answer.
struct Ready {
    shop: Shop,
    path: String,
    body: Value,
    meanwhile: Option<(Method, String, Value)>,
}

impl Ready {
    fn new(shop: Shop, path: impl Into<String>, body: Value) -> Self {
        Self { shop, path: path.into(), body, meanwhile: None }
    }

    fn while_others(self, method: Method, path: impl Into<String>, body: Value) -> Self {
        Self { meanwhile: Some((method, path.into(), body)), ..self }
    }
}

/// What a repetition must not add to.
async fn rows(shop: &Shop) -> i64 {
    let sql = "SELECT (SELECT count(*) FROM audit) + (SELECT count(*) FROM organization_audit)
        + (SELECT count(*) FROM messages) + (SELECT count(*) FROM entries) + (SELECT count(*) FROM offers)
        + (SELECT count(*) FROM bookings) + (SELECT count(*) FROM places) + (SELECT count(*) FROM releases)
        + (SELECT count(*) FROM booking_attempts) + (SELECT count(*) FROM webhooks)
        + (SELECT count(*) FROM webhook_deliveries) + (SELECT count(*) FROM imports)
        + (SELECT count(*) FROM api_keys) + (SELECT count(*) FROM complaints)";
    sqlx::query_scalar(sql).fetch_one(shop.world.database.sql()).await.expect("a count")
}

/// The process died after it committed, before it kept its answer; its lease is over now.
async fn lose_the_answer(shop: &Shop) {
    let sql =
        "UPDATE idempotency_keys SET status = NULL, headers = NULL, body = NULL, lease = gen_random_uuid(),
                      leased_until = made_at + interval '60 s'";
    sqlx::query(sql).execute(shop.world.database.sql()).await.expect("the answer is lost");
}

/// A live offer, two places, three in line.
async fn with_offer() -> (Shop, String) {
    let shop = Shop::with(two_hours(), 1).await;
    let line = shop.world.all_waiting(&["Ann", "Ben"]).await;
    shop.world.settle().await;
    let offer = shop.world.live_offer(line[0].id).await.id;
    (shop, format!("/v1/offers/{offer}"))
}

async fn with_entry(policy: Policy) -> (Shop, String) {
    let shop = Shop::with(policy, 0).await;
    let line = shop.world.all_waiting(&["Ann", "Ben", "Cora"]).await;
    (shop, format!("/v1/waitlist/{}", line[0].id))
}

async fn entry_act(act: &str) -> Ready {
    let vips =
        vec![Band { number: -100, name: "Members".into(), reason: "they keep the house running".into() }];
    let policy = match act {
        "band" => Policy { ordering: Ordering::Priority, bands: vips, ..two_hours() },
        _ => two_hours(),
    };
    let (shop, path) = with_entry(policy).await;
    let to = |act: &str| format!("{path}:{act}");
    let at = |position: i64| with_reason(&json!({"position": position}));
    let group = |band: i64| with_reason(&json!({"band": band}));
    match act {
        "pause" => {
            Ready::new(shop, to("pause"), because()).while_others(Method::POST, to("resume"), because())
        }
        "resume" => {
            shop.program.post(&to("pause"), because()).await.good();
            Ready::new(shop, to("resume"), because()).while_others(Method::POST, to("pause"), because())
        }
        "place" => Ready::new(shop, to("place"), at(3)).while_others(Method::POST, to("place"), at(1)),
        "band" => Ready::new(shop, to("band"), group(-100)).while_others(Method::POST, to("band"), group(0)),
        "complain" => Ready::new(shop, to(act), json!({"about": "passed_over", "words": "Why not me?"})),
        "answer-complaint" => {
            let said = json!({"about": "passed_over", "words": "Why not me?"});
            shop.program.post(&to("complain"), said.clone()).await.good();
            let answer = json!({"number": 1, "words": "They came first."});
            Ready::new(shop, to(act), answer).while_others(Method::POST, to("complain"), said)
        }
        "remove" => {
            let again = json!({"name": "Ann", "email": "ann@example.org"});
            let join = "/v1/resources/spring/waitlist:join";
            Ready::new(shop, to("remove"), because()).while_others(Method::POST, join, again)
        }
        "bring-back" => {
            let (shop, offer) = with_offer().await;
            let revoked = shop.program.post(&format!("{offer}:revoke"), because()).await.good();
            let path = format!("/v1/waitlist/{}:bring-back", revoked["entry"].as_str().expect("an entry"));
            // The pass that follows offers the place to Ben; Ann is offered hers when he declined.
            Ready::new(shop, path, because())
        }
        other => panic!("POST /v1/waitlist/{{entry}}:{other} has no row here"),
    }
}

async fn offer_act(act: &str) -> Ready {
    let (shop, offer) = with_offer().await;
    let to = |act: &str| format!("{offer}:{act}");
    let until = |hour: u32| with_reason(&json!({"expires_at": format!("2027-03-01T{hour}:00:00Z")}));
    match act {
        "accept" | "decline" => Ready::new(shop, to(act), because()),
        "revoke" => {
            shop.world.add_places(2).await;
            Ready::new(shop, to(act), because()).while_others(Method::POST, to("reactivate"), until(14))
        }
        "reactivate" => {
            shop.world.add_places(2).await;
            shop.program.post(&to("revoke"), because()).await.good();
            Ready::new(shop, to(act), until(14)).while_others(Method::POST, to("revoke"), because())
        }
        "extend" => Ready::new(shop, to(act), until(14)).while_others(Method::POST, to(act), until(15)),
        other => panic!("POST /v1/offers/{{offer}}:{other} has no row here"),
    }
}

async fn event_act(act: &str) -> Ready {
    let shop = Shop::with(two_hours(), 0).await;
    shop.world.waiting("Ann", 1).await;
    let to = |act: &str| format!("/v1/events/spring:{act}");
    match act {
        "publish" => {
            let new = json!({"name": "Autumn", "zone": "Europe/Berlin"});
            shop.program.post("/v1/events", new).await.good();
            let autumn = |act: &str| format!("/v1/events/autumn:{act}");
            Ready::new(shop, autumn(act), because()).while_others(Method::POST, autumn("cancel"), because())
        }
        "cancel" => Ready::new(shop, to(act), because()).while_others(Method::POST, to("restore"), because()),
        "restore" => {
            shop.program.post(&to("cancel"), because()).await.good();
            Ready::new(shop, to(act), because()).while_others(Method::POST, to("cancel"), because())
        }
        "final-call" => {
            let event = shop.world.database.db().event(shop.world.event).await.expect("the event");
            let cutoff = event.starts_at.expect("a start") - Duration::days(3);
            let manual = |policy: &mut Policy| {
                (policy.ordering, policy.cutoff) = (Ordering::Manual, Some(cutoff));
            };
            shop.world.rule(manual).await;
            shop.world.later(cutoff - shop.world.now());
            Ready::new(shop, to(act), because())
        }
        other => panic!("POST /v1/events/{{event}}:{other} has no row here"),
    }
}

async fn place_act(act: &str) -> Ready {
    let (shop, _) = with_offer().await;
    let place = shop.first_place().await;
    let path = format!("/v1/resources/spring/places/{}:{act}", id(&place));
    let body = match act {
        "release" => with_reason(&json!({"offer": place["offer"]})),
        "retire" => because(),
        other => panic!("POST /v1/resources/{{event}}/places/{{place}}:{other} has no row here"),
    };
    Ready::new(shop, path, body)
}

async fn draw_act(beacon: Option<Beacon>) -> Ready {
    let lottery = Policy { ordering: Ordering::Lottery, beacon, ..two_hours() };
    let shop = Shop::on(World::on(TestDatabase::at(BEFORE_ROUND).await, lottery, 0).await).await;
    shop.world.all_waiting(&["Ann", "Ben"]).await;
    let draws = "/v1/events/spring/draws";
    if beacon.is_none() {
        return Ready::new(shop, draws, because());
    }
    shop.program.post(draws, because()).await.good();
    Ready::new(shop, format!("{draws}:beacon"), json!({"value": ROUND}))
}

/// Ann's offer was accepted, and the booking service never said whether the place is hers.
async fn resolving() -> Ready {
    let (shop, attempt) = unanswered().await;
    let path = format!("/v1/events/spring/booking-service/attempts/{attempt}:resolve");
    let places = "/v1/resources/spring/places";
    Ready::new(shop, path, with_reason(&json!({"came": "not_booked"}))).while_others(
        Method::POST,
        places,
        json!({"count": 3}),
    )
}

async fn webhook_act(act: &str) -> Ready {
    let shop = Shop::with(two_hours(), 0).await;
    let new = json!({"url": "https://shop.example/hooks"});
    let added = shop.program.post("/v1/webhooks", new).await.good();
    shop.world.waiting("Ann", 1).await;
    let to = |act: &str| format!("/v1/webhooks/{}:{act}", id(&added));
    let post = |ready: Ready, act, body| ready.while_others(Method::POST, to(act), body);
    match act {
        "stop" => post(Ready::new(shop, to(act), Value::Null), "start", Value::Null),
        "start" => {
            shop.program.post(&to("stop"), Value::Null).await.good();
            post(Ready::new(shop, to(act), Value::Null), "stop", Value::Null)
        }
        "rotate" => {
            let body = |generation: i32| json!({"generation": generation});
            post(Ready::new(shop, to(act), body(1)), "rotate", body(2))
        }
        "test" => Ready::new(shop, to(act), Value::Null),
        "replay" => Ready::new(shop, to(act), json!({"first": 1, "last": 100})),
        other => panic!("POST /v1/webhooks/{{webhook}}:{other} has no row here"),
    }
}

/// What is there around events: booking services, lists from elsewhere, keys, webhooks; and a rule tried out.
async fn set_up(path: &str) -> Option<Ready> {
    if let Some(act) = path.strip_prefix("/v1/webhooks/{webhook}:") {
        return Some(webhook_act(act).await);
    }
    let there = path.replace("{event}", "spring");
    Some(match path {
        "/v1/events/{event}/booking-service/attempts/{attempt}:resolve" => resolving().await,
        "/v1/events/{event}/imports" => Ready::new(Shop::with(two_hours(), 0).await, there, json!(LIST)),
        "/v1/events/{event}/imports/{import}:start" => {
            // The same file was imported before: what is started now is that import.
            let shop = Shop::with(two_hours(), 0).await;
            let imports = "/v1/events/spring/imports";
            let first = shop.program.upload(imports, LIST).await.good();
            shop.program.post(&format!("{imports}/{}:start", id(&first)), json!({})).await.good();
            let again = shop.program.upload(imports, LIST).await.good();
            Ready::new(shop, format!("{imports}/{}:start", id(&again)), json!({}))
        }
        "/v1/keys" => {
            let shop = Shop::with(two_hours(), 0).await;
            let new = json!({"name": "Till", "scopes": ["events:read"], "days": 1});
            Ready::new(shop, there, new).while_others(Method::POST, "/v1/keys/{id}:revoke", Value::Null)
        }
        "/v1/keys/{key}:revoke" => {
            let shop = Shop::with(two_hours(), 0).await;
            let new = json!({"name": "Till", "scopes": ["events:read"], "days": 1});
            let made = shop.program.post("/v1/keys", new).await.good();
            Ready::new(shop, format!("/v1/keys/{}:revoke", id(&made)), Value::Null)
        }
        "/v1/webhooks" => {
            let new = json!({"url": "https://shop.example/hooks"});
            let rotate = "/v1/webhooks/{id}:rotate";
            Ready::new(Shop::with(two_hours(), 0).await, there, new).while_others(
                Method::POST,
                rotate,
                json!({"generation": 1}),
            )
        }
        "/v1/events/{event}/policy:simulate" => {
            let shop = Shop::with(two_hours(), 0).await;
            past(&shop.world).await;
            Ready::new(shop, there, json!({"window_seconds": 3600}))
        }
        _ => return None,
    })
}

/// The act of this address of the description, ready to be done.
async fn ready(path: &str) -> Ready {
    if let Some(act) = path.strip_prefix("/v1/waitlist/{entry}:") {
        return entry_act(act).await;
    }
    if let Some(act) = path.strip_prefix("/v1/offers/{offer}:") {
        return offer_act(act).await;
    }
    if let Some(act) = path.strip_prefix("/v1/events/{event}:") {
        return event_act(act).await;
    }
    if let Some(act) = path.strip_prefix("/v1/resources/{event}/places/{place}:") {
        return place_act(act).await;
    }
    if let Some(ready) = Box::pin(set_up(path)).await {
        return ready;
    }
    let there = path.replace("{event}", "spring");
    match path {
        "/v1/resources/{event}/waitlist:join" => {
            let shop = Shop::with(two_hours(), 0).await;
            let left = "/v1/waitlist/{id}?reason=customer_asked";
            Ready::new(shop, there, json!({"name": "Ann", "email": "ann@example.org"})).while_others(
                Method::DELETE,
                left,
                Value::Null,
            )
        }
        "/v1/resources/{event}/offers" => {
            let shop = Shop::with(two_hours(), 0).await;
            let entry = shop.world.waiting("Ann", 1).await.id;
            shop.world.add_places(1).await;
            Ready::new(shop, there, with_reason(&json!({"entry": entry}))).while_others(
                Method::POST,
                "/v1/offers/{id}:revoke",
                because(),
            )
        }
        "/v1/resources/{event}/bookings" => {
            // Ann has an offer, which is accepted by booking for her; then more places are free.
            let (shop, _) = with_offer().await;
            let ann = with_reason(&json!({"name": "Ann", "email": "ann@example.org"}));
            let places = "/v1/resources/spring/places";
            Ready::new(shop, there, ann).while_others(Method::POST, places, json!({"count": 3}))
        }
        "/v1/resources/{event}/places" => {
            Ready::new(Shop::with(two_hours(), 0).await, there, json!({"count": 2}))
        }
        "/v1/resources/{event}/places:lower" => {
            Ready::new(Shop::with(two_hours(), 3).await, there, with_reason(&json!({"count": 1})))
        }
        "/v1/internal/capacity-released" => {
            let one = json!({"source": "box office", "id": "1", "event": "spring", "quantity": 1});
            Ready::new(Shop::with(two_hours(), 0).await, there, json!({"releases": [one]}))
        }
        "/v1/events" => {
            let new = json!({"name": "Autumn", "zone": "Europe/Berlin"});
            Ready::new(Shop::with(two_hours(), 0).await, there, new)
        }
        "/v1/events/{event}/draws" => draw_act(None).await,
        "/v1/events/{event}/draws:beacon" => draw_act(Some(Beacon::Drand)).await,
        "/v1/messages/{message}:send-again" => {
            let shop = Shop::with(two_hours(), 0).await;
            shop.world.waiting("Ann", 1).await;
            let dead = "UPDATE messages SET state = 'dead', next_attempt_at = NULL RETURNING id";
            let id: uuid::Uuid =
                sqlx::query_scalar(dead).fetch_one(shop.world.database.sql()).await.expect("a dead letter");
            Ready::new(shop, format!("/v1/messages/{id}:send-again"), Value::Null)
        }
        other => panic!("POST {other} has no row here"),
    }
}

async fn repeated_after_a_crash(path: &str) {
    let Ready { shop, path: address, body, meanwhile } = Box::pin(ready(path)).await;
    let program = shop.program.once("k");
    let act = async || -> Reply {
        if let Value::String(file) = &body {
            return program.upload(&address, file.as_str()).await;
        }
        let body = Some(body.clone()).filter(|body| !body.is_null());
        program.send(Method::POST, &address, body).await
    };
    let first = act().await;
    assert!(first.status.is_success(), "POST {path}: {} {}", first.status, first.json);
    lose_the_answer(&shop).await;
    act().await.refused(409, "in_flight");
    shop.world.later(Duration::seconds(61));
    if let Some((method, others, body)) = meanwhile {
        let others = others.replace("{id}", first.json["id"].as_str().unwrap_or_default());
        let body = Some(body).filter(|body| !body.is_null());
        shop.program.send(method, &others, body).await.good();
    }
    shop.world.settle().await;
    let before = rows(&shop).await;
    let second = act().await;
    assert_eq!((second.status, second.code()), (first.status, ""), "POST {path}: {}", second.json);
    assert_eq!(second.json["id"], first.json["id"], "POST {path}");
    assert_eq!(rows(&shop).await, before, "POST {path} did something more");
}

#[tokio::test]
async fn no_act_is_done_twice_when_its_answer_was_lost() {
    let described = serde_json::to_value(fairlist::web::api::described()).expect("JSON");
    let mut acts = 0;
    for (path, item) in described["paths"].as_object().expect("paths") {
        // Whoever asks for a code is nobody yet, and has no keys.
        if item.get("post").is_some_and(|post| post["tags"] != json!(["Customers"])) {
            Box::pin(repeated_after_a_crash(path)).await;
            acts += 1;
        }
    }
    assert_eq!(acts, 41);
}
