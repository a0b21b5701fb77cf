//! `tailrace txn`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, Wire, failure, run, success, until};
use serde_json::{Value, json};
use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{EndTxnRequest, FetchRequest, InitProducerIdRequest, ProduceRequest};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{ProducerEpoch, ProducerId, TimestampMs};

fn json_of(server: &Server, arguments: &[&str]) -> Value {
    serde_json::from_str(&server.output(&[&["txn"], arguments, &["-o", "json"]].concat())).unwrap()
}

/// A transactional producer.
struct Producer {
    wire: Wire,
    transactional_id: String,
    id: i64,
    epoch: i16,
}

impl Producer {
    fn new(server: &Server, transactional_id: &str) -> Self {
        let mut wire = Wire::connect(server);
        let request = InitProducerIdRequest {
            transactional_id: Some(transactional_id.to_owned()),
            transaction_timeout_ms: 60_000,
            ..Default::default()
        };
        let answer = wire.call(5, &request);
        assert_eq!(answer.error_code, 0);
        let (id, epoch) = (answer.producer_id, answer.producer_epoch);
        Self { wire, transactional_id: transactional_id.to_owned(), id, epoch }
    }

    /// Sends one record to a partition of `orders`, the transaction's first there. Returns the error code.
    fn send(&mut self, partition: i32) -> i16 {
        self.send_key(partition, None)
    }

    fn send_key(&mut self, partition: i32, key: Option<&str>) -> i16 {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(self.id),
            producer_epoch: ProducerEpoch(self.epoch),
            base_sequence: 0,
            transactional: true,
            ..Default::default()
        });
        builder.push(TimestampMs(1000), key.map(str::as_bytes), Some(b"x"), &[]).unwrap();
        let records = Records::Bytes(builder.build());
        let data = PartitionProduceData { index: partition, records, ..Default::default() };
        let topic =
            TopicProduceData { name: "orders".to_owned(), partition_data: vec![data], ..Default::default() };
        let request = ProduceRequest {
            transactional_id: Some(self.transactional_id.clone()),
            acks: -1,
            timeout_ms: 10_000,
            topic_data: vec![topic],
            ..Default::default()
        };
        self.wire.call(12, &request).responses[0].partition_responses[0].error_code
    }

    /// Returns the error code.
    fn commit(&mut self) -> i16 {
        self.end(true)
    }

    /// Ends the transaction. The next one has the epoch from the response. Returns the error code.
    fn end(&mut self, committed: bool) -> i16 {
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed,
            ..Default::default()
        };
        let answer = self.wire.call(5, &request);
        if answer.error_code == 0 {
            self.epoch = answer.producer_epoch;
        }
        answer.error_code
    }
}

fn prepared(dir: &tempfile::TempDir) -> Server {
    let server = Server::start(&dir.path().join("data"), &[]);
    server.create("orders", 2);
    server
}

fn state(server: &Server, id: &str) -> Value {
    json_of(server, &["describe", id])[0].take()
}

#[test]
fn transactions_are_listed_and_described() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    assert_eq!(json_of(&server, &["list"]), json!([]));
    let mut open = Producer::new(&server, "orders-1");
    let mut done = Producer::new(&server, "orders-2");
    Producer::new(&server, "other");
    assert_eq!((open.send(0), open.send(1), done.send(1)), (0, 0, 0));
    assert_eq!(done.commit(), 0);
    until("the end", || state(&server, "orders-2")["state"] == "CompleteCommit");

    let ids = |more: &[&str]| {
        let listed = json_of(&server, &[&["list"], more].concat());
        let ids = listed.as_array().unwrap().iter().map(|one| one["transactional_id"].as_str().unwrap());
        ids.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(ids(&[]), ["orders-1", "orders-2", "other"]);
    assert_eq!(ids(&["--state", "Ongoing"]), ["orders-1"]);
    assert_eq!(ids(&["--state", "Ongoing", "--state", "Empty"]), ["orders-1", "other"]);
    assert_eq!(ids(&["--producer-id", &done.id.to_string()]), ["orders-2"]);
    assert_eq!(ids(&["--pattern", "orders-."]), ["orders-1", "orders-2"]);
    assert_eq!(ids(&["--longer-than", "1h"]), [""; 0]);
    let entry = &json_of(&server, &["list"])[0];
    let expected = json!({
        "transactional_id": "orders-1", "producer_id": open.id, "state": "Ongoing", "coordinator": 1,
    });
    assert_eq!(*entry, expected);
    let text = server.output(&["txn", "list"]);
    assert!(text.starts_with("TRANSACTIONAL ID") && text.contains("\norders-1 "), "{text}");

    let described = state(&server, "orders-1");
    assert!(described["start_time_ms"].as_i64().unwrap() > 0);
    assert_eq!((&described["producer_epoch"], &described["timeout_ms"]), (&json!(0), &json!(60_000)));
    let partition = |number: i32| json!({ "topic": "orders", "partition": number });
    assert_eq!(described["partitions"], json!([partition(0), partition(1)]));
    let text = server.output(&["txn", "describe", "orders-1", "other"]);
    assert!(text.starts_with(&format!("orders-1  (Ongoing, producer {} with epoch 0)\n", open.id)), "{text}");
    assert!(text.contains("  in        orders 0,1\n") && text.contains("other  (Empty, "), "{text}");

    let unknown = server.run(&["txn", "describe", "nobody", "orders-1"]);
    let complaint = failure(&unknown, 1);
    assert!(complaint.contains("there is no transactional id 'nobody'"), "{complaint}");
    assert!(String::from_utf8_lossy(&unknown.stdout).starts_with("orders-1 "), "the others are shown");
    let complaint = failure(&server.run(&["txn", "list", "--state", "Odd"]), 2);
    assert!(
        complaint.contains("'Odd'") && complaint.contains("expected one of Empty, Ongoing, "),
        "{complaint}"
    );
}

#[test]
fn a_transaction_is_aborted_by_its_id() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    let mut producer = Producer::new(&server, "orders-1");
    assert_eq!((producer.send(0), producer.send(1)), (0, 0));
    let done = json_of(&server, &["abort", "--transactional-id", "orders-1"]);
    assert_eq!((&done["aborted"], &done["state_before"]), (&json!(true), &json!("Ongoing")));
    assert_eq!(done["producer_id"], json!(producer.id));
    assert!(done["producer_epoch"].as_i64().unwrap() > 0);
    assert_ne!(producer.commit(), 0, "it is fenced off");
    let again = server.output(&["txn", "abort", "--transactional-id", "orders-1"]);
    assert!(again.starts_with("orders-1: nothing was open (Empty); "), "{again}");
    let complaint = failure(&server.run(&["txn", "abort", "--transactional-id", "nobody"]), 1);
    assert!(complaint.contains("there is no transactional id 'nobody'"), "{complaint}");
    assert_eq!(json_of(&server, &["list"]).as_array().unwrap().len(), 1, "it is not known by that");
}

#[test]
fn a_transaction_is_aborted_in_one_partition() {
    let dir = tempfile::tempdir().unwrap();
    let server = prepared(&dir);
    server.produce("orders", &["--partition", "0"], b"a\n");
    let mut producer = Producer::new(&server, "orders-1");
    assert_eq!((producer.send(0), producer.send(1)), (0, 0));
    let abort = ["abort", "--topic", "orders", "--partition", "0"];
    let wrong = failure(&server.run(&[&["txn"], &abort[..], &["--start-offset", "0"]].concat()), 1);
    let open = format!("no such transaction is open in orders-0; open: {} at offset 1", producer.id);
    assert!(wrong.contains(&open), "{wrong}");
    let done = json_of(&server, &[&abort[..], &["--start-offset", "1"]].concat());
    let expected = json!({
        "topic": "orders", "partition": 0, "producer_id": producer.id, "producer_epoch": 0, "start_offset": 1,
    });
    assert_eq!(done, expected);
    let id = producer.id.to_string();
    let wrong = failure(&server.run(&[&["txn"], &abort[..], &["--producer-id", &id]].concat()), 1);
    assert!(wrong.contains("none is"), "{wrong}");
    let other = ["txn", "abort", "--topic", "orders", "--partition", "1", "--producer-id", &id];
    let text = server.output(&other);
    assert_eq!(
        text,
        format!("orders-1: aborted the transaction of producer {id} (epoch 0) that began at offset 0\n")
    );
    for wrong in [
        &["abort"][..],
        &["abort", "--topic", "orders"],
        &["abort", "--topic", "orders", "--partition", "0"],
        &["abort", "--transactional-id", "a", "--start-offset", "1"],
        &["abort", "--transactional-id", "a", "--topic", "orders", "--partition", "0", "--producer-id", "1"],
    ] {
        failure(&server.run(&[&["txn"], wrong].concat()), 2);
    }
    let missing = ["txn", "abort", "--topic", "orders", "--partition", "9", "--producer-id", "1"];
    let complaint = failure(&server.run(&missing), 1);
    assert!(complaint.contains("9"), "{complaint}");
}

/// How many aborted transactions a Fetch of committed records lists.
fn aborted(server: &Server) -> usize {
    let partition = FetchPartition { partition_max_bytes: 1 << 20, ..Default::default() };
    let topic = FetchTopic { topic: "orders".to_owned(), partitions: vec![partition], ..Default::default() };
    let request =
        FetchRequest { isolation_level: 1, max_bytes: 1 << 20, topics: vec![topic], ..Default::default() };
    let mut answer = Wire::connect(server).call(4, &request);
    let data = answer.responses.remove(0).partitions.remove(0);
    assert_eq!(data.error_code, 0);
    data.aborted_transactions.map_or(0, |list| list.len())
}

/// Compaction removes the record of an aborted transaction, and then its marker. Nothing is appended after
/// that, and the server restarts. Consumers of committed records still get what the same producer has
/// committed since.
#[test]
fn committed_records_are_there_after_compaction_has_removed_an_abort_marker_and_a_restart() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let fast = ["--set", "log.cleaner.backoff.ms=50"];
    let mut server = Server::start(&data, &fast);
    let mut create = vec!["topic", "create", "orders", "--partitions", "1"];
    let settings = [
        "cleanup.policy=compact",
        "segment.bytes=1048576",
        "min.cleanable.dirty.ratio=0",
        "delete.retention.ms=0",
    ];
    create.extend(settings.iter().flat_map(|setting| ["--config", setting]));
    server.output(&create);
    let mut producer = Producer::new(&server, "orders-1");
    for (key, committed) in [("a", false), ("c0", true), ("c1", true)] {
        assert_eq!(producer.send_key(0, Some(key)), 0);
        assert_eq!(producer.end(committed), 0);
        until("the marker", || state(&server, "orders-1")["state"].as_str().unwrap().starts_with("Complete"));
    }
    assert_eq!(aborted(&server), 1);
    let value = "x".repeat(700_000);
    let mut number = 0;
    // Each round needs a segment that no earlier round has seen.
    until("the marker is gone", || {
        number += 1;
        server.produce("orders", &["--key", &format!("k{number}")], format!("{value}\n").as_bytes());
        // A few rounds may pass before the next record: compaction skips only the last segment.
        std::thread::sleep(std::time::Duration::from_millis(300));
        aborted(&server) == 0
    });
    let consumed = |server: &Server| {
        server.consume_text("orders", &["--isolation", "read_committed", "--format", "%k\\n"])
    };
    let before = consumed(&server);
    assert!(before.starts_with("c0\nc1\nk1\n"), "{before}");
    for kills in [false, true, false] {
        if kills {
            server.kill();
        } else {
            assert_eq!(server.stop(), Some(0));
            success(run(&["log", "verify", data.to_str().unwrap()]));
        }
        server = Server::start(&data, &fast);
        assert_eq!(aborted(&server), 0, "kills: {kills}");
        assert_eq!(consumed(&server), before, "kills: {kills}");
    }
}

/// A deleted key disappears, although nothing is appended any more.
#[test]
fn a_quiet_partition_forgets_in_time() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &["--set", "log.cleaner.backoff.ms=50"]);
    let mut create = vec!["topic", "create", "people", "--partitions", "1"];
    let settings = ["cleanup.policy=compact", "max.compaction.lag.ms=1000", "delete.retention.ms=500"];
    create.extend(settings.iter().flat_map(|setting| ["--config", setting]));
    server.output(&create);
    server.produce("people", &["--key", "somebody"], b"a secret\n");
    server.produce("people", &["--key", "somebody", "--null", "-"], b"-\n");
    let files = || {
        let files = std::fs::read_dir(data.join("people-0")).unwrap().map(|entry| entry.unwrap().path());
        let logs = files.filter(|path| path.extension().is_some_and(|extension| extension == "log"));
        logs.filter_map(|path| std::fs::read(path).ok()).flatten().collect::<Vec<u8>>()
    };
    let holds = |text: &[u8]| files().windows(text.len()).any(|window| window == text);
    assert!(holds(b"a secret") && holds(b"somebody"));
    until("the value is gone", || !holds(b"a secret"));
    until("the key is gone", || !holds(b"somebody"));
    assert_eq!(server.consume_text("people", &[]), "");
}
