//! The rule by which places are offered: each setting's bounds, and versions that touch only what comes after.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::entry::EntryState;
use fairlist::domain::role::Role;

use crate::harness::desk::{Desk, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::two_hours;

/// The form as its page shows it, with some of it changed.
async fn fields(desk: &Desk, mary: &mut Visitor, changed: &[(&str, &str)]) -> Vec<(String, String)> {
    let page = mary.get(&desk.path("/policy")).await;
    let value = |css: &str| page.attribute(css, "value").unwrap_or_default();
    let mut fields: Vec<(String, String)> =
        ["form_version", "window", "batch_size", "silence_limit", "list_cap", "party_limit"]
            .iter()
            .map(|name| ((*name).to_owned(), value(&format!("input[name={name}]"))))
            .collect();
    for name in ["fit", "after_expiry", "after_decline", "position_shown"] {
        fields.push((name.to_owned(), value(&format!("input[name={name}][checked]"))));
    }
    fields.push(("unit".to_owned(), value("select[name=unit] option[selected]")));
    fields.push(("reason".to_owned(), "event_changed".to_owned()));
    for (name, value) in changed {
        fields.retain(|field| field.0 != *name);
        fields.push(((*name).to_owned(), (*value).to_owned()));
    }
    fields
}

async fn post(desk: &Desk, mary: &mut Visitor, fields: &[(String, String)]) -> Answer {
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
        if ["window", "batch_size", "silence_limit", "list_cap", "party_limit"].contains(&name) {
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
async fn settings_that_are_not_built_are_absent_from_the_form_and_refused_by_name() {
    let desk = Desk::with(two_hours(), 0).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let page = mary.get(&desk.path("/policy")).await;
    for name in ["ordering", "order", "mode", "cutoff"] {
        assert_eq!(page.attribute(&format!("[name={name}]"), "name"), None, "{name}");
    }
    for (name, value, said) in [
        ("ordering", "lottery", "The setting “ordering” has only the value “arrival”."),
        ("ordering", "priority", "The setting “ordering” has only the value “arrival”."),
        ("mode", "notify_all", "The setting “mode” has only the value “hold”."),
        ("cutoff", "2027-03-20T10:00", "There is no setting “cutoff”."),
    ] {
        let fields = fields(&desk, &mut mary, &[(name, value)]).await;
        let answer = post(&desk, &mut mary, &fields).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{name}");
        says(&answer, said);
    }
    let policy = desk.world.database.db().policy(desk.world.event).await.expect("the rule");
    assert_eq!(policy.version, 1);
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
    says(&page, "Saved: the new rule applies from now on.");
    says(&page, "who has 30 minutes to answer");
    says(&page, "Version 2, in force, by Mary");
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
