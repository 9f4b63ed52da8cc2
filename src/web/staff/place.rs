//! One place: what has it and until when, and everything that happened to it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Layout, Page};
use super::Staff;
use super::frame::{EventFrame, Tab, back_query, isolated};
use super::next::Line;
use super::words;
use crate::db::pages_places::PlaceLine;
use crate::db::pages_releases::PlaceStep;
use crate::domain::audit::Act as Done;
use crate::domain::ids::{EventId, PlaceId, ReleaseId};
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;
use crate::domain::role::Act;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/places/{place}", get(show))
}

/// As much of a history as the page shows.
const HISTORY: i64 = 100;
const RELEASES: i64 = 10;

#[derive(Template)]
#[template(path = "staff/place.html")]
struct PlacePage {
    layout: Layout,
    frame: EventFrame,
    place: PlaceLine,
    /// Why it is open, where it is.
    now: Option<String>,
    steps: Vec<PlaceStep>,
    releases: Vec<(ReleaseId, DateTime<Utc>)>,
    may_release: bool,
    may_edit: bool,
}

impl PlacePage {
    /// What has it, and until when.
    fn answer(&self) -> String {
        let who = self.place.name.as_deref().map_or_else(|| "somebody".to_owned(), isolated);
        let leaves =
            if self.place.retire_when_free { " It leaves the event when it becomes free." } else { "" };
        match (self.place.state, self.place.hold) {
            (PlaceState::Open, _) => match &self.now {
                Some(why) => format!("Nobody has it. {why}"),
                None => "Nobody has it.".to_owned(),
            },
            (PlaceState::Held, Some((_, until))) => {
                format!("It is kept for {who} until {}.{leaves}", self.frame.said(until))
            }
            (PlaceState::Held, None) => format!("It is kept for {who}.{leaves}"),
            (PlaceState::Booked, _) => format!("{who} has booked it.{leaves}"),
            (PlaceState::Retired, _) => "It is no longer part of the event.".to_owned(),
        }
    }

    fn since(&self) -> When {
        self.frame.when(self.place.since)
    }

    fn at(&self, step: &PlaceStep) -> When {
        self.frame.when(step.step.at)
    }

    fn when(&self, at: &DateTime<Utc>) -> When {
        self.frame.when(*at)
    }

    /// What happened, as the title of a step.
    fn title(step: &PlaceStep) -> String {
        let leaving = step.step.to.as_deref().is_some_and(|to| to != PlaceState::Retired.as_str());
        match (step.step.act, &step.name) {
            (Some(Done::Held), Some(name)) => format!("Offered to {}", isolated(name)),
            (Some(Done::Booked), Some(name)) => format!("Booked by {}", isolated(name)),
            (Some(Done::Released), Some(name)) => format!("Came back from {}", isolated(name)),
            (Some(Done::Released), None) => "Came back".to_owned(),
            (Some(Done::Retired), _) if leaving => "To leave the event when free".to_owned(),
            (Some(Done::Retired), _) => "Left the event".to_owned(),
            (Some(act), _) => words::title(act).to_owned(),
            (None, _) => step.step.word.clone(),
        }
    }

    fn by(step: &PlaceStep) -> String {
        words::by(&step.step.by)
    }

    fn reason(step: &PlaceStep) -> &'static str {
        step.step.reason.map_or("", Reason::label)
    }

    fn release_path(&self) -> Option<String> {
        let back = back_query(&self.frame.path(format!("/places/{}", self.place.id)));
        match (&self.place.booking, self.place.hold) {
            (Some((booking, _)), _) => Some(self.frame.path(format!("/release/{booking}?{back}"))),
            (None, Some((offer, _))) => Some(self.frame.path(format!("/offers/{offer}/revoke?{back}"))),
            (None, None) => None,
        }
    }

    fn retire_path(&self) -> Option<String> {
        let back = back_query(&self.frame.path(format!("/places/{}", self.place.id)));
        (self.place.state != PlaceState::Retired && !self.place.retire_when_free)
            .then(|| self.frame.path(format!("/places/{}/retire?{back}", self.place.id)))
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, place)): Path<(EventId, PlaceId)>,
) -> Result<Page<PlacePage>, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    let place = state.db.place_line(event.id, place).await?;
    let steps = state.db.place_steps(event.id, &[place.id], None, HISTORY).await?;
    let releases = state.db.releases_of(event.id, place.id, RELEASES).await?;
    let now = if place.state == PlaceState::Open {
        let policy = state.db.policy(event.id).await?;
        Some(Line::read(&state, &event, &policy, staff.now).await?.sentence())
    } else {
        None
    };
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    Ok(Page(PlacePage {
        layout: staff.event_layout(&frame.event, &place.title()).await?.live(30),
        frame,
        place,
        now,
        steps,
        releases,
        may_release: staff.may(Act::ReleasePlaces),
        may_edit: staff.may(Act::EditPlaces),
    }))
}
