//! `tailrace topic`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use crate::support;
use crate::support::{Server, failure};
use serde_json::{Value, json};

fn describe(server: &Server, topic: &str) -> Value {
    let text = server.output(&["topic", "describe", topic, "-o", "json"]);
    serde_json::from_str::<Value>(&text).unwrap()[0].clone()
}

#[test]
fn a_topic_is_made_shown_changed_and_deleted() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    let made = server.output(&[
        "topic",
        "create",
        "orders",
        "--partitions",
        "2",
        "--config",
        "retention.ms=1000000",
    ]);
    assert_eq!(made, "orders: created with 2 partitions, replication factor 1\n");
    let list: Value = serde_json::from_str(&server.output(&["topic", "list", "-o", "json"])).unwrap();
    assert_eq!(list[0]["name"], "orders");
    assert_eq!(list[0]["partitions"], 2);

    server.produce("orders", &["--partition", "1"], b"a\nb\n");
    let shown = describe(&server, "orders");
    assert_eq!(shown["configs"], json!({ "retention.ms": "1000000" }));
    assert_eq!(shown["partitions"][0]["latest_offset"], 0);
    assert_eq!(shown["partitions"][1]["latest_offset"], 2);
    assert_eq!(shown["partitions"][1]["earliest_offset"], 0);
    assert!(server.output(&["topic", "describe"]).contains("retention.ms = 1000000"));

    let alter = ["--partitions", "4", "--config", "flush.messages=7", "--delete-config", "retention.ms"];
    server.output(&[&["topic", "alter", "orders"], &alter[..]].concat());
    let shown = describe(&server, "orders");
    assert_eq!(shown["configs"], json!({ "flush.messages": "7" }));
    assert_eq!(shown["partitions"].as_array().unwrap().len(), 4);

    assert_eq!(server.output(&["topic", "delete", "orders"]), "orders: deleted\n");
    assert_eq!(server.output(&["topic", "list", "-o", "json"]), "[]\n");
    server.create("orders", 1);
    assert_ne!(describe(&server, "orders")["id"], shown["id"]);
}

#[test]
fn a_topic_captures_the_subjects_that_it_is_given() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    server.output(&["topic", "create", "orders", "--subjects", "orders.>,shop.*.orders", "--subjects", "o"]);
    let shown = || describe(&server, "orders")["configs"].clone();
    assert_eq!(shown(), json!({ "tailrace.subjects": "orders.>,shop.*.orders,o" }));
    assert!(server.output(&["topic", "describe"]).contains("tailrace.subjects = orders.>,shop.*.orders,o"));
    let refused = server.run(&["topic", "create", "audit", "--subjects", "orders.eu"]);
    let words = "'orders.eu' of topic 'audit' overlaps 'orders.>' of topic 'orders'";
    let error = failure(&refused, 1);
    assert!(error.contains(words) && error.contains("INVALID_CONFIG"), "{error}");
    server.output(&["topic", "alter", "orders", "--subjects", "o.*"]);
    assert_eq!(shown(), json!({ "tailrace.subjects": "o.*" }));
    server.output(&["topic", "create", "audit", "--subjects", "orders.eu"]);
    let error = failure(&server.run(&["topic", "alter", "audit", "--subjects", "x.>,o.1"]), 1);
    assert!(error.contains("'o.1' of topic 'audit' overlaps 'o.*' of topic 'orders'"), "{error}");
    server.output(&["topic", "alter", "orders", "--subjects", ""]);
    assert_eq!(shown(), json!({ "tailrace.subjects": "" }));
}

#[test]
fn refusals_are_one_line_with_the_reason() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    server.create("orders", 2);
    for (arguments, expected) in [
        (&["topic", "create", "orders"][..], "TOPIC_ALREADY_EXISTS"),
        (&["topic", "create", "a/b"], "INVALID_TOPIC_EXCEPTION"),
        (&["topic", "create", "new", "--config", "no.such=1"], "INVALID_CONFIG"),
        (&["topic", "create", "new", "--config", "retention.ms=x"], "INVALID_CONFIG"),
        (&["topic", "create", "new", "--replication-factor", "3"], "INVALID_REPLICATION_FACTOR"),
        (&["topic", "alter", "orders", "--partitions", "1"], "INVALID_PARTITIONS"),
        (&["topic", "alter", "nope", "--partitions", "2"], "there is no topic 'nope'"),
        (&["topic", "describe", "nope"], "there is no topic 'nope'"),
        (&["topic", "delete", "nope"], "there is no topic 'nope'"),
        (&["consume", "nope"], "there is no topic 'nope'"),
        (&["consume", "orders", "-p", "2"], "no partition 2"),
        (&["consume", "orders", "--from", "1"], "no offset 1"),
        (&["produce", "orders", "-p", "9"], "no partition 9"),
    ] {
        let error = failure(&server.run(arguments), 1);
        assert!(error.contains(expected), "{arguments:?}: {error}");
        assert!(error.starts_with("tailrace: "), "{arguments:?}: {error}");
        assert_eq!(error.lines().count(), 1, "{arguments:?}: {error}");
    }
    let existing = server.output(&["topic", "create", "orders", "--if-not-exists"]);
    assert_eq!(existing, "orders: exists already\n");
    server.output(&["topic", "delete", "nope", "--if-exists"]);
    server.output(&["topic", "create", "rehearsed", "--validate-only"]);
    failure(&server.run(&["topic", "describe", "rehearsed"]), 1);
}

#[test]
fn of_several_deletions_those_that_work_are_done() {
    let dir = tempfile::tempdir().unwrap();
    let server = Server::start(&dir.path().join("data"), &[]);
    server.create("a", 1);
    server.create("b", 1);
    let output = server.run(&["topic", "delete", "a", "nope", "b"]);
    assert_eq!(output.stdout, b"a: deleted\nb: deleted\n");
    assert!(failure(&output, 1).contains("nope"));
}

#[test]
fn without_a_server_the_error_says_what_to_do() {
    for verb in [&["topic", "list"][..], &["consume", "x"], &["produce", "x"]] {
        let error = failure(&support::run(&[verb, &["-b", "127.0.0.1:1", "--timeout", "2s"]].concat()), 1);
        assert!(error.contains("cannot connect to 127.0.0.1:1") && error.contains("--bootstrap"), "{error}");
    }
}
