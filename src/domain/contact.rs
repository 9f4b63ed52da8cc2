//! Names, addresses and telephone numbers, parsed once at the edge: past this point nothing can carry a line
//! break into a mail header, turn text around on a page, or be a second spelling of the same address.
//!
//! Every problem is one sentence that can stand beside the form's field.

use std::fmt;

use unicode_normalization::UnicodeNormalization;

/// Whether `c` would reorder the text around it, which lets a name pretend to be another.
fn turns_text_around(c: char) -> bool {
    matches!(c, '\u{202A}'..='\u{202E}' | '\u{2066}'..='\u{2069}')
}

/// Control characters, the two Unicode line separators, annotation marks, tags and noncharacters.
fn is_control(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{2028}' | '\u{2029}' | '\u{FFF9}'..='\u{FFFB}' | '\u{E0000}'..='\u{E007F}')
        || (c as u32) & 0xFFFE == 0xFFFE
        || matches!(c, '\u{FDD0}'..='\u{FDEF}')
}

/// Whether text fits on one line and leaves its neighbours where they are: for the names of things.
#[must_use]
pub fn is_plain_line(text: &str) -> bool {
    !text.chars().any(|c| is_control(c) || turns_text_around(c))
}

/// Characters that show nothing by themselves; a name of only these would be an empty line on every page.
fn shows_nothing(c: char) -> bool {
    c.is_whitespace()
        || matches!(c, '\u{00AD}' | '\u{034F}' | '\u{061C}' | '\u{115F}' | '\u{1160}' | '\u{180E}')
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2060}'..='\u{2064}' | '\u{2800}' | '\u{3164}')
        || matches!(c, '\u{FE00}'..='\u{FE0F}' | '\u{FEFF}' | '\u{FFA0}' | '\u{E0100}'..='\u{E01EF}')
}

/// Text from outside, cut to `most` characters and without anything that could move a terminal's cursor, break
/// a line or turn it around: for reports that quote what was refused.
#[must_use]
pub fn inert(text: &str, most: usize) -> String {
    let mut shown: String = text
        .chars()
        .take(most)
        .map(|c| if is_control(c) || turns_text_around(c) { '\u{FFFD}' } else { c })
        .collect();
    if text.chars().nth(most).is_some() {
        shown.push('…');
    }
    shown
}

// ── names ──────────────────────────────────────────────────────────────────────────────────────────────────

/// What a person wants to be called, in any script. It never identifies anybody.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PersonName(String);

/// Why a name was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NameError {
    /// Nothing that can be seen.
    #[error("Enter a name.")]
    Missing,
    /// More than [`PersonName::MAX_CHARS`].
    #[error("The name is too long: at most 200 characters.")]
    TooLong,
    /// A line break, a NUL or another control character.
    #[error("The name contains a line break or another control character. Type it again without.")]
    ControlCharacter,
    /// A bidirectional override, embedding or isolate.
    #[error("The name contains an invisible character that turns text around. Type it again without.")]
    TurnsTextAround,
}

impl PersonName {
    /// The longest name, in characters.
    pub const MAX_CHARS: usize = 200;

    /// Trims the text and composes its accents (NFC), so that one name is stored one way.
    ///
    /// # Errors
    /// When nothing can be seen, the text is too long, or it holds characters that are refused.
    pub fn parse(text: &str) -> Result<Self, NameError> {
        let text = text.trim();
        // Before anything is copied: a name of megabytes costs nothing.
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(NameError::TooLong);
        }
        if text.chars().any(is_control) {
            return Err(NameError::ControlCharacter);
        }
        if text.chars().any(turns_text_around) {
            return Err(NameError::TurnsTextAround);
        }
        if text.chars().all(shows_nothing) {
            return Err(NameError::Missing);
        }
        Ok(Self(text.nfc().collect()))
    }

    /// The name as it is shown.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for PersonName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

// ── addresses ──────────────────────────────────────────────────────────────────────────────────────────────

/// An address that mail can be sent to. `canonical` decides who somebody is; mail goes to `value`.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct EmailAddress {
    value: String,
    canonical: String,
}

/// Why an address was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum EmailError {
    /// Nothing was entered.
    #[error("Enter an email address.")]
    Missing,
    /// Longer than mail servers take.
    #[error("The email address is too long: at most 254 characters.")]
    TooLong,
    /// Not one `@` with something on both sides.
    #[error("Enter one email address, like name@example.org.")]
    NotOne,
    /// Spaces, quotes, control characters, letters with accents before the `@`, dots in a row.
    #[error("The part before the @ may have letters without accents, digits, and . _ + - between them.")]
    LocalPart,
    /// A number in place of a domain.
    #[error("After the @ there must be a name like example.org, not a number.")]
    Literal,
    /// A domain without a dot.
    #[error("After the @ something is missing: a name like example.org has a dot.")]
    NoDot,
    /// Not a domain's name.
    #[error("What follows the @ is not the name of a mail domain, like example.org.")]
    Domain,
}

impl EmailAddress {
    /// The longest address that fits an SMTP path.
    pub const MAX_CHARS: usize = 254;

    /// Deliberately narrower than the standard: what it refuses nobody has, or cannot be written to safely.
    /// A domain in other letters is turned into its ASCII form.
    ///
    /// # Errors
    /// When the text is not one plain address.
    pub fn parse(text: &str) -> Result<Self, EmailError> {
        let text = text.trim();
        if text.is_empty() {
            return Err(EmailError::Missing);
        }
        if text.chars().nth(Self::MAX_CHARS).is_some() {
            return Err(EmailError::TooLong);
        }
        let (local, domain) = text.split_once('@').ok_or(EmailError::NotOne)?;
        if local.is_empty() || domain.is_empty() || domain.contains('@') {
            return Err(EmailError::NotOne);
        }
        if !local_part_is_plain(local) {
            return Err(EmailError::LocalPart);
        }
        let ascii = domain_in_ascii(domain)?;
        let typed = if domain.is_ascii() { domain } else { &ascii };
        let value = format!("{local}@{typed}");
        if value.len() > Self::MAX_CHARS {
            return Err(EmailError::TooLong);
        }
        let person = match local.split_once('+') {
            Some((person, _tag)) if !person.is_empty() => person,
            _ => local,
        };
        let canonical = format!("{}@{ascii}", person.to_ascii_lowercase());
        Ok(Self { value, canonical })
    }

    /// As typed: what mail is sent to.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Lower case, without the tag: what decides identity.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }

    /// The address with its middle hidden, for whoever is not proven to be its owner: `a…@e….org`.
    #[must_use]
    pub fn masked(&self) -> String {
        let (local, domain) = self.value.split_once('@').unwrap_or((&self.value, ""));
        let (host, ending) = domain.split_once('.').unwrap_or((domain, ""));
        let first = |text: &str| text.chars().next().map(String::from).unwrap_or_default();
        format!("{}…@{}….{ending}", first(local), first(host))
    }
}

impl fmt::Display for EmailAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

/// RFC 5321's dot-string without the quoted form, at most 64 characters.
fn local_part_is_plain(local: &str) -> bool {
    local.len() <= 64
        && local.split('.').all(|atom| {
            !atom.is_empty()
                && atom.bytes().all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-/=?^_`{|}~".contains(&b))
        })
}

/// The lower-case ASCII form of a domain with at least two labels.
fn domain_in_ascii(domain: &str) -> Result<String, EmailError> {
    if domain.starts_with('[') {
        return Err(EmailError::Literal);
    }
    // The URL parser also decodes `%61`, which is no part of an address.
    if domain.contains('%') {
        return Err(EmailError::Domain);
    }
    let ascii = match url::Host::parse(domain) {
        Ok(url::Host::Domain(ascii)) => ascii,
        Ok(url::Host::Ipv4(_) | url::Host::Ipv6(_)) => return Err(EmailError::Literal),
        Err(_) => return Err(EmailError::Domain),
    };
    if !ascii.contains('.') {
        return Err(EmailError::NoDot);
    }
    let labels_are_names = ascii.split('.').all(|label| {
        !label.is_empty()
            && label.len() <= 63
            && !label.starts_with('-')
            && !label.ends_with('-')
            && label.bytes().all(|b| b.is_ascii_alphanumeric() || b == b'-')
    });
    let ending = ascii.rsplit('.').next().unwrap_or_default();
    if labels_are_names && ending.len() >= 2 && ending.bytes().any(|b| b.is_ascii_alphabetic()) {
        Ok(ascii)
    } else {
        Err(EmailError::Domain)
    }
}

// ── telephone numbers ──────────────────────────────────────────────────────────────────────────────────────

/// A telephone number to read out to staff. It identifies nobody: families and offices share one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PhoneNumber {
    value: String,
    canonical: String,
}

/// Why a number was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("Enter a telephone number of 5 to 15 digits, like +49 151 2215279.")]
pub struct PhoneError;

impl PhoneNumber {
    /// # Errors
    /// When there are other characters than digits, spaces and `( ) . / -` after an optional `+`, or fewer
    /// than 5 or more than 15 digits.
    pub fn parse(text: &str) -> Result<Self, PhoneError> {
        let text = text.trim();
        if text.len() > 40 {
            return Err(PhoneError);
        }
        let rest = text.strip_prefix('+').unwrap_or(text);
        if !rest.bytes().all(|b| b.is_ascii_digit() || b" ()./-".contains(&b)) {
            return Err(PhoneError);
        }
        let digits: String = rest.chars().filter(char::is_ascii_digit).collect();
        if !(5..=15).contains(&digits.len()) {
            return Err(PhoneError);
        }
        let canonical = match digits.strip_prefix("00") {
            _ if rest.len() < text.len() => format!("+{digits}"),
            Some(international) => format!("+{international}"),
            None => digits,
        };
        Ok(Self { value: text.to_owned(), canonical })
    }

    /// As typed.
    #[must_use]
    pub fn value(&self) -> &str {
        &self.value
    }

    /// Digits only, with a `+` where the country is known.
    #[must_use]
    pub fn canonical(&self) -> &str {
        &self.canonical
    }
}

impl fmt::Display for PhoneNumber {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn canonical(text: &str) -> String {
        EmailAddress::parse(text).expect(text).canonical().to_owned()
    }

    #[test]
    fn names_of_every_script_are_kept_as_they_are() {
        for name in
            ["Žofia Ünlü", "李", "=1+1", "O'Brien, \"Pat\"", "الدكتور ممتاز آل حسين", "Παγώνα", "می‌خواهم"]
        {
            assert_eq!(PersonName::parse(name).expect(name).as_str(), name);
        }
        assert_eq!(PersonName::parse("  Ann \t").expect("trimmed").as_str(), "Ann");
        assert_eq!(PersonName::parse("Z\u{30c}ofia").expect("composed").as_str(), "Žofia");
    }

    #[test]
    fn names_that_could_break_a_header_or_a_page_are_refused() {
        for (name, error) in [
            ("", NameError::Missing),
            (" \u{200B}\u{3164} ", NameError::Missing),
            ("Pat\r\nBcc: all@example.org", NameError::ControlCharacter),
            ("Pat\nJunior", NameError::ControlCharacter),
            ("nul\0", NameError::ControlCharacter),
            ("line\u{2028}separator", NameError::ControlCharacter),
            ("\u{202E}gnp.exe", NameError::TurnsTextAround),
            ("isolate\u{2066}d", NameError::TurnsTextAround),
        ] {
            assert_eq!(PersonName::parse(name), Err(error), "{name:?}");
        }
        assert_eq!(PersonName::parse(&"x".repeat(10_000)), Err(NameError::TooLong));
        assert!(PersonName::parse(&"李".repeat(200)).is_ok());
    }

    /// The kind of fault in zfoh/zureg#33, Mailtrain-org/mailtrain#631 and justingit/dada-mail#758: spellings
    /// of one address counted as two people.
    #[test]
    fn spellings_of_one_address_are_one_person() {
        assert_eq!(canonical("JohnDoe@Example.org"), canonical(" johndoe@example.ORG"));
        assert_eq!(canonical("anna+concert@gmail.com"), canonical("anna@gmail.com"));
        assert_eq!(canonical("x@müller.de"), canonical("X@xn--mller-kva.de"));
        assert_ne!(canonical("a.nna@gmail.com"), canonical("anna@gmail.com"));
        assert_eq!(canonical("+tag@example.org"), "+tag@example.org");
        let typed = EmailAddress::parse("Anna+Concert@Gmail.com").expect("valid");
        assert_eq!(typed.value(), "Anna+Concert@Gmail.com");
        assert_eq!(typed.masked(), "A…@G….com");
    }

    #[test]
    fn strange_addresses_are_refused() {
        for (address, error) in [
            ("", EmailError::Missing),
            ("anna", EmailError::NotOne),
            ("@example.org", EmailError::NotOne),
            ("a@b@example.org", EmailError::NotOne),
            ("a@example.org, b@example.org", EmailError::NotOne),
            ("\"quoted\"@example.org", EmailError::LocalPart),
            ("a b@example.org", EmailError::LocalPart),
            ("a..b@example.org", EmailError::LocalPart),
            ("ž@example.org", EmailError::LocalPart),
            ("a\r\nBcc:x@example.org", EmailError::LocalPart),
            ("user@[1.2.3.4]", EmailError::Literal),
            ("user@1.2.3.4", EmailError::Literal),
            ("user@0x7f.1", EmailError::Literal),
            ("user@localhost", EmailError::NoDot),
            ("user@example.", EmailError::Domain),
            ("user@exa mple.org", EmailError::Domain),
            ("user@example.org\r\nX: y", EmailError::Domain),
            ("user@-example.org", EmailError::Domain),
            ("user@ex_ample.org", EmailError::Domain),
            ("user@e%78ample.org", EmailError::Domain),
            ("user@example.o", EmailError::Domain),
        ] {
            assert_eq!(EmailAddress::parse(address), Err(error), "{address:?}");
        }
        assert_eq!(EmailAddress::parse(&format!("a@{}.org", "x".repeat(300))), Err(EmailError::TooLong));
        assert_eq!(
            EmailAddress::parse(&format!("{}@example.org", "x".repeat(65))),
            Err(EmailError::LocalPart)
        );
    }

    #[test]
    fn telephone_numbers_are_compared_by_their_digits() {
        let canonical = |text| PhoneNumber::parse(text).map(|phone| phone.canonical().to_owned());
        assert_eq!(canonical("+49 151 2215279"), Ok("+491512215279".to_owned()));
        assert_eq!(canonical("0049 (151) 221-5279"), Ok("+491512215279".to_owned()));
        assert_eq!(canonical("0151/2215279"), Ok("01512215279".to_owned()));
        for refused in ["", "1234", "call me", "+", "1+23456", "1234567890123456"] {
            assert!(PhoneNumber::parse(refused).is_err(), "{refused:?}");
        }
    }

    proptest! {
        /// Whatever is typed, an accepted address is one line, one `@`, a dot after it, and stays the same
        /// when it is read again.
        #[test]
        fn an_accepted_address_is_inert(text in "\\PC{0,20}@\\PC{0,30}|[a-z+.@\"\\[\\]\\r\\n ]{0,30}") {
            if let Ok(address) = EmailAddress::parse(&text) {
                for form in [address.value(), address.canonical()] {
                    prop_assert!(form.is_ascii() && !form.bytes().any(|b| b.is_ascii_control() || b == b' '));
                    prop_assert_eq!(form.matches('@').count(), 1);
                    prop_assert!(form.split_once('@').is_some_and(|(_, domain)| domain.contains('.')));
                }
                let again = EmailAddress::parse(address.value()).expect("its own value");
                prop_assert_eq!(again.canonical(), address.canonical());
            }
        }

        /// Whatever is typed, an accepted name has no character that could break a line or turn text around,
        /// and is accepted unchanged the next time.
        #[test]
        fn an_accepted_name_is_inert(text in any::<String>()) {
            if let Ok(name) = PersonName::parse(&text) {
                prop_assert!(!name.as_str().chars().any(|c| is_control(c) || turns_text_around(c)));
                prop_assert_eq!(PersonName::parse(name.as_str()), Ok(name));
            }
        }
    }
}
