//! Events and their lists.

use chrono::{DateTime, Utc};

use super::attribute::Attribute;
use super::ids::{EventId, OrganizationId};
use super::words;

words! {
    /// Where an event is in its life.
    EventState {
        /// Being prepared; customers do not see it.
        Draft = "draft",
        /// Public.
        Published = "published",
        /// Does not take place; can be un-cancelled.
        Cancelled = "cancelled",
        /// Done.
        Over = "over",
    }
}

words! {
    /// Whether the event's list takes and serves people.
    ListState {
        /// People join and are served.
        Open = "open",
        /// Nobody new; those waiting are served.
        Frozen = "frozen",
        /// Nothing is offered.
        Closed = "closed",
    }
}

/// One event, as its row says.
#[derive(Clone, Debug, PartialEq)]
pub struct Event {
    /// Its id.
    pub id: EventId,
    /// Who runs it.
    pub organization: OrganizationId,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Free text for the public page.
    pub description: String,
    /// Where it takes place; may be empty.
    pub venue: String,
    /// The zone in which its instants are shown.
    pub zone: chrono_tz::Tz,
    /// When it starts; a room type has no start.
    pub starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    pub state: EventState,
    /// Whether its list takes and serves people.
    pub list: ListState,
    /// When the list opens by itself.
    pub list_opens_at: Option<DateTime<Utc>>,
    /// When the list freezes by itself.
    pub list_freezes_at: Option<DateTime<Utc>>,
    /// The version of the rule in force.
    pub policy_version: i32,
    /// Until when an import keeps passes waiting.
    pub importing_until: Option<DateTime<Utc>>,
    /// The order was changed, and keys of the earlier one are still to be taken back: passes wait for it.
    pub reordering: bool,
    /// When the final call was made.
    pub final_called_at: Option<DateTime<Utc>>,
    /// Goes up with every change of the settings form, so that a stale form is noticed.
    pub form_version: i32,
    /// When the last pass ran.
    pub last_pass_at: Option<DateTime<Utc>>,
    /// What it says of its places, in the order in which pages show it.
    pub attributes: Vec<Attribute>,
    /// Whether anybody ever wanted some kinds of places rather than others.
    pub has_wants: bool,
}

impl Event {
    /// Whether the event has started: no offer lives at or after this instant.
    #[must_use]
    pub fn started(&self, now: DateTime<Utc>) -> bool {
        self.starts_at.is_some_and(|start| now >= start)
    }
}
