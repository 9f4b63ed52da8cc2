//! What became of a place that came back: whose turn it was, how each turn ended, and where the place is now.

use chrono::{DateTime, Duration, Utc};

use super::audit::Act;
use super::place::PlaceState;

/// One record of a place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub at: DateTime<Utc>,
    /// What.
    pub act: Act,
    /// What has the place from then on.
    pub to: PlaceState,
}

/// The place was kept for somebody's answer. Numbers are those of the records.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Turn {
    /// The record with which it began.
    pub began: usize,
    /// How long the place had been open.
    pub lag: Duration,
    /// The record with which it ended; none while it is kept.
    pub ended: Option<usize>,
}

/// Where a chain ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// Nobody has it, since then.
    Open(DateTime<Utc>),
    /// It is kept for the last turn.
    Kept,
    /// It was booked, by the last turn or past the list, with this record.
    Booked(usize),
    /// It left the event, with this record.
    Retired(usize),
}

/// The turns of a place from when it came back until it was booked, left the event, or now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Chain {
    /// Whose turn it was, in order.
    pub turns: Vec<Turn>,
    /// Where it ends.
    pub end: End,
    /// How many records it covers: what comes after is another story.
    pub length: usize,
}

/// The chain of a place whose records begin with the one that opened it.
#[must_use]
pub fn chain(records: &[Mark]) -> Option<Chain> {
    let mut opened = records.first()?.at;
    let mut turns: Vec<Turn> = Vec::new();
    let mut end = End::Open(opened);
    for (index, mark) in records.iter().enumerate() {
        let kept = end == End::Kept;
        match mark.to {
            PlaceState::Held if mark.act == Act::Held => {
                turns.push(Turn { began: index, lag: mark.at - opened, ended: None });
                end = End::Kept;
                continue;
            }
            // Marked to leave when free: who has it keeps it.
            PlaceState::Held => continue,
            PlaceState::Open => {
                opened = mark.at;
                end = End::Open(opened);
            }
            PlaceState::Booked => end = End::Booked(index),
            PlaceState::Retired => end = End::Retired(index),
        }
        if kept && let Some(turn) = turns.last_mut() {
            turn.ended = Some(index);
        }
        if matches!(end, End::Booked(_) | End::Retired(_)) {
            return Some(Chain { turns, end, length: index + 1 });
        }
    }
    Some(Chain { turns, end, length: records.len() })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn marks(acts: &[(i64, Act, PlaceState)]) -> Vec<Mark> {
        acts.iter()
            .map(|(minute, act, to)| Mark {
                at: DateTime::UNIX_EPOCH + Duration::minutes(*minute),
                act: *act,
                to: *to,
            })
            .collect()
    }

    #[test]
    fn a_place_goes_from_one_to_the_next_until_it_is_booked() {
        let records = marks(&[
            (0, Act::Released, PlaceState::Open),
            (1, Act::Held, PlaceState::Held),
            (61, Act::Released, PlaceState::Open),
            (61, Act::Held, PlaceState::Held),
            (70, Act::Booked, PlaceState::Booked),
            (99, Act::Released, PlaceState::Open),
        ]);
        let chain = chain(&records).expect("a chain");
        assert_eq!(chain.end, End::Booked(4));
        assert_eq!(chain.length, 5, "what came after the booking is another release");
        assert_eq!(
            chain.turns,
            [
                Turn { began: 1, lag: Duration::minutes(1), ended: Some(2) },
                Turn { began: 3, lag: Duration::zero(), ended: Some(4) },
            ]
        );
    }

    #[test]
    fn it_may_stay_open_be_kept_be_booked_past_the_list_or_leave() {
        let open = (0, Act::Added, PlaceState::Open);
        let end = |more: &[(i64, Act, PlaceState)]| {
            let chain = chain(&marks(&[&[open], more].concat())).expect("a chain");
            (chain.turns.len(), chain.end)
        };
        assert_eq!(end(&[]), (0, End::Open(DateTime::UNIX_EPOCH)));
        assert_eq!(end(&[(1, Act::Held, PlaceState::Held)]), (1, End::Kept));
        let marked = [(1, Act::Held, PlaceState::Held), (2, Act::Retired, PlaceState::Held)];
        assert_eq!(end(&marked), (1, End::Kept), "to leave when free");
        assert_eq!(
            end(&[marked[0], marked[1], (3, Act::Retired, PlaceState::Retired)]),
            (1, End::Retired(3))
        );
        assert_eq!(end(&[(1, Act::Booked, PlaceState::Booked)]), (0, End::Booked(1)));
        assert_eq!(chain(&[]), None);
    }
}
