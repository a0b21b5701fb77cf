//! The load generator on virtual time, against a simulated system whose behaviour is fully known.
#![allow(clippy::unwrap_used, reason = "a test may fail by panicking")]

mod broken_connections;
mod interrupted;
mod known_stalls;
mod listening;
mod simulated;
mod wrong_answers;
