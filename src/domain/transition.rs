//! Transitions: what other systems are told of. Which records of the audit go out, and what is said of each.
//!
//! The feed and the webhooks say the same: [`Transition`], as JSON. It holds ids, states and codes and no personal data.

use chrono::{DateTime, Utc};
use serde::Serialize;
use uuid::Uuid;

use super::audit::Act;
use super::ids::{BookingId, EntryId, EventId, OfferId, PlaceId};
use super::words;

words! {
    /// What happened: whose state changed, and to which.
    Kind {
        /// Somebody joined, and their contact is not confirmed yet.
        EntryUnconfirmed = "entry.unconfirmed",
        /// An entry is in the line: new, confirmed, or back after an offer.
        EntryWaiting = "entry.waiting",
        /// It has a live offer.
        EntryOffered = "entry.offered",
        /// It has what it asked for.
        EntryAccepted = "entry.accepted",
        /// It is off the list after a no.
        EntryDeclined = "entry.declined",
        /// It is off the list after no answer.
        EntryExpired = "entry.expired",
        /// It left.
        EntryWithdrawn = "entry.withdrawn",
        /// Staff took it off.
        EntryRemoved = "entry.removed",
        /// It was never confirmed.
        EntryLapsed = "entry.lapsed",
        /// Its event was cancelled or is over.
        EntryClosed = "entry.closed",
        /// An offer was made, or given again: it can be accepted until its deadline.
        OfferPending = "offer.pending",
        /// It was accepted, and the booking service has not answered yet.
        OfferAccepting = "offer.accepting",
        /// It was accepted.
        OfferAccepted = "offer.accepted",
        /// It was declined.
        OfferDeclined = "offer.declined",
        /// Its deadline passed.
        OfferExpired = "offer.expired",
        /// It was taken back.
        OfferRevoked = "offer.revoked",
        /// The booking service says that the place is gone.
        OfferConflicted = "offer.conflicted",
        /// Its deadline moved.
        OfferDeadlineMoved = "offer.deadline_moved",
        /// A place came free: added, given back, or no longer held.
        PlaceReleased = "place.released",
        /// A place was booked.
        BookingConfirmed = "booking.confirmed",
        /// A booking was cancelled.
        BookingCancelled = "booking.cancelled",
        /// An event, its list or its rule changed: `act` says how.
        EventChanged = "event.changed",
    }
}

/// What of an audit record decides whether it goes out.
#[derive(Clone, Copy, Debug)]
pub struct Step<'a> {
    /// The word of what was done.
    pub act: &'a str,
    /// The word of what it was done to.
    pub subject: &'a str,
    /// The state before.
    pub from: Option<&'a str>,
    /// The state after.
    pub to: Option<&'a str>,
}

impl Kind {
    /// As what a record of the audit goes out, if it does. The one place that says so: the feed is written by it and
    /// checked by it.
    #[must_use]
    pub fn of(step: Step<'_>) -> Option<Self> {
        let act = Act::parse(step.act)?;
        match step.subject {
            "event" => Self::of_event(act),
            "offer" if act == Act::DeadlineMoved => Some(Self::OfferDeadlineMoved),
            _ if step.from == step.to => None,
            "place" => (step.to == Some("open")).then_some(Self::PlaceReleased),
            "entry" | "offer" | "booking" => Self::parse(&format!("{}.{}", step.subject, step.to?)),
            _ => None,
        }
    }

    /// What happened, in a few words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::EntryUnconfirmed => "Somebody joined, and their contact is not confirmed yet",
            Self::EntryWaiting => "An entry is in the line: new, confirmed, or back after an offer",
            Self::EntryOffered => "It has a live offer",
            Self::EntryAccepted => "It has what it asked for",
            Self::EntryDeclined => "It is off the list after a no",
            Self::EntryExpired => "It is off the list after no answer",
            Self::EntryWithdrawn => "It left",
            Self::EntryRemoved => "Staff took it off the list",
            Self::EntryLapsed => "It was never confirmed",
            Self::EntryClosed => "Its event was cancelled or is over",
            Self::OfferPending => {
                "An offer can be accepted: made, given again, or as it was after nothing was booked"
            }
            Self::OfferAccepting => "It was accepted, and the booking service has not answered yet",
            Self::OfferAccepted => "It was accepted: the places are booked",
            Self::OfferDeclined => "It was declined",
            Self::OfferExpired => "Its deadline passed",
            Self::OfferRevoked => "It was taken back",
            Self::OfferConflicted => "The booking service says that the places are gone",
            Self::OfferDeadlineMoved => "Its deadline moved",
            Self::PlaceReleased => "A place came free: added, given back, or no longer held",
            Self::BookingConfirmed => "A place was booked",
            Self::BookingCancelled => "A booking was cancelled",
            Self::EventChanged => "An event, its list or its rule changed",
        }
    }

    /// The acts by which it comes about: `act` of a transition of this kind is one of them.
    #[must_use]
    pub fn acts(self) -> &'static [Act] {
        match self {
            Self::EntryUnconfirmed => &[Act::Joined, Act::Reopened],
            Self::EntryWaiting => &[
                Act::Joined,
                Act::Confirmed,
                Act::Declined,
                Act::Expired,
                Act::Revoked,
                Act::Conflicted,
                Act::Reopened,
            ],
            Self::EntryOffered => &[Act::Offered, Act::Reactivated],
            Self::EntryRemoved => &[Act::Removed, Act::Revoked],
            Self::EntryWithdrawn => &[Act::Left],
            Self::EntryLapsed => &[Act::Lapsed],
            Self::EntryClosed => &[Act::Closed],
            Self::EntryDeclined => &[Act::Declined],
            Self::EntryExpired => &[Act::Expired],
            Self::EntryAccepted | Self::OfferAccepted => &[Act::Accepted],
            Self::OfferPending => &[Act::Offered, Act::Reactivated, Act::NotBooked],
            Self::OfferAccepting => &[Act::Confirming],
            Self::OfferDeclined => &[Act::Declined, Act::Left],
            Self::OfferExpired => &[Act::Expired, Act::Left, Act::Removed],
            Self::OfferRevoked => &[Act::Revoked, Act::Removed],
            Self::OfferConflicted => &[Act::Conflicted],
            Self::OfferDeadlineMoved => &[Act::DeadlineMoved],
            Self::PlaceReleased => &[Act::Added, Act::Released],
            Self::BookingConfirmed => &[Act::Booked],
            Self::BookingCancelled => &[Act::Cancelled],
            Self::EventChanged => &[
                Act::Created,
                Act::Changed,
                Act::Published,
                Act::Opened,
                Act::Frozen,
                Act::Closed,
                Act::Reopened,
                Act::RuleChanged,
                Act::FinalCall,
            ],
        }
    }

    fn of_event(act: Act) -> Option<Self> {
        matches!(
            act,
            Act::Created
                | Act::Changed
                | Act::Published
                | Act::Cancelled
                | Act::Opened
                | Act::Frozen
                | Act::Closed
                | Act::Reopened
                | Act::RuleChanged
                | Act::FinalCall
        )
        .then_some(Self::EventChanged)
    }
}

/// One transition, as the feed and webhooks say it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
pub struct Transition {
    /// What happened.
    #[serde(rename = "type")]
    pub kind: Kind,
    /// When, to the microsecond.
    pub timestamp: DateTime<Utc>,
    /// The rest.
    pub data: Data,
}

/// What is known of a transition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, utoipa::ToSchema)]
#[schema(as = TransitionData)]
pub struct Data {
    /// Its number in the organization's feed: 1, 2, 3 …
    pub position: i64,
    /// The event.
    pub event_id: EventId,
    /// The number of the event's audit record. Higher ones of the same event come later in the feed. It has gaps here:
    /// not every record goes out.
    pub seq: i64,
    /// What was done, in the audit's word. `/v1/docs` lists those of each type; later versions may have more.
    pub act: String,
    /// Why: a code of the published list.
    pub reason: String,
    /// Who did it: `system`, `person`, `staff`, `operator`, `key`.
    pub actor: String,
    /// The entry concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub entry_id: Option<EntryId>,
    /// The offer concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub offer_id: Option<OfferId>,
    /// The place concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub place_id: Option<PlaceId>,
    /// The booking concerned.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub booking_id: Option<BookingId>,
    /// The state before.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub from: Option<String>,
    /// The state after.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub to: Option<String>,
    /// Where the entry stood in the order: band, round, rank.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub order_key: Option<String>,
    /// The version of the rule that decided.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub policy_version: Option<i32>,
    /// How many places an entry asks for, or an offer is of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub party: Option<i32>,
    /// An offer's deadline, as it stood when the transition was written to the feed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub expires_at: Option<DateTime<Utc>>,
    /// A booking's reference: what the customer quotes.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
}

impl Transition {
    /// What identifies it, however often it is delivered.
    #[must_use]
    pub fn id(&self) -> String {
        format!("tr_{}_{}", self.data.event_id.0.simple(), self.data.seq)
    }
}

/// What a transition is about, by the subject of its record: exactly one of the four ids, or none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct About {
    /// An entry.
    pub entry: Option<Uuid>,
    /// An offer.
    pub offer: Option<Uuid>,
    /// A place.
    pub place: Option<Uuid>,
    /// A booking.
    pub booking: Option<Uuid>,
}

impl About {
    /// The id of a record's subject in its place.
    #[must_use]
    pub fn of(subject: &str, id: Uuid) -> Self {
        let mut about = Self::default();
        match subject {
            "entry" => about.entry = Some(id),
            "offer" => about.offer = Some(id),
            "place" => about.place = Some(id),
            "booking" => about.booking = Some(id),
            _ => {}
        }
        about
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::domain::booking::BookingState;
    use crate::domain::entry::EntryState;
    use crate::domain::offer::OfferState;

    fn kind(act: Act, subject: &str, from: Option<&str>, to: Option<&str>) -> Option<Kind> {
        Kind::of(Step { act: act.as_str(), subject, from, to })
    }

    #[test]
    fn every_state_of_an_entry_an_offer_and_a_booking_goes_out_under_its_own_name() {
        let states = EntryState::ALL.iter().map(|state| ("entry", state.as_str()));
        let states = states.chain(OfferState::ALL.iter().map(|state| ("offer", state.as_str())));
        let states = states.chain(BookingState::ALL.iter().map(|state| ("booking", state.as_str())));
        for (subject, state) in states {
            let found = kind(Act::Placed, subject, Some("another"), Some(state)).map(Kind::as_str);
            assert_eq!(found, Some(format!("{subject}.{state}").as_str()));
        }
    }

    #[test]
    fn what_changes_no_state_and_who_works_here_stays_inside() {
        assert_eq!(kind(Act::Paused, "entry", Some("waiting"), Some("waiting")), None);
        assert_eq!(kind(Act::WantsChanged, "wants", Some("1"), Some("2")), None);
        assert_eq!(kind(Act::Held, "place", Some("open"), Some("held")), None);
        assert_eq!(kind(Act::Retired, "place", Some("booked"), Some("booked")), None);
        assert_eq!(kind(Act::AccessChanged, "staff", None, Some("owner")), None);
        assert_eq!(kind(Act::PoolFrozen, "event", None, None), None);
        assert_eq!(
            Kind::of(Step { act: "unheard of", subject: "entry", from: None, to: Some("waiting") }),
            None
        );
    }

    #[test]
    fn places_that_come_free_and_deadlines_that_move_go_out() {
        assert_eq!(kind(Act::Released, "place", Some("held"), Some("open")), Some(Kind::PlaceReleased));
        assert_eq!(kind(Act::Added, "place", None, Some("open")), Some(Kind::PlaceReleased));
        let moved = kind(Act::DeadlineMoved, "offer", Some("pending"), Some("pending"));
        assert_eq!(moved, Some(Kind::OfferDeadlineMoved));
        assert_eq!(kind(Act::RuleChanged, "event", None, None), Some(Kind::EventChanged));
    }

    #[test]
    fn what_is_not_known_is_left_out_of_what_is_sent() {
        let event_id = EventId(Uuid::from_u128(0xe0));
        let about = About::of("offer", Uuid::from_u128(0xfa));
        let transition = Transition {
            kind: Kind::OfferPending,
            timestamp: "2027-03-01T09:00:00.000001Z".parse().expect("an instant"),
            data: Data {
                position: 7,
                event_id,
                seq: 3,
                act: "offered".to_owned(),
                reason: "first_in_order".to_owned(),
                actor: "system".to_owned(),
                entry_id: None,
                offer_id: about.offer.map(OfferId),
                place_id: about.place.map(PlaceId),
                booking_id: about.booking.map(BookingId),
                from: None,
                to: Some("pending".to_owned()),
                order_key: None,
                policy_version: Some(1),
                party: Some(2),
                expires_at: None,
                reference: None,
            },
        };
        assert_eq!(
            serde_json::to_value(&transition).expect("JSON"),
            serde_json::json!({
                "type": "offer.pending",
                "timestamp": "2027-03-01T09:00:00.000001Z",
                "data": {
                    "position": 7, "event_id": "00000000-0000-0000-0000-0000000000e0", "seq": 3, "act": "offered",
                    "reason": "first_in_order", "actor": "system", "offer_id": "00000000-0000-0000-0000-0000000000fa",
                    "to": "pending", "policy_version": 1, "party": 2
                }
            })
        );
        assert_eq!(transition.id(), "tr_000000000000000000000000000000e0_3");
    }
}
