//! What an edited rule would have done with an event's own past, before it is put in force.

use axum::extract::State;
use chrono::{DateTime, Duration, Utc};
use serde::Serialize;
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Json};
use super::problem::{Code, Failed, Refusal};
use super::rule::{PolicyChange, refused};
use crate::domain::key::Scope;
use crate::domain::simulation::Figures;
use crate::waitlist::replay::{Replayed, replay};
use crate::web::WebState;
use crate::web::extract::Path;
use crate::web::staff::policy::simulation::{why_not, words_of};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(simulate))
}

/// What a rule came to.
#[derive(Debug, Serialize, ToSchema)]
struct FiguresView {
    /// When each place that came back was filled through the list, in order.
    filled: Vec<DateTime<Utc>>,
    /// In how many seconds half of them were filled.
    median_wait_seconds: Option<i64>,
    /// In how many seconds the slowest was.
    longest_wait_seconds: Option<i64>,
    /// People who were offered places.
    people: usize,
    /// Offers made.
    offers: usize,
    /// Those that were accepted.
    accepted: usize,
    /// Those that were declined.
    declined: usize,
    /// Those without an answer.
    unanswered: usize,
    /// Those that waited for an answer in the end.
    pending: usize,
    /// Messages about offers.
    messages: usize,
}

impl From<&Figures> for FiguresView {
    fn from(figures: &Figures) -> Self {
        Self {
            filled: figures.filled.clone(),
            median_wait_seconds: figures.median_wait().map(|wait| wait.num_seconds()),
            longest_wait_seconds: figures.waits.last().map(Duration::num_seconds),
            people: figures.people,
            offers: figures.offers,
            accepted: figures.accepted,
            declined: figures.declined,
            unanswered: figures.unanswered,
            pending: figures.pending,
            messages: figures.messages,
        }
    }
}

/// An event's past as it was, and as it would have been.
#[derive(Debug, Serialize, ToSchema)]
struct SimulationView {
    /// Until when the past was replayed.
    until: DateTime<Utc>,
    /// When places came back that the list could have had, in order.
    came_back: Vec<DateTime<Utc>>,
    /// What really happened.
    really: FiguresView,
    /// What the rule would have done.
    replayed: FiguresView,
    /// To so many of its offers the answer is drawn from what is on record, with a fixed seed: the same rule gives the same
    /// figures.
    drawn: usize,
    /// What to know of it, in words.
    words: Vec<String>,
}

/// What a rule would have done
///
/// Replays the event's past under the rule as it would be after this change, beside what really happened. Nothing is
/// saved, nobody is offered anything, and no version is needed. Refused where nothing can be replayed yet. Scope
/// `events:read`.
#[utoipa::path(post, path = "/v1/events/{event}/policy:simulate", tag = "The rule", params(("event" = String, Path)),
    request_body = PolicyChange,
    security(("key" = ["events:read"])),
    responses((status = 200, description = "The past, twice.", body = SimulationView)))]
async fn simulate(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<PolicyChange>,
) -> Result<Answer<SimulationView>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let before = state.db.policy(event.id).await?;
    let policy = request.over(&before)?;
    policy.check(event.starts_at).map_err(refused)?;
    let replayed = replay(&state.db, &event, &policy, state.db.now().await?).await?;
    let Replayed::Done(simulation) = replayed else {
        let why = why_not(&replayed).unwrap_or_default();
        return Err(Refusal::new(Code::WrongState, why).into());
    };
    Ok(Answer::ok(SimulationView {
        until: simulation.until,
        came_back: simulation.came_back.clone(),
        really: (&simulation.really).into(),
        replayed: (&simulation.replayed).into(),
        drawn: simulation.drawn,
        words: words_of(&before, &policy, &simulation),
    }))
}
