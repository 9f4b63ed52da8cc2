//! Events, and the row that is locked first.

use sqlx::PgConnection;

use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::event::{Event, EventSettings, EventState, LargeCall, ListState};
use crate::domain::ids::{EventId, OrganizationId};
use crate::domain::policy::Policy;
use crate::domain::reason::Reason;

/// Reads a stored word, or says which one this program does not know.
pub(super) fn word<T>(parse: fn(&str) -> Option<T>, what: &'static str, text: &str) -> Result<T, DbError> {
    parse(text).ok_or_else(|| DbError::Unreadable(what, text.to_owned()))
}

/// Where a page of events begins.
#[derive(Clone, Copy, Debug)]
pub enum Begin {
    /// After so many.
    Skip(i64),
    /// After this one, wherever it stands now.
    After(EventId),
}

impl Begin {
    pub(super) fn parts(self) -> (i64, Option<uuid::Uuid>) {
        match self {
            Self::Skip(rows) => (rows, None),
            Self::After(event) => (0, Some(event.0)),
        }
    }
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
    reordering: bool,
    final_called_at: Option<chrono::DateTime<chrono::Utc>>,
    call_began_at: Option<chrono::DateTime<chrono::Utc>>,
    call_total: Option<i32>,
    call_told: Option<i32>,
    call_ended_at: Option<chrono::DateTime<chrono::Utc>>,
    form_version: i32,
    last_pass_at: Option<chrono::DateTime<chrono::Utc>>,
    attributes: serde_json::Value,
    has_wants: bool,
    outside: bool,
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
            reordering: row.reordering,
            final_called_at: row.final_called_at,
            large_call: row.call_began_at.zip(row.call_total).zip(row.call_told).map(
                |((began_at, total), told)| LargeCall { began_at, total, told, ended_at: row.call_ended_at },
            ),
            form_version: row.form_version,
            last_pass_at: row.last_pass_at,
            attributes: super::attributes::read("attributes of an event", row.attributes)?,
            has_wants: row.has_wants,
            outside: row.outside,
        })
    }
}

/// One SELECT list for every read of an event.
macro_rules! select_event {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            EventRow,
            "SELECT id, organization_id, slug, name, description, venue, zone, starts_at, state, list_state, \
             list_opens_at, list_freezes_at, policy_version, importing_until, reordering, final_called_at, \
             call_began_at, call_total, call_told, call_ended_at, form_version, last_pass_at, \
             attributes, next_wants > 1 AS \"has_wants!\", \
             EXISTS (SELECT FROM booking_services b WHERE b.event_id = events.id) AS \"outside!\" FROM events "
                + $tail,
            $($argument),*
        )
    };
}

/// The first statement of every transaction that writes an event's data. `FOR NO KEY UPDATE`, so that the
/// foreign-key checks of other rows do not wait.
pub(super) async fn lock(connection: &mut PgConnection, id: EventId) -> Result<Event, DbError> {
    #[cfg(feature = "testing")]
    if super::locked_event::lock_is_off() {
        return select_event!("WHERE id = $1", id.0).fetch_one(connection).await?.try_into();
    }
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

/// What an event is made of.
#[derive(Clone, Debug)]
pub struct NewEvent {
    /// Who runs it.
    pub organization: OrganizationId,
    /// Its name in addresses; unique.
    pub slug: String,
    /// The settings.
    pub settings: EventSettings,
}

impl LockedEvent {
    /// Writes the event's state; the caller records why.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_event_state(&mut self, to: EventState) -> Result<(), DbError> {
        let (event, from) = (self.id(), self.event().state);
        let changed = sqlx::query!(
            "UPDATE events SET state = $2 WHERE id = $1 AND state = $3",
            event.0,
            to.as_str(),
            from.as_str()
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, 1, "event")?;
        self.event_mut().state = to;
        Ok(())
    }

    /// Writes the list's state; the caller records why.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_list_state(&mut self, to: ListState) -> Result<(), DbError> {
        let (event, from) = (self.id(), self.event().list);
        let changed = sqlx::query!(
            "UPDATE events SET list_state = $2 WHERE id = $1 AND list_state = $3",
            event.0,
            to.as_str(),
            from.as_str()
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, 1, "list")?;
        self.event_mut().list = to;
        Ok(())
    }

    /// Writes how far a call is that takes more than one pass.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_large_call(&mut self, call: LargeCall) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            "UPDATE events SET call_began_at = $2, call_total = $3, call_told = $4, call_ended_at = $5 WHERE id = $1",
            event.0,
            call.began_at,
            call.total,
            call.told,
            call.ended_at
        )
        .execute(self.connection())
        .await?;
        self.event_mut().large_call = Some(call);
        Ok(())
    }

    /// Writes when the list opens and freezes by itself.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_list_schedule(
        &mut self,
        opens_at: Option<chrono::DateTime<chrono::Utc>>,
        freezes_at: Option<chrono::DateTime<chrono::Utc>>,
    ) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            "UPDATE events SET list_opens_at = $2, list_freezes_at = $3 WHERE id = $1",
            event.0,
            opens_at,
            freezes_at
        )
        .execute(self.connection())
        .await?;
        let row = self.event_mut();
        row.list_opens_at = opens_at;
        row.list_freezes_at = freezes_at;
        Ok(())
    }

    /// Writes the settings and counts the form's version up, so that a stale form is noticed.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_settings(&mut self, settings: &EventSettings) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            "UPDATE events SET name = $2, description = $3, venue = $4, zone = $5, starts_at = $6, list_opens_at = $7,
                 list_freezes_at = $8, form_version = form_version + 1 WHERE id = $1",
            event.0,
            settings.name,
            settings.description,
            settings.venue,
            settings.zone.name(),
            settings.starts_at,
            settings.list_opens_at,
            settings.list_freezes_at
        )
        .execute(self.connection())
        .await?;
        let row = self.event_mut();
        row.name.clone_from(&settings.name);
        row.description.clone_from(&settings.description);
        row.venue.clone_from(&settings.venue);
        row.zone = settings.zone;
        row.starts_at = settings.starts_at;
        row.list_opens_at = settings.list_opens_at;
        row.list_freezes_at = settings.list_freezes_at;
        row.form_version += 1;
        Ok(())
    }

    /// Counts the form's version up without other changes (the rule was changed).
    ///
    /// # Errors
    /// What the database says.
    pub async fn touch_form(&mut self) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!("UPDATE events SET form_version = form_version + 1 WHERE id = $1", event.0)
            .execute(self.connection())
            .await?;
        self.event_mut().form_version += 1;
        Ok(())
    }
}

impl Db {
    /// Makes a draft event with its first rule: the row that everything else locks.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `events_slug_key` when the address is taken.
    pub async fn add_event(&self, new: &NewEvent, policy: &Policy, actor: Actor) -> Result<EventId, DbError> {
        let now = self.now().await?;
        let id = EventId(self.entropy().id());
        let settings = &new.settings;
        let mut tx = self.pool().begin().await?;
        if let Some(made) = super::idempotency::done_before(&mut tx).await? {
            return Ok(made);
        }
        sqlx::query!(
            "INSERT INTO events (id, organization_id, slug, name, description, venue, zone, starts_at, state, list_state,
                                 list_opens_at, list_freezes_at, policy_version, created_at, rule_due_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, 'draft', 'open', $9, $10, $11, $12, $13)",
            id.0,
            new.organization.0,
            new.slug,
            settings.name,
            settings.description,
            settings.venue,
            settings.zone.name(),
            settings.starts_at,
            settings.list_opens_at,
            settings.list_freezes_at,
            policy.version,
            now,
            policy.due_after(now)
        )
        .execute(&mut *tx)
        .await?;
        super::policies::insert(&mut tx, id, policy, actor.staff().map(|staff| staff.0), now).await?;
        let record = Record::new(now, actor, Act::Created, Subject::Event(id), Reason::SetUp)
            .states(None, Some(EventState::Draft.as_str()));
        super::audit::append(&mut tx, id, &[record], self.entropy()).await?;
        super::idempotency::remember(&mut tx, &id).await?;
        tx.commit().await?;
        Ok(id)
    }
}
