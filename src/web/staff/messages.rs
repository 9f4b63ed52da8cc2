//! Messages: the mailbox, what became of each, and dead letters.
//!
//! Where no mail server is set, this page is the channel, so it shows offer links and codes; where one is, they are
//! masked: staff have no need of them, and they are worth a place.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::response::Redirect;
use axum::routing::{get, post};
use chrono::{DateTime, Utc};
use serde::Deserialize;
use url::form_urlencoded;

use super::super::WebState;
use super::super::csrf::{NoFields, VerifiedForm};
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{FilterLink, Layout, Page, Section, Tone, with_spaces};
use super::Staff;
use super::frame::{EventFrame, Tab};
use crate::db::mailbox::{
    DELIVERIES_SHOWN, Delivery, MessageCount, MessageDetail, MessageFilter, MessageLine,
};
use crate::db::outbox::{ChannelTrouble, Replayed};
use crate::domain::delivery::{Channel, MessageState};
use crate::domain::event::Event;
use crate::domain::ids::{EventId, MessageId, PersonId};
use crate::domain::message::Occasion;
use crate::domain::role::Act;
use crate::domain::when::{self, When};
use crate::messages::{Key, Letter, Show, letter};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/messages", get(list))
        .route("/messages/send-again", post(send_all_again))
        .route("/messages/{id}", get(show))
        .route("/messages/{id}/send-again", post(send_again))
        .route("/events/{id}/messages", get(list_of_event))
}

/// Lines on a page.
const PER_PAGE: usize = 50;

#[derive(Deserialize)]
struct ListQuery {
    #[serde(default)]
    state: String,
    #[serde(default)]
    person: String,
    #[serde(default)]
    before: String,
}

#[derive(Template)]
#[template(path = "staff/messages.html")]
struct MessagesPage {
    layout: Layout,
    list: MessageList,
}

#[derive(Template)]
#[template(path = "staff/event_messages.html")]
struct EventMessagesPage {
    layout: Layout,
    frame: EventFrame,
    list: MessageList,
}

/// What the two lists share.
struct MessageList {
    /// Whether it is of one event, which then is not named in every line.
    of_event: bool,
    /// To one person only: what they are called.
    person: Option<String>,
    sentence: String,
    channel: ChannelSentence,
    states: Vec<FilterLink>,
    lines: Vec<Line>,
    /// The address of this list from its newest message on.
    newest: Option<String>,
    older: Option<String>,
    dead: i64,
    may_send: bool,
}

/// Whether and how mail is sent.
struct ChannelSentence {
    text: String,
    /// What is wrong with the mail server.
    trouble: Option<String>,
}

/// A line of the list, ready to be shown.
struct Line {
    id: MessageId,
    person: Option<PersonId>,
    person_name: String,
    about: String,
    event: Option<String>,
    state: MessageState,
    made: When,
    next: Option<When>,
    attempts: i32,
    note: String,
}

impl Line {
    fn new(line: MessageLine, now: DateTime<Utc>) -> Self {
        let when = |at| When::new(at, line.zone, now);
        Self {
            id: line.id,
            person: line.person,
            about: about(line.occasion),
            event: line.event_name,
            state: line.state,
            made: when(line.made_at),
            next: line.next_attempt_at.filter(|at| *at > now).map(when),
            attempts: line.attempts,
            note: line.note.unwrap_or_default(),
            person_name: line.person_name,
        }
    }
}

impl Line {
    /// The chip's word.
    fn word(&self) -> &'static str {
        state_word(self.state)
    }

    /// Where it is sent again.
    fn send_again(&self) -> String {
        format!("/staff/messages/{}/send-again", self.id)
    }
}

/// What a message is about, in a few words.
fn about(occasion: Option<Occasion>) -> String {
    occasion.map_or_else(|| "unknown".to_owned(), |occasion| with_spaces(occasion.as_str()))
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Query(query): Query<ListQuery>,
) -> Result<Page<MessagesPage>, Error> {
    let list = read_list(&state, &staff, None, &query).await?;
    let layout = staff.layout("Messages", Section::Messages).await?.live(15);
    Ok(Page(MessagesPage { layout, list }))
}

async fn list_of_event(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<ListQuery>,
) -> Result<Page<EventMessagesPage>, Error> {
    let event = staff.event(&state, event).await?;
    let list = read_list(&state, &staff, Some(&event), &query).await?;
    let layout = staff.layout(format!("Messages: {}", event.name), Section::Events).await?.live(15);
    Ok(Page(EventMessagesPage { layout, frame: EventFrame::new(event, Tab::Messages, staff.now), list }))
}

async fn read_list(
    state: &WebState,
    staff: &Staff,
    event: Option<&Event>,
    query: &ListQuery,
) -> Result<MessageList, Error> {
    staff.require(Act::See)?;
    let organization = staff.member.organization;
    let chosen = MessageState::parse(&query.state);
    let person = query.person.parse().ok().map(PersonId);
    let before = cursor(&query.before);
    let event_id = event.map(|event| event.id);
    let filter = MessageFilter { event: event_id, person, states: chosen.into_iter().collect(), before };
    let mut lines =
        state.db.messages(organization, &filter, i64::try_from(PER_PAGE + 1).unwrap_or(i64::MAX)).await?;
    let counts = state.db.message_counts(organization, event_id).await?;
    let more = lines.len() > PER_PAGE;
    lines.truncate(PER_PAGE);

    let path = match event {
        Some(event) => format!("/staff/events/{}/messages", event.id),
        None => "/staff/messages".to_owned(),
    };
    let address = |shown: Option<MessageState>, before: Option<&MessageLine>| {
        let mut query = form_urlencoded::Serializer::new(String::new());
        if let Some(shown) = shown {
            query.append_pair("state", shown.as_str());
        }
        if let Some(person) = person {
            query.append_pair("person", &person.to_string());
        }
        if let Some(line) = before {
            query.append_pair(
                "before",
                &format!("{}-{}", line.made_at.timestamp_micros(), line.id.0.simple()),
            );
        }
        let query = query.finish();
        if query.is_empty() { path.clone() } else { format!("{path}?{query}") }
    };
    let older = lines.last().filter(|_| more).map(|last| address(chosen, Some(last)));
    let newest = before.map(|_| address(chosen, None));
    // Counts are of all messages: of one person's, none are shown.
    let count = |n| person.is_none().then_some(n);
    let mut states = vec![FilterLink {
        href: address(None, None),
        label: "all".to_owned(),
        count: count(counts.iter().map(|count| count.n).sum()),
        current: chosen.is_none(),
    }];
    states.extend(counts.iter().map(|MessageCount { state, n }| FilterLink {
        href: address(Some(*state), None),
        label: state_word(*state).to_owned(),
        count: count(*n),
        current: chosen == Some(*state),
    }));
    let of = |state| counts.iter().find(|count| count.state == state).map_or(0, |count| count.n);
    let dead = of(MessageState::Dead);
    Ok(MessageList {
        of_event: event.is_some(),
        person: person.and_then(|_| lines.first().map(|line| line.person_name.clone())),
        sentence: sentence(of(MessageState::Queued) + of(MessageState::Sending), dead),
        channel: channel(state, event, staff.now).await?,
        states,
        lines: lines.into_iter().map(|line| Line::new(line, staff.now)).collect(),
        newest,
        older,
        // All of the organization's are sent again at once, not those of one event.
        dead: if event.is_none() { dead } else { 0 },
        may_send: staff.may(Act::Message),
    })
}

/// "1780000000000000-0199…": where the page before ended. Nonsense is the beginning.
fn cursor(text: &str) -> Option<(DateTime<Utc>, MessageId)> {
    let (micros, id) = text.split_once('-')?;
    Some((when::from_micros(micros)?, MessageId(id.parse().ok()?)))
}

/// The state in a word; the chip's, too.
fn state_word(state: MessageState) -> &'static str {
    match state {
        MessageState::Queued => "queued",
        MessageState::Sending => "sending",
        MessageState::Told => "told",
        MessageState::Suppressed => "suppressed",
        MessageState::Dead => "not delivered",
    }
}

fn sentence(waiting: i64, dead: i64) -> String {
    let waiting = match waiting {
        0 => "Nothing waits to be sent".to_owned(),
        1 => "1 message waits to be sent".to_owned(),
        n => format!("{n} messages wait to be sent"),
    };
    match dead {
        0 => format!("{waiting}."),
        1 => format!("{waiting}; 1 could not be delivered and needs you."),
        n => format!("{waiting}; {n} could not be delivered and need you."),
    }
}

async fn channel(
    state: &WebState,
    event: Option<&Event>,
    now: DateTime<Utc>,
) -> Result<ChannelSentence, Error> {
    let Some(relay) = &state.mail.smtp else {
        let text = "No SMTP server is set: messages are readable here and nowhere else.".to_owned();
        return Ok(ChannelSentence { text, trouble: None });
    };
    let text = format!("Mail goes through {}. Links and codes are masked here.", relay.server);
    let zone = event.map_or(chrono_tz::UTC, |event| event.zone);
    let trouble = state.db.channel_trouble().await?.map(|trouble| said(&trouble, zone, now));
    Ok(ChannelSentence { text, trouble })
}

fn said(trouble: &ChannelTrouble, zone: chrono_tz::Tz, now: DateTime<Utc>) -> String {
    let since = When::new(trouble.since, zone, now);
    let next = if trouble.paused_until > now {
        format!("tried again {}", When::new(trouble.paused_until, zone, now).relative)
    } else {
        "being tried again now".to_owned()
    };
    format!(
        "The mail server does not work since {} ({}): {}. No message is lost or counted as failed; it is {next}.",
        since.absolute,
        since.relative,
        trouble.reason.trim_end_matches('.')
    )
}

// ── one message ────────────────────────────────────────────────────────────────────────────────────────────

#[derive(Template)]
#[template(path = "staff/message.html")]
struct MessagePage {
    layout: Layout,
    shown: Line,
    told: Option<When>,
    event: Option<EventId>,
    /// The letter, or why it cannot be shown.
    letter: Result<Letter, String>,
    /// The offer's link, to be clicked.
    link: Option<String>,
    code: Option<String>,
    masked: bool,
    channel: ChannelSentence,
    deliveries: Vec<Attempt>,
    /// Deliveries that are not shown.
    hidden: i64,
    may_send: bool,
}

/// A delivery, ready to be shown.
struct Attempt {
    number: i32,
    channel: &'static str,
    address: String,
    outcome: &'static str,
    detail: String,
    started: When,
    finished: Option<When>,
}

impl Attempt {
    fn new(delivery: Delivery, zone: chrono_tz::Tz, now: DateTime<Utc>) -> Self {
        Self {
            number: delivery.attempt,
            channel: match delivery.channel {
                Channel::Smtp => "mail server",
                Channel::Mailbox => "this page",
                Channel::Phone => "telephone",
            },
            address: delivery.address.unwrap_or_default(),
            outcome: delivery.outcome.map_or("running", |outcome| outcome.as_str()),
            detail: delivery.detail.unwrap_or_default(),
            started: When::new(delivery.started_at, zone, now),
            finished: delivery.finished_at.map(|at| When::new(at, zone, now)),
        }
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<MessageId>,
) -> Result<Page<MessagePage>, Error> {
    staff.require(Act::See)?;
    let detail = state.db.message(staff.member.organization, id).await?;
    // Whoever may not write to customers has no use for the link by which one of them accepts.
    let show = if staff.may(Act::Message) { Show::on_the_mailbox_page(&state.mail) } else { Show::Masked };
    let letter = read(&state, &detail, show).await;
    let (now, zone) = (staff.now, detail.line.zone);
    let title = letter.as_ref().map_or_else(|_| "Message".to_owned(), |letter| letter.subject.clone());
    let key = letter.as_ref().ok().and_then(|letter| letter.key.clone()).filter(|_| show == Show::Revealed);
    let (link, code) = match key {
        Some(Key::Link(link)) => (Some(link), None),
        Some(Key::Code(code)) => (None, Some(code)),
        None => (None, None),
    };
    let listed = i64::try_from(detail.deliveries.len()).unwrap_or(DELIVERIES_SHOWN);
    Ok(Page(MessagePage {
        layout: staff.layout(title, Section::Messages).await?,
        told: detail.line.told_at.map(|at| When::new(at, zone, now)),
        event: detail.line.event_name.as_ref().map(|_| detail.line.event),
        letter,
        link,
        code,
        masked: show == Show::Masked,
        channel: channel(&state, None, now).await?,
        deliveries: detail.deliveries.into_iter().map(|delivery| Attempt::new(delivery, zone, now)).collect(),
        hidden: detail.delivery_count - listed,
        may_send: staff.may(Act::Message),
        shown: Line::new(detail.line, now),
    }))
}

/// The letter as it would be written now, from the facts of then.
async fn read(state: &WebState, detail: &MessageDetail, show: Show) -> Result<Letter, String> {
    let occasion = detail.line.occasion.ok_or("This program does not know its occasion.")?;
    let facts = detail.facts().map_err(|error| error.to_string())?;
    let around = state
        .db
        .background(detail.line.event, detail.line.id, &facts)
        .await
        .map_err(|error| error.to_string())?;
    letter::write(&state.mail, occasion, detail.subject, &facts, &around, show)
        .map_err(|error| error.to_string())
}

async fn send_again(
    State(state): State<WebState>,
    staff: Staff,
    Path(id): Path<MessageId>,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    staff.require(Act::Message)?;
    // Another organization's message is not there.
    state.db.message(staff.member.organization, id).await?;
    match state.db.replay_message(staff.member.organization, id, staff.actor()).await? {
        Replayed::Queued => {
            staff.flash(Tone::Done, "It is queued again and sent within a few seconds.").await?;
        }
        Replayed::NotDead => {
            staff
                .flash(
                    Tone::Note,
                    "Nothing was done: it does not wait for that any more. This is how it stands.",
                )
                .await?;
        }
    }
    Ok(Redirect::to(&format!("/staff/messages/{id}")))
}

async fn send_all_again(
    State(state): State<WebState>,
    staff: Staff,
    VerifiedForm(NoFields {}): VerifiedForm<NoFields>,
) -> Result<Redirect, Error> {
    staff.require(Act::Message)?;
    let sent = state.db.replay_dead_letters(staff.member.organization, staff.member.id).await?;
    let text = match sent {
        0 => "Nothing was done: every message was delivered or is queued already.".to_owned(),
        1 => "1 message is queued again.".to_owned(),
        n => format!("{n} messages are queued again."),
    };
    staff.flash(if sent == 0 { Tone::Note } else { Tone::Done }, text).await?;
    Ok(Redirect::to("/staff/messages"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cursor_is_read_back_and_nonsense_is_the_beginning() {
        let id = MessageId(uuid::Uuid::from_u128(7));
        let at: DateTime<Utc> = "2027-03-01T10:00:00.123456Z".parse().expect("an instant");
        assert_eq!(cursor(&format!("{}-{}", at.timestamp_micros(), id.0.simple())), Some((at, id)));
        for nonsense in ["", "x", "1-2", "99999999999999999999-0", "-"] {
            assert_eq!(cursor(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn the_first_sentence_says_what_waits_and_what_needs_somebody() {
        assert_eq!(sentence(0, 0), "Nothing waits to be sent.");
        assert_eq!(sentence(1, 1), "1 message waits to be sent; 1 could not be delivered and needs you.");
        assert_eq!(sentence(2, 3), "2 messages wait to be sent; 3 could not be delivered and need you.");
    }
}
