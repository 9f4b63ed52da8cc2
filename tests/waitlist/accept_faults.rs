//! Accept, broken off at every one of its statements: never half, never a false success, and a retry succeeds.

use std::time::Duration;

use fairlist::clock::Clock;
use fairlist::db::{Db, DbError, PoolSizes};
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::offer::{Offer, OfferState};
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::{Accept, AcceptOutcome};
use sqlx::postgres::PgConnectOptions;

use crate::harness::database::TestDatabase;
use crate::harness::patience::until;
use crate::harness::proxy::{Point, TcpProxy};
use crate::harness::report::report;
use crate::harness::world::{World, two_hours};

/// A box office whose customers reach the database through a proxy.
struct Stage {
    world: World,
    proxy: TcpProxy,
    through: PgConnectOptions,
    number: usize,
}

/// Somebody who was just offered a place.
struct Offered {
    entry: Entry,
    offer: Offer,
}

impl Stage {
    async fn new() -> Self {
        let database = TestDatabase::new().await;
        let (proxy, through) = TcpProxy::before(&database).await;
        let world = World::on(database, two_hours(), 0).await;
        Self { world, proxy, through, number: 0 }
    }

    /// The next in line, with one place more to offer.
    async fn offered(&mut self) -> Offered {
        self.number += 1;
        let entry = self.world.waiting(&format!("Guest{}", self.number), 1).await;
        self.world.add_places(1).await;
        self.world.settle().await;
        Offered { offer: self.world.live_offer(entry.id).await, entry }
    }

    /// The program with one fresh connection, so that every statement is prepared anew and counted.
    fn program(&self) -> Waitlist {
        let sizes = PoolSizes { pages: 1, workers: 1, sessions: 1 };
        let db = Db::new(&self.through, sizes, Clock::database());
        Waitlist::new(db, self.world.waitlist.secret().clone())
    }

    async fn accept(&self, program: &Waitlist, offered: &Offered) -> Result<AcceptOutcome, DbError> {
        let person = offered.entry.person;
        let accept = Accept { offer: offered.offer.id, person, actor: Actor::Person(person) };
        Ok(program.accept(self.world.event, &[accept]).await?.remove(0))
    }

    /// The statements of an accept that nothing disturbs.
    async fn statements(&mut self) -> Vec<String> {
        let offered = self.offered().await;
        let program = self.program();
        self.proxy.forget();
        let outcome = self.accept(&program, &offered).await.unwrap();
        assert!(matches!(outcome, AcceptOutcome::Accepted { .. }), "{outcome:?}");
        let statements = self.proxy.statements();
        program.db().close().await;
        statements
    }

    /// Whether it is accepted, wholly; the alternative is that nothing happened.
    async fn is_accepted(&self, offered: &Offered) -> bool {
        let offer = self.world.offer(offered.entry.id).await.unwrap();
        let entry = self.world.state(offered.entry.id).await;
        let bookings = self.world.bookings(offered.entry.person).await.len();
        match (offer.state, entry, bookings) {
            (OfferState::Pending, EntryState::Offered, 0) => false,
            (OfferState::Accepted, EntryState::Accepted, 1) => true,
            half => panic!("half: {half:?}"),
        }
    }

    /// A new try, as a browser makes it, tells the same success, and there is one booking.
    async fn retry_succeeds(&self, program: Waitlist, offered: &Offered) {
        let before = self.is_accepted(offered).await;
        let outcome = self.accept(&program, offered).await.unwrap();
        let right = match outcome {
            AcceptOutcome::Accepted { .. } => !before,
            AcceptOutcome::AlreadyAccepted { .. } => before,
            _ => false,
        };
        assert!(right, "accepted before: {before}; the retry: {outcome:?}");
        assert!(self.is_accepted(offered).await);
        self.nothing_is_open().await;
        program.db().close().await;
    }

    /// None of our backends stays inside a transaction, once it has heard that its client went away.
    async fn nothing_is_open(&self) {
        until("no backend is idle in transaction", Duration::from_secs(5), async || {
            let open: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND pid <> pg_backend_pid() AND state LIKE '%in transaction%'",
            )
            .fetch_one(self.world.database.sql())
            .await
            .unwrap();
            open == 0
        })
        .await;
    }
}

#[tokio::test]
async fn a_request_dropped_at_any_statement_leaves_nothing_half() {
    let mut stage = Stage::new().await;
    let statements = stage.statements().await;
    report(&format!("accept is {} statements; dropped before and after each", statements.len()));
    for (n, text) in (1..).zip(&statements) {
        for point in [Point::Before, Point::After] {
            let offered = stage.offered().await;
            let program = stage.program();
            stage.proxy.hold_at(n, point);
            tokio::select! {
                outcome = stage.accept(&program, &offered) => panic!("{point:?} {text}: not held: {outcome:?}"),
                held = stage.proxy.held() => assert_eq!(&held.statement, text),
            }
            stage.proxy.release();
            // Before anybody looks, the pool has undone what was begun.
            stage.nothing_is_open().await;
            let accepted = stage.is_accepted(&offered).await;
            assert!(!accepted || text == "COMMIT", "{point:?} {text}: accepted without a commit");
            stage.retry_succeeds(program, &offered).await;
        }
    }
}

#[tokio::test]
async fn a_backend_terminated_at_any_statement_is_a_success_or_a_clear_failure() {
    let mut stage = Stage::new().await;
    let statements = stage.statements().await;
    report(&format!(
        "accept is {} statements; its backend terminated before and after each",
        statements.len()
    ));
    for (n, text) in (1..).zip(&statements) {
        for point in [Point::Before, Point::After] {
            let offered = stage.offered().await;
            let program = stage.program();
            stage.proxy.hold_at(n, point);
            let end = async {
                let held = stage.proxy.held().await;
                assert_eq!(&held.statement, text);
                let ended: bool = sqlx::query_scalar("SELECT pg_terminate_backend($1, 5000)")
                    .bind(held.backend)
                    .fetch_one(stage.world.database.sql())
                    .await
                    .unwrap();
                assert!(ended, "{text}: the backend is gone");
                stage.proxy.release();
            };
            let (outcome, ()) = tokio::join!(stage.accept(&program, &offered), end);
            stage.told_the_truth(&outcome, &offered, &format!("{point:?} {text}")).await;
            stage.retry_succeeds(program, &offered).await;
        }
    }
}

/// The answer of the commit is lost with the connection: what it says afterwards is read from the database.
#[tokio::test]
async fn a_connection_cut_at_any_statement_is_never_a_false_answer() {
    let mut stage = Stage::new().await;
    let statements = stage.statements().await;
    report(&format!("accept is {} statements; the connection cut before and after each", statements.len()));
    for (n, text) in (1..).zip(&statements) {
        for point in [Point::Before, Point::After] {
            let offered = stage.offered().await;
            let program = stage.program();
            stage.proxy.hold_at(n, point);
            let cut = async {
                assert_eq!(&stage.proxy.held().await.statement, text);
                stage.proxy.cut();
            };
            let (outcome, ()) = tokio::join!(stage.accept(&program, &offered), cut);
            stage.told_the_truth(&outcome, &offered, &format!("{point:?} {text}")).await;
            if text == "COMMIT" {
                // Nobody knew; it was asked again, and the customer was told.
                let told = outcome.as_ref().is_ok_and(|outcome| {
                    matches!(outcome, AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. })
                });
                assert!(told, "{point:?} {text}: {outcome:?}");
            }
            stage.retry_succeeds(program, &offered).await;
        }
    }
}

impl Stage {
    /// Success is success; a failure is one that a page answers with 503, and is only said of what did not happen,
    /// or of what nobody can know.
    async fn told_the_truth(&self, outcome: &Result<AcceptOutcome, DbError>, offered: &Offered, at: &str) {
        let accepted = self.is_accepted(offered).await;
        match outcome {
            Ok(AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. }) => {
                assert!(accepted, "{at}: told a success that is none");
            }
            Err(DbError::Unavailable(_) | DbError::Busy(_)) => {
                assert!(!accepted, "{at}: told a failure of what was done");
            }
            Err(DbError::CommitUnknown(_)) => {}
            other => panic!("{at}: {other:?}"),
        }
    }
}
