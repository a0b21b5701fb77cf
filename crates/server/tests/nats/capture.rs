//! How messages of NATS clients are captured in the log: keys, partitions, headers and batches,
//! acknowledgements and their meaning, and bindings that change. Each test has async-nats on one side and
//! librdkafka on the other.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use crate::cluster::counted;
use crate::common;
use crate::common::rig::{bytes_of, eventually};
use crate::common::tap::{Fault, On, Tap};
use crate::common::{Client, TestServer, error};
use crate::crossing;
use crate::crossing::*;
use rdkafka::producer::FutureRecord;
use rdkafka::types::RDKafkaErrorCode;
use serde_json::json;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::AlterConfigsRequest;
use tailrace_kafka_wire::messages::alter_configs_request::{AlterConfigsResource, AlterableConfig};
use tailrace_records::{Compression, TimestampType, split_batches};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;

/// A short period during which something must not happen.
const MEANWHILE: Duration = Duration::from_millis(200);

const RELAXED: (&str, &str) = ("flush.messages", "1000000");

/// A NATS connection that sends exactly the bytes that the test wants, in a single write.
struct Plain {
    stream: TcpStream,
    /// Text received after the last text that was waited for.
    rest: String,
}

impl Plain {
    async fn connect(server: &TestServer) -> Self {
        let stream = TcpStream::connect(server.nats()).await.expect("the NATS listener accepts");
        let mut plain = Self { stream, rest: String::new() };
        plain.say("CONNECT {\"verbose\":false,\"headers\":true,\"no_responders\":true,\"protocol\":1}\r\nPING\r\n").await;
        plain.until("PONG\r\n").await;
        plain
    }

    async fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).await.expect("the connection is open");
    }

    async fn publish(&mut self, subject: &str, headers: &str, payload: &str) {
        let (block, total) = (headers.len(), headers.len() + payload.len());
        self.say(&format!("HPUB {subject} {block} {total}\r\n{headers}{payload}\r\n")).await;
    }

    /// Reads up to and including this text.
    async fn until(&mut self, end: &str) -> String {
        let read = async {
            let mut buffer = [0; 4096];
            loop {
                if let Some(at) = self.rest.find(end) {
                    return self.rest.drain(..at + end.len()).collect::<String>();
                }
                let count = self.stream.read(&mut buffer).await.expect("the connection is open");
                assert!(count > 0, "closed after {:?}", self.rest);
                self.rest.push_str(std::str::from_utf8(&buffer[..count]).expect("text"));
            }
        };
        tokio::time::timeout(PATIENCE, read).await.expect("in time")
    }
}

/// Returns the headers of all batches of a partition.
async fn batches(client: &mut Client, topic: &str, partition: i32) -> Vec<tailrace_records::BatchHeader> {
    let data = client.fetch_from(topic, partition, 0).await;
    assert_eq!(data.error_code, 0);
    let bytes = bytes_of(&data);
    split_batches(&bytes).map(|batch| batch.expect("a whole batch").0).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_publish_becomes_a_record_with_its_subject_as_key() {
    let server = TestServer::start().await;
    create(&server, "orders", 1, &[("tailrace.subjects", "orders.>,shop.*.paid")]).await.unwrap();
    let client = nats(&server).await;
    let before = common::rig::now().0;
    client.publish("orders.eu.new", "one".into()).await.unwrap();
    client.publish("elsewhere", "not captured".into()).await.unwrap();
    let lines = header_map(&[("b", "1"), ("B", "2"), ("b", "3")]);
    client.publish_with_headers("shop.7.paid", lines, "two".into()).await.unwrap();
    let lines = header_map(&[("Kafka-Key", "customer 7"), ("trace", "x")]);
    client.publish_with_headers("orders.us", lines, "three".into()).await.unwrap();
    client.publish("orders", "not captured".into()).await.unwrap();
    client.publish("orders.last", "".into()).await.unwrap();
    client.flush().await.unwrap();
    let found = records(&server, "orders", 1, 4).await;
    let seen: Vec<_> = found.iter().map(|r| (r.offset, r.key(), r.value())).collect();
    let expected = [
        (0, "orders.eu.new", "one"),
        (1, "shop.7.paid", "two"),
        (2, "customer 7", "three"),
        (3, "orders.last", ""),
    ];
    assert_eq!(seen, expected);
    assert_eq!(found[0].headers(), []);
    // async-nats groups values by name, in order. The case of names is preserved.
    let of = |name: &str| -> Vec<_> {
        found[1].headers().iter().filter(|(n, _)| *n == name).map(|(_, value)| value.to_string()).collect()
    };
    assert_eq!((of("b"), of("B")), (vec!["1".to_owned(), "3".to_owned()], vec!["2".to_owned()]));
    assert_eq!(found[2].headers(), [("Nats-Subject", "orders.us"), ("trace", "x")]);
    let after = common::rig::now().0;
    assert!(found.iter().all(|r| (before..=after).contains(&r.timestamp)));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn header_lines_keep_their_order_and_odd_blocks_are_kept_whole() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let mut plain = Plain::connect(&server).await;
    plain.publish("t.1", "NATS/1.0\r\nb: 1\r\nB:2\r\nb: 3\r\na:\r\n\r\n", "xy").await;
    plain.publish("t.2", "NATS/1.0\r\nno colon\r\n\r\n", "").await;
    plain.publish("t.3", "NATS/1.0\r\nNats-Subject: secret.place\r\na: b\r\n\r\n", "").await;
    plain.say("PING\r\n").await;
    plain.until("PONG\r\n").await;
    let found = records(&server, "t", 1, 3).await;
    assert_eq!(found[0].headers(), [("b", "1"), ("B", "2"), ("b", "3"), ("a", "")]);
    assert_eq!(found[0].value(), "xy");
    assert_eq!(found[1].headers(), [("Nats-Header-Block", "NATS/1.0\r\nno colon\r\n\r\n")]);
    let forged = [("Nats-Subject", "t.3"), ("Nats-Subject", "secret.place"), ("a", "b")];
    assert_eq!((found[2].key(), found[2].headers()), ("t.3", forged.to_vec()));
}

/// Two writers with optimistic locking must not both be told that they won.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_a_publish_demands_and_is_not_done_is_refused_and_not_stored() {
    let server = TestServer::start().await;
    create(&server, "t.x", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    create(&server, "two", 2, &[("tailrace.subjects", "two.>")]).await.unwrap();
    create(&server, "silent", 1, &[("tailrace.subjects", "silent.>"), ("tailrace.subjects.ack", "false")])
        .await
        .unwrap();
    let mut plain = Plain::connect(&server).await;
    plain.say("SUB in 1\r\nSUB t.> 2\r\n").await;
    let refused = |code: u16, err_code: u16, words: &str| {
        format!(
            "{{\"error\":{{\"code\":{code},\"err_code\":{err_code},\"description\":\"{words}\"}},\"stream\":\"t_x\",\"seq\":0}}"
        )
    };
    for (line, answer) in [
        ("Nats-Expected-Last-Sequence: 1", refused(400, 10164, "wrong last sequence")),
        ("Nats-Expected-Last-Subject-Sequence: 0", refused(400, 10164, "wrong last sequence")),
        ("Nats-Expected-Last-Msg-Id: a", refused(400, 10070, "wrong last msg ID: ")),
        ("Nats-Expected-Stream: other", refused(400, 10060, "expected stream does not match")),
        ("Nats-Rollup: all", refused(500, 10111, "rollup not permitted")),
        ("Nats-TTL: 5s", refused(400, 10166, "per-message TTL is disabled")),
        ("Nats-Incr: 1", refused(400, 10168, "message counters is disabled")),
        ("Nats-Batch-Id: a", refused(400, 10174, "atomic publish is disabled")),
        ("Nats-Schedule: @every 5s", refused(400, 10188, "message schedules is disabled")),
    ] {
        let block = format!("NATS/1.0\r\n{line}\r\n\r\n");
        plain.publish("t.1 in", &block, "no").await;
        // Subscribers get the message anyway, as in nats-server.
        plain.until("no\r\n").await;
        let said = plain.until("}\r\n").await;
        assert_eq!(said, format!("MSG in 1 {}\r\n{answer}\r\n", answer.len()), "{line}");
        plain.publish("t.1", &block, "no").await;
        plain.until("no\r\n").await;
        plain.publish("silent.1 in", &block, "no").await;
    }
    // Expectations that are met, and headers that expect nothing.
    for line in
        ["Nats-Expected-Stream: t_x", "Nats-Msg-Id: 1", "Nats-Msg-Id: 1", "Nats-Expected-Last-Sequence:"]
    {
        plain.publish("t.1 in", &format!("NATS/1.0\r\n{line}\r\n\r\n"), "yes").await;
        plain.until("\"seq\":").await;
    }
    // Each of several partitions is its own stream.
    plain.publish("two.1 in", "NATS/1.0\r\nNats-Expected-Stream: two\r\n\r\n", "no").await;
    let said = plain.until("\"seq\":0}\r\n").await;
    assert!(said.contains("10060") && said.contains("\"stream\":\"two-"), "{said}");
    plain.publish("silent.1", "NATS/1.0\r\n\r\n", "yes").await;
    plain.say("PING\r\n").await;
    plain.until("PONG\r\n").await;
    for (topic, count) in [("t.x", 4), ("silent", 1)] {
        let found = records(&server, topic, 1, count).await;
        assert!(
            found.iter().enumerate().all(|(at, r)| r.offset == at as i64 && r.value() == "yes"),
            "{found:?}"
        );
    }
    let counted = "tailrace_nats_capture_errors_total{reason=\"unmet_demand\"}";
    assert_eq!(server.metric(counted).await, 28.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn kafka_clients_put_the_same_key_into_the_same_partition() {
    const PARTITIONS: i32 = 7;
    let server = TestServer::start().await;
    create(&server, "nats", PARTITIONS, &[("tailrace.subjects", "devices.>"), RELAXED]).await.unwrap();
    create(&server, "kafka", PARTITIONS, &[RELAXED]).await.unwrap();
    let client = nats(&server).await;
    let java: rdkafka::producer::FutureProducer =
        crossing::kafka(&server).set("partitioner", "murmur2").create().expect("a legal configuration");
    let subjects: Vec<_> = (0..60).map(|n| format!("devices.{n}.temperature.{}", n * n)).collect();
    for subject in &subjects {
        client.publish(subject.clone(), "x".into()).await.unwrap();
        send(&java, FutureRecord::to("kafka").key(subject.as_bytes()).payload(b"x")).await;
    }
    client.flush().await.unwrap();
    let places = |records: Vec<Record>| -> BTreeMap<String, i32> {
        records.iter().map(|record| (record.key().to_owned(), record.partition)).collect()
    };
    let ours = places(records(&server, "nats", PARTITIONS, subjects.len()).await);
    let theirs = places(records(&server, "kafka", PARTITIONS, subjects.len()).await);
    assert_eq!(ours, theirs);
    assert_eq!(ours.values().collect::<BTreeSet<_>>().len(), 7, "all partitions have records");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_for_each_subject_whatever_its_partition() {
    const SUBJECTS: usize = 40;
    const EACH: usize = 50;
    let server = TestServer::start().await;
    create(&server, "t", 24, &[("tailrace.subjects", "t.*.*"), RELAXED]).await.unwrap();
    let mut tasks = tokio::task::JoinSet::new();
    for connection in 0..3 {
        let client = nats(&server).await;
        tasks.spawn(async move {
            for number in 0..EACH {
                for subject in 0..SUBJECTS {
                    let subject = format!("t.{connection}.{subject}");
                    client.publish(subject, number.to_string().into()).await.unwrap();
                }
            }
            client.flush().await.unwrap();
        });
    }
    tasks.join_all().await;
    let found = records(&server, "t", 24, 3 * SUBJECTS * EACH).await;
    let mut by_subject: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for record in &found {
        by_subject.entry(record.key()).or_default().push(record.value().parse().unwrap());
    }
    assert_eq!(by_subject.len(), 3 * SUBJECTS);
    let expected: Vec<usize> = (0..EACH).collect();
    assert!(by_subject.values().all(|numbers| *numbers == expected));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn one_burst_is_one_batch_for_each_partition() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("one", 1, &[("tailrace.subjects", "one.>")]).await;
    kafka.create_topic("two", 2, &[("tailrace.subjects", "two.>")]).await;
    let mut plain = Plain::connect(&server).await;
    let mut burst = String::new();
    for number in 0..100 {
        burst.push_str(&format!("PUB one.{number} 5\r\nhello\r\nPUB two.{number} 5\r\nhello\r\n"));
    }
    plain.say(&format!("{burst}PING\r\n")).await;
    plain.until("PONG\r\n").await;
    // The kernel may deliver the burst in a few parts, but not in hundreds.
    let one = batches(&mut kafka, "one", 0).await;
    assert_eq!(one.iter().map(|batch| batch.record_count).sum::<i32>(), 100);
    assert!(one.len() <= 4, "{} batches", one.len());
    let (first, second) = (batches(&mut kafka, "two", 0).await, batches(&mut kafka, "two", 1).await);
    assert!(first.len() <= 4 && second.len() <= 4, "{} and {} batches", first.len(), second.len());
    let counted = server.metric("tailrace_nats_captured_batches_total").await;
    assert_eq!(counted, (one.len() + first.len() + second.len()) as f64);
    assert_eq!(server.metric("tailrace_nats_captured_messages_total").await, 200.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn who_got_pong_finds_what_it_published_before_in_the_log() {
    for round in 0..5 {
        // The first append after a start is slow, because it starts an epoch.
        let server = TestServer::start().await;
        let mut kafka = server.connect().await;
        kafka.create_topic("c", 1, &[("tailrace.subjects", "c.>"), RELAXED]).await;
        let mut nats = Plain::connect(&server).await;
        nats.say("PUB c.x 1\r\na\r\nPUB c.y 1\r\nb\r\nPING\r\nPUB c.z 1\r\nc\r\nPING\r\n").await;
        nats.until("PONG\r\n").await;
        let after_first = batches(&mut kafka, "c", 0).await;
        assert!(after_first.iter().map(|batch| batch.record_count).sum::<i32>() >= 2, "round {round}");
        nats.until("PONG\r\n").await;
        let after_second = batches(&mut kafka, "c", 0).await;
        assert_eq!(after_second.iter().map(|batch| batch.record_count).sum::<i32>(), 3, "round {round}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn batches_are_split_at_the_topics_largest() {
    let server = TestServer::with(&[("tailrace.nats.max.payload.bytes", "20000")]).await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[("tailrace.subjects", "t.>")]).await;
    kafka.create_topic("small", 1, &[("tailrace.subjects", "s.>"), ("max.message.bytes", "30000")]).await;
    let mut plain = Plain::connect(&server).await;
    let payload = "p".repeat(20_000);
    let mut burst = String::new();
    for number in 0..20 {
        burst.push_str(&format!("PUB s.{number} 20000\r\n{payload}\r\n"));
    }
    plain.say(&format!("{burst}PING\r\n")).await;
    plain.until("PONG\r\n").await;
    let found = records(&server, "small", 1, 20).await;
    assert!(found.iter().enumerate().all(|(n, r)| r.key() == format!("s.{n}") && r.value() == payload));
    let batches = batches(&mut kafka, "small", 0).await;
    assert_eq!(batches.len(), 20, "two of them do not fit into one batch");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_largest_message_fits_whatever_its_headers() {
    let server = TestServer::start().await;
    for (name, codec) in
        [("plain", "producer"), ("gzip", "gzip"), ("lz4", "lz4"), ("snappy", "snappy"), ("zstd", "zstd")]
    {
        let subjects = format!("{name}.>");
        create(&server, name, 1, &[("tailrace.subjects", &subjects), ("compression.type", codec), RELAXED])
            .await
            .unwrap();
        let mut plain = Plain::connect(&server).await;
        // Headers that take the most space in a record: names and values of 64 bytes.
        let (line_name, line_value) = ("n".repeat(64), "v".repeat(64));
        let line = format!("{line_name}:{line_value}\r\n");
        let mut block = "NATS/1.0\r\nKafka-Key: k\r\n".to_owned();
        while block.len() + line.len() + 2 <= 1_048_576 {
            block.push_str(&line);
        }
        block.push_str("\r\n");
        let rest = "x".repeat(1_048_576 - block.len());
        let subject = format!("{name}.{}", "s".repeat(3900));
        plain.say("SUB answer 1\r\n").await;
        plain.say(&format!("HPUB {subject} answer {} 1048576\r\n{block}{rest}\r\n", block.len())).await;
        let answer = plain.until("}\r\n").await;
        assert!(answer.ends_with(&format!("{{\"stream\":\"{name}\",\"seq\":1}}\r\n")), "{answer}");
    }
    assert_eq!(counted(&server.get("/metrics").await.1, "nats_capture_errors_total"), 0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_topics_settings_hold_for_captured_batches() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    let configs = [
        ("tailrace.subjects", "t.>"),
        ("compression.type", "zstd"),
        ("message.timestamp.type", "LogAppendTime"),
    ];
    kafka.create_topic("t", 1, &configs).await;
    let client = nats(&server).await;
    let payload = "all the same ".repeat(10_000);
    for _ in 0..3 {
        publish_for_ack(&client, "t.1", &payload).await;
    }
    let stored = batches(&mut kafka, "t", 0).await;
    for batch in &stored {
        assert_eq!(batch.attributes.compression().unwrap(), Compression::Zstd);
        assert_eq!(batch.attributes.timestamp_type(), TimestampType::LogAppendTime);
    }
    assert!(stored.iter().all(|batch| batch.total_bytes() < 10_000));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn acknowledgements_are_those_of_jetstream() {
    let server = TestServer::start().await;
    create(&server, "one.part", 1, &[("tailrace.subjects", "a.>")]).await.unwrap();
    create(&server, "many", 3, &[("tailrace.subjects", "b.>")]).await.unwrap();
    let client = nats(&server).await;
    for seq in 1..=3 {
        let expected = json!({ "stream": "one_part", "seq": seq });
        assert_eq!(publish_for_ack(&client, "a.x", "p").await, expected);
    }
    let mut seen = BTreeMap::new();
    for number in 0..30 {
        let answer = publish_for_ack(&client, &format!("b.{number}"), &number.to_string()).await;
        seen.insert(number.to_string(), (answer["stream"].clone(), answer["seq"].clone()));
    }
    for record in records(&server, "many", 3, 30).await {
        let expected = (json!(format!("many-{}", record.partition)), json!(record.offset + 1));
        assert_eq!(seen[record.value()], expected);
    }
    // With many in flight, each gets its own acknowledgement.
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..200 {
        let client = client.clone();
        tasks.spawn(async move { (number, publish_for_ack(&client, "a.y", &number.to_string()).await) });
    }
    let answers = tasks.join_all().await;
    let found = records(&server, "one.part", 1, 203).await;
    for (number, answer) in answers {
        let at = usize::try_from(answer["seq"].as_i64().unwrap() - 1).unwrap();
        assert_eq!(found[at].value(), number.to_string());
    }
    eventually("no acknowledgement waits", || async {
        server.metric("tailrace_nats_capture_acks_waiting").await == 0.0
    })
    .await;
    assert_eq!(server.metric("tailrace_nats_capture_acks_total").await, 233.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_acknowledgement_waits_for_the_sync_of_a_strict_topic_only() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    create(&server, "strict", 1, &[("tailrace.subjects", "strict.>")]).await.unwrap();
    create(&server, "relaxed", 1, &[("tailrace.subjects", "relaxed.>"), RELAXED]).await.unwrap();
    let client = nats(&server).await;
    publish_for_ack(&client, "strict.0", "warm").await;
    publish_for_ack(&client, "relaxed.0", "warm").await;
    tap.hold("/strict-0/");
    tap.hold("/relaxed-0/");
    let waiting = tokio::spawn({
        let client = client.clone();
        async move { publish_for_ack(&client, "strict.1", "x").await }
    });
    let waits = || async { server.metric("tailrace_nats_capture_acks_waiting").await == 1.0 };
    eventually("the acknowledgement waits", waits).await;
    // It blocks neither other clients nor, on its own connection, messages that want no acknowledgement.
    assert_eq!(publish_for_ack(&client, "relaxed.1", "x").await, json!({ "stream": "relaxed", "seq": 2 }));
    client.publish("strict.2", "unasked".into()).await.unwrap();
    client.flush().await.unwrap();
    // Nothing may be acknowledged meanwhile. There is no event to wait for.
    tokio::time::sleep(MEANWHILE).await;
    assert!(!waiting.is_finished(), "acknowledged before it was durable");
    assert!(waits().await);
    tap.release("/strict-0/");
    let answer = tokio::time::timeout(PATIENCE, waiting).await.unwrap().unwrap();
    assert_eq!(answer, json!({ "stream": "strict", "seq": 2 }));
    tap.release("/relaxed-0/");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_failing_disk_is_told_to_who_asked_and_counted_for_who_did_not() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    create(&server, "bad", 1, &[("tailrace.subjects", "bad.>")]).await.unwrap();
    create(&server, "good", 1, &[("tailrace.subjects", "good.>")]).await.unwrap();
    let client = nats(&server).await;
    publish_for_ack(&client, "bad.0", "fine").await;
    tap.fail(On::Sync, "/bad-0/", ".log", 1, Fault::Error(libc::EIO));
    let error = |answer: &serde_json::Value| {
        assert_eq!((&answer["stream"], &answer["seq"]), (&json!("bad"), &json!(0)));
        assert_eq!((&answer["error"]["code"], &answer["error"]["err_code"]), (&json!(503), &json!(10077)));
        answer["error"]["description"].as_str().unwrap().to_owned()
    };
    let halted = error(&publish_for_ack(&client, "bad.1", "x").await);
    assert!(halted.contains("before the record was on stable storage"), "{halted}");
    let refused = error(&publish_for_ack(&client, "bad.2", "x").await);
    assert!(refused.contains("accepts no writes"), "{refused}");
    client.publish("bad.3", "x".into()).await.unwrap();
    assert_eq!(publish_for_ack(&client, "good.1", "x").await, json!({ "stream": "good", "seq": 1 }));
    let refused = "tailrace_nats_capture_errors_total{reason=\"refused\"}";
    eventually("the errors are counted", || async { server.metric(refused).await == 2.0 }).await;
    assert_eq!(server.metric("tailrace_nats_capture_errors_total{reason=\"halted\"}").await, 1.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_full_disk_loses_what_nobody_waits_for_and_recovers() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let client = nats(&server).await;
    assert_eq!(publish_for_ack(&client, "t.1", "x").await["seq"], json!(1));
    tap.fail(On::Write, "/t-0/", ".log", 2, Fault::Error(libc::ENOSPC));
    let answer = publish_for_ack(&client, "t.2", "lost").await;
    assert_eq!(answer["error"]["description"], json!("no space is left on the device"), "{answer}");
    client.publish("t.3", "lost".into()).await.unwrap();
    eventually("both writes failed", || async { tap.is_spent() }).await;
    assert_eq!(publish_for_ack(&client, "t.4", "y").await["seq"], json!(2));
    assert_eq!(server.metric("tailrace_nats_capture_errors_total{reason=\"refused\"}").await, 2.0);
    assert_eq!(records(&server, "t", 1, 2).await[1].value(), "y");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_partition_that_is_offline_refuses_with_its_reason() {
    let mut server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let client = nats(&server).await;
    assert_eq!(publish_for_ack(&client, "t.1", "x").await["seq"], json!(1));
    server.stop().await;
    // The files that say whose log it is cannot be read.
    for name in ["t-0/partition.meta", "t-0/checkpoint"] {
        let path = server.data_dir().join(name);
        let mut bytes = std::fs::read(&path).unwrap();
        *bytes.last_mut().unwrap() ^= 1;
        std::fs::write(&path, bytes).unwrap();
    }
    server.begin(crate::common::local_disk()).await;
    let client = nats(&server).await;
    let answer = publish_for_ack(&client, "t.2", "x").await;
    let reason = answer["error"]["description"].as_str().unwrap();
    assert!(reason.starts_with("the partition is offline: "), "{answer}");
    client.publish("t.3", "x".into()).await.unwrap();
    let label = "tailrace_nats_capture_errors_total{reason=\"offline\"}";
    eventually("the errors are counted", || async { server.metric(label).await == 2.0 }).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn too_many_waiting_acknowledgements_slow_the_publisher_and_lose_nothing() {
    const COUNT: usize = 100;
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[("tailrace.nats.capture.acks.max", "4")]).await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let client = nats(&server).await;
    publish_for_ack(&client, "t.warm", "x").await;
    tap.hold("/t-0/");
    let mut tasks = tokio::task::JoinSet::new();
    for number in 0..COUNT {
        let client = nats(&server).await;
        tasks.spawn(async move { publish_for_ack(&client, &format!("t.{number}"), "x").await });
    }
    eventually("four acknowledgements wait", || async {
        server.metric("tailrace_nats_capture_acks_waiting").await == 4.0
    })
    .await;
    // No more acknowledgements may be waiting meanwhile. There is no event to wait for.
    tokio::time::sleep(MEANWHILE).await;
    assert_eq!(server.metric("tailrace_nats_capture_acks_waiting").await, 4.0);
    tap.release("/t-0/");
    let answers = tokio::time::timeout(PATIENCE, tasks.join_all()).await.expect("every task ends in time");
    let numbers: BTreeSet<_> = answers.iter().map(|answer| answer["seq"].as_i64().unwrap()).collect();
    assert_eq!(numbers.len(), COUNT);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn without_acknowledgements_captured_requests_are_answered_by_their_service() {
    let server = TestServer::start().await;
    create(&server, "rpc", 1, &[("tailrace.subjects", "rpc.>"), ("tailrace.subjects.ack", "false")])
        .await
        .unwrap();
    let (service, client) = (nats(&server).await, nats(&server).await);
    let mut requests = service.subscribe("rpc.*").await.unwrap();
    settled(&service).await;
    let answering = tokio::spawn(async move {
        for _ in 0..3 {
            let request = next(&mut requests).await;
            service.publish(request.reply.expect("a reply subject"), "answer".into()).await.unwrap();
        }
        service.flush().await.unwrap();
    });
    for _ in 0..3 {
        let answer = client.request("rpc.add", "1+1".into()).await.expect("an answer");
        assert_eq!(&answer.payload[..], b"answer");
    }
    answering.await.unwrap();
    assert_eq!(records(&server, "rpc", 1, 3).await[2].value(), "1+1");
    assert_eq!(server.metric("tailrace_nats_capture_acks_total").await, 0.0);
    // With acknowledgements again, both the service and the log answer. The client takes the first answer.
    alter(&server, "rpc", &[("tailrace.subjects", "rpc.>")]).await;
    assert_eq!(publish_for_ack(&client, "rpc.nobody", "x").await, json!({ "stream": "rpc", "seq": 4 }));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_captured_message_is_delivered_live_exactly_once() {
    let server = TestServer::start().await;
    create(&server, "t", 2, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let (subscriber, publisher) = (nats(&server).await, nats(&server).await);
    let mut all = subscriber.subscribe(">").await.unwrap();
    settled(&subscriber).await;
    for number in 0..100 {
        publisher.publish(format!("t.{number}"), number.to_string().into()).await.unwrap();
    }
    publisher.flush().await.unwrap();
    records(&server, "t", 2, 100).await;
    publisher.publish("end", "".into()).await.unwrap();
    for number in 0..100 {
        assert_eq!(next(&mut all).await.subject.as_str(), format!("t.{number}"));
    }
    assert_eq!(next(&mut all).await.subject.as_str(), "end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn subjects_that_overlap_are_refused_to_everyone() {
    let server = TestServer::start().await;
    create(&server, "orders", 1, &[("tailrace.subjects", "orders.>")]).await.unwrap();
    let refused = Err(RDKafkaErrorCode::InvalidConfig);
    for subjects in ["orders.eu", "x.y,orders.*", "$JS.API.>", "_INBOX.>", ">", "*.eu", "a..b", "a.b,a.*"] {
        assert_eq!(
            create(&server, "new", 1, &[("tailrace.subjects", subjects)]).await,
            refused,
            "{subjects}"
        );
    }
    let small = [("tailrace.subjects", "new.>"), ("max.message.bytes", "1000000")];
    assert_eq!(create(&server, "new", 1, &small).await, refused);
    create(&server, "new", 1, &[("tailrace.subjects", "new.>")]).await.unwrap();
    // librdkafka's binding does not report that the change was refused, so send a plain request.
    alter(&server, "new", &[("tailrace.subjects", "new.>,orders.eu")]).await;
    let config = AlterableConfig {
        name: "tailrace.subjects".to_owned(),
        value: Some("new.>,orders.eu".to_owned()),
        ..Default::default()
    };
    let resource = AlterConfigsResource {
        resource_type: 2,
        resource_name: "new".to_owned(),
        configs: vec![config],
        ..Default::default()
    };
    let request = AlterConfigsRequest { resources: vec![resource], ..Default::default() };
    let answer = server.connect().await.call(2, &request).await.responses.remove(0);
    let words = "tailrace.subjects: 'orders.eu' of topic 'new' overlaps 'orders.>' of topic 'orders'; a subject can be \
                 captured only once";
    assert_eq!(
        (error(answer.error_code), answer.error_message.as_deref()),
        (ErrorCode::InvalidConfig, Some(words))
    );
    let client = nats(&server).await;
    for subject in ["orders.eu", "new.1"] {
        let stream = subject.split('.').next().unwrap();
        assert_eq!(publish_for_ack(&client, subject, "x").await, json!({ "stream": stream, "seq": 1 }));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bindings_and_sequences_outlive_a_restart_and_a_kill() {
    let mut server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    for seq in 1..=3 {
        let client = nats(&server).await;
        assert_eq!(publish_for_ack(&client, "t.a", "x").await, json!({ "stream": "t", "seq": seq }));
        server.restart().await;
    }
    let client = nats(&server).await;
    for seq in 4..=20 {
        assert_eq!(publish_for_ack(&client, "t.a", "x").await, json!({ "stream": "t", "seq": seq }));
    }
    let killed = server.crashed_copy().await;
    let client = nats(&killed).await;
    assert_eq!(publish_for_ack(&client, "t.b", "y").await, json!({ "stream": "t", "seq": 21 }));
    assert_eq!(records(&killed, "t", 1, 21).await[20].key(), "t.b");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_topic_may_go_while_its_subjects_are_published() {
    let server = TestServer::start().await;
    let client = nats(&server).await;
    let publisher = nats(&server).await;
    let stop = std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false));
    let publishing = tokio::spawn({
        let stop = std::sync::Arc::clone(&stop);
        async move {
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                publisher.publish("t.x", "x".into()).await.unwrap();
                tokio::task::yield_now().await;
            }
            publisher.flush().await.unwrap();
        }
    });
    for _ in 0..5 {
        create(&server, "t", 2, &[("tailrace.subjects", "t.>")]).await.unwrap();
        let answer = publish_for_ack(&client, "t.y", "y").await;
        assert!(answer["stream"].as_str().unwrap().starts_with("t-"), "{answer}");
        delete(&server, "t").await;
    }
    stop.store(true, std::sync::atomic::Ordering::Relaxed);
    publishing.await.unwrap();
    // Nobody captures the subject, and nobody listens.
    let error = client.request("t.y", "".into()).await.unwrap_err();
    assert_eq!(error.kind(), async_nats::RequestErrorKind::NoResponders);
    assert_eq!(client.connection_state(), async_nats::connection::State::Connected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_binding_may_change_while_its_subjects_are_published_without_loss_or_copies() {
    const COUNT: usize = 3000;
    let server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.*"), RELAXED]).await.unwrap();
    let publisher = nats(&server).await;
    let publishing = tokio::spawn(async move {
        for number in 0..COUNT {
            publisher.publish("t.x", number.to_string().into()).await.unwrap();
            if number % 100 == 0 {
                publisher.flush().await.unwrap();
            }
        }
        publisher.flush().await.unwrap();
    });
    let mut changes = 0;
    while !publishing.is_finished() || changes < 4 {
        // Each of these includes t.x.
        for subjects in ["t.>", "t.x", "t.x,u.>", "t.*"] {
            alter(&server, "t", &[("tailrace.subjects", subjects), RELAXED]).await;
            changes += 1;
        }
    }
    publishing.await.unwrap();
    let found = records(&server, "t", 1, COUNT).await;
    let numbers: Vec<usize> = found.iter().map(|record| record.value().parse().unwrap()).collect();
    assert_eq!(numbers, (0..COUNT).collect::<Vec<_>>());
    let client = nats(&server).await;
    assert_eq!(publish_for_ack(&client, "t.x", "x").await["seq"], json!(COUNT + 1));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn partitions_that_are_added_are_used() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>")]).await.unwrap();
    let client = nats(&server).await;
    assert_eq!(publish_for_ack(&client, "t.1", "x").await["stream"], "t");
    let added = admin(&server)
        .create_partitions(
            [&rdkafka::admin::NewPartitions::new("t", 5)],
            &rdkafka::admin::AdminOptions::new(),
        )
        .await
        .expect("an answer");
    assert_eq!(added, [Ok("t".to_owned())]);
    let mut streams = BTreeSet::new();
    for number in 0..50 {
        let answer = publish_for_ack(&client, &format!("t.{number}"), "x").await;
        streams.insert(answer["stream"].as_str().unwrap().to_owned());
    }
    assert_eq!(streams.into_iter().collect::<Vec<_>>(), ["t-0", "t-1", "t-2", "t-3", "t-4"]);
}
