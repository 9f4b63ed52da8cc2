//! A list from elsewhere: the bytes of a CSV file become people in order, and a sentence for every row that is
//! not taken. Pure, so that the preview and the import cannot differ.
//!
//! [`Table`] knows about bytes, quotes and line numbers; [`Mapping`] which column means what; [`Plan`] who is
//! taken, in which order, and why others are not. Every row under the header ends up in exactly one of
//! [`Plan::people`] and [`Plan::refused`].

mod columns;
mod plan;
mod reasons;
mod table;
mod time;

pub use columns::{Field, Mapping, MappingError};
pub use plan::{Context, Plan, Planned, PlannedState, Reported};
pub use reasons::{Refusal, Remark};
pub use table::{FileError, Row, Rows, Table};
pub use time::{ClockChange, TimeError};

use sha2::{Digest, Sha256};

/// The largest file that is taken over the web.
pub const MAX_UPLOAD_BYTES: usize = 64 * 1024 * 1024;

/// What makes two imports the same: the file's bytes, what its columns are taken for, and what else decides who
/// is taken in which order.
#[must_use]
pub fn digest(bytes: &[u8], mapping: &Mapping, context: &Context) -> [u8; 32] {
    let mut digest = Sha256::new();
    for (field, column) in mapping.columns() {
        digest.update(format!("{} {column}\n", field.key()));
    }
    digest.update(format!("{} {}\n\n", context.zone.name(), context.largest_party));
    digest.update(bytes);
    digest.finalize().into()
}
