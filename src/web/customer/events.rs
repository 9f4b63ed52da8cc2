//! The public list of events, and an event's page: book, join, or how things stand for me.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Layout, Page, Pages};
use super::super::wants::{Field, wants_fields};
use super::Customer;
use super::asked::{Purpose, Typed};
use super::words::{entry_answer, entry_chip};
use crate::db::events::Begin;
use crate::db::pages_customer::events::EventSheet;
use crate::db::pages_customer::mine::{Me, MyBooking, MyEntry};
use crate::domain::entry::EntryState;
use crate::domain::ids::CodeId;
use crate::domain::policy::{Ordering, PositionShown};
use crate::domain::standing::{Door, Free, Line, Sale, grouped, places_in_words};
use crate::domain::when::{self, When};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/", get(list)).route("/e/{slug}", get(show))
}

const PER_PAGE: i64 = 50;

#[derive(Template)]
#[template(path = "customer/events.html")]
struct EventsPage {
    layout: Layout,
    events: Vec<EventCard>,
    pages: Pages,
}

/// An event in the list.
struct EventCard {
    sheet: EventSheet,
    door: Door,
    starts: Option<When>,
    until: Option<When>,
    waiting: Option<String>,
}

#[derive(Deserialize)]
struct ListQuery {
    #[serde(default)]
    page: String,
}

async fn list(
    State(state): State<WebState>,
    customer: Customer,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    let now = customer.now;
    let total = state.db.count_public_events(now).await?;
    let pages = Pages { base: "/?".to_owned(), page: Pages::number(&query.page), per_page: PER_PAGE, total };
    let events = state.db.public_events(now, PER_PAGE, Begin::Skip(pages.offset())).await?;
    let events = events
        .into_iter()
        .map(|sheet| {
            let door = sheet.door(now);
            EventCard {
                starts: sheet.event.starts_at.map(|at| When::new(at, sheet.event.zone, now)),
                until: held_until(&sheet, door, now),
                waiting: waiting(&sheet),
                door,
                sheet,
            }
        })
        .collect();
    let layout = customer.layout("Events").await?.public();
    Ok(Page(EventsPage { layout, events, pages }).into_response())
}

fn held_until(sheet: &EventSheet, door: Door, now: chrono::DateTime<chrono::Utc>) -> Option<When> {
    match door.free {
        Free::HeldForList(until) => until.map(|at| When::new(at, sheet.event.zone, now)),
        Free::ForEverybody(_) | Free::Full | Free::NoneYet => None,
    }
}

/// How many wait: told where positions are.
fn waiting(sheet: &EventSheet) -> Option<String> {
    match (sheet.position_shown, sheet.waiting) {
        (PositionShown::Exact, 0) => Some("Nobody is waiting.".to_owned()),
        (PositionShown::Exact, 1) => Some("1 person is waiting.".to_owned()),
        (PositionShown::Exact, waiting) => Some(format!("{} people are waiting.", grouped(waiting))),
        (PositionShown::Band | PositionShown::None, _) => None,
    }
}

#[derive(Template)]
#[template(path = "customer/event.html")]
pub(super) struct EventPage {
    layout: Layout,
    sheet: EventSheet,
    door: Door,
    starts: Option<When>,
    until: Option<When>,
    opens: Option<When>,
    /// How long an offer lives.
    window: Option<String>,
    waiting: Option<String>,
    description: Vec<String>,
    entries: Vec<EntryCard>,
    bookings: Vec<BookingCard>,
    me: Option<Me>,
    /// The largest party that can simply book.
    bookable: i64,
    /// The smallest party that waits.
    smallest: i64,
    /// The largest party.
    largest: i64,
    /// Whether the visitor waits already.
    on_it: bool,
    /// Whether the list takes somebody like the visitor.
    joinable: bool,
    form: Typed,
    /// What can be wanted of a place.
    wants: Vec<Field>,
    errors: Errors,
    problem: Option<String>,
    once: String,
}

/// An entry of mine.
pub(super) struct EntryCard {
    pub id: crate::domain::ids::EntryId,
    pub chip: (&'static str, &'static str),
    pub answer: String,
    pub offer: Option<crate::domain::ids::OfferId>,
    pub state: EntryState,
    pub name: String,
    pub event: String,
    pub slug: String,
    pub deadline: Option<When>,
    pub starts: Option<When>,
    pub party: i32,
}

impl EntryCard {
    pub fn new(entry: &MyEntry, now: chrono::DateTime<chrono::Utc>) -> Self {
        Self {
            id: entry.id,
            chip: entry_chip(entry),
            answer: entry_answer(entry, now),
            offer: entry.offer.map(|(offer, _)| offer),
            state: entry.state,
            name: entry.name.clone(),
            event: entry.event.name.clone(),
            slug: entry.event.slug.clone(),
            deadline: entry
                .offer
                .filter(|(_, at)| now < *at && !entry.stands)
                .map(|(_, at)| When::new(at, entry.event.zone, now)),
            starts: entry.event.starts_at.map(|at| When::new(at, entry.event.zone, now)),
            party: entry.party,
        }
    }

    /// "Take my 2 places".
    pub fn places(&self) -> String {
        places_in_words(self.party.into())
    }
}

/// A booking of mine.
pub(super) struct BookingCard {
    pub booking: MyBooking,
    pub starts: Option<When>,
}

impl BookingCard {
    pub fn new(booking: MyBooking, now: chrono::DateTime<chrono::Utc>) -> Self {
        let starts = booking.event.starts_at.map(|at| When::new(at, booking.event.zone, now));
        Self { booking, starts }
    }

    /// Its page: an offer's stays its receipt.
    pub fn href(&self) -> String {
        match self.booking.offer {
            Some(offer) => format!("/offers/{offer}"),
            None => format!("/me/bookings/{}", self.booking.id),
        }
    }

    /// "2 places".
    pub fn places(&self) -> String {
        let confirmed = i64::try_from(self.booking.confirmed.len()).unwrap_or(i64::MAX);
        places_in_words(if confirmed > 0 { confirmed } else { self.booking.cancelled })
    }

    pub fn labels(&self) -> String {
        self.booking.labels.join(" · ")
    }
}

/// What a form on the event's page brought, or is to begin with.
#[derive(Default)]
pub(super) struct Forms {
    pub form: Typed,
    pub errors: Errors,
    pub problem: Option<String>,
    /// Signed in, but this is for somebody else.
    pub for_somebody_else: bool,
    pub once: Option<uuid::Uuid>,
}

impl EventPage {
    /// "3 or more": the parties that wait.
    fn waiting_sizes(&self) -> String {
        if self.smallest == self.largest {
            self.smallest.to_string()
        } else {
            format!("{} or more", self.smallest)
        }
    }

    pub(super) async fn new(
        state: &WebState,
        customer: &Customer,
        sheet: EventSheet,
        forms: Forms,
    ) -> Result<Self, Error> {
        let now = customer.now;
        let (organizer, event, zone) = (sheet.event.organizer.clone(), sheet.event.id, sheet.event.zone);
        let mut layout = customer.layout_of(&sheet.event.name, &organizer).await?;
        let (entries, bookings, me) = if customer.is_signed_in() {
            (
                state.db.my_entries_at(event, &customer.persons).await?,
                state.db.my_bookings_at(event, &customer.persons).await?,
                state.db.me_at(organizer.id, &customer.persons).await?,
            )
        } else {
            layout = layout.public();
            (Vec::new(), Vec::new(), None)
        };
        let me = me.filter(|_| !forms.for_somebody_else);
        let door = sheet.door(now);
        let largest = i64::from(sheet.largest_party);
        let bookable = door.bookable().min(largest);
        let on_it =
            me.as_ref().is_some_and(|me| entries.iter().any(|e| e.person == me.person && e.state.is_live()));
        // Where places differ, what is free may not be what somebody wants.
        let chooses = !sheet.attributes.is_empty();
        let mut form = forms.form;
        if form.party.is_empty() {
            "1".clone_into(&mut form.party);
        }
        let bookings: Vec<BookingCard> = bookings
            .into_iter()
            .filter(|booking| !booking.confirmed.is_empty())
            .map(|booking| BookingCard::new(booking, now))
            .collect();
        Ok(Self {
            starts: sheet.event.starts_at.map(|at| When::new(at, zone, now)),
            until: held_until(&sheet, door, now),
            opens: match door.line {
                Line::Frozen(opens) => opens.map(|at| When::new(at, zone, now)),
                Line::Open | Line::Closed | Line::Full => None,
            },
            window: sheet.window.and_then(when::span),
            waiting: waiting(&sheet),
            description: sheet
                .description
                .split("\n\n")
                .map(str::trim)
                .filter(|text| !text.is_empty())
                .map(str::to_owned)
                .collect(),
            // A booking says more than the entry it came from.
            entries: entries
                .iter()
                .filter(|entry| entry.state != EntryState::Accepted)
                .map(|entry| EntryCard::new(entry, now))
                .collect(),
            bookings,
            me,
            bookable,
            smallest: door.for_everybody().min(largest) + 1,
            largest,
            on_it,
            joinable: (door.takes(sheet.largest_party)
                || chooses && door.line == Line::Open && door.sale == Sale::On)
                && !on_it,
            wants: wants_fields(&sheet.attributes, &form.wants),
            door,
            layout,
            sheet,
            form,
            errors: forms.errors,
            problem: forms.problem,
            once: forms.once.unwrap_or_else(|| state.db.entropy().id()).to_string(),
        })
    }
}

#[derive(Deserialize)]
struct EventQuery {
    /// The code whose form is to be corrected.
    #[serde(default)]
    again: String,
    /// Signed in, but this is for somebody else.
    #[serde(default)]
    other: String,
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(slug): Path<String>,
    Query(query): Query<EventQuery>,
) -> Result<Response, Error> {
    let sheet = state.db.event_sheet(&slug, customer.now).await?;
    let mut forms = Forms { for_somebody_else: !query.other.is_empty(), ..Forms::default() };
    if let Ok(code) = query.again.parse::<CodeId>()
        && let Some(asked) = customer.asked(code).await?
        && let Purpose::Join { form, .. } | Purpose::Book { form, .. } = asked.purpose
    {
        forms.form = form;
        forms.for_somebody_else = true;
    }
    let page = EventPage::new(&state, &customer, sheet, forms).await?;
    Ok((StatusCode::OK, Page(page)).into_response())
}
