//! From a message's facts to a letter: whether it is still true, whom it goes to, what it says.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::Settings;
use super::render::{self, Common};
use crate::db::background::{Background, BackgroundEvent};
use crate::domain::audit::anchor::{Anchor, ORGANIZATION};
use crate::domain::delivery::Channel;
use crate::domain::ids::{CodeId, OfferId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::OfferState;
use crate::domain::reason::Reason;
use crate::domain::when;

/// A mail, ready to be handed over or shown.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Letter {
    /// One line.
    pub subject: String,
    /// The plain part.
    pub text: String,
    /// The HTML part.
    pub html: String,
    /// Where one click stops mails of this kind; only on what is not essential.
    pub unsubscribe: Option<String>,
    /// What the letter is for, where it is a link or a code: the mailbox page puts it in reach.
    pub key: Option<Key>,
}

/// The one thing to do with a letter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Key {
    /// Open the offer.
    Link(String),
    /// Type the digits.
    Code(String),
}

/// Whether tokens and digits are written out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Show {
    /// For the person themselves, and for staff where the mailbox page is the only channel.
    Revealed,
    /// For staff who look at what was mailed.
    Masked,
}

impl Show {
    /// What the mailbox page shows: secrets only where the page is the channel.
    #[must_use]
    pub fn on_the_mailbox_page(settings: &Settings) -> Self {
        if settings.smtp.is_none() { Self::Revealed } else { Self::Masked }
    }
}

/// Stands where a secret would.
const MASK: &str = "••••••";

/// Why a letter cannot be written.
#[derive(Debug, thiserror::Error)]
pub enum LetterError {
    /// The message says too little for its occasion.
    #[error("the message does not say {0}")]
    Incomplete(&'static str),
    /// The template failed.
    #[error("the template failed: {0}")]
    Template(#[from] askama::Error),
}

impl Settings {
    /// The channel that this installation sends by.
    #[must_use]
    pub fn channel(&self) -> Channel {
        if self.smtp.is_some() { Channel::Smtp } else { Channel::Mailbox }
    }
}

/// Why the message is not to be sent any more, read right before it would be.
#[must_use]
pub fn no_longer_true(
    occasion: Occasion,
    facts: &Facts,
    around: &Background,
    now: DateTime<Utc>,
) -> Option<&'static str> {
    if around.news_stopped && !occasion.is_essential() {
        return Some("The person has stopped mail that is not essential.");
    }
    match occasion {
        Occasion::Offer | Occasion::Call | Occasion::StartMoved | Occasion::Extended => {
            let Some(offer) = around.offer else {
                return Some("The offer is not there any more.");
            };
            if offer.state != OfferState::Pending || now >= offer.expires_at {
                Some("The offer had ended before this could be sent.")
            } else if facts.reactivations.is_some_and(|known| known != offer.reactivations) {
                Some("The offer was given again since; a newer message tells of it.")
            } else {
                None
            }
        }
        Occasion::Code => match around.code {
            None => Some("The code is not there any more."),
            Some(code) if code.used => Some("The code had been used before this could be sent."),
            Some(code) if now >= code.expires_at => {
                Some("The code was too old, or a newer one was asked for, before this could be sent.")
            }
            Some(_) => None,
        },
        Occasion::Anchor if around.contact.is_none() => {
            Some("Whoever asked for it does not work here any more.")
        }
        Occasion::Joined
        | Occasion::Accepted
        | Occasion::Declined
        | Occasion::Lapsed
        | Occasion::Revoked
        | Occasion::ListClosed
        | Occasion::EventCancelled
        | Occasion::PausedBySilence
        | Occasion::BookingCancelled
        | Occasion::Conflicted
        | Occasion::Answered
        | Occasion::Anchor => None,
    }
}

/// Writes the letter. The one place that chooses what an occasion says.
///
/// # Errors
/// When the message says too little, or a template fails.
pub fn write(
    settings: &Settings,
    occasion: Occasion,
    subject: Uuid,
    facts: &Facts,
    around: &Background,
    show: Show,
) -> Result<Letter, LetterError> {
    let common = common(settings, occasion, around, show);
    let zone = around.event.as_ref().map_or(chrono_tz::UTC, |event| event.zone);
    let instant = |at: DateTime<Utc>| when::absolute(at, zone);
    let places = render::places(facts.party.unwrap_or(1));
    let several = facts.party.unwrap_or(1) > 1;
    let labels = facts.labels.iter().map(|label| one_line(label)).collect::<Vec<_>>().join(", ");
    let entry_state = facts.entry_state.as_deref().unwrap_or_default();
    let still_waits = entry_state == "waiting";
    let reference = facts.reference.as_deref().map(one_line);
    // The row's own deadline while the offer lives: what the page says and the mail says is one thing.
    let deadline = around
        .offer
        .filter(|offer| offer.state == OfferState::Pending)
        .filter(|offer| facts.reactivations.is_none_or(|known| known == offer.reactivations))
        .map(|offer| offer.expires_at)
        .or(facts.expires_at)
        .map(instant);
    let offer_link = || {
        let offer = around.offer.map(|offer| offer.id).or(facts.offer.map(OfferId))?;
        let reactivations =
            facts.reactivations.or(around.offer.map(|offer| offer.reactivations)).unwrap_or(0);
        Some(settings.links().offer(&match show {
            Show::Revealed => settings.secret.offer_token(offer, reactivations),
            Show::Masked => MASK.to_owned(),
        }))
    };
    match occasion {
        Occasion::Code => render::Code {
            digits: match show {
                Show::Revealed => settings.secret.code_digits(CodeId(subject)),
                Show::Masked => MASK.to_owned(),
            },
            until: around.code.map(|code| instant(code.expires_at)),
        }
        .letter(&common),
        Occasion::Joined => render::Joined { places, several, position: facts.position }.letter(&common),
        Occasion::Offer => render::Offer {
            places,
            several,
            labels,
            deadline: deadline.ok_or(LetterError::Incomplete("the deadline"))?,
            link: offer_link().ok_or(LetterError::Incomplete("which offer"))?,
        }
        .letter(&common),
        Occasion::Call => render::Call {
            places,
            several,
            open: render::places(facts.open.unwrap_or(1)),
            is_final: facts.is_final.unwrap_or(false),
            deadline: deadline.ok_or(LetterError::Incomplete("the deadline"))?,
            link: offer_link().ok_or(LetterError::Incomplete("which offer"))?,
        }
        .letter(&common),
        Occasion::Accepted => render::Accepted {
            places,
            several,
            labels,
            reference: reference.ok_or(LetterError::Incomplete("the reference"))?,
        }
        .letter(&common),
        Occasion::Declined => render::Declined { places, still_waits }.letter(&common),
        Occasion::Lapsed => {
            render::Lapsed { places, deadline: facts.expires_at.map(instant), still_waits }.letter(&common)
        }
        Occasion::Revoked => {
            render::Revoked { places, why: render::why_revoked(facts.reason.as_deref()), still_waits }
                .letter(&common)
        }
        Occasion::ListClosed => render::ListClosed { places }.letter(&common),
        Occasion::EventCancelled => render::EventCancelled { reference }.letter(&common),
        Occasion::PausedBySilence => render::PausedBySilence { places }.letter(&common),
        Occasion::StartMoved => render::StartMoved {
            places,
            deadline: deadline.ok_or(LetterError::Incomplete("the deadline"))?,
            link: offer_link(),
        }
        .letter(&common),
        Occasion::Extended => render::Extended {
            made_up: facts.reason.as_deref() == Some(Reason::TellingFailed.as_str()),
            not_booked: facts.reason.as_deref() == Some(Reason::ServiceFailed.as_str()),
            places,
            several,
            deadline: deadline.ok_or(LetterError::Incomplete("the deadline"))?,
            link: offer_link().ok_or(LetterError::Incomplete("which offer"))?,
        }
        .letter(&common),
        Occasion::BookingCancelled => render::BookingCancelled { places, labels, reference }.letter(&common),
        Occasion::Conflicted => render::Conflicted { places, several }.letter(&common),
        Occasion::Answered => render::Answered {
            complaint: render::lines(facts.complaint.as_deref().unwrap_or_default()),
            answer: render::lines(facts.answer.as_deref().ok_or(LetterError::Incomplete("the answer"))?),
        }
        .letter(&common),
        Occasion::Anchor => anchor(facts, around, instant)?.letter(&common),
    }
}

fn anchor(
    facts: &Facts,
    around: &Background,
    instant: impl FnOnce(DateTime<Utc>) -> String,
) -> Result<render::Anchor, LetterError> {
    let file = facts.anchor.as_deref().ok_or(LetterError::Incomplete("the anchor"))?;
    let anchor =
        Anchor::from_json(file).map_err(|_| LetterError::Incomplete("an anchor that can be read"))?;
    Ok(render::Anchor {
        name: around.event.as_ref().map_or_else(|| ORGANIZATION.to_owned(), |event| event.slug.clone()),
        seq: anchor.seq,
        hash: hex::encode(anchor.hash),
        taken: anchor.at.map(instant).ok_or(LetterError::Incomplete("when the anchor was taken"))?,
        file: file.trim_end().to_owned(),
    })
}

fn common(settings: &Settings, occasion: Occasion, around: &Background, show: Show) -> Common {
    let links = settings.links();
    let event = around.event.as_ref();
    let organization = one_line(&around.organization_name);
    let unsubscribe = around.person.filter(|_| !occasion.is_essential()).map(|person| {
        links.unsubscribe(&match show {
            Show::Revealed => settings.secret.unsubscribe_token(person),
            Show::Masked => MASK.to_owned(),
        })
    });
    let of_customer = || around.entry.map_or_else(|| links.me(), |entry| links.entry(entry));
    Common {
        person: one_line(&around.person_name),
        event: event.map_or_else(|| organization.clone(), |event| one_line(&event.name)),
        start: event.and_then(start),
        venue: event.map(|event| one_line(&event.venue)).unwrap_or_default(),
        organization,
        contact: one_line(&around.organization_contact),
        manage: around.person.map(|_| of_customer()).unwrap_or_default(),
        event_page: event.map_or_else(|| links.me(), |event| links.event(&event.slug)),
        unsubscribe,
    }
}

fn start(event: &BackgroundEvent) -> Option<String> {
    event.starts_at.map(|start| when::absolute(start, event.zone))
}

/// Text that cannot leave its line: control characters, line separators and what turns text around become spaces.
/// Names are checked at the edge; this is for whatever came in by another way.
#[must_use]
pub fn one_line(text: &str) -> String {
    let spaced: String = text
        .chars()
        .map(|c| {
            let breaks = c.is_control()
                || matches!(c, '\u{2028}' | '\u{2029}' | '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}');
            if breaks { ' ' } else { c }
        })
        .collect();
    spaced.split(' ').filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_from_elsewhere_stays_on_its_line() {
        assert_eq!(one_line("Pat\r\nBcc: all@example.org"), "Pat Bcc: all@example.org");
        assert_eq!(one_line("  a\u{2028}b\0c\u{202E}d  "), "a b c d");
        assert_eq!(one_line("Žofia Ünlü 李"), "Žofia Ünlü 李");
    }
}
