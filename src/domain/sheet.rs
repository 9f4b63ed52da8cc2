//! Text in the cells of a table that a spreadsheet may open: nothing in it is run as a formula.

use std::borrow::Cow;

/// What makes a spreadsheet calculate instead of show.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

/// Where another cell begins for a spreadsheet that takes the table for one with semicolons, as most of Europe's do: it
/// then sees neither our commas nor the quotes behind them.
const BEGINS_A_CELL: [char; 2] = [';', '\n'];

/// A cell that is shown as it stands: what would be run gets a `'` before it.
#[must_use]
pub fn inert(text: &str) -> Cow<'_, str> {
    let parts = || text.split_inclusive(BEGINS_A_CELL);
    if !parts().any(|part| part.starts_with(FORMULA)) {
        return Cow::Borrowed(text);
    }
    Cow::Owned(parts().flat_map(|part| [if part.starts_with(FORMULA) { "'" } else { "" }, part]).collect())
}

/// The text of a cell that was made inert, by us or by another program. A `'` before anything else is somebody's own;
/// only text that itself begins like an inert cell does not come back as it was.
#[must_use]
pub fn plain(cell: &str) -> Cow<'_, str> {
    let bare = |part: &str| part.strip_prefix('\'').is_some_and(|text| text.starts_with(FORMULA));
    let parts = || cell.split_inclusive(BEGINS_A_CELL);
    if !parts().any(bare) {
        return Cow::Borrowed(cell);
    }
    Cow::Owned(parts().map(|part| if bare(part) { &part[1..] } else { part }).collect())
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
        for (text, cell) in [
            ("x;=1+1;y", "x;'=1+1;y"),
            ("=1;-2", "'=1;'-2"),
            ("see\n=cmd|' /C calc'!A0", "see\n'=cmd|' /C calc'!A0"),
            ("030 1;+49 2", "030 1;'+49 2"),
        ] {
            assert_eq!(inert(text), cell);
            assert_eq!(plain(cell), text);
        }
        for text in ["", "Žofia Ünlü", "李", "O'Hara", "'quoted'", "a=1", "'", "''=1", "a; b", ";"] {
            assert_eq!(inert(text), text);
            assert_eq!(plain(text), text);
        }
    }
}
