//! The choice of metadata voters, and the return of leadership to preferred replicas.

use tailrace_metadata::cluster::{
    ControllerMembers, LeaderMove, Leaders, controller_members, preferred_leader_moves,
};
use tailrace_metadata::*;
use tailrace_types::{LeaderEpoch, NodeId, PartitionId, RaftGroup, ReplicaId, TopicId};

use crate::cluster_rig::{Rig, node, replica, topic};

fn fence(rig: &mut Rig, node: i32, fenced: bool) {
    rig.run(&Command::FenceNode { node: NodeId(node), fenced }).expect("registered");
}

/// Returns the nodes of the chosen voters and learners, if these nodes vote now.
fn chosen(rig: &Rig, voting: &[i32]) -> (Vec<i32>, Vec<i32>) {
    let image = rig.image();
    let of =
        |node: &i32| image.node(NodeId(*node)).map_or(replica(*node, 1), |node| node.registration.replica);
    let voters: Vec<ReplicaId> = voting.iter().map(of).collect();
    let ControllerMembers { voters, learners } = controller_members(&image, &voters);
    let nodes = |replicas: Vec<ReplicaId>| replicas.iter().map(|replica| replica.node().0).collect();
    (nodes(voters), nodes(learners))
}

#[test]
fn the_lowest_nodes_vote_and_a_voter_at_work_stays_one() {
    let mut rig = Rig::cluster(1);
    assert_eq!(chosen(&rig, &[1]), (vec![1], vec![]));
    let mut rig_of_two = Rig::cluster(2);
    assert_eq!(chosen(&rig_of_two, &[1]), (vec![1, 2], vec![]));
    fence(&mut rig_of_two, 2, true);
    assert_eq!(chosen(&rig_of_two, &[1, 2]), (vec![1, 2], vec![]), "nobody can take its place");
    assert_eq!(chosen(&rig_of_two, &[1]), (vec![1], vec![2]), "a node that is gone does not begin to vote");

    let mut five = Rig::cluster(5);
    assert_eq!(chosen(&five, &[1]), (vec![1, 2, 3], vec![4, 5]));
    assert_eq!(chosen(&five, &[1, 4, 5]), (vec![1, 4, 5], vec![2, 3]));
    fence(&mut five, 4, true);
    assert_eq!(chosen(&five, &[1, 4, 5]), (vec![1, 2, 5], vec![3, 4]));
    assert_eq!(chosen(&five, &[1, 2, 3, 5]), (vec![1, 2, 3], vec![4, 5]));
    // A voter whose disk was lost is a new replica.
    let mut renewed = node(4);
    renewed.directory = [99; 16];
    let before = five.image().node(NodeId(4)).unwrap().registration.replica;
    five.run(&Command::RegisterNode(renewed)).unwrap();
    fence(&mut five, 4, false);
    let one = five.image().node(NodeId(1)).unwrap().registration.replica;
    let members = controller_members(&five.image(), &[one, before]);
    assert!(!members.voters.contains(&before) && !members.learners.contains(&before));
    assert_eq!(members.voters.iter().map(|replica| replica.node().0).collect::<Vec<_>>(), [1, 2, 3]);
    // The same holds in a cluster that grows from one node.
    rig.run(&Command::RegisterNode(node(2))).unwrap();
    assert_eq!(chosen(&rig, &[1]), (vec![1], vec![2]));
}

#[test]
fn the_number_of_voters_is_a_setting() {
    let rig = Rig::cluster_with(5, &[("tailrace.controller.voters", "5")]);
    assert_eq!(chosen(&rig, &[1]), (vec![1, 2, 3, 4, 5], vec![]));
    let rig = Rig::cluster_with(3, &[("tailrace.controller.voters", "1")]);
    assert_eq!(chosen(&rig, &[2, 3]), (vec![2], vec![1, 3]));
}

fn group(partition: i32) -> RaftGroup {
    RaftGroup { topic: TopicId([1; 16]), partition: PartitionId(partition) }
}

fn to(partition: i32, from: i32, to: i32) -> LeaderMove {
    LeaderMove { group: group(partition), from: replica(from, 1), to: replica(to, 1) }
}

#[test]
fn leadership_goes_back_where_too_much_of_it_is_elsewhere() {
    let mut rig = Rig::cluster_with(3, &[("leader.imbalance.per.broker.percentage", "50")]);
    rig.run(&topic("a", 1, &[&[1, 2], &[1, 3], &[2, 3], &[3, 1], &[3, 2]])).unwrap();
    let mut leaders = Leaders::new(100);
    let mut epoch = 0;
    let mut lead = |leaders: &mut Leaders, partition, node| {
        epoch += 1;
        assert!(leaders.announce(group(partition), replica(node, 1), LeaderEpoch(epoch)));
    };
    assert_eq!(preferred_leader_moves(&rig.image(), &leaders), [], "nothing is known");
    for (partition, node) in [(0, 2), (1, 1), (2, 3), (3, 3)] {
        lead(&mut leaders, partition, node);
    }
    // Node 1 does not lead half of its partitions, which is allowed. Node 2 leads none of its own.
    assert_eq!(preferred_leader_moves(&rig.image(), &leaders), [to(2, 3, 2)]);
    lead(&mut leaders, 1, 3);
    assert_eq!(preferred_leader_moves(&rig.image(), &leaders), [to(0, 2, 1), to(1, 3, 1), to(2, 3, 2)]);
    fence(&mut rig, 1, true);
    assert_eq!(preferred_leader_moves(&rig.image(), &leaders), [to(2, 3, 2)], "node 1 is gone");
    // A replica that is only being added does not lead.
    rig.reassign("a", 2, &[1, 3]).unwrap();
    fence(&mut rig, 1, false);
    assert_eq!(preferred_leader_moves(&rig.image(), &leaders), [to(0, 2, 1), to(1, 3, 1)]);
}
