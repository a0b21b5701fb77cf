//! What all Kafka clients have in common: connections, and knowledge of leaders and coordinators.

use std::collections::BTreeMap;

use bytes::Bytes;
use tailrace_env::random;
use tailrace_env::time::{self, Duration};
use tailrace_kafka_wire::messages::metadata_request::MetadataRequestTopic;
use tailrace_kafka_wire::messages::produce_request::{PartitionProduceData, TopicProduceData};
use tailrace_kafka_wire::messages::{FindCoordinatorRequest, MetadataRequest, ProduceRequest};
use tailrace_kafka_wire::{ErrorCode, Records, Request, TaggedFields};
use tailrace_records::{BatchBuilder, BatchOptions};
use tailrace_types::{LeaderEpoch, Offset, PartitionId, ProducerEpoch, ProducerId, TopicPartition};
use tracing::{debug, trace};

use super::connection::{CallError, Connection};
use super::judged::judge_login;
use super::sasl::{Login, Outcome};
use crate::storm::access::Secret;
use crate::storm::history::{Phase, SharedHistory};
use crate::storm::site::{Keeps, TOPICS, topic_partition};

const METADATA: i16 = 12;
const FIND_COORDINATOR: i16 = 4;

/// In runs with tight nodes, one of so many requests with records is large.
const LARGE_ONE_IN: u64 = 3;

/// A field that no version of Kafka knows, and its size in large requests. Nodes need memory for them that
/// has to be there, and have hardly enough for two.
const LARGE_FIELD: u32 = 9_999;
const LARGE_BYTES: (u64, u64) = (66_000, 110_000);

/// Pause before a node is asked again.
const RETRY_PAUSE: Duration = Duration::from_millis(20);

/// The type of a coordinator key, as FindCoordinator names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Coordinated {
    Group = 0,
    Transaction = 1,
}

pub(super) struct Client {
    pub(super) history: SharedHistory,
    nodes: u8,
    connections: BTreeMap<u8, Connection>,
    leaders: BTreeMap<TopicPartition, (u8, LeaderEpoch)>,
    replicas: BTreeMap<TopicPartition, Vec<u8>>,
    topic_ids: BTreeMap<String, [u8; 16]>,
    coordinators: BTreeMap<(Coordinated, String), u8>,
    unanswered: u64,
    /// `None` if nobody logs in.
    login: Option<Login>,
}

impl Client {
    pub(super) fn new(nodes: u8, history: SharedHistory) -> Self {
        Self {
            login: Login::of_clients(&history),
            history,
            nodes,
            connections: BTreeMap::new(),
            leaders: BTreeMap::new(),
            replicas: BTreeMap::new(),
            topic_ids: BTreeMap::new(),
            coordinators: BTreeMap::new(),
            unanswered: 0,
        }
    }

    /// Returns a client that logs in as another user.
    pub(super) fn logged_in_as(self, user: &'static str) -> Self {
        Self { login: Some(Login { user, secret: Secret::Password(0) }), ..self }
    }

    /// Connects to a node, and logs in.
    async fn connect(&self, node: u8) -> Option<Connection> {
        let mut connection = Connection::open(node).await.ok()?;
        let Some(login) = &self.login else { return Some(connection) };
        let before = self.history.lock().access.look(node);
        let outcome = connection.log_in(login, &self.history).await;
        judge_login(&self.history, node, login, before.as_ref(), outcome);
        (outcome == Outcome::LoggedIn).then_some(connection)
    }

    /// Connects again for the next requests. What is sent on a connection that is lost already has no answer.
    pub(super) fn hang_up(&mut self) {
        self.connections.clear();
    }

    /// Returns how many requests were sent without an answer and may have been carried out.
    pub(super) fn unanswered(&self) -> u64 {
        self.unanswered
    }

    pub(super) fn is_ending(&self) -> bool {
        self.history.lock().phase() == Phase::Ending
    }

    pub(super) fn keeps(&self, id: &TopicPartition) -> Keeps {
        self.history.lock().keeps(id.topic.as_str())
    }

    pub(super) fn count(&self, what: &'static str) {
        self.history.lock().count(what);
    }

    pub(super) async fn ask<R: Request>(
        &mut self,
        node: u8,
        version: i16,
        request: &R,
    ) -> Option<R::Response> {
        let mut connection = match self.connections.remove(&node) {
            Some(connection) => connection,
            None => self.connect(node).await?,
        };
        debug!(node, request = R::NAME, "a client asks");
        trace!(?request);
        match connection.call(version, request).await {
            Ok(response) => {
                debug!(node, request = R::NAME, "a client is answered");
                trace!(?response);
                self.connections.insert(node, connection);
                return Some(response);
            }
            Err(CallError::Lost) => debug!(node, request = R::NAME, "a client has no answer"),
            Err(CallError::Illegible(what)) => self.history.lock().found(what),
        }
        self.unanswered += 1;
        None
    }

    pub(super) fn any_node(&self) -> u8 {
        u8::try_from(below(self.nodes.into())).expect("a small number") + 1
    }

    /// Asks some node for all leaders, and forgets all coordinators. Never goes back to an earlier leader.
    pub(super) async fn refresh(&mut self) {
        self.coordinators.clear();
        time::sleep(RETRY_PAUSE).await;
        let named = TOPICS
            .map(|(name, _)| MetadataRequestTopic { name: Some(name.to_owned()), ..Default::default() });
        let request = MetadataRequest { topics: Some(named.into()), ..Default::default() };
        let Some(answer) = self.ask(self.any_node(), METADATA, &request).await else { return };
        for topic in answer.topics {
            let name = topic.name.unwrap_or_default();
            if topic.error_code == 0 {
                self.topic_ids.insert(name.clone(), topic.topic_id);
            }
            for partition in topic.partitions {
                let id = topic_partition(&name, PartitionId(partition.partition_index));
                let node = |number: i32| u8::try_from(number).ok();
                let replicas = partition.replica_nodes.into_iter().filter_map(node).collect();
                self.replicas.insert(id.clone(), replicas);
                let Some(leader) = node(partition.leader_id) else { continue };
                let led = (leader, LeaderEpoch(partition.leader_epoch));
                let known = self.leaders.entry(id).or_insert(led);
                if led.1 >= known.1 {
                    *known = led;
                }
            }
        }
    }

    /// Returns the leader of a partition, as far as this client knows.
    pub(super) async fn leader(&mut self, id: &TopicPartition) -> Option<(u8, LeaderEpoch)> {
        if !self.leaders.contains_key(id) {
            self.refresh().await;
        }
        self.leaders.get(id).copied()
    }

    pub(super) async fn topic_id(&mut self, topic: &str) -> Option<[u8; 16]> {
        if !self.topic_ids.contains_key(topic) {
            self.refresh().await;
        }
        self.topic_ids.get(topic).copied()
    }

    pub(super) fn replicas(&self, id: &TopicPartition) -> &[u8] {
        self.replicas.get(id).map_or(&[], Vec::as_slice)
    }

    /// Returns the coordinator of a group or a transactional id, as far as this client knows.
    pub(super) async fn coordinator(&mut self, what: Coordinated, key: &str) -> Option<u8> {
        let known = (what, key.to_owned());
        if let Some(node) = self.coordinators.get(&known) {
            return Some(*node);
        }
        let coordinator_keys = vec![key.to_owned()];
        let request = FindCoordinatorRequest { key_type: what as i8, coordinator_keys, ..Default::default() };
        let answer = self.ask(self.any_node(), FIND_COORDINATOR, &request).await;
        let found = answer.and_then(|answer| u8::try_from(answer.coordinators.first()?.node_id).ok());
        match found {
            Some(node) => {
                self.coordinators.insert(known, node);
            }
            None => time::sleep(RETRY_PAUSE).await,
        }
        found
    }

    /// Returns what makes some requests large, and all at the end, without a large record.
    pub(super) fn weight(&self) -> TaggedFields {
        let is_tight = self.history.lock().habits().is_tight;
        let is_large = is_tight && (self.is_ending() || below(LARGE_ONE_IN) == 0);
        if !is_large {
            return TaggedFields::default();
        }
        self.count("a large request was sent");
        let (least, most) = LARGE_BYTES;
        let bytes = usize::try_from(least + below(most - least)).expect("a small number");
        TaggedFields::of(LARGE_FIELD, Bytes::from(vec![0; bytes]))
    }

    /// Sends a batch to the leader of its partition, as far as this client knows. `None` if there was no
    /// answer.
    pub(super) async fn produce(
        &mut self,
        id: &TopicPartition,
        batch: Bytes,
        how: Produce<'_>,
    ) -> Option<Result<Offset, ErrorCode>> {
        let (node, _) = self.leader(id).await?;
        let data = PartitionProduceData {
            index: id.partition.0,
            records: Records::Bytes(batch),
            ..Default::default()
        };
        let name = id.topic.as_str().to_owned();
        let request = ProduceRequest {
            transactional_id: how.transactional_id.map(str::to_owned),
            acks: -1,
            timeout_ms: 1_000,
            topic_data: vec![TopicProduceData { name, partition_data: vec![data], ..Default::default() }],
            unknown_tagged_fields: self.weight(),
        };
        let answer = self.ask(node, how.version, &request).await?;
        let partition = answer.responses.first()?.partition_responses.first()?.clone();
        Some(match code(partition.error_code) {
            ErrorCode::None => Ok(Offset(partition.base_offset)),
            refused => Err(refused),
        })
    }
}

/// A producer's id and epoch, as in its batches.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Producer {
    pub(super) id: ProducerId,
    pub(super) epoch: ProducerEpoch,
}

impl Producer {
    /// The producer that an answer names.
    pub(super) fn new(id: i64, epoch: i16) -> Self {
        Self { id: ProducerId(id), epoch: ProducerEpoch(epoch) }
    }
}

/// How a batch is sent.
#[derive(Clone, Copy)]
pub(super) struct Produce<'a> {
    pub(super) version: i16,
    pub(super) transactional_id: Option<&'a str>,
}

/// Builds a batch with a single record, which has this key and value.
pub(super) fn batch(key: Option<&str>, value: &str, options: BatchOptions) -> Bytes {
    let mut builder = BatchBuilder::new(options);
    let (key, value) = (key.map(str::as_bytes), Some(value.as_bytes()));
    builder.push(time::wall_clock(), key, value, &[]).expect("the record fits into the batch");
    let (_, batch) = builder.build_with_header();
    batch
}

pub(super) fn code(code: i16) -> ErrorCode {
    ErrorCode::from_code(code).unwrap_or(ErrorCode::UnknownServerError)
}

/// Returns a number below `end`, from the world's random numbers.
pub(super) fn below(end: u64) -> u64 {
    random::u64() % end
}

/// Returns an index below `end`.
pub(super) fn index(end: usize) -> usize {
    usize::try_from(below(end as u64)).expect("a number below an index")
}

/// Pauses for less than this many milliseconds.
pub(super) async fn pause(ms: u64) {
    time::sleep(Duration::from_micros(below(ms * 1_000))).await;
}
