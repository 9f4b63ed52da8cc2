//! Bodies of requests: how long one may take to arrive, and what is said when it does not come whole.

use std::time::Duration;

use axum::body::{Body, Bytes, HttpBody as _};
use axum::extract::{DefaultBodyLimit, FromRequest as _, Request};
use axum::http::StatusCode;
use futures_util::{StreamExt as _, stream};
use tokio::time::{Instant, timeout_at};

use super::error::Error;

/// The rest of a body did not come in time.
#[derive(Debug, thiserror::Error)]
#[error("the body did not arrive in time")]
struct Late;

/// The same body, that breaks off when it has not come whole within `time` from now, however steadily it drips.
pub fn within(time: Duration, body: Body) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let end = Instant::now() + time;
    let arriving = stream::unfold(Some(body.into_data_stream()), move |rest| async move {
        let mut rest = rest?;
        match timeout_at(end, rest.next()).await {
            Ok(chunk) => chunk.map(|chunk| (chunk, Some(rest))),
            Err(_) => Some((Err(axum::Error::new(Late)), None)),
        }
    });
    Body::from_stream(arriving)
}

/// The whole body of a request, as far as its route takes one.
///
/// # Errors
/// [`problem`].
pub async fn whole(request: Request) -> Result<Bytes, Error> {
    Bytes::from_request(request, &()).await.map_err(|rejection| problem(rejection.status(), &rejection))
}

/// The whole of a body of at most so many bytes.
///
/// # Errors
/// [`problem`].
pub async fn read(body: Body, most: usize) -> Result<Bytes, Error> {
    let mut request = Request::new(body);
    DefaultBodyLimit::max(most).apply(&mut request);
    whole(request).await
}

/// What is said of a body that could not be read: it is too large, it took too long, or it broke off.
#[must_use]
pub fn problem(status: StatusCode, error: &(dyn std::error::Error + 'static)) -> Error {
    if status == StatusCode::PAYLOAD_TOO_LARGE {
        return Error::TooLarge;
    }
    let mut cause = Some(error);
    while let Some(error) = cause {
        if error.is::<Late>() {
            return Error::TooSlow;
        }
        cause = error.source();
    }
    Error::BadRequest("What was sent broke off before its end. Nothing was done.".into())
}
