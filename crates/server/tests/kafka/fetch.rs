//! Consumers get the bytes that were produced, within their limits and once there is enough, and nothing
//! else.

use std::time::{Duration, Instant};

use crate::common::rig::*;
use crate::common::{Client, TestServer, error};
use bytes::Bytes;
use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use tailrace_kafka_wire::messages::fetch_request::{FetchTopic, ForgottenTopic};
use tailrace_kafka_wire::messages::{
    DeleteRecordsRequest, DeleteTopicsRequest, FetchRequest, FetchResponse, ProduceRequest,
};
use tailrace_records::{BatchOptions, Compression, split_batches};

const AT_ONCE: Duration = Duration::from_secs(2);
const MEANWHILE: Duration = Duration::from_millis(150);

async fn with_topic(configs: &[(&str, &str)]) -> (TestServer, Client) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 3, configs).await;
    (server, client)
}

fn without_waiting(mut request: FetchRequest) -> FetchRequest {
    request.max_wait_ms = 0;
    request
}

/// Builds a request for these (partition, offset) pairs of topic `t`.
fn fetch_of(wants: &[(i32, i64)]) -> FetchRequest {
    let partitions = wants.iter().map(|&(partition, offset)| wanted(partition, offset)).collect();
    let topics = vec![FetchTopic { topic: "t".to_owned(), partitions, ..Default::default() }];
    FetchRequest { topics, ..without_waiting(fetch_request("t", 0, 0)) }
}

/// Returns the partition, the error and the number of records of each partition in the answer.
fn outline(response: &FetchResponse) -> Vec<(i32, ErrorCode, usize)> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partitions);
    let mut outline: Vec<_> =
        partitions.map(|p| (p.partition_index, error(p.error_code), decoded(p).len())).collect();
    outline.sort_by_key(|(partition, ..)| *partition);
    outline
}

async fn delete_records(client: &mut Client, partition: i32, offset: i64) -> i64 {
    let partitions =
        vec![DeleteRecordsPartition { partition_index: partition, offset, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: "t".to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 5_000, ..Default::default() };
    let answer = client.call(2, &request).await.topics.remove(0).partitions.remove(0);
    assert_eq!(answer.error_code, 0);
    answer.low_watermark
}

#[tokio::test]
async fn what_was_produced_comes_back_byte_for_byte_across_segments() {
    let (server, mut client) = with_topic(&[("internal.segment.bytes", "3000")]).await;
    let codecs =
        [Compression::None, Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];
    let mut sent: Vec<Bytes> = Vec::new();
    for number in 0..60_u64 {
        let options = BatchOptions {
            compression: codecs[usize::try_from(number).expect("small") % codecs.len()],
            ..BatchOptions::default()
        };
        let batch = numbered_with(options, number * 10, 1 + number % 7, 100);
        assert_eq!(client.produce_to("t", 0, 1, batch.clone()).await.error_code, 0);
        sent.push(batch);
    }
    client.produce_to("t", 0, -1, numbered(0, 1, 8)).await;
    let mut got: Vec<Vec<u8>> = Vec::new();
    let mut at = 0;
    while got.len() < sent.len() {
        let data = client.fetch_from("t", 0, at).await;
        let bytes = bytes_of(&data);
        for batch in split_batches(&bytes) {
            let (header, batch) = batch.expect("whole batches");
            assert_eq!((header.base_offset.get(), header.leader_epoch.get()), (at, 0));
            at = header.next_offset().get();
            got.push(batch.to_vec());
        }
    }
    for (sent, got) in sent.iter().zip(&got) {
        assert_eq!(sent.len(), got.len());
        assert_eq!(sent[16..], got[16..]);
    }
    let folder = std::fs::read_dir(server.data_dir().join("t-0")).expect("the folder exists");
    let logs = folder.filter(|e| e.as_ref().is_ok_and(|e| e.path().extension().is_some_and(|e| e == "log")));
    assert!(logs.count() > 5);
}

#[tokio::test]
async fn a_fetch_waits_for_enough_and_no_longer_than_it_says() {
    let (server, mut client) = with_topic(&[]).await;
    let mut producer = server.connect().await;
    let mut request = fetch_of(&[(0, 0), (1, 0)]);
    request.max_wait_ms = 300;
    let before = Instant::now();
    let empty = client.call(12, &request).await;
    assert!(before.elapsed() >= Duration::from_millis(300), "{:?}", before.elapsed());
    assert_eq!(outline(&empty), [(0, ErrorCode::None, 0), (1, ErrorCode::None, 0)]);

    request.max_wait_ms = 20_000;
    request.min_bytes = 1_000;
    client.send(12, &request).await;
    let mut answer = Box::pin(client.answer::<FetchRequest>(12));
    producer.produce_to("t", 0, -1, numbered(0, 1, 600)).await;
    assert!(tokio::time::timeout(MEANWHILE, &mut answer).await.is_err(), "600 bytes are not enough");
    // Both partitions count towards the minimum.
    producer.produce_to("t", 1, -1, numbered(0, 1, 600)).await;
    let (_, response) = tokio::time::timeout(AT_ONCE, answer).await.expect("the second batch wakes it");
    assert_eq!(outline(&response), [(0, ErrorCode::None, 1), (1, ErrorCode::None, 1)]);
}

/// A fetch does not wait for records that its answer cannot hold: an answer ends at the end of a segment, and
/// at its own byte limit.
#[tokio::test]
async fn a_fetch_does_not_wait_for_what_its_answer_could_not_take() {
    let (_server, mut client) = with_topic(&[("internal.segment.bytes", "1000")]).await;
    for first in 0..3 {
        client.produce_to("t", 0, -1, numbered(first, 1, 600)).await;
    }
    let mut request = fetch_of(&[(0, 0)]);
    (request.max_wait_ms, request.min_bytes) = (20_000, 1_000);
    let answer =
        tokio::time::timeout(AT_ONCE, client.call(12, &request)).await.expect("the segment ends here");
    assert_eq!(outline(&answer), [(0, ErrorCode::None, 1)]);
    let mut request = fetch_of(&[(0, 2)]);
    (request.max_wait_ms, request.min_bytes, request.max_bytes) = (20_000, i32::MAX, 100);
    let answer = tokio::time::timeout(AT_ONCE, client.call(12, &request))
        .await
        .expect("a full response does not wait");
    assert_eq!(outline(&answer), [(0, ErrorCode::None, 1)]);
}

/// A fetch that is woken often and never satisfied is answered when its time is up.
#[tokio::test]
async fn a_fetch_that_is_never_satisfied_answers_in_time() {
    let (server, mut client) = with_topic(&[]).await;
    let mut producer = server.connect().await;
    let mut request = fetch_of(&[(0, 0), (1, 0)]);
    request.max_wait_ms = 500;
    request.min_bytes = i32::MAX;
    client.send(12, &request).await;
    let before = Instant::now();
    let mut produced = 0;
    while before.elapsed() < Duration::from_millis(400) {
        producer.produce_to("t", 0, -1, numbered(produced, 1, 8)).await;
        produced += 1;
    }
    let (_, response) =
        tokio::time::timeout(AT_ONCE, client.answer::<FetchRequest>(12)).await.expect("in time");
    assert_eq!(outline(&response)[0].2, usize::try_from(produced).expect("a small number"));
}

#[tokio::test]
async fn limits_hold_but_for_the_first_batch() {
    let (_server, mut client) = with_topic(&[]).await;
    let batch_bytes = numbered(0, 1, 1000).len();
    for partition in 0..3 {
        for number in 0..4 {
            client.produce_to("t", partition, -1, numbered(number, 1, 1000)).await;
        }
    }
    let counts = |response: &FetchResponse| outline(response).iter().map(|o| o.2).collect::<Vec<_>>();
    let mut request = fetch_of(&[(0, 0), (1, 0), (2, 0)]);
    assert_eq!(counts(&client.call(12, &request).await), [4, 4, 4]);
    request.max_bytes = 1;
    assert_eq!(counts(&client.call(12, &request).await), [1, 0, 0], "KIP-74");
    request.max_bytes = i32::try_from(batch_bytes * 6 + 10).expect("small");
    assert_eq!(counts(&client.call(12, &request).await), [4, 2, 0]);
    request.max_bytes = 50 << 20;
    for want in &mut request.topics[0].partitions {
        want.partition_max_bytes = i32::try_from(batch_bytes * 2 + 10).expect("small");
    }
    assert_eq!(counts(&client.call(12, &request).await), [2, 2, 2]);
    for want in &mut request.topics[0].partitions {
        want.partition_max_bytes = 10;
    }
    assert_eq!(counts(&client.call(12, &request).await), [1, 0, 0], "KIP-74");
    for (max, partition_max) in [(0, 0), (-5, -5)] {
        request.max_bytes = max;
        request.topics[0].partitions.iter_mut().for_each(|want| want.partition_max_bytes = partition_max);
        assert_eq!(counts(&client.call(12, &request).await), [1, 0, 0]);
    }
}

#[tokio::test]
async fn an_offset_inside_a_batch_gives_the_whole_batch() {
    let (_server, mut client) = with_topic(&[]).await;
    client.produce_to("t", 0, -1, numbered(0, 5, 50)).await;
    client.produce_to("t", 0, -1, numbered(5, 5, 50)).await;
    let offsets = |data: &_| decoded(data).iter().map(|(offset, _)| *offset).collect::<Vec<_>>();
    assert_eq!(offsets(&client.fetch_from("t", 0, 3).await), (0..10).collect::<Vec<_>>());
    assert_eq!(offsets(&client.fetch_from("t", 0, 9).await), (5..10).collect::<Vec<_>>());
}

#[tokio::test]
async fn offsets_outside_the_log_are_refused_at_once() {
    let (_server, mut client) = with_topic(&[]).await;
    client.produce_to("t", 0, -1, numbered(0, 10, 50)).await;
    assert_eq!(delete_records(&mut client, 0, 4).await, 4);
    for (offset, expected) in [
        (-1, ErrorCode::OffsetOutOfRange),
        (i64::MIN, ErrorCode::OffsetOutOfRange),
        (3, ErrorCode::OffsetOutOfRange),
        (4, ErrorCode::None),
        (11, ErrorCode::OffsetOutOfRange),
        (i64::MAX, ErrorCode::OffsetOutOfRange),
    ] {
        let before = Instant::now();
        let data = client.fetch_from("t", 0, offset).await;
        assert_eq!(error(data.error_code), expected, "{offset}");
        assert!(before.elapsed() < AT_ONCE);
        if expected != ErrorCode::None {
            assert_eq!((data.high_watermark, data.log_start_offset, decoded(&data).len()), (-1, -1, 0));
        }
    }
    let at_end = only_partition(client.call(12, &fetch_of(&[(0, 10)])).await);
    assert_eq!((at_end.error_code, at_end.high_watermark, at_end.log_start_offset), (0, 10, 4));
    for (topic, partition) in [("t", 3), ("t", -1), ("none", 0)] {
        let data = client.fetch_from(topic, partition, 0).await;
        assert_eq!(error(data.error_code), ErrorCode::UnknownTopicOrPartition);
    }
}

#[tokio::test]
async fn isolation_levels_differ_in_what_is_said_of_aborted_transactions() {
    let (_server, mut client) = with_topic(&[]).await;
    client.produce_to("t", 0, -1, numbered(0, 1, 50)).await;
    let mut request = fetch_of(&[(0, 0)]);
    let data = only_partition(client.call(12, &request).await);
    assert_eq!(
        (data.aborted_transactions.clone(), data.last_stable_offset, decoded(&data).len()),
        (None, 1, 1)
    );
    request.isolation_level = 1;
    let data = only_partition(client.call(12, &request).await);
    assert_eq!((data.aborted_transactions.clone(), data.last_stable_offset), (Some(Vec::new()), 1));
    assert_eq!(decoded(&data).len(), 1);
}

#[tokio::test]
async fn epochs_are_checked_and_divergence_is_told() {
    let (mut server, mut client) = with_topic(&[]).await;
    client.produce_to("t", 0, -1, numbered(0, 5, 50)).await;
    server.restart().await;
    let mut client_again = server.connect().await;
    client_again.produce_to("t", 0, -1, numbered(5, 5, 50)).await;
    let client = &mut client_again;
    let mut request = fetch_of(&[(0, 0)]);
    // As in Kafka, a client that knows a newer epoch is not given a leader.
    for (claimed, expected, leader) in [
        (-1, ErrorCode::None, (-1, -1)),
        (0, ErrorCode::FencedLeaderEpoch, (1, 1)),
        (1, ErrorCode::None, (-1, -1)),
        (2, ErrorCode::UnknownLeaderEpoch, (-1, -1)),
    ] {
        request.topics[0].partitions[0].current_leader_epoch = claimed;
        let data = only_partition(client.call(12, &request).await);
        assert_eq!(error(data.error_code), expected, "{claimed}");
        let told = (data.current_leader.leader_id, data.current_leader.leader_epoch);
        assert_eq!(told, leader, "{claimed}");
    }
    let data = only_partition(client.call(12, &fetch_of(&[(0, 0)])).await);
    let epochs: Vec<_> =
        split_batches(&bytes_of(&data)).map(|b| b.expect("a whole batch").0.leader_epoch.get()).collect();
    assert_eq!(epochs, [0, 1]);
    let mut request = fetch_of(&[(0, 8)]);
    request.topics[0].partitions[0].last_fetched_epoch = 0;
    let data = only_partition(client.call(12, &request).await);
    assert_eq!((data.error_code, data.diverging_epoch.epoch, data.diverging_epoch.end_offset), (0, 0, 5));
    assert_eq!(decoded(&data).len(), 0);
    request.topics[0].partitions[0].last_fetched_epoch = 1;
    assert_eq!(decoded(&only_partition(client.call(12, &request).await)).len(), 5);
}

#[tokio::test]
async fn a_session_repeats_only_what_is_new() {
    let (server, mut client) = with_topic(&[]).await;
    let mut producer = server.connect().await;
    producer.produce_to("t", 0, -1, numbered(0, 2, 50)).await;
    let mut full = fetch_of(&[(0, 0), (1, 0), (7, 0)]);
    full.session_epoch = 0;
    let answer = client.call(12, &full).await;
    let unknown = (7, ErrorCode::UnknownTopicOrPartition, 0);
    assert_eq!(outline(&answer), [(0, ErrorCode::None, 2), (1, ErrorCode::None, 0), unknown]);
    let id = answer.session_id;
    assert_ne!(id, 0);
    assert_eq!(server.metric("tailrace_fetch_sessions").await, 1.0);

    let incremental = |epoch, wants: &[(i32, i64)]| {
        let mut request = fetch_of(wants);
        (request.session_id, request.session_epoch) = (id, epoch);
        if wants.is_empty() {
            request.topics.clear();
        }
        request
    };
    // The offset did not move, so the records come again. An error is repeated. Partition 1 has nothing new,
    // so it is left out.
    let answer = client.call(12, &incremental(1, &[])).await;
    assert_eq!((answer.session_id, outline(&answer)), (id, vec![(0, ErrorCode::None, 2), unknown]));
    // Sessions are not bound to a connection.
    let mut other = server.connect().await;
    let mut request = incremental(2, &[(0, 2)]);
    request.forgotten_topics_data =
        vec![ForgottenTopic { topic: "t".to_owned(), partitions: vec![7], ..Default::default() }];
    assert_eq!(outline(&other.call(12, &request).await), []);
    producer.produce_to("t", 1, -1, numbered(0, 3, 50)).await;
    assert_eq!(outline(&client.call(12, &incremental(3, &[])).await), [(1, ErrorCode::None, 3)]);
    // A partition is added. For partition 1, a moved high watermark would be news.
    let answer = client.call(12, &incremental(4, &[(1, 3), (2, 0)])).await;
    assert_eq!(outline(&answer), [(2, ErrorCode::None, 0)]);
    // A produce wakes the fetch while it waits.
    let mut waiting = incremental(5, &[]);
    waiting.max_wait_ms = 20_000;
    client.send(12, &waiting).await;
    let mut answer = Box::pin(client.answer::<FetchRequest>(12));
    assert!(tokio::time::timeout(MEANWHILE, &mut answer).await.is_err());
    producer.produce_to("t", 2, -1, numbered(0, 1, 50)).await;
    let (_, response) = tokio::time::timeout(AT_ONCE, answer).await.expect("the fetch is woken");
    assert_eq!(outline(&response), [(2, ErrorCode::None, 1)]);

    // Wrong epochs and ids are refused. The session continues with the right epoch.
    for epoch in [5, 7, 1000, -2] {
        let refused = client.call(12, &incremental(epoch, &[])).await;
        assert_eq!((error(refused.error_code), refused.session_id), (ErrorCode::InvalidFetchSessionEpoch, 0));
    }
    for wrong in [0, id ^ 1, -1] {
        let mut request = incremental(6, &[]);
        request.session_id = wrong;
        assert_eq!(error(client.call(12, &request).await.error_code), ErrorCode::FetchSessionIdNotFound);
    }
    assert_eq!(outline(&client.call(12, &incremental(6, &[(2, 1)])).await), []);
    // The request closes the session.
    let last = client.call(12, &incremental(-1, &[(0, 0)])).await;
    assert_eq!((last.session_id, outline(&last)), (0, vec![(0, ErrorCode::None, 2)]));
    let refused = client.call(12, &incremental(7, &[])).await;
    assert_eq!(error(refused.error_code), ErrorCode::FetchSessionIdNotFound);
    assert_eq!(server.metric("tailrace_fetch_sessions").await, 0.0);
}

/// As in Kafka, the last mention counts.
#[tokio::test]
async fn a_partition_that_is_named_twice_is_answered_once() {
    let (_server, mut client) = with_topic(&[]).await;
    for _ in 0..2 {
        assert_eq!(client.produce_to("t", 1, -1, numbered(0, 1, 10)).await.error_code, 0);
    }
    let answer = client.call(12, &fetch_of(&[(1, 0), (2, 0), (1, 1)])).await;
    assert_eq!(outline(&answer), [(1, ErrorCode::None, 1), (2, ErrorCode::None, 0)]);
    let many: Vec<_> = (0..100_001).map(|partition| (partition, 0)).collect();
    let answer = client.call(12, &fetch_of(&many)).await;
    assert_eq!((error(answer.error_code), answer.responses.len()), (ErrorCode::InvalidRequest, 0));
}

/// Long lists are handled on other threads than short ones. The answers keep their order.
#[tokio::test]
async fn a_long_list_is_answered_as_a_short_one_is() {
    let (_server, mut client) = with_topic(&[]).await;
    assert_eq!(client.produce_to("t", 1, -1, numbered(0, 1, 10)).await.error_code, 0);
    let long: Vec<_> = (0..2000).map(|partition| (partition, 0)).collect();
    for _ in 0..10 {
        client.send(12, &fetch_of(&long)).await;
        client.send(12, &fetch_of(&[(1, 0)])).await;
    }
    for _ in 0..10 {
        let (_, answer) = client.answer::<FetchRequest>(12).await;
        let outline_of_long = outline(&answer);
        assert_eq!(outline_of_long.len(), 2000);
        assert_eq!(outline_of_long[1], (1, ErrorCode::None, 1));
        assert_eq!(outline_of_long[3], (3, ErrorCode::UnknownTopicOrPartition, 0));
        assert_eq!(outline(&client.answer::<FetchRequest>(12).await.1), [(1, ErrorCode::None, 1)]);
    }
}

#[tokio::test]
async fn a_session_by_ids_stays_one() {
    let (_server, mut client) = with_topic(&[]).await;
    let id = client.topic("t").await.topic_id;
    client.produce_to("t", 0, -1, numbered(0, 2, 50)).await;
    let mut full = fetch_of(&[(0, 0)]);
    full.session_epoch = 0;
    full.topics[0].topic_id = id;
    full.topics.push(FetchTopic { topic_id: [9; 16], partitions: vec![wanted(0, 0)], ..Default::default() });
    let answer = client.call(13, &full).await;
    assert_eq!(answer.error_code, 0);
    assert_eq!(answer.responses.len(), 2);
    let unknown =
        answer.responses.iter().find(|topic| topic.topic_id == [9; 16]).expect("the response has the topic");
    assert_eq!(error(unknown.partitions[0].error_code), ErrorCode::UnknownTopicId);
    let mut next =
        FetchRequest { session_id: answer.session_id, session_epoch: 1, ..without_waiting(full.clone()) };
    next.topics.clear();
    let by_name = client.call(12, &next).await;
    assert_eq!(error(by_name.error_code), ErrorCode::FetchSessionTopicIdError);
    let by_id = client.call(13, &next).await;
    assert_eq!((by_id.error_code, by_id.responses.len()), (0, 2));
}

#[tokio::test]
async fn who_gets_no_session_fetches_all_the_same() {
    let server = TestServer::with(&[("max.incremental.fetch.session.cache.slots", "2")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 3, &[]).await;
    client.produce_to("t", 0, -1, numbered(0, 2, 50)).await;
    let mut full = fetch_of(&[(0, 0)]);
    full.session_epoch = 0;
    let mut ids = Vec::new();
    for _ in 0..4 {
        let answer = client.call(12, &full).await;
        assert_eq!(outline(&answer), [(0, ErrorCode::None, 2)]);
        ids.push(answer.session_id);
    }
    assert!(ids[0] != 0 && ids[1] != 0 && ids[0] != ids[1]);
    assert_eq!(ids[2..], [0, 0], "sessions in use are not evicted");
    let mut end = full.clone();
    (end.session_id, end.session_epoch) = (ids[0], -1);
    client.call(12, &end).await;
    assert_ne!(client.call(12, &full).await.session_id, 0);
}

#[tokio::test]
async fn a_waiting_fetch_learns_that_its_topic_is_gone() {
    let (server, mut client) = with_topic(&[]).await;
    let id = client.topic("t").await.topic_id;
    let mut by_name = fetch_of(&[(0, 0)]);
    by_name.max_wait_ms = 20_000;
    let mut by_id = by_name.clone();
    by_id.topics[0].topic_id = id;
    let mut other = server.connect().await;
    client.send(12, &by_name).await;
    other.send(13, &by_id).await;
    let request =
        DeleteTopicsRequest { topic_names: vec!["t".to_owned()], timeout_ms: 5_000, ..Default::default() };
    let mut answer = Box::pin(client.answer::<FetchRequest>(12));
    assert!(tokio::time::timeout(MEANWHILE, &mut answer).await.is_err());
    server.connect().await.call(5, &request).await;
    let (_, named) = tokio::time::timeout(AT_ONCE, answer).await.expect("the fetch is woken");
    assert_eq!(error(only_partition(named).error_code), ErrorCode::UnknownTopicOrPartition);
    let (_, by_id) =
        tokio::time::timeout(AT_ONCE, other.answer::<FetchRequest>(13)).await.expect("the fetch is woken");
    assert_eq!(error(only_partition(by_id).error_code), ErrorCode::UnknownTopicId);
}

#[tokio::test]
async fn a_waiting_fetch_learns_that_its_records_were_deleted() {
    let (server, mut client) = with_topic(&[]).await;
    client.produce_to("t", 0, -1, numbered(0, 10, 50)).await;
    let mut request = fetch_of(&[(0, 2)]);
    (request.max_wait_ms, request.min_bytes) = (20_000, i32::MAX);
    client.send(12, &request).await;
    let mut answer = Box::pin(client.answer::<FetchRequest>(12));
    assert!(tokio::time::timeout(MEANWHILE, &mut answer).await.is_err());
    delete_records(&mut server.connect().await, 0, 5).await;
    let (_, response) = tokio::time::timeout(AT_ONCE, answer).await.expect("the fetch is woken");
    assert_eq!(error(only_partition(response).error_code), ErrorCode::OffsetOutOfRange);
}

/// A first append holds its partition while it starts an epoch on a worker thread. Deleting records needs
/// both the partition and a worker thread.
#[test]
fn deleting_records_and_appending_do_not_wait_for_each_other_for_ever() {
    let settings = [("tailrace.io.threads".to_owned(), "1".to_owned())].into();
    let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default()).expect("legal settings");
    tailrace_runtime::build_runtime(&config).expect("a runtime").block_on(async {
        let mut server = TestServer::start().await;
        let mut client = server.connect().await;
        client.create_topic("t", 8, &[]).await;
        for partition in 0..8 {
            client.produce_to("t", partition, -1, numbered(0, 5, 50)).await;
        }
        for round in 0..3 {
            server.restart().await;
            let both = append_and_delete(server.kafka(), round * 5);
            tokio::time::timeout(Duration::from_secs(20), both).await.expect("no deadlock");
        }
    });
}

async fn append_and_delete(address: std::net::SocketAddr, base: i64) {
    let mut tasks = tokio::task::JoinSet::new();
    for partition in 0..8 {
        tasks.spawn(async move {
            let mut client = Client::to(address).await;
            assert_eq!(client.produce_to("t", partition, -1, numbered(0, 5, 50)).await.error_code, 0);
        });
        tasks.spawn(async move {
            let mut client = Client::to(address).await;
            for offset in 1..4 {
                delete_records(&mut client, partition, base + offset).await;
            }
        });
    }
    tasks.join_all().await;
}

async fn log_start(client: &mut Client) -> i64 {
    client.earliest("t", 0).await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn retention_removes_segments_and_leaves_readers_alone() {
    for (key, limit, old) in [
        ("tailrace.retention.records", "3", false),
        ("retention.bytes", "200000", false),
        ("retention.ms", "1000", true),
    ] {
        let server = TestServer::with(&[("log.retention.check.interval.ms", "50")]).await;
        let mut client = server.connect().await;
        client.create_topic("t", 1, &[("internal.segment.bytes", "500000")]).await;
        for number in 0..30 {
            let time = if old { now().0 - 60_000 } else { now().0 };
            let batch = one_record(number, 200_000, time);
            assert_eq!(
                client.produce_to("t", 0, -1, batch).await.base_offset,
                i64::try_from(number).expect("a small number")
            );
        }
        // A reader that asks for everything and has read nothing yet.
        let mut reader = server.connect().await;
        let mut asked = 0;
        while asked < 30 {
            reader.send(12, &without_waiting(fetch_request("t", 0, asked))).await;
            asked += 2;
        }
        let first = reader.stream().peek(&mut [0; 4]).await;
        assert_eq!(first.expect("the first response arrives"), 4);
        let configs = [(key, Some(limit))];
        set_configs(&mut client, &configs).await;
        let start = tokio::time::timeout(Duration::from_secs(10), async {
            loop {
                let start = log_start(&mut client).await;
                if start > 20 {
                    return start;
                }
                tokio::time::sleep(Duration::from_millis(20)).await;
            }
        });
        let start = start.await.expect("retention removes segments");
        // The log start moves first. The files are removed later.
        eventually("files are removed", || async {
            std::fs::read_dir(server.data_dir().join("t-0")).expect("the folder exists").count() < 20
        })
        .await;
        // Answers that were already being sent are whole. Requests that were not yet processed may be out of
        // range.
        let mut whole = 0;
        for number in 0..15 {
            let (_, response) = reader.answer::<FetchRequest>(12).await;
            let data = only_partition(response);
            match error(data.error_code) {
                ErrorCode::None => {
                    for (offset, value_read) in decoded(&data) {
                        assert_eq!(value_read, value(offset.cast_unsigned(), 200_000));
                    }
                    whole += 1;
                }
                ErrorCode::OffsetOutOfRange => assert!(number * 2 < start, "{key}"),
                other => panic!("{other:?}"),
            }
        }
        assert!(whole >= 2, "{key}: {whole} responses were complete");
        let data = client.fetch_from("t", 0, start).await;
        assert_eq!(data.log_start_offset, start);
        if key != "retention.ms" {
            assert_eq!(
                client.read_all("t", 0, start).await.len(),
                usize::try_from(30 - start).expect("a small number")
            );
        }
    }
}

fn one_record(number: u64, bytes: usize, time: i64) -> Bytes {
    let mut builder = tailrace_records::BatchBuilder::new(BatchOptions::default());
    builder
        .push(tailrace_types::TimestampMs(time), None, Some(&value(number, bytes)), &[])
        .expect("the record fits into the batch");
    builder.build()
}

async fn set_configs(client: &mut Client, configs: &[(&str, Option<&str>)]) {
    use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
    use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
        AlterConfigsResource, AlterableConfig,
    };
    let configs = configs
        .iter()
        .map(|(name, value)| AlterableConfig {
            name: (*name).to_owned(),
            value: value.map(str::to_owned),
            ..Default::default()
        })
        .collect();
    let resource = AlterConfigsResource {
        resource_type: 2,
        resource_name: "t".to_owned(),
        configs,
        ..Default::default()
    };
    let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = client.call(1, &request).await.responses.remove(0);
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
}

/// Consumers that follow a producer get every record once and in order, whatever their limits.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn consumers_follow_producers() {
    const RECORDS: u64 = 600;
    let (server, _client) = with_topic(&[("internal.segment.bytes", "20000")]).await;
    let mut tasks = tokio::task::JoinSet::new();
    for consumer in 0..6_i32 {
        let address = server.kafka();
        tasks.spawn(async move {
            let mut client = Client::to(address).await;
            let mut at = 0;
            while at < i64::try_from(RECORDS).expect("a small number") {
                let mut request = fetch_request("t", 0, at);
                request.topics[0].partitions[0].partition_max_bytes = 1 << (consumer * 4);
                request.min_bytes = consumer * 100;
                request.max_wait_ms = 10;
                for (offset, value) in decoded(&only_partition(client.call(12, &request).await)) {
                    if offset >= at {
                        assert_eq!((offset, number(&value)), (at, at.cast_unsigned()));
                        at += 1;
                    }
                }
            }
        });
    }
    let mut producer = server.connect().await;
    let mut next = 0;
    while next < RECORDS {
        let count = 1 + next % 5;
        producer.send(9, &produce_request("t", 0, 1, numbered(next, count, 60))).await;
        producer.answer::<ProduceRequest>(9).await;
        next += count;
    }
    tokio::time::timeout(Duration::from_secs(30), tasks.join_all()).await.expect("everything arrives");
}
