//! Asks leaders for barriers, including deposed leaders that do not know yet. When a barrier passes, its
//! leader must know everything that any client was told to be committed before the barrier began.

use tailrace_replication::raft::{Replica, Role};
use tailrace_types::{HighWatermark, TimestampMs};

use super::barriers::Pending;
use super::options::Bug;
use super::world::World;
use crate::SimDisk;

/// Milliseconds between two barriers, on average.
const EVERY_MS: u64 = 100;

impl World {
    /// Advances barriers by one millisecond.
    pub(super) fn run_barriers(&mut self) -> Result<(), String> {
        if !self.barriers.is_asked {
            return Ok(());
        }
        let now = self.now();
        let Some(pending) = self.barriers.pending.take() else { return self.ask_for_barrier(now) };
        let node = self.nodes.get(&pending.node);
        let Some(replica) = node.and_then(|node| node.replica.as_ref()) else { return Ok(()) };
        let passed = if self.bug == Some(Bug::BarrierWithoutMajority) {
            Some(true)
        } else {
            replica.has_passed(&pending.barrier)
        };
        match passed {
            None => self.count("barrier fell"),
            Some(false) => self.barriers.pending = Some(pending),
            Some(true) => {
                let committed = replica.reader().high_watermark();
                if committed < HighWatermark(pending.known.get()) {
                    return Err(format!(
                        "stale-barrier: node {} knows {committed}, and {} was acknowledged before it began",
                        pending.node, pending.known
                    ));
                }
                self.count("barrier passed");
            }
        }
        Ok(())
    }

    fn ask_for_barrier(&mut self, now: TimestampMs) -> Result<(), String> {
        if self.barriers.rng.below(EVERY_MS) != 0 {
            return Ok(());
        }
        let leads = |replica: &Replica<SimDisk>| replica.role() == Role::Leader;
        let awake = self.nodes.iter().filter(|(_, node)| node.paused_until_ms <= self.now_ms);
        let leaders = awake.filter(|(_, node)| node.replica.as_ref().is_some_and(leads));
        let leaders: Vec<u64> = leaders.map(|(id, _)| *id).collect();
        if leaders.is_empty() {
            return Ok(());
        }
        let node = leaders[self.barriers.rng.below(leaders.len() as u64) as usize];
        let known = self.history.acknowledged_end();
        let replica = self.nodes.get_mut(&node).and_then(|node| node.replica.as_mut());
        let Some(replica) = replica else { return Ok(()) };
        let end = replica.reader().log_end();
        if let Ok(barrier) = replica.begin_barrier(now) {
            self.barriers.pending = Some(Pending { node, barrier, known });
        }
        let now_ends = replica.reader().log_end();
        if now_ends == end {
            Ok(())
        } else {
            Err(format!("a barrier moved the log's end from {end} to {now_ends}"))
        }
    }
}
