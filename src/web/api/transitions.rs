//! The feed: what happened to an organization's entries, offers, places and bookings, in one order without a gap.

use axum::extract::State;
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::Answer;
use super::problem::{Failed, Refusal};
use crate::db::feed::Wanted;
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
    after: i64,
    /// At most so many; 100 without it, and never more than 1,000.
    #[param(minimum = 1, maximum = 1000)]
    limit: Option<u32>,
    /// Only of this event, by its id or its name in addresses.
    event: Option<String>,
    /// Only of these kinds, with commas between.
    kind: Option<String>,
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
/// `next`, and go on from there after an interruption: nothing is lost, and nothing comes twice. `after` beyond the end is
/// refused (400 `invalid`): a backup was restored, and the feed went back; see “Being told” in `/v1/docs`.
#[utoipa::path(get, path = "/v1/transitions", tag = "What happened", params(FeedQuery),
    security(("key" = ["transitions:read"])),
    responses((status = 200, description = "A part of the feed.", body = Feed)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Query(query): Query<FeedQuery>,
) -> Result<Answer<Feed>, Failed> {
    caller.require(Scope::TransitionsRead)?;
    if query.after < 0 {
        return Err(Refusal::field("after", "Positions are counted from 1; 0 is the beginning.").into());
    }
    let event = match &query.event {
        Some(event) => Some(caller.event(&state, event).await?.id),
        None => None,
    };
    let words = query.kind.iter().flat_map(|kinds| kinds.split(',')).map(str::trim);
    let kinds = words
        .map(|word| {
            Kind::parse(word)
                .ok_or_else(|| Refusal::field("kind", format!("There is no kind “{word}”.")).into())
        })
        .collect::<Result<_, Failed>>()?;
    let wanted = Wanted { after: query.after, event, kinds };
    let limit = i64::from(query.limit.unwrap_or(100).clamp(1, 1_000));
    let part = state.db.transitions(caller.organization(), &wanted, limit).await?;
    if query.after > part.last {
        let detail = format!(
            "The feed ends at {}, and nobody was led further. Where a backup was restored, go on from there, and look up \
             what you know of what came after.",
            part.last
        );
        return Err(Refusal::field("after", detail).into());
    }
    Ok(Answer::ok(Feed { items: part.transitions, next: part.next }))
}
