//! What a file looks like when it is read as somebody asks for.

use std::collections::BTreeMap;

use chrono::{DateTime, Utc};

use super::{Field, FileError, Mapping, MappingError, Plan, Reading, ReadingError, Table};

/// Which columns were asked for: by number, the first being 1; nothing where nobody said.
#[derive(Clone, Debug, Default)]
pub struct Asked(Option<BTreeMap<Field, String>>);

impl Asked {
    /// From what was said of fields. Whoever says anything says it of all: a field that is left out is in no column.
    #[must_use]
    pub fn of(said: BTreeMap<Field, String>) -> Self {
        Self((!said.is_empty()).then_some(said))
    }

    /// From the fields of the preview's form, which has them all.
    #[must_use]
    pub fn from_form(form: &BTreeMap<String, String>) -> Self {
        let said = Field::ALL
            .into_iter()
            .filter_map(|field| Some((field, form.get(field.key())?.trim().to_owned())))
            .collect();
        Self::of(said)
    }
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
    /// What its columns are called, in order.
    pub labels: Vec<String>,
}

impl Look {
    /// Reads `bytes` as asked, or as its layout or its columns' names suggest.
    #[must_use]
    pub fn at(bytes: Vec<u8>, asked: &Asked, empty: &Reading, now: DateTime<Utc>) -> Self {
        match Table::open(&bytes) {
            Ok(table) => {
                let (columns, wrong) = columns(&table, asked);
                let labels = table.labels();
                let recognised = Mapping::recognise(&table).is_some();
                let reading = Reading { columns, ..empty.clone() };
                let plan = match wrong {
                    Some(wrong) => Err(wrong.into()),
                    None => reading.plan(&bytes, now),
                };
                Self { bytes, reading, plan, recognised, labels }
            }
            Err(error) => Self::unreadable(bytes, error, empty),
        }
    }

    fn unreadable(bytes: Vec<u8>, error: FileError, empty: &Reading) -> Self {
        let (reading, plan) = (empty.clone(), Err(error.into()));
        Self { bytes, reading, plan, recognised: false, labels: Vec::new() }
    }

    /// The number of the column taken for a field, the first being 1.
    #[must_use]
    pub fn column(&self, field: Field) -> Option<usize> {
        self.reading.columns.iter().find(|(other, _)| *other == field).map(|(_, at)| at + 1)
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
