//! The chain against a second writing of its bytes, and whatever is done to it.

use proptest::prelude::*;

use super::chain::{Chain, ChainFault};
use super::*;

/// The bytes of a record, written as the module's first lines say, by other means than the program's.
fn canonical(record: &StoredRecord) -> Vec<u8> {
    let fields: [Option<Vec<u8>>; 14] = [
        Some(record.seq.to_be_bytes().to_vec()),
        Some(record.at.timestamp_micros().to_be_bytes().to_vec()),
        Some(record.actor.clone().into_bytes()),
        record.actor_id.map(|id| id.into_bytes().to_vec()),
        Some(record.act.clone().into_bytes()),
        Some(record.subject.clone().into_bytes()),
        Some(record.subject_id.into_bytes().to_vec()),
        record.from_state.clone().map(String::into_bytes),
        record.to_state.clone().map(String::into_bytes),
        Some(record.reason.clone().into_bytes()),
        record.entry_id.map(|id| id.into_bytes().to_vec()),
        record.order_key.clone().map(String::into_bytes),
        record.policy_version.map(|version| i64::from(version).to_be_bytes().to_vec()),
        record.note_digest.clone(),
    ];
    let mut bytes = Vec::new();
    for field in fields {
        let length = field.as_ref().map_or(u32::MAX, |field| u32::try_from(field.len()).expect("short"));
        bytes.extend(length.to_be_bytes());
        bytes.extend(field.unwrap_or_default());
    }
    bytes
}

fn word() -> impl Strategy<Value = String> {
    "[a-z_]{0,12}|\\PC{0,6}"
}

fn uuid() -> impl Strategy<Value = Uuid> {
    any::<u128>().prop_map(Uuid::from_u128)
}

prop_compose! {
    fn record()(
        micros in -4_000_000_000_000_000_i64..4_000_000_000_000_000,
        (actor, act, subject, reason) in (word(), word(), word(), word()),
        (from_state, to_state, order_key) in
            (prop::option::of(word()), prop::option::of(word()), prop::option::of(word())),
        (actor_id, entry_id) in (prop::option::of(uuid()), prop::option::of(uuid())),
        subject_id in uuid(),
        policy_version in prop::option::of(any::<i32>()),
        note_digest in prop::option::of(prop::collection::vec(any::<u8>(), 32)),
    ) -> StoredRecord {
        StoredRecord {
            seq: 0,
            at: DateTime::from_timestamp_micros(micros).expect("within the calendar"),
            actor, actor_id, act, subject, subject_id, from_state, to_state, reason, entry_id, order_key,
            policy_version, note_digest,
        }
    }
}

/// Records numbered from 1, each with its hash.
fn chained(records: Vec<StoredRecord>) -> Vec<(StoredRecord, Hash)> {
    let mut head = GENESIS;
    (1..)
        .zip(records)
        .map(|(seq, record)| {
            let record = StoredRecord { seq, ..record };
            head = record.hash(&head);
            (record, head)
        })
        .collect()
}

/// Where the chain ends, or its first fault.
fn verified(records: &[(StoredRecord, Hash)]) -> Result<Chain, ChainFault> {
    let mut chain = Chain::START;
    records.iter().try_for_each(|(record, hash)| chain.follow(record, hash))?;
    Ok(chain)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn a_hash_is_that_of_the_bytes_described(record in record(), previous in any::<[u8; 32]>(), seq in any::<i64>()) {
        let record = StoredRecord { seq, ..record };
        let expected: Hash = Sha256::digest([previous.to_vec(), canonical(&record)].concat()).into();
        prop_assert_eq!(record.hash(&previous), expected);
    }

    /// No two records have the same bytes: lengths keep neighbouring fields apart.
    #[test]
    fn different_records_differ_in_bytes(one in record(), other in record()) {
        prop_assert_eq!(one == other, canonical(&one) == canonical(&other));
    }

    #[test]
    fn a_whole_chain_is_taken_and_any_change_is_found_where_it_was_made(
        records in prop::collection::vec(record(), 1..12), changed in any::<prop::sample::Index>(), other in record(),
    ) {
        let chain = chained(records);
        let last = chain.last().map(|(record, hash)| Chain { seq: record.seq, head: *hash });
        prop_assert_eq!(verified(&chain).ok(), last);

        let at = changed.index(chain.len());
        let seq = chain[at].0.seq;
        let mut altered = chain.clone();
        altered[at].0 = StoredRecord { seq, ..other };
        if altered[at].0 != chain[at].0 {
            prop_assert_eq!(verified(&altered), Err(ChainFault::Altered(seq)));
        }

        let mut flipped = chain.clone();
        flipped[at].1[7] ^= 1;
        prop_assert_eq!(verified(&flipped), Err(ChainFault::Altered(seq)));

        let mut missing = chain.clone();
        missing.remove(at);
        let found = verified(&missing);
        if at + 1 < chain.len() {
            prop_assert_eq!(found, Err(ChainFault::Missing { first: seq, last: seq }));
        } else {
            // A chain cut at its end is whole in itself: the head on the owner's row says that something is missing.
            prop_assert_ne!(found.ok(), last);
        }
    }
}
