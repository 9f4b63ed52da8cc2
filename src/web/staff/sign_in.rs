//! Signing in and out, and the one-time link by which a password is set.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use serde::Deserialize;
use tower_sessions::Session;

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::csrf::{self, NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::headers::NO_REFERRER;
use super::super::limits::Limit;
use super::super::next::LocalPath;
use super::super::page::{self, Errors, Layout, Page, Tone};
use crate::db::staff::StaffMember;
use crate::domain::contact::EmailAddress;
use crate::domain::password::NewPassword;
use crate::domain::secret::token_hash;

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/sign-in", get(show_sign_in).post(sign_in))
        .route("/sign-out", post(sign_out))
        .route("/link/{token}", get(open_link))
        .route("/password", get(show_password).post(set_password))
}

#[derive(Template)]
#[template(path = "staff/sign_in.html")]
struct SignInPage {
    layout: Layout,
    email: String,
    next: String,
    errors: Errors,
}

/// The frame of pages before sign-in.
async fn door(state: &WebState, session: &Session, title: &str) -> Result<Layout, Error> {
    let mut layout = Layout::bare(title, true, state.db.session_now().await?);
    layout.flashes = page::take_flashes(session).await?;
    layout.form_token = csrf::token(session).await?;
    Ok(layout)
}

#[derive(Deserialize)]
struct NextQuery {
    #[serde(default)]
    next: String,
}

async fn show_sign_in(
    State(state): State<WebState>,
    session: Session,
    Query(query): Query<NextQuery>,
) -> Result<Response, Error> {
    let next = LocalPath::parse_or(&query.next, "/staff");
    // A session of an older password would be sent here again at once.
    if super::signed_in(&state, &session).await?.is_some() {
        return Ok(Redirect::to(next.as_str()).into_response());
    }
    let layout = door(&state, &session, "Sign in").await?;
    Ok(Page(SignInPage { layout, email: String::new(), next: next.to_string(), errors: Errors::default() })
        .into_response())
}

#[derive(Deserialize)]
struct SignInForm {
    #[serde(default)]
    email: String,
    #[serde(default)]
    password: String,
    #[serde(default)]
    next: String,
}

/// An unknown address, a wrong password and a member who was removed get the same answer after the same work.
async fn sign_in(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    session: Session,
    VerifiedForm(form): VerifiedForm<SignInForm>,
) -> Result<Response, Error> {
    let email = EmailAddress::parse(&form.email).ok();
    state.count(Limit::SignInAddress, address).await?;
    let account = email.as_ref().map_or(form.email.as_str(), EmailAddress::canonical);
    state.count(Limit::SignInAccount, account).await?;
    let found = match &email {
        Some(email) => state.db.staff_credentials(email).await?,
        None => None,
    };
    let hash = found.as_ref().and_then(|found| found.password_hash.clone());
    let right = state.hasher.verify(form.password, hash).await?;
    let next = LocalPath::parse_or(&form.next, "/staff");
    if let Some(found) = found.filter(|_| right) {
        super::sign_in(&session, found.staff, found.password_version).await?;
        return Ok(Redirect::to(next.as_str()).into_response());
    }
    let mut errors = Errors::default();
    errors.add("", "This address and password do not belong together. Check both and try again.");
    let layout = door(&state, &session, "Sign in").await?;
    let page = SignInPage { layout, email: form.email, next: next.to_string(), errors };
    Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response())
}

/// Even where the session is over already.
async fn sign_out(
    session: Session,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    session.flush().await?;
    Ok(Redirect::to("/staff/sign-in"))
}

/// In the session, from the link to the form: the token's hash, which is no secret.
const LINK: &str = "link";

#[derive(Template)]
#[template(path = "staff/password.html")]
struct PasswordPage {
    layout: Layout,
    name: String,
    email: String,
    errors: Errors,
}

#[derive(Template)]
#[template(path = "staff/link_gone.html")]
struct LinkGonePage {
    layout: Layout,
}

/// Takes the token out of the address before any form is shown. Nothing is used up: programs that look into
/// mails open links, too.
async fn open_link(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    session: Session,
    Path(token): Path<String>,
) -> Result<Response, Error> {
    state.count(Limit::Token, address).await?;
    session.insert(LINK, hex::encode(token_hash(&token))).await?;
    Ok(([NO_REFERRER], Redirect::to("/staff/password")).into_response())
}

async fn linked(state: &WebState, session: &Session) -> Result<Option<([u8; 32], StaffMember)>, Error> {
    let hash: Option<String> = session.get(LINK).await?;
    let Some(hash) = hash.and_then(|hash| hex::decode(hash).ok()).and_then(|hash| hash.try_into().ok())
    else {
        return Ok(None);
    };
    Ok(state.db.staff_by_link(hash).await?.map(|member| (hash, member)))
}

async fn link_gone(state: &WebState, session: &Session) -> Result<Response, Error> {
    let layout = door(state, session, "This link does not work any more").await?;
    Ok((StatusCode::NOT_FOUND, Page(LinkGonePage { layout })).into_response())
}

async fn show_password(State(state): State<WebState>, session: Session) -> Result<Response, Error> {
    let Some((_, member)) = linked(&state, &session).await? else { return link_gone(&state, &session).await };
    let layout =
        door(&state, &session, "Choose a password").await?.of(member.organization, &member.organization_name);
    Ok(Page(PasswordPage { layout, name: member.name, email: member.email, errors: Errors::default() })
        .into_response())
}

#[derive(Deserialize)]
struct PasswordForm {
    #[serde(default)]
    password: String,
    #[serde(default)]
    again: String,
}

async fn set_password(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    session: Session,
    VerifiedForm(form): VerifiedForm<PasswordForm>,
) -> Result<Response, Error> {
    state.count(Limit::SignInAddress, address).await?;
    let Some((hash, member)) = linked(&state, &session).await? else {
        return link_gone(&state, &session).await;
    };
    let mut errors = Errors::default();
    let own = [member.email.as_str(), member.name.as_str(), member.organization_name.as_str()];
    let password = errors.check("password", NewPassword::parse(&form.password, &own));
    if form.password != form.again {
        errors.add("again", "The two are not the same. Type the password once more.");
    }
    let Some(password) = password.filter(|_| errors.is_empty()) else {
        let layout = door(&state, &session, "Choose a password")
            .await?
            .of(member.organization, &member.organization_name);
        let page = PasswordPage { layout, name: member.name, email: member.email, errors };
        return Ok((StatusCode::UNPROCESSABLE_ENTITY, Page(page)).into_response());
    };
    let password = state.hasher.hash(password).await?;
    let Some(set) = state.db.set_password_by_link(hash, &password).await? else {
        return link_gone(&state, &session).await;
    };
    super::sign_in(&session, set.staff, set.password_version).await?;
    page::flash(&session, Tone::Done, "Your password is set, and you are signed in.").await?;
    Ok(Redirect::to("/staff").into_response())
}
