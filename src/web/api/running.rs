//! What programs of an organization do to events: make and change them, publish and cancel them, open and close their
//! lists, hold draws.

use axum::extract::State;
use axum::http::HeaderMap;
use axum::http::header::IF_MATCH;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Because, Given, Json, Listed, Paging, Versioned, because};
use super::problem::{Code, Failed, Refusal};
use super::views::AttributeView;
use crate::db::events::Begin;
use crate::db::events::NewEvent;
use crate::db::pages_staff::EventSummary;
use crate::domain::attribute::Attribute;
use crate::domain::event::{Event, EventSettings, EventState, ListState};
use crate::domain::ids::EventId;
use crate::domain::key::Scope;
use crate::domain::policy::Policy;
use crate::domain::reason::StaffReason;
use crate::domain::slug;
use crate::waitlist::attributes::AttributesOutcome;
use crate::waitlist::events::{CreateOutcome, EventOutcome, SaveOutcome};
use crate::waitlist::lists::ListOutcome;
use crate::web::WebState;
use crate::web::extract::{Path, Query};

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(list, create))
        .with(routes!(show, change))
        .with(routes!(publish))
        .with(routes!(cancel))
        .with(routes!(restore))
        .with(routes!(set_list))
        .with(routes!(set_attributes))
}

/// An event as its organization sees it.
#[derive(Debug, Serialize, ToSchema)]
pub(super) struct EventDetail {
    /// Its id.
    id: EventId,
    /// Its name in addresses.
    slug: String,
    /// Its name for people.
    name: String,
    /// Free text.
    description: String,
    /// Where it takes place; may be empty.
    venue: String,
    /// The time zone in which its instants are meant.
    #[schema(example = "Europe/Berlin")]
    zone: String,
    /// When it starts, if it does.
    starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    state: EventState,
    /// Whether its list takes and serves people.
    list: ListState,
    /// When the list opens by itself.
    list_opens_at: Option<DateTime<Utc>>,
    /// When the list freezes by itself.
    list_freezes_at: Option<DateTime<Utc>>,
    /// The version of the rule in force.
    policy_version: i32,
    /// What `If-Match` names. Goes up when the settings, the attributes or the rule are changed, and when restoring brings
    /// entries back; not when the event is published or cancelled, or its list opened, frozen or closed.
    version: i32,
    /// What it says of its places.
    attributes: Vec<AttributeView>,
    /// Places that nobody has.
    open: i64,
    /// Places kept by offers.
    held: i64,
    /// Places booked.
    booked: i64,
    /// By so many the event is over: they leave when free.
    retire_when_free: i64,
    /// When everybody was called for the last time before the start.
    final_called_at: Option<DateTime<Utc>>,
}

impl EventDetail {
    async fn of(state: &WebState, event: Event) -> Result<Self, Failed> {
        let counts = state.db.place_counts(event.id).await?;
        Ok(Self {
            id: event.id,
            slug: event.slug,
            name: event.name,
            description: event.description,
            venue: event.venue,
            zone: event.zone.name().to_owned(),
            starts_at: event.starts_at,
            state: event.state,
            list: event.list,
            list_opens_at: event.list_opens_at,
            list_freezes_at: event.list_freezes_at,
            policy_version: event.policy_version,
            version: event.form_version,
            attributes: event.attributes.into_iter().map(Into::into).collect(),
            open: counts.open,
            held: counts.held,
            booked: counts.booked,
            retire_when_free: counts.retire_when_free,
            final_called_at: event.final_called_at,
        })
    }

    pub(super) async fn now(state: &WebState, event: EventId) -> Result<Answer<Self>, Failed> {
        Ok(Answer::ok(Self::of(state, state.db.event(event).await?).await?))
    }
}

/// An event, as a row of a list.
#[derive(Debug, Serialize, ToSchema)]
struct EventRow {
    /// Its id.
    id: EventId,
    /// Its name for people.
    name: String,
    /// When it starts, if it does.
    starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    state: EventState,
    /// Whether its list takes and serves people.
    list: ListState,
    /// Places that nobody has.
    open: i64,
    /// Places kept by offers.
    held: i64,
    /// Places booked.
    booked: i64,
    /// In the line.
    waiting: i64,
    /// In the line, and nothing hinders an offer.
    eligible: i64,
    /// With a live offer.
    offered: i64,
}

impl From<EventSummary> for EventRow {
    fn from(event: EventSummary) -> Self {
        Self {
            id: event.id,
            name: event.name,
            starts_at: event.starts_at,
            state: event.state,
            list: event.list,
            open: event.places.open,
            held: event.places.held,
            booked: event.places.booked,
            waiting: event.waiting,
            eligible: event.eligible,
            offered: event.offered,
        }
    }
}

/// Which events.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct EventsQuery {
    /// Those in this state; in any state without it.
    state: Option<EventState>,
}

/// The organization's events
///
/// In every state, the next to start first.
#[utoipa::path(get, path = "/v1/events", tag = "Running events", params(EventsQuery, Paging),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "A page of events.", body = Listed<EventRow>)))]
async fn list(
    State(state): State<WebState>,
    caller: Caller,
    Query(query): Query<EventsQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<EventRow>>, Failed> {
    caller.require(Scope::EventsRead)?;
    let states: Vec<EventState> = query.state.map_or_else(|| EventState::ALL.to_vec(), |state| vec![state]);
    let begin = paging.parse(|text| text.parse().ok())?.map_or(Begin::Skip(0), Begin::After);
    let rows = state.db.event_summaries(caller.organization(), &states, paging.one_more(), begin).await?;
    Ok(Answer::ok(Listed::of(rows, paging.limit(), |row| row.id.to_string(), Into::into)))
}

/// An event's settings.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct Settings {
    /// Its name for people. Needed of a new event.
    #[schema(max_length = 200)]
    name: Option<String>,
    /// Free text.
    #[schema(max_length = 5000)]
    description: Option<String>,
    /// Where it takes place.
    #[schema(max_length = 200)]
    venue: Option<String>,
    /// The time zone in which its instants are meant. Needed of a new event.
    #[schema(example = "Europe/Berlin")]
    zone: Option<String>,
    /// When it starts; null for never.
    #[serde(default)]
    #[schema(value_type = Option<DateTime<Utc>>)]
    starts_at: Given<DateTime<Utc>>,
    /// When the list opens by itself; null for not.
    #[serde(default)]
    #[schema(value_type = Option<DateTime<Utc>>)]
    list_opens_at: Given<DateTime<Utc>>,
    /// When the list freezes by itself; null for not.
    #[serde(default)]
    #[schema(value_type = Option<DateTime<Utc>>)]
    list_freezes_at: Given<DateTime<Utc>>,
    /// Of a new event: its name in addresses; made of the name without it. It never changes.
    slug: Option<String>,
}

impl Settings {
    fn over(&self, before: EventSettings) -> Result<EventSettings, Failed> {
        let zone = match &self.zone {
            Some(zone) => zone
                .parse()
                .map_err(|_| Failed::from(Refusal::field("zone", "There is no such time zone.")))?,
            None => before.zone,
        };
        let settings = EventSettings {
            name: self.name.clone().unwrap_or(before.name),
            description: self.description.clone().unwrap_or(before.description),
            venue: self.venue.clone().unwrap_or(before.venue),
            zone,
            starts_at: self.starts_at.over(before.starts_at),
            list_opens_at: self.list_opens_at.over(before.list_opens_at),
            list_freezes_at: self.list_freezes_at.over(before.list_freezes_at),
        };
        settings.parse().map_err(|problems| {
            let (field, detail) = problems.first().copied().unwrap_or_default();
            Refusal::field(field, detail).into()
        })
    }
}

const IN_PAST: &str = "The start has to be in the future.";

/// Create an event
///
/// As a draft, with a list that is passive: nothing is offered by itself until the rule has a window. Add places and change
/// the rule (`PATCH /v1/events/{event}/policy`), then publish it. `name` and `zone` are needed.
#[utoipa::path(post, path = "/v1/events", tag = "Running events", request_body = Settings,
    security(("key" = ["events:write"])),
    responses((status = 201, description = "A draft.", body = EventDetail)))]
async fn create(
    State(state): State<WebState>,
    caller: Caller,
    Json(request): Json<Settings>,
) -> Result<Answer<EventDetail>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let blank = EventSettings {
        name: String::new(),
        description: String::new(),
        venue: String::new(),
        zone: chrono_tz::UTC,
        starts_at: None,
        list_opens_at: None,
        list_freezes_at: None,
    };
    if request.zone.is_none() {
        return Err(
            Refusal::field("zone", "Say the time zone in which the event's instants are meant.").into()
        );
    }
    let settings = request.over(blank)?;
    let slug = request.slug.clone().unwrap_or_else(|| slug::from_name(&settings.name));
    slug::check(&slug).map_err(|error| Failed::from(Refusal::field("slug", error)))?;
    let new = NewEvent { organization: caller.organization(), slug, settings };
    match state.waitlist().create_event(&new, &Policy::first(), caller.actor()).await? {
        CreateOutcome::Created(id) => {
            Ok(Answer::created(EventDetail::of(&state, state.db.event(id).await?).await?))
        }
        CreateOutcome::SlugTaken => {
            Err(Refusal::new(Code::Taken, "Another event has this name in addresses.")
                .with("field", "slug")
                .into())
        }
        CreateOutcome::StartsInPast => Err(Refusal::field("starts_at", IN_PAST).into()),
    }
}

/// An event as its organization sees it
///
/// Drafts, too. Its entity tag is good for `If-Match`.
#[utoipa::path(get, path = "/v1/events/{event}", tag = "Running events", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "The event.", body = EventDetail)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Versioned<EventDetail>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(Versioned(event.form_version, EventDetail::of(&state, event).await?))
}

/// The version that the caller read: what changes an event names it, so that nothing is overwritten unseen. The entity tag
/// of an answer says it, or `version` in it; what a proxy made of the tag's strength does not matter.
pub(super) fn version_read(headers: &HeaderMap) -> Result<i32, Failed> {
    let value = headers.get(IF_MATCH).and_then(|value| value.to_str().ok()).ok_or_else(|| {
        Refusal::new(
            Code::VersionMissing,
            "Send what you read as If-Match: the ETag of the event or its rule, or its `version` in quotes. Nothing was changed.",
        )
    })?;
    let text = value.trim().trim_start_matches("W/").trim_matches('"');
    text.split('-')
        .next()
        .unwrap_or_default()
        .parse()
        .map_err(|_| Refusal::field("If-Match", "This is no version of an event.").into())
}

/// It changed since it was read.
pub(super) fn changed() -> Refusal {
    Refusal::new(Code::Changed, "Somebody changed the event since. Read it again. Nothing was changed.")
}

/// Change an event's settings
///
/// What is left out stays. `If-Match` names the `version` that was read. An earlier start moves later deadlines to it and
/// tells their people.
#[utoipa::path(patch, path = "/v1/events/{event}", tag = "Running events",
    params(("event" = String, Path), ("If-Match" = String, Header, description = "The ETag of the event or its rule that was read, quotes included.")),
    request_body = Settings,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn change(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    headers: HeaderMap,
    Json(request): Json<Settings>,
) -> Result<Answer<EventDetail>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    let version = version_read(&headers)?;
    if request.slug.as_ref().is_some_and(|slug| *slug != event.slug) {
        return Err(Refusal::field("slug", "An event's name in addresses never changes.").into());
    }
    let id = event.id;
    let settings = request.over(EventSettings {
        name: event.name,
        description: event.description,
        venue: event.venue,
        zone: event.zone,
        starts_at: event.starts_at,
        list_opens_at: event.list_opens_at,
        list_freezes_at: event.list_freezes_at,
    })?;
    match state.waitlist().save_settings(id, &settings, version, caller.actor()).await? {
        SaveOutcome::Saved { .. } => EventDetail::now(&state, id).await,
        SaveOutcome::Conflict => Err(changed().into()),
        SaveOutcome::StartsInPast => Err(Refusal::field("starts_at", IN_PAST).into()),
        SaveOutcome::NotFrom(now) => Err(event_is(now).into()),
    }
}

fn event_is(state: EventState) -> Refusal {
    Refusal::new(Code::WrongState, format!("The event is {state}: that cannot be done.")).with("state", state)
}

async fn moved(
    state: &WebState,
    event: EventId,
    outcome: EventOutcome,
) -> Result<Answer<EventDetail>, Failed> {
    match outcome {
        EventOutcome::Done { .. } | EventOutcome::Already => EventDetail::now(state, event).await,
        EventOutcome::NotFrom(now) => Err(event_is(now).into()),
        EventOutcome::StartsInPast => Err(Refusal::field("starts_at", IN_PAST).into()),
    }
}

pub(super) async fn reasoned(
    state: &WebState,
    caller: &Caller,
    event: &str,
    request: &Because,
) -> Result<(EventId, StaffReason), Failed> {
    caller.require(Scope::EventsWrite)?;
    Ok((caller.event(state, event).await?.id, request.parse()?))
}

/// Publish an event
///
/// A draft becomes public: people can book and join, and what is open is offered as the rule says. A reason is needed;
/// where nothing special happened, `other` with the note “on sale” will do.
#[utoipa::path(post, path = "/v1/events/{event}:publish", tag = "Running events", params(("event" = String, Path)),
    request_body = Because,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn publish(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<Because>,
) -> Result<Answer<EventDetail>, Failed> {
    let (event, reason) = reasoned(&state, &caller, &event, &request).await?;
    let outcome =
        state.waitlist().publish(event, caller.actor(), reason.reason, reason.note.as_deref()).await?;
    moved(&state, event, outcome).await
}

/// Cancel an event
///
/// Its pending offers are revoked, everybody live is closed, and all are told.
#[utoipa::path(post, path = "/v1/events/{event}:cancel", tag = "Running events", params(("event" = String, Path)),
    request_body = Because,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn cancel(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<Because>,
) -> Result<Answer<EventDetail>, Failed> {
    let (event, reason) = reasoned(&state, &caller, &event, &request).await?;
    let outcome = state.waitlist().cancel_event(event, caller.actor(), &reason).await?;
    moved(&state, event, outcome).await
}

/// Restore a cancelled event
///
/// What cancelling closed is open again, at the old rank.
#[utoipa::path(post, path = "/v1/events/{event}:restore", tag = "Running events", params(("event" = String, Path)),
    request_body = Because,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn restore(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<Because>,
) -> Result<Answer<EventDetail>, Failed> {
    let (event, reason) = reasoned(&state, &caller, &event, &request).await?;
    let outcome = state.waitlist().restore_event(event, caller.actor(), &reason).await?;
    moved(&state, event, outcome).await
}

/// What the list is to be.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ListRequest {
    /// `open`; `frozen`: nobody new, those waiting are served; `closed`: nothing is offered, and pending offers are revoked.
    state: ListState,
    /// Why: a code of `GET /v1/reasons` with `for_staff`.
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Open, freeze or close a list
#[utoipa::path(put, path = "/v1/events/{event}/list", tag = "Running events", params(("event" = String, Path)),
    request_body = ListRequest,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn set_list(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<ListRequest>,
) -> Result<Answer<EventDetail>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    let reason = because(&request.reason, &request.note)?;
    match state.waitlist().set_list(event.id, request.state, caller.actor(), &reason).await? {
        ListOutcome::Done { .. } | ListOutcome::Already => EventDetail::now(&state, event.id).await,
        ListOutcome::NotPublished => Err(event_is(event.state).into()),
    }
}

/// Say what places are told apart by
///
/// All of it, in order. `If-Match` names the `version` that was read: the `ETag` of the event, with its quotes. What is in
/// use cannot be taken away. A new attribute gets its `key` from its `label`; the answer says which.
#[utoipa::path(put, path = "/v1/events/{event}/attributes", tag = "Running events",
    params(("event" = String, Path), ("If-Match" = String, Header, description = "The ETag of the event or its rule that was read, quotes included.")),
    request_body = Vec<AttributeView>,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "As it is now.", body = EventDetail)))]
async fn set_attributes(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    headers: HeaderMap,
    Json(request): Json<Vec<AttributeView>>,
) -> Result<Answer<EventDetail>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    let version = version_read(&headers)?;
    let attributes = checked(&event, request)?;
    match state.waitlist().set_attributes(event.id, &attributes, version, caller.actor()).await? {
        AttributesOutcome::Changed | AttributesOutcome::Already => EventDetail::now(&state, event.id).await,
        AttributesOutcome::Stale => Err(changed().into()),
        AttributesOutcome::InUse(used) => {
            Err(Refusal::new(Code::Taken, format!("“{}” is in use: it cannot be taken away.", used.0)).into())
        }
        AttributesOutcome::NotTheSame(wrong) => {
            let label = wrong.label;
            let detail =
                format!("“{label}” comes twice, or would measure something else. Nothing was changed.");
            Err(Refusal::field("key", detail).with("key", wrong.key).into())
        }
    }
}

/// As the page's form would have made them: known ones may be renamed, new ones get a key of their own.
fn checked(event: &Event, wanted: Vec<AttributeView>) -> Result<Vec<Attribute>, Failed> {
    use crate::domain::attribute::ATTRIBUTES_MAX;
    if wanted.len() > ATTRIBUTES_MAX {
        return Err(Refusal::new(Code::Invalid, "An event has at most 8 attributes.").into());
    }
    let mut attributes: Vec<Attribute> = Vec::with_capacity(wanted.len());
    for (index, view) in wanted.into_iter().enumerate() {
        let field = format!("{index}");
        let choices = view.choices.join("\n");
        let known = event.attributes.iter().find(|known| known.key == view.key);
        let made = if let Some(known) = known {
            Attribute { measure: view.measure, ..known.clone() }.renamed(&view.label, &choices)
        } else {
            let taken = [event.attributes.as_slice(), &attributes].concat();
            Attribute::new(&view.label, view.measure, &choices, &taken)
        };
        attributes.push(made.map_err(|error| Failed::from(Refusal::field(&field, error)))?);
    }
    Ok(attributes)
}
