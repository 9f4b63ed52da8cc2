//! The core against a real Postgres: use cases, SQL, races, faults, and the shape of the project itself.

#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "each test binary uses its part of the harness")]
mod harness;

mod accept_faults;
mod booking;
mod calls;
mod cases;
mod cells;
mod check;
mod check_attempts;
mod demonstration;
mod edges;
mod faults;
mod feed;
mod import;
mod limits;
mod locked_event;
mod mail;
mod main_job;
mod migrations;
mod orders;
mod proxy;
mod races;
mod schema;
mod service_faults;
mod sets;
mod simulation;
mod since;
mod smtp;
mod structure;
mod walk;
mod wants;
mod webhooks;
