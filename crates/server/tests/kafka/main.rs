//! Plain clients of the Kafka protocol, against a server in this process. All of it is one binary, because
//! each binary links the whole server. Therefore no module may change the process: its environment, limits or
//! current folder.

mod admin;
mod bad_input;
#[path = "../common/mod.rs"]
mod common;
mod configs;
mod conversation;
mod damaged;
mod delegation_tokens;
mod durability;
mod every_version;
mod fetch;
mod group_configs;
mod groups;
mod kafka_reads_our_groups;
mod listeners;
mod login_attacks;
mod logins;
mod logins_by_certificate;
mod logins_by_token;
mod modern_groups;
mod offsets;
mod old_format;
mod producers;
mod quota_rates;
mod quotas;
mod read_committed;
mod restart;
mod rights;
mod share;
mod tls;
mod topics;
mod transaction_offsets;
mod transactions;
mod user_changes;
