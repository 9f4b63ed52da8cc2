//! Lists that are brought in over the web: a file is kept, looked at, started, and what became of it can be read while the
//! file is kept. The importer does the rest.

use chrono::{DateTime, Utc};

use tokio::sync::Semaphore;

use super::import::{self, Request, StartOutcome};
use crate::db::idempotency::claim;
use crate::db::import::Import;
use crate::db::locked_event::retry;
use crate::db::{Db, DbError};
use crate::domain::audit::Actor;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, ImportId};
use crate::domain::import::{Asked, FileError, Look, Plan, Table};
use crate::domain::sheet;

/// Files are large, and so is what they become: few are worked on at once, and the others wait. So the workers, whose
/// connections are used, are kept from nothing.
static LARGE: Semaphore = Semaphore::const_new(2);

/// Keeps a file, if it is one that can be looked at.
///
/// # Errors
/// What the database says.
pub async fn keep(
    db: &Db,
    event: EventId,
    file_name: &str,
    bytes: Vec<u8>,
    by: Actor,
) -> Result<Result<ImportId, FileError>, DbError> {
    let _one_of_few = LARGE.acquire().await;
    let (bytes, opened) = apart(move || {
        let opened = Table::open(&bytes).map(drop);
        (bytes, opened)
    })
    .await?;
    Ok(match opened {
        Ok(()) => {
            let kept = db.for_workers().keep_upload(event, file_name, &bytes, by).await?;
            kept.ok_or(FileError::TooManyKept)
        }
        Err(why) => Err(why),
    })
}

/// Reads the kept file as asked for, and leaves out whoever is on the list already.
///
/// # Errors
/// [`DbError::NotFound`] when the file is forgotten by now.
pub async fn look(
    db: &Db,
    event: &Event,
    import: ImportId,
    asked: Asked,
    now: DateTime<Utc>,
) -> Result<Look, DbError> {
    let mut look = read(db, event, import, asked, now).await?;
    if let Ok(plan) = &mut look.plan {
        let listed = db.for_workers().listed_among(event, &plan.people).await?;
        plan.leave_out(&listed);
    }
    Ok(look)
}

async fn read(
    db: &Db,
    event: &Event,
    import: ImportId,
    asked: Asked,
    now: DateTime<Utc>,
) -> Result<Look, DbError> {
    let _one_of_few = LARGE.acquire().await;
    let content = db.for_workers().import_content(event.id, import).await?.ok_or(DbError::NotFound)?;
    let empty = import::reading(db, event, Vec::new()).await?;
    apart(move || Look::at(content, &asked, &empty, now)).await
}

/// What a file became whose import was started, while the file is kept.
///
/// # Errors
/// What the database says.
pub async fn kept_plan(db: &Db, import: &Import, now: DateTime<Utc>) -> Result<Option<Plan>, DbError> {
    let Some(reading) = import.reading.clone() else { return Ok(None) };
    let _one_of_few = LARGE.acquire().await;
    let Some(bytes) = db.for_workers().import_content(import.event, import.id).await? else {
        return Ok(None);
    };
    let already = db.for_workers().listed_before(import.event, import.id).await?;
    apart(move || {
        let mut plan = reading.plan(&bytes, now).ok()?;
        plan.leave_out(&already);
        Some(plan)
    })
    .await
}

/// Starts the import of a kept file, read as asked for. Says how it was read, and what became of the wish, or nothing where
/// it could not be read like that.
///
/// # Errors
/// [`DbError::NotFound`] when the file is forgotten by now.
pub async fn start(
    db: &Db,
    event: &Event,
    import: &Import,
    asked: Asked,
    tell: bool,
    by: Actor,
    now: DateTime<Utc>,
) -> Result<(Look, Option<StartOutcome>), DbError> {
    let look = read(db, event, import.id, asked, now).await?;
    let outcome = match &look.plan {
        Ok(plan) => {
            let request = Request {
                file_name: &import.file_name,
                bytes: &look.bytes,
                reading: &look.reading,
                plan,
                upload: Some(import.id),
                tell,
                by,
            };
            Some(import::start(&db.for_workers(), event.id, &request).await?)
        }
        Err(_) => None,
    };
    Ok((look, outcome))
}

/// The import that the act which this request names started, if it was done before.
///
/// # Errors
/// What the database says.
pub async fn started_before(db: &Db, event: EventId) -> Result<Option<ImportId>, DbError> {
    if claim().is_none() {
        return Ok(None);
    }
    retry(db.entropy(), || {
        db.with_event(event, async |event| {
            event.nothing_to_write();
            event.done_before().await
        })
    })
    .await
}

/// What is said of a file's rows, a row each, as a table. Cells that a spreadsheet would run get the quote that others put
/// there, too.
///
/// # Errors
/// Never: it is written to memory.
pub fn report_csv(plan: &Plan) -> Result<Vec<u8>, csv::Error> {
    let mut rows: Vec<(usize, &str, &'static str, String)> = Vec::new();
    rows.extend(plan.refused.iter().map(|row| (row.line, row.who.as_str(), "no", row.what.to_string())));
    rows.extend(plan.remarks.iter().map(|row| (row.line, row.who.as_str(), "yes", row.what.to_string())));
    rows.sort_by_key(|row| row.0);
    let mut out = csv::Writer::from_writer("\u{FEFF}".as_bytes().to_vec());
    out.write_record(["line", "person", "taken", "what"])?;
    for (line, who, taken, what) in rows {
        out.write_record([line.to_string().as_str(), &sheet::inert(who), taken, &what])?;
    }
    out.into_inner().map_err(|error| error.into_error().into())
}

/// Runs what takes a second away from the threads that answer requests.
async fn apart<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Result<T, DbError> {
    let broken = |error: tokio::task::JoinError| DbError::Unreadable("uploaded file", error.to_string());
    tokio::task::spawn_blocking(work).await.map_err(broken)
}
