//! An event's offers by state, and one offer with its history and what can be done to it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Utc};
use serde::Deserialize;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{FilterLink, Layout, Page};
use super::Staff;
use super::diagram::Diagram;
use super::frame::{EventFrame, Tab, back_query, places};
use super::history::{Happened, MessageState, messages_to, timeline};
use super::offer_acts::OfferAct;
use super::words;
use crate::db::pages_history::OfferLine;
use crate::db::persons::Person;
use crate::db::places::Place;
use crate::domain::audit::Act as Done;
use crate::domain::entry::{Entry, EntryState};
use crate::domain::ids::{EventId, OfferId};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::role::Act;
use crate::domain::standing::grouped;
use crate::domain::when::{self, When};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/offers", get(list))
        .route("/events/{event}/offers/{offer}", get(show))
}

const ROWS: usize = 50;
/// As much of a history as its page shows.
const HISTORY: i64 = 100;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListQuery {
    state: String,
    after: String,
}

#[derive(Template)]
#[template(path = "staff/offers.html")]
struct OffersPage {
    layout: Layout,
    frame: EventFrame,
    filters: Vec<FilterLink>,
    state: OfferState,
    total: i64,
    rows: Vec<OfferLine>,
    next: Option<String>,
    view: String,
    none_at_all: bool,
    may_act: bool,
}

impl OffersPage {
    fn live(&self) -> bool {
        matches!(self.state, OfferState::Pending | OfferState::Accepting)
    }

    fn sentence(&self) -> String {
        match (self.state, self.total) {
            (OfferState::Pending, 0) => "No offer is out.".to_owned(),
            (OfferState::Pending, 1) => "1 offer is out.".to_owned(),
            (OfferState::Pending, count) => format!("{} offers are out.", grouped(count)),
            (state, count) => {
                let (one, several) = match state {
                    OfferState::Accepting => ("is being confirmed", "are being confirmed"),
                    OfferState::Accepted => ("was accepted", "were accepted"),
                    OfferState::Declined => ("was declined", "were declined"),
                    OfferState::Expired => ("has expired", "have expired"),
                    OfferState::Revoked => ("was taken back", "were taken back"),
                    OfferState::Pending | OfferState::Conflicted => ("has failed", "have failed"),
                };
                match count {
                    0 => format!("No offer {one}."),
                    1 => format!("1 offer {one}."),
                    count => format!("{} offers {several}.", grouped(count)),
                }
            }
        }
    }

    fn made(&self, row: &OfferLine) -> When {
        self.frame.when(row.made_at)
    }

    fn deadline(&self, row: &OfferLine) -> When {
        self.frame.when(row.expires_at)
    }

    fn ended(&self, row: &OfferLine) -> Option<When> {
        row.ended_at.map(|at| self.frame.when(at))
    }

    fn acts(&self, row: &OfferLine) -> Vec<(String, &'static str)> {
        if !self.may_act {
            return vec![];
        }
        let back = back_query(&self.view);
        let acts: &[OfferAct] = match row.state {
            OfferState::Pending if row.stands || row.expires_at > self.layout.now => {
                &[OfferAct::Extend, OfferAct::Revoke]
            }
            OfferState::Pending => &[OfferAct::Revoke],
            OfferState::Expired | OfferState::Revoked => &[OfferAct::Reactivate],
            OfferState::Accepting | OfferState::Accepted | OfferState::Declined | OfferState::Conflicted => {
                &[]
            }
        };
        acts.iter()
            .map(|act| (self.frame.path(format!("/offers/{}/{}?{back}", row.offer, act.word())), act.label()))
            .collect()
    }
}

/// What a page ended with, in an address: "1700000000000000.{id}".
fn after(text: &str) -> Option<(DateTime<Utc>, OfferId)> {
    let (micros, id) = text.split_once('.')?;
    Some((when::from_micros(micros)?, id.parse().ok()?))
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<ListQuery>,
) -> Result<Page<OffersPage>, Error> {
    let event = staff.event(&state, event).await?;
    let counts = state.db.offer_counts(event.id).await?;
    let count =
        |wanted: OfferState| counts.iter().find(|(state, _)| *state == wanted).map_or(0, |(_, count)| *count);
    let shown = OfferState::parse(&query.state).unwrap_or(OfferState::Pending);
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.offer_lines(event.id, shown, after(&query.after), limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let frame = EventFrame::new(event, Tab::Offers, staff.now);
    let next = rows.last().filter(|_| more).map(|row| {
        frame.path(format!("/offers?state={shown}&after={}.{}", row.expires_at.timestamp_micros(), row.offer))
    });
    let filters = OfferState::ALL
        .iter()
        .filter(|state| {
            count(**state) > 0
                || **state == shown
                || !matches!(state, OfferState::Accepting | OfferState::Conflicted)
        })
        .map(|state| FilterLink {
            href: frame.path(format!("/offers?state={state}")),
            label: state.to_string(),
            count: Some(count(*state)),
            current: *state == shown,
        })
        .collect();
    Ok(Page(OffersPage {
        layout: staff.event_layout(&frame.event, "Offers").await?.live(15),
        view: frame.path(format!("/offers?state={shown}")),
        total: count(shown),
        none_at_all: counts.is_empty(),
        may_act: staff.may(Act::ActOnOffers),
        state: shown,
        filters,
        frame,
        rows,
        next,
    }))
}

#[derive(Template)]
#[template(path = "staff/offer.html")]
struct OfferPage {
    layout: Layout,
    frame: EventFrame,
    offer: Offer,
    entry: Entry,
    person: Person,
    held: Vec<Place>,
    reference: Option<String>,
    /// Where the places of it came back, and when.
    releases: Vec<(String, When)>,
    diagram: Diagram,
    made_by: Option<String>,
    happened: Vec<Happened>,
    messages: Vec<MessageState>,
    acts: Vec<OfferAct>,
}

impl OfferPage {
    fn places(&self) -> String {
        let labels: Vec<String> = self.held.iter().filter_map(Place::told).collect();
        let count = places(self.offer.party);
        if labels.is_empty() { count } else { format!("{count} ({})", labels.join(", ")) }
    }

    fn made(&self) -> When {
        self.frame.when(self.offer.made_at)
    }

    fn deadline(&self) -> When {
        self.frame.when(self.offer.expires_at)
    }

    fn ended(&self) -> Option<When> {
        self.offer.ended_at.map(|at| self.frame.when(at))
    }

    /// Whether the deadline passed and no pass has ended the offer yet.
    fn late(&self) -> bool {
        self.offer.state == OfferState::Pending && !self.offer.is_claimable(self.layout.now)
    }

    fn is_call(&self) -> bool {
        self.offer.kind == OfferKind::Call
    }

    fn is(&self) -> &'static str {
        words::offer_is(self.offer.kind, self.offer.state)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates lend what they pass")]
    fn path(&self, act: &OfferAct) -> String {
        self.frame.path(format!("/offers/{}/{}", self.offer.id, act.word()))
    }

    /// What became of the entry, where the offer is over.
    fn entry_now(&self) -> Option<&'static str> {
        (self.offer.ended_at.is_some()).then(|| match self.entry.state {
            EntryState::Waiting if self.entry.set_aside => {
                "Their entry is set aside: it is passed over until staff decide."
            }
            EntryState::Waiting => "Their entry is in the line again.",
            EntryState::Offered => "Their entry has another offer by now.",
            state => words::entry_is(state),
        })
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, offer)): Path<(EventId, OfferId)>,
) -> Result<Page<OfferPage>, Error> {
    let event = staff.event(&state, event).await?;
    let offer = state.db.find_offer(offer).await?;
    if offer.event != event.id {
        return Err(Error::NotFound);
    }
    let entry = state.db.find_entry(offer.entry).await?;
    let person = state.db.person(offer.person).await?;
    let held = state.db.places_held_by(event.id, offer.id).await?;
    let reference = match offer.state {
        OfferState::Accepted => {
            state.db.bookings_through(event.id, offer.id).await?.pop().map(|booking| booking.reference)
        }
        _ => None,
    };
    let steps = state.db.history_of(event.id, offer.id.0, HISTORY).await?;
    let made_by = match offer.made_by {
        Some(staff) => state.db.staff_name(staff).await?,
        None => None,
    };
    // On its own page a step needs no link to the offer.
    let without_link = |step: Happened| Happened { offer: None, ..step };
    let acts: Vec<Done> = steps.iter().rev().filter_map(|step| step.act).collect();
    let frame = EventFrame::new(event, Tab::Offers, staff.now);
    let messages = messages_to(&state, &staff, &frame, offer.person).await?;
    let releases = state.db.releases_of_offer(&offer).await?;
    let release = |(id, at)| (frame.path(format!("/releases/{id}")), frame.when(at));
    let releases = releases.into_iter().map(release).collect();
    let possible = if staff.may(Act::ActOnOffers) {
        [OfferAct::Extend, OfferAct::Accept, OfferAct::Decline, OfferAct::Reactivate, OfferAct::Revoke]
            .into_iter()
            .filter(|act| act.applies(&offer, staff.now))
            .collect()
    } else {
        vec![]
    };
    Ok(Page(OfferPage {
        layout: staff.event_layout(&frame.event, &format!("Offer to {}", person.name)).await?.live(10),
        diagram: Diagram::new(offer.state, &acts),
        happened: timeline(&frame, steps).into_iter().map(without_link).collect(),
        acts: possible,
        frame,
        offer,
        entry,
        person,
        held,
        reference,
        releases,
        made_by,
        messages,
    }))
}
