//! Trouble in one direction of a connection, as a function of seed and time. No I/O.

use std::ops::Range;
use std::time::Duration;

use crate::schedule::Random;

/// Trouble in one direction. The default is none.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Trouble {
    /// Delay of every chunk of bytes.
    pub latency: Duration,
    /// Most additional delay, uniformly distributed. Order is kept, as TCP keeps it.
    pub jitter: Duration,
    /// Bytes per second; 0 for no limit.
    pub bandwidth: u64,
    /// Times, since the proxy started, during which this direction is blocked. Bytes held back pass
    /// afterwards.
    pub stalls: Vec<Range<Duration>>,
}

/// Random stalls: exponential gaps with the mean `gap`, each of the same `length`, until `horizon`.
pub(crate) fn random_stalls(
    seed: u64,
    gap: Duration,
    length: Duration,
    horizon: Duration,
) -> Vec<Range<Duration>> {
    let mut at = Duration::ZERO;
    let mut stalls = Vec::new();
    for wait in random_gaps(seed, gap) {
        at += wait;
        if at >= horizon || stalls.len() >= WINDOWS_MAX {
            break;
        }
        stalls.push(at..at + length);
        at += length;
    }
    stalls
}

/// Random points of time with the mean distance `gap`, until `horizon`.
pub(crate) fn random_times(seed: u64, gap: Duration, horizon: Duration) -> Vec<Duration> {
    let mut at = Duration::ZERO;
    random_gaps(seed, gap)
        .map(|wait| {
            at += wait;
            at
        })
        .take_while(|at| *at < horizon)
        .take(WINDOWS_MAX)
        .collect()
}

/// Most events to plan.
const WINDOWS_MAX: usize = 100_000;

fn random_gaps(seed: u64, gap: Duration) -> impl Iterator<Item = Duration> {
    let mut random = Random::new(seed, 0x5741_4954);
    let gap_ns = gap.as_nanos().max(1);
    std::iter::repeat_with(move || {
        let nanoseconds = (u128::from(random.exponential()) * gap_ns) >> 32;
        Duration::from_nanos(u64::try_from(nanoseconds).unwrap_or(u64::MAX))
    })
}

/// Decides when each chunk of one direction of one connection may pass.
#[derive(Clone, Debug)]
pub(super) struct Pacer {
    trouble: Trouble,
    random: Random,
    last: Duration,
    free: Duration,
}

impl Pacer {
    pub(super) fn new(trouble: &Trouble, seed: u64, stream: u64) -> Self {
        let random = Random::new(seed, stream);
        Self { trouble: trouble.clone(), random, last: Duration::ZERO, free: Duration::ZERO }
    }

    /// When a chunk of `bytes` that arrived at `now` may pass. Times count from the start of the proxy.
    pub(super) fn passes_at(&mut self, now: Duration, bytes: usize) -> Duration {
        let jitter_ns = u64::try_from(self.trouble.jitter.as_nanos()).unwrap_or(u64::MAX);
        let jitter = Duration::from_nanos(self.random.below(jitter_ns.saturating_add(1)));
        let mut at = (now + self.trouble.latency + jitter).max(self.last);
        if self.trouble.bandwidth > 0 {
            at = at.max(self.free);
            let takes = bytes as u128 * 1_000_000_000 / u128::from(self.trouble.bandwidth);
            at += Duration::from_nanos(u64::try_from(takes).unwrap_or(u64::MAX));
            self.free = at;
        }
        // Stalls may overlap, so the end of one may be inside another.
        while let Some(stall) = self.trouble.stalls.iter().find(|stall| stall.contains(&at)) {
            at = stall.end;
        }
        self.last = at;
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn latency_bandwidth_and_stalls_add_up() {
        let stalls = vec![100 * MS..200 * MS, 150 * MS..300 * MS];
        let trouble = Trouble { latency: 5 * MS, bandwidth: 1_000_000, stalls, ..Trouble::default() };
        let mut pacer = Pacer::new(&trouble, 1, 1);
        assert_eq!(pacer.passes_at(Duration::ZERO, 1000), 6 * MS);
        // 1,000 bytes take a millisecond, so the second chunk queues behind the first.
        assert_eq!(pacer.passes_at(Duration::ZERO, 1000), 7 * MS);
        assert_eq!(pacer.passes_at(95 * MS, 1000), 300 * MS);
        assert_eq!(pacer.passes_at(96 * MS, 1000), 301 * MS);
        assert_eq!(pacer.passes_at(400 * MS, 1000), 406 * MS);
    }

    #[test]
    fn jitter_is_bounded_keeps_order_and_repeats() {
        let trouble = Trouble { jitter: 10 * MS, ..Trouble::default() };
        let times = |seed| {
            let mut pacer = Pacer::new(&trouble, seed, 3);
            (0..1000_u32).map(|n| pacer.passes_at(MS * n, 1)).collect::<Vec<_>>()
        };
        let found = times(1);
        assert!(found.is_sorted());
        assert!(found.iter().zip(0..).all(|(at, n)| *at >= MS * n && *at <= MS * n + 10 * MS));
        assert_eq!(found, times(1));
        assert_ne!(found, times(2));
    }

    #[test]
    fn random_stalls_come_from_a_seed() {
        let hour = Duration::from_secs(3600);
        let stalls = random_stalls(5, Duration::from_secs(10), Duration::from_secs(1), hour);
        assert_eq!(stalls, random_stalls(5, Duration::from_secs(10), Duration::from_secs(1), hour));
        // 3,600 s at 11 s each.
        assert!((280..380).contains(&stalls.len()), "{}", stalls.len());
        assert!(stalls.windows(2).all(|pair| pair[0].end <= pair[1].start));
        assert_eq!(random_times(5, hour * 1000, hour).len(), 0);
    }
}
