//! Events, and the row that is locked first.

use sqlx::PgConnection;

use super::{Db, DbError};
use crate::domain::event::{Event, EventState, ListState};
use crate::domain::ids::{EventId, OrganizationId};

/// Reads a stored word, or says which one this program does not know.
pub(super) fn word<T>(parse: fn(&str) -> Option<T>, what: &'static str, text: &str) -> Result<T, DbError> {
    parse(text).ok_or_else(|| DbError::Unreadable(what, text.to_owned()))
}

/// An event's row.
pub(super) struct EventRow {
    id: uuid::Uuid,
    organization_id: uuid::Uuid,
    slug: String,
    name: String,
    description: String,
    venue: String,
    zone: String,
    starts_at: Option<chrono::DateTime<chrono::Utc>>,
    state: String,
    list_state: String,
    list_opens_at: Option<chrono::DateTime<chrono::Utc>>,
    list_freezes_at: Option<chrono::DateTime<chrono::Utc>>,
    policy_version: i32,
    importing_until: Option<chrono::DateTime<chrono::Utc>>,
    form_version: i32,
    last_pass_at: Option<chrono::DateTime<chrono::Utc>>,
}

impl TryFrom<EventRow> for Event {
    type Error = DbError;

    fn try_from(row: EventRow) -> Result<Self, DbError> {
        Ok(Self {
            id: EventId(row.id),
            organization: OrganizationId(row.organization_id),
            slug: row.slug,
            name: row.name,
            description: row.description,
            venue: row.venue,
            zone: row.zone.parse().map_err(|_| DbError::Unreadable("time zone", row.zone.clone()))?,
            starts_at: row.starts_at,
            state: word(EventState::parse, "event state", &row.state)?,
            list: word(ListState::parse, "list state", &row.list_state)?,
            list_opens_at: row.list_opens_at,
            list_freezes_at: row.list_freezes_at,
            policy_version: row.policy_version,
            importing_until: row.importing_until,
            form_version: row.form_version,
            last_pass_at: row.last_pass_at,
        })
    }
}

/// One SELECT list for every read of an event.
macro_rules! select_event {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            EventRow,
            "SELECT id, organization_id, slug, name, description, venue, zone, starts_at, state, list_state, \
             list_opens_at, list_freezes_at, policy_version, importing_until, form_version, last_pass_at FROM events "
                + $tail,
            $($argument),*
        )
    };
}

/// The first statement of every transaction that writes an event's data. `FOR NO KEY UPDATE`, so that the
/// foreign-key checks of other rows do not wait.
pub(super) async fn lock(connection: &mut PgConnection, id: EventId) -> Result<Event, DbError> {
    select_event!("WHERE id = $1 FOR NO KEY UPDATE", id.0).fetch_one(connection).await?.try_into()
}

impl Db {
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn event(&self, id: EventId) -> Result<Event, DbError> {
        select_event!("WHERE id = $1", id.0).fetch_one(self.pool()).await?.try_into()
    }

    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn event_by_slug(&self, slug: &str) -> Result<Event, DbError> {
        select_event!("WHERE slug = $1", slug).fetch_one(self.pool()).await?.try_into()
    }
}
