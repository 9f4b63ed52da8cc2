//! A list from elsewhere: the bytes of a CSV file become people in order, and a sentence for every row that is
//! not taken. Pure, so that the preview and the import cannot differ.
//!
//! [`Table`] knows about bytes, quotes and line numbers; [`Mapping`] which column means what; [`Plan`] who is
//! taken, in which order, and why others are not. Every row under the header ends up in exactly one of
//! [`Plan::people`] and [`Plan::refused`].

mod columns;
mod look;
mod plan;
mod reasons;
mod table;
mod time;

pub use columns::{Field, Mapping, MappingError};
pub use look::{Asked, Look};
pub use plan::{Context, Plan, Planned, PlannedState, Reported, counted};
pub use reasons::{Refusal, Remark};
pub use table::{FileError, Row, Rows, Table};
pub use time::{ClockChange, TimeError};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;
use sha2::{Digest, Sha256};

use super::words;

words! {
    /// How far an import is.
    ImportState {
        /// The file is kept, and nothing is written to the list.
        Uploaded = "uploaded",
        /// Its people are being put on the list.
        Running = "running",
        /// Everybody was seen to.
        Done = "done",
    }
}

/// The largest file that is taken over the web.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// How a file is read: kept with an import, so that it goes on as it began whatever changes meanwhile.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Which columns mean what.
    pub columns: Vec<(Field, usize)>,
    /// The zone of times without an offset.
    pub zone: Tz,
    /// The largest party that is taken.
    pub largest_party: i32,
}

impl Reading {
    /// What the file becomes when it is read in this way.
    ///
    /// # Errors
    /// What is wrong with the file or with the columns named, as a sentence.
    pub fn plan(&self, bytes: &[u8], now: DateTime<Utc>) -> Result<Plan, ReadingError> {
        let table = Table::open(bytes)?;
        let mapping = Mapping::at(&table, &self.columns)?;
        let context = Context { zone: self.zone, largest_party: self.largest_party, now };
        Ok(Plan::make(&table, &mapping, &context)?)
    }

    /// What makes two imports the same: the file's bytes, and how they are read.
    #[must_use]
    pub fn digest(&self, bytes: &[u8]) -> [u8; 32] {
        let mut columns: Vec<_> = self.columns.iter().map(|(field, at)| (field.key(), *at)).collect();
        columns.sort_unstable();
        let mut digest = Sha256::new();
        digest.update(format!("{columns:?} {} {}\n", self.zone.name(), self.largest_party));
        digest.update(bytes);
        digest.finalize().into()
    }
}

/// Why a file cannot be read in the way asked for.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReadingError {
    /// The file itself.
    #[error(transparent)]
    File(#[from] FileError),
    /// The columns named.
    #[error(transparent)]
    Columns(#[from] MappingError),
}
