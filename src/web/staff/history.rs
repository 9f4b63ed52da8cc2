//! What happened, as a timeline; and the messages that went with it.

use super::super::WebState;
use super::super::error::Error;
use super::Staff;
use super::frame::EventFrame;
use super::words;
use crate::db::mailbox::MessageFilter;
use crate::db::pages_history::{Doer, Step};
use crate::domain::audit::Act;
use crate::domain::ids::{MessageId, OfferId, PersonId};
use crate::domain::reason::Reason;
use crate::domain::when::When;

/// One step of a timeline.
#[derive(Clone, Debug)]
pub struct Happened {
    /// What.
    pub title: String,
    /// Who, where it was somebody.
    pub by: Option<String>,
    /// Why.
    pub reason: Option<&'static str>,
    /// In their own words.
    pub note: Option<String>,
    /// When.
    pub when: When,
    /// The offer concerned, for a link.
    pub offer: Option<OfferId>,
    /// Its number in the audit.
    pub seq: i64,
}

/// The steps of an entry or an offer, the newest first. An act writes a record for the offer and one for its entry:
/// they are one step.
#[must_use]
pub fn timeline(frame: &EventFrame, steps: Vec<Step>) -> Vec<Happened> {
    let of_offers: Vec<(Option<Act>, chrono::DateTime<chrono::Utc>)> =
        steps.iter().filter(|step| step.subject == "offer").map(|step| (step.act, step.at)).collect();
    steps
        .into_iter()
        .filter(|step| step.subject != "entry" || !of_offers.contains(&(step.act, step.at)))
        .map(|step| Happened {
            title: step.act.map_or_else(|| step.word.clone(), |act| words::title(act).to_owned()),
            by: match &step.by {
                Doer::Staff(name) | Doer::Program(name) => Some(name.clone()),
                Doer::Customer => Some("the customer".to_owned()),
                Doer::Operator => Some("the command line".to_owned()),
                Doer::System => None,
            },
            reason: step.reason.filter(|reason| says_more(step.act, *reason)).map(Reason::label),
            note: step.note,
            when: frame.when(step.at),
            offer: (step.subject == "offer").then_some(OfferId(step.subject_id)),
            seq: step.seq,
        })
        .collect()
}

/// Whether the reason says more than the act does already.
fn says_more(act: Option<Act>, reason: Reason) -> bool {
    !matches!(
        (act, reason),
        (Some(Act::Joined), Reason::Joined)
            | (Some(Act::Confirmed), Reason::Confirmed)
            | (Some(Act::Accepted), Reason::Accepted)
            | (Some(Act::Declined), Reason::Declined)
            | (Some(Act::Left), Reason::Left)
            | (Some(Act::Paused), Reason::Paused)
            | (Some(Act::Resumed), Reason::Resumed)
    )
}

/// A message and where it is.
#[derive(Clone, Debug)]
pub struct MessageState {
    /// Which.
    pub id: MessageId,
    /// Why it was written.
    pub occasion: String,
    /// Its state's word.
    pub state: &'static str,
    /// When it was written.
    pub made: When,
    /// When it was told.
    pub told: Option<When>,
    /// How often it was tried.
    pub attempts: i32,
    /// Why it was given up or not sent.
    pub note: Option<String>,
}

/// The messages of this event to a person, the newest first.
///
/// # Errors
/// What the database says.
pub async fn messages_to(
    state: &WebState,
    staff: &Staff,
    frame: &EventFrame,
    person: PersonId,
) -> Result<Vec<MessageState>, Error> {
    let filter =
        MessageFilter { event: Some(frame.event.id), person: Some(person), ..MessageFilter::default() };
    let lines = state.db.messages(staff.member.organization, &filter, 30).await?;
    Ok(lines
        .into_iter()
        .map(|line| MessageState {
            id: line.id,
            occasion: line.occasion.map_or_else(
                || "message".to_owned(),
                |occasion| super::super::page::with_spaces(occasion.as_str()),
            ),
            state: line.state.as_str(),
            made: frame.when(line.made_at),
            told: line.told_at.map(|at| frame.when(at)),
            attempts: line.attempts,
            note: line.note,
        })
        .collect())
}
