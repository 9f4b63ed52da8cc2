//! Entries: a person's request on one list.

use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};

use super::ids::{EntryId, EventId, PersonId};
use super::kinds::Kinds;
use super::policy::{After, Ordering, Policy};
use super::words;

words! {
    /// Where an entry is in its life.
    EntryState {
        /// The contact was not confirmed yet.
        Unconfirmed = "unconfirmed",
        /// In the line.
        Waiting = "waiting",
        /// Has a live offer.
        Offered = "offered",
        /// Has a booking.
        Accepted = "accepted",
        /// Said no.
        Declined = "declined",
        /// Did not answer.
        Expired = "expired",
        /// Left.
        Withdrawn = "withdrawn",
        /// Taken off by staff.
        Removed = "removed",
        /// Was never confirmed.
        Lapsed = "lapsed",
        /// The event was cancelled or is over.
        Closed = "closed",
    }
}

impl EntryState {
    /// Unconfirmed, waiting or offered: at most one such entry per person and event.
    #[must_use]
    pub fn is_live(self) -> bool {
        matches!(self, Self::Unconfirmed | Self::Waiting | Self::Offered)
    }
}

words! {
    /// Who paused an entry.
    PausedBy {
        /// Its person.
        Person = "person",
        /// Staff.
        Staff = "staff",
        /// Silence: too many offers in a row without an answer.
        Silent = "silent",
    }
}

words! {
    /// How an entry came to be.
    EntrySource {
        /// The person joined.
        Customer = "customer",
        /// Staff added it.
        Staff = "staff",
        /// Read from a file.
        Import = "import",
    }
}

/// What decides who is next: the lowest key of the eligible.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
pub struct OrderKey {
    /// The priority band; 0 where there are none.
    pub band: i16,
    /// How often the entry was offered and kept its rank.
    pub round: i32,
    /// The stored order, sparse, from the arrival.
    pub rank: i64,
}

impl OrderKey {
    /// Ranks leave room between neighbours, so that one can be put between two others.
    pub const RANK_STEP_BITS: u32 = 20;

    /// The rank of the `n`-th that was put at the end of the line.
    #[must_use]
    pub fn rank_of(n: i64) -> i64 {
        n << Self::RANK_STEP_BITS
    }
}

impl OrderKey {
    /// As [`fmt::Display`](std::fmt::Display) and the audit write it: band/round/rank.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let mut parts = text.split('/');
        let key = Self {
            band: parts.next()?.parse().ok()?,
            round: parts.next()?.parse().ok()?,
            rank: parts.next()?.parse().ok()?,
        };
        parts.next().is_none().then_some(key)
    }
}

impl std::fmt::Display for OrderKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}/{}", self.band, self.round, self.rank)
    }
}

/// One entry, as its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
#[expect(clippy::struct_excessive_bools, reason = "facts that hold independently of each other")]
pub struct Entry {
    /// The event whose list it is on.
    pub event: EventId,
    /// Its id.
    pub id: EntryId,
    /// Whose it is.
    pub person: PersonId,
    /// Where it is in its life.
    pub state: EntryState,
    /// Gapless per event, never changes.
    pub arrival: i64,
    /// What decides when it is next.
    pub key: OrderKey,
    /// The rank in the line, where a draw gave it another.
    pub line_rank: Option<i64>,
    /// How many places it wants, all or none.
    pub party: i32,
    /// Under which number the event keeps what it wants of a place; 0 for nothing in particular.
    pub wants: i32,
    /// The kinds of places that it wants.
    pub kinds: Kinds,
    /// When it joined.
    pub joined_at: DateTime<Utc>,
    /// When its contact was confirmed.
    pub confirmed_at: Option<DateTime<Utc>>,
    /// Staff or an import answered for the contact: the first accept still asks for a code.
    pub vouched: bool,
    /// When it lapses unless confirmed.
    pub lapses_at: Option<DateTime<Utc>>,
    /// Who paused it.
    pub paused: Option<PausedBy>,
    /// When the pause ends by itself.
    pub paused_until: Option<DateTime<Utc>>,
    /// None of its person's contacts works.
    pub contact_problem: bool,
    /// Staff said to offer in spite of the contact problem.
    pub offer_anyway: bool,
    /// An offer was revoked and staff did not yet say what becomes of it.
    pub set_aside: bool,
    /// The date until which it wanted to wait passed.
    pub until_passed: bool,
    /// Offers in a row that ended without an answer.
    pub silent_offers: i32,
    /// When it last declined: places open then are not offered to it again.
    pub declined_at: Option<DateTime<Utc>>,
    /// Waiting, and nothing hinders an offer.
    pub eligible: bool,
    /// Since when it is in this state.
    pub state_since: DateTime<Utc>,
}

/// Why a waiting entry is passed over although it is in the line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Hindrance {
    /// Paused by its person or by staff.
    Paused(PausedBy),
    /// None of its person's contacts works.
    ContactProblem,
    /// An offer was revoked; staff decide what becomes of it.
    SetAside,
    /// The date until which it wanted to wait passed.
    UntilPassed,
}

impl Entry {
    /// Sends it to the end of the line, or of its band; who was drawn is not any more, and is in the next draw.
    pub fn send_to_end(&mut self, rank: i64) {
        if self.line_rank.take().is_some() {
            self.key = OrderKey { band: 0, round: 0, rank };
        }
        self.key.rank = rank;
    }

    /// What it has from an order that is no longer the rule is taken from it.
    pub fn fall_into_line(&mut self, ordering: Ordering) {
        if !matches!(ordering, Ordering::Priority | Ordering::Lottery) && self.key.band < 0 {
            self.key.band = 0;
            self.key.rank = self.line_rank.take().unwrap_or(self.key.rank);
        }
    }

    /// As it is after its offer ended; its rank follows when it goes to the end.
    #[must_use]
    pub fn moved_back(&self, back: Return) -> Self {
        let mut after = Self { state: back.state, ..self.clone() };
        if back.next_round {
            after.key.round += 1;
        }
        after
    }

    /// As it is after the deadline of a hold passed without an answer: silence counts, and pauses it in the end.
    #[must_use]
    pub fn after_silence(&self, policy: &Policy) -> (Self, Return) {
        let back = Return::after(policy.after_expiry, EntryState::Expired);
        let mut after = self.moved_back(back);
        after.silent_offers += 1;
        if after.state == EntryState::Waiting && after.silent_offers >= policy.silence_limit {
            after.paused = Some(PausedBy::Silent);
        }
        (after, back)
    }

    /// As it is after its person said no at that instant.
    #[must_use]
    pub fn after_decline(&self, policy: &Policy, at: DateTime<Utc>) -> (Self, Return) {
        let back = Return::after(policy.after_decline, EntryState::Declined);
        let after = Self { silent_offers: 0, declined_at: Some(at), ..self.moved_back(back) };
        (after, back)
    }

    /// As it is after a call ended. Nothing was kept for who was called, so nothing is held against them; but the same
    /// places are not called out again.
    #[must_use]
    pub fn after_call(&self, at: DateTime<Utc>) -> Self {
        Self { declined_at: Some(at), ..self.moved_back(Return::TO_ITS_RANK) }
    }

    /// The first thing that hinders an offer to this waiting entry.
    #[must_use]
    pub fn hindrance(&self) -> Option<Hindrance> {
        if let Some(by) = self.paused {
            Some(Hindrance::Paused(by))
        } else if self.set_aside {
            Some(Hindrance::SetAside)
        } else if self.contact_problem && !self.offer_anyway {
            Some(Hindrance::ContactProblem)
        } else if self.until_passed {
            Some(Hindrance::UntilPassed)
        } else {
            None
        }
    }
}

/// Where an entry goes when its offer ends without a booking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Return {
    /// The entry's new state.
    pub state: EntryState,
    /// A fresh rank at the end of the line.
    pub to_end: bool,
    /// Behind everyone not yet offered in this round.
    pub next_round: bool,
}

impl Return {
    /// What the policy says after an expiry or a decline; `leave_as` is the state of who leaves.
    #[must_use]
    pub fn after(rule: After, leave_as: EntryState) -> Self {
        match rule {
            After::Back => Self { state: EntryState::Waiting, to_end: true, next_round: false },
            After::Keep => Self { state: EntryState::Waiting, to_end: false, next_round: true },
            After::Leave => Self { state: leave_as, to_end: false, next_round: false },
        }
    }

    /// Back to the old rank, as if there had been no offer.
    pub const TO_ITS_RANK: Self = Self { state: EntryState::Waiting, to_end: false, next_round: false };
}
