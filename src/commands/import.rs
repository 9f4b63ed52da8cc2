//! `fairlist import`: a list from elsewhere, with a progress bar and a report.

use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Database, Failure, told_to_stop};
use crate::clock::Clock;
use crate::config::{Common, ImportArguments};
use crate::db::{Db, DbError, PoolSizes};
use crate::domain::audit::Actor;
use crate::domain::event::{Event, EventState};
use crate::domain::ids::ImportId;
use crate::domain::import::{
    Field, FileError, Mapping, MappingError, Plan, PlannedState, ReadingError, Refusal, Remark, Reported,
    Table, counted,
};
use crate::waitlist::import::{self, Request, StartOutcome};

/// Why nothing, or not everything, was imported.
#[derive(Debug, thiserror::Error)]
pub enum ImportFailure {
    /// The file cannot be opened.
    #[error("{file}: {source}")]
    Open {
        /// Which.
        file: String,
        /// What the system said.
        #[source]
        source: io::Error,
    },
    /// The file cannot be imported.
    #[error("{file}: {why}")]
    File {
        /// Which.
        file: String,
        /// Why.
        #[source]
        why: FileError,
    },
    /// The columns are not known.
    #[error("{why}\nThe file has the columns {columns}.\nName them like this: {example}")]
    Columns {
        /// Why.
        #[source]
        why: MappingError,
        /// What the file has.
        columns: String,
        /// A mapping to begin with.
        example: String,
    },
    /// There is no such event.
    #[error("there is no event “{0}”; its slug is the last part of its address")]
    NoEvent(String),
    /// Another file is being imported.
    #[error(
        "another file is being imported into this list; wait until it is done, or a minute if it was killed"
    )]
    AnotherRuns,
    /// Nobody can wait for it any more.
    #[error("the event is {0}: nobody can be put on its list")]
    EventEnded(EventState),
    /// Told to stop.
    #[error("stopped after {done} of {total} people; the same command carries on from there")]
    Stopped {
        /// How many were seen to.
        done: usize,
        /// Of how many.
        total: usize,
    },
    /// The report cannot be printed.
    #[error("the report cannot be printed: {0}")]
    Print(#[from] io::Error),
    /// The database.
    #[error(transparent)]
    Database(#[from] DbError),
}

/// Imports a file, or says what would come of it.
pub(super) async fn run(common: &Common, arguments: &ImportArguments) -> Result<ExitCode, Failure> {
    // Before a server is started for it.
    let file = arguments.file.display().to_string();
    let bytes = tokio::fs::read(&arguments.file)
        .await
        .map_err(|source| ImportFailure::Open { file: file.clone(), source })?;
    let database = Database::attach(common).await?;
    let imported = match database.migrate().await {
        Ok(()) => {
            let db = Db::new(&database.options, PoolSizes::default(), Clock::database()).for_workers();
            let imported = import(&db, arguments, &file, &bytes).await;
            db.close().await;
            imported.map_err(Failure::from)
        }
        Err(failure) => Err(failure),
    };
    database.stop().await?;
    imported?;
    Ok(ExitCode::SUCCESS)
}

async fn import(db: &Db, arguments: &ImportArguments, file: &str, bytes: &[u8]) -> Result<(), ImportFailure> {
    let event = match db.event_by_slug(&arguments.event).await {
        Err(DbError::NotFound) => return Err(ImportFailure::NoEvent(arguments.event.clone())),
        event => event?,
    };
    let table = Table::open(bytes).map_err(|why| ImportFailure::File { file: file.to_owned(), why })?;
    let mapping = mapping(&table, &arguments.map)?;
    let reading = import::reading(db, &event, mapping.columns().collect()).await?;
    let mut plan = reading.plan(bytes, db.now().await?).map_err(|why| match why {
        ReadingError::File(why) => ImportFailure::File { file: file.to_owned(), why },
        ReadingError::Columns(why) => wrong_columns(&table, why),
    })?;
    let mut out = io::stdout().lock();
    writeln!(
        out,
        "{file}: {}{}, for {}.",
        count(plan.rows, "row"),
        if mapping.is_pretix() { " of a waiting list exported by pretix" } else { "" },
        event.name
    )?;
    if arguments.dry_run {
        plan.leave_out(&db.listed_among(&event, &plan.people).await?);
        report(&mut out, &plan, Tense::Would)?;
        writeln!(out, "Nothing was written.")?;
        return Ok(());
    }
    drop(out);
    let request = Request {
        file_name: arguments.file.file_name().and_then(|name| name.to_str()).unwrap_or("list.csv"),
        bytes,
        reading: &reading,
        plan: &plan,
        upload: None,
        tell: arguments.tell,
        by: Actor::Operator,
    };
    let id = match import::start(db, event.id, &request).await? {
        StartOutcome::Started(id) => id,
        StartOutcome::Resumed(before) => {
            eprintln!(
                "This import was interrupted after {} of {}: carried on from there.",
                before.rows_done,
                count(before.rows_total, "person")
            );
            before.id
        }
        StartOutcome::AlreadyDone(before) => {
            plan.leave_out(&db.listed_before(event.id, before.id).await?);
            let mut out = io::stdout().lock();
            report(&mut out, &plan, Tense::Were)?;
            let when =
                crate::domain::when::absolute(before.finished_at.unwrap_or(before.uploaded_at), event.zone);
            writeln!(out, "That was on {when}. Nothing was done now.")?;
            return Ok(());
        }
        StartOutcome::AnotherRuns => return Err(ImportFailure::AnotherRuns),
        StartOutcome::EventEnded(state) => return Err(ImportFailure::EventEnded(state)),
    };
    let longest = with_a_bar(db, &event, id, &plan).await?;
    plan.leave_out(&db.listed_before(event.id, id).await?);
    let mut out = io::stdout().lock();
    report(&mut out, &plan, Tense::Are)?;
    writeln!(out, "The list was locked for {} ms at a time at most.", longest.as_millis())?;
    Ok(())
}

fn mapping(table: &Table<'_>, named: &[(Field, String)]) -> Result<Mapping, ImportFailure> {
    if let Some(known) = Mapping::recognise(table).filter(|_| named.is_empty()) {
        return Ok(known);
    }
    Mapping::name(table, named).map_err(|why| wrong_columns(table, why))
}

/// A refusal with what the file has and a command to begin with.
fn wrong_columns(table: &Table<'_>, why: MappingError) -> ImportFailure {
    let labels = table.labels();
    let quoted = |text: &str| crate::domain::contact::inert(&format!("“{text}”"), 80);
    let guess = Mapping::guess(table);
    let example = Field::ALL
        .into_iter()
        .filter_map(|field| {
            let column = guess.column(field);
            (column.is_some() || field.is_required()).then(|| {
                let label = column.and_then(|column| labels.get(column)).map_or("COLUMN", String::as_str);
                format!("--map {}='{}'", field.key(), crate::domain::contact::inert(label, 80))
            })
        })
        .collect::<Vec<_>>()
        .join(" ");
    let columns = labels.iter().map(|label| quoted(label)).collect::<Vec<_>>().join(", ");
    ImportFailure::Columns { why, columns, example }
}

/// Runs the import under a progress bar until it is done or told to stop. Answers the longest time under the lock.
async fn with_a_bar(db: &Db, event: &Event, id: ImportId, plan: &Plan) -> Result<Duration, ImportFailure> {
    let bar = ProgressBar::new(plan.people.len() as u64);
    let style =
        ProgressStyle::with_template("{bar:40} {human_pos} of {human_len} people, {per_sec}, {eta} to go");
    bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
    let mut longest = Duration::ZERO;
    let mut done = 0;
    let run = import::run(db, event.id, id, plan, |progress| {
        done = progress.done;
        longest = longest.max(progress.locked);
        bar.set_position(progress.done as u64);
    });
    let end = tokio::select! {
        end = run => Some(end),
        _ = told_to_stop() => None,
    };
    bar.finish_and_clear();
    match end {
        Some(end) => end.map(|_| longest).map_err(ImportFailure::from),
        None => Err(ImportFailure::Stopped { done, total: plan.people.len() }),
    }
}

#[derive(Clone, Copy)]
enum Tense {
    Would,
    Are,
    Were,
}

/// What is taken in sums, and what is not row by row.
fn report(out: &mut impl Write, plan: &Plan, tense: Tense) -> io::Result<()> {
    let verb = match tense {
        Tense::Would => "would be taken",
        Tense::Are => "are taken",
        Tense::Were => "were taken",
    };
    let (waiting, expired) = (plan.count(PlannedState::Waiting), plan.count(PlannedState::Expired));
    writeln!(out, "{} {verb}: {waiting} waiting, {expired} expired.", count(plan.people.len(), "person"))?;
    section(out, "Not taken", &plan.refused, Refusal::kind)?;
    section(out, "Taken, but changed or doubtful", &plan.remarks, Remark::kind)?;
    if !plan.unused.is_empty() {
        writeln!(out, "Columns not used: {}.", plan.unused.join(", "))?;
    }
    Ok(())
}

fn section<T: std::fmt::Display>(
    out: &mut impl Write,
    title: &str,
    rows: &[Reported<T>],
    kind: fn(&T) -> &'static str,
) -> io::Result<()> {
    if rows.is_empty() {
        return Ok(());
    }
    let kinds = counted(rows, kind).into_iter().map(|(kind, n)| format!("{n} × {kind}")).collect::<Vec<_>>();
    writeln!(out, "{title}: {} ({}).", count(rows.len(), "row"), kinds.join(", "))?;
    for row in rows {
        writeln!(out, "  line {}, {}: {}", row.line, row.who, row.what)?;
    }
    Ok(())
}

/// "1 row", "2 rows", "3 people".
fn count(n: usize, what: &str) -> String {
    match (n, what) {
        (1, what) => format!("1 {what}"),
        (n, "person") => format!("{n} people"),
        (n, what) => format!("{n} {what}s"),
    }
}
