//! Places: one unit of an event each, and how they add up.

use super::words;

words! {
    /// What has a place.
    PlaceState {
        /// Nobody.
        Open = "open",
        /// A live hold.
        Held = "held",
        /// A confirmed booking.
        Booked = "booked",
        /// Not part of the event any more.
        Retired = "retired",
    }
}

/// How the places of one event add up.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PlaceCounts {
    /// Places nobody has.
    pub open: i64,
    /// Places kept for live offers.
    pub held: i64,
    /// Confirmed places.
    pub booked: i64,
    /// Held or booked places that leave when they become free: by so many the event is over.
    pub retire_when_free: i64,
}

impl PlaceCounts {
    /// Places that are neither retired nor to be retired.
    #[must_use]
    pub fn capacity(self) -> i64 {
        self.open + self.held + self.booked - self.retire_when_free
    }
}
