//! A server in its own folder, and a simple client of the Kafka protocol.

#![allow(dead_code, unreachable_pub, reason = "each test binary uses its part")]

pub mod certificates;
pub mod issuer;
pub mod lines;
pub mod logins;
pub mod nats;
pub mod rig;
pub mod tap;
pub mod watched;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use tailrace_kafka_wire::messages::create_topics_request::{
    CreatableTopic, CreatableTopicConfig, CreateTopicsRequest,
};
use tailrace_kafka_wire::messages::metadata_request::{MetadataRequest, MetadataRequestTopic};
use tailrace_kafka_wire::messages::metadata_response::MetadataResponseTopic;
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::PartitionProduceResponse;
use tailrace_kafka_wire::{ErrorCode, Records, Request, decode_response, request_frame};
use tailrace_node::Node;
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_runtime::disk::LocalDisk;
use tailrace_server::{NodeDisk, Server, Startup, start};
use tailrace_types::TimestampMs;
use tempfile::TempDir;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::TcpStream;

/// Longer than any answer takes. A test that hangs fails after this time.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// A running server and its folder.
pub(crate) struct TestServer {
    server: Option<Server>,
    settings: BTreeMap<String, String>,
    folder: TempDir,
}

impl TestServer {
    pub(crate) async fn start() -> Self {
        Self::with(&[]).await
    }

    pub(crate) async fn with(settings: &[(&str, &str)]) -> Self {
        let folder = TempDir::new().expect("a temporary folder");
        let data_dir = folder.path().join("data").display().to_string();
        let base = [
            ("data.dir", data_dir.as_str()),
            ("kafka", "127.0.0.1:0"),
            ("nats", "127.0.0.1:0"),
            ("http", "127.0.0.1:0"),
            // Tests must not depend on how much space is free on the machine's disk.
            ("tailrace.disk.free.warning.bytes", "0"),
        ];
        let all = base.iter().chain(settings);
        let mut settings: BTreeMap<_, _> =
            all.map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
        if settings.contains_key("listeners") {
            settings.remove("kafka");
        }
        let server = Some(launch(&settings).await);
        Self { server, settings, folder }
    }

    pub(crate) async fn restart(&mut self) {
        self.stop().await;
        self.server = Some(launch(&self.settings).await);
    }

    /// Restarts the server with these settings changed.
    pub(crate) async fn restart_with(&mut self, settings: &[(&str, &str)]) {
        self.settings.extend(settings.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())));
        if self.settings.contains_key("listeners") {
            self.settings.remove("kafka");
        }
        self.restart().await;
    }

    pub(crate) async fn stop(&mut self) {
        let server = self.server.take().expect("the server is running");
        assert_eq!(server.stop().await, 0, "partitions that were not closed cleanly");
    }

    /// Returns the server's data folder.
    pub(crate) fn data(&self) -> std::path::PathBuf {
        self.folder.path().join("data")
    }

    pub(crate) fn kafka(&self) -> SocketAddr {
        self.server.as_ref().expect("the server is running").addresses().kafka
    }

    /// Returns the address of a Kafka listener, by its place in the settings.
    pub(crate) fn listener(&self, number: usize) -> SocketAddr {
        let addresses = self.server.as_ref().expect("the server is running").addresses();
        addresses.all_kafka().nth(number).expect("the settings have that many listeners")
    }

    /// Connects to a Kafka listener, by its place in the settings.
    pub(crate) async fn connect_to(&self, number: usize) -> Client {
        let stream = TcpStream::connect(self.listener(number)).await.expect("the listener accepts");
        Client { stream, correlation: 0 }
    }

    /// Returns the node behind the listeners.
    pub(crate) fn node(&self) -> &Arc<Node> {
        self.server.as_ref().expect("the server is running").node()
    }

    pub(crate) fn nats(&self) -> SocketAddr {
        self.server
            .as_ref()
            .expect("the server is running")
            .addresses()
            .nats
            .expect("the server has a NATS listener")
    }

    /// Returns the address that other nodes connect to.
    pub(crate) fn cluster(&self) -> SocketAddr {
        self.server
            .as_ref()
            .expect("the server is running")
            .addresses()
            .cluster
            .expect("the server has a cluster listener")
    }

    /// Puts the server into lame duck mode, as SIGUSR2 does.
    pub(crate) async fn lame_duck(&self) {
        self.server
            .as_ref()
            .expect("the server is running")
            .lame_duck()
            .await
            .expect("the server does not panic");
    }

    pub(crate) async fn connect(&self) -> Client {
        let stream = TcpStream::connect(self.kafka()).await.expect("the listener accepts");
        Client { stream, correlation: 0 }
    }
}

/// Returns the real disk of this machine.
pub(crate) fn local_disk() -> NodeDisk {
    NodeDisk::new(LocalDisk::default())
}

async fn launch(settings: &BTreeMap<String, String>) -> Server {
    tailrace_runtime::install();
    start(Startup { settings: settings.clone(), disk: local_disk() }).await.expect("the server starts")
}

/// One connection, plain or over TLS.
pub(crate) struct Client<S = TcpStream> {
    stream: S,
    correlation: i32,
}

impl<S: AsyncRead + AsyncWrite + Unpin> Client<S> {
    /// Sends a request and waits for its answer.
    pub(crate) async fn call<R: Request>(&mut self, version: i16, request: &R) -> R::Response {
        self.try_call(version, request).await.expect("an answer, not a closed connection")
    }

    /// Like [`Client::call`], but `None` if the server closes the connection instead of answering.
    pub(crate) async fn try_call<R: Request>(&mut self, version: i16, request: &R) -> Option<R::Response> {
        self.correlation += 1;
        let frame = request_frame(self.correlation, Some("test"), version, request)
            .expect("the request can be encoded");
        self.stream.write_all(&frame.into_bytes().expect("no external parts")).await.ok()?;
        let answer = self.receive().await?;
        let (correlation, response) = decode_response::<R>(answer, version).expect("a well-formed response");
        assert_eq!(correlation, self.correlation);
        Some(response)
    }

    /// Sends a request and disconnects without waiting for its answer.
    pub(crate) async fn abandon<R: Request>(mut self, version: i16, request: &R) {
        let frame = request_frame(1, Some("test"), version, request).expect("the request can be encoded");
        self.stream
            .write_all(&frame.into_bytes().expect("no external parts"))
            .await
            .expect("the connection is open");
    }

    /// Sends a frame with this content and waits for the answer. `None` if the server closes the connection.
    pub(crate) async fn raw(&mut self, body: &[u8]) -> Option<Bytes> {
        let length = i32::try_from(body.len()).expect("a short frame");
        self.stream.write_all(&[&length.to_be_bytes(), body].concat()).await.expect("the connection is open");
        self.receive().await
    }

    async fn receive(&mut self) -> Option<Bytes> {
        let read = async {
            let length = self.stream.read_i32().await.ok()?;
            let mut bytes = vec![0; usize::try_from(length).expect("the length is not negative")];
            self.stream.read_exact(&mut bytes).await.ok()?;
            Some(bytes.into())
        };
        tokio::time::timeout(PATIENCE, read).await.expect("an answer in time")
    }

    /// Creates a topic with these partitions and settings. Panics if the server refuses.
    pub(crate) async fn create_topic(
        &mut self,
        name: &str,
        partitions: i32,
        configs: &[(&str, &str)],
    ) -> [u8; 16] {
        let request =
            CreateTopicsRequest { topics: vec![topic(name, partitions, configs)], ..Default::default() };
        let response = self.call(7, &request).await;
        let created = &response.topics[0];
        assert_eq!((created.error_code, &created.error_message), (0, &None), "{name}");
        created.topic_id
    }

    /// Returns one topic as Metadata shows it, without creating it.
    pub(crate) async fn topic(&mut self, name: &str) -> MetadataResponseTopic {
        let topic = MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() };
        let request = MetadataRequest {
            topics: Some(vec![topic]),
            allow_auto_topic_creation: false,
            ..Default::default()
        };
        self.call(12, &request).await.topics.remove(0)
    }

    /// Appends one record for each timestamp and returns the first offset. Panics if the server refuses.
    pub(crate) async fn produce(&mut self, topic: &str, partition: i32, timestamps: &[i64]) -> i64 {
        let answer = self.produce_batch(topic, partition, batch(BatchOptions::default(), timestamps)).await;
        assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
        answer.base_offset
    }

    pub(crate) async fn produce_batch(
        &mut self,
        topic: &str,
        partition: i32,
        batch: Bytes,
    ) -> PartitionProduceResponse {
        let data =
            PartitionProduceData { index: partition, records: Records::Bytes(batch), ..Default::default() };
        let topic_data =
            TopicProduceData { name: topic.to_owned(), partition_data: vec![data], ..Default::default() };
        let request = ProduceRequest {
            transactional_id: None,
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic_data],
            ..Default::default()
        };
        self.call(9, &request).await.responses.remove(0).partition_responses.remove(0)
    }
}

/// Builds a batch with one record for each timestamp.
pub(crate) fn batch(options: BatchOptions, timestamps: &[i64]) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    for &timestamp in timestamps {
        builder
            .push(TimestampMs(timestamp), Some(b"key"), Some(b"value"), &[])
            .expect("the record fits into the batch");
    }
    builder.build()
}

/// Describes a topic to be created with one replica.
pub(crate) fn topic(name: &str, partitions: i32, configs: &[(&str, &str)]) -> CreatableTopic {
    CreatableTopic {
        name: name.to_owned(),
        num_partitions: partitions,
        replication_factor: 1,
        configs: configs.iter().map(|(key, value)| config(key, Some(value))).collect(),
        ..Default::default()
    }
}

pub(crate) fn config(key: &str, value: Option<&str>) -> CreatableTopicConfig {
    CreatableTopicConfig { name: key.to_owned(), value: value.map(str::to_owned), ..Default::default() }
}

/// No error. (The enum calls it `None`, which reads like an absent value.)
pub(crate) const OK: ErrorCode = ErrorCode::None;

/// Returns the error that a code stands for.
pub(crate) fn error(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).expect("a known code")
}
