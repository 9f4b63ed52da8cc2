//! The program as a black box: its commands, its exit codes, what it says.

#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "each test binary uses its part of the harness")]
mod harness;

mod backup;
mod check;
mod import;
mod kills;
mod migrations;
mod private_server;
mod program;
mod secrets;
mod settings;
mod staff;
mod tls;
mod traces;
mod verify;
