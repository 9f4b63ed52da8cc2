//! Whoever was passed over has a page that says so: after random days on a list, each look at the line that went past an
//! entry stands on its staff page with the reason, and on the person's own page without anybody's name.

use chrono::{DateTime, Duration, Utc};
use fairlist::domain::entry::{EntryState, OrderKey, PausedBy};
use fairlist::domain::ids::EntryId;
use fairlist::domain::policy::{After, Band, Draws, Fit, Ordering, Policy};
use fairlist::domain::role::Role;
use fairlist::waitlist::staff_offers::AfterRevoke;
use proptest::test_runner::{RngAlgorithm, TestRng};
use rand::RngExt as _;
use uuid::Uuid;

use crate::customer::Booth;
use crate::harness::database::secret;
use crate::harness::desk::Desk;
use crate::harness::world::{World, reason, two_hours};

/// Looks at the line in one story: no more than a page lists.
const LOOKS: usize = 16;

/// Why a look went past somebody.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Why {
    /// Too few places were left for so many.
    TooLarge(i32),
    /// They had said no to these places.
    Declined,
    /// One of the two.
    TooLargeOrDeclined(i32),
    /// Somebody of the staff had paused them.
    Paused,
    /// Their offer had been taken back.
    SetAside,
}

impl Why {
    /// As staff read it.
    fn for_staff(self, row: &str) -> bool {
        match self {
            Self::TooLarge(party) => row.contains(&format!("passed over: it wants {party} places, and ")),
            Self::Declined => row.contains("passed over: it had declined the places that were open"),
            Self::TooLargeOrDeclined(party) => {
                Self::TooLarge(party).for_staff(row) || Self::Declined.for_staff(row)
            }
            Self::Paused => row.contains("passed over: paused by staff"),
            Self::SetAside => row.contains("passed over: set aside"),
        }
    }

    /// As its person reads it.
    fn for_its_person(self, since: &str) -> bool {
        match self {
            Self::TooLarge(party) => since.contains(&format!(
                "You need {party} places together. Places for fewer went to people after you, as the rule says"
            )),
            Self::Declined => since.contains("Places that you had passed on went to people after you"),
            Self::TooLargeOrDeclined(party) => {
                Self::TooLarge(party).for_its_person(since) || Self::Declined.for_its_person(since)
            }
            // Of what hindered it, the last is told.
            Self::Paused | Self::SetAside => since.contains("Offers went to people after you while "),
        }
    }
}

/// An entry in the line, as it stands before a look.
#[derive(sqlx::FromRow)]
struct Standing {
    id: Uuid,
    band: i16,
    round: i32,
    rank: i64,
    party: i32,
    eligible: bool,
    paused: Option<String>,
    declined_at: Option<DateTime<Utc>>,
}

impl Standing {
    fn key(&self) -> OrderKey {
        OrderKey { band: self.band, round: self.round, rank: self.rank }
    }

    fn why(&self) -> Why {
        match (self.eligible, &self.paused, self.declined_at) {
            (false, Some(_), _) => Why::Paused,
            (false, None, _) => Why::SetAside,
            (true, _, Some(_)) if self.party == 1 => Why::Declined,
            (true, _, Some(_)) => Why::TooLargeOrDeclined(self.party),
            (true, _, None) => Why::TooLarge(self.party),
        }
    }
}

/// A day on a list, and what its looks at the line went past.
struct Day {
    desk: Desk,
    random: TestRng,
    people: usize,
    passed_over: Vec<(EntryId, Why)>,
}

impl Day {
    async fn begin(seed: u8, policy: Policy) -> Self {
        let random = TestRng::from_seed(RngAlgorithm::ChaCha, &[seed; 32]);
        Self { desk: Desk::with(policy, 0).await, random, people: 0, passed_over: Vec::new() }
    }

    fn world(&self) -> &World {
        &self.desk.world
    }

    fn below(&mut self, n: usize) -> usize {
        self.random.random_range(0..n)
    }

    async fn join(&mut self) {
        self.people += 1;
        let (who, party) = (format!("Guest{:02}x", self.people), 1 + self.below(3));
        self.world().waiting(&who, i32::try_from(party).expect("few")).await;
    }

    /// Somebody in this state.
    async fn somebody(&mut self, state: EntryState) -> Option<EntryId> {
        let ids: Vec<Uuid> = sqlx::query_scalar("SELECT id FROM entries WHERE state = $1 ORDER BY arrival")
            .bind(state.as_str())
            .fetch_all(self.world().database.sql())
            .await
            .expect("entries");
        let number = if ids.is_empty() { return None } else { self.below(ids.len()) };
        Some(EntryId(ids[number]))
    }

    /// Something that changes whom the next look goes past.
    async fn act(&mut self, ordering: Ordering) {
        let what = self.below(6);
        let waiting = self.somebody(EntryState::Waiting).await;
        let offered = self.somebody(EntryState::Offered).await;
        let world = self.world();
        let (event, actor, why) = (world.event, world.actor(), reason());
        match (what, waiting, offered) {
            (0, Some(entry), _) => {
                let by = PausedBy::Staff;
                world.waitlist.pause(event, entry, by, None, actor, &why).await.expect("an answer");
            }
            (1, Some(entry), _) => {
                world.waitlist.resume(event, entry, actor, &why).await.expect("an answer");
            }
            (2, _, Some(entry)) => {
                let offer = world.live_offer(entry).await;
                world.decline(offer.id, offer.person).await;
            }
            (3, _, Some(entry)) => {
                let offer = world.live_offer(entry).await.id;
                let aside = AfterRevoke::SetAside;
                world.waitlist.revoke(event, offer, aside, actor, &why).await.expect("an answer");
            }
            (4, Some(entry), _) if ordering == Ordering::Priority => {
                world.waitlist.move_to_band(event, entry, -100, actor, &why).await.expect("an answer");
            }
            (4, ..) if ordering == Ordering::Lottery => {
                world.waitlist.hold_draw(event, actor, &why).await.expect("an answer");
            }
            _ => self.join().await,
        }
    }

    /// A look at the line; whom it went past follows from how they stood before it.
    async fn look(&mut self) {
        let sql = self.world().database.sql();
        let line: Vec<Standing> = sqlx::query_as("SELECT * FROM entries WHERE state = 'waiting'")
            .fetch_all(sql)
            .await
            .expect("the line");
        if self.world().pass().await.offered == 0 {
            return;
        }
        let made: Vec<(Uuid, i16, i32, i64)> = sqlx::query_as(
            "SELECT entry_id, band, round, rank FROM offers WHERE pass_number = (SELECT max(number) FROM passes)",
        )
        .fetch_all(sql)
        .await
        .expect("offers");
        let last = made
            .iter()
            .map(|(_, band, round, rank)| OrderKey { band: *band, round: *round, rank: *rank })
            .max();
        let passed_over: Vec<(EntryId, Why)> = line
            .iter()
            .filter(|entry| last.is_some_and(|last| entry.key() < last))
            .filter(|entry| !made.iter().any(|(offered, ..)| *offered == entry.id))
            .map(|entry| (EntryId(entry.id), entry.why()))
            .collect();
        self.passed_over.extend(passed_over);
    }

    /// Reads everybody's pages.
    async fn read(self) -> usize {
        let Self { desk, people, passed_over, .. } = self;
        let mut nora = desk.at_work("Nora", Role::Viewer).await;
        let event = desk.path("");
        let booth = Booth { world: desk.world, router: desk.router, secret: secret() };
        let mut told = 0;
        let line: Vec<(Uuid, String)> = sqlx::query_as(
            "SELECT e.id, p.name FROM entries e JOIN persons p ON p.id = e.person_id WHERE e.state = 'waiting'",
        )
        .fetch_all(booth.world.database.sql())
        .await
        .expect("the line");
        for (id, name) in line {
            let mut expected: Vec<Why> =
                passed_over.iter().filter(|(entry, _)| entry.0 == id).map(|(_, why)| *why).collect();
            expected.reverse();
            told += expected.len();
            let page = nora.get(&format!("{event}/entries/{id}")).await;
            let rows = page.texts("section[aria-labelledby=since] .lines li");
            let rows: Vec<&String> = rows.iter().filter(|row| row.contains("passed over: ")).collect();
            assert_eq!(rows.len(), expected.len(), "{name}: {expected:?}, and {rows:#?}");
            for (row, why) in rows.iter().zip(&expected) {
                assert!(why.for_staff(row), "{name}: {why:?}, and {row}");
            }

            let mut here = booth.signed_in(&format!("{}@example.org", name.to_lowercase())).await;
            let page = here.get(&format!("/me/entries/{id}")).await;
            let since = page.text("section[aria-labelledby=since]");
            assert_eq!(since.contains("Some passed you over:"), !expected.is_empty(), "{name}: {since}");
            for why in &expected {
                assert!(why.for_its_person(&since), "{name}: {why:?}, and {since}");
            }
            for n in (1..=people).map(|n| format!("Guest{n:02}x")).filter(|other| *other != name) {
                assert!(!page.body.contains(&n), "{name} reads the name of {n}");
            }
        }
        booth.world.settle().await;
        told
    }
}

#[tokio::test]
async fn every_look_that_went_past_somebody_is_on_their_pages_with_its_reason() {
    let members =
        Band { number: -100, name: "Members".to_owned(), reason: "they keep it running".to_owned() };
    let rule = |ordering, draws| Policy {
        ordering,
        draws,
        bands: vec![members.clone()],
        fit: Fit::Fill,
        after_decline: After::Keep,
        ..two_hours()
    };
    for (ordering, draws) in [
        (Ordering::Arrival, Draws::AtNeed),
        (Ordering::Priority, Draws::AtNeed),
        (Ordering::Lottery, Draws::ByStaff),
    ] {
        let mut told = 0;
        for seed in [1, 2] {
            let mut day = Day::begin(seed, rule(ordering, draws)).await;
            for _ in 0..5 {
                day.join().await;
            }
            for _ in 0..LOOKS / 2 {
                day.world().later(Duration::minutes(1));
                day.act(ordering).await;
                day.look().await;
                day.world().later(Duration::minutes(1));
                let places = 1 + day.below(2);
                day.world().add_places(places).await;
                day.look().await;
            }
            told += day.read().await;
        }
        assert!(told > 3, "{ordering}: nobody was passed over, so nothing was read");
    }
}
