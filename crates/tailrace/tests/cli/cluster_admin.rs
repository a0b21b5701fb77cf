//! Admin requests about partitions on several nodes, as Kafka's tools send them.
#![allow(clippy::unwrap_used, reason = "a test that cannot go on should say where")]

use tailrace_kafka_wire::messages::alter_share_group_offsets_request::{
    AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsRequestPartition, AlterShareGroupOffsetsRequestTopic,
};
use tailrace_kafka_wire::messages::describe_log_dirs_request::{
    DescribableLogDirTopic, DescribeLogDirsRequest,
};
use tailrace_kafka_wire::messages::describe_producers_request::{DescribeProducersRequest, TopicRequest};
use tailrace_kafka_wire::messages::describe_share_group_offsets_request::{
    DescribeShareGroupOffsetsRequest, DescribeShareGroupOffsetsRequestGroup,
};
use tailrace_kafka_wire::messages::{ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse};

use crate::cluster::{Node, eventually, leaders, lines, three};
use crate::support::Wire;

const GROUP: &str = "workers";
const MEMBER: &str = "7d4efac4-6d4f-4f4e-9c4b-3f5a5a1f0a01";

fn heartbeat(wire: &mut Wire, member_epoch: i32) -> ShareGroupHeartbeatResponse {
    let request = ShareGroupHeartbeatRequest {
        group_id: GROUP.to_owned(),
        member_id: MEMBER.to_owned(),
        member_epoch,
        subscribed_topic_names: Some(vec!["jobs".to_owned()]),
        ..Default::default()
    };
    wire.call(1, &request)
}

/// A connection to the group's coordinator, once the group exists and is empty.
fn empty_share_group<'a>(nodes: impl Iterator<Item = &'a Node> + Clone) -> Wire {
    let mut found = None;
    eventually("a node coordinates the group", || {
        found = nodes
            .clone()
            .map(|node| Wire::connect(&node.server))
            .find_map(|mut wire| (heartbeat(&mut wire, 0).error_code == 0).then_some(wire));
        found.is_some()
    });
    let mut wire = found.unwrap();
    assert_eq!(heartbeat(&mut wire, -1).error_code, 0);
    wire
}

/// The coordinator leads at most some of the partitions. It asks the leaders of the others for their offsets.
#[test]
fn offsets_of_a_share_group_are_set_for_partitions_of_all_nodes() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "jobs", "--partitions", "6", "--replication-factor", "3"]);
    eventually("all partitions have leaders", || leaders(&nodes[&1], "jobs").iter().all(Option::is_some));
    for partition in ["0", "1", "2", "3", "4", "5"] {
        nodes[&1].server.produce("jobs", &["--partition", partition], b"0\n1\n2\n3\n4\n");
    }
    let mut wire = empty_share_group(nodes.values());
    // Three is within the five records, 99 beyond them.
    let partition = |partition_index| AlterShareGroupOffsetsRequestPartition {
        partition_index,
        start_offset: if partition_index < 3 { 3 } else { 99 },
        ..Default::default()
    };
    let topic = AlterShareGroupOffsetsRequestTopic {
        topic_name: "jobs".to_owned(),
        partitions: (0..6).map(partition).collect(),
        ..Default::default()
    };
    let alter = AlterShareGroupOffsetsRequest {
        group_id: GROUP.to_owned(),
        topics: vec![topic],
        ..Default::default()
    };
    let answer = wire.call(0, &alter);
    assert_eq!(answer.error_code, 0, "{:?}", answer.error_message);
    for partition in &answer.responses[0].partitions {
        assert_eq!(partition.error_code, 0, "{}: {:?}", partition.partition_index, partition.error_message);
    }
    let group = DescribeShareGroupOffsetsRequestGroup {
        group_id: GROUP.to_owned(),
        topics: None,
        ..Default::default()
    };
    let describe = DescribeShareGroupOffsetsRequest { groups: vec![group], ..Default::default() };
    let answer = wire.call(1, &describe);
    let partitions = &answer.groups[0].topics[0].partitions;
    let mut found: Vec<_> = partitions.iter().map(|p| (p.partition_index, p.start_offset, p.lag)).collect();
    found.sort_unstable();
    assert_eq!(found, [(0, 3, 2), (1, 3, 2), (2, 3, 2), (3, 5, 0), (4, 5, 0), (5, 5, 0)]);
}

/// A node reports the sizes of all its replicas, not only of those that it leads.
#[test]
fn every_replica_tells_its_size() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "t", "--partitions", "1", "--replication-factor", "3"]);
    eventually("the partition has a leader", || leaders(&nodes[&1], "t").iter().all(Option::is_some));
    nodes[&1].server.produce("t", &["--compression", "none"], lines(0..1000).as_bytes());
    for node in nodes.values() {
        let mut wire = Wire::connect(&node.server);
        eventually("the replica has the records, and says so", || {
            let topic =
                DescribableLogDirTopic { topic: "t".to_owned(), partitions: vec![0], ..Default::default() };
            let request = DescribeLogDirsRequest { topics: Some(vec![topic]), ..Default::default() };
            let answer = wire.call(4, &request);
            let sizes = answer.results.iter().flat_map(|dir| &dir.topics).flat_map(|topic| &topic.partitions);
            sizes.map(|partition| partition.partition_size).sum::<i64>() > 10_000
        });
    }
}

/// `kafka-transactions find-hanging` asks one node about all its replicas.
#[test]
fn every_replica_tells_its_producers() {
    let dir = tempfile::tempdir().unwrap();
    let nodes = three(dir.path());
    nodes[&1].server.output(&["topic", "create", "t", "--partitions", "1", "--replication-factor", "3"]);
    eventually("the partition has a leader", || leaders(&nodes[&1], "t").iter().all(Option::is_some));
    nodes[&1].server.produce("t", &[], b"a\nb\n");
    for (number, node) in &nodes {
        let mut wire = Wire::connect(&node.server);
        // A follower receives the batch a moment later.
        eventually("the replica knows the producer", || {
            let topic =
                TopicRequest { name: "t".to_owned(), partition_indexes: vec![0], ..Default::default() };
            let answer =
                wire.call(0, &DescribeProducersRequest { topics: vec![topic], ..Default::default() });
            let partition = &answer.topics[0].partitions[0];
            assert_eq!(partition.error_code, 0, "node {number}: {:?}", partition.error_message);
            partition.active_producers.len() == 1
        });
    }
}
