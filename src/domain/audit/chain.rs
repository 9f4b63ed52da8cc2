//! Following a chain record by record: each must have the number and the hash that the one before it asks for.

use super::{FullRecord, GENESIS, Hash, StoredRecord};

/// Where a chain does not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ChainFault {
    /// The record does not have the hash that its content and its predecessor give.
    #[error("Record {0} does not fit the one before it: something in it, or its hash, was altered.")]
    Altered(i64),
    /// Records are left out, or come later.
    #[error("{} missing.", records(*.first, *.last))]
    Missing {
        /// The first of them.
        first: i64,
        /// The last of them.
        last: i64,
    },
    /// A number that has been before.
    #[error("Record {0} is there twice.")]
    Again(i64),
    /// The words beside the record are not those whose digest it holds.
    #[error("The note of record {0} is not the one that was written.")]
    Note(i64),
}

/// "Record 7 is", "Records 7 to 9 are".
pub(super) fn records(first: i64, last: i64) -> String {
    if first == last { format!("Record {first} is") } else { format!("Records {first} to {last} are") }
}

/// Where a chain stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Chain {
    /// The number of the last record.
    pub seq: i64,
    /// Its hash.
    pub head: Hash,
}

impl Chain {
    /// Before the first record.
    pub const START: Self = Self { seq: 0, head: GENESIS };

    /// Takes the next record with the hash that is stored beside it. After a fault the chain goes on from what is
    /// stored, so that every altered record can be named, and only those.
    ///
    /// # Errors
    /// When the record does not follow.
    pub fn follow(&mut self, record: &StoredRecord, stored: &[u8]) -> Result<(), ChainFault> {
        let expected = self.seq.saturating_add(1);
        let followed = if record.seq > expected {
            Err(ChainFault::Missing { first: expected, last: record.seq - 1 })
        } else if record.seq < expected {
            Err(ChainFault::Again(record.seq))
        } else if record.hash(&self.head).as_slice() != stored {
            Err(ChainFault::Altered(record.seq))
        } else {
            Ok(())
        };
        self.seq = record.seq;
        // A hash of another length fits nothing: the next record is named as well.
        self.head = stored.try_into().unwrap_or(GENESIS);
        followed
    }

    /// The same, and the note beside the record must be the one that it holds the digest of. A note that was erased
    /// is no fault.
    ///
    /// # Errors
    /// When the record does not follow, or its note is another.
    pub fn follow_full(&mut self, full: &FullRecord) -> Result<(), ChainFault> {
        self.follow(&full.record, &full.hash)?;
        if full.note_fits() { Ok(()) } else { Err(ChainFault::Note(full.record.seq)) }
    }
}

#[cfg(test)]
mod tests {
    use chrono::DateTime;
    use uuid::Uuid;

    use super::*;
    use crate::domain::audit::{Act, Actor, Record, Subject};
    use crate::domain::ids::OfferId;
    use crate::domain::reason::Reason;

    fn chain(n: i64) -> Vec<(StoredRecord, Hash)> {
        let mut head = GENESIS;
        (1..=n)
            .map(|seq| {
                let mut record = Record::new(
                    DateTime::UNIX_EPOCH,
                    Actor::System,
                    Act::Offered,
                    Subject::Offer(OfferId(Uuid::from_u128(seq.unsigned_abs().into()))),
                    Reason::FirstInOrder,
                );
                record.policy_version = Some(1);
                let stored = StoredRecord::from_record(seq, &record, None);
                head = stored.hash(&head);
                (stored, head)
            })
            .collect()
    }

    fn faults(records: &[(StoredRecord, Hash)]) -> Vec<ChainFault> {
        let mut chain = Chain::START;
        records.iter().filter_map(|(record, hash)| chain.follow(record, hash).err()).collect()
    }

    #[test]
    fn a_changed_field_a_missing_row_and_a_swap_are_named_and_nothing_else() {
        let whole = chain(5);
        assert_eq!(faults(&whole), []);

        let mut changed = whole.clone();
        changed[2].0.to_state = Some("accepted".to_owned());
        assert_eq!(faults(&changed), [ChainFault::Altered(3)]);

        let mut missing = whole.clone();
        missing.drain(1..3);
        assert_eq!(faults(&missing), [ChainFault::Missing { first: 2, last: 3 }]);

        let mut doubled = whole.clone();
        doubled.insert(2, whole[1].clone());
        assert_eq!(faults(&doubled), [ChainFault::Again(2)]);

        let mut swapped = whole;
        swapped.swap(3, 4);
        assert_eq!(faults(&swapped), [ChainFault::Missing { first: 4, last: 4 }, ChainFault::Again(4)]);
    }

    #[test]
    fn an_absent_field_differs_from_an_empty_one() {
        let (record, _) = chain(1).remove(0);
        let mut empty = record.clone();
        empty.to_state = Some(String::new());
        assert_ne!(record.hash(&GENESIS), empty.hash(&GENESIS));
    }
}
