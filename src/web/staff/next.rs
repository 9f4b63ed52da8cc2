//! Who is offered the next place, which one and why: what the event's page opens with, and what the banner after an
//! act ends with. Decided by the same pure function as a pass.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use super::super::WebState;
use super::super::error::Error;
use super::Staff;
use super::frame::{isolated, places};
use crate::db::pages_staff::InLine;
use crate::db::places::Place;
use crate::domain::allocation::{Candidate, OpenPlace};
use crate::domain::event::{Event, EventState, ListState};
use crate::domain::policy::{Fit, Ordering, Policy, Telling};
use crate::domain::preview::{NextOffer, next_offer};
use crate::domain::when;

/// As many open places as the page looks at: the next offer takes the first of them.
const LOOKED_AT: i64 = 200;

/// Why nothing goes out by itself, whoever waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Halt {
    /// Not published yet.
    Draft,
    /// Cancelled.
    Cancelled,
    /// It has started, or is over.
    Started,
    /// The list is closed.
    Closed,
    /// A file is being imported.
    Importing,
    /// The rule offers nothing by itself.
    Passive,
    /// Staff pick who is offered a place.
    Manual,
    /// The same, past the instant of the final call, which they have not made.
    FinalCallDue,
    /// The list is being put into another order.
    Reordering,
    /// Nobody is ranked before the draw.
    WaitingForDraw,
    /// Everybody is called; nothing is offered in turn.
    Calls,
    /// No channel works since then, and the rule is to wait.
    CannotTell {
        /// Since when.
        since: DateTime<Utc>,
        /// The event's zone.
        zone: Tz,
    },
}

impl Halt {
    /// What stands in the way of an event's list.
    #[must_use]
    pub fn of(event: &Event, policy: &Policy, now: DateTime<Utc>) -> Option<Self> {
        match event.state {
            EventState::Draft => Some(Self::Draft),
            EventState::Cancelled => Some(Self::Cancelled),
            EventState::Over => Some(Self::Started),
            EventState::Published if event.started(now) => Some(Self::Started),
            EventState::Published if event.list == ListState::Closed => Some(Self::Closed),
            EventState::Published if event.importing_until.is_some_and(|until| now < until) => {
                Some(Self::Importing)
            }
            EventState::Published if event.reordering => Some(Self::Reordering),
            EventState::Published if policy.window.is_none() => Some(Self::Passive),
            EventState::Published if policy.ordering == Ordering::Manual => {
                match (policy.calls(now), event.final_called_at) {
                    (false, _) => Some(Self::Manual),
                    (true, None) => Some(Self::FinalCallDue),
                    (true, Some(_)) => Some(Self::Calls),
                }
            }
            EventState::Published if policy.calls(now) => Some(Self::Calls),
            EventState::Published => None,
        }
    }

    /// It in a sentence.
    #[must_use]
    pub fn sentence(self) -> String {
        match self {
            Self::CannotTell { since, zone } => {
                return format!(
                    "Nobody can be told: the mail server does not work since {}. Offers go out as soon as it works.",
                    when::absolute(since, zone)
                );
            }
            Self::Draft => "Nothing is offered yet: the event is a draft.",
            Self::Cancelled => "Nothing is offered: the event is cancelled.",
            Self::Started => "Nothing is offered any more: the event has started.",
            Self::Closed => "Nothing is offered: the list is closed.",
            Self::Importing => "Offers wait until the file has been imported.",
            Self::Passive => "Nothing is offered by itself here: offers are made by hand.",
            Self::Manual => {
                "Nothing is offered by itself here: staff pick who is offered a place, and say why."
            }
            Self::Reordering => "Offers wait until the list is in its new order.",
            Self::FinalCallDue => {
                "The time of the final call has come, and here staff make it: nothing goes out by itself."
            }
            Self::Calls => {
                "Everybody who could take an open place is called, and the first to accept has it: nothing is held."
            }
            Self::WaitingForDraw => "Offers wait for the draw.",
        }
        .to_owned()
    }

    /// Whether staff can offer by hand all the same.
    #[must_use]
    pub fn allows_by_hand(self) -> bool {
        match self {
            Self::Passive
            | Self::Manual
            | Self::FinalCallDue
            | Self::Importing
            // Staff can call whom they offer a place.
            | Self::CannotTell { .. } => true,
            Self::Draft
            | Self::Cancelled
            | Self::Started
            | Self::Closed
            | Self::Reordering
            | Self::WaitingForDraw
            | Self::Calls => false,
        }
    }
}

/// The head of the line and what it waits for.
#[derive(Clone, Debug)]
pub struct NextInLine {
    /// Who is next.
    pub who: InLine,
    /// Which places they get, where they are open already.
    pub given: Vec<Place>,
    /// How many more places have to come back first.
    pub missing: usize,
    /// The first of the line, where it is passed over because it wants more.
    pub passed_over: Option<InLine>,
    /// The first of the line, where too little is open of what they want.
    pub wants_else: Option<InLine>,
}

/// How an event's line stands.
#[derive(Clone, Debug)]
pub struct Line {
    /// Why nothing goes out by itself.
    pub halt: Option<Halt>,
    /// Who is next.
    pub next: Option<NextInLine>,
    /// How many places are open, as far as was looked.
    pub open: i64,
}

impl Line {
    /// Reads it.
    ///
    /// # Errors
    /// What the database says.
    pub async fn read(
        state: &WebState,
        event: &Event,
        policy: &Policy,
        now: DateTime<Utc>,
    ) -> Result<Self, Error> {
        let mut open = state.db.open_places(event.id, LOOKED_AT).await?;
        let line = state.db.front_of_line(event.id, policy.fit, policy.last_band()).await?;
        let asked: Vec<OpenPlace> = open
            .iter()
            .map(|place| OpenPlace { id: place.id, opened_at: place.opened_at, kind: place.kind })
            .collect();
        let candidates: Vec<Candidate> = line.iter().map(|in_line| in_line.candidate).collect();
        let count = i64::try_from(open.len()).unwrap_or(i64::MAX);
        let next = next_offer(&asked, &candidates, policy.fit, now).and_then(|next| {
            let who = line.iter().find(|in_line| in_line.candidate.entry == next.who().entry)?.clone();
            let first = line
                .first()
                .filter(|first| policy.fit == Fit::Fill && first.candidate.entry != who.candidate.entry);
            let passed_over = first.filter(|first| first.candidate.party > who.candidate.party).cloned();
            let would_do =
                |first: &Candidate| asked.iter().filter(|place| first.kinds.has(place.kind)).count();
            let wants_else = line.first().filter(|first| {
                let party = usize::try_from(first.candidate.party).unwrap_or(0);
                first.candidate.entry != who.candidate.entry
                    && passed_over.is_none()
                    && would_do(&first.candidate) < party.min(asked.len())
            });
            let wants_else = wants_else.cloned();
            let (given, missing) = match next {
                NextOffer::Ready(chosen) => {
                    open.retain(|place| chosen.places.contains(&place.id));
                    (open, 0)
                }
                NextOffer::WhenFree { missing, .. } => (vec![], missing),
            };
            Some(NextInLine { who, given, missing, passed_over, wants_else })
        });
        let mut halt = Halt::of(event, policy, now);
        // Somebody waits, and nobody is ranked: only a lottery has that.
        if policy.ordering == Ordering::Lottery
            && halt.is_none()
            && line.is_empty()
            && state.db.somebody_could_take(event.id, i64::MAX, true).await?
        {
            halt = Some(Halt::WaitingForDraw);
        }
        if halt.is_none()
            && policy.telling == Telling::Extend
            && let Some(since) = state.db.down_since().await?
        {
            halt = Some(Halt::CannotTell { since, zone: event.zone });
        }
        Ok(Self { halt, next, open: count })
    }

    /// After an act: what comes next, in one sentence.
    #[must_use]
    pub fn sentence(&self) -> String {
        let Some(next) = &self.next else {
            return match (self.halt, self.open) {
                (Some(halt), _) => halt.sentence(),
                (None, 0) => "No place is open.".to_owned(),
                (None, _) => "Nobody in the line could take what is open.".to_owned(),
            };
        };
        let (name, party) = (isolated(&next.who.name), places(next.who.candidate.party));
        match (self.halt, next.missing) {
            (Some(Halt::Passive | Halt::Manual | Halt::FinalCallDue), 0) => {
                format!("{name} is first in line and could have {party}: offer them by hand.")
            }
            (Some(halt), _) => halt.sentence(),
            (None, 0) => being_offered(&next.who.name, next.who.candidate.party),
            (None, missing) => {
                let missing = i64::try_from(missing).unwrap_or(i64::MAX);
                format!("{name} is next and waits for {party}: {missing} more must come back.")
            }
        }
    }
}

/// What comes next for an event's line, after an act.
///
/// # Errors
/// What the database says.
pub async fn what_comes_next(state: &WebState, staff: &Staff, event: &Event) -> Result<String, Error> {
    let policy = state.db.policy(event.id).await?;
    let line = Line::read(state, event, &policy, staff.now).await?;
    // The rule may have been faster than this page, and then somebody else is next already.
    Ok(match state.db.offered_since_act_of(event.id, staff.member.id).await? {
        Some((name, party)) => being_offered(&name, party),
        None => line.sentence(),
    })
}

fn being_offered(name: &str, party: i32) -> String {
    format!("{} is next and is being offered {}.", isolated(name), places(party))
}
