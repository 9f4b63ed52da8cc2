//! The orders in which people are served: groups that go first, draws, staff who pick.

use chrono::Duration;
use fairlist::domain::allocation::PassOutcome;
use fairlist::domain::draw::file::DrawFault;
use fairlist::domain::entry::{Entry, EntryState};
use fairlist::domain::ids::EntryId;
use fairlist::domain::policy::{After, Band, Beacon, Draws, Ordering, Policy, PolicyError};
use fairlist::domain::reason::Reason;
use fairlist::waitlist::bands::BandOutcome;
use fairlist::waitlist::draws::{BeaconOutcome, DrawOutcome};
use fairlist::waitlist::events::RuleOutcome;
use fairlist::waitlist::staff_offers::OfferOutcome;

use crate::harness::world::{World, reason, two_hours};

const FOUR: [&str; 4] = ["Ada", "Ben", "Cy", "Dot"];

fn groups() -> Policy {
    let band = |number, name: &str, why: &str| Band { number, name: name.to_owned(), reason: why.to_owned() };
    Policy {
        ordering: Ordering::Priority,
        bands: vec![
            band(-200, "Members", "they keep the house running"),
            band(-100, "Residents", "they live here"),
        ],
        ..two_hours()
    }
}

fn lottery() -> Policy {
    Policy { ordering: Ordering::Lottery, ..two_hours() }
}

async fn into_group(world: &World, entry: &Entry, band: i16) -> BandOutcome {
    world
        .waitlist
        .move_to_band(world.event, entry.id, band, world.actor(), &reason())
        .await
        .expect("a group is changed")
}

/// Offered places come back one by one: in which order are they offered?
async fn served(world: &World, count: usize) -> Vec<EntryId> {
    let mut order = Vec::new();
    for _ in 0..count {
        world.add_places(1).await;
        world.settle().await;
        let offered = sqlx::query_scalar::<_, uuid::Uuid>(
            "SELECT entry_id FROM offers WHERE event_id = $1 ORDER BY pass_number DESC, id DESC LIMIT 1",
        )
        .bind(world.event.0)
        .fetch_one(world.database.sql())
        .await
        .expect("an offer was made");
        order.push(EntryId(offered));
    }
    order
}

async fn why_offered(world: &World, entry: EntryId) -> String {
    sqlx::query_scalar("SELECT made_reason FROM offers WHERE event_id = $1 AND entry_id = $2")
        .bind(world.event.0)
        .bind(entry.0)
        .fetch_one(world.database.sql())
        .await
        .expect("an offer")
}

#[tokio::test]
async fn groups_go_first_and_inside_each_who_came_first() {
    let world = World::with(groups(), 0).await;
    let line = world.all_waiting(&FOUR).await;
    assert!(
        matches!(into_group(&world, &line[3], -200).await, BandOutcome::Moved(Some(band)) if band.name == "Members")
    );
    into_group(&world, &line[1], -100).await;
    into_group(&world, &line[2], -100).await;
    assert_eq!(into_group(&world, &line[2], -100).await, BandOutcome::Already);
    assert_eq!(into_group(&world, &line[2], -7).await, BandOutcome::UnknownBand);
    assert_eq!(
        world.database.db().position(world.event, world.entry(line[0].id).await.key).await.ok(),
        Some(4)
    );

    let order = served(&world, 4).await;
    assert_eq!(order, [line[3].id, line[1].id, line[2].id, line[0].id]);
    assert_eq!(why_offered(&world, line[3].id).await, Reason::FirstInBand.as_str());
}

#[tokio::test]
async fn a_group_with_people_in_it_stays_and_another_order_forgets_the_groups() {
    let world = World::with(groups(), 0).await;
    let line = world.all_waiting(&FOUR).await;
    into_group(&world, &line[3], -200).await;
    let change = async |policy: &Policy| {
        let version = world.database.db().event(world.event).await.expect("the event").form_version;
        world
            .waitlist
            .change_policy(world.event, policy, version, world.actor(), &reason())
            .await
            .expect("a rule is changed or refused")
    };
    let mut fewer = groups();
    fewer.bands.remove(0);
    assert!(matches!(change(&fewer).await, RuleOutcome::BandInUse { entries: 1, .. }));
    let none = Policy { bands: vec![], ..groups() };
    assert_eq!(change(&none).await, RuleOutcome::Refused(PolicyError::NoBands));

    assert!(matches!(change(&two_hours()).await, RuleOutcome::Saved(_)));
    assert_eq!(into_group(&world, &line[2], -100).await, BandOutcome::NoBands);
    assert_eq!(served(&world, 2).await, [line[0].id, line[1].id]);
}

#[tokio::test]
async fn the_first_open_place_draws_and_the_order_drawn_is_the_one_that_is_served() {
    let world = World::with(two_hours(), 0).await;
    world.rule(|policy| policy.ordering = Ordering::Lottery).await;
    let chains = world.database.db().chains(world.event).await.expect("the chains");
    assert_eq!(chains.len(), 1, "the beginning of the chain is public from the rule on");
    let line = world.all_waiting(&FOUR).await;
    world.settle().await;
    assert!(
        world.database.db().draws(world.event).await.expect("draws").is_empty(),
        "no place is open: nothing is drawn"
    );

    let order = served(&world, 4).await;
    let draws = world.database.db().draws(world.event).await.expect("draws");
    assert_eq!(draws.len(), 1, "one draw, used up place by place");
    let draw = world.database.db().public_draw(world.event, 1).await.expect("the draw");
    assert_eq!(draw.pool, line.iter().map(|entry| entry.id).collect::<Vec<_>>(), "in order of arrival");
    assert_eq!(draw.ranking, order);
    assert_eq!(draw.commitment, chains[0].1);
    assert_eq!(why_offered(&world, order[0]).await, Reason::FirstDrawn.as_str());
}

#[tokio::test]
async fn who_joins_after_a_draw_is_in_the_next_and_who_could_not_be_offered_a_place_has_no_ticket() {
    let world = World::with(lottery(), 0).await;
    let line = world.all_waiting(&FOUR).await;
    world
        .waitlist
        .pause(
            world.event,
            line[0].id,
            fairlist::domain::entry::PausedBy::Staff,
            None,
            world.actor(),
            &reason(),
        )
        .await
        .expect("a pause");
    let first = served(&world, 1).await;
    let late = world.waiting("Eve", 1).await;
    world.waitlist.resume(world.event, line[0].id, world.actor(), &reason()).await.expect("the pause ends");
    let rest = served(&world, 2).await;
    let pool = world.database.db().public_draw(world.event, 1).await.expect("the draw").pool;
    assert_eq!(pool, [line[1].id, line[2].id, line[3].id], "who was paused has no ticket");
    assert!(!rest.contains(&late.id) && !rest.contains(&line[0].id), "the order drawn is used up first");

    let last = served(&world, 2).await;
    let second = world.database.db().public_draw(world.event, 2).await.expect("a second draw");
    assert_eq!(second.ranking, last);
    assert_eq!(second.pool, [line[0].id, late.id]);
    assert!(!first.is_empty());
    for number in [1, 2] {
        let draw = world.database.db().public_draw(world.event, number).await.expect("a draw").draw;
        assert_eq!(draw.link, number, "each draw reveals the next secret");
    }
}

#[tokio::test]
async fn a_drawn_person_who_does_not_answer_goes_where_the_rule_says() {
    for (after, again) in [(After::Keep, true), (After::Back, false)] {
        let world = World::with(Policy { after_expiry: after, ..lottery() }, 0).await;
        world.all_waiting(&FOUR).await;
        let order = served(&world, 1).await;
        world.later(Duration::hours(3));
        world.settle().await;
        let entry = world.entry(order[0]).await;
        assert_eq!(entry.state, EntryState::Waiting);
        assert_eq!(entry.key.band < 0, again, "{after}: still in the order drawn, or in the next draw");
        let ranking = world.database.db().public_draw(world.event, 1).await.expect("the draw").ranking;
        assert_eq!(world.state(ranking[1]).await, EntryState::Offered, "the place went to the next drawn");
    }
}

#[tokio::test]
async fn staff_may_draw_again_with_a_reason_and_everybody_sees_that_they_did() {
    let world = World::with(Policy { draws: Draws::ByStaff, ..lottery() }, 1).await;
    let line = world.all_waiting(&FOUR).await;
    world.settle().await;
    assert_eq!(world.pass().await.outcome, PassOutcome::WaitingForDraw);
    for number in [1, 2] {
        let drawn = world.waitlist.hold_draw(world.event, world.actor(), &reason()).await.expect("a draw");
        assert_eq!(drawn, DrawOutcome::Drawn { number, entries: 5 - usize::try_from(number).unwrap_or(0) });
        world.settle().await;
    }
    let second = world.database.db().public_draw(world.event, 2).await.expect("the second");
    let first = world.database.db().public_draw(world.event, 1).await.expect("the first");
    assert_eq!(second.pool.len(), 3, "who was offered a place by the first is not in it");
    assert!(!second.pool.contains(&first.ranking[0]));
    let reasons: Vec<String> =
        sqlx::query_scalar("SELECT reason FROM audit WHERE event_id = $1 AND act = 'pool_frozen'")
            .bind(world.event.0)
            .fetch_all(world.database.sql())
            .await
            .expect("the audit");
    assert_eq!(reasons, [reason().reason.as_str(); 2]);
    assert_eq!(line.len(), 4);
}

#[tokio::test]
async fn a_scheduled_draw_is_held_at_its_instant_and_not_before() {
    let world = World::with(two_hours(), 1).await;
    let at = world.now() + Duration::hours(5);
    world.rule(|policy| (policy.ordering, policy.draws) = (Ordering::Lottery, Draws::At(at))).await;
    world.all_waiting(&FOUR).await;
    world.settle().await;
    assert_eq!(world.pass().await.outcome, PassOutcome::WaitingForDraw);
    let due = world.database.db().next_due().await.expect("the next instant");
    assert!(due.is_some_and(|due| due <= at), "the sweeper wakes for it: {due:?}");
    world.later(Duration::hours(5));
    world.database.db().request_due_passes(false).await.expect("what is due");
    world.settle().await;
    let draws = world.database.db().draws(world.event).await.expect("draws");
    assert_eq!(draws.len(), 1);
    assert_eq!((draws[0].frozen_at, draws[0].pool_size), (at, 4));
}

#[tokio::test]
async fn with_a_beacon_the_pool_is_public_before_its_value_exists() {
    let world = World::with(Policy { beacon: Some(Beacon::Drand), ..lottery() }, 1).await;
    world.all_waiting(&FOUR).await;
    world.settle().await;
    assert_eq!(world.pass().await.outcome, PassOutcome::WaitingForDraw);
    let frozen = world.database.db().public_draw(world.event, 1).await.expect("the frozen draw");
    assert!(frozen.draw.secret.is_none() && frozen.ranking.is_empty() && frozen.pool.len() == 4);
    let round = frozen.draw.round.expect("a round is announced");
    assert!(fairlist::domain::draw::quicknet_time(round) >= world.now().timestamp() + 60);
    let wrong =
        world.waitlist.supply_beacon(world.event, &"ab".repeat(48), world.actor()).await.expect("an answer");
    assert!(matches!(wrong, BeaconOutcome::Refused(_)), "{wrong:?}");
    assert!(world.database.db().draws(world.event).await.expect("draws")[0].drawn_at.is_none());
}

#[tokio::test]
async fn a_round_that_was_announced_decides_the_draw() {
    // Round 123 of quicknet was published then, and this is its signature.
    const ROUND: &str =
        "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";
    let world = World::on(
        crate::harness::database::TestDatabase::at("2023-08-23T15:14:33Z").await,
        Policy { beacon: Some(Beacon::Drand), ..lottery() },
        1,
    )
    .await;
    world.all_waiting(&FOUR).await;
    world.settle().await;
    let round = world.database.db().draws(world.event).await.expect("draws")[0].round;
    assert_eq!(round, Some(123));
    let drawn = world.waitlist.supply_beacon(world.event, ROUND, world.actor()).await.expect("an answer");
    assert_eq!(drawn, BeaconOutcome::Drawn { entries: 4 });
    world.settle().await;
    let draw = world.database.db().public_draw(world.event, 1).await.expect("the draw");
    assert_eq!(world.state(draw.ranking[0]).await, EntryState::Offered);
    let again = world.waitlist.supply_beacon(world.event, ROUND, world.actor()).await.expect("an answer");
    assert_eq!(again, BeaconOutcome::NoneWaits);
}

#[tokio::test]
async fn another_order_gives_those_drawn_their_place_in_the_line_back() {
    let world = World::with(lottery(), 0).await;
    let line = world.all_waiting(&FOUR).await;
    let drawn = served(&world, 1).await;
    world.rule(|policy| policy.ordering = Ordering::Arrival).await;
    let rest: Vec<EntryId> = line.iter().map(|entry| entry.id).filter(|id| *id != drawn[0]).collect();
    assert_eq!(served(&world, 3).await, rest, "in order of arrival again");
}

#[tokio::test]
async fn where_staff_pick_nothing_goes_out_by_itself_and_their_reason_is_on_record() {
    let world = World::with(Policy { ordering: Ordering::Manual, ..two_hours() }, 1).await;
    let line = world.all_waiting(&FOUR).await;
    world.settle().await;
    assert_eq!(world.pass().await.outcome, PassOutcome::Manual);
    assert!(world.offer(line[0].id).await.is_none());
    let made = world
        .waitlist
        .offer_to(world.event, line[2].id, None, world.actor(), &reason())
        .await
        .expect("an offer by hand");
    assert!(matches!(made, OfferOutcome::Offered { .. }), "{made:?}");
    assert_eq!(why_offered(&world, line[2].id).await, reason().reason.as_str());
}

#[tokio::test]
async fn a_pool_of_twelve_thousand_is_ranked_from_the_top_while_places_are_offered() {
    let world = World::with(lottery(), 0).await;
    sqlx::query(
        "WITH line AS (UPDATE events SET next_arrival = next_arrival + 12000, next_rank = next_rank + 12000
                       WHERE id = $1 RETURNING organization_id),
              people AS (INSERT INTO persons (id, organization_id, name, created_at)
                         SELECT gen_random_uuid(), line.organization_id, 'P' || n, $2
                         FROM line, generate_series(1, 12000) n RETURNING id)
         INSERT INTO entries (event_id, id, person_id, state, arrival, rank, party, source, joined_at, vouched, state_since)
         SELECT $1, gen_random_uuid(), id, 'waiting', row_number() OVER (), (row_number() OVER ()) << 20, 1, 'import', $2,
                true, $2 FROM people",
    )
    .bind(world.event.0)
    .bind(world.now())
    .execute(world.database.sql())
    .await
    .expect("a long list");
    world.add_places(3).await;
    world.pass().await;
    let half_way = world.database.db().draws(world.event).await.expect("draws");
    assert_eq!((half_way[0].pool_size, half_way[0].applied), (12_000, 5_000));
    let ranking = world.database.db().public_draw(world.event, 1).await.expect("the draw").ranking;
    for entry in &ranking[..3] {
        assert_eq!(world.state(*entry).await, EntryState::Offered, "the top of the order is served at once");
    }
    world.settle().await;
    let keys: Vec<uuid::Uuid> =
        sqlx::query_scalar("SELECT id FROM entries WHERE event_id = $1 ORDER BY band, round, rank")
            .bind(world.event.0)
            .fetch_all(world.database.sql())
            .await
            .expect("the line");
    assert_eq!(keys, ranking.iter().map(|entry| entry.0).collect::<Vec<_>>());
    // These people were put there without records: what the audit says of them is not looked at.
    let mut world = world;
    world.database.broken_on_purpose();
}

#[tokio::test]
async fn a_draw_taken_along_is_drawn_again_by_ten_lines_of_python() {
    let world = World::with(lottery(), 0).await;
    world.all_waiting(&FOUR).await;
    let order = served(&world, 4).await;
    let public = world.database.db().public_draw(world.event, 1).await.expect("the draw");
    let file = public.file("concert");
    assert_eq!(file.verify(), Ok(()));
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("draw.json");
    std::fs::write(&path, serde_json::to_string(&file).expect("json")).expect("written");
    let recipe = folder.path().join("draw.py");
    std::fs::write(&recipe, fairlist::domain::draw::file::RECIPE).expect("written");
    let ran = std::process::Command::new("python3").arg(&recipe).arg(&path).output().expect("python3 runs");
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    let printed: Vec<EntryId> =
        String::from_utf8_lossy(&ran.stdout).lines().map(|line| line.parse().expect("an id")).collect();
    assert_eq!(printed, order);

    let mut forged = file;
    forged.ranking.swap(0, 1);
    assert!(matches!(forged.verify(), Err(DrawFault::Order { place: 1, .. })));
}

#[tokio::test]
async fn while_a_long_list_is_put_into_its_new_order_nothing_is_drawn_or_moved_ahead() {
    let world = World::with(lottery(), 1).await;
    let line = world.all_waiting(&FOUR).await;
    let reordering = async |on: bool| {
        sqlx::query("UPDATE events SET reordering = $2 WHERE id = $1")
            .bind(world.event.0)
            .bind(on)
            .execute(world.database.sql())
            .await
            .expect("the event");
    };
    reordering(true).await;
    let drawn = world.waitlist.hold_draw(world.event, world.actor(), &reason()).await.expect("an answer");
    assert_eq!(drawn, DrawOutcome::Reordering);
    // A pass finds that nothing is left to be taken back, and goes on.
    world.settle().await;
    assert!(!world.database.db().event(world.event).await.expect("the event").reordering);
    assert_eq!(world.database.db().draws(world.event).await.expect("draws").len(), 1);

    world.rule(|policy| (policy.ordering, policy.bands) = (groups().ordering, groups().bands)).await;
    reordering(true).await;
    assert_eq!(into_group(&world, &line[3], -200).await, BandOutcome::Reordering);
}

/// Other settings of a lottery leave the order drawn as it is, in the list and for whoever reads the records.
#[tokio::test]
async fn another_version_of_a_lottery_goes_on_down_the_order_drawn() {
    let world = World::with(lottery(), 0).await;
    world.all_waiting(&FOUR).await;
    let first = served(&world, 1).await;
    world.rule(|policy| policy.window = Some(Duration::hours(5))).await;
    let rest = served(&world, 2).await;
    let ranking = world.database.db().public_draw(world.event, 1).await.expect("the draw").ranking;
    assert_eq!([first, rest].concat(), ranking[..3]);
}

#[tokio::test]
async fn where_the_order_drawn_is_used_up_and_places_are_left_the_rest_is_drawn_at_once() {
    let world = World::with(lottery(), 0).await;
    world.all_waiting(&["Ada", "Ben"]).await;
    world.waitlist.hold_draw(world.event, world.actor(), &reason()).await.expect("a draw");
    let late = world.waiting("Cy", 1).await;
    world.add_places(3).await;
    world.settle().await;
    // Who was not in the first draw is in the second.
    assert_eq!(world.state(late.id).await, EntryState::Offered);
}

#[tokio::test]
async fn places_that_nobody_drawn_takes_go_to_a_draw_among_the_rest_and_no_ticket_is_drawn_twice() {
    let world = World::with(Policy { after_decline: After::Keep, ..lottery() }, 0).await;
    let drawn = world.all_waiting(&["Ada", "Ben"]).await;
    world.add_places(2).await;
    world.settle().await;
    let late = world.waiting("Cy", 2).await;
    for entry in &drawn {
        let offer = world.live_offer(entry.id).await;
        world.decline(offer.id, offer.person).await;
    }
    world.settle().await;
    assert_eq!(world.live_offer(late.id).await.party, 2, "nobody drawn takes these");
    let first = world.database.db().public_draw(world.event, 1).await.expect("the draw").ranking;
    let second = world.database.db().public_draw(world.event, 2).await.expect("a second draw");
    assert_eq!(second.pool, [late.id], "whoever was drawn keeps that rank, and has no second ticket");

    // They are still the first for places that they have not declined.
    world.later(Duration::minutes(1));
    let last = world.waiting("Dot", 1).await;
    assert_eq!(served(&world, 3).await, [first, vec![last.id]].concat());
}
