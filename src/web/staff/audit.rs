//! An event's audit: what happened, by whom and why, the newest first.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Layout, Page};
use super::Staff;
use super::frame::{EventFrame, Tab};
use super::words;
use crate::db::pages_history::{AuditFilter, Step};
use crate::domain::audit::Act as Done;
use crate::domain::ids::EventId;
use crate::domain::reason::Reason;
use crate::domain::role::Act;
use crate::domain::standing::{grouped, places_in_words};
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/audit", get(list))
}

const ROWS: usize = 100;

#[derive(Deserialize, Default)]
#[serde(default)]
struct AuditQuery {
    act: String,
    subject: String,
    actor: String,
    before: String,
}

#[derive(Template)]
#[template(path = "staff/audit.html")]
struct AuditPage {
    layout: Layout,
    frame: EventFrame,
    query: AuditQuery,
    errors: Errors,
    rows: Vec<Step>,
    next: Option<String>,
    length: i64,
    head: String,
    may_anchor: bool,
    of_organization: bool,
}

impl AuditPage {
    fn sentence(&self) -> String {
        match self.length {
            0 => "Nothing is on record yet.".to_owned(),
            1 => "1 record.".to_owned(),
            length => format!("{} records, each sealed by the hash of the one before.", grouped(length)),
        }
    }

    fn when(&self, row: &Step) -> When {
        self.frame.when(row.at)
    }

    fn title(row: &Step) -> String {
        row.act.map_or_else(|| row.word.clone(), |act| words::title(act).to_owned())
    }

    fn doer(row: &Step) -> String {
        words::doer(&row.by)
    }

    fn reason(row: &Step) -> &'static str {
        row.reason.map_or("", Reason::label)
    }

    /// What somebody asks for now, which is no state.
    fn asked(row: &Step) -> Option<String> {
        let to = row.to.as_deref()?;
        match row.act? {
            Done::PartyChanged => to.parse().ok().map(places_in_words),
            Done::WantsChanged if to == "0" => Some("any place".to_owned()),
            Done::WantsChanged => Some("some places only".to_owned()),
            _ => None,
        }
    }

    /// The page of what was acted upon, where it has one.
    fn subject(&self, row: &Step) -> Option<String> {
        match row.subject.as_str() {
            "entry" | "wants" => Some(self.frame.path(format!("/entries/{}", row.subject_id))),
            "offer" => Some(self.frame.path(format!("/offers/{}", row.subject_id))),
            "place" => Some(self.frame.path(format!("/places/{}", row.subject_id))),
            _ => None,
        }
    }

    fn acts() -> Vec<(&'static str, &'static str)> {
        let mut acts = vec![("", "everything")];
        acts.extend(Done::ALL.iter().map(|act| (act.as_str(), words::title(*act))));
        acts
    }

    fn subjects() -> [(&'static str, &'static str); 6] {
        [
            ("", "anything"),
            ("entry", "entries"),
            ("offer", "offers"),
            ("place", "places"),
            ("booking", "bookings"),
            ("event", "the event, its list and rule"),
        ]
    }

    fn actors() -> [(&'static str, &'static str); 6] {
        [
            ("", "anybody"),
            ("system", "the rule"),
            ("person", "customers"),
            ("staff", "staff"),
            ("key", "programs"),
            ("operator", "the command line"),
        ]
    }

    fn filtered(&self) -> bool {
        !(self.query.act.is_empty() && self.query.subject.is_empty() && self.query.actor.is_empty())
    }
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<AuditQuery>,
) -> Result<Page<AuditPage>, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    let chosen = |text: &str| (!text.is_empty()).then(|| text.to_owned());
    let filter = AuditFilter {
        act: Done::parse(&query.act),
        subject: chosen(&query.subject),
        actor: chosen(&query.actor),
        before: query.before.parse().ok(),
    };
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.audit_steps(event.id, &filter, limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let (length, head) = state.db.audit_head(event.id).await?;
    let frame = EventFrame::new(event, Tab::Audit, staff.now);
    let next = rows.last().filter(|_| more).map(|row| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("act", &query.act)
            .append_pair("subject", &query.subject)
            .append_pair("actor", &query.actor)
            .append_pair("before", &row.seq.to_string())
            .finish();
        frame.path(format!("/audit?{query}"))
    });
    let layout = staff.event_layout(&frame.event, "Audit").await?;
    Ok(Page(AuditPage {
        layout,
        frame,
        query,
        errors: Errors::default(),
        rows,
        next,
        length,
        head: hex::encode(head),
        may_anchor: staff.may(Act::TakeAnchor),
        of_organization: staff.may(Act::SeeOrganizationAudit),
    }))
}
