//! The controller and the settings, without a server.

mod captured_subjects;
mod cluster_leaders;
mod cluster_nodes;
mod cluster_rig;
mod cluster_settings;
mod configuration_layers;
mod controller_refusals;
mod feature_levels;
mod group_settings;
mod kafka_config_facts;
mod metadata_replay;
mod partition_replicas;
