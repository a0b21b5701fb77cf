//! What clients send that no client should: each gets the answer that Kafka gives, or is cut off, and the others do
//! not notice.

use std::time::{Duration, Instant};

use crate::common;
use crate::common::rig::*;
use crate::common::tap::Tap;
use crate::common::{Client, TestServer, error};
use bytes::Bytes;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{
    ApiVersionsRequest, CreateTopicsRequest, FetchRequest, ListOffsetsRequest, MetadataRequest,
    ProduceRequest, list_offsets_request,
};
use tailrace_records::{BatchBuilder, BatchOptions, Compression};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::JoinSet;

const CODECS: [Compression; 4] =
    [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd];

/// Small limits, so that they are reached.
const SETTINGS: &[(&str, &str)] = &[
    ("socket.request.max.bytes", "1048576"),
    ("queued.max.request.bytes", "1048576"),
    ("tailrace.decompressed.bytes.max", "1048576"),
    ("tailrace.request.read.timeout.ms", "1000"),
    ("tailrace.response.write.timeout.ms", "1000"),
];

async fn server() -> TestServer {
    server_with(&[]).await
}

async fn server_with(settings: &[(&str, &str)]) -> TestServer {
    let server = TestServer::with(&[SETTINGS, settings].concat()).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    server
}

/// Sends bytes and waits for the end of the connection; true if nothing was answered.
async fn is_cut(server: &TestServer, bytes: &[u8]) -> bool {
    let mut stream = server.stream().await;
    // The server may close while this still writes.
    let _ = stream.write_all(bytes).await;
    let mut answer = Vec::new();
    let ended = tokio::time::timeout(Duration::from_secs(20), stream.read_to_end(&mut answer)).await;
    ended.expect("the connection is closed").ok();
    answer.is_empty()
}

fn framed(body: &[u8]) -> Vec<u8> {
    let length = i32::try_from(body.len()).expect("short");
    [&length.to_be_bytes(), body].concat()
}

/// Key, version, correlation id, no client id.
fn header(key: i16, version: i16) -> Vec<u8> {
    [&key.to_be_bytes()[..], &version.to_be_bytes(), &7_i32.to_be_bytes(), &(-1_i16).to_be_bytes()].concat()
}

#[tokio::test]
async fn frames_of_impossible_lengths_end_the_connection() {
    let server = server().await;
    for length in [-1, i32::MIN, 0, 1_048_577, i32::MAX] {
        assert!(is_cut(&server, &[&length.to_be_bytes()[..], &[0; 32]].concat()).await, "{length}");
    }
    assert!(is_cut(&server, b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n").await);
    assert!(is_cut(&server, &[0x16, 3, 1, 2, 0, 1, 0, 1, 0xfc, 3, 3]).await, "a TLS client hello");
    let cut = async |reason| {
        server.metric(&format!("tailrace_kafka_connections_cut_total{{reason=\"{reason}\"}}")).await
    };
    assert_eq!((cut("frame_length").await, cut("tls_on_plain").await), (6.0, 1.0));
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

#[tokio::test]
async fn headers_that_make_no_sense_end_the_connection() {
    let server = server().await;
    let long_client = [&header(3, 1)[..8], &5000_i16.to_be_bytes()].concat();
    let bodies = [
        vec![0],
        header(3, 0)[..4].to_vec(),
        header(3, 0)[..9].to_vec(),
        header(999, 0),
        header(-1, 0),
        header(4, 0),
        header(71, 0),
        header(52, 0),
        header(3, 14),
        header(3, -1),
        header(0, 2),
        header(0, 14),
        header(1, 3),
        header(2, 0),
        header(19, 1),
        header(11, 0),
        long_client,
    ];
    for body in &bodies {
        assert!(is_cut(&server, &framed(body)).await, "{body:?}");
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// KIP-511: error 35 in the layout of version 0; the connection goes on.
#[tokio::test]
async fn a_header_full_of_unknown_tagged_fields_ends_the_connection() {
    let server = server().await;
    // ApiVersions version 3, in whose header and body tagged fields may stand: names of the software in the body.
    let request = |tags: usize| {
        let mut body = header(18, 3);
        body.extend(varint(tags));
        for tag in 0..tags {
            body.extend(varint(1000 + tag));
            // Smaller ones meet the bound of what decoding may take first.
            body.extend(b"\x04tags");
        }
        body.extend([2, b'a', 2, b'1', 0]);
        framed(&body)
    };
    let mut stream = server.stream().await;
    stream.write_all(&request(1024)).await.unwrap();
    let mut length = [0; 4];
    stream.read_exact(&mut length).await.expect("an answer");
    assert!(is_cut(&server, &request(1025)).await);
    assert!(is_cut(&server, &request(100_000)).await);
    server.is_healthy("t").await;
}

/// An unsigned variable-length integer.
fn varint(mut value: usize) -> Vec<u8> {
    let mut bytes = Vec::new();
    while value >= 0x80 {
        bytes.push((value & 0x7f) as u8 | 0x80);
        value >>= 7;
    }
    bytes.push(value as u8);
    bytes
}

#[tokio::test]
async fn an_unknown_version_of_api_versions_is_answered() {
    let server = server().await;
    let mut client = server.connect().await;
    for version in [5, 99, -1, 32_767] {
        // Headers from version 3 on end with tags.
        let tags: &[u8] = if version >= 3 { &[0] } else { &[] };
        let answer = client.raw(&[&header(18, version), tags].concat()).await.expect("an answer");
        assert_eq!(answer.to_vec(), [0, 0, 0, 7, 0, 35, 0, 0, 0, 1, 0, 18, 0, 0, 0, 4]);
    }
    assert_eq!(client.call(0, &ApiVersionsRequest::default()).await.error_code, 0);
}

#[tokio::test]
async fn counts_and_lengths_beyond_the_frame_end_the_connection() {
    let server = server().await;
    let metadata = |tail: &[u8]| [&header(3, 1), tail].concat();
    let flexible = |key, version, tail: &[u8]| [&header(key, version)[..], &[0], tail].concat();
    let bodies = [
        metadata(&i32::MAX.to_be_bytes()),
        metadata(&[&1_i32.to_be_bytes()[..], &100_i16.to_be_bytes()].concat()),
        metadata(&[&1_i32.to_be_bytes()[..], &(-2_i16).to_be_bytes()].concat()),
        // Lengths as variable numbers: too many bytes, the largest number, tags without end.
        flexible(3, 12, &[0xff; 6]),
        flexible(3, 12, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        [&header(3, 12)[..], &[0xff, 0xff, 0xff, 0xff, 0x0f]].concat(),
        flexible(0, 9, &[0, 0, 1, 0, 0, 0, 0, 0xff, 0xff, 0xff, 0xff, 0x0f]),
        flexible(1, 12, &[0xff; 40]),
    ];
    for body in &bodies {
        assert!(is_cut(&server, &framed(body)).await, "{body:?}");
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// Requests of the main APIs as they should be, without their length field.
fn good_requests() -> Vec<Bytes> {
    let mut client_frames = Vec::new();
    let mut push = |frame: tailrace_kafka_wire::Frame| {
        client_frames.push(frame.into_bytes().expect("no external parts").slice(4..));
    };
    let frame = |n, v| {
        tailrace_kafka_wire::request_frame(n, Some("c"), v, &produce_request("t", 0, -1, numbered(0, 2, 20)))
    };
    push(frame(1, 9).expect("legal"));
    push(frame(1, 3).expect("legal"));
    let mut fetch = fetch_request("t", 0, 0);
    fetch.max_wait_ms = 0;
    for version in [4, 12] {
        push(tailrace_kafka_wire::request_frame(1, Some("c"), version, &fetch).expect("legal"));
    }
    let topic = MetadataRequestTopic { name: Some("t".to_owned()), ..Default::default() };
    let metadata =
        MetadataRequest { topics: Some(vec![topic]), allow_auto_topic_creation: false, ..Default::default() };
    for version in [4, 12] {
        push(tailrace_kafka_wire::request_frame(1, Some("c"), version, &metadata).expect("legal"));
    }
    let create = CreateTopicsRequest {
        topics: vec![common::topic("made", 1, &[("flush.ms", "5")])],
        validate_only: true,
        ..Default::default()
    };
    push(tailrace_kafka_wire::request_frame(1, Some("c"), 7, &create).expect("legal"));
    let partition = list_offsets_request::ListOffsetsPartition { timestamp: -1, ..Default::default() };
    let topic = list_offsets_request::ListOffsetsTopic {
        name: "t".to_owned(),
        partitions: vec![partition],
        ..Default::default()
    };
    let offsets = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
    push(tailrace_kafka_wire::request_frame(1, Some("c"), 7, &offsets).expect("legal"));
    client_frames
}

#[tokio::test]
async fn a_request_cut_short_anywhere_ends_the_connection() {
    let server = server().await;
    for request in good_requests() {
        assert!(!is_cut_or_answered(&server, &request).await, "the whole request is answered");
        for bytes in 1..request.len() {
            assert!(is_cut(&server, &framed(&request[..bytes])).await, "{bytes} bytes of {request:?}");
        }
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// False if it is answered, true if the connection is closed instead.
async fn is_cut_or_answered(server: &TestServer, body: &[u8]) -> bool {
    server.connect().await.raw(body).await.is_none()
}

#[tokio::test]
async fn requests_with_random_damage_harm_nobody() {
    let server = server().await;
    let requests = good_requests();
    let mut state = 0x5eed_u64;
    let mut random = |bound: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        usize::try_from(state >> 33).expect("31 bits") % bound
    };
    for number in 0..600 {
        let mut body = requests[number % requests.len()].to_vec();
        for _ in 0..=random(3) {
            let at = random(body.len());
            body[at] = [0, 0x7f, 0x80, 0xff, u8::try_from(random(256)).expect("a byte")][random(5)];
        }
        let mut stream = server.stream().await;
        stream.write_all(&framed(&body)).await.expect("it is taken");
        // Answered, closed, or waiting (a fetch whose waiting time was hit): all are fine.
        let mut answer = [0; 64];
        let _ = tokio::time::timeout(Duration::from_millis(5), stream.read(&mut answer)).await;
    }
    server.until_connections(0.0).await;
    server.is_healthy("t").await;
}

/// Puts the right checksum on a batch that was tampered with.
fn sealed(mut batch: Vec<u8>) -> Bytes {
    let crc = crc32c::crc32c(&batch[21..]);
    batch[17..21].copy_from_slice(&crc.to_be_bytes());
    batch.into()
}

fn tampered(at: usize, bytes: &[u8]) -> Bytes {
    let mut batch = numbered(0, 3, 40).to_vec();
    batch[at..at + bytes.len()].copy_from_slice(bytes);
    sealed(batch)
}

/// A compressed batch of `bytes` bytes of zeros.
fn zeros(codec: Compression, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(BatchOptions { compression: codec, ..BatchOptions::default() });
    builder.push(now(), None, Some(&vec![0; bytes]), &[]).expect("there is room");
    builder.build()
}

#[tokio::test]
async fn batches_that_are_not_sound_are_refused_and_leave_nothing_behind() {
    use ErrorCode::{CorruptMessage, InvalidRecord, MessageTooLarge};
    let server = server().await;
    let mut client = server.connect().await;
    let good = numbered(0, 3, 40);
    let mut wrong_crc = good.to_vec();
    wrong_crc[80] ^= 1;
    let longer = i32::try_from(good.len() - 12 + 10).expect("short");
    let shorter = i32::try_from(good.len() - 12 - 10).expect("short");
    let mut cases = vec![
        ("wrong CRC", wrong_crc.into(), CorruptMessage),
        ("length beyond the field", tampered(8, &longer.to_be_bytes()), InvalidRecord),
        ("length of less", tampered(8, &shorter.to_be_bytes()), CorruptMessage),
        ("length of less than a header", tampered(8, &10_i32.to_be_bytes()), CorruptMessage),
        ("negative length", tampered(8, &(-5_i32).to_be_bytes()), CorruptMessage),
        ("more records", tampered(57, &4_i32.to_be_bytes()), InvalidRecord),
        ("fewer records", tampered(57, &2_i32.to_be_bytes()), InvalidRecord),
        ("negative records", tampered(57, &(-1_i32).to_be_bytes()), InvalidRecord),
        ("very many records", tampered(57, &i32::MAX.to_be_bytes()), InvalidRecord),
        ("last offset disagrees", tampered(23, &9_i32.to_be_bytes()), InvalidRecord),
        ("magic 0", tampered(16, &[0]), InvalidRecord),
        ("magic 1", tampered(16, &[1]), InvalidRecord),
        ("magic 3", tampered(16, &[3]), CorruptMessage),
        ("a control batch", tampered(21, &[0, 0x20]), InvalidRecord),
        ("an unknown codec", tampered(21, &[0, 6]), CorruptMessage),
        ("base offset", tampered(0, &1_i64.to_be_bytes()), InvalidRecord),
        ("two batches", [&good[..], &good].concat().into(), InvalidRecord),
        ("half a batch", good.slice(..good.len() / 2), InvalidRecord),
        ("half a header", good.slice(..30), InvalidRecord),
        ("nothing", Bytes::new(), InvalidRecord),
    ];
    for codec in CODECS {
        let compressed = zeros(codec, 5000).to_vec();
        let mut torn = compressed.clone();
        torn.truncate(compressed.len() - 5);
        let length = i32::try_from(torn.len() - 12).expect("short");
        torn[8..12].copy_from_slice(&length.to_be_bytes());
        cases.push(("torn compression", sealed(torn), CorruptMessage));
        let mut noise = compressed.clone();
        noise[61..].iter_mut().enumerate().for_each(|(n, byte)| *byte = (n * 37 + 11) as u8);
        cases.push(("noise as compression", sealed(noise), CorruptMessage));
        cases.push(("a bomb", zeros(codec, 3 << 20), MessageTooLarge));
    }
    for (what, batch, code) in cases {
        let mut request = produce_request("t", 0, -1, batch);
        request.timeout_ms = 5_000;
        let settled = client.try_call(9, &request).await.expect("an answer");
        let answer = only_answer(settled);
        assert_eq!(error(answer.error_code), code, "{what}: {:?}", answer.error_message);
        assert_eq!(answer.base_offset, -1, "{what}");
    }
    assert_eq!(client.read_all("t", 0, 0).await.len(), 0);
    assert_eq!(client.produce_to("t", 0, -1, good).await.base_offset, 0);
}

#[tokio::test]
async fn a_batch_may_have_the_largest_size_and_no_byte_more() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    let batch = numbered(0, 1, 500);
    let limit = batch.len().to_string();
    client.create_topic("fits", 1, &[("max.message.bytes", &limit)]).await;
    let limit = (batch.len() - 1).to_string();
    client.create_topic("short", 1, &[("max.message.bytes", &limit)]).await;
    assert_eq!(client.produce_to("fits", 0, -1, batch.clone()).await.error_code, 0);
    let refused = client.produce_to("short", 0, -1, batch).await;
    assert_eq!(error(refused.error_code), ErrorCode::MessageTooLarge);
}

#[tokio::test]
async fn acks_0_with_an_error_closes_and_without_goes_on() {
    let server = server().await;
    let mut client = server.connect().await;
    client.send(9, &produce_request("t", 0, 0, numbered(0, 1, 50))).await;
    assert_eq!(client.topic("t").await.error_code, 0, "the connection goes on, without an answer");
    client.send(9, &produce_request("t", 0, 0, tampered(16, &[1]))).await;
    assert!(client.is_closed().await);
    let mut client = server.connect().await;
    client.send(9, &produce_request("nowhere", 0, 0, numbered(0, 1, 50))).await;
    assert!(client.is_closed().await);
    let mut client = server.connect().await;
    assert_eq!(decoded(&client.fetch_from("t", 0, 0).await).len(), 1);
    for acks in [2, -2, 100] {
        let answer = client.produce_to("t", 0, acks, numbered(0, 1, 50)).await;
        assert_eq!(error(answer.error_code), ErrorCode::InvalidRequiredAcks);
    }
    assert_eq!(client.read_all("t", 0, 0).await.len(), 1);
}

async fn refused_count(server: &TestServer, limit: &str) -> f64 {
    server.metric(&format!("tailrace_kafka_connections_refused_total{{reason=\"{limit}\"}}")).await
}

#[tokio::test]
async fn connections_beyond_the_limit_are_closed_at_once() {
    let server = TestServer::with(&[("max.connections", "4")]).await;
    let mut open = Vec::new();
    for _ in 0..4 {
        let mut client = server.connect().await;
        client.call(0, &ApiVersionsRequest::default()).await;
        open.push(client);
    }
    for _ in 0..3 {
        assert!(server.connect().await.is_closed().await);
    }
    assert_eq!(refused_count(&server, "max.connections").await, 3.0);
    for client in &mut open {
        client.call(0, &ApiVersionsRequest::default()).await;
    }
    open.pop();
    server.until_connections(3.0).await;
    server.connect().await.call(0, &ApiVersionsRequest::default()).await;
}

#[tokio::test]
async fn connections_from_one_address_are_limited() {
    let server = TestServer::with(&[("max.connections.per.ip", "2")]).await;
    let from = async |address: &str| {
        let socket = TcpSocket::new_v4().expect("a socket");
        socket
            .bind(format!("{address}:0").parse().expect("an address"))
            .expect("loopback addresses are ours");
        Client::over(socket.connect(server.kafka()).await.expect("the listener accepts"))
    };
    let mut first = (from("127.0.0.2").await, from("127.0.0.2").await);
    first.1.call(0, &ApiVersionsRequest::default()).await;
    assert!(from("127.0.0.2").await.is_closed().await);
    assert_eq!(refused_count(&server, "max.connections.per.ip").await, 1.0);
    from("127.0.0.3").await.call(0, &ApiVersionsRequest::default()).await;
    drop(first.0);
    server.until_connections(1.0).await;
    from("127.0.0.2").await.call(0, &ApiVersionsRequest::default()).await;
}

async fn memory(server: &TestServer) -> f64 {
    server.metric("tailrace_request_memory_bytes").await
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_at_once_share_a_bounded_memory() {
    // Those who hold the memory are not cut before the others come.
    let server = server_with(&[("tailrace.request.read.timeout.ms", "30000")]).await;
    // Most of the memory is taken, and one more frame is beyond the bound: the others have to wait.
    let mut holders = [server.stream().await, server.stream().await];
    for (holder, (bytes, sent, held)) in
        holders.iter_mut().zip([(900_000, 800_000, 900_000.0), (300_000, 270_000, 1_200_000.0)])
    {
        begin_frame(holder, bytes, sent).await;
        eventually("the frame has its memory", async || memory(&server).await >= held).await;
    }
    let mut tasks = JoinSet::new();
    for client in 0..16 {
        let address = server.kafka();
        tasks.spawn(async move {
            let mut client_connection = Client::to(address).await;
            for round in 0..4 {
                let batch = numbered(client * 10 + round, 1, 300_000);
                let answer = client_connection.produce_to("t", 0, -1, batch).await;
                assert_eq!(answer.error_code, 0);
            }
        });
    }
    let waits = async || server.metric("tailrace_request_memory_waits_total").await > 0.0;
    eventually("another frame waits for memory", waits).await;
    drop(holders);
    let mut most: f64 = 0.0;
    while !tasks.is_empty() {
        most = most.max(memory(&server).await);
        while let Some(done) = tasks.try_join_next() {
            done.expect("every request is answered");
        }
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // One frame at a time may go beyond the bound.
    assert!(most <= 1_048_576.0 + 400_000.0, "{most} bytes were held");
    assert_eq!(memory(&server).await, 0.0);
    let mut numbers: Vec<_> =
        server.connect().await.read_all("t", 0, 0).await.iter().map(|(_, value)| number(value)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..16).flat_map(|c| (0..4).map(move |r| c * 10 + r)).collect::<Vec<_>>());
}

/// While many smaller requests come and go, the one that needs nearly all of the memory gets its turn.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_very_large_request_is_not_overtaken_for_ever() {
    let server = server().await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let address = server.kafka();
        tasks.spawn(async move {
            let mut client = Client::to(address).await;
            let batch = numbered(0, 1, 400_000);
            // Two requests under way, so that one is always being read.
            client.send(9, &produce_request("t", 0, 1, batch.clone())).await;
            loop {
                client.send(9, &produce_request("t", 0, 1, batch.clone())).await;
                client.answer::<ProduceRequest>(9).await;
            }
        });
    }
    eventually("memory is short", || async {
        server.metric("tailrace_request_memory_waits_total").await > 5.0
    })
    .await;
    let mut large = server.connect().await;
    for _ in 0..3 {
        let before = Instant::now();
        let produced = large.produce_to("t", 0, -1, numbered(1, 1, 1_000_000));
        let answer = tokio::time::timeout(Duration::from_secs(10), produced).await.expect("it gets its turn");
        assert_eq!(answer.error_code, 0);
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    }
    tasks.shutdown().await;
    server.until_connections(1.0).await;
    assert_eq!(memory(&server).await, 0.0);
}

/// Announces a Produce request of `bytes` bytes and sends the first of them.
async fn begin_frame(stream: &mut TcpStream, bytes: i32, sent: usize) {
    let mut begun = [&bytes.to_be_bytes()[..], &header(0, 9)].concat();
    begun.resize(begun.len().max(sent), 0);
    stream.write_all(&begun).await.expect("it is taken");
}

/// What others have announced and not sent is taken from nobody.
#[tokio::test]
async fn announced_frames_hold_no_memory() {
    let server = server().await;
    let mut lazy = [server.stream().await, server.stream().await, server.stream().await];
    for stream in &mut lazy {
        begin_frame(stream, 1_048_000, 0).await;
    }
    let answer = server.connect().await.produce_to("t", 0, -1, numbered(0, 1, 500_000)).await;
    assert_eq!(answer.error_code, 0);
    assert_eq!(server.metric("tailrace_request_memory_waits_total").await, 0.0);
    assert_eq!(memory(&server).await, 0.0);
}

/// Only records need large frames.
#[tokio::test]
async fn frames_without_records_have_a_bound_of_their_own() {
    let server = TestServer::with(&[("tailrace.request.other.max.bytes", "1000")]).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    for key in [1, 2, 3, 8, 11, 14, 18, 20, 32, 999] {
        assert!(is_cut(&server, &[&1001_i32.to_be_bytes()[..], &header(key, 4)].concat()).await, "{key}");
    }
    let cut = server.metric("tailrace_kafka_connections_cut_total{reason=\"frame_length\"}").await;
    assert_eq!(cut, 10.0);
    let answer = server.connect().await.produce_to("t", 0, -1, numbered(0, 1, 5000)).await;
    assert_eq!(answer.error_code, 0);
}

#[tokio::test]
async fn large_frames_that_never_complete_starve_nobody() {
    let server = server().await;
    // The first one takes all the memory there is, the second one goes beyond.
    let mut lazy = [server.stream().await, server.stream().await];
    for (stream, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        begin_frame(stream, 1_048_000, 300_000).await;
        eventually("it holds memory", || async { memory(&server).await > held }).await;
    }
    server.is_healthy("t").await;
    // Large requests wait until the lazy ones' time is up.
    let before = Instant::now();
    let answer = server.connect().await.produce_to("t", 0, -1, numbered(0, 1, 500_000)).await;
    assert_eq!(answer.error_code, 0);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert!(server.metric("tailrace_request_memory_waits_total").await > 0.0);
    for stream in &mut lazy {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0, "it was cut off");
    }
    assert_eq!(server.metric("tailrace_kafka_connections_cut_total{reason=\"slow_request\"}").await, 2.0);
}

/// Whoever sends a little now and then keeps its time, and is cut all the same while others wait for the memory that it holds.
#[tokio::test]
async fn a_large_frame_that_trickles_makes_way_for_those_who_wait() {
    let settings: Vec<_> =
        SETTINGS.iter().copied().filter(|(key, _)| *key != "tailrace.request.read.timeout.ms").collect();
    let server = TestServer::with(&settings).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    let mut lazy = [server.stream().await, server.stream().await];
    for (stream, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        begin_frame(stream, 1_048_000, 300_000).await;
        eventually("it holds memory", || async { memory(&server).await > held }).await;
    }
    let trickle = tokio::spawn(async move {
        while lazy[0].write_all(&[0; 100]).await.is_ok() && lazy[1].write_all(&[0; 100]).await.is_ok() {
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut client = server.connect().await;
    let produced = client.produce_to("t", 0, -1, numbered(0, 1, 500_000));
    let answer = tokio::time::timeout(Duration::from_secs(20), produced).await.expect("it gets its turn");
    assert_eq!(answer.error_code, 0);
    trickle.abort();
}

/// An answer that is still due, such as that of a waiting fetch, must not make the server patient.
#[tokio::test]
async fn nor_do_they_behind_a_waiting_fetch() {
    let server = server().await;
    let mut lazy = [server.connect().await, server.connect().await];
    for (client, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        let mut fetch = fetch_request("t", 0, 0);
        fetch.max_wait_ms = 60_000;
        client.send(12, &fetch).await;
        begin_frame(client.stream(), 1_048_000, 300_000).await;
        eventually("it holds memory", || async { memory(&server).await > held }).await;
    }
    let before = Instant::now();
    let mut client = server.connect().await;
    let produced = client.produce_to("t", 0, -1, numbered(0, 1, 500_000));
    let answer = tokio::time::timeout(Duration::from_secs(10), produced).await.expect("memory is given back");
    assert_eq!(answer.error_code, 0);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}

#[tokio::test]
async fn a_client_that_sends_a_byte_now_and_then_is_cut_off() {
    let server = server().await;
    let mut stream = server.stream().await;
    let frame = framed(&good_requests()[0]);
    let before = Instant::now();
    let mut sent = 0;
    let mut answer = [0; 8];
    while before.elapsed() < Duration::from_secs(10) {
        if stream.write_all(&frame[sent..=sent]).await.is_err() {
            break;
        }
        sent += 1;
        match tokio::time::timeout(Duration::from_millis(200), stream.read(&mut answer)).await {
            Err(_) => {}
            Ok(read) => {
                assert_eq!(read.unwrap_or(0), 0, "nothing is answered");
                break;
            }
        }
    }
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert!(sent > 3);
    assert_eq!(server.metric("tailrace_kafka_connections_cut_total{reason=\"slow_request\"}").await, 1.0);
    server.is_healthy("t").await;
}

#[tokio::test]
async fn a_slow_request_is_read_if_it_keeps_its_time() {
    let server = server().await;
    let mut stream = server.stream().await;
    let frame = framed(&good_requests()[4]);
    for part in frame.chunks(frame.len() / 4) {
        stream.write_all(part).await.expect("it is taken");
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    assert!(stream.read_i32().await.expect("an answer") > 0);
}

#[tokio::test]
async fn an_idle_connection_is_closed_and_a_waiting_one_is_not() {
    let server = TestServer::with(&[("connections.max.idle.ms", "1000")]).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    let mut waiting = server.connect().await;
    let mut fetch = fetch_request("t", 0, 0);
    fetch.max_wait_ms = 3_000;
    waiting.send(12, &fetch).await;
    assert!(server.connect().await.is_closed().await);
    assert_eq!(waiting.answer::<FetchRequest>(12).await.1.error_code, 0);
}

/// Fetches, and metadata, are asked for and never read.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_never_reads_its_answers_is_cut_off() {
    let server = server().await;
    let mut client = server.connect().await;
    for _ in 0..16 {
        client.produce_to("t", 0, -1, numbered(0, 1, 900_000)).await;
    }
    let mut greedy = server.connect().await;
    for _ in 0..40 {
        greedy.send(12, &fetch_request("t", 0, 0)).await;
    }
    let names =
        (0..2_000).map(|n| MetadataRequestTopic { name: Some(format!("unknown-{n}")), ..Default::default() });
    let metadata = MetadataRequest {
        topics: Some(names.collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let mut chatty = server.connect().await;
    let frame = chatty.frame(12, &metadata);
    // Until the socket takes no more, then on until it is closed.
    let flood = async { while chatty.stream().write_all(&frame).await.is_ok() {} };
    let others = async {
        let end = Instant::now() + Duration::from_millis(1500);
        while Instant::now() < end {
            server.is_healthy("t").await;
        }
    };
    let patience = Duration::from_secs(20);
    let ((), flooded) = tokio::join!(others, tokio::time::timeout(patience, flood));
    flooded.expect("the flood is cut off");
    let cut = "tailrace_kafka_connections_cut_total{reason=\"slow_reader\"}";
    eventually("both are cut off", || async { server.metric(cut).await == 2.0 }).await;
    server.until_connections(1.0).await;
}

/// A client that reads slowly but steadily gets everything.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_client_that_reads_slowly_gets_everything() {
    let server = server().await;
    let mut client = server.connect().await;
    for number in 0..6 {
        client.produce_to("t", 0, -1, numbered(number, 1, 900_000)).await;
    }
    let mut slow = server.connect().await;
    let mut fetch = fetch_request("t", 0, 0);
    fetch.topics[0].partitions[0].partition_max_bytes = 50 << 20;
    slow.send(12, &fetch).await;
    let total = slow.stream().read_i32().await.expect("an answer");
    let mut left = usize::try_from(total).expect("a length");
    assert!(left > 5_400_000);
    let mut buffer = vec![0; 256 * 1024];
    while left > 0 {
        tokio::time::sleep(Duration::from_millis(60)).await;
        let read = slow.stream().read(&mut buffer).await.expect("it is not cut off");
        assert!(read > 0, "it is not cut off");
        left -= read;
    }
}

#[tokio::test]
async fn a_client_that_closes_its_half_gets_its_answers() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    server.is_healthy("t").await;
    tap.hold("/t-0/");
    let mut client = server.connect().await;
    for number in 0..3 {
        client.send(9, &produce_request("t", 0, -1, numbered(number, 1, 50))).await;
    }
    client.stream().shutdown().await.expect("it is connected");
    eventually("all are appended", || async {
        server.metric("tailrace_produced_records_total").await == 6.0
    })
    .await;
    tap.release("/t-0/");
    for number in 0..3 {
        assert_eq!(only_answer(client.answer::<ProduceRequest>(9).await.1).base_offset, 3 + number);
    }
    assert!(client.is_closed().await);
    server.until_connections(0.0).await;
}

#[tokio::test]
async fn connections_left_in_any_state_are_given_up() {
    let server = server().await;
    let fetch = {
        let mut fetch = fetch_request("t", 0, 0);
        fetch.max_wait_ms = 2_000;
        fetch
    };
    for _ in 0..5 {
        drop(server.stream().await);
        let mut half = server.stream().await;
        half.write_all(&[0, 0]).await.expect("it is taken");
        let mut partial = server.stream().await;
        begin_frame(&mut partial, 1000, 0).await;
        let mut large = server.stream().await;
        begin_frame(&mut large, 900_000, 300_000).await;
        let mut waiting = server.connect().await;
        waiting.send(12, &fetch).await;
        let mut pipelined = server.connect().await;
        for _ in 0..10 {
            pipelined.send(9, &produce_request("t", 0, -1, numbered(0, 1, 50))).await;
        }
    }
    server.until_connections(0.0).await;
    assert_eq!(memory(&server).await, 0.0);
    server.is_healthy("t").await;
}

#[tokio::test]
async fn pipelined_requests_are_answered_in_order() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    let mut client = server.connect().await;
    client.create_topic("strict", 1, &[]).await;
    client.create_topic("empty", 1, &[]).await;
    client.produce_to("strict", 0, -1, numbered(0, 1, 50)).await;
    tap.hold("/strict-0/");
    let mut wait = fetch_request("empty", 0, 0);
    wait.max_wait_ms = 300;
    let first = client.send(9, &produce_request("strict", 0, -1, numbered(1, 1, 50))).await;
    client.send(12, &MetadataRequest { topics: Some(Vec::new()), ..Default::default() }).await;
    client.send(12, &wait).await;
    client.send(9, &produce_request("strict", 0, 1, numbered(2, 1, 50))).await;
    client.send(9, &produce_request("strict", 0, 0, numbered(3, 1, 50))).await;
    client.send(9, &produce_request("strict", 0, -1, numbered(4, 1, 50))).await;
    eventually("all are appended", || async {
        server.metric("tailrace_produced_records_total").await == 5.0
    })
    .await;
    tap.release("/strict-0/");
    assert_eq!(client.answer::<ProduceRequest>(9).await.0, first);
    assert_eq!(client.answer::<MetadataRequest>(12).await.0, first + 1);
    assert_eq!(client.answer::<FetchRequest>(12).await.0, first + 2);
    let (correlation, response) = client.answer::<ProduceRequest>(9).await;
    assert_eq!((correlation, only_answer(response).base_offset), (first + 3, 2));
    let (correlation, response) = client.answer::<ProduceRequest>(9).await;
    assert_eq!((correlation, only_answer(response).base_offset), (first + 5, 4));
    let numbers: Vec<_> = client.read_all("strict", 0, 0).await.iter().map(|(_, v)| number(v)).collect();
    assert_eq!(numbers, [0, 1, 2, 3, 4]);
}

#[tokio::test]
async fn more_requests_than_may_be_in_flight_wait_their_turn() {
    let server = TestServer::with(&[("tailrace.connection.in.flight.max", "3")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    let first = client.send(9, &produce_request("t", 0, -1, numbered(0, 1, 50))).await;
    for number in 1..200 {
        client.send(9, &produce_request("t", 0, -1, numbered(number, 1, 50))).await;
    }
    for number in 0..200 {
        let (correlation, response) = client.answer::<ProduceRequest>(9).await;
        assert_eq!(correlation, first + number);
        assert_eq!(only_answer(response).base_offset, i64::from(number));
    }
}

/// Answers that cannot leave because an earlier one waits are held in memory, so they count.
#[tokio::test]
async fn answers_behind_a_waiting_one_are_bounded() {
    let server = TestServer::start().await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    let mut fetch = fetch_request("t", 0, 0);
    fetch.max_wait_ms = 1_500;
    client.send(12, &fetch).await;
    let names =
        (0..2_000).map(|n| MetadataRequestTopic { name: Some(format!("unknown-{n}")), ..Default::default() });
    let metadata = MetadataRequest {
        topics: Some(names.collect()),
        allow_auto_topic_creation: false,
        ..Default::default()
    };
    let frame = client.frame(12, &metadata);
    let (mut from, mut to) = client.over_halves();
    let requests = 60;
    let sender = tokio::spawn(async move {
        for _ in 0..requests {
            to.write_all(&frame).await.expect("it is taken in the end");
        }
        (frame.len(), to)
    });
    tokio::time::sleep(Duration::from_millis(700)).await;
    let received = server.metric("tailrace_kafka_received_bytes_total").await;
    for _ in 0..=requests {
        let length = from.read_i32().await.expect("an answer");
        tokio::io::copy(
            &mut (&mut from).take(u64::try_from(length).expect("a length")),
            &mut tokio::io::sink(),
        )
        .await
        .expect("an answer");
    }
    let (frame_bytes, _to) = sender.await.expect("all was sent");
    // One answer is larger than its request: a mebibyte of answers is less of requests.
    println!("{received} of {} bytes were read", requests * frame_bytes);
    assert!(received < (1 << 20) as f64 + 2.0 * frame_bytes as f64, "{received} bytes were read");
}
