//! How a message fares: what one attempt ended with, and when the next one is due.

use chrono::Duration;

use super::message::Occasion;
use super::words;

words! {
    /// Where a message is in its life.
    MessageState {
        /// To be sent when it is due.
        Queued = "queued",
        /// A worker has it.
        Sending = "sending",
        /// At least one delivery was accepted.
        Told = "told",
        /// Not sent, because it would no longer have been true or wanted.
        Suppressed = "suppressed",
        /// Given up; staff can send it again.
        Dead = "dead",
    }
}

words! {
    /// The way a message took.
    Channel {
        /// Handed to a mail server.
        Smtp = "smtp",
        /// Readable by staff in the mailbox page, because no mail server is set.
        Mailbox = "mailbox",
        /// Told by telephone.
        Phone = "phone",
    }
}

words! {
    /// What one attempt ended with.
    DeliveryOutcome {
        /// The other side took it.
        Accepted = "accepted",
        /// Not now; later it may work.
        Transient = "transient",
        /// Never.
        Permanent = "permanent",
        /// Handed over, and no answer came: it may have arrived.
        Unknown = "unknown",
        /// Not tried, and not counted.
        Released = "released",
    }
}

impl Occasion {
    /// Whether it is sent even to whoever wants no news: it carries a deadline, ends something they hold, or was
    /// asked for. The rest only confirms or reports, and can be stopped with one click.
    #[must_use]
    pub fn is_essential(self) -> bool {
        match self {
            Self::Code
            | Self::Offer
            | Self::Call
            | Self::Accepted
            | Self::Revoked
            | Self::ListClosed
            | Self::EventCancelled
            | Self::PausedBySilence
            | Self::StartMoved
            | Self::Extended
            | Self::BookingCancelled
            | Self::Conflicted
            | Self::Answered
            | Self::Anchor => true,
            Self::Joined | Self::Declined | Self::Lapsed => false,
        }
    }
}

/// What a worker found out about one message that it holds the lease of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// The other side took it.
    Accepted,
    /// Not now: again later, until the limit.
    Transient(String),
    /// Never: a dead letter.
    Permanent {
        /// What the other side said.
        detail: String,
        /// It is the address that does not work, not this mail.
        contact_refused: bool,
    },
    /// Handed over without an answer: again later under the same Message-ID, so that a duplicate can be told.
    Unknown(String),
    /// It would no longer be true or wanted.
    Suppressed(&'static str),
    /// Nothing was tried, and nothing is charged: the worker is stopping.
    Released(&'static str),
    /// The channel as a whole does not work; nothing is charged to the message.
    ChannelDown {
        /// What is wrong with it.
        detail: String,
        /// The server said so; a single silence may have been a single connection's.
        certain: bool,
    },
}

impl Verdict {
    /// A word for whoever counts them.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Accepted => "accepted",
            Self::Transient(_) => "transient",
            Self::Permanent { .. } => "permanent",
            Self::Unknown(_) => "unknown",
            Self::Suppressed(_) => "suppressed",
            Self::Released(_) => "released",
            Self::ChannelDown { .. } => "channel_down",
        }
    }
}

/// After so many attempts a message is a dead letter: about four hours of trying.
pub const ATTEMPT_LIMIT: i32 = 10;

/// A worker that has said nothing for so long has lost the message.
pub const LEASE: Duration = Duration::seconds(60);

/// How long to wait after attempt number `attempts`: half a minute, doubling, at most two hours, give or take a
/// fifth, so that what failed together does not come back together. `jitter` is a random byte.
#[must_use]
pub fn wait_after(attempts: i32, jitter: u8) -> Duration {
    spread(30, 7_200, attempts, jitter)
}

/// How long a channel rests after its failure number `failures`: ten seconds, doubling, at most five minutes.
#[must_use]
pub fn channel_rest(failures: i32, jitter: u8) -> Duration {
    spread(10, 300, failures, jitter)
}

/// `first` seconds after the first, doubling, at most `most`, give or take a fifth.
pub(super) fn spread(first: i64, most: i64, n: i32, jitter: u8) -> Duration {
    let doublings = u32::try_from(n.clamp(1, 20) - 1).unwrap_or(0);
    let seconds = (first << doublings).min(most);
    // 80 % to 120 %.
    Duration::milliseconds(seconds * (800 + i64::from(jitter) * 400 / 255))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_wait_doubles_up_to_its_limit_and_is_spread_by_a_fifth() {
        assert_eq!(wait_after(1, 0), Duration::seconds(24));
        assert_eq!(wait_after(1, 255), Duration::seconds(36));
        assert_eq!(wait_after(2, 0), Duration::seconds(48));
        assert_eq!(wait_after(9, 255), Duration::seconds(8_640));
        assert_eq!(wait_after(i32::MAX, 0), Duration::seconds(5_760));
        assert_eq!(wait_after(0, 0), wait_after(1, 0));
        assert_eq!(channel_rest(1, 0), Duration::seconds(8));
        assert_eq!(channel_rest(20, 255), Duration::seconds(360));
    }

    #[test]
    fn a_message_is_tried_for_hours_before_it_is_given_up() {
        let total = (1..ATTEMPT_LIMIT).fold(Duration::zero(), |sum, n| sum + wait_after(n, 128));
        assert!(total > Duration::hours(4), "{total}");
    }
}
