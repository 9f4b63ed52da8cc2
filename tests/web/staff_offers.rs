//! What staff do to offers and places: taken back, given again, moved, answered by telephone, released; and what the
//! second of two is told.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::event::ListState;
use fairlist::domain::offer::{Offer, OfferState};
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::waitlist::staff_offers::AfterRevoke;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::Visitor;
use crate::harness::world::{email, reason, two_hours};

const GOODWILL: (&str, &str) = ("reason", "goodwill");

/// One place, offered to the first; the others wait.
async fn one_offer(who: &[&str]) -> (Desk, Vec<Entry>, Offer) {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(who).await;
    desk.world.settle().await;
    let offer = desk.world.live_offer(entries[0].id).await;
    (desk, entries, offer)
}

#[tokio::test]
async fn an_offer_taken_back_leaves_its_entry_where_staff_say_and_the_banner_says_what_comes_next() {
    for (after, state, set_aside, said) in [
        ("set_aside", EntryState::Waiting, true, "their entry is set aside until staff decide"),
        ("at_its_rank", EntryState::Waiting, false, "their entry is back at its rank"),
        ("to_the_end", EntryState::Waiting, false, "their entry is at the end of the line"),
        ("off_the_list", EntryState::Removed, false, "their entry is off the list"),
    ] {
        let (desk, entries, offer) = one_offer(&["Otto", "Nina"]).await;
        let mut agent = desk.at_work("Agnes", Role::Agent).await;
        let page = agent.get(&desk.path(&format!("/offers/{}/revoke", offer.id))).await;
        says(&page, "Otto loses 1 place, which they could accept until");
        assert_eq!(
            page.attribute("input[name=after][checked]", "value").as_deref(),
            Some("set_aside"),
            "what is asked first costs nobody anything"
        );
        let fields = [("after", after), ("reason", "other"), ("note", "Sold twice at the door")];
        let page = agent.submit(&desk.path(&format!("/offers/{}/revoke", offer.id)), &fields).await;
        says(&page, &format!("Taken back from Otto: {said}."));
        let next = if after == "at_its_rank" { "Otto" } else { "Nina" };
        says(&page, &format!("{next} is next and is being offered 1 place."));
        says(&page, "This offer was taken back");
        says(&page, "Sold twice at the door");
        let entry = desk.world.entry(entries[0].id).await;
        assert_eq!((entry.state, entry.set_aside), (state, set_aside), "{after}");
    }
}

#[tokio::test]
async fn taking_back_needs_to_know_what_becomes_of_the_entry_and_keeps_what_was_typed() {
    let (desk, _, offer) = one_offer(&["Otto"]).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path(&format!("/offers/{}/revoke", offer.id));
    agent.get(&path).await;
    let answer = agent.post(&path, &[("after", "nowhere"), ("reason", "misuse"), ("note", "twice")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Choose what becomes of the entry.");
    assert_eq!(answer.attribute("input[name=reason][checked]", "value").as_deref(), Some("misuse"));
    assert_eq!(answer.text("textarea[name=note]"), "twice");
}

#[tokio::test]
async fn the_second_of_two_who_take_an_offer_back_is_told_who_was_first_and_nothing_happens_twice() {
    let (desk, entries, offer) = one_offer(&["Otto", "Nina", "Paul"]).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut boris = desk.at_work("Boris", Role::Manager).await;
    let path = desk.path(&format!("/offers/{}/revoke", offer.id));
    // Both look at the page before either acts.
    agnes.get(&path).await;
    boris.get(&path).await;
    let fields = [("after", "to_the_end"), GOODWILL];
    agnes.submit(&path, &fields).await;
    desk.world.settle().await;
    desk.world.later(Duration::minutes(2));
    let told = boris.submit(&path, &fields).await;
    says(&told, "Agnes took this offer back 2 min ago (Mon 1 Mar 2027, 10:00 (CET, UTC+01:00)).");
    says(&told, "Nothing was done twice.");
    let nina = desk.world.live_offer(entries[1].id).await;
    assert_eq!(nina.state, OfferState::Pending, "what went to the next in line stays theirs");
    assert_eq!(desk.world.offer(entries[2].id).await, None);
    let opened_late = boris.open(&path).await;
    says(&opened_late, "Agnes took this offer back");
}

#[tokio::test]
async fn two_staff_release_the_same_place_and_one_offer_goes_out() {
    let desk = Desk::with(two_hours(), 1).await;
    desk.world.booked("Bella", 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    let booking = desk.world.bookings(desk.world.person("Bella").await).await[0];
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut boris = desk.at_work("Boris", Role::Agent).await;
    let list = agnes.get(&desk.path("/release")).await;
    says(&list, "Whatever you release is offered to the line at once: Otto is next.");
    says(&list, "Bella");
    let path = desk.path(&format!("/release/{booking}"));
    says(&agnes.get(&path).await, "Otto is next in line and is offered it at once.");
    boris.get(&path).await;
    let page = agnes.submit(&path, &[GOODWILL]).await;
    says(&page, "Released: place 1, booked by Bella. Otto is next and is being offered 1 place.");
    desk.world.settle().await;
    let told = boris.submit(&path, &[GOODWILL]).await;
    says(&told, "Agnes cancelled this booking just now");
    says(&told, "The place was released then. Nothing was done twice.");
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Offered);
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting, "one place, one offer");
    let late = boris.open(&path).await;
    says(&late, "Agnes cancelled this booking");
}

#[tokio::test]
async fn the_banner_names_who_was_offered_the_place_even_where_the_rule_was_faster_than_the_page() {
    let desk = Desk::with(two_hours(), 1).await;
    desk.world.booked("Bella", 1).await;
    desk.world.all_waiting(&["Otto", "Nina"]).await;
    let booking = desk.world.bookings(desk.world.person("Bella").await).await[0];
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let db = desk.world.database.db();
    let staff =
        db.staff_credentials(&email("agnes@staff.example")).await.expect("asked").expect("Agnes").staff;
    let offered = async || db.offered_since_act_of(desk.world.event, staff).await.expect("asked");
    assert_eq!(offered().await, None, "she did nothing yet");
    let path = desk.path(&format!("/release/{booking}"));
    agnes.get(&path).await;
    let page = agnes.submit(&path, &[GOODWILL]).await;
    says(&page, "Otto is next and is being offered 1 place.");
    assert_eq!(offered().await, None, "nobody looked at the line yet");
    desk.world.settle().await;
    assert_eq!(offered().await, Some(("Otto".to_owned(), 1)), "and not Nina, who is next by now");
}

#[tokio::test]
async fn an_offer_is_given_again_only_where_it_can_be_kept_and_every_refusal_says_why() {
    let (desk, entries, offer) = one_offer(&["Otto", "Nina"]).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path(&format!("/offers/{}/reactivate", offer.id));
    says(&agent.open(&path).await, "This offer is pending.");
    desk.world.later(Duration::hours(2));
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Offered, "the place went on");
    let page = agent.get(&path).await;
    assert_eq!(page.attribute("input[name=deadline]", "value").as_deref(), Some("2027-03-01T14:00"));

    let refuse = async |agent: &mut crate::harness::visitor::Visitor, deadline: &str, said: &str| {
        let answer = agent.post(&path, &[("deadline", deadline), GOODWILL]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{deadline}: {}", answer.body);
        says(&answer, said);
        assert_eq!(answer.attribute("input[name=deadline]", "value").as_deref(), Some(deadline), "kept");
    };
    let good = "2027-03-01T15:00";
    refuse(&mut agent, good, "No place is open, and 1 is needed.").await;
    refuse(&mut agent, "", "Say until when the offer can be accepted").await;
    refuse(&mut agent, "soon", "This is not a date and time.").await;
    refuse(&mut agent, "2027-03-01T11:00", "This is in the past.").await;
    refuse(&mut agent, "2027-03-29T10:00", "This is after the start, 28 Mar 2027").await;
    refuse(&mut agent, "2027-03-28T02:30", "02:30 on 28 Mar 2027 does not exist in Europe/Berlin").await;
    refuse(&mut agent, "2027-10-31T02:30", "02:30 on 31 Oct 2027 comes twice in Europe/Berlin").await;

    let list = async |to| {
        desk.world
            .waitlist
            .set_list(desk.world.event, to, desk.world.actor(), &reason())
            .await
            .expect("the list changes");
    };
    list(ListState::Closed).await;
    refuse(&mut agent, good, "The list is closed. Open or freeze it first.").await;
    list(ListState::Frozen).await;
    let page = agent.submit(&path, &[("deadline", good), GOODWILL]).await;
    says(&page, "Given again: Otto has 1 place until Mon 1 Mar 2027, 15:00 (CET, UTC+01:00), in 3 h.");
    says(&page, "Offer given again");
    let again = desk.world.live_offer(entries[0].id).await;
    assert_eq!((again.id, again.reactivations), (offer.id, 1), "the same offer");
    assert!(
        page.attribute("figure.path svg", "aria-label")
            .expect("drawn")
            .ends_with("pending, then expired, then pending again")
    );
}

#[tokio::test]
async fn an_offer_is_not_given_again_to_somebody_who_is_back_on_the_list() {
    let (desk, entries, offer) = one_offer(&["Otto"]).await;
    let after = fairlist::waitlist::staff_offers::AfterRevoke::OffTheList;
    let (waitlist, event) = (&desk.world.waitlist, desk.world.event);
    waitlist.revoke(event, offer.id, after, desk.world.actor(), &reason()).await.expect("revoked");
    desk.world.rule(|policy| policy.window = None).await;
    desk.world.waiting("Otto", 1).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path(&format!("/offers/{}/reactivate", offer.id));
    agent.get(&path).await;
    let answer = agent.post(&path, &[("deadline", "2027-03-01T15:00"), GOODWILL]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Otto is on this list with another entry by now");
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Removed);
}

#[tokio::test]
async fn a_deadline_moves_later_and_never_past_the_start() {
    let (desk, entries, offer) = one_offer(&["Otto"]).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path(&format!("/offers/{}/extend", offer.id));
    agent.get(&path).await;
    for (deadline, said) in [
        ("2027-03-01T11:30", "This is not later than the deadline that holds now."),
        ("2027-03-01T09:30", "This is in the past. It is 1 Mar 2027, 10:00 now."),
        ("2027-03-28T11:01", "This is after the start"),
    ] {
        let answer = agent.post(&path, &[("deadline", deadline), GOODWILL]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{deadline}");
        says(&answer, said);
    }
    let page = agent.submit(&path, &[("deadline", "2027-03-01T13:00"), GOODWILL]).await;
    says(&page, "Otto has time until Mon 1 Mar 2027, 13:00 (CET, UTC+01:00), in 3 h.");
    says(&page, "Deadline moved");
    let moved = desk.world.live_offer(entries[0].id).await;
    assert_eq!(moved.expires_at.to_rfc3339(), "2027-03-01T12:00:00+00:00");
    assert_eq!(desk.world.told(offer.person, "extended").await, 1, "Otto is told that there is more time");
    assert_eq!(desk.world.told(offer.person, "start_moved").await, 0, "and not that the start moved");
    desk.world.later(Duration::hours(4));
    let answer = agent.submit(&path, &[("deadline", "2027-03-01T16:00"), GOODWILL]).await;
    says(&answer, "The deadline passed Mon 1 Mar 2027, 13:00 (CET, UTC+01:00), 1 h ago: it is too late.");
    desk.world.settle().await;
    let over = desk.world.waitlist.db().find_offer(offer.id).await.expect("it");
    assert_eq!(over.state, OfferState::Expired);
}

#[tokio::test]
async fn answers_by_telephone_are_the_customers_own_and_on_record() {
    let desk = Desk::with(two_hours(), 2).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let (otto, nina) =
        (desk.world.live_offer(entries[0].id).await, desk.world.live_offer(entries[1].id).await);
    let accept = desk.path(&format!("/offers/{}/accept", otto.id));
    says(&agent.get(&accept).await, "1 place is booked for Otto, as if they had accepted themselves.");
    let page = agent.submit(&accept, &[("reason", "customer_asked")]).await;
    says(&page, "Booked for Otto: 1 place, reference");
    says(&page, "Answer taken by staff");
    says(&page, "by Agnes");
    let page = agent.submit(&accept, &[("reason", "customer_asked")]).await;
    says(&page, "Agnes accepted this offer just now");
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Accepted);
    assert_eq!(desk.world.bookings(otto.person).await.len(), 1, "not booked twice");

    let decline = desk.path(&format!("/offers/{}/decline", nina.id));
    agent.get(&decline).await;
    let page = agent.submit(&decline, &[("reason", "unreachable")]).await;
    says(&page, "Declined for Nina, who is off the list.");
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Declined);
}

#[tokio::test]
async fn a_late_answer_by_telephone_is_refused_with_the_deadline() {
    let (desk, entries, offer) = one_offer(&["Otto"]).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path(&format!("/offers/{}/accept", offer.id));
    agent.get(&path).await;
    desk.world.later(Duration::hours(2));
    let page = agent.submit(&path, &[("reason", "customer_asked")]).await;
    says(&page, "The deadline passed Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)");
    assert_eq!(desk.world.bookings(entries[0].person).await.len(), 0);
}

#[tokio::test]
async fn an_offer_by_hand_on_a_passive_list_needs_a_deadline_and_places() {
    let desk = Desk::with(Policy::first(), 1).await;
    let entries = [desk.world.waiting("Otto", 2).await, desk.world.waiting("Nina", 1).await];
    desk.world.settle().await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let page = agent.get(&desk.path("")).await;
    says(&page, "Nothing is offered by itself here: offers are made by hand.");
    let of = |entry: &Entry| desk.path(&format!("/entries/{}/offer", entry.id));
    agent.get(&of(&entries[1])).await;
    let answer = agent.post(&of(&entries[1]), &[GOODWILL]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Say until when the offer can be accepted: this list has no time to answer of its own.");
    let deadline = ("deadline", "2027-03-02T10:00");
    let answer = agent.post(&of(&entries[0]), &[deadline, GOODWILL]).await;
    says(&answer, "Only 1 place is open, and 2 places are needed.");
    let page = agent.submit(&of(&entries[1]), &[deadline, GOODWILL]).await;
    says(&page, "Offered: Nina has 1 place until Tue 2 Mar 2027, 10:00");
    let page = agent.submit(&of(&entries[1]), &[deadline, GOODWILL]).await;
    says(&page, "Agnes made this offer just now");
    does_not_say(&page, "Offered: Nina");
    assert!(desk.world.live_offer(entries[1].id).await.made_by.is_some());
}

/// How an offer ended has a word of its own for staff and a sentence of its own for whoever had it.
/// (chicago-tool-library/circulate#2185: what had lapsed was shown as done)
#[tokio::test]
async fn accepted_lapsed_and_taken_back_are_three_words_and_three_pages() {
    let desk = Desk::with(two_hours(), 3).await;
    let world = &desk.world;
    let entries = world.all_waiting(&["Accepted", "Revoked", "Lapsed"]).await;
    world.settle().await;
    let mut offers = Vec::new();
    for entry in &entries {
        offers.push(world.live_offer(entry.id).await);
    }
    world.accept(offers[0].id, offers[0].person).await;
    let aside = AfterRevoke::SetAside;
    world.waitlist.revoke(world.event, offers[1].id, aside, world.actor(), &reason()).await.expect("revoked");
    world.later(Duration::hours(2));
    world.pass().await;

    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut words = std::collections::BTreeSet::new();
    for (offer, state) in offers.iter().zip(["accepted", "revoked", "expired"]) {
        let page = agnes.get(&desk.path(&format!("/offers/{}", offer.id))).await;
        assert_eq!(page.text(".head .chip"), state, "{}", page.body);
        let said = page.text(".answer").split_inclusive('.').next().map(str::to_owned);
        assert!(words.insert(said.clone()), "{said:?} is said of another, too");
        let public = Visitor::new(&desk.router).get(&format!("/offers/{}", offer.id)).await;
        let said = Some(public.text(".answer"));
        assert!(words.insert(said.clone()), "{said:?} is said of another, too");
    }
    world.settle().await;
}
