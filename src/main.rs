//! The command line; no logic.

use std::process::ExitCode;

use fairlist::{commands, config, logging};

fn main() -> ExitCode {
    let cli = config::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let traces = cli.common.traces();
    let human =
        logging::begin(cli.common.log, cli.common.log_level, traces.as_ref().ok().and_then(Option::as_ref));
    // Dropped at the end, when the runtime is gone and everything is told.
    let _traces = match traces {
        Ok(traces) => traces,
        Err(problem) => return complain(&problem, human),
    };
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(problem) => return complain(&problem, human),
    };
    runtime.block_on(commands::run(cli)).unwrap_or_else(|failure| complain(&failure, human))
}

fn complain(problem: &dyn std::fmt::Display, human: bool) -> ExitCode {
    if human {
        eprintln!("Error: {problem}");
    } else {
        tracing::error!("{problem}");
    }
    ExitCode::FAILURE
}
