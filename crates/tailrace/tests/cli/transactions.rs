//! `tailrace txn`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support::{Server, Wire, failure, until};
use serde_json::{Value, json};
use tailrace_kafka_wire::Records;
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{EndTxnRequest, InitProducerIdRequest, ProduceRequest};
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

    /// Sends one record to a partition of `orders`; the first of the transaction there. Yields the error code.
    fn send(&mut self, partition: i32) -> i16 {
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id: ProducerId(self.id),
            producer_epoch: ProducerEpoch(self.epoch),
            base_sequence: 0,
            transactional: true,
            ..Default::default()
        });
        builder.push(TimestampMs(1000), None, Some(b"x"), &[]).unwrap();
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

    /// Yields the error code.
    fn commit(&mut self) -> i16 {
        let request = EndTxnRequest {
            transactional_id: self.transactional_id.clone(),
            producer_id: self.id,
            producer_epoch: self.epoch,
            committed: true,
            ..Default::default()
        };
        self.wire.call(5, &request).error_code
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
    assert!(complaint.contains("'Odd'") && complaint.contains("there are Empty, Ongoing, "), "{complaint}");
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
