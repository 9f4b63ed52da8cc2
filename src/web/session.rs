//! Sessions of both cookies, in the database: ids are hashed, a session is inserted once, a save never brings
//! back one that was ended, and lifetimes are the server's business, not the cookie's.

use std::borrow::Cow;
use std::fmt;

use async_trait::async_trait;
use chrono::Duration;
use sha2::{Digest, Sha256};
use time::OffsetDateTime;
use tower_sessions::cookie::SameSite;
use tower_sessions::session::{Id, Record};
use tower_sessions::session_store::{Error as StoreError, Result as StoreResult};
use tower_sessions::{Expiry, SessionManagerLayer, SessionStore};
use uuid::Uuid;

use super::Settings;
use crate::db::sessions::{NewSession, SessionKind};
use crate::db::{Db, DbError};

/// In a staff session: who is signed in.
pub const STAFF: &str = "staff";
/// In a customer's session: the persons that the device is signed in as.
pub const PERSONS: &str = "persons";

/// The longest a staff session lives.
const STAFF_ABSOLUTE: Duration = Duration::hours(12);
/// A customer's device stays signed in while it is used within this time …
const CUSTOMER_IDLE: Duration = Duration::days(90);
/// … but never longer than this.
const CUSTOMER_ABSOLUTE: Duration = Duration::days(365);
/// A session without anybody signed in only carries a form from one page to the next.
const NOBODY_IDLE: Duration = Duration::hours(12);

/// Our store.
#[derive(Clone)]
pub struct Store {
    db: Db,
    kind: SessionKind,
    idle: Duration,
    absolute: Duration,
}

impl fmt::Debug for Store {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Store").field("kind", &self.kind).finish_non_exhaustive()
    }
}

/// What is kept of a session's id. The form token is another hash of it (see `csrf`), so neither tells the other.
#[must_use]
pub fn id_hash(id: Id) -> [u8; 32] {
    Sha256::new().chain_update(b"fairlist session").chain_update(id.0.to_le_bytes()).finalize().into()
}

#[expect(clippy::needless_pass_by_value, reason = "given to map_err")]
fn backend(error: DbError) -> StoreError {
    tracing::warn!(%error, source = ?std::error::Error::source(&error), "session store");
    StoreError::Backend("the database does not answer".to_owned())
}

fn encode(record: &Record) -> StoreResult<serde_json::Value> {
    serde_json::to_value(&record.data).map_err(|error| StoreError::Encode(error.to_string()))
}

#[async_trait]
impl SessionStore for Store {
    /// Always under an id of our own making: a session that was cleared would otherwise be written under the id
    /// the browser sent.
    async fn create(&self, record: &mut Record) -> StoreResult<()> {
        let data = encode(record)?;
        let subject =
            record.data.get(STAFF).and_then(|id| id.as_str()).and_then(|id| id.parse::<Uuid>().ok());
        let signed_in = subject.is_some() || record.data.contains_key(PERSONS);
        for _ in 0..3 {
            let bytes = self.db.entropy().bytes();
            let mut id = [0; 16];
            id.copy_from_slice(&bytes[..16]);
            record.id = Id(i128::from_le_bytes(id));
            let session = NewSession {
                id_hash: id_hash(record.id),
                kind: self.kind,
                data: data.clone(),
                subject,
                idle: if signed_in { self.idle } else { NOBODY_IDLE.min(self.absolute) },
                absolute: self.absolute,
            };
            if self.db.insert_session(&session).await.map_err(backend)? {
                return Ok(());
            }
        }
        Err(StoreError::Backend("no free session id".to_owned()))
    }

    async fn save(&self, record: &Record) -> StoreResult<()> {
        if !self.db.update_session(id_hash(record.id), self.kind, &encode(record)?).await.map_err(backend)? {
            tracing::debug!("a session that is over was not brought back");
        }
        Ok(())
    }

    async fn load(&self, id: &Id) -> StoreResult<Option<Record>> {
        let Some(data) = self.db.session_data(id_hash(*id), self.kind).await.map_err(backend)? else {
            return Ok(None);
        };
        let data = serde_json::from_value(data).map_err(|error| StoreError::Decode(error.to_string()))?;
        // Lifetimes are checked where the row was read; this date is not used.
        Ok(Some(Record { id: *id, data, expiry_date: OffsetDateTime::UNIX_EPOCH }))
    }

    async fn delete(&self, id: &Id) -> StoreResult<()> {
        self.db.revoke_session(id_hash(*id)).await.map_err(backend)
    }
}

/// The layer that gives staff pages their session.
#[must_use]
pub fn staff_layer(db: &Db, settings: &Settings) -> SessionManagerLayer<Store> {
    let idle = settings.staff_idle.min(STAFF_ABSOLUTE);
    let store = Store { db: db.clone(), kind: SessionKind::Staff, idle, absolute: STAFF_ABSOLUTE };
    layer(store, "fairlist-staff", settings).with_expiry(Expiry::OnSessionEnd)
}

/// The layer that gives all other pages their session.
#[must_use]
pub fn customer_layer(db: &Db, settings: &Settings) -> SessionManagerLayer<Store> {
    let store = Store {
        db: db.clone(),
        kind: SessionKind::Customer,
        idle: CUSTOMER_IDLE,
        absolute: CUSTOMER_ABSOLUTE,
    };
    layer(store, "fairlist", settings)
        .with_expiry(Expiry::OnInactivity(time::Duration::days(CUSTOMER_ABSOLUTE.num_days())))
}

/// `Lax`, or somebody who comes from a link in a mail arrives signed out.
fn layer(store: Store, name: &'static str, settings: &Settings) -> SessionManagerLayer<Store> {
    let name: Cow<'static, str> =
        if settings.https() { Cow::Owned(format!("__Host-{name}")) } else { Cow::Borrowed(name) };
    SessionManagerLayer::new(store)
        .with_name(name)
        .with_secure(settings.https())
        .with_http_only(true)
        .with_same_site(SameSite::Lax)
        .with_path("/")
}

/// How long a customer's session lives without use.
#[must_use]
pub fn customer_idle() -> Duration {
    CUSTOMER_IDLE
}
