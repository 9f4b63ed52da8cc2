//! The settings, typed: by flag or by environment, refused at start with the name of the setting.
//!
//! What may hold a password is checked after parsing, so that a refusal names the setting without repeating it.

use std::ffi::OsString;
use std::path::PathBuf;
use std::str::FromStr;

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Args, CommandFactory as _, FromArgMatches as _, Parser, Subcommand};
use sqlx::postgres::PgConnectOptions;
use url::Url;

use crate::db::postgres;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::role::Role;
use crate::tls::Trust;
use crate::traces::Traces;

mod import;
mod server;
mod values;
mod verify;

pub use import::ImportArguments;
pub use server::{AddressArguments, CheckArguments, ServerArguments, ServerConfig};
pub use values::{Hidden, LogFormat, LogLevel, Refused};
use values::{parse_collector, parse_file, parse_name, parse_path, parse_role};
pub use verify::{AnchorArgument, VerifyArguments};

/// A waitlist that makes the next offer clear, proves that it was fair, and never promises one place twice.
#[derive(Debug, Parser)]
#[command(
    name = "fairlist",
    version,
    after_help = "Every setting can also be given in the environment, under the name shown with it.\n\
                  Begin with `fairlist demo`: it needs nothing, and shows what Fairlist does."
)]
pub struct Cli {
    /// What every command needs to know.
    #[command(flatten)]
    pub common: Common,
    /// What to do.
    #[command(subcommand)]
    pub command: Command,
}

/// Where the data are, and how to log.
#[derive(Args, Clone, Debug)]
pub struct Common {
    /// Directory of the private Postgres server and of the generated secret; made when it is not there
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_DATA",
        value_name = "DIR",
        default_value = "./data",
        value_parser = parse_path,
        help_heading = "Data"
    )]
    pub data: PathBuf,

    /// Use this Postgres (15 or later) instead of a private one: `postgres://USER:PASSWORD@HOST/DATABASE`
    #[arg(
        long,
        global = true,
        env = "DATABASE_URL",
        hide_env_values = true,
        value_name = "URL",
        help_heading = "Data"
    )]
    pub database_url: Option<Hidden>,

    /// Directory of the programs of Postgres (15 or later); without it they are looked for on PATH, in the
    /// distribution's and Homebrew's places, and downloaded where there are none
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_POSTGRES_BIN",
        value_name = "DIR",
        value_parser = parse_path,
        help_heading = "Data"
    )]
    pub postgres_bin: Option<PathBuf>,

    /// How to log: for people, as JSON, or for people on a terminal and as JSON otherwise
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_LOG",
        value_name = "FORMAT",
        default_value = "auto",
        help_heading = "Log"
    )]
    pub log: LogFormat,

    /// The least important messages to log
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_LOG_LEVEL",
        value_name = "LEVEL",
        default_value = "info",
        help_heading = "Log"
    )]
    pub log_level: LogLevel,

    /// OpenTelemetry collector that takes traces by OTLP over HTTP, such as `http://127.0.0.1:4318` [default: none]
    #[arg(
        long,
        global = true,
        env = "OTEL_EXPORTER_OTLP_ENDPOINT",
        hide_env_values = true,
        value_name = "URL",
        value_parser = parse_collector,
        help_heading = "Log"
    )]
    pub traces: Option<Url>,

    /// File of certificates in PEM: further authorities that are trusted, besides those of the public web, by whatever
    /// calls another server: for webhooks, booking, mail and traces [default: none]
    #[arg(
        long,
        global = true,
        env = "FAIRLIST_EXTRA_CA_CERTS",
        value_name = "FILE",
        value_parser = parse_file,
        help_heading = "Safety"
    )]
    pub extra_ca_certs: Option<PathBuf>,
}

impl Common {
    /// The settings of the private server.
    #[must_use]
    pub fn private_server(&self) -> postgres::Settings {
        postgres::Settings { data: self.data.clone(), binaries: self.postgres_bin.clone() }
    }

    /// Whose certificates are believed.
    ///
    /// # Errors
    /// When the file of further authorities is none.
    pub fn trust(&self) -> Result<Trust, Refused> {
        let Some(file) = &self.extra_ca_certs else { return Ok(Trust::default()) };
        Trust::with_file(file).map_err(|problem| {
            let refused = format!("{}: {problem}", file.display());
            Refused::new("--extra-ca-certs", "FAIRLIST_EXTRA_CA_CERTS", &refused)
        })
    }

    /// Where traces go, if anywhere. To be asked where no runtime runs.
    ///
    /// # Errors
    /// When they cannot be sent there.
    pub fn traces(&self) -> Result<Option<Traces>, Refused> {
        let Some(collector) = &self.traces else { return Ok(None) };
        let refused = |problem: String| Refused::new("--traces", "OTEL_EXPORTER_OTLP_ENDPOINT", &problem);
        Traces::to(collector, &self.trust()?).map(Some).map_err(refused)
    }

    /// The database that was named, if one was.
    ///
    /// # Errors
    /// When it is no URL of a Postgres database.
    pub fn database(&self) -> Result<Option<PgConnectOptions>, Refused> {
        let Some(Hidden(url)) = &self.database_url else { return Ok(None) };
        let refused = |reason: &str| Refused::new("--database-url", "DATABASE_URL", reason);
        let parsed = Url::parse(url)
            .map_err(|_| refused("is not a URL, such as postgres://USER:PASSWORD@HOST/DATABASE"))?;
        if !matches!(parsed.scheme(), "postgres" | "postgresql") {
            return Err(refused("must begin with postgres://"));
        }
        if parsed.path().len() < 2 && !parsed.query_pairs().any(|(name, _)| name == "dbname") {
            return Err(refused("does not name a database, as in postgres://HOST/DATABASE"));
        }
        PgConnectOptions::from_str(url).map(Some).map_err(|problem| refused(&problem.to_string()))
    }
}

/// What to do.
#[derive(Debug, Subcommand)]
pub enum Command {
    /// Serve the pages and run the workers
    ///
    /// On a private Postgres in the data directory, or on the database named by --database-url. Applies the
    /// migrations first. SIGTERM and Ctrl-C let it finish what was begun, within 20 seconds.
    Serve(ServerArguments),
    /// Look around: a house with a sold-out concert, a yoga class and a passive list
    ///
    /// Needs nothing but this program: it runs a private Postgres in the data directory, sets everything up at the
    /// first start, and prints where to go and whom to sign in as. What you do is kept. A database that holds other
    /// organizations is refused.
    Demo(DemoArguments),
    /// Apply the migrations and stop
    ///
    /// `serve` does the same when it starts; two that start at once do it once. A database that a newer
    /// Fairlist has migrated is refused.
    Migrate,
    /// Put a list from a CSV file on an event's waitlist
    ///
    /// Everybody is put behind those already listed, in the order of their time of joining and then of the file.
    /// What is not taken is reported row by row. Running it again does no harm: nobody is put on the list twice,
    /// and an import that was interrupted is carried on.
    Import(ImportArguments),
    /// Look for what must never be: a place promised twice, somebody passed over, an altered record
    ///
    /// Reads the whole database in one snapshot and changes nothing, so it may run beside a live service. Prints
    /// what breaks with the ids, and ends with 1 if anything does. What is only late because no service runs is
    /// printed as such, and breaks nothing.
    Check(CheckArguments),
    /// Check an audit or a draw that was downloaded, as anybody can
    ///
    /// Needs nothing but the file: no database, no settings. Of an audit, every record's hash is computed again: the
    /// first row that was altered, left out, moved or doubled is named. Of a draw, everybody's ticket is computed
    /// again. Ends with 0 if all is sound, with 1 if it is not, and with 2 if the file could not be checked.
    Verify(VerifyArguments),
    /// Open psql on the database
    ///
    /// On the running private server, or on one that is started for as long as psql runs. What follows `--` is
    /// handed to psql: `fairlist psql -- -c 'SELECT count(*) FROM entries'`.
    Psql {
        /// Arguments for psql
        #[arg(last = true, value_name = "ARGUMENT")]
        arguments: Vec<OsString>,
    },
    /// Say who may sign in as staff
    #[command(subcommand)]
    Staff(StaffCommand),
    /// Measure what Fairlist costs beside the same work as raw SQL
    ///
    /// On a database of its own on the same server, removed at the end. Prints our cost, the raw cost and the
    /// ratio: below 1 we are cheaper.
    Bench(BenchArguments),
}

/// How the demonstration begins, and where it is served.
#[derive(Args, Clone, Debug)]
pub struct DemoArguments {
    /// Forget what was done and begin again
    #[arg(long)]
    pub fresh: bool,

    /// As for `serve`.
    #[command(flatten)]
    pub server: ServerArguments,
}

/// What to measure.
#[derive(Args, Clone, Debug)]
pub struct BenchArguments {
    /// `pass`: 1,000 places offered to a list of 1,000,000; `accept`: 16 clients accept offers of one event; `draw`: a
    /// pool of 200,000 is frozen and ranked; `notify-all`: a fourth of 200,000 is called; `api`: 64 connections ask how
    /// things stand, and join (best with --log-level warn)
    pub kind: BenchKind,

    /// Print one JSON object: name, unit, ours, raw, ratio
    #[arg(long)]
    pub json: bool,

    /// Print the raw SQL and stop; `api` has none
    #[arg(long)]
    pub show: bool,

    /// People waiting [default: 1,000,000 for pass, 1,000 for accept, 200,000 for draw and notify-all, 10,000 for api]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1_000..=10_000_000))]
    pub waiting: Option<i64>,
}

/// What can be measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum BenchKind {
    /// One pass that makes 1,000 offers.
    Pass,
    /// Accepting 1,000 offers of one event.
    Accept,
    /// Freezing a pool and ranking it.
    Draw,
    /// Calling everybody who could take an open place.
    NotifyAll,
    /// Requests to the API, over connections.
    Api,
}

/// Who may sign in as staff.
#[derive(Debug, Subcommand)]
pub enum StaffCommand {
    /// Add somebody, and print the one-time link by which they choose a password
    ///
    /// The first one of an organization makes the organization. Adding the same person again prints a new link,
    /// and the old one stops working.
    Add(NewStaffArguments),
    /// Take somebody's access away: at once, with every session
    ///
    /// What they did stays on record. `staff add` brings them back.
    Disable {
        /// Mail address they sign in with
        #[arg(long, value_name = "ADDRESS", value_parser = EmailAddress::parse)]
        email: EmailAddress,
    },
}

/// A new member of the staff.
#[derive(Args, Clone, Debug)]
pub struct NewStaffArguments {
    /// Name of the organization; made where there is none of that name
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub organization: PersonName,

    /// Mail address to sign in with
    #[arg(long, value_name = "ADDRESS", value_parser = EmailAddress::parse)]
    pub email: EmailAddress,

    /// What they may do: `viewer`, `agent`, `manager` or `owner`
    #[arg(long, value_name = "ROLE", value_parser = parse_role)]
    pub role: Role,

    /// Name shown to colleagues [default: what stands before the @]
    #[arg(long, value_name = "NAME", value_parser = parse_name)]
    pub name: Option<PersonName>,

    /// Where the link will lead.
    #[command(flatten)]
    pub address: AddressArguments,
}

/// Reads the command line and the environment.
///
/// # Errors
/// What clap says: help, version, or what was wrong, with the name of the variable when the value came from
/// the environment.
pub fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Cli, clap::Error> {
    let command = Cli::command();
    command
        .clone()
        .try_get_matches_from(arguments)
        .and_then(|matches| Cli::from_arg_matches(&matches))
        .map_err(|error| name_the_variable(error, &command))
}

/// clap names the flag only; whoever set a variable looks for its name.
fn name_the_variable(mut error: clap::Error, command: &clap::Command) -> clap::Error {
    if !matches!(error.kind(), ErrorKind::ValueValidation | ErrorKind::InvalidValue) {
        return error;
    }
    let (Some(ContextValue::String(argument)), Some(ContextValue::String(value))) =
        (error.get(ContextKind::InvalidArg), error.get(ContextKind::InvalidValue))
    else {
        return error;
    };
    let variable = std::iter::once(command)
        .chain(command.get_subcommands())
        .flat_map(clap::Command::get_arguments)
        .filter(|known| {
            known.get_long().is_some_and(|long| argument.split(' ').next() == Some(&format!("--{long}")))
        })
        .find_map(|known| known.get_env().map(std::ffi::OsStr::to_owned))
        .filter(|variable| std::env::var_os(variable).is_some_and(|set| set == **value));
    if let Some(variable) = variable {
        let named = format!("{argument} (from {})", variable.to_string_lossy());
        error.insert(ContextKind::InvalidArg, ContextValue::String(named));
    }
    error
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
