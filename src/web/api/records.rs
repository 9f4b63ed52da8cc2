//! What was told and what was done: messages, releases with what came of them, and why somebody waits.

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::bookings::{cursor, parse_cursor};
use super::caller::{Caller, Who};
use super::entries::entry_of;
use super::json::{Answer, Listed, Paging};
use super::problem::{Code, Failed, Refusal};
use crate::db::mailbox::{MessageFilter, MessageLine};
use crate::db::outbox::Replayed;
use crate::db::pages_releases::Release;
use crate::domain::allocation::{PassOutcome, SkipReason};
use crate::domain::delivery::{Channel, DeliveryOutcome, MessageState};
use crate::domain::ids::{EntryId, EventId, MessageId, OfferId, PersonId, PlaceId, ReleaseId};
use crate::domain::key::Scope;
use crate::domain::message::Occasion;
use crate::domain::offer::{OfferKind, OfferState};
use crate::domain::reason::Reason;
use crate::domain::trail::{Fate, fate};
use crate::web::WebState;
use crate::web::extract::{Path, Query};
use crate::web::staff::words;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(messages))
        .with(routes!(message))
        .with(routes!(send_again))
        .with(routes!(releases))
        .with(routes!(release))
        .with(routes!(explain_event))
        .with(routes!(explain_entry))
}

/// A message: what one person is told.
#[derive(Debug, Serialize, ToSchema)]
struct MessageView {
    /// Its id.
    id: MessageId,
    /// About which event; none for a code asked for outside any.
    event: Option<EventId>,
    /// To whom; none where it is to one of the staff.
    person: Option<PersonId>,
    /// What they are called.
    name: String,
    /// Why.
    occasion: Option<Occasion>,
    /// Where it is in its life.
    state: MessageState,
    /// When it was written.
    made_at: DateTime<Utc>,
    /// When it was told.
    told_at: Option<DateTime<Utc>>,
    /// When it is tried next.
    next_attempt_at: Option<DateTime<Utc>>,
    /// Attempts charged so far.
    attempts: i32,
    /// Why it was given up or not sent.
    note: Option<String>,
}

impl From<MessageLine> for MessageView {
    fn from(line: MessageLine) -> Self {
        Self {
            id: line.id,
            event: (!line.event.0.is_nil()).then_some(line.event),
            person: line.person,
            name: line.person_name,
            occasion: line.occasion,
            state: line.state,
            made_at: line.made_at,
            told_at: line.told_at,
            next_attempt_at: line.next_attempt_at,
            attempts: line.attempts,
            note: line.note,
        }
    }
}

/// Which messages.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct MessagesQuery {
    /// Only in this state.
    state: Option<MessageState>,
    /// Only about this event, by its id or its name in addresses.
    event: Option<String>,
    /// Only to this person.
    person: Option<PersonId>,
}

/// Messages
///
/// The newest first.
#[utoipa::path(get, path = "/v1/messages", tag = "Messages", params(MessagesQuery, Paging),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "A page of messages.", body = Listed<MessageView>)))]
async fn messages(
    State(state): State<WebState>,
    caller: Caller,
    Query(query): Query<MessagesQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<MessageView>>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = match &query.event {
        Some(event) => Some(caller.event(&state, event).await?.id),
        None => None,
    };
    let filter = MessageFilter {
        event,
        person: query.person,
        states: query.state.into_iter().collect(),
        before: paging.parse(parse_cursor)?,
    };
    let rows = state.db.messages(caller.organization(), &filter, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| cursor(row.made_at, row.id), Into::into)))
}

/// One attempt to deliver.
#[derive(Debug, Serialize, ToSchema)]
struct DeliveryView {
    /// Its number.
    attempt: i32,
    /// The way it took.
    channel: Channel,
    /// What it ended with; nothing while it runs.
    outcome: Option<DeliveryOutcome>,
    /// What the other side said.
    detail: Option<String>,
    /// When it began.
    started_at: DateTime<Utc>,
    /// When it ended.
    finished_at: Option<DateTime<Utc>>,
}

/// A message with its deliveries.
#[derive(Debug, Serialize, ToSchema)]
struct MessageWithDeliveries {
    #[serde(flatten)]
    message: MessageView,
    /// The newest first; at most 50.
    deliveries: Vec<DeliveryView>,
}

/// A message
///
/// With its deliveries, never with its body.
#[utoipa::path(get, path = "/v1/messages/{message}", tag = "Messages", params(("message" = MessageId, Path)),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "The message.", body = MessageWithDeliveries)))]
async fn message(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Answer<MessageWithDeliveries>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let detail = state.db.message(caller.organization(), id).await?;
    let deliveries = detail.deliveries.into_iter().map(|delivery| DeliveryView {
        attempt: delivery.attempt,
        channel: delivery.channel,
        outcome: delivery.outcome,
        detail: delivery.detail,
        started_at: delivery.started_at,
        finished_at: delivery.finished_at,
    });
    let deliveries = deliveries.collect();
    Ok(Answer::ok(MessageWithDeliveries { message: detail.line.into(), deliveries }))
}

/// Send a message again
///
/// One that was given up.
#[utoipa::path(post, path = "/v1/messages/{message}:send-again", tag = "Messages", params(("message" = MessageId, Path)),
    security(("key" = ["messages:write"])),
    responses((status = 200, description = "Queued.", body = MessageView)))]
async fn send_again(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<MessageId>,
) -> Result<Answer<MessageView>, Failed> {
    caller.require(Scope::MessagesWrite)?;
    let organization = caller.organization();
    state.db.message(organization, id).await?;
    match state.db.replay_message(organization, id, caller.actor()).await? {
        Replayed::Queued => Ok(Answer::ok(state.db.message(organization, id).await?.line.into())),
        Replayed::NotDead => Err(Refusal::new(
            Code::WrongState,
            "Only a message that was given up is sent again. Nothing was done.",
        )
        .into()),
    }
}

/// Places that came back together.
#[derive(Debug, Serialize, ToSchema)]
struct ReleaseView {
    /// Its id.
    id: ReleaseId,
    /// When.
    at: DateTime<Utc>,
    /// Why.
    reason: Option<Reason>,
    /// By whom, in words.
    by: String,
    /// The places.
    places: Vec<PlaceId>,
    /// What the first three are called.
    names: Vec<String>,
}

impl From<Release> for ReleaseView {
    fn from(release: Release) -> Self {
        Self {
            id: release.id,
            at: release.at,
            reason: release.reason,
            by: words::by(&release.by),
            places: release.places,
            names: release.names,
        }
    }
}

/// The releases of an event
///
/// Places that came back, the newest first.
#[utoipa::path(get, path = "/v1/resources/{event}/releases", tag = "Explaining", params(("event" = String, Path), Paging),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "A page of releases.", body = Listed<ReleaseView>)))]
async fn releases(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<ReleaseView>>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let rows = state.db.releases(event.id, paging.parse(parse_cursor)?, paging.one_more()).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| cursor(row.at, row.id), Into::into)))
}

/// An offer that the look after a release made.
#[derive(Debug, Serialize, ToSchema)]
struct NextView {
    /// The offer.
    offer: OfferId,
    /// To which entry.
    entry: EntryId,
    /// How many places.
    party: i32,
    /// A hold or a call.
    kind: OfferKind,
    /// Where it is now.
    state: OfferState,
    /// By which rule.
    reason: Option<Reason>,
}

/// People that a look passed over, and why.
#[derive(Debug, Serialize, ToSchema)]
struct PassedOverView {
    /// `does_not_fit`, `declined_these`, `does_not_match`.
    reason: &'static str,
    /// The first of them who wait unchanged since.
    entries: Vec<EntryId>,
}

/// A release, and who was next then.
#[derive(Debug, Serialize, ToSchema)]
struct ReleaseStory {
    #[serde(flatten)]
    release: ReleaseView,
    /// How the first look at the line after it ended; none yet without it.
    looked: Option<PassOutcome>,
    /// When.
    looked_at: Option<DateTime<Utc>>,
    /// Whom it offered a place, in order; at most 100.
    offered: Vec<NextView>,
    /// Whom it passed over.
    passed_over: Vec<PassedOverView>,
}

fn skip_word(reason: SkipReason) -> &'static str {
    match reason {
        SkipReason::DoesNotFit { .. } => "does_not_fit",
        SkipReason::DeclinedThese { .. } => "declined_these",
        SkipReason::DoesNotMatch { .. } => "does_not_match",
    }
}

/// Who was next when places came back
///
/// The look at the line that followed: whom it offered a place, and whom it passed over.
#[utoipa::path(get, path = "/v1/resources/{event}/releases/{release}", tag = "Explaining",
    params(("event" = String, Path), ("release" = ReleaseId, Path)),
    security(("key" = ["entries:read"])),
    responses((status = 200, description = "What came of it.", body = ReleaseStory)))]
async fn release(
    State(state): State<WebState>,
    caller: Caller,
    Path((event, id)): Path<(String, ReleaseId)>,
) -> Result<Answer<ReleaseStory>, Failed> {
    caller.require(Scope::EntriesRead)?;
    let event = caller.event(&state, &event).await?;
    let release = state.db.release(event.id, id).await?;
    let pass = state.db.first_pass_since(event.id, release.at).await?;
    let (mut offered, mut passed_over) = (Vec::new(), Vec::new());
    if let Some(pass) = &pass {
        let offers = state.db.offers_of_pass(event.id, pass.number, 100).await?;
        offered.extend(offers.into_iter().map(|offer| NextView {
            offer: offer.offer,
            entry: offer.entry,
            party: offer.party,
            kind: offer.kind,
            state: offer.state,
            reason: offer.reason,
        }));
        let skips = state.db.passed_over_by(event.id, pass.number, 20).await?;
        passed_over.extend(skips.into_iter().map(|skip| PassedOverView {
            reason: skip_word(skip.reason),
            entries: skip.waiting.into_iter().map(|(entry, _, _)| entry).collect(),
        }));
    }
    Ok(Answer::ok(ReleaseStory {
        release: release.into(),
        looked: pass.as_ref().map(|pass| pass.outcome),
        looked_at: pass.as_ref().map(|pass| pass.at),
        offered,
        passed_over,
    }))
}

/// Why an event's places are, or are not, offered.
#[derive(Debug, Serialize, ToSchema)]
struct EventExplained {
    /// How the last look at the line ended.
    last_look: Option<PassOutcome>,
    /// The same in words.
    words: Option<String>,
    /// When it first ended so.
    since: Option<DateTime<Utc>>,
    /// When it last did.
    looked_at: Option<DateTime<Utc>>,
    /// Places that nobody has.
    open: i64,
    /// Places kept by offers.
    held: i64,
    /// When the first of these ends.
    held_until: Option<DateTime<Utc>>,
    /// People in the line whom nothing hinders.
    eligible: i64,
}

/// Why is nothing offered?
///
/// How the last look at the line ended, and what holds the places.
#[utoipa::path(get, path = "/v1/resources/{event}/explanation", tag = "Explaining", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "How things stand.", body = EventExplained)))]
async fn explain_event(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<EventExplained>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let pass = state.db.last_pass(event.id).await?;
    let sheet = state.db.event_sheet_of(event.id, caller.now).await?;
    Ok(Answer::ok(EventExplained {
        last_look: pass.as_ref().map(|pass| pass.outcome),
        words: pass.as_ref().map(|pass| words::pass(pass.outcome, pass.offered)),
        since: pass.as_ref().map(|pass| pass.at),
        looked_at: pass.as_ref().map(|pass| pass.last_at),
        open: sheet.facts.places.open,
        held: sheet.facts.places.held,
        held_until: sheet.facts.held_until,
        eligible: sheet.waiting,
    }))
}

/// A look at the line, as it went for one entry.
#[derive(Debug, Serialize, ToSchema)]
struct LookView {
    /// When.
    at: DateTime<Utc>,
    /// How many offers it made.
    offers: i64,
    /// To how many who were ahead of the entry then.
    ahead: i64,
    /// By which rule.
    reason: Option<Reason>,
    /// Under which version of it.
    policy_version: i32,
    /// What it meant for the entry: `behind`, `offered`, `passed_over`, `hindered`, `away`.
    meant: &'static str,
    /// Why it was passed over, or what hindered it.
    why: Option<&'static str>,
}

/// Why an entry still waits.
#[derive(Debug, Serialize, ToSchema)]
struct EntryExplained {
    /// What hinders an offer to it, in words.
    hindrance: Option<&'static str>,
    /// How many offers were made on its list since it joined.
    offers_since: i64,
    /// So many looks passed it over.
    passed_over: i64,
    /// There may be more: counting stopped.
    counting_stopped: bool,
    /// The last looks that made offers, the newest first; at most 50.
    looks: Vec<LookView>,
}

/// Why am I still waiting? Was I skipped?
///
/// Every look at the line since it joined that made offers, and what it meant for the entry. Nobody else is named.
#[utoipa::path(get, path = "/v1/waitlist/{entry}/explanation", tag = "Explaining", params(("entry" = EntryId, Path)),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "Since it joined.", body = EntryExplained)))]
async fn explain_entry(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
) -> Result<Answer<EntryExplained>, Failed> {
    let mine = entry_of(&state, &caller, id, Scope::EntriesRead).await?;
    let entry = state.db.entry_in(mine.event.id, id).await?;
    let trail = state.db.trail_of(&entry).await?;
    let since = state.db.since_joined(&entry, &trail, 50).await?;
    let looks = since.looks.iter().map(|look| {
        let (meant, why) = match fate(&trail, look.at, look.skip) {
            Fate::Behind => ("behind", None),
            Fate::Offered => ("offered", None),
            Fate::PassedOver(reason) => ("passed_over", Some(skip_word(reason))),
            Fate::Hindered(hindrance) => ("hindered", Some(words::hindrance_word(hindrance))),
            Fate::Away(_) => ("away", None),
        };
        LookView {
            at: look.at,
            offers: look.offered,
            ahead: look.ahead,
            reason: look.reason,
            policy_version: look.version,
            meant,
            why,
        }
    });
    let looks = looks.collect();
    let staff = matches!(caller.who, Who::Key(_));
    let hindrance = entry.hindrance().filter(|_| staff || mine.state.is_live());
    Ok(Answer::ok(EntryExplained {
        hindrance: hindrance.map(words::hindrance),
        offers_since: since.offers,
        passed_over: since.skips,
        counting_stopped: since.cut,
        looks,
    }))
}
