//! What a load is: its kind, its bounds, and the checks of both.

use serde::{Deserialize, Serialize};

use super::flight::ENTRY_BYTES;
use crate::clock::SECOND_NS;
use crate::error::BenchError;
use crate::payload::{PAYLOAD_BYTES_MAX, PAYLOAD_BYTES_MIN};
use crate::schedule::Schedule;

/// How messages are caused.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Load {
    /// By the schedule alone. Latency counts from the due time. This is the honest one.
    Open(Schedule),
    /// By the schedule, but each connection waits for an answer before it sends again, and then goes on from there. Latency
    /// counts from the sending, so a stall of the system is seen once only: coordinated omission.
    Closed(Schedule),
    /// As much as the bound in flight lets through. Latency counts from the sending, and says little: it is the length
    /// of the queue. For throughput.
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
    /// Its kind.
    pub fn mode(&self) -> Mode {
        match self {
            Self::Open(_) => Mode::OpenLoop,
            Self::Closed(_) => Mode::ClosedLoop,
            Self::FullThrottle => Mode::FullThrottle,
        }
    }

    /// Its schedule, if it has one.
    pub fn schedule(&self) -> Option<&Schedule> {
        match self {
            Self::Open(schedule) | Self::Closed(schedule) => Some(schedule),
            Self::FullThrottle => None,
        }
    }
}

/// How broken connections are made again. Times are nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Reconnect {
    /// The longest wait before the first attempt. Each failure doubles it; the wait is from half of it to all of it, at random.
    pub first_ns: u64,
    /// The longest wait.
    pub longest_ns: u64,
    /// What chance is made of.
    pub seed: u64,
    /// On a thread of its own. Otherwise the generator's thread does it, and everything waits: for virtual clocks only.
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
    /// How messages are caused.
    pub load: Load,
    /// Bytes of each message.
    pub payload_bytes: usize,
    /// Threads over which the connections are spread.
    pub threads: usize,
    /// Messages in flight per connection: sent, and not yet acknowledged, received or given up.
    pub in_flight_max: usize,
    /// Time at the beginning that is sent but not recorded.
    pub warm_up_ns: u64,
    /// Time that is measured.
    pub duration_ns: u64,
    /// No more messages than this, of all connections, warm-up included.
    pub messages_max: u64,
    /// The longest wait for answers after the last message was due.
    pub drain_ns: u64,
    /// How long after the sending a message is given up.
    pub timeout_ns: u64,
    /// Length of the intervals of the log.
    pub interval_ns: u64,
    /// Time between the call and the first message, so that all threads are there.
    pub lead_ns: u64,
    /// Tells the messages of this run from those of others.
    pub run: u16,
    /// How broken connections are made again; `None` leaves them broken, and what is due on them fails at once.
    pub reconnect: Option<Reconnect>,
}

impl LoadOptions {
    /// A load with defaults: 128 bytes, one thread, 16,384 in flight, 30 s after a warm-up of 2 s, timeout 30 s, broken connections
    /// made again.
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

    /// Memory for messages in flight, in bytes, that all connections together may take. Those of connections that break are remembered, which takes
    /// up to about twice as much again.
    pub(crate) const FLIGHT_BYTES_MAX: usize = 2 << 30;

    /// The most connections.
    pub(crate) const CONNECTIONS_MAX: usize = u16::MAX as usize;

    /// Messages in flight per connection: a closed loop has one.
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
