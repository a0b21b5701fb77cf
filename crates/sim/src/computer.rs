//! A computer with a disk that survives restarts, and a server on it, as it ships.

use std::collections::BTreeMap;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use tailrace_env::task;
use tailrace_node::{Node, NodeDisk};
use tailrace_server::{Server, StartError, Startup};

use crate::disk::{CrashMode, SimDisk};
use crate::world::{Machine, Network};

/// A computer, switched on from the start.
pub(crate) struct Computer {
    network: Network,
    number: u8,
    disk: SimDisk,
    cold_percent: u64,
    /// The count of the disks before this one.
    would_wait: u64,
    machine: &'static Machine,
    server: Arc<Mutex<Started>>,
}

/// `None` until the server has started or failed to start.
type Started = Option<Result<Server, StartError>>;

/// A start of a computer's server.
#[derive(Default)]
pub(crate) struct Running(Weak<Mutex<Started>>);

impl Running {
    /// Returns the node. `None` if it has not started yet, or has been stopped or killed since.
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        let server = self.0.upgrade()?;
        node(&server)
    }
}

fn node(server: &Mutex<Started>) -> Option<Arc<Node>> {
    match &*server.lock() {
        Some(Ok(server)) => Some(Arc::clone(server.node())),
        _ => None,
    }
}

impl Computer {
    /// A computer with the address 10.0.0.`number` and an empty disk. The faults of the disk follow from
    /// `seed`.
    pub(crate) fn new(network: &Network, number: u8, seed: u64) -> Self {
        let machine = network.switch_on(number);
        let (network, disk, server) = (network.clone(), SimDisk::new(seed), Arc::default());
        Self { network, number, disk, cold_percent: 0, would_wait: 0, machine, server }
    }

    /// Like [`SimDisk::set_cold`], but also for all later disks of this computer.
    pub(crate) fn set_cold(&mut self, percent: u64) {
        self.cold_percent = percent;
        self.disk.set_cold(percent);
    }

    /// Counts the non-blocking reads that would have had to wait.
    pub(crate) fn would_wait(&self) -> u64 {
        self.would_wait + self.disk.stats().would_wait
    }

    /// Returns the machine on which everything of this computer runs.
    pub(crate) fn machine(&self) -> &'static Machine {
        self.machine
    }

    /// Returns the disk, which is replaced when the power fails.
    pub(crate) fn disk(&self) -> &SimDisk {
        &self.disk
    }

    /// Cuts the power, loses what `mode` says of the unsynced data, and switches the computer on again. If
    /// nothing is lost, the processes are only killed, and their peers notice.
    pub(crate) fn crash(&mut self, mode: CrashMode) {
        self.machine.stop(mode == CrashMode::KeepAll);
        self.would_wait = self.would_wait();
        self.disk = self.disk.crash(mode);
        self.machine = self.network.switch_on(self.number);
        self.server = Arc::default();
    }

    /// Ends the process of a server that did not start, with everything it had started.
    pub(crate) fn exit(&mut self) {
        self.machine.stop(true);
        self.machine = self.network.switch_on(self.number);
        self.server = Arc::default();
    }

    /// Cuts the power, then switches the computer on with a new, empty disk, whose faults follow from `seed`.
    pub(crate) fn lose_disk(&mut self, seed: u64) {
        self.crash(CrashMode::LoseAll);
        self.disk = SimDisk::new(seed);
        self.disk.set_cold(self.cold_percent);
    }

    /// Starts an orderly stop of the server, if one runs, and does not wait for it.
    pub(crate) fn shut_down(&self) {
        let running = self.server.lock().take();
        if let Some(Ok(server)) = running {
            self.machine.enter(|| task::spawn(server.stop()));
        }
    }

    /// Starts a server in the world of its machine. Later, [`Computer::node`] returns its node, or
    /// [`Computer::failed`] the error.
    pub(crate) fn boot(&mut self, settings: BTreeMap<String, String>) {
        let (disk, starting) = (NodeDisk::private(self.disk.clone()), Arc::new(Mutex::new(None)));
        self.server = Arc::clone(&starting);
        self.machine.enter(|| {
            task::spawn(async move {
                let started = tailrace_server::start(Startup { settings, disk }).await;
                *starting.lock() = Some(started);
            })
        });
    }

    /// Returns the node that runs on this computer.
    pub(crate) fn node(&self) -> Option<Arc<Node>> {
        node(&self.server)
    }

    /// Returns the node that runs on this computer, for others to look at.
    pub(crate) fn running(&self) -> Running {
        Running(Arc::downgrade(&self.server))
    }

    /// Returns why the server did not start.
    pub(crate) fn failed(&self) -> Option<String> {
        match &*self.server.lock() {
            Some(Err(error)) => Some(error.to_string()),
            _ => None,
        }
    }

    /// Stops the server. Returns how many partitions were not closed cleanly.
    ///
    /// # Panics
    /// If no server runs, or if the server does not stop.
    pub(crate) fn stop(&self) -> usize {
        let running = self.server.lock().take();
        let running = running.and_then(Result::ok).expect("a server is running");
        let stopped = self.network.universe().run(self.machine, running.stop());
        stopped.expect("the server stops")
    }
}

impl Drop for Computer {
    fn drop(&mut self) {
        self.machine.stop(true);
    }
}
