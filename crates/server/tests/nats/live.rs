//! How records of Kafka clients reach live NATS subscribers: subjects, headers, order, only after commit,
//! exactly once, and bounded if subscribers are slow. Each test has librdkafka or plain Kafka frames on one
//! side and async-nats on the other.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::collections::BTreeMap;
use std::time::Duration;

use crate::common::rig::{SCRUBBING, damage_second_batch, eventually, now, number, numbered, numbered_with};
use crate::common::tap::Tap;
use crate::common::{TestServer, batch};
use crate::crossing::*;
use async_nats::Subscriber;
use rdkafka::message::{Header, OwnedHeaders};
use rdkafka::producer::{FutureProducer, FutureRecord, Producer as _};
use tailrace_records::{BatchBuilder, BatchOptions, Compression};
use tailrace_types::{ProducerEpoch, ProducerId};

/// A short period during which something must not happen.
const MEANWHILE: Duration = Duration::from_millis(200);

const RELAXED: (&str, &str) = ("flush.messages", "1000000");

/// Subscribes, and waits until the server knows of it.
async fn subscribed(server: &TestServer, subject: &str) -> (async_nats::Client, Subscriber) {
    let client = nats(server).await;
    let subscriber = client.subscribe(subject.to_owned()).await.unwrap();
    settled(&client).await;
    (client, subscriber)
}

/// Returns the subject, header lines and payload of the next message.
async fn message(subscriber: &mut Subscriber) -> (String, Vec<(String, String)>, String) {
    let message = next(subscriber).await;
    let payload = String::from_utf8(message.payload.to_vec()).unwrap();
    (message.subject.to_string(), headers(&message), payload)
}

fn lines(lines: &[(&str, &str)]) -> Vec<(String, String)> {
    lines.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
}

/// A topic that binds nothing, or other subjects, delivers under its own name, unless another topic binds
/// that subject.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_speaks_under_subjects_that_another_topic_binds() {
    let server = TestServer::start().await;
    create(&server, "orders", 1, &[("tailrace.subjects", "orders.>")]).await.unwrap();
    create(&server, "orders.eu", 1, &[]).await.unwrap();
    create(&server, "shop", 1, &[("tailrace.subjects", "sales.*")]).await.unwrap();
    let (_client, mut all) = subscribed(&server, ">").await;
    let producer = producer(&server);
    let to = |topic| FutureRecord::<[u8], [u8]>::to(topic).payload(b"x");
    let kept = "tailrace_nats_live_undeliverable_records_total{reason=\"bound_elsewhere\"}";
    // By name and key, by name alone, and by a header with a subject that the topic may not choose.
    send(&producer, to("orders.eu").key(b"new")).await;
    send(&producer, to("orders.eu")).await;
    let given = OwnedHeaders::new().insert(Header { key: "Nats-Subject", value: Some("orders.1") });
    send(&producer, to("orders.eu").headers(given)).await;
    eventually("the three records are withheld", || async { server.metric(kept).await == 3.0 }).await;
    // Other records are delivered as before: those of the owner under the same subject, and those whose
    // subjects no other topic binds.
    send(&producer, to("orders").key(b"eu.new")).await;
    assert_eq!(message(&mut all).await.0, "orders.eu.new");
    send(&producer, to("shop").key(b"1")).await;
    assert_eq!(message(&mut all).await.0, "shop.1");
    send(&producer, to("shop").key(b"sales.1")).await;
    assert_eq!(message(&mut all).await.0, "sales.1");
    // Once no other topic binds the subjects, they are the topic's own.
    alter(&server, "orders", &[("tailrace.subjects", "elsewhere.>")]).await;
    let heard = async {
        loop {
            // The change of a setting takes a moment.
            send(&producer, to("orders.eu").key(b"new")).await;
            if let Ok(heard) = tokio::time::timeout(MEANWHILE, message(&mut all)).await {
                break heard.0;
            }
        }
    };
    assert_eq!(tokio::time::timeout(PATIENCE, heard).await.expect("in time"), "orders.eu.new");
}

/// Who may write the topic `pay` may not speak as `pay.admin`, which is another topic.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nobody_speaks_under_the_longer_name_of_another_topic() {
    let server = TestServer::start().await;
    for (topic, subjects) in [("pay", ""), ("pay.admin", ""), ("shop", "pay.admin.of.shop")] {
        let settings = [("tailrace.subjects", subjects)];
        create(&server, topic, 1, if subjects.is_empty() { &[] } else { &settings }).await.unwrap();
    }
    let (_client, mut all) = subscribed(&server, ">").await;
    let producer = producer(&server);
    let to = |topic| FutureRecord::<[u8], [u8]>::to(topic).payload(b"x");
    let kept = "tailrace_nats_live_undeliverable_records_total{reason=\"bound_elsewhere\"}";
    send(&producer, to("pay").key(b"admin")).await;
    send(&producer, to("pay").key(b"admin.key")).await;
    eventually("the two records are withheld", || async { server.metric(kept).await == 2.0 }).await;
    for (topic, key, subject) in [
        ("pay", "administrator", "pay.administrator"),
        ("pay.admin", "key", "pay.admin.key"),
        // A binding says so.
        ("shop", "pay.admin.of.shop", "pay.admin.of.shop"),
    ] {
        send(&producer, to(topic).key(key.as_bytes())).await;
        assert_eq!(message(&mut all).await.0, subject);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_records_subject_is_its_header_or_its_key_or_the_topic() {
    let server = TestServer::start().await;
    create(&server, "orders", 1, &[("tailrace.subjects", "orders.>,shop.*.paid")]).await.unwrap();
    create(&server, "plain.topic", 1, &[]).await.unwrap();
    let (_client, mut all) = subscribed(&server, ">").await;
    let producer = producer(&server);
    let given = |subject: &'static str| Header { key: "Nats-Subject", value: Some(subject) };
    let headers = |header| OwnedHeaders::new().insert(header);
    let to = || FutureRecord::<[u8], [u8]>::to("orders").payload(b"x");
    let cases = [
        (to().key(b"eu.new"), "orders.eu.new", lines(&[])),
        (to(), "orders", lines(&[])),
        (to().key(b"orders.eu"), "orders.eu", lines(&[])),
        (to().key(b"shop.1.paid"), "shop.1.paid", lines(&[])),
        (to().key(b"shop.1"), "orders.shop.1", lines(&[])),
        (to().key(b"a b"), "orders", lines(&[("Kafka-Key", "a b")])),
        (
            to().key(b"a\r\nMSG x 1 0\r\n\r\n"),
            "orders",
            lines(&[("Kafka-Key-Base64", "YQ0KTVNHIHggMSAwDQoNCg")]),
        ),
        (to().key(b"a..b"), "orders", lines(&[("Kafka-Key", "a..b")])),
        (to().key(b"*"), "orders", lines(&[("Kafka-Key", "*")])),
        (to().key(b""), "orders", lines(&[("Kafka-Key", "")])),
        (to().key(b"\xff\0"), "orders", lines(&[("Kafka-Key-Base64", "_wA")])),
        (to().headers(headers(given("orders.1"))), "orders.1", lines(&[])),
        (to().key(b"k").headers(headers(given("orders.1"))), "orders.1", lines(&[("Kafka-Key", "k")])),
        (to().key(b"k").headers(headers(given("secret"))), "orders.k", lines(&[("Nats-Subject", "secret")])),
        (to().headers(headers(given("orders.*"))), "orders", lines(&[("Nats-Subject", "orders.*")])),
        (FutureRecord::<[u8], [u8]>::to("plain.topic").key(b"k").payload(b"x"), "plain.topic.k", lines(&[])),
    ];
    for (record, subject, expected) in cases {
        send(&producer, record).await;
        assert_eq!(message(&mut all).await, (subject.to_owned(), expected, "x".to_owned()));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn headers_keep_their_order_and_what_nats_cannot_carry_is_marked() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[]).await.unwrap();
    let (_client, mut all) = subscribed(&server, "t.>").await;
    let producer = producer(&server);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "a", value: Some(&b"1"[..]) })
        .insert(Header { key: "b", value: Some(b"\r\nInjected: yes") })
        .insert(Header { key: "b", value: Some(b"\xff\xfe") })
        .insert(Header { key: "a", value: Some("ü".as_bytes()) })
        .insert(Header { key: "null", value: None::<&[u8]> })
        .insert(Header { key: "a b", value: Some(b"2") })
        .insert(Header { key: "Kafka-Key", value: Some(b"forged") });
    let record = FutureRecord::<[u8], [u8]>::to("t").key(b"k").payload(b"x").headers(headers);
    send(&producer, record).await;
    let expected = lines(&[
        ("Kafka-Header-Base64", "Yg=DQpJbmplY3RlZDogeWVz"),
        ("Kafka-Header-Base64", "Yg=__4"),
        ("Kafka-Header-Base64", "bnVsbA"),
        ("Kafka-Header-Base64", "YSBi=Mg"),
        ("Kafka-Header-Base64", "S2Fma2EtS2V5=Zm9yZ2Vk"),
        ("a", "1"),
        ("a", "ü"),
    ]);
    assert_eq!(message(&mut all).await, ("t.k".to_owned(), expected, "x".to_owned()));
    let tombstone = FutureRecord::<[u8], [u8]>::to("t").key(b"k");
    send(&producer, tombstone).await;
    let expected = ("t.k".to_owned(), lines(&[("Kafka-Value", "null")]), String::new());
    assert_eq!(message(&mut all).await, expected);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_record_survives_the_way_over_nats_into_another_topic() {
    let server = TestServer::start().await;
    create(&server, "from", 1, &[]).await.unwrap();
    create(&server, "into", 1, &[("tailrace.subjects", "into.>")]).await.unwrap();
    let (client, mut all) = subscribed(&server, "from.>").await;
    let producer = producer(&server);
    let headers = OwnedHeaders::new()
        .insert(Header { key: "binary", value: Some(&b"\0\xff"[..]) })
        .insert(Header { key: "null", value: None::<&[u8]> });
    send(&producer, FutureRecord::<[u8], [u8]>::to("from").key(b"k").payload(b"x").headers(headers)).await;
    send(&producer, FutureRecord::<[u8], [u8]>::to("from").key(b"gone")).await;
    for _ in 0..2 {
        let message = next(&mut all).await;
        let (subject, mut headers) =
            (message.subject.replacen("from.", "into.", 1), message.headers.unwrap());
        headers.append("Kafka-Key", message.subject.strip_prefix("from.").unwrap());
        client.publish_with_headers(subject, headers, message.payload).await.unwrap();
    }
    client.flush().await.unwrap();
    let found = records(&server, "into", 1, 2).await;
    let mut headers = found[0].headers.clone();
    headers.retain(|(name, _)| name != "Nats-Subject");
    let expected = [("binary".to_owned(), Some(b"\0\xff".to_vec())), ("null".to_owned(), None)];
    assert_eq!((found[0].key(), found[0].value(), &headers[..]), ("k", "x", &expected[..]));
    assert_eq!((found[1].key(), &found[1].value), ("gone", &None));
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn records_are_delivered_after_their_commit_and_not_before() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[]).await;
    create(&server, "strict", 1, &[]).await.unwrap();
    create(&server, "relaxed", 1, &[RELAXED]).await.unwrap();
    let (_client, mut all) = subscribed(&server, ">").await;
    let mut kafka = server.connect().await;
    kafka.produce("strict", 0, &[1]).await;
    assert_eq!(next(&mut all).await.subject.as_str(), "strict.key");
    tap.hold("/strict-0/");
    tap.hold("/relaxed-0/");
    // With acks=1, the server answers at the append.
    assert_eq!(
        kafka.produce_to("strict", 0, 1, batch(BatchOptions::default(), &[now().0])).await.error_code,
        0
    );
    assert_eq!(
        kafka.produce_to("relaxed", 0, 1, batch(BatchOptions::default(), &[now().0])).await.error_code,
        0
    );
    assert_eq!(next(&mut all).await.subject.as_str(), "relaxed.key");
    let early = tokio::time::timeout(MEANWHILE, next(&mut all)).await;
    assert!(early.is_err(), "delivered before it was durable");
    tap.release("/strict-0/");
    assert_eq!(next(&mut all).await.subject.as_str(), "strict.key");
    tap.release("/relaxed-0/");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn order_holds_for_each_partition_and_nothing_comes_twice() {
    const PRODUCERS: u64 = 4;
    const BATCHES: u64 = 60;
    const RECORDS: u64 = 5;
    let server = TestServer::start().await;
    create(&server, "t", 3, &[RELAXED]).await.unwrap();
    create(&server, "c", 1, &[("tailrace.subjects", "captured.>"), RELAXED]).await.unwrap();
    let (_client, mut all) = subscribed(&server, "*").await;
    let mut tasks = tokio::task::JoinSet::new();
    for producer in 0..PRODUCERS {
        let mut kafka = server.connect().await;
        tasks.spawn(async move {
            for sent in 0..BATCHES {
                let (partition, first) = ((sent % 3) as i32, (producer * BATCHES + sent) * RECORDS);
                let answer = kafka.produce_to("t", partition, 1, numbered(first, RECORDS, 100)).await;
                assert_eq!(answer.error_code, 0);
            }
        });
    }
    let count = usize::try_from(PRODUCERS * BATCHES * RECORDS).unwrap();
    let mut seen: Vec<u64> = Vec::with_capacity(count);
    while seen.len() < count {
        seen.push(number(&next(&mut all).await.payload));
    }
    tasks.join_all().await;
    // The log has the right order. The payload tells the partition.
    let mut reader = server.connect().await;
    for partition in 0..3 {
        let logged: Vec<u64> =
            reader.read_all("t", partition, 0).await.iter().map(|(_, v)| number(v)).collect();
        let mine: std::collections::BTreeSet<u64> = logged.iter().copied().collect();
        let delivered: Vec<u64> = seen.iter().copied().filter(|n| mine.contains(n)).collect();
        assert_eq!(delivered, logged, "partition {partition}");
    }
    assert!(tokio::time::timeout(MEANWHILE, next(&mut all)).await.is_err(), "a message arrived twice");
    assert_eq!(server.metric("tailrace_nats_live_records_total").await, count as f64);
    assert_eq!(server.metric("tailrace_nats_live_skipped_records_total").await, 0.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn captured_and_produced_records_of_one_topic_come_once_each() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[("tailrace.subjects", "t.>"), RELAXED]).await.unwrap();
    let (client, mut all) = subscribed(&server, ">").await;
    let producer = producer(&server);
    for number in 0..50 {
        client.publish("t.nats", number.to_string().into()).await.unwrap();
        client.flush().await.unwrap();
        let payload = number.to_string();
        send(&producer, FutureRecord::<[u8], [u8]>::to("t").key(b"kafka").payload(payload.as_bytes())).await;
    }
    let mut by_subject: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for _ in 0..100 {
        let (subject, _, payload) = message(&mut all).await;
        by_subject.entry(subject).or_default().push(payload);
    }
    let expected: Vec<String> = (0..50).map(|number| number.to_string()).collect();
    assert_eq!(by_subject["t.nats"], expected);
    assert_eq!(by_subject["t.kafka"], expected);
    // A duplicate would be read from the log before this record.
    send(&producer, FutureRecord::<[u8], [u8]>::to("t").key(b"end").payload(b"")).await;
    assert_eq!(message(&mut all).await.0, "t.end", "a message arrived twice");
    assert_eq!(count_of_records(&server, "t", 1).await, 101, "no message is stored twice");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_repeated_batch_of_an_idempotent_producer_is_delivered_once() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    let (_client, mut all) = subscribed(&server, "t").await;
    let options = |sequence| BatchOptions {
        producer_id: ProducerId(7000),
        producer_epoch: ProducerEpoch(0),
        base_sequence: sequence,
        ..BatchOptions::default()
    };
    for _ in 0..3 {
        let answer = kafka.produce_to("t", 0, -1, numbered_with(options(0), 1, 1, 50)).await;
        assert_eq!((answer.error_code, answer.base_offset), (0, 0));
    }
    kafka.produce_to("t", 0, -1, numbered_with(options(1), 2, 1, 50)).await;
    assert_eq!(number(&next(&mut all).await.payload), 1);
    assert_eq!(number(&next(&mut all).await.payload), 2);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn of_a_producer_that_commits_and_aborts_what_is_committed_is_delivered() {
    let server = TestServer::start().await;
    create(&server, "t", 1, &[]).await.unwrap();
    let (_client, mut all) = subscribed(&server, "t").await;
    let producer: FutureProducer = kafka(&server).set("transactional.id", "both").create().unwrap();
    let begins = producer.clone();
    tokio::task::spawn_blocking(move || begins.init_transactions(PATIENCE)).await.unwrap().unwrap();
    for number in 0..11 {
        producer.begin_transaction().unwrap();
        let payload = number.to_string();
        send(&producer, FutureRecord::<[u8], [u8]>::to("t").payload(payload.as_bytes())).await;
        let ends = producer.clone();
        let end = move || match number % 2 {
            0 => ends.commit_transaction(PATIENCE),
            _ => ends.abort_transaction(PATIENCE),
        };
        tokio::task::spawn_blocking(end).await.unwrap().unwrap();
    }
    for expected in ["0", "2", "4", "6", "8", "10"] {
        assert_eq!(message(&mut all).await.2, expected);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn compressed_batches_are_unpacked() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    let (_client, mut all) = subscribed(&server, "t.*").await;
    let payload = "all the same ".repeat(100);
    for compression in [Compression::Gzip, Compression::Snappy, Compression::Lz4, Compression::Zstd] {
        let options = BatchOptions { compression, ..BatchOptions::default() };
        let mut builder = BatchBuilder::new(options);
        for record in 0..200 {
            let key = record.to_string();
            builder.push(now(), Some(key.as_bytes()), Some(payload.as_bytes()), &[]).unwrap();
        }
        assert_eq!(kafka.produce_to("t", 0, -1, builder.build()).await.error_code, 0);
        for record in 0..200 {
            let (subject, _, found) = message(&mut all).await;
            assert_eq!((subject, found), (format!("t.{record}"), payload.clone()));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn nothing_is_read_if_nobody_can_be_interested() {
    let server = TestServer::start().await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[("tailrace.subjects", "bound.>")]).await;
    let (client, mut others) = subscribed(&server, "elsewhere.>").await;
    for _ in 0..10 {
        assert_eq!(kafka.produce_to("t", 0, -1, numbered(0, 10, 100)).await.error_code, 0);
    }
    // Records from before the subscription are not delivered later.
    let mut mine = client.subscribe("bound.>").await.unwrap();
    settled(&client).await;
    let producer = producer(&server);
    let given = Header { key: "Nats-Subject", value: Some("bound.1") };
    let record = FutureRecord::<[u8], [u8]>::to("t").payload(b"x").headers(OwnedHeaders::new().insert(given));
    send(&producer, record).await;
    assert_eq!(message(&mut mine).await.0, "bound.1");
    assert_eq!(server.metric("tailrace_nats_live_records_total").await, 1.0);
    client.publish("elsewhere.1", "end".into()).await.unwrap();
    assert_eq!(message(&mut others).await.2, "end");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn when_too_much_waits_the_oldest_is_skipped_and_counted() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &[("tailrace.nats.live.lag.max.bytes", "65536")]).await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    kafka.create_topic("other", 1, &[]).await;
    let (_client, mut all) = subscribed(&server, "t").await;
    assert_eq!(kafka.produce_to("t", 0, -1, numbered(0, 1, 100)).await.error_code, 0);
    assert_eq!(number(&next(&mut all).await.payload), 0);
    tap.hold("/t-0/");
    for first in 1..=40 {
        assert_eq!(kafka.produce_to("t", 0, 1, numbered(first, 1, 5000)).await.error_code, 0);
    }
    tap.release("/t-0/");
    let mut seen = Vec::new();
    while seen.last() != Some(&40) {
        seen.push(number(&next(&mut all).await.payload));
    }
    assert!(seen.is_sorted() && seen.len() < 30, "{seen:?}");
    // The newest records are the ones delivered.
    let tail = &seen[seen.len() - 8..];
    assert_eq!(tail, (33..=40).collect::<Vec<_>>());
    let skipped = server.metric("tailrace_nats_live_skipped_records_total").await;
    assert_eq!(skipped, (40 - seen.len()) as f64);
    assert_eq!(kafka.read_all("t", 0, 0).await.len(), 41, "the log has all records");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_damaged_before_its_delivery_is_skipped_alone_and_counted() {
    let tap = Tap::new();
    let server = TestServer::on(tap.disk(), &SCRUBBING).await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[]).await;
    let (_client, mut all) = subscribed(&server, "t").await;
    tap.hold("/t-0/");
    for first in [0, 3, 6] {
        assert_eq!(kafka.produce_to("t", 0, 1, numbered(first, 3, 100)).await.error_code, 0);
    }
    damage_second_batch(&server, "t-0");
    eventually("the damage is found", || async {
        server.get("/healthz").await.1.contains("t-0 is damaged at offsets 3 to 5")
    })
    .await;
    tap.release("/t-0/");
    let mut seen = Vec::new();
    while seen.len() < 6 {
        seen.push(number(&next(&mut all).await.payload));
    }
    assert_eq!(seen, [0, 1, 2, 6, 7, 8]);
    assert_eq!(server.metric("tailrace_nats_live_skipped_records_total").await, 3.0);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_no_message_can_carry_is_counted_and_the_rest_goes_on() {
    let server = TestServer::with(&[("tailrace.nats.max.payload.bytes", "1000")]).await;
    for name in ["t", "_INBOX", "a..b"] {
        create(&server, name, 1, &[]).await.unwrap();
    }
    let (_client, mut all) = subscribed(&server, ">").await;
    let producer = producer(&server);
    let large = vec![b'x'; 1001];
    send(&producer, FutureRecord::<[u8], [u8]>::to("t").key(b"large").payload(&large)).await;
    send(&producer, FutureRecord::<[u8], [u8]>::to("t").key(b"fits").payload(&large[..1000])).await;
    assert_eq!(message(&mut all).await.0, "t.fits");
    let label = "tailrace_nats_live_undeliverable_records_total{reason=\"too_large\"}";
    assert_eq!(server.metric(label).await, 1.0);
    // A Kafka client cannot answer other clients' requests by naming its topic like this.
    send(&producer, FutureRecord::<[u8], [u8]>::to("_INBOX").key(b"abc").payload(b"forged")).await;
    send(&producer, FutureRecord::<[u8], [u8]>::to("a..b").key(b"k").payload(b"x")).await;
    assert_eq!(message(&mut all).await.0, "a__b.k");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_subscriber_that_does_not_read_harms_no_producer_and_no_other_subscriber() {
    use tokio::io::AsyncWriteExt;

    let server = TestServer::with(&[("tailrace.nats.max.pending.bytes", "4000000")]).await;
    let mut kafka = server.connect().await;
    kafka.create_topic("t", 1, &[RELAXED]).await;
    let mut stuck = tokio::net::TcpStream::connect(server.nats()).await.unwrap();
    stuck.write_all(b"CONNECT {}\r\nSUB t 1\r\nPING\r\n").await.unwrap();
    let (_client, mut all) = subscribed(&server, "t").await;
    let count = 300;
    let producing = tokio::spawn(async move {
        for first in 0..count {
            assert_eq!(kafka.produce_to("t", 0, 1, numbered(first, 1, 100_000)).await.error_code, 0);
        }
    });
    for expected in 0..count {
        assert_eq!(number(&next(&mut all).await.payload), expected);
    }
    producing.await.unwrap();
    eventually("the stuck subscriber is cut off", || async {
        server.metric("tailrace_nats_slow_consumers_total").await == 1.0
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn topics_may_go_and_come_back_while_they_are_listened_to() {
    let server = TestServer::start().await;
    let (_client, mut all) = subscribed(&server, "t.*").await;
    let producer = producer(&server);
    for round in 0..4 {
        create(&server, "t", 1, &[]).await.unwrap();
        let payload = round.to_string();
        send(&producer, FutureRecord::<[u8], [u8]>::to("t").key(b"k").payload(payload.as_bytes())).await;
        assert_eq!(message(&mut all).await.2, payload);
        delete(&server, "t").await;
    }
}
