//! One partition: its producers and their transactions.

mod kafka_transactions;
mod producers;
mod transactions;
