//! Draws against vectors that an independent script computed (`tests/draw_vectors.py`), and files tampered with.

use proptest::prelude::*;
use serde::Deserialize;
use uuid::Uuid;

use super::file::{BeaconFile, DrawFault, DrawFile, FORMAT};
use super::*;

#[derive(Deserialize)]
struct Vector {
    number: i32,
    link: i32,
    end: String,
    commitment: String,
    secret: String,
    beacon: String,
    pool: Vec<EntryId>,
    pool_digest: String,
    first_ticket: String,
    ranking: Vec<EntryId>,
}

fn vectors() -> Vec<Vector> {
    serde_json::from_str(include_str!("../../../tests/data/draws.json")).expect("the vectors can be read")
}

fn bytes(text: &str) -> Bytes32 {
    hex::decode(text).expect("hexadecimal").try_into().expect("32 bytes")
}

impl Vector {
    fn wheel(&self) -> Wheel {
        Wheel {
            number: self.number,
            secret: bytes(&self.secret),
            beacon: (!self.beacon.is_empty()).then(|| bytes(&self.beacon)),
            pool_digest: bytes(&self.pool_digest),
        }
    }

    fn file(&self) -> DrawFile {
        DrawFile {
            format: FORMAT.to_owned(),
            event: "spring-concert".to_owned(),
            draw: self.number,
            cause: "need".to_owned(),
            pool: self.pool.clone(),
            pool_digest: self.pool_digest.clone(),
            frozen_at: "2026-11-01T10:00:00Z".to_owned(),
            commitment: self.commitment.clone(),
            link: self.link,
            beacon: None,
            secret: Some(self.secret.clone()),
            ranking: self.ranking.clone(),
            drawn_at: Some("2026-11-01T10:00:00Z".to_owned()),
        }
    }
}

#[test]
fn draws_are_what_an_independent_script_computes() {
    let vectors = vectors();
    assert_eq!(vectors.len(), 5);
    for vector in vectors {
        assert_eq!(link(bytes(&vector.end), vector.link), bytes(&vector.secret));
        assert_eq!(commitment(bytes(&vector.end)), bytes(&vector.commitment));
        assert_eq!(hash_back(bytes(&vector.secret), vector.link), bytes(&vector.commitment));
        assert_eq!(pool_digest(&vector.pool), bytes(&vector.pool_digest));
        assert_eq!(hex::encode(vector.wheel().ticket(vector.pool[0])), vector.first_ticket);
        assert_eq!(vector.wheel().rank(&vector.pool), vector.ranking);
    }
}

#[test]
fn the_readme_has_the_second_of_these_vectors() {
    let readme = include_str!("../../../README.md");
    let vector = &vectors()[1];
    let ranking = &vector.ranking;
    for says in [&vector.commitment, &vector.secret, &vector.pool_digest, &vector.first_ticket] {
        assert!(readme.contains(says), "{says}");
    }
    for entry in [ranking[0], ranking[1], ranking[11]] {
        assert!(readme.contains(&entry.to_string()), "{entry}");
    }
}

#[test]
fn a_file_is_checked_by_drawing_again() {
    let vector = &vectors()[2];
    let file = vector.file();
    assert_eq!(file.verify(), Ok(()));
    let written = serde_json::to_string(&file).expect("written");
    assert_eq!(serde_json::from_str::<DrawFile>(&written).expect("read"), file);

    let with = |change: fn(&mut DrawFile)| {
        let mut file = file.clone();
        change(&mut file);
        file.verify().expect_err("found")
    };
    assert_eq!(with(|file| file.format = "other".to_owned()), DrawFault::Format);
    assert_eq!(with(|file| file.secret = None), DrawFault::NotDrawn);
    assert_eq!(with(|file| file.secret = Some("00".to_owned())), DrawFault::Bytes("secret"));
    assert_eq!(with(|file| file.secret = Some("00".repeat(32))), DrawFault::Secret(2));
    assert_eq!(with(|file| file.link = 3), DrawFault::Secret(3));
    assert_eq!(with(|file| file.link = 0), DrawFault::Link(0));
    assert_eq!(with(|file| file.pool[1] = file.pool[0]), DrawFault::Twice(vector.pool[0]));
    assert!(matches!(with(|file| file.pool.swap(0, 1)), DrawFault::Pool(_)));
    assert!(matches!(with(|file| file.pool.truncate(39)), DrawFault::Pool(_)));
    assert!(matches!(with(|file| file.draw = 3), DrawFault::Order { .. }));
    let should = vector.ranking[4].to_string();
    let says = vector.ranking[7].to_string();
    assert_eq!(with(|file| file.ranking.swap(4, 7)), DrawFault::Order { place: 5, should, says });
    let last = vector.ranking.len();
    let should = vector.ranking[last - 1].to_string();
    let gone = DrawFault::Order { place: last, should, says: "nobody".to_owned() };
    assert_eq!(with(|file| file.ranking.truncate(39)), gone);
}

/// Round 123 of quicknet, as drand's interface gives it.
const ROUND_123: &str =
    "b75c69d0b72a5d906e854e808ba7e2accb1542ac355ae486d591aa9d43765482e26cd02df835d3546d23c4b13e0dfc92";

#[test]
fn a_beacon_is_the_round_that_was_announced_or_nothing() {
    let value = beacon_value(123, ROUND_123).expect("the signature of round 123");
    assert_eq!(hex::encode(value), hex::encode(Sha256::digest(hex::decode(ROUND_123).expect("hex"))));
    assert_eq!(beacon_value(123, &format!(" {ROUND_123}\n")), Ok(value));
    assert_eq!(beacon_value(124, ROUND_123), Err(BeaconError::WrongRound));
    assert_eq!(beacon_value(-1, ROUND_123), Err(BeaconError::WrongRound));
    assert_eq!(beacon_value(123, &"ab".repeat(48)), Err(BeaconError::WrongRound));
    assert_eq!(beacon_value(123, &ROUND_123[2..]), Err(BeaconError::NotASignature));
    assert_eq!(beacon_value(123, "round 123"), Err(BeaconError::NotASignature));
    assert_eq!(beacon_value(123, " "), Err(BeaconError::Empty));

    let time = quicknet_time(123);
    assert_eq!((quicknet_round(time), quicknet_round(time + 1), quicknet_round(time - 2)), (123, 124, 123));
    assert_eq!((quicknet_round(0), quicknet_time(1)), (1, QUICKNET_GENESIS));
}

#[test]
fn a_file_with_a_beacon_names_a_round_after_the_pool() {
    let vector = &vectors()[2];
    let mut file = vector.file();
    file.frozen_at = "2023-08-23T15:00:00Z".to_owned();
    file.beacon =
        Some(BeaconFile { kind: "drand".to_owned(), round: 123, signature: Some(ROUND_123.to_owned()) });
    let beacon = beacon_value(123, ROUND_123).ok();
    file.ranking = Wheel { beacon, ..vector.wheel() }.rank(&file.pool);
    assert_eq!(file.verify(), Ok(()));

    let late = DrawFile { frozen_at: "2026-11-01T10:00:00Z".to_owned(), ..file.clone() };
    assert_eq!(late.verify(), Err(DrawFault::BeaconKnown(123)));
    let other = BeaconFile { kind: "drand".to_owned(), round: 124, signature: Some(ROUND_123.to_owned()) };
    assert_eq!(DrawFile { beacon: Some(other), ..file.clone() }.verify(), Err(DrawFault::Beacon(124)));
    let without = DrawFile { beacon: None, ..file };
    assert!(matches!(without.verify(), Err(DrawFault::Order { .. })));
}

proptest! {
    #[test]
    fn a_draw_ranks_everybody_once_and_the_same_whenever_it_is_drawn_again(
        ids in prop::collection::hash_set(any::<u128>(), 0..60), number in 1..2_000, secret in any::<[u8; 32]>(),
    ) {
        let pool: Vec<EntryId> = ids.into_iter().map(|id| EntryId(Uuid::from_u128(id))).collect();
        let wheel = Wheel { number, secret, beacon: None, pool_digest: pool_digest(&pool) };
        let ranking = wheel.rank(&pool);
        let mut reversed = pool.clone();
        reversed.reverse();
        prop_assert_eq!(&wheel.rank(&reversed), &ranking, "the order of reading does not matter, the digest does");
        let (mut all, mut ranked) = (pool, ranking);
        all.sort_unstable();
        ranked.sort_unstable();
        prop_assert_eq!(all, ranked);
    }
}
