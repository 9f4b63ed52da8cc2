//! Why: what became of a place that came back, who was next and why others were not, what holds each place.

use chrono::Duration;
use fairlist::domain::policy::{Fit, Policy};
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::{reason, two_hours};

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
    says(&page, "the booking of Bella was cancelled: the customer asked");
    says(&page, "It is open, since 1 Mar 2027, 10:10. Otto is next and is being offered 1 place.");
    says(&page, "Nobody has looked at the line since.");

    world.later(Duration::minutes(3));
    world.settle().await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "It is kept for Otto until");
    says(&page, "The next look at the line came after 3 min: 1 offer was made (rule, version 1).");
    assert_eq!(page.texts("ol.prose-list li").len(), 1);
    says(&page, "Otto, 1 place, first in order of arrival");

    world.later(Duration::hours(2));
    world.settle().await;
    world.later(Duration::minutes(5));
    let offer = world.live_offer(entries[1].id).await;
    // From an offer there is a way to where its place came from.
    let page = nora.get(&desk.path(&format!("/offers/{}", offer.id))).await;
    let release = page.attribute("dd a[href*='/releases/']", "href").expect("its release");
    says(&nora.get(&release).await, "the offer to Otto ended: no answer before the deadline");
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
    says(&page, "booked by Bella, without an offer");
    says(&page, "3 more came back with these");
}

/// Somebody of the staff pauses the first in line: the next is offered the place by the same look, and the page of the
/// first says when and why it went past. (SandeepVashishtha/Eventra#11892, #13345)
#[tokio::test]
async fn whoever_was_passed_over_has_a_page_that_says_when_and_why() {
    let desk = Desk::with(two_hours(), 0).await;
    let world = &desk.world;
    let entries = world.all_waiting(&["Otto", "Nina", "Walter"]).await;
    let page_of = |n: usize| desk.path(&format!("/entries/{}", entries[n].id));
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    says(&agnes.get(&page_of(0)).await, "Since it joined, the rule has offered nobody a place.");
    world.later(Duration::minutes(1));
    agnes.get(&format!("{}/pause", page_of(0))).await;
    agnes.post(&format!("{}/pause", page_of(0)), &[("reason", "unreachable")]).await;
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;

    let page = agnes.get(&page_of(0)).await;
    says(&page, "Since it joined, the rule made 1 offer; it was passed over while something hindered it.");
    says(&page, "passed over: paused by staff · 1 offer, first in order of arrival (rule, version 1)");
    let page = agnes.get(&page_of(2)).await;
    says(&page, "Since it joined, the rule made 1 offer: all to entries ahead of it.");
    says(
        &page,
        "Nobody who can be offered a place is ahead of it now; 1 person is ahead and passed over: 1 paused.",
    );
    says(&agnes.get(&page_of(1)).await, "it was offered a place itself");

    // Staff offer past the rule: that is told apart from what the rule does.
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    let favourite = world.waiting("Favourite", 1).await.id;
    let by_hand = world.waitlist.offer_to(world.event, favourite, None, world.actor(), &reason()).await;
    by_hand.expect("offered");
    world.settle().await;
    says(&agnes.get(&page_of(2)).await, "By hand, staff made 1 offer to others: 1 the customer asked.");
}

/// However many looks there were, the last twenty are listed and all are counted.
#[tokio::test]
async fn a_long_history_is_counted_and_its_end_is_listed() {
    let desk = Desk::with(two_hours(), 1).await;
    let world = &desk.world;
    for n in 0..25 {
        world.waiting(&format!("Guest{n}"), 1).await;
    }
    let last = world.waiting("Zoe", 1).await;
    for _ in 0..25 {
        world.settle().await;
        world.later(Duration::hours(2));
    }
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    let page = nora.get(&desk.path(&format!("/entries/{}", last.id))).await;
    says(&page, "Since it joined, the rule made 25 offers.");
    says(&page, "The last 20 of 25 looks at the line that made offers");
    assert_eq!(page.texts("section[aria-labelledby=since] .lines li").len(), 20);
    world.settle().await;
}

/// The organizer sees at once why nothing goes out. (pretix/pretix#1899)
#[tokio::test]
async fn the_page_of_an_event_says_why_nothing_is_offered_and_what_has_each_place() {
    let desk = Desk::with(two_hours(), 2).await;
    let world = &desk.world;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    says(&mary.get(&desk.path("")).await, "2 places are open. Nobody in the line could take what is open.");
    world.booked("Bella", 1).await;
    let otto = world.waiting("Otto", 1).await;
    world.settle().await;
    let page = mary.get(&desk.path("")).await;
    says(&page, "No place is open: 1 place is kept for answers, and the others are booked.");
    says(&page, "Place 2: kept for Otto until Mon 1 Mar 2027, 12:00");
    let offer = world.live_offer(otto.id).await;
    world.accept(offer.id, offer.person).await;
    says(
        &mary.get(&desk.path("")).await,
        "Every place is booked: one has to come back before it can be offered.",
    );

    world.waitlist.retire_count(world.event, 1, world.actor(), &reason()).await.expect("lower");
    let page = mary.get(&desk.path("")).await;
    says(&page, "Every place is booked, and 1 too many: one has to come back before it can be offered.");
    says(&page, "Place 2: booked by Otto; leaves the event when it becomes free");
    world.waiting("Nina", 1).await;
    let list = fairlist::domain::event::ListState::Closed;
    let closed = world.waitlist.set_list(world.event, list, world.actor(), &reason()).await;
    closed.expect("closed");
    world.later(Duration::minutes(1));
    world.cancel_booking_of(world.person("Bella").await).await;
    world.settle().await;
    let page = mary.get(&desk.path("")).await;
    says(&page, "Nothing is offered: the list is closed.");
    says(&page, "Place 1: open since 1 Mar 2027, 10:01");
    let bookings = mary.get(&desk.path("/bookings?state=cancelled")).await;
    let became = bookings.attribute("tbody td[data-label=State] a", "href").expect("what became of it");
    says(
        &mary.get(&became).await,
        "It is open, since 1 Mar 2027, 10:01. Nothing is offered: the list is closed.",
    );
}

/// Where everybody is called, the page names it a race, and who was not called has the reason on their page.
#[tokio::test]
async fn a_place_that_everybody_was_called_for_says_so() {
    let rule = Policy { mode: fairlist::domain::policy::Mode::NotifyAll, ..two_hours() };
    let desk = Desk::with(rule, 0).await;
    let world = &desk.world;
    let family = world.waiting("Family", 2).await;
    let solos = world.all_waiting(&["Otto", "Nina"]).await;
    world.settle().await;
    world.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    let page = newest_release(&desk, &mut nora).await;
    says(&page, "Called at once, and the first to accept has it:");
    assert_eq!(page.texts("ol.prose-list li").len(), 2);
    let page = nora.get(&desk.path(&format!("/entries/{}", family.id))).await;
    says(
        &page,
        "passed over: it wants 2 places, and 1 was open · 2 people called, everybody who could take it was called",
    );
    world.later(Duration::minutes(1));
    let offer = world.live_offer(solos[1].id).await;
    world.accept(offer.id, offer.person).await;
    says(&newest_release(&desk, &mut nora).await, "It was booked by Nina, without an offer.");
    world.settle().await;
}
