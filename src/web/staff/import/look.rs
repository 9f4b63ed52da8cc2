//! The columns of a file as a form shows them.

use crate::domain::import::{Field, Look};

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

/// The columns that may be chosen: number and name.
pub fn options(look: &Look) -> Vec<(String, String)> {
    if look.labels.is_empty() {
        return Vec::new();
    }
    let none = (String::new(), "not in the file".to_owned());
    let labels = look.labels.iter().enumerate();
    std::iter::once(none).chain(labels.map(|(at, label)| ((at + 1).to_string(), label.clone()))).collect()
}

/// The columns that are chosen.
pub fn choices(look: &Look) -> Vec<Choice> {
    if look.labels.is_empty() {
        return Vec::new();
    }
    Field::ALL
        .into_iter()
        .map(|field| Choice {
            key: field.key(),
            label: field.label(),
            column: look.column(field).map(|number| number.to_string()).unwrap_or_default(),
            hint: hint(field),
        })
        .collect()
}

/// The report's address asks for the same columns.
pub fn query(look: &Look) -> String {
    let mut query = url::form_urlencoded::Serializer::new(String::new());
    for choice in choices(look) {
        query.append_pair(choice.key, &choice.column);
    }
    query.finish()
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
