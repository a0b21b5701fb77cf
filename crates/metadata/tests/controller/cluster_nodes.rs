//! Nodes of a cluster: founding, joining, restarting, losing a disk, leaving, and refusals.

use tailrace_metadata::*;
use tailrace_types::{NodeId, PartitionId, ReplicaId, TopicId};

use crate::cluster_rig::{Rig, listeners, node, replica, topic};

const OURS: [u8; 16] = [9; 16];

fn again(id: i32, edit: impl FnOnce(&mut RegisterNode)) -> Command {
    let mut node = node(id);
    edit(&mut node);
    Command::RegisterNode(node)
}

#[test]
fn a_standalone_node_counts_as_one() {
    let mut rig = Rig::alone();
    let image = rig.image();
    assert_eq!((image.live_nodes(), image.founder(), image.cluster_id()), (vec![NodeId(1)], None, None));
    assert!(image.is_live(NodeId(1)) && !image.is_live(NodeId(2)));
    assert_eq!(image.internal_replication_factor(CONSUMER_OFFSETS_TOPIC), 1);
    let id = rig.create("a", 2, -1);
    assert_eq!(
        rig.image().topic_by_id(id).unwrap().partition(PartitionId(1)).unwrap().replicas,
        [replica(1, 1)]
    );
    for command in [Command::RegisterNode(node(2)), Command::RegisterNode(node(1))] {
        assert_eq!(rig.refusal(&command), "This is a standalone server: it belongs to no cluster.");
    }
    for command in
        [Command::FenceNode { node: NodeId(1), fenced: true }, Command::RemoveNode { node: NodeId(1) }]
    {
        assert_eq!(rig.refusal(&command), "Broker ID 1 is not currently registered.");
    }
    // An older tailrace can still read its records.
    let versions = rig.controller.snapshot_records().into_iter().map(|record| record.encode());
    assert!(versions.into_iter().all(|bytes| !bytes.starts_with(br#"{"version":3"#)));
}

#[test]
fn the_founder_is_the_first_node_and_keeps_what_it_had() {
    let mut rig = Rig::alone();
    let id = rig.create("a", 2, -1);
    rig.run(&Command::FoundCluster { cluster_id: "c-1".to_owned(), node: node(1) }).unwrap();
    let image = rig.image();
    assert_eq!((image.founder(), image.cluster_id()), (Some(NodeId(1)), Some("c-1")));
    let first = image.node(NodeId(1)).unwrap();
    assert_eq!(
        (first.fenced, first.registration.epoch, first.registration.replica),
        (false, 1, replica(1, 1))
    );
    assert_eq!(image.features().cluster_level(), 3);
    assert_eq!(image.topic_by_id(id).unwrap().partition(PartitionId(0)).unwrap().founders, [replica(1, 1)]);
    // Founding the cluster again is a registration.
    let found = |cluster_id: &str, node| Command::FoundCluster { cluster_id: cluster_id.to_owned(), node };
    assert_eq!(rig.run(&found("c-1", node(1))), Ok(0));
    assert_eq!(rig.refusal(&found("c-2", node(1))), "The cluster c-1 was already founded by node 1.");
    assert_eq!(rig.refusal(&found("c-1", node(2))), "The cluster c-1 was already founded by node 1.");

    let mut rig = Rig::alone();
    for id in ["", "a b", "ü", &"x".repeat(65)] {
        assert_eq!(
            rig.refusal(&found(id, node(1))),
            "A cluster's name has 1 to 64 letters, digits, - and _."
        );
    }
    assert_eq!(
        rig.refusal(&found("c", node(2))),
        "Node 2 cannot be registered: only a standalone server can found a cluster, with its own node id."
    );
}

/// A node that joins reads a log that started before the cluster was founded. Partitions whose record names
/// no replicas are on the founder.
#[test]
fn a_node_that_follows_puts_old_topics_on_the_founder() {
    let mut founder = Rig::alone();
    let id = founder.create("a", 2, -1);
    founder.run(&Command::FoundCluster { cluster_id: "c".to_owned(), node: node(1) }).unwrap();
    founder.run(&Command::RegisterNode(node(2))).unwrap();
    let other = Rig::replay(&[("node.id", "2")], &founder.log);
    let image = other.image();
    assert_eq!(image.topic_by_id(id).unwrap().partition(PartitionId(1)).unwrap().replicas, [replica(1, 1)]);
    assert_eq!(other.controller.snapshot_records(), founder.controller.snapshot_records());
}

#[test]
fn a_node_registers_once_and_tells_what_changed() {
    let mut rig = Rig::cluster(1);
    assert_eq!(rig.run(&Command::RegisterNode(node(2))), Ok(1));
    let second = |rig: &Rig| rig.image().node(NodeId(2)).unwrap().as_ref().clone();
    let joined = second(&rig);
    assert!(joined.fenced, "it is not at work before the controller hears of it");
    assert_eq!((joined.registration.epoch, joined.registration.replica), (2, replica(2, 2)));
    assert_eq!(rig.run(&Command::RegisterNode(node(2))), Ok(0));
    let fence = |fenced| Command::FenceNode { node: NodeId(2), fenced };
    assert_eq!(
        (rig.run(&fence(true)), rig.run(&fence(false)), rig.run(&fence(false))),
        (Ok(0), Ok(1), Ok(0))
    );
    assert_eq!(rig.image().live_nodes(), [NodeId(1), NodeId(2)]);
    assert_eq!(rig.run(&again(2, |node| node.kafka = "there:1".to_owned())), Ok(1));
    let moved = second(&rig);
    assert_eq!(
        (moved.fenced, moved.registration.epoch, moved.registration.replica),
        (false, 3, replica(2, 2))
    );
    assert_eq!(moved.registration.kafka, "there:1");
    assert_eq!(rig.image().internal_replication_factor(CONSUMER_OFFSETS_TOPIC), 2);
}

/// Older builds cannot read the names.
#[test]
fn names_of_listeners_are_stored_from_level_2_on() {
    let mut rig = Rig::alone();
    let with_names = |id, levels| {
        let node = RegisterNode { levels, listeners: listeners(&["IN", "OUT"]), ..node(id) };
        Command::RegisterNode(node)
    };
    let Command::RegisterNode(founder) = with_names(1, (1, 1)) else { unreachable!() };
    rig.run(&Command::FoundCluster { cluster_id: "c".to_owned(), node: founder.clone() }).unwrap();
    rig.run(&with_names(2, (1, 2))).unwrap();
    let stored = |rig: &Rig, id| rig.image().node(NodeId(id)).unwrap().registration.listeners.clone();
    assert_eq!((stored(&rig, 1), stored(&rig, 2)), (Vec::new(), Vec::new()));
    assert!(rig.log.iter().all(|record| record.encode().starts_with(br#"{"version":3"#)
        || !matches!(record, MetadataRecord::NodeRegistered(_))));
    rig.run(&with_names(1, (1, 2))).unwrap();
    let raise =
        FeatureUpdate { name: CLUSTER_LEVEL.to_owned(), level: 2, direction: FeatureDirection::Upgrade };
    rig.run(&Command::UpdateFeatures(vec![raise])).unwrap();
    assert_eq!(rig.run(&with_names(2, (1, 2))), Ok(1), "it registers again");
    assert_eq!(rig.run(&with_names(2, (1, 2))), Ok(0));
    assert_eq!((stored(&rig, 1), stored(&rig, 2)), (Vec::new(), listeners(&["IN", "OUT"])));
    // A cluster founded at level 2 has them at once.
    let mut rig = Rig::alone();
    let founder = RegisterNode { levels: (1, 2), ..founder };
    rig.run(&Command::FoundCluster { cluster_id: "c".to_owned(), node: founder }).unwrap();
    assert_eq!(stored(&rig, 1), listeners(&["IN", "OUT"]));
}

#[test]
fn what_cannot_be_registered() {
    let mut rig = Rig::cluster_with(2, &[("tailrace.cluster.nodes.max", "3")]);
    type Edit = fn(&mut RegisterNode);
    let cases: [(Edit, &str); 12] = [
        (|node| node.node = NodeId(-1), "Node -1 cannot be registered: its id is negative."),
        (|node| node.directory = [0; 16], "its data folder has no id"),
        (|node| node.cluster = "here".to_owned(), "not HOST:PORT"),
        (|node| node.kafka = format!("{}:1", "x".repeat(300)), "not HOST:PORT"),
        (|node| node.nats = Some("here:70000".to_owned()), "not HOST:PORT"),
        (|node| node.listeners = listeners(&["IN", "IN"]), "two of its Kafka listeners have one name"),
        (|node| node.listeners = listeners(&["in"]), "the name of one of its Kafka listeners is illegal"),
        (|node| node.http = Some(":1".to_owned()), "not HOST:PORT"),
        (|node| node.rack = Some("r".repeat(256)), "longer than 255 bytes"),
        (|node| node.levels = (0, 3), "are not a range within 1 to 32767"),
        (|node| node.levels = (4, 3), "are not a range within 1 to 32767"),
        (|node| node.directory = [1; 16], "its data folder is a copy of another node's"),
    ];
    for (edit, words) in cases {
        let text = rig.refusal(&again(3, edit));
        assert!(text.contains(words), "{text}");
    }
    for levels in [(1, 2), (4, 9)] {
        assert_eq!(
            rig.refusal(&again(3, |node| node.levels = levels)),
            format!(
                "Node 3 supports levels {} to {} of the protocol between nodes, and the cluster is at 3; start a build that supports it.",
                levels.0, levels.1
            )
        );
    }
    rig.run(&Command::RegisterNode(node(3))).unwrap();
    assert_eq!(
        rig.refusal(&Command::RegisterNode(node(4))),
        "The cluster has 3 nodes, as many as tailrace.cluster.nodes.max allows."
    );
    assert_eq!(rig.run(&Command::RegisterNode(node(3))), Ok(0), "known ones may come back");
}

#[test]
fn a_lost_disk_makes_new_replicas_that_begin_as_learners() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[1, 2, 3], &[2, 3, 1], &[1, 3, 2]])).unwrap();
    rig.run(&topic("b", 2, &[&[2]])).unwrap();
    rig.run(&topic("c", 3, &[&[3, 1]])).unwrap();
    let with_new_disk = again(2, |node| node.directory = OURS);
    assert_eq!(
        rig.refusal(&with_new_disk),
        "The node id 2 is in use by a node with another data folder; give this node another id, or stop the other one and wait until it is fenced."
    );
    rig.run(&Command::FenceNode { node: NodeId(2), fenced: true }).unwrap();
    assert_eq!(rig.run(&with_new_disk), Ok(1 + 4));
    let image = rig.image();
    let second = image.node(NodeId(2)).unwrap();
    assert!(second.fenced);
    assert_eq!((second.registration.epoch, second.registration.replica), (4, replica(2, 4)));
    let partition = image.topic("a").unwrap().partition(PartitionId(1)).unwrap();
    assert_eq!(partition.replicas, [replica(2, 2), replica(3, 1), replica(1, 1)]);
    assert_eq!(partition.founders, [replica(2, 1), replica(3, 1), replica(1, 1)]);
    assert_eq!(
        (&partition.adding[..], &partition.removing[..]),
        (&[replica(2, 2)][..], &[replica(2, 1)][..])
    );
    assert_eq!((&partition.lost[..], partition.next_incarnation), (&[replica(2, 1)][..], 3));
    assert!(!image.topic("c").unwrap().partition(PartitionId(0)).unwrap().is_reassigned());
    // The disk is lost again before the first replacement is finished.
    assert_eq!(rig.run(&again(2, |node| node.directory = [8; 16])), Ok(1 + 4));
    let image = rig.image();
    let partition = image.topic("b").unwrap().partition(PartitionId(0)).unwrap();
    assert_eq!(partition.replicas, [replica(2, 3)]);
    assert_eq!(partition.adding, [replica(2, 2), replica(2, 3)]);
    assert_eq!(partition.removing, [replica(2, 1), replica(2, 2)]);
    // The partition cannot go back to a lost disk.
    let cancel = Command::ReassignPartition { topic: "b".to_owned(), partition: PartitionId(0), nodes: None };
    assert_eq!(rig.refusal(&cancel), "No reassignment of this partition is in progress.");
}

#[test]
fn a_node_leaves_when_it_is_gone_and_holds_nothing() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[1, 2], &[2, 1]])).unwrap();
    let remove = |node| Command::RemoveNode { node: NodeId(node) };
    assert_eq!(rig.refusal(&remove(7)), "Broker ID 7 is not currently registered.");
    assert_eq!(rig.refusal(&remove(2)), "Node 2 is running; stop it first and wait until it is fenced.");
    rig.run(&Command::FenceNode { node: NodeId(2), fenced: true }).unwrap();
    let holds = "Node 2 holds replicas of 2 partition(s); move them to other nodes first.";
    assert_eq!(rig.refusal(&remove(2)), holds);
    for partition in [0, 1] {
        rig.reassign("a", partition, &[1, 3]).unwrap();
    }
    assert_eq!(rig.refusal(&remove(2)), holds, "a majority may need it until it is out");
    for partition in [0, 1] {
        rig.finish("a", partition);
    }
    rig.run(&remove(2)).unwrap();
    assert!(rig.image().node(NodeId(2)).is_none());
    // Its number comes back with an id that was never used, even after a snapshot.
    let mut rig = Rig::replay(&[], &rig.controller.snapshot_records());
    rig.run(&Command::RegisterNode(node(2))).unwrap();
    let registration = rig.image().node(NodeId(2)).unwrap().registration.clone();
    assert_eq!((registration.epoch, registration.replica), (4, replica(2, 4)));
}

/// Under its old id it would be a member of the metadata log without a replica behind it.
#[test]
fn who_was_taken_out_does_not_come_back_with_the_same_folder() {
    let mut rig = Rig::cluster(3);
    let back = |incarnation| again(2, |node| node.replica = Some(replica(2, incarnation)));
    assert_eq!(rig.run(&back(2)), Ok(0), "a member that starts again");
    let refused = format!(
        "Node 2 with this data folder (replica {}) was removed from the cluster; delete the folder to let the node join again.",
        replica(2, 2)
    );
    rig.run(&Command::FenceNode { node: NodeId(2), fenced: true }).unwrap();
    rig.run(&Command::RemoveNode { node: NodeId(2) }).unwrap();
    assert_eq!(rig.refusal(&back(2)), refused);
    assert_eq!(
        rig.refusal(&again(2, |node| (node.replica, node.directory) = (Some(replica(2, 2)), OURS))),
        refused
    );
    // Another folder has taken its place. The refusal survives a snapshot.
    rig.run(&again(2, |node| node.directory = OURS)).unwrap();
    let mut rig = Rig::replay(&[], &rig.controller.snapshot_records());
    assert_eq!(rig.refusal(&back(2)), refused);
    assert_eq!(
        rig.run(&again(2, |node| (node.replica, node.directory) = (Some(replica(2, 4)), OURS))),
        Ok(0)
    );
}

#[test]
fn the_level_of_the_cluster_is_what_all_nodes_speak() {
    use FeatureDirection::{SafeDowngrade, Upgrade};
    let to = |level, direction| {
        let name = CLUSTER_LEVEL.to_owned();
        Command::UpdateFeatures(vec![FeatureUpdate { name, level, direction }])
    };
    let mut alone = Rig::alone();
    assert!(alone.refusal(&to(3, Upgrade)).contains("does not support this feature"));
    let mut rig = Rig::cluster(2);
    let refused =
        "Invalid update version 4 for feature tailrace.cluster.level. tailrace supports the versions 1 to 3.";
    assert_eq!(rig.refusal(&to(4, Upgrade)), refused);
    rig.run(&again(1, |node| node.levels = (2, 4))).unwrap();
    assert_eq!(
        rig.refusal(&to(4, Upgrade)),
        refused.replace("1 to 3", "2 to 3"),
        "node 2 does not speak it yet"
    );
    rig.run(&Command::FenceNode { node: NodeId(2), fenced: true }).unwrap();
    assert!(rig.refusal(&to(4, Upgrade)).contains("2 to 3"), "a node that is gone will come back");
    rig.run(&again(2, |node| node.levels = (3, 5))).unwrap();
    assert_eq!(rig.image().cluster_levels(), Some((3, 4)));
    assert_eq!(rig.run(&to(4, Upgrade)), Ok(1));
    assert_eq!(rig.image().features().cluster_level(), 4);
    assert!(rig.refusal(&to(3, Upgrade)).contains("Can't downgrade the version"));
    assert!(rig.refusal(&to(3, SafeDowngrade)).contains("nodes may rely on what that level introduced"));
    assert!(rig.refusal(&again(2, |node| node.levels = (1, 3))).contains("the cluster is at 4"));
    assert_eq!(rig.run(&Command::FinalizeFeatures), Ok(0), "it stays where it is");
}

#[test]
fn settings_of_single_nodes() {
    let mut rig = Rig::cluster(2);
    let set = |node, value: &str| Command::AlterBrokerConfigs {
        scope: BrokerScope::Node(NodeId(node)),
        change: ConfigChange::Incremental(vec![ConfigOp {
            key: "max.connections".to_owned(),
            action: ConfigAction::Set,
            value: Some(value.to_owned()),
        }]),
    };
    rig.run(&set(2, "7")).unwrap();
    assert_eq!(rig.image().broker().max_connections, 10_000, "that was for the other node");
    rig.run(&set(1, "8")).unwrap();
    assert_eq!(rig.image().broker().max_connections, 8);
    assert_eq!(Rig::replay(&[("node.id", "2")], &rig.log).image().broker().max_connections, 7);
    assert_eq!(rig.refusal(&set(5, "7")), "Unexpected broker id, expected 1, but received 5");
}

#[test]
fn records_that_no_cluster_writes_are_refused() {
    let registered = |node, epoch| {
        MetadataRecord::NodeRegistered(NodeRegistration {
            node: NodeId(node),
            directory: OURS,
            epoch,
            replica: replica(node, 1),
            cluster: "a:1".to_owned(),
            kafka: "a:2".to_owned(),
            listeners: Vec::new(),
            nats: None,
            http: None,
            rack: None,
            levels: (1, 3),
        })
    };
    let replicas =
        |id, partition, replicas: &[ReplicaId], adding: &[ReplicaId], removing: &[ReplicaId], next| {
            MetadataRecord::PartitionReplicas {
                id,
                partition: PartitionId(partition),
                replicas: replicas.to_vec(),
                adding: adding.to_vec(),
                removing: removing.to_vec(),
                lost: Vec::new(),
                next_incarnation: next,
            }
        };
    let mut alone = Rig::alone();
    let id = alone.create("a", 1, -1);
    let (one, two, new) = (replica(1, 1), replica(2, 1), replica(2, 2));
    for record in [registered(1, 1), replicas(id, 0, &[one], &[], &[], 2)] {
        assert!(alone.contradiction(&record).contains("none was founded"));
    }
    let mut rig = Rig::cluster(2);
    let id = rig.create("a", 1, -1);
    let founded = MetadataRecord::ClusterFounded { node: NodeId(1), cluster_id: "d".to_owned(), epoch: 0 };
    let cases = [
        (founded, "there is one already"),
        (registered(2, 2), "with epoch 2, after epoch 2"),
        (MetadataRecord::NodeFenced { node: NodeId(9), fenced: true }, "node 9, which is not registered"),
        (MetadataRecord::NodeRemoved { node: NodeId(9) }, "node 9, which is not registered"),
        (replicas(TopicId([77; 16]), 0, &[one], &[], &[], 2), "which no topic has"),
        (replicas(id, 1, &[one], &[], &[], 2), "partition 1 of topic 'a'"),
        (replicas(id, 0, &[], &[], &[], 2), "inconsistent replicas"),
        (replicas(id, 0, &[two, new], &[], &[], 3), "inconsistent replicas"),
        (replicas(id, 0, &[one], &[two], &[], 2), "inconsistent replicas"),
        (replicas(id, 0, &[one], &[], &[one], 2), "inconsistent replicas"),
        (replicas(id, 0, &[one, new], &[new], &[], 2), "inconsistent replicas"),
        (replicas(id, 0, &[one], &[], &[], 1), "inconsistent replicas"),
    ];
    for (record, words) in cases {
        let text = rig.contradiction(&record);
        assert!(text.contains(words), "{text}");
    }
}

/// A node whose metadata log is damaged gets a new replica of it, and keeps everything else. While the node
/// may still be running, this is refused: the request may come from a copy of its folder.
#[test]
fn a_node_gets_another_replica_of_the_metadata_once_it_is_fenced() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    let before = rig.partition("a", 0);
    let known = |rig: &Rig| rig.image().node(NodeId(2)).unwrap().registration.replica;
    let first = known(&rig);
    let renewal = Command::RegisterNode(RegisterNode { replica: Some(first), renews: true, ..node(2) });
    assert!(rig.refusal(&renewal).contains("is in use"));
    rig.run(&Command::FenceNode { node: NodeId(2), fenced: true }).unwrap();
    assert_eq!(rig.run(&renewal), Ok(1));
    let second = known(&rig);
    assert!(second.node() == first.node() && second.incarnation() > first.incarnation());
    assert_eq!(rig.partition("a", 0), before, "its folder is the same");
    let as_before = Command::RegisterNode(RegisterNode { replica: Some(first), ..node(2) });
    assert!(
        rig.refusal(&as_before).contains("removed from the cluster"),
        "the one that it had never comes back"
    );
    // The node stopped before it could write down the replica it was given.
    assert_eq!(rig.run(&renewal), Ok(1));
    let third = known(&rig);
    assert!(third.incarnation() > second.incarnation());
    rig.run(&Command::RegisterNode(RegisterNode { replica: Some(third), ..node(2) })).unwrap();
    assert_eq!(known(&rig), third);
    let stranger = RegisterNode { replica: Some(replica(9, 1)), renews: true, ..node(9) };
    assert!(rig.refusal(&Command::RegisterNode(stranger)).contains("removed from the cluster"));
}
