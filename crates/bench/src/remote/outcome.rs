//! The result of a run over agents, merged from its parts.

use super::Placement;
use super::messages::Final;
use super::peer::Peer;
use super::report::{AgentReport, RemoteReport};
use crate::engine::{LoadOptions, Outcome, PartOutcome, Span, conclude};
use crate::recorder::Recorder;
use crate::report::ResourceSample;
use crate::requester::PayloadBack;

/// The result of a run over agents.
#[derive(Debug)]
pub struct RemoteOutcome {
    /// The same as for a run on one machine. Its times are on the coordinator's clock.
    pub outcome: Outcome,
    /// Agents and clocks.
    pub report: RemoteReport,
    /// Resources used by each agent's process, by its address.
    pub resources: Vec<(String, Vec<ResourceSample>)>,
    /// What could not be cleaned up in the system.
    pub complaints: Vec<String>,
}

/// Merges the agents' reports about their parts with `total`, the sum of their intervals.
pub(super) fn put_together(
    peers: Vec<Peer>,
    placement: Placement,
    options: &LoadOptions,
    total: Recorder,
    span: Span,
    stopped_ns: u64,
) -> RemoteOutcome {
    let pairs: Vec<(usize, usize)> =
        peers.iter().enumerate().flat_map(|(number, peer)| pairs_of(number, peer)).collect();
    let connections: usize = peers
        .iter()
        .filter(|peer| peer.share.role.subscribes())
        .map(|peer| peer.share.connections.len())
        .sum();
    let mut whole = PartOutcome {
        total,
        payload: None,
        span,
        stopped_ns,
        interrupted: false,
        neglected: 0,
        failures: Vec::new(),
        breaks: Vec::new(),
        refusals: Vec::new(),
        sent: Vec::new(),
    };
    let (mut agents, mut resources, mut complaints) = (Vec::new(), Vec::new(), Vec::new());
    for peer in peers {
        whole.interrupted |= peer.lost.is_some();
        whole.failures.extend(peer.lost.as_ref().map(|reason| lost(&peer, reason)));
        agents.push(AgentReport {
            address: peer.address.clone(),
            role: peer.share.role,
            connections: peer.share.connections,
            clock: peer.report,
            lost: peer.lost,
            counts: peer.counts,
            machine: peer.machine,
        });
        let Some(ended) = peer.ended else { continue };
        add(&mut whole, &ended);
        complaints.extend(ended.complaint.map(|complaint| format!("{}: {complaint}", peer.address)));
        resources.push((peer.address, ended.resources));
    }
    let mut outcome = conclude(options, connections, whole);
    let lost = outcome.total.counts.lost;
    if placement == Placement::Apart && lost > 0 {
        let remark = format!("{lost} messages were lost; with publishers apart they are in no distribution");
        outcome.verdict.remarks.push(remark);
    }
    let receipt = outcome.total.receipt.together();
    let report = RemoteReport::new(placement, agents, pairs.into_iter(), &receipt);
    report.judge(&receipt, &mut outcome.verdict);
    RemoteOutcome { outcome, report, resources, complaints }
}

/// Pairs of this agent and each agent whose messages it receives.
fn pairs_of(number: usize, peer: &Peer) -> Vec<(usize, usize)> {
    peer.share.publishers.iter().filter(|other| **other != number).map(|other| (*other, number)).collect()
}

fn lost(peer: &Peer, reason: &str) -> String {
    let numbers: Vec<String> = peer.share.connections.iter().take(32).map(u32::to_string).collect();
    let more = if peer.share.connections.len() > numbers.len() { ", ..." } else { "" };
    format!("agent {} was lost: {reason}; its connections: {}{more}", peer.address, numbers.join(", "))
}

fn add(whole: &mut PartOutcome, ended: &Final) {
    whole.interrupted |= ended.interrupted;
    whole.neglected += ended.neglected;
    whole.failures.extend(ended.failures.iter().cloned());
    whole.refusals.extend(ended.refusals.iter().cloned());
    whole.breaks.extend(ended.breaks.iter().cloned());
    whole.sent.extend(ended.sent.clone());
    if ended.expects_payload {
        let back = if ended.receipt_is_reply { PayloadBack::Reply } else { PayloadBack::Receipt };
        whole.payload = Some(back);
    }
}
