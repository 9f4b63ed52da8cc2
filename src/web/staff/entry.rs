//! One entry: where it stands and why it still waits, what can be done, what happened.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Layout, Page};
use super::Staff;
use super::entry_acts::EntryAct;
use super::frame::{EventFrame, Tab, people, places};
use super::history::{Happened, MessageState, messages_to, timeline};
use super::next::Line;
use super::offer_acts::OfferAct;
use super::since::{SINCE_SHOWN, SinceJoined};
use super::words;
use crate::db::pages_staff::HinderedCounts;
use crate::db::persons::Person;
use crate::domain::entry::{Entry, EntryState, Hindrance};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::offer::{Offer, OfferState};
use crate::domain::policy::Ordering;
use crate::domain::role::Act;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/entries/{entry}", get(show))
}

/// As much of a history as the page shows.
const HISTORY: i64 = 200;

#[derive(Template)]
#[template(path = "staff/entry.html")]
struct EntryPage {
    layout: Layout,
    frame: EventFrame,
    entry: Entry,
    person: Person,
    /// What it wants of a place, in words.
    wants: String,
    may_change_wants: bool,
    position: Option<i64>,
    why: Option<String>,
    offers: Vec<Offer>,
    /// The group by which it goes before others.
    group: Option<String>,
    since: SinceJoined,
    /// How often they said that something is not right, and whether the last time waits for an answer.
    complaints: usize,
    complains: bool,
    happened: Vec<Happened>,
    messages: Vec<MessageState>,
    acts: Vec<EntryAct>,
    offer_acts: Vec<OfferAct>,
}

impl EntryPage {
    fn is(&self) -> &'static str {
        words::entry_is(self.entry.state)
    }

    fn party(&self) -> String {
        places(self.entry.party)
    }

    fn hindrance(&self) -> Option<Hindrance> {
        (self.entry.state == EntryState::Waiting).then(|| self.entry.hindrance()).flatten()
    }

    fn hindrance_sentence(&self) -> String {
        let sentence = self.hindrance().map_or("", words::hindrance);
        match self.entry.paused_until {
            Some(until) => format!("{sentence} It ends by itself {}.", self.frame.said(until)),
            None => sentence.to_owned(),
        }
    }

    fn hindrance_word(&self) -> Option<&'static str> {
        self.hindrance().map(words::hindrance_word)
    }

    fn live(&self) -> Option<&Offer> {
        self.offers.iter().find(|offer| matches!(offer.state, OfferState::Pending | OfferState::Accepting))
    }

    fn joined(&self) -> When {
        self.frame.when(self.entry.joined_at)
    }

    fn since(&self) -> When {
        self.frame.when(self.entry.state_since)
    }

    fn lapses(&self) -> Option<When> {
        self.entry.lapses_at.map(|at| self.frame.when(at))
    }

    fn deadline(&self, offer: &Offer) -> When {
        self.frame.when(offer.expires_at)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates lend what they pass")]
    fn path(&self, act: &EntryAct) -> String {
        self.frame.path(format!("/entries/{}/{}", self.entry.id, act.word()))
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates lend what they pass")]
    fn offer_path(&self, offer: &Offer, act: &OfferAct) -> String {
        let back = super::frame::back_query(&self.frame.path(format!("/entries/{}", self.entry.id)));
        self.frame.path(format!("/offers/{}/{}?{back}", offer.id, act.word()))
    }

    fn confirmed(&self) -> &'static str {
        match (self.entry.confirmed_at, self.entry.vouched) {
            (Some(_), _) => "confirmed by a code",
            (None, true) => "vouched for: the first accept asks for a code",
            (None, false) => "not confirmed yet",
        }
    }
}

/// Why somebody in the line has no offer yet.
fn why_waiting(entry: &Entry, position: i64, line: &Line) -> String {
    if let Some(halt) = line.halt {
        return halt.sentence();
    }
    if entry.hindrance().is_some() {
        return "Passed over while that is so; the rank is kept.".to_owned();
    }
    let next = line.next.as_ref();
    if next.is_some_and(|next| next.who.candidate.entry == entry.id) {
        return match next.map_or(0, |next| next.missing) {
            0 => "They are next, and the places are open: the offer is being made.".to_owned(),
            missing if line.open == 0 => format!(
                "They are next. No place is open: they are offered {} as soon as {} back.",
                places(entry.party),
                if missing == 1 { "1 comes".to_owned() } else { format!("{missing} come") }
            ),
            missing => format!(
                "They are next and wait for {}: {} open, {missing} more must come back.",
                places(entry.party),
                if line.open == 1 { "1 is".to_owned() } else { format!("{} are", line.open) }
            ),
        };
    }
    match position {
        1 => "They are at the head of the line, and the places that are open do not suit them.".to_owned(),
        2 => "1 person is ahead.".to_owned(),
        position => format!("{} are ahead.", people(position - 1)),
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry)): Path<(EventId, EntryId)>,
) -> Result<Page<EntryPage>, Error> {
    let event = staff.event(&state, event).await?;
    let entry = state.db.find_entry(entry).await?;
    if entry.event != event.id {
        return Err(Error::NotFound);
    }
    let person = state.db.person(entry.person).await?;
    let offers = state.db.offers_of_entry(event.id, entry.id).await?;
    let steps = state.db.history_of_entry(event.id, entry.id, HISTORY).await?;
    let (mut position, mut why, mut hindered) = (None, None, HinderedCounts::default());
    let policy = state.db.policy(event.id).await?;
    let has_groups = policy.ordering == Ordering::Priority;
    let group = policy.band(entry.key.band).filter(|_| has_groups).map(|band| band.name.clone());
    if entry.state == EntryState::Waiting {
        let line = Line::read(&state, &event, &policy, staff.now).await?;
        let ahead = state.db.position(event.id, entry.key).await?;
        position = Some(ahead);
        why = Some(why_waiting(&entry, ahead, &line));
        hindered = state.db.hindered_counts(event.id, Some(entry.key)).await?;
    }
    let trail = state.db.trail_of(&entry).await?;
    let looks = state.db.since_joined(&entry, &trail, SINCE_SHOWN).await?;
    let frame = EventFrame::new(event, Tab::Queue, staff.now);
    let since = SinceJoined::new(&frame, &entry, &looks, &trail, position.map(|place| (place - 1, hindered)));
    let messages = messages_to(&state, &staff, &frame, entry.person).await?;
    let complaints = state.db.complaints_of(frame.event.id, entry.id, HISTORY).await?;
    let unreachable = entry.contact_problem && !entry.offer_anyway;
    let acts = EntryAct::ALL
        .into_iter()
        .filter(|act| *act != EntryAct::Group || has_groups)
        .filter(|act| *act != EntryAct::Move || policy.ordering != Ordering::Lottery)
        .filter(|act| act.applies(entry.state, entry.paused.is_some(), entry.set_aside, unreachable))
        .filter(|act| staff.may(act.permission()))
        .collect();
    let live = offers.iter().find(|offer| offer.is_claimable(staff.now));
    let offer_acts = match live {
        Some(_) if staff.may(Act::ActOnOffers) => {
            vec![OfferAct::Extend, OfferAct::Accept, OfferAct::Decline, OfferAct::Revoke]
        }
        _ => vec![],
    };
    let (_, wants) = state.db.wants(frame.event.id, entry.wants).await?;
    Ok(Page(EntryPage {
        wants,
        may_change_wants: staff.may(Act::ActOnEntries)
            && entry.state.is_live()
            && entry.state != EntryState::Offered,
        layout: staff.event_layout(&frame.event, &person.name).await?.live(10),
        complaints: complaints.len(),
        complains: complaints.first().is_some_and(|last| last.answer.is_none()),
        happened: timeline(&frame, steps),
        frame,
        entry,
        person,
        position,
        why,
        offers,
        group,
        since,
        messages,
        acts,
        offer_acts,
    }))
}
