//! While nobody can be told: how that is noticed, how it ends, and what becomes of offers meanwhile.

use std::time::Duration;

use chrono::{DateTime, Duration as Span, Utc};
use fairlist::messages::Outcome;

use super::Office;
use crate::harness::smtp::Manner;

impl Office {
    async fn is_down(&self) -> bool {
        self.world.database.db().channel_trouble().await.expect("asked").is_some_and(|trouble| trouble.down)
    }

    /// What is history of outages.
    async fn outages(&self) -> Vec<(DateTime<Utc>, DateTime<Utc>)> {
        sqlx::query_as("SELECT since, until FROM outages ORDER BY since")
            .fetch_all(self.world.database.sql())
            .await
            .expect("outages")
    }
}

#[tokio::test]
async fn with_an_empty_outbox_the_server_is_asked_whether_it_works_again() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(Manner::Unavailable);
    office.drain().await;
    let since = office.world.now();
    assert!(office.is_down().await, "the server said so");
    // What was to be sent is not to be sent any more.
    sqlx::query("UPDATE messages SET state = 'suppressed', next_attempt_at = NULL WHERE id = $1")
        .bind(message.0)
        .execute(office.world.database.sql())
        .await
        .expect("suppressed");

    let mut mailer = office.mailer();
    office.world.later(Span::minutes(1));
    let asked = office.server.connections();
    assert_eq!(mailer.tick().await.expect("asked"), Outcome::Idle);
    assert_eq!(office.server.connections(), asked + 1);
    assert!(office.is_down().await, "not merely because its rest is over");
    assert!(matches!(mailer.tick().await.expect("a tick"), Outcome::Paused(_)), "and it rests again");

    office.server.behave(Manner::Willing);
    office.world.later(Span::minutes(1));
    assert_eq!(mailer.tick().await.expect("asked"), Outcome::Idle);
    assert!(!office.is_down().await);
    assert_eq!(office.outages().await, [(since, office.world.now())]);
    assert!(office.server.mails().is_empty());
}

#[tokio::test]
async fn one_silence_is_no_outage_and_a_second_one_is_since_the_first() {
    let office = Office::open().await;
    office.told("Ann").await;
    office.server.behave(Manner::HangAtBanner);
    let mut mailer = office.impatient(Duration::from_millis(300));
    mailer.tick().await.expect("a tick of its own length");
    let since = office.world.now();
    assert!(!office.is_down().await);
    office.world.later(Span::seconds(1));
    mailer.tick().await.expect("a tick of its own length");
    assert!(office.is_down().await);
    office.server.behave(Manner::Willing);
    office.world.later(Span::minutes(1));
    office.drain().await;
    assert_eq!(office.outages().await, [(since, office.world.now())]);
    assert_eq!(office.server.mails().len(), 1);

    // And of one silence nothing remains.
    office.told("Ben").await;
    office.server.behave(Manner::HangAtBanner);
    mailer.tick().await.expect("a tick of its own length");
    office.server.behave(Manner::Willing);
    office.drain().await;
    assert_eq!(office.outages().await.len(), 1);
    assert_eq!(office.world.database.db().channel_trouble().await.expect("asked"), None);
}
