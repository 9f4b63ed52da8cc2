//! The API, through the real router.

mod audit;
mod booking_service;
mod bookings;
mod crashes;
mod entries;
mod events;
mod feed;
mod imports;
mod journey;
mod keys;
mod once;
mod organization;
mod outside;
mod places;
mod refusals;
mod simulation;
mod status;
mod webhooks;

use axum::Router;
use fairlist::domain::audit::Actor;
use fairlist::domain::ids::CodeId;
use fairlist::domain::key::Scope;
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::domain::secret::Secret;
use fairlist::web::{self, Settings, WebState};
use serde_json::{Value, json};

use crate::harness::database::secret;
use crate::harness::program::{Program, add_key};
use crate::harness::world::{World, add_staff};

/// Why staff act, where it does not matter.
pub fn because() -> Value {
    json!({"reason": "customer_asked"})
}

/// `because`, and more.
pub fn with_reason(more: &Value) -> Value {
    let mut body = because();
    body.as_object_mut().expect("an object").extend(more.as_object().expect("an object").clone());
    body
}

/// An id of an answer.
pub fn id(answer: &Value) -> &str {
    answer["id"].as_str().expect("an id")
}

/// An event, and programs that may act on it.
pub struct Shop {
    pub world: World,
    pub router: Router,
    pub secret: Secret,
    /// With a key that is good for everything.
    pub program: Program,
    /// That key.
    pub token: String,
}

impl Shop {
    /// With this rule and so many places.
    pub async fn with(policy: Policy, places: usize) -> Self {
        Self::on(World::with(policy, places).await).await
    }

    /// Without places, where a caller may write so often a minute.
    pub async fn limited(writes: i32) -> Self {
        Self::served(World::with(crate::harness::world::two_hours(), 0).await, writes).await
    }

    /// In this world.
    pub async fn on(world: World) -> Self {
        Self::served(world, 1_000_000).await
    }

    async fn served(world: World, writes: i32) -> Self {
        let secret = secret();
        let mut settings = Settings::new("http://localhost".parse().expect("a URL"));
        settings.limits.writes = writes;
        settings.limits.joins = 1_000;
        let state = WebState::new(world.database.db().clone(), secret.clone(), settings);
        let router = web::router(state).expect("a router");
        let Actor::Staff(by) = world.actor() else { panic!("the world's actor is staff") };
        let organization = world.database.db().event(world.event).await.expect("the event").organization;
        let (_, token) = add_key(world.database.db(), organization, by, Scope::ALL).await;
        let program = Program::new(&router).with_token(&token);
        Self { world, router, secret, program, token }
    }

    /// The newest record of the event's audit.
    pub async fn last_record(&self) -> Value {
        let audit = self.program.get("/v1/events/spring/audit?limit=200").await.good();
        audit["items"].as_array().and_then(|records| records.last()).expect("a record").clone()
    }

    /// The first place of the event, as it is now.
    pub async fn first_place(&self) -> Value {
        let places = self.program.get("/v1/resources/spring/places?limit=1").await.good();
        places["items"][0].clone()
    }

    /// With a key that is good for these alone.
    pub async fn with_scopes(&self, scopes: &[Scope]) -> Program {
        let Actor::Staff(by) = self.world.actor() else { panic!("the world's actor is staff") };
        let db = self.world.database.db();
        let organization = db.event(self.world.event).await.expect("the event").organization;
        Program::new(&self.router).with_token(&add_key(db, organization, by, scopes).await.1)
    }

    /// Whether this lies in what is kept of acts under keys.
    pub async fn is_kept(&self, text: &str) -> bool {
        let sql = "SELECT EXISTS (SELECT FROM idempotency_keys
            WHERE position($1 in coalesce(convert_from(body, 'UTF8'), '') || coalesce(receipt::text, '')) > 0)";
        sqlx::query_scalar(sql).bind(text).fetch_one(self.world.database.sql()).await.expect("looked")
    }

    /// Another organization's program, with a key that is good for everything there.
    pub async fn stranger(&self) -> Program {
        let db = self.world.database.db();
        let (organization, staff) =
            add_staff(&self.world.waitlist, "Elsewhere", "olga@elsewhere.example", Role::Owner).await;
        Program::new(&self.router).with_token(&add_key(db, organization, staff, Scope::ALL).await.1)
    }

    /// A customer's program, with a token got by a code.
    pub async fn customer(&self, name: &str, email: &str) -> Program {
        let program = Program::new(&self.router);
        let request = json!({"event": "spring", "email": email, "name": name});
        let sent = program.post("/v1/codes", request).await.good();
        let code = sent["code"].as_str().expect("a code");
        let digits = self.secret.code_digits(code.parse::<CodeId>().expect("an id"));
        let path = format!("/v1/codes/{code}:enter");
        let given = program.post(&path, json!({"digits": digits})).await.good();
        program.with_token(given["token"].as_str().expect("a token"))
    }
}
