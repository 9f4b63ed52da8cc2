//! The customers' pages. A device signs in as the owner of a confirmed contact, by a code; it may be signed in as
//! several persons, one for each organization.

use askama::Template;
use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::StatusCode;
use axum::http::request::Parts;
use axum::response::{IntoResponse, Response};
use chrono::{DateTime, Utc};
use tower_sessions::Session;

use super::error::Error;
use super::next::LocalPath;
use super::page::{self, Layout, Page, Tone};
use super::session::{self, id_hash};
use super::{WebState, csrf};
use crate::db::pages_customer::Organizer;
use crate::domain::ids::PersonId;

mod asked;
pub mod bookings;
pub mod code;
mod complaints;
pub mod entries;
pub mod events;
mod fairness;
pub mod join;
pub mod link;
pub mod me;
pub mod offers;
pub mod sign_in;
mod since;
mod unsubscribe;
mod words;

/// Everything that is not for staff.
pub fn router() -> Router<WebState> {
    Router::new()
        .merge(events::router())
        .merge(fairness::router())
        .merge(join::router())
        .merge(code::router())
        .merge(sign_in::router())
        .merge(me::router())
        .merge(entries::router())
        .merge(complaints::router())
        .merge(bookings::router())
        .merge(link::router())
        .merge(offers::router())
        .merge(unsubscribe::router())
}

/// The page of something that belongs to a person as whom this device is not signed in.
#[derive(Template)]
#[template(path = "customer/not_yours.html")]
struct NotYoursPage {
    layout: Layout,
    /// What it is.
    what: &'static str,
    /// Where to come back to.
    sign_in: String,
}

async fn not_yours(customer: &Customer, what: &'static str, path: &str) -> Result<Response, Error> {
    let layout = customer.layout("This belongs to somebody else").await?;
    let page = NotYoursPage { layout, what, sign_in: format!("/sign-in?{}", LocalPath::query(path)) };
    Ok((StatusCode::FORBIDDEN, Page(page)).into_response())
}

/// Whoever visits a customer's page: nobody in particular, or signed in as one or more persons.
#[derive(Clone, Debug)]
pub struct Customer {
    /// As whom this device is signed in.
    pub persons: Vec<PersonId>,
    /// The instant at which the request is answered.
    pub now: DateTime<Utc>,
    /// The session, for what a flow keeps from one page to the next. Never a secret.
    pub session: Session,
}

impl FromRequestParts<WebState> for Customer {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &WebState) -> Result<Self, Error> {
        let session = super::staff::session_of(parts, state).await?;
        let persons: Vec<PersonId> = session.get(session::PERSONS).await?.unwrap_or_default();
        let now = state.db.session_now().await?;
        if !persons.is_empty()
            && let Some(id) = session.id()
        {
            state.db.touch_session(id_hash(id), session::customer_idle(), now).await?;
        }
        Ok(Self { persons, now, session })
    }
}

impl Customer {
    /// Whether this device is signed in as that person.
    #[must_use]
    pub fn is(&self, person: PersonId) -> bool {
        self.persons.contains(&person)
    }

    /// Whether anybody is signed in.
    #[must_use]
    pub fn is_signed_in(&self) -> bool {
        !self.persons.is_empty()
    }

    /// Signs the device in as `person`, too, under a new session id. At most twenty persons; the oldest go.
    ///
    /// # Errors
    /// When the session cannot be saved.
    pub async fn sign_in(&mut self, person: PersonId) -> Result<(), Error> {
        self.sign_in_as(&[person]).await
    }

    /// The same for several persons at once: an address may be known to several organizations.
    ///
    /// # Errors
    /// When the session cannot be saved.
    pub async fn sign_in_as(&mut self, persons: &[PersonId]) -> Result<(), Error> {
        self.persons.retain(|known| !persons.contains(known));
        self.persons.extend(persons);
        let from = self.persons.len().saturating_sub(20);
        self.persons.drain(..from);
        // What was said and kept before belongs to the same visitor; the old id is worthless from here on.
        self.session.cycle_id().await?;
        self.session.insert(session::PERSONS, &self.persons).await?;
        self.session.save().await?;
        Ok(())
    }

    /// Signs the device out.
    ///
    /// # Errors
    /// When the session cannot be ended.
    pub async fn sign_out(&mut self) -> Result<(), Error> {
        self.persons.clear();
        self.session.flush().await?;
        Ok(())
    }

    /// The frame of a page without forms.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn layout(&self, title: impl Into<String>) -> Result<Layout, Error> {
        let mut layout = Layout::bare("", false, self.now);
        layout.title = title.into();
        layout.menu = true;
        layout.flashes = page::take_flashes(&self.session).await?;
        Ok(layout)
    }

    /// The frame of a page with forms: a visitor without a session gets one.
    ///
    /// # Errors
    /// When the session cannot be saved.
    pub async fn form_layout(&self, title: impl Into<String>) -> Result<Layout, Error> {
        let mut layout = self.layout(title).await?;
        layout.form_token = csrf::token(&self.session).await?;
        Ok(layout)
    }

    /// The frame of a page with forms about an organization's event.
    ///
    /// # Errors
    /// When the session cannot be saved.
    pub async fn layout_of(&self, title: impl Into<String>, organizer: &Organizer) -> Result<Layout, Error> {
        Ok(self.form_layout(title).await?.of(organizer.id, &organizer.name).ask(&organizer.contact))
    }

    /// Says something on the next page.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn flash(&self, tone: Tone, text: impl Into<String>) -> Result<(), Error> {
        page::flash(&self.session, tone, text).await
    }
}
