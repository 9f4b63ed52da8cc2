//! I23, I24: the feed has what the audit has, once, in order and without a gap.

use uuid::Uuid;

use super::{Check, Invariant, rows};
use crate::db::DbError;
use crate::domain::transition::{Kind, Step};

/// How many records are read at a time.
const BATCH: i64 = 20_000;

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        Feed,
        r#"SELECT ARRAY[f.organization_id] AS "ids!",
                  format('the feed of %s has %s transitions up to %s, and its last number is %s',
                         f.organization_id, coalesce(t.n, 0), coalesce(t.last, 0), f.last_position) AS "sentence!"
           FROM feeds f LEFT JOIN (SELECT organization_id, count(*) AS n, max(position) AS last
                                   FROM transitions GROUP BY organization_id) t USING (organization_id)
           WHERE coalesce(t.n, 0) <> f.last_position OR coalesce(t.last, 0) <> f.last_position LIMIT $1"#
    );
    rows!(
        check,
        Feed,
        r#"SELECT ARRAY[event_id] AS "ids!",
                  format('record %s of event %s is transition %s, after record %s', seq, event_id, position, before) AS "sentence!"
           FROM (SELECT event_id, position, seq, lag(seq) OVER (PARTITION BY event_id ORDER BY position) AS before
                 FROM transitions) steps WHERE before >= seq LIMIT $1"#
    );
    rows!(
        check,
        Feed,
        r#"SELECT ARRAY[t.event_id] AS "ids!",
                  CASE WHEN a.seq IS NULL THEN format('transition %s of event %s is no record of its audit', t.position, t.event_id)
                       WHEN m.seq IS NULL OR m.seq < t.seq
                       THEN format('transition %s of event %s lies after its mark', t.position, t.event_id)
                       ELSE format('transition %s of event %s is in another organization''s feed', t.position, t.event_id)
                  END AS "sentence!"
           FROM transitions t LEFT JOIN audit a ON a.event_id = t.event_id AND a.seq = t.seq
                LEFT JOIN events e ON e.id = t.event_id LEFT JOIN feed_marks m ON m.event_id = t.event_id
           WHERE a.seq IS NULL OR m.seq IS NULL OR m.seq < t.seq OR e.organization_id IS DISTINCT FROM t.organization_id
           LIMIT $1"#
    );
    rows!(
        check,
        Feed,
        r#"SELECT ARRAY[e.id] AS "ids!",
                  format('event %s counts as copied up to record %s, and its audit has %s',
                         e.id, coalesce(m.seq, 0), e.audit_seq) AS "sentence!"
           FROM events e LEFT JOIN feed_marks m ON m.event_id = e.id
           WHERE coalesce(m.seq, 0) > e.audit_seq OR (e.fed AND coalesce(m.seq, 0) < e.audit_seq) LIMIT $1"#
    );
    rows!(
        check,
        FeedLag,
        r#"SELECT ARRAY[e.id] AS "ids!",
                  format('what event %s recorded at %s is not in the feed yet', e.id, a.at) AS "sentence!"
           FROM events e LEFT JOIN feed_marks m ON m.event_id = e.id
           CROSS JOIN LATERAL (SELECT at FROM audit WHERE audit.event_id = e.id AND audit.seq > coalesce(m.seq, 0)
                               ORDER BY audit.seq LIMIT 1) a
           WHERE NOT e.fed AND a.at < $2::timestamptz - interval '60 seconds' LIMIT $1"#,
        check.now
    );
    complete(check).await
}

/// Every record up to its event's mark is in the feed as what it goes out as, or is not there if it does not.
async fn complete(check: &mut Check<'_>) -> Result<(), DbError> {
    let mut after = (Uuid::nil(), 0);
    loop {
        let batch = sqlx::query!(
            r#"SELECT a.event_id, a.seq, a.act, a.subject, a.from_state, a.to_state, t.kind AS "kind?"
               FROM audit a JOIN feed_marks m ON m.event_id = a.event_id AND m.seq >= a.seq
               LEFT JOIN transitions t ON t.event_id = a.event_id AND t.seq = a.seq
               WHERE (a.event_id, a.seq) > ($1, $2) ORDER BY a.event_id, a.seq LIMIT $3"#,
            after.0,
            after.1,
            BATCH
        )
        .fetch_all(&mut *check.connection)
        .await?;
        let Some(last) = batch.last() else { return Ok(()) };
        after = (last.event_id, last.seq);
        for row in batch {
            let kind = Kind::of(Step {
                act: &row.act,
                subject: &row.subject,
                from: row.from_state.as_deref(),
                to: row.to_state.as_deref(),
            });
            let kind = kind.map(Kind::as_str);
            if kind != row.kind.as_deref() {
                let (should, does) = (kind.unwrap_or("nothing"), row.kind.as_deref().unwrap_or("nothing"));
                let sentence = format!(
                    "audit record {} of event {} is {should} to other systems, and in the feed it is {does}",
                    row.seq, row.event_id
                );
                check.found(Invariant::Feed, vec![row.event_id], sentence);
            }
        }
    }
}
