//! A small NATS client for the verbs, over `tailrace-nats-wire`.
//!
//! It works with tailrace and with nats-server. Deliberately absent: JetStream's API, discovery of a
//! cluster's servers through INFO, and anything that outlives one run of the program.

mod address;
mod arguments;
mod connection;
mod creds;
mod error;
mod identity;
mod nkey;
mod received;
mod session;

pub(crate) use address::ServerAddress;
pub(crate) use arguments::ConnectArguments;
pub(crate) use connection::Connection;
pub(crate) use error::NatsError;
pub(crate) use received::{Incoming, Received};
pub(crate) use session::Session;
use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};

/// A unique subject for replies. The randomness comes from the standard library's hash keys.
pub(crate) fn new_inbox() -> String {
    let random = || RandomState::new().build_hasher().finish();
    format!("_INBOX.{:016x}{:016x}", random(), random())
}
