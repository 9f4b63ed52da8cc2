//! `fairlist check`: the invariants of the whole database, each a query (or a recomputation) that finds nothing
//! while all is well.
//!
//! Everything is read in one snapshot, so it may run beside a live service; nothing is written. Queries go over
//! sets, and what has to be recomputed here (the audit chain, the tokens) is read in bounded batches.

mod audit;
mod feed;
mod lists;
mod messages;
mod offers;
mod places;
mod replay;
mod service;

use chrono::{DateTime, Duration, Utc};
use sqlx::{Connection, PgConnection};
use uuid::Uuid;

use super::{Db, DbError};
use crate::domain::secret::Secret;
use crate::domain::words;

words! {
    /// What must hold.
    Invariant {
        /// Capacity and the kept counts of places.
        Capacity = "I1",
        /// One promise per place.
        OnePromise = "I2",
        /// One live offer per entry.
        OneLiveOffer = "I3",
        /// One live entry per person and event.
        OneLiveEntry = "I4",
        /// Offers, places, bookings and entries agree.
        PartyServed = "I5",
        /// One booking attempt per offer.
        OneAttempt = "I6",
        /// States, instants and the kept counts of entries agree.
        StateInstants = "I7",
        /// Deadlines were kept.
        Deadlines = "I8",
        /// Nothing is overdue.
        Overdue = "I9",
        /// Nobody was passed over in silence.
        PassedOver = "I10",
        /// At rest nobody could be offered anything.
        AtRest = "I11",
        /// Every offer was told.
        OfferTold = "I12",
        /// Nothing is told twice.
        ToldOnce = "I13",
        /// No delivery is in limbo.
        Limbo = "I14",
        /// What is marked told was delivered.
        Delivered = "I15",
        /// A release counts once.
        ReleasedOnce = "I16",
        /// The audit chain is whole.
        AuditChain = "I17",
        /// Every transition is in the audit.
        AuditComplete = "I18",
        /// Every token belongs to its offer.
        Tokens = "I19",
        /// No connection of ours sits in a transaction.
        IdleTransaction = "I20",
        /// Sessions end when they should.
        Sessions = "I21",
        /// Passes run soon after they are asked for.
        PassRequests = "I22",
        /// Other systems are told of everything, once, in order.
        Feed = "I23",
        /// They are told soon.
        FeedLag = "I24",
    }
}

impl Invariant {
    /// The rule in one sentence.
    #[must_use]
    pub fn rule(self) -> &'static str {
        match self {
            Self::Capacity => {
                "Capacity is open plus held plus booked less what is to be retired, and the kept counts say so."
            }
            Self::OnePromise => "A place is promised once: to one hold or to one booking.",
            Self::OneLiveOffer => "An entry has at most one live offer.",
            Self::OneLiveEntry => "A person has at most one live entry on an event.",
            Self::PartyServed => {
                "An accepted offer has as many bookings as its party, a live hold as many places, \
                 and an entry is offered exactly while it has a live offer."
            }
            Self::OneAttempt => {
                "An offer has at most one booking attempt that succeeded or is unresolved: \
                 unresolved exactly while it is being confirmed, and succeeded only once it is accepted."
            }
            Self::StateInstants => "States fit their instants, and the kept counts of entries are right.",
            Self::Deadlines => {
                "Offers are accepted before their deadline, expire at or after it, and never outlive the start."
            }
            Self::Overdue => "A pending offer is ended within 60 seconds of its deadline.",
            Self::PassedOver => {
                "Whoever was eligible and before somebody who was offered a place has a recorded skip."
            }
            Self::AtRest => "At rest there is no open place that the rule would offer to somebody.",
            Self::OfferTold => "Every offer, and every time it was given again, has its message.",
            Self::ToldOnce => "One occasion of one subject is told once.",
            Self::Limbo => {
                "No delivery is in limbo: its lease over by 60 seconds, or past the last attempt; \
                 and no booking attempt is overdue by 60 seconds."
            }
            Self::Delivered => "A message marked told has a delivery that was accepted.",
            Self::ReleasedOnce => "A release is applied once.",
            Self::AuditChain => "The audit has no gap, and every record fits the one before it.",
            Self::AuditComplete => "Every transition has its audit record.",
            Self::Tokens => "An offer's token is its own and nobody else's.",
            Self::IdleTransaction => "No connection of this program is idle in a transaction for 10 seconds.",
            Self::Sessions => "No session lives that was revoked or is over its age.",
            Self::PassRequests => "A pass runs within 60 seconds of being asked for.",
            Self::Feed => {
                "The feed has every transition of the audit once, in the audit's order, and its numbers have no gap."
            }
            Self::FeedLag => "What is recorded is in the feed within 60 seconds.",
        }
    }

    /// Whether it is only late while no service runs that would do the work.
    #[must_use]
    pub fn is_lag(self) -> bool {
        matches!(self, Self::Overdue | Self::Limbo | Self::PassRequests | Self::FeedLag)
    }
}

/// One thing that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it breaks.
    pub invariant: Invariant,
    /// The rows concerned: the event first, where there is one.
    pub ids: Vec<Uuid>,
    /// What is wrong, in one sentence.
    pub sentence: String,
    /// Work that waits because the service is stopped: not a fault.
    pub lag: bool,
}

/// What the check has to know beside the database.
#[derive(Clone, Debug)]
pub struct CheckSettings {
    /// The installation's secret, from which tokens are derived; without it they are only compared with each other.
    pub secret: Option<Secret>,
    /// Whether a service runs on this database; when not, what is late is lag.
    pub served: bool,
    /// A connection may be idle in a transaction for less than this.
    pub idle_limit: Duration,
    /// The age at which a session of the staff ends, however much it is used.
    pub staff_session: Duration,
    /// The same for a customer's.
    pub customer_session: Duration,
}

impl CheckSettings {
    /// The settings of a database whose service runs.
    #[must_use]
    pub fn new(secret: Secret) -> Self {
        Self { secret: Some(secret), ..Self::default() }
    }
}

impl Default for CheckSettings {
    /// The limits of the design, and a service that runs.
    fn default() -> Self {
        Self {
            secret: None,
            served: true,
            idle_limit: Duration::seconds(10),
            staff_session: Duration::hours(12),
            customer_session: Duration::days(365),
        }
    }
}

/// At most so many findings of one query: enough to see what happened, however large the damage.
const MOST: i64 = 200;

/// What one query found.
struct Row {
    ids: Vec<Uuid>,
    sentence: String,
}

/// A check under way.
struct Check<'a> {
    connection: &'a mut PgConnection,
    settings: &'a CheckSettings,
    now: DateTime<Utc>,
    findings: Vec<Finding>,
}

impl Check<'_> {
    fn found(&mut self, invariant: Invariant, ids: Vec<Uuid>, sentence: String) {
        let lag = invariant.is_lag() && !self.settings.served;
        self.findings.push(Finding { invariant, ids, sentence, lag });
    }

    fn take(&mut self, invariant: Invariant, rows: Vec<Row>) {
        let cut = i64::try_from(rows.len()).is_ok_and(|found| found >= MOST);
        for row in rows {
            self.found(invariant, row.ids, row.sentence);
        }
        if cut {
            self.found(invariant, vec![], format!("only the first {MOST} of this kind are listed"));
        }
    }
}

/// Runs a query that answers `ids` and `sentence` of every offending row; its first argument is how many at most.
macro_rules! rows {
    ($check:expr, $invariant:ident, $sql:literal $(, $argument:expr)* $(,)?) => {{
        let rows = sqlx::query_as!(crate::db::check::Row, $sql, crate::db::check::MOST $(, $argument)*)
            .fetch_all(&mut *$check.connection)
            .await?;
        $check.take(crate::db::check::Invariant::$invariant, rows);
    }};
}
use rows;

impl Db {
    /// Checks every invariant in one snapshot. An empty answer is a sound database.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn check(&self, settings: &CheckSettings) -> Result<Vec<Finding>, DbError> {
        let now = self.now().await?;
        let mut connection = self.pool().acquire().await?;
        let mut tx = connection.begin_with("BEGIN ISOLATION LEVEL REPEATABLE READ, READ ONLY").await?;
        // Scans of everything take longer than a page may.
        sqlx::raw_sql(
            "SET LOCAL statement_timeout = '30min'; SET LOCAL idle_in_transaction_session_timeout = '5min'",
        )
        .execute(&mut *tx)
        .await?;
        let mut check = Check { connection: &mut tx, settings, now, findings: Vec::new() };
        places::check(&mut check).await?;
        offers::check(&mut check).await?;
        lists::check(&mut check).await?;
        messages::check(&mut check).await?;
        audit::check(&mut check).await?;
        service::check(&mut check).await?;
        feed::check(&mut check).await?;
        let mut findings = check.findings;
        tx.rollback().await?;
        findings.sort_by_key(|finding| finding.invariant);
        Ok(findings)
    }

    /// Whether another connection of this program is there: a service runs on this database.
    ///
    /// # Errors
    /// When the database cannot be read.
    pub async fn is_served(&self) -> Result<bool, DbError> {
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM pg_stat_activity
                              WHERE application_name = $1 AND datname = current_database()
                                AND pid <> pg_backend_pid()) AS "served!""#,
            super::APPLICATION_NAME
        )
        .fetch_one(self.pool())
        .await?)
    }
}
