//! Records of `__transaction_state`. The latest record of each transactional id holds the state of its
//! transaction.
//!
//! The format is that of Kafka 4.3 in `TransactionLogKey.json` and `TransactionLogValue.json`. Keys have
//! version 0. Values have version 0 or, with tagged fields (KIP-890), version 1. Values are written in
//! version 1, which belongs to `transaction.version=2`.

use bytes::Bytes;

use super::codec::{FieldReader, FieldWriter, InternalRecordError, Layout, WriteField};

/// Version of the only kind of key.
const KEY_VERSION: i16 = 0;
/// First value version with varint lengths and tagged fields.
const FLEXIBLE: i16 = 1;

/// Tags of a value of version 1.
const PREVIOUS_PRODUCER_ID: u32 = 0;
const NEXT_PRODUCER_ID: u32 = 1;
const CLIENT_TRANSACTION_VERSION: u32 = 2;
const NEXT_PRODUCER_EPOCH: u32 = 3;

/// The key: the transactional id of a record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogKey {
    /// The transactional id.
    pub transactional_id: String,
}

impl TransactionLogKey {
    /// Encodes the key.
    ///
    /// # Panics
    /// If the id is longer than 32,767 bytes.
    pub fn encode(&self) -> Bytes {
        let mut writer = FieldWriter::new(KEY_VERSION, Layout::Fixed);
        writer.string(&self.transactional_id);
        writer.finish()
    }

    /// Decodes a key.
    ///
    /// # Errors
    /// Damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let known = KEY_VERSION..=KEY_VERSION;
        reader.version_in("a transactional id's key", known, KEY_VERSION + 1)?;
        Ok(Self { transactional_id: reader.string("TransactionalId")?.to_owned() })
    }
}

/// Partitions of one topic in a transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogPartitions {
    /// The topic.
    pub topic: String,
    /// Its partitions.
    pub partitions: Vec<i32>,
}

/// The value: the state of a transactional id's transaction. The fields have Kafka's names. -1 stands for
/// "none".
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TransactionLogValue {
    /// The current producer id.
    pub producer_id: i64,
    /// The producer id of the previous transaction. Version 1.
    pub previous_producer_id: i64,
    /// The producer id that takes over after the transaction has ended. Version 1.
    pub next_producer_id: i64,
    /// The current epoch.
    pub producer_epoch: i16,
    /// The epoch of the next producer id (KIP-939). Version 1.
    pub next_producer_epoch: i16,
    /// How long the transaction may stay open, in milliseconds.
    pub timeout_ms: i32,
    /// The state: 0 Empty, 1 Ongoing, 2 PrepareCommit, 3 PrepareAbort, 4 CompleteCommit, 5 CompleteAbort.
    pub status: i8,
    /// Partitions of the transaction. Null in the state Empty.
    pub partitions: Option<Vec<TransactionLogPartitions>>,
    /// When the record was written, in milliseconds since 1970.
    pub last_update_ms: i64,
    /// When the transaction started, in milliseconds since 1970.
    pub start_ms: i64,
    /// The client's version of the transaction protocol. Version 1.
    pub client_transaction_version: i16,
}

impl TransactionLogValue {
    /// The lowest version that can be read.
    pub(crate) const LOWEST_VERSION: i16 = 0;
    /// The highest version that can be read. Also the version written.
    pub const HIGHEST_VERSION: i16 = 1;

    /// Encodes the value in a version. Version 0 omits the fields that only version 1 has.
    ///
    /// # Panics
    /// If the version is unknown, a topic is longer than 32,767 bytes in version 0, or an array has more than
    /// `i32::MAX` elements.
    pub fn encode(&self, version: i16) -> Bytes {
        assert!(
            (Self::LOWEST_VERSION..=Self::HIGHEST_VERSION).contains(&version),
            "version {version} of a transaction's value"
        );
        let layout = if version >= FLEXIBLE { Layout::Flexible } else { Layout::Fixed };
        let mut writer = FieldWriter::new(version, layout);
        writer.i64(self.producer_id).i16(self.producer_epoch).i32(self.timeout_ms).i8(self.status);
        match &self.partitions {
            None => writer.null_array(),
            Some(topics) => writer.array(topics.iter(), |writer, topic| {
                writer.string(&topic.topic);
                writer.array(topic.partitions.iter(), |writer, &partition| {
                    writer.i32(partition);
                });
                writer.no_tags();
            }),
        };
        writer.i64(self.last_update_ms).i64(self.start_ms);
        if layout == Layout::Flexible {
            self.write_tags(&mut writer);
        }
        writer.finish()
    }

    /// Kafka omits tagged fields that have their default value.
    fn write_tags(&self, writer: &mut FieldWriter) {
        let previous: WriteField<'_> = &|field| {
            field.i64(self.previous_producer_id);
        };
        let next: WriteField<'_> = &|field| {
            field.i64(self.next_producer_id);
        };
        let client: WriteField<'_> = &|field| {
            field.i16(self.client_transaction_version);
        };
        let next_epoch: WriteField<'_> = &|field| {
            field.i16(self.next_producer_epoch);
        };
        let all = [
            (self.previous_producer_id != -1, PREVIOUS_PRODUCER_ID, previous),
            (self.next_producer_id != -1, NEXT_PRODUCER_ID, next),
            (self.client_transaction_version != 0, CLIENT_TRANSACTION_VERSION, client),
            (self.next_producer_epoch != -1, NEXT_PRODUCER_EPOCH, next_epoch),
        ];
        let set: Vec<_> =
            all.into_iter().filter(|(set, ..)| *set).map(|(_, tag, write)| (tag, write)).collect();
        writer.tags(&set);
    }

    /// Decodes a value of any known version.
    ///
    /// # Errors
    /// Damaged, or of another version.
    pub fn decode(bytes: &[u8]) -> Result<Self, InternalRecordError> {
        let mut reader = FieldReader::new(bytes);
        let known = Self::LOWEST_VERSION..=Self::HIGHEST_VERSION;
        reader.version_in("a transaction's value", known, FLEXIBLE)?;
        let mut value = Self {
            producer_id: reader.i64("ProducerId")?,
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: reader.i16("ProducerEpoch")?,
            next_producer_epoch: -1,
            timeout_ms: reader.i32("TransactionTimeoutMs")?,
            status: reader.i8("TransactionStatus")?,
            partitions: reader.nullable_array("TransactionPartitions", |reader| {
                let topic = reader.string("Topic")?.to_owned();
                let partitions = reader.array("PartitionIds", |reader| reader.i32("PartitionId"))?;
                reader.skip_tagged()?;
                Ok(TransactionLogPartitions { topic, partitions })
            })?,
            last_update_ms: reader.i64("TransactionLastUpdateTimestampMs")?,
            start_ms: reader.i64("TransactionStartTimestampMs")?,
            client_transaction_version: 0,
        };
        reader.tagged(|tag, field| {
            match tag {
                PREVIOUS_PRODUCER_ID => value.previous_producer_id = field.i64("PreviousProducerId")?,
                NEXT_PRODUCER_ID => value.next_producer_id = field.i64("NextProducerId")?,
                CLIENT_TRANSACTION_VERSION => {
                    value.client_transaction_version = field.i16("ClientTransactionVersion")?;
                }
                NEXT_PRODUCER_EPOCH => value.next_producer_epoch = field.i16("NextProducerEpoch")?,
                _ => {}
            }
            Ok(())
        })?;
        Ok(value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample() -> TransactionLogValue {
        TransactionLogValue {
            producer_id: 4711,
            previous_producer_id: 4700,
            next_producer_id: 4712,
            producer_epoch: 7,
            next_producer_epoch: -1,
            timeout_ms: 60_000,
            status: 2,
            partitions: Some(vec![TransactionLogPartitions {
                topic: "out".into(),
                partitions: vec![0, 258],
            }]),
            last_update_ms: 1_700_000_000_001,
            start_ms: 1_700_000_000_000,
            client_transaction_version: 2,
        }
    }

    fn hex(bytes: &[u8]) -> String {
        bytes.iter().map(|byte| format!("{byte:02x}")).collect()
    }

    /// The expected bytes are those that Kafka 4.3.1's own classes `TransactionLogKey` and
    /// `TransactionLogValue` wrote for these fields (`MessageUtil.toVersionPrefixedBytes`).
    #[test]
    fn the_bytes_are_kafkas() {
        let key = TransactionLogKey { transactional_id: "orders-1".into() };
        assert_eq!(hex(&key.encode()), "000000086f72646572732d31");
        assert_eq!(TransactionLogKey::decode(&key.encode()), Ok(key));

        let value = sample();
        assert_eq!(
            hex(&value.encode(1)),
            concat!(
                "0001000000000000126700070000ea6002",
                "02046f757403000000000000010200",
                "0000018bcfe568010000018bcfe56800",
                "030008000000000000125c010800000000000012680202",
                "0002"
            )
        );
        assert_eq!(TransactionLogValue::decode(&value.encode(1)), Ok(value.clone()));

        assert_eq!(
            hex(&value.encode(0)),
            concat!(
                "0000000000000000126700070000ea6002",
                "0000000100036f7574000000020000000000000102",
                "0000018bcfe568010000018bcfe56800"
            )
        );
        let older = TransactionLogValue {
            previous_producer_id: -1,
            next_producer_id: -1,
            client_transaction_version: 0,
            ..value
        };
        assert_eq!(TransactionLogValue::decode(&older.encode(0)), Ok(older));
    }

    #[test]
    fn an_empty_transaction_has_no_partitions() {
        let value = TransactionLogValue {
            previous_producer_id: -1,
            next_producer_id: -1,
            producer_epoch: 0,
            status: 0,
            partitions: None,
            start_ms: -1,
            ..sample()
        };
        for version in [0, 1] {
            let read = TransactionLogValue::decode(&value.encode(version)).unwrap();
            assert_eq!((read.partitions, read.status, read.start_ms), (None, 0, -1));
        }
        assert_eq!(
            hex(&value.encode(1)),
            "0001000000000000126700000000ea6000000000018bcfe56801ffffffffffffffff0102020002"
        );
    }

    #[test]
    fn every_cut_and_other_versions_are_errors() {
        for version in [0, 1] {
            let bytes = sample().encode(version);
            for cut in 0..bytes.len() {
                assert!(
                    TransactionLogValue::decode(&bytes[..cut]).is_err(),
                    "version {version} cut at {cut}"
                );
            }
        }
        assert!(matches!(
            TransactionLogValue::decode(&[0, 2, 0, 0]),
            Err(InternalRecordError::Version { found: 2, .. })
        ));
        assert!(matches!(
            TransactionLogKey::decode(&[0, 1, 0, 0]),
            Err(InternalRecordError::Version { found: 1, .. })
        ));
    }
}
