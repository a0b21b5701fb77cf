//! The shipped sessions of all fronts, and the links between nodes, over a network in memory. No socket of
//! the kernel is opened. This is its own binary, because the world is set for the whole process.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../../../env/tests/network/mod.rs"]
mod network;
mod world;

use std::io::{self, IoSlice};
use std::net::SocketAddr;
use std::path::Path;
use std::sync::Arc;

use tailrace_env::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tailrace_env::net::{self, Stream};
use tailrace_env::time::{self, Duration, Instant};
use tailrace_kafka_wire::messages::api_versions_request::ApiVersionsRequest;
use tailrace_server::NodeDisk;

use common::rig::{decoded, fetch_request, numbered, only_partition};
use common::watched::{DiskWatcher, WatchedDisk};
use common::{Client, TestServer};

const PATIENCE: Duration = Duration::from_secs(60);

/// A watcher that lets everything through.
#[derive(Debug)]
struct Calm;

impl DiskWatcher for Calm {
    fn write(
        &self,
        _: &Path,
        _: u64,
        _: &[IoSlice<'_>],
        write: &mut dyn FnMut() -> io::Result<()>,
    ) -> io::Result<()> {
        write()
    }

    fn sync(&self, _: &Path, sync: &mut dyn FnMut() -> io::Result<()>) -> io::Result<()> {
        sync()
    }

    fn before_preallocate(&self, _: &Path, _: u64) -> io::Result<()> {
        Ok(())
    }
}

async fn start(settings: &[(&str, &str)]) -> TestServer {
    world::install();
    TestServer::on(NodeDisk::new(WatchedDisk::without_descriptors(Arc::new(Calm))), settings).await
}

async fn connect(address: SocketAddr) -> Stream {
    let kernel = tokio::net::TcpStream::connect(address).await;
    assert_eq!(
        kernel.unwrap_err().kind(),
        io::ErrorKind::ConnectionRefused,
        "the server listens only in memory"
    );
    net::connect(&address.to_string()).await.unwrap()
}

/// Reads until the input ends with `end`.
async fn until(stream: &mut Stream, end: &str) -> String {
    let mut all = Vec::new();
    let reading = async {
        while !all.ends_with(end.as_bytes()) {
            assert!(stream.read_buf(&mut all).await.unwrap() > 0, "the connection ended after {all:?}");
        }
    };
    time::timeout(PATIENCE, reading).await.expect("the text arrives");
    String::from_utf8(all).unwrap()
}

async fn nats(server: &TestServer) -> Stream {
    let mut stream = connect(server.nats()).await;
    assert!(until(&mut stream, "\r\n").await.starts_with("INFO {"));
    stream.write_all(b"CONNECT {\"verbose\":false}\r\nPING\r\n").await.unwrap();
    assert_eq!(until(&mut stream, "\r\n").await, "PONG\r\n");
    stream
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_kafka_client_produces_and_fetches() {
    let mut server = start(&[]).await;
    let mut client = Client::over(connect(server.kafka()).await);
    let versions = client.call(0, &ApiVersionsRequest::default()).await;
    assert_eq!(versions.error_code, 0);
    client.create_topic("t", 1, &[]).await;
    // More than the outbox copies at once, and more than the network holds.
    for batch in 0..10 {
        let answer = client.produce_to("t", 0, -1, numbered(batch * 100, 100, 500)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, i64::try_from(batch).unwrap() * 100));
    }
    let fetched = client.fetch_from("t", 0, 0).await;
    let offsets: Vec<i64> = decoded(&fetched).into_iter().map(|(offset, _)| offset).collect();
    assert_eq!(offsets, (0..1000).collect::<Vec<_>>());
    // A fetch that waits for new records gets them long before its wait is over.
    let mut waiting = Client::over(connect(server.kafka()).await);
    let mut fetch = fetch_request("t", 0, 1000);
    fetch.max_wait_ms = 120_000;
    let both =
        async { tokio::join!(waiting.call(12, &fetch), client.produce_to("t", 0, -1, numbered(1000, 1, 9))) };
    let (fetched, answer) = time::timeout(PATIENCE / 2, both).await.expect("the fetch is woken");
    assert_eq!((answer.base_offset, decoded(&only_partition(fetched)).len()), (1000, 1));
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nats_clients_of_two_nodes_hear_each_other() {
    let mut one = start(&[("node.id", "1"), ("cluster.listen", "127.0.0.1:0")]).await;
    let seed = one.cluster().to_string();
    let joining =
        [("node.id", "2"), ("cluster.listen", "127.0.0.1:0"), ("tailrace.cluster.seeds", seed.as_str())];
    let mut two = start(&joining).await;
    let (mut here, mut there) = (nats(&one).await, nats(&two).await);
    there.write_all(b"SUB orders.> 7\r\nPING\r\n").await.unwrap();
    assert_eq!(until(&mut there, "PONG\r\n").await, "PONG\r\n");
    there.write_all(b"PUB orders.eu 5\r\nlocal\r\n").await.unwrap();
    assert_eq!(until(&mut there, "local\r\n").await, "MSG orders.eu 7 5\r\nlocal\r\n");
    // The other node learns of the subscription a little later.
    let heard = async {
        loop {
            here.write_all(b"PUB orders.us 6\r\nremote\r\n").await.unwrap();
            if time::timeout(Duration::from_millis(50), std::future::poll_fn(|cx| there.poll_read_ready(cx)))
                .await
                .is_ok()
            {
                return until(&mut there, "remote\r\n").await;
            }
        }
    };
    let heard = time::timeout(PATIENCE, heard).await.expect("the message crosses the link");
    assert!(heard.starts_with("MSG orders.us 7 6\r\nremote\r\n"), "{heard}");
    drop((here, there));
    two.stop().await;
    one.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_is_served() {
    let mut server = start(&[]).await;
    let mut stream = connect(server.http()).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    time::timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .expect("the server closes the connection")
        .unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK\r\n") && answer.contains("{\"status\":\"ok\"}"), "{answer}");
    server.stop().await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn half_a_request_is_given_up_after_two_seconds() {
    let mut server = start(&[]).await;
    let began = Instant::now();
    let mut stream = connect(server.http()).await;
    stream.write_all(b"GET /healthz HTTP/1.1\r\nHost").await.unwrap();
    let mut answer = String::new();
    time::timeout(PATIENCE, stream.read_to_string(&mut answer))
        .await
        .expect("the server closes the connection")
        .unwrap();
    assert!(!answer.contains("200 OK"), "{answer}");
    let took = began.elapsed();
    assert!(
        (Duration::from_secs(2)..Duration::from_secs(10)).contains(&took),
        "the server closed it after {took:?}"
    );
    server.stop().await;
}
