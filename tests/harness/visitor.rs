//! Somebody with a browser, without the browser: keeps cookies, sends a form's hidden token along, and reads
//! pages by their elements. Goes through the real router, every layer included.

use std::collections::BTreeMap;

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{CONTENT_TYPE, COOKIE, HOST, LOCATION, SET_COOKIE};
use axum::http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use scraper::{Html, Selector};
use tower::ServiceExt as _;
use url::form_urlencoded;

/// A visitor of the router's pages.
#[derive(Clone)]
pub struct Visitor {
    router: Router,
    cookies: BTreeMap<String, String>,
    /// Sent with every request from now on.
    headers: Vec<(HeaderName, String)>,
    /// The form token of the last page that had one.
    pub token: String,
}

/// What came back.
#[derive(Debug)]
pub struct Answer {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub body: String,
}

impl Visitor {
    pub fn new(router: &Router) -> Self {
        Self { router: router.clone(), cookies: BTreeMap::new(), headers: Vec::new(), token: String::new() }
    }

    /// The same, as if behind `name: value`, for every request that follows.
    pub fn with_header(mut self, name: &'static str, value: &str) -> Self {
        self.headers.push((HeaderName::from_static(name), value.to_owned()));
        self
    }

    pub fn cookie(&self, name: &str) -> Option<&str> {
        self.cookies.get(name).map(String::as_str)
    }

    /// Plants a cookie.
    pub fn set_cookie(&mut self, name: &str, value: &str) {
        self.cookies.insert(name.to_owned(), value.to_owned());
    }

    pub async fn get(&mut self, path: &str) -> Answer {
        self.send(Method::GET, path, Body::empty(), &[]).await
    }

    pub async fn head(&mut self, path: &str) -> Answer {
        self.send(Method::HEAD, path, Body::empty(), &[]).await
    }

    /// Follows redirects to the page at their end.
    pub async fn open(&mut self, path: &str) -> Answer {
        let mut answer = self.get(path).await;
        for _ in 0..5 {
            match answer.location() {
                Some(next) => answer = self.get(&next).await,
                None => break,
            }
        }
        answer
    }

    /// Posts a form as the last page had it: with its token.
    pub async fn post(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let token = self.token.clone();
        let mut all = vec![("form_token", token.as_str())];
        all.extend_from_slice(fields);
        self.post_raw(path, &all, &[("sec-fetch-site", "same-origin")]).await
    }

    /// Posts and follows the redirect.
    pub async fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Answer {
        let answer = self.post(path, fields).await;
        match answer.location() {
            Some(next) => self.open(&next).await,
            None => answer,
        }
    }

    /// Posts exactly this.
    pub async fn post_raw(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        headers: &[(&'static str, &str)],
    ) -> Answer {
        let body = form_urlencoded::Serializer::new(String::new()).extend_pairs(fields).finish();
        let mut all = vec![("content-type", "application/x-www-form-urlencoded")];
        all.extend_from_slice(headers);
        self.send(Method::POST, path, Body::from(body), &all).await
    }

    /// Sends anything.
    pub async fn send(
        &mut self,
        method: Method,
        path: &str,
        body: Body,
        headers: &[(&'static str, &str)],
    ) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        if !self.cookies.is_empty() {
            let line = self.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>();
            request = request.header(COOKIE, line.join("; "));
        }
        let request = request.body(body).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("the router always answers");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body");
        let answer = Answer {
            status: parts.status,
            headers: parts.headers,
            body: String::from_utf8(bytes.to_vec()).expect("pages are UTF-8"),
        };
        for cookie in answer.headers.get_all(SET_COOKIE) {
            let cookie = cookie.to_str().expect("a cookie");
            let (name, rest) = cookie.split_once('=').expect("a name");
            let value = rest.split(';').next().expect("a value");
            if value.is_empty() || rest.contains("Max-Age=0") {
                self.cookies.remove(name);
            } else {
                self.cookies.insert(name.to_owned(), value.to_owned());
            }
        }
        if let Some(token) = answer.form_token() {
            self.token = token;
        }
        answer
    }
}

impl Answer {
    /// Where a redirect leads.
    pub fn location(&self) -> Option<String> {
        self.headers.get(LOCATION).map(|to| to.to_str().expect("an address").to_owned())
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or("", |value| value.to_str().expect("text"))
    }

    fn is_page(&self) -> bool {
        self.headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"text/html"))
    }

    fn form_token(&self) -> Option<String> {
        if !self.is_page() {
            return None;
        }
        let input = Selector::parse("input[name=form_token]").expect("a selector");
        Html::parse_document(&self.body)
            .select(&input)
            .next()
            .and_then(|input| input.attr("value"))
            .map(str::to_owned)
    }

    /// The texts of all elements that `selector` finds, with single spaces.
    pub fn texts(&self, selector: &str) -> Vec<String> {
        let selector = Selector::parse(selector).expect("a selector");
        Html::parse_document(&self.body)
            .select(&selector)
            .map(|element| {
                element.text().collect::<String>().split_whitespace().collect::<Vec<_>>().join(" ")
            })
            .collect()
    }

    /// The text of the first element that `selector` finds; empty if there is none.
    pub fn text(&self, selector: &str) -> String {
        self.texts(selector).into_iter().next().unwrap_or_default()
    }

    /// An attribute of the first element that `selector` finds.
    pub fn attribute(&self, selector: &str, name: &str) -> Option<String> {
        let selector = Selector::parse(selector).expect("a selector");
        Html::parse_document(&self.body)
            .select(&selector)
            .next()
            .and_then(|element| element.attr(name))
            .map(str::to_owned)
    }

    /// Fails with the page's text unless it says so.
    #[track_caller]
    pub fn says(&self, sentence: &str) {
        let text = self.text("body");
        assert!(text.contains(sentence), "{}: not {sentence:?} in: {text}", self.status);
    }
}
