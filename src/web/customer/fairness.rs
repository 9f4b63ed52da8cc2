//! The rule in words, its versions, and the draws as anybody can check them.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_TYPE};
use axum::response::{IntoResponse, Response};
use axum::routing::get;
use chrono::{DateTime, Utc};

use super::super::WebState;
use super::super::client::ClientAddress;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::limits::Limit;
use super::super::page::{Layout, Page};
use super::Customer;
use crate::db::draws::{Cause, Draw};
use crate::db::pages_customer::events::EventSheet;
use crate::db::policies::PolicyVersion;
use crate::domain::draw::file;
use crate::domain::draw::quicknet_time;
use crate::domain::policy::{Ordering, Policy};
use crate::domain::standing::grouped;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/e/{slug}/fairness", get(show)).route("/e/{slug}/draws/{file}", get(take_along))
}

#[derive(Template)]
#[template(path = "customer/fairness.html")]
struct FairnessPage {
    layout: Layout,
    sheet: EventSheet,
    policy: Policy,
    history: Vec<PolicyVersion>,
    draws: Vec<Draw>,
    chains: Vec<(i32, String, When)>,
    now: DateTime<Utc>,
}

impl FairnessPage {
    fn when(&self, at: DateTime<Utc>) -> When {
        When::new(at, self.sheet.event.zone, self.now)
    }

    fn frozen(&self, draw: &Draw) -> When {
        self.when(draw.frozen_at)
    }

    fn made(&self, version: &PolicyVersion) -> When {
        self.when(version.made_at)
    }

    fn is_lottery(&self) -> bool {
        self.policy.ordering == Ordering::Lottery || !self.draws.is_empty()
    }

    fn cause(draw: &Draw) -> &'static str {
        match draw.cause {
            Cause::Need => "by itself, because a place was open and nobody was ranked",
            Cause::Scheduled => "by itself, at the instant the rule had set",
            Cause::Staff => "by the organizer’s staff, who gave a reason",
        }
    }

    fn pool(draw: &Draw) -> String {
        if draw.pool_size == 1 {
            "1 entry".to_owned()
        } else {
            format!("{} entries", grouped(draw.pool_size.into()))
        }
    }

    fn beacon_time(&self, draw: &Draw) -> Option<When> {
        let at = draw.round.and_then(|round| DateTime::<Utc>::from_timestamp(quicknet_time(round), 0))?;
        Some(self.when(at))
    }

    fn digest(draw: &Draw) -> String {
        hex::encode(draw.pool_digest)
    }

    fn secret(draw: &Draw) -> Option<String> {
        draw.secret.map(hex::encode)
    }

    fn recipe() -> &'static str {
        file::RECIPE
    }
}

async fn show(
    State(state): State<WebState>,
    customer: Customer,
    Path(slug): Path<String>,
) -> Result<Response, Error> {
    let now = customer.now;
    let sheet = state.db.event_sheet(&slug, now).await?;
    let policy = state.db.policy(sheet.event.id).await?;
    let history = state.db.policy_history(sheet.event.id).await?;
    let draws = state.db.draws(sheet.event.id).await?;
    let zone = sheet.event.zone;
    let chains = state.db.chains(sheet.event.id).await?;
    let chains = chains
        .into_iter()
        .map(|(number, commitment, at)| (number, hex::encode(commitment), When::new(at, zone, now)))
        .collect();
    let organizer = &sheet.event.organizer;
    let layout = customer
        .layout(format!("How places are given: {}", sheet.event.name))
        .await?
        .of(organizer.id, &organizer.name)
        .ask(&organizer.contact)
        .public();
    Ok(Page(FairnessPage { layout, sheet, policy, history, draws, chains, now }).into_response())
}

async fn take_along(
    State(state): State<WebState>,
    ClientAddress(address): ClientAddress,
    customer: Customer,
    Path((slug, name)): Path<(String, String)>,
) -> Result<Response, Error> {
    state.count(Limit::DrawFile, address).await?;
    let number: i32 =
        name.strip_suffix(".json").and_then(|number| number.parse().ok()).ok_or(Error::NotFound)?;
    let sheet = state.db.event_sheet(&slug, customer.now).await?;
    let draw = state.db.public_draw(sheet.event.id, number).await?;
    let text = serde_json::to_string_pretty(&draw.file(&slug)).map_err(Error::internal)?;
    let named = format!("attachment; filename=\"{slug}-draw-{number}.json\"");
    let kind = "application/json".to_owned();
    Ok(([(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, named)], text).into_response())
}
