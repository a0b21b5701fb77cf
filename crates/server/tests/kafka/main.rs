//! Clients that speak the Kafka protocol plainly, against a server in this process. One binary, since each links the whole server; so no
//! module may change anything of the process: environment, limits, current folder.

mod admin;
mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod configs;
mod conversation;
mod damaged;
mod durability;
mod every_version;
mod fetch;
mod group_configs;
mod groups;
mod kafka_reads_our_groups;
mod modern_groups;
mod offsets;
mod old_format;
mod producers;
mod read_committed;
mod restart;
mod share;
mod tls;
mod topics;
mod transaction_offsets;
mod transactions;
