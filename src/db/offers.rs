//! Offers: made and moved as sets, never without their record.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::attributes::OpenKind;
use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::OrderKey;
use crate::domain::ids::{EntryId, EventId, OfferId, PersonId, StaffId};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::reason::Reason;

struct OfferRow {
    event_id: Uuid,
    id: Uuid,
    entry_id: Uuid,
    person_id: Uuid,
    kind: String,
    state: String,
    party: i32,
    pass_number: Option<i64>,
    made_by: Option<Uuid>,
    made_reason: String,
    policy_version: i32,
    band: i16,
    round: i32,
    rank: i64,
    made_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    ended_at: Option<DateTime<Utc>>,
    end_reason: Option<String>,
    reactivations: i32,
    tellings: i32,
    stands: bool,
}

impl TryFrom<OfferRow> for Offer {
    type Error = DbError;

    fn try_from(row: OfferRow) -> Result<Self, DbError> {
        Ok(Self {
            event: EventId(row.event_id),
            id: OfferId(row.id),
            entry: EntryId(row.entry_id),
            person: PersonId(row.person_id),
            kind: word(OfferKind::parse, "offer kind", &row.kind)?,
            state: word(OfferState::parse, "offer state", &row.state)?,
            party: row.party,
            pass: row.pass_number,
            made_by: row.made_by.map(StaffId),
            made_reason: Reason::parse(&row.made_reason),
            policy_version: row.policy_version,
            key: OrderKey { band: row.band, round: row.round, rank: row.rank },
            made_at: row.made_at,
            expires_at: row.expires_at,
            ended_at: row.ended_at,
            end_reason: row.end_reason,
            reactivations: row.reactivations,
            tellings: row.tellings,
            stands: row.stands,
        })
    }
}

/// One SELECT list for every read of offers.
macro_rules! select_offers {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            OfferRow,
            "SELECT o.event_id, o.id, o.entry_id, e.person_id, o.kind, o.state, o.party, o.pass_number, o.made_by, o.made_reason, \
             o.policy_version, o.band, o.round, o.rank, o.made_at, o.expires_at, o.ended_at, o.end_reason, \
             o.reactivations, o.tellings, EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id) AS \"stands!\" \
             FROM offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id "
                + $tail,
            $($argument),*
        )
    };
}

fn offers(rows: Vec<OfferRow>) -> Result<Vec<Offer>, DbError> {
    rows.into_iter().map(Offer::try_from).collect()
}

/// An offer to be made; its entry and its places are moved by the caller in the same transaction.
#[derive(Clone, Debug)]
pub struct NewOffer {
    /// Its id.
    pub id: OfferId,
    /// For which entry.
    pub entry: EntryId,
    /// Whether it keeps its places.
    pub kind: OfferKind,
    /// The places of which a call tells opened at or before this.
    pub told_for: Option<DateTime<Utc>>,
    /// How many places.
    pub party: i32,
    /// The entry's order key.
    pub key: OrderKey,
    /// The deadline.
    pub expires_at: DateTime<Utc>,
    /// The hash of the token in its link.
    pub token_hash: [u8; 32],
}

/// A change of one offer, with what the audit says of it.
#[derive(Clone, Debug)]
pub struct OfferMove {
    /// As it was read under the lock.
    pub before: Offer,
    /// Its new state.
    pub to: OfferState,
    /// Its deadline from now on.
    pub expires_at: DateTime<Utc>,
    /// The hash of its token from now on, where it gets a new one: exactly when it is reactivated.
    pub token_hash: Option<[u8; 32]>,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: Act,
    /// Why.
    pub reason: Reason,
    /// In their own words.
    pub note: Option<String>,
}

impl OfferMove {
    /// The offer ends.
    #[must_use]
    pub fn end(before: &Offer, to: OfferState, actor: Actor, act: Act, reason: Reason) -> Self {
        Self {
            expires_at: before.expires_at,
            before: before.clone(),
            to,
            token_hash: None,
            actor,
            act,
            reason,
            note: None,
        }
    }
}

impl LockedEvent {
    /// Makes offers, as one set, each with its record.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `offers_one_live_per_entry` when an entry already has a live offer.
    pub async fn make_offers(
        &mut self,
        new: &[NewOffer],
        pass: Option<i64>,
        policy_version: i32,
        actor: Actor,
        reason: Reason,
        note: Option<&str>,
    ) -> Result<(), DbError> {
        if new.is_empty() {
            return Ok(());
        }
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = new.iter().map(|offer| offer.id.0).collect();
        let entry_ids: Vec<Uuid> = new.iter().map(|offer| offer.entry.0).collect();
        let parties: Vec<i32> = new.iter().map(|offer| offer.party).collect();
        let bands: Vec<i16> = new.iter().map(|offer| offer.key.band).collect();
        let rounds: Vec<i32> = new.iter().map(|offer| offer.key.round).collect();
        let ranks: Vec<i64> = new.iter().map(|offer| offer.key.rank).collect();
        let deadlines: Vec<DateTime<Utc>> = new.iter().map(|offer| offer.expires_at).collect();
        let tokens: Vec<Vec<u8>> = new.iter().map(|offer| offer.token_hash.to_vec()).collect();
        let kinds: Vec<String> = new.iter().map(|offer| offer.kind.to_string()).collect();
        let told_for: Vec<Option<DateTime<Utc>>> = new.iter().map(|offer| offer.told_for).collect();
        sqlx::query!(
            r#"INSERT INTO offers (event_id, state, pass_number, made_by, made_reason, policy_version, made_at,
                                   id, entry_id, party, band, round, rank, expires_at, token_hash, kind, told_for)
               SELECT $1, 'pending', $2, $3, $4, $5, $6, *
               FROM unnest($7::uuid[], $8::uuid[], $9::integer[], $10::smallint[], $11::integer[], $12::bigint[],
                           $13::timestamptz[], $14::bytea[], $15::text[], $16::timestamptz[])"#,
            event.0,
            pass,
            actor.staff().map(|staff| staff.0),
            reason.as_str(),
            policy_version,
            now,
            &ids,
            &entry_ids,
            &parties,
            &bands,
            &rounds,
            &ranks,
            &deadlines,
            &tokens,
            &kinds,
            &told_for as &[Option<DateTime<Utc>>],
        )
        .execute(self.connection())
        .await?;
        for offer in new {
            let mut record = Record::new(now, actor, Act::Offered, Subject::Offer(offer.id), reason)
                .states(None, Some(OfferState::Pending.as_str()))
                .of_entry(offer.entry)
                .by_rule(offer.key, policy_version);
            record.note = note.map(str::to_owned);
            self.record(record);
        }
        Ok(())
    }

    /// Writes changes of offers as one set, each with its record.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when a row is not in the state it was read in: impossible under the lock.
    pub async fn move_offers(&mut self, moves: &[OfferMove]) -> Result<(), DbError> {
        if moves.is_empty() {
            return Ok(());
        }
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = moves.iter().map(|change| change.before.id.0).collect();
        let from: Vec<String> = moves.iter().map(|change| change.before.state.as_str().to_owned()).collect();
        let to: Vec<String> = moves.iter().map(|change| change.to.as_str().to_owned()).collect();
        let deadlines: Vec<DateTime<Utc>> = moves.iter().map(|change| change.expires_at).collect();
        let reasons: Vec<String> = moves.iter().map(|change| change.reason.as_str().to_owned()).collect();
        let tokens: Vec<Option<Vec<u8>>> =
            moves.iter().map(|change| change.token_hash.map(|hash| hash.to_vec())).collect();
        let changed = sqlx::query!(
            r#"UPDATE offers o SET state = c.to_state, expires_at = c.expires_at,
                   ended_at = CASE WHEN c.to_state IN ('pending', 'accepting') THEN NULL ELSE $2::timestamptz END,
                   end_reason = CASE WHEN c.to_state IN ('pending', 'accepting') THEN NULL ELSE c.reason END,
                   decided_at = CASE WHEN c.to_state = 'accepted' AND c.from_state = 'accepting' THEN o.decided_at
                                     WHEN c.to_state IN ('accepted', 'accepting') THEN $2::timestamptz END,
                   made_at = CASE WHEN c.token_hash IS NULL THEN o.made_at ELSE $2::timestamptz END,
                   made_up_until = CASE WHEN c.token_hash IS NULL THEN o.made_up_until END,
                   late_seconds = CASE WHEN c.token_hash IS NULL THEN o.late_seconds ELSE 0 END,
                   reactivations = o.reactivations + (c.token_hash IS NOT NULL)::integer,
                   token_hash = coalesce(c.token_hash, o.token_hash)
               FROM unnest($3::uuid[], $4::text[], $5::text[], $6::timestamptz[], $7::text[], $8::bytea[])
                 AS c(id, from_state, to_state, expires_at, reason, token_hash)
               WHERE o.event_id = $1 AND o.id = c.id AND o.state = c.from_state"#,
            event.0,
            now,
            &ids,
            &from,
            &to,
            &deadlines,
            &reasons,
            &tokens as &[Option<Vec<u8>>],
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, moves.len(), "offer")?;
        for change in moves {
            let mut record =
                Record::new(now, change.actor, change.act, Subject::Offer(change.before.id), change.reason)
                    .states(Some(change.before.state.as_str()), Some(change.to.as_str()))
                    .of_entry(change.before.entry)
                    .by_rule(change.before.key, change.before.policy_version);
            record.note.clone_from(&change.note);
            self.record(record);
        }
        Ok(())
    }

    /// The offers with these ids, in no particular order.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offers(&mut self, ids: &[OfferId]) -> Result<Vec<Offer>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        offers(
            select_offers!("WHERE o.event_id = $1 AND o.id = ANY($2)", event.0, &ids)
                .fetch_all(self.connection())
                .await?,
        )
    }

    /// One offer.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn offer(&mut self, id: OfferId) -> Result<Offer, DbError> {
        self.offers(&[id]).await?.pop().ok_or(DbError::NotFound)
    }

    /// The live offers of these entries.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_offers_of(&mut self, entries: &[EntryId]) -> Result<Vec<Offer>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = entries.iter().map(|id| id.0).collect();
        offers(
            select_offers!(
                "WHERE o.event_id = $1 AND o.entry_id = ANY($2) AND o.state IN ('pending', 'accepting')",
                event.0,
                &ids
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Pending offers whose deadline is at or before `until`, the earliest first; not those whose clock stands still.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offers_due(&mut self, until: DateTime<Utc>, limit: i64) -> Result<Vec<Offer>, DbError> {
        let event = self.id();
        offers(
            select_offers!(
                "WHERE o.event_id = $1 AND o.state = 'pending' AND o.expires_at <= $2
                   AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = $1 AND s.id = o.id
                                     AND (s.starts_at IS NULL OR s.starts_at > $2))
                 ORDER BY o.expires_at, o.id LIMIT $3",
                event.0,
                until,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Every pending offer, in batches.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pending_offers(&mut self, limit: i64) -> Result<Vec<Offer>, DbError> {
        let event = self.id();
        offers(
            select_offers!(
                "WHERE o.event_id = $1 AND o.state = 'pending' ORDER BY o.expires_at, o.id LIMIT $2",
                event.0,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Pending calls that told only of places which are gone by now, where enough are open of what is wanted; the longest
    /// ago told first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn calls_to_tell_again(
        &mut self,
        open: &[OpenKind],
        limit: i64,
    ) -> Result<Vec<Offer>, DbError> {
        let event = self.id();
        let Some(last) = open.iter().map(|kind| kind.oldest).max() else { return Ok(vec![]) };
        let kinds: Vec<i32> = open.iter().map(|kind| kind.kind).collect();
        let counts: Vec<i64> = open.iter().map(|kind| kind.open).collect();
        let oldest: Vec<DateTime<Utc>> = open.iter().map(|kind| kind.oldest).collect();
        offers(
            select_offers!(
                "WHERE o.event_id = $1 AND o.kind = 'call' AND o.state = 'pending' AND o.told_for < $2
                   AND EXISTS (SELECT FROM unnest($4::integer[], $5::bigint[], $6::timestamptz[]) AS k(kind, open, oldest)
                               WHERE e.wants = 0 OR k.kind = ANY((
                                   SELECT w.kinds FROM wants w WHERE w.event_id = $1 AND w.id = e.wants)::integer[])
                               HAVING sum(k.open) >= o.party AND o.told_for < min(k.oldest))
                 ORDER BY o.told_for, o.band, o.round, o.rank LIMIT $3",
                event.0,
                last,
                limit,
                &kinds,
                &counts,
                &oldest
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// How many those are.
    ///
    /// # Errors
    /// What the database says.
    pub async fn how_many_to_tell_again(&mut self, open: &[OpenKind]) -> Result<i64, DbError> {
        let event = self.id();
        let Some(last) = open.iter().map(|kind| kind.oldest).max() else { return Ok(0) };
        let kinds: Vec<i32> = open.iter().map(|kind| kind.kind).collect();
        let counts: Vec<i64> = open.iter().map(|kind| kind.open).collect();
        let oldest: Vec<DateTime<Utc>> = open.iter().map(|kind| kind.oldest).collect();
        Ok(sqlx::query_scalar!(
            r#"SELECT count(*) AS "n!" FROM offers o JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
               WHERE o.event_id = $1 AND o.kind = 'call' AND o.state = 'pending' AND o.told_for < $2
                 AND EXISTS (SELECT FROM unnest($3::integer[], $4::bigint[], $5::timestamptz[]) AS k(kind, open, oldest)
                             WHERE e.wants = 0 OR k.kind = ANY((
                                 SELECT w.kinds FROM wants w WHERE w.event_id = $1 AND w.id = e.wants)::integer[])
                             HAVING sum(k.open) >= o.party AND o.told_for < min(k.oldest))"#,
            event.0,
            last,
            &kinds,
            &counts,
            &oldest
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// These calls are told of again, for places that opened until `told_for`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn tell_again(&mut self, calls: &[Offer], told_for: DateTime<Utc>) -> Result<(), DbError> {
        if calls.is_empty() {
            return Ok(());
        }
        let event = self.id();
        let ids: Vec<Uuid> = calls.iter().map(|call| call.id.0).collect();
        sqlx::query!(
            "UPDATE offers SET told_for = $3, tellings = tellings + 1 WHERE event_id = $1 AND id = ANY($2)",
            event.0,
            &ids,
            told_for
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// How many holds are pending.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pending_holds(&mut self) -> Result<i64, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT count(*) AS "n!" FROM offers
               WHERE event_id = $1 AND state IN ('pending', 'accepting') AND kind = 'hold'"#,
            event.0
        )
        .fetch_one(self.connection())
        .await?)
    }
}

impl Db {
    /// One offer, wherever it is.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn find_offer(&self, id: OfferId) -> Result<Offer, DbError> {
        select_offers!("WHERE o.id = $1", id.0).fetch_one(self.pool()).await?.try_into()
    }

    /// The offer to which a link's token belongs.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when no offer has this token now: altered, foreign or replaced.
    pub async fn find_offer_by_token(&self, token_hash: &[u8; 32]) -> Result<Offer, DbError> {
        select_offers!("WHERE o.token_hash = $1", token_hash.as_slice())
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// The event of an offer: it never changes, so it may be read before the lock.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn event_of_offer(&self, id: OfferId) -> Result<EventId, DbError> {
        Ok(EventId(
            sqlx::query_scalar!("SELECT event_id FROM offers WHERE id = $1", id.0)
                .fetch_one(self.pool())
                .await?,
        ))
    }

    /// The offers of an entry, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offers_of_entry(&self, event: EventId, entry: EntryId) -> Result<Vec<Offer>, DbError> {
        offers(
            select_offers!(
                "WHERE o.event_id = $1 AND o.entry_id = $2 ORDER BY o.made_at DESC LIMIT 100",
                event.0,
                entry.0
            )
            .fetch_all(self.pool())
            .await?,
        )
    }
}
