//! The one script, in a real browser: countdowns by the server's clock, and pages that refresh themselves but
//! leave alone whoever works in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use axum::Router;
use axum::response::Html;
use axum::routing::get;
use fairlist::web::assets::ADDRESSES;

use crate::harness::browser::Browser;
use crate::harness::site::{START, Site};

/// A page as the base template frames it, with the server's clock at `now`.
fn page(now: i64, live: &str, main: &str) -> Html<String> {
    Html(format!(
        "<!doctype html><meta name=now content={now}><meta name=build content={}><script src={} defer></script>\
         <body{live}><main>{main}</main><p data-live-status hidden></p>",
        ADDRESSES.build, ADDRESSES.js
    ))
}

/// Serves the routes beside the program's own assets.
async fn serve(routes: Router<fairlist::web::WebState>) -> (Site, String) {
    let site = Site::with(START, "http://localhost", |state| {
        fairlist::web::assemble(state, routes).expect("a router")
    })
    .await;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let app = site.router.clone();
    tokio::spawn(async move { axum::serve(listener, app).await });
    (site, format!("http://{address}/page"))
}

#[tokio::test]
async fn a_countdown_follows_the_servers_clock_and_says_by_itself_when_it_is_over() {
    // The server's clock says 2001: the device's is off by decades, and nothing depends on it.
    let now = 1_000_000_000_000_i64;
    let main = move |left: i64| {
        page(
            now,
            "",
            &format!(
                "<div data-deadline={} data-over-text='Time is up'><p data-digits>soon</p>\
                 <p id=said data-announce aria-live=polite></p></div>\
                 <p data-until-over>Still yours</p><p data-when-over hidden>It went to the next person</p>\
                 <button autofocus id=kept>Take it</button>",
                now + left
            ),
        )
    };
    let routes = Router::new()
        .route("/page", get(async move || main(2_500)))
        .route("/minutes", get(async move || main(9 * 60_000 + 59_000)))
        .route("/hours", get(async move || main(3 * 3_600_000)));
    let (_site, url) = serve(routes).await;
    let browser = Browser::start().await;
    browser.open(&url.replace("/page", "/minutes")).await;
    browser.sees("9:5").await;
    browser.open(&url.replace("/page", "/hours")).await;
    browser.sees("2:59:5").await;
    browser.open(&url).await;
    browser.sees("0:0").await;
    browser.sees("Time is up").await;
    assert_eq!(browser.text("[data-when-over]").await, "It went to the next person");
    assert_eq!(browser.text("[data-until-over]").await, "", "it is not theirs any more");
    assert_eq!(browser.text("#said").await, "Time is up.");
    assert_eq!(browser.text(":focus").await, "Take it", "focus stays where it was");
}

#[tokio::test]
async fn a_page_refreshes_itself_but_not_under_the_hands_of_somebody_who_works_in_it() {
    let count = Arc::new(AtomicU32::new(0));
    let counted = count.clone();
    let routes = Router::new().route(
        "/page",
        get(async move || {
            let n = counted.fetch_add(1, Ordering::SeqCst);
            page(
                1_000_000_000_000,
                " data-live=1",
                &format!(
                    "<section id=a data-live-part>version {n} \
                     <label for=pick>Pick</label><input type=checkbox id=pick data-select></section>\
                     <section id=b data-live-part>other {n}</section>"
                ),
            )
        }),
    );
    let (_site, url) = serve(routes).await;
    let browser = Browser::start().await;
    browser.open(&url).await;
    browser.sees("Updates by itself.").await;
    browser.sees("version 1").await;
    browser
        .devtools(
            "Runtime.evaluate",
            serde_json::json!({ "expression": "document.getElementById('pick').click()" }),
        )
        .await;
    browser.sees("Updates paused while rows are selected.").await;
    let before = browser.text("#a").await;
    let at = count.load(Ordering::SeqCst);
    browser.sees(&format!("other {}", at + 1)).await;
    assert_eq!(browser.text("#a").await, before, "the part somebody works in is left alone");
    browser
        .devtools(
            "Runtime.evaluate",
            serde_json::json!({ "expression": "document.getElementById('pick').click()" }),
        )
        .await;
    browser.sees("Updates by itself.").await;
    let at = count.load(Ordering::SeqCst);
    browser.sees(&format!("version {}", at + 1)).await;
}
