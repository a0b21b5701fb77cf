//! A computer with a disk that outlasts its starts, and a server on it, as it ships.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use tailrace_env::task;
use tailrace_node::{Node, NodeDisk};
use tailrace_server::{Server, StartError, Startup};

use crate::disk::{CrashMode, SimDisk};
use crate::world::{Machine, Network};

/// One computer. It is on from the beginning.
pub(crate) struct Computer {
    network: Network,
    number: u8,
    disk: SimDisk,
    cold_percent: u64,
    /// Of disks before this one.
    would_wait: u64,
    machine: &'static Machine,
    server: Arc<Mutex<Started>>,
}

/// `None`: not yet.
type Started = Option<Result<Server, StartError>>;

impl Computer {
    /// A computer with the address 10.0.0.`number` and an empty disk, whose faults follow from `seed`.
    pub(crate) fn new(network: &Network, number: u8, seed: u64) -> Self {
        let machine = network.switch_on(number);
        let (network, disk, server) = (network.clone(), SimDisk::new(seed), Arc::default());
        Self { network, number, disk, cold_percent: 0, would_wait: 0, machine, server }
    }

    /// As [`SimDisk::set_cold`], for all disks that it will have.
    pub(crate) fn set_cold(&mut self, percent: u64) {
        self.cold_percent = percent;
        self.disk.set_cold(percent);
    }

    /// Reads that were not to wait, and would have had to.
    pub(crate) fn would_wait(&self) -> u64 {
        self.would_wait + self.disk.stats().would_wait
    }

    /// What runs on it, runs here.
    pub(crate) fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Its disk, until it loses its power.
    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// It loses its power, and of what was not synced what `mode` says; then it is on again. Where nothing is lost its processes are
    /// killed: those they spoke with hear of it.
    pub(crate) fn crash(&mut self, mode: CrashMode) {
        self.machine.stop(mode == CrashMode::KeepAll);
        self.would_wait = self.would_wait();
        self.disk = self.disk.crash(mode);
        self.machine = self.network.switch_on(self.number);
        self.server = Arc::default();
    }

    /// The process of a server that did not start ends, and what it had begun with it.
    pub(crate) fn exit(&mut self) {
        self.machine.stop(true);
        self.machine = self.network.switch_on(self.number);
        self.server = Arc::default();
    }

    /// It loses its power and its disk, and is on again with an empty one, whose faults follow from `seed`.
    pub(crate) fn lose_disk(&mut self, seed: u64) {
        self.crash(CrashMode::LoseAll);
        self.disk = SimDisk::new(seed);
        self.disk.set_cold(self.cold_percent);
    }

    /// Stops the server in order, if one runs, and does not wait for it.
    pub(crate) fn shut_down(&self) {
        let running = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        if let Some(Ok(server)) = running {
            self.machine.enter(|| task::spawn(server.stop()));
        }
    }

    /// Starts a server in the world of its machine. Its node is there some time later, see [`Computer::node`]; or that failed.
    pub(crate) fn boot(&mut self, settings: BTreeMap<String, String>) {
        let (disk, starting) = (NodeDisk::private(self.disk.clone()), Arc::new(Mutex::new(None)));
        self.server = Arc::clone(&starting);
        self.machine.enter(|| {
            task::spawn(async move {
                let started = tailrace_server::start(Startup { settings, disk }).await;
                *starting.lock().unwrap_or_else(PoisonError::into_inner) = Some(started);
            })
        });
    }

    /// The node that runs on it.
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        match &*self.server.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Ok(server)) => Some(Arc::clone(server.node())),
            _ => None,
        }
    }

    /// Why the server did not start.
    pub(crate) fn failed(&self) -> Option<String> {
        match &*self.server.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(Err(error)) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Stops the server. Returns how many partitions were not closed cleanly.
    ///
    /// # Panics
    /// If none runs, or if it does not come to an end.
    pub(crate) fn stop(&self) -> usize {
        let running = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let running = running.and_then(Result::ok).expect("a server runs");
        let stopped = self.network.universe().run(self.machine, running.stop());
        stopped.expect("it ends")
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        self.machine.stop(true);
    }
}
