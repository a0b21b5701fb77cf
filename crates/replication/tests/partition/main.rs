//! The producers of one partition and their transactions.

mod checkpoints;
mod kafka_transactions;
mod producers;
mod transactions;
