//! What a report says of a row: why it is not taken, or what was changed in it.

use crate::domain::contact::{EmailError, NameError};
use crate::domain::entry::EntryState;

use super::time::TimeError;

/// Why a row is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refusal {
    /// Nothing in it.
    #[error("The row is empty.")]
    Empty,
    /// More or fewer values than the header has names.
    #[error("It has {found} values, but the first line has {expected}: one may contain the separator.")]
    Width {
        /// Its values.
        found: usize,
        /// The header's.
        expected: usize,
    },
    /// Text after a closing quotation mark.
    #[error("A quotation mark ends in the middle of a value.")]
    StrayQuote,
    /// No usable address.
    #[error("{0}")]
    Email(#[from] EmailError),
    /// No usable name.
    #[error("{0}")]
    Name(#[from] NameError),
    /// No usable time.
    #[error("{0}")]
    Joined(#[from] TimeError),
    /// A party of none, of too many, or no number.
    #[error("The number of places must be from 1 to {most}, and is “{found}”.")]
    Party {
        /// What the file says.
        found: String,
        /// The largest party of this list.
        most: i32,
    },
    /// A status that means nothing here.
    #[error("The status “{0}” is not known.")]
    Status(String),
    /// Already served elsewhere.
    #[error("Already has a place elsewhere: history, no booking is made for it here.")]
    History,
    /// Left the list elsewhere.
    #[error("No longer waits.")]
    Gone,
    /// On this list before, in whatever state: whoever left is not brought back.
    #[error("Has an entry on this list already ({0}); it stays as it is.")]
    Listed(EntryState),
    /// Another row of the file is the same person.
    #[error("The same person as on line {line}: the addresses differ at most in capitals or a +tag.")]
    SamePerson {
        /// The line of the row that is taken.
        line: usize,
    },
}

impl Refusal {
    /// What such rows are called when they are counted.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Empty => "empty",
            Self::Width { .. } => "wrong number of values",
            Self::StrayQuote => "quotation mark in the middle",
            Self::Email(_) => "unusable email address",
            Self::Name(_) => "unusable name",
            Self::Joined(_) => "unusable time of joining",
            Self::Party { .. } => "unusable number of places",
            Self::Status(_) => "unknown status",
            Self::History => "already has a place elsewhere",
            Self::Gone => "no longer waits",
            Self::Listed(_) => "on this list before",
            Self::SamePerson { .. } => "the same person again",
        }
    }
}

/// What was changed or assumed in a row that is taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Remark {
    /// A name of several lines.
    #[error("The line break in the name became a space.")]
    LineBreakInName,
    /// No name at all.
    #[error("It has no name: the first part of the address stands for it.")]
    NoName,
    /// A telephone number that is none.
    #[error("The telephone number “{0}” was left out: it is none.")]
    PhoneLeftOut(String),
    /// A priority that is no number.
    #[error("The priority “{0}” is not a number and became 0.")]
    PriorityLeftOut(String),
    /// The clock was put back.
    #[error("Its time came twice that night; the first is taken.")]
    TimeDoubled,
    /// The clock was put forward.
    #[error("Its time was skipped that night; it is taken as if the clock had not been put forward.")]
    TimeSkipped,
    /// It joined after now.
    #[error("Its time of joining is still to come: check the event's time zone.")]
    TimeToCome,
    /// An offer elsewhere.
    #[error("Its voucher elsewhere holds no place here: it waits.")]
    ForeignVoucher,
}

impl Remark {
    /// What such rows are called when they are counted.
    #[must_use]
    pub fn kind(&self) -> &'static str {
        match self {
            Self::LineBreakInName => "line break in the name",
            Self::NoName => "no name",
            Self::PhoneLeftOut(_) => "telephone number left out",
            Self::PriorityLeftOut(_) => "priority left out",
            Self::TimeDoubled => "time that came twice",
            Self::TimeSkipped => "time that was skipped",
            Self::TimeToCome => "time still to come",
            Self::ForeignVoucher => "voucher elsewhere",
        }
    }
}
