//! Transactions over the plain protocol: both of its versions, retries and delays, fencing, timeouts,
//! restarts.

mod admin;
mod client;
mod epochs;
mod fences;
mod protocols;
mod reading;
mod verification;
