//! What a topic's configuration says of appends.

use tailrace_records::TimestampType;

/// When a topic's records count as committed; docs/guarantees.md tells what each promises.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Durability {
    /// The high watermark is what is on stable storage; every append schedules a sync.
    Strict,
    /// The high watermark is the log end. Syncs happen after that many records, or milliseconds, if at all.
    Relaxed {
        /// Records appended since the last sync that make the next one due.
        flush_messages: Option<u64>,
        /// Age in milliseconds of the oldest unsynced record that makes the next sync due.
        flush_ms: Option<i64>,
    },
}

/// The part of a topic's configuration that decides about appends. It may change at run time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Policy {
    /// See [`Durability`].
    pub durability: Durability,
    /// Milliseconds after which a silent producer is forgotten (`producer.id.expiration.ms`).
    pub producer_expiration_ms: i64,
    /// What the timestamps of markers are, as those of records are (`message.timestamp.type`).
    pub timestamp_type: TimestampType,
}
