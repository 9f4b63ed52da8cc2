//! Joining the list and booking what is free for everybody. Visitors prove their address by a code first; what is said
//! to them never tells who is on the list already.

use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::post;
use serde::Deserialize;
use uuid::Uuid;

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::limits::Limit;
use super::super::page::{Errors, Page, Tone};
use super::super::wants::{parse_party, read_wants};
use super::Customer;
use super::asked::{Purpose, Question, Typed};
use super::events::{EventPage, Forms};
use super::words::you_have_enough;
use crate::db::pages_customer::events::EventSheet;
use crate::domain::attribute::{Typed as AttributesTyped, Wants};
use crate::domain::audit::Actor;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::ids::PersonId;
use crate::domain::standing::{Door, Free, Line, Sale, places_in_words};
use crate::waitlist::bookings::{Book, BookOutcome, booked_directly};
use crate::waitlist::join::{Join, JoinAs, JoinOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/e/{slug}/join", post(join)).route("/e/{slug}/book", post(book))
}

#[derive(Deserialize)]
struct WantForm {
    #[serde(default)]
    name: String,
    #[serde(default)]
    email: String,
    #[serde(default)]
    party: String,
    /// The person as whom the device is signed in; empty for a visitor.
    #[serde(default)]
    person: String,
    /// A field that people do not see. Whatever fills it in is a program.
    #[serde(default)]
    website: String,
    /// Names the act, so that a form sent twice books once.
    #[serde(default)]
    once: String,
    /// What is wanted of a place, by the names of the event's fields.
    #[serde(flatten)]
    wants: AttributesTyped,
}

/// Who wants how many places.
struct Want {
    who: Who,
    name: PersonName,
    email: EmailAddress,
    party: i32,
    wants: Wants,
}

enum Who {
    Visitor,
    SignedIn(PersonId),
}

impl WantForm {
    fn typed(&self) -> Typed {
        Typed {
            name: self.name.clone(),
            email: self.email.clone(),
            party: self.party.clone(),
            wants: self.wants.clone(),
        }
    }

    /// Where the fields cannot be read, the page that says so.
    async fn read(
        &self,
        state: &WebState,
        customer: &Customer,
        sheet: &EventSheet,
    ) -> Result<Result<Want, Errors>, Error> {
        let mut errors = Errors::default();
        let (who, name, email) = if self.person.is_empty() {
            let name = errors.check("name", PersonName::parse(&self.name));
            let email = errors.check("email", EmailAddress::parse(&self.email));
            (Who::Visitor, name, email)
        } else {
            let person: PersonId = self.person.parse().map_err(|_| Error::SignIn)?;
            if !customer.is(person) {
                return Err(Error::SignIn);
            }
            let person = state.db.person(person).await?;
            if person.organization != sheet.event.organizer.id {
                return Err(Error::BadRequest("The form does not belong to this event.".into()));
            }
            let name = errors.check("name", PersonName::parse(&person.name));
            let email = errors.check("email", EmailAddress::parse(&person.email));
            (Who::SignedIn(person.id), name, email)
        };
        let party = match parse_party(&self.party, &mut errors) {
            Some(party) if party > sheet.largest_party => {
                errors.add("party", too_large(sheet.largest_party));
                None
            }
            party => party,
        };
        let wants = read_wants(&sheet.attributes, &self.wants, &mut errors);
        Ok(match (name, email, party, wants) {
            (Some(name), Some(email), Some(party), Some(wants)) => {
                Ok(Want { who, name, email, party, wants })
            }
            _ => Err(errors),
        })
    }
}

pub(super) fn too_large(largest: i32) -> String {
    match largest {
        1 => "Here everybody gets one place.".to_owned(),
        largest => format!("At most {} for one person.", places_in_words(largest.into())),
    }
}

/// The event's page again, with what was typed and what is wrong.
async fn again(
    state: &WebState,
    customer: &Customer,
    slug: &str,
    form: &WantForm,
    problem: Result<Errors, String>,
) -> Result<Response, Error> {
    let sheet = state.db.event_sheet(slug, customer.now).await?;
    let (status, errors, problem) = match problem {
        Ok(errors) => (StatusCode::UNPROCESSABLE_ENTITY, errors, None),
        Err(problem) => (StatusCode::CONFLICT, Errors::default(), Some(problem)),
    };
    let forms = Forms {
        form: form.typed(),
        errors,
        problem,
        for_somebody_else: form.person.is_empty(),
        once: form.once.parse().ok(),
    };
    Ok((status, Page(EventPage::new(state, customer, sheet, forms).await?)).into_response())
}

/// A program filled in what people do not see: it is answered as they are, and nothing is done.
async fn swallow(
    state: &WebState,
    customer: &Customer,
    slug: &str,
    form: &WantForm,
) -> Result<Response, Error> {
    tracing::info!("a form that a program filled in was swallowed");
    let Ok(email) = EmailAddress::parse(&form.email) else { return Ok(Redirect::to("/").into_response()) };
    let purpose = Purpose::Join { slug: slug.to_owned(), form: form.typed() };
    let code = customer.ask(state, Question { person: None, event: None, email: &email, purpose }).await?;
    Ok(Redirect::to(&format!("/code/{code}")).into_response())
}

async fn join(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    Path(slug): Path<String>,
    VerifiedForm(form): VerifiedForm<WantForm>,
) -> Result<Response, Error> {
    let sheet = state.db.event_sheet(&slug, customer.now).await?;
    let want = match form.read(&state, &customer, &sheet).await? {
        Ok(want) => want,
        Err(errors) => return again(&state, &customer, &slug, &form, Ok(errors)).await,
    };
    state.count(Limit::Join, address).await?;
    if !form.website.is_empty() {
        return swallow(&state, &customer, &slug, &form).await;
    }
    let door = state.db.door_for(&sheet, &want.wants, customer.now).await?;
    let as_whom = match want.who {
        Who::SignedIn(person) => JoinAs::SignedIn(person),
        // Refused before anybody is looked up: who is on the list already would otherwise be answered differently.
        Who::Visitor if !door.takes(want.party) => {
            return again(&state, &customer, &slug, &form, Err(shut(door))).await;
        }
        Who::Visitor => JoinAs::Visitor,
    };
    let command =
        Join { name: want.name, email: want.email.clone(), party: want.party, wants: want.wants, as_whom };
    let outcome = state.together.join(sheet.event.id, command).await?;
    let problem = match outcome {
        JoinOutcome::Joined(entry) | JoinOutcome::Already(entry) if as_whom == JoinAs::Visitor => {
            state.count(Limit::CodeAddress, address).await?;
            let question = Question {
                person: Some(entry.person),
                event: Some(sheet.event.id),
                email: &want.email,
                purpose: Purpose::Join { slug, form: form.typed() },
            };
            let code = customer.ask(&state, question).await?;
            return Ok(Redirect::to(&format!("/code/{code}")).into_response());
        }
        JoinOutcome::Joined(entry) => {
            customer.flash(Tone::Done, "You are on the waitlist.").await?;
            return Ok(Redirect::to(&format!("/me/entries/{}", entry.id)).into_response());
        }
        JoinOutcome::Already(entry) => {
            customer.flash(Tone::Note, "You were on this waitlist already; nothing has changed.").await?;
            return Ok(Redirect::to(&format!("/me/entries/{}", entry.id)).into_response());
        }
        JoinOutcome::Frozen => shut(Door { line: Line::Frozen(None), ..door }),
        JoinOutcome::Closed => shut(Door { line: Line::Closed, ..door }),
        JoinOutcome::ListFull => shut(Door { line: Line::Full, ..door }),
        JoinOutcome::PlacesFree => shut(Door { line: Line::Open, ..door }),
        JoinOutcome::TooManyWants => {
            "People on this list want as many different things as it can tell apart. Want a little less exactly, and \
             join."
                .to_owned()
        }
        JoinOutcome::Enough(enough) => format!("{} Nothing was done.", you_have_enough(enough)),
        JoinOutcome::PartyTooLarge(largest) => format!("{} Nothing was done.", too_large(largest)),
        JoinOutcome::NotOnSale => {
            let sale = if door.sale == Sale::On { Sale::Started } else { door.sale };
            shut(Door { sale, ..door })
        }
    };
    again(&state, &customer, &slug, &form, Err(problem)).await
}

/// Why nobody can join.
fn shut(door: Door) -> String {
    match (door.sale, door.line) {
        (Sale::Cancelled, _) => "The event has been cancelled, so you were not put on the list.",
        (Sale::Over, _) => "The event is over, so you were not put on the list.",
        (Sale::Started, _) => "The event has started, so you were not put on the list.",
        (Sale::On, Line::Frozen(_)) => "The waitlist takes nobody new at the moment. You were not put on it.",
        (Sale::On, Line::Closed) => "The waitlist is closed. You were not put on it.",
        (Sale::On, Line::Full) => "The waitlist is full: it takes no more people. You were not put on it.",
        (Sale::On, Line::Open) if door.outside => {
            "Good news: there are free places now, so you need not wait. They are booked at the organizer’s box office, \
             not here. You were not put on the list."
        }
        (Sale::On, Line::Open) => {
            "Good news: there are free places now, so you need not wait. You can book below with what you typed."
        }
    }
    .to_owned()
}

async fn book(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    Path(slug): Path<String>,
    VerifiedForm(form): VerifiedForm<WantForm>,
) -> Result<Response, Error> {
    let sheet = state.db.event_sheet(&slug, customer.now).await?;
    let want = match form.read(&state, &customer, &sheet).await? {
        Ok(want) => want,
        Err(errors) => return again(&state, &customer, &slug, &form, Ok(errors)).await,
    };
    let once = form.once.parse().unwrap_or_else(|_| state.db.entropy().id());
    state.count(Limit::Join, address).await?;
    if !form.website.is_empty() {
        return swallow(&state, &customer, &slug, &form).await;
    }
    let person = match want.who {
        Who::SignedIn(person) => person,
        Who::Visitor => {
            let door = state.db.door_for(&sheet, &want.wants, customer.now).await?;
            if door.bookable() < i64::from(want.party) {
                let outcome =
                    if door.outside { BookOutcome::BookedElsewhere } else { BookOutcome::TooFew(0) };
                let problem = not_booked(&outcome, &sheet, &customer);
                return again(&state, &customer, &slug, &form, Err(problem)).await;
            }
            state.count(Limit::CodeAddress, address).await?;
            let person = state.waitlist().meet(sheet.event.id, &want.name, &want.email).await?;
            let question = Question {
                person: Some(person),
                event: Some(sheet.event.id),
                email: &want.email,
                purpose: Purpose::Book {
                    slug,
                    form: form.typed(),
                    party: want.party,
                    wants: want.wants,
                    once,
                },
            };
            let code = customer.ask(&state, question).await?;
            return Ok(Redirect::to(&format!("/code/{code}")).into_response());
        }
    };
    match book_now(&state, &customer, &sheet, person, (want.party, want.wants), once).await? {
        Ok(done) => Ok(done),
        Err(problem) => again(&state, &customer, &slug, &form, Err(problem)).await,
    }
}

/// Books for a person as whom the device is signed in: on to the receipt, or why not.
pub(super) async fn book_now(
    state: &WebState,
    customer: &Customer,
    sheet: &EventSheet,
    person: PersonId,
    (party, wants): (i32, Wants),
    once: Uuid,
) -> Result<Result<Response, String>, Error> {
    let command = Book {
        person,
        party,
        wants,
        actor: Actor::Person(person),
        reason: booked_directly(),
        override_reservation: false,
        once,
    };
    let event = sheet.event.id;
    Ok(match state.waitlist().book(event, &command).await? {
        BookOutcome::Booked { reference, party } => {
            let id = state.db.booking_with(event, person, &reference).await?;
            let places = places_in_words(party.into());
            customer.flash(Tone::Done, format!("Booked: {places}. Your reference is {reference}.")).await?;
            Ok(Redirect::to(&format!("/me/bookings/{id}")).into_response())
        }
        BookOutcome::HasOffer(offer) | BookOutcome::OfferDiffers { offer, .. } => {
            customer
                .flash(
                    Tone::Note,
                    "Places are held for you already: take them here. Nothing else was booked.",
                )
                .await?;
            Ok(Redirect::to(&format!("/offers/{offer}")).into_response())
        }
        BookOutcome::BeingConfirmed(offer) => Ok(Redirect::to(&format!("/offers/{offer}")).into_response()),
        outcome @ (BookOutcome::HeldForWaitlist
        | BookOutcome::BookedElsewhere
        | BookOutcome::TooFew(_)
        | BookOutcome::NotOnSale
        | BookOutcome::BadParty(_)
        | BookOutcome::Enough(_)) => {
            let sheet = state.db.event_sheet_of(event, customer.now).await?;
            Err(not_booked(&outcome, &sheet, customer))
        }
    })
}

/// Why nothing was booked. How many places are open is said only where they are free for everybody.
fn not_booked(outcome: &BookOutcome, sheet: &EventSheet, customer: &Customer) -> String {
    let door = sheet.door(customer.now);
    let next =
        if door.line == Line::Open { " You can join the waitlist below with what you typed." } else { "" };
    match (outcome, door.free) {
        (BookOutcome::BookedElsewhere, _) => {
            "What is free for everybody is booked at the organizer’s box office, not here. Nothing was booked.".to_owned()
        }
        (BookOutcome::NotOnSale, _) => "This event cannot be booked any more. Nothing was booked.".to_owned(),
        (BookOutcome::Enough(enough), _) => format!("{} Nothing was booked.", you_have_enough(*enough)),
        (BookOutcome::BadParty(largest), _) => format!("{} Nothing was booked.", too_large(*largest)),
        (_, Free::ForEverybody(open)) => {
            format!(
                "Only {} left, fewer than you asked for. Nothing was booked.",
                match open {
                    1 => "1 place is".to_owned(),
                    open => format!("{} are", places_in_words(open)),
                }
            )
        }
        (BookOutcome::HeldForWaitlist, _) | (_, Free::HeldForList(_)) => {
            format!("What is free goes to the people on the waitlist first. Nothing was booked.{next}")
        }
        (_, Free::Full | Free::NoneYet) => format!(
            "The last places were taken while you were filling in the form. Nothing was booked.{next}"
        ),
    }
}

/// The event's page with a refusal, after a code was entered.
pub(super) async fn refused(
    state: &WebState,
    customer: &Customer,
    slug: &str,
    form: Typed,
    problem: String,
) -> Result<Response, Error> {
    let sheet = state.db.event_sheet(slug, customer.now).await?;
    let forms = Forms { form, problem: Some(problem), ..Forms::default() };
    Ok((StatusCode::CONFLICT, Page(EventPage::new(state, customer, sheet, forms).await?)).into_response())
}
