//! The rule by which an event's places are offered: each setting in words, and who changed what.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chrono::Duration;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::frame::{EventFrame, Tab, path};
use super::words;
use crate::db::policies::PolicyVersion;
use crate::domain::event::Event;
use crate::domain::ids::EventId;
use crate::domain::policy::{After, Fit, Policy, PolicyError, PositionShown};
use crate::domain::reason::{ReasonError, StaffReason};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::events::SaveOutcome;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/policy", get(show).post(save))
}

/// What the form holds. A setting that this form does not know is refused by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PolicyForm {
    window: String,
    unit: String,
    batch_size: String,
    fit: String,
    after_expiry: String,
    after_decline: String,
    silence_limit: String,
    list_cap: String,
    party_limit: String,
    position_shown: String,
    reason: String,
    note: String,
    form_version: String,
    // Settings that other rules have and this one does not: named, so that they are refused instead of ignored.
    ordering: String,
    mode: String,
    cutoff: String,
}

impl PolicyForm {
    fn of(policy: &Policy, form_version: i32) -> Self {
        let (window, unit) = match policy.window {
            None => (String::new(), "hours"),
            Some(window) if window.num_minutes() % 1_440 == 0 => (window.num_days().to_string(), "days"),
            Some(window) if window.num_minutes() % 60 == 0 => (window.num_hours().to_string(), "hours"),
            Some(window) => (window.num_minutes().to_string(), "minutes"),
        };
        let number = |number: Option<i32>| number.map_or_else(String::new, |number| number.to_string());
        Self {
            window,
            unit: unit.to_owned(),
            batch_size: policy.batch_size.to_string(),
            fit: policy.fit.to_string(),
            after_expiry: policy.after_expiry.to_string(),
            after_decline: policy.after_decline.to_string(),
            silence_limit: policy.silence_limit.to_string(),
            list_cap: number(policy.list_cap),
            party_limit: number(policy.party_limit),
            position_shown: policy.position_shown.to_string(),
            form_version: form_version.to_string(),
            ..Self::default()
        }
    }

    fn refuse_unknown(&self, errors: &mut Errors) {
        let beyond = |text: &str, known: &str| !text.is_empty() && text != known;
        if beyond(&self.ordering, "arrival") {
            errors.add("", "The setting “ordering” has only the value “arrival”.");
        }
        if beyond(&self.mode, "hold") {
            errors.add("", "The setting “mode” has only the value “hold”.");
        }
        if beyond(&self.cutoff, "") {
            errors.add("", "There is no setting “cutoff”.");
        }
    }

    fn policy(&self, errors: &mut Errors) -> Option<Policy> {
        self.refuse_unknown(errors);
        let window = self.read_window(errors);
        let batch_size = number("batch_size", &self.batch_size, errors);
        let silence_limit = number("silence_limit", &self.silence_limit, errors);
        let list_cap = optional("list_cap", &self.list_cap, errors);
        let party_limit = optional("party_limit", &self.party_limit, errors);
        let fit = errors.check("fit", Fit::parse(&self.fit).ok_or(CHOOSE));
        let after_expiry = errors.check("after_expiry", After::parse(&self.after_expiry).ok_or(CHOOSE));
        let after_decline = errors.check("after_decline", After::parse(&self.after_decline).ok_or(CHOOSE));
        let position_shown =
            errors.check("position_shown", PositionShown::parse(&self.position_shown).ok_or(CHOOSE));
        let policy = Policy {
            window: window?,
            batch_size: batch_size?,
            fit: fit?,
            after_expiry: after_expiry?,
            after_decline: after_decline?,
            silence_limit: silence_limit?,
            list_cap: list_cap?,
            party_limit: party_limit?,
            position_shown: position_shown?,
            ..Policy::first()
        };
        if let Err(problem) = policy.check() {
            errors.add(field_of(problem), problem);
        }
        Some(policy)
    }

    #[expect(clippy::option_option, reason = "an answer, if it can be read; and no window is an answer")]
    fn read_window(&self, errors: &mut Errors) -> Option<Option<Duration>> {
        if self.window.trim().is_empty() {
            return Some(None);
        }
        let amount: i64 =
            errors.check("window", self.window.trim().parse().map_err(|_| not_a_number("window")))?;
        let window = match self.unit.as_str() {
            "minutes" => Duration::try_minutes(amount),
            "hours" => Duration::try_hours(amount),
            "days" => Duration::try_days(amount),
            _ => {
                errors.add("unit", CHOOSE);
                return None;
            }
        };
        errors.check("window", window.ok_or(PolicyError::Window)).map(Some)
    }
}

const CHOOSE: &str = "Choose one of these.";

fn number(field: &'static str, text: &str, errors: &mut Errors) -> Option<i32> {
    errors.check(field, text.trim().parse().map_err(|_| not_a_number(field)))
}

/// Names what is not a number: the summary above the form shows it among others.
fn not_a_number(field: &str) -> String {
    let what = match field {
        "window" => "time to answer",
        "batch_size" => "batch size",
        "silence_limit" => "number of unanswered offers",
        "list_cap" => "list’s limit",
        _ => "largest party",
    };
    format!("The {what} must be a whole number.")
}

#[expect(clippy::option_option, reason = "an answer, if it can be read; and nothing is an answer")]
fn optional(field: &'static str, text: &str, errors: &mut Errors) -> Option<Option<i32>> {
    if text.trim().is_empty() { Some(None) } else { number(field, text, errors).map(Some) }
}

fn field_of(problem: PolicyError) -> &'static str {
    match problem {
        PolicyError::Window => "window",
        PolicyError::BatchSize => "batch_size",
        PolicyError::SilenceLimit => "silence_limit",
        PolicyError::ListCap => "list_cap",
        PolicyError::PartyLimit => "party_limit",
    }
}

#[derive(Template)]
#[template(path = "staff/policy.html")]
struct PolicyPage {
    layout: Layout,
    frame: EventFrame,
    policy: Policy,
    history: Vec<PolicyVersion>,
    form: PolicyForm,
    errors: Errors,
    conflict: bool,
    may_edit: bool,
}

impl PolicyPage {
    fn reasons() -> Vec<(&'static str, String)> {
        words::reasons()
    }

    fn made(&self, version: &PolicyVersion) -> When {
        self.frame.when(version.made_at)
    }

    fn units() -> [(&'static str, &'static str); 3] {
        [("minutes", "minutes"), ("hours", "hours"), ("days", "days")]
    }

    fn fits() -> [(&'static str, &'static str); 2] {
        [
            ("strict", "Wait for more: nobody overtakes the head of the list"),
            ("fill", "Go on to the first who fits, and record who was passed over"),
        ]
    }

    fn afters() -> [(&'static str, &'static str); 3] {
        [
            ("back", "To the end of the line"),
            ("keep", "The same rank, but behind everyone not yet offered in this round"),
            ("leave", "Off the list"),
        ]
    }

    fn shown() -> [(&'static str, &'static str); 3] {
        [
            ("exact", "The exact position"),
            ("band", "Roughly: among the first 10, 50, 100 …"),
            ("none", "Nothing"),
        ]
    }
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: Option<PolicyForm>,
    errors: Errors,
    conflict: bool,
) -> Result<Response, Error> {
    let policy = state.db.policy(event.id).await?;
    let history = state.db.policy_history(event.id).await?;
    let form = form.unwrap_or_else(|| PolicyForm::of(&policy, event.form_version));
    let frame = EventFrame::new(event, Tab::Rule, staff.now);
    let layout = staff.event_layout(&frame.event, "Rule").await?;
    let status = match (conflict, errors.is_empty()) {
        (true, _) => StatusCode::CONFLICT,
        (false, true) => StatusCode::OK,
        (false, false) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let may_edit = staff.may(Act::EditPolicy);
    Ok((status, Page(PolicyPage { layout, frame, policy, history, form, errors, conflict, may_edit }))
        .into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    page(&state, &staff, event, None, Errors::default(), false).await
}

async fn save(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(mut form): VerifiedForm<PolicyForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPolicy)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let policy = form.policy(&mut errors);
    let reason = match StaffReason::parse(&form.reason, &form.note) {
        Ok(reason) => Some(reason),
        Err(problem) => {
            errors.add(if problem == ReasonError::Missing { "reason" } else { "note" }, problem);
            None
        }
    };
    let (Some(policy), Some(reason), true) = (policy, reason, errors.is_empty()) else {
        return page(&state, &staff, event, Some(form), errors, false).await;
    };
    let version = form.form_version.parse().unwrap_or(0);
    match state.waitlist().change_policy(event.id, &policy, version, staff.actor(), &reason).await? {
        SaveOutcome::Saved { .. } => {
            let said = format!("Saved: the new rule applies from now on. {}", policy.by_itself());
            staff.flash(Tone::Done, said).await?;
            Ok(Redirect::to(&path(event.id, "/policy")).into_response())
        }
        SaveOutcome::Conflict => {
            let event = state.db.event(event.id).await?;
            form.form_version = event.form_version.to_string();
            page(&state, &staff, event, Some(form), errors, true).await
        }
        SaveOutcome::Refused(problem) => {
            errors.add(field_of(problem), problem);
            page(&state, &staff, event, Some(form), errors, false).await
        }
        // Only settings name a start.
        SaveOutcome::StartsInPast => {
            errors.add("", "The event’s start is in the past.");
            page(&state, &staff, event, Some(form), errors, false).await
        }
        SaveOutcome::NotFrom(is) => {
            errors.add("", format!("The event is {is}: its rule cannot be changed now."));
            page(&state, &staff, event, Some(form), errors, false).await
        }
    }
}
