//! Pass requests: which lists are to be looked at, since when, and what the last look at each came to.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Duration, Utc};

use super::super::WebState;
use super::super::error::Error;
use super::super::page::{Layout, Page, Section};
use super::Staff;
use super::words;
use crate::db::pages_passes::PassLine;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/passes", get(show))
}

/// Events that were looked at within this time are shown.
const RECENT: Duration = Duration::days(1);

/// A pass that was asked for and has not run for so long means that nobody is at work.
const LATE: Duration = Duration::seconds(60);

const SHOWN: usize = 100;

#[derive(Template)]
#[template(path = "staff/passes.html")]
struct PassesPage {
    layout: Layout,
    lines: Vec<PassLine>,
    more: bool,
    now: DateTime<Utc>,
}

impl PassesPage {
    fn sentence(&self) -> String {
        let asked = self.lines.iter().filter(|line| line.asked_since.is_some()).count();
        let late = self.lines.iter().filter(|line| self.is_late(line)).count();
        match (asked, late) {
            (0, _) => "Every list has been looked at since something last happened to it.".to_owned(),
            (1, 0) => "1 list is about to be looked at.".to_owned(),
            (n, 0) => format!("{n} lists are about to be looked at."),
            (_, 1) => {
                "1 list has waited for more than a minute to be looked at: is a server running?".to_owned()
            }
            (_, n) => {
                format!("{n} lists have waited for more than a minute to be looked at: is a server running?")
            }
        }
    }

    fn is_late(&self, line: &PassLine) -> bool {
        line.asked_since.is_some_and(|since| self.now - since > LATE)
    }

    /// The chip: its look and its word.
    fn state(&self, line: &PassLine) -> (&'static str, &'static str) {
        match line.asked_since {
            None => ("accepted", "looked at"),
            Some(_) if self.is_late(line) => ("revoked", "late"),
            Some(_) if line.leased_until.is_some_and(|until| self.now < until) => {
                ("pending", "being looked at")
            }
            Some(_) => ("waiting", "asked for"),
        }
    }

    fn asked(&self, line: &PassLine) -> Option<When> {
        line.asked_since.map(|at| When::new(at, line.zone, self.now))
    }

    fn looked(&self, line: &PassLine) -> Option<(String, When)> {
        let (outcome, offered, at) = line.last?;
        Some((words::pass(outcome, offered), When::new(at, line.zone, self.now)))
    }
}

async fn show(State(state): State<WebState>, staff: Staff) -> Result<Page<PassesPage>, Error> {
    let limit = i64::try_from(SHOWN + 1).unwrap_or(i64::MAX);
    let mut lines = state.db.pass_lines(staff.member.organization, staff.now - RECENT, limit).await?;
    let more = lines.len() > SHOWN;
    lines.truncate(SHOWN);
    let layout = staff.layout("Passes", Section::Events).await?.live(10);
    Ok(Page(PassesPage { layout, lines, more, now: staff.now }))
}
