//! People of a file, written in sets under the event's lock.

use std::collections::HashMap;

use chrono::{DateTime, Utc};
use sqlx::PgExecutor;
use uuid::Uuid;

use super::Imported;
use crate::clock::Entropy;
use crate::db::events::word;
use crate::db::messages::Draft;
use crate::db::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::{EntrySource, EntryState, OrderKey};
use crate::domain::event::Event;
use crate::domain::ids::{EntryId, PersonId};
use crate::domain::import::{Planned, PlannedState};
use crate::domain::message::{Facts, Occasion};
use crate::domain::reason::Reason;

impl LockedEvent {
    /// Puts people at the end of the line, in this order, except whoever has an entry on this list in whatever
    /// state: those are named instead. Persons are found by their address or made.
    ///
    /// Seven statements, however many people there are.
    ///
    /// # Errors
    /// [`DbError::Constraint`] `contacts_email_key` when somebody with one of the addresses became known to the
    /// organization meanwhile, through another event: then the same call finds them.
    pub async fn import_people(
        &mut self,
        people: &[Planned],
        tell: bool,
        actor: Actor,
    ) -> Result<Imported, DbError> {
        let event = self.event().clone();
        let known = known_people(self.connection(), &event, people).await?;
        let mut imported = Imported::default();
        let mut newcomers = Newcomers::default();
        let mut entries = NewEntries::default();
        for planned in people {
            let (person, contact_problem) = match known.get(planned.email.canonical()) {
                Some(Known { listed: Some(state), .. }) => {
                    imported.already.push((planned.line, *state));
                    continue;
                }
                Some(person) => {
                    newcomers.phone_of(person.id, planned, self.entropy());
                    (person.id, person.unreachable)
                }
                None => (newcomers.person(planned, self.entropy()), false),
            };
            entries.push(person, contact_problem, planned, self.now(), self.entropy());
        }
        imported.taken = entries.ids.len();
        newcomers.write(self).await?;
        let ranks = entries.write(self).await?;
        for ((index, rank), state) in ranks.into_iter().enumerate().zip(entries.states) {
            let (id, person) = (entries.ids[index], entries.persons[index]);
            let mut record =
                Record::new(self.now(), actor, Act::Joined, Subject::Entry(EntryId(id)), Reason::Imported)
                    .states(None, Some(state.as_str()));
            record.order_key = Some(OrderKey { band: 0, round: 0, rank });
            self.record(record);
            if entries.contact_problems[index] {
                let (act, subject) = (Act::ContactChanged, Subject::Entry(EntryId(id)));
                let record = Record::new(self.now(), actor, act, subject, Reason::ContactProblem)
                    .states(Some(state.as_str()), Some(state.as_str()));
                self.record(record);
            }
            if tell && state == EntryState::Waiting {
                self.tell(Draft {
                    person: PersonId(person),
                    occasion: Occasion::Joined,
                    subject: id,
                    count: 0,
                    facts: Facts {
                        entry: Some(id),
                        party: Some(entries.parties[index]),
                        entry_state: Some(state.as_str().to_owned()),
                        ..Facts::default()
                    },
                });
            }
        }
        Ok(imported)
    }
}

impl Db {
    /// The lines of those among these people who have an entry on the event's list, with its state: for a
    /// preview.
    ///
    /// # Errors
    /// What the database says.
    pub async fn listed_among(
        &self,
        event: &Event,
        people: &[Planned],
    ) -> Result<Vec<(usize, EntryState)>, DbError> {
        let known = known_people(self.pool(), event, people).await?;
        let state = |person: &Planned| known.get(person.email.canonical()).and_then(|known| known.listed);
        Ok(people.iter().filter_map(|person| Some((person.line, state(person)?))).collect())
    }
}

/// The people among these whom the organization knows, by canonical address.
async fn known_people(
    executor: impl PgExecutor<'_>,
    event: &Event,
    people: &[Planned],
) -> Result<HashMap<String, Known>, DbError> {
    let canonical: Vec<String> = people.iter().map(|person| person.email.canonical().to_owned()).collect();
    let rows = sqlx::query!(
        r#"SELECT c.canonical, c.person_id,
               (SELECT e.state FROM entries e WHERE e.event_id = $1 AND e.person_id = c.person_id
                ORDER BY e.arrival DESC LIMIT 1) AS listed,
               NOT EXISTS (SELECT FROM contacts w WHERE w.person_id = c.person_id AND w.kind = 'email'
                           AND w.failing_since IS NULL) AS "unreachable!"
           FROM unnest($3::text[]) AS wanted(canonical)
           JOIN contacts c ON c.organization_id = $2 AND c.kind = 'email' AND c.canonical = wanted.canonical"#,
        event.id.0,
        event.organization.0,
        &canonical
    )
    .fetch_all(executor)
    .await?;
    rows.into_iter()
        .map(|row| {
            let listed =
                row.listed.map(|state| word(EntryState::parse, "entry state", &state)).transpose()?;
            Ok((row.canonical, Known { id: PersonId(row.person_id), listed, unreachable: row.unreachable }))
        })
        .collect()
}

/// A person the organization knows.
struct Known {
    id: PersonId,
    /// The state of their last entry on this list.
    listed: Option<EntryState>,
    unreachable: bool,
}

/// Persons and contacts to be written, column by column.
#[derive(Default)]
struct Newcomers {
    persons: Vec<Uuid>,
    names: Vec<String>,
    languages: Vec<String>,
    contacts: Vec<Uuid>,
    owners: Vec<Uuid>,
    kinds: Vec<String>,
    values: Vec<String>,
    canonicals: Vec<String>,
}

impl Newcomers {
    fn person(&mut self, planned: &Planned, entropy: Entropy) -> PersonId {
        let id = PersonId(entropy.id());
        self.persons.push(id.0);
        self.names.push(planned.name.as_str().to_owned());
        self.languages.push(planned.language.clone().unwrap_or_else(|| "en".to_owned()));
        self.contact(id, "email", planned.email.value(), planned.email.canonical(), entropy);
        self.phone_of(id, planned, entropy);
        id
    }

    fn phone_of(&mut self, person: PersonId, planned: &Planned, entropy: Entropy) {
        if let Some(phone) = &planned.phone {
            self.contact(person, "phone", phone.value(), phone.canonical(), entropy);
        }
    }

    fn contact(&mut self, person: PersonId, kind: &str, value: &str, canonical: &str, entropy: Entropy) {
        self.contacts.push(entropy.id());
        self.owners.push(person.0);
        self.kinds.push(kind.to_owned());
        self.values.push(value.to_owned());
        self.canonicals.push(canonical.to_owned());
    }

    async fn write(&self, event: &mut LockedEvent) -> Result<(), DbError> {
        if self.contacts.is_empty() {
            return Ok(());
        }
        let (organization, now) = (event.organization(), event.now());
        sqlx::query!(
            r#"WITH newcomers AS (
                   INSERT INTO persons (organization_id, created_at, id, name, language)
                   SELECT $1, $2, * FROM unnest($3::uuid[], $4::text[], $5::text[]))
               INSERT INTO contacts (organization_id, created_at, id, person_id, kind, value, canonical)
               SELECT $1, $2, n.id, n.person_id, n.kind, n.value, n.canonical
               FROM unnest($6::uuid[], $7::uuid[], $8::text[], $9::text[], $10::text[])
                 AS n(id, person_id, kind, value, canonical)
               WHERE n.kind = 'email' OR NOT EXISTS (SELECT FROM contacts c WHERE c.person_id = n.person_id
                                                     AND c.kind = n.kind AND c.canonical = n.canonical)"#,
            organization.0,
            now,
            &self.persons,
            &self.names,
            &self.languages,
            &self.contacts,
            &self.owners,
            &self.kinds,
            &self.values,
            &self.canonicals,
        )
        .execute(event.connection())
        .await?;
        Ok(())
    }
}

/// Entries to be written, column by column.
#[derive(Default)]
struct NewEntries {
    ids: Vec<Uuid>,
    persons: Vec<Uuid>,
    states: Vec<EntryState>,
    parties: Vec<i32>,
    joined: Vec<DateTime<Utc>>,
    priorities: Vec<i32>,
    contact_problems: Vec<bool>,
}

impl NewEntries {
    fn push(
        &mut self,
        person: PersonId,
        contact_problem: bool,
        planned: &Planned,
        now: DateTime<Utc>,
        entropy: Entropy,
    ) {
        self.ids.push(entropy.id());
        self.persons.push(person.0);
        self.states.push(match planned.state {
            PlannedState::Waiting => EntryState::Waiting,
            PlannedState::Expired => EntryState::Expired,
        });
        self.parties.push(planned.party);
        // Nobody joined after now, whatever a file says.
        self.joined.push(planned.joined_at.map_or(now, |joined| joined.min(now)));
        self.priorities.push(planned.priority);
        self.contact_problems.push(contact_problem);
    }

    /// Writes them with the next arrival numbers, and answers their ranks.
    async fn write(&self, event: &mut LockedEvent) -> Result<Vec<i64>, DbError> {
        if self.ids.is_empty() {
            return Ok(vec![]);
        }
        let (id, now) = (event.id(), event.now());
        let count = i64::try_from(self.ids.len()).unwrap_or(i64::MAX);
        let next = sqlx::query!(
            r#"UPDATE events SET next_arrival = next_arrival + $2, next_rank = next_rank + $2 WHERE id = $1
               RETURNING next_arrival - $2 AS "arrival!", next_rank - $2 AS "rank!""#,
            id.0,
            count
        )
        .fetch_one(event.connection())
        .await?;
        let arrivals: Vec<i64> = (next.arrival..next.arrival + count).collect();
        let ranks: Vec<i64> = (next.rank..next.rank + count).map(OrderKey::rank_of).collect();
        let states: Vec<String> = self.states.iter().map(|state| state.as_str().to_owned()).collect();
        sqlx::query!(
            r#"INSERT INTO entries (event_id, state_since, source, vouched, id, person_id, state, party, joined_at,
                                    priority, contact_problem, arrival, rank)
               SELECT $1, $2, $3, true, * FROM unnest($4::uuid[], $5::uuid[], $6::text[], $7::integer[],
                   $8::timestamptz[], $9::integer[], $10::boolean[], $11::bigint[], $12::bigint[])"#,
            id.0,
            now,
            EntrySource::Import.as_str(),
            &self.ids,
            &self.persons,
            &states,
            &self.parties,
            &self.joined,
            &self.priorities,
            &self.contact_problems,
            &arrivals,
            &ranks,
        )
        .execute(event.connection())
        .await?;
        Ok(ranks)
    }
}
