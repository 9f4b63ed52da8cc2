//! Joining and booking.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::EntryState;
use fairlist::domain::event::ListState;
use fairlist::domain::policy::Policy;

use super::Booth;
use crate::harness::race::race;
use crate::harness::world::two_hours;

#[tokio::test]
async fn a_visitor_joins_confirms_waits_is_offered_and_takes_the_place() {
    let booth = Booth::with(two_hours(), 1).await;
    booth.world.booked("Zoe", 1).await;
    let mut ann = booth.visitor();
    let event = ann.get("/e/spring").await;
    event.says("Full: every place is booked.");

    let answer = booth.fill_in(&mut ann, "Ann", "ann@example.org", "1").await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    let page = answer.location().expect("the code page");
    let code = ann.get(&page).await;
    code.says("a…@e….org");
    assert!(!code.body.contains("ann@example.org"), "only a part of the address is shown");
    assert_eq!(booth.count("SELECT count(*) FROM entries WHERE state = 'unconfirmed'").await, 1);

    let answer = ann.post(&page, &[("digits", &booth.digits(&page))]).await;
    let mine = answer.location().expect("the entry");
    let entry = ann.get(&mine).await;
    entry.says("Your address is confirmed, and you are on the waitlist.");
    entry.says("number 1");
    entry.says("Every place is booked. As soon as one comes free, the first in line is asked.");

    booth.world.cancel_booking_of(booth.world.person("Zoe").await).await;
    booth.world.settle().await;
    let entry = ann.get(&mine).await;
    entry.says("It is your turn: you have 1 place until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00).");
    let offer = entry.attribute("a.button", "href").expect("the way to the offer");
    let page = ann.get(&offer).await;
    page.says("Take my place");
    page.says("held for Ann");
    let receipt = ann.submit(&format!("{offer}/accept"), &[]).await;
    receipt.says("1 place at Spring Concert is yours");
    assert_eq!(receipt.text(".reference").len(), 8);
    ann.get("/e/spring").await.says("You have 1 place.");
    ann.get("/me").await.says("Nothing needs an answer from you.");
}

#[tokio::test]
async fn free_places_are_booked_after_a_code_and_without_one_when_signed_in() {
    let booth = Booth::with(two_hours(), 3).await;
    let mut ann = booth.visitor();
    let event = ann.get("/e/spring").await;
    event.says("3 places are free.");
    let once = event.attribute("#book input[name=once]", "value").expect("names the act");
    let fields = [("name", "Ann"), ("email", "ann@example.org"), ("party", "2"), ("once", once.as_str())];
    let page = ann.post("/e/spring/book", &fields).await.location().expect("the code page");
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 0, "nothing before the code");
    ann.get(&page).await;
    let receipt = ann.submit(&page, &[("digits", &booth.digits(&page))]).await;
    receipt.says("2 places at Spring Concert are yours");
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 2);

    let event = ann.get("/e/spring").await;
    let person = event.attribute("#book input[name=person]", "value").expect("signed in");
    let once = event.attribute("#book input[name=once]", "value").expect("names the act");
    let fields = [("person", person.as_str()), ("party", "1"), ("once", once.as_str())];
    let receipt = ann.submit("/e/spring/book", &fields).await;
    receipt.says("1 place at Spring Concert is yours");
    // The same form once more: the same booking.
    let again = ann.submit("/e/spring/book", &fields).await;
    assert_eq!(again.text(".reference"), receipt.text(".reference"));
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 3);
    ann.get("/e/spring").await.says("Full: every place is booked.");
}

#[tokio::test]
async fn the_three_causes_are_told_apart_and_held_places_are_not_shown_as_free() {
    let booth = Booth::with(two_hours(), 2).await;
    let world = &booth.world;
    let mut visitor = booth.visitor();
    visitor.get("/").await.says("2 places free.");
    world.booked("Zoe", 1).await;
    visitor.get("/e/spring").await.says("1 place is free.");
    world.booked("Yan", 1).await;
    visitor.get("/e/spring").await.says("Full: every place is booked.");
    visitor.get("/").await.says("Full. You can join the waitlist. Nobody is waiting.");

    world.waiting("Ann", 1).await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    // Not offered yet, but hers to be asked about: no newcomer sees it as free.
    let event = visitor.get("/e/spring").await;
    event.says("No place is free for booking: what came free is held for the waitlist.");
    world.settle().await;
    let event = visitor.get("/e/spring").await;
    event.says("held for the waitlist, the first of it until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)");
    assert!(event.texts("#book").is_empty());
    visitor.get("/").await.says("Held for the waitlist.");
}

/// A newcomer who sends the booking form anyway is told that the place goes to the list. (echo-webkom/echo-web-backend#277)
#[tokio::test]
async fn a_newcomer_cannot_book_what_is_held_for_the_waitlist() {
    let booth = Booth::with(two_hours(), 1).await;
    let world = &booth.world;
    let mut newcomer = booth.visitor();
    newcomer.get("/e/spring").await;
    world.booked("Zoe", 1).await;
    let waiting = world.waiting("Ann", 1).await;
    world.cancel_booking_of(world.person("Zoe").await).await;
    let fields = [("name", "New"), ("email", "new@example.org"), ("party", "1")];
    let answer = newcomer.post("/e/spring/book", &fields).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("What is free goes to the people on the waitlist first. Nothing was booked.");
    // What was typed is kept for joining.
    assert_eq!(answer.attribute("#join input[name=email]", "value").as_deref(), Some("new@example.org"));
    world.settle().await;
    assert_eq!(world.state(waiting.id).await, EntryState::Offered);
}

/// Two places when the form was opened, one when it was sent: two are not booked. (SparkDevNetwork/Rock#2510)
#[tokio::test]
async fn a_form_opened_before_the_event_filled_never_overbooks() {
    let booth = Booth::with(two_hours(), 2).await;
    let mut visitor = booth.visitor();
    visitor.get("/e/spring").await.says("2 places are free.");
    let fields = [("name", "Ann"), ("email", "ann@example.org"), ("party", "2")];
    let page = visitor.post("/e/spring/book", &fields).await.location().expect("the code page");
    booth.world.booked("Zoe", 1).await;
    visitor.get(&page).await;
    let answer = visitor.post(&page, &[("digits", &booth.digits(&page))]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("Only 1 place is left, fewer than you asked for. Nothing was booked.");
    // Another one opened before it filled altogether.
    let mut late = booth.visitor();
    late.get("/e/spring").await;
    booth.world.booked("Yan", 1).await;
    let answer =
        late.post("/e/spring/book", &[("name", "Ben"), ("email", "ben@example.org"), ("party", "1")]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("The last places were taken while you were filling in the form.");
    assert_eq!(booth.count("SELECT count(*) FROM bookings WHERE state = 'confirmed'").await, 2);
}

#[tokio::test]
async fn twenty_signed_in_at_once_book_no_more_than_there_is() {
    let booth = Booth::with(two_hours(), 3).await;
    let mut visitors = Vec::new();
    for n in 0..20 {
        let email = format!("p{n}@example.org");
        let person = booth.world.person(&format!("P{n}")).await;
        let mut visitor = booth.signed_in(&email).await;
        visitor.get("/e/spring").await;
        visitors.push((visitor, person.to_string()));
    }
    let answers = race(20, |n| {
        let (mut visitor, person) = visitors[n].clone();
        async move { visitor.post("/e/spring/book", &[("person", &person), ("party", "1")]).await.status }
    })
    .await;
    assert_eq!(answers.iter().filter(|status| **status == StatusCode::SEE_OTHER).count(), 3, "{answers:?}");
    assert_eq!(answers.iter().filter(|status| **status == StatusCode::CONFLICT).count(), 17);
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 3);
}

/// One place free and nobody waiting: the next one simply books. (Wunderbyte-GmbH/moodle-mod_booking#809)
#[tokio::test]
async fn who_could_simply_book_is_not_put_on_the_list_but_a_larger_party_may_wait() {
    let booth = Booth::with(two_hours(), 1).await;
    let mut visitor = booth.visitor();
    let event = visitor.get("/e/spring").await;
    event.says("1 place is free.");
    event.says("Need 2 or more places together?");
    let answer = booth.fill_in(&mut visitor, "Ann", "ann@example.org", "1").await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("there are free places now, so you need not wait");
    let answer = booth.fill_in(&mut visitor, "Ann", "ann@example.org", "2").await;
    let page = answer.location().expect("the code page");
    visitor.get(&page).await;
    let entry = visitor.submit(&page, &[("digits", &booth.digits(&page))]).await;
    entry.says("You need 2 places together, and fewer are open at the moment.");
    booth.world.settle().await;
    visitor.get("/e/spring").await.says("held for the waitlist");
}

/// No places at all is a list that people join, not an event without a limit. (SparkDevNetwork/Rock#2643)
#[tokio::test]
async fn with_no_places_everybody_waits() {
    let booth = Booth::with(two_hours(), 0).await;
    let mut visitor = booth.visitor();
    visitor.get("/e/spring").await.says("There are no places yet.");
    booth
        .join(&mut visitor, "Ann", "ann@example.org")
        .await
        .0
        .says("You are on the waitlist for 1 place, number 1.");
}

/// Nothing is left for the public, and there are places for others: whoever comes can join. (pretix/pretix#5188,
/// alfio-event/alf.io#348: no way to join while a category that the public does not see had places)
#[tokio::test]
async fn whoever_may_not_book_what_is_open_may_join() {
    let booth = Booth::with(Policy { party_limit: Some(6), ..two_hours() }, 5).await;
    booth.world.waiting("Family", 6).await;
    booth.world.settle().await;
    let mut visitor = booth.visitor();
    let event = visitor.get("/e/spring").await;
    event.says("No place is free for booking: what came free is held for the waitlist.");
    assert!(event.texts("#book").is_empty());
    let (entry, _) = booth.join(&mut visitor, "Ann", "ann@example.org").await;
    entry.says("You are on the waitlist for 1 place, number 2.");
}

#[tokio::test]
async fn a_list_that_takes_nobody_says_why() {
    let booth = Booth::with(Policy { list_cap: Some(1), ..two_hours() }, 1).await;
    let world = &booth.world;
    world.booked("Zoe", 1).await;
    world.waiting("Ann", 1).await;
    let mut visitor = booth.visitor();
    visitor.get("/e/spring").await.says("The waitlist is full: it takes no more people.");
    world.rule(|policy| policy.list_cap = None).await;
    visitor.get("/e/spring").await;
    booth.list(ListState::Frozen).await;
    let answer =
        visitor.post("/e/spring/join", &[("name", "B"), ("email", "b@example.org"), ("party", "1")]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("The waitlist takes nobody new at the moment. You were not put on it.");
    answer.says("People who are on it are still served.");
    booth.list(ListState::Closed).await;
    visitor.get("/e/spring").await.says("The waitlist is closed");
    booth.later(Duration::days(27));
    visitor.get("/e/spring").await.says("This event has started.");
    assert_eq!(visitor.get("/e/autumn").await.status, StatusCode::NOT_FOUND);
    world.settle().await;
}

#[tokio::test]
async fn every_field_has_its_sentence_and_what_was_typed_is_kept() {
    let booth = Booth::with(Policy { party_limit: Some(4), ..two_hours() }, 0).await;
    let mut visitor = booth.visitor();
    visitor.get("/e/spring").await;
    for (name, email, party, field, sentence) in [
        ("", "ann@example.org", "1", "name", "Enter a name."),
        ("Ann\u{202e}", "ann@example.org", "1", "name", "turns text around"),
        ("Ann", "ann@localhost", "1", "email", "has a dot"),
        ("Ann", "ann@[127.0.0.1]", "1", "email", "not a number"),
        ("Ann", "ann@example.org", "0", "party", "Enter how many places, as a number from 1."),
        ("Ann", "ann@example.org", "10000", "party", "At most 4 places for one person."),
        ("Ann", "ann@example.org", "two", "party", "Enter how many places, as a number from 1."),
    ] {
        let answer =
            visitor.post("/e/spring/join", &[("name", name), ("email", email), ("party", party)]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{name:?} {email:?} {party:?}");
        let shown = answer.text(&format!("#{field}-error"));
        assert!(shown.contains(sentence), "{field}: {shown:?}");
        assert_eq!(answer.attribute("#email", "value").as_deref(), Some(email));
        assert_eq!(answer.attribute("#party", "value").as_deref(), Some(party));
    }
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 0);
}

#[tokio::test]
async fn a_wrong_code_and_one_that_is_used_up_have_their_own_sentences() {
    let booth = Booth::with(two_hours(), 0).await;
    let mut visitor = booth.visitor();
    let page = booth.fill_in(&mut visitor, "Ann", "ann@example.org", "1").await.location().expect("a page");
    visitor.get(&page).await;
    let right = booth.digits(&page);
    let wrong = if right == "123456" { "654321" } else { "123456" };
    let answer = visitor.post(&page, &[("digits", "12345")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    answer.says("A code has six digits.");
    for left in ["4 more tries", "3 more tries", "2 more tries", "one more try"] {
        let answer = visitor.post(&page, &[("digits", wrong)]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        answer.says("That is not the code that was sent last.");
        answer.says(left);
    }
    let answer = visitor.post(&page, &[("digits", wrong)]).await;
    assert_eq!(answer.status, StatusCode::GONE);
    answer.says("This code is used up");
    let answer = visitor.post(&page, &[("digits", &right)]).await;
    assert_eq!(answer.status, StatusCode::GONE, "five tries are five tries");
    // A new one works, with a space in the middle as people type it.
    let fresh = visitor.post(&format!("{page}/resend"), &[]).await.location().expect("a page");
    visitor.get(&fresh).await.says("A new code is on its way.");
    let digits = booth.digits(&fresh);
    let typed = format!("{} {}", &digits[..3], &digits[3..]);
    visitor.submit(&fresh, &[("digits", &typed)]).await.says("you are on the waitlist");
    assert_eq!(visitor.get(&fresh).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn a_code_is_worth_nothing_after_ten_minutes_and_the_address_can_be_corrected() {
    let booth = Booth::with(two_hours(), 0).await;
    let mut visitor = booth.visitor();
    let page = booth.fill_in(&mut visitor, "Ann", "anm@example.org", "1").await.location().expect("a page");
    let code = visitor.get(&page).await;
    let correct = code.attribute("a[href*=again]", "href").expect("a way to correct it");
    let form = visitor.get(&correct).await;
    assert_eq!(form.attribute("#email", "value").as_deref(), Some("anm@example.org"));
    assert_eq!(form.attribute("#name", "value").as_deref(), Some("Ann"));
    booth.later(Duration::minutes(10));
    let answer = visitor.post(&page, &[("digits", &booth.digits(&page))]).await;
    assert_eq!(answer.status, StatusCode::GONE);
    answer.says("a code works for ten minutes and five tries");
    // Somebody else's visit does not even see the page.
    assert_eq!(booth.visitor().get(&page).await.status, StatusCode::NOT_FOUND);
}

/// A join is answered by one mail, so that a mistyped address is noticed; nobody's mailbox can be filled by it; and the
/// rank is that of the first submission, whenever the code is entered. (pretix/pretix#1164)
#[tokio::test]
async fn a_join_is_answered_by_one_mail_and_the_rank_is_that_of_its_first_submission() {
    let booth = Booth::with(two_hours(), 0).await;
    let (mut ann, mut ben) = (booth.visitor(), booth.visitor());
    let page = booth.fill_in(&mut ann, "Ann", "ann@example.org", "1").await.location().expect("a page");
    let written = "SELECT count(*) FROM messages";
    assert_eq!(booth.count(written).await, 1, "the code, and nothing before it is entered");
    booth.later(Duration::minutes(1));
    booth.join(&mut ben, "Ben", "ben@example.org").await;
    assert_eq!(booth.count(written).await, 3, "Ben's code, and that he is on the list");
    // Ann is late with her code, and asks for another one first.
    booth.later(Duration::minutes(15));
    let fresh = ann.post(&format!("{page}/resend"), &[]).await.location().expect("a page");
    ann.get(&fresh).await;
    let entry = ann.post(&fresh, &[("digits", &booth.digits(&fresh))]).await.location().expect("her entry");
    ann.get(&entry).await.says("number 1");
    assert_eq!(booth.count(written).await, 5, "her second code, and that she is on the list");
    ben.get("/me").await.says("number 2");

    // Whoever joins with somebody else's address, again and again and from anywhere, is stopped.
    let mut last = StatusCode::OK;
    for _ in 0..8 {
        let mut mallory = booth.visitor();
        last = booth.fill_in(&mut mallory, "Mallory", "victim@example.org", "1").await.status;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    let codes = booth.count(
        "SELECT count(*) FROM messages m JOIN persons p ON p.id = m.person_id WHERE p.name = 'Mallory'",
    );
    assert_eq!(codes.await, 5);
    assert_eq!(booth.count("SELECT count(*) FROM entries").await, 3, "one entry, however often");
    booth.world.settle().await;
}
