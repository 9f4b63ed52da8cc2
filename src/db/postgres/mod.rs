//! Postgres without set-up: a private server under the data directory, for whoever names no database.
//!
//! ```text
//! data/
//!   locks/server      held by the one `serve` or `demo` of this data
//!   locks/users       shared by every command that uses the private server; the last to leave stops it
//!   locks/gate        held while the private server is looked for, started or stopped
//!   postgres/         the cluster
//!   postgres.hba, postgres.ident, postgres.log
//!   postgresql/       programs that had to be downloaded
//!   run/              the socket, unless its path would be too long
//! ```
//!
//! The kernel frees a lock when its holder dies, however it dies: what a killed program leaves behind is a
//! running server that nobody uses, and the next command takes it over. Nobody but the user who runs Fairlist
//! can connect: there is no TCP port, the socket lies in a directory of mode 0700, and the server asks the
//! kernel who is at the other end (`peer`).

mod account;
mod binaries;
mod cluster;
mod directories;
mod download;
mod locks;
mod postmaster;

use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use sqlx::postgres::PgConnectOptions;
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;
use tracing::{error, info, warn};

pub use self::binaries::Binaries;
use self::cluster::Cluster;
pub use self::directories::data_directory;
use self::locks::Locks;
use self::postmaster::Postmaster;

/// The oldest major version of Postgres that the SQL is written for.
pub const OLDEST_MAJOR: u32 = 15;

/// How soon a private server that died is started again, at first; doubled at each failure.
const RESTART_DELAY: Duration = Duration::from_millis(250);
const LONGEST_RESTART_DELAY: Duration = Duration::from_secs(30);

/// Where the private server keeps its data and finds its programs.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data directory; made when it is not there.
    pub data: PathBuf,
    /// The directory that holds `postgres` and `initdb`; looked for when not given.
    pub binaries: Option<PathBuf>,
}

/// Why there is no private server.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// A second server on the same data.
    #[error(
        "another Fairlist server{} is using the data in {}. Stop it first, or give this one a directory of its own with --data",
        process(*.pid), data.display()
    )]
    Taken {
        /// The data directory.
        data: PathBuf,
        /// The process that holds it, where known.
        pid: Option<u32>,
    },
    /// Somebody kept the gate shut for too long.
    #[error("another Fairlist command has been starting or stopping the server of {} for more than a minute", .0.display())]
    Busy(PathBuf),
    /// The data directory belongs to another user.
    #[error(
        "{} belongs to another user, and this one may not use it. Run Fairlist as the user who made it, or choose another directory with --data",
        .0.display()
    )]
    NotOurs(PathBuf),
    /// A file lies where the data directory should be.
    #[error("--data {} is not a directory", .0.display())]
    NotADirectory(PathBuf),
    /// The server's unprivileged user cannot get at the data.
    #[error(
        "Postgres refuses to run as root, so it runs as user {user}, who may not pass through {}. Choose a data directory elsewhere, for example --data /var/lib/fairlist",
        directory.display()
    )]
    Barred {
        /// The first directory from the top that cannot be passed.
        directory: PathBuf,
        /// The user whom the server would run as.
        user: String,
    },
    /// The server's unprivileged user cannot run its programs.
    #[error(
        "Postgres refuses to run as root, so it runs as user {user}, who may not run {}. Name programs that every user may run with --postgres-bin",
        program.display()
    )]
    ProgramBarred {
        /// What was to be run.
        program: PathBuf,
        /// The user whom the server would run as.
        user: String,
    },
    /// Started by root on a machine with nobody else.
    #[error(
        "Postgres refuses to run as root, and this machine has neither a user `postgres` nor a user `nobody` to run it as. Start Fairlist as another user"
    )]
    NoAccount,
    /// `--postgres-bin` holds no Postgres.
    #[error("--postgres-bin {} does not hold the programs of PostgreSQL {OLDEST_MAJOR} or later: {reason}", directory.display())]
    NotBinaries {
        /// The directory named by the setting.
        directory: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// None on the machine, and none to be had from the network.
    #[error("{}", download::advice(reason, *.major))]
    Download {
        /// Why the download failed.
        reason: String,
        /// The major version that the data need, where there are data.
        major: Option<u32>,
    },
    /// The cluster needs programs that are not here.
    #[error("{}", binaries::other_major(data, *.cluster, found))]
    OtherMajor {
        /// The cluster.
        data: PathBuf,
        /// The major version that made it.
        cluster: u32,
        /// What is installed here instead.
        found: Vec<Binaries>,
    },
    /// Something else lies where the cluster should be.
    #[error("{} is not empty, and not a Postgres cluster either. It was left alone; choose another data directory with --data", .0.display())]
    NotACluster(PathBuf),
    /// `initdb` or `postgres` ended with an error.
    #[error("{program} failed:\n{output}")]
    Failed {
        /// Which program.
        program: &'static str,
        /// The end of what it said.
        output: String,
    },
    /// The server runs, but not as it should.
    #[error("the private Postgres server cannot be used: {0}")]
    Unusable(#[source] sqlx::Error),
    /// A file or directory.
    #[error("{}: {source}", path.display())]
    Io {
        /// Which one.
        path: PathBuf,
        /// What the system said.
        #[source]
        source: io::Error,
    },
}

fn process(pid: Option<u32>) -> String {
    pid.map(|pid| format!(" (process {pid})")).unwrap_or_default()
}

impl Error {
    /// For `map_err`: an error about `path`; being refused means that it is somebody else's.
    fn at(path: &Path) -> impl FnOnce(io::Error) -> Self {
        let path = path.to_owned();
        move |source| match source.kind() {
            io::ErrorKind::PermissionDenied => Self::NotOurs(path),
            _ => Self::Io { path, source },
        }
    }
}

/// The private server, in use by this process. [`Server::stop`] ends the use; the last user stops the server.
#[derive(Debug)]
pub struct Server {
    cluster: Arc<Cluster>,
    locks: Locks,
    keeper: Option<Keeper>,
    /// Held here while no keeper does.
    postmaster: Option<Postmaster>,
    left: bool,
}

impl Server {
    /// Claims the data directory for a server of its own, then finds or starts its Postgres, and starts it again
    /// whenever it dies.
    ///
    /// # Errors
    /// When another server has claimed the data, or Postgres cannot be had; each says what to do about it.
    pub async fn serve(settings: &Settings) -> Result<Self, Error> {
        Self::enter(settings, true).await
    }

    /// Uses the private server for as long as a command takes: the one that runs, or one of its own.
    ///
    /// # Errors
    /// When Postgres cannot be had; each says what to do about it.
    pub async fn attach(settings: &Settings) -> Result<Self, Error> {
        Self::enter(settings, false).await
    }

    async fn enter(settings: &Settings, serve: bool) -> Result<Self, Error> {
        let cluster = Arc::new(Cluster::prepare(settings)?);
        let mut locks = Locks::open(cluster.data())?;
        if serve {
            locks.claim()?;
        }
        let gate = locks.gate().await?;
        locks.join()?;
        let mut server =
            Self { cluster: Arc::clone(&cluster), locks, keeper: None, postmaster: None, left: false };
        // From here on, dropping `server` (an error, a signal while starting) stops what was started.
        let postmaster = cluster.ensure_running().await?;
        cluster.ensure_database().await?;
        drop(gate);
        if serve {
            server.keeper = Some(Keeper::start(cluster, postmaster));
        } else {
            server.postmaster = Some(postmaster);
        }
        Ok(server)
    }

    /// How to connect as the program's own role, which is no superuser.
    #[must_use]
    pub fn options(&self) -> PgConnectOptions {
        self.cluster.options(cluster::ROLE, cluster::DATABASE)
    }

    /// The same as a URL, for `psql`, `pg_dump` and the like.
    #[must_use]
    pub fn url(&self) -> String {
        self.cluster.url()
    }

    /// The data directory.
    #[must_use]
    pub fn data(&self) -> &Path {
        self.cluster.data()
    }

    /// Says that [`Server::stop`] will be called soon: should Postgres end before, because a service manager told
    /// it to stop too, it is not started again.
    pub fn will_stop(&self) {
        if let Some(keeper) = &self.keeper {
            keeper.stopping.cancel();
        }
    }

    /// Ends the use of the server, and stops it when nobody else uses it.
    ///
    /// # Errors
    /// When it cannot be told whether others use it; then it is left running.
    pub async fn stop(mut self) -> Result<(), Error> {
        self.left = true;
        let postmaster = match self.keeper.take() {
            Some(keeper) => keeper.stop().await,
            None => self.postmaster.take(),
        };
        let _gate = self.locks.gate().await?;
        if self.locks.leave_as_last()? {
            self.cluster.stop(postmaster).await?;
        }
        Ok(())
    }
}

impl Drop for Server {
    /// For ways out that could not wait: asks the server to stop, if nobody else uses it.
    fn drop(&mut self) {
        if self.left {
            return;
        }
        self.will_stop();
        if self.locks.leave_as_last().unwrap_or(false) {
            self.cluster.ask_to_stop();
        }
    }
}

/// The programs of Postgres for a command such as `psql`: beside those of the server where they are, else
/// wherever they are found.
///
/// # Errors
/// When the setting names a directory that does not hold them.
pub fn client(settings: &Settings, name: &str) -> Result<PathBuf, Error> {
    binaries::client(settings, name)
}

/// Watches the private server of a `serve` and starts it again when it dies.
#[derive(Debug)]
struct Keeper {
    stopping: CancellationToken,
    task: JoinHandle<Option<Postmaster>>,
}

impl Keeper {
    fn start(cluster: Arc<Cluster>, postmaster: Postmaster) -> Self {
        let stopping = CancellationToken::new();
        let task = tokio::spawn(keep(cluster, postmaster, stopping.clone()));
        Self { stopping, task }
    }

    async fn stop(self) -> Option<Postmaster> {
        self.stopping.cancel();
        self.task.await.unwrap_or_default()
    }
}

async fn keep(
    cluster: Arc<Cluster>,
    mut postmaster: Postmaster,
    stopping: CancellationToken,
) -> Option<Postmaster> {
    loop {
        tokio::select! {
            () = stopping.cancelled() => return Some(postmaster),
            how = postmaster.exited() => warn!("Postgres ended unexpectedly ({how}); starting it again"),
        }
        let mut delay = RESTART_DELAY;
        postmaster = loop {
            let restarted = tokio::select! {
                restarted = restart(&cluster) => restarted,
                // Recovering may take long; whoever stops us stops it.
                () = stopping.cancelled() => return None,
            };
            match restarted {
                Ok(postmaster) => break postmaster,
                Err(problem) => error!("Postgres did not start again: {problem}"),
            }
            tokio::select! {
                () = stopping.cancelled() => return None,
                () = tokio::time::sleep(delay) => delay = (delay * 2).min(LONGEST_RESTART_DELAY),
            }
        };
        info!("Postgres runs again");
    }
}

async fn restart(cluster: &Cluster) -> Result<Postmaster, Error> {
    let _gate = Locks::open(cluster.data())?.gate().await?;
    cluster.ensure_running().await
}
