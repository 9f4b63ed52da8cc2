//! `--extra-ca-certs`: the program believes the authorities of a file, whomever it calls, and nobody besides.

use std::path::Path;
use std::time::Duration;

use fairlist::clock::Entropy;
use fairlist::domain::ids::WebhookId;
use fairlist::domain::key::Scope;
use fairlist::domain::offer::Offer;
use fairlist::domain::outside::ServiceUrl;
use fairlist::domain::transition::Kind;
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};

use crate::harness::booking_service::{self, BookingService};
use crate::harness::database::{SECRET, TestDatabase};
use crate::harness::patience::until;
use crate::harness::program::add_key;
use crate::harness::receiver::{Answer, Receiver};
use crate::harness::smtp::SmtpServer;
use crate::harness::tls::{Authority, TlsFront};
use crate::harness::world::{World, two_hours};
use crate::program::{Running, fairlist};

/// Everybody whom a program calls, each behind TLS, and an offer that waits for its answer.
struct House {
    world: World,
    authority: Authority,
    mail: SmtpServer,
    shop: Receiver,
    collector: Receiver,
    booking: BookingService,
    /// Before the mail server, the shop, the collector and the booking service.
    fronts: [TlsFront; 4],
    offer: Offer,
    token: String,
}

impl House {
    async fn open() -> Self {
        let world = World::on(TestDatabase::new().await, two_hours(), 0).await;
        let authority = Authority::new();
        let before = async |address| TlsFront::before(address, authority.identity("localhost")).await;
        let (mail, booking) = (SmtpServer::start().await, BookingService::start().await);
        let (shop, collector) = (Receiver::start().await, Receiver::start().await);
        collector.answers("/v1/traces", [Answer::Status(200)]);
        let fronts = [
            before(mail.address()).await,
            before(shop.address()).await,
            before(collector.address()).await,
            before(booking.address).await,
        ];

        let url = ServiceUrl::parse(&format!("https://localhost:{}/", fronts[3].port())).unwrap();
        let at = BookAt::Service { url, key: Some(booking_service::KEY.to_owned()) };
        let saved = world.waitlist.set_booking(world.event, &at, world.actor()).await.unwrap();
        assert_eq!(saved, BookAtOutcome::Saved);
        let db = world.database.db();
        let hook = format!("https://localhost:{}/hook", fronts[1].port());
        let id = WebhookId(Entropy.id());
        let added =
            db.add_webhook(world.organization, id, &hook, &[Kind::OfferAccepted], world.actor()).await;
        assert!(added.unwrap());
        let entry = world.waiting("Ann", 1).await;
        world.add_places(1).await;
        world.settle().await;
        let offer = world.live_offer(entry.id).await;
        let (_, token) = add_key(db, world.organization, world.staff, &[Scope::OffersWrite]).await;
        Self { world, authority, mail, shop, collector, booking, fronts, offer, token }
    }

    async fn serve(&self, believed: Option<&Path>) -> Running {
        let mut command = fairlist(&["serve", "--listen", "127.0.0.1:0", "--private-webhooks"]);
        command
            .env("DATABASE_URL", self.world.database.url())
            .env("FAIRLIST_SECRET", SECRET)
            .env("FAIRLIST_SMTP_URL", format!("smtps://localhost:{}", self.fronts[0].port()))
            .env("FAIRLIST_MAIL_FROM", "tickets@example.org")
            .env("OTEL_EXPORTER_OTLP_ENDPOINT", format!("https://localhost:{}", self.fronts[2].port()));
        if let Some(file) = believed {
            command.arg("--extra-ca-certs").arg(file);
        }
        let mut program = Running::start(command);
        program.says("Fairlist is at").await;
        program
    }

    /// Accepts the offer through the program, and gives its answer.
    async fn accept(&self, program: &Running, once: &str) -> (String, Value) {
        let body = r#"{"reason": "customer_asked"}"#;
        let request = format!(
            "POST /v1/offers/{}:accept HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nIdempotency-Key: {once}\r\n\
             Connection: close\r\nContent-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.offer.id,
            self.token,
            body.len()
        );
        let mut connection = program.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        connection.read_to_string(&mut answer).await.unwrap();
        let (head, body) = answer.split_once("\r\n\r\n").unwrap();
        (head.lines().next().unwrap().to_owned(), serde_json::from_str(body).unwrap_or(Value::Null))
    }

    /// How many were good, and whether any was broken off.
    fn handshakes(&self) -> [(usize, bool); 4] {
        self.fronts.each_ref().map(|front| (front.handshakes().good, front.handshakes().broken > 0))
    }
}

#[tokio::test]
async fn whoever_is_called_is_believed_by_the_authorities_of_the_file() {
    let house = House::open().await;
    let file = house.authority.file();
    let program = house.serve(Some(file.path())).await;
    house.mail.mail_that_says("ann@example.org", "It is your turn").await;
    let (status, said) = house.accept(&program, "once").await;
    assert_eq!((status.as_str(), &said["reference"]), ("HTTP/1.1 200 OK", &json!("BOX-1")), "{said}");
    until("the shop is told", Duration::from_mins(1), async || !house.shop.received("/hook").is_empty())
        .await;
    // What was not sent yet is sent at the end.
    program.stop().await;
    assert!(!house.collector.received("/v1/traces").is_empty());
    house.booking.assert_equal(&house.world).await;
    assert!(house.handshakes().iter().all(|(good, broken)| *good > 0 && !broken), "{:?}", house.handshakes());
}

#[tokio::test]
async fn without_the_file_nobody_is_told_anything() {
    let house = House::open().await;
    let program = house.serve(None).await;
    let db = house.world.database.db();
    until("the mail server is in trouble", Duration::from_mins(1), async || {
        db.channel_trouble().await.unwrap().is_some_and(|trouble| trouble.reason.contains("not trusted"))
    })
    .await;
    let (status, said) = house.accept(&program, "once").await;
    assert_eq!(
        (status.as_str(), &said["code"]),
        ("HTTP/1.1 503 Service Unavailable", &json!("booking_unavailable")),
        "{said}"
    );
    program.stop().await;
    assert!(house.mail.mails().is_empty());
    assert!(house.collector.received("/v1/traces").is_empty());
    assert_eq!(house.booking.calls(), Vec::<String>::new());
    // Who called last may be gone before the other side has noticed.
    until("everybody was called", Duration::from_mins(1), async || {
        let [mail, _, collector, booking] = house.handshakes();
        [mail, collector, booking] == [(0, true); 3]
    })
    .await;
    assert_eq!(house.handshakes()[1], (0, false), "nothing happened that the shop is told");
}

#[tokio::test]
async fn a_file_that_holds_no_authority_is_refused_by_name() {
    let directory = tempfile::tempdir().unwrap();
    let file = |name: &str, text: &str| {
        let path = directory.path().join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    let broken = "-----BEGIN CERTIFICATE-----\nbm90IG9uZQ==\n-----END CERTIFICATE-----\n";
    let wrong = [
        (directory.path().join("missing.pem"), "cannot be read"),
        (directory.path().to_owned(), "cannot be read"),
        (file("empty.pem", ""), "holds no certificate"),
        (
            file("key.pem", "-----BEGIN PRIVATE KEY-----\nAAAA\n-----END PRIVATE KEY-----\n"),
            "holds no certificate",
        ),
        (file("cut.pem", "-----BEGIN CERTIFICATE-----\nAAAA\n"), "cannot be read"),
        (file("nonsense.pem", broken), "number 1"),
    ];
    for (path, why) in wrong {
        let mut command = fairlist(&["serve"]);
        command.env("FAIRLIST_EXTRA_CA_CERTS", &path);
        let said = crate::program::run(command).await;
        said.failed(1, &["--extra-ca-certs", "FAIRLIST_EXTRA_CA_CERTS", path.to_str().unwrap(), why]);
    }
}
