//! Text in the cells of a table that a spreadsheet may open: nothing in it is run as a formula.

use std::borrow::Cow;

/// What makes a spreadsheet calculate instead of show.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Where another cell begins for a spreadsheet that takes the table for one with semicolons, as most of Europe's do: it
/// then sees neither our commas nor the quotes behind them.
const BEGINS_A_CELL: [char; 2] = [';', '\n'];

/// The text with a change to each of its parts that may be a cell of its own; copied only if one changes.
fn parts(text: &str, which: impl Fn(&str) -> bool, becomes: impl Fn(&str) -> [&str; 2]) -> Cow<'_, str> {
    let parts = || text.split_inclusive(BEGINS_A_CELL);
    if !parts().any(&which) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(parts().flat_map(|part| if which(part) { becomes(part) } else { [part, ""] }).collect())
}

/// Whether it would be run, were it not for the `'` before it.
fn runs_behind_marks(part: &str) -> bool {
    part.trim_start_matches('\'').starts_with(FORMULA)
}

/// A cell that is shown as it stands: what would be run gets a `'` before it. So does what has one already, for
/// [`exact`] to give every text back as it was.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    parts(text, runs_behind_marks, |part| ["'", part])
}

/// The text of a cell that [`inert`] wrote.
#[must_use]
pub fn exact(cell: &str) -> Cow<'_, str> {
    parts(cell, |part| part.starts_with('\'') && runs_behind_marks(part), |part| [&part[1..], ""])
}

/// The text of a cell that was made inert, by us or by another program. A `'` before anything else is somebody's own;
/// only text that itself begins like an inert cell does not come back as it was.
#[must_use]
pub fn plain(cell: &str) -> Cow<'_, str> {
    let bare = |part: &str| part.strip_prefix('\'').is_some_and(|text| text.starts_with(FORMULA));
    parts(cell, bare, |part| [&part[1..], ""])
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn every_text_comes_back_and_none_is_run(text in "[=+'@;\\-\n\r\ta]{0,12}|\\PC{0,12}") {
            let cell = inert(&text);
            prop_assert_eq!(exact(&cell), text.as_str());
            prop_assert!(!cell.split_inclusive(BEGINS_A_CELL).any(|part| part.starts_with(FORMULA)));
        }
    }

    #[test]
    fn what_would_run_is_inert_and_every_text_comes_back() {
        for text in ["=1+1", "+49 30", "-5", "@SUM(A1)", "\t=1", "\r=1"] {
            let cell = inert(text);
            assert_eq!(cell, format!("'{text}"));
            assert_eq!(plain(&cell), text);
        }
        for (text, cell) in [
            ("x;=1+1;y", "x;'=1+1;y"),
            ("=1;-2", "'=1;'-2"),
            ("see\n=cmd|' /C calc'!A0", "see\n'=cmd|' /C calc'!A0"),
            ("030 1;+49 2", "030 1;'+49 2"),
        ] {
            assert_eq!(inert(text), cell);
            assert_eq!(plain(cell), text);
        }
        for (text, cell) in [("'=1;''-2", "''=1;'''-2"), ("''=1", "'''=1")] {
            assert_eq!(inert(text), cell);
            assert_eq!(exact(cell), text);
        }
        for text in ["", "Žofia Ünlü", "李", "O'Hara", "'quoted'", "a=1", "'", "a; b", ";"] {
            assert_eq!(inert(text), text);
            assert_eq!(plain(text), text);
        }
        assert_eq!(plain("''=1"), "''=1", "another program's");
    }
}
