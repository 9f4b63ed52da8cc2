//! The staff's pages, under `/staff`. Who may do what is said in one place, `domain::role`; a handler asks
//! [`Staff::require`].

use axum::Router;
use axum::extract::FromRequestParts;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};
use tower_sessions::Session;

use super::error::Error;
use super::page::{self, Layout, Section, StaffNav, Tone};
use super::session::{self, id_hash};
use super::{WebState, csrf};
use crate::db::staff::StaffMember;
use crate::domain::audit::Actor;
use crate::domain::event::Event;
use crate::domain::ids::{EventId, StaffId};
use crate::domain::role::Act;

pub mod act;
pub mod attributes;
mod audit;
mod audit_verify;
mod booking_service;
pub mod bookings;
mod calls;
mod complaints;
pub mod diagram;
mod draws;
pub mod entry;
pub mod entry_acts;
pub mod event;
pub mod event_acts;
pub mod export;
pub mod frame;
pub mod hasher;
pub mod history;
mod import;
mod join;
mod keys;
pub mod messages;
pub mod next;
pub mod now;
pub mod offer_acts;
pub mod offers;
mod passes;
pub mod place;
pub mod places;
pub mod policy;
pub mod queue;
pub mod release;
pub mod releases;
pub mod settings;
pub mod sign_in;
pub mod since;
mod webhooks;
pub mod words;

/// Everything under `/staff`.
pub fn router() -> Router<WebState> {
    Router::new()
        .merge(sign_in::router())
        .merge(now::router())
        .merge(event::router())
        .merge(queue::router())
        .merge(join::router())
        .merge(passes::router())
        .merge(import::router())
        .merge(entry::router())
        .merge(complaints::router())
        .merge(entry_acts::router())
        .merge(offers::router())
        .merge(offer_acts::router())
        .merge(release::router())
        .merge(settings::router())
        .merge(booking_service::router())
        .merge(event_acts::router())
        .merge(policy::router())
        .merge(draws::router())
        .merge(calls::router())
        .merge(places::router())
        .merge(attributes::router())
        .merge(place::router())
        .merge(releases::router())
        .merge(bookings::router())
        .merge(audit::router())
        .merge(audit_verify::router())
        .merge(export::router())
        .merge(messages::router())
        .merge(keys::router())
        .merge(webhooks::router())
}

/// In the session, beside who is signed in: a new password ends sessions of the old one.
const PASSWORD: &str = "password_version";

/// Somebody of the staff, signed in. As an argument of a handler it makes the page one for staff.
#[derive(Clone, Debug)]
pub struct Staff {
    /// Who it is.
    pub member: StaffMember,
    /// The instant at which the request is answered.
    pub now: DateTime<Utc>,
    session: Session,
}

impl FromRequestParts<WebState> for Staff {
    type Rejection = Error;

    async fn from_request_parts(parts: &mut Parts, state: &WebState) -> Result<Self, Error> {
        let session = session_of(parts, state).await?;
        let member = signed_in(state, &session).await?.ok_or(Error::SignIn)?;
        let now = state.db.session_now().await?;
        // A page that refreshes itself is not somebody at work.
        if !parts.headers.contains_key("x-refresh")
            && let Some(id) = session.id()
        {
            state.db.touch_session(id_hash(id), state.settings.staff_idle, now).await?;
        }
        Ok(Self { member, now, session })
    }
}

/// Who is signed in. Read with every request: a role that was taken away is gone at once, and so is whoever signed in
/// with an older password.
async fn signed_in(state: &WebState, session: &Session) -> Result<Option<StaffMember>, Error> {
    let Some(id) = session.get::<StaffId>(session::STAFF).await? else { return Ok(None) };
    let version: i32 = session.get(PASSWORD).await?.unwrap_or_default();
    Ok(state.db.staff_member(id).await?.filter(|member| member.password_version == version))
}

/// The session of a request.
pub(super) async fn session_of(parts: &mut Parts, state: &WebState) -> Result<Session, Error> {
    Session::from_request_parts(parts, state).await.map_err(|_| Error::internal("a route without sessions"))
}

impl Staff {
    /// Refuses what this role may not do.
    ///
    /// # Errors
    /// [`Error::Forbidden`].
    pub fn require(&self, act: Act) -> Result<(), Error> {
        if self.may(act) { Ok(()) } else { Err(Error::Forbidden(act)) }
    }

    /// Whether this role may do it: for pages that leave out what would be refused.
    #[must_use]
    pub fn may(&self, act: Act) -> bool {
        self.member.role.may(act)
    }

    /// An event of this person's organization. Those of others are not there.
    ///
    /// # Errors
    /// [`Error::NotFound`], or when the database cannot be asked.
    pub async fn event(&self, state: &WebState, id: EventId) -> Result<Event, Error> {
        let event = state.db.event(id).await?;
        if event.organization == self.member.organization { Ok(event) } else { Err(Error::NotFound) }
    }

    /// This person, for the audit.
    #[must_use]
    pub fn actor(&self) -> Actor {
        Actor::Staff(self.member.id)
    }

    /// The frame of a page in that section, with what the last act did.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn layout(&self, title: impl Into<String>, section: Section) -> Result<Layout, Error> {
        let mut layout =
            Layout::bare("", true, self.now).of(self.member.organization, &self.member.organization_name);
        layout.title = title.into();
        layout.flashes = page::take_flashes(&self.session).await?;
        layout.form_token = csrf::token(&self.session).await?;
        layout.staff = Some(StaffNav { name: self.member.name.clone(), role: self.member.role, section });
        Ok(layout)
    }

    /// Says something on the next page.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn flash(&self, tone: Tone, text: impl Into<String>) -> Result<(), Error> {
        page::flash(&self.session, tone, text).await
    }
}

/// Makes the session one of that person, under a new id: one that was planted before is worthless.
pub(super) async fn sign_in(session: &Session, staff: StaffId, password_version: i32) -> Result<(), Error> {
    session.flush().await?;
    session.insert(session::STAFF, staff).await?;
    session.insert(PASSWORD, password_version).await?;
    session.insert("form", true).await?;
    session.save().await?;
    Ok(())
}
