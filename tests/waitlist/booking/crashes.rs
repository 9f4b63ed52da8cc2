//! Whoever accepts dies at any moment between the intent and its record: the ledgers are equal in the end.

use std::future::{Future, poll_fn};
use std::pin::pin;
use std::task::Poll;

use fairlist::db::DbError;
use fairlist::domain::attribute::Wants;
use fairlist::domain::offer::Offer;
use fairlist::waitlist::join::{Join, JoinAs};
use futures_util::StreamExt as _;
use futures_util::stream::FuturesUnordered;
use rand::rngs::StdRng;
use rand::{RngExt as _, SeedableRng as _};

use super::Box_;
use crate::harness::booking_service::Manner;
use crate::harness::report::report;
use crate::harness::world::{email, name, two_hours};

/// So many deaths.
const DEATHS: usize = 1_000;

/// At once: each is a process of its own to the service and the database.
const AT_ONCE: usize = 12;

/// Polls `work` so many times, and drops it where it then stands; whether it came to its end before.
async fn dies_after(polls: usize, work: impl Future<Output = ()>) -> bool {
    let mut work = pin!(work);
    let mut left = polls;
    poll_fn(|context| {
        if left == 0 {
            return Poll::Ready(false);
        }
        left -= 1;
        work.as_mut().poll(context).map(|()| true)
    })
    .await
}

/// How often an accept that nothing disturbs is polled.
async fn polls(work: impl Future<Output = ()>) -> usize {
    let mut work = pin!(work);
    let mut count = 0;
    poll_fn(|context| {
        count += 1;
        work.as_mut().poll(context)
    })
    .await;
    count
}

impl Box_ {
    /// Everybody joins, and is offered a place.
    async fn all_offered(&self, count: usize) -> Vec<Offer> {
        let joins: Vec<Join> = (0..count)
            .map(|n| Join {
                wants: Wants::default(),
                name: name(&format!("Guest{n}")),
                email: email(&format!("guest{n}@example.org")),
                party: 1,
                as_whom: JoinAs::Vouched(self.world.actor()),
            })
            .collect();
        self.world.waitlist.join(self.world.event, &joins).await.unwrap();
        self.world.settle().await;
        self.world
            .waitlist
            .db()
            .with_event::<_, DbError>(self.world.event, async |event| event.pending_offers(10_000).await)
            .await
            .unwrap()
    }

    async fn dies(&self, offer: &Offer, polls: usize) -> bool {
        dies_after(polls, async {
            self.world.accept(offer.id, offer.person).await;
        })
        .await
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_thousand_deaths_between_intent_and_record_leave_equal_ledgers() {
    let seed = 20_270_301;
    let mut random = StdRng::seed_from_u64(seed);
    let office = Box_::under(two_hours(), DEATHS + 1).await;
    let offers = office.all_offered(DEATHS + 1).await;
    assert_eq!(offers.len(), DEATHS + 1);
    let undisturbed = polls(async {
        office.world.accept(offers[DEATHS].id, offers[DEATHS].person).await;
    })
    .await;
    let (mut died, mut ended) = (0, 0);
    for batch in offers[..DEATHS].chunks(AT_ONCE) {
        // Nobody is kept from calling by the failures of others: here it is about those who did call.
        sqlx::query("DELETE FROM booking_circuits").execute(office.world.database.sql()).await.unwrap();
        office.service.set(match random.random_range(0..20) {
            0..=14 => Manner::Willing,
            15 | 16 => Manner::OneStep,
            17 | 18 => Manner::DoAndFail,
            _ => Manner::Fail,
        });
        let lives: FuturesUnordered<_> =
            batch.iter().map(|offer| office.dies(offer, random.random_range(1..=undisturbed))).collect();
        let ends: Vec<bool> = lives.collect().await;
        ended += ends.iter().filter(|end| **end).count();
        died += ends.iter().filter(|end| !**end).count();
    }
    report(&format!(
        "seed {seed}: an accept is polled {undisturbed} times; {died} died on the way, {ended} did not"
    ));
    let intents: i64 = count(&office, "SELECT count(*) FROM booking_attempts").await;
    let unknown: i64 =
        count(&office, "SELECT count(*) FROM booking_attempts WHERE outcome = 'unresolved'").await;
    office.service.set(Manner::Willing);
    office.reconcile().await;
    let booked: i64 = count(&office, "SELECT count(*) FROM offers WHERE state = 'accepted'").await;
    let pending: i64 = count(&office, "SELECT count(*) FROM offers WHERE state = 'pending'").await;
    report(&format!(
        "{intents} intents, {unknown} without an outcome; {booked} booked here and there, {pending} pending"
    ));
    assert_eq!(booked + pending, i64::try_from(DEATHS + 1).unwrap());
    assert!(died > DEATHS / 2 && unknown > 100 && booked > 100);
    office.service.assert_equal(&office.world).await;
}

async fn count(office: &Box_, question: &'static str) -> i64 {
    sqlx::query_scalar(question).fetch_one(office.world.database.sql()).await.unwrap()
}
