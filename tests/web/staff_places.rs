//! Places and bookings at the desk: added, found by their name, retired; booked by hand, past the waitlist only by a
//! manager who says why.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::EntryState;
use fairlist::domain::offer::OfferState;
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::two_hours;

const GOODWILL: (&str, &str) = ("reason", "goodwill");

/// The name of one act, as the form holds it.
fn once(page: &Answer) -> String {
    page.attribute("input[name=once]", "value").expect("names the act")
}

/// Adds places of these names.
async fn named(desk: &Desk, mary: &mut Visitor, labels: &str) -> Answer {
    let page = mary.get(&desk.path("/places")).await;
    mary.submit(&desk.path("/places"), &[("labels", labels), ("once", &once(&page))]).await
}

#[tokio::test]
async fn many_places_are_added_at_once_and_a_form_sent_twice_adds_once() {
    let desk = Desk::with(two_hours(), 0).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let path = desk.path("/places");
    let page = mary.get(&path).await;
    let once = once(&page);
    for (count, labels, field, said) in [
        ("", "", "count", "Say how many, or name them one a line."),
        ("0", "", "count", "Add between 1 and 10000 places at a time."),
        ("10001", "", "count", "Add between 1 and 10000 places at a time."),
        ("-3", "", "count", "Enter a whole number."),
        ("some", "", "count", "Enter a whole number."),
        ("3", "A1\nA2", "labels", "You want 3 places and named 2."),
        ("", "A1\nA2\nA1", "labels", "“A1” is there twice."),
        ("", "A\u{202e}1", "labels", "One of the names holds a control character."),
        ("", "A\u{7}1", "labels", "One of the names holds a control character."),
    ] {
        let answer = mary.post(&path, &[("count", count), ("labels", labels), ("once", &once)]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{count} {labels:?}");
        assert_eq!(answer.text(&format!("#{field}-error")), said, "{count} {labels:?}: {}", answer.body);
        assert_eq!(answer.attribute("input[name=count]", "value").as_deref(), Some(count), "kept");
        assert_eq!(answer.text("textarea[name=labels]"), labels.replace('\n', " "), "kept");
    }
    let fields = [("count", "2"), ("labels", "B12\nTue 10:00, room 2"), ("once", once.as_str())];
    let page = mary.submit(&path, &fields).await;
    says(&page, "Added: 2 places. If somebody waits, they are offered to the line now.");
    says(&page, "Tue 10:00, room 2");
    let page = mary.submit(&path, &fields).await;
    says(&page, "This form was sent before: nothing was added twice.");
    says(&page, "2 places: 0 booked, 0 held, 2 open.");
    let answer = named(&desk, &mut mary, "B13\nB12").await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "One of these names is in use, or twice in this list.");
    desk.world.settle().await;
    for entry in &entries {
        assert_eq!(desk.world.state(entry.id).await, EntryState::Offered);
    }
    says(&mary.get(&path).await, "2 places: 0 booked, 2 held, 0 open.");
    assert_eq!(mary.get(&desk.path("/places?state=held")).await.texts("tbody tr").len(), 2);
    assert_eq!(mary.get(&desk.path("/places?state=open")).await.texts("tbody tr").len(), 0);
    assert_eq!(mary.get(&desk.path("/places?state=nonsense&after=x")).await.texts("tbody tr").len(), 2);
}

#[tokio::test]
async fn a_place_is_released_by_its_name_and_the_second_who_does_is_told_who_did_it_when() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    named(&desk, &mut mary, "B11\nB12").await;
    desk.world.booked("Bella", 1).await;
    desk.world.booked("Cora", 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    let found = agnes.get(&desk.path("/release?q=b12")).await;
    assert_eq!(found.texts("tbody th"), ["B12"]);
    assert_eq!(found.texts("tbody td.name"), ["Cora"]);
    says(&agnes.get(&desk.path("/release?q=nobody")).await, "No place, name or reference matches “nobody”.");
    let release = found.attribute("tbody td.tight a", "href").expect("the act");
    let act = release.split('?').next().expect("a path").to_owned();
    says(&agnes.get(&release).await, "Release B12, booked by Cora");
    mary.get(&release).await;
    let missing = agnes.post(&act, &[("note", "Rang us")]).await;
    assert_eq!(missing.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&missing, "Choose a reason.");
    assert_eq!(missing.text("textarea[name=note]"), "Rang us");

    says(&agnes.submit(&act, &[GOODWILL]).await, "Released: B12, booked by Cora. Otto is next");
    desk.world.settle().await;
    desk.world.later(Duration::minutes(3));
    let told = mary.submit(&act, &[GOODWILL]).await;
    says(&told, "Agnes cancelled this booking 3 min ago (Mon 1 Mar 2027, 10:00 (CET, UTC+01:00)).");
    says(&told, "Nothing was done twice.");
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting, "one place, one offer");

    // The place of a hold is released by taking the offer back.
    let held = agnes.get(&desk.path("/places?state=held")).await;
    let release = held.attribute("tbody td.tight a", "href").expect("the act");
    let otto = desk.world.live_offer(entries[0].id).await;
    assert!(release.starts_with(&desk.path(&format!("/offers/{}/revoke", otto.id))), "{release}");
}

#[tokio::test]
async fn retiring_evicts_nobody_and_says_by_how_many_the_event_is_over() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    named(&desk, &mut mary, "A1\nA2\nA3").await;
    desk.world.booked("Bella", 1).await;
    let entries = desk.world.all_waiting(&["Otto"]).await;
    desk.world.settle().await;
    let page = mary.get(&desk.path("/places")).await;
    says(&page, "3 places: 1 booked, 1 held, 1 open.");
    let retire: Vec<String> = page
        .body
        .split('"')
        .filter(|part| part.contains("/retire?back="))
        .map(|link| link.split('?').next().expect("a path").to_owned())
        .collect();
    assert_eq!(retire.len(), 3);
    let unreasoned = mary.post(&retire[2], &[]).await;
    assert_eq!(unreasoned.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&unreasoned, "Choose a reason.");
    let page = mary.submit(&retire[2], &[("reason", "other"), ("note", "The pillar is in the way")]).await;
    says(&page, "Retired: 1 place.");
    says(&page, "2 places: 1 booked, 1 held, 0 open.");
    says(&mary.submit(&retire[2], &[GOODWILL]).await, "Nothing was changed: they had left");
    says(&mary.get(&desk.path("/audit?act=retired")).await, "“The pillar is in the way”");

    says(&mary.get(&retire[0]).await, "Nobody loses a place");
    let page = mary.submit(&retire[0], &[GOODWILL]).await;
    says(&page, "Retired now: 0. Leaving when free: 1; by so many the event is over its capacity.");
    says(&page, "1 place: 1 booked, 1 held, 0 open.");
    says(&page, "Over by 1: so many leave the event when they become free.");
    says(&page, "leaves when free");
    says(&mary.get(&desk.path("")).await, "Over by 1");
    assert_eq!(desk.world.bookings(desk.world.person("Bella").await).await.len(), 1, "Bella keeps hers");
    desk.world.cancel_booking_of(desk.world.person("Bella").await).await;
    desk.world.settle().await;
    does_not_say(&mary.get(&desk.path("")).await, "Over by");
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Offered);
    assert_eq!(mary.get(&desk.path("/places?state=retired")).await.texts("tbody tr").len(), 2);
}

#[tokio::test]
async fn a_lower_capacity_takes_open_places_first_and_never_more_than_there_are() {
    let desk = Desk::with(two_hours(), 3).await;
    desk.world.booked("Bella", 1).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let path = desk.path("/places/lower");
    says(&mary.get(&path).await, "The event has 3 places: 1 booked, 0 held, 2 open.");
    for (count, said) in [
        ("0", "Enter a number between 1 and 3: so many places the event has."),
        ("4", "Enter a number between 1 and 3: so many places the event has."),
        ("two", "Enter a whole number."),
        ("", "Enter a whole number."),
        ("-1", "Enter a whole number."),
    ] {
        let answer = mary.post(&path, &[("count", count), ("reason", "misuse"), ("note", "no")]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{count}");
        assert_eq!(answer.text("#count-error"), said, "{count}");
        assert_eq!(answer.attribute("input[name=count]", "value").as_deref(), Some(count));
        assert_eq!(answer.attribute("input[name=reason][checked]", "value").as_deref(), Some("misuse"));
    }
    let answer = mary.post(&path, &[("count", "2")]).await;
    assert_eq!(answer.text("#reason-error"), "Choose a reason.");
    says(&mary.submit(&path, &[("count", "2"), GOODWILL]).await, "Retired: 2 places.");
    let page = mary.submit(&path, &[("count", "1"), GOODWILL]).await;
    says(&page, "Retired now: 0. Leaving when free: 1; by so many the event is over its capacity.");
    assert_eq!(desk.world.bookings(desk.world.person("Bella").await).await.len(), 1);
    desk.world.settle().await;
}

#[tokio::test]
async fn what_is_held_for_the_waitlist_is_booked_only_by_a_manager_who_says_why() {
    let desk = Desk::with(two_hours(), 1).await;
    desk.world.booked("Bella", 1).await;
    let entries = desk.world.all_waiting(&["Otto"]).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    desk.world.cancel_booking_of(desk.world.person("Bella").await).await;
    // The place came back, and nobody has looked at the line yet.
    let path = desk.path("/bookings/new");
    let page = agnes.get(&path).await;
    let once_agnes = once(&page);
    says(&page, "1 place is open.");
    assert!(page.texts("input[name=override_reservation]").is_empty());
    let fields = |once: &'static str| {
        [("name", "Wanda"), ("email", "wanda@example.org"), ("party", "1"), GOODWILL, ("once", once)]
    };
    let mut asked = fields("");
    asked[4].1 = &once_agnes;
    let refused = agnes.post(&path, &asked).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    says(&refused, "These places are held for the waitlist: whoever is next in line is offered them.");
    says(&refused, "A manager can book them all the same, with a reason.");
    assert_eq!(refused.attribute("input[name=email]", "value").as_deref(), Some("wanda@example.org"));
    let mut forced = asked.to_vec();
    forced.push(("override_reservation", "yes"));
    assert_eq!(agnes.post(&path, &forced).await.status, StatusCode::FORBIDDEN);

    let page = mary.get(&path).await;
    let once_mary = once(&page);
    let mut asked = fields("");
    asked[4].1 = &once_mary;
    let refused = mary.post(&path, &asked).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    says(&refused, "Book although they are held for the waitlist");
    let mut forced = asked.to_vec();
    forced.push(("override_reservation", "yes"));
    let unreasoned: Vec<_> = forced.iter().copied().filter(|field| field.0 != "reason").collect();
    let refused = mary.post(&path, &unreasoned).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(refused.text("#reason-error"), "Choose a reason.");
    let page = mary.submit(&path, &forced).await;
    says(&page, "Booked: 1 place for Wanda. The reference is");
    let page = mary.submit(&path, &forced).await;
    assert_eq!(page.texts("tbody tr").len(), 1, "the same form once more books nothing more");
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Waiting);
    let audit = mary.get(&desk.path("/audit?act=overridden")).await;
    assert_eq!(audit.texts("tbody tr").len(), 1);
    says(&audit, "Mary");
    says(&audit, "goodwill");
}

#[tokio::test]
async fn whoever_is_booked_by_hand_takes_their_entry_or_their_offer_along() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let otto = desk.world.live_offer(entries[0].id).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path("/bookings/new");
    let first = once(&agnes.get(&path).await);
    let asked = [("name", "Otto"), ("email", "OTTO+tickets@example.org"), ("party", "1"), GOODWILL];
    let fields: Vec<_> = asked.into_iter().chain([("once", first.as_str())]).collect();
    says(&agnes.submit(&path, &fields).await, "Booked: 1 place for Otto.");
    let offer = desk.world.offer(entries[0].id).await.expect("it");
    assert_eq!(
        (offer.id, offer.state),
        (otto.id, OfferState::Accepted),
        "the same person by another spelling"
    );
    desk.world.settle().await;

    let second = once(&agnes.get(&path).await);
    let asked = [("name", "Nina"), ("email", "nina@example.org"), ("party", "1"), GOODWILL];
    let fields: Vec<_> = asked.into_iter().chain([("once", second.as_str())]).collect();
    let refused = agnes.post(&path, &fields).await;
    assert_eq!(refused.status, StatusCode::CONFLICT);
    assert_eq!(
        refused.text("#party-error"),
        "No place is open, and 1 is needed. Release one first, or add places."
    );
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting, "nothing was lost");
    desk.world.rule(|policy| policy.window = None).await;
    desk.world.add_places(1).await;
    says(&agnes.submit(&path, &fields).await, "Booked: 1 place for Nina.");
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Accepted, "she waits no longer");
    desk.world.settle().await;
}

#[tokio::test]
async fn bookings_are_found_cancelled_and_kept_in_sight() {
    let desk = Desk::with(two_hours(), 2).await;
    let reference = desk.world.booked("Bella", 1).await;
    desk.world.booked("Cora", 1).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let mut viewer = desk.at_work("Viola", Role::Viewer).await;
    let page = agnes.get(&desk.path("/bookings")).await;
    says(&page, "2 places booked.");
    for q in [reference.as_str(), &reference.to_lowercase(), "bell", "%20Bella%20"] {
        let found = agnes.get(&desk.path(&format!("/bookings?q={q}"))).await;
        assert_eq!(found.texts("tbody th"), ["Bella"], "{q}");
    }
    for nothing in ["%25", "_", "nobody"] {
        let found = agnes.get(&desk.path(&format!("/bookings?q={nothing}"))).await;
        says(&found, "Nothing found");
    }
    assert_eq!(agnes.get(&desk.path("/bookings?state=x&before=y")).await.texts("tbody tr").len(), 2);
    assert!(
        viewer.get(&desk.path("/bookings")).await.texts("tbody a").is_empty(),
        "a viewer cancels nothing"
    );

    let found = agnes.get(&desk.path("/bookings?q=bella")).await;
    let cancel = found.attribute("tbody td.tight a", "href").expect("the act");
    let form = agnes.get(&cancel).await;
    says(&form, &format!("The booking {reference} of Bella is cancelled, and they are told by mail."));
    let back = form.attribute("input[name=back]", "value").expect("the view");
    let act = cancel.split('?').next().expect("a path");
    assert_eq!(viewer.post(act, &[GOODWILL]).await.status, StatusCode::FORBIDDEN);
    let answer = agnes.post(act, &[GOODWILL, ("back", &back)]).await;
    assert_eq!(answer.location().as_deref(), Some(back.as_str()), "back to the same view");
    says(&agnes.get(&desk.path("/bookings")).await, "1 place booked.");
    let cancelled = agnes.get(&desk.path("/bookings?state=cancelled")).await;
    says(&cancelled, "1 booking was cancelled.");
    assert_eq!(cancelled.texts("tbody th"), ["Bella"]);
    assert_eq!(desk.world.told(desk.world.person("Bella").await, "booking_cancelled").await, 1);
    desk.world.settle().await;
}

#[tokio::test]
async fn what_is_typed_wrongly_into_a_booking_is_said_at_its_field() {
    let desk = Desk::with(Policy::first(), 2).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let path = desk.path("/bookings/new");
    let page = agnes.get(&path).await;
    let once = once(&page);
    for (name, value, said) in [
        ("name", "", "Enter a name."),
        ("name", "Ann\u{202e}", "turns text around"),
        ("name", "Ann\nLee", "line break"),
        ("email", "", "Enter an email address."),
        ("email", "ann@localhost", "a name like example.org has a dot"),
        ("email", "ann@[127.0.0.1]", "not a number"),
        ("party", "0", "Enter a number between 1 and 100."),
        ("party", "10000", "Enter a number between 1 and 100."),
        ("party", "-1", "Enter a number between 1 and 100."),
        ("party", "two", "Enter a whole number."),
        ("party", "3", "Only 2 places are open, and 3 places are needed."),
    ] {
        let mut fields = vec![("name", "Ann"), ("email", "ann@example.org"), ("party", "1"), GOODWILL];
        fields.retain(|field| field.0 != name);
        fields.extend([(name, value), ("once", once.as_str())]);
        let answer = agnes.post(&path, &fields).await;
        assert!(answer.status.is_client_error(), "{name}={value}: {}", answer.status);
        assert!(answer.text(&format!("#{name}-error")).contains(said), "{name}={value}: {}", answer.body);
        let kept = answer.attribute(&format!("input[name={name}]"), "value").expect("a field");
        assert_eq!(kept.replace('\n', ""), value.replace('\n', ""), "{name}");
        assert_eq!(answer.attribute("input[name=reason][checked]", "value").as_deref(), Some("goodwill"));
    }
    let stale = agnes
        .post(
            &path,
            &[("name", "Ann"), ("email", "ann@example.org"), ("party", "1"), GOODWILL, ("once", "x")],
        )
        .await;
    assert_eq!(stale.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&stale, "Open the form again.");
    let bookings: i64 = sqlx::query_scalar("SELECT count(*) FROM bookings")
        .fetch_one(desk.world.database.sql())
        .await
        .expect("bookings");
    assert_eq!(bookings, 0);
}

/// What was not saved is not said to be, and nobody is told of it. (Eventra#13382: people were "promoted" on the screen
/// while the larger capacity was never stored)
#[tokio::test]
async fn places_that_were_not_saved_promote_and_tell_nobody() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    named(&desk, &mut mary, "A1").await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    for labels in ["A2\nA1", "A2\nA2", "A\u{202e}2"] {
        let answer = named(&desk, &mut mary, labels).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{labels:?}");
        does_not_say(&answer, "Added");
        says(&answer, "Nothing was saved yet.");
        says(&answer, "1 place: 0 booked, 1 held, 0 open.");
    }
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting);
    assert_eq!(desk.world.told(entries[1].person, "offer").await, 0);
}

/// The same where the database refuses at the very end: what was decided is undone, and the page says that it failed.
#[tokio::test]
async fn places_that_fail_to_be_saved_at_the_last_moment_promote_and_tell_nobody() {
    let desk = Desk::with(two_hours(), 0).await;
    let nina = desk.world.waiting("Nina", 1).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let sql = desk.world.database.sql();
    for statement in [
        "CREATE FUNCTION refused() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'the disk is full'; END $$",
        "CREATE CONSTRAINT TRIGGER at_commit AFTER INSERT ON places DEFERRABLE INITIALLY DEFERRED FOR EACH ROW
         EXECUTE FUNCTION refused()",
    ] {
        sqlx::query(statement).execute(sql).await.expect(statement);
    }
    let answer = named(&desk, &mut mary, "A1").await;
    assert_eq!(answer.status, StatusCode::INTERNAL_SERVER_ERROR);
    does_not_say(&answer, "Added");
    does_not_say(&answer, "disk");
    desk.world.settle().await;
    let page = mary.get(&desk.path("/places")).await;
    does_not_say(&page, "Added");
    assert_eq!(desk.world.state(nina.id).await, EntryState::Waiting);
    assert_eq!(desk.world.told(nina.person, "offer").await, 0);
    let releases: i64 =
        sqlx::query_scalar("SELECT count(*) FROM releases").fetch_one(sql).await.expect("releases");
    assert_eq!(releases, 0);

    sqlx::query("DROP TRIGGER at_commit ON places").execute(sql).await.expect("room again");
    says(&named(&desk, &mut mary, "A1").await, "Added: 1 place.");
    desk.world.settle().await;
    assert_eq!(desk.world.told(nina.person, "offer").await, 1);
}

/// While people wait, the public sees no free place, and no number is ever below nothing. (ifinavet/yggdrasil#263)
#[tokio::test]
async fn a_shrunken_event_with_people_waiting_is_full_for_the_public() {
    let desk = Desk::with(Policy { party_limit: Some(4), ..two_hours() }, 3).await;
    desk.world.booked("Bella", 2).await;
    desk.world.booked("Cora", 1).await;
    desk.world.waiting("Otto", 2).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let mut visitor = Visitor::new(&desk.router);
    let lower = desk.path("/places/lower");
    mary.get(&lower).await;
    mary.submit(&lower, &[("count", "2"), GOODWILL]).await;
    let page = mary.get(&desk.path("")).await;
    says(&page, "1 booked 0 held 0 open 2 over of 1 place");
    says(&page, "Over by 2");
    for path in ["/", "/e/spring"] {
        let page = visitor.get(path).await;
        says(&page, "Full");
        does_not_say(&page, "-");
        does_not_say(&page, "free");
    }
    // A place comes back that is too little for the head: it is open, and nobody else's.
    desk.world.later(Duration::minutes(1));
    desk.world.cancel_booking_of(desk.world.person("Cora").await).await;
    desk.world.add_places(1).await;
    desk.world.settle().await;
    says(&mary.get(&desk.path("")).await, "1 open");
    for path in ["/", "/e/spring"] {
        let page = visitor.get(path).await;
        does_not_say(&page, "1 place is free");
        does_not_say(&page, "1 place free");
        does_not_say(&page, "-1");
    }
    says(&visitor.get("/e/spring").await, "held for the waitlist");
}
