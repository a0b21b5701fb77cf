//! Three real nodes: bit rot on one of them is found and repaired from the others, and nodes that leave are
//! emptied.
#![expect(clippy::unwrap_used, reason = "a test reports failures by panicking")]

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use serde_json::Value;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::IncrementalAlterConfigsRequest;
use tailrace_kafka_wire::messages::incremental_alter_configs_request::{
    AlterConfigsResource, AlterableConfig,
};

use crate::cluster::{
    Node, describe, eventually, leaders, lines, members_changed, sorted, start_node, three,
};
use crate::support::{Wire, run, success};

/// Fills a topic with several segments on all three nodes. Returns its content.
fn filled(nodes: &BTreeMap<u32, Node>, topic: &str) -> String {
    filled_with(nodes, topic, "3")
}

fn filled_with(nodes: &BTreeMap<u32, Node>, topic: &str, replicas: &str) -> String {
    let server = &nodes[&1].server;
    let size = ["--config", "segment.bytes=1048576"];
    server.output(&[&["topic", "create", topic, "--replication-factor", replicas], &size[..]].concat());
    eventually("the topic has a leader", || leaders(&nodes[&1], topic).iter().all(Option::is_some));
    let padding = "x".repeat(1000);
    let text: String = lines(0..4000).lines().map(|line| format!("{line} {padding}\n")).collect();
    server.produce(topic, &["--batch-bytes", "10000", "--compression", "none"], text.as_bytes());
    text
}

/// The segments of a partition, oldest first.
fn segments(dir: &Path, node: u32, topic: &str) -> Vec<PathBuf> {
    let folder = dir.join(format!("node{node}")).join(format!("{topic}-0"));
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    let mut logs: Vec<_> = entries.filter(|path| path.extension().is_some_and(|e| e == "log")).collect();
    logs.sort();
    logs
}

/// Flips a byte in the middle of a record.
fn rot(path: &Path) {
    rot_at(path, path.metadata().unwrap().len() / 2);
}

fn rot_at(path: &Path, at: u64) {
    use std::os::unix::fs::FileExt as _;
    let file = std::fs::OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ 0x10], at).unwrap();
}

fn http(node: &Node) -> String {
    let found = node.server.ready.split_whitespace().find_map(|word| word.strip_prefix("http="));
    found.expect("the ready line names the HTTP port").to_owned()
}

fn status(node: &Node) -> Value {
    let text = node.server.output(&["cluster", "status", "--http", &http(node), "-o", "json"]);
    serde_json::from_str(&text).expect("JSON")
}

fn nothing_is_damaged(node: &Node) -> bool {
    let status = status(node);
    let reports = status["reports"].as_array().unwrap();
    reports.iter().all(|report| report["damaged"].as_array().is_some_and(Vec::is_empty))
}

/// The state of each damaged place, on all nodes.
fn damage_states(node: &Node) -> Vec<String> {
    let status = status(node);
    let reports = status["reports"].as_array().unwrap().iter();
    let damaged = reports.flat_map(|report| report["damaged"].as_array().unwrap().clone());
    damaged.map(|damaged| damaged["state"].as_str().unwrap().to_owned()).collect()
}

/// Waits until `count` replicas know that none of them has the damaged records.
fn lost_everywhere(node: &Node, count: usize) {
    let deadline = std::time::Instant::now() + std::time::Duration::from_secs(180);
    while damage_states(node) != vec!["not repaired: no replica has it"; count] {
        assert!(std::time::Instant::now() < deadline, "{}", status(node));
        // A pause between two polls, with the deadline above.
        std::thread::sleep(std::time::Duration::from_millis(500));
    }
}

/// Stops all nodes, and checks that their folders hold the same data, all of it intact.
fn stop_and_compare(dir: &Path, nodes: BTreeMap<u32, Node>, topic: &str, text: &str) {
    let ids: Vec<u32> = nodes.keys().copied().collect();
    for node in nodes.into_values() {
        assert_eq!(node.server.stop(), Some(0));
    }
    for id in ids {
        let folder = dir.join(format!("node{id}")).join(format!("{topic}-0"));
        let folder = folder.to_str().unwrap();
        success(run(&["log", "verify", folder]));
        let dump = String::from_utf8(success(run(&["log", "dump", folder, "--records"]))).unwrap();
        let numbers = dump.split("record ").skip(1).filter_map(|rest| rest.split(' ').next());
        let found = numbers.collect::<BTreeSet<_>>().len();
        assert_eq!(found, text.lines().count(), "node {id}");
    }
}

fn assert_all_there(node: &Node, topic: &str, text: &str) {
    let found = node.server.consume_text(topic, &[]);
    assert_eq!(sorted(&found), sorted(text));
}

#[test]
fn rot_on_one_node_is_found_by_a_scrub_and_mended() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    let text = filled(&nodes, "t");
    let sealed = segments(dir.path(), 2, "t");
    assert!(sealed.len() > 2, "{sealed:?}");
    rot(&sealed[1]);
    let scrub = ["cluster", "scrub", "--topic", "t", "--http", &http(&nodes[&1]), "-o", "json"];
    let report: Value = serde_json::from_str(&nodes[&3].server.output(&scrub)).unwrap();
    assert_eq!((report["done"].as_bool(), report["found"].as_u64()), (Some(true), Some(1)), "{report}");
    let of_second = report["nodes"].as_array().unwrap().iter().find(|report| report["node"] == 2).unwrap();
    assert_eq!(of_second["scrub"]["found"][0]["file"].as_str(), sealed[1].to_str(), "{report}");
    eventually("the segment is repaired", || nothing_is_damaged(&nodes[&1]));
    assert_all_there(&nodes[&2], "t", &text);
    let report: Value = serde_json::from_str(&nodes[&3].server.output(&scrub)).unwrap();
    assert_eq!(report["found"].as_u64(), Some(0), "{report}");
    stop_and_compare(dir.path(), nodes, "t", &text);
}

/// Each batch is intact on two of three nodes.
#[test]
fn three_copies_that_rot_in_different_places_of_one_segment_mend_each_other() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    let text = filled(&nodes, "t");
    for (node, at) in [(1, 200_000), (2, 400_000), (3, 600_000)] {
        rot_at(&segments(dir.path(), node, "t")[0], at);
    }
    let scrub =
        ["cluster", "scrub", "--topic", "t", "--rate", "0", "--http", &http(&nodes[&1]), "-o", "json"];
    let report: Value = serde_json::from_str(&nodes[&3].server.output(&scrub)).unwrap();
    assert_eq!(report["found"].as_u64(), Some(3), "{report}");
    eventually("all three are repaired", || nothing_is_damaged(&nodes[&1]));
    for node in nodes.values() {
        assert_all_there(node, "t", &text);
    }
    stop_and_compare(dir.path(), nodes, "t", &text);
}

/// No replica has the batch. Consumers and operators get an error, and all nodes serve the rest of the
/// segment until an operator decides.
#[test]
fn a_batch_that_rots_on_all_three_is_named_and_given_up_when_somebody_says_so() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    let text = filled(&nodes, "t");
    for node in 1..=3 {
        rot_at(&segments(dir.path(), node, "t")[0], 400_000);
    }
    let site = http(&nodes[&1]);
    let scrub = ["cluster", "scrub", "--topic", "t", "--rate", "0", "--http", &site, "-o", "json"];
    let report: Value = serde_json::from_str(&nodes[&3].server.output(&scrub)).unwrap();
    assert_eq!(report["found"].as_u64(), Some(3), "{report}");
    lost_everywhere(&nodes[&1], 3);
    let moving = status(&nodes[&1])["reassignments"].clone();
    assert_eq!(moving.as_array().map(Vec::len), Some(0), "{moving}");
    let output = nodes[&2].server.run(&["consume", "t", "--skip-damaged"]);
    let complaint = crate::support::failure(&output, 1);
    let found = String::from_utf8(output.stdout).unwrap();
    let lost = text.lines().count() - found.lines().count();
    assert!((1..30).contains(&lost), "{lost} records were left out: {complaint}");
    assert!(complaint.contains("t") && complaint.contains("offset"), "{complaint}");
    let repair = ["cluster", "repair", "--topic", "t", "--give-up", "--execute", "--http", &site];
    assert!(nodes[&1].server.output(&repair).contains("given up: 3 damaged places"));
    assert!(nothing_is_damaged(&nodes[&1]));
    assert_eq!(sorted(&nodes[&2].server.consume_text("t", &[])), sorted(&found));
    for node in nodes.into_values() {
        assert_eq!(node.server.stop(), Some(0));
    }
}

/// An operator cannot give up records that another replica may have, even while that one does not answer.
#[test]
fn what_rots_on_one_of_two_replicas_is_not_given_up_with_what_both_have_lost() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    let text = filled_with(&nodes, "t", "2");
    let topic = describe(&nodes[&1], "t");
    let replicas: Vec<u32> = topic["partitions"][0]["replicas"]
        .as_array()
        .unwrap()
        .iter()
        .map(|r| r.as_u64().unwrap() as u32)
        .collect();
    let [away, here] = replicas[..] else { panic!("{topic}") };
    let third = &nodes[&(6 - away - here)];
    let first_segment = |node| segments(dir.path(), node, "t").swap_remove(0);
    for node in [away, here] {
        rot_at(&first_segment(node), 400_000);
    }
    let scrub = ["cluster", "scrub", "--topic", "t", "--rate", "0", "--http", &http(third), "-o", "json"];
    third.server.output(&scrub);
    lost_everywhere(third, 2);
    nodes[&away].server.pause();
    rot_at(&first_segment(here), 600_000);
    let request = |name: &str, value: &str| {
        let config =
            AlterableConfig { name: name.to_owned(), value: Some(value.to_owned()), ..Default::default() };
        let resource = AlterConfigsResource { resource_type: 4, configs: vec![config], ..Default::default() };
        let request = IncrementalAlterConfigsRequest { resources: vec![resource], ..Default::default() };
        let mut code = -1;
        eventually("the request is taken", || {
            code = Wire::connect(&third.server).call(1, &request).responses[0].error_code;
            code != ErrorCode::NotController as i16 && code != ErrorCode::RequestTimedOut as i16
        });
        assert_eq!(code, 0);
    };
    request("tailrace.scrub.request", "again@0:t");
    let log = || std::fs::read_to_string(dir.path().join(format!("node{here}.stderr"))).unwrap();
    // A read may find the same place as the scrubber.
    let places = || -> BTreeSet<String> {
        let log = log();
        let found = log.lines().filter(|line| line.contains("found damage"));
        found
            .filter_map(|line| Some(line.split_once(" position=")?.1.split(' ').next()?.to_owned()))
            .collect()
    };
    eventually("the rot is found", || places().len() == 2);
    // Repeats the request: while a batch is still expected from the other replica, no damage is given up.
    let mut asked = 0;
    eventually("the request is answered", || {
        asked += 1;
        request("tailrace.repair.request", &format!("{asked}:t"));
        log().contains("another replica may have the damaged records")
    });
    nodes[&away].server.go_on();
    eventually("the other replica gave its batch", || {
        let states = damage_states(third);
        states.iter().any(|state| state.starts_with("not repaired"))
            && !states.iter().any(|state| state == "being repaired")
    });
    assert!(!log().contains("gave up damaged records"), "{}", log());
    let repair = ["cluster", "repair", "--topic", "t", "--give-up", "--execute", "--http", &http(third)];
    eventually("the rest is given up", || third.server.run(&repair).status.success());
    let counts = [away, here].map(|node| {
        let folder = dir.path().join(format!("node{node}")).join("t-0");
        let dump = success(run(&["log", "dump", folder.to_str().unwrap(), "--records"]));
        String::from_utf8(dump).unwrap().matches("record ").count()
    });
    assert_eq!(counts[0], counts[1]);
    let found = third.server.consume_text("t", &[]).lines().count();
    assert!((1..15).contains(&(text.lines().count() - found)), "one batch: {found}");
    for node in nodes.into_values() {
        assert_eq!(node.server.stop(), Some(0));
    }
}

/// A segment that rots while its node is down is repaired in place, and so is a segment that is too short. No
/// replica is discarded.
#[test]
fn rot_while_a_node_is_down_is_mended_after_its_start() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    let (kept, cut) = (filled(&nodes, "kept"), filled(&nodes, "cut"));
    assert_eq!(nodes.remove(&3).unwrap().server.stop(), Some(0));
    rot(&segments(dir.path(), 3, "kept")[0]);
    let short = &segments(dir.path(), 3, "cut")[0];
    std::fs::OpenOptions::new().write(true).open(short).unwrap().set_len(100).unwrap();
    let seed = nodes[&1].cluster.clone();
    let often = "tailrace.scrub.interval.ms=2000";
    let third = start_node(dir.path(), 3, &["--seed", &seed, "--set", often]);
    nodes.insert(3, third);
    let log = || std::fs::read_to_string(dir.path().join("node3.stderr")).unwrap();
    eventually("the rot is found", || log().contains("found damage"));
    eventually("everything is repaired", || nothing_is_damaged(&nodes[&1]));
    eventually("nothing moves any more", || {
        status(&nodes[&1])["reassignments"].as_array().is_some_and(Vec::is_empty)
    });
    for (topic, text) in [("kept", &kept), ("cut", &cut)] {
        assert_all_there(&nodes[&3], topic, text);
    }
    assert!(!log().contains("is abandoned"), "{}", log());
    stop_and_compare(dir.path(), nodes, "cut", &cut);
}

/// The replica must not vote as if it had never voted. It comes back as a new replica, and counts once it has
/// all data.
#[test]
fn a_folder_that_was_removed_by_hand_is_a_lost_replica() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    let text = filled(&nodes, "t");
    nodes.remove(&2).unwrap().server.kill();
    std::fs::remove_dir_all(dir.path().join("node2/t-0")).unwrap();
    let promoted = members_changed(dir.path(), "change=Promote");
    let seed = nodes[&1].cluster.clone();
    let second = start_node(dir.path(), 2, &["--seed", &seed]);
    nodes.insert(2, second);
    let log = || std::fs::read_to_string(dir.path().join("node2.stderr")).unwrap();
    eventually("its loss is noticed", || log().contains("is gone"));
    eventually("another one votes in its place", || members_changed(dir.path(), "change=Promote") > promoted);
    eventually("the lost one is out", || {
        status(&nodes[&1])["reassignments"].as_array().is_some_and(Vec::is_empty)
    });
    nodes.remove(&1).unwrap().server.kill();
    assert_all_there(&nodes[&2], "t", &text);
    // The same for the metadata log: the others give the node a new replica, and nothing else is lost.
    let seed = nodes[&3].cluster.clone();
    nodes.insert(1, start_node(dir.path(), 1, &["--seed", &seed]));
    nodes.remove(&2).unwrap().server.kill();
    std::fs::remove_dir_all(dir.path().join("node2/__cluster_metadata-0")).unwrap();
    let given_up = log().matches("is abandoned").count();
    nodes.insert(2, start_node(dir.path(), 2, &["--seed", &seed]));
    assert!(log().contains("this node has another replica of the metadata log"), "{}", log());
    assert_all_there(&nodes[&2], "t", &text);
    assert_eq!(log().matches("is abandoned").count(), given_up, "{}", log());
}

/// Files in the folder of a new replica are not its own: they are set aside, and the replica is replaced
/// once.
#[test]
fn a_replica_starts_empty_beside_what_lies_in_its_folder() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    let (text, _other) = (filled(&nodes, "t"), filled(&nodes, "other"));
    assert_eq!(nodes.remove(&2).unwrap().server.stop(), Some(0));
    let data = dir.path().join("node2");
    std::fs::remove_dir_all(data.join("t-0")).unwrap();
    std::fs::create_dir(data.join("t-0")).unwrap();
    let foreign = std::fs::read(data.join("other-0/checkpoint")).unwrap();
    std::fs::write(data.join("t-0/checkpoint"), &foreign).unwrap();
    let promoted = members_changed(dir.path(), "change=Promote");
    let seed = nodes[&1].cluster.clone();
    let second = start_node(dir.path(), 2, &["--seed", &seed]);
    nodes.insert(2, second);
    let log = || std::fs::read_to_string(dir.path().join("node2.stderr")).unwrap();
    eventually("another one votes in its place", || members_changed(dir.path(), "change=Promote") > promoted);
    eventually("nothing moves any more", || {
        status(&nodes[&1])["reassignments"].as_array().is_some_and(Vec::is_empty)
    });
    assert_eq!(log().matches("is abandoned").count(), 1, "{}", log());
    let aside: Vec<_> = set_aside(&data);
    assert_eq!(aside.len(), 1, "{aside:?}");
    assert_eq!(std::fs::read(aside[0].join("checkpoint")).unwrap(), foreign);
    assert!(log().contains(aside[0].file_name().unwrap().to_str().unwrap()), "{}", log());
    nodes.remove(&1).unwrap().server.kill();
    assert_all_there(&nodes[&2], "t", &text);
    // Deleting the topic deletes the files that were set aside.
    nodes[&2].server.output(&["topic", "delete", "t"]);
    eventually("nothing is left of it", || set_aside(&data).is_empty() && !data.join("t-0").exists());
}

/// The folders that were set aside.
fn set_aside(data: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(data).unwrap().map(|entry| entry.unwrap().path());
    entries.filter(|path| path.extension().is_some_and(|extension| extension == "damaged")).collect()
}

#[test]
fn a_node_is_emptied_and_forgotten() {
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--set", "broker.session.timeout.ms=1000"];
    let first = start_node(dir.path(), 1, &quick);
    let with_seed = [&quick[..], &["--seed", &first.cluster]].concat();
    let others = [2, 3].map(|node| (node, start_node(dir.path(), node, &with_seed)));
    let mut nodes: BTreeMap<u32, Node> = others.into_iter().chain([(1, first)]).collect();
    eventually("all three nodes vote", || members_changed(dir.path(), "change=Promote") >= 2);
    nodes[&1].server.output(&["topic", "create", "t", "--partitions", "6", "--replication-factor", "2"]);
    eventually("all partitions have leaders", || leaders(&nodes[&1], "t").iter().all(Option::is_some));
    let text = lines(0..1000);
    nodes[&1].server.produce("t", &["--batch-bytes", "1000"], text.as_bytes());
    let third = nodes.remove(&3).unwrap();
    let output = std::thread::scope(|scope| {
        let leaving = scope.spawn(|| nodes[&1].server.run(&["cluster", "decommission", "3", "-o", "json"]));
        let replicas_on_third = || {
            let status = status(&nodes[&1]);
            let third = status["nodes"].as_array().unwrap().iter().find(|node| node["id"] == 3).cloned();
            third.and_then(|node| node["replicas"].as_u64())
        };
        eventually("the node is empty", || replicas_on_third() == Some(0));
        assert_eq!(third.server.stop(), Some(0));
        leaving.join().unwrap()
    });
    let report: Value = serde_json::from_slice(&success(output)).unwrap();
    assert_eq!(report["state"].as_str(), Some("unregistered"), "{report}");
    let ids: Vec<_> =
        status(&nodes[&1])["nodes"].as_array().unwrap().iter().map(|node| node["id"].clone()).collect();
    assert_eq!(ids, [1, 2]);
    let again = crate::support::failure(&nodes[&1].server.run(&["cluster", "decommission", "3"]), 1);
    assert!(again.contains("there is no node 3"), "{again}");
    assert_all_there(&nodes[&2], "t", &text);
    // A factor above the number of nodes fails with a clear error.
    let grow = ["cluster", "reassign", "--topic", "t", "--replication-factor", "3"];
    let error = crate::support::failure(&nodes[&1].server.run(&grow), 1);
    assert!(error.contains("3 replicas need as many nodes, and there are 2"), "{error}");
    let fewer = ["cluster", "reassign", "--topic", "t", "--replication-factor", "1", "--wait", "1m"];
    assert!(nodes[&1].server.output(&fewer).ends_with("done\n"));
    assert_all_there(&nodes[&2], "t", &text);
    // With its old folder the node is not a member. With an empty one it joins as a new node.
    let old = dir.path().join("node3");
    let own = ["serve", "--data-dir", old.to_str().unwrap(), "--node-id", "3"];
    let free = ["--kafka", "127.0.0.1:0", "--nats", "off", "--http", "127.0.0.1:0"];
    let more = ["--cluster-listen", "127.0.0.1:0", "--seed", &nodes[&1].cluster];
    let complaint = crate::support::failure(&run(&[&own[..], &free, &more].concat()), 1);
    assert!(complaint.contains("was removed from the cluster"), "{complaint}");
    std::fs::remove_dir_all(&old).unwrap();
    let seed = nodes[&1].cluster.clone();
    nodes.insert(3, start_node(dir.path(), 3, &["--seed", &seed]));
    eventually("the node is counted again", || status(&nodes[&1])["nodes"].as_array().unwrap().len() == 3);
}
