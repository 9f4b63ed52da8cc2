//! What a rule would do with this event's own list, in words, before it is put in force.

use chrono::{DateTime, Duration, Utc};
use uuid::Uuid;

use super::super::super::WebState;
use super::super::super::error::Error;
use super::super::frame::{isolated, places as so_many};
use super::super::next::Halt;
use crate::db::pages_staff::InLine;
use crate::domain::allocation::{OpenPlace, PassOutcome, allocate};
use crate::domain::event::Event;
use crate::domain::ids::PlaceId;
use crate::domain::policy::{Fit, Ordering, Policy};
use crate::domain::standing::grouped;

/// As many places come back in the example when none is open.
const SUPPOSED: usize = 3;

/// As many of those chosen are named.
const NAMED: usize = 8;

/// The example: an opening and what would happen, in order.
pub(super) struct Example {
    /// "With 2 places open now:", "If 3 places came back now:".
    pub(super) opening: String,
    /// What would happen, a sentence each.
    pub(super) lines: Vec<String>,
}

impl Example {
    /// What `policy` would do now.
    pub(super) async fn of(
        state: &WebState,
        event: &Event,
        before: &Policy,
        policy: &Policy,
        now: DateTime<Utc>,
    ) -> Result<Self, Error> {
        let mut open: Vec<OpenPlace> = state
            .db
            .open_places(event.id, 200)
            .await?
            .iter()
            .map(|place| OpenPlace { id: place.id, opened_at: place.opened_at, kind: place.kind })
            .collect();
        let opening = if open.is_empty() {
            // Nobody has declined a place that opens after now.
            let opened_at = now + Duration::seconds(1);
            open = (0..SUPPOSED)
                .map(|n| OpenPlace { id: PlaceId(Uuid::from_u128(n as u128)), opened_at, kind: 0 })
                .collect();
            format!("If {} came back now:", so_many(i32::try_from(SUPPOSED).unwrap_or(0)))
        } else {
            let count = i32::try_from(open.len()).unwrap_or(i32::MAX);
            format!("With {} open now:", so_many(count))
        };
        if policy.calls(now) && policy.window.is_some() {
            let eligible = state.db.entry_counts(event.id).await?.eligible;
            let line = format!(
                "Everybody whose party would fit is called at the same time, of {} who wait; the first to accept has the \
                 place, and nothing is held for anybody.",
                grouped(eligible)
            );
            return Ok(Self { opening, lines: vec![line] });
        }
        let halted = Halt::of(event, policy, now).filter(|halt| !halt.allows_by_hand());
        if let Some(halt) = halted {
            return Ok(Self { opening, lines: vec![halt.sentence()] });
        }
        let eligible = state.db.entry_counts(event.id).await?.eligible;
        if policy.ordering == Ordering::Lottery && before.ordering != Ordering::Lottery {
            return Ok(Self { opening, lines: vec![draw_first(policy, eligible)] });
        }
        let line = state.db.line_under(event.id, before.ordering, policy).await?;
        Ok(Self { opening, lines: sentences(policy, &open, &line, eligible) })
    }
}

fn draw_first(policy: &Policy, eligible: i64) -> String {
    let pool = match eligible {
        1 => "the 1 person".to_owned(),
        n => format!("the {} people", grouped(n)),
    };
    let when = if policy.draws == crate::domain::policy::Draws::AtNeed { "first of all" } else { "first" };
    format!(
        "A draw is held {when} among {pool} who could be offered a place; the places then go down the order drawn."
    )
}

fn sentences(policy: &Policy, open: &[OpenPlace], line: &[InLine], eligible: i64) -> Vec<String> {
    let candidates: Vec<_> = line.iter().map(|in_line| in_line.candidate).collect();
    let room =
        if policy.batch_size == 0 { usize::MAX } else { usize::try_from(policy.batch_size).unwrap_or(0) };
    let allocation = allocate(open, &candidates, policy.fit, room);
    let name_of = |entry| line.iter().find(|in_line| in_line.candidate.entry == entry);
    let mut sentences = Vec::new();
    let by_hand = policy.window.is_none() || policy.ordering == Ordering::Manual;
    if by_hand {
        sentences.push("Nothing goes out by itself. Staff are shown this order and decide:".to_owned());
    }
    let chosen: Vec<&InLine> =
        allocation.chosen.iter().filter_map(|chosen| name_of(chosen.candidate.entry)).collect();
    for (index, in_line) in chosen.iter().take(NAMED).enumerate() {
        let what = match in_line.candidate.party {
            1 => "a place".to_owned(),
            party => format!("{} for their party", so_many(party)),
        };
        let first = if index == 0 { "First" } else { "Then" };
        let band = policy.band(in_line.candidate.key.band).filter(|_| policy.ordering == Ordering::Priority);
        let group = band.map_or_else(String::new, |band| format!(" ({})", isolated(&band.name)));
        let verb = if by_hand { "comes" } else { "is offered" };
        let what = if by_hand { format!("for {what}") } else { what };
        sentences.push(format!("{first} {}{group} {verb} {what}.", isolated(&in_line.name)));
    }
    if chosen.len() > NAMED {
        let more = i64::try_from(chosen.len() - NAMED).unwrap_or(i64::MAX);
        sentences.push(format!("And {} more.", grouped(more)));
    }
    let last = allocation.chosen.last().map(|chosen| chosen.candidate.key);
    let skipped = line.iter().find(|in_line| {
        last.is_some_and(|last| in_line.candidate.key < last)
            && !allocation.chosen.iter().any(|chosen| chosen.candidate.entry == in_line.candidate.entry)
    });
    if let Some(skipped) = skipped {
        sentences.push(format!(
            "{} wants {} and is passed over, with that reason on record.",
            isolated(&skipped.name),
            so_many(skipped.candidate.party)
        ));
    }
    let given: usize = allocation.chosen.iter().map(|chosen| chosen.places.len()).sum();
    let next = line.iter().find(|in_line| last.is_none_or(|last| in_line.candidate.key > last));
    match (next, allocation.outcome) {
        (Some(next), _) if policy.fit == Fit::Strict && given < open.len() && chosen.len() < room => {
            let (name, party) = (isolated(&next.name), so_many(next.candidate.party));
            let next = if chosen.is_empty() { "is first" } else { "comes next" };
            sentences
                .push(format!("{name} {next} and wants {party}: everybody waits until as many are open."));
        }
        (_, PassOutcome::NobodyEligible) if eligible > 0 => {
            sentences.push("Nobody in the line could take what is open.".to_owned());
        }
        (_, PassOutcome::NobodyEligible) => {
            sentences.push("Nobody waits who could be offered a place.".to_owned());
        }
        _ => {}
    }
    sentences
}
