//! The consumers of all streams that a node leads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

use parking_lot::Mutex;
use tailrace_types::{LeaderEpoch, RaftGroup};

use super::super::deliverer::Deliverer;
use super::beside::Beside;
use super::pulls::Pulls;
use super::push::Pushes;
use crate::partitions::PartitionHandle;

/// The consumers of all streams that a node leads.
#[derive(Default)]
pub(in super::super) struct Registry {
    all: Mutex<HashMap<RaftGroup, Arc<Beside>>>,
    /// Pulls of all streams.
    pulls: Arc<AtomicUsize>,
    /// Who sends what push consumers deliver.
    deliverer: Option<Arc<dyn Deliverer>>,
}

impl Registry {
    pub(in super::super) fn new(deliverer: Option<Arc<dyn Deliverer>>) -> Self {
        Self { deliverer, ..Self::default() }
    }

    /// The consumers of a stream, if there are any.
    pub(super) fn get(&self, handle: &PartitionHandle) -> Option<Arc<Beside>> {
        let all = self.all.lock();
        all.get(&handle.group).filter(|beside| beside.is_led()).cloned()
    }

    /// The consumers of a stream that is led in this epoch. If there are none yet, `begin` is told.
    pub(super) fn get_or_add(
        &self,
        topic: [u8; 16],
        handle: &Arc<PartitionHandle>,
        epoch: LeaderEpoch,
        begin: impl FnOnce(&Arc<Beside>),
    ) -> Arc<Beside> {
        let mut all = self.all.lock();
        if let Some(beside) = all.get(&handle.group).filter(|beside| beside.is_led()) {
            return Arc::clone(beside);
        }
        let (pulls, pushes) = (Pulls::new(&self.pulls), Pushes::new(self.deliverer.clone()));
        let beside = Arc::new(Beside::new(topic, handle, epoch, pulls, pushes));
        all.insert(handle.group, Arc::clone(&beside));
        drop(all);
        begin(&beside);
        beside
    }

    /// How many consumers a stream has.
    pub(in super::super) fn count(&self, group: &RaftGroup) -> usize {
        let beside = self.all.lock().get(group).cloned();
        beside.map_or(0, |beside| beside.count())
    }

    /// Forgets consumers that have ended.
    pub(super) fn remove(&self, beside: &Arc<Beside>) {
        let mut all = self.all.lock();
        if all.get(&beside.handle.group).is_some_and(|present| Arc::ptr_eq(present, beside)) {
            all.remove(&beside.handle.group);
        }
    }
}
