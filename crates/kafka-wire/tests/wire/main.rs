//! Messages on the wire. One binary, so that the description of all messages is compiled once.
//!
//! `schema_data` says what Kafka's definitions say. `vectors` makes random encodings from it, written independently of
//! the library, and everything else holds the library against them.

mod allocations;
mod any;
mod differential;
mod hostile;
mod kafka;
mod layout;
mod records;
mod round_trip;
mod schema;
#[rustfmt::skip] // One field a line, as it is generated.
mod schema_data;
mod vectors;
