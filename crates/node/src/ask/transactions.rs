//! Partitions of a transaction: its coordinator says whether they are in it, or adds them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::TransactionError;
use tailrace_types::TopicPartition;

use super::named::NamedPartition;
use crate::coordinators::CoordinatorFailure;

/// Are the partitions in the transaction?
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EnterTransaction {
    pub(super) transactional_id: String,
    pub(super) producer: i64,
    pub(super) epoch: i16,
    pub(super) partitions: Vec<NamedPartition>,
    /// If they are not, they become so.
    pub(super) adds: bool,
}

/// What the coordinator says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Entered {
    /// All are in the transaction.
    All,
    /// Some are not, and were not to be added.
    NotAll,
}

/// Why the coordinator has no answer.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum NotEntered {
    /// The coordinator refuses it.
    #[error(transparent)]
    Refused(TransactionError),
    /// There is no coordinator that could decide.
    #[error(transparent)]
    Coordinator(CoordinatorFailure),
    /// The coordinator's node does not know one of the partitions: its metadata may be old. It could not end the transaction there.
    #[error("the transaction's coordinator does not know {0}")]
    UnknownPartition(String),
}

impl EnterTransaction {
    /// `adds`: the partitions are to become part of the transaction, and not only be looked up.
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
