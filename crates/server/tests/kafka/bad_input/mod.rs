//! Input that no client should send. The server gives the answer that Kafka gives or cuts the connection, and
//! other clients notice nothing.

mod batches;
mod frames;
mod limits;
mod pace;

use std::time::Duration;

use crate::common;
use crate::common::TestServer;
use crate::common::rig::*;
use bytes::Bytes;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, ListOffsetsRequest, MetadataRequest, list_offsets_request,
};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// Small limits, so that tests reach them.
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

/// Sends bytes and waits for the end of the connection. Returns true if the server answered nothing.
async fn is_cut(server: &TestServer, bytes: &[u8]) -> bool {
    let mut stream = server.stream().await;
    // The server may close the connection during this write.
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

/// A request header: key, version, correlation id, no client id.
fn header(key: i16, version: i16) -> Vec<u8> {
    [&key.to_be_bytes()[..], &version.to_be_bytes(), &7_i32.to_be_bytes(), &(-1_i16).to_be_bytes()].concat()
}

/// Returns well-formed requests of the main APIs, without their length field.
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

/// Announces a Produce request of `bytes` bytes and sends the first `sent` of them. Returns how many bytes
/// were sent in all.
async fn begin_frame(stream: &mut TcpStream, bytes: i32, sent: usize) -> f64 {
    let mut begun = [&bytes.to_be_bytes()[..], &header(0, 9)].concat();
    begun.resize(begun.len().max(sent), 0);
    stream.write_all(&begun).await.expect("the connection is open");
    begun.len() as f64
}

async fn memory(server: &TestServer) -> f64 {
    server.metric("tailrace_request_memory_bytes").await
}
