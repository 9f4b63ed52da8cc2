//! Where to go after signing in: only ever to a page of our own.

use std::fmt;

use url::form_urlencoded;

/// A path on this site, with its query. Nothing that a browser could read as another site.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPath(String);

impl LocalPath {
    /// `None` for anything but a plain absolute path: `//evil`, `/\evil`, `javascript:`, tabs and line breaks that
    /// browsers drop.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let ours = text.len() <= 2_000
            && text.starts_with('/')
            && !text.starts_with("//")
            && text.bytes().all(|b| b.is_ascii_graphic() && b != b'\\');
        ours.then(|| Self(text.to_owned()))
    }

    /// The same, or `other`.
    #[must_use]
    pub fn parse_or(text: &str, other: &str) -> Self {
        Self::parse(text).unwrap_or_else(|| Self(other.to_owned()))
    }

    /// The path.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// `next=…` for a link to the sign-in page.
    #[must_use]
    pub fn query(path: &str) -> String {
        form_urlencoded::Serializer::new(String::new()).append_pair("next", path).finish()
    }
}

impl fmt::Display for LocalPath {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_leads_away() {
        for away in [
            "",
            "//evil.example",
            "/\\evil.example",
            "\\evil",
            "javascript:alert(1)",
            "https://evil.example/",
            "/\t/evil",
            "/a\nb",
            "evil",
            "/ä",
            " /x",
        ] {
            assert_eq!(LocalPath::parse(away), None, "{away:?}");
        }
        for ours in ["/", "/staff/events/1?state=waiting&page=2", "/e/concert#join", "/a//b"] {
            assert_eq!(LocalPath::parse(ours).expect(ours).as_str(), ours);
        }
    }
}
