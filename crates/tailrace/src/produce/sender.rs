//! Sends batches: several requests in flight to each node, in order per partition. Retries failures that may
//! pass.
//!
//! Retries of an idempotent producer keep the order. The server rejects a batch whose predecessor is missing,
//! and that batch then waits for its predecessor (see [`PartitionQueue`]).

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::{Duration, Instant};

use tailrace_kafka_wire::ErrorCode;
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::produce_response::PartitionProduceResponse;
use tailrace_kafka_wire::messages::{ApiVersionsRequest, ProduceRequest, ProduceResponse};
use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::accumulator::Batch;
use super::arguments::Acks;
use super::progress::{self, Progress};
use super::queue::PartitionQueue;
use crate::client::{ClientError, Cluster, Connection, Topic, find_topic};

/// First version that names topics by id (KIP-516).
const VERSION_WITH_IDS: i16 = 13;
/// Batches waiting in the queues. Beyond them the channel fills up.
const WAITING_MAX: usize = 64;
/// Wait before a failed request is retried.
const RETRY_WAIT: Duration = Duration::from_millis(100);

/// Delivery guarantees and limits.
#[derive(Clone, Copy, Debug)]
pub(super) struct Delivery {
    pub(super) acks: Acks,
    pub(super) in_flight_max: u8,
    /// Size of a request with several batches.
    pub(super) request_bytes_max: u64,
    /// Time from the first sending of a batch until it fails.
    pub(super) timeout: Duration,
}

/// A request that was answered, or failed.
struct Answered {
    node: i32,
    batches: Vec<Batch>,
    result: Result<ProduceResponse, ClientError>,
}

/// Sends batches; see the module.
pub(super) struct Sender {
    cluster: Cluster,
    topic: Topic,
    delivery: Delivery,
    progress: Arc<Progress>,
    partitions: BTreeMap<i32, PartitionQueue>,
    waiting: usize,
    in_flight: BTreeMap<i32, u8>,
    requests: JoinSet<Answered>,
    /// Metadata is due for a refresh, not before this time.
    refresh_at: Option<Instant>,
}

impl Sender {
    pub(super) fn new(cluster: Cluster, topic: Topic, delivery: Delivery, progress: Arc<Progress>) -> Self {
        Self {
            cluster,
            topic,
            delivery,
            progress,
            partitions: BTreeMap::new(),
            waiting: 0,
            in_flight: BTreeMap::new(),
            requests: JoinSet::new(),
            refresh_at: None,
        }
    }

    /// Sends everything from `queue`. Returns when the queue has ended and all batches are acknowledged, or
    /// at the first failure that is final.
    pub(super) async fn run(mut self, mut queue: mpsc::Receiver<Batch>) -> Result<(), ClientError> {
        let mut ticks = tokio::time::interval(progress::INTERVAL);
        let mut ended = false;
        loop {
            self.refresh_if_due().await?;
            if self.refresh_at.is_none() {
                self.send_what_can_be().await?;
            }
            if ended && self.waiting == 0 && self.requests.is_empty() {
                return self.confirm_unanswered().await;
            }
            tokio::select! {
                batch = queue.recv(), if !ended && self.waiting < WAITING_MAX => match batch {
                    Some(batch) => self.add(batch),
                    None => ended = true,
                },
                Some(answered) = self.requests.join_next(), if !self.requests.is_empty() => {
                    // The task neither panics nor is aborted while this runs.
                    if let Ok(answered) = answered {
                        self.take_answer(answered)?;
                    }
                }
                () = wait_until(self.refresh_at), if self.refresh_at.is_some() => {}
                _ = ticks.tick(), if self.progress.is_shown() => self.progress.show(),
            }
        }
    }

    fn add(&mut self, batch: Batch) {
        self.waiting += 1;
        self.partitions.entry(batch.partition).or_default().add(batch);
    }

    /// Refreshes the metadata if it is due.
    async fn refresh_if_due(&mut self) -> Result<(), ClientError> {
        if self.refresh_at.is_none_or(|at| Instant::now() < at) {
            return Ok(());
        }
        self.refresh_at = None;
        match find_topic(&mut self.cluster, &self.topic.name).await {
            Ok(topic) if topic.id != self.topic.id => Err(ClientError::refused(
                format!("topic '{}' was deleted and recreated in the meantime", topic.name),
                ErrorCode::UnknownTopicId.code(),
                None,
            )),
            Ok(topic) => {
                self.topic = topic;
                self.count_without_leader()
            }
            Err(error) if error.is_retriable() => {
                self.give_up_if_late(&error)?;
                self.refresh_later();
                Ok(())
            }
            Err(error) => Err(error),
        }
    }

    /// Counts the time that batches wait for a partition without a leader toward their timeout.
    fn count_without_leader(&mut self) -> Result<(), ClientError> {
        let mut missing = None;
        for (&partition, queue) in &mut self.partitions {
            if self.topic.leader(partition).is_none() && queue.count_first() {
                missing = Some(partition);
            }
        }
        let Some(partition) = missing else { return Ok(()) };
        let what = format!("partition {partition} has no leader");
        self.give_up_if_late(&ClientError::refused(what, ErrorCode::LeaderNotAvailable.code(), None))
    }

    fn refresh_later(&mut self) {
        self.refresh_at.get_or_insert_with(|| Instant::now() + RETRY_WAIT);
    }

    /// Fails if the oldest batch has timed out. `error` is the latest failure.
    fn give_up_if_late(&self, error: &ClientError) -> Result<(), ClientError> {
        let timeout = self.delivery.timeout;
        let oldest = self.partitions.values().filter_map(PartitionQueue::oldest_sent).min();
        match oldest {
            Some(sent) if sent.elapsed() >= timeout => Err(ClientError::Undelivered {
                topic: self.topic.name.clone(),
                timeout,
                reason: error.to_string(),
            }),
            _ => Ok(()),
        }
    }

    async fn send_what_can_be(&mut self) -> Result<(), ClientError> {
        while self.waiting > 0 {
            let Some((node, batches)) = self.next_request() else { return Ok(()) };
            self.waiting -= batches.len();
            match self.cluster.node(node).await {
                Ok(connection) => self.send(node, &connection, batches).await?,
                Err(error) => {
                    let result = Err(error);
                    *self.in_flight.entry(node).or_default() += 1;
                    self.take_answer(Answered { node, batches, result })?;
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Batches for a node that can take another request: the first ready one of each partition, while they
    /// fit.
    fn next_request(&mut self) -> Option<(i32, Vec<Batch>)> {
        let mut chosen: Option<i32> = None;
        let (mut batches, mut bytes) = (Vec::new(), 0);
        for (&partition, queue) in &mut self.partitions {
            let Some(size) = queue.ready_bytes() else { continue };
            let Some(leader) = self.topic.leader(partition) else {
                self.refresh_at.get_or_insert_with(|| Instant::now() + RETRY_WAIT);
                continue;
            };
            let has_room = self.in_flight.get(&leader).copied().unwrap_or(0) < self.delivery.in_flight_max;
            if !has_room || *chosen.get_or_insert(leader) != leader {
                continue;
            }
            if bytes > 0 && (bytes + size) as u64 > self.delivery.request_bytes_max {
                break;
            }
            bytes += size;
            batches.extend(queue.take());
        }
        chosen.filter(|_| !batches.is_empty()).map(|node| (node, batches))
    }

    async fn send(
        &mut self,
        node: i32,
        connection: &Connection,
        mut batches: Vec<Batch>,
    ) -> Result<(), ClientError> {
        for batch in &mut batches {
            batch.first_sent.get_or_insert_with(Instant::now);
        }
        let has_id = self.topic.id != [0; 16];
        let newest = if has_id { i16::MAX } else { VERSION_WITH_IDS - 1 };
        let version = connection.version_up_to::<ProduceRequest>(newest)?;
        let request = self.request(&batches);
        *self.in_flight.entry(node).or_default() += 1;
        let unanswered = self.delivery.acks == Acks::None;
        let begun = match unanswered {
            true => connection.begin_unanswered(&request, version).await,
            false => connection.begin(&request, version).await,
        };
        match begun {
            Ok(pending) if unanswered => self.requests.spawn(async move {
                let result = pending.sent().await.map(|()| ProduceResponse::default());
                Answered { node, batches, result }
            }),
            Ok(pending) => self.requests.spawn(async move {
                let result = pending.answer().await;
                Answered { node, batches, result }
            }),
            Err(error @ ClientError::Encode { .. }) => return Err(error),
            Err(error) => self.requests.spawn(async move { Answered { node, batches, result: Err(error) } }),
        };
        Ok(())
    }

    fn request(&self, batches: &[Batch]) -> ProduceRequest {
        let data = batches.iter().map(|batch| PartitionProduceData {
            index: batch.partition,
            records: batch.bytes.clone().into(),
            ..Default::default()
        });
        ProduceRequest {
            transactional_id: None,
            acks: self.delivery.acks.code(),
            timeout_ms: i32::try_from(self.delivery.timeout.as_millis()).unwrap_or(i32::MAX),
            topic_data: vec![TopicProduceData {
                name: self.topic.name.clone(),
                topic_id: self.topic.id,
                partition_data: data.collect(),
                ..Default::default()
            }],
            ..Default::default()
        }
    }

    fn take_answer(&mut self, answered: Answered) -> Result<(), ClientError> {
        if let Some(count) = self.in_flight.get_mut(&answered.node) {
            *count = count.saturating_sub(1);
        }
        let response = match answered.result {
            Ok(response) => response,
            Err(error) => return self.retry_all(answered.batches, error),
        };
        let mut results: BTreeMap<i32, PartitionProduceResponse> = response
            .responses
            .into_iter()
            .flat_map(|topic| topic.partition_responses)
            .map(|result| (result.index, result))
            .collect();
        for batch in answered.batches {
            let result = match self.delivery.acks {
                Acks::None => PartitionProduceResponse::default(),
                Acks::Leader | Acks::All => results.remove(&batch.partition).unwrap_or_else(missing),
            };
            self.take_result(batch, &result)?;
        }
        Ok(())
    }

    fn retry_all(&mut self, batches: Vec<Batch>, error: ClientError) -> Result<(), ClientError> {
        if !error.is_retriable() {
            return Err(error);
        }
        for batch in batches {
            self.send_again(batch);
        }
        self.give_up_if_late(&error)
    }

    fn send_again(&mut self, mut batch: Batch) {
        batch.first_sent.get_or_insert_with(Instant::now);
        self.waiting += 1;
        self.partitions.entry(batch.partition).or_default().back(batch);
        self.refresh_later();
    }

    fn take_result(&mut self, batch: Batch, result: &PartitionProduceResponse) -> Result<(), ClientError> {
        let queue = self.partitions.entry(batch.partition).or_default();
        let code = ErrorCode::from_code(result.error_code);
        let follows_a_failed_one = code == Some(ErrorCode::OutOfOrderSequenceNumber)
            && batch.has_sequence
            && !queue.is_first(batch.number);
        match code {
            // An earlier attempt stored it, and the response was lost.
            Some(ErrorCode::None | ErrorCode::DuplicateSequenceNumber) => {
                queue.done(batch.number);
                if queue.is_empty() {
                    self.partitions.remove(&batch.partition);
                }
                self.progress.acknowledge(batch.records, batch.content_bytes);
                Ok(())
            }
            _ if follows_a_failed_one => {
                self.send_again(batch);
                Ok(())
            }
            _ => {
                let error = self.refusal(&batch, result);
                if !error.is_retriable() {
                    return Err(error);
                }
                self.send_again(batch);
                self.give_up_if_late(&error)
            }
        }
    }

    fn refusal(&self, batch: &Batch, result: &PartitionProduceResponse) -> ClientError {
        let place = format!("in {}-{}", self.topic.name, batch.partition);
        let first = batch.first_record;
        // The server counts the records of a batch from 0, and its message may say so. Records of the input
        // count from 1.
        if let Some(error) = result.record_errors.first() {
            let index = u64::try_from(error.batch_index).unwrap_or(0);
            let what = if batch.is_run() || index == 0 {
                format!("record {} was not stored {place}", first + index)
            } else {
                format!(
                    "record {} of the batch that starts at record {first} was not stored {place}",
                    index + 1
                )
            };
            let reason = error.batch_index_error_message.clone();
            return ClientError::refused(what, result.error_code, reason.or(result.error_message.clone()));
        }
        let what = match batch.records {
            1 => format!("record {first} was not stored {place}"),
            _ => format!("records of the batch that starts at record {first} were not stored {place}"),
        };
        ClientError::refused(what, result.error_code, result.error_message.clone())
    }

    /// With acks=0 the server rejects records by closing the connection. One request after all the records
    /// shows whether it did, since a connection is served in order.
    async fn confirm_unanswered(&mut self) -> Result<(), ClientError> {
        if self.delivery.acks != Acks::None {
            return Ok(());
        }
        let leaders: Vec<i32> = self.in_flight.keys().copied().collect();
        for node in leaders {
            let connection = self.cluster.node(node).await?;
            let version = connection.version_up_to::<ApiVersionsRequest>(2)?;
            let asked = connection.begin(&ApiVersionsRequest::default(), version).await?.answer().await;
            asked.map_err(|error| ClientError::Unanswered { reason: error.to_string() })?;
        }
        Ok(())
    }
}

fn missing() -> PartitionProduceResponse {
    PartitionProduceResponse {
        error_code: ErrorCode::UnknownServerError.code(),
        error_message: Some("the response has no entry for this partition".to_owned()),
        ..Default::default()
    }
}

async fn wait_until(at: Option<Instant>) {
    if let Some(at) = at {
        tokio::time::sleep_until(at.into()).await;
    }
}
