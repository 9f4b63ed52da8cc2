//! Who is next: the eligible in order, read as far as a pass needs them.

use chrono::{DateTime, Utc};

use super::super::attributes::{OpenKind, columns};
use super::super::{DbError, LockedEvent};
use super::{EntryRow, entries};
use crate::domain::entry::Entry;

/// How far [`LockedEvent::who_could_take`] reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reach {
    /// Whoever has a turn under the rule is in this band or ahead of it.
    pub last_band: i16,
    /// Of each size of party and what it wants, at most so many.
    pub most: i64,
    /// And at most so often as many as the places would do for.
    pub depth: i64,
    /// Parties for whom too few places are open as well: under `strict` they wait, and keep others waiting.
    pub larger_too: bool,
    /// At most so many in all.
    pub limit: i64,
}

impl LockedEvent {
    /// The first `limit` of the eligible in order, whatever they want. `youngest_opened` leaves out whoever declined after
    /// the last place opened, and `last_band` whoever has no turn under the rule: in a lottery, who was not drawn.
    ///
    /// # Errors
    /// What the database says.
    pub async fn head_of_line(
        &mut self,
        limit: i64,
        youngest_opened: DateTime<Utc>,
        last_band: i16,
    ) -> Result<Vec<Entry>, DbError> {
        let event = self.id();
        entries(
            select_entries!(
                "WHERE e.event_id = $1 AND e.eligible AND e.band <= $4 AND (e.declined_at IS NULL OR e.declined_at < $3)
                 ORDER BY e.band, e.round, e.rank LIMIT $2",
                event.0,
                limit,
                youngest_opened,
                last_band
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// The next eligible entries in order that could take some of the open places. The list is read per size of party
    /// and what it wants, so that a long queue of people for whom nothing is open costs index probes, not a scan.
    ///
    /// # Errors
    /// What the database says.
    pub async fn who_could_take(&mut self, open: &[OpenKind], reach: Reach) -> Result<Vec<Entry>, DbError> {
        let event = self.id();
        let (kinds, counts, youngest) = columns(open);
        entries(
            select_entries!(
                "JOIN (SELECT chosen.id FROM wanted_of_open($1, $2, $3, $4) m, LATERAL (
                           SELECT id FROM entries WHERE event_id = $1 AND eligible AND wants = m.wants AND party = m.party
                             AND band <= $5 AND (declined_at IS NULL OR declined_at < m.youngest)
                           ORDER BY band, round, rank LIMIT least($6::bigint, m.open * $7::bigint / m.party + 1)) AS chosen
                       WHERE $8 OR m.party <= m.open) AS next
                   ON next.id = e.id
                 WHERE e.event_id = $1 ORDER BY e.band, e.round, e.rank LIMIT $9",
                event.0,
                &kinds,
                &counts,
                &youngest,
                reach.last_band,
                reach.most,
                reach.depth,
                reach.larger_too,
                reach.limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// How many of the eligible could take some of the open places: counted once for each large call, for staff to see
    /// how far it is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn how_many_could_take(&mut self, open: &[OpenKind]) -> Result<i64, DbError> {
        let event = self.id();
        let (kinds, counts, youngest) = columns(open);
        Ok(sqlx::query_scalar!(
            r#"SELECT coalesce(sum(c.n), 0)::bigint AS "n!" FROM wanted_of_open($1, $2, $3, $4) m, LATERAL (
                   SELECT count(*) AS n FROM entries WHERE event_id = $1 AND eligible AND wants = m.wants AND party = m.party
                     AND (declined_at IS NULL OR declined_at < m.youngest)) AS c
               WHERE m.party <= m.open"#,
            event.0,
            &kinds,
            &counts,
            &youngest
        )
        .fetch_one(self.connection())
        .await?)
    }
}
