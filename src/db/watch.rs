//! What operators watch and only the database knows: how much waits, and since when. Every question is answered from an
//! index or from the counts that triggers keep, and counts stop at a bound; nothing reads a list.

use chrono::{DateTime, Duration, Utc};

use super::{Db, DbError};

/// Counting stops here: whoever has so many does not need to know how many exactly.
pub const BOUND: i64 = 10_000;

/// As many lists are named, the longest first; the others are one sum.
pub const LISTS: i64 = 20;

/// Complaints are counted for so long.
pub const LATELY: Duration = Duration::days(7);

/// How things stand.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Watched {
    /// When this was read.
    pub at: DateTime<Utc>,
    /// Offers pending beyond their deadline, whose clock does not stand still; at most [`BOUND`].
    pub overdue_offers: i64,
    /// The deadline of the first of them.
    pub overdue_since: Option<DateTime<Utc>>,
    /// Passes asked for and not run.
    pub passes_requested: i64,
    /// Since when the first of them is asked for.
    pub pass_requested_since: Option<DateTime<Utc>>,
    /// Messages that are to go out now; at most [`BOUND`].
    pub messages_due: i64,
    /// Since when the first of them is.
    pub message_due_since: Option<DateTime<Utc>>,
    /// Messages that will not be tried again by themselves; at most [`BOUND`].
    pub messages_dead: i64,
    /// Since when no mail goes out.
    pub mail_down_since: Option<DateTime<Utc>>,
    /// Booking services that rest after failures: accepts at their events are refused for the moment.
    pub services_resting: i64,
    /// Calls to booking services without a known outcome; at most [`BOUND`].
    pub booking_unknown: i64,
    /// Since when the first of them is.
    pub booking_unknown_since: Option<DateTime<Utc>>,
    /// Those of them that staff are asked to resolve.
    pub booking_for_staff: i64,
    /// Deliveries to webhooks that are to be made now; at most [`BOUND`] for each webhook.
    pub webhooks_due: i64,
    /// Since when the first of them is.
    pub webhook_due_since: Option<DateTime<Utc>>,
    /// Deliveries to webhooks that were given up; at most [`BOUND`] for each webhook.
    pub webhooks_dead: i64,
    /// Webhooks to which nothing is sent any more, because they fail or said that nobody wants it.
    pub webhooks_stopped: i64,
    /// Complaints that wait for an answer; at most [`BOUND`].
    pub complaints_open: i64,
    /// Since when the first of them does.
    pub complaint_open_since: Option<DateTime<Utc>>,
    /// The events of most complaints made within [`LATELY`], by the event's public name in addresses.
    pub complaints: Vec<(String, i64)>,
    /// Our connections that wait for a lock of the database.
    pub lock_waiters: i64,
    /// The longest lists of published events, by the event's public name in addresses.
    pub lists: Vec<(String, i64)>,
    /// How many wait on the other lists.
    pub others: i64,
}

struct Row {
    overdue_offers: i64,
    overdue_since: Option<DateTime<Utc>>,
    passes_requested: i64,
    pass_requested_since: Option<DateTime<Utc>>,
    messages_due: i64,
    message_due_since: Option<DateTime<Utc>>,
    messages_dead: i64,
    mail_down_since: Option<DateTime<Utc>>,
    services_resting: i64,
    booking_unknown: i64,
    booking_unknown_since: Option<DateTime<Utc>>,
    booking_for_staff: i64,
    webhooks_due: i64,
    webhook_due_since: Option<DateTime<Utc>>,
    webhooks_dead: i64,
    webhooks_stopped: i64,
    complaints_open: i64,
    complaint_open_since: Option<DateTime<Utc>>,
    lock_waiters: i64,
}

impl Db {
    /// How things stand now, through the connections that a flood of pages cannot exhaust.
    ///
    /// # Errors
    /// What the database says.
    pub async fn watched(&self) -> Result<Watched, DbError> {
        let at = self.session_now().await?;
        let row = sqlx::query_as!(
            Row,
            r#"WITH overdue AS MATERIALIZED (
                   SELECT o.expires_at FROM offers o
                   WHERE o.state = 'pending' AND o.expires_at <= $1
                     AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id)
                   ORDER BY o.expires_at LIMIT $2),
               due AS MATERIALIZED (
                   SELECT m.next_attempt_at FROM (VALUES (0::smallint), (1::smallint), (2::smallint)) AS u(urgency)
                   CROSS JOIN LATERAL (SELECT next_attempt_at FROM messages
                                       WHERE state = 'queued' AND urgency = u.urgency AND next_attempt_at <= $1
                                       ORDER BY next_attempt_at LIMIT $2) m),
               unknown AS MATERIALIZED (
                   SELECT made_at, staff_asked_at FROM booking_attempts WHERE outcome = 'unresolved'
                   ORDER BY next_try_at LIMIT $2),
               complaining AS MATERIALIZED (
                   SELECT made_at FROM complaints WHERE answered_at IS NULL LIMIT $2),
               hooks AS MATERIALIZED (
                   SELECT w.stopped, d.due, d.since, g.dead FROM webhooks w
                   CROSS JOIN LATERAL (
                       SELECT count(*) AS due, min(next_attempt_at) AS since FROM (
                           SELECT next_attempt_at FROM webhook_deliveries d
                           WHERE d.organization_id = w.organization_id AND d.webhook_id = w.id AND d.state = 'queued'
                             AND d.next_attempt_at <= $1 AND w.stopped IS NULL
                           ORDER BY d.next_attempt_at LIMIT $2) AS due) d
                   CROSS JOIN LATERAL (
                       SELECT count(*) AS dead FROM (
                           SELECT FROM webhook_deliveries d
                           WHERE d.organization_id = w.organization_id AND d.webhook_id = w.id AND d.state = 'dead'
                           LIMIT $2) AS dead) g)
               SELECT (SELECT count(*) FROM overdue) AS "overdue_offers!",
                      (SELECT min(expires_at) FROM overdue) AS overdue_since,
                      (SELECT count(*) FROM pass_requests WHERE requested_at IS NOT NULL) AS "passes_requested!",
                      (SELECT min(requested_at) FROM pass_requests WHERE requested_at IS NOT NULL) AS pass_requested_since,
                      (SELECT least(count(*), $2) FROM due) AS "messages_due!",
                      (SELECT min(next_attempt_at) FROM due) AS message_due_since,
                      (SELECT least(coalesce(sum(n), 0), $2)::bigint FROM organizations o CROSS JOIN LATERAL (
                           SELECT count(*) AS n FROM (SELECT FROM messages m WHERE m.organization_id = o.id
                                                      AND m.state = 'dead' LIMIT $2) AS dead) AS dead) AS "messages_dead!",
                      (SELECT min(since) FROM channels WHERE down) AS mail_down_since,
                      (SELECT count(*) FROM booking_circuits WHERE open_until > $1) AS "services_resting!",
                      (SELECT count(*) FROM unknown) AS "booking_unknown!",
                      (SELECT min(made_at) FROM unknown) AS booking_unknown_since,
                      (SELECT count(staff_asked_at) FROM unknown) AS "booking_for_staff!",
                      (SELECT coalesce(sum(due), 0)::bigint FROM hooks) AS "webhooks_due!",
                      (SELECT min(since) FROM hooks) AS webhook_due_since,
                      (SELECT coalesce(sum(dead), 0)::bigint FROM hooks) AS "webhooks_dead!",
                      (SELECT count(*) FROM hooks WHERE stopped IN ('gone', 'failing')) AS "webhooks_stopped!",
                      (SELECT count(*) FROM complaining) AS "complaints_open!",
                      (SELECT min(made_at) FROM complaining) AS complaint_open_since,
                      (SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = $3
                         AND wait_event_type = 'Lock') AS "lock_waiters!""#,
            at,
            BOUND,
            super::APPLICATION_NAME,
        )
        .fetch_one(self.sessions())
        .await?;
        let mut lists = sqlx::query!(
            r#"WITH waiting AS (
                   SELECT e.slug, sum(c.n)::bigint AS n FROM events e JOIN entry_counts c ON c.event_id = e.id
                   WHERE e.state = 'published' AND c.state = 'waiting' GROUP BY e.id),
               ranked AS (SELECT slug, n, row_number() OVER (ORDER BY n DESC, slug) AS place FROM waiting)
               SELECT CASE WHEN place <= $1 THEN slug END AS slug, sum(n)::bigint AS "waiting!" FROM ranked
               GROUP BY CASE WHEN place <= $1 THEN slug END"#,
            LISTS
        )
        .fetch_all(self.sessions())
        .await?;
        lists.sort_by_key(|list| std::cmp::Reverse(list.waiting));
        let others = lists.iter().filter(|list| list.slug.is_none()).map(|list| list.waiting).sum();
        Ok(Watched {
            at,
            overdue_offers: row.overdue_offers,
            overdue_since: row.overdue_since,
            passes_requested: row.passes_requested,
            pass_requested_since: row.pass_requested_since,
            messages_due: row.messages_due,
            message_due_since: row.message_due_since,
            messages_dead: row.messages_dead,
            mail_down_since: row.mail_down_since,
            services_resting: row.services_resting,
            booking_unknown: row.booking_unknown,
            booking_unknown_since: row.booking_unknown_since,
            booking_for_staff: row.booking_for_staff,
            webhooks_due: row.webhooks_due,
            webhook_due_since: row.webhook_due_since,
            webhooks_dead: row.webhooks_dead,
            webhooks_stopped: row.webhooks_stopped,
            complaints_open: row.complaints_open,
            complaint_open_since: row.complaint_open_since,
            complaints: self.complained_of(at).await?,
            lock_waiters: row.lock_waiters,
            lists: lists.into_iter().filter_map(|list| Some((list.slug?, list.waiting))).collect(),
            others,
        })
    }

    /// Where most complaints were made lately.
    async fn complained_of(&self, at: DateTime<Utc>) -> Result<Vec<(String, i64)>, DbError> {
        let events = sqlx::query!(
            r#"WITH lately AS MATERIALIZED (SELECT event_id FROM complaints WHERE made_at > $1 ORDER BY made_at DESC LIMIT $2)
               SELECT e.slug, count(*) AS "complaints!" FROM lately l JOIN events e ON e.id = l.event_id
               GROUP BY e.slug ORDER BY count(*) DESC, e.slug LIMIT $3"#,
            at - LATELY,
            BOUND,
            LISTS
        )
        .fetch_all(self.sessions())
        .await?;
        Ok(events.into_iter().map(|event| (event.slug, event.complaints)).collect())
    }

    /// The connections of each pool: its name, how many are in use, and how many are idle.
    #[must_use]
    pub fn connections(&self) -> [(&'static str, u32, u32); 3] {
        [("pages", &self.pages), ("workers", &self.workers), ("sessions", &self.sessions)].map(
            |(name, pool)| {
                let idle = u32::try_from(pool.num_idle()).unwrap_or(u32::MAX);
                (name, pool.size().saturating_sub(idle), idle)
            },
        )
    }
}
