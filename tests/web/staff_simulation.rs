//! "What would this rule have done?": an edited rule beside what really happened, before it is saved.

use axum::http::StatusCode;
use chrono::Duration;
use fairlist::domain::policy::After;
use fairlist::domain::role::Role;

use super::staff_rule::{fields, post};
use crate::harness::desk::{Desk, does_not_say, says};
use crate::harness::visitor::Answer;
use crate::harness::world::{World, two_hours};

/// A line of the table: really, and under the rule.
fn figures(page: &Answer, what: &str) -> (String, String) {
    let lines = page.texts("#replay tbody th");
    let line = lines.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what} in {lines:?}"));
    let cells = page.texts("#replay tbody td");
    (cells[2 * line].clone(), cells[2 * line + 1].clone())
}

async fn story() -> Desk {
    let desk = Desk::with(two_hours(), 0).await;
    past(&desk.world).await;
    desk
}

/// Three wait. A place comes back: Ada lets it pass, Ben declines, Cy takes it an hour later. Another comes back, and
/// Ada takes it.
pub async fn past(world: &World) {
    let line = world.all_waiting(&["Ada", "Ben", "Cy"]).await;
    world.later(Duration::hours(1));
    world.add_places(1).await;
    world.settle().await;
    world.later(Duration::hours(2));
    world.settle().await;
    world.later(Duration::minutes(30));
    world.decline(world.live_offer(line[1].id).await.id, line[1].person).await;
    world.settle().await;
    world.later(Duration::hours(1));
    world.accept(world.live_offer(line[2].id).await.id, line[2].person).await;
    world.later(Duration::hours(1));
    world.add_places(1).await;
    world.settle().await;
    world.later(Duration::minutes(5));
    world.accept(world.live_offer(line[0].id).await.id, line[0].person).await;
    world.later(Duration::hours(3));
}

#[tokio::test]
async fn the_rule_in_force_replayed_gives_what_really_happened() {
    let desk = story().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let fields = fields(&desk, &mut mary, &[("example", "past")]).await;
    let page = post(&desk, &mut mary, &fields).await;
    assert_eq!(page.status, StatusCode::OK, "{}", page.body);
    says(
        &page,
        "2 places came back. This rule would have filled 2 of them through the list; really 2 were filled.",
    );
    says(&page, "Of 4 offers that ended, 2 were accepted, 1 declined and 1 not answered.");
    says(
        &page,
        "was really offered some, and answers as they did, as long after the offer: nothing is drawn.",
    );
    says(&page, "Nothing is saved yet.");
    for (what, figure) in [
        ("Places filled through the list", "2"),
        ("Half of them filled within", "5 min"),
        ("The slowest filled within", "3 h 30 min"),
        ("People offered places", "3"),
        ("Offers made", "4"),
        ("… accepted", "2"),
        ("… declined", "1"),
        ("… without an answer", "1"),
        ("… waiting for an answer in the end", "0"),
        ("Messages about offers", "8"),
    ] {
        assert_eq!(figures(&page, what), (figure.to_owned(), figure.to_owned()), "{what}");
    }
    let picture = page.attribute("#replay svg[role=img]", "aria-label").expect("the picture in words");
    assert!(picture.contains("2 places came back."), "{picture}");
}

#[tokio::test]
async fn an_edited_rule_is_replayed_before_it_is_saved_and_nothing_is_saved() {
    let desk = story().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    // In half an hour each nobody but Ada, the second time, would have answered; then the list was at its end.
    let changed = [("window", "30"), ("unit", "minutes"), ("after_expiry", "leave"), ("example", "past")];
    let edited = fields(&desk, &mut mary, &changed).await;
    let page = post(&desk, &mut mary, &edited).await;
    says(&page, "This rule would have filled 0 of them through the list; really 2 were filled.");
    assert_eq!(figures(&page, "Offers made"), ("4".to_owned(), "3".to_owned()));
    assert_eq!(figures(&page, "… without an answer"), ("1".to_owned(), "3".to_owned()));
    assert_eq!(page.attribute("input[name=window]", "value").as_deref(), Some("30"), "what was typed stays");
    let policy = desk.world.database.db().policy(desk.world.event).await.expect("the rule");
    assert_eq!((policy.version, policy.after_expiry), (1, After::Back), "nothing is saved");

    // The same rule gives the same figures.
    let again = post(&desk, &mut mary, &edited).await;
    assert_eq!(again.texts("#replay tbody td"), page.texts("#replay tbody td"));

    for (changed, sentence) in [
        (vec![("window", "")], "Nothing goes out by itself under this rule"),
        (
            vec![("ordering", "manual")],
            "Staff pick under this rule. Here they are taken to have offered places at once",
        ),
        (
            vec![("ordering", "lottery")],
            "with a fixed seed, any other with the secret that the real draw revealed",
        ),
        (
            vec![("mode", "notify_all")],
            "Nothing is on record of calls: answers to them are drawn from these.",
        ),
        (vec![("list_cap", "5")], "limits on who can join are not replayed"),
    ] {
        let mut tried = changed.clone();
        tried.push(("example", "past"));
        let fields = fields(&desk, &mut mary, &tried).await;
        let page = post(&desk, &mut mary, &fields).await;
        assert_eq!(page.status, StatusCode::OK, "{changed:?}");
        assert!(page.text("#replay").contains(sentence), "{changed:?}: {}", page.text("#replay"));
    }
}

#[tokio::test]
async fn a_record_that_is_too_thin_is_not_guessed_from() {
    let desk = Desk::with(two_hours(), 0).await;
    let line = desk.world.all_waiting(&["Ada", "Ben"]).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let edited = fields(&desk, &mut mary, &[("example", "past")]).await;
    let page = post(&desk, &mut mary, &edited).await;
    says(&page, "No place has come back yet that the list could have had: there is nothing to replay.");
    desk.world.later(Duration::minutes(1));
    desk.world.add_places(1).await;
    desk.world.settle().await;
    let page = post(&desk, &mut mary, &edited).await;
    says(&page, "No offer has ended yet, so the record cannot tell whether people accept, or how soon.");
    assert!(page.texts("#replay table").is_empty(), "no figures are made up");
    desk.world.later(Duration::minutes(1));
    desk.world.accept(desk.world.live_offer(line[0].id).await.id, line[0].person).await;
    let page = post(&desk, &mut mary, &edited).await;
    says(&page, "Of 1 offer that ended, 1 was accepted, 0 declined and 0 not answered.");
}

#[tokio::test]
async fn what_cannot_be_saved_is_not_replayed_either() {
    let desk = story().await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let edited = fields(&desk, &mut mary, &[("window", "0"), ("example", "past")]).await;
    let page = post(&desk, &mut mary, &edited).await;
    assert_eq!(page.status, StatusCode::UNPROCESSABLE_ENTITY);
    assert_eq!(page.text("#window-error"), "The time to answer must be between 5 minutes and 7 days.");
    does_not_say(&page, "What it would have done");
    let mut vera = desk.at_work("Vera", Role::Viewer).await;
    let refused = post(&desk, &mut vera, &edited).await;
    assert_eq!(refused.status, StatusCode::FORBIDDEN);
}
