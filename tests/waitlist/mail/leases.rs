//! Several workers, workers that die, and workers that come back too late.

use std::collections::HashSet;
use std::time::Duration;

use chrono::Duration as Span;
use fairlist::db::outbox::Finished;
use fairlist::domain::delivery::{ATTEMPT_LIMIT, Channel, Verdict};

use super::{Office, drain};
use crate::harness::smtp::Manner;

#[tokio::test]
async fn four_workers_send_forty_messages_once_each() {
    let office = Office::open().await;
    for n in 0..40 {
        office.told(&format!("waiter{n}")).await;
    }
    let workers = (0..4).map(|_| {
        let mut mailer = office.mailer();
        tokio::spawn(async move { drain(&mut mailer).await })
    });
    for worker in workers.collect::<Vec<_>>() {
        worker.await.expect("no panic");
    }
    let mails = office.server.mails();
    let ids: HashSet<String> = mails.iter().map(|mail| mail.header("message-id")).collect();
    assert_eq!((mails.len(), ids.len()), (40, 40));
}

#[tokio::test]
async fn a_worker_stopped_past_its_lease_changes_nothing_when_it_goes_on() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(Manner::HangAtData);
    let mut late = office.impatient(Duration::from_secs(5));
    let late = tokio::spawn(async move { late.tick().await });
    office.server.misbehaved(1).await;
    // As if the process had been stopped: a minute passes, and another takes the message over.
    office.server.behave(Manner::Willing);
    office.world.later(Span::seconds(61));
    office.drain().await;
    let told = |row: &super::Row| (row.state.clone(), row.attempts);
    let before = office.row(message).await;
    assert_eq!(told(&before), ("told".to_owned(), 2));
    late.await.expect("no panic").expect("it only finds out");
    let after = office.row(message).await;
    assert_eq!(told(&after), told(&before));
    assert_eq!(office.outcomes(message).await, ["unknown", "accepted"]);
    assert_eq!(office.server.mails().len(), 1);
}

#[tokio::test]
async fn an_outcome_that_comes_after_the_lease_is_refused_whatever_it_is() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    let db = office.world.waitlist.db();
    let claim = db.claim_messages(Channel::Smtp, 1, office.world.now()).await.expect("claimed").remove(0);
    office.world.later(Span::seconds(60));
    assert_eq!(db.take_over_expired_leases(office.world.now()).await.expect("taken over"), 1);
    assert!(!db.extend_lease(&claim, office.world.now()).await.expect("asked"));
    let contact = sqlx::query_scalar("SELECT id FROM contacts LIMIT 1");
    let contact = contact.fetch_one(office.world.database.sql()).await.expect("a contact");
    for verdict in [
        Verdict::Accepted,
        Verdict::Transient("451".to_owned()),
        Verdict::Permanent { detail: "550".to_owned(), contact_refused: true },
        Verdict::Unknown("cut".to_owned()),
        Verdict::Suppressed("over"),
        Verdict::Released("stopping"),
    ] {
        let done = Finished {
            claim: claim.clone(),
            contact: Some(fairlist::domain::ids::ContactId(contact)),
            verdict,
        };
        let noted = db.note_outcomes(&[done], office.world.now()).await.expect("asked");
        assert_eq!(noted.late, [message]);
        assert!(!noted.contacts_changed);
        let row = office.row(message).await;
        assert_eq!((row.state.as_str(), row.attempts), ("queued", 1));
    }
}

/// The kind of fault in svsticky/constipated-koala#910: a worker is killed between the server's yes and our note,
/// and the mail arrives again, indistinguishable from another.
#[tokio::test]
async fn a_worker_killed_after_handing_over_leads_to_one_duplicate_of_the_same_id() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    let mut killed = office.mailer();
    // The server takes the mail; the worker is gone before it can note so.
    let db = office.world.waitlist.db();
    let claim = db.claim_messages(Channel::Smtp, 1, office.world.now()).await.expect("claimed");
    assert_eq!(claim.len(), 1);
    assert_eq!(killed.tick().await.expect("nothing is due"), fairlist::messages::Outcome::Idle);
    drop(killed);
    office.world.later(Span::seconds(61));
    office.drain().await;
    assert_eq!(office.outcomes(message).await, ["unknown", "accepted"]);
    let mail = office.server.next_mail().await;
    assert_eq!(mail.header("message-id"), format!("<{message}@fairlist.example>"));
}

#[tokio::test]
async fn a_message_that_kills_its_worker_each_time_ends_as_a_dead_letter() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    let db = office.world.waitlist.db();
    for _ in 0..ATTEMPT_LIMIT {
        assert_eq!(db.claim_messages(Channel::Smtp, 1, office.world.now()).await.expect("claimed").len(), 1);
        office.world.later(Span::seconds(61));
        assert_eq!(db.take_over_expired_leases(office.world.now()).await.expect("taken over"), 1);
    }
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("dead", ATTEMPT_LIMIT));
    assert!(row.note.is_some());
}

#[tokio::test]
async fn a_worker_that_is_told_to_stop_gives_back_what_it_has_not_handed_over() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    office.server.behave(Manner::HangAtData);
    let mut mailer = office.mailer();
    let sending = tokio::spawn(async move { mailer.tick().await });
    office.server.misbehaved(1).await;
    office.stopping.cancel();
    sending.await.expect("no panic").expect("it ends in time");
    let row = office.row(message).await;
    assert_eq!((row.state.as_str(), row.attempts), ("queued", 0), "no attempt is charged");
    assert_eq!(office.outcomes(message).await, ["released"]);
}

#[tokio::test]
async fn a_long_send_keeps_its_lease() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    let db = office.world.waitlist.db();
    let claim = db.claim_messages(Channel::Smtp, 1, office.world.now()).await.expect("claimed").remove(0);
    for _ in 0..3 {
        office.world.later(Span::seconds(40));
        assert!(db.extend_lease(&claim, office.world.now()).await.expect("asked"));
        assert_eq!(db.take_over_expired_leases(office.world.now()).await.expect("asked"), 0);
    }
    let done = Finished { claim, contact: None, verdict: Verdict::Accepted };
    assert!(db.note_outcomes(&[done], office.world.now()).await.expect("noted").late.is_empty());
    assert_eq!(office.row(message).await.state, "told");
}
