//! The ticker: passes time to the replicas of this node that are awake, and wakes those that rely on a node
//! that is gone.
//!
//! It sends heartbeats for the sleeping ones for as long as the stepper makes progress: a node whose disk
//! hangs must not renew its lease.

use std::sync::Arc;
use tailrace_env::time;
use tailrace_env::time::Duration;

use tailrace_env::time::MissedTicks;

use crate::node::Node;
use crate::partitions::TopicTable;
use crate::partitions::handle::PartitionHandle;

/// Ticks between two checks of all replicas. A replica that wakes reports it at once. The checks find what
/// was not reported.
const LOOK_INTERVAL_TICKS: u64 = 20;

/// Maximum number of elections per tick that the crash of a node starts. Later ones are spread over as many
/// ticks as it takes.
const WOKEN_PER_TICK: usize = 100;

/// Backlog of the stepper below which replicas that should lead from the start still ask for votes.
const BACKLOG_MAX: usize = 256;

/// Ticks after another node was first heard from. By then, existing leaders have announced themselves.
const EAGER_AFTER_TICKS: u32 = 8;

/// Passes time for as long as the server runs.
pub(crate) async fn tick(node: Arc<Node>) {
    let period = Duration::from_millis(node.config().tailrace_raft_tick_ms);
    let mut interval = time::interval(period);
    interval.set_missed(MissedTicks::Delay);
    let mut ticker = Ticker::new(node);
    loop {
        interval.tick().await;
        ticker.tick();
    }
}

struct Ticker {
    node: Arc<Node>,
    awake: Vec<Arc<PartitionHandle>>,
    /// The topics at the last check of all replicas.
    table: Arc<TopicTable>,
    ticks: u64,
    /// The progress of each of the stepper's threads, and for how many ticks it has not changed.
    progress: Vec<(u64, u32)>,
    election_ticks: u32,
    heartbeat_ticks: u64,
    connected_ticks: u32,
}

impl Ticker {
    fn new(node: Arc<Node>) -> Self {
        let config = node.config();
        Self {
            table: Arc::default(),
            awake: Vec::new(),
            ticks: 0,
            progress: Vec::new(),
            election_ticks: config.tailrace_raft_election_ticks,
            heartbeat_ticks: u64::from(config.tailrace_raft_heartbeat_ticks),
            connected_ticks: 0,
            node,
        }
    }

    fn tick(&mut self) {
        self.ticks += 1;
        let leases = self.node.links.leases();
        self.connected_ticks += u32::from(leases.hears_others());
        let must_look = leases.tick();
        self.renew_lease();
        let table = Arc::clone(&self.node.topics());
        if !Arc::ptr_eq(&table, &self.table) || must_look || self.ticks.is_multiple_of(LOOK_INTERVAL_TICKS) {
            self.table = table;
            self.look();
        }
        for group in self.node.links.leases().take_woken() {
            if let Some(handle) = self.node.partition_of(group) {
                list(&mut self.awake, &handle);
            }
        }
        self.tick_awake();
    }

    /// Renews the lease, unless a thread of the stepper has been busy with the same replica for an election
    /// timeout.
    fn renew_lease(&mut self) {
        let leases = self.node.links.leases();
        let progress = self.node.stepper.progress();
        self.progress.resize(progress.len(), (0, 0));
        for (before, now) in self.progress.iter_mut().zip(progress) {
            let is_stuck = now == before.0 && now % 2 == 1;
            *before = (now, if is_stuck { before.1 + 1 } else { 0 });
        }
        let hangs = self.progress.iter().any(|(_, ticks)| *ticks >= self.election_ticks);
        match (hangs, leases.own()) {
            (true, Some(_)) => {
                tracing::warn!("the disk is slow: partitions do not hibernate for now");
                leases.suspend();
                self.wake(|handle| handle.sleep.leads());
            }
            (true, None) => {}
            (false, None) => leases.renew(),
            (false, Some(lease)) => {
                if self.ticks.is_multiple_of(self.heartbeat_ticks)
                    && let Some(peers) = self.node.links.peers()
                {
                    peers.beat(lease);
                }
            }
        }
    }

    /// Checks all replicas: for those that are awake but not listed, and for those that must not sleep any
    /// longer.
    fn look(&mut self) {
        let topics = Arc::clone(&self.table);
        let metadata = self.node.controller.handle();
        for handle in topics.online().chain(std::iter::once(&metadata)) {
            if handle.is_replica() && !handle.sleep.hibernates() && !handle.sleep.is_gone() {
                list(&mut self.awake, handle);
            }
        }
        let links = Arc::clone(&self.node.links);
        self.wake(|handle| handle.sleep.relies(|nodes| !links.leases().hold(nodes)));
    }

    /// Wakes sleeping replicas. Spreads their elections if there are many.
    fn wake(&mut self, which: impl Fn(&PartitionHandle) -> bool) {
        let topics = Arc::clone(&self.table);
        let metadata = self.node.controller.handle();
        let all = topics.online().chain(std::iter::once(&metadata));
        let woken: Vec<_> =
            all.filter(|handle| handle.sleep.hibernates() && which(handle)).cloned().collect();
        for handle in &woken {
            handle.inbox.wake(woken.len() / WOKEN_PER_TICK);
            list(&mut self.awake, handle);
            self.node.stepper.schedule(handle);
        }
    }

    fn tick_awake(&mut self) {
        let stepper = &self.node.stepper;
        let may_be_eager = self.connected_ticks >= EAGER_AFTER_TICKS && stepper.queued() < BACKLOG_MAX;
        let mut eager_left = if may_be_eager { BACKLOG_MAX } else { 0 };
        self.awake.retain(|handle| {
            let sleep = &handle.sleep;
            if sleep.is_gone() {
                return false;
            }
            if sleep.hibernates() && !handle.inbox.is_woken() {
                sleep.unlist();
                // Code that woke it before that saw it as listed.
                return !sleep.hibernates() && sleep.list();
            }
            let is_eager = eager_left > 0 && handle.inbox.is_eager();
            eager_left -= usize::from(is_eager);
            if handle.inbox.tick() || is_eager || handle.inbox.is_woken() {
                if is_eager {
                    handle.inbox.ask();
                }
                stepper.schedule(handle);
            }
            true
        });
    }
}

fn list(awake: &mut Vec<Arc<PartitionHandle>>, handle: &Arc<PartitionHandle>) {
    if handle.sleep.list() {
        awake.push(Arc::clone(handle));
    }
}
