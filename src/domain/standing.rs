//! How things stand for a customer: at an event's door, with an offer, in the line. Pages choose their words by
//! these, so that a state nobody thought of does not compile.

use chrono::{DateTime, Utc};

use super::event::{EventState, ListState};
use super::offer::{Offer, OfferState};
use super::place::PlaceCounts;
use super::policy::PositionShown;
use super::reason::Reason;

/// Whether an event can be had at all.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sale {
    /// It takes place, and has not started.
    On,
    /// It has started.
    Started,
    /// It was cancelled.
    Cancelled,
    /// It is over.
    Over,
}

/// Whose an event's places are, as the public is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Free {
    /// So many are free for everybody.
    ForEverybody(i64),
    /// None is free for the public: what came free goes to the waitlist first. The first hold ends then, if nobody
    /// takes it.
    HeldForList(Option<DateTime<Utc>>),
    /// Every place is booked.
    Full,
    /// There are no places yet.
    NoneYet,
}

/// Whether the list takes somebody new.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Line {
    /// Yes.
    Open,
    /// Not now; from then on, if that is set.
    Frozen(Option<DateTime<Utc>>),
    /// No, and nothing is offered.
    Closed,
    /// It has as many as it may have.
    Full,
}

/// What a newcomer finds at an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Door {
    /// Whether it can be had at all.
    pub sale: Sale,
    /// Whose the places are.
    pub free: Free,
    /// Whether the list takes somebody new.
    pub line: Line,
    /// What is free for everybody is booked at another service, not here.
    pub outside: bool,
}

/// What the door is decided by.
#[derive(Clone, Copy, Debug)]
pub struct DoorFacts {
    /// The event's state.
    pub state: EventState,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
    /// The list's state.
    pub list: ListState,
    /// When it opens by itself.
    pub list_opens_at: Option<DateTime<Utc>>,
    /// Nothing is offered by itself.
    pub passive: bool,
    /// Whoever could take an open place is called: nothing is reserved for the list.
    pub calls: bool,
    /// At most so many live entries.
    pub list_cap: Option<i32>,
    /// Live entries.
    pub live: i64,
    /// How the places add up.
    pub places: PlaceCounts,
    /// So many of the open places somebody on the list could take, or waits for more of them at its head.
    pub claimed: i64,
    /// When the first hold ends.
    pub held_until: Option<DateTime<Utc>>,
    /// A booking service keeps the places.
    pub outside: bool,
}

impl Door {
    /// The same answer as the use cases give under the lock, as of a moment ago.
    #[must_use]
    pub fn of(facts: &DoorFacts, now: DateTime<Utc>) -> Self {
        let sale = match facts.state {
            EventState::Draft | EventState::Over => Sale::Over,
            EventState::Cancelled => Sale::Cancelled,
            EventState::Published if facts.starts_at.is_some_and(|start| now >= start) => Sale::Started,
            EventState::Published => Sale::On,
        };
        let served = !facts.passive && !facts.calls && facts.list != ListState::Closed;
        let free_for_all = facts.places.open - if served { facts.claimed } else { 0 };
        let free = if free_for_all > 0 {
            Free::ForEverybody(free_for_all)
        } else if facts.places.open > 0 || facts.places.held > 0 {
            Free::HeldForList(facts.held_until)
        } else if facts.places.booked > 0 {
            Free::Full
        } else {
            Free::NoneYet
        };
        let line = match facts.list {
            ListState::Closed => Line::Closed,
            ListState::Frozen => Line::Frozen(facts.list_opens_at.filter(|opens| *opens > now)),
            ListState::Open if facts.list_cap.is_some_and(|cap| facts.live >= i64::from(cap)) => Line::Full,
            ListState::Open => Line::Open,
        };
        Self { sale, free, line, outside: facts.outside }
    }

    /// How many places a newcomer may book here.
    #[must_use]
    pub fn bookable(self) -> i64 {
        if self.outside { 0 } else { self.for_everybody() }
    }

    /// How many places are there for whoever comes, booked here or elsewhere.
    #[must_use]
    pub fn for_everybody(self) -> i64 {
        match (self.sale, self.free) {
            (Sale::On, Free::ForEverybody(open)) => open,
            _ => 0,
        }
    }

    /// Whether a newcomer with a party of this size may join the list: larger than what they could simply book.
    #[must_use]
    pub fn takes(self, party: i32) -> bool {
        self.sale == Sale::On && self.line == Line::Open && i64::from(party) > self.for_everybody()
    }
}

/// How an offer stands for the person it was made to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferStanding {
    /// It can be taken.
    Open,
    /// The deadline passed, swept or not.
    Late,
    /// Taken, and the booking service has not answered yet.
    BeingConfirmed,
    /// Taken: there is a booking.
    Accepted,
    /// Passed on.
    Declined,
    /// Passed on by leaving the list.
    Left,
    /// Taken back by staff.
    Revoked,
    /// Taken back because the list was closed.
    ListClosed,
    /// Taken back because the event was cancelled.
    EventCancelled,
    /// The booking service says that the place was gone.
    Conflicted,
}

impl OfferStanding {
    /// At `now`; the deadline itself is late.
    #[must_use]
    pub fn of(offer: &Offer, now: DateTime<Utc>) -> Self {
        let ended_because = |reason: Reason| offer.end_reason.as_deref() == Some(reason.as_str());
        match offer.state {
            OfferState::Pending if offer.is_claimable(now) => Self::Open,
            OfferState::Pending | OfferState::Expired => Self::Late,
            OfferState::Accepting => Self::BeingConfirmed,
            OfferState::Accepted => Self::Accepted,
            OfferState::Declined if ended_because(Reason::Left) => Self::Left,
            OfferState::Declined => Self::Declined,
            OfferState::Revoked if ended_because(Reason::ListClosed) => Self::ListClosed,
            OfferState::Revoked if ended_because(Reason::EventCancelled) => Self::EventCancelled,
            OfferState::Revoked => Self::Revoked,
            OfferState::Conflicted => Self::Conflicted,
        }
    }
}

/// A place in the line, as the rule lets it be told: "number 7", "among the first 10"; `None` when it is not told.
#[must_use]
pub fn position_in_words(shown: PositionShown, position: i64) -> Option<String> {
    match shown {
        PositionShown::Exact => Some(format!("number {position}")),
        PositionShown::Band => {
            // 10, 50, 100, 500, 1,000, …
            let mut band = 10_i64;
            let mut by_five = true;
            while band < position {
                band = band.saturating_mul(if by_five { 5 } else { 2 });
                by_five = !by_five;
            }
            Some(format!("among the first {}", grouped(band)))
        }
        PositionShown::None => None,
    }
}

/// "1,200": a count as people read it.
#[must_use]
pub fn grouped(number: i64) -> String {
    let digits = number.unsigned_abs().to_string();
    let mut text = String::from(if number < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

/// "1 place", "2 places".
#[must_use]
pub fn places_in_words(count: i64) -> String {
    if count == 1 { "1 place".to_owned() } else { format!("{} places", grouped(count)) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono::Duration;

    fn facts() -> DoorFacts {
        DoorFacts {
            state: EventState::Published,
            starts_at: None,
            list: ListState::Open,
            list_opens_at: None,
            passive: false,
            calls: false,
            list_cap: None,
            live: 3,
            places: PlaceCounts { open: 0, held: 0, booked: 5, retire_when_free: 0 },
            claimed: 5,
            held_until: None,
            outside: false,
        }
    }

    #[test]
    fn the_three_causes_are_told_apart() {
        let now = DateTime::UNIX_EPOCH;
        let until = now + Duration::minutes(30);
        assert_eq!(Door::of(&facts(), now).free, Free::Full);
        let held = DoorFacts {
            places: PlaceCounts { held: 1, booked: 4, ..PlaceCounts::default() },
            held_until: Some(until),
            ..facts()
        };
        assert_eq!(Door::of(&held, now).free, Free::HeldForList(Some(until)));
        let reserved =
            DoorFacts { places: PlaceCounts { open: 2, booked: 3, ..PlaceCounts::default() }, ..facts() };
        assert_eq!(Door::of(&reserved, now).free, Free::HeldForList(None));
        let free = DoorFacts { claimed: 0, ..reserved };
        let door = Door::of(&free, now);
        assert_eq!((door.free, door.bookable()), (Free::ForEverybody(2), 2));
        assert!(!door.takes(2) && door.takes(3), "only a larger party waits");
        let outside = Door::of(&DoorFacts { outside: true, ..free }, now);
        assert_eq!((outside.free, outside.bookable()), (Free::ForEverybody(2), 0));
        assert!(!outside.takes(2) && outside.takes(3), "wherever what is free is booked");
    }

    #[test]
    fn nobody_joins_what_is_frozen_closed_full_or_started() {
        let now = DateTime::UNIX_EPOCH;
        assert!(Door::of(&facts(), now).takes(1));
        for shut in [
            DoorFacts { list: ListState::Frozen, ..facts() },
            DoorFacts { list: ListState::Closed, ..facts() },
            DoorFacts { list_cap: Some(3), ..facts() },
            DoorFacts { starts_at: Some(now), ..facts() },
            DoorFacts { state: EventState::Cancelled, ..facts() },
        ] {
            assert!(!Door::of(&shut, now).takes(1), "{shut:?}");
        }
    }

    #[test]
    fn a_position_is_told_as_the_rule_says() {
        let told = |shown, n| position_in_words(shown, n).unwrap_or_default();
        assert_eq!(told(PositionShown::Exact, 7), "number 7");
        assert_eq!(
            [1, 10, 11, 50, 51, 400, 700].map(|n| told(PositionShown::Band, n)),
            [10, 10, 50, 50, 100, 500, 1_000].map(|n| format!("among the first {}", grouped(n)))
        );
        assert_eq!(told(PositionShown::None, 7), "");
        assert_eq!([0, 999, 1_000, 1_234_567].map(grouped), ["0", "999", "1,000", "1,234,567"]);
    }
}
