//! A reference booking service: what `tests/booking-service.yaml` says, with a ledger of its own, and misbehaviour on
//! cue. Over real HTTP; its ledger is compared with ours.

use std::collections::{BTreeMap, BTreeSet};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::body::{Body, Bytes};
use axum::extract::{Path, State};
use axum::http::{HeaderMap, StatusCode, header};
use axum::response::{IntoResponse as _, Response};
use axum::routing::{get, post, put};
use axum::{Json, Router};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinSet;
use uuid::Uuid;

use super::world::World;

/// What the service wants to be shown.
pub const KEY: &str = "opensesame-7";

/// How the service behaves; read anew at each call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Manner {
    /// Does what it is asked, and says so.
    #[default]
    Willing,
    /// Books in one step: what it reserves is confirmed.
    OneStep,
    /// 500, and nothing is done.
    Fail,
    /// Does it, and answers 500.
    DoAndFail,
    /// Does it, and never answers.
    DoAndHang,
    /// Never answers, and does nothing.
    Hang,
    /// 429 with this many seconds to wait.
    TooMany(u64),
    /// 307 to a place that counts who comes.
    Redirect,
    /// 200 and a page of HTML.
    Html,
    /// 200 and more JSON than anybody wants.
    Huge,
    /// A byte now and then, without end.
    Drip,
    /// 401: the key is wrong.
    Unauthorized,
    /// JSON that contradicts the contract.
    Garbage,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State_ {
    Reserved,
    Confirmed,
    Released,
}

#[derive(Clone, Debug)]
pub struct Reservation {
    pub state: State_,
    pub places: BTreeSet<Uuid>,
    pub reference: String,
}

#[derive(Debug, Default)]
struct Ledger {
    reservations: BTreeMap<String, Reservation>,
    /// Places that somebody bought at the box office.
    sold: BTreeSet<Uuid>,
    /// Whether a refusal says which places are gone.
    tight_lipped: bool,
    calls: Vec<String>,
    strayed: u32,
    next: u32,
}

impl Ledger {
    fn taken(&self, key: &str) -> BTreeSet<Uuid> {
        let others = self.reservations.iter().filter(|(other, _)| *other != key);
        others
            .flat_map(|(_, reservation)| reservation.places.iter().copied())
            .chain(self.sold.iter().copied())
            .collect()
    }
}

struct Shared {
    ledger: Mutex<Ledger>,
    manner: watch::Sender<Manner>,
    calls: watch::Sender<usize>,
}

impl Shared {
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().expect("nobody panics while holding it")
    }
}

/// The service; dropping it stops it.
pub struct BookingService {
    pub address: SocketAddr,
    shared: Arc<Shared>,
    _tasks: JoinSet<()>,
}

impl BookingService {
    pub async fn start() -> Self {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await.expect("a free port");
        let address = listener.local_addr().expect("a bound address");
        let shared = Arc::new(Shared {
            ledger: Mutex::default(),
            manner: watch::Sender::default(),
            calls: watch::Sender::default(),
        });
        let router = Router::new()
            .route("/reservations/{key}", put(reserve).get(look_up))
            .route("/reservations/{key}/confirm", post(confirm))
            .route("/reservations/{key}/release", post(release))
            .route("/strayed", get(strayed).put(strayed).post(strayed))
            .with_state(Arc::clone(&shared));
        let mut tasks = JoinSet::new();
        tasks.spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { address, shared, _tasks: tasks }
    }

    pub fn url(&self) -> String {
        format!("http://{}/", self.address)
    }

    pub fn set(&self, manner: Manner) {
        self.shared.manner.send_replace(manner);
    }

    /// Somebody buys the place at the box office.
    pub fn sell(&self, place: Uuid) {
        self.shared.ledger().sold.insert(place);
    }

    /// A refusal does not say which places are gone.
    pub fn say_not_which(&self) {
        self.shared.ledger().tight_lipped = true;
    }

    /// What a reservation has come to, by its key.
    pub fn reservation(&self, key: &str) -> Option<Reservation> {
        self.shared.ledger().reservations.get(key).cloned()
    }

    /// The calls so far, as `PUT key`, `confirm key`, `release key`, `GET key`.
    pub fn calls(&self) -> Vec<String> {
        self.shared.ledger().calls.clone()
    }

    /// How many of them began with this.
    pub fn called(&self, what: &str) -> usize {
        self.calls().iter().filter(|call| call.starts_with(what)).count()
    }

    /// How many followed a redirect.
    pub fn strayed(&self) -> u32 {
        self.shared.ledger().strayed
    }

    /// Waits until the service has been called so many times in all.
    pub async fn until_called(&self, times: usize) {
        let mut calls = self.shared.calls.subscribe();
        let wait = calls.wait_for(|seen| *seen >= times);
        tokio::time::timeout(Duration::from_secs(10), wait).await.expect("it is called").expect("it lives");
    }

    /// The places that are booked there, each with its reference: confirmed reservations.
    pub fn booked(&self) -> BTreeMap<Uuid, String> {
        let ledger = self.shared.ledger();
        let confirmed = ledger.reservations.values().filter(|one| one.state == State_::Confirmed);
        confirmed.flat_map(|one| one.places.iter().map(|place| (*place, one.reference.clone()))).collect()
    }

    /// Reservations that are neither confirmed nor given back.
    pub fn dangling(&self) -> Vec<String> {
        let ledger = self.shared.ledger();
        let open = ledger.reservations.iter().filter(|(_, one)| one.state == State_::Reserved);
        open.map(|(key, _)| key.clone()).collect()
    }

    /// The two ledgers say the same: each place booked there is booked here under the same reference, and the reverse;
    /// nothing is held there for nobody.
    pub async fn assert_equal(&self, world: &World) {
        let ours: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT b.place_id, b.reference FROM bookings b WHERE b.event_id = $1 AND b.state = 'confirmed' AND b.offer_id IS NOT NULL",
        )
        .bind(world.event.0)
        .fetch_all(world.database.sql())
        .await
        .expect("our bookings");
        let count = ours.len();
        let ours: BTreeMap<Uuid, String> = ours.into_iter().collect();
        assert_eq!(ours.len(), count, "a place is booked twice here");
        assert_eq!(ours, self.booked(), "the ledgers differ (here, there)");
        assert_eq!(self.dangling(), Vec::<String>::new(), "held there for nobody");
        let open: i64 =
            sqlx::query_scalar("SELECT count(*) FROM booking_attempts WHERE outcome = 'unresolved'")
                .fetch_one(world.database.sql())
                .await
                .expect("attempts");
        assert_eq!(open, 0, "something is still unresolved");
    }
}

type Service = State<Arc<Shared>>;

async fn strayed(State(shared): Service) -> StatusCode {
    shared.ledger().strayed += 1;
    StatusCode::OK
}

async fn reserve(
    State(shared): Service,
    Path(key): Path<String>,
    headers: HeaderMap,
    body: Bytes,
) -> Response {
    let asked: Value = serde_json::from_slice(&body).expect("JSON");
    let places: BTreeSet<Uuid> = asked["places"]
        .as_array()
        .expect("places")
        .iter()
        .map(|place| place["id"].as_str().expect("an id").parse().expect("an id"))
        .collect();
    assert!(!places.is_empty() && asked["customer"]["name"].is_string(), "{asked}");
    let called = format!("PUT {key}");
    answer(&shared, &headers, called, |ledger, manner| {
        let gone: Vec<Uuid> = ledger.taken(&key).intersection(&places).copied().collect();
        if let Some(known) = ledger.reservations.get(&key) {
            return said(if known.state == State_::Released { 410 } else { 200 }, &key, known);
        }
        if !gone.is_empty() {
            let named = if ledger.tight_lipped { vec![] } else { gone };
            return (409, json!({ "key": key, "state": "refused", "gone": named }));
        }
        ledger.next += 1;
        let state = if manner == Manner::OneStep { State_::Confirmed } else { State_::Reserved };
        let made = Reservation { state, places, reference: format!("BOX-{}", ledger.next) };
        ledger.reservations.insert(key.clone(), made.clone());
        said(201, &key, &made)
    })
    .await
}

async fn confirm(State(shared): Service, Path(key): Path<String>, headers: HeaderMap) -> Response {
    answer(&shared, &headers, format!("confirm {key}"), |ledger, _| match ledger.reservations.get_mut(&key) {
        None => (404, json!({ "key": key, "state": "unknown" })),
        Some(known) if known.state == State_::Released => said(410, &key, known),
        Some(known) => {
            known.state = State_::Confirmed;
            said(200, &key, known)
        }
    })
    .await
}

async fn release(
    State(shared): Service,
    Path(key): Path<String>,
    headers: HeaderMap,
    Json(asked): Json<Value>,
) -> Response {
    let places: Vec<Uuid> = serde_json::from_value(asked["places"].clone()).expect("ids");
    answer(&shared, &headers, format!("release {key}"), |ledger, _| {
        // A key that was never used is void from now on.
        let void = Reservation { state: State_::Released, places: BTreeSet::new(), reference: String::new() };
        let known = ledger.reservations.entry(key.clone()).or_insert(void);
        if places.is_empty() {
            known.places.clear();
        }
        known.places.retain(|place| !places.contains(place));
        if known.places.is_empty() {
            known.state = State_::Released;
        }
        let (status, mut body) = said(200, &key, known);
        body["released"] = json!(places);
        (status, body)
    })
    .await
}

async fn look_up(State(shared): Service, Path(key): Path<String>, headers: HeaderMap) -> Response {
    answer(&shared, &headers, format!("GET {key}"), |ledger, _| match ledger.reservations.get(&key) {
        None => (404, json!({ "key": key, "state": "unknown" })),
        Some(known) => said(200, &key, known),
    })
    .await
}

fn said(status: u16, key: &str, known: &Reservation) -> (u16, Value) {
    let state = match known.state {
        State_::Reserved => "reserved",
        State_::Confirmed => "confirmed",
        State_::Released => "released",
    };
    (status, json!({ "key": key, "state": state, "reference": known.reference }))
}

/// Does it in the manner of the hour.
async fn answer(
    shared: &Shared,
    headers: &HeaderMap,
    called: String,
    act: impl FnOnce(&mut Ledger, Manner) -> (u16, Value),
) -> Response {
    let manner = *shared.manner.borrow();
    shared.ledger().calls.push(called);
    shared.calls.send_modify(|calls| *calls += 1);
    let shown = headers.get(header::AUTHORIZATION).and_then(|value| value.to_str().ok());
    if manner == Manner::Unauthorized || shown != Some(&format!("Bearer {KEY}")) {
        return (StatusCode::UNAUTHORIZED, "who are you?").into_response();
    }
    let does = matches!(manner, Manner::Willing | Manner::OneStep | Manner::DoAndFail | Manner::DoAndHang);
    let done = does.then(|| act(&mut shared.ledger(), manner));
    let json = |status: u16, body: Vec<u8>| {
        let status = StatusCode::from_u16(status).expect("a status");
        (status, [(header::CONTENT_TYPE, "application/json")], body).into_response()
    };
    match (manner, done) {
        (Manner::Willing | Manner::OneStep, Some((status, body))) => {
            json(status, body.to_string().into_bytes())
        }
        (Manner::Fail | Manner::DoAndFail, _) => StatusCode::INTERNAL_SERVER_ERROR.into_response(),
        (Manner::TooMany(seconds), _) => {
            (StatusCode::TOO_MANY_REQUESTS, [(header::RETRY_AFTER, seconds.to_string())]).into_response()
        }
        (Manner::Redirect, _) => {
            (StatusCode::TEMPORARY_REDIRECT, [(header::LOCATION, "/strayed")]).into_response()
        }
        (Manner::Html, _) => ([(header::CONTENT_TYPE, "text/html")], "<html>welcome").into_response(),
        (Manner::Huge, _) => json(200, vec![b' '; 4 << 20]),
        (Manner::Garbage, _) => {
            json(200, b"{\"key\":\"somebody-else\",\"state\":\"confirmed\",\"reference\":\"X\"}".to_vec())
        }
        (Manner::Drip, _) => {
            let drops = futures_util::stream::unfold((), |()| async {
                tokio::time::sleep(Duration::from_millis(20)).await;
                Some((Ok::<_, std::io::Error>(Bytes::from_static(b" ")), ()))
            });
            let headers = [(header::CONTENT_TYPE, "application/json")];
            (headers, Body::from_stream(drops)).into_response()
        }
        _ => std::future::pending().await,
    }
}
