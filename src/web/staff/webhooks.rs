//! Webhooks: where transitions are sent, the secrets by which they are signed, and what became of each delivery.
//!
//! A secret is shown in the answer to the form that made it, and nowhere else: it is derived, so it is in no session and in
//! no table.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use chrono_tz::UTC;
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Errors, FilterLink, Layout, Page, Section, Tone};
use super::Staff;
use crate::db::webhooks::{DeliveryLine, Rotated, Webhook};
use crate::domain::attribute::Typed;
use crate::domain::ids::WebhookId;
use crate::domain::role::Act;
use crate::domain::standing::grouped;
use crate::domain::transition::Kind;
use crate::domain::webhook::{DeliveryState, Stopped, endpoint, shown};
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/webhooks", get(list).post(add))
        .route("/webhooks/{id}", get(show))
        .route("/webhooks/{id}/rotate", post(rotate))
        .route("/webhooks/{id}/stop", post(stop))
        .route("/webhooks/{id}/start", post(start))
        .route("/webhooks/{id}/test", post(test))
        .route("/webhooks/{id}/replay", post(replay))
}

/// Lines on a page.
const PER_PAGE: usize = 50;

/// What an endpoint can be told of: the beginning of the kinds' names, and words.
const GROUPS: [(&str, &str); 5] = [
    ("entry", "entries: who joins, waits, is offered something, leaves"),
    ("offer", "offers: made, accepted, declined, expired, taken back, moved"),
    ("place", "places that come free"),
    ("booking", "bookings: made and cancelled"),
    ("event", "events, their lists and rules"),
];

fn group(kind: Kind) -> &'static str {
    kind.as_str().split('.').next().unwrap_or_default()
}

/// Of which groups an endpoint is told, in words.
fn told_of(kinds: &[Kind]) -> String {
    if kinds.is_empty() {
        return "everything".to_owned();
    }
    let mut groups: Vec<&str> = kinds.iter().map(|kind| group(*kind)).collect();
    groups.dedup();
    groups.join(", ")
}

fn path(id: WebhookId) -> String {
    format!("/staff/webhooks/{id}")
}

/// How an endpoint does: the chip's state and word, and a sentence.
struct Health {
    state: &'static str,
    word: &'static str,
    sentence: String,
}

impl Health {
    fn of(webhook: &Webhook, now: DateTime<Utc>) -> Self {
        let when = |at| When::new(at, UTC, now);
        let (state, word, sentence) = match (webhook.stopped, webhook.failing_since) {
            (Some((why, at)), _) => {
                let at = when(at);
                let sentence = match why {
                    Stopped::Staff => format!("Stopped by staff {}.", at.relative),
                    Stopped::Gone => {
                        format!("Stopped {}: the endpoint answered that it is gone (410).", at.relative)
                    }
                    Stopped::Failing => format!("Stopped {}: it took nothing for three days.", at.relative),
                };
                ("closed", "stopped", sentence)
            }
            (None, Some(since)) => {
                let next = webhook.paused_until.filter(|until| *until > now).map_or_else(
                    || "It is being tried again now.".to_owned(),
                    |until| format!("It is tried again {}.", when(until).relative),
                );
                (
                    "conflicted",
                    "failing",
                    format!("It has taken nothing since {}. {next}", when(since).absolute),
                )
            }
            (None, None) => {
                let sentence = match webhook.delivered_at {
                    Some(at) => format!("The last delivery was taken {}.", when(at).relative),
                    None => "Nothing was delivered yet.".to_owned(),
                };
                ("published", "running", sentence)
            }
        };
        Self { state, word, sentence }
    }
}

// ── the list ───────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Template)]
#[template(path = "staff/webhooks.html")]
struct WebhooksPage {
    layout: Layout,
    lines: Vec<Line>,
    errors: Errors,
    url: String,
    /// The id that the next endpoint will have: a form sent twice adds one.
    once: WebhookId,
    /// The groups, and whether each is ticked.
    groups: Vec<(String, &'static str, bool)>,
}

struct Line {
    id: WebhookId,
    url: String,
    told_of: String,
    health: Health,
    waiting: i64,
    dead: i64,
}

impl WebhooksPage {
    fn sentence(&self) -> String {
        let count = |word: &str| self.lines.iter().filter(|line| line.health.word == word).count();
        let running = match count("running") {
            _ if self.lines.is_empty() => return "Nothing is sent anywhere.".to_owned(),
            0 => "No endpoint takes what is sent".to_owned(),
            1 => "1 endpoint is told of what happens".to_owned(),
            n => format!("{n} endpoints are told of what happens"),
        };
        match (count("failing"), count("stopped")) {
            (0, 0) => format!("{running}."),
            (0, n) => format!("{running}; {n} stopped."),
            (n, 0) => format!("{running}; {n} failing."),
            (n, m) => format!("{running}; {n} failing, {m} stopped."),
        }
    }
}

async fn list(State(state): State<WebState>, staff: Staff) -> Result<Response, Error> {
    staff.require(Act::ManageWebhooks)?;
    let once = WebhookId(state.db.entropy().id());
    list_page(&state, &staff, &Typed::new(), once, Errors::default(), StatusCode::OK).await
}

async fn list_page(
    state: &WebState,
    staff: &Staff,
    form: &Typed,
    once: WebhookId,
    errors: Errors,
    status: StatusCode,
) -> Result<Response, Error> {
    let webhooks = state.db.webhooks(staff.member.organization, None).await?;
    let ticked = |name: &str| form.is_empty() || form.contains_key(&format!("of.{name}"));
    let page = WebhooksPage {
        layout: staff.layout("Webhooks", Section::Webhooks).await?,
        lines: webhooks
            .into_iter()
            .map(|webhook| Line {
                health: Health::of(&webhook, staff.now),
                id: webhook.id,
                told_of: told_of(&webhook.kinds),
                url: webhook.url,
                waiting: webhook.waiting,
                dead: webhook.dead,
            })
            .collect(),
        errors,
        url: form.get("url").cloned().unwrap_or_default(),
        once,
        groups: GROUPS.map(|(name, words)| (format!("of.{name}"), words, ticked(name))).to_vec(),
    };
    Ok((status, Page(page)).into_response())
}

async fn add(
    State(state): State<WebState>,
    staff: Staff,
    VerifiedForm(form): VerifiedForm<Typed>,
) -> Result<Response, Error> {
    staff.require(Act::ManageWebhooks)?;
    let organization = staff.member.organization;
    let once = form
        .get("once")
        .and_then(|id| id.parse().ok())
        .map(WebhookId)
        .ok_or_else(|| Error::BadRequest("The form is not complete.".into()))?;
    let mut errors = Errors::default();
    let text = form.get("url").map_or("", String::as_str);
    let url = errors.check("url", endpoint(text, state.settings.private_webhooks));
    let wanted = |name: &str| form.contains_key(&format!("of.{name}"));
    if !GROUPS.iter().any(|(name, _)| wanted(name)) {
        errors.add("of.entry", "Choose what it is told of.");
    }
    let Some(url) = url.filter(|_| errors.is_empty()) else {
        return list_page(&state, &staff, &form, once, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    // Everything is everything, also what is told in later versions.
    let kinds: Vec<Kind> = if GROUPS.iter().all(|(name, _)| wanted(name)) {
        Vec::new()
    } else {
        Kind::ALL.iter().copied().filter(|kind| wanted(group(*kind))).collect()
    };
    if !state.db.add_webhook(organization, once, url.as_str(), &kinds, staff.actor()).await? {
        staff
            .flash(Tone::Note, "It was added already. Its secret was shown then; to get another, change it.")
            .await?;
        return Ok(Redirect::to(&path(once)).into_response());
    }
    webhook_page(&state, &staff, once, &ListQuery::default(), Some(1)).await
}

// ── one of them ────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListQuery {
    state: String,
    before: String,
}

#[derive(Template)]
#[template(path = "staff/webhook.html")]
struct WebhookPage {
    layout: Layout,
    webhook: Webhook,
    health: Health,
    told_of: String,
    /// Shown this once.
    secret: Option<String>,
    /// Until when the one before signs, too.
    old_until: Option<When>,
    states: Vec<FilterLink>,
    deliveries: Vec<Delivery>,
    older: Option<String>,
}

impl WebhookPage {
    fn act(&self, act: &str) -> String {
        format!("{}/{act}", path(self.webhook.id))
    }
}

struct Delivery {
    position: i64,
    about: String,
    state: &'static str,
    word: &'static str,
    queued: When,
    what: String,
    may_replay: bool,
}

impl Delivery {
    fn new(line: DeliveryLine, now: DateTime<Utc>) -> Self {
        let when = |at| When::new(at, UTC, now);
        let answered = match (line.status, line.detail) {
            (Some(status), Some(detail)) if !detail.is_empty() => format!("{status}: {detail}"),
            (Some(status), _) => format!("answered {status}"),
            (None, detail) => detail.unwrap_or_default(),
        };
        let what = match (line.state, line.attempts) {
            (DeliveryState::Queued, 0) => String::new(),
            (DeliveryState::Queued, n) => {
                let next = line
                    .next_attempt_at
                    .filter(|at| *at > now)
                    .map_or("at once".to_owned(), |at| when(at).relative);
                format!("{answered} (attempt {n}); again {next}")
            }
            (_, n) if n > 1 => format!("{answered} (attempt {n})"),
            _ => answered,
        };
        let (state, word) = match line.state {
            DeliveryState::Queued => ("queued", "queued"),
            DeliveryState::Sending => ("sending", "sending"),
            DeliveryState::Delivered => ("told", "delivered"),
            DeliveryState::Dead => ("dead", "given up"),
        };
        Self {
            position: line.position,
            about: line.kind.map_or("a test", Kind::as_str).to_owned(),
            state,
            word,
            queued: when(line.queued_at),
            what,
            may_replay: line.position > 0
                && matches!(line.state, DeliveryState::Delivered | DeliveryState::Dead),
        }
    }

    fn number(&self) -> String {
        if self.position > 0 { grouped(self.position) } else { "–".to_owned() }
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    Query(query): Query<ListQuery>,
) -> Result<Response, Error> {
    staff.require(Act::ManageWebhooks)?;
    webhook_page(&state, &staff, id, &query, None).await
}

/// The page of an endpoint; with the secret of that generation, where it was made just now.
async fn webhook_page(
    state: &WebState,
    staff: &Staff,
    id: WebhookId,
    query: &ListQuery,
    made: Option<i32>,
) -> Result<Response, Error> {
    let organization = staff.member.organization;
    let webhook = state.db.webhook(organization, id).await?;
    let chosen = DeliveryState::parse(&query.state);
    let limit = i64::try_from(PER_PAGE + 1).unwrap_or(i64::MAX);
    let mut lines =
        state.db.webhook_deliveries(organization, id, chosen, query.before.parse().ok(), limit).await?;
    let more = lines.len() > PER_PAGE;
    lines.truncate(PER_PAGE);
    let address = |chosen: Option<DeliveryState>, before: Option<i64>| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(chosen) = chosen {
            query.append_pair("state", chosen.as_str());
        }
        if let Some(before) = before {
            query.append_pair("before", &before.to_string());
        }
        let query = query.finish();
        if query.is_empty() { path(id) } else { format!("{}?{query}", path(id)) }
    };
    let link = |label: &str, state: Option<DeliveryState>, count| FilterLink {
        href: address(state, None),
        label: label.to_owned(),
        count,
        current: chosen == state,
    };
    let older = lines.last().filter(|_| more).map(|last| address(chosen, Some(last.position)));
    let page = WebhookPage {
        layout: staff.layout("Webhook", Section::Webhooks).await?,
        health: Health::of(&webhook, staff.now),
        told_of: told_of(&webhook.kinds),
        secret: made.map(|generation| shown(&state.secret.webhook_key(organization, id, generation))),
        old_until: webhook
            .old_until
            .filter(|until| *until > staff.now)
            .map(|at| When::new(at, UTC, staff.now)),
        states: vec![
            link("all", None, None),
            link("queued", Some(DeliveryState::Queued), None),
            link("sending", Some(DeliveryState::Sending), None),
            link("delivered", Some(DeliveryState::Delivered), None),
            link("given up", Some(DeliveryState::Dead), Some(webhook.dead)),
        ],
        deliveries: lines.into_iter().map(|line| Delivery::new(line, staff.now)).collect(),
        older,
        webhook,
    };
    Ok(Page(page).into_response())
}

#[derive(Deserialize)]
struct RotateForm {
    generation: i32,
}

async fn rotate(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    VerifiedForm(form): VerifiedForm<RotateForm>,
) -> Result<Response, Error> {
    let organization = own(&state, &staff, id).await?;
    match state.db.rotate_webhook(organization, id, form.generation, staff.actor()).await? {
        Rotated::To(generation) => {
            webhook_page(&state, &staff, id, &ListQuery::default(), Some(generation)).await
        }
        Rotated::Elsewhere => {
            staff
                .flash(
                    Tone::Note,
                    "Nothing was done: the secret was changed since this page was read. It was shown then.",
                )
                .await?;
            Ok(Redirect::to(&path(id)).into_response())
        }
    }
}

async fn stop(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    let organization = own(&state, &staff, id).await?;
    let done = state.db.stop_webhook(organization, id, staff.actor()).await?;
    let text = if done {
        "Nothing is sent to it any more. What happens from now on waits until it is started again."
    } else {
        "Nothing was done: it is stopped already."
    };
    staff.flash(if done { Tone::Done } else { Tone::Note }, text).await?;
    Ok(Redirect::to(&path(id)))
}

async fn start(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    let organization = own(&state, &staff, id).await?;
    let done = state.db.start_webhook(organization, id, staff.actor()).await?;
    let text = if done {
        "It is sent to again, from where it stopped: nothing is left out."
    } else {
        "Nothing was done: it is running already."
    };
    staff.flash(if done { Tone::Done } else { Tone::Note }, text).await?;
    Ok(Redirect::to(&path(id)))
}

async fn test(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    let organization = own(&state, &staff, id).await?;
    state.db.test_webhook(organization, id, staff.actor()).await?;
    staff
        .flash(Tone::Done, "A test is on its way: what comes of it is in the log below within seconds.")
        .await?;
    Ok(Redirect::to(&path(id)))
}

#[derive(Deserialize)]
struct ReplayForm {
    #[serde(default)]
    first: String,
    #[serde(default)]
    last: String,
}

async fn replay(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<WebhookId>,
    VerifiedForm(form): VerifiedForm<ReplayForm>,
) -> Result<Redirect, Error> {
    let organization = own(&state, &staff, id).await?;
    let number = |text: &str| text.trim().parse::<i64>().ok().filter(|number| *number > 0);
    let (Some(first), Some(last)) = (number(&form.first), number(&form.last)) else {
        staff.flash(Tone::Error, "Nothing was done: say from which number of the feed to which.").await?;
        return Ok(Redirect::to(&path(id)));
    };
    let queued = state.db.replay_webhook(organization, id, (first, last), false, staff.actor()).await?;
    let (tone, text) = match queued {
        0 => (
            Tone::Note,
            "Nothing was done: there is nothing for this endpoint, or it waits to be sent already."
                .to_owned(),
        ),
        1 => (Tone::Done, "1 delivery is queued again.".to_owned()),
        n => (
            Tone::Done,
            format!("{} deliveries are queued again.", grouped(i64::try_from(n).unwrap_or(i64::MAX))),
        ),
    };
    staff.flash(tone, text).await?;
    Ok(Redirect::to(&path(id)))
}

/// The organization, if the act is allowed and the endpoint is its own.
async fn own(
    state: &WebState,
    staff: &Staff,
    id: WebhookId,
) -> Result<crate::domain::ids::OrganizationId, Error> {
    staff.require(Act::ManageWebhooks)?;
    state.db.webhook(staff.member.organization, id).await?;
    Ok(staff.member.organization)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_belongs_to_a_group_that_can_be_chosen() {
        for kind in Kind::ALL {
            assert!(GROUPS.iter().any(|(name, _)| *name == group(*kind)), "{kind}");
        }
        assert_eq!(told_of(&[]), "everything");
        assert_eq!(told_of(&[Kind::OfferPending, Kind::OfferExpired, Kind::PlaceReleased]), "offer, place");
    }
}
