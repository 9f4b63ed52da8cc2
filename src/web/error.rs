//! What can go wrong for a visitor, and the page that says so. Refusals that a use case expects are not errors:
//! they are outcomes with pages of their own.
//!
//! An error travels as an extension of an empty response; one layer, which knows the address asked for, turns it
//! into a page (or a redirect to sign-in). So rejections, fallbacks and panics all end in the same place.

use std::borrow::Cow;

use askama::Template;
use axum::body::Body;
use axum::extract::{Request, State};
use axum::http::header::{CONTENT_TYPE, LOCATION, REFERER, RETRY_AFTER};
use axum::http::{HeaderMap, HeaderValue, Method, StatusCode};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};

use super::WebState;
use super::next::LocalPath;
use super::page::Layout;
use crate::db::DbError;
use crate::domain::role::Act;

/// An error of the web.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// There is no such page, or not for this visitor.
    #[error("not found")]
    NotFound,
    /// Only for somebody who is signed in.
    #[error("sign in")]
    SignIn,
    /// The visitor's role does not allow it.
    #[error("not allowed: {0}")]
    Forbidden(Act),
    /// The request came from another site, or names a host that is not ours.
    #[error("not from our own pages")]
    Foreign,
    /// The form was opened too long ago, or by somebody who has signed out or in since.
    #[error("stale form")]
    StaleForm,
    /// The request makes no sense; the sentence is for the visitor.
    #[error("bad request: {0}")]
    BadRequest(Cow<'static, str>),
    /// More than fits.
    #[error("too large")]
    TooLarge,
    /// It did not arrive in time.
    #[error("too slow")]
    TooSlow,
    /// Too often.
    #[error("too many requests")]
    TooMany {
        /// Seconds until it may be tried again.
        retry_after: i64,
    },
    /// The database, or the event, is too busy. Nothing was done.
    #[error("unavailable")]
    Unavailable,
    /// The connection broke while a change was being made: it may have happened or not.
    #[error("it is not known whether the change was made")]
    Unsure,
    /// Our fault. The visitor learns nothing but a reference.
    #[error("internal: {0}")]
    Internal(Box<dyn std::error::Error + Send + Sync>),
}

impl Error {
    /// # Arguments
    /// `error`: for the log, not for the visitor.
    pub fn internal(error: impl Into<Box<dyn std::error::Error + Send + Sync>>) -> Self {
        Self::Internal(error.into())
    }
}

impl From<DbError> for Error {
    fn from(error: DbError) -> Self {
        match error {
            DbError::NotFound => Self::NotFound,
            DbError::Unavailable(_) | DbError::Busy(_) => {
                tracing::warn!(%error, source = ?std::error::Error::source(&error), "answered 503");
                Self::Unavailable
            }
            DbError::CommitUnknown(_) => {
                tracing::warn!(%error, "a commit whose outcome is not known");
                Self::Unsure
            }
            DbError::Constraint(_) | DbError::Unreadable(..) | DbError::LostRace(_) | DbError::Other(_) => {
                Self::internal(error)
            }
        }
    }
}

impl From<tower_sessions::session::Error> for Error {
    fn from(error: tower_sessions::session::Error) -> Self {
        // The store says `Backend` only when the database does not answer.
        tracing::warn!(%error, "session store");
        Self::Unavailable
    }
}

/// What the layer turns into a page.
#[derive(Clone, Debug)]
struct Problem {
    heading: &'static str,
    sentence: Cow<'static, str>,
    retry_after: Option<i64>,
    sign_in: bool,
    again: bool,
    reference: bool,
}

impl Problem {
    fn new(heading: &'static str, sentence: impl Into<Cow<'static, str>>) -> Self {
        Self {
            heading,
            sentence: sentence.into(),
            retry_after: None,
            sign_in: false,
            again: false,
            reference: false,
        }
    }

    /// For what the libraries answer by themselves.
    fn of_status(status: StatusCode) -> Self {
        match status {
            StatusCode::NOT_FOUND => Self::not_found(),
            StatusCode::METHOD_NOT_ALLOWED => Self {
                again: true,
                ..Self::new("That does not work here", "This page cannot be used that way. Nothing was done.")
            },
            StatusCode::PAYLOAD_TOO_LARGE => Self::too_large(),
            status if status.is_client_error() => {
                Self { again: true, ..Self::new("That request could not be read", "Nothing was done.") }
            }
            StatusCode::SERVICE_UNAVAILABLE => Self::unavailable(),
            _ => Self::internal(),
        }
    }

    fn not_found() -> Self {
        Self::new(
            "There is no such page",
            "The address may be mistyped or cut off, or what was here is gone. Nothing of yours is lost.",
        )
    }

    fn too_large() -> Self {
        Self {
            again: true,
            ..Self::new(
                "That is too large",
                "What was sent is larger than this page takes. Nothing was saved.",
            )
        }
    }

    fn unavailable() -> Self {
        Self {
            retry_after: Some(3),
            again: true,
            ..Self::new(
                "One moment, please",
                "We are very busy just now. Nothing was done and nothing is lost; try again in a few seconds.",
            )
        }
    }

    fn internal() -> Self {
        Self {
            again: true,
            reference: true,
            ..Self::new(
                "Something went wrong on our side",
                "It is not your fault, and we have been told. Look at the page again before you repeat anything.",
            )
        }
    }
}

impl IntoResponse for Error {
    fn into_response(self) -> Response {
        let (status, problem) = match self {
            Self::NotFound => (StatusCode::NOT_FOUND, Problem::not_found()),
            Self::SignIn => (
                StatusCode::UNAUTHORIZED,
                Problem {
                    sign_in: true,
                    ..Problem::new(
                        "Please sign in",
                        "This page is only for people who are signed in. Nothing was done.",
                    )
                },
            ),
            Self::Forbidden(act) => (
                StatusCode::FORBIDDEN,
                Problem {
                    again: true,
                    ..Problem::new(
                        "Your role does not allow that",
                        format!(
                            "It takes the role {} to {act}. Nothing was done. An owner of your organization can change roles.",
                            act.needs()
                        ),
                    )
                },
            ),
            Self::Foreign => (
                StatusCode::FORBIDDEN,
                Problem::new(
                    "That did not come from our own pages",
                    "For your safety it was not done. Open the page here and try again.",
                ),
            ),
            Self::StaleForm => (
                StatusCode::FORBIDDEN,
                Problem {
                    again: true,
                    ..Problem::new(
                        "This page was open for too long",
                        "For your safety nothing was done. Open the page again, then repeat it.",
                    )
                },
            ),
            Self::BadRequest(sentence) => (
                StatusCode::BAD_REQUEST,
                Problem { again: true, ..Problem::new("That could not be read", sentence) },
            ),
            Self::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, Problem::too_large()),
            Self::TooSlow => (
                StatusCode::REQUEST_TIMEOUT,
                Problem {
                    again: true,
                    ..Problem::new("That took too long to arrive", "Nothing was done. Please send it again.")
                },
            ),
            Self::TooMany { retry_after } => (
                StatusCode::TOO_MANY_REQUESTS,
                Problem {
                    retry_after: Some(retry_after.max(1)),
                    again: true,
                    ..Problem::new(
                        "That was a little too often",
                        format!("Nothing was done. Please try again in {}.", wait(retry_after)),
                    )
                },
            ),
            Self::Unavailable => (StatusCode::SERVICE_UNAVAILABLE, Problem::unavailable()),
            Self::Unsure => (
                StatusCode::SERVICE_UNAVAILABLE,
                Problem {
                    retry_after: Some(3),
                    again: true,
                    ..Problem::new(
                        "We could not see whether that was saved",
                        "The connection broke at the last moment. Look at the page again before you repeat it; repeating it does no harm.",
                    )
                },
            ),
            Self::Internal(error) => {
                tracing::error!(error = %Chain(error.as_ref()), "internal error");
                (StatusCode::INTERNAL_SERVER_ERROR, Problem::internal())
            }
        };
        let mut response = status.into_response();
        response.extensions_mut().insert(problem);
        response
    }
}

fn wait(seconds: i64) -> String {
    match seconds {
        ..=1 => "a second".to_owned(),
        2..=90 => format!("{seconds} seconds"),
        _ => format!("{} minutes", (seconds + 59) / 60),
    }
}

/// An error with what caused it.
struct Chain<'a>(&'a dyn std::error::Error);

impl std::fmt::Display for Chain<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.0)?;
        let mut cause = self.0.source();
        while let Some(error) = cause {
            write!(f, ": {error}")?;
            cause = error.source();
        }
        Ok(())
    }
}

#[derive(Template)]
#[template(path = "error.html")]
struct ErrorPage {
    layout: Layout,
    heading: &'static str,
    sentence: Cow<'static, str>,
    reference: Option<String>,
    way_out: String,
    way_out_label: &'static str,
}

/// The layer: every response that is an error and not already a page becomes one.
pub async fn pages(State(state): State<WebState>, request: Request, next: Next) -> Response {
    let api = request.uri().path() == "/v1" || request.uri().path().starts_with("/v1/");
    let staff = request.uri().path() == "/staff" || request.uri().path().starts_with("/staff/");
    let path = request.uri().path_and_query().map(ToString::to_string).unwrap_or_default();
    let again = again(request.method(), &path, request.headers());
    let reading = matches!(*request.method(), Method::GET | Method::HEAD);
    let reference = super::request_id(request.headers());
    let response = next.run(request).await;
    let status = response.status();
    if !status.is_client_error() && !status.is_server_error() {
        return response;
    }
    let (mut parts, body) = response.into_parts();
    let problem = match parts.extensions.remove::<Problem>() {
        Some(problem) => problem,
        None if is_ours(&parts.headers) => return Response::from_parts(parts, body),
        None => Problem::of_status(status),
    };
    if api {
        let mut refused =
            super::api::problem::Refusal::of_status(status, &problem.sentence, problem.retry_after)
                .into_response();
        // What the layers inside said belongs to the answer.
        refused.headers_mut().extend(parts.headers.into_iter().filter_map(|(name, value)| {
            name.filter(|name| name.as_str().starts_with("ratelimit")).map(|name| (name, value))
        }));
        return refused;
    }
    if problem.sign_in && reading {
        let door = if staff { "/staff/sign-in" } else { "/sign-in" };
        let target = format!("{door}?{}", LocalPath::query(&path));
        let location = HeaderValue::from_str(&target).unwrap_or(HeaderValue::from_static(door));
        return (StatusCode::SEE_OTHER, [(LOCATION, location)]).into_response();
    }
    let again = match status {
        // What can only be posted to belongs to the page above it.
        StatusCode::METHOD_NOT_ALLOWED if reading => above(&path),
        // It would be refused again.
        StatusCode::FORBIDDEN if reading => None,
        _ => again,
    };
    let (way_out, way_out_label) = match again.filter(|_| problem.again) {
        _ if problem.sign_in && staff => ("/staff/sign-in".to_owned(), "Sign in"),
        _ if problem.sign_in => ("/sign-in".to_owned(), "Sign in"),
        Some(path) => (path, "Open the page again"),
        None if staff => ("/staff".to_owned(), "Go to the start"),
        None => ("/".to_owned(), "Go to the events"),
    };
    let page = ErrorPage {
        layout: Layout::bare(problem.heading, staff, state.db.clock().local()),
        heading: problem.heading,
        sentence: problem.sentence,
        reference: reference.filter(|_| problem.reference),
        way_out,
        way_out_label,
    };
    let html = page.render().unwrap_or_else(|error| {
        tracing::error!(%error, "the error page cannot be rendered");
        "<!DOCTYPE html><title>Error</title><p>Something went wrong. <a href=\"/\">Go to the start</a>"
            .to_owned()
    });
    if parts.status == StatusCode::REQUEST_TIMEOUT {
        // At 408 browsers send everything again, and do not show the page.
        parts.status = StatusCode::BAD_REQUEST;
    }
    parts.headers.insert(CONTENT_TYPE, HeaderValue::from_static("text/html; charset=utf-8"));
    parts.headers.remove(axum::http::header::CONTENT_LENGTH);
    if let Some(seconds) = problem.retry_after {
        parts.headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    Response::from_parts(parts, Body::from(html))
}

/// The address above this one: "/e/concert" of "/e/concert/join".
fn above(path: &str) -> Option<String> {
    let path = path.split('?').next().unwrap_or_default();
    let (above, _) = path.rsplit_once('/')?;
    LocalPath::parse(if above.is_empty() { "/" } else { above }).map(|path| path.as_str().to_owned())
}

/// Whether somebody here wrote this body: a refusal's own page, or an answer for programs.
fn is_ours(headers: &HeaderMap) -> bool {
    headers.get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).is_some_and(|kind| {
        kind.starts_with("text/html") || kind.contains("json") || kind.starts_with("text/csv")
    })
}

/// The page to open again: this one if it was being read, else the one the form was on, if that is ours.
fn again(method: &Method, path: &str, headers: &HeaderMap) -> Option<String> {
    if matches!(*method, Method::GET | Method::HEAD) {
        return LocalPath::parse(path).map(|path| path.as_str().to_owned());
    }
    let referer = headers.get(REFERER)?.to_str().ok()?;
    let url = url::Url::parse(referer).ok()?;
    let query = url.query().map(|query| format!("?{query}")).unwrap_or_default();
    LocalPath::parse(&format!("{}{query}", url.path())).map(|path| path.as_str().to_owned())
}
