//! A site to visit: a database, the program's router, and staff who can sign in.

use axum::Router;
use chrono::Duration;
use fairlist::db::Db;
use fairlist::db::staff::{AddStaffOutcome, NewStaff};
use fairlist::domain::contact::{EmailAddress, PersonName};
use fairlist::domain::ids::StaffId;
use fairlist::domain::password::NewPassword;
use fairlist::domain::role::Role;
use fairlist::domain::secret::{Secret, token_hash};
use fairlist::web::{self, Settings, WebState};

use super::database::TestDatabase;
use super::visitor::{Answer, Visitor};

/// The password of everybody added by [`Site::staff`].
pub const PASSWORD: &str = "seven green teapots";

/// Where everybody added by [`Site::staff`] works.
pub const ORGANIZATION: &str = "Town Theatre";

/// The instant at which a scripted site stands.
pub const START: &str = "2027-03-01T10:00:00Z";

pub struct Site {
    pub database: TestDatabase,
    pub router: Router,
    pub state: WebState,
}

/// What handlers get, in tests: the secret is the same everywhere.
pub fn state(db: &Db, base: &str) -> WebState {
    let secret = Secret::new(vec![7; 32]).expect("long enough");
    WebState::new(db.clone(), secret, Settings::new(base.parse().expect("a URL")))
}

impl Site {
    /// The program's own pages, at [`START`].
    pub async fn new() -> Self {
        Self::with(START, "http://localhost", |state| web::router(state).expect("a router")).await
    }

    /// With a router of the test's own.
    pub async fn with(start: &str, base: &str, router: impl FnOnce(WebState) -> Router) -> Self {
        let database = TestDatabase::at(start).await;
        let state = state(database.db(), base);
        Self { router: router(state.clone()), state, database }
    }

    /// Somebody with an empty cookie jar.
    pub fn visitor(&self) -> Visitor {
        Visitor::new(&self.router)
    }

    /// Moves the scripted clock.
    pub fn later(&self, by: Duration) {
        let clock = self.database.clock();
        clock.set(clock.local() + by);
    }

    /// Adds somebody to [`ORGANIZATION`] and gives the token of their one-time link.
    pub async fn add_staff(&self, email: &str, role: Role) -> (StaffId, String) {
        let token = hex::encode(self.database.db().entropy().bytes());
        let email = EmailAddress::parse(email).expect("an address");
        let name = PersonName::parse("Ada Lovelace").expect("a name");
        let new = NewStaff { organization: ORGANIZATION, email: &email, name: &name, role };
        match self.database.db().add_staff(&new, token_hash(&token)).await.expect("added") {
            AddStaffOutcome::Added(id) | AddStaffOutcome::LinkRenewed(id) => (id, token),
            other => panic!("{other:?}"),
        }
    }

    /// Adds somebody to [`ORGANIZATION`] with [`PASSWORD`].
    pub async fn staff(&self, email: &str, role: Role) -> StaffId {
        let (id, _) = self.add_staff(email, role).await;
        let hash = NewPassword::parse(PASSWORD, &[]).expect("good").hash([1; 16]).expect("hashed");
        self.database.db().set_password(id, &hash).await.expect("set");
        id
    }

    /// Somebody of the staff at work.
    pub async fn signed_in(&self, email: &str) -> Visitor {
        let mut visitor = self.visitor();
        let answer = sign_in(&mut visitor, email, PASSWORD).await;
        assert_eq!(answer.status.as_u16(), 303, "{}", answer.body);
        visitor
    }
}

/// Fills in the sign-in page.
pub async fn sign_in(visitor: &mut Visitor, email: &str, password: &str) -> Answer {
    visitor.get("/staff/sign-in").await;
    visitor.post("/staff/sign-in", &[("email", email), ("password", password)]).await
}
