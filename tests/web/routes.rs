//! Every route, and what must hold for all of them: who may come, from where, and what looking may change.
//!
//! The list is held against the program's sources: a new route cannot be forgotten.

use std::collections::BTreeSet;
use std::path::Path;

use axum::Router;
use axum::body::Body;
use axum::http::header::SET_COOKIE;
use axum::http::{Method, StatusCode};
use fairlist::domain::role::Role;
use fairlist::web::{self, Settings, WebState};
use regex_lite::Regex;

use crate::harness::database::secret;
use crate::harness::desk::Desk;
use crate::harness::report::report;
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::{World, reason, two_hours};

/// The pattern is its own example: each of its names stands on the [`Stage`].
const SAME: &str = "";

/// What a route answers to, its pattern, and an address of it on the [`Stage`].
const ROUTES: &[(&str, &str, &str)] = &[
    ("GET", "/healthz", SAME),
    ("GET", "/readyz", SAME),
    ("GET", "/static/{file}", "{style}"),
    ("GET", "/theme/{file}", "{theme}"),
    // For everybody.
    ("GET", "/v1/openapi.json", SAME),
    ("GET", "/v1/docs", SAME),
    ("GET", "/v1/booking-service.yaml", SAME),
    ("GET", "/", SAME),
    ("GET", "/e/{slug}", "/e/spring"),
    ("GET", "/e/{slug}/fairness", "/e/spring/fairness"),
    ("GET", "/e/{slug}/draws/{file}", "/e/spring/draws/1.json"),
    ("POST", "/e/{slug}/join", "/e/spring/join"),
    ("POST", "/e/{slug}/book", "/e/spring/book"),
    ("GET POST", "/code/{id}", "{code}"),
    ("POST", "/code/{id}/resend", "{code}/resend"),
    ("GET POST", "/sign-in", SAME),
    ("POST", "/sign-out", SAME),
    ("GET", "/me", SAME),
    ("GET", "/me/entries/{id}", "/me/entries/{entry}"),
    ("GET POST", "/me/entries/{id}/leave", "/me/entries/{entry}/leave"),
    ("POST", "/me/entries/{id}/pause", "/me/entries/{entry}/pause"),
    ("POST", "/me/entries/{id}/resume", "/me/entries/{entry}/resume"),
    ("POST", "/me/entries/{id}/wants", "/me/entries/{entry}/wants"),
    ("GET POST", "/me/entries/{id}/complaint", "/me/entries/{entry}/complaint"),
    ("POST", "/me/entries/{id}/confirm", "/me/entries/{entry}/confirm"),
    ("GET", "/me/bookings/{id}", "/me/bookings/{booking}"),
    ("GET", "/me/bookings/{id}/booking.ics", "/me/bookings/{booking}/booking.ics"),
    ("GET POST", "/me/bookings/{id}/cancel", "/me/bookings/{booking}/cancel"),
    ("GET", "/o/{token}", "/o/{offer token}"),
    ("GET", "/offers/{id}", "/offers/{offer}"),
    ("POST", "/offers/{id}/code", "/offers/{offer}/code"),
    ("POST", "/offers/{id}/accept", "/offers/{offer}/accept"),
    ("POST", "/offers/{id}/decline", "/offers/{offer}/decline"),
    ("GET", "/offers/{id}/booking.ics", "/offers/{accepted}/booking.ics"),
    ("GET POST", "/unsubscribe/{token}", "/unsubscribe/{unsubscribe token}"),
    ("POST", "/unsubscribe/{token}/again", "/unsubscribe/{unsubscribe token}/again"),
    // The staff's door.
    ("GET POST", "/staff/sign-in", SAME),
    ("POST", "/staff/sign-out", SAME),
    ("GET", "/staff/link/{token}", "/staff/link/{staff token}"),
    ("GET POST", "/staff/password", SAME),
    // For staff only.
    ("GET", "/staff/", "/staff"),
    ("GET", "/staff/events", SAME),
    ("GET POST", "/staff/events/new", SAME),
    ("GET", "/staff/events/{event}", SAME),
    ("GET", "/staff/events/{event}/queue", SAME),
    ("GET POST", "/staff/events/{event}/queue/new", SAME),
    ("GET", "/staff/passes", SAME),
    ("GET", "/staff/events/{event}/queue.csv", SAME),
    ("GET", "/staff/events/{event}/entries/{entry}", SAME),
    ("GET POST", "/staff/events/{event}/entries/{entry}/complaint", SAME),
    (
        "GET POST",
        "/staff/events/{event}/entries/{entry}/{act}",
        "/staff/events/{event}/entries/{entry}/remove",
    ),
    ("GET POST", "/staff/events/{event}/entries/{entry}/wants", SAME),
    ("GET", "/staff/events/{event}/offers", SAME),
    ("GET", "/staff/events/{event}/offers/{offer}", SAME),
    ("GET POST", "/staff/events/{event}/offers/{offer}/{act}", "/staff/events/{event}/offers/{offer}/revoke"),
    ("GET", "/staff/events/{event}/release", SAME),
    ("GET POST", "/staff/events/{event}/release/{booking}", SAME),
    ("GET POST", "/staff/events/{event}/settings", SAME),
    ("GET POST", "/staff/events/{event}/booking-service", SAME),
    ("GET POST", "/staff/events/{event}/booking-service/{attempt}", SAME),
    ("GET POST", "/staff/events/{event}/state/{act}", "/staff/events/{event}/state/cancel"),
    ("GET POST", "/staff/events/{event}/policy", SAME),
    ("GET POST", "/staff/events/{event}/final-call", SAME),
    ("GET", "/staff/events/{event}/draws", SAME),
    ("GET POST", "/staff/events/{event}/draws/hold", SAME),
    ("POST", "/staff/events/{event}/draws/beacon", SAME),
    ("GET POST", "/staff/events/{event}/places", SAME),
    ("GET POST", "/staff/events/{event}/places/lower", SAME),
    ("GET", "/staff/events/{event}/places/{place}", SAME),
    ("GET POST", "/staff/events/{event}/places/{place}/retire", SAME),
    ("GET POST", "/staff/events/{event}/places/{place}/describe", SAME),
    ("GET POST", "/staff/events/{event}/attributes", SAME),
    ("GET", "/staff/events/{event}/releases", SAME),
    ("GET", "/staff/events/{event}/releases/{release}", SAME),
    ("GET", "/staff/events/{event}/bookings", SAME),
    ("GET POST", "/staff/events/{event}/bookings/new", SAME),
    ("GET", "/staff/events/{event}/audit", SAME),
    ("GET", "/staff/events/{event}/audit.csv", SAME),
    ("GET", "/staff/events/{event}/audit/verify", SAME),
    ("GET", "/staff/events/{event}/audit/anchor.json", SAME),
    ("POST", "/staff/events/{event}/audit/anchor", SAME),
    ("GET", "/staff/audit", SAME),
    ("GET", "/staff/audit.csv", SAME),
    ("GET", "/staff/audit/anchor.json", SAME),
    ("POST", "/staff/audit/anchor", SAME),
    ("GET", "/staff/events/{id}/messages", "/staff/events/{event}/messages"),
    ("GET POST", "/staff/events/{event}/import", SAME),
    ("GET", "/staff/events/{event}/import/{import}", SAME),
    ("POST", "/staff/events/{event}/import/{import}/start", SAME),
    (
        "GET",
        "/staff/events/{event}/import/{import}/report.csv",
        "/staff/events/{event}/import/{done import}/report.csv",
    ),
    ("GET", "/staff/messages", SAME),
    ("POST", "/staff/messages/send-again", SAME),
    ("GET", "/staff/messages/{id}", "/staff/messages/{message}"),
    ("POST", "/staff/messages/{id}/send-again", "/staff/messages/{message}/send-again"),
    ("GET POST", "/staff/keys", SAME),
    ("POST", "/staff/keys/{key}/revoke", "/staff/keys/{key}/revoke"),
    ("GET POST", "/staff/webhooks", SAME),
    ("GET", "/staff/webhooks/{id}", "/staff/webhooks/{webhook}"),
    ("POST", "/staff/webhooks/{id}/rotate", "/staff/webhooks/{webhook}/rotate"),
    ("POST", "/staff/webhooks/{id}/stop", "/staff/webhooks/{webhook}/stop"),
    ("POST", "/staff/webhooks/{id}/start", "/staff/webhooks/{webhook}/start"),
    ("POST", "/staff/webhooks/{id}/test", "/staff/webhooks/{webhook}/test"),
    ("POST", "/staff/webhooks/{id}/replay", "/staff/webhooks/{webhook}/replay"),
];

/// Whoever has the link of a mail may do it without a session: mail programs stop news by one click (RFC 8058).
const WITHOUT_FORM_TOKEN: &[&str] = &["/unsubscribe/{token}", "/unsubscribe/{token}/again"];

/// Before sign-in, staff's pages are as public as these.
const DOOR: &[&str] = &["/staff/sign-in", "/staff/sign-out", "/staff/link/{token}", "/staff/password"];

/// What a browser, old or new, says of a post that another page made.
const FOREIGN: &[&[(&str, &str)]] = &[
    &[("sec-fetch-site", "cross-site"), ("origin", "https://evil.example")],
    &[("sec-fetch-site", "same-site"), ("origin", "https://sibling.localhost")],
    &[("sec-fetch-site", "cross-site"), ("origin", "null")],
    &[("sec-fetch-site", "same-origin"), ("origin", "null")],
    &[("origin", "https://evil.example")],
    &[("origin", "null")],
];

/// The first part of each pattern in the sources says where it is mounted.
#[test]
fn the_list_names_every_route_of_the_program() {
    let route = Regex::new(r#"\.route\(\s*"([^"]+)""#).expect("a pattern");
    let mut declared = BTreeSet::new();
    let mut folders = vec![Path::new(env!("CARGO_MANIFEST_DIR")).join("src/web")];
    while let Some(folder) = folders.pop() {
        for path in std::fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path())
        {
            if path.is_dir() {
                folders.push(path);
                continue;
            }
            // Served on an address of its own.
            if path.ends_with("web/metrics.rs") {
                continue;
            }
            let below = if path.iter().any(|part| part == "staff") { "/staff" } else { "" };
            let text = std::fs::read_to_string(&path).expect("a source");
            declared.extend(route.captures_iter(&text).map(|found| format!("{below}{}", &found[1])));
        }
    }
    let listed: BTreeSet<String> = ROUTES.iter().map(|(_, pattern, _)| (*pattern).to_owned()).collect();
    assert_eq!(listed, declared);
}

/// A box office in which every route has an address that exists, served over https.
struct Stage {
    desk: Desk,
    names: Vec<(&'static str, String)>,
}

impl Stage {
    /// Bella is booked, Cora has accepted, Otto is offered a place, Walter waits.
    async fn new() -> Self {
        let world = World::with(two_hours(), 4).await;
        world.booked("Bella", 1).await;
        let [cora, otto] = [world.waiting("Cora", 1).await, world.waiting("Otto", 1).await];
        world.settle().await;
        let accepted = world.live_offer(cora.id).await.id;
        world.accept(accepted, cora.person).await;
        world.waiting("Walter", 4).await;
        world.settle().await;
        let offer = world.live_offer(otto.id).await.id;
        world.rule(|policy| policy.ordering = fairlist::domain::policy::Ordering::Lottery).await;
        world.waitlist.hold_draw(world.event, world.actor(), &reason()).await.expect("a draw");
        let bella = world.person("Bella").await;
        let (db, event) = (world.database.db(), world.event);
        let import =
            db.keep_upload(event, "list.csv", b"name,email\nDee,dee@example.org\n", world.actor()).await;
        let done = Self::imported(&world).await;
        let webhook = fairlist::domain::ids::WebhookId(fairlist::clock::Entropy.id());
        db.add_webhook(world.organization, webhook, "https://shop.example/hooks", &[], world.actor())
            .await
            .expect("a webhook");
        let staff = {
            let token = "5eed".repeat(16);
            let renewed = "UPDATE staff_links SET token_hash = $1";
            let hash = fairlist::domain::secret::token_hash(&token);
            sqlx::query(renewed).bind(hash.as_slice()).execute(world.database.sql()).await.expect("a link");
            token
        };
        let scopes = &[fairlist::domain::key::Scope::EventsRead];
        let (key, _) = crate::harness::program::add_key(db, world.organization, world.staff, scopes).await;
        let names = vec![
            ("key", key.to_string()),
            ("event", event.to_string()),
            ("entry", otto.id.to_string()),
            ("offer", offer.to_string()),
            ("accepted", accepted.to_string()),
            ("booking", world.bookings(bella).await[0].to_string()),
            ("place", Self::some_id(&world, "SELECT id FROM places WHERE state = 'open'").await),
            ("attempt", Self::attempt(&world, offer).await),
            ("release", Self::some_id(&world, "SELECT id FROM releases").await),
            ("message", Self::some_id(&world, "SELECT id FROM messages").await),
            ("import", import.expect("uploaded").expect("room").to_string()),
            ("done import", done),
            ("webhook", webhook.to_string()),
            ("offer token", secret().offer_token(offer, 0)),
            ("unsubscribe token", secret().unsubscribe_token(bella)),
            ("staff token", staff),
            ("theme", format!("/theme/{}.css", world.organization)),
        ];
        let https = Settings::new("https://localhost".parse().expect("a URL"));
        let mail = fairlist::messages::Settings::new(https.base_url.clone(), secret(), None).into();
        let router: Router = web::router(WebState::new(db.clone(), secret(), https)).expect("a router");
        let mut stage = Self { desk: Desk { world, router, mail }, names };
        let front = Visitor::new(&stage.desk.router).get("/").await;
        let style = front.attribute("link[rel=stylesheet][href^='/static/']", "href").expect("a stylesheet");
        stage.names.push(("style", style));
        stage
    }

    async fn some_id(world: &World, sql: &'static str) -> String {
        let id: uuid::Uuid = sqlx::query_scalar(sql).fetch_one(world.database.sql()).await.expect(sql);
        id.to_string()
    }

    /// What a booking service was asked once, and did not do.
    async fn attempt(world: &World, offer: fairlist::domain::ids::OfferId) -> String {
        sqlx::query(
            "INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, settled_at, actor,
                                           reason, key_until)
             VALUES ($1, $2, $2, 'reserve', 1, 'key', 'failed', $3, $3, 'system', 'accepted', $3)",
        )
        .bind(world.event.0)
        .bind(offer.0)
        .bind(world.now())
        .execute(world.database.sql())
        .await
        .expect("an attempt");
        offer.to_string()
    }

    /// An import that ran to its end, of a file that is still kept.
    async fn imported(world: &World) -> String {
        use fairlist::domain::import::{Mapping, Table};
        use fairlist::waitlist::import::{self, Importer, Request, StartOutcome, Tick};

        let (db, bytes) = (world.database.db(), b"name,email\nEmil,emil@example.org\n".as_slice());
        let upload = db
            .keep_upload(world.event, "done.csv", bytes, world.actor())
            .await
            .expect("uploaded")
            .expect("room");
        let table = Table::open(bytes).expect("a table");
        let columns = Mapping::guess(&table).columns().collect();
        let event = db.event(world.event).await.expect("the event");
        let reading = import::reading(db, &event, columns).await.expect("a reading");
        let plan = reading.plan(bytes, world.now()).expect("a plan");
        let request = Request {
            file_name: "done.csv",
            bytes,
            reading: &reading,
            plan: &plan,
            upload: Some(upload),
            tell: false,
            by: world.actor(),
        };
        let StartOutcome::Started(id) = import::start(db, world.event, &request).await.expect("an answer")
        else {
            panic!("it does not start");
        };
        let mut importer = Importer::new(db);
        while let Tick::Stepped(_) = importer.tick().await.expect("a tick") {}
        id.to_string()
    }

    /// The address of a route's example.
    fn address(&self, pattern: &str, example: &str) -> String {
        let example = if example == SAME { pattern } else { example };
        let filled = self.names.iter().fold(example.to_owned(), |address, (name, value)| {
            address.replace(&format!("{{{name}}}"), value)
        });
        assert!(!filled.contains('{'), "{filled}");
        filled
    }

    /// Nobody yet.
    fn visitor(&self) -> Visitor {
        Visitor::new(&self.desk.router)
    }

    /// A device that is signed in as everybody of the story, and has asked for one more code.
    async fn customer(&mut self) -> Visitor {
        let mut visitor = self.visitor();
        for address in ["bella@example.org", "cora@example.org", "otto@example.org", "walter@example.org"] {
            visitor.get("/sign-in").await;
            let page = visitor.post("/sign-in", &[("email", address)]).await.location().expect("a code page");
            visitor.get(&page).await;
            if address.starts_with("walter") {
                self.names.push(("code", page));
                break;
            }
            let code = page.trim_start_matches("/code/").parse().expect("the address of a code page");
            let answer = visitor.post(&page, &[("digits", &secret().code_digits(code))]).await;
            assert_eq!(answer.location().as_deref(), Some("/me"), "{}", answer.body);
        }
        visitor
    }

    /// Everything that is kept, but for who is signed in and how often somebody came.
    async fn kept(&self) -> String {
        sqlx::query_scalar(
            "SELECT string_agg(tablename || ' ' || md5(query_to_xml(
                        format('SELECT t::text FROM %I t ORDER BY 1', tablename), true, false, '')::text), E'\\n'
                    ORDER BY tablename)
             FROM pg_tables WHERE schemaname = 'public' AND tablename NOT IN ('sessions', 'rate_limits')",
        )
        .fetch_one(self.desk.world.database.sql())
        .await
        .expect("a digest of every table")
    }
}

/// Sends a form that holds a token or nothing, of the kind that the route takes.
async fn post(
    visitor: &mut Visitor,
    pattern: &str,
    address: &str,
    token: Option<&str>,
    headers: &[(&'static str, &str)],
) -> Answer {
    let fields: Vec<(&str, &str)> = token.map(|token| ("form_token", token)).into_iter().collect();
    if !pattern.ends_with("/import") {
        return visitor.post_raw(address, &fields, headers).await;
    }
    let part = |(name, value): &(&str, &str)| {
        format!("--part\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n{value}\r\n")
    };
    let body = fields.iter().map(part).collect::<String>() + "--part--\r\n";
    let all = [headers, &[("content-type", "multipart/form-data; boundary=part")]].concat();
    visitor.send(Method::POST, address, Body::from(body), &all).await
}

/// What every answer says about itself, whatever it is.
fn assert_headers(answer: &Answer, pattern: &str, at: &str) {
    let must = [
        (
            "content-security-policy",
            "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
             connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
        ),
        ("x-content-type-options", "nosniff"),
        ("cross-origin-opener-policy", "same-origin"),
        ("cross-origin-resource-policy", "same-origin"),
        ("strict-transport-security", "max-age=63072000"),
    ];
    for (name, value) in must {
        assert_eq!(answer.header(name), value, "{at}");
    }
    let permissions = answer.header("permissions-policy");
    assert!(permissions.contains("camera=()") && !permissions.contains('*'), "{at}: {permissions}");
    let token = pattern.contains("{token}") && answer.status.is_redirection();
    let referrer = if token { "no-referrer" } else { "same-origin" };
    assert_eq!(answer.header("referrer-policy"), referrer, "{at}");
    if !pattern.starts_with("/static/") && !pattern.starts_with("/theme/") {
        assert_eq!(answer.header("cache-control"), "no-store", "{at}");
    }
    for cookie in answer.headers.get_all(SET_COOKIE) {
        let cookie = cookie.to_str().expect("a cookie");
        assert!(cookie.starts_with("__Host-fairlist"), "{at}: {cookie}");
        for attribute in ["HttpOnly", "Secure", "SameSite=Lax", "Path=/"] {
            assert!(cookie.split("; ").any(|part| part == attribute), "{at}: {attribute} in {cookie}");
        }
        assert!(!cookie.to_ascii_lowercase().contains("domain="), "{at}: {cookie}");
    }
}

#[tokio::test]
async fn every_route_keeps_the_rules_whoever_comes_and_from_wherever() {
    let mut stage = Stage::new().await;
    let mut customer = stage.customer().await;
    let mut owner = stage.desk.at_work("Olga", Role::Owner).await;
    // A form of each, for its token.
    customer.get("/sign-in").await;
    owner.get("/staff").await;
    let before = stage.kept().await;

    for (methods, pattern, example) in ROUTES {
        let address = stage.address(pattern, example);
        let staff = pattern.starts_with("/staff");
        let door = DOOR.contains(pattern);
        let member = if staff { &mut owner } else { &mut customer };

        // Looking.
        for method in [Method::GET, Method::HEAD] {
            let at = format!("{method} {pattern}");
            let answer = stage.visitor().send(method.clone(), &address, Body::empty(), &[]).await;
            assert_headers(&answer, pattern, &at);
            if staff && !door && methods.contains("GET") {
                let to = answer.location().unwrap_or_default();
                assert!(to.starts_with("/staff/sign-in?next="), "{at}: {} {to}", answer.status);
            }
            let mut visitor = member.clone();
            let answer = visitor.send(method, &address, Body::empty(), &[]).await;
            assert_headers(&answer, pattern, &at);
            if methods.contains("GET") {
                let shown = answer.status.is_success() || answer.status.is_redirection();
                assert!(shown || *pattern == "/staff/password", "{at}: {}", answer.status);
            } else {
                assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{at}");
            }
        }
        assert_eq!(stage.kept().await, before, "looking at {pattern} changed something");

        // Posts from elsewhere, with a token that is right; from our own page without one; from nobody.
        for foreign in FOREIGN {
            let mut visitor = member.clone();
            let token = visitor.token.clone();
            let answer = post(&mut visitor, pattern, &address, Some(&token), foreign).await;
            let at = format!("POST {pattern} {foreign:?}");
            assert_headers(&answer, pattern, &at);
            assert_eq!(answer.status, StatusCode::FORBIDDEN, "{at}");
        }
        if !WITHOUT_FORM_TOKEN.contains(pattern) {
            let own = [("sec-fetch-site", "same-origin"), ("origin", "https://localhost")];
            for mut visitor in [member.clone(), stage.visitor()] {
                for token in [None, Some("0000")] {
                    let answer = post(&mut visitor, pattern, &address, token, &own).await;
                    let at = format!("POST {pattern} {token:?}");
                    assert_headers(&answer, pattern, &at);
                    let refused = if methods.contains("POST") {
                        answer.status == StatusCode::FORBIDDEN
                            || (staff && answer.location().is_some_and(|to| to.starts_with("/staff/sign-in")))
                            || answer.status == StatusCode::UNAUTHORIZED
                    } else {
                        answer.status == StatusCode::METHOD_NOT_ALLOWED
                    };
                    assert!(refused, "{at}: {} {}", answer.status, answer.text("main"));
                }
            }
        }
        assert_eq!(stage.kept().await, before, "a post to {pattern} that must be refused changed something");
    }
    stage.desk.world.waiting("Dora", 1).await;
    assert_ne!(stage.kept().await, before, "a change is seen");
    report(&format!("{} routes walked", ROUTES.len()));
}
