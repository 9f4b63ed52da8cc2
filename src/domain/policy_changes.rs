//! What a version of a rule changed, setting by setting, in words.

use chrono::{DateTime, Utc};

use super::policy::{After, Band, Beacon, Draws, Fit, Mode, Ordering, Policy, PositionShown, Telling};
use super::policy_words::length;

/// One setting, before and after.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Change {
    /// As the form calls it.
    pub what: &'static str,
    /// What it was.
    pub before: String,
    /// What it is.
    pub after: String,
}

/// What `after` says otherwise than `before`, in the order of the form. `when` names an instant.
#[must_use]
pub fn changes(before: &Policy, after: &Policy, when: impl Fn(DateTime<Utc>) -> String) -> Vec<Change> {
    let settings = |policy: &Policy| {
        [
            ("What goes out", mode(policy.mode).to_owned()),
            ("Who is next", ordering(policy.ordering).to_owned()),
            ("Groups that go first", groups(&policy.bands)),
            ("People are told their group", if policy.bands_shown { "yes" } else { "no" }.to_owned()),
            ("When a draw is held", draws(policy.draws, &when)),
            ("What decides the draw", beacon(policy.beacon).to_owned()),
            ("Time to answer", policy.window.map_or_else(|| "none".to_owned(), length)),
            ("Final call from", policy.cutoff.map_or_else(|| "none".to_owned(), &when)),
            (
                "Offers pending at once",
                match policy.batch_size {
                    0 => "as many as places".to_owned(),
                    size => size.to_string(),
                },
            ),
            ("A party that does not fit", fit(policy.fit).to_owned()),
            ("After a deadline", outcome(policy.after_expiry).to_owned()),
            ("After “no, thank you”", outcome(policy.after_decline).to_owned()),
            ("Pause after unanswered offers", policy.silence_limit.to_string()),
            ("When the letter of an offer goes out late", telling(policy.telling).to_owned()),
            ("Most people on the list", limit(policy.list_cap)),
            ("Most places for one entry", limit(policy.party_limit)),
            ("Most places for one person", limit(policy.person_limit)),
            ("Position shown", shown(policy.position_shown).to_owned()),
        ]
    };
    std::iter::zip(settings(before), settings(after))
        .filter(|(before, after)| before != after)
        .map(|((what, before), (_, after))| Change { what, before, after })
        .collect()
}

fn mode(mode: Mode) -> &'static str {
    match mode {
        Mode::Hold => "offers in turn",
        Mode::NotifyAll => "calls to everybody",
    }
}

fn ordering(ordering: Ordering) -> &'static str {
    match ordering {
        Ordering::Arrival => "arrival",
        Ordering::Priority => "priority",
        Ordering::Lottery => "lottery",
        Ordering::Manual => "staff pick",
    }
}

/// Each with its reason, for that is public too.
fn groups(bands: &[Band]) -> String {
    if bands.is_empty() {
        return "none".to_owned();
    }
    bands.iter().map(|band| format!("{} ({})", band.name, band.reason)).collect::<Vec<_>>().join(", then ")
}

fn draws(draws: Draws, when: &impl Fn(DateTime<Utc>) -> String) -> String {
    match draws {
        Draws::AtNeed => "by itself".to_owned(),
        Draws::At(at) => when(at),
        Draws::ByStaff => "when staff say so".to_owned(),
    }
}

fn beacon(beacon: Option<Beacon>) -> &'static str {
    match beacon {
        None => "the announced secret",
        Some(Beacon::Drand) => "the announced secret and drand’s quicknet",
    }
}

fn fit(fit: Fit) -> &'static str {
    match fit {
        Fit::Strict => "waits for more places",
        Fit::Fill => "is passed over",
    }
}

fn outcome(after: After) -> &'static str {
    match after {
        After::Back => "end of the line",
        After::Keep => "same rank, next round",
        After::Leave => "off the list",
    }
}

fn telling(telling: Telling) -> &'static str {
    match telling {
        Telling::Run => "the deadline stays",
        Telling::Extend => "the deadline moves",
    }
}

fn limit(limit: Option<i32>) -> String {
    limit.map_or_else(|| "no limit".to_owned(), |limit| limit.to_string())
}

fn shown(shown: PositionShown) -> &'static str {
    match shown {
        PositionShown::Exact => "exact",
        PositionShown::Band => "roughly",
        PositionShown::None => "nothing",
    }
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;

    #[test]
    fn every_setting_that_changes_is_named_and_no_other() {
        let first = Policy::first();
        let at = DateTime::UNIX_EPOCH;
        let band = Band { number: -1, name: "Members".to_owned(), reason: "they pay".to_owned() };
        let each: [(&str, Policy); 18] = [
            ("What goes out", Policy { mode: Mode::NotifyAll, ..first.clone() }),
            ("Who is next", Policy { ordering: Ordering::Manual, ..first.clone() }),
            ("Groups that go first", Policy { bands: vec![band], ..first.clone() }),
            ("People are told their group", Policy { bands_shown: true, ..first.clone() }),
            ("When a draw is held", Policy { draws: Draws::At(at), ..first.clone() }),
            ("What decides the draw", Policy { beacon: Some(Beacon::Drand), ..first.clone() }),
            ("Time to answer", Policy { window: Some(Duration::hours(2)), ..first.clone() }),
            ("Final call from", Policy { cutoff: Some(at), ..first.clone() }),
            ("Offers pending at once", Policy { batch_size: 3, ..first.clone() }),
            ("A party that does not fit", Policy { fit: Fit::Fill, ..first.clone() }),
            ("After a deadline", Policy { after_expiry: After::Keep, ..first.clone() }),
            ("After “no, thank you”", Policy { after_decline: After::Back, ..first.clone() }),
            ("Pause after unanswered offers", Policy { silence_limit: 3, ..first.clone() }),
            ("When the letter of an offer goes out late", Policy { telling: Telling::Run, ..first.clone() }),
            ("Most people on the list", Policy { list_cap: Some(0), ..first.clone() }),
            ("Most places for one entry", Policy { party_limit: Some(1), ..first.clone() }),
            ("Most places for one person", Policy { person_limit: Some(1), ..first.clone() }),
            ("Position shown", Policy { position_shown: PositionShown::None, ..first.clone() }),
        ];
        let when = |at: DateTime<Utc>| at.to_rfc3339();
        for (what, after) in each {
            let named: Vec<&str> = changes(&first, &after, when).iter().map(|change| change.what).collect();
            assert_eq!(named, [what]);
        }
        assert_eq!(changes(&first, &Policy { version: 2, ..first.clone() }, when), []);
        let slower = Policy { window: Some(Duration::days(1)), ..first.clone() };
        let change = Change { what: "Time to answer", before: "none".to_owned(), after: "1 day".to_owned() };
        assert_eq!(changes(&first, &slower, when), [change]);
    }
}
