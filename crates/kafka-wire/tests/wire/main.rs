//! Messages on the wire. All tests are in one binary, so that the description of the messages is compiled
//! once.
//!
//! `schema_data` has the content of Kafka's definitions. `vectors` makes random encodings from it,
//! independently of the library. The other modules compare the library with them.

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
mod secrets;
mod vectors;
