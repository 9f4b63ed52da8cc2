//! Making an event, and changing what it is called, where and when it takes place.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use chrono_tz::Tz;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Section, Tone};
use super::Staff;
use super::frame::{EventFrame, Tab, path};
use crate::db::events::NewEvent;
use crate::domain::event::{EventSettings, EventState};
use crate::domain::ids::EventId;
use crate::domain::policy::Policy;
use crate::domain::role::Act;
use crate::domain::slug;
use crate::domain::when;
use crate::waitlist::events::{CreateOutcome, SaveOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/new", get(begin).post(create))
        .route("/events/{event}/settings", get(show).post(save))
}

const STARTS_IN_PAST: &str =
    "This is in the past: nobody could be offered a place. Enter when the event will start.";

/// What the form holds.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct SettingsForm {
    name: String,
    slug: String,
    venue: String,
    description: String,
    zone: String,
    starts_at: String,
    list_opens_at: String,
    list_freezes_at: String,
    form_version: String,
}

impl SettingsForm {
    fn settings(&self, errors: &mut Errors) -> Option<EventSettings> {
        let zone: Option<Tz> = errors.check(
            "zone",
            self.zone.trim().parse().map_err(|_| "Choose a time zone, such as Europe/Berlin."),
        );
        let mut instant = |field: &'static str, text: &str| {
            let zone = zone.filter(|_| !text.trim().is_empty())?;
            errors.check(field, when::parse_local(text, zone))
        };
        let starts_at = instant("starts_at", &self.starts_at);
        let list_opens_at = instant("list_opens_at", &self.list_opens_at);
        let list_freezes_at = instant("list_freezes_at", &self.list_freezes_at);
        let settings = EventSettings {
            name: self.name.clone(),
            description: self.description.clone(),
            venue: self.venue.clone(),
            zone: zone.unwrap_or(Tz::UTC),
            starts_at,
            list_opens_at,
            list_freezes_at,
        };
        let settings = settings.parse();
        for (field, problem) in settings.as_ref().err().into_iter().flatten().copied() {
            errors.add(field, problem);
        }
        settings.ok().filter(|_| errors.is_empty())
    }
}

#[derive(Template)]
#[template(path = "staff/event_new.html")]
struct NewPage {
    layout: Layout,
    form: SettingsForm,
    errors: Errors,
}

#[derive(Template)]
#[template(path = "staff/settings.html")]
struct SettingsPage {
    layout: Layout,
    frame: EventFrame,
    form: SettingsForm,
    errors: Errors,
    conflict: bool,
}

impl SettingsPage {
    /// What can be done with the event and its list now: the last part of the address, and the link's text.
    fn acts(&self) -> Vec<(&'static str, &'static str)> {
        super::event_acts::EventAct::open_to(&self.frame.event)
            .into_iter()
            .map(|act| (act.word(), act.label()))
            .collect()
    }
}

async fn begin(State(_): State<WebState>, staff: Staff) -> Result<Page<NewPage>, Error> {
    staff.require(Act::EditEvents)?;
    let layout = staff.layout("Create an event", Section::Events).await?;
    let form = SettingsForm { zone: "Europe/Berlin".to_owned(), ..SettingsForm::default() };
    Ok(Page(NewPage { layout, form, errors: Errors::default() }))
}

async fn create(
    State(state): State<WebState>,
    staff: Staff,
    VerifiedForm(form): VerifiedForm<SettingsForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditEvents)?;
    let mut errors = Errors::default();
    let settings = form.settings(&mut errors);
    let slug =
        if form.slug.trim().is_empty() { slug::from_name(&form.name) } else { form.slug.trim().to_owned() };
    if let Err(problem) = slug::check(&slug) {
        errors.add("slug", problem);
    }
    if let Some(settings) = settings.filter(|_| errors.is_empty()) {
        let new = NewEvent { organization: staff.member.organization, slug, settings };
        match state.waitlist().create_event(&new, &Policy::first(), staff.actor()).await? {
            CreateOutcome::Created(event) => {
                let said = "Created as a draft. Add its places and say by which rule they are offered; then publish it.";
                staff.flash(Tone::Done, said).await?;
                return Ok(Redirect::to(&path(event, "/places")).into_response());
            }
            CreateOutcome::StartsInPast => errors.add("starts_at", STARTS_IN_PAST),
            CreateOutcome::SlugTaken => errors.add("slug", "Another event has this address. Choose another."),
        }
    }
    let layout = staff.layout("Create an event", Section::Events).await?;
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(NewPage { layout, form, errors })).into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Page<SettingsPage>, Error> {
    staff.require(Act::EditEvents)?;
    let event = staff.event(&state, event).await?;
    let local = |at: Option<chrono::DateTime<chrono::Utc>>| {
        at.map_or_else(String::new, |at| when::local_field(at, event.zone))
    };
    let form = SettingsForm {
        name: event.name.clone(),
        slug: event.slug.clone(),
        venue: event.venue.clone(),
        description: event.description.clone(),
        zone: event.zone.name().to_owned(),
        starts_at: local(event.starts_at),
        list_opens_at: local(event.list_opens_at),
        list_freezes_at: local(event.list_freezes_at),
        form_version: event.form_version.to_string(),
    };
    let frame = EventFrame::new(event, Tab::Settings, staff.now);
    let layout = staff.event_layout(&frame.event, "Settings").await?;
    Ok(Page(SettingsPage { layout, frame, form, errors: Errors::default(), conflict: false }))
}

async fn save(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(mut form): VerifiedForm<SettingsForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditEvents)?;
    let event = staff.event(&state, event).await?;
    form.slug.clone_from(&event.slug);
    let mut errors = Errors::default();
    let mut conflict = false;
    if let Some(settings) = form.settings(&mut errors) {
        let version = form.form_version.parse().unwrap_or(0);
        match state.waitlist().save_settings(event.id, &settings, version, staff.actor()).await? {
            SaveOutcome::Saved { deadlines_moved, started } => {
                let moved = match deadlines_moved {
                    0 => String::new(),
                    1 => " One deadline was moved to the new start, and its person is told.".to_owned(),
                    n => format!(" {n} deadlines were moved to the new start, and their people are told."),
                };
                let (tone, past) = if started {
                    (Tone::Warn, " The start is in the past: nothing is offered any more.")
                } else {
                    (Tone::Done, "")
                };
                staff.flash(tone, format!("Saved.{moved}{past}")).await?;
                return Ok(Redirect::to(&path(event.id, "/settings")).into_response());
            }
            SaveOutcome::Conflict => conflict = true,
            SaveOutcome::StartsInPast => errors.add("starts_at", STARTS_IN_PAST),
            SaveOutcome::NotFrom(EventState::Cancelled) => {
                errors.add("", "The event is cancelled: restore it first.");
            }
            SaveOutcome::NotFrom(_) => errors.add("", "The event is over: nothing can be changed."),
        }
    }
    let status = if conflict { StatusCode::CONFLICT } else { StatusCode::UNPROCESSABLE_ENTITY };
    if conflict {
        // What was typed stays; saving again is then an overwrite on purpose.
        form.form_version = state.db.event(event.id).await?.form_version.to_string();
    }
    let frame = EventFrame::new(event, Tab::Settings, staff.now);
    let layout = staff.event_layout(&frame.event, "Settings").await?;
    Ok((status, Page(SettingsPage { layout, frame, form, errors, conflict })).into_response())
}
