//! Speaks Kafka's protocol to whichever node it reaches: an idempotent producer, which puts each batch again until it is acknowledged.

use std::io;
use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;
use tailrace_env::io::{AsyncReadExt, AsyncWriteExt};
use tailrace_env::net::{self, Stream};
use tailrace_env::random;
use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{InitProducerIdRequest, ProduceRequest};
use tailrace_kafka_wire::{ErrorCode, Records, Request, decode_response, request_frame};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{Offset, ProducerEpoch, ProducerId};

use super::history::{BatchFate, BatchName, History};
use super::site::{TOPIC, kafka_address};

/// How long an answer is waited for, at most.
const PATIENCE: Duration = Duration::from_secs(2);

/// Before a batch is put again.
const RETRY_PAUSE: Duration = Duration::from_millis(50);

const INIT_PRODUCER_ID: i16 = 4;
const PRODUCE: i16 = 9;

/// Bytes of an answer, at most.
const ANSWER_BYTES_MAX: i32 = 1 << 20;

pub(super) struct Producer {
    /// Its next batch.
    next: BatchName,
    nodes: u8,
    history: Arc<Mutex<History>>,
    id: Option<(ProducerId, ProducerEpoch)>,
    /// The batch that is put until it is acknowledged.
    pending: Option<(BatchName, Bytes)>,
}

impl Producer {
    /// `number`: in the history it counts as a node of its own, behind the others.
    pub(super) fn new(number: usize, nodes: u8, history: Arc<Mutex<History>>) -> Self {
        let next = BatchName { node: number, start: 0, writer: 0, number: 0 };
        Self { next, nodes, history, id: None, pending: None }
    }

    pub(super) async fn run(mut self) {
        while !self.has_ended() {
            // A connection that is lost is no fault of the node.
            let _ = self.speak().await;
            time::sleep(RETRY_PAUSE).await;
        }
    }

    fn has_ended(&self) -> bool {
        lock(&self.history).has_ended(self.next.node)
    }

    /// One connection, until it is lost, the node does not lead, or nothing is heard for too long.
    async fn speak(&mut self) -> io::Result<()> {
        let node = u8::try_from(random::u64() % u64::from(self.nodes)).expect("there are few") + 1;
        let stream = time::timeout(PATIENCE, net::connect(&kafka_address(node))).await.map_err(late)??;
        let mut talk = Talk { stream, correlation: 0 };
        let (id, epoch) = match self.id {
            Some(id) => id,
            None => self.become_producer(&mut talk).await?,
        };
        while !self.has_ended() {
            let (name, batch) = match &self.pending {
                Some(pending) => pending.clone(),
                None => self.begin(id, epoch),
            };
            let answer = talk.call(PRODUCE, &produce(batch)).await?;
            let partition = answer
                .responses
                .first()
                .and_then(|topic| topic.partition_responses.first())
                .ok_or_else(bad)?;
            match ErrorCode::from_code(partition.error_code) {
                Some(ErrorCode::None) => {
                    self.pending = None;
                    lock(&self.history).told(name, BatchFate::Stored(Offset(partition.base_offset)));
                }
                // One batch after the other, each until it is acknowledged: nothing can be missing.
                Some(
                    code @ (ErrorCode::OutOfOrderSequenceNumber
                    | ErrorCode::UnknownProducerId
                    | ErrorCode::InvalidProducerEpoch
                    | ErrorCode::DuplicateSequenceNumber),
                ) => {
                    lock(&self.history).found(format!("{name} was answered with {code:?}"));
                    return Err(bad());
                }
                _ => return Err(bad()),
            }
            time::sleep(Duration::from_micros(random::u64() % 50_000)).await;
        }
        Ok(())
    }

    async fn become_producer(&mut self, talk: &mut Talk) -> io::Result<(ProducerId, ProducerEpoch)> {
        let request = InitProducerIdRequest {
            transactional_id: None,
            producer_id: -1,
            producer_epoch: -1,
            ..InitProducerIdRequest::default()
        };
        let answer = talk.call(INIT_PRODUCER_ID, &request).await?;
        if answer.error_code != 0 {
            return Err(bad());
        }
        let id = (ProducerId(answer.producer_id), ProducerEpoch(answer.producer_epoch));
        self.id = Some(id);
        Ok(id)
    }

    /// The next batch, of one record.
    fn begin(&mut self, producer_id: ProducerId, producer_epoch: ProducerEpoch) -> (BatchName, Bytes) {
        let name = self.next;
        self.next.number += 1;
        let base_sequence = i32::try_from(name.number).expect("there are few");
        let mut builder = BatchBuilder::new(BatchOptions {
            producer_id,
            producer_epoch,
            base_sequence,
            ..BatchOptions::default()
        });
        let value = name.to_string();
        builder.push(time::wall_clock(), None, Some(value.as_bytes()), &[]).expect("it is small");
        let (_, batch) = builder.build_with_header();
        lock(&self.history).offered(name);
        self.pending.insert((name, batch)).clone()
    }
}

fn produce(batch: Bytes) -> ProduceRequest {
    let data = PartitionProduceData { index: 0, records: Records::Bytes(batch), ..Default::default() };
    let topic = TopicProduceData { name: TOPIC.to_owned(), partition_data: vec![data], ..Default::default() };
    ProduceRequest {
        transactional_id: None,
        acks: -1,
        timeout_ms: 1_000,
        topic_data: vec![topic],
        ..Default::default()
    }
}

fn late(_: impl std::fmt::Debug) -> io::Error {
    io::ErrorKind::TimedOut.into()
}

fn bad() -> io::Error {
    io::ErrorKind::InvalidData.into()
}

struct Talk {
    stream: Stream,
    correlation: i32,
}

impl Talk {
    async fn call<R: Request>(&mut self, version: i16, request: &R) -> io::Result<R::Response> {
        self.correlation += 1;
        let frame = request_frame(self.correlation, Some("storm"), version, request).map_err(|_| bad())?;
        let frame = frame.into_bytes().map_err(|_| bad())?;
        self.stream.write_all(&frame).await?;
        let answer = time::timeout(PATIENCE, self.receive()).await.map_err(late)??;
        let (correlation, response) = decode_response::<R>(answer, version).map_err(|_| bad())?;
        if correlation == self.correlation { Ok(response) } else { Err(bad()) }
    }

    async fn receive(&mut self) -> io::Result<Bytes> {
        let bytes = self.stream.read_i32().await?;
        if !(0..=ANSWER_BYTES_MAX).contains(&bytes) {
            return Err(bad());
        }
        let mut answer = vec![0; usize::try_from(bytes).map_err(|_| bad())?];
        self.stream.read_exact(&mut answer).await?;
        Ok(answer.into())
    }
}

fn lock(history: &Mutex<History>) -> std::sync::MutexGuard<'_, History> {
    history.lock().unwrap_or_else(PoisonError::into_inner)
}
