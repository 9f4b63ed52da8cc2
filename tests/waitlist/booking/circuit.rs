//! A service that failed too often is left alone; when that is over, one call finds out how it is doing.

use chrono::Duration;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::outside::Gate;
use fairlist::waitlist::answer::{Accept, AcceptOutcome};
use fairlist::waitlist::bookings::CancelOutcome;
use fairlist::waitlist::reconcile::Outcome;
use sqlx::{Connection as _, Executor as _, PgConnection};

use super::Box_;
use crate::harness::booking_service::Manner;
use crate::harness::patience::until;
use crate::harness::race::{Lock, race};
use crate::harness::world::reason;

/// More than this many pages' connections there are not.
const RACERS: usize = 8;

impl Box_ {
    /// The service fails until it is left alone; its rest ends ten seconds from now.
    async fn trip(&self) {
        let (who, offer) = self.offered("Trip", 1).await;
        self.service.set(Manner::Unauthorized);
        for _ in 0..5 {
            let outcome = self.world.accept(offer.id, who.person).await;
            assert_eq!(outcome, AcceptOutcome::ServiceUnavailable);
        }
        assert_eq!(self.circuit().await, (5, Some(10)));
    }

    /// Failures in a row, and for how many seconds it is still left alone.
    async fn circuit(&self) -> (i32, Option<i64>) {
        let db = self.world.waitlist.db();
        let service = db.booking_service(self.world.event).await.unwrap().unwrap();
        let circuit = db.circuit(service.organization, &service.url).await.unwrap();
        (circuit.failures, circuit.open_until.map(|until| (until - self.world.now()).num_seconds()))
    }

    /// So many come to the gate at once; with the lock off, each looks first and then does as it saw.
    async fn at_the_gate(&self, lock: Lock) -> Vec<Gate> {
        let mut keeper = PgConnection::connect_with(&self.world.database.options()).await.unwrap();
        keeper.execute("BEGIN").await.unwrap();
        keeper.execute("SELECT FROM booking_circuits FOR UPDATE").await.unwrap();
        let db = self.world.waitlist.db().clone();
        let (event, options) = (self.world.event, self.world.database.options());
        let (now, life) = (self.world.now(), Duration::seconds(30));
        let racing = race(RACERS, |_| {
            let (db, options) = (db.clone(), options.clone());
            async move {
                if lock == Lock::On {
                    return db.booking_gate(event, life).await.unwrap();
                }
                let mut sql = PgConnection::connect_with(&options).await.unwrap();
                let over: bool = sqlx::query_scalar("SELECT open_until <= $1 FROM booking_circuits")
                    .bind(now)
                    .fetch_one(&mut sql)
                    .await
                    .unwrap();
                sqlx::query("UPDATE booking_circuits SET open_until = $1")
                    .bind(now + life)
                    .execute(&mut sql)
                    .await
                    .unwrap();
                if over { Gate::Probe } else { Gate::Shut }
            }
        });
        let opening = async {
            until("they stand at the gate", std::time::Duration::from_secs(30), async || {
                let waiting: i64 = sqlx::query_scalar(
                    "SELECT count(*) FROM pg_stat_activity
                     WHERE datname = current_database() AND wait_event_type = 'Lock'",
                )
                .fetch_one(self.world.database.sql())
                .await
                .unwrap();
                usize::try_from(waiting).unwrap() >= RACERS
            })
            .await;
            keeper.execute("COMMIT").await.unwrap();
        };
        tokio::join!(racing, opening).0
    }
}

#[tokio::test]
async fn of_many_that_come_when_the_rest_is_over_one_goes_through() {
    let office = Box_::new(1).await;
    office.trip().await;
    let db = office.world.waitlist.db();
    let gate = async || db.booking_gate(office.world.event, Duration::seconds(30)).await.unwrap();
    assert_eq!(gate().await, Gate::Shut);
    office.world.later(Duration::seconds(10));
    let gates = office.at_the_gate(Lock::On).await;
    assert_eq!(gates.iter().filter(|gate| **gate == Gate::Probe).count(), 1, "{gates:?}");
    assert!(!gates.contains(&Gate::Open), "{gates:?}");
    // Whoever it was died: after a while somebody else may try.
    assert_eq!(gate().await, Gate::Shut);
    office.world.later(Duration::seconds(30));
    assert_eq!(gate().await, Gate::Probe);
}

/// The control: whoever looks before it writes lets everybody through.
#[tokio::test]
async fn without_the_row_deciding_many_go_through() {
    let office = Box_::new(1).await;
    office.trip().await;
    office.world.later(Duration::seconds(10));
    let gates = office.at_the_gate(Lock::Off).await;
    assert!(gates.iter().filter(|gate| **gate == Gate::Probe).count() > 1, "{gates:?}");
}

#[tokio::test]
async fn the_probe_goes_alone_and_opens_the_way_for_the_others() {
    let office = Box_::new(3).await;
    office.trip().await;
    let (ann, a) = office.offered("Ann", 1).await;
    let (ben, b) = office.offered("Ben", 1).await;
    let slice = [(&ann, &a), (&ben, &b)].map(|(entry, offer)| Accept {
        offer: offer.id,
        person: entry.person,
        actor: Actor::Person(entry.person),
    });
    let accept = async || office.world.waitlist.accept(office.world.event, &slice).await.unwrap();
    office.world.later(Duration::seconds(10));
    let calls = office.service.calls().len();
    assert_eq!(accept().await, vec![AcceptOutcome::ServiceUnavailable; 2]);
    assert_eq!(office.service.calls().len(), calls + 1, "Ben's went along");
    assert_eq!(office.circuit().await, (6, Some(20)), "it is left alone for longer");
    office.service.set(Manner::Willing);
    office.world.later(Duration::seconds(20));
    let outcomes = accept().await;
    assert!(matches!(outcomes[0], AcceptOutcome::Accepted { .. }), "{outcomes:?}");
    assert_eq!(outcomes[1], AcceptOutcome::ServiceUnavailable);
    let outcomes = accept().await;
    assert!(matches!(outcomes[1], AcceptOutcome::Accepted { .. }), "{outcomes:?}");
    office.service.assert_equal(&office.world).await;
}

#[tokio::test]
async fn what_is_unknown_is_found_out_one_by_one() {
    let office = Box_::new(5).await;
    let mut guests = Vec::new();
    for n in 0..5 {
        guests.push(office.offered(&format!("Guest{n}"), 1).await);
    }
    office.service.set(Manner::DoAndFail);
    for (who, offer) in &guests {
        let outcome = office.world.accept(offer.id, who.person).await;
        assert_eq!(outcome, AcceptOutcome::BeingConfirmed);
    }
    assert_eq!(office.circuit().await.0, 5);
    assert_eq!(office.tick().await, Outcome::Idle, "it is left alone");
    office.world.later(Duration::seconds(11));
    office.service.set(Manner::Fail);
    let calls = office.service.called("GET");
    assert_eq!(office.tick().await, Outcome::Asked { asked: 5, settled: 0 });
    assert_eq!(office.service.called("GET"), calls + 2, "one question, put twice");
    assert_eq!(office.tick().await, Outcome::Idle);
    office.service.set(Manner::Willing);
    office.world.later(Duration::seconds(21));
    // One goes first, and whoever comes when it is back goes through, too: in this look or in the next.
    let mut settled = 0;
    while let Outcome::Asked { settled: now, .. } = office.tick().await {
        assert!(now > 0, "no look is for nothing");
        settled += now;
    }
    assert_eq!(settled, 5);
    for (who, _) in &guests {
        assert_eq!(office.world.state(who.id).await, EntryState::Accepted);
    }
    office.service.assert_equal(&office.world).await;
}

/// What many calls under way come to counts once: the rest is not made longer by them.
#[tokio::test]
async fn a_burst_of_failures_does_not_make_the_rest_longer() {
    let office = Box_::new(RACERS).await;
    let mut guests = Vec::new();
    for n in 0..RACERS {
        guests.push(office.offered(&format!("Guest{n}"), 1).await);
    }
    office.service.set(Manner::Unauthorized);
    let accepts: Vec<Accept> = guests
        .iter()
        .map(|(who, offer)| Accept { offer: offer.id, person: who.person, actor: Actor::Person(who.person) })
        .collect();
    // One slice: all of them are let through before any fails.
    let outcomes = office.world.waitlist.accept(office.world.event, &accepts).await.unwrap();
    assert_eq!(outcomes, vec![AcceptOutcome::ServiceUnavailable; RACERS]);
    assert_eq!(office.service.called("PUT"), RACERS);
    assert_eq!(office.circuit().await, (5, Some(10)));
}

#[tokio::test]
async fn a_booking_is_given_back_once_the_service_is_called_again() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    assert!(matches!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Accepted { .. }));
    office.trip().await;
    let booking = office.world.bookings(ann.person).await[0];
    let calls = office.service.calls().len();
    let cancelled = office
        .world
        .waitlist
        .cancel_booking(office.world.event, booking, Actor::Person(ann.person), &reason())
        .await
        .unwrap();
    assert_eq!(cancelled, CancelOutcome::BeingCancelled);
    assert_eq!(office.service.calls().len(), calls, "it was called while it is left alone");
    office.service.set(Manner::Willing);
    office.world.later(Duration::seconds(11));
    assert_eq!(office.tick().await, Outcome::Asked { asked: 1, settled: 1 });
    assert_eq!(office.world.bookings(ann.person).await.len(), 0);
    office.service.assert_equal(&office.world).await;
}

/// A service that is down costs nobody the places that they said yes to in time; who said nothing has lost them.
#[tokio::test]
async fn who_accepts_while_the_service_is_left_alone_keeps_the_offer_until_it_can_be_asked() {
    let office = Box_::new(3).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    let (cora, silent) = office.offered("Cora", 1).await;
    office.world.later(offer.expires_at - office.world.now() - Duration::seconds(3));
    office.trip().await;
    let deadline = async || office.world.live_offer(ann.id).await.expires_at;
    for _ in 0..2 {
        let outcome = office.world.accept(offer.id, ann.person).await;
        assert_eq!(outcome, AcceptOutcome::ServiceUnavailable);
        // Ten seconds of rest and two minutes, however often she tries.
        assert_eq!(deadline().await, office.world.now() + Duration::seconds(130));
    }
    assert_eq!(office.world.live_offer(cora.id).await.expires_at, silent.expires_at);
    office.world.later(Duration::seconds(129));
    office.world.pass().await;
    let state: String = sqlx::query_scalar("SELECT state FROM offers WHERE id = $1")
        .bind(silent.id.0)
        .fetch_one(office.world.database.sql())
        .await
        .unwrap();
    assert_eq!(state, "expired");
    // It is asked, and fails again, a moment before her time is over: it rests for longer, and she has two minutes more.
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::ServiceUnavailable);
    assert_eq!(deadline().await, office.world.now() + Duration::seconds(140));
    office.service.set(Manner::Willing);
    office.world.later(Duration::seconds(119));
    office.world.pass().await;
    let outcome = office.world.accept(offer.id, ann.person).await;
    assert!(matches!(outcome, AcceptOutcome::Accepted { .. }), "{outcome:?}");
    office.service.assert_equal(&office.world).await;
}

/// Of a service that refuses one person only, others do not suffer for ever; and whoever tries for it knows how long.
#[tokio::test]
async fn what_is_kept_meanwhile_is_kept_for_one_more_window_at_most_and_until_the_next_try_at_least() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    let window = offer.expires_at - offer.made_at;
    office.world.later(window - Duration::minutes(1));
    office.service.set(Manner::Unauthorized);
    let mut refused = 0;
    loop {
        let tried = office.world.accept(offer.id, ann.person).await;
        if tried == AcceptOutcome::Expired {
            break;
        }
        assert_eq!(tried, AcceptOutcome::ServiceUnavailable);
        refused += 1;
        assert!(refused < 200, "it is kept for ever");
        let (_, rests) = office.circuit().await;
        let now = office.world.now();
        let again = now + Duration::seconds(rests.unwrap_or(0).max(0));
        let deadline = office.world.live_offer(ann.id).await.expires_at;
        assert!(deadline <= offer.made_at + window * 2, "{deadline}");
        if again + Duration::minutes(2) <= offer.made_at + window * 2 {
            assert!(deadline >= again + Duration::minutes(2), "{deadline}, and it can be asked at {again}");
        }
        // As late as she may.
        office.world.later(deadline - now - Duration::seconds(1));
        if deadline == offer.made_at + window * 2 {
            office.world.later(Duration::seconds(1));
        }
    }
    assert_eq!(office.world.now(), offer.made_at + window * 2);
}

/// The mail that somebody has says when their time is over: whoever did not see it move is told.
#[tokio::test]
async fn for_whom_others_accept_is_told_that_the_deadline_moved() {
    let office = Box_::new(3).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    office.world.later(offer.expires_at - office.world.now() - Duration::seconds(3));
    office.trip().await;
    let accept = Accept { offer: offer.id, person: ann.person, actor: office.world.actor() };
    let outcome = office.world.waitlist.accept(office.world.event, &[accept, accept]).await.unwrap();
    assert_eq!(outcome, [AcceptOutcome::ServiceUnavailable, AcceptOutcome::ServiceUnavailable]);
    assert_eq!(office.world.told(ann.person, "extended").await, 1);
    let (ben, offer) = office.offered("Ben", 1).await;
    office.world.later(offer.expires_at - office.world.now() - Duration::seconds(3));
    assert_eq!(office.world.accept(offer.id, ben.person).await, AcceptOutcome::ServiceUnavailable);
    assert_eq!(office.world.told(ben.person, "extended").await, 0);
}

/// Nobody keeps anything past the start.
#[tokio::test]
async fn what_is_kept_meanwhile_is_kept_to_the_start_at_most() {
    let office = Box_::new(2).await;
    let start = office.world.waitlist.db().event(office.world.event).await.unwrap().starts_at.unwrap();
    office.world.later(start - office.world.now() - Duration::minutes(1));
    let (ann, offer) = office.offered("Ann", 1).await;
    assert_eq!(offer.expires_at, start);
    office.trip().await;
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::ServiceUnavailable);
    assert_eq!(office.world.live_offer(ann.id).await.expires_at, start);
}
