//! Asks the coordinator of a transaction, on this node or another, whether partitions belong to it.

use std::collections::BTreeSet;
use std::sync::Arc;

use tailrace_coordination::coordinator::TransactionalProducer;
use tailrace_coordination::transactions::{
    AddPartitions, TransactionEvent, TransactionProtocol, TransactionReply, VerifyPartitions,
};
use tailrace_types::{NodeId, ProducerEpoch, ProducerId, TopicPartition};

use super::Answers;
use crate::ask::named::NamedPartition;
use crate::ask::{EnterTransaction, Entered, NotEntered, ask};
use crate::caller::Caller;
use crate::coordinators::CoordinatorFailure;
use crate::node::Node;

impl EnterTransaction {
    /// Returns the partitions of the question, all of which must be known on this node.
    fn known_partitions(&self, node: &Node) -> Result<BTreeSet<TopicPartition>, NotEntered> {
        let topics = node.topics();
        let known = |named: &NamedPartition| {
            let is_there = topics.by_name(&named.0).is_some_and(|topic| topic.has(named.1));
            let unknown = || NotEntered::UnknownPartition(format!("{}-{}", named.0, named.1));
            named.partition().filter(|_| is_there).ok_or_else(unknown)
        };
        self.partitions.iter().map(known).collect()
    }
}

impl Answers for EnterTransaction {
    async fn answer(self, node: &Arc<Node>, caller: &Caller) -> Result<Entered, NotEntered> {
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
        let submitted = node.coordinators.transactions.submit(node, caller, &transactional_id, event).await;
        let reply = match submitted {
            Ok(pending) => pending.reply().await,
            Err(failure) => Err(failure),
        };
        match reply.map_err(NotEntered::Coordinator)? {
            TransactionReply::Added => Ok(Entered::All),
            TransactionReply::Verified { missing } if missing.is_empty() => Ok(Entered::All),
            TransactionReply::Verified { .. } => Ok(Entered::NotAll),
            TransactionReply::Refused(error) => {
                tracing::debug!(%caller, transactional_id, %error, "a producer may not enter a transaction");
                Err(NotEntered::Refused(error))
            }
            reply => {
                tracing::error!(?reply, "the transaction coordinator gave an unexpected answer");
                let reason = "the coordinator gave an unexpected answer".to_owned();
                Err(NotEntered::Coordinator(CoordinatorFailure::Unavailable(reason)))
            }
        }
    }
}

/// Asks the transaction's coordinator, on this node or another.
///
/// # Errors
/// [`NotEntered`]. A node that does not answer counts as an unavailable coordinator.
pub async fn enter_transaction(
    here: &Arc<Node>,
    caller: &Caller,
    question: EnterTransaction,
) -> Result<Entered, NotEntered> {
    let elsewhere = here.coordinators.transactions.elsewhere(here, caller, &question.transactional_id).await;
    let unavailable = |node: NodeId, error: String| {
        tracing::warn!(%node, %error, "could not ask a transaction's coordinator");
        NotEntered::Coordinator(CoordinatorFailure::Unavailable(error))
    };
    match elsewhere.map_err(NotEntered::Coordinator)? {
        None => question.answer(here, caller).await,
        Some(node) => {
            let asked = ask(&here.links, caller, node, question).await;
            asked.map_err(|error| unavailable(node, error.to_string()))?
        }
    }
}
