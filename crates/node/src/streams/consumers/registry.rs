//! The consumers of all streams that a node leads.

use std::collections::HashMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use parking_lot::Mutex;
use tailrace_types::{LeaderEpoch, RaftGroup};

use super::super::deliverer::Deliverer;
use super::beside::Beside;
use super::pulls::Pulls;
use super::push::Pushes;
use super::writer::Writer;
use crate::partitions::PartitionHandle;

/// The consumers of all streams that a node leads.
#[derive(Default)]
pub(in super::super) struct Registry {
    inside: Mutex<Inside>,
    /// Pulls of all streams.
    pulls: Arc<AtomicUsize>,
    /// Who sends what push consumers deliver.
    deliverer: Option<Arc<dyn Deliverer>>,
    saves: AtomicU64,
}

#[derive(Default)]
struct Inside {
    all: HashMap<RaftGroup, Arc<Beside>>,
    /// Streams that have no consumers, as this node knows since it leads them.
    rested: HashMap<RaftGroup, Rested>,
    /// How many of these there may be before they are looked through.
    rested_max: usize,
}

/// A stream that has no consumers.
struct Rested {
    handle: Arc<PartitionHandle>,
    epoch: LeaderEpoch,
    writer: Writer,
}

impl Rested {
    fn is_led(&self) -> bool {
        self.handle.leads() == Some(self.epoch) && !self.handle.is_over()
    }
}

/// What is known of a stream's consumers.
pub(super) enum Found {
    /// They are there, or are being loaded.
    There(Arc<Beside>),
    /// There are none.
    None,
    /// Nothing is known.
    Unknown,
}

impl Registry {
    pub(in super::super) fn new(deliverer: Option<Arc<dyn Deliverer>>) -> Self {
        Self { deliverer, ..Self::default() }
    }

    /// Those that there are.
    pub(super) fn all(&self) -> Vec<Arc<Beside>> {
        self.inside.lock().all.values().cloned().collect()
    }

    pub(super) fn count_save(&self) {
        self.saves.fetch_add(1, Ordering::Relaxed);
    }

    /// How many writes of consumers were durable.
    pub(in super::super) fn saves(&self) -> u64 {
        self.saves.load(Ordering::Relaxed)
    }

    /// The consumers of a stream.
    pub(super) fn find(&self, handle: &PartitionHandle) -> Found {
        let inside = self.inside.lock();
        if let Some(beside) = inside.all.get(&handle.group).filter(|beside| beside.is_led()) {
            return Found::There(Arc::clone(beside));
        }
        match inside.rested.get(&handle.group).is_some_and(Rested::is_led) {
            true => Found::None,
            false => Found::Unknown,
        }
    }

    /// The consumers of a stream that is led in this epoch. If there are none yet, `begin` is told.
    pub(super) fn get_or_add(
        &self,
        topic: [u8; 16],
        handle: &Arc<PartitionHandle>,
        epoch: LeaderEpoch,
        begin: impl FnOnce(&Arc<Beside>),
    ) -> Arc<Beside> {
        let mut inside = self.inside.lock();
        if let Some(beside) = inside.all.get(&handle.group).filter(|beside| beside.is_led()) {
            return Arc::clone(beside);
        }
        let (pulls, pushes) = (Pulls::new(&self.pulls), Pushes::new(self.deliverer.clone()));
        let beside = Arc::new(Beside::new(topic, handle, epoch, pulls, pushes));
        if let Some(rested) = inside.rested.remove(&handle.group).filter(Rested::is_led) {
            beside.loaded(rested.writer);
        }
        inside.all.insert(handle.group, Arc::clone(&beside));
        drop(inside);
        begin(&beside);
        beside
    }

    /// Forgets consumers that have ended. `writer`: there are none left, and nothing is left to be saved.
    pub(super) fn remove(&self, beside: &Arc<Beside>, writer: Option<Writer>) {
        let mut inside = self.inside.lock();
        let group = beside.handle.group;
        if inside.all.get(&group).is_none_or(|present| !Arc::ptr_eq(present, beside)) {
            return;
        }
        inside.all.remove(&group);
        let Some(writer) = writer else { return };
        if inside.rested.len() >= inside.rested_max {
            inside.rested.retain(|_, rested| rested.is_led());
            inside.rested_max = 2 * inside.rested.len() + 64;
        }
        inside
            .rested
            .insert(group, Rested { handle: Arc::clone(&beside.handle), epoch: beside.epoch, writer });
    }
}
