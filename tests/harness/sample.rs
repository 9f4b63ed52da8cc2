//! A small sound database, written row by row, that tests then break on purpose.
//!
//! The story of one morning, on a list that fills: five places, of which one is retired and one leaves when its
//! booking ends. A took an offer; E declined one and stands in the next round; B has the only open place on hold,
//! past C, whose party of three does not fit; D waits; F has not confirmed yet.

use chrono::{DateTime, Utc};
use fairlist::domain::audit::{Act, Actor, GENESIS, Record, StoredRecord, Subject};
use fairlist::domain::entry::OrderKey;
use fairlist::domain::ids::{
    BookingId, EntryId, EventId, OfferId, OrganizationId, PersonId, PlaceId, StaffId,
};
use fairlist::domain::reason::Reason;
use fairlist::domain::secret::token_hash;
use sqlx::Executor as _;
use uuid::Uuid;

use super::database::{TestDatabase, secret};

pub const ORGANIZATION: Uuid = Uuid::from_u128(0x0a);
pub const EVENT: Uuid = Uuid::from_u128(0xe0);
pub const MEMBER: Uuid = Uuid::from_u128(0x5a);

pub const PERSON_A: Uuid = Uuid::from_u128(0xaa);
pub const PERSON_D: Uuid = Uuid::from_u128(0xad);

pub const ENTRY_A: Uuid = Uuid::from_u128(0xea);
pub const ENTRY_B: Uuid = Uuid::from_u128(0xeb);
pub const ENTRY_C: Uuid = Uuid::from_u128(0xec);
pub const ENTRY_D: Uuid = Uuid::from_u128(0xed);
pub const ENTRY_E: Uuid = Uuid::from_u128(0xee);
pub const ENTRY_F: Uuid = Uuid::from_u128(0xef);

/// A's, accepted.
pub const OFFER_A: Uuid = Uuid::from_u128(0x0fa);
/// B's, pending until 10:35.
pub const OFFER_B: Uuid = Uuid::from_u128(0x0fb);
/// E's, declined.
pub const OFFER_E: Uuid = Uuid::from_u128(0x0fe);

/// A's.
pub const PLACE_1: Uuid = Uuid::from_u128(0x91);
/// B's hold.
pub const PLACE_2: Uuid = Uuid::from_u128(0x92);
/// Booked by staff; leaves when free.
pub const PLACE_3: Uuid = Uuid::from_u128(0x93);
/// Retired.
pub const PLACE_4: Uuid = Uuid::from_u128(0x94);

/// Of place 1, through A's offer.
pub const BOOKING_1: Uuid = Uuid::from_u128(0xb1);
/// Of place 3, by staff.
pub const BOOKING_3: Uuid = Uuid::from_u128(0xb3);

/// Tells A of the offer; told.
pub const MESSAGE_A: Uuid = Uuid::from_u128(0x3a);
/// Tells B of the offer; being sent.
pub const MESSAGE_B: Uuid = Uuid::from_u128(0x3b);
/// Tells D that they joined; queued.
pub const MESSAGE_D: Uuid = Uuid::from_u128(0x3d);

/// Of place 2, when E declined.
pub const RELEASE_E: Uuid = Uuid::from_u128(0x7e);

/// Everything has happened by then.
pub const NOW: &str = "2027-03-01T10:00:00Z";

/// The instant on the sample's morning, as `09:35`.
fn at(time: &str) -> DateTime<Utc> {
    format!("2027-03-01T{time}:00Z").parse().expect("a time of day")
}

fn key(round: i32, n: i64) -> OrderKey {
    OrderKey { band: 0, round, rank: OrderKey::rank_of(n) }
}

/// Writes the sample; the database's clock should stand at [`NOW`].
pub async fn write(database: &TestDatabase) {
    database.sql().execute(ROWS).await.expect("the sample's rows");
    for (id, entry, state, pass, entry_key, place_of_time) in [
        (OFFER_A, ENTRY_A, "accepted", 1, key(0, 1), ("09:11", "10:11", Some("09:20"))),
        (OFFER_E, ENTRY_E, "declined", 2, key(0, 2), ("09:12", "10:12", Some("09:15"))),
        (OFFER_B, ENTRY_B, "pending", 3, key(0, 4), ("09:35", "10:35", None)),
    ] {
        let (made, expires, ended) = place_of_time;
        let token = token_hash(&secret().offer_token(OfferId(id), 0));
        sqlx::query(
            "INSERT INTO offers (event_id, id, entry_id, kind, state, party, pass_number, made_reason, policy_version,
                                 band, round, rank, made_at, expires_at, ended_at, decided_at, end_reason, token_hash)
             VALUES ($1, $2, $3, 'hold', $4, 1, $5, 'first_in_order', 1, 0, $6, $7, $8, $9, $10,
                     CASE WHEN $4 = 'accepted' THEN $10 END, CASE WHEN $4 <> 'pending' THEN $4 END, $11)",
        )
        .bind(EVENT)
        .bind(id)
        .bind(entry)
        .bind(state)
        .bind(i64::from(pass))
        .bind(entry_key.round)
        .bind(entry_key.rank)
        .bind(at(made))
        .bind(at(expires))
        .bind(ended.map(at))
        .bind(token.as_slice())
        .execute(database.sql())
        .await
        .expect("an offer");
    }
    database.sql().execute(ROWS_AFTER_OFFERS).await.expect("the rows that name offers");
    database
        .db()
        .with_event(EventId(EVENT), async |event| {
            for record in records() {
                event.record(record);
            }
            Ok::<_, fairlist::db::DbError>(())
        })
        .await
        .expect("the sample's audit");
    database.db().relay(OrganizationId(ORGANIZATION)).await.expect("the sample's feed");
    write_organization_audit(database).await;
}

/// The chain of the organization: two invitations.
async fn write_organization_audit(database: &TestDatabase) {
    let mut head = GENESIS;
    for seq in 1..=2 {
        let record = Record::new(
            at("08:00"),
            Actor::Operator,
            Act::AccessChanged,
            Subject::Staff(StaffId(MEMBER)),
            Reason::SetUp,
        );
        let stored = StoredRecord::from_record(seq, &record, None);
        head = stored.hash(&head);
        sqlx::query(
            "INSERT INTO organization_audit (organization_id, seq, at, actor, act, subject, subject_id, reason, hash)
             VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)",
        )
        .bind(ORGANIZATION)
        .bind(seq)
        .bind(stored.at)
        .bind(stored.actor)
        .bind(stored.act)
        .bind(stored.subject)
        .bind(stored.subject_id)
        .bind(stored.reason)
        .bind(head.as_slice())
        .execute(database.sql())
        .await
        .expect("a record of the organization");
    }
    sqlx::query("UPDATE organizations SET audit_seq = 2, audit_head = $1")
        .bind(head.as_slice())
        .execute(database.sql())
        .await
        .expect("the organization's head");
}

/// What the audit says of the morning, in order.
fn records() -> Vec<Record> {
    let mut records = Vec::new();
    let mut add = |time, act, subject, from, to, reason| {
        records.push(Record::new(at(time), Actor::System, act, subject, reason).states(from, to));
        records.len() - 1
    };
    let place = |id| Subject::Place(PlaceId(id));
    for id in [PLACE_1, PLACE_2, PLACE_3, PLACE_4] {
        add("09:00", Act::Added, place(id), None, Some("open"), Reason::CapacityChanged);
    }
    add("09:01", Act::Retired, place(PLACE_4), Some("open"), Some("retired"), Reason::CapacityChanged);
    add("09:02", Act::Booked, place(PLACE_3), Some("open"), Some("booked"), Reason::CustomerAsked);
    add(
        "09:02",
        Act::Booked,
        Subject::Booking(BookingId(BOOKING_3)),
        None,
        Some("confirmed"),
        Reason::CustomerAsked,
    );
    add("09:03", Act::Retired, place(PLACE_3), Some("booked"), Some("booked"), Reason::CapacityChanged);

    records[4].note = Some("The pillar hides the stage.".to_owned());
    let mut story = Story { records };
    story.entry("09:10", Act::Joined, ENTRY_A, None, "unconfirmed", key(0, 1));
    story.entry("09:11", Act::Confirmed, ENTRY_A, Some("unconfirmed"), "waiting", key(0, 1));
    story.offered("09:11", OFFER_A, ENTRY_A, PLACE_1, key(0, 1));
    story.entry("09:12", Act::Joined, ENTRY_E, None, "waiting", key(0, 2));
    story.offered("09:12", OFFER_E, ENTRY_E, PLACE_2, key(0, 2));
    story.of_entry(
        "09:15",
        Act::Declined,
        Subject::Offer(OfferId(OFFER_E)),
        Some("pending"),
        "declined",
        ENTRY_E,
    );
    story.entry("09:15", Act::Declined, ENTRY_E, Some("offered"), "waiting", key(1, 2));
    story.of_entry("09:15", Act::Released, place(PLACE_2), Some("held"), "open", ENTRY_E);
    story.of_entry(
        "09:20",
        Act::Accepted,
        Subject::Offer(OfferId(OFFER_A)),
        Some("pending"),
        "accepted",
        ENTRY_A,
    );
    story.entry("09:20", Act::Accepted, ENTRY_A, Some("offered"), "accepted", key(0, 1));
    story.of_entry("09:20", Act::Booked, place(PLACE_1), Some("held"), "booked", ENTRY_A);
    story.of_entry("09:20", Act::Booked, Subject::Booking(BookingId(BOOKING_1)), None, "confirmed", ENTRY_A);
    story.entry("09:30", Act::Joined, ENTRY_C, None, "waiting", key(0, 3));
    story.entry("09:35", Act::Joined, ENTRY_B, None, "waiting", key(0, 4));
    story.offered("09:35", OFFER_B, ENTRY_B, PLACE_2, key(0, 4));
    story.entry("09:40", Act::Joined, ENTRY_D, None, "waiting", key(0, 5));
    story.entry("09:45", Act::Joined, ENTRY_F, None, "unconfirmed", key(0, 6));
    story.records
}

/// Records in the making.
struct Story {
    records: Vec<Record>,
}

impl Story {
    fn entry(
        &mut self,
        time: &str,
        act: Act,
        id: Uuid,
        from: Option<&'static str>,
        to: &'static str,
        key: OrderKey,
    ) {
        let mut record =
            Record::new(at(time), Actor::System, act, Subject::Entry(EntryId(id)), Reason::FirstInOrder)
                .states(from, Some(to));
        record.order_key = Some(key);
        self.records.push(record);
    }

    fn of_entry(
        &mut self,
        time: &str,
        act: Act,
        subject: Subject,
        from: Option<&'static str>,
        to: &'static str,
        entry: Uuid,
    ) {
        self.records.push(
            Record::new(at(time), Actor::Person(PersonId(PERSON_A)), act, subject, Reason::Accepted)
                .states(from, Some(to))
                .of_entry(EntryId(entry)),
        );
    }

    fn offered(&mut self, time: &str, offer: Uuid, entry: Uuid, place: Uuid, key: OrderKey) {
        self.records.push(
            Record::new(
                at(time),
                Actor::System,
                Act::Offered,
                Subject::Offer(OfferId(offer)),
                Reason::FirstInOrder,
            )
            .states(None, Some("pending"))
            .of_entry(EntryId(entry))
            .by_rule(key, 1),
        );
        self.entry(time, Act::Offered, entry, Some("waiting"), "offered", key);
        self.of_entry(time, Act::Held, Subject::Place(PlaceId(place)), Some("open"), "held", entry);
    }
}

/// Everything up to the offers. A rank is its number times 2^20; `u('ea')` is the id that ends in `ea`, as the
/// constants above do: tests may use it as well.
const ROWS: &str = r"
CREATE FUNCTION u(digits text) RETURNS uuid IMMUTABLE LANGUAGE sql AS $$ SELECT lpad(digits, 32, '0')::uuid $$;
INSERT INTO organizations (id, slug, name, created_at)
VALUES (u('0a'), 'house', 'The House', '2027-03-01 08:00Z');
INSERT INTO staff (id, organization_id, email, email_canonical, name, role, created_at)
VALUES (u('5a'), u('0a'), 'mo@example.org',
        'mo@example.org', 'Mo', 'owner', '2027-03-01 08:00Z');
INSERT INTO sessions (id_hash, kind, data, subject_id, created_at, idle_until, absolute_until) VALUES
    ('\x51', 'staff', '{}', u('5a'), '2027-03-01 09:00Z', '2027-03-01 10:20Z',
     '2027-03-01 21:00Z'),
    ('\x52', 'customer', '{}', NULL, '2027-03-01 09:00Z', '2027-04-01 09:00Z', '2028-03-01 09:00Z');
INSERT INTO persons (id, organization_id, name, created_at)
SELECT u(id), u('0a'), id,
       '2027-03-01 09:00Z' FROM unnest(ARRAY['aa', 'ab', 'ac', 'ad', 'ae', 'af']) AS id;
INSERT INTO events (id, organization_id, slug, name, zone, starts_at, state, list_state, policy_version, next_arrival,
                    next_rank, next_place, next_pass, created_at)
VALUES (u('e0'), u('0a'), 'concert', 'Concert',
        'Europe/Berlin', '2027-04-01 18:00Z', 'published', 'open', 1, 7, 7, 5, 4, '2027-03-01 08:00Z');
INSERT INTO policies (event_id, version, ordering, mode, window_seconds, batch_size, fit, after_expiry, after_decline,
                      silence_limit, position_shown, made_at)
VALUES (u('e0'), 1, 'arrival', 'hold', 3600, 0, 'fill', 'back', 'keep', 2, 'exact',
        '2027-03-01 08:00Z');
INSERT INTO pass_requests (event_id) VALUES (u('e0'));
INSERT INTO passes (event_id, number, at, last_at, outcome, offered, ended, open_before, policy_version)
SELECT u('e0'), number, at::timestamptz, at::timestamptz, 'offered', 1, 0, open, 1
FROM (VALUES (1, '2027-03-01 09:11Z', 2), (2, '2027-03-01 09:12Z', 1), (3, '2027-03-01 09:35Z', 1))
     AS made(number, at, open);
INSERT INTO skips (event_id, pass_number, reason, party_above, declined_since, band, round, rank, at) VALUES
    (u('e0'), 3, 'does_not_fit', 1, NULL, 0, 0, 4 << 20, '2027-03-01 09:35Z'),
    (u('e0'), 3, 'declined_these', NULL, '2027-03-01 09:15Z', 0, 0, 4 << 20,
     '2027-03-01 09:35Z');
INSERT INTO entries (event_id, id, person_id, state, arrival, round, rank, party, source, joined_at, confirmed_at,
                     vouched, lapses_at, declined_at, state_since)
SELECT u('e0'), u('e' || letter),
       u('a' || letter), state, n, round, n::bigint << 20, party, 'customer',
       joined::timestamptz, CASE WHEN state <> 'unconfirmed' THEN joined::timestamptz END, false,
       CASE WHEN state = 'unconfirmed' THEN '2027-03-02 09:45Z'::timestamptz END,
       CASE WHEN letter = 'e' THEN '2027-03-01 09:15Z'::timestamptz END, joined::timestamptz
FROM (VALUES ('a', 1, 'accepted', 0, 1, '2027-03-01 09:10Z'), ('e', 2, 'waiting', 1, 1, '2027-03-01 09:12Z'),
             ('c', 3, 'waiting', 0, 3, '2027-03-01 09:30Z'), ('b', 4, 'offered', 0, 1, '2027-03-01 09:35Z'),
             ('d', 5, 'waiting', 0, 1, '2027-03-01 09:40Z'), ('f', 6, 'unconfirmed', 0, 1, '2027-03-01 09:45Z'))
     AS made(letter, n, state, round, party, joined);
";

/// Places, bookings, messages and a release.
const ROWS_AFTER_OFFERS: &str = r"
INSERT INTO places (event_id, id, number, state, opened_at, changed_at)
SELECT u('e0'), u('9' || n), n,
       CASE WHEN n = 4 THEN 'retired' ELSE 'open' END, '2027-03-01 09:00Z', '2027-03-01 09:00Z'
FROM generate_series(1, 4) AS n;
INSERT INTO bookings (event_id, id, place_id, person_id, offer_id, reference, state, source, booked_at) VALUES
    (u('e0'), u('b1'),
     u('91'), u('aa'),
     u('fa'), 'R1', 'confirmed', 'offer', '2027-03-01 09:20Z'),
    (u('e0'), u('b3'),
     u('93'), u('ac'), NULL, 'R3', 'confirmed', 'staff',
     '2027-03-01 09:02Z');
UPDATE places SET state = 'booked', booking_id = u('b1'), changed_at = '2027-03-01 09:20Z'
WHERE number = 1;
UPDATE places SET state = 'held', offer_id = u('fb'), opened_at = '2027-03-01 09:15Z',
                  changed_at = '2027-03-01 09:35Z' WHERE number = 2;
UPDATE places SET state = 'booked', booking_id = u('b3'), retire_when_free = true,
                  changed_at = '2027-03-01 09:03Z' WHERE number = 3;
INSERT INTO releases (event_id, source, source_id, id, reason, places, actor, at)
VALUES (u('e0'), 'offer', u('fe'),
        u('7e'), 'declined', ARRAY[u('92')],
        'person', '2027-03-01 09:15Z');
INSERT INTO messages (event_id, id, organization_id, person_id, occasion, subject_id, state, made_at, attempts,
                      next_attempt_at, leased_until, lease, told_at)
SELECT u('e0'), u(id),
       u('0a'), u('a' || right(id, 1)), occasion,
       u(subject), state, made::timestamptz, attempts,
       CASE state WHEN 'queued' THEN made::timestamptz END,
       CASE state WHEN 'sending' THEN '2027-03-01 10:01Z'::timestamptz END,
       CASE state WHEN 'sending' THEN u('cc') END,
       CASE state WHEN 'told' THEN made::timestamptz END
FROM (VALUES ('3a', 'offer', 'fa', 'told', '2027-03-01 09:11Z', 1), ('3e', 'offer', 'fe', 'told', '2027-03-01 09:12Z', 1),
             ('3b', 'offer', 'fb', 'sending', '2027-03-01 09:35Z', 0),
             ('3d', 'joined', 'ed', 'queued', '2027-03-01 09:40Z', 0)) AS made(id, occasion, subject, state, made, attempts);
INSERT INTO deliveries (event_id, message_id, attempt, channel, lease, outcome, started_at, finished_at)
SELECT event_id, id, 1, 'smtp', u('cc'), 'accepted', told_at, told_at FROM messages
WHERE state = 'told';
";
