//! What stands around a message when it is written out: its person, event, offer and code as they are now.

use chrono::{DateTime, Utc};

use super::events::word;
use super::{Db, DbError};
use crate::domain::ids::{ContactId, EntryId, EventId, MessageId, OfferId, PersonId};
use crate::domain::message::Facts;
use crate::domain::offer::OfferState;

/// Everything that stands around a message's facts, as it is now.
#[derive(Clone, Debug)]
pub struct Background {
    /// Who is told; nobody where it is one of the staff.
    pub person: Option<PersonId>,
    /// What they are called.
    pub person_name: String,
    /// Whether they want nothing but what is essential.
    pub news_stopped: bool,
    /// Who runs the event.
    pub organization_name: String,
    /// Whom to ask there.
    pub organization_contact: String,
    /// The event, unless the message belongs to none.
    pub event: Option<BackgroundEvent>,
    /// The entry concerned, or else the person's latest on this event.
    pub entry: Option<EntryId>,
    /// Where it goes: the address a code is for, or else the best of the person's; of staff who still work there, the
    /// one they sign in with, which is no contact of a customer.
    pub contact: Option<(Option<ContactId>, String)>,
    /// The offer concerned, as it is now.
    pub offer: Option<BackgroundOffer>,
    /// The code, as it is now.
    pub code: Option<BackgroundCode>,
}

/// The event of a message.
#[derive(Clone, Debug)]
pub struct BackgroundEvent {
    /// Its name for people.
    pub name: String,
    /// Its name in addresses.
    pub slug: String,
    /// Where it takes place; may be empty.
    pub venue: String,
    /// The zone in which its instants are shown.
    pub zone: chrono_tz::Tz,
    /// When it starts.
    pub starts_at: Option<DateTime<Utc>>,
}

/// The offer of a message.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundOffer {
    /// Which.
    pub id: OfferId,
    /// Where it is in its life.
    pub state: OfferState,
    /// When it was made, or last given again.
    pub made_at: DateTime<Utc>,
    /// Its deadline.
    pub expires_at: DateTime<Utc>,
    /// How often it was given again: names the token that is valid.
    pub reactivations: i32,
}

/// The code of a message.
#[derive(Clone, Copy, Debug)]
pub struct BackgroundCode {
    /// From when on it is worth nothing.
    pub expires_at: DateTime<Utc>,
    /// Whether it was entered.
    pub used: bool,
}

impl Db {
    /// What a message is sent with. An offer is read here again, right before it is sent.
    ///
    /// # Errors
    /// [`DbError::NotFound`] when there is no such message.
    pub async fn background(
        &self,
        event: EventId,
        message: MessageId,
        facts: &Facts,
    ) -> Result<Background, DbError> {
        let row = sqlx::query!(
            r#"SELECT m.person_id, coalesce(p.name, s.name) AS "person_name!", p.news_stopped_at IS NOT NULL AS "news_stopped!",
                      g.name AS organization_name, g.contact AS organization_contact,
                      e.name AS "event_name?", e.slug AS "slug?", e.venue AS "venue?", e.zone AS "zone?", e.starts_at,
                      coalesce($3, latest.id) AS entry_id,
                      c.id AS "contact_id?",
                      coalesce(c.value, CASE WHEN s.disabled_at IS NULL THEN s.email END) AS "address?",
                      o.id AS "offer_id?", o.state AS "offer_state?", o.expires_at AS "offer_expires_at?",
                      o.made_at AS "offer_made_at?",
                      o.reactivations AS "reactivations?",
                      k.expires_at AS "code_expires_at?", k.used_at IS NOT NULL AS "code_used!"
               FROM messages m
               LEFT JOIN persons p ON p.id = m.person_id
               LEFT JOIN staff s ON s.id = m.staff_id
               JOIN organizations g ON g.id = m.organization_id
               LEFT JOIN events e ON e.id = m.event_id
               LEFT JOIN offers o ON o.event_id = m.event_id AND o.id = $4
               LEFT JOIN codes k ON m.occasion = 'code' AND k.id = m.subject_id
               LEFT JOIN LATERAL (
                   SELECT n.id FROM entries n WHERE n.person_id = m.person_id AND n.event_id = m.event_id
                   ORDER BY n.arrival DESC LIMIT 1) latest ON true
               LEFT JOIN LATERAL (
                   SELECT c.id, c.value FROM contacts c
                   WHERE c.kind = 'email' AND CASE WHEN k.id IS NULL THEN c.person_id = m.person_id
                                                   ELSE c.id = k.contact_id END
                   ORDER BY c.failing_since IS NOT NULL, c.confirmed_at IS NULL, c.created_at LIMIT 1) c ON true
               WHERE m.event_id = $1 AND m.id = $2"#,
            event.0,
            message.0,
            facts.entry,
            facts.offer,
        )
        .fetch_one(self.pool())
        .await?;
        let event = match (row.event_name, row.slug, row.venue, row.zone) {
            (Some(name), Some(slug), Some(venue), Some(zone)) => Some(BackgroundEvent {
                name,
                slug,
                venue,
                zone: zone.parse().map_err(|_| DbError::Unreadable("time zone", zone.clone()))?,
                starts_at: row.starts_at,
            }),
            _ => None,
        };
        let offer =
            match (row.offer_id, row.offer_state, row.offer_made_at, row.offer_expires_at, row.reactivations)
            {
                (Some(id), Some(state), Some(made_at), Some(expires_at), Some(reactivations)) => {
                    Some(BackgroundOffer {
                        id: OfferId(id),
                        state: word(OfferState::parse, "offer state", &state)?,
                        made_at,
                        expires_at,
                        reactivations,
                    })
                }
                _ => None,
            };
        Ok(Background {
            person: row.person_id.map(PersonId),
            person_name: row.person_name,
            news_stopped: row.news_stopped,
            organization_name: row.organization_name,
            organization_contact: row.organization_contact,
            event,
            entry: row.entry_id.map(EntryId),
            contact: row.address.map(|address| (row.contact_id.map(ContactId), address)),
            offer,
            code: row.code_expires_at.map(|expires_at| BackgroundCode { expires_at, used: row.code_used }),
        })
    }
}
