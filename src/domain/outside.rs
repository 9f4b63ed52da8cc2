//! Bookings kept by another service: its address, and what it was asked.

use chrono::{DateTime, Duration, Utc};
use url::{Host, Url};

use super::audit::Actor;
use super::ids::{AttemptId, BookingId, EventId, OfferId};
use super::reason::Reason;
use super::words;

words! {
    /// What a booking service is asked to do.
    AttemptAct {
        /// To book the places of an accepted offer.
        Reserve = "reserve",
        /// To take places back.
        Release = "release",
    }
}

words! {
    /// What came of it.
    AttemptOutcome {
        /// Nobody knows yet.
        Unresolved = "unresolved",
        /// It was done.
        Succeeded = "succeeded",
        /// It was not done, and will not be.
        Failed = "failed",
    }
}

/// What a booking service was asked: an intent, written before the call, and what is known of its outcome.
#[derive(Clone, Debug, PartialEq)]
pub struct Attempt {
    /// The event.
    pub event: EventId,
    /// Its id.
    pub id: AttemptId,
    /// The offer whose places are meant.
    pub offer: OfferId,
    /// What is asked.
    pub act: AttemptAct,
    /// Names the reservation at the service: the same in every try.
    pub key: String,
    /// What came of it.
    pub outcome: AttemptOutcome,
    /// When it was asked for: the instant of the click.
    pub made_at: DateTime<Utc>,
    /// When the outcome was known.
    pub settled_at: Option<DateTime<Utc>>,
    /// Who asked for it.
    pub actor: Actor,
    /// Why.
    pub reason: Reason,
    /// In their own words.
    pub note: Option<String>,
    /// The bookings to be given back; with none, whatever the key names.
    pub bookings: Vec<BookingId>,
    /// Calls made so far.
    pub tries: i32,
    /// A call was made whose fate nobody knows.
    pub uncertain: bool,
    /// What went wrong last.
    pub last_error: Option<String>,
    /// When it is tried again.
    pub next_try_at: Option<DateTime<Utc>>,
    /// Nobody tries it meanwhile.
    pub leased_until: Option<DateTime<Utc>>,
    /// Names whoever is at it: what others bring later is not written.
    pub lease: Option<uuid::Uuid>,
    /// The same key is not sent after this.
    pub key_until: DateTime<Utc>,
    /// Since when staff are asked.
    pub staff_asked_at: Option<DateTime<Utc>>,
}

impl Attempt {
    /// Whether staff are to look it up: it has no outcome, and its key is not sent any more.
    #[must_use]
    pub fn needs_staff(&self, now: DateTime<Utc>) -> bool {
        self.outcome == AttemptOutcome::Unresolved && (self.staff_asked_at.is_some() || now >= self.key_until)
    }
}

/// How long the same key is sent again: services are asked to remember keys for longer.
pub const KEY_LIFE: Duration = Duration::minutes(15);

/// How long to wait after so many tries without an outcome.
#[must_use]
pub fn wait_after(tries: i32, staff_asked: bool) -> Duration {
    if staff_asked {
        return Duration::minutes(5);
    }
    Duration::seconds(2 << tries.clamp(0, 5)).min(Duration::minutes(1))
}

/// How many calls in a row must fail until a service is left alone for a while.
pub const TRIP_AFTER: i32 = 5;

/// How long it is left alone after so many failures in a row.
#[must_use]
pub fn rest_after(failures: i32) -> Option<Duration> {
    (failures >= TRIP_AFTER)
        .then(|| Duration::seconds(10 << (failures - TRIP_AFTER).clamp(0, 5)).min(Duration::minutes(5)))
}

/// How long whoever accepted in time, and was turned away, has to do it again once the service can be asked.
pub const TO_TRY_AGAIN: Duration = Duration::minutes(2);

/// The deadline of whoever was turned away: not before they could try again at `from`, for as long as a service that is
/// down books nobody else's places either. At most to `limit`: of a service that refuses only them, others must not
/// suffer for ever. A deadline that is already later is left alone.
#[must_use]
pub fn kept_until(
    deadline: DateTime<Utc>,
    from: DateTime<Utc>,
    limit: Option<DateTime<Utc>>,
) -> DateTime<Utc> {
    let again = from.checked_add_signed(TO_TRY_AGAIN).unwrap_or(from);
    deadline.max(limit.map_or(again, |limit| again.min(limit)))
}

words! {
    /// How a booking service is called, by what became of the last calls.
    ServiceState {
        /// As usual.
        Called = "called",
        /// As usual, and the last call failed.
        Failing = "failing",
        /// Not at all for a while: too many calls in a row failed.
        LeftAlone = "left_alone",
    }
}

/// Whether a service may be called.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Gate {
    /// As usual.
    Open,
    /// It failed too often in a row, and is left alone for a while.
    Shut,
    /// It was left alone for long enough: this one call finds out how it is doing, and nobody else's goes with it.
    Probe,
}

/// Where a booking service answers: https, or http on this machine; it ends with a slash.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServiceUrl(Url);

impl ServiceUrl {
    /// # Errors
    /// What is wrong with it, in words.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        let mut url = Url::parse(text.trim())
            .map_err(|_| "Enter the whole address, such as https://tickets.example.org/fairlist/")?;
        let local = match url.host() {
            Some(Host::Domain(name)) => name == "localhost",
            Some(Host::Ipv4(address)) => address.is_loopback(),
            Some(Host::Ipv6(address)) => address.is_loopback(),
            None => false,
        };
        if url.scheme() != "https" && !(url.scheme() == "http" && local) {
            return Err("Use https: customers’ names and the key travel this way.");
        }
        if !url.username().is_empty() || url.password().is_some() {
            return Err("Leave names and passwords out of the address: the key has a field of its own.");
        }
        if url.query().is_some() || url.fragment().is_some() || text.len() > 500 {
            return Err("Enter the address without a question mark or a hash, in at most 500 characters.");
        }
        if !url.path().ends_with('/') {
            let path = format!("{}/", url.path());
            url.set_path(&path);
        }
        Ok(Self(url))
    }

    /// As it is stored and shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        self.0.as_str()
    }

    /// Of this reservation, or of an act on it.
    #[must_use]
    pub fn reservation(&self, key: &str, act: Option<&str>) -> Url {
        let mut url = self.0.clone();
        if let Ok(mut path) = url.path_segments_mut() {
            path.pop_if_empty().extend(["reservations", key]).extend(act);
        }
        url
    }
}

/// The longest key that a service can be shown.
const LONGEST_KEY: usize = 500;

/// A key as the service gave it to staff; nothing where none was entered.
///
/// # Errors
/// What is wrong with it, in words.
pub fn service_key(text: &str) -> Result<Option<String>, &'static str> {
    let key = text.trim();
    if key.len() > LONGEST_KEY || !key.bytes().all(|byte| byte.is_ascii_graphic()) {
        return Err("Use at most 500 printable characters without spaces.");
    }
    Ok((!key.is_empty()).then(|| key.to_owned()))
}

/// The longest reference that is kept: what a customer can quote.
const LONGEST_REFERENCE: usize = 64;

/// A reference as a service gives it, if a customer can quote it.
#[must_use]
pub fn fit_reference(text: &str) -> Option<String> {
    let text = text.trim();
    let fits = !text.is_empty()
        && text.chars().count() <= LONGEST_REFERENCE
        && text.chars().all(|c| c.is_ascii_graphic() || c == ' ');
    fits.then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_address_is_https_or_of_this_machine() {
        for good in [
            "https://box.example.org",
            "https://box.example.org/a/b",
            "http://127.0.0.1:9000/x/",
            "http://[::1]:1",
        ] {
            assert!(ServiceUrl::parse(good).is_ok_and(|url| url.as_str().ends_with('/')), "{good}");
        }
        for bad in [
            "http://box.example.org",
            "ftp://x/",
            "https://a:b@x.org/",
            "https://x.org/?a=1",
            "",
            "https://x.org/#a",
        ] {
            assert!(ServiceUrl::parse(bad).is_err(), "{bad}");
        }
        let url = ServiceUrl::parse("https://box.example.org/fairlist").expect("good");
        assert_eq!(
            url.reservation("a-1", Some("release")).as_str(),
            "https://box.example.org/fairlist/reservations/a-1/release"
        );
    }

    #[test]
    fn waits_grow_and_have_an_end() {
        assert_eq!(wait_after(0, false), Duration::seconds(2));
        assert_eq!(wait_after(99, false), Duration::minutes(1));
        assert_eq!(rest_after(TRIP_AFTER - 1), None);
        assert_eq!(rest_after(i32::MAX), Some(Duration::minutes(5)));
    }

    #[test]
    fn a_key_can_be_sent_in_a_header() {
        assert_eq!(service_key(" hush "), Ok(Some("hush".to_owned())));
        assert_eq!(service_key(" "), Ok(None));
        for unfit in ["two words", "a\nb", "ключ", &"x".repeat(501)] {
            assert!(service_key(unfit).is_err(), "{unfit}");
        }
    }

    #[test]
    fn a_reference_can_be_quoted() {
        assert_eq!(fit_reference(" AB-12 "), Some("AB-12".to_owned()));
        for unfit in ["", "a\nb", "\u{202E}x", &"x".repeat(65)] {
            assert_eq!(fit_reference(unfit), None, "{unfit}");
        }
    }
}
