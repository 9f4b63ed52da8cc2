//! An entry of my own: where it stands, why it still waits, what happened; leave, pause, resume, confirm, join again.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use super::super::WebState;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::super::wants::{Field, read_party, read_wants, wants_fields};
use super::events::EntryCard;
use super::join::too_large;
use super::since::{SINCE_SHOWN, SinceJoined};
use super::words::{story, why_waiting, you_have_enough};
use super::{Customer, not_yours};
use crate::db::pages_customer::events::EventSheet;
use crate::domain::attribute::Typed;
use crate::domain::audit::Actor;
use crate::domain::entry::{Entry, EntryState, PausedBy};
use crate::domain::ids::EntryId;
use crate::domain::policy::{After, Fit, Ordering, PositionShown};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::when::{self, When};
use crate::waitlist::attributes::WantsOutcome;
use crate::waitlist::join::ConfirmOutcome;
use crate::waitlist::leave::{LeaveOutcome, PauseOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/me/entries/{id}", get(show))
        .route("/me/entries/{id}/leave", get(ask_leave).post(leave))
        .route("/me/entries/{id}/pause", post(pause))
        .route("/me/entries/{id}/resume", post(resume))
        .route("/me/entries/{id}/wants", post(change_wants))
        .route("/me/entries/{id}/confirm", post(confirm))
}

/// A line of the story.
struct StoryItem {
    title: String,
    at: When,
}

#[derive(Template)]
#[template(path = "customer/entry.html")]
struct EntryPage {
    layout: Layout,
    card: EntryCard,
    sheet: EventSheet,
    entry: Entry,
    email: String,
    why: Vec<String>,
    since: Option<SinceJoined>,
    story: Vec<StoryItem>,
    window: Option<String>,
    joined: When,
    lapses: Option<When>,
    /// What they want of a place, in words.
    wants: String,
    /// How many places to ask for, as typed.
    party: String,
    /// The fields to change what they want of them.
    fields: Vec<Field>,
    /// The same, for a form that joins again.
    typed: Typed,
    errors: Errors,
    /// Whether the list takes them again.
    rejoin: bool,
    /// Places are free for everybody.
    bookable: bool,
    elsewhere: bool,
}

/// The entry, if this device is signed in as its person; else the page that says how to go on.
pub(super) async fn mine(
    state: &WebState,
    customer: &Customer,
    id: EntryId,
    path: &str,
) -> Result<Result<Entry, Response>, Error> {
    if !customer.is_signed_in() {
        return Err(Error::SignIn);
    }
    let entry = state.db.find_entry(id).await?;
    if customer.is(entry.person) {
        Ok(Ok(entry))
    } else {
        Ok(Err(not_yours(customer, "This request", path).await?))
    }
}

/// A reason of the customer's own.
fn own(reason: Reason) -> StaffReason {
    StaffReason { reason, note: None }
}

fn address(id: EntryId) -> String {
    format!("/me/entries/{id}")
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
) -> Result<Response, Error> {
    match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => page(&state, &customer, entry, None, Errors::default()).await,
        Err(page) => Ok(page),
    }
}

async fn page(
    state: &WebState,
    customer: &Customer,
    entry: Entry,
    typed: Option<Typed>,
    errors: Errors,
) -> Result<Response, Error> {
    let (id, now) = (entry.id, customer.now);
    let mine = state.db.my_entry(id).await?;
    let sheet = state.db.event_sheet_of(entry.event, now).await?;
    let person = state.db.person(entry.person).await?;
    let zone = sheet.event.zone;
    let why = if entry.state == EntryState::Waiting {
        why_waiting(&entry, mine.position.unwrap_or(1), &sheet, now)
    } else {
        Vec::new()
    };
    let since = if entry.state == EntryState::Waiting {
        let trail = state.db.trail_of(&entry).await?;
        let looks = state.db.since_joined(&entry, &trail, SINCE_SHOWN).await?;
        let hindered = match sheet.position_shown {
            PositionShown::Exact => state.db.hindered_counts(entry.event, Some(entry.key)).await?.total(),
            PositionShown::Band | PositionShown::None => 0,
        };
        Some(SinceJoined::new(&entry, &looks, &trail, hindered, zone, now))
    } else {
        None
    };
    let story = state
        .db
        .entry_story(entry.event, id)
        .await?
        .iter()
        .filter_map(|line| Some(StoryItem { title: story(line)?, at: When::new(line.at, zone, now) }))
        .collect();
    let mut layout = customer.layout_of(&sheet.event.name, &sheet.event.organizer).await?;
    if entry.state.is_live() {
        layout = layout.live(30);
    }
    let (wants, words) = state.db.wants(entry.event, entry.wants).await?;
    let door = state.db.door_for(&sheet, &wants, now).await?;
    let mut typed = typed.unwrap_or_else(|| wants.typed());
    let party = typed.remove("party").unwrap_or_else(|| entry.party.to_string());
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = EntryPage {
        wants: words,
        fields: wants_fields(&sheet.attributes, &typed),
        party,
        typed,
        errors,
        card: EntryCard::new(&mine, now),
        email: person.email,
        why,
        since,
        story,
        window: sheet.window.and_then(when::span),
        joined: When::new(entry.joined_at, zone, now),
        lapses: entry.lapses_at.map(|at| When::new(at, zone, now)),
        rejoin: !entry.state.is_live() && door.takes(entry.party),
        bookable: door.bookable() >= i64::from(entry.party),
        elsewhere: door.outside && door.for_everybody() >= i64::from(entry.party),
        entry,
        sheet,
        layout,
    };
    Ok((status, Page(page)).into_response())
}

async fn change_wants(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(form): VerifiedForm<Typed>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let event = state.db.event(entry.event).await?;
    let mut errors = Errors::default();
    let party = read_party(&form, &mut errors);
    let wants = read_wants(&event.attributes, &form, &mut errors);
    let (Some(party), Some(wants)) = (party, wants) else {
        return page(&state, &customer, entry, Some(form), errors).await;
    };
    let actor = Actor::Person(entry.person);
    let reason = own(Reason::CustomerAsked);
    let outcome = state.waitlist().change_wants(entry.event, id, party, &wants, actor, &reason).await?;
    let (tone, text) = match outcome {
        WantsOutcome::Changed { to_end: false } => (Tone::Done, "Saved. You keep your place in the line."),
        WantsOutcome::Changed { to_end: true } => {
            (Tone::Done, "Saved. You asked for more places, so you are at the end of the line now.")
        }
        WantsOutcome::Already => (Tone::Note, "You asked for this before; nothing has changed."),
        WantsOutcome::Offered => {
            (Tone::Warn, "You have an offer of what you wanted: answer it first. Nothing has changed.")
        }
        WantsOutcome::Over(state) => (Tone::Note, over_already(state)),
        WantsOutcome::TooManyWants => (
            Tone::Warn,
            "People on this list want as many different things as it can tell apart. Nothing has changed.",
        ),
        WantsOutcome::BadParty(most) => {
            errors.add("party", too_large(most));
            return page(&state, &customer, entry, Some(form), errors).await;
        }
        WantsOutcome::Enough(enough) => {
            errors.add("party", you_have_enough(enough));
            return page(&state, &customer, entry, Some(form), errors).await;
        }
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&address(id)).into_response())
}

#[derive(Template)]
#[template(path = "customer/leave.html")]
struct LeavePage {
    layout: Layout,
    card: EntryCard,
}

async fn ask_leave(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    if !entry.state.is_live() {
        customer.flash(Tone::Note, over_already(entry.state)).await?;
        return Ok(Redirect::to(&address(id)).into_response());
    }
    let mine = state.db.my_entry(id).await?;
    let layout = customer.layout_of("Leave the waitlist?", &mine.event.organizer).await?;
    Ok(Page(LeavePage { layout, card: EntryCard::new(&mine, customer.now) }).into_response())
}

fn over_already(state: EntryState) -> &'static str {
    match state {
        EntryState::Withdrawn => "You had left this waitlist before.",
        EntryState::Accepted => {
            "You have the places already, so there is nothing to leave. A booking can be cancelled on its own page."
        }
        EntryState::Unconfirmed
        | EntryState::Waiting
        | EntryState::Offered
        | EntryState::Declined
        | EntryState::Expired
        | EntryState::Removed
        | EntryState::Lapsed
        | EntryState::Closed => "You were no longer on this waitlist.",
    }
}

async fn leave(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let outcome = state.waitlist().leave(entry.event, id, Actor::Person(entry.person)).await?;
    let (tone, text) = match outcome {
        LeaveOutcome::Left { offer_declined: true } => {
            (Tone::Done, "You left the waitlist. The places that were held for you go to the next in line.")
        }
        LeaveOutcome::Left { offer_declined: false } => (Tone::Done, "You left the waitlist."),
        LeaveOutcome::Already(state) => (Tone::Note, over_already(state)),
        LeaveOutcome::BeingConfirmed => (
            Tone::Warn,
            "Your booking is being confirmed at this moment. Look again in a minute; then you can cancel it.",
        ),
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&address(id)).into_response())
}

async fn pause(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let actor = Actor::Person(entry.person);
    let (by, reason) = (PausedBy::Person, own(Reason::Paused));
    let outcome = state.waitlist().pause(entry.event, id, by, None, actor, &reason).await?;
    let (tone, text) = match outcome {
        PauseOutcome::Done => {
            (Tone::Done, "Paused. You keep your place; nothing is offered until you resume.")
        }
        PauseOutcome::Already | PauseOutcome::PausedByStaff | PauseOutcome::BadUntil => {
            (Tone::Note, "It was paused already.")
        }
        PauseOutcome::NotWaiting(state) => (Tone::Warn, not_waiting(state)),
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&address(id)).into_response())
}

async fn resume(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let actor = Actor::Person(entry.person);
    let outcome = state.waitlist().resume(entry.event, id, actor, &own(Reason::Resumed)).await?;
    let (tone, text) = match outcome {
        PauseOutcome::Done => (Tone::Done, "It goes on: you are in the line again, at your old place."),
        PauseOutcome::PausedByStaff => {
            (Tone::Warn, "The organizer paused it, and only they can resume it. Please ask them.")
        }
        PauseOutcome::Already | PauseOutcome::BadUntil => (Tone::Note, "It was not paused."),
        PauseOutcome::NotWaiting(state) => (Tone::Warn, not_waiting(state)),
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&address(id)).into_response())
}

fn not_waiting(state: EntryState) -> &'static str {
    match state {
        EntryState::Offered => "It is your turn at this moment: take the places or pass them on first.",
        EntryState::Unconfirmed => "Confirm it first.",
        EntryState::Waiting
        | EntryState::Accepted
        | EntryState::Declined
        | EntryState::Expired
        | EntryState::Withdrawn
        | EntryState::Removed
        | EntryState::Lapsed
        | EntryState::Closed => "You are not waiting on this list any more, so there was nothing to do.",
    }
}

/// Somebody asked in this address's name; its owner, who has proved it since, says that it was meant.
async fn confirm(
    State(state): State<WebState>,
    customer: Customer,
    Path(id): Path<EntryId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Response, Error> {
    let entry = match mine(&state, &customer, id, &address(id)).await? {
        Ok(entry) => entry,
        Err(page) => return Ok(page),
    };
    let (tone, text) = match state.waitlist().confirm(entry.event, entry.person).await? {
        ConfirmOutcome::Confirmed(confirmed) if confirmed == id => {
            (Tone::Done, "Confirmed: you are on the waitlist.".to_owned())
        }
        ConfirmOutcome::Enough(confirmed, enough) if confirmed == id => {
            (Tone::Warn, format!("{} You are not on the waitlist.", you_have_enough(enough)))
        }
        ConfirmOutcome::Confirmed(_) | ConfirmOutcome::Enough(..) | ConfirmOutcome::NoEntry => {
            (Tone::Warn, over_already(entry.state).to_owned())
        }
    };
    customer.flash(tone, text).await?;
    Ok(Redirect::to(&address(id)).into_response())
}

impl EntryPage {
    /// What the person paused, or silence did, the person resumes; what staff paused, staff do.
    fn may_resume(&self) -> bool {
        matches!(self.entry.paused, Some(PausedBy::Person | PausedBy::Silent))
    }

    /// Nothing goes out by itself.
    fn by_hand(&self) -> bool {
        self.sheet.facts.passive || self.sheet.ordering == Ordering::Manual && !self.sheet.facts.calls
    }

    fn who_is_first(&self) -> &'static str {
        match self.sheet.ordering {
            Ordering::Arrival | Ordering::Manual => "Who came first is asked first.",
            Ordering::Priority => {
                "The groups of this list are asked first, and in each, as among everybody else, who came first."
            }
            Ordering::Lottery => "A draw that anybody can check decides who is asked first.",
        }
    }

    /// What becomes of an offer without an answer.
    fn after_expiry(&self) -> &'static str {
        match self.sheet.after_expiry {
            After::Back => "If you do not answer in time, you go to the end of the line.",
            After::Keep => {
                "If you do not answer in time, you stay on the list, after everybody who was not asked yet."
            }
            After::Leave => "If you do not answer in time, you are off the list.",
        }
    }

    fn overtaking(&self) -> &'static str {
        match self.sheet.fit {
            Fit::Strict => {
                "Nobody is overtaken: who needs several places waits until they are free together."
            }
            Fit::Fill => "If fewer places come free than somebody needs, they go to the next who fits.",
        }
    }
}
