//! What all clients have in common.

use bytes::Bytes;
use tailrace_coordination::coordinator::partition_of_name;
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{LeaderEpoch, PartitionId, TimestampMs, TopicName, TopicPartition};

use crate::Rng;
use crate::cluster::messages::{Map, Request, Response};
use crate::cluster::sim::Sim;

/// Time that a client waits for an answer, in milliseconds.
const PATIENCE_MS: u64 = 1_500;
const PAUSE_MS: u64 = 20;

/// One client: its address, and what it knows of the cluster.
pub(super) struct Client {
    pub(super) sim: Sim,
    pub(super) address: u64,
    pub(super) rng: Rng,
    map: Map,
}

impl Client {
    pub(super) fn new(sim: &Sim, address: u64) -> Self {
        let rng = sim.world().rng.fork();
        Self { sim: sim.clone(), address, rng, map: Map::default() }
    }

    /// True once nothing new is to be begun.
    pub(super) fn stops(&self) -> bool {
        self.sim.world().is_calm
    }

    pub(super) async fn ask(&self, node: u64, request: Request) -> Option<Response> {
        self.sim.ask(self.address, node, request, PATIENCE_MS).await
    }

    pub(super) fn any_node(&mut self) -> u64 {
        let nodes: Vec<u64> = self.sim.world().nodes.keys().copied().collect();
        nodes[self.rng.below(nodes.len() as u64) as usize]
    }

    /// Asks some node who leads what. Never goes back to an earlier leader.
    pub(super) async fn refresh(&mut self) {
        let node = self.any_node();
        self.sim.sleep(PAUSE_MS).await;
        let Some(Response::Metadata(map)) = self.ask(node, Request::Metadata).await else { return };
        for (partition, (node, epoch)) in map.leaders {
            let known = self.map.leaders.entry(partition).or_insert((node, epoch));
            if epoch >= known.1 {
                *known = (node, epoch);
            }
        }
        self.map.replicas = map.replicas;
    }

    /// Who leads a partition, as far as this client knows.
    pub(super) async fn leader(&mut self, partition: &TopicPartition) -> Option<(u64, LeaderEpoch)> {
        if !self.map.leaders.contains_key(partition) {
            self.refresh().await;
        }
        self.map.leaders.get(partition).copied()
    }

    /// The coordinator of a name.
    pub(super) async fn coordinator(&mut self, topic: &str, name: &str) -> Option<u64> {
        let partitions = self.map.replicas.keys().filter(|id| id.topic.as_str() == topic).count();
        if partitions == 0 {
            self.refresh().await;
            return None;
        }
        let number = partition_of_name(name, partitions as i32);
        let id = TopicPartition::new(TopicName::new(topic).ok()?, PartitionId(number));
        self.leader(&id).await.map(|(node, _)| node)
    }

    pub(super) fn replicas(&self, partition: &TopicPartition) -> Vec<u64> {
        self.map.replicas.get(partition).cloned().unwrap_or_default()
    }

    /// The partitions of a topic that this client knows of.
    pub(super) fn partitions(&self, topic: &str) -> Vec<TopicPartition> {
        self.map.replicas.keys().filter(|id| id.topic.as_str() == topic).cloned().collect()
    }

    /// A batch whose first record is `value` and filler.
    pub(super) fn batch(&mut self, value: &str, options: BatchOptions) -> Bytes {
        let mut builder = BatchBuilder::new(options);
        let mut text = format!("{value} ").into_bytes();
        let filler = self.rng.below(120) as usize;
        text.extend(self.rng.bytes(filler));
        // One record of such a size always fits.
        let _ = builder.push(TimestampMs(1), None, Some(&text), &[]);
        builder.build()
    }

    /// A fact that must not be.
    pub(super) fn check(&self, fact: Result<(), String>) {
        if let Err(anomaly) = fact {
            self.sim.world().failure.get_or_insert(anomaly);
        }
    }
}
