//! librdkafka, unmodified, against a server in this process: the C client that most languages' clients are built on. One binary, as for
//! `kafka`.

#[path = "../common/mod.rs"]
mod common;
mod compaction;
mod consumer_protocol;
mod groups;
mod records;
mod transactions;
