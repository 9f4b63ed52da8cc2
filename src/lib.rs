//! Fairlist: a waitlist that makes the next offer clear, proves that it was fair, and never promises one
//! place twice.

pub mod clock;
pub mod commands;
pub mod config;
pub mod db;
pub mod domain;
pub mod logging;
pub mod waitlist;
pub mod web;
