//! Where an event's places are booked, if not here, and how the services are doing.

use chrono::{DateTime, Utc};

use super::{Db, DbError, LockedEvent};
use crate::domain::ids::{EventId, OrganizationId, StaffId};
use crate::domain::outside::{ServiceUrl, rest_after};

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

    /// Whether the event's service is left alone for a while, because it failed too often in a row.
    ///
    /// # Errors
    /// What the database says.
    pub async fn service_rests(&mut self) -> Result<bool, DbError> {
        let (event, now) = (self.id(), self.now());
        Ok(sqlx::query_scalar!(
            r#"SELECT EXISTS (SELECT FROM booking_services s JOIN events e ON e.id = s.event_id
                              JOIN booking_circuits c ON c.organization_id = e.organization_id AND c.base_url = s.base_url
                              WHERE s.event_id = $1 AND c.open_until > $2) AS "rests!""#,
            event.0,
            now
        )
        .fetch_one(self.connection())
        .await?)
    }
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

    /// Writes down how a call went: after so many failures in a row the service is left alone for a while, and the first
    /// success ends that.
    ///
    /// # Errors
    /// What the database says.
    pub async fn note_call(
        &self,
        organization: OrganizationId,
        service: &ServiceUrl,
        trouble: Option<&str>,
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
        let failures = sqlx::query_scalar!(
            "INSERT INTO booking_circuits AS c (organization_id, base_url, failures, last_error, last_error_at)
             VALUES ($1, $2, 1, $3, $4)
             ON CONFLICT (organization_id, base_url) DO UPDATE SET failures = c.failures + 1,
                 last_error = excluded.last_error, last_error_at = excluded.last_error_at
             RETURNING failures",
            organization.0,
            service.as_str(),
            trouble,
            now
        )
        .fetch_one(self.pool())
        .await?;
        if let Some(rest) = rest_after(failures) {
            sqlx::query!(
                "UPDATE booking_circuits SET open_until = $3
                 WHERE organization_id = $1 AND base_url = $2 AND failures > 0",
                organization.0,
                service.as_str(),
                now + rest
            )
            .execute(self.pool())
            .await?;
        }
        Ok(())
    }
}
