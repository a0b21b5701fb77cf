//! The controller and its settings, without a server.

mod captured_subjects;
mod cluster_leaders;
mod cluster_nodes;
mod cluster_rig;
mod cluster_settings;
mod controller_refusals;
mod feature_levels;
mod group_settings;
mod metadata_replay;
mod partition_replicas;
