//! The staff's desk in the box office of [`World`]: people of every role, signed in, at the program's own pages.

use std::sync::Arc;

use axum::Router;
use chrono::Duration;
use fairlist::db::staff::{AddStaffOutcome, NewStaff};
use fairlist::domain::contact::{EmailAddress, PersonName};
use fairlist::domain::password::NewPassword;
use fairlist::domain::policy::Policy;
use fairlist::domain::role::Role;
use fairlist::messages;
use fairlist::web::{self, Settings, WebState};

use super::database::secret;
use super::site::{PASSWORD, sign_in};
use super::visitor::{Answer, Visitor};
use super::world::World;

/// Where [`World`]'s staff work.
pub const HOUSE: &str = "House of Music";

pub struct Desk {
    pub world: World,
    pub router: Router,
    pub mail: Arc<messages::Settings>,
}

impl Desk {
    /// A published event with this rule and so many places.
    pub async fn with(policy: Policy, places: usize) -> Self {
        let base = "http://localhost".parse().expect("a URL");
        Self::writing(policy, places, messages::Settings::new(base, secret(), None)).await
    }

    /// The same, at the address and with the mail of these settings.
    pub async fn writing(policy: Policy, places: usize, mail: messages::Settings) -> Self {
        let world = World::with(policy, places).await;
        let mail = Arc::new(mail);
        // Stories move the clock by hours, and whoever is at the desk stays there.
        let settings = Settings { staff_idle: Duration::hours(12), ..Settings::new(mail.base_url.clone()) };
        let state =
            WebState::new(world.database.db().clone(), secret(), settings).with_mail(Arc::clone(&mail));
        Self { router: web::router(state).expect("a router"), world, mail }
    }

    /// Somebody of this name and role, signed in.
    pub async fn at_work(&self, name: &str, role: Role) -> Visitor {
        self.at_work_for(HOUSE, name, role).await
    }

    /// The same, for another organization.
    pub async fn at_work_for(&self, organization: &str, name: &str, role: Role) -> Visitor {
        let address = self.hired_by(organization, name, role).await;
        let mut visitor = Visitor::new(&self.router);
        let answer = sign_in(&mut visitor, &address, PASSWORD).await;
        assert_eq!(answer.status.as_u16(), 303, "{}", answer.body);
        visitor
    }

    /// Somebody of this name and role, who signs in with this address and [`PASSWORD`].
    pub async fn hired_by(&self, organization: &str, name: &str, role: Role) -> String {
        let address = format!("{}@staff.example", name.to_lowercase());
        let email = EmailAddress::parse(&address).expect("an address");
        let name = PersonName::parse(name).expect("a name");
        let new = NewStaff { organization, email: &email, name: &name, role };
        let db = self.world.database.db();
        let id = match db.add_staff(&new, fairlist::clock::Entropy.bytes()).await.expect("added") {
            AddStaffOutcome::Added(id) => id,
            other => panic!("{other:?}"),
        };
        let hash = NewPassword::parse(PASSWORD, &[]).expect("good").hash([1; 16]).expect("hashed");
        db.set_password(id, &hash).await.expect("set");
        address
    }

    /// An address below the event's.
    pub fn path(&self, below: &str) -> String {
        format!("/staff/events/{}{below}", self.world.event)
    }
}

/// The page's words without the marks that keep names of another direction apart.
pub fn plain(answer: &Answer) -> String {
    answer.text("body").replace(['\u{2068}', '\u{2069}'], "")
}

/// Fails with the page's words unless it says so.
#[track_caller]
pub fn says(answer: &Answer, sentence: &str) {
    let text = plain(answer);
    assert!(text.contains(sentence), "{}: not {sentence:?} in: {text}", answer.status);
}

/// Fails if the page says so.
#[track_caller]
pub fn does_not_say(answer: &Answer, sentence: &str) {
    let text = plain(answer);
    assert!(!text.contains(sentence), "{}: {sentence:?} in: {text}", answer.status);
}
