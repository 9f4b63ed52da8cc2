//! `fairlist bench`: what we cost beside the same work as raw SQL, on the same database in the same run.

use std::process::ExitCode;
use std::time::{Duration, Instant};

use super::{Database, Failure};
use crate::clock::{Clock, Entropy};
use crate::config::{BenchArguments, BenchKind, Common};
use crate::db::bench::{BenchDatabase, Pending, RAW_ACCEPT, RAW_CALLS, RAW_DRAW, RAW_PASS};
use crate::db::events::NewEvent;
use crate::db::staff::NewStaff;
use crate::db::{Db, DbError, PoolSizes};
use crate::domain::audit::Actor;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::delivery::Channel;
use crate::domain::event::EventSettings;
use crate::domain::ids::{EventId, OrganizationId, StaffId};
use crate::domain::policy::{Draws, Mode, Ordering, Policy};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::role::Role;
use crate::domain::secret::Secret;
use crate::waitlist::Waitlist;
use crate::waitlist::answer::{Accept, AcceptOutcome};
use crate::waitlist::draws::DrawOutcome;
use crate::waitlist::events::CreateOutcome;
use crate::waitlist::together::Together;

/// Each side runs so often, in turn; the medians are compared.
const RUNS: usize = 5;
const PLACES: i64 = 1_000;
const WAITING: i64 = 1_000_000;
const POOL: i64 = 200_000;
const CLIENTS: usize = 16;

/// A cost on both sides.
#[derive(Debug, serde::Serialize)]
pub(super) struct Figures {
    pub(super) name: &'static str,
    pub(super) unit: &'static str,
    pub(super) ours: f64,
    pub(super) raw: f64,
    pub(super) ratio: f64,
}

pub(super) async fn bench(common: &Common, arguments: &BenchArguments) -> Result<ExitCode, Failure> {
    if arguments.show {
        let statements = match arguments.kind {
            BenchKind::Pass => RAW_PASS,
            BenchKind::Accept => RAW_ACCEPT,
            BenchKind::Draw => RAW_DRAW,
            BenchKind::NotifyAll => RAW_CALLS,
            BenchKind::Api => {
                return Err(Failure::Outcome("`bench api` is not measured against SQL.".to_owned()));
            }
        };
        println!("BEGIN;\n{};\nCOMMIT;", statements.join(";\n"));
        return Ok(ExitCode::SUCCESS);
    }
    let server = Database::attach(common).await?;
    let database = BenchDatabase::create(&server.options).await?;
    let waiting = arguments.waiting.unwrap_or(match arguments.kind {
        BenchKind::Pass => WAITING,
        BenchKind::Accept => PLACES,
        BenchKind::Api => PLACES * 10,
        BenchKind::Draw | BenchKind::NotifyAll => POOL,
    });
    let measured = measure(&database, arguments.kind, waiting).await;
    database.drop().await?;
    server.stop().await?;
    for figures in measured? {
        if arguments.json {
            let line =
                serde_json::to_string(&figures).map_err(|error| Failure::Outcome(error.to_string()))?;
            println!("{line}");
        } else {
            let Figures { name, unit, ours, raw, ratio } = figures;
            println!("{name}: ours {ours:.3} {unit}, raw {raw:.3} {unit}, ratio {ratio:.2}");
        }
    }
    Ok(ExitCode::SUCCESS)
}

async fn measure(database: &BenchDatabase, kind: BenchKind, waiting: i64) -> Result<Vec<Figures>, Failure> {
    let sizes = PoolSizes { pages: 20, ..PoolSizes::default() };
    let db = Db::new(&database.options(), sizes, Clock::database());
    let secret = Secret::new(vec![0; 32]).map_err(|_| DbError::NotFound)?;
    let waitlist = Waitlist::new(db, secret.clone());
    let (organization, event, staff) = set_up(&waitlist, kind).await?;
    eprintln!("filling the list: {waiting} waiting, {PLACES} places");
    database.fill(event, organization, waiting, PLACES).await?;
    let measured = match kind {
        BenchKind::Pass => passes(database, &waitlist, event).await,
        BenchKind::Accept => accepts(database, &waitlist, event).await,
        BenchKind::Draw => draws(database, &waitlist, event).await,
        BenchKind::NotifyAll => calls(database, &waitlist, event).await,
        BenchKind::Api => {
            let measured = super::bench_api::api(&waitlist, secret, organization, staff).await;
            waitlist.db().close().await;
            return measured;
        }
    };
    waitlist.db().close().await;
    Ok(vec![measured?])
}

async fn set_up(waitlist: &Waitlist, kind: BenchKind) -> Result<(OrganizationId, EventId, StaffId), DbError> {
    let unreadable = |_| DbError::NotFound;
    let email = EmailAddress::parse("bench@example.org").map_err(unreadable)?;
    let name = PersonName::parse("Bench").map_err(|_| DbError::NotFound)?;
    let new = NewStaff { organization: "Bench", email: &email, name: &name, role: Role::Owner };
    waitlist.db().add_staff(&new, Entropy.bytes()).await?;
    let credentials = waitlist.db().staff_credentials(&email).await?.ok_or(DbError::NotFound)?;
    let member = waitlist.db().staff_member(credentials.staff).await?.ok_or(DbError::NotFound)?;
    let new = NewEvent {
        organization: member.organization,
        slug: "bench".to_owned(),
        settings: EventSettings {
            name: "Bench".to_owned(),
            description: String::new(),
            venue: String::new(),
            zone: chrono_tz::UTC,
            starts_at: None,
            list_opens_at: None,
            list_freezes_at: None,
        },
    };
    let policy = Policy {
        window: Some(chrono::Duration::hours(2)),
        ordering: if kind == BenchKind::Draw { Ordering::Lottery } else { Ordering::Arrival },
        mode: if kind == BenchKind::NotifyAll { Mode::NotifyAll } else { Mode::Hold },
        draws: if kind == BenchKind::Draw { Draws::ByStaff } else { Draws::AtNeed },
        ..Policy::first()
    };
    match waitlist.create_event(&new, &policy, Actor::Staff(credentials.staff)).await? {
        CreateOutcome::Created(event) => {
            waitlist.publish(event, Actor::Operator, Reason::SetUp, None).await?;
            Ok((member.organization, event, credentials.staff))
        }
        CreateOutcome::SlugTaken | CreateOutcome::StartsInPast => Err(DbError::NotFound),
    }
}

async fn passes(database: &BenchDatabase, waitlist: &Waitlist, event: EventId) -> Result<Figures, DbError> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        database.undo(event).await?;
        let took_raw = database.raw_pass(event).await?;
        database.undo(event).await?;
        let began = Instant::now();
        let report = waitlist.run_pass(event).await?;
        let took_ours = began.elapsed();
        if i64::try_from(report.offered) != Ok(PLACES) {
            return Err(DbError::LostRace("pass"));
        }
        eprintln!("run {run}: ours {:.1} ms, raw {:.1} ms", millis(took_ours), millis(took_raw));
        // The first run of each warms the caches and is not counted.
        if run > 0 {
            ours.push(took_ours);
            raw.push(took_raw);
        }
    }
    Ok(figures("pass", "ms", millis(median(ours)), millis(median(raw))))
}

async fn accepts(database: &BenchDatabase, waitlist: &Waitlist, event: EventId) -> Result<Figures, DbError> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for run in 0..=RUNS {
        let took_raw = timed(database, waitlist, event, raw_accepts).await?;
        let took_ours = timed(database, waitlist, event, our_accepts).await?;
        eprintln!(
            "run {run}: ours {:.1} ms, raw {:.1} ms for {PLACES} accepts",
            millis(took_ours),
            millis(took_raw)
        );
        if run > 0 {
            ours.push(took_ours);
            raw.push(took_raw);
        }
    }

    // A thousand accepts in so many milliseconds are so many microseconds each.
    Ok(figures("accept", "µs", millis(median(ours)), millis(median(raw))))
}

/// The pool frozen, its order computed and in force, under one lock.
async fn draws(database: &BenchDatabase, waitlist: &Waitlist, event: EventId) -> Result<Figures, DbError> {
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    let reason = StaffReason { reason: Reason::SetUp, note: None };
    for run in 0..=RUNS {
        database.undo_draws(event).await?;
        let took_raw = database.raw_draw(event).await?;
        database.undo_draws(event).await?;
        let began = Instant::now();
        let drawn = waitlist.hold_draw(event, Actor::Operator, &reason).await?;
        let took_ours = began.elapsed();
        if !matches!(drawn, DrawOutcome::Drawn { .. }) {
            return Err(DbError::LostRace("draw"));
        }
        eprintln!("run {run}: ours {:.1} ms, raw {:.1} ms", millis(took_ours), millis(took_raw));
        if run > 0 {
            ours.push(took_ours);
            raw.push(took_raw);
        }
    }
    Ok(figures("draw", "ms", millis(median(ours)), millis(median(raw))))
}

/// Everybody whose party fits is called, a thousand at a time under one lock each.
async fn calls(database: &BenchDatabase, waitlist: &Waitlist, event: EventId) -> Result<Figures, DbError> {
    database.large_parties(event).await?;
    let (mut ours, mut raw) = (Vec::new(), Vec::new());
    for run in 0..=2 {
        database.undo(event).await?;
        let began = Instant::now();
        let mut called_raw = 0;
        loop {
            let called = database.raw_calls(event).await?;
            called_raw += called;
            if called < 1_000 {
                break;
            }
        }
        let took_raw = began.elapsed();
        database.undo(event).await?;
        let began = Instant::now();
        let (mut called_ours, mut handed_over) = (0, None);
        loop {
            let report = waitlist.run_pass(event).await?;
            called_ours += report.offered as u64;
            if handed_over.is_none() {
                // As the mailer takes what it is to send, while the rest is still being called.
                let db = waitlist.db();
                db.claim_messages(Channel::Mailbox, 1, db.now().await?).await?;
                handed_over = Some(began.elapsed());
            }
            if report.offered < 1_000 {
                break;
            }
        }
        let took_ours = began.elapsed();
        if called_ours != called_raw {
            return Err(DbError::LostRace("call"));
        }
        eprintln!(
            "run {run}: ours {:.1} ms, raw {:.1} ms for {called_ours} calls; the first is taken to be sent after {:.1} ms",
            millis(took_ours),
            millis(took_raw),
            millis(handed_over.unwrap_or_default())
        );
        if run > 0 {
            ours.push(took_ours);
            raw.push(took_raw);
        }
    }
    Ok(figures("notify-all", "ms", millis(median(ours)), millis(median(raw))))
}

async fn timed(
    database: &BenchDatabase,
    waitlist: &Waitlist,
    event: EventId,
    accepts: impl AsyncFn(&BenchDatabase, &Waitlist, EventId, Vec<Vec<Pending>>) -> Result<Duration, DbError>,
) -> Result<Duration, DbError> {
    database.undo(event).await?;
    waitlist.run_pass(event).await?;
    let mut shares: Vec<Vec<Pending>> = vec![Vec::new(); CLIENTS];
    for (n, pending) in database.pending(event).await?.into_iter().enumerate() {
        shares[n % CLIENTS].push(pending);
    }
    database.settle().await?;
    accepts(database, waitlist, event, shares).await
}

async fn raw_accepts(
    database: &BenchDatabase,
    _: &Waitlist,
    event: EventId,
    shares: Vec<Vec<Pending>>,
) -> Result<Duration, DbError> {
    let mut clients = tokio::task::JoinSet::new();
    let mut connections = Vec::new();
    for _ in 0..shares.len() {
        connections.push(database.connect().await?);
    }
    let began = Instant::now();
    for (share, mut connection) in shares.into_iter().zip(connections) {
        clients.spawn(async move {
            for pending in share {
                let ids = [Entropy.id(), Entropy.id()];
                BenchDatabase::raw_accept(&mut connection, event, pending.offer, ids).await?;
            }
            Ok::<(), DbError>(())
        });
    }
    finish(clients).await?;
    Ok(began.elapsed())
}

async fn our_accepts(
    _: &BenchDatabase,
    waitlist: &Waitlist,
    event: EventId,
    shares: Vec<Vec<Pending>>,
) -> Result<Duration, DbError> {
    let together = Together::new(waitlist.clone());
    let mut clients = tokio::task::JoinSet::new();
    let began = Instant::now();
    for share in shares {
        let together = together.clone();
        clients.spawn(async move {
            for Pending { offer, person } in share {
                let accept = Accept { offer, person, actor: Actor::Person(person) };
                if !matches!(together.accept(event, accept).await?, AcceptOutcome::Accepted { .. }) {
                    return Err(DbError::LostRace("offer"));
                }
            }
            Ok(())
        });
    }
    finish(clients).await?;
    Ok(began.elapsed())
}

async fn finish(mut clients: tokio::task::JoinSet<Result<(), DbError>>) -> Result<(), DbError> {
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|_| DbError::LostRace("client"))??;
    }
    Ok(())
}

pub(super) fn figures(name: &'static str, unit: &'static str, ours: f64, raw: f64) -> Figures {
    Figures { name, unit, ours: rounded(ours), raw: rounded(raw), ratio: rounded(ours / raw) }
}

pub(super) fn rounded(value: f64) -> f64 {
    (value * 1_000.0).round() / 1_000.0
}

fn millis(took: Duration) -> f64 {
    took.as_secs_f64() * 1_000.0
}

fn median(mut took: Vec<Duration>) -> Duration {
    took.sort_unstable();
    took.get(took.len() / 2).copied().unwrap_or_default()
}
