//! I12 to I15: what people are told, once, and that it arrived; and that services are asked in time.

use super::{Check, rows};
use crate::db::DbError;
use crate::domain::delivery::ATTEMPT_LIMIT;

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        OfferTold,
        r#"SELECT ARRAY[o.event_id, o.id] AS "ids!",
                  CASE WHEN n = 0 THEN format('offer %s has no message', o.id)
                       ELSE format('offer %s was given again for the %s. time, and this has no message', o.id, n)
                  END AS "sentence!"
           FROM offers o CROSS JOIN LATERAL generate_series(0, o.reactivations) n
                LEFT JOIN messages m ON m.event_id = o.event_id AND m.occasion IN ('offer', 'call') AND m.subject_id = o.id
                                    AND m.count = n
           WHERE m.id IS NULL LIMIT $1"#
    );
    rows!(
        check,
        ToldOnce,
        r#"SELECT event_id || array_agg(id ORDER BY id) AS "ids!",
                  format('"%s" of %s is there %s times', occasion, subject_id, count(*)) AS "sentence!"
           FROM messages GROUP BY event_id, occasion, subject_id, count HAVING count(*) > 1 LIMIT $1"#
    );
    rows!(
        check,
        Limbo,
        r#"SELECT ARRAY[event_id, id] AS "ids!",
                  CASE WHEN state = 'sending' AND leased_until < $2::timestamptz - interval '60 seconds'
                       THEN format('message %s is being sent, and its lease was over at %s', id, leased_until)
                       ELSE format('message %s is %s after %s attempts', id, state, attempts) END AS "sentence!"
           FROM messages
           WHERE (state = 'sending' AND leased_until < $2::timestamptz - interval '60 seconds')
              OR (state IN ('queued', 'sending') AND attempts > $3) LIMIT $1"#,
        check.now,
        ATTEMPT_LIMIT,
    );
    // While their service is left alone, and while one call finds out how it is doing, the others wait.
    rows!(
        check,
        Limbo,
        r#"SELECT ARRAY[a.event_id, a.offer_id, a.id] AS "ids!",
                  format('booking attempt %s should have been made at %s', a.id, greatest(a.next_try_at, a.leased_until))
                      AS "sentence!"
           FROM booking_attempts a
           WHERE a.outcome = 'unresolved'
             AND greatest(a.next_try_at, a.leased_until) < $2::timestamptz - interval '60 seconds'
             AND NOT EXISTS (
                 SELECT FROM booking_services s JOIN events e ON e.id = s.event_id JOIN booking_circuits c
                     ON c.organization_id = e.organization_id AND c.base_url = s.base_url
                 WHERE s.event_id = a.event_id AND c.open_until IS NOT NULL) LIMIT $1"#,
        check.now,
    );
    rows!(
        check,
        Delivered,
        r#"SELECT ARRAY[m.event_id, m.id] AS "ids!",
                  format('message %s is marked told, and no delivery of it was accepted', m.id) AS "sentence!"
           FROM messages m WHERE m.state = 'told' AND NOT EXISTS
                (SELECT FROM deliveries d WHERE d.event_id = m.event_id AND d.message_id = m.id
                                            AND d.outcome = 'accepted') LIMIT $1"#
    );
    Ok(())
}
