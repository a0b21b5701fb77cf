//! Consumers that read only what is committed: Fetch, ListOffsets, DescribeProducers, DeleteRecords and a
//! restart, on a log with transactions. The test writes the log before the server starts, as the coordinator
//! of transactions would write it.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::path::Path;

use crate::common;
use crate::common::local_disk;
use crate::common::rig::{decoded, fetch_request, number, numbered_with, only_partition, value};
use crate::common::{Client, OK, TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use tailrace_kafka_wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use tailrace_kafka_wire::messages::fetch_response::PartitionData;
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_log::{LogConfig, LogStore, RealDisk, read_identity};
use tailrace_records::{BatchBuilder, BatchHeader, BatchOptions};
use tailrace_replication::{Durability, Policy, Solo, TransactionMarker};
use tailrace_types::{Offset, ProducerEpoch, ProducerId, TimestampMs};

const POLICY: Policy = Policy {
    durability: Durability::Strict,
    producer_expiration_ms: i64::MAX,
    timestamp_type: tailrace_records::TimestampType::CreateTime,
};

/// Returns the timestamp of a record. It is in the year 2096, so that no record is too old to stay, and later
/// than that of any marker.
fn time_of(number: u64) -> TimestampMs {
    TimestampMs(4_000_000_000_000 + number.cast_signed())
}

struct Writer(Solo<RealDisk>);

impl Writer {
    fn open(folder: &Path) -> Self {
        let identity = read_identity(&RealDisk, folder).unwrap().unwrap();
        let store = LogStore::new(RealDisk, 8);
        let config = LogConfig::default();
        let mut core = Solo::open(&store, folder, &identity, config, POLICY, common::rig::now()).unwrap().0;
        core.begin_epoch().unwrap();
        Self(core)
    }

    /// Appends a batch of two records, whose values start with `first` and the next number.
    fn batch(&mut self, producer: i64, transactional: bool, first: u64) {
        let options = BatchOptions {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(if producer < 0 { -1 } else { 0 }),
            transactional,
            ..BatchOptions::default()
        };
        let mut builder = BatchBuilder::new(options);
        for number in first..first + 2 {
            builder.push(time_of(number), None, Some(&value(number, 50)), &[]).unwrap();
        }
        let bytes = builder.build();
        self.0.append(&BatchHeader::parse(&bytes).unwrap(), &bytes, common::rig::now()).unwrap();
    }

    fn marker(&mut self, producer: i64, committed: bool) {
        let marker = TransactionMarker {
            producer_id: ProducerId(producer),
            producer_epoch: ProducerEpoch(0),
            coordinator_epoch: 4,
            committed,
            epochs_are_bumped: false,
        };
        self.0.append_marker(&marker, common::rig::now()).unwrap();
    }
}

/// Starts a server with this log: offsets 0-1 plain, 2-3 of producer 1, 4-5 of producer 2, 6 aborts 2, 7
/// commits 1, 8-9 of producer 3, 10 aborts 3, 11-12 of producer 4, which stays open, 13-14 plain, 15-16 of
/// producer 5, 17 commits 5.
async fn with_transactions() -> (TestServer, Client) {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    server.stop().await;
    let mut log = Writer::open(&server.data_dir().join("t-0"));
    log.batch(-1, false, 0);
    log.batch(1, true, 2);
    log.batch(2, true, 4);
    log.marker(2, false);
    log.marker(1, true);
    log.batch(3, true, 8);
    log.marker(3, false);
    log.batch(4, true, 11);
    log.batch(-1, false, 13);
    log.batch(5, true, 15);
    log.marker(5, true);
    log.0.close().unwrap();
    server.begin(local_disk()).await;
    let client = server.connect().await;
    (server, client)
}

async fn fetch(client: &mut Client, offset: i64, isolation_level: i8) -> PartitionData {
    let mut request = fetch_request("t", 0, offset);
    (request.isolation_level, request.max_wait_ms) = (isolation_level, 0);
    only_partition(client.call(12, &request).await)
}

/// Returns the numbers of the records in an answer, without markers.
fn numbers(data: &PartitionData) -> Vec<u64> {
    decoded(data).iter().filter(|(_, value)| value.len() >= 8).map(|(_, value)| number(value)).collect()
}

fn aborted(data: &PartitionData) -> Option<Vec<(i64, i64)>> {
    let all = data.aborted_transactions.as_ref()?;
    Some(all.iter().map(|transaction| (transaction.producer_id, transaction.first_offset)).collect())
}

#[tokio::test]
async fn fetch_ends_at_the_last_stable_offset_and_names_the_aborted() {
    let (mut server, mut client) = with_transactions().await;
    for _ in 0..2 {
        let everything = fetch(&mut client, 0, 0).await;
        assert_eq!((everything.high_watermark, everything.last_stable_offset), (18, 11));
        assert_eq!(aborted(&everything), None);
        assert_eq!(numbers(&everything), [0, 1, 2, 3, 4, 5, 8, 9, 11, 12, 13, 14, 15, 16]);

        let committed = fetch(&mut client, 0, 1).await;
        assert_eq!((committed.high_watermark, committed.last_stable_offset), (18, 11));
        assert_eq!(aborted(&committed), Some(vec![(2, 4), (3, 8)]));
        assert_eq!(numbers(&committed), [0, 1, 2, 3, 4, 5, 8, 9]);

        // Only transactions whose records or marker can be in the answer are listed.
        assert_eq!(aborted(&fetch(&mut client, 7, 1).await), Some(vec![(3, 8)]));
        let nothing = fetch(&mut client, 11, 1).await;
        assert_eq!(
            (error(nothing.error_code), aborted(&nothing), numbers(&nothing)),
            (OK, Some(vec![]), vec![])
        );
        assert_eq!(fetch(&mut client, 18, 1).await.error_code, 0);
        // Once from the snapshot of an orderly stop, and once from the log alone.
        server.stop().await;
        let folder = server.data_dir().join("t-0");
        let snapshots = std::fs::read_dir(&folder).unwrap().map(|entry| entry.unwrap().path());
        let is_snapshot = |path: &std::path::PathBuf| path.extension().is_some_and(|e| e == "snapshot");
        snapshots.filter(is_snapshot).for_each(|path| std::fs::remove_file(path).unwrap());
        server.begin(local_disk()).await;
        client = server.connect().await;
    }
}

async fn list(client: &mut Client, timestamp: i64, isolation_level: i8) -> i64 {
    let partition = ListOffsetsPartition { partition_index: 0, timestamp, ..Default::default() };
    let topic = ListOffsetsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    let request =
        ListOffsetsRequest { replica_id: -1, isolation_level, topics: vec![topic], ..Default::default() };
    let answer = client.call(11, &request).await.topics.remove(0).partitions.remove(0);
    assert_eq!(answer.error_code, 0);
    answer.offset
}

#[tokio::test]
async fn the_latest_offset_is_the_last_stable_one_and_bounds_lookups() {
    let (_server, mut client) = with_transactions().await;
    assert_eq!((list(&mut client, -1, 0).await, list(&mut client, -1, 1).await), (18, 11));
    assert_eq!((list(&mut client, -2, 0).await, list(&mut client, -2, 1).await), (0, 0));
    // The largest timestamp belongs to the last record.
    assert_eq!((list(&mut client, -3, 0).await, list(&mut client, -3, 1).await), (16, 9));
    for (number, found, committed) in
        [(0, 0, 0), (5, 5, 5), (6, 8, 8), (9, 9, 9), (10, 11, -1), (13, 13, -1), (16, 16, -1), (17, -1, -1)]
    {
        let time = time_of(number).0;
        let offsets = (list(&mut client, time, 0).await, list(&mut client, time, 1).await);
        assert_eq!(offsets, (found, committed), "at the time of {number}");
    }
}

#[tokio::test]
async fn open_transactions_and_coordinator_epochs_are_described() {
    let (_server, mut client) = with_transactions().await;
    let topic = TopicRequest { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
    let request = DescribeProducersRequest { topics: vec![topic], ..Default::default() };
    let partition = client.call(0, &request).await.topics.remove(0).partitions.remove(0);
    let seen: Vec<_> = partition
        .active_producers
        .iter()
        .map(|p| (p.producer_id, p.coordinator_epoch, p.current_txn_start_offset))
        .collect();
    assert_eq!(seen, [(1, 4, -1), (2, 4, -1), (3, 4, -1), (4, -1, 11), (5, 4, -1)]);
    assert!(partition.active_producers.iter().all(|producer| producer.last_timestamp > 0));
}

async fn delete_upto(client: &mut Client, offset: i64) -> i64 {
    let partition = DeleteRecordsPartition { partition_index: 0, offset, ..Default::default() };
    let topic =
        DeleteRecordsTopic { name: "t".to_owned(), partitions: vec![partition], ..Default::default() };
    let request = DeleteRecordsRequest { topics: vec![topic], timeout_ms: 5000, ..Default::default() };
    let answer = client.call(2, &request).await.topics.remove(0).partitions.remove(0);
    assert_eq!(answer.error_code, 0);
    answer.low_watermark
}

#[tokio::test]
async fn the_log_start_may_pass_an_open_transaction() {
    let (mut server, mut client) = with_transactions().await;
    assert_eq!(delete_upto(&mut client, 9).await, 9);
    let data = fetch(&mut client, 9, 1).await;
    assert_eq!((data.log_start_offset, data.last_stable_offset), (9, 11));
    assert_eq!(aborted(&data), Some(vec![(3, 8)]), "its marker and a record still exist");
    assert_eq!(delete_upto(&mut client, 13).await, 13);
    for _ in 0..2 {
        let data = fetch(&mut client, 13, 1).await;
        assert_eq!((data.log_start_offset, data.last_stable_offset), (13, 13));
        assert_eq!((aborted(&data), numbers(&data)), (Some(vec![]), vec![]));
        assert_eq!(error(fetch(&mut client, 12, 1).await.error_code), ErrorCode::OffsetOutOfRange);
        server.restart().await;
        client = server.connect().await;
    }
    server.stop().await;
    let mut log = Writer::open(&server.data_dir().join("t-0"));
    assert_eq!(log.0.reader().last_stable_offset(), Offset(13));
    log.marker(4, false);
    log.0.close().unwrap();
    server.begin(local_disk()).await;
    let mut client = server.connect().await;
    let data = fetch(&mut client, 13, 1).await;
    assert_eq!((data.last_stable_offset, aborted(&data)), (19, Some(vec![(4, 11)])));
    assert_eq!(numbers(&data), [13, 14, 15, 16]);
}

/// Clients may not write these batches, whatever the batches claim.
#[tokio::test]
async fn markers_of_clients_are_refused_and_transactional_batches_need_an_id() {
    let (_server, mut client) = with_transactions().await;
    let control = BatchOptions {
        producer_id: ProducerId(9),
        producer_epoch: ProducerEpoch(0),
        base_sequence: 0,
        transactional: false,
        control: true,
        ..BatchOptions::default()
    };
    let refused = client.produce_to("t", 0, -1, numbered_with(control, 1, 1, 50)).await;
    assert_eq!(error(refused.error_code), ErrorCode::InvalidRecord);
    let transactional = BatchOptions { control: false, transactional: true, ..control };
    let refused = client.produce_to("t", 0, -1, numbered_with(transactional, 1, 1, 50)).await;
    assert_eq!(error(refused.error_code), ErrorCode::TransactionalIdAuthorizationFailed);
    // Producer 4 has an open transaction here.
    let plain = BatchOptions { producer_id: ProducerId(4), transactional: false, ..transactional };
    let refused = client.produce_to("t", 0, -1, numbered_with(plain, 1, 1, 50)).await;
    assert_eq!(error(refused.error_code), ErrorCode::InvalidTxnState);
    assert_eq!(fetch(&mut client, 18, 0).await.high_watermark, 18, "nothing was stored");
}
