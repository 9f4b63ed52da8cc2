//! What happened on a list since an entry joined it: which looks at the line made offers, to how many ahead of it, and
//! whether it was passed over. Nobody is named.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::allocation::SkipReason;
use crate::domain::audit::Act;
use crate::domain::entry::{Entry, EntryState, OrderKey};
use crate::domain::kinds::KIND_MAX;
use crate::domain::offer::OfferKind;
use crate::domain::reason::Reason;
use crate::domain::trail::{EntryMark, How, Mark, Stand, trail};

/// Counting goes back over at most so many looks of the event, so that a page costs the same however old its list is.
pub const LOOKED_BACK: i64 = 2_000;

/// So many draws and changes of order, the last, are looked through for an entry: a ranking may be long.
const DRAWS_LOOKED_AT: i64 = 20;

/// A look at the line that made offers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Look {
    /// Its number.
    pub pass: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// How many offers it made.
    pub offered: i64,
    /// To how many who were ahead of the entry then.
    pub ahead: i64,
    /// Holds or calls.
    pub kind: Option<OfferKind>,
    /// By which rule.
    pub reason: Option<Reason>,
    /// Under which version of it.
    pub version: i32,
    /// The recorded reason for which it passed over this entry, if it did.
    pub skip: Option<SkipReason>,
}

impl Look {
    /// Whether somebody behind the entry was offered something.
    #[must_use]
    pub fn went_past(&self) -> bool {
        self.ahead < self.offered
    }
}

/// What happened since an entry joined.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Since {
    /// The last looks that made offers, the newest first.
    pub looks: Vec<Look>,
    /// How many such looks there were.
    pub count: i64,
    /// How many offers they made.
    pub offers: i64,
    /// How many of them passed the entry over.
    pub skips: i64,
    /// There may be more: counting stopped at [`LOOKED_BACK`].
    pub cut: bool,
    /// Offers made by hand to others: why, and how many.
    pub by_hand: Vec<(Option<Reason>, i64)>,
}

impl Db {
    /// How an entry stood at every instant, from its own records, and from the draws and the changes of order that moved
    /// it with one record for all.
    ///
    /// # Errors
    /// What the database says.
    pub async fn trail_of(&self, entry: &Entry) -> Result<Vec<Stand>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT seq, at, act, actor IN ('staff', 'key') AS "by_staff!", from_state, to_state, reason,
                      order_key FROM audit
               WHERE event_id = $1 AND subject_id = $2 ORDER BY seq DESC LIMIT 500"#,
            entry.event.0,
            entry.id.0
        )
        .fetch_all(self.pool())
        .await?;
        let Some(first) = rows.last().map(|row| row.seq) else { return Ok(Vec::new()) };
        let mut marks: Vec<(i64, Mark)> = self.reorderings(entry, first).await?;
        marks.extend(rows.into_iter().filter_map(|row| {
            let act = Act::parse(&row.act)?;
            let number = |state: &Option<String>| state.as_deref().and_then(|number| number.parse().ok());
            let party = number(&row.from_state).zip(number(&row.to_state));
            let mark = EntryMark {
                at: row.at,
                act,
                party: party.filter(|_| act == Act::PartyChanged),
                reason: Reason::parse(&row.reason),
                by_staff: row.by_staff,
                to: row.to_state.as_deref().and_then(EntryState::parse),
                key: row.order_key.as_deref().and_then(OrderKey::parse),
            };
            Some((row.seq, Mark::Own(mark)))
        }));
        marks.sort_unstable_by_key(|(seq, _)| *seq);
        let marks: Vec<Mark> = marks.into_iter().map(|(_, mark)| mark).collect();
        Ok(trail(&marks, entry.party))
    }

    /// The last draws that ranked an entry, and the last changes of order, after a record of the event's audit.
    async fn reorderings(&self, entry: &Entry, after: i64) -> Result<Vec<(i64, Mark)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT a.seq, a.at, d.number AS "draw?", d.first_rank AS "first_rank?",
                      position($3 IN d.ranking) AS "found?"
               FROM (SELECT * FROM audit WHERE event_id = $1 AND subject_id = $1 AND act IN ('drawn', 'rule_changed')
                       AND seq > $2 ORDER BY seq DESC LIMIT $4) a
               LEFT JOIN policies p ON p.event_id = $1 AND a.act = 'rule_changed' AND p.version = a.policy_version
               LEFT JOIN policies q ON q.event_id = $1 AND q.version = p.version - 1
               LEFT JOIN draws d ON d.event_id = $1 AND a.act = 'drawn'
                    AND d.number = substring(a.to_state FROM '^draw ([0-9]+):')::integer
               WHERE d.number IS NOT NULL OR p.ordering <> q.ordering"#,
            entry.event.0,
            after,
            entry.id.0.as_bytes().as_slice(),
            DRAWS_LOOKED_AT
        )
        .fetch_all(self.pool())
        .await?;
        let marks = rows.into_iter().filter_map(|row| {
            let Some(draw) = row.draw else { return Some((row.seq, Mark::OrderChanged { at: row.at })) };
            // Ids are packed one after the other; 0 is not found.
            let before = i64::from(row.found?) - 1;
            let rank = OrderKey::rank_of(row.first_rank? + before / 16);
            (before >= 0 && before % 16 == 0).then_some((row.seq, Mark::Drawn { at: row.at, draw, rank }))
        });
        Ok(marks.collect())
    }

    /// The looks that made offers since an entry joined, until it was over: the last `limit`, and how many there were.
    ///
    /// # Errors
    /// What the database says.
    pub async fn since_joined(&self, entry: &Entry, trail: &[Stand], limit: i64) -> Result<Since, DbError> {
        let Some(first) = trail.first().map(|stand| stand.since) else { return Ok(Since::default()) };
        let until = (!entry.state.is_live()).then_some(entry.state_since);
        let since: Vec<DateTime<Utc>> = trail.iter().map(|stand| stand.since).collect();
        let bands: Vec<i16> = trail.iter().map(|stand| stand.key.band).collect();
        let rounds: Vec<i32> = trail.iter().map(|stand| stand.key.round).collect();
        let ranks: Vec<i64> = trail.iter().map(|stand| stand.key.rank).collect();
        let declined: Vec<Option<DateTime<Utc>>> = trail.iter().map(|stand| stand.declined_at).collect();
        let parties: Vec<i32> = trail.iter().map(|stand| stand.party).collect();
        let eligible: Vec<bool> = trail.iter().map(|stand| stand.how == How::Eligible).collect();
        let kinds: Vec<i32> = (0..=KIND_MAX).filter(|kind| entry.kinds.has(*kind)).collect();
        let rows = sqlx::query!(
            r#"WITH stands AS (
                   SELECT * FROM unnest($3::timestamptz[], $4::smallint[], $5::integer[], $6::bigint[],
                                        $7::timestamptz[], $8::boolean[], $9::integer[])
                       WITH ORDINALITY AS s(since, band, round, rank, declined_at, eligible, party, n)),
               looks AS (
                   SELECT p.number, p.at, p.offered, p.policy_version, k.band, k.round, k.rank, x.party_above, x.declined_since,
                          x.matching
                   FROM (SELECT * FROM passes WHERE event_id = $1 ORDER BY number DESC LIMIT $10) p
                   CROSS JOIN LATERAL (
                       SELECT * FROM stands WHERE since <= p.at ORDER BY n DESC LIMIT 1) k
                   LEFT JOIN LATERAL (
                       SELECT party_above, declined_since, m.matching
                       FROM skips LEFT JOIN LATERAL (
                           SELECT coalesce(sum(u.n), 0)::integer AS matching FROM unnest(kinds, counts) AS u(kind, n)
                           WHERE $13 OR u.kind = ANY($14)) m ON kinds IS NOT NULL
                       WHERE event_id = $1 AND pass_number = p.number AND k.eligible
                         AND (band, round, rank) > (k.band, k.round, k.rank)
                         AND (party_above < k.party OR declined_since <= k.declined_at OR m.matching < k.party)
                       ORDER BY reason DESC LIMIT 1) x ON true
                   WHERE p.offered > 0 AND p.at >= $2 AND ($12::timestamptz IS NULL OR p.at < $12)),
               counted AS (
                   SELECT *, count(*) OVER () AS looks, sum(offered) OVER () AS offers,
                          count(*) FILTER (WHERE party_above IS NOT NULL OR declined_since IS NOT NULL OR matching IS NOT NULL)
                              OVER () AS skips
                   FROM looks ORDER BY number DESC LIMIT $11)
               SELECT c.number AS "number!", c.at AS "at!", c.offered AS "offered!", c.policy_version AS "version!",
                      c.party_above AS "party_above?", c.declined_since AS "declined_since?", c.matching AS "matching?", c.looks AS "looks!",
                      c.offers AS "offers!", c.skips AS "skips!", f.kind AS "kind?", f.made_reason AS "made_reason?",
                      (SELECT count(*) FROM offers o WHERE o.event_id = $1 AND o.pass_number = c.number
                         AND (o.band, o.round, o.rank) < (c.band, c.round, c.rank)) AS "ahead!",
                      (SELECT min(number) > 1 FROM (SELECT number FROM passes WHERE event_id = $1
                          ORDER BY number DESC LIMIT $10) near) AS "cut!"
               FROM counted c
               LEFT JOIN LATERAL (
                   SELECT kind, made_reason FROM offers WHERE event_id = $1 AND pass_number = c.number
                   ORDER BY band, round, rank LIMIT 1) f ON true
               ORDER BY c.number DESC"#,
            entry.event.0,
            first,
            &since,
            &bands,
            &rounds,
            &ranks,
            &declined as &[Option<DateTime<Utc>>],
            &eligible,
            &parties,
            LOOKED_BACK,
            limit,
            until,
            entry.wants == 0,
            &kinds
        )
        .fetch_all(self.pool())
        .await?;
        let by_hand = self.offers_by_hand(entry.event.0, entry.id.0, first, until).await?;
        let totals = rows.first().map(|row| (row.looks, row.offers, row.skips, row.cut));
        let (count, offers, skips, cut) = totals.unwrap_or_default();
        let looks = rows
            .into_iter()
            .map(|row| {
                Ok(Look {
                    pass: row.number,
                    at: row.at,
                    offered: row.offered.into(),
                    ahead: row.ahead,
                    kind: row
                        .kind
                        .as_deref()
                        .map(|kind| word(OfferKind::parse, "offer kind", kind))
                        .transpose()?,
                    reason: row.made_reason.as_deref().and_then(Reason::parse),
                    version: row.version,
                    skip: match (row.party_above, row.declined_since, row.matching) {
                        (Some(more_than), _, _) => Some(SkipReason::DoesNotFit { more_than }),
                        (None, Some(since), _) => Some(SkipReason::DeclinedThese { since }),
                        (None, None, Some(left)) if entry.wants == 0 => {
                            Some(SkipReason::DoesNotFit { more_than: left })
                        }
                        (None, None, Some(left)) => Some(SkipReason::DoesNotMatch { left }),
                        (None, None, None) => None,
                    },
                })
            })
            .collect::<Result<_, DbError>>()?;
        Ok(Since { looks, count, offers, skips, cut, by_hand })
    }

    async fn offers_by_hand(
        &self,
        event: Uuid,
        but: Uuid,
        since: DateTime<Utc>,
        until: Option<DateTime<Utc>>,
    ) -> Result<Vec<(Option<Reason>, i64)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT made_reason, count(*) AS "n!" FROM (
                   SELECT made_reason FROM offers WHERE event_id = $1 AND pass_number IS NULL AND entry_id <> $2
                     AND made_at >= $3 AND ($4::timestamptz IS NULL OR made_at < $4) LIMIT $5) by_hand
               GROUP BY made_reason ORDER BY 2 DESC, 1"#,
            event,
            but,
            since,
            until,
            LOOKED_BACK
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (Reason::parse(&row.made_reason), row.n)).collect())
    }
}
