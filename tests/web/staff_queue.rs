//! What staff are shown: what needs them, who is next and why, the queue with its true positions, an entry's history.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::policy::{Fit, Policy};
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, plain, says};
use crate::harness::world::{reason, two_hours};

#[tokio::test]
async fn the_events_page_says_who_is_next_and_its_figures_add_up() {
    let desk = Desk::with(two_hours(), 3).await;
    desk.world.booked("Bella", 2).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    says(&agent.get(&desk.path("")).await, "Nobody is waiting: 1 place can be booked by anybody.");
    desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let page = agent.get(&desk.path("")).await;
    says(
        &page,
        "Next offer: Nina, 1 place, joined first (1 Mar 2027, 10:00), as soon as 1 place comes back.",
    );
    says(&page, "2 booked 1 held 0 open of 3 places");
    says(&page, "3 of 3");
    says(&page, "1 offer was made");
    says(&page, "That is current");
    says(
        &page,
        "A place that comes back is offered at once to the first in line, who has 2 hours to answer.",
    );
    says(&page, "Release a place");
    assert_eq!(page.texts("figure.bar svg[role=img] rect").len(), 2, "booked and held");
    assert!(!page.body.contains("style="), "nothing that the page's own policy forbids");
}

#[tokio::test]
async fn a_head_that_waits_for_more_places_is_said_with_the_remedy_beside_it() {
    let desk = Desk::with(two_hours(), 1).await;
    let otto = desk.world.waiting("Otto", 2).await;
    desk.world.waiting("Nina", 1).await;
    desk.world.settle().await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let page = agent.get(&desk.path("")).await;
    says(
        &page,
        "Next offer: Otto, 2 places, joined first (1 Mar 2027, 10:00), as soon as 1 more comes back.",
    );
    says(&page, "Otto waits for 2 places.");
    says(&page, "the first in line wants more places than are open, and the rule is to wait");
    let now = agent.get("/staff").await;
    says(&now, "1 list needs a decision.");
    says(&now, "Otto is first and waits for 2 places; 1 is open.");
    says(&now, "Change the rule to fill");

    desk.world.rule(|policy| policy.fit = Fit::Fill).await;
    let page = agent.get(&desk.path("")).await;
    says(&page, "Next offer: Nina, 1 place, first who fits (1 Mar 2027, 10:00).");
    says(&page, "Otto is ahead and wants 2 places: the rule goes on to the first who fits.");
    desk.world.settle().await;
    let page = agent.get(&desk.path(&format!("/entries/{}", otto.id))).await;
    says(&page, "wants 2 places, and 1 was open");
    says(&page, "They are next. No place is open: they are offered 2 places as soon as 2 come back.");
}

#[tokio::test]
async fn nothing_needs_anybody_when_nothing_does_and_what_does_has_its_remedy() {
    let desk = Desk::with(two_hours(), 2).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let mut viewer = desk.at_work("Viola", Role::Viewer).await;
    says(&agent.get("/staff").await, "Nothing needs you.");
    let entries = desk.world.all_waiting(&["Otto", "Nina", "Paul"]).await;
    desk.world.settle().await;
    desk.world.later(Duration::minutes(70));
    let page = agent.get("/staff").await;
    says(&page, "2 offers end within the hour.");
    says(&page, "in 50 min");
    says(&page, "queued");
    let otto = desk.world.live_offer(entries[0].id).await;
    let after = fairlist::waitlist::staff_offers::AfterRevoke::SetAside;
    desk.world
        .waitlist
        .revoke(desk.world.event, otto.id, after, desk.world.actor(), &reason())
        .await
        .expect("revoked");
    let page = agent.get("/staff").await;
    says(&page, "1 entry waits for staff.");
    says(&page, "an offer was taken back, and they are passed over until you decide.");
    assert!(page.body.contains("/bring-back?back=/staff"));
    let page = viewer.get("/staff").await;
    says(&page, "1 entry waits for staff.");
    assert!(!page.body.contains("/bring-back"), "a viewer sees what is the case, and no act");

    let path = desk.path(&format!("/entries/{}/bring-back", entries[0].id));
    agent.get(&path).await;
    let page = agent.submit(&path, &[("reason", "customer_asked"), ("back", "/staff")]).await;
    says(&page, "Otto is in the line again at the old rank.");
    does_not_say(&page, "waits for staff");
    let page = agent.submit(&path, &[("reason", "customer_asked"), ("back", "/staff")]).await;
    says(&page, "Agnes put this entry back in the line just now");

    sqlx::query(
        "UPDATE messages SET state = 'dead', next_attempt_at = NULL, note = 'mailbox unavailable'
         WHERE occasion = 'offer' AND person_id = $1",
    )
    .bind(entries[1].person.0)
    .execute(desk.world.database.sql())
    .await
    .expect("a dead letter");
    let page = agent.get("/staff").await;
    says(&page, "1 message did not arrive");
    says(&page, "“offer” to Nina for Spring Concert");
    says(&page, "mailbox unavailable");
}

#[tokio::test]
async fn passes_that_nobody_runs_are_said_aloud() {
    let desk = Desk::with(two_hours(), 1).await;
    desk.world.all_waiting(&["Otto"]).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let page = agent.get(&desk.path("")).await;
    says(&page, "the next look was asked for just now");
    desk.world.later(Duration::minutes(2));
    says(&agent.get(&desk.path("")).await, "Halted: the line should have been looked at 2 min ago");
    says(&agent.get("/staff").await, "Is the service running?");
    desk.world.settle().await;
    does_not_say(&agent.get("/staff").await, "Halted");
}

#[tokio::test]
async fn the_true_position_survives_search_and_sort_and_pages_have_no_holes() {
    let desk = Desk::with(two_hours(), 0).await;
    for n in 1..=120 {
        let who = format!("Person{n:03}");
        desk.world.waiting(&who, 1).await;
    }
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let names = |answer: &crate::harness::visitor::Answer| answer.texts("tbody th a");
    let positions = |answer: &crate::harness::visitor::Answer| answer.texts("tbody td:first-child");
    let first = agent.get(&desk.path("/queue")).await;
    assert_eq!((names(&first).len(), positions(&first)[49].as_str()), (50, "50"));
    says(&first, "waiting 120");
    says(&first, "120 entries.");
    let second = agent.get(&first.attribute("a[rel=next]", "href").expect("more")).await;
    assert_eq!((names(&second)[0].as_str(), positions(&second)[0].as_str()), ("Person051", "51"));
    let third = agent.get(&second.attribute("a[rel=next]", "href").expect("more")).await;
    assert_eq!((names(&third).len(), third.attribute("a[rel=next]", "href")), (20, None));
    let back = agent.get(&third.attribute("a[rel=prev]", "href").expect("back")).await;
    assert_eq!(names(&back), names(&second), "the way back shows the same page");
    let back = agent.get(&back.attribute("a[rel=prev]", "href").expect("back")).await;
    assert_eq!(names(&back), names(&first));

    let found = agent.get(&desk.path("/queue?q=erson077")).await;
    assert_eq!((names(&found), positions(&found)), (vec!["Person077".to_owned()], vec!["77".to_owned()]));
    let found = agent.get(&desk.path("/queue?q=PERSON09@example")).await;
    assert_eq!(names(&found).len(), 0);
    let found = agent.get(&desk.path("/queue?q=PERSON09")).await;
    assert_eq!(names(&found).len(), 10, "by the beginning of the address and by the name");
    let found = agent.get(&desk.path("/queue?q=person110%40exa")).await;
    assert_eq!(positions(&found), ["110"]);
    for nothing in ["%25", "_", "nobody", "%5C", "'; DROP TABLE entries; --"] {
        let found = agent.get(&desk.path(&format!("/queue?q={}", nothing.replace(' ', "+")))).await;
        assert_eq!(found.status, StatusCode::OK, "{nothing}");
        says(&found, "Nobody found");
    }
    let last = agent.get(&desk.path("/queue?sort=last")).await;
    assert_eq!((names(&last)[0].as_str(), positions(&last)[0].as_str()), ("Person120", "120"));
    let next = agent.get(&last.attribute("a[rel=next]", "href").expect("more")).await;
    assert_eq!(positions(&next)[0], "70");
    for nonsense in ["state=nonsense", "after=x", "after=1.2", "before=0.0.99999999999999999999", "sort=up"] {
        let answer = agent.get(&desk.path(&format!("/queue?{nonsense}"))).await;
        assert_eq!(answer.status, StatusCode::OK, "{nonsense}");
        assert_eq!(names(&answer).len(), 50, "{nonsense}");
    }
}

#[tokio::test]
async fn filters_count_what_they_show_and_an_act_returns_to_its_view() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina", "Paul", "Rosa"]).await;
    desk.world.settle().await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    let page = agent.get(&desk.path("/queue")).await;
    assert_eq!(page.texts("ul.filter a"), ["waiting 3", "offered 1", "accepted 0"]);
    assert_eq!(page.text("tr.is-next th a"), "Nina", "who is next is marked");
    let pause = page.attribute("tbody tr:first-child .acts a[href*=pause]", "href").expect("pause");
    let form = agent.get(&pause).await;
    let back = form.attribute("input[name=back]", "value").expect("the view");
    assert_eq!(back, desk.path("/queue"));
    let fields = [("reason", "customer_asked"), ("back", back.as_str()), ("deadline", "2027-03-01T09:00")];
    let refused = agent.post(pause.split('?').next().expect("a path"), &fields).await;
    assert_eq!(refused.status, StatusCode::UNPROCESSABLE_ENTITY);
    says(&refused, "This is in the past.");
    let answer = agent.post(pause.split('?').next().expect("a path"), &fields[..2]).await;
    assert_eq!(answer.location().as_deref(), Some(back.as_str()));
    let page = agent.get(&back).await;
    says(&page, "Paused: Nina is passed over until somebody resumes it.");
    assert_eq!(page.texts("ul.filter a"), ["waiting 3", "paused 1", "offered 1", "accepted 0"]);
    assert_eq!(page.texts("tbody td:first-child"), ["(1)", "1", "2"], "others moved up, the rank is kept");
    let page = agent.get(&desk.path("/queue?state=paused")).await;
    assert_eq!(page.texts("tbody th a"), ["Nina"]);
    says(&agent.get(&desk.path("")).await, "Ahead of them and passed over: 1 paused.");
    says(
        &agent.get(&desk.path("")).await,
        "Next offer: Paul, 1 place, joined first of those who can be offered it",
    );
    let page = agent.get(&desk.path(&format!("/entries/{}", entries[1].id))).await;
    says(&page, "Would be number 1 in the line");
    says(&page, "Paused by staff: passed over until resumed.");
    let resume = desk.path(&format!("/entries/{}/resume", entries[1].id));
    agent.get(&resume).await;
    says(&agent.submit(&resume, &[("reason", "customer_asked")]).await, "Resumed: Nina is in the line again");
    let remove = desk.path(&format!("/entries/{}/remove", entries[3].id));
    says(&agent.get(&remove).await, "Rosa is off the list and loses the rank.");
    says(&agent.submit(&remove, &[("reason", "duplicate")]).await, "Rosa is off the list.");
    says(
        &agent.submit(&remove, &[("reason", "duplicate")]).await,
        "Agnes took this entry off the list just now",
    );
    // Nobody is sent elsewhere by a forged view.
    let away = [("reason", "customer_asked"), ("back", "//evil.example")];
    let answer = agent.post(&desk.path(&format!("/entries/{}/pause", entries[2].id)), &away).await;
    assert_eq!(answer.location(), Some(desk.path(&format!("/entries/{}", entries[2].id))));
}

/// Somebody is put further up with a reason, and whoever looks sees that it was done. (webkom/lego#4030)
#[tokio::test]
async fn an_entry_is_moved_in_the_line_only_with_a_reason_and_everybody_concerned_can_see_it() {
    let desk = Desk::with(two_hours(), 0).await;
    let line = desk.world.all_waiting(&["Otto", "Nina", "Walter"]).await;
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let page = desk.path(&format!("/entries/{}", line[2].id));
    says(&agnes.get(&page).await, "Move in the line");
    says(
        &agnes.get(&format!("{page}/move")).await,
        "whoever has it now, and everybody behind, is one further back",
    );
    for (number, reason, field, said) in [
        ("1", "", "reason", "Choose a reason."),
        ("0", "goodwill", "number", "Enter a number from 1."),
        ("first", "goodwill", "number", "Enter a number from 1."),
        ("4", "goodwill", "number", "The line is shorter than that."),
    ] {
        let answer = agnes.post(&format!("{page}/move"), &[("number", number), ("reason", reason)]).await;
        assert_eq!(answer.text(&format!("#{field}-error")), said, "{number} {reason}");
        assert_eq!(answer.attribute("input[name=number]", "value").as_deref(), Some(number), "kept");
    }
    let fields = [("number", "2"), ("reason", "other"), ("note", "Let in by mistake")];
    let answer = agnes.submit(&format!("{page}/move"), &fields).await;
    says(&answer, "Moved: Walter has number 2 now.");
    says(&answer, "Number 2 in the line, for 1 place.");
    says(&answer, "Moved in the line");
    says(&answer, "Let in by mistake");
    says(&agnes.get(&desk.path(&format!("/entries/{}", line[1].id))).await, "Number 3 in the line");
}

#[tokio::test]
async fn an_entry_tells_its_story_the_newest_first_with_names_reasons_and_messages() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto"]).await;
    desk.world.settle().await;
    let offer = desk.world.live_offer(entries[0].id).await;
    let mut agent = desk.at_work("Agnes", Role::Agent).await;
    desk.world.later(Duration::minutes(5));
    let revoke = desk.path(&format!("/offers/{}/revoke", offer.id));
    agent.get(&revoke).await;
    let fields = [("after", "set_aside"), ("reason", "other"), ("note", "<b>Rang twice</b>")];
    agent.submit(&revoke, &fields).await;
    let page = agent.get(&desk.path(&format!("/entries/{}", entries[0].id))).await;
    assert_eq!(
        page.texts(".timeline-title"),
        ["Set aside", "Offer taken back", "Offered", "Joined the list"]
    );
    let told = page.texts(".timeline-meta");
    assert!(told[1].starts_with("by Agnes, another reason · 1 Mar 2027, 10:05 (just now)"), "{}", told[1]);
    assert!(told[2].starts_with("by the rule, first in order of arrival"), "{}", told[2]);
    says(&page, "<b>Rang twice</b>");
    assert!(!page.body.contains("<b>Rang"), "a note is text");
    says(&page, "Set aside when an offer was taken back: passed over until staff decide.");
    assert_eq!(page.texts("section:last-child .lines a"), ["revoked", "offer", "joined"]);
    let _ = plain(&page);
}

#[tokio::test]
async fn events_are_listed_by_state_and_a_house_without_any_is_told_how_to_begin() {
    let desk = Desk::with(Policy::first(), 1).await;
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let page = owner.get("/staff/events").await;
    says(&page, "1 event is published");
    assert_eq!(page.texts("ul.filter a"), ["draft 0", "published 1", "cancelled 0", "over 0"]);
    says(&owner.get("/staff/events?state=cancelled").await, "No event is cancelled.");
    let mut newcomer = desk.at_work_for("New House", "Newton", Role::Owner).await;
    says(&newcomer.get("/staff").await, "No event yet");
    says(&newcomer.get("/staff/events").await, "Create an event");
}
