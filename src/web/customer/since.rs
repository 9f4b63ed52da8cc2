//! "Was I passed over?": what happened on a list since somebody joined it. Nobody else is ever named.

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

use crate::db::pages_since::{Look, Since};
use crate::domain::allocation::SkipReason;
use crate::domain::entry::{Entry, EntryState, Hindrance, PausedBy};
use crate::domain::offer::OfferKind;
use crate::domain::reason::Reason;
use crate::domain::standing::{grouped, places_in_words};
use crate::domain::trail::{Fate, Stand, fate};
use crate::domain::when::When;

/// As many times as the page lists; the others are counted.
pub const SINCE_SHOWN: i64 = 20;

/// See the module.
#[derive(Clone, Debug)]
pub struct SinceJoined {
    /// The answer, what was offered to whom, and who is ahead but cannot be asked.
    pub sentences: Vec<String>,
    /// What the list is.
    pub title: String,
    /// When places were offered, and what that meant.
    pub rows: Vec<(When, String)>,
}

fn offers_were(count: i64) -> String {
    if count == 1 { "1 offer was".to_owned() } else { format!("{} offers were", grouped(count)) }
}

impl SinceJoined {
    /// `hindered`: how many ahead cannot be offered anything; 0 where that is not told.
    #[must_use]
    pub fn new(
        entry: &Entry,
        since: &Since,
        trail: &[Stand],
        hindered: i64,
        zone: Tz,
        now: DateTime<Utc>,
    ) -> Self {
        let told: Vec<(&Look, Fate)> =
            since.looks.iter().map(|look| (look, fate(trail, look.at, look.skip))).collect();
        let mut sentences = vec![answer(entry, since, &told)];
        sentences.extend(passed_over(entry, &told, zone, now));
        let by_hand: i64 = since.by_hand.iter().map(|(_, count)| count).sum();
        if by_hand > 0 {
            sentences.push(format!(
                "The organizer also made {} by hand, to others.",
                if by_hand == 1 { "1 offer".to_owned() } else { format!("{} offers", grouped(by_hand)) }
            ));
        }
        match hindered {
            0 => {}
            1 => sentences.push(
                "1 person ahead of you cannot be asked at the moment and keeps their place: they may come before you again."
                    .to_owned(),
            ),
            n => sentences.push(format!(
                "{} people ahead of you cannot be asked at the moment and keep their places: they may come before you again.",
                grouped(n)
            )),
        }
        let shown = i64::try_from(told.len()).unwrap_or(i64::MAX);
        Self {
            sentences,
            title: if shown == since.count && !since.cut {
                "Each time places were offered".to_owned()
            } else {
                format!("The last {shown} times places were offered")
            },
            rows: told
                .iter()
                .map(|(look, fate)| (When::new(look.at, zone, now), row(entry, look, *fate)))
                .collect(),
        }
    }
}

/// How many offers, and whether all of them went to people ahead.
fn answer(entry: &Entry, since: &Since, told: &[(&Look, Fate)]) -> String {
    if since.offers == 0 {
        return "No. Since you joined nobody has been offered a place by the rule of this list.".to_owned();
    }
    let least = if since.cut { "at least " } else { "" };
    let offers = offers_were(since.offers);
    let passed = since.skips > 0
        || told.iter().any(|(look, fate)| matches!(fate, Fate::Hindered(_)) && look.went_past());
    if passed {
        return format!("Since you joined, {least}{offers} made. Some passed you over:");
    }
    let plain = told.iter().all(|(_, fate)| matches!(fate, Fate::Behind | Fate::Hindered(_)));
    if !plain || told.len() < usize::try_from(since.count).unwrap_or(usize::MAX) {
        return format!("No. Since you joined, {least}{offers} made, none of them past you.");
    }
    let order = match told.first().and_then(|(look, _)| look.reason) {
        Some(Reason::FirstInBand) => ", as the groups of this list go",
        Some(Reason::FirstDrawn) if entry.key.band < 0 => ", in the order that was drawn",
        Some(Reason::FirstDrawn) => ", who were drawn before",
        _ => "",
    };
    let (all, went) =
        if since.offers == 1 { ("it", "went to somebody") } else { ("all of them", "went to people") };
    format!("No. Since you joined, {least}{offers} made, and {all} {went} ahead of you{order}.")
}

/// Why somebody behind was asked, each reason once, with the last time.
fn passed_over(entry: &Entry, told: &[(&Look, Fate)], zone: Tz, now: DateTime<Utc>) -> Vec<String> {
    let last = |is: fn(&Fate) -> bool| {
        told.iter().find(|(_, fate)| is(fate)).map(|(look, _)| When::new(look.at, zone, now).absolute)
    };
    let mut why = Vec::new();
    if let Some(at) = last(|fate| matches!(fate, Fate::PassedOver(SkipReason::DoesNotFit { .. }))) {
        why.push(format!(
            "You need {} together. Places for fewer went to people after you, as the rule says; the last time {at}.",
            places_in_words(entry.party.into())
        ));
    }
    if let Some(at) = last(|fate| matches!(fate, Fate::PassedOver(SkipReason::DeclinedThese { .. }))) {
        why.push(format!("Places that you had passed on went to people after you; the last time {at}."));
    }
    if let Some(at) = last(|fate| matches!(fate, Fate::PassedOver(SkipReason::DoesNotMatch { .. }))) {
        why.push(format!(
            "Places of other kinds than you want, or fewer of yours than you need, went to people after you; the last \
             time {at}."
        ));
    }
    if let Some((look, Fate::Hindered(hindrance))) =
        told.iter().find(|(look, fate)| matches!(fate, Fate::Hindered(_)) && look.went_past())
    {
        why.push(format!(
            "Offers went to people after you while {}; the last time {}. You kept your place.",
            while_hindered(*hindrance),
            When::new(look.at, zone, now).absolute
        ));
    }
    why
}

fn while_hindered(hindrance: Hindrance) -> &'static str {
    match hindrance {
        Hindrance::Paused(PausedBy::Person) => "your request was paused by you",
        Hindrance::Paused(PausedBy::Staff) => "your request was paused by the organizer",
        Hindrance::Paused(PausedBy::Silent) => "your request was paused because offers went unanswered",
        Hindrance::ContactProblem => "our messages to you came back",
        Hindrance::SetAside => "the organizer had yet to decide how it goes on for you",
        Hindrance::UntilPassed => "the date until which you wanted to wait had passed",
    }
}

fn row(entry: &Entry, look: &Look, fate: Fate) -> String {
    let offers = match (look.kind, look.offered) {
        (Some(OfferKind::Call), 1) => "1 call".to_owned(),
        (Some(OfferKind::Call), n) => format!("{} calls", grouped(n)),
        (_, 1) => "1 offer".to_owned(),
        (_, n) => format!("{} offers", grouped(n)),
    };
    let whom = if look.offered == 1 { "somebody" } else { "people" };
    match fate {
        Fate::Behind => format!("{offers}, to {whom} ahead of you"),
        Fate::Hindered(hindrance) if !look.went_past() => {
            format!("{offers}, to {whom} ahead of you, while {}", while_hindered(hindrance))
        }
        Fate::PassedOver(SkipReason::DoesNotFit { more_than }) => format!(
            "{offers}, not to you: you need {} together, and no more than {more_than} {} left",
            places_in_words(entry.party.into()),
            if more_than == 1 { "was" } else { "were" }
        ),
        Fate::PassedOver(SkipReason::DoesNotMatch { left: 0 }) => {
            format!("{offers}, not to you: none of what you want was left")
        }
        Fate::PassedOver(SkipReason::DoesNotMatch { left }) => format!(
            "{offers}, not to you: you need {} together, and of what you want no more than {left} {} left",
            places_in_words(entry.party.into()),
            if left == 1 { "was" } else { "were" }
        ),
        Fate::PassedOver(SkipReason::DeclinedThese { .. }) => {
            format!("{offers}, not to you: you had passed on these places")
        }
        Fate::Hindered(hindrance) => format!("{offers}, while {}", while_hindered(hindrance)),
        Fate::Offered => format!("{offers}, one of them to you"),
        Fate::Away(EntryState::Unconfirmed) => format!("{offers}, before you had confirmed"),
        Fate::Away(EntryState::Offered) => format!("{offers}, while you had an offer"),
        Fate::Away(_) => format!("{offers}, while you were not in the line"),
    }
}
