//! Places added, retired and brought back: an event's capacity.

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide, decide_once};
use crate::db::DbError;
use crate::db::places::{NewRelease, PlaceMove};
use crate::domain::attribute::Said;
use crate::domain::audit::Actor;
use crate::domain::ids::{EventId, PlaceId};
use crate::domain::place::PlaceState;
use crate::domain::reason::{Reason, StaffReason};

/// The most places that can be added or retired in one act.
pub const PLACES_MAX: usize = 10_000;

/// What came of adding places.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddPlacesOutcome {
    /// So many more are open.
    Added(usize),
    /// None, or more than [`PLACES_MAX`] at once.
    BadNumber,
    /// One of the labels is in use.
    LabelTaken,
    /// The same form was sent before: nothing was added again.
    Already,
    /// The event tells as many kinds of places apart as it can.
    TooManyKinds,
}

/// What came of retiring places.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum RetireOutcome {
    /// So many left at once, so many leave when whoever has them is gone.
    Retired {
        /// Left at once.
        now: usize,
        /// Leave later: by so many the event is over.
        when_free: usize,
    },
    /// They had left, or were to leave, before.
    Already,
    /// None, or more than the event has, or than [`PLACES_MAX`]: so many can be retired at once.
    BadNumber(i64),
}

impl Waitlist {
    /// Adds open places of which `said` is true; `labels` has one item per place. `once` names the act, so that a form sent twice adds once.
    ///
    /// # Errors
    /// What the database says.
    pub async fn add_places(
        &self,
        event: EventId,
        labels: &[Option<String>],
        said: &Said,
        once: &str,
        actor: Actor,
        reason: Reason,
    ) -> Result<AddPlacesOutcome, DbError> {
        if labels.is_empty() || labels.len() > PLACES_MAX {
            return Ok(AddPlacesOutcome::BadNumber);
        }
        let result = decide!(self, event, async |event| {
            if event.has_release("places", once).await? {
                event.nothing_to_write();
                return Ok(AddPlacesOutcome::Already);
            }
            let Some(kind) = event.kind_of(said).await? else {
                event.nothing_to_write();
                return Ok(AddPlacesOutcome::TooManyKinds);
            };
            let places = event.add_places(labels, kind, actor, reason).await?;
            let release = NewRelease { source: "places", source_id: once.to_owned(), reason, places };
            event.add_releases(&[release], actor).await?;
            event.want_pass();
            Ok(AddPlacesOutcome::Added(labels.len()))
        })
        .await;
        match result {
            Err(DbError::Constraint(name)) if name == "places_label_key" => Ok(AddPlacesOutcome::LabelTaken),
            result => result,
        }
    }

    /// Retires these places: open ones at once, held and booked ones when they become free. Nobody is evicted.
    ///
    /// # Errors
    /// What the database says.
    pub async fn retire_places(
        &self,
        event: EventId,
        places: &[PlaceId],
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<RetireOutcome, DbError> {
        decide_once!(self, event, async |event| {
            let places = event.places(places).await?;
            retire(event, places, actor, reason).await
        })
        .await
    }

    /// Lowers the capacity by `count`: open places go first, then held, then booked ones when they become free.
    ///
    /// # Errors
    /// What the database says.
    pub async fn retire_count(
        &self,
        event: EventId,
        count: usize,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<RetireOutcome, DbError> {
        let count = i64::try_from(count).unwrap_or(i64::MAX);
        decide_once!(self, event, async |event| {
            let capacity = event.place_counts().await?.capacity();
            let most = capacity.min(i64::try_from(PLACES_MAX).unwrap_or(i64::MAX));
            if !(1..=most).contains(&count) {
                event.nothing_to_write();
                return Ok(RetireOutcome::BadNumber(most));
            }
            let places = event.places_to_retire(count).await?;
            retire(event, places, actor, reason).await
        })
        .await
    }
}

async fn retire(
    event: &mut crate::db::LockedEvent,
    places: Vec<crate::db::places::Place>,
    actor: Actor,
    reason: &StaffReason,
) -> Result<RetireOutcome, DbError> {
    let mut moves: Vec<PlaceMove> = places
        .into_iter()
        .filter(|place| place.state != PlaceState::Retired && !place.retire_when_free)
        .map(|place| PlaceMove::retire(place, actor, reason.reason))
        .collect();
    let Some(first) = moves.first_mut() else {
        event.nothing_to_write();
        return Ok(RetireOutcome::Already);
    };
    // Said once, however many places leave.
    first.note.clone_from(&reason.note);
    let now = moves.iter().filter(|change| change.to == PlaceState::Retired).count();
    event.move_places(&moves).await?;
    event.want_pass();
    Ok(RetireOutcome::Retired { now, when_free: moves.len() - now })
}
