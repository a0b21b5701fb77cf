//! What survives a stop, and what survives a crash.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::common;
use crate::common::local_disk;
use crate::common::rig::*;
use crate::common::{Client, TestServer, error};
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::delete_records_request::{DeleteRecordsPartition, DeleteRecordsTopic};
use tailrace_kafka_wire::messages::describe_configs_request::DescribeConfigsResource;
use tailrace_kafka_wire::messages::{
    DeleteRecordsRequest, DeleteTopicsRequest, DescribeClusterRequest, DescribeConfigsRequest,
    InitProducerIdRequest, ProduceRequest,
};
use tailrace_records::BatchOptions;
use tailrace_server::{Startup, start};
use tailrace_types::{ProducerEpoch, ProducerId};

async fn producer_id(client: &mut Client) -> i64 {
    let request = InitProducerIdRequest {
        transactional_id: None,
        producer_id: -1,
        producer_epoch: -1,
        ..Default::default()
    };
    let answer = client.call(4, &request).await;
    assert_eq!((answer.error_code, answer.producer_epoch), (0, 0));
    answer.producer_id
}

fn idempotent(producer: i64, sequence: i32) -> bytes::Bytes {
    let options = BatchOptions {
        producer_id: ProducerId(producer),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    numbered_with(options, u64::try_from(sequence).expect("the sequence is not negative"), 2, 40)
}

async fn delete_records(client: &mut Client, topic: &str, offset: i64) {
    let partitions = vec![DeleteRecordsPartition { partition_index: 0, offset, ..Default::default() }];
    let topics = vec![DeleteRecordsTopic { name: topic.to_owned(), partitions, ..Default::default() }];
    let request = DeleteRecordsRequest { topics, timeout_ms: 5_000, ..Default::default() };
    assert_eq!(client.call(2, &request).await.topics[0].partitions[0].error_code, 0);
}

async fn config_of(client: &mut Client, topic: &str, key: &str) -> Option<String> {
    let resource = DescribeConfigsResource {
        resource_type: 2,
        resource_name: topic.to_owned(),
        configuration_keys: Some(vec![key.to_owned()]),
        ..Default::default()
    };
    let request = DescribeConfigsRequest { resources: vec![resource], ..Default::default() };
    client.call(4, &request).await.results.remove(0).configs.remove(0).value
}

/// Returns the log start and the high watermark.
async fn ends(client: &mut Client, topic: &str) -> (i64, i64) {
    let start = client.earliest(topic, 0).await;
    let data = client.fetch_from(topic, 0, start).await;
    (data.log_start_offset, data.high_watermark)
}

/// Starts a server with topics that hold records, some of them deleted. One topic is strict and one is
/// relaxed.
async fn prepared() -> (TestServer, [[u8; 16]; 2]) {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let strict =
        client.create_topic("strict", 2, &[("internal.segment.bytes", "700"), ("retention.ms", "-1")]).await;
    let relaxed = client.create_topic("relaxed", 1, &[("flush.messages", "1000000")]).await;
    for number in 0..10 {
        for topic in ["strict", "relaxed"] {
            assert_eq!(client.produce_to(topic, 0, -1, numbered(number * 2, 2, 100)).await.error_code, 0);
        }
    }
    delete_records(&mut client, "strict", 7).await;
    (server, [strict, relaxed])
}

async fn is_as_prepared(server: &TestServer, ids: [[u8; 16]; 2]) {
    let mut client = server.connect().await;
    for (name, id, partitions) in [("strict", ids[0], 2), ("relaxed", ids[1], 1)] {
        let topic = client.topic(name).await;
        assert_eq!((topic.error_code, topic.topic_id, topic.partitions.len()), (0, id, partitions));
    }
    assert_eq!(config_of(&mut client, "strict", "retention.ms").await.as_deref(), Some("-1"));
    assert_eq!(ends(&mut client, "strict").await, (7, 20));
    let values =
        |records: Vec<(i64, Vec<u8>)>| records.iter().map(|(o, v)| (*o, number(v))).collect::<Vec<_>>();
    let strict = values(client.read_all("strict", 0, 7).await);
    assert_eq!(strict, (7..20_i64).map(|n| (n, n.cast_unsigned())).collect::<Vec<_>>());
    let relaxed = values(client.read_all("relaxed", 0, 0).await);
    assert_eq!(relaxed, (0..20_i64).map(|n| (n, n.cast_unsigned())).collect::<Vec<_>>());
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test]
async fn everything_is_there_after_a_stop() {
    let (mut server, ids) = prepared().await;
    let cluster = server.connect().await.call(0, &DescribeClusterRequest::default()).await.cluster_id;
    for round in 0..3 {
        server.restart().await;
        is_as_prepared(&server, ids).await;
        let mut client = server.connect().await;
        assert_eq!(client.call(0, &DescribeClusterRequest::default()).await.cluster_id, cluster);
        let appended = client.produce_to("strict", 1, -1, numbered(0, 1, 50)).await;
        assert_eq!((appended.error_code, appended.base_offset), (0, round));
    }
}

#[tokio::test]
async fn everything_is_there_after_a_crash() {
    let (server, ids) = prepared().await;
    let copy = server.crashed_copy().await;
    is_as_prepared(&copy, ids).await;
    let mut client = copy.connect().await;
    let appended = client.produce_to("strict", 0, -1, numbered(20, 1, 50)).await;
    assert_eq!((appended.error_code, appended.base_offset), (0, 20));
    // The same after another crash, which starts another epoch.
    let copy = copy.crashed_copy().await;
    let mut client = copy.connect().await;
    let data = client.fetch_from("strict", 0, 20).await;
    let bytes = bytes_of(&data);
    let (header, _) =
        tailrace_records::split_batches(&bytes).next().expect("a batch").expect("a whole batch");
    assert_eq!((header.base_offset.get(), header.leader_epoch.get()), (20, 1));
}

#[tokio::test]
async fn a_torn_tail_is_cut_off() {
    let (server, ids) = prepared().await;
    let folder = server.data_dir().join("relaxed-0");
    let log = folder.join("00000000000000000000.log");
    let length = std::fs::metadata(&log).expect("the segment").len();
    // Blocks are reserved beyond the end, so the torn batch starts where only zeros follow.
    let end = 10 * numbered(0, 2, 100).len();
    assert!(length >= end as u64);
    let file = std::fs::OpenOptions::new().write(true).open(&log).expect("the log can be opened");
    let torn = numbered(99, 2, 100);
    std::os::unix::fs::FileExt::write_all_at(&file, &torn[..torn.len() - 30], end as u64)
        .expect("the file can be written");
    let copy = server.crashed_copy().await;
    is_as_prepared(&copy, ids).await;
    let appended = copy.connect().await.produce_to("relaxed", 0, -1, numbered(20, 1, 50)).await;
    assert_eq!((appended.error_code, appended.base_offset), (0, 20));
}

#[tokio::test]
async fn duplicates_are_known_after_a_restart_and_after_a_crash() {
    let mut server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    let producer = producer_id(&mut client).await;
    for sequence in (0..14).step_by(2) {
        let appended = client.produce_to("t", 0, -1, idempotent(producer, sequence)).await;
        assert_eq!((appended.error_code, appended.base_offset), (0, sequence.into()));
    }
    let crashed = server.crashed_copy().await;
    server.restart().await;
    for server in [&server, &crashed] {
        let mut client = server.connect().await;
        for sequence in (4..14).step_by(2) {
            let again = client.produce_to("t", 0, -1, idempotent(producer, sequence)).await;
            assert_eq!((again.error_code, again.base_offset), (0, sequence.into()), "a duplicate");
        }
        for sequence in [2, 16, 13] {
            let refused = client.produce_to("t", 0, -1, idempotent(producer, sequence)).await;
            assert_eq!(error(refused.error_code), ErrorCode::OutOfOrderSequenceNumber, "{sequence}");
        }
        let next = client.produce_to("t", 0, -1, idempotent(producer, 14)).await;
        assert_eq!((next.error_code, next.base_offset), (0, 14));
        assert_eq!(client.read_all("t", 0, 0).await.len(), 16);
    }
}

/// A duplicate of a batch that is not durable yet waits like the original, and gets the same answer.
#[tokio::test]
async fn a_duplicate_waits_for_the_sync_of_its_original() {
    let tap = common::tap::Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    let producer = producer_id(&mut client).await;
    client.produce_to("t", 0, -1, idempotent(producer, 0)).await;
    tap.hold("/t-0/");
    let request = produce_request("t", 0, -1, idempotent(producer, 2));
    client.send(9, &request).await;
    eventually("the records are appended", || async {
        server.metric("tailrace_produced_records_total").await == 4.0
    })
    .await;
    let mut retry = server.connect().await;
    retry.send(9, &request).await;
    let mut answer = Box::pin(retry.answer::<ProduceRequest>(9));
    assert!(tokio::time::timeout(Duration::from_millis(150), &mut answer).await.is_err(), "not durable yet");
    tap.release("/t-0/");
    assert_eq!(only_answer(answer.await.1).base_offset, 2);
    assert_eq!(only_answer(client.answer::<ProduceRequest>(9).await.1).base_offset, 2);
    assert_eq!(client.read_all("t", 0, 0).await.len(), 4);
}

#[tokio::test]
async fn producer_ids_are_never_given_twice() {
    let mut server = TestServer::start().await;
    let mut given = Vec::new();
    for round in 0..3 {
        let mut client = server.connect().await;
        for _ in 0..5 {
            given.push(producer_id(&mut client).await);
        }
        if round == 1 {
            let crashed = server.crashed_copy().await;
            let after_crash = producer_id(&mut crashed.connect().await).await;
            assert!(!given.contains(&after_crash), "{after_crash} in {given:?}");
        }
        server.restart().await;
    }
    let mut distinct = given.clone();
    distinct.sort_unstable();
    distinct.dedup();
    assert_eq!(distinct.len(), given.len(), "{given:?}");
}

#[tokio::test]
async fn a_deleted_topic_stays_deleted_and_its_successor_is_another() {
    let (mut server, ids) = prepared().await;
    let mut client = server.connect().await;
    let request = DeleteTopicsRequest {
        topic_names: vec!["strict".to_owned()],
        timeout_ms: 5_000,
        ..Default::default()
    };
    assert_eq!(client.call(5, &request).await.responses[0].error_code, 0);
    let crashed = server.crashed_copy().await;
    server.restart().await;
    for server in [&server, &crashed] {
        let mut client = server.connect().await;
        assert_eq!(error(client.topic("strict").await.error_code), ErrorCode::UnknownTopicOrPartition);
        let left = std::fs::read_dir(server.data_dir()).expect("the folder exists");
        let names: Vec<_> =
            left.map(|e| e.expect("an entry").file_name().into_string().expect("ASCII")).collect();
        assert!(!names.iter().any(|name| name.contains("strict")), "{names:?}");
        let id = client.create_topic("strict", 1, &[]).await;
        assert_ne!(id, ids[0]);
        assert_eq!(client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await.base_offset, 0);
        let stale = {
            let mut request = produce_request("", 0, -1, numbered(0, 1, 50));
            request.topic_data[0].topic_id = ids[0];
            only_answer(client.call(13, &request).await)
        };
        assert_eq!(error(stale.error_code), ErrorCode::UnknownTopicId);
    }
}

#[tokio::test]
async fn a_damaged_partition_is_offline_and_the_others_are_not() {
    let (mut server, _) = prepared().await;
    server.stop().await;
    let folder = server.data_dir().join("strict-0");
    // Neither of the two files that say whose log it is can be read.
    for name in ["partition.meta", "checkpoint"] {
        let path = folder.join(name);
        let mut bytes = std::fs::read(&path).expect("the file exists");
        *bytes.last_mut().expect("a checksum") ^= 1;
        std::fs::write(&path, bytes).expect("the file can be written");
    }
    server.begin(local_disk()).await;
    let mut client = server.connect().await;
    let answer = client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await;
    assert_eq!(error(answer.error_code), ErrorCode::KafkaStorageError);
    assert_eq!(error(client.fetch_from("strict", 0, 0).await.error_code), ErrorCode::KafkaStorageError);
    for (topic, partition) in [("strict", 1), ("relaxed", 0)] {
        assert_eq!(client.produce_to(topic, partition, -1, numbered(0, 1, 50)).await.error_code, 0);
    }
    let (status, body) = server.get("/healthz").await;
    assert_eq!(status, 503);
    assert!(body.contains("strict-0 is offline") && body.contains("partition.meta"), "{body}");
    // The damaged topic can be deleted.
    let request = DeleteTopicsRequest {
        topic_names: vec!["strict".to_owned()],
        timeout_ms: 5_000,
        ..Default::default()
    };
    assert_eq!(client.call(5, &request).await.responses[0].error_code, 0);
    client.create_topic("strict", 1, &[]).await;
    server.is_healthy("strict").await;
    assert_eq!(server.get("/healthz").await.0, 200);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_stop_under_load_keeps_what_was_acknowledged() {
    let mut server = TestServer::start().await;
    server.connect().await.create_topic("t", 4, &[]).await;
    let mut acknowledged: BTreeMap<(i32, i64), u64> = BTreeMap::new();
    for round in 0..3_u64 {
        let mut tasks = tokio::task::JoinSet::new();
        for producer in 0..8_u64 {
            tasks.spawn(produce_until_closed(server.kafka(), round * 1_000_000 + producer * 10_000));
        }
        let mut waiting = server.connect().await;
        let mut fetch = fetch_request("t", 3, 1_000_000);
        fetch.topics[0].partitions[0].fetch_offset = 0;
        (fetch.max_wait_ms, fetch.min_bytes) = (60_000, i32::MAX);
        waiting.send(12, &fetch).await;
        // Nothing reports when a fetch is waiting. If it arrives late, the check is only weaker.
        tokio::time::sleep(Duration::from_millis(200)).await;
        let before = Instant::now();
        server.restart().await;
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
        while let Some(done) = tasks.join_next().await {
            acknowledged.extend(done.expect("a producer ends when the server does"));
        }
    }
    let mut client = server.connect().await;
    let mut stored = BTreeMap::new();
    for partition in 0..4 {
        for (offset, value) in client.read_all("t", partition, 0).await {
            stored.insert((partition, offset), number(&value));
        }
    }
    assert!(acknowledged.len() > 24);
    for (place, number) in &acknowledged {
        assert_eq!(stored.get(place), Some(number), "{place:?}");
    }
}

/// Produces until the connection is closed. Returns where each acknowledged number went.
async fn produce_until_closed(address: std::net::SocketAddr, first: u64) -> Vec<((i32, i64), u64)> {
    let mut client = Client::to(address).await;
    let mut acknowledged = Vec::new();
    for number in first.. {
        let partition = i32::try_from(number % 4).expect("small");
        let request = produce_request("t", partition, -1, numbered(number, 1, 100));
        let Some(response) = client.call_while_open(9, &request).await else { break };
        let answer = only_answer(response);
        if answer.error_code != 0 {
            break;
        }
        acknowledged.push(((partition, answer.base_offset), number));
    }
    acknowledged
}

async fn refusal(settings: &[(&str, &str)]) -> String {
    let settings = settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    match start(Startup { settings, disk: local_disk() }).await {
        Ok(_) => panic!("the server started"),
        Err(error) => error.to_string(),
    }
}

#[tokio::test]
async fn a_folder_that_cannot_be_used_is_named_in_one_line() {
    let (mut server, _) = prepared().await;
    let data_dir = server.data_dir().display().to_string();
    let base = [("data.dir", data_dir.as_str()), ("kafka", "127.0.0.1:0"), ("http", "127.0.0.1:0")];
    let locked = refusal(&base).await;
    assert!(locked.contains(&data_dir) && locked.contains("another"), "{locked}");
    server.stop().await;

    let other_node = refusal(&[&base[..], &[("node.id", "7")]].concat()).await;
    assert!(other_node.contains("node.id=1"), "{other_node}");

    let meta = server.data_dir().join("tailrace.meta");
    std::fs::remove_file(server.data_dir().join("tailrace.meta.copy")).expect("the file exists");
    let text = std::fs::read_to_string(&meta).expect("the file exists");
    let mut of_a_newer_build: serde_json::Value = serde_json::from_str(&text).expect("the file is JSON");
    of_a_newer_build["format"] = 999.into();
    // Replace the checksum too. With a wrong one, the file would count as damaged.
    of_a_newer_build.as_object_mut().expect("a JSON object").remove("crc").expect("it has a checksum");
    of_a_newer_build["crc"] = crc32c::crc32c(of_a_newer_build.to_string().as_bytes()).into();
    std::fs::write(&meta, of_a_newer_build.to_string()).expect("the file can be written");
    let newer = refusal(&base).await;
    assert!(newer.contains("format 999") && newer.contains("newer"), "{newer}");
    std::fs::write(&meta, "nonsense").expect("the file can be written");
    let damaged = refusal(&base).await;
    assert!(damaged.contains("tailrace.meta") && damaged.contains("damaged"), "{damaged}");
    std::fs::write(&meta, text).expect("the file can be written");

    let file = server.data_dir().join("a-file");
    std::fs::write(&file, "").expect("the file can be written");
    let path = file.display().to_string();
    let not_a_folder = refusal(&[&base[1..], &[("data.dir", path.as_str())]].concat()).await;
    assert!(not_a_folder.contains(&path), "{not_a_folder}");
    for line in [locked, other_node, newer, damaged, not_a_folder] {
        assert!(!line.contains('\n'), "{line}");
    }
    // None of these refusals changed the folder.
    server.begin(local_disk()).await;
    server.is_healthy("strict").await;
}
