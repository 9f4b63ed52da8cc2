//! Answers that customers give by telephone or in person, written down by staff. The transition is the same as the
//! customer's own; a record beside it says who took the answer, and why it did not come by the page.

use tokio::time::Instant;
use uuid::Uuid;

use super::answer::{self, Accept, AcceptOutcome, Begun, Decline, DeclineOutcome};
use super::{Waitlist, decide};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::ids::{EventId, OfferId};
use crate::domain::offer::Offer;
use crate::domain::reason::StaffReason;

impl Waitlist {
    /// The customer said yes: accepts an offer for them.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such offer, or what the database says.
    pub async fn accept_for(
        &self,
        event: EventId,
        offer: OfferId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<AcceptOutcome, DbError> {
        self.accept_as(event, offer, None, actor, reason).await
    }

    /// The same, by an act that has a name of its own in the outbox: see [`answer::accept`].
    pub(super) async fn accept_as(
        &self,
        event: EventId,
        offer: OfferId,
        named: Option<Uuid>,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<AcceptOutcome, DbError> {
        let (lease, at) = (self.services.lease(), Instant::now());
        let begun = decide!(self, event, async |event| {
            let known = event.offer(offer).await?;
            let accept = Accept { offer, person: known.person, actor };
            let begun =
                answer::accept(event, &[accept], named, lease).await?.pop().ok_or(DbError::NotFound)?;
            if matches!(begun, Begun::Decided(AcceptOutcome::Accepted { .. }) | Begun::Asking(..)) {
                record(event, &known, actor, reason);
            }
            Ok(begun)
        })
        .await;
        let answer = match begun {
            Ok(begun) => self.finish_accept(begun).await,
            Err(error) => Err(error),
        };
        let outcome = answer.as_ref().map_or("failed", AcceptOutcome::as_str);
        self.db().metrics().accepted(outcome, at.elapsed());
        answer
    }

    /// The customer said no: declines an offer for them.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such offer, or what the database says.
    pub async fn decline_for(
        &self,
        event: EventId,
        offer: OfferId,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<DeclineOutcome, DbError> {
        decide!(self, event, async |event| {
            let known = event.offer(offer).await?;
            let decline = Decline { offer, person: known.person, actor };
            let outcome = answer::decline(event, &[decline]).await?.pop().ok_or(DbError::NotFound)?;
            if matches!(outcome, DeclineOutcome::Declined { .. }) {
                record(event, &known, actor, reason);
            }
            Ok(outcome)
        })
        .await
    }
}

fn record(event: &mut LockedEvent, offer: &Offer, actor: Actor, reason: &StaffReason) {
    let record =
        Record::new(event.now(), actor, Act::AnswerRecorded, Subject::Offer(offer.id), reason.reason)
            .of_entry(offer.entry)
            .noted(reason);
    event.record(record);
}
