//! The rules, as pure code: no async, no HTTP, no SQL, no clock. Everything here can be tested with values.

pub mod contact;
pub mod ids;
