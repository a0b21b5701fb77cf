//! The due times of one connection, one after the other.

use super::{Kind, Random, Rate, Schedule};

/// An iterator over due times, in nanoseconds after the start of the run. They never decrease.
#[derive(Clone, Debug)]
pub struct DueTimes {
    schedule: Schedule,
    connections: u32,
    next_index: u64,
    arrivals: Option<Arrivals>,
}

/// Exponential gaps, summed up exactly.
#[derive(Clone, Debug)]
struct Arrivals {
    random: Random,
    /// In units of 2^-32 of the mean gap.
    sum: u128,
    mean_gap_per_kilosecond: u128,
}

impl Schedule {
    /// Returns the due times of one of `connections` connections.
    ///
    /// # Panics
    /// `connection` is not below `connections`.
    pub fn due_times(&self, connection: u32, connections: u32) -> DueTimes {
        assert!(connection < connections, "connection {connection} of {connections}");
        DueTimes::new(self.clone(), connection, connections)
    }
}

impl DueTimes {
    fn new(schedule: Schedule, connection: u32, connections: u32) -> Self {
        let arrivals = match schedule.kind {
            Kind::Poisson { rate, seed } => Some(Arrivals::new(rate, seed, connection)),
            _ => None,
        };
        Self { schedule, connections, next_index: u64::from(connection), arrivals }
    }
}

impl Iterator for DueTimes {
    type Item = u64;

    fn next(&mut self) -> Option<u64> {
        let due_ns = match &mut self.arrivals {
            Some(arrivals) => arrivals.next(self.connections),
            None => self.schedule.due_ns(self.next_index)?,
        };
        self.next_index += u64::from(self.connections);
        Some(due_ns)
    }
}

impl Arrivals {
    fn new(rate: Rate, seed: u64, connection: u32) -> Self {
        let random = Random::new(seed, u64::from(connection));
        Self { random, sum: 0, mean_gap_per_kilosecond: u128::from(rate.in_kiloseconds()) }
    }

    /// A connection has the rate divided by the number of connections, so its mean gap is that much longer.
    fn next(&mut self, connections: u32) -> u64 {
        self.sum += u128::from(self.random.exponential());
        let numerator = self.sum * u128::from(connections) * 1_000_000_000_000;
        u64::try_from(numerator / (self.mean_gap_per_kilosecond << 32)).unwrap_or(u64::MAX)
    }
}
