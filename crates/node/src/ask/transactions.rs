//! Partitions of a transaction: its coordinator says whether they are in it, or adds them.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{
    AddPartitions, TransactionError, TransactionEvent, TransactionProtocol, TransactionReply,
    VerifyPartitions,
};
use tailrace_types::{NodeId, ProducerEpoch, ProducerId, TopicPartition};

use super::{AnyQuestion, NamedPartition, Question, STEP_TIMEOUT, ask};
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;

/// Are the partitions in the transaction?
#[derive(Clone, Debug, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub struct EnterTransaction {
    transactional_id: String,
    producer: i64,
    epoch: i16,
    partitions: Vec<NamedPartition>,
    /// If they are not, they become so.
    adds: bool,
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

    /// The partitions, all of which are known here.
    fn known_partitions(&self, node: &Node) -> Result<BTreeSet<TopicPartition>, NotEntered> {
        let topics = node.topics();
        let known = |named: &NamedPartition| {
            let is_there = topics.by_name(&named.0).is_some_and(|topic| topic.partition(named.1).is_some());
            let unknown = || NotEntered::UnknownPartition(format!("{}-{}", named.0, named.1));
            named.partition().filter(|_| is_there).ok_or_else(unknown)
        };
        self.partitions.iter().map(known).collect()
    }
}

impl Question for EnterTransaction {
    type Answer = Result<Entered, NotEntered>;

    const TIMEOUT: Duration = STEP_TIMEOUT;

    fn on_the_wire(self) -> AnyQuestion {
        AnyQuestion::EnterTransaction(self)
    }

    async fn answer(self, node: &Arc<Node>) -> Result<Entered, NotEntered> {
        let partitions = self.known_partitions(node)?;
        let Self { transactional_id, adds, .. } = self;
        let producer =
            TransactionalProducer { id: ProducerId(self.producer), epoch: ProducerEpoch(self.epoch) };
        let id = transactional_id.clone();
        let event = move |token| {
            let (transactional_id, partitions) = (id.clone(), partitions.clone());
            if adds {
                let protocol = TransactionProtocol::EpochPerTransaction;
                TransactionEvent::Add(AddPartitions {
                    token,
                    transactional_id,
                    producer,
                    partitions,
                    protocol,
                })
            } else {
                TransactionEvent::Verify(VerifyPartitions { token, transactional_id, producer, partitions })
            }
        };
        let submitted = node.coordinators.transactions.submit(node, &transactional_id, event).await;
        let reply = match submitted {
            Ok(pending) => pending.reply().await,
            Err(failure) => Err(failure),
        };
        match reply.map_err(NotEntered::Coordinator)? {
            TransactionReply::Added => Ok(Entered::All),
            TransactionReply::Verified { missing } if missing.is_empty() => Ok(Entered::All),
            TransactionReply::Verified { .. } => Ok(Entered::NotAll),
            TransactionReply::Refused(error) => Err(NotEntered::Refused(error)),
            reply => {
                tracing::error!(?reply, "the coordinator of transactions gave an answer that does not fit");
                let reason = "the coordinator gave an answer that does not fit".to_owned();
                Err(NotEntered::Coordinator(CoordinatorFailure::Unavailable(reason)))
            }
        }
    }
}

/// Asks the transaction's coordinator, here or elsewhere.
///
/// # Errors
/// [`NotEntered`]. A node that does not answer is a coordinator that is not available.
pub async fn enter_transaction(here: &Arc<Node>, question: EnterTransaction) -> Result<Entered, NotEntered> {
    let elsewhere = here.coordinators.transactions.elsewhere(here, &question.transactional_id).await;
    let unavailable = |node: NodeId, error: String| {
        tracing::warn!(%node, %error, "a transaction's coordinator could not be asked");
        NotEntered::Coordinator(CoordinatorFailure::Unavailable(error))
    };
    match elsewhere.map_err(NotEntered::Coordinator)? {
        None => question.answer(here).await,
        Some(node) => {
            let asked = ask(&here.links, node, question).await;
            asked.map_err(|error| unavailable(node, error.to_string()))?
        }
    }
}
