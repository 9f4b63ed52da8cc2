//! Draws and final calls, held by programs of an organization.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Because, Json};
use super::lines::reordering;
use super::problem::{Code, Failed, Refusal};
use super::running::{EventDetail, reasoned};
use crate::db::draws::Draw;
use crate::domain::event::Event;
use crate::domain::key::Scope;
use crate::waitlist::calls::FinalCallOutcome;
use crate::waitlist::draws::{BeaconOutcome, DrawOutcome};
use crate::web::WebState;
use crate::web::extract::Path;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(draws, draw)).with(routes!(beacon)).with(routes!(final_call))
}

/// A draw.
#[derive(Debug, Serialize, ToSchema)]
struct DrawView {
    /// Its number in the event.
    number: i32,
    /// When its pool was frozen.
    frozen_at: DateTime<Utc>,
    /// How many are in the pool.
    pool_size: i32,
    /// The pool's SHA-256.
    pool_digest: String,
    /// The round of the beacon that takes part, if one does.
    beacon_round: Option<i64>,
    /// When it was drawn; not yet without it.
    drawn_at: Option<DateTime<Utc>>,
    /// The file with which anybody can check it.
    file: String,
}

fn draw_view(event: &Event, draw: &Draw) -> DrawView {
    DrawView {
        number: draw.number,
        frozen_at: draw.frozen_at,
        pool_size: draw.pool_size,
        pool_digest: hex::encode(draw.pool_digest),
        beacon_round: draw.round,
        drawn_at: draw.drawn_at,
        file: format!("/e/{}/draws/{}.json", event.slug, draw.number),
    }
}

/// The draws of an event
///
/// The newest first.
#[utoipa::path(get, path = "/v1/events/{event}/draws", tag = "Running events", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "All of them.", body = Vec<DrawView>)))]
async fn draws(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<Vec<DrawView>>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let draws = state.db.draws(event.id).await?;
    Ok(Answer::ok(draws.iter().map(|draw| draw_view(&event, draw)).collect()))
}

/// Hold a draw
///
/// Everybody eligible is in the pool, drawn before or not; a second draw before the first is used up is visible as such.
#[utoipa::path(post, path = "/v1/events/{event}/draws", tag = "Running events", params(("event" = String, Path)),
    request_body = Because,
    security(("key" = ["events:write"])),
    responses((status = 201, description = "Drawn, or frozen until its beacon.", body = DrawView)))]
async fn draw(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<Because>,
) -> Result<Answer<DrawView>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    let reason = request.parse()?;
    let number = match state.waitlist().hold_draw(event.id, caller.actor(), &reason).await? {
        DrawOutcome::Drawn { number, .. } | DrawOutcome::Frozen { number, .. } => number,
        DrawOutcome::NoLottery => {
            return Err(Refusal::new(Code::NotTheRule, "The rule is no lottery.").into());
        }
        DrawOutcome::Reordering => return Err(reordering().into()),
        DrawOutcome::NobodyWaits => {
            return Err(Refusal::new(Code::WrongState, "Nobody who could be drawn waits.").into());
        }
    };
    let draws = state.db.draws(event.id).await?;
    let held = draws.iter().find(|draw| draw.number == number);
    held.map(|draw| Answer::created(draw_view(&event, draw)))
        .ok_or_else(|| crate::web::error::Error::internal("a draw that is not there").into())
}

/// The value of a beacon.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BeaconRequest {
    /// What the beacon published for the round announced, as it did.
    value: String,
}

/// Supply the beacon's value
///
/// For the newest draw, which waits for it; it is verified.
#[utoipa::path(post, path = "/v1/events/{event}/draws:beacon", tag = "Running events", params(("event" = String, Path)),
    request_body = BeaconRequest,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "Drawn.", body = Vec<DrawView>)))]
async fn beacon(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<BeaconRequest>,
) -> Result<Answer<Vec<DrawView>>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    match state.waitlist().supply_beacon(event.id, &request.value, caller.actor()).await? {
        BeaconOutcome::Drawn { .. } => {
            let draws = state.db.draws(event.id).await?;
            Ok(Answer::ok(draws.iter().map(|draw| draw_view(&event, draw)).collect()))
        }
        BeaconOutcome::NoneWaits => {
            Err(Refusal::new(Code::WrongState, "No draw waits for a beacon's value.").into())
        }
        BeaconOutcome::Refused(error) => Err(Refusal::field("value", error).into()),
    }
}

/// Make the final call
///
/// Where staff pick who is offered a place, they confirm it.
#[utoipa::path(post, path = "/v1/events/{event}:final-call", tag = "Running events", params(("event" = String, Path)),
    request_body = Because,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn final_call(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<Because>,
) -> Result<Answer<EventDetail>, Failed> {
    let (event, reason) = reasoned(&state, &caller, &event, &request).await?;
    match state.waitlist().make_final_call(event, caller.actor(), &reason).await? {
        FinalCallOutcome::Made | FinalCallOutcome::Already => EventDetail::now(&state, event).await,
        FinalCallOutcome::NotYet => Err(Refusal::new(
            Code::NotTheRule,
            "The rule has no final call that staff make, or its time has not come.",
        )
        .into()),
    }
}
