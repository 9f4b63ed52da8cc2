//! Whether anybody can be told, and what holds lost while nobody could be.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::{Db, DbError, LockedEvent};
use crate::domain::ids::OfferId;
use crate::domain::telling::{Loss, MadeUp};

/// Outages of telling, as a pass needs them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outages {
    /// Since when no channel works; none while one does.
    pub down_since: Option<DateTime<Utc>>,
    /// When the last one that is over ended.
    pub last_until: Option<DateTime<Utc>>,
}

/// Which holds are asked about.
#[derive(Clone, Copy, Debug)]
pub enum Holds<'a> {
    /// These.
    These(&'a [OfferId]),
    /// Those that lost at least so much to outages, the last of which ended then; at most so many.
    Behind(Duration, DateTime<Utc>, i64),
}

struct LossRow {
    id: Uuid,
    made_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    since: DateTime<Utc>,
    late_seconds: i32,
    window_seconds: Option<i32>,
    outage: i64,
    untold: bool,
}

impl LockedEvent {
    /// Whether anybody can be told now, and when that last began again.
    ///
    /// # Errors
    /// What the database says.
    pub async fn outages(&mut self) -> Result<Outages, DbError> {
        Ok(sqlx::query_as!(
            Outages,
            "SELECT (SELECT min(since) FROM channels WHERE down) AS down_since,
                    (SELECT max(until) FROM outages) AS last_until"
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// What pending holds lost that is not made up for, where the rule they were made under says to make up for it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn losses(&mut self, holds: Holds<'_>) -> Result<Vec<(OfferId, Loss)>, DbError> {
        let (event, now) = (self.id(), self.now());
        let (ids, least, ended, limit) = match holds {
            Holds::These(ids) => (Some(ids.iter().map(|id| id.0).collect::<Vec<Uuid>>()), 0, None, i64::MAX),
            Holds::Behind(least, ended, limit) => (None, micros(least), Some(ended), limit),
        };
        let rows = sqlx::query_as!(
            LossRow,
            r#"SELECT o.id, o.made_at, o.expires_at, coalesce(o.made_up_until, o.made_at) AS "since!", o.late_seconds,
                      p.window_seconds, lost.micros AS "outage!",
                      coalesce(m.state IN ('queued', 'sending'), false) AS "untold!"
               FROM offers o
               JOIN policies p ON p.event_id = o.event_id AND p.version = o.policy_version AND p.telling = 'extend'
               LEFT JOIN messages m ON m.event_id = o.event_id AND m.occasion = 'offer' AND m.subject_id = o.id
                                   AND m.count = o.reactivations
               CROSS JOIN LATERAL (
                   SELECT coalesce(sum(extract(epoch FROM least(u.until, $2)
                                                   - greatest(u.since, o.made_up_until, o.made_at))) * 1000000, 0)::bigint
                          AS micros
                   FROM (SELECT since, until FROM outages UNION ALL SELECT since, $2 FROM channels WHERE down) u
                   WHERE u.until > coalesce(o.made_up_until, o.made_at) AND u.since < least(o.expires_at, $2)) lost
               WHERE o.event_id = $1 AND o.state = 'pending' AND o.kind = 'hold'
                 AND ($3::uuid[] IS NULL OR o.id = ANY($3))
                 AND ($5::timestamptz IS NULL OR coalesce(o.made_up_until, o.made_at) < $5) AND lost.micros >= $4
               ORDER BY o.expires_at, o.id LIMIT $6"#,
            event.0,
            now,
            ids.as_deref() as Option<&[Uuid]>,
            least,
            ended,
            limit,
        )
        .fetch_all(self.connection())
        .await?;
        Ok(rows.into_iter().map(|row| (OfferId(row.id), Loss::from(row))).collect())
    }

    /// Notes what is made up for from now on; the deadlines themselves are moved as any others are.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_made_up(&mut self, made_up: &[(OfferId, MadeUp)]) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = made_up.iter().map(|(offer, _)| offer.0).collect();
        let late: Vec<i32> = made_up
            .iter()
            .map(|(_, made_up)| i32::try_from(made_up.late.num_seconds()).unwrap_or(i32::MAX))
            .collect();
        let changed = sqlx::query!(
            "UPDATE offers o SET made_up_until = $2, late_seconds = o.late_seconds + c.late
             FROM unnest($3::uuid[], $4::integer[]) AS c(id, late)
             WHERE o.event_id = $1 AND o.id = c.id AND o.state = 'pending'",
            event.0,
            now,
            &ids,
            &late
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, made_up.len(), "offer")
    }
}

impl From<LossRow> for Loss {
    fn from(row: LossRow) -> Self {
        let (late, outage) = (Duration::seconds(row.late_seconds.into()), Duration::microseconds(row.outage));
        // Where the rule has no window, staff gave the offer its own.
        let own = row.expires_at - row.made_at - late;
        Self {
            made_at: row.made_at,
            expires_at: row.expires_at,
            since: row.since,
            outage,
            untold: row.untold,
            most: row.window_seconds.map_or(own, |seconds| Duration::seconds(seconds.into())),
            late,
        }
    }
}

fn micros(duration: Duration) -> i64 {
    duration.num_microseconds().unwrap_or(i64::MAX)
}

impl Db {
    /// Since when nobody can be told; none while somebody can.
    ///
    /// # Errors
    /// What the database says.
    pub async fn down_since(&self) -> Result<Option<DateTime<Utc>>, DbError> {
        Ok(sqlx::query_scalar!("SELECT min(since) FROM channels WHERE down").fetch_one(self.pool()).await?)
    }
}
