//! Unmodified librdkafka, the C client that most languages' clients are built on, against a server in this
//! process. One binary, for the same reason as `kafka`.

#[path = "../common/mod.rs"]
mod common;
mod compaction;
mod consumer_protocol;
mod groups;
mod records;
mod transactions;
