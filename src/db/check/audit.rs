//! I10, I17, I18: the audit is whole, tells of everything, and by it nobody was passed over in silence.

use std::collections::HashMap;

use uuid::Uuid;

use super::replay::{self, Replay};
use super::{Check, Invariant, rows};
use crate::db::DbError;
use crate::db::audit_chains::AuditRow;
use crate::domain::audit::FullRecord;
use crate::domain::audit::chain::{Chain, ChainFault};

/// How many records are read at a time.
const BATCH: i64 = 20_000;

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    events(check).await?;
    organizations(check).await?;
    complete(check).await
}

/// Both tables of records have the same columns; the order of the primary key keeps each chain together.
macro_rules! select_records {
    ($chain:literal, $table:literal, $after:expr) => {
        sqlx::query_as!(
            AuditRow,
            "SELECT "
                + $chain
                + " AS chain, seq, at, actor, actor_id, act, subject, subject_id, from_state, to_state, \
             reason, entry_id, order_key, policy_version, note_digest, hash, \
             NULL::text AS by, NULL::text AS note, NULL::bytea AS salt FROM "
                + $table
                + " \
             WHERE ("
                + $chain
                + ", seq) > ($1, $2) ORDER BY "
                + $chain
                + ", seq LIMIT $3",
            $after.0,
            $after.1,
            BATCH
        )
    };
}

/// Where a chain stands, and whose it is.
#[derive(Clone, Copy)]
struct Link {
    owner: Uuid,
    chain: Chain,
}

impl Link {
    fn of(owner: Uuid) -> Self {
        Self { owner, chain: Chain::START }
    }

    /// Takes the next record; names what does not follow.
    fn follow(&mut self, check: &mut Check<'_>, full: &FullRecord) {
        let Err(fault) = self.chain.follow(&full.record, &full.hash) else { return };
        let (owner, subject) = (self.owner, full.record.subject_id);
        let (ids, sentence) = match fault {
            ChainFault::Altered(seq) | ChainFault::Note(seq) => (
                vec![owner, subject],
                format!("audit record {seq} of {owner} does not fit the one before it"),
            ),
            ChainFault::Again(seq) => {
                (vec![owner, subject], format!("audit record {seq} of {owner} is there twice"))
            }
            ChainFault::Missing { first, last } => {
                (vec![owner], format!("audit records {first} to {last} of {owner} are missing"))
            }
        };
        check.found(Invariant::AuditChain, ids, sentence);
    }

    /// Compares the end of the chain with what its owner's row says.
    fn finish(self, check: &mut Check<'_>, heads: &mut Heads) {
        let Self { owner, chain: Chain { seq, head } } = self;
        let sentence = match heads.remove(&owner) {
            None => format!("the audit of {owner} belongs to nobody"),
            Some((expected, _)) if expected != seq => {
                format!("the audit of {owner} ends with record {seq}, and its head says {expected}")
            }
            Some((_, expected)) if expected != head => {
                format!("the head of the audit of {owner} is not the hash of its last record {seq}")
            }
            Some(_) => return,
        };
        check.found(Invariant::AuditChain, vec![owner], sentence);
    }
}

/// What the owners' rows say of their chains.
type Heads = HashMap<Uuid, (i64, Vec<u8>)>;

async fn events(check: &mut Check<'_>) -> Result<(), DbError> {
    let heads = sqlx::query!("SELECT id, audit_seq, audit_head FROM events")
        .fetch_all(&mut *check.connection)
        .await?;
    let mut heads: Heads = heads.into_iter().map(|row| (row.id, (row.audit_seq, row.audit_head))).collect();
    let (mut link, mut replay) = (Link::of(Uuid::nil()), Replay::default());
    loop {
        let batch = select_records!("event_id", "audit", (link.owner, link.chain.seq))
            .fetch_all(&mut *check.connection)
            .await?;
        let batch: Vec<(Uuid, FullRecord)> = batch.into_iter().map(AuditRow::of_chain).collect();
        let facts = replay::facts(check, batch.iter().map(|(owner, row)| (*owner, &row.record))).await?;
        for (owner, row) in &batch {
            if *owner != link.owner {
                if link.chain.seq > 0 {
                    link.finish(check, &mut heads);
                    std::mem::take(&mut replay).finish(check, link.owner).await?;
                }
                link = Link::of(*owner);
            }
            link.follow(check, row);
            replay.follow(check, *owner, &row.record, &facts);
        }
        if batch.is_empty() {
            break;
        }
    }
    if link.chain.seq > 0 {
        link.finish(check, &mut heads);
        replay.finish(check, link.owner).await?;
    }
    without_records(check, heads);
    rows!(
        check,
        AuditChain,
        r#"SELECT ARRAY[n.event_id, a.subject_id] AS "ids!",
                  format('the note of audit record %s of %s is not the one that was written', n.seq, n.event_id) AS "sentence!"
           FROM audit_notes n LEFT JOIN audit a ON a.event_id = n.event_id AND a.seq = n.seq
           WHERE a.note_digest IS DISTINCT FROM sha256(n.salt || convert_to(n.note, 'UTF8')) LIMIT $1"#
    );
    Ok(())
}

async fn organizations(check: &mut Check<'_>) -> Result<(), DbError> {
    let heads = sqlx::query!("SELECT id, audit_seq, audit_head FROM organizations")
        .fetch_all(&mut *check.connection)
        .await?;
    let mut heads: Heads = heads.into_iter().map(|row| (row.id, (row.audit_seq, row.audit_head))).collect();
    let mut link = Link::of(Uuid::nil());
    loop {
        let batch = select_records!("organization_id", "organization_audit", (link.owner, link.chain.seq))
            .fetch_all(&mut *check.connection)
            .await?;
        let last = batch.is_empty();
        for (owner, row) in batch.into_iter().map(AuditRow::of_chain) {
            if owner != link.owner {
                if link.chain.seq > 0 {
                    link.finish(check, &mut heads);
                }
                link = Link::of(owner);
            }
            link.follow(check, &row);
        }
        if last {
            break;
        }
    }
    if link.chain.seq > 0 {
        link.finish(check, &mut heads);
    }
    without_records(check, heads);
    Ok(())
}

/// Chains of which no record was found.
fn without_records(check: &mut Check<'_>, mut heads: Heads) {
    let owners: Vec<Uuid> = heads.keys().copied().collect();
    for owner in owners {
        Link::of(owner).finish(check, &mut heads);
    }
}

/// A state that no record led to.
async fn complete(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        AuditComplete,
        // Grouped, not joined: on a list that has just been imported the planner knows no sizes, and joins row by row.
        r#"SELECT ARRAY[event_id, id] AS "ids!",
                  CASE WHEN max(said) IS NULL
                       THEN format('%s %s is %s, and no audit record says so', subject, id, max(state))
                       ELSE format('%s %s is %s, and its last audit record says %s',
                                   subject, id, max(state), max(said)) END AS "sentence!"
           FROM (SELECT event_id, 'entry' AS subject, id, state, NULL AS said FROM entries
                 UNION ALL SELECT event_id, 'offer', id, state, NULL FROM offers
                 UNION ALL SELECT event_id, 'place', id, state, NULL FROM places
                 UNION ALL SELECT event_id, 'booking', id, state, NULL FROM bookings
                 UNION ALL (SELECT DISTINCT ON (event_id, subject, subject_id) event_id, subject, subject_id, NULL, to_state
                            FROM audit WHERE to_state IS NOT NULL AND subject IN ('entry', 'offer', 'place', 'booking')
                            ORDER BY event_id, subject, subject_id, seq DESC)) both_sides
           GROUP BY event_id, subject, id
           HAVING max(state) IS NOT NULL AND max(said) IS DISTINCT FROM max(state) LIMIT $1"#
    );
    rows!(
        check,
        AuditComplete,
        r#"SELECT ARRAY[event_id, subject_id] AS "ids!",
                  format('audit record %s takes %s %s from %s, and the one before left it %s',
                         seq, subject, subject_id, coalesce(from_state, 'nothing'), coalesce(before, 'nothing')) AS "sentence!"
           FROM (SELECT event_id, seq, subject, subject_id, from_state,
                        lag(to_state) OVER (PARTITION BY event_id, subject, subject_id ORDER BY seq) AS before
                 FROM audit WHERE to_state IS NOT NULL AND subject IN ('entry', 'offer', 'place', 'booking')) steps
           WHERE from_state IS DISTINCT FROM before LIMIT $1"#
    );
    Ok(())
}
