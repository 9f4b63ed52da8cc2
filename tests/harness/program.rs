//! Another program, that uses the API: sends JSON through the real router and reads what comes back.

use axum::Router;
use axum::body::{Body, to_bytes};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use axum::http::{HeaderMap, HeaderName, Method, Request, StatusCode};
use fairlist::db::Db;
use fairlist::db::keys::NewKey;
use fairlist::domain::audit::Actor;
use fairlist::domain::ids::{KeyId, OrganizationId, StaffId};
use fairlist::domain::key::{KEY_PREFIX, KeyName, Scope, hint};
use fairlist::domain::secret::token_hash;
use serde_json::Value;
use tower::ServiceExt as _;

/// A program, with or without something to show.
#[derive(Clone)]
pub struct Program {
    router: Router,
    token: Option<String>,
    headers: Vec<(&'static str, String)>,
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Reply {
    pub status: StatusCode,
    pub headers: HeaderMap,
    pub bytes: Vec<u8>,
    /// Null when it is no JSON.
    pub json: Value,
}

impl Reply {
    pub fn code(&self) -> &str {
        self.json["code"].as_str().unwrap_or_default()
    }

    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }

    /// The JSON of an answer that has to be good.
    #[track_caller]
    pub fn good(self) -> Value {
        assert!(self.status.is_success(), "{} {}", self.status, String::from_utf8_lossy(&self.bytes));
        self.json
    }

    /// Refused like this.
    #[track_caller]
    pub fn refused(&self, status: u16, code: &str) {
        assert_eq!((self.status.as_u16(), self.code()), (status, code), "{}", self.json);
        assert_eq!(self.header("content-type"), "application/problem+json");
    }
}

impl Program {
    pub fn new(router: &Router) -> Self {
        Self { router: router.clone(), token: None, headers: Vec::new() }
    }

    /// The same, showing this.
    pub fn with_token(&self, token: &str) -> Self {
        Self { token: Some(token.to_owned()), ..self.clone() }
    }

    /// What it shows.
    pub fn token(&self) -> Option<&str> {
        self.token.as_deref()
    }

    /// The same, with a header.
    pub fn with(&self, name: &'static str, value: &str) -> Self {
        let mut with = self.clone();
        with.headers.push((name, value.to_owned()));
        with
    }

    /// The same, acting under a key of its own.
    pub fn once(&self, key: &str) -> Self {
        self.with("idempotency-key", key)
    }

    pub async fn get(&self, path: &str) -> Reply {
        self.send(Method::GET, path, None).await
    }

    pub async fn post(&self, path: &str, body: Value) -> Reply {
        self.send(Method::POST, path, Some(body)).await
    }

    pub async fn patch(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PATCH, path, Some(body)).await
    }

    pub async fn put(&self, path: &str, body: Value) -> Reply {
        self.send(Method::PUT, path, Some(body)).await
    }

    pub async fn delete(&self, path: &str) -> Reply {
        self.send(Method::DELETE, path, None).await
    }

    pub async fn send(&self, method: Method, path: &str, body: Option<Value>) -> Reply {
        self.send_as(method, path, body.map(|body| ("application/json", body.to_string().into_bytes()))).await
    }

    /// Brings a file.
    pub async fn upload(&self, path: &str, csv: impl Into<Vec<u8>>) -> Reply {
        self.send_as(Method::POST, path, Some(("text/csv", csv.into()))).await
    }

    async fn send_as(&self, method: Method, path: &str, body: Option<(&str, Vec<u8>)>) -> Reply {
        let mut request = Request::builder().method(method).uri(path).header(HOST, "localhost");
        if let Some(token) = &self.token {
            request = request.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &self.headers {
            request = request.header(HeaderName::from_static(name), value);
        }
        let body = match body {
            Some((kind, body)) => {
                request = request.header(CONTENT_TYPE, kind);
                Body::from(body)
            }
            None => Body::empty(),
        };
        let request = request.body(body).expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let (parts, body) = response.into_parts();
        let bytes = to_bytes(body, usize::MAX).await.expect("a body").to_vec();
        let json = serde_json::from_slice(&bytes).unwrap_or(Value::Null);
        Reply { status: parts.status, headers: parts.headers, bytes, json }
    }
}

/// Makes a key that is good for these scopes, for a year.
pub async fn add_key(
    db: &Db,
    organization: OrganizationId,
    by: StaffId,
    scopes: &[Scope],
) -> (KeyId, String) {
    let token = format!("{KEY_PREFIX}{}", hex::encode(db.entropy().bytes()));
    let expires_at = db.now().await.expect("the time") + chrono::Duration::days(365);
    let new =
        NewKey { name: KeyName::parse("Ticket shop").expect("a name"), scopes: scopes.to_vec(), expires_at };
    let id = KeyId(db.entropy().id());
    let shown = (token_hash(&token), hint(&token));
    let by = Actor::Staff(by);
    assert!(db.add_key(id, organization, &new, (shown.0, &shown.1), by).await.expect("a key"));
    (id, token)
}
