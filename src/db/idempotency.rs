//! Acts that a caller names by a key of its own are done once, and answered the same for a day.
//!
//! A request claims its key by a lease before it acts. What the act came to, its receipt, is written in the transaction
//! that did it ([`LockedEvent::remember`]), fenced by the lease: whoever finds the lease gone does nothing. The whole
//! answer is kept afterwards. So a crash between the two loses an answer, never the knowledge that the work is done,
//! and the next request with the same key is told what it came to.

use std::future::Future;

use chrono::{DateTime, Duration, Utc};
use serde::Serialize;
use serde::de::DeserializeOwned;
use sha2::{Digest, Sha256};
use sqlx::PgConnection;
use uuid::Uuid;

use super::{Db, DbError, LockedEvent};

/// So long an answer is kept.
pub const KEPT_FOR: Duration = Duration::hours(24);

/// So long nobody else may act under a claimed key. A request takes a fraction of this; a process that died is
/// followed by the next try after it.
const LEASE: Duration = Duration::seconds(60);

/// A key that is this request's to act under.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Claim {
    key_hash: [u8; 32],
    lease: Uuid,
    /// The first that was claimed under the key: after it is forgotten, the same key is another act.
    made_at: DateTime<Utc>,
}

/// An answer as it was given.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Kept {
    /// The status.
    pub status: u16,
    /// Headers that belong to what is said: type, address, version.
    pub headers: Vec<(String, String)>,
    /// The body, byte for byte.
    pub body: Vec<u8>,
}

/// What came of claiming a key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Claimed {
    /// Act.
    Mine(Claim),
    /// It was answered before, like this.
    Answered(Kept),
    /// It was used for something else.
    OtherBody,
    /// Somebody is acting under it; so many seconds until that is given up.
    InFlight(i64),
}

tokio::task_local! {
    static CLAIM: Claim;
}

/// Runs `work` under a claim: what it does is remembered as what the key came to.
pub async fn under<T>(claim: Claim, work: impl Future<Output = T>) -> T {
    CLAIM.scope(claim, work).await
}

/// A name for what this request does, the same whenever it is repeated under its key; none without one.
#[must_use]
pub fn name_of_act() -> Option<Uuid> {
    let claim = claim()?;
    let digest = Sha256::new()
        .chain_update(b"fairlist act")
        .chain_update(claim.key_hash)
        .chain_update(claim.made_at.timestamp_micros().to_be_bytes())
        .finalize();
    let mut name = [0; 16];
    name.copy_from_slice(&digest[..16]);
    Some(Uuid::from_bytes(name))
}

/// What this request claimed, for whoever acts for it in another task.
#[must_use]
pub fn claim() -> Option<Claim> {
    CLAIM.try_with(|claim| *claim).ok()
}

impl LockedEvent {
    /// What the act that this request names came to, if it was done before.
    ///
    /// # Errors
    /// [`DbError::Unavailable`] when the request took so long that another may be acting under its key.
    pub async fn done_before<T: DeserializeOwned>(&mut self) -> Result<Option<T>, DbError> {
        done_before(self.connection()).await
    }

    /// Writes down what the act that this request names came to, together with it. One act a request.
    ///
    /// # Errors
    /// What the database says.
    pub async fn remember<T: Serialize + Sync>(&mut self, outcome: &T) -> Result<(), DbError> {
        remember(self.connection(), outcome).await
    }

    /// Whether this request's act was done before. If not, it is written down that it is done now: for acts that take
    /// several transactions, and whose state says the rest.
    ///
    /// # Errors
    /// As [`LockedEvent::done_before`].
    pub async fn did_before(&mut self) -> Result<bool, DbError> {
        let did = self.done_before::<bool>().await?.unwrap_or(false);
        if !did {
            self.remember(&true).await?;
        }
        Ok(did)
    }

    /// What the acts of several requests that are decided together came to, where they were done before.
    ///
    /// # Errors
    /// As [`LockedEvent::done_before`].
    pub async fn receipts<T: DeserializeOwned>(
        &mut self,
        claims: &[Option<Claim>],
    ) -> Result<Vec<Option<T>>, DbError> {
        receipts(self.connection(), claims).await
    }

    /// Writes down what the acts of several requests came to.
    ///
    /// # Errors
    /// What the database says.
    pub async fn remember_each<T: Serialize + Sync>(
        &mut self,
        outcomes: &[(Claim, T)],
    ) -> Result<(), DbError> {
        remember_each(self.connection(), outcomes).await
    }
}

/// The same, in a transaction outside events.
pub(super) async fn done_before<T: DeserializeOwned>(
    connection: &mut PgConnection,
) -> Result<Option<T>, DbError> {
    Ok(receipts(connection, &[claim()]).await?.pop().flatten())
}

/// The same, in a transaction outside events.
pub(super) async fn remember<T: Serialize + Sync>(
    connection: &mut PgConnection,
    outcome: &T,
) -> Result<(), DbError> {
    match claim() {
        Some(claim) => remember_each(connection, &[(claim, outcome)]).await,
        None => Ok(()),
    }
}

async fn receipts<T: DeserializeOwned>(
    connection: &mut PgConnection,
    claims: &[Option<Claim>],
) -> Result<Vec<Option<T>>, DbError> {
    let mine: Vec<&Claim> = claims.iter().flatten().collect();
    if mine.is_empty() {
        return Ok(claims.iter().map(|_| None).collect());
    }
    let hashes: Vec<Vec<u8>> = mine.iter().map(|claim| claim.key_hash.to_vec()).collect();
    let leases: Vec<Uuid> = mine.iter().map(|claim| claim.lease).collect();
    let rows = sqlx::query!(
        r#"SELECT k.key_hash, k.receipt FROM idempotency_keys k
           JOIN unnest($1::bytea[], $2::uuid[]) AS c(key_hash, lease) ON c.key_hash = k.key_hash AND c.lease = k.lease
           FOR UPDATE OF k"#,
        &hashes,
        &leases
    )
    .fetch_all(connection)
    .await?;
    if rows.len() != mine.len() {
        return Err(DbError::Unavailable(sqlx::Error::WorkerCrashed));
    }
    let receipt = |claim: &Option<Claim>| {
        let row = rows.iter().find(|row| claim.is_some_and(|claim| row.key_hash == claim.key_hash))?;
        row.receipt.clone()
    };
    claims
        .iter()
        .map(|claim| {
            receipt(claim)
                .map(|receipt| {
                    serde_json::from_value(receipt)
                        .map_err(|error| DbError::Unreadable("receipt of an act", error.to_string()))
                })
                .transpose()
        })
        .collect()
}

async fn remember_each<T: Serialize + Sync>(
    connection: &mut PgConnection,
    outcomes: &[(Claim, T)],
) -> Result<(), DbError> {
    if outcomes.is_empty() {
        return Ok(());
    }
    let hashes: Vec<Vec<u8>> = outcomes.iter().map(|(claim, _)| claim.key_hash.to_vec()).collect();
    let leases: Vec<Uuid> = outcomes.iter().map(|(claim, _)| claim.lease).collect();
    let receipts = outcomes
        .iter()
        .map(|(_, outcome)| serde_json::to_value(outcome))
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| DbError::Unreadable("receipt of an act", error.to_string()))?;
    let changed = sqlx::query!(
        "UPDATE idempotency_keys k SET receipt = r.receipt
         FROM unnest($1::bytea[], $2::uuid[], $3::jsonb[]) AS r(key_hash, lease, receipt)
         WHERE k.key_hash = r.key_hash AND k.lease = r.lease AND k.receipt IS NULL",
        &hashes,
        &leases,
        &receipts
    )
    .execute(connection)
    .await?
    .rows_affected();
    super::must_change(changed, outcomes.len(), "receipt of an act")
}

impl Db {
    /// Claims a key for the request with this body.
    ///
    /// # Errors
    /// What the database says.
    pub async fn claim_key(&self, key_hash: [u8; 32], body_hash: [u8; 32]) -> Result<Claimed, DbError> {
        let now = self.session_now().await?;
        let lease = self.entropy().id();
        loop {
            let mine = sqlx::query_scalar!(
                r#"INSERT INTO idempotency_keys AS k (key_hash, body_hash, made_at, lease, leased_until)
                   VALUES ($1, $2, $3, $4, $5)
                   ON CONFLICT (key_hash) DO UPDATE SET lease = $4, leased_until = $5
                   WHERE k.status IS NULL AND k.body_hash = $2 AND k.made_at > $6
                     AND (k.lease IS NULL OR k.leased_until <= $3)
                   RETURNING made_at"#,
                &key_hash[..],
                &body_hash[..],
                now,
                lease,
                now + LEASE,
                now - KEPT_FOR
            )
            .fetch_optional(self.sessions())
            .await?;
            if let Some(made_at) = mine {
                return Ok(Claimed::Mine(Claim { key_hash, lease, made_at }));
            }
            let Some(row) = sqlx::query!(
                r#"SELECT body_hash, made_at, leased_until, status, headers, body FROM idempotency_keys
                   WHERE key_hash = $1"#,
                &key_hash[..]
            )
            .fetch_optional(self.sessions())
            .await?
            else {
                continue;
            };
            if row.made_at <= now - KEPT_FOR {
                self.forget_key(key_hash, row.made_at).await?;
                continue;
            }
            if row.body_hash != body_hash {
                return Ok(Claimed::OtherBody);
            }
            let (Some(status), Some(headers), Some(body)) = (row.status, row.headers, row.body) else {
                let left = row.leased_until.map_or(0, |until| (until - now).num_seconds());
                return Ok(Claimed::InFlight(left.max(1)));
            };
            return Ok(Claimed::Answered(Kept {
                status: u16::try_from(status).unwrap_or(500),
                headers: serde_json::from_value(headers)
                    .map_err(|error| DbError::Unreadable("kept answer", error.to_string()))?,
                body,
            }));
        }
    }

    async fn forget_key(&self, key_hash: [u8; 32], made_at: DateTime<Utc>) -> Result<(), DbError> {
        sqlx::query!(
            "DELETE FROM idempotency_keys WHERE key_hash = $1 AND made_at = $2",
            &key_hash[..],
            made_at
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Keeps the answer given under a claim, unless somebody else acts under the key by now.
    ///
    /// # Errors
    /// What the database says.
    pub async fn keep_answer(&self, claim: Claim, answer: &Kept) -> Result<(), DbError> {
        let headers = serde_json::to_value(&answer.headers)
            .map_err(|error| DbError::Unreadable("kept answer", error.to_string()))?;
        sqlx::query!(
            "UPDATE idempotency_keys SET status = $3, headers = $4, body = $5, lease = NULL, leased_until = NULL
             WHERE key_hash = $1 AND lease = $2",
            &claim.key_hash[..],
            claim.lease,
            i16::try_from(answer.status).unwrap_or(500),
            headers,
            &answer.body
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Gives a claim up without an answer: the next request with the key acts, or is told what this one came to.
    ///
    /// # Errors
    /// What the database says.
    pub async fn let_key_go(&self, claim: Claim) -> Result<(), DbError> {
        sqlx::query!(
            "UPDATE idempotency_keys SET lease = NULL, leased_until = NULL WHERE key_hash = $1 AND lease = $2",
            &claim.key_hash[..],
            claim.lease
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }
}
