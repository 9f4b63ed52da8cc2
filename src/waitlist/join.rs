//! Joining the list, and confirming by a six-digit code.

use chrono::Duration;

use super::{Waitlist, decide};
use crate::db::attributes::{OpenKind, count};
use crate::db::entries::{EntryMove, NewEntry};
use crate::db::idempotency::Claim;
use crate::db::messages::Draft;
use crate::db::{DbError, LockedEvent};
use crate::domain::attribute::Wants;
use crate::domain::audit::{Act, Actor};
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::entry::{Entry, EntrySource, EntryState};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{CodeId, EntryId, EventId, PersonId};
use crate::domain::message::{Facts, Occasion};
use crate::domain::policy::{Enough, Fit, Policy};
use crate::domain::reason::Reason;

/// An entry that is not confirmed within this time lapses.
pub const CONFIRM_WITHIN: Duration = Duration::hours(24);

/// Somebody wants to be on the list.
#[derive(Clone, Debug)]
pub struct Join {
    /// What they want to be called.
    pub name: PersonName,
    /// Their address.
    pub email: EmailAddress,
    /// How many places, all or none.
    pub party: i32,
    /// What they want of a place.
    pub wants: Wants,
    /// How they come to be on it.
    pub as_whom: JoinAs,
}

/// Who says that the address is theirs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum JoinAs {
    /// Nobody yet: a code decides.
    Visitor,
    /// The device is signed in as this person.
    SignedIn(PersonId),
    /// Staff answer for the contact.
    Vouched(Actor),
}

/// What came of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum JoinOutcome {
    /// On the list; `Unconfirmed` until a code is entered.
    Joined(Entry),
    /// They were on the list before: the same entry.
    Already(Entry),
    /// The list takes nobody new.
    Frozen,
    /// The list is closed.
    Closed,
    /// As many are on the list as it may have.
    ListFull,
    /// Larger than the rule lets join; this is the largest.
    PartyTooLarge(i32),
    /// With what they have booked it would be more than one person may have.
    Enough(Enough),
    /// Places are free for everybody: book instead.
    PlacesFree,
    /// People on this list want so many different things that it cannot tell one more apart.
    TooManyWants,
    /// The event is not public, cancelled, over, or has started.
    NotOnSale,
}

impl JoinOutcome {
    /// A word for whoever counts them.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Joined(_) => "joined",
            Self::Already(_) => "already",
            Self::Frozen => "frozen",
            Self::Closed => "closed",
            Self::ListFull => "list_full",
            Self::PartyTooLarge(_) => "party_too_large",
            Self::Enough(_) => "enough",
            Self::PlacesFree => "places_free",
            Self::TooManyWants => "too_many_wants",
            Self::NotOnSale => "not_on_sale",
        }
    }
}

/// What came of confirming somebody's entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConfirmOutcome {
    /// It is confirmed, now or before.
    Confirmed(EntryId),
    /// With what they have booked it would be more than one person may have: it is not in the line.
    Enough(EntryId, Enough),
    /// They have no live entry there.
    NoEntry,
}

/// What came of entering a code.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CodeOutcome {
    /// Right: the device is this person's now.
    Right {
        /// Who.
        person: PersonId,
        /// What came of their entry on the event for which the code was asked, if it was for one.
        entry: ConfirmOutcome,
    },
    /// Wrong; so many tries are left.
    Wrong {
        /// How many.
        tries_left: i32,
    },
    /// Used, too old, or guessed too often: ask for a new one.
    Spent,
}

impl Waitlist {
    /// Puts people on an event's list, in this order, and answers each.
    ///
    /// # Errors
    /// What the database says.
    pub async fn join(&self, event: EventId, commands: &[Join]) -> Result<Vec<JoinOutcome>, DbError> {
        let commands: Vec<_> = commands.iter().map(|command| (command.clone(), None)).collect();
        self.join_once(event, &commands).await
    }

    /// The same for requests that may name their act: whoever left since they joined by it does not join again when it
    /// is repeated.
    ///
    /// # Errors
    /// What the database says.
    pub async fn join_once(
        &self,
        event: EventId,
        commands: &[(Join, Option<Claim>)],
    ) -> Result<Vec<JoinOutcome>, DbError> {
        let claims: Vec<Option<Claim>> = commands.iter().map(|(_, claim)| *claim).collect();
        decide!(self, event, async |event| {
            let before: Vec<Option<EntryId>> = event.receipts(&claims).await?;
            let new = std::iter::zip(commands, &before).filter(|(_, before)| before.is_none());
            let new: Vec<Join> = new.map(|((command, _), _)| command.clone()).collect();
            let mut joined = if new.is_empty() {
                event.nothing_to_write();
                vec![].into_iter()
            } else {
                join(event, &new).await?.into_iter()
            };
            let (mut outcomes, mut done) = (Vec::with_capacity(commands.len()), Vec::new());
            for ((_, claim), before) in std::iter::zip(commands, before) {
                let outcome = match before {
                    Some(entry) => JoinOutcome::Already(event.entry(entry).await?),
                    None => joined.next().ok_or(DbError::NotFound)?,
                };
                if let (JoinOutcome::Joined(entry), Some(claim)) = (&outcome, claim) {
                    done.push((*claim, entry.id));
                }
                outcomes.push(outcome);
            }
            event.remember_each(&done).await?;
            Ok(outcomes)
        })
        .await
    }

    /// Sends a code to a person's address.
    ///
    /// # Errors
    /// What the database says.
    pub async fn send_code(&self, person: PersonId, event: Option<EventId>) -> Result<CodeId, DbError> {
        let person = self.db.person(person).await?;
        self.db.make_code(&person, event).await
    }

    /// Compares what was typed; the right digits confirm the contact, and the entry for which the code was asked.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such code, or what the database says.
    pub async fn enter_code(&self, id: CodeId, typed: &str) -> Result<CodeOutcome, DbError> {
        let code = self.db.code(id).await?;
        // The guess is counted before it is compared: guessing in parallel gains nothing.
        if !self.db.try_code(id).await? {
            return Ok(CodeOutcome::Spent);
        }
        let digits: String = typed.chars().filter(|c| !c.is_whitespace()).collect();
        if !self.secret.code_matches(id, &digits) {
            let tries_left = (crate::db::persons::CODE_TRIES - code.tries - 1).max(0);
            return Ok(if tries_left == 0 { CodeOutcome::Spent } else { CodeOutcome::Wrong { tries_left } });
        }
        if !self.db.use_code(id).await? {
            return Ok(CodeOutcome::Spent);
        }
        let entry = match code.event {
            Some(event) => self.confirm(event, code.person).await?,
            None => ConfirmOutcome::NoEntry,
        };
        Ok(CodeOutcome::Right { person: code.person, entry })
    }

    /// Confirms a person's entry on an event: from now on it is in the line. Whoever asks has shown that the contact is
    /// theirs.
    ///
    /// # Errors
    /// What the database says.
    pub async fn confirm(&self, event: EventId, person: PersonId) -> Result<ConfirmOutcome, DbError> {
        decide!(self, event, async |event| {
            let Some(before) = event.live_entries_of(&[person]).await?.pop() else {
                event.nothing_to_write();
                return Ok(ConfirmOutcome::NoEntry);
            };
            let id = before.id;
            if before.confirmed_at.is_some() {
                event.nothing_to_write();
                return Ok(ConfirmOutcome::Confirmed(id));
            }
            // Only whoever has shown that the address is theirs is told what they have booked.
            if before.state == EntryState::Unconfirmed {
                let policy = event.policy().await?;
                if let Some(enough) = event.enough(&policy, person, before.party).await? {
                    event.nothing_to_write();
                    return Ok(ConfirmOutcome::Enough(id, enough));
                }
            }
            let mut after =
                Entry { confirmed_at: Some(event.now()), contact_problem: false, ..before.clone() };
            if before.state == EntryState::Unconfirmed {
                after.state = EntryState::Waiting;
                after.lapses_at = None;
                event.tell(joined(&after));
                event.want_pass();
            }
            event
                .move_entries(&[EntryMove {
                    before,
                    after,
                    actor: Actor::Person(person),
                    act: Act::Confirmed,
                    reason: Reason::Confirmed,
                    note: None,
                    policy_version: None,
                }])
                .await?;
            Ok(ConfirmOutcome::Confirmed(id))
        })
        .await
    }
}

fn joined(entry: &Entry) -> Draft {
    Draft {
        person: entry.person,
        occasion: Occasion::Joined,
        subject: entry.id.0,
        count: 0,
        facts: Facts { entry: Some(entry.id.0), party: Some(entry.party), ..Facts::default() },
    }
}

/// Why nobody can join now, whoever asks.
fn hindrance(event: &LockedEvent) -> Option<JoinOutcome> {
    let row = event.event();
    if row.state != EventState::Published || row.started(event.now()) {
        return Some(JoinOutcome::NotOnSale);
    }
    match row.list {
        ListState::Open => None,
        ListState::Frozen => Some(JoinOutcome::Frozen),
        ListState::Closed => Some(JoinOutcome::Closed),
    }
}

/// The open places that may be booked by everybody, by kind: those on which the list has no claim.
pub(super) async fn bookable(event: &mut LockedEvent) -> Result<Vec<OpenKind>, DbError> {
    let mut open = event.open_kinds().await?;
    let policy = event.policy().await?;
    let passive = policy.window.is_none() || event.event().list == ListState::Closed;
    if open.is_empty() || passive || policy.calls(event.now()) {
        return Ok(open);
    }
    let strict = policy.fit == Fit::Strict;
    if event.event().has_wants {
        let reserved = event.reserved_kinds(strict).await?;
        open.retain(|kind| !reserved.has(kind.kind));
    } else if event.somebody_could_take(open.iter().map(|kind| kind.open).sum(), strict).await? {
        open.clear();
    }
    Ok(open)
}

async fn join(event: &mut LockedEvent, commands: &[Join]) -> Result<Vec<JoinOutcome>, DbError> {
    if let Some(outcome) = hindrance(event) {
        // Whoever is on the list already hears so, whatever the list's state.
        return already_or(event, commands, outcome).await;
    }
    // Who can simply book does not wait; a larger party may, and whoever staff put on the list.
    let vouched = |command: &Join| matches!(command.as_whom, JoinAs::Vouched(_));
    let bookable = if commands.iter().all(vouched) { vec![] } else { bookable(event).await? };
    let mut need_not_wait = Vec::with_capacity(commands.len());
    for command in commands {
        let met = event.kinds_met(&command.wants).await?;
        need_not_wait.push(!vouched(command) && i64::from(command.party) <= count(&bookable, &met));
    }
    if need_not_wait.iter().all(|need_not| *need_not) {
        return already_or(event, commands, JoinOutcome::PlacesFree).await;
    }
    let policy = event.policy().await?;
    let mut free = match policy.list_cap {
        Some(cap) => i64::from(cap) - event.live_count().await?,
        None => i64::MAX,
    };
    let who: Vec<(PersonName, EmailAddress)> =
        commands.iter().map(|command| (command.name.clone(), command.email.clone())).collect();
    let persons = event.persons_with(&who).await?;
    let live = event.live_entries_of(&persons.iter().map(|person| person.id).collect::<Vec<_>>()).await?;
    let mut new: Vec<NewEntry> = Vec::new();
    let mut outcomes: Vec<Result<JoinOutcome, PersonId>> = Vec::with_capacity(commands.len());
    for ((command, person), need_not_wait) in commands.iter().zip(&persons).zip(need_not_wait) {
        if let Some(entry) = live.iter().find(|entry| entry.person == person.id) {
            outcomes.push(Ok(JoinOutcome::Already(entry.clone())));
        } else if new.iter().any(|entry| entry.person == person.id) {
            outcomes.push(Err(person.id));
        } else if command.party < 1 || command.party > policy.largest_party() {
            outcomes.push(Ok(JoinOutcome::PartyTooLarge(policy.largest_party())));
        } else if need_not_wait {
            outcomes.push(Ok(JoinOutcome::PlacesFree));
        } else if let Some(enough) = enough_for(event, &policy, command, person.id).await? {
            outcomes.push(Ok(JoinOutcome::Enough(enough)));
        } else if free <= 0 {
            outcomes.push(Ok(JoinOutcome::ListFull));
        } else if let Some(wants) = event.number_of_wants(&command.wants).await? {
            free -= 1;
            new.push(NewEntry { wants, ..new_entry(event, command, person.id) });
            outcomes.push(Err(person.id));
        } else {
            outcomes.push(Ok(JoinOutcome::TooManyWants));
        }
    }
    let added = event.add_entries(&new).await?;
    for entry in added.iter().filter(|entry| entry.state == EntryState::Waiting) {
        event.tell(joined(entry));
        event.want_pass();
    }
    outcomes
        .into_iter()
        .map(|outcome| match outcome {
            Ok(outcome) => Ok(outcome),
            Err(person) => added
                .iter()
                .find(|entry| entry.person == person)
                .map(|entry| JoinOutcome::Joined(entry.clone()))
                .ok_or(DbError::NotFound),
        })
        .collect()
}

/// A visitor is told so when they have shown who they are, at the confirmation.
async fn enough_for(
    event: &mut LockedEvent,
    policy: &Policy,
    command: &Join,
    person: PersonId,
) -> Result<Option<Enough>, DbError> {
    let known = match command.as_whom {
        JoinAs::SignedIn(signed_in) => signed_in == person,
        JoinAs::Vouched(_) => true,
        JoinAs::Visitor => false,
    };
    if known { event.enough(policy, person, command.party).await } else { Ok(None) }
}

fn new_entry(event: &LockedEvent, command: &Join, person: PersonId) -> NewEntry {
    let confirmed = match command.as_whom {
        JoinAs::SignedIn(signed_in) => signed_in == person,
        JoinAs::Visitor | JoinAs::Vouched(_) => false,
    };
    let (actor, vouched) = match command.as_whom {
        JoinAs::Vouched(actor) => (actor, true),
        JoinAs::SignedIn(_) | JoinAs::Visitor => (Actor::Person(person), false),
    };
    NewEntry {
        id: EntryId(event.entropy().id()),
        person,
        state: if confirmed || vouched { EntryState::Waiting } else { EntryState::Unconfirmed },
        party: command.party,
        wants: 0,
        source: if vouched { EntrySource::Staff } else { EntrySource::Customer },
        confirmed_at: confirmed.then(|| event.now()),
        vouched,
        lapses_at: (!confirmed && !vouched).then(|| event.now() + CONFIRM_WITHIN),
        actor,
        reason: if vouched { Reason::VouchedFor } else { Reason::Joined },
    }
}

async fn already_or(
    event: &mut LockedEvent,
    commands: &[Join],
    outcome: JoinOutcome,
) -> Result<Vec<JoinOutcome>, DbError> {
    let emails: Vec<&EmailAddress> = commands.iter().map(|command| &command.email).collect();
    let known = event.live_entries_by_email(&emails).await?;
    event.nothing_to_write();
    Ok(commands
        .iter()
        .map(|command| {
            known
                .iter()
                .find(|(canonical, _)| canonical == command.email.canonical())
                .map_or_else(|| outcome.clone(), |(_, entry)| JoinOutcome::Already(entry.clone()))
        })
        .collect())
}
