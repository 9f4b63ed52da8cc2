//! Entries: joining, looking, changing, pausing, leaving. By customers for themselves, and by programs for people.

use std::collections::BTreeMap;

use axum::extract::State;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::{Caller, Who};
use super::json::{Answer, Because, Json, because};
use super::problem::{Code, Failed, Refusal};
use super::views::{EntryView, WantsView, wants, wants_view};
use crate::db::pages_customer::mine::MyEntry;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::entry::{EntryState, PausedBy};
use crate::domain::ids::{EntryId, PersonId};
use crate::domain::key::Scope;
use crate::domain::policy::Enough;
use crate::domain::reason::{Reason, StaffReason};
use crate::waitlist::attributes::WantsOutcome;
use crate::waitlist::join::{Join, JoinAs, JoinOutcome};
use crate::waitlist::leave::{LeaveOutcome, PauseOutcome};
use crate::web::WebState;
use crate::web::error::Error;
use crate::web::extract::{Path, Query};
use crate::web::staff::frame::places;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(join))
        .with(routes!(mine))
        .with(routes!(show, change, leave))
        .with(routes!(pause))
        .with(routes!(resume))
}

/// About whom a caller asks.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
pub(super) struct Whose {
    /// Needed by programs: the address of the person. Customers ask for themselves.
    email: String,
}

impl Whose {
    /// A customer themselves, or for a program the person with this address in its organization, if anybody has it.
    pub(super) async fn persons(&self, state: &WebState, caller: &Caller) -> Result<Vec<PersonId>, Failed> {
        if let Who::Person(person, _) = caller.who {
            return Ok(vec![person]);
        }
        caller.require(Scope::EntriesRead)?;
        let email = EmailAddress::parse(&self.email).map_err(|error| Refusal::field("email", error))?;
        Ok(state.db.person_by_email(caller.organization(), &email).await?.into_iter().collect())
    }
}

/// An entry that is this caller's to see: with what it is, and in whose name the caller acts on it.
pub(super) async fn entry_of(
    state: &WebState,
    caller: &Caller,
    id: EntryId,
    scope: Scope,
) -> Result<MyEntry, Failed> {
    let entry = state.db.my_entry(id).await?;
    caller.require_of(entry.event.organizer.id, entry.person, scope)?;
    Ok(entry)
}

/// The entry as it is now.
pub(super) async fn entry_now(state: &WebState, caller: &Caller, id: EntryId) -> Result<EntryView, Failed> {
    Ok(EntryView::of(state.db.my_entry(id).await?, matches!(caller.who, Who::Key(_))))
}

/// Somebody's wish to be on a list.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct JoinRequest {
    /// How many places, all or none.
    #[serde(default = "one")]
    #[schema(minimum = 1, maximum = 100, default = 1)]
    party: i32,
    /// What is wanted of a place, by the keys of the event's attributes; anything without it.
    #[serde(default)]
    #[schema(schema_with = super::views::wants_described)]
    wants: WantsView,
    /// Needed by programs: the address of the person.
    #[schema(example = "ada@example.org")]
    email: Option<String>,
    /// Needed by programs, also for an address that is known: what the person wants to be called. It is kept only for an
    /// address that is new.
    #[schema(example = "Ada Lovelace")]
    name: Option<String>,
}

pub(super) fn one() -> i32 {
    1
}

/// Join the list
///
/// A customer joins for themselves, and is refused with `capacity_available` where places are free for everybody: book
/// instead. A program joins a person and answers for the address: their first accept on the pages asks for a code all the
/// same. It may do so while places are free, too: the person is offered one if the rule has a window.
///
/// Joining again is answered with the entry as it is, whatever `party` and `wants` it was sent with: `PATCH
/// /v1/waitlist/{entry}` changes them.
#[utoipa::path(post, path = "/v1/resources/{event}/waitlist:join", tag = "Entries", params(("event" = String, Path)),
    request_body = JoinRequest,
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 200, description = "On the list, now or before.", body = EntryView)))]
async fn join(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Json(request): Json<JoinRequest>,
) -> Result<Answer<EntryView>, Failed> {
    let event = caller.event(&state, &event).await?;
    let wants = wants(&event.attributes, &request.wants)?;
    party(request.party)?;
    let (name, email, as_whom) = match &caller.who {
        Who::Person(person, _) => {
            let me = state.db.person(*person).await?;
            let name = PersonName::parse(&me.name).map_err(Error::internal)?;
            (name, EmailAddress::parse(&me.email).map_err(Error::internal)?, JoinAs::SignedIn(*person))
        }
        Who::Key(_) => {
            caller.require(Scope::EntriesWrite)?;
            let (name, email) = somebody(request.name.as_deref(), request.email.as_deref())?;
            (name, email, JoinAs::Vouched(caller.actor()))
        }
    };
    let command = Join { name, email, party: request.party, wants, as_whom };
    match state.together.join(event.id, command).await? {
        JoinOutcome::Joined(entry) | JoinOutcome::Already(entry) => {
            Ok(Answer::ok(entry_now(&state, &caller, entry.id).await?))
        }
        outcome => Err(not_joined(&outcome).into()),
    }
}

/// Whom a program acts for.
pub(super) fn somebody(
    name: Option<&str>,
    email: Option<&str>,
) -> Result<(PersonName, EmailAddress), Failed> {
    let email =
        EmailAddress::parse(email.unwrap_or_default()).map_err(|error| Refusal::field("email", error))?;
    let name = PersonName::parse(name.unwrap_or_default()).map_err(|error| Refusal::field("name", error))?;
    Ok((name, email))
}

/// Refuses a party that no event has.
pub(super) fn party(party: i32) -> Result<(), Failed> {
    if (1..=crate::domain::policy::PARTY_MAX).contains(&party) {
        Ok(())
    } else {
        Err(Refusal::field("party", "A party has 1 to 100 places.").into())
    }
}

/// More than one person may have.
pub(super) fn enough(enough: Enough) -> Refusal {
    Refusal::new(
        Code::TooMany,
        format!("One person may have {} here, and has {} already.", places(enough.most), enough.has),
    )
    .with("limit", enough.most)
    .with("has", enough.has)
}

/// A larger party than the rule allows.
pub(super) fn too_large(most: i32) -> Refusal {
    Refusal::new(Code::TooMany, format!("A party here has at most {}.", places(most))).with("limit", most)
}

/// Why somebody is not on the list, for staff and their programs.
#[must_use]
pub fn not_joined(outcome: &JoinOutcome) -> Refusal {
    match outcome {
        JoinOutcome::Frozen => {
            Refusal::new(Code::ListNotOpen, "The list takes nobody new at the moment.").with("list", "frozen")
        }
        JoinOutcome::Closed => Refusal::new(Code::ListNotOpen, "The list is closed.").with("list", "closed"),
        JoinOutcome::ListFull => Refusal::new(Code::ListFull, "The list has as many people as it may have."),
        JoinOutcome::PartyTooLarge(most) => too_large(*most),
        JoinOutcome::Enough(has) => enough(*has),
        JoinOutcome::PlacesFree => {
            Refusal::new(Code::CapacityAvailable, "There are free places now: book instead of waiting.")
        }
        JoinOutcome::TooManyWants => too_many_wants(),
        JoinOutcome::NotOnSale => {
            Refusal::new(Code::NotOnSale, "The event is not public, cancelled, over, or has started.")
        }
        JoinOutcome::Joined(_) | JoinOutcome::Already(_) => Refusal::new(Code::Internal, "Joined."),
    }
}

fn too_many_wants() -> Refusal {
    Refusal::new(
        Code::TooMany,
        "People on this list want as many different things as it can tell apart. Want a little less exactly.",
    )
}

/// The entries of one person
///
/// Live ones first, then those of the last 90 days; 200 at most. A program names the person by `email`.
#[utoipa::path(get, path = "/v1/waitlist", tag = "Entries", params(Whose),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "Their entries.", body = Vec<EntryView>)))]
async fn mine(
    State(state): State<WebState>,
    caller: Caller,
    Query(whose): Query<Whose>,
) -> Result<Answer<Vec<EntryView>>, Failed> {
    let persons = whose.persons(&state, &caller).await?;
    let entries = state.db.my_entries(&persons, caller.now).await?;
    let for_staff = matches!(caller.who, Who::Key(_));
    Ok(Answer::ok(entries.into_iter().map(|entry| EntryView::of(entry, for_staff)).collect()))
}

/// An entry with what it wants.
#[derive(Debug, Serialize, ToSchema)]
struct EntryDetail {
    #[serde(flatten)]
    entry: EntryView,
    /// What is wanted of a place.
    #[schema(schema_with = super::views::wants_described)]
    wants: WantsView,
    /// When it joined.
    joined_at: DateTime<Utc>,
    /// It was set aside after an offer was revoked: passed over until staff decide.
    set_aside: bool,
    /// Until when it is paused.
    paused_until: Option<DateTime<Utc>>,
}

async fn detail(state: &WebState, caller: &Caller, entry: MyEntry) -> Result<EntryDetail, Failed> {
    let stored = state.db.entry_in(entry.event.id, entry.id).await?;
    let wants = if stored.wants == 0 {
        BTreeMap::new()
    } else {
        wants_view(&state.db.wants(entry.event.id, stored.wants).await?.0)
    };
    Ok(EntryDetail {
        entry: EntryView::of(entry, matches!(caller.who, Who::Key(_))),
        wants,
        joined_at: stored.joined_at,
        set_aside: stored.set_aside,
        paused_until: stored.paused_until,
    })
}

/// An entry
#[utoipa::path(get, path = "/v1/waitlist/{entry}", tag = "Entries", params(("entry" = EntryId, Path)),
    security(("key" = ["entries:read"]), ("customer" = [])),
    responses((status = 200, description = "The entry.", body = EntryDetail)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
) -> Result<Answer<EntryDetail>, Failed> {
    let entry = entry_of(&state, &caller, id, Scope::EntriesRead).await?;
    Ok(Answer::ok(detail(&state, &caller, entry).await?))
}

/// What is asked for from now on. What is left out stays.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct ChangeRequest {
    /// How many places. More than before is a new request at the end of the line.
    #[schema(minimum = 1, maximum = 100)]
    party: Option<i32>,
    /// What is wanted of a place, all of it.
    #[schema(schema_with = super::views::wants_described)]
    wants: Option<WantsView>,
    /// Needed by programs: why, a code of `GET /v1/reasons` with `for_staff`. Customers need none.
    #[serde(default)]
    reason: String,
    /// For programs: in one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

/// Change what is asked for
///
/// Fewer places, or other kinds of places, keep the rank; more places go to the end of the line. Not while offered: answer
/// the offer first.
#[utoipa::path(patch, path = "/v1/waitlist/{entry}", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = ChangeRequest,
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 200, description = "As it is now.", body = EntryDetail)))]
async fn change(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<ChangeRequest>,
) -> Result<Answer<EntryDetail>, Failed> {
    let entry = entry_of(&state, &caller, id, Scope::EntriesWrite).await?;
    let event = state.db.event(entry.event.id).await?;
    let asked = request.party.unwrap_or(entry.party);
    party(asked)?;
    let wanted = match &request.wants {
        Some(view) => wants(&event.attributes, view)?,
        None => state.db.wants(event.id, state.db.entry_in(event.id, id).await?.wants).await?.0,
    };
    let reason = reason_of(&caller, &request.reason, &request.note, Reason::CustomerAsked)?;
    let outcome =
        state.waitlist().change_wants(event.id, id, asked, &wanted, caller.actor(), &reason).await?;
    let refusal = match outcome {
        WantsOutcome::Changed { .. } | WantsOutcome::Already => {
            return Ok(Answer::ok(detail(&state, &caller, state.db.my_entry(id).await?).await?));
        }
        WantsOutcome::Offered => Refusal::new(
            Code::WrongState,
            "There is a live offer, which keeps what was asked for. Answer it first.",
        ),
        WantsOutcome::Over(state) => over(state),
        WantsOutcome::TooManyWants => too_many_wants(),
        WantsOutcome::BadParty(most) => too_large(most),
        WantsOutcome::Enough(has) => enough(has),
    };
    Err(refusal.into())
}

/// Why a caller acts: programs say it, customers have one reason.
pub(super) fn reason_of(
    caller: &Caller,
    reason: &str,
    note: &str,
    own: Reason,
) -> Result<StaffReason, Failed> {
    match caller.who {
        Who::Person(..) => Ok(StaffReason { reason: own, note: None }),
        Who::Key(_) => because(reason, note),
    }
}

/// The entry is over, or not in the line.
pub(super) fn over(state: EntryState) -> Refusal {
    Refusal::new(Code::WrongState, format!("The entry is {state}: that cannot be done in this state."))
        .with("state", state)
}

/// Leave the list
///
/// While offered this declines the offer, too. Leaving twice does no harm. A program says why it takes somebody off, here by
/// `reason` and `note` in the address, or by `POST /v1/waitlist/{entry}:remove`: the offer is taken back then. 409
/// `being_confirmed`: their accept is just being confirmed by the booking service; repeat after `Retry-After`.
#[utoipa::path(delete, path = "/v1/waitlist/{entry}", tag = "Entries", params(("entry" = EntryId, Path), Because),
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn leave(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Query(because): Query<Because>,
) -> Result<Answer<EntryView>, Failed> {
    let entry = entry_of(&state, &caller, id, Scope::EntriesWrite).await?;
    let (waitlist, event) = (state.waitlist(), entry.event.id);
    let outcome = match caller.who {
        Who::Person(..) => waitlist.leave(event, id, caller.actor()).await?,
        Who::Key(_) => waitlist.remove(event, id, caller.actor(), &because.parse()?).await?,
    };
    left(&state, &caller, id, outcome).await
}

/// The entry as it is after it was taken off the list.
pub(super) async fn left(
    state: &WebState,
    caller: &Caller,
    id: EntryId,
    outcome: LeaveOutcome,
) -> Result<Answer<EntryView>, Failed> {
    match outcome {
        LeaveOutcome::Left { .. } | LeaveOutcome::Already(EntryState::Withdrawn | EntryState::Removed) => {
            Ok(Answer::ok(entry_now(state, caller, id).await?))
        }
        LeaveOutcome::Already(state) => Err(over(state).into()),
        LeaveOutcome::BeingConfirmed => Err(being_confirmed().into()),
    }
}

/// The booking service has not said.
pub(super) fn being_confirmed() -> Refusal {
    Refusal::new(
        Code::BeingConfirmed,
        "The places are just being confirmed by the booking service. Ask again in a moment.",
    )
    .again_in(5)
}

/// A pause.
#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
struct PauseRequest {
    /// Until then; until resumed without it.
    until: Option<DateTime<Utc>>,
    /// Needed by programs: why, a code of `GET /v1/reasons` with `for_staff`. Customers need none.
    reason: String,
    /// For programs: in one's own words; needed with the reason `other`.
    note: String,
}

/// Pause an entry
///
/// It keeps its rank and is passed over until the instant given, or until resumed.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:pause", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = PauseRequest,
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn pause(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<PauseRequest>,
) -> Result<Answer<EntryView>, Failed> {
    let entry = entry_of(&state, &caller, id, Scope::EntriesWrite).await?;
    let reason = reason_of(&caller, &request.reason, &request.note, Reason::Paused)?;
    let by = if matches!(caller.who, Who::Key(_)) { PausedBy::Staff } else { PausedBy::Person };
    let event = entry.event.id;
    let outcome = state.waitlist().pause(event, id, by, request.until, caller.actor(), &reason).await?;
    paused(&state, &caller, id, outcome).await
}

/// Resume an entry
///
/// It is served again, at its rank. What staff paused, staff resume.
#[utoipa::path(post, path = "/v1/waitlist/{entry}:resume", tag = "Entries", params(("entry" = EntryId, Path)),
    request_body = Because,
    security(("key" = ["entries:write"]), ("customer" = [])),
    responses((status = 200, description = "As it is now.", body = EntryView)))]
async fn resume(
    State(state): State<WebState>,
    caller: Caller,
    Path(id): Path<EntryId>,
    Json(request): Json<Because>,
) -> Result<Answer<EntryView>, Failed> {
    let entry = entry_of(&state, &caller, id, Scope::EntriesWrite).await?;
    let reason = reason_of(&caller, &request.reason, &request.note, Reason::Resumed)?;
    let outcome = state.waitlist().resume(entry.event.id, id, caller.actor(), &reason).await?;
    paused(&state, &caller, id, outcome).await
}

/// The entry as it is after a pause began or ended.
pub(super) async fn paused(
    state: &WebState,
    caller: &Caller,
    id: EntryId,
    outcome: PauseOutcome,
) -> Result<Answer<EntryView>, Failed> {
    match outcome {
        PauseOutcome::Done | PauseOutcome::Already => Ok(Answer::ok(entry_now(state, caller, id).await?)),
        PauseOutcome::PausedByStaff => Err(Refusal::new(
            Code::WrongState,
            "The organizer paused it, and only they can resume it. Nothing was done.",
        )
        .with("paused", PausedBy::Staff)
        .into()),
        PauseOutcome::BadUntil => Err(Refusal::field(
            "until",
            "The end of a pause has to be in the future, and before the year 10000.",
        )
        .into()),
        PauseOutcome::NotWaiting(now) => Err(over(now).into()),
    }
}
