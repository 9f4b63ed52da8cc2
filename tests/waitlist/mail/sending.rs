//! Mail that arrives, or rightly does not.

use chrono::Duration;
use fairlist::db::mailbox::MessageFilter;
use fairlist::domain::attribute::Wants;
use fairlist::domain::audit::Actor;
use fairlist::domain::delivery::MessageState;
use fairlist::domain::message::{Facts, Occasion};
use fairlist::messages::Mailer;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::staff_offers::AfterRevoke;
use uuid::Uuid;

use super::{Office, drain, settings};
use crate::harness::world::{add_event, email, name, reason, two_hours};

#[tokio::test]
async fn an_offer_arrives_with_both_parts_its_link_and_its_headers() {
    let office = Office::open().await;
    let ann = office.world.waiting("Ann", 2).await;
    office.world.add_places(2).await;
    office.world.settle().await;
    office.drain().await;

    let offer = office.world.live_offer(ann.id).await;
    let mail = office.server.mails().into_iter().find(|mail| mail.text().contains("/o/")).expect("an offer");
    assert_eq!(
        (mail.from.as_str(), mail.to.as_slice()),
        ("waitlist@fairlist.example", &["ann@example.org".to_owned()][..])
    );
    assert_eq!(mail.header("from"), "\"House of Music\" <waitlist@fairlist.example>");
    assert_eq!(mail.header("to"), "Ann <ann@example.org>");
    assert_eq!(
        mail.header("subject"),
        "2 places at Spring Concert for you, until Mon 1 Mar 2027, 12:00 (CET, UTC+01:00)"
    );
    assert_eq!(mail.header("auto-submitted"), "auto-generated");
    assert_eq!(mail.header("list-unsubscribe"), "", "an offer is what they are on the list for");
    let token = office.settings.secret.offer_token(offer.id, 0);
    assert_eq!(mail.link("https://fairlist.example/o/"), format!("https://fairlist.example/o/{token}"));
    assert!(mail.html().contains(&format!("https://fairlist.example/o/{token}")));
    assert!(mail.text().contains(&format!("https://fairlist.example/me/entries/{}", ann.id)));

    let messages = office.world.waitlist.db();
    let filter = MessageFilter { event: Some(office.world.event), ..MessageFilter::default() };
    let lines = messages.messages(office.world.organization, &filter, 10).await.expect("lines");
    let line = lines.iter().find(|line| line.occasion == Some(Occasion::Offer)).expect("the offer's message");
    assert_eq!(line.state, MessageState::Told);
    assert_eq!(mail.header("message-id"), format!("<{}@fairlist.example>", line.id));
    assert_eq!(office.outcomes(line.id).await, ["accepted"]);
}

#[tokio::test]
async fn a_confirmation_of_joining_can_be_stopped_with_one_click_and_an_offer_still_comes() {
    let office = Office::open().await;
    let ann = office.world.waiting("Ann", 1).await;
    office.drain().await;
    let mail = office.server.next_mail_to("ann@example.org").await;
    let token = office.settings.secret.unsubscribe_token(ann.person);
    let link = format!("https://fairlist.example/unsubscribe/{token}");
    assert_eq!(mail.header("list-unsubscribe"), format!("<{link}>"));
    assert_eq!(mail.header("list-unsubscribe-post"), "List-Unsubscribe=One-Click");
    assert!(mail.text().contains(&link));

    let db = office.world.waitlist.db();
    assert!(db.stop_news(ann.person).await.expect("stopped"));
    assert!(!db.stop_news(ann.person).await.expect("stopped before"));
    let lapsed = office.message(ann.person, Occasion::Lapsed, Facts::default()).await;
    office.world.add_places(1).await;
    office.world.settle().await;
    office.drain().await;
    let mail = office.server.next_mail_to("ann@example.org").await;
    assert!(mail.text().contains("/o/"));
    assert_eq!(office.row(lapsed).await.state, "suppressed");
    assert_eq!(office.world.entry(ann.id).await.key, ann.key, "the place in the queue stays");
}

#[tokio::test]
async fn a_closed_offer_is_not_sent() {
    let office = Office::open().await;
    let (ann, ben) = (office.world.waiting("Ann", 1).await, office.world.waiting("Ben", 1).await);
    office.world.add_places(2).await;
    office.world.settle().await;
    // Between the commit that made the offers and the worker: Ann's is revoked, Ben's deadline passes.
    let offer = office.world.live_offer(ann.id).await;
    let (world, staff) = (&office.world, Actor::Staff(office.world.staff));
    world
        .waitlist
        .revoke(world.event, offer.id, AfterRevoke::ToTheEnd, staff, &reason())
        .await
        .expect("revoked");
    world.later(Duration::hours(2));
    office.drain().await;
    let mails = office.server.mails();
    assert!(!mails.iter().any(|mail| mail.text().contains("/o/")), "{mails:?}");
    assert!(mails.iter().any(|mail| mail.text().contains("had to take back the offer of 1 place")));
    let suppressed: Vec<String> =
        sqlx::query_scalar("SELECT note FROM messages WHERE occasion = 'offer' AND state = 'suppressed'")
            .fetch_all(world.database.sql())
            .await
            .expect("notes");
    assert_eq!(suppressed, ["The offer had ended before this could be sent."; 2]);
    world.settle().await;
    assert_eq!(world.told(ben.person, "lapsed").await, 1);
}

/// The kind of fault in LonghornRacingElectric/recruiting-site-2026#169, where 55 of 103 mails named another queue
/// than the one they were about.
#[tokio::test]
async fn a_mail_names_the_queue_of_its_entry_for_somebody_in_three_queues() {
    let office = Office::open().await;
    let world = &office.world;
    let mut entries = vec![world.waiting("Ann", 1).await];
    for (slug, party) in [("yoga", 2), ("chess", 3)] {
        let event = add_event(&world.waitlist, world.organization, world.staff, slug, two_hours()).await;
        sqlx::query("UPDATE events SET name = $2 WHERE id = $1")
            .bind(event.0)
            .bind(slug)
            .execute(world.database.sql())
            .await
            .expect("renamed");
        let join = Join {
            wants: Wants::default(),
            name: name("Ann"),
            email: email("ann@example.org"),
            party,
            as_whom: JoinAs::Vouched(world.actor()),
        };
        match world.waitlist.join(event, &[join]).await.expect("joined").remove(0) {
            JoinOutcome::Joined(entry) => entries.push(entry),
            other => panic!("{other:?}"),
        }
    }
    office.drain().await;
    let mails = office.server.mails();
    assert_eq!(mails.len(), 3);
    for (entry, (event, places)) in
        entries.iter().zip([("Spring Concert", "1 place"), ("yoga", "2 places"), ("chess", "3 places")])
    {
        assert_eq!(entry.person, entries[0].person, "one person");
        let link = format!("/me/entries/{}", entry.id);
        let about: Vec<_> = mails.iter().filter(|mail| mail.text().contains(&link)).collect();
        assert_eq!(about.len(), 1);
        assert_eq!(about[0].header("subject"), format!("You are on the waitlist for {event}"));
        assert!(about[0].text().contains(places), "{}", about[0].text());
        assert!(about[0].html().contains(event));
    }
}

/// The kind of fault in comlounge/camper#137, inspiredminds/contao-event-registration#44 and
/// SparkDevNetwork/Rock#5747: whoever waits was told that they have a place, and how to get in.
#[tokio::test]
async fn whoever_waits_never_gets_what_is_for_those_who_have_a_place() {
    let office = Office::open().await;
    let world = &office.world;
    let ann = world.waiting("Ann", 1).await;
    let ben = world.waiting("Ben", 1).await;
    world.add_places(1).await;
    world.settle().await;
    let offer = world.live_offer(ann.id).await;
    world.accept(offer.id, ann.person).await;
    office.drain().await;
    let booked = |to: &str| {
        let mails = office.server.mails();
        let mine = mails.iter().filter(|mail| mail.to == [to]);
        mine.filter(|mail| mail.text().contains("Reference:")).count()
    };
    assert_eq!(booked("ann@example.org"), 1);
    assert_eq!(booked("ben@example.org"), 0);
    let mails = office.server.mails();
    let joined = mails.iter().find(|mail| mail.to == ["ben@example.org"]).expect("told that they wait");
    assert!(joined.text().contains("Nothing is booked yet"));
    for secret in ["Great Hall", "Reference", "/o/", "Place:"] {
        assert!(!joined.text().contains(secret) && !joined.html().contains(secret), "{secret}");
    }
    assert_eq!(world.entry(ben.id).await.key, ben.key);
}

#[tokio::test]
async fn a_code_overtakes_a_backlog() {
    let office = Office::open().await;
    for n in 0..20 {
        office.told(&format!("waiter{n}")).await;
    }
    let person = office.world.person("late").await;
    office.world.waitlist.send_code(person, Some(office.world.event)).await.expect("a code");
    office.mailer().tick().await.expect("one message");
    let mail = office.server.next_mail().await;
    assert_eq!(mail.to, ["late@example.org"]);
    assert_eq!(mail.code().len(), 6);
}

#[tokio::test]
async fn an_old_code_and_one_that_was_replaced_are_not_sent() {
    let office = Office::open().await;
    let person = office.world.person("Ann").await;
    let event = Some(office.world.event);
    let first = office.world.waitlist.send_code(person, event).await.expect("a code");
    let second = office.world.waitlist.send_code(person, event).await.expect("another");
    office.drain().await;
    assert_eq!(office.server.mails().len(), 1);
    assert_eq!(office.server.next_mail().await.code(), office.settings.secret.code_digits(second));
    assert_ne!(first, second);
}

#[tokio::test]
async fn without_a_mail_server_the_mailbox_page_is_the_delivery() {
    let office = Office::open().await;
    let (_, message) = office.told("Ann").await;
    let mut mailer = Mailer::new(office.world.waitlist.db(), settings(None).into(), office.stopping.clone());
    drain(&mut mailer).await;
    assert_eq!(office.row(message).await.state, "told");
    let channel: String = sqlx::query_scalar("SELECT channel FROM deliveries WHERE message_id = $1")
        .bind(message.0)
        .fetch_one(office.world.database.sql())
        .await
        .expect("a delivery");
    assert_eq!(channel, "mailbox");
    assert!(office.server.mails().is_empty());
}

/// Names are checked at the edge; these came in by another way.
#[tokio::test]
async fn names_with_line_breaks_add_no_header_and_stop_nobody() {
    let office = Office::open().await;
    let wicked = "Pat\r\nBcc: all@example.org\r\n\r\n<script>\u{202E}\0";
    // NUL cannot be stored; the rest can.
    let wicked = wicked.trim_end_matches('\0');
    let (person, message) = office.told("Pat").await;
    for (table, id) in [
        ("persons", person.0),
        ("events", office.world.event.0),
        ("organizations", office.world.organization.0),
    ] {
        sqlx::query(sqlx::AssertSqlSafe(format!("UPDATE {table} SET name = $2 WHERE id = $1")))
            .bind(id)
            .bind(wicked)
            .execute(office.world.database.sql())
            .await
            .expect("renamed");
    }
    sqlx::query("UPDATE organizations SET contact = $1")
        .bind("x@example.org\r\nX-Evil: yes")
        .execute(office.world.database.sql())
        .await
        .expect("changed");
    office.drain().await;
    let mail = office.server.next_mail().await;
    assert_eq!(mail.to, ["pat@example.org"], "nobody else");
    for evil in ["bcc", "x-evil", "reply-to"] {
        assert_eq!(mail.header(evil), "");
    }
    assert!(mail.header("subject").contains("Pat Bcc: all@example.org <script>"));
    assert!(!mail.html().contains("<script>"));
    assert_eq!(office.row(message).await.state, "told");
}

#[tokio::test]
async fn a_message_to_somebody_without_an_address_is_for_the_telephone() {
    let office = Office::open().await;
    let (person, message) = office.told("Ann").await;
    sqlx::query("UPDATE contacts SET kind = 'phone', value = '+49 30 1234', canonical = '+49301234' WHERE person_id = $1")
        .bind(person.0)
        .execute(office.world.database.sql())
        .await
        .expect("changed");
    office.drain().await;
    let row = office.row(message).await;
    assert_eq!(row.state, "dead");
    assert!(row.note.expect("a note").contains("by telephone"));
    assert_ne!(message.0, Uuid::nil());
}
