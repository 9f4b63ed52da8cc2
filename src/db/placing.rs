//! Whom an entry stands between, and who stands close behind.

use uuid::Uuid;

use super::{DbError, LockedEvent};
use crate::domain::entry::{Entry, OrderKey};
use crate::domain::ids::EntryId;

impl LockedEvent {
    /// Who is number `position - 1` and who is number `position` in the line once `but` is taken out of it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn neighbours(
        &mut self,
        position: i64,
        but: EntryId,
    ) -> Result<(Option<Entry>, Option<Entry>), DbError> {
        let event = self.id();
        let has_one_ahead = position > 1;
        let ids = sqlx::query_scalar!(
            "SELECT id FROM entries WHERE event_id = $1 AND eligible AND id <> $2
             ORDER BY band, round, rank OFFSET $3 LIMIT $4",
            event.0,
            but.0,
            (position - 2).max(0),
            1 + i64::from(has_one_ahead)
        )
        .fetch_all(self.connection())
        .await?;
        let ids: Vec<EntryId> = ids.into_iter().map(EntryId).collect();
        let mut entries = self.entries(&ids).await?;
        entries.sort_unstable_by_key(|entry| entry.key);
        let mut entries = entries.into_iter();
        let ahead = if has_one_ahead { entries.next() } else { None };
        Ok((ahead, entries.next()))
    }

    /// The rank right ahead of a key in its band and round, and the first `limit` from that key on, in order: of all who
    /// are in the line or may come back to it, except `but`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn ranks_around(
        &mut self,
        key: OrderKey,
        but: EntryId,
        limit: i64,
    ) -> Result<(Option<i64>, Vec<(EntryId, i64)>), DbError> {
        let event = self.id();
        let ahead = sqlx::query_scalar!(
            "SELECT max(near.rank) FROM unnest(ARRAY['unconfirmed', 'waiting', 'offered', 'closed']) AS s(state),
                 LATERAL (SELECT rank FROM entries WHERE event_id = $1 AND state = s.state AND band = $2 AND round = $3
                            AND rank < $4 AND id <> $5 ORDER BY rank DESC LIMIT 1) near",
            event.0,
            key.band,
            key.round,
            key.rank,
            but.0
        )
        .fetch_one(self.connection())
        .await?;
        let behind = sqlx::query!(
            r#"SELECT near.id AS "id!: Uuid", near.rank AS "rank!"
               FROM unnest(ARRAY['unconfirmed', 'waiting', 'offered', 'closed']) AS s(state),
                    LATERAL (SELECT id, rank FROM entries WHERE event_id = $1 AND state = s.state AND band = $2
                               AND round = $3 AND rank >= $4 AND id <> $5 ORDER BY rank LIMIT $6) near
               ORDER BY near.rank LIMIT $6"#,
            event.0,
            key.band,
            key.round,
            key.rank,
            but.0,
            limit
        )
        .fetch_all(self.connection())
        .await?;
        Ok((ahead, behind.into_iter().map(|row| (EntryId(row.id), row.rank)).collect()))
    }
}
