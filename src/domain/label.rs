//! The labels of places, as staff type them: one a line.

use super::contact::is_plain_line;

/// The longest label, in characters.
const MAX: usize = 60;

/// What is wrong with a list of labels.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LabelError {
    /// One is too long.
    #[error("“{0}…” is too long: at most 60 characters.")]
    TooLong(String),
    /// One holds a control character.
    #[error("One of the names holds a control character.")]
    ControlCharacter,
    /// One is there twice.
    #[error("“{0}” is there twice.")]
    Twice(String),
    /// More than can be added at once.
    #[error("At most 10,000 at a time.")]
    TooMany,
}

/// The labels in `text`, without empty lines.
///
/// # Errors
/// The first that is wrong.
pub fn parse_lines(text: &str) -> Result<Vec<String>, LabelError> {
    let mut labels = Vec::new();
    let mut seen = std::collections::HashSet::new();
    for line in text.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !is_plain_line(line) {
            return Err(LabelError::ControlCharacter);
        }
        if line.chars().count() > MAX {
            return Err(LabelError::TooLong(line.chars().take(20).collect()));
        }
        if !seen.insert(line) {
            return Err(LabelError::Twice(line.to_owned()));
        }
        labels.push(line.to_owned());
        if labels.len() > 10_000 {
            return Err(LabelError::TooMany);
        }
    }
    Ok(labels)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_become_labels_and_the_first_wrong_one_is_named() {
        assert_eq!(parse_lines("A1\n\n  A2 \r\n"), Ok(vec!["A1".to_owned(), "A2".to_owned()]));
        assert_eq!(parse_lines("A1\nA1"), Err(LabelError::Twice("A1".to_owned())));
        assert!(matches!(parse_lines(&"x".repeat(61)), Err(LabelError::TooLong(_))));
        assert_eq!(parse_lines("A\u{202E}1"), Err(LabelError::ControlCharacter));
    }
}
