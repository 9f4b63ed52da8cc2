//! A small box office for stories: one organization, one event, people who join, and words for what happens.
//!
//! The clock is scripted and stands still until the story moves it.

use chrono::{DateTime, Duration, Utc};
use fairlist::db::events::NewEvent;
use fairlist::db::staff::{AddStaffOutcome, NewStaff};
use fairlist::domain::attribute::{Said, Wants};
use fairlist::domain::audit::Actor;
use fairlist::domain::contact::{EmailAddress, PersonName};
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::event::EventSettings;
use fairlist::domain::ids::{BookingId, EntryId, EventId, OfferId, OrganizationId, PersonId, StaffId};
use fairlist::domain::offer::{Offer, OfferState};
use fairlist::domain::policy::{Policy, Telling};
use fairlist::domain::reason::{Reason, StaffReason};
use fairlist::domain::role::Role;
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::{Accept, AcceptOutcome, Decline, DeclineOutcome};
use fairlist::waitlist::bookings::{Book, BookOutcome};
use fairlist::waitlist::events::{CreateOutcome, RuleOutcome};
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};
use fairlist::waitlist::pass::PassReport;

use super::database::{TestDatabase, secret};

/// When stories begin: a Monday morning in Berlin.
pub const MORNING: &str = "2027-03-01T09:00:00Z";

/// See the module.
pub struct World {
    pub database: TestDatabase,
    pub waitlist: Waitlist,
    pub organization: OrganizationId,
    pub staff: StaffId,
    pub event: EventId,
}

/// The rule most stories use: offers live for two hours, whether or not anybody sends the letters.
pub fn two_hours() -> Policy {
    Policy { window: Some(Duration::hours(2)), telling: Telling::Run, ..Policy::first() }
}

/// A reason as staff give it.
pub fn reason() -> StaffReason {
    StaffReason { reason: Reason::CustomerAsked, note: None }
}

/// A name that is fit to be one.
pub fn name(text: &str) -> PersonName {
    PersonName::parse(text).expect("a name")
}

/// An address that is fit to be one.
pub fn email(text: &str) -> EmailAddress {
    EmailAddress::parse(text).expect("an address")
}

impl World {
    /// A published event four weeks ahead, with this rule and so many places.
    pub async fn with(policy: Policy, places: usize) -> Self {
        let database = TestDatabase::at(MORNING).await;
        Self::on(database, policy, places).await
    }

    /// The same on a given database.
    pub async fn on(database: TestDatabase, policy: Policy, places: usize) -> Self {
        let secret = secret();
        let waitlist = Waitlist::new(database.db().clone(), secret);
        let (organization, staff) =
            add_staff(&waitlist, "House of Music", "owner@house.example", Role::Owner).await;
        let event = add_event(&waitlist, organization, staff, "spring", policy).await;
        let world = Self { database, waitlist, organization, staff, event };
        if places > 0 {
            world.add_places(places).await;
            world.pass().await;
        }
        world
    }

    pub fn actor(&self) -> Actor {
        Actor::Staff(self.staff)
    }

    pub fn now(&self) -> DateTime<Utc> {
        self.database.clock().script().expect("a scripted clock")
    }

    /// Moves the clock.
    pub fn later(&self, by: Duration) {
        self.database.clock().set(self.now() + by);
    }

    pub async fn add_places(&self, count: usize) {
        let once =
            uuid::Uuid::from_bytes(fairlist::clock::Entropy.bytes()[..16].try_into().expect("16 bytes"))
                .to_string();
        self.waitlist
            .add_places(self.event, &vec![None; count], &Said::default(), &once, self.actor(), Reason::SetUp)
            .await
            .expect("places are added");
    }

    pub async fn pass(&self) -> PassReport {
        self.waitlist.run_pass(self.event).await.expect("a pass runs")
    }

    /// Runs requested passes until none is requested, as the worker does.
    pub async fn settle(&self) {
        for _ in 0..100 {
            self.waitlist.db().request_due_passes(false).await.expect("due passes");
            let leased =
                self.waitlist.db().lease_pass_requests(16, Duration::seconds(60)).await.expect("leases");
            if leased.is_empty() {
                return;
            }
            for (event, _) in leased {
                self.waitlist.run_pass(event).await.expect("a pass runs");
            }
        }
        panic!("passes go on without end");
    }

    /// Staff put somebody on the list: in the line at once.
    pub async fn waiting(&self, who: &str, party: i32) -> Entry {
        let join = Join {
            wants: Wants::default(),
            name: name(who),
            email: email(&format!("{}@example.org", who.to_lowercase())),
            party,
            as_whom: JoinAs::Vouched(self.actor()),
        };
        match self.waitlist.join(self.event, &[join]).await.expect("joining").pop() {
            Some(JoinOutcome::Joined(entry)) => entry,
            other => panic!("{who} joins, but: {other:?}"),
        }
    }

    /// Several at once, one place each, in this order.
    pub async fn all_waiting(&self, who: &[&str]) -> Vec<Entry> {
        let mut entries = Vec::new();
        for who in who {
            entries.push(self.waiting(who, 1).await);
        }
        entries
    }

    pub async fn entry(&self, id: EntryId) -> Entry {
        self.waitlist.db().find_entry(id).await.expect("the entry")
    }

    pub async fn state(&self, id: EntryId) -> EntryState {
        self.entry(id).await.state
    }

    /// The newest offer of an entry.
    pub async fn offer(&self, entry: EntryId) -> Option<Offer> {
        self.waitlist.db().offers_of_entry(self.event, entry).await.expect("offers").into_iter().next()
    }

    /// The live offer of an entry.
    pub async fn live_offer(&self, entry: EntryId) -> Offer {
        self.offer(entry).await.filter(|offer| offer.state == OfferState::Pending).expect("a live offer")
    }

    pub async fn accept(&self, offer: OfferId, person: PersonId) -> AcceptOutcome {
        let accept = Accept { offer, person, actor: Actor::Person(person) };
        self.waitlist.accept(self.event, &[accept]).await.expect("an answer").remove(0)
    }

    pub async fn decline(&self, offer: OfferId, person: PersonId) -> DeclineOutcome {
        let decline = Decline { offer, person, actor: Actor::Person(person) };
        self.waitlist.decline(self.event, &[decline]).await.expect("an answer").remove(0)
    }

    /// Staff book for somebody, past the waitlist.
    pub async fn booked(&self, who: &str, party: i32) -> String {
        let person = self.person(who).await;
        let book = Book {
            wants: Wants::default(),
            person,
            party,
            actor: self.actor(),
            reason: reason(),
            override_reservation: true,
            once: fairlist::clock::Entropy.id(),
        };
        match self.waitlist.book(self.event, &book).await.expect("booking") {
            BookOutcome::Booked { reference, .. } => reference,
            other => panic!("{who} is booked, but: {other:?}"),
        }
    }

    /// Somebody books one place from the public page.
    pub async fn book_as_customer(&self, person: PersonId) -> BookOutcome {
        let book = Book {
            wants: Wants::default(),
            person,
            party: 1,
            actor: Actor::Person(person),
            reason: StaffReason { reason: fairlist::domain::reason::Reason::BookedDirectly, note: None },
            override_reservation: false,
            once: fairlist::clock::Entropy.id(),
        };
        self.waitlist.book(self.event, &book).await.expect("booking")
    }

    /// Somebody known to the organization, without an entry.
    pub async fn person(&self, who: &str) -> PersonId {
        let pair = (name(who), email(&format!("{}@example.org", who.to_lowercase())));
        self.waitlist
            .db()
            .with_event(self.event, async |event| event.persons_with(std::slice::from_ref(&pair)).await)
            .await
            .expect("a person")[0]
            .id
    }

    /// The confirmed bookings of somebody.
    pub async fn bookings(&self, person: PersonId) -> Vec<BookingId> {
        self.waitlist
            .db()
            .bookings_of(self.event, person)
            .await
            .expect("bookings")
            .into_iter()
            .filter(|booking| booking.cancelled_at.is_none())
            .map(|booking| booking.id)
            .collect()
    }

    /// Cancels the first booking of somebody, by staff.
    pub async fn cancel_booking_of(&self, person: PersonId) {
        let booking = self.bookings(person).await[0];
        self.waitlist.cancel_booking(self.event, booking, self.actor(), &reason()).await.expect("cancelled");
    }

    /// Puts another version of the rule in force.
    pub async fn rule(&self, change: impl FnOnce(&mut Policy)) {
        let mut policy = self.waitlist.db().policy(self.event).await.expect("the rule");
        change(&mut policy);
        let form = self.waitlist.db().event(self.event).await.expect("the event").form_version;
        let outcome = self.waitlist.change_policy(self.event, &policy, form, self.actor(), &reason()).await;
        assert!(matches!(outcome, Ok(RuleOutcome::Saved(_))), "the rule changes, but: {outcome:?}");
    }

    /// What the newest message of this occasion knows.
    pub async fn facts(&self, person: PersonId, occasion: &str) -> serde_json::Value {
        sqlx::query_scalar(
            "SELECT facts FROM messages WHERE person_id = $1 AND occasion = $2 ORDER BY made_at DESC LIMIT 1",
        )
        .bind(person.0)
        .bind(occasion)
        .fetch_one(self.database.sql())
        .await
        .expect("a message")
    }

    /// How often somebody was told of this occasion.
    pub async fn told(&self, person: PersonId, occasion: &str) -> i64 {
        sqlx::query_scalar("SELECT count(*) FROM messages WHERE person_id = $1 AND occasion = $2")
            .bind(person.0)
            .bind(occasion)
            .fetch_one(self.database.sql())
            .await
            .expect("messages")
    }
}

/// Adds a member of staff, and the organization where it is not there.
pub async fn add_staff(
    waitlist: &Waitlist,
    organization: &str,
    address: &str,
    role: Role,
) -> (OrganizationId, StaffId) {
    let new = NewStaff { organization, email: &email(address), name: &name("Staff"), role };
    let outcome = waitlist.db().add_staff(&new, fairlist::clock::Entropy.bytes()).await.expect("staff");
    let AddStaffOutcome::Added(staff) = outcome else { panic!("staff are added, but: {outcome:?}") };
    let member = waitlist.db().staff_member(staff).await.expect("staff").expect("staff");
    (member.organization, staff)
}

/// Adds a published event four weeks ahead.
pub async fn add_event(
    waitlist: &Waitlist,
    organization: OrganizationId,
    staff: StaffId,
    slug: &str,
    policy: Policy,
) -> EventId {
    let now = waitlist.db().now().await.expect("now");
    let new = NewEvent {
        organization,
        slug: slug.to_owned(),
        settings: EventSettings {
            name: "Spring Concert".to_owned(),
            description: String::new(),
            venue: "Great Hall".to_owned(),
            zone: chrono_tz::Europe::Berlin,
            starts_at: Some(now + Duration::days(27)),
            list_opens_at: None,
            list_freezes_at: None,
        },
    };
    let outcome = waitlist.create_event(&new, &policy, Actor::Staff(staff)).await.expect("an event");
    let CreateOutcome::Created(event) = outcome else { panic!("an event is made, but: {outcome:?}") };
    waitlist.publish(event, Actor::Staff(staff), Reason::SetUp, None).await.expect("published");
    event
}
