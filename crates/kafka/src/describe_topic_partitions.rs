//! DescribeTopicPartitions (75): topics by name, in pages.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::describe_topic_partitions_request::{
    Cursor as From, DescribeTopicPartitionsRequest,
};
use tailrace_kafka_wire::messages::describe_topic_partitions_response::{
    Cursor, DescribeTopicPartitionsResponse, DescribeTopicPartitionsResponsePartition,
    DescribeTopicPartitionsResponseTopic,
};
use tailrace_metadata::{MetadataImage, is_internal_topic};

use crate::context::Context;
use crate::lookup::legal_name;
use crate::rights::ApiRights;
use crate::topology::{self, PartitionState};
use tailrace_node::partitions::{Topic, TopicTable};

/// Most partitions in one answer, however many are requested: Kafka's `max.request.partition.size.limit`.
const PARTITIONS_MAX: i32 = 2000;

pub(crate) async fn handle(
    context: Arc<Context>,
    request: DescribeTopicPartitionsRequest,
) -> DescribeTopicPartitionsResponse {
    if let Some(cursor) = request.cursor.as_ref().filter(|cursor| cursor.partition_index < 0) {
        return bad_cursor(cursor);
    }
    let table = Arc::clone(&context.node().topics());
    let names: BTreeSet<String> = request.topics.into_iter().map(|topic| topic.name).collect();
    let limit = request.response_partition_limit.clamp(1, PARTITIONS_MAX);
    let mut page = Page {
        rights: context.rights(),
        context: &context,
        image: context.node().image(),
        cursor: request.cursor,
        // The limit is between 1 and the maximum.
        room: usize::try_from(limit).unwrap_or(1),
        response: DescribeTopicPartitionsResponse::default(),
    };
    if names.is_empty() {
        let rights = context.rights();
        let names = table.iter().map(|topic| topic.name.as_str());
        page.fill(names.filter(|name| rights.sees_topic(Operation::Describe, name)), &table);
    } else {
        page.fill(names.iter().map(String::as_str), &table);
    }
    page.response
}

fn bad_cursor(cursor: &From) -> DescribeTopicPartitionsResponse {
    let topic = DescribeTopicPartitionsResponseTopic {
        error_code: ErrorCode::InvalidRequest.code(),
        name: Some(cursor.topic_name.clone()),
        ..Default::default()
    };
    DescribeTopicPartitionsResponse { topics: vec![topic], ..Default::default() }
}

struct Page<'a> {
    rights: ApiRights<'a>,
    context: &'a Context,
    image: Arc<MetadataImage>,
    /// The start of the page.
    cursor: Option<From>,
    /// Number of partitions that still fit.
    room: usize,
    response: DescribeTopicPartitionsResponse,
}

impl Page<'_> {
    /// Adds topics until the page is full. Their names come in ascending order.
    fn fill<'a>(&mut self, names: impl Iterator<Item = &'a str>, table: &TopicTable) {
        for name in names {
            let first = match &self.cursor {
                Some(cursor) if name < cursor.topic_name.as_str() => continue,
                Some(cursor) if name == cursor.topic_name => {
                    usize::try_from(cursor.partition_index).unwrap_or(0)
                }
                _ => 0,
            };
            if self.room == 0 {
                self.stop_before(name, 0);
                return;
            }
            if let Err(code) = self.rights.topic(Operation::Describe, name) {
                self.response.topics.push(hidden(name, code));
                continue;
            }
            match table.by_name(name) {
                None => {
                    let operations = self.rights.topic_operations(true, name);
                    self.response.topics.push(unknown(name, operations));
                }
                Some(topic) => {
                    let next = self.add(&topic, first);
                    if next < topic.partition_count().unsigned_abs() as usize {
                        self.stop_before(name, next);
                        return;
                    }
                }
            }
        }
    }

    /// Adds partitions starting at `first`. Returns the first one that did not fit.
    fn add(&mut self, topic: &Topic, first: usize) -> usize {
        let numbers = (0..topic.partition_count()).skip(first).take(self.room);
        let place = |index| topology::partition_state(self.context, &self.image, topic, index);
        let partitions: Vec<_> = numbers.map(|index| partition(index, place(index))).collect();
        self.room -= partitions.len();
        let next = first + partitions.len();
        self.response.topics.push(DescribeTopicPartitionsResponseTopic {
            name: Some(topic.name.to_string()),
            topic_id: topic.id.0,
            is_internal: topic.internal,
            partitions,
            topic_authorized_operations: self.rights.topic_operations(true, topic.name.as_str()),
            ..Default::default()
        });
        next
    }

    fn stop_before(&mut self, name: &str, partition: usize) {
        self.response.next_cursor = Some(Cursor {
            topic_name: name.to_owned(),
            partition_index: i32::try_from(partition).expect("partitions have numbers of 31 bits"),
            ..Default::default()
        });
    }
}

/// The answer for a topic that the client may not see. It does not tell whether there is one.
fn hidden(name: &str, code: ErrorCode) -> DescribeTopicPartitionsResponseTopic {
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        name: Some(name.to_owned()),
        ..Default::default()
    }
}

fn unknown(name: &str, topic_authorized_operations: i32) -> DescribeTopicPartitionsResponseTopic {
    let code = match legal_name(name) {
        Ok(()) => ErrorCode::UnknownTopicOrPartition,
        Err(refusal) => refusal.code,
    };
    DescribeTopicPartitionsResponseTopic {
        error_code: code.code(),
        name: Some(name.to_owned()),
        is_internal: is_internal_topic(name),
        topic_authorized_operations,
        ..Default::default()
    }
}

fn partition(index: i32, place: PartitionState) -> DescribeTopicPartitionsResponsePartition {
    DescribeTopicPartitionsResponsePartition {
        error_code: place.error().code(),
        partition_index: index,
        leader_id: place.leader_id(),
        leader_epoch: place.leader_epoch(),
        replica_nodes: place.replicas,
        isr_nodes: place.in_sync,
        offline_replicas: place.offline,
        eligible_leader_replicas: Some(Vec::new()),
        last_known_elr: Some(Vec::new()),
        ..Default::default()
    }
}
