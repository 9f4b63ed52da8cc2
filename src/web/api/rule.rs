//! An event's rule: as it is, as it was, and changed.

use axum::extract::State;
use axum::http::HeaderMap;
use chrono::{DateTime, Duration, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Given, Json, Versioned, because};
use super::problem::{Code, Failed, Refusal};
use super::running::{changed, version_read};
use crate::domain::contact::is_plain_line;
use crate::domain::key::Scope;
use crate::domain::policy::{
    After, Band, Beacon, Draws, Fit, Mode, Ordering, Policy, PolicyError, PositionShown, Telling,
};
use crate::waitlist::events::RuleOutcome;
use crate::web::WebState;
use crate::web::extract::Path;
use crate::web::staff::policy::field_of;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(show, change)).with(routes!(versions))
}

/// A group that goes first.
#[derive(Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
struct BandView {
    /// Its number; given when the group is made, and below 0.
    #[serde(default, skip_deserializing)]
    number: i16,
    /// “Members”, “Residents”.
    name: String,
    /// Why they go first.
    reason: String,
}

impl From<&Band> for BandView {
    fn from(band: &Band) -> Self {
        Self { number: band.number, name: band.name.clone(), reason: band.reason.clone() }
    }
}

/// One version of an event's rule.
#[derive(Debug, Serialize, ToSchema)]
struct PolicyView {
    /// Goes up by one with every change; offers name the version under which they were made.
    version: i32,
    /// In words: what happens by itself.
    words: Vec<String>,
    /// In which order people are served.
    ordering: Ordering,
    /// What an offer is.
    mode: Mode,
    /// How long an offer lives, in seconds; null, as in a new event: people join, and nothing is offered by itself.
    window_seconds: Option<i64>,
    /// At most so many holds pending at once; 0: as many as there are places.
    batch_size: i32,
    /// From then on everybody who could take an open place is called.
    cutoff: Option<DateTime<Utc>>,
    /// When the head of the list wants more places than are open.
    fit: Fit,
    /// After a deadline passed without an answer.
    after_expiry: After,
    /// After “no, thank you”.
    after_decline: After,
    /// After so many offers in a row without an answer the entry is paused.
    silence_limit: i32,
    /// When telling of an offer fails.
    telling: Telling,
    /// What a waiting customer is told of their place in the line.
    position_shown: PositionShown,
    /// At most so many live entries.
    list_cap: Option<i32>,
    /// At most so many places for one entry.
    party_limit: Option<i32>,
    /// At most so many places for one person.
    person_limit: Option<i32>,
    /// Who goes first, the first of all first.
    bands: Vec<BandView>,
    /// Whether people are told their group.
    bands_shown: bool,
    /// When draws are held: `need`, `at`, `staff`.
    draws: &'static str,
    /// The instant of a draw.
    draw_at: Option<DateTime<Utc>>,
    /// The public source of chance that takes part.
    beacon: Option<Beacon>,
}

impl From<&Policy> for PolicyView {
    fn from(policy: &Policy) -> Self {
        let mut words = vec![policy.by_itself()];
        words.extend(policy.details());
        Self {
            version: policy.version,
            words,
            ordering: policy.ordering,
            mode: policy.mode,
            window_seconds: policy.window.map(|window| window.num_seconds()),
            batch_size: policy.batch_size,
            cutoff: policy.cutoff,
            fit: policy.fit,
            after_expiry: policy.after_expiry,
            after_decline: policy.after_decline,
            silence_limit: policy.silence_limit,
            telling: policy.telling,
            position_shown: policy.position_shown,
            list_cap: policy.list_cap,
            party_limit: policy.party_limit,
            person_limit: policy.person_limit,
            bands: policy.bands.iter().map(Into::into).collect(),
            bands_shown: policy.bands_shown,
            draws: policy.draws.as_str(),
            draw_at: policy.draws.at(),
            beacon: policy.beacon,
        }
    }
}

/// The rule in force
///
/// Its entity tag is good for `If-Match`.
#[utoipa::path(get, path = "/v1/events/{event}/policy", tag = "The rule", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "The rule.", body = PolicyView)))]
async fn show(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Versioned<PolicyView>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(Versioned(event.form_version, (&state.db.policy(event.id).await?).into()))
}

/// A version, with who made it and when.
#[derive(Debug, Serialize, ToSchema)]
struct VersionView {
    /// The rule.
    policy: PolicyView,
    /// By whom, if it was somebody of the staff.
    made_by: Option<String>,
    /// When.
    made_at: DateTime<Utc>,
}

/// Every version of the rule
///
/// The newest first.
#[utoipa::path(get, path = "/v1/events/{event}/policy/versions", tag = "The rule", params(("event" = String, Path)),
    security(("key" = ["events:read"])),
    responses((status = 200, description = "All of them.", body = Vec<VersionView>)))]
async fn versions(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<Vec<VersionView>>, Failed> {
    caller.require(Scope::EventsRead)?;
    let event = caller.event(&state, &event).await?;
    let versions = state.db.policy_history(event.id).await?;
    let view = |version: &crate::db::policies::PolicyVersion| VersionView {
        policy: (&version.policy).into(),
        made_by: version.made_by.clone(),
        made_at: version.made_at,
    };
    Ok(Answer::ok(versions.iter().map(view).collect()))
}

/// What the rule is to be. What is left out stays; what is null is emptied.
#[derive(Debug, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(super) struct PolicyChange {
    /// In which order people are served.
    ordering: Option<Ordering>,
    /// What an offer is.
    mode: Option<Mode>,
    /// How long an offer lives: 300 to 604,800 seconds, or null for a passive list.
    #[serde(default)]
    #[schema(value_type = Option<i64>, minimum = 300, maximum = 604_800)]
    window_seconds: Given<i64>,
    /// At most so many holds pending at once: 0 to 10,000.
    batch_size: Option<i32>,
    /// From then on everybody who could take an open place is called.
    #[serde(default)]
    #[schema(value_type = Option<DateTime<Utc>>)]
    cutoff: Given<DateTime<Utc>>,
    /// When the head of the list wants more places than are open.
    fit: Option<Fit>,
    /// After a deadline passed without an answer.
    after_expiry: Option<After>,
    /// After “no, thank you”.
    after_decline: Option<After>,
    /// After so many offers in a row without an answer the entry is paused: 1 to 100.
    silence_limit: Option<i32>,
    /// When telling of an offer fails.
    telling: Option<Telling>,
    /// What a waiting customer is told of their place in the line.
    position_shown: Option<PositionShown>,
    /// At most so many live entries.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    list_cap: Given<i32>,
    /// At most so many places for one entry: 1 to 100.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    party_limit: Given<i32>,
    /// At most so many places for one person: 1 to 100.
    #[serde(default)]
    #[schema(value_type = Option<i32>)]
    person_limit: Given<i32>,
    /// Who goes first, all groups, the first of all first.
    bands: Option<Vec<BandView>>,
    /// Whether people are told their group.
    bands_shown: Option<bool>,
    /// When draws are held: `need`, `at` (with `draw_at`), `staff`.
    draws: Option<String>,
    /// The instant of a draw.
    draw_at: Option<DateTime<Utc>>,
    /// The public source of chance that takes part.
    #[serde(default)]
    #[schema(value_type = Option<Beacon>)]
    beacon: Given<Beacon>,
    /// Why: a code of `GET /v1/reasons` with `for_staff`; to try a rule out needs no reason.
    #[serde(default)]
    reason: String,
    /// In one's own words; needed with the reason `other`.
    #[serde(default)]
    note: String,
}

impl PolicyChange {
    pub(super) fn over(&self, before: &Policy) -> Result<Policy, Failed> {
        let bands = match &self.bands {
            Some(bands) => {
                let plain = |band: &BandView| is_plain_line(&band.name) && is_plain_line(&band.reason);
                if !bands.iter().all(plain) {
                    return Err(refused(PolicyError::Bands).into());
                }
                let wanted =
                    bands.iter().map(|band| (band.name.trim().to_owned(), band.reason.trim().to_owned()));
                before.number_bands(wanted.collect()).map_err(refused)?
            }
            None => before.bands.clone(),
        };
        let ordering = self.ordering.unwrap_or(before.ordering);
        let lottery = ordering == Ordering::Lottery;
        let draws = match (self.draws.as_deref(), self.draw_at) {
            (None, None) if lottery => before.draws,
            (None | Some("need"), None) => Draws::AtNeed,
            (Some("staff"), None) => Draws::ByStaff,
            (Some("at") | None, Some(at)) => Draws::At(at),
            _ => {
                return Err(Refusal::field(
                    "draws",
                    "Draws are held at `need`, `at` an instant, or by `staff`.",
                )
                .into());
            }
        };
        let window = match self.window_seconds {
            Given::LeftOut => before.window,
            Given::Null => None,
            Given::Value(seconds) => {
                Some(Duration::try_seconds(seconds).ok_or_else(|| refused(PolicyError::Window))?)
            }
        };
        let instants = [("cutoff", self.cutoff.over(None)), ("draw_at", self.draw_at)];
        for (field, at) in instants {
            if at.is_some_and(|at| !(0..=253_402_300_799).contains(&at.timestamp())) {
                return Err(Refusal::field(field, "An instant is between 1970 and 9999.").into());
            }
        }
        Ok(Policy {
            version: before.version,
            ordering,
            bands,
            bands_shown: self.bands_shown.unwrap_or(before.bands_shown),
            draws,
            beacon: self.beacon.over(before.beacon.filter(|_| lottery)),
            mode: self.mode.unwrap_or(before.mode),
            window,
            cutoff: self.cutoff.over(before.cutoff),
            batch_size: self.batch_size.unwrap_or(before.batch_size),
            fit: self.fit.unwrap_or(before.fit),
            after_expiry: self.after_expiry.unwrap_or(before.after_expiry),
            after_decline: self.after_decline.unwrap_or(before.after_decline),
            silence_limit: self.silence_limit.unwrap_or(before.silence_limit),
            telling: self.telling.unwrap_or(before.telling),
            list_cap: self.list_cap.over(before.list_cap),
            party_limit: self.party_limit.over(before.party_limit),
            person_limit: self.person_limit.over(before.person_limit),
            position_shown: self.position_shown.unwrap_or(before.position_shown),
        })
    }
}

pub(super) fn refused(error: PolicyError) -> Refusal {
    // The form has a number and a unit, programs have seconds.
    let field = field_of(error);
    Refusal::field(if field == "window" { "window_seconds" } else { field }, error)
}

/// Change the rule
///
/// A change is a new version, touches only future offers, and starts a pass. `If-Match` names the event's `version` that was
/// read: the `ETag` of the event or of its rule, with its quotes.
#[utoipa::path(patch, path = "/v1/events/{event}/policy", tag = "The rule",
    params(("event" = String, Path), ("If-Match" = String, Header, description = "The ETag of the event or its rule that was read, quotes included.")),
    request_body = PolicyChange,
    security(("key" = ["events:write"])),
    responses((status = 200, description = "The rule in force.", body = PolicyView)))]
async fn change(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    headers: HeaderMap,
    Json(request): Json<PolicyChange>,
) -> Result<Answer<PolicyView>, Failed> {
    caller.require(Scope::EventsWrite)?;
    let event = caller.event(&state, &event).await?;
    let version = version_read(&headers)?;
    let policy = request.over(&state.db.policy(event.id).await?)?;
    let reason = because(&request.reason, &request.note)?;
    match state.waitlist().change_policy(event.id, &policy, version, caller.actor(), &reason).await? {
        RuleOutcome::Saved(_) => Ok(Answer::ok((&state.db.policy(event.id).await?).into())),
        RuleOutcome::Conflict => Err(changed().into()),
        RuleOutcome::Refused(error) => Err(refused(error).into()),
        RuleOutcome::BandInUse { band, entries } => Err(Refusal::new(
            Code::Taken,
            format!(
                "{entries} people are in the group “{}”: put them into another before it goes.",
                band.name
            ),
        )
        .into()),
    }
}
