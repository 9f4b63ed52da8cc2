//! I10: the audit of an event read again from its first record, keeping who was eligible at every step, so that each
//! offer made by the rule can be held against everybody who was before it.
//!
//! Those who were passed over are described by sets (see the table `skips`). The line is kept per party size, so that
//! a long queue of parties that do not fit costs a probe per size, not a look at each of them.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Check, Invariant};
use crate::db::DbError;
use crate::db::draws::unpacked;
use crate::db::events::word;
use crate::domain::audit::{Act, StoredRecord};
use crate::domain::draw::draw_number;
use crate::domain::entry::{EntryState, OrderKey};
use crate::domain::ids::EntryId;
use crate::domain::kinds::Kinds;
use crate::domain::policy::{Ordering, band_of_draw};
use crate::domain::reason::Reason;

/// What the records of one batch refer to.
pub(super) struct Facts {
    /// The offers made by passes and never reactivated, with the number of the pass.
    by_rule: HashMap<Uuid, i64>,
    /// The party of each entry, and what it wanted at first.
    parties: HashMap<Uuid, (i32, i32)>,
    /// The kinds of places that are wanted, by event and number.
    wants: HashMap<(Uuid, i32), Kinds>,
    /// Whom each pass passed over.
    skips: HashMap<(Uuid, i64), Skipped>,
    /// The order of each version of the rule.
    orders: HashMap<(Uuid, i32), Ordering>,
    /// What each draw ranked, in order, and the first rank.
    rankings: HashMap<(Uuid, i32), (Vec<EntryId>, i64)>,
}

/// The sets recorded by one pass.
#[derive(Default)]
struct Skipped {
    /// Parties above this size, before this key.
    did_not_fit: Option<(i32, OrderKey)>,
    /// Whoever declined at or after this instant, before this key.
    had_declined: Option<(DateTime<Utc>, OrderKey)>,
    /// Whoever needs more than were left of the kinds they want, before this key.
    did_not_match: Option<(Vec<(i32, i32)>, OrderKey)>,
}

impl Skipped {
    /// The largest party that is not covered whatever else is true of it, for entries before `key`.
    fn largest_that_fits(&self, key: OrderKey) -> i32 {
        self.did_not_fit.filter(|(_, before)| key <= *before).map_or(i32::MAX, |(above, _)| above)
    }

    /// Whether too few of these kinds were left for a party of this size, for entries before `key`.
    fn too_few_for(&self, party: i32, kinds: &Kinds, key: OrderKey) -> bool {
        self.did_not_match.as_ref().filter(|(_, before)| key <= *before).is_some_and(|(left, _)| {
            left.iter().filter(|(kind, _)| kinds.has(*kind)).map(|(_, count)| count).sum::<i32>() < party
        })
    }

    fn covers(&self, key: OrderKey, declined_at: Option<DateTime<Utc>>) -> bool {
        self.had_declined
            .zip(declined_at)
            .is_some_and(|((since, before), declined)| declined >= since && key < before)
    }
}

/// Reads what the records of a batch refer to: three questions, however many records.
pub(super) async fn facts(
    check: &mut Check<'_>,
    records: impl Iterator<Item = (Uuid, &StoredRecord)>,
) -> Result<Facts, DbError> {
    let (mut offers, mut entries) = (Vec::new(), HashSet::new());
    let (mut rules, mut draws) = (Vec::new(), Vec::new());
    for (event, record) in records {
        match Act::parse(&record.act) {
            Some(Act::RuleChanged) => rules.push(event),
            Some(Act::Drawn) => draws.push(event),
            _ => {}
        }
        match record.subject.as_str() {
            "offer" if record.act == Act::Offered.as_str() => offers.push(record.subject_id),
            "entry" | "wants" => {
                entries.insert(record.subject_id);
            }
            _ => {}
        }
    }
    let entries: Vec<Uuid> = entries.into_iter().collect();
    let offers = sqlx::query!(
        r#"SELECT event_id, id, pass_number AS "pass!" FROM offers
           WHERE id = ANY($1) AND pass_number IS NOT NULL AND reactivations = 0"#,
        &offers
    )
    .fetch_all(&mut *check.connection)
    .await?;
    let parties = sqlx::query!(
        r#"SELECT id, coalesce((SELECT a.from_state::integer FROM audit a
                                WHERE a.event_id = e.event_id AND a.subject_id = e.id AND a.act = 'party_changed'
                                ORDER BY a.seq LIMIT 1), e.party) AS "party!",
                  coalesce((SELECT a.from_state::integer FROM audit a
                            WHERE a.event_id = e.event_id AND a.subject_id = e.id AND a.act = 'wants_changed'
                            ORDER BY a.seq LIMIT 1), e.wants) AS "wants!"
           FROM entries e WHERE id = ANY($1)"#,
        &entries
    )
        .fetch_all(&mut *check.connection)
        .await?;
    let (events, passes): (Vec<Uuid>, Vec<i64>) =
        offers.iter().map(|offer| (offer.event_id, offer.pass)).collect::<HashSet<_>>().into_iter().unzip();
    let rows = sqlx::query!(
        "SELECT s.event_id, s.pass_number, s.party_above, s.declined_since, s.kinds, s.counts, s.band, s.round, s.rank
         FROM unnest($1::uuid[], $2::bigint[]) AS made(event_id, pass_number) JOIN skips s USING (event_id, pass_number)",
        &events,
        &passes
    )
    .fetch_all(&mut *check.connection)
    .await?;
    let mut skips: HashMap<_, Skipped> = HashMap::new();
    for row in rows {
        let before = OrderKey { band: row.band, round: row.round, rank: row.rank };
        let skipped = skips.entry((row.event_id, row.pass_number)).or_default();
        skipped.did_not_fit = skipped.did_not_fit.or(row.party_above.map(|above| (above, before)));
        if let Some((kinds, counts)) = row.kinds.zip(row.counts) {
            skipped.did_not_match = Some((kinds.into_iter().zip(counts).collect(), before));
        }
        skipped.had_declined = skipped.had_declined.or(row.declined_since.map(|since| (since, before)));
    }
    let orders =
        sqlx::query!("SELECT event_id, version, ordering FROM policies WHERE event_id = ANY($1)", &rules)
            .fetch_all(&mut *check.connection)
            .await?;
    let rankings = sqlx::query!(
        r#"SELECT event_id, number, ranking AS "ranking!", first_rank AS "first!" FROM draws
           WHERE event_id = ANY($1) AND drawn_at IS NOT NULL"#,
        &draws
    )
    .fetch_all(&mut *check.connection)
    .await?;
    let wants = sqlx::query!("SELECT event_id, id, kinds FROM wants WHERE event_id = ANY($1)", &events)
        .fetch_all(&mut *check.connection)
        .await?;
    Ok(Facts {
        orders: orders
            .into_iter()
            .map(|row| Ok(((row.event_id, row.version), word(Ordering::parse, "ordering", &row.ordering)?)))
            .collect::<Result<_, DbError>>()?,
        rankings: rankings
            .into_iter()
            .map(|row| ((row.event_id, row.number), (unpacked(&row.ranking), row.first)))
            .collect(),
        by_rule: offers.into_iter().map(|offer| (offer.id, offer.pass)).collect(),
        parties: parties.into_iter().map(|entry| (entry.id, (entry.party, entry.wants))).collect(),
        wants: wants
            .into_iter()
            .map(|row| ((row.event_id, row.id), row.kinds.into_iter().collect()))
            .collect(),
        skips,
    })
}

/// An entry as the records so far tell of it.
#[derive(Clone, Copy)]
struct Line {
    key: OrderKey,
    /// The rank in the line, where a draw gave it another.
    undrawn: Option<i64>,
    party: i32,
    /// The number of what it wants.
    wants: i32,
    waiting: bool,
    hindered: Hindered,
    declined_at: Option<DateTime<Utc>>,
}

/// What makes a waiting entry be passed over without a recorded skip, as an entry's own flags do.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "they come and go by themselves, as those of an entry do")]
struct Hindered {
    paused: bool,
    set_aside: bool,
    until_passed: bool,
    contact_problem: bool,
    /// Staff offer places in spite of the contact problem.
    offer_anyway: bool,
}

impl Line {
    fn eligible(&self) -> bool {
        let Hindered { paused, set_aside, until_passed, contact_problem, offer_anyway } = self.hindered;
        self.waiting && !(paused || set_aside || until_passed || contact_problem && !offer_anyway)
    }

    /// Whether nothing of it would matter if it were ever offered anything again.
    fn is_blank(&self) -> bool {
        self.hindered == Hindered::default() && self.declined_at.is_none()
    }
}

/// One event's line, as far as its records were read.
#[derive(Default)]
pub(super) struct Replay {
    lines: HashMap<Uuid, Line>,
    /// The eligible, per party size and what they want, in order.
    eligible: BTreeMap<(i32, i32), BTreeSet<(OrderKey, Uuid)>>,
    /// Named once, however often they were passed over.
    named: HashSet<Uuid>,
}

impl Replay {
    /// Takes the next record of the event.
    pub(super) fn follow(
        &mut self,
        check: &mut Check<'_>,
        event: Uuid,
        record: &StoredRecord,
        facts: &Facts,
    ) {
        match record.subject.as_str() {
            "entry" | "wants" => self.entry(record, facts),
            "offer" if record.act == Act::Offered.as_str() => self.offered(check, event, record, facts),
            "event" => match Act::parse(&record.act) {
                Some(Act::RuleChanged) => self.rule_changed(event, record, facts),
                Some(Act::Drawn) => self.drawn(event, record, facts),
                _ => {}
            },
            _ => {}
        }
    }

    /// Another order takes back what the one before gave.
    fn rule_changed(&mut self, event: Uuid, record: &StoredRecord, facts: &Facts) {
        let version = record.policy_version.unwrap_or_default();
        let order = |version| facts.orders.get(&(event, version)).copied();
        if order(version - 1) != order(version) {
            let ahead: Vec<(Uuid, Line)> = self
                .lines
                .iter()
                .filter(|(_, line)| line.key.band < 0)
                .map(|(id, line)| (*id, *line))
                .collect();
            for (id, mut line) in ahead {
                self.take_out(id, &line);
                line.key.band = 0;
                line.key.rank = line.undrawn.take().unwrap_or(line.key.rank);
                self.put_in(id, line);
            }
        }
    }

    /// A draw gives its pool ranks of their own.
    fn drawn(&mut self, event: Uuid, record: &StoredRecord, facts: &Facts) {
        let number = record.to_state.as_deref().and_then(draw_number).unwrap_or_default();
        let Some((ranking, first)) = facts.rankings.get(&(event, number)) else { return };
        for (entry, rank) in ranking.iter().zip(*first..) {
            let Some(mut line) = self.lines.get(&entry.0).copied() else { continue };
            self.take_out(entry.0, &line);
            line.undrawn = line.undrawn.or(Some(line.key.rank));
            line.key = OrderKey { band: band_of_draw(number), round: 0, rank: OrderKey::rank_of(rank) };
            self.put_in(entry.0, line);
        }
    }

    fn entry(&mut self, record: &StoredRecord, facts: &Facts) {
        let id = record.subject_id;
        let key = record.order_key.as_deref().and_then(OrderKey::parse);
        let known = self.lines.get(&id).copied();
        // Without a key, a party or a row it was never in the line; that is for I17 and I18 to tell.
        let Some(mut line) = known.or_else(|| {
            let (party, wants) = *facts.parties.get(&id)?;
            Some(Line {
                key: key?,
                undrawn: None,
                party,
                wants,
                waiting: false,
                hindered: Hindered::default(),
                declined_at: None,
            })
        }) else {
            return;
        };
        self.take_out(id, &line);
        line.key = key.unwrap_or(line.key);
        // Who was drawn and went to the end of the line is in it again.
        line.undrawn = line.undrawn.filter(|_| line.key.band < 0);
        let state = record.to_state.as_deref().and_then(EntryState::parse);
        if let Some(state) = state {
            line.waiting = state == EntryState::Waiting;
        }
        let reason = Reason::parse(&record.reason);
        let asked = || record.to_state.as_deref().and_then(|number| number.parse().ok());
        let hindered = &mut line.hindered;
        match Act::parse(&record.act) {
            Some(Act::Paused) if reason == Some(Reason::UntilPassed) => hindered.until_passed = true,
            Some(Act::Paused) => hindered.paused = true,
            Some(Act::Resumed) => hindered.paused = false,
            Some(Act::SetAside) => hindered.set_aside = true,
            Some(Act::Placed) => {
                hindered.set_aside = false;
                hindered.offer_anyway = hindered.contact_problem;
            }
            // Staff offer to whom they want, whatever hindered it.
            Some(Act::Offered | Act::Reactivated) => {
                hindered.paused = false;
                hindered.set_aside = false;
            }
            Some(Act::Confirmed) => hindered.contact_problem = false,
            Some(Act::ContactChanged) => {
                hindered.contact_problem = reason == Some(Reason::ContactProblem);
            }
            Some(Act::WantsChanged) => line.wants = asked().unwrap_or_default(),
            Some(Act::PartyChanged) => line.party = asked().unwrap_or(line.party),
            Some(Act::Declined) => line.declined_at = Some(record.at),
            // A call that went unanswered is not made again for the same places.
            Some(Act::Expired) if reason == Some(Reason::CallEnded) => line.declined_at = Some(record.at),
            _ => {}
        }
        let over = state.is_some_and(|state| !state.is_live() && state != EntryState::Closed);
        if over {
            line.hindered.paused = false;
        }
        if over && line.is_blank() {
            self.lines.remove(&id);
        } else {
            self.put_in(id, line);
        }
    }

    /// Holds an offer against everybody who was before it.
    fn offered(&mut self, check: &mut Check<'_>, event: Uuid, record: &StoredRecord, facts: &Facts) {
        let Some(entry) = record.entry_id else { return };
        if let Some(line) = self.lines.get(&entry).copied() {
            // The entry's own record follows; the others of its pass must not be held against it meanwhile.
            self.take_out(entry, &line);
            self.put_in(entry, Line { waiting: false, ..line });
        }
        let Some(pass) = facts.by_rule.get(&record.subject_id) else { return };
        let Some(key) = record.order_key.as_deref().and_then(OrderKey::parse) else { return };
        let none = Skipped::default();
        let skipped = facts.skips.get(&(event, *pass)).unwrap_or(&none);
        let mut passed_over = Vec::new();
        let fits = (skipped.largest_that_fits(key), i32::MAX);
        for ((party, wants), line) in self.eligible.range(..=fits) {
            let kinds = facts.wants.get(&(event, *wants)).unwrap_or(&Kinds::ALL);
            if skipped.too_few_for(*party, kinds, key) {
                continue;
            }
            for (before, other) in line.range(..(key, Uuid::nil())) {
                let declined_at = self.lines.get(other).and_then(|line| line.declined_at);
                if !skipped.covers(*before, declined_at) && self.named.insert(*other) {
                    passed_over.push((*before, *other));
                }
            }
        }
        for (before, other) in passed_over {
            let sentence = format!(
                "pass {pass} made offer {} to entry {entry} at {key}, and entry {other} was eligible at {before} \
                 without a recorded skip",
                record.subject_id
            );
            check.found(Invariant::PassedOver, vec![event, other, record.subject_id], sentence);
        }
    }

    fn take_out(&mut self, id: Uuid, line: &Line) {
        if line.eligible()
            && let Some(order) = self.eligible.get_mut(&(line.party, line.wants))
        {
            order.remove(&(line.key, id));
        }
    }

    fn put_in(&mut self, id: Uuid, line: Line) {
        if line.eligible() {
            self.eligible.entry((line.party, line.wants)).or_default().insert((line.key, id));
        }
        self.lines.insert(id, line);
    }

    /// Compares the line at the end of the records with the rows: what is eligible, or stands elsewhere, without a
    /// record that made it so, is a transition without an audit record.
    pub(super) async fn finish(self, check: &mut Check<'_>, event: Uuid) -> Result<(), DbError> {
        let eligible: Vec<Uuid> =
            self.eligible.values().flat_map(|order| order.iter().map(|(_, id)| *id)).collect();
        let rows = sqlx::query!(
            r#"SELECT id, eligible, band, round, rank,
                      (EXISTS (SELECT FROM draws WHERE event_id = $1 AND applied < pool_size AND drawn_at IS NOT NULL)
                       OR (SELECT reordering FROM events WHERE id = $1)) AS "under_way!"
               FROM entries WHERE event_id = $1 AND state = 'waiting' AND (eligible OR id = ANY($2))"#,
            event,
            &eligible
        )
        .fetch_all(&mut *check.connection)
        .await?;
        for row in rows {
            let Some(line) = self.lines.get(&row.id) else { continue };
            let key = OrderKey { band: row.band, round: row.round, rank: row.rank };
            let says = |eligible| if eligible { "eligible" } else { "passed over" };
            let sentence = if row.eligible != line.eligible() {
                let (row_says, records_say) = (says(row.eligible), says(line.eligible()));
                format!("entry {} is {row_says}, and by its audit records it is {records_say}", row.id)
            } else if key != line.key && !row.under_way {
                format!("entry {} stands at {key}, and by its audit records at {}", row.id, line.key)
            } else {
                continue;
            };
            check.found(Invariant::AuditComplete, vec![event, row.id], sentence);
        }
        Ok(())
    }
}
