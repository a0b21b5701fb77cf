//! Transactions over the plain protocol: both versions of it, repetitions and delays, fences, timeouts, restarts.

mod admin;
mod client;
mod epochs;
mod fences;
mod protocols;
mod reading;
mod verification;
