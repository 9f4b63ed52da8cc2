//! A small plot of counts that grow over time, as an SVG without colours of its own: its classes have them.

use std::fmt::Write as _;

use chrono::{DateTime, Utc};
use chrono_tz::Tz;

/// The picture is so wide and high, in units of its own; it grows and shrinks with the page.
const WIDTH: i32 = 400;
const HEIGHT: i32 = 210;

/// Where the axes are.
const LEFT: i32 = 36;
const RIGHT: i32 = WIDTH - 10;
const TOP: i32 = 26;
const BOTTOM: i32 = HEIGHT - 26;

/// A line across, with what it counts.
pub(super) struct Tick {
    /// How many.
    pub(super) count: usize,
    /// Where.
    pub(super) y: i32,
}

/// One of the counts.
pub(super) struct Line {
    /// What it is, in the legend.
    pub(super) words: &'static str,
    /// Its class: colour, width and dashes.
    pub(super) class: &'static str,
    /// The `d` of its path.
    pub(super) d: String,
}

/// The plot.
pub(super) struct Plot {
    /// The same in words.
    pub(super) words: String,
    /// The lines, the last on top.
    pub(super) lines: Vec<Line>,
    /// The counts along the left.
    pub(super) ticks: Vec<Tick>,
    /// The first and the last day, below; with the time where they are one.
    pub(super) days: [String; 2],
}

impl Plot {
    /// Of counts between two instants; each instant of a line adds one to it.
    pub(super) fn of(
        words: String,
        (from, to): (DateTime<Utc>, DateTime<Utc>),
        zone: Tz,
        counts: &[(&'static str, &'static str, &[DateTime<Utc>])],
    ) -> Self {
        let most = counts.iter().map(|(.., instants)| instants.len()).max().unwrap_or(0).max(1);
        let step = step(most);
        let top = most.div_ceil(step) * step;
        let y = |count: usize| BOTTOM - scaled(count, top, BOTTOM - TOP);
        let length = usize::try_from((to - from).num_seconds()).unwrap_or(0).max(1);
        let x = |at: DateTime<Utc>| {
            let since = usize::try_from((at - from).num_seconds()).unwrap_or(0).min(length);
            LEFT + scaled(since, length, RIGHT - LEFT)
        };
        let lines = counts
            .iter()
            .map(|(words, class, instants)| Line { words, class, d: path(instants, &x, &y) })
            .collect();
        let written = |at: DateTime<Utc>, format| at.with_timezone(&zone).format(format).to_string();
        let days = [from, to].map(|at| written(at, "%-d %b %Y"));
        let times = [from, to].map(|at| written(at, "%-d %b %Y, %H:%M"));
        let ticks = (0..=top / step).map(|n| Tick { count: n * step, y: y(n * step) }).collect();
        Self { words, lines, ticks, days: if days[0] == days[1] { times } else { days } }
    }

    pub(super) fn view_box() -> String {
        format!("0 0 {WIDTH} {HEIGHT}")
    }

    pub(super) fn left() -> i32 {
        LEFT
    }

    pub(super) fn right() -> i32 {
        RIGHT
    }

    pub(super) fn below() -> i32 {
        HEIGHT - 8
    }
}

/// `part` of `whole`, as a part of `size`.
fn scaled(part: usize, whole: usize, size: i32) -> i32 {
    let part = i64::try_from(part).unwrap_or(i64::MAX).saturating_mul(i64::from(size));
    i32::try_from(part / i64::try_from(whole.max(1)).unwrap_or(i64::MAX)).unwrap_or(size)
}

/// 1, 2 or 5 times a power of ten: four or five lines across at the most.
fn step(most: usize) -> usize {
    let mut ten = 1;
    loop {
        for step in [ten, 2 * ten, 5 * ten] {
            if most <= 5 * step {
                return step;
            }
        }
        ten *= 10;
    }
}

/// Steps that go up at each instant; what falls on the same spot is one step, so that the path has a bounded length.
fn path(instants: &[DateTime<Utc>], x: &impl Fn(DateTime<Utc>) -> i32, y: &impl Fn(usize) -> i32) -> String {
    let mut d = format!("M{LEFT} {}", y(0));
    let mut instants = instants.iter().enumerate().peekable();
    while let Some((index, at)) = instants.next() {
        let here = x(*at);
        let mut count = index + 1;
        while let Some((index, _)) = instants.next_if(|(_, next)| x(**next) == here) {
            count = index + 1;
        }
        // Writing to a string never fails.
        let _ = write!(d, "H{here}V{}", y(count));
    }
    let _ = write!(d, "H{RIGHT}");
    d
}

#[cfg(test)]
mod tests {
    use chrono::Duration;

    use super::*;

    #[test]
    fn counts_go_up_in_steps_within_the_axes() {
        let at = |hour: i64| DateTime::UNIX_EPOCH + Duration::hours(hour);
        let instants = [at(0), at(5), at(5), at(10)];
        let plot =
            Plot::of("words".to_owned(), (at(0), at(10)), chrono_tz::UTC, &[("came back", "one", &instants)]);
        assert_eq!(plot.lines[0].d, "M36 184H36V145H213V66H390V26H390");
        let ticks: Vec<(usize, i32)> = plot.ticks.iter().map(|tick| (tick.count, tick.y)).collect();
        assert_eq!(ticks, [(0, 184), (1, 145), (2, 105), (3, 66), (4, 26)]);
        assert_eq!(plot.days, ["1 Jan 1970, 00:00", "1 Jan 1970, 10:00"]);
    }

    #[test]
    fn steps_are_round_and_a_long_line_is_short() {
        assert_eq!([1, 5, 6, 10, 11, 26, 51, 1_000].map(step), [1, 1, 2, 2, 5, 10, 20, 200]);
        let many: Vec<DateTime<Utc>> =
            (0..100_000).map(|n| DateTime::UNIX_EPOCH + Duration::seconds(n)).collect();
        let span = (many[0], many[many.len() - 1]);
        let plot = Plot::of(String::new(), span, chrono_tz::UTC, &[("", "", &many)]);
        assert!(plot.lines[0].d.len() < 5_000, "{}", plot.lines[0].d.len());
    }
}
