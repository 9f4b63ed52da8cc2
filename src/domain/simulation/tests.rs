//! Pasts of a few people and places, replayed by hand.

use chrono::Duration;
use uuid::Uuid;

use super::*;
use crate::domain::audit::{Act, Actor, Record, StoredRecord, Subject};
use crate::domain::entry::OrderKey;
use crate::domain::ids::{EventId, PersonId};
use crate::domain::policy::{After, Draws, Fit, Mode, Ordering};
use crate::domain::reason::Reason;

fn at(minute: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::minutes(minute)
}

fn entry(n: u128) -> EntryId {
    EntryId(Uuid::from_u128(n))
}

fn place(n: u128) -> PlaceId {
    PlaceId(Uuid::from_u128(1_000_000 + n))
}

/// Person `n` has entry `n`.
fn row(n: u128, party: i32) -> Entry {
    Entry {
        event: EventId(Uuid::nil()),
        id: entry(n),
        person: PersonId(Uuid::from_u128(n)),
        state: EntryState::Waiting,
        arrival: i64::try_from(n).expect("a number"),
        key: OrderKey { band: 0, round: 0, rank: 0 },
        line_rank: None,
        party,
        wants: 0,
        kinds: crate::domain::kinds::Kinds::ALL,
        joined_at: at(0),
        confirmed_at: None,
        vouched: true,
        lapses_at: None,
        paused: None,
        paused_until: None,
        contact_problem: false,
        offer_anyway: false,
        set_aside: false,
        until_passed: false,
        silent_offers: 0,
        declined_at: None,
        eligible: true,
        state_since: at(0),
    }
}

/// People of these parties join in minute 0; nothing else happens until the end of a day, and nobody answered anything.
fn past(parties: &[i32]) -> Past {
    let numbered = || parties.iter().zip(1_u128..);
    Past {
        entries: numbered().map(|(party, n)| row(n, *party)).collect(),
        places: (1..=9)
            .map(|n| {
                let number = i32::try_from(n).expect("a number");
                (number, OpenPlace { id: place(n), opened_at: at(0), kind: 0 })
            })
            .collect(),
        happenings: numbered()
            .map(|(_, n)| Happening { at: at(0), what: What::Joined { entry: entry(n), confirmed: true } })
            .collect(),
        offers: vec![],
        bookings: vec![],
        messages: 0,
        draws: vec![],
        state: EventState::Published,
        list: ListState::Open,
        starts_at: None,
        until: at(1_440),
    }
}

impl Past {
    fn then(mut self, minute: i64, what: What) -> Self {
        self.happenings.push(Happening { at: at(minute), what });
        self
    }

    /// Person `n` was really offered places at some time, and so it ended, so many minutes later.
    fn answered(mut self, n: u128, kind: OfferKind, state: OfferState, after: i64) -> Self {
        let (made_at, ended_at) = (at(5), Some(at(5 + after)));
        self.offers.push(PastOffer {
            entry: entry(n),
            kind,
            state,
            made_at,
            ended_at,
            left: false,
            by_rule: true,
        });
        self
    }
}

fn an_hour() -> Policy {
    Policy { window: Some(Duration::minutes(60)), ..Policy::first() }
}

/// To whom, and in which minute, a rule would have made offers.
fn made(simulation: &Simulation) -> Vec<(u128, i64)> {
    let minute = |instant: DateTime<Utc>| (instant - at(0)).num_minutes();
    simulation.made.iter().map(|made| (made.entry.0.as_u128(), minute(made.at))).collect()
}

fn filled(simulation: &Simulation) -> Vec<i64> {
    simulation.replayed.filled.iter().map(|instant| (*instant - at(0)).num_minutes()).collect()
}

const HOLD: OfferKind = OfferKind::Hold;
const CALL: OfferKind = OfferKind::Call;

/// Ada (1) lets it pass, Ben (2) accepts after 20 minutes, Cy (3) was never asked.
fn three() -> Past {
    past(&[1, 1, 1]).then(10, What::Opened(place(1))).answered(1, HOLD, OfferState::Expired, 60).answered(
        2,
        HOLD,
        OfferState::Accepted,
        20,
    )
}

#[test]
fn whoever_was_really_offered_places_answers_as_they_did() {
    let simulation = simulate(&three(), &an_hour()).expect("a past");
    assert_eq!(made(&simulation), [(1, 10), (2, 70)]);
    assert_eq!(filled(&simulation), [90]);
    let figures = Figures {
        offers: 2,
        people: 2,
        accepted: 1,
        unanswered: 1,
        messages: 4,
        filled: vec![at(90)],
        waits: vec![Duration::minutes(80)],
        ..Figures::default()
    };
    assert_eq!(simulation.replayed, figures);
    assert_eq!((simulation.drawn, simulation.came_back), (0, vec![at(10)]));
    let ended = Ended { accepted: 1, declined: 0, unanswered: 1 };
    assert_eq!(simulation.base.drawn_for(HOLD), (HOLD, ended));
}

#[test]
fn an_answer_that_took_longer_than_the_window_comes_too_late() {
    let window = Some(Duration::minutes(15));
    let leave = Policy { window, after_expiry: After::Leave, ..an_hour() };
    let simulation = simulate(&three(), &leave).expect("a past");
    // Cy is drawn: one of 20 minutes or none, and too late with either.
    assert_eq!(made(&simulation), [(1, 10), (2, 25), (3, 40)]);
    assert_eq!((simulation.replayed.unanswered, simulation.drawn), (3, 1));
    // Who goes to the end is asked again, and after two offers without an answer no more.
    let back = Policy { after_expiry: After::Back, ..leave };
    let simulation = simulate(&three(), &back).expect("a past");
    assert_eq!(made(&simulation), [(1, 10), (2, 25), (3, 40), (1, 55), (2, 70), (3, 85)]);
}

#[test]
fn a_large_party_at_the_head_is_waited_for_or_passed_over() {
    let past = past(&[2, 1])
        .then(10, What::Opened(place(1)))
        .then(100, What::Opened(place(2)))
        .answered(1, HOLD, OfferState::Accepted, 1)
        .answered(2, HOLD, OfferState::Accepted, 1);
    let strict = simulate(&past, &an_hour()).expect("a past");
    assert_eq!((made(&strict), filled(&strict)), (vec![(1, 100)], vec![101, 101]));
    let waits: Vec<i64> = strict.replayed.waits.iter().map(Duration::num_minutes).collect();
    assert_eq!(waits, [1, 91]);
    let fill = simulate(&past, &Policy { fit: Fit::Fill, ..an_hour() }).expect("a past");
    assert_eq!((made(&fill), filled(&fill)), (vec![(2, 10)], vec![11]));
}

#[test]
fn a_batch_waits_for_answers_and_a_passive_list_for_ever() {
    let open = (1..=3).fold(past(&[1, 1, 1]), |past, n| past.then(10, What::Opened(place(n))));
    let past = (1..=3).fold(open, |past, n| past.answered(n, HOLD, OfferState::Accepted, 7));
    let all = simulate(&past, &an_hour()).expect("a past");
    assert_eq!(made(&all), [(1, 10), (2, 10), (3, 10)]);
    let batch = simulate(&past, &Policy { batch_size: 1, ..an_hour() }).expect("a past");
    assert_eq!(made(&batch), [(1, 10), (2, 17), (3, 24)]);
    let passive = simulate(&past, &Policy::first()).expect("a past");
    assert_eq!(passive.replayed, Figures::default());
    assert_eq!(passive.really.accepted, 3);
}

#[test]
fn the_first_to_accept_a_call_has_the_place_and_who_came_late_tries_again() {
    let past = past(&[1, 1, 1])
        .then(10, What::Opened(place(1)))
        .then(100, What::Opened(place(2)))
        .answered(1, CALL, OfferState::Accepted, 30)
        .answered(2, CALL, OfferState::Accepted, 20)
        .answered(3, CALL, OfferState::Expired, 600);
    let policy = Policy { mode: Mode::NotifyAll, window: Some(Duration::hours(10)), ..an_hour() };
    let simulation = simulate(&past, &policy).expect("a past");
    assert_eq!(made(&simulation), [(1, 10), (2, 10), (3, 10)]);
    // Ben is faster; when another place comes back, Ada and Cy are told again, and Ada has it half an hour later.
    assert_eq!(filled(&simulation), [30, 130]);
    assert_eq!(simulation.replayed.messages, 3 + 1 + 2 + 1);
    assert_eq!(simulation.replayed.unanswered, 1, "Cy, whose call ends without anything held against it");
}

#[test]
fn past_the_cutoff_everybody_is_called_until_the_start() {
    let mut past = past(&[1, 1]).then(10, What::Opened(place(1))).then(200, What::Opened(place(2)));
    past = past.answered(1, HOLD, OfferState::Expired, 60).answered(2, HOLD, OfferState::Accepted, 20);
    past.starts_at = Some(at(600));
    let simulation = simulate(&past, &Policy { cutoff: Some(at(60)), ..an_hour() }).expect("a past");
    // Ada's offer keeps its place until its deadline; Ben, and Ada behind him, are called from then on.
    assert_eq!(made(&simulation)[..3], [(1, 10), (2, 70), (1, 70)]);
    assert!(simulation.made.iter().skip(1).all(|made| made.kind == CALL));
    assert_eq!(simulation.until, at(600));
}

#[test]
fn who_left_paused_or_booked_past_the_list_is_not_asked() {
    let past = past(&[1, 1, 1, 1])
        .then(1, What::Gone { entry: entry(1), to: EntryState::Withdrawn })
        .then(2, What::Paused { entry: entry(2), by: PausedBy::Person })
        .then(3, What::HasBooked(entry(3)))
        .then(10, What::Opened(place(1)))
        .then(200, What::Resumed { entry: entry(2), by_hand: true })
        .then(210, What::Opened(place(2)))
        .answered(4, HOLD, OfferState::Accepted, 1)
        .answered(2, HOLD, OfferState::Declined, 1);
    let simulation = simulate(&past, &an_hour()).expect("a past");
    assert_eq!(made(&simulation), [(4, 10), (2, 210)]);
    assert_eq!(simulation.replayed.declined, 1);
}

#[test]
fn a_cancelled_booking_is_cancelled_again_whoever_has_the_place() {
    let past = past(&[1, 1])
        .then(10, What::Opened(place(1)))
        .then(100, What::Opened(place(1)))
        .answered(1, HOLD, OfferState::Accepted, 1)
        .answered(2, HOLD, OfferState::Accepted, 1);
    let simulation = simulate(&past, &an_hour()).expect("a past");
    assert_eq!(filled(&simulation), [11, 101]);
    assert_eq!(simulation.came_back, [at(10), at(100)]);
    // A place that was booked past the list before it came back is none that the list could have had.
    let past = past.then(101, What::Opened(place(2))).then(102, What::BookedPast(place(2)));
    assert_eq!(came_back(&past), [at(10), at(100)]);
}

#[test]
fn places_that_leave_are_not_offered_and_nobody_is_evicted() {
    let past = past(&[1, 1])
        .then(10, What::Opened(place(1)))
        .then(15, What::Retired { place: place(1), cancelled: false })
        .then(30, What::Opened(place(2)))
        .then(31, What::Retired { place: place(2), cancelled: false })
        .answered(1, HOLD, OfferState::Expired, 60)
        .answered(2, HOLD, OfferState::Accepted, 20);
    let simulation = simulate(&past, &an_hour()).expect("a past");
    // Ada's place leaves when her offer ends; Ben keeps what he is offered.
    assert_eq!((made(&simulation), filled(&simulation)), (vec![(1, 10), (2, 30)], vec![50]));
}

#[test]
fn closing_the_list_takes_offers_back_and_their_people_keep_their_rank() {
    let past = three().then(20, What::List(ListState::Closed)).then(200, What::List(ListState::Frozen));
    let simulation = simulate(&past, &an_hour()).expect("a past");
    assert_eq!(made(&simulation)[..2], [(1, 10), (1, 200)]);
}

#[test]
fn a_lottery_draws_among_those_who_waited_then_and_always_the_same() {
    let mut past = (1..=3).fold(past(&[1; 40]), |past, n| past.then(10, What::Opened(place(n))));
    past = past.answered(1, HOLD, OfferState::Accepted, 1);
    past.happenings.push(Happening { at: at(11), what: What::Joined { entry: entry(41), confirmed: true } });
    past.entries.push(row(41, 1));
    let lottery = Policy { ordering: Ordering::Lottery, ..an_hour() };
    let simulation = simulate(&past, &lottery).expect("a past");
    assert_eq!(simulation, simulate(&past, &lottery).expect("a past"));
    assert_eq!((simulation.made.len(), simulation.draws), (3, 1));
    assert_ne!(made(&simulation), [(1, 10), (2, 10), (3, 10)], "not the order of arrival");
    // With a draw on record its secret is used; another secret is another order.
    past.draws.push(PastDraw { at: at(10), secret: [7; 32], beacon: None });
    let again = simulate(&past, &lottery).expect("a past");
    assert_eq!(again.draws, 0);
    assert_ne!(made(&again), made(&simulation));
    let later = Policy { draws: Draws::At(at(500)), ..lottery };
    assert!(made(&simulate(&past, &later).expect("a past")).iter().all(|(_, minute)| *minute >= 500));
}

/// Whoever declined is not in question for the sake of a place that they do not want: whoever was not drawn yet is, then.
#[test]
fn who_declined_is_in_question_for_what_they_want() {
    let mut past = past(&[2, 1]);
    past.entries[0].kinds = [1].into_iter().collect();
    for n in [0, 1] {
        past.places[n].1.kind = 1;
    }
    past.happenings.truncate(1);
    let past = past
        .then(5, What::Opened(place(1)))
        .then(5, What::Opened(place(2)))
        .then(10, What::BookedPast(place(2)))
        .then(20, What::Opened(place(3)))
        .then(30, What::Joined { entry: entry(2), confirmed: true })
        .answered(1, OfferKind::Hold, OfferState::Declined, 3)
        .answered(2, OfferKind::Hold, OfferState::Accepted, 1);
    let lottery = Policy { ordering: Ordering::Lottery, after_decline: After::Back, ..an_hour() };
    let simulation = simulate(&past, &lottery).expect("a past");
    assert_eq!(made(&simulation), [(1, 5), (2, 30)]);
}

#[test]
fn groups_go_first_and_only_under_a_rule_that_has_them() {
    let past = three().then(5, What::Group { entry: entry(3), band: -100 });
    let mut past = past.answered(3, HOLD, OfferState::Accepted, 1);
    past.happenings.sort_by_key(|happening| happening.at);
    let priority = Policy { ordering: Ordering::Priority, ..an_hour() };
    assert_eq!(made(&simulate(&past, &priority).expect("a past")), [(3, 10)]);
    assert_eq!(made(&simulate(&past, &an_hour()).expect("a past"))[0], (1, 10));
}

#[test]
fn what_is_not_on_record_is_drawn_at_the_rate_that_is() {
    // 12 of 20 accepted, 4 declined, 4 said nothing.
    let mut past = past(&[1; 2_020]);
    for n in 1..=20 {
        let state = match n {
            1..=12 => OfferState::Accepted,
            13..=16 => OfferState::Declined,
            _ => OfferState::Expired,
        };
        past = past.answered(n, HOLD, state, 10);
        past = past.then(1, What::Gone { entry: entry(n), to: EntryState::Withdrawn });
    }
    past.places = (1_i32..=2_000)
        .map(|n| (n, OpenPlace { id: place(n.unsigned_abs().into()), opened_at: at(0), kind: 0 }))
        .collect();
    for n in 1..=2_000 {
        past = past.then(2, What::Opened(place(n)));
    }
    past.until = at(40);
    let simulation = simulate(&past, &an_hour()).expect("a past");
    assert_eq!((simulation.replayed.offers, simulation.drawn), (2_000, 2_000));
    assert!((1_110..1_290).contains(&simulation.replayed.accepted), "{}", simulation.replayed.accepted);
    assert!((330..470).contains(&simulation.replayed.declined), "{}", simulation.replayed.declined);
}

#[test]
fn a_record_that_is_too_thin_is_not_guessed_from() {
    let nothing = past(&[1, 1]);
    assert_eq!(simulate(&nothing, &an_hour()), Err(WhyNot::NothingCameBack));
    let nobody = nothing.then(10, What::Opened(place(1)));
    assert_eq!(simulate(&nobody, &an_hour()), Err(WhyNot::NobodyAnswered));
    let pending = nobody.answered(1, HOLD, OfferState::Revoked, 10);
    assert_eq!(simulate(&pending, &an_hour()), Err(WhyNot::NobodyAnswered));
}

/// Somebody left by the rule that was in force, joined again, and under this rule never left.
#[test]
fn whoever_is_still_on_the_list_under_this_rule_does_not_join_again() {
    let mut past = three().answered(1, HOLD, OfferState::Accepted, 5);
    past.entries.push(Entry { person: PersonId(Uuid::from_u128(1)), ..row(4, 1) });
    past = past.then(80, What::Joined { entry: entry(4), confirmed: true }).then(100, What::Opened(place(2)));
    let keep = Policy { after_expiry: After::Keep, ..an_hour() };
    let simulation = simulate(&past, &keep).expect("a past");
    assert!(simulation.made.iter().all(|made| made.entry != entry(4)), "{:?}", made(&simulation));
    let leave = Policy { after_expiry: After::Leave, ..an_hour() };
    let simulation = simulate(&past, &leave).expect("a past");
    assert!(!simulation.made.iter().skip(1).any(|made| made.entry == entry(1)), "{:?}", made(&simulation));
}

fn stored(
    act: Act,
    subject: Subject,
    reason: Reason,
    states: (Option<&'static str>, &'static str),
) -> StoredRecord {
    let record = Record::new(at(1), Actor::System, act, subject, reason).states(states.0, Some(states.1));
    StoredRecord::from_record(1, &record, None)
}

#[test]
fn records_tell_what_was_not_the_rules_doing() {
    let (entry, place) = (entry(1), place(1));
    for (record, what) in [
        (stored(Act::Paused, Subject::Entry(entry), Reason::Silent, (Some("waiting"), "waiting")), None),
        (
            stored(Act::Paused, Subject::Entry(entry), Reason::UntilPassed, (Some("waiting"), "waiting")),
            Some(What::UntilPassed(entry)),
        ),
        (
            stored(Act::Revoked, Subject::Entry(entry), Reason::Misuse, (Some("offered"), "removed")),
            Some(What::Gone { entry, to: EntryState::Removed }),
        ),
        (stored(Act::Revoked, Subject::Entry(entry), Reason::Misuse, (Some("offered"), "waiting")), None),
        (stored(Act::Released, Subject::Place(place), Reason::WindowEnded, (Some("held"), "open")), None),
        (
            stored(Act::Released, Subject::Place(place), Reason::Cancelled, (Some("booked"), "open")),
            Some(What::Opened(place)),
        ),
        (stored(Act::Booked, Subject::Place(place), Reason::Accepted, (Some("open"), "booked")), None),
        (
            stored(Act::Booked, Subject::Place(place), Reason::BookedDirectly, (Some("open"), "booked")),
            Some(What::BookedPast(place)),
        ),
        (
            stored(Act::Retired, Subject::Place(place), Reason::Other, (Some("held"), "held")),
            Some(What::Retired { place, cancelled: false }),
        ),
        (
            stored(Act::Retired, Subject::Place(place), Reason::Cancelled, (Some("booked"), "retired")),
            Some(What::Retired { place, cancelled: true }),
        ),
        (
            stored(
                Act::Closed,
                Subject::Event(EventId(Uuid::nil())),
                Reason::Other,
                (Some("open"), "closed"),
            ),
            Some(What::List(ListState::Closed)),
        ),
        (
            stored(
                Act::Closed,
                Subject::Event(EventId(Uuid::nil())),
                Reason::Other,
                (Some("published"), "over"),
            ),
            Some(What::Event(EventState::Over)),
        ),
    ] {
        assert_eq!(record::what(&record), what, "{record:?}");
    }
}

/// Five thousand people who are called again for each of a hundred places: a page does not wait for that.
#[test]
fn what_would_take_too_long_is_not_replayed() {
    let mut past = past(&vec![1; 5_000]).answered(1, CALL, OfferState::Expired, 1).answered(
        2,
        HOLD,
        OfferState::Expired,
        1,
    );
    past.places = (1_i32..=100)
        .map(|n| (n, OpenPlace { id: place(n.unsigned_abs().into()), opened_at: at(0), kind: 0 }))
        .collect();
    for n in 1..=100 {
        past = past.then(100 * i64::try_from(n).expect("a minute"), What::Opened(place(n)));
    }
    past.until = at(20_000);
    let calls = Policy { mode: Mode::NotifyAll, ..an_hour() };
    assert_eq!(simulate(&past, &calls), Err(WhyNot::TooMuch));
    assert!(simulate(&past, &an_hour()).is_ok(), "holds go to one at a time");
}
