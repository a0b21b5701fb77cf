//! Three real nodes on loopback: how they start, what happens when one dies, and how they handle wrong
//! settings.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::support::{Server, copy_dir, failure, free_addresses, run};

/// Longest wait for any condition.
const PATIENCE: Duration = Duration::from_secs(60);

/// A node of a cluster, on free ports.
pub(crate) struct Node {
    pub(crate) server: Server,
    pub(crate) cluster: String,
}

pub(crate) fn start_node(dir: &Path, node: u32, more: &[&str]) -> Node {
    let (id, data) = (node.to_string(), dir.join(format!("node{node}")));
    let own = ["--node-id", &id, "--cluster-listen", "127.0.0.1:0"];
    let server = Server::start_on(&data, "127.0.0.1:0", "off", &[&own, more].concat());
    let cluster = server.ready.split_whitespace().find_map(|word| word.strip_prefix("cluster="));
    let cluster = cluster.expect("the ready line names the address for other nodes").to_owned();
    Node { server, cluster }
}

/// Starts three nodes that know each other.
pub(crate) fn three(dir: &Path) -> BTreeMap<u32, Node> {
    let first = start_node(dir, 1, &[]);
    let seed = first.cluster.clone();
    let others = [2, 3].map(|node| (node, start_node(dir, node, &["--seed", &seed])));
    let mut nodes = BTreeMap::from([(1, first)]);
    nodes.extend(others);
    wait_for_voters(dir);
    nodes
}

/// Waits until all three are voters of the metadata log: with two voters, neither may die.
fn wait_for_voters(dir: &Path) {
    eventually("all three nodes vote", || members_changed(dir, "change=Promote") >= 2);
}

/// Retries until it holds.
#[track_caller]
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !holds() {
        assert!(Instant::now() < deadline, "{what}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// A topic as a node describes it.
pub(crate) fn describe(node: &Node, topic: &str) -> serde_json::Value {
    let text = node.server.output(&["topic", "describe", topic, "-o", "json"]);
    let topics: serde_json::Value = serde_json::from_str(&text).expect("JSON");
    topics.as_array().map_or(topics.clone(), |topics| topics[0].clone())
}

/// The leader of each partition of a topic, as a node reports it. `None` for a partition without one.
pub(crate) fn leaders(node: &Node, topic: &str) -> Vec<Option<u32>> {
    let topic = describe(node, topic);
    let partitions = topic["partitions"].as_array().expect("partitions");
    partitions.iter().map(|partition| partition["leader"].as_u64().map(|node| node as u32)).collect()
}

pub(crate) fn lines(range: std::ops::Range<u32>) -> String {
    range.map(|number| format!("record {number}\n")).collect()
}

pub(crate) fn sorted(text: &str) -> Vec<&str> {
    let mut lines: Vec<_> = text.lines().collect();
    lines.sort_unstable();
    lines
}

/// Every acknowledged record exists exactly once, whichever node is killed.
#[test]
fn what_three_nodes_acknowledged_survives_the_death_of_each_of_them() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    let create = ["topic", "create", "kept", "--partitions", "3", "--replication-factor", "3"];
    nodes[&2].server.output(&create);
    eventually("all partitions have leaders", || leaders(&nodes[&3], "kept").iter().all(Option::is_some));
    let mut expected = String::new();
    for round in 0..3 {
        let victim = round + 1;
        let input = lines(round * 1000..round * 1000 + 500);
        nodes[&victim].server.produce("kept", &["--batch-bytes", "1000"], input.as_bytes());
        expected += &input;
        nodes.remove(&victim).unwrap().server.kill();
        let (&asked, survivor) = nodes.iter().next().unwrap();
        // The client finds the new leaders by itself.
        let input = lines(round * 1000 + 500..round * 1000 + 1000);
        survivor.server.produce("kept", &["--batch-bytes", "1000"], input.as_bytes());
        expected += &input;
        let found = survivor.server.consume_text("kept", &[]);
        assert_eq!(sorted(&found), sorted(&expected), "after the death of node {victim}, asked {asked}");
        let seed = survivor.cluster.clone();
        nodes.insert(victim, start_node(dir.path(), victim, &["--seed", &seed]));
    }
    eventually("all partitions have leaders", || leaders(&nodes[&1], "kept").iter().all(Option::is_some));
    for node in nodes.into_values() {
        assert_eq!(node.server.stop(), Some(0));
    }
}

/// A node that is told to stop hands its partitions over first: no client waits for an election.
#[test]
fn a_node_that_stops_hands_its_partitions_over() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "t", "--partitions", "6", "--replication-factor", "3"]);
    eventually("all partitions have leaders", || leaders(&nodes[&1], "t").iter().all(Option::is_some));
    assert_eq!(nodes.remove(&1).unwrap().server.stop(), Some(0));
    let left = leaders(&nodes[&2], "t");
    assert!(left.iter().all(|leader| matches!(leader, Some(2 | 3))), "{left:?}");
}

/// A node that lost its disk gets its id back with a new folder, once the old replica is known to be gone.
/// The other nodes send it everything that it had, and its replicas count again: another node may die then.
#[test]
fn a_node_that_lost_its_disk_gets_everything_back() {
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--set", "broker.session.timeout.ms=1000"];
    let first = start_node(dir.path(), 1, &quick);
    let seed = first.cluster.clone();
    let with_seed = [&quick[..], &["--seed", &seed]].concat();
    let mut second = start_node(dir.path(), 2, &with_seed);
    let third = start_node(dir.path(), 3, &with_seed);
    wait_for_voters(dir.path());
    first.server.output(&["topic", "create", "t", "--partitions", "2", "--replication-factor", "3"]);
    first.server.produce("t", &["--batch-bytes", "1000"], lines(0..500).as_bytes());
    second.server.kill();
    std::fs::remove_dir_all(dir.path().join("node2")).unwrap();
    let in_sync =
        |node: &Node| describe(node, "t")["partitions"][0]["in_sync_replicas"].as_array().map(Vec::len);
    eventually("the node is fenced", || in_sync(&first) == Some(2));
    second = start_node(dir.path(), 2, &with_seed);
    first.server.produce("t", &["--batch-bytes", "1000"], lines(500..600).as_bytes());
    eventually("its replicas count again", || {
        leaders(&second, "t").iter().all(Option::is_some)
            && members_changed(dir.path(), "change=Promote") >= 5
            && members_changed(dir.path(), "change=Remove") >= 3
    });
    // Entries before these records in the partitions' logs are committed with them, among them the removal of
    // the lost replicas.
    first.server.produce("t", &["--batch-bytes", "1000"], lines(600..900).as_bytes());
    first.server.kill();
    let found = second.server.consume_text("t", &[]);
    assert_eq!(sorted(&found), sorted(&lines(0..900)));
    assert_eq!(third.server.stop(), Some(0));
}

/// Once a partition has no leader, producing fails after the timeout instead of hanging.
#[test]
fn records_for_a_partition_without_a_leader_end_with_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let quick = ["--set", "broker.session.timeout.ms=1000"];
    let first = start_node(dir.path(), 1, &quick);
    let with_seed = [&quick[..], &["--seed", &first.cluster]].concat();
    let [second, third] = [2, 3].map(|node| start_node(dir.path(), node, &with_seed));
    wait_for_voters(dir.path());
    first.server.output(&["topic", "create", "t", "--partitions", "3"]);
    eventually("all partitions have leaders", || leaders(&first, "t").iter().all(Option::is_some));
    third.server.kill();
    eventually("one has none any more", || leaders(&first, "t").contains(&None));
    let partition = leaders(&first, "t").iter().position(Option::is_none).unwrap().to_string();
    let produce = ["produce", "t", "--partition", &partition, "--timeout", "2s"];
    let complaint = failure(&first.server.run_with(&produce, b"a\n"), 1);
    assert!(complaint.contains(&format!("partition {partition} has no leader")), "{complaint}");
    for node in [first, second] {
        assert_eq!(node.server.stop(), Some(0));
    }
}

/// How often nodes have logged that a partition's members changed in this way.
pub(crate) fn members_changed(dir: &Path, how: &str) -> usize {
    let logs = (1..=3).map(|node| dir.join(format!("node{node}.stderr")));
    let logs = logs.map(|log| std::fs::read_to_string(log).unwrap_or_default());
    logs.map(|log| {
        log.lines().filter(|line| line.contains("changing the members") && line.contains(how)).count()
    })
    .sum()
}

/// All nodes get the same seeds, their own address among them. The first in the list founds the cluster.
#[test]
fn one_list_of_seeds_for_all_begins_one_cluster() {
    let dir = tempfile::tempdir().unwrap();
    // A list that is known before any node runs.
    let addresses = free_addresses(3);
    let started: Vec<_> = std::thread::scope(|scope| {
        let start = |number: usize| {
            let (dir, addresses) = (dir.path(), &addresses);
            move || {
                let id = (number + 1).to_string();
                let mut more = vec!["--node-id", &id, "--cluster-listen", &addresses[number]];
                addresses.iter().for_each(|address| more.extend(["--seed", address]));
                Server::start_on(&dir.join(&id), "127.0.0.1:0", "off", &more)
            }
        };
        // The founder starts last: no other node may take its role.
        let threads: Vec<_> = [2, 1, 0].map(|number| scope.spawn(start(number))).into();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    started[0].output(&["topic", "create", "t", "--replication-factor", "3"]);
    assert!(started[2].output(&["topic", "list"]).contains('t'));
}

#[test]
fn folders_and_clusters_are_not_mixed_up() {
    let dir = tempfile::tempdir().unwrap();
    let first = start_node(dir.path(), 1, &[]);
    let other = tempfile::tempdir().unwrap();
    let stranger = start_node(other.path(), 2, &[]);
    assert_eq!(stranger.server.stop(), Some(0));
    let folder = other.path().join("node2").to_str().unwrap().to_owned();
    let serve = |more: &[&str]| {
        let common = ["serve", "--data-dir", &folder, "--kafka", "127.0.0.1:0", "--nats", "off"];
        let common = [&common[..], &["--http", "127.0.0.1:0"], more].concat();
        failure(&run(&common), 1)
    };
    let error = serve(&["--node-id", "2"]);
    assert!(error.contains("set cluster.listen"), "{error}");
    let error = serve(&["--node-id", "3", "--cluster-listen", "127.0.0.1:0"]);
    assert!(error.contains("belongs to node 2, not 3"), "{error}");
    // A node id that is taken by a live node: the seed itself.
    let fresh = other.path().join("fresh").to_str().unwrap().to_owned();
    let twin =
        ["serve", "--data-dir", &fresh, "--kafka", "127.0.0.1:0", "--nats", "off", "--http", "127.0.0.1:0"];
    let twin = [&twin[..], &["--node-id", "1", "--cluster-listen", "127.0.0.1:0", "--seed", &first.cluster]]
        .concat();
    let error = failure(&run(&twin), 1);
    assert!(error.contains("does not let this node join"), "{error}");
    let alone = other.path().join("alone").to_str().unwrap().to_owned();
    let server = Server::start(Path::new(&alone), &[]);
    assert_eq!(server.stop(), Some(0));
    let join =
        ["serve", "--data-dir", &alone, "--kafka", "127.0.0.1:0", "--nats", "off", "--http", "127.0.0.1:0"];
    let join = [&join[..], &["--cluster-listen", "127.0.0.1:0", "--seed", &first.cluster]].concat();
    let error = failure(&run(&join), 1);
    assert!(error.contains("holds a cluster of its own"), "{error}");
}

/// A node's disk is replaced within its session. The new folder waits until the old replica is known to be
/// gone. A node whose id belongs to a live node waits no longer than that takes.
#[test]
fn a_node_with_an_empty_folder_waits_until_the_old_one_is_known_to_be_gone() {
    let dir = tempfile::tempdir().unwrap();
    let mut nodes = three(dir.path());
    let server = &nodes[&1].server;
    server.output(&["topic", "create", "t", "--replication-factor", "3"]);
    server.produce("t", &["--batch-bytes", "1000"], lines(0..500).as_bytes());
    let seed = nodes[&1].cluster.clone();
    nodes.remove(&2).unwrap().server.kill();
    std::fs::remove_dir_all(dir.path().join("node2")).unwrap();
    let log = dir.path().join("node2.stderr");
    std::fs::remove_file(&log).unwrap();
    let removed = members_changed(dir.path(), "change=Remove");
    let began = Instant::now();
    nodes.insert(2, start_node(dir.path(), 2, &["--seed", &seed]));
    assert!(began.elapsed() > Duration::from_secs(5), "it came back within the session of the old one");
    let said = std::fs::read_to_string(&log).unwrap();
    assert_eq!(said.matches("not yet that its previous holder is gone").count(), 1, "{said}");
    assert!(!said.contains("waiting to join a cluster"), "{said}");
    eventually("its replicas count again", || {
        // The replicas of the metadata log and of the topic.
        members_changed(dir.path(), "change=Remove") >= removed + 2
    });
    // Entries before these in the logs are committed with them, among them the removal of the lost replicas.
    nodes[&1].server.produce("t", &["--batch-bytes", "1000"], lines(500..600).as_bytes());
    nodes[&1].server.output(&["topic", "create", "u", "--replication-factor", "3"]);
    nodes.remove(&3).unwrap().server.kill();
    eventually("there are leaders", || matches!(leaders(&nodes[&1], "t")[..], [Some(1 | 2)]));
    let found = nodes[&2].server.consume_text("t", &[]);
    assert_eq!(sorted(&found), sorted(&lines(0..600)));

    let began = Instant::now();
    let fresh = dir.path().join("fresh");
    let own = ["serve", "--data-dir", fresh.to_str().unwrap(), "--node-id", "2"];
    let free = ["--kafka", "127.0.0.1:0", "--nats", "off", "--http", "127.0.0.1:0"];
    let more = ["--cluster-listen", "127.0.0.1:0", "--seed", &seed];
    let complaint = failure(&run(&[&own[..], &free, &more].concat()), 1);
    assert!(complaint.contains("The node id 2 is in use"), "{complaint}");
    assert!((15..40).contains(&began.elapsed().as_secs()), "{:?}", began.elapsed());
    assert_eq!(sorted(&nodes[&2].server.consume_text("t", &[])), sorted(&lines(0..600)));
}

/// Two processes that are the same node would both answer clients. The second one refuses to start.
#[test]
fn a_copy_of_a_running_nodes_folder_does_not_become_a_node() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    let copy = dir.path().join("copy");
    copy_dir(&dir.path().join("node3"), &copy);
    let own = ["serve", "--data-dir", copy.to_str().unwrap(), "--node-id", "3"];
    let free = ["--kafka", "127.0.0.1:0", "--nats", "off", "--http", "127.0.0.1:0"];
    let more = ["--cluster-listen", "127.0.0.1:0", "--seed", &nodes[&1].cluster];
    let complaint = failure(&run(&[&own[..], &free, &more].concat()), 1);
    assert!(complaint.contains("another node with id 3 is running"), "{complaint}");
    nodes[&3].server.output(&["topic", "create", "t", "--partitions", "1", "--replication-factor", "3"]);
}

/// Data of a standalone node is still there when it is one of three.
#[test]
fn a_node_that_was_alone_begins_a_cluster_with_what_it_has() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("node1");
    let alone = Server::start(&data, &[]);
    alone.create("old", 2);
    alone.produce("old", &[], lines(0..100).as_bytes());
    assert_eq!(alone.stop(), Some(0));
    let nodes = three(dir.path());
    let found = nodes[&3].server.consume_text("old", &[]);
    assert_eq!(sorted(&found), sorted(&lines(0..100)));
    nodes[&2].server.output(&["topic", "create", "new", "--replication-factor", "3"]);
    nodes[&2].server.produce("old", &[], lines(100..200).as_bytes());
    let found = nodes[&3].server.consume_text("old", &[]);
    assert_eq!(sorted(&found), sorted(&lines(0..200)));
}
