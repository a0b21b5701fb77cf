//! An administrator who deletes a topic, creates it again under the same name, and writes to it. Records that
//! were acknowledged for a later topic must not be lost with an earlier one of the same name.

use tailrace_env::time::{Duration, Instant};
use tailrace_kafka_wire::messages::create_topics_request::CreatableTopic;
use tailrace_kafka_wire::messages::delete_topics_request::DeleteTopicState;
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{
    CreateTopicsRequest, DeleteTopicsRequest, MetadataRequest, ProduceRequest,
};
use tailrace_kafka_wire::{ErrorCode, Records};
use tailrace_records::BatchOptions;

use super::client::{Client, batch, below, code, pause};
use crate::storm::site::{AGAIN_TOPIC, replicas_of};

const CREATE_TOPICS: i16 = 7;
const DELETE_TOPICS: i16 = 6;
const METADATA: i16 = 12;
/// The first version that names topics by their id.
const PRODUCE: i16 = 13;

/// Deletions stop after this time, because nodes must become whole again.
const CHURN: Duration = Duration::from_secs(5);

/// `number` identifies the client in the history, after the nodes.
pub(super) async fn run(mut client: Client, number: usize, nodes: usize) {
    client.history.lock().begins();
    let (begun, mut written) = (Instant::now(), 0);
    while !client.history.lock().has_ended(number) {
        pause(100).await;
        let Some(topic) = look(&mut client).await else {
            create(&mut client, nodes).await;
            continue;
        };
        let is_doomed = client.history.lock().is_doomed(topic.id);
        if is_doomed || begun.elapsed() < CHURN && below(4) == 0 {
            delete(&mut client, topic.id).await;
        } else if write(&mut client, topic, written).await {
            client.history.lock().done(number);
        }
        written += 1;
    }
    client.history.lock().finishes();
}

/// A topic of this name, as some node knows it.
#[derive(Clone, Copy)]
struct Found {
    id: [u8; 16],
    leader: i32,
}

/// Returns the topic. `None` if the node that was asked does not know one, or does not answer.
async fn look(client: &mut Client) -> Option<Found> {
    let named = MetadataRequestTopic { name: Some(AGAIN_TOPIC.to_owned()), ..Default::default() };
    let request =
        MetadataRequest { topics: Some(vec![named]), allow_auto_topic_creation: false, ..Default::default() };
    let answer = client.ask(client.any_node(), METADATA, &request).await?;
    let topic = answer.topics.into_iter().find(|topic| topic.error_code == 0)?;
    Some(Found { id: topic.topic_id, leader: topic.partitions.first()?.leader_id })
}

async fn create(client: &mut Client, nodes: usize) {
    let topic = CreatableTopic {
        name: AGAIN_TOPIC.to_owned(),
        num_partitions: 1,
        replication_factor: i16::try_from(replicas_of(AGAIN_TOPIC, nodes)).expect("a small number"),
        ..Default::default()
    };
    let request = CreateTopicsRequest { topics: vec![topic], timeout_ms: 2_000, ..Default::default() };
    let Some(answer) = client.ask(client.any_node(), CREATE_TOPICS, &request).await else { return };
    if answer.topics.first().is_some_and(|topic| topic.error_code == 0) {
        client.count("a topic was created");
    }
}

/// Deletes the topic by its id, so that no other topic is deleted instead. Whatever the answer, the topic may
/// be gone from now on.
async fn delete(client: &mut Client, id: [u8; 16]) {
    client.history.lock().dooms(id);
    let request = DeleteTopicsRequest {
        topics: vec![DeleteTopicState { topic_id: id, ..Default::default() }],
        timeout_ms: 2_000,
        ..Default::default()
    };
    let Some(answer) = client.ask(client.any_node(), DELETE_TOPICS, &request).await else { return };
    if answer.responses.first().is_some_and(|topic| topic.error_code == 0) {
        client.count("a topic was deleted");
    }
}

/// Writes a record. Returns true if it is acknowledged.
async fn write(client: &mut Client, topic: Found, number: u64) -> bool {
    let Ok(leader) = u8::try_from(topic.leader) else { return false };
    let value = format!("again.{number}");
    let records = Records::Bytes(batch(None, &value, BatchOptions::default()));
    let data = PartitionProduceData { index: 0, records, ..Default::default() };
    let request = ProduceRequest {
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![TopicProduceData {
            topic_id: topic.id,
            partition_data: vec![data],
            ..Default::default()
        }],
        ..Default::default()
    };
    let Some(answer) = client.ask(leader, PRODUCE, &request).await else { return false };
    let partition = answer.responses.first().and_then(|topic| topic.partition_responses.first());
    let is_stored = partition.is_some_and(|partition| code(partition.error_code) == ErrorCode::None);
    if is_stored {
        client.history.lock().stored_again(topic.id, value);
    }
    is_stored
}
