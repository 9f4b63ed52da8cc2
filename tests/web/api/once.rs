//! Acts under a key of the caller's own: done once, answered the same.

use std::collections::HashSet;

use chrono::Duration;
use fairlist::db::idempotency::{Claimed, under};
use fairlist::domain::policy::{Mode, Policy};
use fairlist::waitlist::places::RetireOutcome;
use futures_util::future::join_all;
use serde_json::json;

use super::{Shop, because, with_reason};
use crate::harness::world::{reason, two_hours};

const JOIN: &str = "/v1/resources/spring/waitlist:join";

#[tokio::test]
async fn the_same_key_is_answered_the_same_and_another_body_refused() {
    let shop = Shop::with(two_hours(), 0).await;
    let ada = json!({"name": "Ada", "email": "ada@example.com"});
    let under = shop.program.once("one");
    let first = under.post(JOIN, ada.clone()).await;
    assert_eq!(first.header("idempotency-replayed"), "");
    // The entry changes; the answer does not.
    let id = first.json["id"].as_str().expect("an id");
    shop.program.delete(&format!("/v1/waitlist/{id}?reason=customer_asked")).await.good();
    let second = under.post(JOIN, ada.clone()).await;
    assert_eq!((second.status, &second.bytes), (first.status, &first.bytes), "byte for byte");
    assert_eq!(second.header("idempotency-replayed"), "true");
    assert_eq!(second.header("content-type"), first.header("content-type"));
    let other = json!({"name": "Bob", "email": "bob@example.com"});
    under.post(JOIN, other.clone()).await.refused(422, "key_reused");
    // Another caller's key of the same name is another key, and so is the same key on another operation.
    let another = shop.with_scopes(fairlist::domain::key::Scope::ALL).await.once("one");
    another.post(JOIN, other).await.good();
    let reply = under.post(&format!("/v1/waitlist/{id}:pause"), json!({"reason": "customer_asked"})).await;
    reply.refused(409, "wrong_state");
    // A refusal that was decided is kept, too.
    let again = under.post(&format!("/v1/waitlist/{id}:pause"), json!({"reason": "customer_asked"})).await;
    assert_eq!(again.header("idempotency-replayed"), "true");
    assert_eq!(again.bytes, reply.bytes);
    // After a day the key is new.
    shop.world.later(Duration::hours(24));
    let third = under.post(JOIN, ada).await;
    assert_eq!(third.header("idempotency-replayed"), "");
    assert_ne!(third.good()["id"], id, "she joined again, at the end");
}

#[tokio::test]
async fn unusable_keys_are_refused_before_anything_is_done() {
    let shop = Shop::with(two_hours(), 0).await;
    let ada = json!({"name": "Ada", "email": "ada@example.com"});
    for key in ["", " ", &"k".repeat(256)] {
        shop.program.once(key).post(JOIN, ada.clone()).await.refused(400, "idempotency_key_bad");
    }
    assert_eq!(shop.program.get("/v1/waitlist?email=ada@example.com").await.good(), json!([]));
}

#[tokio::test]
async fn many_at_once_under_one_key_act_once() {
    let shop = Shop::with(two_hours(), 0).await;
    let under = shop.program.once("one");
    let tries: Vec<_> =
        (0..12).map(|_| under.post(JOIN, json!({"name": "Ada", "email": "ada@example.com"}))).collect();
    let replies = join_all(tries).await;
    let (done, busy): (Vec<_>, Vec<_>) = replies.into_iter().partition(|reply| reply.status.is_success());
    assert!(!done.is_empty());
    for reply in busy {
        reply.refused(409, "in_flight");
        assert_ne!(reply.header("retry-after"), "");
    }
    let bodies: HashSet<Vec<u8>> = done.into_iter().map(|reply| reply.bytes).collect();
    assert_eq!(bodies.len(), 1, "the same answer for all that were answered");
}

#[tokio::test]
async fn what_is_to_be_asked_again_is_decided_again() {
    let shop = Shop::with(two_hours(), 0).await;
    let ann = shop.world.waiting("Ann", 1).await;
    shop.world.waiting("Ben", 1).await;
    let reordering = async |is: bool| {
        let sql = "UPDATE events SET reordering = $1";
        sqlx::query(sql).bind(is).execute(shop.world.database.sql()).await.expect("set");
    };
    reordering(true).await;
    let (place, second) = (format!("/v1/waitlist/{}:place", ann.id), with_reason(&json!({"position": 2})));
    let busy = shop.program.once("p").post(&place, second.clone()).await;
    busy.refused(409, "wrong_state");
    assert_eq!(busy.header("retry-after"), "5");
    reordering(false).await;
    let moved = shop.program.once("p").post(&place, second).await;
    assert_eq!(moved.header("idempotency-replayed"), "");
    assert_eq!(moved.good()["position"], 2);
}

#[tokio::test]
async fn a_call_that_somebody_was_faster_with_is_good_for_the_next_place() {
    let shop = Shop::with(Policy { mode: Mode::NotifyAll, ..two_hours() }, 1).await;
    let ann = shop.world.waiting("Ann", 1).await;
    shop.world.settle().await;
    let accept = format!("/v1/offers/{}:accept", shop.world.live_offer(ann.id).await.id);
    shop.world.booked("Zoe", 1).await;
    let program = shop.program.once("a");
    let late = program.post(&accept, because()).await;
    late.refused(409, "taken_by_faster");
    assert_ne!(late.header("retry-after"), "");
    shop.world.add_places(1).await;
    assert_eq!(program.post(&accept, because()).await.good()["state"], "accepted");
}

#[tokio::test]
async fn work_that_was_done_is_not_done_again_when_its_answer_was_lost() {
    let shop = Shop::with(two_hours(), 6).await;
    let (db, waitlist, event) = (shop.world.database.db(), &shop.world.waitlist, shop.world.event);
    let (actor, reason) = (shop.world.actor(), reason());
    let claim = async || match db.claim_key([1; 32], [2; 32]).await.expect("asked") {
        Claimed::Mine(claim) => Some(claim),
        Claimed::InFlight(_) => None,
        other => panic!("{other:?}"),
    };
    let first = claim().await.expect("free");
    // The process dies after it committed, before it answered.
    let done = under(first, waitlist.retire_count(event, 2, actor, &reason)).await.expect("retired");
    assert_eq!(done, RetireOutcome::Retired { now: 2, when_free: 0 });
    assert!(claim().await.is_none(), "somebody may still be acting");
    shop.world.later(Duration::seconds(61));
    let second = claim().await.expect("the lease is over");
    let again = under(second, waitlist.retire_count(event, 2, actor, &reason)).await.expect("told");
    assert_eq!(again, done);
    assert_eq!(db.place_counts(event).await.expect("counted").open, 4, "two left, not four");
    // The first one was only slow: it does nothing any more.
    under(first, waitlist.retire_count(event, 2, actor, &reason)).await.expect_err("its lease is gone");
    assert_eq!(db.place_counts(event).await.expect("counted").open, 4);
    // Without a claim each is an act of its own.
    waitlist.retire_count(event, 2, actor, &reason).await.expect("retired");
    assert_eq!(db.place_counts(event).await.expect("counted").open, 2);
}
