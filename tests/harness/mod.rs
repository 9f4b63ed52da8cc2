//! What all tests share: a database each, and the servers, proxies and browsers around the program.
//!
//! Included by each of the test binaries (`tests/waitlist`, `tests/web`, `tests/commands`), which use it in part.

pub mod booking_service;
pub mod browser;
pub mod database;
pub mod desk;
pub mod patience;
pub mod program;
pub mod proxy;
pub mod race;
pub mod receiver;
pub mod report;
pub mod sample;
pub mod site;
pub mod smtp;
pub mod tls;
pub mod visitor;
pub mod world;
