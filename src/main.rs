//! The command line; no logic.
fn main() {}
