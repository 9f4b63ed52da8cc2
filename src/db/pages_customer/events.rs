//! Events as the public sees them.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::super::attributes::{self, OpenKind};
use super::super::events::{Begin, word};
use super::super::{Db, DbError};
use super::{EventName, event_name};
use crate::domain::attribute::{Attribute, Wants};
use crate::domain::event::ListState;
use crate::domain::ids::{EventId, OfferId};
use crate::domain::kinds::Kinds;
use crate::domain::place::PlaceCounts;
use crate::domain::policy::{After, Fit, Ordering, PositionShown, largest_party};
use crate::domain::standing::{Door, DoorFacts};

/// Everything that a page about an event says to whoever comes by.
#[derive(Clone, Debug)]
pub struct EventSheet {
    /// What it is called, and who runs it.
    pub event: EventName,
    /// Free text.
    pub description: String,
    /// What a newcomer finds.
    pub facts: DoorFacts,
    /// Waiting, and nothing hinders an offer.
    pub waiting: i64,
    /// How long an offer lives; none where nothing is offered by itself.
    pub window: Option<Duration>,
    /// When the head of the line wants more places than are open.
    pub fit: Fit,
    /// In which order people are served.
    pub ordering: Ordering,
    /// The largest party.
    pub largest_party: i32,
    /// So many places one person may have.
    pub person_limit: Option<i32>,
    /// What customers are told of their place in the line.
    pub position_shown: PositionShown,
    /// What becomes of an entry that does not answer.
    pub after_expiry: After,
    /// What becomes of an entry that declines.
    pub after_decline: After,
    /// Since when nobody can be told, where the rule waits for that.
    pub down_since: Option<DateTime<Utc>>,
    /// What the event says of its places.
    pub attributes: Vec<Attribute>,
    /// Whether anybody ever wanted some kinds of places rather than others.
    has_wants: bool,
}

impl EventSheet {
    /// What a newcomer finds at `now`.
    #[must_use]
    pub fn door(&self, now: DateTime<Utc>) -> Door {
        Door::of(&self.facts, now)
    }
}

struct SheetRow {
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
    description: String,
    list_state: String,
    list_opens_at: Option<DateTime<Utc>>,
    window_seconds: Option<i32>,
    fit: String,
    ordering: String,
    list_cap: Option<i32>,
    party_limit: Option<i32>,
    person_limit: Option<i32>,
    position_shown: String,
    after_expiry: String,
    after_decline: String,
    open: i64,
    held: i64,
    booked: i64,
    retire: i64,
    live: i64,
    waiting: i64,
    claimed: i64,
    attributes: serde_json::Value,
    has_wants: bool,
    calls: bool,
    held_until: Option<DateTime<Utc>>,
    outside: bool,
    down_since: Option<DateTime<Utc>>,
}

impl TryFrom<SheetRow> for EventSheet {
    type Error = DbError;

    fn try_from(row: SheetRow) -> Result<Self, DbError> {
        let list = word(ListState::parse, "list state", &row.list_state)?;
        let event = event_name!(row)?;
        Ok(Self {
            description: row.description,
            facts: DoorFacts {
                state: event.state,
                starts_at: event.starts_at,
                list,
                list_opens_at: row.list_opens_at,
                passive: row.window_seconds.is_none(),
                calls: row.calls,
                list_cap: row.list_cap,
                live: row.live,
                places: PlaceCounts {
                    open: row.open,
                    held: row.held,
                    booked: row.booked,
                    retire_when_free: row.retire,
                },
                claimed: row.claimed,
                held_until: row.held_until,
                outside: row.outside,
            },
            event,
            waiting: row.waiting,
            window: row.window_seconds.map(|seconds| Duration::seconds(seconds.into())),
            fit: word(Fit::parse, "fit", &row.fit)?,
            ordering: word(Ordering::parse, "ordering", &row.ordering)?,
            largest_party: largest_party(row.party_limit, row.person_limit),
            person_limit: row.person_limit,
            position_shown: word(PositionShown::parse, "position shown", &row.position_shown)?,
            after_expiry: word(After::parse, "after expiry", &row.after_expiry)?,
            after_decline: word(After::parse, "after decline", &row.after_decline)?,
            attributes: attributes::read("attributes of an event", row.attributes)?,
            has_wants: row.has_wants,
            down_since: row.down_since,
        })
    }
}

/// `$1` is the instant of the page. `claimed` asks the same as `somebody_could_take` of the passes does for one
/// event under its lock, and is asked only where a place is open.
macro_rules! select_sheets {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            SheetRow,
            r#"SELECT v.id AS event_id, v.slug, v.name AS event_name, v.venue, v.zone, v.starts_at, v.state AS event_state,
                   g.id AS organization_id, g.name AS organization_name, g.contact, v.description, v.list_state,
                   v.list_opens_at, r.window_seconds, r.fit, r.ordering, r.list_cap, r.party_limit, r.person_limit, r.position_shown, r.after_expiry,
                   r.after_decline, c.open AS "open!", c.held AS "held!", c.booked AS "booked!", c.retire AS "retire!",
                   n.live AS "live!", n.waiting AS "waiting!",
                   v.attributes, v.next_wants > 1 AS "has_wants!",
                   CASE WHEN c.open > 0 AND EXISTS (SELECT FROM entries e WHERE e.event_id = v.id AND e.eligible
                       AND (r.fit = 'strict' OR e.party <= c.open)
                       AND (e.declined_at IS NULL OR e.declined_at < (
                            SELECT max(opened_at) FROM places WHERE event_id = v.id AND state = 'open'))
                       AND (e.wants = 0 OR EXISTS (SELECT FROM wants w, places p
                            WHERE w.event_id = v.id AND w.id = e.wants AND p.event_id = v.id AND p.state = 'open'
                              AND p.kind = ANY(w.kinds)))) THEN c.open ELSE 0 END AS "claimed!",
                   (r.mode = 'notify_all' OR coalesce(r.cutoff <= $1, false)) AS "calls!",
                   (SELECT min(f.expires_at) FROM offers f WHERE f.event_id = v.id AND f.state = 'pending'
                       AND f.kind = 'hold' AND f.expires_at > $1) AS held_until,
                   EXISTS (SELECT FROM booking_services b WHERE b.event_id = v.id) AS "outside!",
                   (SELECT min(since) FROM channels WHERE down AND r.telling = 'extend') AS down_since
               FROM events v
               JOIN organizations g ON g.id = v.organization_id
               JOIN policies r ON r.event_id = v.id AND r.version = v.policy_version
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(n) FILTER (WHERE state = 'open'), 0)::bigint AS open,
                          coalesce(sum(n) FILTER (WHERE state = 'held'), 0)::bigint AS held,
                          coalesce(sum(n) FILTER (WHERE state = 'booked'), 0)::bigint AS booked,
                          coalesce(sum(n) FILTER (WHERE retire_when_free), 0)::bigint AS retire
                   FROM place_counts WHERE event_id = v.id) c
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(n) FILTER (WHERE state IN ('unconfirmed', 'waiting', 'offered')), 0)::bigint AS live,
                          coalesce(sum(n) FILTER (WHERE eligible), 0)::bigint AS waiting
                   FROM entry_counts WHERE event_id = v.id) n "# + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// Public events that have not started, those that start first before, those without a start last.
    ///
    /// # Errors
    /// What the database says.
    pub async fn public_events(
        &self,
        now: DateTime<Utc>,
        limit: i64,
        begin: Begin,
    ) -> Result<Vec<EventSheet>, DbError> {
        let (offset, after) = begin.parts();
        select_sheets!(
            "WHERE v.state = 'published' AND (v.starts_at IS NULL OR v.starts_at > $1)
               AND ($4::uuid IS NULL OR (coalesce(v.starts_at, 'infinity'), v.name, v.id) >
                    (SELECT coalesce(c.starts_at, 'infinity'), c.name, c.id FROM events c WHERE c.id = $4))
             ORDER BY v.starts_at NULLS LAST, v.name, v.id LIMIT $2 OFFSET $3",
            now,
            limit,
            offset,
            after
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(EventSheet::try_from)
        .collect()
    }

    /// How many such events there are.
    ///
    /// # Errors
    /// What the database says.
    pub async fn count_public_events(&self, now: DateTime<Utc>) -> Result<i64, DbError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT count(*) AS "n!" FROM events WHERE state = 'published' AND (starts_at IS NULL OR starts_at > $1)"#,
            now
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// An event that the public may see: anything but a draft.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none of this name.
    pub async fn event_sheet(&self, slug: &str, now: DateTime<Utc>) -> Result<EventSheet, DbError> {
        let row = select_sheets!("WHERE v.slug = $2 AND v.state <> 'draft'", now, slug)
            .fetch_one(self.pool())
            .await?;
        self.with_claims(row.try_into()?).await
    }

    /// The same by its id.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn event_sheet_of(&self, event: EventId, now: DateTime<Utc>) -> Result<EventSheet, DbError> {
        let row = select_sheets!("WHERE v.id = $2", now, event.0).fetch_one(self.pool()).await?;
        self.with_claims(row.try_into()?).await
    }

    /// When the first hold ends, that of this offer aside.
    ///
    /// # Errors
    /// What the database says.
    pub async fn others_held_until(
        &self,
        event: EventId,
        offer: OfferId,
        now: DateTime<Utc>,
    ) -> Result<Option<DateTime<Utc>>, DbError> {
        Ok(sqlx::query_scalar!(
            "SELECT min(expires_at) FROM offers WHERE event_id = $1 AND state = 'pending' AND kind = 'hold'
               AND expires_at > $2 AND id <> $3",
            event.0,
            now,
            offer.0
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// What a newcomer finds who wants this of a place: of all that is open, only what would do.
    ///
    /// # Errors
    /// What the database says.
    pub async fn door_for(
        &self,
        sheet: &EventSheet,
        wants: &Wants,
        now: DateTime<Utc>,
    ) -> Result<Door, DbError> {
        let mut facts = sheet.facts;
        if !wants.0.is_empty() && facts.places.open > 0 {
            let event = sheet.event.id;
            let (open, met) = (self.open_kinds(event).await?, self.kinds_met(event, wants).await?);
            let reserved = if facts.claimed > 0 && sheet.has_wants {
                self.reserved_kinds(event, sheet.fit == Fit::Strict).await?
            } else if facts.claimed > 0 {
                Kinds::ALL
            } else {
                Kinds::NONE
            };
            let open: Vec<OpenKind> = open.into_iter().filter(|kind| met.has(kind.kind)).collect();
            facts.places.open = attributes::count(&open, &Kinds::ALL);
            facts.claimed = attributes::count(&open, &reserved);
        }
        Ok(Door::of(&facts, now))
    }

    /// Where people want kinds of places, the list may have a claim on some of the open ones only.
    async fn with_claims(&self, mut sheet: EventSheet) -> Result<EventSheet, DbError> {
        if sheet.has_wants && sheet.facts.claimed > 0 {
            let reserved = self.reserved_kinds(sheet.event.id, sheet.fit == Fit::Strict).await?;
            let open = self.open_kinds(sheet.event.id).await?;
            let claimed = open.iter().filter(|kind| reserved.has(kind.kind)).map(|kind| kind.open).sum();
            sheet.facts.claimed = claimed;
        }
        Ok(sheet)
    }
}
