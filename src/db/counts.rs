//! Positions and counts without a scan: sums over the live counts that triggers keep.

use super::events::word;
use super::{Db, DbError};
use crate::domain::entry::{EntryState, OrderKey};
use crate::domain::ids::EventId;

impl Db {
    /// 1 + the eligible entries ahead of `key`: a sum over the live counts and a look into one bucket, whatever
    /// the length of the list.
    ///
    /// # Errors
    /// What the database says.
    pub async fn position(&self, event: EventId, key: OrderKey) -> Result<i64, DbError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT (1 + coalesce((SELECT sum(n) FROM entry_counts WHERE event_id = $1 AND state = 'waiting' AND eligible
                               AND (band, round, bucket) < ($2, $3, $4::bigint >> 30)), 0)
                    + (SELECT count(*) FROM entries WHERE event_id = $1 AND eligible AND band = $2 AND round = $3
                               AND rank >= ($4::bigint >> 30) << 30 AND rank < $4))::bigint AS "position!""#,
            event.0,
            key.band,
            key.round,
            key.rank
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// How many entries are in each state, and how many of the waiting are eligible.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entry_counts(&self, event: EventId) -> Result<EntryCounts, DbError> {
        let rows = sqlx::query!(
            r#"SELECT state, eligible, sum(n)::bigint AS "n!" FROM entry_counts WHERE event_id = $1 GROUP BY 1, 2"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        let mut counts = EntryCounts::default();
        for row in rows {
            let state = word(EntryState::parse, "entry state", &row.state)?;
            counts.by_state.entry(state).and_modify(|n| *n += row.n).or_insert(row.n);
            if row.eligible {
                counts.eligible += row.n;
            }
        }
        Ok(counts)
    }
}

/// How many entries a list has.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EntryCounts {
    /// In each state.
    pub by_state: std::collections::BTreeMap<EntryState, i64>,
    /// Waiting, and nothing hinders an offer.
    pub eligible: i64,
}

impl EntryCounts {
    /// How many are in `state`.
    #[must_use]
    pub fn of(&self, state: EntryState) -> i64 {
        self.by_state.get(&state).copied().unwrap_or(0)
    }

    /// Unconfirmed, waiting or offered: what the list cap counts.
    #[must_use]
    pub fn live(&self) -> i64 {
        EntryState::ALL.iter().filter(|state| state.is_live()).map(|state| self.of(*state)).sum()
    }
}
