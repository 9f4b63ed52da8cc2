//! What falls between two steps: work that is too large for one lock, an act that was interrupted, a form that comes
//! twice with something else in it.

use chrono::Duration;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::{Act, Actor, Record, Subject};
use fairlist::domain::entry::{EntryState, PausedBy};
use fairlist::domain::event::EventState;
use fairlist::domain::ids::PersonId;
use fairlist::domain::policy::Policy;
use fairlist::domain::reason::{Reason, StaffReason};
use fairlist::waitlist::answer::AcceptOutcome;
use fairlist::waitlist::bookings::{Book, BookOutcome};
use fairlist::waitlist::events::EventOutcome;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::leave::PauseOutcome;
use fairlist::waitlist::pass::CHUNK;

use crate::harness::world::{World, email, name, reason, two_hours};

/// So many people more than one lock sees to.
async fn a_crowd(world: &World) {
    let guests: Vec<Join> = (0..=CHUNK)
        .map(|n| Join {
            wants: Wants::default(),
            name: name(&format!("Guest {n}")),
            email: email(&format!("guest{n}@example.org")),
            party: 1,
            as_whom: JoinAs::Vouched(world.actor()),
        })
        .collect();
    world.waitlist.join(world.event, &guests).await.expect("joining");
}

async fn live(world: &World) -> i64 {
    world.waitlist.db().entry_counts(world.event).await.expect("counts").live()
}

/// What a program that was killed leaves behind: the event is cancelled, and nobody has been seen to.
async fn cancelled_and_killed(world: &World) {
    let (actor, event) = (world.actor(), world.event);
    let cancelled = world.waitlist.db().with_event::<_, fairlist::db::DbError>(event, async |event| {
        event.set_event_state(EventState::Cancelled).await?;
        let subject = Subject::Event(event.id());
        event.record(
            Record::new(event.now(), actor, Act::Closed, subject, Reason::EventCancelled)
                .states(Some(EventState::Published.as_str()), Some(EventState::Cancelled.as_str())),
        );
        event.want_pass();
        Ok(())
    });
    cancelled.await.expect("cancelled");
}

#[tokio::test]
async fn when_an_event_is_over_everybody_is_let_go_however_many_wait() {
    let world = World::with(Policy::first(), 0).await;
    a_crowd(&world).await;
    world.later(Duration::days(29));
    world.settle().await;
    assert_eq!(world.waitlist.db().event(world.event).await.expect("the event").state, EventState::Over);
    assert_eq!(live(&world).await, 0, "nobody waits for what is over");
}

#[tokio::test]
async fn a_cancellation_that_was_interrupted_is_carried_on_and_no_offer_is_good_meanwhile() {
    let world = World::with(two_hours(), 1).await;
    let entries = world.all_waiting(&["Ann", "Ben"]).await;
    world.settle().await;
    let offer = world.live_offer(entries[0].id).await;
    cancelled_and_killed(&world).await;

    assert_eq!(world.accept(offer.id, offer.person).await, AcceptOutcome::Revoked);
    assert!(world.bookings(offer.person).await.is_empty());

    world.settle().await;
    for entry in &entries {
        assert_eq!(world.state(entry.id).await, EntryState::Closed);
        assert_eq!(world.told(entry.person, "event_cancelled").await, 1);
    }
}

#[tokio::test]
async fn a_restoration_that_was_interrupted_can_be_carried_on_after_somebody_joined_anew() {
    let world = World::with(two_hours(), 0).await;
    let before = world.waiting("Ann", 1).await;
    let ben = world.waiting("Ben", 1).await;
    let reason = reason();
    world.waitlist.cancel_event(world.event, world.actor(), &reason).await.expect("cancelled");
    world.waitlist.restore_event(world.event, world.actor(), &reason).await.expect("restored");
    // Ann leaves, and what cancelling closed of hers is as it was when the program was killed.
    world.waitlist.cancel_event(world.event, world.actor(), &reason).await.expect("cancelled");
    let (actor, event) = (world.actor(), world.event);
    let published = world.waitlist.db().with_event::<_, fairlist::db::DbError>(event, async |event| {
        event.set_event_state(EventState::Published).await?;
        let subject = Subject::Event(event.id());
        event.record(
            Record::new(event.now(), actor, Act::Reopened, subject, Reason::EventRestored)
                .states(Some(EventState::Cancelled.as_str()), Some(EventState::Published.as_str())),
        );
        Ok(())
    });
    published.await.expect("published");
    let again = world.waiting("Ann", 1).await;

    let restored = world.waitlist.restore_event(world.event, world.actor(), &reason).await;
    assert_eq!(restored.expect("restored"), EventOutcome::Done { revoked: 0, entries: 1 });
    assert_eq!(world.state(ben.id).await, EntryState::Waiting);
    assert_eq!(world.state(again.id).await, EntryState::Waiting);
    assert_eq!(world.state(before.id).await, EntryState::Closed, "the newer entry is kept");

    // Cancelled once more, both of hers are closed: only the newer comes back.
    world.waitlist.cancel_event(world.event, world.actor(), &reason).await.expect("cancelled");
    let restored = world.waitlist.restore_event(world.event, world.actor(), &reason).await;
    assert_eq!(restored.expect("restored"), EventOutcome::Done { revoked: 0, entries: 2 });
    assert_eq!(world.state(again.id).await, EntryState::Waiting);
    assert_eq!(world.state(before.id).await, EntryState::Closed);
}

#[tokio::test]
async fn a_list_that_is_longer_than_its_limit_takes_nobody() {
    let world = World::with(two_hours(), 0).await;
    world.all_waiting(&["Ann", "Ben", "Cleo"]).await;
    world.rule(|rule| rule.list_cap = Some(2)).await;
    let dora = world.person("Dora").await;
    let join = Join {
        wants: Wants::default(),
        name: name("Dora"),
        email: email("dora@example.org"),
        party: 1,
        as_whom: JoinAs::SignedIn(dora),
    };
    let outcome = world.waitlist.join(world.event, &[join]).await.expect("an answer");
    assert_eq!(outcome, [JoinOutcome::ListFull]);
}

#[tokio::test]
async fn a_form_that_comes_again_for_somebody_else_is_another_booking() {
    let world = World::with(Policy::first(), 3).await;
    let book = |person: PersonId, once: uuid::Uuid| Book {
        wants: Wants::default(),
        person,
        party: 1,
        actor: world.actor(),
        reason: reason(),
        override_reservation: false,
        once,
    };
    let (ann, ben) = (world.person("Ann").await, world.person("Ben").await);
    let once = fairlist::clock::Entropy.id();
    let first = world.waitlist.book(world.event, &book(ann, once)).await.expect("booked");
    let second = world.waitlist.book(world.event, &book(ben, once)).await.expect("booked");
    let (BookOutcome::Booked { reference: hers, .. }, BookOutcome::Booked { reference: his, .. }) =
        (&first, &second)
    else {
        panic!("{first:?} {second:?}")
    };
    assert_ne!(hers, his);
    assert_eq!((world.bookings(ann).await.len(), world.bookings(ben).await.len()), (1, 1));
    assert_eq!(world.told(ben, "accepted").await, 1, "and he is told");
    assert_eq!(world.waitlist.book(world.event, &book(ann, once)).await.expect("booked"), first, "once each");
    assert_eq!(world.bookings(ann).await.len(), 1);
}

#[tokio::test]
async fn what_staff_paused_in_this_very_moment_its_person_neither_resumes_nor_takes_over() {
    let world = World::with(two_hours(), 0).await;
    let entry = world.waiting("Ann", 1).await;
    let (ann, reason) = (Actor::Person(entry.person), reason());
    let by = PausedBy::Staff;
    let paused = world.waitlist.pause(world.event, entry.id, by, None, world.actor(), &reason).await;
    assert_eq!(paused.expect("paused"), PauseOutcome::Done);

    let taken = world.waitlist.pause(world.event, entry.id, PausedBy::Person, None, ann, &reason).await;
    assert_eq!(taken.expect("an answer"), PauseOutcome::PausedByStaff);
    let resumed = world.waitlist.resume(world.event, entry.id, ann, &reason).await;
    assert_eq!(resumed.expect("an answer"), PauseOutcome::PausedByStaff);
    assert_eq!(world.entry(entry.id).await.paused, Some(PausedBy::Staff));
}

#[tokio::test]
async fn staff_who_book_for_somebody_with_an_offer_accept_it_and_their_reason_is_kept() {
    let world = World::with(two_hours(), 1).await;
    let entry = world.waiting("Ann", 1).await;
    world.settle().await;
    let offer = world.live_offer(entry.id).await;
    let note = Some("Rang from the station".to_owned());
    let book = Book {
        wants: Wants::default(),
        person: entry.person,
        party: 1,
        actor: world.actor(),
        reason: StaffReason { reason: Reason::Unreachable, note: note.clone() },
        override_reservation: false,
        once: fairlist::clock::Entropy.id(),
    };
    let booked = world.waitlist.book(world.event, &book).await.expect("an answer");
    assert!(matches!(booked, BookOutcome::Booked { party: 1, .. }), "{booked:?}");
    // The form comes again, or its program lost the answer: what it did is not done a second time on free places.
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.waitlist.book(world.event, &book).await.expect("an answer"), booked);
    assert_eq!(
        (world.bookings(entry.person).await.len(), world.told(entry.person, "accepted").await),
        (1, 1)
    );
    let steps = world.waitlist.db().history_of(world.event, offer.id.0, 10).await.expect("the history");
    let why = steps.iter().find(|step| step.act == Some(Act::AnswerRecorded)).expect("why");
    assert_eq!((why.reason, &why.note), (Some(Reason::Unreachable), &note));
}
