//! `fairlist psql`: the database's own shell.

use std::ffi::OsString;
use std::process::{ExitCode, ExitStatus};

use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use super::{Database, Failure};
use crate::config::Common;
use crate::db::postgres;

/// Runs psql on the database; its exit code is ours.
pub(super) async fn psql(common: &Common, arguments: Vec<OsString>) -> Result<ExitCode, Failure> {
    let database = Database::attach(common).await?;
    let status = run(common, &database, arguments).await;
    database.stop().await?;
    Ok(status?.code().and_then(|code| u8::try_from(code).ok()).map_or(ExitCode::FAILURE, ExitCode::from))
}

async fn run(common: &Common, database: &Database, arguments: Vec<OsString>) -> Result<ExitStatus, Failure> {
    // After attaching: it may have come with the server that had to be downloaded.
    let program = postgres::client(&common.private_server(), "psql")?;
    let url = match (&common.database_url, &database.server) {
        (Some(named), _) => named.0.clone(),
        (None, Some(server)) => server.url(),
        (None, None) => return Err(Failure::Stopped),
    };
    let (url, password) = without_password(&url);
    let mut command = tokio::process::Command::new(&program);
    if let Some(password) = password {
        command.env("PGPASSWORD", password);
    }
    let failed = |source| Failure::Program { program: program.display().to_string(), source };
    // Ctrl-C in psql ends a query, not psql; it reaches us too, and must not end us before psql.
    let _interrupts = signal(SignalKind::interrupt()).map_err(Failure::Signals)?;
    let mut terminate = signal(SignalKind::terminate()).map_err(Failure::Signals)?;
    let mut psql = command.arg(url).args(arguments).spawn().map_err(failed)?;
    tokio::select! {
        status = psql.wait() => status.map_err(failed),
        _ = terminate.recv() => {
            psql.kill().await.map_err(failed)?;
            Err(Failure::Stopped)
        }
    }
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
