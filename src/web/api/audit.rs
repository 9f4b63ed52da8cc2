//! The audit: its records with all that is hashed of them, whole chains as tables, their heads, and whether they are sound.

use axum::extract::State;
use axum::response::Response;
use chrono::{DateTime, Utc};
use serde::{Deserialize, Serialize};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::routes;

use super::Api;
use super::caller::Caller;
use super::json::{Answer, Listed, Paging};
use super::problem::Failed;
use crate::db::audit_chains::ChainCheck;
use crate::db::pages_history::AuditFilter;
use crate::domain::audit::anchor::{Anchor, FORMAT, ORGANIZATION};
use crate::domain::audit::{Act, ChainOf, FullRecord};
use crate::domain::ids::{EventId, OrganizationId};
use crate::domain::key::Scope;
use crate::web::WebState;
use crate::web::extract::{Path, Query};
use crate::web::staff::export;

pub(super) fn add(api: Api) -> Api {
    api.with(routes!(records))
        .with(routes!(table))
        .with(routes!(anchor))
        .with(routes!(verification))
        .with(routes!(organization_records))
        .with(routes!(organization_table))
        .with(routes!(organization_anchor))
        .with(routes!(organization_verification))
}

/// A record of the audit, with all that is hashed of it. What is hashed is in the order of the table's columns.
#[derive(Debug, Serialize, ToSchema)]
struct RecordView {
    /// Its number in the chain, without a gap.
    seq: i64,
    /// When.
    at: DateTime<Utc>,
    /// Who: `system`, `person`, `staff`, `key`, `operator`.
    actor: String,
    /// Whose id.
    actor_id: Option<String>,
    /// What they are called, where it is staff or a key; not hashed.
    by: Option<String>,
    /// What.
    act: String,
    /// To what.
    subject: String,
    /// Its id.
    subject_id: String,
    /// The state before.
    from: Option<String>,
    /// The state after.
    to: Option<String>,
    /// Why.
    reason: String,
    /// The entry concerned.
    entry: Option<String>,
    /// The entry's place in the order.
    order_key: Option<String>,
    /// Under which version of the rule.
    policy_version: Option<i32>,
    /// A salted digest of the note, in hexadecimal digits.
    note_digest: Option<String>,
    /// The note, unless it was erased.
    note: Option<String>,
    /// Its salt, in hexadecimal digits.
    note_salt: Option<String>,
    /// The hash of this record and all before.
    hash: String,
}

impl From<FullRecord> for RecordView {
    fn from(full: FullRecord) -> Self {
        let FullRecord { record, hash, by, note } = full;
        let (note, note_salt) = note.map(|note| (note.text, hex::encode(note.salt))).unzip();
        Self {
            seq: record.seq,
            at: record.at,
            actor: record.actor,
            actor_id: record.actor_id.map(|id| id.to_string()),
            by,
            act: record.act,
            subject: record.subject,
            subject_id: record.subject_id.to_string(),
            from: record.from_state,
            to: record.to_state,
            reason: record.reason,
            entry: record.entry_id.map(|id| id.to_string()),
            order_key: record.order_key,
            policy_version: record.policy_version,
            note_digest: record.note_digest.map(hex::encode),
            note,
            note_salt,
            hash: hex::encode(hash),
        }
    }
}

fn listed(rows: Vec<FullRecord>, paging: &Paging) -> Answer<Listed<RecordView>> {
    Answer::ok(Listed::of(rows, paging.limit(), |full| full.record.seq.to_string(), Into::into))
}

/// Which records.
#[derive(Debug, Default, Deserialize, IntoParams)]
#[serde(default)]
#[into_params(parameter_in = Query)]
struct RecordsQuery {
    /// Only of this act.
    act: Option<Act>,
    /// Only about these: `entry`, `offer`, `place`, `booking`, `event` …
    subject: Option<String>,
    /// Only by these: `system`, `person`, `staff`, `key`, `operator`.
    actor: Option<String>,
}

/// The audit of an event
///
/// In order, from the beginning. `after` is the last `seq`. Without a filter the rows are the whole chain, and can be
/// checked; `audit.csv` is the same as the file that `fairlist verify audit.csv --anchor anchor.json` takes, a command of the
/// program that serves this. Whoever checks it by a program of their own: a record's hash is SHA-256 of the hash before
/// (32 zero bytes before the first) and the columns of the CSV from `seq` to `note_digest` in order, each as its length in
/// four bytes, the highest first, and its bytes; an empty column is the length `ffffffff` alone. Numbers are eight bytes,
/// `at` is microseconds since 1970, ids are their sixteen bytes, `note_digest` its 32, words UTF-8. `note_digest` is
/// SHA-256 of the salt's bytes and the note.
#[utoipa::path(get, path = "/v1/events/{event}/audit", tag = "Audit",
    params(("event" = String, Path), RecordsQuery, Paging),
    security(("key" = ["audit:read"])),
    responses((status = 200, description = "A page of records.", body = Listed<RecordView>)))]
async fn records(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
    Query(query): Query<RecordsQuery>,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<RecordView>>, Failed> {
    caller.require(Scope::AuditRead)?;
    let event = caller.event(&state, &event).await?;
    let after = paging.parse(|text| text.parse::<i64>().ok())?.unwrap_or(0);
    let chosen = |text: Option<String>| text.filter(|text| !text.is_empty());
    let wanted = AuditFilter {
        act: query.act,
        subject: chosen(query.subject),
        actor: chosen(query.actor),
        before: None,
    };
    let rows = state.db.audit_records_wanted(event.id, &wanted, after, paging.one_more()).await?;
    Ok(listed(rows, &paging))
}

/// The audit of an event as a table
///
/// All of it: the file that the page *Audit* gives, which `fairlist verify` checks.
#[utoipa::path(get, path = "/v1/events/{event}/audit.csv", tag = "Audit", params(("event" = String, Path)),
    security(("key" = ["audit:read"])),
    responses((status = 200, description = "The table.", body = String, content_type = "text/csv")))]
async fn table(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Response, Failed> {
    caller.require(Scope::AuditRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(export::chain(&state, event.id.into(), &event.slug))
}

/// The head of a chain, to be kept elsewhere: the file that `fairlist verify --anchor` takes.
#[derive(Debug, Serialize, ToSchema)]
struct AnchorView {
    /// Always `fairlist-anchor/1`.
    format: &'static str,
    /// Of which event.
    event: Option<EventId>,
    /// Or of which organization, for what was done outside events.
    organization: Option<OrganizationId>,
    /// The number of the last record.
    seq: i64,
    /// Its hash.
    hash: String,
    /// When.
    at: Option<DateTime<Utc>>,
}

impl From<Anchor> for AnchorView {
    fn from(anchor: Anchor) -> Self {
        let (event, organization) = match anchor.of {
            Some(ChainOf::Event(event)) => (Some(event), None),
            Some(ChainOf::Organization(organization)) => (None, Some(organization)),
            None => (None, None),
        };
        let Anchor { seq, hash, at, .. } = anchor;
        Self { format: FORMAT, event, organization, seq, hash: hex::encode(hash), at }
    }
}

/// The head of an event's audit
///
/// Keep it elsewhere, as it is: with it, `fairlist verify` finds whether the end was cut off. (By mail it goes to owners,
/// from the page *Audit*.)
#[utoipa::path(get, path = "/v1/events/{event}/audit/anchor", tag = "Audit", params(("event" = String, Path)),
    security(("key" = ["audit:read"])),
    responses((status = 200, description = "The head.", body = AnchorView)))]
async fn anchor(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<AnchorView>, Failed> {
    caller.require(Scope::AuditRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(Answer::ok(state.db.anchor_of_event(event.id).await?.into()))
}

/// What verifying a chain came to.
#[derive(Debug, Serialize, ToSchema)]
struct VerificationView {
    /// Whether everything that was looked at is sound.
    sound: bool,
    /// Whether that is all of it. What is too long is left to `fairlist verify` and the table.
    complete: bool,
    /// So many records from the first on are sound.
    records: i64,
    /// The hash of the last one, where all are sound.
    head: Option<String>,
    /// What is wrong, in a sentence.
    fault: Option<String>,
    /// The first record that is not sound.
    at: Option<i64>,
}

impl From<ChainCheck> for VerificationView {
    fn from(check: ChainCheck) -> Self {
        let (fault, at) = (check.fault(), check.at());
        let (records, head) = match check {
            ChainCheck::Sound(chain) => (chain.seq, Some(hex::encode(chain.head))),
            ChainCheck::Unfinished(records) => (records, None),
            ChainCheck::Length { last, head } => (last.min(head), None),
            ChainCheck::Fault(_) | ChainCheck::Head(_) => (at.map_or(0, |at| (at - 1).max(0)), None),
        };
        let complete = !matches!(check, ChainCheck::Unfinished(_));
        Self { sound: fault.is_none(), complete, records, head, fault, at }
    }
}

/// Verify the audit of an event
///
/// Computes every hash again, where it is kept, for at most three seconds. Looking changes nothing.
#[utoipa::path(get, path = "/v1/events/{event}/audit/verification", tag = "Audit", params(("event" = String, Path)),
    security(("key" = ["audit:read"])),
    responses((status = 200, description = "What it came to.", body = VerificationView)))]
async fn verification(
    State(state): State<WebState>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Answer<VerificationView>, Failed> {
    caller.require(Scope::AuditRead)?;
    let event = caller.event(&state, &event).await?;
    Ok(Answer::ok(state.db.verify_chain(event.id.into()).await?.into()))
}

/// The organization's audit
///
/// What was done outside events: who may act, webhooks, keys. In order, from the beginning. Scope
/// `organization_audit:read`.
#[utoipa::path(get, path = "/v1/audit", tag = "Audit", params(Paging),
    security(("key" = ["organization_audit:read"])),
    responses((status = 200, description = "A page of records.", body = Listed<RecordView>)))]
async fn organization_records(
    State(state): State<WebState>,
    caller: Caller,
    Query(paging): Query<Paging>,
) -> Result<Answer<Listed<RecordView>>, Failed> {
    caller.require(Scope::OrganizationAuditRead)?;
    let after = paging.parse(|text| text.parse::<i64>().ok())?.unwrap_or(0);
    let rows = state.db.audit_records(caller.organization(), after, paging.one_more()).await?;
    Ok(listed(rows, &paging))
}

/// The organization's audit as a table
///
/// All of it, for `fairlist verify`.
#[utoipa::path(get, path = "/v1/audit.csv", tag = "Audit",
    security(("key" = ["organization_audit:read"])),
    responses((status = 200, description = "The table.", body = String, content_type = "text/csv")))]
async fn organization_table(State(state): State<WebState>, caller: Caller) -> Result<Response, Failed> {
    caller.require(Scope::OrganizationAuditRead)?;
    Ok(export::chain(&state, caller.organization().into(), ORGANIZATION))
}

/// The head of the organization's audit
///
/// To be kept elsewhere.
#[utoipa::path(get, path = "/v1/audit/anchor", tag = "Audit",
    security(("key" = ["organization_audit:read"])),
    responses((status = 200, description = "The head.", body = AnchorView)))]
async fn organization_anchor(
    State(state): State<WebState>,
    caller: Caller,
) -> Result<Answer<AnchorView>, Failed> {
    caller.require(Scope::OrganizationAuditRead)?;
    Ok(Answer::ok(state.db.anchor_of_organization(caller.organization()).await?.into()))
}

/// Verify the organization's audit
///
/// As that of an event.
#[utoipa::path(get, path = "/v1/audit/verification", tag = "Audit",
    security(("key" = ["organization_audit:read"])),
    responses((status = 200, description = "What it came to.", body = VerificationView)))]
async fn organization_verification(
    State(state): State<WebState>,
    caller: Caller,
) -> Result<Answer<VerificationView>, Failed> {
    caller.require(Scope::OrganizationAuditRead)?;
    Ok(Answer::ok(state.db.verify_chain(caller.organization().into()).await?.into()))
}
