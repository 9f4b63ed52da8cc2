//! The audit chains as they are read: by page, and from their beginning to be checked.

use std::time::{Duration, Instant};

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::audit::previous;
use super::messages::write_anchor;
use super::pages_history::AuditFilter;
use super::staff::StaffMember;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::anchor::Anchor;
use crate::domain::audit::chain::{Chain, ChainFault};
use crate::domain::audit::{Act, ChainOf, FullRecord, Note, StoredRecord};
use crate::domain::ids::{EventId, OrganizationId};

/// Records read at a time while a chain is checked.
const BATCH: i64 = 2_000;

/// What checking a chain where it is kept came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainCheck {
    /// Every record follows the one before it, and the head is the last.
    Sound(Chain),
    /// A record does not follow, or its note is another.
    Fault(ChainFault),
    /// The table ends before the head, or goes on behind it.
    Length {
        /// The last record that there is.
        last: i64,
        /// The last one by the head.
        head: i64,
    },
    /// The head is not the hash of that record, the last.
    Head(i64),
    /// There was no time for all of it: the records up to that one are sound.
    Unfinished(i64),
}

impl ChainCheck {
    /// What is wrong, in a sentence; nothing where that is sound which was looked at.
    #[must_use]
    pub fn fault(&self) -> Option<String> {
        match *self {
            Self::Fault(fault) => Some(fault.to_string()),
            Self::Length { last, head } if last < head => Some(format!(
                "The audit ends with record {last}, and its head is record {head}: the end was cut off."
            )),
            Self::Length { last, head } => Some(format!(
                "The audit goes on to record {last}, and its head is record {head}: something was added past the \
                 program."
            )),
            Self::Head(last) => Some(format!(
                "The head is not the hash of record {last}, the last: one of the two was altered."
            )),
            Self::Sound(_) | Self::Unfinished(_) => None,
        }
    }

    /// The first record that is not sound.
    #[must_use]
    pub fn at(&self) -> Option<i64> {
        match *self {
            Self::Fault(ChainFault::Altered(seq) | ChainFault::Again(seq) | ChainFault::Note(seq)) => {
                Some(seq)
            }
            Self::Fault(ChainFault::Missing { first, .. }) => Some(first),
            Self::Length { last, .. } | Self::Head(last) => Some(last),
            Self::Sound(_) | Self::Unfinished(_) => None,
        }
    }
}

/// How long a chain is checked while somebody waits.
const PATIENCE: Duration = Duration::from_secs(3);

impl Db {
    /// Checks a chain for whoever waits for it, and has the metrics say so when it is not sound.
    ///
    /// # Errors
    /// As [`Db::check_chain`].
    pub async fn verify_chain(&self, of: ChainOf) -> Result<ChainCheck, DbError> {
        let check = self.check_chain(of, PATIENCE).await?;
        if check.fault().is_some() {
            self.metrics().audit_failed("verified");
        }
        Ok(check)
    }

    /// How long a chain is, and its head.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such event or organization.
    pub async fn audit_head(&self, of: impl Into<ChainOf>) -> Result<(i64, Vec<u8>), DbError> {
        match of.into() {
            ChainOf::Event(event) => {
                let row = sqlx::query!("SELECT audit_seq, audit_head FROM events WHERE id = $1", event.0)
                    .fetch_one(self.pool())
                    .await?;
                Ok((row.audit_seq, row.audit_head))
            }
            ChainOf::Organization(organization) => {
                let row = sqlx::query!(
                    "SELECT audit_seq, audit_head FROM organizations WHERE id = $1",
                    organization.0
                )
                .fetch_one(self.pool())
                .await?;
                Ok((row.audit_seq, row.audit_head))
            }
        }
    }

    /// A chain's records, the oldest first, behind the one of that number.
    ///
    /// # Errors
    /// What the database says.
    pub async fn audit_records(
        &self,
        of: impl Into<ChainOf>,
        after: i64,
        limit: i64,
    ) -> Result<Vec<FullRecord>, DbError> {
        let rows = match of.into() {
            ChainOf::Event(event) => {
                sqlx::query_as!(
                    AuditRow,
                    r#"SELECT a.event_id AS chain, a.seq, a.at, a.actor, a.actor_id, a.act, a.subject, a.subject_id,
                              a.from_state, a.to_state, a.reason, a.entry_id, a.order_key, a.policy_version,
                              a.note_digest, a.hash, s.name AS "by?", n.note AS "note?", n.salt AS "salt?"
                       FROM audit a
                       LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
                       LEFT JOIN audit_notes n ON n.event_id = a.event_id AND n.seq = a.seq
                       WHERE a.event_id = $1 AND a.seq > $2 ORDER BY a.seq LIMIT $3"#,
                    event.0,
                    after,
                    limit
                )
                .fetch_all(self.pool())
                .await?
            }
            ChainOf::Organization(organization) => {
                sqlx::query_as!(
                    AuditRow,
                    r#"SELECT a.organization_id AS chain, a.seq, a.at, a.actor, a.actor_id, a.act, a.subject,
                              a.subject_id, a.from_state, a.to_state, a.reason, a.entry_id, a.order_key,
                              a.policy_version, a.note_digest, a.hash, s.name AS "by?", NULL::text AS note,
                              NULL::bytea AS salt
                       FROM organization_audit a LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
                       WHERE a.organization_id = $1 AND a.seq > $2 ORDER BY a.seq LIMIT $3"#,
                    organization.0,
                    after,
                    limit
                )
                .fetch_all(self.pool())
                .await?
            }
        };
        Ok(rows.into_iter().map(FullRecord::from).collect())
    }

    /// The records of an event's chain that are wanted, the oldest first, behind the one of that number.
    ///
    /// # Errors
    /// What the database says.
    pub async fn audit_records_wanted(
        &self,
        event: EventId,
        wanted: &AuditFilter,
        after: i64,
        limit: i64,
    ) -> Result<Vec<FullRecord>, DbError> {
        let rows = sqlx::query_as!(
            AuditRow,
            r#"SELECT a.event_id AS chain, a.seq, a.at, a.actor, a.actor_id, a.act, a.subject, a.subject_id,
                      a.from_state, a.to_state, a.reason, a.entry_id, a.order_key, a.policy_version,
                      a.note_digest, a.hash, s.name AS "by?", n.note AS "note?", n.salt AS "salt?"
               FROM audit a
               LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
               LEFT JOIN audit_notes n ON n.event_id = a.event_id AND n.seq = a.seq
               WHERE a.event_id = $1 AND a.seq > $2 AND ($3::text IS NULL OR a.act = $3)
                 AND ($4::text IS NULL OR a.subject = $4) AND ($5::text IS NULL OR a.actor = $5)
               ORDER BY a.seq LIMIT $6"#,
            event.0,
            after,
            wanted.act.map(Act::as_str),
            wanted.subject.as_deref(),
            wanted.actor.as_deref(),
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(FullRecord::from).collect())
    }

    /// Computes a chain's hashes again, in batches, for at most `patience` and one batch more; nothing is kept from
    /// being appended meanwhile.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such event or organization; else what the database says.
    pub async fn check_chain(&self, of: ChainOf, patience: Duration) -> Result<ChainCheck, DbError> {
        let since = Instant::now();
        let (length, head) = self.audit_head(of).await?;
        let mut chain = Chain::START;
        // From below the first number, so that no record hides there.
        let mut after = i64::MIN;
        while chain.seq < length {
            if since.elapsed() >= patience {
                return Ok(ChainCheck::Unfinished(chain.seq));
            }
            let batch = self.audit_records(of, after, BATCH.min(length - chain.seq)).await?;
            if batch.is_empty() {
                return Ok(ChainCheck::Length { last: chain.seq, head: length });
            }
            for full in batch {
                if let Err(fault) = chain.follow_full(&full) {
                    return Ok(ChainCheck::Fault(fault));
                }
            }
            after = chain.seq;
        }
        if chain.head.as_slice() != head {
            return Ok(ChainCheck::Head(length));
        }
        let (last, head) = self.ends(of).await?;
        Ok(if last > head { ChainCheck::Length { last, head } } else { ChainCheck::Sound(chain) })
    }

    /// The last record that there is, and the last by the head, at one moment.
    async fn ends(&self, of: ChainOf) -> Result<(i64, i64), DbError> {
        match of {
            ChainOf::Event(event) => {
                let row = sqlx::query!(
                    r#"SELECT audit_seq AS head,
                              coalesce((SELECT max(seq) FROM audit WHERE event_id = $1), 0) AS "last!"
                       FROM events WHERE id = $1"#,
                    event.0
                )
                .fetch_one(self.pool())
                .await?;
                Ok((row.last, row.head))
            }
            ChainOf::Organization(organization) => {
                let row = sqlx::query!(
                    r#"SELECT audit_seq AS head,
                              coalesce((SELECT max(seq) FROM organization_audit WHERE organization_id = $1), 0)
                                  AS "last!"
                       FROM organizations WHERE id = $1"#,
                    organization.0
                )
                .fetch_one(self.pool())
                .await?;
                Ok((row.last, row.head))
            }
        }
    }

    /// The head of an event's chain and the instant, under the lock: no later record is of an earlier instant.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such event; [`DbError::Busy`] when it is locked for too long.
    pub async fn anchor_of_event(&self, event: EventId) -> Result<Anchor, DbError> {
        self.with_event(event, LockedEvent::anchor).await
    }

    /// The head of an organization's chain, and the instant.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such organization.
    pub async fn anchor_of_organization(&self, organization: OrganizationId) -> Result<Anchor, DbError> {
        let (seq, head) = self.audit_head(organization).await?;
        let at = Some(self.now().await?);
        Ok(Anchor { of: Some(organization.into()), seq, hash: previous(head)?, at })
    }
}

/// What came of asking for an anchor by mail.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AnchorMailed {
    /// The record of this number is on its way.
    Written(i64),
    /// It was written to them before: nothing is on record since.
    Before(i64),
}

impl Db {
    /// Has the head of a chain mailed to one of the staff, so that it is kept elsewhere.
    ///
    /// # Errors
    /// As for taking it.
    pub async fn mail_anchor(&self, of: ChainOf, reader: &StaffMember) -> Result<AnchorMailed, DbError> {
        let (seq, written) = match of {
            ChainOf::Event(event) => {
                let write = async |event: &mut LockedEvent| {
                    let anchor = event.anchor().await?;
                    let (id, now, entropy) = (event.id(), event.now(), event.entropy());
                    let written = write_anchor(event.connection(), id, reader, &anchor, now, entropy).await?;
                    Ok::<_, DbError>((anchor.seq, written))
                };
                self.with_event(event, write).await?
            }
            ChainOf::Organization(organization) => {
                let anchor = self.anchor_of_organization(organization).await?;
                let (now, entropy) = (self.now().await?, self.entropy());
                let mut connection = self.pool().acquire().await?;
                let outside = EventId(Uuid::nil());
                let written = write_anchor(&mut connection, outside, reader, &anchor, now, entropy).await?;
                (anchor.seq, written)
            }
        };
        self.hints().message.notify_one();
        Ok(if written { AnchorMailed::Written(seq) } else { AnchorMailed::Before(seq) })
    }
}

impl LockedEvent {
    async fn anchor(&mut self) -> Result<Anchor, DbError> {
        let (event, at) = (self.id(), Some(self.now()));
        let row = sqlx::query!("SELECT audit_seq, audit_head FROM events WHERE id = $1", event.0)
            .fetch_one(self.connection())
            .await?;
        Ok(Anchor { of: Some(event.into()), seq: row.audit_seq, hash: previous(row.audit_head)?, at })
    }
}

/// A record as it is selected from either table of records.
pub(super) struct AuditRow {
    pub(super) chain: Uuid,
    pub(super) seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) actor: String,
    pub(super) actor_id: Option<Uuid>,
    pub(super) act: String,
    pub(super) subject: String,
    pub(super) subject_id: Uuid,
    pub(super) from_state: Option<String>,
    pub(super) to_state: Option<String>,
    pub(super) reason: String,
    pub(super) entry_id: Option<Uuid>,
    pub(super) order_key: Option<String>,
    pub(super) policy_version: Option<i32>,
    pub(super) note_digest: Option<Vec<u8>>,
    pub(super) hash: Vec<u8>,
    pub(super) by: Option<String>,
    pub(super) note: Option<String>,
    pub(super) salt: Option<Vec<u8>>,
}

impl AuditRow {
    /// The record, with whose chain it is part of.
    pub(super) fn of_chain(self) -> (Uuid, FullRecord) {
        (self.chain, self.into())
    }
}

impl From<AuditRow> for FullRecord {
    fn from(row: AuditRow) -> Self {
        Self {
            record: StoredRecord {
                seq: row.seq,
                at: row.at,
                actor: row.actor,
                actor_id: row.actor_id,
                act: row.act,
                subject: row.subject,
                subject_id: row.subject_id,
                from_state: row.from_state,
                to_state: row.to_state,
                reason: row.reason,
                entry_id: row.entry_id,
                order_key: row.order_key,
                policy_version: row.policy_version,
                note_digest: row.note_digest,
            },
            hash: row.hash,
            by: row.by,
            note: row.salt.zip(row.note).map(|(salt, text)| Note { salt, text }),
        }
    }
}
