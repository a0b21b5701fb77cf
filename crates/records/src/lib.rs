//! Record batches, version 2: the unit that producers send, that lies on disk, and that consumers get.
//!
//! The crate reads, checks, builds and (de)compresses batches. It performs no I/O, reads no clock, knows no protocol
//! error code, and never changes bytes that it was given.
//!
//! A producer's batch passes [`validate`] once. After that, only its first [`PREFIX_BYTES`] bytes differ between the
//! wire and the disk; the CRC does not cover them. Everything else that reads batches uses [`check`],
//! [`split_batches`] or [`DecodedBatch`].

mod builder;
mod compress;
mod crc;
mod decoded;
mod error;
mod header;
mod record;
mod split;
mod validate;
mod varint;

pub use builder::{BUILDER_BYTES_MAX, BatchBuilder, BatchOptions};
pub use compress::{CompressionLevels, compress, decompress};
pub use decoded::DecodedBatch;
pub use error::{BatchError, REJECTIONS_MAX, RecordFault, RejectReason, Rejection, Rejections};
pub use header::*;
pub use record::{Header, Headers, Record, RecordIter, Strictness};
pub use split::{Batches, check, split_batches, verify_crc};
pub use validate::{AppendRules, SCRATCH_BYTES_MAX, Validated, validate};
