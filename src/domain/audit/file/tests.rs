//! What is done to a file is found, and named where it was done.

use chrono::Duration;

use super::*;
use crate::domain::audit::{Actor, GENESIS, Record, note_digest};
use crate::domain::ids::{OfferId, StaffId};
use crate::domain::reason::Reason;

const EVENT: EventId = EventId(Uuid::from_u128(0xE));
const NOTES: [&str; 3] = ["=1+1;'-2\n\"quoted\", <b>", "'=1", "plain"];

fn at(seq: i64) -> DateTime<Utc> {
    DateTime::UNIX_EPOCH + Duration::microseconds(1_800_000_000_123_456 + seq)
}

/// The chain of an event with `n` records, three of which have notes.
fn chained(n: i64, last_note: &str) -> Vec<FullRecord> {
    let mut head = GENESIS;
    (1..=n)
        .map(|seq| {
            let offer = Subject::Offer(OfferId(Uuid::from_u128(seq.unsigned_abs().into())));
            let (act, subject) =
                if seq == 1 { (Act::Created, Subject::Event(EVENT)) } else { (Act::Offered, offer) };
            let actor = Actor::Staff(StaffId(Uuid::max()));
            let mut record = Record::new(at(seq), actor, act, subject, Reason::FirstInOrder);
            record.policy_version = (seq % 2 == 0).then_some(3);
            let text = match seq {
                2 | 3 => Some(NOTES[usize::try_from(seq - 2).expect("small")]),
                4 => Some(last_note),
                _ => None,
            };
            let salt = [u8::try_from(seq).expect("small"); 32];
            let digest = text.map(|text| note_digest(&salt, text));
            let record = StoredRecord::from_record(seq, &record, digest);
            head = record.hash(&head);
            let note = text.map(|text| Note { salt: salt.to_vec(), text: text.to_owned() });
            FullRecord { record, hash: head.to_vec(), by: Some("Agnes, the agent".to_owned()), note }
        })
        .collect()
}

fn chain_of(n: i64) -> Vec<FullRecord> {
    chained(n, NOTES[2])
}

fn written(records: &[FullRecord]) -> Vec<u8> {
    let mut out = csv::Writer::from_writer("\u{FEFF}".as_bytes().to_vec());
    out.write_record(COLUMNS).expect("a line");
    for full in records {
        out.write_record(cells(full).iter().map(|cell| sheet::inert(cell).into_owned())).expect("a line");
    }
    out.into_inner().expect("bytes")
}

fn check(file: &[u8]) -> Result<Sound, Unsound> {
    verify(file, None).expect("an audit")
}

/// On which line what is wrong.
fn fault(records: &[FullRecord], anchor: Option<&Anchor>) -> (Option<u64>, Fault) {
    let found = verify(written(records).as_slice(), anchor).expect("an audit").expect_err("unsound");
    (found.line, found.fault)
}

fn anchor(records: &[FullRecord]) -> Anchor {
    let last = records.last().expect("a record");
    let (seq, hash) = (last.record.seq, last.hash.as_slice().try_into().expect("32 bytes"));
    Anchor { of: Some(ChainOf::Event(EVENT)), seq, hash, at: Some(at(seq)) }
}

#[test]
fn a_whole_file_is_sound_and_says_what_it_holds() {
    let records = chain_of(6);
    let sound = check(&written(&records)).expect("sound");
    let head = records[5].hash.as_slice().try_into().expect("32 bytes");
    let expected = Sound { records: 6, head, last_at: at(6), event: Some(EVENT), notes: 3, notes_erased: 0 };
    assert_eq!(sound, expected);

    let mut erased = records;
    erased[2].note = None;
    let sound = check(&written(&erased)).expect("erasing a note is no fault");
    assert_eq!((sound.notes, sound.notes_erased), (2, 1));
}

/// One bit of each byte, but for the cells that nothing seals.
#[test]
fn any_altered_byte_is_found() {
    let file = written(&chain_of(4));
    let first_line = file.iter().position(|byte| *byte == b'\n').expect("a line") + 1;
    let by = "Agnes, the agent".as_bytes();
    let unsealed =
        |index: usize| (0..by.len()).any(|before| index >= before && file[index - before..].starts_with(by));
    let mut altered = 0;
    for index in (first_line..file.len()).filter(|index| !unsealed(*index)) {
        let mut changed = file.clone();
        changed[index] ^= 1 << (index % 8);
        let near = &changed[index.saturating_sub(20)..(index + 20).min(file.len())];
        let same = read_by_anybody(&changed) == read_by_anybody(&file);
        assert!(same || check(&changed).is_err(), "byte {index}, in …{}…", String::from_utf8_lossy(near));
        altered += usize::from(!same);
    }
    assert!(altered > 1_000, "{altered}");
}

/// The cells of a file as any program reads them: two writings of the same cells are the same.
fn read_by_anybody(file: &[u8]) -> Option<Vec<Vec<Vec<u8>>>> {
    ReaderBuilder::new()
        .has_headers(false)
        .flexible(true)
        .from_reader(file)
        .byte_records()
        .map(|row| row.ok().map(|row| row.iter().map(<[u8]>::to_vec).collect()))
        .collect()
}

#[test]
fn an_altered_missing_doubled_or_moved_row_is_named_with_its_line() {
    let whole = chain_of(8);

    let mut altered = whole.clone();
    altered[4].record.to_state = Some("accepted".to_owned());
    // The first note has a line break: the fifth record is on line 7.
    assert_eq!(fault(&altered, None), (Some(7), ChainFault::Altered(5).into()));
    let mut hash = whole.clone();
    hash[7].hash[0] ^= 1;
    assert_eq!(fault(&hash, None), (Some(10), ChainFault::Altered(8).into()), "the head's hash");

    let mut missing = whole.clone();
    missing.drain(4..6);
    assert_eq!(fault(&missing, None), (Some(7), ChainFault::Missing { first: 5, last: 6 }.into()));
    let mut beginning = whole.clone();
    beginning.remove(0);
    assert_eq!(fault(&beginning, None), (Some(2), ChainFault::Missing { first: 1, last: 1 }.into()));

    let mut doubled = whole.clone();
    doubled.insert(6, whole[5].clone());
    assert_eq!(fault(&doubled, None), (Some(9), ChainFault::Again(6).into()));

    let mut swapped = whole.clone();
    swapped.swap(4, 5);
    assert_eq!(fault(&swapped, None), (Some(7), Fault::Order { expected: 5, found: 6 }));

    let mut noted = whole.clone();
    noted[2].note.as_mut().expect("a note").text.push('!');
    assert_eq!(fault(&noted, None), (Some(5), ChainFault::Note(3).into()));
    let mut digest = whole.clone();
    digest[2].record.note_digest.as_mut().expect("a digest")[0] ^= 1;
    assert_eq!(fault(&digest, None), (Some(5), ChainFault::Altered(3).into()));
    let mut added = whole;
    added[6].note = Some(Note { salt: vec![1], text: "never said".to_owned() });
    assert_eq!(fault(&added, None), (Some(9), ChainFault::Note(7).into()));
    assert_eq!(fault(&[], None), (None, Fault::Empty));
}

#[test]
fn what_is_done_to_the_end_is_found_against_an_anchor_only() {
    let whole = chain_of(8);
    let kept = anchor(&whole);
    let verified = |records: &[FullRecord], anchor: Option<Anchor>| {
        verify(written(records).as_slice(), anchor.as_ref()).expect("an audit")
    };
    assert!(verified(&whole, Some(kept)).is_ok());
    assert!(verified(&whole, Some(anchor(&whole[..5]))).is_ok(), "the chain has grown since");

    let cut = &whole[..6];
    assert!(verified(cut, None).is_ok(), "a chain that was cut is whole in itself");
    let (line, fault_found) = fault(cut, Some(&kept));
    assert_eq!(line, None);
    assert!(matches!(fault_found, Fault::CutOff { last: 6, anchored: 8, .. }), "{fault_found:?}");
    assert!(fault_found.to_string().contains("records 7 to 8 are missing at the end"), "{fault_found}");

    // Cut, and then written on with hashes that fit.
    let rewritten = chained(8, "something else");
    assert!(verified(&rewritten, None).is_ok());
    assert!(matches!(fault(&rewritten, Some(&kept)), (Some(10), Fault::NotAnchored { seq: 8, .. })));

    // A record with a right hash behind the anchored one, of an instant at which the anchor knew of none.
    let longer = chain_of(9);
    let later = Anchor { at: Some(at(100)), ..kept };
    assert!(verified(&longer, None).is_ok());
    assert!(matches!(fault(&longer, Some(&later)), (Some(11), Fault::AddedBefore { seq: 9, .. })));
    let typed = Anchor { of: None, at: None, ..kept };
    assert!(verified(&longer, Some(typed)).is_ok(), "it may have been written since");

    let foreign = Anchor { of: Some(ChainOf::Event(EventId(Uuid::nil()))), ..kept };
    assert!(matches!(fault(&whole, Some(&foreign)), (Some(2), Fault::OtherChain { .. })));
}

#[test]
fn a_file_that_breaks_off_is_unsound_and_one_that_is_no_audit_is_unreadable() {
    let file = written(&chain_of(6));
    let found = check(&file[..file.len() - 60]).expect_err("it breaks off");
    assert!(matches!(found.fault, Fault::Width { after: 5, .. } | Fault::Cell { after: 5, .. }), "{found:?}");
    for text in ["", "seq,at\n1,2\n", "seq;at;actor\n", "\0\0\0"] {
        assert!(matches!(verify(text.as_bytes(), None), Err(Unreadable::NoColumn(_))), "{text:?}");
    }
}
