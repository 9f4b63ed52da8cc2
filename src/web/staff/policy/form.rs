//! The form of a rule: what is typed, read into a policy, each problem at its field.

use chrono::Duration;
use chrono_tz::Tz;
use serde::Deserialize;

use super::super::super::page::Errors;
use crate::domain::contact::is_plain_line;
use crate::domain::policy::{
    After, Beacon, Draws, Fit, Mode, Ordering, Policy, PolicyError, PositionShown, Telling,
};
use crate::domain::when;

/// What the form holds. A setting that this form does not know is refused by name.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct PolicyForm {
    pub(super) ordering: String,
    pub(super) window: String,
    pub(super) unit: String,
    pub(super) batch_size: String,
    pub(super) fit: String,
    pub(super) after_expiry: String,
    pub(super) after_decline: String,
    pub(super) silence_limit: String,
    pub(super) telling: String,
    pub(super) list_cap: String,
    pub(super) party_limit: String,
    pub(super) person_limit: String,
    pub(super) position_shown: String,
    pub(super) reason: String,
    pub(super) note: String,
    pub(super) form_version: String,
    pub(super) bands: String,
    pub(super) bands_shown: String,
    pub(super) draws: String,
    pub(super) draw_at: String,
    pub(super) beacon: String,
    /// Only to be shown what it would do.
    pub(super) example: String,
    pub(super) mode: String,
    pub(super) cutoff: String,
}

impl PolicyForm {
    pub(super) fn of(policy: &Policy, form_version: i32, zone: Tz) -> Self {
        let (window, unit) = match policy.window {
            None => (String::new(), "hours"),
            Some(window) if window.num_minutes() % 1_440 == 0 => (window.num_days().to_string(), "days"),
            Some(window) if window.num_minutes() % 60 == 0 => (window.num_hours().to_string(), "hours"),
            Some(window) => (window.num_minutes().to_string(), "minutes"),
        };
        let number = |number: Option<i32>| number.map_or_else(String::new, |number| number.to_string());
        Self {
            window,
            unit: unit.to_owned(),
            batch_size: policy.batch_size.to_string(),
            fit: policy.fit.to_string(),
            after_expiry: policy.after_expiry.to_string(),
            after_decline: policy.after_decline.to_string(),
            silence_limit: policy.silence_limit.to_string(),
            telling: policy.telling.to_string(),
            list_cap: number(policy.list_cap),
            party_limit: number(policy.party_limit),
            person_limit: number(policy.person_limit),
            position_shown: policy.position_shown.to_string(),
            form_version: form_version.to_string(),
            ordering: policy.ordering.to_string(),
            mode: policy.mode.to_string(),
            cutoff: policy.cutoff.map_or_else(String::new, |at| when::local_field(at, zone)),
            bands: policy
                .bands
                .iter()
                .map(|band| format!("{}: {}", band.name, band.reason))
                .collect::<Vec<_>>()
                .join(
                    "
",
                ),
            bands_shown: if policy.bands_shown { "yes" } else { "" }.to_owned(),
            draws: policy.draws.as_str().to_owned(),
            draw_at: policy.draws.at().map_or_else(String::new, |at| when::local_field(at, zone)),
            beacon: policy.beacon.map_or("none", Beacon::as_str).to_owned(),
            ..Self::default()
        }
    }

    /// The rule typed; `before` is the one in force.
    pub(super) fn policy(&self, before: &Policy, zone: Tz, errors: &mut Errors) -> Option<Policy> {
        let ordering = errors.check("ordering", Ordering::parse(&self.ordering).ok_or(CHOOSE));
        let bands = self.read_bands(before, errors);
        let mode = errors.check("mode", Mode::parse(&self.mode).ok_or(CHOOSE));
        let cutoff = match self.cutoff.trim() {
            "" => Some(None),
            text => errors.check("cutoff", when::parse_local(text, zone)).map(Some),
        };
        let lottery = ordering == Some(Ordering::Lottery);
        let draws = if lottery { self.read_draws(zone, errors) } else { Some(Draws::AtNeed) };
        let beacon = match self.beacon.as_str() {
            _ if !lottery => Some(None),
            "none" | "" => Some(None),
            word => errors.check("beacon", Beacon::parse(word).ok_or(CHOOSE)).map(Some),
        };
        let window = self.read_window(errors);
        let batch_size = number("batch_size", &self.batch_size, errors);
        let silence_limit = number("silence_limit", &self.silence_limit, errors);
        let list_cap = optional("list_cap", &self.list_cap, errors);
        let party_limit = optional("party_limit", &self.party_limit, errors);
        let person_limit = optional("person_limit", &self.person_limit, errors);
        let telling = errors.check("telling", Telling::parse(&self.telling).ok_or(CHOOSE));
        let fit = errors.check("fit", Fit::parse(&self.fit).ok_or(CHOOSE));
        let after_expiry = errors.check("after_expiry", After::parse(&self.after_expiry).ok_or(CHOOSE));
        let after_decline = errors.check("after_decline", After::parse(&self.after_decline).ok_or(CHOOSE));
        let position_shown =
            errors.check("position_shown", PositionShown::parse(&self.position_shown).ok_or(CHOOSE));
        Some(Policy {
            version: before.version,
            ordering: ordering?,
            bands: bands?,
            bands_shown: !self.bands_shown.is_empty(),
            draws: draws?,
            beacon: beacon?,
            mode: mode?,
            window: window?,
            cutoff: cutoff?,
            batch_size: batch_size?,
            fit: fit?,
            after_expiry: after_expiry?,
            after_decline: after_decline?,
            silence_limit: silence_limit?,
            telling: telling?,
            list_cap: list_cap?,
            party_limit: party_limit?,
            person_limit: person_limit?,
            position_shown: position_shown?,
        })
    }

    /// A group a line: its name, a colon, and why it goes first.
    fn read_bands(&self, before: &Policy, errors: &mut Errors) -> Option<Vec<crate::domain::policy::Band>> {
        let lines = self.bands.lines().map(str::trim).filter(|line| !line.is_empty());
        let wanted: Option<Vec<(String, String)>> = lines
            .map(|line| {
                line.split_once(':').map(|(name, why)| (name.trim().to_owned(), why.trim().to_owned()))
            })
            .collect();
        let plain = |(name, why): &(String, String)| is_plain_line(name) && is_plain_line(why);
        let wanted =
            errors.check("bands", wanted.filter(|all| all.iter().all(plain)).ok_or(PolicyError::Bands))?;
        errors.check("bands", before.number_bands(wanted))
    }

    fn read_draws(&self, zone: Tz, errors: &mut Errors) -> Option<Draws> {
        match self.draws.as_str() {
            "need" | "" => Some(Draws::AtNeed),
            "staff" => Some(Draws::ByStaff),
            "at" if self.draw_at.trim().is_empty() => {
                errors.add("draw_at", "Say when the draw is to be held.");
                None
            }
            "at" => errors.check("draw_at", when::parse_local(&self.draw_at, zone)).map(Draws::At),
            _ => {
                errors.add("draws", CHOOSE);
                None
            }
        }
    }

    #[expect(clippy::option_option, reason = "an answer, if it can be read; and no window is an answer")]
    fn read_window(&self, errors: &mut Errors) -> Option<Option<Duration>> {
        if self.window.trim().is_empty() {
            return Some(None);
        }
        let amount: i64 =
            errors.check("window", self.window.trim().parse().map_err(|_| not_a_number("window")))?;
        let window = match self.unit.as_str() {
            "minutes" => Duration::try_minutes(amount),
            "hours" => Duration::try_hours(amount),
            "days" => Duration::try_days(amount),
            _ => {
                errors.add("unit", CHOOSE);
                return None;
            }
        };
        errors.check("window", window.ok_or(PolicyError::Window)).map(Some)
    }
}

const CHOOSE: &str = "Choose one of these.";

fn number(field: &'static str, text: &str, errors: &mut Errors) -> Option<i32> {
    errors.check(field, text.trim().parse().map_err(|_| not_a_number(field)))
}

/// Names what is not a number: the summary above the form shows it among others.
fn not_a_number(field: &str) -> String {
    let what = match field {
        "window" => "time to answer",
        "batch_size" => "batch size",
        "silence_limit" => "number of unanswered offers",
        "list_cap" => "list’s limit",
        "person_limit" => "number of places for one person",
        _ => "largest party",
    };
    format!("The {what} must be a whole number.")
}

#[expect(clippy::option_option, reason = "an answer, if it can be read; and nothing is an answer")]
fn optional(field: &'static str, text: &str, errors: &mut Errors) -> Option<Option<i32>> {
    if text.trim().is_empty() { Some(None) } else { number(field, text, errors).map(Some) }
}

/// The field at which a refusal is said.
#[must_use]
pub fn field_of(problem: PolicyError) -> &'static str {
    match problem {
        PolicyError::Window => "window",
        PolicyError::BatchSize => "batch_size",
        PolicyError::SilenceLimit => "silence_limit",
        PolicyError::ListCap => "list_cap",
        PolicyError::PartyLimit => "party_limit",
        PolicyError::PersonLimit => "person_limit",
        PolicyError::CutoffPast
        | PolicyError::CutoffCalled
        | PolicyError::CutoffWithoutStart
        | PolicyError::CutoffAfterStart
        | PolicyError::CutoffWithoutWindow => "cutoff",
        PolicyError::LotteryToAll | PolicyError::ManualToAll => "mode",
        PolicyError::DrawAfterStart => "draw_at",
        PolicyError::DrawWithoutLottery => "draws",
        PolicyError::NoBands | PolicyError::TooManyBands | PolicyError::Bands | PolicyError::BandsMoved => {
            "bands"
        }
    }
}
