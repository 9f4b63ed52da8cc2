//! Webhooks: where transitions are sent, the secrets by which they are signed, and what became of each delivery.
//!
//! A secret is in the answer to the act that made it, and nowhere else: it is derived, so it is in no table, and the
//! answer is not kept. Repeated under its key, the act is told to have been done, and the same answer is made again.

use axum::extract::State;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::guard::Unkept;
use super::json::{Answer, Json, Listed, Paging};
use super::problem::{Code, Failed, Refusal};
use crate::db::idempotency::name_of_act;
use crate::db::webhooks::{DeliveryLine, Rotated, Webhook};
use crate::domain::ids::{OrganizationId, WebhookId};
use crate::domain::key::Scope;
use crate::domain::transition::Kind;
use crate::domain::webhook::{DeliveryState, Stopped, endpoint, shown};
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, create))
        .with(routes!(show))
        .with(routes!(stop))
        .with(routes!(start))
        .with(routes!(rotate))
        .with(routes!(test))
        .with(routes!(deliveries))
        .with(routes!(replay))
}

/// An endpoint: where transitions are sent.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookView {
    /// Its id.
    id: WebhookId,
    /// Where they are sent.
    url: String,
    /// Only these types; all of them where none is named.
    types: Vec<Kind>,
    /// When it was added.
    created_at: DateTime<Utc>,
    /// Which of its secrets is in force, the first being 1.
    generation: i32,
    /// Until when deliveries are signed with the one before as well.
    old_secret_until: Option<DateTime<Utc>>,
    /// Up to which position of the feed deliveries were queued.
    position: i64,
    /// Why nothing is sent any more; null while it runs.
    stopped: Option<Stopped>,
    /// Since when.
    stopped_at: Option<DateTime<Utc>>,
    /// Failures in a row.
    failures: i32,
    /// Since when it takes nothing.
    failing_since: Option<DateTime<Utc>>,
    /// Until when it is left alone.
    paused_until: Option<DateTime<Utc>>,
    /// Deliveries that wait or are on their way.
    waiting: i64,
    /// Deliveries that were given up.
    dead: i64,
    /// When one was taken last.
    delivered_at: Option<DateTime<Utc>>,
}

impl From<Webhook> for WebhookView {
    fn from(webhook: Webhook) -> Self {
        let (stopped, stopped_at) = webhook.stopped.unzip();
        Self {
            id: webhook.id,
            url: webhook.url,
            types: webhook.kinds,
            created_at: webhook.created_at,
            generation: webhook.generation,
            old_secret_until: webhook.old_until,
            position: webhook.position,
            stopped,
            stopped_at,
            failures: webhook.failures,
            failing_since: webhook.failing_since,
            paused_until: webhook.paused_until,
            waiting: webhook.waiting,
            dead: webhook.dead,
            delivered_at: webhook.delivered_at,
        }
    }
}

/// Webhooks
///
/// In the order in which they were added.
#[utoipa::path(get, path = "/v1/webhooks", tag = "Webhooks",
    security(("key" = ["webhooks:read"])),
    responses((status = 200, description = "All of them.", body = Vec<WebhookView>)))]
async fn list(State(state): State<WebState>, caller: Caller) -> Result<Answer<Vec<WebhookView>>, Failed> {
    caller.require(Scope::WebhooksRead)?;
    let webhooks = state.db.webhooks(caller.organization(), None).await?;
    Ok(Answer::ok(webhooks.into_iter().map(Into::into).collect()))
}

/// An endpoint to be told of what happens.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct NewWebhook {
    /// Where transitions are to be sent: https, and of the public internet.
    #[schema(example = "https://shop.example/hooks", max_length = 2000)]
    url: String,
    /// Only these types; without any, all of them, and those of later versions.
    #[serde(default)]
    types: Vec<Kind>,
}

/// A secret, shown this once.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookSecret {
    /// The endpoint.
    id: WebhookId,
    /// Which of its secrets it is.
    generation: i32,
    /// By which deliveries are signed, as Standard Webhooks write it.
    #[schema(example = "whsec_…")]
    secret: String,
}

/// The answer in which a secret is shown: it is kept nowhere.
fn with_secret(
    state: &WebState,
    organization: OrganizationId,
    id: WebhookId,
    generation: i32,
    answer: impl FnOnce(WebhookSecret) -> Answer<WebhookSecret>,
) -> Response {
    let secret = shown(&state.secret.webhook_key(organization, id, generation));
    let mut response = answer(WebhookSecret { id, generation, secret }).into_response();
    response.extensions_mut().insert(Unkept);
    response
}

/// Add a webhook
///
/// Transitions are sent to it from now on. The secret is shown in this answer alone.
#[utoipa::path(post, path = "/v1/webhooks", tag = "Webhooks", request_body = NewWebhook,
    security(("key" = ["webhooks:write"])),
    responses((status = 201, description = "Added.", body = WebhookSecret)))]
async fn create(
    State(state): State<WebState>,
    caller: Caller,
    Json(request): Json<NewWebhook>,
) -> Result<Response, Failed> {
    caller.require(Scope::WebhooksWrite)?;
    let url = endpoint(&request.url, state.settings.private_webhooks)
        .map_err(|error| Refusal::field("url", error))?;
    let mut kinds = request.types;
    kinds.sort_unstable();
    kinds.dedup();
    // Repeated under its key, it has the same id: it is there once.
    let id = WebhookId(name_of_act().unwrap_or_else(|| state.db.entropy().id()));
    let organization = caller.organization();
    state.db.add_webhook(organization, id, url.as_str(), &kinds, caller.actor()).await?;
    Ok(with_secret(&state, organization, id, 1, Answer::created))
}

/// A webhook
///
/// Never with its secret.
#[utoipa::path(get, path = "/v1/webhooks/{webhook}", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    security(("key" = ["webhooks:read"])),
    responses((status = 200, description = "The endpoint.", body = WebhookView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
) -> Result<Answer<WebhookView>, Failed> {
    caller.require(Scope::WebhooksRead)?;
    now(&state, &caller, id).await
}

async fn now(state: &WebState, caller: &Caller, id: WebhookId) -> Result<Answer<WebhookView>, Failed> {
    Ok(Answer::ok(state.db.webhook(caller.organization(), id).await?.into()))
}

/// The organization, if the caller may write and the endpoint is its own.
async fn own(state: &WebState, caller: &Caller, id: WebhookId) -> Result<OrganizationId, Failed> {
    caller.require(Scope::WebhooksWrite)?;
    state.db.webhook(caller.organization(), id).await?;
    Ok(caller.organization())
}

/// Stop a webhook
///
/// Nothing is sent to it any more; what happens from now on waits until it is started again.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}:stop", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    security(("key" = ["webhooks:write"])),
    responses((status = 200, description = "It is stopped.", body = WebhookView)))]
async fn stop(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
) -> Result<Answer<WebhookView>, Failed> {
    let organization = own(&state, &caller, id).await?;
    state.db.stop_webhook(organization, id, caller.actor()).await?;
    now(&state, &caller, id).await
}

/// Start a webhook
///
/// It is sent to again, from where it stopped: nothing is left out.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}:start", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    security(("key" = ["webhooks:write"])),
    responses((status = 200, description = "It runs.", body = WebhookView)))]
async fn start(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
) -> Result<Answer<WebhookView>, Failed> {
    let organization = own(&state, &caller, id).await?;
    state.db.start_webhook(organization, id, caller.actor()).await?;
    now(&state, &caller, id).await
}

/// Which secret is to be followed by another.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct RotateRequest {
    /// The `generation` that was read.
    generation: i32,
}

/// Change a webhook's secret
///
/// For a day deliveries are signed with both. The new one is shown in this answer alone.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}:rotate", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    request_body = RotateRequest,
    security(("key" = ["webhooks:write"])),
    responses((status = 200, description = "Changed.", body = WebhookSecret)))]
async fn rotate(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
    Json(request): Json<RotateRequest>,
) -> Result<Response, Failed> {
    let organization = own(&state, &caller, id).await?;
    match state.db.rotate_webhook(organization, id, request.generation, caller.actor()).await? {
        Rotated::To(generation) => Ok(with_secret(&state, organization, id, generation, Answer::ok)),
        Rotated::Elsewhere => Err(Refusal::new(
            Code::Changed,
            "The secret was changed since that generation was read. It was shown then; nothing was done now.",
        )
        .into()),
    }
}

/// Where a test is in the log.
#[derive(Debug, Serialize, ToSchema)]
struct TestQueued {
    /// Its number there, below zero: it is not in the feed.
    position: i64,
}

/// Send a test
///
/// Of the type `webhook.test`; what comes of it is in the log of deliveries within seconds.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}:test", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    security(("key" = ["webhooks:write"])),
    responses((status = 200, description = "It is queued.", body = TestQueued)))]
async fn test(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
) -> Result<Answer<TestQueued>, Failed> {
    let organization = own(&state, &caller, id).await?;
    let position = state.db.test_webhook(organization, id, caller.actor()).await?;
    Ok(Answer::ok(TestQueued { position }))
}

/// A delivery: a transition on its way to an endpoint.
#[derive(Debug, Serialize, ToSchema)]
struct WebhookDeliveryView {
    /// Its position in the feed; below zero, a test.
    position: i64,
    /// What it tells of; null for a test.
    r#type: Option<Kind>,
    /// Where it is in its life.
    state: DeliveryState,
    /// Since when it is tried.
    queued_at: DateTime<Utc>,
    /// When it is tried next.
    next_attempt_at: Option<DateTime<Utc>>,
    /// Attempts made.
    attempts: i64,
    /// When the last one was made.
    last_at: Option<DateTime<Utc>>,
    /// The HTTP status that the endpoint answered last.
    status: Option<i32>,
    /// What went wrong last.
    detail: Option<String>,
}

impl From<DeliveryLine> for WebhookDeliveryView {
    fn from(line: DeliveryLine) -> Self {
        Self {
            position: line.position,
            r#type: line.kind,
            state: line.state,
            queued_at: line.queued_at,
            next_attempt_at: line.next_attempt_at,
            attempts: line.attempts,
            last_at: line.last_at,
            status: line.status,
            detail: line.detail,
        }
    }
}

/// Which deliveries.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct DeliveriesQuery {
    /// Only in this state: `dead` are those that were given up.
    state: Option<DeliveryState>,
}

/// The deliveries of a webhook
///
/// The newest first, tests last.
#[utoipa::path(get, path = "/v1/webhooks/{webhook}/deliveries", tag = "Webhooks",
    params(("webhook" = WebhookId, Path), DeliveriesQuery, Paging),
    security(("key" = ["webhooks:read"])),
    responses((status = 200, description = "A page of deliveries.", body = Listed<WebhookDeliveryView>)))]
async fn deliveries(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
    Query(query): Query<DeliveriesQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<WebhookDeliveryView>>, Failed> {
    caller.require(Scope::WebhooksRead)?;
    let organization = caller.organization();
    state.db.webhook(organization, id).await?;
    let before = paging.parse(|text| text.parse().ok())?;
    let rows = state.db.webhook_deliveries(organization, id, query.state, before, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| row.position.to_string(), Into::into)))
}

/// What is to be sent again.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ReplayRequest {
    /// From this position of the feed.
    #[schema(minimum = 1)]
    first: i64,
    /// To this one; the same for one delivery.
    #[schema(minimum = 1)]
    last: i64,
    /// Only what was given up.
    #[serde(default)]
    only_dead: bool,
}

/// So many are sent again.
#[derive(Debug, Serialize, ToSchema)]
struct ReplayQueued {
    /// Deliveries that are queued again; those that wait to be sent already are none of them.
    queued: u64,
}

/// Send deliveries again
///
/// Those between two positions of the feed that the endpoint wants, also from before it was added; at most ten thousand at
/// once.
#[utoipa::path(post, path = "/v1/webhooks/{webhook}:replay", tag = "Webhooks", params(("webhook" = WebhookId, Path)),
    request_body = ReplayRequest,
    security(("key" = ["webhooks:write"])),
    responses((status = 200, description = "They are queued.", body = ReplayQueued)))]
async fn replay(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<WebhookId>,
    Json(request): Json<ReplayRequest>,
) -> Result<Answer<ReplayQueued>, Failed> {
    let organization = own(&state, &caller, id).await?;
    let ReplayRequest { first, last, only_dead } = request;
    if first < 1 || last < first {
        let field = if first < 1 { "first" } else { "last" };
        return Err(Refusal::field(field, "Say from which position of the feed to which.").into());
    }
    let queued = state.db.replay_webhook(organization, id, (first, last), only_dead, caller.actor()).await?;
    Ok(Answer::ok(ReplayQueued { queued }))
}
