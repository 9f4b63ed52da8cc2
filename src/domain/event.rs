//! Events and their lists.

use chrono::{DateTime, Utc};

use super::attribute::Attribute;
use super::contact::is_plain_line;
use super::ids::{EventId, OrganizationId};
use super::{when, words};

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

/// What staff can change of an event at any time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EventSettings {
    /// Its name for people.
    pub name: String,
    /// Free text for the public page.
    pub description: String,
    /// Where it takes place; may be empty.
    pub venue: String,
    /// The zone in which its instants are shown.
    pub zone: chrono_tz::Tz,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
    /// When the list opens by itself.
    pub list_opens_at: Option<DateTime<Utc>>,
    /// When the list freezes by itself.
    pub list_freezes_at: Option<DateTime<Utc>>,
}

const NO_LINE: &str = "Use at most 200 characters, on one line, none of which turns text around.";

impl EventSettings {
    /// Without the spaces around its texts, if they are fit to be shown.
    ///
    /// # Errors
    /// Every field that is not right, and what to do.
    pub fn parse(self) -> Result<Self, Vec<(&'static str, &'static str)>> {
        let tidy = |text: String| text.trim().to_owned();
        let settings = Self {
            name: tidy(self.name),
            description: tidy(self.description),
            venue: tidy(self.venue),
            ..self
        };
        let is_line = |text: &str| text.chars().count() <= 200 && is_plain_line(text);
        let mut problems = Vec::new();
        if settings.name.is_empty() {
            problems.push(("name", "Enter the event’s name."));
        } else if !is_line(&settings.name) {
            problems.push(("name", NO_LINE));
        }
        if !is_line(&settings.venue) {
            problems.push(("venue", NO_LINE));
        }
        if settings.description.chars().count() > 5_000 {
            problems.push(("description", "Use at most 5,000 characters."));
        }
        let (opens, freezes) = (settings.list_opens_at, settings.list_freezes_at);
        for (field, at) in
            [("starts_at", settings.starts_at), ("list_opens_at", opens), ("list_freezes_at", freezes)]
        {
            if at.is_some_and(|at| !when::is_writable(at)) {
                problems.push((field, "Enter an instant between the years 1970 and 9999."));
            }
        }
        if opens.zip(freezes).is_some_and(|(opens, freezes)| opens >= freezes) {
            problems.push(("list_freezes_at", "The list must freeze after it opens."));
        }
        if problems.is_empty() { Ok(settings) } else { Err(problems) }
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
    /// How far the last call is, or was, that takes more than one pass.
    pub large_call: Option<LargeCall>,
    /// Goes up with every change of the settings form, so that a stale form is noticed.
    pub form_version: i32,
    /// When the last pass ran.
    pub last_pass_at: Option<DateTime<Utc>>,
    /// What it says of its places, in the order in which pages show it.
    pub attributes: Vec<Attribute>,
    /// Whether anybody ever wanted some kinds of places rather than others.
    pub has_wants: bool,
    /// Whether a booking service has its places, rather than the ledger in this database.
    pub outside: bool,
}

impl Event {
    /// Whether the event has started: no offer lives at or after this instant.
    #[must_use]
    pub fn started(&self, now: DateTime<Utc>) -> bool {
        self.starts_at.is_some_and(|start| now >= start)
    }
}

/// How far a call is that takes more than one pass: so many are told at a time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LargeCall {
    /// When its first pass ran.
    pub began_at: DateTime<Utc>,
    /// So many were to be told when it began; since it is done, so many as were told.
    pub total: i32,
    /// So many were told.
    pub told: i32,
    /// When it was done, or stopped because there was nothing to call for any more.
    pub ended_at: Option<DateTime<Utc>>,
}

impl LargeCall {
    /// Its first pass told so many, and so many are left.
    #[must_use]
    pub fn begun(told: i32, left: i32, now: DateTime<Utc>) -> Self {
        Self { began_at: now, total: told.saturating_add(left), told, ended_at: None }
    }

    /// Whether somebody is still to be told.
    #[must_use]
    pub fn is_under_way(&self) -> bool {
        self.ended_at.is_none()
    }

    /// Another pass told so many. Who joins meanwhile is told as well, and who leaves is not.
    #[must_use]
    pub fn gone_on(self, told: i32, is_done: bool, now: DateTime<Utc>) -> Self {
        let told = self.told.saturating_add(told);
        let total = if is_done { told } else { self.total.max(told) };
        Self { total, told, ended_at: is_done.then_some(now), ..self }
    }

    /// There is nothing to call for any more, whoever is still to be told.
    #[must_use]
    pub fn stopped(self, now: DateTime<Utc>) -> Self {
        Self { ended_at: Some(now), ..self }
    }

    /// Whether it ended although some were still to be told.
    #[must_use]
    pub fn was_cut_short(&self) -> bool {
        self.ended_at.is_some() && self.told < self.total
    }
}
