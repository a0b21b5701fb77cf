//! The replicas of partitions: placed, assigned manually, moved, and moved back.

use tailrace_metadata::*;
use tailrace_types::{NodeId, PartitionId, TimestampMs, TopicId};

use crate::cluster_rig::{Rig, node, nodes, replica, topic};

fn creation(partitions: i32, replication_factor: i16) -> Command {
    let mut create = CreateTopic::with_defaults("t", TopicId([3; 16]), TimestampMs(1), Requester::Client);
    (create.partitions, create.replication_factor) = (partitions, replication_factor);
    Command::CreateTopic(create)
}

fn extension(topic: &str, count: i32, assignment: Option<&[&[i32]]>) -> Command {
    let assignment = assignment.map(|lists| lists.iter().map(|numbers| nodes(numbers)).collect());
    Command::CreatePartitions { topic: topic.to_owned(), count, assignment, by: Requester::Client }
}

#[test]
fn replicas_are_spread_over_the_nodes_at_work() {
    let mut rig = Rig::cluster(4);
    rig.run(&Command::FenceNode { node: NodeId(4), fenced: true }).unwrap();
    let text = rig.refusal(&creation(1, 4));
    assert!(text.contains("cannot be reached because only 3 broker(s) are registered"), "{text}");
    rig.run(&creation(6, 3)).unwrap();
    rig.run(&extension("t", 9, None)).unwrap();
    let image = rig.image();
    let mut leads = [0; 5];
    for (_, partition) in image.topic("t").unwrap().assignment() {
        let mut on: Vec<i32> = partition.replicas.iter().map(|replica| replica.node().0).collect();
        leads[usize::try_from(on[0]).unwrap()] += 1;
        on.sort_unstable();
        assert_eq!(on, [1, 2, 3]);
        assert!(partition.replicas.iter().all(|replica| replica.incarnation() == 1));
        assert_eq!(partition.founders, partition.replicas);
    }
    assert_eq!(leads, [0, 3, 3, 3, 0]);
    // New partitions get as many replicas as the first one has, if possible.
    rig.run(&Command::FenceNode { node: NodeId(3), fenced: true }).unwrap();
    assert!(rig.refusal(&extension("t", 10, None)).contains("because only 2 broker(s)"));
}

#[test]
fn racks_count_if_every_node_has_one() {
    let mut rig = Rig::cluster(4);
    for id in 1..=4 {
        let mut node = node(id);
        node.rack = Some(if id <= 2 { "a" } else { "b" }.to_owned());
        rig.run(&Command::RegisterNode(node)).unwrap();
    }
    rig.run(&creation(12, 2)).unwrap();
    let image = rig.image();
    for (_, partition) in image.topic("t").unwrap().assignment() {
        let racks = partition.replicas.iter().filter(|replica| replica.node().0 <= 2).count();
        assert_eq!(racks, 1, "{partition:?}");
    }
}

#[test]
fn assignments_by_hand() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[3, 1], &[2, 3]])).unwrap();
    assert_eq!(rig.partition("a", 0).replicas, [replica(3, 1), replica(1, 1)]);
    assert_eq!(rig.image().topic("a").unwrap().replication_factor, 2);
    let manual = "The manual partition assignment includes";
    let uneven = format!(
        "{manual} a partition with 1 replica(s), but this is not consistent with previous partitions, which have 2 replica(s)."
    );
    let cases: [(&[&[i32]], String); 6] = [
        (&[&[]], format!("{manual} an empty replica list.")),
        (&[&[1, 1]], format!("{manual} the broker 1 more than once.")),
        (&[&[1], &[7]], format!("{manual} broker 7, but no such broker is registered.")),
        (&[&[-1]], format!("{manual} broker -1, but no such broker is registered.")),
        (&[&[1, 2], &[1]], uneven.clone()),
        (&[], "Number of partitions was set to an invalid non-positive value: 0; give a number from 1, or -1 for the default.".to_owned()),
    ];
    for (assignment, words) in cases {
        assert_eq!(rig.refusal(&topic("b", 2, assignment)), words);
    }
    assert_eq!(rig.refusal(&extension("a", 3, Some(&[&[1]]))), uneven);
    assert_eq!(
        rig.refusal(&extension("a", 4, Some(&[&[1, 2]]))),
        "Attempted to add 2 additional partition(s), but only 1 assignment(s) were specified."
    );
    rig.run(&extension("a", 3, Some(&[&[1, 2]]))).unwrap();
    assert_eq!(rig.partition("a", 2).founders, [replica(1, 1), replica(2, 1)]);
    rig.run(&Command::FenceNode { node: NodeId(3), fenced: true }).unwrap();
    rig.run(&topic("c", 3, &[&[3, 1]])).unwrap();
    assert_eq!(
        rig.refusal(&topic("d", 4, &[&[3]])),
        "All brokers specified in the manual partition assignment for partition 0 are fenced or in controlled shutdown."
    );

    let mut alone = Rig::alone();
    alone.run(&topic("a", 1, &[&[1], &[1]])).unwrap();
    assert_eq!(alone.partition("a", 1).replicas, [replica(1, 1)]);
    assert_eq!(
        alone.refusal(&topic("b", 2, &[&[2]])),
        format!("{manual} broker 2, but no such broker is registered.")
    );
}

#[test]
fn a_partition_moves_in_steps_and_what_comes_back_gets_a_new_id() {
    let mut rig = Rig::cluster(4);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    assert_eq!(rig.reassign("a", 0, &[1, 2, 3]), Ok(0));
    assert_eq!(rig.reassign("a", 0, &[4, 2, 1]), Ok(1));
    let moving = rig.partition("a", 0);
    assert_eq!(moving.replicas, [replica(4, 2), replica(2, 1), replica(1, 1)]);
    assert_eq!((&moving.adding[..], &moving.removing[..]), (&[replica(4, 2)][..], &[replica(3, 1)][..]));
    assert_eq!(moving.founders, [replica(1, 1), replica(2, 1), replica(3, 1)]);
    let finish = |replicas: &[(i32, u32)]| Command::FinishReassignment {
        topic: TopicId([1; 16]),
        partition: PartitionId(0),
        replicas: replicas.iter().map(|(node, incarnation)| replica(*node, *incarnation)).collect(),
    };
    let other = "These are no longer the wanted replicas of the partition.";
    assert_eq!(rig.refusal(&finish(&[(1, 1), (2, 1), (3, 1)])), other);
    assert_eq!(rig.run(&finish(&[(1, 1), (2, 1), (4, 2)])), Ok(1));
    assert!(!rig.partition("a", 0).is_reassigned());
    assert_eq!(rig.run(&finish(&[(1, 1), (2, 1), (4, 2)])), Ok(0));
    assert_eq!(rig.reassign("a", 0, &[3, 4]), Ok(1));
    let back = rig.partition("a", 0);
    assert_eq!((back.replicas, back.next_incarnation), (vec![replica(3, 3), replica(4, 2)], 4));
    // A different order needs no move.
    rig.finish("a", 0);
    assert_eq!(rig.reassign("a", 0, &[4, 3]), Ok(1));
    let turned = rig.partition("a", 0);
    assert!(!turned.is_reassigned());
    assert_eq!(turned.replicas, [replica(4, 2), replica(3, 3)]);
}

#[test]
fn a_reassignment_is_replaced_or_taken_back_while_it_runs() {
    let mut rig = Rig::cluster(5);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    let cancel = Command::ReassignPartition { topic: "a".to_owned(), partition: PartitionId(0), nodes: None };
    assert_eq!(rig.refusal(&cancel), "No reassignment of this partition is in progress.");
    rig.reassign("a", 0, &[4, 5, 1]).unwrap();
    // 2 may have been removed already. Its disk still has the replica, so it keeps its id.
    rig.reassign("a", 0, &[2, 4]).unwrap();
    let replaced = rig.partition("a", 0);
    assert_eq!(replaced.replicas, [replica(2, 1), replica(4, 2)]);
    assert_eq!(replaced.adding, [replica(4, 2), replica(5, 2)]);
    assert_eq!(replaced.incoming().collect::<Vec<_>>(), [replica(4, 2)]);
    assert_eq!(replaced.removing, [replica(5, 2), replica(1, 1), replica(3, 1)]);
    rig.finish("a", 0);

    rig.reassign("a", 0, &[2, 3, 5]).unwrap();
    assert_eq!(rig.run(&cancel), Ok(1));
    let back = rig.partition("a", 0);
    assert_eq!(back.replicas, [replica(2, 1), replica(4, 2)]);
    let came = vec![replica(3, 3), replica(5, 3)];
    assert_eq!((back.adding, back.removing), (came.clone(), came));
    assert_eq!(rig.refusal(&cancel), "No reassignment of this partition is in progress.");
    assert_eq!(back.next_incarnation, 4);
}

/// A node loses its disk while its replica is being removed. The replica that comes back must be a new one.
#[test]
fn what_was_lost_on_its_way_out_does_not_come_back() {
    let mut rig = Rig::cluster(4);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    rig.reassign("a", 0, &[1, 2, 4]).unwrap();
    rig.run(&Command::FenceNode { node: NodeId(3), fenced: true }).unwrap();
    let mut renewed = node(3);
    renewed.directory = [99; 16];
    rig.run(&Command::RegisterNode(renewed)).unwrap();
    let cancel = Command::ReassignPartition { topic: "a".to_owned(), partition: PartitionId(0), nodes: None };
    rig.run(&cancel).unwrap();
    let back = rig.partition("a", 0);
    assert_eq!(back.replicas, [replica(1, 1), replica(2, 1), replica(3, 3)]);
    assert_eq!(back.incoming().collect::<Vec<_>>(), [replica(3, 3)]);
    assert_eq!((back.removing, back.lost), (vec![replica(4, 2), replica(3, 1)], vec![replica(3, 1)]));
}

#[test]
fn reassignments_that_are_refused() {
    let mut rig = Rig::cluster(2);
    rig.run(&topic("a", 1, &[&[1]])).unwrap();
    let to = |topic: &str, partition, numbers: &[i32]| Command::ReassignPartition {
        topic: topic.to_owned(),
        partition: PartitionId(partition),
        nodes: Some(nodes(numbers)),
    };
    let cases = [
        (to("b", 0, &[1]), "The topic 'b' does not exist."),
        (to("a", 1, &[1]), "Unable to find partition a:1."),
        (to("a", -1, &[1]), "Unable to find partition a:-1."),
        (to("a", 0, &[]), "The manual partition assignment includes an empty replica list."),
        (to("a", 0, &[1, 1]), "The manual partition assignment includes the broker 1 more than once."),
        (
            to("a", 0, &[3]),
            "The manual partition assignment includes broker 3, but no such broker is registered.",
        ),
    ];
    for (command, words) in cases {
        assert_eq!(rig.refusal(&command), words);
    }
    let finish = |topic, partition| Command::FinishReassignment {
        topic: TopicId([topic; 16]),
        partition: PartitionId(partition),
        replicas: vec![replica(1, 1)],
    };
    assert!(rig.refusal(&finish(2, 0)).starts_with("There is no topic with the id"));
    assert_eq!(rig.refusal(&finish(1, 4)), "Unable to find partition a:4.");

    let mut alone = Rig::alone();
    alone.run(&topic("a", 1, &[&[1]])).unwrap();
    assert_eq!(alone.run(&to("a", 0, &[1])), Ok(0));
    assert!(alone.refusal(&to("a", 0, &[2])).contains("broker 2, but no such broker"));
}

#[test]
fn commands_of_another_build_and_damaged_ones_are_errors() {
    for bytes in [&b""[..], b"{}", br#"{"Dance":{}}"#, br#"{"RemoveNode":{"node":"x"}}"#, b"[[[["] {
        assert!(serde_json::from_slice::<Command>(bytes).is_err());
    }
    let newer = br#"{"kind":"of-the-future","message":"no"}"#;
    let read: RemoteControlError = serde_json::from_slice(newer).unwrap();
    assert_eq!(ControlError::from(read).kind(), ControlErrorKind::Unknown);
}

/// A lost replica is replaced as long as the others can commit that without it.
#[test]
fn a_lost_replica_starts_empty_unless_the_others_need_what_is_left_of_it() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    rig.run(&topic("b", 2, &[&[1, 2]])).unwrap();
    rig.run(&topic("c", 3, &[&[1]])).unwrap();
    let lost = |id: u8, node, incarnation| Command::RenewReplica {
        topic: TopicId([id; 16]),
        partition: PartitionId(0),
        replica: replica(node, incarnation),
    };
    for (id, node) in [(2, 1), (3, 1)] {
        let text = rig.refusal(&lost(id, node, 1));
        assert!(text.contains("that is not a majority"), "{text}");
    }
    assert_eq!(rig.run(&lost(1, 2, 1)), Ok(1));
    let wanted = rig.partition("a", 0);
    assert_eq!(wanted.replicas, [replica(1, 1), replica(2, 2), replica(3, 1)]);
    assert_eq!((&wanted.removing, &wanted.lost), (&vec![replica(2, 1)], &vec![replica(2, 1)]));
    assert_eq!(rig.run(&lost(1, 2, 1)), Ok(0), "said twice");
    // The old replica still counts as a voter, but can no longer vote.
    assert!(rig.refusal(&lost(1, 3, 1)).contains("of the 3 voting replicas, 1 others are available"));
    // A replica that has only just started may be lost again.
    assert_eq!(rig.run(&lost(1, 2, 2)), Ok(1));
    assert_eq!(rig.partition("a", 0).replicas[1], replica(2, 3));
    rig.finish("a", 0);
    rig.run(&Command::FenceNode { node: NodeId(1), fenced: true }).unwrap();
    assert!(rig.refusal(&lost(1, 3, 1)).contains("that is not a majority"), "one of the others is away");
    rig.run(&Command::FenceNode { node: NodeId(1), fenced: false }).unwrap();
    assert_eq!(rig.run(&lost(1, 3, 1)), Ok(1));
}

/// A replica that is lost again and again right after it starts must not fill the metadata.
#[test]
fn a_replica_is_not_replaced_for_ever() {
    let mut rig = Rig::cluster(3);
    rig.run(&topic("a", 1, &[&[1, 2, 3]])).unwrap();
    let lose = |rig: &mut Rig| {
        let replica = rig.partition("a", 0).replicas[1];
        rig.run(&Command::RenewReplica { topic: TopicId([1; 16]), partition: PartitionId(0), replica })
    };
    let renewed = (0..100).filter(|_| lose(&mut rig).is_ok()).count();
    assert_eq!(renewed, 3);
    let refused = lose(&mut rig).unwrap_err().to_string();
    assert!(refused.contains("3 replicas on node 2 were lost since"), "{refused}");
    let stuck = rig.partition("a", 0);
    assert_eq!(stuck.replicas[1], replica(2, 4));
    assert_eq!(stuck.incoming().collect::<Vec<_>>(), [replica(2, 4)]);
    // When the replica moves away, or comes back later, its losses are forgotten.
    rig.reassign("a", 0, &[1, 3]).unwrap();
    rig.finish("a", 0);
    rig.reassign("a", 0, &[1, 2, 3]).unwrap();
    rig.finish("a", 0);
    assert_eq!(rig.partition("a", 0).lost, []);
    assert_eq!(lose(&mut rig), Ok(1));
}
