//! Members of a partition that were found to be as the metadata want them.

use std::sync::{Mutex, PoisonError};

use tailrace_metadata::PartitionImage;
use tailrace_types::LeaderEpoch;

/// What a partition remembers of the last look at its members.
#[derive(Debug, Default)]
pub(crate) struct Settled(Mutex<Option<(LeaderEpoch, PartitionImage)>>);

impl Settled {
    pub(crate) fn is(&self, epoch: LeaderEpoch, wanted: &PartitionImage) -> bool {
        let settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        settled.as_ref().is_some_and(|(at, partition)| *at == epoch && partition == wanted)
    }

    pub(crate) fn note(&self, epoch: LeaderEpoch, wanted: &PartitionImage) {
        let mut settled = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *settled = Some((epoch, wanted.clone()));
    }
}
