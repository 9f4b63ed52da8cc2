//! Capacity that came back elsewhere: another system says so, once or several times, in whatever order.

use std::collections::HashSet;

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide};
use crate::db::capacity::CapacityEvent;
use crate::db::places::NewRelease;
use crate::db::{DbError, LockedEvent};
use crate::domain::attribute::Said;
use crate::domain::audit::Actor;
use crate::domain::booking::BookingState;
use crate::domain::ids::{BookingId, EventId, PlaceId};
use crate::domain::reason::{Reason, StaffReason};

/// What came back.
#[derive(Clone, Debug, PartialEq)]
pub enum Returned {
    /// So many places of which nothing is said.
    Quantity(usize),
    /// These places: a name, if they have one, and what is said of each.
    Named(Vec<(Option<String>, Said)>),
    /// What this booking had, by one of its ids; the booking is cancelled.
    Booking(BookingId),
}

/// What another system tells of.
#[derive(Clone, Debug)]
pub struct CapacityReleased {
    /// Which system, and its id of what happened there: applied once for both.
    pub source: String,
    /// See `source`.
    pub id: String,
    /// A digest of all that was said: the same source and id with something else is refused.
    pub digest: [u8; 32],
    /// What came back.
    pub returned: Returned,
    /// Why.
    pub reason: StaffReason,
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum CapacityOutcome {
    /// These places are open, now or since it was told before.
    Applied {
        /// Which.
        places: Vec<PlaceId>,
        /// It was told before, and nothing was done again.
        before: bool,
    },
    /// This source and id told of something else before.
    OtherBody,
    /// This name belongs to a place that the event has and that has not come back to it.
    PlaceIsHere(String),
    /// Two of the places have this name.
    NamedTwice(String),
    /// The event has no such booking.
    NoSuchBooking,
    /// The event tells as many kinds of places apart as it can.
    TooManyKinds,
}

impl Waitlist {
    /// Applies what another system tells of.
    ///
    /// # Errors
    /// What the database says.
    pub async fn capacity_released(
        &self,
        event: EventId,
        told: &CapacityReleased,
        actor: Actor,
    ) -> Result<CapacityOutcome, DbError> {
        decide!(self, event, async |event| released(event, told, actor).await).await
    }
}

async fn released(
    event: &mut LockedEvent,
    told: &CapacityReleased,
    actor: Actor,
) -> Result<CapacityOutcome, DbError> {
    event.nothing_to_write();
    if let Some(before) = event.capacity_event(&told.source, &told.id).await? {
        return Ok(if before.digest == told.digest {
            CapacityOutcome::Applied { places: before.places, before: true }
        } else {
            CapacityOutcome::OtherBody
        });
    }
    let mut before = false;
    let places: Places = match &told.returned {
        Returned::Quantity(count) => add(event, told, &vec![(None, Said::default()); *count], actor).await?,
        Returned::Named(named) => {
            let labels: Vec<String> = named.iter().filter_map(|(label, _)| label.clone()).collect();
            let mut seen = HashSet::new();
            if let Some(twice) = labels.iter().find(|label| !seen.insert(*label)) {
                return Ok(CapacityOutcome::NamedTwice(twice.clone()));
            }
            let here = event.labels_in_use(&labels).await?;
            if let Some((label, ..)) = here.iter().find(|(_, _, open)| !open) {
                return Ok(CapacityOutcome::PlaceIsHere(label.clone()));
            }
            // What is open came back before, and was told under another id.
            let known = |label: &Option<String>| here.iter().any(|(known, ..)| label.as_ref() == Some(known));
            let new: Vec<_> = named.iter().filter(|(label, _)| !known(label)).cloned().collect();
            before = new.is_empty();
            let back = here.iter().map(|(_, place, _)| *place);
            let added = if before { Ok(vec![]) } else { add(event, told, &new, actor).await? };
            added.map(|added| back.chain(added).collect())
        }
        Returned::Booking(booking) => {
            let cancelled = cancel(event, *booking, actor, &told.reason).await?;
            before = matches!(cancelled, Ok((_, false)));
            cancelled.map(|(places, _)| places)
        }
    };
    let places = match places {
        Ok(places) => places,
        Err(refused) => return Ok(refused),
    };
    event
        .add_capacity_event(&CapacityEvent {
            source: told.source.clone(),
            id: told.id.clone(),
            digest: told.digest,
            places: places.clone(),
        })
        .await?;
    // Also where nothing changed: that it was told is written down.
    event.want_pass();
    Ok(CapacityOutcome::Applied { places, before })
}

type Places = Result<Vec<PlaceId>, CapacityOutcome>;

/// Adds places, those of one kind together.
async fn add(
    event: &mut LockedEvent,
    told: &CapacityReleased,
    named: &[(Option<String>, Said)],
    actor: Actor,
) -> Result<Places, DbError> {
    let mut kinds: Vec<&Said> = Vec::new();
    for (_, said) in named {
        if !kinds.contains(&said) {
            kinds.push(said);
        }
    }
    let mut numbered = Vec::with_capacity(kinds.len());
    for said in kinds {
        match event.kind_of(said).await? {
            Some(kind) => numbered.push((said, kind)),
            None => return Ok(Err(CapacityOutcome::TooManyKinds)),
        }
    }
    let mut added = Vec::with_capacity(named.len());
    for (said, kind) in numbered {
        let labels: Vec<Option<String>> =
            named.iter().filter(|(_, other)| other == said).map(|(label, _)| label.clone()).collect();
        added.extend(event.add_places(&labels, kind, actor, Reason::CapacityChanged).await?);
    }
    let release = NewRelease {
        source: "external",
        // The first stroke ends the source.
        source_id: format!("{}/{}", told.source.replace('%', "%25").replace('/', "%2F"), told.id),
        reason: told.reason.reason,
        places: added.clone(),
    };
    event.add_releases(&[release], actor).await?;
    Ok(Ok(added))
}

/// Cancels a booking, unless that was done before: what is told late or twice does no harm. Which place it had, and
/// whether it was cancelled now.
async fn cancel(
    event: &mut LockedEvent,
    booking: BookingId,
    actor: Actor,
    reason: &StaffReason,
) -> Result<Result<(Vec<PlaceId>, bool), CapacityOutcome>, DbError> {
    let known = match event.booking(booking).await {
        Ok(known) => known,
        Err(DbError::NotFound) => return Ok(Err(CapacityOutcome::NoSuchBooking)),
        Err(error) => return Err(error),
    };
    let stands = known.state == BookingState::Confirmed;
    if stands {
        // It came back there: nobody needs to be asked, wherever the booking is kept.
        super::bookings::free(event, &[booking], actor, reason).await?;
    }
    Ok(Ok((vec![known.place], stands)))
}
