//! What staff do to one offer: take it back, give it again, move its deadline, write down an answer.

use axum::Router;
use axum::extract::State;
use axum::response::Response;
use axum::routing::get;
use chrono::Duration;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, Tone};
use super::Staff;
use super::act::{ActForm, ActPage, ActQuery, Choice, DeadlineField, done};
use super::frame::{EventFrame, Tab, are, isolated, places};
use super::next::what_comes_next;
use super::words::{bad_deadline, offer_is, somebody_was_first, they_have_enough, too_few};
use crate::db::persons::Person;
use crate::db::places::Place;
use crate::domain::entry::EntryState;
use crate::domain::ids::{EventId, OfferId};
use crate::domain::offer::{Offer, OfferAct as Step, OfferKind};
use crate::domain::policy::Policy;
use crate::domain::reason::StaffReason;
use crate::domain::role::Act;
use crate::domain::when;
use crate::waitlist::answer::{AcceptOutcome, DeclineOutcome};
use crate::waitlist::staff_offers::{AfterRevoke, ExtendOutcome, ReactivateOutcome, RevokeOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/offers/{offer}/{act}", get(show).post(act))
}

/// The acts, by the last part of their address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OfferAct {
    /// Take it back.
    Revoke,
    /// Give it again.
    Reactivate,
    /// Move its deadline.
    Extend,
    /// The customer said yes.
    Accept,
    /// The customer said no.
    Decline,
}

impl OfferAct {
    fn parse(text: &str) -> Result<Self, Error> {
        match text {
            "revoke" => Ok(Self::Revoke),
            "reactivate" => Ok(Self::Reactivate),
            "extend" => Ok(Self::Extend),
            "accept" => Ok(Self::Accept),
            "decline" => Ok(Self::Decline),
            _ => Err(Error::NotFound),
        }
    }

    /// Whether its button warns.
    #[must_use]
    pub fn is_danger(self) -> bool {
        self == Self::Revoke
    }

    /// The last part of its address.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Revoke => "revoke",
            Self::Reactivate => "reactivate",
            Self::Extend => "extend",
            Self::Accept => "accept",
            Self::Decline => "decline",
        }
    }

    /// Its link.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::Revoke => "Take back",
            Self::Reactivate => "Give again",
            Self::Extend => "Extend",
            Self::Accept => "Accept for them",
            Self::Decline => "Decline for them",
        }
    }

    /// Whether it applies to this offer, as far as the page can tell.
    #[must_use]
    pub fn applies(self, offer: &Offer, now: chrono::DateTime<chrono::Utc>) -> bool {
        match self {
            Self::Revoke => offer.after(Step::Revoke, now).is_ok(),
            Self::Reactivate => offer.after(Step::Reactivate, now).is_ok(),
            Self::Extend => offer.is_claimable(now),
            Self::Accept => offer.after(Step::Accept, now).is_ok(),
            Self::Decline => offer.after(Step::Decline, now).is_ok(),
        }
    }
}

/// What may become of an entry whose offer is taken back; what costs nobody anything first.
fn afterwards() -> Choice {
    let options = [
        (AfterRevoke::SetAside, "Set aside: keeps its rank, passed over until staff decide"),
        (AfterRevoke::AtItsRank, "Back at its rank: may be next again at once"),
        (AfterRevoke::ToTheEnd, "To the end of the line"),
        (AfterRevoke::OffTheList, "Off the list"),
    ];
    Choice {
        legend: "What becomes of their entry?",
        options: options.into_iter().map(|(after, words)| (after.to_string(), words.to_owned())).collect(),
    }
}

/// An offer and what stands around it.
struct About {
    frame: EventFrame,
    offer: Offer,
    person: Person,
    labels: Vec<String>,
    policy: Policy,
}

impl About {
    async fn read(state: &WebState, staff: &Staff, event: EventId, offer: OfferId) -> Result<Self, Error> {
        let event = staff.event(state, event).await?;
        let offer = state.db.find_offer(offer).await?;
        if offer.event != event.id {
            return Err(Error::NotFound);
        }
        let person = state.db.person(offer.person).await?;
        let held = state.db.places_held_by(event.id, offer.id).await?;
        let labels = held.iter().filter_map(Place::told).collect();
        let policy = state.db.policy(event.id).await?;
        Ok(Self { frame: EventFrame::new(event, Tab::Offers, staff.now), offer, person, labels, policy })
    }

    fn path(&self) -> String {
        self.frame.path(format!("/offers/{}", self.offer.id))
    }

    fn name(&self) -> String {
        isolated(&self.person.name)
    }

    /// "2 places (B12, B13)".
    fn places(&self) -> String {
        let count = places(self.offer.party);
        if self.labels.is_empty() { count } else { format!("{count} ({})", self.labels.join(", ")) }
    }

    fn passed_on(&self) -> &'static str {
        if self.policy.window.is_some() {
            "What they would have had is offered to the next in line at once."
        } else {
            "What they would have had stays open: this list offers nothing by itself."
        }
    }

    /// What is to be done, and what will happen.
    fn effects(&self, act: OfferAct) -> (String, Vec<String>) {
        let (name, places) = (self.name(), self.places());
        let until = self.frame.said(self.offer.expires_at);
        let told = format!("{name} is told by mail.");
        match act {
            OfferAct::Revoke => (
                format!("Take back the offer to {name}"),
                vec![
                    format!("{name} loses {places}, which they could accept until {until}."),
                    self.passed_on().to_owned(),
                    told,
                ],
            ),
            OfferAct::Reactivate => (
                format!("Give {name} the offer again"),
                vec![
                    format!("{name} can accept {places} again, until the deadline you set."),
                    "Any open places are held for them; they may be others than before.".to_owned(),
                    format!("{name} is told by mail, with a new link. The old link stays dead."),
                ],
            ),
            OfferAct::Extend => (
                format!("Give {name} more time"),
                vec![
                    format!("{name} can accept {places} until the new deadline instead of {until}."),
                    "Whoever is next waits so much longer.".to_owned(),
                    told,
                ],
            ),
            OfferAct::Accept => (
                format!("Accept for {name}"),
                vec![
                    format!(
                        "{places} {} booked for {name}, as if they had accepted themselves.",
                        are(self.offer.party)
                    ),
                    format!("{name} is told by mail, with the reference of the booking."),
                    "The audit says that you took the answer.".to_owned(),
                ],
            ),
            OfferAct::Decline => (
                format!("Decline for {name}"),
                vec![
                    format!("{name} gives up {places}, as if they had declined themselves."),
                    self.passed_on().to_owned(),
                    told,
                ],
            ),
        }
    }

    async fn page(
        self,
        staff: &Staff,
        act: OfferAct,
        form: ActForm,
        errors: Errors,
    ) -> Result<Response, Error> {
        let (heading, effects) = self.effects(act);
        let new_deadline =
            || DeadlineField { label: "New deadline", hint: self.deadline_hint(), required: true };
        let (choice, deadline, button) = match act {
            OfferAct::Revoke => (Some(afterwards()), None, "Take the offer back"),
            OfferAct::Reactivate => (None, Some(new_deadline()), "Give it again"),
            OfferAct::Extend => (None, Some(new_deadline()), "Move the deadline"),
            OfferAct::Accept => (None, None, "Accept for them"),
            OfferAct::Decline => (None, None, "Decline for them"),
        };
        let page = ActPage {
            layout: staff.event_layout(&self.frame.event, act.label()).await?,
            action: format!("{}/{}", self.path(), act.word()),
            page: self.path(),
            button,
            danger: matches!(act, OfferAct::Revoke | OfferAct::Decline),
            heading,
            effects,
            choice,
            deadline,
            number: None,
            form,
            errors,
            frame: self.frame,
        };
        Ok(page.answer())
    }

    fn deadline_hint(&self) -> String {
        let start = self
            .frame
            .starts()
            .map_or_else(String::new, |start| format!(" At the latest at the start, {}.", start.short));
        format!("In {}.{start}", self.frame.event.zone)
    }

    /// The form as it is first shown: as long as the rule gives, from now or from the present deadline.
    fn begun(&self, staff: &Staff, act: OfferAct, query: ActQuery) -> ActForm {
        let from = match act {
            OfferAct::Extend => self.offer.expires_at,
            _ => staff.now,
        };
        let window = self.policy.window.unwrap_or(Duration::days(1));
        let deadline = Policy::deadline(window, from, self.frame.event.starts_at);
        ActForm {
            deadline: when::local_field(deadline, self.frame.event.zone),
            after: AfterRevoke::SetAside.as_str().to_owned(),
            ..ActForm::begun(query)
        }
    }

    /// Who did something to the offer before, and what.
    async fn first(&self, state: &WebState) -> Result<String, Error> {
        let offer = state.db.find_offer(self.offer.id).await?;
        let last = state.db.last_step_of(offer.event, offer.id.0).await?;
        Ok(somebody_was_first(&self.frame, last.as_ref(), offer_is(offer.kind, offer.state)))
    }
}

type OfferPath = Path<(EventId, OfferId, String)>;

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, offer, act)): OfferPath,
    Query(query): Query<ActQuery>,
) -> Result<Response, Error> {
    let act = OfferAct::parse(&act)?;
    staff.require(Act::ActOnOffers)?;
    let about = About::read(&state, &staff, event, offer).await?;
    if !act.applies(&about.offer, staff.now) {
        let said = about.first(&state).await?;
        return done(&staff, Tone::Note, said, &query.back, &about.path()).await;
    }
    let form = about.begun(&staff, act, query);
    about.page(&staff, act, form, Errors::default()).await
}

async fn act(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, offer, act)): OfferPath,
    VerifiedForm(form): VerifiedForm<ActForm>,
) -> Result<Response, Error> {
    let act = OfferAct::parse(&act)?;
    staff.require(Act::ActOnOffers)?;
    let about = About::read(&state, &staff, event, offer).await?;
    let mut errors = Errors::default();
    let reason = form.reason(&mut errors);
    match (act, reason) {
        (OfferAct::Revoke, reason) => revoke(&state, &staff, about, form, errors, reason).await,
        (OfferAct::Reactivate, reason) => reactivate(&state, &staff, about, form, errors, reason).await,
        (OfferAct::Extend, reason) => extend(&state, &staff, about, form, errors, reason).await,
        (OfferAct::Accept, Some(reason)) => accept(&state, &staff, about, form, &reason).await,
        (OfferAct::Decline, Some(reason)) => decline(&state, &staff, about, form, &reason).await,
        (OfferAct::Accept | OfferAct::Decline, None) => about.page(&staff, act, form, errors).await,
    }
}

async fn revoke(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    mut errors: Errors,
    reason: Option<StaffReason>,
) -> Result<Response, Error> {
    let after = AfterRevoke::parse(&form.after);
    if after.is_none() {
        errors.add("after", "Choose what becomes of the entry.");
    }
    let (Some(reason), Some(after)) = (reason, after) else {
        return about.page(staff, OfferAct::Revoke, form, errors).await;
    };
    let (event, offer) = (about.offer.event, about.offer.id);
    let outcome = state.waitlist().revoke(event, offer, after, staff.actor(), &reason).await?;
    let (tone, said) = match outcome {
        RevokeOutcome::Revoked => {
            let entry = match after {
                AfterRevoke::SetAside => "their entry is set aside until staff decide",
                AfterRevoke::AtItsRank => "their entry is back at its rank",
                AfterRevoke::ToTheEnd => "their entry is at the end of the line",
                AfterRevoke::OffTheList => "their entry is off the list",
            };
            let next = what_comes_next(state, staff, &about.frame.event).await?;
            (Tone::Done, format!("Taken back from {}: {entry}. {next}", about.name()))
        }
        RevokeOutcome::AlreadyRevoked { .. } | RevokeOutcome::NotPending(_) => {
            (Tone::Warn, about.first(state).await?)
        }
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

async fn reactivate(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    mut errors: Errors,
    reason: Option<StaffReason>,
) -> Result<Response, Error> {
    let deadline = form.deadline(&about.frame, &mut errors);
    if deadline.is_none() && !errors.has("deadline") {
        errors.add("deadline", bad_deadline(&about.frame, None, staff.now));
    }
    let (Some(reason), Some(deadline)) = (reason, deadline) else {
        return about.page(staff, OfferAct::Reactivate, form, errors).await;
    };
    let (event, offer) = (about.offer.event, about.offer.id);
    let refused = match state.waitlist().reactivate(event, offer, deadline, staff.actor(), &reason).await? {
        ReactivateOutcome::Reactivated { expires_at } => {
            let said = format!(
                "Given again: {} has {} until {}.",
                about.name(),
                places(about.offer.party),
                about.frame.said(expires_at)
            );
            return done(staff, Tone::Done, said, &form.back, &about.path()).await;
        }
        ReactivateOutcome::NotOver(_) => {
            let said = about.first(state).await?;
            return done(staff, Tone::Warn, said, &form.back, &about.path()).await;
        }
        ReactivateOutcome::BadDeadline => {
            errors.add("deadline", bad_deadline(&about.frame, Some(deadline), staff.now));
            return about.page(staff, OfferAct::Reactivate, form, errors).await;
        }
        ReactivateOutcome::NotAHold => {
            "Only an offer that kept its places can be given again. Make a new offer instead.".to_owned()
        }
        ReactivateOutcome::TooFew(open) => too_few(open, about.offer.party),
        ReactivateOutcome::BatchFull => format!(
            "As many offers are pending as the rule allows ({}). Wait for an answer, or change the rule.",
            about.policy.batch_size
        ),
        ReactivateOutcome::NotOnSale => {
            "The event is not published, or it has started: nothing is offered any more.".to_owned()
        }
        ReactivateOutcome::ListClosed => "The list is closed. Open or freeze it first.".to_owned(),
        ReactivateOutcome::Enough(enough) => they_have_enough(enough),
        ReactivateOutcome::HasAnother => format!(
            "{} is on this list with another entry by now, or has a booking already. Act on that one.",
            about.name()
        ),
    };
    errors.add("", refused);
    about.page(staff, OfferAct::Reactivate, form, errors).await
}

async fn extend(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    mut errors: Errors,
    reason: Option<StaffReason>,
) -> Result<Response, Error> {
    let deadline = form.deadline(&about.frame, &mut errors);
    if deadline.is_none() && !errors.has("deadline") {
        errors.add("deadline", "Say until when the offer can be accepted.");
    }
    let (Some(reason), Some(deadline)) = (reason, deadline) else {
        return about.page(staff, OfferAct::Extend, form, errors).await;
    };
    let (event, offer) = (about.offer.event, about.offer.id);
    match state.waitlist().extend(event, offer, deadline, staff.actor(), &reason).await? {
        ExtendOutcome::Extended { expires_at } => {
            let said = format!("{} has time until {}.", about.name(), about.frame.said(expires_at));
            done(staff, Tone::Done, said, &form.back, &about.path()).await
        }
        ExtendOutcome::NotPending(_) => {
            let said = about.refused(state, staff).await?;
            done(staff, Tone::Warn, said, &form.back, &about.path()).await
        }
        ExtendOutcome::BadDeadline => {
            errors.add("deadline", bad_deadline(&about.frame, Some(deadline), staff.now));
            about.page(staff, OfferAct::Extend, form, errors).await
        }
    }
}

async fn accept(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
) -> Result<Response, Error> {
    let (event, offer) = (about.offer.event, about.offer.id);
    let (tone, said) = match state.waitlist().accept_for(event, offer, staff.actor(), reason).await? {
        AcceptOutcome::Accepted { reference, .. } => (
            Tone::Done,
            format!("Booked for {}: {}, reference {reference}.", about.name(), places(about.offer.party)),
        ),
        AcceptOutcome::ServiceUnavailable => (
            Tone::Warn,
            "The booking service cannot be reached, so nothing was booked. The offer is still theirs: try again in a minute."
                .to_owned(),
        ),
        AcceptOutcome::AlreadyAccepted { .. }
        | AcceptOutcome::Expired
        | AcceptOutcome::Declined
        | AcceptOutcome::Revoked
        | AcceptOutcome::BeingConfirmed
        | AcceptOutcome::TakenByFaster { .. }
        | AcceptOutcome::Conflicted => (Tone::Warn, about.refused(state, staff).await?),
        AcceptOutcome::NotYours | AcceptOutcome::Unknown => return Err(Error::NotFound),
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

async fn decline(
    state: &WebState,
    staff: &Staff,
    about: About,
    form: ActForm,
    reason: &StaffReason,
) -> Result<Response, Error> {
    let (event, offer) = (about.offer.event, about.offer.id);
    let (tone, said) = match state.waitlist().decline_for(event, offer, staff.actor(), reason).await? {
        DeclineOutcome::Declined { entry } => {
            let entry = if entry == EntryState::Waiting { "stays in the line" } else { "is off the list" };
            let next = what_comes_next(state, staff, &about.frame.event).await?;
            (Tone::Done, format!("Declined for {}, who {entry}. {next}", about.name()))
        }
        DeclineOutcome::AlreadyDeclined
        | DeclineOutcome::Accepted
        | DeclineOutcome::Expired
        | DeclineOutcome::Revoked
        | DeclineOutcome::BeingConfirmed => (Tone::Warn, about.refused(state, staff).await?),
        DeclineOutcome::NotYours | DeclineOutcome::Unknown => return Err(Error::NotFound),
    };
    done(staff, tone, said, &form.back, &about.path()).await
}

impl About {
    /// Why an answer came too late: the deadline, swept or not, or somebody else.
    async fn refused(&self, state: &WebState, staff: &Staff) -> Result<String, Error> {
        let offer = state.db.find_offer(self.offer.id).await?;
        if offer.kind == OfferKind::Hold && offer.ended_at.is_none() && !offer.is_claimable(staff.now) {
            return Ok(format!(
                "The deadline passed {}: it is too late. The offer can be given again if places are open.",
                self.frame.said(offer.expires_at)
            ));
        }
        self.first(state).await
    }
}
