//! Kafka's replication throttles: how fast new replicas of some partitions catch up (KIP-73).
//!
//! `leader.replication.throttled.rate` bounds what a node sends, `follower.replication.throttled.rate` what
//! it receives. Each applies to all throttled replicas together. Only replicas that do not vote yet are
//! throttled, because a majority may wait for a voter. What comes too early is delayed before it is sent or
//! before it is accepted. The replication layer sends such a replica one message at a time.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use tailrace_env::time;
use tailrace_env::time::{Duration, Instant};

use prometheus_client::metrics::counter::Counter;
use tailrace_config::TopicConfig;
use tailrace_identity::Idle;
use tailrace_types::{NodeId, PartitionId, Tally};

use crate::deadlines::HELD_UP_MAX;
use crate::rate::RateLimiter;

/// Maximum of bytes delayed at the same time, not counting one message.
const HELD_BYTES_MAX: usize = 64 << 20;

/// Delay for callers that must proceed although the throttle is exhausted.
const CROWDED_RETRY_INTERVAL: Duration = Duration::from_millis(500);

/// The budget of all throttled replicas together, in one direction.
#[derive(Debug)]
pub(crate) struct Throttle {
    /// Bytes per second.
    rate: AtomicU64,
    limiter: RateLimiter,
    held: Tally,
    /// Bytes that were let through.
    pub(super) passed_bytes: Counter,
}

impl Default for Throttle {
    fn default() -> Self {
        Self {
            rate: AtomicU64::new(u64::MAX),
            limiter: RateLimiter::new(Idle::PaysForNext),
            held: Tally::of("bytes that are held up"),
            passed_bytes: Counter::default(),
        }
    }
}

impl Throttle {
    /// Sets the rate, in bytes per second.
    pub(super) fn set_rate(&self, rate: u64) {
        self.rate.store(rate.max(1), Ordering::Relaxed);
    }

    /// Spends this many bytes, and returns how long to wait until they may pass. `None`, with nothing spent,
    /// if that is longer than [`HELD_UP_MAX`].
    ///
    /// Unused time pays for the next message, and for no more than that.
    fn spend(&self, bytes: usize, now: Instant) -> Option<Duration> {
        let rate = self.rate.load(Ordering::Relaxed) as f64;
        self.limiter.spend_within(bytes as u64, rate, HELD_UP_MAX, now)
    }

    /// Admits this many bytes, with the time until they are due. `None` if too much waits already.
    pub(super) fn admit(self: &Arc<Self>, bytes: usize) -> Option<Pass> {
        if self.held.size() > HELD_BYTES_MAX {
            return None;
        }
        let wait = self.spend(bytes, Instant::now())?;
        self.passed_bytes.inc_by(bytes as u64);
        self.held.add(bytes as u64);
        Some(Pass { throttle: Arc::clone(self), bytes, wait })
    }

    /// Waits until this many bytes may pass, however long that takes.
    pub(crate) async fn pay(self: &Arc<Self>, bytes: usize) {
        loop {
            match self.admit(bytes) {
                Some(pass) => return pass.wait().await,
                None => time::sleep(CROWDED_RETRY_INTERVAL).await,
            }
        }
    }
}

/// Permission to pass after a delay. Counts as delayed until it is dropped.
pub(super) struct Pass {
    throttle: Arc<Throttle>,
    bytes: usize,
    wait: Duration,
}

impl Pass {
    /// Reports whether it may pass at once.
    pub(super) fn is_due(&self) -> bool {
        self.wait.is_zero()
    }

    pub(super) async fn wait(self) {
        time::sleep(self.wait).await;
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.throttle.held.take_off(self.bytes as u64);
    }
}

/// Nodes whose replicas of a partition are throttled.
#[derive(Debug, PartialEq, Eq)]
enum Nodes {
    All,
    Some(Vec<NodeId>),
}

impl Nodes {
    /// Parses pairs `PARTITION:NODE`, or `*` alone.
    fn of(listed: &[String], partition: PartitionId) -> Self {
        if listed.iter().any(|replica| replica == "*") {
            return Self::All;
        }
        let own = |replica: &String| {
            let (number, node) = replica.split_once(':')?;
            (number.parse() == Ok(partition.0)).then(|| node.parse().ok().map(NodeId))?
        };
        Self::Some(listed.iter().filter_map(own).collect())
    }

    fn has(&self, node: NodeId) -> bool {
        match self {
            Self::All => true,
            Self::Some(nodes) => nodes.contains(&node),
        }
    }
}

/// The throttled replicas of a partition, by the settings of its topic.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Throttled {
    sending: Nodes,
    taking: Nodes,
}

impl Throttled {
    /// `None` if there are none.
    pub(crate) fn of(topic: &TopicConfig, partition: PartitionId) -> Option<Arc<Self>> {
        let sending = Nodes::of(&topic.leader_replication_throttled_replicas, partition);
        let taking = Nodes::of(&topic.follower_replication_throttled_replicas, partition);
        let none = Nodes::Some(Vec::new());
        (sending != none || taking != none).then(|| Arc::new(Self { sending, taking }))
    }

    /// Reports whether the replica on this node sends to others at no more than its node's rate.
    pub(crate) fn sends(&self, node: NodeId) -> bool {
        self.sending.has(node)
    }

    /// Reports whether the replica on this node receives at no more than its node's rate.
    pub(crate) fn takes(&self, node: NodeId) -> bool {
        self.taking.has(node)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(rate: u64) -> Throttle {
        let throttle = Throttle::default();
        throttle.set_rate(rate);
        throttle
    }

    #[test]
    fn bytes_wait_for_each_other_and_never_too_long() {
        tailrace_runtime::install();
        let (throttle, now, second) = (at(1000), Instant::now(), Duration::from_secs(1));
        assert_eq!(throttle.spend(1000, now), Some(Duration::ZERO), "the first one");
        assert_eq!(throttle.spend(1000, now), Some(second));
        assert_eq!(throttle.spend(500, now), Some(second * 3 / 2));
        assert_eq!(throttle.spend(4000, now), None, "longer than the longest wait");
        assert_eq!(throttle.spend(3500, now), Some(5 * second), "a refusal spends nothing");
        // Unused time pays for one message, not for all that was not sent meanwhile.
        let later = now + 60 * second;
        assert_eq!(throttle.spend(3000, later), Some(Duration::ZERO));
        assert_eq!(throttle.spend(1000, later), Some(second));
        // A message that costs more than the longest wait passes when it is alone.
        let (slow, free) = (at(0), at(u64::MAX));
        assert_eq!((slow.spend(100, now), slow.spend(100, now)), (Some(Duration::ZERO), Some(HELD_UP_MAX)));
        assert_eq!(slow.spend(100, now), None);
        assert_eq!(
            (free.spend(1 << 30, now), free.spend(1 << 30, now)),
            (Some(Duration::ZERO), Some(Duration::ZERO))
        );
    }

    #[test]
    fn what_takes_its_time_to_come_is_not_made_to_wait_once_more() {
        tailrace_runtime::install();
        // The sender keeps to the rate, and the receiver has the same one.
        let (throttle, start) = (at(1000), Instant::now());
        for second in 0..10 {
            assert_eq!(throttle.spend(1000, start + Duration::from_secs(second)), Some(Duration::ZERO));
        }
    }

    #[test]
    fn no_more_is_held_up_than_there_is_room_for() {
        tailrace_runtime::install();
        let throttle = Arc::new(at(100 << 20));
        let passes: Vec<_> = (0..200).map_while(|_| throttle.admit(1 << 20)).collect();
        assert_eq!(passes.len(), 65);
        drop(passes);
        assert!(throttle.admit(1 << 20).is_some());
    }

    #[test]
    fn lists_name_replicas_of_a_partition_or_all() {
        let list = |text: &str| text.split(',').map(str::to_owned).collect::<Vec<_>>();
        let nodes = |text, partition| Nodes::of(&list(text), PartitionId(partition));
        assert!(nodes("*", 7).has(NodeId(3)));
        let some = nodes("0:1,7:2,7:30", 7);
        assert_eq!([1, 2, 3, 30].map(|node| some.has(NodeId(node))), [false, true, false, true]);
        assert_eq!(Nodes::of(&[], PartitionId(0)), Nodes::Some(Vec::new()));
    }
}
