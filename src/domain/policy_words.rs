//! What an event's rule will do, in words: for the staff who run by it and the customers who are served by it.

use chrono::Duration;

use super::policy::{After, Band, Draws, Fit, Mode, Ordering, Policy, Telling};

/// "20 minutes", "2 hours", "1 day": a length as a rule names it.
#[must_use]
pub fn length(length: Duration) -> String {
    let minutes = length.num_minutes();
    let (count, unit) = match minutes {
        _ if minutes > 0 && minutes % 1_440 == 0 => (minutes / 1_440, "day"),
        _ if minutes > 0 && minutes % 60 == 0 => (minutes / 60, "hour"),
        _ => (minutes, "minute"),
    };
    if count == 1 { format!("1 {unit}") } else { format!("{count} {unit}s") }
}

/// "Members", "Members, then Residents".
fn listed(bands: &[Band]) -> String {
    bands.iter().map(|band| band.name.as_str()).collect::<Vec<_>>().join(", then ")
}

impl Policy {
    /// One sentence: what happens without anybody of the staff.
    #[must_use]
    pub fn by_itself(&self) -> String {
        let Some(window) = self.window else {
            return "Nothing is offered by itself: staff offer places by hand, each with a deadline."
                .to_owned();
        };
        let window = length(window);
        if self.mode == Mode::NotifyAll {
            return format!(
                "Everybody who could take a place that comes back is called at the same time; the first to accept has \
                 it, within {window}."
            );
        }
        match self.ordering {
            Ordering::Arrival => format!(
                "A place that comes back is offered at once to the first in line, who has {window} to answer."
            ),
            Ordering::Priority => format!(
                "A place that comes back is offered at once to the first of {}, then to everybody else in order of \
                 arrival; each has {window} to answer.",
                listed(&self.bands)
            ),
            Ordering::Lottery => format!(
                "A place that comes back is offered at once to the next in the order drawn, who has {window} to answer."
            ),
            Ordering::Manual => format!(
                "Nothing is offered by itself: staff pick who is offered a place and say why; each has {window} to answer."
            ),
        }
    }

    /// Settings that change nothing in this combination, each with why.
    #[must_use]
    pub fn without_effect(&self) -> Vec<&'static str> {
        let mut unused = Vec::new();
        let by_hand = self.window.is_none() || self.ordering == Ordering::Manual;
        if self.mode == Mode::NotifyAll {
            if self.batch_size > 0 {
                unused.push("The number of offers pending at once: calls keep nothing, so all go out.");
            }
            if self.fit == Fit::Fill {
                unused
                    .push("Who is passed over for a large party: everybody whose party would fit is called.");
            }
            if self.cutoff.is_some() {
                unused.push("The final call: everybody is called anyway.");
            }
        } else if by_hand && self.fit == Fit::Fill {
            unused.push("Who is passed over for a large party: staff pick who is offered a place.");
        }
        if self.window.is_none() && self.batch_size > 0 && self.ordering != Ordering::Manual {
            unused.push("The number of offers pending at once counts offers by hand only: nothing goes out by itself.");
        }
        if self.ordering != Ordering::Priority && !self.bands.is_empty() {
            unused.push("The groups that go first: only the priority order has groups.");
        }
        if self.ordering == Ordering::Lottery && self.window.is_none() {
            unused.push("The draw: nothing goes out by itself, so nobody goes down the order drawn.");
        }
        if self.after_expiry != After::Back && self.silence_limit == 1 {
            unused.push(
                "What becomes of who does not answer: after one unanswered offer an entry is paused anyway.",
            );
        }
        if self.party_limit.zip(self.person_limit).is_some_and(|(party, person)| party > person) {
            unused.push("The most places for one entry: one person may not have as many.");
        }
        unused
    }

    /// The rest of it, a sentence each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let mut sentences: Vec<String> = Vec::new();
        if self.ordering == Ordering::Priority {
            sentences.extend(
                self.bands
                    .iter()
                    .map(|band| format!("{} go first: {}.", band.name, band.reason.trim_end_matches('.'))),
            );
        }
        if self.ordering == Ordering::Lottery {
            sentences.push(
                match self.draws {
                    Draws::AtNeed => "A draw is held as soon as a place is open and nobody is ranked; who joins later is in the next.",
                    Draws::At(_) => "The draw is held at the instant announced; who joins later is in the next.",
                    Draws::ByStaff => "A draw is held when staff say so; who joins later is in the next.",
                }
                .to_owned(),
            );
            if self.beacon.is_some() {
                sentences.push("A future round of a public beacon takes part, so that nobody can know the result beforehand.".to_owned());
            }
        }
        sentences.extend([
            match self.fit {
                Fit::Strict => {
                    "A party that wants more places than are open waits at the head until enough are open; nobody \
                     passes it."
                }
                Fit::Fill => {
                    "When the first in line wants more places than are open, the next who fits is offered them, and \
                     that is recorded."
                }
            }
            .to_owned(),
            match self.after_expiry {
                After::Back => "Who does not answer in time goes to the end of the line.",
                After::Keep => {
                    "Who does not answer in time keeps the place in line, behind everybody not yet offered in this round."
                }
                After::Leave => "Who does not answer in time is off the list.",
            }
            .to_owned(),
            match self.after_decline {
                After::Back => "Who declines goes to the end of the line.",
                After::Keep => {
                    "Who declines keeps the place in line, behind everybody not yet offered in this round."
                }
                After::Leave => "Who declines is off the list.",
            }
            .to_owned(),
            match self.silence_limit {
                1 => "After one offer without an answer an entry is paused.".to_owned(),
                limit => format!("After {limit} offers in a row without an answer an entry is paused."),
            },
            match self.telling {
                Telling::Run => "A deadline stays as it is, even when the letter of the offer arrives late.",
                Telling::Extend => {
                    "When the letter of an offer goes out late, the deadline moves by as much; while nobody can be told, \
                     deadlines wait and nothing new is offered."
                }
            }
            .to_owned(),
        ]);
        if self.mode == Mode::Hold && self.cutoff.is_some() {
            sentences.push(
                "From the final call on, everybody who could take an open place is called, and the first to accept has it."
                    .to_owned(),
            );
        }
        if let Some(limit) = self.person_limit {
            sentences.push(match limit {
                1 => "One person may have 1 place.".to_owned(),
                limit => format!("One person may have {limit} places."),
            });
        }
        if self.batch_size > 0 {
            sentences.push(format!("At most {} offers are pending at once.", self.batch_size));
        }
        sentences
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rule_says_what_it_will_do() {
        let passive = Policy::first();
        assert!(passive.by_itself().starts_with("Nothing is offered by itself"));
        let served = Policy { window: Some(Duration::hours(2)), batch_size: 3, ..passive };
        assert_eq!(
            served.by_itself(),
            "A place that comes back is offered at once to the first in line, who has 2 hours to answer."
        );
        assert_eq!(
            served.details().last().map(String::as_str),
            Some("At most 3 offers are pending at once.")
        );
        assert_eq!(length(Duration::minutes(90)), "90 minutes");
        assert_eq!(length(Duration::days(1)), "1 day");
    }
}
