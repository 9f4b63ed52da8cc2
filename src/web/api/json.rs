//! Reading and writing JSON: whatever cannot be read is refused in words that help whoever wrote the program.

use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::StatusCode;
use axum::http::header::{CONTENT_TYPE, ETAG};
use axum::response::{IntoResponse, Response};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use utoipa::{IntoParams, ToSchema};

use super::problem::{Code, Failed, Refusal};
use crate::domain::reason::StaffReason;
use crate::web::{WebState, body};

/// The body of a request. An empty one is `{}`.
#[derive(Debug)]
pub struct Json<T>(pub T);

fn unreadable(detail: impl Into<std::borrow::Cow<'static, str>>) -> Failed {
    Refusal::new(Code::UnreadableBody, detail).into()
}

/// What is said of text that is no instant.
const INSTANTS: [&str; 5] = [
    "premature end of input",
    "input contains invalid characters",
    "trailing input",
    "input is out of range",
    "no possible date and time matching input",
];

/// Postgres has no text with a zero byte.
fn holds_zero(value: &Value) -> bool {
    match value {
        Value::String(text) => text.contains('\0'),
        Value::Array(values) => values.iter().any(holds_zero),
        Value::Object(fields) => fields.iter().any(|(name, value)| name.contains('\0') || holds_zero(value)),
        Value::Null | Value::Bool(_) | Value::Number(_) => false,
    }
}

impl<T: DeserializeOwned> FromRequest<WebState> for Json<T> {
    type Rejection = Failed;

    async fn from_request(request: Request, _: &WebState) -> Result<Self, Failed> {
        let kind =
            request.headers().get(CONTENT_TYPE).and_then(|kind| kind.to_str().ok()).unwrap_or_default();
        let kind = kind.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        let is_json = kind.is_empty() || kind == "application/json" || kind.ends_with("+json");
        let bytes = body::whole(request).await?;
        if !is_json && !bytes.is_empty() {
            return Err(unreadable(
                "The body has to be JSON: Content-Type: application/json. Nothing was done.",
            ));
        }
        let bytes = if bytes.is_empty() { Bytes::from_static(b"{}") } else { bytes };
        let value: Value = serde_json::from_slice(&bytes)
            .map_err(|error| unreadable(format!("The body is no JSON: {error}. Nothing was done.")))?;
        if holds_zero(&value) {
            return Err(unreadable("The body holds a character that cannot be kept. Nothing was done."));
        }
        serde_path_to_error::deserialize(value).map(Self).map_err(|error| {
            let (field, problem) = (error.path().to_string(), error.inner().to_string());
            // What a date lacks is said in words that name neither the field nor how it should look.
            let hint = if INSTANTS.contains(&problem.as_str()) {
                ", where an instant looks like 2027-06-01T19:00:00Z"
            } else {
                ""
            };
            let place = if field == "." { String::new() } else { format!("{field}: ") };
            let detail =
                format!("The body is not what is asked for here: {place}{problem}{hint}. Nothing was done.");
            let refusal = Refusal::new(Code::UnreadableBody, detail);
            if field == "." { refusal.into() } else { refusal.with("field", field).into() }
        })
    }
}

/// An answer.
#[derive(Debug)]
pub struct Answer<T>(pub StatusCode, pub T);

impl<T> Answer<T> {
    /// 200.
    pub fn ok(value: T) -> Self {
        Self(StatusCode::OK, value)
    }

    /// 201.
    pub fn created(value: T) -> Self {
        Self(StatusCode::CREATED, value)
    }
}

impl<T: Serialize> IntoResponse for Answer<T> {
    fn into_response(self) -> Response {
        (self.0, axum::Json(self.1)).into_response()
    }
}

/// An answer about what is changed under `If-Match`, with its version.
#[derive(Debug)]
pub struct Versioned<T>(pub i32, pub T);

impl<T: Serialize> IntoResponse for Versioned<T> {
    fn into_response(self) -> Response {
        ([(ETAG, format!("\"{}\"", self.0))], axum::Json(self.1)).into_response()
    }
}

/// Why staff act, as their programs say it: in a body, or in the query of a DELETE, whose body many clients drop.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
pub struct Because {
    /// Needed by programs: why, a code of `GET /v1/reasons` with `for_staff`. Customers need none.
    #[schema(example = "customer_asked")]
    #[param(example = "customer_asked")]
    pub reason: String,
    /// In one's own words; needed with the reason `other`. At most 2,000 characters.
    pub note: String,
}

impl Because {
    /// The reason.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(&self) -> Result<StaffReason, Failed> {
        because(&self.reason, &self.note)
    }
}

/// The reason of an act by staff.
///
/// # Errors
/// What is wrong with it.
pub fn because(reason: &str, note: &str) -> Result<StaffReason, Failed> {
    use crate::domain::reason::ReasonError;
    StaffReason::parse(reason, note).map_err(|error| {
        if error == ReasonError::Missing {
            return Refusal::field(
                "reason",
                "Say why, in `reason`: GET /v1/reasons lists what may be given.",
            )
            .into();
        }
        Refusal::field("note", error).into()
    })
}

/// A field of a change: one that is left out stays as it is, one that is null is emptied.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Given<T> {
    /// Not there.
    #[default]
    LeftOut,
    /// There, and empty.
    Null,
    /// There.
    Value(T),
}

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Given<T> {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Option::deserialize(deserializer)?.map_or(Self::Null, Self::Value))
    }
}

impl<T: Copy> Given<T> {
    /// What there is from now on, where `before` was.
    pub fn over(&self, before: Option<T>) -> Option<T> {
        match *self {
            Self::LeftOut => before,
            Self::Null => None,
            Self::Value(value) => Some(value),
        }
    }
}

/// Where a page of many begins, and how long it is.
#[derive(Clone, Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub struct Paging {
    /// `next` of the page before; from the beginning without it.
    pub after: String,
    /// At most so many; 50 without it, and never more than 200.
    #[param(minimum = 1, maximum = 200)]
    pub limit: Option<u32>,
}

impl Paging {
    /// At most so many.
    #[must_use]
    pub fn limit(&self) -> usize {
        self.limit.map_or(50, |limit| limit.clamp(1, 200) as usize)
    }

    /// The same, and one more.
    #[must_use]
    pub fn one_more(&self) -> i64 {
        i64::try_from(self.limit()).unwrap_or(i64::MAX - 1) + 1
    }

    /// The cursor as its parts, if there is one.
    ///
    /// # Errors
    /// When it is none of ours.
    pub fn parse<T>(&self, read: impl FnOnce(&str) -> Option<T>) -> Result<Option<T>, Failed> {
        if self.after.is_empty() {
            return Ok(None);
        }
        read(&self.after)
            .map(Some)
            .ok_or_else(|| Refusal::field("after", "This is no cursor that was given out here.").into())
    }
}

/// A page of many.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Listed<T> {
    /// These, in order.
    pub items: Vec<T>,
    /// Where the next page begins; none after the last.
    pub next: Option<String>,
}

impl<T> Listed<T> {
    /// A page of at most `limit`, of rows of which one more was asked for. `cursor` names the last one.
    pub fn of<R>(
        mut rows: Vec<R>,
        limit: usize,
        cursor: impl Fn(&R) -> String,
        view: impl Fn(R) -> T,
    ) -> Self {
        let next = if rows.len() > limit {
            rows.truncate(limit);
            rows.last().map(cursor)
        } else {
            None
        };
        Self { items: rows.into_iter().map(view).collect(), next }
    }
}
