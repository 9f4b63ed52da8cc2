//! Waiting: where I stand, why, and changing one's mind.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::{EntryState, PausedBy};
use fairlist::domain::policy::{After, Band, Fit, Ordering, Policy, PositionShown};

use super::Booth;
use crate::harness::world::{reason, two_hours};

#[tokio::test]
async fn leaving_works_in_every_state_that_can_be_left() {
    let booth = Booth::with(two_hours(), 1).await;
    let world = &booth.world;
    let offered = world.waiting("Ann", 1).await;
    let waiting = world.waiting("Ben", 1).await;
    let paused = world.waiting("Cem", 1).await;
    world.settle().await;
    assert_eq!(world.state(offered.id).await, EntryState::Offered);
    let mut cem = booth.signed_in("cem@example.org").await;
    cem.get(&format!("/me/entries/{}", paused.id)).await;
    cem.submit(&format!("/me/entries/{}/pause", paused.id), &[]).await.says("Paused. You keep your place");
    // Asked for in her name, and not confirmed.
    let mut somebody = booth.visitor();
    booth.fill_in(&mut somebody, "Dua", "dua@example.org", "1").await;
    let unconfirmed: uuid::Uuid = sqlx::query_scalar("SELECT id FROM entries WHERE state = 'unconfirmed'")
        .fetch_one(world.database.sql())
        .await
        .expect("an entry");

    for (email, id, sentence) in [
        ("ann@example.org", offered.id.0, "The places that were held for you go to the next in line."),
        ("ben@example.org", waiting.id.0, "You left the waitlist."),
        ("cem@example.org", paused.id.0, "You left the waitlist."),
        ("dua@example.org", unconfirmed, "You left the waitlist."),
    ] {
        let mut visitor = booth.signed_in(email).await;
        visitor.get(&format!("/me/entries/{id}/leave")).await.says("Leave the waitlist?");
        let page = visitor.submit(&format!("/me/entries/{id}/leave"), &[]).await;
        page.says(sentence);
        page.says("You left this waitlist.");
        // A second time does no harm.
        let again = visitor.submit(&format!("/me/entries/{id}/leave"), &[]).await;
        again.says("You had left this waitlist before.");
    }
    assert_eq!(booth.count("SELECT count(*) FROM entries WHERE state = 'withdrawn'").await, 4);
    assert_eq!(booth.count("SELECT count(*) FROM offers WHERE end_reason = 'left'").await, 1);
    world.settle().await;
}

#[tokio::test]
async fn asking_for_more_is_a_new_request_and_for_less_is_not() {
    let booth = Booth::with(Policy { person_limit: Some(4), ..two_hours() }, 0).await;
    let world = &booth.world;
    let ann = world.waiting("Ann", 2).await;
    world.waiting("Ben", 1).await;
    let mut visitor = booth.signed_in("ann@example.org").await;
    let address = format!("/me/entries/{}", ann.id);
    let page = visitor.get(&address).await;
    assert_eq!(page.attribute("#wants input[name=party]", "value").as_deref(), Some("2"));
    let wants = format!("{address}/wants");
    for (typed, said) in [
        ("", "Enter how many places, as a number from 1."),
        ("0", "Enter how many places, as a number from 1."),
        ("5", "At most 4 places for one person."),
    ] {
        let page = visitor.post(&wants, &[("party", typed)]).await;
        assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert_eq!(page.text("#party-error"), said);
        assert_eq!(page.attribute("#wants input[name=party]", "value").as_deref(), Some(typed));
    }
    visitor.submit(&wants, &[("party", "2")]).await.says("You asked for this before; nothing has changed.");
    let page = visitor.submit(&wants, &[("party", "1")]).await;
    page.says("Saved. You keep your place in the line.");
    page.says("You are on the waitlist for 1 place, number 1.");
    let page = visitor.submit(&wants, &[("party", "3")]).await;
    page.says("You asked for more places, so you are at the end of the line now.");
    page.says("You are on the waitlist for 3 places, number 2.");
}

#[tokio::test]
async fn a_visitor_who_has_as_many_places_as_one_person_may_is_told_after_the_code() {
    let booth = Booth::with(Policy { person_limit: Some(2), ..two_hours() }, 2).await;
    booth.world.booked("Ann", 2).await;
    let mut ann = booth.visitor();
    let answer = booth.fill_in(&mut ann, "Ann", "ann@example.org", "1").await;
    let code = answer.location().expect("the code’s page");
    ann.get(&code).await;
    let page = ann.submit(&code, &[("digits", &booth.digits(&code))]).await;
    page.says("You have 2 places already, and one person may have 2 places. You are not on the waitlist.");
    page.says("You asked for 1 place, but did not confirm it yet.");
    assert_eq!(booth.count("SELECT count(*) FROM entries WHERE state = 'waiting'").await, 0);
}

#[tokio::test]
async fn pausing_keeps_the_place_and_joining_again_is_at_the_end() {
    let booth = Booth::with(two_hours(), 0).await;
    let world = &booth.world;
    let ann = world.waiting("Ann", 1).await;
    world.waiting("Ben", 1).await;
    let mut visitor = booth.signed_in("ann@example.org").await;
    let address = format!("/me/entries/{}", ann.id);
    visitor.get(&address).await.says("number 1");
    let page = visitor.submit(&format!("{address}/pause"), &[]).await;
    page.says("You paused it. Until you resume you are passed over and keep your place.");
    visitor.submit(&format!("{address}/resume"), &[]).await.says("number 1");

    visitor.submit(&format!("{address}/leave"), &[]).await.says("You can join again.");
    let page = visitor.get(&address).await;
    let person = page.attribute("input[name=person]", "value").expect("a form");
    let page = visitor.submit("/e/spring/join", &[("person", &person), ("party", "1")]).await;
    page.says("You are on the waitlist for 1 place, number 2.");
    page.says("You joined the waitlist");
    // Once more: the same entry.
    let page = visitor.submit("/e/spring/join", &[("person", &person), ("party", "1")]).await;
    page.says("You were on this waitlist already; nothing has changed.");
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 3);
    world.settle().await;
}

#[tokio::test]
async fn after_too_many_unanswered_offers_the_page_says_how_to_resume() {
    let booth = Booth::with(Policy { silence_limit: 1, ..two_hours() }, 1).await;
    let ann = booth.world.waiting("Ann", 1).await;
    booth.world.settle().await;
    booth.later(Duration::hours(2));
    booth.world.settle().await;
    let mut visitor = booth.signed_in("ann@example.org").await;
    let address = format!("/me/entries/{}", ann.id);
    let page = visitor.get(&address).await;
    page.says("Several offers in a row went unanswered");
    page.says("The time to answer ran out. You stayed on the waitlist.");
    visitor.submit(&format!("{address}/resume"), &[]).await.says("It goes on");
    booth.world.settle().await;
    visitor.get(&address).await.says("It is your turn");
}

/// Places for fewer went to somebody behind, and the rule by which they did is public. (jemproject/JEM-Project#2287)
#[tokio::test]
async fn a_larger_party_is_told_why_others_came_first() {
    let booth = Booth::with(Policy { fit: Fit::Fill, ..two_hours() }, 0).await;
    let family = booth.world.waiting("Fam", 3).await;
    booth.world.waiting("Solo", 1).await;
    booth.world.add_places(1).await;
    booth.world.settle().await;
    let mut visitor = booth.signed_in("fam@example.org").await;
    let page = visitor.get(&format!("/me/entries/{}", family.id)).await;
    page.says("Since you joined, 1 offer was made. Some passed you over:");
    page.says("You need 3 places together. Places for fewer went to people after you, as the rule says");
    page.says("1 offer, not to you: you need 3 places together, and no more than 1 was left");
    assert!(!page.body.contains("Solo"), "nobody else is named");
    visitor.get("/e/spring/fairness").await.says(
        "When the first in line wants more places than are open, the next who fits is offered them, and that is recorded.",
    );
}

/// Whoever waits reads why: how many were asked before them, and that nobody went past; while they paused, that too. No
/// other person's name, address or reason is on the page. (pretix/pretix#2119: the newest got it, and nobody could see why)
#[tokio::test]
async fn whether_somebody_went_past_me_is_on_my_page_and_nobody_is_named() {
    let booth = Booth::with(Policy { silence_limit: 5, ..two_hours() }, 0).await;
    let world = &booth.world;
    let others = ["Otto", "Nina", "Walter"];
    world.all_waiting(&others[..2]).await;
    let ann = world.waiting("Ann", 1).await;
    world.waiting(others[2], 1).await;
    world.settle().await;
    let address = format!("/me/entries/{}", ann.id);
    let mut visitor = booth.signed_in("ann@example.org").await;
    let page = visitor.get(&address).await;
    page.says("No. Since you joined nobody has been offered a place by the rule of this list.");

    booth.later(Duration::minutes(1));
    world.add_places(2).await;
    world.settle().await;
    let page = visitor.get(&address).await;
    page.says("No. Since you joined, 2 offers were made, and all of them went to people ahead of you.");
    page.says("10:01: 2 offers, to people ahead of you");

    booth.later(Duration::minutes(1));
    visitor.submit(&format!("{address}/pause"), &[]).await;
    booth.later(Duration::minutes(1));
    world.add_places(1).await;
    world.settle().await;
    let page = visitor.get(&address).await;
    page.says("Since you joined, 3 offers were made. Some passed you over:");
    page.says("Offers went to people after you while your request was paused by you; the last time Mon 1 Mar 2027, 10:03");
    for other in others {
        assert!(!page.body.contains(other), "{other} is named");
        assert!(!page.body.to_lowercase().contains(&other.to_lowercase()), "{other}'s address");
    }
    for code in ["first_in_order", "does_not_fit", "policy_version", "pass_number", "rule, version"] {
        assert!(!page.body.contains(code), "{code} is no word of a customer's");
    }
}

/// An offer that was declined: the same places go to others, and the page says so.
#[tokio::test]
async fn places_that_i_passed_on_are_told_apart() {
    let rule = Policy { after_decline: fairlist::domain::policy::After::Keep, ..two_hours() };
    let booth = Booth::with(rule, 1).await;
    let world = &booth.world;
    let ann = world.waiting("Ann", 1).await;
    world.settle().await;
    booth.later(Duration::minutes(1));
    let offer = world.live_offer(ann.id).await;
    world.decline(offer.id, offer.person).await;
    world.settle().await;
    booth.later(Duration::minutes(1));
    world.waiting("Solo", 1).await;
    world.settle().await;
    let mut visitor = booth.signed_in("ann@example.org").await;
    let page = visitor.get(&format!("/me/entries/{}", ann.id)).await;
    page.says("1 offer, one of them to you");
    assert!(!page.body.contains("Solo"), "nobody else is named");
}

#[tokio::test]
async fn a_position_is_told_as_the_rule_says() {
    let booth = Booth::with(Policy { position_shown: PositionShown::Band, ..two_hours() }, 0).await;
    for n in 0..12 {
        booth.world.waiting(&format!("P{n}"), 1).await;
    }
    let ann = booth.world.waiting("Ann", 1).await;
    let address = format!("/me/entries/{}", ann.id);
    let mut visitor = booth.signed_in("ann@example.org").await;
    visitor.get(&address).await.says("among the first 50");
    assert!(
        !visitor.get("/e/spring").await.text("main").contains("13"),
        "nor is the number of those who wait told"
    );
    booth.world.rule(|policy| policy.position_shown = PositionShown::None).await;
    visitor.get(&address).await.says("You are on the waitlist for 1 place.");
    booth.world.rule(|policy| policy.position_shown = PositionShown::Exact).await;
    visitor.get(&address).await.says("number 13");
    booth.world.settle().await;
}

/// The number that people read is the order in which they are served, under every order. (webkom/lego#3211: the position
/// shown to somebody who waited was not the real one)
#[tokio::test]
async fn the_number_on_my_page_is_when_my_turn_comes_under_every_order() {
    let band = Band { number: -100, name: "Members".to_owned(), reason: "they keep it running".to_owned() };
    for (ordering, how) in Ordering::ALL.iter().zip([
        "Who came first is asked first.",
        "The groups of this list are asked first",
        "A draw that anybody can check decides who is asked first.",
        "The organizer offers places by hand.",
    ]) {
        let rule = Policy { ordering: *ordering, bands: vec![band.clone()], ..two_hours() };
        let booth = Booth::with(rule, 0).await;
        let world = &booth.world;
        let waiting = world.all_waiting(&["Ann", "Ben", "Cem", "Dua"]).await;
        let (event, actor) = (world.event, world.actor());
        match ordering {
            Ordering::Priority => {
                let moved = world.waitlist.move_to_band(event, waiting[2].id, -100, actor, &reason()).await;
                moved.expect("a group");
            }
            Ordering::Lottery => {
                world.waitlist.hold_draw(event, actor, &reason()).await.expect("a draw");
            }
            Ordering::Arrival | Ordering::Manual => {}
        }
        let paused =
            world.waitlist.pause(event, waiting[0].id, PausedBy::Staff, None, actor, &reason()).await;
        paused.expect("Ann is passed over");
        let mut told = Vec::new();
        for (entry, email) in
            waiting[1..].iter().zip(["ben@example.org", "cem@example.org", "dua@example.org"])
        {
            let mut visitor = booth.signed_in(email).await;
            let page = visitor.get(&format!("/me/entries/{}", entry.id)).await;
            page.says(how);
            let answer = page.text(".answer");
            let number = answer.split_once("number ").map(|(_, number)| number.trim_end_matches('.'));
            told.push((number.and_then(|number| number.parse::<i64>().ok()).expect(&answer), entry.id));
        }
        told.sort_unstable();
        assert_eq!(told.iter().map(|(number, _)| *number).collect::<Vec<_>>(), [1, 2, 3], "{ordering}");
        for (number, entry) in told {
            world.add_places(1).await;
            world.settle().await;
            if *ordering == Ordering::Manual {
                // Nothing goes out by itself: whom the page proposes.
                let line =
                    world.waitlist.db().front_of_line(event, Fit::Strict, i16::MAX).await.expect("the line");
                assert_eq!(line[0].candidate.entry, entry, "number {number}");
                world.waitlist.offer_to(event, entry, None, actor, &reason()).await.expect("offered");
            }
            assert_eq!(world.state(entry).await, EntryState::Offered, "{ordering}: number {number}");
        }
    }
}

/// Who let an offer lapse and is off the list is told so, and is on it again with one press. (pretix: who lapsed was not
/// put back and heard nothing)
#[tokio::test]
async fn whoever_lapsed_is_told_and_joins_again_with_one_press() {
    let booth = Booth::with(Policy { after_expiry: After::Leave, ..two_hours() }, 1).await;
    let world = &booth.world;
    let waiting = world.all_waiting(&["Ann", "Ben"]).await;
    world.settle().await;
    booth.later(Duration::hours(2));
    world.settle().await;
    assert_eq!(world.told(waiting[0].person, "lapsed").await, 1);
    let mut ann = booth.signed_in("ann@example.org").await;
    let page = ann.get(&format!("/me/entries/{}", waiting[0].id)).await;
    page.says("1 place waited for you, but the time to take them ran out.");
    assert_eq!(page.text("form[action='/e/spring/join'] button"), "Join again for 1 place");
    let field = |name: &str| page.attribute(&format!("form input[name={name}]"), "value").expect("filled in");
    let fields = [("person", field("person")), ("party", field("party"))];
    let fields: Vec<(&str, &str)> = fields.iter().map(|(name, value)| (*name, value.as_str())).collect();
    ann.submit("/e/spring/join", &fields).await.says("You are on the waitlist for 1 place, number 1.");
    assert_eq!(world.state(waiting[1].id).await, EntryState::Offered, "Ben was next");
    world.settle().await;
}

#[tokio::test]
async fn what_somebody_asked_for_in_my_name_is_mine_to_confirm() {
    let booth = Booth::with(two_hours(), 0).await;
    let mut somebody = booth.visitor();
    booth.fill_in(&mut somebody, "Ann", "ann@example.org", "1").await;
    let mut ann = booth.signed_in("ann@example.org").await;
    let me = ann.get("/me").await;
    me.says("You asked for 1 place, but did not confirm it yet.");
    let address = me.attribute(".cards a", "href").expect("the entry");
    ann.get(&address).await.says("Somebody asked for this with your address");
    let page = ann.submit(&format!("{address}/confirm"), &[]).await;
    page.says("Confirmed: you are on the waitlist.");
    page.says("number 1");
}

#[tokio::test]
async fn my_pages_ask_who_i_am_and_come_back() {
    let booth = Booth::with(two_hours(), 0).await;
    let ann = booth.world.waiting("Ann", 1).await;
    let address = format!("/me/entries/{}", ann.id);
    let mut visitor = booth.visitor();
    let to = visitor.get(&address).await.location().expect("sign-in");
    assert!(to.starts_with("/sign-in?next="), "{to}");
    let page = visitor.get(&to).await;
    let next = page.attribute("input[name=next]", "value").expect("where to");
    let code = visitor
        .post("/sign-in", &[("email", "Ann+tag@Example.org"), ("next", &next)])
        .await
        .location()
        .expect("the code page");
    visitor.get(&code).await;
    let page = visitor.submit(&code, &[("digits", &booth.digits(&code))]).await;
    page.says("number 1");
    assert_eq!(visitor.get("/me/entries/nonsense").await.status, StatusCode::NOT_FOUND);
    assert_eq!(
        visitor.get("/me/entries/00000000-0000-0000-0000-000000000009").await.status,
        StatusCode::NOT_FOUND
    );
    visitor.get("/me").await.says("House of Music");
    visitor.submit("/sign-out", &[]).await.says("You are signed out on this device.");
    assert!(visitor.get("/me").await.location().is_some());
}

/// Each state has a word of its own and a look of its own, and only a booking is something for the calendar: nobody who
/// waits is shown as registered. (svthalia/concrexit#1007, thewca/worldcubeassociation.org#2625,
/// fossunited/fossunited#1372, 206Tours/DB#1862)
#[tokio::test]
async fn each_state_has_a_word_and_a_look_of_its_own_and_only_a_booking_is_for_the_calendar() {
    let booth = Booth::with(Policy { silence_limit: 5, ..two_hours() }, 0).await;
    let world = &booth.world;
    let mut ann = booth.visitor();
    booth.fill_in(&mut ann, "Ann", "ann@example.org", "1").await;
    let mut ann = booth.signed_in("ann@example.org").await;
    let id: uuid::Uuid =
        sqlx::query_scalar("SELECT id FROM entries").fetch_one(world.database.sql()).await.expect("an entry");
    let mut seen: Vec<(String, String)> = Vec::new();
    let mut look = async |state: &str, word: &str| {
        let page = ann.get(&format!("/me/entries/{id}")).await;
        assert_eq!(page.text("main .chip"), word, "{state}: {}", page.body);
        let class = page.attribute("main .chip", "class").expect("a look");
        assert!(!seen.iter().any(|had| had.0 == word || had.1 == class), "{state} looks like another");
        seen.push((word.to_owned(), class));
        let offer = booth.world.offer(fairlist::domain::ids::EntryId(id)).await;
        let is_booked = state == "accepted";
        if let Some(offer) = offer {
            let calendar = ann.get(&format!("/offers/{}/booking.ics", offer.id)).await;
            assert_eq!(calendar.status == StatusCode::OK, is_booked, "{state}: {}", calendar.status);
            assert_eq!(calendar.body.contains("BEGIN:VEVENT"), is_booked, "{state}");
        }
        let page = ann.get("/me").await;
        assert_eq!(page.body.contains("Reference"), is_booked, "{state}");
    };
    look("unconfirmed", "not confirmed").await;
    let mut fresh = booth.visitor();
    booth.join(&mut fresh, "Ann", "ann@example.org").await;
    look("waiting", "waiting").await;
    world.add_places(1).await;
    world.settle().await;
    look("offered", "your turn").await;
    let offer = world.live_offer(fairlist::domain::ids::EntryId(id)).await;
    world.accept(offer.id, offer.person).await;
    look("accepted", "booked").await;
    world.cancel_booking_of(offer.person).await;
    world.settle().await;

    // Every state that staff see has its own rule in the one stylesheet.
    let css = include_str!("../../../static/app.css");
    let states = EntryState::ALL.iter().map(|state| state.as_str());
    let states = states.chain(fairlist::domain::offer::OfferState::ALL.iter().map(|state| state.as_str()));
    for state in states.chain(fairlist::domain::place::PlaceState::ALL.iter().map(|state| state.as_str())) {
        assert!(css.contains(&format!(".chip-{state}")), "{state} has no look");
    }
}
