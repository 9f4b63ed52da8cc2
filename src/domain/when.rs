//! Instants as people read them, in the zone of the event they belong to, and local times as people type them.

use chrono::{DateTime, Duration, LocalResult, NaiveDateTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;

/// One instant, written for a page, a mail or a cell of a table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct When {
    /// For programs: RFC 3339 in UTC.
    pub datetime: String,
    /// For the script: milliseconds since 1970.
    pub millis: i64,
    /// With the zone and the offset of that date: "Tue 30 Mar 2027, 14:05 (CEST, UTC+02:00)".
    pub absolute: String,
    /// Without the zone, where it is named nearby: "30 Mar 2027, 14:05".
    pub short: String,
    /// What the zone is called on that date: "CEST", or "UTC+05:45" where it has no name.
    pub zone: String,
    /// As seen from now: "in 23 min", "2 days ago".
    pub relative: String,
}

impl When {
    /// `instant` in `zone`, seen from `now`.
    #[must_use]
    pub fn new(instant: DateTime<Utc>, zone: Tz, now: DateTime<Utc>) -> Self {
        Self {
            datetime: instant.to_rfc3339_opts(chrono::SecondsFormat::Secs, true),
            millis: instant.timestamp_millis(),
            absolute: absolute(instant, zone),
            short: instant.with_timezone(&zone).format("%-d %b %Y, %H:%M").to_string(),
            zone: zone_names(instant, zone).0,
            relative: relative(instant, now),
        }
    }
}

/// "Tue 30 Mar 2027, 14:05 (CEST, UTC+02:00)": the offset is that of the date shown, not today's.
#[must_use]
pub fn absolute(instant: DateTime<Utc>, zone: Tz) -> String {
    let date = instant.with_timezone(&zone).format("%a %-d %b %Y, %H:%M");
    match zone_names(instant, zone) {
        (name, offset) if name == offset => format!("{date} ({offset})"),
        (name, offset) => format!("{date} ({name}, {offset})"),
    }
}

/// The zone's name on that date, and its offset: ("CEST", "UTC+02:00"). Many zones have no name of their own but
/// "+0545": there both are the offset.
fn zone_names(instant: DateTime<Utc>, zone: Tz) -> (String, String) {
    let local = instant.with_timezone(&zone);
    let offset = offset(local.offset().fix().local_minus_utc());
    let name = local.format("%Z").to_string();
    (if name.starts_with(['+', '-']) { offset.clone() } else { name }, offset)
}

/// "UTC", "UTC+05:45", "UTC−03:00" is written with a hyphen, so that it can be searched.
fn offset(seconds: i32) -> String {
    if seconds == 0 {
        return "UTC".to_owned();
    }
    let sign = if seconds < 0 { '-' } else { '+' };
    let minutes = seconds.abs() / 60;
    format!("UTC{sign}{:02}:{:02}", minutes / 60, minutes % 60)
}

/// How far `instant` lies from `now`, in at most two units, rounded down. 24 hours are a day, whatever clocks do.
#[must_use]
pub fn relative(instant: DateTime<Utc>, now: DateTime<Utc>) -> String {
    let away = instant - now;
    let length = span(if away < Duration::zero() { -away } else { away });
    match (length, away > Duration::zero()) {
        (None, true) => "in less than a minute".to_owned(),
        (None, false) => "just now".to_owned(),
        (Some(length), true) => format!("in {length}"),
        (Some(length), false) => format!("{length} ago"),
    }
}

/// A length of time in words: "23 min", "3 h 10 min", "2 days"; `None` for less than a minute.
#[must_use]
pub fn span(length: Duration) -> Option<String> {
    let minutes = length.num_minutes();
    Some(match minutes {
        ..1 => return None,
        1..60 => format!("{minutes} min"),
        60..1_440 if minutes % 60 == 0 || minutes >= 600 => format!("{} h", minutes / 60),
        60..1_440 => format!("{} h {} min", minutes / 60, minutes % 60),
        1_440..2_880 => match minutes / 60 - 24 {
            0 => "1 day".to_owned(),
            hours => format!("1 day {hours} h"),
        },
        2_880..86_400 => format!("{} days", minutes / 1_440),
        86_400..1_051_200 => format!("{} months", minutes / 43_200),
        _ => format!("{} years", minutes / 525_600),
    })
}

/// What is wrong with a local time that somebody typed. Each is a sentence for the field.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LocalTimeError {
    /// Not a date and a time.
    #[error("This is not a date and time. Write it as 2027-03-30 14:05.")]
    Unreadable,
    /// Clocks go forward over it.
    #[error(
        "{local} does not exist in {zone}: the clocks go forward that night. Choose {before} or earlier, or {after} or later."
    )]
    Skipped {
        /// What was typed.
        local: String,
        /// Where.
        zone: Tz,
        /// The last minute before the gap.
        before: String,
        /// The first minute after it.
        after: String,
    },
    /// Clocks go back over it, so that it comes twice.
    #[error(
        "{local} comes twice in {zone}: the clocks go back that night. Choose {before} or earlier, or {after} or later."
    )]
    Doubled {
        /// What was typed.
        local: String,
        /// Where.
        zone: Tz,
        /// The last minute that comes once, before.
        before: String,
        /// The first minute that comes once, after.
        after: String,
    },
}

/// The instant of a local time as forms send it ("2027-03-30T14:05") or people type it ("2027-03-30 14:05").
///
/// # Errors
/// When it cannot be read, or a change of the clocks makes it no time or two.
pub fn parse_local(text: &str, zone: Tz) -> Result<DateTime<Utc>, LocalTimeError> {
    let text = text.trim().replace('T', " ");
    let local = ["%Y-%m-%d %H:%M", "%Y-%m-%d %H:%M:%S"]
        .iter()
        .find_map(|format| NaiveDateTime::parse_from_str(&text, format).ok())
        // Years that `timestamptz`, mails and calendars all understand.
        .filter(|local| (1970..10_000).contains(&chrono::Datelike::year(local)))
        .ok_or(LocalTimeError::Unreadable)?;
    match zone.from_local_datetime(&local) {
        LocalResult::Single(instant) => Ok(instant.with_timezone(&Utc)),
        LocalResult::None => Err(LocalTimeError::Skipped {
            local: local.format("%H:%M on %-d %b %Y").to_string(),
            zone,
            before: nearest(local, zone, -1),
            after: nearest(local, zone, 1),
        }),
        LocalResult::Ambiguous(..) => Err(LocalTimeError::Doubled {
            local: local.format("%H:%M on %-d %b %Y").to_string(),
            zone,
            before: nearest(local, zone, -1),
            after: nearest(local, zone, 1),
        }),
    }
}

/// The nearest minute that exists once. No clock has ever changed by more than a day (Samoa, 2011).
fn nearest(local: NaiveDateTime, zone: Tz, step: i64) -> String {
    let found = (1..=1_500)
        .map(|minutes| local + Duration::minutes(step * minutes))
        .find(|candidate| matches!(zone.from_local_datetime(candidate), LocalResult::Single(_)))
        .unwrap_or(local);
    if found.date() == local.date() {
        found.format("%H:%M").to_string()
    } else {
        found.format("%H:%M on %-d %b").to_string()
    }
}

/// The instant that an address names by its microseconds since 1970; nonsense, and what Postgres cannot hold, is none.
#[must_use]
pub fn from_micros(text: &str) -> Option<DateTime<Utc>> {
    let micros = text.parse().ok().filter(|micros| (0..=MICROS_MAX).contains(micros))?;
    DateTime::from_timestamp_micros(micros)
}

/// The end of the year 9999.
const MICROS_MAX: i64 = 253_402_300_799_999_999;

/// Whether mails, calendars, RFC 3339 and `timestamptz` can all write it: the years 1970 to 9999.
#[must_use]
pub fn is_writable(at: DateTime<Utc>) -> bool {
    (0..=MICROS_MAX).contains(&at.timestamp_micros())
}

/// An instant as a `datetime-local` field wants it: the local time of the zone, to the minute.
#[must_use]
pub fn local_field(instant: DateTime<Utc>, zone: Tz) -> String {
    instant.with_timezone(&zone).format("%Y-%m-%dT%H:%M").to_string()
}

#[cfg(test)]
mod tests {
    use super::*;
    use chrono_tz::{Asia::Kathmandu, Europe::Berlin, UTC};

    fn at(text: &str) -> DateTime<Utc> {
        text.parse().expect("an instant")
    }

    #[test]
    fn an_instant_is_shown_in_the_events_zone_with_the_offset_of_its_date() {
        assert_eq!(absolute(at("2027-03-30T12:05:00Z"), Berlin), "Tue 30 Mar 2027, 14:05 (CEST, UTC+02:00)");
        assert_eq!(absolute(at("2027-03-27T12:05:00Z"), Berlin), "Sat 27 Mar 2027, 13:05 (CET, UTC+01:00)");
        assert_eq!(absolute(at("2027-03-30T12:05:00Z"), Kathmandu), "Tue 30 Mar 2027, 17:50 (UTC+05:45)");
        assert_eq!(absolute(at("2027-03-30T12:05:00Z"), UTC), "Tue 30 Mar 2027, 12:05 (UTC)");
    }

    #[test]
    fn both_hours_of_a_night_that_has_one_twice_can_be_told_apart() {
        assert_eq!(absolute(at("2027-10-31T00:30:00Z"), Berlin), "Sun 31 Oct 2027, 02:30 (CEST, UTC+02:00)");
        assert_eq!(absolute(at("2027-10-31T01:30:00Z"), Berlin), "Sun 31 Oct 2027, 02:30 (CET, UTC+01:00)");
    }

    #[test]
    fn the_relative_time_has_at_most_two_units_and_a_day_is_24_hours_across_a_clock_change() {
        let now = at("2027-03-27T12:00:00Z");
        for (instant, text) in [
            ("2027-03-27T12:00:00Z", "just now"),
            ("2027-03-27T12:00:59Z", "in less than a minute"),
            ("2027-03-27T12:23:59Z", "in 23 min"),
            ("2027-03-27T15:10:00Z", "in 3 h 10 min"),
            ("2027-03-27T15:00:00Z", "in 3 h"),
            ("2027-03-28T12:00:00Z", "in 1 day"),
            ("2027-03-28T15:00:00Z", "in 1 day 3 h"),
            ("2027-03-30T11:59:00Z", "in 2 days"),
            ("2027-03-27T11:37:00Z", "23 min ago"),
            ("2026-03-27T12:00:00Z", "12 months ago"),
        ] {
            assert_eq!(relative(at(instant), now), text, "{instant}");
        }
    }

    #[test]
    fn a_time_that_the_clocks_skip_is_refused_with_the_times_around_it() {
        let error = parse_local("2027-03-28T02:30", Berlin).expect_err("no such time");
        assert_eq!(
            error.to_string(),
            "02:30 on 28 Mar 2027 does not exist in Europe/Berlin: the clocks go forward that night. \
             Choose 01:59 or earlier, or 03:00 or later."
        );
        assert_eq!(parse_local("2027-03-28T01:59", Berlin), Ok(at("2027-03-28T00:59:00Z")));
        assert_eq!(parse_local("2027-03-28T03:00", Berlin), Ok(at("2027-03-28T01:00:00Z")));
    }

    #[test]
    fn a_time_that_comes_twice_is_refused_with_the_times_around_it() {
        let error = parse_local("2027-10-31 02:30", Berlin).expect_err("two such times");
        assert_eq!(
            error.to_string(),
            "02:30 on 31 Oct 2027 comes twice in Europe/Berlin: the clocks go back that night. \
             Choose 01:59 or earlier, or 03:00 or later."
        );
    }

    #[test]
    fn local_times_are_read_in_odd_zones_and_nonsense_is_not() {
        assert_eq!(parse_local("2027-03-30T17:50", Kathmandu), Ok(at("2027-03-30T12:05:00Z")));
        for nonsense in
            ["", "tomorrow", "2027-13-01T00:00", "2027-02-29T10:00", "+262143-01-01T00:00", "2027-03-30"]
        {
            assert_eq!(parse_local(nonsense, Berlin), Err(LocalTimeError::Unreadable), "{nonsense}");
        }
    }

    #[test]
    fn an_address_names_no_instant_that_the_database_cannot_hold() {
        assert_eq!(from_micros("1711800300000001"), Some(at("2024-03-30T12:05:00.000001Z")));
        for nonsense in ["", "x", "-1", "8210266876799999999", "99999999999999999999"] {
            assert_eq!(from_micros(nonsense), None, "{nonsense}");
        }
    }

    #[test]
    fn what_a_field_shows_is_read_back_as_the_same_instant() {
        let instant = at("2027-03-30T12:05:00Z");
        assert_eq!(parse_local(&local_field(instant, Berlin), Berlin), Ok(instant));
    }
}
