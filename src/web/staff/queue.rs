//! The queue of one event: states with their counts as links, search, pages; the acts on the row.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{FilterLink, Layout, Page};
use super::Staff;
use super::entry_acts::EntryAct;
use super::frame::{EventFrame, Tab, back_query, people};
use super::next::{Halt, Line};
use super::offer_acts::OfferAct;
use super::words;
use crate::db::counts::EntryCounts;
use crate::db::pages_queue::{QueueFilter, QueueRow, QueueView, Turn};
use crate::db::pages_staff::HinderedCounts;
use crate::domain::entry::{EntryState, Hindrance, OrderKey};
use crate::domain::ids::EventId;
use crate::domain::policy::Policy;
use crate::domain::role::Act;
use crate::domain::standing::grouped;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/queue", get(show))
}

const ROWS: usize = 50;

#[derive(Deserialize, Default)]
#[serde(default)]
struct QueueQuery {
    state: String,
    q: String,
    sort: String,
    after: String,
    before: String,
}

#[derive(Template)]
#[template(path = "staff/queue.html")]
#[expect(clippy::struct_excessive_bools, reason = "what this reader may do and what there is to see")]
struct QueuePage {
    layout: Layout,
    frame: EventFrame,
    filters: Vec<FilterLink>,
    query: QueueQuery,
    view: String,
    rows: Vec<QueueRow>,
    total: Option<i64>,
    more: bool,
    previous: Option<String>,
    next: Option<String>,
    line: Line,
    policy: Policy,
    none_at_all: bool,
    may_act: bool,
    may_import: bool,
}

/// The view that a query names; the line unless it names one.
pub(super) fn view(text: &str, searching: bool) -> QueueView {
    match text {
        "paused" => QueueView::Paused,
        "set_aside" => QueueView::SetAside,
        "contact_problem" => QueueView::ContactProblem,
        state => match EntryState::parse(state) {
            Some(state) => QueueView::State(state),
            None if searching => QueueView::Any,
            None => QueueView::State(EntryState::Waiting),
        },
    }
}

fn word(view: QueueView) -> &'static str {
    match view {
        QueueView::State(state) => state.as_str(),
        QueueView::Paused => "paused",
        QueueView::SetAside => "set_aside",
        QueueView::ContactProblem => "contact_problem",
        QueueView::Any => "",
    }
}

/// An order key in an address: "0.1.1048576".
fn key(text: &str) -> Option<OrderKey> {
    let mut parts = text.splitn(3, '.');
    let key = OrderKey {
        band: parts.next()?.parse().ok()?,
        round: parts.next()?.parse().ok()?,
        rank: parts.next()?.parse().ok()?,
    };
    Some(key)
}

fn key_text(key: OrderKey) -> String {
    format!("{}.{}.{}", key.band, key.round, key.rank)
}

/// An address of the queue with only the fields that say something.
fn address(frame: &EventFrame, fields: &[(&str, &str)]) -> String {
    let mut query = form_urlencoded::Serializer::new(String::new());
    let said: Vec<_> = fields.iter().filter(|(_, value)| !value.is_empty()).collect();
    if said.is_empty() {
        return frame.path("/queue");
    }
    for (name, value) in said {
        query.append_pair(name, value);
    }
    frame.path(format!("/queue?{}", query.finish()))
}

impl QueuePage {
    /// The table of the view that is shown, without the search.
    fn export(&self) -> String {
        self.frame.path(format!("/queue.csv?state={}", word(view(&self.query.state, false))))
    }

    fn since(&self, row: &QueueRow) -> When {
        self.frame.when(row.since)
    }

    fn joined(&self, row: &QueueRow) -> When {
        self.frame.when(row.joined_at)
    }

    fn deadline(&self, instant: &chrono::DateTime<chrono::Utc>) -> When {
        self.frame.when(*instant)
    }

    fn is_next(&self, row: &QueueRow) -> bool {
        self.line.next.as_ref().is_some_and(|next| next.who.candidate.entry == row.entry)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates lend what they pass")]
    fn hindrance(hindrance: &Hindrance) -> &'static str {
        words::hindrance_word(*hindrance)
    }

    /// The acts on a row: their addresses, which come back to this view, and their words.
    fn acts(&self, row: &QueueRow) -> Vec<(String, &'static str)> {
        if !self.may_act {
            return vec![];
        }
        let back = back_query(&self.view);
        let mut acts = Vec::new();
        if let Some((offer, _)) = row.offer {
            for act in [OfferAct::Extend, OfferAct::Revoke] {
                acts.push((self.frame.path(format!("/offers/{offer}/{}?{back}", act.word())), act.label()));
            }
        }
        let paused = matches!(row.hindrance, Some(Hindrance::Paused(_)));
        let aside = row.hindrance == Some(Hindrance::SetAside);
        let unreachable = row.hindrance == Some(Hindrance::ContactProblem);
        for act in EntryAct::ALL.into_iter().filter(|act| !matches!(act, EntryAct::Group | EntryAct::Move)) {
            if act.applies(row.state, paused, aside, unreachable) {
                let path = format!("/entries/{}/{}?{back}", row.entry, act.word());
                acts.push((self.frame.path(path), act.label()));
            }
        }
        acts
    }

    /// Whether the rows stand in the order of the line, so that the last column may be left out.
    fn searching(&self) -> bool {
        !self.query.q.trim().is_empty()
    }

    fn sentence(&self) -> String {
        let found = i64::try_from(self.rows.len()).unwrap_or(i64::MAX);
        if self.searching() {
            let more = if self.more { "The first " } else { "" };
            return format!("{more}{} found for “{}”.", people(found), self.query.q.trim());
        }
        match self.total {
            Some(1) => "1 entry.".to_owned(),
            Some(total) => format!("{} entries.", grouped(total)),
            None => String::new(),
        }
    }

    /// What the line does without anybody, in a sentence.
    fn by_itself(&self) -> String {
        self.line.halt.map_or_else(|| self.policy.by_itself(), Halt::sentence)
    }

    fn sort_link(&self) -> (String, &'static str) {
        let fields = [("state", self.query.state.as_str()), ("q", self.query.q.trim())];
        if self.query.sort == "last" {
            (address(&self.frame, &fields), "First in line first")
        } else {
            (address(&self.frame, &[fields[0], fields[1], ("sort", "last")]), "Last in line first")
        }
    }
}

fn filters(
    frame: &EventFrame,
    counts: &EntryCounts,
    hindered: HinderedCounts,
    current: QueueView,
    sort: &str,
) -> Vec<FilterLink> {
    let mut links = Vec::new();
    let mut add = |view: QueueView, label: String, count: i64| {
        // What never happens here needs no link, but the view shown always has one.
        if count > 0
            || view == current
            || matches!(
                view,
                QueueView::State(EntryState::Waiting | EntryState::Offered | EntryState::Accepted)
            )
        {
            links.push(FilterLink {
                href: address(frame, &[("state", word(view)), ("sort", sort)]),
                label,
                count: Some(count),
                current: view == current,
            });
        }
    };
    add(QueueView::State(EntryState::Waiting), "waiting".to_owned(), counts.of(EntryState::Waiting));
    add(QueueView::Paused, "paused".to_owned(), hindered.paused);
    add(QueueView::SetAside, "set aside".to_owned(), hindered.set_aside);
    add(QueueView::ContactProblem, "contact problem".to_owned(), hindered.contact_problem);
    for state in EntryState::ALL.iter().filter(|state| **state != EntryState::Waiting) {
        add(QueueView::State(*state), state.to_string(), counts.of(*state));
    }
    links
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(mut query): Query<QueueQuery>,
) -> Result<Page<QueuePage>, Error> {
    let event = staff.event(&state, event).await?;
    let id = event.id;
    let policy = state.db.policy(id).await?;
    let counts = state.db.entry_counts(id).await?;
    let hindered = state.db.hindered_counts(id, None).await?;
    let line = Line::read(&state, &event, &policy, staff.now).await?;
    query.q = query.q.chars().take(200).collect();
    let searching = !query.q.trim().is_empty();
    let shown = view(&query.state, searching);
    let filter = QueueFilter {
        view: shown,
        search: query.q.clone(),
        backwards: query.sort == "last",
        turn: match (key(&query.after), key(&query.before)) {
            (Some(after), _) => Turn::After(after),
            (None, Some(before)) => Turn::Before(before),
            (None, None) => Turn::First,
        },
        positions: true,
    };
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.queue(id, staff.member.organization, &filter, limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let frame = EventFrame::new(event, Tab::Queue, staff.now);
    let fields = [("state", query.state.as_str()), ("sort", query.sort.as_str())];
    let turned = |name: &'static str, row: Option<&QueueRow>| {
        let key = key_text(row?.key);
        Some(address(&frame, &[fields[0], fields[1], (name, key.as_str())]))
    };
    let (has_previous, has_next) = match filter.turn {
        _ if searching => (false, false),
        Turn::First => (false, more),
        Turn::After(_) => (true, more),
        Turn::Before(_) => (more, true),
    };
    let previous = if has_previous { turned("before", rows.first()) } else { None };
    let next = if has_next { turned("after", rows.last()) } else { None };
    let total = match shown {
        QueueView::State(state) => Some(counts.of(state)),
        QueueView::Paused => Some(hindered.paused),
        QueueView::SetAside => Some(hindered.set_aside),
        QueueView::ContactProblem => Some(hindered.contact_problem),
        QueueView::Any => None,
    };
    let sort = if query.sort == "last" { "last" } else { "" };
    let here = address(
        &frame,
        &[
            ("state", query.state.as_str()),
            ("q", query.q.trim()),
            ("sort", sort),
            ("after", query.after.as_str()),
            ("before", query.before.as_str()),
        ],
    );
    Ok(Page(QueuePage {
        layout: staff.event_layout(&frame.event, "Queue").await?.live(15),
        filters: filters(&frame, &counts, hindered, shown, sort),
        view: here,
        none_at_all: counts.by_state.values().sum::<i64>() == 0,
        may_act: staff.may(Act::ActOnEntries),
        may_import: staff.may(Act::Import),
        frame,
        query,
        rows,
        total,
        more,
        previous,
        next,
        line,
        policy,
    }))
}
