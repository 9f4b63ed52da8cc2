//! Mail: what it says, how it is handed over, and what becomes of it when that fails.

mod contacts;
mod failures;
mod leases;
mod letters;
mod outages;
mod sending;
mod tls;

use std::sync::Arc;
use std::time::Duration;

use fairlist::domain::ids::{MessageId, PersonId};
use fairlist::domain::message::{Facts, Occasion};
use fairlist::domain::policy::Policy;
use fairlist::messages::smtp::Server;
use fairlist::messages::{Mailer, Outcome, Relay, Settings};
use sqlx::Row as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::harness::database::secret;
use crate::harness::smtp::SmtpServer;
use crate::harness::world::{World, two_hours};

/// A box office with a mail server.
struct Office {
    world: World,
    server: SmtpServer,
    settings: Arc<Settings>,
    stopping: CancellationToken,
}

/// A message as its row says.
#[derive(Debug)]
struct Row {
    state: String,
    attempts: i32,
    note: Option<String>,
}

impl Office {
    async fn open() -> Self {
        Self::with(|url| url).await
    }

    /// A server at an address that the test changes.
    async fn with(address: impl FnOnce(String) -> String) -> Self {
        Self::under(two_hours(), address).await
    }

    /// The same with this rule.
    async fn under(rule: Policy, address: impl FnOnce(String) -> String) -> Self {
        let world = World::with(rule, 0).await;
        let server = SmtpServer::start().await;
        let relay = Relay {
            server: Server::parse(&address(format!("smtp://{}", server.address()))).expect("an address"),
            from: "waitlist@fairlist.example".parse().expect("a sender"),
        };
        let mut settings = settings(Some(relay));
        settings.stop_timeout = Duration::from_millis(100);
        Self { world, server, settings: Arc::new(settings), stopping: CancellationToken::new() }
    }

    fn mailer(&self) -> Mailer {
        Mailer::new(self.world.waitlist.db(), Arc::clone(&self.settings), self.stopping.clone())
    }

    /// One that waits no longer than this for an answer. The others of a test keep the usual time limit, so that a
    /// busy machine does not make them give up.
    fn impatient(&self, send_timeout: Duration) -> Mailer {
        let settings = Settings { send_timeout, ..(*self.settings).clone() };
        Mailer::new(self.world.waitlist.db(), Arc::new(settings), self.stopping.clone())
    }

    /// Works until nothing is due.
    async fn drain(&self) {
        drain(&mut self.mailer()).await;
    }

    /// Somebody who is told that an event was cancelled: a message without an offer.
    async fn told(&self, who: &str) -> (PersonId, MessageId) {
        let person = self.world.person(who).await;
        (person, self.message(person, Occasion::EventCancelled, Facts::default()).await)
    }

    async fn message(&self, person: PersonId, occasion: Occasion, facts: Facts) -> MessageId {
        let facts = serde_json::to_value(facts).expect("facts");
        self.raw_message(person, occasion.as_str(), fairlist::clock::Entropy.id(), facts).await
    }

    async fn raw_message(
        &self,
        person: PersonId,
        occasion: &str,
        subject: Uuid,
        facts: serde_json::Value,
    ) -> MessageId {
        let id = fairlist::clock::Entropy.id();
        sqlx::query(
            "INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, facts, state, made_at,
                                   next_attempt_at)
             VALUES ($1, $2, $3, $4, $5, $6, $7, 'queued', $8, $8)",
        )
        .bind(self.world.event.0)
        .bind(id)
        .bind(self.world.organization.0)
        .bind(person.0)
        .bind(occasion)
        .bind(subject)
        .bind(facts)
        .bind(self.world.now())
        .execute(self.world.database.sql())
        .await
        .expect("a message");
        MessageId(id)
    }

    async fn row(&self, message: MessageId) -> Row {
        let row = sqlx::query("SELECT state, attempts, note FROM messages WHERE id = $1")
            .bind(message.0)
            .fetch_one(self.world.database.sql())
            .await
            .expect("the message");
        Row { state: row.get(0), attempts: row.get(1), note: row.get(2) }
    }

    /// The outcomes of its deliveries, oldest first.
    async fn outcomes(&self, message: MessageId) -> Vec<String> {
        sqlx::query_scalar(
            "SELECT coalesce(outcome, 'running') FROM deliveries WHERE message_id = $1 ORDER BY attempt",
        )
        .bind(message.0)
        .fetch_all(self.world.database.sql())
        .await
        .expect("deliveries")
    }
}

pub(super) fn settings(smtp: Option<Relay>) -> Settings {
    let base_url = "https://fairlist.example".parse().expect("a URL");
    Settings::new(base_url, secret(), smtp)
}

pub(super) async fn drain(mailer: &mut Mailer) {
    for _ in 0..1_000 {
        if !matches!(mailer.tick().await.expect("a tick"), Outcome::Worked(_)) {
            mailer.hang_up().await;
            return;
        }
    }
    panic!("the outbox does not become empty");
}
