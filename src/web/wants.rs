//! The fields in which people say what they want of a place, and staff what a place is, for whatever an event says of
//! its places. Their names are those that `Wants::parse` and `Said::parse` read.

use super::page::Errors;
use crate::domain::attribute::{Attribute, Measure, Problem, Said, Typed, Wants};

/// The fields of one attribute.
pub struct Field {
    /// What the event calls it.
    pub label: String,
    /// What is chosen from, or typed.
    pub kind: FieldKind,
}

/// What a field looks like.
pub enum FieldKind {
    /// Some of several: the field's name, its words, whether it is chosen.
    Boxes(Vec<(String, String, bool)>),
    /// One of several or none: the field's name, what there is, what is chosen.
    Select(String, Vec<(String, String)>, String),
    /// One line each: the field's name, its words, what was typed, its input type.
    Lines(Vec<(String, &'static str, String, &'static str)>),
}

/// The fields for what somebody wants.
#[must_use]
pub fn wants_fields(attributes: &[Attribute], typed: &Typed) -> Vec<Field> {
    let value = |name: &str| typed.get(name).cloned().unwrap_or_default();
    let line = |key: &str, end, words, kind| {
        let name = format!("want.{key}.{end}");
        let typed = value(&name);
        (name, words, typed, kind)
    };
    let field = |attribute: &Attribute| {
        let key = &attribute.key;
        let kind = match attribute.measure {
            Measure::Choice => {
                let choice = |choice: &String| {
                    let name = format!("want.{key}.{choice}");
                    let chosen = typed.contains_key(&name);
                    (name, choice.clone(), chosen)
                };
                FieldKind::Boxes(attribute.choices.iter().map(choice).collect())
            }
            Measure::Number => FieldKind::Lines(vec![
                line(key, "min", "at least", "text"),
                line(key, "max", "at most", "text"),
            ]),
            Measure::Date => {
                FieldKind::Lines(vec![line(key, "from", "from", "date"), line(key, "to", "until", "date")])
            }
        };
        Field { label: attribute.label.clone(), kind }
    };
    attributes.iter().map(field).collect()
}

/// The fields for what is said of a place.
#[must_use]
pub fn said_fields(attributes: &[Attribute], typed: &Typed) -> Vec<Field> {
    let field = |attribute: &Attribute| {
        let name = format!("said.{}", attribute.key);
        let value = typed.get(&name).cloned().unwrap_or_default();
        let kind = match attribute.measure {
            Measure::Choice => {
                let none = (String::new(), "not said".to_owned());
                let choices = attribute.choices.iter().map(|choice| (choice.clone(), choice.clone()));
                FieldKind::Select(name, std::iter::once(none).chain(choices).collect(), value)
            }
            Measure::Number => FieldKind::Lines(vec![(name, "", value, "text")]),
            Measure::Date => FieldKind::Lines(vec![(name, "", value, "date")]),
        };
        Field { label: attribute.label.clone(), kind }
    };
    attributes.iter().map(field).collect()
}

fn noted<T>(parsed: Result<T, Vec<Problem>>, errors: &mut Errors) -> Option<T> {
    parsed.map_err(|problems| problems.into_iter().for_each(|(field, text)| errors.add(field, text))).ok()
}

/// How many places are asked for, or `None` after the error was noted.
pub fn parse_party(typed: &str, errors: &mut Errors) -> Option<i32> {
    let party = typed.trim().parse::<i32>().ok().filter(|party| *party >= 1);
    errors.check("party", party.ok_or("Enter how many places, as a number from 1."))
}

/// The same of the field `party` among those of [`wants_fields`].
pub fn read_party(typed: &Typed, errors: &mut Errors) -> Option<i32> {
    parse_party(typed.get("party").map_or("", String::as_str), errors)
}

/// What was typed into [`wants_fields`], or `None` after its errors were noted.
pub fn read_wants(attributes: &[Attribute], typed: &Typed, errors: &mut Errors) -> Option<Wants> {
    noted(Wants::parse(attributes, typed), errors)
}

/// What was typed into [`said_fields`], or `None` after its errors were noted.
pub fn read_said(attributes: &[Attribute], typed: &Typed, errors: &mut Errors) -> Option<Said> {
    noted(Said::parse(attributes, typed), errors)
}
