//! The name of an event in addresses.

use unicode_normalization::UnicodeNormalization;

/// The longest one.
const MAX: usize = 60;

/// A slug made of a name: letters without their accents, digits, hyphens.
#[must_use]
pub fn from_name(name: &str) -> String {
    let mut slug = String::new();
    for c in name.to_lowercase().nfkd() {
        if c.is_ascii_alphanumeric() {
            slug.push(c);
        } else if !slug.is_empty() && !slug.ends_with('-') && (c.is_whitespace() || c.is_ascii_punctuation())
        {
            slug.push('-');
        }
    }
    slug.truncate(MAX);
    slug.trim_matches('-').to_owned()
}

/// # Errors
/// What is wrong with it, as a sentence.
pub fn check(slug: &str) -> Result<(), &'static str> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    if slug.is_empty()
        || slug.len() > MAX
        || !slug.chars().all(fits)
        || slug.starts_with('-')
        || slug.ends_with('-')
        // It would be taken for an event's id.
        || uuid::Uuid::try_parse(slug).is_ok()
    {
        Err("Use 1 to 60 small letters, digits and hyphens, such as spring-concert.")
    } else {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn accents_and_signs_go_and_other_scripts_ask_for_a_slug_by_hand() {
        assert_eq!(from_name("  Frühlings-Konzert 2027! "), "fruhlings-konzert-2027");
        assert!(check(&from_name("李")).is_err());
        assert!(check("a--b").is_ok());
        assert!(check("01a22c19-679f-7000-8000-000000000000").is_err());
        assert!(check("-a").is_err() && check("A").is_err() && check(&"a".repeat(61)).is_err());
    }
}
