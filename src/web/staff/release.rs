//! Releasing a place: choosing which, and giving a booked one back. A held one is released by taking back its offer.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::act::{ActForm, ActPage, ActQuery, done};
use super::frame::{EventFrame, Tab, back_query, isolated};
use super::next::{Halt, Line, what_comes_next};
use super::words::somebody_was_first;
use crate::db::pages_history::TakenPlace;
use crate::db::persons::Person;
use crate::db::places::Place;
use crate::domain::booking::{Booking, BookingState};
use crate::domain::ids::{BookingId, EventId};
use crate::domain::place::PlaceCounts;
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::staff_offers::{AfterRevoke, Holder, ReleaseOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/release", get(choose))
        .route("/events/{event}/release/{booking}", get(show).post(act))
}

const ROWS: usize = 50;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ChooseQuery {
    q: String,
    after: String,
}

#[derive(Template)]
#[template(path = "staff/release.html")]
struct ReleasePage {
    layout: Layout,
    frame: EventFrame,
    query: ChooseQuery,
    counts: PlaceCounts,
    line: Line,
    rows: Vec<TakenPlace>,
    next: Option<String>,
}

impl ReleasePage {
    fn name(row: &TakenPlace) -> String {
        row.label.clone().unwrap_or_else(|| format!("Place {}", row.number))
    }

    fn since(&self, row: &TakenPlace) -> When {
        self.frame.when(row.since)
    }

    /// The page that releases it, and comes back to the event's.
    fn release(&self, row: &TakenPlace) -> String {
        let back = back_query(&self.frame.path(""));
        match (&row.booking, row.offer) {
            (Some((booking, _)), _) => self.frame.path(format!("/release/{booking}?{back}")),
            (None, Some(offer)) => self.frame.path(format!("/offers/{offer}/revoke?{back}")),
            (None, None) => self.frame.path("/places"),
        }
    }

    fn searching(&self) -> bool {
        !self.query.q.trim().is_empty()
    }

    /// Who gets what is released.
    fn sentence(&self) -> String {
        match (&self.line.next, self.line.halt) {
            (Some(next), None) => format!(
                "Whatever you release is offered to the line at once: {} is next.",
                isolated(&next.who.name)
            ),
            (None, None) => "Nobody waits for what you release: anybody can book it.".to_owned(),
            (_, Some(Halt::Passive)) => {
                "What you release stays open: this list offers nothing by itself.".to_owned()
            }
            (_, Some(halt)) => format!("What you release stays open. {}", halt.sentence()),
        }
    }
}

async fn choose(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(mut query): Query<ChooseQuery>,
) -> Result<Page<ReleasePage>, Error> {
    staff.require(Act::ReleasePlaces)?;
    let event = staff.event(&state, event).await?;
    let policy = state.db.policy(event.id).await?;
    let counts = state.db.place_counts(event.id).await?;
    let line = Line::read(&state, &event, &policy, staff.now).await?;
    query.q = query.q.chars().take(200).collect();
    let after = query.after.parse().unwrap_or(0);
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.taken_places(event.id, &query.q, after, limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let next = rows.last().filter(|_| more).map(|row| {
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("q", query.q.trim())
            .append_pair("after", &row.number.to_string())
            .finish();
        frame.path(format!("/release?{query}"))
    });
    let layout = staff.event_layout(&frame.event, "Release a place").await?;
    Ok(Page(ReleasePage { layout, frame, query, counts, line, rows, next }))
}

/// A booking and what stands around it.
struct About {
    frame: EventFrame,
    booking: Booking,
    place: Place,
    person: Person,
    line: Line,
}

impl About {
    async fn read(
        state: &WebState,
        staff: &Staff,
        event: EventId,
        booking: BookingId,
    ) -> Result<Self, Error> {
        let event = staff.event(state, event).await?;
        let booking = state.db.find_booking(booking).await?;
        if booking.event != event.id {
            return Err(Error::NotFound);
        }
        let place = state.db.find_place(event.id, booking.place).await?;
        let person = state.db.person(booking.person).await?;
        let policy = state.db.policy(event.id).await?;
        let line = Line::read(state, &event, &policy, staff.now).await?;
        Ok(Self { frame: EventFrame::new(event, Tab::Places, staff.now), booking, place, person, line })
    }

    async fn page(self, staff: &Staff, form: ActForm, errors: Errors) -> Result<Response, Error> {
        let (name, place) = (isolated(&self.person.name), self.place.name());
        let next = if self.place.retire_when_free {
            "The place leaves the event: it was to be retired when free.".to_owned()
        } else {
            match (&self.line.next, self.line.halt) {
                (Some(next), None) if next.missing <= 1 => {
                    format!("{} is next in line and is offered it at once.", isolated(&next.who.name))
                }
                (Some(next), None) => {
                    format!("{} is next in line, and waits for more places still.", isolated(&next.who.name))
                }
                (None, None) => "Nobody waits for it: anybody can book it.".to_owned(),
                (_, Some(halt)) => format!("The place stays open. {}", halt.sentence()),
            }
        };
        let page = ActPage {
            layout: staff.event_layout(&self.frame.event, "Release a place").await?,
            heading: format!("Release {place}, booked by {name}"),
            effects: vec![
                format!(
                    "The booking {} of {name} is cancelled, and they are told by mail.",
                    self.booking.reference
                ),
                next,
                "It cannot be undone: they would have to be offered a place again.".to_owned(),
            ],
            action: self.frame.path(format!("/release/{}", self.booking.id)),
            page: self.frame.path("/release"),
            button: "Release the place",
            danger: true,
            choice: None,
            deadline: None,
            number: None,
            form,
            errors,
            frame: self.frame,
        };
        Ok(page.answer())
    }

    async fn first(&self, state: &WebState) -> Result<String, Error> {
        let last = state.db.last_step_of(self.booking.event, self.booking.id.0).await?;
        Ok(somebody_was_first(&self.frame, last.as_ref(), "The place was released then."))
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, booking)): Path<(EventId, BookingId)>,
    Query(query): Query<ActQuery>,
) -> Result<Response, Error> {
    staff.require(Act::ReleasePlaces)?;
    let about = About::read(&state, &staff, event, booking).await?;
    if about.booking.state == BookingState::Cancelled {
        let said = about.first(&state).await?;
        return done(&staff, Tone::Note, said, &query.back, &about.frame.path("")).await;
    }
    about.page(&staff, ActForm::begun(query), Errors::default()).await
}

async fn act(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, booking)): Path<(EventId, BookingId)>,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    staff.require(Act::ReleasePlaces)?;
    let about = About::read(&state, &staff, event, booking).await?;
    let mut errors = Errors::default();
    let Some(reason) = form.reason(&mut errors) else {
        return about.page(&staff, form, errors).await;
    };
    let outcome = state
        .waitlist()
        .release_place(
            about.frame.event.id,
            about.place.id,
            Holder::Booking(booking),
            AfterRevoke::SetAside,
            staff.actor(),
            &reason,
        )
        .await?;
    let (tone, said) = match outcome {
        ReleaseOutcome::BookingCancelled | ReleaseOutcome::HoldRevoked => {
            let next = what_comes_next(&state, &staff, &about.frame.event).await?;
            let place = about.place.name();
            (Tone::Done, format!("Released: {place}, booked by {}. {next}", isolated(&about.person.name)))
        }
        ReleaseOutcome::BeingCancelled => (
            Tone::Note,
            "The booking service is asked to take this booking back and has not answered yet. Until it has, the booking \
             stands; then the place goes to whoever is next."
                .to_owned(),
        ),
        ReleaseOutcome::Already { .. } | ReleaseOutcome::NotPending(_) | ReleaseOutcome::Elsewhere => {
            (Tone::Warn, about.first(&state).await?)
        }
    };
    done(&staff, tone, said, &form.back, &about.frame.path("")).await
}
