//! What every request passes through: headers, error pages, sessions, form tokens, limits.

use std::sync::Arc;

use axum::Router;
use axum::body::Body;
use axum::http::{Method, StatusCode};
use axum::routing::get;
use chrono::Duration;
use fairlist::db::Db;
use fairlist::db::staff::DisableStaffOutcome;
use fairlist::domain::role::Role;
use fairlist::web::page::{Section, Tone};
use fairlist::web::staff::Staff;
use fairlist::web::{self, Error};
use tokio::sync::Notify;

use crate::harness::site::{self, PASSWORD, START, Site, sign_in};
use crate::harness::visitor::Visitor;

const HEADERS: &[(&str, &str)] = &[
    (
        "content-security-policy",
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; connect-src \
         'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'",
    ),
    ("x-content-type-options", "nosniff"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
];

#[tokio::test]
async fn every_response_carries_the_security_headers_whatever_became_of_the_request() {
    let site = Site::probed(START, "https://localhost").await;
    let mut visitor = site.visitor();
    let mut answers = Vec::new();
    for (path, status) in [
        ("/healthz", 200),
        ("/readyz", 200),
        (web::assets::ADDRESSES.css.as_str(), 200),
        ("/static/app.css", 404),
        ("/theme/00000000-0000-0000-0000-000000000000.css", 404),
        ("/no/such/page", 404),
        ("/probe/panic", 500),
        ("/probe/internal", 500),
        ("/probe/query?page=x", 400),
        ("/staff/probe", 303),
        ("/staff/sign-in", 200),
        ("/staff/link/nothing", 303),
        ("/staff/password", 404),
        ("/staff/no-such", 404),
    ] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status.as_u16(), status, "{path}");
        answers.push((path, answer));
    }
    answers.push(("405", visitor.send(Method::DELETE, "/healthz", Body::empty(), &[]).await));
    answers.push(("413", visitor.post("/probe/form", &[("word", &"x".repeat(70_000))]).await));
    answers.push(("403", visitor.post_raw("/probe/form", &[], &[("sec-fetch-site", "cross-site")]).await));
    for _ in 0..6 {
        answers.push(("429", sign_in(&mut visitor, "nobody@example.org", "wrong password").await));
    }
    let statuses: Vec<u16> = answers.iter().rev().take(9).map(|(_, answer)| answer.status.as_u16()).collect();
    assert_eq!(statuses, [429, 422, 422, 422, 422, 422, 403, 413, 405]);
    for (what, answer) in &answers {
        for (name, value) in HEADERS {
            assert_eq!(answer.header(name), *value, "{what}");
        }
        assert!(answer.header("permissions-policy").contains("camera=()"), "{what}");
        assert!(answer.header("strict-transport-security").starts_with("max-age="), "{what}");
        let referrer = if *what == "/staff/link/nothing" { "no-referrer" } else { "same-origin" };
        assert_eq!(answer.header("referrer-policy"), referrer, "{what}");
        let kept = if what.starts_with("/static/app.") && answer.status.is_success() {
            "immutable"
        } else {
            "no-store"
        };
        assert!(answer.header("cache-control").contains(kept), "{what}");
        assert_eq!(answer.header("x-request-id").len(), 32, "{what}");
        if answer.status.is_client_error() || answer.status.is_server_error() {
            assert!(
                !answer.text("h1").is_empty() && !answer.texts("main a, main button").is_empty(),
                "{what} has a way out"
            );
            assert!(!answer.body.contains("secret"), "{what}");
        }
    }
    assert!(
        answers
            .last()
            .is_some_and(|(_, answer)| answer.header("retry-after").parse::<u32>().is_ok_and(|s| s <= 60))
    );
}

#[tokio::test]
async fn over_plain_http_nothing_promises_https() {
    let site = Site::probed(START, "http://localhost").await;
    let mut visitor = site.visitor();
    let answer = visitor.get("/staff/sign-in").await;
    assert_eq!(answer.header("strict-transport-security"), "");
    assert!(answer.header("set-cookie").starts_with("fairlist-staff="), "{}", answer.header("set-cookie"));
}

#[tokio::test]
async fn cookies_belong_to_this_host_alone_and_no_script_reads_them() {
    let site = Site::probed(START, "https://localhost").await;
    for (path, name) in [("/staff/sign-in", "__Host-fairlist-staff="), ("/probe/form", "__Host-fairlist=")] {
        let answer = site.visitor().get(path).await;
        let cookie = answer.header("set-cookie");
        assert!(cookie.starts_with(name), "{cookie}");
        for flag in ["HttpOnly", "SameSite=Lax", "Secure", "Path=/"] {
            assert!(cookie.split("; ").any(|part| part == flag), "{flag}: {cookie}");
        }
        assert!(!cookie.contains("Domain"), "{cookie}");
    }
}

#[tokio::test]
async fn a_page_without_forms_leaves_no_session_behind() {
    let site = Site::probed(START, "http://localhost").await;
    let mut visitor = site.visitor();
    assert_eq!(visitor.get("/probe/who").await.header("set-cookie"), "");
    let rows: i64 =
        sqlx::query_scalar("SELECT count(*) FROM sessions").fetch_one(site.database.sql()).await.unwrap();
    assert_eq!(rows, 0);
}

#[tokio::test]
async fn what_is_asked_wrongly_is_a_page_without_a_parsers_text() {
    let site = Site::probed(START, "http://localhost").await;
    let mut visitor = site.visitor();
    for path in ["/probe/offer/nonsense", "/probe/offer/%00", "/probe/offer/%ff%fe", "/probe/offer/1234"] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status, StatusCode::NOT_FOUND, "{path}");
        answer.says("There is no such page");
        assert!(!answer.body.contains("UUID") && !answer.body.contains("parse"), "{path}: {}", answer.body);
    }
    let token = visitor.get("/probe/form").await.body;
    for body in [format!("form_token={token}&word=%ff%fe"), format!("form_token={token}&word=a%00b")] {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let answer = visitor.send(Method::POST, "/probe/form", Body::from(body), &[kind]).await;
        assert_eq!(answer.status, StatusCode::BAD_REQUEST);
        answer.says("characters that cannot be read");
    }
    visitor.token = token;
    assert_eq!(visitor.post("/probe/form", &[("word", "žluťoučký 🐎")]).await.body, "žluťoučký 🐎");
}

#[tokio::test]
async fn an_address_that_can_only_be_posted_to_leads_to_the_page_above_it() {
    let site = Site::probed(START, "http://localhost").await;
    let mut visitor = site.visitor();
    for (path, above) in
        [("/e/concert/join?x=1", "/e/concert"), ("/sign-out", "/"), ("/staff/sign-out", "/staff")]
    {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status, StatusCode::METHOD_NOT_ALLOWED, "{path}");
        assert_eq!(answer.attribute("main a", "href").as_deref(), Some(above), "{path}");
    }
}

#[tokio::test]
async fn only_our_own_pages_can_post() {
    let site = Site::probed(START, "http://localhost").await;
    let mut visitor = site.visitor();
    let token = visitor.get("/probe/form").await.body;
    let fields = [("form_token", token.as_str()), ("word", "kept")];
    for headers in [
        &[("sec-fetch-site", "cross-site")][..],
        &[("sec-fetch-site", "same-site")],
        &[("sec-fetch-site", "same-origin"), ("origin", "null")],
        &[("origin", "null")],
        &[("origin", "https://evil.example")],
        &[("origin", "http://sub.localhost")],
        &[("origin", "http://localhost.evil.example")],
        &[("origin", "http://localhost:81")],
    ] {
        let answer = visitor.post_raw("/probe/form", &fields, headers).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{headers:?}");
        answer.says("That did not come from our own pages");
    }
    for headers in [&[("sec-fetch-site", "same-origin")][..], &[("origin", "http://localhost")], &[]] {
        assert_eq!(visitor.post_raw("/probe/form", &fields, headers).await.body, "kept", "{headers:?}");
    }
}

#[tokio::test]
async fn a_form_cannot_be_read_without_the_sessions_own_token() {
    let site = Site::probed(START, "http://localhost").await;
    let (mut visitor, mut other) = (site.visitor(), site.visitor());
    let token = visitor.get("/probe/form").await.body;
    let others = other.get("/probe/form").await.body;
    assert_ne!(token, others);
    assert_ne!(visitor.cookie("fairlist"), Some(token.as_str()), "the token is not the session's id");
    for wrong in ["", "x", others.as_str(), &token[1..]] {
        let answer = visitor.post_raw("/probe/form", &[("form_token", wrong), ("word", "read")], &[]).await;
        assert_eq!(answer.status, StatusCode::FORBIDDEN, "{wrong:?}");
        answer.says("This page was open for too long");
    }
    let answer =
        site.visitor().post_raw("/probe/form", &[("form_token", &token), ("word", "read")], &[]).await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN, "somebody without a session");
}

#[tokio::test]
async fn a_forged_host_is_not_served() {
    let site = Site::probed(START, "http://localhost").await;
    let router = site.router.clone();
    for (host, path, status) in [
        ("evil.example", "/probe/who", 403),
        ("evil.example", "/healthz", 200),
        ("127.0.0.1:8080", "/probe/who", 200),
    ] {
        let request = axum::http::Request::get(path).header("host", host).body(Body::empty()).unwrap();
        let response = tower::ServiceExt::oneshot(router.clone(), request).await.unwrap();
        assert_eq!(response.status().as_u16(), status, "{host}{path}");
    }
}

#[tokio::test]
async fn a_session_id_planted_before_sign_in_is_worthless_after_it() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    let planted = "AAAAAAAAAAAAAAAAAAAAAA";
    let mut visitor = site.visitor();
    visitor.set_cookie("fairlist-staff", planted);
    visitor.get("/staff/sign-in").await;
    let before = visitor.cookie("fairlist-staff").expect("a session").to_owned();
    assert_ne!(before, planted, "an id that is not ours is not taken over");
    let answer = sign_in(&mut visitor, "ada@example.org", PASSWORD).await;
    assert_eq!(answer.location().as_deref(), Some("/staff"));
    let after = visitor.cookie("fairlist-staff").expect("a session").to_owned();
    assert_ne!(before, after);
    assert_eq!(visitor.get("/staff/probe").await.body, "ada@example.org");
    for worthless in [planted, &before] {
        let mut thief = site.visitor();
        thief.set_cookie("fairlist-staff", worthless);
        assert_eq!(thief.get("/staff/probe").await.status, StatusCode::SEE_OTHER);
    }
    // The same for a customer's device.
    let mut customer = site.visitor();
    customer.token = customer.get("/probe/form").await.body;
    let before = customer.cookie("fairlist").expect("a session").to_owned();
    assert_eq!(customer.post("/probe/in", &[]).await.body, "in");
    assert_ne!(customer.cookie("fairlist"), Some(before.as_str()));
    customer.get("/probe/who").await.says("PersonId");
    let mut thief = site.visitor();
    thief.set_cookie("fairlist", &before);
    assert_eq!(thief.get("/probe/who").await.body, "[]");
}

#[tokio::test]
async fn nothing_that_is_stored_opens_a_session() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    let visitor = site.signed_in("ada@example.org").await;
    let id = visitor.cookie("fairlist-staff").expect("signed in").to_owned();
    let rows: Vec<String> = sqlx::query_scalar("SELECT to_jsonb(s)::text FROM sessions s")
        .fetch_all(site.database.sql())
        .await
        .unwrap();
    assert!(!rows.is_empty());
    for row in rows {
        assert!(!row.contains(&id) && !row.contains(&visitor.token), "{row}");
    }
}

#[tokio::test]
async fn a_slow_request_does_not_undo_a_sign_out() {
    let (started, go_on) = (Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (started, go_on) = (started.clone(), go_on.clone());
        get(async move |staff: Staff| {
            // The session was loaded; what it holds will be written at the end.
            staff.flash(Tone::Done, "late").await?;
            started.notify_one();
            go_on.notified().await;
            Ok::<_, Error>("slow")
        })
    };
    let staff = web::staff::router()
        .route("/slow", slow)
        .route(
            "/probe/token",
            get(async |staff: Staff| staff.layout("x", Section::Now).await.map(|layout| layout.form_token)),
        )
        .route("/probe", get(async |staff: Staff| staff.member.email));
    let site = Site::with(START, "http://localhost", |state| {
        let staff = staff.layer(web::session::staff_layer(&state.db, &state.settings));
        web::assemble(state, Router::new().nest("/staff", staff)).expect("a router")
    })
    .await;
    site.staff("ada@example.org", Role::Owner).await;
    let mut visitor = site.signed_in("ada@example.org").await;
    let mut same = visitor.clone();
    let request = tokio::spawn(async move { (same.get("/staff/slow").await.body, same) });
    started.notified().await;

    let token = sign_out_token(&mut visitor).await;
    visitor.post_raw("/staff/sign-out", &[("form_token", &token)], &[]).await;
    go_on.notify_one();

    let (body, mut same) = request.await.expect("answered");
    assert_eq!(body, "slow");
    assert_eq!(same.get("/staff/probe").await.status, StatusCode::SEE_OTHER, "the old cookie opens nothing");
    let alive: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM sessions WHERE subject_id IS NOT NULL AND revoked_at IS NULL",
    )
    .fetch_one(site.database.sql())
    .await
    .unwrap();
    assert_eq!(alive, 0);
}

/// The form token of a staff page, from the sign-out button of its bar.
async fn sign_out_token(visitor: &mut Visitor) -> String {
    visitor.get("/staff/probe/token").await.body
}

#[tokio::test]
async fn a_client_that_goes_away_does_not_stop_what_it_began() {
    let (started, go_on, done) = (Arc::new(Notify::new()), Arc::new(Notify::new()), Arc::new(Notify::new()));
    let slow = {
        let (started, go_on, done) = (started.clone(), go_on.clone(), done.clone());
        get(async move || {
            started.notify_one();
            go_on.notified().await;
            done.notify_one();
            "done"
        })
    };
    let site = Site::with(START, "http://localhost", |state| {
        web::assemble(state, Router::new().route("/slow", slow)).expect("a router")
    })
    .await;
    let mut visitor = site.visitor();
    let request = tokio::spawn(async move { visitor.get("/slow").await });
    started.notified().await;
    request.abort();
    assert!(request.await.is_err_and(|error| error.is_cancelled()));
    go_on.notify_one();
    done.notified().await;
}

#[tokio::test]
async fn sessions_of_staff_end_when_idle_and_after_twelve_hours_at_the_latest() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    let mut visitor = site.signed_in("ada@example.org").await;
    for _ in 0..3 {
        site.later(Duration::minutes(29));
        assert_eq!(visitor.get("/staff/probe").await.body, "ada@example.org");
    }
    // A page that refreshes itself is not somebody at work.
    site.later(Duration::minutes(20));
    let refresh = visitor.send(Method::GET, "/staff/probe", Body::empty(), &[("x-refresh", "1")]).await;
    assert_eq!(refresh.body, "ada@example.org");
    site.later(Duration::minutes(11));
    let answer = visitor.get("/staff/probe?state=waiting").await;
    assert_eq!(answer.location().as_deref(), Some("/staff/sign-in?next=%2Fstaff%2Fprobe%3Fstate%3Dwaiting"));

    let mut visitor = site.signed_in("ada@example.org").await;
    for _ in 0..28 {
        site.later(Duration::minutes(25));
        assert_eq!(visitor.get("/staff/probe").await.status, StatusCode::OK);
    }
    site.later(Duration::minutes(21));
    assert_eq!(visitor.get("/staff/probe").await.status, StatusCode::SEE_OTHER, "twelve hours are over");
}

#[tokio::test]
async fn who_was_removed_or_given_another_role_notices_at_once() {
    let site = Site::probed(START, "http://localhost").await;
    let id = site.staff("ada@example.org", Role::Owner).await;
    let mut visitor = site.signed_in("ada@example.org").await;
    assert_eq!(visitor.get("/staff/probe/owner").await.status, StatusCode::OK);
    let sql = site.database.sql();
    sqlx::query("UPDATE staff SET role = 'agent' WHERE id = $1").bind(id.0).execute(sql).await.unwrap();
    let answer = visitor.get("/staff/probe/owner").await;
    assert_eq!(answer.status, StatusCode::FORBIDDEN);
    answer.says("It takes the role owner to manage the team. Nothing was done.");
    answer.says("Go to the start");
    assert_eq!(site.database.db().disable_staff(id).await.expect("disabled"), DisableStaffOutcome::Disabled);
    assert_eq!(visitor.get("/staff/probe").await.status, StatusCode::SEE_OTHER);
    assert_eq!(
        sign_in(&mut site.visitor(), "ada@example.org", PASSWORD).await.status,
        StatusCode::UNPROCESSABLE_ENTITY
    );
}

#[tokio::test]
async fn an_unknown_address_and_a_wrong_password_get_the_same_answer() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    site.add_staff("new@example.org", Role::Agent).await;
    let mut pages = Vec::new();
    for email in ["ada@example.org", "nobody@example.org", "new@example.org", "not an address"] {
        let mut visitor = site.visitor();
        let answer = sign_in(&mut visitor, email, "wrong password!").await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY, "{email}");
        answer.says("This address and password do not belong together.");
        assert_eq!(
            answer.attribute("input[name=email]", "value").as_deref(),
            Some(email),
            "what was typed is kept"
        );
        assert!(!answer.body.contains("wrong password!"));
        pages.push(answer.body.replace(email, "…").replace(&visitor.token, "…"));
    }
    assert!(pages.iter().all(|page| *page == pages[0]), "{pages:#?}");
}

#[tokio::test]
async fn signing_in_leads_only_to_our_own_pages() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    for (next, goes) in [
        ("/staff/events/1?state=waiting", "/staff/events/1?state=waiting"),
        ("//evil.example", "/staff"),
        ("/\\evil.example", "/staff"),
        ("https://evil.example", "/staff"),
        ("javascript:alert(1)", "/staff"),
    ] {
        site.later(Duration::minutes(1));
        let mut visitor = site.visitor();
        let query = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", next).finish();
        let page = visitor.get(&format!("/staff/sign-in?{query}")).await;
        assert_eq!(page.attribute("input[name=next]", "value").as_deref(), Some(goes));
        let fields = [("email", "ada@example.org"), ("password", PASSWORD), ("next", next)];
        assert_eq!(visitor.post("/staff/sign-in", &fields).await.location().as_deref(), Some(goes));
        assert_eq!(visitor.get(&format!("/staff/sign-in?{query}")).await.location().as_deref(), Some(goes));
    }
}

#[tokio::test]
async fn guessing_is_slowed_by_account_and_by_address_and_nobody_is_locked_out() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    // However a guesser calls itself: no proxy was configured, so none is believed.
    for n in 0..5 {
        let mut visitor = site.visitor().with_header("x-forwarded-for", &format!("203.0.113.{n}"));
        assert_eq!(sign_in(&mut visitor, "ada@example.org", "wrong password!").await.status.as_u16(), 422);
    }
    let mut visitor = site.visitor().with_header("x-forwarded-for", "203.0.113.77");
    let answer = sign_in(&mut visitor, "ADA@example.org", PASSWORD).await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS);
    answer.says("That was a little too often");
    for n in 6..20 {
        let email = format!("somebody{n}@example.org");
        assert_eq!(sign_in(&mut site.visitor(), &email, "wrong password!").await.status.as_u16(), 422, "{n}");
    }
    let answer = sign_in(&mut site.visitor(), "somebody21@example.org", "wrong password!").await;
    assert_eq!(answer.status, StatusCode::TOO_MANY_REQUESTS, "twenty an address");
    site.later(Duration::minutes(1));
    site.signed_in("ada@example.org").await;
}

#[tokio::test]
async fn a_one_time_link_survives_scanners_sets_one_password_and_ends_older_sessions() {
    let site = Site::probed(START, "http://localhost").await;
    let id = site.staff("ada@example.org", Role::Owner).await;
    let mut at_work = site.signed_in("ada@example.org").await;
    let (same, token) = site.add_staff("ada@example.org", Role::Owner).await;
    assert_eq!(same, id);
    let link = format!("/staff/link/{token}");
    for _ in 0..20 {
        site.visitor().head(&link).await;
        site.visitor().open(&link).await;
    }
    let mut visitor = site.visitor();
    let answer = visitor.get(&link).await;
    assert_eq!(answer.location().as_deref(), Some("/staff/password"), "the token leaves the address");
    assert_eq!(answer.header("referrer-policy"), "no-referrer");
    let page = visitor.get("/staff/password").await;
    assert!(!page.body.contains(&token));
    for (password, again, sentence) in [
        ("short", "short", "at least 12 characters"),
        ("passwordpassword", "passwordpassword", "among the first that people try"),
        ("another fine one", "another fine two", "The two are not the same"),
    ] {
        let answer = visitor.post("/staff/password", &[("password", password), ("again", again)]).await;
        assert_eq!(answer.status, StatusCode::UNPROCESSABLE_ENTITY);
        answer.says(sentence);
    }
    let fields = [("password", "another fine one"), ("again", "another fine one")];
    let answer = visitor.post("/staff/password", &fields).await;
    assert_eq!(answer.location().as_deref(), Some("/staff"), "{}", answer.body);
    assert_eq!(visitor.get("/staff/probe").await.body, "ada@example.org");
    assert_eq!(
        at_work.get("/staff/probe").await.status,
        StatusCode::SEE_OTHER,
        "sessions of the old password are over"
    );

    let mut late = site.visitor();
    let answer = late.open(&link).await;
    assert_eq!(answer.status, StatusCode::NOT_FOUND);
    answer.says("This link does not work any more");
    let altered = site.visitor().open("/staff/link/0000").await;
    assert_eq!(answer.text("main"), altered.text("main"), "one answer for all");
    assert_eq!(sign_in(&mut site.visitor(), "ada@example.org", PASSWORD).await.status.as_u16(), 422);
    assert_eq!(
        sign_in(&mut site.visitor(), "ada@example.org", "another fine one").await.status.as_u16(),
        303
    );
}

#[tokio::test]
async fn a_link_works_for_three_days_and_a_newer_one_replaces_it() {
    let site = Site::probed(START, "http://localhost").await;
    let (_, first) = site.add_staff("ada@example.org", Role::Owner).await;
    let (_, second) = site.add_staff("ada@example.org", Role::Owner).await;
    assert_eq!(site.visitor().open(&format!("/staff/link/{first}")).await.status, StatusCode::NOT_FOUND);
    site.later(Duration::days(3) - Duration::seconds(1));
    assert_eq!(site.visitor().open(&format!("/staff/link/{second}")).await.status, StatusCode::OK);
    site.later(Duration::seconds(1));
    assert_eq!(site.visitor().open(&format!("/staff/link/{second}")).await.status, StatusCode::NOT_FOUND);
}

#[tokio::test]
async fn what_an_act_did_is_said_once() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    let mut visitor = site.signed_in("ada@example.org").await;
    visitor.token = sign_out_token(&mut visitor).await;
    visitor.get("/staff/probe/flash").await;
    assert!(visitor.post("/staff/probe/flash", &[("word", "first")]).await.body.contains("It was done."));
    assert_eq!(visitor.post("/staff/probe/flash", &[("word", "second")]).await.body, "second []");
}

#[tokio::test]
async fn what_is_long_over_is_thrown_away() {
    let site = Site::probed(START, "http://localhost").await;
    site.staff("ada@example.org", Role::Owner).await;
    site.signed_in("ada@example.org").await;
    let db = site.database.db();
    assert_eq!(db.sweep_sessions().await.expect("swept"), 0, "what lives is left alone");
    site.later(Duration::days(2));
    // The sign-in page's session, the one that followed it, and two counters.
    assert_eq!(db.sweep_sessions().await.expect("swept"), 4);
}

#[tokio::test]
async fn without_a_database_the_program_says_so_and_asks_for_patience() {
    let nowhere = "postgres://postgres@127.0.0.1:1/none".parse().expect("options");
    let db = Db::new(&nowhere, fairlist::db::PoolSizes::default(), fairlist::clock::Clock::database());
    let router = crate::probe::router(site::state(&db, "http://localhost"));
    let mut visitor = Visitor::new(&router);
    visitor.set_cookie("fairlist-staff", "AAAAAAAAAAAAAAAAAAAAAA");
    assert_eq!(visitor.get("/healthz").await.status, StatusCode::OK);
    for path in ["/readyz", "/probe/sql", "/staff/probe"] {
        let answer = visitor.get(path).await;
        assert_eq!(answer.status, StatusCode::SERVICE_UNAVAILABLE, "{path}");
        assert!(!answer.header("retry-after").is_empty(), "{path}");
        answer.says("Nothing was done and nothing is lost");
    }
}
