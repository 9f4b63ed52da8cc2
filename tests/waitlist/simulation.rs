//! Replaying a recorded history under the rule that was in force gives the very offers that were made.

use chrono::{DateTime, Duration, Utc};
use fairlist::domain::ids::{EntryId, PlaceId};
use fairlist::domain::offer::OfferKind;
use fairlist::domain::policy::{After, Fit, Mode, Ordering, Policy};
use fairlist::domain::simulation::{Made, Simulation, simulate};
use sqlx::Row as _;
use uuid::Uuid;

use super::walk::{Walk, an_hour, band};

/// Acts of one day.
const STEPS: usize = 150;

/// The offers that were made, in order, each with the places that it kept.
async fn really_made(walk: &Walk) -> Vec<Made> {
    let rows = sqlx::query(
        "SELECT o.made_at, o.entry_id, o.kind, ARRAY(
             SELECT a.subject_id FROM audit a JOIN places p ON p.id = a.subject_id
             WHERE a.event_id = o.event_id AND a.act = 'held' AND a.at = o.made_at AND a.entry_id = o.entry_id
             ORDER BY p.number) AS places
         FROM offers o WHERE o.event_id = $1 ORDER BY o.pass_number, o.band, o.round, o.rank",
    )
    .bind(walk.event.0)
    .fetch_all(walk.database.sql())
    .await
    .expect("offers");
    rows.iter()
        .map(|row| Made {
            at: row.get("made_at"),
            entry: EntryId(row.get("entry_id")),
            kind: OfferKind::parse(row.get("kind")).expect("a kind"),
            places: row.get::<Vec<Uuid>, _>("places").into_iter().map(PlaceId).collect(),
        })
        .collect()
}

/// The workers do what is to be done, tell people of it, and then do what the nudge of every minute finds, which here
/// comes at once.
async fn at_work(walk: &mut Walk) {
    walk.work().await;
    walk.tell().await;
    loop {
        walk.database.db().request_due_passes(true).await.expect("a nudge");
        if walk.work().await == 0 {
            break;
        }
        walk.tell().await;
    }
}

/// Lets time go by, with the workers at hand at every instant at which something is due.
async fn until(walk: &mut Walk, then: DateTime<Utc>) {
    while let Some(due) = walk.database.db().next_due().await.expect("due").filter(|due| *due <= then) {
        if due > walk.now() {
            walk.database.clock().set(due);
        }
        at_work(walk).await;
        assert_ne!(walk.database.db().next_due().await.expect("due"), Some(due), "done with {due}");
    }
    walk.database.clock().set(then);
}

/// A random day on which staff leave offers to the rule.
async fn day(seed: u8, policy: &Policy) -> Walk {
    let mut walk = Walk::begin(seed, policy.clone()).await;
    walk.work().await;
    for _ in 0..STEPS {
        // Acts have instants of their own, as in the world.
        let length = if walk.below(4) == 0 { i64::from(walk.below(3_000)) } else { 0 };
        let then = walk.now() + Duration::seconds(1 + length);
        until(&mut walk, then).await;
        walk.act_without_staff().await;
        at_work(&mut walk).await;
    }
    walk
}

async fn replayed(walk: &Walk, policy: &Policy) -> Simulation {
    let event = walk.database.db().event(walk.event).await.expect("the event");
    let past = walk.database.db().past(&event, walk.now()).await.expect("the past");
    simulate(&past, policy).expect("a day with releases and answers")
}

async fn the_same_offers(seeds: impl IntoIterator<Item = u8>, policy: Policy) {
    let mut offers = 0;
    for seed in seeds {
        let walk = day(seed, &policy).await;
        let simulation = replayed(&walk, &policy).await;
        let really = really_made(&walk).await;
        for (index, made) in really.iter().enumerate() {
            assert_eq!(simulation.made.get(index), Some(made), "seed {seed}\n{}", walk.done.join("\n"));
        }
        assert_eq!(simulation.made.len(), really.len(), "seed {seed}");
        assert_eq!(simulation.replayed, simulation.really, "seed {seed}");
        offers += really.len();
    }
    assert!(offers > 10, "only {offers} offers were compared");
}

#[tokio::test]
async fn a_strict_list_replayed_makes_the_same_offers() {
    the_same_offers(100..102, an_hour()).await;
}

#[tokio::test]
async fn a_list_that_fills_replayed_makes_the_same_offers() {
    let policy = Policy { fit: Fit::Fill, after_decline: After::Back, ..an_hour() };
    the_same_offers(104..106, policy).await;
}

#[tokio::test]
async fn a_list_with_batches_replayed_makes_the_same_offers() {
    let (after_expiry, after_decline) = (After::Back, After::Keep);
    let policy = Policy { batch_size: 2, fit: Fit::Fill, after_expiry, after_decline, ..an_hour() };
    the_same_offers(108..110, policy).await;
}

#[tokio::test]
async fn a_list_that_people_leave_replayed_makes_the_same_offers() {
    the_same_offers(112..114, Policy { after_expiry: After::Leave, silence_limit: 1, ..an_hour() }).await;
}

#[tokio::test]
async fn a_list_with_groups_replayed_makes_the_same_offers() {
    let bands = vec![band(-200, "Members"), band(-100, "Residents")];
    the_same_offers(120..122, Policy { ordering: Ordering::Priority, bands, ..an_hour() }).await;
}

#[tokio::test]
async fn a_lottery_replayed_makes_the_same_offers() {
    let policy = Policy { ordering: Ordering::Lottery, after_decline: After::Back, ..an_hour() };
    the_same_offers(130..132, policy).await;
}

#[tokio::test]
async fn calls_replayed_are_the_same_calls() {
    the_same_offers(140..142, Policy { mode: Mode::NotifyAll, after_decline: After::Keep, ..an_hour() })
        .await;
}

#[tokio::test]
async fn a_final_call_replayed_calls_the_same_people() {
    let begin: DateTime<Utc> = "2027-03-01T09:00:00Z".parse().expect("an instant");
    let cutoff = Some(begin + Duration::hours(9));
    the_same_offers(150..152, Policy { cutoff, ..an_hour() }).await;
}
