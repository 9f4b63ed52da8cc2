//! A queue as staff read it: filtered, searched, page by page. The position of every row is its true one, whatever
//! the view: a sum over the live counts and a look into one bucket, never a scan of the list.

use chrono::{DateTime, Utc};
use sqlx::{Postgres, QueryBuilder};
use uuid::Uuid;

use super::events::word;
use super::pages_staff::hindrance;
use super::{Db, DbError};
use crate::domain::contact::EmailAddress;
use crate::domain::entry::{EntryState, Hindrance, OrderKey};
use crate::domain::ids::{EntryId, EventId, OfferId, OrganizationId};

/// Which entries of a list.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum QueueView {
    /// In this state.
    State(EntryState),
    /// In the line, and paused.
    Paused,
    /// In the line, and set aside after a revoked offer.
    SetAside,
    /// In the line, and no contact works.
    ContactProblem,
    /// In whatever state: only together with a search.
    Any,
}

/// From where a page goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Turn {
    /// From the beginning.
    First,
    /// Behind this key.
    After(OrderKey),
    /// Before this key, backwards.
    Before(OrderKey),
}

/// What is looked for.
#[derive(Clone, Debug)]
pub struct QueueFilter {
    /// Which entries.
    pub view: QueueView,
    /// In a name, or at the beginning of an address; empty for everybody.
    pub search: String,
    /// The last of the line first.
    pub backwards: bool,
    /// From where on.
    pub turn: Turn,
    /// Whether positions are looked up: for a page of rows, not for thousands.
    pub positions: bool,
}

/// One row of the queue.
#[derive(Clone, Debug)]
pub struct QueueRow {
    /// The entry.
    pub entry: EntryId,
    /// Whose.
    pub name: String,
    /// Where they are written to.
    pub email: Option<String>,
    /// Where it is in its life.
    pub state: EntryState,
    /// What hinders an offer, while it is in the line.
    pub hindrance: Option<Hindrance>,
    /// How many places.
    pub party: i32,
    /// Since when it is in its state.
    pub since: DateTime<Utc>,
    /// When it joined.
    pub joined_at: DateTime<Utc>,
    /// Its place in the order.
    pub key: OrderKey,
    /// 1 + the eligible ahead, while it is in the line.
    pub position: Option<i64>,
    /// Its live offer and the deadline.
    pub offer: Option<(OfferId, DateTime<Utc>)>,
}

#[derive(sqlx::FromRow)]
struct Row {
    id: Uuid,
    state: String,
    party: i32,
    state_since: DateTime<Utc>,
    joined_at: DateTime<Utc>,
    band: i16,
    round: i32,
    rank: i64,
    paused: Option<String>,
    set_aside: bool,
    contact_problem: bool,
    until_passed: bool,
    name: String,
    email: Option<String>,
    offer_id: Option<Uuid>,
    expires_at: Option<DateTime<Utc>>,
    position: Option<i64>,
}

impl TryFrom<Row> for QueueRow {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        let state = word(EntryState::parse, "entry state", &row.state)?;
        Ok(Self {
            entry: EntryId(row.id),
            name: row.name,
            email: row.email,
            state,
            hindrance: hindrance(
                state,
                row.paused.as_deref(),
                row.set_aside,
                row.contact_problem,
                row.until_passed,
            )?,
            party: row.party,
            since: row.state_since,
            joined_at: row.joined_at,
            key: OrderKey { band: row.band, round: row.round, rank: row.rank },
            position: row.position,
            offer: row.offer_id.map(OfferId).zip(row.expires_at),
        })
    }
}

/// A search as a pattern for LIKE: what is typed is meant as it stands.
pub(super) fn like(text: &str) -> String {
    text.replace('\\', "\\\\").replace('%', "\\%").replace('_', "\\_")
}

fn narrow(query: &mut QueryBuilder<Postgres>, view: QueueView) {
    match view {
        QueueView::State(state) => {
            query.push(" AND e.state = ").push_bind(state.as_str());
        }
        QueueView::Paused => {
            query.push(" AND e.state = 'waiting' AND NOT e.eligible AND e.paused IS NOT NULL");
        }
        QueueView::SetAside => {
            query.push(" AND e.state = 'waiting' AND NOT e.eligible AND e.paused IS NULL AND e.set_aside");
        }
        QueueView::ContactProblem => {
            query.push(
                " AND e.state = 'waiting' AND NOT e.eligible AND e.paused IS NULL AND NOT e.set_aside
                  AND e.contact_problem AND NOT e.offer_anyway",
            );
        }
        QueueView::Any => {}
    }
}

/// Whoever's name holds the text, or whose address begins with it. The address is found by an index; so many names
/// are looked at as the list has entries, and no more than `limit` are found.
fn search(
    query: &mut QueryBuilder<Postgres>,
    event: EventId,
    organization: OrganizationId,
    filter: &QueueFilter,
    limit: i64,
) {
    let text = filter.search.trim();
    let address = EmailAddress::parse(text)
        .map_or_else(|_| text.to_lowercase(), |address| address.canonical().to_owned());
    query
        .push("SELECT id FROM ((SELECT e.id FROM entries e JOIN contacts c ON c.person_id = e.person_id WHERE e.event_id = ")
        .push_bind(event.0)
        .push(" AND c.organization_id = ")
        .push_bind(organization.0)
        .push(" AND c.canonical LIKE ")
        .push_bind(format!("{}%", like(&address)));
    narrow(query, filter.view);
    query
        .push(" LIMIT ")
        .push_bind(limit)
        .push(") UNION (SELECT e.id FROM entries e JOIN persons p ON p.id = e.person_id WHERE e.event_id = ")
        .push_bind(event.0)
        .push(" AND p.name ILIKE ")
        .push_bind(format!("%{}%", like(text)));
    narrow(query, filter.view);
    query.push(" LIMIT ").push_bind(limit).push(")) found");
}

fn page(query: &mut QueryBuilder<Postgres>, event: EventId, filter: &QueueFilter, limit: i64) -> bool {
    query.push("SELECT e.id FROM entries e WHERE e.event_id = ").push_bind(event.0);
    narrow(query, filter.view);
    // Going back reads against the order of the view and turns the rows round.
    let (key, going_back) = match filter.turn {
        Turn::First => (None, false),
        Turn::After(key) => (Some(key), false),
        Turn::Before(key) => (Some(key), true),
    };
    let descending = filter.backwards != going_back;
    if let Some(key) = key {
        query
            .push(" AND (e.band, e.round, e.rank) ")
            .push(if descending { "<" } else { ">" })
            .push(" (")
            .push_bind(key.band)
            .push(", ")
            .push_bind(key.round)
            .push(", ")
            .push_bind(key.rank)
            .push(")");
    }
    query.push(if descending {
        " ORDER BY e.band DESC, e.round DESC, e.rank DESC LIMIT "
    } else {
        " ORDER BY e.band, e.round, e.rank LIMIT "
    });
    query.push_bind(limit);
    going_back
}

impl Db {
    /// A page of a queue, in the order of the line. With a search, the first that match.
    ///
    /// # Errors
    /// What the database says.
    pub async fn queue(
        &self,
        event: EventId,
        organization: OrganizationId,
        filter: &QueueFilter,
        limit: i64,
    ) -> Result<Vec<QueueRow>, DbError> {
        let mut query = QueryBuilder::new(
            "SELECT n.id, n.state, n.party, n.state_since, n.joined_at, n.band, n.round, n.rank, n.paused, n.set_aside,
                    n.contact_problem AND NOT n.offer_anyway AS contact_problem, n.until_passed, w.name, c.value AS email,
                    o.id AS offer_id, o.expires_at,
                    CASE WHEN n.state = 'waiting' AND ",
        );
        query.push_bind(filter.positions).push(
            " THEN 1
                       + coalesce((SELECT sum(k.n) FROM entry_counts k WHERE k.event_id = n.event_id AND k.state = 'waiting'
                             AND k.eligible AND (k.band, k.round, k.bucket) < (n.band, n.round, n.rank >> 30)), 0)::bigint
                       + (SELECT count(*) FROM entries a WHERE a.event_id = n.event_id AND a.eligible AND a.band = n.band
                             AND a.round = n.round AND a.rank >= (n.rank >> 30) << 30 AND a.rank < n.rank) END AS position
             FROM entries n JOIN persons w ON w.id = n.person_id
             LEFT JOIN LATERAL (SELECT value FROM contacts WHERE person_id = n.person_id AND kind = 'email'
                                ORDER BY created_at LIMIT 1) c ON true
             LEFT JOIN offers o ON o.event_id = n.event_id AND o.entry_id = n.id AND o.state IN ('pending', 'accepting')
             WHERE n.event_id = ",
        );
        query.push_bind(event.0).push(" AND n.id IN (");
        let going_back = if filter.search.trim().is_empty() {
            page(&mut query, event, filter, limit)
        } else {
            search(&mut query, event, organization, filter, limit);
            false
        };
        query.push(if filter.backwards {
            ") ORDER BY n.band DESC, n.round DESC, n.rank DESC LIMIT "
        } else {
            ") ORDER BY n.band, n.round, n.rank LIMIT "
        });
        query.push_bind(limit);
        let rows = query.build_query_as::<Row>().fetch_all(self.pool()).await?;
        let mut rows: Vec<QueueRow> =
            rows.into_iter().map(QueueRow::try_from).collect::<Result<_, DbError>>()?;
        // One row more than a page shows says that there are more; going back, it is the first.
        if going_back && i64::try_from(rows.len()).is_ok_and(|found| found == limit) {
            rows.rotate_left(1);
        }
        Ok(rows)
    }
}
