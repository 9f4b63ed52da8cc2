//! What an event says of its places: the attributes themselves, what is said of one place, what one entry wants.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Redirect, Response};
use axum::routing::get;
use serde::Deserialize;

use super::super::WebState;
use super::super::csrf::VerifiedForm;
use super::super::error::Error;
use super::super::extract::Path;
use super::super::page::{Errors, Layout, Page, Tone};
use super::super::wants::{Field, read_party, read_said, read_wants, said_fields, wants_fields};
use super::Staff;
use super::act::ActForm;
use super::frame::{EventFrame, Tab, isolated, path};
use super::words::{entry_is, they_have_enough};
use crate::domain::attribute::{ATTRIBUTES_MAX, Attribute, Measure, Typed};
use crate::domain::event::Event;
use crate::domain::ids::{EntryId, EventId, PlaceId};
use crate::domain::place::PlaceState;
use crate::domain::role::Act;
use crate::waitlist::attributes::{AttributesOutcome, DescribeOutcome, WantsOutcome};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/attributes", get(show).post(save))
        .route("/events/{event}/places/{place}/describe", get(begin_describe).post(describe))
        .route("/events/{event}/entries/{entry}/wants", get(begin_wants).post(change_wants))
}

#[derive(Template)]
#[template(path = "staff/attributes.html")]
struct AttributesPage {
    layout: Layout,
    frame: EventFrame,
    /// The fields' number and what was typed: label, choices, whether it is to go.
    rows: Vec<Row>,
    fresh: Row,
    form_version: i32,
    errors: Errors,
    full: bool,
}

/// One attribute as it was typed.
#[derive(Default)]
struct Row {
    name: String,
    label: String,
    measure: String,
    choices: String,
    gone: bool,
}

impl Row {
    fn field(&self, field: &str) -> String {
        format!("{}.{field}", self.name)
    }

    fn is_choice(&self) -> bool {
        self.measure == Measure::Choice.as_str()
    }
}

impl AttributesPage {
    fn measures() -> [(&'static str, &'static str); 3] {
        Measure::ALL.try_into().map_or([("", ""); 3], |all: [Measure; 3]| {
            all.map(|measure| {
                let words = match measure {
                    Measure::Choice => "one of a few names, such as Stalls or Balcony",
                    Measure::Number => "a number, such as a price",
                    Measure::Date => "a day",
                };
                (measure.as_str(), words)
            })
        })
    }
}

fn typed<'a>(form: &'a Typed, name: &str, field: &str) -> &'a str {
    form.get(&format!("{name}.{field}")).map_or("", |text| text.trim())
}

/// The attributes as they are to be, or `None` after errors were noted.
fn read(form: &Typed, before: &[Attribute], errors: &mut Errors) -> Option<Vec<Attribute>> {
    let mut after = Vec::new();
    for old in before.iter().filter(|old| !form.contains_key(&format!("{}.gone", old.key))) {
        let renamed = old.renamed(typed(form, &old.key, "label"), typed(form, &old.key, "choices"));
        after.extend(errors.check(format!("{}.label", old.key), renamed));
    }
    let label = typed(form, "new", "label");
    if !label.is_empty() {
        let measure = Measure::parse(typed(form, "new", "measure")).unwrap_or(Measure::Choice);
        let fresh = Attribute::new(label, measure, typed(form, "new", "choices"), before);
        after.extend(errors.check("new.label", fresh));
    } else if !typed(form, "new", "choices").is_empty() {
        errors.add("new.label", "Name what these are choices of.");
    }
    if after.len() > ATTRIBUTES_MAX {
        errors.add("new.label", format!("At most {ATTRIBUTES_MAX} for one event."));
    }
    errors.is_empty().then_some(after)
}

async fn attributes_page(
    staff: &Staff,
    event: Event,
    form: &Typed,
    errors: Errors,
    status: StatusCode,
) -> Result<Response, Error> {
    let row = |attribute: &Attribute| {
        let key = &attribute.key;
        let or = |field: &str, otherwise: String| {
            form.get(&format!("{key}.{field}")).cloned().unwrap_or(otherwise)
        };
        Row {
            name: key.clone(),
            label: or("label", attribute.label.clone()),
            measure: attribute.measure.to_string(),
            choices: or("choices", attribute.choices.join("\n")),
            gone: form.contains_key(&format!("{key}.gone")),
        }
    };
    let fresh = Row {
        name: "new".to_owned(),
        label: typed(form, "new", "label").to_owned(),
        measure: typed(form, "new", "measure").to_owned(),
        choices: typed(form, "new", "choices").to_owned(),
        gone: false,
    };
    let form_version =
        form.get("form_version").and_then(|version| version.parse().ok()).unwrap_or(event.form_version);
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let page = AttributesPage {
        layout: staff.event_layout(&frame.event, "What places are").await?,
        rows: frame.event.attributes.iter().map(row).collect(),
        full: frame.event.attributes.len() >= ATTRIBUTES_MAX,
        fresh,
        form_version,
        frame,
        errors,
    };
    Ok((status, Page(page)).into_response())
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    attributes_page(&staff, event, &Typed::new(), Errors::default(), StatusCode::OK).await
}

async fn save(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    VerifiedForm(form): VerifiedForm<Typed>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let Some(attributes) = read(&form, &event.attributes, &mut errors) else {
        return attributes_page(&staff, event, &form, errors, StatusCode::UNPROCESSABLE_ENTITY).await;
    };
    let version = form.get("form_version").and_then(|version| version.parse().ok()).unwrap_or(0);
    let (tone, said) =
        match state.waitlist().set_attributes(event.id, &attributes, version, staff.actor()).await? {
            AttributesOutcome::Changed => (Tone::Done, "Saved. Now say of each place what it is."),
            AttributesOutcome::Already => (Tone::Note, "Nothing was changed."),
            AttributesOutcome::InUse(used) => {
                let used = isolated(&used.0);
                errors.add("", format!("{used} cannot go: places have it, or people on the list want it."));
                return attributes_page(&staff, event, &form, errors, StatusCode::CONFLICT).await;
            }
            AttributesOutcome::Stale | AttributesOutcome::NotTheSame(_) => {
                errors.add("", "Somebody else changed this event since. Look again, then save.");
                let form = Typed::new();
                return attributes_page(&staff, event, &form, errors, StatusCode::CONFLICT).await;
            }
        };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, "/attributes")).into_response())
}

/// What is said of a place, or wanted by an entry, with a reason for the change.
#[derive(Template)]
#[template(path = "staff/describe.html")]
struct DescribePage {
    layout: Layout,
    frame: EventFrame,
    heading: String,
    effect: &'static str,
    /// How many places are asked for, as typed, where somebody asks for places.
    party: Option<String>,
    fields: Vec<Field>,
    action: String,
    back: String,
    form: DescribeForm,
    errors: Errors,
}

impl DescribePage {
    fn reasons() -> Vec<(&'static str, String)> {
        super::words::reasons()
    }
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct DescribeForm {
    reason: String,
    note: String,
    #[serde(flatten)]
    fields: Typed,
}

impl DescribeForm {
    fn begun(fields: Typed) -> Self {
        Self { fields, ..Self::default() }
    }

    fn act(&self) -> ActForm {
        ActForm { reason: self.reason.clone(), note: self.note.clone(), ..ActForm::default() }
    }
}

async fn place_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    place: PlaceId,
    form: DescribeForm,
    errors: Errors,
) -> Result<Response, Error> {
    let place = state.db.find_place(event.id, place).await?;
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let back = frame.path(format!("/places/{}", place.id));
    // Without what is said of it: the form has that.
    let name = place.label.unwrap_or_else(|| format!("place {}", place.number));
    let page = DescribePage {
        layout: staff.event_layout(&frame.event, "Describe a place").await?,
        heading: format!("What is {}?", isolated(&name)),
        effect: "Whoever wants what is said here can be offered the place; it is asked at once who is next for it.",
        party: None,
        fields: said_fields(&frame.event.attributes, &form.fields),
        action: format!("{back}/describe"),
        back,
        frame,
        form,
        errors,
    };
    Ok((status, Page(page)).into_response())
}

async fn begin_describe(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, place)): Path<(EventId, PlaceId)>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let kind = state.db.find_place(event.id, place).await?.kind;
    let (said, _) = state.db.said(event.id, kind).await?;
    place_page(&state, &staff, event, place, DescribeForm::begun(said.typed()), Errors::default()).await
}

async fn describe(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, place)): Path<(EventId, PlaceId)>,
    VerifiedForm(form): VerifiedForm<DescribeForm>,
) -> Result<Response, Error> {
    staff.require(Act::EditPlaces)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let said = read_said(&event.attributes, &form.fields, &mut errors);
    let reason = form.act().reason(&mut errors);
    let (Some(said), Some(reason)) = (said, reason) else {
        return place_page(&state, &staff, event, place, form, errors).await;
    };
    let outcome = state.waitlist().describe_place(event.id, place, &said, staff.actor(), &reason).await?;
    let (tone, said) = match outcome {
        DescribeOutcome::Described => (Tone::Done, "Saved."),
        DescribeOutcome::Already => (Tone::Note, "Nothing was changed: this was said of it before."),
        DescribeOutcome::NotOpen(PlaceState::Retired) => {
            (Tone::Warn, "Nothing was changed: the place has left the event.")
        }
        DescribeOutcome::NotOpen(_) => {
            (Tone::Warn, "Nothing was changed: somebody was promised this place as it is. Release it first.")
        }
        DescribeOutcome::TooManyKinds => {
            (Tone::Warn, "Nothing was changed: this event has as many kinds of places as it can have.")
        }
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, format!("/places/{place}"))).into_response())
}

async fn entry_page(
    state: &WebState,
    staff: &Staff,
    event: Event,
    entry: EntryId,
    form: DescribeForm,
    errors: Errors,
) -> Result<Response, Error> {
    let entry = state.db.entry_in(event.id, entry).await?;
    let person = state.db.person(entry.person).await?;
    let status = if errors.is_empty() { StatusCode::OK } else { StatusCode::UNPROCESSABLE_ENTITY };
    let frame = EventFrame::new(event, Tab::Queue, staff.now);
    let back = frame.path(format!("/entries/{}", entry.id));
    let page = DescribePage {
        layout: staff.event_layout(&frame.event, "What somebody asks for").await?,
        heading: format!("What does {} ask for?", isolated(&person.name)),
        effect: "They keep their place in the line, unless they ask for more places: that is a new request, at the end.",
        party: Some(form.fields.get("party").cloned().unwrap_or_else(|| entry.party.to_string())),
        fields: wants_fields(&frame.event.attributes, &form.fields),
        action: format!("{back}/wants"),
        back,
        frame,
        form,
        errors,
    };
    Ok((status, Page(page)).into_response())
}

async fn begin_wants(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry)): Path<(EventId, EntryId)>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let event = staff.event(&state, event).await?;
    let number = state.db.entry_in(event.id, entry).await?.wants;
    let (wants, _) = state.db.wants(event.id, number).await?;
    entry_page(&state, &staff, event, entry, DescribeForm::begun(wants.typed()), Errors::default()).await
}

async fn change_wants(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, entry)): Path<(EventId, EntryId)>,
    VerifiedForm(form): VerifiedForm<DescribeForm>,
) -> Result<Response, Error> {
    staff.require(Act::ActOnEntries)?;
    let event = staff.event(&state, event).await?;
    let mut errors = Errors::default();
    let party = read_party(&form.fields, &mut errors);
    let wants = read_wants(&event.attributes, &form.fields, &mut errors);
    let reason = form.act().reason(&mut errors);
    let (Some(party), Some(wants), Some(reason)) = (party, wants, reason) else {
        return entry_page(&state, &staff, event, entry, form, errors).await;
    };
    let outcome =
        state.waitlist().change_wants(event.id, entry, party, &wants, staff.actor(), &reason).await?;
    let (tone, said) = match outcome {
        WantsOutcome::Changed { to_end: false } => {
            (Tone::Done, "Saved. They keep their place in the line.".to_owned())
        }
        WantsOutcome::Changed { to_end: true } => {
            (Tone::Done, "Saved. They ask for more places, and are at the end of the line now.".to_owned())
        }
        WantsOutcome::BadParty(most) => {
            errors.add("party", format!("Enter a number between 1 and {most}."));
            return entry_page(&state, &staff, event, entry, form, errors).await;
        }
        WantsOutcome::Enough(enough) => {
            errors.add("party", they_have_enough(enough));
            return entry_page(&state, &staff, event, entry, form, errors).await;
        }
        WantsOutcome::Already => (Tone::Note, "Nothing was changed: they asked for this before.".to_owned()),
        WantsOutcome::Offered => (
            Tone::Warn,
            "Nothing was changed: they have an offer of what they wanted. Look again when it has ended."
                .to_owned(),
        ),
        WantsOutcome::Over(state) => (Tone::Warn, format!("Nothing was changed. {}", entry_is(state))),
        WantsOutcome::TooManyWants => (
            Tone::Warn,
            "Nothing was changed: people on this list want as many different things as it can tell apart."
                .to_owned(),
        ),
    };
    staff.flash(tone, said).await?;
    Ok(Redirect::to(&path(event.id, format!("/entries/{entry}"))).into_response())
}
