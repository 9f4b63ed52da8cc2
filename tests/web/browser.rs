//! The browser of the harness: it is as wide, as dark and as scriptless as a test says.

use axum::Router;
use axum::response::Html;
use axum::routing::get;

use crate::harness::browser::{Browser, Scheme, Width};

const PAGE: &str = "<!doctype html><meta name=viewport content='width=device-width'><body>\
    <p id=width></p><noscript>without scripts</noscript>\
    <form action=/said><label for=word>A word</label><input id=word name=said><button>Say it</button></form>\
    <script>document.getElementById('width').textContent = innerWidth + ' ' + \
    matchMedia('(prefers-color-scheme: dark)').matches</script>";

#[tokio::test]
async fn it_is_as_wide_as_dark_and_as_scriptless_as_a_test_says() {
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await.unwrap();
    let address = listener.local_addr().unwrap();
    let said =
        get(|uri: axum::http::Uri| async move { Html(format!("<body>{}", uri.query().unwrap_or_default())) });
    let router = Router::new().route("/", get(async || Html(PAGE))).route("/said", said);
    tokio::spawn(async move { axum::serve(listener, router).await });

    let browser = Browser::start().await;
    let home = format!("http://{address}/");
    for (width, scheme, shown) in
        [(Width::Desk, Scheme::Light, "1280 false"), (Width::Phone, Scheme::Dark, "390 true")]
    {
        browser.set_width(width).await;
        browser.set_scheme(scheme).await;
        browser.open(&home).await;
        assert_eq!(browser.text("#width").await, shown);
    }
    browser.set_scripts(false).await;
    browser.open(&home).await;
    browser.sees("without scripts").await;
    assert_eq!(browser.overflow().await, 0);
    browser.fill("A word", "hello").await;
    browser.press("Say it").await;
    browser.sees("said=hello").await;
}
