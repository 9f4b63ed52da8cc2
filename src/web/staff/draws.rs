//! The draws of a lottery: what was drawn and can be checked, a draw by staff, the value of a beacon.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::act::{ActForm, ActPage};
use super::frame::{EventFrame, Tab, path, people};
use crate::db::draws::{Cause, Draw};
use crate::domain::draw::quicknet_time;
use crate::domain::event::Event;
use crate::domain::ids::EventId;
use crate::domain::policy::{Draws, Ordering, Policy};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::draws::{BeaconOutcome, DrawOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/draws", get(show))
        .route("/events/{event}/draws/hold", get(ask).post(hold))
        .route("/events/{event}/draws/beacon", post(supply))
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct BeaconForm {
    signature: String,
}

#[derive(Template)]
#[template(path = "staff/draws.html")]
struct DrawsPage {
    layout: Layout,
    frame: EventFrame,
    policy: Policy,
    draws: Vec<Draw>,
    /// Who could be drawn now.
    eligible: i64,
    form: BeaconForm,
    errors: Errors,
    may_act: bool,
}

impl DrawsPage {
    fn is_lottery(&self) -> bool {
        self.policy.ordering == Ordering::Lottery
    }

    fn answer(&self) -> String {
        match (self.draws.first(), self.policy.draws) {
            (Some(draw), _) if draw.drawn_at.is_none() => {
                format!(
                    "Draw {} waits for its beacon: {} are in the pool.",
                    draw.number,
                    people(draw.pool_size.into())
                )
            }
            (_, Draws::At(at)) if at > self.frame.now() => {
                format!("The next draw is held {}.", self.frame.said(at))
            }
            (None, _) => "Nothing has been drawn yet.".to_owned(),
            (Some(draw), _) => {
                format!("Draw {} ranked {}.", draw.number, people(draw.pool_size.into()))
            }
        }
    }

    fn could_be_drawn(&self) -> String {
        people(self.eligible)
    }

    /// The draw that waits for its beacon.
    fn waiting(&self) -> Option<&Draw> {
        self.draws.first().filter(|draw| draw.drawn_at.is_none())
    }

    fn published(&self, draw: &Draw) -> Option<When> {
        let at = draw.round.and_then(|round| DateTime::<Utc>::from_timestamp(quicknet_time(round), 0))?;
        Some(self.frame.when(at))
    }

    fn frozen(&self, draw: &Draw) -> When {
        self.frame.when(draw.frozen_at)
    }

    fn cause(draw: &Draw) -> &'static str {
        match draw.cause {
            Cause::Need => "because a place was open and nobody was ranked",
            Cause::Scheduled => "at the instant the rule had set",
            Cause::Staff => "because staff said so",
        }
    }

    fn pool(draw: &Draw) -> String {
        people(draw.pool_size.into())
    }

    fn file(&self, draw: &Draw) -> String {
        format!("/e/{}/draws/{}.json", self.frame.event.slug, draw.number)
    }

    fn digest(draw: &Draw) -> String {
        hex::encode(draw.pool_digest)
    }
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: BeaconForm,
    errors: Errors,
) -> Result<Response, Error> {
    let policy = state.db.policy(event.id).await?;
    let draws = state.db.draws(event.id).await?;
    let eligible = state.db.entry_counts(event.id).await?.eligible;
    let frame = EventFrame::new(event, Tab::Rule, staff.now);
    let layout = staff.event_layout(&frame.event, "Draws").await?;
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let may_act = staff.may(Act::EditPolicy);
    let page = DrawsPage { layout, frame, policy, draws, eligible, form, errors, may_act };
    Ok((status, Page(page)).into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    page(&state, &staff, event, BeaconForm::default(), Errors::default()).await
}

async fn hold_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    form: ActForm,
    errors: Errors,
) -> Result<Response, Error> {
    let policy = state.db.policy(event.id).await?;
    let eligible = state.db.entry_counts(event.id).await?.eligible;
    let mut effects = vec![format!("{} could be offered a place now: they are the pool.", people(eligible))];
    effects.push(if policy.beacon.is_some() {
        "The pool is frozen and published with a future round of the beacon; the draw waits for that round.".to_owned()
    } else {
        "The pool is frozen and published, and the next secret of the chain is revealed: the order follows from both.".to_owned()
    });
    if let Some(last) = state.db.draws(event.id).await?.first() {
        effects.push(format!(
            "It is draw {}. That there was another before is on the public page; those who still wait from it are drawn \
             again.",
            last.number + 1
        ));
    }
    let frame = EventFrame::new(event, Tab::Rule, staff.now);
    let page = ActPage {
        layout: staff.event_layout(&frame.event, "Hold a draw").await?,
        heading: "Hold a draw".to_owned(),
        action: frame.path("/draws/hold"),
        page: frame.path("/draws"),
        button: "Hold the draw",
        danger: false,
        effects,
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
    staff.require(Act::EditPolicy)?;
    let event = staff.event(&state, event).await?;
    hold_page(&state, &staff, event, ActForm::default(), Errors::default()).await
}

async fn hold(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPolicy)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let Some(reason) = form.reason(&mut errors) else {
        return hold_page(&state, &staff, event, form, errors).await;
    };
    let (tone, said) = match state.waitlist().hold_draw(event.id, staff.actor(), &reason).await? {
        DrawOutcome::Drawn { number, entries } => {
            let ranked = people(i64::try_from(entries).unwrap_or(i64::MAX));
            (Tone::Done, format!("Drawn: draw {number} ranked {ranked}."))
        }
        DrawOutcome::Frozen { number, entries, round } => {
            let pool = people(i64::try_from(entries).unwrap_or(i64::MAX));
            (
                Tone::Done,
                format!(
                    "The pool of draw {number} is frozen: {pool}. It waits for round {round} of the beacon."
                ),
            )
        }
        DrawOutcome::NoLottery => (Tone::Warn, "The rule is no lottery: nothing was drawn.".to_owned()),
        DrawOutcome::Reordering => (
            Tone::Warn,
            "The list is still being put into the order of the new rule. Try again in a moment; nothing was drawn."
                .to_owned(),
        ),
        DrawOutcome::NobodyWaits => {
            (Tone::Warn, "Nobody waits who could be offered a place: nothing was drawn.".to_owned())
        }
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, "/draws")).into_response())
}

async fn supply(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<BeaconForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPolicy)?;
    let event = staff.event(&state, event).await?;
    let (tone, said) = match state.waitlist().supply_beacon(event.id, &form.signature, staff.actor()).await? {
        BeaconOutcome::Drawn { entries } => {
            let ranked = people(i64::try_from(entries).unwrap_or(i64::MAX));
            (Tone::Done, format!("The signature is that of the round announced. Drawn: {ranked} are ranked."))
        }
        BeaconOutcome::NoneWaits => (Tone::Note, "No draw waits for a beacon any more.".to_owned()),
        BeaconOutcome::Refused(problem) => {
            let mut errors = Errors::default();
            errors.add("signature", problem);
            return page(&state, &staff, event, form, errors).await;
        }
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, "/draws")).into_response())
}
