//! Logins with keys from a web server, the pages, the audit log, and that no secret is told anywhere. A
//! binary of its own, because it looks at all that the process logs.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod audit;
mod audit_changes;
mod audit_topic;
#[path = "../common/mod.rs"]
mod common;
mod key_endpoint;
mod listener;
mod nats_secrets;
mod pages;
mod secrets;
mod tls_attacks;
mod token_secrets;
