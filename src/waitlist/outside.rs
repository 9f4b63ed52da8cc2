//! Places that another service books: an intent under the event's lock, a call outside any lock, its outcome under the
//! lock again. Whoever dies between two of these leaves an attempt without an outcome, which the reconciler takes up.

use std::pin::pin;
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::{Instant, timeout_at};
use uuid::Uuid;

use super::answer::{Accept, AcceptOutcome, Begun};
use super::outside_settled::{Settled, settle};
use super::{Waitlist, decide};
use crate::booking::{
    Ask, BearerKey, CustomerSheet, EventSheet, GivenBack, Heard, PlaceSheet, Service, Verdict,
};
use crate::db::DbError;
use crate::db::booking_attempts::{AttemptSheet, Leased};
use crate::domain::audit::Actor;
use crate::domain::ids::{AttemptId, EventId, OfferId};
use crate::domain::offer::OfferState;
use crate::domain::outside::{AttemptAct, AttemptOutcome, Gate, fit_reference, wait_after};
use crate::domain::reason::StaffReason;
use crate::domain::words;
use crate::failpoint;

/// How long a second tap waits for the first one's outcome.
const SOON: Duration = Duration::from_secs(3);

/// How often it looks whether another process settled it.
const LOOK_AGAIN: Duration = Duration::from_millis(500);

words! {
    /// What staff see at the booking service.
    LookedUp {
        /// It has the booking.
        Booked = "booked",
        /// It does not have it.
        NotBooked = "not_booked",
    }
}

/// What staff say of a call that the booking service never answered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Resolution {
    /// The service has the booking.
    Booked {
        /// Under this reference.
        reference: String,
    },
    /// The service does not have it.
    NotBooked,
}

impl Resolution {
    /// What staff saw when they looked up a call for this. Of places that were to be given back no reference is needed.
    ///
    /// # Errors
    /// What is wrong with the reference, in words.
    pub fn of(act: AttemptAct, came: LookedUp, reference: &str) -> Result<Self, &'static str> {
        match (came, fit_reference(reference)) {
            (LookedUp::NotBooked, _) => Ok(Self::NotBooked),
            (LookedUp::Booked, Some(reference)) => Ok(Self::Booked { reference }),
            (LookedUp::Booked, None) if act == AttemptAct::Release => {
                Ok(Self::Booked { reference: String::new() })
            }
            (LookedUp::Booked, None) => {
                Err("Enter the reference that the service shows: up to 64 plain characters.")
            }
        }
    }
}

/// What came of saying so.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ResolveOutcome {
    /// It is settled.
    Resolved,
    /// It was settled before: so.
    Already(AttemptOutcome),
    /// A call is under way at this moment, and may settle it.
    CallUnderWay,
}

/// What is asked of a service, and what came of it.
pub(super) enum Came {
    Of(Verdict),
    Back(GivenBack),
}

/// Whose word an outcome is.
#[derive(Clone, Copy)]
pub(super) enum Whose<'a> {
    /// The service's, told to whoever called it under this lease.
    Caller(Uuid),
    /// Staff's.
    Staff(Actor, &'a StaffReason),
}

impl Waitlist {
    /// Carries on with an accept that was begun: where a service has the places, it is asked.
    ///
    /// # Errors
    /// Never once the service may have been asked: what is not known then is being confirmed.
    pub async fn finish_accept(&self, begun: Begun) -> Result<AcceptOutcome, DbError> {
        let (leased, gate) = match begun {
            Begun::Decided(outcome) => return Ok(outcome),
            Begun::Asking(leased, gate) => (leased, gate),
        };
        Ok(match self.ask(leased, Some(gate)).await {
            Ok(Settled::Accepted { reference, party }) => AcceptOutcome::Accepted { reference, party },
            Ok(Settled::Conflicted) => AcceptOutcome::Conflicted,
            Ok(Settled::NotBooked) => AcceptOutcome::ServiceUnavailable,
            Ok(Settled::Cancelled(_) | Settled::Unknown) => AcceptOutcome::BeingConfirmed,
            Err(error) => {
                tracing::warn!(event = %leased.event, %error, "an accept is left to the reconciler");
                AcceptOutcome::BeingConfirmed
            }
        })
    }

    pub(super) async fn finish_accepts(&self, begun: Vec<Begun>) -> Result<Vec<AcceptOutcome>, DbError> {
        join_all(begun.into_iter().map(|begun| self.finish_accept(begun))).await.into_iter().collect()
    }

    /// What an offer that is being confirmed comes to, if it does within a few seconds. Nothing is held meanwhile, neither a
    /// lock nor a connection; whoever settles it here says so, and another process is looked after twice a second.
    ///
    /// # Errors
    /// What the database says.
    pub async fn outcome_soon(&self, offer: OfferId) -> Result<OfferState, DbError> {
        let end = Instant::now() + SOON;
        loop {
            let mut settled = pin!(self.db.hints().settled.notified());
            settled.as_mut().enable();
            let state = self.db.find_offer(offer).await?.state;
            if state != OfferState::Accepting || Instant::now() >= end {
                return Ok(state);
            }
            let until = end.min(Instant::now() + LOOK_AGAIN);
            timeout_at(until, settled).await.unwrap_or_default();
        }
    }

    /// Asks the service and writes down what it says: for places for the first time, let through when that was decided,
    /// or else to have them back or to find out what became of it, if it may be called now.
    pub(super) async fn ask(&self, leased: Leased, let_through: Option<Gate>) -> Result<Settled, DbError> {
        let first = let_through.is_some();
        let sheet = self.db.attempt_sheet(leased.event, leased.attempt).await?;
        // Stopped for longer than its lease: somebody else is at it, or was.
        if sheet.attempt.outcome != AttemptOutcome::Unresolved || sheet.attempt.lease != Some(leased.lease) {
            return Ok(Settled::Unknown);
        }
        let gate = match let_through {
            Some(gate) => gate,
            None => self.db.booking_gate(leased.event, self.services.lease()).await?,
        };
        if gate == Gate::Shut {
            self.db.give_back_attempt(leased).await?;
            return Ok(Settled::Unknown);
        }
        let now = self.db.now().await?;
        let in_time = now < sheet.attempt.key_until;
        failpoint::reach("booking.call");
        let (came, trouble) = match self.service(&sheet) {
            None => (Came::unknown(&sheet, "the key cannot be read with this installation’s secret"), None),
            Some(service) => {
                let at = Instant::now();
                let (came, trouble) = self.call(&service, &sheet, first, in_time && sheet.takes_place).await;
                self.db.metrics().booking_called(sheet.attempt.act.as_str(), came.as_str(), at.elapsed());
                self.db
                    .note_call(
                        sheet.service.organization,
                        &sheet.service.url,
                        trouble.as_deref(),
                        gate == Gate::Probe,
                    )
                    .await
                    .unwrap_or_else(|error| tracing::debug!(%error, "how the service is doing is not noted"));
                (came, trouble)
            }
        };
        failpoint::reach("booking.called");
        if let Some(trouble) = &trouble {
            tracing::warn!(event = %leased.event, service = sheet.service.url.as_str(), trouble, "booking service");
        }
        let why = match &came {
            Came::Of(Verdict::Unknown(why)) | Came::Back(GivenBack::NotYet(why)) => Some(why.clone()),
            _ => None,
        };
        if let Some(why) = why {
            let attempt = &sheet.attempt;
            let ask_staff = !in_time || attempt.staff_asked_at.is_some();
            let now = self.db.now().await?;
            let next = now + wait_after(attempt.tries, ask_staff);
            self.db.note_unresolved(leased, &why, next, ask_staff).await?;
            return Ok(Settled::Unknown);
        }
        self.settle(leased.event, leased.attempt, came, Whose::Caller(leased.lease)).await
    }

    async fn call(
        &self,
        service: &Service,
        sheet: &AttemptSheet,
        first: bool,
        again: bool,
    ) -> (Came, Option<String>) {
        let ask = question(sheet);
        match sheet.attempt.act {
            AttemptAct::Reserve => {
                let Heard { what, trouble } = if first {
                    self.services.book(service, &ask).await
                } else {
                    self.services.find_out(service, &ask, again).await
                };
                (Came::Of(what), trouble)
            }
            AttemptAct::Release => {
                let places: Vec<_> = sheet.places.iter().map(|(id, ..)| id.0).collect();
                let Heard { what, trouble } = self.services.give_back(service, &ask.key, &places).await;
                (Came::Back(what), trouble)
            }
        }
    }

    fn service(&self, sheet: &AttemptSheet) -> Option<Service> {
        let key = self.secret.open_booking_key(sheet.attempt.event, &sheet.service.sealed_key)?;
        Some(Service { url: sheet.service.url.clone(), key: BearerKey(key) })
    }

    async fn settle(
        &self,
        event: EventId,
        attempt: AttemptId,
        came: Came,
        whose: Whose<'_>,
    ) -> Result<Settled, DbError> {
        let came = &came;
        let settled = decide!(self, event, async |event| settle(event, attempt, came, whose).await).await?;
        self.db.hints().booking.notify_one();
        self.db.hints().settled.notify_waiters();
        Ok(settled)
    }

    /// Staff say what came of a call that the booking service never answered. Where it was not booked, the service is
    /// told to give back whatever the key names, so that it cannot come true later.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such attempt, or what the database says.
    pub async fn resolve_attempt(
        &self,
        event: EventId,
        attempt: AttemptId,
        resolution: &Resolution,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<ResolveOutcome, DbError> {
        let outcome = decide!(self, event, async |event| {
            let known = event.attempt(attempt).await?;
            let said = if event.done_before::<bool>().await?.is_some() {
                ResolveOutcome::Resolved
            } else if known.outcome != AttemptOutcome::Unresolved {
                ResolveOutcome::Already(known.outcome)
            } else if known.leased_until.is_some_and(|until| until > event.now()) {
                ResolveOutcome::CallUnderWay
            } else {
                settle(event, attempt, &looked_up(known.act, resolution), Whose::Staff(actor, reason))
                    .await?;
                event.remember(&true).await?;
                return Ok(ResolveOutcome::Resolved);
            };
            event.nothing_to_write();
            Ok(said)
        })
        .await?;
        self.db.hints().booking.notify_one();
        self.db.hints().settled.notify_waiters();
        Ok(outcome)
    }
}

/// What staff saw, as the service would have said it.
fn looked_up(act: AttemptAct, resolution: &Resolution) -> Came {
    let by_staff = || "staff looked it up".to_owned();
    match (act, resolution) {
        (AttemptAct::Reserve, Resolution::Booked { reference }) => {
            Came::Of(Verdict::Booked { reference: reference.clone() })
        }
        (AttemptAct::Reserve, Resolution::NotBooked) => Came::Of(Verdict::NotDone(by_staff())),
        (AttemptAct::Release, Resolution::NotBooked) => Came::Back(GivenBack::Done),
        (AttemptAct::Release, Resolution::Booked { .. }) => Came::Back(GivenBack::NotYet(by_staff())),
    }
}

impl Came {
    /// In a word, for whoever counts.
    fn as_str(&self) -> &'static str {
        match self {
            Self::Of(Verdict::Booked { .. }) | Self::Back(GivenBack::Done) => "done",
            Self::Of(Verdict::Gone(_)) => "gone",
            Self::Of(Verdict::NotDone(_)) => "not_done",
            Self::Of(Verdict::Unknown(_)) | Self::Back(GivenBack::NotYet(_)) => "unknown",
        }
    }

    fn unknown(sheet: &AttemptSheet, why: &str) -> Self {
        match sheet.attempt.act {
            AttemptAct::Reserve => Self::Of(Verdict::Unknown(why.to_owned())),
            AttemptAct::Release => Self::Back(GivenBack::NotYet(why.to_owned())),
        }
    }
}

fn question(sheet: &AttemptSheet) -> Ask {
    let (slug, name) = sheet.event.clone();
    let (person, person_name, email) = sheet.person.clone();
    Ask {
        key: sheet.attempt.key.clone(),
        event: EventSheet { id: sheet.attempt.event.0, slug, name },
        customer: CustomerSheet { id: person.0, name: person_name, email },
        places: sheet
            .places
            .iter()
            .map(|(id, number, label)| PlaceSheet { id: id.0, number: *number, label: label.clone() })
            .collect(),
    }
}

/// Who accepted, when the outcome is written down.
pub(super) fn accept_again(offer: &crate::domain::offer::Offer, actor: Actor) -> Accept {
    Accept { offer: offer.id, person: offer.person, actor }
}
