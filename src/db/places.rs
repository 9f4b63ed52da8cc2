//! Places: added, moved and counted as sets, never without their record.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, PlaceId};
use crate::domain::place::{PlaceCounts, PlaceState};
use crate::domain::reason::Reason;

/// One place, as its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its id.
    pub id: PlaceId,
    /// Its number within the event: the order in which places are given.
    pub number: i32,
    /// What it is called, where that matters.
    pub label: Option<String>,
    /// Which kind of place it is; 0 where nothing is said of it.
    pub kind: i32,
    /// What is said of it, in words.
    pub words: Option<String>,
    /// What has it.
    pub state: PlaceState,
    /// Leaves the event when it becomes free.
    pub retire_when_free: bool,
    /// The hold that has it.
    pub offer: Option<OfferId>,
    /// The booking that has it.
    pub booking: Option<BookingId>,
    /// Since when it is, or was last, open.
    pub opened_at: DateTime<Utc>,
}

impl Place {
    /// The label, or "place n", with what is said of it.
    #[must_use]
    pub fn name(&self) -> String {
        let name = self.label.clone().unwrap_or_else(|| format!("place {}", self.number));
        match &self.words {
            Some(words) => format!("{name} ({words})"),
            None => name,
        }
    }

    /// The same, where it tells more than a number.
    #[must_use]
    pub fn told(&self) -> Option<String> {
        (self.label.is_some() || self.words.is_some()).then(|| self.name())
    }

    /// What the place becomes when nothing has it any more.
    #[must_use]
    pub fn when_free(&self) -> PlaceState {
        if self.retire_when_free { PlaceState::Retired } else { PlaceState::Open }
    }
}

struct PlaceRow {
    id: Uuid,
    number: i32,
    label: Option<String>,
    kind: i32,
    words: Option<String>,
    state: String,
    retire_when_free: bool,
    offer_id: Option<Uuid>,
    booking_id: Option<Uuid>,
    opened_at: DateTime<Utc>,
}

impl TryFrom<PlaceRow> for Place {
    type Error = DbError;

    fn try_from(row: PlaceRow) -> Result<Self, DbError> {
        Ok(Self {
            id: PlaceId(row.id),
            number: row.number,
            label: row.label,
            kind: row.kind,
            words: row.words,
            state: word(PlaceState::parse, "place state", &row.state)?,
            retire_when_free: row.retire_when_free,
            offer: row.offer_id.map(OfferId),
            booking: row.booking_id.map(BookingId),
            opened_at: row.opened_at,
        })
    }
}

macro_rules! select_places {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            PlaceRow,
            "SELECT id, number, label, kind, CASE WHEN kind <> 0 THEN (SELECT k.words FROM kinds k \
             WHERE k.event_id = places.event_id AND k.id = places.kind) END AS words, \
             state, retire_when_free, offer_id, booking_id, opened_at FROM places " + $tail,
            $($argument),*
        )
    };
}

fn places(rows: Vec<PlaceRow>) -> Result<Vec<Place>, DbError> {
    rows.into_iter().map(Place::try_from).collect()
}

/// A change of one place, with what the audit says of it.
#[derive(Clone, Debug)]
pub struct PlaceMove {
    /// As it was read under the lock.
    pub before: Place,
    /// Its new state.
    pub to: PlaceState,
    /// Leaves the event when it becomes free.
    pub retire_when_free: bool,
    /// The hold that has it from now on.
    pub offer: Option<OfferId>,
    /// The booking that has it from now on.
    pub booking: Option<BookingId>,
    /// The entry concerned.
    pub entry: Option<EntryId>,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: Act,
    /// Why.
    pub reason: Reason,
    /// In their own words.
    pub note: Option<String>,
}

impl PlaceMove {
    /// The place is held by an offer.
    #[must_use]
    pub fn hold(before: Place, offer: OfferId, entry: EntryId, actor: Actor, reason: Reason) -> Self {
        Self {
            retire_when_free: before.retire_when_free,
            before,
            to: PlaceState::Held,
            offer: Some(offer),
            booking: None,
            entry: Some(entry),
            actor,
            act: Act::Held,
            reason,
            note: None,
        }
    }

    /// The place is booked.
    #[must_use]
    pub fn book(
        before: Place,
        booking: BookingId,
        entry: Option<EntryId>,
        actor: Actor,
        reason: Reason,
    ) -> Self {
        Self {
            retire_when_free: before.retire_when_free,
            before,
            to: PlaceState::Booked,
            offer: None,
            booking: Some(booking),
            entry,
            actor,
            act: Act::Booked,
            reason,
            note: None,
        }
    }

    /// Nothing has the place any more: it opens, or leaves the event if it was to.
    #[must_use]
    pub fn free(before: Place, entry: Option<EntryId>, actor: Actor, reason: Reason) -> Self {
        let to = before.when_free();
        Self {
            act: if to == PlaceState::Open { Act::Released } else { Act::Retired },
            before,
            to,
            retire_when_free: false,
            offer: None,
            booking: None,
            entry,
            actor,
            reason,
            note: None,
        }
    }

    /// The place leaves the event: at once, or when whoever has it is gone.
    #[must_use]
    pub fn retire(before: Place, actor: Actor, reason: Reason) -> Self {
        let free = before.state == PlaceState::Open;
        Self {
            to: if free { PlaceState::Retired } else { before.state },
            retire_when_free: !free,
            offer: before.offer,
            booking: before.booking,
            before,
            entry: None,
            actor,
            act: Act::Retired,
            reason,
            note: None,
        }
    }
}

impl LockedEvent {
    /// Adds open places of one kind: as many as `labels`, in this order.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `places_label_key` when a label is already in use.
    pub async fn add_places(
        &mut self,
        labels: &[Option<String>],
        kind: i32,
        actor: Actor,
        reason: Reason,
    ) -> Result<Vec<PlaceId>, DbError> {
        if labels.is_empty() {
            return Ok(vec![]);
        }
        let (event, now) = (self.id(), self.now());
        let count = i32::try_from(labels.len()).unwrap_or(i32::MAX);
        let first = sqlx::query_scalar!(
            r#"UPDATE events SET next_place = next_place + $2 WHERE id = $1 RETURNING next_place - $2 AS "first!""#,
            event.0,
            count
        )
        .fetch_one(self.connection())
        .await?;
        let ids: Vec<Uuid> = labels.iter().map(|_| self.entropy().id()).collect();
        let numbers: Vec<i32> = (first..first + count).collect();
        sqlx::query!(
            r#"INSERT INTO places (event_id, state, opened_at, changed_at, kind, id, number, label)
               SELECT $1, 'open', $2, $2, $6, * FROM unnest($3::uuid[], $4::integer[], $5::text[])"#,
            event.0,
            now,
            &ids,
            &numbers,
            labels as &[Option<String>],
            kind,
        )
        .execute(self.connection())
        .await?;
        for id in &ids {
            self.record(
                Record::new(now, actor, Act::Added, Subject::Place(PlaceId(*id)), reason)
                    .states(None, Some(PlaceState::Open.as_str())),
            );
        }
        Ok(ids.into_iter().map(PlaceId).collect())
    }

    /// Writes changes of places as one set, each with its record.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when a row is not in the state it was read in: impossible under the lock.
    pub async fn move_places(&mut self, moves: &[PlaceMove]) -> Result<(), DbError> {
        if moves.is_empty() {
            return Ok(());
        }
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = moves.iter().map(|change| change.before.id.0).collect();
        let from: Vec<String> = moves.iter().map(|change| change.before.state.as_str().to_owned()).collect();
        let to: Vec<String> = moves.iter().map(|change| change.to.as_str().to_owned()).collect();
        let retire: Vec<bool> = moves.iter().map(|change| change.retire_when_free).collect();
        let offers: Vec<Option<Uuid>> = moves.iter().map(|change| change.offer.map(|id| id.0)).collect();
        let bookings: Vec<Option<Uuid>> = moves.iter().map(|change| change.booking.map(|id| id.0)).collect();
        let changed = sqlx::query!(
            r#"UPDATE places p SET state = c.to_state, retire_when_free = c.retire, offer_id = c.offer_id,
                   booking_id = c.booking_id, changed_at = $2,
                   opened_at = CASE WHEN c.to_state = 'open' AND c.from_state <> 'open' THEN $2 ELSE p.opened_at END
               FROM unnest($3::uuid[], $4::text[], $5::text[], $6::boolean[], $7::uuid[], $8::uuid[])
                 AS c(id, from_state, to_state, retire, offer_id, booking_id)
               WHERE p.event_id = $1 AND p.id = c.id AND p.state = c.from_state"#,
            event.0,
            now,
            &ids,
            &from,
            &to,
            &retire,
            &offers as &[Option<Uuid>],
            &bookings as &[Option<Uuid>],
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, moves.len(), "place")?;
        for change in moves {
            let mut record =
                Record::new(now, change.actor, change.act, Subject::Place(change.before.id), change.reason)
                    .states(Some(change.before.state.as_str()), Some(change.to.as_str()));
            record.entry = change.entry;
            record.note.clone_from(&change.note);
            self.record(record);
        }
        Ok(())
    }

    /// Open places in the order in which they are given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_places(&mut self, limit: i64) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        places(
            select_places!("WHERE event_id = $1 AND state = 'open' ORDER BY number LIMIT $2", event.0, limit)
                .fetch_all(self.connection())
                .await?,
        )
    }

    /// Open places in the order in which they are given, at most `limit` of each kind.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_places_of_each_kind(&mut self, limit: i64) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        places(
            select_places!(
                "WHERE event_id = $1 AND id IN (
                     SELECT id FROM (SELECT id, row_number() OVER (PARTITION BY kind ORDER BY number) AS n FROM places
                                     WHERE event_id = $1 AND state = 'open') ranked WHERE n <= $2)
                 ORDER BY number",
                event.0,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Open places of these kinds, in the order in which they are given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_places_among(&mut self, kinds: &[i32], limit: i64) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        places(
            select_places!(
                "WHERE event_id = $1 AND state = 'open' AND kind = ANY($2) ORDER BY number LIMIT $3",
                event.0,
                kinds,
                limit
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Says something else of an open place; the caller records why.
    ///
    /// # Errors
    /// [`DbError::LostRace`] when it is not open.
    pub async fn set_kind(&mut self, place: PlaceId, kind: i32) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let changed = sqlx::query!(
            "UPDATE places SET kind = $3, changed_at = $4 WHERE event_id = $1 AND id = $2 AND state = 'open'",
            event.0,
            place.0,
            kind,
            now
        )
        .execute(self.connection())
        .await?
        .rows_affected();
        super::must_change(changed, 1, "place")
    }

    /// The places with these ids, in the order of their numbers.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places(&mut self, ids: &[PlaceId]) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = ids.iter().map(|id| id.0).collect();
        places(
            select_places!("WHERE event_id = $1 AND id = ANY($2) ORDER BY number", event.0, &ids)
                .fetch_all(self.connection())
                .await?,
        )
    }

    /// The places that these offers hold.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places_of_offers(&mut self, offers: &[OfferId]) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        let ids: Vec<Uuid> = offers.iter().map(|id| id.0).collect();
        places(
            select_places!("WHERE event_id = $1 AND offer_id = ANY($2) ORDER BY number", event.0, &ids)
                .fetch_all(self.connection())
                .await?,
        )
    }

    /// How the places add up.
    ///
    /// # Errors
    /// What the database says.
    pub async fn place_counts(&mut self) -> Result<PlaceCounts, DbError> {
        let event = self.id();
        place_counts(self.connection(), event).await
    }

    /// The places to retire next when `count` shall go: open ones from the last, then held, then booked, leaving
    /// out those already marked.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places_to_retire(&mut self, count: i64) -> Result<Vec<Place>, DbError> {
        let event = self.id();
        places(
            select_places!(
                "WHERE event_id = $1 AND state <> 'retired' AND NOT retire_when_free
                 ORDER BY CASE state WHEN 'open' THEN 0 WHEN 'held' THEN 1 ELSE 2 END, number DESC LIMIT $2",
                event.0,
                count
            )
            .fetch_all(self.connection())
            .await?,
        )
    }

    /// Whether a release of this source and id was applied before.
    ///
    /// # Errors
    /// What the database says.
    pub async fn has_release(&mut self, source: &str, id: &str) -> Result<bool, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM releases WHERE event_id = $1 AND source = $2 AND source_id = $3) AS "has!""#,
            event.0,
            source,
            id
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// Records that places came back, once per source and id; returns how many releases were new.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_releases(&mut self, releases: &[NewRelease], actor: Actor) -> Result<u64, DbError> {
        if releases.is_empty() {
            return Ok(0);
        }
        let (event, now) = (self.id(), self.now());
        let ids: Vec<Uuid> = releases.iter().map(|_| self.entropy().id()).collect();
        let sources: Vec<String> = releases.iter().map(|release| release.source.to_owned()).collect();
        let source_ids: Vec<String> = releases.iter().map(|release| release.source_id.clone()).collect();
        let reasons: Vec<String> =
            releases.iter().map(|release| release.reason.as_str().to_owned()).collect();
        // Postgres has no array of arrays of different lengths: the sets travel as text.
        let sets: Vec<String> = releases
            .iter()
            .map(|release| {
                let ids: Vec<String> = release.places.iter().map(ToString::to_string).collect();
                format!("{{{}}}", ids.join(","))
            })
            .collect();
        Ok(sqlx::query!(
            r#"INSERT INTO releases (event_id, actor, actor_id, at, id, source, source_id, reason, places)
               SELECT $1, $2, $3, $4, c.id, c.source, c.source_id, c.reason, c.places::uuid[]
               FROM unnest($5::uuid[], $6::text[], $7::text[], $8::text[], $9::text[])
                 AS c(id, source, source_id, reason, places)
               ON CONFLICT (event_id, source, source_id) DO NOTHING"#,
            event.0,
            actor.kind(),
            actor.id(),
            now,
            &ids,
            &sources,
            &source_ids,
            &reasons,
            &sets,
        )
        .execute(self.connection())
        .await?
        .rows_affected())
    }
}

/// Places that came back, and from where.
#[derive(Clone, Debug)]
pub struct NewRelease {
    /// `offer`, `booking`, `places` (added) or `place` (un-retired).
    pub source: &'static str,
    /// Its id there; applied once.
    pub source_id: String,
    /// Why.
    pub reason: Reason,
    /// Which.
    pub places: Vec<PlaceId>,
}

async fn place_counts(connection: &mut sqlx::PgConnection, event: EventId) -> Result<PlaceCounts, DbError> {
    let rows =
        sqlx::query!("SELECT state, retire_when_free, n FROM place_counts WHERE event_id = $1", event.0)
            .fetch_all(connection)
            .await?;
    let mut counts = PlaceCounts::default();
    for row in rows {
        match word(PlaceState::parse, "place state", &row.state)? {
            PlaceState::Open => counts.open += row.n,
            PlaceState::Held => counts.held += row.n,
            PlaceState::Booked => counts.booked += row.n,
            PlaceState::Retired => {}
        }
        if row.retire_when_free {
            counts.retire_when_free += row.n;
        }
    }
    Ok(counts)
}

impl Db {
    /// How the places of an event add up.
    ///
    /// # Errors
    /// What the database says.
    pub async fn place_counts(&self, event: EventId) -> Result<PlaceCounts, DbError> {
        let mut connection = self.pool().acquire().await?;
        place_counts(&mut connection, event).await
    }

    /// Open places in the order in which they are given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_places(&self, event: EventId, limit: i64) -> Result<Vec<Place>, DbError> {
        places(
            select_places!("WHERE event_id = $1 AND state = 'open' ORDER BY number LIMIT $2", event.0, limit)
                .fetch_all(self.pool())
                .await?,
        )
    }

    /// Every place an event ever had, in the order in which they are given.
    ///
    /// # Errors
    /// What the database says.
    pub async fn all_places(&self, event: EventId) -> Result<Vec<Place>, DbError> {
        places(select_places!("WHERE event_id = $1 ORDER BY number", event.0).fetch_all(self.pool()).await?)
    }

    /// One place.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn find_place(&self, event: EventId, id: PlaceId) -> Result<Place, DbError> {
        select_places!("WHERE event_id = $1 AND id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .try_into()
    }

    /// The places an offer holds.
    ///
    /// # Errors
    /// What the database says.
    pub async fn places_held_by(&self, event: EventId, offer: OfferId) -> Result<Vec<Place>, DbError> {
        places(
            select_places!("WHERE event_id = $1 AND offer_id = $2 ORDER BY number", event.0, offer.0)
                .fetch_all(self.pool())
                .await?,
        )
    }
}
