//! What a hold loses while its person cannot be told, and how its deadline makes up for it, where the rule says so.
//!
//! Two things count: the time in which no channel worked at all, and the time until its own first letter went out, of
//! that at most one window. No time counts twice, and no deadline lies after the start.

use chrono::{DateTime, Duration, Utc};

/// Telling within this is no loss: a letter is late after it, and a shorter outage matters only at the deadline itself.
pub const LATE: Duration = Duration::minutes(2);

/// What is to be made up for of a pending hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Loss {
    /// When it was made, or last given again.
    pub made_at: DateTime<Utc>,
    /// Its deadline.
    pub expires_at: DateTime<Utc>,
    /// Until then everything is made up for.
    pub since: DateTime<Utc>,
    /// For so long no channel has worked since.
    pub outage: Duration,
    /// Its first letter has not gone out yet.
    pub untold: bool,
    /// At most so much is made up for a late letter: one window.
    pub most: Duration,
    /// So much of it was.
    pub late: Duration,
}

/// How it is made up for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MadeUp {
    /// The deadline from now on.
    pub expires_at: DateTime<Utc>,
    /// So much of that is for a late letter, in whole seconds.
    pub late: Duration,
}

impl Loss {
    /// The deadline moves by what was lost until `now`, at most to the start; nothing when nothing was.
    #[must_use]
    pub fn made_up(&self, now: DateTime<Utc>, starts_at: Option<DateTime<Utc>>) -> Option<MadeUp> {
        let late = if self.untold && now - self.made_at > LATE {
            let waited = now - self.since - self.outage;
            Duration::seconds(waited.min(self.most - self.late).num_seconds().max(0))
        } else {
            Duration::zero()
        };
        let lost = self.outage + late;
        if lost <= Duration::zero() {
            return None;
        }
        let moved = self.expires_at.checked_add_signed(lost)?;
        let expires_at = starts_at.map_or(moved, |start| moved.min(start)).max(self.expires_at);
        Some(MadeUp { expires_at, late })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Duration = Duration::hours(2);

    fn made() -> DateTime<Utc> {
        DateTime::UNIX_EPOCH
    }

    fn loss() -> Loss {
        Loss {
            made_at: made(),
            expires_at: made() + WINDOW,
            since: made(),
            outage: Duration::zero(),
            untold: true,
            most: WINDOW,
            late: Duration::zero(),
        }
    }

    /// The minutes by which the deadline moves.
    fn moved(loss: Loss, after: i64, start: Option<i64>) -> Option<i64> {
        let at = |minutes| made() + Duration::minutes(minutes);
        loss.made_up(at(after), start.map(at))
            .map(|made_up| (made_up.expires_at - loss.expires_at).num_minutes())
    }

    #[test]
    fn a_late_letter_moves_the_deadline_by_as_much_up_to_a_window_and_the_start() {
        assert_eq!(moved(loss(), 2, None), None, "two minutes are in time");
        assert_eq!(moved(loss(), 3, None), Some(3));
        assert_eq!(moved(loss(), 60, None), Some(60));
        assert_eq!(moved(loss(), 180, None), Some(120), "at most one window");
        assert_eq!(moved(loss(), 60, Some(150)), Some(30), "at most to the start");
        assert_eq!(moved(loss(), 60, Some(120)), Some(0), "which may be where it is");
        assert_eq!(moved(Loss { untold: false, ..loss() }, 60, None), None);
    }

    #[test]
    fn no_time_counts_twice() {
        // Of an hour since it was made, no channel worked for forty minutes: the letter was late by the rest.
        let outage = Loss { outage: Duration::minutes(40), ..loss() };
        assert_eq!(moved(outage, 60, None), Some(60));
        assert_eq!(
            outage.made_up(made() + Duration::hours(1), None).map(|up| up.late),
            Some(Duration::minutes(20))
        );
        assert_eq!(
            moved(Loss { untold: false, ..outage }, 60, None),
            Some(40),
            "told before: only the outage"
        );
        // Made up until the hour; the letter failed then, and goes out ten minutes later.
        let again = Loss {
            since: made() + Duration::hours(1),
            expires_at: made() + Duration::hours(3),
            late: Duration::hours(1),
            ..loss()
        };
        assert_eq!(moved(again, 70, None), Some(10));
        assert_eq!(moved(again, 240, None), Some(60), "of the window an hour is left");
        // An outage is made up for however long it was.
        assert_eq!(moved(Loss { outage: Duration::hours(6), ..loss() }, 360, None), Some(360));
    }
}
