//! The requests of the Kafka protocol: one file per API, each from decoded request to response.
//!
//! This crate reads the header, refuses what is not served, and passes the body to the file of its API. Every
//! request passes through `Context`, whose session identifies the client. The handlers ask `rights` what the
//! client may do, before they look at anything that it might not be allowed to see.
//!
//! # Traps
//!
//! * `Produce` is advertised from version 0, although 0 to 2 are refused. Otherwise librdkafka sends
//!   uncompressed data (KAFKA-18659).
//! * A null records field in a Fetch answer is encoded as empty, because librdkafka treats null as an error.
//! * The outbox sends a header with `MSG_MORE` when a file follows. Otherwise the client wakes up twice.
//! * The time that a client waits for request memory does not count towards its read timeout.

mod acls;
mod add_offsets_to_txn;
mod add_partitions_to_txn;
mod alter_configs;
mod alter_partition_reassignments;
mod alter_share_group_offsets;
mod api_versions;
mod audited;
mod bindings;
mod came_by;
mod client_quotas;
mod closed;
mod closest_replica;
mod commands;
mod config_resources;
pub(crate) mod connection;
mod consumer_group_describe;
mod consumer_group_heartbeat;
mod context;
mod create_partitions;
mod create_topics;
mod decide;
mod delegation_tokens;
mod delete_groups;
mod delete_records;
mod delete_share_group_offsets;
mod delete_topics;
mod describe_cluster;
mod describe_configs;
mod describe_groups;
mod describe_log_dirs;
mod describe_producers;
mod describe_quorum;
mod describe_share_group_offsets;
mod describe_topic_partitions;
mod describe_transactions;
mod dispatch;
mod elect_leaders;
mod end_txn;
mod errors;
mod explain;
mod feature_gate;
mod fetch;
mod fetch_session;
mod find_coordinator;
mod groups;
mod half_read;
mod heartbeat;
mod high_watermarks;
mod incremental_alter_configs;
mod init_producer_id;
mod join_group;
mod leader_hints;
mod leave_group;
mod list_config_resources;
mod list_groups;
mod list_offsets;
mod list_partition_reassignments;
mod list_transactions;
mod listener;
mod login;
mod lookup;
mod metadata;
mod metrics;
mod moved_groups;
mod offset_commit;
mod offset_delete;
mod offset_fetch;
mod offset_for_leader_epoch;
mod outbox;
mod partition_read;
mod produce;
mod replicas;
mod rights;
mod scram_credentials;
mod served;
mod server;
mod session;
mod share_acknowledge;
mod share_acknowledgements;
mod share_fetch;
mod share_group_describe;
mod share_group_heartbeat;
mod share_group_states;
mod sync_group;
pub(crate) mod topology;
mod transactions;
mod transport;
mod txn_offset_commit;
mod unregister_broker;
mod update_features;
mod work;
mod write_txn_markers;

pub use fetch_session::FetchSessions;
pub use listener::serve;
pub use metrics::KafkaMetrics;
pub use served::api_name;
pub use server::{KafkaServer, LOGIN_MEMORY_BYTES, Limits};
