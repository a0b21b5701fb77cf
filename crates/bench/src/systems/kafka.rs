//! Kafka, and any server that speaks its protocol: a topic with one partition per connection, a producer and
//! a consumer without a group, each with its own connection to the partition's leader.
//!
//! Each message is a batch and a request of its own, unless several are due at once. Those share a batch, up
//! to `batch.size` bytes, as in a client with a `linger.ms` of 0. Requests are pipelined. The consumer always
//! has one Fetch waiting at the server (`fetch.max.wait.ms` 500, `fetch.min.bytes` 1). Nothing is retried, so
//! idempotence is not needed.
//!
//! Settings: `acks` (`all`, the default, `1`, or `0`: no acknowledgement), `batch.size`, `topic.KEY` (of the
//! topic), `replication` (its replicas, default 1; -1 for the server's default), `advertised=false` (stay at
//! the given address, whatever addresses servers advertise: for proxies and tunnels), `user`, `password`,
//! `mechanism`, and those of TLS. The cost of librdkafka is measured by another system, `kafka-librdkafka`.

use std::collections::VecDeque;
use std::time::{SystemTime, UNIX_EPOCH};

use bytes::Bytes;
use tailrace_kafka_wire::messages::fetch_request::{FetchPartition, FetchTopic};
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{FetchRequest, FetchResponse, ProduceRequest, ProduceResponse};
use tailrace_kafka_wire::{ErrorCode, Records};

use super::kafka_batch::{self, Batch, RECORD_OVERHEAD_BYTES};
use super::kafka_topics::{self, Topic};
use super::kafka_wire::{Broker, Login, answer, frame, reason};
use super::settings::Settings;
use super::site::Site;
use super::wire::Heard;
use super::{Role, addresses, names};
use crate::clock::Clock;
use crate::error::RequesterError;
use crate::requester::{Expects, Handed, PayloadBack, Readiness, Requester, Sink};

/// Largest size of a batch, the default of Kafka's producer; a larger message has a batch of its own.
const BATCH_BYTES_MAX: usize = 16_384;

/// How long a server may hold a Fetch, the default of Kafka's consumer.
const FETCH_WAIT_MS: i32 = 500;

/// Most bytes that a Fetch asks for. A larger batch is returned all the same.
const FETCH_BYTES_MAX: i32 = 16 << 20;

/// How long a server may take to replicate a batch.
const PRODUCE_TIMEOUT_MS: i32 = 30_000;

/// Upper bound for the bytes of a request around its batch.
const REQUEST_OVERHEAD_BYTES: usize = 512;

/// Bytes of a batch before its records, and of its first record around the value.
const BATCH_OVERHEAD_BYTES: usize = 61 + RECORD_OVERHEAD_BYTES;

/// The publishing end.
struct Producer {
    broker: Broker,
    version: i16,
    /// Every request is a copy of this one, with its own records.
    request: ProduceRequest,
    /// Correlation ids of unanswered requests, and the number of messages in each. Empty with acks 0.
    requests: VecDeque<(i32, u32)>,
    /// Sequences of their messages, oldest first, and of the messages in the open batch.
    unanswered: VecDeque<u64>,
    batch: Batch,
}

/// The receiving end.
struct Consumer {
    broker: Broker,
    version: i16,
    request: FetchRequest,
    /// The correlation id of the Fetch that waits at the server.
    waiting: i32,
}

pub(super) struct Kafka {
    site: Site,
    /// Bootstrap addresses, tried in turn.
    bootstrap: Vec<String>,
    login: Login,
    topic: Topic,
    role: Role,
    acks: i16,
    batch_bytes_max: usize,
    follows_advertised: bool,
    /// The topic was created.
    is_made: bool,
    /// The offset after the last message received.
    next_offset: i64,
    producer: Option<Producer>,
    consumer: Option<Consumer>,
}

impl Kafka {
    pub(super) fn new(
        list: &str,
        name: &str,
        role: Role,
        settings: &mut Settings,
    ) -> Result<Self, RequesterError> {
        let unknown = |key: &str, found: &str, expected: &str| {
            RequesterError::Unsupported(format!("{key}={found} is unknown: expected {expected}"))
        };
        let acks = match settings.take("acks").as_deref() {
            None | Some("all" | "-1") => -1,
            Some("1") => 1,
            Some("0") => 0,
            Some(other) => return Err(unknown("acks", other, "all, 1 or 0")),
        };
        let follows_advertised = match settings.take("advertised").as_deref() {
            None | Some("true") => true,
            Some("false") => false,
            Some(other) => return Err(unknown("advertised", other, "true or false")),
        };
        let batch_bytes_max = match settings.take("batch.size") {
            None => BATCH_BYTES_MAX,
            Some(text) => text.parse().map_err(|_| unknown("batch.size", &text, "bytes"))?,
        };
        if let Some((key, _)) = settings.take_prefixed("client.").into_iter().next() {
            return Err(RequesterError::Unsupported(format!(
                "client.{key} is a setting of librdkafka: expected --system kafka-librdkafka with it"
            )));
        }
        let topic = Topic::take(names::dotted(name), settings)?;
        let mut bootstrap: Vec<String> = addresses(list).map(str::to_owned).collect();
        let places = bootstrap.len().max(1);
        // Connections start at different addresses; their numbers are at the ends of their names.
        let number = name.rsplit('.').next().and_then(|text| text.parse::<usize>().ok()).unwrap_or(0);
        bootstrap.rotate_left(number % places);
        Ok(Self {
            site: Site::new(bootstrap.first().cloned().unwrap_or_default(), settings)?,
            bootstrap,
            login: Login::take(settings)?,
            topic,
            role,
            acks,
            batch_bytes_max,
            follows_advertised,
            is_made: false,
            next_offset: 0,
            producer: None,
            consumer: None,
        })
    }

    /// Connects to the first server that can be reached.
    fn bootstrap(&self) -> Result<Broker, RequesterError> {
        let mut failure = None;
        for address in &self.bootstrap {
            match Broker::connect(&self.site.at(address), &self.login) {
                Ok(broker) => return Ok(broker),
                Err(error) => failure = Some(failure.unwrap_or(error)),
            }
        }
        let none = || RequesterError::Unsupported("Kafka needs an address".to_owned());
        Err(failure.unwrap_or_else(none))
    }

    fn connect(&mut self) -> Result<(), RequesterError> {
        let mut first = self.bootstrap()?;
        if self.role.subscribes() && !self.is_made {
            self.topic.create(&mut first)?;
            self.is_made = true;
        }
        let advertised = kafka_topics::leader(&mut first, &self.topic.name)?;
        let leader = if self.follows_advertised { advertised } else { first.wire.address().to_owned() };
        let leader = self.site.at(&leader);
        let mut broker = Broker::connect(&leader, &self.login)?;
        let end = kafka_topics::end_offset(&mut broker, &self.topic.name)?;
        if self.role.subscribes() {
            // Records that the current leader had not written to disk are lost.
            self.next_offset = self.next_offset.min(end);
            let broker = Broker::connect(&leader, &self.login)?;
            self.consumer = Some(Consumer::new(broker, &self.topic.name, self.next_offset)?);
        }
        if self.role.publishes() {
            self.producer = Some(Producer::new(broker, &self.topic.name, self.acks)?);
        }
        Ok(())
    }

    fn close(&mut self) {
        (self.producer, self.consumer) = (None, None);
    }
}

impl Producer {
    fn new(broker: Broker, topic: &str, acks: i16) -> Result<Self, RequesterError> {
        let version = broker.version::<ProduceRequest>()?;
        let partition = PartitionProduceData::default();
        let topic_data = TopicProduceData {
            name: topic.to_owned(),
            partition_data: vec![partition],
            ..TopicProduceData::default()
        };
        let request = ProduceRequest {
            acks,
            timeout_ms: PRODUCE_TIMEOUT_MS,
            topic_data: vec![topic_data],
            ..ProduceRequest::default()
        };
        let (requests, unanswered, batch) = Default::default();
        Ok(Self { broker, version, request, requests, unanswered, batch })
    }

    /// Turns the open batch into a request.
    fn close_batch(&mut self) -> Result<(), RequesterError> {
        if self.batch.is_empty() {
            return Ok(());
        }
        let count = self.batch.count();
        let bytes = Bytes::from(self.batch.finish(now_ms()));
        self.request.topic_data[0].partition_data[0].records = Records::Bytes(bytes);
        let number = self.broker.push(self.version, &self.request)?;
        if self.request.acks != 0 {
            self.requests.push_back((number, count));
        }
        Ok(())
    }

    fn publish(
        &mut self,
        sequence: u64,
        payload: &[u8],
        batch_bytes_max: usize,
    ) -> Result<Handed, RequesterError> {
        let more = payload.len() + RECORD_OVERHEAD_BYTES;
        if self.batch.len() + more > batch_bytes_max {
            self.close_batch()?;
        }
        let bytes = self.batch.len() + payload.len() + BATCH_OVERHEAD_BYTES + REQUEST_OVERHEAD_BYTES;
        if self.broker.wire.room_for(bytes).is_none() {
            return Ok(Handed::Full);
        }
        self.batch.push(payload);
        if self.request.acks != 0 {
            self.unanswered.push_back(sequence);
        }
        Ok(Handed::Taken)
    }

    fn take_answers(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        let (requests, unanswered, version) = (&mut self.requests, &mut self.unanswered, self.version);
        self.broker.wire.take_apart(clock, |heard| {
            let Some((frame, used)) = frame(heard.data).map_err(|expected| heard.wrong(expected))? else {
                return Ok(None);
            };
            let (number, count) = requests.pop_front().ok_or_else(|| heard.wrong("no answer to nothing"))?;
            let answer =
                answer::<ProduceRequest>(frame, number, version).map_err(|expected| heard.wrong(expected))?;
            let refusal = refusal(&answer).map_err(|expected| heard.wrong(expected))?;
            for sequence in unanswered.drain(..(count as usize).min(unanswered.len())) {
                match &refusal {
                    None => sink.acknowledged(heard.at_ns, sequence),
                    Some((_, reason)) => sink.refused(heard.at_ns, sequence, reason),
                }
            }
            match refusal {
                Some((code, reason)) if has_moved(code) => Err(moved(heard, &reason)),
                _ => Ok(Some(used)),
            }
        })
    }
}

/// Error code and message for the only partition in a response.
fn refusal(answer: &ProduceResponse) -> Result<Option<(i16, String)>, &'static str> {
    let topic = answer.responses.first().ok_or("a topic in ProduceResponse")?;
    let partition = topic.partition_responses.first().ok_or("a partition in ProduceResponse")?;
    let code = partition.error_code;
    let is_refused = code != ErrorCode::None.code();
    Ok(is_refused.then(|| (code, reason(code, partition.error_message.as_deref()))))
}

impl Consumer {
    fn new(broker: Broker, topic: &str, offset: i64) -> Result<Self, RequesterError> {
        let version = broker.version::<FetchRequest>()?;
        let partition = FetchPartition { partition_max_bytes: FETCH_BYTES_MAX, ..FetchPartition::default() };
        let topic =
            FetchTopic { topic: topic.to_owned(), partitions: vec![partition], ..FetchTopic::default() };
        let request = FetchRequest {
            max_wait_ms: FETCH_WAIT_MS,
            min_bytes: 1,
            max_bytes: FETCH_BYTES_MAX,
            // No session: each request names the partition.
            session_epoch: -1,
            topics: vec![topic],
            ..FetchRequest::default()
        };
        let mut consumer = Self { broker, version, request, waiting: 0 };
        consumer.fetch(offset)?;
        Ok(consumer)
    }

    fn fetch(&mut self, offset: i64) -> Result<(), RequesterError> {
        self.request.topics[0].partitions[0].fetch_offset = offset;
        self.waiting = self.broker.push(self.version, &self.request)?;
        self.broker.wire.flush()
    }

    fn take_messages(
        &mut self,
        next_offset: &mut i64,
        clock: &dyn Clock,
        sink: &mut dyn Sink,
    ) -> Result<(), RequesterError> {
        let (number, version, mut is_answered) = (self.waiting, self.version, false);
        self.broker.wire.take_apart(clock, |heard| {
            let Some((frame, used)) = frame(heard.data).map_err(|expected| heard.wrong(expected))? else {
                return Ok(None);
            };
            let answer =
                answer::<FetchRequest>(frame, number, version).map_err(|expected| heard.wrong(expected))?;
            let records = fetched(heard, &answer)?;
            let end = kafka_batch::read(records, |offset, value| {
                // A batch that starts earlier is returned as a whole.
                if offset >= *next_offset {
                    sink.payload(heard.at_ns, value);
                }
            })
            .map_err(|expected| heard.wrong(expected))?;
            *next_offset = end.unwrap_or(*next_offset).max(*next_offset);
            is_answered = true;
            Ok(Some(used))
        })?;
        if is_answered { self.fetch(*next_offset) } else { self.broker.wire.flush() }
    }
}

/// The records of the only partition in a response.
fn fetched<'a>(heard: &Heard<'_>, answer: &'a FetchResponse) -> Result<&'a [u8], RequesterError> {
    let partition = answer.responses.first().and_then(|topic| topic.partitions.first());
    let code = if answer.error_code != 0 {
        answer.error_code
    } else {
        partition.map_or(ErrorCode::UnknownServerError.code(), |partition| partition.error_code)
    };
    if code != ErrorCode::None.code() {
        return Err(moved(heard, &reason(code, None)));
    }
    Ok(partition.and_then(|partition| partition.records.as_bytes()).map_or(&[][..], |bytes| &bytes[..]))
}

/// Reports whether the partition's leader must be looked up again.
fn has_moved(code: i16) -> bool {
    use ErrorCode::{
        FencedLeaderEpoch, KafkaStorageError, LeaderNotAvailable, NotLeaderOrFollower,
        UnknownTopicOrPartition,
    };
    [FencedLeaderEpoch, KafkaStorageError, LeaderNotAvailable, NotLeaderOrFollower, UnknownTopicOrPartition]
        .iter()
        .any(|known| known.code() == code)
}

/// The error that ends this connection, in the server's words.
fn moved(heard: &Heard<'_>, reason: &str) -> RequesterError {
    RequesterError::Unsupported(format!("{} says {reason}", heard.address))
}

fn now_ms() -> i64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(since.as_millis()).unwrap_or(i64::MAX)
}

impl Requester for Kafka {
    fn expects(&self) -> Expects {
        Expects {
            acknowledgement: self.acks != 0 && self.role.publishes(),
            payload: self.role.subscribes().then_some(PayloadBack::Receipt),
        }
    }

    fn set_up(&mut self) -> Result<(), RequesterError> {
        self.close();
        let was_made = self.is_made;
        let made = self.connect();
        if made.is_err() && !was_made {
            // An error here is ignored: the first error is the one to report.
            let _ = self.tear_down();
        }
        made
    }

    fn publish(&mut self, sequence: u64, payload: &[u8]) -> Result<Handed, RequesterError> {
        let Some(producer) = &mut self.producer else { return Ok(Handed::Full) };
        producer.publish(sequence, payload, self.batch_bytes_max)
    }

    fn flush(&mut self) -> Result<(), RequesterError> {
        let Some(producer) = &mut self.producer else { return Ok(()) };
        producer.close_batch()?;
        producer.broker.wire.flush()
    }

    fn receive(&mut self, clock: &dyn Clock, sink: &mut dyn Sink) -> Result<(), RequesterError> {
        if let Some(consumer) = &mut self.consumer {
            consumer.take_messages(&mut self.next_offset, clock, sink)?;
        }
        if let Some(producer) = &mut self.producer {
            producer.take_answers(clock, sink)?;
        }
        Ok(())
    }

    fn readiness(&self) -> Readiness<'_> {
        let producer = self.producer.as_ref().map(|producer| producer.broker.wire.watched());
        let consumer = self.consumer.as_ref().map(|consumer| consumer.broker.wire.watched());
        match (producer, consumer) {
            (Some(first), second) => Readiness::Sockets(first, second),
            (None, Some(only)) => Readiness::Sockets(only, None),
            (None, None) => Readiness::At(u64::MAX),
        }
    }

    fn tear_down(&mut self) -> Result<(), RequesterError> {
        self.close();
        if !std::mem::take(&mut self.is_made) {
            return Ok(());
        }
        kafka_topics::delete(&mut self.bootstrap()?, std::slice::from_ref(&self.topic.name))
    }
}
