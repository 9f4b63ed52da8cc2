//! The real program, killed at the worst moments: what was committed is told, once, and nothing is lost.

use std::time::{Duration, Instant};

use fairlist::domain::audit::Actor;
use fairlist::domain::entry::Entry;
use fairlist::domain::key::Scope;
use fairlist::domain::offer::Offer;
use fairlist::domain::outside::ServiceUrl;
use fairlist::domain::policy::{Mode, Policy};
use fairlist::waitlist::answer::{Accept, AcceptOutcome};
use fairlist::waitlist::booking_settings::{BookAt, BookAtOutcome};
use nix::sys::signal::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::process::Command;
use tokio::task::JoinSet;

use crate::harness::booking_service::{self, BookingService};
use crate::harness::database::{SECRET, TestDatabase};
use crate::harness::patience::until;
use crate::harness::program::add_key;
use crate::harness::smtp::SmtpServer;
use crate::harness::world::{World, two_hours};
use crate::program::{Running, fairlist, run};

/// A box office, its database and its mail server; the program comes and goes.
struct Office {
    world: World,
    server: SmtpServer,
}

impl Office {
    async fn open() -> Self {
        Self::with(two_hours()).await
    }

    async fn with(policy: Policy) -> Self {
        let world = World::on(TestDatabase::new().await, policy, 0).await;
        Self { world, server: SmtpServer::start().await }
    }

    fn program(&self, kill_at: Option<&str>) -> Command {
        let mut command = fairlist(&["serve", "--listen", "127.0.0.1:0"]);
        command
            .env("DATABASE_URL", self.world.database.url())
            .env("FAIRLIST_SECRET", SECRET)
            .env("FAIRLIST_SMTP_URL", format!("smtp://{}", self.server.address()))
            .env("FAIRLIST_MAIL_FROM", "tickets@example.org");
        if let Some(point) = kill_at {
            command.env("FAIRLIST_KILL_AT", point);
        }
        command
    }

    /// Runs the program until it dies at that point.
    async fn dies_at(&self, point: &str) {
        let status = Running::start(self.program(Some(point))).ended().await;
        assert_eq!(
            std::os::unix::process::ExitStatusExt::signal(&status),
            Some(Signal::SIGKILL as i32),
            "{point}"
        );
    }

    async fn serve(&self) -> Running {
        let mut program = Running::start(self.program(None));
        program.says("Fairlist is at").await;
        program
    }

    /// The lease of whoever died is over.
    async fn leases_end(&self) {
        for statement in [
            "UPDATE messages SET leased_until = clock_timestamp() WHERE state = 'sending'",
            "UPDATE pass_requests SET leased_until = clock_timestamp() WHERE leased_until IS NOT NULL",
        ] {
            sqlx::query(statement).execute(self.world.database.sql()).await.unwrap();
        }
    }

    /// Waits until nothing is to be sent.
    async fn all_told(&self) {
        until("every message is sent", Duration::from_mins(1), async || {
            let open: i64 =
                sqlx::query_scalar("SELECT count(*) FROM messages WHERE state IN ('queued', 'sending')")
                    .fetch_one(self.world.database.sql())
                    .await
                    .unwrap();
            open == 0
        })
        .await;
    }

    /// One in line, and a place that no pass has given yet.
    async fn a_place_for(&self, who: &str) -> Entry {
        let entry = self.world.waiting(who, 1).await;
        self.world.add_places(1).await;
        entry
    }

    async fn offer(&self, entry: &Entry) -> Offer {
        self.world.live_offer(entry.id).await
    }

    /// Message-IDs of the mails that offer something, in order.
    fn offers_sent(&self) -> Vec<String> {
        let mails = self.server.mails();
        mails
            .iter()
            .filter(|mail| mail.text().contains("/o/"))
            .map(|mail| mail.header("message-id"))
            .collect()
    }
}

#[tokio::test]
async fn killed_after_the_offer_is_committed_and_before_the_mail() {
    let office = Office::open().await;
    let entry = office.a_place_for("Ann").await;
    // The pass's own commit is the first that the program makes under an event's lock.
    office.dies_at("commit.after").await;
    let offer = office.offer(&entry).await;
    assert!(office.offers_sent().is_empty(), "nobody was told");

    office.leases_end().await;
    let program = office.serve().await;
    office.all_told().await;
    assert_eq!(office.offers_sent().len(), 1, "told once");
    assert_eq!(office.offer(&entry).await.expires_at, offer.expires_at, "the deadline is the one promised");
    program.stop().await;
}

#[tokio::test]
async fn killed_before_the_commit_nothing_has_happened() {
    let office = Office::open().await;
    let entry = office.a_place_for("Ann").await;
    office.dies_at("commit.before").await;
    assert!(office.world.offer(entry.id).await.is_none());

    office.leases_end().await;
    let program = office.serve().await;
    office.all_told().await;
    while office.offers_sent().is_empty() {
        office.server.next_mail().await;
    }
    assert_eq!(office.offers_sent().len(), 1);
    program.stop().await;
}

#[tokio::test]
async fn killed_between_claim_and_send_it_is_sent_after_the_lease() {
    let office = Office::open().await;
    office.a_place_for("Ann").await;
    office.world.settle().await;
    office.dies_at("message.claimed").await;
    assert!(office.server.mails().is_empty());

    office.leases_end().await;
    let program = office.serve().await;
    office.all_told().await;
    assert_eq!(office.offers_sent().len(), 1);
    program.stop().await;
}

/// bcgov/entity#20354, svsticky/constipated-koala#910: a notice arrived twice, and nobody could tell.
#[tokio::test]
async fn killed_after_the_server_said_yes_a_duplicate_is_recognisable() {
    let office = Office::open().await;
    office.a_place_for("Ann").await;
    office.world.settle().await;
    office.dies_at("message.sent").await;
    let before = office.server.mails().len();
    assert!(before > 0, "it was handed over");

    office.leases_end().await;
    let program = office.serve().await;
    office.all_told().await;
    let sent = office.offers_sent();
    assert!((1..=2).contains(&sent.len()), "at most one duplicate: {sent:?}");
    assert!(sent.iter().all(|id| *id == sent[0]), "under the same Message-ID: {sent:?}");
    program.stop().await;
}

#[tokio::test]
async fn killed_between_two_passes_of_a_large_call_another_process_calls_the_others() {
    let office = Office::with(Policy { mode: Mode::NotifyAll, ..two_hours() }).await;
    let names: Vec<String> = (0..1_020).map(|n| format!("Guest{n}")).collect();
    office.world.all_waiting(&names.iter().map(String::as_str).collect::<Vec<_>>()).await;
    office.world.add_places(1).await;
    office.dies_at("commit.after").await;
    let how_far = async || {
        let event = office.world.database.db().event(office.world.event).await.unwrap();
        event.large_call.map(|call| (call.told, call.total, call.is_under_way()))
    };
    assert_eq!(how_far().await, Some((1_000, 1_020, true)));

    office.leases_end().await;
    let program = office.serve().await;
    until("everybody is called", Duration::from_mins(1), async || {
        how_far().await == Some((1_020, 1_020, false))
    })
    .await;
    program.stop().await;
    let counts: (i64, i64, i64) = sqlx::query_as(
        "SELECT count(*), count(DISTINCT o.entry_id), (SELECT count(*) FROM messages WHERE occasion = 'call') FROM offers o",
    )
    .fetch_one(office.world.database.sql())
    .await
    .unwrap();
    assert_eq!(counts, (1_020, 1_020, 1_020), "nobody twice, and nobody left out");
}

/// A program that accepts, and the service that has the places.
struct Shop {
    office: Office,
    service: BookingService,
    offer: Offer,
    token: String,
}

impl Shop {
    async fn open() -> Self {
        let office = Office::open().await;
        let service = BookingService::start().await;
        let at = BookAt::Service {
            url: ServiceUrl::parse(&service.url()).unwrap(),
            key: Some(booking_service::KEY.to_owned()),
        };
        let (world, waitlist) = (&office.world, &office.world.waitlist);
        let saved = waitlist.set_booking(world.event, &at, world.actor()).await.unwrap();
        assert_eq!(saved, BookAtOutcome::Saved);
        let entry = office.a_place_for("Ann").await;
        office.world.settle().await;
        let offer = office.offer(&entry).await;
        let world = &office.world;
        let (_, token) =
            add_key(world.database.db(), world.organization, world.staff, &[Scope::OffersWrite]).await;
        Self { office, service, offer, token }
    }

    /// The program dies at that point of an accept; nobody gets an answer.
    async fn dies_accepting_at(&self, point: &str) {
        let mut program = Running::start(self.office.program(Some(point)));
        program.says("Fairlist is at").await;
        let body = r#"{"reason": "customer_asked"}"#;
        let request = format!(
            "POST /v1/offers/{}:accept HTTP/1.1\r\nHost: localhost\r\nAuthorization: Bearer {}\r\nIdempotency-Key: once\r\n\
             Content-Type: application/json\r\nContent-Length: {}\r\n\r\n{body}",
            self.offer.id,
            self.token,
            body.len()
        );
        let mut connection = program.connect().await;
        connection.write_all(request.as_bytes()).await.unwrap();
        let mut answer = Vec::new();
        // However the connection ends.
        let _ = connection.read_to_end(&mut answer).await;
        assert_eq!(String::from_utf8_lossy(&answer), "");
        let status = program.ended().await;
        assert_eq!(std::os::unix::process::ExitStatusExt::signal(&status), Some(Signal::SIGKILL as i32));
    }

    async fn keys(&self) -> Vec<(String, String)> {
        sqlx::query_as("SELECT key, outcome FROM booking_attempts ORDER BY number")
            .fetch_all(self.office.world.database.sql())
            .await
            .unwrap()
    }

    /// Whoever asked is gone: the attempt is due.
    async fn lease_ends(&self) {
        sqlx::query(
            "UPDATE booking_attempts SET leased_until = clock_timestamp(), next_try_at = clock_timestamp()",
        )
        .execute(self.office.world.database.sql())
        .await
        .unwrap();
    }

    /// Started again it finishes what was begun, and `fairlist check` finds nothing.
    async fn finishes(&self) {
        let key = self.keys().await[0].0.clone();
        self.lease_ends().await;
        self.office.leases_end().await;
        let program = self.office.serve().await;
        until("it is booked", Duration::from_mins(1), async || {
            self.keys().await == [(key.clone(), "succeeded".to_owned())]
        })
        .await;
        self.office.all_told().await;
        let checking = || {
            let mut check = fairlist(&["check"]);
            check.env("DATABASE_URL", self.office.world.database.url()).env("FAIRLIST_SECRET", SECRET);
            check
        };
        // What was just recorded is on its way into the feed.
        run(checking()).await.succeeded();
        program.stop().await;
        run(checking()).await.succeeded();
        assert_eq!(self.service.booked().len(), 1, "{:?}", self.service.calls());
        self.service.assert_equal(&self.office.world).await;
        let calls = self.service.calls();
        assert!(calls.iter().all(|call| call.ends_with(&key)), "{calls:?}");
    }
}

#[tokio::test]
async fn killed_before_the_booking_service_is_called() {
    let shop = Shop::open().await;
    shop.dies_accepting_at("booking.call").await;
    assert!(shop.service.calls().is_empty(), "{:?}", shop.service.calls());
    assert_eq!(shop.keys().await.len(), 1, "the intent is written down");
    shop.finishes().await;
}

#[tokio::test]
async fn killed_after_the_booking_service_said_yes() {
    let shop = Shop::open().await;
    shop.dies_accepting_at("booking.called").await;
    assert_eq!(shop.service.booked().len(), 1, "it is booked there");
    assert_eq!(shop.keys().await[0].1, "unresolved", "and nobody here knows");
    // Whoever is to find out dies, too: before asking, and after.
    for point in ["booking.call", "booking.called"] {
        shop.lease_ends().await;
        shop.office.dies_at(point).await;
    }
    shop.finishes().await;
    assert_eq!(shop.service.called("PUT"), 1, "{:?}", shop.service.calls());
}

#[tokio::test]
async fn told_to_stop_under_load_it_finishes_what_it_began() {
    let office = Office::open().await;
    let mut guests = Vec::new();
    for n in 0..20 {
        guests.push(office.world.waiting(&format!("Guest{n}"), 1).await);
    }
    let program = office.serve().await;
    office.world.add_places(20).await;

    // Customers accept while it is told to stop in the middle of its mails.
    let mut accepting = JoinSet::new();
    for guest in guests.clone() {
        let (waitlist, event) = (office.world.waitlist.clone(), office.world.event);
        accepting.spawn(async move {
            // Not `until`: what its closure borrows cannot be shown to be `Send`.
            let mut looks = tokio::time::interval(Duration::from_millis(20));
            let offer = loop {
                looks.tick().await;
                if let Some(offer) = waitlist.db().offers_of_entry(event, guest.id).await.unwrap().pop() {
                    break offer;
                }
            };
            let accept = Accept { offer: offer.id, person: guest.person, actor: Actor::Person(guest.person) };
            waitlist.accept(event, &[accept]).await.unwrap().remove(0)
        });
    }
    office.server.next_mail().await;
    let since = Instant::now();
    program.stop().await;
    assert!(since.elapsed() < Duration::from_secs(20), "in time: {:?}", since.elapsed());
    for outcome in accepting.join_all().await {
        assert!(matches!(outcome, AcceptOutcome::Accepted { .. }), "{outcome:?}");
    }
    let charged: i64 = sqlx::query_scalar(
        "SELECT count(*) FROM messages WHERE state = 'sending' OR (state = 'queued' AND attempts > 0)",
    )
    .fetch_one(office.world.database.sql())
    .await
    .unwrap();
    assert_eq!(charged, 0, "no lease is left, no attempt is charged");

    let program = office.serve().await;
    office.all_told().await;
    program.stop().await;
    let mut ids: Vec<String> = office.server.mails().iter().map(|mail| mail.header("message-id")).collect();
    let all = ids.len();
    ids.sort();
    ids.dedup();
    assert_eq!(ids.len(), all, "every mail once");
}
