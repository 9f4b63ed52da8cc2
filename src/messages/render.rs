//! What each occasion's letter holds, and nothing more: a letter can only say what its struct has.
//!
//! A letter for somebody who waits has no field for a reference or a place, so it cannot give them away.

use askama::Template;

use super::letter::{Key, Letter, LetterError, one_line};
use crate::domain::reason::Reason;

/// What every letter may say. All of it is one line each.
pub(super) struct Common {
    /// Who is told.
    pub person: String,
    /// The event's name, or the organization's where there is no event.
    pub event: String,
    /// When it starts, with zone and offset.
    pub start: Option<String>,
    /// Where; may be empty.
    pub venue: String,
    /// Who runs it.
    pub organization: String,
    /// Whom to ask; may be empty.
    pub contact: String,
    /// Where the person sees and leaves; empty for staff.
    pub manage: String,
    /// The public page.
    pub event_page: String,
    /// Where one click stops mails of this kind.
    pub unsubscribe: Option<String>,
}

/// One struct per occasion, with a text and an HTML template that see it as `m` and what is common as `c`.
macro_rules! letters {
    ($($(#[$doc:meta])* $name:ident($text:tt, $html:tt) { $($field:ident: $type:ty),* $(,)? }
       subject |$m:pat_param, $c:ident| $subject:expr $(, key $key:expr)?;)+) => {$(
        $(#[$doc])*
        pub(super) struct $name { $(pub $field: $type),* }

        impl $name {
            /// The letter.
            ///
            /// # Errors
            /// When a template fails.
            pub(super) fn letter(&self, common: &Common) -> Result<Letter, LetterError> {
                #[derive(Template)]
                #[template(path = $text)]
                struct Text<'a> {
                    m: &'a $name,
                    c: &'a Common,
                }
                #[derive(Template)]
                #[template(path = $html)]
                struct Html<'a> {
                    m: &'a $name,
                    c: &'a Common,
                }
                let ($m, $c) = (self, common);
                Ok(Letter {
                    subject: $subject,
                    text: Text { m: self, c: common }.render()?,
                    html: Html { m: self, c: common }.render()?,
                    unsubscribe: common.unsubscribe.clone(),
                    key: letters!(@key self $(, $key)?),
                })
            }
        }
    )+};
    (@key $letter:expr) => { None };
    (@key $letter:expr, $key:expr) => {{
        let key: fn(&Self) -> Option<Key> = $key;
        key($letter)
    }};
}

letters! {
    /// Six digits.
    Code("mail/code.txt", "mail/code.html") { digits: String, until: Option<String> }
    subject |_, c| format!("Your code for {}", c.event), key |m| Some(Key::Code(m.digits.clone()));

    /// On the list. Holds no reference, no place and no way in.
    Joined("mail/joined.txt", "mail/joined.html") { places: String, several: bool, position: Option<i64> }
    subject |_, c| format!("You are on the waitlist for {}", c.event);

    /// An offer, with the only link that leads to it.
    Offer("mail/offer.txt", "mail/offer.html") {
        places: String, several: bool, labels: String, deadline: String, link: String,
    }
    subject |m, c| format!("{} at {} for you, until {}", m.places, c.event, m.deadline), key |m| Some(Key::Link(m.link.clone()));

    /// A race: nothing is kept, and the first to accept has it.
    Call("mail/call.txt", "mail/call.html") {
        places: String, several: bool, open: String, is_final: bool, deadline: String, link: String,
    }
    subject |m, c| format!("{} open at {}: the first to accept has {}", m.open, c.event, if m.several { "them" } else { "it" }),
    key |m| Some(Key::Link(m.link.clone()));

    /// A booking.
    Accepted("mail/accepted.txt", "mail/accepted.html") {
        places: String, several: bool, labels: String, reference: String,
    }
    subject |m, c| format!("Booked: {} at {}", m.places, c.event);

    /// Passed on.
    Declined("mail/declined.txt", "mail/declined.html") { places: String, still_waits: bool }
    subject |m, c| format!("You passed on {} at {}", m.places, c.event);

    /// The deadline passed.
    Lapsed("mail/lapsed.txt", "mail/lapsed.html") { places: String, deadline: Option<String>, still_waits: bool }
    subject |_, c| format!("Your offer for {} has ended", c.event);

    /// Taken back by staff.
    Revoked("mail/revoked.txt", "mail/revoked.html") { places: String, why: Option<&'static str>, still_waits: bool }
    subject |_, c| format!("Your offer for {} was taken back", c.event);

    /// The list was closed.
    ListClosed("mail/list_closed.txt", "mail/list_closed.html") { places: String }
    subject |_, c| format!("The waitlist for {} was closed", c.event);

    /// The event does not take place; `reference` is of a booking that ends with it.
    EventCancelled("mail/event_cancelled.txt", "mail/event_cancelled.html") { reference: Option<String> }
    subject |_, c| format!("{} does not take place", c.event);

    /// Passed over until resumed.
    PausedBySilence("mail/paused_by_silence.txt", "mail/paused_by_silence.html") { places: String }
    subject |_, c| format!("Your place in the queue for {} is paused", c.event);

    /// An earlier deadline: the start moved before it.
    StartMoved("mail/start_moved.txt", "mail/start_moved.html") {
        places: String, deadline: String, link: Option<String>,
    }
    subject |_, c| format!("Another deadline for your offer: {}", c.event), key |m| m.link.clone().map(Key::Link);

    /// A later deadline, by staff, or because nobody could be told for a while.
    Extended("mail/extended.txt", "mail/extended.html") {
        places: String, several: bool, deadline: String, link: String, made_up: bool, not_booked: bool,
    }
    subject |m, c| format!("More time for {} at {}, until {}", m.places, c.event, m.deadline), key |m| Some(Key::Link(m.link.clone()));

    /// A booking is no more.
    BookingCancelled("mail/booking_cancelled.txt", "mail/booking_cancelled.html") {
        places: String, labels: String, reference: Option<String>,
    }
    subject |m, c| format!("Cancelled: {} at {}", m.places, c.event);

    /// Accepted, and a place was gone by then.
    Conflicted("mail/conflicted.txt", "mail/conflicted.html") { places: String, several: bool }
    subject |m, c| format!("Not booked: {} at {}", m.places, c.event);

    /// What staff say of a complaint, line by line.
    Answered("mail/answered.txt", "mail/answered.html") { complaint: Vec<String>, answer: Vec<String> }
    subject |_, c| format!("An answer to what you wrote about {}", c.event);

    /// The head of an audit chain, for staff to keep elsewhere. `name` is what the names of the chain's files begin with.
    Anchor("mail/anchor.txt", "mail/anchor.html") { name: String, seq: i64, hash: String, taken: String, file: String }
    subject |m, c| format!("Anchor of the audit of {}: record {}", c.event, m.seq);
}

/// Text of several lines, each of which stays one.
pub(super) fn lines(text: &str) -> Vec<String> {
    text.lines().map(one_line).collect()
}

/// "1 place", "3 places".
pub(super) fn places(n: i32) -> String {
    if n == 1 { "1 place".to_owned() } else { format!("{n} places") }
}

/// Why an offer was taken back, where saying so helps; an accusation or a code word does not.
pub(super) fn why_revoked(reason: Option<&str>) -> Option<&'static str> {
    match Reason::parse(reason?)? {
        Reason::CustomerAsked => Some("because you asked for it"),
        Reason::StaffMistake => Some("because a mistake was made on our side"),
        Reason::Duplicate => Some("because you were on the list twice"),
        Reason::EventChanged => Some("because the event changed"),
        Reason::TechnicalFault => Some("because of a technical fault on our side"),
        Reason::StartMoved => Some("because the event starts at another time"),
        Reason::CapacityChanged => Some("because the number of places changed"),
        _ => None,
    }
}
