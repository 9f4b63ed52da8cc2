//! What customers are told of their entries, in words. Nobody else is ever named.

use chrono::{DateTime, Utc};

use crate::db::pages_customer::StoryLine;
use crate::db::pages_customer::events::EventSheet;
use crate::db::pages_customer::mine::MyEntry;
use crate::domain::audit::Act;
use crate::domain::entry::{Entry, EntryState, Hindrance, PausedBy};
use crate::domain::policy::{Enough, Fit, Ordering, PositionShown};
use crate::domain::reason::Reason;
use crate::domain::standing::{Free, Line, Sale, grouped, places_in_words, position_in_words};
use crate::domain::when::When;

/// Why they are not given more places.
pub(super) fn you_have_enough(enough: Enough) -> String {
    format!(
        "You have {} already, and one person may have {}.",
        places_in_words(enough.has.into()),
        places_in_words(enough.most.into())
    )
}

/// Where an entry stands, in one sentence.
pub(super) fn entry_answer(entry: &MyEntry, now: DateTime<Utc>) -> String {
    let places = places_in_words(entry.party.into());
    match entry.state {
        EntryState::Unconfirmed => format!("You asked for {places}, but did not confirm it yet."),
        EntryState::Waiting if entry.paused.is_some() => {
            format!("Your request for {places} is paused. You keep your place in the line.")
        }
        EntryState::Waiting if entry.pool.is_some() => {
            let among = match (entry.position_shown, entry.pool) {
                (PositionShown::Exact, Some(pool)) if pool > 1 => format!(" among {} people", grouped(pool)),
                _ => String::new(),
            };
            format!("You are on the waitlist for {places}. A draw decides the order{among}.")
        }
        EntryState::Waiting => {
            let places = match &entry.group {
                Some(group) => format!("{places} in the group “{group}”"),
                None => places,
            };
            match entry.position.and_then(|position| position_in_words(entry.position_shown, position)) {
                Some(position) => format!("You are on the waitlist for {places}, {position}."),
                None => format!("You are on the waitlist for {places}."),
            }
        }
        EntryState::Offered if entry.is_call => {
            format!("You are called: the first to accept has {places}. Nothing is held.")
        }
        EntryState::Offered if entry.stands => format!(
            "It is your turn: you have {places}. Your time stands still while no mail of ours goes out."
        ),
        EntryState::Offered => match entry.offer {
            Some((_, deadline)) if now < deadline => {
                let until = When::new(deadline, entry.event.zone, now);
                format!("It is your turn: you have {places} until {}.", until.absolute)
            }
            Some(_) | None => format!("The time to take {places} is up."),
        },
        EntryState::Accepted => format!("You have {places}."),
        EntryState::Declined => format!("You passed {places} on and are no longer on the waitlist."),
        EntryState::Expired => {
            format!(
                "{places} waited for you, but the time to take them ran out. You are no longer on the waitlist."
            )
        }
        EntryState::Withdrawn => "You left this waitlist.".to_owned(),
        EntryState::Removed => "The organizer took you off this waitlist.".to_owned(),
        EntryState::Lapsed => {
            "Your request was not confirmed within 24 hours, so it is no longer on the waitlist.".to_owned()
        }
        EntryState::Closed => match entry.event.state {
            crate::domain::event::EventState::Cancelled => {
                "The event was cancelled. Should it take place after all, you are back at your old place."
                    .to_owned()
            }
            crate::domain::event::EventState::Draft
            | crate::domain::event::EventState::Published
            | crate::domain::event::EventState::Over => {
                "The event has begun or is over, and this waitlist with it.".to_owned()
            }
        },
    }
}

/// The word and class of an entry's chip.
pub(super) fn entry_chip(entry: &MyEntry) -> (&'static str, &'static str) {
    match entry.state {
        EntryState::Waiting if entry.paused.is_some() => ("paused", "paused"),
        EntryState::Waiting if entry.contact_problem => ("contact_problem", "contact problem"),
        EntryState::Accepted => ("accepted", "booked"),
        EntryState::Declined => ("declined", "passed on"),
        EntryState::Expired => ("expired", "time ran out"),
        EntryState::Withdrawn => ("withdrawn", "left"),
        EntryState::Offered => ("offered", "your turn"),
        EntryState::Unconfirmed => ("unconfirmed", "not confirmed"),
        EntryState::Lapsed => ("lapsed", "not confirmed in time"),
        state @ (EntryState::Waiting | EntryState::Removed | EntryState::Closed) => {
            (state.as_str(), state.as_str())
        }
    }
}

/// Why a waiting entry waits: a few sentences, what hinders it first.
pub(super) fn why_waiting(
    entry: &Entry,
    position: i64,
    sheet: &EventSheet,
    now: DateTime<Utc>,
) -> Vec<String> {
    let mut why = Vec::new();
    let door = sheet.door(now);
    match entry.hindrance() {
        Some(Hindrance::Paused(PausedBy::Person)) => why.push(match entry.paused_until {
            Some(until) => format!(
                "You paused it; it goes on by itself {}. Until then you are passed over and keep your place.",
                When::new(until, sheet.event.zone, now).absolute
            ),
            None => "You paused it. Until you resume you are passed over and keep your place.".to_owned(),
        }),
        Some(Hindrance::Paused(PausedBy::Staff)) => {
            why.push("The organizer paused it. You are passed over for now and keep your place.".to_owned());
        }
        Some(Hindrance::Paused(PausedBy::Silent)) => why.push(
            "Several offers in a row went unanswered, so nothing is offered to you until you resume. You keep your place."
                .to_owned(),
        ),
        Some(Hindrance::SetAside) => why.push(
            "An offer to you was taken back. The organizer decides how it goes on; you keep your place.".to_owned(),
        ),
        Some(Hindrance::ContactProblem) => why.push(
            "Our messages to you come back, so nothing is offered to you. Sign in again with a code, or ask the organizer."
                .to_owned(),
        ),
        Some(Hindrance::UntilPassed) => {
            why.push("The date until which you wanted to wait has passed.".to_owned());
        }
        None => {}
    }
    match door.sale {
        Sale::On => {}
        Sale::Started => why.push("The event has started: nothing is offered any more.".to_owned()),
        Sale::Cancelled => why.push("The event was cancelled.".to_owned()),
        Sale::Over => why.push("The event is over.".to_owned()),
    }
    if !why.is_empty() {
        return why;
    }
    match door.line {
        Line::Closed => why.push(
            "The organizer has closed the list: nothing is offered while it is. You keep your place.".to_owned(),
        ),
        Line::Open | Line::Frozen(_) | Line::Full if sheet.facts.passive => why.push(
            "On this list nothing is offered by itself: the organizer offers places by hand and writes to you."
                .to_owned(),
        ),
        Line::Open | Line::Frozen(_) | Line::Full if sheet.ordering == Ordering::Manual => why.push(
            "On this list nothing is offered by itself: the organizer picks who is offered a place, says why, and writes to you."
                .to_owned(),
        ),
        Line::Open | Line::Frozen(_) | Line::Full
            if sheet.ordering == Ordering::Lottery && entry.key.band >= 0 =>
        {
            why.push(
                "The order among those who wait is drawn, and you have not been drawn yet: you take part in the next draw."
                    .to_owned(),
            );
        }
        Line::Open | Line::Frozen(_) | Line::Full => why.extend(why_no_place(entry, position, sheet, door.free, now)),
    }
    why
}

fn why_no_place(
    entry: &Entry,
    position: i64,
    sheet: &EventSheet,
    free: Free,
    now: DateTime<Utc>,
) -> Vec<String> {
    let mut why = Vec::new();
    match free {
        Free::Full if sheet.facts.calls => why.push(
            "Every place is booked. As soon as one comes free, everybody who could take it is called.".to_owned(),
        ),
        Free::Full => why.push("Every place is booked. As soon as one comes free, the first in line is asked.".to_owned()),
        Free::NoneYet => why.push("There are no places yet.".to_owned()),
        Free::HeldForList(until) if sheet.facts.places.open == 0 => why.push(match until {
            Some(until) => format!(
                "The places that came free are being offered to others in the line. The first of these offers ends {}.",
                When::new(until, sheet.event.zone, now).absolute
            ),
            None => "The places that came free are being offered to others in the line.".to_owned(),
        }),
        Free::HeldForList(_) | Free::ForEverybody(_) => {
            if entry.declined_at.is_some() {
                why.push("Places that were open when you passed yours on are not offered to you again; the next ones are.".to_owned());
            } else if i64::from(entry.party) > sheet.facts.places.open {
                why.push(format!(
                    "You need {} together, and fewer are open at the moment.",
                    places_in_words(entry.party.into())
                ));
            } else if position > 1 && sheet.fit == Fit::Strict {
                why.push("Somebody before you waits for more places than are open. Nobody is overtaken on this list.".to_owned());
            } else if let Some(since) = sheet.down_since.filter(|_| !sheet.facts.calls) {
                why.push(format!(
                    "A place is kept for the line, and nobody can be told: since {} no mail of ours goes out. Offers go out as soon as it does again.",
                    When::new(since, sheet.event.zone, now).absolute
                ));
            } else {
                why.push("A place has just come free: the next offers go out in a moment.".to_owned());
            }
        }
    }
    why
}

/// What happened, as its owner is told; nothing for what concerns nobody but us.
pub(super) fn story(line: &StoryLine) -> Option<String> {
    let reason = Reason::parse(&line.reason);
    let stay = |what: &str| match line.to {
        Some(EntryState::Waiting) => format!("{what}. You stayed on the waitlist."),
        _ => what.to_owned(),
    };
    let who = if line.by_staff { "The organizer" } else { "You" };
    Some(match Act::parse(&line.act)? {
        Act::Joined => match reason {
            Some(Reason::Imported) => "The organizer brought your request over from another list".to_owned(),
            _ if line.by_staff => "The organizer put you on the waitlist".to_owned(),
            _ => "You joined the waitlist".to_owned(),
        },
        Act::Confirmed => "You confirmed your address".to_owned(),
        Act::Lapsed => "It was not confirmed within 24 hours".to_owned(),
        Act::Offered if line.of_offer => return None,
        Act::Offered => "It was your turn: you got an offer".to_owned(),
        Act::Accepted => match reason {
            Some(Reason::BookedDirectly) => "You booked".to_owned(),
            _ if line.by_staff => "The organizer booked for you".to_owned(),
            _ => "You said yes and booked".to_owned(),
        },
        Act::Declined if line.by_staff => stay("The organizer passed on for you what was offered"),
        Act::Declined => stay("You passed on what was offered"),
        Act::Expired => stay("The time to answer ran out"),
        Act::Revoked => match reason {
            Some(Reason::ListClosed) => stay("The list was closed and the offer taken back"),
            Some(Reason::EventCancelled) => "The event was cancelled and the offer taken back".to_owned(),
            _ => stay("The organizer took the offer back"),
        },
        Act::Conflicted => stay("You said yes, but the place had been sold elsewhere"),
        Act::AnswerRecorded => "The organizer wrote down your answer".to_owned(),
        Act::Reactivated => "The organizer gave you the offer again".to_owned(),
        Act::DeadlineMoved => "The deadline of your offer moved".to_owned(),
        Act::Left if reason == Some(Reason::WindowEnded) => {
            "The time to answer ran out, and you left".to_owned()
        }
        Act::Left => "You left the waitlist".to_owned(),
        Act::Removed => "The organizer took you off the waitlist".to_owned(),
        Act::Paused if reason == Some(Reason::Silent) => {
            "Paused, because several offers in a row went unanswered".to_owned()
        }
        Act::Paused => format!("{who} paused it"),
        Act::Resumed if reason == Some(Reason::Resumed) && !line.by_staff => "The pause ended".to_owned(),
        Act::Resumed => format!("{who} resumed it"),
        Act::ContactChanged if reason == Some(Reason::ContactWorks) => "Messages reach you again".to_owned(),
        Act::ContactChanged => "Messages to you came back".to_owned(),
        Act::SetAside => "The organizer decides how it goes on".to_owned(),
        Act::Placed => "The organizer put you back in the line".to_owned(),
        Act::Moved if line.by_staff => "The organizer gave you another number in the line".to_owned(),
        Act::Complained if line.by_staff => "The organizer wrote down what you say is not right".to_owned(),
        Act::Complained => "You said that something is not right".to_owned(),
        Act::Answered => "The organizer answered what you said is not right".to_owned(),
        Act::Closed => match reason {
            Some(Reason::EventCancelled) => "The event was cancelled".to_owned(),
            _ => "The event began or was over".to_owned(),
        },
        Act::Reopened => "The event takes place after all: you are back in the line".to_owned(),
        Act::Confirming
        | Act::NotBooked
        | Act::Resolved
        | Act::Returning
        | Act::Held
        | Act::Stopped
        | Act::Started
        | Act::SecretRotated
        | Act::Tested
        | Act::Replayed
        | Act::Booked
        | Act::Released
        | Act::Added
        | Act::Retired
        | Act::Cancelled
        | Act::Created
        | Act::Changed
        | Act::Published
        | Act::Opened
        | Act::Frozen
        | Act::RuleChanged
        | Act::FinalCall
        | Act::PoolFrozen
        | Act::Drawn
        | Act::ChainAnnounced
        | Act::BandChanged
        | Act::Moved
        | Act::WantsChanged
        | Act::PartyChanged
        | Act::Described
        | Act::AccessChanged
        | Act::Imported
        | Act::Overridden => return None,
    })
}
