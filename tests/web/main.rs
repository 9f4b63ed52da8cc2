//! Journeys through the real router, and in a real browser.

#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "each test binary uses its part of the harness")]
mod harness;

mod browser;
mod customer;
mod foundation;
mod import;
mod mail;
mod outages;
mod probe;
mod routes;
mod script;
mod staff_offers;
mod staff_queue;
mod staff_roles;
