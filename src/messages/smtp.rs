//! Handing a mail to a server, one step of the protocol at a time, so that it is known how far it came.
//!
//! lettre's own transport would send and say good-bye as one: a server that takes a mail and then hangs would look
//! like a failure. Here the server's yes counts at once. A connection that was not left in a known state is never
//! used again.

use std::fmt;
use std::net::IpAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use lettre::Address;
use lettre::transport::smtp::Error;
use lettre::transport::smtp::authentication::{Credentials, Mechanism};
use lettre::transport::smtp::client::{AsyncSmtpConnection, Certificate, TlsParameters};
use lettre::transport::smtp::commands::{Data, Mail, Rcpt};
use lettre::transport::smtp::extension::ClientId;
use tokio::time::Instant;
use url::Url;

use crate::domain::delivery::Verdict;
use crate::tls::{self, Trust};

/// How mail is protected on its way to the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protection {
    /// TLS from the first byte.
    Tls,
    /// TLS before anything is said, or nothing is.
    StartTls,
    /// None: only towards this machine itself.
    None,
}

/// A mail server, as configured.
#[derive(Clone)]
pub struct Server {
    host: String,
    port: u16,
    protection: Protection,
    credentials: Option<Credentials>,
    trust: Trust,
}

/// Never the password.
impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Server({self}, {:?})", self.protection)
    }
}

impl fmt::Display for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.host, self.port)
    }
}

/// Why a server's address was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ServerError {
    /// Not a URL of a mail server.
    #[error(
        "write it as smtps://user:password@mail.example.org or smtp://user:password@mail.example.org:587"
    )]
    Unreadable,
    /// A parameter that is not known.
    #[error("the only parameter is ?tls=required, not {0}")]
    Parameter(String),
    /// A user without a password, or a password without a user.
    #[error("the user and the password go together")]
    Credentials,
}

impl Server {
    /// `smtps://` is TLS from the first byte (port 465). `smtp://` demands STARTTLS (port 587), except towards this
    /// machine itself (port 25), unless `?tls=required` is added.
    ///
    /// # Errors
    /// When it is not such a URL.
    pub fn parse(text: &str) -> Result<Self, ServerError> {
        let url: Url = text.trim().parse().map_err(|_| ServerError::Unreadable)?;
        let host = url.host_str().filter(|host| !host.is_empty()).ok_or(ServerError::Unreadable)?;
        let mut tls_required = false;
        for (name, value) in url.query_pairs() {
            match (&*name, &*value) {
                ("tls", "required") => tls_required = true,
                _ => return Err(ServerError::Parameter(format!("{name}={value}"))),
            }
        }
        let (protection, port) = match url.scheme() {
            "smtps" => (Protection::Tls, 465),
            "smtp" if tls_required || !is_this_machine(host) => (Protection::StartTls, 587),
            "smtp" => (Protection::None, 25),
            _ => return Err(ServerError::Unreadable),
        };
        let decoded = |text: &str| urlencoding(text).ok_or(ServerError::Unreadable);
        let credentials = match (url.username(), url.password()) {
            ("", None) => None,
            ("", Some(_)) | (_, None) => return Err(ServerError::Credentials),
            (user, Some(password)) => Some(Credentials::new(decoded(user)?, decoded(password)?)),
        };
        Ok(Self {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: url.port().unwrap_or(port),
            protection,
            credentials,
            trust: Trust::default(),
        })
    }

    /// The same, with these authorities believed.
    #[must_use]
    pub fn trusting(self, trust: Trust) -> Self {
        Self { trust, ..self }
    }

    fn tls(&self) -> Result<TlsParameters, Error> {
        let mut tls = TlsParameters::builder(self.host.clone());
        for authority in self.trust.added() {
            tls = tls.add_root_certificate(Certificate::from_der(authority.to_vec())?);
        }
        tls.build()
    }

    /// How mail is protected on its way.
    #[must_use]
    pub fn protection(&self) -> Protection {
        self.protection
    }
}

fn is_this_machine(host: &str) -> bool {
    host.eq_ignore_ascii_case("localhost")
        || host.trim_matches(['[', ']']).parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

/// Undoes `%xx`; `None` when the result is not UTF-8.
fn urlencoding(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        let escaped = (*first == b'%').then(|| tail.get(..2)).flatten();
        let byte = escaped.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        bytes.push(byte.unwrap_or(*first));
        rest = if byte.is_some() { &tail[2..] } else { tail };
    }
    String::from_utf8(bytes).ok()
}

// ── a send and how far it came ─────────────────────────────────────────────────────────────────────────────

/// How far a send came; shared with whoever may have to cut it off.
#[derive(Clone, Debug, Default)]
pub struct Progress(Arc<AtomicU8>);

/// A step of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Connecting, greeting, encrypting, signing in.
    Connect,
    /// Saying whom it is from.
    Sender,
    /// Saying whom it is for.
    Recipient,
    /// Asking to hand it over.
    Data,
    /// Handing it over, and waiting for the yes.
    Handover,
}

impl Progress {
    fn reach(&self, step: Step) {
        self.0.store(step as u8, Ordering::SeqCst);
    }

    /// The step that was begun last.
    #[must_use]
    pub fn step(&self) -> Step {
        match self.0.load(Ordering::SeqCst) {
            0 => Step::Connect,
            1 => Step::Sender,
            2 => Step::Recipient,
            3 => Step::Data,
            _ => Step::Handover,
        }
    }

    /// What is known of a send that was cut off here without an answer.
    #[must_use]
    pub fn cut_off(&self, detail: &str) -> Verdict {
        match self.step() {
            Step::Connect => Verdict::ChannelDown {
                detail: format!("The mail server did not greet in time: {detail}"),
                certain: false,
            },
            Step::Sender | Step::Recipient | Step::Data => {
                Verdict::Transient(format!("The mail server stopped answering: {detail}"))
            }
            Step::Handover => Verdict::Unknown(format!("Handed over, and no answer came: {detail}")),
        }
    }
}

/// A mail as it goes over the wire.
#[derive(Clone, Debug)]
pub struct Parcel {
    /// The envelope's sender.
    pub from: Address,
    /// The envelope's recipient.
    pub to: Address,
    /// Headers and body.
    pub bytes: Vec<u8>,
}

/// An open connection that was left in a known state.
pub struct Connection {
    inner: AsyncSmtpConnection,
    sent: u32,
    idle_since: Instant,
}

impl fmt::Debug for Connection {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Connection").field("sent", &self.sent).finish_non_exhaustive()
    }
}

/// Servers limit how many mails they take on one connection.
const MAILS_PER_CONNECTION: u32 = 50;

/// After this long without a mail the server is let go.
pub const IDLE: Duration = Duration::from_secs(5);

/// How long saying good-bye may take.
const GOODBYE: Duration = Duration::from_secs(2);

impl Connection {
    /// Whether it has been idle for too long to be kept.
    #[must_use]
    pub fn is_stale(&self) -> bool {
        self.idle_since.elapsed() >= IDLE
    }

    /// Says good-bye, without insisting on an answer.
    pub async fn close(mut self) {
        let _ = tokio::time::timeout(GOODBYE, self.inner.quit()).await;
    }
}

/// Connects, greets and signs in, as before a mail: what shows whether the server works, without one. Must be given a
/// time limit.
///
/// # Errors
/// What a mail would have failed with.
pub async fn greet(server: &Server, hello: &ClientId) -> Result<Connection, Verdict> {
    connect(server, hello).await.map_err(|error| verdict(Step::Connect, &error))
}

async fn connect(server: &Server, hello: &ClientId) -> Result<Connection, Error> {
    let implicit = if server.protection == Protection::Tls { Some(server.tls()?) } else { None };
    let address = (server.host.as_str(), server.port);
    // The time limit is the caller's, round the whole send.
    let mut inner = AsyncSmtpConnection::connect_tokio1(address, None, hello, implicit, None).await?;
    if server.protection == Protection::StartTls {
        inner.starttls(server.tls()?, hello).await?;
    }
    if let Some(credentials) = &server.credentials {
        inner.auth(&[Mechanism::Plain, Mechanism::Login], credentials).await?;
    }
    Ok(Connection { inner, sent: 0, idle_since: Instant::now() })
}

/// Sends `parcel`, over `kept` if it still works. Gives back a connection only when it is fit for another mail.
/// Must be given a time limit: cutting it off leaves `progress` to tell how far it came.
pub async fn send(
    server: &Server,
    hello: &ClientId,
    kept: Option<Connection>,
    parcel: &Parcel,
    progress: &Progress,
) -> (Verdict, Option<Connection>) {
    progress.reach(Step::Connect);
    let was_kept = kept.is_some();
    let mut connection = match kept {
        Some(connection) => connection,
        None => match connect(server, hello).await {
            Ok(connection) => connection,
            Err(error) => return (verdict(Step::Connect, &error), None),
        },
    };
    progress.reach(Step::Sender);
    let mail = || Mail::new(Some(parcel.from.clone()), vec![]);
    let mut greeted = connection.inner.command(mail()).await;
    // Servers close what was idle, with 421 or without a word. Nothing was handed over: once more from the start.
    if was_kept && greeted.as_ref().is_err_and(has_no_answer_or_421) {
        progress.reach(Step::Connect);
        connection = match connect(server, hello).await {
            Ok(connection) => connection,
            Err(error) => return (verdict(Step::Connect, &error), None),
        };
        progress.reach(Step::Sender);
        greeted = connection.inner.command(mail()).await;
    }
    let handed_over = async {
        greeted.map_err(|error| (Step::Sender, error))?;
        progress.reach(Step::Recipient);
        let recipient = Rcpt::new(parcel.to.clone(), vec![]);
        connection.inner.command(recipient).await.map_err(|error| (Step::Recipient, error))?;
        progress.reach(Step::Data);
        connection.inner.command(Data).await.map_err(|error| (Step::Data, error))?;
        progress.reach(Step::Handover);
        connection.inner.message(&parcel.bytes).await.map_err(|error| (Step::Handover, error))
    }
    .await;
    match handed_over {
        Ok(_) => {
            connection.sent += 1;
            connection.idle_since = Instant::now();
            let fit = connection.sent < MAILS_PER_CONNECTION;
            (Verdict::Accepted, fit.then_some(connection))
        }
        // After a refusal the next mail starts afresh: refusals are rare, and states hard to be sure of.
        Err((step, error)) => (verdict(step, &error), None),
    }
}

fn has_no_answer_or_421(error: &Error) -> bool {
    error.status().is_none_or(|code| u16::from(code) == 421)
}

/// What an error at a step means for the message.
fn verdict(step: Step, error: &Error) -> Verdict {
    judge(step, error.status().map(u16::from), &said(error))
}

/// What the server said, in one line that can be shown.
fn said(error: &Error) -> String {
    if let Some(why) = tls::trouble(error) {
        return format!("The mail server cannot be spoken to safely: {why}.");
    }
    let text = match (error.status(), std::error::Error::source(error)) {
        (Some(code), Some(source)) => format!("{code} {source}"),
        _ => error.to_string(),
    };
    super::letter::one_line(&text).chars().take(300).collect()
}

/// The rule: who is at fault, this mail, its address, or the server as a whole?
fn judge(step: Step, code: Option<u16>, said: &str) -> Verdict {
    let channel = || Verdict::ChannelDown { detail: said.to_owned(), certain: true };
    // The second part of a code such as 5.1.1, where the server gives one: what the refusal is about.
    let about = said.split(|c: char| c.is_whitespace()).find_map(|word| {
        let mut parts = word.split('.');
        match (parts.next(), parts.next(), parts.next(), parts.next()) {
            (Some("4" | "5"), Some(about), Some(_), None) => about.parse::<u16>().ok(),
            _ => None,
        }
    });
    match (step, code) {
        // 421: closing for everybody. 53x: we are not signed in as we should be.
        // A sender refused: it does not take mail from us, whoever it is for.
        (_, Some(421 | 530 | 534 | 535 | 538)) | (Step::Connect, _) | (Step::Sender, Some(500..)) => {
            channel()
        }
        (Step::Handover, None) => Verdict::Unknown(said.to_owned()),
        // 5.7: a policy (relaying, reputation), not the address.
        (Step::Recipient, Some(500..)) => {
            Verdict::Permanent { detail: said.to_owned(), contact_refused: about != Some(7) }
        }
        // Some servers look for the mailbox only now: 5.1 and 5.2 are about the address.
        (_, Some(500..)) => {
            Verdict::Permanent { detail: said.to_owned(), contact_refused: matches!(about, Some(1 | 2)) }
        }
        (_, Some(_) | None) => Verdict::Transient(said.to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tls_is_required_unless_the_server_is_this_machine() {
        let parsed = |text| Server::parse(text).map(|server| (server.to_string(), server.protection()));
        for (url, address, protection) in [
            ("smtps://mail.example.org", "mail.example.org:465", Protection::Tls),
            ("smtp://mail.example.org", "mail.example.org:587", Protection::StartTls),
            ("smtp://10.0.0.7:25", "10.0.0.7:25", Protection::StartTls),
            ("smtp://localhost.example.org", "localhost.example.org:587", Protection::StartTls),
            ("smtp://localhost", "localhost:25", Protection::None),
            ("smtp://127.0.0.1:1025", "127.0.0.1:1025", Protection::None),
            ("smtp://[::1]:1025", "::1:1025", Protection::None),
            ("smtp://127.0.0.1:1025?tls=required", "127.0.0.1:1025", Protection::StartTls),
        ] {
            assert_eq!(parsed(url), Ok((address.to_owned(), protection)), "{url}");
        }
    }

    #[test]
    fn a_wrong_address_says_how_to_write_it_and_a_right_one_never_shows_its_password() {
        for wrong in ["", "mail.example.org", "http://mail.example.org", "smtp://"] {
            assert_eq!(Server::parse(wrong).expect_err(wrong), ServerError::Unreadable, "{wrong}");
        }
        assert!(matches!(
            Server::parse("smtp://h.example?tls=opportunistic"),
            Err(ServerError::Parameter(_))
        ));
        assert_eq!(Server::parse("smtp://user@h.example").expect_err("alone"), ServerError::Credentials);
        let server = Server::parse("smtps://user%40x:p%25ss@mail.example.org").expect("valid");
        assert_eq!(server.credentials, Some(Credentials::new("user@x".to_owned(), "p%ss".to_owned())));
        assert!(!format!("{server:?} {server}").contains("p%ss"));
    }

    #[test]
    fn a_refusal_is_the_servers_the_addresss_or_the_mails() {
        let channel = |step, code, said| matches!(judge(step, Some(code), said), Verdict::ChannelDown { .. });
        assert!(channel(Step::Connect, 554, "554 no"));
        assert!(channel(Step::Recipient, 421, "421 closing"));
        assert!(channel(Step::Sender, 550, "550 5.1.8 sender unknown"));
        assert!(channel(Step::Recipient, 530, "530 5.7.0 sign in first"));

        let refused = |step, said: &str| match judge(step, Some(550), said) {
            Verdict::Permanent { contact_refused, .. } => Some(contact_refused),
            _ => None,
        };
        assert_eq!(refused(Step::Recipient, "550 5.1.1 no such mailbox"), Some(true));
        assert_eq!(refused(Step::Recipient, "550 no such mailbox"), Some(true));
        assert_eq!(refused(Step::Recipient, "550 5.7.1 relaying denied"), Some(false));
        assert_eq!(refused(Step::Handover, "550 5.1.1 no such mailbox"), Some(true));
        assert_eq!(refused(Step::Handover, "554 5.6.0 spam at 1.2.3.4"), Some(false));

        for step in [Step::Sender, Step::Recipient, Step::Data, Step::Handover] {
            assert!(matches!(judge(step, Some(451), "451 later"), Verdict::Transient(_)), "{step:?}");
        }
        assert!(matches!(judge(Step::Data, None, "closed"), Verdict::Transient(_)));
        assert!(matches!(judge(Step::Handover, None, "closed"), Verdict::Unknown(_)));
    }
}
