//! An offer: the countdown and the two answers, and afterwards what became of it. The same address stays the receipt.
//! Who merely has the link sees the event and the deadline, and proves to be the person by a code.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::{HeaderName, HeaderValue, StatusCode};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chrono::{DateTime, Utc};

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::limits::Limit;
use super::super::page::{Layout, Page, Tone};
use super::Customer;
use super::asked::{Purpose, Question};
use super::bookings::calendar_file;
use crate::db::pages_customer::receipts::OfferSheet;
use crate::domain::audit::Actor;
use crate::domain::contact::EmailAddress;
use crate::domain::entry::EntryState;
use crate::domain::ids::OfferId;
use crate::domain::offer::{OfferKind, OfferState};
use crate::domain::standing::{OfferStanding, places_in_words};
use crate::domain::when::When;
use crate::waitlist::answer::{Accept, AcceptOutcome, Decline, DeclineOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/offers/{id}", get(show))
        .route("/offers/{id}/code", post(send_code))
        .route("/offers/{id}/accept", post(accept))
        .route("/offers/{id}/decline", post(decline))
        .route("/offers/{id}/booking.ics", get(calendar))
}

/// Who looks at it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Viewer {
    /// The person it was made to.
    Owner,
    /// Somebody who is signed in as another person.
    SomebodyElse,
    /// Nobody in particular.
    Visitor,
}

#[derive(Template)]
#[template(path = "customer/offer.html")]
struct OfferPage {
    layout: Layout,
    sheet: OfferSheet,
    viewer: Viewer,
    standing: OfferStanding,
    masked: String,
    deadline: When,
    ended: Option<When>,
    starts: Option<When>,
    labels: String,
}

impl OfferPage {
    async fn new(state: &WebState, customer: &Customer, id: OfferId) -> Result<Self, Error> {
        let sheet = state.db.offer_sheet(id).await?;
        let now = customer.now;
        let viewer = if customer.is(sheet.offer.person) {
            Viewer::Owner
        } else if customer.is_signed_in() {
            Viewer::SomebodyElse
        } else {
            Viewer::Visitor
        };
        let standing = OfferStanding::of(&sheet.offer, now);
        let mut layout = customer.layout_of(&sheet.event.name, &sheet.event.organizer).await?;
        layout = match (viewer, standing) {
            (Viewer::Owner, OfferStanding::Open | OfferStanding::Late) => layout.without_menu().live(20),
            (Viewer::Owner, OfferStanding::BeingConfirmed) => layout.live(5),
            (Viewer::Visitor | Viewer::SomebodyElse, _) => layout.without_menu(),
            (Viewer::Owner, _) => layout,
        };
        let zone = sheet.event.zone;
        Ok(Self {
            viewer,
            standing,
            masked: EmailAddress::parse(&sheet.email)
                .map_or_else(|_| "the address we know".to_owned(), |email| email.masked()),
            deadline: When::new(sheet.offer.expires_at, zone, now),
            ended: sheet.offer.ended_at.map(|at| When::new(at, zone, now)),
            starts: sheet.event.starts_at.map(|at| When::new(at, zone, now)),
            labels: sheet.labels.join(" · "),
            layout,
            sheet,
        })
    }

    /// Nothing is held: the first to accept has it.
    fn is_call(&self) -> bool {
        self.sheet.offer.kind == OfferKind::Call
    }

    /// The last before the start.
    fn is_final(&self) -> bool {
        self.sheet.offer.is_final_call()
    }

    /// What is open at this moment.
    fn open(&self) -> String {
        match self.sheet.open {
            0 => "nothing is open".to_owned(),
            1 => "1 place is open".to_owned(),
            open => format!("{} are open", places_in_words(open)),
        }
    }

    /// Whether there is enough for this party at this moment.
    fn is_enough(&self) -> bool {
        self.sheet.open >= i64::from(self.sheet.offer.party)
    }

    /// "2 places".
    fn places(&self) -> String {
        places_in_words(self.sheet.offer.party.into())
    }

    /// "2 places": those whose booking stands.
    fn standing_places(&self) -> String {
        places_in_words(i64::try_from(self.sheet.standing_bookings.len()).unwrap_or(i64::MAX))
    }

    /// "my 2 places", for the button.
    fn my_places(&self) -> String {
        if self.sheet.offer.party == 1 { "my place".to_owned() } else { format!("my {}", self.places()) }
    }

    /// What the entry is now, and what that means.
    fn next(&self) -> &'static str {
        match self.sheet.entry {
            EntryState::Waiting if self.sheet.paused => {
                "You are still on the waitlist, but paused, because several offers went unanswered. Resume if you are still interested."
            }
            EntryState::Waiting => {
                "You are still on the waitlist and hear from us when it is your turn again."
            }
            EntryState::Offered => "You have another offer at this moment; see your request.",
            EntryState::Accepted => "You have places at this event.",
            EntryState::Unconfirmed => "Your request is on the waitlist once you confirm it.",
            EntryState::Declined
            | EntryState::Expired
            | EntryState::Withdrawn
            | EntryState::Removed
            | EntryState::Lapsed => {
                "You are no longer on the waitlist. You can join again, at the end of the line."
            }
            EntryState::Closed => "The event and its waitlist are over for now.",
        }
    }

    /// Ended by the clock, and nobody has got to it yet.
    fn is_unswept(&self) -> bool {
        self.sheet.offer.state == OfferState::Pending
    }
}

async fn page(
    state: &WebState,
    customer: &Customer,
    id: OfferId,
    status: StatusCode,
) -> Result<Response, Error> {
    let page = OfferPage::new(state, customer, id).await?;
    let refresh = page.standing == OfferStanding::BeingConfirmed;
    let mut response = (status, Page(page)).into_response();
    if refresh {
        // Without the script, too.
        response.headers_mut().insert(HeaderName::from_static("refresh"), HeaderValue::from_static("5"));
    }
    Ok(response)
}

fn address(id: OfferId) -> String {
    format!("/offers/{id}")
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<OfferId>,
) -> Result<Response, Error> {
    page(&state, &customer, id, StatusCode::OK).await
}

/// To the contact on file, whoever asks.
async fn send_code(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    Path(id): Path<OfferId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let offer = state.db.find_offer(id).await?;
    state.count(Limit::CodeAddress, address).await?;
    let person = state.db.person(offer.person).await?;
    let email = EmailAddress::parse(&person.email).map_err(Error::internal)?;
    let question = Question {
        person: Some(offer.person),
        event: Some(offer.event),
        email: &email,
        purpose: Purpose::Offer { offer: id },
    };
    let code = customer.ask(&state, question).await?;
    Ok(Redirect::to(&format!("/code/{code}")).into_response())
}

/// At most ten a minute and offer reach the event's lock. What comes beside them waits for what these decide: a finger
/// that taps too often is not told that it failed when it did not.
async fn within_limit(state: &WebState, id: OfferId) -> Result<bool, Error> {
    let refused = match state.count(Limit::Accept, id).await {
        Ok(()) => return Ok(true),
        Err(error @ Error::TooMany { .. }) => error,
        Err(error) => return Err(error),
    };
    for _ in 0..8 {
        if state.db.find_offer(id).await?.state != OfferState::Pending {
            return Ok(false);
        }
        tokio::time::sleep(std::time::Duration::from_millis(250)).await;
    }
    Err(refused)
}

async fn accept(
    State(state): State<WebState>,
    mut customer: Customer,
    Path(id): Path<OfferId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let offer = state.db.find_offer(id).await?;
    if !customer.is(offer.person) {
        return page(&state, &customer, id, StatusCode::FORBIDDEN).await;
    }
    if !within_limit(&state, id).await? {
        return Ok(Redirect::to(&address(id)).into_response());
    }
    let command = Accept { offer: id, person: offer.person, actor: Actor::Person(offer.person) };
    let status = match state.together.accept(offer.event, command).await? {
        AcceptOutcome::Accepted { .. } | AcceptOutcome::AlreadyAccepted { .. } => {
            return Ok(Redirect::to(&address(id)).into_response());
        }
        AcceptOutcome::Expired => StatusCode::GONE,
        AcceptOutcome::Declined | AcceptOutcome::Revoked | AcceptOutcome::Conflicted => StatusCode::CONFLICT,
        AcceptOutcome::BeingConfirmed => StatusCode::ACCEPTED,
        AcceptOutcome::TakenByFaster { open } => {
            customer.flash(Tone::Warn, taken_by_faster(open, offer.party)).await?;
            StatusCode::CONFLICT
        }
        AcceptOutcome::ServiceUnavailable => {
            customer.flash(Tone::Warn, NOT_REACHED).await?;
            StatusCode::SERVICE_UNAVAILABLE
        }
        AcceptOutcome::NotYours => StatusCode::FORBIDDEN,
        AcceptOutcome::Unknown => return Err(Error::NotFound),
    };
    answered_late(&state, &mut customer).await?;
    page(&state, &customer, id, status).await
}

/// The booking service cannot be reached: what that means for the offer.
const NOT_REACHED: &str = "The box office cannot be reached at the moment, so nothing was booked. Your offer \
                           is still yours: please try again in a minute.";

/// Somebody was faster; whether anything is still to be had.
fn taken_by_faster(open: i64, party: i32) -> String {
    let on = "You stay on the list and are told again when a place comes free.";
    if open == 0 {
        let what = if party == 1 { "The place was" } else { "The places were" };
        return format!("{what} taken by someone faster, and nothing is open now. {on}");
    }
    format!(
        "Someone was faster: only {} open now, and you asked for {}. {on}",
        match open {
            1 => "1 place is".to_owned(),
            open => format!("{} are", places_in_words(open)),
        },
        places_in_words(party.into())
    )
}

async fn decline(
    State(state): State<WebState>,
    mut customer: Customer,
    Path(id): Path<OfferId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let offer = state.db.find_offer(id).await?;
    if !customer.is(offer.person) {
        return page(&state, &customer, id, StatusCode::FORBIDDEN).await;
    }
    if !within_limit(&state, id).await? {
        return Ok(Redirect::to(&address(id)).into_response());
    }
    let command = Decline { offer: id, person: offer.person, actor: Actor::Person(offer.person) };
    let status = match state.together.decline(offer.event, command).await? {
        DeclineOutcome::Declined { .. } | DeclineOutcome::AlreadyDeclined => {
            return Ok(Redirect::to(&address(id)).into_response());
        }
        DeclineOutcome::Accepted => {
            customer
                .flash(
                    Tone::Warn,
                    "You had taken the places before, so nothing was passed on. The booking stands.",
                )
                .await?;
            StatusCode::CONFLICT
        }
        DeclineOutcome::Expired => StatusCode::GONE,
        DeclineOutcome::Revoked => StatusCode::CONFLICT,
        DeclineOutcome::BeingConfirmed => StatusCode::ACCEPTED,
        DeclineOutcome::NotYours => StatusCode::FORBIDDEN,
        DeclineOutcome::Unknown => return Err(Error::NotFound),
    };
    answered_late(&state, &mut customer).await?;
    page(&state, &customer, id, status).await
}

/// The decision may have waited for the lock: its page is written as of now.
async fn answered_late(state: &WebState, customer: &mut Customer) -> Result<(), Error> {
    let now: DateTime<Utc> = state.db.session_now().await?;
    customer.now = now;
    Ok(())
}

async fn calendar(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<OfferId>,
) -> Result<Response, Error> {
    if !customer.is_signed_in() {
        return Err(Error::SignIn);
    }
    let sheet = state.db.offer_sheet(id).await?;
    let booking = sheet.booking.filter(|_| customer.is(sheet.offer.person)).ok_or(Error::NotFound)?;
    calendar_file(&state, &customer, &state.db.my_booking(booking.1).await?, &address(id))
}
