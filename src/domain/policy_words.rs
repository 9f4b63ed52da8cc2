//! What an event's rule will do, in words: for the staff who run by it and the customers who are served by it.

use chrono::Duration;

use super::policy::{After, Fit, Policy};

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

impl Policy {
    /// One sentence: what happens without anybody of the staff.
    #[must_use]
    pub fn by_itself(&self) -> String {
        match self.window {
            None => {
                "Nothing is offered by itself: staff offer places by hand, each with a deadline.".to_owned()
            }
            Some(window) => format!(
                "A place that comes back is offered at once to the first in line, who has {} to answer.",
                length(window)
            ),
        }
    }

    /// The rest of it, a sentence each.
    #[must_use]
    pub fn details(&self) -> Vec<String> {
        let mut sentences = vec![
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
        ];
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
