//! The head of a chain, kept where whoever runs the program cannot reach it: the record of that number had that hash.
//!
//! A chain proves that nothing in it was altered, but not that it is the chain there was: whoever can write the table
//! can cut its end off or write all of it anew. Neither fits a head that was kept elsewhere.

use chrono::{DateTime, SecondsFormat, Utc};
use serde::{Deserialize, Serialize};

use super::{ChainOf, Hash};
use crate::domain::ids::{EventId, OrganizationId};

/// The format's name and version.
pub const FORMAT: &str = "fairlist-anchor/1";

/// What the names of an organization's files begin with; an event's begin with its name in addresses.
pub const ORGANIZATION: &str = "organization";

/// A head that was kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Anchor {
    /// Of which chain, where that is known.
    pub of: Option<ChainOf>,
    /// The number of the last record then.
    pub seq: i64,
    /// Its hash.
    pub hash: Hash,
    /// When it was taken, where that is known. An event's is taken under the lock: no later record is of an earlier
    /// instant.
    pub at: Option<DateTime<Utc>>,
}

/// Why a text is no anchor.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NoAnchor {
    /// Not JSON, or not of this format.
    #[error("this is not an anchor of the format {FORMAT}")]
    Format,
    /// Not of the form that is typed.
    #[error("this is neither a file nor a record's number and its hash, such as 12:0a1b…")]
    Pair,
    /// Not a hash.
    #[error("a hash is 64 digits and letters from a to f")]
    Hash,
}

#[derive(Serialize, Deserialize)]
struct AnchorFile {
    format: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    event: Option<EventId>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    organization: Option<OrganizationId>,
    seq: i64,
    hash: String,
    at: DateTime<Utc>,
}

fn hash(text: &str) -> Result<Hash, NoAnchor> {
    hex::decode(text).ok().and_then(|bytes| bytes.try_into().ok()).ok_or(NoAnchor::Hash)
}

impl Anchor {
    /// A record's number and its hash, as they are typed: `12:0a1b…`.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse_pair(text: &str) -> Result<Self, NoAnchor> {
        let (seq, digits) = text.split_once(':').ok_or(NoAnchor::Pair)?;
        let seq = seq.trim().parse().ok().filter(|seq| *seq >= 0).ok_or(NoAnchor::Pair)?;
        Ok(Self { of: None, seq, hash: hash(digits.trim())?, at: None })
    }

    /// What [`Self::to_json`] wrote.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn from_json(text: &str) -> Result<Self, NoAnchor> {
        let file: AnchorFile = serde_json::from_str(text).map_err(|_| NoAnchor::Format)?;
        let of = match (file.event, file.organization) {
            (Some(event), None) => ChainOf::Event(event),
            (None, Some(organization)) => ChainOf::Organization(organization),
            _ => return Err(NoAnchor::Format),
        };
        if file.format != FORMAT || file.seq < 0 {
            return Err(NoAnchor::Format);
        }
        Ok(Self { of: Some(of), seq: file.seq, hash: hash(&file.hash)?, at: Some(file.at) })
    }

    /// A small file, for people as well; none when it is not known of which chain it is, or since when.
    #[must_use]
    pub fn to_json(&self) -> Option<String> {
        let (event, organization) = match self.of? {
            ChainOf::Event(event) => (Some(event), None),
            ChainOf::Organization(organization) => (None, Some(organization)),
        };
        let Self { seq, hash, at, .. } = *self;
        let (format, hash) = (FORMAT.to_owned(), hex::encode(hash));
        let file = AnchorFile { format, event, organization, seq, hash, at: at? };
        serde_json::to_string_pretty(&file).ok().map(|text| text + "\n")
    }

    /// When it was taken, for a sentence.
    #[must_use]
    pub fn taken(&self) -> String {
        self.at.map_or_else(String::new, |at| {
            format!(" that was taken on {}", at.to_rfc3339_opts(SecondsFormat::Secs, true))
        })
    }
}

#[cfg(test)]
mod tests {
    use uuid::Uuid;

    use super::*;

    #[test]
    fn an_anchor_comes_back_from_its_file_and_from_what_is_typed() {
        let at = DateTime::UNIX_EPOCH;
        for of in [ChainOf::Event(EventId(Uuid::max())), ChainOf::Organization(OrganizationId(Uuid::nil()))] {
            let anchor = Anchor { of: Some(of), seq: 12, hash: [7; 32], at: Some(at) };
            let text = anchor.to_json().expect("complete");
            assert_eq!(Anchor::from_json(&text), Ok(anchor), "{text}");
        }
        let typed = Anchor { of: None, seq: 12, hash: [7; 32], at: None };
        assert_eq!(Anchor::parse_pair(&format!("12:{}", "07".repeat(32))), Ok(typed));
    }

    #[test]
    fn what_is_no_anchor_is_refused() {
        let of = Some(ChainOf::Event(EventId(Uuid::nil())));
        let anchor = Anchor { of, seq: 1, hash: [7; 32], at: Some(DateTime::UNIX_EPOCH) };
        let good = anchor.to_json().expect("complete");
        for bad in [
            "",
            "[]",
            "{}",
            &good.replace("anchor/1", "anchor/2"),
            &good.replace("event", "entry"),
            &good.replace("\"seq\": 1", "\"seq\": -1"),
        ] {
            assert_eq!(Anchor::from_json(bad), Err(NoAnchor::Format), "{bad}");
        }
        assert_eq!(Anchor::from_json(&good.replace("0707", "07")), Err(NoAnchor::Hash));
        assert_eq!(Anchor::parse_pair("12"), Err(NoAnchor::Pair));
        assert_eq!(Anchor::parse_pair("x:00"), Err(NoAnchor::Pair));
        assert_eq!(Anchor::parse_pair("12:00"), Err(NoAnchor::Hash));
    }
}
