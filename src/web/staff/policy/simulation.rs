//! What a rule would have done with this event's own past, beside what really happened, before it is put in force.

use chrono::{DateTime, Duration, Utc};

use super::super::super::WebState;
use super::super::super::error::Error;
use super::super::frame::{are, people, places as so_many};
use super::plot::Plot;
use crate::domain::event::Event;
use crate::domain::offer::OfferKind;
use crate::domain::policy::{Draws, Mode, Ordering, Policy};
use crate::domain::simulation::{Figures, Simulation, WhyNot};
use crate::domain::standing::grouped;
use crate::domain::when::span;
use crate::waitlist::replay::{PEOPLE, RECORDS, Replayed, replay};

/// A line of the table.
pub(super) struct Row {
    /// What it counts.
    pub(super) what: &'static str,
    /// What really happened.
    pub(super) really: String,
    /// What the rule would have done.
    pub(super) replayed: String,
}

/// What the page shows of a replay.
pub(super) enum Replay {
    /// Why there is none.
    None(String),
    /// There is one.
    Shown(Box<Shown>),
}

/// A replay as the page shows it.
pub(super) struct Shown {
    /// The answer in a sentence.
    pub(super) answer: String,
    /// Places over time.
    pub(super) plot: Plot,
    /// The figures.
    pub(super) rows: Vec<Row>,
    /// What was drawn, and from what.
    pub(super) drawn: Vec<String>,
    /// What to know of this rule.
    pub(super) notes: Vec<String>,
}

impl Replay {
    /// Of the event's past until now under `policy`; `before` is the rule in force.
    pub(super) async fn of(
        state: &WebState,
        event: &Event,
        before: &Policy,
        policy: &Policy,
        now: DateTime<Utc>,
    ) -> Result<Self, Error> {
        Ok(match replay(&state.db, event, policy, now).await? {
            Replayed::Done(simulation) => {
                Self::Shown(Box::new(Shown::of(event, before, policy, &simulation)))
            }
            not => Self::None(why_not(&not).unwrap_or_default()),
        })
    }
}

/// Why nothing was replayed, in words.
#[must_use]
pub fn why_not(replayed: &Replayed) -> Option<String> {
    match replayed {
        Replayed::TooLong { people: joined, records } => Some(format!(
            "This list is too long to be replayed while you wait: {} have joined it and its record has {} lines. At most {} and \
             {} are replayed.",
            people(*joined),
            grouped(*records),
            people(PEOPLE),
            grouped(RECORDS),
        )),
        Replayed::Not(why_not) => Some(sentence(*why_not).to_owned()),
        Replayed::Done(_) => None,
    }
}

/// What to know of a replay: how much of it was drawn and from what, and what a record cannot tell of such a rule.
#[must_use]
pub fn words_of(before: &Policy, policy: &Policy, simulation: &Simulation) -> Vec<String> {
    [drawn(simulation), notes(before, policy, simulation)].concat()
}

fn sentence(why_not: WhyNot) -> &'static str {
    match why_not {
        WhyNot::NothingCameBack => {
            "No place has come back yet that the list could have had: there is nothing to replay. Places come back when \
             a booking is cancelled and when places are added."
        }
        WhyNot::TooMuch => {
            "Under this rule so many people would have been called so often that the replay takes too long for a page."
        }
        WhyNot::NobodyAnswered => {
            "No offer has ended yet, so the record cannot tell whether people accept, or how soon. As soon as one has \
             been accepted, declined or left unanswered, the past can be replayed."
        }
    }
}

fn count(n: usize) -> String {
    grouped(i64::try_from(n).unwrap_or(i64::MAX))
}

fn places(n: usize) -> String {
    so_many(i64::try_from(n).unwrap_or(i64::MAX))
}

/// "1 offer", "12 offers".
fn offers(n: usize) -> String {
    if n == 1 { "1 offer".to_owned() } else { format!("{} offers", count(n)) }
}

fn was(n: usize) -> &'static str {
    if n == 1 { "was" } else { "were" }
}

fn length(wait: Option<Duration>) -> String {
    let said = |wait| span(wait).unwrap_or_else(|| "under a minute".to_owned());
    // Kept together in a narrow column.
    wait.map_or_else(|| "–".to_owned(), |wait| said(wait).replace(' ', "\u{a0}"))
}

impl Shown {
    fn of(event: &Event, before: &Policy, policy: &Policy, simulation: &Simulation) -> Self {
        let (really, replayed) = (&simulation.really, &simulation.replayed);
        let came_back = simulation.came_back.len();
        let answer = format!(
            "{} came back. This rule would have filled {} of them through the list; really {} {} filled.",
            places(came_back),
            count(replayed.filled.len()),
            count(really.filled.len()),
            was(really.filled.len()),
        );
        let counts: [(_, _, &[DateTime<Utc>]); 3] = [
            ("came back", "plot-all", &simulation.came_back),
            ("really filled", "plot-really", &really.filled),
            ("filled by this rule", "plot-rule", &replayed.filled),
        ];
        let from = simulation.came_back.first().copied().unwrap_or(simulation.until);
        let words = format!("Places over time. {answer} The table below has the figures.");
        Self {
            plot: Plot::of(words, (from, simulation.until), event.zone, &counts),
            answer,
            rows: rows(really, replayed),
            drawn: drawn(simulation),
            notes: notes(before, policy, simulation),
        }
    }
}

fn rows(really: &Figures, replayed: &Figures) -> Vec<Row> {
    let of = |what, figure: &dyn Fn(&Figures) -> String| Row {
        what,
        really: figure(really),
        replayed: figure(replayed),
    };
    vec![
        of("Places filled through the list", &|figures| count(figures.filled.len())),
        of("Half of them filled within", &|figures| length(figures.median_wait())),
        of("The slowest filled within", &|figures| length(figures.waits.last().copied())),
        of("People offered places", &|figures| count(figures.people)),
        of("Offers made", &|figures| count(figures.offers)),
        of("… accepted", &|figures| count(figures.accepted)),
        of("… declined", &|figures| count(figures.declined)),
        of("… without an answer", &|figures| count(figures.unanswered)),
        of("… waiting for an answer in the end", &|figures| count(figures.pending)),
        of("Messages about offers", &|figures| count(figures.messages)),
    ]
}

/// What the record did not tell, and from which answers it was drawn.
fn drawn(simulation: &Simulation) -> Vec<String> {
    let made = simulation.replayed.offers;
    let mut sentences = Vec::new();
    if made > 0 && simulation.drawn == 0 {
        sentences.push(
            "Everybody whom this rule would have offered places was really offered some, and answers as they did, as long \
             after the offer: nothing is drawn."
                .to_owned(),
        );
    } else if made > 0 {
        sentences.push(format!(
            "Whoever was really offered places answers as they did, as long after the offer: so it is for {} of {} of \
             this rule. How the other {} would have been answered, and how soon, the record cannot tell: it is drawn \
             from the answers it has, with a fixed seed, so that the same rule gives the same figures.",
            count(made.saturating_sub(simulation.drawn)),
            offers(made),
            count(simulation.drawn),
        ));
    }
    for (kind, word) in [(OfferKind::Hold, "offers that kept places"), (OfferKind::Call, "calls")] {
        if !simulation.made.iter().any(|made| made.kind == kind) {
            continue;
        }
        let (of, ended) = simulation.base.drawn_for(kind);
        let all = match of {
            OfferKind::Hold => offers(ended.total()),
            OfferKind::Call if ended.total() == 1 => "1 call".to_owned(),
            OfferKind::Call => format!("{} calls", count(ended.total())),
        };
        sentences.push(format!(
            "Of {all} that ended, {} {} accepted, {} declined and {} not answered.",
            count(ended.accepted),
            was(ended.accepted),
            count(ended.declined),
            count(ended.unanswered),
        ));
        if of != kind {
            sentences.push(format!("Nothing is on record of {word}: answers to them are drawn from these."));
        }
    }
    sentences
}

fn notes(before: &Policy, policy: &Policy, simulation: &Simulation) -> Vec<String> {
    let mut notes: Vec<String> = Vec::new();
    if policy.window.is_none() {
        notes.push(
            "Nothing goes out by itself under this rule: what staff would have offered by hand cannot be told."
                .to_owned(),
        );
    } else if policy.ordering == Ordering::Manual {
        notes.push(
            "Staff pick under this rule. Here they are taken to have offered places at once and in order of arrival."
                .to_owned(),
        );
    }
    if policy.ordering == Ordering::Lottery && policy.window.is_some() {
        notes.push(match policy.draws {
            Draws::At(at) if at > simulation.until => {
                "The draw lies ahead, and before it nothing is offered.".to_owned()
            }
            _ if simulation.draws == 0 => {
                "Draws are held among those who waited then, with the secrets that the real draws revealed.".to_owned()
            }
            _ => format!(
                "Draws are held among those who waited then: {} with a fixed seed, any other with the secret that the \
                 real draw revealed.",
                count(simulation.draws)
            ),
        });
    }
    if policy.mode == Mode::Hold && policy.cutoff.is_some_and(|cutoff| cutoff > simulation.until) {
        notes.push("The final call lies ahead, and is no part of this.".to_owned());
    }
    if simulation.by_hand > 0 {
        notes.push(format!(
            "{} that staff made by hand {} left out, as the rule makes its own; what people said to them counts.",
            offers(simulation.by_hand),
            are(i64::try_from(simulation.by_hand).unwrap_or(i64::MAX)),
        ));
    }
    if simulation.taken_back > 0 {
        notes.push(format!(
            "{} {} really taken back: what would have come of {} is drawn.",
            offers(simulation.taken_back),
            was(simulation.taken_back),
            if simulation.taken_back == 1 { "it" } else { "them" },
        ));
    }
    let limits = |policy: &Policy| (policy.list_cap, policy.party_limit, policy.person_limit);
    if limits(policy) != limits(before) {
        notes.push("Who joined is taken as it was: limits on who can join are not replayed.".to_owned());
    }
    notes
}
