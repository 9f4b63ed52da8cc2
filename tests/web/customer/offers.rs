//! An offer's link, its page, and the two answers.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::ids::OfferId;
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::{After, Policy};

use super::Booth;
use crate::harness::race::race;
use crate::harness::visitor::Visitor;
use crate::harness::world::two_hours;

/// Ann is offered the only place; Ben is behind her.
async fn offered(policy: Policy) -> (Booth, Entry, OfferId) {
    let booth = Booth::with(policy, 0).await;
    let waiting = booth.world.all_waiting(&["Ann", "Ben"]).await;
    booth.world.add_places(1).await;
    booth.world.settle().await;
    let offer = booth.world.live_offer(waiting[0].id).await.id;
    let ann = waiting.into_iter().next().expect("Ann");
    (booth, ann, offer)
}

/// Opens the mail's link on a new device and enters the code.
async fn through_the_link(booth: &Booth, offer: OfferId) -> Visitor {
    let mut visitor = booth.visitor();
    let page = visitor.open(&booth.link(offer)).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    let code = visitor.post(&format!("/offers/{offer}/code"), &[]).await.location().expect("the code page");
    visitor.get(&code).await;
    let answer = visitor.post(&code, &[("digits", &booth.digits(&code))]).await;
    assert_eq!(answer.location().as_deref(), Some(format!("/offers/{offer}").as_str()), "{}", answer.body);
    visitor.get(&format!("/offers/{offer}")).await;
    visitor
}

#[tokio::test]
async fn whoever_cancels_a_booking_of_several_places_is_told_once_of_all_of_them() {
    let booth = Booth::with(two_hours(), 0).await;
    let ann = booth.world.waiting("Ann", 2).await;
    booth.world.add_places(2).await;
    sqlx::query("UPDATE places SET label = 'B' || number")
        .execute(booth.world.database.sql())
        .await
        .expect("labels");
    booth.world.settle().await;
    let offer = booth.world.live_offer(ann.id).await;
    booth.world.accept(offer.id, ann.person).await;
    let mut here = booth.signed_in("ann@example.org").await;
    let booking = booth.world.bookings(ann.person).await[0];

    let cancel = format!("/me/bookings/{booking}/cancel");
    here.get(&cancel).await;
    let page = here.submit(&cancel, &[]).await;

    page.says("Your booking is cancelled");
    let told: Vec<serde_json::Value> =
        sqlx::query_scalar("SELECT facts FROM messages WHERE occasion = 'booking_cancelled'")
            .fetch_all(booth.world.database.sql())
            .await
            .expect("messages");
    assert_eq!(told.len(), 1, "one letter: {told:?}");
    assert_eq!((&told[0]["party"], &told[0]["labels"]), (&2.into(), &serde_json::json!(["B1", "B2"])));
    assert_eq!(
        booth.count("SELECT count(*) FROM releases WHERE source = 'booking'").await,
        2,
        "both are free"
    );
    booth.world.settle().await;
}

/// The link leads to this offer, not to a form, and the entry is booked in the end.
/// (bookingactivities/booking-activities#226; fossasia/eventyay#1253)
#[tokio::test]
async fn the_link_of_the_mail_opens_the_exact_offer_and_the_code_lets_its_person_take_it() {
    let (booth, ann, offer) = offered(two_hours()).await;
    let mut visitor = booth.visitor();
    let answer = visitor.get(&booth.link(offer)).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER);
    assert_eq!(answer.location().as_deref(), Some(format!("/offers/{offer}").as_str()), "without the token");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");

    let page = visitor.get(&format!("/offers/{offer}")).await;
    page.says("Spring Concert");
    page.says("An offer for a…@e….org");
    page.says("Until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)");
    assert!(!page.body.contains("Ann") && !page.body.contains("ann@"), "nothing personal: {}", page.body);
    assert!(!page.body.contains("/accept"), "a link alone accepts nothing");

    let mut ann_here = through_the_link(&booth, offer).await;
    let page = ann_here.get(&format!("/offers/{offer}")).await;
    page.says("1 place, held for Ann");
    assert_eq!(page.text(".acts .button"), "Take my place");
    let deadline = booth.world.live_offer(ann.id).await.expires_at.timestamp_millis().to_string();
    assert_eq!(page.attribute("[data-deadline]", "data-deadline"), Some(deadline));
    let answer = ann_here.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(
        answer.location().as_deref(),
        Some(format!("/offers/{offer}").as_str()),
        "the receipt stays here"
    );
    let receipt = ann_here.get(&format!("/offers/{offer}")).await;
    receipt.says("1 place at Spring Concert is yours");
    ann_here.get(&format!("/me/entries/{}", ann.id)).await.says("booked");

    let calendar = ann_here.get(&format!("/offers/{offer}/booking.ics")).await;
    assert_eq!(calendar.header("content-type"), "text/calendar; charset=utf-8");
    assert!(calendar.body.contains("SUMMARY:Spring Concert\r\n"), "{}", calendar.body);
    assert!(calendar.body.contains(&receipt.text(".reference")), "{}", calendar.body);
    assert_ne!(visitor.get(&format!("/offers/{offer}/booking.ics")).await.status, StatusCode::OK);
    visitor.get(&format!("/offers/{offer}")).await.says("It was taken.");
}

/// Programs that look into mails open every link, again and again. (pkp/pkp-lib#11690; nextcloud/server#58746)
#[tokio::test]
async fn looking_changes_nothing_however_often() {
    let (booth, ann, offer) = offered(two_hours()).await;
    let seen = "SELECT sum(audit_seq)::bigint FROM events";
    let before = booth.count(seen).await;
    let mut scanner = booth.visitor();
    let mut signed_in = booth.signed_in("ann@example.org").await;
    for _ in 0..20 {
        for path in [booth.link(offer), format!("/offers/{offer}"), format!("/offers/{offer}/accept")] {
            scanner.head(&path).await;
            scanner.get(&path).await;
        }
        signed_in.get(&format!("/offers/{offer}")).await;
        signed_in.head(&format!("/offers/{offer}/decline")).await;
        signed_in.get(&format!("/me/entries/{}/leave", ann.id)).await;
    }
    assert_eq!(booth.count(seen).await, before);
    assert_eq!(booth.world.live_offer(ann.id).await.state, OfferState::Pending);
}

/// Fifty taps at the same moment: one booking, and every one of them is told that it worked.
#[tokio::test]
async fn fifty_taps_at_once_make_one_booking_and_all_see_it() {
    let (booth, _, offer) = offered(two_hours()).await;
    let visitor = through_the_link(&booth, offer).await;
    let seen = race(50, |_| {
        let mut visitor = visitor.clone();
        async move {
            let accept = format!("/offers/{offer}/accept");
            let mut answer = visitor.submit(&accept, &[]).await;
            // On a busy machine some find no connection in time: nothing was done, and they are told to try again.
            while answer.status == StatusCode::SERVICE_UNAVAILABLE {
                answer = visitor.submit(&accept, &[]).await;
            }
            answer
        }
    })
    .await;
    for answer in &seen {
        assert_eq!(answer.status, StatusCode::OK, "{}", answer.text("main"));
        answer.says("1 place at Spring Concert is yours");
        assert_eq!(answer.text(".reference"), seen[0].text(".reference"));
    }
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 1);
}

#[tokio::test]
async fn passing_the_place_on_is_thanked_for_and_the_next_is_asked() {
    let (booth, ann, offer) = offered(two_hours()).await;
    let mut visitor = through_the_link(&booth, offer).await;
    let page = visitor.submit(&format!("/offers/{offer}/decline"), &[]).await;
    page.says("You passed your place on");
    page.says("You are no longer on the waitlist.");
    booth.world.settle().await;
    assert_eq!(booth.world.state(ann.id).await, EntryState::Declined);
    assert_eq!(booth.count("SELECT count(*) FROM offers WHERE state = 'pending'").await, 1);
    // An old page of the same offer: it is no longer hers to take.
    let late = visitor.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(late.status, StatusCode::CONFLICT);
    late.says("You passed your place on");
    assert_eq!(booth.count("SELECT count(*) FROM bookings").await, 0);
}

#[tokio::test]
async fn too_late_says_so_before_the_sweep_and_what_comes_next_after_it() {
    for (rule, state, sentence) in [
        (After::Back, EntryState::Waiting, "You are still on the waitlist"),
        (After::Leave, EntryState::Expired, "You are no longer on the waitlist. You can join again"),
    ] {
        let (booth, ann, offer) = offered(Policy { after_expiry: rule, ..two_hours() }).await;
        let mut visitor = through_the_link(&booth, offer).await;
        let address = format!("/offers/{offer}");
        booth.later(Duration::hours(2));
        let page = visitor.get(&address).await;
        page.says("The time for 1 place at Spring Concert is up");
        page.says("This page then says how it goes on for you.");
        let answer = visitor.post(&format!("{address}/accept"), &[]).await;
        assert_eq!(answer.status, StatusCode::GONE, "the deadline itself is late");
        answer.says("Nothing was booked");
        let answer = visitor.post(&format!("{address}/decline"), &[]).await;
        assert_eq!(answer.status, StatusCode::GONE);
        booth.world.settle().await;
        assert_eq!(booth.world.state(ann.id).await, state);
        visitor.get(&address).await.says(sentence);
    }
}

#[tokio::test]
async fn what_staff_took_back_a_closed_list_and_a_cancelled_event_have_pages_of_their_own() {
    let (booth, _, offer) = offered(two_hours()).await;
    let mut visitor = through_the_link(&booth, offer).await;
    booth.revoke(offer).await;
    let answer = visitor.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("This offer was taken back");
    visitor.post(&format!("/offers/{offer}/decline"), &[]).await.says("This offer was taken back");
    booth.world.settle().await;

    let (booth, ann, offer) = offered(two_hours()).await;
    let mut visitor = through_the_link(&booth, offer).await;
    booth.list(fairlist::domain::event::ListState::Closed).await;
    let answer = visitor.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("The waitlist was closed");
    visitor.get(&format!("/me/entries/{}", ann.id)).await.says("The organizer has closed the list");
    booth.world.settle().await;

    let (booth, ann, offer) = offered(two_hours()).await;
    let mut visitor = through_the_link(&booth, offer).await;
    booth.cancel_event().await;
    let answer = visitor.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    answer.says("Spring Concert was cancelled");
    visitor.get(&format!("/me/entries/{}", ann.id)).await.says("you are back at your old place");
    visitor.get("/e/spring").await.says("This event was cancelled.");
    booth.world.settle().await;
}

#[tokio::test]
async fn a_forwarded_link_accepts_nothing_and_names_nobody() {
    let (booth, ann, offer) = offered(two_hours()).await;
    let mut friend = booth.signed_in("ben@example.org").await;
    let page = friend.open(&booth.link(offer)).await;
    page.says("This device is signed in with another address.");
    assert!(!page.body.contains("Ann"), "{}", page.body);
    for act in ["accept", "decline"] {
        let answer = friend.post(&format!("/offers/{offer}/{act}"), &[]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN);
        answer.says("nobody else can take it or pass it on");
    }
    // Without anybody signed in, the form's token still does not help.
    let mut visitor = booth.visitor();
    visitor.open(&booth.link(offer)).await;
    let answer = visitor.post(&format!("/offers/{offer}/accept"), &[]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    assert_eq!(booth.world.live_offer(ann.id).await.state, OfferState::Pending);
    // The code goes to the person, wherever it is asked for.
    let code = friend.post(&format!("/offers/{offer}/code"), &[]).await.location().expect("the code page");
    friend.get(&code).await.says("a…@e….org");
    assert_eq!(booth.world.told(ann.person, "code").await, 1);
    assert_eq!(friend.get(&format!("/me/entries/{}", ann.id)).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn an_altered_a_foreign_and_a_replaced_token_get_one_answer_and_are_limited() {
    let (booth, _, offer) = offered(two_hours()).await;
    let mut visitor = booth.visitor();
    let right = booth.link(offer);
    let altered = format!("{}0", &right[..right.len() - 1]);
    let altered = if altered == right { format!("{}1", &right[..right.len() - 1]) } else { altered };
    let mut bodies = Vec::new();
    for link in
        [altered, format!("/o/{}", "ab".repeat(32)), "/o/x".to_owned(), format!("/o/{}", "9".repeat(400))]
    {
        let answer = visitor.get(&link).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND);
        bodies.push(answer.text("main"));
    }
    // Given again, the offer has a new link.
    booth.revoke(offer).await;
    let deadline = booth.world.now() + Duration::hours(1);
    let world = &booth.world;
    world
        .waitlist
        .reactivate(world.event, offer, deadline, world.actor(), &crate::harness::world::reason())
        .await
        .expect("reactivated");
    let answer = visitor.get(&right).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    bodies.push(answer.text("main"));
    assert!(bodies.iter().all(|body| *body == bodies[0]), "{bodies:?}");
    let mut last = StatusCode::OK;
    for _ in 0..60 {
        last = visitor.get("/o/guess").await.status;
    }
    assert_eq!(last, StatusCode::TOO_MANY_REQUESTS);
    assert_eq!(
        visitor.get("/offers/00000000-0000-0000-0000-000000000001").await.status,
        StatusCode::NOT_FOUND
    );
    assert_eq!(visitor.get("/offers/nonsense").await.status, StatusCode::NOT_FOUND);
    world.settle().await;
}

#[tokio::test]
async fn a_cancelled_booking_says_so_at_the_same_address_and_the_place_goes_on() {
    let (booth, _, offer) = offered(two_hours()).await;
    let mut visitor = through_the_link(&booth, offer).await;
    let receipt = visitor.submit(&format!("/offers/{offer}/accept"), &[]).await;
    let cancel = receipt.attribute("a[href$=cancel]", "href").expect("a way to cancel");
    visitor.get(&cancel).await.says("Cancel your booking?");
    let page = visitor.submit(&cancel, &[]).await;
    page.says("Your booking for Spring Concert was cancelled");
    assert_eq!(visitor.post(&cancel, &[]).await.location(), Some(format!("/offers/{offer}")));
    booth.world.settle().await;
    assert_eq!(booth.count("SELECT count(*) FROM offers WHERE state = 'pending'").await, 1, "Ben is asked");
}
