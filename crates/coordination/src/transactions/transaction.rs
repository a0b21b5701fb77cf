//! A transactional id: its producer, and its transaction, which is open, ending, or ended.

use std::collections::BTreeSet;

use tailrace_records::internal::{TransactionLogKey, TransactionLogPartitions, TransactionLogValue};
use tailrace_types::{PartitionId, ProducerEpoch, ProducerId, TimestampMs, TopicName, TopicPartition};

use super::state::TransactionState;
use crate::coordinator::{CoordinatorRecord, ReplayError, TransactionalProducer};

/// From this epoch on, a producer id is exhausted, and the producer continues with another id. The epoch
/// above it is never given to a client, so that one is always left for fencing.
const EPOCH_LAST: i16 = i16::MAX - 1;

/// The version of a client's transaction protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum TransactionProtocol {
    /// All transactions of a producer share one epoch.
    Classic,
    /// Each transaction has its own epoch (KIP-890, `transaction.version=2`), so that no delayed request can
    /// affect a later transaction.
    EpochPerTransaction,
}

impl TransactionProtocol {
    /// Returns the feature level, as stored in the log.
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

/// The state of one transactional id.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Transaction {
    pub(super) state: TransactionState,
    pub(super) producer: TransactionalProducer,
    /// The producer's previous id. Also `None` if the coordinator itself ended the last transaction: then no
    /// request of the producer can be a repetition of the one that ended it.
    pub(super) previous_id: Option<ProducerId>,
    /// The id that replaces the current one, with epoch 0, when the prepared transaction is complete.
    pub(super) next_id: Option<ProducerId>,
    /// The previous epoch, if the client that got the current epoch sent it. Not stored in the log.
    pub(super) last_epoch: Option<ProducerEpoch>,
    pub(super) timeout_ms: i32,
    pub(super) partitions: BTreeSet<TopicPartition>,
    /// The time at which the first partition was added. Kept until the next transaction.
    pub(super) started: Option<TimestampMs>,
    pub(super) updated: TimestampMs,
    pub(super) protocol: TransactionProtocol,
}

/// Reports whether no further epoch of this producer id may be given to a client.
pub(super) const fn is_exhausted(epoch: ProducerEpoch) -> bool {
    epoch.get() >= EPOCH_LAST
}

/// Returns the next epoch, or the same one at the maximum.
fn bumped(epoch: ProducerEpoch) -> ProducerEpoch {
    ProducerEpoch(epoch.get().saturating_add(1))
}

impl Transaction {
    /// Makes the state of a transactional id that is new, or has expired.
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

    /// Returns the state with no open transaction, in which the producer continues as `producer`.
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

    /// Returns the same producer id with the next epoch.
    pub(super) fn next_generation(&self) -> TransactionalProducer {
        TransactionalProducer { id: self.producer.id, epoch: bumped(self.producer.epoch) }
    }

    /// Returns the state with `added` partitions. Starts a transaction if none is open.
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

    /// Returns the state after its producer has decided the outcome, in the protocol with a shared epoch.
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

    /// Returns the state after its producer has decided the outcome, with the epoch of the next transaction.
    /// `fresh` is the new producer id if the epochs are exhausted.
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

    /// Returns the state after an abort by the coordinator, because of a timeout or InitProducerId.
    ///
    /// As in Kafka, the result looks as if the producer had aborted. If the producer then asks for the abort,
    /// or for a new epoch, it succeeds and continues. If it asks for the commit, it is told that it is too
    /// late. Without an epoch to continue with it is fenced, and needs a new producer id.
    pub(super) fn aborted(&self, fresh: Option<ProducerId>, now: TimestampMs) -> Self {
        let aborted = self.ended_with_bump(false, fresh, now);
        match is_exhausted(self.producer.epoch) && fresh.is_none() {
            true => Self { previous_id: None, last_epoch: None, ..aborted },
            false => aborted,
        }
    }

    /// Returns the state after all markers are written.
    ///
    /// # Panics
    /// If the transaction is not prepared.
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

    /// Returns the producer after a prepared transaction is complete, for the reply to EndTxn.
    pub(super) fn successor(&self) -> TransactionalProducer {
        match self.next_id {
            Some(id) => TransactionalProducer { id, epoch: ProducerEpoch(0) },
            None => self.producer,
        }
    }

    /// Reports whether the EndTxn of `producer` led to the current epoch (KIP-890).
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

    /// Returns the time at which the open transaction is aborted.
    pub(super) fn times_out_at(&self) -> Option<TimestampMs> {
        let started = self.started.filter(|_| self.state == TransactionState::Ongoing)?;
        Some(TimestampMs(started.0.saturating_add(self.timeout_ms.into())))
    }

    /// Returns the record of this state.
    pub(super) fn record(&self, transactional_id: &str) -> CoordinatorRecord {
        let mut topics: Vec<TransactionLogPartitions> = Vec::new();
        // They are ordered, so the partitions of a topic are adjacent.
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

    /// Restores the state from a record.
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

/// Returns the key of a transactional id's records.
pub(super) fn key(transactional_id: &str) -> bytes::Bytes {
    TransactionLogKey { transactional_id: transactional_id.to_owned() }.encode()
}
