//! Fairlist: a waitlist that makes the next offer clear, proves that it was fair, and never promises one
//! place twice. The README has the words, states, rule and laws; this is the map of the crate.
//!
//! ```text
//! main, commands   the command line: serve, demo, import, check, verify …
//! config, logging  settings from flags and environment; log lines
//! web              pages: staff, customer; the API for other programs; what every request passes through
//! workers          loops that run passes, sweep what is due, send messages
//! waitlist         the use cases, a function per act: join, pass, accept, revoke, release …
//! booking          the port to where places are booked: the ledger here, or a service over HTTP
//! messages         the outbox, SMTP, the mailbox page, a template per occasion
//! webhooks         transitions sent to endpoints of other systems
//! db               the only SQL; `LockedEvent`, the private Postgres, the invariants
//! domain           pure rules: allocation, draws, state machines, audit chain, names and instants
//! metrics, traces  what operators watch, counted as it happens; spans for OpenTelemetry
//! tls              whose certificates are believed in servers that we call
//! failpoint        where tests kill the program; nothing in release builds
//! clock            where time and randomness come from
//! ```
//!
//! Imports go down this list, never up. The way of a place through the program:
//!
//! 1. [`waitlist::bookings`] cancels a booking: under the event's lock the place opens, a release is recorded, and a
//!    pass is requested.
//! 2. [`workers::passes`] leases the request and calls [`waitlist::pass`], which ends what is due, asks
//!    [`domain::allocation`] who gets what, and writes offers, places, entries, messages and audit records as sets.
//!    Under a lottery [`waitlist::draws`] ranks people first; where everybody is called, [`waitlist::calls`] takes over.
//! 3. [`messages`] sends the offer; its link leads to the customer's page in [`web`].
//! 4. [`waitlist::together`] decides answers that arrive together in one transaction of [`waitlist::answer`].
//!
//! Everything that writes an event's data does it through [`db::LockedEvent`]: a transaction whose first statement
//! locked the event row.

// Templates name what they use by the crate's own name, wherever the page's struct lives.
extern crate self as fairlist;

pub mod booking;
pub mod clock;
pub mod commands;
pub mod config;
pub mod db;
pub mod domain;
mod failpoint;
pub mod logging;
pub mod messages;
pub mod metrics;
pub mod tls;
pub mod traces;
pub mod waitlist;
pub mod web;
pub mod webhooks;
pub mod workers;
