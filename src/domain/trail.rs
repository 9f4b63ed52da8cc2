//! How an entry stood in the line at every instant, from its own records and what moved everybody; and what each look at
//! the line meant for it.

use chrono::{DateTime, Utc};

use super::allocation::SkipReason;
use super::audit::Act;
use super::entry::{EntryState, Hindrance, OrderKey, PausedBy};
use super::policy::band_of_draw;
use super::reason::Reason;

/// One record of an entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EntryMark {
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub act: Act,
    /// Why.
    pub reason: Option<Reason>,
    /// Somebody of the staff did it.
    pub by_staff: bool,
    /// The state from then on.
    pub to: Option<EntryState>,
    /// The order key from then on.
    pub key: Option<OrderKey>,
    /// How many places it asked for before and from then on, where that changed.
    pub party: Option<(i32, i32)>,
}

/// What changed how an entry stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mark {
    /// A record of its own.
    Own(EntryMark),
    /// A draw ranked it, with one record for the whole pool.
    Drawn {
        /// When.
        at: DateTime<Utc>,
        /// Which.
        draw: i32,
        /// The rank it drew.
        rank: i64,
    },
    /// Another order is the rule, and takes back what the one before gave.
    OrderChanged {
        /// When.
        at: DateTime<Utc>,
    },
}

/// How an entry stood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum How {
    /// In the line, and nothing hindered an offer.
    Eligible,
    /// In the line, and passed over.
    Hindered(Hindrance),
    /// Not in the line: not confirmed yet, with an offer, or over.
    Away(EntryState),
}

/// How an entry stood from an instant on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stand {
    /// From when on.
    pub since: DateTime<Utc>,
    /// Its order key.
    pub key: OrderKey,
    /// How it stood.
    pub how: How,
    /// How many places it asked for.
    pub party: i32,
    /// When it had last declined.
    pub declined_at: Option<DateTime<Utc>>,
}

/// What hinders an entry, as its own flags do.
#[derive(Clone, Copy, Default)]
#[expect(clippy::struct_excessive_bools, reason = "they come and go by themselves, as those of an entry do")]
struct Flags {
    paused: Option<PausedBy>,
    set_aside: bool,
    contact_problem: bool,
    offer_anyway: bool,
    until_passed: bool,
}

impl Flags {
    fn follow(&mut self, mark: &EntryMark) {
        match mark.act {
            Act::Paused if mark.reason == Some(Reason::UntilPassed) => self.until_passed = true,
            Act::Paused => {
                self.paused = Some(match (mark.reason, mark.by_staff) {
                    (Some(Reason::Silent), _) => PausedBy::Silent,
                    (_, true) => PausedBy::Staff,
                    (_, false) => PausedBy::Person,
                });
            }
            Act::Resumed => self.paused = None,
            Act::SetAside => self.set_aside = true,
            Act::Placed => {
                self.set_aside = false;
                self.offer_anyway = self.contact_problem;
            }
            // Staff offer to whom they want, whatever hindered it.
            Act::Offered | Act::Reactivated => {
                self.paused = None;
                self.set_aside = false;
            }
            Act::Confirmed => self.contact_problem = false,
            Act::ContactChanged => self.contact_problem = mark.reason == Some(Reason::ContactProblem),
            _ => {}
        }
    }

    fn hindrance(self) -> Option<Hindrance> {
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

/// Where an entry stands, and its rank in the line where a draw gave it another.
#[derive(Clone, Copy)]
struct Standing {
    key: OrderKey,
    undrawn: Option<i64>,
}

impl Standing {
    fn own(before: Option<Self>, key: Option<OrderKey>) -> Option<Self> {
        let key = key.or(before.map(|before| before.key))?;
        // Who was drawn and went to the end of the line is in it again.
        Some(Self { key, undrawn: before.and_then(|before| before.undrawn).filter(|_| key.band < 0) })
    }

    fn drawn(self, draw: i32, rank: i64) -> Self {
        let undrawn = self.undrawn.or(Some(self.key.rank));
        Self { key: OrderKey { band: band_of_draw(draw), round: 0, rank }, undrawn }
    }

    fn taken_back(self) -> Self {
        if self.key.band >= 0 {
            return self;
        }
        let rank = self.undrawn.unwrap_or(self.key.rank);
        Self { key: OrderKey { band: 0, rank, ..self.key }, undrawn: None }
    }
}

/// How an entry that asks for `party` places now stood, from all that changed it, in order.
#[must_use]
pub fn trail(marks: &[Mark], party: i32) -> Vec<Stand> {
    let asked = |mark: &Mark| if let Mark::Own(mark) = mark { mark.party } else { None };
    let mut party = marks.iter().find_map(asked).map_or(party, |(before, _)| before);
    let mut flags = Flags::default();
    let (mut state, mut declined_at) = (EntryState::Unconfirmed, None);
    let mut standing: Option<Standing> = None;
    let mut stands: Vec<Stand> = Vec::new();
    for mark in marks {
        let at = match *mark {
            Mark::Own(mark) => {
                flags.follow(&mark);
                party = mark.party.map_or(party, |(_, after)| after);
                state = mark.to.unwrap_or(state);
                standing = Standing::own(standing, mark.key);
                if mark.act == Act::Declined || mark.reason == Some(Reason::CallEnded) {
                    declined_at = Some(mark.at);
                }
                mark.at
            }
            Mark::Drawn { at, draw, rank } => {
                standing = standing.map(|before| before.drawn(draw, rank));
                at
            }
            Mark::OrderChanged { at } => {
                standing = standing.map(Standing::taken_back);
                at
            }
        };
        let how = match (state, flags.hindrance()) {
            (EntryState::Waiting, None) => How::Eligible,
            (EntryState::Waiting, Some(hindrance)) => How::Hindered(hindrance),
            (state, _) => How::Away(state),
        };
        if let Some(Standing { key, .. }) = standing {
            stands.push(Stand { since: at, key, how, party, declined_at });
        }
    }
    stands
}

/// How it stood then, if it was there.
#[must_use]
pub fn stood(trail: &[Stand], at: DateTime<Utc>) -> Option<&Stand> {
    trail[..trail.partition_point(|stand| stand.since <= at)].last()
}

/// What a look at the line that made offers meant for an entry that got none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// Those who were offered something were ahead of it.
    Behind,
    /// It was passed over in favour of somebody behind it.
    PassedOver(SkipReason),
    /// Something hindered an offer to it.
    Hindered(Hindrance),
    /// It was offered places itself.
    Offered,
    /// It was not in the line: not confirmed yet, with an offer, or over.
    Away(EntryState),
}

/// What a look at that instant meant for an entry; `skip` is the recorded reason that covers it, if one does.
#[must_use]
pub fn fate(trail: &[Stand], at: DateTime<Utc>, skip: Option<SkipReason>) -> Fate {
    match (stood(trail, at), skip) {
        (None, _) => Fate::Away(EntryState::Unconfirmed),
        (Some(Stand { how: How::Away(EntryState::Offered), since, .. }), _) if *since == at => Fate::Offered,
        (Some(Stand { how: How::Away(state), .. }), _) => Fate::Away(*state),
        (Some(Stand { how: How::Hindered(hindrance), .. }), _) => Fate::Hindered(*hindrance),
        (Some(Stand { how: How::Eligible, .. }), Some(skip)) => Fate::PassedOver(skip),
        (Some(Stand { how: How::Eligible, .. }), None) => Fate::Behind,
    }
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;

    fn minute(n: i64) -> DateTime<Utc> {
        DateTime::UNIX_EPOCH + Duration::minutes(n)
    }

    fn mark(at: i64, act: Act, reason: Reason, to: EntryState, rank: i64) -> Mark {
        let key = Some(OrderKey { band: 0, round: 0, rank });
        Mark::Own(EntryMark {
            at: minute(at),
            act,
            reason: Some(reason),
            by_staff: false,
            to: Some(to),
            key,
            party: None,
        })
    }

    #[test]
    fn what_a_look_meant_follows_from_how_the_entry_stood_then() {
        let trail = trail(
            &[
                mark(0, Act::Joined, Reason::Joined, EntryState::Unconfirmed, 1),
                mark(10, Act::Confirmed, Reason::Confirmed, EntryState::Waiting, 1),
                mark(20, Act::Paused, Reason::Paused, EntryState::Waiting, 1),
                mark(30, Act::Resumed, Reason::Resumed, EntryState::Waiting, 1),
                mark(40, Act::Offered, Reason::FirstInOrder, EntryState::Offered, 1),
                mark(50, Act::Expired, Reason::WindowEnded, EntryState::Waiting, 9),
                mark(50, Act::Paused, Reason::Silent, EntryState::Waiting, 9),
            ],
            1,
        );
        let at = |n| fate(&trail, minute(n), None);
        assert_eq!(at(-1), Fate::Away(EntryState::Unconfirmed));
        assert_eq!(at(5), Fate::Away(EntryState::Unconfirmed));
        assert_eq!(at(10), Fate::Behind);
        assert_eq!(at(25), Fate::Hindered(Hindrance::Paused(PausedBy::Person)));
        assert_eq!(at(30), Fate::Behind);
        assert_eq!(at(40), Fate::Offered);
        assert_eq!(at(45), Fate::Away(EntryState::Offered));
        assert_eq!(at(50), Fate::Hindered(Hindrance::Paused(PausedBy::Silent)));
        let skip = SkipReason::DoesNotFit { more_than: 1 };
        assert_eq!(fate(&trail, minute(35), Some(skip)), Fate::PassedOver(skip));
        let paused = fate(&trail, minute(25), Some(skip));
        assert_eq!(paused, Fate::Hindered(Hindrance::Paused(PausedBy::Person)), "nobody paused is skipped");
        assert_eq!(stood(&trail, minute(99)).map(|stand| stand.key.rank), Some(9));
    }

    #[test]
    fn how_many_places_it_asked_for_is_remembered() {
        let asks = |at, before, after| {
            let key = Some(OrderKey { band: 0, round: 0, rank: 1 });
            let (act, reason) = (Act::PartyChanged, Some(Reason::CustomerAsked));
            let party = Some((before, after));
            Mark::Own(EntryMark { at: minute(at), act, reason, by_staff: false, to: None, key, party })
        };
        let joined = mark(0, Act::Joined, Reason::Joined, EntryState::Waiting, 1);
        let trail = trail(&[joined, asks(10, 4, 2), asks(20, 2, 3)], 3);
        let party = |at| stood(&trail, minute(at)).map(|stand| (stand.party, stand.how));
        assert_eq!(party(5), Some((4, How::Eligible)));
        assert_eq!(party(10), Some((2, How::Eligible)));
        assert_eq!(party(99), Some((3, How::Eligible)));
    }

    #[test]
    fn a_contact_problem_ends_or_is_overruled() {
        let contact = |at, act, reason| mark(at, act, reason, EntryState::Waiting, 1);
        let trail = trail(
            &[
                contact(0, Act::Joined, Reason::Joined),
                contact(1, Act::ContactChanged, Reason::ContactProblem),
                contact(2, Act::Placed, Reason::CustomerAsked),
                contact(3, Act::ContactChanged, Reason::ContactWorks),
                contact(4, Act::SetAside, Reason::StaffMistake),
                contact(5, Act::Paused, Reason::UntilPassed),
                contact(6, Act::Placed, Reason::CustomerAsked),
            ],
            1,
        );
        let hows: Vec<How> = trail.iter().map(|stand| stand.how).collect();
        assert_eq!(
            hows,
            [
                How::Eligible,
                How::Hindered(Hindrance::ContactProblem),
                How::Eligible,
                How::Eligible,
                How::Hindered(Hindrance::SetAside),
                How::Hindered(Hindrance::SetAside),
                How::Hindered(Hindrance::UntilPassed),
            ]
        );
    }
}
