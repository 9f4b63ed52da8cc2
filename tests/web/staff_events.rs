//! Events as managers make and run them: created, given another time, published; the list opened, frozen, closed; the
//! whole cancelled and restored.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::event::{EventState, ListState};
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::two_hours;

const GOODWILL: (&str, &str) = ("reason", "goodwill");

/// What a form of settings holds, with some of it changed.
fn settings<'a>(changed: &[(&'a str, &'a str)]) -> Vec<(&'a str, &'a str)> {
    let mut fields = vec![
        ("name", "Spring Concert"),
        ("venue", "Great Hall"),
        ("description", "Bring a chair.\n\nRain or shine."),
        ("zone", "Europe/Berlin"),
        ("starts_at", "2027-03-28T11:00"),
        ("list_opens_at", ""),
        ("list_freezes_at", ""),
    ];
    for (name, value) in changed {
        match fields.iter_mut().find(|field| field.0 == *name) {
            Some(field) => field.1 = value,
            None => fields.push((name, value)),
        }
    }
    fields
}

/// What stands in the field now.
fn kept(answer: &Answer, name: &str) -> String {
    match name {
        "description" => answer.text("textarea[name=description]"),
        name => answer.attribute(&format!("input[name={name}]"), "value").expect("a field"),
    }
}

/// Nina is behind him, Mary runs the house, and a visitor looks on.
async fn otto_is_offered_the_only_place() -> (Desk, Vec<Entry>, Visitor, Visitor) {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let mary = desk.at_work("Mary", Role::Manager).await;
    let visitor = Visitor::new(&desk.router);
    (desk, entries, mary, visitor)
}

#[tokio::test]
async fn an_event_is_made_as_a_draft_given_places_and_published() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let mut visitor = Visitor::new(&desk.router);
    says(&mary.get("/staff/events/new").await, "It stays a draft until you publish it.");
    let fields = settings(&[("name", "Žofia’s Sommerfest"), ("slug", "")]);
    let answer = mary.post("/staff/events/new", &fields).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    let places = answer.location().expect("its places");
    let page = mary.get(&places).await;
    says(
        &page,
        "Created as a draft. Add its places and say by which rule they are offered; then publish it.",
    );
    says(&page, "The event has no places yet.");
    let public = "/e/zofias-sommerfest";
    assert_eq!(visitor.get(public).await.status, StatusCode::NOT_FOUND, "a draft is nobody's business");

    let once = page.attribute("input[name=once]", "value").expect("names the act");
    let page = mary.submit(&places, &[("labels", "A1\nA2"), ("once", &once)]).await;
    says(&page, "Added: 2 places.");
    let publish = places.replace("/places", "/state/publish");
    says(&mary.get(&publish).await, "Žofia’s Sommerfest appears in the public list of events.");
    says(&mary.submit(&publish, &[GOODWILL]).await, "Published: people can see the event.");
    says(&mary.submit(&publish, &[GOODWILL]).await, "It was so before: nothing was changed.");
    says(&visitor.get(public).await, "2 places are free.");
    says(&visitor.get("/").await, "Žofia’s Sommerfest");

    // A draft that was cancelled is a draft again, and nobody has seen it.
    let draft =
        mary.post("/staff/events/new", &settings(&[("name", "Secret")])).await.location().expect("made");
    let to = |act: &str| draft.replace("/places", &format!("/state/{act}"));
    says(&mary.submit(&to("cancel"), &[GOODWILL]).await, "Cancelled.");
    says(&mary.submit(&to("restore"), &[GOODWILL]).await, "Restored. Back on the list: 0 people.");
    says(&mary.get(&to("publish")).await, "Secret draft");
    assert_eq!(visitor.get("/e/secret").await.status, StatusCode::NOT_FOUND);

    // The same name again needs another address, and nothing that was typed is lost.
    let answer = mary.post("/staff/events/new", &fields).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Another event has this address. Choose another.");
    assert_eq!(kept(&answer, "name"), "Žofia’s Sommerfest");
    desk.world.settle().await;
}

#[tokio::test]
async fn what_is_wrong_with_an_event_is_said_at_its_field_and_everything_typed_is_kept() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let long = "x".repeat(201);
    let essay = "x".repeat(5_001);
    for path in ["/staff/events/new".to_owned(), desk.path("/settings")] {
        mary.get(&path).await;
        for (name, value, said) in [
            ("name", "", "Enter the event’s name."),
            (
                "name",
                long.as_str(),
                "Use at most 200 characters, on one line, none of which turns text around.",
            ),
            (
                "name",
                "Two\nlines",
                "Use at most 200 characters, on one line, none of which turns text around.",
            ),
            ("name", "Spring\u{202e}", "none of which turns text around."),
            ("venue", "Hall\u{2066}", "none of which turns text around."),
            (
                "venue",
                long.as_str(),
                "Use at most 200 characters, on one line, none of which turns text around.",
            ),
            ("description", essay.as_str(), "Use at most 5,000 characters."),
            ("zone", "Mars/Olympus", "Choose a time zone, such as Europe/Berlin."),
            ("starts_at", "soon", "This is not a date and time. Write it as 2027-03-30 14:05."),
            ("starts_at", "2027-03-28T02:30", "02:30 on 28 Mar 2027 does not exist in Europe/Berlin"),
            ("starts_at", "2027-10-31T02:30", "02:30 on 31 Oct 2027 comes twice in Europe/Berlin"),
            ("list_opens_at", "2027-03-28T02:00", "02:00 on 28 Mar 2027 does not exist in Europe/Berlin"),
            ("list_freezes_at", "2027-10-31T02:00", "02:00 on 31 Oct 2027 comes twice in Europe/Berlin"),
            ("list_freezes_at", "20270-01-01T00:00", "This is not a date and time."),
        ] {
            let answer = mary.post(&path, &settings(&[(name, value)])).await;
            assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{path} {name}={value}");
            assert!(answer.text(&format!("#{name}-error")).contains(said), "{path} {name}: {}", answer.body);
            assert_eq!(kept(&answer, name).replace('\n', " "), value.replace('\n', " "), "{path} {name}");
            let other = if name == "venue" { ("zone", "Europe/Berlin") } else { ("venue", "Great Hall") };
            assert_eq!(kept(&answer, other.0), other.1, "{path}: the other fields are kept too");
        }
        let order = [("list_opens_at", "2027-03-10T10:00"), ("list_freezes_at", "2027-03-10T10:00")];
        let answer = mary.post(&path, &settings(&order)).await;
        assert!(answer.text("#list_freezes_at-error").contains("The list must freeze after it opens."));
    }
    for slug in ["Ünter", "-a", "a b", &"a".repeat(61)] {
        let answer = mary.post("/staff/events/new", &settings(&[("slug", slug)])).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        assert!(answer.text("#slug-error").contains("Use 1 to 60 small letters"), "{slug}");
        assert_eq!(kept(&answer, "slug"), slug);
    }
    let unnamed = mary.post("/staff/events/new", &settings(&[("name", "李")])).await;
    assert!(unnamed.text("#slug-error").contains("such as spring-concert"), "no address can be made of it");
    let events: i64 = sqlx::query_scalar("SELECT count(*) FROM events")
        .fetch_one(desk.world.database.sql())
        .await
        .expect("events");
    assert_eq!(events, 1, "none of these was made");
}

#[tokio::test]
async fn the_second_who_saves_the_same_form_sees_a_conflict_and_keeps_what_they_typed() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let mut boris = desk.at_work("Boris", Role::Manager).await;
    let path = desk.path("/settings");
    let version = |page: &Answer| page.attribute("input[name=form_version]", "value").expect("a version");
    let seen = (version(&mary.get(&path).await), version(&boris.get(&path).await));
    let fields = settings(&[("venue", "Garden"), ("form_version", &seen.0)]);
    says(&mary.submit(&path, &fields).await, "Saved.");

    let answer = boris.post(&path, &settings(&[("venue", "Cellar"), ("form_version", &seen.1)])).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    says(&answer, "Somebody saved this form while you had it open: nothing of yours was saved.");
    assert_eq!(kept(&answer, "venue"), "Cellar");
    let venue = async || desk.world.database.db().event(desk.world.event).await.expect("the event").venue;
    assert_eq!(venue().await, "Garden");
    // Saving again is an overwrite on purpose.
    let again = version(&answer);
    let fields = settings(&[("venue", "Cellar"), ("form_version", &again)]);
    says(&boris.submit(&path, &fields).await, "Saved.");
    assert_eq!(venue().await, "Cellar");
    let nonsense = boris.post(&path, &settings(&[("form_version", "x")])).await;
    assert_eq!(nonsense.status, StatusCode::CONFLICT, "a form without its version saves nothing");
}

#[tokio::test]
async fn an_earlier_start_moves_the_deadlines_behind_it_and_says_how_many() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto"]).await;
    desk.world.settle().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let page = mary.get(&desk.path("/settings")).await;
    let version = page.attribute("input[name=form_version]", "value").expect("a version");
    let fields = settings(&[("starts_at", "2027-03-01T11:30"), ("form_version", &version)]);
    let page = mary.submit(&desk.path("/settings"), &fields).await;
    says(&page, "Saved. One deadline was moved to the new start, and its person is told.");
    let offer = desk.world.live_offer(entries[0].id).await;
    assert_eq!(offer.expires_at.to_rfc3339(), "2027-03-01T10:30:00+00:00", "Berlin is an hour ahead");
    assert_eq!(desk.world.told(entries[0].person, "start_moved").await, 1);
    desk.world.settle().await;
}

#[tokio::test]
async fn a_start_in_the_past_is_refused_for_a_draft_and_pointed_out_for_what_is_public() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto"]).await;
    desk.world.settle().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let version = |page: &Answer| page.attribute("input[name=form_version]", "value").expect("a version");
    let past = ("starts_at", "2027-03-01T10:00");
    let refused = "This is in the past: nobody could be offered a place.";
    mary.get("/staff/events/new").await;
    let answer = mary.post("/staff/events/new", &settings(&[("name", "Matinee"), past])).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "it is ten o'clock now");
    assert!(answer.text("#starts_at-error").contains(refused), "{}", answer.body);
    assert_eq!(kept(&answer, "starts_at"), past.1);

    let soon = settings(&[("name", "Matinee"), ("starts_at", "2027-03-01T10:01")]);
    let draft = mary.post("/staff/events/new", &soon).await.location().expect("made");
    let to = |what: &str| draft.replace("/places", what);
    let form = version(&mary.get(&to("/settings")).await);
    let answer = mary.post(&to("/settings"), &settings(&[past, ("form_version", &form)])).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert!(answer.text("#starts_at-error").contains(refused), "{}", answer.body);
    desk.world.later(Duration::minutes(1));
    let page = mary.submit(&to("/state/publish"), &[GOODWILL]).await;
    says(&page, "Not published: the event’s start is in the past. Enter when it will start, and save.");
    says(&page, "The event is draft");

    let form = version(&mary.get(&desk.path("/settings")).await);
    let page = mary.submit(&desk.path("/settings"), &settings(&[past, ("form_version", &form)])).await;
    says(&page, "Saved. The start is in the past: nothing is offered any more.");
    desk.world.settle().await;
    assert_eq!(desk.world.told(entries[0].person, "revoked").await, 1, "Otto's offer is over");
    says(&mary.get(&desk.path("")).await, "started");
}

#[tokio::test]
async fn a_list_is_frozen_closed_and_opened_again_and_everybody_keeps_the_rank() {
    let (desk, entries, mut mary, mut visitor) = otto_is_offered_the_only_place().await;
    let to = |act: &str| desk.path(&format!("/state/{act}"));
    let list = async || desk.world.database.db().event(desk.world.event).await.expect("the event").list;

    says(&mary.get(&desk.path("/settings")).await, "Freeze the list Close the list Cancel the event");
    says(&mary.get(&to("freeze-list")).await, "Those who wait (2 people) keep their rank");
    says(&mary.submit(&to("freeze-list"), &[GOODWILL]).await, "The list is frozen.");
    says(&mary.submit(&to("freeze-list"), &[GOODWILL]).await, "The list was frozen before");
    assert!(visitor.get("/e/spring").await.texts("#join").is_empty(), "nobody new");
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Offered, "whoever waits is served");

    let page = mary.get(&to("close-list")).await;
    says(&page, "1 pending offer is taken back, and its person is told.");
    let refused = mary.post(&to("close-list"), &[("reason", "other"), ("note", "")]).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "Say in the note what the other reason is.");
    assert_eq!(list().await, ListState::Frozen);
    let page = mary.submit(&to("close-list"), &[GOODWILL]).await;
    says(&page, "The list is closed. One offer was taken back, and its person is told.");
    assert_eq!(desk.world.told(entries[0].person, "list_closed").await, 1);
    assert_eq!(desk.world.told(entries[1].person, "list_closed").await, 0, "Nina had none");
    desk.world.settle().await;
    says(&mary.get(&desk.path("")).await, "Nothing is offered: the list is closed.");

    says(&mary.submit(&to("open-list"), &[GOODWILL]).await, "The list is open.");
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Offered, "Otto kept the first place");
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting);
}

#[tokio::test]
async fn a_cancelled_event_takes_its_offers_back_tells_everybody_and_can_be_restored() {
    let (desk, entries, mut mary, mut visitor) = otto_is_offered_the_only_place().await;
    let to = |act: &str| desk.path(&format!("/state/{act}"));
    let page = mary.get(&to("cancel")).await;
    says(&page, "1 pending offer is taken back.");
    says(&page, "Everybody on the list (2 people) is told that the event is cancelled.");
    let unreasoned = mary.post(&to("cancel"), &[]).await;
    assert_eq!(unreasoned.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&unreasoned, "Choose a reason.");

    let page = mary.submit(&to("cancel"), &[("reason", "event_changed")]).await;
    says(&page, "Cancelled. Offers taken back: 1. Told that the event is cancelled: 2 people.");
    for entry in &entries {
        assert_eq!(desk.world.state(entry.id).await, EntryState::Closed);
        assert_eq!(desk.world.told(entry.person, "event_cancelled").await, 1);
    }
    says(&visitor.get("/e/spring").await, "This event was cancelled.");
    says(&mary.submit(&to("cancel"), &[GOODWILL]).await, "It was so before: nothing was changed.");
    says(&mary.submit(&to("open-list"), &[GOODWILL]).await, "its list cannot be changed");
    says(&mary.submit(&to("publish"), &[GOODWILL]).await, "The event is cancelled: that cannot be done now.");
    let page = mary.get(&desk.path("/settings")).await;
    let version = page.attribute("input[name=form_version]", "value").expect("a version");
    let refused = mary.post(&desk.path("/settings"), &settings(&[("form_version", &version)])).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "The event is cancelled: restore it first.");

    says(&mary.submit(&to("restore"), &[GOODWILL]).await, "Restored. Back on the list: 2 people.");
    says(&mary.submit(&to("restore"), &[GOODWILL]).await, "It was so before: nothing was changed.");
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Offered, "Otto is first again");
    assert_eq!(desk.world.state(entries[1].id).await, EntryState::Waiting);
    does_not_say(&visitor.get("/e/spring").await, "cancelled");
}

#[tokio::test]
async fn only_managers_run_events_and_none_of_another_house() {
    let desk = Desk::with(Policy::first(), 1).await;
    let place: uuid::Uuid = sqlx::query_scalar("SELECT id FROM places")
        .fetch_one(desk.world.database.sql())
        .await
        .expect("a place");
    let retire = format!("/places/{place}/retire");
    let managers = [
        "/settings",
        "/state/publish",
        "/state/open-list",
        "/state/freeze-list",
        "/state/close-list",
        "/state/cancel",
        "/state/restore",
        "/places/lower",
        &retire,
        "/import",
    ];
    let written = async || -> i64 {
        sqlx::query_scalar("SELECT audit_seq FROM events")
            .fetch_one(desk.world.database.sql())
            .await
            .expect("the head")
    };
    let before = written().await;
    for role in [Role::Viewer, Role::Agent] {
        let mut visitor = desk.at_work(&format!("Staff{role}"), role).await;
        for below in managers {
            let path = desk.path(below);
            assert_eq!(visitor.get(&path).await.status, StatusCode::FORBIDDEN, "{role} GET {path}");
            let posted = visitor.post(&path, &[GOODWILL]).await;
            assert!(
                matches!(posted.status, StatusCode::FORBIDDEN | StatusCode::UNSUPPORTED_MEDIA_TYPE),
                "{role} POST {path}: {}",
                posted.status
            );
        }
        for below in ["/places", "/policy"] {
            let page = visitor.get(&desk.path(below)).await;
            assert_eq!(page.status, StatusCode::OK, "{role} sees {below}");
            assert!(page.texts("main form[method=post]").is_empty(), "{role} is shown no form on {below}");
            let posted = visitor.post(&desk.path(below), &[GOODWILL, ("count", "1")]).await;
            assert_eq!(posted.status, StatusCode::FORBIDDEN, "{role} POST {below}");
        }
        assert_eq!(visitor.get("/staff/events/new").await.status, StatusCode::FORBIDDEN);
        let made = visitor.post("/staff/events/new", &settings(&[])).await;
        assert_eq!(made.status, StatusCode::FORBIDDEN);
        let books = visitor.get(&desk.path("/bookings/new")).await.status;
        assert_eq!(books, if role == Role::Viewer { StatusCode::FORBIDDEN } else { StatusCode::OK });
    }
    let mut stranger = desk.at_work_for("Other House", "Stranger", Role::Owner).await;
    stranger.get("/staff").await;
    let others = ["/places", "/policy", "/bookings", "/bookings/new", "/audit", "/release", "/messages"];
    for below in managers.iter().copied().chain(others) {
        let path = desk.path(below);
        assert_eq!(stranger.get(&path).await.status, StatusCode::NOT_FOUND, "GET {path}");
        let posted = stranger.post(&path, &[GOODWILL]).await.status;
        assert!(
            matches!(
                posted,
                StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED | StatusCode::UNSUPPORTED_MEDIA_TYPE
            ),
            "POST {path}: {posted}"
        );
    }
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    for unknown in ["/state/dance", "/places/nonsense/retire", "/state/publish/now"] {
        assert_eq!(mary.get(&desk.path(unknown)).await.status, StatusCode::NOT_FOUND, "{unknown}");
    }
    assert_eq!(written().await, before, "nothing was done");
    let event = desk.world.database.db().event(desk.world.event).await.expect("the event");
    assert_eq!((event.state, event.list), (EventState::Published, ListState::Open));
}
