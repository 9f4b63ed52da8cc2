//! What is mine: live offers first, then where I wait, then what I have booked; by organization.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use axum::routing::get;

use super::super::WebState;
use super::super::error::Error;
use super::super::page::{Layout, Page};
use super::Customer;
use super::events::{BookingCard, EntryCard};
use crate::db::pages_customer::Organizer;
use crate::domain::entry::EntryState;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/me", get(show))
}

#[derive(Template)]
#[template(path = "customer/me.html")]
struct MePage {
    layout: Layout,
    offers: Vec<EntryCard>,
    groups: Vec<Group>,
}

/// What belongs to me at one organization.
struct Group {
    organizer: Organizer,
    /// Waiting, or not confirmed.
    live: Vec<EntryCard>,
    bookings: Vec<BookingCard>,
    /// Over.
    over: Vec<EntryCard>,
}

impl Group {
    /// Whether all there is stands above, among the offers.
    fn is_empty(&self) -> bool {
        self.live.is_empty() && self.bookings.is_empty() && self.over.is_empty()
    }
}

async fn show(State(state): State<WebState>, customer: Customer) -> Result<Response, Error> {
    if !customer.is_signed_in() {
        return Err(Error::SignIn);
    }
    let now = customer.now;
    let entries = state.db.my_entries(&customer.persons, now).await?;
    let bookings = state.db.my_bookings(&customer.persons, now).await?;
    let mut organizers: Vec<Organizer> = entries
        .iter()
        .map(|entry| &entry.event.organizer)
        .chain(bookings.iter().map(|booking| &booking.event.organizer))
        .cloned()
        .collect();
    organizers.sort_by(|a, b| (&a.name, a.id).cmp(&(&b.name, b.id)));
    organizers.dedup();
    let mut groups: Vec<Group> = organizers
        .into_iter()
        .map(|organizer| Group { organizer, live: Vec::new(), bookings: Vec::new(), over: Vec::new() })
        .collect();
    let mut offers = Vec::new();
    for entry in &entries {
        let card = EntryCard::new(entry, now);
        let Some(group) = groups.iter_mut().find(|group| group.organizer == entry.event.organizer) else {
            continue;
        };
        match entry.state {
            EntryState::Offered => offers.push((entry.offer.map(|(_, at)| at), card)),
            EntryState::Waiting | EntryState::Unconfirmed => group.live.push(card),
            // The booking says it.
            EntryState::Accepted => {}
            EntryState::Declined
            | EntryState::Expired
            | EntryState::Withdrawn
            | EntryState::Removed
            | EntryState::Lapsed
            | EntryState::Closed => group.over.push(card),
        }
    }
    // What ends first stands first.
    offers.sort_by_key(|(deadline, _)| *deadline);
    let offers = offers.into_iter().map(|(_, card)| card).collect();
    for booking in bookings {
        if let Some(group) = groups.iter_mut().find(|group| group.organizer == booking.event.organizer) {
            group.bookings.push(BookingCard::new(booking, now));
        }
    }
    let layout = customer.form_layout("My places").await?.live(30);
    Ok(Page(MePage { layout, offers, groups }).into_response())
}
