//! I1, I2, I6, I16: places add up, and each is promised once.

use super::{Check, rows};
use crate::db::DbError;

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    capacity(check).await?;
    one_promise(check).await?;
    one_attempt(check).await?;
    released_once(check).await
}

async fn capacity(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        Capacity,
        r#"SELECT ARRAY[event_id, id] AS "ids!",
                  format('place %s is %s and yet to be retired when free', id, state) AS "sentence!"
           FROM places WHERE retire_when_free AND state NOT IN ('held', 'booked') LIMIT $1"#
    );
    rows!(
        check,
        Capacity,
        r#"SELECT ARRAY[event_id] AS "ids!",
                  format('event %s has %s places, and its open, held and booked ones less those to be retired are %s',
                         event_id, capacity, parts) AS "sentence!"
           FROM (SELECT event_id, count(*) FILTER (WHERE state <> 'retired' AND NOT retire_when_free) AS capacity,
                        count(*) FILTER (WHERE state IN ('open', 'held', 'booked'))
                            - count(*) FILTER (WHERE retire_when_free) AS parts
                 FROM places GROUP BY event_id) sums
           WHERE capacity <> parts LIMIT $1"#
    );
    rows!(
        check,
        Capacity,
        r#"SELECT ARRAY[event_id] AS "ids!",
                  format('event %s has %s %s places%s, and the kept count says %s', event_id, coalesce(truth.n, 0), state,
                         CASE WHEN retire_when_free THEN ' to be retired' ELSE '' END, coalesce(kept.n, 0))
                      AS "sentence!"
           FROM (SELECT event_id, state, retire_when_free, count(*) AS n FROM places GROUP BY 1, 2, 3) truth
           FULL JOIN place_counts kept USING (event_id, state, retire_when_free)
           WHERE coalesce(truth.n, 0) <> coalesce(kept.n, 0) LIMIT $1"#
    );
    Ok(())
}

async fn one_promise(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        OnePromise,
        r#"SELECT ARRAY[event_id, id, offer_id, booking_id] AS "ids!",
                  format('place %s is held for offer %s and booked by booking %s', id, offer_id, booking_id) AS "sentence!"
           FROM places WHERE offer_id IS NOT NULL AND booking_id IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        OnePromise,
        r#"SELECT event_id || (place_id || array_agg(id ORDER BY id)) AS "ids!",
                  format('place %s has %s confirmed bookings', place_id, count(*)) AS "sentence!"
           FROM bookings WHERE state = 'confirmed' GROUP BY event_id, place_id HAVING count(*) > 1 LIMIT $1"#
    );
    rows!(
        check,
        OnePromise,
        r#"SELECT event_id || (booking_id || array_agg(id ORDER BY id)) AS "ids!",
                  format('booking %s has %s places', booking_id, count(*)) AS "sentence!"
           FROM places WHERE booking_id IS NOT NULL GROUP BY event_id, booking_id HAVING count(*) > 1 LIMIT $1"#
    );
    rows!(
        check,
        OnePromise,
        r#"SELECT ARRAY[b.event_id, b.id, b.place_id] AS "ids!",
                  format('booking %s is confirmed, and its place %s is not booked by it', b.id, b.place_id) AS "sentence!"
           FROM bookings b LEFT JOIN places p ON p.event_id = b.event_id AND p.id = b.place_id
           WHERE b.state = 'confirmed' AND p.booking_id IS DISTINCT FROM b.id LIMIT $1"#
    );
    rows!(
        check,
        OnePromise,
        r#"SELECT ARRAY[p.event_id, p.id, p.booking_id] AS "ids!",
                  format('place %s is booked by booking %s, which is not a confirmed booking of it', p.id, p.booking_id)
                      AS "sentence!"
           FROM places p LEFT JOIN bookings b ON b.event_id = p.event_id AND b.id = p.booking_id
           WHERE p.booking_id IS NOT NULL
             AND (b.id IS NULL OR b.state <> 'confirmed' OR b.place_id <> p.id) LIMIT $1"#
    );
    Ok(())
}

async fn one_attempt(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        OneAttempt,
        r#"SELECT event_id || (offer_id || array_agg(id ORDER BY id)) AS "ids!",
                  format('offer %s has %s booking attempts that succeeded or are unresolved', offer_id, count(*))
                      AS "sentence!"
           FROM booking_attempts WHERE act = 'reserve' AND outcome IN ('unresolved', 'succeeded')
           GROUP BY event_id, offer_id HAVING count(*) > 1 LIMIT $1"#
    );
    rows!(
        check,
        OneAttempt,
        r#"SELECT ARRAY[o.event_id, o.id] AS "ids!",
                  format('offer %s is being confirmed, and nobody is asked about it', o.id) AS "sentence!"
           FROM offers o WHERE o.state = 'accepting' AND NOT EXISTS
                (SELECT FROM booking_attempts a WHERE a.event_id = o.event_id AND a.offer_id = o.id
                                                  AND a.act = 'reserve' AND a.outcome = 'unresolved') LIMIT $1"#
    );
    rows!(
        check,
        OneAttempt,
        r#"SELECT ARRAY[a.event_id, a.offer_id, a.id] AS "ids!",
                  format('booking attempt %s is %s, and its offer is %s', a.id, a.outcome, o.state) AS "sentence!"
           FROM booking_attempts a JOIN offers o ON o.event_id = a.event_id AND o.id = a.offer_id
           WHERE a.act = 'reserve' AND (a.outcome = 'unresolved' AND o.state <> 'accepting'
                                        OR a.outcome = 'succeeded' AND o.state <> 'accepted') LIMIT $1"#
    );
    Ok(())
}

async fn released_once(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        ReleasedOnce,
        r#"SELECT event_id || array_agg(id ORDER BY id) AS "ids!",
                  format('release %s of %s was applied %s times', source_id, source, count(*)) AS "sentence!"
           FROM releases GROUP BY event_id, source, source_id HAVING count(*) > 1 LIMIT $1"#
    );
    Ok(())
}
