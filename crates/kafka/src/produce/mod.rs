//! Produce (0): checks batches, appends them, and answers as `acks` demands.
//!
//! Batches are validated before the partition is locked. They are appended while the request is decided, so
//! they keep the connection's order. Only the answer may have to wait, for the high watermark.
//!
//! This file handles the request and its answer. `topic` finds the topic, `partition` handles one partition,
//! `check` validates a batch, `transaction` prepares a transaction for a batch, and `refusal` builds the
//! answer for a refused partition.

mod check;
mod partition;
mod refusal;
mod topic;
mod transaction;

use std::collections::HashSet;
use std::sync::Arc;
use tailrace_env::time::Duration;

use tailrace_identity::acl::Operation;
use tailrace_kafka_wire::messages::produce_request::{ProduceRequest, TopicProduceData};
use tailrace_kafka_wire::messages::produce_response::{ProduceResponse, TopicProduceResponse};
use tailrace_kafka_wire::{ErrorCode, Reader};
use tailrace_replication::Appended;

use crate::closed::Closed;
use crate::context::{Context, Decided, decode};
use crate::leader_hints;
use crate::outbox::ReplyPart;
use partition::append_to_partition;
use refusal::PartitionRefusal;
use tailrace_env::aside::Turn;
use tailrace_node::Caller;
use tailrace_node::partitions::{PartitionHandle, WaitOutcome};
use topic::find_topic;
use transaction::{Transaction, header};

/// An append that is not committed until the partition's high watermark passes it.
struct Uncommitted {
    /// Number of replicas that must have it, if more than a majority.
    replicas: Option<usize>,
    /// Index of the topic and of the partition in the response.
    place: (usize, usize),
    handle: Arc<PartitionHandle>,
    appended: Appended,
}

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let mut request: ProduceRequest = decode(&context, reader)?;
    let (acks, timeout) =
        (request.acks, Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into()));
    if !(-1..=1).contains(&acks) {
        let response = refuse_all(&request, ErrorCode::InvalidRequiredAcks);
        return Ok(Decided::Reply(context.reply(response)?));
    }
    if let Err(code) = check_transaction(&context, &mut request) {
        let response = refuse_all(&request, code);
        return if acks == 0 {
            unless_failed(&response)
        } else {
            Ok(Decided::Reply(context.reply(response)?))
        };
    }
    let caller = context.caller().within(timeout);
    let (mut response, uncommitted) = append_all(&context, request, acks).await;
    let bytes = context.request_bytes as u64;
    context.throttle(context.node().produced(context.caller(), context.client_id(), bytes));
    response.throttle_time_ms = context.throttle_time_ms();
    if acks == 0 {
        context.charge_work();
        return unless_failed(&response);
    }
    if acks == 1 || uncommitted.is_empty() {
        leader_hints::in_produce(&context, &mut response);
        return Ok(Decided::Reply(context.reply(response)?));
    }
    Ok(Decided::Later(Box::pin(when_committed(context, response, uncommitted, caller))))
}

/// Refuses a transactional id with which the client may not write.
///
/// The batches say whether the request is transactional, and not the id (CVE-2018-17196). An id beside other
/// batches means nothing and is dropped: a transactional batch that is found later has none then, and is
/// refused.
fn check_transaction(context: &Context, request: &mut ProduceRequest) -> Result<(), ErrorCode> {
    let Some(id) = &request.transactional_id else { return Ok(()) };
    let batches = request.topic_data.iter().flat_map(|topic| &topic.partition_data);
    if !batches.filter_map(header).any(|header| header.attributes.is_transactional()) {
        request.transactional_id = None;
        return Ok(());
    }
    context.rights().transactional_id(Operation::Write, id)
}

fn refuse_all(request: &ProduceRequest, code: ErrorCode) -> ProduceResponse {
    let topic = |topic: &TopicProduceData| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic
            .partition_data
            .iter()
            .map(|data| PartitionRefusal::from(code).answer(data.index))
            .collect(),
        ..Default::default()
    };
    ProduceResponse { responses: request.topic_data.iter().map(topic).collect(), ..Default::default() }
}

/// Closes the connection of a client that asked for no answer if there was an error, as Kafka does.
fn unless_failed(response: &ProduceResponse) -> Result<Decided, Closed> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    match partitions.map(|p| p.error_code).find(|&code| code != ErrorCode::None.code()) {
        None => Ok(Decided::NoReply),
        Some(code) => {
            Err(Closed::Protocol(format!("a produce request with acks=0 failed with error {code}")))
        }
    }
}

/// Appends what can be appended. The answer is valid once all uncommitted appends are committed.
async fn append_all(
    context: &Context,
    mut request: ProduceRequest,
    acks: i16,
) -> (ProduceResponse, Vec<Uncommitted>) {
    let found: Vec<_> = {
        let rights = context.rights();
        request.topic_data.iter().map(|data| find_topic(context, &rights, data)).collect()
    };
    let transaction = match request.transactional_id.take() {
        Some(id) => {
            let topics: Vec<_> = request.topic_data.iter().zip(&found).collect();
            Some(Transaction::enter(context, id, &topics).await)
        }
        None => None,
    };
    let mut uncommitted = Vec::new();
    let mut seen = HashSet::new();
    let mut turn = Turn::begin();
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for (data, topic) in request.topic_data.into_iter().zip(found) {
        let mut partition_responses = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data {
            turn.rest().await;
            let index = partition.index;
            let response = match &topic {
                Err(code) => PartitionRefusal::from(*code).answer(index),
                // Kafka keeps one of several batches for the same partition. tailrace reports the others as
                // refused.
                Ok(topic) if !seen.insert((topic.id, index)) => {
                    let message = "the partition appears twice in the request";
                    PartitionRefusal::new(ErrorCode::InvalidRequest, message).answer(index)
                }
                Ok(topic) => {
                    match append_to_partition(context, topic, transaction.as_ref(), partition, acks).await {
                        Ok(written) => {
                            let (handle, appended) = (written.handle, written.appended);
                            let place = (responses.len(), partition_responses.len());
                            let replicas = written.replicas;
                            uncommitted.push(Uncommitted { replicas, place, handle, appended });
                            written.answer
                        }
                        Err(refusal) => refusal.counted(context, &topic.name, index).answer(index),
                    }
                }
            };
            partition_responses.push(response);
        }
        responses.push(TopicProduceResponse {
            name: data.name,
            topic_id: data.topic_id,
            partition_responses,
            ..Default::default()
        });
    }
    (ProduceResponse { responses, ..Default::default() }, uncommitted)
}

/// Waits until all appends are committed, or the request's deadline passes.
async fn when_committed(
    context: Context,
    mut response: ProduceResponse,
    uncommitted: Vec<Uncommitted>,
    caller: Caller,
) -> Result<Vec<ReplyPart>, Closed> {
    for uncommitted in uncommitted {
        let code = committed(&uncommitted, &caller).await;
        if code == ErrorCode::None {
            continue;
        }
        let (topic, partition) = uncommitted.place;
        let answer = &mut response.responses[topic].partition_responses[partition];
        let name = &uncommitted.handle.id.topic;
        *answer = PartitionRefusal::from(code).counted(&context, name, answer.index).answer(answer.index);
    }
    leader_hints::in_produce(&context, &mut response);
    context.reply(response)
}

async fn committed(uncommitted: &Uncommitted, caller: &Caller) -> ErrorCode {
    let Uncommitted { handle, appended, replicas, .. } = uncommitted;
    if let Some(committed) = handle.wait_committed(appended) {
        match caller.wait(committed).await {
            Ok(Ok(WaitOutcome::Committed)) => {}
            Ok(Ok(WaitOutcome::Halted) | Err(_)) => return ErrorCode::KafkaStorageError,
            Ok(Ok(WaitOutcome::Deposed)) => return ErrorCode::NotLeaderOrFollower,
            Err(_) => return ErrorCode::RequestTimedOut,
        }
    }
    let Some(replicas) = *replicas else { return ErrorCode::None };
    let replicated = handle.wait_replicated(appended.committed_at.offset(), replicas);
    match caller.wait(replicated).await {
        Ok(true) => ErrorCode::None,
        Ok(false) => ErrorCode::NotLeaderOrFollower,
        Err(_) => ErrorCode::NotEnoughReplicasAfterAppend,
    }
}
