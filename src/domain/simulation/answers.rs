//! How people answer in a replay: as they did, or as somebody of the record did who is drawn with a fixed seed.

use std::collections::{HashMap, VecDeque};

use chrono::{DateTime, Duration, Utc};
use sha2::{Digest, Sha256};

use super::{Past, PastOffer};
use crate::domain::ids::{EntryId, PersonId};
use crate::domain::offer::{OfferKind, OfferState};

/// The same for every replay, so that the same rule gives the same figures.
const SEED: &[u8] = b"fairlist simulation 1";

/// What somebody said to an offer, and how long after it was made.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Answer {
    /// Yes, no, or nothing.
    pub(super) said: Said,
    /// How long after.
    pub(super) after: Duration,
}

/// What somebody said to an offer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Said {
    /// They take it.
    Yes,
    /// They pass it on.
    No,
    /// Nothing, however long they have.
    Nothing,
}

/// How offers of one kind ended.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Ended {
    /// Accepted.
    pub accepted: usize,
    /// Declined.
    pub declined: usize,
    /// Without an answer.
    pub unanswered: usize,
}

impl Ended {
    /// How many ended.
    #[must_use]
    pub fn total(self) -> usize {
        self.accepted + self.declined + self.unanswered
    }
}

/// The answers on record, from which others are drawn.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Base {
    /// Those to holds, and those to calls.
    holds: Vec<Answer>,
    calls: Vec<Answer>,
}

impl Base {
    pub(super) fn of(offers: &[PastOffer]) -> Self {
        let answers = |kind| offers.iter().filter(|offer| offer.kind == kind).filter_map(answer).collect();
        Self { holds: answers(OfferKind::Hold), calls: answers(OfferKind::Call) }
    }

    /// Whether nothing can be drawn.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.holds.is_empty() && self.calls.is_empty()
    }

    /// From which answers those to offers of this kind are drawn, and how these ended: where no offer of the kind has
    /// ended, from those to the other.
    #[must_use]
    pub fn drawn_for(&self, kind: OfferKind) -> (OfferKind, Ended) {
        let (kind, pool) = self.pool(kind);
        let count = |said| pool.iter().filter(|answer| answer.said == said).count();
        let ended =
            Ended { accepted: count(Said::Yes), declined: count(Said::No), unanswered: count(Said::Nothing) };
        (kind, ended)
    }

    fn pool(&self, kind: OfferKind) -> (OfferKind, &[Answer]) {
        match kind {
            OfferKind::Hold if self.holds.is_empty() => (OfferKind::Call, &self.calls),
            OfferKind::Call if self.calls.is_empty() => (OfferKind::Hold, &self.holds),
            OfferKind::Hold => (kind, &self.holds),
            OfferKind::Call => (kind, &self.calls),
        }
    }

    fn draw(&self, kind: OfferKind, person: PersonId, time: usize) -> Option<Answer> {
        let pool = self.pool(kind).1;
        let digest = Sha256::new()
            .chain_update(SEED)
            .chain_update(person.0)
            .chain_update(u64::try_from(time).unwrap_or(u64::MAX).to_be_bytes())
            .finalize();
        let mut lot = [0; 8];
        lot.copy_from_slice(&digest[..8]);
        let pool_size = u64::try_from(pool.len()).ok().filter(|size| *size > 0)?;
        pool.get(usize::try_from(u64::from_be_bytes(lot) % pool_size).ok()?).copied()
    }
}

/// What an offer's end tells of its person; nothing where it was taken back, or is not over.
fn answer(offer: &PastOffer) -> Option<Answer> {
    let after = offer.ended_at? - offer.made_at;
    let said = match offer.state {
        OfferState::Accepted => Said::Yes,
        OfferState::Declined if !offer.left => Said::No,
        OfferState::Expired => Said::Nothing,
        _ => return None,
    };
    Some(Answer { said, after })
}

/// What is known of one person's next offer.
#[derive(Clone, Copy)]
enum Known {
    Answer(Answer),
    /// It did not run its course: for so long they said nothing.
    SilentFor(Duration),
}

/// Hands out answers: to each person their own, as long as they have any.
pub(super) struct Answers<'a> {
    base: &'a Base,
    known: HashMap<(PersonId, OfferKind), VecDeque<Known>>,
    times: HashMap<PersonId, usize>,
    /// How many were drawn.
    pub(super) drawn: usize,
}

impl<'a> Answers<'a> {
    pub(super) fn of(past: &Past, base: &'a Base) -> Self {
        let persons: HashMap<EntryId, PersonId> =
            past.entries.iter().map(|entry| (entry.id, entry.person)).collect();
        let mut known: HashMap<_, VecDeque<Known>> = HashMap::new();
        for offer in &past.offers {
            let Some(person) = persons.get(&offer.entry) else { continue };
            let until: DateTime<Utc> = offer.ended_at.unwrap_or(past.until);
            known
                .entry((*person, offer.kind))
                .or_default()
                .push_back(answer(offer).map_or(Known::SilentFor(until - offer.made_at), Known::Answer));
        }
        Self { base, known, times: HashMap::new(), drawn: 0 }
    }

    /// How this person answers the next offer of this kind.
    pub(super) fn next(&mut self, person: PersonId, kind: OfferKind) -> Answer {
        let time = self.times.entry(person).or_insert(0);
        *time += 1;
        let silent_for = match self.known.get_mut(&(person, kind)).and_then(VecDeque::pop_front) {
            Some(Known::Answer(answer)) => return answer,
            // What ended it is in the replay too, at that very instant, and comes first.
            Some(Known::SilentFor(length)) => length + Duration::microseconds(1),
            None => Duration::zero(),
        };
        self.drawn += 1;
        let nothing = Answer { said: Said::Nothing, after: Duration::zero() };
        let drawn = self.base.draw(kind, person, *time).unwrap_or(nothing);
        Answer { after: drawn.after + silent_for, ..drawn }
    }
}
