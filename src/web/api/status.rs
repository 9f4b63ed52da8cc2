//! How things stand for one person at an event.

use chrono::{DateTime, Utc};
use serde::Serialize;
use utoipa::ToSchema;

use super::views::{BookingView, EntryView};
use crate::db::pages_customer::events::EventSheet;
use crate::db::pages_customer::mine::{MyBooking, MyEntry};
use crate::domain::entry::{EntryState, PausedBy};
use crate::domain::standing::{Door, Free, Line, Sale};

/// Why nothing may be booked, or why it may.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum StatusReason {
    /// Every place is booked.
    EventIsFull,
    /// Places are free, or kept by offers, and go to the people on the list first.
    ReservedForWaitlist,
    /// The same, to somebody on the list: their turn comes.
    WaitingForTurn,
    /// Their offer was taken back, and they are passed over until the organizer decides how it goes on.
    SetAside,
    /// They are passed over while their entry is paused.
    Paused,
    /// Mail to them came back: they are passed over until they are reached again, or the organizer decides.
    ContactProblem,
    /// They have an offer.
    HasOffer,
    /// They accepted, and the booking service has not said yet.
    BeingConfirmed,
    /// A place is theirs.
    HasBooking,
    /// Places are free for everybody, and booked at another service, not here.
    BookedElsewhere,
    /// Fewer places are free than their entry wants.
    TooFewPlaces,
    /// There are no places yet.
    NoPlaces,
    /// It is cancelled, over, or has started.
    NotOnSale,
}

/// What to do next.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "snake_case")]
pub enum NextStep {
    /// Book.
    Book,
    /// Book at the organizer's own service.
    BookElsewhere,
    /// Accept or decline the offer.
    AnswerOffer,
    /// Join the list.
    JoinWaitlist,
    /// Confirm the contact by a code: only then the entry is in the line.
    Confirm,
    /// Resume the entry: it is paused.
    Resume,
    /// Ask the organizer: only they can let it go on.
    AskOrganizer,
    /// Wait.
    Wait,
}

/// How things stand for somebody at an event.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct StatusView {
    /// Whether they may have a place now: by booking, or by accepting their offer.
    pub allowed: bool,
    /// Why not, or why.
    pub reason: Option<StatusReason>,
    /// What to do next; none where nothing can be done.
    pub next_step: Option<NextStep>,
    /// Their place in the line, where the rule shows it exactly.
    pub position: Option<i64>,
    /// The same in words, as far as the rule lets it be told.
    pub position_text: Option<String>,
    /// When the first of other people's holds ends: not before can one of those places come to them.
    pub next_deadline: Option<DateTime<Utc>>,
    /// Until when they can answer their own offer.
    pub own_deadline: Option<DateTime<Utc>>,
    /// So many places are kept by other people's offers.
    pub held_by_others: i64,
    /// So many places may be booked by anybody now, here.
    pub places_free: i64,
    /// Their live entry, or else the last one.
    pub entry: Option<EntryView>,
    /// Their bookings that stand.
    pub bookings: Vec<BookingView>,
}

impl StatusView {
    /// For somebody whose newest entry and bookings at the event of `sheet` these are, who finds this `door`, and where
    /// other people's holds begin to end at `others_until`.
    #[must_use]
    pub fn of(
        sheet: &EventSheet,
        door: Door,
        others_until: Option<DateTime<Utc>>,
        entry: Option<MyEntry>,
        bookings: Vec<MyBooking>,
        now: DateTime<Utc>,
    ) -> Self {
        let live = entry.as_ref().filter(|entry| entry.state.is_live());
        let offer = live
            .and_then(|entry| entry.offer)
            .filter(|(_, expires_at)| now < *expires_at || live.is_some_and(|entry| entry.stands));
        let own = match (live, offer) {
            (Some(entry), Some(_)) if !entry.is_call => i64::from(entry.party),
            _ => 0,
        };
        let bookings: Vec<MyBooking> =
            bookings.into_iter().filter(|booking| !booking.confirmed.is_empty()).collect();
        let booked = bookings.iter().map(|booking| booking.confirmed.len()).sum();
        let (allowed, reason, next_step) = standing(door, live, offer.is_some(), booked, sheet.person_limit);
        let held_by_others = (sheet.facts.places.held - own).max(0);
        let own_deadline = offer.map(|(_, expires_at)| expires_at);
        let entry = entry.map(|entry| EntryView::of(entry, false));
        Self {
            allowed,
            reason,
            next_step,
            position: entry.as_ref().and_then(|entry| entry.position),
            position_text: entry.as_ref().and_then(|entry| entry.position_text.clone()),
            next_deadline: others_until.filter(|_| held_by_others > 0),
            own_deadline,
            held_by_others,
            places_free: door.bookable(),
            entry,
            bookings: bookings.into_iter().map(Into::into).collect(),
        }
    }
}

/// Whether somebody may have a place, why, and what to do next.
fn standing(
    door: Door,
    live: Option<&MyEntry>,
    has_offer: bool,
    booked: usize,
    person_limit: Option<i32>,
) -> (bool, Option<StatusReason>, Option<NextStep>) {
    if door.sale != Sale::On {
        return (false, Some(StatusReason::NotOnSale), None);
    }
    if live.is_some_and(|entry| entry.accepting) {
        return (true, Some(StatusReason::BeingConfirmed), Some(NextStep::Wait));
    }
    if has_offer {
        return (true, Some(StatusReason::HasOffer), Some(NextStep::AnswerOffer));
    }
    let has_booking = booked > 0;
    // Who has as many as the rule allows is taken by nobody, neither here nor on the list.
    let enough = person_limit.and_then(|most| usize::try_from(most).ok()).is_some_and(|most| booked >= most);
    if has_booking && enough {
        return (false, Some(StatusReason::HasBooking), None);
    }
    let in_line = live.map(|entry| match (entry.state, entry.paused) {
        (EntryState::Unconfirmed, _) => NextStep::Confirm,
        (_, Some(PausedBy::Staff)) => NextStep::AskOrganizer,
        (_, Some(PausedBy::Person | PausedBy::Silent)) => NextStep::Resume,
        (_, None) if entry.set_aside || entry.unreachable => NextStep::AskOrganizer,
        (_, None) => NextStep::Wait,
    });
    let passed_over = live.and_then(|entry| match entry.state {
        EntryState::Waiting if entry.paused.is_some() => Some(StatusReason::Paused),
        EntryState::Waiting if entry.set_aside => Some(StatusReason::SetAside),
        EntryState::Waiting if entry.unreachable => Some(StatusReason::ContactProblem),
        _ => None,
    });
    let join = (door.line == Line::Open).then_some(NextStep::JoinWaitlist);
    // A list that is closed offers nothing: there is nothing to wait for.
    let wait = in_line.filter(|_| door.line != Line::Closed);
    let party = live.map_or(1, |entry| i64::from(entry.party));
    match door.free {
        Free::ForEverybody(_) if door.outside => {
            let reason = if has_booking { StatusReason::HasBooking } else { StatusReason::BookedElsewhere };
            (false, Some(reason), Some(NextStep::BookElsewhere))
        }
        Free::ForEverybody(_) if door.bookable() < party => {
            (false, passed_over.or(Some(StatusReason::TooFewPlaces)), wait)
        }
        Free::ForEverybody(_) => {
            (true, has_booking.then_some(StatusReason::HasBooking), Some(NextStep::Book))
        }
        Free::HeldForList(_) if live.is_some() => {
            (false, passed_over.or(Some(StatusReason::WaitingForTurn)), wait)
        }
        Free::HeldForList(_) => (false, Some(StatusReason::ReservedForWaitlist), join),
        Free::Full if live.is_some() => (false, passed_over.or(Some(StatusReason::EventIsFull)), wait),
        Free::Full => (false, Some(StatusReason::EventIsFull), join),
        Free::NoneYet => (false, Some(StatusReason::NoPlaces), if live.is_some() { wait } else { join }),
    }
}
