//! Places: released from what has them and from nothing else, described, retired; capacity told by other systems.

use serde_json::json;

use super::{Shop, id, with_reason};
use crate::harness::world::two_hours;

const TELL: &str = "/v1/internal/capacity-released";

#[tokio::test]
async fn a_release_names_what_has_the_place_and_takes_it_from_nobody_else() {
    let shop = Shop::with(two_hours(), 2).await;
    let [ann, ben, cora] = shop.world.all_waiting(&["Ann", "Ben", "Cora"]).await.try_into().expect("three");
    shop.world.settle().await;
    let place = shop.first_place().await;
    let release = format!("/v1/resources/spring/places/{}:release", id(&place));
    shop.program.post(&release, with_reason(&json!({}))).await.refused(400, "invalid");
    // What has another place does not have this one.
    let bens = shop.world.live_offer(ben.id).await.id;
    let other = shop.program.post(&release, with_reason(&json!({"offer": bens}))).await;
    other.refused(409, "wrong_state");
    assert_eq!(other.json["offer"], place["offer"], "it says what has it");
    let anns = with_reason(&json!({"offer": place["offer"], "after": "to_the_end"}));
    let open = shop.program.post(&release, anns.clone()).await.good();
    assert_eq!(open["state"], "open");
    shop.world.settle().await;
    let hers = shop.world.live_offer(cora.id).await;
    // Told again, by the same or another: she keeps what she was offered.
    let now = shop.program.post(&release, anns).await.good();
    assert_eq!(now["offer"], json!(hers.id));
    assert_eq!(shop.world.live_offer(cora.id).await.id, hers.id);
    assert!(shop.world.offer(ann.id).await.is_some_and(|offer| offer.ended_at.is_some()));
    // Booked meanwhile: its offer is over, and the answer says what has the place.
    shop.world.accept(hers.id, cora.person).await;
    let late = shop.program.post(&release, with_reason(&json!({"offer": hers.id}))).await;
    late.refused(409, "not_pending");
    let booking = late.json["booking"].clone();
    let released = shop.program.post(&release, with_reason(&json!({"booking": booking}))).await.good();
    assert_eq!(released["state"], "open");
    let again = shop.program.post(&release, with_reason(&json!({"booking": booking}))).await.good();
    assert_eq!(again["state"], "open");
}

#[tokio::test]
async fn one_release_that_names_a_place_twice_does_not_spoil_the_others() {
    let shop = Shop::with(two_hours(), 0).await;
    let twice = json!({"source": "box office", "id": "1", "event": "spring",
        "places": [{"label": "B12"}, {"label": " B12"}]});
    let good = json!({"source": "box office", "id": "2", "event": "spring", "quantity": 1});
    let told = shop.program.post(TELL, json!({"releases": [twice, good]})).await;
    assert_eq!(told.status.as_u16(), 207, "{}", told.json);
    let outcomes = [&told.json["results"][0]["outcome"], &told.json["results"][1]["outcome"]];
    assert_eq!(outcomes, ["invalid", "applied"]);
    let much = |id: &str| json!({"source": "box office", "id": id, "event": "spring", "quantity": 5001});
    let too_much = json!({"releases": [much("3"), much("4")]});
    shop.program.post(TELL, too_much).await.refused(400, "invalid");
    let event = shop.program.get("/v1/events/spring").await.good();
    assert_eq!(event["open"], 1);
}
