//! What comes in wrong, over every form and address: bytes that are no text, ids that are none, deadlines that cannot
//! be. Each ends in a page or at its field, never in a parser's words and never in a change.

use axum::body::Body;
use axum::http::{Method, StatusCode};
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::waitlist::staff_offers::AfterRevoke;

use crate::customer::Booth;
use crate::harness::desk::{Desk, says};
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::{reason, two_hours};

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

/// Words of the libraries that read what comes in.
const PARSERS: [&str; 10] = [
    "uuid",
    "UUID",
    "deserialize",
    "Deserialize",
    "invalid",
    "expected",
    "utf-8 sequence",
    "parse",
    "serde",
    "sqlx",
];

#[track_caller]
fn is_our_page(answer: &Answer, status: StatusCode, at: &str) {
    assert_eq!(answer.status, status, "{at}: {}", answer.body);
    assert!(answer.header("content-type").starts_with("text/html"), "{at}");
    let text = answer.text("main");
    for word in PARSERS {
        assert!(!text.contains(word), "{at} says {word:?}: {text}");
    }
    assert!(answer.attribute("main a, header a", "href").is_some(), "{at}: a way out");
}

/// Every page and act of staff below an event, for that id of whatever stands in the address.
fn of_staff(event: &str, id: &str) -> (Vec<String>, Vec<String>) {
    let below = |paths: &[&str]| -> Vec<String> {
        paths.iter().map(|path| format!("/staff/events/{event}{}", path.replace("{id}", id))).collect()
    };
    let pages = [
        "",
        "/queue",
        "/queue.csv",
        "/offers",
        "/places",
        "/bookings",
        "/audit",
        "/audit.csv",
        "/policy",
        "/settings",
        "/release",
        "/messages",
        "/import",
        "/bookings/new",
        "/places/lower",
    ];
    let one = [
        "/entries/{id}",
        "/entries/{id}/offer",
        "/entries/{id}/pause",
        "/entries/{id}/resume",
        "/entries/{id}/remove",
        "/entries/{id}/bring-back",
        "/offers/{id}",
        "/offers/{id}/revoke",
        "/offers/{id}/reactivate",
        "/offers/{id}/extend",
        "/offers/{id}/accept",
        "/offers/{id}/decline",
        "/release/{id}",
        "/places/{id}/retire",
        "/import/{id}",
    ];
    (below(&pages), below(&one))
}

#[tokio::test]
async fn an_id_that_is_none_or_nobodys_is_a_page_that_is_not_there() {
    let desk = Desk::with(two_hours(), 1).await;
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let long = "9".repeat(3_000);
    let event = desk.world.event.to_string();
    for id in [uuid::Uuid::max().to_string().as_str(), "nonsense", "%00", "%ff%fe", "-1", "1e9", "'", &long] {
        let (pages, _) = of_staff(id, id);
        let (_, ones) = of_staff(&event, id);
        for path in pages.iter().chain(&ones) {
            is_our_page(&owner.get(path).await, StatusCode::NOT_FOUND, path);
        }
        owner.get("/staff").await;
        for path in &ones {
            let answer = owner.post(path, &[("reason", "goodwill"), ("after", "set_aside")]).await;
            assert!(
                matches!(answer.status, StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED),
                "POST {path}: {}",
                answer.status
            );
            is_our_page(&answer, answer.status, path);
        }
        is_our_page(&owner.get(&format!("/staff/messages/{id}")).await, StatusCode::NOT_FOUND, id);
    }
    let booth = Booth::with(two_hours(), 1).await;
    booth.world.waiting("Ann", 1).await;
    let mut ann = booth.signed_in("ann@example.org").await;
    for id in [uuid::Uuid::max().to_string().as_str(), "nonsense", "%00", "%ff%fe", "-1", "'", &long] {
        for path in [
            "/e/{id}",
            "/o/{id}",
            "/code/{id}",
            "/offers/{id}",
            "/offers/{id}/booking.ics",
            "/me/entries/{id}",
            "/me/entries/{id}/leave",
            "/me/bookings/{id}",
            "/me/bookings/{id}/cancel",
            "/me/bookings/{id}/booking.ics",
            "/unsubscribe/{id}",
        ] {
            let path = path.replace("{id}", id);
            is_our_page(&ann.get(&path).await, StatusCode::NOT_FOUND, &path);
        }
        ann.get("/me").await;
        for path in [
            "/e/{id}/join",
            "/e/{id}/book",
            "/code/{id}",
            "/code/{id}/resend",
            "/offers/{id}/code",
            "/offers/{id}/accept",
            "/offers/{id}/decline",
            "/me/entries/{id}/leave",
            "/me/entries/{id}/pause",
            "/me/entries/{id}/resume",
            "/me/entries/{id}/confirm",
            "/me/bookings/{id}/cancel",
        ] {
            let path = path.replace("{id}", id);
            let fields =
                [("name", "Ann"), ("email", "ann@example.org"), ("party", "1"), ("digits", "123456")];
            is_our_page(&ann.post(&path, &fields).await, StatusCode::NOT_FOUND, &path);
        }
    }
    booth.world.settle().await;
}

/// Sends a form of bytes that are no text, with the right token.
async fn unreadable(visitor: &mut Visitor, path: &str) {
    for bytes in ["%ff%fe", "a%00b", "%ed%a0%80"] {
        let body = format!("form_token={}&name={bytes}&note={bytes}&reason=goodwill", visitor.token);
        let answer = visitor
            .send(Method::POST, path, Body::from(body), &[FORM, ("sec-fetch-site", "same-origin")])
            .await;
        is_our_page(&answer, StatusCode::BAD_REQUEST, path);
        says(&answer, "The form holds characters that cannot be read. Nothing was saved.");
    }
}

#[tokio::test]
async fn bytes_that_are_no_text_are_refused_by_every_form_and_list() {
    let desk = Desk::with(two_hours(), 1).await;
    let mut owner = desk.at_work("Olga", Role::Owner).await;
    let id = uuid::Uuid::max().to_string();
    let (pages, ones) = of_staff(&desk.world.event.to_string(), &id);
    let acts = ["publish", "open-list", "freeze-list", "close-list", "cancel", "restore"];
    let mut forms: Vec<String> = acts.iter().map(|act| desk.path(&format!("/state/{act}"))).collect();
    forms.extend(
        ["/settings", "/policy", "/places", "/places/lower", "/bookings/new"].map(|path| desk.path(path)),
    );
    forms.extend(
        ones.iter().filter(|path| path.matches('/').count() > 5 || path.contains("/release/")).cloned(),
    );
    forms.extend([
        "/staff/events/new".to_owned(),
        "/staff/sign-in".to_owned(),
        "/staff/messages/send-again".to_owned(),
        format!("/staff/messages/{id}/send-again"),
    ]);
    owner.get("/staff").await;
    for form in &forms {
        unreadable(&mut owner, form).await;
    }
    for page in pages.iter().filter(|page| {
        ["/queue", "/offers", "/places", "/bookings", "/audit", "/release", "/messages", "/queue.csv"]
            .iter()
            .any(|list| page.ends_with(list))
    }) {
        for query in ["q=%00", "q=%ff", "state=%00", "after=%ff"] {
            is_our_page(&owner.get(&format!("{page}?{query}")).await, StatusCode::BAD_REQUEST, page);
        }
    }
    let booth = Booth::with(two_hours(), 1).await;
    booth.world.waiting("Ann", 1).await;
    let mut ann = booth.signed_in("ann@example.org").await;
    for form in [
        "/e/spring/join".to_owned(),
        "/e/spring/book".to_owned(),
        "/sign-in".to_owned(),
        format!("/code/{id}"),
        format!("/offers/{id}/accept"),
        format!("/me/entries/{id}/leave"),
        format!("/me/entries/{id}/pause"),
    ] {
        unreadable(&mut ann, &form).await;
    }
    // And so is a form that nobody fills in by hand.
    let answer = ann.post("/e/spring/join", &[("name", &"x".repeat(100_000))]).await;
    is_our_page(&answer, StatusCode::PAYLOAD_TOO_LARGE, "a form of 100 kB");
    booth.world.settle().await;
}

#[tokio::test]
async fn an_address_that_somebody_changed_by_hand_is_the_first_page_and_a_form_is_opened_again() {
    let desk = Desk::with(two_hours(), 2).await;
    let mut mary = desk.at_work("Mary", Role::Manager).await;
    let id = uuid::Uuid::nil();
    for micros in
        ["8210266876799999999", "-8210266876799999999", "253402300800000000", "99999999999999999999"]
    {
        for list in [
            desk.path(&format!("/bookings?before={micros}.{id}")),
            desk.path(&format!("/offers?after={micros}.{id}")),
            desk.path(&format!("/messages?before={micros}-{id}")),
            format!("/staff/messages?before={micros}-{id}"),
        ] {
            assert_eq!(mary.get(&list).await.status, StatusCode::OK, "{list}");
        }
    }
    mary.get(&desk.path("/places")).await;
    let long: String = (0..5_000).map(|n| char::from(b'a' + u8::try_from(n * n % 26).unwrap_or(0))).collect();
    for once in ["", "x", long.as_str()] {
        let answer = mary.post(&desk.path("/places"), &[("count", "1"), ("once", once)]).await;
        is_our_page(&answer, StatusCode::UNPROCESSABLE_ENTITY, once);
        says(&answer, "Open the form again.");
    }
}

#[tokio::test]
async fn a_deadline_that_cannot_be_is_said_at_its_field_whichever_act_asks_for_it() {
    let desk = Desk::with(two_hours(), 2).await;
    let world = &desk.world;
    let offered = world.all_waiting(&["Otto", "Rosa"]).await;
    world.settle().await;
    let (otto, rosa) = (world.live_offer(offered[0].id).await.id, world.live_offer(offered[1].id).await.id);
    world
        .waitlist
        .revoke(world.event, rosa, AfterRevoke::SetAside, world.actor(), &reason())
        .await
        .expect("revoked");
    world.rule(|policy| policy.window = None).await;
    let waiting = world.waiting("Walter", 1).await;
    let before = world.database.db().audit_head(world.event).await.expect("the head");
    let mut agnes = desk.at_work("Agnes", Role::Agent).await;
    let not_after_start = [
        format!("/entries/{}/offer", waiting.id),
        format!("/offers/{otto}/extend"),
        format!("/offers/{rosa}/reactivate"),
    ];
    for (deadline, said) in [
        ("soon", "This is not a date and time. Write it as 2027-03-30 14:05."),
        ("2027-02-30T10:00", "This is not a date and time."),
        ("2027-03-01T09:59", "This is in the past. It is 1 Mar 2027, 10:00 now."),
        ("2027-03-28T02:30", "02:30 on 28 Mar 2027 does not exist in Europe/Berlin"),
        ("2027-10-31T02:30", "02:30 on 31 Oct 2027 comes twice in Europe/Berlin"),
        ("2027-03-28T11:01", "This is after the start"),
    ] {
        let paused = format!("/entries/{}/pause", waiting.id);
        let pause = (!said.contains("start")).then_some(&paused);
        for act in not_after_start.iter().chain(pause) {
            let path = desk.path(act);
            agnes.get(&path).await;
            let fields =
                [("deadline", deadline), ("reason", "other"), ("note", "Rang us"), ("back", "/staff")];
            let answer = agnes.post(&path, &fields).await;
            assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{act} {deadline}: {}", answer.body);
            assert!(answer.text("#deadline-error").contains(said), "{act} {deadline}: {}", answer.body);
            let kept = answer.attribute("input[name=deadline]", "value");
            assert_eq!(kept.as_deref(), Some(deadline), "{act}");
            assert_eq!(answer.text("textarea[name=note]"), "Rang us", "{act}");
            assert_eq!(answer.attribute("input[name=back]", "value").as_deref(), Some("/staff"), "{act}");
        }
    }
    let after = world.database.db().audit_head(world.event).await.expect("the head");
    assert_eq!(after, before, "nothing was done");
    world.settle().await;
}

#[tokio::test]
async fn what_customers_type_wrongly_is_said_at_its_field_and_kept() {
    let booth = Booth::with(Policy { party_limit: Some(4), ..two_hours() }, 3).await;
    let mut visitor = booth.visitor();
    visitor.get("/e/spring").await;
    for (name, email, party, field, sentence) in [
        ("", "ann@example.org", "1", "name", "Enter a name."),
        (" \u{200b} ", "ann@example.org", "1", "name", "Enter a name."),
        ("Ann\r\nBcc: x", "ann@example.org", "1", "name", "line break"),
        ("Ann\u{7}", "ann@example.org", "1", "name", "control character"),
        ("Ann\u{202e}", "ann@example.org", "1", "name", "turns text around"),
        ("Ann", "", "1", "email", "Enter an email address."),
        ("Ann", "ann@localhost", "1", "email", "has a dot"),
        ("Ann", "ann@[127.0.0.1]", "1", "email", "not a number"),
        ("Ann", "ann@127.0.0.1", "1", "email", "not a number"),
        ("Ann", "ann@example.org, ben@example.org", "1", "email", "like"),
        ("Ann", "ann@example.org", "0", "party", "Enter how many places, as a number from 1."),
        ("Ann", "ann@example.org", "-1", "party", "Enter how many places, as a number from 1."),
        ("Ann", "ann@example.org", "10000", "party", "At most 4 places for one person."),
        ("Ann", "ann@example.org", "99999999999", "party", ""),
        ("Ann", "ann@example.org", "two", "party", "Enter how many places, as a number from 1."),
        ("Ann", "ann@example.org", "", "party", "Enter how many places, as a number from 1."),
    ] {
        for form in ["book", "join"] {
            let fields = [("name", name), ("email", email), ("party", party)];
            let answer = visitor.post(&format!("/e/spring/{form}"), &fields).await;
            assert_eq!(
                answer.status,
                StatusCode::UNPROCESSABLE_ENTITY,
                "{form} {name:?} {email:?} {party:?}"
            );
            let shown = answer.text(&format!("#{field}-error"));
            assert!(!shown.is_empty() && shown.contains(sentence), "{form} {field}: {shown:?}");
            assert_eq!(answer.attribute("#email", "value").as_deref(), Some(email), "{form}");
        }
    }
    for email in ["", "ann", "ann@localhost", "ann@[::1]", "a@b@c.org"] {
        visitor.get("/sign-in").await;
        let answer = visitor.post("/sign-in", &[("email", email)]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{email}");
        assert!(!answer.text("#email-error").is_empty(), "{email}");
        assert_eq!(answer.attribute("#email", "value").as_deref(), Some(email));
    }
    assert_eq!(booth.count("SELECT count(*) FROM persons").await, 0);
    assert_eq!(booth.count("SELECT count(*) FROM messages").await, 0, "nobody was written to");
}
