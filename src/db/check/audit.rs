//! I10, I17, I18: the audit is whole, tells of everything, and by it nobody was passed over in silence.

use std::collections::HashMap;

use uuid::Uuid;

use super::replay::{self, Replay};
use super::{Check, Invariant, rows};
use crate::db::DbError;
use crate::db::audit::{AuditRow, FullRecord};
use crate::domain::audit::{GENESIS, Hash};

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
             NULL::text AS by, NULL::text AS note FROM "
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

/// Where a chain stands.
#[derive(Clone, Copy)]
struct Link {
    seq: i64,
    head: Hash,
}

impl Link {
    const START: Self = Self { seq: 0, head: GENESIS };

    /// Takes the next record. After a fault the chain goes on from what is stored, so that every altered record
    /// is named, and only those.
    fn follow(&mut self, check: &mut Check<'_>, row: &FullRecord) {
        let seq = row.record.seq;
        let mut fault = |ids: Vec<Uuid>, sentence: String| check.found(Invariant::AuditChain, ids, sentence);
        if seq == self.seq + 1 {
            if row.record.hash(&self.head).as_slice() != row.hash {
                fault(
                    vec![row.chain, row.record.subject_id],
                    format!("audit record {seq} of {} does not fit the one before it", row.chain),
                );
            }
        } else if seq <= self.seq {
            fault(
                vec![row.chain, row.record.subject_id],
                format!("audit record {seq} of {} is there twice", row.chain),
            );
        } else {
            let (first, last) = (self.seq + 1, seq - 1);
            fault(vec![row.chain], format!("audit records {first} to {last} of {} are missing", row.chain));
        }
        self.seq = seq;
        // A hash of another length fits nothing: the next record is named as well.
        self.head = row.hash.as_slice().try_into().unwrap_or(GENESIS);
    }

    /// Compares the end of the chain with what its owner's row says.
    fn finish(self, check: &mut Check<'_>, chain: Uuid, expected: Option<&(i64, Vec<u8>)>) {
        let Some((seq, head)) = expected else {
            check.found(
                Invariant::AuditChain,
                vec![chain],
                format!("the audit of {chain} belongs to nobody"),
            );
            return;
        };
        if *seq != self.seq {
            let sentence =
                format!("the audit of {chain} ends with record {}, and its head says {seq}", self.seq);
            check.found(Invariant::AuditChain, vec![chain], sentence);
        } else if self.head.as_slice() != head {
            let sentence =
                format!("the head of the audit of {chain} is not the hash of its last record {seq}");
            check.found(Invariant::AuditChain, vec![chain], sentence);
        }
    }
}

async fn events(check: &mut Check<'_>) -> Result<(), DbError> {
    let heads = sqlx::query!("SELECT id, audit_seq, audit_head FROM events")
        .fetch_all(&mut *check.connection)
        .await?;
    let mut heads: HashMap<Uuid, (i64, Vec<u8>)> =
        heads.into_iter().map(|row| (row.id, (row.audit_seq, row.audit_head))).collect();
    let (mut chain, mut link, mut replay) = (Uuid::nil(), Link::START, Replay::default());
    loop {
        let batch: Vec<FullRecord> = select_records!("event_id", "audit", (chain, link.seq))
            .fetch_all(&mut *check.connection)
            .await?
            .into_iter()
            .map(FullRecord::from)
            .collect();
        let facts = replay::facts(check, batch.iter().map(|row| (row.chain, &row.record))).await?;
        for row in &batch {
            if row.chain != chain {
                if link.seq > 0 {
                    link.finish(check, chain, heads.remove(&chain).as_ref());
                    std::mem::take(&mut replay).finish(check, chain).await?;
                }
                (chain, link) = (row.chain, Link::START);
            }
            link.follow(check, row);
            replay.follow(check, chain, &row.record, &facts);
        }
        if batch.is_empty() {
            break;
        }
    }
    if link.seq > 0 {
        link.finish(check, chain, heads.remove(&chain).as_ref());
        replay.finish(check, chain).await?;
    }
    without_records(check, heads);
    Ok(())
}

async fn organizations(check: &mut Check<'_>) -> Result<(), DbError> {
    let heads = sqlx::query!("SELECT id, audit_seq, audit_head FROM organizations")
        .fetch_all(&mut *check.connection)
        .await?;
    let mut heads: HashMap<Uuid, (i64, Vec<u8>)> =
        heads.into_iter().map(|row| (row.id, (row.audit_seq, row.audit_head))).collect();
    let (mut chain, mut link) = (Uuid::nil(), Link::START);
    loop {
        let batch: Vec<FullRecord> =
            select_records!("organization_id", "organization_audit", (chain, link.seq))
                .fetch_all(&mut *check.connection)
                .await?
                .into_iter()
                .map(FullRecord::from)
                .collect();
        for row in &batch {
            if row.chain != chain {
                if link.seq > 0 {
                    link.finish(check, chain, heads.remove(&chain).as_ref());
                }
                (chain, link) = (row.chain, Link::START);
            }
            link.follow(check, row);
        }
        if batch.is_empty() {
            break;
        }
    }
    if link.seq > 0 {
        link.finish(check, chain, heads.remove(&chain).as_ref());
    }
    without_records(check, heads);
    Ok(())
}

/// Chains of which no record was found.
fn without_records(check: &mut Check<'_>, heads: HashMap<Uuid, (i64, Vec<u8>)>) {
    for (chain, head) in heads {
        Link::START.finish(check, chain, Some(&head));
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
