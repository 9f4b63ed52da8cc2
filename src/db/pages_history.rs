//! What happened to an entry or an offer, as its page tells it: from the audit, with names and notes beside it.

use chrono::{DateTime, Utc};
use uuid::Uuid;

use super::events::word;
use super::{Db, DbError};
use crate::domain::audit::Act;
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, StaffId};
use crate::domain::offer::OfferState;
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;

/// Who did it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Doer {
    /// The rules.
    System,
    /// The customer.
    Customer,
    /// Somebody of the staff, by name.
    Staff(String),
    /// A program, by the name of its key.
    Program(String),
    /// The command line or an import.
    Operator,
}

impl Doer {
    /// From the kind of actor as it is stored, and a name where the actor has one.
    pub(super) fn of(actor: &str, name: Option<String>) -> Self {
        match actor {
            "key" => Self::Program(name.unwrap_or_else(|| "a program".to_owned())),
            "staff" => Self::Staff(name.unwrap_or_else(|| "somebody of the staff".to_owned())),
            "person" => Self::Customer,
            "operator" => Self::Operator,
            _ => Self::System,
        }
    }
}

/// One thing that happened.
#[derive(Clone, Debug)]
pub struct Step {
    /// Its number in the event's audit.
    pub seq: i64,
    /// When.
    pub at: DateTime<Utc>,
    /// Who.
    pub by: Doer,
    /// What; none when this program does not know the word.
    pub act: Option<Act>,
    /// The word as it is stored.
    pub word: String,
    /// `entry`, `offer`, `booking` or `place`.
    pub subject: String,
    /// Its id.
    pub subject_id: Uuid,
    /// The state it came to.
    pub to: Option<String>,
    /// Why.
    pub reason: Option<Reason>,
    /// In their own words.
    pub note: Option<String>,
}

pub(super) struct StepRow {
    pub(super) seq: i64,
    pub(super) at: DateTime<Utc>,
    pub(super) actor: String,
    pub(super) staff: Option<String>,
    pub(super) act: String,
    pub(super) subject: String,
    pub(super) subject_id: Uuid,
    pub(super) to_state: Option<String>,
    pub(super) reason: String,
    pub(super) note: Option<String>,
}

impl From<StepRow> for Step {
    fn from(row: StepRow) -> Self {
        Self {
            seq: row.seq,
            at: row.at,
            by: Doer::of(&row.actor, row.staff),
            act: Act::parse(&row.act),
            word: row.act,
            subject: row.subject,
            subject_id: row.subject_id,
            to: row.to_state,
            reason: Reason::parse(&row.reason),
            note: row.note,
        }
    }
}

macro_rules! select_steps {
    ($tail:literal, $($argument:expr),*) => {
        sqlx::query_as!(
            StepRow,
            r#"SELECT a.seq AS "seq!", a.at AS "at!", a.actor AS "actor!", s.name AS "staff?", a.act AS "act!",
                      a.subject AS "subject!", a.subject_id AS "subject_id!", a.to_state, a.reason AS "reason!",
                      n.note AS "note?" "# + $tail,
            $($argument),*
        )
    };
}

/// A line of the list of offers.
#[derive(Clone, Debug)]
pub struct OfferLine {
    /// The offer.
    pub offer: OfferId,
    /// The entry.
    pub entry: EntryId,
    /// For whom.
    pub name: String,
    /// How many places.
    pub party: i32,
    /// It is a call, which keeps nothing.
    pub is_call: bool,
    /// It is the final call.
    pub is_final: bool,
    /// Its clock stands still: nobody can be told.
    pub stands: bool,
    /// Where it is in its life.
    pub state: OfferState,
    /// When it was made or given again.
    pub made_at: DateTime<Utc>,
    /// Who of the staff made it.
    pub made_by: Option<String>,
    /// The deadline.
    pub expires_at: DateTime<Utc>,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it ended.
    pub end_reason: Option<Reason>,
}

/// A place that somebody has.
#[derive(Clone, Debug)]
pub struct TakenPlace {
    /// Its number.
    pub number: i32,
    /// What it is called.
    pub label: Option<String>,
    /// Held or booked.
    pub state: PlaceState,
    /// It leaves the event when it becomes free.
    pub retire_when_free: bool,
    /// Who has it.
    pub name: String,
    /// The hold.
    pub offer: Option<OfferId>,
    /// The booking and its reference.
    pub booking: Option<(BookingId, String)>,
    /// Since when.
    pub since: DateTime<Utc>,
}

impl Db {
    /// What happened to an entry and to what belongs to it, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn history_of_entry(
        &self,
        event: EventId,
        entry: EntryId,
        limit: i64,
    ) -> Result<Vec<Step>, DbError> {
        let rows = select_steps!(
            "FROM (SELECT * FROM audit WHERE event_id = $1 AND subject_id = $2
                   UNION SELECT * FROM audit WHERE event_id = $1 AND entry_id = $2 AND subject <> 'place') a
             LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
             LEFT JOIN audit_notes n ON n.event_id = $1 AND n.seq = a.seq
             ORDER BY a.seq DESC LIMIT $3",
            event.0,
            entry.0,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(Step::from).collect())
    }

    /// What happened to one thing (an offer, an entry, a booking), the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn history_of(&self, event: EventId, subject: Uuid, limit: i64) -> Result<Vec<Step>, DbError> {
        let rows = select_steps!(
            "FROM audit a
             LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
             LEFT JOIN audit_notes n ON n.event_id = $1 AND n.seq = a.seq
             WHERE a.event_id = $1 AND a.subject_id = $2 ORDER BY a.seq DESC LIMIT $3",
            event.0,
            subject,
            limit
        )
        .fetch_all(self.pool())
        .await?;
        Ok(rows.into_iter().map(Step::from).collect())
    }

    /// The step that brought a thing to where it is now: for the second of two who do the same.
    ///
    /// # Errors
    /// What the database says.
    pub async fn last_step_of(&self, event: EventId, subject: Uuid) -> Result<Option<Step>, DbError> {
        // A record without a state stands beside the step that it explains.
        let steps = self.history_of(event, subject, 5).await?;
        Ok(steps.into_iter().find(|step| step.to.is_some()))
    }

    /// What somebody of the staff is called.
    ///
    /// # Errors
    /// What the database says.
    pub async fn staff_name(&self, id: StaffId) -> Result<Option<String>, DbError> {
        Ok(sqlx::query_scalar!("SELECT name FROM staff WHERE id = $1", id.0)
            .fetch_optional(self.pool())
            .await?)
    }

    /// How many offers of an event are in each state.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offer_counts(&self, event: EventId) -> Result<Vec<(OfferState, i64)>, DbError> {
        let rows = sqlx::query!(
            r#"SELECT state, count(*) AS "n!" FROM offers WHERE event_id = $1 GROUP BY state"#,
            event.0
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter().map(|row| Ok((word(OfferState::parse, "offer state", &row.state)?, row.n))).collect()
    }

    /// Offers in a state: the pending by their deadlines, the nearest first; others the latest first. `after` is what
    /// the page before ended with.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offer_lines(
        &self,
        event: EventId,
        state: OfferState,
        after: Option<(DateTime<Utc>, OfferId)>,
        limit: i64,
    ) -> Result<Vec<OfferLine>, DbError> {
        let live = matches!(state, OfferState::Pending | OfferState::Accepting);
        let (at, id) = after.map_or((None, Uuid::nil()), |(at, id)| (Some(at), id.0));
        let rows = sqlx::query!(
            r#"SELECT o.id, o.entry_id, o.party, o.state, o.made_at, o.expires_at, o.ended_at, o.end_reason, w.name,
                      o.kind = 'call' AS "is_call!", o.kind = 'call' AND o.made_reason = 'final_call' AS "is_final!", s.name AS "made_by?",
                      EXISTS (SELECT FROM standing_offers c WHERE c.event_id = o.event_id AND c.id = o.id) AS "stands!"
               FROM offers o JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
               JOIN persons w ON w.id = n.person_id LEFT JOIN staff s ON s.id = o.made_by
               WHERE o.event_id = $1 AND o.state = $2
                 AND ($3::timestamptz IS NULL OR CASE WHEN $6 THEN (o.expires_at, o.id) > ($3, $4)
                                                      ELSE (o.expires_at, o.id) < ($3, $4) END)
               ORDER BY CASE WHEN $6 THEN o.expires_at END, CASE WHEN $6 THEN o.id END,
                        o.expires_at DESC, o.id DESC LIMIT $5"#,
            event.0,
            state.as_str(),
            at,
            id,
            limit,
            live
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(OfferLine {
                    offer: OfferId(row.id),
                    entry: EntryId(row.entry_id),
                    name: row.name,
                    party: row.party,
                    is_call: row.is_call,
                    is_final: row.is_final,
                    stands: row.stands,
                    state: word(OfferState::parse, "offer state", &row.state)?,
                    made_at: row.made_at,
                    made_by: row.made_by,
                    expires_at: row.expires_at,
                    ended_at: row.ended_at,
                    end_reason: row.end_reason.as_deref().and_then(Reason::parse),
                })
            })
            .collect()
    }

    /// Places that somebody has, by number, from behind `after` on; with a search, those whose holder's name or label
    /// holds it, or whose reference it is.
    ///
    /// # Errors
    /// What the database says.
    pub async fn taken_places(
        &self,
        event: EventId,
        search: &str,
        after: i32,
        limit: i64,
    ) -> Result<Vec<TakenPlace>, DbError> {
        let search = search.trim();
        let rows = sqlx::query!(
            r#"SELECT p.number, p.label, p.state, p.retire_when_free, p.changed_at, p.offer_id, p.booking_id,
                      b.reference AS "reference?", w.name
               FROM places p
               LEFT JOIN bookings b ON b.event_id = p.event_id AND b.id = p.booking_id
               LEFT JOIN offers o ON o.event_id = p.event_id AND o.id = p.offer_id
               LEFT JOIN entries n ON n.event_id = o.event_id AND n.id = o.entry_id
               JOIN persons w ON w.id = coalesce(b.person_id, n.person_id)
               WHERE p.event_id = $1 AND p.state IN ('held', 'booked') AND p.number > $2
                 AND ($3 = '' OR w.name ILIKE $4 OR p.label ILIKE $4 OR b.reference = upper($3))
               ORDER BY p.number LIMIT $5"#,
            event.0,
            after,
            search,
            format!("%{}%", super::pages_queue::like(search)),
            limit
        )
        .fetch_all(self.pool())
        .await?;
        rows.into_iter()
            .map(|row| {
                Ok(TakenPlace {
                    number: row.number,
                    label: row.label,
                    state: word(PlaceState::parse, "place state", &row.state)?,
                    retire_when_free: row.retire_when_free,
                    name: row.name,
                    offer: row.offer_id.map(OfferId),
                    booking: row.booking_id.map(BookingId).zip(row.reference),
                    since: row.changed_at,
                })
            })
            .collect()
    }
}

/// Which records of an event's audit are wanted.
#[derive(Clone, Debug, Default)]
pub struct AuditFilter {
    /// Only of this act.
    pub act: Option<Act>,
    /// Only of this kind of subject: entry, offer, place, booking, event.
    pub subject: Option<String>,
    /// Only by this kind of actor: system, person, staff, operator.
    pub actor: Option<String>,
    /// Only those with a smaller number.
    pub before: Option<i64>,
}

impl Db {
    /// An event's audit, the newest first.
    ///
    /// # Errors
    /// What the database says.
    pub async fn audit_steps(
        &self,
        event: EventId,
        filter: &AuditFilter,
        limit: i64,
    ) -> Result<Vec<Step>, DbError> {
        Ok(select_steps!(
            "FROM audit a
             LEFT JOIN actors s ON s.kind = a.actor AND s.id = a.actor_id
             LEFT JOIN audit_notes n ON n.event_id = a.event_id AND n.seq = a.seq
             WHERE a.event_id = $1 AND a.seq < $2 AND ($3::text IS NULL OR a.act = $3)
               AND ($4::text IS NULL OR a.subject = $4) AND ($5::text IS NULL OR a.actor = $5)
             ORDER BY a.seq DESC LIMIT $6",
            event.0,
            filter.before.unwrap_or(i64::MAX),
            filter.act.map(Act::as_str),
            filter.subject.as_deref(),
            filter.actor.as_deref(),
            limit
        )
        .fetch_all(self.pool())
        .await?
        .into_iter()
        .map(Step::from)
        .collect())
    }

    /// Who was offered places first since that member of staff last did something to the event, and how many.
    ///
    /// # Errors
    /// What the database says.
    pub async fn offered_since_act_of(
        &self,
        event: EventId,
        staff: StaffId,
    ) -> Result<Option<(String, i32)>, DbError> {
        let found = sqlx::query!(
            "SELECT p.name, o.party FROM audit a
             JOIN offers o ON o.event_id = a.event_id AND o.id = a.subject_id
             JOIN entries e ON e.event_id = o.event_id AND e.id = o.entry_id
             JOIN persons p ON p.id = e.person_id
             WHERE a.event_id = $1 AND a.act = 'offered' AND a.subject = 'offer'
               AND a.seq > (SELECT seq FROM audit WHERE event_id = $1 AND actor = 'staff' AND actor_id = $2
                            ORDER BY seq DESC LIMIT 1)
             ORDER BY a.seq LIMIT 1",
            event.0,
            staff.0
        )
        .fetch_optional(self.pool())
        .await?;
        Ok(found.map(|row| (row.name, row.party)))
    }
}
