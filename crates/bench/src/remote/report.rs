//! The part of a result about the machines that generated the load.

use serde::Serialize;

use super::Placement;
use super::offset::Estimator;
use crate::engine::QUANTILES;
use crate::recorder::{Counts, Distribution, confidence};
use crate::report::Machine;
use crate::systems::Role;
use crate::verdict::{Verdict, percentile};

/// An agent's clock, compared with the coordinator's.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct ClockReport {
    /// The agent's clock less the coordinator's at the start of the run, in nanoseconds. Both count from the
    /// boot of their machines.
    pub offset_ns: i64,
    /// The largest possible error of any offset used in the run, drift included.
    pub bound_ns: u64,
    /// How much faster the agent's clock is, in parts per million.
    pub drift_ppm: f64,
    /// The error bound of the drift.
    pub drift_bound_ppm: f64,
    /// How often the clocks were compared.
    pub probes: u64,
    /// How often a clock jumped, or changed its rate.
    pub steps: u64,
    /// The shortest round trip.
    pub round_trip_ns_min: u64,
}

impl ClockReport {
    /// Summarizes an estimate. `begin_ns` and `end_ns` are those of the run; `deviation_ns` is the largest
    /// error of the offsets in use.
    pub(super) fn new(known: &Estimator, begin_ns: u64, end_ns: u64, deviation_ns: u64) -> Option<Self> {
        let (begin, end) = (known.at(begin_ns)?, known.at(end_ns)?);
        let (drift, drift_bound) = known.drift()?;
        Some(Self {
            offset_ns: begin.offset_ns,
            bound_ns: deviation_ns.max(begin.bound_ns).max(end.bound_ns),
            drift_ppm: drift / 1000.0,
            drift_bound_ppm: drift_bound / 1000.0,
            probes: known.probes(),
            steps: known.steps(),
            round_trip_ns_min: known.round_trip_ns_min().unwrap_or(0),
        })
    }
}

/// One agent.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct AgentReport {
    /// Its address.
    pub address: String,
    /// Its role.
    pub role: Role,
    /// The numbers of its connections.
    pub connections: Vec<u32>,
    /// Its clock. `None` if it was lost before anything was known.
    pub clock: Option<ClockReport>,
    /// Why it was lost, if it was.
    pub lost: Option<String>,
    /// Its counts; those until its last report if it was lost.
    pub counts: Counts,
    /// Its machine.
    pub machine: Option<Machine>,
}

/// The origin of the load.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct RemoteReport {
    /// Where the two ends of each connection were.
    pub placement: Placement,
    /// Whether an offset between two clocks enters each receipt. If not, each latency is the difference of
    /// two times on one clock.
    pub offsets_in_latencies: bool,
    /// The largest possible error of the offset between the two clocks of a receipt: the greatest sum of two
    /// agents' bounds. `None` if no offset enters, or an agent's clock is unknown.
    pub receipt_bound_ns: Option<u64>,
    /// Percentiles (as shares) of receipts that are below that bound, among those that the number of messages
    /// can tell.
    pub receipt_doubtful_quantiles: Vec<f64>,
    /// Agents that were lost before the end.
    pub lost_agents: Vec<String>,
    /// All of them.
    pub agents: Vec<AgentReport>,
}

impl RemoteReport {
    /// Summarizes the agents. `pairs` are the agents at the two ends of connections.
    pub(super) fn new(
        placement: Placement,
        agents: Vec<AgentReport>,
        pairs: impl Iterator<Item = (usize, usize)>,
        receipt: &Distribution,
    ) -> Self {
        let apart = placement == Placement::Apart;
        let bound = |agent: usize| agents[agent].clock.as_ref().map(|clock| clock.bound_ns);
        let sum = |(one, other)| Some(bound(one)?.saturating_add(bound(other)?));
        let sums: Option<Vec<u64>> = pairs.map(sum).collect();
        let receipt_bound_ns = sums.filter(|_| apart).and_then(|sums| sums.into_iter().max());
        let small =
            |quantile: &f64| receipt_bound_ns.is_some_and(|bound| receipt.at_quantile_ns(*quantile) < bound);
        let told = QUANTILES.into_iter().filter(|quantile| confidence::is_told(receipt.count(), *quantile));
        let doubtful = told.filter(small);
        Self {
            placement,
            offsets_in_latencies: apart,
            receipt_bound_ns,
            receipt_doubtful_quantiles: doubtful.collect(),
            lost_agents: agents
                .iter()
                .filter(|agent| agent.lost.is_some())
                .map(|agent| agent.address.clone())
                .collect(),
            agents,
        }
    }

    /// Adds what the clocks and lost agents mean for the run to the verdict.
    pub(super) fn judge(&self, receipt: &Distribution, verdict: &mut Verdict) {
        if !self.lost_agents.is_empty() {
            let lost = self.lost_agents.join(", ");
            verdict.interrupted =
                Some(format!("{lost} was lost, and what it had not reported yet is missing"));
        }
        for agent in &self.agents {
            let Some(clock) = agent.clock.as_ref().filter(|clock| clock.steps > 0) else { continue };
            verdict.doubts.push(format!(
                "the clock of agent {} jumped or changed its rate during the run (times: {}), so latencies about then are wrong by up to {} ms",
                agent.address,
                clock.steps,
                milliseconds(clock.bound_ns)
            ));
        }
        if !self.offsets_in_latencies || receipt.count() == 0 {
            return;
        }
        let Some(bound_ns) = self.receipt_bound_ns else {
            let reason = "the clocks of publishers and subscribers could not be compared, so the receipt times mean nothing";
            return verdict.invalid.push(reason.to_owned());
        };
        let bound = milliseconds(bound_ns);
        if receipt.at_quantile_ns(0.5) < bound_ns {
            return verdict.invalid.push(format!(
                "the clocks of publishers and subscribers are known to ±{bound} ms, and half of the receipts or more took less: measure with \
                 --placement together, or from agents and a coordinator that are closer to each other than this"
            ));
        }
        let rough = QUANTILES
            .into_iter()
            .filter(|quantile| confidence::is_told(receipt.count(), *quantile))
            .filter(|quantile| receipt.at_quantile_ns(*quantile) < bound_ns.saturating_mul(2));
        let rough: Vec<String> = rough.map(percentile).collect();
        if !rough.is_empty() {
            verdict.doubts.push(format!(
                "receipt at {} may be wrong by half of it or more: the clocks of publishers and subscribers are known to ±{bound} ms",
                rough.join(", ")
            ));
        }
    }
}

fn milliseconds(ns: u64) -> String {
    format!("{:.3}", ns as f64 / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::verdict::VerdictKind;

    fn agent(bound_ns: u64, lost: Option<&str>) -> AgentReport {
        let clock = ClockReport {
            offset_ns: 5,
            bound_ns,
            drift_ppm: 0.0,
            drift_bound_ppm: 1.0,
            probes: 1,
            steps: 0,
            round_trip_ns_min: 1,
        };
        AgentReport {
            address: format!("h:{bound_ns}"),
            role: Role::Both,
            connections: vec![0],
            clock: Some(clock),
            lost: lost.map(str::to_owned),
            counts: Counts::default(),
            machine: None,
        }
    }

    #[test]
    fn percentiles_below_the_bound_are_doubtful() {
        let mut receipt = Distribution::default();
        receipt.record_n(50_000, 900);
        receipt.record_n(90_000, 100);
        let agents = || vec![agent(20_000, None), agent(40_000, None), agent(1, Some("gone"))];
        let pairs = || [(0, 1), (0, 2)].into_iter();
        let apart = RemoteReport::new(Placement::Apart, agents(), pairs(), &receipt);
        assert_eq!(
            (apart.receipt_bound_ns, apart.lost_agents.as_slice()),
            (Some(60_000), &["h:1".to_owned()][..])
        );
        assert_eq!(apart.receipt_doubtful_quantiles, [0.5, 0.75, 0.9]);
        let mut few = Distribution::default();
        few.record_n(50_000, 20);
        let few = RemoteReport::new(Placement::Apart, agents(), pairs(), &few);
        assert_eq!(few.receipt_doubtful_quantiles, [0.5, 0.75, 1.0], "20 messages do not tell p90");
        let together = RemoteReport::new(Placement::Together, agents(), pairs(), &receipt);
        assert_eq!((together.receipt_bound_ns, together.offsets_in_latencies), (None, false));
        assert!(together.receipt_doubtful_quantiles.is_empty());
    }

    /// The verdict on publishers and subscribers on two agents whose receipts all took this long.
    fn judged(receipt_ns: u64, agents: Vec<AgentReport>, placement: Placement) -> Verdict {
        let mut receipt = Distribution::default();
        receipt.record_n(receipt_ns, 3_000);
        let mut verdict = Verdict::default();
        RemoteReport::new(placement, agents, [(0, 1)].into_iter(), &receipt).judge(&receipt, &mut verdict);
        verdict
    }

    fn two(bound_ns: u64) -> Vec<AgentReport> {
        vec![agent(bound_ns / 2, None), agent(bound_ns / 2, None)]
    }

    #[test]
    fn what_the_clocks_cannot_tell_is_invalid() {
        let apart = |receipt_ns, agents| judged(receipt_ns, agents, Placement::Apart);
        // 3,000 of 3,000 came before they were due.
        let nothing = apart(0, two(10_300_000));
        assert_eq!(nothing.kind(), VerdictKind::Invalid);
        let headline = nothing.headline();
        assert!(
            headline.contains("known to ±10.300 ms") && headline.contains("--placement together"),
            "{headline}"
        );
        assert_eq!(apart(15_000_000, two(10_000_000)).kind(), VerdictKind::Doubtful);
        assert_eq!(apart(20_100_000, two(10_000_000)).kind(), VerdictKind::Valid);
        let unknown = vec![agent(1, None), AgentReport { clock: None, ..agent(1, None) }];
        assert!(apart(20_000_000, unknown).headline().contains("could not be compared"));
        // One clock needs no comparison.
        assert_eq!(judged(0, two(10_300_000), Placement::Together), Verdict::default());
    }

    #[test]
    fn a_clock_that_jumped_and_an_agent_that_was_lost_are_told() {
        let mut agents = two(2_000_000);
        agents[1].clock.as_mut().unwrap().steps = 2;
        let jumped = judged(50_000_000, agents.clone(), Placement::Together);
        assert_eq!(jumped.kind(), VerdictKind::Doubtful);
        assert!(jumped.headline().contains("h:1000000 jumped or changed its rate"), "{}", jumped.headline());
        agents[0].lost = Some("gone".to_owned());
        let lost = judged(50_000_000, agents, Placement::Together);
        assert_eq!((lost.kind(), lost.reasons().len()), (VerdictKind::Interrupted, 2));
    }
}
