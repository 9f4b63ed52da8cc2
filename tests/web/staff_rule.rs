//! The rule by which places are offered: each setting's bounds, and versions that touch only what comes after.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::EntryState;
use fairlist::domain::policy::{Mode, Policy};
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::two_hours;

/// The form as its page shows it, with some of it changed.
pub(super) async fn fields(
    desk: &Desk,
    mary: &mut Visitor,
    changed: &[(&str, &str)],
) -> Vec<(String, String)> {
    let page = mary.get(&desk.path("/policy")).await;
    let value = |css: &str| page.attribute(css, "value").unwrap_or_default();
    let mut fields: Vec<(String, String)> = [
        "form_version",
        "window",
        "cutoff",
        "draw_at",
        "batch_size",
        "silence_limit",
        "list_cap",
        "party_limit",
        "person_limit",
    ]
    .iter()
    .map(|name| ((*name).to_owned(), value(&format!("input[name={name}]"))))
    .collect();
    for name in [
        "ordering",
        "mode",
        "draws",
        "beacon",
        "fit",
        "after_expiry",
        "after_decline",
        "telling",
        "position_shown",
    ] {
        fields.push((name.to_owned(), value(&format!("input[name={name}][checked]"))));
    }
    fields.push(("bands".to_owned(), page.text("textarea[name=bands]")));
    fields.push(("unit".to_owned(), value("select[name=unit] option[selected]")));
    fields.push(("reason".to_owned(), "event_changed".to_owned()));
    for (name, value) in changed {
        fields.retain(|field| field.0 != *name);
        fields.push(((*name).to_owned(), (*value).to_owned()));
    }
    fields
}

pub(super) async fn post(desk: &Desk, mary: &mut Visitor, fields: &[(String, String)]) -> Answer {
    let fields: Vec<(&str, &str)> =
        fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    mary.post(&desk.path("/policy"), &fields).await
}

#[tokio::test]
async fn every_setting_out_of_its_bounds_is_refused_at_its_field_with_what_was_typed() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let window = "The time to answer must be between 5 minutes and 7 days.";
    let choose = "Choose one of these.";
    for (name, value, said) in [
        ("window", "0", window),
        ("window", "-1", window),
        ("window", "169", window),
        ("window", "9223372036854775807", window),
        ("window", "99999999999999999999", "The time to answer must be a whole number."),
        ("window", "1.5", "The time to answer must be a whole number."),
        ("window", "soon", "The time to answer must be a whole number."),
        ("unit", "weeks", choose),
        ("batch_size", "", "The batch size must be a whole number."),
        ("batch_size", "-1", "The batch size must be between 0 and 10,000."),
        ("batch_size", "10001", "The batch size must be between 0 and 10,000."),
        ("batch_size", "many", "The batch size must be a whole number."),
        ("silence_limit", "two", "The number of unanswered offers must be a whole number."),
        ("silence_limit", "0", "The number of unanswered offers must be between 1 and 100."),
        ("silence_limit", "101", "The number of unanswered offers must be between 1 and 100."),
        ("list_cap", "-1", "The list’s limit must be 0 or more."),
        ("list_cap", "2147483648", "The list’s limit must be a whole number."),
        ("party_limit", "few", "The largest party must be a whole number."),
        ("party_limit", "0", "The largest party must be between 1 and 100."),
        ("party_limit", "101", "The largest party must be between 1 and 100."),
        ("person_limit", "all", "The number of places for one person must be a whole number."),
        ("person_limit", "0", "The places for one person must be between 1 and 100."),
        ("person_limit", "101", "The places for one person must be between 1 and 100."),
        ("telling", "wait", choose),
        ("fit", "loose", choose),
        ("after_expiry", "", choose),
        ("after_decline", "never", choose),
        ("position_shown", "about", choose),
        ("reason", "", "Choose a reason."),
        ("reason", "first_in_order", "Choose a reason."),
    ] {
        let fields = fields(&desk, &mut mary, &[(name, value), ("note", "As discussed")]).await;
        let answer = post(&desk, &mut mary, &fields).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}={value}");
        assert_eq!(answer.text(&format!("#{name}-error")), said, "{name}={value}: {}", answer.body);
        assert_eq!(
            answer.text(&format!(".errors a[href='#{name}']")),
            said,
            "{name}={value}: in the summary"
        );
        if ["window", "batch_size", "silence_limit", "list_cap", "party_limit", "person_limit"]
            .contains(&name)
        {
            let kept = answer.attribute(&format!("input[name={name}]"), "value");
            assert_eq!(kept.as_deref(), Some(value));
        } else {
            assert_eq!(answer.attribute("input[name=window]", "value").as_deref(), Some("2"));
        }
        assert_eq!(answer.text("textarea[name=note]"), "As discussed");
    }
    let fields = fields(&desk, &mut mary, &[("reason", "other"), ("note", "  ")]).await;
    let answer = post(&desk, &mut mary, &fields).await;
    assert_eq!(answer.text("#note-error"), "Say in the note what the other reason is.");
    let policy = desk.world.database.db().policy(desk.world.event).await.expect("the rule");
    assert_eq!(policy.version, 1, "nothing came in force");
}

#[tokio::test]
async fn settings_that_do_not_go_together_are_refused_where_they_are() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let start = desk.world.database.db().event(desk.world.event).await.expect("the event").starts_at;
    let local = |at| fairlist::domain::when::local_field(at, chrono_tz::UTC);
    let (start, past) =
        (local(start.expect("a start") + Duration::days(1)), local(desk.world.now() - Duration::days(1)));
    for (changed, field, said) in [
        (vec![("ordering", "alphabet")], "ordering", "Choose one of these."),
        (vec![("mode", "shout")], "mode", "Choose one of these."),
        (
            vec![("ordering", "lottery"), ("mode", "notify_all")],
            "mode",
            "A lottery ranks people for offers one after the other: it cannot be joined with calls to everybody.",
        ),
        (
            vec![("ordering", "manual"), ("mode", "notify_all")],
            "mode",
            "Where staff pick, nothing goes out by itself: it cannot be joined with calls to everybody.",
        ),
        (vec![("cutoff", start.as_str())], "cutoff", "The final call must begin before the event starts."),
        (vec![("cutoff", past.as_str())], "cutoff", "The final call must begin in the future."),
        (
            vec![("cutoff", past.as_str()), ("window", "")],
            "cutoff",
            "A final call takes the place of offers with a deadline: give a time to answer first.",
        ),
        (vec![("ordering", "priority")], "bands", "Name at least one group that goes first."),
        (
            vec![("ordering", "priority"), ("bands", "Members")],
            "bands",
            "Each group needs a name of its own and the reason why it goes first, in at most 200 characters each.",
        ),
        (vec![("ordering", "lottery"), ("draws", "at")], "draw_at", "Say when the draw is to be held."),
        (
            vec![("ordering", "lottery"), ("draws", "at"), ("draw_at", start.as_str())],
            "draw_at",
            "The draw must be before the event starts.",
        ),
        (vec![("ordering", "lottery"), ("beacon", "dice")], "beacon", "Choose one of these."),
    ] {
        let fields = fields(&desk, &mut mary, &changed).await;
        let answer = post(&desk, &mut mary, &fields).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{changed:?}");
        assert_eq!(answer.text(&format!("#{field}-error")), said, "{changed:?}");
    }
    let policy = desk.world.database.db().policy(desk.world.event).await.expect("the rule");
    assert_eq!(policy.version, 1, "nothing came in force");
}

#[tokio::test]
async fn a_rule_is_tried_out_on_the_events_own_list_before_it_is_saved() {
    let desk = Desk::with(two_hours(), 0).await;
    desk.world.waiting("Ada", 1).await;
    desk.world.waiting("Ben", 4).await;
    desk.world.waiting("Cy", 2).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    for (changed, lines) in [
        (vec![], vec!["If 3 places came back now:", "First Ada is offered a place.", "wants 4 places"]),
        (
            vec![("fit", "fill")],
            vec![
                "First Ada is offered a place.",
                "Then Cy is offered 2 places for their party.",
                "Ben wants 4 places and is passed over",
            ],
        ),
        (vec![("ordering", "lottery")], vec!["A draw is held first of all among the 3 people"]),
        (
            vec![("ordering", "manual"), ("fit", "fill")],
            vec![
                "Nothing goes out by itself. Staff are shown this order",
                "First Ada comes for a place.",
                "Without effect here:",
            ],
        ),
        (
            vec![("mode", "notify_all")],
            vec!["Everybody whose party would fit is called at the same time, of 3 who wait"],
        ),
        (vec![("window", "")], vec!["Nothing goes out by itself."]),
        (
            vec![("ordering", "priority"), ("bands", "Members: they keep the house running")],
            vec!["First Ada is offered a place."],
        ),
    ] {
        let mut tried = changed.clone();
        tried.push(("example", "yes"));
        let fields = fields(&desk, &mut mary, &tried).await;
        let page = post(&desk, &mut mary, &fields).await;
        assert_eq!(page.status, StatusCode::OK, "{changed:?}");
        let example = page.text("#example").replace(['\u{2068}', '\u{2069}'], "");
        for line in lines {
            assert!(example.contains(line), "{changed:?}: {line:?} in {example:?}");
        }
        for (name, value) in &changed {
            let kept = page.attribute(&format!("input[name={name}][value='{value}'][checked]"), "value");
            let typed = page.attribute(&format!("input[name={name}]"), "value");
            let text = page.text(&format!("textarea[name={name}]"));
            assert!(kept.is_some() || typed.as_deref() == Some(*value) || text == *value, "{name} is kept");
        }
    }
    let policy = desk.world.database.db().policy(desk.world.event).await.expect("the rule");
    assert_eq!(policy.version, 1, "trying out saves nothing");
}

/// An organizer makes the list a lottery; places go down the order drawn; a stranger downloads it and gets the same.
#[tokio::test]
async fn a_lottery_from_the_rule_to_the_file_that_a_stranger_checks() {
    let desk = Desk::with(two_hours(), 0).await;
    let line = desk.world.all_waiting(&["Ada", "Ben", "Cy"]).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let fields = fields(&desk, &mut mary, &[("ordering", "lottery"), ("draws", "staff")]).await;
    let to = post(&desk, &mut mary, &fields).await.location().expect("saved");
    says(&mary.get(&to).await, "next in the order drawn");
    desk.world.add_places(1).await;
    desk.world.settle().await;
    says(&mary.get(&desk.path("/draws")).await, "Nothing has been drawn yet.");
    let page = mary.get(&desk.path("")).await;
    says(&page, "Offers wait for the draw.");
    says(&page, "3 people in the line, and none of them is ranked before it.");

    let mut stranger = Visitor::new(&desk.router);
    let public = stranger.get("/e/spring/fairness").await;
    says(&public, "Nothing has been drawn yet.");
    says(&public, "Chain 1:");
    mary.get(&desk.path("/draws/hold")).await;
    let without = mary.post(&desk.path("/draws/hold"), &[]).await;
    assert_eq!(without.text("#reason-error"), "Choose a reason.");
    let to =
        mary.post(&desk.path("/draws/hold"), &[("reason", "event_changed")]).await.location().expect("drawn");
    says(&mary.get(&to).await, "Drawn: draw 1 ranked 3 people.");
    desk.world.settle().await;

    let public = stranger.get("/e/spring/fairness").await;
    says(&public, "Draw 1: 3 entries, by the organizer’s staff, who gave a reason.");
    let file = stranger.get("/e/spring/draws/1.json").await;
    let draw: fairlist::domain::draw::file::DrawFile = serde_json::from_str(&file.body).expect("a draw");
    assert_eq!(draw.verify(), Ok(()));
    assert_eq!(desk.world.state(draw.ranking[0]).await, EntryState::Offered);
    assert_eq!(draw.pool, line.iter().map(|entry| entry.id).collect::<Vec<_>>());
    for name in ["Ada", "Ben", "Cy", "example.org"] {
        assert!(!file.body.contains(name) && !public.body.contains(name), "nobody is named: {name}");
    }
    assert_eq!(stranger.get("/e/spring/draws/2.json").await.status, StatusCode::NOT_FOUND);
    assert_eq!(stranger.get("/e/spring/draws/1.txt").await.status, StatusCode::NOT_FOUND);
}

/// A beacon's value that is not what was announced is refused at the field, with what was typed.
#[tokio::test]
async fn a_beacon_is_entered_by_staff_and_verified() {
    let desk = Desk::with(two_hours(), 1).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let fields = fields(&desk, &mut mary, &[("ordering", "lottery"), ("beacon", "drand")]).await;
    post(&desk, &mut mary, &fields).await.location().expect("saved");
    desk.world.all_waiting(&["Ada", "Ben"]).await;
    desk.world.settle().await;
    let overview = mary.get(&desk.path("")).await;
    assert_eq!(overview.attribute("#event-live .acts a[href$='/draws']", "href"), Some(desk.path("/draws")));
    let page = mary.get(&desk.path("/draws")).await;
    assert!(page.attribute("a[href$='/draws/hold']", "href").is_none(), "one draw after the other");
    says(&page, "Draw 1 waits for its beacon: 2 people are in the pool.");
    let answer = mary.post(&desk.path("/draws/beacon"), &[("signature", "round seven")]).await;
    assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(
        answer.text("#signature-error"),
        "This is not a signature of drand: 96 hexadecimal digits are expected."
    );
    assert_eq!(answer.attribute("input[name=signature]", "value").as_deref(), Some("round seven"));
    says(&Visitor::new(&desk.router).get("/e/spring/fairness").await, "It waits for its beacon.");
}

/// A group needs a reason that is public; who is put into it, and why, is on record and told to them if so chosen.
/// pretix/pretix#1236: whoever is put ahead of others is so for a reason on record.
#[tokio::test]
async fn somebody_is_put_into_a_group_with_a_reason() {
    let desk = Desk::with(two_hours(), 0).await;
    let line = desk.world.all_waiting(&["Ada", "Ben"]).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let bands = "Members: they keep the house running\nResidents: they live here";
    let fields =
        fields(&desk, &mut mary, &[("ordering", "priority"), ("bands", bands), ("bands_shown", "yes")]).await;
    let to = post(&desk, &mut mary, &fields).await.location().expect("saved");
    says(&mary.get(&to).await, "the first of Members, then Residents");
    let path = desk.path(&format!("/entries/{}/group", line[1].id));
    let page = mary.get(&path).await;
    says(&page, "Members: they keep the house running");
    let refused = mary.post(&path, &[("after", "-4096")]).await;
    assert_eq!(refused.text("#reason-error"), "Choose a reason.");
    let number = page.attribute("input[name=after]", "value").expect("the first group");
    let to =
        mary.post(&path, &[("after", &number), ("reason", "customer_asked")]).await.location().expect("done");
    says(&mary.get(&to).await, "is in the group");
    desk.world.add_places(1).await;
    desk.world.settle().await;
    assert_eq!(desk.world.state(line[1].id).await, EntryState::Offered, "the group goes first");
    says(
        &Visitor::new(&desk.router).get("/e/spring/fairness").await,
        "Members go first: they keep the house running.",
    );
}

#[tokio::test]
async fn another_rule_is_another_version_and_touches_only_offers_that_come_after() {
    let desk = Desk::with(two_hours(), 1).await;
    let entries = desk.world.all_waiting(&["Otto", "Nina"]).await;
    desk.world.settle().await;
    let before = desk.world.live_offer(entries[0].id).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let stale = fields(&desk, &mut mary, &[("window", "5")]).await;
    let fresh = fields(&desk, &mut mary, &[("window", "30"), ("unit", "minutes"), ("fit", "fill")]).await;
    let to = post(&desk, &mut mary, &fresh).await.location().expect("back to the rule");
    let page = mary.get(&to).await;
    says(&page, "Saved: version 2 of the rule is in force.");
    says(&page, "who has 30 minutes to answer");
    says(&page, "Version 2, in force, by Mary");
    assert_eq!(
        page.texts(".timeline .small"),
        [
            "Time to answer: 2 hours → 30 minutes",
            "A party that does not fit: waits for more places → is passed over"
        ],
        "and nothing else changed"
    );
    assert_eq!(desk.world.live_offer(entries[0].id).await, before, "what was offered keeps its terms");

    let answer = post(&desk, &mut mary, &stale).await;
    assert_eq!(answer.status, StatusCode::CONFLICT);
    says(&answer, "Somebody saved the event while you had this form open: nothing of yours was saved.");
    assert_eq!(answer.attribute("input[name=window]", "value").as_deref(), Some("5"), "kept");
    let version = answer.attribute("input[name=form_version]", "value").expect("the present one");
    let again = fields(&desk, &mut mary, &[("window", "5"), ("form_version", &version)]).await;
    assert_eq!(post(&desk, &mut mary, &again).await.status, StatusCode::SEE_OTHER, "on purpose");
    desk.world.later(Duration::hours(2));
    desk.world.settle().await;
    let after = desk.world.live_offer(entries[1].id).await;
    assert_eq!(after.policy_version, 3);
    assert_eq!(after.expires_at - after.made_at, Duration::minutes(5), "the unit was kept: minutes");
}

/// An empty time to answer means that nothing is offered, and the page says so: no other time applies in secret.
/// (HiEventsDev/Hi.Events: settings that say "none" while the code applies twelve hours)
#[tokio::test]
async fn an_empty_window_is_what_the_page_says_it_is() {
    let desk = Desk::with(two_hours(), 1).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let fields = fields(&desk, &mut mary, &[("window", " ")]).await;
    let to = post(&desk, &mut mary, &fields).await.location().expect("saved");
    let page = mary.get(&to).await;
    says(&page, "Nothing is offered by itself: staff offer places by hand, each with a deadline.");
    assert_eq!(page.attribute("input[name=window]", "value").as_deref(), Some(""));
    let entries = desk.world.all_waiting(&["Otto"]).await;
    desk.world.settle().await;
    desk.world.later(Duration::hours(13));
    desk.world.settle().await;
    assert_eq!(desk.world.state(entries[0].id).await, EntryState::Waiting);
    assert_eq!(desk.world.offer(entries[0].id).await, None);
    let mut nora = desk.at_work("Nora", Role::Viewer).await;
    says(&nora.get(&desk.path("")).await, "Nothing is offered by itself here: offers are made by hand.");
}

/// Past the instant of the final call nothing goes out by itself where staff pick: the page says so, and they make it.
#[tokio::test]
async fn staff_who_pick_make_the_final_call_with_a_reason() {
    let desk = Desk::with(two_hours(), 0).await;
    let start = desk
        .world
        .database
        .db()
        .event(desk.world.event)
        .await
        .expect("the event")
        .starts_at
        .expect("a start");
    desk.world
        .rule(|policy| {
            policy.ordering = fairlist::domain::policy::Ordering::Manual;
            policy.cutoff = Some(start - Duration::days(2));
        })
        .await;
    let line = desk.world.all_waiting(&["Ada", "Ben"]).await;
    desk.world.add_places(1).await;
    desk.world.settle().await;
    let mut anna = desk.at_work("Anna", Role::Agent).await;
    says(&anna.get(&desk.path("")).await, "staff pick who is offered a place, and say why");
    anna.get(&desk.path("/final-call")).await;
    let early = anna.post(&desk.path("/final-call"), &[("reason", "event_changed")]).await;
    says(&anna.get(&early.location().expect("back")).await, "its time has not come: nothing was done.");

    desk.world.later(start - Duration::days(2) - desk.world.now());
    let mut anna = desk.at_work("Anne", Role::Agent).await;
    says(&anna.get(&desk.path("")).await, "The time of the final call has come, and here staff make it");
    anna.get(&desk.path("/final-call")).await;
    let without = anna.post(&desk.path("/final-call"), &[]).await;
    assert_eq!(without.text("#reason-error"), "Choose a reason.");
    let made = anna.post(&desk.path("/final-call"), &[("reason", "event_changed")]).await;
    says(&anna.get(&made.location().expect("back")).await, "The final call is made");
    desk.world.settle().await;
    for entry in &line {
        assert_eq!(desk.world.state(entry.id).await, EntryState::Offered);
    }
    // It is named so to whoever looks at one of its calls.
    says(&anna.get(&desk.path("")).await, "final call, not held");
    says(&anna.get(&desk.path("/offers")).await, "final call, not held");
    let call = desk.world.live_offer(line[0].id).await;
    let page = anna.get(&desk.path(&format!("/offers/{}", call.id))).await;
    assert_eq!(page.text("h1").replace(['\u{2068}', '\u{2069}'], ""), "Final call to Ada");
    says(&page, "The final call: Ada is called for 1 place until");
    let public = Visitor::new(&desk.router).get(&format!("/offers/{}", call.id)).await;
    says(&public, "The final call for a…@e….org, and for everybody else who waits. It is a race:");
}

/// Every page that speaks of a call names it a race, to whom it is for and to whoever has the link or comes by.
#[tokio::test]
async fn a_call_to_more_people_than_one_pass_tells_shows_how_far_it_is_until_it_is_done() {
    let desk = Desk::with(Policy { mode: Mode::NotifyAll, ..two_hours() }, 0).await;
    let names: Vec<String> = (0..2_050).map(|n| format!("Guest{n}")).collect();
    desk.world.all_waiting(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    let mut vera = desk.at_work("Vera", Role::Viewer).await;
    let page = vera.get(&desk.path("")).await;
    assert!(page.texts("progress").is_empty(), "nothing is open: nobody is called");
    desk.world.add_places(2).await;
    for (called, said) in [("1000", "1,000"), ("2000", "2,000")] {
        desk.world.pass().await;
        let page = vera.get(&desk.path("")).await;
        says(&page, &format!("Telling everybody: {said} of 2,050 called."));
        says(&page, "1,000 people were called, and others follow.");
        let bar = |name: &str| page.attribute("[data-live-part] progress", name);
        assert_eq!((bar("value").as_deref(), bar("max").as_deref()), (Some(called), Some("2050")));
        assert_eq!(page.attribute("body", "data-live").as_deref(), Some("2"));
    }
    desk.world.pass().await;
    let page = vera.get(&desk.path("")).await;
    assert!(page.texts("progress").is_empty(), "{}", page.body);
    says(&page, "is done: 2,050 people were called.");
    does_not_say(&page, "Telling everybody");
}

#[tokio::test]
async fn a_call_is_named_a_race_wherever_it_is_shown() {
    let desk = Desk::with(two_hours(), 0).await;
    desk.world.rule(|policy| policy.mode = fairlist::domain::policy::Mode::NotifyAll).await;
    let line = desk.world.all_waiting(&["Ada", "Ben"]).await;
    desk.world.add_places(1).await;
    desk.world.settle().await;
    let call = desk.world.live_offer(line[0].id).await;
    let mut visitor = Visitor::new(&desk.router);
    let page = visitor.get(&format!("/offers/{}", call.id)).await;
    says(&page, "It is a race: nothing is held, and the first to accept has what is open.");
    assert!(!page.body.contains("data-deadline"), "nothing counts down for a place that nobody holds");
    let public = visitor.get("/e/spring").await;
    says(
        &public,
        "1 place is free. Everybody on the waitlist is told of it, too: whoever books or accepts first has it.",
    );
    let mut anna = desk.at_work("Anna", Role::Agent).await;
    let offers = anna.get(&desk.path("/offers")).await;
    says(&offers, "2 offers are out.");
    says(&offers, "called, not held");
    let page = anna.get(&desk.path(&format!("/offers/{}", call.id))).await;
    says(&page, "Ada is called for 1 place until");
    does_not_say(&page, "inal call");
    let release = page.attribute("dd a[href*='/releases/']", "href").expect("what the call is for");
    says(&anna.get(&release).await, "Called at once, and the first to accept has it:");
}
