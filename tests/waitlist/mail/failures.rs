//! Each way in which handing over can fail, and whose fault it is.

use std::time::Duration;

use chrono::Duration as Span;
use fairlist::db::outbox::Replayed;
use fairlist::domain::delivery::ATTEMPT_LIMIT;
use fairlist::domain::ids::MessageId;
use fairlist::messages::Outcome;
use serde_json::json;

use super::Office;
use crate::harness::smtp::Manner;

/// A time limit that a test can wait for.
const SHORT: Duration = Duration::from_millis(300);

/// A time limit that other mail does not reach meanwhile, even on a busy machine.
const LONGER: Duration = Duration::from_secs(5);

#[tokio::test]
async fn greylisted_mail_is_tried_again_later_under_the_same_message_id() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(Manner::Greylist);
    office.drain().await;
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("queued", 1));

    office.server.behave(Manner::Willing);
    office.drain().await;
    assert!(office.server.mails().is_empty(), "not before its time");
    office.world.later(Span::seconds(40));
    office.drain().await;
    assert_eq!(office.row(message).await.state, "told");
    assert_eq!(office.outcomes(message).await, ["transient", "accepted"]);
    let mail = office.server.next_mail().await;
    assert_eq!(mail.header("message-id"), format!("<{message}@fairlist.example>"));
}

#[tokio::test]
async fn a_mail_that_is_never_taken_becomes_a_dead_letter_that_staff_send_again() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(Manner::Greylist);
    for _ in 0..ATTEMPT_LIMIT + 3 {
        office.drain().await;
        office.world.later(Span::hours(3));
    }
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("dead", ATTEMPT_LIMIT));
    assert_eq!(row.note.as_deref(), Some("451 4.7.1 come again later"));

    let (db, world) = (office.world.waitlist.db(), &office.world);
    let replay = || db.replay_message(world.organization, message, world.actor());
    let stranger = fairlist::domain::ids::OrganizationId(uuid::Uuid::nil());
    assert_eq!(db.replay_message(stranger, message, world.actor()).await.expect("asked"), Replayed::NotDead);
    assert_eq!(replay().await.expect("asked"), Replayed::Queued);
    assert_eq!(replay().await.expect("asked"), Replayed::NotDead, "the second click is told so");
    office.server.behave(Manner::Willing);
    office.drain().await;
    assert_eq!(office.row(message).await.state, "told");
}

/// What is wrong with the server is charged to no message, and nothing is tried while it rests.
async fn the_channel_rests(manner: Manner, said: &str, user: &str) {
    let office = Office::with(|url| url.replace("smtp://", &format!("smtp://{user}"))).await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(manner);
    let mut mailer = office.mailer();
    assert_eq!(mailer.tick().await.expect("tried"), Outcome::Worked(1));
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("queued", 0), "not charged");
    let trouble = office.world.waitlist.db().channel_trouble().await.expect("asked").expect("trouble");
    assert!(trouble.reason.contains(said), "{}", trouble.reason);

    let connections = office.server.connections();
    assert_eq!(mailer.tick().await.expect("nothing tried"), Outcome::Paused(trouble.paused_until));
    assert_eq!(office.server.connections(), connections);

    // Down for hours: the rests grow to five minutes, and still no message dies.
    for _ in 0..30 {
        office.world.later(Span::minutes(12));
        office.drain().await;
    }
    assert_eq!(office.row(message).await.attempts, 0);
    let trouble = office.world.waitlist.db().channel_trouble().await.expect("asked").expect("trouble");
    assert!(trouble.paused_until - office.world.now() <= Span::minutes(6));

    office.server.behave(Manner::Willing);
    office.world.later(Span::minutes(6));
    office.drain().await;
    assert_eq!(office.row(message).await.state, "told");
    assert_eq!(office.world.waitlist.db().channel_trouble().await.expect("asked"), None);
}

#[tokio::test]
async fn a_refused_sign_in_pauses_the_channel_and_no_message_dies() {
    the_channel_rests(Manner::RefuseSignIn, "535", "user:password@").await;
}

#[tokio::test]
async fn an_unavailable_server_pauses_the_channel_and_no_message_dies() {
    the_channel_rests(Manner::Unavailable, "421", "").await;
}

#[tokio::test]
async fn a_server_that_is_not_there_pauses_the_channel() {
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = nobody.local_addr().expect("bound");
    drop(nobody);
    let office = Office::with(|_| format!("smtp://{address}")).await;
    let (_, message) = office.told("Ann").await;
    office.drain().await;
    assert_eq!(office.row(message).await.attempts, 0);
    assert!(office.world.waitlist.db().channel_trouble().await.expect("asked").is_some());
}

async fn hangs_while_greeting(manner: Manner) {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(manner);
    office.impatient(SHORT).tick().await.expect("a tick of its own length");
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("queued", 0));
    // One silence may be one connection's: other mail flows.
    office.server.behave(Manner::Willing);
    let (_, other) = office.told("Ben").await;
    office.drain().await;
    assert_eq!(office.row(other).await.state, "told");
    office.world.later(Span::seconds(15));
    office.drain().await;
    assert_eq!(office.row(message).await.state, "told");
}

#[tokio::test]
async fn a_server_that_hangs_at_its_banner_is_left_in_our_own_time() {
    hangs_while_greeting(Manner::HangAtBanner).await;
}

#[tokio::test]
async fn a_server_that_hangs_at_ehlo_is_left_in_our_own_time() {
    hangs_while_greeting(Manner::HangAtEhlo).await;
}

#[tokio::test]
async fn while_a_server_hangs_at_data_other_mail_flows() {
    let office = Office::open().await;
    let (_, stuck) = office.told("Ann").await;
    office.server.behave(Manner::HangAtData);
    let mut first = office.impatient(LONGER);
    let hanging = tokio::spawn(async move { first.tick().await });
    office.server.misbehaved(1).await;
    office.server.behave(Manner::Willing);
    let (_, other) = office.told("Ben").await;
    office.drain().await;
    assert_eq!(office.row(other).await.state, "told");
    assert_eq!(office.row(stuck).await.state, "sending");
    hanging.await.expect("no panic").expect("a tick");
    assert_eq!(office.outcomes(stuck).await, ["transient"]);
    office.world.later(Span::minutes(1));
    office.drain().await;
    assert_eq!(office.row(stuck).await.state, "told");
}

async fn cut_after_the_final_dot(manner: Manner) -> (Office, MessageId) {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(manner);
    office.drain().await;
    assert_eq!(office.outcomes(message).await, ["unknown"]);
    assert_eq!(office.row(message).await.state, "queued");
    office.server.behave(Manner::Willing);
    office.world.later(Span::minutes(1));
    office.drain().await;
    assert_eq!(office.outcomes(message).await, ["unknown", "accepted"]);
    (office, message)
}

/// The kind of fault in bcgov/entity#20354: a slow provider's silence was read as failure, and notices arrived
/// twice as different ones.
#[tokio::test]
async fn a_mail_whose_fate_is_unknown_is_sent_again_as_the_same_mail() {
    let (office, message) = cut_after_the_final_dot(Manner::CutAfterDot).await;
    let ids: Vec<String> = office.server.mails().iter().map(|mail| mail.header("message-id")).collect();
    assert_eq!(ids, [format!("<{message}@fairlist.example>"), format!("<{message}@fairlist.example>")]);
}

#[tokio::test]
async fn a_mail_that_was_lost_after_the_final_dot_arrives_once() {
    let (office, _) = cut_after_the_final_dot(Manner::LoseAfterDot).await;
    assert_eq!(office.server.mails().len(), 1);
}

#[tokio::test]
async fn where_tls_is_required_nothing_is_said_without() {
    let office = Office::with(|url| format!("{url}?tls=required")).await;
    let (_, message) = office.told("Ann").await;
    office.drain().await;
    assert!(office.server.mails().is_empty());
    assert_eq!(office.row(message).await.attempts, 0);
    let trouble = office.world.waitlist.db().channel_trouble().await.expect("asked").expect("trouble");
    assert!(trouble.reason.contains("STARTTLS"), "{}", trouble.reason);
}

#[tokio::test]
async fn an_unreadable_message_is_counted_and_dies_alone() {
    let office = Office::open().await;
    let person = office.world.person("Ann").await;
    let subject = fairlist::clock::Entropy.id();
    let facts = json!({ "no such fact": true });
    let unreadable = office.raw_message(person, "event_cancelled", subject, facts).await;
    let incomplete = office.raw_message(person, "accepted", subject, json!({})).await;
    let (_, fine) = office.told("Ben").await;
    office.drain().await;
    assert_eq!(office.row(fine).await.state, "told");
    for _ in 0..ATTEMPT_LIMIT {
        office.world.later(Span::hours(3));
        office.drain().await;
    }
    for (message, why) in [(unreadable, "facts"), (incomplete, "reference")] {
        let row = office.row(message).await;
        assert_eq!((row.state.as_str(), row.attempts), ("dead", ATTEMPT_LIMIT));
        assert!(row.note.as_deref().is_some_and(|note| note.contains(why)), "{row:?}");
    }
}

#[tokio::test]
async fn a_connection_is_used_again_and_one_that_was_closed_meanwhile_costs_nothing() {
    let office = Office::open().await;
    let mut mailer = office.mailer();
    for n in 0..3 {
        office.told(&format!("waiter{n}")).await;
        mailer.tick().await.expect("sent");
    }
    assert_eq!(office.server.connections(), 1);
    assert_eq!(office.server.mails().len(), 3);
}
