//! The final call where staff pick: nothing goes out by itself there, so they make it.

use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Tone};
use super::Staff;
use super::act::{ActForm, ActPage};
use super::frame::{EventFrame, Tab, path, people};
use crate::domain::event::Event;
use crate::domain::ids::EventId;
use crate::domain::role::Act;
use crate::waitlist::calls::FinalCallOutcome;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/final-call", get(ask).post(make))
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: ActForm,
    errors: Errors,
) -> Result<Response, Error> {
    let eligible = state.db.entry_counts(event.id).await?.eligible;
    let frame = EventFrame::new(event, Tab::Overview, staff.now);
    let page = ActPage {
        layout: staff.event_layout(&frame.event, "Final call").await?,
        heading: "Make the final call".to_owned(),
        effects: vec![
            format!(
                "{} wait: everybody whose party fits what is open is told at the same time, now and whenever a place \
                 comes back.",
                people(eligible)
            ),
            "The first to accept has the place. Nothing is held, and the public may book, too.".to_owned(),
            "It ends when the event starts, and cannot be taken back.".to_owned(),
        ],
        action: frame.path("/final-call"),
        page: frame.path(""),
        button: "Make the final call",
        danger: false,
        choice: None,
        deadline: None,
        number: None,
        form,
        errors,
        frame,
    };
    Ok(page.answer())
}

async fn ask(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnOffers)?;
    let event = staff.event(&state, event).await?;
    page(&state, &staff, event, ActForm::default(), Errors::default()).await
}

async fn make(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnOffers)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let Some(reason) = form.reason(&mut errors) else {
        return page(&state, &staff, event, form, errors).await;
    };
    let (tone, said) = match state.waitlist().make_final_call(event.id, staff.actor(), &reason).await? {
        FinalCallOutcome::Made => (Tone::Done, "The final call is made: the first to accept has the place."),
        FinalCallOutcome::Already => (Tone::Note, "The final call was made before."),
        FinalCallOutcome::NotYet => (
            Tone::Warn,
            "The rule has no final call that staff make, or its time has not come: nothing was done.",
        ),
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, "")).into_response())
}
