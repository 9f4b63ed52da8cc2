//! What customers' pages read: each page in one round trip or a few, whatever the length of the lists.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::entry::EntryState;
use crate::domain::event::EventState;
use crate::domain::ids::{EntryId, EventId, OrganizationId, PersonId};

pub mod events;
pub mod mine;
pub mod receipts;

/// Who runs an event, as its pages say.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Organizer {
    /// The id.
    pub id: OrganizationId,
    /// The name.
    pub name: String,
    /// Whom customers may ask; may be empty.
    pub contact: String,
}

/// An event as the pages about one's own places name it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventName {
    /// The id.
    pub id: EventId,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Where it takes place; may be empty.
    pub venue: String,
    /// The zone in which its instants are shown.
    pub zone: chrono_tz::Tz,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    pub state: EventState,
    /// Who runs it.
    pub organizer: Organizer,
}

/// The columns of an [`EventName`]; every query of these pages has them.
struct NameRow {
    event_id: Uuid,
    slug: String,
    event_name: String,
    venue: String,
    zone: String,
    starts_at: Option<DateTime<Utc>>,
    event_state: String,
    organization_id: Uuid,
    organization_name: String,
    contact: String,
}

impl TryFrom<NameRow> for EventName {
    type Error = DbError;

    fn try_from(row: NameRow) -> Result<Self, DbError> {
        Ok(Self {
            id: EventId(row.event_id),
            slug: row.slug,
            name: row.event_name,
            venue: row.venue,
            zone: row.zone.parse().map_err(|_| DbError::Unreadable("time zone", row.zone.clone()))?,
            starts_at: row.starts_at,
            state: word(EventState::parse, "event state", &row.event_state)?,
            organizer: Organizer {
                id: OrganizationId(row.organization_id),
                name: row.organization_name,
                contact: row.contact,
            },
        })
    }
}

/// Takes the columns of an [`EventName`] out of a row.
macro_rules! event_name {
    ($row:expr) => {
        super::EventName::try_from(super::NameRow {
            event_id: $row.event_id,
            slug: $row.slug,
            event_name: $row.event_name,
            venue: $row.venue,
            zone: $row.zone,
            starts_at: $row.starts_at,
            event_state: $row.event_state,
            organization_id: $row.organization_id,
            organization_name: $row.organization_name,
            contact: $row.contact,
        })
    };
}
use event_name;

impl Db {
    /// The persons who have the same address as this one, in whatever organization, themselves included: a device
    /// that proved the address is signed in as all of them.
    ///
    /// # Errors
    /// What the database says.
    pub async fn same_address(&self, person: PersonId) -> Result<Vec<PersonId>, DbError> {
        let ids = sqlx::query_scalar!(
            r#"SELECT DISTINCT c.person_id FROM contacts c JOIN contacts own ON own.canonical = c.canonical
               WHERE own.person_id = $1 AND own.kind = 'email' AND c.kind = 'email' LIMIT 20"#,
            person.0
        )
        .fetch_all(self.pool())
        .await?;
        Ok(ids.into_iter().map(PersonId).collect())
    }

    /// What happened to an entry, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entry_story(&self, event: EventId, entry: EntryId) -> Result<Vec<StoryLine>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT at, actor, act, subject, from_state, to_state, reason FROM (
                   SELECT seq, at, actor, act, subject, from_state, to_state, reason FROM audit
                   WHERE event_id = $1 AND subject_id = $2
                   UNION ALL
                   SELECT seq, at, actor, act, subject, from_state, to_state, reason FROM audit
                   WHERE event_id = $1 AND entry_id = $2 AND subject = 'offer' AND act IN ('deadline_moved', 'reactivated')
               ) lines ORDER BY seq DESC LIMIT 100"#,
            event.0,
            entry.0
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| StoryLine {
                at: row.at.unwrap_or_default(),
                by_staff: row.actor.as_deref() == Some("staff"),
                act: row.act.unwrap_or_default(),
                of_offer: row.subject.as_deref() == Some("offer"),
                from: row.from_state.as_deref().and_then(EntryState::parse),
                to: row.to_state.as_deref().and_then(EntryState::parse),
                reason: row.reason.unwrap_or_default(),
            })
            .collect())
    }
}

/// One line of an entry's story, without names: as the audit has it.
#[derive(Clone, Debug)]
pub struct StoryLine {
    /// When.
    pub at: DateTime<Utc>,
    /// Somebody of the staff did it.
    pub by_staff: bool,
    /// What.
    pub act: String,
    /// It is about the entry's offer, not about the entry itself.
    pub of_offer: bool,
    /// The entry's state before.
    pub from: Option<EntryState>,
    /// The entry's state after.
    pub to: Option<EntryState>,
    /// Why.
    pub reason: String,
}
