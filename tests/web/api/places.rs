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

#[tokio::test]
async fn what_came_back_before_and_is_told_under_another_id_does_no_harm() {
    let shop = Shop::with(two_hours(), 0).await;
    let tell = async |id: &str, what: serde_json::Value| {
        let mut release = json!({"source": "box office", "id": id, "event": "spring"});
        release.as_object_mut().expect("an object").extend(what.as_object().expect("an object").clone());
        let told = shop.program.post(TELL, json!({"releases": [release]})).await;
        (told.status.as_u16(), told.json["results"][0].clone())
    };
    let named = |labels: &[&str]| json!({"places": labels.iter().map(|label| json!({"label": label})).collect::<Vec<_>>()});
    let (_, first) = tell("1", named(&["B1"])).await;
    assert_eq!(first["outcome"], "applied");
    let (status, again) = tell("2", named(&["B1"])).await;
    assert_eq!((status, &again["outcome"], &again["places"]), (200, &json!("repeated"), &first["places"]));
    let (_, more) = tell("3", named(&["B1", "B2"])).await;
    assert_eq!((&more["outcome"], more["places"].as_array().map(Vec::len)), (&json!("applied"), Some(2)));
    assert_eq!(shop.program.get("/v1/events/spring").await.good()["open"], 2);
    // Somebody has it: it has not come back.
    shop.world.booked("Holder", 2).await;
    let (status, taken) = tell("4", named(&["B1"])).await;
    assert_eq!((status, &taken["outcome"]), (207, &json!("taken")));
    assert!(taken["detail"].as_str().is_some_and(|detail| detail.contains("B1")));
    let booking = shop.first_place().await["booking"].clone();
    assert_eq!(tell("5", json!({"booking": booking})).await.1["outcome"], "applied");
    assert_eq!(tell("6", json!({"booking": booking})).await.1["outcome"], "repeated");
}

#[tokio::test]
async fn the_story_of_a_release_begins_with_the_look_after_it() {
    // A place is open and nobody wants it: looks at the line before and after come to the same.
    let shop = Shop::with(two_hours(), 1).await;
    shop.world.settle().await;
    for _ in 0..3 {
        shop.world.later(chrono::Duration::minutes(1));
        shop.world.pass().await;
    }
    shop.world.later(chrono::Duration::minutes(1));
    shop.world.add_places(1).await;
    let story = async || {
        let releases = shop.program.get("/v1/resources/spring/releases").await.good();
        let id = releases["items"][0]["id"].as_str().expect("a release").to_owned();
        shop.program.get(&format!("/v1/resources/spring/releases/{id}")).await.good()
    };
    assert_eq!(story().await["looked"], json!(null), "nobody has looked yet");
    for _ in 0..2 {
        shop.world.later(chrono::Duration::minutes(1));
        shop.world.pass().await;
    }
    let told = story().await;
    let instant = |name: &str| told[name].as_str().expect("an instant").to_owned();
    assert_eq!(told["looked"], "nobody_eligible");
    assert!(instant("looked_at") > instant("at"), "{told}");
}
