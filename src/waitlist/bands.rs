//! Priority: putting an entry into a group that goes first, or back among everybody else.

use serde::{Deserialize, Serialize};

use super::{Waitlist, decide_once};
use crate::db::DbError;
use crate::db::entries::EntryMove;
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::EntryState;
use crate::domain::ids::{EntryId, EventId};
use crate::domain::policy::{Band, Ordering};
use crate::domain::reason::StaffReason;

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum BandOutcome {
    /// In this group now; none is everybody else.
    Moved(Option<Band>),
    /// It was in it before.
    Already,
    /// The rule has no groups.
    NoBands,
    /// The rule has no such group.
    UnknownBand,
    /// The list is still being put into the order of another rule: again in a moment.
    Reordering,
    /// The entry is over: this is its state.
    Over(EntryState),
}

impl Waitlist {
    /// Puts an entry into the group with this number, or with 0 among everybody else. Inside a group the order is that
    /// of arrival.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn move_to_band(
        &self,
        event: EventId,
        entry: EntryId,
        band: i16,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<BandOutcome, DbError> {
        decide_once!(self, event, async |event| {
            event.nothing_to_write();
            let policy = event.policy().await?;
            if policy.ordering != Ordering::Priority {
                return Ok(BandOutcome::NoBands);
            }
            let named = policy.band(band).cloned();
            if named.is_none() && band != 0 {
                return Ok(BandOutcome::UnknownBand);
            }
            if event.event().reordering {
                return Ok(BandOutcome::Reordering);
            }
            let before = event.entry(entry).await?;
            if !before.state.is_live() {
                return Ok(BandOutcome::Over(before.state));
            }
            if before.key.band == band {
                return Ok(BandOutcome::Already);
            }
            let mut after = before.clone();
            after.key.band = band;
            event
                .move_entries(&[EntryMove {
                    before,
                    after,
                    actor,
                    act: Act::BandChanged,
                    reason: reason.reason,
                    note: reason.note.clone(),
                    policy_version: Some(policy.version),
                }])
                .await?;
            event.want_pass();
            Ok(BandOutcome::Moved(named))
        })
        .await
    }
}
