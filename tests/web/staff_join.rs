//! What staff do where nothing goes by itself: put somebody on a list by hand, and see which lists are to be looked at.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, says};
use crate::harness::world::two_hours;

#[tokio::test]
async fn whoever_telephones_is_put_on_the_list_and_told() {
    let desk = Desk::with(two_hours(), 1).await;
    desk.world.booked("Bella", 1).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    says(&agent.get(&desk.path("/queue")).await, "Put somebody on the list");
    let path = desk.path("/queue/new");
    says(&agent.get(&path).await, "you answer for the address");
    let form =
        |email: &'static str, party: &'static str| [("name", "Otto"), ("email", email), ("party", party)];
    let refused = agent.post(&path, &form("no address", "0")).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "Enter a number between 1 and 100.");
    assert_eq!(refused.attribute("#email", "value").as_deref(), Some("no address"), "nothing typed is lost");

    let joined = agent.post(&path, &form("otto@example.org", "2")).await;
    let entry = joined.location().expect("to the entry");
    let page = agent.get(&entry).await;
    says(&page, "Otto is on the list, and was told so.");
    says(&page, "waiting");
    // The form sent twice is the same entry.
    let again = agent.post(&path, &form("otto@example.org", "2")).await;
    assert_eq!(again.location(), Some(entry));
    // The rule holds for them as for everybody.
    desk.world.rule(|policy| policy.party_limit = Some(2)).await;
    let too_many = agent.post(&path, &form("nina@example.org", "3")).await;
    assert_eq!(too_many.status, StatusCode::CONFLICT);
    says(&too_many, "A party here has at most 2 places.");

    let mut viewer = desk.at_work("Vera", Role::Viewer).await;
    assert_eq!(viewer.get(&path).await.status, StatusCode::FORBIDDEN);
    assert_eq!(viewer.post(&path, &form("vera@example.org", "1")).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn lists_that_are_to_be_looked_at_are_shown_with_what_the_last_look_came_to() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    desk.world.waiting("Otto", 1).await;
    desk.world.settle().await;
    let page = agent.get("/staff/passes").await;
    says(&page, "Every list has been looked at since something last happened to it.");
    says(&page, "nothing to offer: no place is open");
    desk.world.add_places(1).await;
    says(&agent.get("/staff/passes").await, "1 list is about to be looked at.");
    desk.world.later(Duration::minutes(2));
    let page = agent.get("/staff/passes").await;
    says(&page, "1 list has waited for more than a minute to be looked at");
    says(&page, "late");
    desk.world.settle().await;
    says(&agent.get("/staff/passes").await, "1 offer was made");
}
