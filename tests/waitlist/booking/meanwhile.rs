//! What else may happen while an accept is being confirmed.

use chrono::Duration;
use fairlist::domain::audit::Actor;
use fairlist::domain::entry::EntryState;
use fairlist::domain::event::ListState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::outside::{AttemptOutcome, ServiceUrl};
use fairlist::waitlist::answer::{Accept, AcceptOutcome, Begun, DeclineOutcome};
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};
use fairlist::waitlist::bookings::{BookOutcome, CancelOutcome};
use fairlist::waitlist::leave::LeaveOutcome;
use fairlist::waitlist::outside::{Resolution, ResolveOutcome};
use fairlist::waitlist::staff_offers::{AfterRevoke, RevokeOutcome};
use fairlist::waitlist::together::Together;

use super::Box_;
use crate::harness::booking_service::Manner;
use crate::harness::patience::until;
use crate::harness::race::race;
use crate::harness::world::reason;

impl Box_ {
    /// Somebody whose accept the service never answered; whether it has the booking.
    async fn unanswered(
        &self,
        who: &str,
        booked: bool,
    ) -> (fairlist::domain::entry::Entry, fairlist::domain::offer::Offer) {
        let (entry, offer) = self.offered(who, 1).await;
        self.service.set(if booked { Manner::DoAndFail } else { Manner::Fail });
        assert_eq!(self.world.accept(offer.id, entry.person).await, AcceptOutcome::BeingConfirmed);
        self.service.set(Manner::Willing);
        (entry, offer)
    }

    async fn attempt(&self) -> fairlist::domain::outside::Attempt {
        self.world.waitlist.db().attempts_of(self.world.event, 1).await.unwrap().remove(0)
    }
}

#[tokio::test]
async fn fifty_accepts_at_once_are_one_reservation_and_everybody_sees_the_same() {
    let office = Box_::new(1).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    let together = Together::new(office.world.waitlist.clone());
    let event = office.world.event;
    let outcomes = race(50, |_| {
        let together = together.clone();
        let accept = Accept { offer: offer.id, person: ann.person, actor: Actor::Person(ann.person) };
        async move { together.accept(event, accept).await.unwrap() }
    })
    .await;
    let one = |outcome: &AcceptOutcome| match outcome {
        AcceptOutcome::Accepted { reference, .. } | AcceptOutcome::AlreadyAccepted { reference, .. } => {
            reference == "BOX-1"
        }
        _ => false,
    };
    assert!(outcomes.iter().all(one), "{outcomes:?}");
    assert_eq!(office.service.called("PUT"), 1, "{:?}", office.service.calls());
    office.service.assert_equal(&office.world).await;
}

/// Whoever asked was stopped past their lease, and then continued: their late word changes nothing, since somebody else is
/// finding out.
#[tokio::test]
async fn a_late_answer_of_whoever_lost_the_lease_is_not_written() {
    for stopped_in_the_call in [false, true] {
        let office = Box_::new(1).await;
        let (ann, offer) = office.offered("Ann", 1).await;
        let (world, db) = (&office.world, office.world.waitlist.db());
        office.service.set(Manner::Unauthorized);
        let accept = Accept { offer: offer.id, person: ann.person, actor: Actor::Person(ann.person) };
        let begun = world.waitlist.begin_accept(world.event, &[accept]).await.unwrap().remove(0);
        let somebody_else = async || {
            world.later(Duration::minutes(1));
            assert_eq!(db.lease_attempts(8, Duration::seconds(30)).await.unwrap().len(), 1);
        };
        let outcome = if stopped_in_the_call {
            office.proxy.freeze();
            let meanwhile = async {
                until("it is called", std::time::Duration::from_secs(10), async || {
                    office.proxy.connections() > 0
                })
                .await;
                somebody_else().await;
                office.proxy.thaw();
            };
            tokio::join!(world.waitlist.finish_accept(begun), meanwhile).0
        } else {
            somebody_else().await;
            world.waitlist.finish_accept(begun).await
        };
        assert_eq!(outcome.unwrap(), AcceptOutcome::BeingConfirmed);
        assert_eq!(world.offer(ann.id).await.unwrap().state, OfferState::Accepting);
        assert_eq!(office.service.calls().len(), usize::from(stopped_in_the_call));
        office.service.set(Manner::Willing);
        office.reconcile().await;
        assert_eq!(world.state(ann.id).await, EntryState::Accepted);
        office.service.assert_equal(world).await;
    }
}

/// Whoever taps again while the service is silent waits a little, and then hears that it is being confirmed; what the
/// first tap comes to meanwhile is everybody's answer.
#[tokio::test]
async fn a_second_tap_waits_for_the_first_ones_outcome() {
    let wanted = [
        (Some(true), OfferState::Accepted, "already_accepted"),
        (Some(false), OfferState::Pending, "accepted"),
        (None, OfferState::Accepting, "being_confirmed"),
    ];
    for (booked, state, outcome) in wanted {
        let office = Box_::new(1).await;
        let (ann, offer) = office.unanswered("Ann", booked != Some(false)).await;
        let world = &office.world;
        let accept = Accept { offer: offer.id, person: ann.person, actor: Actor::Person(ann.person) };
        let begun = world.waitlist.begin_accept(world.event, &[accept]).await.unwrap().remove(0);
        assert_eq!(begun, Begun::Decided(AcceptOutcome::BeingConfirmed));
        let resolved = async {
            let Some(booked) = booked else { return };
            // Whoever waits holds no connection and no lock: staff resolve it.
            let attempt = office.attempt().await;
            let resolution = if booked {
                Resolution::Booked { reference: office.service.reservation(&attempt.key).unwrap().reference }
            } else {
                Resolution::NotBooked
            };
            world
                .waitlist
                .resolve_attempt(world.event, attempt.id, &resolution, world.actor(), &reason())
                .await
                .unwrap();
        };
        let (soon, ()) = tokio::join!(world.waitlist.outcome_soon(offer.id), resolved);
        assert_eq!(soon.unwrap(), state);
        // Whoever taps now is answered by what it came to, and waits no longer than the first while it is not known.
        let third = Together::new(world.waitlist.clone()).accept(world.event, accept).await.unwrap();
        assert_eq!(third.as_str(), outcome);
        // One question, put twice; where nothing was booked, the third tap puts another.
        let put = office.service.called("PUT");
        assert!(put <= 2 + usize::from(booked == Some(false)), "{:?}", office.service.calls());
        office.reconcile().await;
        if booked != Some(true) {
            // What staff said of the service is believed, whatever it says itself.
            office.service.assert_equal(world).await;
        }
    }
}

#[tokio::test]
async fn revoking_leaving_and_declining_are_refused_meanwhile() {
    let office = Box_::new(1).await;
    let (ann, offer) = office.unanswered("Ann", true).await;
    let world = &office.world;
    let revoked = world
        .waitlist
        .revoke(world.event, offer.id, AfterRevoke::SetAside, world.actor(), &reason())
        .await
        .unwrap();
    assert_eq!(revoked, RevokeOutcome::NotPending(OfferState::Accepting));
    let left = world.waitlist.leave(world.event, ann.id, Actor::Person(ann.person)).await.unwrap();
    assert_eq!(left, LeaveOutcome::BeingConfirmed);
    let removed = world.waitlist.remove(world.event, ann.id, world.actor(), &reason()).await.unwrap();
    assert_eq!(removed, LeaveOutcome::BeingConfirmed);
    assert_eq!(world.decline(offer.id, ann.person).await, DeclineOutcome::BeingConfirmed);
    assert_eq!(world.book_as_customer(ann.person).await, BookOutcome::BeingConfirmed(offer.id));
    office.reconcile().await;
    assert_eq!(world.state(ann.id).await, EntryState::Accepted);
    office.service.assert_equal(world).await;
}

#[tokio::test]
async fn cancelling_and_closing_apply_after_the_outcome() {
    for (booked, cancel) in [(true, true), (false, true), (true, false), (false, false)] {
        let office = Box_::new(1).await;
        let (ann, _) = office.unanswered("Ann", booked).await;
        let world = &office.world;
        if cancel {
            world.waitlist.cancel_event(world.event, world.actor(), &reason()).await.unwrap();
        } else {
            world.waitlist.set_list(world.event, ListState::Closed, world.actor(), &reason()).await.unwrap();
        }
        world.settle().await;
        assert_eq!(world.offer(ann.id).await.unwrap().state, OfferState::Accepting);
        office.reconcile().await;
        world.settle().await;
        let wanted = match (booked, cancel) {
            // A booking that was made stands, as every other; the click was in time, so a closed list does not undo it.
            (true, _) | (false, false) => (OfferState::Accepted, EntryState::Accepted),
            (false, true) => (OfferState::Revoked, EntryState::Closed),
        };
        let is = (world.offer(ann.id).await.unwrap().state, world.state(ann.id).await);
        assert_eq!(is, wanted, "booked: {booked}, cancelled: {cancel}");
        office.service.assert_equal(world).await;
    }
}

/// The deadline counts against the click, whenever the service answers.
#[tokio::test]
async fn a_click_in_time_stays_in_time() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 1).await;
    let (ben, late) = office.offered("Ben", 1).await;
    office.world.later(offer.expires_at - office.world.now() - Duration::microseconds(1));
    office.service.set(Manner::DoAndFail);
    assert_eq!(office.world.accept(offer.id, ann.person).await, AcceptOutcome::BeingConfirmed);
    office.service.set(Manner::Willing);
    office.world.later(Duration::microseconds(1));
    assert_eq!(office.world.accept(late.id, ben.person).await, AcceptOutcome::Expired);
    office.reconcile().await;
    assert_eq!(office.world.state(ann.id).await, EntryState::Accepted);
    office.service.assert_equal(&office.world).await;
}

/// Staff say that it was not booked: the offer is pending again with the time it lost, and a late call books nothing.
#[tokio::test]
async fn staff_say_what_came_of_it() {
    let office = Box_::new(1).await;
    let (ann, offer) = office.unanswered("Ann", true).await;
    let world = &office.world;
    world.later(Duration::minutes(20));
    office.service.set(Manner::Fail);
    office.tick().await;
    let attempt = office.attempt().await;
    assert!(attempt.staff_asked_at.is_some(), "staff are asked: {attempt:?}");
    let say = async |resolution| {
        world
            .waitlist
            .resolve_attempt(world.event, attempt.id, &resolution, world.actor(), &reason())
            .await
            .unwrap()
    };
    assert_eq!(say(Resolution::NotBooked).await, ResolveOutcome::Resolved);
    assert_eq!(say(Resolution::NotBooked).await, ResolveOutcome::Already(AttemptOutcome::Failed));
    let is = world.live_offer(ann.id).await;
    assert_eq!(is.expires_at, offer.expires_at + Duration::minutes(20));
    assert_eq!(world.told(ann.person, "extended").await, 1);
    // It had been booked: what staff said is made true, and she takes it again.
    office.service.set(Manner::Willing);
    office.reconcile().await;
    assert!(matches!(world.accept(offer.id, ann.person).await, AcceptOutcome::Accepted { .. }));
    office.service.assert_equal(world).await;
}

#[tokio::test]
async fn staff_say_that_it_was_booked() {
    let office = Box_::new(1).await;
    let (ann, _) = office.unanswered("Ann", true).await;
    let attempt = office.attempt().await;
    let reference = office.service.reservation(&attempt.key).unwrap().reference;
    let world = &office.world;
    let resolution = Resolution::Booked { reference };
    let outcome = world
        .waitlist
        .resolve_attempt(world.event, attempt.id, &resolution, world.actor(), &reason())
        .await
        .unwrap();
    assert_eq!(outcome, ResolveOutcome::Resolved);
    assert_eq!(world.state(ann.id).await, EntryState::Accepted);
    assert_eq!(world.bookings(ann.person).await.len(), 1);
}

/// A cancelled booking is free once the service has taken it back, and offered again exactly once.
#[tokio::test]
async fn a_booking_is_given_back_at_the_service_first() {
    let office = Box_::new(2).await;
    let (ann, offer) = office.offered("Ann", 2).await;
    office.world.accept(offer.id, ann.person).await;
    let ben = office.world.waiting("Ben", 1).await;
    let world = &office.world;
    let bookings = world.bookings(ann.person).await;
    let cancel = async |booking| {
        world
            .waitlist
            .cancel_booking(world.event, booking, Actor::Person(ann.person), &reason())
            .await
            .unwrap()
    };
    office.service.set(Manner::Fail);
    assert_eq!(cancel(bookings[0]).await, CancelOutcome::BeingCancelled);
    assert_eq!(cancel(bookings[0]).await, CancelOutcome::BeingCancelled);
    world.settle().await;
    assert_eq!(world.state(ben.id).await, EntryState::Waiting, "the place is not free yet");
    assert_eq!(world.bookings(ann.person).await.len(), 2);
    office.service.set(Manner::Willing);
    office.reconcile().await;
    world.settle().await;
    assert_eq!(world.bookings(ann.person).await.len(), 1);
    assert_eq!(world.told(ann.person, "booking_cancelled").await, 1);
    let offer = world.live_offer(ben.id).await;
    assert!(matches!(world.accept(offer.id, ben.person).await, AcceptOutcome::Accepted { .. }));
    office.service.assert_equal(world).await;
    assert_eq!(cancel(bookings[1]).await, CancelOutcome::Cancelled { retired: false });
    office.service.assert_equal(world).await;
}

#[tokio::test]
async fn what_is_free_for_everybody_is_booked_at_the_service() {
    let office = Box_::new(1).await;
    let zoe = office.world.person("Zoe").await;
    assert_eq!(office.world.book_as_customer(zoe).await, BookOutcome::BookedElsewhere);
    let (ann, offer) = office.offered("Ann", 1).await;
    office.world.accept(offer.id, ann.person).await;
    let world = &office.world;
    let here = world.waitlist.set_booking(world.event, &BookAt::Here, world.actor()).await.unwrap();
    assert_eq!(here, BookAtOutcome::HasBookings(1), "only the service can give it back");
    // Nor does it move to another service; and that one is never shown the key of this one.
    let elsewhere = |key: Option<&str>| BookAt::Service {
        url: ServiceUrl::parse("https://other.example/").unwrap(),
        key: key.map(str::to_owned),
    };
    let moved =
        world.waitlist.set_booking(world.event, &elsewhere(Some("new")), world.actor()).await.unwrap();
    assert_eq!(moved, BookAtOutcome::HasBookings(1));
    world.cancel_booking_of(ann.person).await;
    let moved = world.waitlist.set_booking(world.event, &elsewhere(None), world.actor()).await.unwrap();
    assert_eq!(moved, BookAtOutcome::KeyMissing);
    let here = world.waitlist.set_booking(world.event, &BookAt::Here, world.actor()).await.unwrap();
    assert_eq!(here, BookAtOutcome::Saved);
    assert!(matches!(world.book_as_customer(zoe).await, BookOutcome::Booked { .. }));
}

#[tokio::test]
async fn nobody_moves_an_event_away_while_something_is_unanswered() {
    let office = Box_::new(1).await;
    office.unanswered("Ann", true).await;
    let world = &office.world;
    let here = world.waitlist.set_booking(world.event, &BookAt::Here, world.actor()).await.unwrap();
    assert_eq!(here, BookAtOutcome::Unresolved(1));
    assert_eq!(office.book_at(None).await, BookAtOutcome::Saved, "the same address");
    let sealed: Vec<u8> = sqlx::query_scalar("SELECT sealed_key FROM booking_services")
        .fetch_one(world.database.sql())
        .await
        .unwrap();
    assert!(!sealed.windows(4).any(|bytes| bytes == b"open"), "the key is not to be read");
    office.reconcile().await;
    office.service.assert_equal(world).await;
}
