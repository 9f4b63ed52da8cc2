//! The owners' pages for webhooks: a secret that is shown once, a log, and nobody else's endpoints.

use axum::http::StatusCode;
use fairlist::domain::ids::WebhookId;
use fairlist::domain::role::Role;
use fairlist::domain::webhook::shown;

use crate::harness::database::secret;
use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::world::two_hours;

const EVERYTHING: [(&str, &str); 5] = [
    ("of.entry", "yes"),
    ("of.offer", "yes"),
    ("of.place", "yes"),
    ("of.booking", "yes"),
    ("of.event", "yes"),
];

#[tokio::test]
async fn an_owner_adds_an_endpoint_and_sees_its_secret_once() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let page = owner.get("/staff/webhooks").await;
    says(&page, "Nothing is sent anywhere.");
    let once = page.attribute("input[name=once]", "value").expect("an id");
    let id = WebhookId(once.parse().expect("an id"));
    let first = shown(&secret().webhook_key(desk.world.organization, id, 1));
    let form = |url: &'static str| [&[("once", once.as_str()), ("url", url)], &EVERYTHING[..]].concat();

    let refused = owner.post("/staff/webhooks", &form("https://10.0.0.7/hooks")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "This address is not one of the public internet.");
    let nothing =
        owner.post("/staff/webhooks", &[("once", &once), ("url", "https://shop.example/hooks")]).await;
    says(&nothing, "Choose what it is told of.");

    let added = owner.post("/staff/webhooks", &form("https://shop.example/hooks")).await;
    says(&added, &first);
    let page = owner.get(&format!("/staff/webhooks/{id}")).await;
    does_not_say(&page, &first);
    says(&page, "Nothing was delivered yet.");
    // Sent again by mistake, it is there once and says no secret.
    let again = owner.post("/staff/webhooks", &form("https://shop.example/hooks")).await;
    assert_eq!(again.location(), Some(format!("/staff/webhooks/{id}")));
    says(&owner.get("/staff/webhooks").await, "1 endpoint is told of what happens.");

    let rotated = owner.post(&format!("/staff/webhooks/{id}/rotate"), &[("generation", "1")]).await;
    says(&rotated, &shown(&secret().webhook_key(desk.world.organization, id, 2)));
    says(&rotated, "the one before signs, too");
    owner.post(&format!("/staff/webhooks/{id}/rotate"), &[("generation", "1")]).await;
    says(
        &owner.get(&format!("/staff/webhooks/{id}")).await,
        "the secret was changed since this page was read",
    );
}

#[tokio::test]
async fn an_endpoint_is_stopped_started_and_tested_and_the_log_says_what_came_of_it() {
    let desk = Desk::with(two_hours(), 0).await;
    let (world, id) = (&desk.world, WebhookId(fairlist::clock::Entropy.id()));
    let db = world.database.db();
    db.add_webhook(world.organization, id, "https://shop.example/hooks", &[], world.actor()).await.unwrap();
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let path = format!("/staff/webhooks/{id}");
    owner.get(&path).await;
    owner.post(&format!("{path}/test"), &[]).await;
    let page = owner.get(&path).await;
    says(&page, "A test is on its way");
    says(&page, "a test");
    owner.post(&format!("{path}/stop"), &[]).await;
    says(&owner.get(&path).await, "Stopped by staff");
    owner.post(&format!("{path}/stop"), &[]).await;
    says(&owner.get(&path).await, "Nothing was done: it is stopped already.");
    owner.post(&format!("{path}/start"), &[]).await;
    says(&owner.get(&path).await, "from where it stopped: nothing is left out.");
    owner.post(&format!("{path}/replay"), &[("first", "x"), ("last", "2")]).await;
    says(&owner.get(&path).await, "say from which number of the feed to which");
    says(&owner.get(&format!("{path}?state=dead")).await, "No deliveries here");
}

#[tokio::test]
async fn webhooks_are_for_owners_and_of_their_own_organization() {
    let desk = Desk::with(two_hours(), 0).await;
    let (world, id) = (&desk.world, WebhookId(fairlist::clock::Entropy.id()));
    let db = world.database.db();
    db.add_webhook(world.organization, id, "https://shop.example/hooks", &[], world.actor()).await.unwrap();
    let path = format!("/staff/webhooks/{id}");
    let mut manager = desk.at_work("Mia", Role::Manager).await;
    does_not_say(&manager.get("/staff").await, "Webhooks");
    assert_eq!(manager.get(&path).await.status, StatusCode::FORBIDDEN);
    assert_eq!(manager.post(&format!("{path}/stop"), &[]).await.status, StatusCode::FORBIDDEN);
    let mut stranger = desk.at_work_for("Town Theatre", "Tom", Role::Owner).await;
    stranger.get("/staff/webhooks").await;
    assert_eq!(stranger.get(&path).await.status, StatusCode::NOT_FOUND);
    for act in ["stop", "start", "test"] {
        assert_eq!(stranger.post(&format!("{path}/{act}"), &[]).await.status, StatusCode::NOT_FOUND, "{act}");
    }
    assert_eq!(
        stranger.post(&format!("{path}/rotate"), &[("generation", "1")]).await.status,
        StatusCode::NOT_FOUND
    );
    let untouched = db.webhook(world.organization, id).await.unwrap();
    assert_eq!((untouched.generation, untouched.stopped, untouched.waiting), (1, None, 0));
}
