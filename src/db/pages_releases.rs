//! Places that came back: which, why and by whom, who was next then, and what came of it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::pages_history::{Doer, Step, StepRow};
use super::passes::{PassRecord, PassRow};
use super::{Db, DbError};
use crate::domain::allocation::SkipReason;
use crate::domain::audit::Act;
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, PlaceId, ReleaseId};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::reason::Reason;

/// From where places came back.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// An offer to this entry ended.
    Offer(OfferId),
    /// A booking was cancelled.
    Booking {
        /// Its reference.
        reference: String,
    },
    /// They were added.
    Added,
    /// Something else.
    Other,
}

/// Places that came back together.
#[derive(Clone, Debug)]
pub struct Release {
    /// Which.
    pub id: ReleaseId,
    /// When.
    pub at: DateTime<Utc>,
    /// Why.
    pub reason: Option<Reason>,
    /// By whom.
    pub by: Doer,
    /// From where.
    pub source: Source,
    /// Whose they had been.
    pub whose: Option<String>,
    /// The places.
    pub places: Vec<PlaceId>,
    /// What the first three of them are called.
    pub names: Vec<String>,
    /// What happened next to the first of them: kept for, or booked by, this person.
    pub next: Option<Next>,
}

/// Who had a place next.
#[derive(Clone, Debug)]
pub struct Next {
    /// When.
    pub at: DateTime<Utc>,
    /// Kept for an answer, booked past the list, or taken out of the event.
    pub act: Act,
    /// Who.
    pub name: Option<String>,
}

/// An offer as a record of a place refers to it.
#[derive(Clone, Debug)]
pub struct OfferMade {
    /// Which.
    pub id: OfferId,
    /// By which pass; none for one by staff.
    pub pass: Option<i64>,
    /// By which rule, or why staff made it.
    pub reason: Option<Reason>,
    /// Under which version of the rule.
    pub version: i32,
    /// Its deadline as it is now.
    pub expires_at: DateTime<Utc>,
}

/// One record of a place, with whom it is about.
#[derive(Clone, Debug)]
pub struct PlaceStep {
    /// The place.
    pub place: PlaceId,
    /// What it is called.
    pub place_name: String,
    /// What happened.
    pub step: Step,
    /// For whom, or whose it was.
    pub name: Option<String>,
    /// Their entry.
    pub entry: Option<EntryId>,
    /// The offer it was part of.
    pub offer: Option<OfferMade>,
    /// What happened to that offer by the same act: accepted, declined, expired, taken back.
    pub of_offer: Option<Act>,
    /// The reference of the booking it was part of.
    pub reference: Option<String>,
}

/// An offer of one pass.
#[derive(Clone, Debug)]
pub struct PassOffer {
    /// Which.
    pub offer: OfferId,
    /// To which entry.
    pub entry: EntryId,
    /// Whose.
    pub name: String,
    /// How many places.
    pub party: i32,
    /// A hold or a call.
    pub kind: OfferKind,
    /// Where it is now.
    pub state: OfferState,
    /// When they joined.
    pub joined_at: DateTime<Utc>,
    /// By which rule.
    pub reason: Option<Reason>,
}

/// Whom a pass passed over for one reason.
#[derive(Clone, Debug)]
pub struct PassedOver {
    /// Why.
    pub reason: SkipReason,
    /// The first of them who wait unchanged since: entry, name, party.
    pub waiting: Vec<(EntryId, String, i32)>,
}

struct ReleaseRow {
    id: Uuid,
    at: DateTime<Utc>,
    reason: String,
    actor: String,
    staff: Option<String>,
    source: String,
    offer_id: Option<Uuid>,
    reference: Option<String>,
    whose: Option<String>,
    places: Vec<Uuid>,
    names: Vec<String>,
    next_at: Option<DateTime<Utc>>,
    next_act: Option<String>,
    next_name: Option<String>,
}

impl From<ReleaseRow> for Release {
    fn from(row: ReleaseRow) -> Self {
        let source = match (row.source.as_str(), row.offer_id, row.reference) {
            ("offer", Some(offer), _) => Source::Offer(OfferId(offer)),
            ("booking", _, Some(reference)) => Source::Booking { reference },
            ("places", ..) => Source::Added,
            _ => Source::Other,
        };
        Self {
            id: ReleaseId(row.id),
            at: row.at,
            reason: Reason::parse(&row.reason),
            by: Doer::of(&row.actor, row.staff),
            source,
            whose: row.whose,
            places: row.places.into_iter().map(PlaceId).collect(),
            names: row.names,
            next: row.next_at.zip(row.next_act.as_deref().and_then(Act::parse)).map(|(at, act)| Next {
                at,
                act,
                name: row.next_name,
            }),
        }
    }
}

/// The record that opened a place is found by its instant: one transaction opens a place once.
macro_rules! select_releases {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            ReleaseRow,
            r#"SELECT r.id, r.at, r.reason, r.actor, s.name AS "staff?", r.source, o.id AS "offer_id?",
                      b.reference AS "reference?", w.name AS "whose?", r.places,
                      ARRAY(SELECT coalesce(l.label, 'Place ' || l.number) FROM places l
                            WHERE l.event_id = r.event_id AND l.id = ANY(r.places[1:3]) ORDER BY l.number) AS "names!",
                      x.at AS "next_at?", x.act AS "next_act?", x.name AS "next_name?"
               FROM releases r
               LEFT JOIN actors s ON s.kind = r.actor AND s.id = r.actor_id
               LEFT JOIN offers o ON r.source = 'offer' AND o.event_id = r.event_id
                    AND o.id = CASE WHEN r.source = 'offer' THEN split_part(r.source_id, ':', 1)::uuid END
               LEFT JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
               LEFT JOIN bookings b ON r.source = 'booking' AND b.event_id = r.event_id
                    AND b.id = CASE WHEN r.source = 'booking' THEN r.source_id::uuid END
               LEFT JOIN persons w ON w.id = coalesce(n.person_id, b.person_id)
               LEFT JOIN LATERAL (
                   SELECT a.at, a.act, p.name FROM audit a
                   LEFT JOIN entries e ON e.event_id = a.event_id AND e.id = a.entry_id
                   LEFT JOIN bookings k ON k.event_id = a.event_id AND a.entry_id IS NULL
                        AND k.state IN ('confirmed', 'cancelled') AND k.booked_at = a.at AND k.place_id = a.subject_id
                   LEFT JOIN persons p ON p.id = coalesce(e.person_id, k.person_id)
                   WHERE a.event_id = r.event_id AND a.subject_id = r.places[1] AND a.act IN ('held', 'booked', 'retired')
                     AND a.seq > (SELECT min(seq) FROM audit f WHERE f.event_id = r.event_id
                                  AND f.subject_id = r.places[1] AND f.at = r.at AND f.act IN ('released', 'added'))
                   ORDER BY a.seq LIMIT 1) x ON true "# + $tail,
            $($argument),*
        )
    };
}

impl Db {
    /// The releases of an event, the newest first; `before` is what the page before ended with.
    ///
    /// # Errors
    /// What the database says.
    pub async fn releases(
        &self,
        event: EventId,
        before: Option<(DateTime<Utc>, ReleaseId)>,
        limit: i64,
    ) -> Result<Vec<Release>, DbError> {
        let (at, id) = before.map_or((None, Uuid::max()), |(at, id)| (Some(at), id.0));
        let rows = select_releases!(
            "WHERE r.event_id = $1 AND ($2::timestamptz IS NULL OR (r.at, r.id) < ($2, $3))
             ORDER BY r.at DESC, r.id DESC LIMIT $4",
            event.0,
            at,
            id,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(Release::from).collect())
    }

    /// One release.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when this event has none with this id.
    pub async fn release(&self, event: EventId, id: ReleaseId) -> Result<Release, DbError> {
        Ok(select_releases!("WHERE r.event_id = $1 AND r.id = $2", event.0, id.0)
            .fetch_one(self.pool())
            .await?
            .into())
    }

    /// The last releases of one place, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn releases_of(
        &self,
        event: EventId,
        place: PlaceId,
        limit: i64,
    ) -> Result<Vec<(ReleaseId, DateTime<Utc>)>, DbError> {
        let rows = sqlx::query!(
            "SELECT id, at FROM releases WHERE event_id = $1 AND $2 = ANY(places) ORDER BY at DESC, id DESC LIMIT $3",
            event.0,
            place.0,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (ReleaseId(row.id), row.at)).collect())
    }

    /// The last releases of what an offer keeps or kept, and of what a call was made for; the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn releases_of_offer(&self, offer: &Offer) -> Result<Vec<(ReleaseId, DateTime<Utc>)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT id AS "id!", at AS "at!" FROM (
                   SELECT r.id, r.at FROM audit a CROSS JOIN LATERAL (
                       SELECT id, at FROM releases WHERE event_id = $1 AND a.subject_id = ANY(places) AND at <= a.at
                       ORDER BY at DESC, id DESC LIMIT 1) r
                   WHERE a.event_id = $1 AND a.entry_id = $3 AND a.at = $4 AND a.act = 'held'
                   UNION
                   SELECT r.id, r.at FROM offers o JOIN releases r ON r.event_id = $1 AND r.at = o.told_for
                   WHERE o.event_id = $1 AND o.id = $2) both_kinds
               ORDER BY at DESC, id DESC LIMIT 5"#,
            offer.event.0,
            offer.id.0,
            offer.entry.0,
            offer.made_at
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (ReleaseId(row.id), row.at)).collect())
    }

    /// What happened to places, each on its own, in order: with `since`, from the record that opened it then on and the
    /// oldest first; else everything, the newest first. At most `limit` records of each.
    ///
    /// # Errors
    /// What the database says.
    pub async fn place_steps(
        &self,
        event: EventId,
        places: &[PlaceId],
        since: Option<DateTime<Utc>>,
        limit: i64,
    ) -> Result<Vec<PlaceStep>, DbError> {
        let places: Vec<Uuid> = places.iter().map(|place| place.0).collect();
        let rows = sqlx::query!(
            r#"SELECT w.id AS "place!", coalesce(l.label, 'Place ' || l.number) AS "place_name!", a.seq AS "seq!", a.at AS "at!", a.actor AS "actor!", s.name AS "staff?",
                      a.act AS "act!", a.to_state, a.reason AS "reason!", t.note AS "note?",
                      p.name AS "name?", coalesce(a.entry_id, o.entry_id) AS entry_id, o.id AS "offer?",
                      f.act AS "of_offer?", o.pass_number AS "pass_number?",
                      o.made_reason AS "made_reason?", o.policy_version AS "policy_version?",
                      o.expires_at AS "expires_at?", b.reference AS "reference?"
               FROM unnest($2::uuid[]) WITH ORDINALITY AS w(id, n)
               JOIN places l ON l.event_id = $1 AND l.id = w.id
               CROSS JOIN LATERAL (
                   SELECT * FROM audit WHERE event_id = $1 AND subject_id = w.id
                     AND ($3::timestamptz IS NULL OR seq >= (
                         SELECT min(seq) FROM audit WHERE event_id = $1 AND subject_id = w.id AND at = $3
                           AND act IN ('released', 'added')))
                   ORDER BY CASE WHEN $3 IS NULL THEN -seq ELSE seq END LIMIT $4) a
               LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
               LEFT JOIN audit_notes t ON t.event_id = $1 AND t.seq = a.seq
               -- The offer that the same act was about: one given and one ended at the same instant are told apart.
               LEFT JOIN LATERAL (
                   SELECT subject_id, act FROM audit WHERE event_id = $1 AND entry_id = a.entry_id AND at = a.at
                     AND subject = 'offer' AND (act IN ('offered', 'reactivated')) = (a.act = 'held')
                   ORDER BY seq DESC LIMIT 1) f ON true
               LEFT JOIN offers o ON o.event_id = $1 AND o.id = f.subject_id
               LEFT JOIN entries n ON n.event_id = $1 AND n.id = a.entry_id
               LEFT JOIN bookings b ON b.event_id = $1 AND a.act = 'booked' AND b.state IN ('confirmed', 'cancelled')
                    AND b.booked_at = a.at AND b.place_id = w.id
               LEFT JOIN persons p ON p.id = coalesce(n.person_id, b.person_id)
               ORDER BY w.n, CASE WHEN $3 IS NULL THEN -a.seq ELSE a.seq END"#,
            event.0,
            &places,
            since,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows
            .into_iter()
            .map(|row| PlaceStep {
                place: PlaceId(row.place),
                place_name: row.place_name,
                step: StepRow {
                    seq: row.seq,
                    at: row.at,
                    actor: row.actor,
                    staff: row.staff,
                    act: row.act,
                    subject: "place".to_owned(),
                    subject_id: row.place,
                    to_state: row.to_state,
                    reason: row.reason,
                    note: row.note,
                }
                .into(),
                name: row.name,
                entry: row.entry_id.map(EntryId),
                offer: row.offer.zip(row.expires_at).map(|(id, expires_at)| OfferMade {
                    id: OfferId(id),
                    pass: row.pass_number,
                    reason: row.made_reason.as_deref().and_then(Reason::parse),
                    version: row.policy_version.unwrap_or_default(),
                    expires_at,
                }),
                of_offer: row.of_offer.as_deref().and_then(Act::parse),
                reference: row.reference,
            })
            .collect())
    }

    /// The first pass at or after an instant: one that began then, or an earlier one that then still ended the same.
    ///
    /// # Errors
    /// What the database says.
    pub async fn first_pass_since(
        &self,
        event: EventId,
        since: DateTime<Utc>,
    ) -> Result<Option<PassRecord>, DbError> {
        let row = sqlx::query_as!(
            PassRow,
            r#"SELECT number AS "number!", at AS "at!", last_at AS "last_at!", outcome AS "outcome!",
                      offered AS "offered!", ended AS "ended!", open_before AS "open_before!",
                      policy_version AS "policy_version!"
               FROM ((SELECT * FROM passes WHERE event_id = $1 AND at < $2 ORDER BY at DESC, number DESC LIMIT 1)
                     UNION ALL (SELECT * FROM passes WHERE event_id = $1 AND at >= $2 ORDER BY at, number LIMIT 1)) near
               WHERE last_at >= $2 ORDER BY number LIMIT 1"#,
            event.0,
            since
        )
        .fetch_optional(self.pool())
        .await?;
        row.map(PassRecord::try_from).transpose()
    }

    /// The first offers of a pass, in the order by which it went.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offers_of_pass(
        &self,
        event: EventId,
        pass: i64,
        limit: i64,
    ) -> Result<Vec<PassOffer>, DbError> {
        let rows = sqlx::query!(
            "SELECT o.id, o.entry_id, w.name, o.party, o.kind, o.state, n.joined_at, o.made_reason
             FROM offers o JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
             JOIN persons w ON w.id = n.person_id
             WHERE o.event_id = $1 AND o.pass_number = $2 ORDER BY o.band, o.round, o.rank LIMIT $3",
            event.0,
            pass,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(PassOffer {
                    offer: OfferId(row.id),
                    entry: EntryId(row.entry_id),
                    name: row.name,
                    party: row.party,
                    kind: word(OfferKind::parse, "offer kind", &row.kind)?,
                    state: word(OfferState::parse, "offer state", &row.state)?,
                    joined_at: row.joined_at,
                    reason: Reason::parse(&row.made_reason),
                })
            })
            .collect()
    }

    /// Whom a pass passed over, by reason, with the first `limit` of each who wait unchanged since. Who stood where then
    /// is not looked for here, so nobody is named once a draw, another order, another group or staff have moved people.
    ///
    /// # Errors
    /// What the database says.
    pub async fn passed_over_by(
        &self,
        event: EventId,
        pass: i64,
        limit: i64,
    ) -> Result<Vec<PassedOver>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT s.party_above, s.declined_since,
                      (SELECT sum(n) FROM unnest(s.counts) AS n) AS "left?", n.id AS "entry?", n.name AS "name?", n.party AS "party?"
               FROM skips s LEFT JOIN LATERAL (
                   SELECT e.id, w.name, e.party FROM entries e JOIN persons w ON w.id = e.person_id
                   WHERE e.event_id = $1 AND e.eligible AND e.state_since <= s.at
                     AND (e.band, e.round, e.rank) < (s.band, s.round, s.rank)
                     AND (e.party > s.party_above OR e.declined_at >= s.declined_since
                          OR (s.kinds IS NOT NULL AND e.party > coalesce((
                              SELECT sum(u.n) FROM unnest(s.kinds, s.counts) AS u(kind, n)
                              WHERE e.wants = 0 OR u.kind = ANY((
                                  SELECT k.kinds FROM wants k WHERE k.event_id = $1 AND k.id = e.wants)::integer[])), 0)))
                     AND NOT EXISTS (SELECT FROM audit a WHERE a.event_id = $1 AND a.subject_id = e.id AND a.at > s.at
                                     AND a.act IN ('band_changed', 'moved'))
                     AND NOT EXISTS (SELECT FROM draws d WHERE d.event_id = $1 AND d.drawn_at > s.at)
                     AND NOT EXISTS (SELECT FROM policies p JOIN policies q USING (event_id)
                                     WHERE p.event_id = $1 AND p.made_at > s.at AND q.version = p.version - 1
                                       AND p.ordering <> q.ordering)
                   ORDER BY e.band, e.round, e.rank LIMIT $3) n ON true
               WHERE s.event_id = $1 AND s.pass_number = $2 ORDER BY s.reason"#,
            event.0,
            pass,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        let mut sets: Vec<PassedOver> = Vec::new();
        for row in rows {
            let reason = match (row.party_above, row.declined_since, row.left) {
                (Some(more_than), _, _) => SkipReason::DoesNotFit { more_than },
                (None, Some(since), _) => SkipReason::DeclinedThese { since },
                (None, None, Some(left)) => {
                    SkipReason::DoesNotMatch { left: i32::try_from(left).unwrap_or(i32::MAX) }
                }
                (None, None, None) => continue,
            };
            let who = row.entry.map(EntryId).zip(row.name).zip(row.party);
            let who = who.map(|((entry, name), party)| (entry, name, party));
            match sets.iter_mut().find(|set| set.reason == reason) {
                Some(set) => set.waiting.extend(who),
                None => sets.push(PassedOver { reason, waiting: who.into_iter().collect() }),
            }
        }
        Ok(sets)
    }

    /// The release of each of these bookings, where its place came back.
    ///
    /// # Errors
    /// What the database says.
    pub async fn releases_of_bookings(
        &self,
        event: EventId,
        bookings: &[BookingId],
    ) -> Result<Vec<(BookingId, ReleaseId)>, DbError> {
        let ids: Vec<String> = bookings.iter().map(ToString::to_string).collect();
        let rows = sqlx::query!(
            r#"SELECT source_id::uuid AS "booking!", id FROM releases
               WHERE event_id = $1 AND source = 'booking' AND source_id = ANY($2)"#,
            event.0,
            &ids
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(|row| (BookingId(row.booking), ReleaseId(row.id))).collect())
    }
}
