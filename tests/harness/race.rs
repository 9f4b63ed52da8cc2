//! Many doing the same at once, with the event's lock and, for the control, without it.

use std::future::Future;
use std::sync::Arc;
use std::time::Duration;

use fairlist::db::DbError;
use fairlist::db::locked_event::without_lock;
use sqlx::{Connection as _, Executor as _, PgConnection};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::patience::until;
use super::world::World;

/// Starts `n` of what `act` makes, all at the same moment, and tells what came of each, in their order.
pub async fn race<T, F>(n: usize, act: impl Fn(usize) -> F) -> Vec<T>
where
    T: Send + 'static,
    F: Future<Output = T> + Send + 'static,
{
    let barrier = Arc::new(Barrier::new(n));
    let mut racers = JoinSet::new();
    for i in 0..n {
        let (act, barrier) = (act(i), Arc::clone(&barrier));
        racers.spawn(async move {
            barrier.wait().await;
            (i, act.await)
        });
    }
    let mut ends = racers.join_all().await;
    ends.sort_by_key(|(i, _)| *i);
    ends.into_iter().map(|(_, end)| end).collect()
}

/// Whether the event's lock keeps those who race apart, as it always does, or is switched off: the control, which
/// must go wrong, or the race proves nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lock {
    On,
    Off,
}

impl Lock {
    /// Does it with the lock or without.
    pub async fn run<T>(self, act: impl Future<Output = T>) -> T {
        match self {
            Self::On => act.await,
            Self::Off => without_lock(act).await,
        }
    }
}

/// Nobody gets an event's lock or writes while it is closed, but everybody may read. So it makes the worst of
/// moments: those who take the lock queue for it, and those who do not have all read the same before the first of
/// them writes.
pub struct Gate<'a> {
    world: &'a World,
    connection: PgConnection,
}

impl<'a> Gate<'a> {
    pub async fn close(world: &'a World) -> Self {
        let mut connection =
            PgConnection::connect_with(&world.database.options()).await.expect("a connection");
        for statement in [
            "BEGIN",
            // Not what is written before everything was read.
            "LOCK TABLE places, bookings IN SHARE MODE",
            "SELECT FROM events FOR NO KEY UPDATE",
        ] {
            connection.execute(statement).await.expect(statement);
        }
        Self { world, connection }
    }

    /// Returns when `n` stand before it.
    pub async fn until_waiting(&self, n: i64) {
        until("they wait at the gate", Duration::from_secs(30), async || {
            let waiting: i64 = sqlx::query_scalar(
                "SELECT count(*) FROM pg_stat_activity
                 WHERE datname = current_database() AND wait_event_type = 'Lock'",
            )
            .fetch_one(self.world.database.sql())
            .await
            .expect("what backends do");
            waiting >= n
        })
        .await;
    }

    /// What happens here nobody sees until it opens.
    pub async fn run(&mut self, statement: &'static str) {
        self.connection.execute(statement).await.expect(statement);
    }

    pub async fn open(mut self) {
        self.connection.execute("COMMIT").await.expect("it opens");
        self.connection.close().await.expect("closed");
    }
}

/// `n` do it at the worst of moments; what came of each, in their order. No more than there are connections for
/// pages, or some would not get to the gate.
pub async fn at_once<T, F>(
    world: &World,
    lock: Lock,
    n: usize,
    act: impl Fn(usize) -> F,
) -> Vec<Result<T, DbError>>
where
    T: Send + 'static,
    F: Future<Output = Result<T, DbError>> + Send + 'static,
{
    let gate = Gate::close(world).await;
    let racing = race(n, |i| {
        let act = act(i);
        async move { lock.run(act).await }
    });
    let opening = async {
        gate.until_waiting(i64::try_from(n).expect("few")).await;
        gate.open().await;
    };
    tokio::join!(racing, opening).0
}

/// Every one of them got an answer.
#[track_caller]
pub fn answered<T>(ends: Vec<Result<T, DbError>>) -> Vec<T> {
    ends.into_iter().map(|end| end.expect("an answer")).collect()
}

/// What the control of a race shows where there is a last line: somebody met a row that was no longer as it was read,
/// or a constraint.
#[track_caller]
pub fn collided<T: std::fmt::Debug>(ends: &[Result<T, DbError>]) {
    let stopped =
        |end: &Result<T, DbError>| matches!(end, Err(DbError::LostRace(_) | DbError::Constraint(_)));
    assert!(ends.iter().any(stopped), "the lock did nothing: {ends:?}");
}
