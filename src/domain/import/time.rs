//! When somebody joined: the wall clock of the event's zone, or an instant with its offset.

use chrono::offset::LocalResult;
use chrono::{DateTime, Duration, NaiveDate, NaiveDateTime, NaiveTime, Offset, TimeZone, Utc};
use chrono_tz::Tz;

/// A local time that names no instant, or two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ClockChange {
    /// The clock was put back: the time came twice, and the first is taken.
    Doubled,
    /// The clock was put forward over it: the time is read as if it had not been.
    Skipped,
}

/// Why a time was refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TimeError {
    /// No time where there must be one.
    #[error("It has no time of joining, so its place in the line is not known.")]
    Missing,
    /// In none of the forms understood.
    #[error(
        "Its time of joining is not like 2026-11-02 10:00:00, 2026-11-02T10:00:00+01:00 or 02.11.2026 10:00."
    )]
    Unreadable,
    /// Before 1990 or after 2200.
    #[error("Its time of joining is not in this age.")]
    Implausible,
}

const LOCAL_FORMS: [&str; 6] = [
    "%Y-%m-%d %H:%M:%S%.f",
    "%Y-%m-%dT%H:%M:%S%.f",
    "%Y-%m-%d %H:%M",
    "%Y-%m-%dT%H:%M",
    "%d.%m.%Y %H:%M:%S",
    "%d.%m.%Y %H:%M",
];
const OFFSET_FORMS: [&str; 2] = ["%Y-%m-%d %H:%M:%S%.f%:z", "%Y-%m-%d %H:%M%:z"];
const DATE_FORMS: [&str; 2] = ["%Y-%m-%d", "%d.%m.%Y"];

/// The instant `text` names in `zone`, and whether a clock change made it doubtful. A date alone is its first
/// minute. Dates with slashes are refused: 11/02 is two days.
pub(super) fn instant(text: &str, zone: Tz) -> Result<(DateTime<Utc>, Option<ClockChange>), TimeError> {
    let text = text.trim();
    if text.is_empty() {
        return Err(TimeError::Missing);
    }
    let with_offset = DateTime::parse_from_rfc3339(text).or_else(|error| {
        OFFSET_FORMS.iter().find_map(|form| DateTime::parse_from_str(text, form).ok()).ok_or(error)
    });
    let (instant, change) = if let Ok(instant) = with_offset {
        (instant.to_utc(), None)
    } else {
        let local = LOCAL_FORMS
            .iter()
            .find_map(|form| NaiveDateTime::parse_from_str(text, form).ok())
            .or_else(|| {
                let day = DATE_FORMS.iter().find_map(|form| NaiveDate::parse_from_str(text, form).ok())?;
                Some(day.and_time(NaiveTime::MIN))
            })
            .ok_or(TimeError::Unreadable)?;
        in_zone(local, zone).ok_or(TimeError::Implausible)?
    };
    let from = NaiveDate::from_ymd_opt(1990, 1, 1).ok_or(TimeError::Implausible)?;
    let to = NaiveDate::from_ymd_opt(2200, 1, 1).ok_or(TimeError::Implausible)?;
    if (from..to).contains(&instant.date_naive()) {
        Ok((instant, change))
    } else {
        Err(TimeError::Implausible)
    }
}

fn in_zone(local: NaiveDateTime, zone: Tz) -> Option<(DateTime<Utc>, Option<ClockChange>)> {
    match zone.from_local_datetime(&local) {
        LocalResult::Single(instant) => Some((instant.to_utc(), None)),
        LocalResult::Ambiguous(first, _) => Some((first.to_utc(), Some(ClockChange::Doubled))),
        // The offset in force before the gap; a zone that changed its side of the date line skipped a day.
        LocalResult::None => (1..=25).find_map(|hours| {
            let before = local.checked_sub_signed(Duration::hours(hours))?;
            let offset = zone.offset_from_local_datetime(&before).earliest()?.fix();
            let instant = local.checked_sub_offset(offset)?.and_utc();
            Some((instant, Some(ClockChange::Skipped)))
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn berlin(text: &str) -> Result<(String, Option<ClockChange>), TimeError> {
        instant(text, chrono_tz::Europe::Berlin).map(|(at, change)| (at.to_rfc3339(), change))
    }

    #[test]
    fn the_wall_clock_of_the_zone_or_an_offset_names_the_instant() {
        let ten = Ok(("2026-11-02T09:00:00+00:00".to_owned(), None));
        for text in [
            "2026-11-02 10:00:00",
            " 2026-11-02T10:00 ",
            "02.11.2026 10:00",
            "2026-11-02T10:00:00+01:00",
            "2026-11-02 09:00:00+00:00",
            "2026-11-02T09:00:00Z",
        ] {
            assert_eq!(berlin(text), ten, "{text}");
        }
        assert_eq!(berlin("2026-07-01").expect("a day").0, "2026-06-30T22:00:00+00:00");
    }

    #[test]
    fn times_that_a_clock_change_doubles_or_skips_are_named() {
        let doubled = Some(ClockChange::Doubled);
        assert_eq!(berlin("2027-10-31 02:30:00"), Ok(("2027-10-31T00:30:00+00:00".to_owned(), doubled)));
        let skipped = Some(ClockChange::Skipped);
        assert_eq!(berlin("2027-03-28 02:30:00"), Ok(("2027-03-28T01:30:00+00:00".to_owned(), skipped)));
        assert_eq!(berlin("2027-10-31T02:30:00+01:00").expect("exact").1, None);
        // Samoa had no 30 December 2011.
        let (at, change) = instant("2011-12-30 12:00", chrono_tz::Pacific::Apia).expect("read");
        assert_eq!((at.to_rfc3339(), change), ("2011-12-30T22:00:00+00:00".to_owned(), skipped));
    }

    #[test]
    fn other_times_are_refused() {
        assert_eq!(berlin(" "), Err(TimeError::Missing));
        for text in ["11/02/2026", "yesterday", "2026-13-01", "2026-11-02 25:00", "10:00"] {
            assert_eq!(berlin(text), Err(TimeError::Unreadable), "{text}");
        }
        for text in ["0001-01-01", "1899-12-30 00:00", "9999-12-31 23:59:59"] {
            assert_eq!(berlin(text), Err(TimeError::Implausible), "{text}");
        }
    }
}
