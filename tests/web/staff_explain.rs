//! Why: what became of a place that came back, who was next and why others were not, what holds each place.

use chrono::Duration;
use fairlist::domain::policy::{Fit, Policy};
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::two_hours;

/// The page of the newest release.
async fn newest_release(desk: &Desk, staff: &mut Visitor) -> Answer {
    let list = staff.get(&desk.path("/releases")).await;
    let page = list.attribute("tbody th a", "href").expect("a release");
    staff.get(&page).await
}

/// From the cancelled booking to the next one, with whose turn it was in between and how soon. Whoever let an offer
/// lapse is not next again. (letsrevel/revel-backend `process_waitlist_for_event`)
#[tokio::test]
async fn a_place_that_came_back_is_followed_until_it_is_booked() {
    let desk = Desk::with(two_hours(), 1).await;
    let world = &desk.world;
    world.booked("Bella", 1).await;
    let entries = world.all_waiting(&["Otto", "Nina", "Walter"]).await;
    world.settle().await;
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    says(&nora.get(&desk.path("/releases")).await, "Places last came back Mon 1 Mar 2027, 10:00");

    world.later(Duration::minutes(10));
    let bella = world.person("Bella").await;
    world.cancel_booking_of(bella).await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "Bella had booked, and that was cancelled: the customer asked");
    says(&page, "It is open, since 1 Mar 2027, 10:10. Otto is next and is being offered 1 place.");
    says(&page, "Nobody has looked at the line since.");

    world.later(Duration::minutes(3));
    world.settle().await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "It is kept for Otto until");
    says(&page, "The line was looked at after 3 min: 1 offer was made (rule, version 1).");
    assert_eq!(page.texts("ol.prose-list li").len(), 1);
    says(&page, "Otto, 1 place, first in order of arrival");

    world.later(Duration::hours(2));
    world.settle().await;
    world.later(Duration::minutes(5));
    let offer = world.live_offer(entries[1].id).await;
    world.accept(offer.id, offer.person).await;
    let list = nora.get(&desk.path("/releases")).await;
    let rows = list.texts("tbody tr");
    assert_eq!(rows.len(), 3, "added, cancelled, expired: {rows:?}");
    let second = list.attribute("tbody tr:nth-child(2) th a", "href").expect("the cancelled booking");
    let page = nora.get(&second).await;
    says(&page, "Nina has it, by offer number 2.");
    let turns = page.texts(".timeline-forward > li");
    assert_eq!(turns.len(), 2, "{turns:?}");
    assert!(
        turns[0].starts_with("Offered to Otto expired after 3 min, by the rule (version 1)"),
        "{turns:?}"
    );
    assert!(turns[1].starts_with("Offered to Nina accepted at once, by the rule (version 1)"), "{turns:?}");
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "the offer to Otto ended: no answer before the deadline");
    says(&page, "Nina has it, by the first offer.");
    does_not_say(&page, "Walter");
    world.settle().await;
}

/// One free, A wants two, B wants one: the page says that A was first and why B has the place.
/// (jemproject/JEM-Project#2287)
#[tokio::test]
async fn the_page_of_a_release_says_who_was_passed_over_and_why() {
    let desk = Desk::with(Policy { fit: Fit::Fill, ..two_hours() }, 0).await;
    let world = &desk.world;
    world.waiting("Family", 2).await;
    world.waiting("Solo", 1).await;
    world.settle().await;
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "It is kept for Solo until");
    says(&page, "Passed over, as the rule says: whoever ahead of the last of them wanted more than 1 place.");
    says(&page, "Of these still wait: Family, 2 places");
}

/// Strict: nobody has it, and the page says for whom it waits. (jemproject/JEM-Project#2287)
#[tokio::test]
async fn a_place_that_waits_for_another_says_so() {
    let desk = Desk::with(two_hours(), 0).await;
    let world = &desk.world;
    world.waiting("Family", 2).await;
    world.waiting("Solo", 1).await;
    world.settle().await;
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "the first in line wants more places than are open, and the rule is to wait");
    says(&page, "Family is next and waits for 2 places: 1 more must come back.");
    let place = nora.get(&desk.path("/places")).await.attribute("tbody th a", "href").expect("a place");
    let page = nora.get(&place).await;
    says(&page, "Nobody has it. Family is next and waits for 2 places");
    says(&page, "Place added");
}

#[tokio::test]
async fn a_place_says_what_has_it_and_until_when_and_all_that_happened_to_it() {
    let desk = Desk::with(two_hours(), 1).await;
    let world = &desk.world;
    let otto = world.waiting("Otto", 1).await;
    world.settle().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let place = mary.get(&desk.path("/places")).await.attribute("tbody th a", "href").expect("a place");
    says(&mary.get(&place).await, "It is kept for Otto until Mon 1 Mar 2027, 12:00");
    let retire = [("reason", "event_changed"), ("note", "Too full")];
    mary.get(&format!("{place}/retire")).await;
    mary.post(&format!("{place}/retire"), &retire).await;
    says(&mary.get(&place).await, "It leaves the event when it becomes free.");
    let offer = world.live_offer(otto.id).await;
    world.accept(offer.id, offer.person).await;
    let page = mary.get(&place).await;
    says(&page, "Otto has booked it. It leaves the event when it becomes free.");
    assert_eq!(
        page.texts(".timeline-title"),
        [
            "Booked by \u{2068}Otto\u{2069}",
            "To leave the event when free",
            "Offered to \u{2068}Otto\u{2069}",
            "Place added"
        ]
    );
    says(&page, "Too full");
    world.cancel_booking_of(offer.person).await;
    world.settle().await;
    let page = mary.get(&place).await;
    says(&page, "It is no longer part of the event.");
    let audit = mary.get(&desk.path("/audit?subject=place")).await;
    assert_eq!(audit.attribute("tbody td[data-label=To] a", "href"), Some(place));
}

/// Somebody who booked past the list, and several places that came back together.
#[tokio::test]
async fn several_places_that_came_back_together_are_told_of_one_by_one() {
    let desk = Desk::with(two_hours(), 0).await;
    let world = &desk.world;
    world.waiting("Otto", 1).await;
    world.settle().await;
    world.later(Duration::minutes(1));
    world.add_places(23).await;
    world.settle().await;
    world.booked("Bella", 2).await;
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    let list = nora.get(&desk.path("/releases")).await;
    says(&list, "Place 1, Place 2, Place 3 and 20 more");
    says(&list, "offered to Otto at once");
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "23 places came back");
    says(&page, "Of the first 20: 2 booked, 1 kept for an answer, 17 open.");
    says(&page, "Booked by Bella, without an offer");
    says(&page, "3 more came back with these");
}
