//! A long random day on one list: whatever people and staff do, in whatever order, the invariants hold at every
//! stop.

use std::sync::Arc;

use chrono::{DateTime, Duration, Utc};
use fairlist::db::check::CheckSettings;
use fairlist::db::events::NewEvent;
use fairlist::domain::attribute::{Attribute, Measure, Said, Wants};
use fairlist::domain::audit::Actor;
use fairlist::domain::contact::{EmailAddress, PersonName};
use fairlist::domain::entry::PausedBy;
use fairlist::domain::event::{EventSettings, ListState};
use fairlist::domain::ids::{
    BookingId, EntryId, EventId, OfferId, OrganizationId, PersonId, PlaceId, StaffId,
};
use fairlist::domain::policy::{After, Band, Fit, Mode, Ordering, Policy, Telling};
use fairlist::domain::reason::{Reason, StaffReason};
use fairlist::messages::Mailer;
use fairlist::waitlist::Waitlist;
use fairlist::waitlist::answer::{Accept, Decline};
use fairlist::waitlist::bookings::Book;
use fairlist::waitlist::join::{Join, JoinAs};
use fairlist::waitlist::staff_offers::AfterRevoke;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::{Rng as _, RngExt as _};
use sqlx::Row as _;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use super::mail;
use crate::harness::database::{TestDatabase, secret};

const START: &str = "2027-03-01T09:00:00Z";

/// Acts of one walk.
const STEPS: usize = 120;

/// What the event says of its places.
fn sorts() -> Vec<Attribute> {
    vec![Attribute::new("Sort", Measure::Choice, "A\nB\nC", &[]).expect("a choice")]
}

pub(super) fn band(number: i16, name: &str) -> Band {
    Band { number, name: name.to_owned(), reason: "so it was decided".to_owned() }
}

pub(super) struct Walk {
    pub(super) database: TestDatabase,
    waitlist: Waitlist,
    pub(super) event: EventId,
    mailer: Mailer,
    /// No mail goes out.
    mail_stands_still: bool,
    random: TestRng,
    /// What was done, for when it goes wrong.
    pub(super) done: Vec<String>,
}

impl Walk {
    pub(super) async fn begin(seed: u8, policy: Policy) -> Self {
        let database = TestDatabase::at(START).await;
        let organization = OrganizationId(Uuid::from_u128(0xa));
        sqlx::query(
            "INSERT INTO organizations (id, slug, name, created_at) VALUES ($1, 'house', 'The House', $2)",
        )
        .bind(organization.0)
        .bind(database.clock().script())
        .execute(database.sql())
        .await
        .expect("an organization");
        let waitlist = Waitlist::new(database.db().clone(), secret());
        let settings = EventSettings {
            name: "Concert".to_owned(),
            description: String::new(),
            venue: String::new(),
            zone: chrono_tz::Europe::Berlin,
            starts_at: Some("2027-03-03T18:00:00Z".parse().expect("an instant")),
            list_opens_at: None,
            list_freezes_at: None,
        };
        let new = NewEvent { organization, slug: "concert".to_owned(), settings };
        let event = database.db().add_event(&new, &policy, Actor::Operator).await.expect("an event");
        waitlist.set_attributes(event, &sorts(), 1, Actor::Operator).await.expect("attributes");
        waitlist.publish(event, Actor::Operator, Reason::SetUp, None).await.expect("published");
        waitlist
            .add_places(event, &[None, None, None], &Said::default(), "first", Actor::Operator, Reason::SetUp)
            .await
            .expect("places");
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        let settings = Arc::new(mail::settings(None));
        let mailer = Mailer::new(waitlist.db(), settings, CancellationToken::new());
        Self { database, waitlist, event, mailer, mail_stands_still: false, random, done: Vec::new() }
    }

    pub(super) fn now(&self) -> DateTime<Utc> {
        self.database.clock().script().expect("a scripted clock")
    }

    pub(super) fn below(&mut self, n: u32) -> u32 {
        self.random.random_range(0..n)
    }

    /// Some row of a table, whatever its state.
    async fn some(&mut self, sql: &'static str) -> Option<Vec<Uuid>> {
        let mut rows = sqlx::query(sql).fetch_all(self.database.sql()).await.expect(sql);
        if rows.is_empty() {
            return None;
        }
        let row = rows.swap_remove(self.random.next_u32() as usize % rows.len());
        Some((0..row.len()).map(|column| row.get(column)).collect())
    }

    async fn some_offer(&mut self) -> Option<(OfferId, PersonId)> {
        // Mostly live ones, for the others are many before long.
        let sql = if self.below(4) == 0 {
            "SELECT o.id, e.person_id FROM offers o JOIN entries e ON e.id = o.entry_id ORDER BY o.id"
        } else {
            "SELECT o.id, e.person_id FROM offers o JOIN entries e ON e.id = o.entry_id WHERE o.state = 'pending'
             ORDER BY o.id"
        };
        let row = self.some(sql).await?;
        Some((OfferId(row[0]), PersonId(row[1])))
    }

    async fn some_entry(&mut self) -> Option<(EntryId, PersonId)> {
        let row = self.some("SELECT id, person_id FROM entries ORDER BY arrival").await?;
        Some((EntryId(row[0]), PersonId(row[1])))
    }

    fn staff_reason() -> StaffReason {
        StaffReason { reason: Reason::Other, note: Some("because".to_owned()) }
    }

    /// Nothing in particular, mostly; or one or two of three.
    fn wants(&mut self) -> Wants {
        let one = ["A", "B", "C"][self.below(3) as usize];
        let fields = match self.below(6) {
            0 => vec![one],
            1 => vec![one, "B"],
            _ => vec![],
        };
        let typed =
            fields.into_iter().map(|choice| (format!("want.sort.{choice}"), "on".to_owned())).collect();
        Wants::parse(&sorts(), &typed).expect("wants")
    }

    fn said(&mut self) -> Said {
        let sort = ["", "A", "B", "C"][self.below(4) as usize];
        Said::parse(&sorts(), &[("said.sort".to_owned(), sort.to_owned())].into()).expect("a value")
    }

    pub(super) async fn join(&mut self) {
        let n = self.below(40);
        let vouched = Actor::Staff(StaffId(Uuid::from_u128(0x5a)));
        let join = Join {
            wants: self.wants(),
            name: PersonName::parse(&format!("Person {n}")).expect("a name"),
            email: EmailAddress::parse(&format!("p{n}@example.org")).expect("an address"),
            party: i32::try_from(1 + self.below(3)).expect("a party"),
            as_whom: if self.below(3) == 0 { JoinAs::Visitor } else { JoinAs::Vouched(vouched) },
        };
        let outcome = self.waitlist.join(self.event, &[join]).await.expect("an answer");
        self.done.push(format!("{n} joins: {outcome:?}"));
    }

    pub(super) async fn confirm(&mut self) {
        let Some(row) =
            self.some("SELECT person_id FROM entries WHERE state = 'unconfirmed' ORDER BY id").await
        else {
            return;
        };
        let code = self.waitlist.send_code(PersonId(row[0]), Some(self.event)).await.expect("a code");
        let digits = secret().code_digits(code);
        let outcome = self.waitlist.enter_code(code, &digits).await.expect("an answer");
        self.done.push(format!("code: {outcome:?}"));
    }

    pub(super) async fn answer(&mut self) {
        let Some((offer, person)) = self.some_offer().await else { return };
        let actor = Actor::Person(person);
        let outcome = if self.below(2) == 0 {
            format!(
                "{:?}",
                self.waitlist.accept(self.event, &[Accept { offer, person, actor }]).await.expect("answer")
            )
        } else {
            format!(
                "{:?}",
                self.waitlist.decline(self.event, &[Decline { offer, person, actor }]).await.expect("answer")
            )
        };
        self.done.push(format!("{offer} answered: {outcome}"));
    }

    async fn on_an_entry(&mut self) {
        let Some((entry, person)) = self.some_entry().await else { return };
        let (event, reason) = (self.event, Self::staff_reason());
        let (staff, actor) = (Actor::Staff(StaffId(Uuid::from_u128(0x5a))), Actor::Person(person));
        let outcome = match self.below(7) {
            6 => {
                let wants = self.wants();
                let party = i32::try_from(self.below(4)).expect("small") + 1;
                let changed = self.waitlist.change_wants(event, entry, party, &wants, actor, &reason).await;
                format!("wants {party} of {wants:?}: {:?}", changed.expect("wants"))
            }
            0 => format!("leave {:?}", self.waitlist.leave(event, entry, actor).await.expect("leave")),
            1 => format!(
                "remove {:?}",
                self.waitlist.remove(event, entry, staff, &reason).await.expect("remove")
            ),
            2 => {
                let until = (self.below(2) == 0).then(|| self.now() + Duration::minutes(40));
                let paused = self.waitlist.pause(event, entry, PausedBy::Person, until, actor, &reason).await;
                format!("pause {:?}", paused.expect("pause"))
            }
            3 => {
                let resumed = self.waitlist.resume(event, entry, actor, &reason).await;
                format!("resume {:?}", resumed.expect("resume"))
            }
            4 => {
                format!(
                    "bring back {:?}",
                    self.waitlist.bring_back(event, entry, staff, &reason).await.expect("back")
                )
            }
            _ => {
                let deadline = self.now() + Duration::minutes(30);
                let offered = self.waitlist.offer_to(event, entry, Some(deadline), staff, &reason).await;
                format!("offer by staff {:?}", offered.expect("offer"))
            }
        };
        self.done.push(format!("{entry}: {outcome}"));
    }

    async fn on_an_offer(&mut self) {
        let Some((offer, _)) = self.some_offer().await else { return };
        let (event, reason, staff) =
            (self.event, Self::staff_reason(), Actor::Staff(StaffId(Uuid::from_u128(0x5a))));
        let after = AfterRevoke::ALL[self.below(4) as usize];
        let deadline = self.now() + Duration::minutes(90);
        let outcome = match self.below(3) {
            0 => format!(
                "{after:?} {:?}",
                self.waitlist.revoke(event, offer, after, staff, &reason).await.expect("revoke")
            ),
            1 => format!(
                "{:?}",
                self.waitlist.reactivate(event, offer, deadline, staff, &reason).await.expect("again")
            ),
            _ => format!(
                "{:?}",
                self.waitlist.extend(event, offer, deadline, staff, &reason).await.expect("extend")
            ),
        };
        self.done.push(format!("{offer}: {outcome}"));
    }

    async fn describe(&mut self) {
        let staff = Actor::Staff(StaffId(Uuid::from_u128(0x5a)));
        let Some(row) = self.some("SELECT id FROM places ORDER BY number").await else { return };
        let (place, said) = (PlaceId(row[0]), self.said());
        let described =
            self.waitlist.describe_place(self.event, place, &said, staff, &Self::staff_reason()).await;
        self.done.push(format!("{place} is {said:?}: {:?}", described.expect("describe")));
    }

    pub(super) async fn on_places(&mut self) {
        let (event, reason, staff) =
            (self.event, Self::staff_reason(), Actor::Staff(StaffId(Uuid::from_u128(0x5a))));
        let outcome = match self.below(5) {
            0 => {
                let once = self.done.len().to_string();
                let said = self.said();
                let added = self
                    .waitlist
                    .add_places(event, &[None, None], &said, &once, staff, Reason::CapacityChanged)
                    .await;
                format!("add {:?}", added.expect("add"))
            }
            1 => {
                let Some(row) = self.some("SELECT id FROM places ORDER BY number").await else { return };
                let retired = self.waitlist.retire_places(event, &[PlaceId(row[0])], staff, &reason).await;
                format!("retire {:?}", retired.expect("retire"))
            }
            2 => {
                let Some(row) = self.some("SELECT id FROM persons ORDER BY name").await else { return };
                let book = Book {
                    wants: self.wants(),
                    person: PersonId(row[0]),
                    party: i32::try_from(1 + self.below(2)).expect("a party"),
                    actor: staff,
                    reason: reason.clone(),
                    override_reservation: self.below(2) == 0,
                    once: Uuid::from_u128(self.done.len() as u128),
                };
                format!("book {:?}", self.waitlist.book(event, &book).await.expect("book"))
            }
            _ => {
                let Some(row) = self.some("SELECT id FROM bookings ORDER BY id").await else { return };
                let cancelled = self.waitlist.cancel_booking(event, BookingId(row[0]), staff, &reason).await;
                format!("cancel {:?}", cancelled.expect("cancel"))
            }
        };
        self.done.push(outcome);
    }

    async fn on_the_order(&mut self) {
        let (event, reason, staff) =
            (self.event, Self::staff_reason(), Actor::Staff(StaffId(Uuid::from_u128(0x5a))));
        let outcome = match self.below(4) {
            0 => format!("draw {:?}", self.waitlist.hold_draw(event, staff, &reason).await.expect("draw")),
            1 => {
                let called = self.waitlist.make_final_call(event, staff, &reason).await;
                format!("final call {:?}", called.expect("a call"))
            }
            _ => return self.change_group().await,
        };
        self.done.push(outcome);
    }

    async fn change_group(&mut self) {
        let staff = Actor::Staff(StaffId(Uuid::from_u128(0x5a)));
        let Some((entry, _)) = self.some_entry().await else { return };
        let band = [-200, -100, 0, 0][self.below(4) as usize];
        let moved = self.waitlist.move_to_band(self.event, entry, band, staff, &Self::staff_reason()).await;
        self.done.push(format!("{entry} into {band}: {:?}", moved.expect("a group")));
    }

    /// An act of a day on which staff leave offers and the order to the rule.
    pub(super) async fn act_without_staff(&mut self) {
        let (event, reason) = (self.event, Self::staff_reason());
        let staff = Actor::Staff(StaffId(Uuid::from_u128(0x5a)));
        match self.below(40) {
            0..12 => self.join().await,
            12..15 => self.confirm().await,
            15..23 => self.answer().await,
            23..32 => self.on_places().await,
            32..34 => self.change_group().await,
            34 => {
                // Closed now and then, and not for long.
                let is_open =
                    self.database.db().event(event).await.expect("the event").list == ListState::Open;
                let shut = [ListState::Frozen, ListState::Closed][self.below(2) as usize];
                let to = if is_open && self.below(3) == 0 { shut } else { ListState::Open };
                let set = self.waitlist.set_list(event, to, staff, &reason).await.expect("a list");
                self.done.push(format!("{to} {set:?}"));
            }
            35 => {
                let cancelled = self.waitlist.cancel_event(event, staff, &reason).await.expect("cancel");
                self.work().await;
                self.database.clock().set(self.now() + Duration::seconds(1));
                let restored = self.waitlist.restore_event(event, staff, &reason).await.expect("restore");
                self.done.push(format!("cancelled {cancelled:?}, restored {restored:?}"));
            }
            _ => {
                let Some((entry, person)) = self.some_entry().await else { return };
                let actor = Actor::Person(person);
                let outcome = match self.below(4) {
                    0 => {
                        format!("leave {:?}", self.waitlist.leave(event, entry, actor).await.expect("leave"))
                    }
                    1 => {
                        let removed = self.waitlist.remove(event, entry, staff, &reason).await;
                        format!("remove {:?}", removed.expect("remove"))
                    }
                    2 => {
                        let until = (self.below(2) == 0).then(|| self.now() + Duration::minutes(40));
                        let by = PausedBy::Person;
                        let paused = self.waitlist.pause(event, entry, by, until, actor, &reason).await;
                        format!("pause {:?}", paused.expect("pause"))
                    }
                    _ => {
                        let resumed = self.waitlist.resume(event, entry, actor, &reason).await;
                        format!("resume {:?}", resumed.expect("resume"))
                    }
                };
                self.done.push(format!("{entry}: {outcome}"));
            }
        }
    }

    async fn on_the_event(&mut self) {
        let (event, reason, staff) =
            (self.event, Self::staff_reason(), Actor::Staff(StaffId(Uuid::from_u128(0x5a))));
        let outcome = match self.below(6) {
            0 => format!(
                "{:?}",
                self.waitlist.set_list(event, ListState::Closed, staff, &reason).await.expect("close")
            ),
            1 => format!(
                "{:?}",
                self.waitlist.set_list(event, ListState::Frozen, staff, &reason).await.expect("freeze")
            ),
            2 if self.below(3) == 0 => {
                let cancelled = self.waitlist.cancel_event(event, staff, &reason).await.expect("cancel");
                let restored = self.waitlist.restore_event(event, staff, &reason).await.expect("restore");
                format!("cancelled {cancelled:?}, restored {restored:?}")
            }
            3 => {
                let row = self.database.db().event(event).await.expect("the event");
                let mut policy = self.database.db().policy(event).await.expect("the rule");
                policy.after_expiry = After::ALL[self.below(3) as usize];
                policy.after_decline = After::ALL[self.below(3) as usize];
                policy.fit = Fit::ALL[self.below(2) as usize];
                policy.batch_size = i32::try_from(self.below(4)).expect("a batch");
                policy.window = (self.below(6) > 0).then(|| Duration::minutes(60));
                policy.ordering = Ordering::ALL[self.below(4) as usize];
                policy.mode = Mode::ALL[usize::from(self.below(4) == 0)];
                policy.bands = vec![band(-200, "Members"), band(-100, "Residents")];
                policy.telling = Telling::ALL[self.below(2) as usize];
                if row.final_called_at.is_none() {
                    policy.cutoff = (self.below(3) == 0).then(|| self.now() + Duration::minutes(30));
                }
                let saved =
                    self.waitlist.change_policy(event, &policy, row.form_version, staff, &reason).await;
                format!("{policy:?}: {:?}", saved.expect("save"))
            }
            4 => {
                let row = self.database.db().event(event).await.expect("the event");
                let hours = i64::from(1 + self.below(40));
                let settings = EventSettings {
                    name: row.name,
                    description: row.description,
                    venue: row.venue,
                    zone: row.zone,
                    starts_at: Some(self.now() + Duration::hours(hours)),
                    list_opens_at: None,
                    list_freezes_at: (self.below(2) == 0).then(|| self.now() + Duration::minutes(20)),
                };
                let saved = self.waitlist.save_settings(event, &settings, row.form_version, staff).await;
                format!("start in {hours} h: {:?}", saved.expect("save"))
            }
            _ => format!(
                "{:?}",
                self.waitlist.set_list(event, ListState::Open, staff, &reason).await.expect("open")
            ),
        };
        self.done.push(outcome);
    }

    /// Every letter that is due goes out.
    pub(super) async fn tell(&mut self) {
        mail::drain(&mut self.mailer).await;
        self.done.push("letters go out".to_owned());
    }

    /// Letters go out; or mail stops for a while, in which they do not.
    async fn on_the_mail(&mut self) {
        let (db, now) = (self.database.db().clone(), self.now());
        if self.mail_stands_still {
            if self.below(3) == 0 {
                db.channel_works(now).await.expect("noted");
                self.mail_stands_still = false;
                self.done.push("mail works again".to_owned());
            }
        } else if self.below(3) == 0 {
            db.channel_failed(None, "421 come back later", true, now).await.expect("noted");
            self.mail_stands_still = true;
            self.done.push("mail stops".to_owned());
        } else {
            self.tell().await;
        }
    }

    async fn act(&mut self) {
        match self.below(46) {
            40.. => self.on_the_mail().await,
            0..10 => self.join().await,
            10..13 => self.confirm().await,
            13..20 => self.answer().await,
            20..25 => self.on_an_entry().await,
            25..28 => self.on_an_offer().await,
            28 => self.describe().await,
            29..34 => self.on_places().await,
            34..36 => self.on_the_event().await,
            36..38 => self.on_the_order().await,
            38..40 => {
                let minutes = i64::from(self.below(50));
                self.database.clock().set(self.now() + Duration::minutes(minutes));
                self.done.push(format!("{minutes} minutes go by"));
            }
        }
    }

    /// Does what the workers do until nothing is left to do; how many offers that made.
    pub(super) async fn work(&mut self) -> usize {
        let mut offered = 0;
        loop {
            self.database.db().request_due_passes(false).await.expect("what is due");
            let leased =
                self.database.db().lease_pass_requests(10, Duration::minutes(1)).await.expect("requests");
            if leased.is_empty() {
                return offered;
            }
            for (event, _) in leased {
                let report = self.waitlist.run_pass(event).await.expect("a pass");
                offered += report.offered;
                self.done.push(format!("{report:?}"));
            }
        }
    }

    async fn rest(&mut self) {
        self.work().await;
        let (db, settings) = (self.database.fed().await, CheckSettings::new(secret()));
        let findings = db.check(&settings).await.expect("the check");
        assert!(findings.is_empty(), "{findings:#?}\nafter\n{}", self.done.join("\n"));
        self.positions().await;
    }

    /// What people are told of their place in the line is the order in which the rule serves them.
    async fn positions(&self) {
        let line =
            self.database.db().front_of_line(self.event, Fit::Strict, i16::MAX).await.expect("the line");
        for (ahead, in_line) in line.iter().enumerate() {
            let told =
                self.database.db().position(self.event, in_line.candidate.key).await.expect("a position");
            assert_eq!(usize::try_from(told).ok(), Some(ahead + 1), "after\n{}", self.done.join("\n"));
        }
    }
}

async fn walk(seed: u8, fit: Fit, batch_size: i32, after: After) {
    let (after_expiry, after_decline) = (after, after);
    walk_by(seed, Policy { fit, batch_size, after_expiry, after_decline, ..an_hour() }).await;
}

/// The same acts where deadlines wait for telling, and where they run on.
async fn walk_by(seed: u8, policy: Policy) {
    for telling in Telling::ALL {
        walk_once(seed, Policy { telling: *telling, ..policy.clone() }).await;
    }
}

async fn walk_once(seed: u8, policy: Policy) {
    let lottery = policy.ordering == Ordering::Lottery;
    let mut walk = Walk::begin(seed, policy).await;
    for step in 0..STEPS {
        walk.act().await;
        // Sometimes several things happen before a worker comes by.
        if step % 5 == 0 {
            walk.rest().await;
        }
    }
    walk.rest().await;
    let draws = walk.database.db().draws(walk.event).await.expect("draws");
    assert!(!lottery || !draws.is_empty(), "seed {seed} drew nothing");
}

#[tokio::test]
async fn a_strict_list_stays_sound() {
    walk(1, Fit::Strict, 0, After::Back).await;
}

#[tokio::test]
async fn a_list_that_fills_stays_sound() {
    walk(2, Fit::Fill, 0, After::Keep).await;
}

#[tokio::test]
async fn lists_with_batches_stay_sound() {
    walk(3, Fit::Fill, 2, After::Keep).await;
    walk(4, Fit::Strict, 1, After::Leave).await;
}

pub(super) fn an_hour() -> Policy {
    Policy { window: Some(Duration::minutes(60)), after_expiry: After::Keep, ..Policy::first() }
}

#[tokio::test]
async fn a_list_with_groups_stays_sound() {
    for seed in 10..13 {
        let bands = vec![band(-200, "Members"), band(-100, "Residents")];
        walk_by(seed, Policy { ordering: Ordering::Priority, bands, ..an_hour() }).await;
    }
}

#[tokio::test]
async fn lists_that_are_drawn_or_picked_from_stay_sound() {
    for seed in 20..23 {
        walk_by(seed, Policy { ordering: Ordering::Lottery, ..an_hour() }).await;
    }
    walk_by(30, Policy { ordering: Ordering::Manual, ..an_hour() }).await;
}

#[tokio::test]
async fn a_list_where_everybody_is_called_stays_sound() {
    for seed in 40..43 {
        walk_by(seed, Policy { mode: Mode::NotifyAll, ..an_hour() }).await;
    }
}

#[tokio::test]
async fn a_list_past_its_final_call_stays_sound() {
    let cutoff = Some(START.parse::<DateTime<Utc>>().expect("an instant") + Duration::hours(3));
    for seed in 50..53 {
        walk_by(seed, Policy { cutoff, ..an_hour() }).await;
    }
}
