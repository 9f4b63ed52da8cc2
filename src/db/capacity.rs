//! What other systems told of capacity that came back, so that it is applied once.

use uuid::Uuid;

use super::{DbError, LockedEvent};
use crate::domain::ids::PlaceId;

/// One thing told.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CapacityEvent {
    /// By which system.
    pub source: String,
    /// Its id there.
    pub id: String,
    /// A digest of all that was said.
    pub digest: [u8; 32],
    /// The places that came back by it.
    pub places: Vec<PlaceId>,
}

impl LockedEvent {
    /// What this source and id told of before.
    ///
    /// # Errors
    /// What the database says.
    pub async fn capacity_event(&mut self, source: &str, id: &str) -> Result<Option<CapacityEvent>, DbError> {
        let event = self.id();
        let row = sqlx::query!(
            "SELECT digest, places FROM capacity_events WHERE event_id = $1 AND source = $2 AND id = $3",
            event.0,
            source,
            id
        )
        .fetch_optional(self.connection())
        .await?;
        row.map(|row| {
            Ok(CapacityEvent {
                source: source.to_owned(),
                id: id.to_owned(),
                digest: row
                    .digest
                    .try_into()
                    .map_err(|_| DbError::Unreadable("digest", "not 32 bytes".to_owned()))?,
                places: row.places.into_iter().map(PlaceId).collect(),
            })
        })
        .transpose()
    }

    /// Writes down that it was told.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_capacity_event(&mut self, told: &CapacityEvent) -> Result<(), DbError> {
        let (event, now) = (self.id(), self.now());
        let places: Vec<Uuid> = told.places.iter().map(|place| place.0).collect();
        sqlx::query!(
            "INSERT INTO capacity_events (event_id, source, id, digest, places, at) VALUES ($1, $2, $3, $4, $5, $6)",
            event.0,
            told.source,
            told.id,
            &told.digest[..],
            &places,
            now
        )
        .execute(self.connection())
        .await?;
        Ok(())
    }

    /// The places of the event that have these names: what each is called, which it is, and whether it is open.
    ///
    /// # Errors
    /// What the database says.
    pub async fn labels_in_use(
        &mut self,
        labels: &[String],
    ) -> Result<Vec<(String, PlaceId, bool)>, DbError> {
        let event = self.id();
        let rows = sqlx::query!(
            r#"SELECT label AS "label!", id, state = 'open' AS "open!" FROM places
               WHERE event_id = $1 AND label = ANY($2) AND state <> 'retired' ORDER BY number"#,
            event.0,
            labels
        )
        .fetch_all(self.connection())
        .await?;
        Ok(rows.into_iter().map(|row| (row.label, PlaceId(row.id), row.open)).collect())
    }
}
