//! Every cell of order × mode × cutoff × fit × batch: what a pass does in it, told by a table of its own.

use chrono::{DateTime, Duration, Utc};
use fairlist::domain::attribute::{Said, Wants};
use fairlist::domain::entry::Entry;
use fairlist::domain::ids::{EntryId, EventId};
use fairlist::domain::offer::OfferKind;
use fairlist::domain::policy::{Band, Fit, Mode, Ordering, Policy};
use fairlist::domain::reason::Reason;
use fairlist::waitlist::join::{Join, JoinAs, JoinOutcome};

use crate::harness::world::{World, add_event, email, name, reason, two_hours};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Cutoff {
    None,
    Ahead,
    Past,
}

/// What goes out to whom: the letters of those with a hold, then of those with a call.
#[derive(Debug, PartialEq)]
enum Expected {
    Refused,
    Nothing,
    Holds(&'static str),
    /// A draw decides; as many holds.
    Drawn(usize),
    Calls(&'static str),
}

/// Two places are open; A and C want one each, B, who came between, four. C is in the group that goes first.
fn expected(order: Ordering, mode: Mode, cutoff: Cutoff, fit: Fit, batch: i32) -> Expected {
    let calls = mode == Mode::NotifyAll || cutoff == Cutoff::Past;
    match (order, mode) {
        (Ordering::Lottery | Ordering::Manual, Mode::NotifyAll) => Expected::Refused,
        // Staff make the final call themselves.
        (Ordering::Manual, Mode::Hold) => Expected::Nothing,
        _ if calls => Expected::Calls("AC"),
        (Ordering::Arrival, _) if batch == 1 || fit == Fit::Strict => Expected::Holds("A"),
        (Ordering::Priority, _) if batch == 1 => Expected::Holds("C"),
        (Ordering::Arrival | Ordering::Priority, _) => Expected::Holds("AC"),
        (Ordering::Lottery, _) if batch == 1 && fit == Fit::Fill => Expected::Drawn(1),
        (Ordering::Lottery, _) if fit == Fit::Fill => Expected::Drawn(2),
        (Ordering::Lottery, _) => Expected::Drawn(usize::MAX),
    }
}

async fn join(world: &World, event: EventId, who: &str, party: i32) -> Entry {
    let join = Join {
        wants: Wants::default(),
        name: name(who),
        email: email(&format!("{}@example.org", who.to_lowercase())),
        party,
        as_whom: JoinAs::Vouched(world.actor()),
    };
    match world.waitlist.join(event, &[join]).await.expect("joined").remove(0) {
        JoinOutcome::Joined(entry) => entry,
        other => panic!("{who} joins, but: {other:?}"),
    }
}

#[tokio::test]
async fn every_cell_has_the_outcome_that_the_rule_says() {
    let world = World::with(two_hours(), 0).await;
    let mut seen = 0;
    for order in Ordering::ALL {
        for mode in Mode::ALL {
            for cutoff in [Cutoff::None, Cutoff::Ahead, Cutoff::Past] {
                for fit in Fit::ALL {
                    for batch in [0, 1] {
                        seen += 1;
                        cell(&world, seen, (*order, *mode, cutoff, *fit, batch)).await;
                    }
                }
            }
        }
    }
    assert_eq!(seen, 4 * 2 * 3 * 2 * 2);
}

async fn cell(
    world: &World,
    number: usize,
    (ordering, mode, cutoff, fit, batch_size): (Ordering, Mode, Cutoff, Fit, i32),
) {
    let cell = format!("{ordering} × {mode} × {cutoff:?} × {fit} × {batch_size}");
    let now = world.now();
    let start: DateTime<Utc> = now + Duration::days(27);
    let policy = Policy {
        ordering,
        mode,
        cutoff: match cutoff {
            Cutoff::None => None,
            Cutoff::Ahead => Some(start - Duration::days(1)),
            Cutoff::Past => Some(now),
        },
        fit,
        batch_size,
        bands: vec![Band {
            number: -100,
            name: "Members".to_owned(),
            reason: "they keep it running".to_owned(),
        }],
        ..two_hours()
    };
    let expected = expected(ordering, mode, cutoff, fit, batch_size);
    if expected == Expected::Refused {
        assert!(policy.check(Some(start)).is_err(), "{cell}");
        return;
    }
    assert_eq!(policy.check(Some(start)), Ok(()), "{cell}");
    let event =
        add_event(&world.waitlist, world.organization, world.staff, &format!("cell-{number}"), policy).await;
    let a = join(world, event, "Ada", 1).await;
    let b = join(world, event, "Ben", 4).await;
    let c = join(world, event, "Cy", 1).await;
    if ordering == Ordering::Priority {
        world.waitlist.move_to_band(event, c.id, -100, world.actor(), &reason()).await.expect("a group");
    }
    world
        .waitlist
        .add_places(event, &[None, None], &Said::default(), "once", world.actor(), Reason::SetUp)
        .await
        .expect("places");
    for _ in 0..3 {
        world.waitlist.run_pass(event).await.expect("a pass");
    }
    let rows: Vec<(uuid::Uuid, String)> =
        sqlx::query_as("SELECT entry_id, kind FROM offers WHERE event_id = $1 AND state = 'pending'")
            .bind(event.0)
            .fetch_all(world.database.sql())
            .await
            .expect("offers");
    let letters = |kind: OfferKind| -> String {
        [(&a, 'A'), (&b, 'B'), (&c, 'C')]
            .into_iter()
            .filter(|(entry, _)| rows.iter().any(|(id, of)| *id == entry.id.0 && *of == kind.to_string()))
            .map(|(_, letter)| letter)
            .collect()
    };
    let (holds, calls) = (letters(OfferKind::Hold), letters(OfferKind::Call));
    match expected {
        Expected::Refused => unreachable!("looked at above"),
        Expected::Nothing => assert!(rows.is_empty(), "{cell}: {holds} {calls}"),
        Expected::Holds(who) => assert_eq!((holds.as_str(), calls.as_str()), (who, ""), "{cell}"),
        Expected::Calls(who) => assert_eq!((holds.as_str(), calls.as_str()), ("", who), "{cell}"),
        Expected::Drawn(most) => {
            let ranking: Vec<EntryId> =
                world.database.db().public_draw(event, 1).await.expect("a draw").ranking;
            // Down the order drawn; under `strict` nobody passes Ben, who waits for four.
            let reached = ranking.iter().take_while(|id| fit == Fit::Fill || **id != b.id);
            let room = if batch_size == 0 { usize::MAX } else { 1 };
            let served = reached.filter(|id| **id != b.id).take(room).count();
            assert_eq!((holds.len(), calls.as_str()), (served.min(most), ""), "{cell}: {ranking:?}");
            assert!(!holds.contains('B'), "{cell}");
        }
    }
}
