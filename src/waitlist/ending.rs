//! Ending offers: one way for deadlines, refusals, revocations, leaving, closing and cancelling.

use std::collections::HashMap;

use crate::db::entries::EntryMove;
use crate::db::messages::Draft;
use crate::db::offers::OfferMove;
use crate::db::places::{NewRelease, Place, PlaceMove};
use crate::db::{DbError, LockedEvent};
use crate::domain::audit::{Act, Actor};
use crate::domain::entry::Entry;
use crate::domain::ids::{OfferId, PlaceId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::offer::{Offer, OfferState};
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;

/// An offer that ends without a booking, and what becomes of its entry.
pub(super) struct Ending {
    pub offer: Offer,
    pub to: OfferState,
    pub entry: Entry,
    /// The entry as it shall be; its rank is replaced if it goes to the end of the line.
    pub after: Entry,
    pub to_end: bool,
    pub actor: Actor,
    pub act: Act,
    pub reason: Reason,
    pub note: Option<String>,
    pub tell: Option<Occasion>,
}

/// Ends the offers, frees their places, moves their entries, tells their people and asks for a pass: all as sets.
pub(super) async fn end_offers(event: &mut LockedEvent, mut endings: Vec<Ending>) -> Result<(), DbError> {
    if endings.is_empty() {
        return Ok(());
    }
    let ids: Vec<OfferId> = endings.iter().map(|ending| ending.offer.id).collect();
    let mut held: HashMap<OfferId, Vec<Place>> = HashMap::new();
    for place in event.places_of_offers(&ids).await? {
        if let Some(offer) = place.offer {
            held.entry(offer).or_default().push(place);
        }
    }
    let movers = endings.iter().filter(|ending| ending.to_end).count();
    let mut ranks = event.ranks_at_end(movers).await?.into_iter();
    for ending in endings.iter_mut().filter(|ending| ending.to_end) {
        if let Some(rank) = ranks.next() {
            ending.after.send_to_end(rank);
        }
    }

    let mut offer_moves = Vec::with_capacity(endings.len());
    let mut entry_moves = Vec::with_capacity(endings.len());
    let mut place_moves = Vec::new();
    let mut releases = Vec::new();
    for ending in &endings {
        let places = held.remove(&ending.offer.id).unwrap_or_default();
        tell(event, ending, &places);
        let opened: Vec<PlaceId> = places
            .iter()
            .filter(|place| place.when_free() == PlaceState::Open)
            .map(|place| place.id)
            .collect();
        if !opened.is_empty() {
            releases.push(NewRelease {
                source: "offer",
                source_id: format!("{}:{}", ending.offer.id, ending.offer.reactivations),
                reason: ending.reason,
                places: opened,
            });
        }
        place_moves.extend(
            places
                .into_iter()
                .map(|place| PlaceMove::free(place, Some(ending.entry.id), ending.actor, ending.reason)),
        );
        let mut offer_move =
            OfferMove::end(&ending.offer, ending.to, ending.actor, ending.act, ending.reason);
        offer_move.note.clone_from(&ending.note);
        offer_moves.push(offer_move);
        entry_moves.push(EntryMove {
            before: ending.entry.clone(),
            after: ending.after.clone(),
            actor: ending.actor,
            act: ending.act,
            reason: ending.reason,
            note: None,
            policy_version: Some(ending.offer.policy_version),
        });
    }
    event.move_offers(&offer_moves).await?;
    event.move_places(&place_moves).await?;
    event.add_releases(&releases, endings[0].actor).await?;
    event.move_entries(&entry_moves).await?;
    event.want_pass();
    Ok(())
}

fn tell(event: &mut LockedEvent, ending: &Ending, places: &[Place]) {
    let Some(occasion) = ending.tell else { return };
    event.tell(Draft {
        person: ending.entry.person,
        occasion,
        subject: ending.offer.id.0,
        count: ending.offer.reactivations,
        facts: Facts {
            entry: Some(ending.entry.id.0),
            offer: Some(ending.offer.id.0),
            party: Some(ending.offer.party),
            labels: labels(places),
            expires_at: Some(ending.offer.expires_at),
            entry_state: Some(ending.after.state.as_str().to_owned()),
            reason: Some(ending.reason.as_str().to_owned()),
            ..Facts::default()
        },
    });
}

/// What there is to tell of places beyond their number.
pub(super) fn labels(places: &[Place]) -> Vec<String> {
    places.iter().filter_map(Place::told).collect()
}
