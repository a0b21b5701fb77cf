//! Offsets by name, by time and by epoch, and the deletion of records at the start of a log.

use crate::common::{Client, OK, TestServer, error};
use tailrace_kafka_wire::ErrorCode::{
    self, FencedLeaderEpoch, InvalidRequest, OffsetOutOfRange, UnknownLeaderEpoch, UnknownTopicOrPartition,
    UnsupportedVersion,
};
use tailrace_kafka_wire::messages::delete_records_request::{
    DeleteRecordsPartition, DeleteRecordsRequest, DeleteRecordsTopic,
};
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_kafka_wire::messages::list_offsets_response::ListOffsetsPartitionResponse;
use tailrace_kafka_wire::messages::offset_for_leader_epoch_request::{
    OffsetForLeaderEpochRequest, OffsetForLeaderPartition, OffsetForLeaderTopic,
};
use tailrace_records::{BatchBuilder, BatchOptions, Compression};
use tailrace_types::TimestampMs;

const LATEST: i64 = -1;
const EARLIEST: i64 = -2;
const MAX_TIMESTAMP: i64 = -3;

fn question(index: i32, timestamp: i64) -> ListOffsetsPartition {
    ListOffsetsPartition { partition_index: index, timestamp, ..Default::default() }
}

async fn list(
    client: &mut Client,
    topic: &str,
    isolation_level: i8,
    partitions: Vec<ListOffsetsPartition>,
) -> Vec<ListOffsetsPartitionResponse> {
    let topics = vec![ListOffsetsTopic { name: topic.to_owned(), partitions, ..Default::default() }];
    let request = ListOffsetsRequest { replica_id: -1, isolation_level, topics, ..Default::default() };
    client.call(11, &request).await.topics.remove(0).partitions
}

/// Returns the offset, timestamp and epoch that ListOffsets gives for `timestamp` in partition 0.
async fn offset(client: &mut Client, topic: &str, timestamp: i64) -> (i64, i64, i32) {
    let plain = list(client, topic, 0, vec![question(0, timestamp)]).await.remove(0);
    assert_eq!(plain.error_code, 0);
    let committed = list(client, topic, 1, vec![question(0, timestamp)]).await.remove(0);
    assert_eq!(plain, committed, "without transactions, the isolation level makes no difference");
    (plain.offset, plain.timestamp, plain.leader_epoch)
}

async fn delete(client: &mut Client, topic: &str, index: i32, offset: i64) -> (i64, ErrorCode) {
    let partition = DeleteRecordsPartition { partition_index: index, offset, ..Default::default() };
    let topics = vec![DeleteRecordsTopic {
        name: topic.to_owned(),
        partitions: vec![partition],
        ..Default::default()
    }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 5000, ..Default::default() };
    let answer = client.call(2, &request).await.topics.remove(0).partitions.remove(0);
    (answer.low_watermark, error(answer.error_code))
}

/// Returns the epoch and end offset that the server gives for `epoch` to a client whose current epoch is
/// `current`.
async fn epoch_end(
    client: &mut Client,
    topic: &str,
    index: i32,
    epoch: i32,
    current: i32,
) -> Result<(i32, i64), ErrorCode> {
    let partition = OffsetForLeaderPartition {
        partition: index,
        current_leader_epoch: current,
        leader_epoch: epoch,
        ..Default::default()
    };
    let topics = vec![OffsetForLeaderTopic {
        topic: topic.to_owned(),
        partitions: vec![partition],
        ..Default::default()
    }];
    let request = OffsetForLeaderEpochRequest { replica_id: -1, topics, ..Default::default() };
    let answer = client.call(4, &request).await.topics.remove(0).partitions.remove(0);
    match error(answer.error_code) {
        OK => Ok((answer.leader_epoch, answer.end_offset)),
        code => {
            assert_eq!((answer.leader_epoch, answer.end_offset), (-1, -1));
            Err(code)
        }
    }
}

#[tokio::test]
async fn an_empty_partition() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    for (timestamp, expected) in [
        (LATEST, (0, -1, 0)),
        (EARLIEST, (0, -1, 0)),
        (MAX_TIMESTAMP, (-1, -1, -1)),
        (-4, (0, -1, 0)),
        (-5, (-1, -1, -1)),
        (-6, (-1, -1, -1)),
        (0, (-1, -1, -1)),
    ] {
        assert_eq!(offset(&mut client, "t", timestamp).await, expected, "{timestamp}");
    }
    assert_eq!(epoch_end(&mut client, "t", 0, 0, -1).await, Ok((0, 0)));
}

#[tokio::test]
async fn by_time() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    client.produce("t", 0, &[100, 110]).await;
    client.produce("t", 0, &[300, 310]).await;
    client.produce("t", 0, &[205, 205]).await;
    for (time, expected) in [
        (0, (0, 100)),
        (100, (0, 100)),
        (101, (1, 110)),
        (110, (1, 110)),
        (111, (2, 300)),
        (305, (3, 310)),
        (311, (-1, -1)),
        (i64::MAX, (-1, -1)),
        (MAX_TIMESTAMP, (3, 310)),
        (LATEST, (6, -1)),
        (EARLIEST, (0, -1)),
    ] {
        let (found, timestamp, epoch) = offset(&mut client, "t", time).await;
        assert_eq!((found, timestamp), expected, "{time}");
        assert_eq!(epoch, if found < 0 { -1 } else { 0 });
    }
}

/// Large batches are decompressed and searched on other threads than small ones.
#[tokio::test]
async fn by_time_within_large_batches() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    for (from, compression) in [(0, Compression::None), (1000, Compression::Zstd)] {
        let mut builder = BatchBuilder::new(BatchOptions { compression, ..BatchOptions::default() });
        for number in from..from + 1000 {
            builder.push(TimestampMs(number), None, Some(&[b'v'; 1000]), &[]).unwrap();
        }
        let answer = client.produce_batch("t", 0, builder.build()).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, from));
    }
    for time in [0, 1, 500, 999, 1000, 1001, 1999] {
        assert_eq!(offset(&mut client, "t", time).await, (time, time, 0));
    }
    assert_eq!(offset(&mut client, "t", 2000).await, (-1, -1, -1));
    assert_eq!(offset(&mut client, "t", MAX_TIMESTAMP).await, (1999, 1999, 0));
    assert_eq!(delete(&mut client, "t", 0, 1500).await, (1500, OK));
    assert_eq!(offset(&mut client, "t", 3).await, (1500, 1500, 0), "the log start is within the batch");
}

#[tokio::test]
async fn questions_that_cannot_be_answered() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 2, &[]).await;
    client.create_topic("u", 1, &[]).await;
    let code = |answers: &[ListOffsetsPartitionResponse]| {
        answers.iter().map(|p| (p.partition_index, error(p.error_code), p.offset)).collect::<Vec<_>>()
    };
    for timestamp in [-7, -99, i64::MIN] {
        let answers = list(&mut client, "t", 0, vec![question(0, timestamp)]).await;
        assert_eq!(code(&answers), [(0, UnsupportedVersion, -1)], "{timestamp}");
    }
    let some = vec![question(9, LATEST), question(-1, LATEST), question(1, LATEST)];
    let answers = list(&mut client, "t", 0, some).await;
    assert_eq!(
        code(&answers),
        [(9, UnknownTopicOrPartition, -1), (-1, UnknownTopicOrPartition, -1), (1, OK, 0)]
    );
    let answers = list(&mut client, "nope", 0, vec![question(0, 5)]).await;
    assert_eq!(code(&answers), [(0, UnknownTopicOrPartition, -1)]);
    let twice = vec![question(0, LATEST), question(1, LATEST), question(0, EARLIEST)];
    let answers = list(&mut client, "t", 0, twice).await;
    assert_eq!(code(&answers), [(0, InvalidRequest, -1), (1, OK, 0)]);
    let future = ListOffsetsPartition { current_leader_epoch: 5, ..question(0, LATEST) };
    let answers = list(&mut client, "t", 0, vec![future]).await;
    assert_eq!(code(&answers), [(0, UnknownLeaderEpoch, -1)]);
}

#[tokio::test]
async fn records_deleted_from_the_front() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 2, &[]).await;
    for time in [100, 110, 120, 310, 130, 140] {
        client.produce("t", 0, &[time]).await;
    }
    assert_eq!(delete(&mut client, "t", 0, 3).await, (3, OK));
    assert_eq!(delete(&mut client, "t", 0, 3).await, (3, OK));
    assert_eq!(delete(&mut client, "t", 0, 1).await, (3, OK), "the log start never goes back");
    assert_eq!(offset(&mut client, "t", EARLIEST).await, (3, -1, 0));
    assert_eq!(offset(&mut client, "t", -4).await, (3, -1, 0));
    assert_eq!(offset(&mut client, "t", 100).await, (3, 310, 0));
    for beyond in [7, 99, i64::MAX, -2, i64::MIN] {
        assert_eq!(delete(&mut client, "t", 0, beyond).await, (-1, OffsetOutOfRange), "{beyond}");
    }
    for (topic, index) in [("nope", 0), ("t", 9), ("t", -1)] {
        assert_eq!(delete(&mut client, topic, index, 0).await, (-1, UnknownTopicOrPartition));
    }
    server.restart().await;
    let mut client = server.connect().await;
    assert_eq!(offset(&mut client, "t", EARLIEST).await, (3, -1, 0), "the log start is durable");
    assert_eq!(delete(&mut client, "t", 0, -1).await, (6, OK));
    assert_eq!(offset(&mut client, "t", EARLIEST).await.0, 6);
    assert_eq!(offset(&mut client, "t", LATEST).await.0, 6);
    assert_eq!(offset(&mut client, "t", MAX_TIMESTAMP).await, (-1, -1, -1), "no record is left");
    assert_eq!(client.produce("t", 0, &[500]).await, 6);
    assert_eq!(offset(&mut client, "t", MAX_TIMESTAMP).await.0, 6);
}

#[tokio::test]
async fn epochs_over_restarts() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    client.produce("t", 0, &[1, 2, 3]).await;
    for epoch in [-1, 1, 7] {
        assert_eq!(epoch_end(&mut client, "t", 0, epoch, -1).await, Ok((-1, -1)), "{epoch}");
    }
    assert_eq!(epoch_end(&mut client, "t", 0, 0, 0).await, Ok((0, 3)));
    assert_eq!(epoch_end(&mut client, "t", 0, 0, 5).await, Err(UnknownLeaderEpoch));
    assert_eq!(epoch_end(&mut client, "t", 9, 0, -1).await, Err(UnknownTopicOrPartition));
    assert_eq!(epoch_end(&mut client, "nope", 0, 0, -1).await, Err(UnknownTopicOrPartition));

    server.restart().await;
    let mut client = server.connect().await;
    let epoch = client.topic("t").await.partitions[0].leader_epoch;
    assert_eq!(epoch, 1, "the restart raises the epoch");
    // Nothing has been appended in this epoch yet, and still clients must be able to trust positions that
    // carry it.
    assert_eq!(offset(&mut client, "t", LATEST).await, (3, -1, 1));
    assert_eq!(offset(&mut client, "t", EARLIEST).await, (0, -1, 0));
    assert_eq!(epoch_end(&mut client, "t", 0, 1, 1).await, Ok((1, 3)));
    assert_eq!(epoch_end(&mut client, "t", 0, 0, 1).await, Ok((0, 3)));
    assert_eq!(epoch_end(&mut client, "t", 0, 0, 0).await, Err(FencedLeaderEpoch));

    client.produce("t", 0, &[4, 5]).await;
    assert_eq!(epoch_end(&mut client, "t", 0, 0, 1).await, Ok((0, 3)));
    assert_eq!(epoch_end(&mut client, "t", 0, 1, 1).await, Ok((1, 5)));
    assert_eq!(offset(&mut client, "t", 4).await, (3, 4, 1));
    assert_eq!(offset(&mut client, "t", 3).await, (2, 3, 0));

    server.restart().await;
    server.restart().await;
    let mut client = server.connect().await;
    let now = client.topic("t").await.partitions[0].leader_epoch;
    for past in 1..now {
        let (epoch, end) = epoch_end(&mut client, "t", 0, past, now).await.expect("an answer");
        assert_eq!((epoch, end), (1, 5), "epoch {past}, asked in epoch {now}");
    }
    assert_eq!(offset(&mut client, "t", LATEST).await, (5, -1, now));
}

#[tokio::test]
async fn the_largest_time_is_that_of_a_record_that_is_left() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    for time in [100, 310, 130, 140] {
        client.produce("t", 0, &[time]).await;
    }
    assert_eq!(delete(&mut client, "t", 0, 2).await, (2, OK));
    assert_eq!(offset(&mut client, "t", MAX_TIMESTAMP).await, (3, 140, 0), "neither 310 nor nothing");
}
