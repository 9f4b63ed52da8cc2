//! Complaints: a customer's that something is not right about their request, and the answers of the organization.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::entries::entry_of;
use super::json::{Answer, Json, Listed, Paging};
use super::problem::{Code, Failed, Refusal};
use crate::db::complaints::{ComplaintFilter, ComplaintLine};
use crate::domain::complaint::{About, Complaint, Words};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::key::Scope;
use crate::waitlist::complaints::{AnswerOutcome, ComplainOutcome};
use crate::web::WebState;
use crate::web::error::Error;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(complain)).with(routes!(of_entry)).with(routes!(answer)).with(routes!(list))
}

/// As many of one entry are told, the last first.
const OF_ENTRY: i64 = 50;

/// A complaint.
#[derive(Debug, Serialize, ToSchema)]
struct ComplaintView {
    /// Of which entry.
    entry_id: EntryId,
    /// The how-manieth of this entry: 1, 2, 3 …
    number: i32,
    /// About what.
    about: About,
    /// In their words.
    words: String,
    /// When it was made.
    made_at: DateTime<Utc>,
    /// What was answered; nothing yet without it.
    answer: Option<String>,
    /// When that was.
    answered_at: Option<DateTime<Utc>>,
}

impl From<Complaint> for ComplaintView {
    fn from(complaint: Complaint) -> Self {
        let (answer, answered_at) = complaint.answer.unzip();
        Self {
            entry_id: complaint.entry,
            number: complaint.number,
            about: complaint.about,
            words: complaint.words,
            made_at: complaint.made_at,
            answer,
            answered_at,
        }
    }
}

/// What somebody says.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ComplaintRequest {
    /// About what.
    about: About,
    /// In their words; at most 2,000 characters.
    #[schema(min_length = 1, max_length = 2000)]
    words: String,
}

async fn numbered(
    state: &WebState,
    event: EventId,
    entry: EntryId,
    number: i32,
) -> Result<ComplaintView, Failed> {
    let complaints = state.db.complaints_of(event, entry, OF_ENTRY).await?;
    let found = complaints.into_iter().find(|complaint| complaint.number == number);
    Ok(found.ok_or(Error::NotFound)?.into())
}

/// Say that something is not right
///
/// A customer says it of their own request; a program for whoever told it. It changes nothing in the line, is on the
/// record, and waits for an answer; one at a time.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:complain", tag = "Complaints", params(("entry" = EntryId, Path)),
    request_body = ComplaintRequest,
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 201, description = "It was written down.", body = ComplaintView)))]
async fn complain(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<ComplaintRequest>,
) -> Result<Answer<ComplaintView>, Failed> {
    let event = entry_of(&state, &caller, id, Scope::EntriesWrite).await?.event.id;
    let words = Words::parse(&request.words).map_err(|error| Refusal::field("words", error))?;
    match state.waitlist().complain(event, id, request.about, &words, caller.actor()).await? {
        ComplainOutcome::WrittenDown(number) => {
            Ok(Answer::created(numbered(&state, event, id, number).await?))
        }
        ComplainOutcome::Unanswered(number) => Err(Refusal::new(
            Code::WrongState,
            "What was said before has not been answered yet. Nothing was written.",
        )
        .with("number", number)
        .into()),
    }
}

/// The complaints of an entry
///
/// The last first, the newest 50.
#[utoipa::path(get, path = "/v1/waitlist/{entry}/complaints", tag = "Complaints", params(("entry" = EntryId, Path)),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "What was said and answered.", body = Vec<ComplaintView>)))]
async fn of_entry(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
) -> Result<Answer<Vec<ComplaintView>>, Failed> {
    let event = entry_of(&state, &caller, id, Scope::EntriesRead).await?.event.id;
    let complaints = state.db.complaints_of(event, id, OF_ENTRY).await?;
    Ok(Answer::ok(complaints.into_iter().map(ComplaintView::from).collect()))
}

/// An answer to a complaint.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
#[schema(as = ComplaintAnswer)]
struct AnswerRequest {
    /// Which complaint of this entry is answered.
    #[schema(minimum = 1)]
    number: i32,
    /// The answer; at most 2,000 characters. It goes out by mail.
    #[schema(min_length = 1, max_length = 2000)]
    words: String,
}

/// Answer a complaint
///
/// They are told by mail, and read it on the page of their request.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:answer-complaint", tag = "Complaints",
    params(("entry" = EntryId, Path)), request_body = AnswerRequest,
    security(("key" = ["entries:write"])),
    responses((status = 200, description = "Answered.", body = ComplaintView)))]
async fn answer(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<AnswerRequest>,
) -> Result<Answer<ComplaintView>, Failed> {
    caller.require(Scope::EntriesWrite)?;
    let event = entry_of(&state, &caller, id, Scope::EntriesWrite).await?.event.id;
    let words = Words::parse(&request.words).map_err(|error| Refusal::field("words", error))?;
    match state.waitlist().answer_complaint(event, id, request.number, &words, caller.actor()).await? {
        AnswerOutcome::Answered => Ok(Answer::ok(numbered(&state, event, id, request.number).await?)),
        AnswerOutcome::NothingToAnswer => Err(Refusal::new(
            Code::WrongState,
            "This entry has no complaint of that number that waits for an answer. Nothing was sent.",
        )
        .into()),
    }
}

/// A complaint, with whose it is.
#[derive(Debug, Serialize, ToSchema)]
struct ComplaintOfEvent {
    #[serde(flatten)]
    complaint: ComplaintView,
    /// On the list of this event.
    event_id: EventId,
    /// What it is called.
    event_name: String,
    /// Whose request it is.
    name: String,
}

impl From<ComplaintLine> for ComplaintOfEvent {
    fn from(line: ComplaintLine) -> Self {
        Self {
            complaint: line.complaint.into(),
            event_id: line.event,
            event_name: line.event_name,
            name: line.person_name,
        }
    }
}

/// Which complaints.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct ComplaintQuery {
    /// Of this event, by its id or its name in addresses.
    event: String,
    /// Only those that were answered, or only those that were not.
    answered: Option<bool>,
}

/// The complaints of an organization
///
/// The newest first. Ask now and then: neither the feed nor webhooks tell of complaints.
#[utoipa::path(get, path = "/v1/complaints", tag = "Complaints", params(ComplaintQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of complaints.", body = Listed<ComplaintOfEvent>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Query(query): Query<ComplaintQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<ComplaintOfEvent>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = match query.event.as_str() {
        "" => None,
        event => Some(caller.event(&state, event).await?.id),
    };
    let before = paging.parse(|text| {
        let (at, below) = text.split_once('_')?;
        let (entry, number) = below.split_once('_')?;
        let at = DateTime::from_timestamp_micros(at.parse().ok()?)?;
        Some((at, entry.parse().ok()?, number.parse().ok()?))
    })?;
    let filter = ComplaintFilter { event, answered: query.answered, before };
    let lines = state.db.complaints(caller.organization(), filter, paging.one_more()).await?;
    let cursor = |ComplaintLine { complaint: last, .. }: &ComplaintLine| {
        format!("{}_{}_{}", last.made_at.timestamp_micros(), last.entry, last.number)
    };
    Ok(Answer::ok(Listed::of(lines, paging.limit(), cursor, ComplaintOfEvent::from)))
}
