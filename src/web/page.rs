//! What pages are made of: the frame that every page's struct carries, and the values that the macros of
//! `templates/macros.html` show.

use std::borrow::Cow;
use std::fmt::{self, Display};

use askama::Template;
use axum::response::{Html, IntoResponse, Response};
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use tower_sessions::Session;

use super::assets::ADDRESSES;
use super::error::Error;
use crate::domain::ids::OrganizationId;
use crate::domain::role::{Act, Role};
use crate::domain::standing::grouped;

/// A page: `Page(QueuePage { … })`. With a status: `(StatusCode::UNPROCESSABLE_ENTITY, Page(…))`.
#[derive(Debug)]
pub struct Page<T>(pub T);

impl<T: Template> IntoResponse for Page<T> {
    fn into_response(self) -> Response {
        match self.0.render() {
            Ok(html) => Html(html).into_response(),
            Err(error) => Error::internal(error).into_response(),
        }
    }
}

/// The frame of a page; the field `layout` of every page's struct. Made by [`super::staff::Staff::layout`] and
/// [`super::customer::Customer::layout`].
#[derive(Clone, Debug)]
pub struct Layout {
    /// The page's title; the organization is added.
    pub title: String,
    /// Whose page it is.
    pub organization: Option<String>,
    /// The organization's stylesheet.
    pub theme: Option<String>,
    /// Whom customers may ask.
    pub contact: Option<String>,
    /// The staff's bar; `None` on customers' pages and before sign-in.
    pub staff: Option<StaffNav>,
    /// Whether this is a page for staff, signed in or not.
    pub for_staff: bool,
    /// Whether a customer's page shows the way to other pages. An offer's page has none.
    pub menu: bool,
    /// Seconds between refreshes of the page's `data-live-part`s.
    pub live: Option<u32>,
    /// Not for search engines.
    pub private: bool,
    /// What the last act did.
    pub flashes: Vec<Flash>,
    /// The token of this session's forms.
    pub form_token: String,
    /// The instant at which the page is written: what relative times and countdowns start from.
    pub now: DateTime<Utc>,
}

impl Layout {
    /// Without session and organization: for errors.
    #[must_use]
    pub fn bare(title: &str, for_staff: bool, now: DateTime<Utc>) -> Self {
        Self {
            title: title.to_owned(),
            organization: None,
            theme: None,
            contact: None,
            staff: None,
            for_staff,
            menu: false,
            live: None,
            private: true,
            flashes: Vec::new(),
            form_token: String::new(),
            now,
        }
    }

    /// Whose page it is: its name in the header and its accent.
    #[must_use]
    pub fn of(mut self, organization: OrganizationId, name: &str) -> Self {
        self.organization = Some(name.to_owned());
        self.theme = Some(format!("/theme/{organization}.css"));
        self
    }

    /// Whom to ask, in the page's foot.
    #[must_use]
    pub fn ask(mut self, contact: &str) -> Self {
        self.contact = (!contact.is_empty()).then(|| contact.to_owned());
        self
    }

    /// One thing on the page, and no way to leave it by accident.
    #[must_use]
    pub fn without_menu(mut self) -> Self {
        self.menu = false;
        self
    }

    /// Refreshes itself so often.
    #[must_use]
    pub fn live(mut self, seconds: u32) -> Self {
        self.live = Some(seconds);
        self
    }

    /// Search engines may list it.
    #[must_use]
    pub fn public(mut self) -> Self {
        self.private = false;
        self
    }

    /// The server's instant for the script.
    #[must_use]
    pub fn now_millis(&self) -> i64 {
        self.now.timestamp_millis()
    }

    /// Changes with a deploy: open tabs then reload.
    #[must_use]
    pub fn build(&self) -> &'static str {
        &ADDRESSES.build
    }

    /// The stylesheet.
    #[must_use]
    pub fn css_url(&self) -> &'static str {
        &ADDRESSES.css
    }

    /// The script.
    #[must_use]
    pub fn js_url(&self) -> &'static str {
        &ADDRESSES.js
    }

    /// The icon.
    #[must_use]
    pub fn icon_url(&self) -> &'static str {
        &ADDRESSES.icon
    }

    /// Which of the two shells.
    #[must_use]
    pub fn body_class(&self) -> &'static str {
        if self.for_staff { "staff" } else { "customer" }
    }
}

/// The bar of staff pages.
#[derive(Clone, Debug)]
pub struct StaffNav {
    /// Who is signed in.
    pub name: String,
    /// What they may do.
    pub role: Role,
    /// Where this page belongs.
    pub section: Section,
}

/// The sections of the staff's pages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Section {
    /// What needs me now.
    Now,
    /// Events and all that belongs to one.
    Events,
    /// Messages and their deliveries; the mailbox.
    Messages,
    /// What other programs show with their requests.
    Keys,
    /// Where other systems are told of what happens.
    Webhooks,
}

/// A link of a navigation.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NavLink {
    /// Where to.
    pub href: String,
    /// Its words.
    pub label: &'static str,
    /// Whether this page belongs there.
    pub current: bool,
}

impl StaffNav {
    /// The sections, in order.
    #[must_use]
    pub fn links(&self) -> Vec<NavLink> {
        [
            (Section::Now, "/staff", "Now"),
            (Section::Events, "/staff/events", "Events"),
            (Section::Messages, "/staff/messages", "Messages"),
            (Section::Keys, "/staff/keys", "Keys"),
            (Section::Webhooks, "/staff/webhooks", "Webhooks"),
        ]
        .into_iter()
        .filter(|(section, ..)| match section {
            Section::Keys => self.role.may(Act::ManageKeys),
            Section::Webhooks => self.role.may(Act::ManageWebhooks),
            Section::Now | Section::Events | Section::Messages => true,
        })
        .map(|(section, href, label)| NavLink {
            href: href.to_owned(),
            label,
            current: section == self.section,
        })
        .collect()
    }
}

/// What the last act did, told on the next page.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Flash {
    /// `done`, `note`, `warn` or `error`.
    pub tone: Tone,
    /// One or two sentences.
    pub text: String,
}

/// The tone of a flash.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Tone {
    /// It was done.
    Done,
    /// Something to know.
    Note,
    /// It was done, but look.
    Warn,
    /// It was not done.
    Error,
}

impl Display for Tone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Done => "done",
            Self::Note => "note",
            Self::Warn => "warn",
            Self::Error => "error",
        })
    }
}

impl Flash {
    /// Whether a screen reader is interrupted.
    #[must_use]
    pub fn is_alarm(&self) -> bool {
        matches!(self.tone, Tone::Warn | Tone::Error)
    }
}

const FLASHES: &str = "flashes";

/// Says `text` on the next page that is shown to this session.
///
/// # Errors
/// When the session cannot be read.
pub async fn flash(session: &Session, tone: Tone, text: impl Into<String>) -> Result<(), Error> {
    let mut flashes: Vec<Flash> = session.get(FLASHES).await?.unwrap_or_default();
    flashes.push(Flash { tone, text: text.into() });
    // Nobody reads more; a session stays small.
    let from = flashes.len().saturating_sub(5);
    session.insert(FLASHES, &flashes[from..]).await?;
    Ok(())
}

/// What is to be said now; it is said once.
///
/// # Errors
/// When the session cannot be read.
pub async fn take_flashes(session: &Session) -> Result<Vec<Flash>, Error> {
    // Removing what is not there would write the session on every page.
    if session.get_value(FLASHES).await?.is_none() {
        return Ok(Vec::new());
    }
    Ok(session.remove(FLASHES).await?.unwrap_or_default())
}

/// What is wrong with a form, by field; the empty name is for the form as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Errors(Vec<(Cow<'static, str>, String)>);

impl Errors {
    /// Notes a sentence at a field.
    pub fn add(&mut self, field: impl Into<Cow<'static, str>>, sentence: impl Display) {
        self.0.push((field.into(), sentence.to_string()));
    }

    /// The value of a parsed field, or `None` after its error was noted: `errors.check("email", Email::parse(&text))`.
    pub fn check<T, E: Display>(
        &mut self,
        field: impl Into<Cow<'static, str>>,
        result: Result<T, E>,
    ) -> Option<T> {
        result.map_err(|error| self.add(field, error)).ok()
    }

    /// The first sentence at a field.
    #[must_use]
    pub fn get(&self, field: &str) -> Option<&str> {
        self.0.iter().find(|(name, _)| *name == field).map(|(_, sentence)| sentence.as_str())
    }

    /// Whether there is one at a field.
    #[must_use]
    pub fn has(&self, field: &str) -> bool {
        self.get(field).is_some()
    }

    /// Whether all is well.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// How many there are.
    #[must_use]
    pub fn len(&self) -> usize {
        self.0.len()
    }

    /// All of them, in the order in which they were noted.
    pub fn iter(&self) -> std::slice::Iter<'_, (Cow<'static, str>, String)> {
        self.0.iter()
    }
}

impl<'a> IntoIterator for &'a Errors {
    type Item = &'a (Cow<'static, str>, String);
    type IntoIter = std::slice::Iter<'a, (Cow<'static, str>, String)>;

    fn into_iter(self) -> Self::IntoIter {
        self.iter()
    }
}

/// A view of a list: a link with a live count.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FilterLink {
    /// The view's address.
    pub href: String,
    /// Its words.
    pub label: String,
    /// How many rows it has.
    pub count: Option<i64>,
    /// Whether it is the one shown.
    pub current: bool,
}

/// Where in a long list a page is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pages {
    /// The address without `page`, ending in `?` or `&`.
    pub base: String,
    /// This page, from 1.
    pub page: i64,
    /// Rows on a page.
    pub per_page: i64,
    /// Rows in all.
    pub total: i64,
}

impl Pages {
    /// The page of that number, as the query says it; nonsense is the first.
    #[must_use]
    pub fn number(text: &str) -> i64 {
        text.parse().ok().filter(|page| (1..=1_000_000).contains(page)).unwrap_or(1)
    }

    /// Rows before this page.
    #[must_use]
    pub fn offset(&self) -> i64 {
        (self.page - 1) * self.per_page
    }

    /// "51–100 of 101".
    #[must_use]
    pub fn sentence(&self) -> String {
        let first = self.offset() + 1;
        let last = (self.offset() + self.per_page).min(self.total);
        if self.total == 0 || first > self.total {
            "None of these".to_owned()
        } else {
            format!("{}–{} of {}", grouped(first), grouped(last), grouped(self.total))
        }
    }

    /// The page before.
    #[must_use]
    pub fn previous(&self) -> Option<String> {
        (self.page > 1).then(|| format!("{}page={}", self.base, self.page - 1))
    }

    /// The page after.
    #[must_use]
    pub fn next(&self) -> Option<String> {
        (self.offset() + self.per_page < self.total).then(|| format!("{}page={}", self.base, self.page + 1))
    }
}

/// Booked, held and open places, which add up to the capacity; `over` are those marked to be retired when free.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Bar {
    /// Booked within the capacity.
    pub booked: i64,
    /// Held for somebody who was offered them.
    pub held: i64,
    /// Open.
    pub open: i64,
    /// Booked or held beyond the capacity.
    pub over: i64,
}

/// One stretch of the bar, in percent of its width.
#[derive(Clone, Debug, PartialEq)]
pub struct BarPart {
    /// `booked`, `held`, `open` or `over`; the rest of its class.
    pub name: &'static str,
    /// How many places.
    pub count: i64,
    /// Where it begins.
    pub x: String,
    /// How wide it is.
    pub width: String,
}

impl Bar {
    /// What the three add up to.
    #[must_use]
    pub fn capacity(self) -> i64 {
        self.booked + self.held + self.open
    }

    /// The stretches that are not empty.
    #[must_use]
    pub fn parts(self) -> Vec<BarPart> {
        let all = self.capacity() + self.over;
        let mut at = 0;
        let percent = |count: i64| {
            // Hundredths of a percent in whole numbers: an SVG needs no more.
            let hundredths = count * 10_000 / all.max(1);
            format!("{}.{:02}", hundredths / 100, hundredths % 100)
        };
        let mut parts = Vec::new();
        for (name, count) in
            [("booked", self.booked), ("held", self.held), ("open", self.open), ("over", self.over)]
        {
            if count > 0 {
                parts.push(BarPart { name, count, x: percent(at), width: percent(count) });
            }
            at += count;
        }
        parts
    }

    /// The words under the bar.
    #[must_use]
    pub fn legend(self) -> Vec<BarPart> {
        let part = |name, count| BarPart { name, count, x: String::new(), width: String::new() };
        let mut parts = vec![part("booked", self.booked), part("held", self.held), part("open", self.open)];
        if self.over > 0 {
            parts.push(part("over", self.over));
        }
        parts
    }

    /// What they add up to, in words.
    #[must_use]
    pub fn total(self) -> String {
        match self.capacity() {
            1 => "of 1 place".to_owned(),
            capacity => format!("of {capacity} places"),
        }
    }

    /// All of it in words.
    #[must_use]
    pub fn sentence(self) -> String {
        let over = if self.over > 0 { format!(", over by {}", self.over) } else { String::new() };
        format!("{} booked, {} held, {} open, {}{over}", self.booked, self.held, self.open, self.total())
    }
}

/// A stored word as the end of a class: `contact-problem`.
#[must_use]
pub fn with_hyphens(word: impl Display) -> String {
    word.to_string().replace(['_', ' '], "-")
}

/// A stored word as people read it: "contact problem".
#[must_use]
pub fn with_spaces(word: impl Display) -> String {
    word.to_string().replace('_', " ")
}

/// Whether an option is the chosen one, whatever types the two have.
#[must_use]
pub fn same(option: impl Display, chosen: impl Display) -> bool {
    option.to_string() == chosen.to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_adds_up() {
        let bar = Bar { booked: 37, held: 2, open: 1, over: 0 };
        let parts = bar.parts();
        assert_eq!(
            parts.iter().map(|part| part.width.as_str()).collect::<Vec<_>>(),
            ["92.50", "5.00", "2.50"]
        );
        assert_eq!(parts[2].x, "97.50");
        assert_eq!(bar.sentence(), "37 booked, 2 held, 1 open, of 40 places");
        assert!(Bar::default().parts().is_empty());
    }

    #[test]
    fn pages_know_their_neighbours() {
        let pages = Pages { base: "/q?state=waiting&".to_owned(), page: 2, per_page: 50, total: 101 };
        assert_eq!(pages.sentence(), "51–100 of 101");
        assert_eq!(pages.next().as_deref(), Some("/q?state=waiting&page=3"));
        assert_eq!(Pages { page: 3, ..pages.clone() }.next(), None);
        assert_eq!(Pages { page: 9, ..pages }.sentence(), "None of these");
        assert_eq!([Pages::number("x"), Pages::number("-1"), Pages::number("3")], [1, 1, 3]);
    }
}
