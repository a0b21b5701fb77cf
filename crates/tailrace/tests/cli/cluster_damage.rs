//! Three real nodes. A byte is flipped in the identity file of a stopped node, or in its metadata log; the
//! other two nodes have intact copies.
#![expect(clippy::unwrap_used, reason = "a test reports failures by panicking")]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::cluster::{Node, eventually, leaders, lines, members_changed, sorted, start_node};
use crate::support::{Server, failure, run};

/// Makes nodes notice quickly that another one is gone.
const QUICK: [&str; 2] = ["--set", "broker.session.timeout.ms=1000"];

fn three(dir: &Path) -> BTreeMap<u32, Node> {
    let first = start_node(dir, 1, &QUICK);
    let with_seed = [&QUICK[..], &["--seed", &first.cluster]].concat();
    let others = [2, 3].map(|node| (node, start_node(dir, node, &with_seed)));
    let nodes = others.into_iter().chain([(1, first)]).collect();
    eventually("all three nodes vote", || members_changed(dir, "change=Promote") >= 2);
    nodes
}

fn status(node: &Node) -> Value {
    let found = node.server.ready.split_whitespace().find_map(|word| word.strip_prefix("http="));
    let text = node.server.output(&["cluster", "status", "--http", found.unwrap(), "-o", "json"]);
    serde_json::from_str(&text).expect("JSON")
}

/// Reports whether the node sees no damage, no moves and no partition without a leader, and all nodes as
/// voters of the metadata log.
fn is_whole(node: &Node) -> bool {
    let status = status(node);
    let empty = |value: &Value| value.as_array().is_some_and(Vec::is_empty);
    let voters = status["controller"]["voters"].as_array().map_or(0, Vec::len);
    let reports = status["reports"].as_array().unwrap();
    reports.len() == 3
        && reports.iter().all(|report| empty(&report["damaged"]))
        && empty(&status["reassignments"])
        && ["leaderless", "under_replicated"].iter().all(|what| empty(&status["partitions"][*what]))
        && voters == 3
}

/// The files of the metadata log with this suffix.
fn metadata_files(data: &Path, end: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data.join("__cluster_metadata-0")).unwrap();
    let paths = entries.map(|entry| entry.unwrap().path());
    let mut found: Vec<_> = paths.filter(|path| path.to_str().unwrap().ends_with(end)).collect();
    found.sort();
    found
}

fn flip(path: &Path, at: usize) {
    let mut bytes = std::fs::read(path).unwrap();
    bytes[at] ^= 0x10;
    std::fs::write(path, bytes).unwrap();
}

/// Where to flip a byte in a file of this size.
fn positions(bytes: usize) -> [usize; 3] {
    [9.min(bytes - 1), bytes / 2, bytes - 3]
}

/// Whichever byte it is, the node starts and recovers, and its other partitions are unharmed.
fn one_flipped_byte(victim: u32) {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "t", "--replication-factor", "3"]);
    eventually("the topic has a leader", || leaders(&nodes[&1], "t").iter().all(Option::is_some));
    // A topic that was deleted and created again must not be confused with the first one while the metadata
    // log is replayed.
    nodes[&1].server.output(&["topic", "create", "again", "--replication-factor", "3"]);
    nodes[&1].server.output(&["topic", "delete", "again"]);
    nodes[&1].server.output(&["topic", "create", "again", "--replication-factor", "3"]);
    nodes[&1].server.produce("again", &[], lines(0..10).as_bytes());
    let data = dir.path().join(format!("node{victim}"));
    let other = if victim == 1 { 2 } else { 1 };
    let ends =
        [".log", ".index", "entries", "checkpoint", "ballot", "partition.meta", ".snapshot", ".header"];
    let of_metadata = ends.map(|end| (end, 0)).into_iter();
    let all = of_metadata.chain([("tailrace.meta", 1), ("tailrace.meta.copy", 1), ("replicas.journal", 1)]);
    let mut produced = 0;
    for (end, kind) in all {
        for which in 0..3 {
            let what = format!("{end}, position {which}");
            nodes[&other].server.produce("t", &[], lines(produced..produced + 10).as_bytes());
            produced += 10;
            eventually(&format!("all is whole before {what}"), || is_whole(&nodes[&other]));
            assert_eq!(nodes.remove(&victim).unwrap().server.stop(), Some(0));
            let paths = if kind == 0 { metadata_files(&data, end) } else { vec![data.join(end)] };
            let Some(path) = paths.first() else { continue };
            let bytes = std::fs::metadata(path).unwrap().len() as usize;
            flip(path, positions(bytes)[which]);
            let seed = nodes[&other].cluster.clone();
            let node = start_node(dir.path(), victim, &[&QUICK[..], &["--seed", &seed]].concat());
            nodes.insert(victim, node);
            // Another loss before the replacement is complete would leave two of four voters.
            eventually(&format!("the abandoned replica is out after {what}"), || {
                let log = std::fs::read_to_string(dir.path().join(format!("node{victim}.stderr"))).unwrap();
                let given_up = log.matches("this node has another replica of the metadata log").count();
                members_changed(dir.path(), "change=Remove") >= given_up
            });
            eventually(&format!("all is whole after {what}"), || {
                is_whole(&nodes[&victim]) && is_whole(&nodes[&other])
            });
        }
    }
    let log = std::fs::read_to_string(dir.path().join(format!("node{victim}.stderr"))).unwrap();
    assert!(!log.contains("is abandoned: another one"), "its partitions are whole: {log}");
    // Its replica counts: another node may die.
    let third = 6 - victim - other;
    nodes.remove(&third).unwrap().server.kill();
    eventually("there are leaders", || {
        ["t", "again"].iter().all(|t| matches!(leaders(&nodes[&victim], t)[..], [Some(n)] if n != third))
    });
    assert_eq!(sorted(&nodes[&victim].server.consume_text("t", &[])), sorted(&lines(0..produced)));
    assert_eq!(sorted(&nodes[&victim].server.consume_text("again", &[])), sorted(&lines(0..10)));
}

#[test]
fn one_flipped_byte_of_a_node_that_joined_is_mended_from_the_others() {
    one_flipped_byte(2);
}

#[test]
fn one_flipped_byte_of_the_node_that_founded_the_cluster_is_mended_from_the_others() {
    one_flipped_byte(1);
}

/// No other node has its data. It says what is wrong, and what to do.
#[test]
fn a_standalone_node_says_where_its_metadata_log_is_damaged() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let server = Server::start(&data, &[]);
    server.create("t", 1);
    assert_eq!(server.stop(), Some(0));
    let path = &metadata_files(&data, ".log")[0];
    let bytes = std::fs::metadata(path).unwrap().len() as usize;
    flip(path, bytes / 2);
    let own = ["serve", "--data-dir", data.to_str().unwrap(), "--nats", "off"];
    let free = ["--kafka", "127.0.0.1:0", "--http", "127.0.0.1:0"];
    let error = failure(&run(&[&own[..], &free].concat()), 1);
    let last = error.lines().last().unwrap();
    assert!(last.contains(path.to_str().unwrap()) && last.contains("at byte"), "{error}");
    assert!(last.contains(&format!("tailrace log repair {}", data.display())), "{error}");
}
