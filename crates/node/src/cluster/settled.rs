//! Partitions whose members already match the metadata.

use parking_lot::Mutex;
use tailrace_metadata::PartitionImage;
use tailrace_types::LeaderEpoch;

/// Result of the last check of a partition's members.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<Option<(LeaderEpoch, PartitionImage)>>);

impl Settled {
    pub(crate) fn is(&self, epoch: LeaderEpoch, wanted: &PartitionImage) -> bool {
        let settled = self.0.lock();
        settled.as_ref().is_some_and(|(at, partition)| *at == epoch && partition == wanted)
    }

    pub(crate) fn note(&self, epoch: LeaderEpoch, wanted: &PartitionImage) {
        let mut settled = self.0.lock();
        *settled = Some((epoch, wanted.clone()));
    }
}
