//! Webhooks against a real receiver: what arrives, how often, when, and where nothing must.

mod tls;

use std::io::Write as _;
use std::net::IpAddr;
use std::process::{Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use chrono::{DateTime, Duration, Utc};
use fairlist::db::feed::Wanted;
use fairlist::db::webhooks::{Rotated, Webhook};
use fairlist::domain::ids::WebhookId;
use fairlist::domain::transition::{Kind, Transition};
use fairlist::domain::webhook::{DeliveryState, Stopped, Verdict, shown};
use fairlist::webhooks::{Names, Outcome, Sender, Settings};
use fairlist::workers::feed::Relay;
use fairlist::workers::{Next, Worker as _};
use tokio_util::sync::CancellationToken;

use crate::harness::database::{TestDatabase, secret};
use crate::harness::receiver::{Answer, Received, Receiver};
use crate::harness::report::report;
use crate::harness::world::{World, two_hours};

/// An organization, another system, and what sends from one to the other.
struct Wire {
    world: World,
    receiver: Receiver,
    sender: Sender,
}

impl Wire {
    async fn new() -> Self {
        Self::on(World::with(two_hours(), 0).await).await
    }

    async fn on(world: World) -> Self {
        let sender = sender(&world, Settings::new(secret()).private(true));
        Self { world, receiver: Receiver::start().await, sender }
    }

    async fn endpoint(&self, url: &str, kinds: &[Kind]) -> WebhookId {
        // What was recorded while the event was set up is of the past.
        self.fed().await;
        let id = WebhookId(fairlist::clock::Entropy.id());
        let db = self.world.database.db();
        let added = db.add_webhook(self.world.organization, id, url, kinds, self.world.actor()).await;
        assert!(added.expect("added"));
        id
    }

    /// One that is told of who joins.
    async fn of_joins(&self, path: &str) -> WebhookId {
        self.endpoint(&self.receiver.url(path), &[Kind::EntryWaiting]).await
    }

    async fn fed(&self) {
        let mut relay = Relay::new(self.world.database.db());
        while relay.tick().await.expect("a tick") != Next::Rest {}
    }

    /// Everything that is due is sent, and what became of it is noted.
    async fn sent(&mut self) {
        self.fed().await;
        for _ in 0..1_000 {
            let outcome = self.sender.tick().await.expect("a tick");
            self.sender.finish().await;
            if outcome == Outcome::Idle {
                return;
            }
        }
        panic!("what is to be sent does not come to an end");
    }

    async fn webhook(&self, id: WebhookId) -> Webhook {
        self.world.database.db().webhook(self.world.organization, id).await.expect("it is there")
    }

    /// How the newest delivery fared: state, status, detail.
    async fn newest(&self, id: WebhookId) -> (DeliveryState, Option<i32>, String) {
        let db = self.world.database.db();
        let log = db.webhook_deliveries(self.world.organization, id, None, None, 1).await.expect("a log");
        let line = log.into_iter().next().expect("a delivery");
        (line.state, line.status, line.detail.unwrap_or_default())
    }

    /// The next instant at which the endpoint may be called.
    async fn next_at(&self) -> Option<DateTime<Utc>> {
        sqlx::query_scalar(
            "SELECT max(at) FROM (SELECT min(next_attempt_at) AS at FROM webhook_deliveries WHERE state = 'queued'
                                  UNION ALL SELECT paused_until FROM webhooks WHERE stopped IS NULL) a
             WHERE EXISTS (SELECT FROM webhook_deliveries WHERE state = 'queued')
               AND EXISTS (SELECT FROM webhooks WHERE stopped IS NULL)",
        )
        .fetch_one(self.world.database.sql())
        .await
        .expect("an instant")
    }
}

fn sender(world: &World, settings: Settings) -> Sender {
    Sender::new(world.database.db(), settings, CancellationToken::new()).expect("a sender")
}

fn positions(received: &[Received]) -> Vec<i64> {
    received.iter().map(|one| one.json()["data"]["position"].as_i64().expect("a position")).collect()
}

#[tokio::test]
async fn an_endpoint_is_sent_what_the_feed_says_once_and_in_order() {
    let mut wire = Wire::new().await;
    let id = wire.endpoint(&wire.receiver.url("/all"), &[]).await;
    wire.of_joins("/joins").await;
    let before = wire.webhook(id).await.position;
    let ann = wire.world.waiting("Ann", 1).await;
    wire.world.add_places(1).await;
    wire.world.settle().await;
    wire.world.accept(wire.world.live_offer(ann.id).await.id, ann.person).await;
    wire.sent().await;
    wire.sent().await;

    let mut received = wire.receiver.received("/all");
    received.sort_by_key(|one| one.json()["data"]["position"].as_i64());
    let feed = wire.world.database.db();
    let wanted = Wanted { after: before, ..Wanted::default() };
    let feed = feed.transitions(wire.world.organization, &wanted, 100).await.unwrap().transitions;
    let said: Vec<_> = feed.iter().map(|transition| serde_json::to_value(transition).unwrap()).collect();
    assert_eq!(received.iter().map(Received::json).collect::<Vec<_>>(), said);
    let ids: Vec<&str> = received.iter().map(|one| one.header("webhook-id")).collect();
    assert_eq!(ids, feed.iter().map(Transition::id).collect::<Vec<_>>());
    assert!(received.iter().all(|one| one.header("content-type") == "application/json"));
    assert_eq!(wire.receiver.received("/joins").len(), 1, "only what it wants");
    assert_eq!(wire.newest(id).await, (DeliveryState::Delivered, Some(204), String::new()));
}

/// The reference implementation, not ours, says whether signatures are good; its clock is the real one.
#[tokio::test]
async fn signatures_verify_by_the_reference_library_before_during_and_after_a_rotation() {
    let mut wire = Wire::on(World::on(TestDatabase::new().await, two_hours(), 0).await).await;
    let id = wire.of_joins("/signed").await;
    let organization = wire.world.organization;
    let key = |generation| shown(&secret().webhook_key(organization, id, generation));
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    let db = wire.world.database.db().clone();
    let staff = wire.world.actor();
    assert_eq!(db.rotate_webhook(organization, id, 1, staff).await.unwrap(), Rotated::To(2));
    assert_eq!(db.rotate_webhook(organization, id, 1, staff).await.unwrap(), Rotated::Elsewhere);
    wire.world.waiting("Ben", 1).await;
    wire.sent().await;
    sqlx::query("UPDATE webhooks SET old_until = clock_timestamp()")
        .execute(wire.world.database.sql())
        .await
        .unwrap();
    wire.world.waiting("Cleo", 1).await;
    db.test_webhook(organization, id, staff).await.unwrap();
    wire.sent().await;

    let received = wire.receiver.received("/signed");
    assert_eq!(received.len(), 4);
    let mut lines = String::new();
    let mut case = |one: &Received, generation: i32, good: bool| {
        let body = String::from_utf8(one.body.clone()).unwrap();
        let line = serde_json::json!({ "secret": key(generation), "headers": one.headers, "body": body, "good": good });
        lines.push_str(&line.to_string());
        lines.push('\n');
    };
    for (one, good) in received.iter().zip([[true, false], [true, true], [false, true], [false, true]]) {
        case(one, 1, good[0]);
        case(one, 2, good[1]);
    }
    let mut altered = received[0].clone();
    altered.body.extend_from_slice(b" ");
    case(&altered, 1, false);
    assert_eq!(verified(&lines), "9 as they should\n");
}

/// What the reference library says of these.
fn verified(lines: &str) -> String {
    let python = std::env::var("FAIRLIST_TEST_PYTHON").expect(
        "this test needs Python with tests/requirements.txt: run it by `tests/run [NAME]`, which installs them, \
         or set FAIRLIST_TEST_PYTHON",
    );
    let script = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/webhook_check.py");
    let mut child = Command::new(python)
        .arg(script)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("Python starts");
    child.stdin.take().expect("piped").write_all(lines.as_bytes()).expect("read");
    let output = child.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).expect("text")
}

#[tokio::test]
async fn a_broken_endpoint_is_tried_for_three_days_then_stopped_and_loses_nothing() {
    let mut wire = Wire::new().await;
    let id = wire.of_joins("/broken").await;
    wire.receiver.answers("/broken", [Answer::With(503, "x-why", "maintenance".to_owned())]);
    let began = wire.world.now();
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    assert_eq!(wire.newest(id).await, (DeliveryState::Queued, Some(503), "as the test says".to_owned()));
    while let Some(next) = wire.next_at().await {
        wire.world.database.clock().set(next);
        wire.sent().await;
    }
    let tried = wire.receiver.received("/broken");
    let took = wire.world.now() - began;
    report(&format!("tried {} times in {} hours", tried.len(), took.num_hours()));
    assert!((15..40).contains(&tried.len()), "{} times", tried.len());
    assert!(took >= Duration::days(3) && took < Duration::hours(72 + 8), "{took}");
    assert!(tried.iter().all(|one| one.header("webhook-id") == tried[0].header("webhook-id")));
    let stamps: Vec<&str> = tried.iter().map(|one| one.header("webhook-timestamp")).collect();
    assert!(stamps.windows(2).all(|pair| pair[0] < pair[1]), "each attempt is signed anew: {stamps:?}");
    let webhook = wire.webhook(id).await;
    assert_eq!(webhook.stopped.map(|(why, _)| why), Some(Stopped::Failing));
    assert_eq!(wire.newest(id).await.0, DeliveryState::Dead);

    // Meanwhile nothing is sent, and when it works again nothing is left out.
    wire.world.waiting("Ben", 1).await;
    wire.sent().await;
    assert_eq!(wire.receiver.received("/broken").len(), tried.len());
    wire.receiver.answers("/broken", [Answer::Status(200)]);
    let db = wire.world.database.db().clone();
    assert!(db.start_webhook(wire.world.organization, id, wire.world.actor()).await.unwrap());
    let dead = positions(&tried)[0];
    let again =
        db.replay_webhook(wire.world.organization, id, (dead, dead), true, wire.world.actor()).await.unwrap();
    assert_eq!(again, 1);
    wire.sent().await;
    let mut last = positions(&wire.receiver.received("/broken")[tried.len()..]);
    last.sort_unstable();
    assert_eq!((last.len(), last[0]), (2, dead));
    let acts: Vec<String> = sqlx::query_scalar(
        "SELECT act || ' by ' || actor FROM organization_audit WHERE subject = 'webhook' ORDER BY seq",
    )
    .fetch_all(wire.world.database.sql())
    .await
    .unwrap();
    assert_eq!(acts, ["added by staff", "stopped by system", "started by staff", "replayed by staff"]);
}

#[tokio::test]
async fn an_endpoint_that_is_gone_is_stopped_at_once() {
    let mut wire = Wire::new().await;
    let id = wire.of_joins("/gone").await;
    wire.receiver.answers("/gone", [Answer::Status(410)]);
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    wire.world.waiting("Ben", 1).await;
    wire.sent().await;
    assert_eq!(wire.receiver.received("/gone").len(), 1);
    assert_eq!(wire.webhook(id).await.stopped.map(|(why, _)| why), Some(Stopped::Gone));
    // Started again, it is sent what it refused, and what came since.
    wire.receiver.answers("/gone", [Answer::Status(200)]);
    let (db, by) = (wire.world.database.db(), wire.world.actor());
    assert!(db.start_webhook(wire.world.organization, id, by).await.expect("started"));
    wire.sent().await;
    assert_eq!(wire.receiver.received("/gone").len(), 3);
    assert_eq!(wire.newest(id).await.0, DeliveryState::Delivered);
}

#[tokio::test]
async fn an_endpoint_that_asks_for_a_rest_is_given_it() {
    let mut wire = Wire::new().await;
    wire.of_joins("/busy").await;
    wire.receiver.answers("/busy", [Answer::With(429, "retry-after", "600".to_owned()), Answer::Status(200)]);
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    wire.world.waiting("Ben", 1).await;
    wire.world.later(Duration::seconds(599));
    wire.sent().await;
    assert_eq!(wire.receiver.received("/busy").len(), 1, "nor is anything else sent to it");
    wire.world.later(Duration::seconds(1));
    wire.sent().await;
    assert_eq!(wire.receiver.received("/busy").len(), 3);
}

#[tokio::test]
async fn a_redirect_is_not_followed_and_a_long_answer_not_read() {
    let mut wire = Wire::new().await;
    let id = wire.of_joins("/moved").await;
    let target = wire.receiver.url("/target");
    wire.receiver.answers("/moved", [Answer::With(307, "location", target), Answer::Long(500, 50_000_000)]);
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    let (state, status, detail) = wire.newest(id).await;
    assert_eq!((state, status), (DeliveryState::Queued, Some(307)));
    assert!(detail.contains("not followed"), "{detail}");
    assert!(wire.receiver.received("/target").is_empty());

    wire.world.later(Duration::minutes(1));
    wire.sent().await;
    let (_, status, detail) = wire.newest(id).await;
    assert_eq!((status, detail.len()), (Some(500), 200));
}

#[tokio::test]
async fn an_endpoint_that_never_answers_delays_no_other() {
    let mut wire = Wire::new().await;
    let settings =
        Settings { timeout: std::time::Duration::from_mins(5), ..Settings::new(secret()).private(true) };
    wire.sender = sender(&wire.world, settings);
    wire.of_joins("/slow").await;
    wire.of_joins("/fast").await;
    wire.receiver.answers("/slow", [Answer::Never]);
    for n in 0..20 {
        wire.world.waiting(&format!("Guest{n}"), 1).await;
    }
    wire.fed().await;
    while wire.receiver.received("/fast").len() < 20 {
        wire.sender.tick().await.unwrap();
        tokio::select! {
            () = wire.receiver.arrival() => {}
            () = wire.sender.hinted() => {}
        }
    }
    assert_eq!(wire.receiver.received("/slow").len(), 4, "no more than its slots");
}

#[tokio::test]
async fn an_answer_is_not_waited_for_for_ever() {
    let mut wire = Wire::new().await;
    let settings =
        Settings { timeout: std::time::Duration::from_millis(500), ..Settings::new(secret()).private(true) };
    wire.sender = sender(&wire.world, settings);
    let id = wire.of_joins("/silent").await;
    wire.receiver.answers("/silent", [Answer::Never]);
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    let (state, status, detail) = wire.newest(id).await;
    assert_eq!((state, status), (DeliveryState::Queued, None));
    assert!(detail.contains("No answer within"), "{detail}");
}

/// Names lead where the test says.
struct Told {
    to: Vec<IpAddr>,
    asked: AtomicUsize,
}

#[async_trait::async_trait]
impl Names for Told {
    async fn addresses(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        self.asked.fetch_add(1, Ordering::SeqCst);
        Ok(self.to.clone())
    }
}

#[tokio::test]
async fn nothing_is_sent_into_private_networks_whatever_a_name_says() {
    let mut wire = Wire::new().await;
    let literal = wire.of_joins("/private").await;
    let named = wire
        .endpoint(&format!("https://shop.example:{}/private", wire.receiver.port()), &[Kind::EntryWaiting])
        .await;
    let resolver = Arc::new(Told {
        to: vec!["127.0.0.1".parse().unwrap(), "::1".parse().unwrap()],
        asked: AtomicUsize::new(0),
    });
    wire.sender = sender(
        &wire.world,
        Settings { names: Arc::clone(&resolver) as Arc<dyn Names>, ..Settings::new(secret()) },
    );
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    assert!(wire.receiver.received("/private").is_empty());
    let (_, status, detail) = wire.newest(named).await;
    assert_eq!(status, None);
    assert!(detail.contains("127.0.0.1"), "{detail}");
    // Asked once, and connected to what was looked at: a second answer would not even be heard.
    assert_eq!(resolver.asked.load(Ordering::SeqCst), 1);
    assert!(wire.newest(literal).await.2.contains("https"), "not encrypted either");
}

#[tokio::test]
async fn where_a_setting_allows_it_a_name_may_lead_into_a_private_network() {
    let mut wire = Wire::new().await;
    wire.endpoint(&format!("http://shop.internal:{}/private", wire.receiver.port()), &[Kind::EntryWaiting])
        .await;
    let names = Arc::new(Told { to: vec!["127.0.0.1".parse().unwrap()], asked: AtomicUsize::new(0) });
    let settings =
        Settings { names: Arc::clone(&names) as Arc<dyn Names>, ..Settings::new(secret()).private(true) };
    wire.sender = sender(&wire.world, settings);
    wire.world.waiting("Ann", 1).await;
    wire.sent().await;
    assert_eq!((wire.receiver.received("/private").len(), names.asked.load(Ordering::SeqCst)), (1, 1));
}

#[tokio::test]
async fn a_worker_that_lost_its_lease_changes_nothing() {
    let mut wire = Wire::new().await;
    let id = wire.of_joins("/late").await;
    wire.world.waiting("Ann", 1).await;
    wire.fed().await;
    let db = wire.world.database.db().clone();
    db.queue_deliveries(wire.world.now()).await.unwrap();
    let lost = db.claim_deliveries(10, wire.world.now()).await.unwrap().remove(0);
    wire.world.later(Duration::seconds(61));
    wire.sent().await;
    assert_eq!(wire.receiver.received("/late").len(), 1, "another took it over");
    let failed = Verdict::Failed { status: Some(500), detail: "late".to_owned(), retry_after: None };
    assert!(!db.note_delivery(&lost, &failed, wire.world.now()).await.unwrap());
    assert_eq!(wire.newest(id).await.0, DeliveryState::Delivered);
    assert_eq!(wire.webhook(id).await.failures, 0);
}

#[tokio::test]
async fn a_range_is_sent_again_under_the_same_ids_also_from_before_the_endpoint_was_there() {
    let mut wire = Wire::new().await;
    wire.world.waiting("Early", 1).await;
    let id = wire.of_joins("/again").await;
    for n in 0..4 {
        wire.world.waiting(&format!("Guest{n}"), 1).await;
    }
    wire.sent().await;
    let first = wire.receiver.received("/again");
    assert_eq!(first.len(), 4);
    let (db, organization, staff) =
        (wire.world.database.db().clone(), wire.world.organization, wire.world.actor());
    let at = positions(&first);
    let (low, high) = (*at.iter().min().unwrap(), *at.iter().max().unwrap());
    assert_eq!(db.replay_webhook(organization, id, (low + 1, high - 1), false, staff).await.unwrap(), 2);
    assert_eq!(
        db.replay_webhook(organization, id, (low + 1, high - 1), false, staff).await.unwrap(),
        0,
        "they wait already"
    );
    wire.sent().await;
    let again = &wire.receiver.received("/again")[4..];
    assert_eq!(again.len(), 2);
    for one in again {
        assert!(
            first
                .iter()
                .any(|old| old.header("webhook-id") == one.header("webhook-id") && old.body == one.body)
        );
    }
    assert_eq!(db.replay_webhook(organization, id, (1, i64::MAX), false, staff).await.unwrap(), 5);
    wire.sent().await;
    assert_eq!(wire.receiver.received("/again").len(), 4 + 2 + 5);
}
