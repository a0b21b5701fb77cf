//! Bounds of what clients can make a coordinator of transactions keep.

/// Longest transactional id, in bytes. Kafka has no bound but the protocol's; each id is kept in memory and in the log.
pub(crate) const TRANSACTIONAL_ID_BYTES_MAX: usize = 4096;

/// Partitions of one transaction. Each addition writes the whole set to the log, so many cost much; a set of this size
/// takes about 1 MB of memory.
pub(crate) const PARTITIONS_PER_TRANSACTION_MAX: usize = 10_000;

/// Requests that may wait for a transaction's markers, per coordinator. Further ones are refused with
/// CONCURRENT_TRANSACTIONS, upon which clients try again.
pub(crate) const WAITING_MAX: usize = 1000;
