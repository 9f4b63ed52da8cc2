//! What an event says of its places, and what people want of them.

use super::{Waitlist, decide};
use crate::db::DbError;
use crate::db::attributes::InUse;
use crate::db::entries::EntryMove;
use crate::domain::attribute::{Attribute, Said, Wants};
use crate::domain::audit::{Act, Actor, Record, Subject};
use crate::domain::entry::{Entry, EntryState};
use crate::domain::ids::{EntryId, EventId, PlaceId};
use crate::domain::place::PlaceState;
use crate::domain::policy::Enough;
use crate::domain::reason::{Reason, StaffReason};

/// What came of saying something else of an event's places.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum AttributesOutcome {
    /// From now on places can be described so.
    Changed,
    /// It was so before.
    Already,
    /// This would go away although places have it or people want it.
    InUse(InUse),
    /// This one comes twice, or would be of another measure than it is.
    NotTheSame(Attribute),
    /// Somebody else changed the event since the form was opened.
    Stale,
}

/// What came of saying something else of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DescribeOutcome {
    /// It is said now, and whoever wants it can be offered the place.
    Described,
    /// It was said before.
    Already,
    /// Only of open places: somebody was promised this one as it is. This is its state.
    NotOpen(PlaceState),
    /// The event tells as many kinds of places apart as it can.
    TooManyKinds,
}

/// What came of changing what somebody asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WantsOutcome {
    /// They are asked for what they want now.
    Changed {
        /// They want more places than before, which is a new request at the end of the line.
        to_end: bool,
    },
    /// They wanted this before.
    Already,
    /// They have an offer, which keeps a place of what they wanted: after it ended.
    Offered,
    /// The entry is over: this is its state.
    Over(EntryState),
    /// People on this list want so many different things that it cannot tell one more apart.
    TooManyWants,
    /// Not between 1 and the largest party.
    BadParty(i32),
    /// With what they have booked it would be more than one person may have.
    Enough(Enough),
}

impl Waitlist {
    /// Changes what the event says of its places. `form_version` is that of the form on which the change was made.
    ///
    /// # Errors
    /// What the database says.
    pub async fn set_attributes(
        &self,
        event: EventId,
        attributes: &[Attribute],
        form_version: i32,
        actor: Actor,
    ) -> Result<AttributesOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            if event.event().attributes == attributes {
                return Ok(AttributesOutcome::Already);
            }
            if event.event().form_version != form_version {
                return Ok(AttributesOutcome::Stale);
            }
            if let Some(wrong) = first_not_the_same(&event.event().attributes, attributes) {
                return Ok(AttributesOutcome::NotTheSame(wrong.clone()));
            }
            if let Some(used) = event.taken_away_in_use(attributes).await? {
                return Ok(AttributesOutcome::InUse(used));
            }
            event.set_attributes(attributes).await?;
            let subject = Subject::Event(event.id());
            event.record(Record::new(event.now(), actor, Act::Changed, subject, Reason::EventChanged));
            Ok(AttributesOutcome::Changed)
        })
        .await
    }

    /// Says something else of an open place.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such place, or what the database says.
    pub async fn describe_place(
        &self,
        event: EventId,
        place: PlaceId,
        said: &Said,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<DescribeOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            let place = event.places(&[place]).await?.pop().ok_or(DbError::NotFound)?;
            if place.state != PlaceState::Open {
                return Ok(DescribeOutcome::NotOpen(place.state));
            }
            let Some(kind) = event.kind_of(said).await? else {
                return Ok(DescribeOutcome::TooManyKinds);
            };
            if kind == place.kind {
                return Ok(DescribeOutcome::Already);
            }
            event.set_kind(place.id, kind).await?;
            let state = Some(place.state.as_str());
            let subject = Subject::Place(place.id);
            let record = Record::new(event.now(), actor, Act::Described, subject, reason.reason);
            event.record(record.states(state, state).noted(reason));
            event.want_pass();
            Ok(DescribeOutcome::Described)
        })
        .await
    }

    /// Changes how many places somebody asks for, and what they want of them. They keep their place in the line, unless
    /// they ask for more.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has no such entry, or what the database says.
    pub async fn change_wants(
        &self,
        event: EventId,
        entry: EntryId,
        party: i32,
        wants: &Wants,
        actor: Actor,
        reason: &StaffReason,
    ) -> Result<WantsOutcome, DbError> {
        decide!(self, event, async |event| {
            event.nothing_to_write();
            let before = event.entry(entry).await?;
            match before.state {
                EntryState::Offered => return Ok(WantsOutcome::Offered),
                state if !state.is_live() => return Ok(WantsOutcome::Over(state)),
                _ => {}
            }
            let Some(number) = event.number_of_wants(wants).await? else {
                return Ok(WantsOutcome::TooManyWants);
            };
            if number == before.wants && party == before.party {
                return Ok(WantsOutcome::Already);
            }
            let policy = event.policy().await?;
            // Who asked for more before the limit was lowered may keep that, or ask for less.
            let most = policy.largest_party().max(before.party);
            if !(1..=most).contains(&party) {
                return Ok(WantsOutcome::BadParty(most));
            }
            let to_end = party > before.party;
            if to_end && let Some(enough) = event.enough(&policy, before.person, party).await? {
                return Ok(WantsOutcome::Enough(enough));
            }
            let change = |before: Entry, after: Entry, act| EntryMove {
                before,
                after,
                actor,
                act,
                reason: reason.reason,
                note: reason.note.clone(),
                policy_version: None,
            };
            let mut after = Entry { wants: number, ..before.clone() };
            if number != before.wants {
                event.move_entries(&[change(before.clone(), after.clone(), Act::WantsChanged)]).await?;
            }
            if party != before.party {
                let before = after.clone();
                after.party = party;
                if to_end {
                    after.send_to_end(event.ranks_at_end(1).await?[0]);
                }
                event.move_entries(&[change(before, after, Act::PartyChanged)]).await?;
            }
            event.want_pass();
            Ok(WantsOutcome::Changed { to_end })
        })
        .await
    }
}

/// What is said of places and wanted by people is kept by the attribute's key: nothing else ever has that key.
fn first_not_the_same<'a>(before: &[Attribute], after: &'a [Attribute]) -> Option<&'a Attribute> {
    after.iter().enumerate().find_map(|(at, attribute)| {
        let twice = after[..at].iter().any(|earlier| earlier.key == attribute.key);
        let is_other = |known: &Attribute| known.key == attribute.key && known.measure != attribute.measure;
        (twice || before.iter().any(is_other)).then_some(attribute)
    })
}
