//! Produce (0): check, append, answer as `acks` says.
//!
//! Batches are validated before the partition is locked. Appends happen while the request is decided, so they keep the
//! order of the connection; only the answer may have to wait, for the high watermark.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use tailrace_broker::coordinator::TransactionalProducer;
use tailrace_kafka_wire::messages::produce_request::{
    PartitionProduceData, ProduceRequest, TopicProduceData,
};
use tailrace_kafka_wire::messages::produce_response::{
    BatchIndexAndErrorMessage, PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use tailrace_kafka_wire::{ErrorCode, Reader, Records};
use tailrace_records::{BatchError, BatchHeader, Validated, validate};
use tailrace_replication::{AppendError, Appended, ProducerError, VerificationGuard};
use tailrace_types::{TimestampMs, TopicPartition};
use tokio::time::Instant;

use crate::broker::Broker;
use crate::connection::Closed;
use crate::kafka::commands::Refusal;
use crate::kafka::errors::{append_code, batch_code};
use crate::kafka::transactions::{ADDS_PARTITIONS_FROM, FirstBatch, add_partitions, verify_transaction};
use crate::kafka::{Context, Decided, decode};
use crate::partitions::{
    AppendFailure, Onward, PartitionHandle, PartitionSlot, Topic, WaitOutcome, append, append_verified,
    begin_verification, begin_verification_if_needed,
};

/// First version in which topics are named by id.
const IDS_FROM: i16 = 13;

/// First version in which a batch may be compressed with zstd (KIP-110), and the number of that codec.
const ZSTD_FROM: i16 = 7;
const ZSTD: u8 = 4;

/// Compressed batches above this size are checked on a worker thread: decompressing them takes longer than an event
/// loop may be kept from its other connections.
const CHECK_INLINE_BYTES: usize = 32 * 1024;

/// How often the coordinator of a transaction is asked about one batch. Each time again means that a marker was written meanwhile.
const VERIFICATIONS_MAX: usize = 5;

/// An append that is committed only once the partition's high watermark gets there.
struct Uncommitted {
    topic: usize,
    partition: usize,
    handle: Arc<PartitionHandle>,
    appended: Appended,
}

pub(crate) async fn decide(context: Context, reader: Reader) -> Result<Decided, Closed> {
    let request: ProduceRequest = decode(&context, reader)?;
    let (acks, timeout) =
        (request.acks, Duration::from_millis(request.timeout_ms.max(0).unsigned_abs().into()));
    if !(-1..=1).contains(&acks) {
        let response = refuse_all(&request, ErrorCode::InvalidRequiredAcks);
        return Ok(Decided::Reply(context.reply(&response)?));
    }
    let deadline = Instant::now() + timeout;
    let mut uncommitted = Vec::new();
    let response = append_all(&context, request, &mut uncommitted).await;
    if acks == 0 {
        return unless_failed(&response);
    }
    if acks == 1 || uncommitted.is_empty() {
        return Ok(Decided::Reply(context.reply(&response)?));
    }
    Ok(Decided::Later(Box::pin(when_committed(context, response, uncommitted, deadline))))
}

/// A client that asked for no answer is told of an error by a closed connection, as in Kafka.
fn unless_failed(response: &ProduceResponse) -> Result<Decided, Closed> {
    let partitions = response.responses.iter().flat_map(|topic| &topic.partition_responses);
    match partitions.map(|p| p.error_code).find(|&code| code != ErrorCode::None.code()) {
        None => Ok(Decided::NoReply),
        Some(code) => {
            Err(Closed::Protocol(format!("a produce request with acks=0 failed with error {code}")))
        }
    }
}

fn refuse_all(request: &ProduceRequest, code: ErrorCode) -> ProduceResponse {
    let topic = |topic: &TopicProduceData| TopicProduceResponse {
        name: topic.name.clone(),
        topic_id: topic.topic_id,
        partition_responses: topic.partition_data.iter().map(|p| refused(p.index, code, None)).collect(),
        ..Default::default()
    };
    ProduceResponse { responses: request.topic_data.iter().map(topic).collect(), ..Default::default() }
}

fn refused(index: i32, code: ErrorCode, message: Option<String>) -> PartitionProduceResponse {
    PartitionProduceResponse {
        index,
        error_code: code.code(),
        base_offset: -1,
        log_append_time_ms: -1,
        log_start_offset: -1,
        error_message: message,
        ..Default::default()
    }
}

async fn append_all(
    context: &Context,
    request: ProduceRequest,
    uncommitted: &mut Vec<Uncommitted>,
) -> ProduceResponse {
    let transactional_id = request.transactional_id.as_deref();
    let begun = Begun::by(context, &request).await;
    let mut seen = HashSet::new();
    let mut responses = Vec::with_capacity(request.topic_data.len());
    for data in request.topic_data {
        let topic = find_topic(context, &data);
        let mut partition_responses = Vec::with_capacity(data.partition_data.len());
        for partition in data.partition_data {
            let index = partition.index;
            let response = match &topic {
                Err(code) => refused(index, *code, None),
                // Kafka keeps one of several batches for the same partition; refusing the others says so.
                Ok(topic) if !seen.insert((topic.id, index)) => {
                    let message = "the partition appears twice in the request".to_owned();
                    refused(index, ErrorCode::InvalidRequest, Some(message))
                }
                Ok(topic) => {
                    let place = (responses.len(), partition_responses.len());
                    let transaction = transactional_id.map(|id| (id, &begun));
                    append_one(context, (topic, transaction), partition, place, uncommitted).await
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
    ProduceResponse { responses, ..Default::default() }
}

fn find_topic(context: &Context, data: &TopicProduceData) -> Result<Arc<Topic>, ErrorCode> {
    let topics = context.broker.topics();
    if context.version() >= IDS_FROM {
        topics.by_id(data.topic_id).ok_or(ErrorCode::UnknownTopicId)
    } else {
        topics.by_name(&data.name).ok_or(ErrorCode::UnknownTopicOrPartition)
    }
}

async fn append_one(
    context: &Context,
    (topic, transaction): (&Topic, Option<(&str, &Begun)>),
    data: PartitionProduceData,
    place: (usize, usize),
    uncommitted: &mut Vec<Uncommitted>,
) -> PartitionProduceResponse {
    let broker = &context.broker;
    let index = data.index;
    let fail = |code: ErrorCode, message: Option<String>| {
        broker.metrics.produce_error(code.name());
        refused(index, code, message)
    };
    if topic.internal {
        return fail(ErrorCode::InvalidTopicException, Some(format!("topic {} is internal", topic.name)));
    }
    let handle = match topic.partition(index) {
        None => return fail(ErrorCode::UnknownTopicOrPartition, None),
        Some(PartitionSlot::Offline(offline)) => {
            return fail(ErrorCode::KafkaStorageError, Some(offline.reason.to_string()));
        }
        Some(PartitionSlot::Online(handle)) => handle,
    };
    let now = broker.now();
    if context.version() < ZSTD_FROM && codec(&data.records) == ZSTD {
        return fail(ErrorCode::UnsupportedCompressionType, None);
    }
    let batch = match check(broker, topic, data.records, now).await {
        Ok(batch) => batch,
        Err(error) => return batch_refused(broker, handle, index, &error),
    };
    let log_append_time = if topic.log_append_time { now } else { TimestampMs::NONE };
    let (bytes, records) = (batch.bytes.len() as u64, batch.header.record_count.max(0).unsigned_abs());
    // Those who listen get the records from the log, later: only whether anybody might is looked at here.
    let onward = if broker.nats.listens_to(topic) { Onward::ToNats } else { Onward::Nowhere };
    let result = if batch.header.attributes.is_transactional() {
        let Some(transaction) = transaction else {
            let message = "a transactional batch needs a transactional id".to_owned();
            return fail(ErrorCode::TransactionalIdAuthorizationFailed, Some(message));
        };
        match append_transactional(context, (topic, transaction), (handle, batch), now, onward).await {
            Ok(result) => result,
            Err(refusal) => return fail(refusal.code, Some(refusal.message)),
        }
    } else {
        append(broker, handle, batch, now, onward).await
    };
    match result {
        Ok(appended) => {
            let time = appended.duplicate.map_or(log_append_time, |original| original.timestamp);
            if appended.duplicate.is_none() {
                broker.metrics.records_produced.inc_by(records.into());
                broker.metrics.bytes_produced.inc_by(bytes);
                broker.dirty.appended(bytes);
            }
            let (topic, partition) = place;
            uncommitted.push(Uncommitted { topic, partition, handle: Arc::clone(handle), appended });
            PartitionProduceResponse {
                index,
                base_offset: appended.base_offset.get(),
                log_append_time_ms: time.0,
                log_start_offset: handle.reader.log_start().get(),
                ..Default::default()
            }
        }
        Err(AppendFailure::Gone) => fail(ErrorCode::NotLeaderOrFollower, None),
        Err(AppendFailure::Refused(error)) => fail(append_code(&error), Some(error.to_string())),
    }
}

/// Appends a batch of a transaction. Before the first one here, the transaction's coordinator is asked.
///
/// A producer begins its next transaction while the markers of the one before are being written. The coordinator's answer
/// waits for these, and the marker that comes meanwhile makes the guard worthless: then it is asked again.
async fn append_transactional(
    context: &Context,
    (topic, (transactional_id, begun)): (&Topic, (&str, &Begun)),
    (handle, batch): (&Arc<PartitionHandle>, Validated),
    now: TimestampMs,
    onward: Onward,
) -> Result<Result<Appended, AppendFailure>, Refusal> {
    let broker = &context.broker;
    let mut result = match begun.guard(handle)? {
        Some(guard) => append_verified(broker, handle, (batch.clone(), guard), now, onward).await,
        None => append(broker, handle, batch.clone(), now, onward).await,
    };
    let adds_partition = context.version() >= ADDS_PARTITIONS_FROM;
    for _ in 0..VERIFICATIONS_MAX {
        if !matches!(
            &result,
            Err(AppendFailure::Refused(AppendError::Producer(ProducerError::Unverified { .. })))
        ) {
            return Ok(result);
        }
        let guard = match begin_verification(handle, &batch.header, adds_partition, now).await {
            Ok(guard) => guard,
            Err(failure) => return Ok(Err(failure)),
        };
        let first = FirstBatch {
            transactional_id,
            topic,
            partition: handle.id.partition.0,
            producer_id: batch.header.producer_id,
            producer_epoch: batch.header.producer_epoch,
            adds_partition,
        };
        verify_transaction(context, first).await?;
        result = append_verified(broker, handle, (batch.clone(), guard), now, onward).await;
    }
    Ok(result)
}

/// Partitions that one request brings into its transaction: its coordinator is asked once, not once for each, because every
/// answer waits for the coordinator's log.
struct Begun {
    guards: HashMap<TopicPartition, VerificationGuard>,
    refusal: Option<Refusal>,
}

impl Begun {
    /// Nothing is done for requests with one partition, nor for clients that add partitions by themselves.
    async fn by(context: &Context, request: &ProduceRequest) -> Self {
        let mut begun = Self { guards: HashMap::new(), refusal: None };
        let Some(transactional_id) = &request.transactional_id else { return begun };
        let partitions = request.topic_data.iter().map(|topic| topic.partition_data.len()).sum::<usize>();
        if context.version() < ADDS_PARTITIONS_FROM || partitions < 2 {
            return begun;
        }
        let mut by = None;
        for data in &request.topic_data {
            let Ok(topic) = find_topic(context, data) else { continue };
            if topic.internal {
                continue;
            }
            for partition in &data.partition_data {
                let Some(PartitionSlot::Online(handle)) = topic.partition(partition.index) else { continue };
                let Records::Bytes(bytes) = &partition.records else { continue };
                let Ok(header) = BatchHeader::parse(bytes) else { continue };
                let producer = TransactionalProducer { id: header.producer_id, epoch: header.producer_epoch };
                if *by.get_or_insert(producer) != producer {
                    continue;
                }
                let now = context.broker.now();
                if let Some(guard) = begin_verification_if_needed(handle, &header, true, now).await {
                    begun.guards.insert(handle.id.clone(), guard);
                }
            }
        }
        let Some(producer) = by.filter(|_| !begun.guards.is_empty()) else { return begun };
        let partitions = begun.guards.keys().cloned().collect();
        begun.refusal = add_partitions(context, (transactional_id, producer), partitions).await.err();
        begun
    }

    /// The guard of a partition that was brought in here.
    ///
    /// # Errors
    /// The coordinator's, if it was asked for this partition.
    fn guard(&self, handle: &PartitionHandle) -> Result<Option<VerificationGuard>, Refusal> {
        match (self.guards.get(&handle.id), &self.refusal) {
            (Some(_), Some(refusal)) => Err(Refusal::new(refusal.code, refusal.message.clone())),
            (guard, _) => Ok(guard.copied()),
        }
    }
}

/// Validates on the event loop what is quickly validated, and on a worker what is not.
async fn check(
    broker: &Broker,
    topic: &Topic,
    records: Records,
    now: TimestampMs,
) -> Result<Validated, BatchError> {
    let compressed = codec(&records) != 0;
    let Records::Bytes(bytes) = records else {
        return Err(BatchError::Incomplete { bytes_needed: tailrace_records::HEADER_BYTES, bytes: 0 });
    };
    let rules = topic.append_rules(now, broker.limits.decompressed_bytes_max);
    let heavy = bytes.len() > CHECK_INLINE_BYTES && (rules.compression.is_some() || compressed);
    if !heavy {
        return validate(bytes, &rules);
    }
    let checked = tokio::task::spawn_blocking(move || validate(bytes, &rules)).await;
    checked.unwrap_or(Err(BatchError::Incomplete { bytes_needed: 0, bytes: 0 }))
}

/// The number of the codec, which the attributes' low three bits at the batch's byte 22 name; 0 if there is no batch.
fn codec(records: &Records) -> u8 {
    let Records::Bytes(bytes) = records else { return 0 };
    bytes.get(22).map_or(0, |low| low & 0x07)
}

fn batch_refused(
    broker: &Broker,
    handle: &PartitionHandle,
    index: i32,
    error: &BatchError,
) -> PartitionProduceResponse {
    let code = batch_code(error);
    broker.metrics.produce_error(code.name());
    let rejections = match error {
        BatchError::InvalidTimestamps(rejections) | BatchError::InvalidRecords(rejections) => {
            rejections.records.as_slice()
        }
        _ => &[],
    };
    let record_errors = rejections
        .iter()
        .map(|rejection| BatchIndexAndErrorMessage {
            batch_index: rejection.index,
            batch_index_error_message: Some(rejection.reason.to_string()),
            ..Default::default()
        })
        .collect();
    PartitionProduceResponse {
        log_start_offset: handle.reader.log_start().get(),
        record_errors,
        ..refused(index, code, Some(error.to_string()))
    }
}

/// Waits until everything appended is committed, or the request's time is up.
async fn when_committed(
    context: Context,
    mut response: ProduceResponse,
    uncommitted: Vec<Uncommitted>,
    deadline: Instant,
) -> Result<Vec<crate::outbox::ReplyPart>, Closed> {
    for waiting in uncommitted {
        let Some(committed) = waiting.handle.wait_committed(waiting.appended.committed_at) else { continue };
        let code = match tokio::time::timeout_at(deadline, committed).await {
            Ok(Ok(WaitOutcome::Committed)) => continue,
            Ok(Ok(WaitOutcome::Halted) | Err(_)) => ErrorCode::KafkaStorageError,
            Err(_) => ErrorCode::RequestTimedOut,
        };
        context.broker.metrics.produce_error(code.name());
        let answer = &mut response.responses[waiting.topic].partition_responses[waiting.partition];
        *answer = refused(answer.index, code, None);
    }
    context.reply(&response)
}
