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

/// Bytes a second: whoever sends a large file has as much longer as it takes at this pace.
pub const SLOWEST: u64 = 16 * 1024;

/// The same body, that breaks off when it has not come whole within `time` from now and what [`SLOWEST`] allows for what
/// came, however steadily it drips.
pub fn within(time: Duration, body: Body) -> Body {
    if body.is_end_stream() {
        return body;
    }
    let end = Instant::now() + time;
    let arriving = stream::unfold(Some((body.into_data_stream(), end)), move |rest| async move {
        let (mut rest, end) = rest?;
        match timeout_at(end, rest.next()).await {
            Ok(Some(Ok(bytes))) => {
                let came = u64::try_from(bytes.len()).unwrap_or(0);
                let more = Duration::from_nanos(came.saturating_mul(1_000_000_000 / SLOWEST));
                Some((Ok(bytes), Some((rest, end + more))))
            }
            Ok(broken) => broken.map(|broken| (broken, None)),
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
