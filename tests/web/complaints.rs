//! Somebody says that something is not right: staff see it, answer it, and both are on the record; the line stays as it is.

use axum::http::StatusCode;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, says};
use crate::harness::world::two_hours;

#[tokio::test]
async fn what_somebody_says_on_the_telephone_is_written_down_and_answered_once() {
    let desk = Desk::with(two_hours(), 0).await;
    let (ann, ben) = (desk.world.waiting("Ann", 1).await, desk.world.waiting("Ben", 1).await);
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let entry = desk.path(&format!("/entries/{}", ben.id));
    let path = format!("{entry}/complaint");
    says(&agent.get(&entry).await, "none: write one down");

    let refused = agent.post(&path, &[("about", "passed_over"), ("words", "  ")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "Say in a few words what it is.");
    let refused = agent.post(&path, &[("about", "the weather"), ("words", "It rains.")]).await;
    says(&refused, "Choose what it is about.");
    says(&refused, "It rains.");
    agent.post(&path, &[("about", "passed_over"), ("words", "Ann came after me.")]).await.location();
    says(&agent.get(&entry).await, "They say that something is not right.");

    // What waits for an answer is on the first page of everybody at work.
    let now = agent.get("/staff").await;
    says(&now, "1 complaint waits for an answer.");
    says(&now, "Somebody else came before me");
    let mut viewer = desk.at_work("Vera", Role::Viewer).await;
    says(&viewer.get(&path).await, "Ann came after me.");
    let answer = [("answers", "1"), ("words", "She joined at nine, you at ten.")];
    assert_eq!(viewer.post(&path, &answer).await.status, StatusCode::FORBIDDEN);
    let told = agent.post(&path, &answer).await.location().expect("to the entry");
    says(&agent.get(&told).await, "is told by mail.");
    says(&agent.get("/staff").await, "Nothing needs you.");
    assert_eq!(desk.world.told(ben.person, "answered").await, 1);
    let facts = desk.world.facts(ben.person, "answered").await;
    assert_eq!(facts["answer"], "She joined at nine, you at ten.");

    // A colleague who had the same page open is told, and what they wrote is not lost.
    let late = agent.post(&path, &[("answers", "1"), ("words", "Sorry!")]).await;
    assert_eq!(late.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&late, "Somebody answered this before");
    says(&late, "Sorry!");
    assert_eq!(desk.world.told(ben.person, "answered").await, 1);
    // Both are on the record, and nobody moved.
    let page = agent.get(&entry).await;
    says(&page, "Complained");
    says(&page, "Complaint answered");
    says(&page, "Number 2 in the line");
    desk.world.add_places(1).await;
    desk.world.settle().await;
    assert!(desk.world.offer(ann.id).await.is_some());
    // Whoever waits longest for an answer comes first.
    for words in ["It took a whole week.", "And still nothing."] {
        let who = if words.starts_with("It") { &ben } else { &ann };
        let path = desk.path(&format!("/entries/{}/complaint", who.id));
        agent
            .post(&path, &[("about", "otherwise_wrong"), ("words", words)])
            .await
            .location()
            .expect("written down");
        desk.world.later(chrono::Duration::hours(1));
    }
    let now = agent.get("/staff").await;
    says(&now, "2 complaints wait for an answer.");
    let at = |entry| now.body.find(&format!("{entry}/complaint")).expect("it is on the page");
    assert!(at(ben.id) < at(ann.id));
    // Of another event's entry there is nothing here.
    let elsewhere = format!("/staff/events/{}/entries/{}/complaint", uuid::Uuid::nil(), ben.id);
    assert_eq!(agent.get(&elsewhere).await.status, StatusCode::NOT_FOUND);
}
