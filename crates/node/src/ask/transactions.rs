//! Asks the coordinator of a transaction whether partitions belong to it, or adds them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::TransactionError;
use tailrace_types::TopicPartition;

use super::named::NamedPartition;
use crate::coordinators::CoordinatorFailure;

/// Asks whether the partitions are in the transaction.
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EnterTransaction {
    pub(super) transactional_id: String,
    pub(super) producer: i64,
    pub(super) epoch: i16,
    pub(super) partitions: Vec<NamedPartition>,
    /// Adds the partitions that are not in it yet.
    pub(super) adds: bool,
}

/// The coordinator's answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entered {
    /// All are in the transaction.
    All,
    /// Some are not, and the question did not ask to add them.
    NotAll,
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotEntered {
    /// The coordinator refuses the question.
    #[error(transparent)]
    Refused(TransactionError),
    /// No coordinator is available.
    #[error(transparent)]
    Coordinator(CoordinatorFailure),
    /// The coordinator's node does not know one of the partitions, perhaps because its metadata is old. It
    /// could not write the marker there.
    #[error("the transaction's coordinator does not know {0}")]
    UnknownPartition(String),
}

impl EnterTransaction {
    /// Makes the question. `adds`: add the partitions to the transaction instead of only looking them up.
    pub fn new(
        transactional_id: String,
        producer: TransactionalProducer,
        partitions: &BTreeSet<TopicPartition>,
        adds: bool,
    ) -> Self {
        let partitions = partitions.iter().map(NamedPartition::from).collect();
        let TransactionalProducer { id, epoch } = producer;
        Self { transactional_id, producer: id.get(), epoch: epoch.get(), partitions, adds }
    }
}
