//! Keys for programs: made by owners, and by programs that may, for no more and no longer than they have themselves.

use chrono::{DateTime, Duration, Utc};

use crate::db::idempotency::name_of_act;
use crate::db::keys::{ApiKey, NewKey};
use crate::db::{Db, DbError};
use crate::domain::audit::Actor;
use crate::domain::ids::{KeyId, OrganizationId, StaffId};
use crate::domain::key::{KeyName, LONGEST_LIFE, Scope, hint};
use crate::domain::secret::{Secret, token_hash};

/// Who makes a key.
#[derive(Clone, Copy, Debug)]
pub enum Maker<'a> {
    /// Somebody of the staff.
    Staff(StaffId),
    /// A program, by showing this key.
    Key(&'a ApiKey),
}

/// A key that is wanted.
#[derive(Clone, Debug)]
pub struct WantedKey {
    /// What it is called.
    pub name: KeyName,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// How long.
    pub life: Duration,
}

/// What came of wanting one.
#[derive(Clone, Debug)]
pub enum MakeOutcome {
    /// It is made; and what a program shows, which is nowhere but here.
    Made(Box<ApiKey>, String),
    /// Good for nothing.
    NoScope,
    /// The program that asks may not do this itself.
    Wider(Scope),
    /// Longer than two years, or than the key that asks is good, or no time at all.
    Longer(DateTime<Utc>),
    /// The key that asks was just taken back.
    TakenBack,
}

/// Makes a key. What a program shows is derived from its id, so that an answer that was lost can be given again to whoever
/// repeats the act under its name, without the key lying anywhere.
///
/// # Errors
/// What the database says.
pub async fn make(
    db: &Db,
    secret: &Secret,
    organization: OrganizationId,
    wanted: WantedKey,
    by: Maker<'_>,
) -> Result<MakeOutcome, DbError> {
    let id = KeyId(name_of_act().unwrap_or_else(|| db.entropy().id()));
    let token = secret.api_key(id);
    match db.key(organization, id).await {
        Ok(made) => return Ok(MakeOutcome::Made(Box::new(made), token)),
        Err(DbError::NotFound) => {}
        Err(error) => return Err(error),
    }
    let now = db.session_now().await?;
    let (actor, most) = match by {
        Maker::Staff(staff) => (Actor::Staff(staff), now + LONGEST_LIFE),
        Maker::Key(key) => {
            if let Some(scope) = wanted.scopes.iter().find(|scope| !key.scopes.contains(scope)) {
                return Ok(MakeOutcome::Wider(*scope));
            }
            (Actor::Key(key.id), key.expires_at.min(now + LONGEST_LIFE))
        }
    };
    if wanted.scopes.is_empty() {
        return Ok(MakeOutcome::NoScope);
    }
    let expires_at = now.checked_add_signed(wanted.life).filter(|at| now < *at && *at <= most);
    let Some(expires_at) = expires_at else { return Ok(MakeOutcome::Longer(most)) };
    let new = NewKey { name: wanted.name, scopes: wanted.scopes, expires_at };
    let shown = (token_hash(&token), hint(&token));
    db.add_key(id, organization, &new, (shown.0, &shown.1), actor).await?;
    match db.key(organization, id).await {
        Ok(made) => Ok(MakeOutcome::Made(Box::new(made), token)),
        Err(DbError::NotFound) => Ok(MakeOutcome::TakenBack),
        Err(error) => Err(error),
    }
}
