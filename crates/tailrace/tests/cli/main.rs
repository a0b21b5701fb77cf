//! The built binary, as a server and as its own client.

mod acls;
mod administration;
mod cluster;
mod cluster_admin;
mod cluster_damage;
mod cluster_repair;
mod config;
mod cut_short;
mod fake_admin;
mod full_disk;
mod groups;
mod large_input;
mod logins;
mod names;
mod nats_cluster;
mod nats_verbs;
mod offline;
mod quotas;
mod round_trip;
mod scrub;
mod serve;
#[path = "../support/mod.rs"]
mod support;
mod tls;
mod topics;
mod transactions;
mod users;
