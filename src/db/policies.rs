//! The versions of an event's rule.

use chrono::{DateTime, Duration, Utc};
use sqlx::PgConnection;
use sqlx::types::Json;
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::EventId;
use crate::domain::policy::{
    After, Band, Beacon, Draws, Fit, Mode, Ordering, Policy, PositionShown, Telling,
};
use crate::domain::reason::StaffReason;

struct PolicyRow {
    version: i32,
    ordering: String,
    bands: Json<Vec<Band>>,
    bands_shown: bool,
    draws: String,
    draw_at: Option<DateTime<Utc>>,
    beacon: Option<String>,
    mode: String,
    window_seconds: Option<i32>,
    cutoff: Option<DateTime<Utc>>,
    batch_size: i32,
    fit: String,
    after_expiry: String,
    after_decline: String,
    silence_limit: i32,
    telling: String,
    list_cap: Option<i32>,
    party_limit: Option<i32>,
    person_limit: Option<i32>,
    position_shown: String,
}

impl TryFrom<PolicyRow> for Policy {
    type Error = DbError;

    fn try_from(row: PolicyRow) -> Result<Self, DbError> {
        Ok(Self {
            version: row.version,
            ordering: word(Ordering::parse, "ordering", &row.ordering)?,
            bands: row.bands.0,
            bands_shown: row.bands_shown,
            draws: match (row.draws.as_str(), row.draw_at) {
                ("need", None) => Draws::AtNeed,
                ("at", Some(at)) => Draws::At(at),
                ("staff", None) => Draws::ByStaff,
                _ => return Err(DbError::Unreadable("draws", row.draws)),
            },
            beacon: row.beacon.map(|beacon| word(Beacon::parse, "beacon", &beacon)).transpose()?,
            mode: word(Mode::parse, "mode", &row.mode)?,
            cutoff: row.cutoff,
            window: row.window_seconds.map(|seconds| Duration::seconds(seconds.into())),
            batch_size: row.batch_size,
            fit: word(Fit::parse, "fit", &row.fit)?,
            after_expiry: word(After::parse, "after expiry", &row.after_expiry)?,
            after_decline: word(After::parse, "after decline", &row.after_decline)?,
            silence_limit: row.silence_limit,
            telling: word(Telling::parse, "telling", &row.telling)?,
            list_cap: row.list_cap,
            party_limit: row.party_limit,
            person_limit: row.person_limit,
            position_shown: word(PositionShown::parse, "position shown", &row.position_shown)?,
        })
    }
}

macro_rules! select_policies {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            PolicyRow,
            "SELECT version, ordering, bands AS \"bands: Json<Vec<Band>>\", bands_shown, draws, draw_at, beacon, mode, \
             window_seconds, cutoff, batch_size, fit, after_expiry, after_decline, \
             silence_limit, telling, list_cap, party_limit, person_limit, position_shown FROM policies " + $tail,
            $($argument),*
        )
    };
}

pub(super) async fn insert(
    connection: &mut PgConnection,
    event: EventId,
    policy: &Policy,
    made_by: Option<Uuid>,
    now: chrono::DateTime<chrono::Utc>,
) -> Result<(), DbError> {
    let window = policy.window.map(|window| i32::try_from(window.num_seconds()).unwrap_or(i32::MAX));
    sqlx::query!(
        "INSERT INTO policies (event_id, version, ordering, mode, window_seconds, batch_size, fit, after_expiry,
                               after_decline, silence_limit, list_cap, party_limit, position_shown, made_by, made_at,
                               bands, bands_shown, draws, draw_at, beacon, cutoff, telling, person_limit)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19, $20, $21, $22, $23)",
        event.0,
        policy.version,
        policy.ordering.as_str(),
        policy.mode.as_str(),
        window,
        policy.batch_size,
        policy.fit.as_str(),
        policy.after_expiry.as_str(),
        policy.after_decline.as_str(),
        policy.silence_limit,
        policy.list_cap,
        policy.party_limit,
        policy.position_shown.as_str(),
        made_by,
        now,
        Json(&policy.bands) as _,
        policy.bands_shown,
        policy.draws.as_str(),
        policy.draws.at(),
        policy.beacon.map(Beacon::as_str),
        policy.cutoff,
        policy.telling.as_str(),
        policy.person_limit
    )
    .execute(connection)
    .await?;
    Ok(())
}

impl LockedEvent {
    /// The rule in force.
    ///
    /// # Errors
    /// What the database says.
    pub async fn policy(&mut self) -> Result<Policy, DbError> {
        let (event, version) = (self.id(), self.event().policy_version);
        select_policies!("WHERE event_id = $1 AND version = $2", event.0, version)
            .fetch_one(self.connection())
            .await?
            .try_into()
    }

    /// The versions named, for offers made under them.
    ///
    /// # Errors
    /// What the database says.
    pub async fn policy_versions(&mut self, versions: &[i32]) -> Result<Vec<Policy>, DbError> {
        let event = self.id();
        select_policies!("WHERE event_id = $1 AND version = ANY($2)", event.0, versions)
            .fetch_all(self.connection())
            .await?
            .into_iter()
            .map(Policy::try_from)
            .collect()
    }

    /// An instant of the rule that has come is no longer due; the next one is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn rule_is_due(&mut self, policy: &Policy) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        if policy.draws.at().is_none() && policy.cutoff.is_none() {
            return Ok(());
        }
        sqlx::query!(
            "UPDATE events SET rule_due_at = $3 WHERE id = $1 AND rule_due_at <= $2",
            event.0,
            now,
            policy.due_after(now)
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// The final call is made: from now on its instant is fixed.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_final_call(&mut self) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        sqlx::query!("UPDATE events SET final_called_at = $2 WHERE id = $1", event.0, now)
            .execute(self.connection())
            .await?;
        self.event_mut().final_called_at = Some(now);
        Ok(())
    }

    /// Puts a new version in force. It touches only future offers.
    ///
    /// # Errors
    /// What the database says; `policy` must have passed [`Policy::check`].
    pub async fn change_policy(
        &mut self,
        mut policy: Policy,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<i32, DbError> {
        let (event, now) = (self.id(), self.now());
        policy.version = self.event().policy_version + 1;
        insert(self.connection(), event, &policy, actor.staff().map(|id| id.0), now).await?;
        sqlx::query!(
            "UPDATE events SET policy_version = $2, rule_due_at = $3 WHERE id = $1",
            event.0,
            policy.version,
            policy.due_after(now)
        )
        .execute(self.connection())
        .await?;
        self.event_mut().policy_version = policy.version;
        let mut record =
            Record::new(now, actor, Act::RuleChanged, Subject::Event(event), reason.reason).noted(reason);
        record.policy_version = Some(policy.version);
        self.record(record);
        Ok(policy.version)
    }
}

/// A version with who made it and when.
#[derive(Clone, Debug)]
pub struct PolicyVersion {
    /// The settings.
    pub policy: Policy,
    /// The name of who made it; none for the first and for imports.
    pub made_by: Option<String>,
    /// When.
    pub made_at: chrono::DateTime<chrono::Utc>,
}

impl Db {
    /// The rule in force.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such event.
    pub async fn policy(&self, event: EventId) -> Result<Policy, DbError> {
        select_policies!(
            "WHERE event_id = $1 AND version = (SELECT policy_version FROM events WHERE id = $1)",
            event.0
        )
        .fetch_one(self.pool())
        .await?
        .try_into()
    }

    /// Every version of an event's rule, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn policy_history(&self, event: EventId) -> Result<Vec<PolicyVersion>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT p.version, p.made_at, s.name AS "name?" FROM policies p LEFT JOIN staff s ON s.id = p.made_by
               WHERE p.event_id = $1 ORDER BY p.version DESC LIMIT 200"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        let versions: Vec<Policy> =
            select_policies!("WHERE event_id = $1 ORDER BY version DESC LIMIT 200", event.0)
                .fetch_all(self.pool())
                .await?
                .into_iter()
                .map(Policy::try_from)
                .collect::<Result<_, DbError>>()?;
        Ok(versions
            .into_iter()
            .filter_map(|policy| {
                let row = rows.iter().find(|row| row.version == policy.version)?;
                Some(PolicyVersion { policy, made_by: row.name.clone(), made_at: row.made_at })
            })
            .collect())
    }
}
