//! Fairlist: a waitlist that makes the next offer clear, proves that it was fair, and never promises one
//! place twice.

// Templates name what they use by the crate's own name, wherever the page's struct lives.
extern crate self as fairlist;

pub mod clock;
pub mod commands;
pub mod config;
pub mod db;
pub mod domain;
pub mod logging;
pub mod messages;
pub mod waitlist;
pub mod web;
pub mod workers;
