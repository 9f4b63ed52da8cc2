//! Journeys through the real router, and in a real browser.

#[path = "../harness/mod.rs"]
#[expect(dead_code, reason = "each test binary uses its part of the harness")]
mod harness;

mod api;
mod bad_input;
mod booking_service;
mod browser;
mod complaints;
mod customer;
mod foundation;
mod import;
mod journey;
mod mail;
mod outages;
mod passed_over;
mod probe;
mod routes;
mod script;
mod slow;
mod staff_audit;
mod staff_events;
mod staff_explain;
mod staff_join;
mod staff_keys;
mod staff_offers;
mod staff_places;
mod staff_queue;
mod staff_roles;
mod staff_rule;
mod staff_simulation;
mod staff_wants;
mod staff_webhooks;
mod telling;
