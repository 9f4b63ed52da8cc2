//! What pages say while nobody can be told.

use chrono::Duration;
use fairlist::domain::policy::{Policy, Telling};
use fairlist::domain::role::Role;

use crate::customer::Booth;
use crate::harness::desk::Desk;
use crate::harness::world::{World, two_hours};

fn rule(telling: Telling) -> Policy {
    Policy { telling, ..two_hours() }
}

/// The mail server says that it is not available.
async fn goes_down(world: &World) {
    let db = world.database.db();
    db.channel_failed(None, "421 come back later.", true, world.now()).await.expect("noted");
}

/// Ann has an offer, everybody was told, Ben waits, and then mail stops.
async fn nobody_is_told(world: &World) {
    world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    sqlx::query("UPDATE messages SET state = 'told', told_at = $1, next_attempt_at = NULL")
        .bind(world.now())
        .execute(world.database.sql())
        .await
        .expect("told");
    sqlx::query(
        "INSERT INTO deliveries (event_id, message_id, attempt, channel, lease, outcome, started_at, finished_at)
         SELECT event_id, id, 1, 'smtp', id, 'accepted', $1, $1 FROM messages",
    )
    .bind(world.now())
    .execute(world.database.sql())
    .await
    .expect("delivered");
    world.waiting("Ben", 1).await;
    world.later(Duration::minutes(30));
    goes_down(world).await;
    world.add_places(1).await;
    world.settle().await;
}

#[tokio::test]
async fn whoever_has_an_offer_reads_that_their_time_stands_still_and_can_answer_after_the_old_deadline() {
    let booth = Booth::with(rule(Telling::Extend), 0).await;
    nobody_is_told(&booth.world).await;
    let mut ann = booth.signed_in("ann@example.org").await;
    booth.world.later(Duration::hours(5));
    booth.world.settle().await;
    ann.get("/me").await.says("Your time stands still while no mail of ours goes out.");
    let offer: uuid::Uuid = sqlx::query_scalar("SELECT id FROM offers")
        .fetch_one(booth.world.database.sql())
        .await
        .expect("one offer");
    let path = format!("/offers/{offer}");
    let page = ann.get(&path).await;
    page.says("Your time stands still: no mail of ours goes out at the moment.");
    assert!(page.texts(".countdown").is_empty(), "nothing counts down");
    let booked = ann.submit(&format!("{path}/accept"), &[]).await;
    booked.says("is yours");

    let mut ben = booth.signed_in("ben@example.org").await;
    let entry: uuid::Uuid = sqlx::query_scalar("SELECT id FROM entries WHERE state = 'waiting'")
        .fetch_one(booth.world.database.sql())
        .await
        .expect("Ben's");
    let page = ben.get(&format!("/me/entries/{entry}")).await;
    page.says("A place is kept for the line, and nobody can be told: since Mon 1 Mar 2027, 10:30 (CET, UTC+01:00) no mail of ours goes out.");
}

#[tokio::test]
async fn staff_read_since_when_nobody_can_be_told_and_what_the_rule_does() {
    let since = "since Mon 1 Mar 2027, 10:30 (CET, UTC+01:00)";
    let desk = Desk::with(rule(Telling::Extend), 0).await;
    nobody_is_told(&desk.world).await;
    desk.world.later(Duration::hours(2));
    desk.world.settle().await;
    let mut agent = desk.at_work("Agent", Role::Agent).await;
    let event = format!("/staff/events/{}", desk.world.event);
    let page = agent.get(&event).await;
    page.says(&format!(
        "Nobody can be told: the mail server does not work {since}. Offers go out as soon as it works."
    ));
    page.says(&format!(
        "Halted: no mail goes out {since} (2 h ago). The mail server says: 421 come back later."
    ));
    page.says("By this event's rule nothing new is held meanwhile, and deadlines wait.");
    page.says("nothing offered: nobody can be told, because the mail server does not work");
    page.says("the clock waits");
    assert!(page.attribute("a[href*='/offer?back']", "href").is_some(), "staff can offer and call");
    let page = agent.get(&format!("{event}/offers")).await;
    let extend =
        page.attribute("a[href*='/extend']", "href").expect("an offer whose clock stands still goes on");
    agent.get(&extend).await.says("Ann");

    let desk = Desk::with(rule(Telling::Run), 0).await;
    nobody_is_told(&desk.world).await;
    let mut agent = desk.at_work("Agent", Role::Agent).await;
    let page = agent.get(&format!("/staff/events/{}", desk.world.event)).await;
    page.says("By this event's rule offers go on being made meanwhile, and deadlines run.");
    assert!(!page.body.contains("Nobody can be told"));
}
