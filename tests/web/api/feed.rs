//! The feed over HTTP: a consumer that keeps its position with what it made of it loses nothing and doubles nothing.

use fairlist::workers::feed::Relay;
use fairlist::workers::{Next, Worker as _};
use serde_json::json;

use super::Shop;
use crate::harness::world::two_hours;

/// What somebody keeps who reads the feed: up to where, and what they made of it.
#[derive(Default)]
struct Kept {
    position: i64,
    seen: Vec<(i64, String)>,
}

/// Reads on until there is nothing more; stopped after `parts` parts, before what was read last is kept.
async fn read(shop: &Shop, kept: &mut Kept, parts: usize) -> bool {
    for part in 0.. {
        let page = shop.program.get(&format!("/v1/transitions?after={}&limit=3", kept.position)).await.good();
        let items = page["items"].as_array().expect("transitions").clone();
        if items.is_empty() {
            return true;
        }
        if part == parts {
            return false;
        }
        // One transaction of theirs: what they made of it, and up to where.
        for item in &items {
            let position = item["data"]["position"].as_i64().expect("a position");
            kept.seen.push((position, item["type"].as_str().expect("a type").to_owned()));
            kept.position = position;
        }
    }
    unreachable!("the feed has an end");
}

async fn relayed(shop: &Shop) {
    let mut relay = Relay::new(shop.world.database.db());
    while relay.tick().await.expect("a tick") != Next::Rest {}
}

#[tokio::test]
async fn a_consumer_that_is_killed_again_and_again_loses_and_doubles_nothing() {
    let shop = Shop::with(two_hours(), 1).await;
    let mut kept = Kept::default();
    for round in 0..6 {
        let entry = shop.world.waiting(&format!("Guest{round}"), 1).await;
        shop.world.add_places(1).await;
        shop.world.settle().await;
        if let Some(offer) = shop.world.offer(entry.id).await {
            shop.world.accept(offer.id, entry.person).await;
        }
        relayed(&shop).await;
        read(&shop, &mut kept, round % 3).await;
    }
    while !read(&shop, &mut kept, usize::MAX).await {}
    let positions: Vec<i64> = kept.seen.iter().map(|(position, _)| *position).collect();
    assert_eq!(positions, (1..=kept.position).collect::<Vec<_>>());
    let accepted = kept.seen.iter().filter(|(_, kind)| kind == "offer.accepted").count();
    let bookings = "SELECT count(*) FROM offers WHERE state = 'accepted'";
    let ours: i64 = sqlx::query_scalar(bookings).fetch_one(shop.world.database.sql()).await.expect("a count");
    assert_eq!(i64::try_from(accepted).expect("a few"), ours);
    assert!(ours > 3);

    // The same of one kind, of one event; and nobody begins beyond the end, or at the beginning by a slip of the pen.
    let only = shop.program.get("/v1/transitions?kind=offer.accepted&event=spring&limit=200").await.good();
    let only = only["items"].as_array().expect("some");
    assert!(only.iter().all(|one| one["type"] == "offer.accepted"));
    assert_eq!(only.len(), accepted);
    let beyond = shop.program.get(&format!("/v1/transitions?after={}", kept.position + 1)).await;
    beyond.refused(400, "invalid");
    let slip = shop.program.get(&format!("/v1/transitions?afterr={}", kept.position)).await;
    slip.refused(400, "invalid");
    assert_eq!(slip.json["field"], json!("afterr"));
}
