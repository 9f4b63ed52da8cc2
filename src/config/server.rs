//! The settings of a server: where it is found, its mail, its secret.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::net::SocketAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::Path;

use chrono::TimeDelta;
use clap::Args;
use lettre::message::Mailbox;
use url::Url;

use super::values::{Hidden, Refused, parse_base_url, parse_mailbox};
use crate::clock::Entropy;
use crate::db::postgres;
use crate::domain::secret::Secret;
use crate::messages::{Relay, smtp};
use crate::tls::Trust;

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

    /// Address and port on which Prometheus finds `/metrics`, for operators only [default: none]
    #[arg(long, env = "FAIRLIST_METRICS_LISTEN", value_name = "ADDR:PORT", help_heading = "Operations")]
    pub metrics_listen: Option<SocketAddr>,

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

    /// Let webhooks go to addresses of private networks and of this machine, and without encryption
    #[arg(long, env = "FAIRLIST_PRIVATE_WEBHOOKS", help_heading = "Safety")]
    pub private_webhooks: bool,

    /// After so many minutes without a click, staff sign in again
    #[arg(long, env = "FAIRLIST_STAFF_IDLE_MINUTES", value_name = "MINUTES", default_value_t = 30, value_parser = clap::value_parser!(u16).range(1..=720), help_heading = "Safety")]
    pub staff_idle_minutes: u16,

    /// How often an hour the list may be joined from one address; a school or an office shares one
    #[arg(long, env = "FAIRLIST_JOINS_PER_HOUR", value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(i32).range(1..), help_heading = "Safety")]
    pub joins_per_hour: i32,

    /// How often a minute one program or customer may write through the API
    #[arg(long, env = "FAIRLIST_WRITES_PER_MINUTE", value_name = "N", default_value_t = 100, value_parser = clap::value_parser!(i32).range(1..), help_heading = "Safety")]
    pub writes_per_minute: i32,
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
    /// Where operators read metrics, if anywhere.
    pub metrics_listen: Option<SocketAddr>,
    /// The mail server and the sender; `None`: messages are only shown to staff.
    pub mail: Option<Relay>,
    /// Whose certificates are believed.
    pub trust: Trust,
    /// Whether webhooks may go into private networks.
    pub private_webhooks: bool,
    /// How long staff stay signed in without a click.
    pub staff_idle: TimeDelta,
    /// Joins an hour and address.
    pub joins_per_hour: i32,
    /// Writes to the API a minute and caller.
    pub writes_per_minute: i32,
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

impl ServerArguments {
    /// Checks what parsing could not.
    ///
    /// # Errors
    /// A sentence that begins with the name of the setting.
    pub fn check(&self, trust: Trust) -> Result<ServerConfig, Refused> {
        Ok(ServerConfig {
            address: self.address.clone(),
            hosts: self.hosts.clone(),
            trusted_proxies: self.trusted_proxies,
            metrics_listen: self.metrics_listen,
            mail: self.mail(&trust)?,
            trust,
            secret: self.secret()?,
            private_webhooks: self.private_webhooks,
            staff_idle: TimeDelta::minutes(i64::from(self.staff_idle_minutes)),
            joins_per_hour: self.joins_per_hour,
            writes_per_minute: self.writes_per_minute,
        })
    }

    fn mail(&self, trust: &Trust) -> Result<Option<Relay>, Refused> {
        let Some(Hidden(url)) = &self.smtp_url else { return Ok(None) };
        let server = smtp::Server::parse(url).map_err(|problem| {
            Refused::new("--smtp-url", "FAIRLIST_SMTP_URL", &format!("is refused: {problem}"))
        })?;
        let from = self.mail_from.clone().ok_or_else(|| {
            Refused::new("--mail-from", "FAIRLIST_MAIL_FROM", "is needed where --smtp-url is given")
        })?;
        Ok(Some(Relay { server: server.trusting(trust.clone()), from }))
    }

    fn secret(&self) -> Result<Option<Secret>, Refused> {
        given_secret(self.secret.as_ref())
    }
}

fn given_secret(secret: Option<&Hidden>) -> Result<Option<Secret>, Refused> {
    let Some(Hidden(text)) = secret else { return Ok(None) };
    Secret::new(text.clone().into_bytes()).map(Some).map_err(|_| {
        let reason = "is shorter than 32 characters; `openssl rand -hex 32` makes a good one";
        Refused::new("--secret", "FAIRLIST_SECRET", reason)
    })
}

/// What a check of the database may be told.
#[derive(Args, Clone, Debug)]
pub struct CheckArguments {
    /// Secret from which links and codes are derived, as given to the servers [default: the file `secret` of the
    /// data directory; where there is none, links are only compared with each other]
    #[arg(
        long,
        env = "FAIRLIST_SECRET",
        hide_env_values = true,
        value_name = "SECRET",
        help_heading = "Safety"
    )]
    pub secret: Option<Hidden>,
}

impl CheckArguments {
    /// The secret as given or kept; a check makes none, for a new one would belong to no link.
    ///
    /// # Errors
    /// When it is too short, or the file cannot be read.
    pub fn secret(&self, data: &Path) -> Result<Option<Secret>, Refused> {
        let given = given_secret(self.secret.as_ref())?;
        if given.is_some() || !data.join("secret").exists() {
            return Ok(given);
        }
        kept_secret(data).map(Some).map_err(|problem| {
            let file = data.join("secret");
            Refused::new(
                "--secret",
                "FAIRLIST_SECRET",
                &format!("is not given, and {}: {problem}", file.display()),
            )
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

/// Where a browser on this machine finds us.
fn own_url(listen: SocketAddr) -> Result<Url, Refused> {
    let local = listen.ip().is_unspecified() || listen.ip().is_loopback();
    let text = if local { format!("http://localhost:{}", listen.port()) } else { format!("http://{listen}") };
    Url::parse(&text).map_err(|problem| Refused::new("--base-url", "FAIRLIST_BASE_URL", &problem.to_string()))
}

#[cfg(test)]
mod tests {
    use super::*;

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
