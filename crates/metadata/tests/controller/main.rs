//! The controller and its settings, without a server.

mod access_model;
mod access_records;
mod access_rig;
mod access_users;
mod account_claims;
mod acls;
mod captured_subjects;
mod client_quotas;
mod cluster_leaders;
mod cluster_nodes;
mod cluster_rig;
mod cluster_settings;
mod controller_refusals;
mod feature_levels;
mod group_settings;
mod metadata_replay;
mod partition_replicas;
mod streams;
mod tokens;
