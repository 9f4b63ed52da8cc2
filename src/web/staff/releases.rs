//! Places that came back: the list of them, and for each who was next then, when they were offered it, and what came
//! of it until it was booked.

use askama::Template;
use axum::Router;
use axum::extract::State;
use axum::routing::get;
use chrono::{DateTime, Duration, Utc};
use serde::Deserialize;

use super::super::WebState;
use super::super::error::Error;
use super::super::extract::{Path, Query};
use super::super::page::{Layout, Page};
use super::Staff;
use super::frame::{EventFrame, Tab, isolated, places};
use super::next::Line;
use super::words;
use crate::db::pages_history::Doer;
use crate::db::pages_releases::{Next, PassOffer, PassedOver, PlaceStep, Release, Source};
use crate::db::passes::PassRecord;
use crate::domain::allocation::SkipReason;
use crate::domain::audit::Act as Done;
use crate::domain::chain::{Chain, End, Mark, Turn, chain};
use crate::domain::ids::{EntryId, EventId, OfferId, PlaceId, ReleaseId};
use crate::domain::offer::OfferKind;
use crate::domain::place::PlaceState;
use crate::domain::reason::Reason;
use crate::domain::role::Act;
use crate::domain::standing::grouped;
use crate::domain::when::{self, When};

pub(super) fn router() -> Router<WebState> {
    Router::new()
        .route("/events/{event}/releases", get(list))
        .route("/events/{event}/releases/{release}", get(show))
}

const ROWS: usize = 50;
/// As many places of one release are told of on its page.
const PLACES: usize = 20;
/// As many records of one place.
const RECORDS: i64 = 100;
/// As many of a pass's offers, and of those it passed over.
const OFFERS: i64 = 5;

#[derive(Deserialize, Default)]
#[serde(default)]
struct ListQuery {
    before: String,
}

#[derive(Template)]
#[template(path = "staff/releases.html")]
struct ReleasesPage {
    layout: Layout,
    frame: EventFrame,
    rows: Vec<Release>,
    next: Option<String>,
}

/// "B12", "Place 3, Place 4 and 7 more".
fn named(release: &Release) -> String {
    let more = release.places.len().saturating_sub(release.names.len());
    let names: Vec<String> = release.names.iter().map(|name| isolated(name)).collect();
    match more {
        0 => names.join(", "),
        more => format!("{} and {} more", names.join(", "), grouped(i64::try_from(more).unwrap_or(i64::MAX))),
    }
}

/// From where places came back, and why.
fn why(release: &Release) -> String {
    let whose = release.whose.as_deref().map_or_else(|| "somebody".to_owned(), isolated);
    let reason = release.reason.map_or("", Reason::label);
    match (&release.source, release.reason) {
        (Source::Offer(_), Some(Reason::Declined)) => format!("{whose} declined the offer"),
        (Source::Offer(_), Some(Reason::Left)) => format!("{whose} left the list"),
        (Source::Offer(_), _) => format!("the offer to {whose} ended: {reason}"),
        (Source::Booking { .. }, Some(Reason::Cancelled)) => format!("{whose} cancelled the booking"),
        (Source::Booking { .. }, _) => format!("the booking of {whose} was cancelled: {reason}"),
        (Source::Added, _) => format!("added: {reason}"),
        (Source::Other, _) => reason.to_owned(),
    }
}

/// "at once", "after 2 h 10 min".
fn after(lag: Duration) -> String {
    match when::span(lag) {
        Some(span) => format!("after {span}"),
        None => "at once".to_owned(),
    }
}

impl ReleasesPage {
    fn sentence(&self) -> String {
        match self.rows.first() {
            None => "No place has come back yet.".to_owned(),
            Some(last) => format!("Places last came back {}.", self.frame.said(last.at)),
        }
    }

    fn when(&self, row: &Release) -> When {
        self.frame.when(row.at)
    }

    fn names(row: &Release) -> String {
        named(row)
    }

    fn why(row: &Release) -> String {
        why(row)
    }

    fn by(row: &Release) -> String {
        words::doer(&row.by)
    }

    /// What happened to the first of them.
    fn then(row: &Release) -> String {
        let Some(Next { at, act, name }) = &row.next else { return "nobody has had it since".to_owned() };
        let who = name.as_deref().map_or_else(|| "somebody".to_owned(), isolated);
        let after = after(*at - row.at);
        match act {
            Done::Held => format!("offered to {who} {after}"),
            Done::Booked => format!("booked by {who} {after}, without an offer"),
            _ => format!("taken out of the event {after}"),
        }
    }
}

/// What a page ended with, in an address: "1700000000000000.{id}".
fn before(text: &str) -> Option<(DateTime<Utc>, ReleaseId)> {
    let (micros, id) = text.split_once('.')?;
    Some((when::from_micros(micros)?, id.parse().ok()?))
}

async fn list(
    State(state): State<WebState>,
    staff: Staff,
    Path(event): Path<EventId>,
    Query(query): Query<ListQuery>,
) -> Result<Page<ReleasesPage>, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    let limit = i64::try_from(ROWS + 1).unwrap_or(i64::MAX);
    let mut rows = state.db.releases(event.id, before(&query.before), limit).await?;
    let more = rows.len() > ROWS;
    rows.truncate(ROWS);
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let next = rows
        .last()
        .filter(|_| more)
        .map(|row| frame.path(format!("/releases?before={}.{}", row.at.timestamp_micros(), row.id)));
    Ok(Page(ReleasesPage {
        layout: staff.event_layout(&frame.event, "Places that came back").await?,
        frame,
        rows,
        next,
    }))
}

#[derive(Template)]
#[template(path = "staff/release_story.html")]
struct ReleasePage {
    layout: Layout,
    frame: EventFrame,
    release: Release,
    pass: Option<PassRecord>,
    offers: Vec<PassOffer>,
    passed_over: Vec<PassedOver>,
    stories: Vec<PlaceStory>,
    /// Why what is open is not offered.
    now: String,
}

/// What became of one place of a release.
pub struct PlaceStory {
    place: PlaceId,
    name: String,
    turns: Vec<TurnStory>,
    end: EndStory,
}

/// Somebody's turn.
pub struct TurnStory {
    entry: Option<EntryId>,
    offer: Option<OfferId>,
    name: String,
    /// How soon, by which rule or by whom and why.
    how: String,
    /// The word and look of how it ended.
    chip: &'static str,
    /// When it began, and when it ended or ends.
    from: When,
    ends: Option<(&'static str, When)>,
}

/// Where a place is at the end of its story.
pub enum EndStory {
    /// Nobody has it.
    Open(When),
    /// Kept for the last turn.
    Kept,
    /// Booked through the last turn.
    Accepted,
    /// Booked by this person, without an offer.
    Booked(String, When),
    /// Taken out of the event.
    Retired(When),
}

impl PlaceStory {
    fn new(frame: &EventFrame, place: PlaceId, steps: &[PlaceStep]) -> Option<Self> {
        let known: Vec<(&PlaceStep, Mark)> = steps
            .iter()
            .filter_map(|step| {
                let to = step.step.to.as_deref().and_then(PlaceState::parse)?;
                Some((step, Mark { at: step.step.at, act: step.step.act?, to }))
            })
            .collect();
        let marks: Vec<Mark> = known.iter().map(|(_, mark)| *mark).collect();
        let Chain { turns, end, .. } = chain(&marks)?;
        let end = match end {
            End::Open(since) => EndStory::Open(frame.when(since)),
            End::Kept => EndStory::Kept,
            End::Booked(index) if turns.last().is_some_and(|turn| turn.ended == Some(index)) => {
                EndStory::Accepted
            }
            End::Booked(index) => EndStory::Booked(who(known[index].0), frame.when(marks[index].at)),
            End::Retired(index) => EndStory::Retired(frame.when(marks[index].at)),
        };
        let turns = turns.iter().map(|turn| TurnStory::new(frame, turn, &known)).collect();
        let name = steps.first()?.place_name.clone();
        Some(Self { place, name, turns, end })
    }
}

fn who(step: &PlaceStep) -> String {
    step.name.clone().unwrap_or_else(|| "somebody".to_owned())
}

impl TurnStory {
    fn new(frame: &EventFrame, turn: &Turn, steps: &[(&PlaceStep, Mark)]) -> Self {
        let began = steps[turn.began].0;
        let ended = turn.ended.map(|index| steps[index]);
        let reason = began.step.reason.map_or("", Reason::label);
        let by = match (&began.step.by, &began.offer) {
            (Doer::System, Some(offer)) => format!("by the rule (version {}), {reason}", offer.version),
            (by, _) => format!("by {}, by hand: {reason}", words::by(by)),
        };
        let (chip, ends) = match ended {
            None => ("pending", began.offer.as_ref().map(|offer| ("until", frame.when(offer.expires_at)))),
            Some((step, mark)) => {
                let chip = match (mark.to, step.of_offer) {
                    (PlaceState::Booked, _) => "accepted",
                    (_, Some(Done::Expired)) => "expired",
                    (_, Some(Done::Declined | Done::Left)) => "declined",
                    _ => "revoked",
                };
                (chip, Some(("", frame.when(mark.at))))
            }
        };
        Self {
            entry: began.entry,
            offer: began.offer.as_ref().map(|offer| offer.id),
            name: who(began),
            how: format!("{}, {by}", after(turn.lag)),
            chip,
            from: frame.when(began.step.at),
            ends,
        }
    }
}

impl ReleasePage {
    fn heading(&self) -> String {
        match self.release.names.as_slice() {
            [one] if self.release.places.len() == 1 => format!("{} came back", isolated(one)),
            _ => {
                format!("{} came back", places(i64::try_from(self.release.places.len()).unwrap_or(i64::MAX)))
            }
        }
    }

    /// The answer: from where, and what came of it.
    fn answer(&self) -> String {
        let [story] = self.stories.as_slice() else {
            let count =
                |is: fn(&EndStory) -> bool| self.stories.iter().filter(|story| is(&story.end)).count();
            let booked = count(|end| matches!(end, EndStory::Accepted | EndStory::Booked(..)));
            let kept = count(|end| matches!(end, EndStory::Kept));
            let open = count(|end| matches!(end, EndStory::Open(_)));
            let shown = self.stories.len();
            let of = if self.left_out() > 0 { format!("Of the first {shown}: ") } else { String::new() };
            return format!("{of}{booked} booked, {kept} kept for an answer, {open} open.");
        };
        let turns = story.turns.len();
        let offers = if turns == 1 { "the first offer".to_owned() } else { format!("offer number {turns}") };
        match (&story.end, story.turns.last()) {
            (EndStory::Accepted, Some(turn)) => format!("{} has it, by {offers}.", isolated(&turn.name)),
            (EndStory::Kept, Some(turn)) => {
                let until = turn.ends.as_ref().map_or_else(String::new, |(_, when)| {
                    format!(" until {}, {}", when.absolute, when.relative)
                });
                format!("It is kept for {}{until}: {offers}.", isolated(&turn.name))
            }
            (EndStory::Booked(name, _), _) => {
                format!("It was booked by {}, without an offer.", isolated(name))
            }
            (EndStory::Retired(_), _) => "It was taken out of the event.".to_owned(),
            (EndStory::Open(since), _) => format!("It is open, since {}. {}", since.short, self.now),
            (EndStory::Accepted | EndStory::Kept, None) => String::new(),
        }
    }

    fn why(&self) -> String {
        why(&self.release)
    }

    fn by(&self) -> String {
        words::doer(&self.release.by)
    }

    fn at(&self) -> When {
        self.frame.when(self.release.at)
    }

    fn source(&self) -> Option<String> {
        match &self.release.source {
            Source::Offer(offer) => Some(self.frame.path(format!("/offers/{offer}"))),
            Source::Booking { reference } => {
                Some(self.frame.path(format!("/bookings?state=cancelled&q={reference}")))
            }
            Source::Added | Source::Other => None,
        }
    }

    fn left_out(&self) -> usize {
        self.release.places.len() - self.stories.len()
    }

    /// How the first pass after it ended, and how long after.
    fn look(&self, pass: &PassRecord) -> String {
        let sentence = words::pass(pass.outcome, pass.offered);
        let version = pass.policy_version;
        if pass.at < self.release.at {
            return format!(
                "The next look at the line ended as the ones before: {sentence} (rule, version {version})."
            );
        }
        let lag = after(pass.at - self.release.at);
        format!("The next look at the line came {lag}: {sentence} (rule, version {version}).")
    }

    fn passed_over(set: &PassedOver) -> String {
        match set.reason {
            SkipReason::DoesNotFit { more_than } => format!(
                "Passed over, as the rule says: whoever ahead of the last of them wanted more than {}.",
                places(more_than)
            ),
            SkipReason::DoesNotMatch { .. } => {
                "Passed over, as the rule says: whoever ahead of the last of them wants \
                                                other kinds of places, or more of them than were left."
                    .to_owned()
            }
            SkipReason::DeclinedThese { .. } => {
                "Passed over: whoever ahead of the last of them had said no to these places before."
                    .to_owned()
            }
        }
    }

    fn called(&self) -> bool {
        self.offers.first().is_some_and(|offer| offer.kind == OfferKind::Call)
    }

    fn more_offers(&self) -> i64 {
        let shown = i64::try_from(self.offers.len()).unwrap_or(0);
        self.pass.as_ref().map_or(0, |pass| i64::from(pass.offered) - shown)
    }

    fn joined(&self, offer: &PassOffer) -> When {
        self.frame.when(offer.joined_at)
    }

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "templates lend what they pass")]
    fn party(party: &i32) -> String {
        places(*party)
    }
}

async fn show(
    State(state): State<WebState>,
    staff: Staff,
    Path((event, release)): Path<(EventId, ReleaseId)>,
) -> Result<Page<ReleasePage>, Error> {
    staff.require(Act::See)?;
    let event = staff.event(&state, event).await?;
    let release = state.db.release(event.id, release).await?;
    let told: Vec<PlaceId> = release.places.iter().copied().take(PLACES).collect();
    let steps = state.db.place_steps(event.id, &told, Some(release.at), RECORDS).await?;
    let pass = state.db.first_pass_since(event.id, release.at).await?;
    let number = pass.map_or(0, |pass| pass.number);
    let offers = state.db.offers_of_pass(event.id, number, OFFERS).await?;
    let passed_over = state.db.passed_over_by(event.id, number, OFFERS).await?;
    let policy = state.db.policy(event.id).await?;
    let now = Line::read(&state, &event, &policy, staff.now).await?.sentence();
    let frame = EventFrame::new(event, Tab::Places, staff.now);
    let stories = steps
        .chunk_by(|one, next| one.place == next.place)
        .filter_map(|steps| PlaceStory::new(&frame, steps.first()?.place, steps))
        .collect();
    Ok(Page(ReleasePage {
        layout: staff.event_layout(&frame.event, "What became of it").await?.live(30),
        frame,
        release,
        pass,
        offers,
        passed_over,
        stories,
        now,
    }))
}
