//! An act that changes somebody's chance: one page that says what will happen and asks for the reason.

use askama::Template;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::super::error::Error;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::frame::{EventFrame, back_to};
use super::words;
use crate::domain::reason::{ReasonError, StaffReason};
use crate::domain::when;

/// What an act's form may hold. Every field has its empty value, so that what is missing is said at the field.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ActForm {
    /// The reason's code.
    pub reason: String,
    /// In one's own words.
    pub note: String,
    /// What becomes of the entry.
    pub after: String,
    /// A local time of the event's zone.
    pub deadline: String,
    /// A number in the line.
    pub number: String,
    /// The view from which the act was begun.
    pub back: String,
}

/// From where an act is begun.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct ActQuery {
    /// The view to return to.
    pub back: String,
}

impl ActForm {
    /// The form as it is first shown.
    #[must_use]
    pub fn begun(query: ActQuery) -> Self {
        Self { back: query.back, ..Self::default() }
    }

    /// The reason, or what is wrong with it at its field.
    pub fn reason(&self, errors: &mut Errors) -> Option<StaffReason> {
        match StaffReason::parse(&self.reason, &self.note) {
            Ok(reason) => Some(reason),
            Err(error @ ReasonError::Missing) => {
                errors.add("reason", error);
                None
            }
            Err(error @ (ReasonError::NoteMissing | ReasonError::NoteTooLong)) => {
                errors.add("note", error);
                None
            }
        }
    }

    /// The instant typed, if any was; what is wrong with it is said at the field.
    pub fn deadline(&self, frame: &EventFrame, errors: &mut Errors) -> Option<DateTime<Utc>> {
        if self.deadline.trim().is_empty() {
            return None;
        }
        errors.check("deadline", when::parse_local(&self.deadline, frame.event.zone))
    }
}

/// One of a few things that may become of something.
#[derive(Clone, Debug)]
pub struct Choice {
    /// The question.
    pub legend: &'static str,
    /// Its answers, the default first.
    pub options: Vec<(String, String)>,
}

/// A field for an instant.
#[derive(Clone, Debug)]
pub struct DeadlineField {
    /// Its label.
    pub label: &'static str,
    /// What to know.
    pub hint: String,
    /// Whether the act needs it.
    pub required: bool,
}

/// The page.
#[derive(Clone, Debug, Template)]
#[template(path = "staff/act.html")]
pub struct ActPage {
    /// The frame of every page.
    pub layout: Layout,
    /// The event's.
    pub frame: EventFrame,
    /// What is to be done, and to whom.
    pub heading: String,
    /// What will happen.
    pub effects: Vec<String>,
    /// Where the form goes.
    pub action: String,
    /// The page of what is acted upon.
    pub page: String,
    /// The button.
    pub button: &'static str,
    /// Whether it takes something away from somebody.
    pub danger: bool,
    /// A question beside the reason.
    pub choice: Option<Choice>,
    /// An instant that it needs.
    pub deadline: Option<DeadlineField>,
    /// The hint of a number in the line that it needs.
    pub number: Option<String>,
    /// What was typed.
    pub form: ActForm,
    /// What is wrong with it.
    pub errors: Errors,
}

impl ActPage {
    /// The reasons.
    #[must_use]
    pub fn reasons(&self) -> Vec<(&'static str, String)> {
        words::reasons()
    }

    /// Where "Cancel" leads.
    #[must_use]
    pub fn cancel(&self) -> String {
        back_to(&self.form.back, &self.page).to_string()
    }

    /// The page: 422 when something is wrong with what was typed.
    #[must_use]
    pub fn answer(self) -> Response {
        let status = if self.errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        (status, Page(self)).into_response()
    }
}

/// Says what happened and goes back to where the act was begun, or else to `page`.
///
/// # Errors
/// When the session cannot be written.
pub async fn done(
    staff: &Staff,
    tone: Tone,
    said: impl Into<String>,
    back: &str,
    page: &str,
) -> Result<Response, Error> {
    staff.flash(tone, said).await?;
    Ok(Redirect::to(back_to(back, page).as_str()).into_response())
}
