//! What somebody says is not right about their request: reading and answering it, and writing it down for whoever telephones.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::Staff;
use super::frame::{EventFrame, Tab, isolated};
use crate::db::persons::Person;
use crate::domain::complaint::{About, Complaint, Words};
use crate::domain::ids::{EntryId, EventId};
use crate::domain::role::Act;
use crate::domain::when::When;
use crate::waitlist::complaints::{AnswerOutcome, ComplainOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/entries/{entry}/complaint", get(show).post(write))
}

/// As many are shown, the last first.
const SHOWN: i64 = 50;

/// An answer, or what somebody said on the telephone.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct ComplaintForm {
    /// To which complaint this is the answer; none where it is one.
    answers: String,
    about: String,
    words: String,
}

#[derive(Template)]
#[template(path = "staff/complaint.html")]
struct ComplaintPage {
    layout: Layout,
    frame: EventFrame,
    entry: EntryId,
    person: Person,
    complaints: Vec<Complaint>,
    may_answer: bool,
    form: ComplaintForm,
    errors: Errors,
}

impl ComplaintPage {
    /// The one that waits for an answer.
    fn waits(&self) -> Option<&Complaint> {
        self.complaints.first().filter(|last| last.answer.is_none())
    }

    fn when(&self, at: &chrono::DateTime<chrono::Utc>) -> When {
        self.frame.when(*at)
    }
}

/// An entry of the staff's organization, with whose it is.
async fn about(
    state: &WebState,
    staff: &Staff,
    event: EventId,
    entry: EntryId,
) -> Result<(EventFrame, Person), Error> {
    let event = staff.event(state, event).await?;
    let entry = state.db.find_entry(entry).await?;
    if entry.event != event.id {
        return Err(Error::NotFound);
    }
    let person = state.db.person(entry.person).await?;
    Ok((EventFrame::new(event, Tab::Queue, staff.now), person))
}

async fn page(
    state: &WebState,
    staff: &Staff,
    (frame, person): (EventFrame, Person),
    entry: EntryId,
    form: ComplaintForm,
    errors: Errors,
) -> Result<Response, Error> {
    let complaints = state.db.complaints_of(frame.event.id, entry, SHOWN).await?;
    let layout = staff.event_layout(&frame.event, "Complaints").await?;
    let may_answer = staff.may(Act::ActOnEntries);
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let page = ComplaintPage { layout, frame, entry, person, complaints, may_answer, form, errors };
    Ok((status, Page(page)).into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry)): Path<(EventId, EntryId)>,
) -> Result<Response, Error> {
    let found = about(&state, &staff, event, entry).await?;
    page(&state, &staff, found, entry, ComplaintForm::default(), Errors::default()).await
}

async fn write(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry)): Path<(EventId, EntryId)>,
    VerifiedForm(form): VerifiedForm<ComplaintForm>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let found = about(&state, &staff, event, entry).await?;
    let who = isolated(&found.1.name);
    let mut errors = Errors::default();
    let kind = About::parse(&form.about);
    let answers = form.answers.parse().ok();
    if answers.is_none() && kind.is_none() {
        errors.add("about", "Choose what it is about.");
    }
    let words = errors.check("words", Words::parse(&form.words));
    let Some(words) = words.filter(|_| errors.is_empty()) else {
        return page(&state, &staff, found, entry, form, errors).await;
    };
    let (waitlist, actor) = (state.waitlist(), staff.actor());
    let said = match (answers, kind) {
        (Some(number), _) => match waitlist.answer_complaint(event, entry, number, &words, actor).await? {
            AnswerOutcome::Answered => format!("Answered. {who} is told by mail."),
            AnswerOutcome::NothingToAnswer => {
                let sentence = "Somebody answered this before: read below what they said. Nothing was sent.";
                errors.add("", sentence);
                return page(&state, &staff, found, entry, form, errors).await;
            }
        },
        (None, None) => return Err(Error::BadRequest("This form is not complete.".into())),
        (None, Some(kind)) => match waitlist.complain(event, entry, kind, &words, actor).await? {
            ComplainOutcome::WrittenDown(_) => "Written down. It waits for an answer.".to_owned(),
            ComplainOutcome::Unanswered(_) => {
                errors.add(
                    "",
                    "Something waits for an answer already: answer that first. Nothing was written.",
                );
                return page(&state, &staff, found, entry, form, errors).await;
            }
        },
    };
    staff.flash(Tone::Done, said).await?;
    Ok(Redirect::to(&found.0.path(format!("/entries/{entry}"))).into_response())
}
