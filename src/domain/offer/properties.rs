//! The whole state machine, written down a second time as a table.

use chrono::Duration;
use proptest::prelude::*;
use uuid::Uuid;

use super::*;

const ACTS: [OfferAct; 5] =
    [OfferAct::Accept, OfferAct::Decline, OfferAct::Expire, OfferAct::Revoke, OfferAct::Reactivate];

fn offer(state: OfferState, kind: OfferKind, made_at: DateTime<Utc>, expires_at: DateTime<Utc>) -> Offer {
    Offer {
        event: EventId(Uuid::nil()),
        id: OfferId(Uuid::nil()),
        entry: EntryId(Uuid::nil()),
        person: PersonId(Uuid::nil()),
        kind,
        state,
        party: 1,
        pass: Some(1),
        made_by: None,
        policy_version: 1,
        key: OrderKey { band: 0, round: 0, rank: 1 },
        made_at,
        expires_at,
        ended_at: None,
        end_reason: None,
        reactivations: 0,
        tellings: 0,
        stands: false,
        made_reason: None,
    }
}

/// What the design says, state by state: the deadline itself is late.
fn expected(state: OfferState, kind: OfferKind, act: OfferAct, late: bool) -> Result<OfferState, Refusal> {
    use OfferState::{Accepted, Accepting, Conflicted, Declined, Expired, Pending, Revoked};
    match state {
        Pending => match (act, late) {
            (OfferAct::Accept, false) => Ok(Accepted),
            (OfferAct::Decline, false) => Ok(Declined),
            (OfferAct::Accept | OfferAct::Decline, true) => Err(Refusal::Late),
            (OfferAct::Expire, true) => Ok(Expired),
            (OfferAct::Expire, false) => Err(Refusal::NotDue),
            (OfferAct::Revoke, _) => Ok(Revoked),
            (OfferAct::Reactivate, _) => Err(Refusal::Already(Pending)),
        },
        Accepting => Err(Refusal::BeingConfirmed),
        Expired | Revoked if act == OfferAct::Reactivate => match kind {
            OfferKind::Hold => Ok(Pending),
            OfferKind::Call => Err(Refusal::NotAHold),
        },
        Expired if matches!(act, OfferAct::Accept | OfferAct::Decline) => Err(Refusal::Late),
        Accepted | Declined | Expired | Revoked | Conflicted => Err(Refusal::Already(state)),
    }
}

#[test]
fn every_act_in_every_state_before_at_and_after_the_deadline() {
    let made_at = DateTime::UNIX_EPOCH;
    let expires_at = made_at + Duration::hours(1);
    for &state in OfferState::ALL {
        for &kind in OfferKind::ALL {
            for act in ACTS {
                for (micros, late) in [(-1, false), (0, true), (1, true)] {
                    let now = expires_at + Duration::microseconds(micros);
                    let offer = offer(state, kind, made_at, expires_at);
                    let what = format!("{act:?} of a {state} {kind} {micros} µs from its deadline");
                    assert_eq!(offer.after(act, now), expected(state, kind, act, late), "{what}");
                    let accepted = offer.after(OfferAct::Accept, now).is_ok();
                    assert_eq!(offer.is_claimable(now), accepted, "{what}");
                }
            }
        }
    }
}

proptest! {
    /// Whatever happens in whatever order, an offer is accepted at most once, before the deadline then in force,
    /// and nothing follows but silence.
    #[test]
    fn an_accepted_offer_stays_accepted(
        kind in prop::sample::select(OfferKind::ALL),
        acts in prop::collection::vec((prop::sample::select(&ACTS[..]), 0_i64..90), 1..20),
    ) {
        let made_at = DateTime::UNIX_EPOCH;
        let mut offer = offer(OfferState::Pending, kind, made_at, made_at + Duration::minutes(60));
        let (mut now, mut accepted) = (made_at, 0);
        for (act, minutes) in acts {
            now += Duration::minutes(minutes);
            let before = offer.state;
            if let Ok(after) = offer.after(act, now) {
                prop_assert_ne!(after, before, "an act changes the state");
                prop_assert!(matches!(before, OfferState::Pending | OfferState::Expired | OfferState::Revoked));
                if after == OfferState::Accepted {
                    accepted += 1;
                    prop_assert!(now < offer.expires_at);
                }
                if act == OfferAct::Reactivate {
                    prop_assert_eq!(kind, OfferKind::Hold);
                    offer.expires_at = now + Duration::minutes(60);
                }
                offer.state = after;
            }
        }
        prop_assert_eq!(accepted, i32::from(offer.state == OfferState::Accepted));
    }
}
