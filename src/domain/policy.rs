//! An event's rule: versioned settings, and the sentences that say what they do.

use chrono::{DateTime, Duration, Utc};

use super::words;

words! {
    /// In which order people are served.
    Ordering {
        /// Who came first is served first.
        Arrival = "arrival",
    }
}

words! {
    /// What an offer is.
    Mode {
        /// Each offer keeps its places until the deadline.
        Hold = "hold",
    }
}

words! {
    /// What happens when the head of the list wants more places than are open.
    Fit {
        /// Wait for more.
        Strict = "strict",
        /// Go to the first that fits, and record who was passed over.
        Fill = "fill",
    }
}

words! {
    /// What becomes of an entry whose offer ended without a booking.
    After {
        /// To the end of the line.
        Back = "back",
        /// Same rank, but behind everyone not yet offered in this round.
        Keep = "keep",
        /// Off the list.
        Leave = "leave",
    }
}

words! {
    /// What a waiting customer is told of their place in the line.
    PositionShown {
        /// The exact position.
        Exact = "exact",
        /// A band: "among the first 10", "… 50", "… 100", …
        Band = "band",
        /// Nothing.
        None = "none",
    }
}

/// The settings of one version of an event's rule.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Policy {
    /// The version; goes up by one with every change.
    pub version: i32,
    /// In which order people are served.
    pub ordering: Ordering,
    /// What an offer is.
    pub mode: Mode,
    /// How long an offer lives; `None` is a passive list: people join, nothing is offered by itself.
    pub window: Option<Duration>,
    /// At most so many holds pending at once, staff's included; 0: as many as there are places.
    pub batch_size: i32,
    /// When the head wants more places than are open.
    pub fit: Fit,
    /// After a deadline passed without an answer.
    pub after_expiry: After,
    /// After "no, thank you".
    pub after_decline: After,
    /// After so many offers in a row without an answer the entry is paused.
    pub silence_limit: i32,
    /// At most so many live entries.
    pub list_cap: Option<i32>,
    /// At most so many places for one entry.
    pub party_limit: Option<i32>,
    /// What a waiting customer is told of their place in the line.
    pub position_shown: PositionShown,
}

/// The largest party of any event.
pub const PARTY_MAX: i32 = 100;

/// A setting that cannot be.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PolicyError {
    /// Outside 5 minutes – 7 days.
    #[error("The time to answer must be between 5 minutes and 7 days.")]
    Window,
    /// Outside 0 – 10,000.
    #[error("The batch size must be between 0 and 10,000.")]
    BatchSize,
    /// Outside 1 – 100.
    #[error("The number of unanswered offers must be between 1 and 100.")]
    SilenceLimit,
    /// Negative.
    #[error("The list’s limit must be 0 or more.")]
    ListCap,
    /// Outside 1 – 100.
    #[error("The largest party must be between 1 and 100.")]
    PartyLimit,
}

impl Policy {
    /// The rule of a new event: arrival order, holds, passive until a window is set.
    #[must_use]
    pub fn first() -> Self {
        Self {
            version: 1,
            ordering: Ordering::Arrival,
            mode: Mode::Hold,
            window: None,
            batch_size: 0,
            fit: Fit::Strict,
            after_expiry: After::Back,
            after_decline: After::Leave,
            silence_limit: 2,
            list_cap: None,
            party_limit: None,
            position_shown: PositionShown::Exact,
        }
    }

    /// # Errors
    /// The first setting outside its bounds.
    pub fn check(&self) -> Result<(), PolicyError> {
        if self.window.is_some_and(|window| window < Duration::minutes(5) || window > Duration::days(7)) {
            return Err(PolicyError::Window);
        }
        if !(0..=10_000).contains(&self.batch_size) {
            return Err(PolicyError::BatchSize);
        }
        if !(1..=100).contains(&self.silence_limit) {
            return Err(PolicyError::SilenceLimit);
        }
        if self.list_cap.is_some_and(|cap| cap < 0) {
            return Err(PolicyError::ListCap);
        }
        if self.party_limit.is_some_and(|limit| !(1..=PARTY_MAX).contains(&limit)) {
            return Err(PolicyError::PartyLimit);
        }
        Ok(())
    }

    /// The largest party this rule lets join.
    #[must_use]
    pub fn largest_party(&self) -> i32 {
        self.party_limit.unwrap_or(PARTY_MAX)
    }

    /// The deadline of an offer made at `now` with this window: never after the start.
    #[must_use]
    pub fn deadline(window: Duration, now: DateTime<Utc>, starts_at: Option<DateTime<Utc>>) -> DateTime<Utc> {
        let deadline = now + window;
        starts_at.map_or(deadline, |start| deadline.min(start))
    }
}

#[cfg(test)]
mod properties;
