//! While nobody can be told: how that is noticed, how it ends, and what becomes of offers meanwhile.

use std::time::Duration;

use chrono::{DateTime, Duration as Span, Utc};
use fairlist::db::check::CheckSettings;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::delivery::Channel;
use fairlist::domain::entry::Entry;
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::{Policy, Telling};
use fairlist::messages::Outcome;
use fairlist::waitlist::answer::{AcceptOutcome, DeclineOutcome};
use fairlist::waitlist::staff_offers::ExtendOutcome;
use fairlist::waitlist::telling;

use super::Office;
use crate::harness::database::secret;
use crate::harness::smtp::Manner;
use crate::harness::world::{reason, two_hours};

/// Offers live for two hours, and time in which nobody can be told is made up for.
fn two_hours_told() -> Policy {
    Policy { telling: Telling::Extend, ..two_hours() }
}

impl Office {
    /// With that rule.
    async fn patient() -> Self {
        Self::under(two_hours_told(), |url| url).await
    }

    /// So many places, and so many of these people are offered one and told.
    async fn offered(&self, places: usize, who: &[&str]) -> Vec<Entry> {
        let waiting = self.world.all_waiting(who).await;
        self.world.add_places(places).await;
        self.world.settle().await;
        self.drain().await;
        waiting
    }

    /// The server says that it is not available, to whoever has something to say.
    async fn breaks_down(&self) {
        self.server.behave(Manner::Unavailable);
        self.told("Somebody").await;
        self.drain().await;
        assert!(self.is_down().await);
    }

    /// So long, every five minutes of which everybody looks for work.
    async fn hours(&self, hours: i64) {
        for _ in 0..hours * 12 {
            self.world.later(Span::minutes(5));
            self.world.settle().await;
            self.drain().await;
        }
    }

    /// The server works again, and what waited for that is done.
    async fn works_again(&self) {
        self.server.behave(Manner::Willing);
        self.world.later(Span::minutes(6));
        for _ in 0..3 {
            self.drain().await;
            self.world.settle().await;
        }
        self.drain().await;
        assert!(!self.is_down().await);
    }

    async fn deadline(&self, entry: &Entry) -> DateTime<Utc> {
        self.world.live_offer(entry.id).await.expires_at
    }

    async fn is_sound(&self) {
        self.world.database.db().relay(self.world.organization).await.expect("copied");
        let findings =
            self.world.database.db().check(&CheckSettings::new(secret())).await.expect("the check");
        assert!(findings.is_empty(), "{findings:#?}");
    }

    async fn last_outcome(&self) -> PassOutcome {
        let last = self.world.database.db().last_pass(self.world.event).await.expect("asked");
        last.expect("a pass").outcome
    }

    /// How often a deadline was moved because telling failed.
    async fn moves(&self) -> i64 {
        sqlx::query_scalar(
            "SELECT count(*) FROM audit WHERE act = 'deadline_moved' AND reason = 'telling_failed'",
        )
        .fetch_one(self.world.database.sql())
        .await
        .expect("records")
    }

    /// The event starts so long from now.
    async fn starts_in(&self, time: Span) {
        sqlx::query("UPDATE events SET starts_at = $1")
            .bind(self.world.now() + time)
            .execute(self.world.database.sql())
            .await
            .expect("another start");
    }

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

#[tokio::test]
async fn in_six_hours_without_mail_nothing_lapses_and_then_deadlines_have_moved_by_as_much() {
    let office = Office::patient().await;
    let world = &office.world;
    let waiting = office.offered(2, &["Ann", "Ben", "Cem"]).await;
    let [ann, ben, cem] = [&waiting[0], &waiting[1], &waiting[2]];
    let before = office.deadline(ann).await;
    world.later(Span::minutes(30));
    office.breaks_down().await;
    let since = world.now();
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(office.last_outcome().await, PassOutcome::CannotTell);

    office.hours(6).await;
    assert_eq!((office.deadline(ann).await, office.deadline(ben).await), (before, before), "it waits");
    assert_eq!(office.last_outcome().await, PassOutcome::CannotTell);
    assert!(world.offer(cem.id).await.is_none(), "nobody new is offered what they could not be told of");
    assert_eq!(office.moves().await, 0);
    office.is_sound().await;
    let due = world.database.db().next_due().await.expect("asked").expect("the start");
    assert!(due > world.now(), "nobody wakes for a clock that stands still");

    office.works_again().await;
    let lost = world.now() - since;
    assert_eq!(office.outages().await, [(since, world.now())]);
    assert_eq!(office.deadline(ann).await, before + lost);
    assert_eq!(office.deadline(ben).await, before + lost);
    assert_eq!((world.told(ann.person, "extended").await, world.told(ben.person, "extended").await), (1, 1));
    let letter = office.server.mail_that_says("ann@example.org", "that time is given back to you").await;
    assert!(letter.header("subject").contains("until Mon 1 Mar 2027, 18:06"), "{}", letter.header("subject"));
    assert_eq!(office.deadline(cem).await, world.now() + Span::hours(2), "and offers go out again");
    let waits: i64 = sqlx::query_scalar("SELECT count(*) FROM messages WHERE state <> 'told'")
        .fetch_one(world.database.sql())
        .await
        .expect("messages");
    assert_eq!(waits, 0, "the backlog went out");

    // No time counts twice, and the clock runs.
    world.later(Span::minutes(5));
    world.settle().await;
    assert_eq!(office.moves().await, 2);
    let offer = world.live_offer(ben.id).await;
    world.later(offer.expires_at - world.now());
    world.settle().await;
    let offer = world.database.db().find_offer(offer.id).await.expect("the offer");
    assert_eq!(offer.state, OfferState::Expired);
}

#[tokio::test]
async fn where_the_clock_runs_on_offers_lapse_and_the_next_are_made() {
    let office = Office::open().await;
    let waiting = office.offered(1, &["Ann", "Ben"]).await;
    office.breaks_down().await;
    office.hours(2).await;
    assert_eq!(office.world.offer(waiting[0].id).await.expect("an offer").state, OfferState::Expired);
    assert_eq!(office.deadline(&waiting[1]).await, office.world.now() + Span::hours(2));
    office.works_again().await;
    assert_eq!(office.moves().await, 0);
}

#[tokio::test]
async fn an_answer_while_the_clock_stands_still_is_in_time() {
    let office = Office::patient().await;
    let world = &office.world;
    let waiting = office.offered(3, &["Ann", "Ben", "Cem"]).await;
    let [ann, ben, cem] = [&waiting[0], &waiting[1], &waiting[2]];
    let before = office.deadline(ann).await;
    world.later(Span::minutes(30));
    office.breaks_down().await;
    office.hours(5).await;

    let offer = world.live_offer(ann.id).await.id;
    let ann = ann.person;
    assert!(matches!(world.accept(offer, ann).await, AcceptOutcome::Accepted { .. }));
    let moved = world.waitlist.db().find_offer(offer).await.expect("the offer").expires_at;
    assert_eq!(moved, before + Span::hours(5), "and the record says why");
    let offer = world.live_offer(ben.id).await.id;
    assert!(matches!(world.decline(offer, ben.person).await, DeclineOutcome::Declined { .. }));
    let (offer, later) = (world.live_offer(cem.id).await.id, world.now() + Span::days(1));
    let extended = world.waitlist.extend(world.event, offer, later, world.actor(), &reason()).await;
    assert_eq!(extended.expect("an answer"), ExtendOutcome::Extended { expires_at: later });
    office.is_sound().await;

    office.works_again().await;
    assert_eq!(office.deadline(cem).await, later + Span::minutes(6), "only what was lost since");
}

#[tokio::test]
async fn a_clock_stands_still_until_the_start_at_the_latest() {
    let office = Office::patient().await;
    let waiting = office.offered(1, &["Ann", "Ben"]).await;
    office.starts_in(Span::hours(3)).await;
    office.breaks_down().await;
    office.hours(2).await;
    office.world.later(Span::minutes(59));
    office.world.settle().await;
    assert_eq!(office.world.offer(waiting[0].id).await.expect("an offer").state, OfferState::Pending);
    office.world.later(Span::minutes(1));
    office.world.settle().await;
    let offer = office.world.offer(waiting[0].id).await.expect("an offer");
    assert_eq!((offer.state, offer.expires_at), (OfferState::Expired, office.world.now()));
    assert_eq!(office.world.told(waiting[0].person, "extended").await, 0, "there is nothing left of it");
}

#[tokio::test]
async fn an_offer_made_before_an_outage_and_not_told_begins_with_its_letter() {
    let office = Office::patient().await;
    let ann = office.world.waiting("Ann", 1).await;
    office.world.add_places(1).await;
    office.world.settle().await;
    office.breaks_down().await;
    office.hours(6).await;
    office.works_again().await;
    assert_eq!(office.deadline(&ann).await, office.world.now() + Span::hours(2));
    assert_eq!(office.world.told(ann.person, "extended").await, 0, "its letter says it");
    assert_eq!(office.moves().await, 1);
    let letter = office.server.mail_that_says("ann@example.org", "It is your turn").await;
    assert!(letter.header("subject").contains("until Mon 1 Mar 2027, 18:06"), "{}", letter.header("subject"));
}

#[tokio::test]
async fn a_letter_that_goes_out_late_moves_its_deadline_by_as_much() {
    for (minutes, moved) in [(2, 0), (3, 3), (60, 60)] {
        let office = Office::patient().await;
        let ann = office.world.waiting("Ann", 1).await;
        office.world.add_places(1).await;
        office.world.settle().await;
        let before = office.deadline(&ann).await;
        office.world.later(Span::minutes(minutes));
        office.drain().await;
        let after = office.deadline(&ann).await;
        assert_eq!(after - before, Span::minutes(moved), "after {minutes} minutes");
        let said = fairlist::domain::when::absolute(after, chrono_tz::Europe::Berlin);
        let letter = office.server.mail_that_says("ann@example.org", "It is your turn").await;
        assert!(letter.text().contains(&said), "the letter says the same: {}", letter.text());
        office.world.settle().await;
        assert_eq!(office.deadline(&ann).await, after);
        assert_eq!(office.world.told(ann.person, "extended").await, 0);
    }
}

#[tokio::test]
async fn a_letter_that_does_not_arrive_moves_its_deadline_by_one_window_at_most() {
    let office = Office::patient().await;
    let ann = office.world.waiting("Ann", 1).await;
    office.world.add_places(1).await;
    office.world.settle().await;
    let offer = office.world.live_offer(ann.id).await;
    office.server.behave(Manner::Greylist);
    office.hours(3).await;
    assert_eq!(office.deadline(&ann).await, offer.expires_at + Span::hours(2), "it did not lapse unseen");
    office.hours(1).await;
    let offer = office.world.database.db().find_offer(offer.id).await.expect("the offer");
    assert_eq!(offer.state, OfferState::Expired);

    // Nor beyond the start.
    let office = Office::patient().await;
    let ben = office.world.waiting("Ben", 1).await;
    office.world.add_places(1).await;
    office.world.settle().await;
    office.starts_in(Span::minutes(150)).await;
    let start = office.world.now() + Span::minutes(150);
    office.world.later(Span::hours(1));
    office.drain().await;
    assert_eq!(office.deadline(&ben).await, start);
}

#[tokio::test]
async fn killed_between_moving_the_deadline_and_sending_no_time_counts_twice() {
    let office = Office::patient().await;
    let (world, db) = (&office.world, office.world.waitlist.db());
    let ann = world.waiting("Ann", 1).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    world.later(Span::hours(1));
    let claim = db.claim_messages(Channel::Smtp, 1, world.now()).await.expect("claimed").remove(0);
    assert_eq!(claim.occasion, "offer");
    for _ in 0..2 {
        telling::before_letter(db, world.event, offer.id).await.expect("moved");
        assert_eq!(office.deadline(&ann).await, offer.expires_at + Span::hours(1));
    }
    // Another takes the message over when the lease is over.
    world.later(Span::seconds(61));
    office.drain().await;
    assert_eq!(office.deadline(&ann).await, world.now() + Span::hours(2));
    assert_eq!(
        office.server.mails().iter().filter(|mail| mail.text().contains("It is your turn")).count(),
        1
    );
}

#[tokio::test]
async fn an_outage_that_is_over_in_the_same_instant_leaves_nobody_waiting() {
    let office = Office::patient().await;
    let ann = office.world.waiting("Ann", 1).await;
    office.breaks_down().await;
    office.world.add_places(1).await;
    office.world.settle().await;
    assert_eq!(office.last_outcome().await, PassOutcome::CannotTell);
    office.world.database.db().channel_works(office.world.now()).await.expect("noted");
    office.world.settle().await;
    assert_eq!(office.last_outcome().await, PassOutcome::Offered);
    assert_eq!(office.outages().await, [], "nothing was lost");
    office.world.live_offer(ann.id).await;
}
