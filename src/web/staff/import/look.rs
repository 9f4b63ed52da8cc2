//! What a file looks like when it is read as somebody asks for.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use crate::domain::import::{Field, FileError, Mapping, MappingError, Plan, Reading, ReadingError, Table};

/// Which columns were asked for: by number, the first being 1; nothing where nobody said.
#[derive(Clone, Debug, Default)]
pub struct Asked(Option<BTreeMap<Field, String>>);

impl Asked {
    /// From the fields of the preview's form, which has them all.
    pub fn from_form(form: &BTreeMap<String, String>) -> Self {
        let said: BTreeMap<Field, String> = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, form.get(field.key())?.trim().to_owned())))
            .collect();
        Self((!said.is_empty()).then_some(said))
    }
}

/// A field of the form, with the column chosen for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choice {
    /// The field's name in the form.
    pub key: &'static str,
    /// Its name for people.
    pub label: &'static str,
    /// The number of its column, or nothing.
    pub column: String,
    /// What is said below its name.
    pub hint: &'static str,
}

/// A file, read.
#[derive(Debug)]
pub struct Look {
    /// The file itself.
    pub bytes: Vec<u8>,
    /// How it was read.
    pub reading: Reading,
    /// What came of it.
    pub plan: Result<Plan, ReadingError>,
    /// Whether its layout was recognised.
    pub recognised: bool,
    /// The columns that may be chosen: number and name.
    pub options: Vec<(String, String)>,
    /// The columns that are chosen.
    pub choices: Vec<Choice>,
}

impl Look {
    /// Reads `bytes` as asked, or as its layout or its columns' names suggest.
    pub fn at(bytes: Vec<u8>, asked: &Asked, empty: &Reading, now: DateTime<Utc>) -> Self {
        match Table::open(&bytes) {
            Ok(table) => {
                let (columns, wrong) = columns(&table, asked);
                let options = options(&table);
                let recognised = Mapping::recognise(&table).is_some();
                let reading = Reading { columns, ..empty.clone() };
                let plan = match wrong {
                    Some(wrong) => Err(wrong.into()),
                    None => reading.plan(&bytes, now),
                };
                let choices = choices(&reading);
                Self { bytes, reading, plan, recognised, options, choices }
            }
            Err(error) => Self::unreadable(bytes, error, empty),
        }
    }

    fn unreadable(bytes: Vec<u8>, error: FileError, empty: &Reading) -> Self {
        let (reading, plan) = (empty.clone(), Err(error.into()));
        Self { bytes, reading, plan, recognised: false, options: Vec::new(), choices: Vec::new() }
    }

    /// The report's address asks for the same columns.
    pub fn query(&self) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        for choice in &self.choices {
            query.append_pair(choice.key, &choice.column);
        }
        query.finish()
    }
}

fn columns(table: &Table<'_>, asked: &Asked) -> (Vec<(Field, usize)>, Option<MappingError>) {
    let Some(said) = &asked.0 else {
        return (Mapping::guess(table).columns().collect(), None);
    };
    let mut columns = Vec::new();
    let mut wrong = None;
    for (field, number) in said.iter().filter(|(_, number)| !number.is_empty()) {
        match number.parse::<usize>().ok().and_then(|number| number.checked_sub(1)) {
            Some(column) => columns.push((*field, column)),
            None => wrong = Some(MappingError::NoSuchColumn(number.chars().take(40).collect())),
        }
    }
    (columns, wrong)
}

fn options(table: &Table<'_>) -> Vec<(String, String)> {
    let none = (String::new(), "not in the file".to_owned());
    let labels = table.labels().into_iter().enumerate();
    std::iter::once(none).chain(labels.map(|(at, label)| ((at + 1).to_string(), label))).collect()
}

fn choices(reading: &Reading) -> Vec<Choice> {
    Field::ALL
        .into_iter()
        .map(|field| Choice {
            key: field.key(),
            label: field.label(),
            column: reading
                .columns
                .iter()
                .find(|(other, _)| *other == field)
                .map(|(_, at)| (at + 1).to_string())
                .unwrap_or_default(),
            hint: hint(field),
        })
        .collect()
}

fn hint(field: Field) -> &'static str {
    match field {
        Field::Name | Field::Email => "Needed.",
        Field::Joined => "Without it, the order of the file counts.",
        Field::Party => "Without it, one place each.",
        Field::Status => "Without it, everybody waits.",
        Field::Phone => "For staff to call.",
        Field::Priority => "Kept with the entry.",
        Field::Language => "For messages.",
    }
}
