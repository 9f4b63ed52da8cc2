//! `check` finds nothing in a sound database, and names the row when an invariant is broken on purpose.

use fairlist::db::check::{CheckSettings, Finding, Invariant};
use sqlx::Executor as _;
use uuid::Uuid;

use crate::harness::database::{TestDatabase, secret};
use crate::harness::sample::{self, *};

async fn sound() -> TestDatabase {
    let database = TestDatabase::at(NOW).await;
    sample::write(&database).await;
    database
}

async fn findings(database: &TestDatabase, settings: &CheckSettings) -> Vec<Finding> {
    database.db().check(settings).await.expect("the database can be read")
}

fn settings() -> CheckSettings {
    CheckSettings::new(secret())
}

/// A row, part of the sentence that must name it, and the SQL that breaks it.
type Breakage = (Uuid, &'static str, &'static str);

/// Breaks the sample in each of these ways, and demands that `check` names every row for `invariant`.
pub async fn broken(invariant: Invariant, breakages: &[Breakage]) {
    let mut database = sound().await;
    database.broken_on_purpose();
    for (_, sentence, sql) in breakages {
        database.sql().execute(*sql).await.unwrap_or_else(|error| panic!("{sentence}: {error}"));
    }
    let findings = findings(&database, &settings()).await;
    for (id, sentence, _) in breakages {
        let found = findings.iter().any(|found| {
            found.invariant == invariant && found.ids.contains(id) && found.sentence.contains(sentence)
        });
        assert!(found, "{invariant} must name {id} with {sentence:?}, and what was found is {findings:#?}");
    }
}

#[tokio::test]
async fn a_sound_database_gives_no_finding() {
    let database = sound().await;
    assert_eq!(findings(&database, &settings()).await, []);
}

#[tokio::test]
async fn an_empty_database_gives_no_finding() {
    let database = TestDatabase::at(NOW).await;
    assert_eq!(findings(&database, &settings()).await, []);
}

#[tokio::test]
async fn i1_places_that_do_not_add_up_are_found() {
    broken(
        Invariant::Capacity,
        &[
            (
                PLACE_4,
                "yet to be retired",
                "ALTER TABLE places DROP CONSTRAINT places_retire_check;
                 UPDATE places SET retire_when_free = true WHERE number = 4",
            ),
            (EVENT, "has 2 places, and its open, held and booked ones less those to be retired are 1", ""),
            (
                EVENT,
                "has 1 held places, and the kept count says 2",
                "UPDATE place_counts SET n = 2 WHERE state = 'held'",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn i2_a_place_held_and_booked_or_booked_twice_is_found() {
    broken(
        Invariant::OnePromise,
        &[
            (
                PLACE_1,
                "is held for offer",
                "ALTER TABLE places DROP CONSTRAINT places_held_check;
                 UPDATE places SET offer_id = u('fb') WHERE number = 1",
            ),
            (
                PLACE_1,
                "has 2 confirmed bookings",
                "DROP INDEX bookings_one_per_place;
                 INSERT INTO bookings (event_id, id, place_id, person_id, reference, state, source, booked_at)
                 SELECT event_id, u('b9'), place_id, person_id, 'R9', state, 'staff', booked_at FROM bookings
                 WHERE reference = 'R1'",
            ),
            (
                BOOKING_1,
                "has 2 places",
                "DROP INDEX places_one_per_booking; UPDATE places SET booking_id = u('b1') WHERE number = 3",
            ),
            (BOOKING_3, "is not booked by it", ""),
            (PLACE_3, "not a confirmed booking of it", ""),
        ],
    )
    .await;
}

#[tokio::test]
async fn i3_an_entry_with_two_live_offers_is_found() {
    broken(
        Invariant::OneLiveOffer,
        &[(
            ENTRY_B,
            "has 2 live offers",
            "DROP INDEX offers_one_live_per_entry;
             UPDATE offers SET state = 'pending', ended_at = NULL, end_reason = NULL, entry_id = u('eb')
             WHERE id = u('fe')",
        )],
    )
    .await;
}

#[tokio::test]
async fn i4_a_person_with_two_live_entries_is_found() {
    broken(
        Invariant::OneLiveEntry,
        &[(
            ENTRY_D,
            "has 2 live entries",
            "DROP INDEX entries_one_live_per_person;
             UPDATE entries SET person_id = u('ac') WHERE id = u('ed')",
        )],
    )
    .await;
}

#[tokio::test]
async fn i5_offers_that_do_not_agree_with_their_places_bookings_and_entries_are_found() {
    broken(
        Invariant::PartyServed,
        &[
            (
                OFFER_A,
                "accepted for a party of 2 and has 1 bookings",
                "UPDATE offers SET party = 2 WHERE id = u('fa')",
            ),
            (
                OFFER_B,
                "pending for a party of 1 and 0 places are held",
                "UPDATE places SET offer_id = u('fe') WHERE number = 2",
            ),
            (OFFER_E, "declined for a party of 1 and 1 places are held", ""),
            (
                ENTRY_D,
                "is offered and has no live offer",
                "UPDATE entries SET state = 'offered' WHERE id = u('ed')",
            ),
            (OFFER_B, "and its entry", "UPDATE entries SET state = 'waiting' WHERE id = u('eb')"),
        ],
    )
    .await;
}

#[tokio::test]
async fn i7_states_that_do_not_fit_their_instants_are_found() {
    broken(
        Invariant::StateInstants,
        &[
            (
                ENTRY_D,
                "when it lapses says otherwise",
                "ALTER TABLE entries DROP CONSTRAINT entries_unconfirmed_check;
                 UPDATE entries SET lapses_at = '2027-03-02 10:00Z' WHERE id = u('ed')",
            ),
            (
                OFFER_B,
                "when it ended says otherwise",
                "ALTER TABLE offers DROP CONSTRAINT offers_ended_check;
                 ALTER TABLE offers DROP CONSTRAINT offers_end_reason_check;
                 UPDATE offers SET ended_at = made_at WHERE id = u('fb')",
            ),
            (
                PLACE_2,
                "its hold says otherwise",
                "ALTER TABLE places DROP CONSTRAINT places_held_check;
                 UPDATE places SET offer_id = NULL WHERE number = 2",
            ),
            (
                BOOKING_1,
                "cancelled before it was booked",
                "UPDATE bookings SET state = 'cancelled', cancelled_at = '2027-03-01 08:00Z', cancel_reason = 'other'
                 WHERE reference = 'R1'",
            ),
            (
                MESSAGE_D,
                "its next attempt says otherwise",
                "ALTER TABLE messages DROP CONSTRAINT messages_due_check;
                 UPDATE messages SET next_attempt_at = NULL WHERE state = 'queued'",
            ),
            (EVENT, "the kept count says 7", "UPDATE entry_counts SET n = 7 WHERE state = 'unconfirmed'"),
        ],
    )
    .await;
}

#[tokio::test]
async fn i8_deadlines_that_were_not_kept_are_found() {
    broken(
        Invariant::Deadlines,
        &[
            (
                OFFER_A,
                "was accepted at",
                "ALTER TABLE offers DROP CONSTRAINT offers_in_time_check;
                 UPDATE offers SET expires_at = decided_at WHERE id = u('fa')",
            ),
            (OFFER_E, "before its deadline", "UPDATE offers SET state = 'expired' WHERE id = u('fe')"),
            (OFFER_B, "after the start", "UPDATE events SET starts_at = '2027-03-01 10:30Z'"),
        ],
    )
    .await;
}

#[tokio::test]
async fn i9_a_pending_offer_overdue_by_more_than_a_minute_is_found_and_only_lag_while_nothing_runs() {
    let mut database = sound().await;
    database.broken_on_purpose();
    let overdue = |findings: Vec<Finding>| -> Vec<Finding> {
        findings.into_iter().filter(|found| found.invariant == Invariant::Overdue).collect()
    };
    // B's deadline is 10:35.
    database.clock().set("2027-03-01T10:36:00Z".parse().expect("an instant"));
    assert_eq!(overdue(findings(&database, &settings()).await), [], "a minute is allowed");
    database.clock().set("2027-03-01T10:36:00.000001Z".parse().expect("an instant"));
    let served = overdue(findings(&database, &settings()).await);
    assert!(served.len() == 1 && served[0].ids.contains(&OFFER_B) && !served[0].lag, "{served:#?}");
    let stopped = overdue(findings(&database, &CheckSettings { served: false, ..settings() }).await);
    assert!(stopped.len() == 1 && stopped[0].ids.contains(&OFFER_B) && stopped[0].lag, "{stopped:#?}");
}

/// C was before B and did not fit: the set that says so is the only thing between B's offer and an unfair one.
#[tokio::test]
async fn i10_who_was_passed_over_without_a_recorded_skip_is_found() {
    for sql in [
        "DELETE FROM skips WHERE reason = 'does_not_fit'",
        // A set of larger parties, or of those before an earlier key, is not about C.
        "UPDATE skips SET party_above = 3 WHERE reason = 'does_not_fit'",
        "UPDATE skips SET rank = rank - 1 WHERE reason = 'does_not_fit'",
        // Nor is it if C would have fitted.
        "UPDATE entries SET party = 1 WHERE id = u('ec')",
    ] {
        broken(
            Invariant::PassedOver,
            &[(ENTRY_C, "was eligible at 0/0/3145728 without a recorded skip", sql)],
        )
        .await;
    }
}

#[tokio::test]
async fn i11_an_open_place_that_somebody_could_be_offered_is_found() {
    const OPEN: &str = "UPDATE places SET state = 'open' WHERE number = 4";
    broken(Invariant::AtRest, &[(ENTRY_D, "would offer 1", OPEN)]).await;

    let mut database = sound().await;
    database.broken_on_purpose();
    database.sql().execute(OPEN).await.expect("a place opens");
    for (hindrance, undo) in [
        (
            "UPDATE pass_requests SET requested_at = '2027-03-01 10:00Z'",
            "UPDATE pass_requests SET requested_at = NULL",
        ),
        ("UPDATE policies SET window_seconds = NULL", "UPDATE policies SET window_seconds = 3600"),
        ("UPDATE policies SET batch_size = 1", "UPDATE policies SET batch_size = 0"),
        // The head wants three, and the rule is to wait for them.
        ("UPDATE policies SET fit = 'strict'", "UPDATE policies SET fit = 'fill'"),
        ("UPDATE events SET list_state = 'closed'", "UPDATE events SET list_state = 'open'"),
        ("UPDATE events SET state = 'draft'", "UPDATE events SET state = 'published'"),
        ("UPDATE events SET starts_at = '2027-03-01 10:00Z'", "UPDATE events SET starts_at = NULL"),
        (
            "UPDATE events SET importing_until = '2027-03-01 10:05Z'",
            "UPDATE events SET importing_until = NULL",
        ),
        ("UPDATE entries SET paused = 'person' WHERE party = 1", "UPDATE entries SET paused = NULL"),
    ] {
        for (sql, named) in [(hindrance, false), (undo, true)] {
            database.sql().execute(sql).await.unwrap_or_else(|error| panic!("{sql}: {error}"));
            let findings = findings(&database, &settings()).await;
            let found = findings.iter().any(|found| found.invariant == Invariant::AtRest);
            assert_eq!(found, named, "{sql}: {findings:#?}");
        }
    }
}

#[tokio::test]
async fn i12_an_offer_or_its_reactivation_without_a_message_is_found() {
    broken(
        Invariant::OfferTold,
        &[
            (OFFER_B, "has no message", "DELETE FROM messages WHERE subject_id = u('fb')"),
            (OFFER_E, "was given again", "UPDATE offers SET reactivations = 1 WHERE id = u('fe')"),
        ],
    )
    .await;
}

#[tokio::test]
async fn i13_two_messages_with_one_key_are_found() {
    broken(
        Invariant::ToldOnce,
        &[(
            MESSAGE_D,
            "is there 2 times",
            "ALTER TABLE messages DROP CONSTRAINT messages_dedupe_key;
             UPDATE messages SET occasion = 'joined', subject_id = u('ed') WHERE state = 'sending'",
        )],
    )
    .await;
}

#[tokio::test]
async fn i14_a_delivery_in_limbo_is_found() {
    broken(
        Invariant::Limbo,
        &[
            (
                MESSAGE_B,
                "its lease was over",
                "UPDATE messages SET leased_until = '2027-03-01 09:58:59Z' WHERE state = 'sending'",
            ),
            (MESSAGE_D, "after 99 attempts", "UPDATE messages SET attempts = 99 WHERE state = 'queued'"),
            (
                OFFER_B,
                "should have been made at 2027-03-01 09:36",
                "INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, next_try_at, actor, reason,
                                               key_until)
                 SELECT u('e0'), u('71'), u('fb'), 'release', 1, 'k', 'unresolved', m, m, 'person', 'accepted', m
                 FROM (SELECT '2027-03-01 09:36Z'::timestamptz AS m) t",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn i15_a_message_told_without_an_accepted_delivery_is_found() {
    broken(
        Invariant::Delivered,
        &[(
            MESSAGE_A,
            "no delivery of it was accepted",
            "UPDATE deliveries SET outcome = 'unknown' WHERE message_id = u('3a')",
        )],
    )
    .await;
}

#[tokio::test]
async fn i16_a_release_applied_twice_is_found() {
    broken(
        Invariant::ReleasedOnce,
        &[(
            RELEASE_E,
            "was applied 2 times",
            "ALTER TABLE releases DROP CONSTRAINT releases_source_key;
             INSERT INTO releases SELECT event_id, source, source_id, u('7f'), reason, places, actor, actor_id, at
             FROM releases",
        )],
    )
    .await;
}

#[tokio::test]
async fn i17_a_gap_in_the_audit_and_an_altered_record_are_found() {
    broken(
        Invariant::AuditChain,
        &[
            (
                PLACE_2,
                "audit record 2 of",
                "ALTER TABLE audit DISABLE TRIGGER audit_rows; UPDATE audit SET reason = 'goodwill' WHERE seq = 2",
            ),
            (EVENT, "audit records 3 to 4 of", "DELETE FROM audit WHERE seq IN (3, 4)"),
            (EVENT, "its head says", "DELETE FROM audit WHERE seq = (SELECT max(seq) FROM audit)"),
            (
                EVENT,
                "the note of audit record 5 of",
                "UPDATE audit_notes SET note = 'never said' WHERE seq = 5",
            ),
            (
                ORGANIZATION,
                "audit record 1 of",
                "ALTER TABLE organization_audit DISABLE TRIGGER organization_audit_rows;
                 UPDATE organization_audit SET at = at - interval '1 microsecond' WHERE seq = 1",
            ),
        ],
    )
    .await;
    broken(
        Invariant::AuditChain,
        &[
            (EVENT, "is not the hash of its last record", "UPDATE events SET audit_head = sha256('another')"),
            (
                ORGANIZATION,
                "ends with record 0",
                "ALTER TABLE organization_audit DISABLE TRIGGER organization_audit_truncate;
                 TRUNCATE organization_audit",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn i18_a_transition_without_an_audit_record_is_found() {
    broken(
        Invariant::AuditComplete,
        &[
            (
                ENTRY_D,
                "is withdrawn, and its last audit record says waiting",
                "UPDATE entries SET state = 'withdrawn' WHERE id = u('ed')",
            ),
            (
                OFFER_B,
                "is revoked, and its last audit record says pending",
                "UPDATE offers SET state = 'revoked', ended_at = made_at, end_reason = 'other' WHERE id = u('fb')",
            ),
            (
                PLACE_4,
                "is open, and its last audit record says retired",
                "UPDATE places SET state = 'open' WHERE number = 4",
            ),
            (
                BOOKING_3,
                "is cancelled, and its last audit record says confirmed",
                "UPDATE bookings SET state = 'cancelled', cancelled_at = booked_at, cancel_reason = 'other'
                 WHERE reference = 'R3'",
            ),
            (
                PLACE_1,
                "takes place",
                "ALTER TABLE audit DISABLE TRIGGER audit_rows;
                 UPDATE audit SET to_state = 'retired' WHERE subject_id = u('91') AND seq = 1",
            ),
            // What moves somebody in the line without a record is one, too.
            (
                ENTRY_C,
                "is passed over, and by its audit records it is eligible",
                "UPDATE entries SET paused = 'staff' WHERE id = u('ec')",
            ),
            (
                ENTRY_E,
                "stands at 0/1/1, and by its audit records at 0/1/2097152",
                "UPDATE entries SET rank = 1 WHERE id = u('ee')",
            ),
        ],
    )
    .await;
}

#[tokio::test]
async fn i19_a_token_of_somebody_elses_offer_is_found() {
    broken(
        Invariant::Tokens,
        &[
            (
                OFFER_B,
                "is not its own",
                "UPDATE offers SET token_hash = (SELECT token_hash FROM offers WHERE id = u('fa')) WHERE id = u('fb')",
            ),
            (OFFER_A, "share one token", ""),
        ],
    )
    .await;
}

#[tokio::test]
async fn i20_a_connection_idle_in_a_transaction_is_found() {
    let mut database = sound().await;
    database.broken_on_purpose();
    let options = database.options().application_name("fairlist");
    let mut idle = sqlx::ConnectOptions::connect(&options).await.expect("connect");
    idle.execute("BEGIN; SELECT 1").await.expect("a transaction");
    let pid: i32 =
        sqlx::query_scalar("SELECT pg_backend_pid()").fetch_one(&mut idle).await.expect("its number");
    let sentence = format!("backend {pid} is idle in a transaction");
    let named = |findings: Vec<Finding>| {
        findings
            .iter()
            .any(|found| found.invariant == Invariant::IdleTransaction && found.sentence.contains(&sentence))
    };
    // Ten seconds are the limit; the test takes none, to see it at once.
    let at_once = CheckSettings { idle_limit: chrono::Duration::zero(), ..settings() };
    assert!(named(findings(&database, &at_once).await));
    assert!(!named(findings(&database, &settings()).await), "ten seconds are not over");
    idle.execute("COMMIT").await.expect("the end");
    assert!(!named(findings(&database, &at_once).await));
}

#[tokio::test]
async fn i21_a_revoked_or_over_age_session_still_alive_is_found() {
    for (sentence, sql) in [
        (
            "was revoked and still holds something",
            r#"UPDATE sessions SET revoked_at = '2027-03-01 09:30Z', data = '{"staff": "mo"}' WHERE kind = 'staff'"#,
        ),
        (
            "may be used beyond its age",
            "UPDATE sessions SET idle_until = absolute_until + interval '1 second' WHERE kind = 'staff'",
        ),
        (
            "is over its age and lives",
            "UPDATE sessions SET created_at = '2027-02-28 22:00Z' WHERE kind = 'staff'",
        ),
        ("its owner has no access any more", "UPDATE staff SET disabled_at = '2027-03-01 09:30Z'"),
    ] {
        broken(Invariant::Sessions, &[(MEMBER, sentence, sql)]).await;
    }
}

#[tokio::test]
async fn i22_a_pass_request_older_than_a_minute_is_found() {
    broken(
        Invariant::PassRequests,
        &[(
            EVENT,
            "waits for a pass since",
            "UPDATE pass_requests SET requested_at = '2027-03-01 09:58:59Z'",
        )],
    )
    .await;
}

#[tokio::test]
async fn i23_a_feed_that_is_not_what_the_audit_says_is_found() {
    for (id, sentence, sql) in [
        (ORGANIZATION, "and its last number is", "DELETE FROM transitions WHERE position = 2"),
        (EVENT, "in the feed it is nothing", "DELETE FROM transitions WHERE position = 2"),
        (EVENT, "in the feed it is offer.revoked", "UPDATE transitions SET kind = 'offer.revoked' WHERE position = 2"),
        (
            EVENT,
            "is no record of its audit",
            "INSERT INTO transitions SELECT organization_id, position + 1000, event_id, 1000, kind, at, act, reason, actor
             FROM transitions WHERE position = 1",
        ),
        (EVENT, "after record", "UPDATE transitions SET position = 1000 WHERE position = 1"),
        (EVENT, "counts as copied up to record", "UPDATE feed_marks SET seq = seq - 1"),
        (EVENT, "lies after its mark", "UPDATE feed_marks SET seq = 1"),
        (
            EVENT,
            "is in another organization's feed",
            "INSERT INTO organizations (id, slug, name, created_at) VALUES (u('0b'), 'b', 'B', '2027-03-01 08:00Z');
             UPDATE events SET organization_id = u('0b')",
        ),
    ] {
        broken(Invariant::Feed, &[(id, sentence, sql)]).await;
    }
}

#[tokio::test]
async fn i24_what_is_not_in_the_feed_after_a_minute_is_found() {
    broken(
        Invariant::FeedLag,
        &[(
            EVENT,
            "is not in the feed yet",
            "DELETE FROM transitions; UPDATE feeds SET last_position = 0; DELETE FROM feed_marks; UPDATE events SET fed = false",
        )],
    )
    .await;
}

#[tokio::test]
async fn a_flood_of_findings_is_cut_and_says_so() {
    let mut database = sound().await;
    database.broken_on_purpose();
    database
        .sql()
        .execute(
            "INSERT INTO places (event_id, id, number, state, opened_at, changed_at)
             SELECT id, gen_random_uuid(), n, 'retired', created_at, created_at
             FROM events, generate_series(10, 400) AS n",
        )
        .await
        .expect("places without a record");
    let findings = findings(&database, &settings()).await;
    let unrecorded: Vec<&Finding> =
        findings.iter().filter(|found| found.invariant == Invariant::AuditComplete).collect();
    assert_eq!(unrecorded.len(), 201);
    assert!(unrecorded.iter().any(|found| found.sentence.contains("only the first 200")));
}
