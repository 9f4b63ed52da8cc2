//! The structs of the import's pages, and the report as a table.

use askama::Template;

use super::super::super::page::{Errors, Layout};
use super::super::frame::EventFrame;
use super::look::{self, Choice};
use crate::db::import::Import;
use crate::domain::import::{Field, Look, Plan, Planned, PlannedState, Refusal, Remark, Reported, counted};
use crate::domain::standing::grouped;
use crate::domain::when::When;

/// How many rows of the report a page shows; the rest is in the table to download.
const ROWS_SHOWN: usize = 200;

/// How many of those who would be taken the preview shows.
const PEOPLE_SHOWN: usize = 8;

#[derive(Template)]
#[template(path = "staff/import.html")]
pub(super) struct UploadPage {
    pub layout: Layout,
    pub frame: EventFrame,
    pub before: Vec<Import>,
    pub errors: Errors,
}

#[derive(Template)]
#[template(path = "staff/import_preview.html")]
pub(super) struct PreviewPage {
    pub layout: Layout,
    pub frame: EventFrame,
    pub import: Import,
    pub look: Look,
    pub listed: i64,
    pub errors: Errors,
}

#[derive(Template)]
#[template(path = "staff/import_progress.html")]
pub(super) struct ProgressPage {
    pub layout: Layout,
    pub frame: EventFrame,
    pub import: Import,
    pub plan: Option<Plan>,
}

/// One part of the report: what it is about, how often, and the first rows.
pub(super) struct Part {
    pub title: &'static str,
    pub total: usize,
    pub kinds: Vec<(&'static str, usize)>,
    pub rows: Vec<Reported<String>>,
}

impl Part {
    pub fn more(&self) -> usize {
        self.total - self.rows.len()
    }

    fn of<T: std::fmt::Display>(
        title: &'static str,
        rows: &[Reported<T>],
        kind: fn(&T) -> &'static str,
    ) -> Self {
        let shown = rows.iter().take(ROWS_SHOWN);
        let shown =
            shown.map(|row| Reported { line: row.line, who: row.who.clone(), what: row.what.to_string() });
        Self { title, total: rows.len(), kinds: counted(rows, kind), rows: shown.collect() }
    }
}

/// The parts of a plan's report that have rows.
pub(super) fn parts(plan: &Plan) -> Vec<Part> {
    let mut parts = vec![
        Part::of("Not taken", &plan.refused, Refusal::kind),
        Part::of("Taken, but changed or doubtful", &plan.remarks, Remark::kind),
    ];
    parts.retain(|part| part.total > 0);
    parts
}

impl UploadPage {
    /// How an import stands, in a table's cell.
    fn standing(import: &Import) -> String {
        let already = import.already;
        match import.finished_at {
            None => format!("{} of {} so far", number(import.rows_done), count(import.rows_total, "person")),
            Some(_) if already > 0 => {
                format!("{} taken, {} on the list before", number(import.taken), number(already))
            }
            Some(_) => format!("{} taken", number(import.taken)),
        }
    }

    fn began(&self, import: &Import) -> When {
        self.frame.when(import.started_at.unwrap_or(import.uploaded_at))
    }
}

impl PreviewPage {
    /// The page's answer.
    fn answer(plan: &Plan) -> String {
        let (waiting, expired) = (plan.count(PlannedState::Waiting), plan.count(PlannedState::Expired));
        if plan.people.is_empty() {
            return format!(
                "Nobody would join the list: none of the file's {} can be taken.",
                count(plan.rows, "row")
            );
        }
        let expired = match expired {
            0 => String::new(),
            expired => format!(", {} on record as expired", number(expired)),
        };
        format!(
            "{} of {} would be taken: {} in the line{expired}.",
            count(plan.people.len(), "person"),
            count(plan.rows, "row"),
            number(waiting)
        )
    }

    fn people(plan: &Plan) -> String {
        count(plan.people.len(), "person")
    }

    fn behind(&self) -> String {
        match self.listed {
            0 => "The list is empty: they would be its first.".to_owned(),
            1 => "They would stand behind the one person who is listed already.".to_owned(),
            listed => format!("They would stand behind the {} who are listed already.", grouped(listed)),
        }
    }

    fn order(&self) -> &'static str {
        let by_time = self.look.reading.columns.iter().any(|(field, _)| *field == Field::Joined);
        if by_time {
            "Among themselves they keep their order: by their time of joining, and by place in the file where that is the same."
        } else {
            "Among themselves they keep the order of the file."
        }
    }

    fn first(plan: &Plan) -> &[Planned] {
        &plan.people[..plan.people.len().min(PEOPLE_SHOWN)]
    }

    fn joined(&self, person: &Planned) -> Option<When> {
        person.joined_at.map(|at| self.frame.when(at))
    }

    fn state(person: &Planned) -> &'static str {
        match person.state {
            PlannedState::Waiting => "waiting",
            PlannedState::Expired => "expired",
        }
    }

    fn act(&self) -> String {
        self.frame.path(format!("/import/{}", self.import.id))
    }

    fn parts(plan: &Plan) -> Vec<Part> {
        parts(plan)
    }

    fn report(&self) -> String {
        format!("{}/report.csv?{}", self.act(), look::query(&self.look))
    }

    fn options(&self) -> Vec<(String, String)> {
        look::options(&self.look)
    }

    fn choices(&self) -> Vec<Choice> {
        look::choices(&self.look)
    }
}

impl ProgressPage {
    fn answer(&self) -> String {
        let taken = count(self.import.taken, "person");
        match (self.import.finished_at, self.import.already) {
            (None, _) => format!(
                "{} of {} are seen to. You may close this page: it goes on.",
                number(self.import.rows_done),
                count(self.import.rows_total, "person")
            ),
            (Some(_), 0) => format!("{taken} of {} joined the list.", self.import.file_name),
            (Some(_), already) => format!(
                "{taken} of {} joined the list; {already} were on it before and stay as they are.",
                self.import.file_name
            ),
        }
    }

    fn ended(&self) -> Option<When> {
        self.import.finished_at.map(|at| self.frame.when(at))
    }

    fn parts(&self) -> Vec<Part> {
        self.plan.as_ref().map(parts).unwrap_or_default()
    }

    fn report(&self) -> String {
        self.frame.path(format!("/import/{}/report.csv", self.import.id))
    }
}

/// "1,158".
fn number(n: usize) -> String {
    grouped(i64::try_from(n).unwrap_or(i64::MAX))
}

/// "1 row", "2 rows", "3 people".
pub(super) fn count(n: usize, what: &str) -> String {
    let number = number(n);
    match (n, what) {
        (1, what) => format!("1 {what}"),
        (_, "person") => format!("{number} people"),
        (_, what) => format!("{number} {what}s"),
    }
}
