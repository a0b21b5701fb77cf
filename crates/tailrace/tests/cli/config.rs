//! `tailrace config`.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use serde_json::json;

use crate::support::{command, failure, run, success};

#[test]
fn check_says_ok_or_what_is_wrong() {
    assert_eq!(success(run(&["config", "check"])), b"ok\n");
    let error = failure(&run(&["config", "check", "--set", "no.such.key=1"]), 1);
    assert!(error.contains("no.such.key"), "{error}");
    let output = command(&["config", "check"]).env("TAILRACE_NO_SUCH_THING", "1").output().unwrap();
    assert!(failure(&output, 1).contains("TAILRACE_NO_SUCH_THING"));
    // The client's variable is not a setting of the server, but not an error, either.
    let output = command(&["config", "check"]).env("TAILRACE_BOOTSTRAP", "localhost:1").output().unwrap();
    success(output);
}

#[test]
fn print_shows_what_was_set_and_from_where() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("t.toml");
    std::fs::write(&file, "[num]\npartitions = 7\n").unwrap();
    let arguments = ["config", "print", "--changed", "--config", file.to_str().unwrap()];
    let text = String::from_utf8(success(run(&arguments))).unwrap();
    assert_eq!(text, format!("num.partitions = 7  (file {})\n", file.display()));
    let output = command(&[&arguments[..], &["-o", "json"]].concat())
        .env("TAILRACE_NUM_PARTITIONS", "8")
        .output()
        .unwrap();
    let json: serde_json::Value = serde_json::from_slice(&success(output)).unwrap();
    let expected = json!({ "value": "8", "source": "environment", "place": "TAILRACE_NUM_PARTITIONS" });
    assert_eq!(json, json!({ "num.partitions": expected }));
    let all =
        [&arguments[..2], &arguments[3..], &["--set", "log.retention.hours=5", "--node-id", "4"]].concat();
    let all = String::from_utf8(success(run(&all))).unwrap();
    for line in [
        "log.retention.hours = 5  (flag --set)",
        "node.id = 4  (flag --node-id)",
        "auto.create.topics.enable = true  (default)",
    ] {
        assert!(all.lines().any(|found| found == line), "{line} is not in {all}");
    }
}

#[test]
fn print_shows_that_a_secret_is_set_and_not_which() {
    let secret = ["--set", "tailrace.nats.user=alice", "--set", "tailrace.nats.password=s3sam"];
    let text = success(run(&[&["config", "print", "--changed"][..], &secret].concat()));
    assert_eq!(
        String::from_utf8(text).unwrap(),
        "tailrace.nats.password = (hidden)  (flag --set)\ntailrace.nats.user = alice  (flag --set)\n"
    );
    let json = success(run(&[&["config", "print", "--changed", "-o", "json"][..], &secret].concat()));
    assert!(!String::from_utf8(json).unwrap().contains("s3sam"));
}

#[test]
fn a_reader_that_leaves_is_no_error() {
    let mut child = command(&["config", "reference"]).spawn().unwrap();
    drop(child.stdout.take());
    let output = child.wait_with_output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(0));
}
