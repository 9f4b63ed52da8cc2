//! What settings consist of, and how a wrong one is refused.

use std::fmt;
use std::path::PathBuf;

use clap::ValueEnum;
use lettre::message::Mailbox;
use url::Url;

use crate::domain::contact::{NameError, PersonName};
use crate::domain::role::Role;

/// A value that may hold a password, and is never printed.
#[derive(Clone, PartialEq, Eq)]
pub struct Hidden(pub String);

impl fmt::Debug for Hidden {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("…")
    }
}

impl From<String> for Hidden {
    fn from(text: String) -> Self {
        Self(text)
    }
}

/// How to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum LogFormat {
    /// For people on a terminal, else JSON.
    Auto,
    /// Lines for people.
    Human,
    /// One JSON object a line.
    Json,
}

/// The least important messages to log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
#[expect(missing_docs, reason = "the names say it")]
pub enum LogLevel {
    Error,
    Warn,
    Info,
    Debug,
    Trace,
}

impl LogLevel {
    /// The word that the log filter knows.
    #[must_use]
    pub fn directive(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warn => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
            Self::Trace => "trace",
        }
    }
}

/// A setting that was refused.
#[derive(Debug, thiserror::Error)]
#[error("{flag} ({environment}) {reason}")]
pub struct Refused {
    flag: &'static str,
    environment: &'static str,
    reason: String,
}

impl Refused {
    pub(super) fn new(flag: &'static str, environment: &'static str, reason: &str) -> Self {
        Self { flag, environment, reason: reason.to_owned() }
    }
}

pub(super) fn parse_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() { Err("the name of a directory is needed") } else { Ok(PathBuf::from(text)) }
}

pub(super) fn parse_file(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() { Err("the name of a file is needed") } else { Ok(PathBuf::from(text)) }
}

pub(super) fn parse_name(text: &str) -> Result<PersonName, NameError> {
    PersonName::parse(text)
}

pub(super) fn parse_role(text: &str) -> Result<Role, &'static str> {
    Role::parse(text).ok_or("the roles are viewer, agent, manager and owner")
}

pub(super) fn parse_mailbox(text: &str) -> Result<Mailbox, &'static str> {
    // A line break in a name would become a header of its own.
    if text.chars().any(char::is_control) {
        return Err("an address has no control characters");
    }
    text.parse().map_err(
        |_| "this is no mail address, such as tickets@example.org or \"Box office <tickets@example.org>\"",
    )
}

pub(super) fn parse_collector(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "this is no URL, such as http://127.0.0.1:4318")?;
    if matches!(url.scheme(), "http" | "https") && url.query().is_none() {
        Ok(url)
    } else {
        Err("it must be an address that begins with https:// or http://")
    }
}

pub(super) fn parse_base_url(text: &str) -> Result<Url, &'static str> {
    let url = Url::parse(text).map_err(|_| "this is no URL, such as https://tickets.example.org")?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err("it must begin with https:// or http://");
    }
    if url.path() != "/" || url.query().is_some() || url.fragment().is_some() {
        return Err("it must be an address without a path: Fairlist needs a host name of its own");
    }
    if !url.username().is_empty() || url.password().is_some() {
        return Err("it must not hold a user name or a password");
    }
    Ok(url)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_base_url_is_a_host_of_its_own() {
        for good in ["https://tickets.example.org", "http://localhost:8080/", "http://[::1]:80"] {
            assert!(parse_base_url(good).is_ok(), "{good}");
        }
        for bad in [
            "tickets.example.org",
            "ftp://a.example",
            "https://a.example/list",
            "https://a.example/?x",
            "https://u:p@a.example",
        ] {
            assert!(parse_base_url(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn a_sender_cannot_add_headers() {
        assert!(parse_mailbox("Box office <tickets@example.org>").is_ok());
        assert!(parse_mailbox("tickets@example.org").is_ok());
        assert!(parse_mailbox("Box\r\nBcc: x@example.org <tickets@example.org>").is_err());
        assert!(parse_mailbox("nobody").is_err());
    }
}
