//! From bytes to rows: UTF-8, a byte-order mark, commas or semicolons, quotes, and the line on which each row
//! begins.
//!
//! Written here rather than taken from a library because a report names lines, and because a quotation mark
//! that is never closed must be refused: readers that forgive it swallow the rest of the file as one value.

use std::borrow::Cow;

/// The most columns a header may have; values beyond are counted, not kept.
const MAX_COLUMNS: usize = 200;

/// Why a whole file is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FileError {
    /// As many files are kept to be looked at as an event may have.
    #[error(
        "As many files wait here to be looked at as may. Start one of them; a file is forgotten after a week."
    )]
    TooManyKept,
    /// Not a byte.
    #[error("The file is empty.")]
    Empty,
    /// A byte-order mark of UTF-16.
    #[error("The file is UTF-16. Save it as CSV in UTF-8 and try again.")]
    Utf16,
    /// Bytes that are no UTF-8.
    #[error("Line {line} is not valid UTF-8. Save the file as CSV in UTF-8 and try again.")]
    NotUtf8 {
        /// The line of the first such byte.
        line: usize,
    },
    /// A spreadsheet's own format, a PDF, a picture.
    #[error("This is not a CSV file. In the spreadsheet, choose “Save as” and CSV in UTF-8.")]
    NotText,
    /// A quotation mark without its partner: everything after it would be one value.
    #[error("The quotation mark opened on line {line} is never closed. Nothing after it can be read.")]
    UnclosedQuote {
        /// The line on which the value began.
        line: usize,
    },
    /// More columns than any list has.
    #[error("The first line has {found} columns; at most 200 can be read.")]
    TooManyColumns {
        /// How many there are.
        found: usize,
    },
    /// More rows than can be imported at once.
    #[error("The file has more than {most} rows. Split it and import the parts in order.")]
    TooManyRows {
        /// How many can be imported at once.
        most: usize,
    },
    /// One file with the lists of several events or dates.
    #[error("The file holds the lists of several events or dates ({first}, {second}). Export one at a time.")]
    SeveralEvents {
        /// One of them.
        first: String,
        /// Another.
        second: String,
    },
}

/// A file's text, its header read.
#[derive(Clone, Debug)]
pub struct Table<'a> {
    header: Vec<String>,
    separator: u8,
    body: Cursor<'a>,
}

/// One row, with the line on which it begins (the file's first line is 1).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Row<'a> {
    /// The line on which it begins.
    pub line: usize,
    /// Its values, quotes removed; at most 200 of them.
    pub values: Vec<Cow<'a, str>>,
    /// How many values it has.
    pub width: usize,
    /// Text follows a closing quotation mark, so that it is not known where a value ends.
    pub stray_quote: bool,
    /// Its last value's quotation mark is never closed.
    unclosed: bool,
}

impl<'a> Table<'a> {
    /// # Errors
    /// When the bytes are no UTF-8 text with a header.
    pub fn open(bytes: &'a [u8]) -> Result<Self, FileError> {
        if bytes.starts_with(&[0xFF, 0xFE]) || bytes.starts_with(&[0xFE, 0xFF]) {
            return Err(FileError::Utf16);
        }
        if bytes.starts_with(b"PK\x03\x04") || bytes.starts_with(b"%PDF") || bytes.starts_with(&[0xD0, 0xCF])
        {
            return Err(FileError::NotText);
        }
        let bytes = bytes.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(bytes);
        let text = std::str::from_utf8(bytes)
            .map_err(|error| FileError::NotUtf8 { line: 1 + line_breaks(&bytes[..error.valid_up_to()]) })?;
        if text.contains('\0') {
            return Err(FileError::NotText);
        }
        let mut body = Cursor { text, at: 0, line: 1 };
        let separator = body.separator_line().unwrap_or_else(|| body.guess_separator());
        let header = body.row(separator).ok_or(FileError::Empty)?;
        if header.unclosed {
            return Err(FileError::UnclosedQuote { line: header.line });
        }
        if header.width > MAX_COLUMNS {
            return Err(FileError::TooManyColumns { found: header.width });
        }
        let header = header.values.into_iter().map(|name| name.trim().to_owned()).collect();
        Ok(Self { header, separator, body })
    }

    /// The columns' names, as the first line gives them.
    #[must_use]
    pub fn header(&self) -> &[String] {
        &self.header
    }

    /// One name for each column, none twice: a name that occurs again is followed by `#` and its number, a
    /// column without a name is called by its number alone.
    #[must_use]
    pub fn labels(&self) -> Vec<String> {
        let same = |a: &str, b: &str| a.to_lowercase() == b.to_lowercase();
        (0..self.header.len())
            .map(|column| {
                let name = &self.header[column];
                if name.is_empty() {
                    return format!("#{}", column + 1);
                }
                if self.header.iter().filter(|other| same(other, name)).count() == 1 {
                    return name.clone();
                }
                let nth = self.header[..=column].iter().filter(|other| same(other, name)).count();
                format!("{name}#{nth}")
            })
            .collect()
    }

    /// `,` or `;`.
    #[must_use]
    pub fn separator(&self) -> char {
        char::from(self.separator)
    }

    /// The rows under the header, empty lines left out.
    #[must_use]
    pub fn rows(&self) -> Rows<'a> {
        Rows { cursor: self.body.clone(), separator: self.separator }
    }
}

/// The rows of a [`Table`].
#[derive(Clone, Debug)]
pub struct Rows<'a> {
    cursor: Cursor<'a>,
    separator: u8,
}

impl<'a> Iterator for Rows<'a> {
    type Item = Result<Row<'a>, FileError>;

    fn next(&mut self) -> Option<Self::Item> {
        let row = self.cursor.row(self.separator)?;
        Some(if row.unclosed { Err(FileError::UnclosedQuote { line: row.line }) } else { Ok(row) })
    }
}

/// Where reading is. `\n`, `\r\n` and a lone `\r` each end a line.
#[derive(Clone, Debug)]
struct Cursor<'a> {
    text: &'a str,
    at: usize,
    line: usize,
}

impl<'a> Cursor<'a> {
    fn peek(&self) -> Option<u8> {
        self.text.as_bytes().get(self.at).copied()
    }

    /// Steps over a line end, if one is here.
    fn line_end(&mut self) -> bool {
        match self.peek() {
            Some(b'\r') => {
                self.at += 1;
                if self.peek() == Some(b'\n') {
                    self.at += 1;
                }
            }
            Some(b'\n') => self.at += 1,
            _ => return false,
        }
        self.line += 1;
        true
    }

    /// `sep=;` on the first line, as a spreadsheet writes it for itself.
    fn separator_line(&mut self) -> Option<u8> {
        let separator = *self.text.as_bytes().strip_prefix(b"sep=")?.first()?;
        if !matches!(separator, b',' | b';') {
            return None;
        }
        let mut after = Self { at: 5, ..self.clone() };
        after.line_end().then(|| {
            *self = after;
            separator
        })
    }

    /// Whichever of comma and semicolon parts the first row into more values.
    fn guess_separator(&self) -> u8 {
        let width = |separator| self.clone().row(separator).map_or(0, |row| row.width);
        if width(b';') > width(b',') { b';' } else { b',' }
    }

    /// The next row that is not an empty line.
    fn row(&mut self, separator: u8) -> Option<Row<'a>> {
        loop {
            while self.line_end() {}
            self.peek()?;
            let row = self.row_or_empty_line(separator);
            if row.width > 1 || row.values.iter().any(|value| !value.trim().is_empty()) {
                return Some(row);
            }
        }
    }

    fn row_or_empty_line(&mut self, separator: u8) -> Row<'a> {
        let mut row =
            Row { line: self.line, values: Vec::new(), width: 0, stray_quote: false, unclosed: false };
        loop {
            let value = if self.peek() == Some(b'"') {
                self.quoted(separator, &mut row)
            } else {
                Cow::Borrowed(self.plain(separator))
            };
            row.width += 1;
            if row.values.len() < MAX_COLUMNS {
                row.values.push(value);
            }
            if self.peek() == Some(separator) {
                self.at += 1;
            } else {
                self.line_end();
                return row;
            }
        }
    }

    /// Up to the next separator or line end; a quotation mark inside is a character like any other.
    fn plain(&mut self, separator: u8) -> &'a str {
        let start = self.at;
        while self.peek().is_some_and(|b| b != separator && b != b'\r' && b != b'\n') {
            self.at += 1;
        }
        &self.text[start..self.at]
    }

    fn quoted(&mut self, separator: u8, row: &mut Row<'a>) -> Cow<'a, str> {
        self.at += 1;
        let mut value = Cow::Borrowed("");
        let mut start = self.at;
        loop {
            match self.peek() {
                None => {
                    row.unclosed = true;
                    return joined(value, &self.text[start..self.at]);
                }
                Some(b'"') => {
                    value = joined(value, &self.text[start..self.at]);
                    self.at += 1;
                    if self.peek() != Some(b'"') {
                        break;
                    }
                    // A doubled mark stands for one: it begins the next stretch.
                    start = self.at;
                    self.at += 1;
                }
                Some(_) => {
                    if !self.line_end() {
                        self.at += 1;
                    }
                }
            }
        }
        let rest = self.plain(separator);
        row.stray_quote |= !rest.trim().is_empty();
        value
    }
}

/// The two stretches as one, copied only when neither is empty.
fn joined<'a>(before: Cow<'a, str>, after: &'a str) -> Cow<'a, str> {
    if before.is_empty() { Cow::Borrowed(after) } else { before + after }
}

/// How many line ends there are, counted as [`Cursor`] counts them.
fn line_breaks(bytes: &[u8]) -> usize {
    let ends_here = |at: usize, b: u8| b == b'\n' || (b == b'\r' && bytes.get(at + 1) != Some(&b'\n'));
    bytes.iter().enumerate().filter(|(at, b)| ends_here(*at, **b)).count()
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn read(text: &str) -> Vec<(usize, Vec<String>)> {
        let table = Table::open(text.as_bytes()).expect("a table");
        table
            .rows()
            .map(|row| {
                let row = row.expect("a row");
                (row.line, row.values.into_iter().map(Cow::into_owned).collect())
            })
            .collect()
    }

    fn refusal(bytes: &[u8]) -> FileError {
        match Table::open(bytes) {
            Err(error) => error,
            Ok(table) => table.rows().find_map(Result::err).expect("refused"),
        }
    }

    #[test]
    fn quotes_line_breaks_and_empty_lines_are_read_as_spreadsheets_write_them() {
        assert_eq!(
            read("a,b\r\n\"x,\"\"y\"\"\",1\r\n\r\n\"two\nlines\",\"\"\n,\n"),
            [
                (2, vec!["x,\"y\"".to_owned(), "1".to_owned()]),
                (4, vec!["two\nlines".to_owned(), String::new()]),
                (6, vec![String::new(), String::new()]),
            ]
        );
        assert_eq!(read("a,b\rc,d").len(), 1, "a lone return ends a line too");
    }

    #[test]
    fn semicolons_and_a_byte_order_mark_are_noticed() {
        let table =
            Table::open(b"\xEF\xBB\xBFName;Email;Note, long\nAnn;ann@example.org;x").expect("a table");
        assert_eq!((table.separator(), &table.header()[0]), (';', &"Name".to_owned()));
        assert_eq!(Table::open(b"sep=;\r\nName\r\nAnn").expect("a table").separator(), ';');
    }

    #[test]
    fn columns_with_the_same_name_can_be_told_apart() {
        let table = Table::open(b"Date,Name,date,\n").expect("a table");
        assert_eq!(table.labels(), ["Date#1", "Name", "date#2", "#4"]);
    }

    #[test]
    fn a_file_that_cannot_be_read_is_refused_with_the_line() {
        assert_eq!(refusal(b""), FileError::Empty);
        assert_eq!(refusal(b"\n\n"), FileError::Empty);
        assert_eq!(refusal(b"a,b\nx,y\nx,\xFFy\n"), FileError::NotUtf8 { line: 3 });
        assert_eq!(refusal(b"a,b\r\nM\xFCller,y"), FileError::NotUtf8 { line: 2 });
        assert_eq!(refusal(b"\xFF\xFEa\0"), FileError::Utf16);
        assert_eq!(refusal(b"PK\x03\x04..."), FileError::NotText);
        assert_eq!(refusal(b"a,b\n1,2\n\"3,4\n5,6\n"), FileError::UnclosedQuote { line: 3 });
        assert_eq!(refusal(",".repeat(500).as_bytes()), FileError::TooManyColumns { found: 501 });
    }

    #[test]
    fn text_after_a_closing_quotation_mark_is_noticed() {
        let table = Table::open(b"a,b\n\"x\"y,2\nO\"Brien,3\n").expect("a table");
        let stray: Vec<_> = table.rows().map(|row| row.expect("a row").stray_quote).collect();
        assert_eq!(stray, [true, false]);
    }

    fn written(value: &str, quoted: bool, separator: char) -> String {
        if quoted || value.contains(['"', '\n', '\r', separator]) {
            format!("\"{}\"", value.replace('"', "\"\""))
        } else {
            value.to_owned()
        }
    }

    proptest! {
        /// Nothing that is uploaded makes the reader panic, and lines never run backwards.
        #[test]
        fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(prop_oneof![
            4 => prop::sample::select(b"\",;\r\n a'=\xC3\xBC".to_vec()), 1 => any::<u8>()], 0..200)) {
            if let Ok(table) = Table::open(&bytes) {
                let lines: Vec<_> = table.rows().filter_map(Result::ok).map(|row| row.line).collect();
                prop_assert!(lines.is_sorted_by(|a, b| a < b));
                prop_assert_eq!(table.labels().len(), table.header().len());
            }
        }

        /// What a spreadsheet writes is read back, value by value, whatever is in it.
        #[test]
        fn what_was_written_is_read(
            rows in prop::collection::vec(prop::collection::vec(("[a\", ;\r\n'=é李-]{0,6}", any::<bool>()), 3), 0..8),
            separator in prop::sample::select(vec![',', ';']),
            line_end in prop::sample::select(vec!["\n", "\r\n", "\r"]),
            last_line_end in any::<bool>(),
        ) {
            let mut lines = vec![["x", "y", "z"].join(&separator.to_string())];
            for row in &rows {
                let values: Vec<_> = row.iter().map(|(value, quoted)| written(value, *quoted, separator)).collect();
                lines.push(values.join(&separator.to_string()));
            }
            let mut file = lines.join(line_end);
            if last_line_end {
                file += line_end;
            }
            let expected: Vec<Vec<String>> =
                rows.iter().map(|row| row.iter().map(|(value, _)| value.clone()).collect()).collect();
            let found: Vec<Vec<String>> = read(&file).into_iter().map(|(_, values)| values).collect();
            prop_assert_eq!(found, expected);
        }
    }
}
