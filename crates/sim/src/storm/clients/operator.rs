//! An administrator who moves partitions to other nodes, and leadership to preferred leaders, while
//! everything goes on.

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::alter_partition_reassignments_request::{
    ReassignablePartition, ReassignableTopic,
};
use tailrace_kafka_wire::messages::{AlterPartitionReassignmentsRequest, ElectLeadersRequest};

use super::client::{Client, below, code, index, pause};
use crate::storm::history::Phase;
use crate::storm::site::{INTERNAL_PARTITIONS, INTERNAL_TOPICS, REPLICAS, TOPICS};

const ALTER_PARTITION_REASSIGNMENTS: i16 = 0;
const ELECT_LEADERS: i16 = 2;

/// Elects the first replica of the list.
const PREFERRED: i8 = 0;

/// The longest pause between two changes.
const PAUSE_MS: u64 = 1_200;

pub(super) async fn run(mut client: Client, nodes: u8) {
    client.history.lock().begins();
    while client.history.lock().phase() == Phase::Storm {
        pause(PAUSE_MS).await;
        if below(4) == 0 {
            elect(&mut client).await;
        } else if usize::from(nodes) >= REPLICAS {
            // Reassign internal topics too: what coordinators began before they moved then arrives after
            // their successors have gone on.
            let (topic, partitions) = match below(2) {
                0 => TOPICS[index(TOPICS.len())],
                _ => (INTERNAL_TOPICS[index(INTERNAL_TOPICS.len())], INTERNAL_PARTITIONS),
            };
            let partition = below(partitions.unsigned_abs().into());
            let partition = i32::try_from(partition).expect("a small number");
            reassign(&mut client, nodes, topic, partition).await;
            elect(&mut client).await;
        }
    }
    client.history.lock().finishes();
}

async fn elect(client: &mut Client) {
    let request = ElectLeadersRequest {
        election_type: PREFERRED,
        topic_partitions: None,
        timeout_ms: 1_000,
        ..Default::default()
    };
    let node = client.any_node();
    if client.ask(node, ELECT_LEADERS, &request).await.is_some_and(|answer| answer.error_code == 0) {
        client.count("preferred leaders were elected");
    }
}

/// Moves a partition to any three or more nodes. If there are no others, this only changes the preferred
/// leader.
async fn reassign(client: &mut Client, nodes: u8, topic: &str, partition_index: i32) {
    let mut all: Vec<i32> = (1..=i32::from(nodes)).collect();
    let number = REPLICAS + index(all.len() - REPLICAS + 1);
    let replicas = (0..number).map(|_| all.swap_remove(index(all.len()))).collect();
    let partition = ReassignablePartition { partition_index, replicas: Some(replicas), ..Default::default() };
    let topic =
        ReassignableTopic { name: topic.to_owned(), partitions: vec![partition], ..Default::default() };
    let request =
        AlterPartitionReassignmentsRequest { timeout_ms: 1_000, topics: vec![topic], ..Default::default() };
    let node = client.any_node();
    let answer = client.ask(node, ALTER_PARTITION_REASSIGNMENTS, &request).await;
    let result = answer.and_then(|answer| Some(answer.responses.first()?.partitions.first()?.error_code));
    if result.map(code) == Some(ErrorCode::None) {
        client.count("a reassignment was started");
    }
}
