//! The migrations. Two programs that start at once apply each once; a schema that is newer than the program is
//! refused.
//!
//! After adding a migration, touch this file: the macro below reads the directory when it is compiled.

use sqlx::migrate::{MigrateError, Migrator};
use sqlx::postgres::PgConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _, PgConnection};

use super::postgres::OLDEST_MAJOR;

static MIGRATIONS: Migrator = sqlx::migrate!();

/// Why the database cannot be used by this program.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// An old Postgres.
    #[error("the database is PostgreSQL {0}; Fairlist needs {OLDEST_MAJOR} or later")]
    OldPostgres(u32),
    /// A newer Fairlist has migrated it.
    #[error(
        "a newer Fairlist has been here: the database has schema {found}, and this program knows {known}. Start the newer program, or restore a backup from before the upgrade"
    )]
    Newer {
        /// The newest migration in the database.
        found: i64,
        /// The newest that this program has.
        known: i64,
    },
    /// Its history is not this program's.
    #[error(
        "migration {0} of the database is not the one in this program; another program's database, or a changed build?"
    )]
    Differs(i64),
    /// Cannot be reached, or said no.
    #[error("the database cannot be reached: {0}")]
    Unreachable(#[source] sqlx::Error),
    /// Anything else; what was begun is rolled back.
    #[error("the migrations could not be applied: {0}")]
    Failed(#[source] MigrateError),
}

/// The newest migration that this program has.
#[must_use]
pub fn newest() -> i64 {
    MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default()
}

/// Brings the schema up to this program's, in a connection of its own: the lock that makes others wait is the
/// connection's.
///
/// # Errors
/// When the database is too old, too new, another one, or unreachable.
pub async fn migrate(options: &PgConnectOptions) -> Result<(), Error> {
    let mut connection = options
        .clone()
        .application_name(super::APPLICATION_NAME)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(Error::Unreachable)?;
    let migrated = migrate_through(&mut connection).await;
    // Gives the lock back where the migrations failed.
    drop(connection.close().await);
    migrated
}

/// The newest migration that the database has; `None` where Fairlist has never been. Changes nothing.
///
/// # Errors
/// When it is unreachable.
pub async fn newest_of(options: &PgConnectOptions) -> Result<Option<i64>, Error> {
    let mut connection = options
        .clone()
        .application_name(super::APPLICATION_NAME)
        .disable_statement_logging()
        .connect()
        .await
        .map_err(Error::Unreachable)?;
    let newest = sqlx::query_scalar::<_, Option<i64>>("SELECT max(version) FROM _sqlx_migrations")
        .fetch_one(&mut connection)
        .await;
    drop(connection.close().await);
    match newest {
        // undefined_table
        Err(sqlx::Error::Database(problem)) if problem.code().as_deref() == Some("42P01") => Ok(None),
        newest => newest.map_err(Error::Unreachable),
    }
}

async fn migrate_through(connection: &mut PgConnection) -> Result<(), Error> {
    let version = connection.server_version_num().unwrap_or_default() / 10_000;
    if version < OLDEST_MAJOR {
        return Err(Error::OldPostgres(version));
    }
    MIGRATIONS.run_direct(None, connection, false).await.map_err(|problem| match problem {
        MigrateError::VersionMissing(found) if found > newest() => Error::Newer { found, known: newest() },
        MigrateError::VersionMissing(version) | MigrateError::VersionMismatch(version) => {
            Error::Differs(version)
        }
        other => Error::Failed(other),
    })
}
