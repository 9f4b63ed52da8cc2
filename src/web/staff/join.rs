//! Putting somebody on a list by hand: whoever telephones or stands at the desk. Staff answer for the address, so no code
//! is asked for.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::api::entries::not_joined;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::super::wants::{Field, read_wants, wants_fields};
use super::Staff;
use super::frame::{EventFrame, Tab, isolated, path};
use crate::domain::attribute::Typed;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::event::Event;
use crate::domain::ids::EventId;
use crate::domain::policy::PARTY_MAX;
use crate::domain::role::Act;
use crate::waitlist::join::{Join, JoinAs, JoinOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/events/{event}/queue/new", get(begin).post(join))
}

/// What was typed.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct JoinForm {
    name: String,
    email: String,
    party: String,
    #[serde(flatten)]
    wants: Typed,
}

#[derive(Template)]
#[template(path = "staff/join.html")]
struct JoinPage {
    layout: Layout,
    frame: EventFrame,
    form: JoinForm,
    errors: Errors,
    wants: Vec<Field>,
}

async fn page(
    staff: &Staff,
    event: Event,
    form: JoinForm,
    errors: Errors,
    status: StatusCode,
) -> Result<Response, Error> {
    let frame = EventFrame::new(event, Tab::Queue, staff.now);
    let layout = staff.event_layout(&frame.event, "Put somebody on the list").await?;
    let wants = wants_fields(&frame.event.attributes, &form.wants);
    Ok((status, Page(JoinPage { layout, frame, form, errors, wants })).into_response())
}

async fn begin(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let event = staff.event(&state, event).await?;
    let form = JoinForm { party: "1".to_owned(), ..JoinForm::default() };
    page(&staff, event, form, Errors::default(), StatusCode::OK).await
}

async fn join(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<JoinForm>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let name = errors.check("name", PersonName::parse(&form.name));
    let email = errors.check("email", EmailAddress::parse(&form.email));
    let party = form.party.trim().parse().ok().filter(|party| (1..=PARTY_MAX).contains(party));
    let party: Option<i32> = errors.check("party", party.ok_or("Enter a number between 1 and 100."));
    let wants = read_wants(&event.attributes, &form.wants, &mut errors);
    let (Some(name), Some(email), Some(party), Some(wants)) = (name, email, party, wants) else {
        return page(&staff, event, form, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let who = isolated(name.as_str());
    let command = Join { name, email, party, wants, as_whom: JoinAs::Vouched(staff.actor()) };
    let (tone, said, entry) = match state.together.join(event.id, command).await? {
        JoinOutcome::Joined(entry) => (Tone::Done, format!("{who} is on the list, and was told so."), entry),
        // The same answer to the same form sent twice.
        JoinOutcome::Already(entry) => {
            (Tone::Note, format!("{who} is on the list: this is the entry."), entry)
        }
        outcome => {
            errors.add("", not_joined(&outcome).detail().to_owned());
            return page(&staff, event, form, errors, StatusCode::CONFLICT).await;
        }
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, format!("/entries/{}", entry.id))).into_response())
}
