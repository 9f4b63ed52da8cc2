//! The audit chain: what a record says, its canonical bytes, and its hash.
//!
//! hash = SHA-256(previous hash ‖ fields in order). A field is its length as four big-endian bytes and its bytes;
//! an absent field is the length 0xFFFFFFFF alone. Instants are microseconds since 1970 as eight big-endian
//! bytes, numbers likewise, ids their sixteen bytes, words UTF-8. A record holds no personal data.

use std::borrow::Cow;

use chrono::{DateTime, Utc};
use sha2::{Digest, Sha256};
use uuid::Uuid;

use super::entry::OrderKey;
use super::ids::{
    BookingId, EntryId, EventId, KeyId, MessageId, OfferId, OrganizationId, PersonId, PlaceId, StaffId,
    WebhookId,
};
use super::reason::{Reason, StaffReason};
use super::words;

pub mod anchor;
pub mod chain;
pub mod file;

/// The head of an empty chain.
pub const GENESIS: Hash = [0; 32];

/// A SHA-256 hash.
pub type Hash = [u8; 32];

/// Who acted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actor {
    /// The rules, by themselves.
    System,
    /// A customer.
    Person(PersonId),
    /// Somebody of the staff.
    Staff(StaffId),
    /// A program, by its key.
    Key(KeyId),
    /// The command line or an import, without a signed-in person.
    Operator,
}

impl Actor {
    /// The word stored.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::System => "system",
            Self::Person(_) => "person",
            Self::Staff(_) => "staff",
            Self::Key(_) => "key",
            Self::Operator => "operator",
        }
    }

    /// Whose id goes with it.
    #[must_use]
    pub fn id(self) -> Option<Uuid> {
        match self {
            Self::Person(id) => Some(id.0),
            Self::Staff(id) => Some(id.0),
            Self::Key(id) => Some(id.0),
            Self::System | Self::Operator => None,
        }
    }

    /// Whether it is somebody of the staff, or a program that acts for them.
    #[must_use]
    pub fn is_staff(self) -> bool {
        matches!(self, Self::Staff(_) | Self::Key(_))
    }

    /// Who acted, from the words stored.
    #[must_use]
    pub fn parse(kind: &str, id: Option<Uuid>) -> Option<Self> {
        match (kind, id) {
            ("system", None) => Some(Self::System),
            ("person", Some(id)) => Some(Self::Person(PersonId(id))),
            ("staff", Some(id)) => Some(Self::Staff(StaffId(id))),
            ("operator", None) => Some(Self::Operator),
            ("key", Some(id)) => Some(Self::Key(KeyId(id))),
            _ => None,
        }
    }

    /// The staff member, where it is one.
    #[must_use]
    pub fn staff(self) -> Option<StaffId> {
        if let Self::Staff(id) = self { Some(id) } else { None }
    }
}

/// What was acted upon.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Subject {
    /// The event itself, its list or its rule.
    Event(EventId),
    /// An entry.
    Entry(EntryId),
    /// What an entry wants of a place: from and to are the numbers under which its event keeps that.
    Wants(EntryId),
    /// An offer.
    Offer(OfferId),
    /// A place.
    Place(PlaceId),
    /// A booking.
    Booking(BookingId),
    /// Somebody of the staff.
    Staff(StaffId),
    /// A program's key.
    Key(KeyId),
    /// Where transitions are sent.
    Webhook(WebhookId),
    /// A message.
    Message(MessageId),
}

impl Subject {
    /// The word stored.
    #[must_use]
    pub fn kind(self) -> &'static str {
        match self {
            Self::Event(_) => "event",
            Self::Entry(_) => "entry",
            Self::Wants(_) => "wants",
            Self::Offer(_) => "offer",
            Self::Place(_) => "place",
            Self::Booking(_) => "booking",
            Self::Staff(_) => "staff",
            Self::Key(_) => "key",
            Self::Webhook(_) => "webhook",
            Self::Message(_) => "message",
        }
    }

    /// Its id.
    #[must_use]
    pub fn id(self) -> Uuid {
        match self {
            Self::Event(id) => id.0,
            Self::Entry(id) | Self::Wants(id) => id.0,
            Self::Offer(id) => id.0,
            Self::Place(id) => id.0,
            Self::Booking(id) => id.0,
            Self::Staff(id) => id.0,
            Self::Key(id) => id.0,
            Self::Webhook(id) => id.0,
            Self::Message(id) => id.0,
        }
    }
}

words! {
    /// The catalogue of acts.
    Act {
        /// An entry joined the list.
        Joined = "joined",
        /// An entry's contact was confirmed.
        Confirmed = "confirmed",
        /// An unconfirmed entry lapsed.
        Lapsed = "lapsed",
        /// An offer was made.
        Offered = "offered",
        /// An offer was accepted.
        Accepted = "accepted",
        /// An offer was accepted, and the booking service is asked for its places.
        Confirming = "confirming",
        /// The booking service said that a place of an accepted offer is gone.
        Conflicted = "conflicted",
        /// Nothing was booked for an accepted offer: it is pending again.
        NotBooked = "not_booked",
        /// Staff said what came of a call that the booking service never answered.
        Resolved = "resolved",
        /// The booking service is asked to take a booking back.
        Returning = "returning",
        /// An offer was declined.
        Declined = "declined",
        /// Staff wrote down an answer that was given by telephone or in person.
        AnswerRecorded = "answer_recorded",
        /// An offer's deadline passed.
        Expired = "expired",
        /// An offer was taken back.
        Revoked = "revoked",
        /// An offer was given again.
        Reactivated = "reactivated",
        /// A deadline moved.
        DeadlineMoved = "deadline_moved",
        /// An entry left.
        Left = "left",
        /// Staff took an entry off.
        Removed = "removed",
        /// An entry was passed over from now on.
        Paused = "paused",
        /// An entry is served again.
        Resumed = "resumed",
        /// No contact of the entry's person works, or one works again.
        ContactChanged = "contact_changed",
        /// An entry whose offer was revoked is passed over until staff say what becomes of it.
        SetAside = "set_aside",
        /// An entry was brought back after a revoked offer, or is offered places in spite of a contact problem.
        Placed = "placed",
        /// Somebody said that something is not right about an entry.
        Complained = "complained",
        /// Staff answered that.
        Answered = "answered",
        /// A place was held.
        Held = "held",
        /// A place was booked, or a booking made.
        Booked = "booked",
        /// A place became open.
        Released = "released",
        /// A place was added.
        Added = "added",
        /// A place was retired, or is to be when free.
        Retired = "retired",
        /// A booking was cancelled.
        Cancelled = "cancelled",
        /// An event was created.
        Created = "created",
        /// An event's settings changed.
        Changed = "changed",
        /// An event was published.
        Published = "published",
        /// A list was opened.
        Opened = "opened",
        /// A list was frozen.
        Frozen = "frozen",
        /// A list, or an entry with its event, was closed.
        Closed = "closed",
        /// What a cancelled event had closed was reopened.
        Reopened = "reopened",
        /// The rule changed.
        RuleChanged = "rule_changed",
        /// From now on everybody who could take an open place is called.
        FinalCall = "final_call",
        /// The pool of a draw was frozen.
        PoolFrozen = "pool_frozen",
        /// A draw ranked its pool.
        Drawn = "drawn",
        /// The beginning of a chain of secrets was published.
        ChainAnnounced = "chain_announced",
        /// An entry was put into a band of priority, or out of it.
        BandChanged = "band_changed",
        /// An entry was put at another number of the line, or given another rank at the same number to make room.
        Moved = "moved",
        /// What an entry wants of a place was changed.
        WantsChanged = "wants_changed",
        /// How many places an entry asks for was changed.
        PartyChanged = "party_changed",
        /// Something else is said of a place.
        Described = "described",
        /// Somebody was invited to the staff, or their access changed.
        AccessChanged = "access_changed",
        /// Nothing is sent to an endpoint any more.
        Stopped = "stopped",
        /// It is sent to again.
        Started = "started",
        /// The secret by which deliveries are signed was changed.
        SecretRotated = "secret_rotated",
        /// A test was sent.
        Tested = "tested",
        /// Deliveries were sent again.
        Replayed = "replayed",
        /// A file was imported.
        Imported = "imported",
        /// A reservation for the waitlist was overridden.
        Overridden = "overridden",
    }
}

/// One transition.
#[derive(Clone, Debug, PartialEq)]
pub struct Record {
    /// When, to the microsecond.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: Actor,
    /// What.
    pub act: Act,
    /// To what.
    pub subject: Subject,
    /// The state before.
    pub from: Option<Cow<'static, str>>,
    /// The state after.
    pub to: Option<Cow<'static, str>>,
    /// Why.
    pub reason: Reason,
    /// The entry concerned, where the subject is something else.
    pub entry: Option<EntryId>,
    /// The entry's order key, where it matters.
    pub order_key: Option<OrderKey>,
    /// The version of the rule applied.
    pub policy_version: Option<i32>,
    /// A note by staff; only its salted digest enters the chain.
    pub note: Option<String>,
}

impl Record {
    /// A record of `act` on `subject` with nothing but who, when and why.
    #[must_use]
    pub fn new(at: DateTime<Utc>, actor: Actor, act: Act, subject: Subject, reason: Reason) -> Self {
        Self {
            at,
            actor,
            act,
            subject,
            from: None,
            to: None,
            reason,
            entry: None,
            order_key: None,
            policy_version: None,
            note: None,
        }
    }

    /// With the states before and after.
    #[must_use]
    pub fn states(mut self, from: Option<&'static str>, to: Option<&'static str>) -> Self {
        self.from = from.map(Cow::Borrowed);
        self.to = to.map(Cow::Borrowed);
        self
    }

    /// With what it came to, where that is more than a state: the digest of a pool, a secret.
    #[must_use]
    pub fn to(mut self, what: String) -> Self {
        self.to = Some(Cow::Owned(what));
        self
    }

    /// With the entry concerned.
    #[must_use]
    pub fn of_entry(mut self, entry: EntryId) -> Self {
        self.entry = Some(entry);
        self
    }

    /// With the order key and the version of the rule that decided.
    #[must_use]
    pub fn by_rule(mut self, key: OrderKey, policy_version: i32) -> Self {
        self.order_key = Some(key);
        self.policy_version = Some(policy_version);
        self
    }

    /// With the note of a reason given by staff.
    #[must_use]
    pub fn noted(mut self, reason: &StaffReason) -> Self {
        self.note.clone_from(&reason.note);
        self
    }
}

/// A record as it is stored and exported: what the hash covers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredRecord {
    /// 1, 2, 3 … per chain.
    pub seq: i64,
    /// Microseconds since 1970.
    pub at: DateTime<Utc>,
    /// Who.
    pub actor: String,
    /// Whose id.
    pub actor_id: Option<Uuid>,
    /// What.
    pub act: String,
    /// To what.
    pub subject: String,
    /// Its id.
    pub subject_id: Uuid,
    /// The state before.
    pub from_state: Option<String>,
    /// The state after.
    pub to_state: Option<String>,
    /// Why.
    pub reason: String,
    /// The entry concerned.
    pub entry_id: Option<Uuid>,
    /// The order key as text.
    pub order_key: Option<String>,
    /// The version of the rule.
    pub policy_version: Option<i32>,
    /// SHA-256(salt ‖ note).
    pub note_digest: Option<Vec<u8>>,
}

/// What a note leaves in the chain.
#[must_use]
pub fn note_digest(salt: &[u8], note: &str) -> Hash {
    Sha256::new().chain_update(salt).chain_update(note.as_bytes()).finalize().into()
}

impl StoredRecord {
    /// The record as number `seq` of its chain.
    #[must_use]
    pub fn from_record(seq: i64, record: &Record, note_digest: Option<Hash>) -> Self {
        Self {
            seq,
            at: record.at,
            actor: record.actor.kind().to_owned(),
            actor_id: record.actor.id(),
            act: record.act.as_str().to_owned(),
            subject: record.subject.kind().to_owned(),
            subject_id: record.subject.id(),
            from_state: record.from.as_deref().map(str::to_owned),
            to_state: record.to.as_deref().map(str::to_owned),
            reason: record.reason.as_str().to_owned(),
            entry_id: record.entry.map(|entry| entry.0),
            order_key: record.order_key.map(|key| key.to_string()),
            policy_version: record.policy_version,
            note_digest: note_digest.map(|digest| digest.to_vec()),
        }
    }

    /// The hash that follows `previous` in the chain.
    #[must_use]
    pub fn hash(&self, previous: &Hash) -> Hash {
        let mut sha = Sha256::new_with_prefix(previous);
        let mut field = |bytes: Option<&[u8]>| match bytes {
            // No field comes near 4 GiB; a longer one would only make the hash differ from its twin's.
            Some(bytes) => {
                sha.update(u32::try_from(bytes.len()).unwrap_or(u32::MAX - 1).to_be_bytes());
                sha.update(bytes);
            }
            None => sha.update(u32::MAX.to_be_bytes()),
        };
        field(Some(&self.seq.to_be_bytes()));
        field(Some(&self.at.timestamp_micros().to_be_bytes()));
        field(Some(self.actor.as_bytes()));
        field(self.actor_id.as_ref().map(|id| id.as_bytes().as_slice()));
        field(Some(self.act.as_bytes()));
        field(Some(self.subject.as_bytes()));
        field(Some(self.subject_id.as_bytes()));
        field(self.from_state.as_deref().map(str::as_bytes));
        field(self.to_state.as_deref().map(str::as_bytes));
        field(Some(self.reason.as_bytes()));
        field(self.entry_id.as_ref().map(|id| id.as_bytes().as_slice()));
        field(self.order_key.as_deref().map(str::as_bytes));
        field(
            self.policy_version
                .map(|version| i64::from(version).to_be_bytes())
                .as_ref()
                .map(<[u8; 8]>::as_slice),
        );
        field(self.note_digest.as_deref());
        sha.finalize().into()
    }
}

/// A record with what stands beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FullRecord {
    /// What is hashed.
    pub record: StoredRecord,
    /// Its hash.
    pub hash: Vec<u8>,
    /// Who of the staff it was, by name; nothing seals it.
    pub by: Option<String>,
    /// In their own words, unless that was erased.
    pub note: Option<Note>,
}

/// A note by staff, with what its digest was salted with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Note {
    /// Erased together with the words: without it nobody can guess them from the digest.
    pub salt: Vec<u8>,
    /// The words.
    pub text: String,
}

impl FullRecord {
    /// Whether the note is the one whose digest the record holds; one that is not there any more is.
    #[must_use]
    pub fn note_fits(&self) -> bool {
        let digest = self.record.note_digest.as_deref();
        self.note.as_ref().is_none_or(|note| digest == Some(&note_digest(&note.salt, &note.text)[..]))
    }
}

/// Whose chain it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainOf {
    /// An event's: what was done to it and all that belongs to it.
    Event(EventId),
    /// An organization's: acts outside its events.
    Organization(OrganizationId),
}

impl From<EventId> for ChainOf {
    fn from(event: EventId) -> Self {
        Self::Event(event)
    }
}

impl From<OrganizationId> for ChainOf {
    fn from(organization: OrganizationId) -> Self {
        Self::Organization(organization)
    }
}

#[cfg(test)]
mod properties;
