//! An address that does not work, and what it means in the queue.

use chrono::Duration as Span;
use fairlist::domain::attribute::Wants;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};

use super::Office;
use crate::harness::smtp::Manner;
use crate::harness::world::{add_event, email, name, two_hours};

#[tokio::test]
async fn a_refused_address_is_flagged_and_its_entry_is_passed_over_until_it_works_again() {
    let office = Office::open().await;
    let world = &office.world;
    let ann = world.waiting("Ann", 1).await;
    office.server.behave(Manner::RejectRecipient);
    office.drain().await;
    let flagged = world.entry(ann.id).await;
    assert!(flagged.contact_problem && !flagged.eligible);
    assert_eq!(flagged.key, ann.key, "the rank is kept");
    let failure: Option<String> = sqlx::query_scalar("SELECT failure FROM contacts WHERE person_id = $1")
        .bind(ann.person.0)
        .fetch_one(world.database.sql())
        .await
        .expect("the contact");
    assert_eq!(failure.as_deref(), Some("550 5.1.1 no such mailbox"));
    assert_eq!(acts(&office).await, [("contact_changed".to_owned(), "contact_problem".to_owned())]);

    // A place comes: Ben, who joined later, is offered it.
    office.server.behave(Manner::Willing);
    let ben = world.waiting("Ben", 1).await;
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.live_offer(ben.id).await.entry, ben.id);

    // Staff send the dead letter again; this time it is taken.
    let replayed = world.waitlist.db().replay_dead_letters(world.organization, world.staff).await;
    assert_eq!(replayed.expect("replayed"), 1);
    office.drain().await;
    let works = world.entry(ann.id).await;
    assert!(!works.contact_problem && works.eligible);
    assert_eq!(
        acts(&office).await,
        [
            ("contact_changed".to_owned(), "contact_problem".to_owned()),
            ("contact_changed".to_owned(), "contact_works".to_owned())
        ]
    );
    world.add_places(1).await;
    world.settle().await;
    assert_eq!(world.live_offer(ann.id).await.entry, ann.id);
}

#[tokio::test]
async fn what_was_interrupted_between_contact_and_entry_is_caught_up_with() {
    let office = Office::open().await;
    let world = &office.world;
    let ann = world.waiting("Ann", 1).await;
    office.drain().await;
    sqlx::query("UPDATE contacts SET failing_since = $1, failure = '550'")
        .bind(world.now())
        .execute(world.database.sql())
        .await
        .expect("as if the program had stopped here");
    office.drain().await;
    assert!(world.entry(ann.id).await.contact_problem, "a new worker looks at once");
    sqlx::query("UPDATE contacts SET failing_since = NULL, failure = NULL")
        .execute(world.database.sql())
        .await
        .expect("a code was entered");
    world.later(Span::minutes(1));
    office.drain().await;
    assert!(!world.entry(ann.id).await.contact_problem);
}

#[tokio::test]
async fn an_event_that_cannot_be_read_holds_up_no_mail_of_others() {
    let office = Office::open().await;
    let world = &office.world;
    let broken = add_event(&world.waitlist, world.organization, world.staff, "autumn", two_hours()).await;
    let zoe = Join {
        wants: Wants::default(),
        name: name("Zoe"),
        email: email("zoe@example.org"),
        party: 1,
        as_whom: JoinAs::Vouched(world.actor()),
    };
    let joined = world.waitlist.join(broken, &[zoe]).await.expect("joining");
    let [JoinOutcome::Joined(zoe)] = &joined[..] else { panic!("Zoe joins, but: {joined:?}") };
    office.drain().await;
    assert_eq!(office.server.next_mail().await.to, ["zoe@example.org"]);
    let set_zone = async |zone: &str| {
        sqlx::query("UPDATE events SET zone = $2 WHERE id = $1")
            .bind(broken.0)
            .bind(zone)
            .execute(world.database.sql())
            .await
            .expect("the zone");
    };
    sqlx::query("UPDATE contacts SET failing_since = $1, failure = '550'")
        .bind(world.now())
        .execute(world.database.sql())
        .await
        .expect("as if the program had stopped here");
    set_zone("Middle-earth/Shire").await;
    world.later(Span::minutes(1));
    world.waiting("Ann", 1).await;
    office.drain().await;
    assert_eq!(office.server.next_mail().await.to, ["ann@example.org"]);

    set_zone("Europe/Berlin").await;
    world.later(Span::minutes(1));
    office.drain().await;
    assert!(world.entry(zoe.id).await.contact_problem, "and it is caught up with");
}

#[tokio::test]
async fn a_second_address_that_works_is_enough() {
    let office = Office::open().await;
    let world = &office.world;
    let ann = world.waiting("Ann", 1).await;
    sqlx::query(
        "INSERT INTO contacts (id, organization_id, person_id, kind, value, canonical, created_at)
         VALUES ($1, $2, $3, 'email', 'second@example.org', 'second@example.org', $4)",
    )
    .bind(fairlist::clock::Entropy.id())
    .bind(world.organization.0)
    .bind(ann.person.0)
    .bind(world.now() + Span::seconds(1))
    .execute(world.database.sql())
    .await
    .expect("a contact");
    office.server.behave(Manner::RejectRecipient);
    office.drain().await;
    assert!(!world.entry(ann.id).await.contact_problem);
    office.server.behave(Manner::Willing);
    let _ = world.waitlist.db().replay_dead_letters(world.organization, world.staff).await;
    office.drain().await;
    assert_eq!(office.server.next_mail().await.to, ["second@example.org"]);
}

/// Acts on entries other than joining, with their reasons.
async fn acts(office: &Office) -> Vec<(String, String)> {
    sqlx::query_as(
        "SELECT act, reason FROM audit WHERE subject = 'entry' AND act = 'contact_changed' ORDER BY seq",
    )
    .fetch_all(office.world.database.sql())
    .await
    .expect("the audit")
}
