//! Record batches, version 2: the unit that producers send, that is stored on disk, and that consumers
//! receive.
//!
//! The crate reads, checks, builds, compresses and decompresses batches. It performs no I/O, reads no clock,
//! knows no protocol error code, and never changes its input bytes.
//!
//! A producer's batch passes [`validate`] once. After that, only its first [`PREFIX_BYTES`] bytes differ
//! between the wire and the disk, and the CRC does not cover these. All other code that reads batches uses
//! [`check`], [`split_batches`] or [`DecodedBatch`].
//!
//! ```
//! use tailrace_records::{AppendRules, BatchBuilder, BatchOptions, DecodedBatch, validate};
//! use tailrace_types::TimestampMs;
//!
//! let now = TimestampMs(1_700_000_000_000);
//! let mut builder = BatchBuilder::new(BatchOptions::default());
//! builder.push(now, Some(b"key"), Some(b"value"), &[(b"header", None)])?;
//! let validated = validate(builder.build(), &AppendRules::kafka_defaults(now))?;
//! let batch = DecodedBatch::new(&validated.bytes, 1 << 20)?;
//! assert_eq!(batch.records().next().expect("one record")?.value, Some(&b"value"[..]));
//! # Ok::<(), tailrace_records::BatchError>(())
//! ```
//!
//! # Not obvious
//! - With LogAppendTime every record has the batch's largest timestamp. The deltas still hold the producer's
//!   times.
//! - A batch's largest timestamp is not trusted. Kafka corrects a wrong one, with a new CRC, and so does
//!   [`validate`].
//! - A client may send the LogAppendTime bit to a CreateTime topic. Kafka clears it and gives each record the
//!   batch's largest timestamp. In the reverse case Kafka answers INVALID_TIMESTAMP.
//! - Any negative length of a key, value or header value means null, not only -1.
//! - Bytes after the batch that are not a complete batch are ignored, as in Kafka. A complete second batch is
//!   an error.
//! - Compaction leaves gaps. Of a stored batch only the first and last offset are certain, not the count.
//! - Control batches carry a producer id but no sequence.
//! - A last sequence wraps from the largest `i32` to 0, never to a negative number.

mod attributes;
mod builder;
mod codec;
mod compress;
mod control;
mod crc;
mod decoded;
mod error;
mod header;
pub mod internal;
mod partition;
mod raw;
mod record;
mod rewrite;
mod split;
mod validate;
mod varint;

pub use attributes::{Attributes, TimestampType};
pub use builder::{BatchBuilder, BatchOptions};
pub use codec::{Compression, UnknownCompressionName};
pub use compress::{CompressionLevels, compress, decompress};
pub use control::{ControlError, EndTransactionMarker};
pub use decoded::DecodedBatch;
pub use error::{BatchError, REJECTIONS_MAX, RecordFault, RejectReason, Rejection, Rejections};
pub use header::*;
pub use partition::partition_of_key;
pub use raw::{RawRecord, RawRecords};
pub use record::{Header, Headers, Record, RecordIter, Strictness};
pub use rewrite::{BatchRewriter, is_hole, is_lost, write_empty, write_hole, write_lost};
pub use split::{Batches, check, split_batches, verify_crc};
pub use validate::{AppendRules, Validated, validate};
