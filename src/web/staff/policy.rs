//! The rule by which an event's places are offered: each setting in words, and who changed what.

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
use crate::domain::policy::Policy;
use crate::domain::policy_changes::{Change, changes};
use crate::domain::reason::{ReasonError, StaffReason};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::events::RuleOutcome;
use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use example::Example;
use form::PolicyForm;
pub use form::field_of;
use plot::Plot;
use simulation::Replay;

mod example;
mod form;
mod plot;
pub mod simulation;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/policy", get(show).post(save))
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
    example: Option<Example>,
    replay: Option<Replay>,
    /// What the rule that is being tried out does not use.
    unused: Vec<&'static str>,
}

impl PolicyPage {
    fn reasons() -> Vec<(&'static str, String)> {
        words::reasons()
    }

    fn made(&self, version: &PolicyVersion) -> When {
        self.frame.when(version.made_at)
    }

    /// What a version says otherwise than the one before it.
    fn changes(&self, version: &PolicyVersion) -> Vec<Change> {
        let is_before = |before: &&PolicyVersion| before.policy.version + 1 == version.policy.version;
        let said = |at| self.frame.when(at).absolute;
        let before = self.history.iter().find(is_before);
        before.map(|before| changes(&before.policy, &version.policy, said)).unwrap_or_default()
    }

    fn orders() -> [(&'static str, &'static str); 4] {
        [
            ("arrival", "Arrival: who joined first is served first"),
            ("priority", "Priority: groups named below go first, in order of arrival inside each"),
            ("lottery", "Lottery: a draw that anybody can check ranks those who wait"),
            ("manual", "Manual: staff pick and say why; nothing goes out by itself"),
        ]
    }

    fn modes() -> [(&'static str, &'static str); 2] {
        [
            ("hold", "Offers in turn: each keeps its places until its deadline"),
            (
                "notify_all",
                "Calls to everybody: whoever could take an open place is told, and the first to accept has it",
            ),
        ]
    }

    fn draws() -> [(&'static str, &'static str); 3] {
        [
            ("need", "By itself, as soon as a place is open and nobody is ranked"),
            ("at", "At the instant below, and by itself after it"),
            ("staff", "When staff say so"),
        ]
    }

    fn beacons() -> [(&'static str, &'static str); 2] {
        [
            ("none", "The announced secret alone: quick, and the organizer could know the result beforehand"),
            (
                "drand",
                "The secret and a future round of drand’s quicknet: nobody could know, and somebody of the staff enters the round’s signature",
            ),
        ]
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

    fn tellings() -> [(&'static str, &'static str); 2] {
        [
            (
                "extend",
                "The deadline moves by as much; while nobody can be told, deadlines wait and nothing new is offered",
            ),
            ("run", "The deadline stays as it is"),
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

/// What is shown of a form that was sent: its problems, or what it would do.
#[derive(Default)]
struct Shown {
    form: Option<PolicyForm>,
    errors: Errors,
    conflict: bool,
    example: Option<Example>,
    replay: Option<Replay>,
    unused: Vec<&'static str>,
}

async fn page(state: &WebState, staff: &Staff, event: Event, shown: Shown) -> Result<Response, Error> {
    let policy = state.db.policy(event.id).await?;
    let history = state.db.policy_history(event.id).await?;
    let Shown { form, errors, conflict, example, replay, unused } = shown;
    let form = form.unwrap_or_else(|| PolicyForm::of(&policy, event.form_version, event.zone));
    let frame = EventFrame::new(event, Tab::Rule, staff.now);
    let layout = staff.event_layout(&frame.event, "Rule").await?;
    let status = match (conflict, errors.is_empty()) {
        (true, _) => StatusCode::CONFLICT,
        (false, true) => StatusCode::OK,
        (false, false) => StatusCode::UNPROCESSABLE_ENTITY,
    };
    let may_edit = staff.may(Act::EditPolicy);
    let page = PolicyPage {
        layout,
        frame,
        policy,
        history,
        form,
        errors,
        conflict,
        may_edit,
        example,
        replay,
        unused,
    };
    Ok((status, Page(page)).into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    page(&state, &staff, event, Shown::default()).await
}

async fn save(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(mut form): VerifiedForm<PolicyForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPolicy)?;
    let event = staff.event(&state, event).await?;
    let before = state.db.policy(event.id).await?;
    let mut errors = Errors::default();
    let policy = form.policy(&before, event.zone, &mut errors);
    if let Some(Err(problem)) = policy.as_ref().map(|policy| policy.check(event.starts_at)) {
        errors.add(field_of(problem), problem);
    }
    let tried_out = !form.example.is_empty();
    let reason = if tried_out { None } else { read_reason(&form, &mut errors) };
    let Some(policy) = policy.filter(|_| errors.is_empty()) else {
        return page(&state, &staff, event, Shown { form: Some(form), errors, ..Shown::default() }).await;
    };
    let Some(reason) = reason else {
        if form.example == "past" {
            let replay = Replay::of(&state, &event, &before, &policy, staff.now).await?;
            let shown = Shown { form: Some(form), replay: Some(replay), ..Shown::default() };
            return page(&state, &staff, event, shown).await;
        }
        let example = Example::of(&state, &event, &before, &policy, staff.now).await?;
        let unused = policy.without_effect();
        let shown = Shown { form: Some(form), example: Some(example), unused, ..Shown::default() };
        return page(&state, &staff, event, shown).await;
    };
    let version = form.form_version.parse().unwrap_or(0);
    match state.waitlist().change_policy(event.id, &policy, version, staff.actor(), &reason).await? {
        RuleOutcome::Saved(version) => {
            let said = format!("Saved: version {version} of the rule is in force. {}", policy.by_itself());
            staff.flash(Tone::Done, said).await?;
            return Ok(Redirect::to(&path(event.id, "/policy")).into_response());
        }
        RuleOutcome::Conflict => {
            let event = state.db.event(event.id).await?;
            form.form_version = event.form_version.to_string();
            let shown = Shown { form: Some(form), conflict: true, ..Shown::default() };
            return page(&state, &staff, event, shown).await;
        }
        RuleOutcome::Refused(problem) => errors.add(field_of(problem), problem),
        RuleOutcome::BandInUse { band, entries } => {
            let people =
                if entries == 1 { "1 person is".to_owned() } else { format!("{entries} people are") };
            errors.add(
                "bands",
                format!("{people} in the group “{}”: put them into another before it goes.", band.name),
            );
        }
    }
    page(&state, &staff, event, Shown { form: Some(form), errors, ..Shown::default() }).await
}

fn read_reason(form: &PolicyForm, errors: &mut Errors) -> Option<StaffReason> {
    StaffReason::parse(&form.reason, &form.note)
        .map_err(|problem| {
            errors.add(if problem == ReasonError::Missing { "reason" } else { "note" }, problem);
        })
        .ok()
}
