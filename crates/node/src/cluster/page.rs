//! `/clusterz`: the cluster as this node knows it, and details of this node. For `tailrace cluster`, and for
//! people.

use std::collections::BTreeMap;
use std::sync::Arc;

use serde_json::{Value, json};
use tailrace_metadata::{MetadataImage, PartitionImage};
use tailrace_types::{NodeId, RaftGroup, ReplicaId, TopicPartition};

use crate::controller::GROUP as CONTROLLER;
use crate::node::Node;
use crate::partitions::{PartitionHandle, PartitionSlot};

/// Maximum names in one list. The totals are reported separately.
const LISTED_MAX: usize = 1000;

/// Returns the page as JSON.
pub async fn page(node: &Arc<Node>) -> String {
    let image = node.image();
    let census = Census::take(node, &image);
    let page = json!({
        "node": node.id().get(),
        "cluster_id": node.cluster_id,
        "level": image.features().cluster_level(),
        "nodes": nodes(node, &image, &census),
        "controller": controller(node).await,
        "partitions": {
            "total": census.total,
            "leaderless_total": census.leaderless_total,
            "leaderless": census.leaderless,
            "under_replicated_total": census.under_replicated_total,
            "under_replicated": census.under_replicated,
        },
        "reassignments": census.reassignments,
        "damaged": damaged(node).await,
        "scrub": node.scrubber.progress(),
    });
    format!("{page}\n")
}

/// Counts for the page, taken once.
#[derive(Default)]
struct Census {
    total: usize,
    leaders: BTreeMap<NodeId, usize>,
    replicas: BTreeMap<NodeId, usize>,
    leaderless_total: usize,
    leaderless: Vec<String>,
    under_replicated_total: usize,
    under_replicated: Vec<String>,
    reassignments: Vec<Value>,
}

impl Census {
    fn take(here: &Node, image: &MetadataImage) -> Self {
        let (mut census, leaders) = (Self::default(), here.links.leaders());
        for topic in image.topics() {
            for (number, partition) in topic.assignment() {
                let leader = leaders.get(RaftGroup { topic: topic.id, partition: number });
                let leader = leader.map(|leader| leader.replica.node()).filter(|node| image.is_live(*node));
                census.note(image, &TopicPartition::new(topic.name.clone(), number), partition, leader);
            }
        }
        census
    }

    fn note(
        &mut self,
        image: &MetadataImage,
        id: &TopicPartition,
        partition: &PartitionImage,
        leader: Option<NodeId>,
    ) {
        self.total += 1;
        match leader {
            Some(leader) => *self.leaders.entry(leader).or_insert(0) += 1,
            None => {
                self.leaderless_total += 1;
                list(&mut self.leaderless, || id.to_string());
            }
        }
        for replica in partition.present().filter(|replica| !partition.lost.contains(replica)) {
            *self.replicas.entry(replica.node()).or_insert(0) += 1;
        }
        let counts =
            |replica: &ReplicaId| image.is_live(replica.node()) && !partition.adding.contains(replica);
        if !partition.replicas.iter().all(counts) {
            self.under_replicated_total += 1;
            list(&mut self.under_replicated, || id.to_string());
        }
        if partition.is_reassigned() {
            list(&mut self.reassignments, || {
                json!({
                    "partition": id.to_string(),
                    "replicas": numbers(&partition.replicas),
                    "adding": numbers(&partition.incoming().collect::<Vec<_>>()),
                    "removing": numbers(&partition.removing),
                })
            });
        }
    }
}

fn list<T>(names: &mut Vec<T>, name: impl FnOnce() -> T) {
    if names.len() < LISTED_MAX {
        names.push(name());
    }
}

fn numbers(replicas: &[ReplicaId]) -> Vec<i32> {
    replicas.iter().map(|replica| replica.node().get()).collect()
}

/// A standalone server lists only itself.
fn nodes(here: &Node, image: &MetadataImage, census: &Census) -> Vec<Value> {
    let counted = |node: NodeId, mut entry: Value| {
        entry["leaders"] = census.leaders.get(&node).copied().unwrap_or(0).into();
        entry["replicas"] = census.replicas.get(&node).copied().unwrap_or(0).into();
        entry
    };
    let of = |node: &tailrace_metadata::NodeImage| {
        let known = &node.registration;
        let listener = |endpoint: &tailrace_metadata::KafkaEndpoint| {
            let protocol = endpoint.protocol.name();
            json!({ "name": endpoint.name, "protocol": protocol, "address": endpoint.address })
        };
        let entry = json!({
            "id": known.node.get(),
            "fenced": node.fenced,
            "kafka": known.kafka,
            "listeners": known.listeners.iter().map(listener).collect::<Vec<_>>(),
            "cluster": known.cluster,
            "nats": known.nats,
            "http": known.http,
            "rack": known.rack,
            "levels": [known.levels.0, known.levels.1],
        });
        counted(known.node, entry)
    };
    if image.nodes().len() == 0 {
        let own = here.id();
        return vec![counted(own, json!({ "id": own.get(), "fenced": false }))];
    }
    image.nodes().map(|node| of(node)).collect()
}

async fn controller(node: &Node) -> Value {
    let leader = node.links.leader(CONTROLLER).map(|leader| leader.replica.node().get());
    let members = node.controller.handle().members().await;
    let (voters, learners) = match members {
        Some(members) => (numbers(&members.voters), numbers(&members.learners)),
        None => (vec![node.id().get()], Vec::new()),
    };
    json!({ "leader": leader, "voters": voters, "learners": learners })
}

/// Lists the damage of this node's replicas.
async fn damaged(node: &Node) -> Vec<Value> {
    let mut found = Vec::new();
    let topics = Arc::clone(&node.topics());
    for topic in topics.iter() {
        for (slot, id) in topic.partitions.iter().zip(topic.image.topic_partitions()) {
            match slot {
                PartitionSlot::Offline(offline) => {
                    let reason = offline.reason.to_string();
                    list(&mut found, || damage(&id, "offline", &reason));
                }
                PartitionSlot::Online(handle) => of_handle(handle, &mut found).await,
                PartitionSlot::Elsewhere => {}
            }
        }
    }
    of_handle(&node.controller.handle(), &mut found).await;
    found
}

async fn of_handle(handle: &PartitionHandle, found: &mut Vec<Value>) {
    for range in handle.reader.log().damaged() {
        let state = match (handle.is_replica(), range.is_lost) {
            (false, _) => "not repaired: there is no other replica",
            (true, true) => "not repaired: no replica has it",
            (true, false) => "being repaired",
        };
        list(found, || damage(&handle.id, state, &range.to_string()));
    }
    if handle.is_halted() {
        let reason = handle.look(|core| core.halted().map(str::to_owned)).await.flatten();
        let reason = reason.or_else(|| handle.halted()).unwrap_or_default();
        list(found, || damage(&handle.id, "stopped", &reason));
    }
}

fn damage(id: &TopicPartition, state: &str, reason: &str) -> Value {
    json!({ "partition": id.to_string(), "state": state, "reason": reason })
}
