//! An event's past as a replay needs it: a few questions, however long it is, and none under the event's lock.

use chrono::{DateTime, Utc};

use super::events::word;
use super::{Db, DbError};
use crate::domain::allocation::OpenPlace;
use crate::domain::audit::StoredRecord;
use crate::domain::draw::{Bytes32, beacon_randomness};
use crate::domain::event::Event;
use crate::domain::ids::{EntryId, EventId, PlaceId};
use crate::domain::offer::{OfferKind, OfferState};
use crate::domain::reason::Reason;
use crate::domain::simulation::{Happening, Past, PastDraw, PastOffer, record};

/// At most so many draws are read: with the secrets of those that were really held.
const DRAWS: i64 = 100;

/// How much there is to replay.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PastSize {
    /// How many ever joined.
    pub people: i64,
    /// How many records the event's audit has.
    pub records: i64,
}

impl Db {
    /// How much there would be to read.
    ///
    /// # Errors
    /// What the database says.
    pub async fn past_size(&self, event: EventId) -> Result<PastSize, DbError> {
        Ok(sqlx::query_as!(
            PastSize,
            r#"SELECT next_arrival - 1 AS "people!", audit_seq AS "records!" FROM events WHERE id = $1"#,
            event.0
        )
        .fetch_one(self.pool())
        .await?)
    }

    /// Everything of an event's past that a rule did not decide, and what the rules in force then made of it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn past(&self, event: &Event, until: DateTime<Utc>) -> Result<Past, DbError> {
        let records = self.happenings(event.id, until).await?;
        let (offers, messages) =
            (self.past_offers(event.id).await?, self.messages_of_offers(event.id).await?);
        let happenings: Vec<Happening> = records
            .iter()
            .filter_map(|stored| Some(Happening { at: stored.at, what: record::what(stored)? }))
            .collect();
        Ok(Past {
            entries: record::as_they_joined(self.all_entries(event.id).await?, &happenings),
            places: self
                .all_places(event.id)
                .await?
                .into_iter()
                .map(|place| {
                    (place.number, OpenPlace { id: place.id, opened_at: place.opened_at, kind: place.kind })
                })
                .collect(),
            happenings,
            offers,
            bookings: self.bookings_by_offers(event.id).await?,
            messages,
            draws: self.past_draws(event.id).await?,
            state: record::event_before(&records).unwrap_or(event.state),
            list: record::list_before(&records).unwrap_or(event.list),
            starts_at: event.starts_at,
            until,
        })
    }

    /// The records of what may have happened without the rule's doing, in order.
    async fn happenings(&self, event: EventId, until: DateTime<Utc>) -> Result<Vec<StoredRecord>, DbError> {
        let rows = sqlx::query!(
            "SELECT seq, at, actor, act, subject, subject_id, from_state, to_state, reason, order_key, policy_version
             FROM audit WHERE event_id = $1 AND at <= $2
               AND (subject = 'event'
                    OR subject = 'entry' AND (act NOT IN ('offered', 'accepted', 'declined', 'expired', 'revoked', 'reactivated')
                                              OR to_state = 'removed' OR act = 'accepted' AND policy_version IS NULL)
                    OR subject = 'wants' AND act = 'party_changed'
                    OR subject = 'place' AND (act IN ('added', 'retired') OR from_state = 'booked' OR act = 'booked' AND from_state = 'open'))
             ORDER BY seq",
            event.0,
            until
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| StoredRecord {
                seq: row.seq,
                at: row.at,
                actor: row.actor,
                actor_id: None,
                act: row.act,
                subject: row.subject,
                subject_id: row.subject_id,
                from_state: row.from_state,
                to_state: row.to_state,
                reason: row.reason,
                entry_id: None,
                order_key: row.order_key,
                policy_version: row.policy_version,
                note_digest: None,
            })
            .collect())
    }

    async fn past_offers(&self, event: EventId) -> Result<Vec<PastOffer>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT entry_id, kind, state, made_at, coalesce(decided_at, ended_at) AS ended_at, end_reason,
                      pass_number IS NOT NULL AS "by_rule!"
               FROM offers WHERE event_id = $1 ORDER BY made_at, pass_number, band, round, rank"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(PastOffer {
                    entry: EntryId(row.entry_id),
                    kind: word(OfferKind::parse, "offer kind", &row.kind)?,
                    state: word(OfferState::parse, "offer state", &row.state)?,
                    made_at: row.made_at,
                    ended_at: row.ended_at,
                    left: row.end_reason.as_deref() == Some(Reason::Left.as_str()),
                    by_rule: row.by_rule,
                })
            })
            .collect()
    }

    async fn bookings_by_offers(&self, event: EventId) -> Result<Vec<(DateTime<Utc>, PlaceId)>, DbError> {
        let rows = sqlx::query!(
            "SELECT booked_at, place_id FROM bookings WHERE event_id = $1 AND offer_id IS NOT NULL ORDER BY booked_at, id",
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (row.booked_at, PlaceId(row.place_id))).collect())
    }

    /// How many messages told people that they were offered places, and what became of the offer.
    async fn messages_of_offers(&self, event: EventId) -> Result<usize, DbError> {
        let count = sqlx::query_scalar!(
            r#"SELECT count(*) AS "n!" FROM messages m JOIN offers o ON o.event_id = m.event_id AND o.id = coalesce((m.facts->>'offer')::uuid, m.subject_id)
               WHERE m.event_id = $1 AND m.occasion IN
                   ('offer', 'call', 'accepted', 'declined', 'lapsed', 'paused_by_silence', 'list_closed', 'revoked')"#,
            event.0
        )
        .fetch_one(self.pool())
        .await?;
        Ok(usize::try_from(count).unwrap_or(0))
    }

    async fn past_draws(&self, event: EventId) -> Result<Vec<PastDraw>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT frozen_at, secret AS "secret!", beacon_proof FROM draws WHERE event_id = $1 AND secret IS NOT NULL
               ORDER BY number LIMIT $2"#,
            event.0,
            DRAWS
        )
        .fetch_all(self.pool())
        .await?;
        let secret = |bytes: Vec<u8>| Bytes32::try_from(bytes);
        rows.into_iter()
            .map(|row| {
                Ok(PastDraw {
                    at: row.frozen_at,
                    secret: secret(row.secret)
                        .map_err(|bytes| DbError::Unreadable("secret of a draw", hex::encode(bytes)))?,
                    beacon: row.beacon_proof.as_deref().map(beacon_randomness),
                })
            })
            .collect()
    }
}
