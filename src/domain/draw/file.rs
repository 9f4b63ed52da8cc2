//! A draw as a file that a stranger can check, without a database and without trusting us.

use serde::{Deserialize, Serialize};

use super::{Bytes32, LINKS, Wheel, beacon_value, hash_back, pool_digest, quicknet_time};
use crate::domain::ids::EntryId;

/// The format's name and version.
pub const FORMAT: &str = "fairlist-draw/1";

/// Ten lines of Python that draw again from a file, and use nothing of ours.
pub const RECIPE: &str = include_str!("check.py");

/// Everything that a draw can be computed from again; bytes are hexadecimal.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DrawFile {
    /// [`FORMAT`].
    pub format: String,
    /// The event's address: its slug.
    pub event: String,
    /// The draw's number within its event.
    pub draw: i32,
    /// Why it was held: `need`, `scheduled` or `staff`.
    pub cause: String,
    /// Who waited, in order of arrival.
    pub pool: Vec<EntryId>,
    /// SHA-256 of the pool.
    pub pool_digest: String,
    /// When the pool was frozen and published, in RFC 3339.
    pub frozen_at: String,
    /// The chain's commitment, published before its first draw.
    pub commitment: String,
    /// Which link of the chain.
    pub link: i32,
    /// The beacon that takes part.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub beacon: Option<BeaconFile>,
    /// The revealed secret; none before the draw.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub secret: Option<String>,
    /// The pool in the order drawn.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub ranking: Vec<EntryId>,
    /// When it was drawn, in RFC 3339.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub drawn_at: Option<String>,
}

/// The part of a beacon in a draw.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct BeaconFile {
    /// `drand`: its network quicknet.
    pub kind: String,
    /// The round announced with the pool.
    pub round: i64,
    /// The round's signature, which proves its value.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub signature: Option<String>,
}

/// What is wrong with a draw.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DrawFault {
    /// Another format.
    #[error("this is not a draw of the format {FORMAT}")]
    Format,
    /// Not drawn yet.
    #[error("the pool is frozen, and nothing has been drawn yet")]
    NotDrawn,
    /// Not hexadecimal, or not 32 bytes.
    #[error("the {0} is not 32 bytes in hexadecimal")]
    Bytes(&'static str),
    /// The same entry twice.
    #[error("entry {0} is in the pool twice")]
    Twice(EntryId),
    /// The digest is not the pool's.
    #[error("the pool is not the one that was published: its digest is {0}")]
    Pool(String),
    /// No link of the chain.
    #[error("a chain has the links 1 to {LINKS}, and this is {0}")]
    Link(i32),
    /// The secret does not hash back to the commitment.
    #[error("the secret is not link {0} of the chain that was announced")]
    Secret(i32),
    /// The beacon's value is missing, or not that of the round.
    #[error("the beacon's signature is not that of round {0}")]
    Beacon(i64),
    /// The beacon's round was over when the pool was frozen.
    #[error("round {0} of the beacon was published before the pool was frozen")]
    BeaconKnown(i64),
    /// Another order; the first place that differs, from 1 on.
    #[error("the order is not the one that was drawn: number {place} is {should}, and the file says {says}")]
    Order {
        /// The place in the order, from 1 on.
        place: usize,
        /// Who was drawn there.
        should: String,
        /// Who is said to be there.
        says: String,
    },
}

fn bytes(name: &'static str, text: &str) -> Result<Bytes32, DrawFault> {
    hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(DrawFault::Bytes(name))
}

impl DrawFile {
    /// Draws again from what the file holds, and compares.
    ///
    /// # Errors
    /// The first thing that does not fit.
    pub fn verify(&self) -> Result<(), DrawFault> {
        if self.format != FORMAT {
            return Err(DrawFault::Format);
        }
        let Some(secret) = &self.secret else { return Err(DrawFault::NotDrawn) };
        let secret = bytes("secret", secret)?;
        let mut ids: Vec<EntryId> = self.pool.clone();
        ids.sort_unstable_by_key(|entry| entry.0);
        if let Some(twice) = ids.windows(2).find(|pair| pair[0] == pair[1]) {
            return Err(DrawFault::Twice(twice[0]));
        }
        let digest = pool_digest(&self.pool);
        if digest != bytes("digest of the pool", &self.pool_digest)? {
            return Err(DrawFault::Pool(hex::encode(digest)));
        }
        if !(1..=LINKS).contains(&self.link) {
            return Err(DrawFault::Link(self.link));
        }
        if hash_back(secret, self.link) != bytes("commitment", &self.commitment)? {
            return Err(DrawFault::Secret(self.link));
        }
        let beacon = self.beacon.as_ref().map(|beacon| self.beacon_value(beacon)).transpose()?;
        let wheel = Wheel { number: self.draw, secret, beacon, pool_digest: digest };
        let drawn = wheel.rank(&self.pool);
        let differs = (0..drawn.len().max(self.ranking.len()))
            .find(|index| drawn.get(*index) != self.ranking.get(*index));
        differs.map_or(Ok(()), |index| {
            let name =
                |list: &[EntryId]| list.get(index).map_or_else(|| "nobody".to_owned(), EntryId::to_string);
            Err(DrawFault::Order { place: index + 1, should: name(&drawn), says: name(&self.ranking) })
        })
    }

    fn beacon_value(&self, beacon: &BeaconFile) -> Result<Bytes32, DrawFault> {
        let fault = DrawFault::Beacon(beacon.round);
        if beacon.kind != "drand" {
            return Err(fault);
        }
        let frozen = chrono::DateTime::parse_from_rfc3339(&self.frozen_at).map_err(|_| DrawFault::Format)?;
        if quicknet_time(beacon.round) <= frozen.timestamp() {
            return Err(DrawFault::BeaconKnown(beacon.round));
        }
        beacon_value(beacon.round, beacon.signature.as_deref().unwrap_or_default()).map_err(|_| fault)
    }
}
