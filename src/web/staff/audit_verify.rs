//! Verifying a chain where it is kept, and taking its head along, or having it mailed, as an anchor. Looking changes
//! nothing; a chain too long for a page is left to `fairlist verify`.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};

use super::super::WebState;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Layout, Page, Section, Tone};
use super::Staff;
use super::frame::{EventFrame, Tab, path};
use crate::db::audit_chains::{AnchorMailed, ChainCheck};
use crate::domain::audit::ChainOf;
use crate::domain::audit::anchor::{Anchor, ORGANIZATION};
use crate::domain::ids::EventId;
use crate::domain::role::Act;
use crate::domain::standing::grouped;

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/audit/verify", get(verify))
        .route("/events/{event}/audit/anchor.json", get(anchor))
        .route("/events/{event}/audit/anchor", post(mail))
        .route("/audit", get(verify_organization))
        .route("/audit/anchor.json", get(anchor_of_organization))
        .route("/audit/anchor", post(mail_of_organization))
}

/// What verifying came to, and what can be done with it: the field `verified` of both pages.
#[derive(Debug)]
struct Verified {
    check: ChainCheck,
    /// The address below which the files are.
    base: String,
    /// What the files' names begin with.
    name: String,
    /// For owners, where the chain is sound.
    may_anchor: bool,
}

impl Verified {
    async fn new(
        state: &WebState,
        staff: &Staff,
        of: ChainOf,
        base: String,
        name: String,
    ) -> Result<Self, Error> {
        let check = state.db.verify_chain(of).await?;
        let sound = check.fault().is_none();
        Ok(Self { check, base, name, may_anchor: sound && staff.may(Act::TakeAnchor) })
    }

    /// Where the anchor is asked for by mail.
    fn mail(&self) -> String {
        format!("{}/anchor", self.base)
    }

    /// What to say first, when nothing is wrong.
    fn sound(&self) -> Option<String> {
        match &self.check {
            ChainCheck::Sound(chain) if chain.seq == 1 => {
                Some("The only record is sound: it has the hash that its content gives.".to_owned())
            }
            ChainCheck::Sound(chain) => Some(format!(
                "All {} records are sound: each has the hash that its content and the record before it give, and \
                 every note is as it was written.",
                grouped(chain.seq)
            )),
            ChainCheck::Unfinished(records) => Some(format!(
                "The first {} records are sound. For the others this page has no time: take the audit along, and \
                 verify the file.",
                grouped(*records)
            )),
            ChainCheck::Fault(_) | ChainCheck::Length { .. } | ChainCheck::Head(_) => None,
        }
    }

    /// What is wrong.
    fn fault(&self) -> Option<String> {
        self.check.fault()
    }

    /// The first record that is not sound.
    fn at(&self) -> Option<i64> {
        self.check.at()
    }

    /// The head: its number and its hash.
    fn head(&self) -> Option<(i64, String)> {
        match &self.check {
            ChainCheck::Sound(chain) => Some((chain.seq, hex::encode(chain.head))),
            _ => None,
        }
    }
}

#[derive(Template)]
#[template(path = "staff/audit_verify.html")]
struct VerifyPage {
    layout: Layout,
    frame: EventFrame,
    verified: Verified,
}

async fn verify(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Page<VerifyPage>, Error> {
    staff.require(Act::ExportAudit)?;
    let event = staff.event(&state, event).await?;
    let layout = staff.event_layout(&event, "Verify the audit").await?;
    let frame = EventFrame::new(event, Tab::Audit, staff.now);
    let (base, name) = (frame.path("/audit"), frame.event.slug.clone());
    let verified = Verified::new(&state, &staff, frame.event.id.into(), base, name).await?;
    Ok(Page(VerifyPage { layout, frame, verified }))
}

#[derive(Template)]
#[template(path = "staff/organization_audit.html")]
struct OrganizationPage {
    layout: Layout,
    verified: Verified,
}

async fn verify_organization(
    State(state): State<WebState>,
    staff: Staff,
) -> Result<Page<OrganizationPage>, Error> {
    staff.require(Act::SeeOrganizationAudit)?;
    let layout = staff.layout("The organization’s audit", Section::Events).await?;
    let (base, name) = ("/staff/audit".to_owned(), ORGANIZATION.to_owned());
    let verified = Verified::new(&state, &staff, staff.member.organization.into(), base, name).await?;
    Ok(Page(OrganizationPage { layout, verified }))
}

async fn take_anchor(state: &WebState, of: ChainOf) -> Result<Anchor, Error> {
    Ok(match of {
        ChainOf::Event(event) => state.db.anchor_of_event(event).await?,
        ChainOf::Organization(organization) => state.db.anchor_of_organization(organization).await?,
    })
}

async fn anchor(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::TakeAnchor)?;
    let event = staff.event(&state, event).await?;
    Ok(download(&event.slug, &take_anchor(&state, event.id.into()).await?))
}

async fn anchor_of_organization(State(state): State<WebState>, staff: Staff) -> Result<Response, Error> {
    staff.require(Act::TakeAnchor)?;
    Ok(download(ORGANIZATION, &take_anchor(&state, staff.member.organization.into()).await?))
}

fn download(name: &str, anchor: &Anchor) -> Response {
    let named = format!("attachment; filename=\"{name}-anchor.json\"");
    let headers = [(CONTENT_TYPE, "application/json".to_owned()), (CONTENT_DISPOSITION, named)];
    (headers, anchor.to_json().unwrap_or_default()).into_response()
}

async fn mail(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    staff.require(Act::TakeAnchor)?;
    let event = staff.event(&state, event).await?;
    mail_anchor(&state, &staff, event.id.into()).await?;
    Ok(Redirect::to(&path(event.id, "/audit/verify")))
}

async fn mail_of_organization(
    State(state): State<WebState>,
    staff: Staff,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    staff.require(Act::TakeAnchor)?;
    mail_anchor(&state, &staff, staff.member.organization.into()).await?;
    Ok(Redirect::to("/staff/audit"))
}

/// To their own address and nobody else's: where an anchor is kept is theirs to choose.
async fn mail_anchor(state: &WebState, staff: &Staff, of: ChainOf) -> Result<(), Error> {
    let (tone, said) = match state.db.mail_anchor(of, &staff.member).await? {
        AnchorMailed::Written(seq) => (
            Tone::Done,
            format!(
                "The anchor of record {} is being mailed to {}. Messages shows what becomes of it.",
                grouped(seq),
                staff.member.email
            ),
        ),
        AnchorMailed::Before(seq) => (
            Tone::Note,
            format!(
                "Nothing was done: the anchor of record {}, still the last, was mailed to you before. Messages shows what \
                 became of it.",
                grouped(seq)
            ),
        ),
    };
    staff.flash(tone, said).await
}
