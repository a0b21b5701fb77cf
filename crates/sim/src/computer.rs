//! A computer with a disk that outlasts its starts, and a node on it, as it ships.

use std::collections::BTreeMap;
use std::sync::Arc;

use tailrace_config::{BrokerConfig, DynamicConfigs};
use tailrace_env::metrics::Metrics;
use tailrace_node::cluster::Addresses;
use tailrace_node::{DataFolder, Fronts, NodeDisk, RunningNode, StartError, Startup};

use crate::disk::{CrashMode, SimDisk};
use crate::world::{Machine, Network};

/// One computer. It is on from the beginning.
pub struct Computer {
    network: Network,
    number: u8,
    disk: SimDisk,
    machine: &'static Machine,
}

impl Computer {
    /// A computer with the address 10.0.0.`number` and an empty disk, whose faults follow from `seed`.
    pub fn new(network: &Network, number: u8, seed: u64) -> Self {
        let machine = network.switch_on(number);
        Self { network: network.clone(), number, disk: SimDisk::new(seed), machine }
    }

    /// What runs on it, runs here.
    pub fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Its disk, until it loses its power.
    pub fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// It loses its power, and of what was not synced what `mode` says; then it is on again. Where nothing is lost its processes are
    /// killed: those they spoke with hear of it.
    pub fn crash(&mut self, mode: CrashMode) {
        self.machine.stop(mode == CrashMode::KeepAll);
        self.disk = self.disk.crash(mode);
        self.machine = self.network.switch_on(self.number);
    }

    /// Starts a node with these settings, which is to be done in the world of its machine.
    ///
    /// # Errors
    /// Those of the node.
    pub async fn start(
        disk: SimDisk,
        settings: BTreeMap<String, String>,
        addresses: Option<Addresses>,
    ) -> Result<RunningNode, StartError> {
        let config = BrokerConfig::resolve(&settings, &DynamicConfigs::default())?;
        let folder = DataFolder::open_unshared(&config, NodeDisk::new(disk))?;
        let metrics = Arc::new(Metrics::default());
        tailrace_node::start(Startup { settings, folder, metrics, addresses, fronts: Fronts::default() })
            .await
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        self.machine.stop(true);
    }
}
