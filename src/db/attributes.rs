//! What an event says of its places and what its people want: attributes, kinds and wants, each kept once.

use chrono::{DateTime, Utc};
use serde_json::Value as Json;
use sqlx::PgConnection;

use super::{Db, DbError, LockedEvent};
use crate::domain::attribute::{Attribute, Measure, Said, Wants};
use crate::domain::ids::EventId;
use crate::domain::kinds::{KIND_MAX, Kinds};

/// An event tells so many different wants apart.
pub const WANTS_MAX: i32 = 10_000;

/// The open places of one kind.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OpenKind {
    /// Which.
    pub kind: i32,
    /// How many.
    pub open: i64,
    /// When the first of them opened.
    pub oldest: DateTime<Utc>,
    /// When the last of them opened.
    pub youngest: DateTime<Utc>,
}

/// How many open places are of these kinds.
#[must_use]
pub fn count(open: &[OpenKind], kinds: &Kinds) -> i64 {
    open.iter().filter(|kind| kinds.has(kind.kind)).map(|kind| kind.open).sum()
}

pub(super) fn read<T: serde::de::DeserializeOwned>(what: &'static str, json: Json) -> Result<T, DbError> {
    serde_json::from_value(json).map_err(|error| DbError::Unreadable(what, error.to_string()))
}

fn json<T: serde::Serialize>(value: &T) -> Json {
    serde_json::to_value(value).unwrap_or_default()
}

/// The kinds that meet these wants.
async fn kinds_met(connection: &mut PgConnection, event: EventId, wants: &Wants) -> Result<Kinds, DbError> {
    if wants.0.is_empty() {
        return Ok(Kinds::ALL);
    }
    let rows = sqlx::query!("SELECT id, attributes FROM kinds WHERE event_id = $1", event.0)
        .fetch_all(connection)
        .await?;
    let mut met = Kinds::NONE;
    for row in rows {
        let said: Said = read("attributes of a kind", row.attributes)?;
        if wants.are_met_by(&said) {
            met.add(row.id);
        }
    }
    Ok(met)
}

impl LockedEvent {
    /// Writes what the event says of its places, and says everything that was said with it in the new words.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_attributes(&mut self, attributes: &[Attribute]) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!(
            "UPDATE events SET attributes = $2, form_version = form_version + 1 WHERE id = $1",
            event.0,
            json(&attributes)
        )
        .execute(self.connection())
        .await?;
        let kinds = sqlx::query!("SELECT id, attributes FROM kinds WHERE event_id = $1", event.0)
            .fetch_all(self.connection())
            .await?;
        let mut words = Vec::with_capacity(kinds.len());
        for row in &kinds {
            words.push(read::<Said>("attributes of a kind", row.attributes.clone())?.words(attributes));
        }
        let ids: Vec<i32> = kinds.iter().map(|row| row.id).collect();
        sqlx::query!(
            "UPDATE kinds k SET words = c.words FROM unnest($2::integer[], $3::text[]) AS c(id, words)
             WHERE k.event_id = $1 AND k.id = c.id",
            event.0,
            &ids,
            &words
        )
        .execute(self.connection())
        .await?;
        let wants = sqlx::query!("SELECT id, wants FROM wants WHERE event_id = $1", event.0)
            .fetch_all(self.connection())
            .await?;
        let mut words = Vec::with_capacity(wants.len());
        for row in &wants {
            words.push(read::<Wants>("wants", row.wants.clone())?.words(attributes));
        }
        let ids: Vec<i32> = wants.iter().map(|row| row.id).collect();
        sqlx::query!(
            "UPDATE wants w SET words = c.words FROM unnest($2::integer[], $3::text[]) AS c(id, words)
             WHERE w.event_id = $1 AND w.id = c.id",
            event.0,
            &ids,
            &words
        )
        .execute(self.connection())
        .await?;
        let row = self.event_mut();
        row.attributes = attributes.to_vec();
        row.form_version += 1;
        Ok(())
    }

    /// Whether a place of the event, or somebody on its list, has something to do with an attribute, or with one value
    /// of a choice. So has whom the event's end closed: restored, they wait again for what they want.
    ///
    /// # Errors
    /// What the database says.
    pub async fn uses_attribute(&mut self, key: &str, choice: Option<&str>) -> Result<bool, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM kinds k JOIN places p ON p.event_id = k.event_id AND p.kind = k.id
                              WHERE k.event_id = $1 AND p.state <> 'retired' AND k.attributes ? $2
                                AND ($3::text IS NULL OR k.attributes -> $2 ->> 'choice' = $3))
                   OR EXISTS (SELECT FROM wants w JOIN entries e ON e.event_id = w.event_id AND e.wants = w.id
                              WHERE w.event_id = $1 AND e.state IN ('unconfirmed', 'waiting', 'offered', 'closed')
                                AND w.wants ? $2 AND ($3::text IS NULL OR w.wants -> $2 -> 'any_of' ? $3)) AS "uses!""#,
            event.0,
            key,
            choice
        )
        .fetch_one(self.connection())
        .await?)
    }

    /// The number of the kind of places of which this is said, new if need be; `None` when the event tells as many
    /// kinds apart as it can.
    ///
    /// # Errors
    /// What the database says.
    pub async fn kind_of(&mut self, said: &Said) -> Result<Option<i32>, DbError> {
        if said.0.is_empty() {
            return Ok(Some(0));
        }
        let (event, attributes) = (self.id(), json(said));
        let known = sqlx::query_scalar!(
            "SELECT id FROM kinds WHERE event_id = $1 AND attributes = $2",
            event.0,
            attributes
        )
        .fetch_optional(self.connection())
        .await?;
        if known.is_some() {
            return Ok(known);
        }
        let kind = sqlx::query_scalar!(
            r#"UPDATE events SET next_kind = next_kind + 1 WHERE id = $1 AND next_kind <= $2 RETURNING next_kind - 1 AS "kind!""#,
            event.0,
            KIND_MAX
        )
        .fetch_optional(self.connection())
        .await?;
        let Some(kind) = kind else { return Ok(None) };
        let words = said.words(&self.event().attributes);
        sqlx::query!(
            "INSERT INTO kinds (event_id, id, attributes, words) VALUES ($1, $2, $3, $4)",
            event.0,
            kind,
            attributes,
            words
        )
        .execute(self.connection())
        .await?;
        let wants = sqlx::query!("SELECT id, wants FROM wants WHERE event_id = $1", event.0)
            .fetch_all(self.connection())
            .await?;
        let mut met = Vec::new();
        for row in wants {
            if read::<Wants>("wants", row.wants)?.are_met_by(said) {
                met.push(row.id);
            }
        }
        sqlx::query!(
            "UPDATE wants SET kinds = kinds || $3::integer WHERE event_id = $1 AND id = ANY($2)",
            event.0,
            &met,
            kind
        )
        .execute(self.connection())
        .await?;
        Ok(Some(kind))
    }

    /// The number under which the event keeps these wants, new if need be; `None` when it tells as many apart as it
    /// can.
    ///
    /// # Errors
    /// What the database says.
    pub async fn number_of_wants(&mut self, wants: &Wants) -> Result<Option<i32>, DbError> {
        if wants.0.is_empty() {
            return Ok(Some(0));
        }
        let (event, stored) = (self.id(), json(wants));
        let known =
            sqlx::query_scalar!("SELECT id FROM wants WHERE event_id = $1 AND wants = $2", event.0, stored)
                .fetch_optional(self.connection())
                .await?;
        if known.is_some() {
            return Ok(known);
        }
        let number = sqlx::query_scalar!(
            r#"UPDATE events SET next_wants = next_wants + 1 WHERE id = $1 AND next_wants <= $2
               RETURNING next_wants - 1 AS "number!""#,
            event.0,
            WANTS_MAX
        )
        .fetch_optional(self.connection())
        .await?;
        let Some(number) = number else { return Ok(None) };
        let met = kinds_met(self.connection(), event, wants).await?;
        let kinds: Vec<i32> = (1..=KIND_MAX).filter(|kind| met.has(*kind)).collect();
        let words = wants.words(&self.event().attributes);
        sqlx::query!(
            "INSERT INTO wants (event_id, id, wants, words, kinds) VALUES ($1, $2, $3, $4, $5)",
            event.0,
            number,
            stored,
            words,
            &kinds
        )
        .execute(self.connection())
        .await?;
        self.event_mut().has_wants = true;
        Ok(Some(number))
    }

    /// The kinds of places that meet these wants now.
    ///
    /// # Errors
    /// What the database says.
    pub async fn kinds_met(&mut self, wants: &Wants) -> Result<Kinds, DbError> {
        let event = self.id();
        kinds_met(self.connection(), event, wants).await
    }

    /// The open places, by kind.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_kinds(&mut self) -> Result<Vec<OpenKind>, DbError> {
        let event = self.id();
        open_kinds(self.connection(), event).await
    }

    /// The kinds of open places that somebody eligible could take, or for which, under `strict`, a head waits that
    /// wants more of them: those are reserved for the list.
    ///
    /// # Errors
    /// What the database says.
    pub async fn reserved_kinds(&mut self, strict: bool) -> Result<Kinds, DbError> {
        let event = self.id();
        reserved_kinds(self.connection(), event, strict).await
    }
}

async fn open_kinds(connection: &mut PgConnection, event: EventId) -> Result<Vec<OpenKind>, DbError> {
    Ok(sqlx::query_as!(
        OpenKind,
        r#"SELECT kind, count(*) AS "open!", min(opened_at) AS "oldest!", max(opened_at) AS "youngest!" FROM places
           WHERE event_id = $1 AND state = 'open' GROUP BY kind ORDER BY kind"#,
        event.0
    )
    .fetch_all(connection)
    .await?)
}

/// The open kinds as three columns, for a statement.
pub(super) fn columns(kinds: &[OpenKind]) -> (Vec<i32>, Vec<i64>, Vec<DateTime<Utc>>) {
    (
        kinds.iter().map(|kind| kind.kind).collect(),
        kinds.iter().map(|kind| kind.open).collect(),
        kinds.iter().map(|kind| kind.youngest).collect(),
    )
}

async fn reserved_kinds(
    connection: &mut PgConnection,
    event: EventId,
    strict: bool,
) -> Result<Kinds, DbError> {
    let open = open_kinds(connection, event).await?;
    let (kinds, counts, youngest) = columns(&open);
    let claims = sqlx::query!(
        r#"SELECT DISTINCT m.wants AS "wants!", m.met AS "kinds?" FROM wanted_of_open($1, $2, $3, $4) m
           WHERE ($5 OR m.party <= m.open) AND EXISTS (
               SELECT FROM entries WHERE event_id = $1 AND eligible AND wants = m.wants AND party = m.party
                 AND (declined_at IS NULL OR declined_at < m.youngest))"#,
        event.0,
        &kinds,
        &counts,
        &youngest,
        strict
    )
    .fetch_all(connection)
    .await?;
    let mut reserved = Kinds::NONE;
    for claim in claims {
        reserved.add_all(&claim.kinds.map_or(Kinds::ALL, Kinds::from_iter));
    }
    Ok(reserved)
}

impl Db {
    /// The kinds on which the list has a claim, without the lock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn reserved_kinds(&self, event: EventId, strict: bool) -> Result<Kinds, DbError> {
        let mut connection = self.pool().acquire().await?;
        reserved_kinds(&mut connection, event, strict).await
    }

    /// The kinds of places that meet these wants, without the lock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn kinds_met(&self, event: EventId, wants: &Wants) -> Result<Kinds, DbError> {
        let mut connection = self.pool().acquire().await?;
        kinds_met(&mut connection, event, wants).await
    }

    /// The open places, by kind, without the lock.
    ///
    /// # Errors
    /// What the database says.
    pub async fn open_kinds(&self, event: EventId) -> Result<Vec<OpenKind>, DbError> {
        let mut connection = self.pool().acquire().await?;
        open_kinds(&mut connection, event).await
    }

    /// What an entry wants: the wants themselves, and in words.
    ///
    /// # Errors
    /// What the database says.
    pub async fn wants(&self, event: EventId, number: i32) -> Result<(Wants, String), DbError> {
        if number == 0 {
            return Ok((Wants::default(), String::new()));
        }
        let row =
            sqlx::query!("SELECT wants, words FROM wants WHERE event_id = $1 AND id = $2", event.0, number)
                .fetch_one(self.pool())
                .await?;
        Ok((read("wants", row.wants)?, row.words))
    }

    /// What is said of the places of a kind: the attributes themselves, and in words.
    ///
    /// # Errors
    /// What the database says.
    pub async fn said(&self, event: EventId, kind: i32) -> Result<(Said, String), DbError> {
        if kind == 0 {
            return Ok((Said::default(), String::new()));
        }
        let row = sqlx::query!(
            "SELECT attributes, words FROM kinds WHERE event_id = $1 AND id = $2",
            event.0,
            kind
        )
        .fetch_one(self.pool())
        .await?;
        Ok((read("attributes of a kind", row.attributes)?, row.words))
    }
}

/// Which attribute, or which of its choices, an edit would take away although it is used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct InUse(pub String);

impl LockedEvent {
    /// The first thing that `new` takes away from the event's attributes and that is used.
    ///
    /// # Errors
    /// What the database says.
    pub async fn taken_away_in_use(&mut self, new: &[Attribute]) -> Result<Option<InUse>, DbError> {
        for old in self.event().attributes.clone() {
            let kept = new.iter().find(|attribute| attribute.key == old.key);
            let Some(kept) = kept else {
                if self.uses_attribute(&old.key, None).await? {
                    return Ok(Some(InUse(old.label)));
                }
                continue;
            };
            if old.measure != Measure::Choice {
                continue;
            }
            for choice in old.choices.iter().filter(|choice| !kept.choices.contains(choice)) {
                if self.uses_attribute(&old.key, Some(choice)).await? {
                    return Ok(Some(InUse(format!("{}: {choice}", old.label))));
                }
            }
        }
        Ok(None)
    }
}
