//! Another system that takes webhooks: it keeps what it was sent, and answers what the test says, path by path.

use std::collections::{HashMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex};

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, Response, Uri};
use tokio::net::TcpListener;
use tokio::sync::Notify;

/// What it was sent.
#[derive(Clone, Debug)]
pub struct Received {
    pub path: String,
    pub headers: HashMap<String, String>,
    pub body: Vec<u8>,
}

impl Received {
    pub fn header(&self, name: &str) -> &str {
        self.headers.get(name).map_or_else(|| panic!("no {name}"), String::as_str)
    }

    pub fn json(&self) -> serde_json::Value {
        serde_json::from_slice(&self.body).expect("JSON")
    }
}

/// What it answers.
#[derive(Clone, Debug)]
pub enum Answer {
    Status(u16),
    /// With one header.
    With(u16, &'static str, String),
    /// A body of so many bytes.
    Long(u16, usize),
    /// Nothing, for as long as the test lasts.
    Never,
}

#[derive(Default)]
struct Desk {
    received: Mutex<Vec<Received>>,
    /// Those that come next, and after them the last one again and again.
    answers: Mutex<HashMap<String, VecDeque<Answer>>>,
    arrived: Notify,
}

/// See the module. Where nothing was said, it answers 204.
pub struct Receiver {
    address: SocketAddr,
    desk: Arc<Desk>,
    serving: tokio::task::JoinHandle<()>,
}

impl Receiver {
    pub async fn start() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
        let address = listener.local_addr().expect("bound");
        let desk = Arc::new(Desk::default());
        let router = Router::new().fallback(take).with_state(Arc::clone(&desk));
        let serving = tokio::spawn(async move { axum::serve(listener, router).await.expect("serves") });
        Self { address, desk, serving }
    }

    pub fn address(&self) -> SocketAddr {
        self.address
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    /// From now on, below this path: these in turn, and the last of them for ever.
    pub fn answers(&self, path: &str, answers: impl IntoIterator<Item = Answer>) {
        self.desk.answers.lock().expect("answers").insert(path.to_owned(), answers.into_iter().collect());
    }

    pub fn received(&self, path: &str) -> Vec<Received> {
        let received = self.desk.received.lock().expect("received");
        received.iter().filter(|one| one.path == path).cloned().collect()
    }

    /// Waits for the next arrival, on whatever path.
    pub async fn arrival(&self) {
        self.desk.arrived.notified().await;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn take(State(desk): State<Arc<Desk>>, uri: Uri, headers: HeaderMap, body: Bytes) -> Response<Body> {
    let path = uri.path().to_owned();
    let headers = headers
        .iter()
        .map(|(name, value)| (name.to_string(), String::from_utf8_lossy(value.as_bytes()).into_owned()))
        .collect();
    desk.received.lock().expect("received").push(Received {
        path: path.clone(),
        headers,
        body: body.to_vec(),
    });
    desk.arrived.notify_one();
    let answer = {
        let mut answers = desk.answers.lock().expect("answers");
        let line = answers.entry(path).or_default();
        if line.len() > 1 { line.pop_front() } else { line.front().cloned() }
    };
    let built = match answer.unwrap_or(Answer::Status(204)) {
        Answer::Status(status) => Response::builder().status(status).body(Body::empty()),
        Answer::With(status, name, value) => {
            Response::builder().status(status).header(name, value).body(Body::from("as the test says"))
        }
        Answer::Long(status, length) => {
            Response::builder().status(status).body(Body::from("x".repeat(length)))
        }
        Answer::Never => std::future::pending().await,
    };
    built.expect("an answer")
}
