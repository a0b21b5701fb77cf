//! `tailrace cluster scrub`: its rate, its progress, and whether it was complete.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use std::os::unix::fs::FileExt as _;

use serde_json::{Value, json};

use crate::cluster::three;
use crate::support::{Listener, Server, command, failure, until};

/// A server that scrubs a byte per second by default, with some records.
fn slow() -> (tempfile::TempDir, Server) {
    let dir = tempfile::tempdir().unwrap();
    let set = ["--set", "tailrace.scrub.bytes.per.second=1"];
    let server = Server::start(&dir.path().join("data"), &set);
    server.create("t", 2);
    for partition in ["0", "1"] {
        server.produce("t", &["-p", partition, "--compression", "none"], b"one\ntwo\nthree\n");
    }
    (dir, server)
}

fn scrub(server: &Server, more: &[&str]) -> std::process::Output {
    server.run(&[&["cluster", "scrub", "--http", &server.http], more].concat())
}

#[test]
fn a_rate_holds_for_its_round_alone_and_the_last_line_says_that_it_is_complete() {
    let (_dir, server) = slow();
    let output = scrub(&server, &["--rate", "1GiB", "--topic", "t"]);
    let text = String::from_utf8(crate::support::success(output)).unwrap();
    let lines: Vec<_> = text.lines().collect();
    assert!(
        lines[0].starts_with("node 1: 2 partitions, ") && lines[0].ends_with(", no damaged file"),
        "{text}"
    );
    assert!(
        lines[1].starts_with("complete: 1 node, 2 partitions, ") && lines[1].ends_with(", no damaged file")
    );
    assert_eq!(lines.len(), 2, "{text}");
    // The next round is as slow as the setting says.
    let output = scrub(&server, &["--wait", "1s", "--topic", "t"]);
    let said = failure(&output, 1);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(
        last.starts_with("NOT COMPLETE: node 1 is still reading: 0 of 2 partitions; read so far: "),
        "{text}"
    );
    let progress = said.lines().find(|line| line.contains("0 of 1 node done, 0 of 2 partitions, ")).unwrap();
    assert!(progress.contains("/s") && progress.ends_with(" left"), "{said}");
}

#[test]
fn json_names_rate_and_damage_and_says_that_it_is_complete() {
    let (dir, server) = slow();
    let log = dir.path().join("data/t-1/00000000000000000000.log");
    let bytes = std::fs::read(&log).unwrap();
    let at = memchr::memmem::find(&bytes, b"two").unwrap();
    std::fs::OpenOptions::new().write(true).open(&log).unwrap().write_all_at(b"X", at as u64).unwrap();
    let output = scrub(&server, &["--rate", "0", "-o", "json"]);
    let report: Value = serde_json::from_slice(&crate::support::success(output)).unwrap();
    assert_eq!((&report["complete"], &report["found"]), (&json!(true), &json!(1)), "{report}");
    assert_eq!(report["not_mended"], 1, "{report}");
    let scrub = &report["nodes"][0]["scrub"];
    assert_eq!((&scrub["bytes_per_second"], &scrub["complete"]), (&json!(0), &json!(true)), "{report}");
    assert_eq!((&scrub["found_total"], &report["partitions"]), (&json!(1), &scrub["partitions"]), "{report}");
    assert!(scrub["request"].as_str().unwrap().ends_with("@0"), "{report}");
    // From then on the record is out of service, and still damaged.
    let again = String::from_utf8(crate::support::success(self::scrub(&server, &["--rate", "0"]))).unwrap();
    assert!(
        again.contains("  t-1: ") && again.contains(", 1 damaged file; 1 damage not repaired"),
        "{again}"
    );
}

#[test]
fn a_node_that_does_not_answer_leaves_a_scrub_incomplete() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    nodes.remove(&3).unwrap().server.kill();
    let output = scrub(&nodes[&1].server, &["--rate", "0"]);
    failure(&output, 1);
    let text = String::from_utf8(output.stdout).unwrap();
    let last = text.lines().last().unwrap();
    assert!(last.starts_with("NOT COMPLETE: node 3: cannot get /clusterz from "), "{text}");
    assert!(last.contains("; read so far: 2 nodes, "), "{text}");
}

#[test]
fn a_scrub_that_is_not_waited_for_any_more_goes_on() {
    let (_dir, server) = slow();
    let arguments = ["cluster", "scrub", "--http", &server.http, "--bootstrap", &server.kafka];
    let mut waiting = Listener::quiet(command(&arguments).spawn().unwrap());
    let advice = waiting.next_error();
    assert!(
        advice.contains("a node reads at most 1 B/s") && advice.contains("--rate 64MiB is faster"),
        "{advice}"
    );
    let progress = waiting.next_error();
    assert!(progress.contains("0 of 1 node done, "), "{progress}");
    waiting.interrupt();
    let (status, _, said) = waiting.end();
    assert_eq!(status, Some(130), "{said}");
    assert!(said.contains("the nodes continue scrubbing"), "{said}");
    let status = || server.output(&["cluster", "status", "--http", &server.http]);
    until("the node says that it scrubs", || status().contains("node 1 is scrubbing: "));
    let shown = status();
    assert!(!shown.contains(" -"), "{shown}");
    // The next request does not wait for the end of that round, which would be days away.
    let text = String::from_utf8(crate::support::success(scrub(&server, &["--rate", "0"]))).unwrap();
    assert!(text.lines().last().unwrap().starts_with("complete: 1 node, "), "{text}");
}
