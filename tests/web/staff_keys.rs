//! Keys of other programs, as an owner sees them: shown once, good for what they are good for and as long, taken back.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::program::Program;
use crate::harness::world::two_hours;

#[tokio::test]
async fn a_key_is_shown_once_and_its_use_its_end_and_its_taking_back_are_seen() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    says(&owner.get("/staff/keys").await, "No keys yet");
    let refused = owner.post("/staff/keys", &[("name", ""), ("lives", "7")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "Choose how long it is good.");
    says(&refused, "Choose what the key is good for.");

    let wish = [("name", "Ticket shop"), ("lives", "90"), ("scope.events:read", "yes")];
    let made = owner.post("/staff/keys", &wish).await;
    assert_eq!(made.status, StatusCode::CREATED);
    let shown = made.texts("#made ~ p code");
    let token = shown.first().expect("the key").trim().to_owned();
    assert!(token.len() > 40, "{token}");
    let page = owner.get("/staff/keys").await;
    does_not_say(&page, &token);
    says(&page, "1 key is good.");
    says(&page, "never");
    let stored = "SELECT count(*) FROM api_keys k WHERE k::text LIKE '%' || $1 || '%'";
    let plain: i64 = sqlx::query_scalar(stored)
        .bind(&token[20..])
        .fetch_one(desk.world.database.sql())
        .await
        .expect("a count");
    assert_eq!(plain, 0, "only its hash is kept");

    let program = Program::new(&desk.router).with_token(&token);
    program.get("/v1/events").await.good();
    program.post("/v1/events", serde_json::json!({})).await.refused(403, "scope_missing");
    does_not_say(&owner.get("/staff/keys").await, "never");

    // It ends by itself; nobody but an owner sees or makes any.
    desk.world.later(Duration::days(91));
    program.get("/v1/events").await.refused(401, "unauthorized");
    let mut owner = desk.at_work("Otto", Role::Owner).await;
    says(&owner.get("/staff/keys").await, "expired");
    let made = owner.post("/staff/keys", &wish).await;
    let token = made.texts("#made ~ p code").first().expect("the key").trim().to_owned();
    let program = Program::new(&desk.router).with_token(&token);
    program.get("/v1/events").await.good();
    let revoke =
        owner.get("/staff/keys").await.attribute("form[action$='/revoke']", "action").expect("a form");
    let page = owner.submit(&revoke, &[]).await;
    says(&page, "Taken back: whoever shows this key is refused from now on.");
    program.get("/v1/events").await.refused(401, "unauthorized");
    // Those that are good come first, the newest of them before the others, and those that were taken back last.
    for name in ["Ledger", "Box office"] {
        owner.post("/staff/keys", &[("name", name), ("lives", "90"), ("scope.events:read", "yes")]).await;
        desk.world.later(Duration::minutes(1));
    }
    let page = owner.get("/staff/keys").await;
    let at = |name: &str| page.body.find(name).unwrap_or_else(|| panic!("{name} is not on the page"));
    assert!(
        at("Box office") < at("Ledger") && at("Ledger") < at("expired") && at("expired") < at("taken back")
    );
    let mut manager = desk.at_work("Mary", Role::Manager).await;
    assert_eq!(manager.get("/staff/keys").await.status, StatusCode::FORBIDDEN);
    assert_eq!(manager.post("/staff/keys", &wish).await.status, StatusCode::FORBIDDEN);
}
