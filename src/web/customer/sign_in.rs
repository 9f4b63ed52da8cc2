//! Signing in by a code, and out. Whoever asks learns nothing about who is known here.

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
use super::super::extract::Query;
use super::super::limits::Limit;
use super::super::next::LocalPath;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Customer;
use super::asked::{Purpose, Question};
use crate::domain::contact::EmailAddress;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/sign-in", get(show).post(sign_in)).route("/sign-out", post(sign_out))
}

#[derive(Template)]
#[template(path = "customer/sign_in.html")]
struct SignInPage {
    layout: Layout,
    email: String,
    next: String,
    signed_in: bool,
    errors: Errors,
}

#[derive(Deserialize)]
struct NextQuery {
    #[serde(default)]
    next: String,
}

async fn show(customer: Customer, Query(query): Query<NextQuery>) -> Result<Response, Error> {
    let next = LocalPath::parse_or(&query.next, "/me").to_string();
    let layout = customer.form_layout("Sign in").await?;
    let signed_in = customer.is_signed_in();
    Ok(Page(SignInPage { layout, email: String::new(), next, signed_in, errors: Errors::default() })
        .into_response())
}

#[derive(Deserialize)]
struct SignInForm {
    #[serde(default)]
    email: String,
    #[serde(default)]
    next: String,
}

async fn sign_in(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    VerifiedForm(form): VerifiedForm<SignInForm>,
) -> Result<Response, Error> {
    let next = LocalPath::parse_or(&form.next, "/me").to_string();
    let mut errors = Errors::default();
    let Some(email) = errors.check("email", EmailAddress::parse(&form.email)) else {
        let layout = customer.form_layout("Sign in").await?;
        let signed_in = customer.is_signed_in();
        let page = SignInPage { layout, email: form.email, next, signed_in, errors };
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response());
    };
    state.count(Limit::CodeAddress, address).await?;
    let known = state.db.persons_with_email(&email).await?;
    let person = known.first().map(|person| person.id);
    let question = Question { person, event: None, email: &email, purpose: Purpose::SignIn { next } };
    let code = customer.ask(&state, question).await?;
    Ok(Redirect::to(&format!("/code/{code}")).into_response())
}

/// Even where the session is over already.
async fn sign_out(
    mut customer: Customer,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    customer.sign_out().await?;
    customer.flash(Tone::Done, "You are signed out on this device.").await?;
    Ok(Redirect::to("/"))
}
