//! Options of a load: its kind, its bounds, and the checks of both.

use serde::{Deserialize, Serialize};

use super::flight::ENTRY_BYTES;
use crate::clock::SECOND_NS;
use crate::error::BenchError;
use crate::payload::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use crate::schedule::Schedule;

/// How messages are triggered.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// By the schedule alone. Latency counts from the due time. This is the honest one.
    Open(Schedule),
    /// By the schedule, but each connection waits for an answer before it sends again, and goes on from
    /// there. Latency counts from the sending, so a stall of the system shows up only once: coordinated
    /// omission.
    Closed(Schedule),
    /// As fast as the bound in flight allows. Latency counts from the sending, and says little: it is the
    /// length of the queue. For throughput.
    FullThrottle,
}

/// The kind of a load, for reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Mode {
    /// See [`Load::Open`].
    OpenLoop,
    /// See [`Load::Closed`].
    ClosedLoop,
    /// See [`Load::FullThrottle`].
    FullThrottle,
}

impl Load {
    /// The kind of the load.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Open(_) => Mode::OpenLoop,
            Self::Closed(_) => Mode::ClosedLoop,
            Self::FullThrottle => Mode::FullThrottle,
        }
    }

    /// The load's schedule, if it has one.
    pub fn schedule(&self) -> Option<&Schedule> {
        match self {
            Self::Open(schedule) | Self::Closed(schedule) => Some(schedule),
            Self::FullThrottle => None,
        }
    }
}

/// How broken connections are reconnected. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconnect {
    /// The longest wait before the first attempt. Each failure doubles it. The actual wait is random, between
    /// half of it and all of it.
    pub first_ns: u64,
    /// The longest wait between attempts.
    pub longest_ns: u64,
    /// The seed of the jitter.
    pub seed: u64,
    /// Reconnect on a thread of its own. Otherwise the generator's thread does it, and everything waits: for
    /// virtual clocks only.
    pub aside: bool,
}

impl Default for Reconnect {
    fn default() -> Self {
        Self { first_ns: SECOND_NS / 10, longest_ns: 2 * SECOND_NS, seed: 1, aside: true }
    }
}

/// A load and its bounds. Times are nanoseconds.
#[derive(Clone, Debug)]
pub struct LoadOptions {
    /// How messages are triggered.
    pub load: Load,
    /// Size of each message, in bytes.
    pub payload_bytes: usize,
    /// Threads to deal the connections to.
    pub threads: usize,
    /// Messages in flight per connection: sent, and not yet acknowledged, received or timed out.
    pub in_flight_max: usize,
    /// Time at the start whose messages are sent but not recorded.
    pub warm_up_ns: u64,
    /// Length of the measured time.
    pub duration_ns: u64,
    /// Most messages of all connections, warm-up included.
    pub messages_max: u64,
    /// Longest wait for answers after the last message was due.
    pub drain_ns: u64,
    /// How long after its sending a message times out.
    pub timeout_ns: u64,
    /// Length of the intervals of the log.
    pub interval_ns: u64,
    /// Time between the call and the first message, so that all threads are ready.
    pub lead_ns: u64,
    /// Distinguishes messages of this run from those of others.
    pub run: u16,
    /// How broken connections are reconnected. `None` leaves them broken, and messages due on them fail at
    /// once.
    pub reconnect: Option<Reconnect>,
}

impl LoadOptions {
    /// Creates a load with defaults: 128 bytes, one thread, 16,384 in flight, 30 s after a warm-up of 2 s,
    /// timeout 30 s, reconnecting.
    pub fn new(load: Load) -> Self {
        Self {
            load,
            payload_bytes: 128,
            threads: 1,
            in_flight_max: 16_384,
            warm_up_ns: 2 * SECOND_NS,
            duration_ns: 30 * SECOND_NS,
            messages_max: u64::MAX,
            drain_ns: 10 * SECOND_NS,
            timeout_ns: 30 * SECOND_NS,
            interval_ns: SECOND_NS,
            lead_ns: SECOND_NS / 10,
            run: 0,
            reconnect: Some(Reconnect::default()),
        }
    }

    /// Memory for messages in flight on all connections together, in bytes. Messages of connections that
    /// break are remembered, which takes up to about twice as much again.
    pub(crate) const FLIGHT_BYTES_MAX: usize = 2 << 30;

    /// The most connections.
    pub(crate) const CONNECTIONS_MAX: usize = u16::MAX as usize;

    /// The bound on messages in flight per connection. It is one in a closed loop.
    pub(super) fn bound(&self) -> usize {
        if matches!(self.load, Load::Closed(_)) { 1 } else { self.in_flight_max }
    }

    /// Checks all bounds.
    ///
    /// # Errors
    /// Names the option that is out of its range.
    pub fn check(&self, connections: usize) -> Result<(), BenchError> {
        let within = |option, found: u64, from: u64, to: u64, unit: &str| {
            if (from..=to).contains(&found) {
                return Ok(());
            }
            Err(BenchError::Option { option, found, expected: format!("{from} to {to}{unit}") })
        };
        let year = 366 * 86_400 * SECOND_NS;
        within("connections", connections as u64, 1, Self::CONNECTIONS_MAX as u64, "")?;
        within("threads", self.threads as u64, 1, 1024, "")?;
        let payload = self.payload_bytes as u64;
        within("size", payload, PAYLOAD_BYTES_MIN as u64, PAYLOAD_BYTES_MAX as u64, " bytes")?;
        let flight = Self::FLIGHT_BYTES_MAX / ENTRY_BYTES / connections;
        within(
            "in-flight",
            self.in_flight_max as u64,
            1,
            flight as u64,
            " for this many connections (2 GiB of memory)",
        )?;
        within("duration", self.duration_ns, 1, year, " ns")?;
        within("warm-up", self.warm_up_ns, 0, year, " ns")?;
        within("drain", self.drain_ns, 0, year, " ns")?;
        within("timeout", self.timeout_ns, 1_000_000, year, " ns")?;
        within("interval", self.interval_ns, 10_000_000, year, " ns")
    }
}
