//! A computer with a disk that outlasts its starts, and a node on it, as it ships.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_node::{DataFolder, Fronts, NodeDisk, RunningNode, StartError, Startup};

use crate::disk::{CrashMode, SimDisk};
use crate::world::{Machine, Universe};

/// One computer. It is on from the beginning.
pub struct Computer {
    universe: Universe,
    disk: SimDisk,
    machine: &'static Machine,
}

impl Computer {
    /// A computer with an empty disk, whose faults follow from `seed`.
    pub fn new(universe: &Universe, seed: u64) -> Self {
        let (universe, disk) = (universe.clone(), SimDisk::new(seed));
        Self { machine: universe.switch_on(), universe, disk }
    }

    /// What runs on it, runs here.
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Its disk, until it loses its power.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// It loses its power, and of what was not synced what `mode` says; then it is on again.
    pub fn crash(&mut self, mode: CrashMode) {
        self.machine.lose_power();
        self.disk = self.disk.crash(mode);
        self.machine = self.universe.switch_on();
    }

    /// Starts a node with these settings, which is to be done in the world of its machine.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn start(
        disk: SimDisk,
        settings: BTreeMap<String, String>,
        fronts: Fronts,
    ) -> Result<RunningNode, StartError> {
        let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default())?;
        let folder = DataFolder::open_unshared(&config, NodeDisk::new(disk))?;
        let metrics = Arc::new(Metrics::default());
        tailrace_node::start(Startup { settings, folder, metrics, addresses: None, fronts }).await
    }
}
