//! Segments on a real disk, and those that Kafka wrote.

mod compaction;
mod kafka_segments;
mod real_disk;
