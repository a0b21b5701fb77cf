//! The result of a run as one JSON document.

use std::collections::BTreeMap;

use serde::Serialize;

use super::{Clocks, Described, Machine, Origin};
use crate::engine::{Break, LoadOptions, Mode, Outcome};
use crate::recorder::Counts;
use crate::remote::RemoteReport;
use crate::requester::PayloadBack;
use crate::verdict::{self, Verdict};

/// Everything about a run except its histograms.
#[derive(Clone, Debug, Serialize)]
pub(crate) struct Summary {
    /// Version of this document.
    pub format: u32,
    /// The system under test.
    pub system: String,
    /// Its address.
    pub address: Option<String>,
    /// How messages were triggered.
    pub mode: Mode,
    /// The kind of schedule, if there was one.
    pub schedule: Option<&'static str>,
    /// Messages per second that the schedule asks for, if it is a single number.
    pub rate_per_second: Option<f64>,
    /// Size of each message, in bytes.
    pub payload_bytes: usize,
    /// Number of connections.
    pub connections: usize,
    /// Threads of the generator.
    pub threads: usize,
    /// Bound on messages in flight per connection.
    pub in_flight_max: usize,
    /// Length of the warm-up.
    pub warm_up_seconds: f64,
    /// Length of the measured time.
    pub measured_seconds: f64,
    /// Time after which a message times out.
    pub timeout_seconds: f64,
    /// Whether it can be trusted, doubts aside: [`Verdict::is_valid`].
    pub valid: bool,
    /// The verdict: its kind, its reasons, and doubts.
    pub verdict: Verdict,
    /// Whether it was stopped early.
    pub interrupted: bool,
    /// Numbers of messages.
    pub counts: Counts,
    /// Messages sent per second of the measured time.
    pub sent_per_second: f64,
    /// Messages acknowledged per second of the measured time.
    pub acknowledged_per_second: f64,
    /// Messages received per second of the measured time.
    pub received_per_second: f64,
    /// Whether `receipt` means replies to requests.
    pub receipt_is_reply: bool,
    /// The distributions by name.
    pub latency: BTreeMap<String, Described>,
    /// Distributions of successes, corrected for coordinated omission. Only for loads that wait for answers.
    pub corrected: BTreeMap<String, Described>,
    /// The causes of breaks of the connections that were still broken at the end.
    pub failures: Vec<String>,
    /// Breaks of connections, when each broke and when it was up again; the first thousand.
    pub breaks: Vec<Break>,
    /// Why the system rejected messages.
    pub refusals: Vec<String>,
    /// The machine of the generator, or of the coordinator if there are agents.
    pub machine: Machine,
    /// The agents that generated the load, if there are any.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remote: Option<RemoteReport>,
    /// Requested trouble that could not be made, and why. It makes the run invalid, unless the run was
    /// allowed to go on without.
    pub trouble_not_made: Vec<String>,
    /// The headlines of the verdicts of earlier attempts at this run in a plan.
    pub earlier_attempts: Vec<String>,
    /// What else is needed to repeat the run.
    #[serde(flatten)]
    pub origin: Origin,
}

impl Summary {
    /// Version of the document. Since 2 a percentile may be null; `untold` says why.
    pub(crate) const FORMAT: u32 = 2;

    /// Summarizes a run.
    pub(crate) fn new(
        system: &str,
        address: Option<&str>,
        connections: usize,
        options: &LoadOptions,
        outcome: &Outcome,
        origin: Origin,
    ) -> Self {
        let counts = outcome.total.counts;
        let seconds = outcome.measured_ns as f64 / 1e9;
        let schedule = options.load.schedule();
        let per_second = |count: u64| count as f64 / seconds;
        let latency = outcome.total.named().map(|(name, found)| (name.to_owned(), Described::new(found)));
        Self {
            format: Self::FORMAT,
            system: system.to_owned(),
            address: address.map(str::to_owned),
            mode: outcome.mode,
            schedule: schedule.map(|schedule| schedule.name()),
            rate_per_second: schedule.and_then(|schedule| schedule.rate()).map(|rate| rate.in_seconds()),
            payload_bytes: options.payload_bytes,
            connections,
            threads: options.threads.min(connections),
            in_flight_max: options.in_flight_max,
            warm_up_seconds: options.warm_up_ns as f64 / 1e9,
            measured_seconds: seconds,
            timeout_seconds: options.timeout_ns as f64 / 1e9,
            valid: outcome.verdict.is_valid(),
            verdict: outcome.verdict.clone(),
            interrupted: outcome.interrupted,
            counts,
            sent_per_second: per_second(counts.sent),
            acknowledged_per_second: per_second(counts.acknowledged),
            received_per_second: per_second(counts.received),
            receipt_is_reply: outcome.payload == Some(PayloadBack::Reply),
            latency: latency.collect(),
            corrected: corrected(outcome),
            failures: outcome.failures.clone(),
            breaks: outcome.breaks.clone(),
            refusals: outcome.refusals.clone(),
            machine: Machine::look(),
            remote: None,
            trouble_not_made: Vec::new(),
            earlier_attempts: Vec::new(),
            origin,
        }
    }

    /// Adds the agents that generated the load. If receipts are between two clocks, no value below the
    /// clocks' bound is told.
    pub(crate) fn come_from(&mut self, remote: RemoteReport) {
        self.remote = Some(remote);
        let mut latency = std::mem::take(&mut self.latency);
        latency.iter_mut().for_each(|(name, described)| described.limit(self.clocks(name)));
        self.latency = latency;
    }

    /// The clocks that the latencies of this name are between.
    pub(crate) fn clocks(&self, name: &str) -> Clocks {
        let between = self.remote.as_ref().filter(|remote| remote.offsets_in_latencies);
        match between.filter(|_| name.starts_with("receipt")) {
            Some(remote) => remote.receipt_bound_ns.map_or(Clocks::Unknown, Clocks::Within),
            None => Clocks::One,
        }
    }

    /// Adds trouble that could not be made. It makes the run invalid, or only doubtful if `allowed`.
    pub(crate) fn lack_trouble(&mut self, not_made: Vec<String>, allowed: bool) {
        let reasons = not_made.iter().map(|what| verdict::trouble_not_made(what));
        // It comes first, since the run measured something other than what was asked for.
        let list = if allowed { &mut self.verdict.doubts } else { &mut self.verdict.invalid };
        drop(list.splice(0..0, reasons));
        self.valid = self.verdict.is_valid();
        self.trouble_not_made.extend(not_made);
    }
}

fn corrected(outcome: &Outcome) -> BTreeMap<String, Described> {
    let total = &outcome.total;
    [("acknowledgement", &total.acknowledgement.success), ("receipt", &total.receipt.success)]
        .into_iter()
        .filter(|(_, raw)| raw.count() > 0)
        .filter_map(|(name, raw)| Some((name.to_owned(), Described::of_guess(&outcome.corrected(raw)?))))
        .collect()
}
