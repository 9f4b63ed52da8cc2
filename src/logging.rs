//! The program's log on standard error: lines for people on a terminal, JSON elsewhere.

use std::fmt;
use std::io::{IsTerminal as _, stderr};

use tracing_subscriber::filter::EnvFilter;
use tracing_subscriber::fmt::format::Writer;
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::util::SubscriberInitExt as _;

use crate::clock::Clock;
use crate::config::{LogFormat, LogLevel};
use crate::traces::Traces;

/// Begins to log, and to trace; returns whether the log is for people.
pub fn begin(format: LogFormat, level: LogLevel, traces: Option<&Traces>) -> bool {
    let human = match format {
        LogFormat::Human => true,
        LogFormat::Json => false,
        LogFormat::Auto => stderr().is_terminal(),
    };
    // Postgres's notices ("already exists, skipping") are no news; nor are the tries of a download, whose end is told.
    // The check of where posts come from would name the whole address, which may hold a token; what it refuses we tell
    // ourselves.
    let filter = EnvFilter::new(format!(
        "{},sqlx::postgres::notice=error,reqwest_retry=error,tower_http=off",
        level.directive()
    ));
    // The filter is everybody's, not a layer's: a layer's remembers what sqlx only asked about, and then swallows
    // the next line.
    let spans = traces.map(|traces| {
        tracing_opentelemetry::layer().with_tracer(traces.tracer()).with_location(false).with_threads(false)
    });
    let registry = tracing_subscriber::registry().with(filter).with(spans);
    let lines = tracing_subscriber::fmt::layer().with_writer(stderr);
    let begun = if human {
        let lines = lines.with_ansi(stderr().is_terminal()).with_target(false).with_timer(TimeOfDay);
        registry.with(lines).try_init()
    } else {
        registry.with(lines.json().flatten_event(true)).try_init()
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
