//! The measurements of a run: distributions by what was timed and how it ended, and counts.
//!
//! A [`Recorder`] belongs to one thread. Those of several threads, intervals or machines are added, never
//! averaged. Interval logs are in [`interval_log`]. Nothing here knows the time.

pub mod confidence;
mod distribution;
pub mod interval_log;
mod mishaps;

use crate::windowed::Arrival;
use serde::{Deserialize, Serialize};

pub use distribution::Distribution;
pub(crate) use mishaps::Mishaps;

/// Latencies by how the request ended.
#[derive(Clone, Debug, Default)]
pub struct Outcomes {
    /// Success.
    pub success: Distribution,
    /// The system rejected the request or answered wrongly.
    pub error: Distribution,
    /// No answer came in time. The latency is the time that had passed when the wait ended.
    pub timeout: Distribution,
}

impl Outcomes {
    /// Adds everything that `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.success.add(&other.success);
        self.error.add(&other.error);
        self.timeout.add(&other.timeout);
    }

    fn clear(&mut self) {
        self.success.clear();
        self.error.clear();
        self.timeout.clear();
    }

    /// The number of all latencies.
    pub fn count(&self) -> u64 {
        self.success.count() + self.error.count() + self.timeout.count()
    }

    /// One distribution of them all: what a caller experienced, however it ended.
    pub(crate) fn together(&self) -> Distribution {
        let mut all = self.success.clone();
        all.add(&self.error);
        all.add(&self.timeout);
        all
    }
}

/// Numbers of messages, without those of the warm-up unless a field says otherwise.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counts {
    /// Due in the measured time, whether or not they could be sent.
    pub due: u64,
    /// Handed to the client.
    pub sent: u64,
    /// Never sent: before there was room, the run ended, or the timeout passed while the connection was
    /// broken.
    pub unsent: u64,
    /// Acknowledged.
    pub acknowledged: u64,
    /// Received for the first time.
    pub received: u64,
    /// Received again (warm-up included).
    pub duplicates: u64,
    /// Received after a message that was sent later (warm-up included).
    pub reordered: u64,
    /// Sent, expected back, and not received before the wait ended (warm-up included). Does not include those
    /// that were cut off.
    pub lost: u64,
    /// In flight when the connection broke, expected back, and never received (warm-up included).
    pub cut_off: u64,
    /// In flight when the connection broke, and received after the reconnect (warm-up included).
    pub redelivered: u64,
    /// Received with a wrong checksum or length (warm-up included).
    pub corrupt: u64,
    /// Received from another run (warm-up included).
    pub foreign: u64,
    /// Received so late that nothing is known about them any more, or acknowledged twice (warm-up included).
    pub unknown: u64,
    /// How often connections broke (warm-up included).
    pub broken_connections: u64,
    /// How often broken connections were reconnected.
    pub reconnected: u64,
    /// Received before they were due, by the clocks of two machines. Their latency counts as 0.
    pub negative: u64,
}

impl Counts {
    /// Counts anything odd about an arrival. Returns false if the message, as far as is known, is not one
    /// received for the first time.
    pub(crate) fn note(&mut self, arrival: Arrival) -> bool {
        match arrival {
            Arrival::InOrder => {}
            Arrival::Reordered { .. } => self.reordered += 1,
            Arrival::Duplicate => self.duplicates += 1,
            Arrival::Forgotten => self.unknown += 1,
        }
        matches!(arrival, Arrival::InOrder | Arrival::Reordered { .. })
    }

    /// Adds `other`.
    pub fn add(&mut self, other: &Self) {
        self.due += other.due;
        self.sent += other.sent;
        self.unsent += other.unsent;
        self.acknowledged += other.acknowledged;
        self.received += other.received;
        self.duplicates += other.duplicates;
        self.reordered += other.reordered;
        self.lost += other.lost;
        self.cut_off += other.cut_off;
        self.redelivered += other.redelivered;
        self.corrupt += other.corrupt;
        self.foreign += other.foreign;
        self.unknown += other.unknown;
        self.broken_connections += other.broken_connections;
        self.reconnected += other.reconnected;
        self.negative += other.negative;
    }
}

/// All measurements of a stretch of a run.
#[derive(Clone, Debug, Default)]
pub struct Recorder {
    /// From the due time to the acknowledgement.
    pub acknowledgement: Outcomes,
    /// From the due time to the receipt, or to the reply.
    pub receipt: Outcomes,
    /// How late the generator sent messages: the error of the ruler.
    pub lateness: Distribution,
    /// How long messages were held back because too many were in flight or the client took no more. Only
    /// messages that were.
    pub held: Distribution,
    /// Counts beside the distributions.
    pub counts: Counts,
    /// How long the oldest message outstanding at the end of the stretch had waited then, in nanoseconds
    /// since it was due; 0 if none was outstanding. Over several stretches, threads or machines, the longest.
    /// Messages of the warm-up are left out.
    pub oldest_waiting_ns: u64,
}

impl Recorder {
    /// Adds everything that `other` counted.
    pub fn add(&mut self, other: &Self) {
        self.acknowledgement.add(&other.acknowledgement);
        self.receipt.add(&other.receipt);
        self.lateness.add(&other.lateness);
        self.held.add(&other.held);
        self.counts.add(&other.counts);
        self.oldest_waiting_ns = self.oldest_waiting_ns.max(other.oldest_waiting_ns);
    }

    /// Clears it, and keeps the memory.
    pub fn clear(&mut self) {
        self.acknowledgement.clear();
        self.receipt.clear();
        self.lateness.clear();
        self.held.clear();
        self.counts = Counts::default();
        self.oldest_waiting_ns = 0;
    }

    /// All distributions that are not empty, with their names in files.
    pub(crate) fn named(&self) -> impl Iterator<Item = (&'static str, &Distribution)> {
        [
            ("acknowledgement", &self.acknowledgement.success),
            ("acknowledgement-error", &self.acknowledgement.error),
            ("acknowledgement-timeout", &self.acknowledgement.timeout),
            ("receipt", &self.receipt.success),
            ("receipt-error", &self.receipt.error),
            ("receipt-timeout", &self.receipt.timeout),
            ("lateness", &self.lateness),
            ("held", &self.held),
        ]
        .into_iter()
        .filter(|(_, distribution)| distribution.count() > 0)
    }

    /// The distribution of this name.
    pub(crate) fn by_name_mut(&mut self, name: &str) -> Option<&mut Distribution> {
        Some(match name {
            "acknowledgement" => &mut self.acknowledgement.success,
            "acknowledgement-error" => &mut self.acknowledgement.error,
            "acknowledgement-timeout" => &mut self.acknowledgement.timeout,
            "receipt" => &mut self.receipt.success,
            "receipt-error" => &mut self.receipt.error,
            "receipt-timeout" => &mut self.receipt.timeout,
            "lateness" => &mut self.lateness,
            "held" => &mut self.held,
            _ => return None,
        })
    }
}
