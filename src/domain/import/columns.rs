//! Which column means what: recognised by itself, guessed for a preview, or named by whoever imports.

use std::collections::BTreeMap;

use super::table::Table;

/// What a column can be taken for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Field {
    /// What the person is called.
    Name,
    /// The address that decides who it is.
    Email,
    /// A telephone number.
    Phone,
    /// When they joined the list.
    Joined,
    /// How many places they want.
    Party,
    /// Whether they still wait.
    Status,
    /// Kept with the entry for later.
    Priority,
    /// The language messages are to be in.
    Language,
}

impl Field {
    /// Every field, in the order forms show them.
    pub const ALL: [Self; 8] = [
        Self::Name,
        Self::Email,
        Self::Phone,
        Self::Joined,
        Self::Party,
        Self::Status,
        Self::Priority,
        Self::Language,
    ];

    /// The field's name on the command line and in forms.
    #[must_use]
    pub fn key(self) -> &'static str {
        match self {
            Self::Name => "name",
            Self::Email => "email",
            Self::Phone => "phone",
            Self::Joined => "joined",
            Self::Party => "party",
            Self::Status => "status",
            Self::Priority => "priority",
            Self::Language => "language",
        }
    }

    /// The field's name for people.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Name => "Name",
            Self::Email => "Email address",
            Self::Phone => "Telephone",
            Self::Joined => "Time of joining",
            Self::Party => "Number of places",
            Self::Status => "Status",
            Self::Priority => "Priority",
            Self::Language => "Language",
        }
    }

    /// Whether there is no import without it.
    #[must_use]
    pub fn is_required(self) -> bool {
        matches!(self, Self::Name | Self::Email)
    }

    /// The field of that key.
    #[must_use]
    pub fn from_key(key: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|field| field.key() == key)
    }

    /// Names under which other programs export the field.
    fn usual_names(self) -> &'static [&'static str] {
        match self {
            Self::Name => {
                &["name", "full name", "attendee name", "attendee", "nom", "nombre", "vollständiger name"]
            }
            Self::Email => &["email", "e-mail", "email address", "e-mail address", "e-mail-adresse", "mail"],
            Self::Phone => {
                &["phone", "phone number", "telephone", "mobile", "telefon", "telefonnummer", "tel"]
            }
            Self::Joined => {
                &["joined", "date", "joined at", "created", "created at", "timestamp", "time", "datum"]
            }
            Self::Party => {
                &["party", "party size", "places", "tickets", "quantity", "guests", "seats", "anzahl"]
            }
            Self::Status => &["status", "state"],
            Self::Priority => &["priority", "priorität"],
            Self::Language => &["language", "locale", "sprache"],
        }
    }
}

/// Which column holds which field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Mapping {
    columns: BTreeMap<Field, usize>,
    pretix: bool,
}

/// Why the columns named do not make a mapping.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MappingError {
    /// No column for a field that must have one.
    #[error("Say which column holds the {}.", .0.label().to_lowercase())]
    Missing(Field),
    /// There is no such column.
    #[error("There is no column called “{0}” in the file.")]
    NoSuchColumn(String),
    /// Several columns have the name.
    #[error("Several columns are called “{0}”: write “{0}#1” for the first of them, “{0}#2” for the second.")]
    SeveralColumns(String),
    /// One column was given two meanings.
    #[error("The column “{0}” cannot be two things at once.")]
    Twice(String),
}

/// The header of a waiting list exported by pretix. The second `Date` is that of an event in a series.
const PRETIX: [&str; 17] = [
    "Date",
    "Name",
    "Email",
    "Phone number",
    "Product",
    "Product ID",
    "Variation",
    "Variation ID",
    "Event slug",
    "Event name",
    "Date",
    "Start date",
    "End date",
    "Language",
    "Priority",
    "Status",
    "Voucher code",
];
const PRETIX_EVENT: [usize; 2] = [8, 10];

impl Mapping {
    /// The mapping of a layout that is known, or `None`: then somebody has to name the columns.
    #[must_use]
    pub fn recognise(table: &Table<'_>) -> Option<Self> {
        (table.header() == PRETIX).then(|| Self {
            columns: BTreeMap::from([
                (Field::Joined, 0),
                (Field::Name, 1),
                (Field::Email, 2),
                (Field::Phone, 3),
                (Field::Language, 13),
                (Field::Priority, 14),
                (Field::Status, 15),
            ]),
            pretix: true,
        })
    }

    /// What the columns' names suggest; incomplete where they suggest nothing.
    #[must_use]
    pub fn guess(table: &Table<'_>) -> Self {
        if let Some(known) = Self::recognise(table) {
            return known;
        }
        let mut guess = Self::default();
        for field in Field::ALL {
            let column = field
                .usual_names()
                .iter()
                .find_map(|usual| table.header().iter().position(|name| name.to_lowercase() == *usual));
            if let Some(column) = column
                && !guess.columns.values().any(|taken| *taken == column)
            {
                guess.columns.insert(field, column);
            }
        }
        guess
    }

    /// The mapping that somebody named: fields with column names, capitals ignored, `Date#2` for the second
    /// column called `Date`, `#3` for the third column whatever it is called.
    ///
    /// # Errors
    /// When a column does not exist, is not the only one of that name, or [`Mapping::at`] refuses them.
    pub fn name(table: &Table<'_>, names: &[(Field, String)]) -> Result<Self, MappingError> {
        let columns: Result<Vec<_>, _> =
            names.iter().map(|(field, name)| Ok((*field, find(table, name)?))).collect();
        Self::at(table, &columns?)
    }

    /// The mapping of fields to columns by their place, the first being 0.
    ///
    /// # Errors
    /// When a column does not exist or is given two meanings, or a required field has none.
    pub fn at(table: &Table<'_>, columns: &[(Field, usize)]) -> Result<Self, MappingError> {
        let mut mapping = Self { pretix: table.header() == PRETIX, ..Self::default() };
        for (field, column) in columns {
            let Some(name) = table.header().get(*column) else {
                return Err(MappingError::NoSuchColumn(format!("#{}", column.saturating_add(1))));
            };
            if mapping.columns.values().any(|taken| taken == column) {
                return Err(MappingError::Twice(name.clone()));
            }
            mapping.columns.insert(*field, *column);
        }
        match Field::ALL.into_iter().find(|field| field.is_required() && !mapping.columns.contains_key(field))
        {
            Some(field) => Err(MappingError::Missing(field)),
            None => Ok(mapping),
        }
    }

    /// The column that holds `field`.
    #[must_use]
    pub fn column(&self, field: Field) -> Option<usize> {
        self.columns.get(&field).copied()
    }

    /// Fields and columns, always in the same order.
    pub fn columns(&self) -> impl Iterator<Item = (Field, usize)> + '_ {
        self.columns.iter().map(|(field, column)| (*field, *column))
    }

    /// Whether the layout is that of pretix's export.
    #[must_use]
    pub fn is_pretix(&self) -> bool {
        self.pretix
    }

    /// The columns that say which event a row belongs to, where the layout is known.
    pub(super) fn event_columns(&self) -> &'static [usize] {
        if self.pretix { &PRETIX_EVENT } else { &[] }
    }
}

fn find(table: &Table<'_>, name: &str) -> Result<usize, MappingError> {
    let wanted = name.trim().to_lowercase();
    // A label is unique, and a column's own name wins over somebody else's label.
    let same: Vec<usize> = (0..table.header().len())
        .filter(|column| !wanted.is_empty() && table.header()[*column].to_lowercase() == wanted)
        .collect();
    match same[..] {
        [column] => return Ok(column),
        [_, _, ..] => return Err(MappingError::SeveralColumns(name.trim().to_owned())),
        [] => {}
    }
    if let Some(column) = table.labels().iter().position(|label| label.to_lowercase() == wanted) {
        return Ok(column);
    }
    wanted
        .strip_prefix('#')
        .and_then(|number| number.parse::<usize>().ok())
        .and_then(|number| number.checked_sub(1))
        .filter(|column| *column < table.header().len())
        .ok_or_else(|| MappingError::NoSuchColumn(name.trim().to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(header: &str, names: &[(Field, &str)]) -> Result<Vec<(Field, usize)>, MappingError> {
        let table = Table::open(header.as_bytes()).expect("a table");
        let names: Vec<_> = names.iter().map(|(field, name)| (*field, (*name).to_owned())).collect();
        Mapping::name(&table, &names).map(|mapping| mapping.columns().collect())
    }

    #[test]
    fn columns_are_named_without_regard_to_capitals_and_twins_by_number() {
        let header = "Date,Who,Mail,Date,\n";
        let both = [(Field::Name, "who"), (Field::Email, " MAIL ")];
        assert_eq!(name(header, &both), Ok(vec![(Field::Name, 1), (Field::Email, 2)]));
        let with = |column| name(header, &[both[0], both[1], (Field::Joined, column)]).map(|all| all[2].1);
        assert_eq!(with("date#2"), Ok(3));
        assert_eq!(with("#5"), Ok(4));
        assert_eq!(with("Date"), Err(MappingError::SeveralColumns("Date".to_owned())));
        assert_eq!(with("Day"), Err(MappingError::NoSuchColumn("Day".to_owned())));
        assert_eq!(with(""), Err(MappingError::NoSuchColumn(String::new())));
        assert_eq!(with("Who"), Err(MappingError::Twice("Who".to_owned())));
        assert_eq!(name(header, &both[..1]), Err(MappingError::Missing(Field::Email)));
    }

    #[test]
    fn usual_names_are_guessed_and_nothing_else() {
        let table = Table::open("E-Mail;Full name;Datum;Shoe size\n".as_bytes()).expect("a table");
        let guess: Vec<_> = Mapping::guess(&table).columns().collect();
        assert_eq!(guess, [(Field::Name, 1), (Field::Email, 0), (Field::Joined, 2)]);
        assert_eq!(Mapping::recognise(&table), None);
    }
}
