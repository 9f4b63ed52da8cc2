//! Our own extractors: whatever cannot be read ends in a page, and never shows a parser's text.

use axum::body::{Body, Bytes};
use axum::extract::{FromRequest, FromRequestParts, Request};
use axum::http::request::Parts;
use serde::de::DeserializeOwned;
use url::form_urlencoded;

use super::body;
use super::error::Error;

/// Parts of the path. An id that cannot be one is a page that is not there.
#[derive(Debug)]
pub struct Path<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Path<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        if parts.uri.path().contains("%00") {
            return Err(Error::NotFound);
        }
        let axum::extract::Path(value) =
            axum::extract::Path::from_request_parts(parts, state).await.map_err(|_| Error::NotFound)?;
        Ok(Self(value))
    }
}

/// The query. Fields should be strings with defaults, parsed where they are used.
#[derive(Debug)]
pub struct Query<T>(pub T);

impl<T: DeserializeOwned + Send, S: Send + Sync> FromRequestParts<S> for Query<T> {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, Error> {
        readable(parts.uri.query().unwrap_or_default().as_bytes())?;
        let axum::extract::Query(value) =
            axum::extract::Query::from_request_parts(parts, state).await.map_err(|error| {
                // Whoever writes a program is helped by what a reader of pages has no use for.
                Error::BadRequest(if parts.uri.path().starts_with("/v1/") {
                    format!("The query of this address is not right: {}.", error.body_text()).into()
                } else {
                    "The address of this page is not complete or not right.".into()
                })
            })?;
        Ok(Self(value))
    }
}

/// The body of a form, checked to be text. Handlers take [`super::csrf::VerifiedForm`], which is made of this.
pub(super) struct RawForm {
    parts: Parts,
    bytes: Bytes,
    pub(super) token: Option<String>,
}

impl RawForm {
    pub(super) async fn read(request: Request) -> Result<Self, Error> {
        let (parts, body) = request.into_parts();
        let whole = Request::from_parts(parts.clone(), body);
        let bytes = body::whole(whole).await?;
        readable(&bytes)?;
        let token = form_urlencoded::parse(&bytes)
            .find(|(name, _)| name == super::csrf::FIELD)
            .map(|(_, value)| value.into_owned());
        Ok(Self { parts, bytes, token })
    }

    /// The fields, once the token was checked.
    pub(super) async fn parse<T: DeserializeOwned, S: Send + Sync>(self, state: &S) -> Result<T, Error> {
        let request = Request::from_parts(self.parts, Body::from(self.bytes));
        let axum::Form(value) = axum::Form::from_request(request, state).await.map_err(|error| {
            tracing::debug!(%error, "a form without its fields");
            Error::BadRequest("The form was not complete. Nothing was saved; open it again.".into())
        })?;
        Ok(value)
    }
}

fn unreadable() -> Error {
    Error::BadRequest("The form holds characters that cannot be read. Nothing was saved.".into())
}

/// Postgres has no text with a zero byte, and what is not UTF-8 is nobody's name.
fn readable(encoded: &[u8]) -> Result<(), Error> {
    let odd = form_urlencoded::parse(encoded)
        .any(|(name, value)| [name, value].iter().any(|text| text.contains(['\0', '\u{fffd}'])));
    if odd { Err(unreadable()) } else { Ok(()) }
}
