//! Lists from elsewhere: the uploaded file, and how far its import is.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use super::events::word;
use super::idempotency::name_of_act;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::Actor;
use crate::domain::entry::EntryState;
use crate::domain::ids::{EventId, ImportId};
use crate::domain::import::{Field, ImportState, Reading};

mod people;

/// One import, uploaded, under way or done. Its file is read apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Import {
    /// The event whose list it joins.
    pub event: EventId,
    /// Its id.
    pub id: ImportId,
    /// What the file was called.
    pub file_name: String,
    /// Whether the file is kept here.
    pub has_content: bool,
    /// When it was brought here.
    pub uploaded_at: DateTime<Utc>,
    /// Who did.
    pub actor: Actor,
    /// How its file is read, once it is started.
    pub reading: Option<Reading>,
    /// Whether those taken are written to.
    pub tell: bool,
    /// How many people the file brings.
    pub rows_total: usize,
    /// How many of them were seen to.
    pub rows_done: usize,
    /// How many were taken.
    pub taken: usize,
    /// How many lines whose person had an entry before: [`Db::listed_before`] has them.
    pub already: usize,
    /// When it started.
    pub started_at: Option<DateTime<Utc>>,
    /// When it was done.
    pub finished_at: Option<DateTime<Utc>>,
}

impl Import {
    /// How far it is.
    #[must_use]
    pub fn state(&self) -> ImportState {
        match (self.started_at, self.finished_at) {
            (_, Some(_)) => ImportState::Done,
            (Some(_), None) => ImportState::Running,
            (None, None) => ImportState::Uploaded,
        }
    }
}

struct ImportRow {
    event_id: Uuid,
    id: Uuid,
    file_name: String,
    has_content: bool,
    uploaded_at: DateTime<Utc>,
    actor: String,
    actor_id: Option<Uuid>,
    reading: Option<serde_json::Value>,
    tell: bool,
    rows_total: i32,
    rows_done: i32,
    taken: i32,
    already: i32,
    started_at: Option<DateTime<Utc>>,
    finished_at: Option<DateTime<Utc>>,
}

impl TryFrom<ImportRow> for Import {
    type Error = DbError;

    fn try_from(row: ImportRow) -> Result<Self, DbError> {
        Ok(Self {
            event: EventId(row.event_id),
            id: ImportId(row.id),
            file_name: row.file_name,
            has_content: row.has_content,
            uploaded_at: row.uploaded_at,
            actor: Actor::parse(&row.actor, row.actor_id)
                .ok_or_else(|| DbError::Unreadable("actor", row.actor.clone()))?,
            reading: row.reading.map(read_reading).transpose()?,
            tell: row.tell,
            rows_total: usize::try_from(row.rows_total).unwrap_or(0),
            rows_done: usize::try_from(row.rows_done).unwrap_or(0),
            taken: usize::try_from(row.taken).unwrap_or(0),
            already: usize::try_from(row.already).unwrap_or(0),
            started_at: row.started_at,
            finished_at: row.finished_at,
        })
    }
}

#[derive(Serialize, Deserialize)]
struct StoredReading {
    columns: BTreeMap<String, usize>,
    zone: String,
    largest_party: i32,
}

fn unreadable(what: &'static str, error: &serde_json::Error) -> DbError {
    DbError::Unreadable(what, error.to_string())
}

fn read_reading(stored: serde_json::Value) -> Result<Reading, DbError> {
    let stored: StoredReading =
        serde_json::from_value(stored).map_err(|error| unreadable("reading of a file", &error))?;
    let columns: Result<Vec<_>, DbError> = stored
        .columns
        .into_iter()
        .map(|(field, column)| Ok((word(Field::from_key, "field", &field)?, column)))
        .collect();
    Ok(Reading {
        columns: columns?,
        zone: stored.zone.parse().map_err(|_| DbError::Unreadable("time zone", stored.zone.clone()))?,
        largest_party: stored.largest_party,
    })
}

fn write_reading(reading: &Reading) -> Result<serde_json::Value, DbError> {
    let columns = reading.columns.iter().map(|(field, column)| (field.key().to_owned(), *column)).collect();
    let zone = reading.zone.name().to_owned();
    serde_json::to_value(StoredReading { columns, zone, largest_party: reading.largest_party })
        .map_err(|error| unreadable("reading of a file", &error))
}

/// One SELECT list for every read of imports; the file itself is not in it.
macro_rules! select_imports {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            ImportRow,
            r#"SELECT event_id, id, file_name, content IS NOT NULL AS "has_content!", uploaded_at, actor, actor_id, reading, tell,
               rows_total, rows_done, taken, jsonb_array_length(already) AS "already!", started_at, finished_at FROM imports "#
                + $tail,
            $($argument),*
        )
    };
}

/// So many files of an event may wait to be looked at.
const KEPT_AT_ONCE: i64 = 20;

/// Counts in this file are bounded by the rows of one file.
fn number(count: usize) -> i32 {
    i32::try_from(count).unwrap_or(i32::MAX)
}

impl Db {
    /// Keeps an uploaded file, so that it can be looked at before anything is written to the list: once for an act that
    /// the caller names. None where as many as may wait to be looked at.
    ///
    /// # Errors
    /// What the database says.
    pub async fn keep_upload(
        &self,
        event: EventId,
        file_name: &str,
        content: &[u8],
        by: Actor,
    ) -> Result<Option<ImportId>, DbError> {
        let (id, now) = (name_of_act().unwrap_or_else(|| self.entropy().id()), self.now().await?);
        let kept = sqlx::query!(
            "INSERT INTO imports (event_id, id, file_name, content, uploaded_at, actor, actor_id)
             SELECT $1, $2, $3, $4, $5, $6, $7
             WHERE (SELECT count(*) FROM imports WHERE event_id = $1 AND started_at IS NULL AND id <> $2) < $8
             ON CONFLICT (event_id, id) DO UPDATE SET file_name = imports.file_name",
            event.0,
            id,
            file_name,
            content,
            now,
            by.kind(),
            by.id(),
            KEPT_AT_ONCE
        )
        .execute(self.pool())
        .await?;
        Ok((kept.rows_affected() == 1).then_some(ImportId(id)))
    }

    /// Who of a file was on the list before, by line; in whatever state.
    ///
    /// # Errors
    /// What the database says.
    pub async fn listed_before(
        &self,
        event: EventId,
        id: ImportId,
    ) -> Result<Vec<(usize, EntryState)>, DbError> {
        let stored =
            sqlx::query_scalar!("SELECT already FROM imports WHERE event_id = $1 AND id = $2", event.0, id.0)
                .fetch_one(self.pool())
                .await?;
        let rows: Vec<(usize, String)> =
            serde_json::from_value(stored).map_err(|error| unreadable("rows already listed", &error))?;
        rows.into_iter()
            .map(|(line, state)| Ok((line, word(EntryState::parse, "entry state", &state)?)))
            .collect()
    }

    /// One import.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when the event has none with this id.
    pub async fn import(&self, event: EventId, id: ImportId) -> Result<Import, DbError> {
        select_imports!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// The event's latest imports that were started, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn imports(&self, event: EventId) -> Result<Vec<Import>, DbError> {
        select_imports!(
            "WHERE event_id = $1 AND started_at IS NOT NULL ORDER BY started_at DESC LIMIT 50",
            event.0
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(Import::try_from)
        .collect()
    }

    /// The uploaded file, unless it is forgotten by now.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when the event has no import with this id.
    pub async fn import_content(&self, event: EventId, id: ImportId) -> Result<Option<Vec<u8>>, DbError> {
        Ok(sqlx::query_scalar!("SELECT content FROM imports WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?)
    }

    /// Takes over an import that was started with its file kept here and that nobody carries on.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_import(&self, until: DateTime<Utc>) -> Result<Option<Import>, DbError> {
        let now = self.now().await?;
        let claimed = sqlx::query!(
            r#"UPDATE imports SET leased_until = $2 WHERE (event_id, id) IN (
                   SELECT event_id, id FROM imports
                   WHERE content IS NOT NULL AND started_at IS NOT NULL AND finished_at IS NULL
                     AND (leased_until IS NULL OR leased_until <= $1)
                   ORDER BY started_at LIMIT 1 FOR UPDATE SKIP LOCKED)
               RETURNING event_id, id"#,
            now,
            until
        )
        .fetch_optional(self.pool())
        .await?;
        match claimed {
            Some(row) => self.import(EventId(row.event_id), ImportId(row.id)).await.map(Some),
            None => Ok(None),
        }
    }

    /// Lets another process take over at once.
    ///
    /// # Errors
    /// What the database says.
    pub async fn release_import(&self, event: EventId, id: ImportId) -> Result<(), DbError> {
        sqlx::query!("UPDATE imports SET leased_until = NULL WHERE event_id = $1 AND id = $2", event.0, id.0)
            .execute(self.pool())
            .await?;
        Ok(())
    }

    /// Lets the planner know how long the lists are. Autovacuum does so, too, but only a minute later: until then
    /// each step of an import would look for its people by walking through everybody, under the event's lock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn measure_lists(&self) -> Result<(), DbError> {
        sqlx::raw_sql("ANALYZE persons, contacts, entries").execute(self.pool()).await?;
        Ok(())
    }

    /// Forgets files that nobody needs any more: uploads never started, and what was done before `before`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn forget_uploads(&self, before: DateTime<Utc>) -> Result<u64, DbError> {
        let looked_at =
            sqlx::query!("DELETE FROM imports WHERE started_at IS NULL AND uploaded_at < $1", before)
                .execute(self.pool())
                .await?
                .rows_affected();
        let done = sqlx::query!(
            "UPDATE imports SET content = NULL WHERE content IS NOT NULL AND finished_at < $1",
            before
        )
        .execute(self.pool())
        .await?
        .rows_affected();
        Ok(looked_at + done)
    }
}

/// What begins an import.
#[derive(Clone, Debug)]
pub struct NewImport<'a> {
    /// Which file, and how it is read.
    pub digest: [u8; 32],
    /// How it is read.
    pub reading: &'a Reading,
    /// How many people it brings.
    pub rows_total: usize,
    /// Whether those taken are written to.
    pub tell: bool,
}

/// What became of some people of a file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Imported {
    /// How many are on the list now.
    pub taken: usize,
    /// Lines whose person had an entry before, with its state.
    pub already: Vec<(usize, EntryState)>,
}

impl LockedEvent {
    /// The import of this file, read in this way.
    ///
    /// # Errors
    /// What the database says.
    pub async fn import_of(&mut self, digest: &[u8; 32]) -> Result<Option<Import>, DbError> {
        let event = self.id();
        select_imports!("WHERE event_id = $1 AND digest = $2", event.0, digest.as_slice())
            .fetch_optional(self.connection())
            .await?
            .map(Import::try_from)
            .transpose()
    }

    /// One import, as it is under the lock.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when the event has none with this id.
    pub async fn import(&mut self, id: ImportId) -> Result<Import, DbError> {
        let event = self.id();
        select_imports!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.connection())
            .await?
            .try_into()
    }

    /// Starts an import whose file was uploaded as `upload`, or whose file is elsewhere.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `imports_digest_key` when there is one of this file already.
    pub async fn begin_import(
        &mut self,
        new: &NewImport<'_>,
        upload: Option<ImportId>,
        file_name: &str,
        by: Actor,
    ) -> Result<ImportId, DbError> {
        let (event, now) = (self.id(), self.now());
        let id = upload.unwrap_or_else(|| ImportId(self.entropy().id()));
        let reading = write_reading(new.reading)?;
        sqlx::query!(
            r#"INSERT INTO imports AS i (event_id, id, file_name, uploaded_at, actor, actor_id, reading, digest, tell,
                                         rows_total, started_at)
               VALUES ($1, $2, $3, $4, $5, $10, $6, $7, $8, $9, $4)
               ON CONFLICT (event_id, id) DO UPDATE SET reading = excluded.reading, digest = excluded.digest,
                   tell = excluded.tell, rows_total = excluded.rows_total, started_at = excluded.started_at,
                   actor = excluded.actor, actor_id = excluded.actor_id
               WHERE i.started_at IS NULL"#,
            event.0,
            id.0,
            file_name,
            now,
            by.kind(),
            reading,
            new.digest.as_slice(),
            new.tell,
            number(new.rows_total),
            by.id()
        )
        .execute(self.connection())
        .await?;
        Ok(id)
    }

    /// Gives the file of `upload` to an import of the same file that was interrupted, and forgets the upload.
    ///
    /// # Errors
    /// What the database says.
    pub async fn merge_upload(&mut self, upload: ImportId, into: ImportId) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            r#"UPDATE imports i SET content = u.content FROM imports u
               WHERE i.event_id = $1 AND i.id = $2 AND i.content IS NULL AND i.finished_at IS NULL
                 AND u.event_id = $1 AND u.id = $3"#,
            event.0,
            into.0,
            upload.0
        )
        .execute(self.connection())
        .await?;
        sqlx::query!(
            "DELETE FROM imports WHERE event_id = $1 AND id = $2 AND started_at IS NULL",
            event.0,
            upload.0
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// Whether an import other than `id` is under way and alive.
    ///
    /// # Errors
    /// What the database says.
    pub async fn other_import_runs(&mut self, id: Option<ImportId>) -> Result<bool, DbError> {
        let (event, now) = (self.id(), self.now());
        if self.event().importing_until.is_none_or(|until| until <= now) {
            return Ok(false);
        }
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM imports WHERE event_id = $1 AND id IS DISTINCT FROM $2
                              AND started_at IS NOT NULL AND finished_at IS NULL) AS "runs!""#,
            event.0,
            id.map(|id| id.0)
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// Keeps passes waiting until then, or lets them go.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_importing_until(&mut self, until: Option<DateTime<Utc>>) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!("UPDATE events SET importing_until = $2 WHERE id = $1", event.0, until)
            .execute(self.connection())
            .await?;
        self.event_mut().importing_until = until;
        Ok(())
    }

    /// Writes how far an import is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn advance_import(
        &mut self,
        id: ImportId,
        (done, total): (usize, usize),
        imported: &Imported,
        leased_until: DateTime<Utc>,
        finished: bool,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let already: Vec<(usize, &str)> =
            imported.already.iter().map(|(line, state)| (*line, state.as_str())).collect();
        let already =
            serde_json::to_value(already).map_err(|error| unreadable("rows already listed", &error))?;
        sqlx::query!(
            r#"UPDATE imports SET rows_done = $3, rows_total = $9, taken = taken + $4, already = already || $5,
                   leased_until = CASE WHEN $7 THEN NULL ELSE $6::timestamptz END,
                   finished_at = CASE WHEN $7 THEN $8::timestamptz END
               WHERE event_id = $1 AND id = $2"#,
            event.0,
            id.0,
            number(done),
            number(imported.taken),
            already,
            leased_until,
            finished,
            now,
            number(total)
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }
}
