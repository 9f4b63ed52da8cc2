//! A real little mail server: it records what it is given, and misbehaves on cue.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufStream};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// How long a test waits for a mail that must come.
const PATIENCE: Duration = Duration::from_secs(15);

/// How the server behaves; read anew at each step of a conversation.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Takes every mail.
    #[default]
    Willing,
    /// Accepts the connection and says nothing.
    HangAtBanner,
    /// Never answers EHLO.
    HangAtEhlo,
    /// Never answers DATA.
    HangAtData,
    /// 451 for every recipient: come again later.
    Greylist,
    /// 550 for every recipient: no such mailbox.
    RejectRecipient,
    /// 535 to whoever signs in.
    RefuseSignIn,
    /// 421 instead of the banner: the service is not available.
    Unavailable,
    /// Takes the mail, and cuts the connection after the final dot: was it taken?
    CutAfterDot,
    /// Cuts the connection after the final dot, and has not taken the mail.
    LoseAfterDot,
}

/// A mail as it was handed over.
#[derive(Clone, Debug)]
pub struct Mail {
    /// The envelope's sender.
    pub from: String,
    /// The envelope's recipients.
    pub to: Vec<String>,
    /// Headers and body, dot-stuffing undone.
    pub source: String,
}

impl Mail {
    /// A header's value, unfolded and decoded; empty when there is none.
    pub fn header(&self, name: &str) -> String {
        decode_words(&header(head_and_body(&self.source).0, name))
    }

    /// The plain part, decoded.
    pub fn text(&self) -> String {
        part(&self.source, "text/plain").unwrap_or_default()
    }

    /// The HTML part, decoded.
    pub fn html(&self) -> String {
        part(&self.source, "text/html").unwrap_or_default()
    }

    /// The first address in the text that begins with this.
    pub fn link(&self, start: &str) -> String {
        let text = self.text();
        let link = text.split_whitespace().find(|word| word.starts_with(start));
        link.unwrap_or_else(|| panic!("no link that starts with {start} in:\n{text}")).to_owned()
    }

    /// The first six digits in a row.
    pub fn code(&self) -> String {
        let text = self.text();
        let code = text
            .split(|c: char| !c.is_ascii_alphanumeric())
            .find(|word| word.len() == 6 && word.bytes().all(|b| b.is_ascii_digit()));
        code.unwrap_or_else(|| panic!("no code in:\n{text}")).to_owned()
    }
}

#[derive(Debug, Default)]
struct Received {
    mails: Vec<Mail>,
    /// How many of them the test has been given.
    given: usize,
    connections: u64,
    /// How many conversations have come to the step at which the server misbehaves.
    misbehaved: u64,
}

struct Shared {
    received: watch::Sender<Received>,
    manner: Mutex<Manner>,
}

/// The server; dropping it ends it and every conversation.
pub struct SmtpServer {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl SmtpServer {
    /// Starts one on a free port.
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared { received: watch::Sender::default(), manner: Mutex::default() });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How it behaves from the next step of every conversation on.
    pub fn behave(&self, manner: Manner) {
        *self.shared.manner.lock().expect("nobody panics while holding it") = manner;
    }

    /// The next mail that the test has not been given; waits for it.
    pub async fn next_mail(&self) -> Mail {
        let mut received = self.shared.received.subscribe();
        let came = tokio::time::timeout(PATIENCE, received.wait_for(|all| all.mails.len() > all.given)).await;
        drop(came.unwrap_or_else(|_| panic!("no mail came within {PATIENCE:?}")).expect("the server lives"));
        let mut mail = None;
        self.shared.received.send_modify(|all| {
            mail = all.mails.get(all.given).cloned();
            all.given += 1;
        });
        mail.expect("there is one")
    }

    /// The next mail to this address, passing over what goes to others.
    pub async fn next_mail_to(&self, address: &str) -> Mail {
        loop {
            let mail = self.next_mail().await;
            if mail.to.iter().any(|to| to == address) {
                return mail;
            }
        }
    }

    /// The first of all mails, past and to come, to this address that says so; waits for it.
    pub async fn mail_that_says(&self, address: &str, words: &str) -> Mail {
        let is_it = |mail: &&Mail| mail.to.iter().any(|to| to == address) && mail.text().contains(words);
        let mut received = self.shared.received.subscribe();
        let came = received.wait_for(|all| all.mails.iter().any(|mail| is_it(&mail)));
        let came = tokio::time::timeout(PATIENCE, came).await;
        let all = came.unwrap_or_else(|_| panic!("no mail to {address} said {words:?} within {PATIENCE:?}"));
        let all = all.expect("the server lives");
        all.mails.iter().find(is_it).expect("there is one").clone()
    }

    /// Every mail so far.
    pub fn mails(&self) -> Vec<Mail> {
        self.shared.received.borrow().mails.clone()
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.received.borrow().connections
    }

    /// Waits until `n` conversations in all have come to the step at which the server misbehaves.
    pub async fn misbehaved(&self, n: u64) {
        let mut received = self.shared.received.subscribe();
        let came = tokio::time::timeout(PATIENCE, received.wait_for(|all| all.misbehaved >= n)).await;
        drop(
            came.unwrap_or_else(|_| panic!("nobody came to that step within {PATIENCE:?}"))
                .expect("the server lives"),
        );
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut conversations = JoinSet::new();
    loop {
        let Ok((stream, _)) = listener.accept().await else { return };
        shared.received.send_modify(|all| all.connections += 1);
        let shared = Arc::clone(&shared);
        conversations.spawn(async move { drop(converse(BufStream::new(stream), &shared).await) });
        while conversations.try_join_next().is_some() {}
    }
}

impl Shared {
    /// Whether the server is to misbehave in this way now; notes that it did.
    fn is(&self, manner: Manner) -> bool {
        let is = *self.manner.lock().expect("nobody panics while holding it") == manner;
        if is {
            self.received.send_modify(|all| all.misbehaved += 1);
        }
        is
    }
}

async fn converse(mut stream: BufStream<TcpStream>, shared: &Shared) -> std::io::Result<()> {
    if shared.is(Manner::HangAtBanner) {
        std::future::pending::<()>().await;
    }
    if shared.is(Manner::Unavailable) {
        return say(&mut stream, "421 not available").await;
    }
    say(&mut stream, "220 mail.test ESMTP").await?;
    let mut mail = Mail { from: String::new(), to: Vec::new(), source: String::new() };
    loop {
        let Some(line) = read_line(&mut stream).await? else { return Ok(()) };
        let verb: String = line.chars().take(4).collect::<String>().to_ascii_uppercase();
        match verb.as_str() {
            "EHLO" | "HELO" => {
                if shared.is(Manner::HangAtEhlo) {
                    std::future::pending::<()>().await;
                }
                say(&mut stream, "250-mail.test\r\n250-8BITMIME\r\n250-SMTPUTF8\r\n250 AUTH PLAIN LOGIN")
                    .await?;
            }
            "AUTH" => {
                let answer = if shared.is(Manner::RefuseSignIn) {
                    "535 wrong name or password"
                } else {
                    "235 signed in"
                };
                say(&mut stream, answer).await?;
            }
            "MAIL" => {
                mail = Mail { from: address(&line), to: Vec::new(), source: String::new() };
                say(&mut stream, "250 ok").await?;
            }
            "RCPT" => {
                let answer = if shared.is(Manner::Greylist) {
                    "451 4.7.1 come again later"
                } else if shared.is(Manner::RejectRecipient) {
                    "550 5.1.1 no such mailbox"
                } else {
                    mail.to.push(address(&line));
                    "250 ok"
                };
                say(&mut stream, answer).await?;
            }
            "DATA" => {
                if shared.is(Manner::HangAtData) {
                    std::future::pending::<()>().await;
                }
                say(&mut stream, "354 end with a dot").await?;
                mail.source = read_data(&mut stream).await?;
                if shared.is(Manner::LoseAfterDot) {
                    return Ok(());
                }
                shared.received.send_modify(|all| all.mails.push(mail.clone()));
                if shared.is(Manner::CutAfterDot) {
                    return Ok(());
                }
                say(&mut stream, "250 taken").await?;
            }
            "QUIT" => return say(&mut stream, "221 bye").await,
            _ => say(&mut stream, "250 ok").await?,
        }
    }
}

async fn say(stream: &mut BufStream<TcpStream>, line: &str) -> std::io::Result<()> {
    stream.write_all(format!("{line}\r\n").as_bytes()).await?;
    stream.flush().await
}

async fn read_line(stream: &mut BufStream<TcpStream>) -> std::io::Result<Option<String>> {
    let mut line = String::new();
    let n = stream.read_line(&mut line).await?;
    Ok((n > 0).then(|| line.trim_end_matches(['\r', '\n']).to_owned()))
}

async fn read_data(stream: &mut BufStream<TcpStream>) -> std::io::Result<String> {
    let mut source = String::new();
    loop {
        match read_line(stream).await? {
            None => return Err(std::io::ErrorKind::UnexpectedEof.into()),
            Some(line) if line == "." => return Ok(source),
            Some(line) => {
                source.push_str(line.strip_prefix('.').unwrap_or(&line));
                source.push('\n');
            }
        }
    }
}

/// What stands between the angle brackets.
fn address(line: &str) -> String {
    line.split_once('<')
        .and_then(|(_, rest)| rest.split_once('>'))
        .map(|(inner, _)| inner.to_owned())
        .unwrap_or_default()
}

fn head_and_body(source: &str) -> (&str, &str) {
    source.split_once("\n\n").unwrap_or((source, ""))
}

fn header(head: &str, name: &str) -> String {
    let unfolded = head.replace("\n ", " ").replace("\n\t", " ");
    let line = unfolded.lines().find_map(|line| {
        let (key, value) = line.split_once(':')?;
        key.eq_ignore_ascii_case(name).then(|| value.trim().to_owned())
    });
    line.unwrap_or_default()
}

/// The first part of this type, however deep, decoded.
fn part(source: &str, kind: &str) -> Option<String> {
    let (head, body) = head_and_body(source);
    let content = header(head, "content-type");
    if content.starts_with("multipart/") {
        let boundary = content.split_once("boundary=")?.1.trim_matches('"').split(['"', ';']).next()?;
        let delimiter = format!("--{boundary}");
        let mut parts = body.split(&delimiter);
        return parts.find_map(|inner| part(inner.trim_start_matches('\n'), kind));
    }
    if !content.starts_with(kind) {
        return None;
    }
    let bytes = match header(head, "content-transfer-encoding").to_ascii_lowercase().as_str() {
        "base64" => STANDARD.decode(body.split_whitespace().collect::<String>()).ok()?,
        "quoted-printable" => quoted_printable(&body.replace("=\n", "")),
        _ => body.as_bytes().to_vec(),
    };
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

fn quoted_printable(text: &str) -> Vec<u8> {
    let mut rest = text.as_bytes();
    let mut bytes = Vec::new();
    while let Some((first, tail)) = rest.split_first() {
        let digits = (*first == b'=').then(|| tail.get(..2)).flatten();
        let byte = digits.and_then(|hex| u8::from_str_radix(std::str::from_utf8(hex).ok()?, 16).ok());
        if let Some(byte) = byte {
            bytes.push(byte);
            rest = &tail[2..];
        } else {
            bytes.push(*first);
            rest = tail;
        }
    }
    bytes
}

/// Undoes `=?utf-8?b?…?=` and `=?utf-8?q?…?=`.
fn decode_words(value: &str) -> String {
    let mut decoded = String::new();
    let mut encoded_before = false;
    for word in value.split(' ') {
        let inner = word.strip_prefix("=?").and_then(|word| word.strip_suffix("?="));
        let bytes = inner.and_then(|inner| {
            let mut fields = inner.splitn(3, '?').skip(1);
            match (fields.next()?.to_ascii_lowercase().as_str(), fields.next()?) {
                ("b", text) => STANDARD.decode(text).ok(),
                ("q", text) => Some(quoted_printable(&text.replace('_', " "))),
                _ => None,
            }
        });
        // The space between two encoded words is not part of the text.
        let joined = encoded_before && bytes.is_some();
        if !decoded.is_empty() && !joined {
            decoded.push(' ');
        }
        encoded_before = bytes.is_some();
        match bytes {
            Some(bytes) => decoded.push_str(&String::from_utf8_lossy(&bytes)),
            None => decoded.push_str(word),
        }
    }
    decoded
}
