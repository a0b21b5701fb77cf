//! Logs and partitions on a simulated disk, against models. A failing test prints its seed.

mod aborted;
mod aborted_replicas;
mod checks;
mod cold;
mod committed;
mod common;
mod conversations;
mod guards;
mod hibernation;
mod log_compaction;
mod log_damage;
mod log_full_disk;
mod log_lost;
mod log_model;
mod log_table;
mod quiet;
mod replica_pacing;
mod replica_repair;
mod replica_rules;
mod replica_snapshots;
mod replica_table;
mod replicas;
mod solo;
mod storm;
mod transactions;
mod verified_reads;
