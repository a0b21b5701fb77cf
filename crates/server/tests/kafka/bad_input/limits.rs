//! Connections and memory: how many connections and how much memory clients may use, and which clients make
//! way.

use super::*;
use std::time::{Duration, Instant};

use crate::common::rig::*;
use crate::common::{Client, TestServer};
use tailrace_kafka_wire::messages::{ApiVersionsRequest, ProduceRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpSocket;
use tokio::task::JoinSet;

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
            .expect("a loopback address is available");
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

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn large_requests_at_once_share_a_bounded_memory() {
    // A long timeout, so that the holders of the memory are not cut off before the others come.
    let server = server_with(&[("tailrace.request.read.timeout.ms", "30000")]).await;
    // Take most of the memory, then let one more frame exceed the bound. The others have to wait.
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
        // Pause between two samples.
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
    // One frame at a time may exceed the bound.
    assert!(most <= 1_048_576.0 + 400_000.0, "{most} bytes were held");
    assert_eq!(memory(&server).await, 0.0);
    let mut numbers: Vec<_> =
        server.connect().await.read_all("t", 0, 0).await.iter().map(|(_, value)| number(value)).collect();
    numbers.sort_unstable();
    assert_eq!(numbers, (0..16).flat_map(|c| (0..4).map(move |r| c * 10 + r)).collect::<Vec<_>>());
}

/// A request that needs nearly all of the memory gets its turn while many smaller requests come and go.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_very_large_request_is_not_overtaken_for_ever() {
    let server = server().await;
    let mut tasks = JoinSet::new();
    for _ in 0..8 {
        let address = server.kafka();
        tasks.spawn(async move {
            let mut client = Client::to(address).await;
            let batch = numbered(0, 1, 400_000);
            // Two requests in flight, so that one is always being read.
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
        let answer =
            tokio::time::timeout(Duration::from_secs(10), produced).await.expect("the request gets its turn");
        assert_eq!(answer.error_code, 0);
        assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    }
    tasks.shutdown().await;
    server.until_connections(1.0).await;
    assert_eq!(memory(&server).await, 0.0);
}

/// Frames that were announced but not sent take no memory from other requests.
#[tokio::test]
async fn announced_frames_hold_no_memory() {
    let server = server().await;
    let received = "tailrace_kafka_received_bytes_total";
    let before = server.metric(received).await;
    let mut lazy = [server.stream().await, server.stream().await, server.stream().await];
    let mut announced = 0.0;
    for stream in &mut lazy {
        announced += begin_frame(stream, 1_048_000, 0).await;
    }
    eventually("all requests are read", || async { server.metric(received).await == before + announced })
        .await;
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
    // The first one takes all the memory, the second one exceeds it.
    let mut lazy = [server.stream().await, server.stream().await];
    for (stream, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        begin_frame(stream, 1_048_000, 300_000).await;
        eventually("the request holds memory", || async { memory(&server).await > held }).await;
    }
    server.is_healthy("t").await;
    // Large requests wait until the lazy clients time out.
    let before = Instant::now();
    let answer = server.connect().await.produce_to("t", 0, -1, numbered(0, 1, 500_000)).await;
    assert_eq!(answer.error_code, 0);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
    assert!(server.metric("tailrace_request_memory_waits_total").await > 0.0);
    for stream in &mut lazy {
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0, "the connection is closed");
    }
    assert_eq!(server.metric("tailrace_kafka_connections_cut_total{reason=\"slow_request\"}").await, 2.0);
}

/// A client that sends a little now and then never times out. It is cut off anyway while others wait for the
/// memory that it holds.
#[tokio::test]
async fn a_large_frame_that_trickles_makes_way_for_those_who_wait() {
    let settings: Vec<_> =
        SETTINGS.iter().copied().filter(|(key, _)| *key != "tailrace.request.read.timeout.ms").collect();
    let server = TestServer::with(&settings).await;
    server.connect().await.create_topic("t", 1, &[]).await;
    let mut lazy = [server.stream().await, server.stream().await];
    for (stream, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        begin_frame(stream, 1_048_000, 300_000).await;
        eventually("the request holds memory", || async { memory(&server).await > held }).await;
    }
    let trickle = tokio::spawn(async move {
        while lazy[0].write_all(&[0; 100]).await.is_ok() && lazy[1].write_all(&[0; 100]).await.is_ok() {
            // The client never finishes, and is never silent for long.
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
    });
    let mut client = server.connect().await;
    let produced = client.produce_to("t", 0, -1, numbered(0, 1, 500_000));
    let answer =
        tokio::time::timeout(Duration::from_secs(20), produced).await.expect("the request gets its turn");
    assert_eq!(answer.error_code, 0);
    trickle.abort();
}

/// A pending answer, such as that of a waiting fetch, must not make the server patient.
#[tokio::test]
async fn nor_do_they_behind_a_waiting_fetch() {
    let server = server().await;
    let mut lazy = [server.connect().await, server.connect().await];
    for (client, held) in lazy.iter_mut().zip([1_000_000.0, 2_000_000.0]) {
        let mut fetch = fetch_request("t", 0, 0);
        fetch.max_wait_ms = 60_000;
        client.send(12, &fetch).await;
        begin_frame(client.stream(), 1_048_000, 300_000).await;
        eventually("the request holds memory", || async { memory(&server).await > held }).await;
    }
    let before = Instant::now();
    let mut client = server.connect().await;
    let produced = client.produce_to("t", 0, -1, numbered(0, 1, 500_000));
    let answer =
        tokio::time::timeout(Duration::from_secs(10), produced).await.expect("the memory is released");
    assert_eq!(answer.error_code, 0);
    assert!(before.elapsed() < Duration::from_secs(5), "{:?}", before.elapsed());
}
