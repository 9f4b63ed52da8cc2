//! What staff are told of an entry's chances so far: which looks at the line made offers since it joined, to whom ahead
//! of it, and when and why it was passed over.

use super::event::hindered_in_words;
use super::frame::{EventFrame, are, people, places};
use super::words;
use crate::db::pages_since::{Look, Since};
use crate::db::pages_staff::HinderedCounts;
use crate::domain::allocation::SkipReason;
use crate::domain::entry::{Entry, EntryState};
use crate::domain::offer::OfferKind;
use crate::domain::reason::Reason;
use crate::domain::standing::grouped;
use crate::domain::trail::{Fate, Stand, fate};
use crate::domain::when::When;

/// As many looks as the page lists; the others are counted.
pub const SINCE_SHOWN: i64 = 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct SinceJoined {
    /// How many offers, and whether it was passed over.
    pub sentence: String,
    /// What staff offered past the rule.
    pub by_hand: Option<String>,
    /// Who is ahead now.
    pub ahead: Option<String>,
    /// What the list is.
    pub title: String,
    /// The last looks.
    pub rows: Vec<SinceRow>,
    /// Whether it was passed over in one of them.
    pub passed_over: bool,
}

/// A look at the line.
#[derive(Clone, Debug)]
pub struct SinceRow {
    /// When.
    pub at: When,
    /// What it offered, by which rule.
    pub made: String,
    /// What it meant for the entry.
    pub meant: String,
}

fn offers(count: i64) -> String {
    if count == 1 { "1 offer".to_owned() } else { format!("{} offers", grouped(count)) }
}

fn times(count: i64) -> String {
    if count == 1 { "once".to_owned() } else { format!("{} times", grouped(count)) }
}

impl SinceJoined {
    /// `ahead`: how many ahead of it can be offered a place, and what hinders the others there.
    #[must_use]
    pub fn new(
        frame: &EventFrame,
        entry: &Entry,
        since: &Since,
        trail: &[Stand],
        ahead: Option<(i64, HinderedCounts)>,
    ) -> Self {
        let fates: Vec<Fate> = since.looks.iter().map(|look| fate(trail, look.at, look.skip)).collect();
        let went_past = |(look, fate): (&Look, &Fate)| match fate {
            Fate::PassedOver(_) => true,
            Fate::Hindered(_) => look.went_past(),
            Fate::Behind | Fate::Offered | Fate::Away(_) => false,
        };
        let passed_over = since.looks.iter().zip(&fates).any(went_past);
        let all = i64::try_from(since.looks.len()).unwrap_or(i64::MAX) == since.count;
        let behind = all && fates.iter().all(|fate| *fate == Fate::Behind);
        let least = if since.cut { "at least " } else { "" };
        let sentence = match (since.offers, since.skips) {
            (0, _) => "Since it joined, the rule has offered nobody a place.".to_owned(),
            (n, 0) if behind => {
                format!("Since it joined, the rule made {least}{}: all to entries ahead of it.", offers(n))
            }
            (n, 0) => {
                let hindered =
                    if passed_over { "; it was passed over while something hindered it" } else { "" };
                format!("Since it joined, the rule made {least}{}{hindered}.", offers(n))
            }
            (n, skips) => format!(
                "Since it joined, the rule made {least}{}, and passed it over {} in favour of somebody behind it.",
                offers(n),
                times(skips)
            ),
        };
        let shown = since.looks.len();
        Self {
            sentence,
            by_hand: by_hand(&since.by_hand),
            ahead: ahead.map(|(eligible, hindered)| ahead_now(eligible, hindered)),
            title: match (all, shown) {
                (true, 1) => "The look at the line that made offers".to_owned(),
                (true, shown) => format!("The {shown} looks at the line that made offers"),
                (false, shown) => format!(
                    "The last {shown} of {least}{} looks at the line that made offers",
                    grouped(since.count)
                ),
            },
            rows: since
                .looks
                .iter()
                .zip(&fates)
                .map(|(look, fate)| SinceRow {
                    at: frame.when(look.at),
                    made: made(look),
                    meant: meant(entry, look, *fate),
                })
                .collect(),
            passed_over,
        }
    }
}

fn made(look: &Look) -> String {
    let what = if look.kind == Some(OfferKind::Call) {
        format!("{} called", people(look.offered))
    } else {
        offers(look.offered)
    };
    let reason = look.reason.map_or("", Reason::label);
    format!("{what}, {reason} (rule, version {})", look.version)
}

fn meant(entry: &Entry, look: &Look, fate: Fate) -> String {
    match fate {
        Fate::Behind if !look.went_past() => "all ahead of it".to_owned(),
        Fate::Behind => format!("{} of {} ahead of it", look.ahead, look.offered),
        Fate::PassedOver(SkipReason::DoesNotFit { more_than }) => format!(
            "passed over: it wants {}, and {more_than} {} open",
            places(entry.party),
            if more_than == 1 { "was" } else { "were" }
        ),
        Fate::PassedOver(SkipReason::DoesNotMatch { left: 0 }) => {
            "passed over: no place of a kind that it wants was left".to_owned()
        }
        Fate::PassedOver(SkipReason::DoesNotMatch { left }) => format!(
            "passed over: it needs {}, and of the kinds that it wants {left} {} left",
            places(entry.party),
            if left == 1 { "was" } else { "were" }
        ),
        Fate::PassedOver(SkipReason::DeclinedThese { .. }) => {
            "passed over: it had declined the places that were open".to_owned()
        }
        Fate::Hindered(hindrance) if !look.went_past() => {
            format!("all ahead of it; it was hindered: {}", words::hindered(hindrance))
        }
        Fate::Hindered(hindrance) => format!("passed over: {}", words::hindered(hindrance)),
        Fate::Offered => "it was offered a place itself".to_owned(),
        Fate::Away(EntryState::Unconfirmed) => "it was not confirmed yet".to_owned(),
        Fate::Away(EntryState::Offered) => "it had an offer".to_owned(),
        Fate::Away(_) => "it was not in the line".to_owned(),
    }
}

fn by_hand(made: &[(Option<Reason>, i64)]) -> Option<String> {
    let total: i64 = made.iter().map(|(_, count)| count).sum();
    if total == 0 {
        return None;
    }
    let reasons: Vec<String> = made
        .iter()
        .map(|(reason, count)| {
            format!("{} {}", grouped(*count), reason.map_or("for a reason not known", Reason::label))
        })
        .collect();
    Some(format!("By hand, staff made {} to others: {}.", offers(total), reasons.join(", ")))
}

fn ahead_now(eligible: i64, hindered: HinderedCounts) -> String {
    let can = match eligible {
        0 => "Nobody who can be offered a place is ahead of it now".to_owned(),
        n => format!("Ahead of it now {} {} who can be offered a place", are(n), people(n)),
    };
    match hindered.total() {
        0 => format!("{can}."),
        n => {
            format!("{can}; {} {} ahead and passed over: {}.", people(n), are(n), hindered_in_words(hindered))
        }
    }
}
