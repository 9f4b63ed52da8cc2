//! An event's own page: how its places add up, who is next and why, what the last pass did, what runs by itself.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Bar, Layout, Page};
use super::Staff;
use super::frame::{EventFrame, Tab, are, isolated, people, places};
use super::next::{Halt, Line, NextInLine};
use super::words;
use crate::db::pages_places::PlaceLine;
use crate::db::pages_staff::{HinderedCounts, LiveOffer};
use crate::db::places::Place;
use crate::domain::allocation::PassOutcome;
use crate::domain::entry::EntryState;
use crate::domain::event::{EventState, LargeCall};
use crate::domain::ids::EventId;
use crate::domain::place::{PlaceCounts, PlaceState};
use crate::domain::policy::{Ordering, Policy};
use crate::domain::role::Act;
use crate::domain::standing::grouped;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}", get(show))
}

/// Offers shown on the page; the list of offers has the rest.
const OFFERS_SHOWN: i64 = 8;

#[derive(Template)]
#[template(path = "staff/event.html")]
struct EventPage {
    layout: Layout,
    frame: EventFrame,
    bar: Bar,
    counts: PlaceCounts,
    waiting: i64,
    offered: i64,
    hindered: HinderedCounts,
    ahead: HinderedCounts,
    line: Line,
    policy: Policy,
    last_pass: Option<LastPass>,
    trouble: Vec<String>,
    offers: Vec<LiveOffer>,
    unbooked: Vec<PlaceLine>,
    may_offer: bool,
    may_release: bool,
    may_edit: bool,
}

/// How the last pass ended.
struct LastPass {
    sentence: String,
    at: When,
    last_at: When,
    repeated: bool,
    asked: Option<When>,
}

/// The bar of an event: what is booked or held beyond the capacity is shown as over.
#[must_use]
pub fn bar(counts: PlaceCounts) -> Bar {
    let over = counts.retire_when_free;
    // Those to be retired are booked more often than held; which ones, the page of places says.
    let from_booked = over.min(counts.booked);
    Bar {
        booked: counts.booked - from_booked,
        held: counts.held - (over - from_booked),
        open: counts.open,
        over,
    }
}

impl EventPage {
    /// Who is next, if there is anybody.
    fn next(&self) -> Option<&NextInLine> {
        self.line.next.as_ref()
    }

    /// "joined first", unless somebody who joined before is behind by now.
    fn why(&self, next: &NextInLine) -> &'static str {
        let key = next.who.candidate.key;
        // What is ahead of the line is there by a draw or for a public reason.
        if key.band < 0 {
            return if self.policy.ordering == Ordering::Lottery {
                "first in the order drawn"
            } else {
                "first of the groups"
            };
        }
        if key.round == 0 && next.who.candidate.declined_at.is_none() && next.passed_over.is_none() {
            if next.wants_else.is_some() {
                "joined first of those who want what is open"
            } else if self.ahead == HinderedCounts::default() {
                "joined first"
            } else {
                "joined first of those who can be offered it"
            }
        } else if next.passed_over.is_some() {
            "first who fits"
        } else {
            "first in line"
        }
    }

    /// The call that is being made to more people than one pass tells.
    fn call_under_way(&self) -> Option<LargeCall> {
        self.frame.event.large_call.filter(LargeCall::is_under_way)
    }

    /// "Telling everybody: 20,000 of 50,000 called."
    fn telling(call: &LargeCall) -> String {
        format!("Telling everybody: {} of {} called.", grouped(call.told.into()), grouped(call.total.into()))
    }

    /// What came of the last call to more people than one pass tells, and when it was done.
    fn call_ended(&self) -> Option<(String, When)> {
        let call = self.frame.event.large_call?;
        let ended = call.ended_at?;
        let began = self.frame.when(call.began_at).short;
        let sentence = if call.was_cut_short() {
            format!(
                "The call that began at {began} stopped: {} of {} were called, and then nothing was open any more, or \
                 the list or its rule was changed.",
                grouped(call.told.into()),
                people(call.total.into())
            )
        } else {
            format!("The call that began at {began} is done: {} were called.", people(call.told.into()))
        };
        Some((sentence, self.frame.when(ended)))
    }

    fn waits_for_draw(&self) -> bool {
        self.line.halt == Some(Halt::WaitingForDraw)
    }

    fn final_call_is_due(&self) -> bool {
        self.line.halt == Some(Halt::FinalCallDue)
    }

    fn cannot_tell(&self) -> bool {
        matches!(self.line.halt, Some(Halt::CannotTell { .. }))
    }

    fn joined(&self, next: &NextInLine) -> When {
        self.frame.when(next.who.joined_at)
    }

    /// The labels of the places they get.
    fn labels(next: &NextInLine) -> String {
        let labels: Vec<String> = next.given.iter().filter_map(Place::told).collect();
        labels.join(", ")
    }

    /// Whether the sentence's Offer button would work.
    fn can_offer(&self) -> bool {
        let by_hand = self.line.halt.is_none_or(Halt::allows_by_hand);
        self.may_offer && by_hand && self.next().is_some_and(|next| next.missing == 0)
    }

    /// "paused 2, contact problem 1": who is passed over ahead of the next.
    fn passed_over(&self) -> String {
        hindered_in_words(self.ahead)
    }

    /// Why there is nobody to offer anything to.
    fn nobody(&self) -> String {
        if self.waiting == 0 {
            "Nobody is waiting.".to_owned()
        } else if self.line.halt == Some(Halt::WaitingForDraw) {
            format!("{} in the line, and none of them is ranked before it.", people(self.waiting))
        } else {
            format!(
                "{} in the line, and none of them can be offered a place: {}.",
                people(self.waiting),
                hindered_in_words(self.hindered)
            )
        }
    }

    /// "if every pending offer is accepted: 118 of 120".
    fn if_all_accept(&self) -> String {
        format!("{} of {}", self.counts.booked + self.counts.held, self.counts.capacity())
    }

    fn deadline(&self, offer: &LiveOffer) -> When {
        self.frame.when(offer.expires_at)
    }

    fn more_live(&self) -> i64 {
        self.offered - i64::try_from(self.offers.len()).unwrap_or(0)
    }

    /// Why nothing (more) is offered at this moment.
    fn why_nothing(&self) -> String {
        if let Some(halt) = self.line.halt {
            return halt.sentence();
        }
        let PlaceCounts { open, held, retire_when_free: over, .. } = self.counts;
        match (open, held, over) {
            (0, 0, _) if self.counts.capacity() == 0 => "The event has no places.".to_owned(),
            (0, 0, 0) => "Every place is booked: one has to come back before it can be offered.".to_owned(),
            (0, 0, over) => format!(
                "Every place is booked, and {} too many: one has to come back before it can be offered.",
                grouped(over)
            ),
            (0, held, _) => format!(
                "No place is open: {} {} kept for answers, and the others are booked.",
                places(held),
                are(held)
            ),
            (open, _, _) => format!("{} {} open. {}", places(open), are(open), self.line.sentence()),
        }
    }

    /// What has a place, and until when.
    fn what_has(&self, place: &PlaceLine) -> String {
        let who = place.name.as_deref().map_or_else(|| "somebody".to_owned(), isolated);
        match (place.state, place.hold) {
            (PlaceState::Held, Some(_)) if self.cannot_tell() => {
                format!("kept for {who}: the clock waits")
            }
            (PlaceState::Held, Some((_, until))) => {
                format!("kept for {who} until {}", self.frame.said(until))
            }
            (PlaceState::Held, None) => format!("kept for {who}"),
            (PlaceState::Open, _) => format!("open since {}", self.frame.when(place.since).short),
            (PlaceState::Booked, _) => format!("booked by {who}; leaves the event when it becomes free"),
            (PlaceState::Retired, _) => "no longer part of the event".to_owned(),
        }
    }

    /// Places that are not booked, and not listed.
    fn more_unbooked(&self) -> i64 {
        let shown = self.unbooked.iter().filter(|place| place.state != PlaceState::Booked).count();
        self.counts.open + self.counts.held - i64::try_from(shown).unwrap_or(0)
    }

    fn missing(&self, next: &NextInLine) -> String {
        let missing = i64::try_from(next.missing).unwrap_or(i64::MAX);
        if self.line.open == 0 {
            let verb = if missing == 1 { "comes" } else { "come" };
            format!("{} {verb} back", places(missing))
        } else {
            let verb = if missing == 1 { "comes" } else { "come" };
            format!("{missing} more {verb} back")
        }
    }

    fn party(party: &(impl Copy + Into<i64>)) -> String {
        places(*party)
    }
}

/// "2 paused, 1 with a contact problem".
pub(super) fn hindered_in_words(counts: HinderedCounts) -> String {
    let mut parts = Vec::new();
    for (count, words) in [
        (counts.paused, "paused"),
        (counts.set_aside, "set aside"),
        (counts.contact_problem, "with a contact problem"),
        (counts.until_passed, "past the date they wanted to wait until"),
    ] {
        if count > 0 {
            parts.push(format!("{count} {words}"));
        }
    }
    parts.join(", ")
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Page<EventPage>, Error> {
    let event = staff.event(&state, event).await?;
    let id = event.id;
    let policy = state.db.policy(id).await?;
    let counts = state.db.place_counts(id).await?;
    let entries = state.db.entry_counts(id).await?;
    let line = Line::read(&state, &event, &policy, staff.now).await?;
    let hindered = state.db.hindered_counts(id, None).await?;
    let ahead = match &line.next {
        Some(next) if hindered != HinderedCounts::default() => {
            state.db.hindered_counts(id, Some(next.who.candidate.key)).await?
        }
        _ => HinderedCounts::default(),
    };
    let offers = state.db.live_offers(id, OFFERS_SHOWN).await?;
    let unbooked = state.db.unbooked_places(id, OFFERS_SHOWN).await?;
    let wanted = state.db.pass_wanted(id).await?;
    let last = state.db.last_pass(id).await?;
    let frame = EventFrame::new(event, Tab::Overview, staff.now);
    let under_way = frame.event.large_call.is_some_and(|call| call.is_under_way());
    let last_pass = last.map(|pass| LastPass {
        sentence: if under_way && pass.offered > 0 {
            format!("{} were called, and others follow", people(pass.offered.into()))
        } else {
            words::pass(pass.outcome, pass.offered)
        },
        at: frame.when(pass.at),
        last_at: frame.when(frame.event.last_pass_at.unwrap_or(pass.last_at)),
        repeated: pass.last_at > pass.at && pass.outcome != PassOutcome::Offered,
        asked: wanted.map(|at| frame.when(at)),
    });
    let trouble =
        super::now::trouble(&state, wanted, &frame, &policy, line.halt.is_none() && entries.eligible > 0)
            .await?;
    let layout = staff.event_layout(&frame.event, "Overview").await?.live(if under_way { 2 } else { 10 });
    Ok(Page(EventPage {
        bar: bar(counts),
        waiting: entries.of(EntryState::Waiting),
        offered: entries.of(EntryState::Offered),
        may_offer: staff.may(Act::ActOnOffers),
        may_release: staff.may(Act::ReleasePlaces),
        may_edit: staff.may(Act::EditEvents),
        layout,
        frame,
        counts,
        hindered,
        ahead,
        line,
        policy,
        last_pass,
        trouble,
        offers,
        unbooked,
    }))
}
