//! Sets, not rows: how many statements an act runs, and how many rows a pass that gives nothing writes, does not
//! depend on how many people it is about.

use chrono::Duration;
use fairlist::db::{Db, PoolSizes};
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::Actor;
use fairlist::domain::ids::{OfferId, PersonId};
use fairlist::domain::policy::{Fit, Policy};
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::Accept;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};

use uuid::Uuid;

use crate::harness::database::TestDatabase;
use crate::harness::proxy::TcpProxy;
use crate::harness::world::{World, email, name, reason, two_hours};

/// A box office that reaches its database through a proxy that counts.
struct Counted {
    world: World,
    proxy: TcpProxy,
    through: Waitlist,
}

impl Counted {
    async fn with(policy: Policy) -> Self {
        let world = World::on(TestDatabase::at("2026-03-02T09:00:00Z").await, policy, 0).await;
        let (proxy, options) = TcpProxy::before(&world.database).await;
        let sizes = PoolSizes { pages: 1, workers: 1, sessions: 1 };
        let db = Db::new(&options, sizes, world.database.clock().clone());
        let through = Waitlist::new(db, world.waitlist.secret().clone());
        Self { world, proxy, through }
    }

    fn everybody(&self, count: usize, party: i32) -> Vec<Join> {
        (0..count)
            .map(|n| Join {
                wants: Wants::default(),
                name: name(&format!("Guest {n}")),
                email: email(&format!("guest{n}@example.org")),
                party,
                as_whom: JoinAs::Vouched(self.world.actor()),
            })
            .collect()
    }

    /// So many join at once.
    async fn join(&self, count: usize, party: i32) {
        let joined = self.through.join(self.world.event, &self.everybody(count, party)).await.unwrap();
        assert!(joined.iter().all(|outcome| matches!(outcome, JoinOutcome::Joined(_))));
    }

    /// The statements since the last look.
    fn statements(&self) -> usize {
        let statements = self.proxy.statements();
        let count = statements.iter().filter(|statement| !statement.starts_with("prepare ")).count();
        self.proxy.forget();
        count
    }

    async fn rows(&self, table: &'static str) -> i64 {
        let count = sqlx::AssertSqlSafe(format!("SELECT count(*) FROM {table}"));
        sqlx::query_scalar(count).fetch_one(self.world.database.sql()).await.unwrap()
    }
}

/// Joining, an offer made, lapsed and made again, accepting, and the event's end, each for so many at once: the
/// statements of each.
async fn a_life(count: usize) -> Vec<(&'static str, usize)> {
    let stage = Counted::with(two_hours()).await;
    let (world, event) = (&stage.world, stage.world.event);
    // The first act opens the connection and prepares its statements.
    stage.through.run_pass(event).await.unwrap();
    stage.statements();
    let mut acts = Vec::new();

    stage.join(count, 1).await;
    acts.push(("join", stage.statements()));
    world.add_places(count).await;
    assert_eq!(stage.through.run_pass(event).await.unwrap().offered, count);
    acts.push(("offer", stage.statements()));
    world.later(Duration::hours(2));
    let again = stage.through.run_pass(event).await.unwrap();
    assert_eq!((again.ended, again.offered), (count, count));
    acts.push(("lapse and offer again", stage.statements()));

    let offers: Vec<(Uuid, Uuid)> = sqlx::query_as(
        "SELECT offers.id, person_id FROM offers JOIN entries ON entries.id = entry_id WHERE offers.state = 'pending'",
    )
    .fetch_all(world.database.sql())
    .await
    .unwrap();
    let accepts: Vec<Accept> = offers
        .into_iter()
        .map(|(offer, person)| Accept {
            offer: OfferId(offer),
            person: PersonId(person),
            actor: Actor::Person(PersonId(person)),
        })
        .collect();
    assert_eq!(accepts.len(), count);
    stage.through.accept(event, &accepts).await.unwrap();
    acts.push(("accept", stage.statements()));
    stage.through.cancel_event(event, world.actor(), &reason()).await.unwrap();
    acts.push(("cancel the event", stage.statements()));
    acts
}

#[tokio::test]
async fn an_act_is_as_many_statements_for_many_as_for_few() {
    assert_eq!(a_life(3).await, a_life(90).await);
}

/// A place for one is open and everybody comes in twos: nobody can be served, and a pass notices cheaply.
async fn nobody_fits(fit: Fit, count: usize) -> (usize, [i64; 5], PassOutcome) {
    let stage = Counted::with(Policy { fit, ..two_hours() }).await;
    stage.join(count, 2).await;
    stage.world.add_places(1).await;
    let mut before = [0; 5];
    let tables = ["skips", "passes", "audit", "messages", "offers"];
    for (rows, table) in before.iter_mut().zip(tables) {
        *rows = stage.rows(table).await;
    }
    stage.statements();
    let report = stage.through.run_pass(stage.world.event).await.unwrap();
    let statements = stage.statements();
    let mut written = [0; 5];
    for ((rows, before), table) in written.iter_mut().zip(before).zip(tables) {
        *rows = stage.rows(table).await - before;
    }
    assert_eq!(report.offered, 0);
    (statements, written, report.outcome)
}

#[tokio::test]
async fn a_pass_over_a_long_list_that_does_not_fit_is_as_short_as_over_a_short_one() {
    for fit in [Fit::Strict, Fit::Fill] {
        let short = nobody_fits(fit, 10).await;
        assert_eq!(nobody_fits(fit, 5_000).await, short, "{fit:?}");
        let (_, [skips, passes, ..], _) = short;
        assert!(skips <= 1 && passes <= 1, "{fit:?}: {short:?}");
    }
}

/// Why: the page of a release of so many places, of an entry behind so many offers, and of the event.
async fn explained(count: usize) -> usize {
    let stage = Counted::with(Policy { fit: Fit::Fill, silence_limit: 100, ..two_hours() }).await;
    let (world, event) = (&stage.world, stage.world.event);
    stage.join(count, 1).await;
    let family = world.waiting("Family", 100).await;
    world.add_places(count).await;
    for _ in 0..count.min(30) {
        world.later(Duration::hours(2));
        world.pass().await;
    }
    let db = stage.through.db();
    stage.statements();
    let release = db.releases(event, None, 10_000).await.unwrap().pop().unwrap();
    assert_eq!(release.places.len(), count);
    let steps = db.place_steps(event, &release.places, Some(release.at), 100).await.unwrap();
    assert!(steps.len() > count, "each was added and then offered");
    let pass = db.first_pass_since(event, release.at).await.unwrap().unwrap();
    assert_eq!(db.offers_of_pass(event, pass.number, 10_000).await.unwrap().len(), count);
    db.passed_over_by(event, pass.number, 10).await.unwrap();
    let trail = db.trail_of(&family).await.unwrap();
    let since = db.since_joined(&family, &trail, 10_000).await.unwrap();
    assert_eq!(since.looks.len(), count.min(30));
    assert_eq!(db.unbooked_places(event, 10_000).await.unwrap().len(), count);
    stage.statements()
}

#[tokio::test]
async fn explaining_is_as_many_statements_for_many_as_for_few() {
    assert_eq!(explained(3).await, explained(90).await);
}
