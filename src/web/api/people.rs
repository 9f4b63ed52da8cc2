//! How a customer's program comes to act for them: a code is sent to their address, and a token given for it.

use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, Who, find_event};
use super::guard::Unkept;
use super::json::{Answer, Json};
use super::problem::{Code, Failed, Refusal};
use super::views::PersonView;
use crate::db::persons::CODE_LIFETIME;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::event::EventState;
use crate::domain::ids::{CodeId, EntryId};
use crate::domain::key::CUSTOMER_PREFIX;
use crate::domain::reason::Reason;
use crate::domain::secret::token_hash;
use crate::waitlist::join::{CodeOutcome, ConfirmOutcome};
use crate::web::client::ClientAddress;
use crate::web::error::Error;
use crate::web::extract::Path;
use crate::web::{Limit, WebState};

/// So long a customer's token is good.
const TOKEN_LIFETIME: Duration = Duration::days(30);

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(send_code)).with(routes!(enter_code)).with(routes!(end_token)).with(routes!(reasons))
}

/// A random token that begins like this.
#[must_use]
fn new_token(state: &WebState, prefix: &str) -> String {
    format!("{prefix}{}", URL_SAFE_NO_PAD.encode(state.db.entropy().bytes()))
}

/// To whom a code is sent.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct CodeRequest {
    /// The event, by its id or its name in addresses: the person is a customer of whoever runs it.
    event: String,
    /// The address.
    #[schema(example = "ada@example.com")]
    email: String,
    /// What they want to be called; needed also for an address that is known, and kept only for one that is new.
    #[schema(example = "Ada Lovelace")]
    name: String,
}

/// A code that was sent.
#[derive(Debug, Serialize, ToSchema)]
struct CodeSent {
    /// Its id, for the address under which it is entered. It is not the six digits: those are in the mail alone.
    code: CodeId,
    /// From when on it is worth nothing.
    expires_at: DateTime<Utc>,
}

/// Send a code
///
/// Sends six digits to an address. Whoever enters them acts as its owner. The answer is the same whether the address was
/// known or not. Nobody needs to say who they are. An address takes five codes in ten minutes.
#[utoipa::path(post, path = "/v1/codes", tag = "Customers", request_body = CodeRequest, security(()),
    responses((status = 201, description = "It is on its way.", body = CodeSent)))]
async fn send_code(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    Json(request): Json<CodeRequest>,
) -> Result<Answer<CodeSent>, Failed> {
    let email = EmailAddress::parse(&request.email).map_err(|error| Refusal::field("email", error))?;
    let name = PersonName::parse(&request.name).map_err(|error| Refusal::field("name", error))?;
    let event = find_event(&state, &request.event).await?;
    if event.state == EventState::Draft {
        return Err(Error::NotFound.into());
    }
    state.count(Limit::CodeAddress, address).await?;
    state.count(Limit::Code, email.canonical()).await?;
    let person = state.waitlist().meet(event.id, &name, &email).await?;
    let code = state.waitlist().send_code(person, Some(event.id)).await?;
    let expires_at = state.db.session_now().await? + CODE_LIFETIME;
    Ok(Answer::created(CodeSent { code, expires_at }))
}

/// The digits that came by mail.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Digits {
    /// All six.
    #[schema(example = "042042")]
    digits: String,
}

/// What a customer's program shows from now on.
#[derive(Debug, Serialize, ToSchema)]
struct TokenGiven {
    /// The token. It is shown this once.
    token: String,
    /// From when on it is worth nothing.
    expires_at: DateTime<Utc>,
    /// Whose it is.
    person: PersonView,
    /// Their entry that was confirmed by this code, if there is one in the line.
    confirmed_entry: Option<EntryId>,
}

/// Enter a code
///
/// For the right digits of the newest code there is a token, and a live entry on the event is confirmed. Five tries for a
/// code. The token is never shown again, and a code is good for one: if the answer was lost, the token is, too. Ask for
/// another code then (410 `code_spent` says that this one was used).
#[utoipa::path(post, path = "/v1/codes/{code}:enter", tag = "Customers", params(("code" = CodeId, Path)),
    request_body = Digits, security(()),
    responses((status = 201, description = "A token.", body = TokenGiven)))]
async fn enter_code(
    State(state): State<WebState>,
    Path(id): Path<CodeId>,
    Json(request): Json<Digits>,
) -> Result<Response, Failed> {
    let digits: String = request.digits.chars().filter(|c| !c.is_whitespace()).collect();
    if digits.len() != 6 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err(Refusal::field("digits", "A code has six digits.").into());
    }
    let code = state.db.code(id).await?;
    let email = EmailAddress::parse(&code.email).map_err(Error::internal)?;
    state.count(Limit::CodeTry, email.canonical()).await?;
    let (person, entry) = match state.waitlist().enter_code(id, &digits).await? {
        CodeOutcome::Right { person, entry } => (person, entry),
        CodeOutcome::Wrong { tries_left } => {
            let refusal = Refusal::new(Code::CodeWrong, "That is not the code that was sent last.");
            return Err(refusal.with("tries_left", tries_left).into());
        }
        CodeOutcome::Spent => {
            return Err(
                Refusal::new(Code::CodeSpent, "This code is used, too old, or guessed too often.").into()
            );
        }
    };
    let (token, now) = (new_token(&state, CUSTOMER_PREFIX), state.db.session_now().await?);
    let expires_at = now + TOKEN_LIFETIME;
    state.db.add_customer_token(token_hash(&token), person, now, expires_at).await?;
    let person = state.db.person(person).await?;
    let confirmed_entry = if let ConfirmOutcome::Confirmed(entry) = entry { Some(entry) } else { None };
    let person = PersonView { id: person.id, name: person.name };
    let given = TokenGiven { token, expires_at, person, confirmed_entry };
    let mut response = Answer::created(given).into_response();
    response.extensions_mut().insert(Unkept);
    Ok(response)
}

/// Sign out
///
/// Makes the customer's token of this request worthless.
#[utoipa::path(delete, path = "/v1/tokens/current", tag = "Customers",
    security(("customer" = [])),
    responses((status = 204, description = "It is worth nothing any more.")))]
async fn end_token(State(state): State<WebState>, caller: Caller) -> Result<StatusCode, Failed> {
    match caller.who {
        Who::Person(..) => state.db.end_customer_token(caller.token_hash, caller.now).await?,
        Who::Key(_) => {
            return Err(Refusal::new(
                Code::WrongState,
                "A key is taken back on the page of keys, or by its id: POST /v1/keys/{key}:revoke.",
            )
            .into());
        }
    }
    Ok(StatusCode::NO_CONTENT)
}

/// A reason that may be given.
#[derive(Debug, Serialize, ToSchema)]
struct ReasonView {
    /// The code.
    code: Reason,
    /// In a few words.
    label: &'static str,
    /// Whether staff and their programs may give it; the others are given by rules and by customers.
    for_staff: bool,
}

/// Reason codes
///
/// Every reason that an audit record, an offer or a transition may name. Programs give those with `for_staff`.
#[utoipa::path(get, path = "/v1/reasons", tag = "Customers", security(()),
    responses((status = 200, description = "All of them.", body = Vec<ReasonView>)))]
async fn reasons() -> Answer<Vec<ReasonView>> {
    let view = |reason: &Reason| ReasonView {
        code: *reason,
        label: reason.label(),
        for_staff: Reason::FOR_STAFF.contains(reason),
    };
    Answer::ok(Reason::ALL.iter().map(view).collect())
}
