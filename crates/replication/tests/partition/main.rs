//! One partition: its producers and their transactions.

mod checkpoints;
mod kafka_transactions;
mod producers;
mod transactions;
