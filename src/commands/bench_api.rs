//! `fairlist bench api`: how many requests a second the API answers over real connections, beside a handler that answers a
//! constant on the same machine in the same run.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use reqwest::{Client, RequestBuilder};
use tokio::net::TcpListener;
use tokio::task::JoinSet;
use tokio_util::sync::{CancellationToken, DropGuard};

use super::Failure;
use super::bench::{Figures, figures, rounded};
use crate::clock::Entropy;
use crate::db::keys::NewKey;
use crate::domain::audit::Actor;
use crate::domain::ids::{KeyId, OrganizationId, StaffId};
use crate::domain::key::{KEY_PREFIX, KeyName, Scope, hint};
use crate::domain::secret::{Secret, token_hash};
use crate::tls::Trust;
use crate::waitlist::Waitlist;
use crate::web::{self, Settings, Timeouts, WebState};

/// So many ask at once, each on a connection of its own, one request after the other.
const CONNECTIONS: usize = 64;

/// Each side is asked for so long, in turn, so often; the medians are compared.
const LASTS: Duration = Duration::from_secs(3);
const RUNS: usize = 3;

fn failed(problem: impl std::fmt::Display) -> Failure {
    Failure::Outcome(problem.to_string())
}

/// Reading how things stand for somebody, and joining as somebody new.
pub(super) async fn api(
    waitlist: &Waitlist,
    secret: Secret,
    organization: OrganizationId,
    staff: StaffId,
) -> Result<Vec<Figures>, Failure> {
    let db = waitlist.db();
    let token = format!("{KEY_PREFIX}{}", hex::encode(Entropy.bytes()));
    let expires_at = db.now().await? + chrono::Duration::days(1);
    let name = KeyName::parse("Bench").map_err(failed)?;
    let new = NewKey { name, scopes: vec![Scope::EntriesRead, Scope::EntriesWrite], expires_at };
    let (id, shown) = (KeyId(Entropy.id()), (token_hash(&token), hint(&token)));
    db.add_key(id, organization, &new, (shown.0, &shown.1), Actor::Staff(staff)).await?;

    let mut settings = Settings::new("http://localhost".parse().map_err(failed)?);
    settings.limits.writes = i32::MAX;
    let state = WebState::new(db.clone(), secret, settings);
    let (constant, _served) = serve(web::constant()).await?;
    let (ours, _served_too) = serve(web::router(state).map_err(failed)?).await?;
    let client = Client::builder()
        .tls_backend_preconfigured(Trust::default().client().map_err(failed)?)
        .no_proxy()
        .pool_max_idle_per_host(CONNECTIONS)
        .build()
        .map_err(failed)?;

    let number = Arc::new(AtomicU64::new(0));
    let ask_constant = {
        let client = client.clone();
        move || client.get(format!("http://{constant}/"))
    };
    let join = {
        let (client, token, number) = (client.clone(), token.clone(), Arc::clone(&number));
        move || {
            let n = number.fetch_add(1, Ordering::Relaxed);
            let body = format!(r#"{{"name": "Ada {n}", "email": "ada{n}@bench.example", "party": 1}}"#);
            let request = client.post(format!("http://{ours}/v1/resources/bench/waitlist:join")).body(body);
            request.header("host", "localhost").header("content-type", "application/json").bearer_auth(&token)
        }
    };
    let status = {
        let asked = AtomicU64::new(0);
        move || {
            let n = asked.fetch_add(1, Ordering::Relaxed) % number.load(Ordering::Relaxed).max(1);
            let address = format!("http://{ours}/v1/resources/bench/my-status?email=ada{n}@bench.example");
            client.get(address).header("host", "localhost").bearer_auth(&token)
        }
    };
    let (ask_constant, join, status) = (Arc::new(ask_constant), Arc::new(join), Arc::new(status));
    let mut rates = [Vec::new(), Vec::new(), Vec::new()];
    for run in 0..=RUNS {
        let now = [
            rate(Arc::clone(&ask_constant)).await?,
            rate(Arc::clone(&join)).await?,
            rate(Arc::clone(&status)).await?,
        ];
        eprintln!(
            "run {run}: constant {:.0}, join {:.0}, my-status {:.0} requests/s",
            now[0], now[1], now[2]
        );
        // The first run of each warms up and is not counted.
        if run > 0 {
            for (rates, now) in rates.iter_mut().zip(now) {
                rates.push(now);
            }
        }
    }
    let [constant, join, status] = rates.map(median);
    // What a request costs, in requests that answer a constant.
    let beside = |name, ours: f64| Figures {
        ratio: rounded(constant / ours),
        ..figures(name, "requests/s", ours, constant)
    };
    Ok(vec![beside("api my-status", status), beside("api join", join)])
}

async fn serve(router: web::Routes) -> Result<(SocketAddr, DropGuard), Failure> {
    let listener = TcpListener::bind("127.0.0.1:0").await.map_err(failed)?;
    let address = listener.local_addr().map_err(failed)?;
    let stopping = CancellationToken::new();
    tokio::spawn(web::serve(listener, router, Timeouts::default(), stopping.clone()));
    Ok((address, stopping.drop_guard()))
}

/// Requests a second.
#[expect(clippy::cast_precision_loss, reason = "counts are small")]
async fn rate(ask: Arc<impl Fn() -> RequestBuilder + Send + Sync + 'static>) -> Result<f64, Failure> {
    let began = Instant::now();
    let mut clients = JoinSet::new();
    for _ in 0..CONNECTIONS {
        let ask = Arc::clone(&ask);
        clients.spawn(async move {
            let mut answered = 0_u64;
            while began.elapsed() < LASTS {
                let answer = ask().send().await?.error_for_status()?;
                answer.bytes().await?;
                answered += 1;
            }
            Ok::<_, reqwest::Error>(answered)
        });
    }
    let mut answered = 0;
    while let Some(ended) = clients.join_next().await {
        answered += ended.map_err(failed)?.map_err(failed)?;
    }
    Ok(answered as f64 / began.elapsed().as_secs_f64())
}

fn median(mut rates: Vec<f64>) -> f64 {
    rates.sort_by(f64::total_cmp);
    rates[rates.len() / 2]
}
