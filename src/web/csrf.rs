//! Posts are taken only from our own pages: by what the browser says of their origin, and by a token that is
//! bound to the session. A form cannot be read before its token was checked.

use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::header::{HOST, ORIGIN};
use axum::http::{HeaderMap, Method, Uri};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;
use tower_http::csrf::{ConfigError, CsrfLayer, ProtectionError};
use tower_sessions::Session;

use super::error::Error;
use super::extract::RawForm;
use super::{Settings, WebState};

/// The hidden field.
pub const FIELD: &str = "form_token";

/// The token of a session's forms: a hash of its id, so that nothing needs to be stored and no page shows the id.
/// A visitor without a session gets one; it lives in the cookie only while forms are open.
///
/// # Errors
/// When the session cannot be saved.
pub async fn token(session: &Session) -> Result<String, Error> {
    // Loading decides whether the id that the browser sent is one of ours.
    let known = session.get_value("form").await?.is_some();
    if !known || session.id().is_none() {
        session.insert("form", true).await?;
        session.save().await?;
    }
    let id = session.id().ok_or_else(|| Error::internal("a saved session without an id"))?;
    Ok(hex::encode(Sha256::new().chain_update(b"fairlist form").chain_update(id.0.to_le_bytes()).finalize()))
}

/// A form that is only a button.
#[derive(Clone, Copy, Debug, serde::Deserialize)]
pub struct NoFields {}

/// A form whose token was checked.
#[derive(Debug)]
pub struct VerifiedForm<T>(pub T);

impl<T: DeserializeOwned + Send> FromRequest<WebState> for VerifiedForm<T> {
    type Rejection = Error;

    async fn from_request(request: Request, state: &WebState) -> Result<Self, Error> {
        let (mut parts, body) = request.into_parts();
        let session = Session::from_request_parts(&mut parts, state)
            .await
            .map_err(|_| Error::internal("a form on a route without sessions"))?;
        let form = RawForm::read(Request::from_parts(parts, body)).await?;
        verify(&session, form.token.as_deref()).await?;
        form.parse(state).await.map(Self)
    }
}

/// Refuses a token that is not the session's.
///
/// # Errors
/// [`Error::StaleForm`].
pub async fn verify(session: &Session, given: Option<&str>) -> Result<(), Error> {
    // Without a session there is nothing to compare with, and no reason to make one.
    if session.get_value("form").await?.is_none() {
        return Err(Error::StaleForm);
    }
    let expected = token(session).await?;
    let same: bool = given.unwrap_or_default().as_bytes().ct_eq(expected.as_bytes()).into();
    if same { Ok(()) } else { Err(Error::StaleForm) }
}

/// The refusal, as our page.
#[expect(clippy::needless_pass_by_value, reason = "the layer hands it over")]
fn refuse(error: ProtectionError) -> Response {
    tracing::info!(%error, "a post from elsewhere was refused");
    Error::Foreign.into_response()
}

/// The check with our own answer.
pub type FetchMetadata = CsrfLayer<fn(ProtectionError) -> Response>;

/// The Fetch-Metadata check, with our own address as the one that is trusted.
///
/// # Errors
/// When the base URL has no origin.
pub fn layer(settings: &Settings) -> Result<FetchMetadata, ConfigError> {
    let layer = CsrfLayer::new().add_trusted_origin(settings.origin())?;
    Ok(layer.with_rejection_response(refuse as fn(ProtectionError) -> Response))
}

/// What tower-http's check leaves open: a post of a sandboxed page says `Origin: null`, and a name that merely
/// points at us (DNS rebinding) is its own origin. So: no null, and only hosts that were configured.
pub async fn own_host(
    axum::extract::State(state): axum::extract::State<WebState>,
    request: Request,
    next: Next,
) -> Response {
    let null = request.headers().get(ORIGIN).is_some_and(|origin| origin.as_bytes() == b"null");
    if null && !matches!(*request.method(), Method::GET | Method::HEAD | Method::OPTIONS) {
        return Error::Foreign.into_response();
    }
    let health = matches!(request.uri().path(), "/healthz" | "/readyz");
    match host(request.uri(), request.headers()) {
        Some(host) if !health && !state.settings.serves(&host) => Error::Foreign.into_response(),
        _ => next.run(request).await,
    }
}

fn host(uri: &Uri, headers: &HeaderMap) -> Option<String> {
    let from_uri = uri.authority().map(|authority| authority.as_str().to_owned());
    from_uri.or_else(|| headers.get(HOST).map(|host| String::from_utf8_lossy(host.as_bytes()).into_owned()))
}
