//! Batches of others and our own, whole and damaged. `bombs.rs` counts memory and is a separate binary.

mod damage;
mod group_records_as_kafka_writes_them;
mod kafka_answers;
mod produced_by_others;
mod round_trip;
