//! Entering a six-digit code: the device is signed in, and on it goes with what the code was asked for.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::limits::Limit;
use super::super::next::LocalPath;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Customer;
use super::asked::{Asked, Purpose, Question};
use super::join::{book_now, refused};
use super::words::you_have_enough;
use crate::domain::contact::EmailAddress;
use crate::domain::ids::{CodeId, PersonId};
use crate::waitlist::join::{CodeOutcome, ConfirmOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/code/{id}", get(show).post(enter)).route("/code/{id}/resend", post(resend))
}

#[derive(Template)]
#[template(path = "customer/code.html")]
struct CodePage {
    layout: Layout,
    id: CodeId,
    masked: String,
    purpose: Purpose,
    /// It is worth nothing any more.
    spent: bool,
    errors: Errors,
}

#[derive(Template)]
#[template(path = "customer/code_gone.html")]
struct CodeGonePage {
    layout: Layout,
}

async fn page(customer: &Customer, asked: Asked, spent: bool, errors: Errors) -> Result<CodePage, Error> {
    let mut layout = customer.form_layout("Enter your code").await?;
    if matches!(asked.purpose, Purpose::Offer { .. }) {
        layout = layout.without_menu();
    }
    Ok(CodePage { layout, id: asked.id, masked: asked.masked(), purpose: asked.purpose, spent, errors })
}

async fn gone(customer: &Customer) -> Result<Response, Error> {
    let layout = customer.layout("This page is over").await?;
    Ok((StatusCode::NOT_FOUND, Page(CodeGonePage { layout })).into_response())
}

async fn show(customer: Customer, Path(id): Path<CodeId>) -> Result<Response, Error> {
    let Some(asked) = customer.asked(id).await? else { return gone(&customer).await };
    let spent = asked.is_spent(customer.now);
    Ok(Page(page(&customer, asked, spent, Errors::default()).await?).into_response())
}

#[derive(Deserialize)]
struct CodeForm {
    #[serde(default)]
    digits: String,
}

async fn enter(
    State(state): State<WebState>,
    mut customer: Customer,
    Path(id): Path<CodeId>,
    VerifiedForm(form): VerifiedForm<CodeForm>,
) -> Result<Response, Error> {
    let Some(mut asked) = customer.asked(id).await? else { return gone(&customer).await };
    let digits: String = form.digits.chars().filter(|c| !c.is_whitespace()).collect();
    let mut errors = Errors::default();
    if digits.len() != 6 || !digits.bytes().all(|digit| digit.is_ascii_digit()) {
        errors.add("digits", "A code has six digits. Look at the newest mail from us.");
        let page = page(&customer, asked, false, errors).await?;
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response());
    }
    state.count(Limit::CodeTry, asked.contact()).await?;
    // Where nobody was written to, nothing is right; all else is said as everywhere.
    let outcome = match asked.person {
        Some(_) => state.waitlist().enter_code(id, &digits).await?,
        None => CodeOutcome::Spent,
    };
    match outcome {
        CodeOutcome::Right { person, entry } => {
            customer.forget(id).await?;
            let persons = state.db.same_address(person).await?;
            customer.sign_in_as(&persons).await?;
            go_on(&state, &customer, asked.purpose, person, entry).await
        }
        CodeOutcome::Wrong { .. } | CodeOutcome::Spent => {
            let tries_left = asked.guessed();
            customer.keep(&asked).await?;
            if asked.is_spent(customer.now) {
                let page = page(&customer, asked, true, errors).await?;
                return Ok((StatusCode::GONE, Page(page)).into_response());
            }
            let left = if tries_left == 1 {
                "You have one more try.".to_owned()
            } else {
                format!("You have {tries_left} more tries.")
            };
            errors.add("digits", format!("That is not the code that was sent last. {left}"));
            let page = page(&customer, asked, false, errors).await?;
            Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response())
        }
    }
}

/// With what the code was asked for.
async fn go_on(
    state: &WebState,
    customer: &Customer,
    purpose: Purpose,
    person: PersonId,
    entry: ConfirmOutcome,
) -> Result<Response, Error> {
    let to = match purpose {
        Purpose::Join { slug, .. } => match entry {
            ConfirmOutcome::Confirmed(entry) => {
                customer.flash(Tone::Done, "Your address is confirmed, and you are on the waitlist.").await?;
                format!("/me/entries/{entry}")
            }
            ConfirmOutcome::Enough(entry, enough) => {
                let said = format!("{} You are not on the waitlist.", you_have_enough(enough));
                customer.flash(Tone::Warn, said).await?;
                format!("/me/entries/{entry}")
            }
            // The entry ended between the form and the code.
            ConfirmOutcome::NoEntry => {
                customer
                    .flash(Tone::Warn, "Your address is confirmed, but you are not on the waitlist any more.")
                    .await?;
                format!("/e/{slug}")
            }
        },
        Purpose::Book { slug, form, party, wants, once } => {
            let sheet = state.db.event_sheet(&slug, customer.now).await?;
            return match book_now(state, customer, &sheet, person, (party, wants), once).await? {
                Ok(done) => Ok(done),
                Err(problem) => refused(state, customer, &slug, form, problem).await,
            };
        }
        Purpose::SignIn { next } => LocalPath::parse_or(&next, "/me").to_string(),
        Purpose::Offer { offer } => format!("/offers/{offer}"),
    };
    Ok(Redirect::to(&to).into_response())
}

/// A new code to the same address; the old one stops working.
async fn resend(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    Path(id): Path<CodeId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let Some(asked) = customer.asked(id).await? else { return gone(&customer).await };
    state.count(Limit::CodeAddress, address).await?;
    let email = EmailAddress::parse(&asked.email).map_err(Error::internal)?;
    let question =
        Question { person: asked.person, event: asked.event, email: &email, purpose: asked.purpose };
    let code = customer.ask(&state, question).await?;
    customer.forget(id).await?;
    customer.flash(Tone::Done, "A new code is on its way. Only the newest one works.").await?;
    Ok(Redirect::to(&format!("/code/{code}")).into_response())
}
