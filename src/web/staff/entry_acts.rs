//! What staff do to one entry: offer by hand, take off, pause, resume, put back in the line, move in it.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Tone};
use super::Staff;
use super::act::{ActForm, ActPage, ActQuery, Choice, DeadlineField, done};
use super::frame::{EventFrame, Tab, are, isolated, places};
use super::next::what_comes_next;
use super::words::{bad_deadline, entry_is, somebody_was_first, too_few};
use crate::db::persons::Person;
use crate::domain::entry::{Entry, EntryState, PausedBy};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::policy::Policy;
use crate::domain::policy_words::length;
use crate::domain::reason::StaffReason;
use crate::domain::role::Act;
use crate::waitlist::leave::{LeaveOutcome, PauseOutcome};
use crate::waitlist::staff_offers::OfferOutcome;

mod order;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/entries/{entry}/{act}", get(show).post(act))
}

/// The acts, by the last part of their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EntryAct {
    /// Offer open places, whoever is ahead.
    Offer,
    /// Take it off the list.
    Remove,
    /// Pass it over from now on.
    Pause,
    /// Serve it again.
    Resume,
    /// Put it back in the line: it was set aside, or no contact works.
    BringBack,
    /// Put it into a group that goes first, or out of one.
    Group,
    /// Put it at another number of the line.
    Move,
}

impl EntryAct {
    /// In the order in which they are shown.
    pub const ALL: [Self; 7] =
        [Self::Offer, Self::Pause, Self::Resume, Self::BringBack, Self::Group, Self::Move, Self::Remove];

    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "offer" => Ok(Self::Offer),
            "remove" => Ok(Self::Remove),
            "pause" => Ok(Self::Pause),
            "resume" => Ok(Self::Resume),
            "bring-back" => Ok(Self::BringBack),
            "group" => Ok(Self::Group),
            "move" => Ok(Self::Move),
            _ => Err(Error::NotFound),
        }
    }

    /// Whether its button warns.
    #[must_use]
    pub fn is_danger(self) -> bool {
        self == Self::Remove
    }

    /// The last part of its address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Offer => "offer",
            Self::Remove => "remove",
            Self::Pause => "pause",
            Self::Resume => "resume",
            Self::BringBack => "bring-back",
            Self::Group => "group",
            Self::Move => "move",
        }
    }

    /// Its link.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Offer => "Offer",
            Self::Remove => "Remove",
            Self::Pause => "Pause",
            Self::Resume => "Resume",
            Self::BringBack => "Put back",
            Self::Group => "Change group",
            Self::Move => "Move in the line",
        }
    }

    /// Whether an entry in this state, hindered by this, can be so acted upon.
    #[must_use]
    pub fn applies(self, state: EntryState, paused: bool, aside: bool, unreachable: bool) -> bool {
        match self {
            Self::Remove | Self::Group => state.is_live(),
            Self::Offer | Self::Move => state == EntryState::Waiting,
            Self::Pause => state == EntryState::Waiting && !paused,
            Self::Resume => state == EntryState::Waiting && paused,
            Self::BringBack => state == EntryState::Waiting && !paused && (aside || unreachable),
        }
    }

    fn applies_to(self, entry: &Entry) -> bool {
        let unreachable = entry.contact_problem && !entry.offer_anyway;
        self.applies(entry.state, entry.paused.is_some(), entry.set_aside, unreachable)
    }

    /// Under which permission it falls.
    #[must_use]
    pub fn permission(self) -> Act {
        match self {
            Self::Offer => Act::ActOnOffers,
            Self::Remove | Self::Pause | Self::Resume | Self::BringBack | Self::Group | Self::Move => {
                Act::ActOnEntries
            }
        }
    }
}

/// An entry and what stands around it.
struct About {
    frame: EventFrame,
    entry: Entry,
    person: Person,
    policy: Policy,
}

impl About {
    async fn read(state: &WebState, staff: &Staff, event: EventId, entry: EntryId) -> Result<Self, Error> {
        let event = staff.event(state, event).await?;
        let entry = state.db.find_entry(entry).await?;
        if entry.event != event.id {
            return Err(Error::NotFound);
        }
        let person = state.db.person(entry.person).await?;
        let policy = state.db.policy(event.id).await?;
        Ok(Self { frame: EventFrame::new(event, Tab::Queue, staff.now), entry, person, policy })
    }

    fn path(&self) -> String {
        self.frame.path(format!("/entries/{}", self.entry.id))
    }

    fn name(&self) -> String {
        isolated(&self.person.name)
    }

    /// What is to be done, what will happen, and the button.
    fn effects(&self, act: EntryAct) -> (String, Vec<String>, &'static str) {
        let (name, party) = (self.name(), places(self.entry.party));
        let back = format!("{name} is in the line again, at the old rank, and may be next at once.");
        match act {
            EntryAct::Offer => (
                format!("Offer {party} to {name}"),
                vec![
                    format!(
                        "{party} {} held for {name} until the deadline, whoever is ahead in the line.",
                        are(self.entry.party)
                    ),
                    format!("{name} is told by mail."),
                    "The audit says that staff made this offer, and why.".to_owned(),
                ],
                "Make the offer",
            ),
            EntryAct::Remove => {
                let lost = "is off the list and loses the rank. Joining again means the end of the line.";
                let mut effects = vec![format!("{name} {lost}")];
                if self.entry.state == EntryState::Offered {
                    effects.push("Their offer is taken back, and they are told by mail.".to_owned());
                }
                (format!("Take {name} off the list"), effects, "Take off the list")
            }
            EntryAct::Pause => (
                format!("Pause {name}"),
                vec![format!("{name} keeps the rank and is passed over while the entry is paused.")],
                "Pause",
            ),
            EntryAct::Resume => (format!("Resume {name}"), vec![back], "Resume"),
            EntryAct::BringBack => {
                let mut effects = vec![back];
                if self.entry.contact_problem {
                    effects.push(
                        "No contact of theirs works: an offer will reach them only if you tell them yourself."
                            .to_owned(),
                    );
                }
                (format!("Put {name} back in the line"), effects, "Put back in the line")
            }
            EntryAct::Group => (
                format!("Change the group of {name}"),
                vec![
                    format!("{name} is in the group you choose, behind those of it who joined before."),
                    "The groups’ order decides who is offered the next place.".to_owned(),
                ],
                "Change the group",
            ),
            EntryAct::Move => (
                format!("Move {name} in the line"),
                vec![
                    format!(
                        "{name} gets the number you give: whoever has it now, and everybody behind, is one further back."
                    ),
                    "Nobody is written to. The audit says who did it and why, and the page of their own that it was done."
                        .to_owned(),
                ],
                "Move",
            ),
        }
    }

    async fn page(
        self,
        staff: &Staff,
        act: EntryAct,
        form: ActForm,
        errors: Errors,
    ) -> Result<Response, Error> {
        let (heading, effects, button) = self.effects(act);
        let deadline = match act {
            EntryAct::Offer => Some(self.deadline_field()),
            EntryAct::Pause => Some(DeadlineField {
                label: "Until",
                hint: format!(
                    "In {}. Leave it empty to pause until somebody resumes it.",
                    self.frame.event.zone
                ),
                required: false,
            }),
            EntryAct::Remove | EntryAct::Resume | EntryAct::BringBack | EntryAct::Group | EntryAct::Move => {
                None
            }
        };
        let number = (act == EntryAct::Move).then(|| "Number 1 is offered the next place.".to_owned());
        let choice = (act == EntryAct::Group).then(|| self.groups());
        let page = ActPage {
            layout: staff.event_layout(&self.frame.event, act.label()).await?,
            action: format!("{}/{}", self.path(), act.word()),
            page: self.path(),
            button,
            danger: act == EntryAct::Remove,
            heading,
            effects,
            choice,
            deadline,
            number,
            form,
            errors,
            frame: self.frame,
        };
        Ok(page.answer())
    }

    fn groups(&self) -> Choice {
        let named = |(number, text): (i16, String)| (number.to_string(), text);
        let bands =
            self.policy.bands.iter().map(|band| (band.number, format!("{}: {}", band.name, band.reason)));
        let rest = (0, "Everybody else, in order of arrival".to_owned());
        Choice { legend: "Group", options: bands.chain([rest]).map(named).collect() }
    }

    fn deadline_field(&self) -> DeadlineField {
        let zone = self.frame.event.zone;
        let start = self
            .frame
            .starts()
            .map_or_else(String::new, |start| format!(" At the latest at the start, {}.", start.short));
        match self.policy.window {
            Some(window) => DeadlineField {
                label: "Deadline",
                hint: format!("In {zone}. Leave it empty for the rule’s {}.{start}", length(window)),
                required: false,
            },
            None => DeadlineField {
                label: "Deadline",
                hint: format!(
                    "In {zone}. This list has no time to answer of its own, so the offer needs one.{start}"
                ),
                required: true,
            },
        }
    }

    /// Who did something to the entry before, and what.
    async fn first(&self, state: &WebState) -> Result<String, Error> {
        let entry = state.db.find_entry(self.entry.id).await?;
        let last = state.db.last_step_of(entry.event, entry.id.0).await?;
        Ok(somebody_was_first(&self.frame, last.as_ref(), entry_is(entry.state)))
    }
}

type EntryPath = Path<(EventId, EntryId, String)>;

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry, act)): EntryPath,
    Query(query): Query<ActQuery>,
) -> Result<Response, Error> {
    let act = EntryAct::parse(&act)?;
    staff.require(act.permission())?;
    let about = About::read(&state, &staff, event, entry).await?;
    if !act.applies_to(&about.entry) {
        let said = about.first(&state).await?;
        return done(&staff, Tone::Note, said, &query.back, &about.path()).await;
    }
    about.page(&staff, act, ActForm::begun(query), Errors::default()).await
}

async fn act(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry, act)): EntryPath,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    let act = EntryAct::parse(&act)?;
    staff.require(act.permission())?;
    let about = About::read(&state, &staff, event, entry).await?;
    let mut errors = Errors::default();
    let reason = form.reason(&mut errors);
    let deadline = match act {
        EntryAct::Offer | EntryAct::Pause => form.deadline(&about.frame, &mut errors),
        EntryAct::Remove | EntryAct::Resume | EntryAct::BringBack | EntryAct::Group | EntryAct::Move => None,
    };
    let Some(reason) = reason.filter(|_| errors.is_empty()) else {
        return about.page(&staff, act, form, errors).await;
    };
    match act {
        EntryAct::Group => order::change_group(&state, &staff, about, form, &reason).await,
        EntryAct::Move => order::move_in_line(&state, &staff, about, form, &reason).await,
        EntryAct::Offer => offer(&state, &staff, about, form, &reason, deadline).await,
        EntryAct::Remove => remove(&state, &staff, about, form, &reason).await,
        EntryAct::Pause => {
            let by = PausedBy::Staff;
            let outcome = state
                .waitlist()
                .pause(about.frame.event.id, about.entry.id, by, deadline, staff.actor(), &reason)
                .await?;
            if outcome == PauseOutcome::BadUntil {
                errors.add("deadline", bad_deadline(&about.frame, deadline, staff.now));
                return about.page(&staff, act, form, errors).await;
            }
            let until = deadline.map_or_else(
                || "until somebody resumes it".to_owned(),
                |until| format!("until {}", about.frame.said(until)),
            );
            let said = format!("Paused: {} is passed over {until}.", about.name());
            changed(&state, &staff, about, form, outcome, said).await
        }
        EntryAct::Resume => {
            let outcome =
                state.waitlist().resume(about.frame.event.id, about.entry.id, staff.actor(), &reason).await?;
            let said = format!("Resumed: {} is in the line again at the old rank.", about.name());
            changed(&state, &staff, about, form, outcome, said).await
        }
        EntryAct::BringBack => {
            let outcome = state
                .waitlist()
                .bring_back(about.frame.event.id, about.entry.id, staff.actor(), &reason)
                .await?;
            let said = format!("{} is in the line again at the old rank.", about.name());
            changed(&state, &staff, about, form, outcome, said).await
        }
    }
}

async fn changed(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    outcome: PauseOutcome,
    said: String,
) -> Result<Response, Error> {
    let (tone, said) = match outcome {
        PauseOutcome::Done => (Tone::Done, said),
        PauseOutcome::Already
        | PauseOutcome::PausedByStaff
        | PauseOutcome::BadUntil
        | PauseOutcome::NotWaiting(_) => (Tone::Warn, about.first(state).await?),
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

async fn remove(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
) -> Result<Response, Error> {
    let outcome =
        state.waitlist().remove(about.frame.event.id, about.entry.id, staff.actor(), reason).await?;
    let (tone, said) = match outcome {
        LeaveOutcome::Left { offer_declined: false } => {
            (Tone::Done, format!("{} is off the list.", about.name()))
        }
        LeaveOutcome::Left { offer_declined: true } => {
            let next = what_comes_next(state, staff, &about.frame.event).await?;
            (Tone::Done, format!("{} is off the list, and the offer was taken back. {next}", about.name()))
        }
        LeaveOutcome::Already(_) => (Tone::Warn, about.first(state).await?),
        LeaveOutcome::BeingConfirmed => (
            Tone::Warn,
            "They have accepted, and the booking service is just confirming it. Wait for its answer; nothing was done."
                .to_owned(),
        ),
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

async fn offer(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
    deadline: Option<chrono::DateTime<chrono::Utc>>,
) -> Result<Response, Error> {
    let mut errors = Errors::default();
    let event = about.frame.event.id;
    let outcome = state.waitlist().offer_to(event, about.entry.id, deadline, staff.actor(), reason).await?;
    let refused = match outcome {
        OfferOutcome::Offered { expires_at, .. } => {
            let said = format!(
                "Offered: {} has {} until {}.",
                about.name(),
                places(about.entry.party),
                about.frame.said(expires_at)
            );
            return done(staff, Tone::Done, said, &form.back, &about.path()).await;
        }
        OfferOutcome::AlreadyOffered(_) | OfferOutcome::NotWaiting(_) => {
            let said = about.first(state).await?;
            return done(staff, Tone::Warn, said, &form.back, &about.path()).await;
        }
        OfferOutcome::BadDeadline => {
            errors.add("deadline", bad_deadline(&about.frame, deadline, staff.now));
            return about.page(staff, EntryAct::Offer, form, errors).await;
        }
        OfferOutcome::TooFew(open) => too_few(open, about.entry.party),
        OfferOutcome::BatchFull => format!(
            "As many offers are pending as the rule allows ({}). Wait for an answer, or change the rule.",
            about.policy.batch_size
        ),
        OfferOutcome::NotOnSale => {
            "The event is not published, or it has started: nothing is offered.".to_owned()
        }
        OfferOutcome::ListClosed => "The list is closed. Open or freeze it first.".to_owned(),
    };
    errors.add("", refused);
    about.page(staff, EntryAct::Offer, form, errors).await
}
