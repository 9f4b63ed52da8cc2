//! The real binary, started by a test: what it says, how it ends, and what it leaves behind.

use std::fs;
use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};
use std::process::{ExitStatus, Stdio};
use std::time::Duration;

use nix::sys::signal::{Signal, kill};
use nix::unistd::{Pid, User, geteuid};
use tempfile::TempDir;
use tokio::io::{AsyncBufReadExt as _, AsyncReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::TcpStream;
use tokio::process::{Child, ChildStderr, Command};
use tokio::sync::OnceCell;
use tokio::time::timeout;

use crate::harness::patience::until;

/// How long anything may take on a machine that is busy with other tests.
const PATIENCE: Duration = Duration::from_mins(2);

/// The binary, deaf to the settings of whoever runs the tests.
pub fn fairlist(arguments: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_fairlist"));
    command.args(arguments).stdin(Stdio::null()).kill_on_drop(true);
    for (name, _) in std::env::vars_os() {
        let name = name.to_string_lossy();
        if name.starts_with("FAIRLIST_")
            || name.starts_with("PG")
            || name.starts_with("OTEL_")
            || name == "DATABASE_URL"
        {
            command.env_remove(&*name);
        }
    }
    command
}

/// What a command that ran to its end said.
#[derive(Debug)]
pub struct Said {
    pub status: ExitStatus,
    pub out: String,
    pub err: String,
}

impl Said {
    #[track_caller]
    pub fn succeeded(self) -> String {
        assert!(self.status.success(), "{self:#?}");
        self.out
    }

    /// The command failed with that exit code, and its complaint holds all of that.
    #[track_caller]
    pub fn failed(&self, code: i32, parts: &[&str]) {
        assert_eq!(self.status.code(), Some(code), "{self:#?}");
        for part in parts {
            assert!(self.err.contains(part), "{part:?} is missing in {self:#?}");
        }
    }
}

/// Runs a command to its end.
pub async fn run(mut command: Command) -> Said {
    let output = timeout(PATIENCE, command.output()).await.expect("it ends in time").expect("it starts");
    Said {
        status: output.status,
        out: String::from_utf8_lossy(&output.stdout).into_owned(),
        err: String::from_utf8_lossy(&output.stderr).into_owned(),
    }
}

/// A program that runs until it is told to stop.
pub struct Running {
    child: Child,
    lines: Lines<BufReader<ChildStderr>>,
    said: Vec<String>,
}

impl Running {
    pub fn start(mut command: Command) -> Self {
        let mut child = command.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
        let lines = BufReader::new(child.stderr.take().expect("its standard error")).lines();
        Self { child, lines, said: Vec::new() }
    }

    /// A server on a port of its own choice; waits until it serves.
    pub async fn serve(data: &Data) -> Self {
        let mut program = Self::start(data.command(&["serve", "--listen", "127.0.0.1:0"]));
        program.says("Fairlist is at").await;
        program
    }

    /// Waits for a line with that in it.
    pub async fn says(&mut self, part: &str) -> String {
        loop {
            match timeout(PATIENCE, self.lines.next_line()).await {
                Ok(Ok(Some(line))) => {
                    self.said.push(line.clone());
                    if line.contains(part) {
                        return line;
                    }
                }
                other => panic!("it never said {part:?} ({other:?}), but: {:#?}", self.said),
            }
        }
    }

    /// Where it serves, by its own word.
    pub fn url(&self) -> String {
        let line = self.said.iter().find(|line| line.contains("Fairlist is at")).expect("it serves");
        let line: serde_json::Value = serde_json::from_str(line).expect("a line of JSON");
        line["url"].as_str().expect("its address").to_owned()
    }

    fn port(&self) -> u16 {
        let url: url::Url = self.url().parse().expect("a URL");
        url.port().expect("a port")
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(("127.0.0.1", self.port())).await.expect("it listens")
    }

    pub async fn answers(&self) -> bool {
        let port = self.port();
        let asked = async {
            let mut connection = TcpStream::connect(("127.0.0.1", port)).await?;
            let request =
                format!("GET /readyz HTTP/1.1\r\nHost: localhost:{port}\r\nConnection: close\r\n\r\n");
            connection.write_all(request.as_bytes()).await?;
            let mut answer = String::new();
            connection.read_to_string(&mut answer).await?;
            Ok::<_, std::io::Error>(answer)
        };
        asked.await.is_ok_and(|answer| answer.starts_with("HTTP/1.1 200"))
    }

    pub fn pid(&self) -> Pid {
        let pid = self.child.id().expect("it runs");
        Pid::from_raw(i32::try_from(pid).expect("a process number"))
    }

    pub fn signal(&self, signal: Signal) {
        kill(self.pid(), signal).expect("it runs");
    }

    /// Waits for its end.
    pub async fn ended(mut self) -> ExitStatus {
        self.rest().await;
        match timeout(PATIENCE, self.child.wait()).await {
            Ok(status) => status.expect("its status"),
            Err(late) => panic!("it does not end ({late}); it said {:#?}", self.said),
        }
    }

    /// Tells it to stop, and sees it end well.
    pub async fn stop(self) {
        self.signal(Signal::SIGTERM);
        let status = self.ended().await;
        assert_eq!(status.code(), Some(0));
    }

    /// Every line that it says until it ends. While nobody listens, whoever says much is stuck.
    pub async fn everything(mut self) -> Vec<String> {
        self.rest().await;
        self.said
    }

    /// Hears it out.
    async fn rest(&mut self) {
        while let Ok(Ok(Some(line))) = timeout(PATIENCE, self.lines.next_line()).await {
            self.said.push(line);
        }
    }

    pub async fn kill(self) {
        self.signal(Signal::SIGKILL);
        self.ended().await;
    }
}

/// Asks for an address as a browser does that comes from there, and gives the answer as it was sent.
pub async fn get(program: &url::Url, address: &str) -> String {
    let port = program.port().expect("a port");
    let mut connection = TcpStream::connect(("127.0.0.1", port)).await.expect("it listens");
    let request = format!(
        "GET {address} HTTP/1.1\r\nHost: localhost\r\nReferer: http://localhost{address}\r\nConnection: close\r\n\r\n"
    );
    connection.write_all(request.as_bytes()).await.expect("asked");
    let mut answer = String::new();
    connection.read_to_string(&mut answer).await.expect("answered");
    answer
}

/// A data directory of a test's own. Whatever still runs in it at the end is ended.
pub struct Data {
    temporary: TempDir,
    path: PathBuf,
}

impl Data {
    /// Not there yet.
    pub fn missing() -> Self {
        Self::below("data")
    }

    /// Not there yet, and with that path below a directory which every user may pass.
    pub fn below(path: &str) -> Self {
        let temporary = tempfile::Builder::new()
            .prefix("fairlist-test-")
            .permissions(fs::Permissions::from_mode(0o755))
            .tempdir()
            .expect("a temporary directory");
        let path = temporary.path().join(path);
        Self { temporary, path }
    }

    /// With a database that was stopped cleanly, without any schema.
    pub async fn ready() -> Self {
        Self::ready_below("data").await
    }

    pub async fn ready_below(path: &str) -> Self {
        // initdb takes seconds; copying what it made does not.
        static MADE: OnceCell<Data> = OnceCell::const_new();
        let made = MADE
            .get_or_init(async || {
                let made = Self::missing();
                run(made.command(&["psql", "--", "-c", "SELECT 1"])).await.succeeded();
                made
            })
            .await;
        let data = Self::below(path);
        let parent = data.path.parent().expect("a parent");
        fs::create_dir_all(parent).expect("directories");
        let mut copy = Command::new("cp");
        copy.arg("-a").arg(&made.path).arg(&data.path);
        run(copy).await.succeeded();
        data
    }

    /// Made already, empty, with that mode.
    pub fn empty(mode: u32) -> Self {
        let data = Self::missing();
        fs::DirBuilder::new().mode(mode).create(&data.path).expect("a directory");
        data
    }

    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory that is its parent's parent, and so on: all the way is in here.
    pub fn root(&self) -> &Path {
        self.temporary.path()
    }

    pub fn cluster(&self) -> PathBuf {
        self.path.join("postgres")
    }

    pub fn command(&self, arguments: &[&str]) -> Command {
        let mut command = fairlist(arguments);
        command.env("FAIRLIST_DATA", &self.path);
        command
    }

    /// Asks the database by `fairlist psql`.
    pub async fn sql(&self, sql: &str) -> String {
        let said =
            run(self.command(&["psql", "--", "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-c", sql]))
                .await;
        said.succeeded().trim().to_owned()
    }

    /// The server that works in the cluster, if one does.
    pub fn postmaster(&self) -> Option<Pid> {
        let text = fs::read_to_string(self.cluster().join("postmaster.pid")).ok()?;
        let pid = text.lines().next()?.parse().ok()?;
        works_in(pid, &self.cluster()).then(|| Pid::from_raw(pid))
    }

    /// The directory of the running server's socket.
    pub fn socket_directory(&self) -> PathBuf {
        let text = fs::read_to_string(self.cluster().join("postmaster.pid")).expect("it runs");
        PathBuf::from(text.lines().nth(4).expect("its socket"))
    }

    pub fn log(&self) -> String {
        fs::read_to_string(self.path.join("postgres.log")).unwrap_or_default()
    }

    /// Whether any process still works in the cluster.
    pub fn is_quiet(&self) -> bool {
        processes().all(|pid| !works_in(pid, &self.cluster()))
    }
}

impl Drop for Data {
    fn drop(&mut self) {
        if let Some(server) = self.postmaster() {
            // SIGQUIT: at once, without leaving anybody behind.
            let _ = kill(server, Signal::SIGQUIT);
            while works_in(server.as_raw(), &self.cluster()) {
                std::thread::yield_now();
            }
        }
    }
}

fn works_in(pid: i32, directory: &Path) -> bool {
    fs::read_link(format!("/proc/{pid}/cwd")).is_ok_and(|cwd| cwd == directory)
}

fn processes() -> impl Iterator<Item = i32> {
    fs::read_dir("/proc")
        .expect("/proc")
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
}

/// Waits until `pid` is gone; it is no child of ours.
pub async fn gone(pid: Pid) {
    until("it ends", PATIENCE, async || kill(pid, None).is_err()).await;
}

/// The owner of a process.
pub fn owner(pid: Pid) -> String {
    use std::os::unix::fs::MetadataExt as _;
    let uid = fs::metadata(format!("/proc/{pid}")).expect("it runs").uid();
    User::from_uid(uid.into()).expect("users").expect("a user").name
}

/// Some tests need root, who can be others; the rest of them is for everybody.
pub fn are_we_root() -> bool {
    geteuid().is_root()
}
