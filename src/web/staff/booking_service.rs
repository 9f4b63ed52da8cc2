//! Where an event's places are booked: the service and its key, how it is doing, and what it never answered.

use std::collections::HashMap;

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::act::{ActForm, done};
use super::frame::{EventFrame, Tab, isolated, places};
use super::words;
use crate::db::booking_services::{BookingService, Circuit};
use crate::domain::ids::{AttemptId, EventId, OfferId};
use crate::domain::outside::{Attempt, AttemptAct, AttemptOutcome, ServiceState, ServiceUrl, service_key};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::booking_settings::{BookAt, BookAtOutcome};
use crate::waitlist::outside::{LookedUp, Resolution, ResolveOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/booking-service", get(show).post(save))
        .route("/events/{event}/booking-service/{attempt}", get(ask).post(resolve))
}

/// Attempts on the page: all that are open, and the latest others.
const ROWS: i64 = 100;

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ServiceForm {
    /// `here` or `service`.
    at: String,
    base_url: String,
    /// Never filled in by us.
    key: String,
}

#[derive(Template)]
#[template(path = "staff/booking_service.html")]
struct ServicePage {
    layout: Layout,
    frame: EventFrame,
    form: ServiceForm,
    errors: Errors,
    service: Option<BookingService>,
    circuit: Circuit,
    attempts: Vec<Attempt>,
    names: HashMap<OfferId, (String, i32)>,
    may_edit: bool,
    may_act: bool,
}

impl ServicePage {
    async fn read(
        state: &WebState,
        staff: &Staff,
        event: EventId,
        form: Option<ServiceForm>,
        errors: Errors,
    ) -> Result<Self, Error> {
        let event = staff.event(state, event).await?;
        let service = state.db.booking_service(event.id).await?;
        let circuit = match &service {
            Some(service) => state.db.circuit(service.organization, &service.url).await?,
            None => Circuit::default(),
        };
        let attempts = state.db.attempts_of(event.id, ROWS).await?;
        let offers: Vec<OfferId> = attempts.iter().map(|attempt| attempt.offer).collect();
        let names = state.db.names_of_offers(event.id, &offers).await?;
        let form = form.unwrap_or_else(|| ServiceForm {
            at: if service.is_some() { "service" } else { "here" }.to_owned(),
            base_url: service.as_ref().map(|service| service.url.as_str().to_owned()).unwrap_or_default(),
            key: String::new(),
        });
        let frame = EventFrame::new(event, Tab::Settings, staff.now);
        let layout = staff.event_layout(&frame.event, "Booking service").await?.live(10);
        let (may_edit, may_act) = (staff.may(Act::EditEvents), staff.may(Act::ActOnOffers));
        Ok(Self { layout, frame, form, errors, service, circuit, attempts, names, may_edit, may_act })
    }

    /// How things stand, in one sentence.
    fn answer(&self) -> String {
        let Some(_) = &self.service else {
            return "Places of this event are booked here, in Fairlist’s own ledger.".to_owned();
        };
        let unknown = match self.open().count() {
            0 => "Nothing waits for its answer.".to_owned(),
            1 => "1 call waits for its answer.".to_owned(),
            n => format!("{n} calls wait for their answers."),
        };
        if let Some(until) = self.circuit.open_until.filter(|until| *until > self.frame.now()) {
            return format!(
                "The booking service does not answer: {} calls in a row failed, and none is tried before {}. {unknown}",
                self.circuit.failures,
                self.frame.said(until)
            );
        }
        match (self.circuit.failures, self.circuit.last_success_at) {
            (0, None) => format!("The booking service has not been called yet. {unknown}"),
            (0, Some(at)) => {
                format!("The booking service answers: it did so last {}. {unknown}", self.frame.said(at))
            }
            (n, _) => format!(
                "The booking service failed {}. {unknown}",
                if n == 1 { "the last time".to_owned() } else { format!("the last {n} times") }
            ),
        }
    }

    /// The state of the circuit, as a chip: its look and its word.
    fn chip(&self) -> (&'static str, &'static str) {
        match self.circuit.state(self.frame.now()) {
            ServiceState::LeftAlone => ("contact_problem", "left alone"),
            ServiceState::Failing => ("paused", "failing"),
            ServiceState::Called => ("open", "called as usual"),
        }
    }

    fn key_label(&self) -> &'static str {
        if self.service.is_some() { "Another key" } else { "Key" }
    }

    fn open(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.outcome == AttemptOutcome::Unresolved)
    }

    fn settled(&self) -> impl Iterator<Item = &Attempt> {
        self.attempts.iter().filter(|attempt| attempt.outcome != AttemptOutcome::Unresolved)
    }

    fn what(&self, attempt: &Attempt) -> String {
        what(attempt, self.names.get(&attempt.offer))
    }

    fn outcome(attempt: &Attempt) -> &'static str {
        outcome(attempt)
    }

    fn needs_staff(&self, attempt: &Attempt) -> bool {
        attempt.needs_staff(self.frame.now())
    }

    fn when(&self, at: &chrono::DateTime<chrono::Utc>) -> When {
        self.frame.when(*at)
    }
}

fn what(attempt: &Attempt, whose: Option<&(String, i32)>) -> String {
    let (name, party) = whose.map_or(("somebody", 1), |(name, party)| (name.as_str(), *party));
    match attempt.act {
        AttemptAct::Reserve => format!("Book {} for {}", places(party), isolated(name)),
        AttemptAct::Release if attempt.bookings.is_empty() => {
            format!("Make void what {} may have been booked", isolated(name))
        }
        AttemptAct::Release => {
            let count = i64::try_from(attempt.bookings.len()).unwrap_or(1);
            format!("Give back {} of {}", places(count), isolated(name))
        }
    }
}

fn outcome(attempt: &Attempt) -> &'static str {
    match (attempt.act, attempt.outcome) {
        (_, AttemptOutcome::Unresolved) => "not known yet",
        (AttemptAct::Reserve, AttemptOutcome::Succeeded) => "booked",
        (AttemptAct::Reserve, AttemptOutcome::Failed) => "not booked",
        (AttemptAct::Release, AttemptOutcome::Succeeded) => "given back",
        (AttemptAct::Release, AttemptOutcome::Failed) => "not given back",
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Page<ServicePage>, Error> {
    Ok(Page(ServicePage::read(&state, &staff, event, None, Errors::default()).await?))
}

async fn save(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<ServiceForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditEvents)?;
    let event = staff.event(&state, event).await?.id;
    let mut errors = Errors::default();
    let key = errors.check("key", service_key(&form.key)).flatten();
    let at = match form.at.as_str() {
        "here" => Some(BookAt::Here),
        "service" => errors
            .check("base_url", ServiceUrl::parse(&form.base_url))
            .map(|url| BookAt::Service { url, key }),
        _ => {
            errors.add("at", "Choose where places are booked.");
            None
        }
    };
    if let Some(at) = at.filter(|_| errors.is_empty()) {
        match state.waitlist().set_booking(event, &at, staff.actor()).await? {
            BookAtOutcome::Saved => {
                staff.flash(Tone::Done, "Saved.").await?;
                let here = super::frame::path(event, "/booking-service");
                return Ok(Redirect::to(&here).into_response());
            }
            BookAtOutcome::KeyMissing => errors.add("key", "Enter the key that the service gave you."),
            BookAtOutcome::Unresolved(n) => errors.add(
                "at",
                format!(
                    "{n} {} still without an answer from the present service. Resolve {} first; the key alone can be changed.",
                    if n == 1 { "call is" } else { "calls are" },
                    if n == 1 { "it" } else { "them" }
                ),
            ),
            BookAtOutcome::HasBookings(n) => errors.add(
                "at",
                format!(
                    "The service has {n} confirmed {} of this event, which only it can give back: the event stays with it.",
                    if n == 1 { "booking" } else { "bookings" }
                ),
            ),
        }
    }
    let form = ServiceForm { key: String::new(), ..form };
    let page = ServicePage::read(&state, &staff, event, Some(form), errors).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response())
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ResolveForm {
    /// `booked` or `not_booked`.
    came: String,
    reference: String,
    reason: String,
    note: String,
}

#[derive(Template)]
#[template(path = "staff/booking_resolve.html")]
struct ResolvePage {
    layout: Layout,
    frame: EventFrame,
    attempt: Attempt,
    what: String,
    form: ResolveForm,
    errors: Errors,
}

impl ResolvePage {
    async fn answer(
        state: &WebState,
        staff: &Staff,
        (event, attempt): (EventId, AttemptId),
        form: ResolveForm,
        errors: Errors,
    ) -> Result<Response, Error> {
        let event = staff.event(state, event).await?;
        let attempt = state.db.attempt(event.id, attempt).await?;
        let names = state.db.names_of_offers(event.id, &[attempt.offer]).await?;
        let frame = EventFrame::new(event, Tab::Settings, staff.now);
        let layout = staff.event_layout(&frame.event, "Resolve a call").await?;
        let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
        let what = what(&attempt, names.get(&attempt.offer));
        Ok((status, Page(Self { layout, frame, attempt, what, form, errors })).into_response())
    }

    fn is_open(&self) -> bool {
        self.attempt.outcome == AttemptOutcome::Unresolved
    }

    fn outcome(&self) -> &'static str {
        outcome(&self.attempt)
    }

    fn when(&self, at: &chrono::DateTime<chrono::Utc>) -> When {
        self.frame.when(*at)
    }

    fn choices(&self) -> [(&'static str, &'static str); 2] {
        match self.attempt.act {
            AttemptAct::Reserve => [
                (
                    "booked",
                    "It was booked: the service has it, confirmed and not only reserved, under the reference below.",
                ),
                (
                    "not_booked",
                    "It was not booked: the offer is pending again with the time it lost, and the service is told that this key is void.",
                ),
            ],
            AttemptAct::Release => [
                ("booked", "It is still booked there: the booking stands, and can be cancelled again."),
                ("not_booked", "It is given back there: the place is free, and goes to whoever is next."),
            ],
        }
    }

    fn reserves(&self) -> bool {
        self.attempt.act == AttemptAct::Reserve
    }

    fn reasons() -> Vec<(&'static str, String)> {
        words::reasons()
    }
}

async fn ask(
    State(state): State<WebState>,
    staff: Staff,
    Path(at): Path<(EventId, AttemptId)>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnOffers)?;
    ResolvePage::answer(&state, &staff, at, ResolveForm::default(), Errors::default()).await
}

async fn resolve(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, attempt)): Path<(EventId, AttemptId)>,
    VerifiedForm(form): VerifiedForm<ResolveForm>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnOffers)?;
    let event = staff.event(&state, event).await?.id;
    let known = state.db.attempt(event, attempt).await?;
    let mut errors = Errors::default();
    let reason = ActForm { reason: form.reason.clone(), note: form.note.clone(), ..ActForm::default() }
        .reason(&mut errors);
    let came = errors.check("came", LookedUp::parse(&form.came).ok_or("Say what the service shows."));
    let resolution =
        came.and_then(|came| errors.check("reference", Resolution::of(known.act, came, &form.reference)));
    let (Some(reason), Some(resolution)) = (reason, resolution) else {
        return ResolvePage::answer(&state, &staff, (event, attempt), form, errors).await;
    };
    let outcome =
        state.waitlist().resolve_attempt(event, attempt, &resolution, staff.actor(), &reason).await?;
    let (tone, said) = match outcome {
        ResolveOutcome::Resolved => (Tone::Done, "Resolved, and written into the audit.".to_owned()),
        ResolveOutcome::Already(_) => {
            let now = state.db.attempt(event, attempt).await?;
            (Tone::Note, format!("It was resolved before: {}. Nothing was done twice.", self::outcome(&now)))
        }
        ResolveOutcome::CallUnderWay => (
            Tone::Warn,
            "The service is being asked at this very moment. Nothing was changed: look again in half a minute."
                .to_owned(),
        ),
    };
    done(&staff, tone, said, "", &super::frame::path(event, "/booking-service")).await
}
