//! A chain as a file to take along: its columns, and a check that needs nothing but the file.
//!
//! Every cell is written so that a spreadsheet runs nothing ([`sheet::inert`]), and read back as it was. A cell that is
//! not written as we write it counts as altered, even if it may mean the same.

use std::io::Read;

use chrono::{DateTime, SecondsFormat, Utc};
use csv::{ByteRecord, ReaderBuilder};
use uuid::Uuid;

use super::anchor::Anchor;
use super::chain::{Chain, ChainFault, records};
use super::{Act, ChainOf, FullRecord, Hash, Note, StoredRecord, Subject};
use crate::domain::ids::EventId;
use crate::domain::sheet;

/// How many columns there are.
pub const WIDTH: usize = 18;

/// The columns, by their names in the first line. The hash covers those before it.
pub const COLUMNS: [&str; WIDTH] = [
    "seq",
    "at",
    "actor",
    "actor_id",
    "act",
    "subject",
    "subject_id",
    "from_state",
    "to_state",
    "reason",
    "entry_id",
    "order_key",
    "policy_version",
    "note_digest",
    "hash",
    "by",
    "note",
    "note_salt",
];

/// The cells of a record, before they are made inert.
#[must_use]
pub fn cells(full: &FullRecord) -> [String; WIDTH] {
    let FullRecord { record, hash, by, note } = full;
    let id = |id: Option<Uuid>| id.map_or_else(String::new, |id| id.to_string());
    let text = |text: &Option<String>| text.clone().unwrap_or_default();
    [
        record.seq.to_string(),
        record.at.to_rfc3339_opts(SecondsFormat::Micros, true),
        record.actor.clone(),
        id(record.actor_id),
        record.act.clone(),
        record.subject.clone(),
        record.subject_id.to_string(),
        text(&record.from_state),
        text(&record.to_state),
        record.reason.clone(),
        id(record.entry_id),
        text(&record.order_key),
        record.policy_version.map_or_else(String::new, |version| version.to_string()),
        record.note_digest.as_ref().map_or_else(String::new, hex::encode),
        hex::encode(hash),
        text(by),
        note.as_ref().map_or_else(String::new, |note| note.text.clone()),
        note.as_ref().map_or_else(String::new, |note| hex::encode(&note.salt)),
    ]
}

/// The record of such cells, or the name of the first column that cannot be read.
fn read(cells: &[String; WIDTH]) -> Result<FullRecord, &'static str> {
    fn value<T: std::str::FromStr>(column: &'static str, cell: &str) -> Result<T, &'static str> {
        cell.parse().map_err(|_| column)
    }
    fn optional<T: std::str::FromStr>(column: &'static str, cell: &str) -> Result<Option<T>, &'static str> {
        if cell.is_empty() { Ok(None) } else { value(column, cell).map(Some) }
    }
    let bytes = |column: &'static str, cell: &str| hex::decode(cell).map_err(|_| column);
    let text = |cell: &String| (!cell.is_empty()).then(|| cell.clone());
    let [
        seq,
        at,
        actor,
        actor_id,
        act,
        subject,
        subject_id,
        from_state,
        to_state,
        reason,
        entry_id,
        order_key,
        policy_version,
        note_digest,
        hash,
        by,
        note,
        note_salt,
    ] = cells;
    let full = FullRecord {
        record: StoredRecord {
            seq: value("seq", seq)?,
            at: value("at", at)?,
            actor: actor.clone(),
            actor_id: optional("actor_id", actor_id)?,
            act: act.clone(),
            subject: subject.clone(),
            subject_id: value("subject_id", subject_id)?,
            from_state: text(from_state),
            to_state: text(to_state),
            reason: reason.clone(),
            entry_id: optional("entry_id", entry_id)?,
            order_key: text(order_key),
            policy_version: optional("policy_version", policy_version)?,
            note_digest: text(note_digest).map(|cell| bytes("note_digest", &cell)).transpose()?,
        },
        hash: bytes("hash", hash)?,
        by: text(by),
        note: if note.is_empty() && note_salt.is_empty() {
            None
        } else {
            Some(Note { salt: bytes("note_salt", note_salt)?, text: note.clone() })
        },
    };
    let again = self::cells(&full);
    (0..WIDTH).find(|column| again[*column] != cells[*column]).map_or(Ok(full), |column| Err(COLUMNS[column]))
}

/// Why a file was not checked at all.
#[derive(Debug, thiserror::Error)]
pub enum Unreadable {
    /// The system said no while it was read.
    #[error(transparent)]
    Read(#[from] csv::Error),
    /// Its first line is not that of an audit.
    #[error(
        "this is no audit as Fairlist writes it: there is no column “{0}”. Give the file as it was downloaded"
    )]
    NoColumn(&'static str),
}

/// What is wrong, and where.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Unsound {
    /// The line of the file on which the row begins, counted from 1; none when it is the file as a whole.
    pub line: Option<u64>,
    /// What it is.
    pub fault: Fault,
}

/// What can be wrong with a file.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Fault {
    /// The row does not follow the one before it.
    #[error(transparent)]
    Chain(#[from] ChainFault),
    /// A record comes before one that it should follow.
    #[error("Record {found} comes before record {expected}: rows were put in another order.")]
    Order {
        /// The number that should be here.
        expected: i64,
        /// The one that is.
        found: i64,
    },
    /// A row with too few or too many cells.
    #[error(
        "The row after record {after} has {width} cells, and a record has {WIDTH}: it was altered, or the file breaks off."
    )]
    Width {
        /// The last record that was whole.
        after: i64,
        /// How many cells there are.
        width: usize,
    },
    /// A cell that no record has.
    #[error("The row after record {after} was altered: no record has such a “{column}”.")]
    Cell {
        /// The last record that was whole.
        after: i64,
        /// Which column.
        column: &'static str,
    },
    /// No rows.
    #[error("There is no record at all, and every audit begins with one.")]
    Empty,
    /// The end is not there.
    #[error("The file ends with record {last}, and the anchor{taken} is record {anchored}: {} missing at the end.", lower(*.last, *.anchored))]
    CutOff {
        /// The last record of the file.
        last: i64,
        /// The anchored one.
        anchored: i64,
        /// When the anchor was taken, in words.
        taken: String,
    },
    /// The anchored record has another hash.
    #[error(
        "Record {seq} is not the one of the anchor{taken}: the chain was written anew, from there or from before."
    )]
    NotAnchored {
        /// Which one.
        seq: i64,
        /// When the anchor was taken, in words.
        taken: String,
    },
    /// A record that should have been there when the anchor was taken.
    #[error("Record {seq} says that it was written on {}, and the anchor{taken} does not know it: it was added afterwards.", .at.to_rfc3339_opts(SecondsFormat::Secs, true))]
    AddedBefore {
        /// Which one.
        seq: i64,
        /// When it says it was written.
        at: DateTime<Utc>,
        /// When the anchor was taken, in words.
        taken: String,
    },
    /// The anchor is another chain's.
    #[error("The anchor is of another chain: {anchor}, and the file is {file}.")]
    OtherChain {
        /// Whose the anchor is.
        anchor: String,
        /// Whose the file is.
        file: String,
    },
}

fn lower(last: i64, anchored: i64) -> String {
    records(last + 1, anchored).replacen('R', "r", 1)
}

/// A file in which every record is sound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sound {
    /// How many records there are.
    pub records: i64,
    /// The last hash.
    pub head: Hash,
    /// When the last record was written.
    pub last_at: DateTime<Utc>,
    /// The event whose chain it is; none for an organization's.
    pub event: Option<EventId>,
    /// How many notes fit their digests.
    pub notes: u64,
    /// How many digests have no words beside them any more.
    pub notes_erased: u64,
}

/// The line on which a row begins, and its record or what is wrong with it.
type Row = (u64, Result<FullRecord, Fault>);

/// The rows of a file, the first line read.
struct Rows<R> {
    reader: csv::Reader<R>,
    row: ByteRecord,
    /// Where each of [`COLUMNS`] is.
    columns: [usize; WIDTH],
    /// How many cells a row has.
    width: usize,
}

impl<R: Read> Rows<R> {
    fn open(file: R) -> Result<Self, Unreadable> {
        let mut reader = ReaderBuilder::new().has_headers(false).flexible(true).from_reader(file);
        let mut row = ByteRecord::new();
        reader.read_byte_record(&mut row)?;
        let names: Vec<String> = row
            .iter()
            .map(|cell| String::from_utf8_lossy(cell).trim_start_matches('\u{FEFF}').to_owned())
            .collect();
        let mut columns = [0; WIDTH];
        for (column, name) in columns.iter_mut().zip(COLUMNS) {
            *column = names.iter().position(|found| found == name).ok_or(Unreadable::NoColumn(name))?;
        }
        Ok(Self { reader, row, columns, width: names.len() })
    }

    /// The next row behind record `after`, and its line; what is wrong with it if it is no record.
    fn next(&mut self, after: i64) -> Result<Option<Row>, Unreadable> {
        if !self.reader.read_byte_record(&mut self.row)? {
            return Ok(None);
        }
        let line = self.row.position().map_or(0, csv::Position::line);
        if self.row.len() != self.width {
            return Ok(Some((line, Err(Fault::Width { after, width: self.row.len() }))));
        }
        let mut cells = [const { String::new() }; WIDTH];
        let mut found = Ok(());
        for (cell, (index, column)) in cells.iter_mut().zip(self.columns.into_iter().zip(COLUMNS)) {
            match std::str::from_utf8(&self.row[index]) {
                Ok(text) => *cell = sheet::exact(text).into_owned(),
                Err(_) => found = found.and(Err(column)),
            }
        }
        let row = found.and_then(|()| read(&cells)).map_err(|column| Fault::Cell { after, column });
        Ok(Some((line, row)))
    }

    /// Whether that record comes later.
    fn comes(&mut self, seq: i64) -> Result<bool, Unreadable> {
        let seq = seq.to_string();
        while self.reader.read_byte_record(&mut self.row)? {
            if self.row.get(self.columns[0]) == Some(seq.as_bytes()) {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

/// Computes every hash of a file again, and compares with a head that was kept elsewhere. Reads it once, row by row,
/// however long it is.
///
/// # Errors
/// When it is no audit, or cannot be read.
pub fn verify(file: impl Read, anchor: Option<&Anchor>) -> Result<Result<Sound, Unsound>, Unreadable> {
    let mut rows = Rows::open(file)?;
    let mut chain = Chain::START;
    let mut sound: Option<Sound> = None;
    let unsound = |line, fault| Ok(Err(Unsound { line: Some(line), fault }));
    while let Some((line, row)) = rows.next(chain.seq)? {
        let full = match row {
            Ok(full) => full,
            Err(fault) => return unsound(line, fault),
        };
        match chain.follow_full(&full) {
            Ok(()) => {}
            Err(ChainFault::Missing { first, .. }) if rows.comes(first)? => {
                return unsound(line, Fault::Order { expected: first, found: full.record.seq });
            }
            Err(fault) => return unsound(line, fault.into()),
        }
        let event = sound.as_ref().map_or_else(|| event_of(&full.record), |sound| sound.event);
        if let Some(fault) = anchor.and_then(|anchor| against(anchor, &full.record, event, &chain)) {
            return unsound(line, fault);
        }
        let so_far = sound.get_or_insert(Sound {
            records: 0,
            head: chain.head,
            last_at: full.record.at,
            event,
            notes: 0,
            notes_erased: 0,
        });
        (so_far.records, so_far.head, so_far.last_at) = (chain.seq, chain.head, full.record.at);
        so_far.notes += u64::from(full.note.is_some());
        so_far.notes_erased += u64::from(full.note.is_none() && full.record.note_digest.is_some());
    }
    let whole = |fault| Ok(Err(Unsound { line: None, fault }));
    let Some(sound) = sound else { return whole(Fault::Empty) };
    match anchor {
        Some(anchor) if anchor.seq > sound.records => {
            whole(Fault::CutOff { last: sound.records, anchored: anchor.seq, taken: anchor.taken() })
        }
        _ => Ok(Ok(sound)),
    }
}

/// The event whose chain begins like this: its first record is that it was created.
fn event_of(first: &StoredRecord) -> Option<EventId> {
    let event = EventId(first.subject_id);
    (first.act == Act::Created.as_str() && first.subject == Subject::Event(event).kind()).then_some(event)
}

/// What an anchor has against the record at which the chain stands.
fn against(anchor: &Anchor, record: &StoredRecord, event: Option<EventId>, chain: &Chain) -> Option<Fault> {
    let other = match (anchor.of, event) {
        (Some(ChainOf::Event(anchored)), Some(event)) => anchored != event,
        (Some(ChainOf::Event(_)), None) | (Some(ChainOf::Organization(_)), Some(_)) => true,
        // An organization's records do not name it.
        (Some(ChainOf::Organization(_)) | None, _) => false,
    };
    let called = |event: Option<EventId>| {
        event.map_or_else(|| "that of an organization".to_owned(), |event| format!("that of event {event}"))
    };
    if other {
        let anchored = match anchor.of {
            Some(ChainOf::Event(event)) => Some(event),
            _ => None,
        };
        return Some(Fault::OtherChain { anchor: called(anchored), file: called(event) });
    }
    if chain.seq == anchor.seq && chain.head != anchor.hash {
        return Some(Fault::NotAnchored { seq: chain.seq, taken: anchor.taken() });
    }
    // An organization's anchor is taken without a lock: what was under way then may be of an earlier instant.
    let at = anchor.at.filter(|_| event.is_some());
    (chain.seq > anchor.seq && at.is_some_and(|at| record.at < at)).then(|| Fault::AddedBefore {
        seq: chain.seq,
        at: record.at,
        taken: anchor.taken(),
    })
}

#[cfg(test)]
mod tests;
