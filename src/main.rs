//! The command line; no logic.

use std::process::ExitCode;

use fairlist::{commands, config, logging};

fn main() -> ExitCode {
    let cli = config::parse(std::env::args_os()).unwrap_or_else(|error| error.exit());
    let human = logging::begin(cli.common.log, cli.common.log_level);
    let runtime = match tokio::runtime::Runtime::new() {
        Ok(runtime) => runtime,
        Err(problem) => return complain(&problem, human),
    };
    runtime.block_on(commands::run(cli)).unwrap_or_else(|failure| complain(&failure, human))
}

fn complain(problem: &dyn std::error::Error, human: bool) -> ExitCode {
    if human {
        eprintln!("Error: {problem}");
    } else {
        tracing::error!("{problem}");
    }
    ExitCode::FAILURE
}
