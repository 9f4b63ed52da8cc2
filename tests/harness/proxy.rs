//! A TCP proxy that is slow, cuts, swallows and holds on cue: in front of Postgres, a mail server, anything.
//!
//! For Postgres it understands as much of the protocol as it takes to name every statement that passes, so that
//! a test can stop the world before or after exactly the n-th.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

use super::database::TestDatabase;

/// Which way bytes go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// From the program to the server.
    Up,
    /// From the server to the program.
    Down,
}

/// Where, relative to a statement, the world is stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Point {
    /// The server has not seen it.
    Before,
    /// The server has answered; the program has not seen the answer.
    After,
}

/// A statement that is being held.
#[derive(Clone, Debug)]
pub struct Held {
    /// Its text.
    pub statement: String,
    /// The backend that would run, or has run, it.
    pub backend: i32,
}

#[derive(Clone, Debug)]
enum Which {
    /// Counted from one.
    Nth(usize),
    /// The first that begins with this.
    Text(String),
}

#[derive(Clone, Copy, Debug, Default)]
struct Rules {
    latency: Duration,
    /// Nothing passes at all until released.
    frozen: bool,
    /// What goes this way vanishes.
    swallow: [bool; 2],
    /// Bytes that may still pass before every connection is cut.
    budget: [Option<u64>; 2],
    /// Notifications do not come through.
    deaf: bool,
    /// New connections are cut at once.
    refuse: bool,
    /// Changes when every connection is to be cut.
    cuts: u64,
    /// Changes when a held statement may go on.
    releases: u64,
}

#[derive(Debug, Default)]
struct Seen {
    connections: u64,
    bytes: [u64; 2],
    /// That came through, and that were swallowed.
    notifications: [u64; 2],
    statements: Vec<String>,
    /// The statement to hold, and where.
    hold: Option<(Which, Point)>,
}

struct Shared {
    upstream: SocketAddr,
    postgres: bool,
    rules: watch::Sender<Rules>,
    seen: Mutex<Seen>,
    held: watch::Sender<Option<Held>>,
}

impl Shared {
    fn seen(&self) -> MutexGuard<'_, Seen> {
        self.seen.lock().expect("nobody panics while holding it")
    }
}

/// The proxy; dropping it cuts everything.
pub struct TcpProxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl TcpProxy {
    /// Passes bytes to and from `upstream`.
    pub async fn to(upstream: SocketAddr) -> Self {
        Self::start(upstream, false).await
    }

    /// The same in front of a Postgres that is spoken to without TLS; statements are counted.
    pub async fn to_postgres(upstream: SocketAddr) -> Self {
        Self::start(upstream, true).await
    }

    /// One before the test's database, and how to connect through it.
    pub async fn before(database: &TestDatabase) -> (Self, PgConnectOptions) {
        let options = database.options();
        let upstream = format!("{}:{}", options.get_host(), options.get_port());
        let proxy = Self::to_postgres(upstream.parse().expect("an address")).await;
        let options = options.host("127.0.0.1").port(proxy.address.port());
        (proxy, options)
    }

    async fn start(upstream: SocketAddr, postgres: bool) -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            upstream,
            postgres,
            rules: watch::Sender::default(),
            seen: Mutex::default(),
            held: watch::Sender::default(),
        });
        let mut tasks = JoinSet::new();
        tasks.spawn(accept(listener, Arc::clone(&shared)));
        Self { address, shared, _tasks: tasks }
    }

    /// Where it listens.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    fn rule(&self, change: impl FnOnce(&mut Rules)) {
        self.shared.rules.send_modify(change);
    }

    /// Every chunk, each way, arrives this much later.
    pub fn set_latency(&self, latency: Duration) {
        self.rule(|rules| rules.latency = latency);
    }

    /// From now on nothing passes, and nothing is lost, until [`Self::thaw`].
    pub fn freeze(&self) {
        self.rule(|rules| rules.frozen = true);
    }

    /// Ends a freeze.
    pub fn thaw(&self) {
        self.rule(|rules| rules.frozen = false);
    }

    /// What goes this way vanishes from now on; the connections stay.
    pub fn swallow(&self, way: Way, swallow: bool) {
        self.rule(|rules| rules.swallow[way as usize] = swallow);
    }

    /// Cuts every connection when this many more bytes have gone this way.
    pub fn cut_after(&self, way: Way, bytes: u64) {
        self.rule(|rules| rules.budget[way as usize] = Some(bytes));
    }

    /// Cuts every connection now.
    pub fn cut(&self) {
        self.rule(|rules| rules.cuts += 1);
    }

    /// Whether new connections are cut at once.
    pub fn refuse(&self, refuse: bool) {
        self.rule(|rules| rules.refuse = refuse);
    }

    /// Whether notifications are swallowed; all else passes.
    pub fn deafen(&self, deaf: bool) {
        self.rule(|rules| rules.deaf = deaf);
    }

    /// Notifications that were swallowed so far.
    pub fn swallowed_notifications(&self) -> u64 {
        self.shared.seen().notifications[1]
    }

    /// Connections so far.
    pub fn connections(&self) -> u64 {
        self.shared.seen().connections
    }

    /// Bytes so far.
    pub fn bytes(&self, way: Way) -> u64 {
        self.shared.seen().bytes[way as usize]
    }

    /// The statements that were sent since the last [`Self::forget`], in order, prepared ones by their text.
    pub fn statements(&self) -> Vec<String> {
        self.shared.seen().statements.clone()
    }

    /// Begins to count statements from none; nothing is held.
    pub fn forget(&self) {
        let mut seen = self.shared.seen();
        seen.statements.clear();
        seen.hold = None;
        drop(seen);
        self.shared.held.send_replace(None);
    }

    /// Begins to count from none, and holds the `n`-th statement, counted from one, before or after it is run.
    pub fn hold_at(&self, n: usize, point: Point) {
        self.forget();
        self.shared.seen().hold = Some((Which::Nth(n), point));
    }

    /// Begins to count from none, and holds the first statement that begins so, before or after it is run.
    pub fn hold_when(&self, start: &str, point: Point) {
        self.forget();
        self.shared.seen().hold = Some((Which::Text(start.to_owned()), point));
    }

    /// Waits until the statement asked for is held.
    pub async fn held(&self) -> Held {
        let mut held = self.shared.held.subscribe();
        held.wait_for(Option::is_some).await.expect("the proxy lives").clone().expect("some")
    }

    /// Lets the held statement, or its answer, go on.
    pub fn release(&self) {
        self.shared.seen().hold = None;
        self.rule(|rules| rules.releases += 1);
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    let mut connections = JoinSet::new();
    loop {
        let Ok((down, _)) = listener.accept().await else { return };
        shared.seen().connections += 1;
        if shared.rules.borrow().refuse {
            continue;
        }
        connections.spawn(connection(down, Arc::clone(&shared)));
        while connections.try_join_next().is_some() {}
    }
}

/// One connection, until either side ends it or the test cuts it.
async fn connection(down: TcpStream, shared: Arc<Shared>) {
    let Ok(up) = TcpStream::connect(shared.upstream).await else { return };
    // Small messages each way: without this, every one waits for the other side's acknowledgement.
    let _ = (down.set_nodelay(true), up.set_nodelay(true));
    let (from_program, to_program) = down.into_split();
    let (from_server, to_server) = up.into_split();
    let mut rules = shared.rules.subscribe();
    let cuts = rules.borrow().cuts;
    let answer = watch::Sender::new(Answer { withhold: None, backend: 0 });
    let upward = pump_up(from_program, to_server, &shared, &answer);
    let downward = pump_down(from_server, to_program, &shared, &answer);
    tokio::select! {
        _ = upward => {}
        _ = downward => {}
        _ = rules.wait_for(|rules| rules.cuts != cuts) => {}
    }
}

/// What the two directions of one connection tell each other.
struct Answer {
    /// The statement whose answer is not to be passed on yet.
    withhold: Option<String>,
    backend: i32,
}

async fn pump_up(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    answer: &watch::Sender<Answer>,
) -> Option<()> {
    let mut frames = Frames::default();
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let n = from.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        if !shared.postgres {
            pass(&buffer[..n], &mut to, Way::Up, shared).await?;
            continue;
        }
        for group in frames.feed(&buffer[..n]) {
            if let Some(statement) = &group.statement {
                hold(statement, shared, answer).await?;
            }
            pass(&group.bytes, &mut to, Way::Up, shared).await?;
        }
    }
}

/// Counts a statement, and stops here when it is the one.
async fn hold(statement: &str, shared: &Shared, answer: &watch::Sender<Answer>) -> Option<()> {
    let point = {
        let mut seen = shared.seen();
        seen.statements.push(statement.to_owned());
        let is_it = |which: &Which| match which {
            Which::Nth(n) => *n == seen.statements.len(),
            Which::Text(start) => statement.starts_with(start),
        };
        let point = seen.hold.as_ref().filter(|(which, _)| is_it(which)).map(|(_, point)| *point);
        if point.is_some() {
            seen.hold = None;
        }
        point
    };
    match point {
        Some(Point::Before) => {
            let backend = answer.borrow().backend;
            stop(Held { statement: statement.to_owned(), backend }, shared).await
        }
        Some(Point::After) => {
            answer.send_modify(|answer| answer.withhold = Some(statement.to_owned()));
            Some(())
        }
        None => Some(()),
    }
}

/// Says what is held, and waits until it is released.
async fn stop(held: Held, shared: &Shared) -> Option<()> {
    let mut rules = shared.rules.subscribe();
    let releases = rules.borrow_and_update().releases;
    shared.held.send_replace(Some(held));
    rules.wait_for(|rules| rules.releases != releases).await.ok()?;
    Some(())
}

async fn pump_down(
    mut from: OwnedReadHalf,
    mut to: OwnedWriteHalf,
    shared: &Shared,
    answer: &watch::Sender<Answer>,
) -> Option<()> {
    let mut buffer = vec![0; 16 * 1024];
    let mut greeting = shared.postgres.then(Vec::new);
    let mut partial = Vec::new();
    loop {
        let n = from.read(&mut buffer).await.ok().filter(|n| *n > 0)?;
        if let Some(bytes) = &mut greeting {
            bytes.extend_from_slice(&buffer[..n]);
            if let Some(backend) = backend_of(bytes) {
                answer.send_modify(|answer| answer.backend = backend);
                greeting = None;
            }
        }
        let mut withheld = None;
        answer.send_if_modified(|answer| {
            withheld = answer.withhold.take();
            false
        });
        if let Some(statement) = withheld {
            let backend = answer.borrow().backend;
            stop(Held { statement, backend }, shared).await?;
        }
        if shared.postgres {
            let heard = without_notifications(&mut partial, &buffer[..n], shared);
            pass(&heard, &mut to, Way::Down, shared).await?;
        } else {
            pass(&buffer[..n], &mut to, Way::Down, shared).await?;
        }
    }
}

/// The whole messages among what came, less notifications when nobody is to hear them; the rest is kept.
fn without_notifications(partial: &mut Vec<u8>, bytes: &[u8], shared: &Shared) -> Vec<u8> {
    let deaf = shared.rules.borrow().deaf;
    partial.extend_from_slice(bytes);
    let mut passed = Vec::with_capacity(partial.len());
    let mut rest = partial.as_slice();
    loop {
        // The answer to a request for TLS has no length.
        let length = if rest.first() == Some(&b'N') && rest.len() == 1 {
            1
        } else if let Some(length) = rest.get(1..5) {
            u32::from_be_bytes(length.try_into().expect("four bytes")) as usize + 1
        } else {
            break;
        };
        let Some(message) = rest.get(..length) else { break };
        let notification = message[0] == b'A';
        if notification {
            shared.seen().notifications[usize::from(deaf)] += 1;
        }
        let heard = !notification || !deaf;
        if heard {
            passed.extend_from_slice(message);
        }
        rest = &rest[length..];
    }
    *partial = rest.to_vec();
    passed
}

/// Passes bytes on by the rules; `None` when the connection is to end.
async fn pass(bytes: &[u8], to: &mut OwnedWriteHalf, way: Way, shared: &Shared) -> Option<()> {
    let mut rules = shared.rules.subscribe();
    let latency = rules.borrow().latency;
    if !latency.is_zero() {
        tokio::time::sleep(latency).await;
    }
    let now = *rules.wait_for(|rules| !rules.frozen).await.ok()?;
    if now.swallow[way as usize] {
        return Some(());
    }
    let mut allowed = bytes.len();
    let mut last = false;
    if now.budget[way as usize].is_some() {
        shared.rules.send_modify(|rules| {
            let left = rules.budget[way as usize].unwrap_or_default();
            last = left <= bytes.len() as u64;
            allowed = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
            rules.budget[way as usize] = (!last).then(|| left - bytes.len() as u64);
        });
    }
    to.write_all(&bytes[..allowed]).await.ok()?;
    shared.seen().bytes[way as usize] += allowed as u64;
    if last {
        shared.rules.send_modify(|rules| rules.cuts += 1);
        return None;
    }
    Some(())
}

/// What the program sends, cut into groups that the server answers as a whole.
#[derive(Default)]
struct Frames {
    buffer: Vec<u8>,
    started: bool,
    pending: Group,
    /// The texts of prepared statements, by name.
    prepared: HashMap<String, String>,
}

/// Messages up to a Sync, or one simple query.
#[derive(Default)]
struct Group {
    bytes: Vec<u8>,
    statement: Option<String>,
}

impl Frames {
    fn feed(&mut self, bytes: &[u8]) -> Vec<Group> {
        self.buffer.extend_from_slice(bytes);
        let mut groups = Vec::new();
        while let Some(frame) = self.next_frame() {
            let complete = if self.started {
                self.read(&frame)
            } else {
                // Protocol 3: after this one, messages have a type. A request for TLS is refused and asked again.
                self.started = frame.get(4..8) == Some(&[0, 3, 0, 0]);
                true
            };
            self.pending.bytes.extend_from_slice(&frame);
            if complete {
                groups.push(std::mem::take(&mut self.pending));
            }
        }
        groups
    }

    fn next_frame(&mut self) -> Option<Vec<u8>> {
        let prefix = usize::from(self.started);
        let length = self.buffer.get(prefix..prefix + 4)?;
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize + prefix;
        (self.buffer.len() >= length).then(|| self.buffer.drain(..length).collect())
    }

    /// Notes what a message says; whether the server answers now.
    fn read(&mut self, frame: &[u8]) -> bool {
        let mut strings =
            frame[5..].split(|byte| *byte == 0).map(|text| String::from_utf8_lossy(text).into_owned());
        match frame[0] {
            // Parse: name, text. Describing it is a round trip of its own.
            b'P' => {
                let name = strings.next().unwrap_or_default();
                let text = strings.next().unwrap_or_default();
                self.pending.statement = Some(format!("prepare {}", one_line(&text)));
                self.prepared.insert(name, one_line(&text));
                false
            }
            // Bind: portal, name.
            b'B' => {
                let name = strings.nth(1).unwrap_or_default();
                self.pending.statement = self.prepared.get(&name).cloned();
                false
            }
            b'Q' => {
                self.pending.statement = strings.next().map(|text| one_line(&text));
                true
            }
            // Sync, flush, passwords, terminate: what came so far goes on.
            b'S' | b'H' | b'p' | b'X' => true,
            _ => false,
        }
    }
}

fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}

/// The process id in the server's greeting (`BackendKeyData`), when it is complete.
fn backend_of(mut bytes: &[u8]) -> Option<i32> {
    // The answer to a request for TLS.
    if bytes.first() == Some(&b'N') {
        bytes = &bytes[1..];
    }
    while let Some(length) = bytes.get(1..5) {
        let length = u32::from_be_bytes(length.try_into().expect("four bytes")) as usize + 1;
        if bytes[0] == b'K' {
            return Some(i32::from_be_bytes(bytes.get(5..9)?.try_into().expect("four bytes")));
        }
        bytes = bytes.get(length..)?;
    }
    None
}
