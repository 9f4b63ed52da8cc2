//! The feed: what happened to an organization's entries, offers, places and bookings, in one order without a gap.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::Answer;
use super::problem::Failed;
use crate::db::feed::Wanted;
use crate::domain::ids::EventId;
use crate::domain::key::Scope;
use crate::domain::transition::{Kind, Transition};
use crate::web::WebState;
use crate::web::extract::Query;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list))
}

/// Which part of the feed.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct FeedQuery {
    /// What follows this position: `next` of the answer before; 0 is the beginning.
    #[param(minimum = 0)]
    after: u32,
    /// At most so many; 100 without it, and never more than 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only of this event.
    event: Option<EventId>,
    /// Only of this kind.
    kind: Option<Kind>,
}

/// A part of the feed.
#[derive(Debug, Serialize, ToSchema)]
struct Feed {
    /// In order of position; each as a webhook would have brought it.
    items: Vec<Transition>,
    /// What to ask after next. Nothing that was asked for lies between the last item and this.
    next: i64,
}

/// What happened
///
/// The same as webhooks bring, to be fetched: positions have no gap, and an event's transitions are in their order. Keep
/// `next`, and go on from there after an interruption: nothing is lost, and nothing comes twice. Scope `transitions:read`.
#[utoipa::path(get, path = "/v1/transitions", tag = "What happened", params(FeedQuery),
    responses((status = 200, description = "A part of the feed.", body = Feed)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Query(query): Query<FeedQuery>,
) -> Result<Answer<Feed>, Failed> {
    caller.require(Scope::TransitionsRead)?;
    let wanted =
        Wanted { after: query.after.into(), event: query.event, kinds: query.kind.into_iter().collect() };
    let limit = i64::from(query.limit.unwrap_or(100).clamp(1, 1_000));
    let part = state.db.transitions(caller.organization(), &wanted, limit).await?;
    Ok(Answer::ok(Feed { items: part.transitions, next: part.next }))
}
