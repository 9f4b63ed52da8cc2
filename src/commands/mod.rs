//! What each command of the command line does: opens the database, calls one use case, says what came of it.

use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tracing::{info, warn};

use crate::config::{Cli, Command, Common, Refused, StaffCommand};
use crate::db::{DbError, migrate, postgres};

mod bench;
mod bench_api;
mod check;
mod demo;
pub mod import;
mod psql;
mod serve;
mod staff;
mod verify;

/// A database of its own may still be starting when we do.
const PATIENCE: Duration = Duration::from_secs(30);
const POLL: Duration = Duration::from_millis(250);

/// Why a command failed: one sentence, printed by `main`.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// A setting.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// The private server.
    #[error(transparent)]
    Postgres(#[from] postgres::Error),
    /// The schema.
    #[error(transparent)]
    Migrate(#[from] migrate::Error),
    /// The database said no while it was in use.
    #[error(transparent)]
    Database(#[from] DbError),
    /// Nobody can connect to us.
    #[error("--listen (FAIRLIST_LISTEN) {address}: {source}")]
    Listen {
        /// Where it was tried.
        address: SocketAddr,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// A rule of the program refused; the sentence says why.
    #[error("{0}")]
    Outcome(String),
    /// A file was not imported, or not to its end.
    #[error(transparent)]
    Import(#[from] import::ImportFailure),
    /// Another program could not be started.
    #[error("{program}: {source}")]
    Program {
        /// Which one.
        program: String,
        /// What the system said.
        #[source]
        source: std::io::Error,
    },
    /// The system refused a signal handler.
    #[error("signals cannot be handled: {0}")]
    Signals(#[source] std::io::Error),
    /// Asked to stop before it was done.
    #[error("stopped")]
    Stopped,
}

/// Runs one command.
///
/// # Errors
/// One sentence for whoever called.
pub async fn run(cli: Cli) -> Result<ExitCode, Failure> {
    #[cfg(feature = "testing")]
    crate::failpoint::begin();
    match cli.command {
        Command::Serve(arguments) => serve::serve(&cli.common, &arguments).await,
        Command::Migrate => interruptible(migrate(&cli.common)).await,
        // Told to stop, it says how far it is.
        Command::Import(arguments) => import::run(&cli.common, &arguments).await,
        // It opens nothing, and writes nothing: whatever stops it may.
        Command::Verify(arguments) => Ok(verify::verify(&arguments)),
        Command::Check(arguments) => interruptible(check::check(&cli.common, &arguments)).await,
        // psql has its own idea of Ctrl-C.
        Command::Psql { arguments } => psql::psql(&cli.common, arguments).await,
        Command::Demo(arguments) => demo::demo(&cli.common, &arguments).await,
        Command::Bench(arguments) => interruptible(bench::bench(&cli.common, &arguments)).await,
        Command::Staff(StaffCommand::Add(new)) => interruptible(staff::add(&cli.common, &new)).await,
        Command::Staff(StaffCommand::Disable { email }) => {
            interruptible(staff::disable(&cli.common, &email)).await
        }
    }
}

/// The database that a command works on: one that was named, or the private server's.
struct Database {
    options: PgConnectOptions,
    server: Option<postgres::Server>,
}

impl Database {
    /// For a command: attaches to the private server, or starts it for as long as the command runs.
    async fn attach(common: &Common) -> Result<Self, Failure> {
        match common.database()? {
            Some(options) => Ok(Self { options, server: None }),
            None => Ok(Self::private(postgres::Server::attach(&common.private_server()).await?)),
        }
    }

    /// For a server: claims the data directory, so that there is no second one.
    async fn serve(common: &Common) -> Result<Self, Failure> {
        match common.database()? {
            Some(options) => Ok(Self { options, server: None }),
            None => Ok(Self::private(postgres::Server::serve(&common.private_server()).await?)),
        }
    }

    fn private(server: postgres::Server) -> Self {
        Self { options: server.options(), server: Some(server) }
    }

    /// Brings the schema up to date, waiting a little for a database that is only starting.
    async fn migrate(&self) -> Result<(), Failure> {
        let since = Instant::now();
        loop {
            match migrate::migrate(&self.options).await {
                Err(migrate::Error::Unreachable(problem))
                    if is_starting(&problem) && since.elapsed() < PATIENCE =>
                {
                    warn!("Waiting for the database: {problem}");
                    tokio::time::sleep(POLL.max(since.elapsed() / 4)).await;
                }
                done => return Ok(done?),
            }
        }
    }

    /// Says that it will be stopped soon.
    fn will_stop(&self) {
        if let Some(server) = &self.server {
            server.will_stop();
        }
    }

    async fn stop(self) -> Result<(), Failure> {
        match self.server {
            Some(server) => Ok(server.stop().await?),
            None => Ok(()),
        }
    }
}

/// Whether a database may be reachable in a moment.
fn is_starting(problem: &sqlx::Error) -> bool {
    match problem {
        sqlx::Error::Io(problem) => problem.kind() != std::io::ErrorKind::PermissionDenied,
        // cannot_connect_now
        sqlx::Error::Database(problem) => problem.code().as_deref() == Some("57P03"),
        _ => false,
    }
}

/// SIGINT and SIGTERM from now on: one that comes while nobody waits is not lost.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn listen() -> Result<Self, Failure> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt()).map_err(Failure::Signals)?,
            terminate: signal(SignalKind::terminate()).map_err(Failure::Signals)?,
        })
    }

    /// Resolves at the next of them.
    async fn told_to_stop(&mut self) {
        tokio::select! {
            _ = self.interrupt.recv() => {}
            _ = self.terminate.recv() => {}
        }
    }
}

/// Resolves at the first SIGINT or SIGTERM.
async fn told_to_stop() -> Result<(), Failure> {
    Signals::listen()?.told_to_stop().await;
    Ok(())
}

/// Gives up a command when told to stop. Dropping it rolls back its transaction and stops its private server.
async fn interruptible(
    command: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    let mut signals = Signals::listen()?;
    tokio::select! {
        done = command => done,
        () = signals.told_to_stop() => Err(Failure::Stopped),
    }
}

async fn migrate(common: &Common) -> Result<ExitCode, Failure> {
    let database = Database::attach(common).await?;
    let migrated = database.migrate().await;
    database.stop().await?;
    migrated?;
    info!("The database has schema {}", migrate::newest());
    Ok(ExitCode::SUCCESS)
}
