//! What the staff's overviews read: few round trips, and nothing that grows with a list.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::events::{Begin, word};
use super::{Db, DbError};
use crate::domain::allocation::{Candidate, PassOutcome};
use crate::domain::entry::{EntryState, Hindrance, OrderKey, PausedBy};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{EntryId, EventId, OfferId, OrganizationId, PersonId};
use crate::domain::kinds::Kinds;
use crate::domain::place::PlaceCounts;
use crate::domain::policy::{Fit, Ordering, Policy};

/// One of an organization's events, with what adds up and how its list is doing.
#[derive(Clone, Debug)]
pub struct EventSummary {
    /// Its id.
    pub id: EventId,
    /// Its name.
    pub name: String,
    /// The zone of its instants.
    pub zone: Tz,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    pub state: EventState,
    /// Whether its list takes and serves people.
    pub list: ListState,
    /// Whether the rule offers by itself.
    pub served: bool,
    /// How its places add up.
    pub places: PlaceCounts,
    /// In the line.
    pub waiting: i64,
    /// In the line, and nothing hinders an offer.
    pub eligible: i64,
    /// With a live offer.
    pub offered: i64,
    /// How the last pass ended, and when last so.
    pub last_pass: Option<(PassOutcome, DateTime<Utc>)>,
    /// Since when a pass is asked for that has not run yet.
    pub pass_wanted: Option<DateTime<Utc>>,
    /// Until when an import keeps passes waiting.
    pub importing_until: Option<DateTime<Utc>>,
    /// The first of the line.
    pub head: Option<Head>,
}

/// The first of a line.
#[derive(Clone, Debug)]
pub struct Head {
    /// The entry.
    pub entry: EntryId,
    /// Who.
    pub name: String,
    /// How many places they want.
    pub party: i32,
}

/// An offer whose deadline is near.
#[derive(Clone, Debug)]
pub struct UrgentOffer {
    /// The event.
    pub event: EventId,
    /// Its name.
    pub event_name: String,
    /// The zone of its instants.
    pub zone: Tz,
    /// The offer.
    pub offer: OfferId,
    /// For whom.
    pub name: String,
    /// How many places.
    pub party: i32,
    /// The deadline.
    pub expires_at: DateTime<Utc>,
    /// Where its message is; none when there is none.
    pub message: Option<String>,
}

/// An entry that staff have to see to.
#[derive(Clone, Debug)]
pub struct HinderedEntry {
    /// The event.
    pub event: EventId,
    /// Its name.
    pub event_name: String,
    /// The entry.
    pub entry: EntryId,
    /// Whose.
    pub name: String,
    /// How many places.
    pub party: i32,
    /// What hinders an offer.
    pub hindrance: Hindrance,
}

/// Somebody near the front of a line.
#[derive(Clone, Debug)]
pub struct InLine {
    /// As the allocation sees them.
    pub candidate: Candidate,
    /// What they are called.
    pub name: String,
    /// When they joined.
    pub joined_at: DateTime<Utc>,
}

/// A live offer of one event.
#[derive(Clone, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is a fact of its own")]
pub struct LiveOffer {
    /// The offer.
    pub offer: OfferId,
    /// The entry.
    pub entry: EntryId,
    /// For whom.
    pub name: String,
    /// How many places.
    pub party: i32,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// The deadline.
    pub expires_at: DateTime<Utc>,
    /// It was accepted, and the booking service has not said yet.
    pub accepting: bool,
    /// It is a call, which keeps nothing.
    pub is_call: bool,
    /// It is the final call.
    pub is_final: bool,
    /// Its clock stands still: nobody can be told.
    pub stands: bool,
}

/// How many of the line are hindered by what; counting stops at [`HINDERED_COUNTED`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct HinderedCounts {
    /// Paused, by whomever.
    pub paused: i64,
    /// Set aside after a revoked offer.
    pub set_aside: i64,
    /// No contact works.
    pub contact_problem: i64,
    /// The date they wanted to wait until passed.
    pub until_passed: i64,
}

impl HinderedCounts {
    /// All of them.
    #[must_use]
    pub fn total(self) -> i64 {
        self.paused + self.set_aside + self.contact_problem + self.until_passed
    }
}

/// Counting the hindered stops here.
pub const HINDERED_COUNTED: i64 = 10_000;

pub(super) fn zone(name: &str) -> Result<Tz, DbError> {
    name.parse().map_err(|_| DbError::Unreadable("time zone", name.to_owned()))
}

impl Db {
    /// Events of an organization in these states, the next to start first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn event_summaries(
        &self,
        organization: OrganizationId,
        states: &[EventState],
        limit: i64,
        begin: Begin,
    ) -> Result<Vec<EventSummary>, DbError> {
        let (offset, after) = begin.parts();
        let states: Vec<String> = states.iter().map(|state| state.as_str().to_owned()).collect();
        let rows = sqlx::query!(
            r#"SELECT e.id, e.name, e.zone, e.starts_at, e.state, e.list_state, e.importing_until,
                      p.window_seconds IS NOT NULL AS "served!", r.requested_at AS "requested_at?",
                      coalesce(pl.open, 0) AS "open!", coalesce(pl.held, 0) AS "held!",
                      coalesce(pl.booked, 0) AS "booked!", coalesce(pl.going, 0) AS "going!",
                      coalesce(en.waiting, 0) AS "waiting!", coalesce(en.eligible, 0) AS "eligible!",
                      coalesce(en.offered, 0) AS "offered!",
                      lp.outcome AS "outcome?", lp.last_at AS "last_at?",
                      h.id AS "head?", h.name AS "head_name?", h.party AS "head_party?"
               FROM events e
               JOIN policies p ON p.event_id = e.id AND p.version = e.policy_version
               LEFT JOIN pass_requests r ON r.event_id = e.id
               LEFT JOIN LATERAL (
                   SELECT sum(n) FILTER (WHERE state = 'open')::bigint AS open,
                          sum(n) FILTER (WHERE state = 'held')::bigint AS held,
                          sum(n) FILTER (WHERE state = 'booked')::bigint AS booked,
                          sum(n) FILTER (WHERE retire_when_free)::bigint AS going
                   FROM place_counts WHERE event_id = e.id) pl ON true
               LEFT JOIN LATERAL (
                   SELECT sum(n) FILTER (WHERE state = 'waiting')::bigint AS waiting,
                          sum(n) FILTER (WHERE eligible)::bigint AS eligible,
                          sum(n) FILTER (WHERE state = 'offered')::bigint AS offered
                   FROM entry_counts WHERE event_id = e.id AND state IN ('waiting', 'offered')) en ON true
               LEFT JOIN LATERAL (
                   SELECT outcome, last_at FROM passes WHERE event_id = e.id ORDER BY number DESC LIMIT 1) lp ON true
               LEFT JOIN LATERAL (
                   SELECT n.id, n.party, w.name FROM entries n JOIN persons w ON w.id = n.person_id
                   WHERE n.event_id = e.id AND n.eligible ORDER BY n.band, n.round, n.rank LIMIT 1) h ON true
               WHERE e.organization_id = $1 AND e.state = ANY($2)
                 AND ($5::uuid IS NULL OR (coalesce(e.starts_at, 'infinity'), e.name, e.id) >
                      (SELECT coalesce(c.starts_at, 'infinity'), c.name, c.id FROM events c WHERE c.id = $5))
               ORDER BY e.starts_at NULLS LAST, e.name, e.id LIMIT $3 OFFSET $4"#,
            organization.0,
            &states,
            limit,
            offset,
            after
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                let outcome = row
                    .outcome
                    .as_deref()
                    .map(|outcome| word(PassOutcome::parse, "pass outcome", outcome))
                    .transpose()?;
                let head = row.head.zip(row.head_name).zip(row.head_party);
                Ok(EventSummary {
                    id: EventId(row.id),
                    name: row.name,
                    zone: zone(&row.zone)?,
                    starts_at: row.starts_at,
                    state: word(EventState::parse, "event state", &row.state)?,
                    list: word(ListState::parse, "list state", &row.list_state)?,
                    served: row.served,
                    places: PlaceCounts {
                        open: row.open,
                        held: row.held,
                        booked: row.booked,
                        retire_when_free: row.going,
                    },
                    waiting: row.waiting,
                    eligible: row.eligible,
                    offered: row.offered,
                    last_pass: outcome.zip(row.last_at),
                    pass_wanted: row.requested_at,
                    importing_until: row.importing_until,
                    head: head.map(|((id, name), party)| Head { entry: EntryId(id), name, party }),
                })
            })
            .collect()
    }

    /// How many events an organization has in each state.
    ///
    /// # Errors
    /// What the database says.
    pub async fn event_state_counts(
        &self,
        organization: OrganizationId,
    ) -> Result<Vec<(EventState, i64)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT state, count(*) AS "n!" FROM events WHERE organization_id = $1 GROUP BY state"#,
            organization.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(|row| Ok((word(EventState::parse, "event state", &row.state)?, row.n))).collect()
    }

    /// Offers of an organization whose deadline is before `until`, the nearest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn urgent_offers(
        &self,
        organization: OrganizationId,
        until: DateTime<Utc>,
        limit: i64,
    ) -> Result<Vec<UrgentOffer>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT e.id AS event, e.name AS event_name, e.zone, o.id AS "offer!", w.name, o.party AS "party!",
                      o.expires_at AS "expires_at!", m.state AS "message?"
               FROM events e
               CROSS JOIN LATERAL (
                   SELECT id, entry_id, party, expires_at, reactivations FROM offers f
                   WHERE event_id = e.id AND state = 'pending' AND expires_at <= $2
                     AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = f.event_id AND s.id = f.id)
                   ORDER BY expires_at LIMIT $3) o
               JOIN entries n ON n.event_id = e.id AND n.id = o.entry_id
               JOIN persons w ON w.id = n.person_id
               LEFT JOIN messages m ON m.event_id = e.id AND m.occasion IN ('offer', 'call') AND m.subject_id = o.id
                                   AND m.count = o.reactivations
               WHERE e.organization_id = $1 AND e.state = 'published'
               ORDER BY o.expires_at LIMIT $3"#,
            organization.0,
            until,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(UrgentOffer {
                    event: EventId(row.event),
                    event_name: row.event_name,
                    zone: zone(&row.zone)?,
                    offer: OfferId(row.offer),
                    name: row.name,
                    party: row.party,
                    expires_at: row.expires_at,
                    message: row.message,
                })
            })
            .collect()
    }

    /// Entries of an organization that only staff can help: set aside, or none of whose contacts works.
    ///
    /// # Errors
    /// What the database says.
    pub async fn entries_for_staff(
        &self,
        organization: OrganizationId,
        limit: i64,
    ) -> Result<Vec<HinderedEntry>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT e.id AS event, e.name AS event_name, n.id AS "entry!", w.name, n.party AS "party!",
                      n.set_aside AS "set_aside!"
               FROM events e
               CROSS JOIN LATERAL (
                   SELECT id, person_id, party, set_aside FROM entries
                   WHERE event_id = e.id AND state = 'waiting' AND NOT eligible AND paused IS NULL
                     AND (set_aside OR (contact_problem AND NOT offer_anyway))
                   ORDER BY band, round, rank LIMIT $2) n
               JOIN persons w ON w.id = n.person_id
               WHERE e.organization_id = $1 AND e.state = 'published'
               ORDER BY e.starts_at NULLS LAST, e.id LIMIT $2"#,
            organization.0,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| HinderedEntry {
                event: EventId(row.event),
                event_name: row.event_name,
                entry: EntryId(row.entry),
                name: row.name,
                party: row.party,
                hindrance: if row.set_aside { Hindrance::SetAside } else { Hindrance::ContactProblem },
            })
            .collect())
    }

    /// The front of a line, as far as the next choice needs it: in order, and the first of each size of party, under
    /// [`Fit::Fill`], and of all who want the same.
    ///
    /// # Errors
    /// What the database says.
    pub async fn front_of_line(
        &self,
        event: EventId,
        fit: Fit,
        last_band: i16,
    ) -> Result<Vec<InLine>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT n.id, n.person_id, n.band, n.round, n.rank, n.party, n.declined_at, n.joined_at, w.name,
                      (SELECT k.kinds FROM wants k WHERE k.event_id = $1 AND k.id = n.wants) AS kinds
               FROM entries n JOIN persons w ON w.id = n.person_id
               WHERE n.event_id = $1 AND n.id IN (
                   (SELECT id FROM entries WHERE event_id = $1 AND eligible AND band <= $3 ORDER BY band, round, rank LIMIT 50)
                   UNION (SELECT first.id FROM (SELECT * FROM wanted_in_line($1) LIMIT 500) p, LATERAL (
                       SELECT id FROM entries WHERE event_id = $1 AND eligible AND wants = p.wants AND party = p.party
                         AND ($2 OR p.wants <> 0) AND band <= $3
                       ORDER BY band, round, rank LIMIT 3) AS first))
               ORDER BY n.band, n.round, n.rank"#,
            event.0,
            fit == Fit::Fill,
            last_band
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| InLine {
                candidate: Candidate {
                    entry: EntryId(row.id),
                    person: PersonId(row.person_id),
                    key: OrderKey { band: row.band, round: row.round, rank: row.rank },
                    party: row.party,
                    declined_at: row.declined_at,
                    kinds: row.kinds.map_or(Kinds::ALL, Kinds::from_iter),
                },
                name: row.name,
                joined_at: row.joined_at,
            })
            .collect())
    }

    /// The front of the line as it would be under another rule: what the order in force gave is not counted then.
    ///
    /// # Errors
    /// What the database says.
    pub async fn line_under(
        &self,
        event: EventId,
        in_force: Ordering,
        policy: &Policy,
    ) -> Result<Vec<InLine>, DbError> {
        let mixed = matches!(in_force, Ordering::Priority | Ordering::Lottery) && in_force != policy.ordering;
        if !mixed {
            return self.front_of_line(event, policy.fit, policy.last_band()).await;
        }
        // Only somebody who edits the rule asks for this: it may look at everybody.
        let rows = sqlx::query!(
            r#"SELECT n.id, n.person_id, n.round, coalesce(n.line_rank, n.rank) AS "rank!", n.party, n.declined_at,
                      n.joined_at, w.name,
                      (SELECT k.kinds FROM wants k WHERE k.event_id = $1 AND k.id = n.wants) AS kinds
               FROM entries n JOIN persons w ON w.id = n.person_id
               WHERE n.event_id = $1 AND n.eligible ORDER BY n.round, coalesce(n.line_rank, n.rank) LIMIT 200"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| InLine {
                candidate: Candidate {
                    entry: EntryId(row.id),
                    person: PersonId(row.person_id),
                    key: OrderKey { band: 0, round: row.round, rank: row.rank },
                    party: row.party,
                    declined_at: row.declined_at,
                    kinds: row.kinds.map_or(Kinds::ALL, Kinds::from_iter),
                },
                name: row.name,
                joined_at: row.joined_at,
            })
            .collect())
    }

    /// Live offers of an event, the nearest deadline first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn live_offers(&self, event: EventId, limit: i64) -> Result<Vec<LiveOffer>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT o.id, o.entry_id, o.party, o.made_at, o.expires_at, o.kind = 'call' AS "is_call!", w.name,
                      o.state = 'accepting' AS "accepting!", o.kind = 'call' AND o.made_reason = 'final_call' AS "is_final!",
                      EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id) AS "stands!"
               FROM offers o JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
               JOIN persons w ON w.id = n.person_id
               WHERE o.event_id = $1 AND o.state IN ('pending', 'accepting') ORDER BY o.expires_at, o.id LIMIT $2"#,
            event.0,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| LiveOffer {
                offer: OfferId(row.id),
                entry: EntryId(row.entry_id),
                name: row.name,
                party: row.party,
                made_at: row.made_at,
                expires_at: row.expires_at,
                accepting: row.accepting,
                is_call: row.is_call,
                is_final: row.is_final,
                stands: row.stands,
            })
            .collect())
    }

    /// How many of a line are hindered by what; with `before`, only those ahead of that key.
    ///
    /// # Errors
    /// What the database says.
    pub async fn hindered_counts(
        &self,
        event: EventId,
        before: Option<OrderKey>,
    ) -> Result<HinderedCounts, DbError> {
        let before = before.unwrap_or(OrderKey { band: i16::MAX, round: i32::MAX, rank: i64::MAX });
        let row = sqlx::query!(
            r#"SELECT count(*) FILTER (WHERE paused IS NOT NULL) AS "paused!",
                      count(*) FILTER (WHERE paused IS NULL AND set_aside) AS "set_aside!",
                      count(*) FILTER (WHERE paused IS NULL AND NOT set_aside AND contact_problem AND NOT offer_anyway)
                          AS "contact_problem!",
                      count(*) FILTER (WHERE paused IS NULL AND NOT set_aside
                          AND NOT (contact_problem AND NOT offer_anyway) AND until_passed) AS "until_passed!"
               FROM (SELECT paused, set_aside, contact_problem, offer_anyway, until_passed FROM entries
                     WHERE event_id = $1 AND state = 'waiting' AND NOT eligible AND (band, round, rank) < ($2, $3, $4)
                     LIMIT $5) hindered"#,
            event.0,
            before.band,
            before.round,
            before.rank,
            HINDERED_COUNTED
        )
        .fetch_one(self.pool())
        .await?;
        Ok(HinderedCounts {
            paused: row.paused,
            set_aside: row.set_aside,
            contact_problem: row.contact_problem,
            until_passed: row.until_passed,
        })
    }

    /// Since when a pass of this event is asked for that has not run yet.
    ///
    /// # Errors
    /// What the database says.
    pub async fn pass_wanted(&self, event: EventId) -> Result<Option<DateTime<Utc>>, DbError> {
        Ok(sqlx::query_scalar!("SELECT requested_at FROM pass_requests WHERE event_id = $1", event.0)
            .fetch_optional(self.pool())
            .await?
            .flatten())
    }
}

/// What hinders an offer to somebody in the line, from the columns that say so.
pub(super) fn hindrance(
    state: EntryState,
    paused: Option<&str>,
    set_aside: bool,
    contact_problem: bool,
    until_passed: bool,
) -> Result<Option<Hindrance>, DbError> {
    if state != EntryState::Waiting {
        return Ok(None);
    }
    Ok(if let Some(by) = paused {
        Some(Hindrance::Paused(word(PausedBy::parse, "pause", by)?))
    } else if set_aside {
        Some(Hindrance::SetAside)
    } else if contact_problem {
        Some(Hindrance::ContactProblem)
    } else if until_passed {
        Some(Hindrance::UntilPassed)
    } else {
        None
    })
}
