//! A booking as a calendar keeps it (RFC 5545).

use chrono::{DateTime, Utc};

/// What goes into a calendar.
#[derive(Clone, Copy, Debug)]
pub struct CalendarEvent<'a> {
    /// The same for the same booking, so that it is kept once.
    pub uid: &'a str,
    /// When this was written.
    pub stamp: DateTime<Utc>,
    /// When it starts.
    pub start: DateTime<Utc>,
    /// What it is.
    pub title: &'a str,
    /// Where it is; may be empty.
    pub place: &'a str,
    /// What else to know.
    pub notes: &'a str,
    /// Its page.
    pub url: &'a str,
}

impl CalendarEvent<'_> {
    /// The whole file, lines ended and folded as the standard wants.
    #[must_use]
    pub fn file(&self) -> String {
        let instant = |at: DateTime<Utc>| at.format("%Y%m%dT%H%M%SZ").to_string();
        let mut lines = vec![
            "BEGIN:VCALENDAR".to_owned(),
            "VERSION:2.0".to_owned(),
            "PRODID:-//Fairlist//Booking//EN".to_owned(),
            "METHOD:PUBLISH".to_owned(),
            "BEGIN:VEVENT".to_owned(),
            format!("UID:{}", text(self.uid)),
            format!("DTSTAMP:{}", instant(self.stamp)),
            format!("DTSTART:{}", instant(self.start)),
            format!("SUMMARY:{}", text(self.title)),
        ];
        if !self.place.is_empty() {
            lines.push(format!("LOCATION:{}", text(self.place)));
        }
        lines.push(format!("DESCRIPTION:{}", text(self.notes)));
        lines.push(format!("URL:{}", self.url));
        lines.push("END:VEVENT".to_owned());
        lines.push("END:VCALENDAR".to_owned());
        lines.iter().map(|line| folded(line)).collect()
    }
}

/// Text that cannot end its line or begin another property.
fn text(value: &str) -> String {
    let mut escaped = String::with_capacity(value.len());
    for c in value.chars() {
        match c {
            '\\' | ';' | ',' => escaped.extend(['\\', c]),
            '\n' => escaped.push_str("\\n"),
            c if c.is_control() => {}
            c => escaped.push(c),
        }
    }
    escaped
}

/// At most 75 bytes a line; what follows begins with a space. Never inside a character.
fn folded(line: &str) -> String {
    let mut out = String::with_capacity(line.len() + 8);
    let mut length = 0;
    for c in line.chars() {
        if length + c.len_utf8() > 75 {
            out.push_str("\r\n ");
            length = 1;
        }
        out.push(c);
        length += c.len_utf8();
    }
    out.push_str("\r\n");
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_add_properties_and_long_lines_are_folded() {
        let title = format!("Concert; \"A, B\"\r\nATTENDEE:x {}", "ü".repeat(60));
        let file = CalendarEvent {
            uid: "1@fairlist",
            stamp: DateTime::UNIX_EPOCH,
            start: DateTime::UNIX_EPOCH,
            title: &title,
            place: "",
            notes: "Reference ABC",
            url: "https://tickets.example/offers/1",
        }
        .file();
        assert!(file.contains("SUMMARY:Concert\\; \"A\\, B\"\\nATTENDEE:x"), "{file}");
        assert!(file.contains("DTSTART:19700101T000000Z\r\n"));
        assert!(file.split("\r\n").all(|line| line.len() <= 75), "{file}");
        assert!(!file.contains("LOCATION"));
    }
}
