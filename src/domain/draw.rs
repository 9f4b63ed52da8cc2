//! Draws that anybody can check: a chain of secrets, the digest of a pool, and the tickets that rank it.
//!
//! A chain has the secrets s₀ … s₁₀₀₀, sₖ = SHA-256(sₖ₊₁). s₀, its commitment, is published before the first draw;
//! draw with link k reveals sₖ, which nobody outside can know before and which anybody can hash back to s₀ after. The
//! pool, the ids of those who wait in order of arrival, is frozen first. Each has a ticket,
//!
//! ```text
//! HMAC-SHA-256(key = sₖ ‖ beacon, message = draw number ‖ pool digest ‖ entry id)
//! ```
//!
//! (the number in four bytes, the highest first; the ids in their 16; the beacon's 32, or none), and the lowest goes
//! first. Without a beacon the operator, who has the chain, could know a draw's result before freezing its pool; with
//! one that is announced together with the pool, nobody could.

use drand_verify::{G2PubkeyRfc, Pubkey, derive_randomness};
use hmac::{Hmac, KeyInit, Mac};
use sha2::{Digest, Sha256};

use super::ids::EntryId;

pub mod file;

/// How many draws a chain is good for.
pub const LINKS: i32 = 1_000;

/// From this link on the next chain is announced together with a draw, so that it is known long before it is used.
pub const ANNOUNCE_NEXT: i32 = 990;

/// 32 bytes: a secret of a chain, a digest, a ticket.
pub type Bytes32 = [u8; 32];

/// Hashes `times` times.
#[must_use]
pub fn hash_back(secret: Bytes32, times: i32) -> Bytes32 {
    (0..times).fold(secret, |bytes, _| Sha256::digest(bytes).into())
}

/// The secret of a link, from the end of its chain.
#[must_use]
pub fn link(end: Bytes32, link: i32) -> Bytes32 {
    hash_back(end, LINKS - link)
}

/// What is published before the first draw of a chain.
#[must_use]
pub fn commitment(end: Bytes32) -> Bytes32 {
    link(end, 0)
}

/// SHA-256 of the pool's ids, 16 bytes each, in order of arrival.
#[must_use]
pub fn pool_digest(pool: &[EntryId]) -> Bytes32 {
    let mut digest = Sha256::new();
    for entry in pool {
        digest.update(entry.0.as_bytes());
    }
    digest.finalize().into()
}

/// What the tickets of one draw are made with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wheel {
    /// The draw's number within its event, from 1 on.
    pub number: i32,
    /// The revealed secret.
    pub secret: Bytes32,
    /// What the beacon said, where one takes part: see [`beacon_value`].
    pub beacon: Option<Bytes32>,
    /// See [`pool_digest`].
    pub pool_digest: Bytes32,
}

impl Wheel {
    fn started(&self) -> Option<Hmac<Sha256>> {
        let mut key = self.secret.to_vec();
        key.extend(self.beacon.iter().flatten());
        // HMAC takes keys of every length: this is never none.
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).ok()?;
        mac.update(&self.number.to_be_bytes());
        mac.update(&self.pool_digest);
        Some(mac)
    }

    /// One entry's ticket.
    #[must_use]
    pub fn ticket(&self, entry: EntryId) -> Bytes32 {
        self.started().map_or([0; 32], |mac| ticket(mac, entry))
    }

    /// The pool in the order drawn: the lowest ticket first.
    #[must_use]
    pub fn rank(&self, pool: &[EntryId]) -> Vec<EntryId> {
        let Some(started) = self.started() else { return pool.to_vec() };
        let mut tickets: Vec<(Bytes32, EntryId)> =
            pool.iter().map(|entry| (ticket(started.clone(), *entry), *entry)).collect();
        tickets.sort_unstable_by_key(|(ticket, entry)| (*ticket, entry.0));
        tickets.into_iter().map(|(_, entry)| entry).collect()
    }
}

fn ticket(mut mac: Hmac<Sha256>, entry: EntryId) -> Bytes32 {
    mac.update(entry.0.as_bytes());
    mac.finalize().into_bytes().into()
}

/// What the audit says of a draw: its number and the digest of its pool, or the secret revealed.
#[must_use]
pub fn draw_record(number: i32, what: &str) -> String {
    format!("draw {number}: {what}")
}

/// The number of the draw of which the audit speaks.
#[must_use]
pub fn draw_number(record: &str) -> Option<i32> {
    record.strip_prefix("draw ")?.split_once(':')?.0.parse().ok()
}

/// The public key of drand's quicknet (`bls-unchained-g1-rfc9380`), as its documentation publishes it.
pub const QUICKNET_KEY: &str = "83cf0f2896adee7eb8b5f01fcad3912212c437e0073e911fb90022d3e760183c8c4b450b6a0a6c3ac6a5776a2d1064510d1fec758c921cc22b0e17e63aaf4bcb5ed66304de9cf809bd274ca73bab4af5a6e9c76a4bc09e76eae8991ef5ece45a";
/// The instant of quicknet's first round, and the seconds between two rounds.
pub const QUICKNET_GENESIS: i64 = 1_692_803_367;
/// See [`QUICKNET_GENESIS`].
pub const QUICKNET_PERIOD: i64 = 3;

/// The first round of quicknet that is published at or after this Unix second.
#[must_use]
pub fn quicknet_round(unix_seconds: i64) -> i64 {
    let since = (unix_seconds - QUICKNET_GENESIS).max(0);
    1 + since / QUICKNET_PERIOD + i64::from(since % QUICKNET_PERIOD > 0)
}

/// The Unix second at which a round of quicknet is published.
#[must_use]
pub fn quicknet_time(round: i64) -> i64 {
    QUICKNET_GENESIS + (round - 1).max(0) * QUICKNET_PERIOD
}

/// A beacon's value that is not what was announced.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error, serde::Serialize, serde::Deserialize)]
pub enum BeaconError {
    /// Not hexadecimal, or not the length of a signature.
    #[error("This is not a signature of drand: 96 hexadecimal digits are expected.")]
    NotASignature,
    /// A signature, but not of that round by quicknet.
    #[error("This is not the signature of the round that was announced with the pool.")]
    WrongRound,
    /// Nothing.
    #[error("Enter the signature of the round as it was published.")]
    Empty,
}

/// What takes part in a draw of a beacon's signature that was verified before.
#[must_use]
pub fn beacon_randomness(signature: &[u8]) -> Bytes32 {
    derive_randomness(signature)
}

/// The value of a beacon: checks the signature of the announced round against quicknet's key, without asking anybody,
/// and gives the randomness that drand derives from it.
///
/// # Errors
/// When it is not what was announced.
pub fn beacon_value(round: i64, signature: &str) -> Result<Bytes32, BeaconError> {
    let signature = signature.trim();
    if signature.is_empty() {
        return Err(BeaconError::Empty);
    }
    let signature = hex::decode(signature).map_err(|_| BeaconError::NotASignature)?;
    if signature.len() != 48 {
        return Err(BeaconError::NotASignature);
    }
    let key = hex::decode(QUICKNET_KEY).map_err(|_| BeaconError::WrongRound)?;
    let key = G2PubkeyRfc::from_variable(&key).map_err(|_| BeaconError::WrongRound)?;
    let round = u64::try_from(round).map_err(|_| BeaconError::WrongRound)?;
    match key.verify(round, b"", &signature) {
        Ok(true) => Ok(derive_randomness(&signature)),
        Ok(false) | Err(_) => Err(BeaconError::WrongRound),
    }
}

#[cfg(test)]
mod tests;
