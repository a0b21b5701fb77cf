//! Transaction markers for partitions that another node leads. One question covers all of them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailrace_replication::TransactionMarker;
use tailrace_types::{ProducerEpoch, ProducerId, TopicPartition};

use super::named::NamedPartition;

/// Append the marker to partitions that the node leads, and wait until they are committed.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct AppendMarkers {
    pub(super) producer: i64,
    pub(super) epoch: i16,
    coordinator_epoch: i32,
    committed: bool,
    epochs_are_bumped: bool,
    pub(super) partitions: Vec<NamedPartition>,
}

/// Partitions where the marker is written, or no longer needed because the partition has seen a later
/// generation of the producer. The coordinator must ask again for all others.
///
/// A node that does not know the topic leaves it out, because its metadata may be old. The asker knows from
/// its own metadata whether the topic was deleted. A later generation of the coordinator is no reason to skip
/// a partition either: that generation writes all of its markers itself, or yet another one does.
#[derive(Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Over(pub(super) BTreeSet<NamedPartition>);

impl Over {
    /// Returns those of `partitions` that remain.
    pub(crate) fn left_of(&self, partitions: BTreeSet<TopicPartition>) -> BTreeSet<TopicPartition> {
        partitions.into_iter().filter(|partition| !self.0.contains(&partition.into())).collect()
    }
}

impl AppendMarkers {
    pub(crate) fn new(marker: TransactionMarker, partitions: &BTreeSet<TopicPartition>) -> Self {
        Self {
            producer: marker.producer_id.get(),
            epoch: marker.producer_epoch.get(),
            coordinator_epoch: marker.coordinator_epoch,
            committed: marker.committed,
            epochs_are_bumped: marker.epochs_are_bumped,
            partitions: partitions.iter().map(NamedPartition::from).collect(),
        }
    }

    pub(super) fn marker(&self) -> TransactionMarker {
        TransactionMarker {
            producer_id: ProducerId(self.producer),
            producer_epoch: ProducerEpoch(self.epoch),
            coordinator_epoch: self.coordinator_epoch,
            committed: self.committed,
            epochs_are_bumped: self.epochs_are_bumped,
        }
    }
}

#[cfg(test)]
mod tests {
    use tailrace_types::{PartitionId, TopicName};

    use super::*;

    #[test]
    fn what_is_not_over_is_left() {
        let name = TopicName::new("orders").unwrap();
        let partition = |number| TopicPartition::new(name.clone(), PartitionId(number));
        let over = Over([0, 3].map(|number| NamedPartition("orders".to_owned(), number)).into());
        let asked = (0..5).map(partition).collect();
        assert_eq!(over.left_of(asked), [1, 2, 4].map(partition).into());
    }
}
