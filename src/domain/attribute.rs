//! What an event says of its places (where, how dear, on which day), and what people want of that.

use std::collections::{BTreeMap, HashMap};

use chrono::NaiveDate;
use serde::{Deserialize, Serialize};

use super::contact::is_plain_line;
use super::{slug, words};

/// An event has at most so many attributes, and a choice so many values.
pub const ATTRIBUTES_MAX: usize = 8;

/// See [`ATTRIBUTES_MAX`].
pub const CHOICES_MAX: usize = 50;

/// The longest name of an attribute or of a choice, in characters.
const NAME_MAX: usize = 60;

words! {
    /// What an attribute's values are.
    Measure {
        /// One of a few names.
        Choice = "choice",
        /// A number with at most two decimals.
        Number = "number",
        /// A day.
        Date = "date",
    }
}

/// Something that an event says of its places.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attribute {
    /// Its name for programs and in forms; never changes.
    pub key: String,
    /// Its name for people.
    pub label: String,
    /// What its values are.
    pub measure: Measure,
    /// The values of a choice, in the order in which they are shown.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub choices: Vec<String>,
}

/// The value of an attribute of one place.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Value {
    /// One of the choices.
    Choice(String),
    /// In hundredths.
    Number(i64),
    /// A day in the event's zone.
    Date(NaiveDate),
}

/// What is said of a place, by the keys of the attributes; of a place of which nothing is said, nothing.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Said(pub BTreeMap<String, Value>);

/// What somebody wants of one attribute.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Want {
    /// One of these choices.
    AnyOf(Vec<String>),
    /// At least and at most so much, in hundredths.
    Number {
        /// At least.
        at_least: Option<i64>,
        /// At most.
        at_most: Option<i64>,
    },
    /// Between these days, both included.
    Date {
        /// The first.
        from: Option<NaiveDate>,
        /// The last.
        to: Option<NaiveDate>,
    },
}

/// What somebody wants of a place; nothing in particular by default. A place of which an attribute is not said does not
/// meet a want of that attribute.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct Wants(pub BTreeMap<String, Want>);

/// Something typed that cannot be read: in which field, and what to do.
pub type Problem = (String, &'static str);

/// Fields as they were typed, by name.
pub type Typed = HashMap<String, String>;

impl Want {
    /// What is wrong with it if it can be met by nothing: at which end, and what to do.
    #[must_use]
    pub fn problem(&self) -> Option<(&'static str, &'static str)> {
        match self {
            Self::AnyOf(_) => None,
            Self::Number { at_least, at_most } => (at_least.zip(*at_most))
                .is_some_and(|(least, most)| least > most)
                .then_some(("max", "This is less than the least you want.")),
            Self::Date { from, to } => from
                .zip(*to)
                .is_some_and(|(from, to)| from > to)
                .then_some(("to", "This is before the first day.")),
        }
    }

    fn is_met_by(&self, value: &Value) -> bool {
        match (self, value) {
            (Self::AnyOf(choices), Value::Choice(choice)) => choices.contains(choice),
            (Self::Number { at_least, at_most }, Value::Number(number)) => {
                at_least.is_none_or(|least| least <= *number) && at_most.is_none_or(|most| *number <= most)
            }
            (Self::Date { from, to }, Value::Date(date)) => {
                from.is_none_or(|from| from <= *date) && to.is_none_or(|to| *date <= to)
            }
            _ => false,
        }
    }
}

impl Wants {
    /// Whether a place of which this is said would do.
    #[must_use]
    pub fn are_met_by(&self, said: &Said) -> bool {
        self.0.iter().all(|(key, want)| said.0.get(key).is_some_and(|value| want.is_met_by(value)))
    }

    /// Reads the fields `want.KEY.…` of a form. All choices of an attribute are as good as none.
    ///
    /// # Errors
    /// Every field that cannot be read.
    pub fn parse(attributes: &[Attribute], typed: &Typed) -> Result<Self, Vec<Problem>> {
        let (mut wants, mut problems) = (BTreeMap::new(), Vec::new());
        for attribute in attributes {
            let key = &attribute.key;
            match attribute.measure {
                Measure::Choice => {
                    let chosen = |choice: &&String| typed.contains_key(&format!("want.{key}.{choice}"));
                    let any_of: Vec<String> = attribute.choices.iter().filter(chosen).cloned().collect();
                    if !any_of.is_empty() && any_of.len() < attribute.choices.len() {
                        wants.insert(key.clone(), Want::AnyOf(any_of));
                    }
                }
                Measure::Number => {
                    let [at_least, at_most] = ["min", "max"].map(|end| {
                        read(typed, &format!("want.{key}.{end}"), hundredths, NOT_A_NUMBER, &mut problems)
                    });
                    if at_least.is_some() || at_most.is_some() {
                        wants.insert(key.clone(), Want::Number { at_least, at_most });
                    }
                }
                Measure::Date => {
                    let [from, to] = ["from", "to"]
                        .map(|end| read(typed, &format!("want.{key}.{end}"), day, NOT_A_DAY, &mut problems));
                    if from.is_some() || to.is_some() {
                        wants.insert(key.clone(), Want::Date { from, to });
                    }
                }
            }
            if let Some((end, problem)) = wants.get(key).and_then(Want::problem) {
                problems.push((format!("want.{key}.{end}"), problem));
            }
        }
        if problems.is_empty() { Ok(Self(wants)) } else { Err(problems) }
    }

    /// The form's fields that say this, as [`Wants::parse`] reads them.
    #[must_use]
    pub fn typed(&self) -> Typed {
        let mut typed = Typed::new();
        for (key, want) in &self.0 {
            match want {
                Want::AnyOf(choices) => {
                    typed.extend(
                        choices.iter().map(|choice| (format!("want.{key}.{choice}"), "on".to_owned())),
                    );
                }
                Want::Number { at_least, at_most } => {
                    typed.extend(at_least.map(|n| (format!("want.{key}.min"), number(n))));
                    typed.extend(at_most.map(|n| (format!("want.{key}.max"), number(n))));
                }
                Want::Date { from, to } => {
                    typed.extend(from.map(|day| (format!("want.{key}.from"), day.to_string())));
                    typed.extend(to.map(|day| (format!("want.{key}.to"), day.to_string())));
                }
            }
        }
        typed
    }

    /// In words, such as "Area: Balcony or Stalls; Price: at most 45"; empty for nothing in particular.
    #[must_use]
    pub fn words(&self, attributes: &[Attribute]) -> String {
        let parts = attributes.iter().filter_map(|attribute| {
            let want = match self.0.get(&attribute.key)? {
                Want::AnyOf(choices) => choices.join(" or "),
                Want::Number { at_least: Some(least), at_most: Some(most) } => {
                    format!("{} to {}", number(*least), number(*most))
                }
                Want::Number { at_least: Some(least), at_most: None } => {
                    format!("at least {}", number(*least))
                }
                Want::Number { at_most, .. } => format!("at most {}", number(at_most.unwrap_or_default())),
                Want::Date { from: Some(from), to: Some(to) } if from == to => long(*from),
                Want::Date { from: Some(from), to: Some(to) } => format!("{} to {}", long(*from), long(*to)),
                Want::Date { from: Some(from), to: None } => format!("from {} on", long(*from)),
                Want::Date { to, .. } => to.map_or_else(String::new, |to| format!("until {}", long(to))),
            };
            Some(format!("{}: {want}", attribute.label))
        });
        parts.collect::<Vec<_>>().join("; ")
    }
}

impl Said {
    /// Reads the fields `said.KEY` of a form; an empty one says nothing.
    ///
    /// # Errors
    /// Every field that cannot be read.
    pub fn parse(attributes: &[Attribute], typed: &Typed) -> Result<Self, Vec<Problem>> {
        let (mut said, mut problems) = (BTreeMap::new(), Vec::new());
        for attribute in attributes {
            let field = format!("said.{}", attribute.key);
            let value = match attribute.measure {
                Measure::Choice => {
                    let choice = |text: &str| attribute.choices.iter().find(|c| *c == text).cloned();
                    read(typed, &field, choice, "Choose one of these.", &mut problems).map(Value::Choice)
                }
                Measure::Number => {
                    read(typed, &field, hundredths, NOT_A_NUMBER, &mut problems).map(Value::Number)
                }
                Measure::Date => read(typed, &field, day, NOT_A_DAY, &mut problems).map(Value::Date),
            };
            said.extend(value.map(|value| (attribute.key.clone(), value)));
        }
        if problems.is_empty() { Ok(Self(said)) } else { Err(problems) }
    }

    /// The form's fields that say this, as [`Said::parse`] reads them.
    #[must_use]
    pub fn typed(&self) -> Typed {
        let text = |value: &Value| match value {
            Value::Choice(choice) => choice.clone(),
            Value::Number(n) => number(*n),
            Value::Date(day) => day.to_string(),
        };
        self.0.iter().map(|(key, value)| (format!("said.{key}"), text(value))).collect()
    }

    /// In words, such as "Area: Balcony, Price: 45"; empty where nothing is said.
    #[must_use]
    pub fn words(&self, attributes: &[Attribute]) -> String {
        let parts = attributes.iter().filter_map(|attribute| {
            let value = match self.0.get(&attribute.key)? {
                Value::Choice(choice) => choice.clone(),
                Value::Number(n) => number(*n),
                Value::Date(day) => long(*day),
            };
            Some(format!("{}: {value}", attribute.label))
        });
        parts.collect::<Vec<_>>().join(", ")
    }
}

const NOT_A_NUMBER: &str = "Enter a number with at most two decimals, such as 45 or 12.50.";
const NOT_A_DAY: &str = "Enter a day, such as 2027-03-31.";

fn read<T>(
    typed: &Typed,
    field: &str,
    parse: impl Fn(&str) -> Option<T>,
    otherwise: &'static str,
    problems: &mut Vec<Problem>,
) -> Option<T> {
    let text = typed.get(field).map_or("", |text| text.trim());
    if text.is_empty() {
        return None;
    }
    let value = parse(text);
    if value.is_none() {
        problems.push((field.to_owned(), otherwise));
    }
    value
}

/// A decimal number in hundredths: "12.5" is 1250. At most nine digits before the point.
fn hundredths(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let (whole, part) = digits.split_once(['.', ',']).unwrap_or((digits, "0"));
    let is_number = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !is_number(whole) || !is_number(part) || whole.len() > 9 || part.len() > 2 {
        return None;
    }
    Some(sign * (whole.parse::<i64>().ok()? * 100 + format!("{part:0<2}").parse::<i64>().ok()?))
}

fn number(hundredths: i64) -> String {
    let (sign, n) = (if hundredths < 0 { "-" } else { "" }, hundredths.unsigned_abs());
    match n % 100 {
        0 => format!("{sign}{}", n / 100),
        part => format!("{sign}{}.{part:02}", n / 100),
    }
}

fn day(text: &str) -> Option<NaiveDate> {
    NaiveDate::parse_from_str(text, "%Y-%m-%d").ok()
}

fn long(day: NaiveDate) -> String {
    day.format("%-d %B %Y").to_string()
}

/// What is wrong with an event's attributes.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AttributeError {
    /// Too long, or with control characters.
    #[error("A name has at most 60 characters, all of them printable.")]
    Name,
    /// A choice between less than two or more than fifty values.
    #[error("Name between 2 and 50 choices, one a line, each once.")]
    Choices,
}

impl Attribute {
    /// A new attribute; its key, made of the label, is none of `taken`.
    ///
    /// # Errors
    /// See [`AttributeError`].
    pub fn new(label: &str, measure: Measure, choices: &str, taken: &[Self]) -> Result<Self, AttributeError> {
        let name = slug::from_name(label);
        let name = if name.is_empty() { "attribute".to_owned() } else { name };
        let is_taken = |key: &str| taken.iter().any(|other| other.key == key);
        let key = (1..=taken.len() + 1)
            .map(|n| if n == 1 { name.clone() } else { format!("{name}-{n}") })
            .find(|key| !is_taken(key))
            .unwrap_or(name);
        Self { key, label: String::new(), measure, choices: vec![] }.renamed(label, choices)
    }

    /// The same attribute with another label and other choices.
    ///
    /// # Errors
    /// See [`AttributeError`].
    pub fn renamed(&self, label: &str, choices: &str) -> Result<Self, AttributeError> {
        let is_name = |text: &str| is_plain_line(text) && text.chars().count() <= NAME_MAX;
        let label = label.trim();
        if label.is_empty() || !is_name(label) {
            return Err(AttributeError::Name);
        }
        let choices: Vec<String> = match self.measure {
            Measure::Choice => {
                choices.lines().map(|line| line.trim().to_owned()).filter(|line| !line.is_empty()).collect()
            }
            Measure::Number | Measure::Date => vec![],
        };
        if !choices.iter().all(|choice| is_name(choice)) {
            return Err(AttributeError::Name);
        }
        let twice = choices.iter().enumerate().any(|(n, choice)| choices[..n].contains(choice));
        let count = choices.len();
        if self.measure == Measure::Choice && (twice || !(2..=CHOICES_MAX).contains(&count)) {
            return Err(AttributeError::Choices);
        }
        Ok(Self { label: label.to_owned(), choices, ..self.clone() })
    }
}

#[cfg(test)]
mod tests;
