//! What staff do to an event and its list: publish, open, freeze, close, cancel, restore.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Tone};
use super::Staff;
use super::act::{ActForm, ActPage, ActQuery, done};
use super::frame::{EventFrame, Tab, isolated, people};
use crate::domain::event::{Event, EventState, ListState};
use crate::domain::ids::EventId;
use crate::domain::role::Act;
use crate::waitlist::events::EventOutcome;
use crate::waitlist::lists::ListOutcome;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/state/{act}", get(show).post(act))
}

/// The acts, by the last part of their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EventAct {
    /// Make a draft public.
    Publish,
    /// Take people in and serve them.
    OpenList,
    /// Nobody new; those waiting are served.
    FreezeList,
    /// Nothing is offered.
    CloseList,
    /// It does not take place.
    Cancel,
    /// It takes place after all.
    Restore,
}

impl EventAct {
    const ALL: [Self; 6] =
        [Self::Publish, Self::OpenList, Self::FreezeList, Self::CloseList, Self::Cancel, Self::Restore];

    fn parse(text: &str) -> Result<Self, Error> {
        Self::ALL.into_iter().find(|act| act.word() == text).ok_or(Error::NotFound)
    }

    /// The last part of its address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Publish => "publish",
            Self::OpenList => "open-list",
            Self::FreezeList => "freeze-list",
            Self::CloseList => "close-list",
            Self::Cancel => "cancel",
            Self::Restore => "restore",
        }
    }

    /// Its link.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Publish => "Publish the event",
            Self::OpenList => "Open the list",
            Self::FreezeList => "Freeze the list",
            Self::CloseList => "Close the list",
            Self::Cancel => "Cancel the event",
            Self::Restore => "Restore the event",
        }
    }

    /// What can be done with an event as it stands.
    #[must_use]
    pub fn open_to(event: &Event) -> Vec<Self> {
        let list = |to: ListState| event.list != to;
        match event.state {
            EventState::Draft => vec![Self::Publish, Self::Cancel],
            EventState::Published => {
                let mut acts = Vec::new();
                if list(ListState::Open) {
                    acts.push(Self::OpenList);
                }
                if list(ListState::Frozen) {
                    acts.push(Self::FreezeList);
                }
                if list(ListState::Closed) {
                    acts.push(Self::CloseList);
                }
                acts.push(Self::Cancel);
                acts
            }
            EventState::Cancelled => vec![Self::Restore],
            EventState::Over => vec![],
        }
    }

    fn list_state(self) -> Option<ListState> {
        match self {
            Self::OpenList => Some(ListState::Open),
            Self::FreezeList => Some(ListState::Frozen),
            Self::CloseList => Some(ListState::Closed),
            Self::Publish | Self::Cancel | Self::Restore => None,
        }
    }
}

async fn page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    act: EventAct,
    form: ActForm,
    errors: Errors,
) -> Result<Response, Error> {
    let name = isolated(&event.name);
    let live = state.db.entry_counts(event.id).await?.live();
    let waiting = people(live);
    let pending = state.db.offer_counts(event.id).await?;
    let pending =
        pending.iter().find(|(state, _)| state.as_str() == "pending").map_or(0, |(_, count)| *count);
    let effects = match act {
        EventAct::Publish => vec![
            format!("{name} appears in the public list of events."),
            "People can book its open places and join its list, and the rule begins to offer.".to_owned(),
        ],
        EventAct::OpenList => {
            vec!["People can join, and whoever waits is served by the rule, at the rank they had.".to_owned()]
        }
        EventAct::FreezeList => vec![
            "Nobody new can join.".to_owned(),
            format!("Those who wait ({waiting}) keep their rank and are served by the rule."),
        ],
        EventAct::CloseList => vec![
            match pending {
                0 => "No offer is pending: nobody loses one.".to_owned(),
                1 => "1 pending offer is taken back, and its person is told.".to_owned(),
                n => format!("{n} pending offers are taken back, and their people are told."),
            },
            "Nobody can join, and nothing is offered. Open places can be booked by anybody.".to_owned(),
            "Everybody keeps their rank, for when the list is opened again.".to_owned(),
        ],
        EventAct::Cancel => vec![
            match pending {
                0 => "No offer is pending: nobody loses one.".to_owned(),
                1 => "1 pending offer is taken back.".to_owned(),
                n => format!("{n} pending offers are taken back."),
            },
            if live == 0 {
                "Nobody is on the list.".to_owned()
            } else {
                format!("Everybody on the list ({waiting}) is told that the event is cancelled.")
            },
            "Bookings stay as they are: they are yours to settle.".to_owned(),
        ],
        EventAct::Restore => vec![
            "The event is what it was before it was cancelled: public, or a draft.".to_owned(),
            "Everybody whom cancelling took off the list is back at their old rank.".to_owned(),
        ],
    };
    let frame = EventFrame::new(event, Tab::Settings, staff.now);
    let page = ActPage {
        layout: staff.event_layout(&frame.event, act.label()).await?,
        heading: act.label().to_owned(),
        effects,
        action: frame.path(format!("/state/{}", act.word())),
        page: frame.path("/settings"),
        button: act.label(),
        danger: matches!(act, EventAct::CloseList | EventAct::Cancel),
        choice: None,
        deadline: None,
        number: None,
        form,
        errors,
        frame,
    };
    Ok(page.answer())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, act)): Path<(EventId, String)>,
    Query(query): Query<ActQuery>,
) -> Result<Response, Error> {
    staff.require(Act::EditEvents)?;
    let act = EventAct::parse(&act)?;
    let event = staff.event(&state, event).await?;
    page(&state, &staff, event, act, ActForm::begun(query), Errors::default()).await
}

async fn act(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, act)): Path<(EventId, String)>,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditEvents)?;
    let act = EventAct::parse(&act)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let Some(reason) = form.reason(&mut errors) else {
        return page(&state, &staff, event, act, form, errors).await;
    };
    let (waitlist, actor) = (state.waitlist(), staff.actor());
    let (tone, said) = if let Some(to) = act.list_state() {
        match waitlist.set_list(event.id, to, actor, &reason).await? {
            ListOutcome::Done { revoked: 0 } => (Tone::Done, format!("The list is {to}.")),
            ListOutcome::Done { revoked: 1 } => {
                (Tone::Done, format!("The list is {to}. One offer was taken back, and its person is told."))
            }
            ListOutcome::Done { revoked } => (
                Tone::Done,
                format!("The list is {to}. {revoked} offers were taken back, and their people are told."),
            ),
            ListOutcome::Already => (Tone::Note, format!("The list was {to} before: nothing was changed.")),
            ListOutcome::NotPublished => {
                (Tone::Warn, "The event is cancelled or over: its list cannot be changed.".to_owned())
            }
        }
    } else {
        let outcome = match act {
            EventAct::Cancel => waitlist.cancel_event(event.id, actor, &reason).await?,
            EventAct::Restore => waitlist.restore_event(event.id, actor, &reason).await?,
            _ => waitlist.publish(event.id, actor, reason.reason, reason.note.as_deref()).await?,
        };
        event_said(act, outcome)
    };
    let page = super::frame::path(event.id, "/settings");
    done(&staff, tone, said, &form.back, &page).await
}

fn event_said(act: EventAct, outcome: EventOutcome) -> (Tone, String) {
    match (act, outcome) {
        (EventAct::Cancel, EventOutcome::Done { revoked, entries }) => (
            Tone::Done,
            format!(
                "Cancelled. Offers taken back: {revoked}. Told that the event is cancelled: {}.",
                people(i64::try_from(entries).unwrap_or(i64::MAX))
            ),
        ),
        (EventAct::Restore, EventOutcome::Done { entries, .. }) => (
            Tone::Done,
            format!("Restored. Back on the list: {}.", people(i64::try_from(entries).unwrap_or(i64::MAX))),
        ),
        (_, EventOutcome::Done { .. }) => (Tone::Done, "Published: people can see the event.".to_owned()),
        (_, EventOutcome::StartsInPast) => (
            Tone::Warn,
            "Not published: the event’s start is in the past. Enter when it will start, and save.".to_owned(),
        ),
        (_, EventOutcome::Already) => (Tone::Note, "It was so before: nothing was changed.".to_owned()),
        (_, EventOutcome::NotFrom(state)) => {
            (Tone::Warn, format!("The event is {state}: that cannot be done now."))
        }
    }
}
