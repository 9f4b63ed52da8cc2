//! What a booking service may answer, and what becomes of the offer.

use chrono::Duration;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::place::PlaceState;
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::reconcile::Outcome;

use super::Box_;
use crate::harness::booking_service::Manner;
use crate::harness::proxy::Way;

impl Box_ {
    async fn place_states(&self) -> Vec<PlaceState> {
        let states: Vec<String> = sqlx::query_scalar("SELECT state FROM places ORDER BY number")
            .fetch_all(self.world.database.sql())
            .await
            .unwrap();
        states.iter().map(|state| PlaceState::parse(state).unwrap()).collect()
    }

    async fn first_place(&self) -> uuid::Uuid {
        sqlx::query_scalar("SELECT id FROM places ORDER BY number LIMIT 1")
            .fetch_one(self.world.database.sql())
            .await
            .unwrap()
    }
}

#[tokio::test]
async fn a_yes_is_a_booking_under_the_services_reference() {
    for manner in [Manner::Willing, Manner::OneStep] {
        let office = Box_::new(2).await;
        office.service.set(manner);
        let (ann, offer) = office.offered("Ann", 2).await;
        let outcome = office.world.accept(offer.id, ann.person).await;
        assert_eq!(outcome, AcceptOutcome::Accepted { reference: "BOX-1".to_owned(), party: 2 });
        let again = office.world.accept(offer.id, ann.person).await;
        assert_eq!(again, AcceptOutcome::AlreadyAccepted { reference: "BOX-1".to_owned(), party: 2 });
        assert_eq!(office.world.state(ann.id).await, EntryState::Accepted);
        assert_eq!(office.world.facts(ann.person, "accepted").await["reference"], "BOX-1");
        assert_eq!(office.service.called("PUT"), 1);
        assert_eq!(office.tick().await, Outcome::Idle);
        office.service.assert_equal(&office.world).await;
    }
}

#[tokio::test]
async fn a_place_that_is_gone_is_retired_and_the_person_keeps_their_rank() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 2).await;
    let ben = office.world.waiting("Ben", 1).await;
    office.service.sell(office.first_place().await);
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Conflicted);
    assert_eq!(office.place_states().await, [PlaceState::Retired, PlaceState::Open]);
    let entry = office.world.entry(ann.id).await;
    assert_eq!((entry.state, entry.key), (EntryState::Waiting, ann.key));
    assert_eq!(office.world.told(ann.person, "conflicted").await, 1);
    // Another try says so; and with one place for two, she waits, and nobody is served past her.
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Conflicted);
    office.world.settle().await;
    assert_eq!(office.world.state(ben.id).await, EntryState::Waiting);
    office.world.add_places(1).await;
    office.world.settle().await;
    let second = office.world.live_offer(ann.id).await;
    assert!(matches!(office.world.accept(second.id, ann.person).await, AcceptOutcome::Accepted { .. }));
    office.service.assert_equal(&office.world).await;
}

#[tokio::test]
async fn a_refusal_that_does_not_say_which_retires_all_that_were_asked_for() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 2).await;
    office.service.sell(office.first_place().await);
    office.service.say_not_which();
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Conflicted);
    assert_eq!(office.place_states().await, [PlaceState::Retired; 2]);
}

/// The booking times out but succeeded: the place is kept, it is being confirmed, and never offered again.
#[tokio::test]
async fn a_silence_is_being_confirmed_until_the_key_is_looked_up() {
    for manner in [Manner::DoAndHang, Manner::DoAndFail] {
        let office = Box_::new(1).await;
        office.service.set(manner);
        let (ann, offer) = office.offered("Ann", 1).await;
        let ben = office.world.waiting("Ben", 1).await;
        assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::BeingConfirmed);
        let is = office.world.offer(ann.id).await.unwrap();
        assert_eq!((is.state, is.expires_at), (OfferState::Accepting, offer.expires_at));
        // The deadline passes meanwhile: nothing is swept, nobody else is offered the place.
        office.world.later(Duration::hours(3));
        office.world.settle().await;
        assert_eq!(office.world.state(ben.id).await, EntryState::Waiting);
        assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::BeingConfirmed);
        office.service.set(Manner::Willing);
        assert_eq!(office.tick().await, Outcome::Asked { asked: 1, settled: 1 });
        assert!(matches!(
            office.world.accept(offer.id, ann.person).await,
            AcceptOutcome::AlreadyAccepted { .. }
        ));
        assert_eq!(office.world.told(ann.person, "accepted").await, 1);
        office.world.settle().await;
        assert_eq!(office.world.state(ben.id).await, EntryState::Waiting);
        office.service.assert_equal(&office.world).await;
    }
}

/// Nothing that is no answer is taken for one: it is being confirmed, and comes out right.
#[tokio::test]
async fn what_is_no_answer_is_never_taken_for_one() {
    let office = Box_::new(6).await;
    for (n, manner) in
        [Manner::Fail, Manner::Html, Manner::Huge, Manner::Drip, Manner::Redirect, Manner::Garbage]
            .into_iter()
            .enumerate()
    {
        office.service.set(manner);
        let (who, offer) = office.offered(&format!("Guest{n}"), 1).await;
        assert_eq!(
            office.world.accept(offer.id, who.person).await,
            AcceptOutcome::BeingConfirmed,
            "{manner:?}"
        );
        office.service.set(Manner::Willing);
        office.reconcile().await;
        assert_eq!(office.world.state(who.id).await, EntryState::Accepted, "{manner:?}");
        office.service.assert_equal(&office.world).await;
    }
    assert_eq!(office.service.strayed(), 0, "a redirect was followed");
}

/// Turned away, or never reached: it is known that nothing was booked, and the offer is as it was, with the lost time.
#[tokio::test]
async fn a_call_that_did_nothing_leaves_the_offer_as_it_was() {
    let office = Box_::new(1).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    for manner in [Manner::TooMany(0), Manner::TooMany(u64::MAX), Manner::Unauthorized] {
        office.service.set(manner);
        assert_eq!(
            office.world.accept(offer.id, ann.person).await,
            AcceptOutcome::ServiceUnavailable,
            "{manner:?}"
        );
        let is = office.world.live_offer(ann.id).await;
        assert_eq!(is.expires_at, offer.expires_at, "{manner:?}");
    }
    assert_eq!(office.world.told(ann.person, "extended").await, 0, "no time was lost");
    office.service.set(Manner::Willing);
    assert!(matches!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Accepted { .. }));
    let keys: i64 = sqlx::query_scalar("SELECT count(DISTINCT key) FROM booking_attempts")
        .fetch_one(office.world.database.sql())
        .await
        .unwrap();
    assert_eq!(keys, 4, "a new attempt has a new key");
    office.service.assert_equal(&office.world).await;
}

/// After five failures in a row the service is left alone: no call is made, and the offer is as it was.
#[tokio::test]
async fn a_service_that_fails_is_left_alone_for_a_while() {
    let office = Box_::new(1).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    office.service.set(Manner::Unauthorized);
    for _ in 0..5 {
        assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::ServiceUnavailable);
    }
    let calls = office.service.calls().len();
    office.service.set(Manner::Willing);
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::ServiceUnavailable);
    assert_eq!(office.service.calls().len(), calls, "it was called while it rests");
    assert_eq!(office.world.live_offer(ann.id).await.expires_at, offer.expires_at);
    office.world.later(Duration::seconds(11));
    assert!(matches!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::Accepted { .. }));
    office.service.assert_equal(&office.world).await;
}

/// The answer is lost on the way back, or the question on the way there: the proxy swallows it.
#[tokio::test]
async fn a_word_lost_on_the_way_is_found() {
    for way in [Way::Up, Way::Down] {
        let office = Box_::new(1).await;
        let (ann, offer) = office.offered("Ann", 1).await;
        office.proxy.swallow(way, true);
        assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::BeingConfirmed);
        office.proxy.swallow(way, false);
        office.proxy.cut();
        office.reconcile().await;
        assert_eq!(office.world.state(ann.id).await, EntryState::Accepted, "{way:?}");
        office.service.assert_equal(&office.world).await;
    }
}
