//! The addresses of pages, as they stand in mails: always from the configured base URL, never from a request.

use url::Url;

use crate::domain::ids::EntryId;

/// Makes addresses below the base URL.
#[derive(Clone, Copy, Debug)]
pub struct Links<'a> {
    base: &'a Url,
}

impl<'a> Links<'a> {
    /// Below `base`, which may have a path of its own.
    #[must_use]
    pub fn new(base: &'a Url) -> Self {
        Self { base }
    }

    /// `path` below the base URL; it begins with a slash.
    fn to(self, path: &str) -> String {
        format!("{}{path}", self.base.as_str().trim_end_matches('/'))
    }

    /// The person's own page about an entry: where it stands, leave, pause, join again.
    #[must_use]
    pub fn entry(self, entry: EntryId) -> String {
        self.to(&format!("/me/entries/{entry}"))
    }

    /// Everything of this person.
    #[must_use]
    pub fn me(self) -> String {
        self.to("/me")
    }

    /// The public page of an event. Slugs are plain ASCII.
    #[must_use]
    pub fn event(self, slug: &str) -> String {
        self.to(&format!("/e/{slug}"))
    }

    /// The page of an offer.
    #[must_use]
    pub fn offer(self, token: &str) -> String {
        self.to(&format!("/o/{token}"))
    }

    /// Where mail that is not essential is stopped.
    #[must_use]
    pub fn unsubscribe(self, token: &str) -> String {
        self.to(&format!("/unsubscribe/{token}"))
    }

    /// What stands after the `@` of a Message-ID: the host that the base URL names.
    #[must_use]
    pub fn host(self) -> String {
        match self.base.host() {
            Some(url::Host::Domain(domain)) => domain.to_owned(),
            Some(url::Host::Ipv4(address)) => format!("[{address}]"),
            Some(url::Host::Ipv6(address)) => format!("[IPv6:{address}]"),
            None => "localhost".to_owned(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn links_stand_below_the_base_url_with_or_without_a_path() {
        let links = |base: &str| {
            let base: Url = base.parse().expect("a URL");
            (Links::new(&base).me(), Links::new(&base).host())
        };
        assert_eq!(links("https://list.example.org").0, "https://list.example.org/me");
        assert_eq!(links("https://example.org/list/").0, "https://example.org/list/me");
        assert_eq!(links("http://127.0.0.1:8080").1, "[127.0.0.1]");
        assert_eq!(links("http://[::1]:8080").1, "[IPv6:::1]");
    }
}
