//! A day of the demonstration: from instant to instant that matters, as the sweeper sees them, and sound at each.

use std::sync::Arc;
use std::time::Instant;

use chrono::Duration;
use fairlist::db::check::CheckSettings;
use fairlist::messages::{Mailer, Outcome, Settings};
use fairlist::waitlist::{Waitlist, demonstration};
use fairlist::workers::feed::Relay;
use fairlist::workers::passes::{Passes, Sweeper};
use fairlist::workers::{Next, Worker};
use tokio_util::sync::CancellationToken;

use crate::harness::database::{TestDatabase, secret};
use crate::harness::report::report;
use crate::harness::world::MORNING;

/// The workers of a program, run by hand.
struct Workers {
    relay: Relay,
    sweeper: Sweeper,
    passes: Passes,
    mailer: Mailer,
}

impl Workers {
    fn new(waitlist: &Waitlist) -> Self {
        let db = waitlist.db();
        let never = CancellationToken::new();
        let base = "http://localhost".parse().expect("a URL");
        let settings = Settings::new(base, waitlist.secret().clone(), None);
        Self {
            relay: Relay::new(db),
            sweeper: Sweeper::new(db),
            passes: Passes::new(waitlist, never.clone()),
            mailer: Mailer::new(db, Arc::new(settings), never),
        }
    }

    /// Works until nobody finds anything to do.
    async fn drain(&mut self) {
        loop {
            self.sweeper.tick().await.expect("the sweeper's tick");
            let passed = self.passes.tick().await.expect("the passes' tick");
            while self.relay.tick().await.expect("the relay's tick") == Next::Again {}
            let mailed = self.mailer.tick().await.expect("the mailer's tick");
            if passed != Next::Again && mailed == Outcome::Idle {
                return;
            }
        }
    }
}

#[tokio::test]
async fn a_day_of_the_demonstration_is_sound_at_every_stop() {
    let since = Instant::now();
    let database = TestDatabase::at(MORNING).await;
    let (db, clock) = (database.db(), database.clock());
    let waitlist = Waitlist::new(db.clone(), secret());
    demonstration::make(&waitlist.for_workers(), "nobody signs in").await.expect("the demonstration is made");

    let start = clock.script().expect("a scripted clock");
    let mut workers = Workers::new(&waitlist);
    let mut stops = 0;
    loop {
        workers.drain().await;
        let now = clock.script().expect("a scripted clock");
        // As while the service runs: nothing may lag behind, either.
        let findings = db.check(&CheckSettings::new(secret())).await.expect("the check");
        assert!(findings.is_empty(), "at {now}: {findings:#?}");
        stops += 1;
        let next = db.next_due().await.expect("what is due").expect("somebody has an offer");
        assert!(next > now, "what was due at {next} was not done at {now}");
        if next > start + Duration::days(1) {
            break;
        }
        clock.set(next);
    }
    let lapsed: i64 =
        sqlx::query_scalar("SELECT count(*) FROM offers WHERE state = 'expired' AND ended_at > $1")
            .bind(start)
            .fetch_one(database.sql())
            .await
            .expect("offers");
    report(&format!(
        "a day of the demonstration: {stops} stops, {lapsed} offers lapsed, in {:?}",
        since.elapsed()
    ));
    // Two places of the concert, two hours each: silence hands them on all day.
    assert!(stops > 20 && lapsed > 20, "a day in which nothing happens: {stops} stops, {lapsed} lapsed");
}
