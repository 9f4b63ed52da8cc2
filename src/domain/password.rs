//! Passwords of staff: which are good enough, how they are kept, how they are checked.
//!
//! Pure: the salt is an argument. Hashing takes tens of milliseconds and 19 MiB, so callers run it on a thread of
//! its own and few at a time.

use std::fmt;

use argon2::password_hash::phc::PasswordHash;
use argon2::{Algorithm, Argon2, Params, PasswordHasher, PasswordVerifier, Version};

/// The least number of characters.
pub const MIN_CHARS: usize = 12;
/// The most bytes; far above the 64 characters that must be possible, and a bound on work.
pub const MAX_BYTES: usize = 1_024;

/// A password that was found good enough. Never printed.
#[derive(Clone)]
pub struct NewPassword(String);

impl fmt::Debug for NewPassword {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("NewPassword(…)")
    }
}

/// Why a password is not good enough, as a sentence for its field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum PasswordError {
    /// Fewer than twelve characters.
    #[error("This is too short: use at least 12 characters. A few words in a row are easy to remember.")]
    TooShort,
    /// More than a thousand bytes.
    #[error("This is too long: use at most 1,000 characters.")]
    TooLong,
    /// One of those that everybody tries first.
    #[error(
        "This is among the first that people try. Choose another; a few words in a row are easy to remember."
    )]
    Common,
    /// Made of the person's own address.
    #[error("Do not use your own address or name as the password.")]
    Own,
}

/// What lists of broken passwords are made of, once the digits and signs around them are taken off. A password
/// that is nothing but one or two of these is refused.
const COMMON: &[&str] = &[
    "password",
    "passwort",
    "passw0rd",
    "p@ssw0rd",
    "p@ssword",
    "motdepasse",
    "contrasena",
    "parola",
    "letmein",
    "welcome",
    "willkommen",
    "qwerty",
    "qwertz",
    "azerty",
    "qwertyuiop",
    "qwertzuiop",
    "asdfghjkl",
    "zxcvbnm",
    "yxcvbnm",
    "qazwsx",
    "qazwsxedc",
    "1qaz2wsx",
    "1q2w3e4r",
    "1q2w3e4r5t",
    "1q2w3e4r5t6y",
    "q1w2e3r4",
    "q1w2e3r4t5",
    "abc",
    "abcd",
    "abcdef",
    "iloveyou",
    "ichliebedich",
    "monkey",
    "dragon",
    "sunshine",
    "princess",
    "football",
    "baseball",
    "superman",
    "batman",
    "master",
    "shadow",
    "michael",
    "jordan",
    "charlie",
    "computer",
    "internet",
    "secret",
    "geheim",
    "changeme",
    "administrator",
    "admin",
    "root",
    "user",
    "test",
    "testing",
    "default",
    "login",
    "hello",
    "hallo",
    "trustno",
    "whatever",
    "starwars",
    "pokemon",
    "liverpool",
    "chelsea",
    "arsenal",
    "summer",
    "winter",
    "spring",
    "autumn",
    "sommer",
    "fairlist",
    "waitlist",
    "correcthorsebatterystaple",
];

impl NewPassword {
    /// `own` are words that belong to the person: the address, the name, the organization.
    ///
    /// # Errors
    /// When it is too short, too long, common, or made of the person's own words.
    pub fn parse(text: &str, own: &[&str]) -> Result<Self, PasswordError> {
        if text.chars().count() < MIN_CHARS {
            return Err(PasswordError::TooShort);
        }
        if text.len() > MAX_BYTES {
            return Err(PasswordError::TooLong);
        }
        let lower = text.to_lowercase();
        if is_common(&lower) {
            return Err(PasswordError::Common);
        }
        let bare = letters(&lower);
        let mine = own.iter().flat_map(|word| {
            [word.to_lowercase(), word.split('@').next().unwrap_or_default().to_lowercase()]
        });
        for word in mine {
            let word = letters(&word);
            if word.chars().count() >= 4 && (bare == word || bare == word.repeat(2) || lower == word) {
                return Err(PasswordError::Own);
            }
        }
        Ok(Self(text.to_owned()))
    }

    /// The hash in PHC form: argon2id, 19,456 KiB, two passes, one lane. `None` never happens with 16 bytes of salt.
    #[must_use]
    pub fn hash(&self, salt: [u8; 16]) -> Option<String> {
        argon2()?.hash_password_with_salt(self.0.as_bytes(), &salt).ok().map(|hash| hash.to_string())
    }
}

/// Whether `typed` is the password behind `hash`. A hash that cannot be read matches nothing.
#[must_use]
pub fn verify(typed: &str, hash: &str) -> bool {
    let Ok(hash) = PasswordHash::new(hash) else { return false };
    typed.len() <= MAX_BYTES && Argon2::default().verify_password(typed.as_bytes(), &hash).is_ok()
}

fn argon2() -> Option<Argon2<'static>> {
    Some(Argon2::new(Algorithm::Argon2id, Version::V0x13, Params::new(19_456, 2, 1, None).ok()?))
}

fn letters(text: &str) -> String {
    text.chars().filter(|c| c.is_alphabetic()).collect()
}

/// One character over and over, a run like 123456789012, or common words with digits and signs around them.
fn is_common(lower: &str) -> bool {
    let chars: Vec<char> = lower.chars().collect();
    let distinct = chars.iter().collect::<std::collections::BTreeSet<_>>().len();
    let runs = chars.windows(2).filter(|pair| {
        let step = i64::from(u32::from(pair[1])) - i64::from(u32::from(pair[0]));
        (-1..=1).contains(&step) || step == -9 || step == 9
    });
    if distinct < 4 || runs.count() + 3 > chars.len() {
        return true;
    }
    let trimmed = lower.trim_matches(|c: char| !c.is_alphabetic());
    let inner: String = lower.chars().filter(|c| c.is_alphanumeric() || *c == '@').collect();
    let words = inner.trim_matches(|c: char| c.is_ascii_digit());
    [trimmed, words, lower].iter().any(|text| {
        COMMON.iter().any(|word| {
            *text == *word
                || text.strip_prefix(word).is_some_and(|rest| {
                    let rest = rest.trim_matches(|c: char| !c.is_alphabetic());
                    rest.is_empty() || COMMON.contains(&rest)
                })
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_people_try_first_is_refused() {
        for common in [
            "passwordpassword",
            "Password1234!",
            "123456789012",
            "aaaaaaaaaaaa",
            "qwertyuiop12",
            "Welcome2027!!",
            "abcdefghijkl",
            "1q2w3e4r5t6y",
            "Fairlist2026!",
            "adminadmin123",
            "abababababab",
            "987654321098",
            "correcthorsebatterystaple",
        ] {
            assert_eq!(NewPassword::parse(common, &[]).map(|_| ()), Err(PasswordError::Common), "{common}");
        }
    }

    #[test]
    fn length_is_what_counts_and_64_characters_are_possible() {
        assert_eq!(NewPassword::parse("short one!!", &[]).map(|_| ()), Err(PasswordError::TooShort));
        assert_eq!(NewPassword::parse(&"ä7q".repeat(400), &[]).map(|_| ()), Err(PasswordError::TooLong));
        for good in ["seven green teapots", &"Zq8 rot".repeat(9), "пароль из слов", "tall-order-at-noon"]
        {
            assert!(NewPassword::parse(good, &[]).is_ok(), "{good}");
        }
    }

    #[test]
    fn ones_own_address_is_refused() {
        let own = ["ada.lovelace@example.org", "Ada Lovelace"];
        assert_eq!(NewPassword::parse("ada.lovelace1", &own).map(|_| ()), Err(PasswordError::Own));
        assert_eq!(NewPassword::parse("Ada Lovelace 1", &own).map(|_| ()), Err(PasswordError::Own));
    }

    #[test]
    fn only_the_password_matches_its_hash() {
        let hash =
            NewPassword::parse("seven green teapots", &[]).expect("good").hash([7; 16]).expect("hashed");
        assert!(hash.starts_with("$argon2id$v=19$m=19456,t=2,p=1$"), "{hash}");
        assert!(verify("seven green teapots", &hash));
        assert!(!verify("seven green teapot", &hash));
        assert!(!verify("seven green teapots", "nonsense"));
    }
}
