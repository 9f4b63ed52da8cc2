//! The cluster: where its files are, how it is made, started and stopped.

use std::fs::{self, DirBuilder, File, OpenOptions, Permissions};
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Mutex;
use std::sync::atomic::{AtomicI32, Ordering};
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use nix::unistd::Pid;
use sqlx::postgres::{PgConnectOptions, PgSslMode};
use sqlx::{ConnectOptions, Connection, PgConnection};
use tracing::{debug, info, warn};

use super::account::Account;
use super::binaries::{self, Binaries};
use super::postmaster::{PidFile, Postmaster, Status};
use super::{Error, Settings, directories};

/// The program's role: owns the database, may make others (benchmarks do), is no superuser.
pub(super) const ROLE: &str = "fairlist";
pub(super) const DATABASE: &str = "fairlist";
const SUPERUSER: &str = "postgres";
/// No TCP port; it is part of the socket's name.
pub(super) const PORT: u16 = 5432;

const LONGEST_LOG: u64 = 16 * 1024 * 1024;

const POLL: Duration = Duration::from_millis(25);
/// After this long, somebody who waits wants to know why.
const SLOW: Duration = Duration::from_secs(5);
/// Backends outlive a killed postmaster by moments; until they are gone the cluster is not safe to open.
const SURVIVORS: Duration = Duration::from_secs(15);
/// Writing everything out takes seconds. `SIGQUIT` after that loses nothing: the next start recovers.
const STOPPING: Duration = Duration::from_secs(20);
const QUITTING: Duration = Duration::from_secs(5);

/// The files of one private server.
#[derive(Debug)]
pub(super) struct Cluster {
    settings: Settings,
    /// Absolute, without symbolic links.
    data: PathBuf,
    directory: PathBuf,
    /// Where the socket of the running server is.
    socket: Mutex<PathBuf>,
    /// The server that was started last, for its first moments, when no file tells of it yet.
    started: AtomicI32,
}

impl Cluster {
    pub(super) fn prepare(settings: &Settings) -> Result<Self, Error> {
        let data = directories::data_directory(&settings.data)?;
        Ok(Self {
            settings: settings.clone(),
            directory: data.join("postgres"),
            socket: Mutex::new(directories::usual_socket_directory(&data)),
            data,
            started: AtomicI32::new(0),
        })
    }

    pub(super) fn data(&self) -> &Path {
        &self.data
    }

    fn socket(&self) -> PathBuf {
        self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner).clone()
    }

    fn set_socket(&self, directory: PathBuf) {
        *self.socket.lock().unwrap_or_else(std::sync::PoisonError::into_inner) = directory;
    }

    /// How to connect; independent of what libpq's variables in the environment say.
    pub(super) fn options(&self, role: &str, database: &str) -> PgConnectOptions {
        PgConnectOptions::new_without_pgpass()
            .socket(self.socket())
            .port(PORT)
            .username(role)
            .database(database)
            .ssl_mode(PgSslMode::Disable)
    }

    pub(super) fn url(&self) -> String {
        format!("postgres://{ROLE}@{}:{PORT}/{DATABASE}", percent_encoded(&self.socket()))
    }

    /// The running server: adopted, or started; made first, where there is none. Only behind the gate.
    pub(super) async fn ensure_running(&self) -> Result<Postmaster, Error> {
        loop {
            let file = PidFile::read(&self.directory).map_err(Error::at(&self.directory))?;
            let Some(pid) = file.running(&self.directory) else { return self.start(&file).await };
            let mut postmaster = Postmaster::adopted(pid, &self.directory);
            if self.wait_until_ready(&mut postmaster).await? {
                info!("Using the Postgres that runs already (process {pid})");
                return Ok(postmaster);
            }
        }
    }

    async fn start(&self, left: &PidFile) -> Result<Postmaster, Error> {
        let cluster = self.major()?;
        let binaries = binaries::find(&self.settings, cluster, &self.data).await?;
        let account = Account::choose(&self.directory)?;
        if cluster.is_none() {
            self.make(&binaries, &account).await?;
        }
        account.own(&self.directory)?;
        account.reach(&self.directory, &binaries.program("postgres"))?;
        self.write_access(&account)?;
        let (major, minor) = binaries.version;
        info!("Starting PostgreSQL {major}.{minor} in {}", self.directory.display());

        let since = Instant::now();
        loop {
            let said_before = fs::metadata(self.log_path()).map_or(0, |log| log.len());
            let mut postmaster = self.launch(&binaries, &account, left)?;
            let is_ready = self.wait_until_ready(&mut postmaster).await;
            // From here on the file tells of it, or it is gone.
            self.started.store(0, Ordering::Relaxed);
            if is_ready? {
                debug!("Postgres is process {}", postmaster.pid());
                return Ok(postmaster);
            }
            let output = self.log_since(said_before);
            if !output.contains("pre-existing shared memory block") || since.elapsed() > SURVIVORS {
                return Err(Error::Failed { program: "postgres", output });
            }
            tokio::time::sleep(POLL * 10).await;
        }
    }

    /// The major version of the cluster that is there; `None` where there is nothing yet.
    fn major(&self) -> Result<Option<u32>, Error> {
        let version = self.directory.join("PG_VERSION");
        if let Ok(text) = fs::read_to_string(&version) {
            return text.trim().parse().map(Some).map_err(|_| Error::NotACluster(self.directory.clone()));
        }
        match fs::read_dir(&self.directory) {
            Ok(mut entries) => match entries.next() {
                Some(_) => Err(Error::NotACluster(self.directory.clone())),
                None => Ok(None),
            },
            Err(problem) if problem.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(problem) => Err(Error::at(&self.directory)(problem)),
        }
    }

    /// Makes the cluster beside its place and moves it there when it is whole: killed in between, nothing
    /// is left that looks like one.
    async fn make(&self, binaries: &Binaries, account: &Account) -> Result<(), Error> {
        info!("Making a database in {} (once)", self.data.display());
        let unfinished = self.data.join("postgres.unfinished");
        if unfinished.exists() {
            fs::remove_dir_all(&unfinished).map_err(Error::at(&unfinished))?;
        }
        DirBuilder::new().mode(0o700).create(&unfinished).map_err(Error::at(&unfinished))?;
        account.own(&unfinished)?;
        account.reach(&unfinished, &binaries.program("postgres"))?;

        // Sorted by code point, which no system update changes under an index; letters have upper and lower
        // case in every script. Systems without that locale know ASCII's only.
        let letters = if cfg!(target_os = "macos") { "UTF-8" } else { "C.UTF-8" };
        let mut output = initdb(binaries, account, &unfinished, &["--lc-ctype", letters]).await?;
        if output.as_deref().is_some_and(|output| output.contains("locale")) {
            output = initdb(binaries, account, &unfinished, &[]).await?;
        }
        if let Some(output) = output {
            return Err(Error::Failed { program: "initdb", output });
        }
        fs::rename(&unfinished, &self.directory).map_err(Error::at(&self.directory))?;
        File::open(&self.data).and_then(|data| data.sync_all()).map_err(Error::at(&self.data))
    }

    /// Who may connect, written outside the cluster: there, the server's user could put anything in its place.
    fn write_access(&self, account: &Account) -> Result<(), Error> {
        let hba = "# Written at every start. Only the users in postgres.ident, as the kernel names them.\n\
                   local  all          all  peer  map=fairlist\n\
                   local  replication  all  peer  map=fairlist\n";
        let lines = account
            .users()
            .into_iter()
            .flat_map(|user| [SUPERUSER, ROLE].map(|role| format!("fairlist  \"{user}\"  {role}\n")));
        let ident: String = std::iter::once("# Written at every start.\n".to_owned()).chain(lines).collect();
        for (path, text) in [(self.hba_path(), hba), (self.ident_path(), &ident)] {
            fs::write(&path, text).map_err(Error::at(&path))?;
            fs::set_permissions(&path, Permissions::from_mode(0o644)).map_err(Error::at(&path))?;
        }
        Ok(())
    }

    fn hba_path(&self) -> PathBuf {
        self.data.join("postgres.hba")
    }

    fn ident_path(&self) -> PathBuf {
        self.data.join("postgres.ident")
    }

    fn log_path(&self) -> PathBuf {
        self.data.join("postgres.log")
    }

    fn launch(&self, binaries: &Binaries, account: &Account, left: &PidFile) -> Result<Postmaster, Error> {
        let mut command = account.command(binaries.program("postgres"));
        let mut previous = None;
        match left {
            PidFile::Missing => {}
            // Postgres would refuse. Should backends of a killed server still live, it finds their shared
            // memory without the file too.
            PidFile::Unreadable => {
                warn!("postmaster.pid is damaged; removing it");
                let path = PidFile::path(&self.directory);
                fs::remove_file(&path).map_err(Error::at(&path))?;
            }
            // Left by a server that is gone, but its number may be another process's by now, and then Postgres
            // would take that for the server. This variable is how pg_ctl says "not that one"; the file stays,
            // because Postgres looks up in it which shared memory must be free.
            PidFile::Found { pid, socket_directory, .. } => {
                command.env("PG_GRANDPARENT_PID", pid.to_string());
                previous.clone_from(socket_directory);
            }
        }
        let socket = directories::socket_directory(&self.data, account, previous.as_deref())?;
        let log = self.open_log()?;
        let errors = log.try_clone().map_err(Error::at(&self.log_path()))?;
        command.arg("-D").arg(&self.directory).stdout(Stdio::from(log)).stderr(Stdio::from(errors));
        // It may be a list, therefore quoted.
        let quoted = socket.to_string_lossy().replace('"', "\"\"");
        command.arg("-c").arg(format!("unix_socket_directories=\"{quoted}\""));
        for (name, path) in [("hba_file", self.hba_path()), ("ident_file", self.ident_path())] {
            command.arg("-c").arg(format!("{name}={}", path.display()));
        }
        for setting in SETTINGS {
            command.arg("-c").arg(setting);
        }
        self.set_socket(socket);
        let child = tokio::process::Command::from(command).spawn().map_err(Error::at(&binaries.directory))?;
        let postmaster = Postmaster::started(child, &self.directory);
        self.started.store(postmaster.pid().as_raw(), Ordering::Relaxed);
        Ok(postmaster)
    }

    fn open_log(&self) -> Result<File, Error> {
        let path = self.log_path();
        if fs::metadata(&path).is_ok_and(|log| log.len() > LONGEST_LOG) {
            fs::rename(&path, path.with_extension("log.1")).map_err(Error::at(&path))?;
        }
        OpenOptions::new().append(true).create(true).mode(0o600).open(&path).map_err(Error::at(&path))
    }

    /// The last lines that the server wrote.
    fn log_since(&self, start: u64) -> String {
        let mut bytes = Vec::new();
        let read = File::open(self.log_path()).and_then(|mut log| {
            let start = if log.metadata()?.len() < start { 0 } else { start };
            log.seek(SeekFrom::Start(start))?;
            log.read_to_end(&mut bytes)
        });
        match read {
            Ok(_) => last_lines(&String::from_utf8_lossy(&bytes)),
            Err(problem) => format!("{}: {problem}", self.log_path().display()),
        }
    }

    /// Waits until the server takes connections; false when it ended instead. However long it takes: recovery
    /// after a crash must not be cut short.
    async fn wait_until_ready(&self, postmaster: &mut Postmaster) -> Result<bool, Error> {
        let since = Instant::now();
        let mut told = false;
        loop {
            if postmaster.has_exited() {
                return Ok(false);
            }
            match PidFile::read(&self.directory) {
                Ok(PidFile::Found { pid, socket_directory: Some(directory), status })
                    if pid == postmaster.pid().as_raw() =>
                {
                    // An adopted server's socket is where the file says.
                    self.set_socket(directory);
                    match status {
                        Status::Ready if self.answers().await? => return Ok(true),
                        Status::Ready | Status::Starting => {}
                        // Told to stop, it may be waiting for somebody to disconnect.
                        Status::Stopping => postmaster.signal(Signal::SIGINT),
                    }
                }
                _ => {}
            }
            if !told && since.elapsed() > SLOW {
                told = true;
                info!(
                    "Postgres is not ready yet; after a crash it first recovers (see {})",
                    self.log_path().display()
                );
            }
            tokio::time::sleep(POLL).await;
        }
    }

    async fn answers(&self) -> Result<bool, Error> {
        match tokio::time::timeout(SLOW, self.superuser(SUPERUSER)).await {
            Ok(Ok(connection)) => {
                // Only asked whether it is there.
                drop(connection.close().await);
                Ok(true)
            }
            // 57P03: starting, recovering or stopping.
            Ok(Err(sqlx::Error::Database(error))) if error.code().as_deref() == Some("57P03") => Ok(false),
            Ok(Err(sqlx::Error::Io(_))) | Err(_) => Ok(false),
            Ok(Err(problem)) => Err(Error::Unusable(problem)),
        }
    }

    async fn superuser(&self, database: &str) -> Result<PgConnection, sqlx::Error> {
        self.options(SUPERUSER, database).disable_statement_logging().connect().await
    }

    /// Makes the program's role and database, unless they are there. Only behind the gate.
    pub(super) async fn ensure_database(&self) -> Result<(), Error> {
        self.make_database().await.map_err(Error::Unusable)
    }

    async fn make_database(&self) -> Result<(), sqlx::Error> {
        let mut connection = self.superuser(SUPERUSER).await?;
        let found = sqlx::query!(
            r#"SELECT EXISTS (SELECT FROM pg_roles WHERE rolname = $1) AS "role!",
                      EXISTS (SELECT FROM pg_database WHERE datname = $2) AS "database!""#,
            ROLE,
            DATABASE,
        )
        .fetch_one(&mut connection)
        .await?;
        if !found.role {
            sqlx::raw_sql("CREATE ROLE fairlist LOGIN CREATEDB; GRANT pg_checkpoint TO fairlist")
                .execute(&mut connection)
                .await?;
        }
        if !found.database {
            sqlx::raw_sql("CREATE DATABASE fairlist OWNER fairlist").execute(&mut connection).await?;
        }
        connection.close().await
    }

    /// Stops the server. Only behind the gate, and only when nobody uses it.
    pub(super) async fn stop(&self, postmaster: Option<Postmaster>) -> Result<(), Error> {
        let running = || {
            let file = PidFile::read(&self.directory).ok()?;
            file.running(&self.directory).map(|pid| Postmaster::adopted(pid, &self.directory))
        };
        if let Some(mut postmaster) = postmaster.or_else(running) {
            postmaster.signal(Signal::SIGINT);
            if tokio::time::timeout(STOPPING, postmaster.exited()).await.is_err() {
                warn!("Postgres takes long to stop; ending it at once. It recovers at the next start");
                postmaster.signal(Signal::SIGQUIT);
                drop(tokio::time::timeout(QUITTING, postmaster.exited()).await);
            }
        }
        // One that was started a moment ago, when we were told to stop already.
        self.ask_to_stop();
        let socket = self.socket();
        if directories::is_short(&socket) {
            // Not ours to insist on.
            let _ = fs::remove_dir(socket);
        }
        Ok(())
    }

    /// Asks the server to stop, without waiting.
    pub(super) fn ask_to_stop(&self) {
        let told = PidFile::read(&self.directory).ok().and_then(|file| file.running(&self.directory));
        let started = Some(self.started.load(Ordering::Relaxed)).filter(|pid| *pid > 1).map(Pid::from_raw);
        if let Some(pid) = told.or(started) {
            // It may have ended by itself.
            let _ = nix::sys::signal::kill(pid, Signal::SIGINT);
        }
    }
}

/// What the server is told at every start. Fast where it does not cost a commit: `fsync`, `full_page_writes` and
/// `synchronous_commit` stay on.
const SETTINGS: [&str; 15] = [
    "listen_addresses=",
    "port=5432",
    "unix_socket_permissions=0700",
    "fsync=on",
    "full_page_writes=on",
    "synchronous_commit=on",
    "shared_buffers=256MB",
    "max_connections=100",
    "timezone=UTC",
    "log_timezone=UTC",
    "logging_collector=off",
    "log_destination=stderr",
    "log_checkpoints=off",
    // The detail of an error holds people's addresses.
    "log_error_verbosity=terse",
    "log_line_prefix=%m [%p] ",
];

/// Runs `initdb`; what it said, if it failed.
async fn initdb(
    binaries: &Binaries,
    account: &Account,
    directory: &Path,
    more: &[&str],
) -> Result<Option<String>, Error> {
    let mut command = account.command(binaries.program("initdb"));
    command
        .arg("-D")
        .arg(directory)
        .args(["--username", SUPERUSER, "--encoding", "UTF8", "--locale", "C"])
        .args(more)
        .args(["--data-checksums", "--auth-local", "peer", "--auth-host", "reject"]);
    let output = tokio::process::Command::from(command)
        .kill_on_drop(true)
        .output()
        .await
        .map_err(Error::at(&binaries.directory))?;
    if output.status.success() {
        return Ok(None);
    }
    Ok(Some(last_lines(&String::from_utf8_lossy(&output.stderr))))
}

fn last_lines(text: &str) -> String {
    let lines: Vec<&str> = text.lines().collect();
    lines[lines.len().saturating_sub(12)..].join("\n")
}

fn percent_encoded(path: &Path) -> String {
    use std::fmt::Write;
    let mut text = String::new();
    for byte in path.as_os_str().as_encoded_bytes() {
        match byte {
            b'a'..=b'z' | b'A'..=b'Z' | b'0'..=b'9' | b'-' | b'_' | b'.' => text.push(char::from(*byte)),
            // Writing to a string cannot fail.
            _ => drop(write!(text, "%{byte:02X}")),
        }
    }
    text
}
