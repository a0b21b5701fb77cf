//! The coordinator: the durable consumers of all streams of one partition of `__jetstream_state`.

use std::collections::BTreeMap;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tailrace_records::internal::{
    ConsumerSnapshotValue, ConsumerUpdateValue, ConsumersLeaderValue, InternalRecordError,
    StreamConsumersKey, StreamConsumersKind,
};
use tailrace_types::{TimestampMs, TopicId};

use super::state::{ConsumerWrite, ConsumersPage, ConsumersWrite, Stream, WholeConsumer};
use crate::coordinator::{Coordinator, CoordinatorRecord, Effects, Moment, ReplayError, Replayed, Token};

/// Maximum length of a consumer's name. JetStream allows 255.
const NAME_BYTES_MAX: usize = 1024;

/// A request to the coordinator.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumersRequest {
    /// Tells whether the stream has consumers. Changes nothing.
    HasAny {
        /// The stream's topic.
        #[serde(with = "tailrace_metadata::serial")]
        topic: TopicId,
    },
    /// Opens the consumers of a stream for its leader. Answers with a generation: from now on writes of other
    /// generations are refused.
    Open {
        /// The stream's topic.
        #[serde(with = "tailrace_metadata::serial")]
        topic: TopicId,
        /// The epoch in which it leads the stream.
        leader_epoch: i32,
    },
    /// Reads consumers, a page at a time.
    Read {
        /// The stream's topic.
        #[serde(with = "tailrace_metadata::serial")]
        topic: TopicId,
        /// The reader's generation.
        generation: i64,
        /// The last name of the page before. Empty at first.
        after: String,
    },
    /// Applies a change. The reply is sent once the change is committed.
    Write {
        /// The stream's topic.
        #[serde(with = "tailrace_metadata::serial")]
        topic: TopicId,
        /// The writer's generation.
        generation: i64,
        /// The number of the write, one above that of the write before. The first one has 1.
        sequence: i64,
        /// The change.
        write: ConsumersWrite,
    },
}

impl ConsumersRequest {
    /// Returns the stream's topic.
    pub fn topic(&self) -> TopicId {
        match self {
            Self::HasAny { topic }
            | Self::Open { topic, .. }
            | Self::Read { topic, .. }
            | Self::Write { topic, .. } => *topic,
        }
    }
}

/// A request, with the token for its reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumersEvent {
    /// Identifies the request.
    pub token: Token,
    /// The request.
    pub request: ConsumersRequest,
}

/// The result of a request.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumersAnswer {
    /// The change is made.
    Done,
    /// Whether there are consumers.
    HasAny(bool),
    /// The writer's generation.
    Opened(i64),
    /// Some consumers.
    Page(ConsumersPage),
}

/// Why a request was refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ConsumersError {
    /// There is no such topic, as far as this node knows.
    #[error("there is no such topic")]
    UnknownStream,
    /// A newer leader of the stream has opened its consumers.
    #[error("a newer leader has opened the consumers: the epoch is {current}, the request's is {found}")]
    FencedEpoch {
        /// The epoch of that leader.
        current: i32,
        /// The request's epoch.
        found: i32,
    },
    /// The consumers were opened since.
    #[error("the consumers' generation is {current}, the request's is {found}")]
    FencedGeneration {
        /// The current generation.
        current: i64,
        /// The request's generation.
        found: i64,
    },
    /// An update of a consumer that has no snapshot.
    #[error("the consumer '{0}' is not there")]
    NoConsumer(String),
    /// A name that no consumer can have.
    #[error("the name of a consumer is empty or longer than {NAME_BYTES_MAX} bytes")]
    Name,
}

/// The reply to a [`ConsumersRequest`].
pub type ConsumersReply = Result<ConsumersAnswer, ConsumersError>;

/// Work to be done elsewhere. This coordinator has none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConsumersWork {}

/// The coordinator. See the module's documentation.
#[derive(Clone, Debug, Default)]
pub struct ConsumersCoordinator {
    streams: BTreeMap<TopicId, Stream>,
}

impl ConsumersCoordinator {
    /// Makes an empty coordinator.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of consumers.
    pub fn len(&self) -> usize {
        self.streams.values().map(|stream| stream.consumers.len()).sum()
    }

    /// Reports whether there are no consumers.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    fn answer(
        &mut self,
        request: ConsumersRequest,
        moment: &Moment<'_>,
        records: &mut Vec<CoordinatorRecord>,
    ) -> ConsumersReply {
        match request {
            ConsumersRequest::HasAny { topic } => {
                let has_any = self.streams.get(&topic).is_some_and(|stream| !stream.consumers.is_empty());
                Ok(ConsumersAnswer::HasAny(has_any))
            }
            ConsumersRequest::Open { topic, leader_epoch } => {
                self.open(topic, leader_epoch, moment, records).map(ConsumersAnswer::Opened)
            }
            ConsumersRequest::Read { topic, generation, after } => {
                Ok(ConsumersAnswer::Page(self.fenced(topic, generation)?.page(&after)))
            }
            ConsumersRequest::Write { topic, generation, sequence, write } => {
                self.write(topic, generation, sequence, write, records)?;
                Ok(ConsumersAnswer::Done)
            }
        }
    }

    fn open(
        &mut self,
        topic: TopicId,
        leader_epoch: i32,
        moment: &Moment<'_>,
        records: &mut Vec<CoordinatorRecord>,
    ) -> Result<i64, ConsumersError> {
        if moment.image.topic_by_id(topic).is_none() {
            return Err(ConsumersError::UnknownStream);
        }
        let stream = self.streams.entry(topic).or_default();
        let current = stream.leader.leader_epoch;
        if leader_epoch < current {
            return Err(ConsumersError::FencedEpoch { current, found: leader_epoch });
        }
        let generation = moment.generations.next();
        stream.leader = ConsumersLeaderValue { leader_epoch, generation, sequence: 0 };
        // Durable, because the next coordinator has to refuse the others, too.
        records.push(leader_record(topic, stream.leader));
        Ok(generation)
    }

    fn fenced(&mut self, topic: TopicId, generation: i64) -> Result<&mut Stream, ConsumersError> {
        let stream = self.streams.get_mut(&topic);
        let current = stream.as_ref().map_or(0, |stream| stream.leader.generation);
        let stream = stream.filter(|_| current == generation);
        stream.ok_or(ConsumersError::FencedGeneration { current, found: generation })
    }

    fn write(
        &mut self,
        topic: TopicId,
        generation: i64,
        sequence: i64,
        write: ConsumersWrite,
        records: &mut Vec<CoordinatorRecord>,
    ) -> Result<(), ConsumersError> {
        let stream = self.fenced(topic, generation)?;
        // It has come twice, or a later one was faster.
        if sequence <= stream.leader.sequence {
            return Ok(());
        }
        let names = write.deleted.iter().chain(write.changed.iter().map(|change| &change.name));
        if names.into_iter().any(|name| name.is_empty() || name.len() > NAME_BYTES_MAX) {
            return Err(ConsumersError::Name);
        }
        if let Some(name) = stream.stranger(&write) {
            return Err(ConsumersError::NoConsumer(name.to_owned()));
        }
        for name in &write.deleted {
            records.extend(tombstones(topic, name));
        }
        records.extend(write.changed.iter().map(|change| consumer_record(topic, change)));
        stream.apply(write);
        stream.leader.sequence = sequence;
        records.push(leader_record(topic, stream.leader));
        Ok(())
    }

    fn replay_record(&mut self, key: &[u8], value: Option<&[u8]>) -> Result<(), InternalRecordError> {
        let StreamConsumersKey { topic_id, kind } = StreamConsumersKey::decode(key)?;
        let topic = TopicId(topic_id);
        let Some(value) = value else {
            self.replay_tombstone(topic, kind);
            return Ok(());
        };
        match kind {
            StreamConsumersKind::Leader => {
                self.streams.entry(topic).or_default().leader = ConsumersLeaderValue::decode(value)?;
            }
            StreamConsumersKind::Snapshot(name) => {
                let ConsumerSnapshotValue { stream, config, created_ns, state } =
                    ConsumerSnapshotValue::decode(value)?;
                let whole = Some(WholeConsumer { stream, config, created_ns });
                self.replay_change(topic, ConsumerWrite { name, whole, state: (&*state).into() });
            }
            StreamConsumersKind::Update(name) => {
                let ConsumerUpdateValue { state } = ConsumerUpdateValue::decode(value)?;
                self.replay_change(topic, ConsumerWrite { name, whole: None, state: (&*state).into() });
            }
        }
        Ok(())
    }

    fn replay_change(&mut self, topic: TopicId, change: ConsumerWrite) {
        let stream = self.streams.entry(topic).or_default();
        stream.apply(ConsumersWrite { deleted: Vec::new(), changed: vec![change] });
    }

    fn replay_tombstone(&mut self, topic: TopicId, kind: StreamConsumersKind) {
        match kind {
            StreamConsumersKind::Leader => {
                self.streams.remove(&topic);
            }
            StreamConsumersKind::Snapshot(name) => {
                if let Some(stream) = self.streams.get_mut(&topic) {
                    stream.consumers.remove(&name);
                }
            }
            // It is always together with that of the snapshot.
            StreamConsumersKind::Update(_) => {}
        }
    }
}

fn record(topic: TopicId, kind: StreamConsumersKind, value: Option<Bytes>) -> CoordinatorRecord {
    CoordinatorRecord { key: StreamConsumersKey { topic_id: topic.0, kind }.encode(), value }
}

fn leader_record(topic: TopicId, leader: ConsumersLeaderValue) -> CoordinatorRecord {
    record(topic, StreamConsumersKind::Leader, Some(leader.encode()))
}

fn consumer_record(topic: TopicId, change: &ConsumerWrite) -> CoordinatorRecord {
    let (name, state) = (change.name.clone(), Bytes::copy_from_slice(&change.state));
    let Some(whole) = &change.whole else {
        let value = ConsumerUpdateValue { state }.encode();
        return record(topic, StreamConsumersKind::Update(name), Some(value));
    };
    let WholeConsumer { stream, config, created_ns } = whole.clone();
    let value = ConsumerSnapshotValue { stream, config, created_ns, state }.encode();
    record(topic, StreamConsumersKind::Snapshot(name), Some(value))
}

/// Returns the tombstones of a consumer. That of the snapshot is first: an update without its snapshot has no
/// meaning, and a snapshot without its update would be an older state.
fn tombstones(topic: TopicId, name: &str) -> [CoordinatorRecord; 2] {
    let kinds =
        [StreamConsumersKind::Snapshot(name.to_owned()), StreamConsumersKind::Update(name.to_owned())];
    kinds.map(|kind| record(topic, kind, None))
}

impl Coordinator for ConsumersCoordinator {
    type Event = ConsumersEvent;
    type Reply = ConsumersReply;
    type Work = ConsumersWork;

    fn replay(&mut self, entry: Replayed<'_>) -> Result<(), ReplayError> {
        // This log has no transactional records.
        let Replayed::Record { key, value, .. } = entry else { return Ok(()) };
        self.replay_record(key, value).map_err(|error| ReplayError(error.to_string()))
    }

    /// Drops what was kept of streams that were deleted before the coordinator was loaded.
    fn loaded(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        self.metadata_changed(moment)
    }

    fn metadata_changed(&mut self, moment: &Moment<'_>) -> Effects<Self> {
        let mut records = Vec::new();
        self.streams.retain(|topic, stream| {
            let is_there = moment.image.topic_by_id(*topic).is_some();
            if !is_there {
                records.extend(stream.consumers.keys().flat_map(|name| tombstones(*topic, name)));
                records.push(record(*topic, StreamConsumersKind::Leader, None));
            }
            is_there
        });
        let mut effects = Effects::default();
        effects.append_in_batches(None, records);
        effects
    }

    fn step(&mut self, event: Self::Event, moment: &Moment<'_>) -> Effects<Self> {
        let mut records = Vec::new();
        let reply = self.answer(event.request, moment, &mut records);
        let mut effects = Effects::reply(event.token, reply);
        effects.append_in_batches(None, records);
        effects
    }

    fn deadline(&self) -> Option<TimestampMs> {
        None
    }

    fn tick(&mut self, _moment: &Moment<'_>) -> Effects<Self> {
        Effects::default()
    }
}
