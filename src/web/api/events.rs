//! Events as the public sees them, and how things stand for one person.

use axum::extract::State;
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, find_event};
use super::entries::Whose;
use super::json::{Answer, Listed, Paging};
use super::problem::Failed;
use super::status::StatusView;
use super::views::EventView;
use crate::db::events::Begin;
use crate::db::pages_customer::events::EventSheet;
use crate::domain::event::EventState;
use crate::web::WebState;
use crate::web::error::Error;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list)).with(routes!(show)).with(routes!(my_status))
}

/// Events that can be booked or waited for
///
/// Published events that have not started, those that start first before. Nobody needs to say who they are.
#[utoipa::path(get, path = "/v1/resources", tag = "Events", params(Paging), security(()),
    responses((status = 200, description = "A page of events.", body = Listed<EventView>)))]
async fn list(
    State(state): State<WebState>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<EventView>>, Failed> {
    let now = state.db.session_now().await?;
    let begin = paging.parse(|text| text.parse().ok())?.map_or(Begin::Skip(0), Begin::After);
    let sheets = state.db.public_events(now, paging.one_more(), begin).await?;
    let cursor = |sheet: &EventSheet| sheet.event.id.to_string();
    Ok(Answer::ok(Listed::of(sheets, paging.limit(), cursor, |sheet| EventView::of(sheet, now))))
}

/// An event
///
/// As the public sees it, with `places_free` for everybody and `seats_held` by offers. Nobody needs to say who they are.
/// `event` is the id or the name in addresses, here and everywhere.
#[utoipa::path(get, path = "/v1/resources/{event}", tag = "Events", params(("event" = String, Path)), security(()),
    responses((status = 200, description = "The event.", body = EventView)))]
async fn show(State(state): State<WebState>, Path(event): Path<String>) -> Result<Answer<EventView>, Failed> {
    let now = state.db.session_now().await?;
    let event = find_event(&state, &event).await?;
    if event.state == EventState::Draft {
        return Err(Error::NotFound.into());
    }
    Ok(Answer::ok(EventView::of(state.db.event_sheet_of(event.id, now).await?, now)))
}

/// How things stand for one person
///
/// Whether they may have a place now, why not, what to do next, their place in the line, and the deadlines that matter.
/// A program names the person by `email`; a customer asks for themselves.
#[utoipa::path(get, path = "/v1/resources/{event}/my-status", tag = "Events", params(("event" = String, Path), Whose),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "How things stand.", body = StatusView)))]
async fn my_status(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(whose): Query<Whose>,
) -> Result<Answer<StatusView>, Failed> {
    let event = caller.event(&state, &event).await?;
    let persons = whose.persons(&state, &caller).await?;
    let sheet = state.db.event_sheet_of(event.id, caller.now).await?;
    let mut entries = state.db.my_entries_at(event.id, &persons).await?;
    // A live entry says more than one that is over.
    let live = entries.iter().position(|entry| entry.state.is_live()).unwrap_or(0);
    let entry = if entries.is_empty() { None } else { Some(entries.swap_remove(live)) };
    let bookings = state.db.my_bookings_at(event.id, &persons).await?;
    // Whoever waits is told of what would do for them; and of other people's holds, not of their own.
    let live = entry.as_ref().filter(|entry| entry.state.is_live());
    let (door, others_until) = match live {
        Some(live) => {
            let (wants, _) = state.db.wants(event.id, live.wants).await?;
            let others = match live.offer {
                Some((offer, _)) => state.db.others_held_until(event.id, offer, caller.now).await?,
                None => sheet.facts.held_until,
            };
            (state.db.door_for(&sheet, &wants, caller.now).await?, others)
        }
        None => (sheet.door(caller.now), sheet.facts.held_until),
    };
    Ok(Answer::ok(StatusView::of(&sheet, door, others_until, entry, bookings, caller.now)))
}
