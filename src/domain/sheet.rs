//! Text in the cells of a table that a spreadsheet may open: nothing in it is run as a formula.

use std::borrow::Cow;

/// What makes a spreadsheet calculate instead of show.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// A cell that is shown as it stands: what would be run gets a `'` before it.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    if text.starts_with(FORMULA) { Cow::Owned(format!("'{text}")) } else { Cow::Borrowed(text) }
}

/// The text of a cell that was made inert, by us or by another program. A `'` before anything else is somebody's own;
/// only text that itself begins like an inert cell does not come back as it was.
#[must_use]
pub fn plain(cell: &str) -> &str {
    match cell.strip_prefix('\'') {
        Some(text) if text.starts_with(FORMULA) => text,
        _ => cell,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_run_is_inert_and_every_text_comes_back() {
        for text in ["=1+1", "+49 30", "-5", "@SUM(A1)", "\t=1", "\r=1"] {
            let cell = inert(text);
            assert_eq!(cell, format!("'{text}"));
            assert_eq!(plain(&cell), text);
        }
        for text in ["", "Žofia Ünlü", "李", "O'Hara", "'quoted'", "a=1", "'", "''=1"] {
            assert_eq!(inert(text), text);
            assert_eq!(plain(text), text);
        }
    }
}
