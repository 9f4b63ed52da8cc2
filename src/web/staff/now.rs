//! What needs somebody now, with the remedy beside it; and the list of events.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Duration, Utc};
use chrono_tz::Tz;
use serde::Deserialize;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::Query;
use super::super::page::{Bar, FilterLink, Layout, Page, Pages, Section, with_spaces};
use super::Staff;
use super::event::bar;
use super::frame::{EventFrame, people, places};
use crate::db::booking_services::BookingTrouble;
use crate::db::complaints::ComplaintLine;
use crate::db::events::Begin;
use crate::db::mailbox::{MessageFilter, MessageLine};
use crate::db::pages_staff::{EventSummary, HinderedEntry, UrgentOffer};
use crate::domain::allocation::PassOutcome;
use crate::domain::delivery::MessageState;
use crate::domain::entry::Hindrance;
use crate::domain::event::{EventState, ListState};
use crate::domain::ids::EventId;
use crate::domain::policy::{Policy, Telling};
use crate::domain::role::Act;
use crate::domain::when::When;

pub(super) fn router() -> Router<WebState> {
    Router::new().route("/", get(show)).route("/events", get(list))
}

/// An offer that ends within this time may need a call.
const SOON: Duration = Duration::hours(1);
/// A pass that was asked for and has not run for so long means that nobody is at work.
const LATE: Duration = Duration::seconds(60);
/// Rows of each kind; each list says when there are more.
const SHOWN: i64 = 20;
const EVENTS_A_PAGE: i64 = 50;

/// What an event's list needs somebody for.
struct Need {
    state: &'static str,
    word: &'static str,
    event: EventId,
    name: String,
    sentence: String,
    remedies: Vec<(String, &'static str)>,
}

#[derive(Template)]
#[template(path = "staff/now.html")]
struct NowPage {
    layout: Layout,
    trouble: Vec<String>,
    urgent: Vec<UrgentOffer>,
    needs: Vec<Need>,
    services: Vec<Need>,
    aside: Vec<HinderedEntry>,
    complaints: Vec<ComplaintLine>,
    dead: Vec<MessageLine>,
    events: Vec<EventSummary>,
    may_act: bool,
    may_message: bool,
    may_edit: bool,
    now: DateTime<Utc>,
}

impl NowPage {
    fn quiet(&self) -> bool {
        self.trouble.is_empty()
            && self.urgent.is_empty()
            && self.needs.is_empty()
            && self.services.is_empty()
            && self.aside.is_empty()
            && self.complaints.is_empty()
            && self.dead.is_empty()
    }

    fn needs(&self) -> [(&'static str, &[Need]); 2] {
        [("Lists that need a decision", &self.needs), ("Booking services in trouble", &self.services)]
    }

    fn sentence(&self) -> String {
        let mut parts = Vec::new();
        let mut add = |count: usize, one: &str, many: &str| match count {
            0 => {}
            1 => parts.push(format!("1 {one}")),
            count => parts.push(format!("{count} {many}")),
        };
        add(self.urgent.len(), "offer ends within the hour", "offers end within the hour");
        add(self.needs.len(), "list needs a decision", "lists need a decision");
        add(self.services.len(), "booking service is in trouble", "booking services are in trouble");
        add(self.aside.len(), "entry waits for staff", "entries wait for staff");
        add(self.complaints.len(), "complaint waits for an answer", "complaints wait for an answer");
        add(self.dead.len(), "message did not arrive", "messages did not arrive");
        if parts.is_empty() { "The service needs you.".to_owned() } else { format!("{}.", parts.join(", ")) }
    }

    fn deadline(&self, offer: &UrgentOffer) -> When {
        When::new(offer.expires_at, offer.zone, self.now)
    }

    fn made(&self, message: &MessageLine) -> When {
        When::new(message.made_at, message.zone, self.now)
    }

    fn said(&self, line: &ComplaintLine) -> When {
        When::new(line.complaint.made_at, line.zone, self.now)
    }

    fn starts(&self, event: &EventSummary) -> Option<When> {
        event.starts_at.map(|start| When::new(start, event.zone, self.now))
    }

    fn is_contact(entry: &HinderedEntry) -> bool {
        entry.hindrance == Hindrance::ContactProblem
    }

    fn occasion(message: &MessageLine) -> String {
        message.occasion.map_or_else(|| "message".to_owned(), |occasion| with_spaces(occasion.as_str()))
    }
}

/// What an event needs staff for, if anything.
fn needs(event: &EventSummary, now: DateTime<Utc>) -> Vec<Need> {
    let mut needs = Vec::new();
    let path = |below: &str| super::frame::path(event.id, below);
    let mut need = |state, word, sentence: String, remedies| {
        needs.push(Need { state, word, event: event.id, name: event.name.clone(), sentence, remedies });
    };
    let started = event.starts_at.is_some_and(|start| now >= start);
    if event.places.retire_when_free > 0 {
        need(
            "revoked",
            "over",
            format!(
                "Over by {}: so many more places are taken than the event has.",
                event.places.retire_when_free
            ),
            vec![(path("/places"), "Look at the places")],
        );
    }
    if event.state != EventState::Published || started {
        return needs;
    }
    let open = event.places.open;
    if event.list == ListState::Closed && event.waiting > 0 {
        need(
            "closed",
            "list closed",
            format!("The list is closed while {} waiting.", wait(event.waiting)),
            vec![(path("/settings"), "Open the list"), (path("/queue"), "See who waits")],
        );
    } else if let Some(head) = event.head.as_ref().filter(|_| event.list != ListState::Closed) {
        let name = super::frame::isolated(&head.name);
        let blocked = event.last_pass.is_some_and(|(outcome, _)| outcome == PassOutcome::HeadWaits);
        if !event.served && open > 0 {
            need(
                "open",
                "by hand",
                format!(
                    "{} open and this list offers nothing by itself. {name} is first.",
                    if open == 1 { "1 place is".to_owned() } else { format!("{open} places are") }
                ),
                vec![
                    (path(&format!("/entries/{}/offer", head.entry)), "Offer"),
                    (path("/queue"), "See the queue"),
                ],
            );
        } else if blocked && open > 0 && open < i64::from(head.party) {
            need(
                "waiting",
                "blocked",
                format!(
                    "{name} is first and waits for {}; {} open.",
                    places(head.party),
                    if open == 1 { "1 is".to_owned() } else { format!("{open} are") }
                ),
                vec![(path("/release"), "Release a place"), (path("/policy"), "Change the rule to fill")],
            );
        }
    }
    if event.waiting > 0 && event.eligible == 0 && open > 0 && event.served {
        need(
            "paused",
            "nobody left",
            format!(
                "{} open, and none of the {} waiting can be offered one.",
                if open == 1 { "1 place is".to_owned() } else { format!("{open} places are") },
                event.waiting
            ),
            vec![(path("/queue"), "See what hinders them")],
        );
    }
    needs
}

/// What an event's booking service needs staff for: answers that only they can look up, and that it is left alone.
fn service_need(trouble: &BookingTrouble, now: DateTime<Utc>) -> Need {
    let page = super::frame::path(trouble.event, "/booking-service");
    let (mut sentences, mut remedies) = (Vec::new(), Vec::new());
    match (trouble.asking, trouble.first) {
        (0, _) => {}
        (1, Some(attempt)) => {
            sentences.push(
                "The booking service never answered 1 call: look it up there, and say what it shows."
                    .to_owned(),
            );
            remedies.push((format!("{page}/{attempt}"), "Resolve"));
        }
        (asking, _) => {
            sentences.push(format!(
                "The booking service never answered {asking} calls: look them up there, and say what it shows."
            ));
            remedies.push((page.clone(), "Resolve them"));
        }
    }
    if let Some(sentence) = left_alone(trouble, now) {
        sentences.push(sentence);
        remedies.push((page, "Look at the service"));
    }
    Need {
        state: "contact_problem",
        word: if trouble.asking > 0 { "no answer" } else { "left alone" },
        event: trouble.event,
        name: trouble.event_name.clone(),
        sentence: sentences.join(" "),
        remedies,
    }
}

/// Nobody can accept while a service is left alone: until when, and why.
fn left_alone(trouble: &BookingTrouble, now: DateTime<Utc>) -> Option<String> {
    let until = When::new(trouble.open_until?, trouble.zone, now);
    Some(format!(
        "The booking service failed {} times in a row{}. It can be called again {}; until then nobody can accept an offer. \
         Those that end soon can be extended.",
        trouble.failures,
        trouble.last_error.as_ref().map(|error| format!(", last: {error}")).unwrap_or_default(),
        until.relative
    ))
}

/// What stands still, whatever any event's rule says: passes that do not run, mail that does not go out.
pub(super) async fn trouble(
    state: &WebState,
    wanted: Option<DateTime<Utc>>,
    frame: &EventFrame,
    policy: &Policy,
    served: bool,
) -> Result<Vec<String>, Error> {
    let mut trouble = Vec::new();
    if served && let Some(since) = wanted.filter(|since| frame.now() - *since > LATE) {
        trouble.push(format!(
            "Halted: the line should have been looked at {}, and nobody did. Is the service running?",
            frame.when(since).relative
        ));
    }
    let meanwhile = match policy.telling {
        Telling::Extend => "By this event's rule nothing new is held meanwhile, and deadlines wait.",
        Telling::Run => "By this event's rule offers go on being made meanwhile, and deadlines run.",
    };
    let mail = mail_trouble(state, frame.event.zone, frame.now()).await?;
    trouble.extend(mail.map(|trouble| format!("{trouble} {meanwhile}")));
    if frame.event.outside {
        let services = state.db.booking_troubles(frame.event.organization, Some(frame.event.id)).await?;
        trouble.extend(services.iter().filter_map(|trouble| left_alone(trouble, frame.now())));
    }
    Ok(trouble)
}

async fn mail_trouble(state: &WebState, zone: Tz, now: DateTime<Utc>) -> Result<Option<String>, Error> {
    let trouble = state.db.channel_trouble().await?.filter(|trouble| trouble.down);
    Ok(trouble.map(|trouble| {
        let since = When::new(trouble.since, zone, now);
        format!(
            "Halted: no mail goes out since {} ({}). The mail server says: {}. It is tried again by itself; until then, call people.",
            since.absolute,
            since.relative,
            trouble.reason.trim_end_matches('.')
        )
    }))
}

async fn show(State(state): State<WebState>, staff: Staff) -> Result<Page<NowPage>, Error> {
    let organization = staff.member.organization;
    let now = staff.now;
    let events = state
        .db
        .event_summaries(
            organization,
            &[EventState::Published, EventState::Draft],
            EVENTS_A_PAGE,
            Begin::Skip(0),
        )
        .await?;
    let urgent = state.db.urgent_offers(organization, now + SOON, SHOWN).await?;
    let aside = state.db.entries_for_staff(organization, SHOWN).await?;
    let complaints = state.db.complaints_waiting(organization, SHOWN).await?;
    let filter = MessageFilter { states: vec![MessageState::Dead], ..MessageFilter::default() };
    let dead = state.db.messages(organization, &filter, SHOWN).await?;
    let mut trouble: Vec<String> = mail_trouble(&state, chrono_tz::UTC, now).await?.into_iter().collect();
    for event in &events {
        let late = event.pass_wanted.is_some_and(|since| now - since > LATE);
        if late && event.state == EventState::Published && event.list != ListState::Closed {
            trouble.push(format!(
                "Halted: the line of {} should have been looked at, and nobody did. Is the service running?",
                super::frame::isolated(&event.name)
            ));
        }
    }
    let services = state.db.booking_troubles(organization, None).await?;
    let services = services.iter().map(|trouble| service_need(trouble, now)).collect();
    let layout = staff.layout("Now", Section::Now).await?.live(15);
    Ok(Page(NowPage {
        layout,
        trouble,
        urgent,
        needs: events.iter().flat_map(|event| needs(event, now)).collect(),
        services,
        aside,
        complaints,
        dead,
        events,
        may_act: staff.may(Act::ActOnOffers),
        may_message: staff.may(Act::Message),
        may_edit: staff.may(Act::EditEvents),
        now,
    }))
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct ListQuery {
    state: String,
    page: String,
}

#[derive(Template)]
#[template(path = "staff/events.html")]
struct EventsPage {
    layout: Layout,
    filters: Vec<FilterLink>,
    events: Vec<EventSummary>,
    pages: Pages,
    state: EventState,
    none_at_all: bool,
    may_edit: bool,
    now: DateTime<Utc>,
}

impl EventsPage {
    fn starts(&self, event: &EventSummary) -> Option<When> {
        event.starts_at.map(|start| When::new(start, event.zone, self.now))
    }

    fn bar(event: &EventSummary) -> Bar {
        bar(event.places)
    }

    fn sentence(&self) -> String {
        let waiting: i64 = self.events.iter().map(|event| event.waiting).sum();
        let (one, many) = match self.state {
            EventState::Draft => ("a draft", "drafts"),
            EventState::Published => ("published", "published"),
            EventState::Cancelled => ("cancelled", "cancelled"),
            EventState::Over => ("over", "over"),
        };
        match self.pages.total {
            0 => format!("No event is {one}."),
            1 => format!("1 event is {one}; {} waiting.", wait(waiting)),
            count => format!("{count} events are {many}; {} waiting.", wait(waiting)),
        }
    }
}

fn wait(count: i64) -> String {
    match count {
        0 => "nobody is".to_owned(),
        1 => "1 person is".to_owned(),
        count => format!("{} are", people(count)),
    }
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Query(query): Query<ListQuery>,
) -> Result<Page<EventsPage>, Error> {
    let organization = staff.member.organization;
    let counts = state.db.event_state_counts(organization).await?;
    let count =
        |wanted: EventState| counts.iter().find(|(state, _)| *state == wanted).map_or(0, |(_, count)| *count);
    let none_published = count(EventState::Published) == 0 && count(EventState::Draft) > 0;
    let default = if none_published { EventState::Draft } else { EventState::Published };
    let shown = EventState::parse(&query.state).unwrap_or(default);
    let pages = Pages {
        base: format!("/staff/events?state={shown}&"),
        page: Pages::number(&query.page),
        per_page: EVENTS_A_PAGE,
        total: count(shown),
    };
    let events =
        state.db.event_summaries(organization, &[shown], EVENTS_A_PAGE, Begin::Skip(pages.offset())).await?;
    let filters = EventState::ALL
        .iter()
        .map(|state| FilterLink {
            href: format!("/staff/events?state={state}"),
            label: state.to_string(),
            count: Some(count(*state)),
            current: *state == shown,
        })
        .collect();
    Ok(Page(EventsPage {
        layout: staff.layout("Events", Section::Events).await?,
        filters,
        events,
        pages,
        state: shown,
        none_at_all: counts.is_empty(),
        may_edit: staff.may(Act::EditEvents),
        now: staff.now,
    }))
}
