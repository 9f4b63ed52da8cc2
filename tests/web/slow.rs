//! Whoever is slow: over real connections, a place that nobody uses is given to somebody else, and whoever was cut off is
//! told so.

use std::time::Duration;

use fairlist::web::{self, Timeouts};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::{CancellationToken, DropGuard};

use super::api::Shop;
use crate::harness::world::two_hours;

/// Longer than any test waits.
const LONG: Duration = Duration::from_mins(10);

/// Short, and for a busy machine long enough to begin.
const SHORT: Duration = Duration::from_millis(300);

const PATIENT: Timeouts = Timeouts { first: LONG, next: LONG, body: LONG };

/// A server, until the guard is dropped.
struct Served {
    shop: Shop,
    address: std::net::SocketAddr,
    _until: DropGuard,
}

impl Served {
    async fn with(timeouts: Timeouts) -> Self {
        let shop = Shop::with(two_hours(), 0).await;
        let listener = TcpListener::bind("127.0.0.1:0").await.expect("a free port");
        let address = listener.local_addr().expect("an address");
        let until = CancellationToken::new();
        tokio::spawn(web::serve(listener, shop.router.clone(), timeouts, until.clone()));
        Self { shop, address, _until: until.drop_guard() }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("it listens")
    }

    /// The head of a join, whose body will have so many bytes.
    fn head(&self, length: usize) -> String {
        format!(
            "POST /v1/resources/spring/waitlist:join HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n",
            self.shop.token
        )
    }
}

/// Everything that comes until the other side hangs up.
async fn rest(connection: &mut TcpStream) -> String {
    let mut all = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(30), connection.read_to_end(&mut all)).await;
    // Whoever hangs up on what was not read yet may do it abruptly.
    drop(ended.expect("it is hung up on"));
    String::from_utf8_lossy(&all).into_owned()
}

#[tokio::test]
async fn who_connects_and_asks_nothing_is_hung_up_on() {
    let served = Served::with(Timeouts { first: SHORT, ..PATIENT }).await;
    for said in ["", "GET / HTTP/1.1\r\nHost: local"] {
        let mut connection = served.connect().await;
        connection.write_all(said.as_bytes()).await.unwrap();
        assert_eq!(rest(&mut connection).await, "");
    }
}

#[tokio::test]
async fn who_has_asked_and_asks_nothing_more_is_hung_up_on() {
    let served = Served::with(Timeouts { next: SHORT, ..PATIENT }).await;
    for said in ["", "GET / HTTP/1.1\r\nHost: local"] {
        let mut connection = served.connect().await;
        let request = format!("GET /healthz HTTP/1.1\r\nHost: localhost\r\n\r\n{said}");
        connection.write_all(request.as_bytes()).await.unwrap();
        let answers = rest(&mut connection).await;
        assert!(answers.starts_with("HTTP/1.1 200 OK") && answers.contains("ok\n"), "{answers}");
    }
}

#[tokio::test]
async fn a_body_that_does_not_come_in_time_is_refused_and_nothing_is_done() {
    let served = Served::with(Timeouts { body: SHORT, ..PATIENT }).await;
    let body = r#"{"name": "Ann", "email": "ann@example.org", "party": 1}"#;
    let key = "Idempotency-Key: once\r\nContent-Length";
    for head in [served.head(body.len()), served.head(body.len()).replace("Content-Length", key)] {
        let mut connection = served.connect().await;
        connection.write_all(format!("{head}{}", &body[..20]).as_bytes()).await.unwrap();
        let answer = rest(&mut connection).await;
        assert!(answer.starts_with("HTTP/1.1 408 "), "{answer}");
        assert!(answer.contains("application/problem+json") && answer.contains("\"too_slow\""), "{answer}");
    }
    let entries = served.shop.program.get("/v1/resources/spring/entries").await.good();
    assert_eq!(entries["items"].as_array().unwrap().len(), 0);
    // The key was not used up.
    let again = served.shop.program.once("once");
    let joined = again.post("/v1/resources/spring/waitlist:join", serde_json::from_str(body).unwrap()).await;
    assert_eq!(joined.status.as_u16(), 200, "{}", joined.json);
}

#[tokio::test]
async fn dripping_does_not_make_a_body_younger() {
    let served = Served::with(Timeouts { body: SHORT, ..PATIENT }).await;
    let (mut reading, mut writing) = served.connect().await.into_split();
    writing.write_all(served.head(100_000).as_bytes()).await.unwrap();
    let dripping = tokio::spawn(async move {
        let mut drop = tokio::time::interval(Duration::from_millis(5));
        while writing.write_all(b" ").await.is_ok() {
            drop.tick().await;
        }
    });
    let mut answer = [0; 12];
    let told = tokio::time::timeout(Duration::from_secs(30), reading.read_exact(&mut answer)).await;
    told.expect("told").expect("an answer");
    assert_eq!(&answer, b"HTTP/1.1 408");
    dripping.abort();
}

/// 64 MiB take longer than a form.
#[tokio::test]
async fn a_large_file_has_as_much_longer_as_it_takes_and_not_more() {
    let served = Served::with(Timeouts { body: SHORT, ..PATIENT }).await;
    let head = |length: usize| {
        format!(
            "POST /v1/events/spring/imports?file_name=list.csv HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\n\
             Content-Type: text/csv\r\nContent-Length: {length}\r\n\r\n",
            served.shop.token
        )
    };
    let line = "Ann,ann@example.org\n";
    let file = format!("name,email\n{}", line.repeat(4_000));
    let mut connection = served.connect().await;
    connection.write_all(format!("{}{}", head(file.len()), &file[..60_000]).as_bytes()).await.unwrap();
    // Later than a form may come; what came has earned it more than three seconds.
    tokio::time::sleep(2 * SHORT).await;
    connection.write_all(&file.as_bytes()[60_000..]).await.unwrap();
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 201");

    let mut connection = served.connect().await;
    connection.write_all(format!("{}{}", head(file.len()), &file[..8_000]).as_bytes()).await.unwrap();
    let answer = rest(&mut connection).await;
    assert!(answer.starts_with("HTTP/1.1 408 ") && answer.contains("\"too_slow\""), "{answer}");
}

#[tokio::test]
async fn a_form_that_does_not_come_in_time_is_told_so_on_a_page() {
    let served = Served::with(Timeouts { body: SHORT, ..PATIENT }).await;
    let mut connection = served.connect().await;
    let form = "POST /staff/sign-in HTTP/1.1\r\nHost: localhost\r\nSec-Fetch-Site: same-origin\r\n\
                Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 100\r\n\r\nemail=ann";
    connection.write_all(form.as_bytes()).await.unwrap();
    let answer = rest(&mut connection).await;
    // Not 408: at that browsers send everything again, and show nothing.
    assert!(
        answer.starts_with("HTTP/1.1 400 ") && answer.contains("That took too long to arrive"),
        "{answer}"
    );
}

#[tokio::test]
async fn a_body_that_comes_in_parts_is_read_whole() {
    let served = Served::with(PATIENT).await;
    let body = r#"{"name": "Ann", "email": "ann@example.org", "party": 1}"#;
    let mut connection = served.connect().await;
    for part in [&*served.head(body.len()), &body[..20], &body[20..]] {
        connection.write_all(part.as_bytes()).await.unwrap();
        connection.flush().await.unwrap();
        tokio::task::yield_now().await;
    }
    let mut answer = [0; 12];
    connection.read_exact(&mut answer).await.unwrap();
    assert_eq!(&answer, b"HTTP/1.1 200");
}
