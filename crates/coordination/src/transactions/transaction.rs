//! One transactional id: its producer, and the transaction that is open, ending, or last ended.

use std::collections::BTreeSet;

use tailrace_records::internal::{TransactionLogKey, TransactionLogPartitions, TransactionLogValue};
use tailrace_types::{PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName, TopicPartition};

use super::state::TransactionState;
use crate::coordinator::{CoordinatorRecord, ReplayError, TransactionalProducer};

/// From this epoch on, a producer id is used up: its next generation begins with another id. The epoch above it is
/// never given to a client, so that there is always one left to fence it with.
const EPOCH_LAST: i16 = i16::MAX - 1;

/// Which version of the transaction protocol a client speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionProtocol {
    /// All transactions of a producer share one epoch.
    Classic,
    /// Each transaction has an epoch of its own (KIP-890, `transaction.version=2`), so that no delayed request can
    /// touch a later one.
    EpochPerTransaction,
}

impl TransactionProtocol {
    /// The feature level, as it is in the log.
    const fn level(self) -> i16 {
        match self {
            Self::Classic => 0,
            Self::EpochPerTransaction => 2,
        }
    }

    const fn from_level(level: i16) -> Self {
        if level >= 2 { Self::EpochPerTransaction } else { Self::Classic }
    }
}

/// What is known of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) state: TransactionState,
    pub(super) producer: TransactionalProducer,
    /// The id that the producer had before. `None` too if the coordinator ended the last transaction itself: then no
    /// request of the producer can be a repetition of the one that ended it.
    pub(super) previous_id: Option<ProducerId>,
    /// The id that takes over, with epoch 0, when the prepared transaction is complete.
    pub(super) next_id: Option<ProducerId>,
    /// The epoch before the present one, if the client that got the present one presented it. Not in the log.
    pub(super) last_epoch: Option<ProducerEpoch>,
    pub(super) timeout_ms: i32,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// When the first partition was added; kept until the next transaction.
    pub(super) started: Option<TimestampMs>,
    pub(super) updated: TimestampMs,
    pub(super) protocol: TransactionProtocol,
}

/// True if no further epoch of this producer id may be given to a client.
pub(super) const fn is_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.get() >= EPOCH_LAST
}

/// The epoch above; the highest one stays.
fn bumped(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch(epoch.get().saturating_add(1))
}

impl Transaction {
    /// A transactional id that was never seen, or was forgotten.
    pub(super) fn new(id: ProducerId, timeout_ms: i32, now: TimestampMs) -> Self {
        Self {
            state: TransactionState::Empty,
            producer: TransactionalProducer { id, epoch: ProducerEpoch(0) },
            previous_id: None,
            next_id: None,
            last_epoch: None,
            timeout_ms,
            partitions: BTreeSet::new(),
            started: None,
            updated: now,
            protocol: TransactionProtocol::EpochPerTransaction,
        }
    }

    /// Nothing is open, and the producer goes on as `producer`.
    pub(super) fn initialized(
        &self,
        producer: TransactionalProducer,
        last_epoch: Option<ProducerEpoch>,
        timeout_ms: i32,
        now: TimestampMs,
    ) -> Self {
        Self {
            previous_id: Some(self.producer.id),
            last_epoch,
            protocol: self.protocol,
            ..Self { producer, ..Self::new(producer.id, timeout_ms, now) }
        }
    }

    /// The next generation of the same producer id.
    pub(super) fn next_generation(&self) -> TransactionalProducer {
        TransactionalProducer { id: self.producer.id, epoch: bumped(self.producer.epoch) }
    }

    /// With `added` in it, begun if none was open.
    pub(super) fn with_partitions(
        &self,
        added: impl IntoIterator<Item = TopicPartition>,
        protocol: TransactionProtocol,
        now: TimestampMs,
    ) -> Self {
        let mut next = Self {
            state: TransactionState::Ongoing,
            previous_id: Some(self.producer.id),
            protocol,
            updated: now,
            ..self.clone()
        };
        if self.state != TransactionState::Ongoing {
            next.started = Some(now);
        }
        next.partitions.extend(added);
        next
    }

    /// Decided by its producer, in a protocol where transactions share an epoch.
    pub(super) fn ended(&self, committed: bool, now: TimestampMs) -> Self {
        Self {
            state: prepared(committed),
            previous_id: Some(self.producer.id),
            next_id: None,
            protocol: TransactionProtocol::Classic,
            updated: now,
            ..self.clone()
        }
    }

    /// Decided by its producer, with the epoch that begins the next transaction. `fresh` is the id that takes over if
    /// the epochs are used up.
    pub(super) fn ended_with_bump(
        &self,
        committed: bool,
        fresh: Option<ProducerId>,
        now: TimestampMs,
    ) -> Self {
        Self {
            state: prepared(committed),
            producer: self.next_generation(),
            previous_id: Some(self.producer.id),
            next_id: if is_exhausted(self.producer.epoch) { fresh } else { None },
            last_epoch: Some(self.producer.epoch),
            started: if self.state == TransactionState::Ongoing { self.started } else { Some(now) },
            protocol: TransactionProtocol::EpochPerTransaction,
            updated: now,
            ..self.clone()
        }
    }

    /// Aborted without its producer: because it took too long, or because InitProducerId came.
    ///
    /// As in Kafka it looks as if the producer had done it: one that asks for the abort, or for a new epoch, is told that it was done, and
    /// goes on. One that asks for the commit is told that it is too late.
    /// Without an epoch to go on with it is fenced off, and needs a producer id.
    pub(super) fn aborted(&self, fresh: Option<ProducerId>, now: TimestampMs) -> Self {
        let aborted = self.ended_with_bump(false, fresh, now);
        match is_exhausted(self.producer.epoch) && fresh.is_none() {
            true => Self { previous_id: None, last_epoch: None, ..aborted },
            false => aborted,
        }
    }

    /// All its markers are written.
    ///
    /// # Panics
    /// If it is not prepared.
    pub(super) fn complete(&self, now: TimestampMs) -> Self {
        let state = match self.state {
            TransactionState::PrepareCommit => TransactionState::CompleteCommit,
            TransactionState::PrepareAbort => TransactionState::CompleteAbort,
            other => panic!("a transaction in the state {} cannot be completed", other.name()),
        };
        let rotated = |id| TransactionalProducer { id, epoch: ProducerEpoch(0) };
        Self {
            state,
            producer: self.next_id.map_or(self.producer, rotated),
            next_id: None,
            partitions: BTreeSet::new(),
            updated: now,
            ..self.clone()
        }
    }

    /// Who goes on when a prepared transaction is complete: what EndTxn answers.
    pub(super) fn successor(&self) -> TransactionalProducer {
        match self.next_id {
            Some(id) => TransactionalProducer { id, epoch: ProducerEpoch(0) },
            None => self.producer,
        }
    }

    /// True if `producer` is the generation whose EndTxn brought about the present one (KIP-890).
    pub(super) fn was_ended_by(&self, producer: TransactionalProducer) -> bool {
        let Some(previous) = self.previous_id.filter(|&previous| previous == producer.id) else {
            return false;
        };
        let rotated = self.producer.id != previous
            && self.producer.epoch == ProducerEpoch(0)
            && producer.epoch == ProducerEpoch(EPOCH_LAST);
        let bumped_once = self.producer.id == producer.id
            && i32::from(self.producer.epoch.get()) == i32::from(producer.epoch.get()) + 1;
        rotated || bumped_once
    }

    /// When the open transaction is aborted if nobody ends it.
    pub(super) fn times_out_at(&self) -> Option<TimestampMs> {
        let started = self.started.filter(|_| self.state == TransactionState::Ongoing)?;
        Some(TimestampMs(started.0.saturating_add(self.timeout_ms.into())))
    }

    /// The record that says all this.
    pub(super) fn record(&self, transactional_id: &str) -> CoordinatorRecord {
        let mut topics: Vec<TransactionLogPartitions> = Vec::new();
        // In order, so the partitions of a topic follow each other.
        for partition in &self.partitions {
            let (topic, number) = (partition.topic.as_str(), partition.partition.0);
            match topics.last_mut().filter(|last| last.topic == topic) {
                Some(last) => last.partitions.push(number),
                None => topics
                    .push(TransactionLogPartitions { topic: topic.to_owned(), partitions: vec![number] }),
            }
        }
        let value = TransactionLogValue {
            producer_id: self.producer.id.get(),
            previous_producer_id: self.previous_id.map_or(-1, ProducerId::get),
            next_producer_id: self.next_id.map_or(-1, ProducerId::get),
            producer_epoch: self.producer.epoch.get(),
            next_producer_epoch: -1,
            timeout_ms: self.timeout_ms,
            status: self.state.number(),
            partitions: (self.state != TransactionState::Empty).then_some(topics),
            last_update_ms: self.updated.0,
            start_ms: self.started.map_or(-1, |started| started.0),
            client_transaction_version: self.protocol.level(),
        };
        CoordinatorRecord {
            key: key(transactional_id),
            value: Some(value.encode(TransactionLogValue::HIGHEST_VERSION)),
        }
    }

    /// What a record says.
    pub(super) fn from_record(value: &[u8]) -> Result<Self, ReplayError> {
        let value = TransactionLogValue::decode(value).map_err(|error| ReplayError(error.to_string()))?;
        let state = TransactionState::stored(value.status)
            .ok_or_else(|| ReplayError(format!("a transaction has the unknown state {}", value.status)))?;
        let mut partitions = BTreeSet::new();
        for topic in value.partitions.unwrap_or_default() {
            let name = TopicName::new(&topic.topic)
                .map_err(|error| ReplayError(format!("a transaction's topic {:?}: {error}", topic.topic)))?;
            let numbers = topic.partitions.into_iter();
            partitions.extend(numbers.map(|number| TopicPartition::new(name.clone(), PartitionId(number))));
        }
        let id = |id: i64| (id >= 0).then_some(ProducerId(id));
        Ok(Self {
            state,
            producer: TransactionalProducer {
                id: ProducerId(value.producer_id),
                epoch: ProducerEpoch(value.producer_epoch),
            },
            previous_id: id(value.previous_producer_id),
            next_id: id(value.next_producer_id),
            last_epoch: None,
            timeout_ms: value.timeout_ms,
            partitions,
            started: (value.start_ms >= 0).then_some(TimestampMs(value.start_ms)),
            updated: TimestampMs(value.last_update_ms),
            protocol: TransactionProtocol::from_level(value.client_transaction_version),
        })
    }
}

const fn prepared(committed: bool) -> TransactionState {
    if committed { TransactionState::PrepareCommit } else { TransactionState::PrepareAbort }
}

/// The key of a transactional id's records.
pub(super) fn key(transactional_id: &str) -> bytes::Bytes {
    TransactionLogKey { transactional_id: transactional_id.to_owned() }.encode()
}
