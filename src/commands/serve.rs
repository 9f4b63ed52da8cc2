//! `fairlist serve`: the web and the workers, until told to stop.

use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tracing::{info, warn};

use super::{Database, Failure, Signals};
use crate::booking::{Patience, Services};
use crate::clock::Clock;
use crate::config::{Common, ServerArguments, ServerConfig};
use crate::db::{Db, PoolSizes};
use crate::messages;
use crate::waitlist::Waitlist;
use crate::web::{self, Limits, WebState};
use crate::webhooks::{self, Sender};
use crate::workers;

/// How long what was begun may take once we are told to stop. With closing connections and stopping the private
/// Postgres it stays below the 20 seconds after which service managers lose patience.
const DRAIN: Duration = Duration::from_secs(14);
const CLOSE: Duration = Duration::from_secs(2);

/// Serves until SIGINT or SIGTERM, then stops accepting and claiming, finishes what was begun, and stops the
/// private Postgres. A second signal skips the waiting.
pub(super) async fn serve(common: &Common, arguments: &ServerArguments) -> Result<ExitCode, Failure> {
    let config = arguments.check(common.trust()?)?;
    let mut signals = Signals::listen()?;
    let database = tokio::select! {
        database = open(common) => database?,
        // What was started is told to stop as it is dropped.
        () = signals.told_to_stop() => return Ok(ExitCode::SUCCESS),
    };
    let served = serve_on(&database, &config, common, &mut signals).await;
    database.stop().await?;
    served.map(|()| ExitCode::SUCCESS)
}

async fn open(common: &Common) -> Result<Database, Failure> {
    let database = Database::serve(common).await?;
    match database.migrate().await {
        Ok(()) => Ok(database),
        Err(failure) => {
            database.stop().await?;
            Err(failure)
        }
    }
}

pub(super) async fn serve_on(
    database: &Database,
    config: &ServerConfig,
    common: &Common,
    signals: &mut Signals,
) -> Result<(), Failure> {
    let address = config.address.listen;
    let unheard = |source| Failure::Listen { address, source };
    let listener = TcpListener::bind(address).await.map_err(unheard)?;
    let watched = match config.metrics_listen {
        Some(address) => {
            let unheard = |source| Failure::Listen { address, source };
            let listener = TcpListener::bind(address).await.map_err(unheard)?;
            let address = listener.local_addr().map_err(unheard)?;
            info!(url = %format!("http://{address}/metrics"), "Metrics are at http://{address}/metrics");
            Some(listener)
        }
        None => None,
    };
    let base_url = config.address.base_url(listener.local_addr().map_err(unheard)?)?;

    let db = Db::new(&database.options, PoolSizes::default(), Clock::database());
    let settings = web::Settings {
        hosts: config.hosts.clone(),
        trusted_proxies: usize::from(config.trusted_proxies),
        staff_idle: config.staff_idle,
        private_webhooks: config.private_webhooks,
        traced: common.traces.is_some(),
        limits: Limits { joins: config.joins_per_hour, writes: config.writes_per_minute },
        ..web::Settings::new(base_url.clone())
    };
    let secret = config.secret(&common.data)?;
    let services = Services::new(Patience::default(), config.trust.clone());
    let webhooks = webhooks::Settings::new(secret.clone())
        .private(config.private_webhooks)
        .trusting(config.trust.clone());
    let waitlist = Waitlist::new(db.clone(), secret.clone()).with_services(services.clone());
    let mail = Arc::new(messages::Settings::new(base_url.clone(), secret.clone(), config.mail.clone()));
    let state =
        WebState::new(db.clone(), secret, settings).with_mail(Arc::clone(&mail)).with_services(services);
    let router = web::router(state).map_err(|problem| Failure::Outcome(format!("--base-url: {problem}")))?;

    let stopping = CancellationToken::new();
    let sender = Sender::new(&db, webhooks, stopping.clone())
        .map_err(|problem| Failure::Outcome(problem.to_string()))?;
    let mut pages = tokio::spawn(web::serve(listener, router, web::Timeouts::default(), stopping.clone()));
    let mut at_work = JoinSet::new();
    if let Some(listener) = watched {
        let router = web::metrics::router(db.clone());
        let served = web::serve(listener, router, web::Timeouts::default(), stopping.clone());
        at_work.spawn(async move {
            if let Err(error) = served.await {
                warn!(%error, "metrics are served no more");
            }
        });
    }
    workers::passes::start(&mut at_work, &waitlist, &stopping);
    workers::reconciler::start(&mut at_work, &waitlist, &stopping);
    workers::housekeeping::start(&mut at_work, &db, &stopping);
    workers::imports::start(&mut at_work, &db, &stopping);
    workers::webhooks::start(&mut at_work, sender, db.metrics(), &stopping);
    workers::feed::start(&mut at_work, &db, &stopping);
    workers::start_mailers(&mut at_work, &db.for_workers(), &mail, &stopping);
    info!(url = %base_url, "Fairlist is at {base_url} (Ctrl-C stops it)");

    tokio::select! {
        () = signals.told_to_stop() => {}
        ended = &mut pages => return ended.map_err(std::io::Error::other).flatten().map_err(unheard),
    }
    info!("Stopping: finishing what was begun");
    database.will_stop();
    stopping.cancel();
    // Workers stop between two ticks; what one still holds at the end is free again when its lease runs out.
    let finished = async {
        drop((&mut pages).await);
        while at_work.join_next().await.is_some() {}
    };
    tokio::select! {
        () = finished => {}
        () = tokio::time::sleep(DRAIN) => warn!("Not all is done after {} seconds; ending it", DRAIN.as_secs()),
        () = signals.told_to_stop() => {}
    }
    pages.abort();
    at_work.abort_all();
    // Whoever still holds a connection loses it; its transaction is rolled back.
    drop(tokio::time::timeout(CLOSE, db.close()).await);
    info!("Stopped");
    Ok(())
}
