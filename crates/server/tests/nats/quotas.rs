//! Quotas at the NATS door: what a client publishes and hears counts, it is held up and loses nothing, and
//! Kafka's clients share its quota. A slow machine lets less pass, so the fast rates are only bounded from
//! above.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::time::{Duration, Instant};

use tailrace_kafka_wire::messages::alter_client_quotas_request::{EntityData, EntryData, OpData};
use tailrace_kafka_wire::messages::{AlterClientQuotasRequest, MetadataRequest};
use tokio::io::AsyncReadExt;
use tokio::net::TcpStream;

use crate::common::lines::Lines;
use crate::common::rig::{fetch_request, numbered, produce_request};
use crate::common::{Client, TestServer};

type Line = Lines<TcpStream>;

/// Sets the limit of an entity, `user` or `client-id` or `ip`. Without a name, of the default.
async fn limit(client: &mut Client, kind: &str, name: Option<&str>, key: &str, value: f64) {
    let part = EntityData {
        entity_type: kind.to_owned(),
        entity_name: name.map(str::to_owned),
        ..Default::default()
    };
    let op = OpData { key: key.to_owned(), value, ..Default::default() };
    let entries = vec![EntryData { entity: vec![part], ops: vec![op], ..Default::default() }];
    let answer = client.call(1, &AlterClientQuotasRequest { entries, ..Default::default() }).await;
    assert_eq!(answer.entries[0].error_code, 0, "{:?}", answer.entries[0].error_message);
}

async fn connect(server: &TestServer, name: &str) -> Line {
    let mut lines = Lines::over(TcpStream::connect(server.nats()).await.unwrap());
    lines.info().await;
    lines.send(&format!("CONNECT {{\"verbose\":false,\"name\":\"{name}\"}}\r\n")).await;
    assert!(lines.until_pong().await.is_empty());
    lines
}

fn message(subject: &str, bytes: usize) -> String {
    format!("PUB {subject} {bytes}\r\n{}\r\n", "x".repeat(bytes))
}

/// Reads so many messages of the subject, and nothing else.
async fn hear(lines: &mut Line, subject: &str, count: usize, bytes: usize) {
    let start = format!("MSG {subject} 1 {bytes}\r\n");
    for number in 0..count {
        assert_eq!(lines.line().await.as_deref(), Some(&*start), "message {number}");
        assert_eq!(lines.line().await.map(|line| line.len()), Some(bytes + 2));
    }
}

async fn subscribe(lines: &mut Line, subject: &str) {
    lines.send(&format!("SUB {subject} 1\r\n")).await;
    assert!(lines.until_pong().await.is_empty());
}

#[tokio::test]
async fn a_publisher_beyond_its_quota_is_not_read_for_a_while_and_no_message_is_lost() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "user", None, "producer_byte_rate", 10_000.0).await;
    let (mut publisher, mut hearer) = (connect(&server, "p").await, connect(&server, "h").await);
    subscribe(&mut hearer, "a").await;
    let began = Instant::now();
    publisher.send(&message("a", 10_000).repeat(12)).await;
    hear(&mut hearer, "a", 12, 10_000).await;
    // (12,000 - 10,000) / 10,000 x 10 s, at least.
    publisher.send(&message("a", 1)).await;
    hear(&mut hearer, "a", 1, 1).await;
    assert!(began.elapsed() >= Duration::from_millis(1500), "{:?}", began.elapsed());
    assert!(publisher.until_pong().await.is_empty());
    let held = server.metric("tailrace_quota_violations_total{quota=\"producer_byte_rate\"}").await;
    assert!(held >= 1.0, "{held}");
}

#[tokio::test]
async fn what_a_user_publishes_counts_on_what_it_may_produce_and_the_reverse() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    limit(&mut kafka, "user", Some("ANONYMOUS"), "producer_byte_rate", 10_000.0).await;
    let mut publisher = connect(&server, "p").await;
    publisher.send(&message("a", 120_000)).await;
    assert!(publisher.until_pong().await.is_empty());
    let answer = server.connect().await.call(9, &produce_request("t", 0, 1, numbered(0, 1, 10))).await;
    assert!(answer.throttle_time_ms > 1000, "{}", answer.throttle_time_ms);

    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    limit(&mut kafka, "user", Some("ANONYMOUS"), "producer_byte_rate", 10_000.0).await;
    kafka.call(9, &produce_request("t", 0, 1, numbered(0, 1, 120_000))).await;
    let mut publisher = connect(&server, "p").await;
    let began = Instant::now();
    publisher.send(&message("a", 1)).await;
    publisher.until_pong().await;
    publisher.until_pong().await;
    assert!(began.elapsed() >= Duration::from_secs(1), "{:?}", began.elapsed());
}

#[tokio::test]
async fn the_name_in_connect_is_the_client_id() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "client-id", Some("slow"), "producer_byte_rate", 10_000.0).await;
    for (name, is_held) in [("slow", true), ("quick", false)] {
        let mut publisher = connect(&server, name).await;
        let began = Instant::now();
        publisher.send(&message("a", 120_000)).await;
        publisher.until_pong().await;
        // What was sent together with the message may have been read before.
        publisher.until_pong().await;
        assert_eq!(began.elapsed() >= Duration::from_millis(1500), is_held, "{name}: {:?}", began.elapsed());
    }
}

#[tokio::test]
async fn deliveries_count_and_are_neither_held_back_nor_lost() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    kafka.call(9, &produce_request("t", 0, 1, numbered(0, 1, 100))).await;
    limit(&mut kafka, "user", None, "consumer_byte_rate", 10_000.0).await;
    let (mut publisher, mut hearer) = (connect(&server, "p").await, connect(&server, "h").await);
    subscribe(&mut hearer, "a").await;
    let began = Instant::now();
    publisher.send(&message("a", 10_000).repeat(20)).await;
    hear(&mut hearer, "a", 20, 10_000).await;
    assert!(publisher.until_pong().await.is_empty(), "publishers do not wait");
    let held = "tailrace_quota_violations_total{quota=\"consumer_byte_rate\"}";
    while server.metric(held).await == 0.0 {
        assert!(began.elapsed() < Duration::from_secs(20), "deliveries are never charged");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // (20,000 - 10,000) / 10,000 x 10 s: the user's fetches wait, and so does what the client says.
    let answer = server.connect().await.call(11, &fetch_request("t", 0, 0)).await;
    assert!(answer.throttle_time_ms > 1000, "{}", answer.throttle_time_ms);
    assert_eq!(answer.responses.len(), 0);
    publisher.send(&message("a", 1)).await;
    hear(&mut hearer, "a", 1, 1).await;
    assert!(began.elapsed() < Duration::from_secs(9), "live messages are not held back");
    assert!(hearer.until_pong().await.is_empty());
    assert!(began.elapsed() >= Duration::from_secs(8), "{:?}", began.elapsed());
}

/// A client that is held up cannot answer PINGs, and its own are not read.
#[tokio::test]
async fn a_client_that_is_held_up_is_not_stale_and_is_held_no_longer_than_between_two_pings() {
    let settings = [("tailrace.nats.ping.interval.ms", "1000"), ("tailrace.nats.ping.max", "1")];
    let server = TestServer::with(&settings).await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "user", None, "producer_byte_rate", 10.0).await;
    let mut publisher = connect(&server, "p").await;
    let began = Instant::now();
    // A quarter of an hour by Kafka's formula, each.
    for number in 0..4 {
        publisher.send(&message("a", 10_000)).await;
        publisher.send("PING\r\n").await;
        loop {
            match publisher.line().await.expect("the connection stays").as_str() {
                "PONG\r\n" => break,
                "PING\r\n" => publisher.send("PONG\r\n").await,
                other => panic!("{other} after message {number}"),
            }
        }
    }
    let elapsed = began.elapsed();
    assert!(elapsed >= Duration::from_millis(1900) && elapsed < Duration::from_secs(20), "{elapsed:?}");
}

#[tokio::test]
async fn a_publisher_does_not_exceed_its_quota() {
    for bytes in [100, 50_000] {
        let server = TestServer::start().await;
        let mut kafka = server.connect().await;
        limit(&mut kafka, "user", None, "producer_byte_rate", 50_000.0).await;
        let (began, time) = (Instant::now(), Duration::from_secs(4));
        let publishing = [1, 2].map(|_| async {
            let (mut publisher, words) = (connect(&server, "p").await, message("a", bytes));
            let mut sent = 0;
            while began.elapsed() < time {
                publisher.send(&words).await;
                publisher.until_pong().await;
                sent += words.len();
            }
            sent
        });
        let [one, two] = publishing;
        let (one, two) = tokio::join!(one, two);
        // At first, ten seconds of the quota may pass. Each client may be one read beyond it.
        let most = 50_000.0 * (began.elapsed().as_secs_f64() + 10.0) * 1.2 + 2.0 * 65_536.0;
        assert!(((one + two) as f64) < most, "{} bytes in messages of {bytes}, at most {most}", one + two);
    }
}

#[tokio::test]
async fn a_publisher_is_held_up_for_as_long_as_kafka_would_and_no_longer() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "user", None, "producer_byte_rate", 10_000.0).await;
    let mut publisher = connect(&server, "p").await;
    let began = Instant::now();
    publisher.send(&message("a", 10_000).repeat(16)).await;
    publisher.until_pong().await;
    // What was sent together with the messages may have been read before.
    publisher.until_pong().await;
    // (16,000 - 10,000) / 10,000 x 10 s, less what of the eleventh second had passed, and a slow machine.
    let (least, most) = (Duration::from_secs(5), Duration::from_secs(6 + 5));
    assert!((least..most).contains(&began.elapsed()), "{:?}", began.elapsed());
}

#[tokio::test]
async fn a_publisher_gets_its_quota_in_the_long_run() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "user", None, "producer_byte_rate", 10_000.0).await;
    let mut publisher = connect(&server, "p").await;
    let (began, mut sent) = (Instant::now(), 0.0);
    // It takes twelve seconds.
    while sent < 180_000.0 {
        publisher.send(&message("a", 5000)).await;
        assert!(publisher.until_pong().await.is_empty());
        sent += 5000.0;
        let most = 10_000.0 * (began.elapsed().as_secs_f64() + 11.0) + 5000.0;
        assert!(sent <= most, "{sent} bytes in {:?}, at most {most}", began.elapsed());
    }
    let least = 0.7 * 10_000.0 * began.elapsed().as_secs_f64();
    assert!(sent >= least, "{sent} bytes in {:?}, at least {least}", began.elapsed());
}

#[tokio::test]
async fn connections_beyond_the_quota_of_an_address_are_closed_at_both_doors_together() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    limit(&mut kafka, "ip", Some("127.0.0.1"), "connection_creation_rate", 1.0).await;
    let (began, mut served) = (Instant::now(), 0);
    for _ in 0..20 {
        let mut stream = TcpStream::connect(server.nats()).await.unwrap();
        // INFO, or nothing.
        served += u32::from(stream.read(&mut [0; 4]).await.is_ok_and(|count| count > 0));
    }
    let most = 10.0 + began.elapsed().as_secs_f64() * 1.2 + 1.0;
    assert!(served > 0 && f64::from(served) <= most, "{served} connections, at most {most}");
    let refused = "tailrace_nats_connections_refused_total{reason=\"connection_creation_rate\"}";
    assert_eq!(server.metric(refused).await, f64::from(20 - served));
    let metadata = MetadataRequest { topics: Some(Vec::new()), ..Default::default() };
    assert!(server.connect().await.try_call(9, &metadata).await.is_none(), "Kafka's count, too");
    assert!(kafka.try_call(9, &metadata).await.is_some(), "open ones stay");
}
