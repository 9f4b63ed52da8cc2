//! I3, I5, I8, I9, I19: offers, what they hold, their deadlines and their tokens.

use uuid::Uuid;

use super::{Check, Invariant, rows};
use crate::db::DbError;
use crate::domain::ids::OfferId;
use crate::domain::secret::{Secret, token_hash};

pub(super) async fn check(check: &mut Check<'_>) -> Result<(), DbError> {
    one_live_offer(check).await?;
    party_served(check).await?;
    deadlines(check).await?;
    tokens(check).await
}

async fn one_live_offer(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        OneLiveOffer,
        r#"SELECT event_id || (entry_id || array_agg(id ORDER BY id)) AS "ids!",
                  format('entry %s has %s live offers', entry_id, count(*)) AS "sentence!"
           FROM offers WHERE state IN ('pending', 'accepting')
           GROUP BY event_id, entry_id HAVING count(*) > 1 LIMIT $1"#
    );
    Ok(())
}

async fn party_served(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        PartyServed,
        r#"SELECT ARRAY[o.event_id, o.id] AS "ids!",
                  format('offer %s was accepted for a party of %s and has %s bookings', o.id, o.party, coalesce(b.n, 0))
                      AS "sentence!"
           FROM offers o LEFT JOIN (SELECT event_id, offer_id, count(*) AS n FROM bookings
                                    WHERE offer_id IS NOT NULL GROUP BY 1, 2) b
                ON b.event_id = o.event_id AND b.offer_id = o.id
           WHERE (o.state = 'accepted' AND coalesce(b.n, 0) <> o.party)
              OR (o.state <> 'accepted' AND b.n IS NOT NULL) LIMIT $1"#
    );
    rows!(
        check,
        PartyServed,
        r#"SELECT ARRAY[o.event_id, o.id] AS "ids!",
                  format('offer %s is %s for a party of %s and %s places are held for it',
                         o.id, o.state, o.party, coalesce(p.n, 0)) AS "sentence!"
           FROM offers o FULL JOIN (SELECT event_id, offer_id, count(*) AS n FROM places
                                    WHERE offer_id IS NOT NULL GROUP BY 1, 2) p
                ON p.event_id = o.event_id AND p.offer_id = o.id
           WHERE coalesce(p.n, 0) <>
                 CASE WHEN o.state = 'accepting' OR (o.kind = 'hold' AND o.state = 'pending') THEN o.party ELSE 0 END LIMIT $1"#
    );
    rows!(
        check,
        PartyServed,
        r#"SELECT ARRAY[e.event_id, e.id] AS "ids!", format('entry %s is offered and has no live offer', e.id) AS "sentence!"
           FROM entries e WHERE e.state = 'offered' AND NOT EXISTS
                (SELECT FROM offers o WHERE o.event_id = e.event_id AND o.entry_id = e.id
                                        AND o.state IN ('pending', 'accepting')) LIMIT $1"#
    );
    rows!(
        check,
        PartyServed,
        r#"SELECT ARRAY[o.event_id, o.id, o.entry_id] AS "ids!",
                  format('offer %s is %s, and its entry %s is %s', o.id, o.state, o.entry_id,
                         coalesce(e.state, 'missing')) AS "sentence!"
           FROM offers o LEFT JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
           WHERE o.state IN ('pending', 'accepting') AND e.state IS DISTINCT FROM 'offered' LIMIT $1"#
    );
    Ok(())
}

async fn deadlines(check: &mut Check<'_>) -> Result<(), DbError> {
    rows!(
        check,
        Deadlines,
        r#"SELECT ARRAY[event_id, id] AS "ids!",
                  CASE WHEN state = 'expired'
                       THEN format('offer %s expired at %s, before its deadline at %s', id, ended_at, expires_at)
                       ELSE format('offer %s was accepted at %s, and its deadline was %s', id, decided_at, expires_at)
                  END AS "sentence!"
           FROM offers WHERE (state IN ('accepted', 'accepting') AND decided_at >= expires_at)
                          OR (state = 'expired' AND ended_at < expires_at) LIMIT $1"#
    );
    rows!(
        check,
        Deadlines,
        r#"SELECT ARRAY[o.event_id, o.id] AS "ids!",
                  format('offer %s lives until %s, after the start at %s', o.id, o.expires_at, e.starts_at)
                      AS "sentence!"
           FROM offers o JOIN events e ON e.id = o.event_id
           WHERE o.state = 'pending' AND o.expires_at > e.starts_at LIMIT $1"#
    );
    rows!(
        check,
        Overdue,
        r#"SELECT ARRAY[event_id, id] AS "ids!",
                  format('offer %s is pending, and its deadline was %s', id, expires_at) AS "sentence!"
           FROM offers o WHERE state = 'pending' AND expires_at < $2::timestamptz - interval '60 seconds'
             AND NOT EXISTS (SELECT FROM standing_offers s WHERE s.event_id = o.event_id AND s.id = o.id
                               AND (s.starts_at IS NULL OR s.starts_at > $2::timestamptz - interval '60 seconds')) LIMIT $1"#,
        check.now
    );
    Ok(())
}

/// How many tokens are recomputed between two questions to the database.
const BATCH: i64 = 20_000;

async fn tokens(check: &mut Check<'_>) -> Result<(), DbError> {
    if let Some(secret) = check.settings.secret.clone() {
        derived_tokens(check, &secret).await?;
    }
    rows!(
        check,
        Tokens,
        r#"SELECT array_agg(id ORDER BY id) AS "ids!", format('%s offers share one token', count(*)) AS "sentence!"
           FROM offers GROUP BY token_hash HAVING count(*) > 1 LIMIT $1"#
    );
    Ok(())
}

async fn derived_tokens(check: &mut Check<'_>, secret: &Secret) -> Result<(), DbError> {
    let (mut event, mut offer) = (Uuid::nil(), Uuid::nil());
    loop {
        let batch = sqlx::query!(
            "SELECT event_id, id, reactivations, token_hash FROM offers
             WHERE (event_id, id) > ($1, $2) ORDER BY event_id, id LIMIT $3",
            event,
            offer,
            BATCH
        )
        .fetch_all(&mut *check.connection)
        .await?;
        let Some(last) = batch.last() else { return Ok(()) };
        (event, offer) = (last.event_id, last.id);
        for row in batch {
            let token = secret.offer_token(OfferId(row.id), row.reactivations);
            if row.token_hash != token_hash(&token) {
                let sentence = format!("the token stored for offer {} is not its own", row.id);
                check.found(Invariant::Tokens, vec![row.event_id, row.id], sentence);
            }
        }
    }
}
