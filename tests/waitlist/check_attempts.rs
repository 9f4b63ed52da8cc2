//! `check` on what booking services are asked.

use fairlist::db::check::Invariant;

use crate::check::broken;
use crate::harness::sample::OFFER_B;

#[tokio::test]
async fn i6_an_offer_with_two_booking_attempts_is_found() {
    broken(
        Invariant::OneAttempt,
        &[(
            OFFER_B,
            "has 2 booking attempts",
            "DROP INDEX booking_attempts_one_per_offer;
             INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, settled_at, next_try_at,
                                           actor, reason, key_until)
             SELECT u('e0'), u(id), u('fb'), 'reserve', n, id, outcome, made, settled::timestamptz, due::timestamptz, 'person', 'accepted', made FROM (VALUES (1, '71', 'unresolved', NULL, '2027-03-01 09:36Z'), (2, '72', 'succeeded', '2027-03-01 09:37Z', NULL)) v(n, id, outcome, settled, due), (SELECT '2027-03-01 09:36Z'::timestamptz AS made) m",
        )],
    )
    .await;
}

#[tokio::test]
async fn i6_an_attempt_that_does_not_fit_its_offer_is_found() {
    let attempt = "INSERT INTO booking_attempts (event_id, id, offer_id, act, number, key, outcome, made_at, settled_at, \
                   next_try_at, actor, reason, key_until) SELECT u('e0'), u('71'), u('fb'), 'reserve', 1, 'k', o, m, \
                   CASE o WHEN 'unresolved' THEN NULL ELSE m END, CASE o WHEN 'unresolved' THEN m END, 'person', 'accepted', \
                   m FROM (SELECT '2027-03-01 09:59:30Z'::timestamptz AS m) t, ";
    for (sentence, sql) in [
        (
            "is being confirmed, and nobody is asked",
            "ALTER TABLE offers DROP CONSTRAINT offers_accepted_check; UPDATE offers SET state = 'accepting' WHERE id = u('fb')".to_owned(),
        ),
        ("is unresolved, and its offer is pending", format!("{attempt} (VALUES ('unresolved')) v(o)")),
        ("is succeeded, and its offer is pending", format!("{attempt} (VALUES ('succeeded')) v(o)")),
    ] {
        broken(Invariant::OneAttempt, &[(OFFER_B, sentence, sql.leak())]).await;
    }
}
