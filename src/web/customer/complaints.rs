//! Saying that something is not right about a request of my own, and reading what staff answered.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Customer;
use super::entries::mine;
use super::events::EntryCard;
use crate::domain::audit::Actor;
use crate::domain::complaint::{About, Complaint, Words};
use crate::domain::entry::Entry;
use crate::domain::ids::EntryId;
use crate::domain::when::When;
use crate::waitlist::complaints::ComplainOutcome;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/me/entries/{id}/complaint", get(show).post(complain))
}

/// As many are shown, the last first.
const SHOWN: i64 = 20;

/// What was chosen and typed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ComplaintForm {
    about: String,
    words: String,
}

#[derive(Template)]
#[template(path = "customer/complaint.html")]
struct ComplaintPage {
    layout: Layout,
    card: EntryCard,
    complaints: Vec<Complaint>,
    zone: chrono_tz::Tz,
    now: chrono::DateTime<chrono::Utc>,
    form: ComplaintForm,
    errors: Errors,
}

impl ComplaintPage {
    fn waits(&self) -> bool {
        self.complaints.first().is_some_and(|last| last.answer.is_none())
    }

    fn when(&self, at: &chrono::DateTime<chrono::Utc>) -> When {
        When::new(*at, self.zone, self.now)
    }
}

fn address(id: EntryId) -> String {
    format!("/me/entries/{id}/complaint")
}

async fn page(
    state: &WebState,
    customer: &Customer,
    entry: &Entry,
    form: ComplaintForm,
    errors: Errors,
) -> Result<Response, Error> {
    let card = state.db.my_entry(entry.id).await?;
    let complaints = state.db.complaints_of(entry.event, entry.id, SHOWN).await?;
    let zone = state.db.event(entry.event).await?.zone;
    let layout = customer.layout_of("Something is not right?", &card.event.organizer).await?;
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let (card, now) = (EntryCard::new(&card, customer.now), customer.now);
    Ok((status, Page(ComplaintPage { layout, card, complaints, zone, now, form, errors })).into_response())
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
) -> Result<Response, Error> {
    match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => page(&state, &customer, &entry, ComplaintForm::default(), Errors::default()).await,
        Err(page) => Ok(page),
    }
}

async fn complain(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(form): VerifiedForm<ComplaintForm>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let mut errors = Errors::default();
    let about = errors.check("about", About::parse(&form.about).ok_or("Choose what it is about."));
    let words = errors.check("words", Words::parse(&form.words));
    let (Some(about), Some(words)) = (about, words) else {
        return page(&state, &customer, &entry, form, errors).await;
    };
    let actor = Actor::Person(entry.person);
    match state.waitlist().complain(entry.event, id, about, &words, actor).await? {
        ComplainOutcome::WrittenDown(_) => {
            customer.flash(Tone::Done, "The organizer has it now, and answers by mail and here.").await?;
        }
        ComplainOutcome::Unanswered(_) => {
            // What was typed is not lost: it is there to be sent after the answer.
            errors.add(
                "words",
                "The organizer has not answered what you wrote before. Write again after that.",
            );
            return page(&state, &customer, &entry, form, errors).await;
        }
    }
    Ok(Redirect::to(&address(id)).into_response())
}
