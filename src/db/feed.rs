//! The feed: what the audits of an organization's events have for other systems, in one order without a gap.
//!
//! An event's audit is gapless and written under the event's lock, so whoever copies it from a mark on misses nothing and
//! need not lock the event. Copying is one transaction: the numbers, the rows and the marks come together or not at all.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, VecDeque};

use chrono::{DateTime, Utc};
use sqlx::PgConnection;
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, OrganizationId, PlaceId};
use crate::domain::transition::{About, Data, Kind, Step, Transition};
use crate::failpoint;

/// Events copied in one transaction, and records of all of them together: a few hundred milliseconds of work.
const EVENTS_AT_ONCE: usize = 50;
const RECORDS: usize = 5_000;

/// What copying did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Relayed {
    /// So many records were read; not all of them go out.
    pub records: usize,
    /// There is more to copy than one transaction should.
    pub more: bool,
    /// An event is being written to right now: it is still marked as due.
    pub busy: bool,
}

/// Which part of a feed is asked for.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// From the one after this on.
    pub after: i64,
    /// Only of this event.
    pub event: Option<EventId>,
    /// Only of these kinds; of every kind where none is named.
    pub kinds: Vec<Kind>,
}

/// A part of a feed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Part {
    /// In order of position.
    pub transitions: Vec<Transition>,
    /// What to ask after next: nothing that was asked for lies between the last one here and this.
    pub next: i64,
    /// The feed's last position.
    pub last: i64,
}

/// A row of the feed.
struct Row {
    position: i64,
    event_id: Uuid,
    seq: i64,
    kind: String,
    at: DateTime<Utc>,
    act: String,
    reason: String,
    actor: String,
    entry_id: Option<Uuid>,
    offer_id: Option<Uuid>,
    place_id: Option<Uuid>,
    booking_id: Option<Uuid>,
    from_state: Option<String>,
    to_state: Option<String>,
    order_key: Option<String>,
    policy_version: Option<i32>,
    party: Option<i32>,
    expires_at: Option<DateTime<Utc>>,
    reference: Option<String>,
}

impl TryFrom<Row> for Transition {
    type Error = DbError;

    fn try_from(row: Row) -> Result<Self, DbError> {
        Ok(Self {
            kind: word(Kind::parse, "transition", &row.kind)?,
            timestamp: row.at,
            data: Data {
                position: row.position,
                event_id: EventId(row.event_id),
                seq: row.seq,
                act: row.act,
                reason: row.reason,
                actor: row.actor,
                entry_id: row.entry_id.map(EntryId),
                offer_id: row.offer_id.map(OfferId),
                place_id: row.place_id.map(PlaceId),
                booking_id: row.booking_id.map(BookingId),
                from: row.from_state,
                to: row.to_state,
                order_key: row.order_key,
                policy_version: row.policy_version,
                party: row.party,
                expires_at: row.expires_at,
                reference: row.reference,
            },
        })
    }
}

/// A record of the audit, with what is known of its subject.
struct Recorded {
    event_id: Uuid,
    seq: i64,
    at: DateTime<Utc>,
    actor: String,
    act: String,
    subject: String,
    subject_id: Uuid,
    from_state: Option<String>,
    to_state: Option<String>,
    reason: String,
    entry_id: Option<Uuid>,
    order_key: Option<String>,
    policy_version: Option<i32>,
    offer_id: Option<Uuid>,
    place_id: Option<Uuid>,
    party: Option<i32>,
    expires_at: Option<DateTime<Utc>>,
    reference: Option<String>,
}

impl Recorded {
    fn kind(&self) -> Option<Kind> {
        Kind::of(Step {
            act: &self.act,
            subject: &self.subject,
            from: self.from_state.as_deref(),
            to: self.to_state.as_deref(),
        })
    }
}

impl Db {
    /// The organizations of which an event has something that is not in the feed yet.
    ///
    /// # Errors
    /// What the database says.
    pub async fn unfed_organizations(&self) -> Result<Vec<OrganizationId>, DbError> {
        let ids = sqlx::query_scalar!("SELECT DISTINCT organization_id FROM events WHERE NOT fed")
            .fetch_all(self.pool())
            .await?;
        Ok(ids.into_iter().map(OrganizationId).collect())
    }

    /// Copies what an organization's events have recorded since the last time into its feed, as much as one transaction
    /// should. Of several who try at once one does it, and the others go on.
    ///
    /// # Errors
    /// What the database says; then nothing was copied.
    pub async fn relay(&self, organization: OrganizationId) -> Result<Relayed, DbError> {
        let now = self.now().await?;
        let mut tx = self.pool().begin().await?;
        let Some(last) = lock_feed(&mut tx, organization).await? else { return Ok(Relayed::default()) };
        let due = due(&mut tx, organization).await?;
        let each = RECORDS / due.len().max(1);
        let recorded = recorded(&mut tx, &due, each).await?;
        let mut marks: HashMap<Uuid, (i64, usize)> =
            due.iter().map(|(event, seq)| (*event, (*seq, 0))).collect();
        for record in &recorded {
            let mark = marks.entry(record.event_id).or_default();
            *mark = (mark.0.max(record.seq), mark.1 + 1);
        }
        let records = recorded.len();
        let going_out = in_one_order(recorded);
        let added = going_out.len();
        if records > 0 {
            append(&mut tx, organization, last, going_out).await?;
            mark(&mut tx, &marks, now).await?;
        }
        failpoint::reach("feed.written");
        tx.commit().await?;
        failpoint::reach("feed.committed");
        if added > 0 {
            self.hints().fed.notify_waiters();
            self.hints().webhook.notify_one();
        }
        let mut relayed = Relayed { records, more: due.len() >= EVENTS_AT_ONCE, busy: false };
        for (event, (seq, found)) in marks {
            if found >= each {
                relayed.more = true;
            } else {
                relayed.busy |= !self.is_fed(event, seq).await?;
            }
        }
        Ok(relayed)
    }

    /// Marks an event as copied, if it has nothing after `seq`. Its row is looked at under its lock; where somebody has
    /// that, they are about to record something, and it stays due.
    async fn is_fed(&self, event: Uuid, seq: i64) -> Result<bool, DbError> {
        let done = sqlx::query!(
            "UPDATE events SET fed = true WHERE id = (
                 SELECT id FROM events WHERE id = $1 AND audit_seq = $2
                 FOR NO KEY UPDATE SKIP LOCKED)",
            event,
            seq
        )
        .execute(self.pool())
        .await?
        .rows_affected();
        Ok(done == 1)
    }

    /// One transition, by its number in the organization's feed.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn transition(
        &self,
        organization: OrganizationId,
        position: i64,
    ) -> Result<Transition, DbError> {
        sqlx::query_as!(
            Row,
            "SELECT position, event_id, seq, kind, at, act, reason, actor, entry_id, offer_id, place_id, booking_id,
                    from_state, to_state, order_key, policy_version, party, expires_at, reference
             FROM transitions WHERE organization_id = $1 AND position = $2",
            organization.0,
            position
        )
        .fetch_one(self.pool())
        .await?
        .try_into()
    }

    /// A part of an organization's feed: at most `limit`, in order.
    ///
    /// # Errors
    /// What the database says.
    pub async fn transitions(
        &self,
        organization: OrganizationId,
        wanted: &Wanted,
        limit: i64,
    ) -> Result<Part, DbError> {
        // Read before the rows: what is added meanwhile is for the next time.
        let last =
            sqlx::query_scalar!("SELECT last_position FROM feeds WHERE organization_id = $1", organization.0)
                .fetch_optional(self.pool())
                .await?
                .unwrap_or(0);
        if wanted.after >= last {
            return Ok(Part { transitions: Vec::new(), next: wanted.after, last });
        }
        let kinds: Vec<String> = wanted.kinds.iter().map(|kind| kind.as_str().to_owned()).collect();
        let rows = sqlx::query_as!(
            Row,
            "SELECT position, event_id, seq, kind, at, act, reason, actor, entry_id, offer_id, place_id, booking_id,
                    from_state, to_state, order_key, policy_version, party, expires_at, reference
             FROM transitions
             WHERE organization_id = $1 AND position > $2 AND position <= $3 AND ($4::uuid IS NULL OR event_id = $4)
               AND (cardinality($5::text[]) = 0 OR kind = ANY($5))
             ORDER BY position LIMIT $6",
            organization.0,
            wanted.after,
            last,
            wanted.event.map(|event| event.0),
            &kinds,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        let full = i64::try_from(rows.len()).is_ok_and(|found| found >= limit);
        let next = rows.last().filter(|_| full).map_or(last, |row| row.position);
        let transitions = rows.into_iter().map(Transition::try_from).collect::<Result<_, _>>()?;
        Ok(Part { transitions, next, last })
    }
}

/// The feed's last number, locked; none while somebody else has it.
async fn lock_feed(
    connection: &mut PgConnection,
    organization: OrganizationId,
) -> Result<Option<i64>, DbError> {
    let is_there = sqlx::query_scalar!(
        r#"SELECT EXISTS (SELECT FROM feeds WHERE organization_id = $1) AS "there!""#,
        organization.0
    )
    .fetch_one(&mut *connection)
    .await?;
    if !is_there {
        sqlx::query!(
            "INSERT INTO feeds (organization_id) VALUES ($1) ON CONFLICT DO NOTHING",
            organization.0
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(sqlx::query_scalar!(
        "SELECT last_position FROM feeds WHERE organization_id = $1 FOR UPDATE SKIP LOCKED",
        organization.0
    )
    .fetch_optional(connection)
    .await?)
}

/// Events with something to copy, and the record up to which each was: those that waited longest.
async fn due(
    connection: &mut PgConnection,
    organization: OrganizationId,
) -> Result<Vec<(Uuid, i64)>, DbError> {
    let rows = sqlx::query!(
        r#"SELECT e.id, coalesce(m.seq, 0) AS "seq!" FROM events e LEFT JOIN feed_marks m ON m.event_id = e.id
           WHERE e.organization_id = $1 AND NOT e.fed ORDER BY m.at NULLS FIRST, e.id LIMIT $2"#,
        organization.0,
        i64::try_from(EVENTS_AT_ONCE).unwrap_or(i64::MAX)
    )
    .fetch_all(connection)
    .await?;
    Ok(rows.into_iter().map(|row| (row.id, row.seq)).collect())
}

/// The next `each` records of each of these events.
async fn recorded(
    connection: &mut PgConnection,
    due: &[(Uuid, i64)],
    each: usize,
) -> Result<Vec<Recorded>, DbError> {
    let (events, marks): (Vec<Uuid>, Vec<i64>) = due.iter().copied().unzip();
    Ok(sqlx::query_as!(
        Recorded,
        r#"SELECT a.event_id AS "event_id!", a.seq AS "seq!", a.at AS "at!", a.actor AS "actor!", a.act AS "act!",
                  a.subject AS "subject!", a.subject_id AS "subject_id!", a.from_state, a.to_state, a.reason AS "reason!",
                  a.entry_id, a.order_key, a.policy_version, b.offer_id AS "offer_id?", b.place_id AS "place_id?",
                  coalesce(o.party, n.party) AS party, o.expires_at AS "expires_at?", b.reference AS "reference?"
           FROM unnest($1::uuid[], $2::bigint[]) AS due(event_id, seq)
           CROSS JOIN LATERAL (SELECT * FROM audit WHERE audit.event_id = due.event_id AND audit.seq > due.seq
                               ORDER BY audit.seq LIMIT $3) a
           LEFT JOIN offers o ON a.subject = 'offer' AND o.event_id = a.event_id AND o.id = a.subject_id
           LEFT JOIN bookings b ON a.subject = 'booking' AND b.event_id = a.event_id AND b.id = a.subject_id
           LEFT JOIN entries n ON a.subject = 'entry' AND n.event_id = a.event_id AND n.id = a.subject_id
           ORDER BY a.event_id, a.seq"#,
        &events,
        &marks,
        i64::try_from(each).unwrap_or(i64::MAX)
    )
    .fetch_all(connection)
    .await?)
}

/// What goes out, of all events together: by instant as far as each event's own order allows, which no clock can change.
fn in_one_order(recorded: Vec<Recorded>) -> Vec<(Kind, Recorded)> {
    let mut lines: HashMap<Uuid, VecDeque<(Kind, Recorded)>> = HashMap::new();
    for record in recorded {
        if let Some(kind) = record.kind() {
            lines.entry(record.event_id).or_default().push_back((kind, record));
        }
    }
    let head =
        |event: Uuid, line: &VecDeque<(Kind, Recorded)>| line.front().map(|next| Reverse((next.1.at, event)));
    let mut heads: BinaryHeap<_> = lines.iter().filter_map(|(event, line)| head(*event, line)).collect();
    let mut order = Vec::new();
    while let Some(Reverse((_, event))) = heads.pop() {
        if let Some(line) = lines.get_mut(&event) {
            order.extend(line.pop_front());
            heads.extend(head(event, line));
        }
    }
    order
}

/// Columns of new rows, ready for `unnest`.
#[derive(Default)]
struct Columns {
    position: Vec<i64>,
    event: Vec<Uuid>,
    seq: Vec<i64>,
    kind: Vec<String>,
    at: Vec<DateTime<Utc>>,
    act: Vec<String>,
    reason: Vec<String>,
    actor: Vec<String>,
    entry: Vec<Option<Uuid>>,
    offer: Vec<Option<Uuid>>,
    place: Vec<Option<Uuid>>,
    booking: Vec<Option<Uuid>>,
    from: Vec<Option<String>>,
    to: Vec<Option<String>>,
    order_key: Vec<Option<String>>,
    policy_version: Vec<Option<i32>>,
    party: Vec<Option<i32>>,
    expires_at: Vec<Option<DateTime<Utc>>>,
    reference: Vec<Option<String>>,
}

impl Columns {
    fn push(&mut self, position: i64, kind: Kind, record: Recorded) {
        let about = About::of(&record.subject, record.subject_id);
        self.position.push(position);
        self.event.push(record.event_id);
        self.seq.push(record.seq);
        self.kind.push(kind.as_str().to_owned());
        self.at.push(record.at);
        self.act.push(record.act);
        self.reason.push(record.reason);
        self.actor.push(record.actor);
        self.entry.push(about.entry.or(record.entry_id));
        self.offer.push(about.offer.or(record.offer_id));
        self.place.push(about.place.or(record.place_id));
        self.booking.push(about.booking);
        self.from.push(record.from_state);
        self.to.push(record.to_state);
        self.order_key.push(record.order_key);
        self.policy_version.push(record.policy_version);
        self.party.push(record.party);
        self.expires_at.push(record.expires_at);
        self.reference.push(record.reference);
    }
}

async fn append(
    connection: &mut PgConnection,
    organization: OrganizationId,
    mut position: i64,
    going_out: Vec<(Kind, Recorded)>,
) -> Result<(), DbError> {
    let mut columns = Columns::default();
    for (kind, record) in going_out {
        position += 1;
        columns.push(position, kind, record);
    }
    sqlx::query!(
        "INSERT INTO transitions (organization_id, position, event_id, seq, kind, at, act, reason, actor, entry_id, offer_id,
                                  place_id, booking_id, from_state, to_state, order_key, policy_version, party, expires_at,
                                  reference)
         SELECT $1, * FROM unnest($2::bigint[], $3::uuid[], $4::bigint[], $5::text[], $6::timestamptz[], $7::text[],
                                  $8::text[], $9::text[], $10::uuid[], $11::uuid[], $12::uuid[], $13::uuid[], $14::text[],
                                  $15::text[], $16::text[], $17::integer[], $18::integer[], $19::timestamptz[],
                                  $20::text[])",
        organization.0,
        &columns.position,
        &columns.event,
        &columns.seq,
        &columns.kind,
        &columns.at,
        &columns.act,
        &columns.reason,
        &columns.actor,
        &columns.entry as &[Option<Uuid>],
        &columns.offer as &[Option<Uuid>],
        &columns.place as &[Option<Uuid>],
        &columns.booking as &[Option<Uuid>],
        &columns.from as &[Option<String>],
        &columns.to as &[Option<String>],
        &columns.order_key as &[Option<String>],
        &columns.policy_version as &[Option<i32>],
        &columns.party as &[Option<i32>],
        &columns.expires_at as &[Option<DateTime<Utc>>],
        &columns.reference as &[Option<String>],
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!("UPDATE feeds SET last_position = $2 WHERE organization_id = $1", organization.0, position)
        .execute(connection)
        .await?;
    Ok(())
}

/// Notes up to which record each event was copied.
async fn mark(
    connection: &mut PgConnection,
    marks: &HashMap<Uuid, (i64, usize)>,
    now: DateTime<Utc>,
) -> Result<(), DbError> {
    let (events, seqs): (Vec<Uuid>, Vec<i64>) = marks.iter().map(|(event, (seq, _))| (*event, *seq)).unzip();
    sqlx::query!(
        "INSERT INTO feed_marks (event_id, seq, at) SELECT event_id, seq, $3 FROM unnest($1::uuid[], $2::bigint[]) AS m(event_id, seq)
         ON CONFLICT (event_id) DO UPDATE SET seq = excluded.seq, at = excluded.at",
        &events,
        &seqs,
        now
    )
    .execute(connection)
    .await?;
    Ok(())
}
