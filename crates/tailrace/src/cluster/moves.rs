//! Reassignments, over Kafka's protocol.

use std::collections::BTreeMap;
use std::fmt;
use std::time::{Duration, Instant};

use tailrace_cli::failure::{Failure, note};
use tailrace_kafka_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use tailrace_kafka_wire::messages::{AlterPartitionReassignmentsRequest, ListPartitionReassignmentsRequest};

use super::placement::Placement;
use super::wait::POLL_INTERVAL;
use crate::client::{ClientError, Cluster, Topic, all_topics, check, retrying};

/// How long a request gives the server for a change.
const CHANGE_TIMEOUT_MS: i32 = 30_000;

/// A partition.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Which {
    pub(super) topic: String,
    pub(super) partition: i32,
}

impl Which {
    pub(super) fn new(topic: &str, partition: i32) -> Self {
        Self { topic: topic.to_owned(), partition }
    }
}

impl fmt::Display for Which {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}-{}", self.topic, self.partition)
    }
}

/// The target nodes of each partition; `None` cancels its move.
pub(super) type Moves = BTreeMap<Which, Option<Vec<i32>>>;

/// Starts moves.
pub(super) async fn begin(cluster: &mut Cluster, moves: &Moves) -> Result<(), ClientError> {
    let mut topics: BTreeMap<&String, Vec<ReassignablePartition>> = BTreeMap::new();
    for (which, replicas) in moves {
        topics.entry(&which.topic).or_default().push(ReassignablePartition {
            partition_index: which.partition,
            replicas: replicas.clone(),
            ..Default::default()
        });
    }
    let topics = topics.into_iter().map(|(name, partitions)| ReassignableTopic {
        name: name.clone(),
        partitions,
        ..Default::default()
    });
    let request = AlterPartitionReassignmentsRequest {
        timeout_ms: CHANGE_TIMEOUT_MS,
        allow_replication_factor_change: true,
        topics: topics.collect(),
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        check(answer.error_code, answer.error_message.as_ref(), || "cannot move replicas".to_owned())?;
        for topic in &answer.responses {
            for partition in &topic.partitions {
                let what = || format!("cannot move {}-{}", topic.name, partition.partition_index);
                check(partition.error_code, partition.error_message.as_ref(), what)?;
            }
        }
        Ok(())
    })
    .await
}

/// Lists the moves in progress: partitions, and the nodes that their replicas leave.
pub(super) async fn under_way(cluster: &mut Cluster) -> Result<BTreeMap<Which, Vec<i32>>, ClientError> {
    let request = ListPartitionReassignmentsRequest {
        timeout_ms: CHANGE_TIMEOUT_MS,
        topics: None,
        ..Default::default()
    };
    retrying(cluster, async |cluster| {
        let answer = cluster.controller().await?.call(&request).await?;
        check(answer.error_code, answer.error_message.as_ref(), || "cannot list moves".to_owned())?;
        let mut moves = BTreeMap::new();
        for topic in answer.topics {
            for partition in topic.partitions {
                let which = Which::new(&topic.name, partition.partition_index);
                moves.insert(which, partition.removing_replicas);
            }
        }
        Ok(moves)
    })
    .await
}

/// Lists all topics, internal ones included, and all nodes.
pub(super) async fn look(cluster: &mut Cluster) -> Result<(Vec<Topic>, Vec<(i32, Option<String>)>), Failure> {
    let topics = all_topics(cluster).await?;
    let answer = cluster.metadata(Some(&[]), false).await?;
    let nodes = answer.brokers.into_iter().map(|node| (node.node_id, node.rack));
    Ok((topics, nodes.collect()))
}

/// The placement over all nodes but `without`, loaded with all replicas.
pub(super) fn places(topics: &[Topic], nodes: Vec<(i32, Option<String>)>, without: Option<i32>) -> Placement {
    let replicas =
        topics.iter().flat_map(|topic| &topic.partitions).flat_map(|partition| &partition.replicas);
    Placement::new(nodes.into_iter().filter(|(node, _)| Some(*node) != without), replicas.copied())
}

/// Waits until none of `which` is moving any more. Returns false if `patience` ran out.
pub(super) async fn finished(
    cluster: &mut Cluster,
    which: &[Which],
    patience: Duration,
) -> Result<bool, Failure> {
    let began = Instant::now();
    let mut before = None;
    loop {
        let moves = under_way(cluster).await?;
        let left = which.iter().filter(|which| moves.contains_key(*which)).count();
        if left == 0 {
            return Ok(true);
        }
        if before != Some(left) {
            note(&format!("{left} of {} partitions are still moving", which.len()));
            before = Some(left);
        }
        if began.elapsed() >= patience {
            return Ok(false);
        }
        tokio::time::sleep(POLL_INTERVAL).await;
    }
}
