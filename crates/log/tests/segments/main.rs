//! Segments on a real disk, including segments that Kafka wrote.

mod compaction;
mod kafka_segments;
mod real_disk;
mod roll;
