//! What each command of the command line does: opens the database, calls one use case, says what came of it.

use std::ffi::OsString;
use std::process::ExitCode;
use std::time::{Duration, Instant};

use sqlx::postgres::PgConnectOptions;
use tokio::signal::unix::{SignalKind, signal};
use tracing::{info, warn};
use url::Url;

use crate::config::{Cli, Command, Common, Refused};
use crate::db::{migrate, postgres};

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
    match cli.command {
        Command::Migrate => interruptible(migrate(&cli.common)).await,
        // psql has its own idea of Ctrl-C.
        Command::Psql { arguments } => psql(&cli.common, arguments).await,
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

/// Resolves at the first SIGINT or SIGTERM.
async fn told_to_stop() -> Result<(), Failure> {
    let mut interrupt = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    tokio::select! {
        _ = interrupt.recv() => {}
        _ = terminate.recv() => {}
    }
    Ok(())
}

/// Gives up a command when told to stop. Dropping it rolls back its transaction and stops its private server.
async fn interruptible(
    command: impl Future<Output = Result<ExitCode, Failure>>,
) -> Result<ExitCode, Failure> {
    tokio::select! {
        done = command => done,
        told = told_to_stop() => {
            told?;
            Err(Failure::Stopped)
        }
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

/// Takes the password out of a URL: every user of a machine can read the arguments of a program, but not its
/// environment.
fn without_password(url: &str) -> (String, Option<String>) {
    let Ok(mut parsed) = Url::parse(url) else { return (url.to_owned(), None) };
    let Some(password) = parsed.password() else { return (url.to_owned(), None) };
    // In a URL's password, unlike in a form, `+` and `&` stand for themselves.
    let field = format!("p={}", password.replace('+', "%2B").replace('&', "%26"));
    let password =
        url::form_urlencoded::parse(field.as_bytes()).next().map(|(_, password)| password.into_owned());
    match parsed.set_password(None) {
        Ok(()) => (parsed.into(), password),
        Err(()) => (url.to_owned(), None),
    }
}

async fn psql(common: &Common, arguments: Vec<OsString>) -> Result<ExitCode, Failure> {
    let program = postgres::client(&common.private_server(), "psql")?;
    let database = Database::attach(common).await?;
    let url = match (&common.database_url, &database.server) {
        (Some(named), _) => named.0.clone(),
        (None, Some(server)) => server.url(),
        (None, None) => return Err(Failure::Stopped),
    };
    // Ctrl-C in psql ends a query, not psql; it reaches us too, and must not end us before psql.
    let interrupts = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let (url, password) = without_password(&url);
    let mut command = tokio::process::Command::new(&program);
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let status = command
        .arg(url)
        .args(arguments)
        .status()
        .await
        .map_err(|source| Failure::Program { program: program.display().to_string(), source });
    drop(interrupts);
    database.stop().await?;
    Ok(status?.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_an_argument() {
        assert_eq!(
            without_password("postgres://me:a%2Fb+c&d@db.example/fairlist?sslmode=require"),
            ("postgres://me@db.example/fairlist?sslmode=require".to_owned(), Some("a/b+c&d".to_owned()))
        );
        let local = "postgres://fairlist@%2Ftmp%2Frun:5432/fairlist";
        assert_eq!(without_password(local), (local.to_owned(), None));
    }
}
