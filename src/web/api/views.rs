//! What things look like to programs. Words, states and codes are those of the pages and of the database.

use std::collections::BTreeMap;

use chrono::{DateTime, NaiveDate, Utc};
use serde::{Deserialize, Serialize};
use utoipa::ToSchema;
use utoipa::openapi::Ref;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use super::problem::{Failed, Refusal};
use crate::db::pages_customer::EventName;
use crate::db::pages_customer::events::EventSheet;
use crate::db::pages_customer::mine::{MyBooking, MyEntry};
use crate::db::pages_customer::receipts::OfferSheet;
use crate::domain::attribute::{Attribute, Measure, Said, Value, Want, Wants};
use crate::domain::entry::{EntryState, PausedBy};
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::{BookingId, EntryId, EventId, OfferId, OrganizationId, PersonId};
use crate::domain::offer::{Offer, OfferKind, OfferState};
use crate::domain::policy::PositionShown;
use crate::domain::reason::Reason;
use crate::domain::standing::{Line, Sale, position_in_words};

/// What an event says of its places, and a place is, or somebody wants.
#[derive(Clone, Debug, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct AttributeView {
    /// Its name for programs, by which `wants` and `attributes` name it. A new attribute gets one made of its label, whatever
    /// is sent.
    pub key: String,
    /// Its name for people.
    pub label: String,
    /// What its values are.
    pub measure: Measure,
    /// The values of a choice, in order; a number or a date has none.
    #[serde(default)]
    pub choices: Vec<String>,
}

impl From<Attribute> for AttributeView {
    fn from(attribute: Attribute) -> Self {
        let Attribute { key, label, measure, choices } = attribute;
        Self { key, label, measure, choices }
    }
}

impl From<AttributeView> for Attribute {
    fn from(view: AttributeView) -> Self {
        let AttributeView { key, label, measure, choices } = view;
        Self { key, label, measure, choices }
    }
}

/// What somebody wants of one attribute, by what it measures: of a choice any of these, of a number at least, at most or
/// both, of a day from, to or both. Nothing of it is the same as not wanting anything of this attribute.
#[derive(Clone, Debug, Default, Serialize, Deserialize, ToSchema)]
#[serde(default, deny_unknown_fields)]
#[schema(as = Want)]
pub struct WantView {
    /// Of a choice: any of these.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    #[schema(example = json!(["stalls", "balcony"]))]
    pub any_of: Vec<String>,
    /// Of a number: at least, with at most two decimals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 3)]
    pub at_least: Option<f64>,
    /// Of a number: at most, with at most two decimals.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = 7.5)]
    pub at_most: Option<f64>,
    /// Of a day: this or later.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2027-05-01")]
    pub from: Option<NaiveDate>,
    /// Of a day: this or earlier.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(example = "2027-05-31")]
    pub to: Option<NaiveDate>,
}

/// What somebody wants, by the keys of the event's attributes.
pub type WantsView = BTreeMap<String, WantView>;

/// What is said of a place, by the keys of the event's attributes: a choice, a number, or a day.
pub type SaidView = BTreeMap<String, serde_json::Value>;

/// How [`WantsView`] is described.
pub(super) fn wants_described() -> Object {
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(Ref::from_schema_name("Want")))
        .description(Some(
            "What is wanted of a place, by the keys of the event's attributes (`attributes` of the event); without it any place will do.",
        ))
        .examples([serde_json::json!({"section": {"any_of": ["stalls"]}, "row": {"at_least": 3}})])
        .build()
}

/// How [`SaidView`] is described.
pub(super) fn said_described() -> Object {
    let value = ObjectBuilder::new().schema_type(SchemaType::Array(vec![Type::String, Type::Number]));
    ObjectBuilder::new()
        .schema_type(Type::Object)
        .additional_properties(Some(value))
        .description(Some(
            "What is said of a place, by the keys of the event's attributes (`attributes` of the event): one of its \
             choices, a number, or a day such as 2027-05-01.",
        ))
        .examples([serde_json::json!({"section": "stalls", "row": 3, "day": "2027-05-01"})])
        .build()
}

/// A number in hundredths, as it is written in JSON.
#[expect(clippy::cast_precision_loss, reason = "hundredths of what people type are small")]
fn from_hundredths(number: i64) -> f64 {
    number as f64 / 100.0
}

#[expect(clippy::cast_possible_truncation, reason = "bounded before")]
fn hundredths(number: f64) -> Option<i64> {
    let scaled = (number * 100.0).round();
    let is_exact = (scaled - number * 100.0).abs() < 1e-6;
    (is_exact && scaled.abs() < 1e13).then_some(scaled as i64)
}

fn not_a_number(field: &str) -> Failed {
    Refusal::field(field, "A number here has at most two decimals.").into()
}

/// What somebody wants, read by what the event says of its places.
///
/// # Errors
/// What does not go with the event's attributes.
pub fn wants(attributes: &[Attribute], view: &WantsView) -> Result<Wants, Failed> {
    let mut wants = BTreeMap::new();
    for (key, want) in view {
        let name = format!("wants.{key}");
        let unknown = || Refusal::field(&name, "The event says nothing of this name about its places.");
        let attribute = attributes.iter().find(|known| known.key == *key).ok_or_else(unknown)?;
        // A wish that the attribute does not have would otherwise be no wish at all.
        let (choice, number, day) = (
            !want.any_of.is_empty(),
            want.at_least.is_some() || want.at_most.is_some(),
            want.from.is_some() || want.to.is_some(),
        );
        let (strays, takes) = match attribute.measure {
            Measure::Choice => (number || day, "This is a choice: say `any_of`."),
            Measure::Number => (choice || day, "This is a number: say `at_least`, `at_most` or both."),
            Measure::Date => (choice || number, "This is a day: say `from`, `to` or both."),
        };
        if strays {
            return Err(Refusal::field(&name, takes).into());
        }
        let read = match attribute.measure {
            Measure::Choice => {
                if let Some(other) = want.any_of.iter().find(|choice| !attribute.choices.contains(choice)) {
                    return Err(Refusal::field(&name, format!("There is no “{other}” to choose.")).into());
                }
                let any = attribute.choices.iter().filter(|choice| want.any_of.contains(choice)).cloned();
                let any: Vec<String> = any.collect();
                // All of them are as good as none.
                (!any.is_empty() && any.len() < attribute.choices.len()).then_some(Want::AnyOf(any))
            }
            Measure::Number => {
                let read = |number: Option<f64>| {
                    number.map(|number| hundredths(number).ok_or_else(|| not_a_number(&name))).transpose()
                };
                let (at_least, at_most) = (read(want.at_least)?, read(want.at_most)?);
                (at_least.is_some() || at_most.is_some()).then_some(Want::Number { at_least, at_most })
            }
            Measure::Date => {
                let (from, to) = (want.from, want.to);
                (from.is_some() || to.is_some()).then_some(Want::Date { from, to })
            }
        };
        if let Some((_, problem)) = read.as_ref().and_then(Want::problem) {
            return Err(Refusal::field(&name, problem).into());
        }
        if let Some(read) = read {
            wants.insert(key.clone(), read);
        }
    }
    Ok(Wants(wants))
}

/// What is said of a place, read by what the event says of its places.
///
/// # Errors
/// What does not go with the event's attributes.
pub fn said(attributes: &[Attribute], view: &SaidView) -> Result<Said, Failed> {
    let mut said = BTreeMap::new();
    for (key, value) in view {
        let name = format!("attributes.{key}");
        let unknown = || Refusal::field(&name, "The event says nothing of this name about its places.");
        let attribute = attributes.iter().find(|known| known.key == *key).ok_or_else(unknown)?;
        let read = match (attribute.measure, value) {
            (_, serde_json::Value::Null) => None,
            (Measure::Choice, serde_json::Value::String(choice)) if attribute.choices.contains(choice) => {
                Some(Value::Choice(choice.clone()))
            }
            (Measure::Number, serde_json::Value::Number(number)) => {
                Some(Value::Number(number.as_f64().and_then(hundredths).ok_or_else(|| not_a_number(&name))?))
            }
            (Measure::Date, serde_json::Value::String(day)) if day.parse::<NaiveDate>().is_ok() => {
                day.parse().ok().map(Value::Date)
            }
            (measure, _) => {
                let detail = match measure {
                    Measure::Choice => "One of the choices of this attribute is needed.",
                    Measure::Number => "A number is needed.",
                    Measure::Date => "A day is needed, such as 2027-05-01.",
                };
                return Err(Refusal::field(&name, detail).into());
            }
        };
        if let Some(read) = read {
            said.insert(key.clone(), read);
        }
    }
    Ok(Said(said))
}

/// The other way round.
#[must_use]
pub fn wants_view(wants: &Wants) -> WantsView {
    let view = |want: &Want| match want {
        Want::AnyOf(any_of) => WantView { any_of: any_of.clone(), ..WantView::default() },
        Want::Number { at_least, at_most } => WantView {
            at_least: at_least.map(from_hundredths),
            at_most: at_most.map(from_hundredths),
            ..WantView::default()
        },
        Want::Date { from, to } => WantView { from: *from, to: *to, ..WantView::default() },
    };
    wants.0.iter().map(|(key, want)| (key.clone(), view(want))).collect()
}

/// An event, as a part of something else.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventRef {
    /// Its id.
    pub id: EventId,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// The time zone in which its instants are meant.
    #[schema(example = "Europe/Berlin")]
    pub zone: String,
    /// When it starts, if it does.
    pub starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    pub state: EventState,
}

impl From<&EventName> for EventRef {
    fn from(event: &EventName) -> Self {
        Self {
            id: event.id,
            slug: event.slug.clone(),
            name: event.name.clone(),
            zone: event.zone.name().to_owned(),
            starts_at: event.starts_at,
            state: event.state,
        }
    }
}

/// An event as the public sees it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EventView {
    /// Its id.
    pub id: EventId,
    /// Its name in addresses.
    pub slug: String,
    /// Its name for people.
    pub name: String,
    /// Free text.
    pub description: String,
    /// Where it takes place; may be empty.
    pub venue: String,
    /// The time zone in which its instants are meant.
    #[schema(example = "Europe/Berlin")]
    pub zone: String,
    /// When it starts, if it does.
    pub starts_at: Option<DateTime<Utc>>,
    /// Where it is in its life.
    pub state: EventState,
    /// Whether it takes place and has not started.
    pub on_sale: bool,
    /// Who runs it.
    pub organization: OrganizationId,
    /// Whether its list takes and serves people.
    pub list: ListState,
    /// Whether somebody may join the list now.
    pub list_takes_people: bool,
    /// How many waiting people could be offered a place.
    pub waiting: i64,
    /// So many places may be booked by anybody now, here.
    pub places_free: i64,
    /// Another service keeps the places: what is free for everybody is booked there, and only offers are answered here.
    pub booked_elsewhere: bool,
    /// So many places are kept by offers until they are answered.
    pub seats_held: i64,
    /// The largest party.
    pub largest_party: i32,
    /// What the event says of its places.
    pub attributes: Vec<AttributeView>,
}

impl EventView {
    /// As of `now`.
    #[must_use]
    pub fn of(sheet: EventSheet, now: DateTime<Utc>) -> Self {
        let door = sheet.door(now);
        Self {
            id: sheet.event.id,
            slug: sheet.event.slug,
            name: sheet.event.name,
            description: sheet.description,
            venue: sheet.event.venue,
            zone: sheet.event.zone.name().to_owned(),
            starts_at: sheet.event.starts_at,
            state: sheet.event.state,
            on_sale: door.sale == Sale::On,
            organization: sheet.event.organizer.id,
            list: sheet.facts.list,
            list_takes_people: door.sale == Sale::On && door.line == Line::Open,
            waiting: sheet.waiting,
            places_free: door.bookable(),
            booked_elsewhere: door.outside,
            seats_held: sheet.facts.places.held,
            largest_party: sheet.largest_party,
            attributes: sheet.attributes.into_iter().map(Into::into).collect(),
        }
    }
}

/// A live offer, as a part of an entry.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OfferRef {
    /// Its id.
    pub id: OfferId,
    /// A hold keeps its places; a call keeps none, and the first to accept wins.
    pub kind: OfferKind,
    /// Until when it can be accepted.
    pub expires_at: DateTime<Utc>,
    /// The clock stands still, because nobody can be told at this moment.
    pub stands: bool,
}

/// Somebody, for programs of the organization.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct PersonView {
    /// Their id.
    pub id: PersonId,
    /// What they want to be called.
    pub name: String,
}

/// An entry: somebody's request on a list.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct EntryView {
    /// Its id.
    pub id: EntryId,
    /// On whose list.
    pub event: EventRef,
    /// Whose it is.
    pub person: PersonView,
    /// Where it is in its life.
    pub state: EntryState,
    /// Since when.
    pub since: DateTime<Utc>,
    /// How many places, all or none.
    pub party: i32,
    /// The place in the line, counted from 1 and only over those who could be offered a place: to customers only where the
    /// rule shows it exactly.
    pub position: Option<i64>,
    /// The same in words, as far as the rule lets it be told.
    pub position_text: Option<String>,
    /// How many take part in the next draw, where that decides the order.
    pub pool: Option<i64>,
    /// The group by which it goes before others, where people are told.
    pub group: Option<String>,
    /// Who paused it.
    pub paused: Option<PausedBy>,
    /// None of the person's contacts works.
    pub contact_problem: bool,
    /// The live offer.
    pub offer: Option<OfferRef>,
}

impl EntryView {
    /// As its person is told; with `for_staff` the exact position in any case.
    #[must_use]
    pub fn of(entry: MyEntry, for_staff: bool) -> Self {
        let shown = entry.position.filter(|_| entry.pool.is_none());
        let told = if for_staff { PositionShown::Exact } else { entry.position_shown };
        Self {
            id: entry.id,
            event: (&entry.event).into(),
            person: PersonView { id: entry.person, name: entry.name },
            state: entry.state,
            since: entry.since,
            party: entry.party,
            position: shown.filter(|_| told == PositionShown::Exact),
            position_text: shown.and_then(|position| position_in_words(told, position)),
            pool: entry.pool,
            group: entry.group,
            paused: entry.paused,
            contact_problem: entry.contact_problem,
            offer: entry.offer.map(|(id, expires_at)| OfferRef {
                id,
                kind: if entry.is_call { OfferKind::Call } else { OfferKind::Hold },
                expires_at,
                stands: entry.stands,
            }),
        }
    }
}

/// An offer: a temporary right to claim.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OfferView {
    /// Its id.
    pub id: OfferId,
    /// Of which event.
    pub event: EventId,
    /// To which entry.
    pub entry: EntryId,
    /// To whom.
    pub person: PersonId,
    /// A hold keeps its places; a call keeps none, and the first to accept wins.
    pub kind: OfferKind,
    /// Where it is in its life.
    pub state: OfferState,
    /// How many places.
    pub party: i32,
    /// When it was made.
    pub made_at: DateTime<Utc>,
    /// Why, by which rule or by which reason of staff.
    pub made_reason: Option<Reason>,
    /// The version of the rule under which it was made.
    pub policy_version: i32,
    /// Until when it can be accepted; at that instant it is late.
    pub expires_at: DateTime<Utc>,
    /// The clock stands still, because nobody can be told at this moment.
    pub stands: bool,
    /// When it ended.
    pub ended_at: Option<DateTime<Utc>>,
    /// Why it ended.
    pub end_reason: Option<String>,
}

impl From<&Offer> for OfferView {
    fn from(offer: &Offer) -> Self {
        Self {
            id: offer.id,
            event: offer.event,
            entry: offer.entry,
            person: offer.person,
            kind: offer.kind,
            state: offer.state,
            party: offer.party,
            made_at: offer.made_at,
            made_reason: offer.made_reason,
            policy_version: offer.policy_version,
            expires_at: offer.expires_at,
            stands: offer.stands,
            ended_at: offer.ended_at,
            end_reason: offer.end_reason.clone(),
        }
    }
}

/// An offer with what became of it.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct OfferDetail {
    /// The offer.
    #[serde(flatten)]
    pub offer: OfferView,
    /// What the places are called that it keeps, or that were booked through it; those without a name are not in it.
    pub places: Vec<String>,
    /// What its person wants to be called.
    pub name: String,
    /// Where they are written to.
    pub email: String,
    /// What became of the entry.
    pub entry_state: EntryState,
    /// What the person quotes, once it is accepted.
    pub reference: Option<String>,
    /// The bookings made through it that stand, one for each place: their ids are what a release names.
    pub bookings: Vec<BookingId>,
    /// Why it is not decided yet, while it is `accepting`.
    pub being_confirmed: Option<&'static str>,
}

/// Said with 202, and whenever somebody looks meanwhile.
const BEING_CONFIRMED: &str = "The service that books the places was asked, and has not answered yet. The places are \
                               kept, and the outcome comes by itself: ask again in a few seconds.";

impl From<OfferSheet> for OfferDetail {
    fn from(sheet: OfferSheet) -> Self {
        Self {
            being_confirmed: (sheet.offer.state == OfferState::Accepting).then_some(BEING_CONFIRMED),
            offer: (&sheet.offer).into(),
            places: sheet.labels,
            name: sheet.name,
            email: sheet.email,
            entry_state: sheet.entry,
            reference: sheet.booking.map(|(reference, _)| reference),
            bookings: sheet.standing_bookings,
        }
    }
}

/// The places of one party, booked together.
#[derive(Clone, Debug, Serialize, ToSchema)]
pub struct BookingView {
    /// One of the bookings, by which the party is found.
    pub id: BookingId,
    /// Of which event.
    pub event: EventRef,
    /// Whose.
    pub person: PersonView,
    /// What they quote.
    pub reference: String,
    /// Through which offer.
    pub offer: Option<OfferId>,
    /// The bookings that stand, one for each place.
    pub confirmed: Vec<BookingId>,
    /// How many were cancelled.
    pub cancelled: i64,
    /// What the places are called that stand; those without a name are not in it. `confirmed` has all.
    pub places: Vec<String>,
    /// When they were made.
    pub booked_at: DateTime<Utc>,
    /// When one was last cancelled.
    pub cancelled_at: Option<DateTime<Utc>>,
}

impl From<MyBooking> for BookingView {
    fn from(booking: MyBooking) -> Self {
        Self {
            id: booking.id,
            event: (&booking.event).into(),
            person: PersonView { id: booking.person, name: booking.name },
            reference: booking.reference,
            offer: booking.offer,
            confirmed: booking.confirmed,
            cancelled: booking.cancelled,
            places: booking.labels,
            booked_at: booking.booked_at,
            cancelled_at: booking.cancelled_at,
        }
    }
}
