//! Bringing a list from elsewhere: start, step by step to the end, carried on after an interruption.
//!
//! One step is one short transaction under the event's lock. How far the import is, is written with the people
//! it wrote, so that a step that is run again, here or by another process, goes on from there. Passes wait
//! while the lease on the event is fresh, and a pass is asked for at the end.

use std::time::{Duration, Instant};

use chrono::{DateTime, TimeDelta, Utc};

use crate::db::import::{Import, Imported, NewImport};
use crate::db::locked_event::retry;
use crate::db::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::event::{Event, EventState};
use crate::domain::ids::{EventId, ImportId};
use crate::domain::import::{Field, Plan, Reading};
use crate::domain::reason::Reason;

/// The most people of one step.
pub const MOST_PER_STEP: usize = 10_000;

/// The first step; the next are as large as the time they take allows.
const FIRST_STEP: usize = 500;

/// How long a step shall keep the event's lock; half of what it may.
const LOCK_GOAL: Duration = Duration::from_millis(250);

/// How long passes wait for an import that shows no sign of life.
const LEASE: TimeDelta = TimeDelta::seconds(60);

/// After how long without a step another process takes over: before passes go on.
const TAKEN_OVER: TimeDelta = TimeDelta::seconds(20);

/// How long an uploaded file and the names in its report are kept.
const KEPT: TimeDelta = TimeDelta::days(7);

/// A file that is to be imported, read and planned.
#[derive(Clone, Debug)]
pub struct Request<'a> {
    /// What the file is called.
    pub file_name: &'a str,
    /// The file.
    pub bytes: &'a [u8],
    /// How it is read.
    pub reading: &'a Reading,
    /// What it becomes when it is read in that way.
    pub plan: &'a Plan,
    /// Where it is kept, if it was uploaded.
    pub upload: Option<ImportId>,
    /// Whether those taken are written to.
    pub tell: bool,
    /// Who imports.
    pub by: Actor,
}

/// What became of the wish to import a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StartOutcome {
    /// It is under way.
    Started(ImportId),
    /// The same file was interrupted before: it goes on from there.
    Resumed(Box<Import>),
    /// The same file was imported before, to the end: nothing is done.
    AlreadyDone(Box<Import>),
    /// Another file is being imported into this list.
    AnotherRuns,
    /// The event was cancelled or is over.
    EventEnded(EventState),
}

/// How a file is read for this event.
///
/// # Errors
/// What the database says.
pub async fn reading(db: &Db, event: &Event, columns: Vec<(Field, usize)>) -> Result<Reading, DbError> {
    Ok(Reading { columns, zone: event.zone, largest_party: db.policy(event.id).await?.largest_party() })
}

/// Starts the import of a file, once: the same file read in the same way is the same import.
///
/// # Errors
/// What the database says.
pub async fn start(db: &Db, event: EventId, request: &Request<'_>) -> Result<StartOutcome, DbError> {
    let digest = request.reading.digest(request.bytes);
    retry(db.entropy(), || db.with_event(event, async |event| start_locked(event, request, digest).await))
        .await
}

async fn start_locked(
    event: &mut LockedEvent,
    request: &Request<'_>,
    digest: [u8; 32],
) -> Result<StartOutcome, DbError> {
    let same = event.import_of(&digest).await?;
    if let (Some(same), Some(upload)) = (&same, request.upload)
        && same.id != upload
    {
        event.merge_upload(upload, same.id).await?;
    }
    if let Some(same) = same.as_ref().filter(|same| same.finished_at.is_some()) {
        event.remember(&same.id).await?;
        return Ok(StartOutcome::AlreadyDone(Box::new(same.clone())));
    }
    let state = event.event().state;
    if matches!(state, EventState::Cancelled | EventState::Over) {
        return Ok(StartOutcome::EventEnded(state));
    }
    if event.other_import_runs(same.as_ref().map(|same| same.id)).await? {
        return Ok(StartOutcome::AnotherRuns);
    }
    event.set_importing_until(Some(event.now() + LEASE)).await?;
    if let Some(same) = same {
        event.remember(&same.id).await?;
        return Ok(StartOutcome::Resumed(Box::new(same)));
    }
    let new = NewImport {
        digest,
        reading: request.reading,
        rows_total: request.plan.people.len(),
        tell: request.tell,
    };
    let id = event.begin_import(&new, request.upload, request.file_name, request.by).await?;
    event.remember(&id).await?;
    Ok(StartOutcome::Started(id))
}

/// How far an import is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Progress {
    /// How many people of the file were seen to.
    pub done: usize,
    /// How many there are.
    pub total: usize,
    /// How many of them this step saw to.
    pub step: usize,
    /// How many are on the list.
    pub taken: usize,
    /// How long this step kept the event's lock.
    pub locked: Duration,
    /// Whether it is done.
    pub finished: bool,
}

/// Sees to the next people of the file, at most `most` and at most [`MOST_PER_STEP`], in one transaction.
///
/// # Errors
/// What the database says.
pub async fn step(
    db: &Db,
    event: EventId,
    import: ImportId,
    plan: &Plan,
    most: usize,
) -> Result<Progress, DbError> {
    let once = || async {
        let (progress, since) = db
            .with_event(event, async |event| {
                let since = Instant::now();
                Ok::<_, DbError>((step_locked(event, import, plan, most).await?, since))
            })
            .await?;
        // The lock is let go by the commit, which is part of the time.
        Ok(Progress { locked: since.elapsed(), ..progress })
    };
    let mut tries = 0;
    let progress = loop {
        match retry(db.entropy(), once).await {
            // Somebody with one of the addresses joined another list meanwhile: now they are known.
            Err(DbError::Constraint(name)) if name == "contacts_email_key" && tries < 2 => tries += 1,
            result => break result?,
        }
    };
    if doubled(&progress) {
        // A hint for what follows; what is committed stays done without it.
        if let Err(error) = db.measure_lists().await {
            tracing::debug!(%error, "the lists were not measured");
        }
    }
    Ok(progress)
}

/// Whether about as many have been seen to in this step as in all before.
fn doubled(progress: &Progress) -> bool {
    progress.done.checked_ilog2() != (progress.done - progress.step.min(progress.done)).checked_ilog2()
}

async fn step_locked(
    event: &mut LockedEvent,
    id: ImportId,
    plan: &Plan,
    most: usize,
) -> Result<Progress, DbError> {
    let import = event.import(id).await?;
    let total = plan.people.len();
    if import.finished_at.is_some() {
        event.nothing_to_write();
        let (done, taken) = (import.rows_done, import.taken);
        return Ok(Progress { done, total: done, taken, finished: true, ..Progress::default() });
    }
    // A newer program may read the file otherwise: from the beginning, then. Whoever was taken is not again.
    let from = if import.rows_total == total { import.rows_done } else { 0 };
    let to = from + most.clamp(1, MOST_PER_STEP).min(total - from);
    let imported: Imported = event.import_people(&plan.people[from..to], import.tell, import.actor).await?;
    let (now, finished) = (event.now(), to == total);
    event.advance_import(id, (to, total), &imported, now + TAKEN_OVER, finished).await?;
    event.set_importing_until((!finished).then_some(now + LEASE)).await?;
    if finished {
        let subject = Subject::Event(event.id());
        event.record(Record::new(event.now(), import.actor, Act::Imported, subject, Reason::Imported));
        event.want_pass();
    }
    let taken = import.taken + imported.taken;
    Ok(Progress { done: to, total, step: to - from, taken, finished, ..Progress::default() })
}

/// Runs an import to its end, in steps as large as the lock's time allows. `watch` is told of every step.
///
/// # Errors
/// What the database says; the import can be carried on later.
pub async fn run(
    db: &Db,
    event: EventId,
    import: ImportId,
    plan: &Plan,
    mut watch: impl FnMut(&Progress),
) -> Result<Progress, DbError> {
    let mut most = FIRST_STEP;
    loop {
        let progress = step(db, event, import, plan, most).await?;
        watch(&progress);
        if progress.finished {
            return Ok(progress);
        }
        most = next_step(progress.step, progress.locked);
    }
}

/// As many as would have taken [`LOCK_GOAL`], and at most four times as many as before.
fn next_step(people: usize, locked: Duration) -> usize {
    let in_goal = LOCK_GOAL.as_micros() * people as u128 / locked.as_micros().max(1);
    usize::try_from(in_goal).unwrap_or(MOST_PER_STEP).min(people * 4).clamp(100, MOST_PER_STEP)
}

/// What a tick of an importer did.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Tick {
    /// No import waits for somebody to carry it on.
    Idle,
    /// One step of an import.
    Stepped(Progress),
}

/// Carries on imports whose file was uploaded: those that were started, and those that nobody carries on any more.
#[derive(Debug)]
pub struct Importer {
    db: Db,
    current: Option<Carried>,
}

/// The import that is being carried on.
#[derive(Debug)]
struct Carried {
    event: EventId,
    import: ImportId,
    plan: Plan,
    most: usize,
}

impl Importer {
    /// One that has nothing yet.
    #[must_use]
    pub fn new(db: &Db) -> Self {
        Self { db: db.for_workers(), current: None }
    }

    /// Does one step of an import, or looks for one, and forgets files that were kept long enough.
    ///
    /// # Errors
    /// What the database says; another tick, of whatever process, carries it on.
    pub async fn tick(&mut self) -> Result<Tick, DbError> {
        let Some(carried) = self.next().await? else { return Ok(Tick::Idle) };
        let progress = step(&self.db, carried.event, carried.import, &carried.plan, carried.most).await?;
        if !progress.finished {
            let most = next_step(progress.step, progress.locked);
            self.current = Some(Carried { most, ..carried });
        }
        Ok(Tick::Stepped(progress))
    }

    async fn next(&mut self) -> Result<Option<Carried>, DbError> {
        if let Some(carried) = self.current.take() {
            return Ok(Some(carried));
        }
        let now = self.db.now().await?;
        self.db.forget_uploads(now - KEPT).await?;
        let Some(import) = self.db.claim_import(now + LEASE).await? else { return Ok(None) };
        let content = self.db.import_content(import.event, import.id).await?;
        let (Some(content), Some(reading)) = (content, import.reading) else { return Ok(None) };
        let plan = plan_apart(reading, content, now).await?;
        Ok(Some(Carried { event: import.event, import: import.id, plan, most: FIRST_STEP }))
    }

    /// Waits until an import may have been started by this process.
    pub async fn hinted(&self) {
        self.db.hints().import.notified().await;
    }

    /// Lets another process carry on what this one has in hand.
    ///
    /// # Errors
    /// What the database says; its lease ends by itself.
    pub async fn let_go(&mut self) -> Result<(), DbError> {
        match self.current.take() {
            Some(carried) => self.db.release_import(carried.event, carried.import).await,
            None => Ok(()),
        }
    }
}

/// Reads and plans a file away from the threads that answer requests: a large one takes a second.
///
/// # Errors
/// [`DbError::Unreadable`] when a file that could be read when its import started no longer can.
async fn plan_apart(reading: Reading, content: Vec<u8>, now: DateTime<Utc>) -> Result<Plan, DbError> {
    let unreadable = |why: String| DbError::Unreadable("uploaded file", why);
    tokio::task::spawn_blocking(move || reading.plan(&content, now))
        .await
        .map_err(|error| unreadable(error.to_string()))?
        .map_err(|error| unreadable(error.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_grow_while_the_lock_is_short_and_shrink_when_it_is_long() {
        assert_eq!(next_step(500, Duration::from_millis(10)), 2_000);
        assert_eq!(next_step(8_000, Duration::from_millis(100)), MOST_PER_STEP);
        assert_eq!(next_step(8_000, Duration::from_secs(1)), 2_000);
        assert_eq!(next_step(100, Duration::from_mins(1)), 100);
        assert_eq!(next_step(0, Duration::ZERO), 100);
    }
}
