//! Control records: entries about the log itself, between the records of applications.
//!
//! The only kind written here ends a transaction (KIP-98). Its key is a version (0) and a type (0 abort, 1
//! commit), both `i16`. Its value is a version (0, `i16`) and the epoch of the coordinator that decided
//! (`i32`). Later versions append fields, which are skipped. The record types of KRaft's own log mean nothing
//! here.

use bytes::Bytes;
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

use crate::{BatchBuilder, BatchError, BatchHeader, BatchOptions, DecodedBatch, TimestampType};

/// The newest known version of key and value.
const VERSION: i16 = 0;
const ABORT: i16 = 0;
const COMMIT: i16 = 1;

/// The most bytes that a compressed control batch may expand to. Kafka never compresses one.
const DECOMPRESSED_BYTES_MAX: usize = 1 << 20;

/// The end of a transaction, as in its control record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EndTransactionMarker {
    /// True if the transaction was committed, false if it was aborted.
    pub committed: bool,
    /// Epoch of the coordinator that decided it.
    pub coordinator_epoch: i32,
}

/// The reason why a control batch cannot be decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ControlError {
    /// The batch itself is unreadable.
    #[error(transparent)]
    Batch(#[from] BatchError),
    /// The key is missing, too short, or of a negative version.
    #[error("the key of a control record has {bytes} bytes or a negative version")]
    Key {
        /// Its length.
        bytes: usize,
    },
    /// The value is missing, too short, or of a negative version.
    #[error("the value of an end-of-transaction marker has {bytes} bytes or a negative version")]
    Value {
        /// Its length.
        bytes: usize,
    },
}

impl EndTransactionMarker {
    /// Reads the marker in the control batch at the start of `bytes`. `None` if the batch was emptied by
    /// compaction, or holds control records of another type. Does not check the CRC.
    ///
    /// # Errors
    /// [`ControlError`] if the batch or its first record cannot be read.
    pub fn read(bytes: &[u8]) -> Result<Option<Self>, ControlError> {
        let header = BatchHeader::parse(bytes)?;
        let batch = DecodedBatch::trusted(header, bytes, DECOMPRESSED_BYTES_MAX)?;
        match batch.records().next() {
            None => Ok(None),
            Some(record) => {
                let record = record?;
                Self::from_record(record.key.unwrap_or_default(), record.value.unwrap_or_default())
            }
        }
    }

    /// Decodes the marker in a control record. `None` if the record is of another type.
    ///
    /// # Errors
    /// [`ControlError`] if the key or the value is too short or of a negative version.
    pub fn from_record(key: &[u8], value: &[u8]) -> Result<Option<Self>, ControlError> {
        let kind = versioned(key).ok_or(ControlError::Key { bytes: key.len() })?;
        let committed = match i16::from_be_bytes(kind) {
            ABORT => false,
            COMMIT => true,
            _ => return Ok(None),
        };
        let epoch = versioned(value).ok_or(ControlError::Value { bytes: value.len() })?;
        Ok(Some(Self { committed, coordinator_epoch: i32::from_be_bytes(epoch) }))
    }

    /// Builds the control batch that ends a producer's transaction, and its header. It carries no sequence.
    /// Its timestamp type is that of the topic's records.
    pub fn build(
        &self,
        producer_id: ProducerId,
        producer_epoch: ProducerEpoch,
        now: TimestampMs,
        timestamp_type: TimestampType,
    ) -> (BatchHeader, Bytes) {
        let mut key = [0; 4];
        let kind = if self.committed { COMMIT } else { ABORT };
        key[..2].copy_from_slice(&VERSION.to_be_bytes());
        key[2..].copy_from_slice(&kind.to_be_bytes());
        let mut value = [0; 6];
        value[..2].copy_from_slice(&VERSION.to_be_bytes());
        value[2..].copy_from_slice(&self.coordinator_epoch.to_be_bytes());
        let options = BatchOptions {
            producer_id,
            producer_epoch,
            transactional: true,
            control: true,
            log_append_time: (timestamp_type == TimestampType::LogAppendTime).then_some(now),
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        let pushed = builder.push(now, Some(&key), Some(&value), &[]);
        assert!(pushed.is_ok(), "a batch has room for one marker");
        builder.build_with_header()
    }
}

/// Returns the field after the version. `None` if either is missing or the version is negative.
fn versioned<const N: usize>(bytes: &[u8]) -> Option<[u8; N]> {
    let (version, rest) = bytes.split_first_chunk::<2>()?;
    if i16::from_be_bytes(*version) < 0 {
        return None;
    }
    rest.first_chunk::<N>().copied()
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: TimestampMs = TimestampMs(1_700_000_000_000);

    #[test]
    fn a_marker_is_read_as_it_was_built() {
        for (committed, coordinator_epoch) in [(true, 0), (false, 7), (true, i32::MAX), (false, -1)] {
            let marker = EndTransactionMarker { committed, coordinator_epoch };
            let (header, bytes) =
                marker.build(ProducerId(5), ProducerEpoch(3), NOW, TimestampType::CreateTime);
            assert_eq!(BatchHeader::parse(&bytes), Ok(header));
            assert!(crate::verify_crc(&bytes));
            assert!(header.attributes.is_control() && header.attributes.is_transactional());
            assert_eq!((header.base_sequence, header.record_count), (-1, 1));
            assert_eq!((header.producer_id, header.producer_epoch), (ProducerId(5), ProducerEpoch(3)));
            assert_eq!(EndTransactionMarker::read(&bytes), Ok(Some(marker)));
        }
    }

    /// Checks every byte. tests/batches/produced_by_others.rs compares with what a real Kafka wrote.
    #[test]
    fn the_bytes_of_a_marker() {
        let marker = EndTransactionMarker { committed: true, coordinator_epoch: 9 };
        let (_, bytes) = marker.build(ProducerId(1), ProducerEpoch(0), NOW, TimestampType::CreateTime);
        assert_eq!(bytes.len(), 78, "61 of the header, 17 of the record");
        let record = [0x20, 0, 0, 0, 8, 0, 0, 0, 1, 12, 0, 0, 0, 0, 0, 9, 0];
        assert_eq!(bytes[61..], record);
        assert_eq!(bytes[21..23], [0, 0x30]);
    }

    #[test]
    fn a_marker_says_of_which_type_its_time_is() {
        let marker = EndTransactionMarker { committed: true, coordinator_epoch: 9 };
        for (kind, attributes) in [(TimestampType::CreateTime, 0x30), (TimestampType::LogAppendTime, 0x38)] {
            let (header, bytes) = marker.build(ProducerId(1), ProducerEpoch(0), NOW, kind);
            assert_eq!((bytes[22], header.max_timestamp), (attributes, NOW));
            assert_eq!(EndTransactionMarker::read(&bytes), Ok(Some(marker)));
        }
    }

    #[test]
    fn other_types_and_later_versions_are_let_through() {
        assert_eq!(EndTransactionMarker::from_record(&[0, 0, 0, 2], &[]), Ok(None));
        let later = EndTransactionMarker::from_record(&[0, 1, 0, 1, 9], &[0, 3, 0, 0, 0, 4, 9, 9]);
        assert_eq!(later, Ok(Some(EndTransactionMarker { committed: true, coordinator_epoch: 4 })));
    }

    #[test]
    fn short_and_negative_ones_are_refused() {
        for bytes in 0..4 {
            let refused = EndTransactionMarker::from_record(&[0; 4][..bytes], &[0; 6]);
            assert_eq!(refused, Err(ControlError::Key { bytes }));
        }
        for bytes in 0..6 {
            let refused = EndTransactionMarker::from_record(&[0; 4], &[0; 6][..bytes]);
            assert_eq!(refused, Err(ControlError::Value { bytes }));
        }
        assert!(EndTransactionMarker::from_record(&[0xff; 4], &[0; 6]).is_err());
        assert!(EndTransactionMarker::from_record(&[0; 4], &[0xff; 6]).is_err());
    }
}
