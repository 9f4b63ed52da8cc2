//! The audit chains: appended to in sets.

use sqlx::PgConnection;

use super::{DbError, LockedEvent};
use crate::clock::Entropy;
use crate::domain::audit::{Act, Hash, Record, StoredRecord, note_digest};
use crate::domain::ids::{BookingId, EventId, OfferId, OrganizationId, StaffId};

/// Columns of a set of records, ready for `unnest`.
#[derive(Default)]
struct Columns {
    seq: Vec<i64>,
    at: Vec<chrono::DateTime<chrono::Utc>>,
    actor: Vec<String>,
    actor_id: Vec<Option<uuid::Uuid>>,
    act: Vec<String>,
    subject: Vec<String>,
    subject_id: Vec<uuid::Uuid>,
    from_state: Vec<Option<String>>,
    to_state: Vec<Option<String>>,
    reason: Vec<String>,
    entry_id: Vec<Option<uuid::Uuid>>,
    order_key: Vec<Option<String>>,
    policy_version: Vec<Option<i32>>,
    note_digest: Vec<Option<Vec<u8>>>,
    hash: Vec<Vec<u8>>,
}

/// Appends `records` to the event's chain: one statement for the head, one for the rows, whatever their number.
pub(super) async fn append(
    connection: &mut PgConnection,
    event: EventId,
    records: &[Record],
    entropy: Entropy,
) -> Result<(), DbError> {
    if records.is_empty() {
        return Ok(());
    }
    // The event row is locked: nobody else moves the head meanwhile.
    let head = sqlx::query!("SELECT audit_seq, audit_head FROM events WHERE id = $1", event.0)
        .fetch_one(&mut *connection)
        .await?;
    let (columns, notes, seq, last) = chain(records, head.audit_seq, previous(head.audit_head)?, entropy);
    sqlx::query!(
        "UPDATE events SET audit_seq = $2, audit_head = $3, fed = false WHERE id = $1",
        event.0,
        seq,
        last.as_slice()
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        r#"INSERT INTO audit (event_id, seq, at, actor, actor_id, act, subject, subject_id, from_state, to_state, reason,
                              entry_id, order_key, policy_version, note_digest, hash)
           SELECT $1, * FROM unnest($2::bigint[], $3::timestamptz[], $4::text[], $5::uuid[], $6::text[], $7::text[],
                                    $8::uuid[], $9::text[], $10::text[], $11::text[], $12::uuid[], $13::text[],
                                    $14::integer[], $15::bytea[], $16::bytea[])"#,
        event.0,
        &columns.seq,
        &columns.at,
        &columns.actor,
        &columns.actor_id as &[Option<uuid::Uuid>],
        &columns.act,
        &columns.subject,
        &columns.subject_id,
        &columns.from_state as &[Option<String>],
        &columns.to_state as &[Option<String>],
        &columns.reason,
        &columns.entry_id as &[Option<uuid::Uuid>],
        &columns.order_key as &[Option<String>],
        &columns.policy_version as &[Option<i32>],
        &columns.note_digest as &[Option<Vec<u8>>],
        &columns.hash,
    )
    .execute(&mut *connection)
    .await?;
    for (seq, salt, note) in notes {
        // Notes are written by hand, one at a time.
        sqlx::query!(
            "INSERT INTO audit_notes (event_id, seq, salt, note) VALUES ($1, $2, $3, $4)",
            event.0,
            seq,
            salt.as_slice(),
            note
        )
        .execute(&mut *connection)
        .await?;
    }
    Ok(())
}

impl LockedEvent {
    /// Who of the staff ended this offer last, if it was staff.
    ///
    /// # Errors
    /// What the database says.
    pub async fn who_ended(&mut self, offer: OfferId) -> Result<Option<StaffId>, DbError> {
        self.who_did(offer.0, &[Act::Revoked.as_str(), Act::Removed.as_str(), Act::Declined.as_str()]).await
    }

    /// Who of the staff cancelled this booking, if it was staff.
    ///
    /// # Errors
    /// What the database says.
    pub async fn who_cancelled(&mut self, booking: BookingId) -> Result<Option<StaffId>, DbError> {
        self.who_did(booking.0, &[Act::Cancelled.as_str()]).await
    }

    /// Whether the event was public at some time.
    ///
    /// # Errors
    /// What the database says.
    pub async fn was_published(&mut self) -> Result<bool, DbError> {
        let event = self.id();
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM audit WHERE event_id = $1 AND subject_id = $1 AND act = $2) AS "was!""#,
            event.0,
            Act::Published.as_str()
        )
        .fetch_one(self.connection())
        .await?)
    }

    async fn who_did(&mut self, subject: uuid::Uuid, acts: &[&str]) -> Result<Option<StaffId>, DbError> {
        let event = self.id();
        let acts: Vec<String> = acts.iter().map(|act| (*act).to_owned()).collect();
        let who = sqlx::query!(
            "SELECT actor, actor_id FROM audit WHERE event_id = $1 AND subject_id = $2 AND act = ANY($3)
             ORDER BY seq DESC LIMIT 1",
            event.0,
            subject,
            &acts
        )
        .fetch_optional(self.connection())
        .await?;
        Ok(who.filter(|row| row.actor == "staff").and_then(|row| row.actor_id).map(StaffId))
    }
}

/// Appends one record to the organization's chain, for acts outside events.
pub(super) async fn append_to_organization(
    connection: &mut PgConnection,
    organization: OrganizationId,
    record: &Record,
) -> Result<(), DbError> {
    let head = sqlx::query!(
        "SELECT audit_seq, audit_head FROM organizations WHERE id = $1 FOR NO KEY UPDATE",
        organization.0
    )
    .fetch_one(&mut *connection)
    .await?;
    let stored = StoredRecord::from_record(head.audit_seq + 1, record, None);
    let hash = stored.hash(&previous(head.audit_head)?);
    sqlx::query!(
        "UPDATE organizations SET audit_seq = $2, audit_head = $3 WHERE id = $1",
        organization.0,
        stored.seq,
        hash.as_slice()
    )
    .execute(&mut *connection)
    .await?;
    sqlx::query!(
        "INSERT INTO organization_audit (organization_id, seq, at, actor, actor_id, act, subject, subject_id,
                                         from_state, to_state, reason, hash)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12)",
        organization.0,
        stored.seq,
        stored.at,
        stored.actor,
        stored.actor_id,
        stored.act,
        stored.subject,
        stored.subject_id,
        stored.from_state,
        stored.to_state,
        stored.reason,
        hash.as_slice()
    )
    .execute(connection)
    .await?;
    Ok(())
}

pub(super) fn previous(head: Vec<u8>) -> Result<Hash, DbError> {
    head.try_into().map_err(|_| DbError::Unreadable("audit head", "not 32 bytes".to_owned()))
}

type Notes = Vec<(i64, [u8; 32], String)>;

fn chain(records: &[Record], mut seq: i64, mut head: Hash, entropy: Entropy) -> (Columns, Notes, i64, Hash) {
    let mut columns = Columns::default();
    let mut notes = Vec::new();
    for record in records {
        seq += 1;
        let digest = record.note.as_ref().map(|note| {
            let salt = entropy.bytes();
            notes.push((seq, salt, note.clone()));
            note_digest(&salt, note)
        });
        let stored = StoredRecord::from_record(seq, record, digest);
        head = stored.hash(&head);
        columns.push(stored, head);
    }
    (columns, notes, seq, head)
}

impl Columns {
    fn push(&mut self, record: StoredRecord, hash: Hash) {
        self.seq.push(record.seq);
        self.at.push(record.at);
        self.actor.push(record.actor);
        self.actor_id.push(record.actor_id);
        self.act.push(record.act);
        self.subject.push(record.subject);
        self.subject_id.push(record.subject_id);
        self.from_state.push(record.from_state);
        self.to_state.push(record.to_state);
        self.reason.push(record.reason);
        self.entry_id.push(record.entry_id);
        self.order_key.push(record.order_key);
        self.policy_version.push(record.policy_version);
        self.note_digest.push(record.note_digest);
        self.hash.push(hash.to_vec());
    }
}
