//! What a system that cannot show a key tells instead: signed, as Standard Webhooks says, with the secret that was shown
//! with the key. The address names the key: `POST /v1/internal/capacity-released?key=…`.

use axum::body::Body;
use axum::extract::{Query, Request};
use axum::http::header::AUTHORIZATION;
use serde::Deserialize;

use super::caller::{Caller, Who};
use super::guard::BODY_LIMIT;
use super::problem::{Code, Failed, Refusal};
use crate::db::keys::ApiKey;
use crate::domain::ids::KeyId;
use crate::domain::key::Scope;
use crate::domain::secret::token_hash;
use crate::domain::webhook::{SignatureError, shown, verify};
use crate::web::{Limit, WebState, body};

/// The one address to which what is signed may be sent.
pub const ADDRESS: &str = "/v1/internal/capacity-released";

/// Where the program with this key sends what it signs, and the secret to sign it with; where it may tell of capacity.
#[must_use]
pub fn signing(state: &WebState, key: &ApiKey) -> Option<(String, String)> {
    key.scopes.contains(&Scope::PlacesWrite).then(|| {
        let address = format!("{}{ADDRESS}?key={}", state.settings.origin(), key.id);
        (address, shown(&state.secret.telling_key(key.id)))
    })
}

const HEADERS: [&str; 3] = ["webhook-id", "webhook-timestamp", "webhook-signature"];

#[derive(Deserialize)]
struct Named {
    key: KeyId,
}

/// Whether this request is to be believed by its signature.
#[must_use]
pub fn is_signed(request: &Request) -> bool {
    request.uri().path() == ADDRESS
        && !request.headers().contains_key(AUTHORIZATION)
        && request.headers().contains_key("webhook-signature")
}

/// By whose secret it was signed. The body is read for that, and put back.
///
/// # Errors
/// Why it is not believed; guessing is slow.
pub async fn identify(
    state: &WebState,
    address: &std::net::IpAddr,
    request: &mut Request,
) -> Result<Caller, Failed> {
    let body = std::mem::take(request.body_mut());
    let bytes = body::read(body, BODY_LIMIT).await.map_err(Failed::from)?;
    let header = |name| request.headers().get(name).and_then(|value| value.to_str().ok());
    let [Some(id), Some(timestamp), Some(signature)] = HEADERS.map(header) else {
        return Err(refused(SignatureError::Unreadable));
    };
    let now = state.db.session_now().await?;
    let key = match Query::<Named>::try_from_uri(request.uri()) {
        Ok(Query(Named { key })) => state.db.key_named(key, now).await?,
        Err(_) => None,
    };
    // Whether there is such a key is not said.
    let verified = match &key {
        Some(key) => verify(&state.secret.telling_key(key.id), [id, timestamp, signature], &bytes, now),
        // As long, and as far, as for one that there is.
        None => verify(&[0; 32], [id, timestamp, signature], &bytes, now).and(Err(SignatureError::Wrong)),
    };
    let key = match (key, verified) {
        (Some(key), Ok(())) => key,
        (_, verified) => {
            state.count(Limit::Token, address).await?;
            return Err(refused(verified.err().unwrap_or(SignatureError::Wrong)));
        }
    };
    *request.body_mut() = Body::from(bytes);
    let token_hash = token_hash(&key.id.to_string());
    Ok(Caller { who: Who::Key(key), token_hash, now })
}

fn refused(error: SignatureError) -> Failed {
    Refusal::new(Code::Unauthorized, format!("{error} Nothing was done.")).into()
}
