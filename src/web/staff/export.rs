//! The queue and the audit as tables to take along: UTF-8, read page by page while they are sent, and inert in a
//! spreadsheet.

use std::future::{Future, ready};

use axum::Router;
use axum::body::Body;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::{DateTime, SecondsFormat, Utc};
use chrono_tz::Tz;
use futures_util::StreamExt as _;
use futures_util::stream::{once, try_unfold};
use serde::Deserialize;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::Staff;
use crate::db::pages_queue::{QueueFilter, QueueRow, QueueView, Turn};
use crate::domain::audit::ChainOf;
use crate::domain::audit::anchor::ORGANIZATION;
use crate::domain::entry::EntryState;
use crate::domain::ids::EventId;
use crate::domain::role::Act;
use crate::domain::{audit, sheet};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/queue.csv", get(queue))
        .route("/events/{event}/audit.csv", get(audit))
        .route("/audit.csv", get(organization_audit))
}

/// Rows read at a time: so many are in memory, however long the table is.
const ROWS: i64 = 1_000;

/// A table that broke off says so by a connection that breaks off.
type Broken = Box<dyn std::error::Error + Send + Sync>;

/// Lines of a table, every cell inert.
fn lines<const N: usize>(rows: impl IntoIterator<Item = [String; N]>) -> Result<Vec<u8>, Broken> {
    let mut out = csv::Writer::from_writer(Vec::new());
    for row in rows {
        out.write_record(row.iter().map(|cell| sheet::inert(cell).into_owned()))?;
    }
    Ok(out.into_inner()?)
}

/// A file that is sent as it is read: `page` gives the lines behind a key, and the key they end with.
fn file<K, F>(
    name: &str,
    head: Result<Vec<u8>, Broken>,
    first: K,
    page: impl FnMut(K) -> F + Send + 'static,
) -> Response
where
    K: Send + 'static,
    F: Future<Output = Result<Option<(Vec<u8>, K)>, Broken>> + Send + 'static,
{
    // Spreadsheets take a table without this mark for another encoding.
    let mark = once(ready(Ok("\u{FEFF}".as_bytes().to_vec())));
    let table = mark.chain(once(ready(head))).chain(try_unfold(first, page));
    let named = format!("attachment; filename=\"{name}.csv\"");
    let kind = "text/csv; charset=utf-8".to_owned();
    ([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, named)], Body::from_stream(table)).into_response()
}

/// In the event's zone, with the offset: for people, and exact.
fn local(at: DateTime<Utc>, zone: Tz) -> String {
    at.with_timezone(&zone).to_rfc3339_opts(SecondsFormat::Micros, false)
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct QueueQuery {
    state: String,
}

/// Everybody in the view of that name, in the order of the line. The columns are those by which a list is imported.
async fn queue(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<QueueQuery>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let event = staff.event(&state, event).await?;
    let view = super::queue::view(&query.state, false);
    let organization = staff.member.organization;
    let head = ["Position", "Name", "Email", "Places", "Status", "Joined", "Since", "Offer ends", "Entry"];
    let name = format!("{}-queue", event.slug);
    let head = lines([head.map(str::to_owned)]);
    Ok(file(&name, head, (Turn::First, 0), move |(turn, mut ahead)| {
        let db = state.db.clone();
        let filter = QueueFilter { view, search: String::new(), backwards: false, turn, positions: false };
        async move {
            let rows = db.queue(event.id, organization, &filter, ROWS).await?;
            let Some(last) = rows.last().map(|row| Turn::After(row.key)) else { return Ok(None) };
            let rows = rows.iter().map(|row| {
                // The whole line comes by in its order: whoever can be offered a place is counted.
                let position = (view == QueueView::State(EntryState::Waiting)).then_some(ahead + 1);
                ahead += i64::from(row.hindrance.is_none());
                waiting(row, position, event.zone)
            });
            Ok(Some((lines(rows)?, (last, ahead))))
        }
    }))
}

fn waiting(row: &QueueRow, position: Option<i64>, zone: Tz) -> [String; 9] {
    let text = |text: Option<String>| text.unwrap_or_default();
    [
        text(position.map(|position| position.to_string())),
        row.name.clone(),
        text(row.email.clone()),
        row.party.to_string(),
        row.state.to_string(),
        local(row.joined_at, zone),
        local(row.since, zone),
        text(row.offer.map(|(_, until)| local(until, zone))),
        row.entry.to_string(),
    ]
}

async fn audit(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::ExportAudit)?;
    let event = staff.event(&state, event).await?;
    Ok(chain(&state, event.id.into(), &event.slug))
}

/// What was done outside events.
async fn organization_audit(State(state): State<WebState>, staff: Staff) -> Result<Response, Error> {
    staff.require(Act::SeeOrganizationAudit)?;
    Ok(chain(&state, staff.member.organization.into(), ORGANIZATION))
}

/// A whole chain, the oldest first, with everything that is hashed and the hash: who has it can check it.
pub fn chain(state: &WebState, of: ChainOf, name: &str) -> Response {
    let db = state.db.clone();
    let head = lines([audit::file::COLUMNS.map(str::to_owned)]);
    // From below the first number, so that no record is left out.
    file(&format!("{name}-audit"), head, i64::MIN, move |after| {
        let db = db.clone();
        async move {
            let records = db.audit_records(of, after, ROWS).await?;
            let Some(last) = records.last().map(|full| full.record.seq) else { return Ok(None) };
            Ok(Some((lines(records.iter().map(audit::file::cells))?, last)))
        }
    })
}
