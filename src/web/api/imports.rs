//! Lists from elsewhere, brought in by programs: a file is kept, looked at, started, watched.
//!
//! Nothing is written to the list before it is started; a worker does the rest.

use std::collections::BTreeMap;

use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Json};
use super::problem::{Code, Failed, Refusal};
use crate::db::import::Import;
use crate::domain::event::Event;
use crate::domain::ids::ImportId;
use crate::domain::import::{
    Asked, Field, FileError, ImportState, Look, MAX_UPLOAD_BYTES, Plan, Planned, PlannedState, Reported,
};
use crate::domain::key::Scope;
use crate::waitlist::import::StartOutcome;
use crate::waitlist::uploads;
use crate::web::error::Error;
use crate::web::extract::{Path, Query};
use crate::web::upload::base_name;
use crate::web::{WebState, body};

pub(super) fn add(api: Api) -> Api {
    let (schemas, paths, methods) = routes!(list, upload);
    api.with((schemas, paths, methods.layer(DefaultBodyLimit::max(MAX_UPLOAD_BYTES))))
        .with(routes!(show))
        .with(routes!(preview))
        .with(routes!(start))
        .with(routes!(report))
}

/// Rows of each part of a preview; all of them are in the report.
const ROWS_SHOWN: usize = 200;

/// Of those who would be taken, a preview shows the first.
const PEOPLE_SHOWN: usize = 20;

/// An import.
#[derive(Debug, Serialize, ToSchema)]
struct ImportView {
    /// Its id.
    id: ImportId,
    /// What the file is called.
    file_name: String,
    /// How far it is.
    state: ImportState,
    /// When the file was brought here.
    uploaded_at: DateTime<Utc>,
    /// When it was started.
    started_at: Option<DateTime<Utc>>,
    /// When everybody was seen to.
    finished_at: Option<DateTime<Utc>>,
    /// Whether those taken are written to.
    tell: bool,
    /// How many people the file brings; known when it is started.
    people: usize,
    /// How many of them were seen to.
    seen_to: usize,
    /// How many are on the list by it.
    taken: usize,
    /// How many had an entry before, which stays as it is.
    listed_before: usize,
}

impl From<Import> for ImportView {
    fn from(import: Import) -> Self {
        Self {
            state: import.state(),
            id: import.id,
            file_name: import.file_name,
            uploaded_at: import.uploaded_at,
            started_at: import.started_at,
            finished_at: import.finished_at,
            tell: import.tell,
            people: import.rows_total,
            seen_to: import.rows_done,
            taken: import.taken,
            listed_before: import.already,
        }
    }
}

async fn allowed(state: &WebState, caller: &Caller, event: &str) -> Result<Event, Failed> {
    caller.require(Scope::EntriesImport)?;
    caller.event(state, event).await
}

/// The imports of an event
///
/// Those that were started, the newest first; at most 50.
#[utoipa::path(get, path = "/v1/events/{event}/imports", tag = "Imports", params(("event" = String, Path)),
    security(("key" = ["entries:import"])),
    responses((status = 200, description = "The latest.", body = Vec<ImportView>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<Vec<ImportView>>, Failed> {
    let event = allowed(&state, &caller, &event).await?;
    Ok(Answer::ok(state.db.imports(event.id).await?.into_iter().map(Into::into).collect()))
}

/// What a file is called.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct FileQuery {
    /// By which people know it again: `list.csv` without it.
    file_name: String,
}

/// A table of comma-separated values, with names in its first line.
#[derive(ToSchema)]
#[schema(value_type = String, format = Binary)]
struct ListFile(#[expect(dead_code, reason = "only described: the bytes are read as they are")] Vec<u8>);

/// Bring in a file
///
/// A CSV file with names in its first line, of at most 64 MiB and 500,000 rows, with commas, semicolons or tabs. It is kept
/// for a week to be looked at, at most 20 at a time for an event, and nothing is written to the list. Columns called `Name`,
/// `Email`, `Phone`, `Joined`, `Party`, `Status`, `Priority` or `Language`, or much the same, are found by themselves; the
/// preview says which it found, and takes others by name. Only name and address are needed. Instants look like
/// `2027-03-01 10:00`, `2027-03-01T10:00:00` or `01.03.2027 10:00`, with an offset or meant in the zone asked for; a row with
/// an empty one is refused where there is such a column.
#[utoipa::path(post, path = "/v1/events/{event}/imports", tag = "Imports", params(("event" = String, Path), FileQuery),
    request_body(content((ListFile = "text/csv"), (ListFile = "application/octet-stream")), description = "The file."),
    security(("key" = ["entries:import"])),
    responses((status = 201, description = "It is kept.", body = ImportView)))]
async fn upload(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<FileQuery>,
    request: Request,
) -> Result<Answer<ImportView>, Failed> {
    // Who may not import is told so before a large file was read.
    let event = allowed(&state, &caller, &event).await?;
    let bytes = body::whole(request).await?;
    let name = base_name(&query.file_name);
    let name = if name.is_empty() { "list.csv" } else { &name };
    if name.contains('\0') {
        return Err(Refusal::field("file_name", "Use readable characters.").into());
    }
    match uploads::keep(&state.db, event.id, name, Vec::from(bytes), caller.actor()).await? {
        Ok(id) => Ok(Answer::created(state.db.import(event.id, id).await?.into())),
        Err(why @ FileError::TooManyKept) => Err(Refusal::new(Code::WrongState, why.to_string()).into()),
        Err(why) => Err(Refusal::new(Code::UnreadableBody, why.to_string()).into()),
    }
}

/// An import
///
/// How far it is.
#[utoipa::path(get, path = "/v1/events/{event}/imports/{import}", tag = "Imports",
    params(("event" = String, Path), ("import" = ImportId, Path)),
    security(("key" = ["entries:import"])),
    responses((status = 200, description = "As it is now.", body = ImportView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, ImportId)>,
) -> Result<Answer<ImportView>, Failed> {
    let event = allowed(&state, &caller, &event).await?;
    Ok(Answer::ok(state.db.import(event.id, id).await?.into()))
}

/// In which column what is, the first being 1. With none of them the columns are recognised by their names; with any, what
/// is left out is not in the file.
#[derive(Clone, Debug, Default, Deserialize, ToSchema, IntoParams)]
#[serde(default, deny_unknown_fields)]
#[into_params(parameter_in = Query)]
struct Columns {
    /// What the person is called. Needed.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    name: Option<u32>,
    /// The address that decides who it is. Needed.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    email: Option<u32>,
    /// A telephone number.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    phone: Option<u32>,
    /// When they joined; without it, the order of the file counts.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    joined: Option<u32>,
    /// How many places they want; without it, one each.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    party: Option<u32>,
    /// Whether they still wait; without it, everybody does.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    status: Option<u32>,
    /// Kept with the entry.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    priority: Option<u32>,
    /// For messages.
    #[schema(minimum = 1)]
    #[param(minimum = 1)]
    language: Option<u32>,
}

impl Columns {
    fn asked(&self) -> Asked {
        let said = [
            (Field::Name, self.name),
            (Field::Email, self.email),
            (Field::Phone, self.phone),
            (Field::Joined, self.joined),
            (Field::Party, self.party),
            (Field::Status, self.status),
            (Field::Priority, self.priority),
            (Field::Language, self.language),
        ];
        Asked::of(said.into_iter().filter_map(|(field, number)| Some((field, number?.to_string()))).collect())
    }
}

/// Somebody who would be taken.
#[derive(Debug, Serialize, ToSchema)]
struct PlannedView {
    /// The line on which the row begins.
    line: usize,
    /// What they are called, if they are not known yet.
    name: String,
    /// Who they are.
    email: String,
    /// When they joined elsewhere.
    joined_at: Option<DateTime<Utc>>,
    /// How many places they want.
    party: i32,
    /// `waiting`, or `expired`: on record, and not in the line.
    state: &'static str,
}

impl From<&Planned> for PlannedView {
    fn from(person: &Planned) -> Self {
        Self {
            line: person.line,
            name: person.name.as_str().to_owned(),
            email: person.email.value().to_owned(),
            joined_at: person.joined_at,
            party: person.party,
            state: match person.state {
                PlannedState::Waiting => "waiting",
                PlannedState::Expired => "expired",
            },
        }
    }
}

/// Something said of a row.
#[derive(Debug, Serialize, ToSchema)]
struct RowView {
    /// The line on which the row begins.
    line: usize,
    /// Whose it is, as far as it can be read.
    who: String,
    /// What is said.
    what: String,
}

fn rows<T: std::fmt::Display>(rows: &[Reported<T>]) -> Vec<RowView> {
    let view =
        |row: &Reported<T>| RowView { line: row.line, who: row.who.clone(), what: row.what.to_string() };
    rows.iter().take(ROWS_SHOWN).map(view).collect()
}

/// What a file would become, or became.
#[derive(Debug, Serialize, ToSchema)]
struct PreviewView {
    /// What the columns are called, in order.
    columns: Vec<String>,
    /// In which of them what is, the first being 1.
    read_as: BTreeMap<&'static str, usize>,
    /// Whether the layout of another program was recognised.
    recognised: bool,
    /// Why it cannot be read like that; nothing would be taken then.
    problem: Option<String>,
    /// How many rows the file has.
    rows: usize,
    /// How many people would be in the line.
    waiting: usize,
    /// How many would be on record as expired.
    expired: usize,
    /// The first who would be taken, in the order of the line; at most 20.
    first: Vec<PlannedView>,
    /// How many rows would not be taken.
    refused: usize,
    /// The first of them, and why; at most 200, and all of them in the report.
    refused_rows: Vec<RowView>,
    /// How much was changed or is doubtful in rows that would be taken.
    remarks: usize,
    /// The first of that; at most 200, and all of it in the report.
    remarked_rows: Vec<RowView>,
    /// Columns of which nothing is taken.
    unused: Vec<String>,
}

impl From<Look> for PreviewView {
    fn from(look: Look) -> Self {
        let fields = Field::ALL.into_iter();
        let read_as = fields.filter_map(|field| Some((field.key(), look.column(field)?))).collect();
        let (plan, problem) = match look.plan {
            Ok(plan) => (plan, None),
            Err(problem) => (Plan::default(), Some(problem.to_string())),
        };
        Self {
            columns: look.labels,
            read_as,
            recognised: look.recognised,
            problem,
            rows: plan.rows,
            waiting: plan.count(PlannedState::Waiting),
            expired: plan.count(PlannedState::Expired),
            first: plan.people.iter().take(PEOPLE_SHOWN).map(Into::into).collect(),
            refused: plan.refused.len(),
            refused_rows: rows(&plan.refused),
            remarks: plan.remarks.len(),
            remarked_rows: rows(&plan.remarks),
            unused: plan.unused,
        }
    }
}

fn started_already() -> Failed {
    Refusal::new(Code::WrongState, "It was started: its report says what became of each row.").into()
}

/// What would come of an import
///
/// Read as asked for, without whoever is on the list already. Looking writes nothing.
#[utoipa::path(get, path = "/v1/events/{event}/imports/{import}/preview", tag = "Imports",
    params(("event" = String, Path), ("import" = ImportId, Path), Columns),
    security(("key" = ["entries:import"])),
    responses((status = 200, description = "What would come of it.", body = PreviewView)))]
async fn preview(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, ImportId)>,
    Query(columns): Query<Columns>,
) -> Result<Answer<PreviewView>, Failed> {
    let event = allowed(&state, &caller, &event).await?;
    if state.db.import(event.id, id).await?.started_at.is_some() {
        return Err(started_already());
    }
    let look = uploads::look(&state.db, &event, id, columns.asked(), state.db.now().await?).await?;
    Ok(Answer::ok(look.into()))
}

/// How a file is to be taken.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct StartRequest {
    /// In which column what is, as it was looked at; recognised by their names without it.
    columns: Option<Columns>,
    /// Whether those taken are written to.
    #[serde(default)]
    tell: bool,
}

/// Start an import
///
/// The same file, read in the same way, is imported once: the answer is then the import that it was, carried on if it was
/// interrupted.
#[utoipa::path(post, path = "/v1/events/{event}/imports/{import}:start", tag = "Imports",
    params(("event" = String, Path), ("import" = ImportId, Path)), request_body = StartRequest,
    security(("key" = ["entries:import"])),
    responses((status = 200, description = "The import that is under way, or done.", body = ImportView)))]
async fn start(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, ImportId)>,
    Json(request): Json<StartRequest>,
) -> Result<Answer<ImportView>, Failed> {
    let event = allowed(&state, &caller, &event).await?;
    let id = uploads::started_before(&state.db, event.id).await?.unwrap_or(id);
    let import = state.db.import(event.id, id).await?;
    if import.started_at.is_some() {
        return Ok(Answer::ok(import.into()));
    }
    let (asked, now) = (request.columns.unwrap_or_default().asked(), state.db.now().await?);
    let (look, outcome) =
        uploads::start(&state.db, &event, &import, asked, request.tell, caller.actor(), now).await?;
    match outcome {
        Some(StartOutcome::Started(id)) => Ok(Answer::ok(state.db.import(event.id, id).await?.into())),
        Some(StartOutcome::Resumed(before) | StartOutcome::AlreadyDone(before)) => {
            Ok(Answer::ok(state.db.import(event.id, before.id).await?.into()))
        }
        Some(StartOutcome::AnotherRuns) => Err(Refusal::new(
            Code::WrongState,
            "Another file is being imported into this list. Nothing was done.",
        )
        .again_in(10)
        .into()),
        Some(StartOutcome::EventEnded(ended)) => {
            Err(Refusal::new(Code::NotOnSale, "The event has ended: nobody can be put on its list.")
                .with("state", ended)
                .into())
        }
        None => {
            let problem = look.plan.err().map(|problem| problem.to_string()).unwrap_or_default();
            Err(Refusal::field("columns", problem).into())
        }
    }
}

/// The report of an import
///
/// A row for each row of the file that is not taken, or changed: what would become of it, or what did, while the file is
/// kept.
#[utoipa::path(get, path = "/v1/events/{event}/imports/{import}/report.csv", tag = "Imports",
    params(("event" = String, Path), ("import" = ImportId, Path), Columns),
    security(("key" = ["entries:import"])),
    responses((status = 200, description = "The table: line, person, taken, what.", body = String, content_type = "text/csv")))]
async fn report(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, ImportId)>,
    Query(columns): Query<Columns>,
) -> Result<Response, Failed> {
    let event = allowed(&state, &caller, &event).await?;
    let (import, now) = (state.db.import(event.id, id).await?, state.db.now().await?);
    let plan = if import.started_at.is_some() {
        uploads::kept_plan(&state.db, &import, now).await?
    } else {
        uploads::look(&state.db, &event, id, columns.asked(), now).await?.plan.ok()
    };
    let csv = uploads::report_csv(&plan.ok_or(Error::NotFound)?).map_err(Error::internal)?;
    let headers = [
        (CONTENT_TYPE, "text/csv; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"import-report.csv\""),
    ];
    Ok((headers, csv).into_response())
}
