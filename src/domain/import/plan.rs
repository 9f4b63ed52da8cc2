//! Who is taken, in which order, and what is said of every other row.

use std::borrow::Cow;
use std::collections::hash_map::Entry;
use std::collections::{BTreeMap, HashMap};

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::domain::contact::{EmailAddress, PersonName, PhoneNumber, inert};
use crate::domain::entry::EntryState;
use crate::domain::sheet;

use super::columns::{Field, Mapping};
use super::reasons::{Refusal, Remark};
use super::table::{FileError, Row, Table};
use super::time::{self, ClockChange, TimeError};

/// The most rows of one file; they are all in memory while they are put in order.
const MAX_ROWS: usize = 500_000;

/// What the event says about how its file is read.
#[derive(Clone, Copy, Debug)]
pub struct Context {
    /// The zone of times without an offset.
    pub zone: Tz,
    /// The largest party that may join.
    pub largest_party: i32,
    /// Now, to notice times still to come.
    pub now: DateTime<Utc>,
}

/// In which state an imported entry begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PlannedState {
    /// In the line.
    Waiting,
    /// Was offered elsewhere and did not answer: on record, not in the line.
    Expired,
}

/// A row that is taken.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Planned {
    /// The line on which it begins.
    pub line: usize,
    /// What the person is called, if they are not known yet.
    pub name: PersonName,
    /// Who the person is.
    pub email: EmailAddress,
    /// A telephone number to keep with the person.
    pub phone: Option<PhoneNumber>,
    /// When they joined elsewhere, where the file says.
    pub joined_at: Option<DateTime<Utc>>,
    /// How many places they want.
    pub party: i32,
    /// In which state the entry begins.
    pub state: PlannedState,
    /// Kept with the entry for later.
    pub priority: i32,
    /// A language tag such as `de`.
    pub language: Option<String>,
}

/// Something said of one row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reported<T> {
    /// The line on which the row begins.
    pub line: usize,
    /// Whose row it is, as far as it can be read; safe to print.
    pub who: String,
    /// What is said.
    pub what: T,
}

/// What an import would do.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Plan {
    /// How many rows the file has under its header.
    pub rows: usize,
    /// Who is taken: by time, then by place in the file.
    pub people: Vec<Planned>,
    /// The rows that are not taken, in the file's order.
    pub refused: Vec<Reported<Refusal>>,
    /// What was changed or assumed in rows that are taken, in the file's order.
    pub remarks: Vec<Reported<Remark>>,
    /// Columns nothing was taken from.
    pub unused: Vec<String>,
}

impl Plan {
    /// # Errors
    /// When the file as a whole cannot be imported.
    pub fn make(table: &Table<'_>, mapping: &Mapping, context: &Context) -> Result<Self, FileError> {
        let mut plan = Self { unused: unused(table, mapping), ..Self::default() };
        let mut event = None;
        for row in table.rows() {
            let row = row?;
            plan.rows += 1;
            if plan.rows > MAX_ROWS {
                return Err(FileError::TooManyRows { most: MAX_ROWS });
            }
            one_event(&row, mapping, &mut event)?;
            let mut remarks = Vec::new();
            let reader = Reader { row: &row, mapping, context };
            match reader.read(table.header().len(), &mut remarks) {
                Ok(person) => {
                    let who = who(person.name.as_str(), person.email.value());
                    plan.remarks.extend(remarks.into_iter().map(|what| Reported {
                        line: row.line,
                        who: who.clone(),
                        what,
                    }));
                    plan.people.push(person);
                }
                Err(what) => {
                    let value = |field| cell(&row, mapping, field).unwrap_or_default();
                    let who = who(&value(Field::Name), &value(Field::Email));
                    plan.refused.push(Reported { line: row.line, who, what });
                }
            }
        }
        // Stable: rows of one instant, and rows without one, stay in the file's order.
        plan.people.sort_by_key(|person| person.joined_at);
        plan.keep_one_row_per_person();
        plan.refused.sort_by_key(|refused| refused.line);
        Ok(plan)
    }

    /// Of several rows of one person the first that waits is taken, so that an old row that has expired does
    /// not cost the person the place in the line that a newer one gives.
    fn keep_one_row_per_person(&mut self) {
        let mut kept: HashMap<&str, usize> = HashMap::with_capacity(self.people.len());
        for (index, person) in self.people.iter().enumerate() {
            match kept.entry(person.email.canonical()) {
                Entry::Vacant(free) => {
                    free.insert(index);
                }
                Entry::Occupied(mut taken) => {
                    let before = &self.people[*taken.get()];
                    if before.state == PlannedState::Expired && person.state == PlannedState::Waiting {
                        taken.insert(index);
                    }
                }
            }
        }
        let twice: Vec<Option<usize>> = self
            .people
            .iter()
            .enumerate()
            .map(|(index, person)| {
                let taken = kept.get(person.email.canonical()).copied().unwrap_or(index);
                (taken != index).then(|| self.people[taken].line)
            })
            .collect();
        let mut twice = twice.into_iter();
        let refused = &mut self.refused;
        let mut left_out = Vec::new();
        self.people.retain(|person| match twice.next().flatten() {
            None => true,
            Some(line) => {
                refused.push(Reported {
                    line: person.line,
                    who: who(person.name.as_str(), person.email.value()),
                    what: Refusal::SamePerson { line },
                });
                left_out.push(person.line);
                false
            }
        });
        left_out.sort_unstable();
        self.remarks.retain(|remark| left_out.binary_search(&remark.line).is_err());
    }

    /// How many are taken in that state.
    #[must_use]
    pub fn count(&self, state: PlannedState) -> usize {
        self.people.iter().filter(|person| person.state == state).count()
    }

    /// Leaves out the people on these lines, who have an entry on the list already.
    pub fn leave_out(&mut self, listed: &[(usize, EntryState)]) {
        let listed: HashMap<usize, EntryState> = listed.iter().copied().collect();
        let refused = &mut self.refused;
        self.people.retain(|person| match listed.get(&person.line) {
            None => true,
            Some(state) => {
                let who = who(person.name.as_str(), person.email.value());
                refused.push(Reported { line: person.line, who, what: Refusal::Listed(*state) });
                false
            }
        });
        self.remarks.retain(|remark| !listed.contains_key(&remark.line));
        self.refused.sort_by_key(|refused| refused.line);
    }
}

/// The kinds of what is said with how often each occurs, the most frequent first.
#[must_use]
pub fn counted<T>(reports: &[Reported<T>], kind: fn(&T) -> &'static str) -> Vec<(&'static str, usize)> {
    let mut counts = BTreeMap::new();
    for report in reports {
        *counts.entry(kind(&report.what)).or_insert(0) += 1;
    }
    let mut counts: Vec<_> = counts.into_iter().collect();
    counts.sort_by_key(|(_, count)| std::cmp::Reverse(*count));
    counts
}

fn unused(table: &Table<'_>, mapping: &Mapping) -> Vec<String> {
    let used: Vec<usize> = mapping.columns().map(|(_, column)| column).collect();
    let labels = table.labels().into_iter().enumerate();
    labels.filter(|(column, _)| !used.contains(column)).map(|(_, label)| inert(&label, 40)).collect()
}

/// Two events' lists in one file would become one line that nobody ever stood in.
fn one_event(row: &Row<'_>, mapping: &Mapping, event: &mut Option<String>) -> Result<(), FileError> {
    let named: Vec<&str> = mapping
        .event_columns()
        .iter()
        .filter_map(|column| row.values.get(*column))
        .map(|value| value.trim())
        .filter(|value| !value.is_empty())
        .collect();
    if named.is_empty() {
        return Ok(());
    }
    let named = inert(&named.join(", "), 80);
    match event {
        Some(first) if *first != named => {
            Err(FileError::SeveralEvents { first: first.clone(), second: named })
        }
        _ => {
            *event = Some(named);
            Ok(())
        }
    }
}

/// A person in a report.
fn who(name: &str, email: &str) -> String {
    let (name, email) = (inert(name.trim(), 60), inert(email.trim(), 80));
    match (name.is_empty(), email.is_empty()) {
        (false, false) => format!("{name} <{email}>"),
        (false, true) => name,
        (true, false) => email,
        (true, true) => "no name".to_owned(),
    }
}

/// A field's value without the quote that other programs put before what a spreadsheet would run as a formula.
fn cell<'r>(row: &'r Row<'_>, mapping: &Mapping, field: Field) -> Option<Cow<'r, str>> {
    let value: &str = row.values.get(mapping.column(field)?)?;
    Some(sheet::plain(value))
}

struct Reader<'r> {
    row: &'r Row<'r>,
    mapping: &'r Mapping,
    context: &'r Context,
}

impl Reader<'_> {
    /// The trimmed value of a field, or `None` where there is no column for it or nothing in it.
    fn value(&self, field: Field) -> Option<String> {
        let value = cell(self.row, self.mapping, field)?;
        let value = value.trim();
        (!value.is_empty()).then(|| value.to_owned())
    }

    fn read(&self, width: usize, remarks: &mut Vec<Remark>) -> Result<Planned, Refusal> {
        if self.row.values.iter().all(|value| value.trim().is_empty()) {
            return Err(Refusal::Empty);
        }
        if self.row.stray_quote {
            return Err(Refusal::StrayQuote);
        }
        if self.row.width != width {
            return Err(Refusal::Width { found: self.row.width, expected: width });
        }
        let email = EmailAddress::parse(&self.value(Field::Email).unwrap_or_default())?;
        let state = self.state(remarks)?;
        let name = self.name(&email, remarks)?;
        let joined_at = self.joined_at(remarks)?;
        let party = self.party()?;
        Ok(Planned {
            line: self.row.line,
            name,
            phone: self.phone(remarks),
            joined_at,
            party,
            state,
            priority: self.priority(remarks),
            language: self.value(Field::Language).filter(|tag| is_language_tag(tag)),
            email,
        })
    }

    fn name(&self, email: &EmailAddress, remarks: &mut Vec<Remark>) -> Result<PersonName, Refusal> {
        let Some(name) = self.value(Field::Name) else {
            remarks.push(Remark::NoName);
            let local = email.value().split('@').next().unwrap_or_default();
            return Ok(PersonName::parse(local)?);
        };
        if name.contains(['\r', '\n']) {
            remarks.push(Remark::LineBreakInName);
            let lines: Vec<&str> =
                name.split(['\r', '\n']).map(str::trim).filter(|s| !s.is_empty()).collect();
            return Ok(PersonName::parse(&lines.join(" "))?);
        }
        Ok(PersonName::parse(&name)?)
    }

    fn phone(&self, remarks: &mut Vec<Remark>) -> Option<PhoneNumber> {
        let text = self.value(Field::Phone)?;
        PhoneNumber::parse(&text).map_err(|_| remarks.push(Remark::PhoneLeftOut(inert(&text, 40)))).ok()
    }

    fn joined_at(&self, remarks: &mut Vec<Remark>) -> Result<Option<DateTime<Utc>>, TimeError> {
        if self.mapping.column(Field::Joined).is_none() {
            return Ok(None);
        }
        let text = self.value(Field::Joined).ok_or(TimeError::Missing)?;
        let (at, change) = time::instant(&text, self.context.zone)?;
        match change {
            Some(ClockChange::Doubled) => remarks.push(Remark::TimeDoubled),
            Some(ClockChange::Skipped) => remarks.push(Remark::TimeSkipped),
            None => {}
        }
        if at > self.context.now {
            remarks.push(Remark::TimeToCome);
        }
        Ok(Some(at))
    }

    fn party(&self) -> Result<i32, Refusal> {
        let Some(text) = self.value(Field::Party) else { return Ok(1) };
        let most = self.context.largest_party;
        text.parse()
            .ok()
            .filter(|party| (1..=most).contains(party))
            .ok_or_else(|| Refusal::Party { found: inert(&text, 20), most })
    }

    fn priority(&self, remarks: &mut Vec<Remark>) -> i32 {
        let Some(text) = self.value(Field::Priority) else { return 0 };
        text.parse().unwrap_or_else(|_| {
            remarks.push(Remark::PriorityLeftOut(inert(&text, 20)));
            0
        })
    }

    fn state(&self, remarks: &mut Vec<Remark>) -> Result<PlannedState, Refusal> {
        let Some(text) = self.value(Field::Status) else { return Ok(PlannedState::Waiting) };
        match text.to_lowercase().as_str() {
            "waiting for a voucher" | "waiting" | "wait-listed" | "waitlisted" | "pending" => {
                Ok(PlannedState::Waiting)
            }
            "voucher assigned" | "waiting for redemption" | "assigned" | "offered" => {
                remarks.push(Remark::ForeignVoucher);
                Ok(PlannedState::Waiting)
            }
            "voucher expired" | "expired" => Ok(PlannedState::Expired),
            "voucher redeemed" | "redeemed" | "accepted" | "booked" | "confirmed" => Err(Refusal::History),
            "cancelled" | "canceled" | "declined" | "left" | "removed" | "withdrawn" => Err(Refusal::Gone),
            _ => Err(Refusal::Status(inert(&text, 40))),
        }
    }
}

fn is_language_tag(text: &str) -> bool {
    text.len() <= 35
        && text.split('-').enumerate().all(|(part, subtag)| {
            let length = if part == 0 { 2..=3 } else { 1..=8 };
            length.contains(&subtag.len()) && subtag.bytes().all(|b| b.is_ascii_alphanumeric())
        })
}

#[cfg(test)]
#[path = "plan_tests.rs"]
mod tests;
