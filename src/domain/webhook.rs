//! Webhooks: how a delivery is signed, when it is tried again, and where it may go. As Standard Webhooks says.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use chrono::{DateTime, Duration, Utc};
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;
use url::{Host, Url};

use super::address::is_public;
use super::delivery::spread;
use super::words;

/// A delivery is tried for so long; an endpoint that took nothing for so long is stopped.
pub const GIVE_UP: Duration = Duration::days(3);

/// After a rotation both secrets sign for so long.
pub const OVERLAP: Duration = Duration::hours(24);

/// A worker that has said nothing for so long has lost the delivery. Longer than a call may take.
pub const LEASE: Duration = Duration::seconds(60);

/// An endpoint may ask for a longer rest than ours, up to this.
const LONGEST_REST: Duration = Duration::hours(6);

words! {
    /// Where a delivery is in its life.
    DeliveryState {
        /// To be sent when it is due.
        Queued = "queued",
        /// On its way.
        Sending = "sending",
        /// The endpoint took it.
        Delivered = "delivered",
        /// Given up; staff can send it again.
        Dead = "dead",
    }
}

words! {
    /// Why nothing is sent to an endpoint any more.
    Stopped {
        /// Staff stopped it.
        Staff = "staff",
        /// It answered 410: nobody wants it any more.
        Gone = "gone",
        /// It took nothing for three days.
        Failing = "failing",
    }
}

/// What one attempt came to.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// It was taken, with this status.
    Delivered(u16),
    /// It was not, or nobody knows: again later.
    Failed {
        /// What the endpoint answered, if it did.
        status: Option<u16>,
        /// What went wrong, in words.
        detail: String,
        /// How long the endpoint asks to be left alone.
        retry_after: Option<Duration>,
    },
    /// 410: never again.
    Gone,
    /// Not tried, and not counted: the program is stopping.
    Released,
}

impl Verdict {
    /// In a word, for whoever counts.
    #[must_use]
    pub fn as_str(&self) -> &'static str {
        match self {
            Self::Delivered(_) => "delivered",
            Self::Failed { .. } => "failed",
            Self::Gone => "gone",
            Self::Released => "released",
        }
    }
}

/// How long a delivery waits after attempt number `attempts`: five seconds, doubling, at most six hours, give or take a
/// fifth. `jitter` is a random byte.
#[must_use]
pub fn wait_after(attempts: i32, jitter: u8) -> Duration {
    spread(5, LONGEST_REST.num_seconds(), attempts, jitter)
}

/// How long an endpoint rests after its failure number `failures` in a row: a second, doubling, at most five minutes, or as
/// long as it asked for.
#[must_use]
pub fn rest_after(failures: i32, asked: Option<Duration>, jitter: u8) -> Duration {
    let ours = spread(1, 300, failures, jitter);
    asked.map_or(ours, |asked| asked.clamp(ours, LONGEST_REST.max(ours)))
}

/// What a `Retry-After` asks for: seconds, or an instant.
#[must_use]
pub fn retry_after(header: &str, now: DateTime<Utc>) -> Option<Duration> {
    let header = header.trim();
    if let Ok(seconds) = header.parse::<u32>() {
        return Some(Duration::seconds(i64::from(seconds)));
    }
    let until = DateTime::parse_from_rfc2822(header).ok()?;
    Some((until.with_timezone(&Utc) - now).max(Duration::zero()))
}

/// A signing secret as it is shown, once.
#[must_use]
pub fn shown(key: &[u8; 32]) -> String {
    format!("whsec_{}", STANDARD.encode(key))
}

/// What is signed, under a key. HMAC takes keys of every length: there is always one.
fn mac(key: &[u8; 32], id: &str, timestamp: i64, body: &[u8]) -> Option<Hmac<Sha256>> {
    let mut mac = Hmac::<Sha256>::new_from_slice(key).ok()?;
    mac.update(format!("{id}.{timestamp}.").as_bytes());
    mac.update(body);
    Some(mac)
}

/// The value of `webhook-signature`: a signature with each of the keys in force.
#[must_use]
pub fn signatures(keys: &[[u8; 32]], id: &str, timestamp: i64, body: &[u8]) -> String {
    let sign =
        |key| Some(format!("v1,{}", STANDARD.encode(mac(key, id, timestamp, body)?.finalize().into_bytes())));
    keys.iter().filter_map(sign).collect::<Vec<_>>().join(" ")
}

/// What is signed longer ago is not believed (nor what is signed so long from now): somebody may have kept it.
pub const TOLERANCE: Duration = Duration::minutes(5);

/// Why what others send is not believed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SignatureError {
    /// A header is missing or cannot be read.
    #[error(
        "A signed request carries webhook-id, webhook-timestamp (in seconds) and webhook-signature, as Standard Webhooks says."
    )]
    Unreadable,
    /// Signed too long ago, or by a clock that is wrong.
    #[error(
        "webhook-timestamp is more than five minutes from now: look at the clock, and sign every attempt anew."
    )]
    Stale,
    /// Signed with something else, or altered.
    #[error(
        "No signature fits, or the key of `key` is none, has ended or was taken back: sign what is sent, byte for byte, with the secret that was shown with a key that is good."
    )]
    Wrong,
}

/// Whether `body` was signed with `key` at about `now`. Takes the same time whatever differs.
///
/// # Errors
/// Why it is not believed.
pub fn verify(
    key: &[u8; 32],
    [id, timestamp, signatures]: [&str; 3],
    body: &[u8],
    now: DateTime<Utc>,
) -> Result<(), SignatureError> {
    let timestamp: i64 = timestamp.parse().map_err(|_| SignatureError::Unreadable)?;
    if id.is_empty() {
        return Err(SignatureError::Unreadable);
    }
    if timestamp.abs_diff(now.timestamp()) > TOLERANCE.num_seconds().unsigned_abs() {
        return Err(SignatureError::Stale);
    }
    let fits = |signature: &str| {
        let signature = STANDARD.decode(signature.strip_prefix("v1,")?).ok()?;
        mac(key, id, timestamp, body)?.verify_slice(&signature).ok()
    };
    // Whoever rotates a secret signs with both.
    signatures.split(' ').take(8).find_map(fits).ok_or(SignatureError::Wrong)
}

/// What is wrong with an endpoint's address.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EndpointError {
    /// No URL.
    #[error("This is not an address: it begins with https://")]
    Unreadable,
    /// Another scheme.
    #[error("Only https:// addresses are taken: what is sent must not be readable on the way.")]
    NotHttps,
    /// Name and password in the address.
    #[error("Leave name and password out of the address: every delivery is signed instead.")]
    Credentials,
    /// An address of a private network or of this machine.
    #[error("This address is not one of the public internet.")]
    Private,
    /// Too long.
    #[error("The address is too long: at most 2,000 characters.")]
    TooLong,
}

/// An address to which webhooks may be sent. Where `private` is allowed, so are http and addresses behind a wall.
///
/// # Errors
/// What is wrong with it.
pub fn endpoint(text: &str, private: bool) -> Result<Url, EndpointError> {
    if text.len() > 2_000 {
        return Err(EndpointError::TooLong);
    }
    let mut url = Url::parse(text.trim()).map_err(|_| EndpointError::Unreadable)?;
    match url.scheme() {
        "https" => {}
        "http" if private => {}
        "http" => return Err(EndpointError::NotHttps),
        _ => return Err(EndpointError::Unreadable),
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err(EndpointError::Credentials);
    }
    let public = match url.host() {
        None => return Err(EndpointError::Unreadable),
        Some(Host::Ipv4(address)) => is_public(address.into()),
        Some(Host::Ipv6(address)) => is_public(address.into()),
        Some(Host::Domain(name)) => {
            let name = name.trim_end_matches('.');
            name != "localhost" && !name.ends_with(".localhost")
        }
    };
    if !public && !private {
        return Err(EndpointError::Private);
    }
    url.set_fragment(None);
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_delivery_is_tried_for_three_days_and_not_too_often() {
        let (mut attempts, mut passed) = (0, Duration::zero());
        while passed < GIVE_UP {
            attempts += 1;
            passed += wait_after(attempts, 128);
        }
        assert!((15..40).contains(&attempts), "{attempts}");
        assert_eq!(wait_after(1, 0), Duration::seconds(4));
        assert_eq!(wait_after(i32::MAX, 255), Duration::seconds(21_600 * 6 / 5));
    }

    #[test]
    fn an_endpoint_is_left_alone_for_as_long_as_it_asks_within_reason() {
        assert_eq!(rest_after(1, None, 0), Duration::milliseconds(800));
        assert_eq!(rest_after(1, Some(Duration::seconds(90)), 0), Duration::seconds(90));
        assert_eq!(rest_after(12, Some(Duration::seconds(1)), 0), Duration::seconds(240));
        assert_eq!(rest_after(1, Some(Duration::days(30)), 0), LONGEST_REST);
        let now = "2027-03-01T10:00:00Z".parse().unwrap();
        assert_eq!(retry_after("120", now), Some(Duration::seconds(120)));
        assert_eq!(retry_after("Mon, 01 Mar 2027 10:01:00 GMT", now), Some(Duration::minutes(1)));
        assert_eq!(retry_after("Mon, 01 Mar 2027 09:00:00 GMT", now), Some(Duration::zero()));
        assert_eq!(retry_after("soon", now), None);
        assert_eq!(retry_after("-5", now), None);
    }

    /// The vector of the specification's libraries.
    #[test]
    fn signatures_are_those_of_standard_webhooks() {
        let key: [u8; 24] = STANDARD.decode("MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw").unwrap().try_into().unwrap();
        let mut mac = Hmac::<Sha256>::new_from_slice(&key).unwrap();
        mac.update(br#"msg_p5jXN8AQM9LWM0D4loKWxJek.1614265330.{"test": 2432232314}"#);
        let expected = STANDARD.encode(mac.finalize().into_bytes());
        assert_eq!(expected, "g0hM9SsE+OTPJTGt/tmIKtSyZlE3uFJELVlNIOLJ1OE=");
        let both = signatures(&[[1; 32], [2; 32]], "tr_1", 7, b"{}");
        assert_eq!(both.split(' ').count(), 2);
        assert!(both.split(' ').all(|one| one.starts_with("v1,")));
        assert_eq!(shown(&[0; 32]), "whsec_AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA=");
    }

    #[test]
    fn what_is_signed_is_believed_for_five_minutes_and_not_when_altered() {
        let now: DateTime<Utc> = "2027-03-01T10:00:00Z".parse().unwrap();
        let at = now.timestamp().to_string();
        let both = signatures(&[[1; 32], [2; 32]], "msg_1", now.timestamp(), b"{}");
        let is = |key: u8, id: &str, at: &str, signed: &str, body: &[u8], later: i64| {
            verify(&[key; 32], [id, at, signed], body, now + Duration::seconds(later))
        };
        for key in [1, 2] {
            assert_eq!(is(key, "msg_1", &at, &both, b"{}", 300), Ok(()));
            assert_eq!(is(key, "msg_1", &at, &both, b"{}", -300), Ok(()));
        }
        assert_eq!(is(1, "msg_1", &at, &both, b"{}", 301), Err(SignatureError::Stale));
        assert_eq!(is(1, "msg_1", &at, &both, b"{}", -301), Err(SignatureError::Stale));
        assert_eq!(is(3, "msg_1", &at, &both, b"{}", 0), Err(SignatureError::Wrong));
        assert_eq!(is(1, "msg_2", &at, &both, b"{}", 0), Err(SignatureError::Wrong));
        assert_eq!(is(1, "msg_1", &at, &both, b"{ }", 0), Err(SignatureError::Wrong));
        assert_eq!(is(1, "msg_1", &at, &both.replace("v1,", "v1a,"), b"{}", 0), Err(SignatureError::Wrong));
        assert_eq!(is(1, "msg_1", &at, "", b"{}", 0), Err(SignatureError::Wrong));
        assert_eq!(is(1, "msg_1", "soon", &both, b"{}", 0), Err(SignatureError::Unreadable));
        assert_eq!(is(1, "msg_1", &i64::MIN.to_string(), &both, b"{}", 0), Err(SignatureError::Stale));
        assert_eq!(is(1, "", &at, &both, b"{}", 0), Err(SignatureError::Unreadable));
    }

    #[test]
    fn endpoints_are_public_and_encrypted_unless_a_setting_says_otherwise() {
        let is = |text: &str, private| endpoint(text, private).map(|url| url.to_string());
        assert_eq!(
            is(" https://shop.example/hooks?a=1#top ", false).as_deref(),
            Ok("https://shop.example/hooks?a=1")
        );
        assert_eq!(is("http://shop.example/", false), Err(EndpointError::NotHttps));
        assert_eq!(is("ftp://shop.example/", true), Err(EndpointError::Unreadable));
        assert_eq!(is("shop.example", true), Err(EndpointError::Unreadable));
        assert_eq!(is("https://me:secret@shop.example/", true), Err(EndpointError::Credentials));
        for private in [
            "https://127.0.0.1/",
            "https://2130706433/",
            "https://0x7f.1/",
            "https://[::1]/",
            "https://localhost/",
            "https://a.localhost./",
        ] {
            assert_eq!(is(private, false), Err(EndpointError::Private), "{private}");
            assert!(is(private, true).is_ok(), "{private}");
        }
        assert_eq!(
            is(&format!("https://shop.example/{}", "a".repeat(2_000)), false),
            Err(EndpointError::TooLong)
        );
    }
}
