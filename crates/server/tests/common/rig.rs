//! More of the test server and its client: failing disks, pipelining, raw bytes, fetches, metrics.

use std::collections::BTreeMap;
use std::future::Future;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use bytes::Bytes;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchRequest, FetchTopic};
use tailrace_kafka_wire::messages::fetch_response::{FetchResponse, PartitionData};
use tailrace_kafka_wire::messages::list_offsets_request::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic,
};
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::{PartitionProduceResponse, ProduceResponse};
use tailrace_kafka_wire::{Records, Request, decode_response, request_frame};
use tailrace_records::{BatchBuilder, BatchOptions, DecodedBatch, split_batches};
use tailrace_server::{NodeDisk, Server, Startup, start};
use tailrace_types::TimestampMs;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

use super::{Client, PATIENCE, TestServer, local_disk};

impl TestServer {
    /// Starts a server on this disk.
    pub async fn on(disk: NodeDisk, settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let data_dir = folder.path().join("data").display().to_string();
        let base = [
            ("data.dir", data_dir.as_str()),
            ("kafka", "127.0.0.1:0"),
            ("nats", "127.0.0.1:0"),
            ("http", "127.0.0.1:0"),
            ("tailrace.disk.free.warning.bytes", "0"),
        ];
        let all = base.iter().chain(settings);
        let settings: BTreeMap<_, _> = all.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        let server = Some(launch_on(disk, &settings).await);
        Self { server, settings, folder }
    }

    /// Starts the server again after [`TestServer::stop`].
    pub async fn begin(&mut self, disk: NodeDisk) {
        self.server = Some(launch_on(disk, &self.settings).await);
    }

    /// Starts another server on a copy of the files as they are now, which is what a kill -9 would leave.
    pub async fn crashed_copy(&self) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let data_dir = folder.path().join("data");
        copy_folder(&self.data_dir(), &data_dir);
        let mut settings = self.settings.clone();
        settings.insert("data.dir".to_owned(), data_dir.display().to_string());
        let server = Some(launch_on(local_disk(), &settings).await);
        Self { server, settings, folder }
    }

    pub fn data_dir(&self) -> PathBuf {
        PathBuf::from(&self.settings["data.dir"])
    }

    pub fn http(&self) -> SocketAddr {
        self.server.as_ref().expect("the server is running").addresses().http
    }

    pub async fn stream(&self) -> TcpStream {
        TcpStream::connect(self.kafka()).await.expect("the listener accepts")
    }

    /// Returns the status and body of a page of the HTTP listener.
    pub async fn get(&self, path: &str) -> (u16, String) {
        let mut stream = TcpStream::connect(self.http()).await.expect("the HTTP listener accepts");
        let request = format!("GET {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
        stream.write_all(request.as_bytes()).await.expect("the connection is open");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).await.expect("an answer");
        let status = answer.split(' ').nth(1).and_then(|code| code.parse().ok()).expect("a status");
        let body = answer.split_once("\r\n\r\n").map_or("", |(_, body)| body);
        (status, body.to_owned())
    }

    /// Returns the value on the metric's line that starts with `name`, labels included. With labels, the
    /// value is 0 if there is no such line yet. A metric without labels must already be on the page.
    pub async fn metric(&self, name: &str) -> f64 {
        let (_, page) = self.get("/metrics").await;
        let line = page.lines().find(|line| line.split(' ').next() == Some(name));
        assert!(line.is_some() || name.contains('{'), "no line of /metrics begins with {name}:\n{page}");
        line.map_or(0.0, |line| {
            line.split(' ').nth(1).and_then(|value| value.parse().ok()).expect("a number")
        })
    }

    /// Waits until this many connections are open.
    pub async fn until_connections(&self, count: f64) {
        eventually("connections end", || async { self.metric("tailrace_kafka_connections").await == count })
            .await;
    }

    /// Checks that another client's produce and fetch work, and quickly.
    pub async fn is_healthy(&self, topic: &str) {
        let mut client = self.connect().await;
        let before = Instant::now();
        let answer = client.produce_to(topic, 0, -1, numbered(0, 3, 100)).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        let fetched = client.fetch_from(topic, 0, answer.base_offset).await;
        assert_eq!(fetched.error_code, 0);
        assert_eq!(decoded(&fetched).len(), 3);
        assert!(before.elapsed() < Duration::from_secs(5), "other clients were slowed down");
    }
}

async fn launch_on(disk: NodeDisk, settings: &BTreeMap<String, String>) -> Server {
    tailrace_runtime::install();
    start(Startup { settings: settings.clone(), disk }).await.expect("the server starts")
}

fn copy_folder(from: &std::path::Path, to: &std::path::Path) {
    std::fs::create_dir_all(to).expect("a folder");
    for entry in std::fs::read_dir(from).expect("a readable folder") {
        let entry = entry.expect("an entry");
        let target = to.join(entry.file_name());
        if entry.file_type().expect("a type").is_dir() {
            copy_folder(&entry.path(), &target);
        } else {
            // A file may vanish between listing and copying, as `.deleted` files do.
            let _ = std::fs::copy(entry.path(), target);
        }
    }
}

/// Settings that scrub everything continuously, so that damage is found at once.
pub const SCRUBBING: [(&str, &str); 2] =
    [("tailrace.scrub.interval.ms", "50"), ("tailrace.scrub.bytes.per.second", "1000000000")];

/// Inverts a byte of the second of three equal batches in the first segment of a partition. Doing it twice
/// restores the byte.
pub fn damage_second_batch(server: &TestServer, partition: &str) {
    use std::os::unix::fs::FileExt as _;

    let path = server.data_dir().join(partition).join("00000000000000000000.log");
    let bytes = std::fs::read(&path).expect("the file exists");
    // The file may be longer than its batches: leave out the preallocated space.
    let end = bytes.iter().rposition(|byte| *byte != 0).expect("records") + 1;
    let at = end / 2;
    let file = std::fs::File::options().write(true).open(&path).expect("the file exists");
    file.write_all_at(&[!bytes[at]], at as u64).expect("the file can be written");
}

/// Polls a condition until it holds. Fails after [`PATIENCE`].
pub async fn eventually<F: Future<Output = bool>>(what: &str, condition: impl Fn() -> F) {
    let deadline = Instant::now() + PATIENCE;
    while !condition().await {
        assert!(Instant::now() < deadline, "not within the time limit: {what}");
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

impl Client {
    pub async fn to(address: SocketAddr) -> Self {
        Self::over(TcpStream::connect(address).await.expect("the listener accepts"))
    }

    /// Splits the connection into its two directions.
    pub fn over_halves(self) -> (tokio::net::tcp::OwnedReadHalf, tokio::net::tcp::OwnedWriteHalf) {
        self.stream.into_split()
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    pub fn over(stream: S) -> Self {
        Self { stream, correlation: 0 }
    }

    pub fn stream(&mut self) -> &mut S {
        &mut self.stream
    }

    /// Sends a request without waiting for the answer. Returns its correlation id.
    pub async fn send<R: Request>(&mut self, version: i16, request: &R) -> i32 {
        let frame = self.frame(version, request);
        self.stream.write_all(&frame).await.expect("the connection is open");
        self.correlation
    }

    /// Returns a whole frame with its length.
    pub fn frame<R: Request>(&mut self, version: i16, request: &R) -> Bytes {
        self.correlation += 1;
        let frame = request_frame(self.correlation, Some("test"), version, request)
            .expect("the request can be encoded");
        frame.into_bytes().expect("no external parts")
    }

    /// Sends a request and waits for its answer. `None` as soon as the connection no longer works.
    pub async fn call_while_open<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        let frame = self.frame(version, request);
        self.stream.write_all(&frame).await.ok()?;
        let answer = self.receive().await?;
        Some(decode_response::<R>(answer, version).expect("a well-formed response").1)
    }

    /// Waits for the next answer, which must be for `R`.
    pub async fn answer<R: Request>(&mut self, version: i16) -> (i32, R::Response) {
        let answer = self.receive().await.expect("an answer, not a closed connection");
        decode_response::<R>(answer, version).expect("a well-formed response")
    }

    /// Waits until the server closes the connection, then returns true. Skips any answers before that.
    pub async fn is_closed(&mut self) -> bool {
        while self.receive().await.is_some() {}
        true
    }

    pub async fn produce_to(
        &mut self,
        topic: &str,
        partition: i32,
        acks: i16,
        batch: Bytes,
    ) -> PartitionProduceResponse {
        only_answer(self.call(9, &produce_request(topic, partition, acks, batch)).await)
    }

    /// Returns the log start offset that ListOffsets reports.
    pub async fn earliest(&mut self, topic: &str, partition_index: i32) -> i64 {
        let partition = ListOffsetsPartition { partition_index, timestamp: -2, ..Default::default() };
        let topic =
            ListOffsetsTopic { name: topic.to_owned(), partitions: vec![partition], ..Default::default() };
        let request = ListOffsetsRequest { replica_id: -1, topics: vec![topic], ..Default::default() };
        self.call(5, &request).await.topics[0].partitions[0].offset
    }

    /// Fetches from `offset` on, waiting up to 5 seconds for the first byte.
    pub async fn fetch_from(&mut self, topic: &str, partition: i32, offset: i64) -> PartitionData {
        only_partition(self.call(12, &fetch_request(topic, partition, offset)).await)
    }

    /// Reads everything from `from` up to the high watermark.
    pub async fn read_all(&mut self, topic: &str, partition: i32, from: i64) -> Vec<(i64, Vec<u8>)> {
        let mut all = Vec::new();
        let mut at = from;
        loop {
            let mut request = fetch_request(topic, partition, at);
            request.max_wait_ms = 0;
            let data = only_partition(self.call(12, &request).await);
            assert_eq!(data.error_code, 0, "at {at}");
            let records = decoded(&data);
            let Some((last, _)) = records.last() else { return all };
            let next = last + 1;
            all.extend(records.into_iter().filter(|(offset, _)| *offset >= at));
            at = next;
        }
    }
}

pub fn produce_request(topic: &str, partition: i32, acks: i16, batch: Bytes) -> ProduceRequest {
    let data =
        PartitionProduceData { index: partition, records: Records::Bytes(batch), ..Default::default() };
    let topic = TopicProduceData { name: topic.to_owned(), partition_data: vec![data], ..Default::default() };
    ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms: 20_000,
        topic_data: vec![topic],
        ..Default::default()
    }
}

pub fn only_answer(mut response: ProduceResponse) -> PartitionProduceResponse {
    response.responses.remove(0).partition_responses.remove(0)
}

pub fn wanted(partition: i32, offset: i64) -> FetchPartition {
    FetchPartition {
        partition,
        fetch_offset: offset,
        partition_max_bytes: 1 << 20,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        log_start_offset: -1,
        ..Default::default()
    }
}

/// A fetch request that waits up to 5 seconds for the first byte.
pub fn fetch_request(topic: &str, partition: i32, offset: i64) -> FetchRequest {
    let topic = FetchTopic {
        topic: topic.to_owned(),
        partitions: vec![wanted(partition, offset)],
        ..Default::default()
    };
    FetchRequest {
        max_wait_ms: 5_000,
        min_bytes: 1,
        max_bytes: 50 << 20,
        session_epoch: -1,
        topics: vec![topic],
        ..Default::default()
    }
}

pub fn only_partition(mut response: FetchResponse) -> PartitionData {
    assert_eq!(response.error_code, 0);
    response.responses.remove(0).partitions.remove(0)
}

pub fn bytes_of(data: &PartitionData) -> Bytes {
    match &data.records {
        Records::Bytes(bytes) => bytes.clone(),
        other => panic!("records are never null: {other:?}"),
    }
}

/// Decodes offsets and values. Panics unless every batch is complete and sound.
pub fn decoded(data: &PartitionData) -> Vec<(i64, Vec<u8>)> {
    let bytes = bytes_of(data);
    let mut all = Vec::new();
    for batch in split_batches(&bytes) {
        let (_, batch) = batch.expect("whole batches only");
        let batch = DecodedBatch::new(batch, usize::MAX).expect("a sound batch");
        for record in batch.records() {
            let record = record.expect("a sound record");
            all.push((record.offset.get(), record.value.expect("a value").to_vec()));
        }
    }
    all
}

/// Builds a batch of `count` records of `bytes` bytes each. Their values start with `first`, `first + 1`, ...
pub fn numbered(first: u64, count: u64, bytes: usize) -> Bytes {
    numbered_with(BatchOptions::default(), first, count, bytes)
}

pub fn numbered_with(options: BatchOptions, first: u64, count: u64, bytes: usize) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for number in first..first + count {
        builder.push(now(), None, Some(&value(number, bytes)), &[]).expect("the record fits into the batch");
    }
    builder.build()
}

/// Returns a value that is unique to the number, and long enough.
pub fn value(number: u64, bytes: usize) -> Vec<u8> {
    let mut value = number.to_be_bytes().to_vec();
    let mut state = number | 1;
    while value.len() < bytes {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        value.extend_from_slice(&state.to_be_bytes());
    }
    value.truncate(bytes.max(8));
    value
}

/// Returns the number at the start of a value from [`value`].
pub fn number(value: &[u8]) -> u64 {
    u64::from_be_bytes(*value.first_chunk().expect("eight bytes"))
}

pub fn now() -> TimestampMs {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).expect("after 1970");
    TimestampMs(i64::try_from(since.as_millis()).expect("before the year 292 million"))
}
