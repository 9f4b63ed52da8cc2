//! What customers do: through the real router, with codes and links as they stand in their mails.

mod complaints;
mod entries;
mod join;
mod look;
mod offers;
mod privacy;

use axum::Router;
use chrono::Duration;
use fairlist::domain::event::ListState;
use fairlist::domain::ids::{CodeId, EntryId, OfferId};
use fairlist::domain::policy::Policy;
use fairlist::domain::secret::Secret;
use fairlist::waitlist::staff_offers::AfterRevoke;
use fairlist::web::{self, Limits, Settings, WebState};

use crate::harness::database::secret;
use crate::harness::visitor::{Answer, Visitor};
use crate::harness::world::{World, reason};

/// A box office with its pages.
pub struct Booth {
    pub world: World,
    pub router: Router,
    pub secret: Secret,
}

impl Booth {
    /// With this rule and so many places; nobody hits a limit by accident.
    pub async fn with(policy: Policy, places: usize) -> Self {
        Self::limited(policy, places, 1_000).await
    }

    /// With so many joins an hour.
    pub async fn limited(policy: Policy, places: usize, joins: i32) -> Self {
        let world = World::with(policy, places).await;
        // The same as the world's, so that its tokens and codes are right here.
        let secret = secret();
        let settings = Settings {
            limits: Limits { joins, ..Limits::default() },
            ..Settings::new("http://localhost".parse().expect("a URL"))
        };
        let state = WebState::new(world.database.db().clone(), secret.clone(), settings);
        Self { world, router: web::router(state).expect("a router"), secret }
    }

    /// A device that nobody has used here before.
    pub fn visitor(&self) -> Visitor {
        Visitor::new(&self.router)
    }

    /// The digits that were sent for the code page at this address.
    pub fn digits(&self, code_page: &str) -> String {
        let id: CodeId = code_page.trim_start_matches("/code/").parse().expect("the address of a code page");
        self.secret.code_digits(id)
    }

    /// The link of an offer, as it stands in the mail.
    pub fn link(&self, offer: OfferId) -> String {
        format!("/o/{}", self.secret.offer_token(offer, 0))
    }

    /// Fills in the event's join form; the answer leads to the code page.
    pub async fn fill_in(&self, visitor: &mut Visitor, name: &str, email: &str, party: &str) -> Answer {
        visitor.get("/e/spring").await;
        visitor.post("/e/spring/join", &[("name", name), ("email", email), ("party", party)]).await
    }

    /// Joins and confirms: the page that comes then, and the entry.
    pub async fn join(&self, visitor: &mut Visitor, name: &str, email: &str) -> (Answer, EntryId) {
        let answer = self.fill_in(visitor, name, email, "1").await;
        let page = answer.location().expect("the code page");
        visitor.get(&page).await;
        let digits = self.digits(&page);
        let answer = visitor.post(&page, &[("digits", &digits)]).await;
        let entry = answer.location().expect("the entry's page");
        let id = entry.trim_start_matches("/me/entries/").parse().expect("an entry");
        (visitor.get(&entry).await, id)
    }

    /// Signs a new device in with an address.
    pub async fn signed_in(&self, email: &str) -> Visitor {
        let mut visitor = self.visitor();
        visitor.get("/sign-in").await;
        let page = visitor.post("/sign-in", &[("email", email)]).await.location().expect("the code page");
        visitor.get(&page).await;
        let answer = visitor.post(&page, &[("digits", &self.digits(&page))]).await;
        assert_eq!(answer.location().as_deref(), Some("/me"), "{}", answer.body);
        visitor.get("/me").await;
        visitor
    }

    /// Staff open, freeze or close the list.
    pub async fn list(&self, to: ListState) {
        let world = &self.world;
        world.waitlist.set_list(world.event, to, world.actor(), &reason()).await.expect("the list changes");
    }

    /// Staff cancel the event.
    pub async fn cancel_event(&self) {
        let world = &self.world;
        world.waitlist.cancel_event(world.event, world.actor(), &reason()).await.expect("cancelled");
    }

    /// Staff take an offer back, and leave the rest for later.
    pub async fn revoke(&self, offer: OfferId) {
        let world = &self.world;
        world
            .waitlist
            .revoke(world.event, offer, AfterRevoke::SetAside, world.actor(), &reason())
            .await
            .expect("revoked");
    }

    /// Moves the clock.
    pub fn later(&self, by: Duration) {
        self.world.later(by);
    }

    /// A number that a query gives.
    pub async fn count(&self, sql: &'static str) -> i64 {
        sqlx::query_scalar(sql).fetch_one(self.world.database.sql()).await.expect("a number")
    }
}
