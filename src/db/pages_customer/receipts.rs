//! An offer with everything its page says.

use uuid::Uuid;

use super::super::{Db, DbError};
use super::{EventName, event_name};
use crate::domain::entry::EntryState;
use crate::domain::ids::{BookingId, OfferId};
use crate::domain::offer::Offer;

/// What an offer's page says beyond the offer.
#[derive(Clone, Debug)]
pub struct OfferSheet {
    /// The offer.
    pub offer: Offer,
    /// The event.
    pub event: EventName,
    /// Whom it is for.
    pub name: String,
    /// Where their codes are sent.
    pub email: String,
    /// The labels of the places it holds, or that were booked through it and stand, where they have any.
    pub labels: Vec<String>,
    /// What became of the entry.
    pub entry: EntryState,
    /// The entry is paused.
    pub paused: bool,
    /// The reference of the booking made through it, and one of its bookings.
    pub booking: Option<(String, BookingId)>,
    /// Those of its bookings that stand.
    pub standing_bookings: Vec<BookingId>,
    /// How many places are open at this moment.
    pub open: i64,
}

impl Db {
    /// An offer with what its page says.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is none with this id.
    pub async fn offer_sheet(&self, id: OfferId) -> Result<OfferSheet, DbError> {
        let offer = self.find_offer(id).await?;
        let row = sqlx::query!(
            r#"SELECT v.id AS event_id, v.slug, v.name AS event_name, v.venue, v.zone, v.starts_at, v.state AS event_state,
                   g.id AS organization_id, g.name AS organization_name, g.contact, p.name, e.state AS entry_state,
                   e.paused IS NOT NULL AS "paused!",
                   (SELECT c.value FROM contacts c WHERE c.person_id = p.id AND c.kind = 'email'
                    ORDER BY c.created_at LIMIT 1) AS email,
                   coalesce(
                       (SELECT array_agg(place_name(l) ORDER BY l.number) FROM places l
                        WHERE l.event_id = e.event_id AND l.offer_id = $2 AND place_name(l) IS NOT NULL),
                       (SELECT array_agg(place_name(l) ORDER BY l.number) FROM bookings b
                        JOIN places l ON l.event_id = b.event_id AND l.id = b.place_id
                        WHERE b.event_id = e.event_id AND b.offer_id = $2 AND b.state = 'confirmed' AND place_name(l) IS NOT NULL),
                       '{}') AS "labels!",
                   (SELECT min(b.reference) FROM bookings b WHERE b.event_id = e.event_id AND b.offer_id = $2) AS reference,
                   (SELECT b.id FROM bookings b WHERE b.event_id = e.event_id AND b.offer_id = $2 ORDER BY b.id LIMIT 1)
                       AS "booking_id?: Uuid",
                   ARRAY(SELECT b.id FROM bookings b WHERE b.event_id = e.event_id AND b.offer_id = $2
                         AND b.state = 'confirmed' ORDER BY b.id) AS "standing!",
                   (SELECT coalesce(sum(n), 0) FROM place_counts c WHERE c.event_id = e.event_id
                        AND c.state = 'open')::bigint AS "open!"
               FROM entries e
               JOIN events v ON v.id = e.event_id
               JOIN organizations g ON g.id = v.organization_id
               JOIN persons p ON p.id = e.person_id
               WHERE e.event_id = $1 AND e.id = $3"#,
            offer.event.0,
            offer.id.0,
            offer.entry.0
        )
        .fetch_one(self.pool())
        .await?;
        Ok(OfferSheet {
            name: row.name.clone(),
            email: row.email.clone().unwrap_or_default(),
            labels: row.labels.clone(),
            entry: super::super::events::word(EntryState::parse, "entry state", &row.entry_state)?,
            paused: row.paused,
            booking: row.reference.clone().zip(row.booking_id.map(BookingId)),
            standing_bookings: row.standing.into_iter().map(BookingId).collect(),
            open: row.open,
            offer,
            event: event_name!(row)?,
        })
    }
}
