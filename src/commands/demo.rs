//! `fairlist demo`: a house to look at, on a database of its own.

use std::process::ExitCode;

use super::serve::serve_on;
use super::{Database, Failure, Signals};
use crate::clock::{Clock, Entropy};
use crate::config::{Common, DemoArguments, ServerArguments, ServerConfig};
use crate::db::demonstration::Contents;
use crate::db::{Db, DbError, PoolSizes};
use crate::domain::password::NewPassword;
use crate::domain::role::Role;
use crate::waitlist::Waitlist;
use crate::waitlist::demonstration::{self, LAST_EVENT};

/// Everybody's password. The demonstration is for one's own machine; `serve` has no such thing.
const PASSWORD: &str = "take-a-seat-please";

/// A school class may try to join from one address.
const JOINS_PER_HOUR: i32 = 10_000;

pub(super) async fn demo(common: &Common, arguments: &DemoArguments) -> Result<ExitCode, Failure> {
    let server: &ServerArguments = &arguments.server;
    let mut config = server.check(common.trust()?)?;
    config.joins_per_hour = config.joins_per_hour.max(JOINS_PER_HOUR);
    let mut signals = Signals::listen()?;
    let database = tokio::select! {
        database = Database::serve(common) => database?,
        () = signals.told_to_stop() => return Ok(ExitCode::SUCCESS),
    };
    let prepared = tokio::select! {
        prepared = prepare(&database, common, &config, arguments.fresh) => prepared,
        () = signals.told_to_stop() => Err(Failure::Stopped),
    };
    let outcome = match prepared {
        Ok(()) => {
            welcome(&config);
            serve_on(&database, &config, common, &mut signals).await
        }
        Err(failure) => Err(failure),
    };
    database.stop().await?;
    outcome.map(|()| ExitCode::SUCCESS)
}

async fn prepare(
    database: &Database,
    common: &Common,
    config: &ServerConfig,
    fresh: bool,
) -> Result<(), Failure> {
    database.migrate().await?;
    let db = Db::new(&database.options, PoolSizes::default(), Clock::database());
    let contents = db.demonstration(LAST_EVENT).await?;
    let again = match (contents, fresh) {
        (Contents::Others, _) => {
            return Err(Failure::Outcome(
                "this database holds other organizations; the demonstration wants one of its own: give it another --data \
                 directory or --database-url"
                    .to_owned(),
            ));
        }
        (Contents::Demonstration, false) => return Ok(()),
        (Contents::Empty, _) => false,
        // What was interrupted while it was set up is nobody's work.
        (Contents::Demonstration | Contents::Unfinished, _) => true,
    };
    if again {
        db.forget_demonstration().await?;
        database.migrate().await?;
    }
    eprintln!(
        "Setting up the demonstration: a concert with 1,200 people waiting, a yoga class, a ceramics studio …"
    );
    let present = db.now().await?;
    db.close().await;
    let storyteller = Db::new(&database.options, PoolSizes::default(), Clock::scripted(present));
    // As a worker: on a slow machine its import takes longer than a page may.
    let made = make(storyteller.for_workers(), common, config).await;
    storyteller.close().await;
    made
}

async fn make(db: Db, common: &Common, config: &ServerConfig) -> Result<(), Failure> {
    let password =
        NewPassword::parse(PASSWORD, &[]).map_err(|problem| Failure::Outcome(problem.to_string()))?;
    let mut salt = [0; 16];
    salt.copy_from_slice(&Entropy.bytes()[..16]);
    let hash = tokio::task::spawn_blocking(move || password.hash(salt))
        .await
        .ok()
        .flatten()
        .ok_or(Failure::Database(DbError::NotFound))?;
    let waitlist = Waitlist::new(db, config.secret(&common.data)?);
    demonstration::make(&waitlist, &hash).await.map_err(|problem| Failure::Outcome(problem.to_string()))
}

fn welcome(config: &ServerConfig) {
    let url = config.address.base_url(config.address.listen).map(|url| url.to_string()).unwrap_or_default();
    let url = url.trim_end_matches('/');
    println!("\n  Fairlist, the demonstration\n");
    println!("  Customers   {url}/");
    println!("  Staff       {url}/staff");
    for role in Role::ALL.iter().rev() {
        println!("              {:<22} {PASSWORD}", demonstration::address(*role));
    }
    println!("  Messages    {url}/staff/messages   what would be mailed is readable there\n");
    println!("  Try: sign in as the agent, open Spring Concert, and release a place.");
    println!("  What you do is kept in the data directory; `demo --fresh` begins again.\n");
}
