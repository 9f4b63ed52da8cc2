//! What programs show with their requests: keys of organizations, and tokens of customers. Only hashes are kept.

use chrono::{DateTime, Utc};
use sqlx::PgConnection;

use super::events::word;
use super::{Db, DbError, audit};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::{KeyId, OrganizationId, PersonId};
use crate::domain::key::{KeyName, Scope};
use crate::domain::reason::Reason;

/// A key, as its organization's owners see it.
#[derive(Clone, Debug)]
pub struct ApiKey {
    /// Its id.
    pub id: KeyId,
    /// Whose it is.
    pub organization: OrganizationId,
    /// What it is called.
    pub name: String,
    /// What it is good for.
    pub scopes: Vec<Scope>,
    /// How it begins.
    pub hint: String,
    /// Who made it, by name: somebody of the staff, or a program.
    pub made_by: Option<String>,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// From when on it is worth nothing.
    pub expires_at: DateTime<Utc>,
    /// When it was taken back.
    pub revoked_at: Option<DateTime<Utc>>,
    /// When it was last shown, to the minute.
    pub last_used_at: Option<DateTime<Utc>>,
}

impl ApiKey {
    /// Whether it is good for anything at `now`.
    #[must_use]
    pub fn is_live(&self, now: DateTime<Utc>) -> bool {
        self.revoked_at.is_none() && now < self.expires_at
    }
}

/// A key to be made.
#[derive(Clone, Debug)]
pub struct NewKey {
    /// What it is called.
    pub name: KeyName,
    /// What it is good for; at least one.
    pub scopes: Vec<Scope>,
    /// From when on it is worth nothing.
    pub expires_at: DateTime<Utc>,
}

struct KeyRow {
    id: uuid::Uuid,
    organization_id: uuid::Uuid,
    name: String,
    scopes: Vec<String>,
    hint: String,
    maker: Option<String>,
    made_at: DateTime<Utc>,
    expires_at: DateTime<Utc>,
    revoked_at: Option<DateTime<Utc>>,
    last_used_at: Option<DateTime<Utc>>,
}

impl TryFrom<KeyRow> for ApiKey {
    type Error = DbError;

    fn try_from(row: KeyRow) -> Result<Self, DbError> {
        Ok(Self {
            id: KeyId(row.id),
            organization: OrganizationId(row.organization_id),
            name: row.name,
            scopes: row
                .scopes
                .iter()
                .map(|scope| word(Scope::parse, "scope", scope))
                .collect::<Result<_, _>>()?,
            hint: row.hint,
            made_by: row.maker,
            made_at: row.made_at,
            expires_at: row.expires_at,
            revoked_at: row.revoked_at,
            last_used_at: row.last_used_at,
        })
    }
}

macro_rules! select_keys {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            KeyRow,
            r#"SELECT k.id, k.organization_id, k.name, k.scopes, k.hint, coalesce(s.name, m.name) AS maker, k.made_at,
                      k.expires_at, k.revoked_at, k.last_used_at
               FROM api_keys k LEFT JOIN staff s ON s.id = k.made_by LEFT JOIN api_keys m ON m.id = k.made_by_key "# + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// Makes a key under this id, once: `false` when it was made before, or when the key that asks for it was taken back
    /// meanwhile.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_key(
        &self,
        id: KeyId,
        organization: OrganizationId,
        new: &NewKey,
        (token_hash, hint): ([u8; 32], &str),
        by: Actor,
    ) -> Result<bool, DbError> {
        let now = self.session_now().await?;
        let scopes: Vec<String> = new.scopes.iter().map(|scope| scope.as_str().to_owned()).collect();
        let key = if let Actor::Key(key) = by { Some(key.0) } else { None };
        let mut tx = self.sessions().begin().await?;
        lock(&mut tx, organization).await?;
        let made = sqlx::query!(
            "INSERT INTO api_keys (id, organization_id, name, scopes, token_hash, hint, made_by, made_by_key, made_at, expires_at)
             SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10
             WHERE $8::uuid IS NULL OR EXISTS (SELECT FROM api_keys WHERE id = $8 AND revoked_at IS NULL)
             ON CONFLICT (id) DO NOTHING",
            id.0,
            organization.0,
            new.name.as_str(),
            &scopes,
            &token_hash[..],
            hint,
            by.staff().map(|by| by.0),
            key,
            now,
            new.expires_at
        )
        .execute(&mut *tx)
        .await?
        .rows_affected();
        if made == 0 {
            return Ok(false);
        }
        let record = Record::new(now, by, Act::AccessChanged, Subject::Key(id), Reason::SetUp)
            .states(None, Some("live"));
        audit::append_to_organization(&mut tx, organization, &record).await?;
        tx.commit().await?;
        Ok(true)
    }

    /// Takes a key back, and with it those that were made by showing it, and by showing those; says how many there are
    /// in all. None when it was before, or is none of this organization's.
    ///
    /// # Errors
    /// What the database says.
    pub async fn revoke_key(
        &self,
        organization: OrganizationId,
        key: KeyId,
        by: Actor,
    ) -> Result<usize, DbError> {
        let now = self.session_now().await?;
        let mut tx = self.sessions().begin().await?;
        lock(&mut tx, organization).await?;
        let revoked = sqlx::query_scalar!(
            "WITH RECURSIVE family AS (
                 SELECT id FROM api_keys WHERE id = $1 AND organization_id = $2 AND revoked_at IS NULL
                 UNION SELECT k.id FROM api_keys k JOIN family f ON k.made_by_key = f.id)
             UPDATE api_keys SET revoked_at = $3 WHERE id IN (SELECT id FROM family) AND revoked_at IS NULL RETURNING id",
            key.0,
            organization.0,
            now
        )
        .fetch_all(&mut *tx)
        .await?;
        for id in &revoked {
            let subject = Subject::Key(KeyId(*id));
            let record = Record::new(now, by, Act::AccessChanged, subject, Reason::SetUp)
                .states(Some("live"), Some("revoked"));
            audit::append_to_organization(&mut tx, organization, &record).await?;
        }
        tx.commit().await?;
        Ok(revoked.len())
    }

    /// Whether a key is this other one, or was made by showing it, or by showing one that was.
    ///
    /// # Errors
    /// What the database says.
    pub async fn descends(&self, key: KeyId, from: KeyId) -> Result<bool, DbError> {
        Ok(sqlx::query_scalar!(
            r#"WITH RECURSIVE line AS (
                   SELECT id, made_by_key FROM api_keys WHERE id = $1
                   UNION SELECT k.id, k.made_by_key FROM api_keys k JOIN line l ON k.id = l.made_by_key)
               SELECT EXISTS (SELECT FROM line WHERE id = $2) AS "does!""#,
            key.0,
            from.0
        )
        .fetch_one(self.sessions())
        .await?)
    }

    /// One key of an organization, whether it is good for anything or not.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when it has none with this id.
    pub async fn key(&self, organization: OrganizationId, key: KeyId) -> Result<ApiKey, DbError> {
        select_keys!("WHERE k.organization_id = $1 AND k.id = $2", organization.0, key.0)
            .fetch_one(self.sessions())
            .await?
            .try_into()
    }

    /// The keys of an organization, those that nobody took back first, and the newest of them; at most 200.
    ///
    /// # Errors
    /// What the database says.
    pub async fn keys(&self, organization: OrganizationId) -> Result<Vec<ApiKey>, DbError> {
        let rows = select_keys!(
            "WHERE k.organization_id = $1 ORDER BY k.revoked_at IS NOT NULL, k.made_at DESC, k.id LIMIT 200",
            organization.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(TryInto::try_into).collect()
    }

    /// The key with this hash, if it is good for anything at `now`. That it was used is noted once a minute.
    ///
    /// # Errors
    /// What the database says.
    pub async fn key_shown(
        &self,
        token_hash: [u8; 32],
        now: DateTime<Utc>,
    ) -> Result<Option<ApiKey>, DbError> {
        let row =
            select_keys!("WHERE k.token_hash = $1", &token_hash[..]).fetch_optional(self.sessions()).await?;
        self.used(row, now).await
    }

    /// The key with this id, the same way: for what is signed, instead of shown.
    ///
    /// # Errors
    /// What the database says.
    pub async fn key_named(&self, key: KeyId, now: DateTime<Utc>) -> Result<Option<ApiKey>, DbError> {
        let row = select_keys!("WHERE k.id = $1", key.0).fetch_optional(self.sessions()).await?;
        self.used(row, now).await
    }

    async fn used(&self, row: Option<KeyRow>, now: DateTime<Utc>) -> Result<Option<ApiKey>, DbError> {
        let Some(key) = row.map(ApiKey::try_from).transpose()?.filter(|key| key.is_live(now)) else {
            return Ok(None);
        };
        if key.last_used_at.is_none_or(|used| now - used >= chrono::Duration::minutes(1)) {
            sqlx::query!("UPDATE api_keys SET last_used_at = $2 WHERE id = $1", key.id.0, now)
                .execute(self.sessions())
                .await?;
        }
        Ok(Some(key))
    }

    /// Keeps the hash of a customer's token.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_customer_token(
        &self,
        token_hash: [u8; 32],
        person: PersonId,
        now: DateTime<Utc>,
        expires_at: DateTime<Utc>,
    ) -> Result<(), DbError> {
        sqlx::query!(
            "INSERT INTO customer_tokens (token_hash, person_id, made_at, expires_at) VALUES ($1, $2, $3, $4)",
            &token_hash[..],
            person.0,
            now,
            expires_at
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Whose token this is, and of which organization they are a customer, if it is good at `now`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn customer_token_shown(
        &self,
        token_hash: [u8; 32],
        now: DateTime<Utc>,
    ) -> Result<Option<(PersonId, OrganizationId)>, DbError> {
        let row = sqlx::query!(
            "SELECT p.id, p.organization_id FROM customer_tokens t JOIN persons p ON p.id = t.person_id
             WHERE t.token_hash = $1 AND t.revoked_at IS NULL AND t.expires_at > $2",
            &token_hash[..],
            now
        )
        .fetch_optional(self.sessions())
        .await?;
        Ok(row.map(|row| (PersonId(row.id), OrganizationId(row.organization_id))))
    }

    /// Makes a customer's token worthless.
    ///
    /// # Errors
    /// What the database says.
    pub async fn end_customer_token(&self, token_hash: [u8; 32], now: DateTime<Utc>) -> Result<(), DbError> {
        sqlx::query!(
            "UPDATE customer_tokens SET revoked_at = $2 WHERE token_hash = $1 AND revoked_at IS NULL",
            &token_hash[..],
            now
        )
        .execute(self.sessions())
        .await?;
        Ok(())
    }

    /// Forgets tokens long worthless and answers kept for longer than a day; says how many.
    ///
    /// # Errors
    /// What the database says.
    pub async fn sweep_api(&self) -> Result<u64, DbError> {
        let now = self.now().await?;
        let tokens = sqlx::query!(
            "DELETE FROM customer_tokens WHERE token_hash IN (
                 SELECT token_hash FROM customer_tokens WHERE expires_at < $1 ORDER BY expires_at LIMIT 1000)",
            now - chrono::Duration::days(30)
        )
        .execute(self.pool())
        .await?;
        let answers = sqlx::query!(
            "DELETE FROM idempotency_keys WHERE key_hash IN (
                 SELECT key_hash FROM idempotency_keys WHERE made_at < $1 ORDER BY made_at LIMIT 1000)",
            now - super::idempotency::KEPT_FOR
        )
        .execute(self.pool())
        .await?;
        Ok(tokens.rows_affected() + answers.rows_affected())
    }
}

/// Keys are made and taken back one at a time: none is made by one that is being taken back.
async fn lock(connection: &mut PgConnection, organization: OrganizationId) -> Result<(), DbError> {
    sqlx::query!("SELECT id FROM organizations WHERE id = $1 FOR NO KEY UPDATE", organization.0)
        .fetch_one(connection)
        .await?;
    Ok(())
}
