//! The part of a topic's configuration that governs appends.

use tailrace_records::TimestampType;

/// When a topic's records count as committed. docs/guarantees.md describes what each variant promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The high watermark is the end of what is on stable storage. Every append schedules a sync.
    Strict,
    /// The high watermark is the log end. A sync follows after a number of records or milliseconds, if
    /// configured.
    Relaxed {
        /// Records appended since the last sync that make the next one due.
        flush_messages: Option<u64>,
        /// Age in milliseconds of the oldest unsynced record that makes the next sync due.
        flush_ms: Option<i64>,
    },
}

/// The part of a topic's configuration that governs appends. It may change at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// See [`Durability`].
    pub durability: Durability,
    /// Milliseconds of silence after which a producer is forgotten (`producer.id.expiration.ms`).
    pub producer_expiration_ms: i64,
    /// The timestamp type of records, which markers follow too (`message.timestamp.type`).
    pub timestamp_type: TimestampType,
}
