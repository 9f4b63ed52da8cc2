//! I4, I7, I11: lists and their entries, and whether the rule has done its work.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::{Check, Invariant, rows};
use crate::db::DbError;
use crate::db::events::word;
use crate::domain::allocation::{Candidate, OpenPlace, PassOutcome, allocate};
use crate::domain::entry::OrderKey;
use crate::domain::ids::{EntryId, PersonId, PlaceId};
use crate::domain::kinds::Kinds;
use crate::domain::policy::Fit;

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        OneLiveEntry,
        r#"SELECT event_id || array_agg(id ORDER BY arrival) AS "ids!",
                  format('person %s has %s live entries on event %s', person_id, count(*), event_id) AS "sentence!"
           FROM entries WHERE state IN ('unconfirmed', 'waiting', 'offered')
           GROUP BY event_id, person_id HAVING count(*) > 1 LIMIT $1"#
    );
    states_and_instants(check).await?;
    everybody_called(check).await?;
    at_rest(check).await
}

/// What the tables' CHECKs say, and what no CHECK can: rows written while one was missing are found, too.
async fn states_and_instants(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id, id] AS "ids!", format('entry %s is %s, and %s', id, state, wrong) AS "sentence!"
           FROM (SELECT event_id, id, state, CASE
                     WHEN (state = 'unconfirmed') <> (lapses_at IS NOT NULL) THEN 'when it lapses says otherwise'
                     WHEN state IN ('waiting', 'offered', 'accepted') AND confirmed_at IS NULL AND NOT vouched
                         THEN 'its contact was neither confirmed nor vouched for'
                     WHEN (state = 'closed') <> (closed_from IS NOT NULL) THEN 'what it was before closing says otherwise'
                     WHEN paused_until IS NOT NULL AND paused IS NULL THEN 'has the end of a pause without a pause'
                 END AS wrong FROM entries) e
           WHERE wrong IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id, id] AS "ids!", format('offer %s is %s, and %s', id, state, wrong) AS "sentence!"
           FROM (SELECT event_id, id, state, CASE
                     WHEN (state IN ('pending', 'accepting')) <> (ended_at IS NULL) THEN 'when it ended says otherwise'
                     WHEN (ended_at IS NULL) <> (end_reason IS NULL) THEN 'why it ended says otherwise'
                     WHEN state IN ('accepted', 'accepting') AND decided_at IS NULL THEN 'was never decided upon'
                     WHEN ended_at < made_at THEN 'ended before it was made'
                     WHEN expires_at <= made_at THEN 'was over before it was made'
                 END AS wrong FROM offers) o
           WHERE wrong IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id, id] AS "ids!", format('place %s is %s, and %s', id, state, wrong) AS "sentence!"
           FROM (SELECT event_id, id, state, CASE
                     WHEN (state = 'held') <> (offer_id IS NOT NULL) THEN 'its hold says otherwise'
                     WHEN (state = 'booked') <> (booking_id IS NOT NULL) THEN 'its booking says otherwise'
                     WHEN changed_at < opened_at THEN 'changed last before it was opened'
                 END AS wrong FROM places) p
           WHERE wrong IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id, id] AS "ids!", format('booking %s is %s, and %s', id, state, wrong) AS "sentence!"
           FROM (SELECT event_id, id, state, CASE
                     WHEN (state = 'cancelled') <> (cancelled_at IS NOT NULL) THEN 'when it was cancelled says otherwise'
                     WHEN (cancelled_at IS NULL) <> (cancel_reason IS NULL) THEN 'why it was cancelled says otherwise'
                     WHEN (source = 'offer') <> (offer_id IS NOT NULL) THEN 'its offer and its source disagree'
                     WHEN cancelled_at < booked_at THEN 'was cancelled before it was booked'
                 END AS wrong FROM bookings) b
           WHERE wrong IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id, id] AS "ids!", format('message %s is %s, and %s', id, state, wrong) AS "sentence!"
           FROM (SELECT event_id, id, state, CASE
                     WHEN (state = 'sending') <> (lease IS NOT NULL) OR (lease IS NULL) <> (leased_until IS NULL)
                         THEN 'its lease says otherwise'
                     WHEN (state = 'queued') <> (next_attempt_at IS NOT NULL) THEN 'its next attempt says otherwise'
                     WHEN (state = 'told') <> (told_at IS NOT NULL) THEN 'when it was told says otherwise'
                 END AS wrong FROM messages) m
           WHERE wrong IS NOT NULL LIMIT $1"#
    );
    rows!(
        check,
        StateInstants,
        r#"SELECT ARRAY[event_id] AS "ids!",
                  format('event %s has %s %s entries in one stretch of the line, and the kept count says %s',
                         event_id, coalesce(truth.n, 0),
                         CASE WHEN eligible THEN 'eligible' ELSE state END, coalesce(kept.n, 0)) AS "sentence!"
           FROM (SELECT event_id, state, eligible, band, round, rank >> 30 AS bucket, count(*) AS n
                 FROM entries GROUP BY 1, 2, 3, 4, 5, 6) truth
           FULL JOIN entry_counts kept USING (event_id, state, eligible, band, round, bucket)
           WHERE coalesce(truth.n, 0) <> coalesce(kept.n, 0) LIMIT $1"#
    );
    Ok(())
}

/// How many candidates are read between two questions to the database.
const PAGE: i64 = 1_000;

/// A served list with open places, for which no pass is asked for.
struct Served {
    event: Uuid,
    fit: Fit,
    last_band: i16,
    places: Vec<OpenPlace>,
    room: usize,
}

async fn at_rest(check: &mut Check<'_>) -> Result<(), DbError> {
    for mut list in served_lists(check).await? {
        if let Some((entry, party)) = would_be_chosen(check, &mut list).await? {
            let sentence = format!(
                "event {} has {} open places, and the rule would offer {party} to entry {entry}",
                list.event,
                list.places.len()
            );
            check.found(Invariant::AtRest, vec![list.event, entry], sentence);
        }
    }
    Ok(())
}

/// Where everybody is called, nobody waits who could take an open place.
async fn everybody_called(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        AtRest,
        r#"SELECT ARRAY[e.id, n.id] AS "ids!",
                  format('event %s has %s open places that would do, everybody is called, and entry %s is not', e.id, open.n, n.id)
                      AS "sentence!"
           FROM (SELECT event_id, 0 AS wants, count(*) AS n, max(opened_at) AS youngest FROM places WHERE state = 'open'
                 GROUP BY event_id
                 UNION ALL
                 SELECT w.event_id, w.id, count(*), max(l.opened_at) FROM wants w
                 JOIN places l ON l.event_id = w.event_id AND l.state = 'open' AND l.kind = ANY(w.kinds)
                 GROUP BY w.event_id, w.id) open
           JOIN events e ON e.id = open.event_id
           JOIN policies p ON p.event_id = e.id AND p.version = e.policy_version
           JOIN entries n ON n.event_id = e.id AND n.wants = open.wants AND n.eligible AND n.party <= open.n
                AND (n.declined_at IS NULL OR n.declined_at < open.youngest)
           WHERE e.state = 'published' AND e.list_state <> 'closed' AND p.window_seconds IS NOT NULL
             AND (p.mode = 'notify_all' OR p.cutoff <= $2) AND NOT e.reordering
             AND (p.ordering <> 'manual' OR e.final_called_at IS NOT NULL)
             AND (e.starts_at IS NULL OR e.starts_at > $2) AND (e.importing_until IS NULL OR e.importing_until <= $2)
             AND NOT EXISTS (SELECT FROM pass_requests r WHERE r.event_id = e.id AND r.requested_at IS NOT NULL)
           LIMIT $1"#,
        check.now
    );
    Ok(())
}

async fn served_lists(check: &mut Check<'_>) -> Result<Vec<Served>, DbError> {
    let rows = sqlx::query!(
        r#"SELECT e.id, p.fit, p.batch_size, p.ordering = 'lottery' AS "lottery!",
                  (SELECT count(*) FROM offers o WHERE o.event_id = e.id AND o.kind = 'hold'
                                                   AND o.state IN ('pending', 'accepting')) AS "holds!",
                  open.ids AS "ids!", open.since AS "since!", open.kinds AS "kinds!"
           FROM (SELECT event_id, array_agg(id ORDER BY number) AS ids, array_agg(opened_at ORDER BY number) AS since,
                        array_agg(kind ORDER BY number) AS kinds
                 FROM places WHERE state = 'open' GROUP BY event_id) open
           JOIN events e ON e.id = open.event_id
           JOIN policies p ON p.event_id = e.id AND p.version = e.policy_version
           WHERE e.state = 'published' AND e.list_state <> 'closed' AND p.window_seconds IS NOT NULL
             AND p.ordering <> 'manual' AND p.mode = 'hold' AND (p.cutoff IS NULL OR p.cutoff > $1) AND NOT e.reordering
             AND NOT (p.telling = 'extend' AND EXISTS (SELECT FROM channels WHERE down))
             AND (e.starts_at IS NULL OR e.starts_at > $1) AND (e.importing_until IS NULL OR e.importing_until <= $1)
             AND NOT EXISTS (SELECT FROM pass_requests r WHERE r.event_id = e.id AND r.requested_at IS NOT NULL)"#,
        check.now
    )
    .fetch_all(&mut *check.connection)
    .await?;
    rows.into_iter()
        .map(|row| {
            let opened: Vec<DateTime<Utc>> = row.since;
            let kinds: Vec<i32> = row.kinds;
            let places = row.ids.into_iter().zip(opened).zip(kinds);
            let room = match row.batch_size {
                0 => usize::MAX,
                most => usize::try_from(i64::from(most) - row.holds).unwrap_or(0),
            };
            Ok(Served {
                event: row.id,
                fit: word(Fit::parse, "fit", &row.fit)?,
                // Whoever was not drawn waits for the next draw.
                last_band: if row.lottery { -1 } else { i16::MAX },
                places: places
                    .map(|((id, opened_at), kind)| OpenPlace { id: PlaceId(id), opened_at, kind })
                    .collect(),
                room,
            })
        })
        .collect()
}

/// Goes down the whole list until the rule chooses somebody or says that nobody can be. As long as nobody is chosen
/// the places stay what they are, so each page is decided by itself.
async fn would_be_chosen(check: &mut Check<'_>, list: &mut Served) -> Result<Option<(Uuid, i32)>, DbError> {
    let open = i32::try_from(list.places.len()).unwrap_or(i32::MAX);
    let largest = if list.fit == Fit::Fill { open } else { i32::MAX };
    let youngest = list.places.iter().map(|place| place.opened_at).max();
    let mut after = (i16::MIN, i32::MIN, i64::MIN);
    loop {
        let rows = sqlx::query!(
            "SELECT id, person_id, band, round, rank, party, declined_at,
                    (SELECT w.kinds FROM wants w WHERE w.event_id = $1 AND w.id = entries.wants) AS kinds
             FROM entries WHERE event_id = $1 AND eligible AND (band, round, rank) > ($2, $3, $4)
               AND party <= $5 AND (declined_at IS NULL OR declined_at < $6) AND band <= $8
             ORDER BY band, round, rank LIMIT $7",
            list.event,
            after.0,
            after.1,
            after.2,
            largest,
            youngest,
            PAGE,
            list.last_band
        )
        .fetch_all(&mut *check.connection)
        .await?;
        let Some(lowest) = rows.last() else { return Ok(None) };
        after = (lowest.band, lowest.round, lowest.rank);
        let candidates: Vec<Candidate> = rows
            .iter()
            .map(|row| Candidate {
                entry: EntryId(row.id),
                person: PersonId(row.person_id),
                key: OrderKey { band: row.band, round: row.round, rank: row.rank },
                party: row.party,
                declined_at: row.declined_at,
                kinds: row.kinds.clone().map_or(Kinds::ALL, Kinds::from_iter),
            })
            .collect();
        let decided = allocate(&list.places, &candidates, list.fit, list.room);
        if let Some(chosen) = decided.chosen.first() {
            return Ok(Some((chosen.candidate.entry.0, chosen.candidate.party)));
        }
        list.places.retain(|place| !decided.kept.has(place.kind));
        if list.places.is_empty() || decided.outcome == PassOutcome::BatchFull {
            return Ok(None);
        }
    }
}
