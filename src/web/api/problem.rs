//! What is said when a program is refused: `application/problem+json` (RFC 9457) with a code that stays the same.

use std::borrow::Cow;
use std::collections::BTreeMap;

use axum::body::Body;
use axum::http::header::{CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE};
use axum::http::{HeaderValue, StatusCode};
use axum::response::{IntoResponse, Response};
use serde::Serialize;
use utoipa::ToSchema;

use crate::db::DbError;
use crate::domain::key::Scope;
use crate::web::error::Error;

macro_rules! codes {
    ($($(#[$doc:meta])* $name:ident = $text:literal, $status:literal, $title:literal, $then:literal;)+) => {
        /// Why a request was refused. Codes stay; sentences may change.
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum Code { $($(#[$doc])* $name),+ }

        impl Code {
            /// Every code.
            pub const ALL: &'static [Self] = &[$(Self::$name),+];

            /// The code as programs read it.
            #[must_use]
            pub fn as_str(self) -> &'static str {
                match self { $(Self::$name => $text),+ }
            }

            /// The status that goes with it.
            #[must_use]
            pub fn status(self) -> StatusCode {
                let status: u16 = match self { $(Self::$name => $status),+ };
                StatusCode::from_u16(status).unwrap_or(StatusCode::INTERNAL_SERVER_ERROR)
            }

            /// What it means, in a few words.
            #[must_use]
            pub fn title(self) -> &'static str {
                match self { $(Self::$name => $title),+ }
            }

            /// What a program does about it.
            #[must_use]
            pub fn what_to_do(self) -> &'static str {
                match self { $(Self::$name => $then),+ }
            }
        }
    };
}

codes! {
    /// The request makes no sense.
    BadRequest = "bad_request", 400, "The request could not be read", "Mend the request.";
    /// The body is no JSON, or not the JSON that is asked for.
    UnreadableBody = "unreadable_body", 400, "The body could not be read",
        "Mend the body; detail says where, and field which part, where it can.";
    /// A field holds what it cannot hold.
    Invalid = "invalid", 400, "A field is not right", "Mend what field names.";
    /// This act needs a key of the caller's own.
    IdempotencyKeyMissing = "idempotency_key_missing", 400, "This act needs an Idempotency-Key",
        "Send a key of your own.";
    /// The caller's key is too long, or empty.
    IdempotencyKeyBad = "idempotency_key_bad", 400, "The Idempotency-Key is not usable",
        "Send a key of 1 to 255 readable characters.";
    /// Nobody in particular, or with a key or token that is not good.
    Unauthorized = "unauthorized", 401, "A key or token is needed",
        "Show another key, or have a code sent and get another token.";
    /// The key is not good for that.
    ScopeMissing = "scope_missing", 403, "The key is not good for this",
        "Ask an owner for a key with the scope that is named.";
    /// It belongs to another person.
    NotYours = "not_yours", 403, "This belongs to somebody else", "Final for this caller.";
    /// The request names a host that is not ours, or comes from another site.
    Foreign = "foreign", 403, "Not from where requests are taken",
        "Send it to the address of this server, and not from a page of another site.";
    /// There is no such thing, or not for this caller.
    NotFound = "not_found", 404, "There is no such thing",
        "Final, unless the address or an id in it is wrong.";
    /// It cannot be used that way.
    MethodNotAllowed = "method_not_allowed", 405, "That does not work here",
        "Use a method that this address has.";
    /// It changed since it was read.
    Changed = "changed", 412, "It changed since it was read",
        "Read it again, make the change to what you read, and send its ETag.";
    /// What was read has to be named.
    VersionMissing = "version_missing", 428, "Say which version was read",
        "Read it, and send its ETag as If-Match.";
    /// The offer is not pending any more.
    NotPending = "not_pending", 409, "The offer is not pending", "Final; state says what became of the offer.";
    /// The booking service says that the place is gone.
    Conflicted = "conflicted", 409, "The booking service says the place is gone",
        "Final for this offer; the person is back in the line.";
    /// The booking service has not said yet whether the places are theirs.
    BeingConfirmed = "being_confirmed", 409, "It is just being confirmed", "Repeat after Retry-After.";
    /// Fewer places are open than are needed.
    NoCapacity = "no_capacity", 409, "Too few places are open",
        "Final for now: ask again when places came back, or for fewer.";
    /// Places are open for everybody: book instead of waiting.
    CapacityAvailable = "capacity_available", 409, "Places can be booked now", "Book instead of joining.";
    /// Open places are held for the waitlist.
    HeldForWaitlist = "held_for_waitlist", 409, "The open places are held for the waitlist", "Join the list.";
    /// A call, and somebody was faster.
    TakenByFaster = "taken_by_faster", 409, "Somebody was faster",
        "The call stays pending: repeat after Retry-After, or once places came back.";
    /// The list takes nobody new, or offers nothing.
    ListNotOpen = "list_not_open", 409, "The list is not open",
        "Final for now: list says whether it is frozen or closed.";
    /// The list is full.
    ListFull = "list_full", 409, "The list is full", "Final for now.";
    /// The event is not public, cancelled, over, or has started.
    NotOnSale = "not_on_sale", 409, "The event is not on sale",
        "Final, unless the event is published or restored later.";
    /// A larger party than the rule allows, or more places than one person may have.
    TooMany = "too_many_places", 409, "More places than allowed", "Ask for fewer, or want less exactly.";
    /// It has a live offer already, or the person another live entry.
    AlreadyOffered = "already_offered", 409, "There is a live offer already",
        "Answer that offer; offer names it, where it can. Or book as many places as party says.";
    /// As many offers are pending as the rule allows.
    BatchFull = "batch_full", 409, "As many offers are pending as allowed",
        "Repeat when an offer was answered.";
    /// The thing is in a state in which that cannot be done.
    WrongState = "wrong_state", 409, "That cannot be done in this state",
        "Final in this state; read it again. With Retry-After: repeat.";
    /// The rule does not provide for it.
    NotTheRule = "not_the_rule", 409, "The rule does not provide for that", "Final under this rule.";
    /// It is used elsewhere, or has a name that is taken.
    Taken = "taken", 409, "That is in use already", "Use another name, or leave it.";
    /// The same key is being acted under.
    InFlight = "in_flight", 409, "The same request is being answered",
        "Repeat the same request after Retry-After.";
    /// The deadline passed.
    OfferExpired = "offer_expired", 410, "The offer has expired", "Final.";
    /// A code that is used, too old, or guessed too often.
    CodeSpent = "code_spent", 410, "The code is of no use any more", "Have another code sent.";
    /// The body did not arrive in time.
    TooSlow = "too_slow", 408, "The body did not arrive in time", "Send it again.";
    /// More than fits.
    TooLarge = "too_large", 413, "The body is too large", "Send less at once.";
    /// The caller's key was used with another body, or the same source and id for something else.
    KeyReused = "key_reused", 422, "The key was used for something else",
        "A mended request is a new one: send it under a new key, or under a new source and id.";
    /// Wrong digits.
    CodeWrong = "code_wrong", 422, "The code is not right",
        "Ask for the digits again; tries_left says how often.";
    /// Too often.
    TooManyRequests = "too_many_requests", 429, "Too many requests", "Repeat after Retry-After.";
    /// Our fault.
    Internal = "internal", 500, "Something went wrong on our side",
        "Repeat the same request with the same key, a few times; then tell whoever runs this server.";
    /// Too busy. Nothing was done.
    Unavailable = "unavailable", 503, "Too busy at this moment", "Repeat after Retry-After.";
    /// The connection broke while a change was being made.
    Unsure = "outcome_unknown", 503, "It is not known whether it was done",
        "Repeat the same request with the same key.";
    /// The booking service does not book at the moment. Nothing was booked, and the offer is pending.
    BookingUnavailable = "booking_unavailable", 503, "The booking service does not book now",
        "Repeat after Retry-After, while the offer is pending.";
}

/// A refusal.
#[derive(Clone, Debug)]
pub struct Refusal {
    code: Code,
    detail: Cow<'static, str>,
    more: BTreeMap<&'static str, serde_json::Value>,
    retry_after: Option<i64>,
}

/// A refusal as it is sent.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct Problem {
    /// Always `about:blank`: the code says what it is.
    pub r#type: &'static str,
    /// What the code means, in a few words.
    pub title: &'static str,
    /// The status, again.
    pub status: u16,
    /// What is the case here, in a sentence that may be shown.
    pub detail: String,
    /// Why. It stays the same from version to version; `/v1/docs` lists all, and what to do about each.
    pub code: &'static str,
    /// Whatever else is known, such as `field`, `state`, `open` or `limit`.
    #[serde(flatten)]
    #[schema(additional_properties)]
    pub more: BTreeMap<&'static str, serde_json::Value>,
}

impl Refusal {
    /// # Arguments
    /// `detail`: what is the case, in a sentence.
    pub fn new(code: Code, detail: impl Into<Cow<'static, str>>) -> Self {
        Self { code, detail: detail.into(), more: BTreeMap::new(), retry_after: None }
    }

    /// Why.
    #[must_use]
    pub fn code(&self) -> Code {
        self.code
    }

    /// What is the case.
    #[must_use]
    pub fn detail(&self) -> &str {
        &self.detail
    }

    /// A field that is not right.
    pub fn field(name: &str, detail: impl std::fmt::Display) -> Self {
        Self::new(Code::Invalid, detail.to_string()).with("field", name)
    }

    /// The key lacks a scope.
    #[must_use]
    pub fn scope(scope: Scope) -> Self {
        Self::new(Code::ScopeMissing, format!("This takes a key with the scope {scope}."))
            .with("scope", scope)
    }

    /// Nobody in particular.
    #[must_use]
    pub fn unauthorized() -> Self {
        Self::new(
            Code::Unauthorized,
            "Send a key or a token that is good: Authorization: Bearer … Nothing was done.",
        )
    }

    /// With one more thing that is known.
    #[must_use]
    pub fn with(mut self, name: &'static str, value: impl Serialize) -> Self {
        self.more.insert(name, serde_json::to_value(value).unwrap_or_default());
        self
    }

    /// To be tried again after so many seconds.
    #[must_use]
    pub fn again_in(mut self, seconds: i64) -> Self {
        self.retry_after = Some(seconds.max(1));
        self
    }

    /// What a status means that a layer or a library answered with.
    #[must_use]
    pub fn of_status(status: StatusCode, sentence: &str, retry_after: Option<i64>) -> Self {
        let said = || Cow::Owned(sentence.to_owned());
        let refusal = match status.as_u16() {
            401 => Self::unauthorized(),
            403 => Self::new(Code::Foreign, said()),
            404 => Self::new(Code::NotFound, "There is nothing at this address, or not for you."),
            405 => {
                Self::new(Code::MethodNotAllowed, "This address cannot be used that way. Nothing was done.")
            }
            408 => Self::new(Code::TooSlow, "The body took too long to arrive. Nothing was done."),
            413 => Self::new(Code::TooLarge, "The body is larger than is taken here. Nothing was done."),
            429 => Self::new(Code::TooManyRequests, said()),
            503 => Self::new(Code::Unavailable, said()),
            400..500 => Self::new(Code::BadRequest, said()),
            _ => Self::new(Code::Internal, "It is not your fault, and we have been told."),
        };
        match retry_after {
            Some(seconds) => refusal.again_in(seconds),
            None => refusal,
        }
    }
}

impl IntoResponse for Refusal {
    fn into_response(self) -> Response {
        let status = self.code.status();
        let problem = Problem {
            r#type: "about:blank",
            title: self.code.title(),
            status: status.as_u16(),
            detail: self.detail.into_owned(),
            code: self.code.as_str(),
            more: self.more,
        };
        let body = serde_json::to_vec(&problem).unwrap_or_default();
        let mut response = (status, Body::from(body)).into_response();
        let headers = response.headers_mut();
        headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/problem+json"));
        if let Some(seconds) = self.retry_after {
            headers.insert(RETRY_AFTER, HeaderValue::from(seconds));
        }
        if status == StatusCode::UNAUTHORIZED {
            headers.insert(WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
        }
        response
    }
}

/// What a handler of the API may end with: a refusal in its own words, or what can go wrong anywhere.
#[derive(Debug)]
pub enum Failed {
    /// Refused.
    Refused(Box<Refusal>),
    /// Anything that no use case expects.
    Error(Error),
}

impl From<Refusal> for Failed {
    fn from(refusal: Refusal) -> Self {
        Self::Refused(Box::new(refusal))
    }
}

impl From<Error> for Failed {
    fn from(error: Error) -> Self {
        Self::Error(error)
    }
}

impl From<DbError> for Failed {
    fn from(error: DbError) -> Self {
        Self::Error(error.into())
    }
}

impl IntoResponse for Failed {
    fn into_response(self) -> Response {
        match self {
            Self::Refused(refusal) => refusal.into_response(),
            Self::Error(Error::Unsure) => Refusal::new(
                Code::Unsure,
                "The connection broke at the last moment. Send the same request again: it is never done twice.",
            )
            .again_in(1)
            .into_response(),
            Self::Error(error) => error.into_response(),
        }
    }
}
