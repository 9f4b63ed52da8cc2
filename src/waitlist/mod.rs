//! Use cases: a function for each act.

pub mod import;
