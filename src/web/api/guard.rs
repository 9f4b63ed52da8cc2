//! What every request to the API passes through: who asks, how often they write, and that what they name by a key of
//! their own is done once and answered the same.

use axum::body::{Body, Bytes, to_bytes};
use axum::extract::{Request, State};
use axum::http::header::{AUTHORIZATION, CONTENT_TYPE, ETAG, IF_NONE_MATCH, LOCATION, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use sha2::{Digest, Sha256};

use super::caller::{Caller, shown};
use super::problem::{Code, Failed, Refusal};
use super::signed;
use crate::db::idempotency::{Claimed, Kept, under};
use crate::db::limits::Window;
use crate::domain::import::MAX_UPLOAD_BYTES;
use crate::domain::key::Scope;
use crate::web::client::ClientAddress;
use crate::web::error::Error;
use crate::web::{Limit, WebState, body};

/// The most bytes a request's body may have.
pub const BODY_LIMIT: usize = 256 * 1024;

/// The same for a file of whoever may bring one in: nobody else makes the server read as much.
fn body_limit(caller: &Caller, path: &str) -> usize {
    let brings = path.starts_with("/v1/events/") && path.ends_with("/imports");
    if brings && caller.may(Scope::EntriesImport) { MAX_UPLOAD_BYTES } else { BODY_LIMIT }
}

/// The key of the caller's own by which an act is done once (draft-ietf-httpapi-idempotency-key-header).
pub const IDEMPOTENCY_KEY: HeaderName = HeaderName::from_static("idempotency-key");

/// Says that the answer was given before.
const REPLAYED: HeaderName = HeaderName::from_static("idempotency-replayed");

/// How often a caller may write, and what is left of it (draft-ietf-httpapi-ratelimit-headers).
const RATE_LIMIT_POLICY: HeaderName = HeaderName::from_static("ratelimit-policy");
const RATE_LIMIT: HeaderName = HeaderName::from_static("ratelimit");

/// Headers that belong to what an answer says, and are kept with it.
const KEPT_HEADERS: [HeaderName; 3] = [CONTENT_TYPE, LOCATION, ETAG];

/// The layer.
pub async fn guard(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    mut request: Request,
    next: Next,
) -> Response {
    let caller = if signed::is_signed(&request) {
        signed::identify(&state, &address, &mut request).await.map(Some)
    } else {
        identify(&state, &address, request.headers()).await
    };
    let caller = match caller {
        Ok(caller) => caller,
        Err(failed) => return failed.into_response(),
    };
    let writes = !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS);
    let mut window = None;
    if writes {
        let subject = caller.as_ref().map_or_else(|| address.to_string(), Caller::name);
        match state.window(Limit::Writes, subject).await {
            Ok(counted) => window = Some(counted),
            Err(error) => return error.into_response(),
        }
    }
    let most = state.settings.limits.writes;
    if let Some(counted) = window.filter(|counted| counted.hits > most) {
        state.db.metrics().refused(Limit::Writes.as_str());
        let refusal = Refusal::new(
            Code::TooManyRequests,
            format!("At most {most} writes a minute are taken from one caller. Nothing was done."),
        );
        return with_limit(refusal.again_in(counted.seconds).into_response(), most, counted);
    }
    let by_post = *request.method() == Method::POST;
    let accepts = request.uri().path().ends_with(":accept");
    let mut response = match caller {
        Some(caller) => {
            request.extensions_mut().insert(caller.clone());
            if by_post { once(&state, &caller, request, next).await } else { read(request, next).await }
        }
        None => read(request, next).await,
    };
    if response.status() == StatusCode::ACCEPTED {
        // An offer takes so many answers a minute, and no more.
        let seconds = if accepts { 7 } else { 5 };
        response.headers_mut().entry(RETRY_AFTER).or_insert(HeaderValue::from(seconds));
    }
    match window {
        Some(counted) => with_limit(response, most, counted),
        None => response,
    }
}

/// Whoever shows something that is not good is refused at once, wherever they go; guessing is slow.
async fn identify(
    state: &WebState,
    address: &std::net::IpAddr,
    headers: &HeaderMap,
) -> Result<Option<Caller>, Failed> {
    if !headers.contains_key(AUTHORIZATION) {
        return Ok(None);
    }
    let caller = match shown(headers) {
        Some(token) => Caller::of(state, token).await?,
        None => None,
    };
    if caller.is_none() {
        state.count(Limit::Token, address).await?;
        return Err(Refusal::unauthorized().into());
    }
    Ok(caller)
}

fn with_limit(mut response: Response, most: i32, counted: Window) -> Response {
    let left = (most - counted.hits).max(0);
    let values = [
        (RATE_LIMIT_POLICY, format!("\"writes\";q={most};w=60")),
        (RATE_LIMIT, format!("\"writes\";r={left};t={}", counted.seconds)),
    ];
    for (name, value) in values {
        if let Ok(value) = HeaderValue::from_str(&value) {
            response.headers_mut().insert(name, value);
        }
    }
    response
}

/// An answer to a reading names its version, and is not sent again to whoever has it.
async fn read(request: Request, next: Next) -> Response {
    let reading = *request.method() == Method::GET;
    let has: Vec<HeaderValue> = request.headers().get_all(IF_NONE_MATCH).iter().cloned().collect();
    let response = next.run(request).await;
    if !reading || response.status() != StatusCode::OK || !is_json(response.headers()) {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let Ok(bytes) = to_bytes(body, usize::MAX).await else {
        return Error::internal("a body that cannot be read").into_response();
    };
    // What is changed under `If-Match` says which version of it this is.
    let version = parts.headers.get(ETAG).and_then(|tag| tag.to_str().ok()).map(|tag| tag.trim_matches('"'));
    let tag = version_of(version, &bytes);
    let known = has.iter().filter_map(|value| value.to_str().ok()).flat_map(|value| value.split(','));
    let is_known =
        known.map(|known| known.trim().trim_start_matches("W/")).any(|known| known == tag || known == "*");
    if let Ok(value) = HeaderValue::from_str(&tag) {
        parts.headers.insert(ETAG, value);
    }
    if is_known {
        parts.status = StatusCode::NOT_MODIFIED;
        parts.headers.remove(CONTENT_TYPE);
        return Response::from_parts(parts, Body::empty());
    }
    Response::from_parts(parts, Body::from(bytes))
}

fn is_json(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/json"))
}

/// The version of what is said: a strong entity tag, that begins with the version of what it is about, if it has one.
fn version_of(version: Option<&str>, body: &[u8]) -> String {
    let hash = hex::encode(&Sha256::digest(body)[..16]);
    version.map_or_else(|| format!("\"{hash}\""), |version| format!("\"{version}-{hash}\""))
}

/// Reads the body, so that it can be compared, and acts once for each key.
async fn once(state: &WebState, caller: &Caller, request: Request, next: Next) -> Response {
    let path = request.uri().path().to_owned();
    let key = match own_key(request.headers(), request.uri().path()) {
        Ok(key) => key,
        Err(refusal) => return refusal.into_response(),
    };
    let Some(key) = key else { return next.run(request).await };
    let (parts, body) = request.into_parts();
    let bytes = match body::read(body, body_limit(caller, &path)).await {
        Ok(bytes) => bytes,
        Err(error) => return error.into_response(),
    };
    let hash = |parts: &[&[u8]]| -> [u8; 32] {
        let mut hash = Sha256::new();
        for part in parts {
            hash.update((part.len() as u64).to_be_bytes());
            hash.update(part);
        }
        hash.finalize().into()
    };
    let key_hash = hash(&[caller.name().as_bytes(), path.as_bytes(), key.as_bytes()]);
    // What is asked for in the query is a part of what is asked for.
    let query = parts.uri.query().unwrap_or_default();
    let claim = match state.db.claim_key(key_hash, hash(&[query.as_bytes(), &bytes])).await {
        Ok(Claimed::Mine(claim)) => claim,
        Ok(Claimed::Answered(kept)) => return replayed(kept),
        Ok(Claimed::OtherBody) => {
            return Refusal::new(
                Code::KeyReused,
                "This Idempotency-Key was used with another body. Nothing was done.",
            )
            .into_response();
        }
        Ok(Claimed::InFlight(seconds)) => {
            return Refusal::new(
                Code::InFlight,
                "The same request is being answered. Ask again in a moment.",
            )
            .again_in(seconds.min(2))
            .into_response();
        }
        Err(error) => return Error::from(error).into_response(),
    };
    let request = Request::from_parts(parts, Body::from(bytes));
    let response = under(claim, next.run(request)).await;
    let status = response.status();
    // What is not decided yet, or was not done at all, is asked again; so is what broke, and what says when to ask again.
    let kept = !(status == StatusCode::ACCEPTED
        || status == StatusCode::TOO_MANY_REQUESTS
        || status.is_server_error()
        || response.headers().contains_key(RETRY_AFTER)
        || response.extensions().get::<Unkept>().is_some());
    let (parts, body) = response.into_parts();
    let Ok(body) = to_bytes(body, usize::MAX).await else {
        return Error::internal("a body that cannot be read").into_response();
    };
    let written = if kept {
        state.db.keep_answer(claim, &keep(&parts, &body)).await
    } else {
        state.db.let_key_go(claim).await
    };
    if let Err(error) = written {
        // What was done is on record, and the next request with the key finds it; this one is answered all the same.
        tracing::warn!(%error, "an answer was not kept");
    }
    Response::from_parts(parts, Body::from(body))
}

/// As an extension of an answer: it holds a secret, and is not kept.
#[derive(Clone, Copy, Debug)]
pub struct Unkept;

fn keep(parts: &axum::http::response::Parts, body: &Bytes) -> Kept {
    let headers = KEPT_HEADERS
        .iter()
        .filter_map(|name| Some((name.to_string(), parts.headers.get(name)?.to_str().ok()?.to_owned())))
        .collect();
    Kept { status: parts.status.as_u16(), headers, body: body.to_vec() }
}

fn replayed(kept: Kept) -> Response {
    let status = StatusCode::from_u16(kept.status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR);
    let mut response = (status, Body::from(kept.body)).into_response();
    let headers = response.headers_mut();
    for (name, value) in kept.headers {
        if let (Ok(name), Ok(value)) = (HeaderName::try_from(name), HeaderValue::try_from(value)) {
            headers.insert(name, value);
        }
    }
    headers.insert(REPLAYED, HeaderValue::from_static("true"));
    response
}

/// The caller's own key. Accepting an offer without one is refused: a retry could not be told from a second wish.
fn own_key<'a>(headers: &'a HeaderMap, path: &str) -> Result<Option<String>, Refusal> {
    let Some(value) = headers.get(IDEMPOTENCY_KEY) else {
        return if path.ends_with(":accept") {
            Err(Refusal::new(
                Code::IdempotencyKeyMissing,
                "Send an Idempotency-Key of your own with this request, and the same one when you repeat it.",
            ))
        } else {
            Ok(None)
        };
    };
    let usable = |value: &'a HeaderValue| {
        let text = value.to_str().ok()?.trim().trim_matches('"');
        (!text.is_empty() && text.len() <= 255).then_some(text)
    };
    usable(value).map(|text| Some(text.to_owned())).ok_or_else(|| {
        Refusal::new(Code::IdempotencyKeyBad, "An Idempotency-Key has 1 to 255 readable characters.")
    })
}
