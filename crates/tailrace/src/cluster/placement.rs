//! Chooses nodes for replicas that must move: a node without a replica of the partition, in another rack if
//! there is one, with the fewest replicas.

use std::collections::{BTreeMap, BTreeSet};

/// The nodes that can take replicas, and the number of replicas on each.
#[derive(Clone, Debug)]
pub(super) struct Placement {
    racks: BTreeMap<i32, Option<String>>,
    load: BTreeMap<i32, usize>,
}

impl Placement {
    /// Creates a placement. `nodes` lists nodes and racks; `there` yields the node of every replica.
    pub(super) fn new(
        nodes: impl IntoIterator<Item = (i32, Option<String>)>,
        there: impl IntoIterator<Item = i32>,
    ) -> Self {
        let mut load = BTreeMap::new();
        for node in there {
            *load.entry(node).or_insert(0) += 1;
        }
        Self { racks: nodes.into_iter().collect(), load }
    }

    /// The number of nodes that can take replicas.
    pub(super) fn len(&self) -> usize {
        self.racks.len()
    }

    /// Extends or cuts `replicas` to `count`. Replicas on nodes outside the placement are dropped; the others
    /// keep their order. `None` if there are too few nodes.
    pub(super) fn fit(&mut self, replicas: &[i32], count: usize) -> Option<Vec<i32>> {
        let mut chosen: Vec<i32> =
            replicas.iter().copied().filter(|node| self.racks.contains_key(node)).take(count).collect();
        while chosen.len() < count {
            let next = self.next(&chosen)?;
            *self.load.entry(next).or_insert(0) += 1;
            chosen.push(next);
        }
        Some(chosen)
    }

    fn next(&self, chosen: &[i32]) -> Option<i32> {
        let taken: BTreeSet<&String> =
            chosen.iter().filter_map(|node| self.racks.get(node)?.as_ref()).collect();
        let free = self.racks.iter().filter(|(node, _)| !chosen.contains(node));
        let rank = |(node, rack): &(&i32, &Option<String>)| {
            let same_rack = rack.as_ref().is_some_and(|rack| taken.contains(rack));
            (same_rack, self.load.get(*node).copied().unwrap_or(0), **node)
        };
        free.min_by_key(rank).map(|(node, _)| *node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(nodes: &[(i32, &str)], there: &[i32]) -> Placement {
        let rack = |rack: &str| Some(rack.to_owned()).filter(|rack| !rack.is_empty());
        Placement::new(nodes.iter().map(|(node, name)| (*node, rack(name))), there.iter().copied())
    }

    #[test]
    fn who_stays_keeps_its_place_and_who_comes_has_the_fewest() {
        let mut places = places(&[(1, ""), (2, ""), (4, ""), (5, "")], &[4, 4, 1]);
        assert_eq!(places.fit(&[3, 1, 2], 3), Some(vec![1, 2, 5]));
        assert_eq!(places.fit(&[3, 2, 5], 3), Some(vec![2, 5, 1]), "each place counts");
        assert_eq!(places.fit(&[2, 1, 4], 2), Some(vec![2, 1]));
        assert_eq!(places.fit(&[1], 5), None);
    }

    #[test]
    fn another_rack_goes_before_fewer_replicas() {
        let mut places = places(&[(1, "a"), (2, "a"), (3, "b")], &[3, 3, 3]);
        assert_eq!(places.fit(&[1], 2), Some(vec![1, 3]));
        assert_eq!(places.fit(&[1], 3), Some(vec![1, 3, 2]));
    }
}
