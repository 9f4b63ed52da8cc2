//! Keys for programs, kept by programs: listed, made, taken back.
//!
//! A key is in the answer to the act that made it, and nowhere else; see `webhooks`, whose secrets are shown the same way.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, Who};
use super::guard::Unkept;
use super::json::{Answer, Json};
use super::problem::{Code, Failed, Refusal};
use super::signed::signing;
use crate::db::keys::ApiKey;
use crate::domain::ids::KeyId;
use crate::domain::key::{KeyName, Scope};
use crate::waitlist::keys::{self, MakeOutcome, Maker, WantedKey};
use crate::web::WebState;
use crate::web::extract::Path;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, make)).with(routes!(show)).with(routes!(revoke))
}

/// A key, as its organization's owners see it.
#[derive(Debug, Serialize, ToSchema)]
struct KeyView {
    /// Its id.
    id: KeyId,
    /// What it is called.
    name: String,
    /// What it is good for.
    scopes: Vec<Scope>,
    /// How it begins.
    hint: String,
    /// Who made it: somebody of the staff, or the key that a program showed, by name.
    made_by: Option<String>,
    /// When it was made.
    made_at: DateTime<Utc>,
    /// From when on it is worth nothing.
    expires_at: DateTime<Utc>,
    /// When it was taken back.
    revoked_at: Option<DateTime<Utc>>,
    /// When it was last shown, to the minute.
    last_used_at: Option<DateTime<Utc>>,
}

impl From<ApiKey> for KeyView {
    fn from(key: ApiKey) -> Self {
        Self {
            id: key.id,
            name: key.name,
            scopes: key.scopes,
            hint: key.hint,
            made_by: key.made_by,
            made_at: key.made_at,
            expires_at: key.expires_at,
            revoked_at: key.revoked_at,
            last_used_at: key.last_used_at,
        }
    }
}

/// Keys
///
/// Those that nobody took back first, and the newest of them; at most 200.
#[utoipa::path(get, path = "/v1/keys", tag = "Keys",
    security(("key" = ["keys:read"])),
    responses((status = 200, description = "They, never with what programs show.", body = Vec<KeyView>)))]
async fn list(State(state): State<WebState>, caller: Caller) -> Result<Answer<Vec<KeyView>>, Failed> {
    caller.require(Scope::KeysRead)?;
    let keys = state.db.keys(caller.organization()).await?;
    Ok(Answer::ok(keys.into_iter().map(Into::into).collect()))
}

/// A key
#[utoipa::path(get, path = "/v1/keys/{key}", tag = "Keys", params(("key" = KeyId, Path)),
    security(("key" = ["keys:read"])),
    responses((status = 200, description = "The key, never with what a program shows.", body = KeyView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<KeyId>,
) -> Result<Answer<KeyView>, Failed> {
    caller.require(Scope::KeysRead)?;
    Ok(Answer::ok(state.db.key(caller.organization(), id).await?.into()))
}

/// A key that is wanted.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewKeyRequest {
    /// For which program; it is named in the audit.
    #[schema(max_length = 80, example = "Ticket shop")]
    name: String,
    /// What it is good for: at least one, and nothing that the key which asks is not good for.
    scopes: Vec<Scope>,
    /// For so many days, at most 730, and not longer than the key which asks.
    #[schema(minimum = 1, maximum = 730)]
    days: u32,
}

/// A key, shown this once.
#[derive(Debug, Serialize, ToSchema)]
struct KeyMade {
    /// Its id.
    id: KeyId,
    /// What it is called.
    name: String,
    /// What it is good for.
    scopes: Vec<Scope>,
    /// From when on it is worth nothing.
    expires_at: DateTime<Utc>,
    /// What the program shows: `Authorization: Bearer fl_key_…`
    #[schema(example = "fl_key_…")]
    token: String,
    /// Where a system that cannot show a key sends what it tells of capacity, signed; with the scope `places:write`.
    signed_to: Option<String>,
    /// The secret to sign that with, as Standard Webhooks write it.
    signing_secret: Option<String>,
}

/// Make a key
///
/// Never good for more, nor for longer, than the key that asks; taken back together with it. It is shown in this answer
/// alone.
#[utoipa::path(post, path = "/v1/keys", tag = "Keys", request_body = NewKeyRequest,
    security(("key" = ["keys:write"])),
    responses((status = 201, description = "The key.", body = KeyMade)))]
async fn make(
    State(state): State<WebState>,
    caller: Caller,
    Json(request): Json<NewKeyRequest>,
) -> Result<Response, Failed> {
    caller.require(Scope::KeysWrite)?;
    let Who::Key(own) = &caller.who else { return Err(Refusal::scope(Scope::KeysWrite).into()) };
    let name = KeyName::parse(&request.name).map_err(|error| Refusal::field("name", error))?;
    let mut scopes = request.scopes;
    scopes.sort_unstable();
    scopes.dedup();
    let wanted = WantedKey { name, scopes, life: Duration::days(request.days.into()) };
    let by = Maker::Key(own);
    let (key, token) = match keys::make(&state.db, &state.secret, own.organization, wanted, by).await? {
        MakeOutcome::Made(key, token) => (*key, token),
        MakeOutcome::NoScope => return Err(Refusal::field("scopes", "Say what it is good for.").into()),
        MakeOutcome::Wider(scope) => {
            return Err(Refusal::new(
                Code::ScopeMissing,
                format!("This key is not good for {scope} itself, and can make none that is."),
            )
            .with("scope", scope)
            .into());
        }
        MakeOutcome::Longer(most) => {
            let said = "A key is good for 1 to 730 days, and not longer than the key that asks for it.";
            return Err(Refusal::field("days", said).with("expires_at_most", most).into());
        }
        MakeOutcome::TakenBack => return Err(Refusal::unauthorized().into()),
    };
    let (signed_to, signing_secret) = signing(&state, &key).unzip();
    let ApiKey { id, name, scopes, expires_at, .. } = key;
    let made = KeyMade { id, name, scopes, expires_at, token, signed_to, signing_secret };
    let mut response = Answer::created(made).into_response();
    response.extensions_mut().insert(Unkept);
    Ok(response)
}

/// Take a key back
///
/// Whoever shows it, or one that was made by showing it, is refused from then on. A key can take itself back and those that
/// it made, or that these made; an owner takes back any, on the page “Keys”.
#[utoipa::path(post, path = "/v1/keys/{key}:revoke", tag = "Keys", params(("key" = KeyId, Path)),
    security(("key" = ["keys:write"])),
    responses((status = 200, description = "It is worth nothing any more.", body = KeyView)))]
async fn revoke(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<KeyId>,
) -> Result<Answer<KeyView>, Failed> {
    caller.require(Scope::KeysWrite)?;
    let organization = caller.organization();
    let known = state.db.key(organization, id).await?;
    let Who::Key(mine) = &caller.who else { return Err(Refusal::scope(Scope::KeysWrite).into()) };
    if !state.db.descends(known.id, mine.id).await? {
        let detail =
            "A key takes back itself and those that it made. An owner can take back any. Nothing was done.";
        return Err(Refusal::new(Code::NotYours, detail).into());
    }
    state.db.revoke_key(organization, id, caller.actor()).await?;
    Ok(Answer::ok(state.db.key(organization, id).await?.into()))
}
