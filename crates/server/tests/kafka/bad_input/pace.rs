//! Clients that are slow or idle, or that ask for more than they read.

use super::*;
use std::time::{Duration, Instant};

use crate::common::TestServer;
use crate::common::rig::*;
use crate::common::tap::Tap;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::{FetchRequest, MetadataRequest, ProduceRequest};
use tokio::io::{AsyncReadExt, AsyncWriteExt};

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
                assert_eq!(read.unwrap_or(0), 0, "there is no response");
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
        stream.write_all(part).await.expect("the connection is open");
        // A slow writer.
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

/// The client sends Fetch and Metadata requests and never reads the answers.
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
    // Write until the socket is full, then go on until the server closes it.
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
    eventually("both connections are cut off", || async { server.metric(cut).await == 2.0 }).await;
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
        // A slow reader.
        tokio::time::sleep(Duration::from_millis(60)).await;
        let read = slow.stream().read(&mut buffer).await.expect("the slow reader is not cut off");
        assert!(read > 0, "the slow reader is not cut off");
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
    client.stream().shutdown().await.expect("the client is connected");
    eventually("all records are appended", || async {
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
        half.write_all(&[0, 0]).await.expect("the connection is open");
        let mut partial = server.stream().await;
        begin_frame(&mut partial, 1000, 0).await;
        let mut large = server.stream().await;
        begin_frame(&mut large, 900_000, 300_000).await;
        eventually("the request holds memory", || async { memory(&server).await > 0.0 }).await;
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
    eventually("all records are appended", || async {
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
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[("tailrace.connection.in.flight.max", "3")]).await;
    let mut client = server.connect().await;
    client.create_topic("t", 1, &[]).await;
    tap.hold("/t-0/");
    let first = client.send(9, &produce_request("t", 0, -1, numbered(0, 1, 50))).await;
    for number in 1..200 {
        client.send(9, &produce_request("t", 0, -1, numbered(number, 1, 50))).await;
    }
    let begun = async || server.metric("tailrace_produced_records_total").await;
    eventually("three appends are in flight", || async { begun().await >= 3.0 }).await;
    // A server that kept reading would have begun more appends by then.
    tokio::time::sleep(Duration::from_millis(300)).await;
    assert_eq!(begun().await, 3.0, "the others wait");
    tap.release("/t-0/");
    for number in 0..200 {
        let (correlation, response) = client.answer::<ProduceRequest>(9).await;
        assert_eq!(correlation, first + number);
        assert_eq!(only_answer(response).base_offset, i64::from(number));
    }
}

/// Answers queued behind an earlier one that waits are held in memory, so they count towards the bound.
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
            to.write_all(&frame).await.expect("the server reads it in the end");
        }
        (frame.len(), to)
    });
    // A server that kept reading would have read everything by then.
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
    let (frame_bytes, _to) = sender.await.expect("the sender does not panic");
    // An answer is larger than its request, so a mebibyte of answers corresponds to less than a mebibyte of
    // requests.
    println!("{received} of {} bytes were read", requests * frame_bytes);
    assert!(received < (1 << 20) as f64 + 2.0 * frame_bytes as f64, "{received} bytes were read");
}
