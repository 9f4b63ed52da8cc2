//! Who asks: a program with a key of its organization, or a customer's with a token of their own.

use axum::extract::FromRequestParts;
use axum::http::HeaderMap;
use axum::http::header::AUTHORIZATION;
use axum::http::request::Parts;
use chrono::{DateTime, Utc};

use super::problem::{Code, Failed, Refusal};
use crate::db::keys::ApiKey;
use crate::domain::audit::Actor;
use crate::domain::event::{Event, EventState};
use crate::domain::ids::{EventId, OrganizationId, PersonId};
use crate::domain::key::{CUSTOMER_PREFIX, KEY_PREFIX, Scope};
use crate::domain::secret::token_hash;
use crate::web::WebState;
use crate::web::error::Error;

/// Who asks.
#[derive(Clone, Debug)]
pub enum Who {
    /// A program.
    Key(ApiKey),
    /// A customer.
    Person(PersonId, OrganizationId),
}

/// Who asks, and at which instant they are answered.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Who.
    pub who: Who,
    /// The hash of what they showed.
    pub token_hash: [u8; 32],
    /// The instant.
    pub now: DateTime<Utc>,
}

/// What was shown with a request, if anything.
#[must_use]
pub fn shown(headers: &HeaderMap) -> Option<&str> {
    let value = headers.get(AUTHORIZATION)?.to_str().ok()?;
    let (scheme, token) = value.split_once(' ')?;
    scheme.eq_ignore_ascii_case("bearer").then_some(token.trim())
}

impl Caller {
    /// Whose token it is; nobody's when it is not good.
    ///
    /// # Errors
    /// When the database cannot be asked.
    pub async fn of(state: &WebState, token: &str) -> Result<Option<Self>, Error> {
        let (now, token_hash) = (state.db.session_now().await?, token_hash(token));
        let who = if token.starts_with(KEY_PREFIX) {
            state.db.key_shown(token_hash, now).await?.map(Who::Key)
        } else if token.starts_with(CUSTOMER_PREFIX) {
            let whose = state.db.customer_token_shown(token_hash, now).await?;
            whose.map(|(person, organization)| Who::Person(person, organization))
        } else {
            None
        };
        Ok(who.map(|who| Self { who, token_hash, now }))
    }

    /// Whose customer or program it is.
    #[must_use]
    pub fn organization(&self) -> OrganizationId {
        match &self.who {
            Who::Key(key) => key.organization,
            Who::Person(_, organization) => *organization,
        }
    }

    /// A name for them, whatever they show: limits and kept answers go by it, so a customer's new token is no new caller.
    #[must_use]
    pub fn name(&self) -> String {
        match &self.who {
            Who::Key(key) => format!("key {}", key.id),
            Who::Person(person, _) => format!("person {person}"),
        }
    }

    /// For the audit.
    #[must_use]
    pub fn actor(&self) -> Actor {
        match &self.who {
            Who::Key(key) => Actor::Key(key.id),
            Who::Person(person, _) => Actor::Person(*person),
        }
    }

    /// Whether it is a program whose key is good for `scope`.
    #[must_use]
    pub fn may(&self, scope: Scope) -> bool {
        matches!(&self.who, Who::Key(key) if key.scopes.contains(&scope))
    }

    /// Refuses whoever is no program whose key is good for `scope`.
    ///
    /// # Errors
    /// That refusal.
    pub fn require(&self, scope: Scope) -> Result<(), Failed> {
        if self.may(scope) { Ok(()) } else { Err(Refusal::scope(scope).into()) }
    }

    /// Refuses whoever is neither this person nor a program whose key is good for `scope`. What belongs to a customer
    /// of another organization is not there.
    ///
    /// # Errors
    /// That refusal.
    pub fn require_of(
        &self,
        organization: OrganizationId,
        person: PersonId,
        scope: Scope,
    ) -> Result<(), Failed> {
        if organization != self.organization() {
            return Err(Error::NotFound.into());
        }
        match &self.who {
            Who::Key(_) => self.require(scope),
            Who::Person(me, _) if *me == person => Ok(()),
            Who::Person(..) => {
                Err(Refusal::new(Code::NotYours, "This belongs to somebody else. Nothing was done.").into())
            }
        }
    }

    /// An event of this caller's organization, by its id or its name in addresses. A draft is not there for customers.
    ///
    /// # Errors
    /// [`Error::NotFound`], or when the database cannot be asked.
    pub async fn event(&self, state: &WebState, name: &str) -> Result<Event, Failed> {
        let event = find_event(state, name).await?;
        let is_there = event.organization == self.organization()
            && (event.state != EventState::Draft || matches!(self.who, Who::Key(_)));
        if is_there { Ok(event) } else { Err(Error::NotFound.into()) }
    }
}

/// An event by its id or its name in addresses.
///
/// # Errors
/// [`Error::NotFound`], or when the database cannot be asked.
pub async fn find_event(state: &WebState, name: &str) -> Result<Event, Error> {
    Ok(match name.parse::<EventId>() {
        Ok(id) => state.db.event(id).await?,
        Err(_) => state.db.event_by_slug(name).await?,
    })
}

impl FromRequestParts<WebState> for Caller {
    type Rejection = Failed;

    async fn from_request_parts(parts: &mut Parts, _: &WebState) -> Result<Self, Failed> {
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Refusal::unauthorized().into())
    }
}
