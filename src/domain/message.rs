//! What people are told: one occasion each, and the facts as they were when it happened.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::words;

words! {
    /// Why somebody is written to.
    Occasion {
        /// A six-digit code was asked for.
        Code = "code",
        /// They joined and confirmed.
        Joined = "joined",
        /// An offer was made or given again.
        Offer = "offer",
        /// Places are open, and the first of those called to accept has them.
        Call = "call",
        /// They accepted, or booked.
        Accepted = "accepted",
        /// They declined.
        Declined = "declined",
        /// The deadline passed without an answer.
        Lapsed = "lapsed",
        /// Staff took the offer back.
        Revoked = "revoked",
        /// The list was closed, and with it their offer.
        ListClosed = "list_closed",
        /// The event was cancelled.
        EventCancelled = "event_cancelled",
        /// Too many offers in a row without an answer: paused, and how to resume.
        PausedBySilence = "paused_by_silence",
        /// The start moved before their deadline, which moved along.
        StartMoved = "start_moved",
        /// Staff gave them more time to answer.
        Extended = "extended",
        /// Their booking was cancelled.
        BookingCancelled = "booking_cancelled",
        /// They had accepted, and the booking service says that the place is gone: their rank is theirs again.
        Conflicted = "conflicted",
        /// Staff answered what they had complained of.
        Answered = "answered",
        /// To one of the staff, who asked for it: the head of an audit chain, to be kept elsewhere.
        Anchor = "anchor",
    }
}

/// What the message says beyond the event's and the person's names. Written with the change it tells of; a token
/// or a code is never among them.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct Facts {
    /// The entry concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry: Option<uuid::Uuid>,
    /// The offer concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer: Option<uuid::Uuid>,
    /// How many places.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party: Option<i32>,
    /// The labels of the places, where they have any.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub labels: Vec<String>,
    /// The deadline.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// The booking's reference.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// What becomes of the entry: its new state.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_state: Option<String>,
    /// The position, where the rule shows it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub position: Option<i64>,
    /// The reason code of an act by staff.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// How many places are open, where everybody is called.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub open: Option<i32>,
    /// Whether it is the final call.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub is_final: Option<bool>,
    /// How often the offer was reactivated: names the token that is valid.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reactivations: Option<i32>,
    /// What they had complained of, in their own words.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub complaint: Option<String>,
    /// What staff answered.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// The anchor's file.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub anchor: Option<String>,
}
