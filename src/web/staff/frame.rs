//! What the pages of one event share: the links between them, instants in the event's zone, and names in sentences.

use chrono::{DateTime, Utc};

use super::super::error::Error;
use super::super::next::LocalPath;
use super::super::page::{Layout, NavLink, Section};
use super::Staff;
use crate::domain::event::{Event, ListState};
use crate::domain::ids::EventId;
use crate::domain::standing::grouped;
use crate::domain::when::When;

/// The pages of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Tab {
    /// The event itself.
    Overview,
    /// Its queue, and its entries.
    Queue,
    /// Its offers.
    Offers,
    /// Its places.
    Places,
    /// Its bookings.
    Bookings,
    /// Its messages.
    Messages,
    /// Its rule.
    Rule,
    /// Its settings.
    Settings,
    /// Its audit.
    Audit,
}

/// The head of an event's page: what it is called, how it stands, and the way to the other pages. The field `frame`
/// of the page's struct; `staff/event_base.html` shows it.
#[derive(Clone, Debug)]
pub struct EventFrame {
    /// The event.
    pub event: Event,
    /// Which of its pages this is.
    pub tab: Tab,
    now: DateTime<Utc>,
}

impl EventFrame {
    /// Of this event, at that page.
    #[must_use]
    pub fn new(event: Event, tab: Tab, now: DateTime<Utc>) -> Self {
        Self { event, tab, now }
    }

    /// The links between the event's pages.
    #[must_use]
    pub fn links(&self) -> Vec<NavLink> {
        [
            (Tab::Overview, "", "Overview"),
            (Tab::Queue, "/queue", "Queue"),
            (Tab::Offers, "/offers", "Offers"),
            (Tab::Places, "/places", "Places"),
            (Tab::Bookings, "/bookings", "Bookings"),
            (Tab::Messages, "/messages", "Messages"),
            (Tab::Rule, "/policy", "Rule"),
            (Tab::Settings, "/settings", "Settings"),
            (Tab::Audit, "/audit", "Audit"),
        ]
        .into_iter()
        .map(|(tab, path, label)| NavLink { href: self.path(path), label, current: tab == self.tab })
        .collect()
    }

    /// The instant at which the page is written.
    #[must_use]
    pub fn now(&self) -> DateTime<Utc> {
        self.now
    }

    /// An address below the event's.
    #[must_use]
    pub fn path(&self, below: impl AsRef<str>) -> String {
        path(self.event.id, below)
    }

    /// How the list stands, in words of its chip.
    #[must_use]
    pub fn list_word(&self) -> &'static str {
        match self.event.list {
            ListState::Open => "list open",
            ListState::Frozen => "list frozen",
            ListState::Closed => "list closed",
        }
    }

    /// When the event starts.
    #[must_use]
    pub fn starts(&self) -> Option<When> {
        self.event.starts_at.map(|start| self.when(start))
    }

    /// An instant in the event's zone.
    #[must_use]
    pub fn when(&self, instant: DateTime<Utc>) -> When {
        When::new(instant, self.event.zone, self.now)
    }

    /// An instant inside a sentence: "Tue 30 Mar 2027, 14:05 (CEST, UTC+02:00), in 23 min".
    #[must_use]
    pub fn said(&self, instant: DateTime<Utc>) -> String {
        let when = self.when(instant);
        format!("{}, {}", when.absolute, when.relative)
    }
}

/// An address below an event's.
#[must_use]
pub fn path(event: EventId, below: impl AsRef<str>) -> String {
    format!("/staff/events/{event}{}", below.as_ref())
}

/// A name inside a sentence of another direction: isolated, so that neither changes how the other is read.
#[must_use]
pub fn isolated(name: &str) -> String {
    format!("\u{2068}{name}\u{2069}")
}

/// "1 place", "2 places".
#[must_use]
pub fn places(count: impl Into<i64>) -> String {
    match count.into() {
        1 => "1 place".to_owned(),
        count => format!("{} places", grouped(count)),
    }
}

/// "is" of one, "are" of several.
#[must_use]
pub fn are(count: impl Into<i64>) -> &'static str {
    if count.into() == 1 { "is" } else { "are" }
}

/// "1 person", "12 people".
#[must_use]
pub fn people(count: i64) -> String {
    if count == 1 { "1 person".to_owned() } else { format!("{} people", grouped(count)) }
}

/// Where to go after an act: the view it was begun from, or else the page of what was acted upon.
#[must_use]
pub fn back_to(asked: &str, other: &str) -> LocalPath {
    LocalPath::parse_or(asked, other)
}

/// `back=…` for the link to an act, so that it returns to this view.
#[must_use]
pub fn back_query(view: &str) -> String {
    url::form_urlencoded::Serializer::new(String::new()).append_pair("back", view).finish()
}

impl Staff {
    /// The frame of one of an event's pages.
    ///
    /// # Errors
    /// When the session cannot be read.
    pub async fn event_layout(&self, event: &Event, title: &str) -> Result<Layout, Error> {
        self.layout(format!("{title} – {}", event.name), Section::Events).await
    }
}
