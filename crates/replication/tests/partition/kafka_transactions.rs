//! A log written by Kafka with a committed and an aborted transaction (transaction version 2). Opened here,
//! it yields the same state of the producer as in Kafka.

use tailrace_log::{Log, LogConfig, LogStore, PartitionIdentity, RealDisk};
use tailrace_replication::{Durability, Policy, Solo};
use tailrace_types::{Offset, PartitionId, ProducerEpoch, TimestampMs, TopicId, TopicName, TopicPartition};

const NOW: TimestampMs = TimestampMs(1_800_000_000_000);

#[test]
fn markers_of_kafka_are_understood() {
    let dir = tempfile::tempdir().unwrap();
    // records/tests/fixtures/README.md describes how it was made.
    let segment = include_bytes!("../../../records/tests/fixtures/java-transactions.log");
    std::fs::write(dir.path().join("00000000000000000000.log"), segment).unwrap();
    let identity = PartitionIdentity {
        topic_id: TopicId([1; 16]),
        topic_partition: TopicPartition::new(TopicName::new("t").unwrap(), PartitionId(0)),
    };
    let (store, config) = (LogStore::new(RealDisk, 8), LogConfig::default());
    let (log, _) = Log::open(&store, dir.path(), &identity, config.clone(), NOW).unwrap();
    log.close(None).unwrap();

    let policy = Policy {
        durability: Durability::Strict,
        producer_expiration_ms: i64::MAX,
        timestamp_type: tailrace_records::TimestampType::CreateTime,
    };
    let (core, recovery) = Solo::open(&store, dir.path(), &identity, config, policy, NOW).unwrap();
    assert!(recovery.notes.is_empty(), "{:?}", recovery.notes);
    let (id, producer) = core.producers().iter().next().unwrap();
    assert_eq!((producer.epoch, producer.coordinator_epoch), (ProducerEpoch(2), 0));
    assert_eq!((producer.current_transaction, core.producers().len()), (None, 1));
    let reader = core.reader();
    assert_eq!(reader.last_stable_offset(), Offset(32));
    let aborted = reader.aborted_transactions(Offset(0), Offset(32));
    assert_eq!(aborted.len(), 1);
    assert_eq!(
        (aborted[0].producer_id, aborted[0].first_offset, aborted[0].last_offset),
        (id, Offset(16), Offset(31))
    );
}
