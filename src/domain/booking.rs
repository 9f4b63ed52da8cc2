//! Bookings: confirmed places.

use chrono::{DateTime, Utc};

use super::ids::{BookingId, EventId, OfferId, PersonId, PlaceId};
use super::words;

words! {
    /// Where a booking is in its life.
    BookingState {
        /// The place is theirs.
        Confirmed = "confirmed",
        /// Given back.
        Cancelled = "cancelled",
    }
}

words! {
    /// How a booking came to be.
    BookingSource {
        /// An offer was accepted.
        Offer = "offer",
        /// The customer booked a place that was free for everybody.
        Customer = "customer",
        /// Staff booked by hand.
        Staff = "staff",
    }
}

/// One booking, as its row says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Booking {
    /// The event.
    pub event: EventId,
    /// Its id.
    pub id: BookingId,
    /// Which place.
    pub place: PlaceId,
    /// Whose it is.
    pub person: PersonId,
    /// Through which offer.
    pub offer: Option<OfferId>,
    /// What the customer quotes; shared by the places of one party.
    pub reference: String,
    /// Where it is in its life.
    pub state: BookingState,
    /// How it came to be.
    pub source: BookingSource,
    /// When it was made.
    pub booked_at: DateTime<Utc>,
    /// When it was cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
    /// Why it was cancelled.
    pub cancel_reason: Option<String>,
}

/// Letters and digits that cannot be taken for each other on paper or on the telephone.
const REFERENCE_ALPHABET: &[u8; 32] = b"23456789ABCDEFGHJKLMNPQRSTUVWXYZ";

/// Eight characters that a customer can read out: 40 bits, unique enough within one event together with a name.
#[must_use]
pub fn reference(random: [u8; 32]) -> String {
    random[..8].iter().map(|byte| char::from(REFERENCE_ALPHABET[usize::from(byte & 31)])).collect()
}
