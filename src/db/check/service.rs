//! I20 to I22: the program's own connections, sessions and pass requests.

use super::{Check, rows};
use crate::db::{APPLICATION_NAME, DbError};

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    // The age of a connection is the server's business: its clock, whatever the script says.
    rows!(
        check,
        IdleTransaction,
        r#"SELECT '{}'::uuid[] AS "ids!",
                  format('backend %s is idle in a transaction since %s', pid, state_change) AS "sentence!"
           FROM pg_stat_activity
           WHERE application_name = $2 AND datname = current_database() AND pid <> pg_backend_pid()
             AND state LIKE 'idle in transaction%' AND state_change <= clock_timestamp() - make_interval(secs => $3)
           LIMIT $1"#,
        APPLICATION_NAME,
        check.settings.idle_limit.as_seconds_f64(),
    );
    rows!(
        check,
        PassRequests,
        r#"SELECT ARRAY[event_id] AS "ids!",
                  format('event %s waits for a pass since %s', event_id, requested_at) AS "sentence!"
           FROM pass_requests WHERE requested_at < $2::timestamptz - interval '60 seconds' LIMIT $1"#,
        check.now
    );
    sessions(check).await
}

/// A session lives while it is not revoked and neither of its two ends has come. What ends one must leave nothing in
/// it, no use may carry it past its age, and whoever lost their access has none.
async fn sessions(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        Sessions,
        r#"SELECT CASE WHEN s.subject_id IS NULL THEN '{}' ELSE ARRAY[s.subject_id] END AS "ids!",
                  format('the %s session %s… of %s %s', s.kind, left(encode(s.id_hash, 'hex'), 12), s.created_at, wrong)
                      AS "sentence!"
           FROM (SELECT s.*, CASE
                     WHEN s.revoked_at IS NOT NULL AND s.data <> '{}' THEN 'was revoked and still holds something'
                     WHEN s.revoked_at IS NOT NULL THEN NULL
                     WHEN s.idle_until > s.absolute_until THEN 'may be used beyond its age'
                     WHEN s.idle_until <= $2 THEN NULL
                     WHEN s.created_at + make_interval(secs => CASE s.kind WHEN 'staff' THEN $3::float8 ELSE $4::float8 END) <= $2
                         THEN 'is over its age and lives'
                     WHEN member.disabled_at IS NOT NULL THEN 'lives, and its owner has no access any more'
                     WHEN s.kind = 'staff' AND s.subject_id IS NOT NULL AND member.id IS NULL
                         THEN 'lives, and its owner is not among the staff'
                 END AS wrong
                 FROM sessions s LEFT JOIN staff member ON s.kind = 'staff' AND member.id = s.subject_id) s
           WHERE wrong IS NOT NULL LIMIT $1"#,
        check.now,
        check.settings.staff_session.as_seconds_f64(),
        check.settings.customer_session.as_seconds_f64(),
    );
    Ok(())
}
