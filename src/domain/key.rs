//! What a program may do with the key that it shows.

use chrono::Duration;

use super::words;

words! {
    /// What a key is good for. An organization's owner chooses when the key is made; nothing is implied by anything else.
    Scope {
        /// Events in every state, their rule, places, releases, draws, and why nothing is offered.
        EventsRead = "events:read",
        /// Create and change events, their lists, their rule; draws and final calls.
        EventsWrite = "events:write",
        /// Say at which service an event's places are booked: names and addresses of whoever accepts go there.
        BookingServicesWrite = "booking_services:write",
        /// Add, describe, retire and release places; tell of capacity that came back elsewhere.
        PlacesWrite = "places:write",
        /// Entries, offers, bookings and messages, with the names and addresses of people.
        EntriesRead = "entries:read",
        /// Put people on a list, and act on their entries.
        EntriesWrite = "entries:write",
        /// Bring in whole lists from files.
        EntriesImport = "entries:import",
        /// Make, revoke, extend and reactivate offers; answer them for people.
        OffersWrite = "offers:write",
        /// Book for people, and cancel bookings.
        BookingsWrite = "bookings:write",
        /// Book places that are held for the list.
        ReservationsOverride = "reservations:override",
        /// Send messages again.
        MessagesWrite = "messages:write",
        /// The audit of events.
        AuditRead = "audit:read",
        /// What was done outside events: who may act for the organization, and since when.
        OrganizationAuditRead = "organization_audit:read",
        /// The feed of transitions.
        TransitionsRead = "transitions:read",
        /// Keys: what they are good for, and when they were used.
        KeysRead = "keys:read",
        /// Make keys that are good for no more and no longer than the one that asks, and take keys back.
        KeysWrite = "keys:write",
        /// Where transitions are sent, and what became of each.
        WebhooksRead = "webhooks:read",
        /// Say where transitions are sent, with the secrets by which they are signed.
        WebhooksWrite = "webhooks:write",
    }
}

impl Scope {
    /// What it is good for, in words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::EventsRead => "See events in every state, their rule, places, releases and draws",
            Self::EventsWrite => "Create and change events, their lists and their rule",
            Self::BookingServicesWrite => {
                "Say at which service places are booked, where names and addresses of customers go"
            }
            Self::PlacesWrite => "Add, describe, retire and release places; tell of capacity that came back",
            Self::EntriesRead => "See entries, offers, bookings and messages, with names and addresses",
            Self::EntriesWrite => "Put people on a list and act on their entries; answers name the person",
            Self::EntriesImport => "Bring in whole lists from files",
            Self::OffersWrite => {
                "Make, revoke, extend and reactivate offers; answer them for people. Answers name the person, with address"
            }
            Self::BookingsWrite => "Book for people and cancel bookings; answers name the person",
            Self::ReservationsOverride => "Book places that are held for the people on the list",
            Self::MessagesWrite => "Send messages again",
            Self::AuditRead => "See the audit of events, with its notes",
            Self::OrganizationAuditRead => "See the audit of what was done outside events",
            Self::TransitionsRead => "Follow the feed of transitions",
            Self::KeysRead => "See keys, what they are good for and when they were used",
            Self::KeysWrite => "Make keys, good for no more and no longer than this one, and take keys back",
            Self::WebhooksRead => "See webhooks and what became of their deliveries",
            Self::WebhooksWrite => {
                "Add, stop and start webhooks, which send what “transitions:read” shows; change their secrets, send again"
            }
        }
    }
}

/// How a key begins: whoever finds one knows what it is, and scanners of source code can look for it.
pub const KEY_PREFIX: &str = "fl_key_";

/// How a customer's token begins.
pub const CUSTOMER_PREFIX: &str = "fl_me_";

/// So much of a key is kept to tell it from others: its prefix and six characters of 43.
#[must_use]
pub fn hint(token: &str) -> String {
    token.chars().take(KEY_PREFIX.len() + 6).collect()
}

/// The longest that a key is good.
pub const LONGEST_LIFE: Duration = Duration::days(730);

/// What a key is called by those who made it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyName(String);

/// What is wrong with a key's name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum KeyNameError {
    /// Nothing but spaces.
    #[error("Say what the key is for, such as the name of the program that uses it.")]
    Missing,
    /// More than 80 characters, or some that cannot be shown.
    #[error("Use at most 80 characters, all of them readable.")]
    Unfit,
}

impl KeyName {
    /// # Errors
    /// When there is none, or it is longer than 80 characters, or holds control characters.
    pub fn parse(text: &str) -> Result<Self, KeyNameError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(KeyNameError::Missing);
        }
        if text.chars().count() > 80 || text.chars().any(char::is_control) {
            return Err(KeyNameError::Unfit);
        }
        Ok(Self(text.to_owned()))
    }

    /// The name.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_hint_tells_keys_apart_and_gives_none_away() {
        let token = format!("{KEY_PREFIX}{}", "abcdefghijklmnopqrstuvwxyz0123456789ABCDEFG");
        assert_eq!(hint(&token), "fl_key_abcdef");
    }

    #[test]
    fn a_key_has_a_readable_name() {
        assert_eq!(
            KeyName::parse("  Ticket shop ").map(|name| name.as_str().to_owned()),
            Ok("Ticket shop".into())
        );
        assert_eq!(KeyName::parse(" "), Err(KeyNameError::Missing));
        assert_eq!(KeyName::parse("a\u{7}b"), Err(KeyNameError::Unfit));
        assert_eq!(KeyName::parse(&"x".repeat(81)), Err(KeyNameError::Unfit));
    }
}
