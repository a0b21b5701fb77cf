//! Placement of the replicas of new partitions.

use std::collections::BTreeMap;

use tailrace_types::{NodeId, TopicId};

/// A node that can hold replicas.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct PlacementNode {
    pub(crate) node: NodeId,
    pub(crate) rack: Option<String>,
}

/// Returns the nodes of the partitions `partitions` (numbers within the topic) of a topic, the preferred
/// leader first.
///
/// The rule is Kafka's (KIP-36). Nodes form a row in which racks alternate. The first replica of a partition
/// goes to the next node of the row. The others follow at a distance that grows with each round, so that the
/// partitions of a lost node are spread over all others. A node or a rack is used twice only when all have
/// been used once. If any node has no rack, racks are ignored. Kafka draws the start of the row and the first
/// distance at random. Here they are derived from the topic's id, so that partitions that are added later
/// continue the row.
///
/// There must be at least `replicas` places, and `replicas` must be at least 1.
pub(crate) fn place(
    places: &[PlacementNode],
    topic: TopicId,
    partitions: std::ops::Range<usize>,
    replicas: usize,
) -> Vec<Vec<NodeId>> {
    assert!((1..=places.len()).contains(&replicas), "{replicas} replicas on {} nodes", places.len());
    let row = Row::new(places);
    partitions.map(|partition| row.replicas(topic, partition, replicas)).collect()
}

/// Nodes in an order in which racks alternate, each with the number of its rack.
struct Row {
    nodes: Vec<(NodeId, usize)>,
    racks: usize,
}

impl Row {
    fn new(places: &[PlacementNode]) -> Self {
        let mut racks: BTreeMap<Option<&str>, Vec<NodeId>> = BTreeMap::new();
        if places.iter().all(|place| place.rack.is_some()) {
            for place in places {
                racks.entry(place.rack.as_deref()).or_default().push(place.node);
            }
        } else {
            racks.insert(None, places.iter().map(|place| place.node).collect());
        }
        racks.values_mut().for_each(|nodes| nodes.sort_unstable());
        let longest = racks.values().map(Vec::len).max().unwrap_or(0);
        let numbered: Vec<(usize, &Vec<NodeId>)> = racks.values().enumerate().collect();
        let at = |depth: usize| {
            numbered.iter().filter_map(move |(rack, nodes)| nodes.get(depth).map(|node| (*node, *rack)))
        };
        Self { nodes: (0..longest).flat_map(at).collect(), racks: racks.len() }
    }

    fn replicas(&self, topic: TopicId, partition: usize, replicas: usize) -> Vec<NodeId> {
        let count = self.nodes.len();
        let [start, shift] = seeds(topic).map(|seed| (seed % count as u64) as usize);
        let first = (start + partition) % count;
        // One node further in each round. With racks: one node of the same rack further.
        let shift = (shift + partition / count) * self.racks;
        let mut chosen = vec![self.nodes[first]];
        let mut distance = 0;
        while chosen.len() < replicas {
            let candidate = self.nodes[(first + 1 + (shift + distance) % (count - 1)) % count];
            distance += 1;
            let same_rack = chosen.iter().any(|(_, rack)| *rack == candidate.1);
            let racks_left = self.racks > distinct(&chosen);
            let is_taken = chosen.contains(&candidate) || (same_rack && racks_left);
            if !is_taken {
                chosen.push(candidate);
            }
        }
        chosen.into_iter().map(|(node, _)| node).collect()
    }
}

fn distinct(chosen: &[(NodeId, usize)]) -> usize {
    let is_first =
        |(at, (_, rack)): (usize, &(NodeId, usize))| !chosen[..at].iter().any(|(_, earlier)| earlier == rack);
    chosen.iter().enumerate().filter(|entry| is_first(*entry)).count()
}

/// Returns two numbers that differ between topics.
fn seeds(topic: TopicId) -> [u64; 2] {
    let bits = u128::from_be_bytes(topic.0);
    [(bits >> 64) as u64, bits as u64]
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    fn places(racks: &[Option<u8>]) -> Vec<PlacementNode> {
        let place = |(number, rack): (usize, &Option<u8>)| PlacementNode {
            node: NodeId(number as i32),
            rack: rack.map(|rack| format!("r{rack}")),
        };
        racks.iter().enumerate().map(place).collect()
    }

    fn most_and_least(counts: &[usize]) -> (usize, usize) {
        (counts.iter().copied().max().unwrap_or(0), counts.iter().copied().min().unwrap_or(0))
    }

    proptest! {
        #[test]
        fn replicas_lie_on_different_nodes_and_racks_and_leaders_are_even(
            racks in prop::collection::vec(0..4_u8, 1..9),
            unknown in any::<bool>(),
            replicas in 1..9_usize,
            id in any::<[u8; 16]>(),
        ) {
            let mut racks: Vec<Option<u8>> = racks.into_iter().map(Some).collect();
            if unknown {
                racks[0] = None;
            }
            let places = places(&racks);
            let replicas = replicas.min(places.len());
            let (topic, count) = (TopicId(id), places.len() * 6);
            let placed = place(&places, topic, 0..count, replicas);
            let rack_count = racks.iter().collect::<BTreeSet<_>>().len();
            let mut leads = vec![0; places.len()];
            for nodes in &placed {
                leads[nodes[0].0 as usize] += 1;
                prop_assert_eq!(nodes.len(), replicas);
                prop_assert_eq!(nodes.iter().collect::<BTreeSet<_>>().len(), replicas);
                if !unknown {
                    let used: BTreeSet<_> = nodes.iter().map(|node| racks[node.0 as usize]).collect();
                    prop_assert_eq!(used.len(), replicas.min(rack_count));
                }
            }
            prop_assert_eq!(most_and_least(&leads), (6, 6));
            // Partitions that are added later go where they would have gone at creation.
            let later = place(&places, topic, 5..count, replicas);
            prop_assert_eq!(&later[..], &placed[5.min(count)..]);
        }

        #[test]
        fn without_racks_or_with_equal_ones_replicas_are_even(
            (racks, in_each) in (1..4_usize, 1..4_usize),
            known in any::<bool>(),
            replicas in 1..4_usize,
            id in any::<[u8; 16]>(),
        ) {
            let count = racks * in_each;
            let racks: Vec<Option<u8>> =
                (0..count).map(|node| known.then_some((node % racks) as u8)).collect();
            let places = places(&racks);
            let replicas = replicas.min(count);
            // All starts and distances.
            let rounds = (count - 1).max(1);
            let placed = place(&places, TopicId(id), 0..count * rounds, replicas);
            let mut held = vec![0; count];
            placed.iter().flatten().for_each(|node| held[node.0 as usize] += 1);
            prop_assert_eq!(most_and_least(&held), (rounds * replicas, rounds * replicas));
        }
    }

    #[test]
    fn the_partitions_of_a_lost_node_spread_over_the_others() {
        let placed = place(&places(&[None; 5]), TopicId([7; 16]), 0..20, 2);
        let second: BTreeSet<_> =
            placed.iter().filter(|nodes| nodes[0] == NodeId(0)).map(|nodes| nodes[1]).collect();
        assert_eq!(second.len(), 4);
    }
}
