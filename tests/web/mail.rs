//! The mailbox, dead letters, and stopping mail.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use fairlist::domain::delivery::{Channel, Verdict};
use fairlist::domain::ids::{MessageId, StaffId};
use fairlist::domain::password::NewPassword;
use fairlist::domain::role::Role;
use fairlist::messages::smtp::Server;
use fairlist::messages::{self, Mailer, Outcome, Relay};
use fairlist::web::{self, Settings, WebState};
use tokio_util::sync::CancellationToken;

use crate::harness::database::secret;
use crate::harness::site::{PASSWORD, sign_in};
use crate::harness::visitor::Visitor;
use crate::harness::world::{World, add_staff, two_hours};

struct Mailbox {
    world: World,
    router: Router,
    settings: Arc<messages::Settings>,
}

impl Mailbox {
    /// Without a mail server.
    async fn open() -> Self {
        Self::with(None).await
    }

    async fn with(smtp: Option<Relay>) -> Self {
        let world = World::with(two_hours(), 0).await;
        let base: url::Url = "http://localhost".parse().expect("a URL");
        let settings = Arc::new(messages::Settings::new(base.clone(), secret(), smtp));
        let state = WebState::new(world.database.db().clone(), secret(), Settings::new(base));
        let router = web::router(state.with_mail(Arc::clone(&settings))).expect("a router");
        Self { world, router, settings }
    }

    async fn staff(&self, email: &str, role: Role) -> Visitor {
        let (_, staff) = add_staff(&self.world.waitlist, "House of Music", email, role).await;
        let hash = NewPassword::parse(PASSWORD, &[]).expect("good").hash([1; 16]).expect("hashed");
        self.world.database.db().set_password(staff, &hash).await.expect("set");
        let mut visitor = Visitor::new(&self.router);
        assert_eq!(sign_in(&mut visitor, email, PASSWORD).await.status, StatusCode::SEE_OTHER);
        visitor
    }

    /// Delivers to the mailbox page.
    async fn drain(&self) {
        let mail = messages::Settings::new(self.settings.base_url.clone(), secret(), None);
        let mut mailer = Mailer::new(self.world.database.db(), mail.into(), CancellationToken::new());
        while matches!(mailer.tick().await.expect("a tick"), Outcome::Worked(_)) {}
    }

    async fn message(&self, occasion: &str) -> MessageId {
        MessageId(
            sqlx::query_scalar("SELECT id FROM messages WHERE occasion = $1 LIMIT 1")
                .bind(occasion)
                .fetch_one(self.world.database.sql())
                .await
                .expect("a message"),
        )
    }
}

#[tokio::test]
async fn without_a_mail_server_the_mailbox_leads_to_the_offer_and_shows_the_code() {
    let mailbox = Mailbox::open().await;
    let ann = mailbox.world.waiting("Ann", 1).await;
    mailbox.world.add_places(1).await;
    mailbox.world.settle().await;
    let code = mailbox.world.waitlist.send_code(ann.person, Some(mailbox.world.event)).await.expect("a code");
    mailbox.drain().await;
    let mut agent = mailbox.staff("agent@house.example", Role::Agent).await;

    let list = agent.get("/staff/messages").await;
    assert!(list.body.contains("No SMTP server is set: messages are readable here and nowhere else."));
    assert_eq!(list.text(".answer"), "Nothing waits to be sent.");
    assert_eq!(list.texts("tbody tr").len(), 3);
    assert_eq!(list.texts(".filter li")[..2], ["all 3", "queued 0"]);
    assert!(list.texts(".filter li").contains(&"told 3".to_owned()));

    let offer = mailbox.world.live_offer(ann.id).await;
    let page = agent.get(&format!("/staff/messages/{}", mailbox.message("offer").await)).await;
    let link = page.attribute("a.button", "href").expect("the offer's link");
    assert_eq!(link, format!("http://localhost/o/{}", secret().offer_token(offer.id, 0)));
    assert!(page.text("pre").contains("It is your turn: 1 place at Spring Concert."));
    assert!(page.texts("details pre")[0].contains("<!doctype html>"), "the HTML is shown as its source");
    assert_eq!(page.texts("tbody tr").len(), 1, "one delivery");

    let page = agent.get(&format!("/staff/messages/{}", mailbox.message("code").await)).await;
    assert_eq!(page.text("strong.mono"), secret().code_digits(code));

    // Whoever only looks has no use for what is worth a place.
    let mut viewer = mailbox.staff("viewer@house.example", Role::Viewer).await;
    for occasion in ["offer", "code"] {
        let page = viewer.get(&format!("/staff/messages/{}", mailbox.message(occasion).await)).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.body.contains("••••••") && page.attribute("a.button", "href").is_none());
        assert!(!page.body.contains(&secret().offer_token(offer.id, 0)));
        assert!(!page.body.contains(&secret().code_digits(code)));
    }
}

#[tokio::test]
async fn with_a_mail_server_links_and_codes_are_masked_for_everybody() {
    let relay = Relay {
        server: Server::parse("smtps://user:password@mail.example.org").expect("a server"),
        from: "w@example.org".parse().expect("a sender"),
    };
    let mailbox = Mailbox::with(Some(relay)).await;
    let ann = mailbox.world.waiting("Ann", 1).await;
    mailbox.world.add_places(1).await;
    mailbox.world.settle().await;
    let db = mailbox.world.database.db();
    db.channel_failed(None, "535 wrong password", true, mailbox.world.now()).await.expect("noted");
    let mut owner = mailbox.staff("second@house.example", Role::Owner).await;
    let list = owner.get("/staff/messages").await;
    assert!(list.body.contains("Mail goes through mail.example.org:465."));
    assert!(list.body.contains("535 wrong password") && !list.body.contains("user:password"));
    assert_eq!(list.text(".answer"), "2 messages wait to be sent.");
    let offer = mailbox.world.live_offer(ann.id).await;
    let page = owner.get(&format!("/staff/messages/{}", mailbox.message("offer").await)).await;
    assert!(page.body.contains("http://localhost/o/••••••"));
    assert!(!page.body.contains(&secret().offer_token(offer.id, 0)));
}

#[tokio::test]
async fn a_dead_letter_is_seen_and_sent_again_once() {
    let mailbox = Mailbox::open().await;
    mailbox.world.waiting("Ann", 1).await;
    let db = mailbox.world.database.db();
    let claim = db.claim_messages(Channel::Smtp, 1, mailbox.world.now()).await.expect("claimed").remove(0);
    let verdict =
        Verdict::Permanent { detail: "554 5.7.1 relaying denied".to_owned(), contact_refused: false };
    let done = fairlist::db::outbox::Finished { claim, contact: None, verdict };
    db.note_outcomes(&[done], mailbox.world.now()).await.expect("noted");

    let mut viewer = mailbox.staff("viewer@house.example", Role::Viewer).await;
    let path = format!("/staff/messages/{}", mailbox.message("joined").await);
    let page = viewer.get(&path).await;
    assert!(page.text(".answer").contains("It could not be delivered. 554 5.7.1 relaying denied"));
    assert_eq!(page.attribute("main form", "action"), None, "a viewer sends nothing");
    assert_eq!(viewer.post(&format!("{path}/send-again"), &[]).await.status, StatusCode::FORBIDDEN);

    let mut agent = mailbox.staff("agent@house.example", Role::Agent).await;
    let list = agent.get("/staff/messages?state=dead").await;
    assert!(list.text(".answer").contains("1 could not be delivered and needs you."));
    assert_eq!(list.texts("tbody tr").len(), 1);
    agent.get(&path).await;
    let after = agent.submit(&format!("{path}/send-again"), &[]).await;
    assert!(after.text(".flash").contains("queued again"), "{}", after.body);
    let after = agent.submit(&format!("{path}/send-again"), &[]).await;
    assert!(after.text(".flash").contains("Nothing was done"));
    mailbox.drain().await;
    assert!(agent.get(&path).await.text(".answer").contains("was told"));
    let after = agent.submit("/staff/messages/send-again", &[]).await;
    assert!(after.text(".flash").contains("delivered or is queued already"));
}

#[tokio::test]
async fn messages_of_one_event_page_by_page_and_never_another_organizations() {
    let mailbox = Mailbox::open().await;
    for n in 0..120 {
        mailbox.world.waiting(&format!("waiter{n}"), 1).await;
    }
    let mut agent = mailbox.staff("agent@house.example", Role::Agent).await;
    let mut seen = Vec::new();
    let mut next = Some(format!("/staff/events/{}/messages?state=queued", mailbox.world.event));
    while let Some(path) = next {
        let page = agent.get(&path).await;
        seen.extend(page.texts("tbody td[data-label=To]"));
        next = page.attribute("a[rel=next]", "href");
    }
    assert_eq!(seen.len(), 120);
    assert_eq!(seen.iter().collect::<std::collections::HashSet<_>>().len(), 120, "each once");
    assert_eq!(agent.get("/staff/messages?state=told").await.texts("tbody tr").len(), 0);
    for nonsense in ["/staff/messages?before=x&state=x&person=x", "/staff/messages?before=1-2"] {
        assert_eq!(agent.get(nonsense).await.status, StatusCode::OK, "{nonsense}");
    }

    let (_, stranger) = add_staff(&mailbox.world.waitlist, "Another", "x@other.example", Role::Owner).await;
    let hash = NewPassword::parse(PASSWORD, &[]).expect("good").hash([1; 16]).expect("hashed");
    mailbox.world.database.db().set_password(stranger, &hash).await.expect("set");
    let mut other = Visitor::new(&mailbox.router);
    sign_in(&mut other, "x@other.example", PASSWORD).await;
    assert!(other.get("/staff/messages").await.texts("tbody tr").is_empty());
    let message = mailbox.message("joined").await;
    for path in [
        format!("/staff/messages/{message}"),
        format!("/staff/events/{}/messages", mailbox.world.event),
        "/staff/messages/not-an-id".to_owned(),
    ] {
        assert_eq!(other.get(&path).await.status, StatusCode::NOT_FOUND, "{path}");
    }
    let refused = other.post(&format!("/staff/messages/{message}/send-again"), &[]).await;
    assert_eq!(refused.status, StatusCode::NOT_FOUND);
}

/// The kind of fault in SparkDevNetwork/Rock#7034, frappe/frappe#2582 and djangonaut-space/wagtail-indymeet#307: a
/// mail scanner's GET unsubscribed whole groups.
#[tokio::test]
async fn a_scanner_changes_nothing_and_one_click_stops_mail_but_keeps_the_place_in_the_queue() {
    let mailbox = Mailbox::open().await;
    let ann = mailbox.world.waiting("Ann", 1).await;
    let db = mailbox.world.database.db();
    let path = format!("/unsubscribe/{}", secret().unsubscribe_token(ann.person));
    let mut scanner = Visitor::new(&mailbox.router);
    for _ in 0..10 {
        assert_eq!(scanner.head(&path).await.status, StatusCode::OK);
        let page = scanner.get(&path).await;
        assert_eq!(page.status, StatusCode::OK);
        assert!(page.body.contains("House of Music") && !page.body.contains("Ann"), "it names nobody");
    }
    assert!(!db.news(ann.person).await.expect("asked").stopped);

    // As mail programs do it: no cookie, no form token, no headers of a browser; and no redirect as the answer.
    let mut program = Visitor::new(&mailbox.router);
    let answer = program.post_raw(&path, &[("List-Unsubscribe", "One-Click")], &[]).await;
    assert_eq!(answer.status, StatusCode::OK);
    assert!(answer.body.contains("Your place in every queue stays as it is."));
    assert!(db.news(ann.person).await.expect("asked").stopped);
    assert_eq!(mailbox.world.entry(ann.id).await, ann, "nothing about the entry changed");
    mailbox.world.add_places(1).await;
    mailbox.world.settle().await;
    assert_eq!(mailbox.world.told(ann.person, "offer").await, 1);

    let answer = program.post_raw(&format!("{path}/again"), &[], &[("sec-fetch-site", "same-origin")]).await;
    assert!(answer.body.contains("You get all mails again"));
    assert!(!db.news(ann.person).await.expect("asked").stopped);

    for wrong in ["/unsubscribe/x".to_owned(), format!("{path}0"), path.replace(&path[60..], "")] {
        assert_eq!(program.get(&wrong).await.status, StatusCode::NOT_FOUND, "{wrong}");
        let refused = program.send(Method::POST, &wrong, Body::empty(), &[]).await;
        assert_eq!(refused.status, StatusCode::NOT_FOUND, "{wrong}");
    }
    let elsewhere = program.post_raw(&path, &[], &[("sec-fetch-site", "cross-site")]).await;
    assert_eq!(elsewhere.status, StatusCode::FORBIDDEN, "a page elsewhere cannot press the button");
}

/// An anchor is for whoever asks: once for each head, readable in the mailbox, and gone with whoever does not work
/// here any more.
#[tokio::test]
async fn an_anchor_is_mailed_to_whoever_asked_for_it_and_nobody_else() {
    let mailbox = Mailbox::open().await;
    let mut owner = mailbox.staff("olga@house.example", Role::Owner).await;
    let page = format!("/staff/events/{}/audit", mailbox.world.event);
    owner.get(&page).await;
    let answer = owner.submit(&format!("{page}/anchor"), &[]).await;
    answer.says("is being mailed to olga@house.example. Messages shows what becomes of it.");
    let again = owner.submit(&format!("{page}/anchor"), &[]).await;
    again.says("Nothing was done: the anchor of record");
    mailbox.drain().await;
    let shown = owner.get(&format!("/staff/messages/{}", mailbox.message("anchor").await.0)).await;
    assert_eq!(shown.texts("tbody td[data-label=To]"), ["olga@house.example"]);
    shown.says("fairlist verify spring-audit.csv --anchor ");
    assert!(shown.texts("dd a").is_empty(), "no customer to lead to: {}", shown.body);
    let list = owner.get("/staff/messages").await;
    assert!(list.text("tbody").contains("anchor"), "{}", list.body);

    // The organization's chain is another; nobody reads it once its owner is gone.
    let answer = owner.submit("/staff/audit/anchor", &[]).await;
    answer.says("is being mailed to olga@house.example.");
    let olga = sqlx::query_scalar("SELECT id FROM staff WHERE email = 'olga@house.example'")
        .fetch_one(mailbox.world.database.sql())
        .await
        .expect("their id");
    mailbox.world.database.db().disable_staff(StaffId(olga)).await.expect("disabled");
    mailbox.drain().await;
    let states: Vec<(String, Option<String>)> = sqlx::query_as(
        "SELECT state, note FROM messages WHERE occasion = 'anchor' ORDER BY made_at, state DESC",
    )
    .fetch_all(mailbox.world.database.sql())
    .await
    .expect("messages");
    assert_eq!(states[0], ("told".to_owned(), None));
    assert_eq!(states[1].0, "suppressed");
    assert!(
        states[1].1.as_deref().is_some_and(|note| note.contains("does not work here any more")),
        "{states:?}"
    );
}
