//! What places are and what people want of them, through the pages: the organizer names it, staff say it of places,
//! people choose it when they join, and everybody reads it where it matters.

use axum::http::StatusCode;
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::waitlist::join::ConfirmOutcome;

use crate::harness::desk::{Desk, says};
use crate::harness::visitor::Visitor;
use crate::harness::world::two_hours;

async fn version(desk: &Desk) -> String {
    desk.world.database.db().event(desk.world.event).await.expect("the event").form_version.to_string()
}

/// Names the area and the price.
async fn name_attributes(desk: &Desk, mary: &mut Visitor) {
    let page = mary.get(&desk.path("/attributes")).await;
    says(&page, "Nothing is said of the places");
    let area = [("new.label", "Area"), ("new.measure", "choice"), ("new.choices", "Stalls\nBalcony")];
    let price = [
        ("area.label", "Area"),
        ("area.choices", "Stalls\nBalcony"),
        ("new.label", "Price"),
        ("new.measure", "number"),
    ];
    for fields in [&area[..], &price[..]] {
        let form_version = version(desk).await;
        let mut fields = fields.to_vec();
        fields.push(("form_version", &form_version));
        let answer = mary.submit(&desk.path("/attributes"), &fields).await;
        says(&answer, "Saved. Now say of each place what it is.");
    }
}

#[tokio::test]
async fn an_organizer_names_what_matters_and_somebody_is_offered_what_they_chose() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    name_attributes(&desk, &mut mary).await;
    // Somebody joins and wants the balcony, for at most 40.
    let mut ada = Visitor::new(&desk.router);
    let page = ada.get("/e/spring").await;
    assert_eq!(page.texts("form[action$='/join'] legend"), ["Area"]);
    let typed = [
        ("name", "Ada"),
        ("email", "ada@example.org"),
        ("party", "1"),
        ("want.area.Balcony", "on"),
        ("want.price.max", "forty"),
    ];
    let answer = ada.post("/e/spring/join", &typed).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Enter a number with at most two decimals, such as 45 or 12.50.");
    assert_eq!(answer.attribute("input[name='want.price.max']", "value").as_deref(), Some("forty"));
    assert!(
        answer.attribute("input[name='want.area.Balcony'][checked]", "id").is_some(),
        "what was chosen stays"
    );
    let typed: Vec<(&str, &str)> =
        typed.into_iter().map(|(name, value)| (name, if value == "forty" { "40" } else { value })).collect();
    let answer = ada.post("/e/spring/join", &typed).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    let person = desk.world.person("Ada").await;
    let confirmed = desk.world.waitlist.confirm(desk.world.event, person).await.expect("an answer");
    let ConfirmOutcome::Confirmed(entry) = confirmed else { panic!("{confirmed:?}") };

    // Staff read it, and say of the places what they are.
    let page = mary.get(&desk.path(&format!("/entries/{entry}"))).await;
    says(&page, "Area: Balcony; Price: at most 40");
    let page = mary.get(&desk.path("/places")).await;
    let once = page.attribute("input[name=once]", "value").expect("a name for the act");
    let stalls =
        [("count", "1"), ("labels", ""), ("once", &once), ("said.area", "Stalls"), ("said.price", "30")];
    mary.post(&desk.path("/places"), &stalls).await;
    desk.world.settle().await;
    assert!(desk.world.offer(entry).await.is_none());
    let place = desk.world.database.db().open_places(desk.world.event, 1).await.expect("places")[0].id;
    let page = mary.get(&desk.path(&format!("/places/{place}"))).await;
    says(&page, "Area: Stalls, Price: 30");
    let describe = desk.path(&format!("/places/{place}/describe"));
    let page = mary.get(&describe).await;
    assert_eq!(
        page.attribute("select[name='said.area'] option[selected]", "value").as_deref(),
        Some("Stalls")
    );
    let answer = mary.post(&describe, &[("said.area", "Roof"), ("reason", "staff_mistake")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Choose one of these.");
    let balcony = [("said.area", "Balcony"), ("said.price", "30"), ("reason", "staff_mistake")];
    says(&mary.submit(&describe, &balcony).await, "Saved.");
    desk.world.settle().await;

    // The offer says what it is, to her and to staff.
    let offer = desk.world.live_offer(entry).await;
    let mail = desk.world.facts(person, "offer").await;
    assert_eq!(mail["labels"][0], "place 1 (Area: Balcony, Price: 30)");
    says(&mary.get(&desk.path(&format!("/offers/{}", offer.id))).await, "Area: Balcony, Price: 30");
    // What somebody was promised stays as it is.
    let promised = mary.submit(&describe, &[("said.area", "Stalls"), ("reason", "staff_mistake")]).await;
    says(&promised, "somebody was promised this place as it is");
    let wants = desk.path(&format!("/entries/{entry}/wants"));
    let offered = mary
        .submit(&wants, &[("party", "1"), ("want.area.Stalls", "on"), ("reason", "customer_asked")])
        .await;
    says(&offered, "they have an offer of what they wanted");
}

#[tokio::test]
async fn what_somebody_wants_is_changed_by_staff_with_a_reason_and_nothing_in_use_goes() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    name_attributes(&desk, &mut mary).await;
    let entry = desk.world.waiting("Ben", 1).await;
    let wants = desk.path(&format!("/entries/{}/wants", entry.id));
    let answer = mary.post(&wants, &[("party", "1"), ("want.area.Stalls", "on")]).await;
    assert_eq!(answer.text("#reason-error"), "Choose a reason.");
    let fields = [("party", "1"), ("want.area.Stalls", "on"), ("reason", "customer_asked")];
    says(&mary.submit(&wants, &fields).await, "They keep their place in the line.");
    says(&mary.submit(&wants, &fields).await, "they asked for this before");
    let form_version = version(&desk).await;
    let gone = [
        ("form_version", form_version.as_str()),
        ("area.label", "Area"),
        ("area.choices", "Balcony\nBox"),
        ("price.label", "Price"),
    ];
    let answer = mary.post(&desk.path("/attributes"), &gone).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    says(&answer, "Area: Stalls");
    says(&answer, "cannot go: places have it, or people on the list want it.");
    let stale = [("form_version", "0"), ("area.label", "Where"), ("area.choices", "Stalls\nBalcony")];
    let answer =
        mary.post(&desk.path("/attributes"), &[&stale[..], &[("price.label", "Price")]].concat()).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    says(&answer, "Somebody else changed this event since.");
    let empty = [("form_version", form_version.as_str()), ("new.label", "Day"), ("new.measure", "choice")];
    let both = [("area.label", ""), ("area.choices", "Stalls\nBalcony"), ("price.label", "Price")];
    let answer = mary.post(&desk.path("/attributes"), &[&empty[..], &both[..]].concat()).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&answer, "Name between 2 and 50 choices");
    // Who only looks does not change it.
    let mut vera = desk.at_work("Vera", Role::Viewer).await;
    assert_eq!(vera.get(&desk.path("/attributes")).await.status, StatusCode::FORBIDDEN);
    assert_eq!(vera.get(&wants).await.status, StatusCode::FORBIDDEN);
}

#[tokio::test]
async fn a_visitor_waits_for_what_they_want_although_other_places_are_free() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    name_attributes(&desk, &mut mary).await;
    let page = mary.get(&desk.path("/places")).await;
    let once = page.attribute("input[name=once]", "value").expect("a name for the act");
    let stalls = [("count", "1"), ("once", &once), ("said.area", "Stalls")];
    mary.post(&desk.path("/places"), &stalls).await;
    desk.world.settle().await;
    let mut ada = Visitor::new(&desk.router);
    let page = ada.get("/e/spring").await;
    says(&page, "Is what you want not free?");
    let who = [("name", "Ada"), ("email", "ada@example.org"), ("party", "1")];
    // What is free is not joined for, and what is not free is not booked.
    let answer = ada.post("/e/spring/join", &[&who[..], &[("want.area.Stalls", "on")]].concat()).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    says(&answer, "there are free places now");
    let answer = ada.post("/e/spring/book", &[&who[..], &[("want.area.Balcony", "on")]].concat()).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    let answer = ada.post("/e/spring/join", &[&who[..], &[("want.area.Balcony", "on")]].concat()).await;
    assert_eq!(answer.status, StatusCode::SEE_OTHER, "{}", answer.body);
    assert!(answer.location().is_some_and(|page| page.starts_with("/code/")));
    // Whoever is on the list is answered alike.
    let mut again = Visitor::new(&desk.router);
    again.get("/e/spring").await;
    let answer = again.post("/e/spring/join", &[&who[..], &[("want.area.Stalls", "on")]].concat()).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
}

#[tokio::test]
async fn who_is_ahead_and_wants_something_else_is_named_beside_who_is_next() {
    let desk = Desk::with(Policy { window: None, ..two_hours() }, 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    name_attributes(&desk, &mut mary).await;
    let line = desk.world.all_waiting(&["Ada", "Ben"]).await;
    let wants = desk.path(&format!("/entries/{}/wants", line[0].id));
    mary.get(&wants).await;
    let asked = [("party", "1"), ("want.area.Balcony", "on"), ("reason", "customer_asked")];
    says(&mary.submit(&wants, &asked).await, "Saved.");
    let page = mary.get(&desk.path("/places")).await;
    let once = page.attribute("input[name=once]", "value").expect("a name for the act");
    mary.post(&desk.path("/places"), &[("count", "1"), ("once", &once), ("said.area", "Stalls")]).await;
    desk.world.settle().await;
    let page = mary.get(&desk.path("")).await;
    says(
        &page,
        "First in line: Ben, 1 place, place 1 (Area: Stalls), joined first of those who want what is open",
    );
    says(&page, "Ada is ahead and waits for what they want: too little of it is open.");
    let place = page.attribute("#event-live a[href*='/places/']", "href").expect("the place");
    says(&mary.get(&format!("{place}/describe")).await, "What is place 1?");
}
