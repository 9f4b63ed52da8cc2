//! What somebody says is not right about their request, and what staff answer.

use chrono::{DateTime, Utc};

use super::ids::EntryId;
use super::reason::Reason;
use super::words;

words! {
    /// What a complaint is about. The audit has the same words as reasons.
    About {
        /// The position is not what it should be.
        PositionWrong = "position_wrong",
        /// Somebody else was offered a place first.
        PassedOver = "passed_over",
        /// Nothing came, or it came too late.
        ToldLate = "told_late",
        /// Something else.
        OtherwiseWrong = "otherwise_wrong",
    }
}

impl About {
    /// For the audit.
    #[must_use]
    pub fn reason(self) -> Reason {
        match self {
            Self::PositionWrong => Reason::PositionWrong,
            Self::PassedOver => Reason::PassedOver,
            Self::ToldLate => Reason::ToldLate,
            Self::OtherwiseWrong => Reason::OtherwiseWrong,
        }
    }

    /// As whoever complains chooses it.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::PositionWrong => "My place in the line is wrong",
            Self::PassedOver => "Somebody else came before me",
            Self::ToldLate => "I was told too late, or not at all",
            Self::OtherwiseWrong => "Something else",
        }
    }

    /// All of them with their labels, for a form.
    #[must_use]
    pub fn choices() -> Vec<(&'static str, &'static str)> {
        Self::ALL.iter().map(|about| (about.as_str(), about.label())).collect()
    }
}

/// The most characters that somebody says, or is answered.
pub const WORDS_MAX: usize = 2_000;

/// What somebody said: some text, at most [`WORDS_MAX`] characters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Words(String);

/// What is wrong with it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WordsError {
    /// Nothing was said.
    #[error("Say in a few words what it is.")]
    Missing,
    /// Too much.
    #[error("This is too long: at most 2,000 characters.")]
    TooLong,
}

impl Words {
    /// # Errors
    /// When nothing was said, or too much.
    pub fn parse(text: &str) -> Result<Self, WordsError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(WordsError::Missing);
        }
        if text.chars().count() > WORDS_MAX {
            return Err(WordsError::TooLong);
        }
        Ok(Self(text.to_owned()))
    }

    /// The text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

/// A complaint.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Complaint {
    /// Of which entry.
    pub entry: EntryId,
    /// The how-manieth of this entry: 1, 2, 3 …
    pub number: i32,
    /// About what.
    pub about: About,
    /// In their words.
    pub words: String,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// What was answered, and when.
    pub answer: Option<(String, DateTime<Utc>)>,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn something_is_said_and_not_too_much() {
        assert_eq!(Words::parse(" \n ").unwrap_err(), WordsError::Missing);
        assert_eq!(Words::parse(&"é".repeat(WORDS_MAX + 1)).unwrap_err(), WordsError::TooLong);
        assert_eq!(
            Words::parse(&format!(" {} ", "é".repeat(WORDS_MAX))).unwrap().as_str().chars().count(),
            WORDS_MAX
        );
    }

    #[test]
    fn a_complaint_has_the_same_word_in_the_audit() {
        for about in About::ALL {
            assert_eq!(about.as_str(), about.reason().as_str());
        }
    }
}
