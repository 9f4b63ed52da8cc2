//! A booking of my own: the receipt, the calendar's copy, and cancelling it.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;

use super::super::WebState;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Layout, Page, Tone};
use super::events::BookingCard;
use super::{Customer, not_yours};
use crate::db::pages_customer::mine::MyBooking;
use crate::domain::audit::Actor;
use crate::domain::calendar::CalendarEvent;
use crate::domain::ids::BookingId;
use crate::domain::standing::places_in_words;
use crate::domain::when::When;
use crate::waitlist::bookings::{CancelOutcome, cancelled_by_customer};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/me/bookings/{id}", get(show))
        .route("/me/bookings/{id}/booking.ics", get(calendar))
        .route("/me/bookings/{id}/cancel", get(ask_cancel).post(cancel))
}

#[derive(Template)]
#[template(path = "customer/booking.html")]
struct BookingPage {
    layout: Layout,
    card: BookingCard,
    booked: When,
    cancelled: Option<When>,
}

async fn mine(
    state: &WebState,
    customer: &Customer,
    id: BookingId,
) -> Result<Result<MyBooking, Response>, Error> {
    if !customer.is_signed_in() {
        return Err(Error::SignIn);
    }
    let booking = state.db.my_booking(id).await?;
    if customer.is(booking.person) {
        Ok(Ok(booking))
    } else {
        Ok(Err(not_yours(customer, "This booking", &format!("/me/bookings/{id}")).await?))
    }
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<BookingId>,
) -> Result<Response, Error> {
    let booking = match mine(&state, &customer, id).await? {
        Ok(booking) => booking,
        Err(page) => return Ok(page),
    };
    let (zone, now) = (booking.event.zone, customer.now);
    let layout = customer.layout_of("Your booking", &booking.event.organizer).await?;
    Ok(Page(BookingPage {
        layout,
        booked: When::new(booking.booked_at, zone, now),
        cancelled: booking.cancelled_at.map(|at| When::new(at, zone, now)),
        card: BookingCard::new(booking, now),
    })
    .into_response())
}

async fn calendar(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<BookingId>,
) -> Result<Response, Error> {
    match mine(&state, &customer, id).await? {
        Ok(booking) => calendar_file(&state, &customer, &booking, &format!("/me/bookings/{id}")),
        Err(page) => Ok(page),
    }
}

/// The booking for a calendar; there is none without a start, or when nothing of it stands.
pub(super) fn calendar_file(
    state: &WebState,
    customer: &Customer,
    booking: &MyBooking,
    path: &str,
) -> Result<Response, Error> {
    let start = booking.event.starts_at.filter(|_| !booking.confirmed.is_empty()).ok_or(Error::NotFound)?;
    let confirmed = i64::try_from(booking.confirmed.len()).unwrap_or(i64::MAX);
    let labels =
        if booking.labels.is_empty() { String::new() } else { format!(": {}", booking.labels.join(" · ")) };
    let file = CalendarEvent {
        uid: &format!("{}@fairlist", booking.id),
        stamp: customer.now,
        start,
        title: &booking.event.name,
        place: &booking.event.venue,
        notes: &format!("Reference {}\n{}{labels}", booking.reference, places_in_words(confirmed)),
        url: &state.settings.link(path),
    }
    .file();
    let headers = [
        (CONTENT_TYPE, "text/calendar; charset=utf-8"),
        (CONTENT_DISPOSITION, "attachment; filename=\"booking.ics\""),
    ];
    Ok((headers, file).into_response())
}

#[derive(Template)]
#[template(path = "customer/cancel.html")]
struct CancelPage {
    layout: Layout,
    card: BookingCard,
}

async fn ask_cancel(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<BookingId>,
) -> Result<Response, Error> {
    let booking = match mine(&state, &customer, id).await? {
        Ok(booking) => booking,
        Err(page) => return Ok(page),
    };
    let card = BookingCard::new(booking, customer.now);
    if card.booking.confirmed.is_empty() {
        customer.flash(Tone::Note, "This booking had been cancelled before.").await?;
        return Ok(Redirect::to(&card.href()).into_response());
    }
    let layout = customer.layout_of("Cancel your booking?", &card.booking.event.organizer).await?;
    Ok(Page(CancelPage { layout, card }).into_response())
}

/// All places of the party that still stand.
async fn cancel(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<BookingId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let booking = match mine(&state, &customer, id).await? {
        Ok(booking) => booking,
        Err(page) => return Ok(page),
    };
    let outcomes = state
        .waitlist()
        .cancel_party(
            booking.event.id,
            &booking.confirmed,
            Actor::Person(booking.person),
            &cancelled_by_customer(),
        )
        .await?;
    let done = outcomes.iter().any(|outcome| match outcome {
        CancelOutcome::Cancelled { .. } => true,
        CancelOutcome::Already { .. } | CancelOutcome::NotYours | CancelOutcome::BeingCancelled => false,
    });
    let (tone, text) = if outcomes.contains(&CancelOutcome::BeingCancelled) {
        (
            Tone::Note,
            "Your booking is being cancelled: the box office has been asked and has not answered yet. Until it has, the \
             booking stands; you are told when it is cancelled.",
        )
    } else if done {
        (Tone::Done, "Your booking is cancelled: what you gave back goes to whoever is next.")
    } else {
        (Tone::Note, "This booking had been cancelled before.")
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&BookingCard::new(booking, customer.now).href()).into_response())
}
