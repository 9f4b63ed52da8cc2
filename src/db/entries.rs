//! Entries: read in order, written as sets, never without their record.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::contact::EmailAddress;
use crate::domain::entry::{Entry, EntrySource, EntryState, OrderKey, PausedBy};
use crate::domain::ids::{EntryId, EventId, PersonId};
use crate::domain::kinds::Kinds;
use crate::domain::reason::Reason;

#[expect(clippy::struct_excessive_bools, reason = "one field a column")]
struct EntryRow {
    event_id: Uuid,
    id: Uuid,
    person_id: Uuid,
    state: String,
    arrival: i64,
    band: i16,
    round: i32,
    rank: i64,
    line_rank: Option<i64>,
    party: i32,
    wants: i32,
    kinds: Option<Vec<i32>>,
    joined_at: DateTime<Utc>,
    confirmed_at: Option<DateTime<Utc>>,
    vouched: bool,
    lapses_at: Option<DateTime<Utc>>,
    paused: Option<String>,
    paused_until: Option<DateTime<Utc>>,
    contact_problem: bool,
    offer_anyway: bool,
    set_aside: bool,
    until_passed: bool,
    silent_offers: i32,
    declined_at: Option<DateTime<Utc>>,
    eligible: bool,
    state_since: DateTime<Utc>,
}

impl TryFrom<EntryRow> for Entry {
    type Error = DbError;

    fn try_from(row: EntryRow) -> Result<Self, DbError> {
        Ok(Self {
            event: EventId(row.event_id),
            id: EntryId(row.id),
            person: PersonId(row.person_id),
            state: word(EntryState::parse, "entry state", &row.state)?,
            arrival: row.arrival,
            key: OrderKey { band: row.band, round: row.round, rank: row.rank },
            line_rank: row.line_rank,
            party: row.party,
            wants: row.wants,
            kinds: row.kinds.map_or(Kinds::ALL, Kinds::from_iter),
            joined_at: row.joined_at,
            confirmed_at: row.confirmed_at,
            vouched: row.vouched,
            lapses_at: row.lapses_at,
            paused: row.paused.as_deref().map(|by| word(PausedBy::parse, "pause", by)).transpose()?,
            paused_until: row.paused_until,
            contact_problem: row.contact_problem,
            offer_anyway: row.offer_anyway,
            set_aside: row.set_aside,
            until_passed: row.until_passed,
            silent_offers: row.silent_offers,
            declined_at: row.declined_at,
            eligible: row.eligible,
            state_since: row.state_since,
        })
    }
}

/// One SELECT list for every read of entries.
macro_rules! select_entries {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            EntryRow,
            "SELECT e.event_id, e.id, e.person_id, e.state, e.arrival, e.band, e.round, e.rank, e.line_rank, e.party, e.wants, \
             CASE WHEN e.wants <> 0 THEN (SELECT w.kinds FROM wants w WHERE w.event_id = e.event_id AND w.id = e.wants) END AS kinds, \
             e.joined_at, e.confirmed_at, e.vouched, e.lapses_at, e.paused, e.paused_until, e.contact_problem, e.offer_anyway, \
             e.set_aside, e.until_passed, e.silent_offers, e.declined_at, e.eligible, e.state_since FROM entries e "
                + $tail,
            $($argument),*
        )
    };
}

mod next;
pub use next::Reach;

fn entries(rows: Vec<EntryRow>) -> Result<Vec<Entry>, DbError> {
    rows.into_iter().map(Entry::try_from).collect()
}

/// An entry to be added at the end of the line.
#[derive(Clone, Debug)]
pub struct NewEntry {
    /// Its id.
    pub id: EntryId,
    /// Whose it is.
    pub person: PersonId,
    /// Unconfirmed or waiting.
    pub state: EntryState,
    /// How many places it wants.
    pub party: i32,
    /// The number of what it wants of a place.
    pub wants: i32,
    /// How it came to be.
    pub source: EntrySource,
    /// When its contact was confirmed, if it was.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// Somebody answers for the contact.
    pub vouched: bool,
    /// When it lapses; exactly when it is unconfirmed.
    pub lapses_at: Option<DateTime<Utc>>,
    /// Who put it on the list.
    pub actor: Actor,
    /// Why.
    pub reason: Reason,
}

/// A change of one entry, with what the audit says of it.
#[derive(Clone, Debug)]
pub struct EntryMove {
    /// As it was read under the lock.
    pub before: Entry,
    /// As it shall be.
    pub after: Entry,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: Act,
    /// Why.
    pub reason: Reason,
    /// In their own words.
    pub note: Option<String>,
    /// The version of the rule that decided.
    pub policy_version: Option<i32>,
}

impl EntryMove {
    /// What the audit says of the change itself.
    fn record(&self, now: DateTime<Utc>) -> Record {
        let id = self.before.id;
        // What is asked for, before and after: the same states would tell nothing.
        let asked = match self.act {
            Act::WantsChanged => Some((self.before.wants, self.after.wants)),
            Act::PartyChanged => Some((self.before.party, self.after.party)),
            _ => None,
        };
        let subject = if asked.is_some() { Subject::Wants(id) } else { Subject::Entry(id) };
        let mut record = Record::new(now, self.actor, self.act, subject, self.reason)
            .states(Some(self.before.state.as_str()), Some(self.after.state.as_str()));
        if let Some((from, to)) = asked {
            record.entry = Some(id);
            record.from = Some(from.to_string().into());
            record.to = Some(to.to_string().into());
        }
        record.order_key = Some(self.after.key);
        record.policy_version = self.policy_version;
        record.note.clone_from(&self.note);
        record
    }

    /// What hinders the entry from now on although the act itself does not say so: without a record of its own,
    /// nobody could tell from the audit why the entry is passed over.
    fn side_effects(&self) -> impl Iterator<Item = (Act, Reason)> {
        let silent = self.act != Act::Paused && self.before.paused.is_none() && self.after.paused.is_some();
        let set_aside = !self.before.set_aside && self.after.set_aside;
        let silent = silent.then_some((Act::Paused, Reason::Silent));
        silent.into_iter().chain(set_aside.then_some((Act::SetAside, self.reason)))
    }
}

impl LockedEvent {
    /// Adds entries at the end of the line, in this order: arrival numbers without gaps.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `entries_one_live_per_person` when a person already has a live entry.
    pub async fn add_entries(&mut self, new: &[NewEntry]) -> Result<Vec<Entry>, DbError> {
        if new.is_empty() {
            return Ok(vec![]);
        }
        let count = i64::try_from(new.len()).unwrap_or(i64::MAX);
        let (event, now) = (self.id(), self.now());
        let next = sqlx::query!(
            r#"UPDATE events SET next_arrival = next_arrival + $2, next_rank = next_rank + $2 WHERE id = $1
               RETURNING next_arrival - $2 AS "arrival!", next_rank - $2 AS "rank!""#,
            event.0,
            count
        )
        .fetch_one(self.connection())
        .await?;
        let ids: Vec<Uuid> = new.iter().map(|entry| entry.id.0).collect();
        let persons: Vec<Uuid> = new.iter().map(|entry| entry.person.0).collect();
        let states: Vec<String> = new.iter().map(|entry| entry.state.as_str().to_owned()).collect();
        let parties: Vec<i32> = new.iter().map(|entry| entry.party).collect();
        let wants: Vec<i32> = new.iter().map(|entry| entry.wants).collect();
        let sources: Vec<String> = new.iter().map(|entry| entry.source.as_str().to_owned()).collect();
        let confirmed: Vec<Option<DateTime<Utc>>> = new.iter().map(|entry| entry.confirmed_at).collect();
        let vouched: Vec<bool> = new.iter().map(|entry| entry.vouched).collect();
        let lapses: Vec<Option<DateTime<Utc>>> = new.iter().map(|entry| entry.lapses_at).collect();
        let arrivals: Vec<i64> = (next.arrival..next.arrival + count).collect();
        let ranks: Vec<i64> = (next.rank..next.rank + count).map(OrderKey::rank_of).collect();
        sqlx::query!(
            r#"INSERT INTO entries (event_id, joined_at, state_since, id, person_id, state, party, source, confirmed_at,
                                    vouched, lapses_at, arrival, rank, wants)
               SELECT $1, $2, $2, * FROM unnest($3::uuid[], $4::uuid[], $5::text[], $6::integer[], $7::text[],
                   $8::timestamptz[], $9::boolean[], $10::timestamptz[], $11::bigint[], $12::bigint[], $13::integer[])"#,
            event.0,
            now,
            &ids,
            &persons,
            &states,
            &parties,
            &sources,
            &confirmed as &[Option<DateTime<Utc>>],
            &vouched,
            &lapses as &[Option<DateTime<Utc>>],
            &arrivals,
            &ranks,
            &wants,
        )
        .execute(self.connection())
        .await?;
        for (entry, rank) in new.iter().zip(&ranks) {
            let mut record =
                Record::new(now, entry.actor, Act::Joined, Subject::Entry(entry.id), entry.reason)
                    .states(None, Some(entry.state.as_str()));
            record.order_key = Some(OrderKey { band: 0, round: 0, rank: *rank });
            self.record(record);
        }
        self.entries(&new.iter().map(|entry| entry.id).collect::<Vec<_>>()).await
    }

    /// Fresh ranks at the end of the line: the first of `count`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn ranks_at_end(&mut self, count: usize) -> Result<Vec<i64>, DbError> {
        if count == 0 {
            return Ok(vec![]);
        }
        let (event, count) = (self.id(), i64::try_from(count).unwrap_or(i64::MAX));
        let first = sqlx::query_scalar!(
            r#"UPDATE events SET next_rank = next_rank + $2 WHERE id = $1 RETURNING next_rank - $2 AS "rank!""#,
            event.0,
            count
        )
        .fetch_one(self.connection())
        .await?;
        Ok((first..first + count).map(OrderKey::rank_of).collect())
    }

    /// Writes changes of entries as one set, each with its record.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when a row is not in the state it was read in: impossible under the lock.
    pub async fn move_entries(&mut self, moves: &[EntryMove]) -> Result<(), DbError> {
        if moves.is_empty() {
            return Ok(());
        }
        let (event, now) = (self.id(), self.now());
        let after = |pick: fn(&Entry) -> Option<DateTime<Utc>>| -> Vec<Option<DateTime<Utc>>> {
            moves.iter().map(|change| pick(&change.after)).collect()
        };
        let flag = |pick: fn(&Entry) -> bool| -> Vec<bool> {
            moves.iter().map(|change| pick(&change.after)).collect()
        };
        let ids: Vec<Uuid> = moves.iter().map(|change| change.before.id.0).collect();
        let from: Vec<String> = moves.iter().map(|change| change.before.state.as_str().to_owned()).collect();
        let to: Vec<String> = moves.iter().map(|change| change.after.state.as_str().to_owned()).collect();
        let bands: Vec<i16> = moves.iter().map(|change| change.after.key.band).collect();
        let rounds: Vec<i32> = moves.iter().map(|change| change.after.key.round).collect();
        let ranks: Vec<i64> = moves.iter().map(|change| change.after.key.rank).collect();
        let line_ranks: Vec<Option<i64>> = moves.iter().map(|change| change.after.line_rank).collect();
        let parties: Vec<i32> = moves.iter().map(|change| change.after.party).collect();
        let wants: Vec<i32> = moves.iter().map(|change| change.after.wants).collect();
        let paused: Vec<Option<String>> =
            moves.iter().map(|change| change.after.paused.map(|by| by.as_str().to_owned())).collect();
        let silent: Vec<i32> = moves.iter().map(|change| change.after.silent_offers).collect();
        // An entry that its event closes remembers what it was, and forgets it when reopened.
        let closed_from: Vec<Option<String>> = moves
            .iter()
            .map(|change| {
                (change.after.state == EntryState::Closed).then(|| {
                    let was = change.before.state;
                    let was = if was == EntryState::Offered { EntryState::Waiting } else { was };
                    was.as_str().to_owned()
                })
            })
            .collect();
        let changed = sqlx::query!(
            r#"UPDATE entries e SET state = c.to_state, band = c.band, round = c.round, rank = c.rank, party = c.party,
                   confirmed_at = c.confirmed_at, vouched = c.vouched, lapses_at = c.lapses_at, paused = c.paused,
                   paused_until = c.paused_until, contact_problem = c.contact_problem, offer_anyway = c.offer_anyway,
                   set_aside = c.set_aside, until_passed = c.until_passed, silent_offers = c.silent_offers,
                   declined_at = c.declined_at, closed_from = c.closed_from, line_rank = c.line_rank, wants = c.wants,
                   state_since = CASE WHEN e.state = c.to_state THEN e.state_since ELSE $2 END
               FROM unnest($3::uuid[], $4::text[], $5::text[], $6::smallint[], $7::integer[], $8::bigint[], $9::integer[],
                   $10::timestamptz[], $11::boolean[], $12::timestamptz[], $13::text[], $14::timestamptz[],
                   $15::boolean[], $16::boolean[], $17::boolean[], $18::boolean[], $19::integer[], $20::timestamptz[],
                   $21::text[], $22::bigint[], $23::integer[])
                 AS c(id, from_state, to_state, band, round, rank, party, confirmed_at, vouched, lapses_at, paused,
                      paused_until, contact_problem, offer_anyway, set_aside, until_passed, silent_offers, declined_at,
                      closed_from, line_rank, wants)
               WHERE e.event_id = $1 AND e.id = c.id AND e.state = c.from_state"#,
            event.0,
            now,
            &ids,
            &from,
            &to,
            &bands,
            &rounds,
            &ranks,
            &parties,
            &after(|entry| entry.confirmed_at) as &[Option<DateTime<Utc>>],
            &flag(|entry| entry.vouched),
            &after(|entry| entry.lapses_at) as &[Option<DateTime<Utc>>],
            &paused as &[Option<String>],
            &after(|entry| entry.paused_until) as &[Option<DateTime<Utc>>],
            &flag(|entry| entry.contact_problem),
            &flag(|entry| entry.offer_anyway),
            &flag(|entry| entry.set_aside),
            &flag(|entry| entry.until_passed),
            &silent,
            &after(|entry| entry.declined_at) as &[Option<DateTime<Utc>>],
            &closed_from as &[Option<String>],
            &line_ranks as &[Option<i64>],
            &wants,
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, moves.len(), "entry")?;
        for change in moves {
            self.record(change.record(now));
            for (act, reason) in change.side_effects() {
                let state = Some(change.after.state.as_str());
                let mut record =
                    Record::new(now, change.actor, act, Subject::Entry(change.before.id), reason)
                        .states(state, state);
                record.order_key = Some(change.after.key);
                self.record(record);
            }
        }
        Ok(())
    }

    /// The entries with these ids, in no particular order.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entries(&mut self, ids: &[EntryId]) -> Result<Vec<Entry>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        entries(
            select_entries!("WHERE e.event_id = $1 AND e.id = ANY($2)", event.0, &ids)
                .fetch_all(self.connection())
                .await?,
        )
    }

    /// One entry.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn entry(&mut self, id: EntryId) -> Result<Entry, DbError> {
        self.entries(&[id]).await?.pop().ok_or(DbError::NotFound)
    }

    /// The live entries of these persons.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_entries_of(&mut self, persons: &[PersonId]) -> Result<Vec<Entry>, DbError> {
        let event = self.id();
        let persons: Vec<Uuid> = persons.iter().map(|id| id.0).collect();
        entries(
            select_entries!(
                "WHERE e.event_id = $1 AND e.person_id = ANY($2) AND e.state IN ('unconfirmed', 'waiting', 'offered')",
                event.0,
                &persons
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// The live entries of whoever has these addresses, each with its canonical address.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_entries_by_email(
        &mut self,
        emails: &[&EmailAddress],
    ) -> Result<Vec<(String, Entry)>, DbError> {
        let organization = self.organization();
        let canonical: Vec<String> = emails.iter().map(|email| email.canonical().to_owned()).collect();
        let known = sqlx::query!(
            "SELECT canonical, person_id FROM contacts
             WHERE organization_id = $1 AND kind = 'email' AND canonical = ANY($2)",
            organization.0,
            &canonical
        )
        .fetch_all(self.connection())
        .await?;
        let persons: Vec<PersonId> = known.iter().map(|row| PersonId(row.person_id)).collect();
        let live = self.live_entries_of(&persons).await?;
        Ok(live
            .into_iter()
            .filter_map(|entry| {
                let row = known.iter().find(|row| row.person_id == entry.person.0)?;
                Some((row.canonical.clone(), entry))
            })
            .collect())
    }

    /// How many entries are live: what the list cap counts.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_count(&mut self) -> Result<i64, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT coalesce(sum(n), 0)::bigint AS "n!" FROM entry_counts
               WHERE event_id = $1 AND state IN ('unconfirmed', 'waiting', 'offered')"#,
            event.0
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// Entries for which something is due: an unconfirmed one lapses, a pause ends, an `until` passed.
    ///
    /// # Errors
    /// What the database says.
    pub async fn due_entries(&mut self, limit: i64) -> Result<Vec<Entry>, DbError> {
        let (event, now) = (self.id(), self.now());
        entries(
            select_entries!(
                "WHERE e.event_id = $1 AND e.id IN (
                     (SELECT id FROM entries WHERE event_id = $1 AND lapses_at <= $2 LIMIT $3)
                     UNION (SELECT id FROM entries WHERE event_id = $1 AND paused_until <= $2 LIMIT $3)
                     UNION (SELECT id FROM entries WHERE event_id = $1 AND until <= $2 AND NOT until_passed
                            AND state = 'waiting' LIMIT $3))",
                event.0,
                now,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Live entries in batches, for closing them with their event.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_entries(&mut self, limit: i64) -> Result<Vec<Entry>, DbError> {
        let event = self.id();
        entries(
            select_entries!(
                "WHERE e.event_id = $1 AND e.state IN ('unconfirmed', 'waiting', 'offered')
                 ORDER BY e.band, e.round, e.rank LIMIT $2",
                event.0,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Entries that cancelling closed, with what they were, for reopening. Not those of whoever has a live one, and
    /// of several of one person the newest.
    ///
    /// # Errors
    /// What the database says.
    pub async fn closed_entries(&mut self, limit: i64) -> Result<Vec<(Entry, EntryState)>, DbError> {
        let event = self.id();
        let rows = entries(
            select_entries!(
                "WHERE e.event_id = $1 AND e.state = 'closed' AND NOT EXISTS (
                     SELECT FROM entries o WHERE o.event_id = $1 AND o.person_id = e.person_id AND o.id <> e.id
                       AND (o.state IN ('unconfirmed', 'waiting', 'offered')
                            OR o.state = 'closed' AND o.arrival > e.arrival))
                 ORDER BY e.arrival LIMIT $2",
                event.0,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )?;
        // Whoever was unconfirmed has no confirmation: the two cannot be confused.
        Ok(rows
            .into_iter()
            .map(|entry| {
                let confirmed = entry.confirmed_at.is_some() || entry.vouched;
                (entry, if confirmed { EntryState::Waiting } else { EntryState::Unconfirmed })
            })
            .collect())
    }
}

impl Db {
    /// One entry of an event.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn entry_in(&self, event: EventId, id: EntryId) -> Result<Entry, DbError> {
        select_entries!("WHERE e.event_id = $1 AND e.id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// One entry, wherever it is.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none.
    pub async fn find_entry(&self, id: EntryId) -> Result<Entry, DbError> {
        select_entries!("WHERE e.id = $1", id.0).fetch_one(self.pool()).await?.try_into()
    }

    /// Everybody who ever joined an event's list, in the order of arrival.
    ///
    /// # Errors
    /// What the database says.
    pub async fn all_entries(&self, event: EventId) -> Result<Vec<Entry>, DbError> {
        entries(
            select_entries!("WHERE e.event_id = $1 ORDER BY e.arrival", event.0)
                .fetch_all(self.pool())
                .await?,
        )
    }

    /// The last entry of a person on an event's list, live or over.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entry_of(&self, event: EventId, person: PersonId) -> Result<Option<Entry>, DbError> {
        select_entries!(
            "WHERE e.event_id = $1 AND e.person_id = $2 ORDER BY e.arrival DESC LIMIT 1",
            event.0,
            person.0
        )
        .fetch_optional(self.pool())
        .await?
        .map(Entry::try_from)
        .transpose()
    }
}
