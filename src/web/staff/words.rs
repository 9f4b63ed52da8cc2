//! What staff are told in sentences: what happened, what hinders, how a pass ended, what somebody else did first.

use chrono::{DateTime, Utc};

use super::frame::{EventFrame, isolated, places};
use crate::db::pages_history::{Doer, Step};
use crate::domain::allocation::PassOutcome;
use crate::domain::audit::Act;
use crate::domain::entry::{EntryState, Hindrance, PausedBy};
use crate::domain::offer::{OfferKind, OfferState};
use crate::domain::policy::Enough;
use crate::domain::reason::Reason;

/// Who did it, at the beginning of a sentence.
#[must_use]
pub fn doer(by: &Doer) -> String {
    match by {
        Doer::System => "The rule".to_owned(),
        Doer::Customer => "The customer".to_owned(),
        Doer::Staff(name) | Doer::Program(name) => isolated(name),
        Doer::Operator => "The command line".to_owned(),
    }
}

/// Who did it, in the middle of a sentence.
#[must_use]
pub fn by(by: &Doer) -> String {
    match by {
        Doer::System => "the rule".to_owned(),
        Doer::Customer => "the customer".to_owned(),
        Doer::Staff(name) | Doer::Program(name) => isolated(name),
        Doer::Operator => "the command line".to_owned(),
    }
}

/// What happened, as the title of a step.
#[must_use]
pub fn title(act: Act) -> &'static str {
    match act {
        Act::Joined => "Joined the list",
        Act::Confirmed => "Contact confirmed",
        Act::Lapsed => "Lapsed without a confirmation",
        Act::Offered => "Offered",
        Act::Accepted => "Accepted",
        Act::Declined => "Declined",
        Act::AnswerRecorded => "Answer taken by staff",
        Act::Confirming => "Accepted; the booking service is asked",
        Act::Conflicted => "The booking service says the place is gone",
        Act::NotBooked => "Not booked; the offer is pending again",
        Act::Resolved => "Resolved by staff",
        Act::Returning => "The booking service is asked to take it back",
        Act::Expired => "Offer expired",
        Act::Revoked => "Offer taken back",
        Act::Reactivated => "Offer given again",
        Act::DeadlineMoved => "Deadline moved",
        Act::Left => "Left the list",
        Act::Removed => "Taken off the list",
        Act::Paused => "Paused",
        Act::Resumed => "Resumed",
        Act::ContactChanged => "Contact changed",
        Act::SetAside => "Set aside",
        Act::Placed => "Put back in the line",
        Act::Complained => "Complained",
        Act::Answered => "Complaint answered",
        Act::Held => "Place held",
        Act::Booked => "Booked",
        Act::Released => "Place released",
        Act::Added => "Place added",
        Act::Retired => "Place retired",
        Act::Cancelled => "Booking cancelled",
        Act::Created => "Event created",
        Act::Changed => "Settings changed",
        Act::Published => "Event published",
        Act::Opened => "List opened",
        Act::Frozen => "List frozen",
        Act::Closed => "Closed",
        Act::Reopened => "Reopened",
        Act::RuleChanged => "Rule changed",
        Act::FinalCall => "Final call made",
        Act::PoolFrozen => "Pool of a draw frozen",
        Act::Drawn => "Drawn",
        Act::ChainAnnounced => "Secrets for draws announced",
        Act::Moved => "Moved in the line",
        Act::BandChanged => "Put into another group",
        Act::PartyChanged => "Asks for another number of places",
        Act::WantsChanged => "Wants something else now",
        Act::Described => "Described anew",
        Act::AccessChanged => "Access changed",
        Act::Stopped => "Stopped",
        Act::Started => "Started again",
        Act::SecretRotated => "Secret changed",
        Act::Tested => "Test sent",
        Act::Replayed => "Sent again",
        Act::Imported => "Imported",
        Act::Overridden => "Reservation overridden",
    }
}

/// What hinders an offer to somebody in the line.
#[must_use]
pub fn hindrance(hindrance: Hindrance) -> &'static str {
    match hindrance {
        Hindrance::Paused(PausedBy::Person) => "Paused by the customer: passed over until resumed.",
        Hindrance::Paused(PausedBy::Staff) => "Paused by staff: passed over until resumed.",
        Hindrance::Paused(PausedBy::Silent) => {
            "Paused after too many offers without an answer: passed over until resumed."
        }
        Hindrance::ContactProblem => {
            "No contact of this person works: passed over until one does, or until staff say to offer anyway."
        }
        Hindrance::SetAside => "Set aside when an offer was taken back: passed over until staff decide.",
        Hindrance::UntilPassed => "The date until which they wanted to wait has passed.",
    }
}

/// What hindered an offer, in the middle of a sentence.
#[must_use]
pub fn hindered(hindrance: Hindrance) -> &'static str {
    match hindrance {
        Hindrance::Paused(PausedBy::Person) => "paused by the customer",
        Hindrance::Paused(PausedBy::Staff) => "paused by staff",
        Hindrance::Paused(PausedBy::Silent) => "paused after too many offers without an answer",
        Hindrance::ContactProblem => "no contact worked",
        Hindrance::SetAside => "set aside after an offer was taken back",
        Hindrance::UntilPassed => "the date they wanted to wait until had passed",
    }
}

/// The word of a hindrance's chip.
#[must_use]
pub fn hindrance_word(hindrance: Hindrance) -> &'static str {
    match hindrance {
        Hindrance::Paused(_) => "paused",
        Hindrance::ContactProblem => "contact_problem",
        Hindrance::SetAside => "set_aside",
        Hindrance::UntilPassed => "date_passed",
    }
}

/// How a pass ended, and with that why nothing (more) was offered.
#[must_use]
pub fn pass(outcome: PassOutcome, offered: i32) -> String {
    match outcome {
        PassOutcome::Offered if offered == 1 => "1 offer was made".to_owned(),
        PassOutcome::Offered => format!("{offered} offers were made"),
        PassOutcome::NoPlaces => "nothing to offer: no place is open".to_owned(),
        PassOutcome::NobodyEligible => {
            "nothing offered: places are open, and nobody in the line could take one".to_owned()
        }
        PassOutcome::HeadWaits => {
            "nothing offered: the first in line wants more places than are open, and the rule is to wait"
                .to_owned()
        }
        PassOutcome::BatchFull => "nothing offered: as many offers are pending as the rule allows".to_owned(),
        PassOutcome::Passive => "nothing offered: this list offers nothing by itself".to_owned(),
        PassOutcome::Closed => "nothing offered: the list is closed".to_owned(),
        PassOutcome::NotPublished => "nothing offered: the event is not published".to_owned(),
        PassOutcome::AfterStart => "nothing offered: the event has started".to_owned(),
        PassOutcome::Reordering => "nothing offered: the list is being put into its new order".to_owned(),
        PassOutcome::Manual => "nothing offered: staff decide who is offered a place".to_owned(),
        PassOutcome::WaitingForDraw => "nothing offered: nobody is ranked before the draw".to_owned(),
        PassOutcome::FinalCall => "everybody who could take an open place was called".to_owned(),
        PassOutcome::CannotTell => {
            "nothing offered: nobody can be told, because the mail server does not work".to_owned()
        }
        PassOutcome::Importing => "nothing offered: a file is being imported".to_owned(),
    }
}

/// What is the case with an offer that is not pending any more.
#[must_use]
pub fn offer_is(kind: OfferKind, state: OfferState) -> &'static str {
    match (kind, state) {
        (OfferKind::Hold, OfferState::Pending) => "This offer is pending.",
        (OfferKind::Call, OfferState::Pending) => "This call is pending.",
        (_, OfferState::Accepting) => {
            "This offer is just being confirmed by the booking service. Wait for its answer."
        }
        (OfferKind::Hold, OfferState::Accepted) => "This offer was accepted: what it kept is booked.",
        (OfferKind::Call, OfferState::Accepted) => "This call was accepted: what was open is booked.",
        (OfferKind::Hold, OfferState::Declined) => {
            "This offer was declined: what it kept went on to the next in line."
        }
        (OfferKind::Call, OfferState::Declined) => "This call was declined. It had kept nothing.",
        (OfferKind::Hold, OfferState::Expired) => {
            "This offer has expired: what it kept went on to the next in line."
        }
        (OfferKind::Call, OfferState::Expired) => "This call ended without an answer. It had kept nothing.",
        (OfferKind::Hold, OfferState::Revoked) => {
            "This offer was taken back: what it kept went on to the next in line."
        }
        (OfferKind::Call, OfferState::Revoked) => "This call was taken back. It had kept nothing.",
        (_, OfferState::Conflicted) => "This offer failed: the booking service says that the place is gone.",
    }
}

/// What is the case with an entry that is not in the line.
#[must_use]
pub fn entry_is(state: EntryState) -> &'static str {
    match state {
        EntryState::Unconfirmed => "This entry is not confirmed yet.",
        EntryState::Waiting => "This entry is waiting.",
        EntryState::Offered => "This entry has a live offer.",
        EntryState::Accepted => "This entry was served: it has accepted an offer.",
        EntryState::Declined => "This entry is over: the offer was declined.",
        EntryState::Expired => "This entry is over: the offer was not answered.",
        EntryState::Withdrawn => "This entry is over: the customer left the list.",
        EntryState::Removed => "This entry is over: staff took it off the list.",
        EntryState::Lapsed => "This entry is over: it was never confirmed.",
        EntryState::Closed => "This entry is closed: the event was cancelled or is over.",
    }
}

/// "Ada took this back 2 min ago (Tue 30 Mar …). Nothing was done twice.": for the second of two who do the same.
#[must_use]
pub fn somebody_was_first(frame: &EventFrame, step: Option<&Step>, is: &str) -> String {
    let Some(step) = step else { return format!("{is} Nothing was done twice.") };
    let did = match step.act {
        Some(Act::Revoked | Act::Removed) if step.subject == "offer" => "took this offer back",
        Some(Act::Revoked) => "took the offer back",
        Some(Act::Removed) => "took this entry off the list",
        Some(Act::Accepted) => "accepted this offer",
        Some(Act::Declined) => "declined this offer",
        Some(Act::Expired) => "ended this offer at its deadline",
        Some(Act::Offered) => "made this offer",
        Some(Act::Reactivated) => "gave this offer again",
        Some(Act::DeadlineMoved) => "moved the deadline",
        Some(Act::Left) => "left the list",
        Some(Act::Paused) => "paused this entry",
        Some(Act::Resumed) => "resumed this entry",
        Some(Act::Placed) => "put this entry back in the line",
        Some(Act::SetAside) => "set this entry aside",
        Some(Act::Cancelled) => "cancelled this booking",
        _ => "changed this",
    };
    let when = frame.when(step.at);
    format!("{} {did} {} ({}). {is} Nothing was done twice.", doer(&step.by), when.relative, when.absolute)
}

/// A reason's options for a form, in the order of the catalogue.
#[must_use]
pub fn reasons() -> Vec<(&'static str, String)> {
    Reason::FOR_STAFF
        .iter()
        .map(|reason| {
            let label = reason.label();
            let mut first = label.chars();
            let label = first.next().map_or_else(String::new, |c| c.to_uppercase().chain(first).collect());
            (reason.as_str(), label)
        })
        .collect()
}

/// What is wrong with a deadline.
#[must_use]
pub fn bad_deadline(frame: &EventFrame, deadline: Option<DateTime<Utc>>, now: DateTime<Utc>) -> String {
    match (deadline, frame.event.starts_at) {
        (None, _) => {
            "Say until when the offer can be accepted: this list has no time to answer of its own.".to_owned()
        }
        (Some(deadline), _) if deadline <= now => {
            format!("This is in the past. It is {} now.", frame.when(now).short)
        }
        (Some(deadline), Some(start)) if deadline > start => {
            format!(
                "This is after the start, {}. An offer ends at the start at the latest.",
                frame.when(start).short
            )
        }
        (Some(_), _) => "This is not later than the deadline that holds now.".to_owned(),
    }
}

/// Fewer places are open than are needed.
#[must_use]
pub fn too_few(open: i64, party: i32) -> String {
    let open = match open {
        0 => "No place is open".to_owned(),
        1 => "Only 1 place is open".to_owned(),
        open => format!("Only {open} places are open"),
    };
    format!(
        "{open}, and {} needed. Release one first, or add places.",
        match party {
            1 => "1 is".to_owned(),
            party => format!("{} are", places(party)),
        }
    )
}

/// Why somebody is not given more places.
#[must_use]
pub fn they_have_enough(enough: Enough) -> String {
    format!("They have {} already, and one person may have {}.", places(enough.has), places(enough.most))
}
