//! The settings, typed: by flag or by environment, refused at start with the name of the setting.
//!
//! What may hold a password is checked after parsing, so that a refusal names the setting without repeating it.

use std::ffi::OsString;
use std::fmt;
use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use chrono::TimeDelta;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand, ValueEnum};
use lettre::message::Mailbox;
use sqlx::postgres::PgConnectOptions;
use url::Url;

use crate::clock::Entropy;
use crate::db::postgres;
use crate::domain::contact::{EmailAddress, NameError, PersonName};
use crate::domain::role::Role;
use crate::domain::secret::Secret;

/// A waitlist that makes the next offer clear, proves that it was fair, and never promises one place twice.
#[derive(Debug, Parser)]
#[command(
    name = "fairlist",
    version,
    after_help = "Every setting can also be given in the environment, under the name shown with it.\n\
                  Begin with `fairlist demo`: it needs nothing, and shows what Fairlist does."
)]
pub struct Cli {
    /// What every command needs to know.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the data are, and how to log.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Directory of the private Postgres server and of the generated secret; made when it is not there
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_DATA",
        value_name = "DIR",
        default_value = "./data",
        value_parser = parse_path,
        help_heading = "Data"
    )]
    pub data: PathBuf,

    /// Use this Postgres (15 or later) instead of a private one: `postgres://USER:PASSWORD@HOST/DATABASE`
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Data"
    )]
    pub database_url: Option<Hidden>,

    /// Directory of the programs of Postgres (15 or later); without it they are looked for on PATH, in the
    /// distribution's and Homebrew's places, and downloaded where there are none
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_POSTGRES_BIN",
        value_name = "DIR",
        value_parser = parse_path,
        help_heading = "Data"
    )]
    pub postgres_bin: Option<PathBuf>,

    /// How to log: for people, as JSON, or for people on a terminal and as JSON otherwise
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_LOG",
        value_name = "FORMAT",
        default_value = "auto",
        help_heading = "Log"
    )]
    pub log: LogFormat,

    /// The least important messages to log
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Log"
    )]
    pub log_level: LogLevel,
}

impl Common {
    /// The settings of the private server.
    #[must_use]
    pub fn private_server(&self) -> postgres::Settings {
        postgres::Settings { data: self.data.clone(), binaries: self.postgres_bin.clone() }
    }

    /// The database that was named, if one was.
    ///
    /// # Errors
    /// When it is no URL of a Postgres database.
    pub fn database(&self) -> Result<Option<PgConnectOptions>, Refused> {
        let Some(Hidden(url)) = &self.database_url else { return Ok(None) };
        let refused = |reason: &str| Refused::new("--database-url", "DATABASE_URL", reason);
        let parsed = Url::parse(url)
            .map_err(|_| refused("is not a URL, such as postgres://USER:PASSWORD@HOST/DATABASE"))?;
        if !matches!(parsed.scheme(), "postgres" | "postgresql") {
            return Err(refused("must begin with postgres://"));
        }
        if parsed.path().len() < 2 && !parsed.query_pairs().any(|(name, _)| name == "dbname") {
            return Err(refused("does not name a database, as in postgres://HOST/DATABASE"));
        }
        PgConnectOptions::from_str(url).map(Some).map_err(|problem| refused(&problem.to_string()))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the pages and run the workers
    ///
    /// On a private Postgres in the data directory, or on the database named by --database-url. Applies the
    /// migrations first. SIGTERM and Ctrl-C let it finish what was begun, within 20 seconds.
    Serve(ServerArguments),
    /// Apply the migrations and stop
    ///
    /// `serve` does the same when it starts; two that start at once do it once. A database that a newer
    /// Fairlist has migrated is refused.
    Migrate,
    /// Open psql on the database
    ///
    /// On the running private server, or on one that is started for as long as psql runs. What follows `--` is
    /// handed to psql: `fairlist psql -- -c 'SELECT count(*) FROM entries'`.
    Psql {
        /// Arguments for psql
        #[arg(last = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Say who may sign in as staff
    #[command(subcommand)]
    Staff(StaffCommand),
}

/// Who may sign in as staff.
#[derive(Debug, Subcommand)]
pub enum StaffCommand {
    /// Add somebody, and print the one-time link by which they choose a password
    ///
    /// The first one of an organization makes the organization. Adding the same person again prints a new link,
    /// and the old one stops working.
    Add(NewStaffArguments),
}

/// Where a server is found.
#[derive(Args, Clone, Debug)]
pub struct AddressArguments {
    /// Address and port to listen on
    #[arg(
        long,
        env = "FAIRLIST_LISTEN",
        value_name = "ADDR:PORT",
        default_value = "127.0.0.1:8080",
        help_heading = "Web"
    )]
    pub listen: SocketAddr,

    /// Address under which people reach this server: links in mails begin with it [default: http:// and the
    /// address listened on]
    #[arg(long, env = "FAIRLIST_BASE_URL", value_name = "URL", value_parser = parse_base_url, help_heading = "Web")]
    pub base_url: Option<Url>,
}

impl AddressArguments {
    /// What links begin with: as configured, or where a browser on this machine finds a server that listens
    /// at `bound`. Ends in a slash.
    ///
    /// # Errors
    /// Never for an address that can be listened on.
    pub fn base_url(&self, bound: SocketAddr) -> Result<Url, Refused> {
        match &self.base_url {
            Some(url) => Ok(url.clone()),
            None => own_url(bound),
        }
    }
}

/// A new member of the staff.
#[derive(Args, Clone, Debug)]
pub struct NewStaffArguments {
    /// Name of the organization; made where there is none of that name
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub organization: PersonName,

    /// Mail address to sign in with
    #[arg(long, value_name = "ADDRESS", value_parser = EmailAddress::parse)]
    pub email: EmailAddress,

    /// What they may do: `viewer`, `agent`, `manager` or `owner`
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    pub role: Role,

    /// Name shown to colleagues [default: what stands before the @]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<PersonName>,

    /// Where the link will lead.
    #[command(flatten)]
    pub address: AddressArguments,
}

/// What a server needs to know besides.
#[derive(Args, Clone, Debug)]
pub struct ServerArguments {
    /// Where it listens, and under which address people reach it.
    #[command(flatten)]
    pub address: AddressArguments,

    /// Further names by which this server may be called, with the port if it is not the usual one
    #[arg(long, env = "FAIRLIST_HOSTS", value_name = "HOST,…", value_delimiter = ',', help_heading = "Web")]
    pub hosts: Vec<String>,

    /// How many proxies of yours stand in front: only they are believed about a visitor's address
    #[arg(long, env = "FAIRLIST_TRUSTED_PROXIES", value_name = "N", default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=8), help_heading = "Web")]
    pub trusted_proxies: u8,

    /// Mail server: `smtps://USER:PASSWORD@HOST`, or `smtp://…` for STARTTLS; without it, staff read all messages in
    /// the mailbox page
    #[arg(
        long,
        env = "FAIRLIST_SMTP_URL",
        hide_env_values = true,
        value_name = "URL",
        requires = "mail_from",
        help_heading = "Mail"
    )]
    pub smtp_url: Option<Hidden>,

    /// Sender of all mail, such as "Box office <tickets@example.org>"
    #[arg(long, env = "FAIRLIST_MAIL_FROM", value_name = "ADDRESS", value_parser = parse_mailbox, help_heading = "Mail")]
    pub mail_from: Option<Mailbox>,

    /// Secret from which links and codes are derived, 32 characters or more, the same for all servers of one
    /// database [default: made once, kept in the file `secret` of the data directory]
    #[arg(
        long,
        env = "FAIRLIST_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        help_heading = "Safety"
    )]
    pub secret: Option<Hidden>,

    /// After so many minutes without a click, staff sign in again
    #[arg(long, env = "FAIRLIST_STAFF_IDLE_MINUTES", value_name = "MINUTES", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=720), help_heading = "Safety")]
    pub staff_idle_minutes: u16,

    /// How often an hour the list may be joined from one address; a school or an office shares one
    #[arg(long, env = "FAIRLIST_JOINS_PER_HOUR", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(i32).range(1..), help_heading = "Safety")]
    pub joins_per_hour: i32,
}

/// The settings of a server, checked.
#[derive(Clone, Debug)]
pub struct ServerConfig {
    /// Where it listens, and under which address people reach it.
    pub address: AddressArguments,
    /// Further names by which it may be called.
    pub hosts: Vec<String>,
    /// How many proxies are believed.
    pub trusted_proxies: u8,
    /// The mail server and the sender; `None`: messages are only shown to staff.
    pub mail: Option<Mail>,
    /// How long staff stay signed in without a click.
    pub staff_idle: TimeDelta,
    /// Joins an hour and address.
    pub joins_per_hour: i32,
    secret: Option<Secret>,
}

impl ServerConfig {
    /// What links and codes are derived from: as given, or kept in the data directory, where it is made once.
    ///
    /// # Errors
    /// When the file cannot be read or made.
    pub fn secret(&self, data: &Path) -> Result<Secret, Refused> {
        if let Some(secret) = &self.secret {
            return Ok(secret.clone());
        }
        kept_secret(data).map_err(|problem| {
            let file = data.join("secret");
            Refused::new(
                "--secret",
                "FAIRLIST_SECRET",
                &format!("is not given, and {}: {problem}", file.display()),
            )
        })
    }
}

/// How mail is sent.
#[derive(Clone)]
pub struct Mail {
    /// `smtp` or `smtps`, with a host; may hold a password.
    pub smtp: Url,
    /// The sender.
    pub from: Mailbox,
}

impl fmt::Debug for Mail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Mail")
            .field("host", &self.smtp.host_str())
            .field("from", &self.from)
            .finish_non_exhaustive()
    }
}

impl ServerArguments {
    /// Checks what parsing could not.
    ///
    /// # Errors
    /// A sentence that begins with the name of the setting.
    pub fn check(&self) -> Result<ServerConfig, Refused> {
        Ok(ServerConfig {
            address: self.address.clone(),
            hosts: self.hosts.clone(),
            trusted_proxies: self.trusted_proxies,
            mail: self.mail()?,
            secret: self.secret()?,
            staff_idle: TimeDelta::minutes(i64::from(self.staff_idle_minutes)),
            joins_per_hour: self.joins_per_hour,
        })
    }

    fn mail(&self) -> Result<Option<Mail>, Refused> {
        let Some(Hidden(url)) = &self.smtp_url else { return Ok(None) };
        let refused = |reason: &str| Refused::new("--smtp-url", "FAIRLIST_SMTP_URL", reason);
        let smtp =
            Url::parse(url).map_err(|_| refused("is not a URL, such as smtps://USER:PASSWORD@HOST"))?;
        if !matches!(smtp.scheme(), "smtp" | "smtps") {
            return Err(refused("must begin with smtp:// or smtps://"));
        }
        if smtp.host_str().is_none_or(str::is_empty) {
            return Err(refused("does not name a host"));
        }
        let from = self.mail_from.clone().ok_or_else(|| {
            Refused::new("--mail-from", "FAIRLIST_MAIL_FROM", "is needed where --smtp-url is given")
        })?;
        Ok(Some(Mail { smtp, from }))
    }

    fn secret(&self) -> Result<Option<Secret>, Refused> {
        let Some(Hidden(text)) = &self.secret else { return Ok(None) };
        Secret::new(text.clone().into_bytes()).map(Some).map_err(|_| {
            let reason = "is shorter than 32 characters; `openssl rand -hex 32` makes a good one";
            Refused::new("--secret", "FAIRLIST_SECRET", reason)
        })
    }
}

/// The secret of this data directory; made once.
fn kept_secret(data: &Path) -> io::Result<Secret> {
    let path = data.join("secret");
    let too_short = |_| {
        io::Error::new(
            io::ErrorKind::InvalidData,
            "it holds fewer than 32 characters; restore it from a backup, or remove it: links that were sent then stop working",
        )
    };
    loop {
        match fs::read_to_string(&path) {
            Ok(text) => return Secret::new(text.trim().as_bytes().to_vec()).map_err(too_short),
            Err(problem) if problem.kind() == io::ErrorKind::NotFound => {}
            Err(problem) => return Err(problem),
        }
        postgres::data_directory(data).map_err(io::Error::other)?;
        // Written whole under another name, then linked: two programs that start at once keep the same one.
        let draft = data.join(format!("secret.{}", std::process::id()));
        let mut file = OpenOptions::new().write(true).create(true).truncate(true).mode(0o600).open(&draft)?;
        writeln!(file, "{}", hex::encode(Entropy.bytes()))?;
        file.sync_all()?;
        let linked = fs::hard_link(&draft, &path);
        fs::remove_file(&draft)?;
        match linked {
            Err(problem) if problem.kind() != io::ErrorKind::AlreadyExists => return Err(problem),
            _ => {}
        }
    }
}

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
    fn new(flag: &'static str, environment: &'static str, reason: &str) -> Self {
        Self { flag, environment, reason: reason.to_owned() }
    }
}

fn parse_path(text: &str) -> Result<PathBuf, &'static str> {
    if text.is_empty() { Err("the name of a directory is needed") } else { Ok(PathBuf::from(text)) }
}

fn parse_name(text: &str) -> Result<PersonName, NameError> {
    PersonName::parse(text)
}

fn parse_role(text: &str) -> Result<Role, &'static str> {
    Role::parse(text).ok_or("the roles are viewer, agent, manager and owner")
}

fn parse_mailbox(text: &str) -> Result<Mailbox, &'static str> {
    // A line break in a name would become a header of its own.
    if text.chars().any(char::is_control) {
        return Err("an address has no control characters");
    }
    text.parse().map_err(
        |_| "this is no mail address, such as tickets@example.org or \"Box office <tickets@example.org>\"",
    )
}

fn parse_base_url(text: &str) -> Result<Url, &'static str> {
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

/// Where a browser on this machine finds us.
fn own_url(listen: SocketAddr) -> Result<Url, Refused> {
    let local = listen.ip().is_unspecified() || listen.ip().is_loopback();
    let text = if local { format!("http://localhost:{}", listen.port()) } else { format!("http://{listen}") };
    Url::parse(&text).map_err(|problem| Refused::new("--base-url", "FAIRLIST_BASE_URL", &problem.to_string()))
}

/// Reads the command line and the environment.
///
/// # Errors
/// What clap says: help, version, or what was wrong, with the name of the variable when the value came from
/// the environment.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    command
        .clone()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| name_the_variable(error, &command))
}

/// clap names the flag only; whoever set a variable looks for its name.
fn name_the_variable(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return error;
    }
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let variable = std::iter::once(command)
        .chain(command.get_subcommands())
        .flat_map(clap::Command::get_arguments)
        .filter(|known| {
            known.get_long().is_some_and(|long| argument.split(' ').next() == Some(&format!("--{long}")))
        })
        .find_map(|known| known.get_env().map(std::ffi::OsStr::to_owned))
        .filter(|variable| std::env::var_os(variable).is_some_and(|set| set == **value));
    if let Some(variable) = variable {
        let named = format!("{argument} (from {})", variable.to_string_lossy());
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

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

    #[test]
    fn without_a_base_url_links_lead_to_this_machine() {
        assert_eq!(own_url("0.0.0.0:8080".parse().unwrap()).unwrap().as_str(), "http://localhost:8080/");
        assert_eq!(
            own_url("[2001:db8::1]:90".parse().unwrap()).unwrap().as_str(),
            "http://[2001:db8::1]:90/"
        );
    }

    #[test]
    fn the_secret_is_made_once_and_readable_by_its_owner_only() {
        use std::os::unix::fs::PermissionsExt as _;
        let data = tempfile::tempdir().unwrap();
        kept_secret(data.path()).unwrap();
        let file = data.path().join("secret");
        let first = fs::read_to_string(&file).unwrap();
        assert_eq!(fs::metadata(&file).unwrap().permissions().mode() & 0o777, 0o600);
        kept_secret(data.path()).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), first);
        assert_eq!(fs::read_dir(data.path()).unwrap().count(), 1);
    }

    #[test]
    fn a_secret_that_was_cut_short_is_refused_and_kept() {
        let data = tempfile::tempdir().unwrap();
        fs::write(data.path().join("secret"), "short\n").unwrap();
        assert!(kept_secret(data.path()).is_err());
        assert_eq!(fs::read_to_string(data.path().join("secret")).unwrap(), "short\n");
    }
}
