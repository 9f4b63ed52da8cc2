//! The demonstration: a house with a sold-out concert, a yoga class and a passive list, made by the same use cases
//! that everybody uses, on a clock that runs through the last days. Same people each time; all dates are relative
//! to the first start.

use chrono::{DateTime, Duration, DurationRound, Utc};

use super::Waitlist;
use super::answer::{Accept, Decline};
use super::attributes::AttributesOutcome;
use super::bookings::Book;
use super::events::CreateOutcome;
use super::import::{self, Request, StartOutcome};
use super::join::{Join, JoinAs, JoinOutcome};
use super::staff_offers::AfterRevoke;
use crate::clock::Entropy;
use crate::db::events::NewEvent;
use crate::db::outbox::Finished;
use crate::db::staff::{AddStaffOutcome, NewStaff};
use crate::db::{Db, DbError};
use crate::domain::attribute::{Attribute, Measure, Said, Typed, Wants};
use crate::domain::audit::Actor;
use crate::domain::contact::{EmailAddress, PersonName};
use crate::domain::delivery::{Channel, Verdict};
use crate::domain::entry::PausedBy;
use crate::domain::event::EventSettings;
use crate::domain::ids::{EntryId, EventId, OrganizationId, PersonId, StaffId};
use crate::domain::import::{Mapping, Table};
use crate::domain::offer::{Offer, OfferState};
use crate::domain::policy::{Fit, Policy};
use crate::domain::reason::{Reason, StaffReason};
use crate::domain::role::Role;

/// The house.
pub const ORGANIZATION: &str = "House of Music";

/// The event that is made last: when it is published, the demonstration is whole.
pub const LAST_EVENT: &str = "ceramics";

/// The address of the member of staff with this role.
#[must_use]
pub fn address(role: Role) -> String {
    format!("{role}@demo.example")
}

/// The waiting list of the concert, as another product exported it.
const WAITING_LIST: &[u8] = include_bytes!("../../tests/data/pretix-waitinglist.csv");

/// How long the story is that the demonstration tells.
const STORY: Duration = Duration::days(6);

const GUESTS: [&str; 52] = [
    "Adaeze Obi",
    "Akira Mori",
    "Alma Lindqvist",
    "Amir Haddad",
    "Ana Sousa",
    "Anton Weber",
    "Aoife Byrne",
    "Beatriz Prado",
    "Bogdan Ilić",
    "Camille Roux",
    "Carlos Vega",
    "Chiara Conti",
    "Dafydd Rees",
    "Daniela Novak",
    "Dmitri Sokolov",
    "Ebba Holm",
    "Elif Kaya",
    "Emeka Eze",
    "Esther Blum",
    "Farid Rahimi",
    "Fatou Diop",
    "Fiona Grant",
    "Gesa Petersen",
    "Giorgos Vlachos",
    "Hana Kim",
    "Henrik Dahl",
    "Ines Moreau",
    "Ivo Horvat",
    "Jana Dvořák",
    "Joost de Wit",
    "Kamala Iyer",
    "Karl Brandt",
    "Leila Nasser",
    "Luca Bianchi",
    "Maeve Walsh",
    "Mateo Silva",
    "Mina Park",
    "Nadia Popov",
    "Noor Aziz",
    "Oskar Berg",
    "Paula Ortiz",
    "Priya Nair",
    "Quentin Marsh",
    "Rosa Delgado",
    "Sami Laine",
    "Signe Krogh",
    "Tariq Malik",
    "Uma Devi",
    "Viktor Hahn",
    "Wanda Zielińska",
    "Yusuf Demir",
    "Zoë Martin",
];

/// What stops the demonstration from being made.
#[derive(Debug, thiserror::Error)]
pub enum DemonstrationError {
    /// What the database says.
    #[error(transparent)]
    Database(#[from] DbError),
    /// A step did not come out as it must: a bug.
    #[error("the demonstration could not be made: {0}")]
    Step(&'static str),
}

use DemonstrationError::Step;

/// A storyteller with a clock of its own.
struct Teller {
    waitlist: Waitlist,
    organization: OrganizationId,
    owner: StaffId,
    agent: StaffId,
}

/// Makes the demonstration in an empty database. `waitlist` must decide by a scripted clock, standing at the present;
/// `password_hash` is that of every member of staff.
///
/// # Errors
/// What the database says, or a step that did not come out as it must.
pub async fn make(waitlist: &Waitlist, password_hash: &str) -> Result<(), DemonstrationError> {
    let present = waitlist.db().now().await?;
    let clock = waitlist.db().clock();
    clock.set(present - STORY);
    let mut members = Vec::new();
    for role in Role::ALL {
        members.push(add_member(waitlist.db(), *role, password_hash).await?);
    }
    let member = waitlist.db().staff_member(members[0]).await?.ok_or(Step("no staff"))?;
    let find = |role: Role| Role::ALL.iter().position(|other| *other == role).map(|at| members[at]);
    let teller = Teller {
        waitlist: waitlist.clone(),
        organization: member.organization,
        owner: find(Role::Owner).ok_or(Step("no owner"))?,
        agent: find(Role::Agent).ok_or(Step("no agent"))?,
    };
    teller.concert(present).await?;
    clock.set(present - Duration::days(2));
    teller.yoga(present).await?;
    clock.set(present - Duration::days(1));
    teller.ceramics().await?;
    clock.set(present);
    Ok(())
}

async fn add_member(db: &Db, role: Role, password_hash: &str) -> Result<StaffId, DemonstrationError> {
    let name = match role {
        Role::Viewer => "Vera Viewer",
        Role::Agent => "Aidan Agent",
        Role::Manager => "Mona Manager",
        Role::Owner => "Olga Owner",
    };
    let new = NewStaff {
        organization: ORGANIZATION,
        email: &email(&address(role))?,
        name: &person_name(name)?,
        role,
    };
    let AddStaffOutcome::Added(staff) = db.add_staff(&new, Entropy.bytes()).await? else {
        return Err(Step("somebody of the staff was there"));
    };
    db.set_password(staff, password_hash).await?;
    Ok(staff)
}

fn email(text: &str) -> Result<EmailAddress, DemonstrationError> {
    EmailAddress::parse(text).map_err(|_| Step("an address"))
}

fn person_name(text: &str) -> Result<PersonName, DemonstrationError> {
    PersonName::parse(text).map_err(|_| Step("a name"))
}

/// "Ana Sousa" is ana.sousa@example.com.
fn address_of(name: &str) -> String {
    let plain: String = name
        .to_lowercase()
        .chars()
        .map(|c| match c {
            'ć' | 'č' => 'c',
            'ř' => 'r',
            'á' | 'à' => 'a',
            'ë' | 'é' => 'e',
            'ń' => 'n',
            ' ' => '.',
            c => c,
        })
        .collect();
    format!("{plain}@example.com")
}

fn typed(fields: &[(&str, &str)]) -> Typed {
    fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

fn because(reason: Reason) -> StaffReason {
    StaffReason { reason, note: None }
}

impl Teller {
    fn later(&self, by: Duration) {
        let clock = self.waitlist.db().clock();
        if let Some(now) = clock.script() {
            clock.set(now + by);
        }
    }

    /// Runs requested and due passes until there are none.
    async fn settle(&self) -> Result<(), DemonstrationError> {
        loop {
            self.waitlist.db().request_due_passes(false).await?;
            let events = self.waitlist.db().lease_pass_requests(16, Duration::seconds(30)).await?;
            if events.is_empty() {
                return self.deliver().await;
            }
            for (event, _) in events {
                self.waitlist.run_pass(event).await?;
            }
        }
    }

    /// In this past everybody was told at once.
    async fn deliver(&self) -> Result<(), DemonstrationError> {
        let db = self.waitlist.db();
        let now = db.now().await?;
        let claims = db.claim_messages(Channel::Mailbox, 1_000, now).await?;
        let told: Vec<Finished> = claims
            .into_iter()
            .map(|claim| Finished { claim, contact: None, verdict: Verdict::Accepted })
            .collect();
        db.note_outcomes(&told, now).await?;
        Ok(())
    }

    async fn event(
        &self,
        slug: &str,
        settings: EventSettings,
        policy: Policy,
        labels: &[Option<String>],
    ) -> Result<EventId, DemonstrationError> {
        let new = NewEvent { organization: self.organization, slug: slug.to_owned(), settings };
        let CreateOutcome::Created(event) =
            self.waitlist.create_event(&new, &policy, Actor::Staff(self.owner)).await?
        else {
            return Err(Step("an event was there"));
        };
        self.waitlist
            .add_places(event, labels, &Said::default(), slug, Actor::Staff(self.owner), Reason::SetUp)
            .await?;
        self.waitlist.publish(event, Actor::Staff(self.owner), Reason::SetUp, None).await?;
        Ok(event)
    }

    async fn person(&self, event: EventId, name: &str) -> Result<PersonId, DemonstrationError> {
        let pair = (person_name(name)?, email(&address_of(name))?);
        let persons = self
            .waitlist
            .db()
            .with_event(event, async |event| event.persons_with(std::slice::from_ref(&pair)).await)
            .await?;
        persons.first().map(|person| person.id).ok_or(Step("a person"))
    }

    async fn book(&self, event: EventId, names: &[&str]) -> Result<(), DemonstrationError> {
        for name in names {
            let person = self.person(event, name).await?;
            let book = Book {
                wants: Wants::default(),
                person,
                party: 1,
                actor: Actor::Person(person),
                reason: super::bookings::booked_directly(),
                override_reservation: false,
                once: Entropy.id(),
            };
            self.waitlist.book(event, &book).await?;
        }
        Ok(())
    }

    async fn cancel(&self, event: EventId, name: &str, reason: Reason) -> Result<(), DemonstrationError> {
        let person = self.person(event, name).await?;
        let bookings = self.waitlist.db().bookings_of(event, person).await?;
        let booking = bookings.first().ok_or(Step("a booking"))?.id;
        let (actor, reason) = match reason {
            Reason::Cancelled => (Actor::Person(person), super::bookings::cancelled_by_customer()),
            reason => (Actor::Staff(self.agent), because(reason)),
        };
        self.waitlist.cancel_booking(event, booking, actor, &reason).await?;
        self.settle().await
    }

    async fn wait(
        &self,
        event: EventId,
        name: &str,
        party: i32,
        wants: Wants,
    ) -> Result<EntryId, DemonstrationError> {
        let as_whom = JoinAs::Vouched(Actor::Staff(self.agent));
        let join = Join { wants, name: person_name(name)?, email: email(&address_of(name))?, party, as_whom };
        match self.waitlist.join(event, &[join]).await?.pop() {
            Some(JoinOutcome::Joined(entry)) => Ok(entry.id),
            _ => Err(Step("somebody could not join")),
        }
    }

    /// The offer that waits for an answer longest.
    async fn pending(&self, event: EventId) -> Result<Offer, DemonstrationError> {
        let offers =
            self.waitlist.db().with_event(event, async |event| event.pending_offers(1).await).await?;
        offers.into_iter().next().ok_or(Step("nobody was offered a place"))
    }

    async fn accept(&self, offer: &Offer) -> Result<(), DemonstrationError> {
        let accept = Accept { offer: offer.id, person: offer.person, actor: Actor::Person(offer.person) };
        self.waitlist.accept(offer.event, &[accept]).await?;
        self.settle().await
    }

    async fn decline(&self, offer: &Offer) -> Result<(), DemonstrationError> {
        let decline = Decline { offer: offer.id, person: offer.person, actor: Actor::Person(offer.person) };
        self.waitlist.decline(offer.event, &[decline]).await?;
        self.settle().await
    }

    /// Forty places, all booked; 1,200 people brought along from elsewhere; offers in every state.
    async fn concert(&self, present: DateTime<Utc>) -> Result<(), DemonstrationError> {
        let starts_at = evening(present + Duration::days(60));
        let labels: Vec<Option<String>> = ["A", "B", "C", "D"]
            .iter()
            .flat_map(|row| (1..=10).map(move |seat| Some(format!("{row}{seat}"))))
            .collect();
        let settings = EventSettings {
            name: "Spring Concert".to_owned(),
            description: "An evening of chamber music: Schubert, Price and Takemitsu.".to_owned(),
            venue: "Great Hall".to_owned(),
            zone: chrono_tz::Europe::Berlin,
            starts_at: Some(starts_at),
            list_opens_at: None,
            list_freezes_at: None,
        };
        let policy = Policy { window: Some(Duration::hours(2)), party_limit: Some(4), ..Policy::first() };
        let event = self.event("spring-concert", settings, policy, &labels).await?;
        self.book(event, &GUESTS[..40]).await?;
        self.import(event).await?;
        self.settle().await?;

        self.later(Duration::hours(20));
        self.cancel(event, GUESTS[3], Reason::Cancelled).await?;
        self.later(Duration::minutes(12));
        self.accept(&self.pending(event).await?).await?;

        self.later(Duration::hours(22));
        self.cancel(event, GUESTS[11], Reason::CustomerAsked).await?;
        self.later(Duration::minutes(35));
        self.decline(&self.pending(event).await?).await?;
        // The next one is silent, and the one after takes the place.
        self.later(Duration::hours(2));
        self.settle().await?;
        self.later(Duration::minutes(4));
        self.accept(&self.pending(event).await?).await?;

        self.later(Duration::hours(21));
        self.cancel(event, GUESTS[24], Reason::Cancelled).await?;
        self.later(Duration::minutes(9));
        let offer = self.pending(event).await?;
        let note = Some("Called the box office: is abroad that week, wants to decide later.".to_owned());
        let reason = StaffReason { reason: Reason::CustomerAsked, note };
        self.waitlist
            .revoke(event, offer.id, AfterRevoke::SetAside, Actor::Staff(self.agent), &reason)
            .await?;
        self.settle().await?;
        self.later(Duration::minutes(50));
        self.accept(&self.pending(event).await?).await?;

        // Two offers wait for an answer now; one of them ends soon.
        let clock = self.waitlist.db().clock();
        clock.set(present - Duration::minutes(95));
        self.cancel(event, GUESTS[30], Reason::Cancelled).await?;
        clock.set(present - Duration::minutes(18));
        self.cancel(event, GUESTS[36], Reason::Cancelled).await
    }

    async fn import(&self, event: EventId) -> Result<(), DemonstrationError> {
        let db = self.waitlist.db();
        let table = Table::open(WAITING_LIST).map_err(|_| Step("the waiting list"))?;
        let columns = Mapping::guess(&table).columns().collect();
        let reading = import::reading(db, &db.event(event).await?, columns).await?;
        let plan = reading.plan(WAITING_LIST, db.now().await?).map_err(|_| Step("the waiting list"))?;
        let request = Request {
            file_name: "pretix-waitinglist.csv",
            bytes: WAITING_LIST,
            reading: &reading,
            plan: &plan,
            upload: None,
            tell: false,
            by: Actor::Staff(self.owner),
        };
        let StartOutcome::Started(id) = import::start(db, event, &request).await? else {
            return Err(Step("the import did not start"));
        };
        import::run(db, event, id, &plan, |_| {}).await?;
        Ok(())
    }

    /// Twelve places and six who wait, some for two: the rule fills.
    async fn yoga(&self, present: DateTime<Utc>) -> Result<(), DemonstrationError> {
        let settings = EventSettings {
            name: "Morning Yoga".to_owned(),
            description: "Ninety minutes for everybody. Mats are there.".to_owned(),
            venue: "Studio 2".to_owned(),
            zone: chrono_tz::Europe::Berlin,
            starts_at: Some(evening(present + Duration::days(5)) - Duration::hours(9)),
            list_opens_at: None,
            list_freezes_at: None,
        };
        let policy = Policy {
            window: Some(Duration::hours(12)),
            fit: Fit::Fill,
            party_limit: Some(2),
            ..Policy::first()
        };
        let event = self.event("yoga", settings, policy, &vec![None; 12]).await?;
        self.book(event, &GUESTS[40..]).await?;
        for (name, party) in [
            (GUESTS[0], 2),
            (GUESTS[5], 1),
            (GUESTS[9], 1),
            (GUESTS[14], 2),
            (GUESTS[20], 1),
            (GUESTS[27], 1),
        ] {
            self.later(Duration::minutes(17));
            let entry = self.wait(event, name, party, Wants::default()).await?;
            if name == GUESTS[9] {
                let actor = Actor::Staff(self.agent);
                self.waitlist
                    .pause(event, entry, PausedBy::Staff, None, actor, &because(Reason::CustomerAsked))
                    .await?;
            }
        }
        self.settle().await?;
        self.later(Duration::hours(18));
        self.cancel(event, GUESTS[44], Reason::Cancelled).await?;
        self.later(Duration::hours(3));
        let offer = self.pending(event).await?;
        if offer.state == OfferState::Pending {
            self.accept(&offer).await?;
        }
        Ok(())
    }

    /// No start and no window: people join, staff decide. Shelves differ, and people say what they want of one.
    async fn ceramics(&self) -> Result<(), DemonstrationError> {
        let settings = EventSettings {
            name: "Ceramics studio".to_owned(),
            description:
                "A shelf and a key. Places come free when somebody moves on; we write to you by hand."
                    .to_owned(),
            venue: "Workshop".to_owned(),
            zone: chrono_tz::Europe::Berlin,
            starts_at: None,
            list_opens_at: None,
            list_freezes_at: None,
        };
        let new = NewEvent { organization: self.organization, slug: LAST_EVENT.to_owned(), settings };
        let CreateOutcome::Created(event) =
            self.waitlist.create_event(&new, &Policy::first(), Actor::Staff(self.owner)).await?
        else {
            return Err(Step("an event was there"));
        };
        let owner = Actor::Staff(self.owner);
        self.waitlist.publish(event, owner, Reason::SetUp, None).await?;
        let wrong = |_| Step("what is said of shelves");
        let size = Attribute::new("Size", Measure::Choice, "small\nlarge", &[]).map_err(wrong)?;
        let rent = Attribute::new("Rent in euros", Measure::Number, "", std::slice::from_ref(&size));
        let attributes = [size, rent.map_err(wrong)?];
        let version = self.waitlist.db().event(event).await?.form_version;
        let named = self.waitlist.set_attributes(event, &attributes, version, owner).await?;
        if named != AttributesOutcome::Changed {
            return Err(Step("what shelves are"));
        }
        // The first waits for a large one, the second can have this one, and the others take any.
        let wants: [&[(&str, &str)]; 4] =
            [&[("want.size.large", "on")], &[("want.rent-in-euros.max", "40")], &[], &[]];
        for (name, wants) in [GUESTS[2], GUESTS[7], GUESTS[17], GUESTS[33]].into_iter().zip(wants) {
            let wants = Wants::parse(&attributes, &typed(wants)).map_err(|_| Step("what somebody wants"))?;
            self.wait(event, name, 1, wants).await?;
        }
        let said = typed(&[("said.size", "small"), ("said.rent-in-euros", "35")]);
        let said = Said::parse(&attributes, &said).map_err(|_| Step("a shelf"))?;
        let labels = [Some("Shelf 4".to_owned())];
        self.waitlist.add_places(event, &labels, &said, LAST_EVENT, owner, Reason::SetUp).await?;
        self.settle().await
    }
}

/// 19:30 in Berlin, or as near as the season lets it be, on the day of `instant`.
fn evening(instant: DateTime<Utc>) -> DateTime<Utc> {
    let day = instant.duration_trunc(Duration::days(1)).unwrap_or(instant);
    day + Duration::hours(18) + Duration::minutes(30)
}
