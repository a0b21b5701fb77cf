//! Limits on the memory that clients can make a transaction coordinator use.

/// Maximum length of a transactional id, in bytes. Kafka has no limit but the protocol's. Each id is stored
/// in memory and in the log.
pub(crate) const TRANSACTIONAL_ID_BYTES_MAX: usize = 4096;

/// Maximum number of partitions of one transaction. Each addition writes the whole set to the log, so large
/// sets are expensive. A set of this size takes about 1 MB of memory.
pub(crate) const PARTITIONS_PER_TRANSACTION_MAX: usize = 10_000;

/// Maximum number of requests per coordinator that may wait for a transaction's markers. Further ones are
/// refused with CONCURRENT_TRANSACTIONS, and clients retry.
pub(crate) const WAITING_MAX: usize = 1000;
