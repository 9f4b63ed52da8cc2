//! Where an event's places are booked, if not here, and how the services are doing.

use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use sqlx::PgExecutor;

use super::{Db, DbError, LockedEvent};
use crate::domain::ids::{AttemptId, EventId, OrganizationId, StaffId};
use crate::domain::outside::{Gate, ServiceState, ServiceUrl, TRIP_AFTER, rest_after};

/// The service of an event.
#[derive(Clone, Debug)]
pub struct BookingService {
    /// Whose.
    pub organization: OrganizationId,
    /// Where.
    pub url: ServiceUrl,
    /// What it is shown, sealed.
    pub sealed_key: Vec<u8>,
    /// Since when.
    pub set_at: DateTime<Utc>,
}

/// How a service is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Circuit {
    /// Calls in a row that failed.
    pub failures: i32,
    /// No call is tried before this.
    pub open_until: Option<DateTime<Utc>>,
    /// What went wrong last.
    pub last_error: Option<(String, DateTime<Utc>)>,
    /// When it last answered.
    pub last_success_at: Option<DateTime<Utc>>,
}

impl Circuit {
    /// How the service is called at `now`.
    #[must_use]
    pub fn state(&self, now: DateTime<Utc>) -> ServiceState {
        if self.open_until.is_some_and(|until| until > now) {
            ServiceState::LeftAlone
        } else if self.failures > 0 {
            ServiceState::Failing
        } else {
            ServiceState::Called
        }
    }
}

/// Where a booking service needs somebody.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BookingTrouble {
    /// The event.
    pub event: EventId,
    /// Its name.
    pub event_name: String,
    /// The zone of its instants.
    pub zone: Tz,
    /// So many calls have no outcome, and only staff can find it out.
    pub asking: i64,
    /// The oldest of them.
    pub first: Option<AttemptId>,
    /// Calls in a row that failed.
    pub failures: i32,
    /// The service is left alone until then.
    pub open_until: Option<DateTime<Utc>>,
    /// What went wrong last.
    pub last_error: Option<String>,
}

pub(super) fn url(text: &str) -> Result<ServiceUrl, DbError> {
    ServiceUrl::parse(text).map_err(|_| DbError::Unreadable("booking service", text.to_owned()))
}

impl LockedEvent {
    /// Has the event's places booked by a service from now on. Without a key it keeps the one it has.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_booking_service(
        &mut self,
        url: &ServiceUrl,
        sealed_key: Option<&[u8]>,
        by: Option<StaffId>,
    ) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        sqlx::query!(
            "INSERT INTO booking_services AS s (event_id, base_url, sealed_key, set_by, set_at)
             VALUES ($1, $2, coalesce($3, ''::bytea), $4, $5)
             ON CONFLICT (event_id) DO UPDATE SET base_url = excluded.base_url, set_by = excluded.set_by,
                 set_at = excluded.set_at, sealed_key = coalesce($3, s.sealed_key)",
            event.0,
            url.as_str(),
            sealed_key,
            by.map(|staff| staff.0),
            now
        )
        .execute(self.connection())
        .await?;
        self.event_mut().outside = true;
        Ok(())
    }

    /// Has the event's places booked here from now on.
    ///
    /// # Errors
    /// What the database says.
    pub async fn remove_booking_service(&mut self) -> Result<(), DbError> {
        let event = self.id();
        sqlx::query!("DELETE FROM booking_services WHERE event_id = $1", event.0)
            .execute(self.connection())
            .await?;
        self.event_mut().outside = false;
        Ok(())
    }

    /// Where its places are booked, if not here.
    ///
    /// # Errors
    /// What the database says.
    pub async fn service_url(&mut self) -> Result<Option<ServiceUrl>, DbError> {
        let event = self.id();
        sqlx::query_scalar!("SELECT base_url FROM booking_services WHERE event_id = $1", event.0)
            .fetch_optional(self.connection())
            .await?
            .map(|text| url(&text))
            .transpose()
    }

    /// Whether the event's service may be called now. Whoever is the probe has the right to call for `probe_for`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_gate(&mut self, probe_for: Duration) -> Result<Gate, DbError> {
        let (event, now) = (self.id(), self.now());
        gate(self.connection(), event, now, probe_for).await
    }

    /// Until when the event's service is left alone, if it is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_rests_until(&mut self) -> Result<Option<DateTime<Utc>>, DbError> {
        let (event, organization) = (self.id(), self.event().organization);
        Ok(sqlx::query_scalar!(
            "SELECT c.open_until FROM booking_services s
             JOIN booking_circuits c ON c.organization_id = $2 AND c.base_url = s.base_url WHERE s.event_id = $1",
            event.0,
            organization.0
        )
        .fetch_optional(self.connection())
        .await?
        .flatten())
    }
}

/// Decided by the row: of those who come when the rest is over, in however many processes, one changes it.
async fn gate(
    connection: impl PgExecutor<'_>,
    event: EventId,
    now: DateTime<Utc>,
    probe_for: Duration,
) -> Result<Gate, DbError> {
    let row = sqlx::query!(
        r#"WITH circuit AS (
               SELECT c.organization_id, c.base_url FROM booking_services s JOIN events e ON e.id = s.event_id
               JOIN booking_circuits c ON c.organization_id = e.organization_id AND c.base_url = s.base_url
               WHERE s.event_id = $1 AND c.open_until IS NOT NULL),
           probe AS (
               UPDATE booking_circuits c SET open_until = $3 FROM circuit
               WHERE c.organization_id = circuit.organization_id AND c.base_url = circuit.base_url AND c.open_until <= $2
               RETURNING 1)
           SELECT EXISTS (SELECT FROM circuit) AS "tripped!", EXISTS (SELECT FROM probe) AS "probe!""#,
        event.0,
        now,
        now + probe_for
    )
    .fetch_one(connection)
    .await?;
    Ok(match (row.tripped, row.probe) {
        (_, true) => Gate::Probe,
        (true, false) => Gate::Shut,
        (false, false) => Gate::Open,
    })
}

impl Db {
    /// The service of an event, if its places are booked by one.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_service(&self, event: EventId) -> Result<Option<BookingService>, DbError> {
        sqlx::query!(
            "SELECT e.organization_id, s.base_url, s.sealed_key, s.set_at
             FROM booking_services s JOIN events e ON e.id = s.event_id WHERE s.event_id = $1",
            event.0
        )
        .fetch_optional(self.pool())
        .await?
        .map(|row| {
            Ok(BookingService {
                organization: OrganizationId(row.organization_id),
                url: url(&row.base_url)?,
                sealed_key: row.sealed_key,
                set_at: row.set_at,
            })
        })
        .transpose()
    }

    /// Where a booking service needs somebody: it is left alone, or calls have no outcome and their key is not sent any more.
    /// Of all events of an organization, or of one.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_troubles(
        &self,
        organization: OrganizationId,
        only: Option<EventId>,
    ) -> Result<Vec<BookingTrouble>, DbError> {
        let now = self.now().await?;
        let rows = sqlx::query!(
            r#"SELECT e.id, e.name, e.zone, a.asking AS "asking!", a.first, c.failures AS "failures?", c.open_until,
                      c.last_error AS "last_error?"
               FROM booking_services s JOIN events e ON e.id = s.event_id
               LEFT JOIN booking_circuits c
                   ON c.organization_id = e.organization_id AND c.base_url = s.base_url AND c.open_until > $3
               CROSS JOIN LATERAL (
                   SELECT count(*) AS asking, (array_agg(id ORDER BY made_at, id))[1] AS first FROM booking_attempts
                   WHERE event_id = e.id AND outcome = 'unresolved' AND (staff_asked_at IS NOT NULL OR key_until <= $3)) a
               WHERE e.organization_id = $1 AND ($2::uuid IS NULL OR e.id = $2)
                 AND (a.asking > 0 OR c.open_until IS NOT NULL)
               ORDER BY a.asking DESC, e.name, e.id"#,
            organization.0,
            only.map(|event| event.0),
            now
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                let zone =
                    row.zone.parse().map_err(|_| DbError::Unreadable("time zone", row.zone.clone()))?;
                Ok(BookingTrouble {
                    event: EventId(row.id),
                    event_name: row.name,
                    zone,
                    asking: row.asking,
                    first: row.first.map(AttemptId),
                    failures: row.failures.unwrap_or(0),
                    open_until: row.open_until,
                    last_error: row.last_error,
                })
            })
            .collect()
    }

    /// How a service is doing.
    ///
    /// # Errors
    /// What the database says.
    pub async fn circuit(
        &self,
        organization: OrganizationId,
        service: &ServiceUrl,
    ) -> Result<Circuit, DbError> {
        let row = sqlx::query!(
            "SELECT failures, open_until, last_error, last_error_at, last_success_at FROM booking_circuits
             WHERE organization_id = $1 AND base_url = $2",
            organization.0,
            service.as_str()
        )
        .fetch_optional(self.pool())
        .await?;
        Ok(row.map_or_else(Circuit::default, |row| Circuit {
            failures: row.failures,
            open_until: row.open_until,
            last_error: row.last_error.zip(row.last_error_at),
            last_success_at: row.last_success_at,
        }))
    }

    /// Whether an event's service may be called now. Whoever is the probe has the right to call for `probe_for`.
    ///
    /// # Errors
    /// What the database says.
    pub async fn booking_gate(&self, event: EventId, probe_for: Duration) -> Result<Gate, DbError> {
        let now = self.now().await?;
        gate(self.pool(), event, now, probe_for).await
    }

    /// Writes down how a call went: after so many failures in a row the service is left alone for a while, and the first
    /// success ends that. While it is left alone only the probe's failure counts, so that a burst of calls that were
    /// under way does not make the rest longer.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_call(
        &self,
        organization: OrganizationId,
        service: &ServiceUrl,
        trouble: Option<&str>,
        was_probe: bool,
    ) -> Result<(), DbError> {
        let now = self.now().await?;
        let Some(trouble) = trouble else {
            sqlx::query!(
                "INSERT INTO booking_circuits (organization_id, base_url, failures, last_success_at) VALUES ($1, $2, 0, $3)
                 ON CONFLICT (organization_id, base_url)
                 DO UPDATE SET failures = 0, open_until = NULL, last_success_at = excluded.last_success_at",
                organization.0,
                service.as_str(),
                now
            )
            .execute(self.pool())
            .await?;
            return Ok(());
        };
        // The rest after one failure, after two, and so on; the last stands for all beyond.
        let rests: Vec<Option<DateTime<Utc>>> =
            (1..=TRIP_AFTER + 6).map(|failures| rest_after(failures).map(|rest| now + rest)).collect();
        sqlx::query!(
            "INSERT INTO booking_circuits AS c (organization_id, base_url, failures, last_error, last_error_at)
             VALUES ($1, $2, 1, $3, $4)
             ON CONFLICT (organization_id, base_url) DO UPDATE SET
                 last_error = excluded.last_error, last_error_at = excluded.last_error_at,
                 failures = CASE WHEN $5 OR c.open_until IS NULL THEN c.failures + 1 ELSE c.failures END,
                 open_until = CASE WHEN $5 OR c.open_until IS NULL
                                   THEN ($6::timestamptz[])[least(c.failures + 1, cardinality($6::timestamptz[]))]
                                   ELSE c.open_until END",
            organization.0,
            service.as_str(),
            trouble,
            now,
            was_probe,
            &rests as &[Option<DateTime<Utc>>]
        )
        .execute(self.pool())
        .await?;
        Ok(())
    }
}
